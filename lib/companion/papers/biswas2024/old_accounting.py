"""Biswas et al. 2024, Section III: divergences of VMF noise, two accountants, Tables I and IV.

Each theorem is tried by a second route: quadrature over the sphere with SciPy's density, samples,
exact composition. The tables are recomputed number by number, under the number of compositions
that reproduces them and under the one that was run, next to certified values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize, stats
from scipy.special import logsumexp

from companion.experiments import federated as federated
from companion.experiments.fair_pairs import middle
from companion.experiments.federated import DELTA, DIMENSION, EPOCHS, SAMPLING_RATE, STEPS
from companion.study import registry
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import STANDARD_ERRORS, check, half_unit, refute, rounded
from reconrisk import DPSGD, Enclosure, bounds, privacy
from reconrisk.mechanisms import sample_vmf

__all__ = ["Accounts", "accounts", "fits", "gaussian_by_renyi", "renyi_of_gaussian"]

KEY = federated.KEY

#: our optimum may lie below a printed number by what a coarse search loses: in the first approach
#: relative, through the epsilon of one full release, in the second absolute
SEARCH = {1: (0.0, 0.04), 2: (0.02, 0.0)}
#: rows that come out only if the divergence is joined by straight lines, which is no bound
SLIPPED = (150.0, 300.0)
#: slack for comparisons of closed forms
ROUNDING = 1e-9
#: orders that Opacus tries
ORDERS = np.concatenate([1.0 + np.arange(1, 100) / 10.0, np.arange(12.0, 64.0)])
#: at what distance from its target Opacus' search for a noise multiplier stops
SEARCHED_TO = 0.01


# The accounts of one concentration ----------------------------------------------------------------


@dataclass(frozen=True)
class Accounts:
    """Epsilon of VMF noise in the paper's setting, counted in every way.

    Attributes
    ----------
    first, second : ConvertedEpsilon
        By the paper's two approaches, at their best free parameters.
    slip : ConvertedEpsilon
        By the second with the divergence joined by straight lines between whole orders.
    certified : Enclosure
    """

    first: privacy.ConvertedEpsilon
    second: privacy.ConvertedEpsilon
    slip: privacy.ConvertedEpsilon
    certified: Enclosure

    @property
    def winner(self) -> int:
        """The approach with the smaller epsilon."""
        return 1 if self.first.epsilon <= self.second.epsilon else 2

    @property
    def best(self) -> float:
        """The smaller epsilon of both approaches."""
        return min(self.first.epsilon, self.second.epsilon)


@functools.lru_cache(maxsize=256)
def accounts(
    concentration: float, steps: int, delta: float = DELTA, dimension: int = DIMENSION
) -> Accounts:
    """All accounts of one concentration, computed once in a process (a tenth of a second)."""
    setting = (concentration, dimension, delta, SAMPLING_RATE, steps)
    return Accounts(
        privacy.vmf_epsilon_by_conversion(*setting),
        privacy.vmf_epsilon_by_renyi(*setting),
        privacy.vmf_epsilon_by_renyi(*setting, interpolation="divergences"),
        privacy.vmf_epsilon(*setting),
    )


def fits(printed: str, ours: float, approach: int) -> bool:
    """Whether a printed epsilon is our optimum, or above it by what a coarse search loses."""
    absolute, relative = SEARCH[approach]
    gap, unit = float(printed) - ours, half_unit(printed)
    return -unit <= gap <= unit + absolute + relative * ours


def _printed_account(concentration: float, steps: int) -> tuple[float, int]:
    """What the paper's procedure gives, its slip in two rows included, and by which approach."""
    found = accounts(concentration, steps)
    second = found.slip.epsilon if concentration in SLIPPED else found.second.epsilon
    return (second, 2) if second < found.first.epsilon else (found.first.epsilon, 1)


def _fits_printed(concentration: float, printed: str, steps: int) -> bool:
    """Whether one of the two approaches gives a printed epsilon.

    Any of them: next to the concentration where they cross a coarse search decides which wins.
    """
    return _fits_second(concentration, printed, steps) or fits(
        printed, accounts(concentration, steps).first.epsilon, 1
    )


def _fits_second(concentration: float, printed: str, steps: int = EPOCHS) -> bool:
    found = accounts(concentration, steps)
    second = found.slip if concentration in SLIPPED else found.second
    return fits(printed, second.epsilon, 2)


# The accounts of one noise multiplier -------------------------------------------------------------


def renyi_of_gaussian(
    noise_multiplier: float, sampling_rate: float, orders: np.ndarray = ORDERS
) -> np.ndarray:
    """Rényi divergence of one Poisson-sampled Gaussian release, record present against absent.

    By the trapezoidal rule, whose error falls like ``exp(-2 pi d/step)`` with the distance ``d`` to
    the next singularity, here ``pi sigma`` off the axis: any order, no series.

    Parameters
    ----------
    noise_multiplier : float
        sigma > 0.
    sampling_rate : float
        q in (0, 1].
    orders : ndarray
        Above one.

    Returns
    -------
    ndarray
        Nats, one for each order.
    """
    a = 1.0 / noise_multiplier
    step = min(0.1, 0.5 * noise_multiplier)
    x = np.arange(-14.0, a * float(np.max(orders)) + 14.0, step)
    full = a * (x - 0.5 * a)
    if sampling_rate == 1.0:
        loss = full
    else:
        loss = np.logaddexp(math.log1p(-sampling_rate), math.log(sampling_rate) + full)
    log_density = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi) + math.log(step)
    out = np.empty(orders.size)
    for i, order in enumerate(orders):
        exponent = order * loss + log_density
        top = float(exponent.max())
        out[i] = (top + math.log(float(np.sum(np.exp(exponent - top))))) / (order - 1.0)
    return out


@functools.lru_cache(maxsize=4096)
def gaussian_by_renyi(noise_multiplier: float, sampling_rate: float, steps: int) -> float:
    """Epsilon of a run at the paper's delta by Rényi divergence, at the best of Opacus' orders."""
    divergence = steps * renyi_of_gaussian(noise_multiplier, sampling_rate)
    return float(np.min(privacy.epsilon_from_renyi(ORDERS, divergence, DELTA)))


@functools.cache
def _searched_noise(epsilon: float) -> float:
    """The noise multiplier that Opacus' search returns for 1,407 steps.

    It halves an interval until the upper end's epsilon is within 0.01 below the target.
    """
    rate = EPOCHS / STEPS  # one batch of an epoch's 469: how Opacus counts
    low, high = 0.0, 20.0
    reached = gaussian_by_renyi(high, rate, STEPS)
    while epsilon - reached > SEARCHED_TO:
        middle_noise = 0.5 * (low + high)
        value = gaussian_by_renyi(middle_noise, rate, STEPS)
        if value < epsilon:
            high, reached = middle_noise, value
        else:
            low = middle_noise
    return high


def _truncated(value: float, decimals: int = 3) -> float:
    return math.floor(value * 10**decimals) / 10**decimals


@functools.lru_cache(maxsize=64)
def _gaussian(noise_multiplier: float, steps: int) -> Enclosure:
    return privacy.epsilon(DPSGD(noise_multiplier, SAMPLING_RATE, steps), DELTA)


def _enclosed(value: Enclosure) -> str:
    """An enclosure as text, to the digits that both ends share (four at most)."""
    return f"{middle(value):.4g}"


# Proposition 1 and Theorem 1 ----------------------------------------------------------------------


