"""Figure 4: PSNR of the proposed attack with and without feature matching."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.experiments.client_grid import run_grid
from companion.experiments.clients import printed_settings
from companion.papers.liu2024.defence_errors import (
    GRID_AND_SIZES,
    gains_beyond_error,
    gains_of_matching,
    mean_errors,
    printed_errors,
    printed_gains,
    what_ran,
)
from companion.papers.liu2024.defence_panels import PAIR, how_many, label_settings, settings_of
from companion.papers.liu2024.own_runs import check_run
from companion.study import Context, Tables, Verdict, check, measurement
from companion.style import drawing, legend_above, legend_line, panels

PARAMETERS = GRID_AND_SIZES


@measurement
def measure(study: Context) -> Tables:
    sizes = study.parameters.batch_sizes
    errors = run_grid(study, list(PAIR), printed_settings("table7"), sizes)
    return Tables(
        {
            "ours": mean_errors(errors),
            "gains": gains_of_matching(errors),
            "printed gains": printed_gains(),
            "printed PSNR": pd.concat([printed_errors("table7"), printed_errors("table8")]),
        },
        exact=("printed gains", "printed PSNR"),
        ran=what_ran(study, "The proposed attack with and without feature matching"),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    gains, printed = tables["gains"], tables["printed gains"]["PSNR gain"]
    yield check(
        "liu2024/fig4",
        (printed > 0).mean() > 0.9,
        "in print, feature matching raises the PSNR in more than nine cells of ten",
        ours=f"{(printed > 0).sum()} of {len(printed)}",
    )
    yield check_run(
        tables,
        "liu2024/fig4",
        (gains["PSNR"] > 0).mean() > 0.9,
        "on our runs it raises the PSNR in more than nine cells of ten",
        ours=gains_beyond_error(gains),
        differs="On this network matching them makes the pictures worse.",
    )


CAPTION = (
    "Mean PSNR of the proposed attack with and without feature matching under each defence at "
    "several batch sizes: ours as bars with 95 per cent intervals over the pictures, and as hollow "
    "marks the numbers that the paper prints in its Tables 7 and 8. In print feature matching "
    "gains most under light noise; on the network attacked here it lowers the PSNR."
)


def alt(tables: Tables) -> str:
    gains, printed = tables["gains"]["PSNR"], tables["printed gains"]
    best = printed.loc[printed["PSNR gain"].idxmax()]
    return (
        f"Rows of paired bars over {tables['gains']['setting'].nunique()} settings, one row for "
        f"each batch size. With feature matching the bar is the lower one in "
        f"{how_many((gains < 0).sum(), len(gains))} of the pairs, by {-gains.mean():.0f} decibels "
        "on average. The printed marks of the attack with feature matching stand up to "
        f"{best['PSNR gain']:.0f} decibels above those without it, under {best['setting']}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    ours, marks = tables["ours"], tables["printed PSNR"]
    sizes = list(dict.fromkeys(ours["batch size"]))
    settings = settings_of(marks)
    titles = [title for title, *_ in settings]
    figure, axes = panels(len(sizes), 1, width=8.6, height=1.75)
    bar = {"width": 0.36, "error_kw": {"elinewidth": 0.9, "capsize": 1.5, "ecolor": "black"}}
    hollow = {"color": "black", "markerfacecolor": "white"}
    for (axis,), n in zip(axes, sizes, strict=True):
        for (attack, colour), shift in zip(PAIR.items(), (-0.2, 0.2), strict=True):
            places = np.arange(len(settings)) + shift
            mine, printed = (
                t[(t["attack"] == attack) & (t["batch size"] == n)]
                .set_index("setting")
                .reindex(titles)
                for t in (ours, marks)
            )
            axis.bar(places, mine["PSNR"], color=colour, yerr=1.96 * mine["PSNR error"], **bar)
            axis.plot(places, printed["PSNR"], "D", markersize=4, **hollow)
        label_settings(axis, settings, n == sizes[-1])
        axis.set(xlim=(-0.6, len(settings) - 0.4), ylim=(0, None))
        axis.set_ylabel(f"PSNR (dB), n = {n}")
    names = ("with feature matching", "without")
    handles = [legend_line(t, c, "", "s") for t, c in zip(names, PAIR.values(), strict=True)]
    handles.append(legend_line("printed", "black", "", "D", markerfacecolor="white"))
    legend_above(figure, handles, 3)
    return figure
