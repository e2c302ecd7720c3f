"""Our own: what an attacker who knows the geometry of von Mises-Fisher noise can do."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import optimize

from companion.experiments import federated as federated
from companion.experiments.fair_pairs import FairPair, fair_pair, middle
from companion.experiments.tools import mean_and_error
from companion.papers.beyond import turned_batches as turned
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import STANDARD_ERRORS, check, rounded
from reconrisk import DPSGD, attacks, bounds, privacy
from reconrisk.mechanisms import vmf_cosines
from reconrisk.training import Release, release_gradients

_TOLERANCE = f"{STANDARD_ERRORS:g} standard errors"
_P = federated.DIMENSION
#: the paper's records
_PAPERS = "MNIST"


# Reconstruction robustness -----------------------------------------------------------------------


@computes("beyond/vmf_rero", "O-033")
def vmf_rero(context: Context) -> Result:
    """Bounds after the whole run, at the printed and at the fair pairs, and after one release."""
    p = context.settings
    curves = _run_curves(p.noise_multipliers, _priors(p.prior_points))
    single = _one_release_curves(p.noise_multipliers, _priors(p.prior_points))
    tested = _simulated_test(context)
    exact = _three_dimensions()

    fair = curves["VMF, fair"] / curves["Gaussian"] - 1.0
    printed = curves["VMF, printed"] > curves["Gaussian"]
    worst, inside = float(fair.abs().max()), float(tested["deviations"].abs().max())
    outside = float((exact["outside"]).max())
    agrees = worst < 0.02 and bool(printed.all())
    opposite = float((single["two opposite"] / single["at one half"] - 1.0).abs().max())
    halved = (single["VMF, uniform law"] / single["Gaussian, twice the noise"] - 1.0).abs().max()
    below = bool((single["VMF, uniform law"] < single["VMF, opposite pair"]).all())
    sharper = below and opposite < 1e-9 and float(halved) < 0.02
    return Result(
        "beyond/vmf_rero",
        [
            check(
                "beyond/vmf_rero",
                agrees and sharper,
                "at every prior success: at equal epsilon the bounds of a run agree to 2%; at the "
                "printed pairs that of VMF is the larger; of one release without sub-sampling the "
                "bound against the uniform law is below that of the opposite pair",
                ours=f"equal epsilon: within {100 * worst:.1f}%; printed pairs: up to "
                f"{_largest_gap(curves):.2f} above",
            ),
            check(
                "O-033",
                inside < STANDARD_ERRORS and outside <= 0.0 and sharper,
                "the enclosure holds the closed form in three dimensions and a simulated test's "
                "power; two opposite directions attain the bound of one release, which is that of "
                "Gaussian noise with sigma = sqrt(p)/kappa",
                ours=f"simulation within {inside:.1f} standard errors; two opposite directions "
                f"within 1e-9; Gaussian noise within {100 * float(halved):.1f}%",
                tolerance=_TOLERANCE,
            ),
        ],
        {
            "curves": curves,
            "one release": single,
            "simulated": tested,
            "three dimensions": exact,
            "exact": single[["sigma", "prior", "Gaussian"]].round(7),
        },
        exact=("exact",),
        ran=f"p = {_P:,}, q = 128/60,000, T = {federated.STEPS:,}, delta = 1/60,000 (fair pairs); "
        f"certified enclosures, upper ends; {p.trials} simulated runs of a test.",
    )


def _priors(points: int) -> np.ndarray:
    """Prior successes, even in their logarithms up to 0.1 and in themselves from there."""
    low = np.geomspace(1e-6, 0.1, points // 2, endpoint=False)
    return np.concatenate([low, np.linspace(0.1, 0.99, points - points // 2)])


def _run_curves(noise_multipliers: tuple[float, ...], prior: np.ndarray) -> pd.DataFrame:
    """Upper ends of the enclosures after all steps, for each noise multiplier."""
    printed = {pair.noise_multiplier: pair.concentration for pair in federated.pairs()}
    q, steps = federated.SAMPLING_RATE, federated.STEPS
    parts = []
    for sigma in noise_multipliers:
        if sigma not in printed:
            raise ValueError(f"noise_multipliers must be among those of Table IV; got {sigma!r}")
        fair = fair_pair(sigma)
        vmf = {
            name: bounds.rero_vmf_curve(kappa, _P, prior, sampling_rate=q, steps=steps)[1]
            for name, kappa in (("printed", printed[sigma]), ("fair", fair.concentration))
        }
        parts.append(
            pd.DataFrame(
                {
                    "sigma": sigma,
                    "epsilon": middle(fair.gaussian),
                    "printed concentration": printed[sigma],
                    "fair concentration": fair.concentration,
                    "prior": prior,
                    "Gaussian": bounds.rero_curve(DPSGD(sigma, q, steps), prior)[1],
                    "VMF, printed": vmf["printed"],
                    "VMF, fair": vmf["fair"],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _largest_gap(curves: pd.DataFrame) -> float:
    return float((curves["VMF, printed"] - curves["Gaussian"]).max())


def _one_release_curves(noise_multipliers: tuple[float, ...], prior: np.ndarray) -> pd.DataFrame:
    """One release without sub-sampling: against the opposite direction, and the uniform law."""
    parts = []
    for sigma in noise_multipliers:
        kappa = math.sqrt(_P) / (2.0 * sigma)
        parts.append(
            pd.DataFrame(
                {
                    "sigma": sigma,
                    "concentration": kappa,
                    "prior": prior,
                    "Gaussian": bounds.rero_gaussian(sigma, prior),
                    "Gaussian, twice the noise": bounds.rero_gaussian(2.0 * sigma, prior),
                    "VMF, opposite pair": bounds.rero_vmf_curve(kappa, _P, prior)[1],
                    "VMF, uniform law": bounds.rero_vmf_one_release(kappa, _P, prior),
                    "two opposite": bounds.bayes_success_vmf_two(kappa, _P, -1.0),
                    "at one half": bounds.rero_vmf_one_release(kappa, _P, 0.5),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _simulated_test(context: Context) -> pd.DataFrame:
    """Power of the best test on simulated cosines, its level estimated, against the enclosure."""
    p = context.settings
    q, steps, kappa = 0.4, p.simulated_steps, 40.0
    rows = []
    for dimension in (10, 1000):
        concentration = kappa if dimension > 100 else 2.0
        losses = {}
        for law in ("without", "with"):
            rng = context.rng("test", dimension, law)
            cosine = vmf_cosines(dimension, concentration, rng, p.trials * steps)[0]
            takes_part = rng.random(cosine.size) < (q if law == "with" else 0.0)
            loss = np.log1p(q * np.expm1(2 * concentration * np.where(takes_part, 1, -1) * cosine))
            losses[law] = loss.reshape(p.trials, steps).sum(axis=1)
        for prior in (0.01, 0.1, 0.5):
            level = np.quantile(losses["without"], 1.0 - prior)
            power = float(np.mean(losses["with"] > level))
            found = bounds.rero_vmf(concentration, dimension, prior, sampling_rate=q, steps=steps)
            error = _test_error(concentration, dimension, prior, (q, steps), p.trials)
            gap = max(found.lower - power, power - found.upper, 0.0)
            rows.append((dimension, concentration, prior, power, found.lower, found.upper,
                         gap / error))  # fmt: skip
    columns = ["p", "concentration", "prior", "power", "lower", "upper", "deviations"]
    return pd.DataFrame(rows, columns=columns)


def _test_error(
    kappa: float, dimension: int, prior: float, run: tuple[float, int], trials: int
) -> float:
    """Standard error of the simulated power: its own, and that of its level times the slope."""
    step = 0.2 * min(prior, 1.0 - prior)
    low, high = bounds.rero_vmf_curve(
        kappa, dimension, [prior - step, prior + step], sampling_rate=run[0], steps=run[1]
    )
    slope = max((high[1] - low[0]) / (2.0 * step), 0.0)
    power = 0.5 * (low[0] + high[1])
    variance = power * (1.0 - power) + slope**2 * prior * (1.0 - prior)
    return math.sqrt(variance / trials) + 1e-9


def _three_dimensions() -> pd.DataFrame:
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


# The prior-aware attack --------------------------------------------------------------------------


@computes("beyond/vmf_prior_aware", "O-034")
def vmf_prior_aware(context: Context) -> Result:
    """Synthetic directions against the bound, then candidates in real batches."""
    p = context.settings
    synthetic = _synthetic_candidates(context)
    dimensions = _by_dimension(p.prior_size)
    batches_of = {
        size: turned.draw_batches(context, p.digits, size, p.batches, p.prior_size)
        for size in p.batch_sizes
    }
    real = _real_candidates(context, batches_of)
    # whole batches are released and attacked at the sizes that take little time
    released = _attacked_releases(
        context, {size: batches_of[size][: p.attacked] for size in p.batch_sizes[:2]}
    )

    distance = synthetic["success"] - synthetic["Gaussian"]
    agree = float(((distance.abs() - 1e-3).clip(lower=0) / synthetic["standard error"]).max())
    above = float(((synthetic["success"] - synthetic["bound"]) / synthetic["standard error"]).max())
    attained = synthetic[(synthetic["geometry"] == "opposite") & (synthetic["T"] == 1)]
    reached = float(
        ((attained["success"] - attained["bound"]).abs() / attained["standard error"]).max()
    )
    held = max(agree, above, reached) < STANDARD_ERRORS
    at_epsilon = real[real["held equal"] == "epsilon"]
    at_cosine = real[real["held equal"] == "cosine"]
    shielded = float((-at_epsilon["difference"] / at_epsilon["standard error"]).min())
    gained = float((at_cosine["difference"] / at_cosine["standard error"]).max())
    share = float((at_cosine["VMF"] / at_cosine["Gaussian"]).min())
    deviation = float(released["deviations"].abs().max())
    protects = shielded > STANDARD_ERRORS and gained < STANDARD_ERRORS and share > 0.9
    stand_in = p.digits != _PAPERS
    return Result(
        "beyond/vmf_prior_aware",
        [
            check(
                "beyond/vmf_prior_aware",
                protects,
                "in real batches, at equal epsilon the attack succeeds less often under VMF than "
                "under Gaussian noise; at equal mean cosine no more often, and at least nine times "
                "in ten as often",
                ours=f"equal epsilon, {_ends(at_epsilon)}; equal cosine, {_ends(at_cosine)}",
                tolerance=_TOLERANCE,
                stand_in=stand_in,
            ),
            check(
                "O-034",
                held and deviation < STANDARD_ERRORS,
                "at p = 13,700 naming the largest sum of cosines succeeds as often as under "
                "Gaussian noise of the same mean cosine, never above the bound, which two opposite "
                "directions attain; attacks on released gradients succeed as often as computed",
                ours=f"{len(synthetic)} settings: within .001 plus {agree:.1f} standard errors of "
                f"Gaussian noise; released gradients: within {deviation:.1f}",
                tolerance=_TOLERANCE,
            ),
        ],
        {
            "synthetic": synthetic,
            "by dimension": dimensions,
            "real": real,
            "released": released,
        },
        exact=("by dimension",),
        ran=f"n = {p.prior_size} candidates; synthetic: {p.samples} simulated outputs a setting at "
        f"p = {_P:,}; {p.digits}: one release of each of {p.batches} batches at every batch size, "
        f"first weights, sigma = {p.noise_multiplier:g}.",
    )


def _geometries(n: int) -> dict[str, np.ndarray]:
    """Cosines between candidates' directions."""
    return {
        "opposite": np.array([[1.0, -1.0], [-1.0, 1.0]]),
        "simplex": (np.eye(n) - 1.0 / n) * (n / (n - 1.0)),
        "orthogonal": np.eye(n),
    }


