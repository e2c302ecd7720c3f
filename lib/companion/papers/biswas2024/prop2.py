"""Proposition 2: the divergence of independent blocks is the sum of the blocks' divergences."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.biswas2024.sphere_quadrature import at_angle, points_on_sphere
from reconrisk import privacy
from reconrisk.mechanisms import sample_vmf

_THEOREM = "not printed: a statement, not an experiment"

PARAMETERS = {
    "orders": Parameter("floats", (1.5, 2.0, 4.0), (1.5, 2.0, 4.0), _THEOREM, "alpha, orders", 1),
    "sampled_orders": Parameter(
        "floats", (0.5, 1.5, 2.0), (0.5, 1.5, 2.0, 3.0), _THEOREM, "orders by samples", 0.1
    ),
    "samples": Parameter("int", 200_000, 2_000_000, _THEOREM, "samples of every block", 1000),
}
SHOWN = ("divergence of three blocks",)
ALTERED = {
    "two blocks": {
        "quadrature": "divergences of two blocks by quadrature",
        "sum": "sums of two blocks",
    },
    "blocks": {
        "sampled": "sampled divergences of three blocks",
        "sum": "sums of three blocks",
    },
}

#: how near samples of three blocks must come to the sum, relative: the least of the blocks has
#: 9% of it or more
_SAMPLED = 0.05

#: dimension and concentration of each block
_BLOCKS = ((2, 1.0), (3, 0.8), (2, 2.0))


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    pair = _BLOCKS[:2]
    quadrature = [
        (order, _sum_of(pair, order), _by_quadrature(pair, order))
        for order in p.orders
        if order != 1.0
    ]
    sampled = []
    for order in p.sampled_orders:
        rng = study.rng("blocks", order)
        # one coordinate of each block: the loss of opposite centres is twice kappa times it
        loss = sum(
            2 * kappa * sample_vmf(np.eye(d)[0], kappa, rng, p.samples)[:, 0]
            for d, kappa in _BLOCKS
        )
        weight = np.exp((order - 1) * loss)
        mean, error = float(weight.mean()), float(weight.std(ddof=1)) / math.sqrt(weight.size)
        value = math.log(mean) / (order - 1)
        sampled.append((order, _sum_of(_BLOCKS, order), value, error / mean / abs(order - 1)))
    table = pd.DataFrame(sampled, columns=["order", "sum", "sampled", "standard error"])
    shown = {
        "order": table["order"],
        "sum of the blocks": table["sum"].map("{:.4f}".format),
        "sampled": list(map(rounded, table["sampled"], table["standard error"])),
    }
    return Tables(
        {
            "blocks": table,
            "two blocks": pd.DataFrame(quadrature, columns=["order", "sum", "quadrature"]),
            "divergence of three blocks": pd.DataFrame(shown),
        },
        ran="blocks of 2, 3 and 2 dimensions at kappa = 1, 0.8 and 2.",
    )


def _sum_of(blocks: Sequence[tuple[int, float]], order: float) -> float:
    return float(privacy.vmf_renyi_blocks(order, *map(np.array, zip(*blocks, strict=True))))


def _by_quadrature(blocks: Sequence[tuple[int, float]], order: float) -> float:
    """Divergence of two independent blocks from the grid of all pairs of their points."""
    logs, weights = [], []
    for dimension, kappa in blocks:
        points, weight = points_on_sphere(dimension)
        axis = at_angle(dimension, 0.0)
        one, other = (stats.vonmises_fisher(s * axis, kappa).logpdf(points) for s in (1, -1))
        logs.append(order * one + (1 - order) * other)
        weights.append(weight)
    moment = weights[0] @ np.exp(logs[0][:, None] + logs[1]) @ weights[1]
    return math.log(float(moment)) / (order - 1)


def judge(tables: Tables) -> Iterator[Verdict]:
    table, pair = tables["blocks"], tables["two blocks"]
    exact = bool(((pair["quadrature"] / pair["sum"] - 1).abs() < 1e-9).all())
    near = within(table["sampled"], table["sum"], table["standard error"], _SAMPLED * table["sum"])
    yield check(
        "biswas2024/prop2",
        exact and near,
        "the divergence of independent blocks is the sum of the blocks' divergences: by "
        "quadrature over the circle times the sphere, and by samples of three blocks",
        ours=f"quadrature agrees to a relative 1e-9; {tables.parameters.samples:,} samples at "
        f"{len(table)} orders to {_SAMPLED:.0%}",
        tolerance=f"1e-9; {_SAMPLED:.0%}, {STANDARD_ERRORS:g} standard errors included",
    )
