"""What the laws of the metrics share: both tails and their inverses, in logarithms where asked.

A law states one tail, that of success: of an error of at most, or of a similarity of at least, a
threshold. Everything else follows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._selections import check_selection, log_mean_selected
from reconrisk.special._roots import monotone_root

__all__ = ["Law", "ReleaseLaw"]


class Law:
    """``cdf``, ``sf`` and their inverses ``ppf`` and ``isf``, broadcast with the parameters."""

    #: whether a large value is a success
    _upper: ClassVar[bool]

    def cdf(self, threshold: ArrayLike, *, log: bool = False) -> np.ndarray:
        """Probability of at most a threshold, or its natural logarithm."""
        return self._probability(threshold, self._upper, log)

    def sf(self, threshold: ArrayLike, *, log: bool = False) -> np.ndarray:
        """Probability of at least a threshold, or its natural logarithm."""
        return self._probability(threshold, not self._upper, log)

    def ppf(
        self, probability: ArrayLike | None, *, log_probability: ArrayLike | None = None
    ) -> np.ndarray:
        """The threshold at which :meth:`cdf` has this value, or this logarithm."""
        return self._quantile(probability, log_probability, self._upper)

    def isf(
        self, probability: ArrayLike | None, *, log_probability: ArrayLike | None = None
    ) -> np.ndarray:
        """The threshold at which :meth:`sf` has this value, or this logarithm."""
        return self._quantile(probability, log_probability, not self._upper)

    def _probability(self, threshold: ArrayLike, complement: bool, log: bool) -> np.ndarray:
        log_p = np.minimum(self._log_tail(threshold), 0.0)
        return args.probability(special.log1mexp(log_p) if complement else log_p, log)

    def _quantile(
        self, probability: ArrayLike | None, log_probability: ArrayLike | None, complement: bool
    ) -> np.ndarray:
        log_p = args.log_probability("probability", probability, log_probability)
        return self._tail_quantile(special.log1mexp(log_p) if complement else log_p)[()]

    def _log_tail(self, threshold: ArrayLike) -> np.ndarray:
        raise NotImplementedError

    def _tail_quantile(self, log_p: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseLaw(Law):
    """The law of one reconstruction, or of the average over the steps that select the record."""

    #: T and p of :meth:`sampled`
    selection: tuple[np.ndarray, np.ndarray] | None = None

    def sampled(self, steps: ArrayLike, selection_probability: ArrayLike) -> Self:
        """The law of the average over ``K ~ Binomial(steps, selection_probability)`` releases.

        Without a release (K = 0) there is no reconstruction, which counts as failure: an infinite
        error, or a similarity below every threshold. The mean is that given a release.

        Parameters
        ----------
        steps : array_like
            T in [1, 1e9].
        selection_probability : array_like
            Probability that one step selects the record, in (0, 1].
        """
        selection = check_selection(steps, selection_probability)
        return dataclasses.replace(self, selection=selection)

    def _mix(self, log_value: Callable[..., np.ndarray], *columns: np.ndarray) -> np.ndarray:
        """Return ``log_value(1, ...)``, or the log of its mean over K, zero for K = 0."""
        if self.selection is None:
            return log_value(1.0, *columns)
        return log_mean_selected(log_value, *self.selection, *columns)

    def _log_selected(self) -> np.ndarray:
        """Return the log-probability of a release."""
        if self.selection is None:
            return np.zeros(())
        steps, probability = self.selection
        with np.errstate(divide="ignore"):
            return special.log1mexp(steps * np.log1p(-probability))

    def _solve(
        self, log_p: np.ndarray, threshold: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Return where the tail is ``exp(log_p)``; it must increase with real ``y``.

        Beyond the probability of a release no threshold is lax enough: that at ``y = inf``.
        """
        possible = (log_p > -np.inf) & (log_p < self._log_selected())
        tail = self._log_tail(threshold(np.zeros(())))
        target, possible, _ = np.broadcast_arrays(np.where(possible, log_p, tail), possible, tail)
        target, y = target.reshape(-1), np.zeros(target.size)

        def excess(t: np.ndarray, index: np.ndarray | slice = slice(None)) -> np.ndarray:
            y[index] = t
            tail = self._log_tail(threshold(y.reshape(possible.shape)))
            return (tail.reshape(-1) - target)[index]

        low, high = np.full(y.size, -1.0), np.full(y.size, 1.0)
        for end, sign in ((low, -1.0), (high, 1.0)):
            while np.any(short := sign * excess(end) < 0.0):
                end[short] *= 2.0
        root = monotone_root(excess, low, high).reshape(possible.shape)
        return threshold(np.where(possible, root, np.where(log_p > -np.inf, np.inf, -np.inf)))
