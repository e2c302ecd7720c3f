"""*From Mean to Extreme*, Section 4.2.2 and Proposition B.4: the normalised cross-correlation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import clip_to_range, known_scale, observe
from reconrisk import datasets
from companion.study.computations import Context, computes
from companion.experiments.tools import as_numpy, attack_repeatedly, tensor
from companion.study.results import Result
from companion.study.verdicts import check, refute, rounded

KEY = "mean_to_extreme"


@computes(f"{KEY}/prop6", "A-024", "A-025", "A-026", "A-048", "E-A-13")
def proposition6(context: Context) -> Result:
    """The NCC of the population variables: eq. (28) as N grows, its bound and its decay."""
    p = context.settings
    sigma = p.noise_multiplier
    rows_table = []
    for dimension in p.dimensions:
        rng = context.rng(dimension)
        record = rng.random(dimension)
        norm = float(np.linalg.norm(record))
        rebuilt = record + sigma * norm * rng.standard_normal(dimension)
        sample = float(metrics.ncc(record, rebuilt))
        formula = 1 / math.sqrt(1 + (sigma * norm) ** 2 / np.var(record))
        bound = float(bounds.ncc_bound_paper(dimension, sigma))
        # the standard deviation of a sample correlation with population value near zero
        rows_table.append((dimension, sample, formula, bound, 1 / math.sqrt(dimension)))
    table = pd.DataFrame(rows_table, columns=["N", "sample NCC", "eq. (28)", "bound", "error"])
    z = float((np.abs(table["sample NCC"] - table["eq. (28)"]) / table["error"]).max())
    below = bool((table["eq. (28)"] <= table["bound"]).all())
    grid = np.round(np.geomspace(1e4, 1e9, 26))
    decay = bounds.ncc_bound_paper(grid, 1.0)
    slope = float(np.polyfit(np.log(grid), np.log(decay), 1)[0])
    without_noise = float(metrics.ncc(record, record))
    small = float(bounds.ncc_bound_paper(100, 1e-6))
    limit = float(bounds.ncc_bound_paper(1e9, 0.1))
    exact = pd.DataFrame({"N": grid, "bound": decay})

    # "optimal with respect to the NCC as well": clip the same reconstructions of digits
    digits = datasets.digits()[: p.digits]
    inputs = tensor(context, digits)
    run = DPSGD(sigma, max_grad_norm=0.5 * float(inputs.norm(dim=1).min()))
    x_hat = known_scale(observe(inputs, run, context.generator("digits")))
    own, clipped = (metrics.ncc(digits, as_numpy(y)) for y in (x_hat, clip_to_range(x_hat)))
    better = float(np.mean(clipped > own))
    ours = f"sample NCCs within {z:.1f} standard errors up to N = {max(p.dimensions):g}"
    return Result(
        f"{KEY}/prop6",
        [
            check(
                f"{KEY}/prop6",
                z < 4 and below,
                "for the population variables the NCC is eq. (28) and below sqrt(1/(1+sigma^2 N))",
                ours=ours,
                tolerance="4 standard errors",
            ),
            check(
                "A-024",
                z < 4 and below,
                "large-N sample NCCs approach eq. (28)",
                ours=ours,
                tolerance="4 standard errors",
            ),
            check(
                "A-025",
                abs(without_noise - 1) < 1e-12 and small < 1.0,
                "the NCC bound is one only without noise",
                ours=f"1 - bound at sigma = 1e-6, N = 100: {1 - small:.1e}",
            ),
            check(
                "A-026",
                abs(slope + 0.5) < 1e-3,
                "the bound falls like N^-1/2",
                ours=f"log-log slope {slope:.4f}",
                paper="-1/2",
            ),
            check(
                "A-048",
                limit < 1.1e-3 / 0.1 and bool((np.diff(decay) < 0).all()),
                "as N grows the NCC tends to zero at any noise",
                ours=f"bound at N = 1e9, sigma = 0.1: {limit:.1e}",
            ),
            refute(
                "E-A-13",
                "X_hat is an optimal reconstruction with respect to the NCC as well",
                holds=better < 0.9,
                corrected="Clipping to the known range of the values, which is no affine map, "
                "raises the NCC.",
                corrected_holds=better > 0.9 and clipped.mean() > own.mean(),
                ours=f"clipping raises the NCC of {better:.0%} of {p.digits} digits, mean "
                f"{own.mean():.3f} to {clipped.mean():.3f}",
            ),
        ],
        {"population": table, "decay": exact},
        exact=("decay",),
        ran=f"one synthetic record for each of N = {', '.join(f'{n:g}' for n in p.dimensions)}.",
    )


@computes(f"{KEY}/propB4", "A-027")
def proposition_b4(context: Context) -> Result:
    """The sample NCC's decomposition, and that single values exceed the printed bound."""
    p = context.settings
    sigma = p.noise_multiplier
    worst, rows_table = 0.0, []
    for dimension in p.dimensions:
        record = context.rng(dimension).random(dimension)
        norm = float(np.linalg.norm(record))
        rebuilt = attack_repeatedly(context, record, sigma, 0.5 * norm, p.repeats)
        noise = rebuilt - record
        sd, sd_rebuilt = record.std(), rebuilt.std(axis=1)
        covariance = (record * noise).mean(axis=1) - record.mean() * noise.mean(axis=1)
        identity = sd / sd_rebuilt + covariance / (sd * sd_rebuilt)
        sample = metrics.ncc(record, rebuilt)
        worst = max(worst, float(np.abs(sample - identity).max()))
        bound = float(bounds.ncc_bound_paper(dimension, sigma))
        share = float(np.mean(sample > bound))
        exact = float(bounds.ncc_tail(bound, dimension, sigma, record))
        rows_table.append(
            (dimension, bound, share, math.sqrt(exact * (1 - exact) / p.repeats), exact)
        )
    table = pd.DataFrame(rows_table, columns=["N", "bound", "share above", "error", "exact share"])
    off = float((np.abs(table["share above"] - table["exact share"]) / table["error"]).max())
    first = table.iloc[0]
    return Result(
        f"{KEY}/propB4",
        [
            check(
                f"{KEY}/propB4",
                worst < 1e-12,
                "eq. (66) holds for every simulated pair",
                ours=f"largest difference below 1e-12 over {p.repeats} pairs per N",
            ),
            check(
                "A-027",
                bool((table["share above"] > 0.01).all()) and off < 4,
                "single reconstructions exceed sqrt(1/(1 + sigma^2 N))",
                ours=f"share at N = {first['N']:g}: "
                + rounded(first["share above"], first["error"])
                + f", exact {first['exact share']:.4f}",
                tolerance="4 standard errors of the exact law",
            ),
        ],
        {"exceedance": table},
        ran=f"{p.repeats} DP-SGD steps for each of {len(p.dimensions)} dimensions.",
    )
