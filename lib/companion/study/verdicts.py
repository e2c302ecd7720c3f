"""Verdicts: a computed comparison of what a paper prints or states with what we compute.

One of four functions makes a verdict: :func:`check` (a statement as a predicate), :func:`compare`
(printed numbers), :func:`refute` (a wrong statement with the corrected one), :func:`not_run`. A
verdict with an unexpected outcome is *failed*; :func:`raise_failed` then stops a notebook, unless
the run must end with its tables (:func:`failures_kept`) or is on a user's own images
(:func:`judge_own_images`).
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace

import numpy as np

from companion.study import registry
from companion.study.logic import STANDARD_ERRORS
from companion.study.tables import Origin

#: from best to worst (:func:`overall` returns the worst). No notebook stores the last two.
STATUSES = (
    "reproduced",
    "holds on stand-in data",
    "not run here",
    "not decided",
    "misprint",
    "differs on stand-in data",
    "differs",
    "refuted",
    "pending",
    "failed",
)

#: those that say nothing of the paper
UNJUDGED = ("not run here", "not decided")
#: those that hold something against it: each comes with a defence
ACCUSING = ("misprint", "differs on stand-in data", "differs", "refuted")


class VerdictError(AssertionError):
    """A verdict has an unexpected outcome."""


@dataclass(frozen=True)
class Verdict:
    """The computed verdict on one exhibit, claim or erratum.

    Attributes
    ----------
    target : str
        Its id in the registry.
    status : str
        One of ``STATUSES``.
    statement : str
        What was checked, in our words.
    ours, paper, tolerance : str
        The numbers compared (rounded to what they support), and the allowed difference.
    why : str
        For those in ``ACCUSING`` and *failed*: the reason, or the corrected statement.
        For *not run here* and *not decided*: what is needed.
    erratum : str
        Id of the erratum that explains it, if there is one.
    notices : str
        The smallest effects that would have changed it, see :mod:`companion.study.perturbations`.
    on : str
        What part of the paper's data was used, if the statement is about data and it was a part.
    """

    target: str
    status: str
    statement: str
    ours: str = ""
    paper: str = ""
    tolerance: str = ""
    why: str = ""
    erratum: str = ""
    notices: str = ""
    on: str = ""

    @property
    def outcome(self) -> str:
        """The status, with the part of the data that it holds for."""
        return f"{self.status} on {self.on}" if self.on else self.status

    @property
    def told(self) -> str:
        """The statement; one that is no fact is said to be the paper's, or our claim."""
        if not self.in_doubt:
            return self.statement
        row = registry.claims().get(self.target)
        own = self.target.startswith("beyond/") or (row is not None and row.paper_key == "beyond")
        return f"{'Our claim' if own else 'The paper'}: {self.statement}"

    @property
    def reason(self) -> str:
        """The reason; beside a statement of the paper's it is said to be ours."""
        return f"Here: {self.why}" if self.why and self.in_doubt else self.why

    @property
    def in_doubt(self) -> bool:
        """Whether the statement is false here, or undecided."""
        return self.status in (*ACCUSING, "not decided")

    def as_dict(self) -> dict[str, str]:
        """Return the fields by name."""
        return asdict(self)


#: how the reason begins where a statement holds that should not
_HOLDS_AFTER_ALL, _PRINTED_HOLDS = "holds after all", "the printed statement holds"

#: whether failed verdicts are kept instead of raising
_KEPT: ContextVar[bool] = ContextVar("kept", default=False)


@contextlib.contextmanager
def failures_kept() -> Iterator[None]:
    """Record unexpected verdicts as *failed* in this block instead of raising.

    For runs that must end with their tables; the caller has to look for failed verdicts.
    """
    token = _KEPT.set(True)
    try:
        yield
    finally:
        _KEPT.reset(token)


def raise_failed(verdicts: Iterable[Verdict]) -> None:
    """Raise if a verdict failed, outside ``failures_kept``.

    Raises
    ------
    VerdictError
        Naming the failed verdicts with both values.
    """
    failed = [v for v in verdicts if v.status == "failed"]
    if failed and not _KEPT.get():
        raise VerdictError(
            "; ".join(
                f"{v.target}: {v.statement}: {v.why} (ours: {v.ours}; paper: {v.paper})"
                for v in failed
            )
        )


def judge_own_images(verdict: Verdict) -> Verdict:
    """Return the verdict for a run on a user's own images.

    A paper's statement on its own data need not hold there. If it does, the verdict is *holds on
    stand-in data*, even where the paper's data were known to differ; if not, *differs on stand-in
    data*.
    """
    if verdict.status == "reproduced" or verdict.why.startswith((_HOLDS_AFTER_ALL, _PRINTED_HOLDS)):
        return replace(verdict, status="holds on stand-in data", why="")
    if verdict.status not in ("failed", "differs"):
        return verdict
    why = f"on the images given, {verdict.why}" if verdict.status == "failed" else verdict.why
    return replace(verdict, status="differs on stand-in data", why=why)


