"""``companion run``: compute exhibits in turn, and lose no result.

Each exhibit's record is written as it finishes. A verdict that fails is recorded as *failed*, an
exhibit that raises does not stop the next, and an interrupt keeps finished ones.
"""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from companion.cli._console import print_verdicts, status_text
from companion.cli._memory import affordable_workers, free_gigabytes, start_of_peak
from companion.cli._progress import Progress
from companion.study import Study, registry, stored
from companion.study.exhibits import all_exhibits, find_exhibit
from companion.study.own_images import reads_data
from companion.study.progress import duration
from companion.study.provenance import Reason, describe_run, explain
from companion.study.records import RecordError, read_record, write_record
from companion.study.sweep import SweepError
from companion.study.verdicts import Verdict, failures_kept, overall
from reconrisk.cli.console import FAILED, MISTAKE, fail, note, print_table, show

if TYPE_CHECKING:
    from companion.study.results import Result

#: exit status after Ctrl-C
INTERRUPTED = 130


@dataclass(frozen=True)
class Plan:
    """One exhibit's run.

    Attributes
    ----------
    exhibit : str
        Its id.
    session : Study
        With the folder of the finished tasks as its checkpoints.
    folder : Path
        Of the record.
    keeps_tasks : bool
        Whether finished tasks are kept after the run.
    """

    exhibit: str
    session: Study
    folder: Path
    keeps_tasks: bool

    @property
    def tasks(self) -> Path:
        """Folder of the finished tasks."""
        return Path(self.session.checkpoints)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one plan: the verdicts with what ran, or the problem."""

    plan: Plan
    status: str
    how: str
    verdicts: Sequence[Verdict] = ()
    ran: str = ""
    problem: str = ""

    @property
    def failed(self) -> list[str]:
        """The problem and the failed verdicts, as sentences."""
        problems = [f"{self.plan.exhibit}: {self.problem}"] if self.problem else []
        failed = [v for v in self.verdicts if v.status == "failed"]
        return problems + [f"{v.target}: {v.statement}: {v.why}" for v in failed]


def choose_exhibits(
    exhibits: Iterable[str], papers: Iterable[str], *, reading: bool = False
) -> list[str]:
    """Return the exhibits to compute: those named (for a panel, its figure), then the papers'.

    With ``reading``, only those of the papers that read a data set or photographs.
    """
    named = [find_exhibit(e).id for e in exhibits]
    listed = [
        exhibit.id
        for key in papers
        for exhibit in all_exhibits(key).values()
        if not reading or reads_data(exhibit)
    ]
    return list(dict.fromkeys([*named, *listed]))


def make_plans(
    session: Study, exhibits: Sequence[str], out: Path | None, checkpoints: Path | None
) -> list[Plan]:
    """Return the plan of each exhibit: the folders of its record and of its finished tasks.

    The record of a single exhibit goes to ``out`` itself, those of several to
    ``out/PAPER/EXHIBIT``; without ``out`` to ``companion-out/PAPER-EXHIBIT``. Tasks go below the
    record, or to ``checkpoints``.
    """
    made = []
    for exhibit in exhibits:
        folder = Path("companion-out") / exhibit.replace("/", "-")
        if out is not None:
            folder = out if len(exhibits) == 1 else out / exhibit
        tasks = folder / "tasks" if checkpoints is None else checkpoints
        for place in (folder, tasks):
            _check_writable(place)
        own = dataclasses.replace(session, checkpoints=tasks)
        own.context(exhibit)  # raises for invalid arguments before anything is computed
        made.append(Plan(exhibit, own, folder, checkpoints is not None))
    return made


def _check_writable(folder: Path) -> None:
    """Raise OSError if a folder cannot be made or written to; nothing is left."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file; a folder can be written to")
    try:  # permissions do not say all, of the superuser and of read-only systems
        with tempfile.TemporaryDirectory(dir=there, prefix=".companion-"):
            pass
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror} in {there}"
        raise type(error)(problem) from None


