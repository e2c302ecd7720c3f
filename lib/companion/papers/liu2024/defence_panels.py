"""Drawing errors by setting: what Tables 4, 7 and 8 and Figures 2 and 4 share."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from companion.exhibit import *
from companion.exhibit import ATTACKS, DEFENCES
from companion.papers.liu2024.defence_errors import MATCHED, UNMATCHED

#: colours of the proposed attack with and without feature matching
PAIR = {MATCHED: ATTACKS["Ours"]["color"], UNMATCHED: COLOURS[4]}
_REFERENCES = {"grey": "--", "mean image": ":"}

#: title, defence and short name
NamedSetting = tuple[str, str, str]


def settings_of(table: pd.DataFrame) -> list[NamedSetting]:
    """Title, defence and short name of each setting, in the table's order."""
    named = []
    for row in table[["setting", "defence", "strength"]].drop_duplicates().itertuples():
        short = row.defence.removeprefix("Grad").removesuffix("Aggregation").lower()
        if row.defence != "None":
            short += f" {row.strength:g}"
        named.append((row.setting, row.defence, short))
    return named


def label_settings(axis: Axes, settings: Sequence[NamedSetting], last: bool) -> None:
    """Name the settings below the last row of panels, in their defences' colours."""
    axis.set_xticks(range(len(settings)))
    if not last:
        axis.set_xticklabels([])
        return
    axis.set_xticklabels([short for *_, short in settings], rotation=90, fontsize=8)
    for label, (_, defence, _) in zip(axis.get_xticklabels(), settings, strict=True):
        label.set_color(DEFENCES[defence]["color"])


def how_many(count: float, total: float) -> str:
    """A share in a word that rounding on another machine does not change."""
    share = count / total
    words = {"none": 0.0, "few": 0.35, "about half": 0.65, "most": 0.999}
    return next((word for word, most in words.items() if share <= most), "all")


def draw_spread(
    tables: Tables, attack: str, extra: Sequence[float] = ()
) -> tuple[Figure, list[SubFigure]]:
    """Draw one attack's RMSE with deviations by setting, a row for each batch size.

    Returns the figure and empty parts of the heights ``extra`` below.
    """
    printed, ours = tables["printed"], tables["ours"]
    references = tables["references"].set_index("attack")["RMSE"]
    sizes = list(dict.fromkeys(ours["batch size"]))
    settings = settings_of(printed)
    titles = [title for title, *_ in settings]
    heights = [1.45 * len(sizes) + 0.7, *extra]
    figure = plt.figure(figsize=(8.4, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    own, *others = parts
    colour = PAIR[attack]
    axes = own.subplots(len(sizes), 1, sharey=True, squeeze=False)[:, 0]
    looks = [(ours, -0.13, "o", colour, colour)]
    if not tables.origin_of("data"):
        looks.append((printed, 0.13, "D", GREY, "white"))
    bars = {"markersize": 5, "elinewidth": 0.9, "capsize": 2}
    for axis, n in zip(axes, sizes, strict=True):
        for table, shift, marker, dark, fill in looks:
            mine = table[table["batch size"] == n].set_index("setting").reindex(titles)
            places, sd = np.arange(len(titles)) + shift, mine["RMSE sd"]  # one, .71, is cut off
            look = {"fmt": marker, "color": dark, "markerfacecolor": fill, **bars}
            axis.errorbar(places, mine["RMSE"], yerr=sd, **look)
        for name, style in _REFERENCES.items():
            axis.axhline(references[name], color=GREY, linestyle=style, linewidth=1)
        label_settings(axis, settings, n == sizes[-1])
        axis.set(ylim=(0, 0.62), xlim=(-0.6, len(settings) - 0.4))
        axis.set_ylabel(f"RMSE, n = {n}")
    handles = [
        legend_line("run here", colour, "", "o"),
        *([printed_entry(colour=GREY)] if len(looks) > 1 else []),
        *(legend_line(name, GREY, style) for name, style in _REFERENCES.items()),
    ]
    own.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure, others
