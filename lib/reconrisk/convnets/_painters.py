"""Image generators: an untrained U-Net, and a decoder trained on auxiliary images."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from reconrisk import arguments
from reconrisk.convnets._classifiers import convolution, draw_weights

__all__ = ["Decoder", "ImagePrior", "train_decoder"]

#: Side of the maps at which the U-Net has self-attention.
ATTENTION_SIDE = 16


class ImagePrior(nn.Module):
    """The untrained image prior: a U-Net from fixed noise to images, Liu et al., Appendix F.

    A residual U-Net with group norm. The side is halved down to 4; each level has two residual
    blocks, with self-attention between them at side 16. Skip connections concatenate the maps of
    the contracting path to those of the expanding path.

    Parameters
    ----------
    generator : torch.Generator
        Source of the weights, uniform within ``1 / sqrt(fan in)``.
    side : int
        Side of the images: a power of two, at least 8.
    width : int
        Channels of the noise and of the first level; the lower levels have twice as many.
    colours : int
    features : int
        Length of recovered features that enter each residual block; 0 for none.

    Notes
    -----
    The paper's sides are 32, 16, 8 and 4; it does not state the width, nor how features enter. Here
    a linear map of them is added to the maps between a block's convolutions, behind the norm.
    """

    def __init__(
        self,
        generator: torch.Generator,
        *,
        side: int = 32,
        width: int = 64,
        colours: int = 3,
        features: int = 0,
    ) -> None:
        super().__init__()
        arguments.integer("side", side, 8)
        arguments.integer("log2(side)", math.log2(side))
        arguments.integer("width", width, 1)
        arguments.integer("features", features, 0)
        self.side, self.width, self.features = side, width, features
        sides = [side // 2**k for k in range(int(math.log2(side)) - 1)]
        widths = [width if k == 0 else 2 * width for k in range(len(sides))]
        self.first = convolution(width, width, bias=True)
        self.down = nn.ModuleList()
        in_channels = width
        for here, out_channels in zip(sides, widths, strict=True):
            self.down.append(_Stage(in_channels, out_channels, here, features))
            in_channels = out_channels
        self.up = nn.ModuleList()
        for here, out_channels in list(zip(sides, widths, strict=True))[-2::-1]:
            self.up.append(_Stage(in_channels + out_channels, out_channels, here, features))
            in_channels = out_channels
        self.norm = _group_norm(in_channels)
        self.last = convolution(in_channels, colours, bias=True)
        draw_weights(self, generator)

    def forward(self, noise: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:
        """Return images (n, colours, side, side) in (0, 1) from noise (n, width, side, side).

        Of the features (n, f) the direction enters; without any, none does.
        """
        known = None
        if self.features and features is not None:
            known = functional.normalize(features, dim=1) * math.sqrt(self.features)
        maps = self.first(noise)
        kept = []
        for number, stage in enumerate(self.down):
            maps = stage(functional.avg_pool2d(maps, 2) if number else maps, known)
            kept.append(maps)
        for stage, beside in zip(self.up, kept[-2::-1], strict=True):
            maps = stage(torch.cat([_double(maps), beside], dim=1), known)
        return torch.sigmoid(self.last(functional.silu(self.norm(maps))))


class Decoder(nn.Module):
    """A convolutional generator of images from latent vectors.

    A linear layer to maps of side 4, then convolutions, each after doubling the side.

    Parameters
    ----------
    generator : torch.Generator
        Source of the initial weights.
    side : int
        Side of the images: a power of two, at least 8.
    latent : int
        Length of the latent vectors.
    width : int
        Channels of the last maps; the others have twice as many.
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
            convolution(in_channels, out_channels, bias=True)
            for in_channels, out_channels in zip(widths, widths[1:], strict=False)
        )
        self.norms = nn.ModuleList(_group_norm(out_channels) for out_channels in widths[1:])
        self.last = convolution(width, colours, bias=True)
        draw_weights(self, generator)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """Return images (n, colours, side, side) in (0, 1) of latent vectors (n, latent)."""
        maps = self.first(latents).unflatten(1, (-1, 4, 4))
        for layer, norm in zip(self.convolutions, self.norms, strict=True):
            maps = functional.silu(norm(layer(_double(maps))))
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
    """Train a decoder in place to generate given images, each from its own latent vector.

    Generative latent optimisation (Bojanowski et al. 2018): Adam on the weights and on the latent
    vectors, projected to the ball of radius ``sqrt(latent)``, on the squared error of the pixels.

    Parameters
    ----------
    decoder : Decoder
    images : Tensor, shape (N, colours, side, side)
        Auxiliary images in [0, 1].
    generator : torch.Generator
        Source of the initial latent vectors and the batches.
    steps, batch_size : int
    learning_rate : float
        Initial rate of the weights, with a cosine schedule to zero; that of the latent vectors is
        ten times as large.

    Returns
    -------
    Tensor, shape (N, latent)
        The images' latent vectors; their distribution is the prior in latent space.
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
    """Two residual blocks, with self-attention between them at one side."""

    def __init__(self, in_channels: int, out_channels: int, side: int, features: int) -> None:
        super().__init__()
        self.before = _Residual(in_channels, out_channels, features)
        self.attention = _Attention(out_channels) if side == ATTENTION_SIDE else None
        self.after = _Residual(out_channels, out_channels, features)

    def forward(self, maps: torch.Tensor, known: torch.Tensor | None) -> torch.Tensor:
        maps = self.before(maps, known)
        if self.attention is not None:
            maps = self.attention(maps)
        return self.after(maps, known)


class _Residual(nn.Module):
    """Norm, activation and convolution, twice, added to the input or its 1x1 convolution.

    A linear map of known features is added behind the second norm.
    """

    def __init__(self, in_channels: int, out_channels: int, features: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = (
            _group_norm(in_channels),
            convolution(in_channels, out_channels, bias=True),
        )
        self.norm2, self.conv2 = (
            _group_norm(out_channels),
            convolution(out_channels, out_channels, bias=True),
        )
        changes = in_channels != out_channels
        self.project = (
            convolution(in_channels, out_channels, size=1, bias=True) if changes else None
        )
        self.enter = (
            nn.Linear(features, out_channels, bias=False, device="meta") if features else None
        )

    def forward(self, maps: torch.Tensor, known: torch.Tensor | None) -> torch.Tensor:
        inner = self.norm2(self.conv1(functional.silu(self.norm1(maps))))
        if self.enter is not None and known is not None:
            # behind the norm, which would take a constant of a channel away again
            inner = inner + self.enter(known)[..., None, None]
        inner = self.conv2(functional.silu(inner))
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


def _double(maps: torch.Tensor) -> torch.Tensor:
    """Double the side by repeating every pixel."""
    return maps.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
