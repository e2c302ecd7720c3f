"""What a privacy guarantee alone says of every attack, whatever the mechanism behind it.

A guarantee bounds how well a test can tell two adjacent inputs apart: the power ``gamma(kappa)`` of
any test of level ``kappa``, which is one minus the trade-off curve. The success of any attack on a
record that a blind guess finds with probability ``kappa`` is at most ``gamma(kappa)``, because the
output without the record (or with a fixed other one) tells the attacker nothing, and because
``gamma`` is concave (Hayes et al. 2023, Theorem 2, with the curve in the place of the Gaussian's).

Every class encloses the largest value over all mechanisms that keep the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from reconrisk import arguments, privacy, special
from reconrisk._types import DPSGD, Enclosure
from reconrisk.bounds._rero import rero, rero_curve
from reconrisk.privacy._phases import Release, as_run_or_releases
from reconrisk.privacy._releases import Atoms
from reconrisk.privacy._samplers import SampledRun, bracket

__all__ = [
    "ApproximateDP",
    "Guarantee",
    "LossDistribution",
    "Releases",
    "RenyiDP",
    "TradeOff",
    "ZeroConcentratedDP",
    "gaussian_dp",
]

_SLACK = 1e-12
#: orders at which zero-concentrated privacy is used from above; fewer only loosen the bound
_ORDERS = 1.0 + np.geomspace(1e-4, 1e8, 161)
#: orders to try near a decisive one; how often, and in how many, intervals of orders are cut
_NEAR, _CUTS, _PIECES = 65, 6, 16
#: log odds of what is as good as certain
_CERTAIN = 1e6
#: shares of the way from the prior success that are given up for a lower end
_SHARES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5)
_GRID = 65


class Guarantee(Protocol):
    """What the classes of this module have in common.

    Attributes
    ----------
    description : str
        The guarantee in words, with its numbers.
    """

    @property
    def description(self) -> str: ...

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success."""

    def delta(self, epsilon: float) -> Enclosure:
        """Enclose the smallest delta at an epsilon in [0, 500]."""

    def epsilon(self, delta: float) -> Enclosure:
        """Enclose the smallest epsilon at a delta in (0, 1); ValueError if none is finite."""


class _Value:
    """Guarantees that are given by the same arguments are equal."""

    _given: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._given == self._given  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._given))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._given))})"


# Curves with corners -----------------------------------------------------------------------------


class _Corners:
    """A concave curve of straight pieces from (0, gamma_0) on; exact up to rounding.

    ``rest`` is ``1 - gamma``, for curves that are not symmetric and are read in both directions.
    """

    def __init__(
        self, kappa: np.ndarray, gamma: np.ndarray, rest: np.ndarray | None = None
    ) -> None:
        self._kappa, self._gamma, self._rest = kappa, gamma, rest

    def success(self, log_kappa: float) -> float:
        kappa, start = math.exp(log_kappa), self._gamma[0]
        if kappa >= self._kappa[-1]:
            return 0.0
        if kappa > self._kappa[1]:
            return min(math.log(float(np.interp(kappa, self._kappa, self._gamma))), 0.0)
        log_slope = math.log((self._gamma[1] - start) / self._kappa[1])
        log_start = math.log(start) if start > 0.0 else -math.inf
        return min(float(np.logaddexp(log_start, log_slope + log_kappa)), 0.0)

    def delta(self, epsilon: float) -> float:
        lift = math.exp(epsilon)
        found = float(np.max(self._gamma - lift * self._kappa))
        if self._rest is not None:
            found = max(found, float(np.max((1.0 - self._kappa) - lift * self._rest)))
        return max(found, 0.0)

    def epsilon(self, delta: float) -> float:
        sides = [(self._gamma, self._kappa)]
        if self._rest is not None:
            sides.append((1.0 - self._kappa, self._rest))
        best = 0.0
        for likely, other in sides:
            # what is certain, a corner at kappa = 0, may equal delta up to rounding
            ruled_out = likely > delta * (1.0 + _SLACK) + 1e-15
            with np.errstate(divide="ignore"):
                found = np.log(likely[ruled_out] - delta) - np.log(other[ruled_out])
            best = max(best, float(np.max(found, initial=0.0)))
        if best == math.inf:
            raise ValueError(f"delta must be larger for a finite epsilon; got {delta!r}")
        return best


