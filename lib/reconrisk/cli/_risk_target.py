"""The least noise that keeps a risk to a limit: ``--target success=0.1 --prior-size 10``."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING

from reconrisk.cli._risk_file import scalar
from reconrisk.risk._numbers import number, short

if TYPE_CHECKING:
    from reconrisk.cli._risk_inputs import CliInputs
    from reconrisk.risk import Kind, LeastNoise, Questions, TrainingRun

__all__ = ["at_least_noise"]

#: the note on a run that was given in phases
_PHASES = re.compile(r"[0-9,]+ phases: ")


def at_least_noise(setting: CliInputs, target: str, at: str | None) -> CliInputs:
    """Return the inputs with the least noise that meets a target.

    Parameters
    ----------
    setting : CliInputs
        Its own noise is ignored.
    target : str
        ``KIND=LIMIT``.
    at : str or None
        The point at which the kind is asked; by default the single value of its question.

    Raises
    ------
    ValueError
        If the target is malformed, or no noise meets it.
    """
    from reconrisk import risk
    from reconrisk.risk._correlated import CorrelatedRun

    kind, limit = _parse_target(target)
    point = _point(kind, setting, at)
    found = risk.least_noise(
        kind.name, limit, setting.run, setting.record, at=point, model=setting.model
    )
    run, value = _round_noise(found)
    noisy = run.noise_multiplier is not None
    name = "noise multiplier" if noisy else "concentration"
    word = "least" if noisy else "largest"
    side = "at most" if kind.riskier == "larger" else "at least"
    kept = f"keeps '{found.entry.title}' {side} {limit:g}"
    if float(number(limit)) != limit:
        kept += " (reports round to three digits)"
    noise = f"{name.capitalize()} {value}"
    if isinstance(run, CorrelatedRun):
        noise += " before it is decoded"
    answer = f"{noise}: the {word} that {kept}."
    if found.any_noise:
        answer = f"{noise}: any noise {kept}, and this is the least searched."
    elif not _breaks_with_less(found, kind, limit, setting):
        answer = f"{noise}: the {word} proven to keep{kept.removeprefix('keeps')}."
    if any(_PHASES.match(note) for note in run.notes):
        answer += _of_phases(setting.run, run)
        notes = (f"As given: {n}" if _PHASES.match(n) else n for n in run.notes)
        run = replace(run, notes=tuple(notes))
    return replace(
        setting, run=run, questions=_with_point(setting.questions, found.entry.at), answer=answer
    )


def _of_phases(given: TrainingRun, found: TrainingRun) -> str:
    """Say which noise of several phases was found."""
    if found.phases:
        return " It is that of the phase with the least; those of all phases are in proportion."
    # on the full batch, phases say as much as equal steps, and are reported as these
    assert given.noise_multiplier is not None and found.noise_multiplier is not None
    factor = _digits(found.noise_multiplier / given.noise_multiplier, ROUND_CEILING)
    return (
        f" It is the same in all {found.steps:,} steps; phases as they were given do as well with "
        f"{factor} times their noise."
    )


def _breaks_with_less(found: LeastNoise, kind: Kind, limit: float, setting: CliInputs) -> bool:
    """Whether a hundredth less noise is known to miss the limit; one end alone does not tell."""
    from reconrisk import risk
    from reconrisk.risk._kinds import Point, compute_entry

    if found.entry.lower is None or found.entry.upper is None:
        return True  # a bound is all that is asked
    try:
        less = _with_noise(found.run, 0.99)
    except ValueError:  # so little noise is not searched
        return False
    point = Point(*found.entry.at[0]) if found.entry.at else None
    asked = risk.Setting(less, setting.record, setting.questions, setting.model)
    entry = compute_entry(kind, asked, point)
    end = entry.lower if kind.riskier == "larger" else entry.upper
    return end is not None and (end > limit if kind.riskier == "larger" else end < limit)


def _with_noise(run: TrainingRun, factor: float) -> TrainingRun:
    """Return a run with its noise, or one over its concentration, times a factor."""
    from reconrisk.risk._correlated import given_noise
    from reconrisk.risk._least_noise import with_given_noise

    noise = given_noise(run)
    if noise is not None:
        return with_given_noise(run, factor * noise)
    assert run.concentration is not None
    return replace(run, concentration=run.concentration / factor)


def _round_noise(found: LeastNoise) -> tuple[TrainingRun, str]:
    """Return the run with its noise rounded to six digits on the safe side, and the digits."""
    from reconrisk.risk._correlated import given_noise
    from reconrisk.risk._least_noise import with_given_noise

    run, noise = found.run, given_noise(found.run)
    if noise is not None:
        value = _digits(noise, ROUND_HALF_EVEN if found.any_noise else ROUND_CEILING)
        return with_given_noise(run, float(value)), value
    assert run.concentration is not None
    value = _digits(run.concentration, ROUND_HALF_EVEN if found.any_noise else ROUND_FLOOR)
    return replace(run, concentration=float(value)), value


def _digits(value: float, way: str) -> str:
    rounded = Context(prec=6, rounding=way).create_decimal(Decimal(repr(value)))
    return str(rounded.normalize())


def _with_point(questions: Questions, at: tuple[tuple[str, float], ...]) -> Questions:
    """Add the target's point to the questions, so that the report shows that it is met."""
    from reconrisk import risk

    for name, value in at:
        field = risk.POINTS[name]
        values = getattr(questions, field) or ()
        if value not in values:
            questions = replace(questions, **{field: (*values, value)})
    return questions


def _parse_target(target: str) -> tuple[Kind, float]:
    from reconrisk.risk._least_noise import reversible_kinds

    known = reversible_kinds()
    name, equals, text = target.partition("=")
    name = name.strip()
    if not equals:
        raise ValueError(f"--target must be RISK=LIMIT, such as epsilon=2; got {target!r}")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"--target must name one of {', '.join(known)}; got {name!r}{hint}")
    limit = scalar(text.strip())
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        raise ValueError(f"--target {name} must have a number as its limit; got {text!r}")
    return known[name], limit


def _point(kind: Kind, setting: CliInputs, at: str | None) -> float | None:
    from reconrisk import risk

    if not kind.at:
        if at is not None:
            raise ValueError(f"--at must be left out with {kind.name}; got {at!r}")
        return None
    what = kind.at[0].replace("_", " ")
    if at is not None:
        value = scalar(at)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"--at must be a number, the {what} of the target; got {at!r}")
        return value
    asked = risk.Setting(setting.run, setting.record, setting.questions).asked(kind.at[0])
    if len(asked) == 1:
        return asked[0]
    several = ", ".join(map(short, asked)) or "none"
    raise ValueError(f"--at must say at which {what} the target holds; the report has {several}")
