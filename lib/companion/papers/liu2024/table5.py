"""Table 5: the final training loss under every defence."""

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
    kinds = {
        "rate": mean_losses(losses, rate),
        "smaller rate": mean_losses(losses, small_rate),
        "printed": printed_losses(),
    }
    wide = {
        name: table.pivot(index="batch size", columns="setting", values="loss")
        for name, table in kinds.items()
    }
    return pd.DataFrame({name: t[NOISE] - t[PRUNED] for name, t in wide.items()}).reset_index()


def judge(tables: Tables) -> Iterator[Verdict]:
    p, printed, losses = tables.parameters, printed_losses(), tables["losses"]
    main = losses[np.isclose(losses["rate"], p.learning_rate)]
    ours, paper = (
        set(table.loc[table.groupby("batch size")["loss"].idxmax(), "setting"])
        for table in (mean_losses(losses, p.learning_rate), printed)
    )
    yield check(
        "liu2024/table5",
        ours | paper == {NOISE},
        "The largest final loss is that under noise of .1, at every batch size, in print and in "
        "ours, with the larger rate.",
        ours=", ".join(sorted(ours)),
        paper=", ".join(sorted(paper)),
        stand_in=tables.stand_in,
    )
    excess = _excess(losses, p.learning_rate, p.small_rate)
    in_print, larger, small = (excess[name] for name in ("printed", "rate", "smaller rate"))
    share = float(small.mean() / larger.mean()) if np.isfinite(larger).all() else 0.0
    yield check(
        "E-024",
        (in_print > 0.8).all() and (larger > 0).all(),
        "The loss under noise of .1 is larger than that under 99% pruning at every batch size.",
        ours=f"by {larger.min():.1f} and more",
        paper=f"by {in_print.min():.2f} to {in_print.max():.2f}",
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
    light, heavy = _costs(main, NONE.title)
    printed_light, printed_heavy = _costs(printed, "GradClip C=8")
    yield check(
        "E-038",
        light < 0.25 * heavy and printed_light < 0.25 * printed_heavy,
        "Pruning of 30% to 90% raises the loss by less than a quarter of what noise of .1 does "
        "(in print, where no undefended loss is, beside clipping at 8).",
        ours=f"by {light:.1f} against {heavy:.1f}".replace("-0.0", "0.0"),
        paper=f"by {printed_light:.2f} against {printed_heavy:.2f}",
        stand_in=tables.stand_in,
    )
    yield _single_runs(main, printed)


def _costs(losses: pd.DataFrame, reference: str) -> tuple[float, float]:
    """By how much pruning of up to 90%, and noise of .1, raise the mean loss of a setting."""
    mean = losses.groupby("setting")["loss"].mean()
    pruned = [s.title for s in printed_settings("table5") if s.defence == "GradPrune"]
    light = mean[[t for t in pruned if t != PRUNED]].mean()
    return float(light - mean[reference]), float(mean[NOISE] - mean[reference])


def _single_runs(losses: pd.DataFrame, printed: pd.DataFrame) -> Verdict:
    """Do losses grow with the strength of a defence, and can single runs show it?"""
    series = printed.groupby(["defence", "batch size"], sort=False)
    rising = sum(
        own.sort_values("strength", ascending=name != "GradClip")["loss"].is_monotonic_increasing
        for (name, _), own in series
    )
    flipped, pairs = 0, 0
    # of a diverged run only the order counts
    losses = losses.assign(loss=np.minimum(losses["loss"], 1e6))
    for _, own in losses[losses["defence"] != "None"].groupby(["defence", "batch size"]):
        steps = own.pivot(index="strength", columns="run", values="loss").diff().iloc[1:]
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
