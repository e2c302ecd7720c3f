"""Pictures of the exhibits of Liu et al. 2024 that attack every defence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from companion.drawings import draws
from companion.study import Result
from companion.style import (
    ATTACKS,
    COLOURS,
    DEFENCES,
    GREY,
    legend_above,
    legend_line,
    panels,
    picture,
)

__all__: list[str] = []

KEY = "liu2024"

_SHORT = {
    "None": "none",
    "GradClip": "clip",
    "GradNoise": "noise",
    "GradDrop": "drop",
    "GradPrune": "prune",
    "LocalAggregation": "local",
}
_REFERENCES = {"grey": "--", "mean image": ":"}
_WITHOUT = COLOURS[4]


def _settings(table: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Title, defence and short name of each setting, in the table's order."""
    rows = table[["setting", "defence", "strength"]].drop_duplicates()
    return [
        (
            row.setting,
            row.defence,
            _SHORT[row.defence] + ("" if row.defence == "None" else f" {row.strength:g}"),
        )
        for row in rows.itertuples()
    ]


def _ticks(axis: Axes, settings: Sequence[tuple[str, str, str]], last: bool) -> None:
    axis.set_xticks(range(len(settings)))
    if not last:
        axis.set_xticklabels([])
        return
    axis.set_xticklabels([short for *_, short in settings], rotation=90, fontsize=8)
    for label, (_, defence, _) in zip(axis.get_xticklabels(), settings, strict=True):
        label.set_color(DEFENCES[defence]["color"])


# Table 4 -----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/table4",
    caption="RMSE left by each attack (rows) under each defence and strength (columns) at three "
    "batch sizes: printed (left) and as run here (right), the lowest of each setting framed. Light "
    'is a good reconstruction. The row "Ours" is the paper\'s own attack on both sides. The last '
    "row takes no gradient at all, the mean image of the data: whatever is larger is worse than "
    "that.",
    alt="Six blocks of numbers on a scale of blue. On the left, printed numbers, the proposed "
    "attack's row framed almost everywhere. On the right ours: Robbing the Fed's row is zero "
    "without noise and dropout, gradient inversion is framed in most other columns.",
)
def errors_of_attacks(result: Result) -> Figure:
    printed, ours = result.tables["printed"], result.tables["ours"]
    references = result.tables["references"].set_index("attack")
    sizes = list(dict.fromkeys(ours["batch size"]))
    settings = _settings(printed)
    figure, axes = panels(len(sizes), 2, width=6.0, height=1.75)
    for row, n in zip(axes, sizes, strict=True):
        for axis, table, title in zip(row, (printed, ours), ("printed", "run here"), strict=True):
            mine = table[table["batch size"] == n]
            _numbers(axis, mine, settings, None if title == "printed" else references)
            _ticks(axis, settings, n == sizes[-1])
            axis.set_title(f"{title}, batch size {n}" if n == sizes[0] else f"batch size {n}")
    return figure


