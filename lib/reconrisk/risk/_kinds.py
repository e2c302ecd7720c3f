"""The kinds of a report's entries, and how an entry is computed for a setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from reconrisk._types import DPSGD
from reconrisk.privacy._samplers import NEIGHBOUR, NEIGHBOURS
from reconrisk.risk._correlated import CorrelatedRun
from reconrisk.risk._entries import Entry, Interval, Source, entry_key
from reconrisk.risk._settings import (
    Questions,
    Record,
    SettingError,
    TrainingRun,
    TwoLayerModel,
    run_of,
)

__all__ = [
    "ADJACENT",
    "ANY_NETWORK",
    "ONE_SIDED",
    "POINTS",
    "POISSON",
    "Compute",
    "Kind",
    "Method",
    "Point",
    "Setting",
    "compute_entry",
    "log_prior",
    "setting_of",
]

#: assumptions that every run words for itself: its adjacency, its batches
ADJACENT = NEIGHBOUR
POISSON = (
    "Every step takes each record with the sampling rate, by itself; batches of a fixed size drawn "
    "without replacement are another mechanism."
)

#: others that are the mechanism's, and that a bare guarantee has not
ANY_NETWORK = (
    "Holds for every network, every attack and whatever the record's clipped gradient does."
)
ONE_SIDED = "Beside it stands a run on the same data with a record of gradient zero in its place."

#: Each parameter of a question, and the field of :class:`Questions` that holds its values.
POINTS = {
    "prior_size": "prior_sizes",
    "log_prior": "log_priors",
    "false_positive_rate": "false_positive_rates",
    "mse": "mse",
    "psnr": "psnr",
    "ncc": "ncc",
    "pixel_share": "pixel_shares",
}

#: the values of a question in a sentence
_PHRASES = {
    "prior_size": lambda v: f"{v:,} candidates" if v < 1e15 else f"{v:.3g} candidates",
    "log_prior": lambda v: f"a prior success of 1e{v / math.log(10.0):.1f}",
    "false_positive_rate": lambda v: f"a false positive rate of {v:g}",
    "mse": lambda v: f"an MSE of {v:g}",
    "psnr": lambda v: f"a PSNR of {v:g} dB",
    "ncc": lambda v: f"an NCC of {v:g}",
    "pixel_share": lambda v: f"{100.0 * v:g}% of the values",
}


@dataclass(frozen=True)
class Setting:
    """The inputs of an entry: run, record, questions and model."""

    run: TrainingRun
    record: Record = Record()
    questions: Questions = Questions()
    model: TwoLayerModel | None = None

    def get(self, name: str) -> object:
        """Return the named field of the run, the record or the model; None if it is not given."""
        for part in (self.run, self.record, self.model):
            if hasattr(part, name) and getattr(part, name) is not None:
                return getattr(part, name)
        return self.model if name == "model" else None

    def need(self, name: str) -> float:
        """Return the named number, which must be given."""
        value = self.get(name)
        assert isinstance(value, (int, float))
        return value

    def asked(self, name: str) -> tuple[float, ...]:
        """Return the values at which a question is asked; ``name`` is a key of ``POINTS``."""
        if name == "mse" and self.questions.mse is None:
            span = self.record.data_range
            return () if span is None else (0.01 * span * span,)
        return getattr(self.questions, POINTS[name])


def setting_of(
    run: TrainingRun | DPSGD,
    record: Record | None,
    questions: Questions | None,
    model: TwoLayerModel | None,
) -> Setting:
    """Return the setting of a report; raise SettingError if a part has the wrong type."""
    parts = (
        ("record", record, Record),
        ("questions", questions, Questions),
        ("model", model, TwoLayerModel),
    )
    for name, value, kind in parts:
        if value is not None and not isinstance(value, kind):
            raise SettingError(name, value, f"a {kind.__name__} or None")
    return Setting(run_of(run), record or Record(), questions or Questions(), model)


@dataclass(frozen=True)
class Point:
    """One value at which a question is asked: a key of ``POINTS`` and the value."""

    name: str
    value: float


Compute = Callable[[Setting, Point | None], Interval]
_REPLACED = (
    "Between what an attack reaches, whose records have opposite gradients, and what is proven: "
    "where the two are apart, the value is not known."
)
_OPPOSITE = (
    "The value of the worst two records, whose gradients have full length and are opposite in "
    "every step: a likelihood ratio test reaches it."
)


@dataclass(frozen=True)
class Method:
    """How a kind of entry is computed under one mechanism.

    Attributes
    ----------
    compute : callable
        Maps the setting and the point to an interval; raises ``ValueError`` out of its range.
    source : Source
    definition : str
        The formula in one line.
    assumptions : tuple of str
    tightness : str
        How close a known attack comes.
    refuse : callable, optional
        Maps the setting and the point to the reason why there is no answer, "" if there is one.
    """

    compute: Compute
    source: Source
    definition: str
    assumptions: tuple[str, ...]
    tightness: str
    refuse: Callable[[Setting, Point | None], str] = lambda setting, point: ""


@dataclass(frozen=True)
class Kind:
    """A kind of entry, the same for every setting.

    Attributes
    ----------
    name : str
    title, question : str
        With ``{at}`` in the place of the point.
    threat_model, unit, direction, riskier : str
        As in :class:`Entry`.
    at : tuple of str
        Keys of ``POINTS`` at which it is asked; empty if it has a single entry.
    needs : tuple of str
        Fields of the setting that it requires.
    gaussian, vmf : Method or None
    attained_by : str
        Kind of the best known attack, or "".
    reversible : bool
        Whether :func:`least_noise` accepts it.
    """

    name: str
    title: str
    question: str
    threat_model: str
    unit: str
    direction: str
    riskier: str
    at: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    gaussian: Method | None = None
    vmf: Method | None = None
    attained_by: str = ""
    reversible: bool = True

    def method(self, setting: Setting) -> Method | None:
        """Return the method for the setting's mechanism."""
        run = setting.run
        if run.guarantee is not None:
            found = _of_guarantee(self, run)
        else:
            found = self.gaussian if run.gaussian else self.vmf
        if found is None or not {ADJACENT, POISSON} & set(found.assumptions):
            return found
        instead = NEIGHBOURS[run.adjacency or "add-remove"]
        said = {ADJACENT: ADJACENT.format(instead), POISSON: POISSON}
        if run.guarantee_of_noise:
            said[POISSON] = run.notes[0]
        elif isinstance(run, CorrelatedRun):
            said[POISSON] = f"Noise correlated between {run.words}."
        if ADJACENT in found.assumptions and run.adjacency == "replace":
            known = _OPPOSITE if run.sampler == "poisson" else _REPLACED
            found = replace(found, tightness=known)
        return replace(found, assumptions=tuple(said.get(a, a) for a in found.assumptions))

    def points(self, setting: Setting) -> Iterator[Point | None]:
        """Yield the points at which the setting asks, None for a kind without points."""
        if not self.at:
            yield None
        for name in self.at:
            for value in setting.asked(name):
                yield Point(name, value)


