"""How a worker of a cluster handles a request.

A request is JSON: the function's name, the task, its seed and the hash of the function's code. A
worker with other code or other libraries, or that cannot see a folder of the task, refuses, and the
sweep ends with its reason: a table never mixes two versions.
"""

import contextlib
import functools
import importlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from companion.study.cluster import one_line
from companion.study.engines import limit_threads
from companion.study.sources import code_stamp, counts_in_tasks, source_files
from companion.study.tasks import TaskFunction, attempt, name_of

#: libraries whose versions may change results.
LIBRARIES = ("numpy", "scipy", "torch", "torchvision", "scikit-image", "scikit-learn")


@functools.cache
def remote_call() -> Callable[[str], tuple[str, str]]:
    """Return the function that is sent to workers and called there with a request.

    Dask sends it as bytecode; it imports this package only when called, since a worker may lack it.
    """

    def call(request: str) -> tuple[str, str]:
        try:
            from companion.study.dask_worker import answer_request
        except ImportError as error:
            import socket

            return "refused", (
                f"the worker at {socket.gethostname()} has no reconrisk, or an older one "
                f"({error}): install the same version on every worker"
            )
        return answer_request(request)

    return call


#: one task at a time in a process: tasks share its threads, caches and warning filters.
_TURN = threading.Lock()
_LIMITED = threading.local()
_START = time.time()


def answer_request(request: str) -> tuple[str, str]:
    """Make the requested call.

    Returns
    -------
    tuple of (str, str)
        ``("result", JSON)``, ``("failure", traceback)`` or ``("refused", reason)``.
    """
    call = json.loads(request)
    with _TURN:
        why = _unfit(call)
        if why:
            return "refused", f"the worker at {socket.gethostname()} {why}"
        os.environ["OMP_NUM_THREADS"] = str(call["threads"])  # for libraries that are loaded later
        function, _ = _load(call["module"], call["function"])
        if getattr(_LIMITED, "threads", None) != (call["threads"], call["module"]):
            limit_threads(call["threads"])
            _LIMITED.threads = (call["threads"], call["module"])
        outcome = attempt(function, (0, call["task"], call["seed"]))
    if outcome.result is not None:
        return "result", outcome.result
    return "failure", outcome.failure + _hint(outcome.exception)


def _unfit(call: dict[str, Any]) -> str:
    """Return why this worker must not make the call; empty if it may."""
    for folder in call["folders"]:
        if not os.path.isdir(folder):
            return (
                f"does not see the folder {folder}: it must be visible under the same path on "
                "every worker"
            )
    here = libraries()
    wanted = {n: v for n, v in call["libraries"].items() if here.get(n) != v}
    if wanted:
        found = ", ".join(f"{n} {here.get(n, 'missing')}" for n in wanted)
        asked = ", ".join(f"{n} {v}" for n, v in wanted.items())
        return f"has {found} where {asked} is asked for: install the same versions"
    try:
        function, code = _load(call["module"], call["function"])
    except (ImportError, AttributeError) as error:
        return f"cannot import {call['module']}.{call['function']}: {one_line(error)}"
    if code != call["code"]:
        return (
            f"runs other code of {name_of(function)} than this process: install the same version "
            "on every worker, and restart workers that were started before a change"
        )
    return ""


@functools.cache
def _load(module: str, qualname: str) -> tuple[TaskFunction, str]:
    """Import a function; return it and the hash of its code, empty if loaded files have changed.

    Cached, since a worker keeps the code that it has loaded even if its files change.
    """
    before = set(sys.modules)
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    changed = any(
        path.stat().st_mtime > _START
        for name, path in source_files(module).items()
        if name in before and counts_in_tasks(name)
    )
    return found, "" if changed else code_stamp(found)


@functools.cache
def libraries() -> dict[str, str]:
    """Return the libraries' versions without the build (``2.13.0`` of ``2.13.0+cpu``)."""
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name).partition("+")[0]
    return found


def _hint(error: BaseException | None) -> str:
    if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        return ""
    return (
        f" (on the worker at {socket.gethostname()}: what a task reads must be visible under the "
        "same absolute path on every worker)"
    )