def _synthetic_candidates(context: Context) -> pd.DataFrame:
    """Best attack on directions of three geometries, one and several releases."""
    p = context.settings
    rows = []
    for geometry, cosines in _geometries(p.prior_size).items():
        n = len(cosines)
        rho = float(cosines[0, 1])
        for steps in (1, p.steps):
            for signal in p.signals:
                kappa = signal * math.sqrt(_P / steps)
                rng = context.rng("synthetic", geometry, steps, p.signals.index(signal))
                success, error = attacks.vmf_attack_success(
                    cosines, _P, kappa, p.samples, rng, steps
                )
                cosine = float(privacy.vmf_mean_cosine(_P, kappa))
                equal = math.sqrt(steps) / turned.noise_of_cosine(_P, cosine)
                rows.append(
                    {
                        "geometry": geometry,
                        "n": n,
                        "T": steps,
                        "signal": signal,
                        "success": success,
                        "standard error": error + 1e-9,
                        "Gaussian": float(bounds.bayes_success(equal, n, rho)),
                        "bound": _bound(kappa, n, steps),
                    }
                )
    return pd.DataFrame(rows)


def _bound(concentration: float, n: int, steps: int) -> float:
    """The sharpest there is: the uniform law's for one release, else the opposite pair's."""
    if steps == 1:
        return float(bounds.rero_vmf_one_release(concentration, _P, 1.0 / n))
    return bounds.rero_vmf(concentration, _P, 1.0 / n, steps=steps).upper


