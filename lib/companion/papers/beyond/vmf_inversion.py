"""Analytic inversion of one record under VMF and Gaussian noise: closed forms and attacks."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy import optimize

from companion.experiments import federated
from companion.experiments.fair_pairs import middle
from companion.experiments.tools import mean_and_error
from companion.papers.beyond import vmf_batches
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import STANDARD_ERRORS, within
from companion.style import GREEN, GREY, MECHANISMS, PURPLE, drawing, panels
from reconrisk import DPSGD, attacks, bounds, privacy

_OURS = "our own exhibit"
_SIGNALS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PARAMETERS = {
    "digits": vmf_batches.DIGITS,
    "rows": Parameter("int", 50, 50, "50 units", "M, rows of the layer: p = 256 M", 1),
    "signals": Parameter("floats", _SIGNALS, (0.25, *_SIGNALS), _OURS, "kappa / sqrt(p)", 1e-2),
    "records": Parameter("int", 200, 1000, _OURS, "pictures attacked at every setting", 20),
}
SETTLES = ("O-035",)
FALSIFIERS = (
    graded(
        "a squared error of VMF noise {} of the squared length larger at equal cosine",
        column("closed forms", "VMF error", lambda c, by: c + by, "`held equal` == 'cosine'"),
        unit="",
    ),
    graded(
        "a squared error of VMF noise {} smaller at equal epsilon",
        column(
            "closed forms", "VMF error", lambda c, by: c * (1 - by), "`held equal` == 'epsilon'"
        ),
    ),
    world(
        "the mechanisms exchanged at equal epsilon",
        frame(
            "closed forms",
            lambda t: t.assign(
                **{"VMF error": t["Gaussian error"], "Gaussian error": t["VMF error"]}
            ),
        ),
    ),
    graded(
        "a Gaussian noise of equal epsilon {} larger",
        column(
            "closed forms",
            "Gaussian noise",
            lambda c, by: c * (1 + by),
            "`held equal` == 'epsilon'",
        ),
    ),
    graded(
        "measured cosines {} smaller",
        column("measured", "measured", lambda c, by: c - by, "what == 'cosine'"),
        "O-035",
        unit="",
    ),
    graded(
        "measured errors {} larger",
        column("measured", "measured", lambda c, by: c * (1 + by), "what == 'error'"),
        "O-035",
    ),
    world(
        "releases that keep the record's length",
        column("length", "length kept", lambda c: 1.0),
        "O-035",
    ),
    graded(
        "lengths found {} too large with a bias",
        column("length", "median ratio with bias", lambda c, by: c * (1 + by)),
        "O-035",
    ),
)

#: how near mean cosines must come (they run from 0.03 to 0.7), and mean errors, relative
_COSINE, _ERROR = 0.03, 0.05
#: how near the length found with a bias must come, relative: without one nothing is known of it
_LENGTH = 0.05


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    pictures = federated.standardised(p.digits, str(study.data_root or "")).images.inputs
    size = pictures.shape[1]
    closed = closed_forms(p.rows, size, p.signals)
    return Tables(
        {
            "closed forms": closed,
            "measured": attacked_pictures(study, pictures, closed),
            "length": length_of_record(study, pictures),
            "exact": closed[["signal", "held equal", "VMF cosine", "VMF error"]].round(7),
        },
        exact=("exact",),
        ran=f"layer of {p.rows} equal rows, p = {p.rows * size:,}; one release of "
        f"each of {p.records} pictures ({p.digits}) at every setting; delta = 1/60,000.",
    )


def equal_gaussian(held: str, p: int, kappa: float) -> float:
    """Noise multiplier that matches a concentration in one respect, for one release of one record.

    ``held`` is ``"cosine"``, ``"epsilon"`` or ``"capacity"``.
    """
    if held == "cosine":
        return vmf_batches.noise_of_cosine(p, float(privacy.vmf_mean_cosine(p, kappa)))
    if held == "epsilon":
        target = middle(privacy.vmf_epsilon(kappa, p, federated.DELTA, tolerance=1e-6))
        return float(privacy.noise_for_epsilon(target, federated.DELTA))
    capacity = float(bounds.bayes_capacity_vmf(p, kappa))

    def excess(log_sigma: float) -> float:
        return float(bounds.bayes_capacity_gaussian(p, math.exp(log_sigma), 1.0)) - capacity

    return math.exp(optimize.brentq(excess, math.log(1e-3), math.log(1e6), xtol=1e-12))


def closed_forms(rows: int, n: int, signals: tuple[float, ...]) -> pd.DataFrame:
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
            sigma = equal_gaussian(held, p, kappa)
            row = {"signal": signal, "concentration": kappa, "held equal": held}
            row |= {"Gaussian noise": sigma, **vmf}
            row["Gaussian cosine"] = float(bounds.direction_cosine_gaussian(n, sigma))
            row["Gaussian error"] = float(bounds.direction_error_gaussian(n, sigma))
            row["Gaussian unbiased"] = n * sigma**2
            row["twice the noise"] = float(bounds.direction_error_gaussian(n, 2.0 * sigma))
            table.append(row)
    return pd.DataFrame(table)


def attacked_pictures(study: Context, pictures: np.ndarray, closed: pd.DataFrame) -> pd.DataFrame:
    """Attacks on released gradients at equal mean cosine, beside the closed forms."""
    p = study.parameters
    chosen = pictures[study.rng("records").permutation(len(pictures))[: p.records]]
    records = torch.as_tensor(chosen, dtype=torch.float64, device=study.device)
    table = []
    for _, row in closed[closed["held equal"] == "cosine"].iterrows():
        signal = row["signal"]
        # a record of norm above C = 1 in M rows is clipped: the row mean's noise is sigma |X|
        run = DPSGD(float(row["Gaussian noise"]))
        vmf, gaussian = (study.generator(name, signal) for name in ("vmf", "gaussian"))
        for mechanism, seen in (
            ("VMF", attacks.observe_vmf(records, row["concentration"], vmf, rows=p.rows)),
            ("Gaussian", attacks.observe(records, run, gaussian, rows=p.rows)),
        ):
            found = attacks.known_scale(seen)
            lengths = records.norm(dim=1)
            cosine = (records * found).sum(dim=1) / (lengths * found.norm(dim=1))
            error = (found - records).square().sum(dim=1) / lengths.square()
            for what, values, exact in (
                ("cosine", cosine, row[f"{mechanism} cosine"]),
                ("error", error, row[f"{mechanism} unbiased"]),
            ):
                mean, spread = mean_and_error(values.cpu().numpy())
                table.append((mechanism, signal, what, mean, spread, exact))
    columns = ["mechanism", "signal", "what", "measured", "standard error", "exact"]
    return pd.DataFrame(table, columns=columns)


def length_of_record(study: Context, pictures: np.ndarray) -> pd.DataFrame:
    """Whether the same draws release the length of X and 3 X; the length found with a bias."""
    p = study.parameters
    records = torch.as_tensor(pictures[: p.records], dtype=torch.float64, device=study.device)
    # little noise, so that the ratio of two noisy means has a stable median
    kappa = 200.0 * math.sqrt(p.rows * records.shape[1])
    rows = []
    for factor in (1.0, 3.0):
        longer = factor * records
        seen, first = (
            attacks.observe_vmf(x, kappa, study.generator("length"), rows=p.rows).row_mean
            for x in (longer, records)
        )
        kept = float((seen - first).abs().max())
        generator = study.generator("bias", factor)
        biased = attacks.observe_vmf(longer, kappa, generator, rows=p.rows, bias=True)
        ratio = attacks.with_estimated_scale(biased).norm(dim=1) / longer.norm(dim=1)
        rows.append((factor, float(kept > 1e-12), float(ratio.median())))
    return pd.DataFrame(rows, columns=["factor", "length kept", "median ratio with bias"])


def judge(tables: Tables) -> Iterator[Verdict]:
    measured, length = tables["measured"], tables["length"]
    by = {held: own for held, own in tables["closed forms"].groupby("held equal")}
    same = (by["cosine"]["VMF error"] - by["cosine"]["Gaussian error"]).abs().max()
    epsilon = by["epsilon"]
    doubled = (epsilon["VMF error"] - epsilon["twice the noise"]).abs()
    weaker = (epsilon["Gaussian noise"] * epsilon["signal"] - 0.5).abs().max()
    yield check(
        "beyond/vmf_inversion",
        same < 1e-3
        # the two laws differ in the second order of the gradient's cosine
        and (doubled < 1e-4 + epsilon["gradient cosine"] ** 2).all()
        and (epsilon["VMF error"] > epsilon["Gaussian error"]).all()
        and weaker < 0.02,
        "at equal mean cosine of the gradient the record's direction is recovered with the same "
        "error under both mechanisms; at equal epsilon VMF noise has the error of Gaussian noise "
        "of twice sigma, to second order in the gradient's mean cosine",
        ours=f"errors differ by at most {same:.4f} and {doubled.max():.4f} of the squared length",
        tolerance="0.001 and the squared mean cosine",
    )
    margin = measured["exact"].where(measured["what"] == "error") * _ERROR
    near = within(
        measured["measured"],
        measured["exact"],
        measured["standard error"],
        margin.fillna(_COSINE),
    )
    off = (length["median ratio with bias"] - 1.0).abs().max()
    yield check(
        "O-035",
        bool((length["length kept"] == 0.0).all() and off < _LENGTH) and near,
        "measured cosines and errors agree with the closed forms; under VMF noise the record's "
        "length is lost without a bias, and recovered with one",
        ours=f"{len(measured)} means; length with a bias within {100 * off:.0f}% at the median",
        tolerance=f"cosines {_COSINE:g}, errors {_ERROR:.0%}, {STANDARD_ERRORS:g} standard errors "
        f"included; length {_LENGTH:.0%}",
        stand_in=tables.stand_in,
    )


CAPTION = (
    "Analytic inversion of one record from the gradient of a layer with equal rows: "
    "lines are closed forms, marks are attacked pictures with 95% intervals. Left: mean cosine of "
    "the row mean with the record. Middle: least squared error that an attacker without a prior "
    "can guarantee on the direction; Gaussian noise at equal epsilon, equal capacity and equal "
    "mean cosine. Right: the Gaussian noise multiplier that each of these means."
)


@drawing
def draw(tables: Tables) -> Figure:
    closed, measured = tables["closed forms"], tables["measured"]
    figure, (row,) = panels(1, 3, 3.6, 3.4)
    own = closed[closed["held equal"] == "cosine"]
    row[0].plot(own["signal"], own["VMF cosine"], color=GREY, label="closed form")
    for name, marker, aside in (("Gaussian", "o", 0.96), ("VMF", "s", 1.04)):
        part = measured[(measured["mechanism"] == name) & (measured["what"] == "cosine")]
        look = {"fmt": marker, "ms": 4.5, "capsize": 2, "color": MECHANISMS[name], "label": name}
        room = 1.96 * part["standard error"]
        row[0].errorbar(aside * part["signal"], part["measured"], room, **look)
    row[1].plot(own["signal"], own["VMF error"], color=MECHANISMS["VMF"], label="VMF")
    for style, colour, marker, held in (
        ("--", MECHANISMS["Gaussian"], "o", "epsilon"),
        (":", PURPLE, "v", "capacity"),
        ("-.", GREEN, "^", "cosine"),
    ):
        part = closed[closed["held equal"] == held]
        look = {"marker": marker, "ms": 4.5, "mfc": "none", "color": colour}
        for axis, value, label in (
            (row[1], "Gaussian error", f"Gaussian, equal {held}"),
            (row[2], "Gaussian noise", f"equal {held}"),
        ):
            axis.plot(part["signal"], part[value], style, label=label, **look)
    row[0].set(ylabel="mean cosine with the record", ylim=(0, 1))
    row[1].set(ylabel="squared error of the direction", ylim=(0, 1.04))
    row[2].set(ylabel=r"Gaussian $\sigma$", yscale="log")
    for axis, place in zip(row, ("upper left", "lower left", "lower left"), strict=True):
        axis.legend(loc=place)
        axis.set(xscale="log", xlabel=r"$\kappa\,/\sqrt{p}$")
        axis.set_xticks(list(own["signal"]), [f"{t:g}" for t in own["signal"]])
        axis.minorticks_off()
    return figure
