"""The entries of a report, each with its attacker, its source and its enclosure."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

__all__ = ["DIRECTIONS", "THREAT_MODELS", "Entry", "Interval", "Source", "ThreatModel", "entry_key"]

_TINY = 5e-324
_ULP = 2.0**-52
#: relative width from which a value is not called exact
_WIDE = 1e-3


@dataclass(frozen=True)
class ThreatModel:
    """An attacker that an entry of the report binds.

    Attributes
    ----------
    key, title : str
    sees, knows, success : str
        What is released to the attacker, what it knows besides, and what counts as success; phrases
        without a full stop.
    page : str
        Page of the book, without its suffix.
    """

    key: str
    title: str
    sees: str
    knows: str
    success: str
    page: str


_THREATS = (
    ThreatModel(
        "membership",
        "Was this record in the training set?",
        "every noisy gradient, or the model after every step",
        "the record, and all other records",
        "telling apart training with the record from training on the neighbouring data",
        "papers/hayes2023",
    ),
    ThreatModel(
        "matching",
        "Which of these candidates was it?",
        "every noisy gradient",
        "all other records, and a list of candidates that holds the right one",
        "naming the right candidate",
        "papers/hayes2023",
    ),
    ThreatModel(
        "people",
        "How many of the records at once?",
        "every noisy gradient of one run on all of them",
        "what the attackers above know of one record, and nothing that makes two depend",
        "the number of records that are recognised, named or rebuilt",
        "papers/hayes2023",
    ),
    ThreatModel(
        "any_attack",
        "How near can anyone come to a record drawn at random?",
        "every noisy gradient of any network",
        "all other records, and the law that the record was drawn from",
        "a reconstruction within an error",
        "papers/beyond",
    ),
    ThreatModel(
        "prior_free",
        "What does the analytic attack read off a linear layer?",
        "every noisy gradient of a linear layer that the attacker put in front",
        "the dimension of a record, and nothing of its contents",
        "a small error, or a large correlation",
        "papers/mean_to_extreme",
    ),
    ThreatModel(
        "information",
        "How much does the output say about the record?",
        "every noisy gradient",
        "all other records, and a list of candidates that holds the right one",
        "naming the right candidate",
        "papers/hayes2023",
    ),
    ThreatModel(
        "capacity",
        "By how much can one release raise anybody's chance?",
        "one noisy gradient, or all of them",
        "anything: the bound holds for every prior and every gain",
        "any gain, over what it was before the release",
        "papers/biswas2024",
    ),
    ThreatModel(
        "unbiased",
        "How exact can an unbiased reconstruction be?",
        "every noisy gradient",
        "anything, but its estimate is unbiased",
        "a small mean squared error",
        "papers/hayes2023",
    ),
    ThreatModel(
        "network",
        "What does the gradient of a two-layer network allow?",
        "one noisy batch gradient of a two-layer network with known weights",
        "the size of the batch",
        "a small error of the batch in its best order",
        "papers/liu2024",
    ),
)

#: Threat models of the report by key, in its order.
THREAT_MODELS = MappingProxyType({t.key: t for t in _THREATS})

#: what the values of ``Entry.direction`` mean, as a report says it
DIRECTIONS = MappingProxyType(
    {
        "exact": "value for the worst record",
        "enclosed": "certified interval, worst record",
        "exact for one attack": "one known attack, no bound",
        "enclosed for one attack": "certified interval, one known attack",
        "upper bound on success": "no attack does better",
        "upper bound on leakage": "no attack learns more",
        "lower bound on error": "no such attack errs less",
        "success of the best known attack": "best known attack",
        "order of an error": "only ratios mean anything",
    }
)


@dataclass(frozen=True)
class Source:
    """Where a formula comes from.

    Attributes
    ----------
    paper : str
        Key of the paper, "beyond" for our own, "" for an outside source named in ``place``.
    place : str
        Theorem, equation or section.
    label : str
        Anchor in the book, or "".
    function : str
        The library's function that computes it.
    """

    paper: str
    place: str
    label: str
    function: str


@dataclass(frozen=True)
class Interval:
    """An enclosure of a value, with logarithms for probabilities and for bounds that underflow.

    None on a side means that no finite number bounds the value there.
    """

    lower: float | None
    upper: float | None
    log_lower: float | None = None
    log_upper: float | None = None

    @property
    def wide(self) -> bool:
        """Whether its ends differ in their first three digits."""
        low, high = self.log_lower, self.log_upper
        if low is not None and high is not None:
            return high - low > _WIDE
        if self.lower is None or self.upper is None:
            return self.lower is not self.upper
        return self.upper - self.lower > _WIDE * max(abs(self.lower), abs(self.upper))

    @classmethod
    def of(cls, lower: float, upper: float) -> Interval:
        """Return the interval between two numbers; raise ValueError if one is nan."""
        return cls(_finite(lower), _finite(upper))

    @classmethod
    def exactly(cls, value: float) -> Interval:
        """Return the interval of a single number, from a closed form."""
        return cls.of(value, value)

    @classmethod
    def of_log(cls, value: Any) -> Interval:
        """Return the interval of one log probability, from a closed form."""
        return cls.of_logs(float(value), float(value))

    @classmethod
    def of_logs(cls, low: float, high: float) -> Interval:
        """Return the interval of two log probabilities, with the probabilities rounded outwards."""
        low, high = _not_nan(low), min(_not_nan(high), 0.0)
        lower = max(math.exp(low) * (1.0 - 4.0 * _ULP) - _TINY, 0.0)
        upper = min(math.exp(high) * (1.0 + 4.0 * _ULP) + _TINY, 1.0)
        if low == high:
            lower = upper = math.exp(high)
        if high == -math.inf:
            upper = 0.0
        return cls(lower, upper, _finite(low), _finite(high))


def _not_nan(value: float) -> float:
    value = float(value)
    if math.isnan(value):
        raise ValueError("the value must be in the range of floats; got nan")
    return value


def _finite(value: float) -> float | None:
    value = _not_nan(value)
    return value if math.isfinite(value) else None


def entry_key(kind: str, at: tuple[tuple[str, float], ...]) -> str:
    """Return the name of an entry: ``rero[prior_size=10]``."""
    return kind if not at else f"{kind}[{', '.join(f'{k}={v!r}' for k, v in at)}]"


@dataclass(frozen=True)
class Entry:
    """One answer of a report.

    Attributes
    ----------
    kind : str
        A key of :data:`KINDS`.
    at : tuple of (str, number)
        The point at which the question is asked, as ``(("prior_size", 10),)``; may be empty.
    threat_model : str
        A key of :data:`THREAT_MODELS`.
    title, question : str
        A short name, and the question in a sentence with its numbers.
    status : {"ok", "not applicable", "out of range"}
    reason : str
        Why the status is not "ok"; "" if it is.
    missing : tuple of str
        Settings that the entry requires and that were not given.
    lower, upper : float or None
        Enclose the value; equal for closed forms; None where there is no finite bound.
    log_lower, log_upper : float or None
        Natural logarithms, of probabilities and of bounds that underflow. None also stands for
        ``-inf``: the value is zero.
    unit : str
        Unit of the value, such as "probability", "nats" or "dB".
    direction : str
        Meaning of the value: "upper bound on success", "upper bound on leakage", "lower bound on
        error", "exact for one attack", "success of the best known attack", "exact", "order of an
        error". "enclosed" stands for "exact" where the two ends differ in their first three
        digits.
    riskier : {"larger", "smaller"}
        Direction in which the value moves as the risk grows.
    definition : str
        The formula in one line.
    assumptions : tuple of str
    source : Source or None
    tightness : str
        How close a known attack comes.
    attained_by : str or None
        Key of the entry of the best known attack, if the report has it.
    """

    kind: str
    at: tuple[tuple[str, float], ...]
    threat_model: str
    title: str
    question: str
    status: str
    reason: str
    missing: tuple[str, ...]
    lower: float | None
    upper: float | None
    log_lower: float | None
    log_upper: float | None
    unit: str
    direction: str
    riskier: str
    definition: str
    assumptions: tuple[str, ...]
    source: Source | None
    tightness: str
    attained_by: str | None

    @property
    def key(self) -> str:
        """The entry's name within its report."""
        return entry_key(self.kind, self.at)

    @property
    def ok(self) -> bool:
        """Whether the entry has a value."""
        return self.status == "ok"

    @property
    def value(self) -> float | None:
        """The end of the interval on the safe side, where the risk is larger; None if unbounded."""
        return self.upper if self.riskier == "larger" else self.lower

    @property
    def log_value(self) -> float | None:
        """The logarithm of :attr:`value`, where it is given."""
        return self.log_upper if self.riskier == "larger" else self.log_lower

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as strings, numbers, None, lists and dictionaries, ready for JSON."""
        fields = asdict(self)
        fields["at"] = dict(self.at)
        fields["assumptions"], fields["missing"] = list(self.assumptions), list(self.missing)
        return {"key": self.key, **fields}
