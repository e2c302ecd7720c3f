"""Propositions 1 and 7: the variance of X_hat over rows, and of averages."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from reconrisk import bounds, metrics
from reconrisk.attacks import rows_for_least_noise

EXHIBITS = ("prop1", "prop7")

ROWS = (1, 3, 10, 30, 100, 300)
PARAMETERS_PROP1 = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "max_grad_norm": Parameter("float", 10.0, 10.0, STATED, "C, in units of the record's norm", 1),
    "dimension": Parameter("int", 16, 64, STATED, "values of a record", 2),
    "rows": Parameter("ints", ROWS, (*ROWS, 1000), STATED, "M", 1),
}
SETTLES_PROP1 = ("A-009", "A-010", "A-011", "E-A-01")
ALTERED_PROP1 = {
    "variance": {
        "variance": "variances",
        "theory": at("`rows M` == 300", "variances in closed form at 300 rows"),
    }
}
#: how near measured variances must come to theirs, relative
MARGIN_PROP1 = 0.06


def measure_prop1(study: Context) -> Tables:
    """Proposition 1: the coordinate variance over the number of rows, and where it is least."""
    p = study.parameters
    record = study.rng("record").random(p.dimension)
    record /= np.linalg.norm(record)
    sigma, clipping = p.noise_multiplier, p.max_grad_norm
    enough = rows_for_least_noise(clipping, 1.0)
    variances = []
    for rows in sorted({*p.rows, math.ceil(clipping), enough, enough - 1}):
        repeats = max(50, min(p.repeats, 400_000 // rows))
        rebuilt = attack_repeatedly(study, record, sigma, clipping, repeats, rows=rows)
        squares = np.square(rebuilt - record).mean(axis=1)
        beta = min(1.0, clipping / math.sqrt(rows))
        variances.append((rows, *mean_and_error(squares), (clipping * sigma / beta) ** 2 / rows))
    table = pd.DataFrame(variances, columns=["rows M", "variance", "standard error", "theory"])
    return Tables(
        {"variance": table, "theory": table[["rows M", "theory"]]},
        exact=("theory",),
        ran=f"up to {p.repeats} DP-SGD steps per M at N = {p.dimension}, C = {clipping:g} ||X||.",
    )


def judge_prop1(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["variance"].set_index("rows M")
    least = p.noise_multiplier**2
    printed, corrected = math.ceil(p.max_grad_norm), rows_for_least_noise(p.max_grad_norm, 1.0)
    ratio, error = table.loc[printed, ["variance", "standard error"]] / least
    printed_holds = ratio - STANDARD_ERRORS * error < 1 + MARGIN_PROP1
    enough = table.index >= corrected
    relative, spread = (table[c] / table["theory"] for c in ("variance", "standard error"))
    off = (relative - 1).abs().max()
    above = (table.loc[~enough, "theory"] > least * (1 + 1e-9)).all()
    at_least = np.allclose(table.loc[enough, "theory"], least, rtol=1e-9)
    squared_holds = every(bool(at_least and above), within(relative, 1, spread, MARGIN_PROP1))
    wrong = refute(
        "mean_to_extreme/prop1",
        erratum="E-A-01",
        holds=printed_holds,
        corrected_holds=squared_holds,
        ours=f"variance over the least at the printed M = {printed}: {rounded(ratio, error)}; "
        f"least from M = {corrected} on",
        paper="1",
    )
    yield from shared_by(wrong, "E-A-01")
    stays = check(
        "A-009",
        every(not printed_holds, squared_holds),
        "the variance is higher below the squared threshold, also at the printed one, and stays at "
        "sigma^2 ||X||^2 from it on",
        ours=f"{(~enough).sum()} values of M below it; measured within {off:.1%}",
        tolerance=f"{MARGIN_PROP1:.0%}, errors included",
    )
    yield from shared_by(stays, "A-010", "A-011")


CAPTION_PROP1 = (
    "The variance of a coordinate falls with the number of rows until the gradient is clipped: the "
    "threshold is the square of the printed one."
)


@drawing
def draw_prop1(tables: Tables) -> Figure:
    table = tables["variance"]
    least = table["theory"].min()
    clipping = float(tables.parameters.max_grad_norm)
    figure, ((axis,),) = panels(1, 1, 5.6, 3.5)
    axis.plot(table["rows M"], table["theory"] / least, color=GREY, label="closed form")
    variance, error = table["variance"] / least, 2 * table["standard error"] / least
    style = {"fmt": "o", "color": BLUE, "ms": 5, "label": "measured (2 standard errors)"}
    axis.errorbar(table["rows M"], variance, yerr=error, **style)
    printed, corrected = r"printed $\lceil C/\|X\|\rceil$", r"corrected $\lceil (C/\|X\|)^2\rceil$"
    axis.axvline(np.ceil(clipping), color=ORANGE, ls="--", label=printed)
    axis.axvline(np.ceil(clipping**2), color=GREEN, ls="-.", label=corrected)
    axis.set(xscale="log", yscale="log", xlabel="rows M", ylabel=r"variance / $\sigma^2\|X\|^2$")
    axis.legend(loc="lower left")
    return figure


AVERAGED = (1, 2, 4, 8, 16)
PARAMETERS_PROP7 = {
    "repeats": Parameter("int", 160_000, 400_000, STATED, "simulated steps", 100),
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 8, 64, STATED, "values of a record", 2),
    "averaged": Parameter("ints", AVERAGED, (*AVERAGED, 32, 64), STATED, "k", 1),
    "steps": Parameter("int", 1000, 1000, STATED, "K of the selection probability", 1),
    "records": Parameter("int", 1000, 1000, STATED, "|D| of the selection probability", 2),
}
SETTLES_PROP7 = ("A-028", "A-029", "A-046", "E-A-03")
ALTERED_PROP7 = {
    "variance": {"variance": "variances"},
    "selection": {"printed": "printed probabilities"},
    "totals": {"printed": "sums of the printed probabilities"},
    "simulated selection": {"once": "shares of records selected once"},
    "tails": {
        "attacked": "shares of attacks that succeed",
        "every step a hit": "probabilities after certain hits",
    },
}
#: how near variances must come to theirs, relative
MARGIN_PROP7 = 0.05
#: how near simulated shares must come to their probabilities
SELECTION_MARGIN = 0.01


def measure_prop7(study: Context) -> Tables:
    """Proposition 7: the variance of an average of k reconstructions, and how probable k are."""
    p = study.parameters
    record = study.rng("record").random(p.dimension)
    norm, sigma = float(np.linalg.norm(record)), p.noise_multiplier
    variances = []
    for k in p.averaged:
        groups = p.repeats // k
        rebuilt = attack_repeatedly(study, record, sigma, 0.5 * norm, groups * k, key=(k,))
        average = rebuilt.reshape(groups, k, -1).mean(axis=1)
        measured = mean_and_error(metrics.mse(record, average))
        variances.append((k, *measured, (sigma * norm) ** 2 / k))

    rate, trials = 1 / p.records, 200_000
    once = np.mean(study.rng("selection").binomial(p.steps, rate, trials) == 1)
    # trainings attacked at the steps that select the record, beside the record selected at every
    # step (k = T) and the mixture over the selections
    hits = study.rng("hits").binomial(p.steps, rate, p.repeats // 4)
    hits = hits[hits > 0]
    rebuilt = attack_repeatedly(study, record, sigma, 0.5 * norm, hits.sum(), key=("hits",))
    starts = np.append(0, hits[:-1].cumsum())
    averages = np.add.reduceat(rebuilt, starts) / hits[:, np.newaxis]
    at = ((sigma * norm) ** 2 / 2, p.dimension, sigma, norm)
    successes = int((metrics.mse(record, averages) <= at[0]).sum())
    tails = {
        "trainings": p.repeats // 4,
        "attacked": successes / (p.repeats // 4),
        "every step a hit": float(bounds.mse_tail(*at, repeats=p.steps)),
        "mixture": float(bounds.mse_tail_sampled(*at, p.steps, rate)),
    }
    selection = _selection(p.steps, rate)
    columns = ["k", "variance", "standard error", "theory"]
    return Tables(
        {
            "variance": pd.DataFrame(variances, columns=columns),
            "selection": selection.head(8),
            "totals": selection[["exact", "printed"]].sum().to_frame().T,
            "simulated selection": pd.DataFrame([{"trials": trials, "once": once}]),
            "tails": pd.DataFrame([tails]),
        },
        exact=("selection",),
        ran=f"averages of up to {max(p.averaged)} DP-SGD steps at N = {p.dimension}; selection "
        f"over K = {p.steps} steps from |D| = {p.records}.",
    )


def _selection(steps: int, rate: float) -> pd.DataFrame:
    """Exact and printed probability of k selections, for every k."""
    k = np.arange(steps + 1)
    exact = np.exp(bounds.selection_log_pmf(k, steps, rate))
    printed = bounds.selection_probability_printed(k, steps, rate)
    return pd.DataFrame({"k": k, "exact": exact, "printed": printed})


def judge_prop7(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["variance"]
    ratio, error = (table[c] / table["theory"] for c in ("variance", "standard error"))
    averaged = check(
        "mean_to_extreme/prop7",
        within(ratio, 1, error, MARGIN_PROP7),
        "averaging k reconstructions divides the variance by k: sigma^2 ||X||^2 / k",
        ours=f"within {(ratio - 1).abs().max():.1%} for k = {', '.join(map(str, table['k']))}",
        tolerance=f"{MARGIN_PROP7:.0%}, errors included",
    )
    yield from shared_by(averaged, "A-028")
    rate = 1 / p.records
    selected = tables["selection"].set_index("k").loc[1:]
    exact, printed = selected.loc[1, ["exact", "printed"]]
    overstated = (1 - rate) ** (selected.index - float(p.steps))
    yield check(
        "A-029",
        np.allclose(selected["printed"] / selected["exact"], overstated, rtol=1e-9)
        and (overstated > 1).all(),
        "the printed probability overstates the binomial one by (1 - 1/|D|)^-(K - k)",
        ours=f"k = 1: printed {printed:.4f}, exact {exact:.4f}",
    )
    tails = tables["tails"].iloc[0]
    attacked, always = tails["attacked"], tails["every step a hit"]
    error = math.sqrt(attacked * (1 - attacked) / tails["trainings"])
    yield check(
        "A-046",
        every(
            clearly((always - attacked, error)),
            within(tails["mixture"], attacked, error, SELECTION_MARGIN),
        ),
        "attacks on whole trainings succeed less often than if every step selected the record, and "
        "as often as the mixture over the selections says",
        ours=f"{rounded(attacked, error)} of trainings; all {p.steps} steps: {always:.4g}; "
        f"mixture: {tails['mixture']:.4g}",
    )
    total = tables["totals"].iloc[0]
    simulated = tables["simulated selection"].iloc[0]
    error = math.sqrt(exact * (1 - exact) / simulated["trials"])
    yield refute(
        "E-A-03",
        holds=abs(total["printed"] - 1) < 1e-6,
        corrected_holds=every(
            bool(abs(total["exact"] - 1) < 1e-9),
            bool(abs(total["printed"] / (1 + rate) ** p.steps - 1) < 1e-9),
            within(simulated["once"], exact, error, SELECTION_MARGIN),
        ),
        ours=f"P(k = 1) = {exact:.5f} (simulated {rounded(simulated['once'], error)})",
        paper=f"P(k = 1) = {printed:.5f}; sum {total['printed']:.4f}",
    )