def _log_prior(value: float) -> float:
    return float(arguments.real("log_prior_success", value, -np.inf, 0))


def _epsilon(value: float) -> float:
    return float(arguments.real("epsilon", value, 0, 500))


def _delta(value: float) -> float:
    return float(arguments.real("delta", value, 0, 1, high_open=True))


def _around(value: float) -> Enclosure:
    """Enclose a value that is exact up to rounding."""
    slip = _SLACK * abs(value) + 1e-15
    return Enclosure(max(value - slip, 0.0), value + slip)


def _around_probability(value: float) -> Enclosure:
    found = _around(value)
    return Enclosure(min(found.lower, 1.0), min(found.upper, 1.0))


def _around_log(value: float) -> Enclosure:
    slip = _SLACK * (1.0 + abs(value))
    return Enclosure(value - slip, min(value + slip, 0.0))


class _WithCorners:
    """A guarantee whose curve has corners."""

    _corners: _Corners

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success."""
        return _around_log(self._corners.success(_log_prior(log_prior_success)))

    def delta(self, epsilon: float) -> Enclosure:
        """Enclose the smallest delta at an epsilon."""
        return _around_probability(self._corners.delta(_epsilon(epsilon)))

    def epsilon(self, delta: float) -> Enclosure:
        """Enclose the smallest epsilon at a delta; ValueError if none is finite."""
        return _around(self._corners.epsilon(_delta(delta)))


class ApproximateDP(_Value, _WithCorners):
    """(epsilon, delta)-differential privacy, central or local.

    ``gamma(kappa) = min(1, delta + e^eps kappa, 1 - e^-eps (1 - delta - kappa))`` (Wasserman and
    Zhou 2010; Kairouz et al. 2017). If any record may be replaced by any other and delta is zero,
    as under local privacy, the success is at most ``kappa e^eps/(1 + kappa (e^eps - 1))``, which
    randomised response attains: no candidate is more than ``e^eps`` times likelier than another.

    Parameters
    ----------
    epsilon : float
        In [0, 500], nats.
    delta : float
        In [0, 1).
    adjacency : {"add-remove", "replace"}
        "replace": any record against any other, as in local differential privacy.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> import math
    >>> from reconrisk import bounds
    >>> central, local = (bounds.ApproximateDP(1.0, adjacency=a) for a in ("add-remove", "replace"))
    >>> [round(math.exp(g.success(math.log(0.1)).upper), 4) for g in (central, local)]
    [0.2718, 0.232]
    """

    def __init__(self, epsilon: float, delta: float = 0.0, adjacency: str = "add-remove") -> None:
        e = float(arguments.real("epsilon", epsilon, 0, 500))
        d = float(arguments.real("delta", delta, 0, 1, high_open=True))
        arguments.one_of("adjacency", adjacency, ("add-remove", "replace"))
        self._sharp = e if adjacency == "replace" and d == 0.0 else None
        self._given = e, d, adjacency
        self.description = f"({e:g}, {d:g})-differential privacy"
        if adjacency == "replace":
            self.description += " under replacement of the record"
        log_rest = math.log1p(-d) - float(np.logaddexp(0.0, e))
        corner = math.exp(log_rest)
        kappa = np.array([0.0, corner, 1.0 - d])
        self._corners = _Corners(kappa, np.array([d, 1.0 - corner, 1.0]))

    @property
    def of_tests(self) -> ApproximateDP:
        """What it says of tests of one record against another: the sharper bound is of naming."""
        return ApproximateDP(*self._given[:2])

    def epsilon(self, delta: float) -> Enclosure:
        """Enclose the smallest epsilon at a delta; ValueError if none is finite."""
        epsilon, given, _ = self._given
        if delta == given:
            return Enclosure(epsilon, epsilon)
        return super().epsilon(delta)

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success."""
        if self._sharp is None:
            return super().success(log_prior_success)
        kappa = math.exp(_log_prior(log_prior_success))
        if self._sharp > 30.0:
            rest = float(np.logaddexp(math.log1p(-kappa), log_prior_success + self._sharp))
        else:
            rest = math.log1p(kappa * math.expm1(self._sharp))
        return _around_log(min(log_prior_success + self._sharp - rest, 0.0))


