"""Falsifiers: altered tables, each a world in which a verdict must come out otherwise.

Most come from an exhibit's ``ALTERED`` (:mod:`~companion.study.perturbations`). What no single
column can express is in its ``SCENARIOS``: :func:`scenario` makes one of a single altered world, or
of a family with an *effect*, of which :func:`smallest` finds the least that changes the verdict:
"would have noticed errors 3% larger". :func:`column`, :func:`frame` and :func:`printed` say what is
altered, :func:`together` combines them::

    SCENARIOS = (
        scenario("equally good attacks", column("errors", "mse", lambda c: c.mean()), "C-001"),
        scenario("errors {} larger", column("errors", "mse", lambda c, by: c * (1 + by)), "_left"),
    )
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from companion.study import registry
from companion.study.tables import Tables
from companion.study.verdicts import Verdict, overall

if TYPE_CHECKING:
    from types import ModuleType

#: what becomes of the tables; a graded change takes the effect as well
Change = Callable[..., "World"]

#: effects are searched from ``most`` down by this factor
_RANGE = 1e12
#: the smallest effect is found to within this factor, then rounded to two digits
_NEAR = 1.02
#: steps of bisection that are expected to find nothing
_FIRST = 4


@dataclass(frozen=True)
class World:
    """Altered tables, and the printed numbers that are altered with them."""

    tables: Tables
    printed: Mapping[str, pd.DataFrame] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Falsifier:
    """One altered world, or one for every size of an effect.

    Attributes
    ----------
    world : str
        What is different there; ``{}`` stands for the size of the effect.
    change : callable
        ``(World) -> World``, or ``(World, effect) -> World``.
    targets : tuple of str
        Whose verdicts must come out otherwise, as in ``SETTLES``; ``""`` is the exhibit itself.
    most : float
        The largest effect, at which all of them must; 0 for a single world.
    unit : str
        ``"%"`` for relative effects; otherwise what follows the number.
    """

    world: str
    change: Change
    targets: tuple[str, ...]
    most: float = 0.0
    unit: str = "%"

    def altered(self, tables: Tables, effect: float = 0.0) -> World:
        """Return the altered world; with the largest effect unless one is given."""
        start = World(tables)
        return self.change(start, effect or self.most) if self.most else self.change(start)

    def worded(self, effect: float) -> str:
        """Return the world in words, with the size of the effect."""
        return self.world.format(in_words(effect, self.unit))


def in_words(effect: float, unit: str) -> str:
    """Return an effect with two digits, rounded up, so that it is still noticed."""
    size = effect * 100 if unit == "%" else effect
    step = 10.0 ** (math.floor(math.log10(size)) - 1) if size else 1.0
    number = math.ceil(size / step - 1e-6) * step
    return f"{number:.2g}{unit}" if size < 99 else f"{number:g}{unit}"


def scenario(
    words: str, change: Change, *targets: str, most: float = 1.0, unit: str = "%"
) -> Falsifier:
    """Return a world that no single column can express; of the exhibit if no target is named.

    With ``{}`` in the words it has an effect in (0, ``most``], which ``change`` takes as well.

    Raises
    ------
    ValueError
        If ``most`` is not positive.
    """
    if not most > 0:
        raise ValueError(f"most must be positive; got {most!r}")
    return Falsifier(words, change, targets or ("",), most if "{}" in words else 0.0, unit)


def constant(value: float) -> Callable[[pd.Series], pd.Series]:
    """Return a change that gives every entry of a column one value."""
    return lambda c: c * 0 + value


def frame(name: str, function: Callable[..., pd.DataFrame]) -> Change:
    """Alter a table: ``function(table)``, or ``function(table, effect)`` of a world with one.

    The function gets a copy.
    """

    def change(world: World, *effect: float) -> World:
        return replace_frames(world, {name: function(world.tables[name].copy(), *effect)})

    return change


def column(
    table: str, name: str, function: Callable[..., Any], where: str | Callable[..., Any] = ""
) -> Change:
    """Alter a column: ``function(column)``, or ``function(column, effect)`` of a world with one.

    Parameters
    ----------
    table, name : str
    function : callable
        From the selected entries (a Series) to what takes their place.
    where : str or callable
        Selects rows, as ``DataFrame.query`` does (```` `column with spaces` ```` in backticks), or
        from the table to booleans; all rows by default.

    Raises
    ------
    ValueError
        When the change is applied and no row is selected.
    """

    def change(world: World, *effect: float) -> World:
        altered = world.tables[table].copy()
        rows = select_rows(altered, where)
        if not rows.any():
            raise ValueError(f"where must select a row of {table!r}; got {where!r}")
        new = function(altered.loc[rows, name], *effect)
        if pd.api.types.is_numeric_dtype(altered[name]) and not _is_boolean(altered[name]):
            altered[name] = altered[name].astype(float)  # an integer column takes fractions
        altered.loc[rows, name] = new
        return replace_frames(world, {table: altered})

    return change


def printed(name: str, function: Callable[..., pd.DataFrame]) -> Change:
    """Alter printed numbers, the table ``registry.printed(name)``, as :func:`frame` does."""

    def change(world: World, *effect: float) -> World:
        now = world.printed.get(name, registry.printed(name))
        return dataclasses.replace(
            world, printed={**world.printed, name: function(now.copy(), *effect)}
        )

    return change


def together(*changes: Change) -> Change:
    """Make several changes one after the other."""

    def change(world: World, *effect: float) -> World:
        for one in changes:
            world = one(world, *effect)
        return world

    return change


def replace_frames(world: World, frames: Mapping[str, pd.DataFrame]) -> World:
    """Return a world in which some tables are others."""
    have = dict(world.tables.frames)
    for name, new in frames.items():
        have[world.tables.key_of(name)] = new
    return dataclasses.replace(world, tables=dataclasses.replace(world.tables, frames=have))


def _is_boolean(column: pd.Series) -> bool:
    return bool(pd.api.types.is_bool_dtype(column))


def select_rows(table: pd.DataFrame, where: str | Callable[..., Any] = "") -> pd.Series:
    """Return which rows a query, or a function of the table, selects; all by default."""
    if not where:
        return pd.Series(True, index=table.index)
    found = table.eval(where) if isinstance(where, str) else where(table)
    return pd.Series(found, index=table.index).astype(bool)


# --- judging the altered tables ----------------------------------------------------------------


def falsifiers_of(module: ModuleType) -> tuple[Falsifier, ...]:
    """Return an exhibit's scenarios, with full targets.

    ``_left`` is ``hayes2023/fig1_left`` there.
    """
    exhibit = "/".join(module.__name__.split(".")[-2:])
    return tuple(
        dataclasses.replace(
            f, targets=tuple(exhibit + t if not t or t[0] == "_" else t for t in f.targets)
        )
        for f in getattr(module, "SCENARIOS", ())
    )


def statuses(module: ModuleType, world: World) -> dict[str, str]:
    """Return the worst status of every target of an exhibit in a world."""
    return worst_statuses(judge_world(module, world))


def judge_world(module: ModuleType, world: World, count: int | None = None) -> list[Verdict]:
    """Return an exhibit's verdicts in a world, or the first ``count``: ``judge`` stops there."""
    with registry.printed_as(world.printed):
        return list(itertools.islice(module.judge(world.tables), count))


