"""Lemma A.2: delta by moments, against the delta of an accountant."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import special as sc
from scipy import stats

from companion.exhibit import *
from companion.papers.liu2024.gradient_floors import ROUNDING, one_thread
from reconrisk import DPSGD, privacy

PARAMETERS = {
    "noise_multipliers": Parameter(
        "floats", (0.7, 1.0, 2.0, 5.0), (0.7, 1.0, 2.0, 5.0), "any", "sigma/Delta", low=0.5
    ),
    "sampling_rate": Parameter("float", 0.05, 0.05, "any", "q of the sampled mechanism", low=1e-4),
    "epsilons": Parameter(
        "floats", (0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0, 4.0), "any", "epsilons", low=1e-3
    ),
}

ALTERED = {
    "deltas": {"lower end": "true deltas", "delta by moments": "deltas by moments"},
    "tails": {"tail": "probabilities of losses above epsilon"},
}

#: relative, of the least delta over the grid of orders below; the smallest delta is exp(-200)
GRID = 2e-4
#: any lambda gives a valid delta, so a grid is on the safe side
_LAMBDAS = np.geomspace(1e-2, 1e3, 4001)
_WHOLE_LAMBDAS = np.arange(1.0, 65.0)


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p = study.parameters
    rows, tails = [], []
    for sigma in p.noise_multipliers:
        for name, rate, orders in (
            ("full batch", 1.0, _LAMBDAS),
            (f"sampled, q = {p.sampling_rate:g}", p.sampling_rate, _WHOLE_LAMBDAS),
        ):
            moments = log_moments(sigma, rate, orders)
            for epsilon in p.epsilons:
                real = privacy.delta(DPSGD(sigma, sampling_rate=rate), epsilon)
                delta = moment_delta(moments, orders, epsilon)
                rows.append((name, sigma, epsilon, delta, real.upper, real.lower))
                if rate == 1.0:
                    # the loss is normal, with mean 1/(2 sigma^2) and deviation 1/sigma
                    tail = float(stats.norm.sf(epsilon * sigma - 0.5 / sigma))
                    tails.append((name, sigma, epsilon, tail, delta))
    for own in p.epsilons:
        kept, flipped = 1 / (1 + math.exp(-own)), 1 / (1 + math.exp(own))
        moments = np.logaddexp(math.log(kept) + _LAMBDAS * own, math.log(flipped) - _LAMBDAS * own)
        name = f"randomised response, epsilon = {own:g}"
        for epsilon in p.epsilons:
            exact = max(kept - math.exp(epsilon) * flipped, 0.0)
            delta = moment_delta(moments, _LAMBDAS, epsilon)
            rows.append((name, 0.0, epsilon, delta, exact, exact))
            if own >= epsilon:
                tails.append((name, own, epsilon, kept, delta))
    columns = ["mechanism", "sigma", "epsilon", "delta by moments", "delta", "lower end"]
    return Tables(
        {
            "deltas": pd.DataFrame(rows, columns=columns),
            "tails": pd.DataFrame(
                tails, columns=["mechanism", "largest", "epsilon", "tail", "delta by moments"]
            ),
        },
        ran="Full-batch and sampled Gaussian noise, randomised response; true delta from the "
        "accountant.",
    )


def log_moments(noise_multiplier: float, sampling_rate: float, orders: np.ndarray) -> np.ndarray:
    r"""Return alpha(lambda) of one DP-SGD step, the larger of both directions.

    ``log E_p[(p/q)^lambda]``, where p is the distribution of the output with the record and q
    without it, or vice versa (Liu et al. 2024, Appendix A): ``lambda (lambda + 1)/(2 sigma^2)`` on
    the full batch, otherwise by quadrature; one value for each lambda > 0 in ``orders``.
    """
    if sampling_rate == 1.0:
        return orders * (orders + 1.0) / (2.0 * noise_multiplier**2)
    reach = 12.0 * noise_multiplier + np.max(orders) + 2.0
    x = np.linspace(-reach, reach, 40_001)
    scale = noise_multiplier * math.sqrt(2.0 * math.pi) / (x[1] - x[0])
    without = -0.5 * (x / noise_multiplier) ** 2
    shifted = -0.5 * ((x - 1.0) / noise_multiplier) ** 2
    present = np.logaddexp(without + math.log1p(-sampling_rate), shifted + math.log(sampling_rate))
    ratio = present - without
    forward = [sc.logsumexp(present + k * ratio) for k in orders]
    backward = [sc.logsumexp(without - k * ratio) for k in orders]
    return np.maximum(forward, backward) - math.log(scale)


def moment_delta(moments: np.ndarray, orders: np.ndarray, epsilon: float) -> float:
    """Return ``min exp(alpha(lambda) - lambda epsilon)`` over some orders (Lemma A.2)."""
    return float(np.exp(min(0.0, np.min(moments - orders * epsilon))))


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["deltas"]
    full = table[table["mechanism"] == "full batch"]
    # the minimum in the proof, before its last step
    shift = 1.0 / full["sigma"] ** 2
    closed = np.exp(-((np.maximum(full["epsilon"] - shift / 2, 0.0)) ** 2) / (2 * shift))
    agree = (full["delta by moments"] / closed - 1).abs().max() < GRID
    valid = (table["delta by moments"] >= table["lower end"] * (1 - ROUNDING)).all()
    seen = table[table["delta"] > 1e-30]
    excess = seen["delta by moments"] / seen["delta"]
    # Markov's inequality, from which the lemma follows: the loss is at least epsilon with a
    # probability of at most delta, and with just that if it has no larger value
    tails = tables["tails"]
    slack = tails["delta by moments"] / tails["tail"] - 1
    top = (tails["largest"] == tails["epsilon"]) & (tails["mechanism"] != "full batch")
    markov = slack.min() >= -ROUNDING and slack[top].abs().max() < ROUNDING
    yield check(
        "liu2024/lemA2",
        valid and agree and markov,
        "every mechanism is (epsilon, delta)-private at delta = min exp(alpha - lambda epsilon), "
        "which is attained by losses of one size, and for Gaussian noise the minimum is "
        "exp(-(sigma^2 epsilon - 1/2)^2 / (2 sigma^2))",
        ours=f"{len(table)} cells, none below the true delta; above it by a factor of "
        f"{excess.median():.2g} in the median",
    )
