"""Proposition 3: one VMF vector against a gradient that is cut into blocks."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.experiments.capacity_routes import LAYER_SIZES
from companion.experiments.federated import DIMENSION
from reconrisk import privacy

_THEOREM = "not printed: a statement, not an experiment"

PARAMETERS = {
    "orders": Parameter("floats", (1.0, 2.0, 8.0), (1.0, 2.0, 8.0), _THEOREM, "alpha, orders", 1),
    "concentrations": Parameter(
        "floats", (75.0, 500.0), (75.0, 500.0), "25 to 500", "kappa, concentrations", 1e-3
    ),
}
SETTLES = ("D-005",)
ALTERED = {
    "ratios": {
        "equal kappa": "divergences at one concentration",
        "equal cosine": at("cut == '6,850 circles'", "divergences of circles at equal mean cosine"),
        "kappa by size": "divergences with concentrations by size",
    }
}
SHOWN = ("divergence of a cut gradient over that of one vector",)

_LAYERS = "the three layers"
_CUTS = {
    _LAYERS: LAYER_SIZES,
    "two halves": (6_850, 6_850),
    "100 blocks": (137,) * 100,
    "6,850 circles": (2,) * 6_850,
}
#: cuts whose blocks are large enough for the agreement to first order
_LARGE = (_LAYERS, "two halves", "100 blocks")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
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
    shown = table.drop(columns="one vector")
    shown["equal kappa"] = shown["equal kappa"].map("{:.4g}".format)
    for way in ("kappa by size", "equal cosine"):
        shown[way] = [f"1 {'+' if v > 1 else '-'} {abs(v - 1):.0e}" for v in table[way]]
    return Tables({"ratios": table, SHOWN[0]: shown}, exact=("ratios",), ran="closed forms only.")


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["ratios"]
    least = (table["equal kappa"] > 1).all()
    large = table.loc[table["cut"].isin(_LARGE), ["kappa by size", "equal cosine"]]
    tie = float((large - 1).abs().max(axis=None))
    smallest = table.loc[table["equal cosine"].idxmin()]
    less = 1 - smallest["equal cosine"]
    layers = table.loc[table["cut"] == _LAYERS, "equal kappa"]
    yield from shared_by(
        check(
            "biswas2024/prop3",
            least,
            "with one concentration for every block, a single vector has the least divergence",
            ours=f"{len(table)} cases; the divergence of the three layers is {layers.min():.0f} to "
            f"{layers.max():.0f} times as large",
        ),
        "D-005",
    )
    yield check(
        "biswas2024/prop3",
        0 < less < 2e-3
        and tie < 2e-3
        and (table.loc[table["order"] == 1.0, "equal cosine"] < 1).all(),
        "at an equal mean cosine in every block, which the proposition does not speak of, all cuts "
        "into large blocks agree with the single vector to first order, and at order one leak less",
        ours=f"at equal mean cosine within {tie:.0e} of the single vector for up to 100 blocks; "
        f"{smallest['cut']} at kappa = {smallest['kappa']:g}: {less:.1e} less",
    )
