"""Networks that paint images: an untrained U-Net, and a decoder that is trained on pictures."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from reconrisk import arguments
from reconrisk.convnets._classifiers import convolution, draw_weights

__all__ = ["Decoder", "ImagePrior", "train_decoder"]

#: the side at which the U-Net attends to itself
ATTENTION_SIDE = 16


class ImagePrior(nn.Module):
    """The untrained image prior: a U-Net from fixed noise to images, Liu et al., Appendix F.

    A residual U-Net with group norm. Each side, halved down to a quarter of 16 or an eighth of 32,
    has two residual blocks; at side 16 self-attention stands between them. The way up takes the
    maps of the way down beside its own.

    Parameters
    ----------
    generator : torch.Generator
        Source of the weights, uniform within ``1 / sqrt(fan in)``.
    side : int
        Of the images: a power of two, at least 8.
    width : int
        Channels at the first side and of the noise; doubled at the lower ones.
    colours : int

    Notes
    -----
    The paper's sides are 32, 16, 8 and 4; it does not print the width. Its recovered features,
    which enter each residual block, are left out.
    """

    def __init__(
        self, generator: torch.Generator, *, side: int = 32, width: int = 64, colours: int = 3
    ) -> None:
        super().__init__()
        arguments.integer("side", side, 8)
        arguments.integer("log2(side)", math.log2(side))
        arguments.integer("width", width, 1)
        self.side, self.width = side, width
        sides = [side // 2**k for k in range(int(math.log2(side)) - 1)]
        widths = [width if k == 0 else 2 * width for k in range(len(sides))]
        self.first = convolution(width, width, bias=True)
        self.down = nn.ModuleList()
        entering = width
        for here, leaving in zip(sides, widths, strict=True):
            self.down.append(_Stage(entering, leaving, here))
            entering = leaving
        self.up = nn.ModuleList()
        for here, leaving in list(zip(sides, widths, strict=True))[-2::-1]:
            self.up.append(_Stage(entering + leaving, leaving, here))
            entering = leaving
        self.norm = _group_norm(entering)
        self.last = convolution(entering, colours, bias=True)
        draw_weights(self, generator)

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """Return images (n, colours, side, side) in (0, 1) from noise (n, width, side, side)."""
        maps = self.first(noise)
        kept = []
        for number, stage in enumerate(self.down):
            maps = stage(functional.avg_pool2d(maps, 2) if number else maps)
            kept.append(maps)
        for stage, beside in zip(self.up, kept[-2::-1], strict=True):
            maps = stage(torch.cat([_doubled(maps), beside], dim=1))
        return torch.sigmoid(self.last(functional.silu(self.norm(maps))))


class Decoder(nn.Module):
    """A convolutional generator of images from latent vectors.

    A linear layer to a side of 4, then convolutions on maps of doubled side.

    Parameters
    ----------
    generator : torch.Generator
        Source of the first weights.
    side : int
        Of the images: a power of two, at least 8.
    latent : int
        Length of the latent vectors.
    width : int
        Channels of the last maps; twice as many before.
    colours : int
    """

    def __init__(
        self,
        generator: torch.Generator,
        *,
        side: int = 32,
        latent: int = 32,
        width: int = 16,
        colours: int = 3,
    ) -> None:
        super().__init__()
        arguments.integer("side", side, 8)
        steps = int(arguments.integer("log2(side)", math.log2(side))) - 2
        arguments.integer("latent", latent, 1)
        self.latent = latent
        self.first = nn.Linear(latent, 32 * width, device="meta")
        widths = [2 * width] * steps + [width]
        self.convolutions = nn.ModuleList(
            convolution(entering, leaving, bias=True)
            for entering, leaving in zip(widths, widths[1:], strict=False)
        )
        self.norms = nn.ModuleList(_group_norm(leaving) for leaving in widths[1:])
        self.last = convolution(width, colours, bias=True)
        draw_weights(self, generator)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """Return images (n, colours, side, side) in (0, 1) of latent vectors (n, latent)."""
        maps = self.first(latents).unflatten(1, (-1, 4, 4))
        for layer, norm in zip(self.convolutions, self.norms, strict=True):
            maps = functional.silu(norm(layer(_doubled(maps))))
        return torch.sigmoid(self.last(maps))


def train_decoder(
    decoder: Decoder,
    images: torch.Tensor,
    *,
    generator: torch.Generator,
    steps: int = 1000,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
) -> torch.Tensor:
    """Train a decoder in place to paint given images, each from a latent vector of its own.

    Generative latent optimisation (Bojanowski et al. 2018): Adam on the weights and on the latent
    vectors, held in the unit ball times ``sqrt(latent)``, for the squared error of the pixels.

    Parameters
    ----------
    decoder : Decoder
    images : Tensor, shape (N, colours, side, side)
        Auxiliary pictures in [0, 1].
    generator : torch.Generator
        Of the first latent vectors and the batches.
    steps, batch_size : int
    learning_rate : float
        Of the weights, down to zero along a half cosine; of the latent vectors ten times as much.

    Returns
    -------
    Tensor, shape (N, latent)
        The images' latent vectors: their law is the prior of the latent space.
    """
    arguments.integer("steps", steps, 1)
    arguments.integer("batch_size", batch_size, 1)
    radius = math.sqrt(decoder.latent)
    shape = (len(images), decoder.latent)
    latents = torch.randn(shape, generator=generator, device=images.device, dtype=images.dtype)
    latents.requires_grad_()
    groups = [
        {"params": list(decoder.parameters()), "lr": learning_rate},
        {"params": [latents], "lr": 10 * learning_rate},
    ]
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    with torch.enable_grad():
        for _ in range(steps):
            chosen = torch.randint(
                len(images), (batch_size,), generator=generator, device=images.device
            )
            loss = (decoder(latents[chosen]) - images[chosen]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                latents *= radius / latents.norm(dim=1, keepdim=True).clamp(min=radius)
    return latents.detach()


class _Stage(nn.Module):
    """Two residual blocks, and between them, at one side, attention of each place to all."""

    def __init__(self, entering: int, leaving: int, side: int) -> None:
        super().__init__()
        self.before = _Residual(entering, leaving)
        self.attention = _Attention(leaving) if side == ATTENTION_SIDE else None
        self.after = _Residual(leaving, leaving)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        maps = self.before(maps)
        if self.attention is not None:
            maps = self.attention(maps)
        return self.after(maps)


class _Residual(nn.Module):
    """Norm, activation and convolution, twice, added to the input or its 1x1 convolution."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = _group_norm(entering), convolution(entering, leaving, bias=True)
        self.norm2, self.conv2 = _group_norm(leaving), convolution(leaving, leaving, bias=True)
        changes = entering != leaving
        self.project = convolution(entering, leaving, size=1, bias=True) if changes else None

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        inner = self.conv1(functional.silu(self.norm1(maps)))
        inner = self.conv2(functional.silu(self.norm2(inner)))
        return inner + (maps if self.project is None else self.project(maps))


class _Attention(nn.Module):
    """Self-attention with one head, added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _group_norm(channels)
        self.mixed = convolution(channels, 3 * channels, size=1, bias=True)
        self.out = convolution(channels, channels, size=1, bias=True)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mixed(self.norm(maps)).flatten(2).chunk(3, dim=1)
        shares = torch.softmax(query.mT @ key / math.sqrt(query.shape[1]), dim=2)
        return maps + self.out((value @ shares.mT).unflatten(2, maps.shape[2:]))


def _group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(channels, 8), channels)


def _doubled(maps: torch.Tensor) -> torch.Tensor:
    """Every pixel four times."""
    return maps.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
