"""Propositions 6 and B.4: the NCC of the population and of samples."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import clip_to_range, known_scale, observe, shrink

EXHIBITS = ("prop6", "propB4")

DIMENSIONS = (100, 10_000, 1_000_000)
RAISED, UNCLIPPED = "clipped to [0, 1]", "X_hat"
#: a control that must not gain: the NCC does not see an affine map
AFFINE = "shrunken"
PARAMETERS_PROP6 = {
    "dimensions": Parameter("ints", DIMENSIONS, (*DIMENSIONS, 10_000_000), STATED, "N", 2),
    "noise_multiplier": Parameter("float", 0.05, 0.05, STATED, "sigma", 1e-12),
    "copies": Parameter("int", 400_000, 4_000_000, STATED, "values rebuilt per N, at least", 1),
    "digits": Parameter("int", 300, 2000, STATED, "MNIST images rebuilt for erratum E-A-13", 10),
}
SETTLES_PROP6 = ("A-024", "A-025", "A-026", "A-048", "E-A-13")
ALTERED_PROP6 = {
    "population": {
        "sample NCC": "sample NCCs",
        "bound": "bounds",
        "NCC without noise": "NCCs without noise",
    },
    "little noise": {"one less bound": "distances of the bound from one at little noise"},
    "decay": {"bound": at("N == N.max()", "bounds at the largest N")},
    "digits": {AFFINE: "NCCs after an affine map", RAISED: "NCCs of clipped reconstructions"},
}
#: how near sample NCCs must come to those of the population: the smallest here is 0.01
MARGIN_PROP6 = 0.01
#: the exponent over five decades of N, up to the relative 1 / (2 N sigma^2) of the smallest N
EXPONENT_MARGIN = 1e-4


def measure_prop6(study: Context) -> Tables:
    """Proposition 6: the population NCC, eq. (28), its bound, and its decay as N grows."""
    p = study.parameters
    sigma = p.noise_multiplier
    population = []
    for dimension in p.dimensions:
        rng = study.rng(dimension)
        record = rng.random(dimension)
        norm = float(np.linalg.norm(record))
        copies = math.ceil(p.copies / dimension)
        noise = sigma * norm * rng.standard_normal((copies, dimension))
        # one long record of many copies has the population's moments
        rebuilt = record + noise
        sample = float(metrics.ncc(np.tile(record, copies), rebuilt.ravel()))
        formula = 1 / math.sqrt(1 + (sigma * norm) ** 2 / np.var(record))
        bound = float(bounds.ncc_bound_paper(dimension, sigma))
        # the standard deviation of a sample correlation with population value near zero
        error = 1 / math.sqrt(copies * dimension)
        without_noise = float(metrics.ncc(record, record))
        population.append((dimension, sample, formula, bound, error, without_noise))
    columns = ["N", "sample NCC", "eq. (28)", "bound", "standard error", "NCC without noise"]
    small = pd.DataFrame([(1e-6, 100, float(1 - bounds.ncc_bound_paper(100, 1e-6)))])
    grid = np.round(np.geomspace(1e4, 1e9, 26))

    # "optimal with respect to the NCC as well": clip the same reconstructions of digits
    digits = mnist(p.digits)
    inputs = tensor(study, digits)
    run = DPSGD(sigma, max_grad_norm=0.5 * float(inputs.norm(dim=1).min()))
    x_hat = known_scale(observe(inputs, run, study.generator("digits")))
    rebuilt = {UNCLIPPED: x_hat, RAISED: clip_to_range(x_hat), AFFINE: shrink(x_hat, sigma)}
    return Tables(
        {
            "population": pd.DataFrame(population, columns=columns),
            "decay": pd.DataFrame({"N": grid, "bound": bounds.ncc_bound_paper(grid, 1.0)}),
            "little noise": small.set_axis(["sigma", "N", "one less bound"], axis=1),
            "digits": pd.DataFrame(
                {name: metrics.ncc(digits, as_numpy(y)) for name, y in rebuilt.items()}
            ),
        },
        exact=("decay",),
        subsets=(MNIST,),
        ran=f"one synthetic record for each of N = {', '.join(f'{n:g}' for n in p.dimensions)}; "
        f"{p.digits} MNIST images.",
    )


def judge_prop6(tables: Tables) -> Iterator[Verdict]:
    table, decay = tables["population"], tables["decay"]
    printed_bound = 1 / np.sqrt(1 + tables.parameters.noise_multiplier**2 * table["N"])
    near = within(table["sample NCC"], table["eq. (28)"], table["standard error"], MARGIN_PROP6)
    off = (table["sample NCC"] - table["eq. (28)"]).abs().max()
    population = check(
        "mean_to_extreme/prop6",
        every(
            near,
            bool((table["eq. (28)"] <= table["bound"]).all()),
            np.allclose(table["bound"], printed_bound, rtol=1e-12, atol=0),
        ),
        "for the population variables the NCC is eq. (28) and at most sqrt(1/(1+sigma^2 N))",
        ours=f"sample NCCs within {off:.4f} up to N = {table['N'].max():g}",
        tolerance=f"{MARGIN_PROP6:g}, errors included",
    )
    yield from shared_by(population, "A-024")
    less = tables["little noise"]["one less bound"].iloc[0]
    yield check(
        "A-025",
        ((table["NCC without noise"] - 1).abs() < 1e-12).all() and less > 0,
        "the NCC bound is one only without noise",
        ours=f"1 - bound at sigma = 1e-6, N = 100: {less:.1e}",
    )
    slope = np.polyfit(np.log(decay["N"]), np.log(decay["bound"]), 1)[0]
    vanishing = check(
        "A-026",
        abs(slope + 0.5) < EXPONENT_MARGIN and (decay["bound"].diff().iloc[1:] < 0).all(),
        "the bound falls like N^-1/2, so the NCC tends to zero as N grows",
        ours=f"log-log slope {slope:.4f}",
        paper="-1/2",
    )
    yield from shared_by(vanishing, "A-048")
    own, clipped = tables["digits"][UNCLIPPED], tables["digits"][RAISED]
    gain, error = mean_and_error((clipped - own).to_numpy())
    unmoved = np.allclose(tables["digits"][AFFINE], own, rtol=0, atol=1e-6)
    yield refute(
        "E-A-13",
        holds=gain - STANDARD_ERRORS * error <= 0,
        corrected_holds=unmoved and gain - STANDARD_ERRORS * error > 0,
        ours=f"clipping raises the NCC of {(clipped > own).mean():.0%} of {len(own)} MNIST images, "
        f"mean {own.mean():.3f} to {clipped.mean():.3f}",
    )


PARAMETERS_PROPB4 = {
    "repeats": Parameter("int", 20_000, 100_000, STATED, "simulated steps per N", 100),
    "dimensions": Parameter("ints", (3, 4, 64), (3, 4, 64, 784), STATED, "N", 3),
    "noise_multiplier": SIGMA,
}
SETTLES_PROPB4 = ("A-027",)
ALTERED_PROPB4 = {
    "exceedance": {
        "eq. (66) off": "differences from eq. (66)",
        "share above": "shares above the bound",
    }
}
#: how near the measured share must come to the exact one
MARGIN_PROPB4 = 0.02


def measure_propb4(study: Context) -> Tables:
    """Proposition B.4: the parts of the sample NCC; single values exceed the printed bound."""
    p = study.parameters
    sigma = p.noise_multiplier
    exceedance = []
    for dimension in p.dimensions:
        record = study.rng(dimension).random(dimension)
        norm = float(np.linalg.norm(record))
        rebuilt = attack_repeatedly(study, record, sigma, 0.5 * norm, p.repeats)
        noise = rebuilt - record
        sd, sd_rebuilt = record.std(), rebuilt.std(axis=1)
        covariance = (record * noise).mean(axis=1) - record.mean() * noise.mean(axis=1)
        identity = sd / sd_rebuilt + covariance / (sd * sd_rebuilt)  # eq. (66)
        ncc = metrics.ncc(record, rebuilt)
        bound = float(bounds.ncc_bound_paper(dimension, sigma))
        exact = float(bounds.ncc_tail(bound, dimension, sigma, record))
        error = np.sqrt(exact * (1 - exact) / p.repeats)
        difference = np.abs(ncc - identity).max()
        exceedance.append((dimension, bound, np.mean(ncc > bound), error, exact, difference))
    columns = ["N", "bound", "share above", "standard error", "exact share", "eq. (66) off"]
    return Tables(
        {"exceedance": pd.DataFrame(exceedance, columns=columns)},
        ran=f"{p.repeats} DP-SGD steps for each of {len(p.dimensions)} dimensions.",
    )


def judge_propb4(tables: Tables) -> Iterator[Verdict]:
    table = tables["exceedance"]
    yield check(
        "mean_to_extreme/propB4",
        (table["eq. (66) off"] < 1e-12).all(),
        "eq. (66) holds for every simulated pair",
        ours=f"largest difference below 1e-12 over {tables.parameters.repeats} pairs per N",
    )
    error = table["standard error"]
    near = within(table["share above"], table["exact share"], error, MARGIN_PROPB4)
    first = table.iloc[0]
    yield check(
        "A-027",
        every(near, bool((table["share above"] - STANDARD_ERRORS * error > 0.01).all())),
        "single reconstructions exceed sqrt(1/(1 + sigma^2 N))",
        ours=f"share at N = {first['N']:g}: {rounded(first['share above'], error[0])}, exact "
        f"{first['exact share']:.4f}",
        tolerance=f"{MARGIN_PROPB4:g} from the exact share, errors included",
    )
