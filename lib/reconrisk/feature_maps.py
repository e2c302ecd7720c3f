"""Frozen networks whose last layer is fine-tuned: the wide ResNet, and a stand-in for it.

Hayes et al. (Appendix A) fine-tune the last layer of a WRN-28-10 with group norm and ELU that was
trained on ImageNet at 32x32 (the set-up of De et al., 2022). Its weights are read from a file;
where there is none, random convolutional features stand in for it, by name.
"""

from __future__ import annotations

from reconrisk._extras import require

require("torch", "reconrisk.feature_maps")

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from reconrisk import arguments

__all__ = ["FeatureMap", "WideResNet", "load", "random_features", "save"]


class FeatureMap(nn.Module):
    """A frozen map from flat images (count, d) in [0, 1] to features (count, f).

    Differentiable in the images; its parameters ask for no gradient.

    Attributes
    ----------
    shape : tuple of int
        (height, width, channels) of an image.
    name : str
        For captions and axes.
    stand_in : bool
        Whether it stands in for a pretrained network.
    """

    def __init__(self, shape: Sequence[int], body: nn.Module, name: str, stand_in: bool) -> None:
        super().__init__()
        self.shape = (*shape, 1)[:3]
        self.body = body
        self.name = name
        self.stand_in = stand_in
        self.requires_grad_(False).eval()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the features, shape (count, f), of images of shape (count, d)."""
        channels_first = images.reshape(-1, *self.shape).permute(0, 3, 1, 2)
        return self.body(channels_first)


# Wide ResNet -------------------------------------------------------------------------------------


class WideResNet(nn.Module):
    """A pre-activation wide ResNet without its last layer: group norm, ELU, average pooling.

    Parameters
    ----------
    depth : int
        6 n + 4 convolutions deep (28: n = 4 blocks in each of three groups).
    width : int
        Width factor k; the groups have 16 k, 32 k and 64 k channels, and f = 64 k.
    groups : int
        Groups of the group norm.
    standardise : bool
        Standardise each filter's weights (De et al. do).

    Raises
    ------
    ValueError
        If the depth is not of the form 6 n + 4 or the groups do not divide the channels.
    """

    def __init__(
        self, depth: int = 28, width: int = 10, groups: int = 16, *, standardise: bool = True
    ) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth must be 6 n + 4 with n >= 1; got {depth!r}")
        arguments.integer("width", width, 1)
        if groups < 1 or 16 % groups:
            raise ValueError(f"groups must divide 16, the first layer's channels; got {groups!r}")
        self.settings = {
            "depth": depth,
            "width": width,
            "groups": groups,
            "standardise": standardise,
        }
        self.first = _Convolution(3, 16, 1, standardise)
        blocks: list[nn.Module] = []
        entering = 16
        for group, channels in enumerate((16 * width, 32 * width, 64 * width)):
            for index in range((depth - 4) // 6):
                stride = 2 if group > 0 and index == 0 else 1
                blocks.append(_Block(entering, channels, stride, groups, standardise))
                entering = channels
        self.blocks = nn.Sequential(*blocks)
        self.last_norm = nn.GroupNorm(groups, entering)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return features (count, 64 k) of images (count, 3, height, width)."""
        maps = functional.elu(self.last_norm(self.blocks(self.first(images))))
        return maps.mean(dim=(2, 3))


