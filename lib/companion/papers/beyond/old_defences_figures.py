"""Pictures of attackers who know the defence, and of what a defence leaves to any attacker."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import (
    BLUE,
    COLOURS,
    DEFENCES,
    GREEN,
    GREY,
    ORANGE,
    legend_above,
    legend_line,
    panels,
    picture,
)

__all__: list[str] = []

#: lower end of the axis of errors, where those that are zero stand
_ZERO = 1e-6


# Oblivious and aware -----------------------------------------------------------------------------


@draws(
    "beyond/aware_attackers",
    caption="The same attack on the same updates by attackers who take them for plain gradients "
    "(circles) and by attackers who compare visible entries only, repeat local steps or weigh by "
    "the noise (squares): large, the mean; small, each batch. Above, one picture as both find it.",
    alt="Rows of small pictures found by oblivious and aware attackers, above dot plots that join "
    "the two readings of each defence by a line.",
)
def _aware_attackers(result: Result) -> Figure:
    gains, batches = result.tables["gains"], result.tables["gains by batch"]
    sizes = list(gains["batch size"].unique())
    settings = [key.partition("|")[0] for key in result.images if key.endswith("|aware")]
    figure = plt.figure(figsize=(9.6, 9.4), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 2.1))
    _pictures(above, result, settings)
    axes = below.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for panel, n in zip(axes, sizes, strict=True):
        own = batches[batches["batch size"] == n]
        _dumbbells(panel, gains[gains["batch size"] == n], own)
        panel.set_title(f"Batches of {n}")
    handles = [
        legend_line("oblivious", GREY, "", "o"),
        legend_line("aware", ORANGE, "", "s"),
    ]
    legend_above(below, handles, 2)
    return figure


def _pictures(figure, result: Result, settings: list[str]) -> None:
    columns = len(settings) + 1
    axes = figure.subplots(2, columns, squeeze=False)
    picture(axes[0][0], result.images["original"], "original")
    axes[1][0].axis("off")
    for column, setting in enumerate(settings, start=1):
        for row, reading in enumerate(("oblivious", "aware")):
            title = setting.replace("LocalAggregation", "Local").replace("sigma0", r"$\sigma_0$")
            picture(
                axes[row][column],
                result.images[f"{setting}|{reading}"],
                title if row == 0 else "",
                ORANGE if row else GREY,
            )


def _dumbbells(axes: Axes, gains: pd.DataFrame, batches: pd.DataFrame) -> None:
    places = np.arange(len(gains))[::-1]
    place = dict(zip(gains["setting"], places, strict=True))
    axes.hlines(places, gains["oblivious"], gains["aware"], color="#BBBBBB", lw=3, zorder=1)
    for name, colour, marker, shift in (
        ("oblivious", GREY, "o", 0.16),
        ("aware", ORANGE, "s", -0.16),
    ):
        axes.plot(gains[name], places, marker, color=colour, ms=5.5, zorder=3)
        own = batches["setting"].map(place) + shift
        axes.plot(batches[name], own, marker, color=colour, ms=2.5, alpha=0.55, zorder=2)
    axes.set_yticks(places, [_short(s) for s in gains["setting"]])
    axes.set(xlabel="PSNR of gradient inversion, dB", ylim=(-0.7, len(gains) - 0.3))


def _short(setting: str) -> str:
    return setting.replace("LocalAggregation", "Local").replace("sigma0", r"$\sigma_0$")


# Hidden or gone ----------------------------------------------------------------------------------


@draws(
    "beyond/strongest_attack",
    caption="Left: errors of gradient inversion and of least squares on a small network, with the "
    "floor of the mean error over the pictures' normal law (a single batch may be below it; under "
    "pruning it holds to first order); what "
    "is zero, or below a millionth, stands at the left edge. Right: the share of the pixels' "
    "directions that an update still determines, over what is pruned or dropped of it.",
    alt="Dot plot of errors by defence with floors, beside curves of the determined share that "
    "stay at one until most of the update is removed.",
)
def _strongest_attack(result: Result) -> Figure:
    figure, axes = panels(1, 2, 4.9, 4.4)
    _floors(axes[0][0], result.tables["fits"])
    _shares(axes[0][1], result.tables["ranks"])
    handles = [
        legend_line("inversion, oblivious", GREY, "", "o"),
        legend_line("inversion, aware", ORANGE, "", "s"),
        legend_line("least squares", BLUE, "", "D"),
        legend_line("floor of the mean (van Trees)", GREEN, "", "|", markeredgewidth=2.5),
        legend_line("floor for the unbiased (Cramér-Rao)", "black", "", "|"),
    ]
    legend_above(figure, handles, 3)
    return figure


def _floors(axes: Axes, fits: pd.DataFrame) -> None:
    places = np.arange(len(fits))[::-1]

    def at(column: str) -> np.ndarray:
        return np.maximum(fits[column].to_numpy(dtype=float), _ZERO)

    axes.plot(at("van Trees"), places, "|", color=GREEN, ms=15, mew=2.5, zorder=2)
    noisy = (fits["noise"] > 0).to_numpy()
    axes.plot(at("Cramer-Rao")[noisy], places[noisy], "|", color="black", ms=15, zorder=2)
    for column, colour, marker in (
        ("oblivious inversion", GREY, "o"),
        ("aware inversion", ORANGE, "s"),
        ("least squares", BLUE, "D"),
    ):
        axes.plot(at(column), places, marker, color=colour, ms=5.5, zorder=3, clip_on=False)
    axes.set_yticks(places, [_short(s) for s in fits["setting"]])
    axes.set(xscale="log", xlabel="RMSE of a pixel", xlim=(_ZERO, 1.5))


def _shares(axes: Axes, ranks: pd.DataFrame) -> None:
    sizes = list(ranks["batch size"].unique())
    for n, colour in zip(sizes, COLOURS, strict=False):
        for defence, style in (("GradPrune", "-"), ("GradDrop", "--")):
            own = ranks[(ranks["batch size"] == n) & (ranks["defence"] == defence)]
            axes.plot(
                1 - own["share"],
                own["determined"],
                style,
                color=colour,
                marker=DEFENCES[defence]["marker"],
                ms=4,
                label=f"{defence}, n = {n}",
            )
        own = ranks[ranks["batch size"] == n]
        # as many entries as pixels: with fewer, no batch is determined
        whole = own["entries"].max()
        axes.axvline(own["unknowns"].iloc[0] / whole, color=colour, lw=0.9, ls=":")
    axes.set(xscale="log", xlabel="share of the entries left", ylabel="directions determined")
    axes.set_ylim(0, 1.04)
    axes.invert_xaxis()
    axes.legend(loc="lower left")
