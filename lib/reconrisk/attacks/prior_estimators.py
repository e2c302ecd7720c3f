"""Estimators with a prior, from the linear layer's observation ``X_hat ~ N(X, sigma^2 ||X||^2 I)``.

Papers A and B bound attackers without a prior. These know what such records look like: their mean
and covariance, or a list of them, which may hold the record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["SecondMoments", "list_posterior", "second_moments", "wiener_filter"]


@dataclass(frozen=True)
class SecondMoments:
    """What a linear estimator needs to know of records of N values.

    Attributes
    ----------
    mean : ndarray, shape (N,)
    variances : ndarray, shape (N,)
        Eigenvalues of the covariance, ascending, >= 0.
    directions : ndarray, shape (N, N)
        Its eigenvectors, in columns.
    """

    mean: np.ndarray
    variances: np.ndarray
    directions: np.ndarray

    @property
    def mean_square(self) -> float:
        """``E ||X||^2``."""
        return float(self.mean @ self.mean + self.variances.sum())

    def expected_mse(self, noise_multiplier: float) -> float:
        """Return the error of :func:`wiener_filter`, averaged over records of these moments.

        ``sum_i l_i s^2 / (l_i + s^2) / N`` with eigenvalues ``l_i`` and noise variance
        ``s^2 = sigma^2 E ||X||^2``. It is the least of any affine estimator.
        """
        noise = noise_multiplier**2 * self.mean_square
        kept = self.variances * noise / (self.variances + noise) if noise else np.zeros(1)
        return float(kept.sum() / self.mean.size)


def second_moments(records: ArrayLike) -> SecondMoments:
    """Return the mean and the covariance of records.

    Parameters
    ----------
    records : array_like, shape (count, N)
        Two or more, none of them the record that is attacked.

    Raises
    ------
    ValueError
        If there are fewer than two.
    """
    rows = arguments.real("records", records, -np.inf, np.inf, low_open=True, high_open=True)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"records must have shape (count, N), count >= 2; got {rows.shape}")
    covariance = np.atleast_2d(np.cov(rows, rowvar=False, bias=True))
    variances, directions = np.linalg.eigh(covariance)
    return SecondMoments(rows.mean(axis=0), np.maximum(variances, 0.0), directions)


def wiener_filter(
    x_hat: torch.Tensor, noise_multiplier: float, moments: SecondMoments
) -> torch.Tensor:
    """Return the affine estimate of least mean squared error, shape (..., N).

    Along each principal direction of the records, with variance ``l``, the observation's deviation
    from the mean is multiplied by ``l / (l + sigma^2 E ||X||^2)``. The noise need not be Gaussian
    nor its variance the same for all records: only second moments enter.

    Parameters
    ----------
    x_hat : Tensor, shape (..., N)
    noise_multiplier : float
        sigma > 0.
    moments : SecondMoments

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> known = attacks.second_moments([[0.0, 1.0], [2.0, 1.0]])  # mean (1, 1), variances 1 and 0
    >>> attacks.wiener_filter(torch.tensor([[3.0, 9.0]]), noise_multiplier=1.0, moments=known)
    tensor([[1.5000, 1.0000]])
    """
    sigma = float(arguments.real("noise_multiplier", noise_multiplier, 0, np.inf, low_open=True))
    gain = moments.variances / (moments.variances + sigma**2 * moments.mean_square)
    mean, directions, kept = (
        torch.as_tensor(a, dtype=x_hat.dtype, device=x_hat.device)
        for a in (moments.mean, moments.directions, gain)
    )
    return mean + ((x_hat - mean) @ directions * kept) @ directions.T


def list_posterior(
    x_hat: torch.Tensor, noise_multiplier: float, records: torch.Tensor
) -> torch.Tensor:
    """Return each listed record's probability given the observation, shape (..., count).

    Bayes' rule with all records of the list equally likely and ``N(Z, sigma^2 ||Z||^2 I)`` as the
    law of ``X_hat`` if ``Z`` was the record. For a record drawn from the list, its largest entry
    names the record as often as any attack can, and ``posterior @ records`` has the least mean
    squared error.

    Parameters
    ----------
    x_hat : Tensor, shape (..., N)
    noise_multiplier : float
        sigma > 0.
    records : Tensor, shape (count, N)
        None of them zero.

    Raises
    ------
    ValueError
        If a record is zero, whose release has no noise.

    Notes
    -----
    Cost: one matrix product, ``len(x_hat) * count * N``.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> listed = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> attacks.list_posterior(torch.tensor([3.0, 0.0]), 1.0, listed).round(decimals=3)
    tensor([0.9530, 0.0470])
    """
    sigma = float(arguments.real("noise_multiplier", noise_multiplier, 0, np.inf, low_open=True))
    squares = records.square().sum(dim=1)
    if not bool((squares > 0).all()):
        raise ValueError("records must not be zero: nothing would hide them; got a zero row")
    distance = x_hat.square().sum(dim=-1, keepdim=True) - 2 * x_hat @ records.T + squares
    log_law = -distance / (2 * sigma**2 * squares) - records.shape[1] / 2 * squares.log()
    return torch.softmax(log_law, dim=-1)
