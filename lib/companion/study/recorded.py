"""The recorded runs under ``data/recorded``: long runs on the papers' own data, read back.

A record holds verdicts on the same targets as the exhibit's notebook. Where it decides a target,
or leaves it undecided on the paper's own data, the record's verdict counts; pages show that of the
notebook's quick run beside it.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from companion.study import registry
from companion.study.exhibits import Exhibit, find_exhibit, judge_tables
from companion.study.parameters import plain
from companion.study.records import RECORDED, Record, find_records, read_record
from companion.study.stored import (
    StoredResult,
    Target,
    find_unexplained,
    find_unknown_verdicts,
    group_by_target,
    verdicts_by_target,
)
from companion.study.tables import MissingTable
from companion.study.verdicts import UNJUDGED, Verdict, overall


@dataclass(frozen=True)
class Difference:
    """A parameter with another value in a recorded run than in the paper profile."""

    name: str
    ran: Any
    paper: Any


@dataclass(frozen=True)
class Judging:
    """The verdicts on a record's tables.

    Attributes
    ----------
    verdicts : tuple of Verdict
        Computed anew, or the stored ones where the tables lack what judging needs.
    lacks : str
        What the tables of an older run lack, in words, shown on its page; empty for verdicts
        computed anew.
    """

    verdicts: tuple[Verdict, ...]
    lacks: str = ""


@dataclass(frozen=True)
class Beside:
    """The verdicts on a target by the recorded runs and by the notebooks' quick runs.

    Attributes
    ----------
    quick : Target
        With the notebooks' verdicts.
    status : str
        The verdict that counts, see :meth:`Recorded.counting`.
    recorded : str
        The worst recorded verdict; empty where no record judges the target.
    verdicts : tuple of (str, Verdict)
        The recorded verdicts, each with its exhibit.
    """

    quick: Target
    status: str
    recorded: str
    verdicts: tuple[tuple[str, Verdict], ...]

    def as_dict(self) -> dict[str, Any]:
        row = self.quick.as_dict()
        quick = {key: row.pop(key) for key in ("status", "notebooks", "verdicts")}
        recorded = {
            "status": self.recorded,
            "exhibits": list(dict.fromkeys(exhibit for exhibit, _ in self.verdicts)),
            "verdicts": [v.as_dict() for _, v in self.verdicts],
        }
        return {
            **row,
            "status": self.status,
            "recorded": recorded if self.verdicts else None,
            "quick": quick,
        }


@dataclass(frozen=True)
class Recorded:
    """All records of a project.

    Attributes
    ----------
    records : mapping of str to Record
        By exhibit, those that can be read.
    problems : tuple of str
        Faults of these records and of those that cannot be read, as sentences.
    judgings : mapping of str to Judging
        By exhibit, the verdicts that count.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    judgings: Mapping[str, Judging] = field(default_factory=dict)

    def verdicts_for(self, target: str) -> list[tuple[str, Verdict]]:
        """Return every recorded verdict on a target with its exhibit."""
        return self._judged.get(target, [])

    @functools.cached_property
    def _judged(self) -> dict[str, list[tuple[str, Verdict]]]:
        return group_by_target((e, self.judgings[e].verdicts) for e in self.records)

    def status(self, target: str) -> str:
        """Return the worst recorded verdict on a target; empty if no record judges it."""
        judged = self.verdicts_for(target)
        return overall(verdict for _, verdict in judged) if judged else ""

    def counting(self, target: str, quick: Iterable[tuple[str, Verdict]]) -> str:
        """Return the verdict that counts on a target, *pending* if there is none.

        The worst over the exhibits that judge it, each by its record where that decides it, else by
        its notebook (``quick``: exhibits and verdicts). On the paper's data a record counts also
        where it is undecided: a weaker run decides nothing that a stronger one does not.
        """
        quick, recorded = list(quick), self.verdicts_for(target)
        left = {exhibit for exhibit, _ in quick}
        left -= {exhibit for exhibit, verdict in recorded if self._outranks(exhibit, verdict)}
        by_quick = [verdict for exhibit, verdict in quick if exhibit in left]
        return overall([*by_quick, *(v for exhibit, v in recorded if exhibit not in left)])

    def answers(self, exhibit: str, target: str) -> bool:
        """Whether an exhibit's record counts on a target instead of its quick run."""
        return any(e == exhibit and self._outranks(e, v) for e, v in self.verdicts_for(target))

    def _outranks(self, exhibit: str, verdict: Verdict) -> bool:
        """Whether a recorded verdict counts instead of the quick run's."""
        if verdict.status == "not decided":
            return not self.records[exhibit].stand_ins
        return verdict.status not in UNJUDGED


def recorded_ids(project: Path) -> list[str]:
    """Return the exhibits with a recorded run in a project, sorted."""
    return find_records(project / RECORDED)


