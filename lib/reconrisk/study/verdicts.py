"""Verdicts: a computed comparison of what a paper prints or states with what we compute.

A verdict is made by one of four functions and never typed: :func:`check` (a statement as a
predicate), :func:`compare` (printed numbers), :func:`refute` (a wrong statement with the corrected
one), :func:`not_run`. The first three raise :class:`VerdictError` when the outcome is not the one
the study rests on, so a notebook stops there. A run whose tables must not be lost, hours long or on
a user's own images, judges within :func:`failures_kept` or :func:`on_images_given` instead.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass

import numpy as np

__all__ = [
    "STATUSES",
    "Verdict",
    "VerdictError",
    "check",
    "compare",
    "failures_kept",
    "half_unit",
    "not_run",
    "on_images_given",
    "overall",
    "refute",
    "rounded",
]

#: from best to worst; ``overall`` of several is the worst. No notebook stores the last two.
STATUSES = (
    "reproduced",
    "holds on stand-in data",
    "not run here",
    "differs",
    "refuted",
    "pending",
    "failed",
)

#: Monte Carlo standard errors allowed on top of the printed precision (two-sided 6e-5).
STANDARD_ERRORS = 4.0


class VerdictError(AssertionError):
    """A check came out otherwise than the study rests on."""


@dataclass(frozen=True)
class Verdict:
    """What became of one exhibit, claim or erratum.

    Attributes
    ----------
    target : str
        Its id in the registry.
    status : str
        One of ``STATUSES``.
    statement : str
        What was checked, in our words.
    ours, paper, tolerance : str
        The numbers compared (rounded to what they support), and how far apart they may be.
    why : str
        For *differs*, *refuted*, *not run here* and *failed*: the reason, or the corrected
        statement.
    """

    target: str
    status: str
    statement: str
    ours: str = ""
    paper: str = ""
    tolerance: str = ""
    why: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


#: what becomes of an outcome that the study does not rest on: an error unless a block says more
_UNEXPECTED: ContextVar[str] = ContextVar("unexpected", default="")


@contextlib.contextmanager
def failures_kept() -> Iterator[None]:
    """Let a verdict that comes out otherwise than expected be *failed* in this block, not an error.

    For runs that must end with their tables whatever they show; whoever opens the block answers for
    the verdicts of that status.
    """
    token = _UNEXPECTED.set(_UNEXPECTED.get() or "failed")
    try:
        yield
    finally:
        _UNEXPECTED.reset(token)


@contextlib.contextmanager
def on_images_given() -> Iterator[None]:
    """Judge a user's own images in this block: what a paper says of its own need not hold there.

    What holds *holds on stand-in data*, also if it was known to differ elsewhere. What does not
    *differs*, with both values, and is no error.
    """
    token = _UNEXPECTED.set("differs")
    try:
        yield
    finally:
        _UNEXPECTED.reset(token)


def _unexpected(
    target: str, statement: str, outcome: str, ours: str, paper: str, tolerance: str = ""
) -> Verdict:
    status = _UNEXPECTED.get()
    if not status:
        raise VerdictError(f"{target}: {statement}: {outcome} (ours: {ours}; paper: {paper})")
    where = "on the images given, " if status == "differs" else ""
    return Verdict(target, status, statement, ours, paper, tolerance, f"{where}{outcome}")


def _held(stand_in: bool) -> str:
    # on a user's images nothing of a paper is reproduced, whatever a computation thinks of its data
    stands_in = stand_in or _UNEXPECTED.get() == "differs"
    return "holds on stand-in data" if stands_in else "reproduced"


def check(
    target: str,
    holds: bool,
    statement: str,
    *,
    ours: str = "",
    paper: str = "",
    tolerance: str = "",
    stand_in: bool = False,
    differs: str = "",
) -> Verdict:
    """Judge a statement by a computed predicate.

    Parameters
    ----------
    target : str
        Exhibit, claim or erratum id.
    holds : bool
        The predicate's computed value.
    statement : str
        What the predicate says.
    stand_in : bool
        True if the data were not the paper's: the verdict is then *holds on stand-in data*.
    differs : str
        If given, the statement is known not to come out here and this says why; the verdict is
        *differs* when ``holds`` is false, and an error if it suddenly holds.

    Raises
    ------
    VerdictError
        If the outcome is not the expected one, outside :func:`failures_kept` and
        :func:`on_images_given`.
    """
    expected = not differs
    if holds and differs and _UNEXPECTED.get() == "differs":
        expected = True  # the reason it did not hold elsewhere is not met here
    if bool(holds) is not expected:
        outcome = "does not hold" if expected else f"holds after all (expected not to: {differs})"
        return _unexpected(target, statement, outcome, ours, paper, tolerance)
    if expected:
        return Verdict(target, _held(stand_in), statement, ours, paper, tolerance)
    return Verdict(target, "differs", statement, ours, paper, tolerance, differs)


#: 0.25, -3, 38.9%, 38.9\%, 1e-5, 1.0 x 10^-5, 1.0\cdot 10^{-5}, 1.0 \times 10^{5}
_NUMBER = re.compile(
    r"-?(?P<digits>\d*\.?\d+)\s*(?:\\?%"
    r"|[eE](?P<short>[+-]?\d+)"
    r"|(?:\\cdot|\\times|x)\s*10\^(?:(?P<power>-?\d+)|\{(?P<braced>-?\d+)\}))?"
)


def half_unit(printed: str) -> float:
    """Return half a unit of the last digit of a number as it is printed.

    Percentages count in per cent and powers of ten scale the unit.

    Examples
    --------
    >>> half_unit("38.9%"), half_unit("0.0")
    (0.05, 0.05)
    >>> round(half_unit(r"1.0\\cdot 10^{-8}") * 1e10, 6)
    5.0
    """
    match = _NUMBER.fullmatch(printed.strip())
    if match is None:
        raise ValueError(f"printed must be a number as a paper prints it; got {printed!r}")
    decimals = len(match["digits"].partition(".")[2])
    exponent = int(match["short"] or match["power"] or match["braced"] or 0)
    # as a literal, because 10.0 ** n is not always the float nearest to the power of ten
    return float(f"5e{exponent - decimals - 1}")


def compare(
    target: str,
    statement: str,
    ours: Sequence[float],
    printed_value: Sequence[float],
    printed_text: Sequence[str],
    *,
    standard_error: Sequence[float] | float = 0.0,
    differs: str = "",
    stand_in: bool = False,
) -> Verdict:
    """Judge printed numbers one by one.

    The tolerance of each is half a unit of its last printed digit plus ``STANDARD_ERRORS`` of our
    Monte Carlo standard error.

    Raises
    ------
    VerdictError
        If any number is off and ``differs`` is not given, or all fit although it is.
    ValueError
        If the three sequences differ in length or are empty.
    """
    values = np.asarray(ours, dtype=float)
    paper = np.asarray(printed_value, dtype=float)
    if not len(values) == len(paper) == len(printed_text):
        raise ValueError(
            f"ours, printed_value and printed_text must be of one length; got {len(values)}, "
            f"{len(paper)}, {len(printed_text)}"
        )
    if not len(values):
        raise ValueError("ours must hold at least one number to compare; got none")
    allowed = np.array([half_unit(text) for text in printed_text])
    # a printed digit is a decimal rounding: the last ulp of our float must not decide a tie
    allowed = allowed * (1 + 1e-9) + STANDARD_ERRORS * np.asarray(standard_error, dtype=float)
    off = ~(np.abs(values - paper) <= allowed)
    ours_text = f"{np.count_nonzero(~off)} of {len(values)} agree"
    if off.any():
        first = int(np.flatnonzero(off)[0])
        ours_text += f"; first: {values[first]:.6g} against {printed_text[first]}"
    return check(
        target,
        not off.any(),
        statement,
        ours=ours_text,
        paper=f"{len(paper)} printed numbers",
        tolerance="half a unit of the last printed digit"
        + (f" + {STANDARD_ERRORS:g} standard errors" if np.any(standard_error) else ""),
        stand_in=stand_in,
        differs=differs,
    )


def refute(
    target: str,
    statement: str,
    *,
    holds: bool,
    corrected: str,
    corrected_holds: bool,
    ours: str = "",
    paper: str = "",
) -> Verdict:
    """Judge a statement that is wrong, together with the one that is right.

    Parameters
    ----------
    holds, corrected_holds : bool
        Computed: whether the printed statement holds (it must not) and whether the corrected one
        does (it must).

    Raises
    ------
    VerdictError
        If the printed statement holds after all or the corrected one does not.
    """
    if holds or not corrected_holds:
        which = "the printed statement holds" if holds else "the corrected statement fails"
        return _unexpected(target, statement, which, ours, paper)
    return Verdict(target, "refuted", statement, ours, paper, "", corrected)


def not_run(target: str, statement: str, needs: str) -> Verdict:
    """State that something was not run here, and what it needs."""
    return Verdict(target, "not run here", statement, why=needs)


def overall(verdicts: Iterable[Verdict]) -> str:
    """Return the worst status among several verdicts, ``pending`` if there are none."""
    return max((v.status for v in verdicts), key=STATUSES.index, default="pending")


def rounded(value: float, standard_error: float = 0.0, digits: int = 4) -> str:
    """Return ``value`` as text with no more digits than it supports.

    With a standard error, to that error's first digit; else to ``digits`` significant digits.
    """
    if standard_error > 0:
        decimals = -int(np.floor(np.log10(standard_error)))
        return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"  # + 0.0: no "-0.00"
    return f"{value:.{digits}g}"
