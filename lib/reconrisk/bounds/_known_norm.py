"""The least mean squared errors of the linear layer's observation if the record's norm is known.

The attacker of ``mean_to_extreme`` is granted the scale of the clipped gradient, and with it the
norm r of the record. What it sees, ``X_hat ~ N(X, s**2 r**2 I)`` with ``s = sigma/sqrt(repeats)``,
then has an unknown direction only. An estimate that turns with the record is a multiple
``f(|X_hat|)`` of the direction of ``X_hat``, and given ``|X_hat|`` the mean cosine between that
direction and the record's is the Bessel ratio ``A = I_{N/2}(z)/I_{N/2-1}(z)`` at
``z = |X_hat|/(s**2 r)``.

- Least error: ``f = r A``, the posterior mean under the uniform law on the sphere. Its error,
  ``(r**2/N)(1 - E A**2)``, is the same at every record of the norm; by the theorem of Hunt and
  Stein no estimate has a smaller worst one.
- Least error without bias: ``E[f A] = r`` and the Cauchy-Schwarz inequality give
  ``f = r A/E[A**2]`` and ``(r**2/N)(1/E[A**2] - 1)``. Any unbiased estimate, averaged over
  rotations, turns with the record and is unbiased: its worst error is no smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._direction import direction_error_gaussian, squared_cosine_gaussian

__all__ = ["expected_mse_known_norm", "expected_mse_unbiased"]


def expected_mse_known_norm(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Least worst-case expected MSE of any estimate from ``X_hat`` and the norm of the record.

    ``(r**2/N)(1 - E A**2)``, attained at every record of the norm by
    :func:`reconrisk.attacks.posterior_on_sphere`. It is below that of every other estimate here:
    :func:`expected_mse`, :func:`expected_mse_shrunk`, :func:`expected_mse_james_stein`.

    Parameters
    ----------
    dimension : array_like
        N in [2, 1e9].
    noise_multiplier, repeats : array_like
        With ``sigma/sqrt(repeats)`` in [1e-4, 1e6].
    data_norm : array_like
        r > 0, data units.

    Returns
    -------
    ndarray or float
        In (0, r**2/N), squared data units. Relative error about 1e-9, and an absolute one of
        about ``1e-14 r**2/N``.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> least = bounds.expected_mse_known_norm(4, 0.3, data_norm=1.0)
    >>> round(float(least / bounds.expected_mse(0.3, data_norm=1.0)), 4)
    0.6467
    """
    n, noise = _arguments(dimension, noise_multiplier, repeats)
    norm = args.positive("data_norm", data_norm)
    return (direction_error_gaussian(n, noise) * (norm * norm / n))[()]


def expected_mse_unbiased(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Least worst-case expected MSE of an unbiased estimate from ``X_hat`` and the record's norm.

    ``(r**2/N)(1/E[A**2] - 1)``, attained at every record of the norm by
    :func:`reconrisk.attacks.unbiased_on_sphere`. Below ``sigma**2 r**2``, the error of ``X_hat``.

    Parameters
    ----------
    dimension, noise_multiplier, data_norm, repeats : array_like
        As in :func:`expected_mse_known_norm`.

    Returns
    -------
    ndarray or float
        In (0, s**2 r**2), squared data units. Relative error about 1e-9, and an absolute one of
        about ``1e-14 r**2/N``.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> least = bounds.expected_mse_unbiased(4, 0.3, data_norm=1.0)
    >>> round(float(least / bounds.expected_mse(0.3, data_norm=1.0)), 4)
    0.843
    """
    n, noise = _arguments(dimension, noise_multiplier, repeats)
    norm = args.positive("data_norm", data_norm)
    square = squared_cosine_gaussian(n, noise)
    return (direction_error_gaussian(n, noise) / square * (norm * norm / n))[()]


def _arguments(
    dimension: ArrayLike, noise_multiplier: ArrayLike, repeats: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    n = arguments.integer("dimension", dimension, 2, 1e9)
    noise = args.effective_noise(noise_multiplier, repeats)
    return n, arguments.real("noise_multiplier / sqrt(repeats)", noise, 1e-4, 1e6)