#: kinds that follow from a guarantee alone, by what it says of a test or of a guess
FROM_GUARANTEE = (
    "epsilon", "power", "membership_advantage", "rero", "rero_advantage", "sphere_success",
    "box_success", "pixel_success", "people_recognised", "people_named", "people_named_most",
    "people_rebuilt", "people_rebuilt_most",
)  # fmt: skip


#: what is known of their lower ends
_ATTAINED = "The upper end is proven; attacks on some data reach the lower."
_NAMED = (
    "The upper end is proven; the lower is the bound of releases that some data make. Two "
    "candidates attain that; more need not."
)
_KNOWN = dict.fromkeys(("epsilon", "power", "membership_advantage", "people_recognised"), _ATTAINED)
_KNOWN |= dict.fromkeys(("rero", "rero_advantage", "people_named", "people_named_most"), _NAMED)


def _of_guarantee(kind: Kind, run: TrainingRun) -> Method | None:
    """Return how a kind follows from a guarantee, None if it does not."""
    if kind.gaussian is None or run.guarantee is None:
        return None
    if run.guarantee_of_noise and kind.name in TOLD:
        return kind.gaussian
    if kind.name not in FROM_GUARANTEE:
        return None
    found = replace(
        kind.gaussian,
        source=Source("", "Trade-off curve of the guarantee", "", _FUNCTION),
        definition="gamma(kappa) of the guarantee: one minus its trade-off curve",
    )
    if run.guarantee_of_noise:
        return replace(found, tightness=_KNOWN.get(kind.name, found.tightness))
    of_mechanism = (ADJACENT, POISSON, ANY_NETWORK, ONE_SIDED)
    return replace(
        found,
        assumptions=(
            f"The mechanism keeps {run.guarantee.description}, and nothing else is known of it.",
            *(a for a in kind.gaussian.assumptions if a not in of_mechanism),
        ),
        tightness="Some mechanism with this guarantee allows as much; yours may allow less.",
    )