def check(
    target: str,
    holds: object,
    statement: str = "",
    *,
    ours: str = "",
    paper: str = "",
    tolerance: str = "",
    stand_in: bool | Origin = False,
    differs: str = "",
    erratum: str = "",
    decided_by: str = "",
) -> Verdict:
    """Judge a statement by a computed predicate.

    Parameters
    ----------
    target : str
        Exhibit, claim or erratum id.
    holds : bool or None
        The predicate's computed value, of Python, NumPy or pandas; None if the Monte Carlo error
        is too large to tell (:func:`within`): *not decided*.
    statement : str
        What the predicate says, where it is not what the registry's row of the target says.
    stand_in : bool or Origin
        ``tables.stand_in`` if the statement is about data: the verdict is *holds on stand-in data*
        where they were not the paper's, and says what part of the paper's data was used.
    differs : str
        If given, the reason why the statement is known not to hold here; the verdict is *differs*
        (*on stand-in data*, where they were used) when ``holds`` is false, *failed* if it is true.
    erratum : str
        Id of the erratum that explains why it does not hold.
    decided_by : str
        What would decide where ``holds`` is None, such as ``"10,000 trials"``.

    Returns
    -------
    Verdict
        *failed* if the outcome is not the expected one.
    """
    statement = statement or _printed_statement(target, erratum)
    if holds is None:
        return _leave_undecided(target, statement, decided_by or "more trials")
    if holds and differs:
        status, why = "failed", f"{_HOLDS_AFTER_ALL} (expected not to: {differs})"
    elif holds:
        status, why = ("holds on stand-in data" if stand_in else "reproduced"), ""
    elif differs:
        status, why = _differs(stand_in), differs
    else:
        status, why = "failed", "does not hold"
    part = _part(stand_in)
    return Verdict(target, status, statement, ours, paper, tolerance, why, erratum, on=part)


def _differs(stand_in: bool | Origin) -> str:
    return "differs on stand-in data" if stand_in else "differs"


def _part(stand_in: bool | Origin) -> str:
    return stand_in.part if isinstance(stand_in, Origin) else ""


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
    stand_in: bool | Origin = False,
    erratum: str = "",
) -> Verdict:
    """Judge printed numbers one by one.

    The tolerance of each is half a unit of its last printed digit plus ``STANDARD_ERRORS`` of
    ``standard_error``: of the difference of our mean and the one run that is printed.

    *failed* if any number is off and ``differs`` is not given, or all fit although it is.

    Raises
    ------
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
        erratum=erratum,
    )


def refute(
    target: str,
    statement: str = "",
    *,
    holds: object,
    corrected_holds: object,
    erratum: str = "",
    corrected: str = "",
    ours: str = "",
    paper: str = "",
    stand_in: bool | Origin = False,
) -> Verdict:
    """Judge a wrong statement together with the corrected one.

    The registry holds both: the statement in the target's row (a claim's text, or what an erratum
    says is printed), the corrected one in the erratum's.

    Parameters
    ----------
    target : str
        Exhibit, claim or erratum id.
    statement : str
        For an exhibit, whose row does not hold the statement.
    holds, corrected_holds : bool or None
        Computed, None if the Monte Carlo error is too large to tell: whether the printed
        statement holds (it must not) and whether the corrected one does (it must).
    erratum : str
        Id of the erratum with the corrected statement; by default the target.
    corrected : str
        The corrected statement, if no erratum has it.
    stand_in : bool or Origin
        True if the statement is about data or networks that were not run: they cannot refute it,
        the verdict is *differs on stand-in data*.

    Returns
    -------
    Verdict
        *failed* if the printed statement holds or the corrected one does not; *misprint* if the
        erratum's weight says so.
    """
    statement = statement or _printed_statement(target, erratum)
    if holds is None or corrected_holds is None:
        return _leave_undecided(target, statement, "more trials")
    if holds or not corrected_holds:
        which = _PRINTED_HOLDS if holds else "the corrected statement fails"
        return Verdict(target, "failed", statement, ours, paper, "", which)
    row = registry.errata().get(erratum or target)
    why = corrected or registry.errata()[erratum or target].corrected
    status = "misprint" if row and row.weight == "misprint" else "refuted"
    return Verdict(
        target,
        _differs(stand_in) if stand_in else status,
        statement,
        ours,
        paper,
        why=why,
        erratum=row.id if row else "",
        on=_part(stand_in),
    )


def _printed_statement(target: str, erratum: str) -> str:
    """Return a claim's text, or what an erratum says is printed."""
    if target in registry.claims():
        return registry.claims()[target].claim
    return registry.errata()[erratum or target].printed


def not_run(target: str, statement: str, needs: str) -> Verdict:
    """Return the verdict *not run here* on a statement, with what its run needs."""
    return Verdict(target, "not run here", statement, why=needs)


def _leave_undecided(target: str, statement: str, needs: str) -> Verdict:
    return Verdict(target, "not decided", statement, why=f"needs {needs}")


def shared_by(verdict: Verdict, *targets: str) -> Iterator[Verdict]:
    """Yield a verdict for its own target and, in the same words, for others.

    For panels and claims that one computation settles; tables of verdicts show them in one row.

    Examples
    --------
    >>> one = check("mean_to_extreme/fig2", True, "both panels fall with the noise")
    >>> [v.target for v in shared_by(one, "A-001")]
    ['mean_to_extreme/fig2', 'A-001']
    """
    yield verdict
    for target in targets:
        yield replace(verdict, target=target)


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
