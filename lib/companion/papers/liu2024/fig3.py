"""Figure 3: lowest RMSE over the attacks against final training loss."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from companion.exhibit import *
from companion.exhibit import DEFENCES
from companion.experiments.client_grid import (
    Grid,
    attack_network,
    batches_of,
    network_of,
    run_grid,
)
from companion.experiments.clients import seed_generator
from companion.papers.liu2024.defence_errors import (
    GRID_AND_SIZES,
    IN_WORDS,
    PRINTED,
    WORKS,
    errors_without_gradient,
    mean_image_error,
    printed_errors,
)
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
    "attacked_images": Parameter("int", 32, 50, "50", "records attacked after training", 2),
}
SETTLES = ("E-009", "E-025", "E-026", "E-033", "E-037")
SHOWN = ("equal loss",)
_STRONGEST_NOISE = "defence == 'GradNoise' and strength == 0.1"
_STRONGEST = (
    "(defence == 'GradDrop' and strength == 0.9) or (defence == 'GradNoise' and strength == 0.1)"
    " or (defence == 'GradPrune' and strength == 0.99)"
)
ALTERED = {
    "ours": {
        "RMSE": (
            by("defence", "errors", IN_WORDS, "under {}"),
            at(_STRONGEST, "errors under the strongest defences"),
            at(_STRONGEST_NOISE, "errors under the strongest noise"),
        ),
        ("loss", "tuned"): (
            at("defence == 'GradPrune'", "losses under pruning"),
            at(_STRONGEST_NOISE, "losses under the strongest noise"),
        ),
    },
    "printed": {
        "RMSE": (
            at("defence == 'GradPrune'", "printed errors under pruning"),
            at(_STRONGEST, "printed errors under the strongest defences"),
        ),
        "loss": by("defence", "printed losses", IN_WORDS, "under {}"),
    },
    "after training": {"RMSE": at("epochs == epochs.max()", "errors after the last epoch")},
}
SCENARIOS = (
    scenario(
        "losses as far apart as in print, the errors as they are",
        frame("ours", lambda t: t.assign(loss=t["loss"] ** 4)),
        *("E-026", "E-037"),
    ),
    scenario(
        "a network that has learnt, the errors after training all equal",
        frame("after training", lambda t: t.assign(loss=0.2, RMSE=t["RMSE"].iloc[-1])),
        "E-033",
    ),
)
CHOICES = {
    "records, learning_rate": "for how many pictures and epochs the trainings run, at which rate: "
    "until the network has learnt or, as here, not so far"
}

CELL = ["defence", "strength", "batch size"]
#: losses within this factor count as equal
EQUAL = 1.15
#: RMSEs that differ by no more than this count as equal
SAME = 0.005
#: the least rise of the lowest RMSE that counts
FELT = 0.05
#: two units of the last digit of the printed errors, half of which rounding can make of nothing
ROUNDING = 0.02
#: "hurts the utility a lot": by more than this share of the loss, as in Table 5
FAR = 0.2
#: of all pairs of settings, the most that may have equal losses: twice the share in print. Where
#: most do, the trainings' losses decide nothing, and "at the same loss" says "anyhow".
MATCHED = 1 / 3
#: a network has learnt if its loss is below this share of a guess's; in print below a sixth of it
LEARNT = 0.5
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
            "references": errors_without_gradient(study),
        },
        ran="Trainings of Table 5 and attacks of Table 4; aware attackers: "
        f"{p.aware}, at batch sizes {', '.join(map(str, p.aware_sizes))}.",
    )


@registry.of_print
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
    grid = dataclasses.replace(Grid.of(study), images=p.attacked_images)
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
            generator=seed_generator(task["seeds"]["batches"], device=grid.device),
            epochs=task["epochs"],
            batch_size=task["size"],
            learning_rate=task["learning_rate"],
        )
        run.load(network, 0, 0)
        loss = float(run.final[0, 0])
    random_neurons = int((network_of(grid).wide.bias == 0).sum())  # those without a bias
    generator = seed_generator(task["seeds"]["batches"], 1, device=grid.device)
    randomise_neurons(network, random_neurons, generator)
    network.eval()
    found = attack_network(grid, "Ours", network, batches_of(grid, task["size"]), [NONE])
    return {"RMSE": found["RMSE"][0], "loss": loss}


def judge(tables: Tables) -> Iterator[Verdict]:
    ours, printed = tables["ours"], tables["printed"]
    mine, paper = (_gains(points) for points in (ours, printed))
    clear = [gain - STANDARD_ERRORS * error for gain, error in mine]
    yield check(
        "liu2024/fig3",
        min(clear) > 0 and min(gain for gain, _ in paper) > ROUNDING,
        "Dropping, noise and pruning each have a larger lowest error at their greatest strength "
        "than at their least, on average over the batch sizes, by more than four standard errors "
        "(in print by more than rounding).",
        ours=", ".join(f"by {g:.1f}" for g, _ in mine),
        paper=", ".join(f"by {g:.2f}" for g, _ in paper),
        stand_in=tables.stand_in,
    )
    yield _controls(tables)
    # Table 4 has no undefended column: the strongest of its attacks is that of Table 7
    noisy = printed[printed["defence"] == "GradNoise"]
    felt = _beyond_undefended("RMSE", noisy, printed_errors("table7")) >= FELT
    dear, cheap = noisy["loss"][felt].min(), noisy["loss"][~felt].max()
    noisy = ours[ours["defence"] == "GradNoise"]
    rises = _beyond_undefended("RMSE", noisy, ours).groupby(noisy["strength"]).mean()
    strongest = noisy[noisy["strength"] == noisy["strength"].max()]
    cost = (_beyond_undefended("loss", strongest, ours) / (strongest["loss"])).min()
    yield check(
        "E-009",
        dear > cheap and rises.diff().iloc[-1] > FELT and cost / (1 - cost) > FAR,
        f"In print every noise that raises the lowest error by {FELT:g} has a larger loss than "
        f"every other; in ours the strongest noise raises the error by {FELT:g} more than the "
        f"others, and the undefended loss by more than {FAR:.0%} at every batch size.",
        ours=f"error up by {', '.join(f'{r:.2f}' for r in rises)}",
        paper=f"losses from {dear:g} against up to {cheap:g}",
        stand_in=tables.stand_in,
    )
    yield from _pruning_beside_noise(tables)
    yield from _pruning_best(tables)
    yield _after_training(tables)


def _pruning_beside_noise(tables: Tables) -> Iterator[Verdict]:
    """Whether pruning, the other strong defence, costs less than noise."""
    ours, printed = tables["ours"], tables["printed"]
    few, many = _cheaper(printed)
    yield check(
        "E-025",
        few >= MOST * many and _strong_pruning_is_cheaper(printed) is True,
        "in print pruning of 90 and 99 per cent has a smaller loss than noise of .1 at every batch "
        "size, and of pairs of noise and pruning at the same batch size whose lowest errors differ "
        "by at most .02, pruning has the smaller loss in two of three or more",
        ours=f"{few} of {many} pairs",
    )
    few, many = _cheaper(ours)
    rates = [_strong_pruning_is_cheaper(ours, loss) for loss in ("loss", "tuned")]
    words = [{True: "is", False: "is not", None: "may be"}[cheaper] for cheaper in rates]
    yield check_run(
        tables,
        "E-025",
        every(*rates, _mostly(few, many)),
        "and in ours, also with each setting at its better rate",
        ours=f"strong pruning {words[0]} cheaper at the larger rate, {words[1]} at the better one; "
        f"cheaper in {round(10 * few / max(1, many)) * 10}% of pairs",
        differs="Light noise protects as much as pruning and costs as little.",
        decided_by=f"more trainings and settings: {few} of {many} pairs of similar error do not "
        "tell",
    )


def _strong_pruning_is_cheaper(points: pd.DataFrame, loss: str = "loss") -> bool | None:
    """Whether pruning of 90 per cent and more costs less than noise of .1 at every batch size.

    None where it costs more by less than four standard errors, those of the larger rate.
    """
    pruned = points[(points["defence"] == "GradPrune") & (points["strength"] >= 0.9)]
    noisy = points[(points["defence"] == "GradNoise") & (points["strength"] == 0.1)]
    both = pruned.merge(noisy, on="batch size", suffixes=("", " noise"))
    more = both[loss] - both[f"{loss} noise"]
    error = np.hypot(both["error"], both["error noise"]) if "error" in both else 0 * more
    return settle((more < 0).all(), not (more > STANDARD_ERRORS * error).any())


def _mostly(few: int, many: int) -> bool | None:
    """Whether most of the pairs are meant; None where they are too few to be sure of a half."""
    share, error = few / max(1, many), 0.5 / max(1, many) ** 0.5
    return settle(share >= MOST, share + STANDARD_ERRORS * error > 0.5)


def _after_training(tables: Tables) -> Verdict:
    """Whether training makes attacks harder, where the pictures are enough to tell."""
    trained = tables["after training"]
    trained = trained[trained["epochs"] > 0].sort_values("epochs")
    first, last = trained.iloc[0], trained.iloc[-1]
    rise, in_print = (last[name] - first[name] for name in ("RMSE", "printed"))
    error = STANDARD_ERRORS * math.hypot(first["RMSE error"], last["RMSE error"])
    rises = trained["RMSE"].is_monotonic_increasing and rise - error > 0
    learnt = last["loss"] < LEARNT * math.log(10)
    return check_run(
        tables,
        "E-033",
        settle(rises, not rise + error < in_print) if learnt else None,
        "the attack's error rises with every epoch of training before it; from the first to the "
        f"third by {in_print:.2f} in print",
        ours=", ".join(map(rounded, trained["RMSE"], trained["RMSE error"])),
        paper=", ".join(f"{v:g}" for v in trained["printed"]),
        differs="In this small network the attack's error does not rise as training goes on: a "
        "rise as printed would be seen. The paper has a deeper network on larger pictures.",
        decided_by="some thirty pictures to tell the printed rise from none"
        if learnt
        else f"a network that learns: after the last epoch its loss is {last['loss']:.1f}, a "
        f"guess's {math.log(10):.1f}",
    )


def _controls(tables: Tables) -> Verdict:
    """A defence that does nothing, one that hides all, and an attacker who guesses.

    Pruning is compared with dropping as in :func:`_pruning_best`, in its own place or with the
    errors of another defence at its losses.
    """
    points, limit = tables["ours"], mean_image_error(tables)
    plain = points[points["defence"] == "None"].set_index("batch size")["RMSE"]
    pruned = points["defence"] == "GradPrune"
    nothing = points["RMSE"].mask(pruned, points["batch size"].map(plain))
    everything = points["RMSE"].mask(pruned, points["RMSE"].max())
    larger, smaller = {}, {}
    kinds = {"as found": points["RMSE"], "nothing": nothing, "everything": everything}
    kinds["guessed"] = points["RMSE"].clip(upper=limit)
    for name, errors in kinds.items():
        pairs = matched_pairs(points.assign(RMSE=errors)).set_index("defence").loc["GradDrop"]
        larger[name], smaller[name] = int(pairs["pruning larger"]), int(pairs["smaller"])
    order = {name: np.sign(larger[name] - smaller[name]) for name in kinds}
    return check(
        "liu2024/fig3",
        plain.max() < WORKS * limit
        and larger["nothing"] == 0 < smaller["nothing"]
        and smaller["everything"] == 0 < larger["everything"]
        and order["guessed"] == order["as found"],
        "controls: undefended batches are rebuilt; in pruning's place a defence that does nothing "
        "has a smaller error than dropping in every pair, one that hides everything a larger; if "
        "attackers may also guess the mean image, the order of pruning and dropping is the same",
        ours=f"mean image {limit:.2f}; with it pruning larger in {larger['guessed']}, smaller in "
        f"{smaller['guessed']} pairs",
        stand_in=tables.stand_in,
    )


def _gains(points: pd.DataFrame) -> list[tuple[float, float]]:
    """How much the lowest RMSE rises from the least to the greatest strength, and its error."""
    found = []
    for name in ("GradDrop", "GradNoise", "GradPrune"):
        own = points[points["defence"] == name]
        ends = [own[own["strength"] == s] for s in (own["strength"].max(), own["strength"].min())]
        gain = ends[0]["RMSE"].mean() - ends[1]["RMSE"].mean()
        errors = [e["RMSE error"] / len(e) if "RMSE error" in e else e["RMSE"] * 0 for e in ends]
        found.append((gain, math.hypot(*pd.concat(errors))))
    return found


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


def _pruning_best(tables: Tables) -> Iterator[Verdict]:
    """Whether pruning is the defence that protects most at equal loss."""
    points = {name: tables[name] for name in ("printed", "ours", "aware")}
    counted = pd.concat([matched_pairs(p).assign(points=name) for name, p in points.items()])
    counts = ["pairs", "pruning larger", "smaller"]
    every = counted.groupby("points")[counts].sum()
    dropped = counted[counted["defence"] == "GradDrop"].set_index("points").loc["ours", counts]
    settings = points["ours"]["defence"].value_counts()
    share = dropped["pairs"] / (settings["GradPrune"] * settings["GradDrop"])
    larger = bool(dropped["pruning larger"] > dropped["smaller"])

    def text(row: pd.Series) -> str:
        more, less = (round(10 * n / max(1, row["pairs"])) * 10 for n in row[counts[1:]])
        return f"larger in {more}%, smaller in {less}% of pairs"

    printed, ours = every.loc["printed"], every.loc["ours"]
    in_print = check(
        "E-026",
        printed["pruning larger"] > 2 * printed["smaller"],
        f"in print, of pairs of losses within {EQUAL - 1:.0%} pruning has the larger RMSE more "
        "than twice as often as the smaller",
        ours=f"{printed['pruning larger']} and {printed['smaller']} of {printed['pairs']}",
    )
    yield from shared_by(in_print, "E-037")
    here = check_run(
        tables,
        "E-026",
        larger if share <= MATCHED else None,
        "and in ours, beside dropped entries, more often the larger than the smaller",
        ours=f"beside dropping {text(dropped)}; beside all {text(ours)}; "
        f"aware attackers: {text(every.loc['aware'])}",
        differs="Against the attacks that are run here, dropping entries at random protects better "
        "than pruning in most pairs of equal loss: the smallest entries carry least.",
        decided_by=f"trainings that learn: {share:.0%} of all pairs of pruning and dropping have "
        f"losses within {EQUAL - 1:.0%} (in print a sixth), so that equal loss selects nothing; "
        f"beside dropping pruning is {text(dropped)}",
    )
    yield from shared_by(here, "E-037")


CAPTION = (
    "Lowest RMSE over the attacks against the final training loss (logarithmic axis), one mark for "
    "each strength, a panel for each batch size. Top: Tables 4 and 5 as printed. Middle: as run "
    "here, with one standard error over trainings and over pictures. Below: the same where "
    "attackers may allow for the defence. Lines join the marks that no other of their panel "
    "dominates; named is the last."
)


@drawing
def draw(tables: Tables) -> Figure:
    kinds = {"printed": "printed", "ours": "run here", "aware": "run here, attackers aware"}
    sizes = {kind: sorted(set(tables[kind]["batch size"])) for kind in kinds}
    figure, rows = panels(len(kinds), max(map(len, sizes.values())), 2.8, 2.5)
    for row, (kind, label) in zip(rows, kinds.items(), strict=True):
        points = tables[kind]
        points = points[np.isfinite(points["loss"])]
        for axis, size in itertools.zip_longest(row, sizes[kind]):
            if size is None:
                axis.set_axis_off()
                continue
            own = points[points["batch size"] == size]
            _marks(axis, own)
            edge = pareto_front(own).sort_values("loss")
            axis.step(edge["loss"], edge["RMSE"], where="post", color=GREY, linewidth=1, zorder=1)
            spread = 0.05 * np.ptp(np.log(own["loss"]))
            axis.set(xscale="log", xlabel="final training loss", title=f"batches of {size}")
            axis.set_xlim(*np.exp(np.log(own["loss"].agg(["min", "max"])) + [-spread, spread]))
            room = 0.12 * np.ptp(own["RMSE"])
            axis.set_ylim(own["RMSE"].min() - room, own["RMSE"].max() + room)
            low, high = axis.get_xlim()
            ticks = [t for t in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= t <= high]
            if len(ticks) < 2:
                ticks = [t for t in MaxNLocator(3).tick_values(low, high) if low <= t <= high]
            axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
            axis.minorticks_off()
            highest = edge.iloc[-1]
            name = highest["defence"].removeprefix("Grad")
            end = f"{name} {highest['strength']:g}"
            axis.annotate(end, (highest["loss"], highest["RMSE"]), (5, 3), **_BESIDE)
        row[0].set_ylabel(f"{label}\nlowest RMSE")
    present = set(tables["ours"]["defence"])
    handles = [
        legend_line(name, look["color"], "", look["marker"])
        for name, look in DEFENCES.items()
        if name in present
    ]
    legend_above(figure, handles, 6)
    return figure


_BESIDE: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": GREY}


def _marks(axis: Axes, points: pd.DataFrame) -> None:
    for name, own in points.groupby("defence", sort=False):
        look: dict[str, Any] = DEFENCES[name]
        if "error" in own:
            spread = {"xerr": own["error"], "yerr": own["RMSE error"]}
            style: dict[str, Any] = {"linestyle": "", "elinewidth": 0.6, "alpha": 0.45, "zorder": 2}
            axis.errorbar(own["loss"], own["RMSE"], color=look["color"], **spread, **style)
        style = {"linewidths": 0.4, "edgecolors": "white", "zorder": 3}
        axis.scatter(own["loss"], own["RMSE"], s=18, **look, **style)
