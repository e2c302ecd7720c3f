"""Biswas et al. 2024, utility: Algorithms 1 and 2, Figure 2 and Table V.

The figure and the table look at the same runs, which are trained once in a process. Epsilons are
the labels that the paper gives a pair of noises (Table IV), whatever they really cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from reconrisk import DPSGD, privacy
from companion.study import registry
from companion.study.computations import Context, computes
from companion.papers.biswas2024 import algorithm_lines as lines
from companion.experiments import federated as federated
from companion.experiments.fair_pairs import middle
from companion.experiments.federated import DELTA, DIMENSION, EPOCHS, KEY, RECORDS, Pair
from companion.experiments.tools import data_folder
from companion.experiments.utility_runs import (
    AS_READ,
    GUESSING,
    PAPERS_NAMES,
    READINGS,
    averaged,
    printed_accuracies,
    trained,
    training_task,
)
from companion.study.results import Result
from companion.study.verdicts import (
    STANDARD_ERRORS,
    Verdict,
    check,
    compare,
    half_unit,
    refute,
    rounded,
)

__all__: list[str] = []

#: p-value below which a line of an algorithm does not follow its law; a wrong law is far below
LEAST_P = 1e-6
#: standard errors by which VMF noise must be ahead to count as a crossing
CROSSING = 3.0
#: columns of Table V, in its order
_MECHANISMS = ("VMF", "Gaussian")
_SETS = ("digits", "garments")


def _chosen(labels: Sequence[float]) -> list[Pair]:
    return [pair for pair in federated.studied_pairs() if pair.concentration in labels]


def _stand_in(data: str) -> bool:
    return data not in PAPERS_NAMES


def _any_stand_in(context: Context) -> bool:
    return any(_stand_in(context.settings[which]) for which in _SETS)


def _titles(context: Context) -> dict[str, str]:
    """What the figures call each data set."""
    return {
        name: federated.standardised(name, data_folder(context, name)).images.name
        for name in (context.settings[which] for which in _SETS)
    }


# The algorithms ----------------------------------------------------------------------------------


def _try_out(context: Context) -> lines.Batch:
    p = context.settings
    pictures = federated.standardised(p.digits, data_folder(context, p.digits))
    generator = context.generator("batch").manual_seed(context.seed_of("batch"))
    return lines.draw_batch(pictures.inputs, pictures.labels, p.tried, generator)


def _lines_verdict(target: str, found: list[lines.Line], ours: str) -> Verdict:
    wrong = [line.does for line in found if not line.holds]
    return check(
        target,
        not wrong,
        "every line does what another route to it does",
        ours=ours + (f"; not: {', '.join(wrong)}" if wrong else ""),
        tolerance=f"1e-10, or {STANDARD_ERRORS:g} standard errors and p > {LEAST_P:g}",
    )


@computes(f"{KEY}/alg1", "D-016", "E-D-16", "E-D-19")
def algorithm1(context: Context) -> Result:
    """Lines of Algorithm 1 against plain routes, its noise multiplier and its weight decay."""
    import torch

    p = context.settings
    batch = _try_out(context)
    drawn = torch.Generator().manual_seed(context.seed_of("noise"))
    limit = 0.05
    found = lines.algorithm1_lines(batch, 1.23, limit, drawn, LEAST_P)
    reach, whole = lines.record_reach(batch, limit)
    decay = _decay(context)
    widths = [
        (a, b)
        for a in range(1, DIMENSION // 256)
        if (b := (DIMENSION - 256 * a) // (a + 10)) > 0 and 256 * a + a * b + 10 * b == DIMENSION
    ]
    single = DIMENSION % (256 + 10) == 0
    sigma = federated.studied_pairs()[0].noise_multiplier
    cost = {
        name: middle(privacy.epsilon(DPSGD(s, federated.SAMPLING_RATE, federated.STEPS), DELTA))
        for name, s in (("printed", sigma), ("by layer", sigma / math.sqrt(3.0)))
    }
    collapsed = decay.loc["decay 0.1 in the gradient", "best"]
    learned = decay.loc[AS_READ, "without noise"]
    guess = decay["largest class"].iloc[0]
    verdicts = [
        _lines_verdict(f"{KEY}/alg1", found, f"{len(found)} lines, a batch of {batch.size}"),
        check(
            "D-016",
            federated.NETWORK.parameter_count == DIMENSION == 13_700
            and (50, 15) in widths
            and not single,
            "256-50-15-10 without biases has 13,700 weights, in three layers; one hidden layer "
            "cannot",
            ours="hidden widths that give 13,700: " + ", ".join(f"{a}-{b}" for a, b in widths),
            paper="13,700",
        ),
        refute(
            "E-D-16",
            "Adam with weight decay 0.1, as PyTorch adds it to the gradient, trains the network",
            holds=collapsed > guess + 0.1,
            corrected="added to the gradient the decay outweighs it and every network is left "
            "guessing, with noise and without; decoupled from it, or absent, the same training "
            "learns",
            corrected_holds=learned > collapsed + 0.25,
            ours=f"best of {p.repeats} runs with each noise and without: {collapsed:.2f}; "
            f"decoupled, without noise: {learned:.2f}",
        ),
        refute(
            "E-D-19",
            "with every layer clipped to C and deviation sigma C on every coordinate, sigma is the "
            "noise multiplier",
            holds=reach <= 1 + 1e-9,
            corrected="a record moves the sum by up to sqrt(3) C, so that the noise multiplier is "
            "sigma/sqrt(3); clipping the gradient as a whole would make it sigma",
            corrected_holds=abs(reach - math.sqrt(3.0)) < 1e-9 and abs(whole - 1.0) < 1e-9,
            ours=f"longest clipped gradient {reach:.4f} C by layer, {whole:.4f} C as a whole; "
            f"certified epsilon of sigma = {sigma:g} after {federated.STEPS} steps: "
            f"{cost['by layer']:.3g} instead of {cost['printed']:.3g}",
        ),
    ]
    return Result(
        f"{KEY}/alg1",
        verdicts,
        {"lines": lines.as_table(found), "decay": decay.reset_index()},
        shown=("lines",),
        ran=f"a batch of {batch.size} {p.digits} in double precision; {p.repeats} runs of "
        f"{p.epochs} epochs for each decay.",
    )


def _decay(context: Context) -> pd.DataFrame:
    """Accuracy with each decay: the best of all networks, and without noise."""
    p = context.settings
    pairs = _chosen(p.concentrations)
    rows = []
    test = federated.standardised(p.digits, data_folder(context, p.digits), "test").labels
    largest = float(test.bincount().max() / len(test))
    for reading in (AS_READ, "decay 0.1 in the gradient"):
        tasks = [
            training_task(context, p.digits, p.batch_size, r, pairs, reading=reading)
            for r in range(p.repeats)
        ]
        table = trained(context, tasks)
        without = table.loc[table["mechanism"] == "none", "accuracy"]
        rows.append((reading, table["accuracy"].max(), without.mean(), largest))
    names = ["reading", "best", "without noise", "largest class"]
    return pd.DataFrame(rows, columns=names).set_index("reading")


@computes(f"{KEY}/alg2")
def algorithm2(context: Context) -> Result:
    """Lines of Algorithm 2 against plain routes."""
    import torch

    p = context.settings
    batch = _try_out(context)
    drawn = torch.Generator().manual_seed(context.seed_of("noise"))
    found = lines.algorithm2_lines(batch, p.concentration, p.draws, drawn, LEAST_P)
    return Result(
        f"{KEY}/alg2",
        [
            _lines_verdict(
                f"{KEY}/alg2",
                found,
                f"{len(found)} lines, {p.draws} draws at kappa = {p.concentration:g}",
            )
        ],
        {"lines": lines.as_table(found)},
        shown=("lines",),
        ran=f"a batch of {batch.size} {p.digits} in double precision, {p.draws} draws.",
    )


# Figure 2 ----------------------------------------------------------------------------------------


def _with_print(table: pd.DataFrame) -> pd.DataFrame:
    """Add the printed number of the paper's data set in each one's place."""
    places = dict(zip(table["data"].unique(), PAPERS_NAMES, strict=False))
    paper = printed_accuracies().rename(columns={"data": "paper's data"})
    keyed = table.assign(**{"paper's data": table["data"].map(places)})
    joined = keyed.merge(paper, how="left", on=["paper's data", "mechanism", "label", "batch_size"])
    without = joined["mechanism"] == "none"
    joined.loc[without, "printed"] = joined.loc[without, "paper's data"].map(_printed_without())
    return joined


def _printed_without() -> dict[str, float]:
    """Accuracy without noise, by the paper's data set (Section VII-A)."""
    rows = registry.printed(f"{KEY}/fig2")
    rows = rows[rows["series"] == "non-private model"]
    return {str(r["panel"]): round(float(r["value"]) / 100, 6) for _, r in rows.iterrows()}