@computes(f"{KEY}/prop1", "D-004", "E-D-13")
def proposition1(context: Context) -> Result:
    """The closed form against quadrature over the sphere, and the angle that is worst."""
    p = context.settings
    routes = _two_routes(p.orders, p.angles)
    worst = float((routes["closed form"] / routes["quadrature"] - 1).abs().max())
    large = _latitude_error(p.orders, p.concentrations)
    orders = np.geomspace(1.01, 64.0, p.points)
    by_order = _by_order(orders, p.concentrations)
    by_angle = _by_angle(np.linspace(0.05, math.pi, p.points), p.concentrations)
    rising = _grows_with_angle(p.orders)
    sticks = _hockey_sticks(p.sampling_rate)
    least_rise = float(sticks["least rise"].min())
    counter = _renyi_order_is_not_enough()
    return Result(
        f"{KEY}/prop1",
        [
            check(
                f"{KEY}/prop1",
                worst < 1e-9 and large < 1e-7,
                "the closed form, at any angle, is the divergence by quadrature over the circle "
                "and the sphere with another library's density, and over the latitudes at "
                f"p = {DIMENSION:,}",
                ours=f"{len(routes)} values agree to a relative 1e-9, at p = {DIMENSION:,} to 1e-7",
            ),
            check(
                "D-004",
                rising,
                "at every order the divergence grows with the angle between the centres, so it is "
                "largest at opposite ones",
                ours="orders 0.1 to 64, dimensions 2 to 13,700, 60 angles",
            ),
            refute(
                "E-D-13",
                "that the Rényi divergence grows with the angle makes opposite centres the worst "
                "case for (epsilon, delta)",
                holds=counter["delta of the first"] <= counter["delta of the second"],
                corrected="An order of all Rényi divergences does not order delta. What does is "
                "that every hockey-stick divergence grows with the angle: also on a Poisson "
                "sample, in both directions, and after two releases.",
                corrected_holds=counter["renyi ordered"] > 0 and least_rise > -1e-12,
                ours=f"two laws with every Rényi divergence of the first below the second's, and "
                f"delta(0) = {counter['delta of the first']:.2f} above "
                f"{counter['delta of the second']:.2f}; {len(sticks)} families of hockey-stick "
                "divergences, none of which falls with the angle",
            ),
        ],
        {
            "by order": by_order,
            "by angle": by_angle,
            "two routes": routes,
            "hockey sticks": sticks,
            "curves": pd.concat(
                [by_order["divergence"].round(8), by_angle["divergence"].round(8)],
                ignore_index=True,
            ).to_frame(),
        },
        exact=("curves",),
        ran=f"closed forms at p = {DIMENSION:,}; quadrature on the circle and the sphere at "
        "kappa = 0.7 and 2.5.",
    )