def read_recorded(project: str | Path) -> Recorded:
    """Read every record; report the faults of one without hiding the others."""
    project = Path(project)
    records: dict[str, Record] = {}
    judgings: dict[str, Judging] = {}
    problems: list[str] = []
    for exhibit in recorded_ids(project):
        path = (RECORDED / exhibit).as_posix()
        try:
            record = read_record(project / path)
            judging = judge_record(exhibit, record)
            problems += [
                f"{path}: {problem}" for problem in find_problems(exhibit, record, judging)
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            message = error.args[0] if isinstance(error, KeyError) and error.args else error
            problems.append(f"{path}: {message}")
            continue
        records[exhibit], judgings[exhibit] = record, judging
    return Recorded(records, tuple(problems), judgings)


def pair_verdicts(recorded: Recorded, results: Mapping[str, StoredResult]) -> list[Beside]:
    """Return every target of the registry with its recorded verdicts beside the notebooks'.

    Parameters
    ----------
    recorded : Recorded
    results : mapping of str to StoredResult
        The notebooks' results, by exhibit.
    """
    quick = verdicts_by_target((r.notebook, r.verdicts) for r in results.values())
    judged = group_by_target((exhibit, r.verdicts) for exhibit, r in results.items())
    return [
        Beside(
            row,
            recorded.counting(target, judged.get(target, ())),
            recorded.status(target),
            tuple(recorded.verdicts_for(target)),
        )
        for target, row in quick.items()
    ]


def judge_record(exhibit: str, record: Record) -> Judging:
    """Judge a record from its tables, or keep its stored verdicts where those do not suffice.

    Parameters that the exhibit no longer takes do not raise here: see :func:`find_problems`.
    """
    try:
        tables = record.tables
    except (TypeError, ValueError) as error:
        return Judging(record.verdicts, str(error))
    try:
        return Judging(judge_tables(find_exhibit(exhibit).file, tables))
    except MissingTable as error:
        return Judging(record.verdicts, str(error.args[0]))


def find_problems(exhibit: str, record: Record, judging: Judging) -> Iterator[str]:
    """Yield why a record's verdicts cannot stand for its exhibit, as sentences.

    A verdict failed or has a target of no CSV file; the exhibit has lost or gained a parameter, or
    refuses a recorded value; or a verdict lacks a reason.
    """
    known = find_exhibit(exhibit)
    if record.provenance.exhibit != exhibit:
        yield f"it is the record of {record.provenance.exhibit}"
        return
    if record.figure is not None:
        yield "it holds a picture; records hold tables only"
    # those stored with a record stand only where they cannot be computed anew
    if unknown := list(find_unknown_verdicts(judging.verdicts, ("pending",))):
        yield from unknown  # of these nothing more can be said
        return
    yield from _verdict_problems(known, record, judging)
    # failed verdicts and their reasons are problems already
    yield from find_unexplained(v for v in record.verdicts if v.status != "failed")
    yield from _parameter_problems(known, record)


def _verdict_problems(exhibit: Exhibit, record: Record, judging: Judging) -> Iterator[str]:
    judged_targets = {verdict.target for verdict in judging.verdicts}
    if judged_targets != exhibit.targets:
        missing = sorted(exhibit.targets - judged_targets)
        more = sorted(judged_targets - exhibit.targets)
        yield f"no verdict on {missing}, and more than is asked for: {more}"
    for verdict in judging.verdicts:
        if verdict.status == "failed":
            yield f"{verdict.target} failed: {verdict.statement}: {verdict.why}"


def _parameter_problems(exhibit: Exhibit, record: Record) -> Iterator[str]:
    try:
        again = record.settings
    except (TypeError, ValueError) as error:
        yield f"its parameters cannot be asked for any more: {error}"
        return
    for name in sorted(exhibit.parameters.keys() - record.provenance.parameters.keys()):
        yield f"its parameters cannot be asked for any more: {name} is new since"
    for name, value in record.provenance.parameters.items():
        if plain(again[name]) != value:
            yield f"{name} is read as {again[name]!r}; recorded was {value!r}"


def list_differences(record: Record, exhibit: Exhibit) -> list[Difference]:
    """Return the parameters in which a run differs from the exhibit's paper profile."""
    ran = record.provenance.parameters
    return [
        Difference(name, ran[name], p.paper)
        for name, p in exhibit.parameters.items()
        if name in ran and ran[name] != plain(p.parse(name, p.paper))
    ]


def list_unrecorded(project: Path) -> list[registry.Cost]:
    """Return the costs of the data-driven exhibits without a record, in their CSV file's order."""
    have = set(recorded_ids(project))
    return [c for c in registry.costs().values() if c.needs_data and c.exhibit not in have]