def _by_dimension(n: int) -> pd.DataFrame:
    """Orthogonal candidates at equal mean cosine in few and in many dimensions, exactly."""
    rows = []
    for dimension in (n, 2 * n, 5 * n, 100 * n, _P):
        for signal in (1.0, 3.0):
            kappa = signal * math.sqrt(dimension)
            cosine = float(privacy.vmf_mean_cosine(dimension, kappa))
            gaussian = 1.0 / turned.noise_of_cosine(dimension, cosine)
            rows.append(
                (
                    dimension,
                    signal,
                    cosine,
                    bounds.bayes_success_vmf(kappa, dimension, n),
                    float(bounds.bayes_success(gaussian, n)),
                )
            )
    return pd.DataFrame(rows, columns=["p", "signal", "cosine", "VMF", "Gaussian"]).round(8)


def _real_candidates(context: Context, batches_of: dict[int, list[turned.Batch]]) -> pd.DataFrame:
    """Best attack on one release of real batches, at equal epsilon and at equal cosine."""
    p = context.settings
    sigma = p.noise_multiplier
    rows = []
    for size, batches in batches_of.items():
        gaussian = turned.gaussian_success(
            batches, sigma, p.releases, context.rng("gaussian", size)
        )
        # each batch has its own length, and so its own concentration of equal cosine
        own = [turned.concentration_of_cosine(_P, sigma / batch.length) for batch in batches]
        fair = fair_pair(sigma).concentration
        for held, kappas in (("epsilon", [fair] * len(batches)), ("cosine", own)):
            vmf = turned.vmf_success(batches, kappas, p.releases, context.rng("vmf", size, held))
            difference, paired = mean_and_error(vmf - gaussian)
            rows.append(
                {
                    "batch size": size,
                    "held equal": held,
                    "length of the sum": turned.mean_length(batches),
                    "concentration": float(np.median(kappas)),
                    "VMF": float(vmf.mean()),
                    "Gaussian": float(gaussian.mean()),
                    "difference": difference,
                    "standard error": paired + 1e-9,
                    "error of VMF": mean_and_error(vmf)[1],
                    "error of Gaussian": mean_and_error(gaussian)[1],
                    "cosine": float(np.mean(privacy.vmf_mean_cosine(_P, np.array(kappas)))),
                    "Gaussian cosine": float(np.mean(privacy.vmf_mean_cosine(_P, np.array(own)))),
                }
            )
    return pd.DataFrame(rows)


