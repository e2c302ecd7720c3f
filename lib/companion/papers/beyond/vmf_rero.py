"""Bounds on any attacker's success under VMF noise, after a whole run and after one release."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.experiments import federated
from companion.experiments.fair_pairs import fair_pair
from companion.papers.beyond import vmf_batches
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.verdicts import STANDARD_ERRORS
from companion.style import GREEN, GREY, MECHANISMS, drawing, legend_above, legend_line, panels
from reconrisk import DPSGD, bounds
from reconrisk.mechanisms import vmf_cosines

DIMENSION = federated.DIMENSION
RUN: dict[str, Any] = {"sampling_rate": federated.SAMPLING_RATE, "steps": federated.STEPS}
#: sampling rate of the simulated test
TESTED_RATE = 0.4

_OURS = "our own exhibit"
_SIGMAS, _PAPER_SIGMAS = (1.23, 0.461, 0.229), (1.23, 0.66, 0.461, 0.42, 0.321, 0.282, 0.229, 0.204)
PARAMETERS = {
    "noise_multipliers": Parameter(
        "floats", _SIGMAS, _PAPER_SIGMAS, vmf_batches.PAIRS, "sigma of the pairs (of Table IV)", 0.1
    ),
    "prior_points": Parameter("int", 41, 121, _OURS, "prior successes from 1e-6 to .99", 5),
    "simulated_steps": Parameter("int", 6, 20, _OURS, "releases of the simulated test", 1),
    "trials": Parameter("int", 20_000, 400_000, _OURS, "simulated runs of the test", 1000),
}
SETTLES = ("O-033",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    # prior successes, even in their logarithms up to 0.1 and in themselves from there
    low = np.geomspace(1e-6, 0.1, p.prior_points // 2, endpoint=False)
    prior = np.concatenate([low, np.linspace(0.1, 0.99, p.prior_points - p.prior_points // 2)])
    curves, one_release = (
        pd.concat([compute(sigma, prior) for sigma in p.noise_multipliers], ignore_index=True)
        for compute in (run_curves, one_release_curves)
    )
    return Tables(
        {
            "curves": curves,
            "one release": one_release,
            "simulated": simulated_test(study),
            "three dimensions": three_dimensions(),
            "exact": one_release[["sigma", "prior", "Gaussian"]].round(7),
        },
        exact=("exact",),
        ran=f"p = {DIMENSION:,}, q = 128/60,000, T = {federated.STEPS:,}, delta = 1/60,000 (fair "
        f"pairs); certified enclosures, upper ends; {p.trials} simulated runs of a test.",
    )


def run_curves(sigma: float, prior: np.ndarray) -> pd.DataFrame:
    """Upper ends of the enclosures after all steps, at the printed and at the fair pair.

    Raises
    ------
    ValueError
        If ``sigma`` is not one of Table IV.
    """
    printed = {pair.noise_multiplier: pair.concentration for pair in federated.pairs()}
    if sigma not in printed:
        raise ValueError(f"noise_multipliers must be among those of Table IV; got {sigma!r}")
    fair = fair_pair(sigma).concentration
    return pd.DataFrame(
        {
            "sigma": sigma,
            "prior": prior,
            "Gaussian": bounds.rero_curve(DPSGD(sigma, **RUN), prior)[1],
            "VMF, printed": bounds.rero_vmf_curve(printed[sigma], DIMENSION, prior, **RUN)[1],
            "VMF, fair": bounds.rero_vmf_curve(fair, DIMENSION, prior, **RUN)[1],
        }
    )


def one_release_curves(sigma: float, prior: np.ndarray) -> pd.DataFrame:
    """One release without sub-sampling: against the opposite direction, and the uniform law."""
    kappa = math.sqrt(DIMENSION) / (2.0 * sigma)
    return pd.DataFrame(
        {
            "sigma": sigma,
            "prior": prior,
            "Gaussian": bounds.rero_gaussian(sigma, prior),
            "Gaussian, twice the noise": bounds.rero_gaussian(2.0 * sigma, prior),
            "VMF, opposite pair": bounds.rero_vmf_curve(kappa, DIMENSION, prior)[1],
            "VMF, uniform law": bounds.rero_vmf_one_release(kappa, DIMENSION, prior),
            "two opposite": bounds.bayes_success_vmf_two(kappa, DIMENSION, -1.0),
            "at one half": bounds.rero_vmf_one_release(kappa, DIMENSION, 0.5),
        }
    )


def simulated_test(study: Context) -> pd.DataFrame:
    """Power of the best test on simulated cosines, at an estimated level, beside the enclosure."""
    p, q = study.parameters, TESTED_RATE
    rows = []
    for dimension, kappa in ((10, 2.0), (1000, 40.0)):
        losses = {}
        for law, rate in (("without", 0.0), ("with", q)):
            rng = study.rng("test", dimension, law)
            cosine = vmf_cosines(dimension, kappa, rng, p.trials * p.simulated_steps)[0]
            sign = np.where(rng.random(cosine.size) < rate, 1, -1)
            loss = np.log1p(q * np.expm1(2 * kappa * sign * cosine))
            losses[law] = loss.reshape(p.trials, p.simulated_steps).sum(axis=1)
        run = {"sampling_rate": q, "steps": p.simulated_steps}
        for prior in (0.01, 0.1, 0.5):
            level = np.quantile(losses["without"], 1.0 - prior)
            power = float(np.mean(losses["with"] > level))
            found = bounds.rero_vmf(kappa, dimension, prior, **run)
            error = _test_error(kappa, dimension, prior, run, p.trials)
            gap = max(found.lower - power, power - found.upper, 0.0)
            rows.append((dimension, kappa, prior, power, found.lower, found.upper, gap / error))
    columns = ["p", "concentration", "prior", "power", "lower", "upper", "deviations"]
    return pd.DataFrame(rows, columns=columns)


def _test_error(
    kappa: float, dimension: int, prior: float, run: dict[str, Any], trials: int
) -> float:
    """Standard error of the simulated power, with that of its level times the slope."""
    step = 0.2 * min(prior, 1.0 - prior)
    low, high = bounds.rero_vmf_curve(kappa, dimension, [prior - step, prior + step], **run)
    slope = max((high[1] - low[0]) / (2.0 * step), 0.0)
    power = 0.5 * (low[0] + high[1])
    variance = power * (1.0 - power) + slope**2 * prior * (1.0 - prior)
    return math.sqrt(variance / trials) + 1e-9


def three_dimensions() -> pd.DataFrame:
    """The closed form in three dimensions, where a coordinate's density is exponential."""
    rows = []
    for kappa in (0.1, 1.0, 5.0, 20.0):
        for prior in (1e-6, 0.01, 0.3, 0.9):
            # exp(-kappa c) of the cap's edge c, under the law that points away from it
            edge = math.exp(-kappa) + prior * 2.0 * math.sinh(kappa)
            exact = (math.exp(kappa) - 1.0 / edge) / (2.0 * math.sinh(kappa))
            found = bounds.rero_vmf(kappa, 3, prior)
            outside = max(found.lower - exact, exact - found.upper)
            # the closed form's own rounding
            rows.append((kappa, prior, exact, found.lower, found.upper, outside - 1e-14))
    columns = ["concentration", "prior", "exact", "lower", "upper", "outside"]
    return pd.DataFrame(rows, columns=columns)


