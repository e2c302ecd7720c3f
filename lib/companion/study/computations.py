"""Which function computes which exhibit, and the context it computes in.

A computation is a function ``(context) -> Result`` registered with :func:`computes`, which also
declares every exhibit, claim and erratum it settles: a run whose verdicts do not match that list
is an error, so nothing can be forgotten silently.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reconrisk import _check
from companion.study import datasets, exhibits, inputs, own_images, registry
from companion.study.cluster import check_scheduler, scheduler_of
from companion.study.parameters import PROFILES, Parameter, Settings, resolve
from companion.study.results import Result
from companion.study.tasks import SweepError, canonical, encoded, name_of
from companion.study.exhibits import file_of
from companion.study.sweep import run_sweep
from companion.study.verdicts import VerdictError, on_images, raise_failed

if TYPE_CHECKING:
    from types import ModuleType

    import torch

    from companion.study.tables import Tables

__all__ = ["Computation", "Context", "Study", "all_computations", "computation", "computes"]



def legacy_modules(paper_key: str, what: str = "") -> list[str]:
    """Names of a paper's modules that still hold many exhibits."""
    folder = Path(__file__).resolve().parents[1] / "papers" / paper_key
    stems = [p.stem for p in sorted(folder.glob("old_*.py"))]
    wanted = [s for s in stems if s.rpartition("_")[2] == what] if what else [
        s for s in stems if s.rpartition("_")[2] not in ("figures", "parameters")
    ]
    return [f"companion.papers.{paper_key}.{stem}" for stem in wanted]


@functools.cache
def _legacy_parameters(paper_key: str) -> dict[str, Mapping[str, Parameter]]:
    found: dict[str, Mapping[str, Parameter]] = {}
    for name in legacy_modules(paper_key, "parameters"):
        found |= importlib.import_module(name).PARAMETERS
    return found


@dataclass(frozen=True)
class Context:
    """Everything a computation may depend on.

    Attributes
    ----------
    settings : Settings
        The exhibit's parameters, read as attributes (``context.settings.samples``).
    profile, seed, device : str, int, str
        As given to the study.
    data_root : Path or None
        Folder of the paper's own data; required by data-driven exhibits in the paper profile. With
        ``own_images`` the path of those.
    own_images : bool
        Whether a user's images take the place of every data set, see
        :mod:`~companion.study.own_images`.
    workers : int
        Processes that sweeps may use; no result depends on it.
    scheduler : str
        The Dask cluster that sweeps use instead; empty for none. No result depends on it.
    checkpoints : Path or None
        Folder in which sweeps keep their finished tasks, or None to keep none.
    """

    exhibit: str
    settings: Settings
    profile: str = "quick"
    seed: int = 0
    device: str = "cpu"
    data_root: Path | None = None
    own_images: bool = False
    workers: int = 1
    scheduler: str = ""
    checkpoints: Path | None = None

    def seed_of(self, *key: Any) -> int:
        """Return a 63-bit seed that depends on the study's seed, the exhibit and ``key`` only."""
        # our own results were recorded under another key: their draws must not change with it
        exhibit = re.sub("^beyond/", "companion/", self.exhibit)
        text = repr((self.seed, exhibit, *key)).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1

    def rng(self, *key: Any) -> np.random.Generator:
        """Return a NumPy generator for one purpose, named by ``key``."""
        return np.random.default_rng(self.seed_of(*key))

    def generator(self, *key: Any) -> torch.Generator:
        """Return a PyTorch generator on the context's device for one purpose."""
        import torch

        return torch.Generator(device=self.device).manual_seed(self.seed_of(*key))

    @property
    def parameters(self) -> Settings:
        """The exhibit's parameters, read as attributes (``study.parameters.samples``)."""
        return self.settings

    @property
    def stand_in(self) -> bool:
        """Whether photographs are stand-ins for the paper's, which are from ImageNet.

        They are unless the paper profile reads a folder of ImageNet's classes.
        """
        if self.own_images or self.profile != "paper":
            return True
        return not datasets.is_imagenet(self.data_root)

    @property
    def read_root(self) -> Path | None:
        """Where data are read from; None for what is bundled."""
        return self.data_root if self.own_images or self.profile == "paper" else None


    def sweep(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Mapping[str, Any]],
        label: str = "",
        *,
        threads: int | None = 1,
    ) -> list[Any]:
        """Return the results of many tasks, in their order: the only way to run many.

        A task that another exhibit of this process has run is not run again; what is finished is
        kept in ``checkpoints``. See :func:`~companion.study.sweep.run_sweep` for errors.

        Parameters
        ----------
        function : callable
            Of a module's top level, from a task (and its seed, if it takes two arguments) to a
            dict or a list of dicts of what JSON can hold.
        tasks : sequence of mapping
            Values that JSON can hold.
        label : str
            What the progress bar says beside the exhibit's id.
        threads : int, optional
            Threads of a task; None for the processors shared among the workers, on which the last
            bit of a result may depend.
        """
        name = name_of(function)
        texts = [canonical("task", task) for task in tasks]
        keys = [f"{self.seed} {threads} {name} {text}" for text in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in _FINISHED}
        folder = name.removeprefix("companion.papers.").removeprefix("companion.")
        rows = run_sweep(
            function,
            [json.loads(text) for text in missing.values()],
            seed=self.seed,
            workers=self.workers,
            scheduler=self.scheduler,
            store=self.checkpoints / folder if self.checkpoints else None,
            label=f"{self.exhibit}: {label}" if label else self.exhibit,
            threads=threads,
        )
        _FINISHED.update(zip(missing, map(encoded, rows), strict=True))
        return [json.loads(_FINISHED[k]) for k in keys]


