"""*From Mean to Extreme*, Section 4.3: averaging reconstructions of a record met more than once."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from reconrisk import bounds, metrics
from companion.study.computations import Context, computes
from companion.experiments.tools import attack_repeatedly, mean_and_error
from companion.study.results import Result
from companion.study.verdicts import check, refute, rounded

KEY = "mean_to_extreme"


@computes(f"{KEY}/prop7", "A-028", "A-029", "A-046", "E-A-03")
def proposition7(context: Context) -> Result:
    """The variance of an average of k, and the probability of k selections."""
    p = context.settings
    record = context.rng("record").random(p.dimension)
    norm, sigma = float(np.linalg.norm(record)), p.noise_multiplier
    rows_table = []
    for k in p.averaged:
        groups = p.repeats // k
        rebuilt = attack_repeatedly(context, record, sigma, 0.5 * norm, groups * k, key=(k,))
        average = rebuilt.reshape(groups, k, -1).mean(axis=1)
        variance, error = mean_and_error(metrics.mse(record, average))
        rows_table.append((k, variance, error, (sigma * norm) ** 2 / k))
    table = pd.DataFrame(rows_table, columns=["k", "variance", "standard error", "theory"])
    off = float((np.abs(table["variance"] - table["theory"]) / table["standard error"]).max())

    counts = np.arange(p.steps + 1)
    exact = np.exp(bounds.selection_log_pmf(counts, p.steps, 1 / p.records))
    printed = bounds.selection_probability_printed(counts, p.steps, 1 / p.records)
    selection = pd.DataFrame({"k": counts[:8], "exact": exact[:8], "printed": printed[:8]})
    trials = 200_000
    once = float(np.mean(context.rng("selection").binomial(p.steps, 1 / p.records, trials) == 1))
    once_error = math.sqrt(exact[1] * (1 - exact[1]) / trials)
    total, printed_total = float(exact.sum()), float(printed.sum())
    sums_to = (1 + 1 / p.records) ** p.steps

    # taking every step for a hit (k = T) against the exact mixture over the hits
    threshold = (sigma * norm) ** 2 / 2
    conservative = float(bounds.mse_tail(threshold, p.dimension, sigma, norm, repeats=p.steps))
    mixture = float(
        bounds.mse_tail_sampled(threshold, p.dimension, sigma, norm, p.steps, 1 / p.records)
    )
    ours = f"P(k = 1) = {exact[1]:.5f} (simulated {rounded(once, once_error)})"
    return Result(
        f"{KEY}/prop7",
        [
            check(
                f"{KEY}/prop7",
                off < 4,
                "averaging k reconstructions divides the variance by k",
                ours=f"within {off:.1f} standard errors for k = " + ", ".join(map(str, p.averaged)),
                tolerance="4 standard errors",
            ),
            check(
                "A-028",
                off < 4,
                "the coordinate variance is sigma^2 ||X||^2 / k",
                ours=f"within {off:.1f} standard errors",
                tolerance="4 standard errors",
            ),
            check(
                "A-029",
                bool(
                    np.allclose(
                        printed[1:8] / exact[1:8],
                        (1 - 1 / p.records) ** -(p.steps - counts[1:8].astype(float)),
                    )
                ),
                "the printed probability overstates the binomial one by (1 - 1/|D|)^-(K - k)",
                ours=f"k = 1: printed {printed[1]:.4f}, exact {exact[1]:.4f}",
            ),
            check(
                "A-046",
                conservative > mixture,
                "taking every step for a hit is conservative",
                ours=f"all {p.steps} steps: {conservative:.4g}; exact mixture: {mixture:.4g}",
            ),
            refute(
                "E-A-03",
                "P(k selections) = binom(K, k) / |D|^k",
                holds=abs(printed_total - 1) < 1e-6,
                corrected="The factor (1 - 1/|D|)^(K - k) is missing: the printed terms sum to "
                "(1 + 1/|D|)^K.",
                corrected_holds=abs(total - 1) < 1e-9
                and abs(printed_total / sums_to - 1) < 1e-9
                and abs(once - exact[1]) < 4 * once_error,
                ours=ours,
                paper=f"P(k = 1) = {printed[1]:.5f}; sum {printed_total:.4f}",
            ),
        ],
        {"variance": table, "selection": selection},
        exact=("selection",),
        ran=f"averages of up to {max(p.averaged)} DP-SGD steps at N = {p.dimension}; selection "
        f"over K = {p.steps} steps from |D| = {p.records}.",
    )
