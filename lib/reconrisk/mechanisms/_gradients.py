"""The two operations of DP-SGD on a gradient: clipping its norm and adding Gaussian noise.

A gradient is a mapping from parameter names to tensors whose first axis runs over examples, so
that many single-example steps are privatised in one call.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from reconrisk import arguments

__all__ = ["Gradient", "add_gaussian_noise", "clip", "global_norm"]

Gradient = dict[str, torch.Tensor]
#: spacing of numbers near one, from that of half precision on, that sensitivity has to allow for
_COARSE = 1e-4


def global_norm(gradient: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Euclidean norm over all parameters together, per example.

    Parameters
    ----------
    gradient : mapping of str to Tensor, shape (examples, ...)

    Returns
    -------
    Tensor, shape (examples,), float64
        Summed in double precision: over the 1.5e8 entries of *From Mean to Extreme*, Figure 1, a
        single-precision sum is 1.5% too small, which exceeds the effect that the figure shows.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import mechanisms
    >>> mechanisms.global_norm({"weight": torch.tensor([[3.0, 4.0]])}).item()
    5.0
    """
    norms = [
        torch.linalg.vector_norm(g.flatten(1), dim=1, dtype=torch.float64)
        for g in gradient.values()
    ]
    return torch.stack(norms, dim=1).norm(dim=1)


def clip(
    gradient: Mapping[str, torch.Tensor], max_grad_norm: float
) -> tuple[Gradient, torch.Tensor]:
    """Clip the norm of each example's gradient, over all parameters, to ``max_grad_norm``.

    Parameters
    ----------
    gradient : mapping of str to Tensor, shape (examples, ...)
    max_grad_norm : float
        C > 0.

    Returns
    -------
    clipped : Gradient
        Same names, shapes and types.
    factor : Tensor, shape (examples,)
        ``beta = 1 / max(1, norm / C)``, *From Mean to Extreme*, eq. (10); Ziller et al., eq. (3).

    Raises
    ------
    ValueError
        If ``max_grad_norm`` is not positive.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import mechanisms
    >>> clipped, factor = mechanisms.clip({"weight": torch.tensor([[3.0, 4.0]])}, 2.5)
    >>> clipped["weight"].tolist()
    [[1.5, 2.0]]
    """
    arguments.real("max_grad_norm", max_grad_norm, 0, low_open=True)
    factor = 1 / torch.clamp(global_norm(gradient) / max_grad_norm, min=1)

    def scaled(g: torch.Tensor) -> torch.Tensor:
        own, eps = factor, torch.finfo(g.dtype).eps
        if eps > _COARSE:  # two roundings must not leave more than C
            own = torch.where(factor < 1, factor * (1 - 2 * eps), factor)
        return g * own.reshape(-1, *[1] * (g.ndim - 1)).to(g.dtype)

    return {name: scaled(g) for name, g in gradient.items()}, factor


def add_gaussian_noise(
    gradient: Mapping[str, torch.Tensor], noise_std: float, generator: torch.Generator
) -> Gradient:
    """Add independent ``N(0, noise_std^2)`` to every coordinate of every example.

    Parameters
    ----------
    gradient : mapping of str to Tensor, shape (examples, ...)
    noise_std : float
        ``C * sigma`` in DP-SGD, >= 0.
    generator : torch.Generator
        Source of the noise, on the gradient's device.

    Returns
    -------
    Gradient
        Same names, shapes and types.

    Raises
    ------
    ValueError
        If ``noise_std`` is negative or nan.
    """
    if not noise_std >= 0:
        raise ValueError(f"noise_std must be in [0, inf); got {arguments.shown(noise_std)}")
    noisy: Gradient = {}
    for name, g in gradient.items():
        noise = torch.empty_like(g).normal_(0, 1, generator=generator)
        noisy[name] = noise.mul_(noise_std).add_(g)
    return noisy
