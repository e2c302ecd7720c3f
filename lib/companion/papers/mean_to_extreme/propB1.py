"""Proposition B.1: without the scale, rows do not determine the record; ratios lack moments."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from scipy import stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from reconrisk import DPSGD
from reconrisk.attacks import observe, ratio_by_row
from reconrisk.mechanisms import clip
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import per_example_gradients

PARAMETERS = {
    "repeats": Parameter("int", 20_000, 1_000_000, STATED, "simulated steps", 1000),
    "noise_multiplier": SIGMA,
}
SETTLES = ("A-007", "A-052", "E-A-08")
ALTERED = {
    "clipped gradients": {"2 X": "gradients of 2X"},
    "ratio": {
        "tail index": "tail indices",
        "largest": "the largest ratios",
        "p-value, Cauchy": "p-values of a Cauchy law",
        "p-value, independent": "p-values of independence",
    },
}

#: variances exist from a tail index of 2 on: the index must be on this side of half-way
INDEX_MARGIN = 0.5


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    record = np.array([0.6, -0.3])
    run = DPSGD(p.noise_multiplier, max_grad_norm=1.0)
    layer = AttackLayer(2, 4, dtype=torch.float64)
    twins = torch.as_tensor(np.stack([record, 2 * record]))
    clipped, _ = clip(per_example_gradients(layer, sum_of_outputs, twins), run.max_grad_norm)
    of_one, of_double = as_numpy(clipped["weight"]).reshape(2, -1)

    inputs = tensor(study, np.broadcast_to(record, (p.repeats, 2)))
    update = observe(inputs, run, study.generator("ratio"), bias=True, keep_rows=True)
    ratios = as_numpy(ratio_by_row(update))[:, 0]
    distance = np.abs(ratios - record)
    magnitude = np.sort(distance[:, 0])[::-1]
    top = max(50, p.repeats // 50)
    first = ratios[:, 0]
    quartiles = np.quantile(first, (0.25, 0.75))
    centred = (first - np.median(first)) / (np.diff(quartiles)[0] / 2)
    tails = {
        "top": top,
        "tail index": 1 / np.mean(np.log(magnitude[:top] / magnitude[top])),  # Hill's estimator
        "largest of a hundredth": np.abs(first[: p.repeats // 100]).max(),
        "largest": np.abs(first).max(),
        "p-value, Cauchy": ks_p_value(centred, stats.cauchy.cdf),
        "p-value, independent": stats.spearmanr(distance[:, 0], distance[:, 1]).pvalue,
    }
    return Tables(
        {
            "clipped gradients": pd.DataFrame({"X": of_one, "2 X": of_double}),
            "ratio": pd.DataFrame([tails]),
        },
        ran=f"{p.repeats} ratios of one row's noisy weight and bias gradients.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    gradients, tails = tables["clipped gradients"], tables["ratio"].iloc[0]
    gap = (gradients["X"] - gradients["2 X"]).abs().max()
    same = check(
        "mean_to_extreme/propB1",
        gap < 1e-12,
        "X and 2X, both clipped, release the same distribution: no estimator from the rows alone "
        "can be unbiased for both",
        ours=f"largest difference of the clipped gradients {gap:.1g}",
    )
    yield from shared_by(same, "A-052")
    index_error = tails["tail index"] / math.sqrt(tails["top"])
    heavy = within(tails["tail index"], 1, index_error, INDEX_MARGIN)
    yield check(
        "A-007",
        every(heavy, bool(tails["largest"] > 10 * tails["largest of a hundredth"])),
        "the ratio has tails of index 1 (Cauchy-like): no mean, no variance",
        ours=f"Hill index {rounded(tails['tail index'], index_error)}",
        paper="1 (Cauchy)",
        tolerance=f"{INDEX_MARGIN:g}, {STANDARD_ERRORS:g} standard errors included",
    )
    # the ratio is not Cauchy unless centred, and the coordinates share their denominator
    yield refute(
        "E-A-08",
        holds=tails["p-value, Cauchy"] > SIGNIFICANCE,
        corrected_holds=every(heavy, bool(tails["p-value, independent"] < SIGNIFICANCE)),
        ours=f"p-value of the best centred Cauchy law {tails['p-value, Cauchy']:.1g}, of "
        f"independence {tails['p-value, independent']:.1g}",
    )