def _runs(
    context: Context, batch_sizes: Sequence[int], pairs: Sequence[Pair], repeats: int
) -> pd.DataFrame:
    """Accuracies of both data sets at every batch size, averaged, beside the printed ones."""
    p = context.settings
    tasks = [
        training_task(context, p[which], size, repeat, pairs)
        for which in _SETS
        for size in batch_sizes
        for repeat in range(repeats)
    ]
    return _with_print(averaged(trained(context, tasks)))


def _gaps(table: pd.DataFrame) -> pd.DataFrame:
    """Gaussian less VMF at every label, with the standard error and the printed gap."""
    setting = ["data", "batch_size", "label"]
    wide = table[table["mechanism"] != "none"].set_index([*setting, "mechanism"])
    mean, error, paper = (wide[c].unstack("mechanism") for c in ("mean", "error", "printed"))
    gap = pd.DataFrame(
        {
            "gap": mean["Gaussian"] - mean["VMF"],
            "error": np.hypot(error["Gaussian"], error["VMF"]),
            "printed": paper["Gaussian"] - paper["VMF"],
        }
    )
    # in the order of the data sets, which unstacking has lost
    order = {name: k for k, name in enumerate(table["data"].unique())}
    return gap.reset_index().sort_values(
        setting, key=lambda c: c.map(order) if c.name == "data" else c, ignore_index=True
    )


