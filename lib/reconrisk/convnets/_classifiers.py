"""Classifiers with a wide layer that reveals features, and one with an imprint module."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reconrisk import arguments

__all__ = [
    "BatchNorm",
    "ConvNet",
    "ImprintNetwork",
    "ResNet18",
    "Trace",
    "WideHead",
    "convolution",
    "draw_weights",
    "randomise_neurons",
]

ACTIVATIONS = {"elu": functional.elu, "relu": functional.relu, "sigmoid": torch.sigmoid}

Statistics = list[tuple[torch.Tensor, torch.Tensor]]


class Trace(NamedTuple):
    """A forward pass with the intermediate values that attacks use.

    Parameters
    ----------
    outputs : Tensor, shape (n, classes)
    features : Tensor, shape (n, f)
        Inputs of the wide layer.
    statistics : list of pairs of Tensor, shape (channels,)
        Mean and variance of the inputs of each batch norm, over the batch and all positions.
    """

    outputs: torch.Tensor
    features: torch.Tensor
    statistics: Statistics


class BatchNorm(nn.Module):
    """Batch norm without side effects, for ``vmap`` and double differentiation.

    In ``eval()`` it normalises by the stored statistics, in ``train()`` by those of the batch;
    :meth:`WideHead.absorb` updates the stored ones.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, maps: torch.Tensor, statistics: Statistics | None) -> torch.Tensor:
        """Return normalised maps (n, channels, height, width); append the batch's statistics."""
        mean, variance = self.mean, self.variance
        if self.training or statistics is not None:
            axes = (0, 2, 3)
            found = maps.mean(dim=axes)
            spread = (maps - found[:, None, None]).square().mean(dim=axes)
            if statistics is not None:
                statistics.append((found, spread))
            if self.training:
                mean, variance = found, spread
        scale = self.weight * torch.rsqrt(variance + 1e-5)
        return maps * scale[:, None, None] + (self.bias - mean * scale)[:, None, None]


class WideHead(nn.Module):
    """A convolutional body, a wide linear layer with an activation, and a classification head.

    Subclasses define :meth:`body`. Images are (n, 3, side, side) in [0, 1]; the network
    standardises them.

    Attributes
    ----------
    wide : Linear or None
    head : Linear
    """

    def __init__(
        self, features: int, wide: int | None, classes: int, activation: str, device: str
    ) -> None:
        super().__init__()
        classes = arguments.count("classes", classes, 2)
        wide = None if wide is None else arguments.count("wide", wide)
        arguments.one_of("activation", activation, tuple(ACTIVATIONS))
        self.activation = ACTIVATIONS[activation]
        self.wide = None if wide is None else nn.Linear(features, wide, device=device)
        self.head = nn.Linear(features if wide is None else wide, classes, device=device)

    def body(self, images: torch.Tensor, statistics: Statistics | None) -> torch.Tensor:
        """Return the features (n, f) of standardised images; append the batch norms' statistics."""
        raise NotImplementedError

    def forward(
        self, images: torch.Tensor, units: torch.Tensor | None = None, *, trace: bool = False
    ) -> torch.Tensor | Trace:
        """Return outputs (n, classes), or a :class:`Trace`.

        Parameters
        ----------
        images : Tensor, shape (n, 3, side, side)
        units : Tensor, shape (neurons,), optional
            Factors of the wide layer's neurons, zero where they are dropped.
        trace : bool
            Whether to return a :class:`Trace`.
        """
        statistics: Statistics | None = [] if trace else None
        features = self.body((images - 0.5) / 0.25, statistics)
        hidden = features
        if self.wide is not None:
            hidden = self.activation(self.wide(features))
        if units is not None:
            if self.wide is None:
                raise ValueError("units must be None without a wide layer")
            hidden = hidden * units
        outputs = self.head(hidden)
        return outputs if statistics is None else Trace(outputs, features, statistics)

    @torch.no_grad()
    def absorb(self, statistics: Statistics, momentum: float = 0.1) -> None:
        """Move the stored statistics of the batch norms by ``momentum`` towards a batch's.

        Raises
        ------
        ValueError
            If there is not one pair of statistics for each batch norm.
        """
        arguments.real("momentum", momentum, 0, 1)
        norms = [module for module in self.modules() if isinstance(module, BatchNorm)]
        for norm, (mean, variance) in zip(norms, statistics, strict=True):
            norm.mean.lerp_(mean.detach(), momentum)
            norm.variance.lerp_(variance.detach(), momentum)

    @property
    def parameter_count(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.parameters())


