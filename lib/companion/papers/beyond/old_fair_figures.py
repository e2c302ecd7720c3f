"""Pictures of the comparison of Biswas et al. 2024 made fair."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from companion.drawings import draws
from companion.study import Result
from companion.style import (
    COLOURS,
    GREY,
    MECHANISMS,
    legend_above,
    legend_line,
    panels,
)

__all__: list[str] = []

_MARKERS = {"Gaussian": "o", "VMF": "s"}
_TWO_SIDED = 1.96


# Mechanism or calibration ------------------------------------------------------------------------

#: cosines labelled on an axis that is stretched at both ends
_TICKS = (0.01, 0.1, 0.5, 0.95, 0.999)


def _stretch(cosine: np.ndarray) -> np.ndarray:
    """Log of the signal over the noise: -1 at a cosine of 0.1, 1 near 0.995."""
    c = np.clip(np.asarray(cosine, dtype=float), 1e-3, 1 - 1e-7)
    return np.log10(c / np.sqrt(1 - c * c))


def _cosine_axis(axes: Axes) -> None:
    axes.xaxis.set_major_locator(FixedLocator(list(_stretch(np.array(_TICKS)))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{c:g}" for c in _TICKS])
    axes.set_xlim(_stretch(np.array([0.003]))[0], _stretch(np.array([0.99995]))[0])


def _printed_ticks(axes: Axes, marks: pd.DataFrame) -> None:
    """Where the printed pairs lie, along the lower edge."""
    for mechanism, colour in MECHANISMS.items():
        axes.plot(
            _stretch(marks[mechanism].to_numpy()),
            np.full(len(marks), 0.03),
            "|",
            ms=11,
            mew=1.4,
            color=colour,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )


def _over_cosine(axes: Axes, table: pd.DataFrame, name: str, **how) -> None:
    for mechanism, colour in MECHANISMS.items():
        own = table[table["mechanism"] == mechanism].sort_values("cosine")
        axes.errorbar(
            _stretch(own["cosine"].to_numpy()),
            own[name],
            yerr=_TWO_SIDED * own[f"{name} error"],
            color=colour,
            marker=_MARKERS[mechanism],
            markersize=4,
            linewidth=1.2,
            elinewidth=1,
            capsize=2,
            **how,
        )


@draws(
    "beyond/mechanism_or_calibration",
    caption="Gaussian and VMF noise over the mean cosine of the released gradient with the true "
    "one, at two batch sizes: accuracy after training, MSE and SSIM of the published attack "
    "(filled: in the labels' order, as printed; hollow: matched by permutation), with 95% "
    "intervals. Grey lines: guesses without any gradient. Ticks at the lower edge: the printed "
    "pairs. Right: total variation between the two laws of the released direction, and the "
    "printed pairs' cosines.",
    alt="Two rows of four panels. In accuracy, error and similarity the blue and orange curves lie "
    "on each other from a cosine of 0.005 to 0.9999. Orange ticks of the printed pairs sit "
    "together at the far left, below 0.03, blue ones ten to fifty times further right. The "
    "distance of the laws is a hump below 0.03 that vanishes at both ends; the pairs' cosines are "
    "two rising lines far apart.",
)
def mechanism_or_calibration(result: Result) -> Figure:
    tables = result.tables
    attack, marks = tables["attack"], tables["printed pairs"]
    sizes = sorted(attack["n"].unique())
    figure, axes = panels(len(sizes), 4, 2.5, 2.5)
    for row, size in zip(axes, sizes, strict=True):
        own, pairs = attack[attack["n"] == size], marks[marks["n"] == size]
        utility = tables["utility"]
        _over_cosine(row[0], utility[utility["n"] == size], "accuracy")
        row[0].set(ylim=(0, 1), ylabel=f"batch size {size}\naccuracy")
        for axis, name in ((row[1], "mse"), (row[2], "ssim")):
            _over_cosine(axis, own, f"matched {name}", markerfacecolor="white", alpha=0.75)
            _over_cosine(axis, own, name)
        for guess, style in (("mean image", "--"), ("class means", ":")):
            row[1].axhline(own[guess].mean(), color=GREY, linestyle=style, linewidth=1.2)
        row[1].set(ylabel="MSE", ylim=(0, None))
        low = min(-0.1, 1.2 * float((own["ssim"] - own["ssim error"]).min()))
        row[2].set(ylabel="SSIM", ylim=(low, None))
        for axis in row[:3]:
            _cosine_axis(axis)
            _printed_ticks(axis, pairs)
            axis.set_xlabel("mean cosine")
    _laws_panel(axes[0][3], tables["laws of the direction"])
    for row in axes[1:-1]:
        row[3].set_axis_off()
    _pairs_panel(axes[-1][3], marks)
    legend_above(
        figure,
        [
            *(legend_line(m, colour, "-", _MARKERS[m]) for m, colour in MECHANISMS.items()),
            legend_line("matched", GREY, "-", "o", markerfacecolor="white"),
            legend_line("mean picture", GREY, "--"),
            legend_line("class means", GREY, ":"),
            legend_line("printed pairs", GREY, "", "|"),
        ],
        6,
    )
    return figure


def _laws_panel(axes: Axes, laws: pd.DataFrame) -> None:
    axes.plot(_stretch(laws["cosine"].to_numpy()), laws["distance"], color=GREY)
    _cosine_axis(axes)
    axes.set(xlabel="mean cosine", ylabel="total variation", ylim=(0, 0.035))


def _pairs_panel(axes: Axes, marks: pd.DataFrame) -> None:
    styles = ("-", "--", ":", "-.")
    sizes = sorted(marks["n"].unique())
    for style, size in zip(styles, sizes, strict=False):
        own = marks[marks["n"] == size]
        axes.plot(
            own["sigma"], own["Gaussian"], style, marker="o", ms=3.5,
            color=MECHANISMS["Gaussian"], label=f"n = {size}",
        )  # fmt: skip
    own = marks[marks["n"] == sizes[0]]
    axes.plot(own["sigma"], own["VMF"], marker="s", ms=3.5, color=MECHANISMS["VMF"], label="any n")
    axes.set(
        xscale="log", yscale="log", ylim=(3e-4, 1.5), xlabel=r"printed $\sigma$", ylabel="cosine"
    )
    axes.set_xticks([0.2, 0.4, 0.8, 1.2], ["0.2", "0.4", "0.8", "1.2"])
    axes.minorticks_off()
    axes.legend(loc="lower left", fontsize=7.5, handlelength=3.2)


# Fair order --------------------------------------------------------------------------------------

_PAIRINGS = {"printed pairs": "o", "equal epsilon": "^", "equal capacity": "D"}
_SHORT = {"log capacity": "capacity", "epsilon": r"$\varepsilon$", "cosine": "cosine"}


@draws(
    "beyond/fair_order",
    caption="What orders the error of reconstructions across mechanisms. First three columns: MSE "
    "at batch size 128 over log capacity, over one over the noise multiplier (which orders as "
    "epsilon does; of VMF noise, that of the Gaussian of equal privacy), and over the mean cosine, "
    "where each noise of Table VI is paired by the print, by certified epsilon and by Theorems 5 "
    "and 6. Right: Spearman's correlation with minus the MSE in each pairing (at the printed pairs "
    "with the printed epsilon), both batch sizes, with 95% intervals over batches.",
    alt="Two rows, digits and garments. Over capacity and over epsilon the points of the two "
    "mechanisms form separate branches; over the cosine all lie on one falling curve. In the right "
    "panels the cosine's correlations are all near one; epsilon's are near one half at the printed "
    "pairs and at equal epsilon, capacity's at equal capacity.",
)
def fair_order(result: Result) -> Figure:
    points, ranks = result.tables["points"], result.tables["correlations"]
    names = list(dict.fromkeys(points["data"]))
    figure, axes = panels(len(names), 4, 2.5, 2.5)
    top = points["n"].max()
    for row, name in zip(axes, names, strict=True):
        own = points[(points["data"] == name) & (points["n"] == top)]
        for axis, order in zip(row, _SHORT, strict=False):
            for mechanism, colour in MECHANISMS.items():
                for pairing, marker in _PAIRINGS.items():
                    part = own[(own["mechanism"] == mechanism) & (own["pairing"] == pairing)]
                    x = part["signal" if order == "epsilon" else order]
                    shown = _stretch(x.to_numpy()) if order == "cosine" else x
                    axis.errorbar(
                        shown, part["MSE"], yerr=_TWO_SIDED * part["error"], fmt=marker, ms=4.5,
                        color=colour, markerfacecolor="white" if marker == "^" else colour,
                        elinewidth=0.7,
                    )  # fmt: skip
            if order == "cosine":
                _cosine_axis(axis)
                axis.set_xlim(_stretch(np.array([0.0012]))[0], None)
                axis.set_xlabel("mean cosine")
            else:
                axis.set_xscale("log")
                label = (
                    "log capacity (nats)"
                    if order == "log capacity"
                    else r"1/$\sigma$, as $\varepsilon$"
                )
                axis.set_xlabel(label)
            axis.set_ylim(0, None)
        row[0].set_ylabel(f"{name}\nMSE, batch size {top}")
        _ranks_panel(row[3], ranks[ranks["data"] == name])
    legend_above(
        figure,
        [
            *(legend_line(m, colour, "", "o") for m, colour in MECHANISMS.items()),
            legend_line("printed pairs", GREY, "", "o"),
            legend_line("equal epsilon", GREY, "", "^", markerfacecolor="white"),
            legend_line("equal capacity", GREY, "", "D"),
        ],
        5,
    )
    return figure


def _ranks_panel(axes: Axes, ranks: pd.DataFrame) -> None:
    """Correlations with intervals, one group of three a pairing, batch sizes side by side."""
    sizes = sorted(ranks["n"].unique())
    for i, pairing in enumerate(_PAIRINGS):
        for j, (colour, order) in enumerate(zip(COLOURS[2:], _SHORT, strict=False)):
            for k, size in enumerate(sizes):
                own = ranks[
                    (ranks["pairing"] == pairing) & (ranks["order"] == order) & (ranks["n"] == size)
                ].iloc[0]
                x = i + 0.27 * (j - 1) + 0.09 * (k - 0.5 * (len(sizes) - 1))
                axes.vlines(x, own["low"], own["high"], color=colour, linewidth=1.4)
                axes.plot(
                    x, own["Spearman"], "os^D"[k % 4], ms=4, color=colour,
                    label=_SHORT[order] if i == k == 0 else None,
                )  # fmt: skip
    axes.set_xticks(range(len(_PAIRINGS)), ["printed\npairs", "equal\nepsilon", "equal\ncapacity"])
    axes.set(ylim=(0, 1.05), ylabel="Spearman's correlation")
    axes.legend(loc="lower center", ncols=3, fontsize=7.5, handletextpad=0.1, columnspacing=1.0)


# What a batch allows -----------------------------------------------------------------------------

_ATTACKS = {
    "inverting gradients": ("inverting gradients", COLOURS[0], "o"),
    "the same without variation": ("the same without total variation", COLOURS[4], "v"),
    "deep leakage": ("deep leakage", COLOURS[3], "^"),
    "least squares in the span": ("least squares in the span", COLOURS[1], "s"),
    "with a prior": ("with a prior", COLOURS[2], "D"),
}
_FLOOR = 1e-12


@draws(
    "beyond/batch_limits",
    caption="What a batch allows: MSE of reconstructed pictures over the batch size, known labels, "
    "without noise and with noise of a small share of the gradient's length (median over batches, "
    "bars from least to largest; values below 1e-12 are drawn there). Grey: guesses that see no "
    "gradient. Right: equations and unknowns, of all pixels and in the span of the first layer's "
    "gradient.",
    alt="Left: without noise, least squares in the span lie at the floor for every batch size "
    "tried; deep leakage and inverting gradients leave it after two to four records and rise above "
    "the class means. Middle: with noise no attack is at the floor. Right: the number of pixels "
    "passes the 13,700 equations beyond a batch of 53; unknowns in the span stay below theirs up "
    "to 50.",
)
def batch_limits(result: Result) -> Figure:
    errors, counts = result.tables["errors"], result.tables["counts"]
    noises = [0.0, errors["noise"].max()]
    figure, (row,) = panels(1, 3, 3.4, 3.3)
    sizes = list(counts["n"])
    for axis, noise in zip(row, noises, strict=False):
        own = errors[errors["noise"] == noise]
        for guess, style in (("mean image", "--"), ("class means", ":"), ("zeros", "-.")):
            part = own[own["attack"] == guess]
            axis.plot(part["n"], part["natural"], color=GREY, linestyle=style, linewidth=1.2)
        for name, (_, colour, marker) in _ATTACKS.items():
            part = own[own["attack"] == name]
            middle, low, high = (
                np.maximum(part[column].to_numpy(), _FLOOR)
                for column in ("median", "least", "largest")
            )
            axis.errorbar(
                part["n"], middle, yerr=[middle - low, high - middle], color=colour,
                marker=marker, ms=4.5, capsize=2, elinewidth=0.9, linewidth=1.2,
            )  # fmt: skip
        axis.set(yscale="log", ylim=(0.3 * _FLOOR, 30), ylabel="MSE, matched")
        axis.set_title("without noise" if noise == 0 else f"noise {noise:g} of the gradient")
    for name, colour, style in (
        ("equations", COLOURS[0], "-"),
        ("unknowns", COLOURS[0], "--"),
    ):
        row[2].plot(sizes, counts[name], style, color=colour, marker="o", ms=3.5, label=name)
    inside = counts[counts["in the span"]]
    for name, style in (("equations in the span", "-"), ("unknowns in the span", "--")):
        row[2].plot(
            inside["n"], inside[name], style, color=COLOURS[1], marker="s", ms=3.5, label=name
        )
    row[2].set(yscale="log", ylabel="numbers")
    row[2].legend(loc="lower right", fontsize=7.5)
    for axis in row:
        axis.set_xscale("log", base=2)
        ticks = [n for n in sizes if n & (n - 1) == 0]
        axis.set_xticks(ticks, [str(n) for n in ticks])
        axis.minorticks_off()
        axis.set_xlabel("batch size")
    legend_above(
        figure,
        [
            *(legend_line(label, colour, "-", m) for label, colour, m in _ATTACKS.values()),
            legend_line("mean picture", GREY, "--"),
            legend_line("class means", GREY, ":"),
            legend_line("zeros", GREY, "-."),
        ],
        4,
    )
    return figure
