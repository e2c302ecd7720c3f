"""Figure 3: lowest RMSE over the attacks against final training loss."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.experiments.client_grid import (
    Grid,
    attack_network,
    batches_of,
    network_of,
    run_grid,
)
from companion.experiments.clients import seeded
from companion.experiments.tools import mean_and_error
from companion.papers.liu2024.defence_errors import GRID_AND_SIZES, PRINTED, printed_errors
from companion.papers.liu2024.defended_training import (
    LOCAL,
    NONE,
    TRAINED,
    final_losses,
    mean_losses,
    printed_after_training,
    printed_losses,
    trained_settings,
    training_pictures,
)
from companion.papers.liu2024.own_runs import check_run
from companion.study import (
    Context,
    Parameter,
    Tables,
    Verdict,
    check,
    measurement,
    refute,
    shared_by,
)
from companion.study.verdicts import rounded
from companion.style import DEFENCES, drawing, legend_above, legend_line, panels
from reconrisk.convnets import randomise_neurons
from reconrisk.training import train_under_defences

PARAMETERS = {
    **GRID_AND_SIZES,
    **TRAINED,
    "aware": Parameter(
        "str",
        "GradientInversion, Robbing The Fed",
        "Ours, GradientInversion, Robbing The Fed, CPA",
        "not printed",
        "attacks that are also run by attackers who allow for the defence",
    ),
    "aware_sizes": Parameter(
        "ints", (2, 4), (2, 4, 8), "not printed", "batch sizes of these attacks", 1
    ),
    "attacked_epochs": Parameter(
        "ints", (0, 1, 2, 3), (0, 1, 2, 3), "1, 2, 3", "epochs of training before an attack"
    ),
    "attacked_size": Parameter("int", 4, 4, "not printed", "records of the attacked batches", 1),
}
SETTLES = ("E-009", "E-025", "E-026", "E-033", "E-037", "E-E-40")
SHOWN = ("equal loss",)

CELL = ["defence", "strength", "batch size"]
#: losses within this factor count as equal
EQUAL = 1.15
#: RMSEs that differ by no more than this count as equal
SAME = 0.005
#: the least rise of the lowest RMSE that counts
FELT = 0.05
#: the share of a dozen pairs that counts as most: clearly more than half, which chance gives
MOST = 2 / 3


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    printed = printed_points()
    ours, aware = _points(study)
    kinds = {
        "printed": printed,
        "ours": ours,
        "ours, aware": aware,
        "ours, each at its better rate": ours.assign(loss=ours["tuned"]),
    }
    pairs = [matched_pairs(points).assign(points=name) for name, points in kinds.items()]
    fronts = [pareto_front(points).assign(points=name) for name, points in kinds.items()]
    columns = [*CELL, "loss", "RMSE"]
    more = [*columns, "error", "RMSE error", "tuned", "attack"]
    return Tables(
        {
            "printed": printed[columns],
            "ours": ours[more],
            "aware": aware[more],
            "equal loss": pd.concat(pairs, ignore_index=True),
            "fronts": pd.concat(fronts, ignore_index=True)[["points", *columns]],
            "after training": _attacks_after_training(study),
        },
        ran="Trainings of Table 5 and attacks of Table 4; aware attackers: "
        f"{p.aware}, at batch sizes {', '.join(map(str, p.aware_sizes))}.",
    )


def printed_points() -> pd.DataFrame:
    """The paper's points: the loss of Table 5 and the lowest RMSE of Table 4."""
    lowest = printed_errors("table4").groupby(["setting", "batch size"], sort=False)["RMSE"].min()
    return printed_losses().merge(lowest.reset_index(), on=["setting", "batch size"])