class ConvNet(WideHead):
    """Three convolutions of stride 2 and a head: small enough for a CPU.

    Parameters
    ----------
    generator : torch.Generator
        Source of the initial weights, uniform within ``1 / sqrt(fan in)`` as in PyTorch.
    side : int
        Side of the images, a multiple of 8.
    channels : int
        Channels of the first convolution; the others have twice as many.
    wide : int, optional
        Neurons of the wide layer; none by default.
    batch_norm : bool
        Whether each convolution is followed by a batch norm.
    activation : str
        ``"elu"``, ``"relu"`` or ``"sigmoid"``. With ReLU the gradient is no longer a smooth
        function of the images.
    classes : int
    colours : int
        Channels of the images.
    """

    def __init__(
        self,
        generator: torch.Generator,
        *,
        side: int = 32,
        channels: int = 16,
        wide: int | None = None,
        batch_norm: bool = True,
        activation: str = "elu",
        classes: int = 10,
        colours: int = 3,
    ) -> None:
        side, channels = arguments.count("side", side), arguments.count("channels", channels)
        arguments.integer("side / 8", side / 8, 1)
        features = 2 * channels * (side // 8) ** 2
        super().__init__(features, wide, classes, activation, "meta")
        widths = (colours, channels, 2 * channels, 2 * channels)
        self.convolutions = nn.ModuleList(
            convolution(in_channels, out_channels, stride=2, bias=not batch_norm)
            for in_channels, out_channels in zip(widths, widths[1:], strict=False)
        )
        self.norms = nn.ModuleList(BatchNorm(width) for width in widths[1:] if batch_norm)
        draw_weights(self, generator)

    def body(self, images: torch.Tensor, statistics: Statistics | None) -> torch.Tensor:
        """Return the features (n, f) of standardised images."""
        maps = images
        for number, convolution in enumerate(self.convolutions):
            maps = convolution(maps)
            if self.norms:
                maps = self.norms[number](maps, statistics)
            maps = self.activation(maps)
        return maps.flatten(1)


class ResNet18(WideHead):
    """ResNet-18 (He et al. 2016) for 32x32 images: a 3x3 first convolution and no first pooling.

    Parameters
    ----------
    generator : torch.Generator
        Source of the initial weights, uniform within ``1 / sqrt(fan in)``.
    width : int
        Channels of the first stage; 64 in the original, which has 512 features.
    wide : int, optional
        Neurons of the wide layer; 16,384 in Liu et al. By default none, as in the original.
    activation : str
        ``"relu"`` in the original.
    classes : int

    Notes
    -----
    11,173,962 parameters at width 64 without and 19,737,674 with the wide layer. One gradient of
    four images and its derivative take half a second on one core.
    """

    def __init__(
        self,
        generator: torch.Generator,
        *,
        width: int = 64,
        wide: int | None = None,
        activation: str = "relu",
        classes: int = 10,
    ) -> None:
        arguments.integer("width", width, 1)
        super().__init__(8 * width, wide, classes, activation, "meta")
        self.first = convolution(3, width)
        self.first_norm = BatchNorm(width)
        blocks = []
        in_channels = width
        for stage in range(4):
            out_channels = width * 2**stage
            for index in range(2):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(_ResidualBlock(in_channels, out_channels, stride))
                in_channels = out_channels
        self.blocks = nn.ModuleList(blocks)
        draw_weights(self, generator)

    def body(self, images: torch.Tensor, statistics: Statistics | None) -> torch.Tensor:
        """Return the features (n, 8 width) of standardised images."""
        maps = self.activation(self.first_norm(self.first(images), statistics))
        for block in self.blocks:
            maps = block(maps, self.activation, statistics)
        return maps.mean(dim=(2, 3))


class _ResidualBlock(nn.Module):
    """Two convolutions with batch norm, added to the input or (if sizes change) its projection."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution(in_channels, out_channels, stride)
        self.norm1 = BatchNorm(out_channels)
        self.conv2 = convolution(out_channels, out_channels)
        self.norm2 = BatchNorm(out_channels)
        changes = stride != 1 or in_channels != out_channels
        self.project = convolution(in_channels, out_channels, stride, size=1) if changes else None
        self.project_norm = BatchNorm(out_channels) if changes else None

    def forward(self, maps, activation, statistics: Statistics | None) -> torch.Tensor:
        inner = activation(self.norm1(self.conv1(maps), statistics))
        inner = self.norm2(self.conv2(inner), statistics)
        shortcut = maps
        if self.project is not None and self.project_norm is not None:
            shortcut = self.project_norm(self.project(maps), statistics)
        return activation(inner + shortcut)


#: height and width up to which a CPU convolves by a product of matrices
SMALL = 8


class Convolution(nn.Conv2d):
    """A convolution that multiplies the patches of small maps by the weights.

    Mapped over problems (``vmap``), derivatives by the weights become grouped convolutions, whose
    calls cost a CPU more than their arithmetic where a map has few positions. It gives the same
    values as :class:`torch.nn.Conv2d`, but for rounding.
    """

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Convolve maps (n, channels, height, width)."""
        if maps.device.type != "cpu" or max(maps.shape[-2:]) > SMALL:
            return super().forward(maps)
        (size, _), (stride, _), pad = self.kernel_size, self.stride, int(self.padding[0])
        padded = functional.pad(maps, (pad,) * 4) if pad else maps
        channels, height, width = padded.shape[1:]
        places = _patches(channels, height, width, size, stride)
        patches = padded.flatten(1).index_select(1, places).view(-1, self.weight[0].numel())
        values = functional.linear(patches, self.weight.flatten(1), self.bias)
        rows, columns = ((side - size) // stride + 1 for side in (height, width))
        return values.view(len(maps), rows, columns, -1).permute(0, 3, 1, 2).contiguous()


@functools.lru_cache(maxsize=64)
def _patches(channels: int, height: int, width: int, size: int, stride: int) -> torch.Tensor:
    """Places of every patch's values in flat maps, position by position."""
    places = np.arange(channels * height * width).reshape(channels, height, width)
    windows = np.lib.stride_tricks.sliding_window_view(places, (size, size), axis=(1, 2))
    chosen = windows[:, ::stride, ::stride].transpose(1, 2, 0, 3, 4)
    return torch.from_numpy(np.array(chosen).ravel())  # of a copy: the windows are read-only


def convolution(
    in_channels: int, out_channels: int, stride: int = 1, size: int = 3, bias: bool = False
) -> Convolution:
    """Return a convolution without weights; its padding keeps the size at stride 1."""
    # on the meta device, because PyTorch's initialisation would draw from the global seed
    return Convolution(in_channels, out_channels, size, stride, size // 2, bias=bias, device="meta")


def draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of convolutions and linear layers, uniform within ``1 / sqrt(fan in)``."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(module.weight[0].numel())
            for name, parameter in list(module.named_parameters(recurse=False)):
                drawn = torch.rand(parameter.shape, generator=generator, device=generator.device)
                setattr(module, name, nn.Parameter((2 * drawn - 1) * bound))
    network.to(generator.device)


@torch.no_grad()
def randomise_neurons(network: WideHead, count: int, generator: torch.Generator) -> None:
    """Give the wide layer's last neurons random weights, so that gradients reveal the features.

    Their inner weights become standard normal and their biases zero, and the head's weights from
    them ``i / count`` for class i = 1, 2, ...: Liu et al., Appendix F. The other neurons are not
    changed.

    Parameters
    ----------
    network : WideHead
        Changed in place.
    count : int
        v, the number of neurons, from 1 to all. Of 16,384 neurons the appendix keeps 4,096 as
        trained in one paragraph, and ``m - v = 2048`` in another.
    generator : torch.Generator

    Raises
    ------
    ValueError
        If there is no wide layer, or it has fewer than ``count`` neurons.
    """
    if network.wide is None:
        raise ValueError("network must have a wide layer")
    count = arguments.count("count", count, 1, len(network.wide.weight))
    inner = network.wide.weight[-count:]
    inner.copy_(torch.randn(inner.shape, generator=generator, device=inner.device))
    network.wide.bias[-count:] = 0
    classes = torch.arange(1, len(network.head.weight) + 1, device=inner.device)
    network.head.weight[:, -count:] = (classes / count)[:, None].to(inner.dtype)


class ImprintNetwork(nn.Module):
    """Robbing the Fed's imprint module in front of a classifier: Fowl et al. 2022, Section 4.

    All rows of the first layer take the same measurement of a record, ``h.x``, with different
    thresholds, and all neurons have the same output weights. The gradients of adjacent rows then
    differ only by the records between their thresholds.

    Parameters
    ----------
    measurement : Tensor, shape (d,)
        h; with ``1 / d`` everywhere it measures the mean brightness.
    thresholds : Tensor, shape (k,)
        Increasing; the biases are their negatives.
    classes : int
    scale : float
        Factor of the head's weights, > 0. The imprint layer's gradient is proportional to it until
        the softmax saturates, so that a server which chooses a large one drowns the noise of a
        client who does not clip. Fowl et al. leave it open.

    Notes
    -----
    The head's weights are ``scale c / (k classes)`` for class c = 1, 2, ...; any with equal columns
    work if the classes differ.
    """

    def __init__(
        self,
        measurement: torch.Tensor,
        thresholds: torch.Tensor,
        classes: int = 10,
        *,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        arguments.integer("classes", classes, 2)
        arguments.real("scale", scale, 0, low_open=True, high_open=True)
        if measurement.ndim != 1 or thresholds.ndim != 1 or len(thresholds) < 1:
            raise ValueError(
                "measurement and thresholds must be vectors; "
                f"got shapes {tuple(measurement.shape)} and {tuple(thresholds.shape)}"
            )
        if not bool((thresholds.diff() > 0).all()):
            raise ValueError("thresholds must increase")
        neurons = len(thresholds)
        self.imprint = nn.Linear(len(measurement), neurons, device="meta")
        self.imprint.weight = nn.Parameter(measurement.expand(neurons, -1).clone())
        self.imprint.bias = nn.Parameter(-thresholds.clone())
        self.head = nn.Linear(neurons, classes, device="meta")
        shares = torch.arange(1, classes + 1, dtype=measurement.dtype) / (neurons * classes)
        shares = scale * shares
        self.head.weight = nn.Parameter(shares[:, None].expand(-1, neurons).clone())
        self.head.bias = nn.Parameter(torch.zeros(classes, dtype=measurement.dtype))

    def forward(self, records: torch.Tensor, units: torch.Tensor | None = None) -> torch.Tensor:
        """Return outputs (n, classes) of records (n, ...)."""
        hidden = functional.relu(self.imprint(records.flatten(1)))
        return self.head(hidden if units is None else hidden * units)
