"""Perturbations: which change of which measured column would have changed a verdict.

An exhibit's ``ALTERED`` names the columns whose numbers decide its verdicts, by table, and says in
a noun phrase what they hold. Each is made larger, smaller, higher, lower, reversed and constant,
and :func:`smallest_detectable` says which of this changes a verdict, and how little suffices::

    ALTERED = {
        "law": {"distance": "distances of the laws"},
        "samples": {"psnr": "PSNRs [dB]"},  # has a unit: made higher and lower, not 3% larger
        "trained": {"success": by("score", "successes")},  # each score's on their own, too
        "errors": {"MSE": ("errors", at("epsilon >= 10", "errors from epsilon = 10 on"))},
        "counts": {("right", "success"): "successes"},  # one measurement: changed together
        "ziller2024/table1": {"value": "printed numbers"},  # has a slash: what a paper prints
    }

No target is named: which verdicts notice a change is found by trying it. What no column can express
is a :func:`~companion.study.falsifiers.scenario`, in the exhibit's ``SCENARIOS``.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion.study import registry
from companion.study.falsifiers import (
    World,
    falsifiers_of,
    in_words,
    judge_world,
    replace_frames,
    select_rows,
    smallest,
    worst_statuses,
)
from companion.study.tables import Tables
from companion.study.verdicts import STATUSES, UNJUDGED

if TYPE_CHECKING:
    from types import ModuleType

#: from a table to its parts: what their entries are, in words, and their rows
Parts = Callable[[pd.DataFrame], Iterator[tuple[str, pd.Series]]]
#: what ``ALTERED`` says of a column
Described = str | Parts | tuple[str | Parts, ...]

#: changes with an effect, in proportion and in the column's units
RELATIVE: dict[str, Callable[[pd.Series, float], pd.Series]] = {
    "larger": lambda c, by: c * (1 + by),
    "smaller": lambda c, by: c * (1 - by),
}
SHIFTS: dict[str, Callable[[pd.Series, float], pd.Series]] = {
    "higher": lambda c, by: c + by,
    "lower": lambda c, by: c - by,
}
#: changes without one: of numbers, of booleans, of names
WHOLE: dict[str, Callable[[pd.Series], pd.Series]] = {
    "in reversed order": lambda c: pd.Series(c.to_numpy()[::-1], c.index),
    "all equal": lambda c: c * 0 + c.mean(),
}
BOOLEAN: dict[str, Callable[[pd.Series], pd.Series]] = {
    "negated": lambda c: ~c.astype(bool),
    "all true": lambda c: c.astype(bool) | True,
    "all false": lambda c: c.astype(bool) & False,
}
NAMES: dict[str, Callable[[pd.Series], pd.Series]] = {
    "exchanged": lambda c: c.map(dict(zip(c.unique(), c.unique()[::-1], strict=True))),
}
_GRADED = RELATIVE | SHIFTS
_UNGRADED = WHOLE | BOOLEAN | NAMES

#: the largest relative effect; all but one per cent of what becomes smaller
_MOST = {"larger": 1.0, "smaller": 0.99}
#: the smallest effect is sought among so many in a decade, in so many decades below the largest
_A_DECADE, _DECADES = 64, 13
_NEAR = 10 ** (1 / 4)
#: an effect on some rows is of interest if the same on all must be larger by this factor
_SHARPER = 1.5
#: as many are printed beside a verdict
_PRINTED = 3


def by(
    category: str,
    words: str,
    names: Mapping[Any, str] | None = None,
    each: str = "",
    where: str = "",
) -> Parts:
    """Alter the rows of one category at a time, in addition to all.

    Parameters
    ----------
    category : str
        The column whose values are the categories.
    words : str
        What all entries are: ``"successes"``.
    names : mapping, optional
        Categories in words, where the table has other ones: ``{"sum": "Algorithm 2"}``.
    each : str, optional
        What follows the words for one category, which ``{}`` stands for; by default ``"of {}"``,
        and ``"at epsilon = {}"`` for one that is a number.
    where : str, optional
        Alter only rows that this query selects, see :func:`at`.
    """

    def parts(table: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
        selected = select_rows(table, where)
        yield words, selected
        values = table[category][selected].unique()
        for value in values if len(values) > 1 else ():
            is_number = isinstance(value, float | int | np.number) and not isinstance(value, bool)
            name = (names or {}).get(value, f"{value:g}" if is_number else str(value))
            how = each or (f"at {category} = {{}}" if is_number else "of {}")
            noun, bracket, unit = words.partition(" [")
            yield f"{noun} {how.format(name)}{bracket}{unit}", selected & (table[category] == value)

    return parts


def at(where: str, words: str) -> Parts:
    """Alter the rows that a query selects, as ``DataFrame.query`` does; none if it selects none."""

    def parts(table: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
        rows = select_rows(table, where)
        if rows.any():
            yield words, rows

    return parts


@dataclass(frozen=True, eq=False)
class Perturbation:
    """One kind of change of one column, on some rows.

    Attributes
    ----------
    table : str
        A table of the exhibit, or one of printed numbers.
    columns : tuple of str
        One, or several that hold the same measurement and change together.
    words : str
        What the changed entries are, with their unit in brackets if they have one.
    rows : Series
        Which are changed.
    kind : str
        How, such as ``"larger"``.
    most : float
        The largest effect; 0 for a change without one.
    scale : float
        The effect is as large, in proportion to the entries, as 1 is of a relative one.
    """

    table: str
    columns: tuple[str, ...]
    words: str
    rows: pd.Series
    kind: str
    most: float = 0.0
    scale: float = 1.0

    def effect(self, step: int) -> float:
        """Return the effect that is so many steps below the largest."""
        return self.most * 10.0 ** (-step / _A_DECADE)

    def step_below(self, effect: float) -> int:
        """Return the first of every fourth step at which the effect is no larger than this."""
        decades = math.log10(self.most) - math.log10(max(effect, 1e-300))
        return 4 * math.ceil(min(max(decades, 0), _DECADES) * _A_DECADE / 4)

    def described(self, effect: float) -> str:
        """Return the change in words, with the size of the effect."""
        noun, _, unit = self.words.removesuffix("]").partition(" [")
        if not self.most:
            return f"{noun} {self.kind}"
        if self.kind in RELATIVE:
            return f"{noun} {in_words(effect, '%')} {self.kind}"
        if unit:
            return f"{noun} {in_words(effect, f' {unit}')} {self.kind}"
        return f"{noun} {in_words(effect, '')} {'larger' if self.kind == 'higher' else 'smaller'}"

    def altered(self, world: World, effect: float) -> World:
        """Return the world in which the column is changed.

        Raises
        ------
        ValueError
            If a number becomes undefined, which no experiment could return.
        """
        is_printed = "/" in self.table
        have = world.printed if is_printed else world.tables
        table = have[self.table] if self.table in have else registry.printed(self.table)
        changed = table.assign(**{c: self._change(table[c], effect) for c in self.columns})
        if is_printed:
            return dataclasses.replace(world, printed={**world.printed, self.table: changed})
        return replace_frames(world, {self.table: changed})

    def _change(self, column: pd.Series, effect: float) -> pd.Series:
        if self.kind in BOOLEAN or self.kind in NAMES:
            new = _UNGRADED[self.kind](column[self.rows])
            return new.reindex(column.index).where(self.rows, column).astype(column.dtype)
        numbers = pd.to_numeric(column, errors="coerce").astype(float)
        rows = self.rows & np.isfinite(numbers)
        one = numbers[rows]
        new = _GRADED[self.kind](one, effect) if self.most else _UNGRADED[self.kind](one)
        if not np.isfinite(new).all():
            raise ValueError(f"{self.described(effect)}: undefined numbers")
        if pd.api.types.is_numeric_dtype(column):
            return numbers.where(~rows, new.reindex(column.index))
        return column.where(~rows, new.reindex(column.index).map("{:.12g}".format))


@dataclass(frozen=True)
class Detection:
    """The smallest effect of a perturbation that changes the status of a target."""

    target: str
    perturbation: Perturbation
    effect: float

    @property
    def share(self) -> float:
        """The effect in proportion to the entries; infinite for a change without one."""
        return self.effect / self.perturbation.scale if self.perturbation.most else math.inf

    @property
    def words(self) -> str:
        """The perturbation in words, with the size of the effect."""
        return self.perturbation.described(self.effect)


def smallest_detectable(module: ModuleType, tables: Tables, near: float = _NEAR) -> dict[str, str]:
    """Return, for each target, the smallest effects that would have changed its verdict, in words.

    Those of its scenarios, and of up to three columns: those of which the least, in proportion,
    suffices. Scenarios and changes without an effect are named where nothing with an effect is. A
    change that does not apply to these tables (those of other parameters) is left out.

    Parameters
    ----------
    near : float
        The effects on columns are found to within this factor; by default less than two, which
        takes two thirds of the time of two digits.
    """
    sizes: dict[str, list[str]] = {}
    worlds: dict[str, list[str]] = {}
    before = judge_world(module, World(tables))
    for scenario in falsifiers_of(module):
        for target, size in smallest(module, tables, scenario, before).items():
            (sizes if size else worlds).setdefault(target, []).append(scenario.worded(size))
    told: set[tuple[str, str]] = set()  # two columns may hold the same, in more and fewer runs
    for one in sorted(find_detections(module, tables, near), key=lambda d: d.share):
        words = (sizes if one.perturbation.most else worlds).setdefault(one.target, [])
        if len(words) < _PRINTED and (one.target, one.perturbation.words) not in told:
            words.append(one.words)
            told.add((one.target, one.perturbation.words))
    return {target: "; ".join(words) for target, words in (worlds | sizes).items()}


def find_detections(module: ModuleType, tables: Tables, near: float = _NEAR) -> list[Detection]:
    """Return what each target's verdict notices: the smallest effects, of three columns or more.

    They are found to within the factor ``near``; with infinity any effect will do.

    A relative effect, or where none of up to 100% is noticed, one in the column's units. For a
    target that notices nothing with an effect: the columns of which it notices a change without
    one. An effect on the rows of one category is preferred to one on all if much less suffices. A
    column is left out for a target that notices less of three columns before it.
    """
    altered = getattr(module, "ALTERED", None)
    if not altered:
        return []
    frames = {name: _table(tables, name) for name in altered if "/" in name or name in tables}
    # the arguments of what makes perturbations, for every part of every column
    parts = [
        [(frame, name, columns, words, rows) for words, rows in _parts(frame, described)]
        for name, frame in frames.items()
        for columns, described in _as_tuples(altered[name])
        if set(columns) <= set(frame)
    ]
    search = _Search(module, tables, near)
    for of_column in parts:
        here: dict[str, Detection] = {}
        for part in of_column:
            search.extend(here, _relative(*part))
        for part in of_column[:1]:
            search.extend(here, _shifts(*part), known=here)
        search.keep(here)
    for changes in (_shifts, _list_ungraded):
        known = set(search.found)
        if known >= set(search.before):
            break
        for of_column in parts:
            here = {}
            for part in of_column:
                search.extend(here, changes(*part), known)
            search.keep(here)
    return list(itertools.chain.from_iterable(search.found.values()))


class _Search:
    """The search for smallest effects on one exhibit's tables; ``found`` holds them by target."""

    def __init__(self, module: ModuleType, tables: Tables, near: float) -> None:
        self.module, self.world, self.near = module, World(tables), near
        self.before = worst_statuses(judge_world(module, self.world))
        self.found: dict[str, list[Detection]] = {}

    def keep(self, here: Mapping[str, Detection]) -> None:
        """Keep what one column was found to change."""
        for target, one in here.items():
            self.found.setdefault(target, []).append(one)

    def extend(
        self,
        here: dict[str, Detection],
        perturbations: Iterable[Perturbation],
        known: Iterable[str] = (),
    ) -> None:
        """Find the smallest effects on the targets that are not known, where they matter."""
        skipped = set(known)
        if math.isinf(self.near):
            skipped |= {*self.found, *here}
        for one in () if skipped.issuperset(self.before) else perturbations:
            changed = functools.cache(functools.partial(self._find_changed, one))
            for target in [t for t in self.before if t in changed(0) and t not in skipped]:
                largest = one.scale * self._largest_share(target, one, here.get(target))
                step: int | None = 0
                if one.most:
                    step = _last(changed, target, one.step_below(largest), self.near)
                if step is not None and (one.most or target not in here):
                    here[target] = Detection(target, one, one.effect(step))

    def _largest_share(self, target: str, one: Perturbation, here: Detection | None) -> float:
        """Return up to which share an effect matters beside those that are found already."""
        shares = sorted(d.share for d in self.found.get(target, ()))
        largest = shares[_PRINTED - 1] if len(shares) >= _PRINTED else math.inf
        if here is None:
            return largest
        is_narrower = here.perturbation.rows.all() and not one.rows.all()
        return min(largest, here.share / _SHARPER if is_narrower else here.share)

    def _find_changed(self, perturbation: Perturbation, step: int) -> frozenset[str]:
        """Return the targets whose status an effect changes; none if no such tables can be."""
        effect = perturbation.effect(step)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                after = worst_statuses(
                    judge_world(self.module, perturbation.altered(self.world, effect))
                )
        except (KeyError, ValueError, IndexError, ArithmeticError):
            return frozenset()
        return frozenset(
            t for t, was in self.before.items() if t in after and _notices(was, after[t])
        )


