"""How many records of a run an attacker names, recognises or rebuilds: on average, and at most."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

from reconrisk.bounds._count import most_successes
from reconrisk.risk._composed import success_at
from reconrisk.risk._entries import Interval, Source
from reconrisk.risk._kinds import Compute, Kind, Method, Point, Setting, log_prior
from reconrisk.risk._membership import MATCHING, MEMBERSHIP
from reconrisk.risk._reconstruction import ANY_ATTACK, log_prior_of_error

__all__ = ["PEOPLE", "RISK"]

#: probability with which more records may be named or rebuilt than an entry says
RISK = 0.05

_INDEPENDENT = (
    "The records' secrets are independent, each of a law that the attacker knows; the attacker "
    "answers for every record after one run on all of them."
)
_AVERAGE = "The average over runs is that of one record, times their number, however they depend."
_MOST = (
    "Holds for every mechanism with this success of one record, also one that rarely tells "
    "everything, which may attain it; noise that is independent from step to step allows less."
)


def _average(one: Method, setting: Setting, point: Point | None) -> Interval:
    found, size = one.compute(setting, point), setting.need("dataset_size")
    assert found.lower is not None and found.upper is not None
    return Interval.of(size * found.lower, size * found.upper)


def _most(
    log_kappa: Callable[[Setting, Point | None], float], setting: Setting, point: Point | None
) -> Interval:
    prior, size = log_kappa(setting, point), int(setting.need("dataset_size"))
    found = success_at(setting.run, prior).log_upper
    if found is None or found + math.log(size) <= math.log(RISK):
        return Interval.exactly(0.0)
    at_risk = success_at(setting.run, prior + math.log(RISK)).log_upper
    assert at_risk is not None  # at least the prior success
    return Interval.exactly(float(most_successes(found, at_risk, size, RISK).most))


def _counted(
    of: Kind,
    compute_by: Callable[[Method], Compute],
    definition: str,
    worth: str,
    *,
    name: str,
    title: str,
    question: str,
) -> Kind:
    """Return the kind that counts the records for which another kind's attacker succeeds."""

    def method(one: Method | None) -> Method | None:
        return one and replace(
            one,
            compute=compute_by(one),
            source=Source("beyond", "How many of N records", "", "reconrisk.bounds.rero_count"),
            definition=definition,
            assumptions=(*one.assumptions, _INDEPENDENT),
            tightness=worth,
        )

    return Kind(
        name=name,
        title=title,
        question=question,
        threat_model="people",
        unit="records",
        direction="upper bound on success",
        riskier="larger",
        at=of.at,
        needs=("dataset_size", *of.needs),
        gaussian=method(of.gaussian),
        vmf=method(of.vmf),
        reversible=False,
    )


def _on_average(of: Kind, **words: str) -> Kind:
    definition = "N times the success with one"
    return _counted(of, lambda one: functools.partial(_average, one), definition, _AVERAGE, **words)


def _at_most(of: Kind, log_kappa: Callable[[Setting, Point | None], float], **words: str) -> Kind:
    compute = functools.partial(_most, log_kappa)
    formula = "largest v with t_N(v) > 0.05, t_m(v) = (m/v) gamma(kappa t_(m-1)(v-1))"
    return _counted(of, lambda one: compute, formula, _MOST, **words)


_BY_NAME = {kind.name: kind for kind in (*MEMBERSHIP, *MATCHING, *ANY_ATTACK)}

PEOPLE = (
    _on_average(
        _BY_NAME["power"],
        name="people_recognised",
        title="Recognised on average at {at}",
        question="How many records can membership tests, each at {at}, find on average?",
    ),
    _on_average(
        _BY_NAME["rero"],
        name="people_named",
        title="Named on average with {at}",
        question="How many records can an attacker with {at} for each name on average?",
    ),
    _at_most(
        _BY_NAME["rero"],
        lambda setting, point: log_prior(point),
        name="people_named_most",
        title="Named in 95 of 100 runs with {at}",
        question="How many records can an attacker with {at} for each name in 95 of 100 runs?",
    ),
    _on_average(
        _BY_NAME["box_success"],
        name="people_rebuilt",
        title="Rebuilt on average within {at}",
        question="How many records of independent values can be rebuilt within {at} on average?",
    ),
    _at_most(
        _BY_NAME["box_success"],
        log_prior_of_error,
        name="people_rebuilt_most",
        title="Rebuilt in 95 of 100 runs within {at}",
        question="How many records of independent values can be rebuilt within {at} in 95 of 100 "
        "runs?",
    ),
)