#: results of this process as JSON, by seed, function and task
_FINISHED: dict[str, str] = {}


@dataclass(frozen=True)
class Computation:
    """A registered computation; ``photographs`` says whether its paper profile reads a folder's."""

    exhibit: str
    function: Callable[[Context], Result]
    targets: frozenset[str]
    parameters: Mapping[str, Parameter]
    photographs: bool = False

    @property
    def module(self) -> str:
        return self.function.__module__

    def run(self, context: Context) -> Result:
        """Compute the exhibit and check that it judged exactly what it declares.

        Raises
        ------
        RuntimeError
            If a declared target got no verdict or an undeclared one did.
        ValueError, FileNotFoundError
            If a data set that the run reads is damaged or missing; before anything is computed.
        ValueError
            If parameters were given with which the exhibit cannot be computed.
        """
        file = file_of(self.exhibit)
        if file is not None:
            result = exhibits.result_of(file, file.measure(context))
            raise_failed(result.verdicts)
            return result
        inputs.verify(self, context)
        with blaming_parameters(self, context):
            result = self.function(context)
            if context.own_images:
                result = dataclasses.replace(
                    result, verdicts=tuple(on_images(v) for v in result.verdicts)
                )
            raise_failed(result.verdicts)
            judged = {v.target for v in result.verdicts}
            if judged != self.targets:
                raise RuntimeError(
                    f"{self.exhibit}: no verdict for {sorted(self.targets - judged)}, "
                    f"undeclared verdicts for {sorted(judged - self.targets)}"
                )
        told = own_images.told(context) if context.own_images else ""
        return dataclasses.replace(
            result,
            ran=" ".join(filter(None, [result.ran, told])),
            profile=context.profile,
            seed=context.seed,
            settings=dict(context.settings),
        )


@contextlib.contextmanager
def blaming_parameters(known: Computation, context: Context) -> Iterator[None]:
    """Name overridden parameters in errors that name none of them.

    Ranges say what each parameter may be, not what an exhibit makes of a shorter list of
    epsilons, or of two lists that fit no longer.
    """
    try:
        yield
    except (VerdictError, SweepError, OSError, MemoryError):
        raise  # the outcome of a check, a task that names its values, a machine at its limit
    except Exception as error:
        given = {
            name: p
            for name, p in known.parameters.items()
            if context.settings[name] != getattr(p, context.profile)
        }
        if not given or any(re.search(rf"\b{name}\b", str(error)) for name in given):
            raise
        told = "; ".join(
            f"{name} = {_listed(context.settings[name])}, where the {context.profile} profile "
            f"has {_listed(getattr(p, context.profile))}"
            for name, p in given.items()
        )
        raise ValueError(
            f"{known.exhibit} cannot be computed with {told} ({type(error).__name__}: {error})"
        ) from error


def _listed(value: Any) -> str:
    """A parameter's value as it is given: lists in brackets."""
    return str(list(value)) if isinstance(value, tuple) else repr(value)


_COMPUTATIONS: dict[str, Computation] = {}


def computes(
    exhibit: str, *targets: str, photographs: bool = False
) -> Callable[[Callable[[Context], Result]], Callable[[Context], Result]]:
    """Register a computation of ``exhibit``.

    ``targets`` are ids of panels (a leading ``_`` is appended to the exhibit's id), claims and
    errata that it settles besides the exhibit itself; ``photographs`` says that its paper profile
    reads an ImageNet-style folder.
    """

    def register(function: Callable[[Context], Result]) -> Callable[[Context], Result]:
        ids = {exhibit} | {exhibit + t if t.startswith("_") else t for t in targets}
        for target in ids:
            registry.place_of(target)  # KeyError for an id that no CSV has
        _COMPUTATIONS[exhibit] = Computation(
            exhibit, function, frozenset(ids), _legacy_parameters(exhibit.partition("/")[0]).get(exhibit, {}), photographs
        )
        return function

    return register


@functools.cache
def _from_file(exhibit_id: str) -> Computation | None:
    """The exhibit of a file of its own; None if it has none."""
    module = file_of(exhibit_id)
    if module is None:
        return None
    return Computation(
        exhibit_id,
        module.measure,
        exhibits.targets_of(module),
        exhibits.parameters_of(module),
        getattr(module, "PHOTOGRAPHS", False),
    )


