"""Figure 14: bound and improved attack over q, for several epsilons and prior sizes."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import equal_epsilon_curves as curves
from companion.papers.hayes2023 import subsampled_attack as subsampled
from companion.papers.hayes2023.success_intervals import error_bars

#: smallest epsilon that counts as large (C-053)
LARGE_EPSILON = 10

PARAMETERS = {
    "epsilons": curves.EPSILONS,
    "rates": curves.rates(curves.COARSE, curves.FINE, "q, where the bound is computed"),
    "attack_rates": curves.rates(
        (0.01, 0.99), (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.99), "q, where the attack is run"
    ),
    **subsampled.attack_parameters(40),
}
SETTLES = (*(f"_prior{n}" for n in curves.PRIOR_SIZES), "C-053")
ALTERED = {
    "bound": {("gamma from", "gamma to"): "bounds"},
    "attack": {"success": ("successes", at("q == q.max()", "successes at the largest q"))},
}
SCENARIOS = (
    scenario(
        "small and large epsilon exchanged for the bound",
        frame("bound", lambda t: t.assign(epsilon=t["epsilon"].max() / t["epsilon"])),
        "C-053",
    ),
)


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
        f"{len(points)} runs on {data_name(p.data)}, all prior sizes from the same ones.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    bound, attack = tables["bound"], tables["attack"]
    grows = {
        n: all(curves.rises(curve) for _, curve in part.groupby("epsilon"))
        for n, part in bound.groupby("n")
    }
    gains = {n: subsampled.gain(part) for n, part in attack.groupby("n")}
    gained = {n: subsampled.gains(part) for n, part in attack.groupby("n")}
    for n, part in attack.groupby("n"):
        panel = check(
            f"hayes2023/fig14_prior{n}",
            grows[n] and subsampled.never_above(part) and gained[n],
            f"{n} candidates: bound and attack grow with q, and no attack is significantly above "
            "the bound",
            ours=f"mean gain of the attack over epsilon from q = {part['q'].min():g} to larger q: "
            f"{rounded(*gains[n])}",
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
        every(*gained.values()),
        "the attack succeeds less often at the smallest q, on average over epsilon",
        ours="; ".join(f"n = {n}: by {rounded(*gain)}" for n, gain in gains.items()),
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
        stand_in=tables.stand_in,
    )


def _change(bound: pd.DataFrame) -> pd.DataFrame:
    """How much the bound changes from the smallest to the largest q: epsilon by prior size."""
    ends = bound[bound["q"].isin([bound["q"].min(), bound["q"].max()])]
    return curves.middle(ends).pivot_table(
        index="epsilon", columns="n", values="gamma", aggfunc=np.ptp
    )


CAPTION = (
    "Bound and improved attack over the sampling rate at fixed epsilon, a panel for each prior "
    "size, a colour for each of up to four "
    "epsilons, here with a logarithmic axis. The paper does not print its "
    "values of epsilon, except for 32 and, in Figure 5, 4. Added: the likelihood score and the "
    "best attack on orthogonal candidates (dashed). Vertical bars are 95% intervals."
)


@drawing
def draw(tables: Tables) -> Figure:
    bound, attack = curves.middle(tables["bound"]), tables["attack"]
    colours = curves.shades(bound)
    figure, (row,) = panels(1, bound["n"].nunique(), 2.8, 3.4)
    for axes, n in curves.size_panels(bound, row):
        most = 0.0
        for epsilon, colour in colours.items():
            limit, found = (t[(t["epsilon"] == epsilon) & (t["n"] == n)] for t in (bound, attack))
            axes.plot(limit["q"], limit["gamma"], color=colour)
            axes.plot(limit["q"], limit["best attack"], "--", color=colour, lw=1.1)
            for shift, (score, (_, marker, _)) in zip(
                (0.95, 1.05), subsampled.SCORES.items(), strict=True
            ):
                part = found[found["score"] == score]
                face = colour if score == "likelihood" else "white"
                look = {"fmt": marker, "ms": 4.5, "color": colour, "mfc": face, "elinewidth": 0.7}
                error_bars(axes, part["q"] * shift, part, **look)
            most = max(most, limit["gamma"].max(), found["success"].max())
        # bars of few trials may be longer than the axis
        axes.set_ylim(0, min(1.15 * most, 1.04))
    handles = [
        *curves.epsilon_entries(colours),
        legend_line("bound", GREY),
        legend_line("best, orthogonal candidates", GREY, "--"),
        legend_line("Algorithm 3", GREY, "", "o", mfc="white"),
        legend_line("likelihood", GREY, "", "s"),
    ]
    legend_above(figure, handles, 4)
    return figure
