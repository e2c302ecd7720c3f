"""Proposition 6: the population NCC, eq. (28), its bound, and its decay as N grows."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.experiments.tools import as_numpy, tensor
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import shared_by
from reconrisk import DPSGD, bounds, datasets, metrics
from reconrisk.attacks import clip_to_range, known_scale, observe

DIMENSIONS = (100, 10_000, 1_000_000)

PARAMETERS = {
    "dimensions": Parameter("ints", DIMENSIONS, (*DIMENSIONS, 10_000_000), STATED, "N", 2),
    "noise_multiplier": Parameter("float", 0.05, 0.05, STATED, "sigma", 1e-12),
    "digits": Parameter("int", 300, 1797, STATED, "digits rebuilt for erratum E-A-13", 10),
}
SETTLES = ("A-024", "A-025", "A-026", "A-048", "E-A-13")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = p.noise_multiplier
    population = []
    for dimension in p.dimensions:
        rng = study.rng(dimension)
        record = rng.random(dimension)
        norm = float(np.linalg.norm(record))
        rebuilt = record + sigma * norm * rng.standard_normal(dimension)
        sample = float(metrics.ncc(record, rebuilt))
        formula = 1 / math.sqrt(1 + (sigma * norm) ** 2 / np.var(record))
        bound = float(bounds.ncc_bound_paper(dimension, sigma))
        # the standard deviation of a sample correlation with population value near zero
        error = 1 / math.sqrt(dimension)
        without_noise = float(metrics.ncc(record, record))
        population.append((dimension, sample, formula, bound, error, without_noise))
    columns = ["N", "sample NCC", "eq. (28)", "bound", "error", "NCC without noise"]
    grid = np.round(np.geomspace(1e4, 1e9, 26))

    # "optimal with respect to the NCC as well": clip the same reconstructions of digits
    digits = datasets.digits()[: p.digits]
    inputs = tensor(study, digits)
    run = DPSGD(sigma, max_grad_norm=0.5 * float(inputs.norm(dim=1).min()))
    x_hat = known_scale(observe(inputs, run, study.generator("digits")))
    rebuilt = {"X_hat": x_hat, "clipped to [0, 1]": clip_to_range(x_hat)}
    return Tables(
        {
            "population": pd.DataFrame(population, columns=columns),
            "decay": pd.DataFrame({"N": grid, "bound": bounds.ncc_bound_paper(grid, 1.0)}),
            "digits": pd.DataFrame(
                {name: metrics.ncc(digits, as_numpy(y)) for name, y in rebuilt.items()}
            ),
        },
        exact=("decay",),
        ran=f"one synthetic record for each of N = {', '.join(f'{n:g}' for n in p.dimensions)}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table, decay = tables["population"], tables["decay"]
    off = ((table["sample NCC"] - table["eq. (28)"]).abs() / table["error"]).max()
    population = check(
        "mean_to_extreme/prop6",
        off < 4 and (table["eq. (28)"] <= table["bound"]).all(),
        "for the population variables the NCC is eq. (28) and at most sqrt(1/(1+sigma^2 N))",
        ours=f"sample NCCs within {off:.1f} standard errors up to N = {table['N'].max():g}",
        tolerance="4 standard errors",
    )
    yield from shared_by(population, "A-024")
    small = float(bounds.ncc_bound_paper(100, 1e-6))
    yield check(
        "A-025",
        ((table["NCC without noise"] - 1).abs() < 1e-12).all() and small < 1.0,
        "the NCC bound is one only without noise",
        ours=f"1 - bound at sigma = 1e-6, N = 100: {1 - small:.1e}",
    )
    slope = np.polyfit(np.log(decay["N"]), np.log(decay["bound"]), 1)[0]
    vanishing = check(
        "A-026",
        abs(slope + 0.5) < 1e-3 and (decay["bound"].diff().iloc[1:] < 0).all(),
        "the bound falls like N^-1/2, so the NCC tends to zero as N grows",
        ours=f"log-log slope {slope:.4f}",
        paper="-1/2",
    )
    yield from shared_by(vanishing, "A-048")
    own, clipped = tables["digits"]["X_hat"], tables["digits"]["clipped to [0, 1]"]
    better = (clipped > own).mean()
    yield refute(
        "E-A-13",
        holds=better < 0.9,
        corrected_holds=better > 0.9 and clipped.mean() > own.mean(),
        ours=f"clipping raises the NCC of {better:.0%} of {len(own)} digits, mean {own.mean():.3f} "
        f"to {clipped.mean():.3f}",
    )
