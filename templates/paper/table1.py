"""Table 1: how often a randomised answer is the true one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *

PARAMETERS = {
    "answers": Parameter("int", 100_000, 1_000_000, "not printed", "simulated answers", 50_000),
}
SETTLES = ("X-001",)
#: what was measured, in words: a page prints the smallest change that a verdict notices
ALTERED = {
    "shares": {"share": "shares"},
    "simulated": {"share": at("epsilon == 1", "shares of true answers at epsilon = 1")},
}
#: what the claim's "nearly three in four" means, set before anything was computed
NEARLY = (0.70, 0.75)


@measurement
def measure(study: Context) -> Tables:
    epsilon = registry.printed("example2026/table1")["epsilon"].astype(float).to_numpy()
    share = 1 / (1 + np.exp(-epsilon))
    answers = study.parameters.answers
    # each answer is true with the largest probability that epsilon allows
    is_true = study.rng("answers").random((answers, len(share))) < share
    simulated = {
        "epsilon": epsilon,
        "share": is_true.mean(axis=0),
        "standard error": np.sqrt(share * (1 - share) / answers),
    }
    return Tables(
        {
            "shares": pd.DataFrame({"epsilon": epsilon, "share": share}),
            "simulated": pd.DataFrame(simulated),
        },
        exact=("shares",),
        ran=f"the closed form, and {answers:,} simulated answers at each epsilon.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    printed = registry.printed("example2026/table1")
    yield compare(
        "example2026/table1",
        "the shares of true answers are exp(epsilon) / (1 + exp(epsilon))",
        list(tables["shares"]["share"]),
        [float(value) for value in printed["value"]],
        list(printed["printed"]),
    )
    simulated = tables["simulated"].set_index("epsilon")
    share, allowance = simulated.loc[1.0] * (1, STANDARD_ERRORS)
    low, high = NEARLY
    yield check(
        "X-001",
        low < share - allowance and share + allowance < high,
        f"at epsilon = 1 the simulated share of true answers lies between {low:.2f} and {high:.2f}",
        ours=f"{share:.2f}",
        tolerance=f"with {STANDARD_ERRORS:g} standard errors to spare",
    )


CAPTION = (
    "How often a randomised answer is the true one, over epsilon: the closed form, and simulated "
    "answers with four standard errors."
)


@drawing
def draw(tables: Tables) -> Figure:
    shares, simulated = tables["shares"], tables["simulated"]
    figure, [[axis]] = panels(1, 1, 5.0, 3.2)
    axis.plot(shares["epsilon"], shares["share"], color=BLUE, label="closed form")
    axis.errorbar(
        simulated["epsilon"],
        simulated["share"],
        yerr=STANDARD_ERRORS * simulated["standard error"],
        color=ORANGE,
        marker="o",
        linestyle="",
        capsize=2,
        label="simulated",
    )
    axis.set(xlabel="epsilon", ylabel="share of true answers")
    axis.legend()
    return figure
