"""Appendix D's conversion of reconstructions: random priors, and their exact average."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import gradient_reconstructions as informed
from reconrisk.attacks import conversion_success

PARAMETERS = {
    **informed.GREY_PARAMETERS,
    "prior_size": Parameter("int", 10, 10, "10", "n", low=2),
    "priors": Parameter(
        "int", 1000, 1000, "1,000 (10,000 in a footnote)", "random priors per target", low=10
    ),
}

#: largest difference of an average over sampled priors from the exact one
MARGIN = 0.02

ALTERED = {"conversion": {"exact": "exact averages"}}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    a = informed.attacked(study, informed.GREY)
    draws = study.rng("priors")
    rows = []
    for epsilon, ranks in zip(a.epsilons, a.nearer, strict=True):
        exact = conversion_success(ranks, a.others, p.prior_size)
        sampled = []
        for nearer in ranks:
            # the nearer images are numbered first: the target wins if none of them is drawn
            keys = draws.random((p.priors, a.others))
            chosen = keys.argpartition(p.prior_size - 2, axis=1)[:, : p.prior_size - 1]
            sampled.append((chosen.min(axis=1) >= nearer).mean())
        error = math.sqrt(float((exact * (1 - exact)).sum()) / p.priors) / len(exact)
        values = {"exact": float(exact.mean()), "sampled": float(np.mean(sampled))}
        rows.append({"epsilon": float(epsilon), **values, "standard error": error})
    return Tables(
        {"conversion": pd.DataFrame(rows)},
        ran=informed.describe_attacked({informed.GREY: a})
        + f" n = {p.prior_size}, {p.priors} random priors per target.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["conversion"]
    agree = [
        within(row["sampled"], row["exact"], row["standard error"], MARGIN)
        for _, row in table.iterrows()
    ]
    yield check(
        "hayes2023/alg_postprocess",
        within(table["sampled"], table["exact"], table["standard error"], MARGIN),
        "the success over random priors is the average over all priors, "
        "C(others - nearer, n - 1)/C(others, n - 1), which needs no sampling",
        ours=f"{agree.count(True)} of {len(table)} averages over {p.grey_targets * p.priors} "
        "priors agree",
        tolerance=f"{MARGIN:g}, Monte Carlo error included",
    )


CAPTION = (
    "Turning a reconstruction into a success: it wins if its target is the nearest image of a "
    "random prior. Points: random priors, as in the paper; line: the average over all priors, "
    "which follows from the number of images nearer than the target."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["conversion"]
    figure, [[axis]] = panels(1, 1, width=5.6, height=3.0)
    axis.plot(table["epsilon"], table["exact"], color=BLUE)
    axis.scatter(
        table["epsilon"], table["sampled"], s=30, facecolor="white", edgecolor=ORANGE, zorder=3
    )
    informed.epsilon_axis(axis)
    axis.set(ylabel="reconstruction success", ylim=(-0.03, 1.05))
    legend_above(
        figure,
        [
            legend_line("average over all priors", BLUE),
            legend_line("random priors", ORANGE, "", "o", markerfacecolor="white"),
        ],
        2,
    )
    return figure
