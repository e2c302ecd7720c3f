"""The context in which an exhibit is measured: all that its ``measure`` may depend on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from companion.study import sweep
from companion.study.parameters import Settings
from companion.study.tasks import canonical, encode_result, name_of
from reconrisk import arguments, datasets

if TYPE_CHECKING:
    import torch


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
        threads: int = 1,
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
        threads : int
            Threads of a task: 1, so that no bit of a result depends on the number of workers.
        """
        arguments.integer("threads", threads, 1, 1)
        name = name_of(function)
        texts = [canonical("task", task) for task in tasks]
        keys = [f"{self.seed} {name} {text}" for text in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in _FINISHED}
        folder = name.removeprefix("companion.papers.").removeprefix("companion.")
        rows = sweep.run_sweep(
            function,
            [json.loads(text) for text in missing.values()],
            seed=self.seed,
            workers=self.workers,
            scheduler=self.scheduler,
            store=self.checkpoints / folder if self.checkpoints else None,
            label=f"{self.exhibit}: {label}" if label else self.exhibit,
        )
        _FINISHED.update(zip(missing, map(encode_result, rows), strict=True))
        return [json.loads(_FINISHED[k]) for k in keys]


#: results of this process as JSON, by seed, function and task
_FINISHED: dict[str, str] = {}