def fit_to_memory(every: Sequence[Plan], gigabytes: float | None) -> list[Plan]:
    """Return the plans with no more processes than fit into memory, by default what is free.

    Raises
    ------
    ValueError
        If one process does not fit.
    """
    costs = registry.costs()
    fitted = []
    for plan in every:
        cost = costs.get(plan.exhibit)
        if cost is None or plan.session.profile != "paper" or plan.session.cluster:
            fitted.append(plan)  # a quick run is small, and a cluster has its own memory
            continue
        free = free_gigabytes() if gigabytes is None else gigabytes
        asked = plan.session.workers
        fits = affordable_workers(cost.ceiling_gb, asked, free)
        if not fits:
            raise ValueError(
                f"{plan.exhibit} may take {cost.ceiling_gb:.1f} GB in the paper profile, and "
                f"{free:.1f} GB are free; --memory GB says that it may take as much all the same"
            )
        if fits < asked:
            note(
                f"{plan.exhibit}: {fits} instead of {asked} workers, since each may take "
                f"{cost.ceiling_gb:.1f} GB and {free:.1f} GB are free (--memory GB says otherwise)"
            )
            fewer = dataclasses.replace(plan.session, workers=fits)
            plan = dataclasses.replace(plan, session=fewer)
        fitted.append(plan)
    return fitted


def execute_plans(
    every: Sequence[Plan], *, draw: bool, again: bool, debug: bool, go_on: str
) -> None:
    """Compute every plan that is not up to date and print the outcomes of all.

    ``again`` computes up-to-date exhibits too, ``debug`` lets exceptions through, and ``go_on`` is
    the command that resumes the run after an interrupt.

    Raises
    ------
    typer.Exit
        With status 1 if a verdict failed or an exhibit raised, 2 if the only exhibit refuses its
        arguments, 130 after an interrupt.
    """
    progress = Progress(_foresee(every))
    ended: list[Outcome] = []
    try:
        for plan in every:
            old = None if again else _up_to_date(plan, draw)
            if old is not None:
                progress.passed()
                ended.append(old)
                note(f"{plan.exhibit}: {old.how} ({plan.folder}; --again computes it all the same)")
                continue
            ended.append(_compute(plan, progress, draw, debug, alone=len(every) == 1))
            if len(every) > 1:
                note(f"{plan.exhibit}: {ended[-1].status} ({ended[-1].how})")
    except KeyboardInterrupt:
        _report_interrupt(every, ended, go_on)
        raise typer.Exit(INTERRUPTED) from None
    _report(ended)


def repeat_command(context: typer.Context, *, without: Sequence[str] = ()) -> str:
    """Return the command line that was given, as it can be typed again."""
    words = ["companion", str(context.info_name)]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in without:
            continue
        value = context.params[name]
        values = value if isinstance(value, list | tuple) else [value]
        for one in values:
            if parameter.param_type_name == "argument":
                words.append(str(one))
            elif one is True:
                words.append(parameter.opts[0])
            else:
                words += [parameter.opts[0], str(one)]
    return shlex.join(words)


# One exhibit --------------------------------------------------------------------------------------


def _up_to_date(plan: Plan, draw: bool) -> Outcome | None:
    """Return the outcome recorded by an earlier run; None if the exhibit must be computed."""
    try:
        record = read_record(plan.folder)
    except (OSError, RecordError):
        return None
    reasons = explain(plan.exhibit, record.provenance, plan.session)
    if draw and record.figure is None and find_exhibit(plan.exhibit).is_drawn:
        reasons.append(Reason("figure", "none was drawn"))
    if reasons:
        return None
    how = f"up to date, computed {record.provenance.time}"
    status = overall(v for v in record.verdicts if v.target == plan.exhibit)
    return Outcome(plan, status, how, record.verdicts, record.ran)


