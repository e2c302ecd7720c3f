"""The exhibits' figures as files of vectors: drawn from the tables behind them, once.

A notebook's output, or a page's, is one raster of the picture. What a reader takes along is drawn
anew from the exhibit's tables by its own ``draw``. That takes a second each, so the files are kept,
under a digest of the tables and of all code that the drawing can run.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from companion.study import registry
from companion.study.engines import end_with_parent
from companion.study.exhibits import find_exhibit
from companion.study.files import write_atomically
from companion.study.records import (
    PICTURES,
    NoPicture,
    RecordError,
    read_content,
    read_record,
    read_tables,
)
from companion.study.sources import package_folder, sha256
from companion.study.tables import Tables

__all__ = [
    "FORMATS",
    "LIGHT",
    "Wanted",
    "call_each",
    "digests",
    "draw_files",
    "drawn_files",
    "save",
]

#: what every figure is written as, in the order in which a page offers it
FORMATS = ("svg", "pdf")
#: bytes of the largest figure that a page shows as vectors; points by the thousand are lighter as
#: a raster, which is written too
LIGHT = 200_000

#: pixels of a page to an inch: vectors are shown at the size at which notebooks show their pictures
_PIXELS = 110
#: nothing in a file tells when it was written; letters of a PDF stay letters
_SETTINGS = {
    "svg.hashsalt": "companion",
    "pdf.fonttype": 42,
    # with a layout engine, even an idle one, each file is drawn twice
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
}
_NO_DATE = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None}}
_POINTS = re.compile(r'\b(width|height)="([\d.]+)pt"')
#: inches left round what is drawn, as in notebooks
_PAD = 0.1


@dataclass(frozen=True)
class Wanted:
    """A figure to draw.

    Attributes
    ----------
    exhibit : str
        Its id.
    tables : Path
        The folder of its tables, of a quick run or a record.
    recorded : bool
        Whether it is a record.
    """

    exhibit: str
    tables: Path
    recorded: bool = False

    @property
    def name(self) -> str:
        """A folder for its files: ``hayes2023/fig4`` or ``hayes2023/fig4-recorded``."""
        return self.exhibit + "-recorded" * self.recorded

    def read(self) -> Tables:
        """Return its tables."""
        return read_record(self.tables).tables if self.recorded else read_tables(self.tables)

    @property
    def can_be_drawn(self) -> bool:
        """Whether there are a drawing and, if it asks for pictures, the pictures."""
        if not find_exhibit(self.exhibit).is_drawn or not self.tables.is_dir():
            return False
        if self.recorded or (self.tables / PICTURES).is_file():
            return True
        return not read_content(self.tables)["measured"]["images"]


def drawn_files(
    wanted: Sequence[Wanted], cache: Path, jobs: int = 1
) -> dict[str, Mapping[str, Path]]:
    """Draw figures, several at a time, except those that are there and unchanged.

    Parameters
    ----------
    wanted : sequence of Wanted
    cache : Path
        Folder that keeps the files.
    jobs : int
        Processes.

    Returns
    -------
    dict of str to mapping
        By name, its files by ending: ``FORMATS``, and ``png`` where vectors would be a heavy page.
        Figures that cannot be drawn are left out.

    Raises
    ------
    RecordError
        If tables lack what the drawing reads.
    """
    drawable = [one for one in wanted if one.can_be_drawn]
    folders = {one.name: cache / one.name for one in drawable}
    new = digests(drawable)
    old = [one for one in drawable if _kept(folders[one.name]) != new[one.name]]
    call_each(draw_files, [(one, folders[one.name], new[one.name]) for one in old], jobs)
    return {
        name: files
        for name, folder in folders.items()
        if (files := {p.suffix[1:]: p for p in sorted(folder.glob("figure.*"), reverse=True)})
    }


def call_each(function: Callable[..., object], arguments: Sequence[tuple], jobs: int) -> None:
    """Call a function with each of several tuples of arguments, in several processes."""
    if jobs == 1 or len(arguments) <= 1:
        for given in arguments:
            function(*given)
        return
    # fresh processes: a forked one would inherit locks that other threads hold
    fresh = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=end_with_parent) as pool:
        for task in [pool.submit(function, *given) for given in arguments]:
            task.result()


def draw_files(wanted: Wanted, folder: Path, digest: str = "") -> bool:
    """Draw one figure into a folder; return whether there is one.

    There is none if the exhibit has no figure, or one with pictures, which no record holds.

    Raises
    ------
    RecordError
        If the tables lack what the drawing reads.
    """
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    try:
        figure = find_exhibit(wanted.exhibit).draw(wanted.read())
        if figure is not None:
            save(figure, folder)
    except NoPicture:
        figure = None
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise RecordError(f"{wanted.exhibit}: its tables cannot be drawn: {error!r}") from error
    finally:
        plt.close("all")
    write_atomically(folder / "digest", digest.encode())
    return figure is not None


def save(figure: Figure, folder: Path) -> None:
    """Write a figure in every format; it is laid out once, which is most of the work."""
    with matplotlib.rc_context(_SETTINGS):
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
        figure.set_layout_engine(None)
        box = figure.get_tightbbox().padded(_PAD)
        for ending in FORMATS:
            path = folder / f"figure.{ending}"
            figure.savefig(path, dpi=_PIXELS, bbox_inches=box, metadata=_NO_DATE[ending])
        path = folder / "figure.svg"
        if path.stat().st_size > LIGHT:
            undated = {"Software": None}
            figure.savefig(path.with_suffix(".png"), dpi=_PIXELS, bbox_inches=box, metadata=undated)
    head, body = path.read_text(encoding="utf-8").split("<metadata>", 1)
    head = _POINTS.sub(lambda m: f'{m[1]}="{float(m[2]) * _PIXELS / 72:.2f}"', head)
    path.write_text(f"{head}<metadata>{body}", encoding="utf-8")


def _kept(folder: Path) -> str:
    """Return the digest under which a folder's files were drawn; empty if there are none."""
    path = folder / "digest"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def digests(wanted: Sequence[Wanted]) -> dict[str, str]:
    """Return by name a hash of an exhibit's tables and of all that acts on its figure and verdicts.

    Of the code that is everything but other papers, the book and the command line: to find what a
    drawing can reach would take as long as the drawing.
    """
    library = package_folder()
    left_out = [library / "companion" / name for name in ("papers", "book", "cli")]
    data = registry.project_root() / "data"
    shared = [Path(__file__), *sorted([*data.glob("paper/*/*.csv"), *data.glob("companion/*.csv")])]
    shared += [
        path
        for path in sorted(library.rglob("*.py"))
        if not any(path.is_relative_to(folder) for folder in left_out)
    ]
    common = f"{matplotlib.__version__} {_hash(shared)}"
    folders = {
        one.name: Path(find_exhibit(one.exhibit).file.__file__ or "").parent for one in wanted
    }
    papers = {folder: _hash(sorted(folder.glob("*.py"))) for folder in set(folders.values())}
    return {
        one.name: _text_hash(f"{common} {papers[folders[one.name]]} {_hash(_files(one.tables))}")
        for one in wanted
    }


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def _hash(files: Sequence[Path]) -> str:
    return _text_hash("\n".join(f"{path.name} {sha256(path)}" for path in files))


def _text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