def _ends(rows: pd.DataFrame) -> str:
    """Success of both at the smallest and the largest batch."""
    texts = []
    for row in (rows.iloc[0], rows.iloc[-1]):
        gaussian = rounded(row["Gaussian"], row["error of Gaussian"])
        texts.append(
            f"B = {int(row['batch size'])}: {rounded(row['VMF'], row['error of VMF'])} against "
            f"{gaussian}"
        )
    return "; ".join(texts)


def _attacked_releases(context: Context, batches_of: dict[int, list[turned.Batch]]) -> pd.DataFrame:
    """Whole attacks: release the batch by Algorithm 2, score all candidates, name the largest.

    Every candidate of every batch is the target once.
    """
    p = context.settings
    rows = []
    for size, batches in batches_of.items():
        # the same difficulty at every batch size
        for number, signal in enumerate((1.5, 4.0)):
            kappa = signal * math.sqrt(_P) * turned.mean_length(batches)
            generator = context.generator("released", size, number)
            rng = context.rng("expected", size, number)
            right, expected = [], []
            for batch in batches:
                named = _named(context, batch, kappa, generator)
                right.append(np.mean(named == np.arange(p.prior_size)))
                expected.append(
                    attacks.vmf_attack_success(batch.cosines, _P, kappa, p.releases, rng)[0]
                )
            share, error = mean_and_error(np.array(right) - np.array(expected))
            rows.append((size, signal, np.mean(right), np.mean(expected), error, share / error))
    columns = ["batch size", "signal", "attacked", "computed", "standard error", "deviations"]
    return pd.DataFrame(rows, columns=columns)


def _named(
    context: Context, batch: turned.Batch, kappa: float, generator: torch.Generator
) -> np.ndarray:
    """Release the batch with each candidate and name the likeliest, shape (n,)."""
    p = context.settings
    data = federated.standardised(p.digits, str(context.data_root or ""), device=context.device)
    n = len(batch.candidates)
    chosen = torch.cat([batch.rows.expand(n, -1), batch.candidates[:, None]], dim=1)
    released = release_gradients(
        batch.weights,
        data.inputs[chosen],
        data.labels[chosen],
        [Release("vmf", kappa, by_layer=False)] * n,
        generator=generator,
    )
    outputs = torch.cat([g.flatten(1) for g in released.values()], dim=1)
    scores = attacks.vmf_likelihood_score(batch.directions, outputs[None], kappa)
    return scores.argmax(dim=1).cpu().numpy()


# The analytic inversion --------------------------------------------------------------------------