def _mean_gap(gaps: pd.DataFrame) -> tuple[float, float]:
    count = len(gaps)
    return float(gaps["gap"].mean()), float(np.sqrt((gaps["error"] ** 2).sum()) / count)


def _behind(gaps: pd.DataFrame) -> int:
    """At how many settings Gaussian noise is significantly behind."""
    return int((gaps["gap"] < -CROSSING * gaps["error"]).sum())


def _gaussian_ahead(gaps: pd.DataFrame) -> bool:
    """Ahead on average for each data set, and significantly behind nowhere."""
    means = [_mean_gap(own) for _, own in gaps.groupby(["data", "batch_size"], sort=False)]
    return _behind(gaps) == 0 and all(mean > CROSSING * error for mean, error in means)


def _off_print(own: pd.DataFrame) -> tuple[float, float]:
    """Ours less print on average over the labels, and the chance of one run in it."""
    off = own["mean"] - own["printed"]
    return float(off.mean()), float(np.sqrt((_chance(own) ** 2).sum()) / len(own))


def _said(value: float, error: float) -> str:
    return f"{rounded(value, error)} +- {error:.1g}"


@computes(
    f"{KEY}/fig2",
    f"{KEY}/fig2_mnist",
    f"{KEY}/fig2_fashionmnist",
    "D-002",
    "D-017",
    "D-018",
    "D-019",
    "D-020",
    "D-021",
    "E-D-22",
)
def figure2(context: Context) -> Result:
    """Accuracy over the paper's epsilons, both mechanisms and none, on both data sets."""
    p = context.settings
    pairs = _chosen(p.concentrations)
    table = _runs(context, [p.batch_size], pairs, p.repeats)
    epsilon = {pair.concentration: pair.epsilon for pair in pairs}
    table["epsilon"] = table["label"].map(epsilon)
    gaps = _gaps(table)
    gaps["epsilon"] = gaps["label"].map(epsilon)
    names = _titles(context)
    verdicts = [
        check(
            f"{KEY}/fig2",
            _gaussian_ahead(gaps),
            "Gaussian noise trains the better network on average over the labels, and VMF noise "
            "significantly so at none",
            ours=_gap_text(gaps, names),
            paper=_printed_gap_text(),
            stand_in=_any_stand_in(context),
        ),
        *(
            _panel(f"{KEY}/fig2_{place.lower()}", table[table["data"] == p[which]])
            for which, place in zip(_SETS, PAPERS_NAMES, strict=True)
        ),
        *_claims(context, table, gaps, names),
    ]
    return Result(
        f"{KEY}/fig2",
        verdicts,
        {"accuracy": table.assign(name=table["data"].map(names)), "gaps": gaps},
        ran=f"{p.repeats} runs with every noise, {p.epochs} epochs at batch size {p.batch_size}, "
        f"on {names[p.digits]} and {names[p.garments]} of 16x16 pixels. Epsilons are the paper's "
        "labels of its pairs.",
    )


def _gap_text(gaps: pd.DataFrame, names: dict[str, str]) -> str:
    parts = []
    for data, own in gaps.groupby("data", sort=False):
        mean, error = _mean_gap(own)
        parts.append(f"{names[str(data)]} {rounded(mean, error)}")
    return "mean gap: " + ", ".join(parts)


def _printed_gaps(data: str, batch_size: int = federated.BATCH_SIZE) -> np.ndarray:
    """Gaps of Table V by label, smallest epsilon first."""
    rows = printed_accuracies()
    own = rows[(rows["data"] == data) & (rows["batch_size"] == batch_size)]
    wide = own.pivot_table(index="label", columns="mechanism", values="printed").sort_index()
    return (wide["Gaussian"] - wide["VMF"]).to_numpy()