def _numbers(
    axis: Axes,
    table: pd.DataFrame,
    settings: Sequence[tuple[str, str, str]],
    references: pd.DataFrame | None,
) -> None:
    """Numbers on a scale of blue, the lowest of each column framed."""
    attacks = list(dict.fromkeys(table["attack"]))
    values = (
        table.pivot_table(index="attack", columns="setting", values="RMSE", sort=False)
        .loc[attacks, [title for title, *_ in settings]]
        .to_numpy()
    )
    lowest = np.round(values, 2).min(axis=0)
    if references is not None:
        attacks = [*attacks, "mean image"]
        line = np.full((1, values.shape[1]), references.loc["mean image", "RMSE"])
        values = np.vstack([values, line])
    axis.imshow(values, cmap="Blues", vmin=0.0, vmax=0.5, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = f"{value:.2f}".lstrip("0")
        colour = "white" if value > 0.3 else "black"
        axis.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
        if round(value, 2) == lowest[j] and attacks[i] != "mean image":
            axis.add_patch(
                Rectangle((j - 0.47, i - 0.45), 0.94, 0.9, fill=False, color="#D55E00", lw=1.3)
            )
    axis.set_yticks(range(len(attacks)), attacks, fontsize=8)
    for label in axis.get_yticklabels():
        label.set_color(ATTACKS.get(label.get_text(), {"color": GREY})["color"])
    axis.grid(False)
    axis.tick_params(length=0)


# Tables 7 and 8 ----------------------------------------------------------------------------------


@draws(
    f"{KEY}/table7",
    caption="The proposed attack under each defence. Top: mean RMSE with the deviation over the "
    "pictures, run here (filled) and printed (hollow), and two pictures that take no gradient. "
    "Bottom: the printed PSNR over the printed RMSE. On one set of pictures the mean PSNR is at "
    "least that of the mean RMSE (line); how much more the printed deviations allow ends at the "
    "small bars, and most of the printed points lie above them.",
    alt="Three rows of dots with long bars over fifteen settings: errors rise with noise, with "
    "pruning and with local steps and stay low under clipping. Below, two scatters of hollow dots "
    "that float several decibels above a falling curve at small errors and touch it at large ones.",
)
def proposed_attack(result: Result) -> Figure:
    figure, axes = _with_spread(result, "Ours", extra=1)
    both = result.tables["both errors"]
    for axis, table, title in zip(
        axes[-1].subplots(1, 2, sharey=True),
        ("table7", "table8"),
        ("printed in Table 7", "printed in Table 8"),
        strict=True,
    ):
        _both_errors(axis, both[both["table"] == table])
        axis.set_title(title)
        axis.set_xlabel("mean RMSE")
        if table == "table7":
            axis.set_ylabel("mean PSNR (dB)")
    return figure


def _both_errors(axis: Axes, table: pd.DataFrame) -> None:
    curve = np.linspace(0.13, 0.37, 100)
    axis.plot(curve, -20 * np.log10(curve), color=GREY, linewidth=1.2)
    known = table[table["most PSNR"] != "none"]
    most = known["most PSNR"].astype(float)
    axis.vlines(known["RMSE"], known["least PSNR"], most, color="#BBBBBB", linewidth=1)
    axis.plot(known["RMSE"], most, "_", color=GREY, markersize=7)
    for possible, colour in ((False, COLOURS[1]), (True, COLOURS[0])):
        mine = table[table["possible"] == possible]
        axis.plot(
            mine["RMSE"], mine["PSNR"], "D", color=colour, markerfacecolor="white", markersize=5
        )
    axis.legend(
        handles=[
            legend_line("impossible", COLOURS[1], "", "D", markerfacecolor="white"),
            legend_line("possible", COLOURS[0], "", "D", markerfacecolor="white"),
            legend_line("most that is possible", GREY, "", "_"),
        ],
        loc="upper right",
    )


@draws(
    f"{KEY}/table8",
    caption="The proposed attack without feature matching under each defence: mean RMSE with the "
    "deviation over the pictures, run here (filled) and printed (hollow), and two pictures that "
    "take no gradient. These printed numbers are also those of gradient inversion in Table 4, to "
    "the last digit, wherever both tables have the setting. Deviations are drawn up to .2; one "
    "is printed as .71.",
    alt="Three rows of dots with long bars over fifteen settings, one row for each batch size: "
    "errors rise with noise and with pruning; the printed ones are high from the lightest noise "
    "on, those run here only later.",
)
def without_feature_matching(result: Result) -> Figure:
    return _with_spread(result, "w/o FM", extra=0)[0]


def _with_spread(result: Result, attack: str, extra: int) -> tuple[Figure, list]:
    """RMSE by setting, a row for each batch size; and a last row left to the caller."""
    from matplotlib import pyplot as plt

    printed, ours = result.tables["printed"], result.tables["ours"]
    references = result.tables["references"].set_index("attack")["RMSE"]
    sizes = list(dict.fromkeys(ours["batch size"]))
    settings = _settings(printed)
    heights = [1.45 * len(sizes) + 0.7, *[2.9] * extra]
    figure = plt.figure(figsize=(8.6, sum(heights)), layout="constrained")
    parts = figure.subfigures(1 + extra, 1, height_ratios=heights, squeeze=False)[:, 0]
    colour = ATTACKS["Ours"]["color"] if attack == "Ours" else _WITHOUT
    axes = parts[0].subplots(len(sizes), 1, sharey=True, squeeze=False)[:, 0]
    for axis, n in zip(axes, sizes, strict=True):
        for table, shift, face in ((ours, -0.13, colour), (printed, 0.13, "white")):
            mine = table[table["batch size"] == n].set_index("setting")
            mine = mine.loc[[title for title, *_ in settings]]
            axis.errorbar(
                np.arange(len(settings)) + shift,
                mine["RMSE"],
                yerr=mine["RMSE sd"],  # one printed deviation, .71, runs out of the panel
                fmt="o" if face != "white" else "D",
                color=colour if face != "white" else GREY,
                markerfacecolor=face,
                markersize=5,
                elinewidth=0.9,
                capsize=2,
            )
        for name, style in _REFERENCES.items():
            axis.axhline(references[name], color=GREY, linestyle=style, linewidth=1)
        _ticks(axis, settings, n == sizes[-1])
        axis.set(ylim=(0, 0.62), xlim=(-0.6, len(settings) - 0.4))
        axis.set_ylabel(f"RMSE, n = {n}")
    parts[0].legend(
        handles=[
            legend_line("run here", colour, "", "o"),
            legend_line("printed", GREY, "", "D", markerfacecolor="white"),
            *(legend_line(name, GREY, style) for name, style in _REFERENCES.items()),
        ],
        loc="outside upper center",
        ncols=4,
    )
    return figure, list(parts)


# Figures 2 and 4 ---------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig2",
    caption="A batch and what two attacks make of its gradient under each defence: gradient "
    "inversion with one cosine over all layers and the proposed attack, with the RMSE over all "
    "batches of that size. The paper shows the same rows and columns and finds its own attack's "
    "pictures better; pruned to one entry of a hundred nothing is to be recognised in either.",
    alt="Three rows of small colour pictures in blocks of four: the originals, repeated, then two "
    "rows of reconstructions. They resemble the originals without a defence and under clipping, "
    "are grainy under noise and dropout, and show nothing on the right, under the heaviest "
    "pruning.",
)
def rebuilt_pictures(result: Result) -> Figure:
    errors = result.tables["errors"]
    settings = list(dict.fromkeys(errors["setting"]))
    rows = ["original", *dict.fromkeys(errors["attack"])]
    shorts = {title: short for title, _, short in _settings(errors)}
    figure, axes = panels(len(rows), len(settings), width=1.5, height=1.65)
    for name, line in zip(rows, axes, strict=True):
        for axis, setting in zip(line, settings, strict=True):
            prefix = "original" if name == "original" else f"{name}, {setting}"
            picture(axis, _mosaic(result.images, prefix))
            if name == "original":
                axis.set_title(shorts[setting], fontsize=9)
            else:
                cell = errors[(errors["attack"] == name) & (errors["setting"] == setting)]
                axis.set_title(f"RMSE {cell['RMSE'].iloc[0]:.2f}", fontsize=8)
        line[0].set_ylabel(name, fontsize=9, color=ATTACKS.get(name, {"color": GREY})["color"])
    return figure


