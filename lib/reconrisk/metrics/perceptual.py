"""Perceptual distances: LPIPS or a stand-in if its weights are missing, and a trained relative."""

from __future__ import annotations

import importlib
import io
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk._extras import require
from reconrisk.metrics._backbones import BACKBONES, SHIFT_TOLERANT, shift_tolerant

require("lpips", "reconrisk.metrics.perceptual")

import torch

from reconrisk.metrics._shift_tolerant import ShiftTolerant

__all__ = ["PerceptualMetric", "backbone_file", "load_perceptual", "load_shift_tolerant"]

#: pixels compared at a time: the first features of one take some kilobytes
_AT_ONCE = 2**18


@dataclass(frozen=True)
class PerceptualMetric:
    """A perceptual distance between images.

    Attributes
    ----------
    name : str
        For captions and axis labels.
    stand_in : bool
        Whether pretrained backbones were missing and an untrained one replaces them.
    network : torch.nn.Module
        Maps two batches of images to distances.
    device : str
        Where the network computes.
    """

    name: str
    stand_in: bool
    network: Any = field(repr=False)
    device: str = "cpu"

    def __call__(self, target: ArrayLike, reconstruction: ArrayLike) -> Any:
        """Return the distance of two images, of one to each of a stack, or of each pair of two.

        Parameters
        ----------
        target, reconstruction : array_like, shape (..., H, W, 3)
            At least 32 pixels a side; leading axes agree, or the target has none. The target in
            [0, 1], the reconstruction finite: it is clipped to [0, 1].

        Returns
        -------
        float or ndarray, shape (...)
            >= 0; a float for two images.

        Raises
        ------
        TypeError, ValueError
            If an image has another shape or range.
        """
        x, y = (
            arguments.real("target", target, 0, 1),
            arguments.finite("reconstruction", reconstruction),
        )
        alike = x.shape in (y.shape, y.shape[-3:])
        if not alike or x.ndim < 3 or x.shape[-1] != 3 or min(x.shape[-3:-1]) < 32:
            raise ValueError(
                "target and reconstruction must be pictures (..., H, W, 3) of at least 32x32 "
                f"pixels; got shapes {x.shape} and {y.shape}"
            )
        targets, found = (v.reshape(-1, *x.shape[-3:]) for v in (x, np.clip(y, 0, 1)))
        step = max(1, _AT_ONCE // (x.shape[-3] * x.shape[-2]))
        distances = np.empty(len(found))
        with torch.no_grad():
            for start in range(0, len(distances), step):
                part = slice(start, start + step)
                # networks broadcast one target, whose features they then find once
                one = self._tensor(targets[part] if len(targets) > 1 else targets)
                distance = self.network(one, self._tensor(found[part]), normalize=True)
                distances[part] = distance.cpu().numpy().ravel()
        return float(distances[0]) if y.ndim == 3 else distances.reshape(y.shape[:-3])

    def _tensor(self, pictures: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(pictures.astype(np.float32)).movedim(-1, 1).to(self.device)


def backbone_file(network: str = "alex") -> Path:
    """Return the path at which :func:`load_perceptual` expects a network's weights.

    It lies in PyTorch's hub folder, which the environment variable ``TORCH_HOME`` changes.

    Parameters
    ----------
    network : {"alex", "squeeze"}
        As LPIPS calls it.
    """
    arguments.one_of("network", network, tuple(BACKBONES))
    return Path(torch.hub.get_dir()) / "checkpoints" / BACKBONES[network].file


def _backbone(folder: Path | None) -> tuple[str, bytes]:
    """Return the first network whose weights are there, and their verified bytes; or ``""``."""
    for network, known in BACKBONES.items():
        places = [] if folder is None else [folder / known.file]
        for path in (*places, backbone_file(network)):
            if path.is_file():
                return network, known.read(path)
    return "", b""


def load_perceptual(
    device: str = "cpu", seed: int = 0, folder: str | Path | None = None
) -> PerceptualMetric:
    """Load LPIPS (Zhang et al. 2018), or a stand-in if the backbone's weights are missing.

    Nothing is downloaded. If torchvision's ImageNet weights of AlexNet (233 MB) or else of
    SqueezeNet 1.1 (5 MB) are in ``folder``, or where torchvision puts them
    (:func:`backbone_file`), this is LPIPS on that network, with its published linear weights.
    Otherwise the same code uses an untrained AlexNet with unit weights on its five layers: a
    multi-scale distance of random features. It orders noise levels, but its values are not those
    of LPIPS; its name says so.

    ``torchvision.models.squeezenet1_1(weights="IMAGENET1K_V1")`` fetches the smaller file.

    Parameters
    ----------
    device : str
        Where to compute.
    seed : int
        Seed of the stand-in's weights.
    folder : str or Path, optional
        Where to look first, for a file of the name that torchvision gives it.

    Returns
    -------
    PerceptualMetric

    Raises
    ------
    ValueError
        If a file of weights is there and is not the published one.
    """
    _import_torchvision()
    found, weights = _backbone(None if folder is None else Path(folder))
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # lpips still passes torchvision's retired arguments
        import lpips

        torch.manual_seed(seed)
        if found:
            network = lpips.LPIPS(net=found, pnet_rand=True, verbose=False)
            _load_backbone(network.net, weights)
            name, stand_in = f"LPIPS ({BACKBONES[found].name})", False
        else:
            network = lpips.LPIPS(net="alex", pnet_rand=True, lpips=False, verbose=False)
            name, stand_in = "untrained-AlexNet distance", True
    return PerceptualMetric(name, stand_in, network.eval().to(device), device)


def load_shift_tolerant(device: str = "cpu") -> PerceptualMetric:
    """Load shift-tolerant LPIPS on AlexNet (Ghildyal & Liu 2022), a trained metric of its own.

    It is a relative of LPIPS, trained on the same judgements of people, with other values: its
    network has blurred strides, so that it hardly sees a shift by a pixel. Its weights come with
    the package ``stlpips-pytorch``; that package's code is not imported, which needs packages that
    it does not name and is in part licensed for non-commercial use only.

    Parameters
    ----------
    device : str
        Where to compute.

    Returns
    -------
    PerceptualMetric

    Raises
    ------
    ModuleNotFoundError
        If ``stlpips-pytorch`` is not installed.
    FileNotFoundError, ValueError
        If its file of weights is missing, or is not the published one.

    Notes
    -----
    Ghildyal & Liu, *Shift-tolerant Perceptual Similarity Metric*, ECCV 2022.
    """
    require("stlpips_pytorch", "reconrisk.metrics.load_shift_tolerant")
    published = torch.load(io.BytesIO(shift_tolerant()), map_location="cpu", weights_only=True)
    network = ShiftTolerant(published).eval().to(device)
    return PerceptualMetric(SHIFT_TOLERANT.name, False, network, device)


def _load_backbone(slices: Any, weights: bytes) -> None:
    """Load verified weights; LPIPS keeps torchvision's ``features`` in slices, by their numbers."""
    published = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    names = {own: re.sub(r"^slice\d+", "features", own) for own in slices.state_dict()}
    slices.load_state_dict({own: published[name] for own, name in names.items()})


def _import_torchvision() -> Any:
    """Import torchvision, even a build for CUDA beside a CPU-only PyTorch.

    Such a wheel cannot load its compiled operators, and its import fails when it registers the
    shapes of two of them, which are not used here. Declaring these two lets the import succeed.
    They are declared only after the failure: declaring an operator twice aborts the process.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    global _operators  # the declarations last as long as the object
    _operators = torch.library.Library("torchvision", "DEF")
    _operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


_operators: Any = None