def _points(study: Context) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ours: against oblivious attackers, and against the stronger of oblivious and aware ones."""
    p = study.parameters
    losses = final_losses(study)
    main, small = (mean_losses(losses, rate) for rate in (p.learning_rate, p.small_rate))
    # a client would choose the rate that suits the defence
    tuned = main.assign(tuned=np.minimum(main["loss"], small["loss"]))
    settings = trained_settings()
    errors = run_grid(study, PRINTED, settings, p.batch_sizes)
    names = [name.strip() for name in p.aware.split(",")]
    # aware attackers, who repeat the local steps, are not run on five of them
    known = [setting for setting in settings if setting != LOCAL[1]]
    knowing = run_grid(study, names, known, p.aware_sizes, aware=(True,))
    both = pd.concat([errors[errors["batch size"].isin(p.aware_sizes)], knowing])
    return tuned.merge(_lowest(errors), on=CELL), tuned.merge(_lowest(both), on=CELL)


def _lowest(errors: pd.DataFrame) -> pd.DataFrame:
    """RMSE of the strongest attack and its standard error over the pictures, by cell."""
    means = errors.groupby([*CELL, "attack", "aware"], sort=False)["RMSE"].agg(["mean", "sem"])
    best = means.reset_index().sort_values("mean", kind="stable").drop_duplicates(CELL)
    return best.rename(columns={"mean": "RMSE", "sem": "RMSE error"})


def pareto_front(points: pd.DataFrame) -> pd.DataFrame:
    """The points that no other dominates, in the order of the loss.

    A point dominates another if its ``loss`` is no larger and its ``RMSE`` no smaller, and one of
    the two is better.
    """
    loss, error = points["loss"].to_numpy(), points["RMSE"].to_numpy()
    as_good = (loss[None] <= loss[:, None]) & (error[None] >= error[:, None])
    better = (loss[None] < loss[:, None]) | (error[None] > error[:, None])
    return points[~(as_good & better).any(axis=1)].sort_values("loss")


def matched_pairs(points: pd.DataFrame, factor: float = EQUAL) -> pd.DataFrame:
    """Pairs of pruning and another defence whose losses differ by at most a factor.

    One row per other defence: ``pairs``, and of these ``pruning larger``, ``equal`` and
    ``smaller`` in RMSE.
    """
    is_pruned = points["defence"] == "GradPrune"
    loss, error = (points.loc[is_pruned, k].to_numpy()[:, None] for k in ("loss", "RMSE"))
    rows = []
    for name, others in points[~is_pruned].groupby("defence", sort=False):
        near = np.abs(np.log(loss) - np.log(others["loss"].to_numpy())) <= math.log(factor)
        gap = (error - others["RMSE"].to_numpy())[near]
        larger, smaller = np.sum(gap > SAME), np.sum(gap < -SAME)
        rows.append((name, gap.size, larger, gap.size - larger - smaller, smaller))
    return pd.DataFrame(rows, columns=["defence", "pairs", "pruning larger", "equal", "smaller"])


def _attacks_after_training(study: Context) -> pd.DataFrame:
    """Mean RMSE and its standard error over the pictures, by epochs of training."""
    p = study.parameters
    grid = Grid.of(study)
    tasks = [
        {
            "grid": dataclasses.asdict(grid),
            "epochs": epochs,
            "size": p.attacked_size,
            "records": p.records,
            "learning_rate": p.small_rate,
            "seeds": {name: study.seed_of(name) for name in ("pictures", "batches")},
        }
        for epochs in p.attacked_epochs
    ]
    results = study.sweep(attack_after_training, tasks, "attacks after training")
    printed = printed_after_training()
    rows = [
        (n, result["loss"], *mean_and_error(np.ravel(result["RMSE"])), printed.get(n, math.nan))
        for n, result in zip(p.attacked_epochs, results, strict=True)
    ]
    return pd.DataFrame(rows, columns=["epochs", "loss", "RMSE", "RMSE error", "printed"])


def attack_after_training(task: dict[str, Any]) -> dict[str, Any]:
    """Train a network without a defence, give it random neurons and attack it.

    Parameters
    ----------
    task : dict
        ``grid`` (a :class:`~companion.experiments.client_grid.Grid` as a dict), ``epochs``,
        ``size`` of batches in training and attack, ``records``, ``learning_rate`` and ``seeds`` of
        pictures and batches: networks after more epochs go on from those after fewer.

    Returns
    -------
    dict
        ``"RMSE"`` (batches, size) and ``"loss"``, of the last epoch; nan before the first.
    """
    grid = Grid(**task["grid"])
    network = network_of(grid, random=False)
    loss = math.nan
    if task["epochs"]:
        like = {"data_root": grid.data_root, "side": grid.side, "device": grid.device}
        images, labels = training_pictures({**task, "data": grid.data, **like})
        run = train_under_defences(
            [network],
            images,
            labels,
            [()],
            generator=seeded(task["seeds"]["batches"], device=grid.device),
            epochs=task["epochs"],
            batch_size=task["size"],
            learning_rate=task["learning_rate"],
        )
        run.load(network, 0, 0)
        loss = float(run.final[0, 0])
    random_neurons = int((network_of(grid).wide.bias == 0).sum())  # those without a bias
    generator = seeded(task["seeds"]["batches"], 1, device=grid.device)
    randomise_neurons(network, random_neurons, generator)
    network.eval()
    found = attack_network(grid, "Ours", network, batches_of(grid, task["size"]), [NONE])
    return {"RMSE": found["RMSE"][0], "loss": loss}


def judge(tables: Tables) -> Iterator[Verdict]:
    ours, printed = tables["ours"], tables["printed"]
    mine, paper = (_gains(points) for points in (ours, printed))
    yield check(
        "liu2024/fig3",
        min(mine + paper) > 0,
        "Dropping, noise and pruning each have a larger lowest error at their greatest strength "
        "than at their least, on average over the batch sizes.",
        ours=", ".join(f"by {g:.1f}" for g in mine),
        paper=", ".join(f"by {g:.2f}" for g in paper),
        stand_in=tables.stand_in,
    )
    # Table 4 has no undefended column: the strongest of its attacks is that of Table 7
    noisy = printed[printed["defence"] == "GradNoise"]
    felt = _beyond_undefended("RMSE", noisy, printed_errors("table7")) >= FELT
    dear, cheap = noisy["loss"][felt].min(), noisy["loss"][~felt].max()
    noisy = ours[ours["defence"] == "GradNoise"]
    rises, costs = (
        _beyond_undefended(what, noisy, ours).groupby(noisy["strength"]).mean()
        for what in ("RMSE", "loss")
    )
    yield check(
        "E-009",
        dear > cheap and rises.iloc[-1] > rises.iloc[0] and costs.iloc[-1] > 4 * abs(costs.iloc[0]),
        f"In print every noise that raises the lowest error by {FELT:g} has a larger loss than "
        "every other; in ours the strongest noise raises the error most, and costs at least four "
        "times as much as the weakest.",
        ours=f"error up by {rises.iloc[-1]:.2f} against {rises.iloc[0]:.2f}",
        paper=f"losses from {dear:g} against up to {cheap:g}",
        stand_in=tables.stand_in,
    )
    (few, many), (few_in_print, many_in_print) = (_cheaper(points) for points in (ours, printed))
    in_print = few_in_print >= MOST * many_in_print
    yield check_run(
        tables,
        "E-025",
        in_print and few >= MOST * max(1, many),
        "Of pairs of noise and pruning at the same batch size whose lowest errors differ by at "
        "most .02, pruning has the smaller loss in two of three or more.",
        ours=f"{round(10 * few / max(1, many)) * 10}%",
        paper=f"{few_in_print} of {many_in_print}",
        differs="It is so in print. In ours light noise protects as much as pruning and costs as "
        "little: only the strongest noise is expensive."
        if in_print
        else "",
    )
    yield from shared_by(_pruning_best(tables), "E-026", "E-037")
    trained = tables["after training"]
    trained = trained[trained["epochs"] > 0].sort_values("epochs")
    first, last = trained.iloc[0], trained.iloc[-1]
    # otherwise a few pictures decide: the order changes from run to run
    clear = last["RMSE"] - first["RMSE"] > 2 * math.hypot(first["RMSE error"], last["RMSE error"])
    yield check_run(
        tables,
        "E-033",
        clear and trained["RMSE"].is_monotonic_increasing,
        "The attack's error rises with every epoch of training before it, by more than two "
        "standard errors from the first to the last.",
        ours=", ".join(map(rounded, trained["RMSE"], trained["RMSE error"])),
        paper=", ".join(f"{v:g}" for v in trained["printed"]),
        differs="With few pictures and a small network the errors after one, two and three "
        "epochs differ by less than they spread over the pictures, as the printed ones do: their "
        "deviations are .04 to .09.",
    )


def _gains(points: pd.DataFrame) -> list[float]:
    """How much the lowest RMSE rises from the least to the greatest strength."""
    means = points.groupby(["defence", "strength"])["RMSE"].mean()
    return [means[d].iloc[-1] - means[d].iloc[0] for d in ("GradDrop", "GradNoise", "GradPrune")]


def _beyond_undefended(what: str, rows: pd.DataFrame, points: pd.DataFrame) -> pd.Series:
    """A column less its value without a defence at the same batch size."""
    plain = points[points["defence"] == "None"].set_index("batch size")[what]
    return rows[what] - rows["batch size"].map(plain)


def _cheaper(points: pd.DataFrame) -> tuple[int, int]:
    """Pairs of noise and pruning of similar errors in which pruning costs less, and all."""
    noise, pruned = (points[points["defence"] == d] for d in ("GradNoise", "GradPrune"))
    pairs = noise.merge(pruned, on="batch size", suffixes=(" noise", " pruning"))
    near = (pairs["RMSE noise"] - pairs["RMSE pruning"]).abs() <= 0.02 + 1e-9
    less = pairs["loss pruning"] < pairs["loss noise"]
    return int((near & less).sum()), int(near.sum())


def _pruning_best(tables: Tables) -> Verdict:
    """Whether pruning is the defence that protects most at equal loss."""
    counted, fronts = tables["equal loss"], tables["fronts"]
    counts = ["pairs", "pruning larger", "smaller"]
    every = counted.groupby("points")[counts].sum()
    dropped = counted[counted["defence"] == "GradDrop"].set_index("points").loc["ours", counts]

    def text(row: pd.Series) -> str:
        more, less = (round(10 * n / max(1, row["pairs"])) * 10 for n in row[counts[1:]])
        return f"larger in {more}%, smaller in {less}% of pairs"

    printed, ours = every.loc["printed"], every.loc["ours"]
    others = sorted(set(fronts[fronts["points"] == "printed"]["defence"]) - {"GradPrune"})
    return refute(
        "E-E-40",
        holds=min(printed["smaller"], ours["smaller"]) == 0 or not others,
        corrected_holds=printed["pruning larger"] > printed["smaller"]
        and dropped["smaller"] > dropped["pruning larger"],
        ours=f"beside dropping {text(dropped)}; beside all {text(ours)}; "
        f"aware attackers: {text(every.loc['ours, aware'])}",
        paper=f"{text(printed)}; on the front: pruning and {', '.join(others)}",
    )


CAPTION = (
    "Lowest RMSE over the attacks against the final training loss, one mark for each strength and "
    "batch size (the larger, the larger the mark). Left: Tables 4 and 5 as printed. Middle: ours, "
    "with one standard error over trainings and over pictures. Right: ours where attackers may "
    "allow for the defence. Lines join the marks that no other dominates. Losses are on a "
    "logarithmic axis."
)


def alt(tables: Tables) -> str:
    ours, printed = tables["ours"], tables["printed"]
    dear, dear_in_print = (
        t[t["defence"] == "GradNoise"].groupby("strength")["loss"].mean().iloc[-1]
        / t[t["defence"] != "GradNoise"]["loss"].replace(math.inf, math.nan).mean()
        for t in (ours, printed)
    )
    top = printed.groupby("defence")["RMSE"].max().idxmax()
    return (
        "Three scatter plots of lowest reconstruction error over training loss, marks by defence. "
        f"The strongest noise lies far to the right, at {dear_in_print:.0f} times the mean loss of "
        f"the other defences in print and {dear:.0f} times in ours. In the printed panel {top} is "
        "highest; lines join the points on the upper left front."
    )


@drawing
def draw(tables: Tables) -> Figure:
    figure, (axes,) = panels(1, 3, width=3.5, height=3.2)
    titles = {"printed": "printed", "ours": "ours", "ours, aware": "ours, aware attackers"}
    sizes = sorted(set(tables["ours"]["batch size"]))
    for axis, (front, title) in zip(axes, titles.items(), strict=True):
        _marks(axis, tables[front.removeprefix("ours, ")], sizes)
        edge = tables["fronts"].query("points == @front").sort_values("loss")
        axis.step(edge["loss"], edge["RMSE"], where="post", color="#5F5F5F", linewidth=1, zorder=1)
        axis.set(xscale="log", xlabel="final training loss")
        axis.set_title(title, loc="left")
        low, high = axis.get_xlim()
        ticks = [t for t in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= t <= high]
        axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axis.minorticks_off()
    axes[0].set_ylabel("lowest RMSE")
    present = set(tables["ours"]["defence"])
    handles = [
        legend_line(name, look["color"], "", look["marker"])
        for name, look in DEFENCES.items()
        if name in present
    ]
    legend_above(figure, handles, 6)
    return figure


def _marks(axis: Axes, points: pd.DataFrame, sizes: list[int]) -> None:
    areas = np.array([16, 34, 60])  # by batch size, the smallest first
    finite = points[np.isfinite(points["loss"])]
    for name, own in finite.groupby("defence", sort=False):
        look: dict[str, Any] = DEFENCES[name]
        if "error" in own:
            spread = {"xerr": own["error"], "yerr": own["RMSE error"]}
            style: dict[str, Any] = {"linestyle": "", "elinewidth": 0.6, "alpha": 0.45, "zorder": 2}
            axis.errorbar(own["loss"], own["RMSE"], color=look["color"], **spread, **style)
        ranks = np.searchsorted(sizes, own["batch size"]).clip(max=len(areas) - 1)
        style = {"linewidths": 0.4, "edgecolors": "white", "zorder": 3}
        axis.scatter(own["loss"], own["RMSE"], s=areas[ranks], **look, **style)
