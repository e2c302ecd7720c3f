"""An exhibit is one file: ``companion/papers/<paper>/<name>.py``.

The file holds ``PARAMETERS``, ``SETTLES``, ``measure(study) -> Tables``, ``judge(tables)`` and, if
there is a figure, ``draw(tables)``, ``CAPTION`` (or ``caption(tables)``); and ``alt(tables)`` where
words say what the alternative text read off the figure cannot.
``ALTERED`` names the columns whose changes a verdict must notice
(:mod:`~companion.study.perturbations`); ``SCENARIOS`` and ``FALSIFIERS`` are altered tables on
which verdicts must come out otherwise (:mod:`~companion.study.falsifiers`). ``SHOWN`` names the
tables that a page prints, ``THUMBNAIL`` the part of a figure that the gallery shows if the whole
would be too small; ``PHOTOGRAPHS`` is true where the paper profile reads a folder of photographs.
Files are found by name: ``hayes2023/fig4`` is ``companion.papers.hayes2023.fig4``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from companion.study import inputs, own_images, registry
from companion.study.parameters import Parameter
from companion.study.perturbations import smallest_detectable
from companion.study.results import Result
from companion.study.tables import Tables
from companion.study.tasks import SweepError
from companion.study.verdicts import Verdict, VerdictError, on_images, raise_failed
from reconrisk import datasets

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.figure import Figure

    from companion.study.session import Context, Study

__all__ = [
    "Exhibit",
    "all_exhibits",
    "described",
    "file_of",
    "find_exhibit",
    "id_of",
    "judge",
    "judged",
    "measurement",
    "papers_built",
    "stand_ins",
    "subsets",
    "targets_of",
    "with_notices",
]

_PAPERS = "companion.papers"


def id_of(module: ModuleType | str) -> str:
    """Return the id of the exhibit that a module holds."""
    name = module if isinstance(module, str) else module.__name__
    return "/".join(name.split(".")[-2:])


@functools.cache
def file_of(exhibit_id: str) -> ModuleType | None:
    """Import the file of an exhibit; None if there is none of that name."""
    name = f"{_PAPERS}.{exhibit_id.replace('/', '.')}"
    if exhibit_id not in registry.exhibits():
        return None
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # there is no folder of the paper
        return None
    return importlib.import_module(name) if found is not None else None


@dataclass(frozen=True)
class Exhibit:
    """An exhibit's file and what it declares.

    Attributes
    ----------
    id : str
    file : module
        With ``measure``, ``judge`` and the rest, see :mod:`~companion.study.exhibits`.
    targets : frozenset of str
        Everything it settles.
    parameters : mapping
        Each :class:`Parameter` by name.
    photographs : bool
        Whether its paper profile reads a folder of photographs.
    """

    id: str
    file: ModuleType
    targets: frozenset[str]
    parameters: Mapping[str, Parameter]
    photographs: bool = False

    @property
    def module(self) -> str:
        """The full name of its module."""
        return self.file.__name__

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the tables that a page prints."""
        return tuple(getattr(self.file, "SHOWN", ()))

    @property
    def thumbnail(self) -> tuple[float, float, float, float]:
        """What the gallery shows of the figure: left, top, right, bottom, from 0 to 1."""
        return getattr(self.file, "THUMBNAIL", (0.0, 0.0, 1.0, 1.0))

    @property
    def is_drawn(self) -> bool:
        """Whether it has a figure (theorems and most tables have none)."""
        return hasattr(self.file, "draw")

    def draw(self, tables: Mapping[str, Any]) -> Figure | None:
        """Draw tables, live or recorded; return None if the exhibit has no figure."""
        return self.file.draw(tables) if self.is_drawn else None

    def run(self, context: Context) -> Result:
        """Measure and judge the exhibit.

        Raises
        ------
        VerdictError
            If a verdict has an unexpected outcome, outside ``failures_kept``.
        RuntimeError
            If a declared target got no verdict or an undeclared one did.
        ValueError, FileNotFoundError
            If a data set that the run reads is damaged or missing; before anything is computed.
        ValueError
            If the exhibit cannot be computed with the given parameters.
        """
        return judge(self.file, self.file.measure(context))