def judge(tables: Tables) -> Iterator[Verdict]:
    curves, single = tables["curves"], tables["one release"]
    fair = float((curves["VMF, fair"] / curves["Gaussian"] - 1.0).abs().max())
    halved = (single["VMF, uniform law"] / single["Gaussian, twice the noise"] - 1.0).abs().max()
    sharper = (
        (single["VMF, uniform law"] < single["VMF, opposite pair"]).all()
        and (single["two opposite"] / single["at one half"] - 1.0).abs().max() < 1e-9
        and halved < 0.02
    )
    inside = float(tables["simulated"]["deviations"].abs().max())
    outside = float(tables["three dimensions"]["outside"].max())
    yield check(
        "beyond/vmf_rero",
        fair < 0.02 and (curves["VMF, printed"] > curves["Gaussian"]).all() and sharper,
        "at every prior success the bounds of a run agree to 2% at equal epsilon, and VMF's is the "
        "larger at the printed pairs; for one release without sub-sampling the bound against the "
        "uniform law is below that against the opposite pair",
        ours=f"equal epsilon: within {100 * fair:.1f}%; printed pairs: up to "
        f"{_largest_gap(curves):.2f} above",
    )
    yield check(
        "O-033",
        inside < STANDARD_ERRORS and outside <= 0.0 and sharper,
        "the enclosure contains the closed form in three dimensions and a simulated test's power; "
        "two opposite directions attain the bound of one release, which is that of Gaussian noise "
        "with sigma = sqrt(p)/kappa",
        ours=f"simulation within {inside:.1f} standard errors; two opposite directions "
        f"within 1e-9; Gaussian noise within {100 * float(halved):.1f}%",
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
    )