def _mosaic(images, prefix: str) -> np.ndarray:
    """Up to four pictures in a square, with a white seam."""
    shown = [images[f"{prefix} {i}"] for i in range(4) if f"{prefix} {i}" in images]
    side = shown[0].shape[0]
    seam = max(1, side // 8)
    whole = np.ones((2 * side + seam, 2 * side + seam, 3))
    for i, one in enumerate(shown):
        top, left = (i // 2) * (side + seam), (i % 2) * (side + seam)
        whole[top : top + side, left : left + side] = one
    return whole


@draws(
    f"{KEY}/fig4",
    caption="Mean PSNR of the proposed attack with and without feature matching under each "
    "defence at three batch sizes: ours as bars with 95 per cent intervals over the pictures, and "
    "as hollow marks the numbers that the paper prints in its Tables 7 and 8. In print feature "
    "matching gains most under light noise; on the network that is attacked here it costs.",
    alt="Three rows of paired bars over fifteen settings. Without feature matching the bars are "
    "mostly higher, level under heavy noise and pruning. The printed marks of the attack with "
    "feature matching stand up to eleven decibels above those without it, under light noise.",
)
def gain_of_features(result: Result) -> Figure:
    ours, marks = result.tables["ours"], result.tables["printed PSNR"]
    sizes = list(dict.fromkeys(ours["batch size"]))
    settings = _settings(marks)
    places = np.arange(len(settings))
    pair = {"Ours": ATTACKS["Ours"]["color"], "w/o FM": _WITHOUT}
    figure, axes = panels(len(sizes), 1, width=8.6, height=1.75)
    for (axis,), n in zip(axes, sizes, strict=True):
        for (attack, colour), shift in zip(pair.items(), (-0.2, 0.2), strict=True):
            mine, printed = (
                t[(t["attack"] == attack) & (t["batch size"] == n)]
                .set_index("setting")
                .loc[[title for title, *_ in settings]]
                for t in (ours, marks)
            )
            axis.bar(
                places + shift,
                mine["PSNR"],
                width=0.36,
                color=colour,
                yerr=1.96 * mine["PSNR error"],
                error_kw={"elinewidth": 0.9, "capsize": 1.5, "ecolor": "black"},
            )
            axis.plot(
                places + shift,
                printed["PSNR"],
                "D",
                color="black",
                markerfacecolor="white",
                markersize=4,
            )
        _ticks(axis, settings, n == sizes[-1])
        axis.set(xlim=(-0.6, len(settings) - 0.4), ylim=(0, None))
        axis.set_ylabel(f"PSNR (dB), n = {n}")
    legend_above(
        figure,
        [
            legend_line("with feature matching", pair["Ours"], "", "s"),
            legend_line("without", pair["w/o FM"], "", "s"),
            legend_line("printed", "black", "", "D", markerfacecolor="white"),
        ],
        3,
    )
    return figure
