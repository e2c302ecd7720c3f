"""Figure 14: bound and improved attack over q, for several epsilons and prior sizes."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.papers.hayes2023 import equal_epsilon_curves as curves
from companion.papers.hayes2023 import subsampled_attack as subsampled
from companion.study import Context, Tables, Verdict, check, measurement, shared_by
from companion.study.verdicts import STANDARD_ERRORS, rounded
from companion.style import drawing

#: smallest epsilon that counts as large (C-053)
LARGE_EPSILON = 10

PARAMETERS = {
    "epsilons": curves.EPSILONS,
    "rates": curves.rates(curves.COARSE, curves.FINE, "q, where the bound is computed"),
    "attack_rates": curves.rates(
        (0.01, 0.1, 0.99), (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.99), "q, where the attack is run"
    ),
    **subsampled.attack_parameters(50),
}
SETTLES = (*(f"_prior{n}" for n in curves.PRIOR_SIZES), "C-053")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    bound = curves.bound_along(p.epsilons, p.rates, [p.steps], curves.PRIOR_SIZES)
    points = list(itertools.product(p.epsilons, p.attack_rates))
    attack = subsampled.attack_along(study, points, curves.PRIOR_SIZES, max(curves.PRIOR_SIZES))
    return Tables(
        {"bound": curves.with_best_attack(bound), "attack": attack},
        exact=("bound",),
        ran=f"enclosures at {len(p.rates)} values of q; {p.trials} networks for each of "
        f"{len(points)} runs on {subsampled.data_name(study)}, all prior sizes from the same ones.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    bound, attack = tables["bound"], tables["attack"]
    grows = {
        n: all(curves.rises(curve) for _, curve in part.groupby("epsilon"))
        for n, part in bound.groupby("n")
    }
    gains = {n: subsampled.gain(part) for n, part in attack.groupby("n")}
    gained = {n: value > error for n, (value, error) in gains.items()}
    for n, part in attack.groupby("n"):
        panel = check(
            f"hayes2023/fig14_prior{n}",
            grows[n] and gained[n] and subsampled.never_above(part),
            f"{n} candidates: bound and attack grow with q, and no attack is above the bound",
            ours=f"mean gain of the attack over epsilon from q = {part['q'].min():g} to "
            f"{part['q'].max():g}: {rounded(*gains[n])}",
            tolerance=f"{STANDARD_ERRORS:g} standard errors",
            stand_in=tables.stand_in,
        )
        yield from shared_by(panel, "hayes2023/fig14")
    change = _change(bound)
    most = change.idxmax()
    yield check(
        "C-053",
        all(grows.values()) and (most >= LARGE_EPSILON).all(),
        "in all settings the bound is lower at smaller q, and for every prior size it changes "
        f"most at an epsilon of {LARGE_EPSILON:g} or more",
        ours="; ".join(
            f"n = {n}: by {change[n].min():.3f} to {change[n].max():.3f}, most at epsilon = "
            f"{most[n]:g}"
            for n in change
        ),
    )
    yield check(
        "C-053",
        all(gained.values()),
        "the attack succeeds less often at smaller q, on average over epsilon",
        ours="; ".join(f"n = {n}: by {rounded(*gain)}" for n, gain in gains.items()),
        stand_in=tables.stand_in,
    )


def _change(bound: pd.DataFrame) -> pd.DataFrame:
    """How much the bound changes from the smallest to the largest q: epsilon by prior size."""
    ends = bound[bound["q"].isin([bound["q"].min(), bound["q"].max()])]
    return curves.middle(ends).pivot_table(
        index="epsilon", columns="n", values="gamma", aggfunc=np.ptp
    )


CAPTION = (
    "Bound and improved attack over the sampling rate at fixed epsilon, for three prior sizes "
    "(rows), here with a logarithmic axis. The paper does not print its values of epsilon, except "
    "for 32 and, in Figure 5, 4. Added: the likelihood score and the best attack on orthogonal "
    "candidates (dashed). Vertical bars are 95% intervals."
)


def alt(tables: Tables) -> str:
    change = _change(tables["bound"])
    least = change.iloc[0]
    sizes = " and ".join(", ".join(map(str, change.columns)).rsplit(", ", 1))
    return (
        f"Grid of {len(least)} rows of prior sizes {sizes} and one column for each of "
        f"{len(change)} epsilons. In every panel a bound rises with q, steeply at small q; "
        "measured points scatter with their bars about or below the dashed curve under it. At "
        f"epsilon {change.index[0]:g} the bounds are nearly flat, they rise by "
        f"{least.min():.2f} to {least.max():.2f}; the largest rise, of {change.max().max():.2f}, "
        f"is at epsilon {change.max(axis=1).idxmax():g} and {change.max().idxmax()} candidates."
    )


@drawing
def draw(tables: Tables) -> Figure:
    bound, attack = curves.middle(tables["bound"]), tables["attack"]
    figure, grid = curves.panel_grid(bound, 2.5, "success")
    for (epsilon, n), axes in grid.items():
        limit, found = (t[(t["epsilon"] == epsilon) & (t["n"] == n)] for t in (bound, attack))
        subsampled.draw_over_rates(axes, limit, found)
        axes.set_ylim(0, min(1.15 * max(limit["gamma"].max(), found["high"].max()), 1.05))
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure
