"""What a scale cannot touch: a verdict that notices none says in the registry why.

Every column that ``ALTERED`` names is made twice and half as large, on its own; then all measured
errors of an exhibit are made twice as large at once, as if every attack did worse.
"""

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest

from altered_tables import recorded
from companion.study import all_exhibits, find_exhibit, registry
from companion.study.falsifiers import World, judge_world, replace_frames, worst_statuses
from companion.study.records import FOLDER, RECORDED, read_tables
from companion.study.tables import file_stem
from companion.study.verdicts import UNJUDGED

EXHIBITS = [e for e in sorted(all_exhibits()) if not e.startswith("beyond/")]
WITH_COLUMNS = [e for e in EXHIBITS if hasattr(find_exhibit(e).file, "ALTERED")]
#: columns of measured errors, and what ``ALTERED`` calls those that have other names
NAMED = re.compile(r"(mean |median )?(r?mse|perceptual|lpips)\b(?! sd| printed)", re.IGNORECASE)
SAID = re.compile(r"(\w+ )?(MSEs|RMS errors|errors|losses)\b(?!.*\])")
#: tables of what is printed, and of guesses that take no gradient: no attack that does worse
#: changes them
YARDSTICKS = ("printed", "references", "guesses")


@cache
def runs_of(exhibit):
    """The stored quick run's tables and, where there is one, the record's, with their statuses."""
    root, module = registry.project_root(), find_exhibit(exhibit).file
    tables = [read_tables(root / FOLDER / exhibit)]
    if (root / RECORDED / exhibit).is_dir():
        tables.append(recorded(exhibit))
    return [(one, worst_statuses(judge_world(module, World(one)))) for one in tables]


def turned(exhibit, tables, before, world):
    after = worst_statuses(judge_world(find_exhibit(exhibit).file, world))
    return {target for target in before if after.get(target) != before[target]}


def named_columns(exhibit, tables):
    """Tables and the numeric columns that ``ALTERED`` names in them, with what it calls them."""
    for name, columns in getattr(find_exhibit(exhibit).file, "ALTERED", {}).items():
        if "/" in name or name in tables:
            table = registry.printed(name) if "/" in name else tables[name]
            for key, said in columns.items():
                own = [c for c in ((key,) if isinstance(key, str) else key) if c in table]
                if own and not pd.api.types.is_bool_dtype(table[own[0]]):
                    yield name, table, own, said


def scaled(tables, name, table, columns, factor):
    numbers = {c: factor * pd.to_numeric(table[c], errors="coerce") for c in columns}
    if "/" in name:
        text = {
            c: table[c].where(new.isna(), new.map("{:.12g}".format)) for c, new in numbers.items()
        }
        return World(tables, {name: table.assign(**text)})
    return replace_frames(World(tables), {name: table.assign(**numbers)})


def rows_of(exhibit, scale, targets):
    listed = {row.target for row in registry.untouched() if row.scaled == scale}
    return listed & {*targets, exhibit}


@pytest.mark.filterwarnings("ignore")  # of roots and correlations of altered numbers
@pytest.mark.parametrize("exhibit", WITH_COLUMNS)
def test_what_no_column_at_another_scale_turns_is_listed(exhibit):
    noticed, judged = set(), set()
    for tables, before in runs_of(exhibit):
        judged |= {target for target, status in before.items() if status not in UNJUDGED}
        for name, table, columns, _ in named_columns(exhibit, tables):
            for factor in (2.0, 0.5):
                try:
                    world = scaled(tables, name, table, columns, factor)
                    noticed |= turned(exhibit, tables, before, world)
                except (KeyError, ValueError, IndexError, ArithmeticError):
                    continue  # tables that no experiment could return
    named = any(any(named_columns(exhibit, tables)) for tables, _ in runs_of(exhibit))
    assert (judged - noticed if named else set()) == rows_of(exhibit, "a column", before)


def words_of(table, said):
    return {w if isinstance(w, str) else next(w(table), ("",))[0] for w in np.atleast_1d(said)}


def measured_errors(exhibit, tables):
    """The columns of measured errors by table, and those of PSNRs."""
    said = {
        (file_stem(name), column): words_of(table, said)
        for name, table, columns, said in named_columns(exhibit, tables)
        for column in columns
    }
    found = {}
    for name, table in tables.items():
        for column in table.select_dtypes("number"):
            is_error = bool(NAMED.match(column.replace("_", " "))) and not column.endswith(" error")
            is_error |= any(map(SAID.match, said.get((file_stem(name), column), ())))
            if not name.startswith(YARDSTICKS) and (is_error or column.lower() == "psnr"):
                found.setdefault(name, []).append(column)
    return found


def twice_as_large(tables, columns):
    """The world in which errors and how well they are known are doubled, and PSNRs 3 dB less."""
    frames = {}
    for name, own in columns.items():
        table = tables[name]
        doubled = {c for c in own if c.lower() != "psnr"}
        known_to = {f"{c} error" for c in doubled} | (
            {"standard error", "sem"} if doubled else set()
        )
        larger = {c: 2 * table[c] for c in table if c in doubled | known_to}
        frames[name] = table.assign(
            **larger, **{c: table[c] - 10 * np.log10(2) for c in own if c not in doubled}
        )
    return replace_frames(World(tables), frames)


@pytest.mark.parametrize("exhibit", EXHIBITS)
def test_every_exhibit_notices_errors_twice_as_large_or_says_why_not(exhibit):
    noticed, has_errors = set(), False
    for tables, before in runs_of(exhibit):
        columns = measured_errors(exhibit, tables)
        has_errors |= bool(columns)
        noticed |= turned(exhibit, tables, before, twice_as_large(tables, columns))
    assert (has_errors and not noticed) == bool(rows_of(exhibit, "all errors", ())), noticed


def test_rows_speak_of_what_is_judged():
    known = {target for exhibit in EXHIBITS for _, before in runs_of(exhibit) for target in before}
    rows = registry.untouched()
    assert {row.target for row in rows} <= known
    assert len({(row.target, row.scaled) for row in rows}) == len(rows)
    assert {row.scaled for row in rows} == {"a column", "all errors"} and all(r.why for r in rows)