@computes("beyond/vmf_inversion", "O-035")
def vmf_inversion(context: Context) -> Result:
    """Row mean of a turned gradient: its cosine and error, exactly and as measured."""
    p = context.settings
    data = federated.standardised(p.digits, str(context.data_root or "")).images
    exact = _exact_inversion(p.rows, data.inputs.shape[1], p.signals)
    measured = _measured_inversion(context, data.inputs, exact)
    length = _length_of_record(context, data.inputs)

    worst = float(measured["deviations"].abs().max())
    by = {held: own for held, own in exact.groupby("held equal")}
    cosine = by["cosine"]
    same = (cosine["VMF error"] - cosine["Gaussian error"]).abs().max()
    epsilon = by["epsilon"]
    doubled = (epsilon["VMF error"] - epsilon["twice the noise"]).abs()
    # the two laws differ in the second order of the gradient's cosine
    second = 1e-4 + epsilon["gradient cosine"] ** 2
    protects = bool((epsilon["VMF error"] > epsilon["Gaussian error"]).all())
    weaker = float((epsilon["Gaussian noise"] * epsilon["signal"] - 0.5).abs().max())
    lost = length["length kept"]
    shown = length["median ratio with bias"]
    told = bool((lost == 0.0).all()) and bool((np.abs(shown - 1.0) < 0.1).all())
    held = float(same) < 1e-3 and bool((doubled < second).all()) and protects and weaker < 0.02
    return Result(
        "beyond/vmf_inversion",
        [
            check(
                "beyond/vmf_inversion",
                held,
                "at equal mean cosine of the gradient the record's direction comes back with the "
                "same error under both; at equal epsilon VMF leaves the error of Gaussian noise "
                "of twice sigma, to second order in the gradient's mean cosine",
                ours=f"errors differ by at most {float(same):.4f} and {float(doubled.max()):.4f} "
                "of the squared length",
                tolerance="0.001 and the squared mean cosine",
            ),
            check(
                "O-035",
                worst < STANDARD_ERRORS and told,
                "measured cosines and errors of attacked pictures are those of the closed forms; "
                "without a bias the record's length is lost under VMF, with one it comes back",
                ours=f"{len(measured)} means within {worst:.1f} standard errors; length with a "
                f"bias within {100 * float(np.abs(shown - 1.0).max()):.0f}% at the median",
                tolerance=_TOLERANCE,
                stand_in=p.digits != _PAPERS,
            ),
        ],
        {
            "closed forms": exact,
            "measured": measured,
            "length": length,
            "exact": exact[["signal", "held equal", "VMF cosine", "VMF error"]].round(7),
        },
        exact=("exact",),
        ran=f"layer of {p.rows} equal rows, p = {p.rows * data.inputs.shape[1]:,}; one release of "
        f"each of {p.records} pictures ({p.digits}) at every setting; delta = 1/60,000.",
    )


def _equal_gaussian(held: str, p: int, kappa: float) -> float:
    """Noise multiplier that equals a concentration in one respect, one release of one record."""
    if held == "cosine":
        return turned.noise_of_cosine(p, float(privacy.vmf_mean_cosine(p, kappa)))
    if held == "epsilon":
        target = middle(privacy.vmf_epsilon(kappa, p, federated.DELTA, tolerance=1e-6))
        return float(privacy.noise_for_epsilon(target, federated.DELTA))
    capacity = float(bounds.bayes_capacity_vmf(p, kappa))

    def excess(log_sigma: float) -> float:
        return float(bounds.bayes_capacity_gaussian(p, math.exp(log_sigma), 1.0)) - capacity

    return math.exp(optimize.brentq(excess, math.log(1e-3), math.log(1e6), xtol=1e-12))


def _exact_inversion(rows: int, n: int, signals: tuple[float, ...]) -> pd.DataFrame:
    """Cosine and squared error of the record's direction, for both mechanisms."""
    p = rows * n
    table = []
    for signal in signals:
        kappa = signal * math.sqrt(p)
        vmf = {
            "gradient cosine": float(privacy.vmf_mean_cosine(p, kappa)),
            "VMF cosine": float(bounds.direction_cosine_vmf(n, kappa, p)),
            "VMF error": float(bounds.direction_error_vmf(n, kappa, p)),
            "VMF unbiased": float(bounds.direction_error_scaled_vmf(n, kappa, p)),
        }
        for held in ("epsilon", "capacity", "cosine"):
            sigma = _equal_gaussian(held, p, kappa)
            table.append(
                {
                    "signal": signal,
                    "concentration": kappa,
                    "held equal": held,
                    "Gaussian noise": sigma,
                    **vmf,
                    "Gaussian cosine": float(bounds.direction_cosine_gaussian(n, sigma)),
                    "Gaussian error": float(bounds.direction_error_gaussian(n, sigma)),
                    "Gaussian unbiased": n * sigma**2,
                    "twice the noise": float(bounds.direction_error_gaussian(n, 2.0 * sigma)),
                }
            )
    return pd.DataFrame(table)


