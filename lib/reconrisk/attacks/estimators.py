"""Estimators better than the "optimal" one: functions of ``X_hat ~ N(X, sigma^2 ||X||^2 I)``.

Each states what the attacker must know. Their exact errors and tail probabilities are in
:mod:`reconrisk.bounds`.
"""

from __future__ import annotations

import torch

from reconrisk import arguments, bounds, special

__all__ = [
    "clip_to_range",
    "james_stein",
    "posterior_on_sphere",
    "scaled_direction",
    "shrink",
    "unbiased_on_sphere",
]


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
    """Return ``X_hat``, ``x_hat``, clipped to the known range ``low < high`` of the values.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> attacks.clip_to_range(torch.tensor([[-0.5, 0.5, 2.0]])).tolist()
    [[0.0, 0.5, 1.0]]
    """
    if not low < high:
        raise ValueError(
            f"low must be below high; got {arguments.shown(low)} and {arguments.shown(high)}"
        )
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
    if not isinstance(data_norm, torch.Tensor):
        data_norm = arguments.real("data_norm", data_norm, 0, high_open=True)
    norm = torch.as_tensor(data_norm, dtype=x_hat.dtype, device=x_hat.device)
    length = (norm**2 - x_hat.shape[-1] * threshold).clamp(min=0).sqrt()
    return length[..., None] * x_hat / x_hat.norm(dim=-1, keepdim=True)


def posterior_on_sphere(
    x_hat: torch.Tensor,
    noise_multiplier: float,
    data_norm: torch.Tensor | float,
    repeats: int = 1,
) -> torch.Tensor:
    """Return the posterior mean under a uniform direction, ``r A X_hat/||X_hat||``.

    With ``A = I_{N/2}(z)/I_{N/2-1}(z)`` at ``z = k ||X_hat||/(sigma^2 r)``. Of all estimates that
    know the norm r it has the least worst-case mean squared error, and the same one at every record
    of that norm (:func:`reconrisk.bounds.expected_mse_known_norm`).

    Parameters
    ----------
    x_hat : Tensor, shape (..., N)
        N >= 2.
    noise_multiplier : float
        sigma > 0.
    data_norm : Tensor or float, shape (...)
        ``r = ||X||``, which an attacker with the known scale has.
    repeats : int
        k, the number of reconstructions averaged in ``x_hat``.

    Returns
    -------
    Tensor, shape (..., N)

    Raises
    ------
    ValueError
        If ``N < 2`` or z exceeds the range of :func:`reconrisk.special.bessel_ratio`.

    Notes
    -----
    The Bessel ratio is computed on the CPU and has no gradient.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> x_hat = torch.tensor([[3.0, 4.0]])
    >>> attacks.posterior_on_sphere(x_hat, 1e-3, data_norm=10.0).round(decimals=3).tolist()
    [[6.0, 8.0]]
    """
    dimension = x_hat.shape[-1]
    if dimension < 2:
        raise ValueError(f"x_hat must have at least 2 values a record; got {dimension}")
    arguments.real("noise_multiplier", noise_multiplier, 0, low_open=True, high_open=True)
    if not isinstance(data_norm, torch.Tensor):
        data_norm = arguments.real("data_norm", data_norm, 0, low_open=True, high_open=True)
    norm = torch.as_tensor(data_norm, dtype=x_hat.dtype, device=x_hat.device)
    length = x_hat.norm(dim=-1)
    concentration = repeats * length / (noise_multiplier**2 * norm)
    ratio = special.bessel_ratio(dimension / 2 - 1, concentration.detach().cpu().numpy())
    shrunk = norm * torch.as_tensor(ratio, dtype=x_hat.dtype, device=x_hat.device)
    # the ratio vanishes with the length
    return (shrunk / length.clamp(min=torch.finfo(x_hat.dtype).tiny))[..., None] * x_hat


def unbiased_on_sphere(
    x_hat: torch.Tensor,
    noise_multiplier: float,
    data_norm: torch.Tensor | float,
    repeats: int = 1,
) -> torch.Tensor:
    """Return the unbiased multiple of :func:`posterior_on_sphere`, over ``E A^2``.

    Of all unbiased estimates that know the norm it has the least worst-case mean squared error
    (:func:`reconrisk.bounds.expected_mse_unbiased`): "optimal" unbiased estimates that do not use
    the norm, as ``X_hat``, have a larger one at every record.

    Parameters
    ----------
    x_hat, noise_multiplier, data_norm, repeats
        As in :func:`posterior_on_sphere`, with ``sigma/sqrt(k)`` in [1e-4, 1e6].

    Returns
    -------
    Tensor, shape (..., N)

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> x_hat = torch.tensor([[3.0, 4.0]])
    >>> attacks.unbiased_on_sphere(x_hat, 1e-3, data_norm=5.0).round(decimals=3).tolist()
    [[3.0, 4.0]]
    """
    dimension = x_hat.shape[-1]
    if dimension < 2:
        raise ValueError(f"x_hat must have at least 2 values a record; got {dimension}")
    least = bounds.expected_mse_known_norm(dimension, noise_multiplier, 1.0, repeats)
    unbiased = bounds.expected_mse_unbiased(dimension, noise_multiplier, 1.0, repeats)
    # (1 - a)/N and (1 - a)/(N a) for a = E A^2
    gain = float(least / unbiased)
    return posterior_on_sphere(x_hat, noise_multiplier, data_norm, repeats) / gain
