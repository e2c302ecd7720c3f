"""The best estimates from the linear layer's observation if the norm of the record is known."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from companion.experiments.tools import as_numpy, jointly, mean_and_error
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import within
from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE, drawing, panels
from reconrisk import DPSGD, bounds
from reconrisk.attacks import (
    james_stein,
    known_scale,
    observe,
    posterior_on_sphere,
    shrink,
    unbiased_on_sphere,
)

_OURS = "our own exhibit"
_SIZES, _SIGMAS = (2, 4, 64), (0.1, 0.3, 1.0)
PARAMETERS = {
    "dimensions": Parameter("ints", _SIZES, _SIZES, _OURS, "N", low=2),
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", low=0.01),
    "repeats": Parameter("int", 100_000, 200_000, _OURS, "steps for each record", 1000),
}
SETTLES = ("O-064", "O-065")
#: how near mean errors must come to their expectation, relative
MARGIN = 0.03
#: how large the bias of a coordinate may be, over the estimate's standard deviation
BIAS_MARGIN = 0.05
BEST, UNBIASED = "posterior mean", "best unbiased"
FALSIFIERS = (
    graded(
        "errors {} larger",
        column("errors", "ratio", lambda c, by: c * (1 + by)),
        *("", "O-064", "O-065"),
    ),
    graded(
        "errors {} smaller",
        column("errors", "ratio", lambda c, by: c * (1 - by)),
        *("", "O-064", "O-065"),
    ),
    world(
        "the posterior mean and the shrunken estimate exchanged",
        frame("errors", lambda t: _exchanged(t, BEST, "shrunken")),
        *("", "O-064"),
    ),
    world(
        "a posterior mean that is worse at one of the two records",
        column("errors", "ratio", lambda c: 1.1 * c, "record == 'one value'"),
        "O-064",
    ),
    graded(
        "an estimate {} of its noise off the record",
        column("errors", "bias", lambda c, by: c + by, "reconstruction == 'best unbiased'"),
        "O-065",
    ),
    world(
        "X_hat and the best unbiased estimate exchanged",
        frame("errors", lambda t: _exchanged(t, UNBIASED, "X_hat")),
        "O-065",
    ),
)


def _exchanged(table: pd.DataFrame, one: str, other: str) -> pd.DataFrame:
    names = {one: other, other: one}
    return table.assign(reconstruction=table["reconstruction"].map(lambda n: names.get(n, n)))


@measurement
def measure(study: Context) -> Tables:
    p, rows = study.parameters, []
    for n in p.dimensions:
        spread = np.full(n, 1.0)
        single = np.eye(n)[0] * 3.0
        for sigma in p.noise_multipliers:
            for name, record in (("equal values", spread), ("one value", single)):
                rows += _errors(study, name, record, sigma)
    columns = ["N", "sigma", "record", "reconstruction", "ratio", "standard error", "theory"]
    columns += ["bias", "standard error of the bias"]
    return Tables(
        {"errors": pd.DataFrame(rows, columns=columns), "curves": _curves(p.dimensions)},
        ran=f"{p.repeats:,} DP-SGD steps for each of two records, N and sigma, every gradient "
        "clipped to a tenth of the norm; curves are closed forms.",
    )


def _errors(study: Context, name: str, record: np.ndarray, sigma: float) -> list[tuple[Any, ...]]:
    """Mean squared errors over that of X_hat, and the largest bias over the standard deviation."""
    repeats, n, norm = study.parameters.repeats, len(record), float(np.linalg.norm(record))
    inputs = torch.as_tensor(record, device=study.device).expand(repeats, n)
    run = DPSGD(sigma, max_grad_norm=0.1 * norm)
    x_hat = known_scale(observe(inputs, run, study.generator(name, n, sigma)))
    rebuilt = {
        "X_hat": x_hat,
        "shrunken": shrink(x_hat, sigma),
        BEST: posterior_on_sphere(x_hat, sigma, norm),
        UNBIASED: unbiased_on_sphere(x_hat, sigma, norm),
    }
    if n >= 3:
        rebuilt["James-Stein"] = james_stein(x_hat, sigma * norm)
    variance, theory, rows = (sigma * norm) ** 2, expected(n, sigma), []
    for label, estimate in rebuilt.items():
        values = as_numpy(estimate)
        ratio, error = mean_and_error(np.square(values - record).mean(axis=1) / variance)
        bias = float(np.abs((values.mean(axis=0) - record) / values.std(axis=0)).max())
        rows.append(
            (n, sigma, name, label, ratio, error, theory.get(label, math.nan), bias)
            + (1 / math.sqrt(repeats),)
        )
    return rows


def expected(dimension: int, noise_multiplier: float) -> dict[str, float]:
    """Expected MSE over that of X_hat, where it has a closed form."""
    own = noise_multiplier**2
    return {
        "X_hat": 1.0,
        "shrunken": float(bounds.expected_mse_shrunk(dimension, noise_multiplier, 1.0)) / own,
        BEST: float(bounds.expected_mse_known_norm(dimension, noise_multiplier, 1.0)) / own,
        UNBIASED: float(bounds.expected_mse_unbiased(dimension, noise_multiplier, 1.0)) / own,
    }


def _curves(dimensions: tuple[int, ...]) -> pd.DataFrame:
    rows = [
        (n, sigma, *expected(n, sigma).values())
        for n in dimensions
        for sigma in np.geomspace(0.03, 3, 25)
    ]
    return pd.DataFrame(rows, columns=["N", "sigma", "X_hat", "shrunken", BEST, UNBIASED])


def judge(tables: Tables) -> Iterator[Verdict]:
    errors = tables["errors"]
    by = dict(iter(errors.groupby("reconstruction")))
    best, fair = by[BEST], by[UNBIASED]
    agree = jointly(_agrees(by["X_hat"]), _agrees(by["shrunken"]))
    order = _below(errors, BEST) and (fair["theory"] < 1).all()
    gains = (best.groupby(["N", "sigma"])["theory"].first()).sort_index()
    yield check(
        "beyond/known_norm",
        jointly(order, agree, _agrees(best), _agrees(fair)),
        "of the estimates from X_hat the posterior mean on the sphere has the smallest error at "
        "every record, N and sigma; shrinking without the norm has a larger one",
        ours="MSE over that of X_hat: "
        + "; ".join(
            f"{ratio:.3f} (N = {n}, sigma = {sigma:g})" for (n, sigma), ratio in gains.items()
        ),
        tolerance=f"{MARGIN:.0%}, errors included",
    )
    yield check(
        "O-064",
        jointly(_below(errors, BEST), _agrees(best)),
        "the posterior mean on the sphere has the error (r^2/N)(1 - E A^2) at either record of the "
        "norm, below those of the other estimates",
        ours=f"largest deviation {_deviation(best):.1%}",
        tolerance=f"{MARGIN:.0%}, errors included",
    )
    unbiased = within(fair["bias"], 0, fair["standard error of the bias"], BIAS_MARGIN)
    yield check(
        "O-065",
        jointly((fair["theory"] < 1).all(), _agrees(fair), unbiased),
        "the posterior mean over E A^2 is unbiased, and its error (r^2/N)(1/E A^2 - 1) is below "
        "that of X_hat",
        ours=f"ratios {fair['theory'].min():.3f} to {fair['theory'].max():.4f}; largest deviation "
        f"{_deviation(fair):.1%}",
        tolerance=f"{MARGIN:.0%}; bias {BIAS_MARGIN:g} standard deviations; errors included",
    )


def _agrees(table: pd.DataFrame) -> bool | None:
    """Whether measured ratios are those expected."""
    theory = table["theory"]
    return within(table["ratio"] / theory, 1, table["standard error"] / theory, MARGIN)


def _below(errors: pd.DataFrame, name: str) -> bool:
    """Whether an estimate's expected error is the least; of James-Stein the measured one counts."""
    table = errors.assign(error=errors["theory"].fillna(errors["ratio"]))
    least = table.loc[table.groupby(["N", "sigma", "record"])["error"].idxmin()]
    return bool((least["reconstruction"] == name).all())


