"""Many pure tasks: in this process or in several, with progress, on disk as they finish.

A task is a mapping of parameters that JSON can hold, and a sweep calls one function on each. The
results do not depend on the number of worker processes nor on the order in which tasks finish:
each task has a seed of its own, derived from the sweep's seed and its parameters, and computes
with the same number of threads in every case.

With a ``store`` (a folder), each finished task is one file there, complete before the task counts
as finished, so a killed sweep resumes where it stopped::

    rows = run_sweep(tail_row, [{"dimension": n} for n in (10, 100)], seed=0, workers=2,
                     store="checkpoints/tails")
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import json
import os
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from reconrisk import _check

__all__ = [
    "SweepError",
    "as_table",
    "call_processes",
    "call_serially",
    "run_sweep",
    "task_key",
    "task_seed",
]

#: layout of a stored task; a file of another layout is computed anew.
SCHEMA = 1
#: a sweep shorter than this shows no progress unless asked to.
PATIENCE_SECONDS = 3.0
#: how often progress is written where there is no terminal to redraw it on.
LINE_SECONDS = 10.0

Row = dict[str, Any]
TaskFunction = Callable[[dict[str, Any], int], Any]
#: ``(position, parameters, seed)`` of one task.
Call = tuple[int, dict[str, Any], int]


class SweepError(RuntimeError):
    """A task failed, or its function cannot be called in a worker process."""


@dataclass(frozen=True)
class Outcome:
    """What became of one call: the result as JSON, or the traceback of its failure."""

    position: int
    result: str | None = None
    failure: str = ""
    exception: BaseException | None = None


#: maps calls to their outcomes as they finish, in any order: the part of a sweep that knows where
#: the tasks run. :func:`call_serially` and :func:`call_processes` are two such engines.
Engine = Callable[[TaskFunction, Sequence[Call]], Generator[Outcome, None, None]]


def run_sweep(
    function: TaskFunction,
    tasks: Iterable[Mapping[str, Any]],
    *,
    seed: int,
    workers: int = 1,
    store: str | Path | None = None,
    progress: bool | None = None,
    label: str = "",
    threads: int | None = 1,
) -> list[Any]:
    """Call ``function(task, seed)`` on every task and return the results in task order.

    Parameters
    ----------
    function : callable
        Defined at the top level of a module. Takes one task (a dict) and that task's own seed, and
        returns a dict or a list of dicts that JSON can hold (NumPy numbers and arrays are
        converted). It must depend on nothing else.
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
        Show progress on stderr. By default only on a terminal, and only once the sweep has run for
        a few seconds. Never inside a notebook, whose output is stored.
    label : str
        The name of the sweep in progress and errors; the function's name by default.
    threads : int, optional
        Threads of PyTorch and of the linear algebra in each task. The default of 1 makes results
        equal to the last bit whatever ``workers`` and the machine; ``None`` shares the cores among
        the workers, where rounding may then differ.

    Returns
    -------
    list
        One entry per task: the dict or list of dicts its call returned. Floats are exact.

    Raises
    ------
    SweepError
        If a task fails (the message names its parameters; tasks that finished are in the store),
        or if the function is not importable.
    TypeError
        If a task or a result is not made of what JSON can hold.

    Notes
    -----
    Cost: the tasks' own, plus about a millisecond per task for a worker and for the store, plus
    the import of the function's module once per worker. Memory holds the results and, beyond them,
    two calls per worker.
    """
    _check.integer("seed", seed, 0)
    _check.integer("workers", workers, 1)
    if threads is None:
        threads = max(1, (os.cpu_count() or 1) // int(workers))
    _check_importable(function, int(workers))
    name = label or function.__qualname__
    plain = [json.loads(_canonical(f"task {i}", task)) for i, task in enumerate(tasks)]
    keys = [task_key(function, task, seed) for task in plain]
    shelf = None if store is None else _Store(Path(store), function, int(seed))
    texts: dict[str, str] = {} if shelf is None else shelf.load(dict(zip(keys, plain, strict=True)))
    found = len(texts)
    calls = [
        (i, plain[i], task_seed(plain[i], seed))
        for key, i in {key: i for i, key in reversed(list(enumerate(keys)))}.items()
        if key not in texts
    ]
    calls.sort(key=lambda call: call[0])
    engine: Engine = functools.partial(call_serially, threads=int(threads))
    if workers > 1 and len(calls) > 1:
        engine = functools.partial(
            call_processes, workers=min(int(workers), len(calls)), threads=int(threads)
        )
    failed: list[Outcome] = []
    with (
        _progress(name, found + len(calls), found, progress) as advance,
        contextlib.closing(engine(function, calls)) as outcomes,
    ):
        for outcome in outcomes:
            if outcome.result is None:
                failed.append(outcome)
                continue
            key = keys[outcome.position]
            if shelf is not None:
                shelf.save(key, plain[outcome.position], outcome.result)
            texts[key] = outcome.result
            advance()
    if failed:
        _raise_failure(name, failed, plain, len(texts), shelf)
    return [json.loads(texts[key]) for key in keys]


def as_table(tasks: Iterable[Mapping[str, Any]], results: Iterable[Any]) -> pd.DataFrame:
    """Return a sweep's results as a table: each row holds its task's parameters, then its result.

    Raises
    ------
    ValueError
        If a result has a column of the name of a parameter but with another value, or if there are
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


