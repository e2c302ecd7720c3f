"""What a worker of a cluster does with the tasks that it is sent.

What it is sent is text: the function's name, the task as JSON, the hash of the code that the
function runs. A worker that has other code, other libraries or no sight of a folder that the task
names refuses, and the sweep ends with its reason: a table never mixes two versions.
"""

from __future__ import annotations

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

__all__ = ["answer", "courier", "libraries"]

#: libraries whose versions results may depend on.
LIBRARIES = ("numpy", "scipy", "torch", "torchvision", "scikit-image", "scikit-learn")


@functools.cache
def courier() -> Callable[[str], tuple[str, str]]:
    """Return the function that is sent to workers to be called with a request.

    It travels as bytecode and imports this package only when called: a worker may lack it.
    """

    def deliver(request: str) -> tuple[str, str]:
        try:
            from companion.study.dask_worker import answer
        except ImportError as error:
            import socket

            return "refused", (
                f"the worker at {socket.gethostname()} has no reconrisk, or an older one "
                f"({error}): install the same version on every worker"
            )
        return answer(request)

    return deliver


#: one task at a time in a process: computations share its threads, caches and warning filters.
_TURN = threading.Lock()
_LIMITED = threading.local()
_START = time.time()


def answer(request: str) -> tuple[str, str]:
    """Make the call that a request describes; return what came of it, and of which kind it is."""
    asked = json.loads(request)
    with _TURN:
        why = _unfit(asked)
        if why:
            return "refused", f"the worker at {socket.gethostname()} {why}"
        os.environ["OMP_NUM_THREADS"] = str(asked["threads"])  # for libraries that are loaded later
        function, _ = _known(asked["module"], asked["function"])
        if getattr(_LIMITED, "threads", None) != (asked["threads"], asked["module"]):
            limit_threads(asked["threads"])
            _LIMITED.threads = (asked["threads"], asked["module"])
        outcome = attempt(function, (0, asked["task"], asked["seed"]))
    if outcome.result is not None:
        return "result", outcome.result
    return "failure", outcome.failure + _hint(outcome.exception)


def _unfit(asked: dict[str, Any]) -> str:
    """Why this worker must not make the call; empty if it may."""
    for folder in asked["folders"]:
        if not os.path.isdir(folder):
            return (
                f"does not see the folder {folder}: it must be visible under the same path on "
                "every worker"
            )
    here = libraries()
    other = [
        f"{n} {here.get(n, 'missing')}" for n, v in asked["libraries"].items() if here.get(n) != v
    ]
    if other:
        wanted = ", ".join(f"{n} {v}" for n, v in asked["libraries"].items() if here.get(n) != v)
        return f"has {', '.join(other)} where {wanted} is asked for: install the same versions"
    try:
        function, code = _known(asked["module"], asked["function"])
    except (ImportError, AttributeError) as error:
        return f"cannot import {asked['module']}.{asked['function']}: {one_line(error)}"
    if code != asked["code"]:
        return (
            f"runs other code of {name_of(function)} than this process: install the same version "
            "on every worker, and restart workers that were started before a change"
        )
    return ""


@functools.cache
def _known(module: str, qualname: str) -> tuple[TaskFunction, str]:
    """A function and the hash of its code, which is empty if files changed after they were loaded.

    Found once: a worker goes on with what it has loaded, whatever the files become.
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