def _deviation(table: pd.DataFrame) -> float:
    return float((table["ratio"] / table["theory"] - 1).abs().max())


CAPTION = (
    "Expected MSE over that of the unbiased row mean (1, dotted), for records of N values whose "
    "norm is known. Lines: closed forms. Points: measured with the real DP-SGD step on two records."
)


@drawing
def draw(tables: Tables) -> Figure:
    curves, errors = tables["curves"], tables["errors"]
    sizes = list(curves["N"].unique())
    look = {"shrunken": BLUE, BEST: ORANGE, UNBIASED: GREEN, "James-Stein": PURPLE}
    figure, (row,) = panels(1, len(sizes), 3.4, 3.1)
    for axis, n in zip(row, sizes, strict=True):
        own, measured = curves[curves["N"] == n], errors[errors["N"] == n]
        axis.axhline(1, color=GREY, ls=":")
        for name, colour in look.items():
            points = measured[measured["reconstruction"] == name]
            if name in own:
                axis.plot(own["sigma"], own[name], color=colour, lw=1.4)
            if len(points):
                axis.plot(points["sigma"], points["ratio"], "o", color=colour, ms=4.5, label=name)
        axis.set(xscale="log", title=f"N = {n}", xlabel=r"noise multiplier $\sigma$", ylim=(0, 1.1))
    row[0].set_ylabel(r"MSE / $\sigma^2\|X\|^2$")
    figure.legend(*row[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
