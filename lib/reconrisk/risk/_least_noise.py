"""The other way round: the least noise for a stated risk."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scipy import optimize

from reconrisk._types import DPSGD
from reconrisk.risk._assess import KINDS, setting_of
from reconrisk.risk._kinds import POINTS, Kind, Point, Setting, work_out
from reconrisk.risk._report import Entry
from reconrisk.risk._settings import (
    LEAST_NOISE,
    MOST_CONCENTRATION,
    MOST_NOISE,
    Questions,
    Record,
    SettingError,
    TrainingRun,
    TwoLayerModel,
    number,
    questions,
)

__all__ = ["LeastNoise", "least_noise"]

#: relative distance to the least noise at which the search ends
_CLOSE = 1e-7
_CLOSE_NUMERIC = 1e-5
#: excess of an entry that has no value
_FAR_BEYOND = 100.0


@dataclass(frozen=True)
class LeastNoise:
    """The least noise for a stated risk; made by :func:`least_noise`.

    Attributes
    ----------
    kind : str
    limit : float
        What was asked for.
    run : TrainingRun
        With the noise found.
    entry : Entry
        The kind's entry for that run; it meets the limit.
    any_noise : bool
        Whether even the least noise that is searched, 1e-6, or the largest concentration, 1e5,
        meets the limit.
    """

    kind: str
    limit: float
    run: TrainingRun
    entry: Entry
    any_noise: bool

    @property
    def noise_multiplier(self) -> float | None:
        """The noise found, None for von Mises-Fisher noise."""
        return self.run.noise_multiplier

    @property
    def concentration(self) -> float | None:
        """The concentration found, None for Gaussian noise."""
        return self.run.concentration


def least_noise(
    kind: str,
    limit: float,
    run: TrainingRun | DPSGD,
    record: Record | None = None,
    *,
    at: float | None = None,
    model: TwoLayerModel | None = None,
) -> LeastNoise:
    """Find the least noise at which an entry of the report is no riskier than a limit.

    Parameters
    ----------
    kind : str
        A key of :data:`KINDS` whose ``reversible`` is true: "epsilon", "rero", "mse_tail", "mse",
        "psnr_tail" and so on.
    limit : float
        The most (or, where risk grows as the value falls, the least) that is accepted, in the
        kind's unit.
    run : TrainingRun or DPSGD
        The run; its noise is ignored, its delta is used.
    record : Record, optional
        As in :func:`assess`.
    at : float, optional
        Number of candidates, threshold or false positive rate, for kinds that are asked at one; a
        negative number is the logarithm of a prior success where candidates are asked for.
    model : TwoLayerModel, optional
        As in :func:`assess`.

    Returns
    -------
    LeastNoise
        Its entry meets the limit; the noise is above the least one by about 1e-7 of itself, by
        about 1e-4 where the bound is found numerically.

    Raises
    ------
    SettingError
        If the kind is unknown or not reversible, a setting that it needs is missing, a value is out
        of its range, or no noise meets the limit: a noise multiplier up to 1e6, a concentration
        down to 1e-6.

    Notes
    -----
    Ten to twenty entries of the kind: milliseconds for closed forms, about a second where
    sub-sampled runs are composed numerically.

    Examples
    --------
    >>> from reconrisk import risk
    >>> run = risk.training_run(noise_multiplier=1.0, steps=100)
    >>> found = risk.least_noise("rero", 0.2, run, at=10)
    >>> f"{found.noise_multiplier:.3f}", found.entry.value <= 0.2
    ('22.731', True)
    """
    setting = setting_of(run, record, None, model)
    chosen = _kind(kind)
    value = number("limit", limit, -1e300, 1e300)
    if chosen.unit == "probability":
        value = number("limit", limit, 0, 1, low_open=True, high_open=True)
    point = _point(chosen, at)
    if point is not None:
        setting = replace(setting, questions=_asked(point.name, point.value))
    entry = work_out(chosen, setting, point)
    if entry.status == "not applicable":
        raise SettingError(
            entry.missing[0] if entry.missing else "kind",
            None if entry.missing else kind,
            f"given for {kind}" if entry.missing else f"applicable to this run: {entry.reason}",
        )
    return _search(chosen, value, setting, point)


def _kind(name: str) -> Kind:
    able = [k.name for k in KINDS.values() if k.reversible]
    if not isinstance(name, str) or name not in able:
        raise SettingError("kind", name, f"one of {', '.join(able)}")
    return KINDS[name]


def _point(kind: Kind, at: float | None) -> Point | None:
    if not kind.at:
        if at is not None:
            raise SettingError("at", at, f"left out for {kind.name}")
        return None
    if at is None:
        raise SettingError("at", None, f"given for {kind.name}: a {kind.at[0]}")
    value = number("at", at, -1e300, 1e300)
    name = "log_prior" if "log_prior" in kind.at and value < 0 else kind.at[0]
    try:
        asked = _asked(name, at)
    except SettingError as error:
        raise SettingError("at", at, f"a {name}, {error.expected}") from None
    return Point(name, getattr(asked, POINTS[name])[0])


def _asked(name: str, value: object) -> Questions:
    """Questions that ask one kind of question at one value."""
    fields: dict[str, Any] = {POINTS[name]: [value]}
    return questions(**fields)


def _with_noise(run: TrainingRun, log_noise: float) -> TrainingRun:
    """A run of another noise; of von Mises-Fisher noise the inverse of the concentration."""
    if run.gaussian:
        return replace(run, noise_multiplier=min(max(math.exp(log_noise), LEAST_NOISE), MOST_NOISE))
    kappa = min(max(math.exp(-log_noise), LEAST_NOISE), MOST_CONCENTRATION)
    return replace(run, concentration=kappa)


def _search(kind: Kind, limit: float, setting: Setting, point: Point | None) -> LeastNoise:
    @functools.cache
    def entry_at(log_noise: float) -> Entry:
        run = _with_noise(setting.run, log_noise)
        return work_out(kind, replace(setting, run=run), point)

    least = math.log(LEAST_NOISE if setting.run.gaussian else 1.0 / MOST_CONCENTRATION)
    most = math.log(MOST_NOISE if setting.run.gaussian else 1.0 / LEAST_NOISE)
    found = _root(lambda x: _excess(entry_at(x), limit), least, most, _closeness(kind, setting))
    if found is None:
        end = entry_at(most)
        reached = end.value if end.ok else end.reason
        raise SettingError(
            "limit",
            limit,
            f"within reach: at the most noise that is searched {kind.name} is {reached!r}",
        )
    run = _with_noise(setting.run, found)
    return LeastNoise(kind.name, limit, run, entry_at(found), found <= least)


def _closeness(kind: Kind, setting: Setting) -> float:
    closed = setting.run.gaussian and setting.run.sampling_rate == 1.0
    numeric = kind.threat_model in ("membership", "matching", "any_attack") and not closed
    return _CLOSE_NUMERIC if numeric else _CLOSE


def _excess(entry: Entry, limit: float) -> float:
    """How far an entry is beyond the limit, on a scale on which it varies slowly."""
    if not entry.ok or entry.value is None:
        return _FAR_BEYOND
    sign = 1.0 if entry.riskier == "larger" else -1.0
    if limit > 0.0 and entry.value > 0.0:
        return sign * (math.log(entry.value) - math.log(limit))
    return sign * (entry.value - limit)


def _root(
    excess: Callable[[float], float], least: float, most: float, close: float
) -> float | None:
    """Where a falling function comes to zero, from the side on which it is not positive, or None.

    The search comes from large noise, where every bound is quick.
    """
    decade, octave = math.log(10.0), math.log(2.0)
    high, low = min(3.0 * decade, most), least
    at_high = excess(high)
    while at_high > 0.0:
        if high >= most:
            return None
        high = min(high + decade, most)
        at_high = excess(high)
    while high > least:
        # small noise makes the numerical bounds slow: not far beyond the root
        low = max(high - (decade if high > 0.5 * decade else octave), least)
        at_low = excess(low)
        if at_low > 0.0:
            break
        high, at_high = low, at_low
    else:
        return least
    found = float(optimize.brentq(excess, low, high, xtol=0.1 * close, rtol=1e-14, maxiter=60))
    step = close
    while found < high and excess(found) > 0.0:
        found, step = min(found + step, high), 2.0 * step
    return found
