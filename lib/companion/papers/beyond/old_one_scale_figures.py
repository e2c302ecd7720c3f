"""Picture of our own exhibit that puts every notion of risk on one scale."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, panels

__all__: list[str] = []

SKY = COLOURS[4]


@draws(
    "beyond/one_scale",
    caption="One network, one data set, one run of DP-SGD over the noise multiplier. Lines: "
    "bounds; marks: attacks, with four standard errors. Top: finding the record among candidates; "
    "the error of reconstructions; coming near the record. Bottom: epsilon and capacity; the noise "
    "from which each notion sees nothing to fear (an advantage of a tenth, or no better than a "
    "guess); the error that reading the first layer leaves under defences without noise, whose "
    "epsilon is infinite and whose ReRo is one. Grey: nearest neighbour and mean image.",
    alt="Six panels. Success marks lie below the falling S-shaped bound; error marks rise with the "
    "noise along the Cramer-Rao line and flatten below it; near misses fall early. Thresholds "
    "spread over three powers of ten, epsilon and capacity to the right of the attacks. Bars: no "
    "error without defence, after clipping and local steps.",
)
def one_scale(result: Result) -> Figure:
    table, curves = result.tables["notions"], result.tables["curves"]
    figure, axes = panels(2, 3, 4.1, 3.3)
    _candidates(axes[0][0], table, curves, int(result.settings["prior_size"]))
    _errors(axes[0][1], table, result.tables["guesses"])
    _near_misses(axes[0][2], table, curves)
    _sizes(axes[1][0], curves)
    _thresholds(axes[1][1], result.tables["thresholds"])
    _defences(axes[1][2], result.tables["defences"], result.tables["guesses"])
    for axis in (*axes[0], axes[1][0]):
        axis.set(xscale="log", xlabel="noise multiplier")
    # room for the legend
    axes[0][2].set_xlim(left=0.1 * curves["sigma"].min())
    return figure


def _marks(
    axis: Axes, table: pd.DataFrame, name: str, error: str, colour: str, marker: str, label: str
) -> None:
    spread = 4 * table[error] if error else None
    axis.errorbar(
        table["sigma"],
        table[name],
        yerr=spread,
        color=colour,
        marker=marker,
        linestyle="",
        ms=5,
        capsize=2,
        label=label,
    )


def _candidates(axis: Axes, table: pd.DataFrame, curves: pd.DataFrame, count: int) -> None:
    for name, colour, style, label in (
        ("by capacity", PURPLE, ":", "Bayes' capacity"),
        ("by epsilon", GREEN, "--", "epsilon"),
        ("ReRo", BLUE, "-", "ReRo"),
    ):
        axis.plot(curves["sigma"], curves[name], color=colour, linestyle=style, label=label)
    _marks(axis, table, "prior-aware", "prior-aware error", ORANGE, "o", "prior-aware attack")
    axis.axhline(1 / count, color=GREY, linewidth=1)
    axis.set(ylim=(0, 1.05), ylabel=f"success with {count} candidates")
    axis.legend(loc="lower left", bbox_to_anchor=(0.0, 0.12))


def _errors(axis: Axes, table: pd.DataFrame, guesses: pd.DataFrame) -> None:
    axis.plot(table["sigma"], table["Cramer-Rao"], color=BLUE, label="Cramer-Rao")
    axis.plot(
        table["sigma"], table["analytic, expected"], color=SKY, label="analytic attack, expected"
    )
    _marks(axis, table, "analytic RMSE", "analytic RMSE error", SKY, "v", "analytic attack")
    small = table[table["Cramer-Rao"] < 1]
    _marks(axis, small, "least squares", "", GREEN, "s", "least squares")
    _marks(axis, table, "RMSE", "RMSE error", ORANGE, "o", "gradient matching")
    for style, row in zip(("-.", ":"), guesses.itertuples(), strict=True):
        axis.axhline(row.RMSE, color=GREY, linestyle=style, linewidth=1.1, label=row.guess)
    axis.set(yscale="log", ylim=(2e-3, 3), ylabel="RMSE")
    axis.legend(loc="lower right", fontsize=7.5)


def _near_misses(axis: Axes, table: pd.DataFrame, curves: pd.DataFrame) -> None:
    axis.plot(curves["sigma"], curves["ReRo of a near miss"], color=BLUE, label="ReRo")
    axis.plot(curves["sigma"], curves["prior-free tail"], color=SKY, label="prior-free tail")
    _marks(axis, table, "analytic near", "analytic near error", SKY, "v", "analytic attack")
    _marks(axis, table, "near", "", ORANGE, "o", "gradient matching")
    axis.set(ylim=(-0.03, 1.05), ylabel="probability of a near miss")
    axis.legend(loc="center left", fontsize=7.5, handlelength=1.2)


def _sizes(axis: Axes, curves: pd.DataFrame) -> None:
    axis.plot(curves["sigma"], curves["epsilon"], color=GREEN, linestyle="--", label="epsilon")
    axis.plot(
        curves["sigma"], curves["log capacity"], color=PURPLE, linestyle=":", label="log capacity"
    )
    axis.set(yscale="log", ylabel="nats")
    axis.legend(loc="upper right")


def _thresholds(axis: Axes, table: pd.DataFrame) -> None:
    place = np.arange(len(table))[::-1]
    for kind, colour, marker in (("bound", BLUE, "s"), ("attack", ORANGE, "o")):
        mine = (table["kind"] == kind).to_numpy()
        axis.plot(
            table["sigma"][mine],
            place[mine],
            color=colour,
            marker=marker,
            linestyle="",
            ms=6,
            label=kind,
        )
    axis.set_yticks(place, table["notion"], fontsize=8)
    axis.set(xscale="log", xlabel="noise multiplier from which nothing is to fear")
    axis.legend(loc="lower right")


def _defences(axis: Axes, table: pd.DataFrame, guesses: pd.DataFrame) -> None:
    place = np.arange(len(table))[::-1]
    axis.barh(place, table["RMSE"], color=PURPLE, height=0.55)
    for at, row in zip(place, table.to_dict("records"), strict=True):
        axis.annotate(
            f"{row['values read']:.0%} read",
            (row["RMSE"], at),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    axis.set_yticks(place, table["defence"], fontsize=8)
    for style, guess in zip(("-.", ":"), guesses.itertuples(), strict=True):
        axis.axvline(guess.RMSE, color=GREY, linestyle=style, linewidth=1.1)
    axis.set(xlim=(0, 1.25 * guesses["RMSE"].max()), xlabel="RMSE of the record as read")
