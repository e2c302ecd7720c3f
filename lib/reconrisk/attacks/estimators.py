"""Estimators better than the "optimal" one: functions of ``X_hat ~ N(X, sigma^2 ||X||^2 I)``.

Each states what the attacker must know. Their exact errors and tail probabilities are in
:mod:`reconrisk.bounds`.
"""

from __future__ import annotations

import torch

__all__ = ["clip_to_range", "james_stein", "scaled_direction", "shrink"]


def shrink(x_hat: torch.Tensor, noise_multiplier: float, repeats: int = 1) -> torch.Tensor:
    """Return ``X_hat / (1 + N sigma^2 / k)``, shape (..., N); needs only sigma and N.

    Because the noise is proportional to the record's norm, this factor has the least mean squared
    error of all fixed factors at *every* record: ``1 / (1 + N sigma^2 / k)`` of that of ``X_hat``.

    Parameters
    ----------
    x_hat : Tensor, shape (..., N)
    noise_multiplier : float
        sigma >= 0.
    repeats : int
        k, the number of reconstructions averaged in ``x_hat``.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> attacks.shrink(torch.tensor([[2.0, 4.0]]), noise_multiplier=0.5**0.5).tolist()
    [[1.0, 2.0]]
    """
    return x_hat / (1 + x_hat.shape[-1] * noise_multiplier**2 / repeats)


def james_stein(x_hat: torch.Tensor, noise_std: torch.Tensor | float) -> torch.Tensor:
    """Return the positive-part James-Stein estimate, shape (..., N).

    Parameters
    ----------
    x_hat : Tensor, shape (..., N)
        N >= 3.
    noise_std : Tensor or float, shape (...)
        ``s = sigma ||X||``, which an attacker with the known scale has.

    Raises
    ------
    ValueError
        If ``N < 3``, where the estimate does not dominate.
    """
    dimension = x_hat.shape[-1]
    if dimension < 3:
        raise ValueError(f"x_hat must have at least 3 values a record; got {dimension}")
    variance = torch.as_tensor(noise_std, dtype=x_hat.dtype, device=x_hat.device) ** 2
    factor = 1 - (dimension - 2) * variance / x_hat.square().sum(dim=-1)
    return factor.clamp(min=0)[..., None] * x_hat


def clip_to_range(x_hat: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    """Return ``X_hat`` clipped to the known range ``low < high`` of the values.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> attacks.clip_to_range(torch.tensor([[-0.5, 0.5, 2.0]])).tolist()
    [[0.0, 0.5, 1.0]]
    """
    if not low < high:
        raise ValueError(f"low must be below high; got {low!r} and {high!r}")
    return x_hat.clamp(low, high)


def scaled_direction(
    x_hat: torch.Tensor, data_norm: torch.Tensor | float, threshold: float
) -> torch.Tensor:
    """Return the estimate along ``X_hat`` with the best chance of an MSE below a threshold.

    Its length is ``sqrt(||X||^2 - N eta)``: of all attacks that know the norm it has the largest
    worst-case probability of ``MSE <= eta`` (:func:`reconrisk.bounds.mse_tail_sphere`).

    Parameters
    ----------
    x_hat : Tensor, shape (..., N)
    data_norm : Tensor or float, shape (...)
        ``||X||``, which an attacker with the known scale has.
    threshold : float
        eta >= 0; where ``N eta >= ||X||^2`` the estimate is the zero vector.
    """
    norm = torch.as_tensor(data_norm, dtype=x_hat.dtype, device=x_hat.device)
    length = (norm**2 - x_hat.shape[-1] * threshold).clamp(min=0).sqrt()
    return length[..., None] * x_hat / x_hat.norm(dim=-1, keepdim=True)
