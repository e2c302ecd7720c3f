"""Paper B's worst case, paper C's certified bound and the power of a membership test."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special as scipy_special

from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import within
from companion.style import COLOURS, GREY, drawing, legend_below, legend_line, panels
from reconrisk import DPSGD, bounds

_OURS = "not printed: our own"
_LEVELS, _RATES, _SIGNALS = (1e-3, 0.1, 0.5), (0.01, 0.3, 1.0), (0.5, 2.0)
PARAMETERS = {
    "steps": Parameter("ints", (1, 30), (1, 30, 1000), _OURS, "T, steps", low=1),
    "signals": Parameter("floats", _SIGNALS, _SIGNALS, _OURS, "sqrt(T)/sigma", low=1e-3),
    "rates": Parameter("floats", _RATES, _RATES, _OURS, "q", low=1e-6),
    "points": Parameter("int", 30, 30, _OURS, "values of q on a curve", low=2),
    "levels": Parameter("floats", _LEVELS, _LEVELS, _OURS, "prior success", low=1e-9),
    "samples": Parameter("int", 100_000, 100_000, _OURS, "simulated runs of each kind", low=1000),
    "dimension": Parameter("int", 6, 6, _OURS, "released values of a simulated run", low=2),
}
SETTLES = ("O-053",)
#: of a share, over its root: twice what 100,000 draws need
MARGIN = 0.025
#: relative width of an enclosure without sub-sampling, a closed form
WIDTH = 1e-6
FALSIFIERS = (
    graded(
        "a certified bound of the full batch {} smaller",
        column("bounds", "upper", lambda c, by: c * (1 - by), "q == 1"),
        "",
        "O-053",
    ),
    graded(
        "an enclosure of the full batch {} wide",
        column("bounds", "upper", lambda c, by: c * (1 + by), "q == 1"),
        "",
        "O-053",
    ),
    world(
        "sub-sampling lowers nothing",
        frame("bounds", lambda t: t.assign(upper=t["closed form"], lower=t["closed form"])),
        "O-053",
    ),
    world(
        "more sampling is safer",
        frame("bounds", lambda t: _rates_exchanged(t)),
        "O-053",
    ),
    graded("a power {} lower", column("tests", "power", lambda c, by: c * (1 - by)), "O-053"),
    graded(
        "a test {} above the worst case",
        column("tests", "power", lambda c, by: c + by),
        "O-053",
        unit="",
    ),
    world(
        "a test that guesses",
        frame("tests", lambda t: t.assign(power=t["kappa"])),
        "O-053",
    ),
    graded(
        "false positives {} more frequent",
        column("tests", "false positives", lambda c, by: c * (1 + by)),
        "O-053",
        most=2.0,
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows, curves, tests = [], [], []
    for steps, signal in itertools.product(p.steps, p.signals):
        sigma = math.sqrt(steps) / signal
        closed = {k: float(bounds.rero_gaussian(sigma, k, steps=steps)) for k in p.levels}
        for q, kappa in itertools.product(p.rates, p.levels):
            found = bounds.rero(DPSGD(sigma, q, steps), kappa)
            rows.append((steps, signal, q, kappa, found.lower, found.upper, closed[kappa]))
        for q, kappa in itertools.product(np.geomspace(min(p.rates), 1, p.points), p.levels):
            upper = bounds.rero(DPSGD(sigma, float(q), steps), kappa).upper
            curves.append((steps, signal, q, kappa, upper))
        run = DPSGD(sigma, steps=steps)
        inside, outside = (
            adaptive_scores(run, present, p.samples, p.dimension, study.rng(name, steps))
            for present, name in ((True, "in"), (False, "out"))
        )
        for kappa in p.levels:
            cut = float(-scipy_special.ndtri(kappa))
            power, false = float(np.mean(inside > cut)), float(np.mean(outside > cut))
            errors = (_error(share, p.samples) for share in (closed[kappa], kappa))
            tests.append((steps, signal, kappa, closed[kappa], power, false, *errors))
    columns = ["T", "signal", "q", "kappa", "lower", "upper", "closed form"]
    tested = ["T", "signal", "kappa", "closed form", "power", "false positives"]
    tested += ["standard error of power", "standard error of false positives"]
    return Tables(
        {
            "bounds": pd.DataFrame(rows, columns=columns),
            "curves": pd.DataFrame(curves, columns=["T", "signal", "q", "kappa", "upper"]),
            "tests": pd.DataFrame(tests, columns=tested),
        },
        ran=f"{len(rows)} runs of DP-SGD; tests on {p.samples:,} runs each, with and without the "
        "record.",
    )


def adaptive_scores(
    run: DPSGD, present: bool, count: int, dimension: int, rng: np.random.Generator
) -> np.ndarray:
    """Scores of the most powerful membership test on gradients that depend on the past, (count,).

    At every step the record's gradient is the direction of what was released before (the first
    axis at the first step), with norm ``C = 1``: chosen late, as training chooses it. The score is
    ``sum_t <g_t, y_t> / (sigma sqrt(T))``.
    """
    gradient = np.zeros((count, dimension))
    gradient[:, 0] = 1.0
    scores = np.zeros(count)
    for _ in range(run.steps):
        noise = run.noise_multiplier * rng.standard_normal((count, dimension))
        released = gradient * present + noise
        scores += np.einsum("kd,kd->k", gradient, released)
        gradient = released / np.linalg.norm(released, axis=1, keepdims=True)
    return scores / (run.noise_multiplier * math.sqrt(run.steps))


def _error(share: float, count: int) -> float:
    """Standard error of a share of ``count`` draws, at least that of one hit."""
    return math.sqrt(max(share * (1 - share), 1 / count) / count)


def _rates_exchanged(table: pd.DataFrame) -> pd.DataFrame:
    """The two lowest sampling rates exchanged."""
    low, high = sorted(table["q"].unique())[:2]
    return table.assign(q=table["q"].replace({low: high, high: low}))


def judge(tables: Tables) -> Iterator[Verdict]:
    table, tests = tables["bounds"], tables["tests"]
    full, sampled = table[table["q"] == 1], table[table["q"] < 1]
    inside = full["closed form"].between(full["lower"] * (1 - 1e-12), full["upper"] * (1 + 1e-12))
    width = float((full["upper"] / full["lower"] - 1).max())
    up = f"1e{math.ceil(math.log10(width))}" if width > 0 else "1e-15"
    yield check(
        "beyond/worst_case",
        inside.all() and width < WIDTH,
        "with the full batch the certified bound of paper C encloses the worst case that "
        "paper B prints",
        ours=f"{inside.sum()} of {len(full)} settings, enclosures of relative width below {up}",
    )
    below = sampled["upper"] < sampled["closed form"] * (1 - 1e-9)
    by_rate = table.sort_values("q").groupby(["T", "signal", "kappa"])["upper"]
    rising = all(own.is_monotonic_increasing for _, own in by_rate)
    powers, levels = (
        within(tests[found], tests[share], tests[f"standard error of {found}"], margin)
        for found, share in (("power", "closed form"), ("false positives", "kappa"))
        for margin in [MARGIN * np.sqrt(tests[share])]
    )
    exact = inside.all() and width < WIDTH and below.all() and rising
    yield check(
        "O-053",
        powers and levels if exact else False,
        "the worst case is the power of the best membership test at false-positive rate kappa, "
        "also where gradients depend on earlier releases; with sub-sampling the certified bound is "
        "lower at every setting and rises with the sampling rate",
        ours=f"{len(tests)} simulated tests, powers at most "
        f"{(tests['power'] - tests['closed form']).abs().max():.4f} off; "
        f"{below.sum()} of {len(sampled)} sub-sampled bounds lower, by a factor of up to "
        f"{(sampled['closed form'] / sampled['upper']).max():.2g}",
        tolerance=f"{MARGIN:g} times the root of a probability, Monte Carlo error included",
    )


CAPTION = (
    "The worst case of paper B, a closed form, beside the certified bound of paper C over the "
    "sampling rate. Left and middle: two signals, each for several prior successes; solid and "
    "dashed: certified; dotted: closed form for the full batch. Right: the power of simulated "
    "membership tests at false-positive rate kappa, whose gradients depend on earlier releases, "
    "against the closed form."
)


@drawing
def draw(tables: Tables) -> Figure:
    table, tests = tables["bounds"], tables["tests"]
    figure, (row,) = panels(1, 3, 2.8, 3.6)
    styles = dict(zip(sorted(table["T"].unique()), ("-", "--", "-."), strict=False))
    first = next(iter(styles))
    for axis, (signal, at_signal) in zip(row, tables["curves"].groupby("signal"), strict=False):
        for colour, (kappa, own) in zip(COLOURS, at_signal.groupby("kappa"), strict=False):
            here = (table["signal"] == signal) & (table["kappa"] == kappa)
            axis.axhline(table.loc[here, "closed form"].iloc[0], color=colour, ls=":", lw=1.2)
            for steps, style in styles.items():
                line = own[own["T"] == steps]
                label = rf"$\kappa$ = {kappa:g}" if steps == first else None
                axis.plot(line["q"], line["upper"], label=label, color=colour, linestyle=style)
        axis.set(xscale="log", yscale="log", xlabel="sampling rate q")
        axis.set_title(rf"$\sqrt{{T}}/\sigma$ = {signal:g}")
    row[0].set_ylabel("success")
    legend_below(row[0], 2)
    lines = [legend_line(f"T = {t:,}", GREY, style) for t, style in styles.items()]
    legend_below(row[1], 2, handles=[*lines, legend_line("closed form", GREY, ":")])
    for colour, marker, (steps, own) in zip(COLOURS, "os^", tests.groupby("T"), strict=False):
        look = {"color": colour, "ms": 5, "mfc": "none"}
        row[2].plot(own["closed form"], own["power"], marker, label=f"T = {steps:,}", **look)
    ends = np.array([tests["closed form"].min() / 2, 1])
    row[2].plot(ends, ends, color=GREY, lw=1)
    row[2].set(xscale="log", yscale="log", xlabel="closed form", ylabel="power of the test")
    legend_below(row[2], 2)
    return figure
