"""The defences of Liu et al. against attackers who know them and attackers who do not.

The paper attacks as if nothing had been done to the update. But the update shows what was removed,
the server prescribes local steps, and the size of noise is no secret: the same attacks are run
again with that knowledge.
"""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from companion.exhibit import *
from companion.experiments.client_grid import (
    MANIPULATING,
    Grid,
    network_of,
    originals,
    rebuild_pictures,
)
from companion.experiments.clients import Setting
from companion.papers.beyond.defended_clients import (
    DEFENDED_GRID,
    LIKELIHOOD,
    attack_noise,
    attacked_cells,
    names_of,
    settings_of,
    short_title,
    with_interval,
)

PARAMETERS = DEFENDED_GRID
SETTLES = ("O-045", "O-046")
#: the gains on batches of two
THUMBNAIL = (0.0, 0.36, 0.58, 1.0)
ALTERED = {
    "lowest errors": {
        "aware RMSE": (
            at("defence not in ['None', 'GradClip']", "errors of aware attackers"),
            at("defence == 'GradDrop'", "errors of aware attackers under entry dropout"),
        )
    },
    "gains by defence": {
        "gain": at("defence in ['None', 'GradClip']", "gains where there is nothing to know [dB]")
    },
}
#: shares of the oblivious attackers' error: several decibels less, three at least; a tenth less
SEVERAL, TENTH = 10 ** (-3 / 20), 0.9

#: settings whose reconstructions are shown
SHOWN_SETTINGS = (
    Setting("None"),
    Setting("GradNoise", 0.1),
    Setting("GradDrop", 0.9),
    Setting("GradPrune", 0.9),
    Setting("GradPrune", 0.99),
    Setting("LocalAggregation", 3.0),
)


@measurement
def measure(study: Context) -> Tables:
    p, grid = study.parameters, Grid.of(study)
    # attacks of an honest-but-curious server, which does not change the network
    honest = {
        aware: [name for name in names_of(text) if name not in MANIPULATING]
        for aware, text in ((False, p.oblivious), (True, p.aware))
    }
    cells = attacked_cells(study, grid, honest)
    by_batch = gains_by_batch(cells)
    return Tables(
        {
            "lowest errors": lowest_errors(cells),
            "gains": gains_by_setting(by_batch),
            "gains by defence": gains_by_defence(by_batch),
            "gains by batch": by_batch,
            "entries and unknowns": entries_and_unknowns(study, grid),
        },
        images=shown_pictures(study, grid),
        ran=f"{grid.images} pictures of {p.data} in batches of "
        f"{', '.join(map(str, p.batch_sizes))}, {p.network}, {p.iterations} iterations; oblivious: "
        f"{', '.join(honest[False])}; aware: {', '.join(honest[True])} and, of noise, the "
        "likelihood.",
    )


def lowest_errors(cells: pd.DataFrame) -> pd.DataFrame:
    """The attack of lowest mean RMSE in both readings, one row per setting and batch size."""
    keys = ["batch size", "setting", "defence", "strength"]
    means = cells.groupby([*keys, "attack", "aware"], sort=False)["RMSE"].mean().reset_index()
    best = {}
    # those who know the defence may also ignore it
    for reading, part in (("oblivious", means[~means["aware"]]), ("aware", means)):
        lowest = part.loc[part.groupby(keys, sort=False)["RMSE"].idxmin()].set_index(keys)
        attack = lowest["attack"]
        best[f"{reading} attack"] = attack.where(~lowest["aware"], attack + ", aware")
        best[f"{reading} RMSE"] = lowest["RMSE"]
    return pd.DataFrame(best).reset_index()


def gains_by_batch(cells: pd.DataFrame) -> pd.DataFrame:
    """PSNR of gradient inversion by aware attackers, by oblivious ones, and the difference.

    The same attack on the same updates from the same starting images; under noise aware attackers
    use the likelihood instead.
    """
    one = cells[cells["attack"].isin(("GradientInversion", LIKELIHOOD))]
    one = one[~(one["aware"] & (one["defence"] == "GradNoise") & (one["attack"] != LIKELIHOOD))]
    keys = ["batch size", "setting", "defence", "batch"]
    means = one.groupby([*keys, "aware"], sort=False)["PSNR"].mean().unstack("aware")
    gain = (means[True] - means[False]).rename("gain").reset_index()
    return gain.assign(oblivious=means[False].to_numpy(), aware=means[True].to_numpy())


def gains_by_setting(by_batch: pd.DataFrame) -> pd.DataFrame:
    groups = by_batch.groupby(["batch size", "setting"], sort=False)[["oblivious", "aware"]]
    return groups.agg(lambda values: values.to_numpy().mean()).reset_index()


def gains_by_defence(by_batch: pd.DataFrame) -> pd.DataFrame:
    """Gains averaged over the strengths of each defence, with 95% intervals over batches."""
    pooled = by_batch.groupby(["defence", "batch size", "batch"], sort=False)["gain"].mean()
    rows = []
    for defence, values in pooled.groupby("defence", sort=False):
        gain, room = with_interval(values.to_numpy())
        rows.append((defence, gain, gain - room, gain + room))
    return pd.DataFrame(rows, columns=["defence", "gain", "low", "high"])


