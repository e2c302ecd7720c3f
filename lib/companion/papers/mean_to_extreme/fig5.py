"""Figure 5: one picture at two scales, whose MSE follows the square of the factor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.experiments.tools import as_numpy, photographs, tensor
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import rounded
from companion.style import drawing, panels, picture
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

PARAMETERS = {
    "size": Parameter("int", 224, 224, "not printed", "pixels a side", 8),
    "factor": Parameter("float", 10.0, 10.0, "10", "a, the rescaling", 1e-12),
    "noise_multiplier": Parameter("float", 1e-3, 1e-3, "1.0e-3", "sigma", 1e-12),
}
SETTLES = ("_original", "_scaled", "A-041", "A-042", "A-049", "E-A-05")
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    original = photographs(study, p.size, 1)[0]
    images, errors, similarities = {"target": original}, [], []
    for label, factor in (("original", 1.0), ("scaled", p.factor)):
        record = factor * original.ravel()
        norm = float(np.linalg.norm(record))
        run = DPSGD(p.noise_multiplier, max_grad_norm=norm)
        update = observe(tensor(study, record[None]), run, study.generator(label))
        rebuilt = as_numpy(known_scale(update))[0]
        images[label] = rebuilt.reshape(original.shape) / factor
        errors.append((label, float(metrics.mse(record, rebuilt))))
        psnr, ncc = metrics.psnr(record, rebuilt, factor), metrics.ncc(record, rebuilt)
        similarities.append((label, norm, float(psnr), float(ncc)))
    return Tables(
        {
            "errors": pd.DataFrame(errors, columns=["scale", "MSE"]),
            "similarities": pd.DataFrame(similarities, columns=["scale", "norm", "PSNR", "NCC"]),
        },
        images=images,
        ran=f"one photograph of {p.size}x{p.size}x3 values and its {p.factor:g}-fold, one DP-SGD "
        f"step each at sigma = {p.noise_multiplier:g}, C = ||X||.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, stand_in = tables.parameters, tables.stand_in
    errors = tables["errors"].set_index("scale")["MSE"]
    similar = tables["similarities"].set_index("scale")
    ratio, spread = _ratio_and_error(tables)
    square, ours = p.factor**2, rounded(ratio, spread)
    quadratic = abs(ratio - square) < 4 * spread
    for target in ("mean_to_extreme/fig5", "A-041"):
        yield check(
            target,
            quadratic,
            "the MSE of the scaled picture is a^2 times as large",
            ours=ours,
            paper=f"{square:g}",
            tolerance="4 standard errors",
            stand_in=stand_in,
        )
    expected = (p.noise_multiplier * similar.loc["original", "norm"]) ** 2
    for label, theory, statement in (
        ("original", expected, "the original's MSE is sigma^2 ||X||^2"),
        ("scaled", square * expected, "the scaled picture's MSE is a^2 sigma^2 ||X||^2"),
    ):
        yield check(
            f"mean_to_extreme/fig5_{label}",
            abs(errors[label] / theory - 1) < 4 * math.sqrt(2 / (3 * p.size**2)),
            statement,
            ours=f"{errors[label]:.3g}",
            paper=f"{theory:.3g}",
            stand_in=stand_in,
        )
    yield check(
        "A-042",
        quadratic and abs(ratio - p.factor) > 10 * spread,
        "the text's factor c is inexact: it is c^2",
        ours=ours,
        paper=f"{p.factor:g} (text), {square:g} (figure)",
        stand_in=stand_in,
    )
    psnr, ncc = (similar.loc[["original", "scaled"], name].to_numpy() for name in ("PSNR", "NCC"))
    yield check(
        "A-049",
        np.ptp(psnr) < 0.1 and np.ptp(ncc) < 0.01,
        "with the range scaled along, PSNR and NCC stay",
        ours=f"PSNR {psnr[0]:.1f} and {psnr[1]:.1f} dB, NCC {ncc[0]:.3f} and {ncc[1]:.3f}",
        stand_in=stand_in,
    )
    yield refute(
        "E-A-05",
        holds=abs(ratio - p.factor) < 4 * spread,
        corrected_holds=quadratic,
        ours=ours,
        paper=f"{p.factor:g}",
    )


def _ratio_and_error(tables: Tables) -> tuple[float, float]:
    """How many times as large the scaled picture's MSE is, with its standard error."""
    errors = tables["errors"].set_index("scale")["MSE"]
    ratio = errors["scaled"] / errors["original"]
    # two independent means of squares
    return ratio, ratio * math.sqrt(4 / (3 * tables.parameters.size**2))


CAPTION = (
    "The same picture, rebuilt once as it is and once multiplied by a = 10, at the same noise "
    "multiplier and with C at its norm: it looks the same, its MSE is a^2 times as large."
)


def alt(tables: Tables) -> str:
    return (
        "Three pictures: the target photograph and two reconstructions with the same light noise; "
        f"the MSE printed over the second is {rounded(*_ratio_and_error(tables))} times that of "
        "the first."
    )


@drawing
def draw(tables: Tables) -> Figure:
    errors = tables["errors"].set_index("scale")["MSE"]
    factor = float(tables.parameters.factor)
    titles = {
        "target": "target",
        "original": f"MSE = {errors['original']:.3g}",
        "scaled": f"times {factor:g} (shown / {factor:g}): MSE = {errors['scaled']:.3g}",
    }
    figure, (row,) = panels(1, 3, 2.7, 2.9)
    for axis, (label, title) in zip(row, titles.items(), strict=True):
        picture(axis, tables.images[label], title)
    return figure
