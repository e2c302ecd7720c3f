"""Our own: the exact law of the NCC, and how often the printed bound is exceeded."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion.experiments.tools import SIGNIFICANCE, attack_repeatedly, fits
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import check, refute
from reconrisk import bounds, datasets, metrics


@computes("beyond/ncc_law", "O-001", "O-002", "E-A-06")
def ncc_law(context: Context) -> Result:
    """Simulated NCCs against the non-central t law; the data-free tail above real records."""
    p = context.settings
    sigma = p.noise_multiplier
    grid = np.linspace(-0.999, 0.999, 201)
    tests, frames = [], []
    for dimension in p.dimensions:
        record = context.rng("record", dimension).random(dimension)
        norm = float(np.linalg.norm(record))
        repeats = min(p.repeats, 8_000_000 // dimension)
        rebuilt = attack_repeatedly(context, record, sigma, 0.5 * norm, repeats, key=(dimension,))
        sample = metrics.ncc(record, rebuilt)
        contrast = float(np.linalg.norm(record - record.mean()) / norm)

        def cdf(r, n=dimension, k=contrast):
            return -np.expm1(bounds.ncc_tail(r, n, sigma, contrast=k, log=True))

        p_value = fits(sample, cdf)
        tests.append((dimension, contrast, p_value))
        frames.append(
            pd.DataFrame(
                {
                    "N": dimension,
                    "threshold": grid,
                    "exact": bounds.ncc_tail(grid, dimension, sigma, contrast=contrast),
                    "data-free": bounds.ncc_tail(grid, dimension, sigma),
                    "simulated": (sample[:, None] >= grid).mean(axis=0),
                }
            )
        )
    law = pd.DataFrame(tests, columns=["N", "contrast", "p-value"])
    curves = pd.concat(frames, ignore_index=True)

    records = datasets.digits()[: p.digits]
    contrasts = np.linalg.norm(records - records.mean(axis=1, keepdims=True), axis=1)
    contrasts = contrasts / np.linalg.norm(records, axis=1)
    thresholds = np.linspace(0.05, 0.95, 10)
    data_free = bounds.ncc_tail(thresholds, 64, sigma)
    real = bounds.ncc_tail(thresholds[:, None], 64, sigma, contrast=contrasts[None, :])
    covered = bool((real <= data_free[:, None] * (1 + 1e-12)).all())
    far = float(bounds.ncc_tail(0.5, 150_528, 0.1, log=True))
    smallest = float(law["p-value"].min())
    follows = smallest > SIGNIFICANCE
    return Result(
        "beyond/ncc_law",
        [
            check(
                "beyond/ncc_law",
                follows and covered,
                "the NCC has an exact (eta, gamma)-ReRo statement, with and without the data",
                ours=f"smallest p-value {smallest:.2g}; log P(NCC >= 0.5) at N = 150528, "
                f"sigma = 0.1 without the data: {far:.1f}",
                tolerance=f"p > {SIGNIFICANCE:g}",
            ),
            check(
                "O-001",
                follows,
                "simulated NCCs follow the non-central t law",
                ours=f"smallest p-value {smallest:.2g} over N = "
                + ", ".join(map(str, p.dimensions)),
                tolerance=f"p > {SIGNIFICANCE:g}",
            ),
            check(
                "O-002",
                covered,
                "no record's exact tail exceeds the data-free one",
                ours=f"{p.digits} digits, {len(thresholds)} thresholds; contrasts "
                f"{contrasts.min():.2f} to {contrasts.max():.2f}",
            ),
            refute(
                "E-A-06",
                "the NCC cannot be interpreted in a ReRo notation",
                holds=not (follows and covered),
                corrected="P(NCC >= eta) = P(T >= eta sqrt(N-2) / sqrt(1 - eta^2)) with T "
                "non-central t, N - 2 degrees of freedom, non-centrality ||x - mean|| / "
                "(sigma ||X||), at most 1/sigma.",
                corrected_holds=follows and covered,
                ours=f"smallest p-value {smallest:.2g}",
            ),
        ],
        {
            "curves": curves,
            "law": law,
            "data-free": pd.DataFrame({"threshold": thresholds, "tail": data_free}),
        },
        exact=("data-free",),
        ran=f"up to {p.repeats} DP-SGD steps of one synthetic record for each N, sigma = {sigma:g};"
        f" exact tails of {p.digits} handwritten digits.",
    )


@computes("beyond/ncc_exceedance", "O-003", "E-A-07")
def ncc_exceedance(context: Context) -> Result:
    """The share of single reconstructions above sqrt(1/(1 + sigma^2 N)), exactly."""
    p = context.settings
    frames = []
    for sigma in p.noise_multipliers:
        dimension = np.array(p.dimensions, dtype=float)
        bound = bounds.ncc_bound_paper(dimension, sigma)
        frames.append(
            pd.DataFrame(
                {
                    "sigma": sigma,
                    "N": dimension,
                    "bound": bound,
                    "share above": bounds.ncc_tail(bound, dimension, sigma),
                    "expected NCC": bounds.expected_ncc(dimension, sigma),
                }
            )
        )
    table = pd.concat(frames, ignore_index=True)
    smallest = table[(table["N"] == min(p.dimensions))].iloc[-1]
    largest = table[table["N"] == max(p.dimensions)]
    exceeds = bool((table["share above"] > 0.499).all())
    excess = table["expected NCC"] / table["bound"] - 1
    mean_above = bool((excess > 0).all())
    half = bool((np.abs(largest["share above"] - 0.5) < 0.01).all())
    shares = f"{table['share above'].min():.3f} to {table['share above'].max():.3f}"
    return Result(
        "beyond/ncc_exceedance",
        [
            check(
                "beyond/ncc_exceedance",
                exceeds and half,
                "a large share of single reconstructions exceeds the printed bound",
                ours=f"share above {shares}",
            ),
            check(
                "O-003",
                half,
                "for centred data the share tends to one half as N grows",
                ours=f"at N = {max(p.dimensions):g}: "
                + ", ".join(f"{s:.4f}" for s in largest["share above"]),
            ),
            refute(
                "E-A-07",
                "the NCC between target and reconstruction is at most sqrt(1/(1 + sigma^2 N))",
                holds=not exceeds,
                corrected="It bounds a ratio of population moments. Half or more of the single "
                "values of centred data exceed it, and at every N so does their expectation, "
                "in the end by 1 / (4 N) of it.",
                corrected_holds=exceeds
                and mean_above
                and bool(np.allclose((4 * excess * table["N"])[table["N"] >= 1e6], 1, rtol=0.05)),
                ours=f"share above {shares}; expected NCC over bound at N = "
                f"{min(p.dimensions)}, sigma = {smallest['sigma']:g}: "
                f"{smallest['expected NCC'] / smallest['bound']:.3f}",
                paper="0",
            ),
        ],
        {"exceedance": table},
        exact=("exceedance",),
        ran="closed forms only (centred data: contrast 1).",
    )
