"""Run exhibits: a study (profile, seed, data, overrides), measuring and judging."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from companion.study import inputs, own_images, registry
from companion.study.cluster import check_scheduler, scheduler_of
from companion.study.exhibits import Exhibit, describe_figure, find_exhibit, id_of, judge_tables
from companion.study.parameters import PROFILES, Parameter, plain, resolve
from companion.study.perturbations import smallest_detectable
from companion.study.recorded import Recorded, judge_record
from companion.study.records import RECORDED, RecordError, keep_tables, read_record
from companion.study.results import Result
from companion.study.session import Context
from companion.study.tables import Tables
from companion.study.tasks import SweepError
from companion.study.verdicts import Verdict, VerdictError, raise_failed
from reconrisk import arguments, datasets

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True)
class Study:
    """One reader's choice of profile, seed, device, data and overrides, for many exhibits.

    Parameters
    ----------
    profile : {"quick", "paper"}
        Whose parameters to start from.
    seed : int
        Non-negative; every random number derives from it.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"cuda:0"``.
    data_root : str or Path
        Folder with the papers' data sets; empty for none.
    data : str or Path
        A user's own images, in place of every data set that an exhibit reads: a folder of images,
        with or without class folders, or an ``.npz`` file. Empty for none. The paper's statements
        are then judged *on the images given*, and no verdict raises.
    overrides : mapping
        ``{exhibit id: {parameter: value}}``.
    workers : int
        Processes for sweeps.
    scheduler : str, optional
        A Dask cluster for sweeps instead: ``"tcp://host:port"``, ``"local:4"`` for four workers on
        this machine, or a scheduler file. Empty for none. If None, that of the environment variable
        ``RECONRISK_SCHEDULER``, unless ``workers`` is more than 1.
    checkpoints : str or Path
        Folder for finished tasks of sweeps; empty for none.

    Raises
    ------
    ValueError, TypeError, KeyError, FileNotFoundError
        If an argument is unknown, of the wrong type or missing.
    """

    profile: str = "quick"
    seed: int = 0
    device: str = "cpu"
    data_root: str | Path = ""
    data: str | Path = ""
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workers: int = 1
    checkpoints: str | Path = ""
    scheduler: str | None = None

    def __post_init__(self) -> None:
        arguments.one_of("profile", self.profile, PROFILES)
        arguments.integer("seed", self.seed, 0)
        arguments.integer("workers", self.workers, 1)
        if self.cluster:
            check_scheduler(self.cluster, self.workers)
        _check_device(self.device)
        if self.data_root and not Path(self.data_root).is_dir():
            raise FileNotFoundError(f"data_root must be an existing folder; got {self.data_root!r}")
        if self.data and self.data_root:
            raise ValueError("give data or data_root, not both: data takes every data set's place")
        if self.data and not Path(self.data).exists():
            raise FileNotFoundError(f"data must be an existing folder or file; got {self.data!r}")
        for exhibit_id, values in self.overrides.items():
            exhibit = find_exhibit(exhibit_id)
            resolve(exhibit.id, exhibit.parameters, self.profile, values)

    @property
    def cluster(self) -> str:
        """The Dask cluster that sweeps use; empty for none."""
        return scheduler_of(self.scheduler, self.workers)

    def context(self, exhibit_id: str) -> Context:
        """Return the context in which an exhibit is measured."""
        exhibit = find_exhibit(exhibit_id)
        # overrides for a panel apply to its figure
        overrides = {
            name: value
            for key, values in self.overrides.items()
            if find_exhibit(key).id == exhibit.id
            for name, value in values.items()
        }
        parameters = resolve(exhibit.id, exhibit.parameters, self.profile, overrides)
        if self.data:
            parameters = own_images.name_own_images(exhibit, self.profile, parameters, overrides)
            own_images.check_enough(exhibit, parameters, Path(self.data))
        root = self.data or self.data_root
        return Context(
            exhibit=exhibit.id,
            parameters=parameters,
            profile=self.profile,
            seed=int(self.seed),
            device=self.device,
            data_root=self._folder(root),
            own_images=bool(self.data),
            workers=int(self.workers),
            scheduler=self.cluster,
            checkpoints=Path(self.checkpoints) if self.checkpoints else None,
        )

    def _folder(self, root: str | Path) -> Path | None:
        # workers of a cluster have other current folders
        return None if not root else Path(root).resolve() if self.cluster else Path(root)

    def run(self, exhibit_id: str) -> Result:
        """Measure and judge one exhibit (for a panel, the whole figure).

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
        file = find_exhibit(exhibit_id).file
        return judge(file, file.measure(self.context(exhibit_id)))

    def judge(self, exhibit: ModuleType, tables: Tables) -> Result:
        """Judge the tables of an exhibit's file: ``study.judge(fig4, tables)``.

        Raises
        ------
        VerdictError
            If a verdict has an unexpected outcome, outside
            :func:`~companion.study.verdicts.failures_kept`.
        """
        keep_tables(tables)
        return judge(exhibit, tables)


