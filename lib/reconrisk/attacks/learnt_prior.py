"""Attacks with a learnt prior: a denoiser on the linear layer's release, and a diffusion model.

Papers A and B release ``X_hat ~ N(X, sigma^2 ||X||^2 I)``: a noisy image is what a denoiser takes.
"""

from __future__ import annotations

import math

import torch

from reconrisk import arguments
from reconrisk.convnets import Denoiser

__all__ = ["denoise", "noise_of", "posterior_sample"]

#: images that pass the network together
_BATCH = 256


@torch.no_grad()
def denoise(x_hat: torch.Tensor, noise_std: torch.Tensor, denoiser: Denoiser) -> torch.Tensor:
    """Return the learnt estimate of ``E[X | X_hat]``, whose mean squared error is least.

    Parameters
    ----------
    x_hat : Tensor, shape (n, N)
        Noisy images, ``N = colours * side * side``.
    noise_std : Tensor, shape (n,)
        Standard deviation of each image's noise, > 0; :func:`noise_of` estimates it.
    denoiser : Denoiser

    Returns
    -------
    Tensor, shape (n, N)

    Raises
    ------
    ValueError
        If shapes do not fit or a noise is not positive.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks, convnets
    >>> denoiser = convnets.Denoiser(torch.Generator().manual_seed(0), side=8)
    >>> noisy = torch.zeros(3, 64)
    >>> attacks.denoise(noisy, torch.ones(3), denoiser).shape
    torch.Size([3, 64])
    """
    _check(x_hat, noise_std, denoiser)
    images = x_hat.reshape(-1, *denoiser.mean.shape[1:]).to(denoiser.mean.dtype)
    std = noise_std.to(images.dtype)
    parts = zip(images.split(_BATCH), std.split(_BATCH), strict=True)
    return torch.cat([denoiser(*part) for part in parts]).reshape(x_hat.shape).to(x_hat.dtype)


def posterior_sample(
    x_hat: torch.Tensor,
    noise_std: torch.Tensor,
    denoiser: Denoiser,
    generator: torch.Generator,
    *,
    steps: int = 20,
    least_std: float = 0.03,
) -> torch.Tensor:
    """Draw an image given its noisy release: the reverse diffusion, begun at the release.

    The noise is lowered in ``steps`` equal factors to ``least_std``. A step draws the image at the
    lower noise given that at the higher, as if the denoiser's estimate were the image (ancestral
    sampling, Ho et al. 2020); the last one returns the estimate. With the exact denoiser and
    many steps the draw has the posterior's law, and errs by twice the mean squared error of
    :func:`denoise`.

    Parameters
    ----------
    x_hat, noise_std, denoiser
        As for :func:`denoise`.
    generator : torch.Generator
        On the device of ``x_hat``.
    steps : int
        At least 1. Each costs one pass of the network.
    least_std : float
        Noise that counts as none, in units of a pixel; releases with less are denoised at once.

    Returns
    -------
    Tensor, shape (n, N)

    Raises
    ------
    ValueError
        If shapes do not fit or an argument is out of its range.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks, convnets
    >>> denoiser = convnets.Denoiser(torch.Generator().manual_seed(0), side=8)
    >>> noisy, std = torch.zeros(3, 64), torch.ones(3)
    >>> draw = attacks.posterior_sample(noisy, std, denoiser, torch.Generator().manual_seed(1))
    >>> draw.shape
    torch.Size([3, 64])
    """
    arguments.integer("steps", steps, 1)
    arguments.real("least_std", least_std, 0, low_open=True)
    current, std = x_hat, noise_std
    lowest = torch.full_like(noise_std, least_std).minimum(noise_std)
    for step in range(1, steps + 1):
        lower = noise_std * (lowest / noise_std) ** (step / steps)
        estimate = denoise(current, std, denoiser)
        share = (lower / std).square()[:, None]
        drawn = torch.randn(
            current.shape, generator=generator, device=current.device, dtype=current.dtype
        )
        # the image at the lower noise, given that at the higher and the clean one
        spread = (lower.square()[:, None] * (1 - share)).clamp(min=0).sqrt()
        current = estimate + share * (current - estimate) + spread * drawn
        std = lower
    return denoise(current, std, denoiser)


def noise_of(x_hat: torch.Tensor, noise_multiplier: float) -> torch.Tensor:
    """Return the noise's standard deviation ``sigma ||X||``, from the release alone, shape (n,).

    ``||X_hat||^2`` is ``||X||^2 (1 + N sigma^2)`` on average, and varies by a share of
    about ``sqrt(2 / N)``.

    Parameters
    ----------
    x_hat : Tensor, shape (n, N)
    noise_multiplier : float
        sigma > 0.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> attacks.noise_of(torch.full((1, 24), 0.5), noise_multiplier=1.0)
    tensor([0.4899])
    """
    sigma = float(arguments.real("noise_multiplier", noise_multiplier, 0, low_open=True))
    return sigma * x_hat.norm(dim=1) / math.sqrt(1 + x_hat.shape[1] * sigma**2)


def _check(x_hat: torch.Tensor, noise_std: torch.Tensor, denoiser: Denoiser) -> None:
    if x_hat.ndim != 2 or x_hat.shape[1] != denoiser.mean.numel():
        raise ValueError(
            f"x_hat must have shape (images, {denoiser.mean.numel()}); got {tuple(x_hat.shape)}"
        )
    if noise_std.shape != x_hat.shape[:1]:
        raise ValueError(
            f"noise_std must have shape {tuple(x_hat.shape[:1])}; got {tuple(noise_std.shape)}"
        )
    if not bool((noise_std > 0).all()):
        raise ValueError(f"noise_std must be positive; got {float(noise_std.min()):g}")
