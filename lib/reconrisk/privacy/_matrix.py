"""Noise that is correlated between steps: matrix mechanisms, of which DP-FTRL is one.

``T`` steps' sums of clipped gradients are the rows of ``G``. The mechanism releases ``C G + Z``,
where ``Z`` is independent Gaussian noise, and trains on ``C^+ (C G + Z)``: on the sums, with noise
that is correlated between steps so that much of it cancels in the model. Kairouz et al. (2021) take
for ``C`` a binary tree, Denisov et al. (2022) a matrix whose product with the decoder is the matrix
of prefix sums.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from reconrisk import arguments
from reconrisk._types import DPSGD

__all__ = ["MatrixMechanism", "square_root_encoder", "tree_encoder"]

#: an entry below this share of the largest is rounding, not correlation
_ROUNDING = 1e-12
#: beyond it an encoder takes gigabytes
_MOST_STEPS = 30_000
#: steps from which zeros of an encoder are left out, if no more of it is filled
_MANY, _FILLED = 1500, 0.1


def square_root_encoder(steps: int, bands: int | None = None) -> np.ndarray:
    """Return the square root of the matrix of prefix sums, whole or cut to its first bands.

    Its first column has the coefficients of ``(1 - x)^(-1/2)`` (Fichtenberger et al., 2023); the
    banded one is that of Kalinin and Lampert (2024).

    Parameters
    ----------
    steps : int
        T, 1 to 30,000.
    bands : int, optional
        Number of diagonals kept, 1 to ``steps``; all by default. One is the noise of DP-SGD.

    Returns
    -------
    ndarray, shape (steps, steps)
        Lower triangular, with ones on the diagonal.

    Raises
    ------
    TypeError, ValueError
        If an argument is not an integer or is out of its range.

    Examples
    --------
    >>> from reconrisk.privacy import square_root_encoder
    >>> square_root_encoder(3)
    array([[1.   , 0.   , 0.   ],
           [0.5  , 1.   , 0.   ],
           [0.375, 0.5  , 1.   ]])
    """
    steps = arguments.count("steps", steps, 1, _MOST_STEPS)
    kept = steps if bands is None else arguments.count("bands", bands, 1, steps)
    number = np.arange(1, steps)
    column = np.concatenate([[1.0], np.cumprod((2 * number - 1) / (2 * number))])
    column[kept:] = 0.0
    return linalg.toeplitz(column, np.zeros(steps))


def tree_encoder(steps: int) -> np.ndarray:
    """Return the sums over the nodes of a binary tree whose leaves are the steps.

    Parameters
    ----------
    steps : int
        T, 1 to 30,000.

    Returns
    -------
    ndarray, shape (nodes, steps)
        A row of zeros and ones for every complete node, leaves first; every column has at most
        ``1 + floor(log2 T)`` ones (Kairouz et al., 2021).

    Raises
    ------
    TypeError, ValueError
        If ``steps`` is not an integer of at least 1.
    """
    steps = arguments.count("steps", steps, 1, _MOST_STEPS)
    widths = [2**level for level in range(steps.bit_length())]
    nodes = [(start, w) for w in widths for start in range(0, steps - w + 1, w)]
    encoder = np.zeros((len(nodes), steps))
    for row, (start, width) in zip(encoder, nodes, strict=True):
        row[start : start + width] = 1.0
    return encoder


@dataclass(frozen=True, eq=False)
class MatrixMechanism:
    """A run whose noise is correlated between steps.

    Parameters
    ----------
    encoder : ndarray, shape (rows, steps)
        ``C``, of full column rank, the products of its columns not negative: then a record harms
        itself most if its gradients all point the same way. In units in which a clipped gradient
        has norm at most one.
    noise_multiplier : float
        Standard deviation of a coordinate of ``Z`` over the clipping norm, > 0.
    period : int, optional
        Steps of an epoch, 1 to ``steps``: a record that takes part in step j does so in j + period,
        j + 2 period, ... and in no other: the order is the same in every epoch. By default
        ``steps``: once. A loader that shuffles anew for every epoch is covered by
        :attr:`sensitivity_in_any_order` alone.

    Raises
    ------
    TypeError, ValueError
        If an argument has another type, is out of its range, or the encoder is not as described.

    Notes
    -----
    The order in which records come may be known to the attacker; in every epoch it is the same.
    Also if a gradient depends on what was released before, a record's part in the release is that
    of one Gaussian mechanism (Denisov et al., 2022, Theorem 2.1), whose sensitivity is the largest
    norm of a sum of columns that belong to one record (the book's pages *Our theorems*).

    Examples
    --------
    >>> from reconrisk import bounds
    >>> from reconrisk.privacy import MatrixMechanism, square_root_encoder
    >>> run = MatrixMechanism(square_root_encoder(256), noise_multiplier=2.0)
    >>> round(run.sensitivity, 3)
    1.683
    >>> round(bounds.rero(run.gaussian(), 0.1).upper, 3)  # names the record among ten
    0.33
    """

    encoder: np.ndarray
    noise_multiplier: float
    period: int | None = None

    def __post_init__(self) -> None:
        encoder = arguments.finite("encoder", self.encoder)
        if encoder.ndim != 2:
            raise ValueError(f"encoder must be a finite matrix; got shape {encoder.shape}")
        object.__setattr__(self, "encoder", encoder)
        products = self._products
        if _factor(products) is None:
            raise ValueError(
                f"encoder must determine every step, have full column rank; got {encoder.shape[0]} "
                f"rows and {encoder.shape[1]} columns that do not"
            )
        if products.min() < -_ROUNDING * products.max():
            raise ValueError(
                "the products of the encoder's columns must not be negative; got "
                f"{products.min():.3g}"
            )
        arguments.real(
            "noise_multiplier", self.noise_multiplier, 0, np.inf, low_open=True, high_open=True
        )
        if self.period is not None:
            period = arguments.count("period", self.period, 1, encoder.shape[1])
            object.__setattr__(self, "period", period)

    @cached_property
    def _products(self) -> np.ndarray:
        """Products of columns; of thousands that are mostly zero without the zeros."""
        encoder = self.encoder
        if self.steps < _MANY or np.count_nonzero(encoder) > _FILLED * encoder.size:
            return encoder.T @ encoder
        from scipy import sparse

        columns = sparse.csc_array(encoder)
        return (columns.T @ columns).toarray()

    @property
    def steps(self) -> int:
        """T."""
        return self.encoder.shape[1]

    @property
    def shifts(self) -> np.ndarray:
        """What the record of each step of the first epoch adds to the release, (rows, period).

        In its gradients' direction, if they are all alike and of the clipping norm.
        """
        period = self.period or self.steps
        return np.stack([self.encoder[:, j::period].sum(axis=1) for j in range(period)], axis=1)

    @property
    def sensitivity(self) -> float:
        """The most that a record moves the release, over the clipping norm."""
        return float(np.linalg.norm(self.shifts, axis=0).max())

    @property
    def sensitivity_in_any_order(self) -> float:
        """No less than a record moves the release, if its step is any one of each epoch.

        Epochs are of ``period`` steps, and may be shuffled anew each. Over the clipping norm. It is
        the most that a record moves the release if there are one or two epochs, or if columns of
        steps that are more than ``period`` apart have no row in common.
        """
        starts = np.arange(0, self.steps, self.period or self.steps)
        if len(starts) == 1:
            return self.sensitivity
        squares = np.diag(self._products).copy()
        products = 2.0 * self._products
        # The squared norm of a sum of one column an epoch: squares, and a product for each pair of
        # epochs. One bound takes the best chain of steps for squares and neighbouring epochs, and
        # for other pairs the largest product.
        chain = squares[: starts[1]]
        for before, start in itertools.pairwise(starts):
            own = slice(start, start + starts[1])
            chain = squares[own] + (chain[:, None] + products[before:start, own]).max(axis=0)
        by_chain = chain.max() + np.triu(_largest(products, starts), 2).sum()
        # The other shares each square out among its pairs, and takes for each pair the largest sum.
        squares /= len(starts) - 1
        products += squares[:, None]
        products += squares
        by_pairs = np.triu(_largest(products, starts), 1).sum()
        return float(np.sqrt(min(by_chain, by_pairs)))

    def gaussian(self, position: int | None = None) -> DPSGD:
        """Return the one full-batch release that says as much about a record as the whole run.

        It can be given to every function that takes a :class:`~reconrisk.DPSGD`, with which
        membership, success with any prior and the error without one are exact: there are data on
        which they are reached.

        Parameters
        ----------
        position : int, optional
            The record's step in the first epoch, from 0; by default the worst.

        Raises
        ------
        TypeError, ValueError
            If ``position`` is not an integer in the epoch.
        """
        lengths = np.linalg.norm(self.shifts, axis=0)
        if position is not None:
            arguments.integer("position", position, 0, len(lengths) - 1)
        length = lengths.max() if position is None else lengths[position]
        return DPSGD(float(self.noise_multiplier / length))

    def amplified(self, sampling_rate: float) -> DPSGD:
        """Return a run of DP-SGD that says no less, if batches are drawn in secret.

        The records are split into as many parts as the encoder has bands, and step i takes a
        Poisson sample of part i modulo their number: a record's steps then share no row of noise
        (Choquette-Choo et al., 2023, Theorem 4). ``period`` plays no part.

        Parameters
        ----------
        sampling_rate : float
            q in (0, 1], with which a record of the part is in the batch: batches hold ``q/bands``
            of all records on average.

        Raises
        ------
        TypeError, ValueError
            If ``sampling_rate`` is out of its range, or the encoder is not square, lower triangular
            and banded (of ``steps`` or fewer diagonals).
        """
        arguments.real("sampling_rate", sampling_rate, 0, 1, low_open=True)
        rows, steps = self.encoder.shape
        if rows != steps or np.any(np.triu(self.encoder, 1)):
            raise ValueError(
                "amplification is proven for a square lower triangular encoder; got shape "
                f"({rows}, {steps})"
            )
        length = float(np.linalg.norm(self.encoder, axis=0).max())
        rounds = math.ceil(steps / self.bands)
        return DPSGD(float(self.noise_multiplier / length), float(sampling_rate), rounds)

    @property
    def bands(self) -> int:
        """Diagonals of the encoder, from the main one to the last that is not zero."""
        used = np.argwhere(self.encoder)
        return int((used[:, 0] - used[:, 1]).max()) + 1

    def prefix_errors(self) -> np.ndarray:
        """Return the standard deviation (steps,) of the noise in every prefix sum of the gradients.

        Over the clipping norm, by coordinate: what the model of plain gradient descent has of noise
        after each step, over learning rate and batch size. Decoding is by least squares.
        """
        factor = _factor(self._products)
        assert factor is not None  # checked with the arguments
        prefixes = np.triu(np.ones((self.steps, self.steps)))
        return self.noise_multiplier * np.linalg.norm(
            linalg.solve_triangular(factor, prefixes, lower=True), axis=0
        )

    def release(self, gradients: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return ``C G + Z`` (..., rows, dimension) for ``G`` (..., steps, dimension)."""
        clean = self.encoder @ gradients
        return clean + self.noise_multiplier * generator.standard_normal(clean.shape)

    def contribution(self, released: np.ndarray, position: int) -> np.ndarray:
        """Return the best linear unbiased estimate of one record's gradient.

        It is alike at all steps of the record. Its noise is that of :meth:`gaussian` at this
        position; it is the whole of what the release says (a sufficient statistic), for an
        attacker who knows the other records.

        Parameters
        ----------
        released : ndarray, shape (..., rows, dimension)
            ``C G + Z``, less what the other records add.
        position : int
            The record's step in the first epoch, from 0.

        Returns
        -------
        ndarray, shape (..., dimension)

        Raises
        ------
        TypeError, ValueError
            If ``position`` is not an integer in the epoch.
        """
        arguments.integer("position", position, 0, (self.period or self.steps) - 1)
        shift = self.shifts[:, position]
        return np.einsum("r,...rd->...d", shift, released) / (shift @ shift)


def _largest(products: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the largest entry of every block, of those that begin at rows and columns given."""
    return np.maximum.reduceat(np.maximum.reduceat(products, starts, axis=0), starts, axis=1)


def _factor(products: np.ndarray) -> np.ndarray | None:
    """Return the Cholesky factor of the products of columns; None if they are dependent."""
    try:
        factor = linalg.cholesky(products, lower=True)
    except linalg.LinAlgError:
        return None
    diagonal = np.diag(factor)
    return factor if diagonal.min() > math.sqrt(_ROUNDING) * diagonal.max() else None
