"""Theorem 1: the divergence of VMF noise grows with concentration and falls with dimension."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.experiments.federated import DIMENSION
from reconrisk import privacy

_THEOREM = "not printed: a statement, not an experiment"

PARAMETERS = {
    "orders": Parameter("floats", (1.0, 2.0, 8.0), (1.0, 2.0, 8.0), _THEOREM, "alpha, orders", 1),
    "grid": Parameter("int", 40, 200, "not printed", "concentrations and dimensions compared", 2),
    "points": Parameter("int", 61, 201, "not printed", "points of each curve", 2),
}
SETTLES = ("D-003",)
ALTERED = {
    "monotonicity": {
        "least rise with kappa": "rises with the concentration [e-folds]",
        "largest rise with p": "rises with the dimension [e-folds]",
        "fall to the next p": "falls from p = 13,700 to the next p [of itself]",
        "slope error": "errors of the slope in the concentration",
    }
}

#: concentration of the curves over the dimension
_KAPPA = 75.0


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    kappas = np.geomspace(1e-3, 1e3, p.grid)
    dimensions = np.unique(np.round(np.geomspace(2, 1e7, p.grid)))
    rows = []
    for order in (0.1, 0.5, *p.orders, 64.0):
        values = privacy.vmf_renyi(order, dimensions[:, None], kappas)
        here, next_p = privacy.vmf_renyi(order, DIMENSION + np.arange(2), _KAPPA)
        rows.append(
            {
                "order": order,
                "values": values.size,
                "least rise with kappa": np.diff(np.log(values), axis=1).min(),
                "largest rise with p": np.diff(np.log(values), axis=0).max(),
                "fall to the next p": 1 - next_p / here,
                # the proof uses the slope, and is for orders above one
                "slope error": _slope_error(order) if order > 1 else np.nan,
            }
        )
    concentrations = np.linspace(5.0, 500.0, p.points)
    ways = {
        "concentration": (concentrations, DIMENSION, concentrations),
        "dimension": (dimensions, dimensions, _KAPPA),
    }
    curves = []
    for order, (over, (at, dims, kappa)) in itertools.product(p.orders, ways.items()):
        columns = {"at": at, "divergence": privacy.vmf_renyi(order, dims, kappa)}
        curves.append(pd.DataFrame({"over": over, "order": order} | columns))
    return Tables(
        {
            "curves": pd.concat(curves, ignore_index=True).round(9),
            "monotonicity": pd.DataFrame(rows),
        },
        exact=("curves",),
        ran="closed forms only.",
    )


def _slope_error(order: float) -> float:
    """Largest relative distance of ``dD/dkappa`` from ``(r A_p(r kappa) - A_p(kappa))/(a - 1)``."""
    worst = 0.0
    for dimension, kappa in ((3, 1.5), (50, 20.0), (DIMENSION, 75.0)):
        r, step = 2 * order - 1, 1e-4 * kappa
        near, far = (privacy.vmf_mean_cosine(dimension, kappa * t) for t in (1.0, r))
        exact = (r * far - near) / (order - 1)
        above, below = (privacy.vmf_renyi(order, dimension, kappa + s * step) for s in (1, -1))
        worst = max(worst, abs(float((above - below) / (2 * step * exact) - 1)))
    return worst


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["monotonicity"]
    above = table[table["order"] > 1]
    yield from shared_by(
        check(
            "biswas2024/thm1",
            (table["least rise with kappa"] > 0).all()
            and (table["largest rise with p"] < 0).all()
            and (table["fall to the next p"] > 0).all()
            and (above["slope error"] < 1e-6).all(),
            "the divergence increases with the concentration and decreases with the dimension, "
            "also at orders of one and below, which the proof leaves out",
            ours=f"{table['values'].sum():,} values, orders {table['order'].min():g} to "
            f"{table['order'].max():g}, kappa from 0.001 to 1,000, p from 2 to ten million; from p "
            f"= {DIMENSION:,} to the next it falls by {above['fall to the next p'].min():.1e} of "
            "itself or more; the slope in the concentration, by differences, is the proof's ratio "
            "of Bessel functions",
        ),
        "D-003",
    )


CAPTION = (
    "The divergence of opposite centres of VMF noise for several orders. Left: over the "
    "concentration at p = 13,700; it grows. Right: over the dimension at concentration 75; it "
    "falls, from twice the concentration, the largest possible loss, in few dimensions to almost "
    "nothing in many. Dashed: the paper's dimension. Not in the paper as a picture."
)


@drawing
def draw(tables: Tables) -> Figure:
    curves = tables["curves"]
    figure, ((over_kappa, over_p),) = panels(1, 2, 4.4, 3.2)
    for axes, over in ((over_kappa, "concentration"), (over_p, "dimension")):
        lines = curves[curves["over"] == over].groupby("order")
        for colour, (order, line) in zip(itertools.cycle(COLOURS), lines, strict=False):
            axes.plot(line["at"], line["divergence"], color=colour, label=rf"$\alpha$ = {order:g}")
        axes.set(xscale="log", yscale="log", ylabel="Rényi divergence")
    ticks = [5, 25, 75, 200, 500]
    over_kappa.set(xlabel=r"concentration $\kappa$", xticks=ticks, xticklabels=map(str, ticks))
    over_kappa.minorticks_off()
    over_kappa.legend(loc="upper left")
    over_p.axvline(DIMENSION, color=GREY, linestyle="--", linewidth=1.1)
    over_p.set(xlabel="dimension p")
    return figure
