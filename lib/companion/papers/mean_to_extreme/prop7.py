"""Proposition 7: the variance of an average of k reconstructions, and how probable k are."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from reconrisk import bounds, metrics

AVERAGED = (1, 2, 4, 8, 16)

PARAMETERS = {
    "repeats": Parameter("int", 160_000, 400_000, STATED, "simulated steps", 100),
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 8, 64, STATED, "values of a record", 2),
    "averaged": Parameter("ints", AVERAGED, (*AVERAGED, 32, 64), STATED, "k", 1),
    "steps": Parameter("int", 1000, 1000, STATED, "K of the selection probability", 1),
    "records": Parameter("int", 1000, 1000, STATED, "|D| of the selection probability", 2),
}
SETTLES = ("A-028", "A-029", "A-046", "E-A-03")
ALTERED = {
    "variance": {"variance": "variances"},
    "selection": {"printed": "printed probabilities"},
    "totals": {"printed": "sums of the printed probabilities"},
    "simulated selection": {"once": "shares of records selected once"},
    "tails": {"every step a hit": "probabilities after certain hits"},
}

#: how near variances must come to theirs, relative
MARGIN = 0.05
#: how near the simulated share of single selections must come to its probability
SELECTION_MARGIN = 0.01


@measurement
def measure(study: Context) -> Tables:
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
    # the record selected at every step (k = T), and the exact mixture over the selections
    at = ((sigma * norm) ** 2 / 2, p.dimension, sigma, norm)
    tails = {
        "every step a hit": float(bounds.mse_tail(*at, repeats=p.steps)),
        "exact mixture": float(bounds.mse_tail_sampled(*at, p.steps, rate)),
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


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["variance"]
    ratio, error = (table[c] / table["theory"] for c in ("variance", "standard error"))
    averaged = check(
        "mean_to_extreme/prop7",
        within(ratio, 1, error, MARGIN),
        "averaging k reconstructions divides the variance by k: sigma^2 ||X||^2 / k",
        ours=f"within {(ratio - 1).abs().max():.1%} for k = {', '.join(map(str, table['k']))}",
        tolerance=f"{MARGIN:.0%}, errors included",
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
    always, mixture = tables["tails"].iloc[0][["every step a hit", "exact mixture"]]
    yield check(
        "A-046",
        always > mixture,
        "assuming that every step selects the record is conservative",
        ours=f"all {p.steps} steps: {always:.4g}; exact mixture: {mixture:.4g}",
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
