"""Sweeps: many pure tasks, in this process, in several or on a cluster, stored as they finish.

A task is a mapping of parameters that JSON can hold, and a sweep calls one function on each. The
results do not depend on where tasks run nor on the order in which they finish: each task has its
own seed, derived from the sweep's seed and its parameters, and one thread.

With a ``store`` (a folder), each finished task is one file there, complete before the task counts
as finished: a killed sweep resumes where it stopped::

    rows = run_sweep(tail_row, [{"dimension": n} for n in (10, 100)], seed=0, workers=2,
                     store="checkpoints/tails")
"""

from __future__ import annotations

import contextlib
import functools
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from companion.study.cluster import check_scheduler
from companion.study.dask_engine import call_dask
from companion.study.engines import call_processes, call_serially
from companion.study.files import seal, unseal, write_atomically
from companion.study.progress import progress_of
from companion.study.sources import code_stamp
from companion.study.tasks import (
    ClusterError,
    Engine,
    Outcome,
    Row,
    SweepError,
    TaskFunction,
    canonical,
    check_importable,
    encode_result,
    name_of,
    task_key,
    task_seed,
)
from reconrisk import arguments

#: version of the layout of a stored task; tasks of other versions are computed again.
SCHEMA = 1


def run_sweep(
    function: TaskFunction,
    tasks: Iterable[Mapping[str, Any]],
    *,
    seed: int,
    workers: int = 1,
    store: str | Path | None = None,
    progress: bool | None = None,
    label: str = "",
    scheduler: str = "",
) -> list[Any]:
    """Call ``function(task, seed)`` on every task and return the results in task order.

    Parameters
    ----------
    function : callable
        Defined at the top level of a module. Takes one task (a dict) and that task's own seed, or
        the task alone, and returns a dict or a list of dicts that JSON can hold (NumPy numbers and
        arrays are converted). It must depend on nothing else.
    tasks : iterable of mappings
        Parameters that JSON can hold; tuples arrive as lists. Equal tasks are computed once.
    seed : int
        The sweep's seed, >= 0.
    workers : int
        Processes; 1 computes in this one. No result depends on it.
    store : str or Path, optional
        Folder of finished tasks, made if it does not exist. Tasks found there are not computed
        again, unless their file is damaged or was written by other code.
    progress : bool, optional
        Show progress on stderr. By default only on a terminal, after a few seconds. Never inside a
        notebook, whose output is stored.
    label : str
        The name of the sweep in progress and errors; the function's name by default.
    scheduler : str
        A Dask cluster to compute on instead, see
        :func:`~companion.study.cluster.check_scheduler`: ``"tcp://host:port"``, ``"local:4"``, a
        scheduler file. Empty: none. No result depends on it.

    Returns
    -------
    list
        One entry per task: the dict or list of dicts its call returned. Floats are exact.

    Raises
    ------
    SweepError
        If a task fails (the message names its parameters; tasks that finished are in the store),
        the function is not importable, or the cluster cannot be used or is lost.
    TypeError
        If JSON cannot hold a task or a result.
    ValueError
        If ``scheduler`` names no cluster, or ``workers`` is given with it.

    Notes
    -----
    Cost: the tasks' own, plus about a millisecond per task for a worker and for the store (some
    milliseconds on a cluster), plus the import of the function's module once per worker. Memory
    holds the results and, beyond them, a few calls per worker.
    """
    arguments.integer("seed", seed, 0)
    arguments.integer("workers", workers, 1)
    if scheduler:
        check_scheduler(scheduler, workers)
    check_importable(function, int(workers))
    name = label or function.__qualname__
    plain = [json.loads(canonical(f"task {i}", task)) for i, task in enumerate(tasks)]
    keys = [task_key(function, task, seed) for task in plain]
    storage = None if store is None else _Store(Path(store), function, int(seed))
    texts: dict[str, str] = {} if storage is None else storage.load(dict.fromkeys(keys))
    found = len(texts)
    first: dict[str, int] = {}  # equal tasks are computed once
    for i, key in enumerate(keys):
        first.setdefault(key, i)
    calls = [(i, plain[i], task_seed(plain[i], seed)) for k, i in first.items() if k not in texts]
    engine = _engine(int(workers), scheduler, len(calls))
    failed: list[Outcome] = []
    with (
        _name_kept_tasks(name, texts, storage),
        progress_of(name, found + len(calls), found, progress) as advance,
        contextlib.closing(engine(function, calls)) as outcomes,
    ):
        for outcome in outcomes:
            if outcome.result is None:
                failed.append(outcome)
                continue
            key = keys[outcome.position]
            if storage is not None:
                storage.save(key, plain[outcome.position], outcome.result)
            texts[key] = outcome.result
            advance()
    if failed:
        _raise_failure(name, failed, plain, len(texts), storage)
    return [json.loads(texts[key]) for key in keys]


