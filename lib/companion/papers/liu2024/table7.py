"""Table 7: RMSE and PSNR of the proposed attack under every defence."""

import math
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.experiments.clients import Setting
from companion.papers.liu2024.defence_errors import (
    GRID_AND_SIZES,
    MATCHED,
    STRENGTHS,
    check_strengths,
    errors_of_table,
    of_setting,
    printed_errors,
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
from companion.papers.liu2024.proposed_runs import by_size, printed_cells

PARAMETERS = GRID_AND_SIZES
SETTLES = ("E-034", "E-E-03")
_FIVE_STEPS = "setting == 'LocalAggregation steps=5'"
ALTERED = {
    "ours": {"RMSE": (*STRENGTHS, at(_FIVE_STEPS, "errors after five local steps"))},
    "printed": {"RMSE": at(_FIVE_STEPS, "the printed error after five local steps")},
    "both errors": {"PSNR": "printed PSNRs [dB]", "possible": "which cells are possible"},
    "in other units": {"possible": "numbers of cells possible in other units"},
}

PRUNED = Setting("GradPrune", 0.9)


@measurement
def measure(study: Context) -> Tables:
    both = [bounded_psnr(table, printed_errors(table)) for table in ("table7", "table8")]
    return Tables(
        {
            **errors_of_table(study, [MATCHED], "table7"),
            "both errors": pd.concat(both, ignore_index=True),
            "in other units": in_other_units(pd.concat(both)),
        },
        exact=("printed", "both errors", "in other units"),
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


def in_other_units(both: pd.DataFrame) -> pd.DataFrame:
    """In how many cells all four numbers are possible if the RMSE is in units of its own.

    A unit of the RMSE that is ``10^(-dB / 20)`` of a pixel's range adds so many dB to the PSNR.
    """
    rows = []
    for decibels in range(0, 11, 2):
        unit = 10 ** (-decibels / 20)
        four = both[["RMSE", "RMSE sd", "PSNR", "PSNR sd"]].itertuples(index=False)
        found = [can_belong_together(m * unit, sd * unit, psnr, s) for m, sd, psnr, s in four]
        rows.append((decibels, sum(found)))
    return pd.DataFrame(rows, columns=["dB", "possible"])


def judge(tables: Tables) -> Iterator[Verdict]:
    ours, printed = tables["ours"], tables["printed"]
    yield from check_strengths(tables, "liu2024/table7")
    local, pruned = of_setting(printed, 8, LOCAL[1], PRUNED)
    yield check(
        "E-034",
        local >= pruned,
        "in print, five local steps at batch size 8 have an error at least that of pruning "
        "nine entries of ten",
        ours=f"{local:.2f} and {pruned:.2f}",
    )
    if (ours["batch size"] == 8).any():
        own = ours[ours["batch size"] == 8].set_index("setting")[["RMSE", "RMSE error"]]
        local, pruned = own.loc[LOCAL[1].title], own.loc[PRUNED.title]
        error = math.hypot(local["RMSE error"], pruned["RMSE error"])
        yield check_run(
            tables,
            "E-034",
            clearly((local["RMSE"] - pruned["RMSE"], error)),
            "on our runs five local steps have at least the error of pruning nine entries of ten",
            differs="How much local steps hide depends on their rate, which is not printed; "
            "at ours they hide less.",
            decided_by="more pictures: the two errors are apart by less than four of their own",
        )
    together = tables["both errors"]
    impossible = together[~together["possible"]]
    most = pd.to_numeric(impossible["most PSNR"], errors="coerce")
    excess = (impossible["PSNR"] - most).dropna()
    count = impossible["table"].value_counts()
    # a contradiction matters if it exceeds what the tables are printed to show
    ablation = by_size(printed_cells("table6"), "PSNR")
    gain = float((ablation["Ours"] - ablation["w/o FM"]).max())
    fitting = tables["in other units"]["possible"].max()
    yield refute(
        "E-E-03",
        holds=impossible.empty or fitting == len(together),
        corrected_holds=len(impossible) > len(together) / 2 > fitting and excess.median() > gain,
        ours=f"impossible: {count.get('table7', 0)} of 45 cells of Table 7, "
        f"{count.get('table8', 0)} of Table 8; "
        f"by {excess.median():.1f} dB in the median, {excess.max():.1f} at most (printed gains of "
        f"feature matching without a defence: up to {gain:.1f} dB)"
        f"; possible in the best of other units: {fitting} of {len(together)}",
    )


CAPTION = (
    "The proposed attack under each defence. Top: mean RMSE with the deviation over the pictures, "
    "run here (filled) and, where the data are the paper's, printed (hollow), and of two pictures "
    "that use no gradient. Below: each cell's printed mean PSNR over the largest that its other "
    "three numbers allow; above the line it is impossible. Cells that allow none are left out."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, (below,) = draw_spread(tables, MATCHED, extra=[3.0])
    both = tables["both errors"]
    both = both.assign(most=pd.to_numeric(both["most PSNR"], errors="coerce"))
    for axis, number in zip(below.subplots(1, 2, sharey=True), (7, 8), strict=True):
        cells = both[both["table"] == f"table{number}"]
        axis.axline((10, 10), slope=1, color=GREY, linewidth=1.2)
        mark_printed(axis, cells["most"], cells["PSNR"], ORANGE)
        axis.set(xlim=(9, 19), xlabel="largest possible mean PSNR (dB)")
        axis.set_title(f"printed in Table {number}")
        if number == 7:
            axis.set_ylabel("printed mean PSNR (dB)")
    return figure
