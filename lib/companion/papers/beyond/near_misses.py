"""How likely is a near miss: paper A's tail, what any use of it attains, and paper C's bound."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from scipy import optimize

from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.style import BLUE, GREEN, ORANGE, PURPLE, drawing, panels
from reconrisk import bounds

_OURS = "not printed: our own"
_SIZES, _SCALES = (64, 784, 10_000, 150_528), (0.5, 1.0, 2.0)
_SHARES = (0.003, 0.01, 0.03, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
PARAMETERS = {
    "dimensions": Parameter("ints", _SIZES, _SIZES, _OURS, "N, smallest first", low=3),
    "scales": Parameter("floats", _SCALES, _SCALES, _OURS, "a", low=0.1),
    "shares": Parameter("floats", _SHARES, _SHARES, _OURS, "MSE over mean square", low=1e-12),
    "room": Parameter("float", 0.01, 0.01, _OURS, "relative distance of medians from limits", 0),
}
SETTLES = ("O-054",)
#: at shares this far from a threshold, relative, near misses are rare or nearly certain
BESIDE = 0.1
RARE = 0.01
FALSIFIERS = (
    *(
        graded(
            f"a log-probability of {name} {{}} nearer to zero",
            column("exponents", law, lambda c, by: c * (1 - by)),
        )
        for name, law in (
            ("the row mean", "row mean (A)"),
            ("the shrunken row mean", "shrunken"),
            ("any use of the release", "any use of it"),
        )
    ),
    world(
        "the two bounds exchanged",
        frame(
            "exponents",
            lambda t: t.rename(
                columns={"any use of it": "any network (C)", "any network (C)": "any use of it"}
            ),
        ),
    ),
    graded(
        "medians at the largest N {} larger",
        column("thresholds", "median", lambda c, by: c * (1 + by), "N == N.max()"),
        "O-054",
    ),
    world(
        "medians that do not move as N grows",
        frame("thresholds", lambda t: _as_at_first(t)),
        "O-054",
    ),
    world(
        "paper C's threshold where that of any use is",
        frame("thresholds", lambda t: t.assign(limit=t["limit"].where(*_not_c(t)))),
        "O-054",
    ),
    world(
        "probabilities that change as slowly at the largest N as at the smallest",
        frame("exponents", lambda t: _as_slow_as_first(t)),
        "O-054",
    ),
)


def _limit_of_shrunken(scale: float) -> float:
    return scale**2 / (1 + scale**2)


#: the four laws of a near miss, in the order in which their thresholds fall, and the share of the
#: record's mean square at which each goes from zero to one as the dimension grows
LAWS: dict[str, tuple[Callable[..., np.ndarray], Callable[[float], float]]] = {
    "row mean (A)": (bounds.mse_tail, lambda a: a**2),
    "shrunken": (bounds.mse_tail_shrunk, _limit_of_shrunken),
    "any use of it": (bounds.mse_tail_sphere, _limit_of_shrunken),
    "any network (C)": (bounds.rero_sphere, lambda a: math.exp(-1 / a**2)),
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    exponents = [
        {"N": n, "scale": a, "share": t} | {law: log_tail(law, t, n, a) / n for law in LAWS}
        for n, a, t in itertools.product(p.dimensions, p.scales, p.shares)
    ]
    thresholds = [
        {"N": n, "scale": a, "law": law, "median": median(law, n, a), "limit": LAWS[law][1](a)}
        for n, a, law in itertools.product(p.dimensions, p.scales, LAWS)
    ]
    return Tables(
        {"exponents": pd.DataFrame(exponents), "thresholds": pd.DataFrame(thresholds)},
        ran="closed forms in logarithms; records on a sphere, with its uniform law as the prior.",
    )


def log_tail(law: str, share: float, dimension: int, scale: float) -> float:
    """Log-probability of an MSE of at most ``share`` of the record's mean square."""
    sigma = scale / math.sqrt(dimension)
    return float(LAWS[law][0](share / dimension, dimension, sigma, 1.0, log=True))


def median(law: str, dimension: int, scale: float) -> float:
    """The share at which a law is one half."""

    def above(log_share: float) -> float:
        return log_tail(law, math.exp(log_share), dimension, scale) + math.log(2.0)

    # just below the record's mean square, at which the zero picture succeeds
    most = 20.0 if law in ("row mean (A)", "shrunken") else -1e-9
    return math.exp(optimize.brentq(above, -60.0, most, xtol=1e-12))


def _as_at_first(table: pd.DataFrame) -> pd.DataFrame:
    """The thresholds with the medians of the smallest dimension in all."""
    first = table[table["N"] == table["N"].min()].set_index(["scale", "law"])["median"]
    keys = pd.MultiIndex.from_frame(table[["scale", "law"]])
    return table.assign(median=first.loc[keys].to_numpy())


