"""Figure 5: one picture at two scales; the MSE grows with the square of the factor."""

import functools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

PARAMETERS = {
    "size": Parameter("int", 224, 224, "not printed", "pixels a side", 8),
    "factor": Parameter("float", 10.0, 10.0, "10", "a, the rescaling", 1e-12),
    "noise_multiplier": Parameter("float", 1e-3, 1e-3, "1.0e-3", "sigma", 1e-12),
}
SETTLES = ("_original", "_scaled", "A-041", "A-042", "A-049", "E-A-05")
ALTERED = {
    "errors": {"MSE": by("scale", "MSEs", each="of the {} picture")},
    "similarities": {
        "PSNR": at("scale == 'scaled'", "PSNRs of the scaled picture [dB]"),
        "NCC": at("scale == 'scaled'", "NCCs of the scaled picture"),
    },
}

#: how near MSEs and their ratio must come to theirs: at 224 pixels a side the error is 0.4%
MARGIN = 0.03
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
    p = tables.parameters
    settle = functools.partial(check, stand_in=tables.stand_in)
    errors = tables["errors"].set_index("scale")["MSE"]
    similar = tables["similarities"].set_index("scale")
    ratio, spread = _ratio_and_error(tables)
    square, ours = p.factor**2, rounded(ratio, spread)
    quadratic = within(ratio / square, 1, spread / square, MARGIN)
    linear = within(ratio / p.factor, 1, spread / p.factor, MARGIN)
    scaled = settle(
        "mean_to_extreme/fig5",
        quadratic,
        "the MSE of the scaled picture is a^2 times as large",
        ours=ours,
        paper=f"{square:g}",
        tolerance=f"{MARGIN:.0%}, errors included",
    )
    yield from shared_by(scaled, "A-041")
    expected = (p.noise_multiplier * similar["norm"]) ** 2
    error = math.sqrt(2 / (3 * p.size**2))
    for label in ("original", "scaled"):
        yield settle(
            f"mean_to_extreme/fig5_{label}",
            within(errors[label] / expected[label], 1, error, MARGIN),
            "the MSE is sigma^2 ||X||^2",
            ours=f"{errors[label]:.3g}",
            paper=f"{expected[label]:.3g}",
            tolerance=f"{MARGIN:.0%}, its error included",
        )
    yield settle(
        "A-042",
        quadratic and linear is False,
        "the text's factor c is inexact: it is c^2",
        ours=ours,
        paper=f"{p.factor:g} (text), {square:g} (figure)",
    )
    psnr, ncc = similar[["PSNR", "NCC"]].to_numpy().T
    yield settle(
        "A-049",
        np.ptp(psnr) < 0.1 and np.ptp(ncc) < 0.01,
        "if the range is scaled along, PSNR and NCC stay",
        ours=f"PSNR {psnr[0]:.1f} and {psnr[1]:.1f} dB, NCC {ncc[0]:.3f} and {ncc[1]:.3f}",
    )
    yield refute(
        "E-A-05",
        holds=linear,
        corrected_holds=quadratic,
        ours=ours,
        paper=f"{p.factor:g}",
    )


def _ratio_and_error(tables: Tables) -> tuple[float, float]:
    """MSE of the scaled picture over that of the original, with its standard error."""
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
