"""The success of any attack by methods that share no code with the library's enclosure.

Closed forms, quadrature in 30-digit arithmetic, inversion of the characteristic function (fast and
accurate, but not certified), and another library's privacy-loss distributions.
"""

import math

import mpmath
import numpy as np
from scipy import optimize
from scipy import special as sc

from reconrisk import DPSGD, bounds

#: nodes of the inversion; runs in which the record rarely takes part would need far more
_MOST_NODES = 4096
#: relative difference allowed between two inversions with different nodes
_SETTLED = 1e-9


def success_in_closed_form(run: DPSGD, kappa: float) -> mpmath.mpf:
    """The success of any attack with one step or full batches, in 30-digit arithmetic.

    The likelihood ratio increases with the sum of the outputs.
    """
    with mpmath.workdps(30):
        k, q = mpmath.mpf(kappa), mpmath.mpf(run.sampling_rate)
        start = float(sc.ndtri(kappa))
        quantile = mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z) / k), start)
        full = mpmath.ncdf(quantile + mpmath.sqrt(run.steps) / mpmath.mpf(run.noise_multiplier))
        return (1 - q) * k + q * full


def two_steps_by_quadrature(sigma: float, q: float, level: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Probabilities under both laws that the log ratio of two steps exceeds ``level``.

    An integral over the first step of the second's tail. The variable is the logarithm of the
    distance to the value beyond which the second step does not matter: the integrand is not
    analytic there, but decays in this variable, and the trapezoidal rule converges exponentially.
    """
    with mpmath.workdps(30):
        a, rate, c = 1 / mpmath.mpf(sigma), mpmath.mpf(q), mpmath.mpf(level)

        def needed(log_ratio: mpmath.mpf) -> mpmath.mpf:
            """The output at which one step has this log ratio."""
            return (mpmath.log(mpmath.expm1(log_ratio) / rate + 1) + a * a / 2) / a

        enough = needed(c - mpmath.log1p(-rate))
        without = mpmath.ncdf(-enough)
        with_record = (1 - rate) * without + rate * mpmath.ncdf(a - enough)
        step = mpmath.mpf(1) / 20
        for k in range(-1000, 80):
            distance = mpmath.exp(k * step)
            z = enough - distance
            plain, moved = mpmath.npdf(z), mpmath.npdf(z - a)
            second = needed(c - mpmath.log1p(rate * mpmath.expm1(a * z - a * a / 2)))
            tail, moved_tail = mpmath.ncdf(-second), mpmath.ncdf(a - second)
            without += step * distance * plain * tail
            mixed = (1 - rate) * plain + rate * moved
            with_record += step * distance * mixed * ((1 - rate) * tail + rate * moved_tail)
        return without, with_record


def success_by_inversion(run: DPSGD, prior_success: float) -> float:
    """The success of any attack by inverting a tilted characteristic function.

    With ``M(w) = E_nu exp(w L)`` for the log ratio ``L`` of one step, the tails of the sum over T
    steps are ``P_nu(S > c) = (1 / 2 pi i) int M(w)**T exp(-w c) / w dw`` along any vertical line
    to the right of zero, and for ``mu`` the same with ``w - 1`` in place of ``w`` outside the
    power. The trapezoidal rule converges exponentially along the line through the saddle point.

    ``gamma`` has about ten digits, not certified, for sampling rates below one; nan where two grids
    disagree or the characteristic function decays too slowly, because the record takes part about
    once.
    """
    values = [_inverted(_Line(run, fineness), prior_success) for fineness in (1.0, 1.4)]
    settled = abs(values[0] - values[1]) <= _SETTLED * values[1]
    return values[1] if settled and prior_success <= values[1] <= 1 else math.nan


def _inverted(line: "_Line", prior_success: float) -> float:
    goal = math.log(prior_success)
    tilt = line.tilt(goal)
    mean, spread = line.moments(tilt)
    tilt = max(tilt, 1 / spread)
    first = line.nodes(tilt, tilt)
    if first is None:
        return math.nan

    def excess(level: float) -> float:
        return math.log(max(line.integral(first, tilt, level), 1e-300)) - goal

    low, high = mean - 3 * spread, mean + 3 * spread
    if excess(low) < 0 or excess(high) > 0:
        return math.nan
    level = float(optimize.brentq(excess, low, high, xtol=1e-15, rtol=1e-14))
    if abs(tilt - 1) < 1 / spread:  # away from the pole at one
        tilt = 1 + 1 / spread if tilt >= 1 or spread <= 1 else 1 - 1 / spread
    nodes = line.nodes(tilt, abs(tilt - 1))
    if nodes is None:
        return math.nan
    value = line.integral(nodes, tilt - 1, level)
    return value if tilt > 1 else 1 + value


class _Line:
    """Integrals over the log ratio of one step, by the trapezoidal rule in the noise."""

    def __init__(self, run: DPSGD, fineness: float) -> None:
        a, q = 1 / run.noise_multiplier, run.sampling_rate
        z = np.arange(-11.0, 19.0 + 3 * a, 0.03 * min(1.0, 4 * run.noise_multiplier))
        self.steps, self.fineness = int(run.steps), fineness
        self.loss = np.log1p(q * np.expm1(a * z - a * a / 2))
        self.log_weight = -0.5 * z * z + math.log((z[1] - z[0]) / math.sqrt(2 * math.pi))

    def _tilted(self, tilt: float) -> tuple[float, np.ndarray]:
        """The logarithm of ``M(tilt)``, and the tilted weights."""
        exponent = self.log_weight + tilt * self.loss
        log_sum = float(sc.logsumexp(exponent))
        return log_sum, np.exp(exponent - log_sum)

    def moments(self, tilt: float) -> tuple[float, float]:
        """Mean and standard deviation of the tilted sum."""
        _, weight = self._tilted(tilt)
        mean = float(weight @ self.loss)
        variance = float(weight @ (self.loss - mean) ** 2)
        return self.steps * mean, math.sqrt(self.steps * variance)

    def tilt(self, log_tail: float) -> float:
        """The saddle point at which the normal approximation has this tail."""

        def excess(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            mean, spread = self.moments(tilt)
            x = tilt * spread
            power = self.steps * self._tilted(tilt)[0] - tilt * mean
            return power + 0.5 * x * x + float(sc.log_ndtr(-x)) - log_tail

        low, high = -12.0, 6.0
        return math.exp(optimize.brentq(excess, low, high)) if excess(low) > 0 else math.exp(low)

    def nodes(self, tilt: float, pole: float) -> tuple[np.ndarray, np.ndarray, float] | None:
        """Nodes on the line, the logarithm of the power there, and the nodes' distance."""
        log_sum, weight = self._tilted(tilt)
        distance = 2 * math.pi / (38 / pole + 12 * self.moments(tilt)[1]) / self.fineness
        parts: list[np.ndarray] = []
        for start in range(0, _MOST_NODES, 256):
            u = (np.arange(start, start + 256) + 0.5) * distance
            parts.append(self.steps * np.log(np.exp(1j * np.outer(u, self.loss)) @ weight))
            if parts[-1].real.max() < -36:
                power = np.concatenate(parts) + self.steps * log_sum
                return (np.arange(power.size) + 0.5) * distance, power, distance
        return None

    def integral(
        self, nodes: tuple[np.ndarray, np.ndarray, float], past_pole: float, level: float
    ) -> float:
        """The integral of the power over the distance from the pole, along the nodes' line."""
        u, power, distance = nodes
        terms = np.exp(power - (past_pole + 1j * u) * level) / (past_pole + 1j * u)
        return float(terms.real.sum()) * distance / math.pi


def success_by_library(
    run: DPSGD, prior_success: np.ndarray, grid: float, method: str
) -> np.ndarray:
    """Gamma from dp-accounting's privacy-loss distributions, by its public functions.

    If ``delta(epsilon)`` is an upper bound, gamma is at most ``delta(epsilon) + exp(epsilon)
    kappa`` for every epsilon; this is the least of them over a grid.

    Parameters
    ----------
    run : DPSGD
    prior_success : ndarray, shape (n,)
        ``kappa``.
    grid : float
        The library's discretisation interval.
    method : {"connect-the-dots", "pessimistic", "optimistic"}
        Its dominating pair, or its privacy buckets rounded up or down.
    """
    from dp_accounting.pld import privacy_loss_distribution

    law = privacy_loss_distribution.from_gaussian_mechanism(
        run.noise_multiplier,
        sampling_prob=run.sampling_rate,
        value_discretization_interval=grid,
        use_connect_dots=method == "connect-the-dots",
        pessimistic_estimate=method != "optimistic",
    ).self_compose(int(run.steps))
    _, upper = bounds.rero_curve(run, prior_success)
    # the best epsilon is the log ratio at kappa, which is hardly above log(gamma / kappa)
    most = float(np.max(np.log(upper / prior_success)))
    epsilon = np.linspace(0.0, 2.0 + 1.3 * most, 401)
    delta = np.asarray(law.get_delta_for_epsilon(epsilon))
    return np.min(delta + np.exp(epsilon) * prior_success[:, None], axis=1)