def _engine(workers: int, scheduler: str, calls: int) -> Engine:
    if scheduler and calls:
        return functools.partial(call_dask, scheduler=scheduler)
    if workers > 1 and calls > 1:
        return functools.partial(call_processes, workers=min(workers, calls))
    return call_serially


def as_table(tasks: Iterable[Mapping[str, Any]], results: Iterable[Any]) -> pd.DataFrame:
    """Return a sweep's results as a table: each row holds its task's parameters, then its result.

    Raises
    ------
    ValueError
        If a result has a column with the name of a parameter and another value, or if there are
        not as many results as tasks.
    """
    rows: list[Row] = []
    for task, result in zip(tasks, results, strict=True):
        for row in result if isinstance(result, list) else [result]:
            clash = sorted(k for k in row.keys() & task.keys() if row[k] != task[k])
            if clash:
                raise ValueError(f"a result overwrites the parameters {', '.join(clash)} of {task}")
            rows.append({**task, **row})
    return pd.DataFrame(rows)


# Failures ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _name_kept_tasks(name: str, texts: Mapping[str, str], store: _Store | None) -> Iterator[None]:
    """Name the sweep and the tasks kept in errors of the cluster."""
    try:
        yield
    except ClusterError as error:
        kept = _finished_text(len(texts), store)
        raise ClusterError(f"{name}: {error}{kept}") from error.__cause__


def _finished_text(finished: int, store: _Store | None) -> str:
    return f" ({finished} finished tasks are kept in {store.folder})" if store else ""


def _raise_failure(
    name: str, failed: list[Outcome], tasks: Sequence[Row], finished: int, store: _Store | None
) -> None:
    first = min(failed, key=lambda outcome: outcome.position)
    last_line = first.failure.strip().splitlines()[-1]
    kept = _finished_text(finished, store)
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    cause = first.exception or RuntimeError("in a worker process:\n" + first.failure)
    message = f"{name}: task {tasks[first.position]}{more} failed: {last_line}{kept}"
    raise SweepError(message) from cause


# The store --------------------------------------------------------------------------------------


class _Store:
    """A folder with one file per finished task, named by its key, with a hash of its content."""

    def __init__(self, folder: Path, function: TaskFunction, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.function = name_of(function)
        self.seed = seed
        self.code = code_stamp(function)

    def load(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the stored results, as JSON by key; warn of tasks that must be computed again."""
        texts: dict[str, str] = {}
        damaged: list[str] = []
        outdated = 0
        for key in keys:
            path = self.folder / f"{key}.json"
            try:
                body = unseal(path.read_bytes(), SCHEMA)
                if body["key"] != key:
                    raise ValueError("it holds another task")
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError) as error:
                damaged.append(f"{path.name} ({error})")
                continue
            if body["code"] != self.code:
                outdated += 1
                continue
            texts[key] = encode_result(body["result"])
        if damaged:
            warnings.warn(
                f"{len(damaged)} stored tasks in {self.folder} are damaged or foreign and are "
                f"computed again: {', '.join(damaged[:3])}" + ", ..." * (len(damaged) > 3),
                stacklevel=3,
            )
        if outdated:
            warnings.warn(
                f"{outdated} stored tasks in {self.folder} come from other code than "
                f"{self.function} now runs, and are computed again",
                stacklevel=3,
            )
        return texts

    def save(self, key: str, task: Row, result: str) -> None:
        """Write one task's file; on return it is complete and on the disk."""
        body = {
            "schema": SCHEMA,
            "key": key,
            "function": self.function,
            "seed": self.seed,
            "task": task,
            "code": self.code,
            "result": json.loads(result),
        }
        write_atomically(self.folder / f"{key}.json", seal(body))