def _measured_inversion(context: Context, inputs: np.ndarray, exact: pd.DataFrame) -> pd.DataFrame:
    """Attack pictures through the released gradients and hold the means against the formulas."""
    p = context.settings
    rng = context.rng("records")
    chosen = inputs[rng.permutation(len(inputs))[: p.records]]
    records = torch.as_tensor(chosen, dtype=torch.float64, device=context.device)
    table = []
    for signal, own in exact.groupby("signal"):
        kappa = signal * math.sqrt(p.rows * records.shape[1])
        generator = context.generator("vmf", signal)
        seen = attacks.observe_vmf(records, kappa, generator, rows=p.rows)
        expected = own.iloc[0]
        table += _held_against(
            "VMF", signal, records, attacks.known_scale(seen),
            (expected["VMF cosine"], expected["VMF unbiased"]),
        )  # fmt: skip
        equal = own[own["held equal"] == "cosine"].iloc[0]
        run = DPSGD(float(equal["Gaussian noise"]))
        # a record longer than C = 1 in M rows is clipped, so that the row mean's noise is sigma |X|
        seen = attacks.observe(records, run, context.generator("gaussian", signal), rows=p.rows)
        table += _held_against(
            "Gaussian", signal, records, attacks.known_scale(seen),
            (equal["Gaussian cosine"], equal["Gaussian unbiased"]),
        )  # fmt: skip
    columns = ["mechanism", "signal", "what", "measured", "standard error", "exact", "deviations"]
    return pd.DataFrame(table, columns=columns)


def _held_against(
    mechanism: str,
    signal: float,
    records: torch.Tensor,
    found: torch.Tensor,
    expected: tuple[float, float],
) -> list[tuple]:
    lengths = records.norm(dim=1)
    cosine = (records * found).sum(dim=1) / (lengths * found.norm(dim=1))
    error = (found - records).square().sum(dim=1) / lengths.square()
    out = []
    for what, values, exact in zip(("cosine", "error"), (cosine, error), expected, strict=True):
        mean, standard_error = mean_and_error(values.cpu().numpy())
        deviations = (mean - exact) / standard_error
        out.append((mechanism, signal, what, mean, standard_error, exact, deviations))
    return out


def _length_of_record(context: Context, inputs: np.ndarray) -> pd.DataFrame:
    """Whether the record's length shows: the same draws for X and 3 X; the ratio with a bias."""
    p = context.settings
    records = torch.as_tensor(inputs[: p.records], dtype=torch.float64, device=context.device)
    # far beyond private noise, where the ratio of two noisy means has a sensible median
    kappa = 200.0 * math.sqrt(p.rows * records.shape[1])
    rows = []
    for factor in (1.0, 3.0):
        seen = attacks.observe_vmf(
            factor * records, kappa, context.generator("length"), rows=p.rows
        )
        first = attacks.observe_vmf(records, kappa, context.generator("length"), rows=p.rows)
        kept = float((seen.row_mean - first.row_mean).abs().max())
        biased = attacks.observe_vmf(
            factor * records, kappa, context.generator("bias", factor), rows=p.rows, bias=True
        )
        ratio = attacks.with_estimated_scale(biased).norm(dim=1) / (factor * records).norm(dim=1)
        rows.append((factor, float(kept > 1e-12), float(ratio.median())))
    return pd.DataFrame(rows, columns=["factor", "length kept", "median ratio with bias"])


# Which mechanism, under which notion -------------------------------------------------------------


#: what each row of the table measures: the smaller, the better protected
_NOTIONS = {
    "epsilon": "certified epsilon",
    "run": "ReRo of the run, prior 1/n",
    "release": "ReRo of one release, prior 1/n",
    "named": "naming one of n in a batch",
    "direction": "share of the direction that comes back",
    "capacity": "log capacity",
}
#: relative difference below which neither protects better, computed and simulated
_CLOSE, _CLOSE_SIMULATED = 0.01, 0.05
#: enclosures of epsilon end near 690 nats; what costs more costs at least what this does
_DEAREST = 600.0


