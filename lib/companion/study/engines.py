"""Engines for the tasks of a sweep on one machine: in this process, or in several.

An engine maps calls to their outcomes as they finish, in any order. The third one, for many
machines, is in :mod:`~companion.study.dask_engine`.
"""

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent import futures
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for
from typing import Any

from companion.study.tasks import Call, Outcome, TaskFunction, attempt, attempt_remotely


def call_serially(function: TaskFunction, calls: Sequence[Call]) -> Generator[Outcome, None, None]:
    """Make the calls in order in this process; end at the first failure."""
    with _one_thread():
        for call in calls:
            outcome = attempt(function, call)
            yield outcome
            if outcome.result is None:
                return


def call_processes(
    function: TaskFunction, calls: Sequence[Call], *, workers: int
) -> Generator[Outcome, None, None]:
    """Make the calls in freshly spawned worker processes.

    After a failure no further call starts, but running ones finish. When the caller stops early (an
    interrupt), the workers are terminated at once; when this process dies, they end by themselves.
    """
    before = set(active_children())
    pool = futures.ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=_prepare_worker,
        initargs=(function.__module__,),
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
                with _hold_interrupts():  # the workers start at the first of these
                    running[pool.submit(attempt_remotely, function, call)] = call
            if not running:
                break
            done, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
            for future in done:
                call = running.pop(future)
                if future.cancelled():
                    continue
                outcome = _receive(future, call)
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


def _receive(future: futures.Future[Outcome], call: Call) -> Outcome:
    try:
        return future.result()
    except futures.BrokenExecutor as error:
        why = (
            "a worker process ended abruptly (out of memory?), or could not import the function's "
            "module, or was started from a script without an `if __name__ == '__main__'` guard"
        )
        return Outcome(call[0], None, f"{why}: {error}", error)


@contextlib.contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Block interrupts in this block, and for good in processes that start in it."""
    # one at the terminal reaches every process, even before it can set a handler
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_worker(module: str) -> None:
    # an interrupt at the terminal reaches every process; only the parent handles it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later
    if module != "__main__":
        importlib.import_module(module)
    limit_threads()


def end_with_parent() -> None:
    """End this worker process when its parent ends: what is killed must not go on computing."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


def limit_threads(threads: int = 1) -> Any:
    """Limit the threads of PyTorch and of the linear algebra; return limits that can be restored.

    Only those of the linear algebra are, by ``restore_original_limits``.
    """
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
    return threadpool_limits(threads)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    try:
        import torch  # whether or not a task is the first to: it would compute with all threads
    except ModuleNotFoundError:  # closed forms do without it
        torch = None  # type: ignore[assignment]
    before = torch.get_num_threads() if torch else 1
    limits = limit_threads()
    try:
        yield
    finally:
        limits.restore_original_limits()
        if torch:
            torch.set_num_threads(before)