def _notices(before: str, after: str) -> bool:
    """Whether a status is another one; where nothing was decided, whether a claim turns out false.

    A verdict that is undecided has not noticed anything if a change decides it in favour.
    """
    if before in UNJUDGED:
        return STATUSES.index(after) > STATUSES.index("not decided")
    return before != after


def _last(
    changed: Callable[[int], frozenset[str]], target: str, start: int, near: float
) -> int | None:
    """Return the last step, of the smallest effect, that changes a target; None if none does."""
    if start >= _A_DECADE * _DECADES or target not in changed(start):
        return None
    if math.isinf(near):
        return start
    within = max(1, math.floor(math.log10(near) * _A_DECADE + 1e-9))
    # by decades, then by halves of one: targets have most of the steps tried in common
    high, low = start, (start // _A_DECADE + 1) * _A_DECADE
    while low <= _A_DECADE * _DECADES and target in changed(low):
        high, low = low, low + _A_DECADE
    while low - high > within:
        middle = (low + high) // 2
        low, high = (low, middle) if target in changed(middle) else (middle, high)
    return high


# The parts of a column and their changes ----------------------------------------------------------


def _table(tables: Tables, name: str) -> pd.DataFrame:
    return registry.printed(name) if "/" in name else tables[name]


def _as_tuples(
    entries: Mapping[str | tuple[str, ...], Described],
) -> Iterator[tuple[tuple[str, ...], Described]]:
    for columns, described in entries.items():
        yield ((columns,) if isinstance(columns, str) else columns), described


def _parts(frame: pd.DataFrame, described: Described) -> list[tuple[str, pd.Series]]:
    parts: list[tuple[str, pd.Series]] = []
    for one in described if isinstance(described, tuple) else (described,):
        parts.extend([(one, select_rows(frame))] if isinstance(one, str) else one(frame))
    return parts


def _numbers(entries: pd.Series) -> pd.Series:
    """Return the numbers among some entries; none of booleans."""
    if pd.api.types.is_bool_dtype(entries):
        return pd.Series(dtype=float)
    numbers = pd.to_numeric(entries, errors="coerce").astype(float)
    return numbers[np.isfinite(numbers)]


def _relative(
    table: pd.DataFrame, name: str, columns: tuple[str, ...], words: str, rows: pd.Series
) -> Iterator[Perturbation]:
    if len(_numbers(table[columns[0]][rows])) and not words.endswith("]"):
        for kind in RELATIVE:
            yield Perturbation(name, columns, words, rows, kind, _MOST[kind])


def _shifts(
    table: pd.DataFrame, name: str, columns: tuple[str, ...], words: str, rows: pd.Series
) -> Iterator[Perturbation]:
    numbers = _numbers(table[columns[0]][rows])
    if len(numbers) and len(columns) == 1:  # several have no unit in common
        scale = float(numbers.abs().max())
        # what is never negative would be made so: it is made smaller, in proportion, instead
        is_positive = numbers.min() >= 0 and not words.endswith("]")
        for kind in ("higher",) if is_positive else SHIFTS:
            yield Perturbation(name, columns, words, rows, kind, max(1.0, 3 * scale), scale or 1.0)


def _list_ungraded(
    table: pd.DataFrame, name: str, columns: tuple[str, ...], words: str, rows: pd.Series
) -> Iterator[Perturbation]:
    entries = table[columns[0]]
    if pd.api.types.is_bool_dtype(entries):
        kinds = BOOLEAN
    else:
        kinds = WHOLE if len(_numbers(entries[rows])) else NAMES
    for kind in kinds:
        yield Perturbation(name, columns, words, rows, kind)