def task_key(function: TaskFunction, task: Mapping[str, Any], seed: int) -> str:
    """Return the name under which a task's result is stored: a hash of what determines it."""
    identity = {"function": _name(function), "seed": int(seed), "task": task}
    return hashlib.sha256(_canonical("task", identity).encode()).hexdigest()


def task_seed(task: Mapping[str, Any], seed: int) -> int:
    """Return a task's own 63-bit seed: it depends on the sweep's seed and the parameters only.

    Where a machine keeps the data (a parameter ``data_root``) is no part of it.
    """
    text = _canonical("task", {"seed": int(seed), "task": _anywhere(task)})
    return int.from_bytes(hashlib.sha256(b"seed " + text.encode()).digest()[:8], "big") >> 1


def _anywhere(task: Any) -> Any:
    """A task with a mark in place of the folder of its data."""
    if not isinstance(task, Mapping):
        return task
    return {k: k if k == "data_root" and v else _anywhere(v) for k, v in task.items()}


# Plain values -----------------------------------------------------------------------------------


def _canonical(what: str, value: Any, *, finite: bool = True, ordered: bool = True) -> str:
    """One text per value: sorted keys, floats by repr (exact), NumPy numbers as Python's."""
    try:
        _check_keys(value)
        return json.dumps(
            value,
            sort_keys=ordered,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=not finite,
            default=_to_plain,
        )
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be made of what JSON can hold: {error}") from None


def _to_plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} {value!r}")


def _check_keys(value: Any) -> None:
    # json.dumps would turn the keys 1, True and None into texts without a word
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not a text")
            _check_keys(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            _check_keys(entry)


def _encoded(result: Any) -> str:
    """A result as JSON; infinities and nan are results too (an exact copy has infinite PSNR)."""
    rows = result if isinstance(result, list | tuple) else [result]
    if not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"a task must return a dict or a list of dicts; got {result!r:.200}")
    # the keys keep their order: they become the columns of a table
    return _canonical("the result of a task", result, finite=False, ordered=False)


def _name(function: TaskFunction) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _check_importable(function: TaskFunction, workers: int) -> None:
    qualname = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not qualname or "<" in qualname or module is None:
        raise SweepError(
            f"the function of a sweep must be defined at the top level of a module, so that "
            f"workers can import it; got {function!r}"
        )
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if found is not function:
        raise SweepError(f"{_name(function)} does not name the function given; workers import it")
    if workers > 1 and module.__name__ == "__main__" and not hasattr(module, "__file__"):
        raise SweepError(
            f"{qualname} was defined in a notebook or a prompt, where worker processes cannot "
            "import it: move it into a module, or use workers=1"
        )


# Engines ----------------------------------------------------------------------------------------