class TradeOff(_Value, _WithCorners):
    """f-differential privacy with a trade-off curve of straight pieces (Dong et al. 2022).

    Parameters
    ----------
    false_positives, false_negatives : array_like
        Corners ``(alpha, f(alpha))``; alpha increases from 0 to 1, and f is convex, falls, and is
        at most ``1 - alpha``. Between the corners f is straight: for a curved f give the corners of
        a polygon below it.

    Raises
    ------
    TypeError, ValueError
        If that is not a trade-off curve.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> curve = bounds.TradeOff([0.0, 0.25, 1.0], [0.75, 0.25, 0.0])
    >>> round(curve.delta(0.0).upper, 3)
    0.5
    """

    def __init__(self, false_positives: ArrayLike, false_negatives: ArrayLike) -> None:
        alpha = arguments.real("false_positives", false_positives, 0, 1)
        beta = arguments.real("false_negatives", false_negatives, 0, 1)
        if alpha.ndim != 1 or alpha.shape != beta.shape or alpha.size < 2:
            raise ValueError(
                "false_positives and false_negatives must be two lists of one length, at least 2; "
                f"got shapes {alpha.shape} and {beta.shape}"
            )
        steps = np.diff(alpha)
        if alpha[0] != 0.0 or alpha[-1] != 1.0 or np.any(steps <= 0.0):
            raise ValueError("false_positives must increase from 0 to 1")
        slopes = np.diff(beta) / steps
        if np.any(slopes > 1e-12) or np.any(np.diff(slopes) < -1e-9) or beta[-1] != 0.0:
            raise ValueError("false_negatives must fall to 0 and be convex in false_positives")
        if np.any(beta > 1.0 - alpha + 1e-12):
            raise ValueError("false_negatives must be at most 1 - false_positives")
        self._given = tuple(alpha.tolist()), tuple(beta.tolist())
        self.description = f"a trade-off curve of {alpha.size - 1} pieces"
        self._corners = _Corners(alpha, 1.0 - beta, beta)


