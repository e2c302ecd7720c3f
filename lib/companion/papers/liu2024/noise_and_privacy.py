"""Lemma A.2 and Proposition A.1: delta by moments, and the noise of a two-layer gradient."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import special as sc
from scipy import stats

from companion.exhibit import *
from companion.papers.liu2024 import gradient_sensitivity
from companion.papers.liu2024.floor_orders import EXPONENT, NOT_PRINTED
from companion.papers.liu2024.gradient_floors import ROUNDING, one_thread, round_digits, slope, span
from companion.papers.liu2024.gradient_sensitivity import (
    noise_is_private,
    noise_table,
    sensitivities,
)
from reconrisk import DPSGD, privacy

EXHIBITS = ("lemA2", "propA1")

PARAMETERS_LEMA2 = {
    "noise_multipliers": Parameter(
        "floats", (0.7, 1.0, 2.0, 5.0), (0.7, 1.0, 2.0, 5.0), "any", "sigma/Delta", low=0.5
    ),
    "sampling_rate": Parameter("float", 0.05, 0.05, "any", "q of the sampled mechanism", low=1e-4),
    "epsilons": Parameter(
        "floats", (0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0, 4.0), "any", "epsilons", low=1e-3
    ),
}
ALTERED_LEMA2 = {
    "deltas": {"lower end": "true deltas", "delta by moments": "deltas by moments"},
    "tails": {"tail": "probabilities of losses above epsilon"},
}
#: relative, of the least delta over the grid of orders below; the smallest delta is exp(-200)
GRID = 2e-4
#: any lambda gives a valid delta, so a grid is on the safe side
_LAMBDAS = np.geomspace(1e-2, 1e3, 4001)
_WHOLE_LAMBDAS = np.arange(1.0, 65.0)


@one_thread
def measure_lema2(study: Context) -> Tables:
    """Lemma A.2: delta by moments, against the delta of an accountant."""
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


def judge_lema2(tables: Tables) -> Iterator[Verdict]:
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


PARAMETERS_PROPA1 = {
    **gradient_sensitivity.PARAMETERS,
    "pairs": Parameter("int", 100, 400, NOT_PRINTED, "random pairs of records", low=2),
}
SETTLES_PROPA1 = ("E-E-17",)
SHOWN_PROPA1 = ("sensitivity",)
ALTERED_PROPA1 = {
    "networks": {
        "worst pair": (
            "distances of worst pairs",
            at("m == m.min()", "distances of worst pairs of the narrowest networks"),
        ),
        "no pair above": "ceilings",
        "random pair": "distances of random pairs",
    },
    "noise": {
        "epsilon at the moments' noise": "epsilons of the moments' noise",
        "by moments": "the moments' variances",
    },
    "first power of epsilon": {"epsilon of the noise": "epsilons of noise by the first power"},
}
#: 1-Lipschitz, as the proposition requires
ACTIVATIONS = ("elu", "relu", "tanh")
#: factors of log(1/delta)/epsilon, each with an epsilon at which it is not enough
CONSTANTS = ((1.0, 0.1), (2.0, 0.1), (10.0, 0.01), (100.0, 0.001))


@one_thread
def measure_propa1(study: Context) -> Tables:
    """Proposition A.1: the sensitivity of a two-layer gradient, and the noise by the moments."""
    p = study.parameters
    found = [sensitivities(study, activation, p.pairs) for activation in ACTIVATIONS]
    networks = pd.concat(found, ignore_index=True)
    first_power = []
    for constant, epsilon in CONSTANTS:
        noise = DPSGD(math.sqrt(constant * math.log(1 / p.delta) / epsilon))
        first_power.append((constant, epsilon, privacy.epsilon(noise, p.delta).upper))
    columns = ["constant", "epsilon", "epsilon of the noise"]
    return Tables(
        {
            "sensitivity": round_digits(networks),
            "networks": networks,
            "noise": noise_table(p.epsilons, p.delta),
            "first power of epsilon": pd.DataFrame(first_power, columns=columns),
        },
        exact=("noise",),
        ran=f"{len(ACTIVATIONS)} activations, {min(p.widths):,} to {max(p.widths):,} neurons at "
        f"d = {p.dimension}; {p.pairs} random pairs and worst ones by ascent on the sphere.",
    )


def judge_propa1(tables: Tables) -> Iterator[Verdict]:
    networks, noise = tables["networks"], tables["noise"]
    excess = networks["worst pair"] / networks["limit of the worst"] - 1
    over = excess / np.sqrt(networks["d"] / networks["m"])
    by_activation = networks.groupby("activation")
    exponent = [slope(part["m"], part["m"] * part["worst pair"]) for _, part in by_activation]
    tight = networks["no pair above"] / networks["worst pair"]
    typical = networks["random pair"] / networks["worst pair"]
    private = noise_is_private(noise)
    yield check(
        "liu2024/propA1",
        private
        and over.between(-1, 4).all()
        and max(abs(e - 1) for e in exponent) < EXPONENT
        and tight.between(1, 1.5).all()
        and (typical < 1).all(),
        "replacing one record moves the gradient by no more than a constant times sqrt(m): "
        "squared over m, the largest distance tends to 16 E[s(z)^2], one record with "
        "both labels; noise by the moments at that sensitivity is private",
        ours=f"exponents {span(exponent, 3)} in m; a random pair is {span(typical)} of the worst",
        tolerance=f"{EXPONENT:g} in the exponent",
    )
    low = noise[noise["epsilon"] <= math.log(1 / tables.parameters.delta)]
    tiny = tables["first power of epsilon"]
    yield check(
        "E-E-17",
        private
        and (low["by moments"] / low["2 L/epsilon^2"]).between(1, 1.46).all()
        and (noise["by moments"] * noise["epsilon"] > 0.5 * (1 - ROUNDING)).all()
        and (tiny["epsilon of the noise"] > tiny["epsilon"]).all(),
        "the power of epsilon in the variance is the second for epsilon up to log(1/delta): that "
        "of the moments is private, and one of the first power is not for small epsilon, with a "
        "constant of up to 100",
        ours="epsilon at twice Delta^2 log(1/delta)/epsilon for epsilon = "
        f"{noise['epsilon'].iloc[0]:g}: {noise['epsilon at 2 L/epsilon'].iloc[0]:.2g}",
    )
