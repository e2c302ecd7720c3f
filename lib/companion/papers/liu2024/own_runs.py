"""Verdicts on our own runs, whose outcome is known in the quick profile and open in others."""

from __future__ import annotations

from companion.study import Tables, Verdict, check

__all__ = ["check_run"]


def check_run(
    tables: Tables,
    target: str,
    holds: bool,
    statement: str,
    *,
    ours: str = "",
    paper: str = "",
    otherwise: str = "",
) -> Verdict:
    """Judge a statement of the paper on our own run.

    Parameters
    ----------
    otherwise : str
        Why the statement is known not to come out in the quick profile; if it does, or fails
        without such a reason, the verdict is *failed*. Other runs are judged as they come out.
    """
    if tables.profile != "quick":
        otherwise = "" if holds else "It did not come out in this run."
    return check(
        target,
        holds,
        statement,
        ours=ours,
        paper=paper,
        stand_in=tables.stand_in,
        differs=otherwise,
    )