def _largest_gap(curves: pd.DataFrame) -> float:
    return float((curves["VMF, printed"] - curves["Gaussian"]).max())


CAPTION = (
    "Certified upper bounds on the success of any attack, over the success of a guess beforehand. "
    "Left: the whole run at the pairs of paper D's Table IV. Middle: the same noise multipliers "
    "with the concentration of truly equal epsilon. Right: one release without sub-sampling at "
    "equal epsilon, against the opposite direction and against the uniform law."
)


def alt(tables: Tables) -> str:
    curves, single = tables["curves"], tables["one release"]
    fair = 100 * (curves["VMF, fair"] / curves["Gaussian"] - 1).abs().max()
    below = (single["VMF, opposite pair"] - single["VMF, uniform law"]).max()
    return (
        "Three panels of concave curves above the diagonal. Left: at each noise multiplier the "
        "curve of von Mises-Fisher noise runs above that of Gaussian noise, by up to "
        f"{_largest_gap(curves):.2f}. Middle: the two coincide to {math.ceil(fair)}%. Right: the "
        "bound against the opposite direction coincides with the Gaussian one; the bound against "
        f"the uniform law lies below both, by up to {below:.2f}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    curves, single = tables["curves"], tables["one release"]
    gaussian, vmf = MECHANISMS["Gaussian"], MECHANISMS["VMF"]
    figure, (row,) = panels(1, 3, 3.5, 3.5)
    sigmas = list(curves["sigma"].unique())
    # at most three: the first, the middle and the last
    shown = dict.fromkeys((sigmas[0], sigmas[len(sigmas) // 2], sigmas[-1]))
    styles = dict(zip(shown, ("-", "--", ":"), strict=False))
    for sigma, style in styles.items():
        for axis, name, table in (
            (row[0], "VMF, printed", curves),
            (row[1], "VMF, fair", curves),
            (row[2], "VMF, opposite pair", single),
        ):
            own = table[table["sigma"] == sigma]
            axis.plot(own["prior"], own["Gaussian"], style, color=gaussian, lw=2.8, alpha=0.6)
            axis.plot(own["prior"], own[name], style, color=vmf, lw=1.1)
        row[2].plot(own["prior"], own["VMF, uniform law"], style, color=GREEN)
    for axis, title in zip(
        row, ("run, printed pairs", "run, equal epsilon", "one release, equal epsilon"), strict=True
    ):
        axis.plot([0, 1], [0, 1], color=GREY, lw=0.9)
        axis.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="prior success", title=title)
    row[0].set_ylabel("success of any attack, at most")
    handles = [
        legend_line("Gaussian", gaussian),
        legend_line("VMF, opposite pair", vmf),
        legend_line("VMF, uniform law", GREEN),
        *(legend_line(rf"$\sigma$ = {s:g}", GREY, style) for s, style in styles.items()),
    ]
    legend_above(figure, handles, 6)
    return figure