def _on_sphere(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the circle or the sphere, shape (n, p), and their weights, which add to the area.

    Exact for polynomials of degree 100 and more: the densities here are smooth.
    """
    f = np.linspace(-math.pi, math.pi, 257)[:-1]
    around = np.stack([np.cos(f), np.sin(f)], axis=1)
    if dimension == 2:
        return around, np.full(f.size, f[1] - f[0])
    nodes, weights = np.polynomial.legendre.leggauss(64)
    radius = np.sqrt(1 - nodes**2)
    points = np.concatenate(
        [
            np.column_stack([r * around, np.full(f.size, z)])
            for r, z in zip(radius, nodes, strict=True)
        ]
    )
    return points, np.repeat(weights * (f[1] - f[0]), f.size)


def _turned(dimension: int, angle: float) -> np.ndarray:
    """A unit vector at an angle to the first axis."""
    direction = np.zeros(dimension)
    direction[:2] = math.cos(angle), math.sin(angle)
    return direction


def _two_routes(orders: Sequence[float], angles: Sequence[float]) -> pd.DataFrame:
    """Closed form and quadrature in two and three dimensions, SciPy's density in the latter."""
    rows = []
    for dimension, kappa, angle in itertools.product((2, 3), (0.7, 2.5), angles):
        points, weights = _on_sphere(dimension)
        first = stats.vonmises_fisher(_turned(dimension, 0.0), kappa).logpdf(points)
        second = stats.vonmises_fisher(_turned(dimension, angle), kappa).logpdf(points)
        for order in orders:
            closed = float(privacy.vmf_renyi(order, dimension, kappa, angle))
            if order == 1.0:
                value = float(weights @ (np.exp(first) * (first - second)))
            else:
                moment = weights @ np.exp(order * first + (1 - order) * second)
                value = math.log(float(moment)) / (order - 1)
            rows.append((dimension, kappa, angle, order, closed, value))
    columns = ["p", "kappa", "angle", "order", "closed form", "quadrature"]
    return pd.DataFrame(rows, columns=columns)


def _latitudes(
    dimension: int, kappa: float, order: float = 4.0, count: int = 60_000
) -> tuple[np.ndarray, np.ndarray]:
    """Privacy loss of opposite centres at latitudes, and the log-masses without the record.

    A strip of the sphere weighs ``cos**(p - 2)``; only latitudes that matter up to an order are
    kept, whose mean is at most ``2 order kappa/p``.
    """
    width = min(0.5 * math.pi, 2 * order * kappa / dimension + 20.0 / math.sqrt(dimension))
    f = (np.arange(count) + 0.5) * (2 * width / count) - width
    log_weight = (dimension - 2) * np.log(np.cos(f)) - kappa * np.sin(f)
    return 2 * kappa * np.sin(f), log_weight - logsumexp(log_weight)


def _latitude_error(orders: Sequence[float], concentrations: Sequence[float]) -> float:
    """Largest relative distance of the closed form from quadrature at the paper's dimension."""
    worst = 0.0
    for kappa in concentrations:
        loss, log_away = _latitudes(DIMENSION, kappa)
        for order in orders:
            if order == 1.0:
                value = float(np.sum(np.exp(log_away + loss) * loss))
            else:
                value = float(logsumexp(log_away + order * loss)) / (order - 1)
            worst = max(worst, abs(float(privacy.vmf_renyi(order, DIMENSION, kappa)) / value - 1))
    return worst


def _by_order(orders: np.ndarray, concentrations: Sequence[float]) -> pd.DataFrame:
    parts = []
    for kappa in concentrations:
        exact = privacy.vmf_renyi(orders, DIMENSION, kappa)
        gaussian = 2 * orders * kappa**2 / DIMENSION
        parts.append(
            pd.DataFrame(
                {"kappa": kappa, "order": orders, "divergence": exact, "Gaussian": gaussian}
            )
        )
    return pd.concat(parts, ignore_index=True)


def _by_angle(angles: np.ndarray, concentrations: Sequence[float]) -> pd.DataFrame:
    order = 2.0
    return pd.DataFrame(
        {
            "kappa": np.repeat(concentrations, angles.size),
            "angle": np.tile(angles, len(concentrations)),
            "divergence": np.concatenate(
                [privacy.vmf_renyi(order, DIMENSION, kappa, angles) for kappa in concentrations]
            ),
        }
    )


def _grows_with_angle(orders: Sequence[float]) -> bool:
    """Whether the divergence grows from angle to angle at every order, also below one."""
    angle = np.linspace(0.0, math.pi, 61)
    every = np.array(sorted({0.1, 0.5, 0.9, *orders, 64.0}))[:, None, None, None]
    p = np.array([2.0, 3.0, 50.0, DIMENSION])[:, None, None]
    kappa = np.array([0.01, 5.0, 75.0, 500.0])[:, None]
    values = privacy.vmf_renyi(every, p, kappa, angle)
    return bool(np.all(np.diff(values, axis=-1) > 0))


def _hockey_sticks(q: float) -> pd.DataFrame:
    """How every hockey-stick divergence changes from angle to angle, by quadrature.

    One release on all records and on a Poisson sample, with the record present against absent and
    the other way round, and two releases on the circle. A change of a grid's value that is below
    its rounding counts as none.
    """
    angles = np.linspace(0.2, math.pi, 8)
    rows = []
    for dimension, kappa in itertools.product((2, 3), (0.7, 2.5)):
        points, weights = _on_sphere(dimension)
        away = np.exp(stats.vonmises_fisher(_turned(dimension, 0.0), kappa).logpdf(points))
        values: dict[str, list[np.ndarray]] = {}
        levels = np.exp(np.linspace(0.0, 2 * kappa, 9))
        for angle in angles:
            here = np.exp(stats.vonmises_fisher(_turned(dimension, angle), kappa).logpdf(points))
            mixed = (1 - q) * away + q * here
            pairs = {
                "all records": (here, away),
                "sample, removed": (mixed, away),
                "sample, added": (away, mixed),
            }
            for name, (one, other) in pairs.items():
                values.setdefault(name, []).append(_sticks(one, other, weights, levels))
            if dimension == 2:
                one, other, area = (np.outer(v, v).ravel() for v in (mixed, away, weights))
                values.setdefault("two samples", []).append(_sticks(one, other, area, levels))
        for name, curve in values.items():
            rise = np.diff(np.array(curve), axis=0)
            rows.append((dimension, kappa, name, float(rise.min()), float(rise.max())))
    columns = ["p", "kappa", "releases", "least rise", "largest rise"]
    return pd.DataFrame(rows, columns=columns)


def _sticks(
    one: np.ndarray, other: np.ndarray, weights: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """``sup over events of one(E) - level other(E)`` for each level."""
    return np.array([weights @ np.maximum(one - level * other, 0.0) for level in levels])


def _renyi_order_is_not_enough() -> dict[str, float]:
    """Two pairs of laws, ordered by every Rényi divergence and not by delta.

    The first is a coin of bias 0.6 against 0.4. The second shows a coin of bias 0.9 against 0.1 in
    a fifth of all cases, and nothing otherwise.
    """
    orders = np.concatenate([np.linspace(0.01, 0.99, 99), np.linspace(1.01, 200.0, 2000)])

    def divergence(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        terms = orders[:, None] * np.log(one) + (1 - orders[:, None]) * np.log(other)
        return logsumexp(terms, axis=1) / (orders - 1)

    first = np.array([0.6, 0.4]), np.array([0.4, 0.6])
    second = np.array([0.18, 0.02, 0.8]), np.array([0.02, 0.18, 0.8])
    return {
        "renyi ordered": float(np.all(divergence(*first) < divergence(*second))),
        "delta of the first": float(np.maximum(first[0] - first[1], 0).sum()),
        "delta of the second": float(np.maximum(second[0] - second[1], 0).sum()),
    }


@computes(f"{KEY}/thm1", "D-003")
def theorem1(context: Context) -> Result:
    """The divergence over the concentration and over the dimension."""
    p = context.settings
    orders = np.array([0.1, 0.5, *p.orders, 64.0])
    kappa = np.geomspace(1e-3, 1e3, p.grid)
    dimension = np.unique(np.round(np.geomspace(2, 1e7, p.grid)))
    values = privacy.vmf_renyi(orders[:, None, None], dimension[:, None], kappa)
    in_kappa, in_p = np.diff(np.log(values), axis=2), np.diff(np.log(values), axis=1)
    # the largest loss, 2 kappa, is where every divergence goes: no fall beyond its rounding
    holds = bool(in_kappa.min() > 0) and bool(in_p.max() < 0)
    next_p = privacy.vmf_renyi(orders, DIMENSION + 1, 75.0) / privacy.vmf_renyi(
        orders, DIMENSION, 75.0
    )
    above = orders > 1
    slope = _slope_error(orders[above])
    concentration = np.linspace(5.0, 500.0, p.points)
    curves = pd.concat(
        [
            pd.DataFrame(
                {
                    "over": name,
                    "order": order,
                    "at": at,
                    "divergence": privacy.vmf_renyi(order, dims, concentrations),
                }
            )
            for order in p.orders
            for name, at, dims, concentrations in (
                ("concentration", concentration, DIMENSION, concentration),
                ("dimension", dimension, dimension, 75.0),
            )
        ],
        ignore_index=True,
    )
    return Result(
        f"{KEY}/thm1",
        [
            check(
                f"{KEY}/thm1",
                holds and bool(np.all(next_p < 1)) and slope < 1e-6,
                "the divergence increases with the concentration and decreases with the "
                "dimension; not only at orders above one, which the proof is for",
                ours=f"{values.size:,} values, orders {orders.min():g} to {orders.max():g}; the "
                "slope in the concentration, by differences, is the proof's ratio of Bessel "
                "functions",
            ),
            check(
                "D-003",
                holds,
                "the divergence rises with kappa at every p, and falls with p at every kappa",
                ours=f"kappa from 0.001 to 1,000, p from 2 to ten million: from p = {DIMENSION:,} "
                f"to the next it falls by {1 - float(next_p[above].max()):.1e} of itself or more",
            ),
        ],
        {"curves": curves.round(9)},
        exact=("curves",),
        ran="closed forms only.",
    )


def _slope_error(orders: np.ndarray) -> float:
    """Largest relative distance of ``dD/dkappa`` from ``(r A_p(r kappa) - A_p(kappa))/(a - 1)``."""
    worst = 0.0
    for dimension, kappa in ((3, 1.5), (50, 20.0), (DIMENSION, 75.0)):
        r = 2 * orders - 1
        mean = [privacy.vmf_mean_cosine(dimension, kappa * t) for t in (r, 1.0)]
        exact = (r * mean[0] - mean[1]) / (orders - 1)
        step = 1e-4 * kappa
        ends = [privacy.vmf_renyi(orders, dimension, kappa + s * step) for s in (1, -1)]
        worst = max(worst, float(np.max(np.abs((ends[0] - ends[1]) / (2 * step * exact) - 1))))
    return worst


# Propositions 2 and 3 -----------------------------------------------------------------------------


@computes(f"{KEY}/prop2")
def proposition2(context: Context) -> Result:
    """Independent blocks: the sum, by quadrature and by sampling."""
    p = context.settings
    blocks = [(2, 1.0), (3, 0.8), (2, 2.0)]
    dims, kappas = (np.array(column) for column in zip(*blocks, strict=True))
    by_quadrature = {
        order: _joint_by_quadrature(blocks[:2], order) for order in p.orders if order != 1.0
    }
    worst = max(
        abs(value / float(privacy.vmf_renyi_blocks(order, dims[:2], kappas[:2])) - 1)
        for order, value in by_quadrature.items()
    )
    rows = []
    for order in p.sampled_orders:
        exact = float(privacy.vmf_renyi_blocks(order, dims, kappas))
        rng = context.rng("blocks", order)
        # one coordinate of each block: the loss of opposite centres is twice kappa times it
        loss = sum(
            2 * kappa * sample_vmf(np.eye(int(d))[0], float(kappa), rng, p.samples)[:, 0]
            for d, kappa in blocks
        )
        weight = np.exp((order - 1) * loss)
        mean, error = float(weight.mean()), float(weight.std(ddof=1)) / math.sqrt(weight.size)
        rows.append((order, exact, math.log(mean) / (order - 1), error / mean / (order - 1)))
    table = pd.DataFrame(rows, columns=["order", "sum", "sampled", "standard error"])
    off = float(((table["sampled"] - table["sum"]) / table["standard error"]).abs().max())
    return Result(
        f"{KEY}/prop2",
        [
            check(
                f"{KEY}/prop2",
                worst < 1e-9 and off < STANDARD_ERRORS,
                "the divergence of independent blocks is the sum of the blocks' divergences: by "
                "quadrature over the circle times the sphere, and by samples of three blocks",
                ours=f"quadrature agrees to a relative 1e-9; {p.samples:,} samples at "
                f"{len(table)} orders within {STANDARD_ERRORS:g} standard errors",
                tolerance=f"{STANDARD_ERRORS:g} standard errors",
            )
        ],
        {
            "blocks": table,
            "divergence of three blocks": pd.DataFrame(
                {
                    "order": table["order"],
                    "sum of the blocks": [f"{v:.4f}" for v in table["sum"]],
                    "sampled": [
                        rounded(v, e)
                        for v, e in zip(table["sampled"], table["standard error"], strict=True)
                    ],
                }
            ),
        },
        shown=("divergence of three blocks",),
        ran="blocks of 2, 3 and 2 dimensions at kappa = 1, 0.8 and 2.",
    )


def _joint_by_quadrature(blocks: Sequence[tuple[int, float]], order: float) -> float:
    """Divergence of two independent blocks from the grid of all pairs of their points."""
    logs, weights = [], []
    for dimension, kappa in blocks:
        points, weight = _on_sphere(dimension)
        axis = _turned(dimension, 0.0)
        one, other = (stats.vonmises_fisher(s * axis, kappa).logpdf(points) for s in (1, -1))
        logs.append(order * one + (1 - order) * other)
        weights.append(weight)
    total = 0.0
    for exponent, weight in zip(logs[0], weights[0], strict=True):
        total += weight * float(weights[1] @ np.exp(exponent + logs[1]))
    return math.log(total) / (order - 1)


#: ways to cut the gradient: the network's layers, halves, many small blocks, circles
_CUTS = {
    "the three layers": (12_800, 750, 150),
    "two halves": (6_850, 6_850),
    "100 blocks": (137,) * 100,
    "6,850 circles": (2,) * 6_850,
}


@computes(f"{KEY}/prop3", "D-005", "E-D-12")
def proposition3(context: Context) -> Result:
    """One vector against blocks, at equal concentrations and at equal angular noise."""
    p = context.settings
    rows = []
    for kappa, (name, cut), order in itertools.product(p.concentrations, _CUTS.items(), p.orders):
        sizes = np.array(cut)
        one = float(privacy.vmf_renyi(order, DIMENSION, kappa))
        cosine = privacy.vmf_mean_cosine(DIMENSION, kappa)
        ways = {
            "equal kappa": np.full(sizes.size, kappa),
            "kappa by size": kappa * sizes / DIMENSION,
            "equal cosine": privacy.vmf_concentration(sizes, cosine),
        }
        ratios = {
            way: float(privacy.vmf_renyi_blocks(order, sizes, each)) / one
            for way, each in ways.items()
        }
        rows.append({"kappa": kappa, "cut": name, "order": order, "one vector": one, **ratios})
    table = pd.DataFrame(rows)
    holds = bool((table["equal kappa"] > 1).all())
    few = table[table["cut"].isin(["the three layers", "two halves", "100 blocks"])]
    tie = float((few[["kappa by size", "equal cosine"]] - 1).abs().max().max())
    smallest = table.loc[table["equal cosine"].idxmin()]
    less = 1 - float(smallest["equal cosine"])
    first = table[table["cut"] == "the three layers"]
    layers = f"{first['equal kappa'].min():.0f} to {first['equal kappa'].max():.0f} times as much"
    return Result(
        f"{KEY}/prop3",
        [
            check(
                f"{KEY}/prop3",
                holds,
                "with one concentration for every block, a single vector has the least divergence",
                ours=f"{len(table)} cases; the three layers leak {layers}",
            ),
            check(
                "D-005",
                holds,
                "flattening the gradient minimises the divergence compared with a VMF of the same "
                "concentration for every layer; each layer alone exceeds it already",
                ours=f"the three layers: {layers}",
            ),
            refute(
                "E-D-12",
                "one vector has the least divergence of all ways to cut the gradient",
                holds=less <= 0,
                corrected="Only at one concentration for every block, which leaves small blocks "
                "almost without noise. At the same angular noise in every block all cuts agree to "
                "first order, and at order one every cut has less than the single vector.",
                corrected_holds=tie < 2e-3
                and bool((table[table["order"] == 1.0]["equal cosine"] < 1).all()),
                ours=f"at equal mean cosine within {tie:.0e} of the single vector for up to 100 "
                f"blocks; {smallest['cut']} at kappa = {smallest['kappa']:g}: {less:.1e} less",
            ),
        ],
        {
            "ratios": table,
            "divergence of a cut gradient over that of one vector": _shown_cuts(table),
        },
        exact=("ratios",),
        shown=("divergence of a cut gradient over that of one vector",),
        ran="closed forms only.",
    )


def _shown_cuts(table: pd.DataFrame) -> pd.DataFrame:
    shown = table.drop(columns="one vector").copy()
    shown["equal kappa"] = [f"{v:.4g}" for v in table["equal kappa"]]
    for way in ("kappa by size", "equal cosine"):
        shown[way] = [f"1 {'+' if v > 1 else '-'} {abs(v - 1):.0e}" for v in table[way]]
    return shown


# Proposition 4, Theorems 2 and 3 ------------------------------------------------------------------


@computes(f"{KEY}/prop4")
def proposition4(context: Context) -> Result:
    """The conversion: where it comes from, that it holds, its best order."""
    p = context.settings
    source = max(_conversion_error(order) for order in (1.1, 1.5, 2.0, 7.0, 40.0))
    rows = []
    for kappa in p.concentrations:
        loss, log_away = _latitudes(DIMENSION, kappa)
        for delta in p.deltas:
            found = privacy.vmf_epsilon_converted(kappa, DIMENSION, delta)
            exact = _exact_epsilon(loss, log_away, delta)
            a = found.order
            mean = float(privacy.vmf_mean_cosine(DIMENSION, (2 * a - 1) * kappa))
            condition = 2 * kappa * mean + math.log1p(-1 / a) - found.epsilon
            rows.append((kappa, delta, a, found.epsilon, exact, condition))
    table = pd.DataFrame(
        rows, columns=["kappa", "delta", "best order", "converted", "exact", "condition"]
    )
    order = 1 + np.geomspace(1e-2, 100.0, 2001)
    convex = all(_is_convex(order, kappa, epsilon) for kappa in (25.0, 300.0) for epsilon in (1, 9))
    above = bool((table["converted"] > table["exact"]).all())
    return Result(
        f"{KEY}/prop4",
        [
            check(
                f"{KEY}/prop4",
                source < 1e-9 and above and float(table["condition"].abs().max()) < 1e-6 and convex,
                "the formula is the best bound on (1 - exp(epsilon - loss))+ by one power of the "
                "likelihood ratio, its epsilon is never below the exact one, log delta is convex "
                "in the order, and best where epsilon = 2 kappa A_p((2a - 1) kappa) + log(1 - 1/a)",
                ours=f"{len(table)} settings at q = 1, T = 1: above the exact epsilon by "
                f"{float((table['converted'] / table['exact'] - 1).min()):.1%} to "
                f"{float((table['converted'] / table['exact'] - 1).max()):.1%}",
            )
        ],
        {
            "conversions": table.drop(columns="condition"),
            "epsilon of one release": table.drop(columns="condition").assign(
                delta=[f"{v:.3g}" for v in table["delta"]],
                **{
                    name: [f"{v:.4f}" for v in table[name]]
                    for name in ("best order", "converted", "exact")
                },
            ),
        },
        exact=("conversions",),
        shown=("epsilon of one release",),
        ran=f"closed form against quadrature over the latitudes at p = {DIMENSION:,}.",
    )


def _conversion_error(order: float) -> float:
    """How far the formula's constant is from the supremum that it is meant to be."""
    epsilon = 0.7

    def lost(z: float) -> float:
        return math.expm1(epsilon - z) * math.exp(-(order - 1) * z)

    found = optimize.minimize_scalar(
        lost, bounds=(epsilon, epsilon + 40 / (order - 1)), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    # at a divergence of zero the formula is the constant itself
    closed = float(privacy.log_delta_from_renyi(order, 0.0, epsilon))
    return abs(math.log(-float(found.fun)) - closed)


def _exact_epsilon(loss: np.ndarray, log_away: np.ndarray, delta: float) -> float:
    """Epsilon at ``delta`` of one full release, by quadrature and root finding."""

    def excess(epsilon: float) -> float:
        shown = loss > epsilon
        gap = -np.expm1(epsilon - loss[shown])
        return float(np.sum(np.exp((log_away + loss)[shown]) * gap)) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, float(loss.max()), xtol=1e-12))


def _is_convex(order: np.ndarray, kappa: float, epsilon: float) -> bool:
    """Whether the unclipped ``log delta`` lies below its chords on a grid of orders."""
    gap = order - 1
    renyi = privacy.vmf_renyi(order, DIMENSION, kappa)
    log_delta = gap * (renyi - epsilon) + gap * np.log(gap) - order * np.log(order)
    slope = np.diff(log_delta) / np.diff(order)
    return bool(np.all(np.diff(slope) > 0))


@computes(f"{KEY}/thm2")
def theorem2(context: Context) -> Result:
    """The composition bound against the exact composition of the least private mechanism."""
    p = context.settings
    rows = []
    for epsilon, delta, steps, slack in itertools.product(p.epsilons, p.deltas, p.steps, p.slacks):
        bound, total = privacy.compose(epsilon, delta, steps, slack)
        # what is exact at the epsilon that the theorem names
        exact = _composed_delta(epsilon, delta, steps, float(bound))
        plain = math.isclose(float(bound), steps * epsilon)
        rows.append((epsilon, delta, steps, slack, float(bound), float(total), exact, plain))
    columns = ["epsilon", "delta", "T", "slack", "bound", "delta of the bound", "exact", "plain"]
    table = pd.DataFrame(rows, columns=columns)
    room = table["delta of the bound"] - table["exact"]
    holds = bool((room > -1e-12).all())
    # with the slack away, and the delta it was spent on, exact at the plain sum
    sums = table[table["slack"] == 0.0]
    tight = float((sums["delta of the bound"] - sums["exact"]).abs().max())
    three = bool(table[table["T"] == 3]["plain"].all())
    many = table[(table["T"] == max(p.steps)) & (table["slack"] > 0)]
    helps = bool((~many["plain"]).any())
    return Result(
        f"{KEY}/thm2",
        [
            check(
                f"{KEY}/thm2",
                holds and three and helps and tight < 1e-12,
                "at the epsilon of the theorem, the exact delta of T runs of the least private "
                "mechanism is at most the theorem's; at T = 3 the plain sum is always the smallest "
                "of the three forms",
                ours=f"{len(table)} settings; without slack both are equal; at T = {max(p.steps)} "
                "the other forms are smaller",
            )
        ],
        {"compositions": table},
        exact=("compositions",),
        ran="randomised response that also fails with probability delta, composed by enumerating "
        "the number of answers of one kind.",
    )


def _composed_delta(epsilon: float, delta: float, steps: int, at: float) -> float:
    """Exact delta at an epsilon of T runs of the mechanism that every other one follows from.

    It shows the record with probability delta, and otherwise answers truly with probability
    ``e**epsilon/(1 + e**epsilon)``.
    """
    count = np.arange(steps + 1)
    log_true = -math.log1p(math.exp(-epsilon))
    log_false = -epsilon + log_true
    own = stats.binom.logpmf(count, steps, math.exp(log_true))
    other = stats.binom.logpmf(count, steps, math.exp(log_false))
    # a loss that equals the level up to rounding adds nothing
    gap = np.where(own - other > at + 1e-12, -np.expm1(np.minimum(other - own + at, 0.0)), 0.0)
    seen = float(np.sum(np.exp(own) * gap))
    return 1 - (1 - delta) ** steps * (1 - seen)


@computes(f"{KEY}/thm3", "E-D-14")
def theorem3(context: Context) -> Result:
    """The sub-sampled divergence: factor three, factor one, and the exact one both ways."""
    p = context.settings
    settings = [
        (3, 1.0, 0.3),
        (30, 4.0, 0.05),
        *((DIMENSION, k, SAMPLING_RATE) for k in p.concentrations),
    ]
    rows = []
    for dimension, kappa, q in settings:
        loss, log_away = _latitudes(dimension, kappa, p.largest_order)
        sampled = np.logaddexp(math.log1p(-q), math.log(q) + loss)
        three, one = (
            privacy.vmf_renyi_sampled(p.largest_order, kappa, dimension, q, factor)
            for factor in (3.0, 1.0)
        )
        for order in range(2, p.largest_order + 1):
            removed = float(logsumexp(log_away + order * sampled)) / (order - 1)
            added = float(logsumexp(log_away + (1 - order) * sampled)) / (order - 1)
            rows.append(
                (dimension, kappa, q, order, three[order - 1], one[order - 1], removed, added)
            )
    columns = ["p", "kappa", "q", "order", "factor 3", "factor 1", "removed", "added"]
    table = pd.DataFrame(rows, columns=columns)
    # small divergences are sums that cancel to about 1e-12 of one
    error = float(((table["factor 1"] - table["removed"]).abs() / (table["removed"] + 1e-6)).max())
    exact = error < 1e-5 and bool((table["added"] <= table["removed"] * (1 + 1e-5) + 1e-11).all())
    bound = bool((table["factor 3"] >= table["removed"] * (1 - 1e-6) - 1e-11).all())
    second = table[table["order"] == 2]
    equal = bool(np.allclose(second["factor 3"], second["factor 1"], rtol=1e-12))
    at_one = {
        kappa: privacy.vmf_renyi_sampled(2, kappa, DIMENSION, SAMPLING_RATE)
        for kappa in p.concentrations
    }
    excess = {kappa: values for kappa, values in at_one.items() if values[0] > values[1]}
    needed = bool(
        (table["factor 1"] < table[["removed", "added"]].max(axis=1) * (1 - 1e-5) - 1e-11).any()
    )
    loose = float((table["factor 3"] / table["factor 1"])[table["order"] > 2].max())
    example = max(excess, default=p.concentrations[0])
    cost = [
        privacy.vmf_epsilon_by_renyi(
            100.0, DIMENSION, DELTA, SAMPLING_RATE, EPOCHS, factor=f
        ).epsilon
        for f in (3.0, 1.0)
    ]
    return Result(
        f"{KEY}/thm3",
        [
            check(
                f"{KEY}/thm3",
                bound and equal,
                "at whole orders from two on the theorem's sum is never below the divergence of a "
                "Poisson-sampled release by quadrature, in either direction",
                ours=f"{len(table)} values; at most {loose:.2f} times the exact one beyond order "
                "two",
            ),
            refute(
                "E-D-14",
                "from order three on the moments must count three-fold, and q KL serves at order "
                "one",
                holds=needed or not excess,
                corrected="For VMF noise the sum with factor one is the exact divergence of a "
                "removed record, and an added one has no more. At order one q KL can exceed the "
                "value at order two, though divergences grow with the order.",
                corrected_holds=exact and bool(excess),
                ours=f"Table I's kappa = 100: {cost[1]:.3f} instead of {cost[0]:.3f}; kappa = "
                f"{example:g}: {at_one[example][0]:.4f} at order one, {at_one[example][1]:.4f} at "
                "order two",
            ),
        ],
        {"divergences": table, "factors": table[["factor 3", "factor 1"]]},
        exact=("factors",),
        ran="sums against quadrature over the latitudes.",
    )


# The two approaches ------------------------------------------------------------------------------


@computes(f"{KEY}/alg_accounting1", "E-D-03")
def approach1(context: Context) -> Result:
    """Convert, amplify, compose: every intermediate value, and the rows that it wins."""
    p = context.settings
    rows = []
    for kappa in p.concentrations:
        found = accounts(kappa, EPOCHS).first
        share = -math.expm1(math.log1p(-DELTA) / EPOCHS)
        one = privacy.vmf_epsilon_converted(kappa, DIMENSION, share / SAMPLING_RATE)
        sampled = float(privacy.amplify(one.epsilon, 0.0, SAMPLING_RATE)[0])
        by_hand = EPOCHS * math.log1p(SAMPLING_RATE * math.expm1(one.epsilon))
        rows.append((kappa, one.order, one.epsilon, sampled, found.epsilon, by_hand, found.slack))
    table = pd.DataFrame(
        rows, columns=["kappa", "order", "one release", "sampled", "epsilon", "by hand", "slack"]
    )
    same = float((table["epsilon"] / table["by hand"] - 1).abs().max())
    printed = _printed_epsilons()
    won = [
        (kappa, text)
        for kappa, text in printed.items()
        if fits(text, accounts(kappa, EPOCHS).first.epsilon, 1)
    ]
    at = accounts(100.0, EPOCHS)
    table1 = _table1()
    claimed = int(table1.loc[table1["kappa"] == 100.0, "printed approach"].iloc[0])
    return Result(
        f"{KEY}/alg_accounting1",
        [
            check(
                f"{KEY}/alg_accounting1",
                same < 1e-9 and bool((table["slack"] == 0).all()) and len(won) >= 4,
                "written out step by step the first approach is T log(1 + q (exp(eps0) - 1)) at "
                "three compositions, where nothing of delta is best left to the composition",
                ours=f"kappa = {', '.join(f'{k:g}' for k, _ in won)} as printed, to within the "
                f"{SEARCH[1][1]:.0%} that a coarse search loses",
            ),
            refute(
                "E-D-03",
                "at kappa = 100 the second approach is the better one",
                holds=claimed != 2 or at.second.epsilon < at.first.epsilon,
                corrected="At its best order the first approach gives less there.",
                corrected_holds=claimed == 2 and at.first.epsilon < at.second.epsilon,
                ours=f"{at.first.epsilon:.3f} by the first, {at.second.epsilon:.3f} by the second",
                paper=f"approach {claimed}, 2.5 (2.48 in Table IV)",
            ),
        ],
        {
            "steps": table.drop(columns=["by hand", "slack"]),
            "the first approach, step by step": table.drop(columns=["by hand", "slack"]).assign(
                **{
                    name: [f"{v:.5g}" for v in table[name]]
                    for name in ("order", "one release", "sampled", "epsilon")
                }
            ),
        },
        exact=("steps",),
        shown=("the first approach, step by step",),
        ran=f"p = {DIMENSION:,}, q = 128/60,000, delta = 1/60,000, T = {EPOCHS}.",
    )


@computes(f"{KEY}/alg_accounting2", "D-006")
def approach2(context: Context) -> Result:
    """Both approaches over the concentration, and where they cross."""
    p = context.settings
    kappa = np.linspace(p.least_concentration, p.most_concentration, p.points)
    curves = pd.DataFrame(
        [
            (
                k,
                privacy.vmf_epsilon_by_conversion(k, *_SETTING, EPOCHS).epsilon,
                privacy.vmf_epsilon_by_renyi(k, *_SETTING, EPOCHS).epsilon,
            )
            for k in kappa
        ],
        columns=["kappa", "approach 1", "approach 2"],
    )
    crossings = _crossings(curves)
    printed = _printed_epsilons()
    second = [k for k, text in printed.items() if _fits_second(k, text)]
    first = [k for k, text in printed.items() if fits(text, accounts(k, EPOCHS).first.epsilon, 1)]
    table1 = _table1()
    winners = [accounts(k, EPOCHS).winner for k in table1["kappa"]]
    agree = sum(w == a for w, a in zip(winners, table1["printed approach"], strict=True))
    return Result(
        f"{KEY}/alg_accounting2",
        [
            check(
                f"{KEY}/alg_accounting2",
                set(first) | set(second) == set(printed) and len(second) > len(first),
                "the second approach, at three compositions, gives every printed epsilon that the "
                "first does not; two of them with the slip of E-D-02",
                ours=f"{len(second)} of {len(printed)}, at most {SEARCH[2][0]:g} and half a unit "
                f"below what is printed; the first gives {len(first)}",
                paper=f"{len(printed)} concentrations in Tables I and IV",
            ),
            check(
                "D-006",
                len(crossings) == 2
                and 75 < crossings[0] < 125
                and crossings[1] > 300
                and agree == len(winners) - 1,
                "neither approach is always the better one: the first is for small "
                "concentrations, the second beyond; and the first again for the largest",
                ours=f"they cross at kappa = {crossings[0]:.0f} and {crossings[-1]:.0f}; "
                f"{agree} of {len(winners)} winners as printed, all but kappa = 100",
                paper="approach 1 for 25 to 75, approach 2 for 100 to 300",
            ),
        ],
        {"curves": curves, "printed": _printed_marks()},
        exact=("curves",),
        ran=f"p = {DIMENSION:,}, q = 128/60,000, delta = 1/60,000, T = {EPOCHS}.",
    )


#: p, delta and q of the paper, in the order of the accountants' arguments
_SETTING = (DIMENSION, DELTA, SAMPLING_RATE)


def _crossings(curves: pd.DataFrame) -> list[float]:
    """Concentrations at which the better approach changes, refined by root finding."""

    def gap(kappa: float) -> float:
        first = privacy.vmf_epsilon_by_conversion(kappa, *_SETTING, EPOCHS).epsilon
        return first - privacy.vmf_epsilon_by_renyi(kappa, *_SETTING, EPOCHS).epsilon

    sign = np.sign(curves["approach 1"] - curves["approach 2"]).to_numpy()
    kappa = curves["kappa"].to_numpy()
    return [
        float(optimize.brentq(gap, kappa[i], kappa[i + 1], xtol=1e-6))
        for i in np.flatnonzero(sign[1:] != sign[:-1])
    ]


# Tables I and IV ----------------------------------------------------------------------------------


@functools.cache
def _table1() -> pd.DataFrame:
    """Table I as printed: kappa, epsilon as text, approach."""
    rows = registry.printed(f"{KEY}/table1")
    epsilon = rows[rows["metric"] == "epsilon"]
    approach = rows[rows["metric"] == "best_approach"]
    return pd.DataFrame(
        {
            "kappa": epsilon["kappa_vmf"].astype(float).to_numpy(),
            "printed": epsilon["printed"].astype(str).to_numpy(),
            "printed approach": approach["value"].astype(float).astype(int).to_numpy(),
        }
    )


@functools.cache
def _table4_text() -> pd.DataFrame:
    """Table IV as printed: kappa, and epsilon and sigma as text."""
    rows = registry.printed(f"{KEY}/table4")
    wide = rows.assign(kappa=rows["kappa_vmf"].astype(float)).pivot(
        index="kappa", columns="metric", values="printed"
    )
    return wide.astype(str).sort_index().reset_index()


@functools.cache
def _printed_epsilons() -> dict[float, str]:
    """Every printed epsilon by concentration, with the most digits that either table has."""
    table1, table4 = _table1(), _table4_text()
    both = dict(zip(table1["kappa"], table1["printed"], strict=True))
    both.update(zip(table4["kappa"], table4["epsilon"], strict=True))
    return dict(sorted(both.items()))


def _printed_marks() -> pd.DataFrame:
    """Printed epsilons as marks of a picture, by the approach that the paper names or that fits."""
    named = dict(zip(_table1()["kappa"], _table1()["printed approach"], strict=True))
    rows = [
        (
            kappa,
            float(text),
            named.get(kappa, _printed_account(kappa, EPOCHS)[1]),
            accounts(kappa, EPOCHS).best,
        )
        for kappa, text in _printed_epsilons().items()
    ]
    return pd.DataFrame(rows, columns=["kappa", "printed", "approach", "best"])


@computes(f"{KEY}/table1", "D-007", "D-008", "E-D-02")
def table1(context: Context) -> Result:
    """Every printed number, by both approaches, with the slip and certified."""
    del context
    printed = _table1()
    rows = []
    for kappa, text, approach in printed.itertuples(index=False):
        found = accounts(kappa, EPOCHS)
        rows.append(
            {
                "kappa": kappa,
                "printed": text,
                "printed by": approach,
                "approach 1": found.first.epsilon,
                "approach 2": found.second.epsilon,
                "straight lines": found.slip.epsilon,
                "wins": found.winner,
                "certified": middle(found.certified),
                "fits": _fits_printed(kappa, text, EPOCHS),
            }
        )
    table = pd.DataFrame(rows)
    bounded = [
        fits(text, found.second.epsilon, 2) or fits(text, found.first.epsilon, 1)
        for text, found in zip(
            table["printed"], (accounts(k, EPOCHS) for k in table["kappa"]), strict=True
        )
    ]
    slipped = table[[not b for b in bounded]]
    alternatives = _other_settings(printed)
    gaps = "; ".join(
        f"kappa = {row['kappa']:g}: {row['straight lines']:.3f} by straight lines, "
        f"{row['approach 2']:.3f} as a bound"
        for _, row in slipped.iterrows()
    )
    shown = table.assign(
        certified=[f"{v:.4g}" for v in table["certified"]],
        **{
            name: [f"{v:.4f}" for v in table[name]]
            for name in ("approach 1", "approach 2", "straight lines")
        },
    ).drop(columns="fits")
    all_fit = bool(table["fits"].all())
    statement = (
        "every printed epsilon comes out at T = 3 compositions, q = 128/60,000, delta = 1/60,000 "
        "and p = 13,700, the printed one never below the optimum of its approach"
    )
    tolerance = (
        f"half a unit, and above the optimum up to {SEARCH[1][1]:.0%} in approach 1 and "
        f"{SEARCH[2][0]:g} in approach 2, for their search"
    )
    return Result(
        f"{KEY}/table1",
        [
            check(
                f"{KEY}/table1",
                all_fit,
                statement,
                ours=f"{int(table['fits'].sum())} of {len(table)}, two of them only by the slip "
                "of E-D-02",
                tolerance=tolerance,
            ),
            check(
                "D-007",
                all_fit and max(alternatives.values()) < len(table),
                "delta is the inverse of the number of records and p the size of the gradient: "
                "other choices do not give the table",
                ours=f"{int(table['fits'].sum())} of {len(table)}; "
                + ", ".join(f"{name}: {count}" for name, count in alternatives.items()),
            ),
            check(
                "D-008",
                all_fit,
                statement,
                ours=", ".join(f"{_printed_account(k, EPOCHS)[0]:.4g}" for k in table["kappa"]),
                paper=", ".join(table["printed"]),
                tolerance=tolerance,
            ),
            refute(
                "E-D-02",
                "at kappa = 150 and 300 the second approach gives 7.97 and 41.02",
                holds=slipped.empty,
                corrected="Those are the divergence joined by straight lines, which is no bound. "
                "Its product with alpha - 1 is convex and may be joined (Corollary 10 of the cited "
                "work): 8.18 and 51.36.",
                corrected_holds=tuple(slipped["kappa"]) == SLIPPED
                and bool(slipped["fits"].all())
                and np.allclose(slipped["approach 2"], [8.18, 51.36], atol=5e-3)
                and _chord_error() > 0,
                ours=gaps + f"; at kappa = 500 and order 1.5 the straight line lies "
                f"{_chord_error():.1f} below the exact divergence",
            ),
        ],
        {
            "table": table.drop(columns=["fits", "certified"]),
            "epsilon, recomputed": shown,
        },
        exact=("table",),
        shown=("epsilon, recomputed",),
        ran=f"closed forms at their best free parameters; certified: {len(table)} enclosures.",
    )


def _other_settings(printed: pd.DataFrame) -> dict[str, int]:
    """How many of Table I's numbers other settings give."""

    def count(steps: int, delta: float = DELTA, dimension: int = DIMENSION) -> int:
        number = 0
        for kappa, text, _ in printed.itertuples(index=False):
            setting = (kappa, dimension, delta, SAMPLING_RATE, steps)
            first = privacy.vmf_epsilon_by_conversion(*setting).epsilon
            rule = "divergences" if kappa in SLIPPED else "moments"
            second = privacy.vmf_epsilon_by_renyi(*setting, interpolation=rule).epsilon
            number += fits(text, first, 1) or fits(text, second, 2)
        return number

    return {
        "delta = 1e-5": count(EPOCHS, delta=1e-5),
        "p = 12,800 (one layer)": count(EPOCHS, dimension=12_800),
        "p = 13,785 (with biases)": count(EPOCHS, dimension=13_785),
        f"T = {STEPS:,}": count(STEPS),
    }


@functools.cache
def _chord_error() -> float:
    """How far straight lines between whole orders lie below the exact divergence somewhere."""
    kappa, order = 500.0, 1.5
    values = privacy.vmf_renyi_sampled(2, kappa, DIMENSION, SAMPLING_RATE)
    loss, log_away = _latitudes(DIMENSION, kappa)
    sampled = np.logaddexp(math.log1p(-SAMPLING_RATE), math.log(SAMPLING_RATE) + loss)
    exact = float(logsumexp(log_away + order * sampled)) / (order - 1)
    return exact - 0.5 * float(values[0] + values[1])


@functools.cache
def _columns_of_table4() -> pd.DataFrame:
    """Table IV and every account of it, by the number of compositions."""
    rate = EPOCHS / STEPS
    rows = []
    for kappa, epsilon, sigma in _table4_text()[["kappa", "epsilon", "sigma_gauss"]].itertuples(
        index=False
    ):
        noise = float(sigma)
        row: dict[str, object] = {"epsilon": epsilon, "kappa": kappa, "sigma": sigma}
        for steps in (EPOCHS, STEPS):
            found = accounts(kappa, steps)
            row |= {
                # the slip belongs to the numbers that are printed, and is no bound
                f"VMF, T = {steps}": _printed_account(kappa, steps)[0]
                if steps == EPOCHS
                else found.best,
                f"VMF certified, T = {steps}": middle(found.certified),
                f"VMF from, T = {steps}": found.certified.lower,
                f"Gaussian, T = {steps}": gaussian_by_renyi(noise, rate, steps),
                f"Gaussian certified, T = {steps}": middle(_gaussian(noise, steps)),
                f"Gaussian to, T = {steps}": _gaussian(noise, steps).upper,
                f"VMF fits, T = {steps}": _fits_printed(kappa, epsilon, steps),
            }
        row["searched sigma"] = _searched_noise(float(epsilon))
        # three layers that are each clipped to 1 move a sum by up to sqrt(3)
        by_layer = _gaussian(noise / math.sqrt(3.0), STEPS)
        row["Gaussian certified by layer"] = middle(by_layer)
        row["Gaussian from, by layer"] = by_layer.lower
        row["VMF to, T = 1407"] = accounts(kappa, STEPS).certified.upper
        rows.append(row)
    return pd.DataFrame(rows)


@computes(f"{KEY}/table4", "D-001", "D-009", "D-010", "E-D-01", "E-D-04")
def table4(context: Context) -> Result:
    """Both readings of every column, each mechanism at 3 and at 1,407 compositions."""
    del context
    table = _columns_of_table4()
    target = table["epsilon"].astype(float)
    vmf = {steps: int(table[f"VMF fits, T = {steps}"].sum()) for steps in (EPOCHS, STEPS)}
    truncated = [_truncated(s) for s in table["searched sigma"]]
    cut = [
        math.isclose(found, float(text), abs_tol=1e-9)
        for found, text in zip(truncated, table["sigma"], strict=True)
    ]
    # at its own orders and 1,407 steps the printed noise costs the printed epsilon, or the little
    # more that cutting its digits off adds
    excess = {t: table[f"Gaussian, T = {t}"] - target for t in (EPOCHS, STEPS)}
    gaussian = {t: int(((e > -SEARCHED_TO) & (e < 0.05 * target)).sum()) for t, e in excess.items()}
    rows = len(table)
    mixed = vmf[EPOCHS] == rows and gaussian[STEPS] == rows
    never = vmf[STEPS] == 0 and gaussian[EPOCHS] == 0
    apart = {
        t: bool((table[f"VMF from, T = {t}"] > table[f"Gaussian to, T = {t}"]).all())
        for t in (EPOCHS, STEPS)
    }
    factor = table[f"VMF certified, T = {STEPS}"] / table[f"Gaussian certified, T = {STEPS}"]
    layers = table["Gaussian certified by layer"]
    reversed_by_layer = bool((table["Gaussian from, by layer"] > table["VMF to, T = 1407"]).all())
    one = {
        "holds": not any(apart.values()),
        "corrected": "The first holds for 3 compositions, one an epoch, the second for the 1,407 "
        "steps that were run. With equal numbers of compositions, and sigma the noise multiplier "
        "as the paper counts, the concentration costs more in every column. With three layers "
        "clipped each by itself, as it runs (E-D-19), the noise does.",
        "corrected_holds": mixed and all(apart.values()) and reversed_by_layer,
        "ours": f"certified at 1,407: {_range(factor, '.1f')} times the Gaussian's epsilon; the "
        f"first column, printed as {table['epsilon'].iloc[0]}: VMF "
        f"{table[f'VMF certified, T = {STEPS}'].iloc[0]:.3f}, Gaussian "
        f"{table[f'Gaussian certified, T = {STEPS}'].iloc[0]:.3f}, by layers {layers.iloc[0]:.3f}",
    }
    statement = "concentration and noise multiplier of one column cost the same epsilon"
    more = excess[STEPS]
    ends = table.iloc[[0, -1]]
    return Result(
        f"{KEY}/table4",
        [
            check(
                f"{KEY}/table4",
                mixed and all(cut),
                "every epsilon comes out of its concentration at T = 3, and every noise multiplier "
                "of its epsilon at T = 1,407 by the search that Opacus does, cut off after three "
                "decimals",
                ours=f"{vmf[EPOCHS]} and {sum(cut)} of {rows} columns",
            ),
            refute(f"{KEY}/table4", statement, **one),
            check(
                "D-009",
                mixed and never,
                "the concentrations fit at 3 compositions only and the noise multipliers at 1,407 "
                "only",
                ours=f"VMF {vmf[EPOCHS]} of {rows} at 3 and {vmf[STEPS]} at 1,407; Gaussian "
                f"{gaussian[EPOCHS]} at 3 and {gaussian[STEPS]} at 1,407",
            ),
            check(
                "D-010",
                bool(
                    ends[f"VMF fits, T = {EPOCHS}"].all()
                    and cut[0]
                    and cut[-1]
                    and tuple(ends["kappa"]) == (75.0, 500.0)
                ),
                "kappa = 75 and sigma = 1.23 are printed for 0.49, kappa = 500 and sigma = .174 "
                "for 173, and come out of them, each with its own number of compositions",
                ours=", ".join(
                    f"VMF {row[f'VMF, T = {EPOCHS}']:.4g}, Gaussian "
                    f"{row[f'Gaussian, T = {STEPS}']:.4g}"
                    for _, row in ends.iterrows()
                ),
                paper=", ".join(ends["epsilon"]),
            ),
            refute("E-D-01", statement, **one),
            _truncation(table, more, cut),
            _on_one_scale(table),
        ],
        {
            "columns": table.drop(columns=[c for c in table if " fits" in c or "certified" in c
                                           or " from" in c or " to," in c]),
            "certified": table[["epsilon", "kappa", "sigma"]
                               + [c for c in table if "certified" in c]],
            "the concentrations": _shown_mechanism(
                table.assign(kappa=[f"{k:g}" for k in table["kappa"]]), "VMF", ["kappa"]
            ),
            "the noise multipliers": _shown_mechanism(
                table.assign(found=[f"{v:.5f}" for v in table["searched sigma"]]),
                "Gaussian",
                ["sigma", "found"],
            ),
        },
        exact=("columns",),
        shown=("the concentrations", "the noise multipliers"),
        ran=f"{rows} columns, each mechanism at {EPOCHS} and at {STEPS:,} compositions: as the "
        "paper counts (by Rényi divergence) and certified.",
    )  # fmt: skip


def _range(values: pd.Series, form: str) -> str:
    return f"{float(values.min()):{form}} to {float(values.max()):{form}}"


def _truncation(table: pd.DataFrame, more: pd.Series, cut: Sequence[bool]):
    certified = table[f"Gaussian certified, T = {STEPS}"]
    target = table["epsilon"].astype(float)
    units = [half_unit(text) for text in table["epsilon"]]
    return refute(
        "E-D-04",
        "the noise multipliers give the printed epsilons",
        holds=bool((more.abs() <= units).all()),
        corrected="They are cut off after three decimals, so that the accountant that chose them "
        "gives more for most. Certified they cost less: that accountant is loose.",
        corrected_holds=all(cut)
        and bool(2 * (more > units).sum() > len(table))
        and bool((certified < target).all()),
        ours=f"up to {float(more.max()):.2f} more ({table['sigma'][more.idxmax()]}); certified "
        f"{_range(certified / target, '.2f')} of the printed epsilon",
    )


def _on_one_scale(table: pd.DataFrame):
    """D-001: epsilon and capacity are defined for both mechanisms and rise as noise falls."""
    log_capacity = {
        "VMF": [float(bounds.bayes_capacity_vmf(DIMENSION, k)) for k in table["kappa"]],
        "Gaussian": [
            float(
                bounds.bayes_capacity_gaussian(
                    DIMENSION, float(s) / federated.BATCH_SIZE, math.sqrt(3.0)
                )
            )
            for s in table["sigma"]
        ],
    }
    rising = all(
        bool(np.all(np.diff(values) > 0))
        for values in (
            *log_capacity.values(),
            *(table[f"{m} certified, T = {STEPS}"].to_numpy() for m in ("VMF", "Gaussian")),
        )
    )
    above = min(log_capacity["Gaussian"]) > max(log_capacity["VMF"])
    return check(
        "D-001",
        rising and above,
        "Rényi accounting and Bayes' capacity each put both mechanisms on one scale, which rises "
        "as the noise falls; the two scales order the mechanisms differently",
        ours=f"{len(table)} settings each: log capacities {log_capacity['VMF'][0]:.1f} to "
        f"{log_capacity['VMF'][-1]:.1f} (VMF) and {log_capacity['Gaussian'][0]:.0f} to "
        f"{log_capacity['Gaussian'][-1]:.0f} (Gaussian, radius sqrt(3), averaged over the batch)",
    )


def _shown_mechanism(table: pd.DataFrame, name: str, settings: Sequence[str]) -> pd.DataFrame:
    """One mechanism's side of Table IV, each number of compositions by divergence and certified."""
    shown = table[["epsilon", *settings]].copy()
    for kind in ("", " certified"):
        for steps in (EPOCHS, STEPS):
            values = table[f"{name}{kind}, T = {steps}"]
            shown[f"{kind.strip() or 'by divergence'}, T = {steps:,}"] = _four_digits(values)
    if name == "Gaussian":
        shown["the same by layers"] = _four_digits(table["Gaussian certified by layer"])
    return shown


def _four_digits(values: pd.Series) -> list[str]:
    return [f"{v:.4g}" if v < 1e4 else f"{v:.0f}" for v in values]