def _not_c(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Rows of other laws than paper C's, and the limit of any use of the release."""
    return table["law"] != "any network (C)", _limit_of_shrunken(table["scale"])


def _as_slow_as_first(table: pd.DataFrame) -> pd.DataFrame:
    """The exponents of the largest dimension from the log-probabilities of the smallest."""
    small, large = table["N"].min(), table["N"].max()
    first = table.loc[table["N"] == small, list(LAWS)].to_numpy()
    table.loc[table["N"] == large, list(LAWS)] = first * small / large
    return table


def _away_from_thresholds(table: pd.DataFrame, thresholds: pd.DataFrame) -> tuple[float, float]:
    """The largest probability below, the least above all thresholds, at the largest dimension."""
    size = table["N"].max()
    most, least = 0.0, 1.0
    limits = thresholds[thresholds["N"] == size].set_index(["scale", "law"])["limit"]
    own = table[table["N"] == size]
    for law in LAWS:
        ratio = own["share"] / limits[[(a, law) for a in own["scale"]]].to_numpy()
        probability = np.exp(size * own[law])
        most = max(most, probability[ratio < 1 - BESIDE].max())
        least = min([least, *probability[ratio > 1 + BESIDE]])
    return most, least


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table, thresholds = tables.parameters, tables["exponents"], tables["thresholds"]
    # rounding in logarithms of this size
    room = 1e-12 * table[list(LAWS)].abs().max(axis=1)
    pairs = (
        ("row mean (A)", "any use of it"),
        ("shrunken", "any use of it"),
        ("any use of it", "any network (C)"),
    )
    held = sum((table[lower] <= table[upper] + room).sum() for lower, upper in pairs)
    yield check(
        "beyond/near_misses",
        held == 3 * len(table),
        "on the sphere paper A's tail and its shrunken version lie below the bound for every use "
        "of the released picture, and this bound below paper C's with the prior success of a ball",
        ours=f"{held} of {3 * len(table)} log-probabilities in order",
    )
    off = (thresholds["median"] / thresholds["limit"] - 1).abs().groupby(thresholds["N"]).max()
    most, least = _away_from_thresholds(table, thresholds)
    limits = {law: own["limit"].to_numpy() for law, own in thresholds.groupby("law")}
    yield check(
        "O-054",
        (np.diff(off) < 0).all()
        and off.iloc[-1] < p.room
        and most < RARE
        and least > 1 - RARE
        and (limits["any network (C)"] < limits["shrunken"]).all(),
        "as N grows with N sigma^2 = a^2 fixed, the medians tend to a^2, a^2/(1 + a^2) (twice) "
        "and, below these, exp(-1/a^2) of the record's mean square; at the largest N near misses "
        f"are rare {BESIDE:.0%} below a threshold and nearly certain {BESIDE:.0%} above it",
        ours="at the largest N probabilities below a threshold at most "
        f"{max(most, 1e-99):.0e}, above it at least {least:.4f}; medians off by at most "
        + ", ".join(f"{value:.1g} (N = {n:,})" for n, value in off.items()),
        tolerance=f"{p.room:g} in the largest dimension",
    )


CAPTION = (
    "How likely is a reconstruction whose MSE is a given share of the record's mean square? Left: "
    "log-probability per dimension for the smallest and largest N (thin and thick), at one noise "
    "level: paper A's row mean, its shrunken version, the bound for every use of the released "
    "picture, and paper C's with a ball prior. Right: the share at which each law is one half, "
    "over the noise; lines are the limits for many dimensions."
)


def _shown_scale(table: pd.DataFrame) -> float:
    scales = sorted(table["scale"].unique())
    return float(scales[len(scales) // 2])


_LOOKS = {
    "row mean (A)": (BLUE, "-", "o"),
    "shrunken": (GREEN, "--", "s"),
    "any use of it": (PURPLE, "-", "^"),
    "any network (C)": (ORANGE, "-", "v"),
}


@drawing
def draw(tables: Tables) -> Figure:
    table, thresholds = tables["exponents"], tables["thresholds"]
    figure, (row,) = panels(1, 2, 4.6, 3.4)
    smallest, largest = table["N"].min(), table["N"].max()
    shown = table[table["scale"] == _shown_scale(table)]
    fine = np.geomspace(table["scale"].min() / 1.3, table["scale"].max() * 1.3, 80)
    for law, (colour, style, marker) in _LOOKS.items():
        for size, width in ((smallest, 0.9), (largest, 2.0)):
            own, label = shown[shown["N"] == size], law if size == largest else None
            look = {"color": colour, "linestyle": style, "lw": width}
            row[0].plot(own["share"], own[law], label=label, **look)
        limits = [LAWS[law][1](a) for a in fine]
        row[1].plot(fine, limits, color=colour, linestyle=style, lw=1.2)
        own = thresholds[(thresholds["law"] == law) & (thresholds["N"] == largest)]
        row[1].plot(own["scale"], own["median"], marker, color=colour, ms=6, mfc="none", label=law)
    row[0].set(xscale="log", ylim=(-2.6, 0.1), ylabel="log-probability / N")
    row[0].set_xlabel("MSE as a share of the mean square")
    row[1].set(xscale="log", yscale="log", xlabel=r"$a = \sigma\sqrt{N}$")
    scales = sorted(thresholds["scale"].unique())
    row[1].set_xticks(scales, [f"{scale:g}" for scale in scales])
    row[1].xaxis.set_minor_locator(NullLocator())
    row[1].set_ylabel("share at which the law is one half")
    for axis in row:
        axis.legend(loc="lower right")
    return figure
