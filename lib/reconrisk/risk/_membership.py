"""Membership and matching: attacks by an adversary who knows all records but one."""

from __future__ import annotations

import functools
import math

from reconrisk import bounds
from reconrisk.risk._composed import (
    composed_numerically,
    distance_of,
    epsilon_of,
    power_at,
    success_at,
)
from reconrisk.risk._entries import Interval, Source
from reconrisk.risk._kinds import (
    ADJACENT,
    ONE_SIDED,
    POISSON,
    Kind,
    Method,
    Point,
    Setting,
    log_prior,
)
from reconrisk.risk._settings import TrainingRun

__all__ = ["AS_FULL", "INFORMED", "MATCHING", "MEMBERSHIP"]

INFORMED = "The attacker sees every release and knows what all other records contribute."
_DIRECTION = "A record may reverse the released direction: opposite directions are the worst case."
#: most candidates for which the best attack on a sub-sampled run is computed
_MOST_SAMPLED = 1_000_000


def _epsilon(setting: Setting, point: Point | None) -> Interval:
    return epsilon_of(setting.run)


def _power(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    return power_at(setting.run, math.log(point.value))


def _distance(setting: Setting, point: Point | None) -> Interval:
    return distance_of(setting.run)


_EXACT_WORST = (
    "The value of the worst record, whose clipped gradient has full length in every step: a "
    "likelihood ratio test reaches it. Records of shorter gradients are safer."
)

MEMBERSHIP = (
    Kind(
        name="epsilon",
        title="Epsilon",
        question="What is the run's epsilon, at its delta?",
        threat_model="membership",
        unit="nats",
        direction="exact",
        riskier="larger",
        gaussian=Method(
            _epsilon,
            Source(
                "biswas2024", "Definition 1", "prf-biswas2024-def1", "reconrisk.privacy.epsilon"
            ),
            "smallest epsilon with delta(epsilon) <= delta",
            (ADJACENT, POISSON, INFORMED),
            _EXACT_WORST,
        ),
        vmf=Method(
            _epsilon,
            Source(
                "beyond",
                "Theorem on opposite centres",
                "prf-beyond-vmf_opposite",
                "reconrisk.privacy.vmf_epsilon",
            ),
            "smallest epsilon with delta(epsilon) <= delta for two opposite directions",
            (ADJACENT, POISSON, INFORMED, _DIRECTION),
            "Exact for opposite directions. It is never above either account of paper D, and not "
            "comparable with the Gaussian one, which is for adding a gradient of length C.",
        ),
    ),
    Kind(
        name="power",
        title="True positives at {at}",
        question="How often can a membership test find the record at {at}?",
        threat_model="membership",
        unit="probability",
        direction="exact",
        riskier="larger",
        at=("false_positive_rate",),
        gaussian=Method(
            _power,
            Source("hayes2023", "Corollary 4", "prf-hayes2023-cor4", "reconrisk.bounds.rero"),
            "gamma(rate); at q = 1, Phi(Phi^-1(rate) + sqrt(T)/sigma)",
            (ADJACENT, POISSON, INFORMED),
            _EXACT_WORST,
        ),
        vmf=Method(
            _power,
            Source("beyond", "ReRo of VMF", "prf-beyond-vmf-rero", "reconrisk.bounds.rero_vmf"),
            "gamma(rate) of two opposite directions",
            (ADJACENT, POISSON, INFORMED, _DIRECTION),
            "Exact for opposite directions.",
        ),
    ),
    Kind(
        name="membership_advantage",
        title="Membership advantage",
        question="By how much can true positives exceed false positives in a membership test?",
        threat_model="membership",
        unit="probability",
        direction="exact",
        riskier="larger",
        gaussian=Method(
            _distance,
            Source("hayes2023", "Corollary 4", "prf-hayes2023-cor4", "reconrisk.privacy.delta"),
            "delta(0); at q = 1, 2 Phi(sqrt(T)/(2 sigma)) - 1",
            (ADJACENT, POISSON, INFORMED),
            _EXACT_WORST,
        ),
        vmf=Method(
            _distance,
            Source(
                "beyond",
                "ReRo of VMF",
                "prf-beyond-vmf-rero",
                "reconrisk.bounds.rero_vmf_curve",
            ),
            "largest gamma(kappa) - kappa",
            (ADJACENT, POISSON, INFORMED, _DIRECTION),
            "Exact for opposite directions, up to the grid it is enclosed on.",
        ),
    ),
)


# Matching ----------------------------------------------------------------------------------------


def _rero(setting: Setting, point: Point | None) -> Interval:
    return _matching_success(setting.run, log_prior(point))


def _matching_success(run: TrainingRun, log_kappa: float) -> Interval:
    """Success with candidates, bounded by a reference law of the output that ignores the record."""
    found = success_at(run, log_kappa)
    if run.concentration is None or run.steps > 1 or run.sampling_rate < 1.0:
        return found
    assert run.concentration is not None and run.parameters is not None
    # for one release of von Mises-Fisher noise the uniform reference law gives a tighter bound
    value = float(
        bounds.rero_vmf_one_release(
            run.concentration, run.parameters, log_prior_success=log_kappa, log=True
        )
    )
    assert found.log_upper is not None
    high = min(value + 1e-9 * (1.0 + abs(value)), found.log_upper, 0.0)
    return Interval.of_logs(max(high - 2e-9 * (1.0 + abs(value)), log_kappa), high)


def _advantage(setting: Setting, point: Point | None) -> Interval:
    kappa = math.exp(log_prior(point))
    found = _matching_success(setting.run, log_prior(point))
    assert found.lower is not None and found.upper is not None
    ends = [max((s - kappa) / (1.0 - kappa), 0.0) for s in (found.lower, found.upper)]
    return Interval.of(ends[0], min(ends[1] * (1.0 + 1e-15), 1.0))


def _bayes(setting: Setting, point: Point | None) -> Interval:
    assert point is not None
    size = int(point.value)
    value = float(bounds.bayes_success_subsampled(setting.run.dpsgd, size))
    if setting.run.sampling_rate == 1.0 or setting.run.steps == 1:
        return Interval.exactly(value)
    slack = 1e-11 + 1e-15 * size
    return Interval.of(max(value - slack, 1.0 / size), min(value + slack, 1.0))


def _refuse_bayes(setting: Setting, point: Point | None) -> str:
    assert point is not None
    if setting.run.gaussian and not composed_numerically(setting.run):
        return "the best attack is not computed at so little noise, sampling or so many steps"
    if setting.run.sampling_rate == 1.0 and point.value > 1e9:
        return "the best attack is computed for up to 1e9 candidates"
    if setting.run.sampling_rate < 1.0 and point.value > _MOST_SAMPLED:
        return "the best attack on a sub-sampled run is computed for up to 1e6 candidates"
    p = setting.run.parameters
    if p is not None and point.value > p:
        return f"there are no {point.value:,} orthogonal gradients of {p:,} parameters"
    return ""


def _bayes_vmf(setting: Setting, point: Point | None) -> Interval:
    run = setting.run
    assert point is not None and run.concentration is not None and run.parameters is not None
    return Interval.exactly(
        bounds.bayes_success_vmf(run.concentration, run.parameters, int(point.value))
    )


def _refuse_bayes_vmf(setting: Setting, point: Point | None) -> str:
    if setting.run.steps > 1 or setting.run.sampling_rate < 1.0:
        return "the best attack has a closed form for one release without sub-sampling only"
    return _refuse_bayes(setting, point)


def _renyi(setting: Setting, point: Point | None) -> Interval:
    run = setting.run
    prior = log_prior(point)
    return Interval.of_log(
        bounds.rero_rdp(run.effective_noise, log_prior_success=prior, steps=run.steps, log=True)
    )


AS_FULL = (
    "A sub-sampled run is bounded as if every record took part in every step, which reveals more."
)

#: a bound on naming the right candidate
_bound_on_matching = functools.partial(
    Kind,
    threat_model="matching",
    unit="probability",
    direction="upper bound on success",
    riskier="larger",
)

MATCHING = (
    _bound_on_matching(
        name="rero",
        title="Success with {at}",
        question="How often can an attacker with {at} name the right record?",
        at=("prior_size", "log_prior"),
        attained_by="bayes_success",
        gaussian=Method(
            _rero,
            Source("hayes2023", "Corollary 4", "prf-hayes2023-cor4", "reconrisk.bounds.rero"),
            "gamma(kappa); at q = 1, Phi(Phi^-1(kappa) + sqrt(T)/sigma)",
            (ONE_SIDED, POISSON, "Candidates are equally likely, or kappa is that of any prior."),
            "Certified for every attack. Two opposite gradients attain it at q = 1; with more "
            "candidates none attains it, and orthogonal ones stay at most 0.094 below.",
        ),
        vmf=Method(
            _rero,
            Source("beyond", "ReRo of VMF", "prf-beyond-vmf-rero", "reconrisk.bounds.rero_vmf"),
            "gamma(kappa) of two opposite directions; of one release, against the uniform law",
            (ONE_SIDED, POISSON, _DIRECTION),
            "Certified for every attack. For one release two opposite directions attain it at "
            "kappa = 1/2; sub-sampled or composed it is not known to be attained.",
        ),
    ),
    _bound_on_matching(
        name="rero_advantage",
        title="Advantage with {at}",
        question="How much of the way from a blind guess to certainty can an attacker with {at} "
        "go?",
        at=("prior_size",),
        gaussian=Method(
            _advantage,
            Source("hayes2023", "Appendix H, eq. (4)", "", "reconrisk.bounds.advantage"),
            "(gamma - kappa)/(1 - kappa)",
            (ONE_SIDED, POISSON),
            "As tight as the success that it is made of.",
        ),
        vmf=Method(
            _advantage,
            Source("hayes2023", "Appendix H, eq. (4)", "", "reconrisk.bounds.advantage"),
            "(gamma - kappa)/(1 - kappa)",
            (ONE_SIDED, POISSON, _DIRECTION),
            "As tight as the success that it is made of.",
        ),
    ),
    Kind(
        name="bayes_success",
        title="Best attack on {at} with orthogonal gradients",
        question="How often does the best attack name the right one of {at} with orthogonal "
        "gradients?",
        threat_model="matching",
        unit="probability",
        direction="success of the best known attack",
        riskier="larger",
        at=("prior_size",),
        gaussian=Method(
            _bayes,
            Source(
                "beyond",
                "The best attack on equicorrelated candidates",
                "prf-beyond-bayes",
                "reconrisk.bounds.bayes_success_subsampled",
            ),
            "at q = 1, integral of phi(x - sqrt(T)/sigma) Phi(x)^(n-1)",
            (
                "Candidates are equally likely; their clipped gradients are orthogonal and of full "
                "length in every step.",
                POISSON,
            ),
            "Attained by the likelihood score of paper C, which is Bayes optimal. Gradients of "
            "real records of one class lie closer together and are harder to distinguish.",
            _refuse_bayes,
        ),
        vmf=Method(
            _bayes_vmf,
            Source(
                "beyond",
                "The best attack under VMF noise",
                "prf-beyond-vmf-attack",
                "reconrisk.bounds.bayes_success_vmf",
            ),
            "mean of the largest likelihood over n orthogonal directions",
            ("Candidates are equally likely; their gradients are orthogonal.", "One release."),
            "Attained by naming the candidate of the largest cosine, which is Bayes optimal.",
            _refuse_bayes_vmf,
        ),
    ),
    _bound_on_matching(
        name="rero_renyi",
        title="Renyi privacy alone, {at}",
        question="How often can an attacker with {at} name the right record, by Renyi privacy "
        "alone?",
        at=("prior_size", "log_prior"),
        attained_by="bayes_success",
        gaussian=Method(
            _renyi,
            Source("hayes2023", "Equation (2)", "", "reconrisk.bounds.rero_rdp"),
            "exp(-max(0, sqrt(log 1/kappa) - sqrt(T/(2 sigma^2)))^2)",
            (ONE_SIDED, AS_FULL),
            "Never below the bound of Corollary 4 and mostly far above: shown for comparison.",
        ),
    ),
)