class _Convolution(nn.Conv2d):
    """A 3x3 (or 1x1) convolution without bias, its filters standardised on the fly if asked."""

    def __init__(
        self, entering: int, leaving: int, stride: int, standardise: bool, size: int = 3
    ) -> None:
        super().__init__(entering, leaving, size, stride, size // 2, bias=False)
        self.standardise = standardise

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        if self.standardise:
            centred = weight - weight.mean(dim=(1, 2, 3), keepdim=True)
            fan_in = weight[0].numel()
            spread = centred.square().mean(dim=(1, 2, 3), keepdim=True)
            weight = centred * torch.rsqrt((fan_in * spread).clamp(min=1e-4))
        return functional.conv2d(images, weight, None, self.stride, self.padding)


class _Block(nn.Module):
    """Norm, ELU, convolution, twice; added to the input or, where sizes change, its projection."""

    def __init__(
        self, entering: int, leaving: int, stride: int, groups: int, standardise: bool
    ) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, entering)
        self.conv1 = _Convolution(entering, leaving, stride, standardise)
        self.norm2 = nn.GroupNorm(groups, leaving)
        self.conv2 = _Convolution(leaving, leaving, 1, standardise)
        self.project = (
            None
            if stride == 1 and entering == leaving
            else _Convolution(entering, leaving, stride, standardise, size=1)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        opened = functional.elu(self.norm1(images))
        kept = images if self.project is None else self.project(opened)
        inner = functional.elu(self.norm2(self.conv1(opened)))
        return kept + self.conv2(inner)


def load(path: str | Path) -> FeatureMap:
    """Load a wide ResNet's weights as a feature map for 32x32 colour images.

    The file is what ``torch.save`` writes of a dictionary with the entries

    - ``settings``: ``depth``, ``width``, ``groups`` and ``standardise`` of :class:`WideResNet`;
    - ``mean``, ``std``: three numbers each, subtracted from and divided out of the colours;
    - ``name``: for captions, such as ``"WRN-28-10 (ImageNet 32x32)"``;
    - ``weights``: the ``state_dict()`` of :class:`WideResNet`.

    Weights trained elsewhere need their names changed to those of :class:`WideResNet` once;
    :func:`save` writes the file. Nothing in the file is executed.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it lacks an entry or a weight.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no weights at {path}: reconrisk.feature_maps.save writes them")
    stored = torch.load(path, map_location="cpu", weights_only=True)
    missing = {"settings", "mean", "std", "name", "weights"} - set(stored)
    if missing:
        raise ValueError(f"{path} lacks the entries {', '.join(sorted(missing))}")
    network = WideResNet(**stored["settings"])
    try:
        network.load_state_dict(stored["weights"])
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit {stored['settings']}: {error}") from error
    normalised = nn.Sequential(_Standardised(stored["mean"], stored["std"]), network)
    return FeatureMap((32, 32, 3), normalised, stored["name"], stand_in=False)


def save(
    path: str | Path,
    network: WideResNet,
    name: str,
    mean: Sequence[float] = (0.5, 0.5, 0.5),
    std: Sequence[float] = (0.5, 0.5, 0.5),
) -> None:
    """Write a wide ResNet's weights in the format that :func:`load` reads."""
    content: dict[str, Any] = {
        "settings": network.settings,
        "mean": list(map(float, mean)),
        "std": list(map(float, std)),
        "name": name,
        "weights": network.state_dict(),
    }
    torch.save(content, path)


class _Standardised(nn.Module):
    """Subtracts a mean colour and divides by a spread, each (3,)."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images - self.mean) / self.std


# The stand-in ------------------------------------------------------------------------------------


def random_features(shape: Sequence[int], count: int = 640, cells: int = 4) -> FeatureMap:
    """Return a fixed random convolutional feature map, the stand-in for a pretrained network.

    The image is cut into ``cells`` x ``cells`` squares; ``count / cells**2`` random filters of
    the size of a square look at each, followed by an ELU. The filters are the same for every
    square, for every call and for every user (a fixed seed), centred on mid-grey, orthonormal as
    far as there is room, and scaled so that the ELU bends but does not saturate.

    Parameters
    ----------
    shape : tuple of int
        (height, width) or (height, width, channels); both sides multiples of ``cells``.
    count : int
        f, a multiple of ``cells**2``. With ``count >= d`` the map is one to one.

    Raises
    ------
    ValueError
        If sides or count are not multiples.
    """
    height, width, channels = (*shape, 1)[:3]
    if height % cells or width % cells:
        raise ValueError(f"shape must have sides that are multiples of {cells}; got {shape!r}")
    if count < cells**2 or count % cells**2:
        raise ValueError(f"count must be a positive multiple of {cells**2}; got {count!r}")
    name = f"{count} random convolutional features"
    body = _RandomSquares((height // cells, width // cells), channels, count // cells**2)
    return FeatureMap((height, width, channels), body, name, stand_in=True)


class _RandomSquares(nn.Module):
    """Random filters on disjoint squares, then an ELU; features (count, filters * squares)."""

    def __init__(self, size: tuple[int, int], channels: int, filters: int) -> None:
        super().__init__()
        values = channels * math.prod(size)
        generator = torch.Generator().manual_seed(2023)
        # the Q of a QR decomposition of Gaussian numbers: orthonormal rows, or columns if wider
        tall = torch.randn(
            max(values, filters), min(values, filters), generator=generator, dtype=torch.float64
        )
        orthonormal, upper = torch.linalg.qr(tall)
        orthonormal = orthonormal * upper.diagonal().sign()  # the same on every machine
        rows = orthonormal.T if filters <= values else orthonormal
        # pixels lie about 0.25 from mid-grey: answers of about 0.5, where the ELU bends but is open
        scale = 2.0 * math.sqrt(max(values, filters) / values)
        weight = rows.reshape(filters, channels, *size) * scale
        self.register_buffer("weight", weight.to(torch.float32))
        self.size = size

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = functional.conv2d(images - 0.5, self.weight.to(images.dtype), stride=self.size)
        return functional.elu(maps).flatten(1)
