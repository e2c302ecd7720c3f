"""The best attack on one of n candidates when gradients are released under VMF noise."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from companion.exhibit import every
from companion.experiments import federated
from companion.experiments.fair_pairs import fair_pair
from companion.experiments.tools import mean_and_error
from companion.papers.beyond import vmf_batches
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, graded, world
from companion.study.verdicts import STANDARD_ERRORS, rounded, within
from companion.style import BOUND, GREY, MECHANISMS, drawing, panels
from reconrisk import attacks, bounds, privacy
from reconrisk.training import Release, release_gradients

DIMENSION = federated.DIMENSION
#: signals at which whole batches are released and attacked
RELEASED_SIGNALS = (1.5, 4.0)

_OURS = "our own exhibit"
_SIGNALS, _PAPER_SIGNALS = (0.5, 1.0, 2.0, 4.0), (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
PARAMETERS = {
    "signals": Parameter("floats", _SIGNALS, _PAPER_SIGNALS, _OURS, "kappa sqrt(T/p)", 1e-3),
    "prior_size": Parameter("int", 10, 10, _OURS, "n, candidates", 2),
    "steps": Parameter("int", 5, 20, _OURS, "releases of the synthetic attack with several", 2),
    "samples": Parameter("int", 20_000, 200_000, _OURS, "simulated attacks a setting", 1000),
    "digits": vmf_batches.DIGITS,
    "batch_sizes": Parameter(
        "ints", (1, 16, 128), (1, 16, 32, 64, 128), "16 to 128", "B, the target included", 1
    ),
    "noise_multiplier": Parameter(
        "float", 0.461, 0.461, vmf_batches.PAIRS, "sigma of the attacked batches", 0.1
    ),
    "batches": Parameter("int", 60, 400, _OURS, "batches, each with candidates and weights", 10),
    "attacked": Parameter("int", 60, 200, _OURS, "batches released and attacked in full", 10),
    "releases": Parameter("int", 100, 1000, _OURS, "simulated outputs of each batch", 20),
}
SETTLES = ("O-034",)
_AT_EPSILON, _AT_COSINE = "`held equal` == 'epsilon'", "`held equal` == 'cosine'"
FALSIFIERS = (
    world(
        "the mechanisms exchanged at equal epsilon",
        column("real", "difference", lambda c: -c, _AT_EPSILON),
    ),
    world(
        "no difference at equal epsilon",
        column("real", "difference", lambda c: 0.0, _AT_EPSILON),
    ),
    graded(
        "an attack that succeeds {} less often under VMF noise at equal cosine",
        column("real", "difference", lambda c, by: c - by, _AT_COSINE),
        unit="",
    ),
    graded(
        "an attack that succeeds {} more often under VMF noise at equal cosine",
        column("real", "difference", lambda c, by: c + by, _AT_COSINE),
        unit="",
    ),
    graded(
        "attacks that succeed {} more often",
        column("synthetic", "success", lambda c, by: c + by),
        "O-034",
        unit="",
    ),
    graded(
        "attacks that succeed {} less often",
        column("synthetic", "success", lambda c, by: c - by),
        "O-034",
        unit="",
    ),
    graded(
        "an exact success at p = 13,700 that is {} larger under VMF noise",
        column("by dimension", "VMF", lambda c, by: c * (1 + by)),
        "O-034",
    ),
    graded(
        "a bound {} smaller",
        column("synthetic", "bound", lambda c, by: c - by),
        "O-034",
        unit="",
    ),
    graded(
        "attacks on released gradients that succeed {} less often",
        column("released", "attacked", lambda c, by: c - by),
        "O-034",
        unit="",
    ),
)

#: share of the success under Gaussian noise that counts as no difference at equal cosine; at equal
#: epsilon two fifths and more are lost
_SAME = 0.1
#: how near a simulated success must come to the Gaussian one and to the bound
_SYNTHETIC = 0.01
#: how near exact successes at p = 13,700 must be, relative: the order of the squared cosine
_EXACT = 1e-3
#: how near the mean success of attacks on released gradients must come to the computed one
_RELEASED = 0.06


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    synthetic, n = synthetic_candidates(study), p.prior_size
    batches = {
        size: vmf_batches.draw_batches(study, p.digits, size, p.batches, n)
        for size in p.batch_sizes
    }
    real = [row for size, own in batches.items() for row in real_candidates(study, size, own)]
    # whole batches are released and attacked at the smaller sizes, which take little time
    released = [
        row for size in p.batch_sizes[:2] for row in attacked_releases(study, size, batches[size])
    ]
    return Tables(
        {
            "synthetic": synthetic,
            "by dimension": by_dimension(n),
            "real": pd.DataFrame(real),
            "released": pd.DataFrame(released),
        },
        exact=("by dimension",),
        ran=f"n = {n} candidates; synthetic: {p.samples} simulated outputs a setting at "
        f"p = {DIMENSION:,}; {p.digits}: one release of each of {p.batches} batches at every batch "
        f"size, first weights, sigma = {p.noise_multiplier:g}.",
    )


def synthetic_candidates(study: Context) -> pd.DataFrame:
    """Best attack on candidates of three geometries, after one and after several releases."""
    p, n = study.parameters, study.parameters.prior_size
    geometries = {
        "opposite": np.array([[1.0, -1.0], [-1.0, 1.0]]),
        "simplex": (np.eye(n) - 1.0 / n) * (n / (n - 1.0)),
        "orthogonal": np.eye(n),
    }
    rows = []
    for (geometry, cosines), steps in itertools.product(geometries.items(), (1, p.steps)):
        count, correlation = len(cosines), float(cosines[0, 1])
        for place, signal in enumerate(p.signals):
            kappa = signal * math.sqrt(DIMENSION / steps)
            rng = study.rng("synthetic", geometry, steps, place)
            success, error = attacks.vmf_attack_success(
                cosines, DIMENSION, kappa, p.samples, rng, steps
            )
            cosine = float(privacy.vmf_mean_cosine(DIMENSION, kappa))
            equal = math.sqrt(steps) / vmf_batches.noise_of_cosine(DIMENSION, cosine)
            gaussian = float(bounds.bayes_success(equal, count, correlation))
            bound = _sharpest_bound(kappa, count, steps)
            row = (geometry, count, steps, signal, success, error + 1e-9, gaussian, bound)
            rows.append(row)
    columns = ["geometry", "n", "T", "signal", "success", "standard error", "Gaussian", "bound"]
    return pd.DataFrame(rows, columns=columns)


def _sharpest_bound(concentration: float, n: int, steps: int) -> float:
    """The bound against the uniform law for one release, else against the opposite pair."""
    if steps == 1:
        return float(bounds.rero_vmf_one_release(concentration, DIMENSION, 1.0 / n))
    return bounds.rero_vmf(concentration, DIMENSION, 1.0 / n, steps=steps).upper


def by_dimension(n: int) -> pd.DataFrame:
    """Orthogonal candidates at equal mean cosine in few and in many dimensions, exactly."""
    rows = []
    for dimension in (n, 2 * n, 5 * n, 100 * n, DIMENSION):
        for signal in (1.0, 3.0):
            kappa = signal * math.sqrt(dimension)
            cosine = float(privacy.vmf_mean_cosine(dimension, kappa))
            equal = 1.0 / vmf_batches.noise_of_cosine(dimension, cosine)
            vmf = bounds.bayes_success_vmf(kappa, dimension, n)
            rows.append((dimension, signal, cosine, vmf, float(bounds.bayes_success(equal, n))))
    return pd.DataFrame(rows, columns=["p", "signal", "cosine", "VMF", "Gaussian"]).round(8)


def real_candidates(
    study: Context, size: int, batches: list[vmf_batches.Batch]
) -> Iterator[dict[str, float | str]]:
    """Best attack on one release of real batches, at equal epsilon and at equal cosine."""
    p, sigma = study.parameters, study.parameters.noise_multiplier
    gaussian = vmf_batches.gaussian_success(batches, sigma, p.releases, study.rng("gaussian", size))
    # each batch has its own length, and so its own concentration of equal cosine
    own = [vmf_batches.concentration_of_cosine(DIMENSION, sigma / b.length) for b in batches]
    fair = fair_pair(sigma).concentration
    for held, kappas in (("epsilon", [fair] * len(batches)), ("cosine", own)):
        vmf = vmf_batches.vmf_success(batches, kappas, p.releases, study.rng("vmf", size, held))
        difference, paired = mean_and_error(vmf - gaussian)
        yield {
            "batch size": size,
            "held equal": held,
            "VMF": float(vmf.mean()),
            "Gaussian": float(gaussian.mean()),
            "difference": difference,
            "standard error": paired + 1e-9,
            "error of VMF": mean_and_error(vmf)[1],
            "error of Gaussian": mean_and_error(gaussian)[1],
        }


def attacked_releases(
    study: Context, size: int, batches: list[vmf_batches.Batch]
) -> Iterator[dict[str, float]]:
    """Whole attacks: release the batch by Algorithm 2, score all candidates, name the largest.

    Every candidate of every batch is the target once.
    """
    p, batches = study.parameters, batches[: study.parameters.attacked]
    # the same difficulty at every batch size
    for number, signal in enumerate(RELEASED_SIGNALS):
        kappa = signal * math.sqrt(DIMENSION) * vmf_batches.mean_length(batches)
        generator = study.generator("released", size, number)
        rng = study.rng("expected", size, number)
        right, expected = [], []
        for batch in batches:
            named = name_candidates(study, batch, kappa, generator)
            right.append(np.mean(named == np.arange(p.prior_size)))
            found = attacks.vmf_attack_success(batch.cosines, DIMENSION, kappa, p.releases, rng)
            expected.append(found[0])
        share, error = mean_and_error(np.array(right) - np.array(expected))
        yield {
            "batch size": size,
            "signal": signal,
            "attacked": float(np.mean(right)),
            "computed": float(np.mean(expected)),
            "standard error": error,
            "deviations": share / error,
        }


def name_candidates(
    study: Context, batch: vmf_batches.Batch, kappa: float, generator: torch.Generator
) -> np.ndarray:
    """Release the batch with each candidate and name the likeliest, shape (n,)."""
    data = vmf_batches.pictures_of(study, study.parameters.digits)
    n = len(batch.candidates)
    chosen = torch.cat([batch.rows.expand(n, -1), batch.candidates[:, None]], dim=1)
    images = (batch.weights, data.inputs[chosen], data.labels[chosen])
    releases = [Release("vmf", kappa, by_layer=False)] * n
    released = release_gradients(*images, releases, generator=generator)
    outputs = torch.cat([g.flatten(1) for g in released.values()], dim=1)
    scores = attacks.vmf_likelihood_score(batch.directions, outputs[None], kappa)
    return scores.argmax(dim=1).cpu().numpy()


def judge(tables: Tables) -> Iterator[Verdict]:
    real = tables["real"]
    at = {held: own for held, own in real.groupby("held equal")}
    loss, error = at["epsilon"]["difference"], STANDARD_ERRORS * at["epsilon"]["standard error"]
    cosine = at["cosine"]
    same = within(cosine["difference"], 0, cosine["standard error"], _SAME * cosine["Gaussian"])
    yield check(
        "beyond/vmf_prior_aware",
        bool((loss + error < 0).all()) and same,
        "in real batches, at equal epsilon the attack succeeds less often under VMF than under "
        "Gaussian noise; at equal mean cosine as often, to within a tenth",
        ours=f"equal epsilon, {_ends(at['epsilon'])}; equal cosine, {_ends(cosine)}",
        tolerance=f"{_SAME:.0%} of the Gaussian success, {STANDARD_ERRORS:g} standard errors "
        "included",
        stand_in=tables.stand_in,
    )
    yield _judge_optimum(tables)


def _judge_optimum(tables: Tables) -> Verdict:
    synthetic, released = tables["synthetic"], tables["released"]
    success, error = synthetic["success"], synthetic["standard error"]
    # two opposite directions attain the bound of one release
    attained = (synthetic["geometry"] == "opposite") & (synthetic["T"] == 1)
    over = success - synthetic["bound"]
    over = over.where(attained, over.clip(lower=0))
    off = (released["attacked"] - released["computed"]).mean()
    off_error = math.sqrt((released["standard error"] ** 2).sum()) / len(released)
    exact = tables["by dimension"]
    exact = exact[exact["p"] == DIMENSION]
    apart = float((exact["VMF"] / exact["Gaussian"] - 1).abs().max())
    simulated = [
        within(success, synthetic["Gaussian"], error, _SYNTHETIC),
        within(over, 0, error, _SYNTHETIC),
        within(off, 0, off_error, _RELEASED),
    ]
    return check(
        "O-034",
        every(apart < _EXACT, *simulated),
        "at p = 13,700 the attack succeeds as often as under Gaussian noise of the same mean "
        "cosine, never above the bound, which two opposite directions attain; attacks on released "
        "gradients succeed as often as computed",
        ours=f"{len(synthetic)} simulated settings within "
        f"{(success - synthetic['Gaussian']).abs().max():.4f} of Gaussian noise, exact ones within "
        f"{apart:.0e} of themselves; released gradients: {off:+.3f} on average",
        tolerance=f"{_SYNTHETIC:g}, {_EXACT:g} and {_RELEASED:g}, {STANDARD_ERRORS:g} standard "
        "errors included",
    )


def _ends(rows: pd.DataFrame) -> str:
    """Success of both at the smallest and the largest batch."""
    return "; ".join(
        f"B = {int(row['batch size'])}: {rounded(row['VMF'], row['error of VMF'])} against "
        f"{rounded(row['Gaussian'], row['error of Gaussian'])}"
        for _, row in rows.iloc[[0, -1]].iterrows()
    )


CAPTION = (
    "The best attack on one of n candidates under von Mises-Fisher noise. Left: synthetic "
    "directions at p = 13,700, one release; marks with 95% intervals are simulated, lines are "
    "Gaussian noise of the same mean cosine and the bounds for two and for n candidates. Middle "
    "and right: candidates in real batches whose other records are known, over the batch size, at "
    "equal epsilon and at equal mean cosine."
)


#: marker and name of the synthetic candidates
GEOMETRIES = {
    "opposite": ("o", "two opposite"),
    "simplex": ("s", "simplex"),
    "orthogonal": ("^", "orthogonal"),
}


@drawing
def draw(tables: Tables) -> Figure:
    synthetic, real = tables["synthetic"], tables["real"]
    gaussian, vmf = MECHANISMS["Gaussian"], MECHANISMS["VMF"]
    figure, (row,) = panels(1, 3, 3.6, 3.4)
    once = synthetic[synthetic["T"] == 1]
    for name, (marker, label) in GEOMETRIES.items():
        own = once[once["geometry"] == name]
        row[0].plot(own["signal"], own["Gaussian"], color=gaussian, lw=1.2)
        look = {"fmt": marker, "ms": 5, "color": vmf, "mfc": "none", "label": label}
        row[0].errorbar(own["signal"], own["success"], 1.96 * own["standard error"], **look)
        if name != "simplex":
            row[0].plot(own["signal"], own["bound"], ":", color=BOUND)
    row[0].plot([], [], color=gaussian, lw=1.2, label="Gaussian")
    row[0].plot([], [], ":", color=BOUND, label="bound")
    row[0].set(xlabel=r"$\kappa\,/\sqrt{p}$", ylabel="success", title="synthetic directions")
    row[0].legend(loc="lower right")
    ticks = {0: once["signal"].unique()}
    for place, held in enumerate(("epsilon", "cosine"), start=1):
        own, axis = real[real["held equal"] == held], row[place]
        for name, marker, aside in (("Gaussian", "o", 0.96), ("VMF", "s", 1.04)):
            look = {"fmt": f"{marker}-", "ms": 4.5, "capsize": 2, "color": MECHANISMS[name]}
            room = 1.96 * own[f"error of {name}"]
            axis.errorbar(aside * own["batch size"], own[name], room, label=name, **look)
        axis.axhline(1 / tables.parameters.prior_size, color=GREY, lw=1, ls="-.", label="guess")
        axis.set(xlabel="batch size B", title=f"real batches, equal {held}")
        ticks[place] = own["batch size"]
    for place, axis in enumerate(row):
        axis.set(xscale="log", ylim=(0, 1.04))
        axis.set_xticks(list(ticks[place]), [f"{t:g}" for t in ticks[place]])
        axis.minorticks_off()
    row[2].legend(loc="upper right")
    return figure
