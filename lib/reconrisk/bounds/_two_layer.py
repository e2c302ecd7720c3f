"""Errors of reconstructing a batch from a two-layer network's noisy gradient: Liu et al. 2024.

Errors are root mean squares, over the B records of a batch, of the Euclidean distances in the best
order (Definition D.1). There are two kinds of values:

- the orders in B, d, m, sigma, C and p of the paper's Table 1, with every hidden constant and
  logarithm set to one: :func:`tensor_attack_order`, :func:`cramer_rao_order`;
- the exact Cramer-Rao bound for a given network, records and defence, from the derivatives of the
  observed entries: :func:`gradient_information`, then :func:`cramer_rao_error`, or loosened to the
  trace as in the paper, :func:`cramer_rao_error_loosened`.

The Cramer-Rao bound holds for unbiased estimators only. The paper presents it as minimax without
that condition; a biased estimator, such as one that shrinks, can be below it where noise is large.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from reconrisk import arguments, special

__all__ = [
    "GradientInformation",
    "cramer_rao_error",
    "cramer_rao_error_loosened",
    "cramer_rao_order",
    "gradient_information",
    "information_trace_limit",
    "tensor_attack_order",
]

# An information matrix, scaled to a unit diagonal, is numerically singular if its smallest
# eigenvalue is below this fraction of its largest.
_SINGULAR = 1e-13


# The orders of Table 1 ---------------------------------------------------------------------------


def tensor_attack_order(
    dimension: ArrayLike,
    width: ArrayLike,
    batch_size: ArrayLike,
    *,
    noise_std: ArrayLike = 0.0,
    grad_norm: ArrayLike = 0.0,
    max_grad_norm: ArrayLike = np.inf,
    dropout: ArrayLike = 0.0,
    coefficient: ArrayLike = 1.0,
    singular_value: ArrayLike = 1.0,
    condition: ArrayLike = 1.0,
) -> np.ndarray:
    r"""Order of the tensor attack's error: the upper bounds of Table 1. ::

        condition / (coefficient * singular_value**2)
            * (B + sigma_0 max(1, |G|/C)) * sqrt(d / ((1 - p) m))

    No defence: Theorem 3.1 (B.6). Local aggregation: the same (Propositions 3.1 and C.1), where B
    counts the records of all steps (C.2). Noise: C.12; clipping: C.11, no effect by itself; both:
    3.3 (C.13). Dropout: Section 3.4. The paper has no upper bound for pruning. Every letter of the
    formula is an argument: none of them belong together, and most are left out.

    Parameters
    ----------
    dimension, width, batch_size : array_like
        d, m and B, whole and >= 1.
    noise_std : array_like
        sigma_0 >= 0.
    grad_norm, max_grad_norm : array_like
        ``|G| >= 0`` and C > 0; infinite for no clipping.
    dropout : array_like
        p in [0, 1): the share of neurons *dropped*. Section 3.4 drops "with probability 1 - p" but
        has a width of (1 - p) m.
    coefficient : array_like
        ``min(|nu|, |lambda|) > 0``: the smaller of the two Hermite coefficients of the activation
        that the attack uses (Assumption B.1).
    singular_value : array_like
        pi_min > 0: the smallest singular value of the records' matrix.
    condition : array_like
        kappa >= 1: the largest over the smallest absolute residual (Theorem B.1).

    Returns
    -------
    ndarray or float
        Up to hidden constants and logarithms, so that only ratios of values are meaningful.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.tensor_attack_order(100, 10_000, 2)), 4)
    0.2
    """
    b = arguments.integer("batch_size", batch_size, 1, 1e12)
    added = arguments.real("noise_std", noise_std, 0, 1e140) * _clipping(grad_norm, max_grad_norm)
    factor = arguments.real("condition", condition, 1, 1e140)
    factor = factor / arguments.real("coefficient", coefficient, 1e-100, 1e100)
    factor = factor / arguments.real("singular_value", singular_value, 1e-70, 1e70) ** 2
    return (factor * (b + added) * _root(dimension, width, dropout))[()]


def cramer_rao_order(
    dimension: ArrayLike,
    width: ArrayLike,
    noise_std: ArrayLike,
    *,
    grad_norm: ArrayLike = 0.0,
    max_grad_norm: ArrayLike = np.inf,
    dropout: ArrayLike = 0.0,
    pruned: ArrayLike = 0.0,
) -> np.ndarray:
    r"""Order of the paper's lower bound: the second row of Table 1. ::

        sigma * max(1, |G|/C) * sqrt(d / ((1 - dropout) (1 - pruned) m))

    No defence, noise and local aggregation: Theorem 3.2 (D.7) and Proposition 3.2 (E.2). Clipping
    and DP-SGD: Lemma E.1. Dropout: Appendix E.1. Pruning: Proposition 3.4 (Lemma E.3), where the
    share is of the Jacobian's squared norm, not of its entries. Proposition 3.4 defines it as the
    share *kept*; the formula needs the share pruned.

    Parameters
    ----------
    dimension, width, grad_norm, max_grad_norm, dropout
        As in :func:`tensor_attack_order`.
    noise_std : array_like
        sigma >= 0: standard deviation of the noise on every observed entry.
    pruned : array_like
        Share of the Jacobian's squared norm in the pruned entries, in [0, 1).

    Returns
    -------
    ndarray or float
        Up to constants and logarithms. It does not depend on B; the exact bound does
        (:func:`cramer_rao_error`).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.cramer_rao_order(100, 10_000, 0.1)), 4)
    0.01
    """
    sigma = arguments.real("noise_std", noise_std, 0, 1e140) * _clipping(grad_norm, max_grad_norm)
    lost = arguments.real("pruned", pruned, 0, 1, high_open=True)
    return (sigma * _root(dimension, width, dropout) / np.sqrt(1.0 - lost))[()]


def _clipping(grad_norm: ArrayLike, max_grad_norm: ArrayLike) -> np.ndarray:
    """Return ``max(1, |G|/C)``."""
    size = arguments.real("grad_norm", grad_norm, 0, 1e140)
    return np.maximum(1.0, size / arguments.real("max_grad_norm", max_grad_norm, 1e-140))


def _root(dimension: ArrayLike, width: ArrayLike, dropout: ArrayLike) -> np.ndarray:
    """Return ``sqrt(d / ((1 - p) m))``."""
    d = arguments.integer("dimension", dimension, 1, 1e12)
    m = arguments.integer("width", width, 1, 1e15)
    return np.sqrt(d / ((1.0 - arguments.real("dropout", dropout, 0, 1, high_open=True)) * m))


# The Cramer-Rao bound ----------------------------------------------------------------------------


@dataclass(frozen=True)
class GradientInformation:
    """Fisher information on the records from a gradient with independent unit noise.

    Attributes
    ----------
    matrix : ndarray, shape (q, q)
        ``J J'`` of the paper, the sum over the entries of the outer products of their derivatives:
        the Fisher information at noise of standard deviation one.
    pull : ndarray, shape (q,)
        ``J g``, the sum over the entries of the entry times its derivatives.
    squared_norm : float
        Squared norm of the gradient g.
    entries : int
        Number of observed entries.
    """

    matrix: np.ndarray
    pull: np.ndarray
    squared_norm: float
    entries: int

    def clipped(self, max_grad_norm: float) -> GradientInformation:
        """Return the information from the gradient clipped to norm C.

        If clipping has an effect, it is ``(C/|g|)^2 (J J' - J g g' J'/|g|^2)``: all information is
        scaled down, and that from the norm of the gradient is lost.

        Parameters
        ----------
        max_grad_norm : float
            C > 0.
        """
        c = float(arguments.real("max_grad_norm", max_grad_norm, 1e-140, np.inf))
        if self.squared_norm <= c * c:
            return self
        share = c * c / self.squared_norm
        lost = np.outer(self.pull, self.pull) / self.squared_norm
        # the derivatives of a clipped gradient are orthogonal to it
        zero = np.zeros_like(self.pull)
        return GradientInformation(share * (self.matrix - lost), zero, c * c, self.entries)


def gradient_information(rows: Iterable[tuple[ArrayLike, ArrayLike]]) -> GradientInformation:
    """Sum the Fisher information of a gradient whose entries are given in chunks.

    Parameters
    ----------
    rows : iterable of pairs
        Values, (n,), and derivatives, (n, q), of n entries, for instance from
        :func:`reconrisk.two_layer.gradient_jacobians`.

    Returns
    -------
    GradientInformation

    Raises
    ------
    ValueError
        If there are no rows or their shapes do not fit.

    Notes
    -----
    Cost: ``entries q^2`` multiplications; memory for one chunk and two q x q matrices.
    """
    matrix, pull, squared, entries = None, None, 0.0, 0
    for values, jacobian in rows:
        g, j = np.asarray(values, dtype=float), np.asarray(jacobian, dtype=float)
        if j.ndim != 2 or g.shape != j.shape[:1]:
            raise ValueError(f"rows must be (n,) and (n, q); got {g.shape} and {j.shape}")
        if matrix is None:
            matrix, pull = np.zeros((j.shape[1], j.shape[1])), np.zeros(j.shape[1])
        matrix += j.T @ j
        pull += j.T @ g
        squared += float(g @ g)
        entries += len(g)
    if matrix is None or pull is None:
        raise ValueError("rows must contain at least one chunk; got none")
    return GradientInformation(matrix, pull, squared, entries)


def cramer_rao_error(
    information: GradientInformation,
    noise_std: ArrayLike,
    inputs: ArrayLike,
    *,
    unit_norm: bool = False,
) -> np.ndarray:
    """Least root mean squared error of an unbiased estimator of the records.

    ``sigma sqrt(tr((J J')^-1)/B)`` (Liu et al. 2024, eq. 27, with the square and the 1/B of
    Theorem D.7, which eq. 27 lacks).

    Parameters
    ----------
    information : GradientInformation
        Its first ``B d`` unknowns are the records; further ones, such as free residuals, are
        nuisance parameters.
    noise_std : array_like
        Standard deviation of every entry, >= 0.
    inputs : array_like, shape (B, d)
        The true records.
    unit_norm : bool
        Whether the estimator knows each record's norm, as the paper's attack does: then only the
        directions orthogonal to the record are unknown (Gorman and Hero's constrained bound).

    Returns
    -------
    ndarray or float
        Root mean over the records of the squared Euclidean distances. Infinite if the entries do
        not determine the records: fewer entries than unknowns, or a singular matrix.

    Raises
    ------
    ValueError
        If shapes do not fit or a value is out of range.
    """
    sigma = arguments.real("noise_std", noise_std, 0, 1e140)
    x = _records(information, inputs)
    root = np.sqrt(_inverse_trace(information, x, unit_norm) / len(x))
    # infinite without noise too, if the entries do not determine the records
    return (sigma * root if np.isfinite(root) else np.full(sigma.shape, np.inf))[()]


def cramer_rao_error_loosened(
    information: GradientInformation, noise_std: ArrayLike, inputs: ArrayLike
) -> np.ndarray:
    """The paper's bound by the trace of the information: ``sigma sqrt(B d^2/tr(J J'))``.

    By ``tr(M) tr(M^-1) >= (B d)^2`` (Lemma D.2, Remark D.3) it is at most :func:`cramer_rao_error`
    without ``unit_norm``, with equality if the information is the same in every direction. It
    ignores correlations between the records of a batch.

    Parameters
    ----------
    information, noise_std, inputs
        As in :func:`cramer_rao_error`; nuisance parameters are ignored.

    Returns
    -------
    ndarray or float
        Root mean over the records of the squared Euclidean distances; infinite if the trace is
        zero.

    Raises
    ------
    ValueError
        If shapes do not fit or a value is out of range.
    """
    sigma = arguments.real("noise_std", noise_std, 0, 1e140)
    x = _records(information, inputs)
    trace = float(np.trace(information.matrix[: x.size, : x.size]))
    if trace <= 0.0:
        return np.full(sigma.shape, np.inf)[()]
    return (sigma * x.shape[1] * np.sqrt(len(x) / trace))[()]


def information_trace_limit(
    activation: str | special.Activation, dimension: int, width: float, residuals: ArrayLike
) -> float:
    """Limit of ``tr(J J')`` for wide networks and records of unit norm.

    ``m sum_i r_i^2 ((d - 1) E[s'(z)^2] + E[s'(z)^2 z^2])``, with z standard normal: the explicit
    constant in the lower bound ``sqrt(B d^2/tr)``, which Lemma D.6 of Liu et al. (2024) bounds by
    the largest slope.

    Parameters
    ----------
    activation : str or special.Activation
        s, or its name.
    dimension : int
        d >= 1.
    width : float
        m > 0, number of observed neurons.
    residuals : array_like, shape (B,)
        r_i, the residuals of the records.

    Returns
    -------
    float
        >= 0.

    Raises
    ------
    ValueError
        If the activation is unknown or an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.information_trace_limit('elu', 100, 10_000, [1.0, -1.0])))
    1333694
    """
    s = special.activation(activation)
    d = float(arguments.integer("dimension", dimension, 1, 1e12))
    m = float(arguments.real("width", width, 0, 1e15, low_open=True))
    r = arguments.real("residuals", residuals, -1e70, 1e70)
    across = special.normal_mean(lambda z: s.slope(z) ** 2, s.kinks)
    along = special.normal_mean(lambda z: (s.slope(z) * z) ** 2, s.kinks)
    return float(m * np.sum(r * r) * ((d - 1.0) * across + along))


def _records(information: GradientInformation, inputs: ArrayLike) -> np.ndarray:
    x = arguments.real("inputs", inputs, low_open=True, high_open=True)
    if x.ndim != 2 or not 0 < x.size <= len(information.matrix):
        raise ValueError(
            f"inputs must have shape (B, d) with B d at most {len(information.matrix)}; "
            f"got {x.shape}"
        )
    return x


def _inverse_trace(information: GradientInformation, x: np.ndarray, unit_norm: bool) -> float:
    """Return the trace of the inverse information over the records, infinite if singular."""
    matrix, unknowns = information.matrix, x.size
    if unit_norm:
        basis = linalg.block_diag(
            *(linalg.null_space(row[None]) for row in x), np.eye(len(matrix) - x.size)
        )
        matrix = basis.T @ matrix @ basis
        unknowns = x.size - len(x)
    scale = np.sqrt(np.diag(matrix))
    if information.entries < len(matrix) or not np.all(scale > 0):
        return np.inf
    values, vectors = linalg.eigh(matrix / np.outer(scale, scale))
    if values[0] <= _SINGULAR * values[-1]:
        return np.inf
    parts = np.square(vectors / scale[:, None])[:unknowns]
    return float(np.sum(parts / values))
