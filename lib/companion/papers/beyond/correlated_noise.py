"""Noise that is correlated between steps, at equal accuracy: who learns what of a record."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.exhibit import BLACK
from companion.papers.beyond.power import portions, power_at_level
from reconrisk import bounds
from reconrisk.privacy import MatrixMechanism, square_root_encoder, tree_encoder

_OURS = "our own exhibit"
_ERRORS = (2.0, 3.0, 4.5, 7.0, 10.0, 17.0, 30.0, 60.0)
PARAMETERS = {
    "steps": Parameter("int", 128, 1024, _OURS, "T, steps of one epoch", low=16),
    "bands": Parameter("int", 16, 32, _OURS, "diagonals of the banded square root", low=2),
    "errors": Parameter(
        "floats", _ERRORS, _ERRORS, _OURS, "noise in the prefix sums over the clipping norm", 0.1
    ),
    "attacked_errors": Parameter(
        "floats", (3.0, 10.0), (3.0, 10.0), _OURS, "those of them that are attacked", 0.1
    ),
    "dimension": Parameter("int", 32, 32, _OURS, "values of a gradient", low=10),
    "trials": Parameter("int", 4000, 10_000, _OURS, "runs that are attacked", low=100),
    "tested": Parameter("int", 40_000, 40_000, _OURS, "runs drawn in secret; without", low=100),
}
SETTLES = ("O-084", "O-085", "O-086")
#: candidates of the attacker who has a list; their gradients are orthogonal
CANDIDATES = 10
#: how near measured errors come to the law, relative, and successes, absolute
MARGIN, CHANCE = 0.03, 0.04
INDEPENDENT, TREE, ROOT, BANDED = "independent", "tree", "square root", "banded square root"
SAMPLED = ", sampled"
ALTERED = {
    "attack": {
        "error, whole release": "errors on whole releases",
        "error, one step": "errors on one step",
        "success": "successes of the attack",
    },
    "sampled": {"success": "successes of the test of sampled runs"},
    "success": {
        "success": (
            at("not sampled", "bounds without sampling"),
            at(f"mechanism == '{BANDED}' and sampled", "bounds of the banded root, sampled"),
        )
    },
}


def encoders(steps: int, bands: int) -> dict[str, np.ndarray]:
    return {
        INDEPENDENT: np.eye(steps),
        TREE: tree_encoder(steps),
        ROOT: square_root_encoder(steps),
        BANDED: square_root_encoder(steps, bands),
    }


def root_mean_square(mechanism: MatrixMechanism) -> float:
    """Noise in the prefix sums, over all steps."""
    return float(np.sqrt(np.square(mechanism.prefix_errors()).mean()))


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    if p.bands > p.steps:
        raise ValueError(f"bands must be at most the {p.steps} steps; got {p.bands}")
    plain, attacked, found_out, rows = [], [], [], []
    for name, encoder in encoders(p.steps, p.bands).items():
        unit = MatrixMechanism(encoder, 1.0)
        error = root_mean_square(unit)
        plain.append((name, unit.sensitivity, error, unit.sensitivity * error))
        for wanted in p.errors:
            run = MatrixMechanism(encoder, wanted / error)
            runs = {False: run.gaussian()}
            if name in (INDEPENDENT, BANDED):
                runs[True] = run.amplified(run.bands / p.steps)
            for sampled, one in runs.items():
                found = bounds.rero(one, 1 / CANDIDATES)
                rows.append((name, sampled, wanted, run.noise_multiplier, found.upper))
                if sampled and wanted in p.attacked_errors:
                    found_out.append((name, wanted, *_tested(study, name, run), found.upper))
            if wanted in p.attacked_errors:
                attacked.append((name, wanted, *_attacked(study, name, run)))
    return Tables(
        {
            "mechanisms": pd.DataFrame(
                plain, columns=["mechanism", "sensitivity", "prefix error", "product"]
            ),
            "success": pd.DataFrame(
                rows, columns=["mechanism", "sampled", "error", "noise multiplier", "success"]
            ),
            "attack": pd.DataFrame(
                attacked,
                columns=["mechanism", "error", "law", "error, whole release"]
                + ["standard error", "error, one step", "success", "success error"]
                + ["best success"],
            ),
            "sampled": pd.DataFrame(
                found_out, columns=["mechanism", "error", "success", "standard error", "bound"]
            ),
        },
        exact=("mechanisms",),
        ran=f"{p.trials:,} runs of {p.steps} steps at each of {len(p.attacked_errors)} accuracies, "
        f"attacked for the record of the first step, with gradients of {p.dimension} values; "
        f"{p.tested:,} with batches drawn in secret and as many without the record.",
    )


def _attacked(study: Context, name: str, run: MatrixMechanism) -> tuple[float, ...]:
    """Law, error of both attackers and success of the list, for the record of the first step.

    Other records are known, so that nothing else is in the release. Errors are those of the
    gradient's values, squared, over the squared clipping norm.
    """
    p, generator = study.parameters, study.rng(name, run.noise_multiplier)
    candidates = np.eye(p.dimension)[:CANDIDATES]  # a rotation changes nothing
    first_step = np.linalg.pinv(run.encoder)[0]
    aware, single, named = [], [], []
    for count in portions(p.trials, max(1, 2_000_000 // (len(run.encoder) * p.dimension))):
        chosen = generator.integers(CANDIDATES, size=count)
        gradients = np.zeros((count, p.steps, p.dimension))
        gradients[:, 0] = candidates[chosen]
        released = run.release(gradients, generator)
        found = run.contribution(released, 0)
        first = np.einsum("r,...rd->...d", first_step, released)
        aware.append(np.square(found - candidates[chosen]).mean(axis=1))
        single.append(np.square(first - candidates[chosen]).mean(axis=1))
        named.append((found @ candidates.T).argmax(axis=1) == chosen)
    law = run.gaussian(0).noise_multiplier ** 2
    error, spread = mean_and_error(np.concatenate(aware))
    share, share_error = mean_and_error(np.concatenate(named).astype(float))
    best = float(bounds.bayes_success(1 / math.sqrt(law), CANDIDATES))
    return law, error, spread, float(np.concatenate(single).mean()), share, share_error, best


def _tested(study: Context, name: str, run: MatrixMechanism) -> tuple[float, float]:
    """Power, at a level of one in ten, of the best test for a record of the first part.

    It is drawn in secret in each step of its part; its gradient is always the same, of the clipping
    norm, and other records are known, so that a step's gradient is one number.
    """
    p, generator = study.parameters, study.rng(name, "sampled", run.noise_multiplier)
    columns, rate = run.encoder[:, :: run.bands], run.bands / p.steps
    lengths = np.linalg.norm(columns, axis=0) / run.noise_multiplier
    scores = {}
    for there in (True, False):
        found = []
        for count in portions(p.tested, max(1, 2_000_000 // p.steps)):
            gradients = np.zeros((count, p.steps, 1))
            drawn = generator.random((count, columns.shape[1])) < rate
            gradients[:, :: run.bands, 0] = float(there) * drawn
            released = run.release(gradients, generator)[..., 0]
            # columns of one part have no row in common
            shown = released @ (columns / np.linalg.norm(columns, axis=0)) / run.noise_multiplier
            loss = lengths * (shown - 0.5 * lengths)
            found.append(np.logaddexp(np.log1p(-rate), np.log(rate) + loss).sum(axis=1))
        scores[there] = np.concatenate(found)
    return power_at_level(scores[True], scores[False], 1 / CANDIDATES)


def judge(tables: Tables) -> Iterator[Verdict]:
    attack, p = tables["attack"], tables.parameters
    by_law = within(
        attack["error, whole release"] / attack["law"],
        1,
        attack["standard error"] / attack["law"],
        MARGIN,
    )
    as_best = within(attack["success"] - attack["best success"], 0, attack["success error"], CHANCE)
    bound = tables["success"].query("not sampled").set_index(["mechanism", "error"])["success"]
    places = pd.MultiIndex.from_frame(attack[["mechanism", "error"]])
    kept = attack["best success"].to_numpy() <= bound.reindex(places).to_numpy() + 1e-9
    sampled = tables["sampled"]
    reached = within(sampled["success"] - sampled["bound"], 0, sampled["standard error"], CHANCE)
    yield check(
        "beyond/correlated_noise",
        every(by_law, as_best, reached, bool(kept.all())),
        "attacks on whole runs err and succeed as on one Gaussian release, and no success exceeds "
        "the bound; with batches drawn in secret a test reaches it",
        ours=f"errors off by {_off(attack):.1%} at most, successes by "
        f"{(attack['success'] - attack['best success']).abs().max():.3f}, with sampling by "
        f"{(sampled['success'] - sampled['bound']).abs().max():.3f}",
        tolerance=f"{MARGIN:.0%} and {CHANCE:g}, errors included",
    )
    yield check(
        "O-084",
        every(by_law, as_best),
        ours=f"errors off by {_off(attack):.1%} at most",
        tolerance=f"{MARGIN:.0%} and {CHANCE:g}, errors included",
    )
    ratio = attack["error, one step"] / attack["error, whole release"]
    root = ratio[attack["mechanism"] == ROOT]
    column_norm = square_root_encoder(p.steps)[:, 0]
    expected = float(column_norm @ column_norm)
    yield check(
        "O-085",
        bool(np.all(np.abs(root / expected - 1) < MARGIN) and expected > 2),
        ours=f"{root.min():.2f} to {root.max():.2f} times, at {p.steps} steps",
        paper=f"{expected:.2f} (law)",
        tolerance=f"{MARGIN:.0%}",
    )
    yield _order(tables)


def _off(attack: pd.DataFrame) -> float:
    return float((attack["error, whole release"] / attack["law"] - 1).abs().max())


def _order(tables: Tables) -> Verdict:
    """Who gives a record away more often at equal accuracy."""
    table = tables["success"]
    names = table["mechanism"] + np.where(table["sampled"], SAMPLED, "")
    by = table.assign(name=names).pivot(index="error", columns="name", values="success")
    independent, banded = by[INDEPENDENT + SAMPLED], by[BANDED + SAMPLED]
    order = ((by[INDEPENDENT] > by[TREE]) & (by[TREE] > by[ROOT])).all()
    crossing = independent.iloc[0] > by[ROOT].iloc[0] and independent.iloc[-1] < by[ROOT].iloc[-1]
    both = (banded < by[ROOT]).all() and banded.iloc[0] < independent.iloc[0]
    first, last = by.index[0], by.index[-1]
    return check(
        "O-086",
        bool(order and crossing and both),
        ours=f"noise {first:g}: {_listed(by.loc[first])}; noise {last:g}: {_listed(by.loc[last])}",
    )


def _listed(row: pd.Series) -> str:
    return ", ".join(f"{value:.3f} {name}" for name, value in row.sort_values().items())


CAPTION = (
    "Left: success of the best attacker with ten candidates against the noise in the model's sums "
    "of gradients, for independent noise and three kinds of correlated noise; solid without "
    "sampling, dashed with batches drawn in secret. Points: attacks on whole runs; squares: tests "
    "of sampled runs, at a level of one in ten. Right: the "
    "error of an attacker who reads the published step alone, over that of one who uses all steps."
)


@drawing
def draw(tables: Tables) -> Figure:
    table, attack = tables["success"], tables["attack"]
    look = {INDEPENDENT: GREY, TREE: PURPLE, ROOT: BLUE, BANDED: ORANGE}
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.2, 3.5), width_ratios=(1.9, 1), layout="constrained"
    )
    for (name, sampled), part in table.groupby(["mechanism", "sampled"], sort=False):
        style = "--" if sampled else "-"
        left.plot(part["error"], part["success"], style, color=look[name], lw=1.5)
    for name, part in attack.groupby("mechanism", sort=False):
        bars = 2 * part["success error"]
        left.errorbar(part["error"], part["success"], bars, fmt="o", color=look[name], ms=4)
    for name, part in tables["sampled"].groupby("mechanism", sort=False):
        left.plot(part["error"], part["success"], "s", color=look[name], ms=4.5)
    left.axhline(1 / CANDIDATES, color=GREY, ls=":", lw=1)
    left.set(xscale="log", xlabel="noise in the prefix sums / clipping norm", ylabel="success")
    left.set_xticks(ticks := sorted(table["error"].unique()), [f"{tick:g}" for tick in ticks])
    left.minorticks_off()
    ratio = (attack["error, one step"] / attack["law"]).groupby(attack["mechanism"]).mean()
    for place, (name, colour) in enumerate(look.items()):
        right.barh(place, ratio[name], color=colour, height=0.6)
        right.text(ratio[name] + 0.1, place, f"{ratio[name]:.1f}", va="center", fontsize=8.5)
    right.set_yticks(range(len(look)), list(look))
    right.invert_yaxis()
    right.set(xlabel="error of one step / of all", xlim=(0, 1.18 * ratio.max()))
    right.grid(axis="y", visible=False)
    entries = [legend_line(name, colour, "-") for name, colour in look.items()]
    entries += [
        legend_line("drawn in secret", BLACK, "--"),
        legend_line("attack \u00b1 2 std. errors", BLACK, "", "o"),
        legend_line("test of sampled runs", BLACK, "", "s"),
    ]
    figure.legend(handles=entries, loc="outside upper center", ncols=4, fontsize=8)
    return figure
