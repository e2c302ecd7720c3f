"""What an exhibit's ``measure`` returns: its tables, and what was measured with which data."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.study.parameters import Settings
from reconrisk import datasets


class MissingTable(KeyError):
    """A table that ``judge`` or ``draw`` reads was not measured, or not recorded."""


@dataclass(frozen=True)
class Origin:
    """What a run's data are: the paper's, a part of them, or stand-ins; true for stand-ins.

    Attributes
    ----------
    stand_ins, subsets : tuple of str
        As in :class:`Tables`.
    """

    stand_ins: tuple[str, ...] = ()
    subsets: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stand_ins)

    @property
    def part(self) -> str:
        """The part of the paper's data that was used, in words; empty for all of them."""
        return "" if self.stand_ins else " and ".join(self.subsets)

    @property
    def whole(self) -> bool:
        """Whether the data are all of the paper's, so that printed numbers may be expected."""
        return not self.stand_ins and not self.subsets


@dataclass(frozen=True)
class Tables(Mapping[str, pd.DataFrame]):
    """The tables of one exhibit, read by name: ``tables["success"]``.

    ``measure`` gives the first five; :func:`~companion.study.running.measurement` adds the rest.

    Attributes
    ----------
    frames : mapping of str to DataFrame
        By name. A record keeps each as a CSV file: the entries are numbers, booleans and strings,
        and the name is a valid file name.
    exact : sequence of str
        Names of the tables that hold no random number; nbval compares their digests.
    images : mapping of str to ndarray
        Pictures (height, width, 3) in [0, 1] before display; records keep none.
    ran : str
        One sentence: what was run, on which data.
    stand_ins : sequence of str
        What took the place of the paper's data or networks; empty if nothing did. ``measure``
        need not name those that show in parameters and data.
    subsets : sequence of str
        What part of the paper's data was used, such as ``"5,000 of MNIST's images"``.
    exhibit, profile, seed : str, str, int
        As run.
    parameters : Settings
        The exhibit's parameters, read as attributes (``tables.parameters.prior_size``).
    own_images : bool
        Whether a user's images took the place of every data set.
    shown : sequence of str
        Names of the tables that a page prints (the module's ``SHOWN``).

    Raises
    ------
    ValueError
        If the name of a table is not a valid file name.
    """

    frames: Mapping[str, pd.DataFrame]
    exact: Sequence[str] = ()
    images: Mapping[str, np.ndarray] = field(default_factory=dict)
    ran: str = ""
    stand_ins: Sequence[str] = ()
    subsets: Sequence[str] = ()
    exhibit: str = ""
    profile: str = ""
    seed: int = 0
    parameters: Settings = field(default_factory=lambda: Settings({}))
    own_images: bool = False
    shown: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in self.frames:
            if not re.fullmatch(r"[A-Za-z0-9][\w .-]*", name):
                raise ValueError(f"a table's name must be able to be a file's; got {name!r}")

    @property
    def stand_in(self) -> Origin:
        """Whether anything took the place of the paper's data or networks, and what part it was."""
        return Origin(tuple(self.stand_ins), tuple(self.subsets))

    def origin_of(self, *parameters: str) -> Origin:
        """Return what the data are that some parameters name, for a verdict about those alone.

        Examples
        --------
        >>> given = Settings({"digits": "MNIST-5000", "garments": "patches"})
        >>> tables = Tables({}, parameters=given, stand_ins=("garments = patches",))
        >>> tables.origin_of("digits").part, bool(tables.origin_of("digits", "garments"))
        ("5,000 of MNIST's images", True)
        """
        if self.own_images:
            return self.stand_in
        found = tuple(s for s in self.stand_ins if s.partition(" = ")[0] in parameters)
        samples = (datasets.SAMPLES.get(self.parameters.get(name, "")) for name in parameters)
        return Origin(found, tuple(sample.phrase for sample in samples if sample))

    def key_of(self, name: str) -> str:
        """Return the name that a table has here: those of a record are named by their files.

        Raises
        ------
        MissingTable
            If there is none.
        """
        for key in (name, file_stem(name)):
            if key in self.frames:
                return key
        raise MissingTable(f"{self.exhibit} has no table {name!r}; it has {', '.join(self.frames)}")

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.frames[self.key_of(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.frames or file_stem(str(name)) in self.frames

    def __iter__(self) -> Iterator[str]:
        return iter(self.frames)

    def __len__(self) -> int:
        return len(self.frames)

    def show(self, *names: str) -> None:
        """Display tables in a notebook: those named, or those the exhibit shows."""
        from IPython.display import display

        for name in names or self.shown:
            display(as_shown(self[name]), raw=True)


def file_stem(name: str) -> str:
    """Return the name of a table's CSV file, without its ending: hyphens for spaces."""
    return name.replace(" ", "-")


def csv_files(tables: Tables) -> dict[str, bytes]:
    """Return the CSV files of tables, by file name."""
    return {
        f"{file_stem(name)}.csv": table.to_csv(index=False, lineterminator="\n").encode()
        for name, table in tables.items()
    }


def exact_table(path: Path, texts: Sequence[str] = ()) -> pd.DataFrame:
    """Read a CSV file with exact floats, which some versions of pandas round in the last bit.

    Only an empty cell is a missing value: a defence may be called "None". Columns that ``texts``
    names hold strings, whatever they look like.
    """
    table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    read = pd.read_csv(path, dtype=str, keep_default_na=False)
    for name in table.columns:
        if name in texts:
            table[name] = read[name]
        elif pd.api.types.is_float_dtype(table[name].dtype):
            table[name] = [float(text or "nan") for text in read[name]]
    return table


def as_shown(table: pd.DataFrame) -> dict[str, Any]:
    """Return a table without its row numbers, as text (which nbval compares) and as HTML."""
    texts = [c for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    table = table.fillna(dict.fromkeys(texts, ""))  # an empty text, read from its file
    return {
        "text/plain": table.to_string(index=False),
        "text/html": table.to_html(index=False, border=0),
    }
