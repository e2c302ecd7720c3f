"""Errors under every defence, printed and ours: what Tables 4, 7 and 8 and Figures 2 to 4 share."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.experiments.client_grid import BASELINES, GRID, Grid, baselines, run_grid
from companion.experiments.clients import Setting, printed_rows, printed_settings
from companion.papers.liu2024.own_runs import check_run

#: the proposed attack of Table 7, and that of Table 8, without feature matching
MATCHED, UNMATCHED = "Ours", "w/o FM"
#: the attacks of Table 4, in its order
PRINTED = ("Ours", "GradientInversion", "Robbing The Fed", "CPA")
SIZES = {"batch_sizes": Parameter("ints", (2, 4, 8), (2, 4, 8), "2, 4, 8", "pictures a batch", 1)}
#: parameters of the attacks under every defence
GRID_AND_SIZES = {**GRID, **SIZES}
_CELL = ["batch size", "defence", "strength", "setting"]
#: an attack works if its error is at most this share of the mean image's, which needs no gradient:
#: it then explains more than a third of what the mean image leaves of the pictures' variance
WORKS = 0.8
#: clipping scales the gradient, which no cosine sees: it may change an error by this share at most
SCALED = 0.05
#: defences in words
IN_WORDS = {
    "None": "no defence",
    "LocalAggregation": "local steps",
    "GradNoise": "noise",
    "GradClip": "clipping",
    "GradDrop": "dropping",
    "GradPrune": "pruning",
}
#: errors to be altered, of which :func:`check_strengths` judges
STRENGTHS = (
    by("defence", "errors", IN_WORDS, "under {}"),
    at("setting == 'GradNoise sigma0=0.1'", "errors under the strongest noise"),
)

#: why matching gains little on the small network of the quick runs
WITHOUT_NEED = (
    "The gradient of the small network alone determines the features as well as they are fitted, "
    "where it is not noisy, and the pictures hardly better if the features are known: see the "
    "control of Figure 4, on a larger network, and the map of what matching gains."
)


@registry.of_print
def printed_errors(table: str) -> pd.DataFrame:
    """Table 4, 7 or 8: one row per attack, batch size and setting, in the printed order.

    Columns ``attack``, ``batch size``, ``defence``, ``strength``, ``setting``, ``RMSE`` and, but
    for Table 4, ``RMSE sd``, ``PSNR`` and ``PSNR sd``.
    """
    rows = printed_rows(table)
    if table != "table4":
        rows = rows.assign(attack={"table7": MATCHED, "table8": UNMATCHED}[table])
    columns = {}
    for metric, own in rows.set_index(["attack", *_CELL]).groupby("metric", sort=False):
        columns[metric] = own["value"]
        if table != "table4":
            columns[f"{metric} sd"] = own["sd"].astype(float)
    return pd.DataFrame(columns).reset_index()


def mean_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """Mean over the pictures, its standard error and the deviation, by cell of the grid."""
    keys = ["attack", *_CELL, "aware"]
    rows = []
    for key, cell in errors.groupby(keys, sort=False):
        row = dict(zip(keys, key, strict=True))
        for metric in ("RMSE", "PSNR"):
            # exact reconstructions have no finite PSNR: 100 dB is as good as exact
            values = np.minimum(cell[metric], 100.0)
            mean, error = mean_and_error(values)
            row |= {metric: mean, f"{metric} sd": float(np.std(values)), f"{metric} error": error}
        rows.append(row | {k: float(cell[k].mean()) for k in ("gradient norm", "relative noise")})
    return pd.DataFrame(rows)


def errors_of_table(study: Context, attacks: Sequence[str], table: str) -> dict[str, pd.DataFrame]:
    """Our and the printed errors under the settings of a table, and those without a gradient."""
    errors = run_grid(study, attacks, printed_settings(table), study.parameters.batch_sizes)
    return {
        "ours": mean_errors(errors),
        "printed": printed_errors(table),
        "references": errors_without_gradient(study),
    }


def errors_without_gradient(study: Context) -> pd.DataFrame:
    """Mean RMSE and PSNR of the baselines: a grey picture and the mean image."""
    found = baselines(Grid.of(study)).groupby("attack", sort=False)[["RMSE", "PSNR"]].mean()
    return found.loc[list(BASELINES)].reset_index()


def mean_image_error(tables: Mapping[str, pd.DataFrame]) -> float:
    """RMSE of the mean image: an attack with a larger one does worse than no gradient."""
    return float(tables["references"].set_index("attack").loc["mean image", "RMSE"])


def lowest_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """RMSE of the strongest attack: (batch size, defence, strength), the least mean, its error."""
    keys = ["batch size", "defence", "strength"]
    rows = errors.loc[errors.groupby(keys, sort=False)["RMSE"].idxmin()]
    return rows.filter([*keys, "RMSE", "RMSE error"]).reset_index(drop=True)


def strongest_by_defence(errors: pd.DataFrame) -> pd.DataFrame:
    """The lowest RMSE of each defence at its best strength: batch sizes by defences."""
    return lowest_errors(errors).pivot_table(
        index="batch size", columns="defence", values="RMSE", aggfunc="max", sort=False
    )


def rises_with_strength(errors: pd.DataFrame) -> bool:
    """Whether more noise and more pruning raise the RMSE at every batch size."""
    table = errors.pivot_table(index="batch size", columns=["defence", "strength"], values="RMSE")
    ends = (("GradNoise", 0.001, 0.1), ("GradPrune", 0.3, 0.99))
    return all((table[name, most] > table[name, least]).all() for name, least, most in ends)


def of_setting(errors: pd.DataFrame, size: int, *settings: Setting) -> pd.Series:
    """RMSE at one batch size under some settings, by their titles."""
    own = errors[errors["batch size"] == size].set_index("setting")["RMSE"]
    return own.loc[[s.title for s in settings]]


def gains_of_matching(errors: pd.DataFrame) -> pd.DataFrame:
    """How much feature matching lowers the RMSE and raises the PSNR, picture by picture."""
    wide = errors.pivot_table(
        index=[*_CELL, "number"], columns="attack", values=["RMSE", "PSNR"], sort=False
    )
    rows = []
    for key, cell in wide.groupby(level=_CELL, sort=False):
        row = dict(zip(_CELL, key, strict=True))
        for metric, more, less in (("RMSE", UNMATCHED, MATCHED), ("PSNR", MATCHED, UNMATCHED)):
            gain = cell[metric][more] - cell[metric][less]
            row[metric], row[f"{metric} error"] = mean_and_error(gain)
        rows.append(row)
    return pd.DataFrame(rows)


@registry.of_print
def printed_gains() -> pd.DataFrame:
    """The same of the printed means."""
    both = printed_errors("table7").merge(
        printed_errors("table8"), on=_CELL, suffixes=("", " without")
    )
    both["RMSE gain"] = (both["RMSE without"] - both["RMSE"]).round(2)
    both["PSNR gain"] = (both["PSNR"] - both["PSNR without"]).round(2)
    return both[[*_CELL, "RMSE gain", "PSNR gain"]]


def gains_beyond_error(gains: pd.DataFrame) -> str:
    """In how many cells matching features helps beyond three standard errors."""
    count = int((gains["RMSE"] > 3 * gains["RMSE error"]).sum())
    return f"gain beyond three standard errors: in {count} of {len(gains)} cells"


def check_strengths(tables: Tables, target: str) -> Iterator[Verdict]:
    """Judge what Tables 7 and 8 show on any data: more noise, more pruning, larger errors."""
    ours, limit = tables["ours"], mean_image_error(tables)
    strongest = (Setting("GradNoise", 0.1), Setting("GradPrune", 0.99))
    sizes = sorted(set(ours["batch size"]))
    ends = {n: of_setting(ours, n, *strongest).min() for n in sizes}
    hidden = ours[ours["setting"].isin([s.title for s in strongest])]
    rises = rises_with_strength(ours)
    below = ", ".join(
        f"{error:.2f} in batches of {n}" for n, error in ends.items() if error < limit
    )
    yield check_run(
        tables,
        target,
        every(rises, clearly((hidden["RMSE"] - limit, hidden["RMSE error"]))),
        "the RMSE rises from noise of .001 to .1 and from pruning of 30 to 99 per cent at every "
        "batch size, and both ends are worse than the mean image",
        ours=f"mean image {limit:.2f}" + (f"; {below}" if below else ""),
        elsewhere="the error rises, but the strongest noise and pruning leave an attack that "
        "searches an untrained network better than the mean image, which in print it is not: "
        "how much gets through the same noise depends on the network"
        if rises
        else "",
        decided_by="more pictures: under the strongest noise and pruning the lowest errors are "
        f"{', '.join(f'{e:.2f} in batches of {n}' for n, e in ends.items())}, the mean image's "
        f"{limit:.2f}",
    )
    plain = {n: float(of_setting(ours, n, Setting("None")).iloc[0]) for n in sizes}
    few = sizes[:2]
    works = max(plain[n] for n in few) < WORKS * limit
    unchanged = _clipping_changes_nothing(ours)
    if unchanged is None and tables.profile == "quick":
        unchanged = False  # the quick run decides; others may have too few pictures
    yield check_run(
        tables,
        target,
        every(works, unchanged),
        f"controls: undefended, in batches of {' and '.join(map(str, few))}, the attack has less "
        f"than {WORKS:.0%} of the mean image's error; clipping, which scales the gradient, changes "
        f"no error by {SCALED:.0%}",
        ours=", ".join(f"{plain[n] / limit:.1f} of it in batches of {n}" for n in sizes),
        elsewhere="clipping changes an error beyond its scatter, although it only scales gradients"
        if works
        else "the attack does not work on these pictures without a defence",
        decided_by="more pictures: errors under clipping scatter by more than that",
    )


def _clipping_changes_nothing(errors: pd.DataFrame) -> bool | None:
    """Whether no error differs from the undefended by five per cent; None if by its scatter."""
    cells = errors.set_index(["batch size", "defence"])[["RMSE", "RMSE error"]]
    clipped, plain = (cells.xs(name, level="defence") for name in ("GradClip", "None"))
    beside = plain.loc[clipped.index]
    change = (clipped["RMSE"] / beside["RMSE"] - 1).abs()
    room = STANDARD_ERRORS * np.hypot(clipped["RMSE error"], beside["RMSE error"]) / beside["RMSE"]
    return settle((change < SCALED).all(), not (change > np.maximum(SCALED, room)).any())


def what_ran(study: Context, attacks: str) -> str:
    """One sentence for attacks on the grid."""
    p = study.parameters
    searched = (
        ""
        if p.space == "pixels"
        else " The weights of an untrained network are searched, into whose blocks recovered "
        "features enter, or random vectors where an attack matches none."
    )
    return (
        f"{attacks} on {p.images} pictures of {shown_name(p.data)}, {p.side} pixels a side, a "
        f"{p.network} with random weights and known batch norm statistics, {p.iterations} "
        f"iterations.{searched}"
    )
