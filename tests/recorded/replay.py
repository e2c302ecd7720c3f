"""Computing a few tasks of a long run again, and the exhibit's tables from them.

An exhibit's sweeps are long, what it makes of their results is short. There are two ways to hold
one point of a record against the code:

- :func:`rerun`: the sweeps compute only the tasks that are asked for and hand their results out in
  the place of all others. The exhibit assembles its tables as ever; the rows that rest on computed
  tasks alone are right, the others are not, and neither are the verdicts.
- :func:`task_of`: the exhibit is started and stopped at a sweep; one of its tasks is computed, as
  it was or with fewer trials, and its result is compared with what the tables say.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from companion.study import Context, Study, Tables, find_exhibit
from companion.study.records import Record
from companion.study.sweep import run_sweep
from companion.study.tasks import TaskFunction

#: from the name of a sweep's function and a task to whether the task is computed
Wanted = Callable[[str, Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Sweep:
    """A sweep as an exhibit asked for it."""

    function: TaskFunction
    tasks: list[dict[str, Any]]
    seed: int

    def compute(self, task: Mapping[str, Any]) -> Any:
        """Compute one task, of the sweep's or like one of them."""
        return run_sweep(self.function, [task], seed=self.seed, progress=False)[0]


class _Reached(BaseException):
    """The sweep that was waited for has been asked for; no error of a measurement."""

    def __init__(self, found: Sweep) -> None:
        super().__init__()
        self.found = found


def context_of(
    record: Record, data_root: str | Path, overrides: Mapping[str, Any] | None = None
) -> Context:
    """Return the context of a record's run, with other values for some parameters."""
    origin = record.provenance
    study = Study(
        profile=origin.profile,
        seed=origin.seed,
        data_root=data_root,
        overrides={origin.exhibit: {**origin.parameters, **(overrides or {})}},
    )
    return study.context(origin.exhibit)


def rerun(
    record: Record,
    data_root: str | Path,
    wanted: Wanted,
    overrides: Mapping[str, Any] | None = None,
) -> Tables:
    """Compute a record's exhibit again with its own parameters and seed, few tasks of it.

    Parameters
    ----------
    record : Record
    data_root : str or Path
        Folder of the papers' data sets; empty if the exhibit reads none.
    wanted : callable
        Says which tasks of the sweeps are computed; the first of a sweep if it wants none.
    overrides : mapping, optional
        Parameters that differ from the record's.
    """

    def partly(function: TaskFunction, tasks: Sequence[Any], seed: int) -> list[Any]:
        chosen = [i for i, t in enumerate(tasks) if wanted(function.__name__, t)]
        chosen = chosen or ([0] if tasks else [])
        some = run_sweep(function, [tasks[i] for i in chosen], seed=seed, progress=False)
        found = dict(zip(chosen, some, strict=True))
        return [found[max(chosen, key=lambda i, t=t: _alike(tasks[i], t))] for t in tasks]

    context = context_of(record, data_root, overrides)
    with _sweeping(partly), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of spreads of results that are all one
        return find_exhibit(context.exhibit).file.measure(context)


def task_of(
    record: Record,
    data_root: str | Path,
    function: str,
    overrides: Mapping[str, Any] | None = None,
) -> Sweep:
    """Return the first sweep of the named function that a record's exhibit asks for.

    Sweeps before it compute one task each.
    """

    def waiting(called: TaskFunction, tasks: Sequence[Any], seed: int) -> list[Any]:
        if called.__name__ == function:
            raise _Reached(Sweep(called, list(tasks), seed))
        return run_sweep(called, tasks[:1], seed=seed, progress=False) * len(tasks)

    context = context_of(record, data_root, overrides)
    try:
        with _sweeping(waiting):
            find_exhibit(context.exhibit).file.measure(context)
    except _Reached as reached:
        return reached.found
    raise LookupError(f"{context.exhibit} asks for no sweep of {function}")


@contextlib.contextmanager
def _sweeping(instead: Callable[[TaskFunction, list[Any], int], list[Any]]) -> Iterator[None]:
    """Give every sweep of an exhibit to another function in this block."""

    def given(
        context: Context, function: TaskFunction, tasks: Any, *_: Any, **__: Any
    ) -> list[Any]:
        return instead(function, list(tasks), context.seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "sweep", given)
        yield


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return sum(one[key] == other.get(key) for key in one)