def _compute(plan: Plan, progress: Progress, draw: bool, debug: bool, *, alone: bool) -> Outcome:
    start_of_peak()
    start = time.perf_counter()
    try:
        with progress.exhibit(), failures_kept():
            result = plan.session.run(plan.exhibit)
    except Exception as error:
        refused = isinstance(error, ValueError | OSError)
        if debug or (alone and not refused and not isinstance(error, SweepError)):
            raise
        if alone and refused:
            raise fail(f"{error} (--debug shows where)", MISTAKE) from None
        kind = "" if isinstance(error, SweepError) else f"{type(error).__name__}: "
        took = duration(time.perf_counter() - start)
        return Outcome(plan, "failed", took, problem=f"{kind}{error}")
    seconds = time.perf_counter() - start
    origin = describe_run(plan.session, plan.exhibit, seconds)
    picture, problem = _draw(result, debug) if draw else (None, "")
    try:
        write_record(
            result.tables,
            plan.folder,
            provenance=origin,
            verdicts=result.verdicts,
            figure=picture,
        )
    except OSError as error:
        if debug:
            raise
        kept = f"its finished tasks are in {plan.tasks}" if plan.tasks.is_dir() else "it is lost"
        problem = f"{plan.folder} cannot be written: {error}; an older record is as it was, {kept}"
        return Outcome(plan, "failed", duration(seconds), problem=problem)
    if not plan.keeps_tasks and plan.tasks.is_dir():
        shutil.rmtree(plan.tasks)  # they are needed only to resume this run
    status = "failed" if problem else result.status
    return Outcome(plan, status, duration(seconds), result.verdicts, result.tables.ran, problem)


def _draw(result: Result, debug: bool) -> tuple[Any, str]:
    """Return the figure, or None and the error: it must not lose hours of computing."""
    try:
        return find_exhibit(result.exhibit).draw(result.tables), ""
    except Exception as error:
        if debug:
            traceback.print_exc()
        return None, f"the figure could not be drawn: {type(error).__name__}: {error}"


def _foresee(every: Sequence[Plan]) -> list[tuple[str, float | None]]:
    """Return the seconds of earlier runs: of the costs for paper, of the notebooks for quick."""
    known: dict[str, float | None]
    if every[0].session.profile == "paper":
        known = {name: float(cost.seconds) for name, cost in registry.costs().items()}
    else:
        results = stored.read(registry.project_root()).results.items()
        known = {name: r.provenance.seconds for name, r in results if r.provenance is not None}
    return [(plan.exhibit, known.get(plan.exhibit)) for plan in every]


# Reports ----------------------------------------------------------------------------------------


def _report(ended: Sequence[Outcome]) -> None:
    """Print the outcomes; exit with status 1 if a verdict failed or an exhibit raised."""
    if len(ended) == 1:
        _report_one(ended[0])
    else:
        print_table(
            ("exhibit", "status", "took", "verdicts", "written to"),
            [
                (
                    e.plan.exhibit,
                    status_text(e.status),
                    e.how.partition(",")[0],
                    str(len(e.verdicts)),
                    str(e.plan.folder) if e.verdicts else "",
                )
                for e in ended
            ],
            flexible="written to",
        )
    failed = [text for e in ended for text in e.failed]
    for text in failed:
        note(f"error: {text}")
    if failed:
        raise typer.Exit(FAILED)


def _report_one(one: Outcome) -> None:
    if not one.verdicts:
        return
    show(f"{one.plan.exhibit}: {one.status}")
    if one.ran:
        show(f"{one.ran}\n")
    print_verdicts(one.verdicts)
    folder = one.plan.folder
    files = sorted(p.name for p in folder.iterdir() if p.suffix in {".csv", ".png"})
    show(f"\n{one.how}; written to {folder}: {', '.join([*files, 'record.json'])}")


def _report_interrupt(every: Sequence[Plan], ended: Sequence[Outcome], go_on: str) -> None:
    kept = [e.plan for e in ended if e.verdicts]
    if len(every) > 1:
        note(f"interrupted: {len(kept)} of {len(every)} exhibits are finished and kept")
    else:
        note("interrupted")
    if len(ended) < len(every):
        plan = every[len(ended)]
        tasks = list(plan.tasks.rglob("*.json")) if plan.tasks.is_dir() else []
        if tasks:
            note(f"{plan.exhibit}: {len(tasks)} finished tasks are kept in {plan.tasks}")
        else:
            note(f"{plan.exhibit}: nothing of it was finished")
    note(f"to go on: {go_on}")