def _attempt(function: TaskFunction, call: Call) -> Outcome:
    position, task, seed = call
    try:
        return Outcome(position, _encoded(function(copy.deepcopy(task), seed)))
    except Exception as error:
        return Outcome(position, None, traceback.format_exc(), error)


def _attempt_in_worker(function: TaskFunction, call: Call) -> Outcome:
    outcome = _attempt(function, call)
    # not every exception survives the way between processes, its traceback as text does
    return Outcome(outcome.position, outcome.result, outcome.failure)


def call_serially(
    function: TaskFunction, calls: Sequence[Call], *, threads: int = 1
) -> Generator[Outcome, None, None]:
    """Engine: one call after the other in this process; ends at the first failure."""
    with _threads_limited(threads):
        for call in calls:
            outcome = _attempt(function, call)
            yield outcome
            if outcome.result is None:
                return


def call_processes(
    function: TaskFunction, calls: Sequence[Call], *, workers: int, threads: int = 1
) -> Generator[Outcome, None, None]:
    """Engine: calls in freshly spawned worker processes.

    After a failure no further call starts, but those under way are waited for. When the caller
    stops early (an interrupt), the workers are ended at once; when this process dies, they end by
    themselves.
    """
    before = set(active_children())
    pool = futures.ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=_prepare_worker,
        initargs=(function.__module__, threads),
    )
    waiting = iter(calls)
    running: dict[futures.Future[Outcome], Call] = {}
    healthy, finished = True, False
    try:
        while True:
            while healthy and len(running) < 2 * workers:
                call = next(waiting, None)
                if call is None:
                    break
                running[pool.submit(_attempt_in_worker, function, call)] = call
            if not running:
                break
            done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in done:
                call = running.pop(future)
                if future.cancelled():
                    continue
                outcome = _received(future, call)
                if outcome.result is None and healthy:
                    healthy = False
                    for other in running:
                        other.cancel()
                yield outcome
        finished = True
    finally:
        if not finished:
            for process in set(active_children()) - before:
                process.terminate()
        pool.shutdown(wait=finished, cancel_futures=True)


def _received(future: futures.Future[Outcome], call: Call) -> Outcome:
    try:
        return future.result()
    except futures.BrokenExecutor as error:
        why = (
            "a worker process ended abruptly (out of memory?), or could not import the function's "
            "module, or was started from a script without an `if __name__ == '__main__'` guard"
        )
        return Outcome(call[0], None, f"{why}: {error}", error)


def _prepare_worker(module: str, threads: int) -> None:
    import signal

    # an interrupt at the terminal reaches every process; the parent alone decides what to do
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for libraries that are loaded later
    if module != "__main__":
        importlib.import_module(module)
    _limit_threads(threads)


def _end_with(sentinel: int) -> None:
    """End this process when its parent does: a killed sweep must not go on computing."""
    wait_for([sentinel])
    os._exit(1)


def _limit_threads(threads: int) -> Any:
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
    return threadpool_limits(threads)


@contextlib.contextmanager
def _threads_limited(threads: int) -> Iterator[None]:
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    limits = _limit_threads(threads)
    try:
        yield
    finally:
        limits.restore_original_limits()
        if torch is not None:
            torch.set_num_threads(before)


def _raise_failure(
    name: str, failed: list[Outcome], tasks: Sequence[Row], finished: int, shelf: _Store | None
) -> None:
    first = min(failed, key=lambda outcome: outcome.position)
    last_line = first.failure.strip().splitlines()[-1]
    kept = f" ({finished} finished tasks are kept in {shelf.folder})" if shelf else ""
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    cause = first.exception or RuntimeError("in a worker process:\n" + first.failure)
    raise SweepError(f"{name}: task {tasks[first.position]}{more} failed: {last_line}{kept}") from (
        cause
    )


# The store --------------------------------------------------------------------------------------


