"""Figure 1: pictures rebuilt with few and with many rows at the same C and sigma."""

import functools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from companion.exhibit import *
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

PARAMETERS = {
    "pictures": Parameter("int", 2, 4, "not printed", "photographs rebuilt", 1),
    "size": Parameter("int", 224, 224, "224 (N = 150528)", "pixels a side", 8),
    "noise_multiplier": Parameter("float", 5e-4, 5e-4, "5e-4", "sigma", 0),
    "max_grad_norm": Parameter("float", 5e3, 5e3, "5.0e3", "C", 1e-12),
    "few_rows": Parameter("int", 1, 1, "1", "M of the middle column", 1),
    "many_rows": Parameter("int", 1000, 1000, "1000", "M of the right column", 1),
}
SETTLES = ("_left", "_middle", "_right", "A-030")
ALTERED = {
    "errors": {"MSE": "MSEs"},
    "mean_to_extreme/fig1": {"value": at("metric == 'setting:N'", "printed sizes")},
}

#: the factor in the MSE from which on the picture with many rows is plainly less noisy (10 dB)
CLEARER = 10
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    run = DPSGD(p.noise_multiplier, max_grad_norm=p.max_grad_norm)
    images, errors = {}, []
    for index, original in enumerate(photographs(study, p.size, p.pictures)):
        inputs = tensor(study, original[None], torch.float32)
        norm = float(np.linalg.norm(original))
        images[f"{index} original"] = original
        for label, rows in (("few rows", p.few_rows), ("many rows", p.many_rows)):
            generator = study.generator(index, rows)
            rebuilt = as_numpy(known_scale(observe(inputs, run, generator, rows=rows)))[0]
            images[f"{index} {label}"] = rebuilt.reshape(original.shape)
            error = float(metrics.mse(original.ravel(), rebuilt))
            beta = min(1.0, p.max_grad_norm / (math.sqrt(rows) * norm))
            expected = (p.max_grad_norm * p.noise_multiplier / beta) ** 2 / rows
            errors.append((index, rows, norm, error, expected))
    columns = ["picture", "rows M", "norm", "MSE", "expected MSE"]
    return Tables(
        {"errors": pd.DataFrame(errors, columns=columns)},
        images=images,
        ran=f"{p.pictures} photographs of {p.size}x{p.size}x3 values through a layer of "
        f"{p.few_rows} and of {p.many_rows} rows, one DP-SGD step each.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["errors"]
    settle = functools.partial(check, stand_in=tables.stand_in)
    few, many = (table[table["rows M"] == rows] for rows in (p.few_rows, p.many_rows))
    dimension = 3 * p.size**2
    band = 6 * math.sqrt(2 / dimension)  # six standard deviations of a mean of squares
    gain = _least_gain(tables)
    ours = f"the MSE falls at least {gain:.0f}-fold"
    expected = (np.abs(table["MSE"] / table["expected MSE"] - 1) < band).all()
    less = settle(
        "mean_to_extreme/fig1",
        gain > CLEARER and expected,
        "at the same C and sigma the pictures with many rows are less noisy, as expected",
        ours=ours,
    )
    yield from shared_by(less, "A-030")
    size = registry.setting("mean_to_extreme/fig1", "N")
    yield settle(
        "mean_to_extreme/fig1_left",
        dimension == int(size),
        "an original has as many values as the paper prints, and is shown as it is",
        ours=f"N = {dimension}",
        paper=f"N = {size}",
        differs="" if dimension == int(size) else "another size was requested",
    )
    noise = np.sqrt(few["MSE"]).mean()
    without_clipping = p.max_grad_norm * p.noise_multiplier
    yield settle(
        "mean_to_extreme/fig1_middle",
        abs((noise / without_clipping) ** 2 - 1) < band,
        "with one row nothing is clipped and the noise per pixel is C sigma",
        ours=rounded(noise, 0.01),
        paper=f"{without_clipping:g}",
    )
    threshold = p.max_grad_norm / math.sqrt(p.many_rows)
    # a record shorter than C / sqrt(M) is not clipped even then: its noise is not least yet
    long_enough = many["norm"] >= threshold
    reached = np.abs(many["MSE"] / (p.noise_multiplier * many["norm"]) ** 2 - 1) < band
    # pictures whose norm is within the noise of that threshold decide nothing
    distinct = np.abs((threshold / many["norm"]) ** 2 - 1) > 2 * band
    yield settle(
        "mean_to_extreme/fig1_right",
        long_enough.any() and (reached == long_enough)[distinct].all(),
        f"M = {p.many_rows} reaches the least noise sigma ||X|| where ||X|| >= C / sqrt(M) = "
        f"{threshold:.0f}, and only there",
        ours=f"norms {', '.join(f'{n:.0f}' for n in many['norm'])}",
    )


def _least_gain(tables: Tables) -> float:
    """Factor by which the MSE falls from few rows to many, least over the pictures."""
    p = tables.parameters
    error = tables["errors"].pivot_table(index="picture", columns="rows M", values="MSE")
    return float((error[p.few_rows] / error[p.many_rows]).min())


def caption(tables: Tables) -> str:
    p = tables.parameters
    return (
        f"At one noise multiplier, sigma = {p.noise_multiplier:g}, and one clipping norm, "
        f"C = {p.max_grad_norm:,g}, a layer with enough rows M removes the noise that a too large "
        f"clipping norm adds: original (left), M = {p.few_rows} (middle), M = {p.many_rows:,} "
        "(right)."
    )


def alt(tables: Tables) -> str:
    p = tables.parameters
    return (
        f"{tables['errors']['picture'].nunique()} rows of three pictures: an original photograph, "
        f"its reconstruction from M = {p.few_rows} drowned in noise, and its reconstruction from "
        f"M = {p.many_rows} with only faint grain. Its mean squared error is at least "
        f"{round(_least_gain(tables), -1):.0f} times smaller."
    )


@drawing
def draw(tables: Tables) -> Figure:
    by_picture = tables["errors"].groupby("picture")
    figure, axes = panels(len(by_picture), 3, 2.6, 2.75)
    for row, (index, of) in zip(axes, by_picture, strict=True):
        norm = of["norm"].iloc[0]
        picture(row[0], tables.images[f"{index} original"], rf"original, $\|X\|$ = {norm:.0f}")
        cells = of.sort_values("rows M").iterrows()
        for axis, label, (_, cell) in zip(row[1:], ("few rows", "many rows"), cells, strict=True):
            title = f"M = {cell['rows M']:.0f}, MSE = {cell['MSE']:.3g}"
            picture(axis, tables.images[f"{index} {label}"], title)
    return figure
