"""Which function computes which exhibit, and the context it computes in.

A computation is a function ``(context) -> Result`` registered with :func:`computes`, which also
declares every exhibit, claim and erratum it settles: a run whose verdicts do not match that list
is an error, so nothing can be forgotten silently.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reconrisk import _check
from reconrisk.study import datasets, inputs, own_images, registry
from reconrisk.study.cluster import check_scheduler, scheduler_of
from reconrisk.study.parameters import PROFILES, Parameter, Settings, resolve
from reconrisk.study.profiles import PARAMETERS
from reconrisk.study.results import Result
from reconrisk.study.tasks import SweepError
from reconrisk.study.verdicts import VerdictError, on_images_given

if TYPE_CHECKING:
    import torch

__all__ = ["Computation", "Context", "Study", "all_computations", "computation", "computes"]

#: the modules that register computations, by paper; imported on first use (they import PyTorch).
MODULES: dict[str, tuple[str, ...]] = {
    "mean_to_extreme": (
        "mean_to_extreme_attack",
        "mean_to_extreme_tails",
        "mean_to_extreme_correlation",
        "mean_to_extreme_experiments",
        "mean_to_extreme_many_steps",
    ),
    "ziller2024": ("ziller2024_bounds", "ziller2024_photographs"),
    "hayes2023": (
        "hayes2023_theorems",
        "hayes2023_bounds",
        "hayes2023_prior_aware",
        "hayes2023_threat",
        "hayes2023_gradients",
        "hayes2023_hyperparameters",
    ),
    "biswas2024": (
        "biswas2024_accounting",
        "biswas2024_capacity",
        "biswas2024_utility",
        "biswas2024_reconstruction",
    ),
    "liu2024": (
        "liu2024_setting",
        "liu2024_upper_bounds",
        "liu2024_tensor_lemmas",
        "liu2024_lower_bounds",
        "liu2024_proposed",
        "liu2024_attacks",
        "liu2024_utility",
    ),
    "companion": (
        "companion_correlation",
        "companion_estimators",
        "companion_many_steps",
        "companion_minimax",
        "companion_tails",
        "companion_success",
        "companion_risk",
        "companion_accounting",
        "companion_capacity",
        "companion_fair",
        "companion_utility",
        "companion_vmf",
        "companion_two_layer",
        "companion_defences",
        "companion_one_scale",
        "companion_cross_checks",
        "companion_synthesis",
    ),
}


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
        :mod:`~reconrisk.study.own_images`.
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
        text = repr((self.seed, self.exhibit, *key)).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1

    def rng(self, *key: Any) -> np.random.Generator:
        """Return a NumPy generator for one purpose, named by ``key``."""
        return np.random.default_rng(self.seed_of(*key))

    def generator(self, *key: Any) -> torch.Generator:
        """Return a PyTorch generator on the context's device for one purpose."""
        import torch

        return torch.Generator(device=self.device).manual_seed(self.seed_of(*key))

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
        inputs.verify(self, context)
        judging = on_images_given() if context.own_images else contextlib.nullcontext()
        with judging, self._blaming_parameters(context):
            result = self.function(context)
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
    def _blaming_parameters(self, context: Context) -> Iterator[None]:
        """Say which parameters were given, if an error that names none of them comes up.

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
                for name, p in self.parameters.items()
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
                f"{self.exhibit} cannot be computed with {told} ({type(error).__name__}: {error})"
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
            exhibit, function, frozenset(ids), PARAMETERS.get(exhibit, {}), photographs
        )
        return function

    return register


def all_computations(paper_key: str | None = None) -> dict[str, Computation]:
    """All computations (of one paper), in registry order."""
    for key in MODULES if paper_key is None else (paper_key,):
        for name in MODULES.get(key, ()):
            importlib.import_module(f"reconrisk.study.experiments.{name}")
    order = {e: i for i, e in enumerate(registry.exhibits())}
    return {
        k: _COMPUTATIONS[k]
        for k in sorted(_COMPUTATIONS, key=order.__getitem__)
        if paper_key is None or k.startswith(f"{paper_key}/")
    }


def computation(exhibit_id: str) -> Computation:
    """Return the computation of an exhibit (for a panel, that of the whole figure).

    Raises
    ------
    KeyError
        If there is no such exhibit, or none is registered for it yet.
    """
    row = registry.exhibit(exhibit_id)
    known = all_computations(row.paper_key)
    for candidate in (exhibit_id, registry.parent_of(exhibit_id)):
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
        """Compute one exhibit (for a panel, the whole figure)."""
        return computation(exhibit_id).run(self.context(exhibit_id))


def _check_device(device: str) -> None:
    kind = device.partition(":")[0]
    _check.one_of("device", kind, ("cpu", "cuda"))
    if kind == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ValueError(f"device {device!r} was asked for, but PyTorch sees no CUDA device")