def worst_statuses(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Return the worst status of every target."""
    by: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by.setdefault(verdict.target, []).append(verdict)
    return {target: overall(found) for target, found in by.items()}


def smallest(
    module: ModuleType,
    tables: Tables,
    falsifier: Falsifier,
    before: Sequence[Verdict],
    near: float = _NEAR,
) -> dict[str, float]:
    """Return the smallest effect that changes each target's status, 0 for a single world.

    Found by bisection, from above. Targets whose status no effect changes are left out.

    Parameters
    ----------
    before : sequence of Verdict
        Those on the tables as they are; other tables get theirs in the same order.
    near : float
        The smallest effect is found to within this factor.
    """
    places = [i for i, verdict in enumerate(before, 1) if verdict.target in falsifier.targets]
    count, was = max(places, default=0), worst_statuses(before)

    @functools.cache
    def moved(effect: float) -> frozenset[str]:
        try:
            after = worst_statuses(judge_world(module, falsifier.altered(tables, effect), count))
        except (KeyError, ValueError, IndexError):  # written for other parameters than these
            return frozenset()
        return frozenset(t for t in falsifier.targets if t in after and after[t] != was[t])

    return {
        target: _bisect(lambda effect, t=target: t in moved(effect), falsifier.most, near)  # type: ignore[misc]
        for target in falsifier.targets
        if target in moved(falsifier.most)
    }


def _bisect(is_noticed: Callable[[float], bool], most: float, near: float) -> float:
    high, low = most, most / _RANGE
    if not most:
        return low
    # nearly all effects lie a decade or two below the largest, where bisection leads in four steps:
    # it goes them backwards, as long as it has come too far
    path = [low]
    for _ in range(_FIRST):
        path.append(math.sqrt(high * path[-1]))
    while path and is_noticed(path[-1]):
        high = path.pop()
    if not path:
        return low
    low = path[-1]
    while high / low > near:
        middle = math.sqrt(high * low)
        low, high = (low, middle) if is_noticed(middle) else (middle, high)
    return high