def _check_device(device: str) -> None:
    kind = device.partition(":")[0]
    arguments.one_of("device", kind, ("cpu", "cuda"))
    if kind == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ValueError(f"device {device!r} was asked for, but PyTorch sees no CUDA device")


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
    return context.read_root is None and own_images.count_photographs(context.parameters)[0] > most


def subsets(exhibit: Exhibit, context: Context) -> tuple[str, ...]:
    """Return what parts of the paper's data a run uses, in words."""
    if context.own_images:
        return ()
    values = context.parameters
    samples = [_sample(p, values[name]) for name, p in exhibit.parameters.items()]
    used = [sample.phrase for sample in samples if sample]
    if exhibit.photographs and context.read_root is None:
        count = 1 if "picture" in values else own_images.count_photographs(values)[0]
        used.append(f"{count if count > 1 else 'one'} of ImageNet's images")
    return tuple(dict.fromkeys(used))


def _sample(parameter: Parameter, value: Any) -> datasets.Sample | None:
    """Return the part of the paper's data set that a parameter names, if it does."""
    sample = datasets.SAMPLES.get(value) if isinstance(value, str) else None
    return sample if sample and sample.of == parameter.paper else None


def _names_data(parameter: Parameter) -> bool:
    return isinstance(parameter.paper, str) and parameter.paper in datasets.CLASSIFIED


def measurement(function: Callable[[Any], Tables], module: str = "") -> Callable[[Any], Tables]:
    """Decorate an exhibit's ``measure``: callers pass a :class:`Study`, it gets its own context.

    The decorated function verifies the data before it computes anything, names overridden
    parameters in errors, and records in the tables how they were measured. ``module`` names the
    exhibit's, for a function that several exhibits share.
    """
    exhibit = id_of(module or function.__module__)

    @functools.wraps(function)
    def measure(study: Study | Context) -> Tables:
        context = study if isinstance(study, Context) else study.context(exhibit)
        found = find_exhibit(exhibit)
        inputs.verify(found, context)
        with add_parameter_context(found, context):
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


def add_notices(
    module: ModuleType, tables: Tables, verdicts: Iterable[Verdict]
) -> tuple[Verdict, ...]:
    """Return verdicts with the smallest effects that would have changed them.

    Without them where the run is the quick one and a record answers for all of them: to find what
    they would have noticed takes longer than all else that is not measured, and pages tell it of
    the record.
    """
    verdicts = tuple(verdicts)
    if is_answered(tables, {verdict.target for verdict in verdicts}):
        return verdicts
    found = smallest_detectable(module, tables)
    return tuple(dataclasses.replace(v, notices=found.get(v.target, "")) for v in verdicts)


def is_answered(tables: Tables, targets: Iterable[str]) -> bool:
    """Whether tables are of a quick run as it stands, and a record counts on all its targets."""
    exhibit, folder = tables.exhibit, registry.project_root() / RECORDED / tables.exhibit
    if tables.profile != "quick" or tables.own_images or not (folder / "record.json").is_file():
        return False
    found = find_exhibit(exhibit)
    quick = resolve(exhibit, found.parameters, "quick")
    if plain(dict(tables.parameters)) != plain(dict(quick)):
        return False
    try:
        record = read_record(folder)
        judged = Recorded({exhibit: record}, (), {exhibit: judge_record(exhibit, record)})
    except RecordError:
        return False
    return all(judged.answers(exhibit, target) for target in targets)


def judge(module: ModuleType, tables: Tables) -> Result:
    """Return an exhibit's tables with their verdicts, see :meth:`Study.judge`."""
    verdicts = add_notices(module, tables, judge_tables(module, tables))
    result = Result(tables, verdicts, describe_figure(module, tables))
    raise_failed(result.verdicts)
    return result


@contextlib.contextmanager
def add_parameter_context(exhibit: Exhibit, context: Context) -> Iterator[None]:
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
            f"{name} = {_spell(context.parameters[name])}, where the {context.profile} profile "
            f"has {_spell(getattr(p, context.profile))}"
            for name, p in given.items()
        )
        raise ValueError(
            f"{exhibit.id} cannot be computed with {changes} ({type(error).__name__}: {error})"
        ) from error


def _spell(value: Any) -> str:
    """Return a parameter's value as the user writes it: lists in brackets."""
    return str(list(value)) if isinstance(value, tuple) else repr(value)