class _Store:
    """A folder with one file per finished task, named by its key and sealed by a hash."""

    def __init__(self, folder: Path, function: TaskFunction, seed: int) -> None:
        from reconrisk.study.sources import code_stamp

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.function = _name(function)
        self.seed = seed
        self.code = code_stamp(function)

    def load(self, wanted: Mapping[str, Row]) -> dict[str, str]:
        """The stored results, as JSON by key; warns of files that must be computed anew."""
        texts: dict[str, str] = {}
        damaged: list[str] = []
        outdated = 0
        for key in wanted:
            path = self.folder / f"{key}.json"
            try:
                body = _unsealed(path.read_bytes(), key)
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError) as error:
                damaged.append(f"{path.name} ({error})")
                continue
            if body["code"] != self.code:
                outdated += 1
                continue
            texts[key] = _encoded(body["result"])
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
        """Write one task's file; when this returns, the file is complete and on the disk."""
        body = {
            "schema": SCHEMA,
            "key": key,
            "function": self.function,
            "seed": self.seed,
            "task": task,
            "code": self.code,
            "result": json.loads(result),
        }
        sealed = {**body, "sha256": _seal(body)}
        write_atomically(
            self.folder / f"{key}.json",
            json.dumps(sealed, indent=1, ensure_ascii=False).encode() + b"\n",
        )


def _seal(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical("a stored task", body, finite=False).encode()).hexdigest()


def _unsealed(data: bytes, key: str) -> dict[str, Any]:
    body = json.loads(data)
    if not isinstance(body, dict) or "sha256" not in body:
        raise ValueError("not a stored task")
    seal = body.pop("sha256")
    if body.get("schema") != SCHEMA:
        raise ValueError(f"layout {body.get('schema')!r}, expected {SCHEMA}")
    if _seal(body) != seal:
        raise ValueError("its hash does not match")
    if body["key"] != key:
        raise ValueError("it holds another task")
    return body


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, even if the machine stops.

    The bytes go to a temporary file beside it, are forced to the disk, and are then renamed.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem[:16]}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if os.name == "posix":  # the renaming itself is on the disk only with its folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@functools.cache
def _umask() -> int:
    # a temporary file is readable by its owner only; the finished one follows the user's umask
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Progress ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _progress(
    label: str, total: int, done: int, wanted: bool | None
) -> Iterator[Callable[[], None]]:
    """Yield a function to call once per finished task."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if wanted is False or sys.stderr is None or _in_notebook() or not (terminal or wanted):
        yield lambda: None
    elif terminal:
        with _bar(label, total, done, 0.0 if wanted else PATIENCE_SECONDS) as advance:
            yield advance
    else:
        lines = _Lines(label, total, done, sys.stderr)
        yield lines.advance
        lines.write()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextlib.contextmanager
def _bar(label: str, total: int, done: int, patience: float) -> Iterator[Callable[[], None]]:
    from rich import progress as bars
    from rich.console import Console

    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("tasks,"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("elapsed,"),
        bars.TimeRemainingColumn(),
        bars.TextColumn("left"),
        console=Console(stderr=True),
    )
    line = bar.add_task(label, total=total, completed=done)
    # the bar appears once patience is over, also while the first task is still running
    starter = threading.Timer(patience, bar.start)
    starter.daemon = True
    starter.start()
    try:
        yield lambda: bar.advance(line)
    finally:
        starter.cancel()
        starter.join()
        bar.stop()


class _Lines:
    """Progress as plain lines, for logs."""

    def __init__(self, label: str, total: int, done: int, stream: TextIO) -> None:
        self.label, self.total, self.done, self.stream = label, total, done, stream
        self.start = self.last = time.monotonic()
        self.before = done

    def advance(self) -> None:
        self.done += 1
        if time.monotonic() - self.last >= LINE_SECONDS:
            self.write()

    def write(self) -> None:
        self.last = time.monotonic()
        elapsed = self.last - self.start
        text = f"{self.label}: {self.done} of {self.total} tasks, {elapsed:.0f} s elapsed"
        if self.before < self.done < self.total:
            left = elapsed / (self.done - self.before) * (self.total - self.done)
            text += f", about {left:.0f} s left"
        print(text, file=self.stream, flush=True)
