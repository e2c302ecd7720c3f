"""Appendix G: the likelihood as a score, corrected, as printed, and with a prior."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import prior_aware_trials as runs
from companion.papers.hayes2023 import unprinted
from companion.papers.hayes2023.success_intervals import interval_lengths

PARAMETERS = {
    **runs.data_parameters(250, 500),
    "sampling_rate": runs.sampling_rate(0.1, "not printed"),
    "steps": runs.steps(100, 100),
    "epsilon": unprinted.number(32.0, "epsilon of the sub-sampled run", low=1e-3),
    "learning_rate": runs.learning_rate(1.0, "of the sub-sampled run"),
    "unclipped_epsilon": unprinted.number(32.0, "epsilon of the unclipped run", low=1e-3),
    "unclipped_learning_rate": runs.learning_rate(
        50.0, "of the full-batch run in which gradients fall below C"
    ),
    "prior_epsilon": unprinted.number(4.0, "epsilon of the run with a prior", low=1e-3),
    "prior_learning_rate": runs.learning_rate(5.0, runs.CLIPPED),
    "likeliest": unprinted.number(0.7, "prior probability of the first candidate", low=1e-6),
    "prior_size": runs.PRIOR_SIZE,
    "trials": runs.trials(200),
    "batch": runs.batch(),
}
SETTLES = ("C-043", "E-C-02", "E-C-03")


ALTERED = {
    "scores": {
        ("right", "success", "low", "high"): (
            "successes",
            at(
                "score == 'likelihood' and run == 'sub-sampled'", "successes of the corrected score"
            ),
            at(
                "score == 'likelihood' and run == 'with a prior'",
                "successes with the logarithm of the prior",
            ),
        )
    }
}
SCENARIOS = (
    scenario(
        "the sum alone right in {} more of the trials",
        frame(
            "scores",
            lambda t, by: t.assign(
                **{"only this": t["only this"] + (by * t["trials"]).round().astype(int)}
            ),
        ),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    settings = {
        "sub-sampled": {"epsilon": p.epsilon, "learning_rate": p.learning_rate, "printed": True},
        "unclipped": {
            "epsilon": p.unclipped_epsilon,
            "learning_rate": p.unclipped_learning_rate,
            "sampling_rate": 1.0,
        },
        "with a prior": {
            "epsilon": p.prior_epsilon,
            "learning_rate": p.prior_learning_rate,
            "sampling_rate": 1.0,
            "likeliest": p.likeliest,
        },
    }
    parts = []
    for name, setting in settings.items():
        given = setting | {"prior_sizes": [p.prior_size]}
        part = runs.attack_points(study, [given], p.trials, batch=p.batch)
        parts.append(part.drop(columns=list(setting)).assign(run=name))
    return Tables(
        {"scores": pd.concat(parts, ignore_index=True)},
        ran=f"{p.trials} trials of each of three runs on {runs.describe_data(p)}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p = tables.parameters
    rows = {run: part.set_index("score") for run, part in tables["scores"].groupby("run")}
    sampled, free, prior = rows["sub-sampled"], rows["unclipped"], rows["with a prior"]
    right, printed, exactly = (
        sampled.loc[score] for score in ("likelihood", "as printed", "printed, exactly")
    )
    with_prior, product = prior.loc["likelihood"], prior.loc["times prior"]
    ahead = max(runs.likelihood_ahead(part.loc["sum"]) for part in (sampled, free))
    yield check(
        "hayes2023/appG_attack",
        ahead < runs.RARELY and all(runs.not_behind(part.loc[["top"]]) for part in (sampled, free)),
        "as corrected, the likelihood beats the sum where the run is sub-sampled and where "
        "gradients are not clipped, and does no worse than Algorithm 3",
        ours=f"sub-sampled: {runs.percent(right)}, sum {runs.percent(sampled.loc['sum'])}, top qT "
        f"{runs.percent(sampled.loc['top'])}; unclipped: {runs.percent(free.loc['likelihood'])}, "
        f"sum {runs.percent(free.loc['sum'])}",
        tolerance=f"sign tests on the same trials, p < {runs.RARELY:g}; no worse: in at most "
        f"{runs.BEHIND:.0%} of the trials",
        stand_in=tables.stand_in,
    )
    beats_product = runs.likelihood_ahead(product) <= runs.RARELY
    as_good = right["success"] > sampled.loc["top", "success"] - runs.BEHIND
    corrected = as_good and right["low"] > max(printed["high"], exactly["high"])
    others = max(product["high"], prior.loc["without prior", "high"])
    with_logarithm = with_prior["low"] > others
    needs_prior = runs.likelihood_ahead(prior.loc["without prior"]) < runs.RARELY
    sums = f"as printed {runs.percent(printed)}, corrected {runs.percent(right)}"
    products = (
        f"s_z + ln p_z {runs.percent(with_prior)}, s_z p_z {runs.percent(product)}, no prior "
        f"{runs.percent(prior.loc['without prior'])}, always the first {p.likeliest:g}"
    )
    yield check(
        "C-043",
        corrected and with_logarithm and needs_prior,
        "with the residual's squared norm subtracted the score names the target far more often "
        "than as we read it; with the logarithm of a non-uniform prior it is right more often "
        "than without, and than times the prior",
        ours=f"{sums}; {products}",
        stand_in=tables.stand_in,
    )
    yield check(
        "E-C-02",
        corrected,
        "the exponent (l^2 - (l^z)^2) / (2 sigma^2) makes a score that names the target; with a "
        "plus between the squares it does not",
        ours=f"{sums}, in exact arithmetic {runs.percent(exactly)}; guessing: {1 / p.prior_size:g}",
        tolerance=f"95% intervals apart; at most {runs.BEHIND:g} below Algorithm 3",
    )
    yield refute("E-C-03", holds=not beats_product, corrected_holds=with_logarithm, ours=products)


CAPTION = (
    "The paper's appendix proposes the log likelihood as score. Success of the scores on three "
    "runs, with 95% intervals: a sub-sampled one, which compares the paper's formula with the "
    "corrected one; a full-batch one whose gradients fall below the clipping norm; and one with a "
    "prior that favours the first candidate. Dotted: always guessing the likeliest."
)


@drawing
def draw(tables: Tables) -> Figure:
    names = {
        "likelihood": "likelihood",
        "top": "Algorithm 3",
        "sum": "Algorithm 2",
        "printed, exactly": "as printed, exact\narithmetic",
        "as printed": "as printed",
        "without prior": "likelihood only",
        "times prior": "times prior,\nas printed",
    }
    figure, [axes] = panels(1, 3, width=3.3, height=2.7)
    for axis, (run, part) in zip(axes, tables["scores"].groupby("run", sort=False), strict=True):
        order = [name for name in names if name in set(part["score"])]
        shown = part.set_index("score").loc[order]
        positions = -np.arange(len(order))
        style = {"fmt": "o", "color": BLUE, "capsize": 2.5}
        axis.errorbar(shown["success"], positions, xerr=interval_lengths(shown), **style)
        labels, guess = [names[name] for name in order], 1 / shown["n"].iloc[0]
        if run == "with a prior":
            labels[0], guess = "plus log prior", tables.parameters.likeliest
        axis.axvline(guess, color=GREY, linestyle=":")
        axis.set_yticks(positions, labels)
        axis.set_ylim(-len(order) + 0.4, 0.6)
        axis.set(xlim=(0, 1.04), xlabel=runs.SUCCESS, title=str(run))
    return figure
