"""Figure 11: three bounds on the advantage over sigma, and what an attack can reach."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize

from companion.exhibit import *
from companion.papers.hayes2023 import unprinted
from companion.papers.hayes2023.fano_bounds import GUO, GUO_MC, OURS, advantages, printed_cells
from reconrisk import bounds

PARAMETERS = {
    "prior_size": Parameter("int", 10, 10, "10", "n, uniform prior", low=2),
    "least_noise": unprinted.number(0.25, "smallest sigma drawn", low=0.05),
    "most_noise": unprinted.number(3.0, "largest sigma drawn", low=0.1),
    "points": unprinted.count(56, 111, "values of sigma", low=3),
}
ORTHOGONAL, SIMPLEX = "best attack, orthogonal", "best attack, simplex"
ALTERED = {
    "curves": {
        "Ours": "new bounds",
        "best attack, orthogonal": "successes with orthogonal candidates",
        "best attack, simplex": "successes with candidates on the simplex",
    }
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    n = p.prior_size
    sigma = np.linspace(p.least_noise, p.most_noise, p.points)
    attacks = {
        name: bounds.advantage(bounds.bayes_success(1 / sigma, n, cosine), 1 / n)
        for name, cosine in ((ORTHOGONAL, 0.0), (SIMPLEX, -1 / (n - 1)))
    }
    printed = printed_cells().query("n == @n")[["sigma", "bound", "printed"]]
    return Tables(
        {
            "curves": pd.DataFrame({"sigma": sigma, **advantages(sigma, n), **attacks}),
            "printed": printed.astype({"printed": float}),
            "crossing": pd.DataFrame({"sigma": [_crossing(n)]}),
        },
        exact=("curves",),
        ran=f"closed forms and quadrature for a uniform prior of {n}, one full-batch step.",
    )


def _crossing(n: int) -> float:
    """The sigma below which Fano's bound for orthogonal candidates is the lower one."""

    def gap(sigma: float) -> float:
        values = advantages(np.array([sigma]), n)
        return float(values[OURS][0] - values[GUO_MC][0])

    low, high = 0.2, 0.5
    return float(optimize.brentq(gap, low, high, xtol=1e-6)) if gap(high) < 0 else high


def judge(tables: Tables) -> Iterator[Verdict]:
    curves = tables["curves"]
    tabled = curves[curves["sigma"] >= printed_cells()["sigma"].min()]
    reached = curves[ORTHOGONAL] / curves[OURS]
    yield check(
        "hayes2023/fig11",
        (tabled[OURS] < tabled[[GUO, GUO_MC]].min(axis=1)).all()
        and (curves[[ORTHOGONAL, SIMPLEX]].max(axis=1) < curves[OURS]).all()
        and (curves[ORTHOGONAL] < curves[GUO_MC]).all(),
        "over Table 2's range of sigma the new bound on the advantage is below both others, and "
        "everywhere above the best attacks",
        ours=f"{len(curves)} values of sigma; the best attack on orthogonal candidates reaches "
        f"{reached.min():.2f} to {reached.max():.2f} of it; below sigma = "
        f"{tables['crossing']['sigma'][0]:.3f} the mutual information of orthogonal candidates, "
        "which uses their angle, gives the lower bound",
    )


CAPTION = (
    "Bounds on the advantage after one full-batch step against ten candidates, over the noise "
    "multiplier: the paper's own and two from Fano's inequality after Guo et al. (2022b). "
    "Hollow: the numbers of Table 2. Lines are exact here; the paper sampled two of them. Added: "
    "the best attack on orthogonal candidates. Right: each bound minus that attack. The paper's "
    "bound is the lowest except at very small noise, where the bound from the mutual information "
    "of orthogonal candidates, which uses their angle, is lower."
)


LINES = {
    GUO: (ORANGE, "Fano, closed bound on the information"),
    GUO_MC: (GREEN, "Fano, information of orthogonal candidates"),
    OURS: (BOUND, "Corollary 4"),
}


@drawing
def draw(tables: Tables) -> Figure:
    curves, printed = tables["curves"], tables["printed"]
    figure, ((left, right),) = panels(1, 2, 4.4, 3.3)
    sigma, attack = curves["sigma"], curves[ORTHOGONAL]
    for name, (colour, label) in LINES.items():
        left.plot(sigma, curves[name], color=colour, label=label)
        right.plot(sigma, curves[name] - attack, color=colour)
        cells = printed[printed["bound"] == name]
        mark_printed(left, cells["sigma"], cells["printed"], colour)
    left.plot(sigma, attack, "--", color=GREY, label="best attack (orthogonal)")
    mark_printed(left, [], [], label="printed (Table 2)")
    left.set(xlabel=r"noise multiplier $\sigma$", ylabel="advantage", ylim=(0, 1.02))
    right.set(xlabel=r"noise multiplier $\sigma$", ylabel="bound minus best attack", ylim=(0, None))
    figure.legend(loc="outside upper center", ncols=3)
    return figure