def _printed_gap_text() -> str:
    return "mean gap: " + ", ".join(f"{n} {_printed_gaps(n).mean():.3f}" for n in PAPERS_NAMES)


#: how far a Gaussian accuracy may be from print on the paper's data, and how many standard errors
#: the mean of VMF's
_NEAR, _MEAN_NEAR = 0.03, 3.0


def _panel(target: str, own: pd.DataFrame) -> Verdict:
    """One data set: how far from print each mechanism is."""
    if _stand_in(str(own["data"].iloc[0])):
        clear = own.groupby("mechanism")["mean"].mean()
        return check(
            target,
            bool(clear["none"] > clear["VMF"] and clear["Gaussian"] > clear["VMF"]),
            "averaged over the labels, training without noise and with Gaussian noise beat VMF "
            "noise",
            ours=", ".join(f"{m} {clear[m]:.2f}" for m in ("none", "Gaussian", "VMF")),
            stand_in=True,
        )
    gaussian, vmf = (own[own["mechanism"] == m] for m in ("Gaussian", "VMF"))
    as_printed = bool(((gaussian["mean"] - gaussian["printed"]).abs() <= _NEAR).all())
    off, chance = _off_print(vmf)
    if not as_printed:
        return check(target, False, "Gaussian accuracies are the printed ones to within 0.03")
    return check(
        target,
        abs(off) <= _MEAN_NEAR * chance,
        "Gaussian accuracies are the printed ones to within 0.03 at every label, and VMF's on "
        "average over the labels to within what single runs spread",
        ours=f"mean difference from print: Gaussian {_said(*_off_print(gaussian))}, VMF "
        f"{_said(off, chance)}",
        tolerance=f"0.03; {_MEAN_NEAR:g} standard errors",
        differs="the Gaussian curve is the printed one; VMF's rises as printed but lies lower. "
        "Table V compares readings of the training",
    )


def _claims(
    context: Context, table: pd.DataFrame, gaps: pd.DataFrame, names: dict[str, str]
) -> list[Verdict]:
    stand_in = _any_stand_in(context)
    accuracy, protection = printed_accuracies(), _printed_protection()
    ahead = {n: int((_all_printed_gaps(n) > 0).sum()) for n in PAPERS_NAMES}
    private = table[table["mechanism"] != "none"]
    above = private.groupby(["data", "mechanism"]).apply(_above_guessing, include_groups=False)
    lowest = accuracy["printed"].min()
    return [
        check(
            "D-002",
            sum(ahead.values()) == 64
            and protection == {"SSIM": (64, 64), "MSE": (63, 64)}
            and _gaussian_ahead(gaps),
            "Gaussian noise has the higher accuracy in all 64 settings of Table V and in our runs; "
            "VMF noise has the lower SSIM in all 64 of Table VI and the higher MSE in 63. The "
            "pairs do not have one epsilon (Table IV)",
            ours=_gap_text(gaps, names),
            paper="64 of 64; 64 of 64 and 63 of 64",
            stand_in=stand_in,
        ),
        check(
            "D-017",
            _gaussian_ahead(gaps) and all(count == 32 for count in ahead.values()),
            "the curves do not cross on either data set",
            ours=f"VMF noise significantly ahead at {_behind(gaps)} of {len(gaps)} labels",
            paper="Gaussian noise ahead at 64 of 64 settings of Table V",
            stand_in=stand_in,
        ),
        _tightest(table, gaps, names),
        _gap_falls(context, table, gaps, names),
        check(
            "D-020",
            bool(above.all()) and lowest > GUESSING,
            "every private model is better than guessing: no accuracy is significantly below 10%, "
            "and each mechanism's mean over the labels is well above",
            ours=f"lowest mean accuracy {private['mean'].min():.2f}",
            paper=f"lowest of Table V {lowest:.4f}",
            stand_in=stand_in,
        ),
        _non_private(table, stand_in),
        _rises_first(),
    ]


def _above_guessing(own: pd.DataFrame) -> bool:
    mean, error = own["mean"], own["error"]
    total = math.sqrt(float((error**2).sum())) / len(own)
    nowhere_below = bool((mean + STANDARD_ERRORS * error > GUESSING).all())
    return nowhere_below and float(mean.mean()) > GUESSING + STANDARD_ERRORS * total


def _all_printed_gaps(data: str) -> np.ndarray:
    return np.concatenate([_printed_gaps(data, size) for size in (16, 32, 64, 128)])


