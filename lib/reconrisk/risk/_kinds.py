"""What a kind of entry is, and how one is worked out for a setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from reconrisk.risk._report import Entry, Interval, Source, entry_key
from reconrisk.risk._settings import Questions, Record, TrainingRun, TwoLayerModel

__all__ = ["POINTS", "Compute", "Kind", "Method", "Point", "Setting", "log_prior", "work_out"]

#: What a question is asked at, and the field of the questions that holds the values asked.
POINTS = {
    "prior_size": "prior_sizes",
    "log_prior": "log_priors",
    "false_positive_rate": "false_positive_rates",
    "mse": "mse",
    "psnr": "psnr",
    "ncc": "ncc",
    "pixel_share": "pixel_shares",
}

#: how the values of a question are written in a sentence
_WORDS = {
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
    """All that an entry is worked out from."""

    run: TrainingRun
    record: Record = Record()
    questions: Questions = Questions()
    model: TwoLayerModel | None = None

    def get(self, name: str) -> object:
        """Return a setting by its name, None if it is not known."""
        for part in (self.run, self.record, self.model):
            if hasattr(part, name) and getattr(part, name) is not None:
                return getattr(part, name)
        return self.model if name == "model" else None

    def need(self, name: str) -> float:
        """Return a number that is known to be given."""
        value = self.get(name)
        assert isinstance(value, (int, float))
        return value

    def asked(self, name: str) -> tuple[float, ...]:
        """Return the values of a question at which to answer."""
        if name == "mse" and self.questions.mse is None:
            span = self.record.data_range
            return () if span is None else (0.01 * span * span,)
        return getattr(self.questions, POINTS[name])


@dataclass(frozen=True)
class Point:
    """Where a question is asked: a name of a question's values and one of them."""

    name: str
    value: float


Compute = Callable[[Setting, Point | None], Interval]


@dataclass(frozen=True)
class Method:
    """How a kind is worked out under one mechanism.

    Attributes
    ----------
    compute : callable
        Of the setting and the point; raises ``ValueError`` where it cannot.
    source : Source
    definition : str
    assumptions : tuple of str
    tightness : str
    refuse : callable, optional
        Says why there is no answer for a setting, or "".
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
        With ``{at}`` where the point stands.
    threat_model, unit, direction, riskier : str
        As in :class:`Entry`.
    at : tuple of str
        Names of the questions' values at which it is asked; empty for one entry.
    needs : tuple of str
        Settings that it cannot do without.
    gaussian, vmf : Method or None
    attained_by : str
        Kind of the best attack known, or "".
    reversible : bool
        Whether noise can be chosen by it.
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
    vmf: Method | None = field(default=None)
    attained_by: str = ""
    reversible: bool = True

    def method(self, setting: Setting) -> Method | None:
        """Return the method of the setting's mechanism."""
        return self.gaussian if setting.run.gaussian else self.vmf

    def points(self, setting: Setting) -> Iterator[Point | None]:
        """Go through the points at which the setting asks."""
        if not self.at:
            yield None
        for name in self.at:
            for value in setting.asked(name):
                yield Point(name, value)


def log_prior(point: Point | None) -> float:
    """The logarithm of the prior success that a point stands for."""
    assert point is not None
    return float(point.value) if point.name == "log_prior" else -math.log(point.value)


def work_out(kind: Kind, setting: Setting, point: Point | None) -> Entry:
    """Return the entry of a kind for a setting, whatever becomes of it."""
    method = kind.method(setting)
    missing = tuple(name for name in kind.needs if setting.get(name) is None)
    nothing = Interval(None, None)
    if method is None:
        name = "Gaussian" if setting.run.gaussian else "von Mises-Fisher"
        return _entry(kind, None, point, nothing, f"nothing is known for {name} noise")
    if missing:
        return _entry(kind, method, point, nothing, f"needs {', '.join(missing)}", missing)
    reason = method.refuse(setting, point)
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
    words = "" if point is None else _WORDS[point.name](point.value)
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
        direction=kind.direction,
        riskier=kind.riskier,
        definition="" if method is None else method.definition,
        assumptions=() if method is None else method.assumptions,
        source=None if method is None else method.source,
        tightness="" if method is None else method.tightness,
        attained_by=entry_key(kind.attained_by, at) if kind.attained_by else None,
    )
