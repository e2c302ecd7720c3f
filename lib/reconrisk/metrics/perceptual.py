"""A perceptual distance of two pictures: LPIPS, or a named stand-in without its weights."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

__all__ = ["PerceptualMetric", "backbone_file", "load_perceptual"]

_BACKBONE = "alexnet-owt-7be5be79.pth"  # the ImageNet weights torchvision would download


@dataclass(frozen=True)
class PerceptualMetric:
    """A perceptual distance and what it is.

    Attributes
    ----------
    name : str
        For captions and axes.
    stand_in : bool
        True if the pretrained backbone was not to be had.
    """

    name: str
    stand_in: bool
    network: Any = field(repr=False)
    device: str = "cpu"

    def __call__(self, target: ArrayLike, reconstruction: ArrayLike) -> float:
        """Return the distance of two pictures (H, W, 3), values clipped to [0, 1], >= 0."""
        pair = [self._tensor("target", target), self._tensor("reconstruction", reconstruction)]
        with torch.no_grad():
            return float(self.network(*pair, normalize=True))

    def _tensor(self, name: str, picture: ArrayLike) -> torch.Tensor:
        array = np.asarray(picture, dtype=np.float32)
        if array.ndim != 3 or array.shape[2] != 3 or min(array.shape[:2]) < 32:
            raise ValueError(
                f"{name} must be a picture (H, W, 3) of at least 32x32 pixels; got {array.shape}"
            )
        channels_first = torch.from_numpy(np.clip(array, 0, 1)).permute(2, 0, 1)[None]
        return channels_first.to(self.device)


def backbone_file() -> Path:
    """Where the pretrained AlexNet would lie: PyTorch's hub folder (``TORCH_HOME`` moves it)."""
    return Path(torch.hub.get_dir()) / "checkpoints" / _BACKBONE


def load_perceptual(device: str = "cpu", seed: int = 0) -> PerceptualMetric:
    """Load LPIPS (Zhang et al. 2018), or its stand-in where the backbone's weights are missing.

    Nothing is downloaded. With :func:`backbone_file` in place this is LPIPS with AlexNet. Without
    it, the same code runs on an untrained AlexNet with unit weights on its five layers: a
    multi-scale distance of random features. It orders noise levels, but its values are not LPIPS
    values; its name says so.

    Parameters
    ----------
    device : str
        Where to compute.
    seed : int
        Seed of the stand-in's weights.
    """
    _import_torchvision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lpips still passes torchvision's retired arguments
        import lpips

        if backbone_file().is_file():
            network = lpips.LPIPS(net="alex", verbose=False)
            name, stand_in = "LPIPS (AlexNet)", False
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = lpips.LPIPS(net="alex", pnet_rand=True, lpips=False, verbose=False)
            name, stand_in = "untrained-AlexNet distance", True
    return PerceptualMetric(name, stand_in, network.eval().to(device), device)


def _import_torchvision() -> Any:
    """Import torchvision, also a CUDA-built one beside a CPU-only PyTorch.

    Such a wheel cannot load its compiled operators and then fails while it registers the shapes
    of two of them that nothing here uses. Declaring those two lets the import go on. They are
    declared only after the failure: declaring an operator twice aborts the process.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    global _operators  # torch drops the declarations with the object
    _operators = torch.library.Library("torchvision", "DEF")
    _operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


_operators: Any = None
