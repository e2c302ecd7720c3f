"""A study (profile, seed, data, overrides), and the context in which an exhibit is measured."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from companion.study import own_images
from companion.study.cluster import check_scheduler, scheduler_of
from companion.study.exhibits import find_exhibit, judge
from companion.study.parameters import PROFILES, Settings, resolve
from companion.study.results import Result
from companion.study.stored_tables import keep
from companion.study.sweep import run_sweep
from companion.study.tasks import canonical, encoded, name_of
from reconrisk import arguments, datasets

if TYPE_CHECKING:
    from types import ModuleType

    import torch

    from companion.study.tables import Tables

__all__ = ["Context", "Study"]


@dataclass(frozen=True)
class Context:
    """Everything that an exhibit's ``measure`` may depend on; its argument ``study``.

    Attributes
    ----------
    exhibit : str
        Its id.
    parameters : Settings
        The exhibit's parameters, read as attributes (``study.parameters.samples``).
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
    parameters: Settings
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
        # our own results were recorded under another key: their draws must not change
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
    def stand_in(self) -> bool:
        """Whether photographs are stand-ins for the paper's, which are from ImageNet.

        The quick profile's are ImageNet's, as those that the paper profile reads from a folder of
        its classes.
        """
        if self.own_images:
            return True
        return self.read_root is not None and not datasets.is_imagenet(self.read_root)

    @property
    def read_root(self) -> Path | None:
        """Where data are read from; None for the bundled data."""
        return self.data_root if self.own_images or self.profile == "paper" else None

    def sweep(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Mapping[str, Any]],
        label: str = "",
        *,
        threads: int | None = 1,
    ) -> list[Any]:
        """Return the results of many tasks, in their order.

        Tasks that another exhibit of this process has run do not run again; ``checkpoints`` keeps
        finished ones. See :func:`~companion.study.sweep.run_sweep` for errors.

        Parameters
        ----------
        function : callable
            Defined at the top level of a module; from a task (and its seed, if it takes two
            arguments) to a dict or a list of dicts that JSON can hold.
        tasks : sequence of mapping
            Values that JSON can hold.
        label : str
            Shown in the progress bar beside the exhibit's id.
        threads : int, optional
            Threads of a task. None shares the processors among the workers; the last bit of a
            result may then depend on their number.
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
            parameters = own_images.settings_with(exhibit, self.profile, parameters, overrides)
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
        """Measure and judge one exhibit (for a panel, the whole figure)."""
        return find_exhibit(exhibit_id).run(self.context(exhibit_id))

    def judge(self, exhibit: ModuleType, tables: Tables) -> Result:
        """Judge the tables of an exhibit's file: ``study.judge(fig4, tables)``.

        Raises
        ------
        VerdictError
            If a verdict has an unexpected outcome, outside
            :func:`~companion.study.verdicts.failures_kept`.
        """
        keep(tables)
        return judge(exhibit, tables)


def _check_device(device: str) -> None:
    kind = device.partition(":")[0]
    arguments.one_of("device", kind, ("cpu", "cuda"))
    if kind == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise ValueError(f"device {device!r} was asked for, but PyTorch sees no CUDA device")
