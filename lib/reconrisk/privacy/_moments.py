"""Calibration of Gaussian noise by moments of the privacy loss: Liu et al. 2024, Prop. A.1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["noise_by_moments"]


def noise_by_moments(
    epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike = 1.0
) -> np.ndarray:
    r"""Return the standard deviation of Gaussian noise that the moment bound requires.

    One release with sensitivity ``Delta`` has log moments ``Delta^2 l (l+1)/(2 sigma^2)`` and is
    (epsilon, delta)-private for ``log delta = min_l (Delta^2 l (l+1)/(2 sigma^2) - l epsilon)``
    (Liu et al. 2024, proof of Proposition A.1). Minimised over all real ``l > 0`` this gives ::

        sigma = Delta / (sqrt 2 (sqrt(L + epsilon) - sqrt L)),    L = log(1/delta)

    For small epsilon ``sigma^2`` is close to ``2 Delta^2 L/epsilon^2``. For the gradient of a
    two-layer network of width m ``Delta^2`` is of order m.

    Parameters
    ----------
    epsilon : array_like
        In nats, > 0.
    delta : array_like
        In (0, 1).
    sensitivity : array_like
        Delta > 0: L2 sensitivity of the released vector.

    Returns
    -------
    ndarray or float
        sigma, in the unit of the sensitivity; at least the smallest that is private.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.noise_by_moments(1.0, 1e-5)), 4)
    4.9006
    """
    e = arguments.real("epsilon", epsilon, 0, 1e100, low_open=True)
    log = -np.log(arguments.real("delta", delta, 0, 1, low_open=True, high_open=True))
    size = arguments.real("sensitivity", sensitivity, 0, 1e140, low_open=True)
    # sqrt(L + epsilon) - sqrt(L) without cancellation
    return (size * (np.sqrt(log + e) + np.sqrt(log)) / (np.sqrt(2.0) * e))[()]