@functools.cache
def find_file_exhibit(exhibit_id: str) -> Exhibit | None:
    """Return the exhibit with its own file; None if there is no file."""
    module = file_of(exhibit_id)
    if module is None:
        return None
    return Exhibit(
        exhibit_id,
        module,
        targets_of(module),
        getattr(module, "PARAMETERS", {}),
        getattr(module, "PHOTOGRAPHS", False),
    )


def all_exhibits(paper_key: str | None = None) -> dict[str, Exhibit]:
    """Return all exhibits that have a file (of one paper), by id, in registry order."""
    wanted = (e for e in registry.exhibits() if paper_key is None or e.startswith(f"{paper_key}/"))
    return {e: found for e in wanted if (found := find_file_exhibit(e)) is not None}


def papers_built() -> list[str]:
    """Return the keys of the papers that have a folder of exhibits, in the book's order."""
    return [p for p in registry.PAPERS if importlib.util.find_spec(f"{_PAPERS}.{p}") is not None]


def find_exhibit(exhibit_id: str) -> Exhibit:
    """Return an exhibit by its id; for a panel, the whole figure.

    Raises
    ------
    KeyError
        If there is no such exhibit, or it has no file yet.
    """
    row = registry.exhibit(exhibit_id)
    for candidate in (exhibit_id, registry.parent_of(exhibit_id)):
        found = find_file_exhibit(candidate)
        if found is not None:
            return found
    what = "is stated on its paper's page" if not row.computable else "is not built yet (pending)"
    raise KeyError(f"{exhibit_id} {what}; nothing computes it")


def targets_of(module: ModuleType) -> frozenset[str]:
    """Return what an exhibit settles: itself, its panels (``_left``), claims and errata.

    Raises
    ------
    KeyError
        If no CSV file lists one of them.
    """
    exhibit = id_of(module)
    named = getattr(module, "SETTLES", ())
    targets = {exhibit} | {exhibit + t if t.startswith("_") else t for t in named}
    for target in targets:
        registry.place_of(target)
    return frozenset(targets)


def stand_ins(exhibit: Exhibit, context: Context) -> tuple[str, ...]:
    """Return what takes the place of the paper's data in a run.

    That is a parameter that names a data set, or is marked ``stand_in``, with another value than
    the paper's or a part of it (:func:`subsets`); photographs that are not ImageNet's; or a user's
    images.
    """
    if context.own_images:
        return ("own images",)
    found = [
        f"{name} = {context.parameters[name]}"
        for name, p in exhibit.parameters.items()
        if (p.stand_in or _names_data(p))
        and context.parameters[name] != p.paper
        and not _sample(p, context.parameters[name])
    ]
    if exhibit.photographs and (context.stand_in or _too_many_photographs(context)):
        found.append("photographs other than ImageNet's")
    return tuple(found)


def _too_many_photographs(context: Context) -> bool:
    """Whether a run without a folder needs more photographs than the sample of ImageNet has."""
    most = datasets.IMAGENET_SAMPLE.count
    return context.read_root is None and own_images.photographs_read(context.parameters)[0] > most


def subsets(exhibit: Exhibit, context: Context) -> tuple[str, ...]:
    """Return what parts of the paper's data a run uses, in words."""
    if context.own_images:
        return ()
    values = context.parameters
    samples = [_sample(p, values[name]) for name, p in exhibit.parameters.items()]
    used = [sample.phrase for sample in samples if sample]
    if exhibit.photographs and context.read_root is None:
        count = 1 if "picture" in values else own_images.photographs_read(values)[0]
        used.append(f"{count if count > 1 else 'one'} of ImageNet's images")
    return tuple(dict.fromkeys(used))


def _sample(parameter: Parameter, value: Any) -> datasets.Sample | None:
    """Return the part of the paper's data set that a parameter names, if it does."""
    sample = datasets.SAMPLES.get(value) if isinstance(value, str) else None
    return sample if sample and sample.of == parameter.paper else None


def _names_data(parameter: Parameter) -> bool:
    return isinstance(parameter.paper, str) and parameter.paper in datasets.CLASSIFIED


