"""A denoiser of images at every noise: the learnt prior of a diffusion model."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from reconrisk import arguments
from reconrisk.convnets._classifiers import convolution, draw_weights

__all__ = ["Denoiser", "train_denoiser"]

#: cosines of the noise's logarithm that the network is given
_WAVES = 16
#: share of the running mean of the weights that a step leaves
_KEPT = 0.999


class Denoiser(nn.Module):
    """A convolutional network that estimates images from noisy ones, whatever the noise.

    Trained by :func:`train_denoiser` it estimates ``E[X | X + s Z]`` for standard normal ``Z``,
    and thereby the score of the noisy images' density (Vincent 2011): all that a diffusion model
    needs (Karras et al. 2022, whose scaling of inputs, outputs and loss it has). The network is a
    U-Net of two sides, half and a quarter of the images', on their 2 x 2 blocks.

    Parameters
    ----------
    generator : torch.Generator
        Source of the initial weights, uniform within ``1 / sqrt(fan in)``.
    side : int
        Side of the images, a multiple of 4.
    colours : int
    width : int
        Channels at half the side; twice as many at a quarter.

    Attributes
    ----------
    mean : Tensor, shape (1, colours, side, side)
        The images' mean; a buffer that training sets.
    spread : Tensor, shape ()
        Their root mean squared deviation from it, of one pixel.

    Examples
    --------
    >>> import torch
    >>> from reconrisk.convnets import Denoiser
    >>> denoiser = Denoiser(torch.Generator().manual_seed(0), side=8)
    >>> denoiser(torch.zeros(2, 1, 8, 8), torch.ones(2)).shape
    torch.Size([2, 1, 8, 8])
    """

    def __init__(
        self, generator: torch.Generator, *, side: int = 28, colours: int = 1, width: int = 24
    ) -> None:
        super().__init__()
        side, width = arguments.count("side", side), arguments.count("width", width)
        arguments.integer("side / 4", side / 4, 1)
        self.noise = nn.Linear(_WAVES, 2 * width, device="meta")
        self.first = convolution(4 * colours, width, bias=True)
        self.fine = _Block(width, width, 2 * width)
        self.coarse = nn.ModuleList(
            _Block(channels, 2 * width, 2 * width) for channels in (width, 2 * width)
        )
        self.joined = _Block(3 * width, width, 2 * width)
        self.last = convolution(width, 4 * colours, bias=True)
        draw_weights(self, generator)
        self.register_buffer("mean", torch.zeros(1, colours, side, side, device=generator.device))
        self.register_buffer("spread", torch.ones((), device=generator.device))

    def forward(self, noisy: torch.Tensor, noise_std: torch.Tensor) -> torch.Tensor:
        """Return estimates of images from noisy ones.

        Parameters
        ----------
        noisy : Tensor, shape (n, colours, side, side)
        noise_std : Tensor, shape (n,)
            Standard deviation s > 0 of each image's noise, in units of a pixel.

        Returns
        -------
        Tensor, shape (n, colours, side, side)
        """
        std, spread = noise_std[:, None, None, None], self.spread
        length = torch.sqrt(std**2 + spread**2)
        centred = noisy - self.mean
        correction = self._network(centred / length, noise_std)
        return self.mean + (spread / length) ** 2 * centred + std * spread / length * correction

    def _network(self, scaled: torch.Tensor, noise_std: torch.Tensor) -> torch.Tensor:
        rates = torch.linspace(0.25, 4.0, _WAVES, device=scaled.device)
        level = functional.silu(self.noise(torch.cos(noise_std.log()[:, None] * rates)))
        fine = self.fine(self.first(functional.pixel_unshuffle(scaled, 2)), level)
        coarse = functional.avg_pool2d(fine, 2)
        for block in self.coarse:
            coarse = block(coarse, level)
        coarse = functional.interpolate(coarse, scale_factor=2)
        joined = self.joined(torch.cat([coarse, fine], dim=1), level)
        return functional.pixel_shuffle(self.last(joined), 2)


def train_denoiser(
    denoiser: Denoiser,
    images: torch.Tensor,
    *,
    generator: torch.Generator,
    steps: int,
    batch_size: int = 128,
    learning_rate: float = 2e-3,
    noise_stds: tuple[float, float] = (0.03, 20.0),
    watch: Callable[[int, float], None] | None = None,
) -> None:
    """Train a denoiser in place, at noises drawn log-uniformly from a range.

    Adam with a cosine schedule on the squared error, each noise weighted so that all count alike
    (Karras et al. 2022, Section 5); the weights that stay are a running mean.

    Parameters
    ----------
    denoiser : Denoiser
    images : Tensor, shape (N, colours, side, side)
    generator : torch.Generator
        Source of batches, noises and their standard deviations, on the images' device.
    steps, batch_size : int
    learning_rate : float
        Initial rate.
    noise_stds : (float, float)
        Smallest and largest standard deviation, in units of a pixel.
    watch : callable, optional
        Called with each step and its weighted loss, which is about one for an affine estimate of
        uncorrelated pixels.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> import torch
    >>> from reconrisk.convnets import Denoiser, train_denoiser
    >>> generator = torch.Generator().manual_seed(0)
    >>> denoiser, images = Denoiser(generator, side=8), torch.rand(9, 1, 8, 8)
    >>> train_denoiser(denoiser, images, generator=generator, steps=2, batch_size=4)
    """
    arguments.integer("steps", steps, 1)
    arguments.integer("batch_size", batch_size, 1)
    low, high = noise_stds
    arguments.real("noise_stds[0]", low, 0, low_open=True)
    arguments.real("noise_stds[1]", high, low, low_open=True)
    denoiser.mean.copy_(images.mean(dim=0, keepdim=True))
    denoiser.spread.copy_((images - denoiser.mean).square().mean().sqrt())
    averaged = copy.deepcopy(denoiser)
    optimiser = torch.optim.Adam(denoiser.parameters(), learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    with torch.enable_grad():
        for step in range(steps):
            chosen = torch.randint(
                len(images), (batch_size,), generator=generator, device=images.device
            )
            clean = images[chosen]
            drawn = torch.rand(batch_size, generator=generator, device=images.device)
            std = low * (high / low) ** drawn
            noise = torch.randn(clean.shape, generator=generator, device=images.device)
            found = denoiser(clean + std[:, None, None, None] * noise, std)
            weight = 1 / std**2 + 1 / denoiser.spread**2
            loss = (weight * (found - clean).square().flatten(1).mean(dim=1)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            kept = min(_KEPT, (step + 1) / (step + 10))  # shorter at first
            with torch.no_grad():
                for mean, own in zip(averaged.parameters(), denoiser.parameters(), strict=True):
                    mean.lerp_(own, 1 - kept)
            if watch is not None:
                watch(step, float(loss.detach()))
    denoiser.load_state_dict(averaged.state_dict())


class _Block(nn.Module):
    """Norm, activation and convolution, twice, added to the input; the noise shifts channels."""

    def __init__(self, in_channels: int, out_channels: int, level: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (
            nn.GroupNorm(math.gcd(n, 8), n) for n in (in_channels, out_channels)
        )
        self.conv1 = convolution(in_channels, out_channels, bias=True)
        self.conv2 = convolution(out_channels, out_channels, bias=True)
        self.shift = nn.Linear(level, out_channels, device="meta")
        self.project = convolution(in_channels, out_channels, size=1, bias=True)

    def forward(self, maps: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        inner = self.conv1(functional.silu(self.norm1(maps)))
        inner = inner + self.shift(level)[:, :, None, None]
        return self.project(maps) + self.conv2(functional.silu(self.norm2(inner)))
