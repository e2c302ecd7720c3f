"""Verdicts on our own runs: the quick profile's outcome is known, that of other runs is not."""

from companion.exhibit import *


def check_run(
    tables: Tables,
    target: str,
    holds: bool | None,
    statement: str,
    *,
    ours: str = "",
    paper: str = "",
    tolerance: str = "",
    differs: str = "",
    elsewhere: str = "",
    decided_by: str = "",
) -> Verdict:
    """Judge a statement of the paper on our own run.

    Parameters
    ----------
    differs : str
        Why the statement is known not to hold in the quick profile. The verdict is *failed* if it
        holds after all, unless ``decided_by`` says that another seed may turn it, and if it does
        not hold and no reason is given. Other runs are judged as they come out.
    elsewhere : str
        Why it may fail in those; by default ``differs``.
    decided_by : str
        What would decide where ``holds`` is None.
    """
    if tables.profile != "quick":
        differs = "" if holds else elsewhere or differs or "It did not come out in this run."
    elif holds and decided_by:
        differs = ""
    stand_in = tables.stand_in
    return check(
        target,
        holds,
        statement,
        ours=ours,
        paper=paper,
        tolerance=tolerance,
        stand_in=stand_in,
        differs=differs,
        decided_by=decided_by,
    )