def entries_and_unknowns(study: Context, grid: Grid) -> pd.DataFrame:
    """Entries of the update that each defence releases, per unknown pixel."""
    p = study.parameters
    entries = sum(w.numel() for w in network_of(grid).parameters())
    rows = []
    for n, setting in itertools.product(p.batch_sizes, settings_of(p.local_steps)):
        removing = setting.defence in ("GradDrop", "GradPrune")
        released = (1 - setting.strength if removing else 1.0) * entries
        rows.append((n, setting.title, released / (n * 3 * grid.side**2)))
    return pd.DataFrame(rows, columns=["batch size", "setting", "entries per unknown"])


def shown_pictures(study: Context, grid: Grid) -> dict[str, np.ndarray]:
    """The first picture of the first batch, and its reconstructions by both kinds of attackers."""
    p, n = study.parameters, study.parameters.batch_sizes[0]
    shown = [s for s in SHOWN_SETTINGS if s in settings_of(p.local_steps)]
    noisy = attack_noise(study, grid, n, [s for s in shown if s.defence == "GradNoise"])
    images = {"original": originals(grid, n)[0, 0]}
    for setting in shown:
        for reading, aware in (("oblivious", False), ("aware", True)):
            if aware and setting in noisy:
                found = np.asarray(noisy[setting]["pictures"])
            else:
                found = rebuild_pictures(
                    study, "GradientInversion", setting, n, aware=aware, grid=grid
                )
            images[f"{setting.title}|{reading}"] = found[0]
    return images


def judge(tables: Tables) -> Iterator[Verdict]:
    gain = tables["gains by defence"].set_index("defence")["gain"]
    lowest = tables["lowest errors"].groupby(["defence", "strength"], sort=False)
    mean = lowest[["oblivious RMSE", "aware RMSE"]].mean()
    share = mean["aware RMSE"] / mean["oblivious RMSE"]
    random = max(share["GradDrop", strength] for strength in (0.5, 0.7, 0.9))
    local, pruned = share["LocalAggregation"].max(), share["GradPrune", 0.99]
    noisy = max(share["GradNoise", strength] for strength in (0.05, 0.1))
    helped = bool(max(random, local, noisy) < SEVERAL and pruned < TENTH)
    verdict = check(
        "O-045",
        helped and (gain[["None", "GradClip"]].abs() < 1e-9).all(),
        ours=f"shares of the oblivious attackers' error at most {random:.2f} (dropout), "
        f"{local:.2f} (local aggregation), {noisy:.2f} (noise), {pruned:.2f} (pruning)",
        stand_in=tables.stand_in,
    )
    yield from shared_by(verdict, "beyond/aware_attackers")
    before, after = mean.loc[("GradDrop", 0.7)] / mean.loc[("GradPrune", 0.9)]
    yield check(
        "O-046",
        before > 1 > after,
        ours=f"by factors of {before:.1f} and {after:.1f}",
        stand_in=tables.stand_in,
    )


CAPTION = (
    "The same attack on the same updates by attackers who take them for plain gradients "
    "(circles) and by attackers who compare visible entries only, repeat the local steps or weight "
    "by the noise (squares). Large markers: mean; small ones: each batch. Above: one picture as "
    "both reconstruct it."
)


@drawing
def draw(tables: Tables) -> Figure:
    gains, batches = tables["gains"], tables["gains by batch"]
    sizes = list(gains["batch size"].unique())
    figure = plt.figure(figsize=(8.4, 9.4), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 2.1))
    _pictures(above, tables.images)
    axes = below.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for panel, n in zip(axes, sizes, strict=True):
        _dumbbells(panel, gains[gains["batch size"] == n], batches[batches["batch size"] == n])
        panel.set_title(f"Batches of {n}")
    handles = [legend_line("oblivious", GREY, "", "o"), legend_line("aware", ORANGE, "", "s")]
    legend_above(below, handles, 2)
    return figure


def _pictures(figure: SubFigure, images: Mapping[str, np.ndarray]) -> None:
    settings = [key.partition("|")[0] for key in images if key.endswith("|aware")]
    axes = figure.subplots(2, len(settings) + 1, squeeze=False)
    picture(axes[0][0], images["original"], "original")
    axes[1][0].axis("off")
    for place, setting in enumerate(settings, start=1):
        title = short_title(setting)
        picture(axes[0][place], images[f"{setting}|oblivious"], title, GREY)
        picture(axes[1][place], images[f"{setting}|aware"], "", ORANGE)


def _dumbbells(axes: Axes, gains: pd.DataFrame, batches: pd.DataFrame) -> None:
    places = np.arange(len(gains))[::-1]
    place = dict(zip(gains["setting"], places, strict=True))
    axes.hlines(places, gains["oblivious"], gains["aware"], color="#BBBBBB", lw=3, zorder=1)
    looks = (("oblivious", GREY, "o", 0.16), ("aware", ORANGE, "s", -0.16))
    for name, colour, marker, shift in looks:
        axes.plot(gains[name], places, marker, color=colour, ms=5.5, zorder=3)
        own = batches["setting"].map(place) + shift
        axes.plot(batches[name], own, marker, color=colour, ms=2.5, alpha=0.55, zorder=2)
    axes.set_yticks(places, [short_title(s) for s in gains["setting"]])
    axes.set(xlabel="PSNR of gradient inversion, dB", ylim=(-0.7, len(gains) - 0.3))
