"""Paper D's capacity against paper C's bound, for a uniform prior on n candidates and one step."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize

from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.style import BLACK, COLOURS, GREY, drawing, panels
from reconrisk import bounds

_OURS = "not printed: our own"
_SIZES, _SIGMAS, _COUNTS = (64, 760, 13_700), (0.3, 1.0, 3.0), (2, 5, 20, 100, 500, 2000)
PARAMETERS = {
    "dimensions": Parameter("ints", _SIZES, _SIZES, _OURS, "p, smallest first", low=2),
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", 0.05),
    "prior_sizes": Parameter("ints", _COUNTS, _COUNTS, _OURS, "n, besides p itself", low=2),
    "room": Parameter("float", 0.01, 0.01, _OURS, "distance of crossing from limit, relative", 0),
}
SETTLES = ("O-055",)
FALSIFIERS = (
    graded("a best attack {} better", column("gains", "best attack", lambda c, by: c * (1 + by))),
    graded("a ReRo bound {} smaller", column("gains", "ReRo", lambda c, by: c * (1 - by))),
    world(
        "a capacity below what the best attack gains",
        frame("gains", lambda t: t.assign(capacity=np.sqrt(t["best attack"]))),
    ),
    world(
        "capacity and ReRo exchanged",
        frame("gains", lambda t: t.rename(columns={"ReRo": "capacity", "capacity": "ReRo"})),
        "O-055",
    ),
    graded(
        "a crossing in the largest dimension {} lower",
        column("crossings", "crossing", lambda c, by: c * (1 - by), "p == p.max()"),
        "O-055",
    ),
    graded(
        "a crossing in the largest dimension {} higher",
        column("crossings", "crossing", lambda c, by: c * (1 + by), "p == p.max()"),
        "O-055",
    ),
    world(
        "crossings at half the closed form",
        frame("crossings", lambda t: t.assign(crossing=t["limit"] / 2)),
        "O-055",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    gains, crossings = [], []
    for dimension, sigma in itertools.product(p.dimensions, p.noise_multipliers):
        capacity = float(bounds.bayes_capacity_gaussian(dimension, sigma, 1.0))
        for n in sorted({n for n in p.prior_sizes if n <= dimension} | {dimension}):
            best = n * float(bounds.bayes_success(1 / sigma, n))
            allowed = n * float(bounds.rero_gaussian(sigma, 1 / n))
            gains.append((dimension, sigma, n, best, allowed, math.exp(min(capacity, 300))))
        at = crossing(dimension, sigma)
        crossings.append((dimension, sigma, at, crossing_limit(dimension, sigma)))
    return Tables(
        {
            "gains": pd.DataFrame(
                gains, columns=["p", "sigma", "n", "best attack", "ReRo", "capacity"]
            ),
            "crossings": pd.DataFrame(crossings, columns=["p", "sigma", "crossing", "limit"]),
        },
        ran="closed forms and roots; candidates are orthogonal, of clipping norm one, in one step.",
    )


def crossing(dimension: int, noise_multiplier: float) -> float:
    """Minus the log of the prior success at which capacity and ReRo bound one step equally.

    Capacity allows ``kappa exp(C)``, ReRo ``Phi(Phi^-1(kappa) + 1/sigma)``; below this prior
    success ``kappa`` capacity is the sharper bound.
    """
    capacity = float(bounds.bayes_capacity_gaussian(dimension, noise_multiplier, 1.0))

    def excess(nats: float) -> float:
        allowed = float(bounds.rero_gaussian(noise_multiplier, log_prior_success=-nats, log=True))
        return allowed + nats - capacity

    most = 10 * crossing_limit(dimension, noise_multiplier) + 10 * capacity
    return float(optimize.brentq(excess, 1.0001 * capacity, most))


def crossing_limit(dimension: float, noise_multiplier: float) -> float:
    """The crossing in many dimensions, ``(sqrt(p) + 1/(4 sigma))^2 / 2``."""
    return 0.5 * (math.sqrt(dimension) + 0.25 / noise_multiplier) ** 2


def judge(tables: Tables) -> Iterator[Verdict]:
    p, gains, crossings = tables.parameters, tables["gains"], tables["crossings"]
    held = gains["best attack"] <= gains[["ReRo", "capacity"]].min(axis=1) * (1 + 1e-9)
    sharper = (gains["ReRo"] < gains["capacity"]) | (gains["capacity"] > gains["n"])
    yield check(
        "beyond/capacity_and_rero",
        held.all(),
        "the gain of the best attack over a guess among n equally likely orthogonal candidates, "
        "itself a capacity, is at most the Bayes capacity of the ball and at most what ReRo allows",
        ours=f"{held.sum()} of {len(gains)} settings; ReRo is sharper or capacity exceeds n at "
        f"{sharper.sum()}",
    )
    ratio = crossings["crossing"] / crossings["limit"]
    largest = ratio.groupby(crossings["p"]).max()
    yield check(
        "O-055",
        (ratio > 1).all()
        and largest.iloc[-1] < 1 + p.room
        and (np.diff(largest) < 0).all()
        and sharper.all(),
        "for one step capacity is the sharper bound only where the prior success is below "
        "exp(-(sqrt(p) + 1/(4 sigma))^2 / 2), which no list of at most p candidates reaches",
        ours="-ln kappa at the crossing over this formula: "
        + ", ".join(f"{value:.3f} (p = {size:,})" for size, value in largest.items()),
        tolerance=f"1 to {1 + p.room:g} in the largest dimension",
    )


CAPTION = (
    "One step, a uniform prior on n orthogonal candidates. Left: gain over a guess of the best "
    "attack (dots), as ReRo allows, and as Bayes' capacity allows, which is the same for every n; "
    "on the dashed line the attack always succeeds. Right: the prior success below which capacity "
    "is the sharper bound, as minus its logarithm over the number p of released values; lines are "
    "the closed form."
)


@drawing
def draw(tables: Tables) -> Figure:
    gains, crossings = tables["gains"], tables["crossings"]
    figure, (row,) = panels(1, 2, 4.6, 3.4)
    sizes = sorted(gains["p"].unique())
    shown = sizes[min(1, len(sizes) - 1)]
    own = gains[gains["p"] == shown]
    fine = np.geomspace(sizes[0] / 1.5, sizes[-1] * 1.5, 60)
    for colour, (sigma, line) in zip(COLOURS, own.groupby("sigma"), strict=False):
        label = rf"$\sigma$ = {sigma:g}"
        row[0].plot(line["n"], line["best attack"], "o", color=colour, ms=4, label=label)
        row[0].plot(line["n"], line["ReRo"], color=colour)
        row[0].axhline(line["capacity"].iloc[0], color=colour, linestyle=":", lw=1.3)
        at = crossings[crossings["sigma"] == sigma]
        row[1].plot(fine, [crossing_limit(p, sigma) / p for p in fine], color=colour, lw=1.2)
        row[1].plot(at["p"], at["crossing"] / at["p"], "o", color=colour, mfc="none", label=label)
    row[0].plot(own["n"], own["n"], "--", color=BLACK, lw=1, label="certainty")
    for style, label in (("-", "ReRo"), (":", "capacity")):
        row[0].plot([], [], color=GREY, linestyle=style, label=label)
    row[0].set(xscale="log", yscale="log", ylim=(0.9, 1e14), title=f"p = {shown:,}")
    row[0].set(xlabel="candidates n", ylabel="gain over a guess")
    row[0].legend(loc="upper left", fontsize=8, ncols=2)
    row[1].set(xscale="log", xlabel="released values p")
    row[1].set_ylabel(r"$-\ln\kappa$ at the crossing, over p")
    row[1].legend(loc="upper right")
    return figure