def _printed_protection() -> dict[str, tuple[int, int]]:
    """In how many settings of Table VI VMF protects better, by SSIM (lower) and MSE (higher)."""
    rows = registry.printed(f"{KEY}/table6")
    rows = rows.assign(value=rows["value"].astype(float))
    found = {}
    for metric, sign in (("SSIM", -1.0), ("MSE", 1.0)):
        wide = rows[rows["metric"] == metric].pivot_table(
            index=["dataset", "paired_kappa_vmf", "batch_size"],
            columns="mechanism",
            values="value",
        )
        better = sign * (wide["VMF"] - wide["Gauss"]) > 0
        found[metric] = (int(better.sum()), len(better))
    return found


def _tightest(table: pd.DataFrame, gaps: pd.DataFrame, names: dict[str, str]) -> Verdict:
    """D-018: the four accuracies at the smallest epsilon."""
    text = registry.printed(f"{KEY}/fig2")
    quoted = {
        (row["panel"], {"Gauss": "Gaussian"}.get(row["series"], row["series"])): row
        for _, row in text.iterrows()
        if row["metric"] == "test_accuracy" and row["series"] in ("Gauss", "VMF")
    }
    first = table[table["label"] == table.loc[table["label"] > 0, "label"].min()]
    paper = "86.56%, 74.89%; 32.97%, 44.95%"
    consistent = all(
        abs(float(row["value"]) / 100 - own["printed"].iloc[0]) < 1e-9
        for (panel, mechanism), row in quoted.items()
        if len(own := first[(first["paper's data"] == panel) & (first["mechanism"] == mechanism)])
    )
    stand_in = any(_stand_in(name) for name in first["data"])
    ours = ", ".join(
        f"{names[row['data']]} {row['mechanism']} {rounded(row['mean'], row['error'])}"
        for _, row in first.iterrows()
    )
    if stand_in:
        smallest = gaps[gaps["label"] == first["label"].iloc[0]]
        mean, error = _mean_gap(smallest)
        return check(
            "D-018",
            consistent and mean > CROSSING * error,
            "the text's four accuracies are Table V's first row; at this label Gaussian noise is "
            "well ahead",
            ours=ours,
            paper=paper,
            stand_in=True,
        )
    near = {"Gaussian": 0.03, "VMF": 0.1}
    off = (first["mean"] - first["printed"]).abs()
    return check(
        "D-018",
        consistent and bool((off <= first["mechanism"].map(near)).all()),
        "at the smallest epsilon Gaussian accuracies are as printed to within 0.03, VMF's to "
        "within 0.1",
        ours=ours,
        paper=paper,
        tolerance="0.03, 0.1",
        differs="Gaussian noise gives what is printed, and so does VMF noise on MNIST; on "
        "Fashion-MNIST no run of ours with kappa = 75 is near the printed 44.95%, which is also "
        "above the printed accuracy at kappa = 100",
    )


def _gap_falls(
    context: Context, table: pd.DataFrame, gaps: pd.DataFrame, names: dict[str, str]
) -> Verdict:
    """D-019: the gap in the lower and in the upper half of the labels."""
    fall, error, told, rises = [], [], [], True
    for data, own in gaps.groupby("data", sort=False):
        ordered = own.sort_values("label")
        (low, e), (high, f) = (_mean_gap(half) for half in _halves(ordered))
        fall.append(low - high)
        error.append(math.hypot(e, f))
        vmf = table[(table["data"] == data) & (table["mechanism"] == "VMF")].sort_values("label")
        low_mean, high_mean = (float(half["mean"].mean()) for half in _halves(vmf))
        rises &= high_mean > low_mean
        told.append(f"{names[str(data)]} {rounded(low, e)} to {rounded(high, f)}")
    # a narrow gap, as on the stand-in for garments, need not narrow beyond chance
    narrows = fall[0] > CROSSING * error[0] and fall[1] > -CROSSING * error[1]
    printed = {n: _printed_gaps(n) for n in PAPERS_NAMES}
    return check(
        "D-019",
        narrows and rises and all(g[4:].mean() < g[:4].mean() for g in printed.values()),
        "from the lower half of the epsilons to the upper the gap narrows and VMF's accuracy "
        "rises towards the non-private model's",
        ours="gap " + ", ".join(told),
        paper="gap "
        + ", ".join(f"{n} {g[:4].mean():.3f} to {g[4:].mean():.3f}" for n, g in printed.items()),
        stand_in=_any_stand_in(context),
    )