class LossDistribution:
    """A privacy loss distribution of dp-accounting, taken as the mechanism's worst.

    Parameters
    ----------
    distribution : dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        A pessimistic one, as its functions make by default: its values are then upper bounds.

    Raises
    ------
    TypeError
        If it is something else.

    Examples
    --------
    >>> from dp_accounting.pld import privacy_loss_distribution  # doctest: +SKIP
    >>> found = privacy_loss_distribution.from_gaussian_mechanism(1.0)  # doctest: +SKIP
    >>> round(bounds.LossDistribution(found).delta(1.0).upper, 3)  # doctest: +SKIP
    0.127
    """

    description = "a privacy loss distribution of dp-accounting"

    def __init__(self, distribution: Any) -> None:
        removed = getattr(distribution, "_pmf_remove", None)
        if removed is None:
            raise TypeError(
                "distribution must be a PrivacyLossDistribution of dp_accounting; "
                f"got a {type(distribution).__name__}"
            )
        self._removed = _corners_of(removed)
        self._added = _corners_of(getattr(distribution, "_pmf_add", removed))

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success."""
        return _around_log(self._removed.success(_log_prior(log_prior_success)))

    def delta(self, epsilon: float) -> Enclosure:
        """Enclose the smallest delta at an epsilon."""
        return _around_probability(
            max(c.delta(_epsilon(epsilon)) for c in (self._removed, self._added))
        )

    def epsilon(self, delta: float) -> Enclosure:
        """Enclose the smallest epsilon at a delta; ValueError if none is finite."""
        return _around(max(c.epsilon(_delta(delta)) for c in (self._removed, self._added)))


def _corners_of(pmf: Any) -> _Corners:
    """Return the curve of a probability mass function of losses."""
    dense = pmf.to_dense_pmf()
    likely = np.asarray(dense._probs, float)[::-1]
    loss = (dense._lower_loss + np.arange(likely.size))[::-1] * dense._discretization
    used = likely > 0.0
    likely, loss = likely[used], loss[used]
    other = np.exp(np.log(likely) - loss)
    start = float(dense._infinity_mass)
    gamma = np.minimum(start + np.append(0.0, np.cumsum(likely)), 1.0)
    kappa = np.append(0.0, np.cumsum(other))
    # what rounding left of either law
    return _Corners(np.append(kappa, max(1.0, kappa[-1])), np.append(gamma, 1.0))


# Mechanisms --------------------------------------------------------------------------------------


class Releases(_Value):
    """Laplace noise, randomised response, and whatever composes with them.

    Parameters
    ----------
    releases : SampledRun, or iterable of DPSGD, Laplace, Atoms, Group, Allocation and SampledRun
        All on the same records.
    description : str, optional
        What they are.

    Raises
    ------
    TypeError, ValueError
        If there is none, or something else among them.

    Examples
    --------
    >>> import math
    >>> from reconrisk import bounds, privacy
    >>> noisy = bounds.Releases([privacy.Laplace(1.0)])
    >>> round(math.exp(noisy.success(math.log(0.1)).upper), 4)
    0.2718
    """

    def __init__(
        self, releases: SampledRun | Iterable[Release | SampledRun], description: str = ""
    ) -> None:
        given = tuple(releases) if isinstance(releases, Iterable) else releases
        self._run = given if bracket(given) else as_run_or_releases(given)  # type: ignore[arg-type]
        many = self._run if isinstance(self._run, (list, tuple)) else []
        self.description = (
            description or f"{max(len(many), 1)} mechanism{'s' * (len(many) > 1)} composed"
        )
        self._given = tuple(many) or self._run, self.description
        self._curve: Guarantee | None = None
        if len(many) == 1 and isinstance(many[0], Atoms) and many[0].steps == 1:
            self._curve = _OneRelease(many[0])

    @property
    def sampled(self) -> bool:
        """Whether this is a run with another sampler than Poisson's."""
        return isinstance(self._run, SampledRun)

    def successes(self, prior_success: np.ndarray) -> np.ndarray:
        """Return upper bounds on the largest success at many prior successes, quickly."""
        if self._curve is not None:
            logs = (self._curve.success(math.log(k)).upper for k in prior_success)
            return np.exp(np.array(list(logs)))
        return rero_curve(self._run, prior_success)[1]

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success."""
        if self._curve is not None:
            return self._curve.success(log_prior_success)
        return rero(self._run, log_prior_success=log_prior_success, log=True)

    def delta(self, epsilon: float) -> Enclosure:
        """Enclose the smallest delta at an epsilon."""
        if self._curve is not None:
            return self._curve.delta(epsilon)
        return privacy.delta(self._run, epsilon)

    def epsilon(self, delta: float) -> Enclosure:
        """Enclose the smallest epsilon at a delta."""
        if self._curve is not None:
            return self._curve.epsilon(delta)
        return privacy.epsilon(self._run, delta)


class _OneRelease(_WithCorners):
    """One release with finitely many outcomes."""

    description = "one release with finitely many outcomes"

    def __init__(self, release: Atoms) -> None:
        q, nu = float(release.sampling_rate), np.asarray(release.without, float)
        mu = (1.0 - q) * nu + q * np.asarray(release.present, float)
        used = (nu > 0.0) | (mu > 0.0)
        nu, mu = nu[used], mu[used]
        with np.errstate(divide="ignore"):
            order = np.argsort(-np.log(mu) + np.log(nu))
        nu, mu = nu[order], mu[order]
        certain = nu == 0.0
        kappa = np.append(0.0, np.cumsum(nu[~certain]))
        gamma = float(mu[certain].sum()) + np.append(0.0, np.cumsum(mu[~certain]))
        # from the other end, for its own small values
        rest = np.append(np.cumsum(mu[~certain][::-1])[::-1], 0.0)
        self._corners = _Corners(np.minimum(kappa, 1.0), np.minimum(gamma, 1.0), rest)


def gaussian_dp(mu: float) -> Releases:
    """``mu``-Gaussian differential privacy: ``gamma = Phi(Phi**-1(kappa) + mu)``.

    Parameters
    ----------
    mu : float
        In [1e-6, 1e6].

    Returns
    -------
    Releases

    Examples
    --------
    >>> import math
    >>> from reconrisk import bounds
    >>> round(math.exp(bounds.gaussian_dp(1.0).success(math.log(0.1)).upper), 3)
    0.389
    """
    value = float(arguments.real("mu", mu, 1e-6, 1e6))
    return Releases([DPSGD(1.0 / value)], f"{value:g}-Gaussian differential privacy")


# Divergences -------------------------------------------------------------------------------------


class RenyiDP(_Value):
    """Renyi differential privacy: bounds on the divergence of some orders, in both directions.

    The success of any attack is the largest ``gamma`` for which two coins, one that falls with
    ``gamma`` and one with ``kappa``, are no further apart than that at every order: no mechanism
    allows more, and the one that shows such a coin keeps the guarantee. Epsilon and delta are
    enclosed by the best coin found and by Canonne et al. (2020), Proposition 2.11.

    Parameters
    ----------
    orders : array_like
        In (1, inf).
    divergences : array_like
        Bounds on the divergence, nats, >= 0; infinite where nothing is known.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range, or no divergence is finite.

    Examples
    --------
    >>> import math
    >>> from reconrisk import bounds
    >>> curve = bounds.RenyiDP([2.0, 8.0, 32.0], [0.1, 0.4, 1.6])
    >>> round(math.exp(curve.success(math.log(0.1)).upper), 4)
    0.1887
    """

    def __init__(self, orders: ArrayLike, divergences: ArrayLike) -> None:
        a = arguments.real("orders", orders, 1, np.inf, low_open=True, high_open=True)
        d = arguments.real("divergences", divergences, 0)
        if np.ndim(a) != 1 or a.shape != d.shape or not np.any(np.isfinite(d)):
            raise ValueError(
                "orders and divergences must be two lists of one length, one of them finite at "
                f"least; got shapes {a.shape} and {d.shape}"
            )
        self._given = tuple(a.tolist()), tuple(d.tolist())
        used = np.isfinite(d)
        self._a, self._d = a[used], d[used]
        self.description = f"Renyi differential privacy at {self._a.size} orders"

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success."""
        if _log_prior(log_prior_success) in (0.0, -math.inf):
            return Enclosure(log_prior_success, log_prior_success)
        kappa = log_prior_success - _log_rest(log_prior_success)
        low, high = (
            max(_log_of_odds(self._largest_odds(kappa, sign)), log_prior_success)
            for sign in (-1.0, 1.0)
        )
        return Enclosure(min(low, high), high)

    def _largest_odds(self, kappa: float, sign: float) -> float:
        """Return the largest log odds of gamma, with a margin for rounding on one side.

        ``kappa`` is given by its log odds, too.
        """
        most = self._d * (1.0 + sign * _SLACK) + sign * 1e-11

        def is_allowed(gamma: float) -> bool:
            return all(
                bool(np.all(_divergence(self._a, p, q) <= most))
                for p, q in ((gamma, kappa), (kappa, gamma))
            )

        low, high = kappa, max(kappa, 0.0) + 1.0
        while is_allowed(high):
            low, high = high, 2.0 * high
            if high > _CERTAIN:
                return math.inf
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if is_allowed(middle) else (low, middle)
        return high if sign > 0.0 else low

    def delta(self, epsilon: float) -> Enclosure:
        """Enclose the smallest delta at an epsilon."""
        logs = privacy.log_delta_from_renyi(self._a, self._d, _epsilon(epsilon))
        upper = math.exp(float(np.min(logs))) * (1.0 + _SLACK)
        lift = math.exp(epsilon)
        lower = _best(lambda k: math.exp(self.success(k).lower) - lift * math.exp(k))
        if epsilon == 0.0:
            upper = min(upper, _largest_gain(self.success))
        return Enclosure(min(max(lower, 0.0), upper), upper)

    def epsilon(self, delta: float) -> Enclosure:
        """Enclose the smallest epsilon at a delta."""
        found = privacy.epsilon_from_renyi(self._a, self._d, delta)
        upper = float(np.min(found)) * (1.0 + _SLACK)

        def ruled_out(log_kappa: float) -> float:
            gain = math.exp(self.success(log_kappa).lower) - delta
            return math.log(gain) - log_kappa if gain > 0.0 else -math.inf

        return Enclosure(min(max(_best(ruled_out), 0.0), upper), upper)