@computes("beyond/vmf_notions", "O-036")
def vmf_notions(context: Context) -> Result:
    """Both mechanisms under six notions, with one of three things held equal."""
    p = context.settings
    batches = turned.draw_batches(context, p.digits, federated.BATCH_SIZE, p.batches, p.prior_size)
    rows = []
    for sigma in p.noise_multipliers:
        for held, kappa in _equal_concentrations(sigma, turned.mean_length(batches)).items():
            rows += _compared(context, batches, sigma, held, kappa)
    table = pd.DataFrame(rows)
    table["protects better"] = [_protects(row) for row in rows]
    found = {
        (held, notion): " or ".join(sorted(set(own["protects better"])))
        for (held, notion), own in table.groupby(["held equal", "notion"], sort=False)
    }
    winners = pd.Series(found).unstack(level=0, sort=False)
    useful = {held: set(own) for held, own in _useful(table)}
    certificates = ("epsilon", "run", "release")
    at_epsilon = _side(table, "epsilon") == {"VMF"} and useful["epsilon"] == {"Gaussian"}
    at_capacity = _side(table, "capacity") == {"Gaussian"} and useful["capacity"] == {"VMF"}
    cannot_tell = not _side(table, "cosine", ("named", "direction"))
    certified = all(_side(table, "cosine", (key,)) == {"Gaussian"} for key in certificates)
    turned_round = _side(table, "cosine", ("capacity",)) == {"VMF"}
    stand_in = p.digits != _PAPERS
    return Result(
        "beyond/vmf_notions",
        [
            check(
                "beyond/vmf_notions",
                at_epsilon and at_capacity,
                "at equal epsilon VMF, at equal capacity Gaussian noise protects better under "
                "every notion that tells them apart, and each time its releases are the less "
                "useful",
                ours=_sentence(winners, ("epsilon", "capacity")),
                stand_in=stand_in,
            ),
            check(
                "O-036",
                cannot_tell and certified and turned_round,
                "at equal mean cosine neither attack tells the mechanisms apart, every certificate "
                "that does favours Gaussian noise and capacity favours VMF",
                ours=_sentence(winners, ("cosine",)),
                tolerance=f"1%; where simulated 5% or {_TOLERANCE}",
                stand_in=stand_in,
            ),
        ],
        {
            "protects better": winners.add_prefix("equal ").reset_index(names="notion"),
            "values": _values(table),
            "notions": table,
        },
        shown=("protects better", "values"),
        ran=f"p = {_P:,}, B = 128, q = 128/60,000, T = {federated.STEPS:,}, delta = 1/60,000; "
        f"sigma = {', '.join(f'{sigma:g}' for sigma in p.noise_multipliers)}; n = {p.prior_size} "
        f"candidates in {p.batches} batches ({p.digits}), first weights.",
    )


def _side(table: pd.DataFrame, held: str, notions: Sequence[str] = tuple(_NOTIONS)) -> set[str]:
    """Who ever protects better, one thing held equal, under some notions."""
    names = {_NOTIONS[key] for key in notions}
    own = table[(table["held equal"] == held) & table["notion"].isin(names)]
    return set(own["protects better"]) - {"neither", "held equal"}


