"""Proposition 5: Algorithm 1 is consistent, and whether the paper's error guarantees hold."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import integrate
from scipy.special import ndtri

from companion.papers.hayes2023 import unprinted
from companion.papers.hayes2023.algorithm1_estimates import (
    KAPPA,
    estimates,
    full_batch,
    one_step,
    spread,
)
from companion.study import Context, Tables, Verdict, check, measurement, refute, shared_by
from companion.study.registry import printed
from companion.study.verdicts import rounded
from reconrisk import DPSGD, bounds

MILLION = 1_000_000
#: the samples of E-C-08's example that are kept
KEPT = 100

STEPS = (1, 5, 20)
PARAMETERS = {
    "kappa": KAPPA,
    "noise_multipliers": unprinted.noise_multipliers(1.0, 1.0, 5.0),
    "sampling_rates": unprinted.sampling_rates(1.0, 0.2, 0.3),
    "steps": unprinted.counts(STEPS, STEPS, "T, steps; one run for each entry of the lists", low=1),
    "samples": unprinted.counts(
        (300, 3000, 30000), (1000, 10000, 100000, 1000000), "N, samples of one estimate", low=100
    ),
    "repeats": unprinted.count(50, 100, "estimates per setting", low=10),
    "million_repeats": unprinted.count(5, 100, "estimates from a million samples each", low=3),
}
SETTLES = ("C-013", "C-014", "E-C-08", "E-C-09")
SHOWN = ("root mean square errors",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    runs = list(zip(p.noise_multipliers, p.sampling_rates, p.steps, strict=True))
    errors = pd.DataFrame(
        _rms_error(study, DPSGD(*run), samples) for run in runs for samples in p.samples
    )
    # at epsilon = 100 a million samples miss the event that matters
    run = one_step(full_batch(100.0))
    collapsed = estimates(study, run, p.kappa, MILLION, p.million_repeats, key=(100.0,))
    gamma = float(bounds.rero_gaussian(run.noise_multiplier, p.kappa))
    return Tables(
        {
            "errors": errors,
            "root mean square errors": _shown(errors),
            "error of the mean": _error_of_the_mean(p.kappa),
            "epsilon 100": pd.DataFrame({"estimate": collapsed, "gamma": gamma}),
            "second moments": _second_moments(),
            "thresholds": _thresholds(study.rng("threshold")),
        },
        ran=f"{p.repeats} calls of Algorithm 1 for each of {len(runs)} runs at kappa = "
        f"{p.kappa:g}.",
    )


def _rms_error(study: Context, run: DPSGD, samples: int) -> dict[str, float]:
    p = study.parameters
    setting = (run.noise_multiplier, run.sampling_rate, run.steps)
    exact = bounds.rero(run, p.kappa)
    found = estimates(study, run, p.kappa, samples, p.repeats, key=setting)
    off = found - (exact.lower + exact.upper) / 2
    return {
        **dict(zip(("sigma", "q", "T"), setting, strict=True)),
        "N": samples,
        "gamma from": exact.lower,
        "gamma to": exact.upper,
        "RMS error": math.sqrt(float(np.mean(off**2))),
    }


def _shown(errors: pd.DataFrame) -> pd.DataFrame:
    middle = (errors["gamma from"] + errors["gamma to"]) / 2
    return errors[["sigma", "q", "T", "N"]].assign(
        **{
            "gamma": middle.map("{:.4f}".format),
            # known to about a tenth of itself
            "RMS error": [rounded(error, error / 10) for error in errors["RMS error"]],
        }
    )


def _error_of_the_mean(kappa: float) -> pd.DataFrame:
    """The 99.9% quantile of the error from a million samples, to first order, full batch."""
    epsilons = np.array([1.0, 4.0, 10.0])
    shifts = np.array([1 / one_step(full_batch(e)).noise_multiplier for e in epsilons])
    reach = -ndtri(0.0005) * spread(shifts, kappa)[0] / math.sqrt(MILLION)
    return pd.DataFrame({"epsilon": epsilons, "99.9% below": reach})


def _second_moments() -> pd.DataFrame:
    settings = itertools.product((0.5, 1.0, 2.0), (0.1, 1.0))
    rows = [(sigma, rate, second_moment(sigma, rate)) for sigma, rate in settings]
    return pd.DataFrame(rows, columns=["sigma", "q", "by quadrature"])


def second_moment(sigma: float, rate: float) -> float:
    """``E[(mu/nu)^2]`` under nu for one step, by quadrature."""

    def integrand(z: float) -> float:
        ratio = 1 - rate + rate * math.exp(z / sigma - 0.5 / sigma**2)
        return ratio**2 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    return integrate.quad(integrand, -12, 2 / sigma + 12, epsabs=1e-13, epsrel=1e-12, limit=200)[0]


def _thresholds(rng: np.random.Generator) -> pd.DataFrame:
    """How many of 1,000 ratios exceed the threshold that the proof takes, and the next one."""
    ratios = np.sort(rng.normal(size=1000))[::-1]
    thresholds = (ratios[KEPT - 1] + ratios[[KEPT - 2, KEPT]]) / 2
    return pd.DataFrame(
        {
            "between": ["(N' - 1)th and N'th", "N'th and next"],
            "ratios above": (ratios > thresholds[:, None]).sum(axis=1),
        }
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    errors = tables["errors"].groupby(["sigma", "q", "T"])
    slopes = [np.polyfit(np.log(t["N"]), np.log(t["RMS error"]), 1)[0] for _, t in errors]
    yield check(
        "hayes2023/prop5",
        all(-0.75 < slope < -0.25 for slope in slopes),
        "the estimate with the factor 1/N tends to gamma, its error like 1 / sqrt(N)",
        ours="log-log slopes " + ", ".join(f"{s:.1f}" for s in slopes),
        tolerance="0.25",
    )
    error = _printed("quantile_error_below")
    # the Dvoretzky-Kiefer-Wolfowitz inequality at a million samples
    chance = 2 * math.exp(-2 * MILLION * error**2)
    yield check(
        "C-013",
        chance < 1e-3,
        "with a million samples every quantile's level is off by less than 0.002 with probability "
        "0.999; the error is absolute, a fifth of kappa = 0.01",
        ours=f"the probability of a larger error than {error:g} is {chance:.1e}",
        paper="0.002, 0.999",
    )
    yield from _judge_error_of_the_mean(tables)
    yield _judge_proof(tables)


def _printed(metric: str) -> float:
    return float(printed("hayes2023/text").set_index("metric")["value"][metric])


def _judge_error_of_the_mean(tables: Tables) -> Iterator[Verdict]:
    allowed = _printed("mean_error_below")
    reach = tables["error of the mean"].set_index("epsilon")["99.9% below"]
    gamma = tables["epsilon 100"]["gamma"].iloc[0]
    largest = tables["epsilon 100"]["estimate"].max()
    error = refute(
        "C-014",
        erratum="E-C-09",
        holds=reach[10.0] < allowed or gamma - largest < allowed,
        corrected_holds=max(reach[1.0], reach[4.0]) < allowed < reach[10.0] and largest < gamma / 2,
        ours=f"99.9% of the errors below {reach[1.0]:.4f}, {reach[4.0]:.4f}, {reach[10.0]:.3f} at "
        f"epsilon = 1, 4, 10 (first order); at epsilon = 100 all {len(tables['epsilon 100'])} "
        f"estimates are below {gamma:.0f}/2, the exact gamma being {gamma:.4f}",
        paper=f"below {allowed:g}",
    )
    yield from shared_by(error, "E-C-09")


def _judge_proof(tables: Tables) -> Verdict:
    """E-C-08: the number of components, the second moment and the threshold in the proof."""
    components = len(set(itertools.product((0, 1), repeat=3)))
    table = tables["second moments"]
    at_half = table.query("sigma == 0.5 and q == 1")["by quadrature"].iloc[0]
    closed = 1 + table["q"] ** 2 * np.expm1(1 / table["sigma"] ** 2)
    exact = np.allclose(table["by quadrature"], closed, rtol=1e-8)
    within = (closed <= np.exp(1 / table["sigma"] ** 2) * (1 + 1e-12)).all()
    before, after = tables["thresholds"]["ratios above"]
    return refute(
        "E-C-08",
        holds=components == 2 * 3 or at_half <= math.e or before == KEPT,
        corrected_holds=components == 2**3 and exact and within and after == KEPT,
        ours=f"T = 3: {components} components; sigma = 0.5, q = T = 1: E[r^2] = {at_half:.1f}; "
        f"{before} and {after} of N' = {KEPT} ratios above the two thresholds",
        paper=f"6; {math.e:.2f}; {KEPT}",
    )