def _legacy(paper_key: str) -> dict[str, Computation]:
    for name in legacy_modules(paper_key):
        importlib.import_module(name)
    return {k: c for k, c in _COMPUTATIONS.items() if k.startswith(f"{paper_key}/")}


def all_computations(paper_key: str | None = None) -> dict[str, Computation]:
    """All computations (of one paper), in registry order."""
    found: dict[str, Computation] = {}
    for key in registry.PAPERS if paper_key is None else (paper_key,):
        found |= _legacy(key)
    for exhibit_id in registry.exhibits():
        if paper_key is None or exhibit_id.startswith(f"{paper_key}/"):
            own = _from_file(exhibit_id)
            if own is not None:
                found[exhibit_id] = own
    return {k: found[k] for k in registry.exhibits() if k in found}


def parameters_of(exhibit_id: str) -> Mapping[str, Parameter]:
    """Return the parameters of an exhibit, without importing what computes it where it can."""
    legacy = _legacy_parameters(exhibit_id.partition("/")[0])
    return legacy[exhibit_id] if exhibit_id in legacy else computation(exhibit_id).parameters


def computation(exhibit_id: str) -> Computation:
    """Return the computation of an exhibit (for a panel, that of the whole figure).

    Raises
    ------
    KeyError
        If there is no such exhibit, or none is registered for it yet.
    """
    row = registry.exhibit(exhibit_id)
    candidates = (exhibit_id, registry.parent_of(exhibit_id))
    for candidate in candidates:
        found = _from_file(candidate)
        if found is not None:
            return found
    known = _legacy(row.paper_key)
    for candidate in candidates:
        if candidate in known:
            return known[candidate]
    what = "is stated on its paper's page" if not row.computable else "is not built yet (pending)"
    raise KeyError(f"{exhibit_id} {what}; nothing computes it")


@dataclass(frozen=True)
class Study:
    """One reader's choice of profile, seed, device, data and overrides, for many exhibits.

    Parameters
    ----------
    profile : {"quick", "paper"}
        Whose parameters to start from.
    seed : int
        Non-negative; every random draw derives from it.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"cuda:0"``.
    data_root : str or Path
        Folder with the papers' data sets; empty for none.
    data : str or Path
        A user's own images, which take the place of every data set that an exhibit reads: a folder
        of pictures, with or without class folders, or an ``.npz`` file. Empty for none. What a
        paper says of its own data is then judged *on the images given*, and no verdict raises.
    overrides : mapping
        ``{exhibit id: {parameter: value}}``.
    workers : int
        Processes for sweeps.
    scheduler : str, optional
        A Dask cluster for sweeps instead: ``"tcp://host:port"``, ``"local:4"`` for four workers on
        this machine, or a scheduler file. Empty for none. If None, the environment variable
        ``RECONRISK_SCHEDULER`` says, unless ``workers`` are asked for.
    checkpoints : str or Path
        Folder for finished tasks of sweeps; empty for none.

    Raises
    ------
    ValueError, TypeError, KeyError, FileNotFoundError
        At once, if anything in it is unknown, mistyped or missing.
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
        _check.one_of("profile", self.profile, PROFILES)
        _check.integer("seed", self.seed, 0)
        _check.integer("workers", self.workers, 1)
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
            known = computation(exhibit_id)
            resolve(known.exhibit, known.parameters, self.profile, values)

    @property
    def cluster(self) -> str:
        """The Dask cluster that sweeps use, empty for none."""
        return scheduler_of(self.scheduler, self.workers)

    def context(self, exhibit_id: str) -> Context:
        """Return the context in which an exhibit would be computed."""
        known = computation(exhibit_id)
        # parameters given for a panel are those of its figure
        overrides = {
            name: value
            for key, values in self.overrides.items()
            if computation(key).exhibit == known.exhibit
            for name, value in values.items()
        }
        settings = resolve(known.exhibit, known.parameters, self.profile, overrides)
        if self.data:
            settings = own_images.settings_with(known, self.profile, settings, overrides)
            own_images.check_enough(known, settings, Path(self.data))
        root = self.data or self.data_root
        return Context(
            exhibit=known.exhibit,
            settings=settings,
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
        """Measure and judge one exhibit (for a panel, the whole figure)."""
        return computation(exhibit_id).run(self.context(exhibit_id))

    def judge(self, exhibit: ModuleType, tables: Tables) -> Result:
        """Judge the tables of an exhibit's file: ``study.judge(fig4, tables)``.

        Raises
        ------
        VerdictError
            If a verdict comes out otherwise than the study rests on, outside
            :func:`~companion.study.verdicts.failures_kept`.
        """
        return exhibits.judge(exhibit, tables)


def _check_device(device: str) -> None:
    kind = device.partition(":")[0]
    _check.one_of("device", kind, ("cpu", "cuda"))
    if kind == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ValueError(f"device {device!r} was asked for, but PyTorch sees no CUDA device")
