"""Table 7: RMSE and PSNR of the proposed attack under every defence."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.experiments.clients import Setting, printed_settings
from companion.papers.liu2024.defence_errors import (
    GRID_AND_SIZES,
    MATCHED,
    check_strengths,
    errors_of_table,
    of_setting,
    printed_errors,
    strongest_by_defence,
    what_ran,
)
from companion.papers.liu2024.defence_panels import draw_spread
from companion.papers.liu2024.defended_training import LOCAL
from companion.papers.liu2024.error_moments import (
    can_belong_together,
    largest_mean_psnr,
    least_mean_psnr,
)
from companion.papers.liu2024.own_runs import check_run
from companion.study import Context, Tables, Verdict, check, measurement, refute
from companion.style import COLOURS, GREY, drawing, legend_line

PARAMETERS = GRID_AND_SIZES
SETTLES = ("E-034", "E-E-03", "E-E-05")

PRUNED = Setting("GradPrune", 0.9)


@measurement
def measure(study: Context) -> Tables:
    both = [bounded_psnr(table, printed_errors(table)) for table in ("table7", "table8")]
    return Tables(
        {
            **errors_of_table(study, [MATCHED], "table7"),
            "both errors": pd.concat(both, ignore_index=True),
        },
        exact=("printed", "both errors"),
        ran=what_ran(study, "The proposed attack under 15 settings"),
    )


def bounded_psnr(table: str, printed: pd.DataFrame) -> pd.DataFrame:
    """Least and largest mean PSNR beside the printed RMSE, and whether all four are possible."""
    four = ["RMSE", "RMSE sd", "PSNR", "PSNR sd"]
    found = printed[["batch size", "setting", *four]].copy()
    found.insert(0, "table", table)
    found["least PSNR"] = [round(least_mean_psnr(mean), 1) for mean in printed["RMSE"]]
    rows = list(printed[four].itertuples(index=False))
    largest = [largest_mean_psnr(mean, sd, spread) for mean, sd, _, spread in rows]
    found["most PSNR"] = ["none" if math.isnan(most) else f"{most:.1f}" for most in largest]
    found["possible"] = [can_belong_together(*row) for row in rows]
    return found


def judge(tables: Tables) -> Iterator[Verdict]:
    ours, printed = tables["ours"], tables["printed"]
    yield check_strengths(tables, "liu2024/table7")
    local, pruned = of_setting(printed, 8, LOCAL[1], PRUNED)
    yield check(
        "E-034",
        local >= pruned,
        "in print, five local steps at batch size 8 have an error at least that of pruning "
        "nine entries of ten",
        ours=f"{local:.2f} and {pruned:.2f}",
    )
    if (ours["batch size"] == 8).any():
        our_local, our_pruned = of_setting(ours, 8, LOCAL[1], PRUNED)
        yield check_run(
            tables,
            "E-034",
            our_local >= our_pruned,
            "on our runs five local steps have at least the error of pruning nine entries of ten",
            differs="How much local steps hide depends on their rate, which is not printed; "
            "at ours they hide less.",
        )
    together = tables["both errors"]
    impossible = together[~together["possible"]]
    most = pd.to_numeric(impossible["most PSNR"], errors="coerce")
    excess = (impossible["PSNR"] - most).dropna()
    count = impossible["table"].value_counts()
    yield refute(
        "E-E-03",
        holds=impossible.empty,
        corrected_holds=len(impossible) > len(together) / 2
        # the programme finds a solution where there is one
        and can_belong_together(0.15, 0.04, 16.8, 2.4)
        and (excess > -0.2).all()
        and most.dropna().iloc[0] == 18.5,
        ours=f"impossible: {count.get('table7', 0)} of 45 cells of Table 7, "
        f"{count.get('table8', 0)} of Table 8; "
        f"by {excess.median():.1f} dB in the median, {excess.max():.1f} at most",
    )
    steps, heavy = (
        of_setting(printed, 8, *settings).min()
        for settings in (LOCAL, (PRUNED, Setting("GradPrune", 0.99)))
    )
    best = strongest_by_defence(printed)
    measured = {s.defence for table in ("table4", "table5") for s in printed_settings(table)}
    yield refute(
        "E-E-05",
        holds=(best["GradPrune"] >= best.max(axis=1)).all(),
        corrected_holds=steps >= heavy and "LocalAggregation" not in measured,
        ours="largest RMSE in Table 7: "
        + ", ".join(f"{row.idxmax()} {row.max():.2f} at {n}" for n, row in best.iterrows()),
    )


CAPTION = (
    "The proposed attack under each defence. Top: mean RMSE with the deviation over the pictures, "
    "run here (filled) and printed (hollow), and of two pictures that use no gradient. Bottom: "
    "the printed PSNR over the printed RMSE. On one set of pictures the mean PSNR is at least that "
    "of the mean RMSE (line); the printed deviations allow no more than the small bars, and most "
    "of the printed points lie above them."
)


def alt(tables: Tables) -> str:
    ours, both = tables["ours"], tables["both errors"]
    means = ours.groupby("setting")["RMSE"].mean()
    above = both["PSNR"] - both["least PSNR"]
    return (
        f"Dots with long bars over {len(means)} settings, a row for each of "
        f"{ours['batch size'].nunique()} batch sizes. Run here, errors rise from "
        f"{means['GradNoise sigma0=0.001']:.1f} to {means['GradNoise sigma0=0.1']:.1f} with noise "
        f"and from {means['GradPrune p=0.3']:.1f} to {means['GradPrune p=0.99']:.1f} with pruning. "
        f"Below, two scatters of hollow dots that float up to {above.max():.0f} decibels above a "
        f"falling curve; {(~both['possible']).sum()} of {len(both)} are marked impossible."
    )


@drawing
def draw(tables: Tables) -> Figure:
    figure, (below,) = draw_spread(tables, MATCHED, extra=[2.9])
    both = tables["both errors"]
    axes = below.subplots(1, 2, sharey=True)
    for axis, number in zip(axes, (7, 8), strict=True):
        _draw_both_errors(axis, both[both["table"] == f"table{number}"])
        axis.set_title(f"printed in Table {number}")
        axis.set_xlabel("mean RMSE")
    axes[0].set_ylabel("mean PSNR (dB)")
    return figure


def _draw_both_errors(axis: Axes, table: pd.DataFrame) -> None:
    curve = np.linspace(0.13, 0.37, 100)
    axis.plot(curve, -20 * np.log10(curve), color=GREY, linewidth=1.2)
    most = pd.to_numeric(table["most PSNR"], errors="coerce")
    axis.vlines(table["RMSE"], table["least PSNR"], most, color="#BBBBBB", linewidth=1)
    axis.plot(table["RMSE"], most, "_", color=GREY, markersize=7)
    handles = [legend_line("most that is possible", GREY, "", "_")]
    looks = (("possible", COLOURS[0], True), ("impossible", COLOURS[1], False))
    for name, colour, possible in looks:
        mine = table[table["possible"] == possible]
        style: dict[str, Any] = {"markerfacecolor": "white"}
        axis.plot(mine["RMSE"], mine["PSNR"], "D", color=colour, markersize=5, **style)
        handles.insert(0, legend_line(name, colour, "", "D", **style))
    axis.legend(handles=handles, loc="upper right")
