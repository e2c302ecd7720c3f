"""The inverse of the report: the least noise for a stated risk."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scipy import optimize

from reconrisk._types import DPSGD
from reconrisk.privacy._phases import grouped_runs
from reconrisk.privacy._samplers import LEAST_SAMPLED_NOISE
from reconrisk.risk._catalogue import KINDS
from reconrisk.risk._correlated import CorrelatedRun, given_noise
from reconrisk.risk._entries import Entry
from reconrisk.risk._kinds import POINTS, Kind, Point, Setting, compute_entry, setting_of
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
    training_run,
)

__all__ = ["LeastNoise", "least_noise", "reversible_kinds", "with_given_noise"]

#: common names for kinds of entries
_COMMON_NAMES = {"success": "rero"}
#: relative accuracy of the noise found
_ACCURACY = 1e-7
_ACCURACY_NUMERIC = 1e-5
#: excess assigned to an entry without a value
_NO_VALUE_EXCESS = 100.0


@dataclass(frozen=True)
class LeastNoise:
    """The least noise for a stated risk; made by :func:`least_noise`.

    Attributes
    ----------
    kind : str
    limit : float
        The limit asked for.
    run : TrainingRun
        With the noise found.
    entry : Entry
        The kind's entry for that run; it meets the limit.
    any_noise : bool
        Whether even the least noise multiplier searched, 1e-6 (0.05 with a sampler other than
        Poisson's), or the largest concentration, 1e5, meets the limit.
    """

    kind: str
    limit: float
    run: TrainingRun
    entry: Entry
    any_noise: bool

    @property
    def noise_multiplier(self) -> float | None:
        """The noise multiplier found; None under von Mises-Fisher noise.

        Of several phases the least. Of correlated noise that before it is decoded, as
        :func:`correlated_run` takes it: that of ``run`` is of the run of DP-SGD that says as much.
        """
        return given_noise(self.run)

    @property
    def concentration(self) -> float | None:
        """The concentration found; None under Gaussian noise."""
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
        A key of :data:`KINDS` whose ``reversible`` is true: "epsilon", "rero" (or "success"),
        "mse_tail", "mse", "psnr_tail" and so on.
    limit : float
        The largest (where risk grows as the value falls, the smallest) accepted value, in the unit
        of the kind.
    run : TrainingRun or DPSGD
        The run; its noise is ignored, its delta is used. A guarantee alone has no noise to search.
    record : Record, optional
        As in :func:`assess`.
    at : float, optional
        Number of candidates, threshold or false positive rate, for kinds that depend on one. Where
        it is a number of candidates, a negative value is the logarithm of a prior success.
    model : TwoLayerModel, optional
        As in :func:`assess`.

    Returns
    -------
    LeastNoise
        Its entry meets the limit. The noise exceeds the least one by a relative 1e-7, or 1e-4 where
        the bound is computed numerically.

    Raises
    ------
    SettingError
        If the kind is unknown or not reversible, a setting that it needs is missing, a value is out
        of its range, or no noise multiplier up to 1e6 (concentration down to 1e-6) meets the limit.

    Notes
    -----
    Cost: ten to twenty entries of the kind, which is milliseconds for closed forms and about a
    second where sub-sampled runs are composed numerically, or some with other samplers.

    Examples
    --------
    >>> from reconrisk import risk
    >>> run = risk.training_run(noise_multiplier=1.0, sampling_rate=1.0, steps=100)
    >>> found = risk.least_noise("rero", 0.2, run, at=10)
    >>> f"{found.noise_multiplier:.3f}", found.entry.value <= 0.2
    ('22.731', True)
    """
    setting = setting_of(run, record, None, model)
    chosen = _kind(kind)
    if setting.run.guarantee is not None and not setting.run.guarantee_of_noise:
        raise SettingError(
            "run",
            setting.run.guarantee.description,
            "a mechanism with noise, not a guarantee alone",
        )
    value = number("limit", limit, -1e300, 1e300)
    if chosen.unit == "probability":
        value = number("limit", limit, 0, 1, low_open=True, high_open=True)
    point = _point(chosen, at)
    if point is not None:
        setting = replace(setting, questions=_question_at(point.name, point.value))
    entry = compute_entry(chosen, setting, point)
    if entry.status == "not applicable":
        raise SettingError(
            entry.missing[0] if entry.missing else "kind",
            None if entry.missing else kind,
            f"given for {kind}" if entry.missing else f"applicable to this run: {entry.reason}",
        )
    return _search(chosen, value, setting, point)


def reversible_kinds() -> dict[str, Kind]:
    """Return the kinds that a noise can be found for, by name and by common name."""
    kinds = {name: kind for name, kind in KINDS.items() if kind.reversible}
    return {word: kinds[name] for word, name in _COMMON_NAMES.items()} | kinds


def _kind(name: str) -> Kind:
    kinds = reversible_kinds()
    if not isinstance(name, str) or name not in kinds:
        own = [word for word, kind in kinds.items() if word == kind.name]
        raise SettingError("kind", name, f"one of {', '.join(own)}")
    return kinds[name]


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
        asked = _question_at(name, at)
    except SettingError as error:
        raise SettingError("at", at, f"a {name}, {error.expected}") from None
    return Point(name, getattr(asked, POINTS[name])[0])


def _question_at(name: str, value: object) -> Questions:
    """Questions with the value given for one parameter and defaults for the others."""
    fields: dict[str, Any] = {POINTS[name]: [value]}
    return questions(**fields)


def _with_noise(run: TrainingRun, log_noise: float) -> TrainingRun:
    """The run with another noise multiplier, or another inverse concentration."""
    if run.gaussian:
        return run.with_noise(min(max(math.exp(log_noise), LEAST_NOISE), MOST_NOISE))
    if run.guarantee_of_noise:
        least = LEAST_SAMPLED_NOISE * run.sensitivity
        return with_given_noise(run, min(max(math.exp(log_noise), least), MOST_NOISE))
    kappa = min(max(math.exp(-log_noise), LEAST_NOISE), MOST_CONCENTRATION)
    return replace(run, concentration=kappa)


def with_given_noise(run: TrainingRun, noise_multiplier: float) -> TrainingRun:
    """Return a run with another noise multiplier, as it is given to describe the run."""
    if isinstance(run, CorrelatedRun):
        return run.with_noise(noise_multiplier / run.length)
    if not run.guarantee_of_noise:
        return run.with_noise(noise_multiplier)
    # of another sampler than Poisson's, what is proven has to be found anew
    again = training_run(
        noise_multiplier=noise_multiplier,
        sampling_rate=run.sampling_rate,
        steps=run.steps,
        epochs=run.epochs,
        layers=run.layers,
        sampler=run.sampler,
    )
    return replace(run, noise_multiplier=noise_multiplier, guarantee=again.guarantee)


def _search(kind: Kind, limit: float, setting: Setting, point: Point | None) -> LeastNoise:
    # many phases are searched with neighbours counted as their worst, as they are for the entry
    quick = replace(setting.run, phases=grouped_runs(setting.run.phases, True))

    @functools.cache
    def entry_at(log_noise: float) -> Entry:
        run = _with_noise(quick, log_noise)
        return compute_entry(kind, replace(setting, run=run), point)

    least = math.log(LEAST_NOISE if setting.run.gaussian else 1.0 / MOST_CONCENTRATION)
    if setting.run.guarantee_of_noise:
        least = math.log(LEAST_SAMPLED_NOISE * setting.run.sensitivity)
    noisy = setting.run.noise_multiplier is not None
    most = math.log(MOST_NOISE if noisy else 1.0 / LEAST_NOISE)
    found = _root(lambda x: _excess(entry_at(x), limit), least, most, _accuracy(kind, setting))
    if found is None:
        end = entry_at(most)
        reached = end.value if end.ok else end.reason
        raise SettingError(
            "limit",
            limit,
            f"within reach: at the most noise that is searched {kind.name} is {reached!r}",
        )
    run = _with_noise(setting.run, found)
    entry = compute_entry(kind, replace(setting, run=run), point)
    return LeastNoise(kind.name, limit, run, entry, found <= least)


def _accuracy(kind: Kind, setting: Setting) -> float:
    closed = setting.run.gaussian and setting.run.sampling_rate == 1.0
    numeric = kind.threat_model in ("membership", "matching", "any_attack") and not closed
    return _ACCURACY_NUMERIC if numeric else _ACCURACY


def _excess(entry: Entry, limit: float) -> float:
    """How far an entry is beyond the limit, on a logarithmic scale where both are positive."""
    if not entry.ok or entry.value is None:
        return _NO_VALUE_EXCESS
    sign = 1.0 if entry.riskier == "larger" else -1.0
    if limit > 0.0 and entry.value > 0.0:
        return sign * (math.log(entry.value) - math.log(limit))
    return sign * (entry.value - limit)


def _root(
    excess: Callable[[float], float], least: float, most: float, accuracy: float
) -> float | None:
    """Return the root of a decreasing function, where it is not positive; None if there is none.

    The search starts at large noise, where every bound is fast.
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
        # the numerical bounds are slow at small noise: step only a little beyond the root
        low = max(high - (decade if high > 0.5 * decade else octave), least)
        at_low = excess(low)
        if at_low > 0.0:
            break
        high, at_high = low, at_low
    else:
        return least
    found = float(optimize.brentq(excess, low, high, xtol=0.1 * accuracy, rtol=1e-14, maxiter=60))
    if excess(found) == 0.0 and excess(max(found - accuracy, low)) <= 0.0:
        # less noise meets the limit exactly, too: find where that begins
        high = found
        while high - low > accuracy:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
        return high
    step = accuracy
    while found < high and excess(found) > 0.0:
        found, step = min(found + step, high), 2.0 * step
    return found
