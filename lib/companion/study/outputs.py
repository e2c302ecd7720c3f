"""Whether the outputs of a notebook that ran again are the stored ones.

What an exhibit measures may differ on another processor, as far as its tables' spread allows
(:mod:`companion.study.spread`). Nothing else may: the stored result must be what its stored tables
give here, to the last character, every status must be the same, and so must all that holds no
measured number. Everything a reader sees of an exhibit is made of its tables, so no number in a
text needs a tolerance of its own. What other cells print is compared to the letter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from companion.study import registry
from companion.study.exhibits import find_exhibit
from companion.study.records import FOLDER, read_tables
from companion.study.results import RESULT_MIME, is_text_of
from companion.study.running import judge
from companion.study.spread import find_departures, read_spread
from companion.study.tables import Tables, as_shown
from companion.study.verdicts import failures_kept

#: parts of a result that hold no measured number
_FIXED = ("exhibit", "profile", "seed", "settings", "ran", "status", "digests", "stand_ins")

Output = dict[str, Any]


def accept_other_kernels(
    fresh: Sequence[Output], stored: Sequence[Output], folder: Path
) -> list[str]:
    """Put a cell's stored outputs in the place of fresh ones that differ by their kernels alone.

    Parameters
    ----------
    fresh, stored : sequence of dict
        The outputs' data by MIME type; those of ``fresh`` are changed in place.
    folder : Path
        Where the run has kept its tables (``COMPANION_TABLES``).

    Returns
    -------
    list of str
        What differs by more, as sentences; empty for a cell without an exhibit, whose outputs are
        compared to the letter.
    """
    was, now = (
        next((o[RESULT_MIME] for o in side if RESULT_MIME in o), None) for side in (stored, fresh)
    )
    if was is None or now is None or len(fresh) != len(stored):
        return []
    exhibit = was["exhibit"]
    if now["exhibit"] != exhibit:
        return [f"the result is that of {now['exhibit']}; stored is {exhibit}"]
    kept = registry.project_root() / FOLDER / exhibit
    tables = read_tables(kept)
    faults = list(find_departures(tables, read_tables(folder / exhibit), read_spread(kept)))
    if not faults and [*map(_compared, fresh)] == [*map(_compared, stored)]:
        return []
    faults += [*_changed_parts(was, now), *_find_unfounded(stored, was, tables)]
    if not faults:
        for new, old in zip(fresh, stored, strict=True):
            new |= old
    return faults


def _compared(output: Output) -> Output:
    """The parts of an output that nbval compares, see the project's ``conftest.py``."""
    return {kind: output.get(kind) for kind in ("text/plain", RESULT_MIME)}


def _changed_parts(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for part in _FIXED:
        if was.get(part) != now.get(part):
            yield f"{part} is {now.get(part)!r}; stored is {was.get(part)!r}"
    statuses = [[(v["target"], v["status"]) for v in r["verdicts"]] for r in (was, now)]
    if statuses[0] != statuses[1]:
        yield f"the verdicts are {statuses[1]}; stored are {statuses[0]}"


def _find_unfounded(
    stored: Sequence[Output], result: Mapping[str, Any], tables: Tables
) -> Iterator[str]:
    """Yield what stored outputs say that their stored tables do not."""
    with failures_kept():
        content = judge(find_exhibit(tables.exhibit).file, tables).as_dict()
    expected = json.loads(json.dumps(content))
    for part in expected.keys() | result.keys():
        if expected.get(part) != result.get(part):
            yield f"the stored {part} is not what the stored tables give"
    shown = {as_shown(table)["text/plain"] for table in tables.values()}
    for output in stored:
        text = output.get("text/plain", "")
        if RESULT_MIME in output:
            if not is_text_of(text, result):
                yield "the stored text is not that of the stored result"
        elif "image/png" not in output and text not in shown:
            yield f"no stored table gives the stored text {text[:60]!r}"