def _halves(ordered: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    middle_row = len(ordered) // 2
    return ordered.iloc[:middle_row], ordered.iloc[middle_row:]


def _non_private(table: pd.DataFrame, stand_in: bool) -> Verdict:
    """D-021: accuracy without noise."""
    none = table[table["mechanism"] == "none"].reset_index(drop=True)
    ours = ", ".join(
        f"{row['data']} {rounded(row['mean'], row['error'])}" for _, row in none.iterrows()
    )
    paper = "93.99% (MNIST), 84.71% (Fashion-MNIST)"
    if stand_in:
        vmf = table[table["mechanism"] == "VMF"].groupby("data", sort=False)["mean"].max()
        return check(
            "D-021",
            bool((none.set_index("data")["mean"] > vmf).all()),
            "the network without noise is better than every one with VMF noise",
            ours=ours,
            paper=paper,
            stand_in=True,
        )
    off = (none["mean"] - none["printed"]).abs()
    return check(
        "D-021",
        bool((off <= 0.02).all()),
        "without noise the network reaches the printed accuracies",
        ours=ours,
        paper=paper,
        tolerance="0.02",
    )


def _rises_first() -> Verdict:
    """E-D-22: the printed gaps."""
    mnist, fashion = (_printed_gaps(name) for name in PAPERS_NAMES)
    return refute(
        "E-D-22",
        "the gap between the mechanisms drops as epsilon increases, on both data sets",
        holds=bool((np.diff(mnist) < 0).all() and (np.diff(fashion) < 0).all()),
        corrected="in Table V at batch size 128 it drops at every step on MNIST; on Fashion-MNIST "
        "it first rises and drops from the second label on",
        corrected_holds=bool(
            (np.diff(mnist) < 0).all()
            and fashion[1] > fashion[0]
            and (np.diff(fashion)[1:] < 0).all()
        ),
        ours="printed gaps on Fashion-MNIST: " + ", ".join(f"{g:.3f}" for g in fashion),
    )


# Table V -----------------------------------------------------------------------------------------


@computes(f"{KEY}/table5", "D-033", "D-034", "E-D-06", "E-D-11")
def table5(context: Context) -> Result:
    """Accuracy at every batch size beside print, what each reading makes of it, and epsilons."""
    p = context.settings
    pairs = _chosen(p.concentrations)
    table = _runs(context, p.batch_sizes, pairs, p.repeats)
    readings = _readings(context)
    epsilons = _epsilons(_chosen(p.accounted_concentrations), p.accounted)
    names = _titles(context)
    stand_in = _any_stand_in(context)
    shown = _shown(table, names, stand_in)
    return Result(
        f"{KEY}/table5",
        [
            _table_verdict(table, readings, stand_in),
            _batch_rises(table, stand_in),
            _batch_wavers(table, stand_in),
            _one_epsilon_a_row(epsilons),
            _missing_point(),
        ],
        {
            "accuracy": shown,
            "runs": table.drop(columns=["text"]),
            "readings": _shown_readings(readings, stand_in),
            "epsilon": epsilons.round(6),
        },
        exact=("epsilon",),
        shown=("accuracy", "readings", "epsilon"),
        ran=f"{p.repeats} runs of {p.epochs} epochs with every noise, on {names[p.digits]} and "
        f"{names[p.garments]}; readings of the training on {p.reading_repeats} runs each.",
    )


def _shown(table: pd.DataFrame, names: dict[str, str], stand_in: bool) -> pd.DataFrame:
    """One row a noise, one column a batch size: mean +- spread of a run, and print."""
    own = table[table["mechanism"] != "none"].copy()
    noises = {pair.concentration: pair for pair in federated.studied_pairs()}
    rows: dict[tuple[str, float, str], dict[str, str]] = {}
    for _, row in own.iterrows():
        name = names[row["data"]]
        entry = rows.setdefault((name, row["label"], row["mechanism"]), {})
        cell = f"{rounded(row['mean'], row['sd'])} +- {row['sd']:.1g}"
        entry[f"B = {row['batch_size']}"] = cell if stand_in else f"{cell} ({row['text']})"
    shown = []
    for (name, label, mechanism), cells in rows.items():
        pair = noises[label]
        noise = f"kappa = {label:g}" if mechanism == "VMF" else f"sigma = {pair.noise_multiplier:g}"
        shown.append({"data": name, "mechanism": mechanism, "noise": noise, **cells})
    return pd.DataFrame(shown)


def _chance(table: pd.DataFrame) -> np.ndarray:
    """Spread of the difference between our mean and one run."""
    return np.hypot(table["sd"], table["error"]).to_numpy()


def _table_verdict(table: pd.DataFrame, readings: pd.DataFrame, stand_in: bool) -> Verdict:
    target = f"{KEY}/table5"
    gaps = _gaps(table)
    if stand_in:
        return check(
            target,
            _gaussian_ahead(gaps),
            "at every batch size Gaussian noise trains the better network on average over the "
            "labels, and VMF noise significantly so at no label",
            ours=f"VMF noise significantly ahead at {_behind(gaps)} of {len(gaps)} settings",
            paper="0 of 64",
            stand_in=True,
        )
    own = table[table["mechanism"] != "none"]
    return compare(
        target,
        "the printed accuracies are what a run gives",
        own["mean"].to_list(),
        own["printed"].to_list(),
        # 8089 has lost its point (E-D-11)
        [f".{text.lstrip('.')}" for text in own["text"]],
        standard_error=list(_chance(own)),
        differs="VMF accuracies at batch size 128 come out below print, Gaussian ones at 16 above, "
        f"and no reading of the training that we tried mends both; {_best_readings(readings)}",
    )


def _best_readings(readings: pd.DataFrame) -> str:
    """The reading nearest to print for each mechanism and batch size."""
    parts = []
    for (size, mechanism), own in readings.groupby(["batch_size", "mechanism"], sort=False):
        if mechanism == "none":
            continue
        rms = np.sqrt(own.groupby("reading", sort=False)["squared"].mean())
        parts.append(f"{mechanism} at B = {size}: {rms.idxmin()} ({rms.min():.3f})")
    return "nearest in the root mean square: " + "; ".join(parts)


def _readings(context: Context) -> pd.DataFrame:
    """Mean accuracy of each reading, and its squared distance from print."""
    p = context.settings
    pairs = _chosen(p.reading_concentrations)
    sets = [p[which] for which in _SETS][: int(p.reading_sets)]
    tasks = [
        training_task(context, data, size, repeat, pairs, reading=reading)
        for data in sets
        for size in p.reading_batch_sizes
        for reading in READINGS
        for repeat in range(p.reading_repeats)
    ]
    table = _with_print(averaged(trained(context, tasks), by=("reading",)))
    return table.assign(
        squared=(table["mean"] - table["printed"]) ** 2, off=table["mean"] - table["printed"]
    )


def _shown_readings(readings: pd.DataFrame, stand_in: bool) -> pd.DataFrame:
    """For each reading the mean accuracy, and on the paper's data the distance from print."""
    rows = []
    for (reading, data, size), own in readings.groupby(
        ["reading", "data", "batch_size"], sort=False
    ):
        row: dict[str, str | int] = {"reading": reading, "data": data, "B": int(size)}
        for mechanism in ("none", "Gaussian", "VMF"):
            part = own[own["mechanism"] == mechanism]
            text = f"{part['mean'].mean():.2f}"
            if not stand_in and mechanism != "none":
                rms, off = math.sqrt(part["squared"].mean()), part["off"].mean()
                text += f" (off {rms:.3f}, mean {off:+.3f})"
            row[{"none": "no noise"}.get(mechanism, mechanism)] = text
        rows.append(row)
    return pd.DataFrame(rows)


def _batch_rises(table: pd.DataFrame, stand_in: bool) -> Verdict:
    """D-033: Gaussian accuracy over batch sizes, printed and ours at the heaviest noise."""
    rows = printed_accuracies()
    wide = rows[rows["mechanism"] == "Gaussian"].pivot_table(
        index=["data", "label"], columns="batch_size", values="printed"
    )
    rising = int((np.diff(wide.to_numpy(), axis=1) > 0).all(axis=1).sum())
    heaviest = table.loc[table["label"] > 0, "label"].min()
    own = table[(table["mechanism"] == "Gaussian") & (table["label"] == heaviest)]
    grouped = own.sort_values("batch_size").groupby("data", sort=False)
    small, large = grouped.first(), grouped.last()
    rise = large["mean"] - small["mean"]
    error = np.hypot(large["error"], small["error"])
    # so many epochs of so few records are few steps, which a larger batch makes fewer still
    ours = stand_in or bool((rise > CROSSING * error).all())
    return check(
        "D-033",
        rising == len(wide) == 16 and ours,
        "Gaussian accuracy rises from each batch size to the next in all 16 printed rows"
        + ("" if stand_in else ", and from our smallest to our largest at the heaviest noise"),
        ours="change at the heaviest noise: "
        + ", ".join(f"{data} {rounded(r, error[data])}" for data, r in rise.items()),
        paper=f"{rising} of 16 rows",
    )


def _batch_wavers(table: pd.DataFrame, stand_in: bool) -> Verdict:
    """D-034: printed VMF accuracies fall from one batch size to the next, by what runs spread."""
    rows = printed_accuracies()
    wide = rows[rows["mechanism"] == "VMF"].pivot_table(
        index=["data", "label"], columns="batch_size", values="printed"
    )
    steps = np.diff(wide.to_numpy(), axis=1)
    falls = steps[steps < 0]
    vmf = table[table["mechanism"] == "VMF"]
    spread = float(np.sqrt((vmf["sd"] ** 2).mean()))
    return check(
        "D-034",
        0 < len(falls) and float(-falls.min()) < 3 * math.sqrt(2) * spread,
        "printed VMF accuracy does not rise with the batch size throughout, but no fall is larger "
        "than three times what two runs of ours differ by",
        ours=f"one run's standard deviation {spread:.2f}",
        paper=f"{len(falls)} of {steps.size} steps fall, the largest by {-falls.min():.3f}",
        stand_in=stand_in,
    )


def _epsilons(pairs: Sequence[Pair], batch_sizes: Sequence[int]) -> pd.DataFrame:
    """What each pair costs at each batch size: certified, and VMF as the paper accounts it."""
    rows = []
    for pair in pairs:
        for size in batch_sizes:
            rate, steps = size / RECORDS, EPOCHS * -(-RECORDS // size)
            law = (DIMENSION, DELTA, rate)
            printed = min(
                privacy.vmf_epsilon_by_conversion(pair.concentration, *law, EPOCHS).epsilon,
                privacy.vmf_epsilon_by_renyi(pair.concentration, *law, EPOCHS).epsilon,
            )
            gaussian = privacy.epsilon(DPSGD(pair.noise_multiplier, rate, steps), DELTA)
            vmf = privacy.vmf_epsilon(pair.concentration, *law, steps)
            rows.append(
                {
                    "label": pair.epsilon,
                    "kappa": pair.concentration,
                    "sigma": pair.noise_multiplier,
                    "B": size,
                    "steps": steps,
                    "VMF, the paper's way": float(f"{printed:.4g}"),
                    "Gaussian, certified": float(f"{middle(gaussian):.3g}"),
                    "VMF, certified": float(f"{middle(vmf):.3g}"),
                }
            )
    return pd.DataFrame(rows)


def _one_epsilon_a_row(table: pd.DataFrame) -> Verdict:
    """E-D-06: the epsilons of one pair over the batch sizes."""
    columns = ["VMF, the paper's way", "Gaussian, certified", "VMF, certified"]
    ends = table.sort_values("B").groupby("kappa")[columns].agg(["first", "last"])
    ratio = pd.DataFrame({c: ends[(c, "last")] / ends[(c, "first")] for c in columns})
    equal = bool((ratio.sub(1).abs() < 0.05).all(axis=None))
    gaussian, vmf = ratio["Gaussian, certified"], ratio["VMF, the paper's way"]
    small, large = table["B"].min(), table["B"].max()
    return refute(
        "E-D-06",
        "a pair of settings has one epsilon at every batch size",
        holds=equal,
        corrected="the pairs are fitted at batch size 128; with the sampling rate and the number "
        "of steps every epsilon changes, and the two mechanisms' by different factors, both as the "
        "paper accounts them and as certified",
        corrected_holds=bool((ratio > 1.05).all(axis=None))
        and bool(((vmf / gaussian).sub(1).abs() > 0.2).any()),
        ours=f"epsilon at B = {large} over B = {small}: "
        + ", ".join(f"{c} {ratio[c].min():.3g} to {ratio[c].max():.3g}" for c in columns),
    )


def _missing_point() -> Verdict:
    """E-D-11: the accuracy without its point."""
    rows = printed_accuracies()
    odd = rows[rows["text"].map(lambda text: float(text) > 1.0)]
    own = rows[
        (rows["data"] == "FashionMNIST")
        & (rows["mechanism"] == "Gaussian")
        & (rows["batch_size"] == federated.BATCH_SIZE)
    ].sort_values("label")
    read = float("." + odd["text"].iloc[0])
    near = own["printed"].to_numpy()
    at = int(np.flatnonzero(own["label"].to_numpy() == odd["label"].iloc[0])[0])
    return refute(
        "E-D-11",
        "the accuracy is 8089",
        holds=float(odd["text"].iloc[0]) <= 1.0,
        corrected="it is .8089, between its neighbours in the row above and below",
        corrected_holds=len(odd) == 1
        and near[at - 1] < read < near[at + 1]
        and abs(near[at] - read) < half_unit(".8089"),
        ours=f"{near[at - 1]:.4f} < {read:.4f} < {near[at + 1]:.4f}",
        paper=odd["text"].iloc[0],
    )
