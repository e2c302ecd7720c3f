"""Engine for the tasks of a sweep on many machines: a Dask cluster.

The cluster holds a bounded number of calls at a time, so that neither its scheduler nor this
process holds a sweep of a million tasks at once; each outcome is removed from it as it arrives.

A worker may die. Dask gives its tasks to other workers, a bounded number of times (its setting
``distributed.scheduler.allowed-failures``), and then reports all tasks on that worker as killed.
These suspects run again at the end, one at a time: a task that kills a worker alone has failed, and
all others finish.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import queue
import time
import uuid
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any

from companion.study.cluster import (
    address_of,
    connect_to,
    disconnect,
    is_local,
    one_line,
    seconds_from,
)
from companion.study.dask_worker import libraries, remote_call
from companion.study.sources import code_stamp
from companion.study.tasks import Call, ClusterError, Outcome, TaskFunction

if TYPE_CHECKING:
    from distributed import Client, Future

#: environment variable: the seconds that a sweep waits without any worker.
PATIENCE = "RECONRISK_WORKERS_TIMEOUT"
PATIENCE_SECONDS = 600.0
#: calls that the cluster holds per worker: one running, the others queued.
CALLS_PER_WORKER = 4
#: the least calls that it holds, so that a cluster that scales with its load starts workers.
CALLS_AT_LEAST = 16
#: seconds between counts of the workers, and the seconds that fetching one result may take.
LOOK_SECONDS = 1.0
ARRIVAL_SECONDS = 30.0
#: results that are fetched at the same time.
FETCHERS = 8


def call_dask(
    function: TaskFunction, calls: Sequence[Call], *, scheduler: str
) -> Generator[Outcome, None, None]:
    """Make the calls on a Dask cluster.

    After a failure no further call starts, but running ones finish. When the caller stops early,
    calls that have not started are cancelled and a local cluster ends.

    Raises
    ------
    ClusterError
        If no scheduler answers, if a worker runs other code, lacks the package or cannot see a
        folder, or if the connection or all workers are lost.
    """
    if function.__module__ == "__main__":
        raise ClusterError(
            f"{function.__qualname__} was defined in a script or a notebook, where a cluster's "
            "workers cannot import it: move it into a module that they have"
        )
    patience = seconds_from(PATIENCE, PATIENCE_SECONDS)
    flight = _Flight(connect_to(scheduler), _Requests(function, threads=1), patience)
    waiting, suspects = deque(calls), deque[Call]()
    healthy, alone, finished = True, False, False
    try:
        while True:
            flight.look()
            while healthy and waiting and len(flight.calls) < flight.limit:
                flight.send(waiting.popleft())
            if not flight.calls:
                if not suspects or not healthy:
                    break
                flight.send(suspects.popleft())
                alone = True
            arrival = flight.arrival()
            if arrival is None:
                continue
            call, outcome = arrival
            if outcome is None and not alone:
                suspects.append(call)
                continue
            if outcome is None:  # the other suspects still run
                outcome = Outcome(call[0], None, _FATAL)
            elif outcome.result is None and healthy:
                healthy = False
                flight.take_back()
            yield outcome
        finished = True
    finally:
        flight.end()
        if not finished and is_local(scheduler):
            disconnect(scheduler)


_FATAL = (
    "every worker that computed it ended abruptly, also with no other task beside it (out of "
    "memory, or a crash in a library)"
)


class _Requests:
    """Encodes the request that is sent to a worker for a call."""

    def __init__(self, function: TaskFunction, threads: int) -> None:
        self.name = function.__name__
        self.common = {
            "module": function.__module__,
            "function": function.__qualname__,
            "threads": threads,
            "code": code_stamp(function),
            "libraries": libraries(),
        }
        self._is_folder = functools.lru_cache(maxsize=1024)(os.path.isdir)

    def __call__(self, call: Call) -> str:
        _, task, seed = call
        folders = [text for text in _texts(task) if os.path.isabs(text) and self._is_folder(text)]
        return json.dumps({**self.common, "task": task, "seed": seed, "folders": folders})


class _Flight:
    """The calls that were sent to a cluster and whose outcomes have not arrived."""

    def __init__(self, client: Client, request: _Requests, patience: float) -> None:
        self.client, self.request, self.patience = client, request, patience
        self.address = address_of(client)
        self.calls: dict[Future, Call] = {}
        #: futures that have ended, each with its answer or the exception it raised
        self.ended: queue.SimpleQueue[tuple[Future, Any]] = queue.SimpleQueue()
        self.fetchers = futures.ThreadPoolExecutor(FETCHERS, "reconrisk-fetch")
        self.limit = CALLS_AT_LEAST
        self.looked = -math.inf
        self.last_worker = time.monotonic()
        self.warned: set[str] = set()

    def send(self, call: Call) -> None:
        # the name comes first in Dask's own views of what runs
        key = f"{self.request.name}-{uuid.uuid4().hex}"
        future = self.client.submit(remote_call(), self.request(call), key=key, pure=False)
        self.calls[future] = call
        future.add_done_callback(self._fetch_soon)

    def _fetch_soon(self, future: Future) -> None:
        with contextlib.suppress(RuntimeError):  # nothing is fetched after the end
            self.fetchers.submit(self._fetch, future)

    def _fetch(self, future: Future) -> None:
        try:
            answer = future.result(timeout=ARRIVAL_SECONDS)
        except TimeoutError:
            # the worker died with the answer, and Dask computes it again: fetch others first
            if future in self.calls:
                self._fetch_soon(future)
            return
        except BaseException as error:
            answer = error
        self.ended.put((future, answer))

    def look(self) -> None:
        """Count the workers at intervals; raise if the scheduler or all workers are lost."""
        if self.client.status != "running":
            raise self._lost()
        now = time.monotonic()
        if now - self.looked < LOOK_SECONDS:
            return
        self.looked = now
        try:
            threads = self.client.nthreads()
        except Exception:  # Dask raises various exceptions when the connection breaks
            raise self._lost() from None
        self.limit = max(CALLS_AT_LEAST, CALLS_PER_WORKER * len(threads))
        if threads:
            self.last_worker = now
        elif now - self.last_worker > self.patience:
            raise ClusterError(
                f"{self.address} has had no worker for {self.patience:g} s ({PATIENCE} changes "
                f"that){self._under_way()}"
            )
        if max(threads.values(), default=1) > 1:
            self._warn_once(
                "some workers have several threads, of which a sweep uses one: start as many "
                "workers with one thread each (dask worker --nworkers N --nthreads 1)"
            )

    def arrival(self) -> tuple[Call, Outcome | None] | None:
        """Return the next call that ends, None after a timeout; a call that killed its workers has
        no outcome.
        """
        try:
            future, answer = self.ended.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return None
        call = self.calls.pop(future, None)
        return None if call is None else (call, self._open_answer(future, answer, call))

    def _open_answer(self, future: Future, answer: Any, call: Call) -> Outcome | None:
        from distributed import KilledWorker

        if isinstance(answer, KilledWorker):
            return None
        if isinstance(answer, BaseException):
            if self.client.status != "running" or future.status in ("cancelled", "lost"):
                raise self._lost()
            raise ClusterError(
                f"{self.address} cannot compute: {type(answer).__name__}: {one_line(answer)}"
            ) from answer
        kind, text = answer
        if kind == "refused":
            raise ClusterError(f"{self.address} cannot compute: {text}")
        return Outcome(call[0], **{"result" if kind == "result" else "failure": text})

    def take_back(self) -> None:
        """Cancel calls that no worker has yet."""
        with contextlib.suppress(Exception):
            held = {key for keys in self.client.processing().values() for key in keys}
            idle = [future for future in self.calls if future.key not in held and not future.done()]
            for future in idle:
                del self.calls[future]
            self.client.cancel(idle, force=True)

    def end(self) -> None:
        """Cancel all calls whose outcome has not arrived."""
        left = list(self.calls)
        self.calls.clear()
        self.fetchers.shutdown(wait=False, cancel_futures=True)
        if left and self.client.status == "running":
            with contextlib.suppress(Exception):
                self.client.cancel(left, force=True)

    def _lost(self) -> ClusterError:
        return ClusterError(f"the connection to the scheduler at {self.address} is lost")

    def _under_way(self) -> str:
        tasks = [str(call[1]) for call in list(self.calls.values())[:3]]
        more = ", ..." if len(self.calls) > 3 else ""
        return f"; under way: {', '.join(tasks)}{more}" if tasks else ""

    def _warn_once(self, text: str) -> None:
        if text not in self.warned:
            self.warned.add(text)
            warnings.warn(f"{self.address}: {text}", stacklevel=4)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _texts(entry)
