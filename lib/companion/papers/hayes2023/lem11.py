"""Lemma 11: TV_a of DP-SGD's outputs with and without the target, against the Gaussian pair's."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.hayes2023 import unprinted
from companion.papers.hayes2023.gaussian_pair import excess_of_null

#: values of a for which TV_a is compared
SCALES = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)
#: C; the dominating pair is in its units
CLIPPING_NORM = 1.0
#: error of a total variation by quadrature on the grids below
QUADRATURE = 5e-6


#: densities of the output without and with the target, on a grid of cells of this size
Pair = tuple[np.ndarray, np.ndarray, float]
#: inputs (3, 2), targets (3,) and starting weights (2,); the last record is the unknown one
LeastSquares = tuple[np.ndarray, np.ndarray, np.ndarray]

PARAMETERS = {
    "data_sets": unprinted.count(6, 100, "random least-squares problems"),
    "noise_multipliers": unprinted.noise_multipliers(0.6, 1.0, 2.0),
    "sampling_rates": unprinted.sampling_rates(0.2, 0.5, 0.9),
}
ALTERED = {"excess": {"excess": "excesses over the Gaussian pair's distance"}}


@measurement
def measure(study: Context) -> Tables:
    p, rng = study.parameters, study.rng("records")
    data = [
        (rng.normal(size=(3, 2)), 2 * rng.normal(size=3), rng.normal(size=2))
        for _ in range(p.data_sets)
    ]
    rows = []
    for sigma, rate in itertools.product(p.noise_multipliers, p.sampling_rates):
        one, two = dominating(sigma, rate), dominating_two_steps(sigma, rate)
        for run, outputs, bound in (
            ("two weights, one step", _one_step, one),
            ("one weight, two steps", _two_steps, two),
        ):
            excesses = [_excess(outputs(problem, sigma, rate), bound) for problem in data]
            rows += [(run, sigma, rate, excess, "clipped to C") for excess in excesses]
        for norm, gradient in ((1.0, "of norm C"), (1.5, "not clipped, of norm 1.5 C")):
            excess = _excess(lone_target(norm, 0.7, sigma, rate), one)
            rows.append(("two weights, one step", sigma, rate, excess, gradient))
    columns = ["run", "sigma", "q", "excess", "gradient"]
    return Tables(
        {"excess": pd.DataFrame(rows, columns=columns)},
        ran=f"{p.data_sets} least-squares problems of two known records and a target, each with "
        "one and with two weights; all records are sampled, and the second step starts from the "
        "weights after the first.",
    )


def _axis(sigma: float) -> np.ndarray:
    """Outputs to integrate over: three clipped gradients and all of the noise."""
    reach = 3 + 6.5 * sigma
    return np.linspace(-reach, reach, 2 * round(12 * reach / sigma) + 1)


def _plane(mean: np.ndarray | tuple[float, float], sigma: float) -> np.ndarray:
    """The density of two outputs with independent noise."""
    x, y = (stats.norm.pdf(_axis(sigma), m, sigma) for m in mean)
    return np.outer(x, y)


def _cell(sigma: float) -> float:
    w = _axis(sigma)
    return float((w[1] - w[0]) ** 2)


def _sampled_sum(
    gradients: np.ndarray, rate: float, density: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Density of the noisy sum of a Poisson sample of gradients, first axis the records."""
    parts = (
        math.prod(rate if t else 1 - rate for t in taken)
        * density(np.tensordot(taken, gradients, axes=1))
        for taken in itertools.product((0, 1), repeat=len(gradients))
    )
    return sum(parts, np.zeros(()))


def _one_step(data: LeastSquares, sigma: float, rate: float) -> Pair:
    """One step in two weights."""
    inputs, targets, start = data
    gradients = inputs * (inputs @ start - targets)[:, None]
    gradients /= np.maximum(1.0, np.linalg.norm(gradients, axis=1) / CLIPPING_NORM)[:, None]
    without, with_target = (
        _sampled_sum(g, rate, lambda mean: _plane(mean, sigma)) for g in (gradients[:-1], gradients)
    )
    return without, with_target, _cell(sigma)


def _two_steps(data: LeastSquares, sigma: float, rate: float) -> Pair:
    """Two steps in one weight: the second's gradients depend on what the first released."""
    inputs, targets, start = data[0][:, :1], data[1][:, None], data[2][0]
    w = _axis(sigma)
    one, two = (
        np.clip((inputs * weights - targets) * inputs, -CLIPPING_NORM, CLIPPING_NORM)
        for weights in (np.array([start]), start - 0.5 * w)
    )

    def first(mean: np.ndarray) -> np.ndarray:
        return stats.norm.pdf(w, mean, sigma)[:, None]

    def second(mean: np.ndarray) -> np.ndarray:
        return stats.norm.pdf(w, mean[:, None], sigma)

    without, with_target = (
        _sampled_sum(one[:n], rate, first) * _sampled_sum(two[:n], rate, second) for n in (2, 3)
    )
    return without, with_target, _cell(sigma)


def lone_target(norm: float, angle: float, sigma: float, rate: float) -> Pair:
    """One step with no other record, the target's gradient of a given norm and direction."""
    none = _plane((0, 0), sigma)
    taken = _plane((norm * math.cos(angle), norm * math.sin(angle)), sigma)
    return none, (1 - rate) * none + rate * taken, _cell(sigma)


def dominating(sigma: float, rate: float, factor: float | np.ndarray = 1.0) -> np.ndarray:
    """TV_a of the Gaussian pair of Corollary 4 for one step, first axis a, times ``factor``."""
    a = np.multiply.outer(SCALES, factor)
    return 2 * excess_of_null(a, sigma, rate) + a - 1


def dominating_two_steps(sigma: float, rate: float) -> np.ndarray:
    """The same for two steps: given the first output, a is multiplied by that output's ratio."""
    w = _axis(sigma)
    null = stats.norm.pdf(w, 0, sigma)
    ratio = 1 - rate + rate * np.exp((w - 0.5) / sigma**2)
    return dominating(sigma, rate, ratio) @ null * (w[1] - w[0])


def total_variations(pair: Pair) -> np.ndarray:
    """``TV_a(nu, mu) = integral |nu - a mu|`` (Definition 10) for every a of ``SCALES``."""
    nu, mu, cell = pair
    return np.array([np.abs(nu - a * mu).sum() * cell for a in SCALES])


def _excess(pair: Pair, bound: np.ndarray) -> float:
    """The largest excess of TV_a over the dominating pair's, over a."""
    return float((total_variations(pair) - bound).max())


def judge(tables: Tables) -> Iterator[Verdict]:
    excess = tables["excess"].groupby("gradient")["excess"]
    clipped, attained, longer = (
        excess.get_group(gradient)
        for gradient in ("clipped to C", "of norm C", "not clipped, of norm 1.5 C")
    )
    yield check(
        "hayes2023/lem11",
        max(clipped.max(), attained.abs().max()) < QUADRATURE < longer.min(),
        "TV_a of DP-SGD's outputs with and without the target is at most that of the Gaussian "
        "pair, for every a; a lone gradient of norm C attains it, a longer one exceeds it",
        ours=f"{len(clipped)} runs on random records at {len(SCALES)} values of a",
        tolerance=f"{QUADRATURE:g} (quadrature)",
    )
