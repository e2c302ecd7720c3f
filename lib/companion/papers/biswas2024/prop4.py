"""Proposition 4: from Rényi divergence to epsilon of one release, at the best order."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import optimize

from companion.exhibit import *
from companion.experiments.federated import DELTA, DIMENSION
from companion.papers.biswas2024.sphere_quadrature import latitudes
from reconrisk import privacy

_KAPPAS = (25.0, 75.0, 300.0)

PARAMETERS = {
    "concentrations": Parameter("floats", _KAPPAS, _KAPPAS, "25 to 500", "kappa", 1e-3),
    "deltas": Parameter("floats", (1e-3, DELTA), (1e-3, DELTA, 1e-8), "1/60,000", "delta", 1e-12),
}
SHOWN = ("epsilon of one release",)
ALTERED = {
    "constants": {"formula": "logarithms of the constant [nats]"},
    "conversions": {"converted": "converted epsilons", "exact": "exact epsilons"},
    "stationary points": {"converted": "epsilons at the best order"},
}
SCENARIOS = (
    scenario(
        "a log delta that is a straight line in the order",
        column("convexity", "least bend", lambda c: 0.0),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for kappa in p.concentrations:
        loss, log_mass = latitudes(kappa)
        for delta in p.deltas:
            found = privacy.vmf_epsilon_converted(kappa, DIMENSION, delta)
            exact = exact_epsilon(loss, log_mass, delta)
            mean = float(privacy.vmf_mean_cosine(DIMENSION, (2 * found.order - 1) * kappa))
            stationary = 2 * kappa * mean + math.log1p(-1 / found.order)
            rows.append((kappa, delta, found.order, found.epsilon, exact, stationary))
    columns = ["kappa", "delta", "best order", "converted", "exact", "stationary"]
    table = pd.DataFrame(rows, columns=columns)
    conversions = table.drop(columns="stationary")
    shown = conversions.assign(
        delta=table["delta"].map("{:.3g}".format),
        **table[["best order", "converted", "exact"]].map("{:.4f}".format),
    )
    constants = [(order, *_constants(order)) for order in (1.1, 1.5, 2.0, 7.0, 40.0)]
    bends = [
        (kappa, epsilon, _least_bend(kappa, epsilon))
        for kappa in (25.0, 300.0)
        for epsilon in (1.0, 9.0)
    ]
    return Tables(
        {
            "conversions": conversions,
            "stationary points": table[["kappa", "delta", "converted", "stationary"]],
            "constants": pd.DataFrame(constants, columns=["order", "formula", "supremum"]),
            "convexity": pd.DataFrame(bends, columns=["kappa", "epsilon", "least bend"]),
            "epsilon of one release": shown,
        },
        exact=("conversions",),
        ran=f"closed form against quadrature over the latitudes at p = {DIMENSION:,}.",
    )


def exact_epsilon(loss: np.ndarray, log_mass: np.ndarray, delta: float) -> float:
    """Return epsilon at ``delta`` of one full release, by quadrature and root finding."""

    def excess(epsilon: float) -> float:
        counted = loss > epsilon
        gap = -np.expm1(epsilon - loss[counted])
        return float(np.sum(np.exp((log_mass + loss)[counted]) * gap)) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, float(loss.max()), xtol=1e-12))


def _constants(order: float) -> tuple[float, float]:
    """The formula's constant, and the log of the supremum that it stands for."""
    epsilon = 0.7
    found = optimize.minimize_scalar(
        lambda z: math.expm1(epsilon - z) * math.exp(-(order - 1) * z),
        bounds=(epsilon, epsilon + 40 / (order - 1)),
        method="bounded",
        options={"xatol": 1e-12},
    )
    # at a divergence of zero the formula is the constant itself
    formula = float(privacy.log_delta_from_renyi(order, 0.0, epsilon))
    return formula, math.log(-float(found.fun))


def _least_bend(kappa: float, epsilon: float) -> float:
    """The least change of slope of the unclipped ``log delta`` along a grid of orders."""
    order = 1 + np.geomspace(1e-2, 100.0, 2001)
    gap = order - 1
    renyi = privacy.vmf_renyi(order, DIMENSION, kappa)
    log_delta = gap * (renyi - epsilon) + gap * np.log(gap) - order * np.log(order)
    return float(np.diff(np.diff(log_delta) / np.diff(order)).min())


def judge(tables: Tables) -> Iterator[Verdict]:
    table, constants = tables["conversions"], tables["constants"]
    points = tables["stationary points"]
    above = table["converted"] / table["exact"] - 1
    yield check(
        "biswas2024/prop4",
        ((constants["formula"] - constants["supremum"]).abs() < 1e-9).all()
        and (above > 0).all()
        and ((points["stationary"] - points["converted"]).abs() < 1e-6).all()
        and (tables["convexity"]["least bend"] > 0).all(),
        "the formula is the best bound on (1 - exp(epsilon - loss))+ by one power of the "
        "likelihood ratio, its epsilon is never below the exact one, log delta is convex in the "
        "order, and best where epsilon = 2 kappa A_p((2a - 1) kappa) + log(1 - 1/a)",
        ours=f"{len(table)} settings at q = 1, T = 1: above the exact epsilon by "
        f"{above.min():.1%} to {above.max():.1%}",
    )
