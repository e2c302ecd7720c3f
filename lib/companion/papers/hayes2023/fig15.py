"""Figure 15: the bound along the curves of equal epsilon, for several epsilons and prior sizes."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import equal_epsilon_curves as curves
from companion.papers.hayes2023.equal_epsilon import DELTA

PARAMETERS = {
    "epsilons": curves.EPSILONS,
    "rates": curves.rates(curves.COARSE, curves.FINE, "q, where the bound is computed"),
    "steps": curves.STEPS,
}
SETTLES = (*(f"_prior{n}" for n in curves.PRIOR_SIZES), "C-054", "C-058")
#: how near the printed approximation of epsilon must come, relative, and where
NEAR, SMALL_EPSILON, LARGE_RATE = 0.15, 1, 0.1

ALTERED = {
    "bound": {
        "sigma": (
            at("q > 0.98", "noise multipliers at q = 0.99"),
            at("epsilon == 1", "noise multipliers at epsilon = 1"),
        ),
        ("gamma from", "gamma to"): (
            "bounds",
            at("q > 0.98", "bounds at q = 0.99"),
            at("q < 0.015", "bounds at q = 0.01"),
        ),
    }
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    bound = curves.bound_along(p.epsilons, p.rates, [p.steps], curves.PRIOR_SIZES)
    return Tables(
        {"bound": bound},
        exact=("bound",),
        ran=f"enclosures of gamma for {len(bound)} runs and prior sizes.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    bound = curves.middle(tables["bound"])
    ordered = bound.sort_values("q").groupby(["epsilon", "n"])
    yield check(
        "hayes2023/fig15",
        all((np.diff(curve["sigma"]) > 0).all() for _, curve in ordered),
        "at equal epsilon a larger sampling rate needs more noise",
        ours=f"{bound['epsilon'].nunique()} epsilons, {bound['q'].nunique()} values of q",
    )
    for n, part in bound.groupby("n"):
        lines = part.groupby("epsilon")
        grows = check(
            f"hayes2023/fig15_prior{n}",
            all(curves.rises(curve) for _, curve in lines),
            f"{n} candidates: the bound grows with q along every curve of equal epsilon",
            ours="; ".join(
                f"epsilon = {epsilon:g}: {curve['gamma'].min():.3f} to {curve['gamma'].max():.3f}"
                for epsilon, curve in lines
            ),
        )
        yield from shared_by(grows, "hayes2023/fig15")
    yield _caption_values(bound)
    yield _approximation(bound, tables.parameters.steps)


def _approximation(bound: pd.DataFrame, steps: int) -> Verdict:
    """C-058: the order that Section 2 gives epsilon, beside the certified one."""
    runs = bound.drop_duplicates(["epsilon", "q"])
    share = runs["q"] * math.sqrt(steps * math.log(1 / DELTA)) / runs["sigma"] / runs["epsilon"]
    meant = (runs["epsilon"] <= SMALL_EPSILON) & (runs["q"] >= LARGE_RATE)
    return check(
        "C-058",
        meant.any() and (share[meant] - 1).abs().max() < NEAR and share.max() < 1,
        f"q sqrt(T log(1/delta)) / sigma is epsilon to within {NEAR:.0%} up to epsilon = "
        f"{SMALL_EPSILON} and from q = {LARGE_RATE:g} on; elsewhere it is too small",
        ours=f"{share[meant].min():.2f} to {share[meant].max():.2f} of epsilon there, "
        f"{share.min():.2f} at least",
        tolerance=f"{NEAR:.0%}",
    )


def _caption_values(bound: pd.DataFrame) -> Verdict:
    """C-054: the two values that the caption names."""
    statement = "at epsilon = 32 and 100 candidates the bound is 0.4 at q = 0.01 and 1 at q = 0.99"
    curve = bound[np.isclose(bound["epsilon"], 32) & (bound["n"] == 100)]
    low, high = (curve.loc[np.isclose(curve["q"], rate), "gamma"] for rate in (0.01, 0.99))
    if low.empty or high.empty:
        needs = "epsilon = 32 among the epsilons, q = 0.01 and 0.99 among the rates"
        return not_run("C-054", statement, needs)
    named = registry.printed("hayes2023/fig15").set_index("condition")["value"]
    return check(
        "C-054",
        abs(low.iloc[0] - float(named["q=0.01"])) < 0.05
        and abs(high.iloc[0] - float(named["q=0.99"])) < 0.01,
        statement,
        ours=f"{low.iloc[0]:.4f} at q = 0.01, {high.iloc[0]:.4f} at q = 0.99",
        paper=f"{named['q=0.01']}, {named['q=0.99']}",
        tolerance="half a unit of the last printed digit; 0.01 for the 1",
    )


CAPTION = (
    "Top: noise multiplier over sampling rate at fixed epsilon, with the bound as a colour, for "
    "three prior sizes; below, the bound itself along these curves. There the axis of q is "
    "logarithmic, because most of the change is at small q. The paper names two values: 0.4 "
    "and 1, at the ends of the curve for epsilon = 32 and 100 candidates."
)


@drawing
def draw(tables: Tables) -> Figure:
    bound = curves.middle(tables["bound"])
    colours = curves.shades(bound)
    figure, (above, below) = panels(2, len(curves.PRIOR_SIZES), 2.8, 2.5)
    shown = bound[bound["epsilon"].isin(colours)]
    for top, (bottom, n) in zip(above, curves.size_panels(bound, below), strict=True):
        for epsilon, curve in shown[shown["n"] == n].groupby("epsilon"):
            look: dict[str, Any] = {"color": colours[epsilon], "marker": "o", "ms": 3.5}
            bottom.plot(curve["q"], curve["gamma"], **look)
            lines = curves.coloured_curve(top, curve, "gamma", Normalize(0, 1))
            top.text(1.05, curve["sigma"].iloc[-1], f"{epsilon:g}", fontsize=8, va="center")
        bottom.set(ylim=(0, None), title="")
        top.set(yscale="log", ylim=(0.2, 60), xlim=(-0.04, 1.14), title=f"{n} candidates")
        top.set_xlabel("sampling rate q")
    above[0].set_ylabel(r"noise multiplier $\sigma$")
    figure.colorbar(lines, ax=above[-1], label="success")
    legend_above(figure, curves.epsilon_entries(colours), len(colours))
    return figure