def measurement(function: Callable[[Any], Tables]) -> Callable[[Any], Tables]:
    """Decorate an exhibit's ``measure``: callers pass a :class:`Study`, it gets its own context.

    The decorated function verifies the data before it computes anything, names overridden
    parameters in errors, and records in the tables how they were measured.
    """
    exhibit = id_of(function.__module__)

    @functools.wraps(function)
    def measure(study: Study | Context) -> Tables:
        from companion.study.session import Context

        context = study if isinstance(study, Context) else study.context(exhibit)
        found = find_exhibit(exhibit)
        inputs.verify(found, context)
        with blaming_parameters(found, context):
            tables = function(context)
        source = own_images.describe_source(context) if context.own_images else ""
        return dataclasses.replace(
            tables,
            exhibit=exhibit,
            profile=context.profile,
            seed=context.seed,
            parameters=context.parameters,
            own_images=context.own_images,
            ran=" ".join(filter(None, [tables.ran, source])),
            stand_ins=(*stand_ins(found, context), *tables.stand_ins),
            subsets=tuple(dict.fromkeys((*subsets(found, context), *tables.subsets))),
            shown=found.shown,
        )

    return measure


def judged(module: ModuleType, tables: Tables) -> tuple[Verdict, ...]:
    """Return the verdicts on an exhibit's tables, failed ones among them.

    Raises
    ------
    RuntimeError
        If a declared target got no verdict or an undeclared one did.
    """
    verdicts = tuple(module.judge(tables))
    targets, judged_targets = targets_of(module), {v.target for v in verdicts}
    if judged_targets != targets:
        raise RuntimeError(
            f"{id_of(module)}: no verdict for {sorted(targets - judged_targets)}, "
            f"undeclared verdicts for {sorted(judged_targets - targets)}"
        )
    return tuple(on_images(v) for v in verdicts) if tables.own_images else verdicts


def described(module: ModuleType, tables: Tables) -> dict[str, str]:
    """Return ``{"caption": ..., "alt": ...}`` of an exhibit's figure; empty if it has none."""
    if not hasattr(module, "draw"):
        return {}
    caption = module.CAPTION if hasattr(module, "CAPTION") else module.caption(tables)
    words = module.alt(tables) if hasattr(module, "alt") else module.draw.describe(tables)
    return {"caption": caption, "alt": words}


def with_notices(
    module: ModuleType, tables: Tables, verdicts: Iterable[Verdict]
) -> tuple[Verdict, ...]:
    """Return verdicts with the smallest effects that would have changed them."""
    found = smallest_detectable(module, tables)
    return tuple(dataclasses.replace(v, notices=found.get(v.target, "")) for v in verdicts)


def judge(module: ModuleType, tables: Tables) -> Result:
    """Return an exhibit's tables with their verdicts, see :meth:`Study.judge`."""
    verdicts = with_notices(module, tables, judged(module, tables))
    result = Result(tables, verdicts, described(module, tables))
    raise_failed(result.verdicts)
    return result


@contextlib.contextmanager
def blaming_parameters(exhibit: Exhibit, context: Context) -> Iterator[None]:
    """Name overridden parameters in errors that name none of them.

    The range of each parameter is checked earlier; that an exhibit can be computed with a shorter
    list of epsilons, or with two lists of different lengths, is not.

    Raises
    ------
    ValueError
        Naming the overridden parameters, from any other error than those of verdicts, sweeps, files
        and memory.
    """
    try:
        yield
    except (VerdictError, SweepError, OSError, MemoryError):
        raise  # no parameter is to blame, or the error names its task's values
    except Exception as error:
        given = {
            name: p
            for name, p in exhibit.parameters.items()
            if context.parameters[name] != getattr(p, context.profile)
        }
        if not given or any(re.search(rf"\b{name}\b", str(error)) for name in given):
            raise
        changes = "; ".join(
            f"{name} = {_listed(context.parameters[name])}, where the {context.profile} profile "
            f"has {_listed(getattr(p, context.profile))}"
            for name, p in given.items()
        )
        raise ValueError(
            f"{exhibit.id} cannot be computed with {changes} ({type(error).__name__}: {error})"
        ) from error


def _listed(value: Any) -> str:
    """Return a parameter's value as the user writes it: lists in brackets."""
    return str(list(value)) if isinstance(value, tuple) else repr(value)
