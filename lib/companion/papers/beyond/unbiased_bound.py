"""The bound of Guo et al. on unbiased attacks beside the exact errors of three attacks."""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure

from companion.exhibit import STANDARD_ERRORS
from companion.experiments.tools import as_numpy, mean_and_error
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import within
from companion.style import BLUE, BOUND, GREEN, PURPLE, drawing, panels
from reconrisk import DPSGD, bounds
from reconrisk.attacks import observe, unscaled

_OURS = "not printed: our own"
_SIGMAS, _SQUARES = (0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0), (0.02, 0.1, 0.3)
PARAMETERS = {
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", low=0.05),
    "mean_squares": Parameter("floats", _SQUARES, _SQUARES, _OURS, "pixel's mean square", low=1e-9),
    "dimension": Parameter("int", 784, 784, _OURS, "N", low=1),
    "samples": Parameter("int", 40_000, 40_000, _OURS, "steps of the one-pixel layer", low=100),
    "room": Parameter("float", 0.01, 0.01, _OURS, "relative distance from limits", low=0),
}
SETTLES = ("O-056",)
#: relative; an error of 5% in the noise is one of 10% in the MSE
MARGIN = 0.05
_HEAVY = "sigma == sigma.max()"
FALSIFIERS = (
    graded(
        "an error of the row mean {} smaller",
        column("errors", "row mean", lambda c, by: c * (1 - by)),
    ),
    graded(
        "an error of the row mean under heavy noise {} larger",
        column("errors", "row mean", lambda c, by: c * (1 + by), _HEAVY),
    ),
    world(
        "a bound that grows with the number of pixels",
        frame("errors", lambda t: t.assign(bound=t["bound"] * 784)),
    ),
    graded(
        "a measured error of the one-pixel layer {} larger",
        column("errors", "one pixel, measured", lambda c, by: c * (1 + by)),
        "O-056",
    ),
    graded(
        "an error of the one-pixel layer {} below the bound",
        column("errors", "bound", lambda c, by: c * (1 + by), _HEAVY),
        "O-056",
    ),
    graded(
        "a bound under heavy noise {} smaller",
        column("errors", "bound", lambda c, by: c * (1 - by), _HEAVY),
        "O-056",
    ),
    world(
        "shrinking does not help",
        frame("errors", lambda t: t.assign(shrunken=t["row mean"])),
        "O-056",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for place, sigma in enumerate(p.noise_multipliers):
        pixel, error = read_one_pixel(sigma, p.samples, study.generator("pixel", place))
        for square in p.mean_squares:
            norm = math.sqrt(square * p.dimension)
            least = float(bounds.mse_lower_bound(sigma))
            mean = float(bounds.expected_mse(sigma, norm))
            shrunken = float(bounds.expected_mse_shrunk(p.dimension, sigma, norm))
            rows.append((sigma, square, least, mean, shrunken, sigma**2 / 4, pixel, error))
    columns = ["sigma", "mean square", "bound", "row mean", "shrunken"]
    columns += ["one pixel", "one pixel, measured", "standard error"]
    return Tables(
        {"errors": pd.DataFrame(rows, columns=columns)},
        ran=f"closed forms for N = {p.dimension} pixels; the one-pixel layer on {p.samples:,} "
        "steps of DP-SGD at each noise.",
    )


def read_one_pixel(sigma: float, samples: int, generator: torch.Generator) -> tuple[float, float]:
    """MSE of reading one pixel that uses the whole clipping norm, and its standard error."""
    like = {"dtype": torch.float64, "device": generator.device}
    values = torch.linspace(0, 1, samples, **like)[:, None]
    # x - 1/2 is at most 1/2 long: nothing is clipped, and the noise is sigma/2
    run = DPSGD(sigma, max_grad_norm=0.5)
    rebuilt = unscaled(observe(values, run, generator, offset=torch.full((1,), 0.5, **like)))
    return mean_and_error(as_numpy((rebuilt - values).square()))


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["errors"]
    bound, heaviest = table["bound"], table["sigma"].max()
    heavy = table["sigma"] == heaviest
    norms = p.dimension * table["mean square"]
    factor, least = table["row mean"] / bound, 4 * norms
    meets = (factor / least)[heavy].max()
    yield check(
        "beyond/unbiased_bound",
        (factor >= least * (1 - 1e-12)).all() and meets < 1 + p.room,
        "paper A's exact MSE is at least 4 |X|^2 / R^2 times the bound of Guo et al. for "
        "pixels of range R, at every noise, and that factor is the limit under heavy noise",
        ours=f"{len(table)} settings with |X|^2 from {norms.min():g} to {norms.max():g}; the ratio "
        f"to the factor falls to {meets:.4f}",
        tolerance=f"{p.room:g} at the heaviest noise",
    )
    measured, pixel = table["one pixel, measured"], table["one pixel"]
    right = within(measured, pixel, table["standard error"], MARGIN * pixel)
    gap = (table["one pixel"] / bound)[heavy].max()
    violated = table["shrunken"] < bound
    yield check(
        "O-056",
        right
        if (pixel >= bound).all()
        and gap < 1 + p.room
        and (table["shrunken"][heavy] < bound.max()).all()
        and violated.any()
        else False,
        "a layer that spends the clipping norm on one pixel has the error sigma^2 R^2 / 4, which "
        "the bound meets under heavy noise. The shrunken row mean, which is biased, is below it",
        ours=f"one pixel over the bound {gap:.4f} at sigma = {heaviest:g}; shrunken below the "
        f"bound at {violated.sum()} of {len(table)} settings",
        tolerance=f"{MARGIN:.0%}, Monte Carlo error included",
    )


CAPTION = (
    "The lower bound of Guo et al. on the MSE of unbiased attacks, pixels of range one, "
    "beside exact errors of paper A's row mean and of its shrunken version for three mean squares "
    "of the pixels (written beside; the thicker, the larger), and of a layer that spends the "
    "clipping norm on a single pixel (line: exact; marks: measured with four standard errors)."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["errors"]
    figure, ((axis,),) = panels(1, 1, 6.4, 4.6)
    squares = sorted(table["mean square"].unique())
    one = table[table["mean square"] == squares[0]]
    axis.plot(one["sigma"], one["bound"], color=BOUND, lw=2.2, label="bound of Guo et al.")
    axis.plot(one["sigma"], one["one pixel"], color=PURPLE, label="one pixel")
    look = {"color": PURPLE, "fmt": "o", "ms": 4, "capsize": 2}
    room = STANDARD_ERRORS * one["standard error"]
    axis.errorbar(one["sigma"], one["one pixel, measured"], yerr=room, **look)
    for square, width in zip(squares, (0.9, 1.5, 2.1), strict=False):
        own, last = table[table["mean square"] == square], square == squares[-1]
        for name, label, colour, style in (
            ("row mean", "row mean", BLUE, "-"),
            ("shrunken", "shrunken row mean", GREEN, "--"),
        ):
            look = {"color": colour, "linestyle": style, "lw": width}
            axis.plot(own["sigma"], own[name], label=label if last else None, **look)
        end = own.iloc[-1]
        text = f"mean square {square:g}"
        place: dict[str, Any] = {"textcoords": "offset points", "ha": "left", "va": "center"}
        # the lines end closer to each other than letters are high
        lift = 3 * (squares.index(square) - 1)
        axis.annotate(text, (end["sigma"], end["row mean"]), (5, lift), fontsize=8, **place)
    axis.set(xscale="log", yscale="log", ylim=(1e-6, 1e6))
    axis.set_xlim(right=4 * one["sigma"].max())
    axis.set(xlabel=r"noise multiplier $\sigma$", ylabel="MSE per pixel")
    axis.legend(loc="upper left", fontsize=8)
    return figure