#: kinds whose attacker is told which steps took the record, so that their number alone matters
TOLD = (
    "mse_one_step", "mse", "mse_shrunk", "mse_single_row", "mse_tail_one_step", "mse_tail",
    "mse_tail_shrunk", "best_tail", "psnr", "psnr_tail", "ncc", "ncc_tail", "direction_error",
    "information_any_network", "mse_any_network",
)  # fmt: skip

_FUNCTION = "reconrisk.bounds.ApproximateDP"


def _refuse_composed(kind: Kind, run: TrainingRun) -> str:
    """Return why a kind has no answer for several phases, or for groups; "" if it has one."""
    sampled = run.sampling_rate < 1.0
    if run.phases and kind.threat_model == "prior_free":
        return "is computed for one noise multiplier and sampling rate: assess each phase by itself"
    if run.phases and kind.name == "bayes_success":
        return "the best attack is computed for one noise multiplier and sampling rate"
    per_group = kind.name == "bayes_success" or kind.name in _BY_INFORMATION
    if run.group_size > 1 and sampled and per_group:
        return "is computed for single records, not for groups, on a sub-sampled run"
    return ""


_BY_INFORMATION = ("information_any_network", "information_secret_steps", "mse_any_network")


def log_prior(point: Point | None) -> float:
    """Return the logarithm of the prior success at a point."""
    assert point is not None
    return float(point.value) if point.name == "log_prior" else -math.log(point.value)


def compute_entry(kind: Kind, setting: Setting, point: Point | None) -> Entry:
    """Compute the entry of a kind for a setting; its status says whether it has a value."""
    of_guarantee = setting.run.guarantee is not None and not setting.run.guarantee_of_noise
    if of_guarantee and kind.direction == "exact":
        # of the worst mechanism with this guarantee
        what = "leakage" if kind.unit == "nats" else "success"
        kind = replace(kind, direction=f"upper bound on {what}")
    method = kind.method(setting)
    missing = tuple(name for name in kind.needs if setting.get(name) is None)
    nothing = Interval(None, None)
    if method is None and setting.run.guarantee is not None:
        words = setting.run.guarantee.description
        reason = f"does not follow from {words} alone"
        if not setting.run.guarantee_of_noise:
            reason += ": it needs the noise"
        return _entry(kind, None, point, nothing, reason)
    if method is None:
        name = "Gaussian" if setting.run.gaussian else "von Mises-Fisher"
        return _entry(kind, None, point, nothing, f"nothing is known for {name} noise")
    if missing:
        return _entry(kind, method, point, nothing, f"needs {', '.join(missing)}", missing)
    if kind.name in TOLD:
        setting = replace(setting, run=setting.run.as_told)
    reason = _refuse_composed(kind, setting.run) or method.refuse(setting, point)
    if reason:
        return _entry(kind, method, point, nothing, reason)
    try:
        interval = method.compute(setting, point)
    except ValueError as error:
        return _entry(kind, method, point, nothing, str(error), status="out of range")
    return _entry(kind, method, point, interval, status="ok")


def _entry(
    kind: Kind,
    method: Method | None,
    point: Point | None,
    interval: Interval,
    reason: str = "",
    missing: tuple[str, ...] = (),
    status: str = "not applicable",
) -> Entry:
    at = () if point is None else ((point.name, point.value),)
    words = "" if point is None else _PHRASES[point.name](point.value)
    direction, tightness = kind.direction, "" if method is None else method.tightness
    if direction.startswith("exact") and interval.wide:
        direction = direction.replace("exact", "enclosed")
        tightness = f"Certified at both ends; the value lies between them. {tightness}"
    return Entry(
        kind=kind.name,
        at=at,
        threat_model=kind.threat_model,
        title=kind.title.format(at=words),
        question=kind.question.format(at=words),
        status=status,
        reason=reason,
        missing=missing,
        lower=interval.lower,
        upper=interval.upper,
        log_lower=interval.log_lower,
        log_upper=interval.log_upper,
        unit=kind.unit,
        direction=direction,
        riskier=kind.riskier,
        definition="" if method is None else method.definition,
        assumptions=() if method is None else method.assumptions,
        source=None if method is None else method.source,
        tightness=tightness,
        attained_by=entry_key(kind.attained_by, at) if kind.attained_by else None,
    )
