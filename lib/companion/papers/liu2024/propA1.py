"""Proposition A.1: the sensitivity of a two-layer gradient, and the noise by the moments."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

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

PARAMETERS = {
    **gradient_sensitivity.PARAMETERS,
    "pairs": Parameter("int", 100, 400, NOT_PRINTED, "random pairs of records", low=2),
}
SETTLES = ("E-E-17",)
SHOWN = ("sensitivity",)

ALTERED = {
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


@measurement
@one_thread
def measure(study: Context) -> Tables:
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


def judge(tables: Tables) -> Iterator[Verdict]:
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