def _useful(table: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """Which releases are the more useful, row by row, for each thing that is held equal."""
    for held, own in table.groupby("held equal", sort=False):
        rows = own[["Gaussian cosine", "VMF cosine"]].itertuples(index=False)
        # who has the larger cosine
        yield str(held), [_smaller(-g, -v, _CLOSE * g) for g, v in rows]


def _sentence(winners: pd.DataFrame, held: Sequence[str]) -> str:
    """Winners counted, for each thing that is held equal."""
    texts = []
    for name in held:
        counts = winners[name].value_counts()
        parts = [f"{who} {counts[who]}" for who in ("Gaussian", "VMF", "neither") if who in counts]
        texts.append(f"equal {name}: {', '.join(parts)}")
    return "; ".join(texts)


def _equal_concentrations(sigma: float, length: float) -> dict[str, float]:
    """Concentrations that equal a noise multiplier in epsilon, in capacity and in mean cosine."""
    capacity = _log_capacity(sigma)

    def excess(log_kappa: float) -> float:
        return float(bounds.bayes_capacity_vmf(_P, math.exp(log_kappa))) - capacity

    return {
        "epsilon": fair_pair(sigma).concentration,
        "capacity": math.exp(optimize.brentq(excess, 0.0, math.log(1e11), xtol=1e-13)),
        "cosine": turned.concentration_of_cosine(_P, sigma / length),
    }


def _log_capacity(sigma: float) -> float:
    """Of Theorem 5, as the paper evaluates it: three layers, averaged over the batch."""
    layers = len(federated.NETWORK.shapes)
    noise = sigma / federated.BATCH_SIZE
    return float(bounds.bayes_capacity_gaussian(_P, noise, math.sqrt(layers)))


def _compared(
    context: Context, batches: list[turned.Batch], sigma: float, held: str, kappa: float
) -> list[dict[str, Any]]:
    """The six notions at one noise multiplier, and which releases are the more useful."""
    p = context.settings
    where = p.noise_multipliers.index(sigma)
    q, steps, prior = federated.SAMPLING_RATE, federated.STEPS, 1.0 / p.prior_size
    pair, run = fair_pair(sigma), DPSGD(sigma, q, steps)
    noise = sigma / turned.mean_length(batches)
    gaussian = turned.gaussian_success(batches, sigma, p.releases, context.rng("gaussian", where))
    vmf = turned.vmf_success(
        batches, [kappa] * len(batches), p.releases, context.rng("vmf", where, held)
    )
    pairs = {
        "epsilon": (middle(pair.gaussian), _least_epsilon(kappa, pair)),
        "run": (bounds.rero(run, prior).upper, _least_success(kappa, prior)),
        "release": (
            float(bounds.rero_gaussian(sigma, prior)),
            float(bounds.rero_vmf_one_release(kappa, _P, prior)),
        ),
        "named": (float(gaussian.mean()), float(vmf.mean())),
        "direction": (
            1.0 - float(bounds.direction_error_gaussian(_P, noise)),
            1.0 - float(bounds.direction_error_vmf(_P, kappa)),
        ),
        "capacity": (_log_capacity(sigma), float(bounds.bayes_capacity_vmf(_P, kappa))),
    }
    return [
        {
            "sigma": sigma,
            "held equal": held,
            "concentration": kappa,
            "Gaussian cosine": float(bounds.direction_cosine_gaussian(_P, noise)),
            "VMF cosine": float(privacy.vmf_mean_cosine(_P, kappa)),
            "notion": name,
            "Gaussian": pairs[key][0],
            "VMF": pairs[key][1],
            "standard error": mean_and_error(vmf - gaussian)[1] if key == "named" else 0.0,
            "at least": key in ("epsilon", "run") and kappa > _DEAREST,
        }
        for key, name in _NOTIONS.items()
    ]


def _protects(row: dict[str, Any]) -> str:
    """The mechanism with the smaller value, if the two are far enough apart."""
    if row["notion"] == _NOTIONS.get(row["held equal"]):
        return "held equal"
    error = STANDARD_ERRORS * row["standard error"]
    close = _CLOSE_SIMULATED if error else _CLOSE
    return _smaller(row["Gaussian"], row["VMF"], max(close * row["Gaussian"], error))


def _smaller(gaussian: float, vmf: float, margin: float) -> str:
    if abs(gaussian - vmf) <= margin:
        return "neither"
    return "VMF" if vmf < gaussian else "Gaussian"


def _values(table: pd.DataFrame) -> pd.DataFrame:
    """The numbers, a column for each setting, with the digits that they support."""
    rows = []
    for sigma, at_sigma in table.groupby("sigma", sort=False):
        settings = {held: own for held, own in at_sigma.groupby("held equal", sort=False)}
        first = next(iter(settings.values()))
        rows.append(
            [sigma, "concentration", ""]
            + [_two_digits(own["concentration"].iloc[0]) for own in settings.values()]
        )
        rows.append(
            [sigma, "mean cosine with the batch's gradient"]
            + [f"{first['Gaussian cosine'].iloc[0]:.2g}"]
            + [f"{own['VMF cosine'].iloc[0]:.2g}" for own in settings.values()]
        )
        for number, notion in enumerate(_NOTIONS.values()):
            cells = [own.iloc[number] for own in settings.values()]
            texts = [_two_digits(cell["VMF"], cell["at least"]) for cell in cells]
            rows.append([sigma, notion, _two_digits(first["Gaussian"].iloc[number]), *texts])
    columns = ["sigma", "notion", "Gaussian", *(f"VMF, equal {held}" for held in settings)]
    return pd.DataFrame(rows, columns=columns)


def _two_digits(value: float, at_least: bool = False) -> str:
    """Two significant digits, rounded down if more is possible; no exponent for whole numbers."""
    if at_least:
        unit = 10.0 ** (math.floor(math.log10(value)) - 1)
        return "> " + _two_digits(math.floor(value / unit) * unit)
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 99.5 else f"{value:.2g}"


def _least_epsilon(concentration: float, pair: FairPair) -> float:
    """Certified epsilon, or at large concentrations what it is at least."""
    if concentration == pair.concentration:
        return middle(pair.vmf)
    return _vmf_epsilon(min(concentration, _DEAREST))


@functools.lru_cache(maxsize=32)
def _vmf_epsilon(concentration: float) -> float:
    found = privacy.vmf_epsilon(
        concentration, _P, federated.DELTA, federated.SAMPLING_RATE, federated.STEPS
    )
    return found.lower


def _least_success(concentration: float, prior: float) -> float:
    """Certified success after the run, or at large concentrations what it is at least."""
    found = bounds.rero_vmf(
        min(concentration, _DEAREST), _P, prior,
        sampling_rate=federated.SAMPLING_RATE, steps=federated.STEPS,
    )  # fmt: skip
    return found.lower
