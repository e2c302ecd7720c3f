"""Table 5: the training loss that every defence leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.experiments.clients import printed_settings
from companion.papers.liu2024.defence_errors import SIZES
from companion.papers.liu2024.defended_training import (
    NONE,
    TRAINED,
    final_losses,
    mean_losses,
    printed_losses,
)
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute

PARAMETERS = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    **TRAINED,
    **SIZES,
}
SETTLES = ("E-024", "E-038", "E-E-18", "E-E-39")
SHOWN = ("final training loss", "noise .1 less pruning .99")

NOISE, PRUNED = "GradNoise sigma0=0.1", "GradPrune p=0.99"


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    losses = final_losses(study)
    return Tables(
        {
            "final training loss": _layout(losses, p.learning_rate, p.small_rate),
            "noise .1 less pruning .99": _excess(losses, p.learning_rate, p.small_rate).round(2),
            "losses": losses,
        },
        ran=f"{p.runs} trainings of each setting with the same first weights and batches, "
        f"{p.epochs} epochs of {p.records} pictures of {p.data}, a {p.trained_network} with "
        f"{p.trained_wide} wide neurons; rates {p.learning_rate:g} and {p.small_rate:g}, "
        "momentum 0.9.",
    )


def _layout(losses: pd.DataFrame, *rates: float) -> pd.DataFrame:
    """A row a setting; ours with deviations over the runs, and the printed loss."""
    columns: dict[str, list[str]] = {"setting": list(dict.fromkeys(losses["setting"]))}
    by_rate = {rate: mean_losses(losses, rate) for rate in rates}
    paper = printed_losses().set_index(["setting", "batch size"])["loss"]
    for size in dict.fromkeys(losses["batch size"]):
        for rate, table in by_rate.items():
            own = table[table["batch size"] == size].set_index("setting").loc[columns["setting"]]
            columns[f"B = {size}, rate {rate:g}"] = [
                f"{mean:.2f} ({deviation:.2f})" if math.isfinite(deviation) else "diverged"
                for mean, deviation in zip(own["loss"], own["deviation"], strict=True)
            ]
        columns[f"B = {size}, printed"] = [
            f"{paper[title, size]:.3f}" if (title, size) in paper else ""
            for title in columns["setting"]
        ]
    return pd.DataFrame(columns)


def _excess(losses: pd.DataFrame, rate: float, small_rate: float) -> pd.DataFrame:
    """Loss under noise of .1 less that under pruning of 99%, by batch size."""

    def less(table: pd.DataFrame) -> pd.Series:
        wide = table.pivot_table(index="batch size", columns="setting", values="loss")
        return wide[NOISE] - wide[PRUNED]

    columns = {
        "rate": less(mean_losses(losses, rate)),
        "smaller rate": less(mean_losses(losses, small_rate)),
        "printed": less(printed_losses()),
    }
    return pd.DataFrame(columns).reset_index()


def judge(tables: Tables) -> Iterator[Verdict]:
    p, printed = tables.parameters, printed_losses()
    losses = tables["losses"]
    main = losses[np.isclose(losses["rate"], p.learning_rate)]
    yield _dearest(tables, mean_losses(losses, p.learning_rate), printed)
    yield from _noise_against_pruning(tables, _excess(losses, p.learning_rate, p.small_rate))
    yield _mild(tables, main, printed)
    yield _single_runs(main, printed)


def _dearest(tables: Tables, means: pd.DataFrame, printed: pd.DataFrame) -> Verdict:
    def worst(table: pd.DataFrame) -> set[str]:
        return set(table.loc[table.groupby("batch size")["loss"].idxmax(), "setting"])

    ours, paper = worst(means), worst(printed)
    return check(
        "liu2024/table5",
        ours | paper == {NOISE},
        "The largest final loss is that under noise of .1, at every batch size, in print and in "
        "ours, with the larger rate.",
        ours=", ".join(sorted(ours)),
        paper=", ".join(sorted(paper)),
        stand_in=tables.stand_in,
    )


def _noise_against_pruning(tables: Tables, excess: pd.DataFrame) -> Iterator[Verdict]:
    """The claim at the printed kind of rate, and what a smaller rate makes of it."""
    p = tables.parameters
    printed, ours, small = (excess[name] for name in ("printed", "rate", "smaller rate"))
    share = float(small.mean() / ours.mean()) if np.isfinite(ours).all() else 0.0
    yield check(
        "E-024",
        (printed > 0.8).all() and (ours > 0).all(),
        "The loss under noise of .1 is larger than that under 99% pruning at every batch size.",
        ours=f"by {ours.min():.1f} and more",
        paper=f"by {printed.min():.2f} to {printed.max():.2f}",
        stand_in=tables.stand_in,
    )
    yield refute(
        "E-E-39",
        holds=(small > 0.8).all() or share > 0.5,
        corrected_holds=share < 0.3,
        ours=f"{100 * max(share, 0):.0f}% of the difference left at a rate of "
        f"{p.small_rate:g} for {p.learning_rate:g}",
        paper="one rate",
    )


def _mild(tables: Tables, losses: pd.DataFrame, printed: pd.DataFrame) -> Verdict:
    """Pruning of up to 90% against none, beside noise of .1; in print against clipping at 8."""

    def cost(table: pd.DataFrame, reference: str) -> tuple[float, float]:
        mean = table.groupby("setting")["loss"].mean()
        pruned = [s.title for s in printed_settings("table5") if s.defence == "GradPrune"]
        light = mean[[t for t in pruned if t != PRUNED]].mean()
        return float(light - mean[reference]), float(mean[NOISE] - mean[reference])

    ours, paper = cost(losses, NONE.title), cost(printed, "GradClip C=8")
    return check(
        "E-038",
        all(light < 0.25 * heavy for light, heavy in (ours, paper)),
        "Pruning of 30% to 90% raises the loss by less than a quarter of what noise of .1 does "
        "(in print, where no undefended loss is, beside clipping at 8).",
        ours=f"by {ours[0]:.1f} against {ours[1]:.1f}".replace("-0.0", "0.0"),
        paper=f"by {paper[0]:.2f} against {paper[1]:.2f}",
        stand_in=tables.stand_in,
    )


def _single_runs(losses: pd.DataFrame, printed: pd.DataFrame) -> Verdict:
    """Do losses grow with the strength of a defence, and can single runs tell?"""
    series = [own for _, own in printed.groupby(["defence", "batch size"], sort=False)]
    rising = sum(
        own.sort_values("strength", ascending=name != "GradClip")["loss"].is_monotonic_increasing
        for own, name in ((s, s["defence"].iloc[0]) for s in series)
    )
    flipped, pairs = 0, 0
    # where a run was lost only its order counts
    losses = losses.assign(loss=np.minimum(losses["loss"], 1e6))
    for _, own in losses[losses["defence"] != "None"].groupby(["defence", "batch size"]):
        runs = own.pivot_table(index="strength", columns="run", values="loss", dropna=False)
        steps = runs.diff().iloc[1:]
        flipped += int((np.sign(steps).T != np.sign(steps.mean(axis=1))).to_numpy().sum())
        pairs += steps.size
    share = flipped / pairs
    return refute(
        "E-E-18",
        holds=rising == len(series),
        corrected_holds=rising <= len(series) / 2 and share > 0.1,
        ours=f"{100 * round(share, 1):.0f}% of single comparisons in the other order",
        paper=f"{rising} of {len(series)} series grow",
    )
