"""Mutual information, Bayes' capacity, and the bound on unbiased reconstructions."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

from scipy import special as sc

from reconrisk import arguments, bounds
from reconrisk.privacy._phases import grouped_runs
from reconrisk.risk._entries import Interval, Source
from reconrisk.risk._kinds import Compute, Kind, Method, Point, Setting, log_prior
from reconrisk.risk._membership import AS_FULL, INFORMED

__all__ = ["CAPACITY", "INFORMATION", "UNBIASED"]

_MOST_PARAMETERS = 100_000_000


# Mutual information ------------------------------------------------------------------------------


def _information(setting: Setting, point: Point | None, distance: float) -> float:
    assert point is not None
    run = setting.run
    return float(
        bounds.mutual_information_bound(run.effective_noise, point.value, distance, run.steps)
    )


def _mutual(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(_information(setting, point, 2.0))


def _fano(setting: Setting, point: Point | None, distance: float = 2.0) -> Interval:
    assert point is not None
    information = _information(setting, point, distance)
    return Interval.of_log(bounds.fano_success(information, point.value, log=True))


_GUO = Source(
    "hayes2023",
    "Appendix H, after Guo et al. (2022b)",
    "",
    "reconrisk.bounds.mutual_information_bound",
)
_FANO = Source("hayes2023", "Appendix H, eq. (5)", "", "reconrisk.bounds.fano_success")
_UNIFORM = "Candidates are equally likely."

#: Fano's bound on naming the right candidate
_fano_bound = functools.partial(
    Kind,
    threat_model="information",
    unit="probability",
    direction="upper bound on success",
    riskier="larger",
    at=("prior_size",),
    attained_by="bayes_success",
)

INFORMATION = (
    Kind(
        name="mutual_information",
        title="Information on {at}",
        question="How many nats does the output say about which of {at} was the record?",
        threat_model="information",
        unit="nats",
        direction="upper bound on leakage",
        riskier="larger",
        at=("prior_size",),
        gaussian=Method(
            _mutual,
            _GUO,
            "-sum p log(p + (1 - p) exp(-2 T/sigma^2))",
            (_UNIFORM, INFORMED, "No two candidates' gradients are more than 2 C apart.", AS_FULL),
            "Not attained; at most the entropy of the prior, log n.",
        ),
    ),
    _fano_bound(
        name="fano",
        title="Fano's bound with {at}",
        question="How often can an attacker name the right one of {at}, by Fano's inequality?",
        gaussian=Method(
            _fano,
            _FANO,
            "largest s with d(s, 1/n) <= I",
            (_UNIFORM, INFORMED, "No two candidates' gradients are more than 2 C apart.", AS_FULL),
            "Far above the certified bound on matching nearly everywhere: shown for comparison.",
        ),
    ),
    _fano_bound(
        name="fano_orthogonal",
        title="Fano's bound with {at}, orthogonal",
        question="How often can an attacker name the right one of {at} with orthogonal gradients, "
        "by Fano's inequality?",
        gaussian=Method(
            functools.partial(_fano, distance=math.sqrt(2.0)),
            _FANO,
            "largest s with d(s, 1/n) <= I at a distance of sqrt(2) C",
            (
                _UNIFORM,
                INFORMED,
                "No two candidates' gradients are more than sqrt(2) C apart.",
                AS_FULL,
            ),
            "Above the best attack on orthogonal candidates: the reading of paper C's Table 2.",
        ),
    ),
)


# Bayes' capacity ---------------------------------------------------------------------------------


def _ball(setting: Setting, radius: float) -> float:
    run = setting.run
    assert run.noise_multiplier is not None
    p = setting.need("parameters")
    if p > _MOST_PARAMETERS:
        raise ValueError(
            f"parameters must be at most {_MOST_PARAMETERS:g} for a ball; got {arguments.shown(p)}"
        )
    return float(bounds.bayes_capacity_gaussian(p, run.noise_multiplier, radius))


def _record_capacity(setting: Setting) -> float:
    run = setting.run
    if run.gaussian:
        return _ball(setting, run.sensitivity)
    assert run.concentration is not None and run.parameters is not None
    return float(bounds.bayes_capacity_vmf(run.parameters, run.concentration))


def _capacity_of_all(setting: Setting) -> float:
    """Capacities of all releases add up."""
    run = setting.run
    if not run.phases:
        return run.steps * _record_capacity(setting)
    return math.fsum(
        p.steps
        * _record_capacity(
            replace(setting, run=replace(run, phases=(), noise_multiplier=p.noise_multiplier))
        )
        for p in grouped_runs(run.phases, True)
    )


def _capacity(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(_record_capacity(setting))


def _capacity_batch(setting: Setting, point: Point | None) -> Interval:
    if not setting.run.gaussian:
        return Interval.exactly(_record_capacity(setting))
    radius = setting.need("batch_size") * setting.run.sensitivity
    return Interval.exactly(_ball(setting, radius))


def _capacity_run(setting: Setting, point: Point | None) -> Interval:
    return Interval.exactly(_capacity_of_all(setting))


def _capacity_success(setting: Setting, point: Point | None) -> Interval:
    return Interval.of_log(min(log_prior(point) + _capacity_of_all(setting), 0.0))


def _whole_batch(setting: Setting, point: Point | None) -> Interval:
    """Success of one guess at the whole batch, all batches of its size being equally likely."""
    found = _capacity_batch(setting, point)
    assert found.lower is not None
    size, batch = setting.need("dataset_size"), setting.need("batch_size")
    log_number = sc.gammaln(size + 1.0) - sc.gammaln(batch + 1.0) - sc.gammaln(size - batch + 1.0)
    # the three log factorials cancel in part: allow for their rounding errors
    slack = 1e-15 * float(sc.gammaln(size + 1.0))
    return Interval.of_log(min(found.lower - float(log_number) + slack, 0.0))


_GAUSSIAN = Source(
    "biswas2024", "Theorem 5", "prf-biswas2024-thm5", "reconrisk.bounds.bayes_capacity_gaussian"
)
_VMF = Source(
    "biswas2024", "Theorem 6", "prf-biswas2024-thm6", "reconrisk.bounds.bayes_capacity_vmf"
)
_BALL = "Gradients fill a ball of radius C (C sqrt(layers) if layers are clipped one by one)."
_SPHERE = "Released directions fill the sphere."
_NOT_FILLED = (
    "Exact for a full ball, which no finite set of records fills: for one, the bound is far from "
    "what any attack does. It multiplies every prior's and every gain's value before the release."
)
_NOT_COVERED = (
    "Exact for the whole sphere, which no finite set of records fills. It multiplies every prior's "
    "and every gain's value before the release."
)
_ADDITIVE = "Steps add up, which is an upper bound; sub-sampling is not counted."


def _capacity_kind(
    name: str,
    title: str,
    question: str,
    compute: Compute,
    *more: str,
    gaussian: str,
    vmf: str,
    direction: str = "exact",
    **fields: Any,
) -> Kind:
    """A kind for both mechanisms: the definitions under each, and further assumptions ``more``."""
    return Kind(
        name=name,
        title=title,
        question=question,
        threat_model="capacity",
        direction=direction,
        riskier="larger",
        gaussian=Method(compute, _GAUSSIAN, gaussian, (_BALL, *more), _NOT_FILLED),
        vmf=Method(compute, _VMF, vmf, (_SPHERE, *more), _NOT_COVERED),
        **fields,
    )


CAPACITY = (
    _capacity_kind(
        "capacity_record",
        "Largest gain of any attacker, one step",
        "By what factor, as its natural logarithm, can one release raise any attacker's chance "
        "about one record's gradient?",
        _capacity,
        "All other records' contributions are known.",
        unit="nats",
        needs=("parameters",),
        gaussian="integral of the largest density, radius C, noise sigma C",
        vmf="kappa - log of the reduced Bessel function of order p/2 - 1",
    ),
    _capacity_kind(
        "capacity_batch",
        "Largest gain about a whole batch, one step",
        "By what factor, as its natural logarithm, can one release raise any attacker's chance "
        "about the whole batch?",
        _capacity_batch,
        "Nothing of the batch is known; the release is its average.",
        unit="nats",
        needs=("parameters", "batch_size"),
        gaussian="integral of the largest density, radius C, noise sigma C/B",
        vmf="kappa - log of the reduced Bessel function of order p/2 - 1",
    ),
    _capacity_kind(
        "capacity_run",
        "Largest gain of any attacker, whole run",
        "By what factor, as its natural logarithm, can the whole run raise any attacker's chance "
        "about one record?",
        _capacity_run,
        "All other records' contributions are known.",
        _ADDITIVE,
        unit="nats",
        direction="upper bound on leakage",
        needs=("parameters",),
        gaussian="T times the log capacity of one step",
        vmf="T times the log capacity of one step",
    ),
    _capacity_kind(
        "capacity_success",
        "Capacity with {at}",
        "How often can an attacker with {at} name the right record, by Bayes' capacity?",
        _capacity_success,
        "All other records' contributions are known.",
        _ADDITIVE,
        unit="probability",
        direction="upper bound on success",
        at=("prior_size", "log_prior"),
        needs=("parameters",),
        attained_by="bayes_success",
        gaussian="min(1, kappa C^T)",
        vmf="min(1, kappa C^T)",
    ),
    _capacity_kind(
        "capacity_whole_batch",
        "Whole batch named",
        "How often can one guess name the whole batch after one release?",
        _whole_batch,
        "All batches of the size are equally likely.",
        unit="probability",
        direction="upper bound on success",
        needs=("parameters", "batch_size", "dataset_size"),
        gaussian="min(1, C/binom(n, B))",
        vmf="min(1, C/binom(n, B))",
    ),
)


# Unbiased reconstructions ------------------------------------------------------------------------


def _unbiased_mse(setting: Setting, point: Point | None) -> Interval:
    run = setting.run
    low = float(
        bounds.mse_lower_bound(run.effective_noise, run.steps, setting.need("data_range"), log=True)
    )
    low -= 1e-12 * (1.0 + abs(low))
    return Interval(math.exp(low), None, low, None)


UNBIASED = (
    Kind(
        name="mse_unbiased",
        title="Mean squared error, unbiased attacks",
        question="What mean squared error is left to any unbiased attack?",
        threat_model="unbiased",
        unit="squared data units",
        direction="lower bound on error",
        riskier="smaller",
        needs=("data_range",),
        attained_by="mse",
        gaussian=Method(
            _unbiased_mse,
            Source(
                "hayes2023",
                "Section 2.1 and Appendix J, after Guo et al. (2022a), Theorem 1",
                "",
                "reconrisk.bounds.mse_lower_bound",
            ),
            "range^2/(4 (exp(T/sigma^2) - 1))",
            (
                "The attack's expectation is the record.",
                "Gradients of two records that a record could be differ by at most C.",
                AS_FULL,
            ),
            "Loose by hundreds of orders of magnitude where T/sigma^2 is large, and void where it "
            "is small: the centre of the range, which is biased, has at most range^2/4.",
        ),
    ),
)