class ZeroConcentratedDP(RenyiDP):
    """rho-zero-concentrated differential privacy: a divergence of ``rho a`` at every order ``a``.

    Parameters
    ----------
    rho : float
        In [1e-9, 1e6].

    Raises
    ------
    TypeError, ValueError
        If ``rho`` is out of its range.

    Examples
    --------
    >>> import math
    >>> from reconrisk import bounds
    >>> found = bounds.ZeroConcentratedDP(0.5).success(math.log(0.1))
    >>> gaussian = bounds.gaussian_dp(1.0).success(math.log(0.1))
    >>> gaussian.upper < found.lower, round(math.exp(found.upper), 3)
    (True, 0.484)
    """

    def __init__(self, rho: float) -> None:
        value = float(arguments.real("rho", rho, 1e-9, 1e6))
        super().__init__(_ORDERS, value * _ORDERS)
        self._rho, self._given = value, (value,)
        self.description = f"{value:g}-zero-concentrated differential privacy"

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success.

        The lower end is that of a coin that keeps the guarantee at every order: for rho from 1e-9
        to 5 within 3e-6 of the upper one.
        """
        if _log_prior(log_prior_success) in (0.0, -math.inf):
            return Enclosure(log_prior_success, log_prior_success)
        kappa = log_prior_success - _log_rest(log_prior_success)
        # orders near those that decide, until more of them change nothing
        decisive = self
        odds = RenyiDP._largest_odds(self, kappa, 1.0)
        for reach in (0.2, 2e-3) if odds < math.inf else ():
            near = decisive._decisive_order(kappa, odds)
            orders = 1.0 + (near - 1.0) * np.exp(np.linspace(-reach, reach, _NEAR))
            decisive = decisive._with_orders(orders)
            odds = RenyiDP._largest_odds(decisive, kappa, 1.0)
        upper = max(_log_of_odds(odds), log_prior_success)
        odds = min(odds, _CERTAIN)
        for share in _SHARES:
            less = kappa + (odds - kappa) * (1.0 - share)
            if _is_concentrated(less, kappa, self._rho) and _is_concentrated(
                kappa, less, self._rho
            ):
                return Enclosure(min(max(_log_of_odds(less), log_prior_success), upper), upper)
        return Enclosure(log_prior_success, upper)

    def _with_orders(self, orders: np.ndarray) -> ZeroConcentratedDP:
        """Return the same guarantee used at further orders."""
        found = ZeroConcentratedDP(self._rho)
        found._a = np.unique(np.concatenate([self._a, orders]))
        found._d = self._rho * found._a
        return found

    def _decisive_order(self, kappa: float, gamma: float) -> float:
        """Return the order at which two coins, given by their log odds, leave the least room."""
        excess = np.maximum(_divergence(self._a, gamma, kappa), _divergence(self._a, kappa, gamma))
        return float(self._a[np.argmax(excess / self._d)])


def _is_concentrated(p: float, q: float, rho: float) -> bool:
    """Tell whether coins with these log odds have a divergence of at most ``rho a`` at all orders.

    ``(a - 1) D_a`` is convex in ``a``: between two orders it is below its chord, which exceeds
    ``rho a (a - 1)`` the most where the latter has the chord's slope. Intervals where it does are
    cut, a few times. ``D_a`` rises with ``a``, which settles the orders near one and the largest.
    """
    margin = 1.0 - 1e-11
    if float(_divergence(_ORDERS[:1], p, q)[0]) > rho * margin:
        return False
    log_p, rest_p, log_q, rest_q = (-np.logaddexp(0.0, x) for x in (-p, p, -q, q))
    if max(log_p - log_q, rest_p - rest_q) > rho * _ORDERS[-1] * margin:
        return False
    left, right = _ORDERS[:-1], _ORDERS[1:]
    for _ in range(_CUTS):
        one, two = ((a - 1.0) * _divergence(a, p, q) for a in (left, right))
        if np.any(two > rho * margin * right * (right - 1.0)):
            return False
        slope = (two - one) / (right - left)
        at = np.clip(0.5 * (slope / (rho * margin) + 1.0), left, right)
        excess = one + slope * (at - left) - rho * margin * at * (at - 1.0)
        unsure = excess > 0.0
        if not np.any(unsure):
            return True
        ends = np.linspace(left[unsure], right[unsure], _PIECES + 1)
        left, right = ends[:-1].ravel(), ends[1:].ravel()
    return False


def _log_of_odds(odds: float) -> float:
    """Return the logarithm of the probability with these log odds."""
    return -float(np.logaddexp(0.0, -odds))


def _log_rest(log_p: float) -> float:
    """Return ``log(1 - p)``."""
    return float(special.log1mexp(np.array(log_p)))


@np.errstate(under="ignore")
def _divergence(order: np.ndarray, p: float, q: float) -> np.ndarray:
    """Return the Renyi divergences of two coins, given by their log odds."""
    log_p, rest_p, log_q, rest_q = (-np.logaddexp(0.0, x) for x in (-p, p, -q, q))
    falls = order * log_p + (1.0 - order) * log_q
    other = order * rest_p + (1.0 - order) * rest_q
    return np.logaddexp(falls, other) / (order - 1.0)


def _best(worth: Callable[[float], float]) -> float:
    """Return the largest worth that a search over logarithms of prior successes finds."""
    grid = np.concatenate([-np.geomspace(200.0, 1.0, 33), -np.geomspace(0.9, 1e-6, 16)])
    values = [worth(float(k)) for k in grid]
    at = int(np.argmax(values))
    ends = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, grid.size - 1)])
    found = optimize.minimize_scalar(
        lambda k: -max(worth(float(k)), -1e9), bounds=ends, method="bounded"
    )
    return max(float(values[at]), -float(found.fun))


def _largest_gain(success: Callable[[float], Enclosure]) -> float:
    """Return an upper bound on the largest ``gamma(kappa) - kappa``; gamma does not fall."""
    low, high, most = 0.0, 1.0, np.ones(1)
    for _ in range(3):
        grid = np.linspace(low, high, _GRID)
        logs = [success(math.log(k)) if k > 0.0 else Enclosure(-math.inf, -math.inf) for k in grid]
        below = np.exp([v.lower for v in logs])
        most = np.exp([v.upper for v in logs[1:]]) - grid[:-1]
        near = np.flatnonzero(most >= np.max(below - grid))
        low, high = float(grid[near[0]]), float(grid[near[-1] + 1])
    return float(np.max(most)) * (1.0 + _SLACK)
