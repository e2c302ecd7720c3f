"""Theorem 3: Rényi divergence of VMF noise on a Poisson sample, with factor three and one."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from companion.experiments.federated import DELTA, DIMENSION, EPOCHS, SAMPLING_RATE
from companion.papers.biswas2024.sphere_quadrature import latitudes, poisson_sampled
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from reconrisk import privacy

_CONCENTRATIONS = (25.0, 75.0, 150.0, 300.0)

PARAMETERS = {
    "concentrations": Parameter(
        "floats", _CONCENTRATIONS, _CONCENTRATIONS, "25 to 500", "kappa, concentrations", 1e-3
    ),
    "largest_order": Parameter(
        "int", 12, 40, "not printed: a statement, not an experiment", "largest whole order", 3
    ),
}
SETTLES = ("E-D-14",)

#: concentration of Table I whose epsilon is compared with that of factor one
_EXAMPLE = 100.0
_FACTORS = (3.0, 1.0)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    settings = [(3, 1.0, 0.3), (30, 4.0, 0.05)]
    settings += [(DIMENSION, kappa, SAMPLING_RATE) for kappa in p.concentrations]
    rows = []
    for dimension, kappa, q in settings:
        loss, log_mass = latitudes(kappa, dimension, p.largest_order)
        sampled = poisson_sampled(loss, q)
        sums = [
            privacy.vmf_renyi_sampled(p.largest_order, kappa, dimension, q, factor)
            for factor in _FACTORS
        ]
        for order in range(2, p.largest_order + 1):
            removed, added = (
                float(logsumexp(log_mass + power * sampled)) / (order - 1)
                for power in (order, 1 - order)
            )
            rows.append((dimension, kappa, q, order, *(s[order - 1] for s in sums), removed, added))
    columns = ["p", "kappa", "q", "order", "factor 3", "factor 1", "removed", "added"]
    table = pd.DataFrame(rows, columns=columns)
    curves = [privacy.vmf_renyi_sampled(2, k, DIMENSION, SAMPLING_RATE) for k in p.concentrations]
    first = [(kappa, *orders) for kappa, orders in zip(p.concentrations, curves, strict=True)]
    setting = (_EXAMPLE, DIMENSION, DELTA, SAMPLING_RATE, EPOCHS)
    costs = [(f, privacy.vmf_epsilon_by_renyi(*setting, factor=f).epsilon) for f in _FACTORS]
    return Tables(
        {
            "divergences": table,
            "factors": table[["factor 3", "factor 1"]],
            "first orders": pd.DataFrame(first, columns=["kappa", "order 1", "order 2"]),
            "epsilon": pd.DataFrame(costs, columns=["factor", "epsilon"]),
        },
        exact=("factors",),
        ran="sums against quadrature over the latitudes.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["divergences"]
    three, one = table["factor 3"], table["factor 1"]
    removed, added = table["removed"], table["added"]
    larger, at_two = np.maximum(removed, added), table["order"] == 2
    yield check(
        "biswas2024/thm3",
        # small divergences are sums that cancel to about 1e-12 of one
        (three >= larger * (1 - 1e-6) - 1e-11).all()
        and np.allclose(three[at_two], one[at_two], rtol=1e-12),
        "at whole orders from two on the theorem's sum is never below the divergence of a "
        "Poisson-sampled release by quadrature, in either direction",
        ours=f"{len(table)} values; at most {(three / one)[~at_two].max():.2f} times the exact "
        "one beyond order two",
    )
    exact = ((one - removed).abs() < 1e-5 * (removed + 1e-6)).all()
    no_more = (added <= removed * (1 + 1e-5) + 1e-11).all()
    needed = (one < larger * (1 - 1e-5) - 1e-11).any()
    first = tables["first orders"]
    falls = first[first["order 1"] > first["order 2"]]
    example = (first if falls.empty else falls).iloc[-1 if len(falls) else 0]
    cost = tables["epsilon"].set_index("factor")["epsilon"]
    yield refute(
        "E-D-14",
        holds=needed or falls.empty,
        corrected_holds=exact and no_more and not falls.empty,
        ours=f"Table I's kappa = {_EXAMPLE:g}: {cost[1.0]:.3f} instead of {cost[3.0]:.3f}; kappa = "
        f"{example['kappa']:g}: {example['order 1']:.4f} at order one, {example['order 2']:.4f} "
        "at order two",
    )
