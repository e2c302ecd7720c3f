"""A task of a sweep: its parameters, key and seed, one call and its outcome.

Where tasks run is up to :mod:`~companion.study.engines` and :mod:`~companion.study.dask_engine`.
"""

import copy
import hashlib
import json
import sys
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any

import numpy as np

Row = dict[str, Any]
#: from a task, and its seed if it takes two arguments, to a value that JSON can hold
TaskFunction = Callable[..., Any]
#: ``(position, parameters, seed)`` of one task.
Call = tuple[int, dict[str, Any], int]


class SweepError(RuntimeError):
    """A task failed, or its function cannot be called in a worker process."""


class ClusterError(SweepError):
    """A cluster cannot be used, or was lost: no task is to blame."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one call: the result as JSON, or the traceback of its failure."""

    position: int
    result: str | None = None
    failure: str = ""
    exception: BaseException | None = None


#: maps calls to their outcomes as they finish, in any order.
Engine = Callable[[TaskFunction, Sequence[Call]], Generator[Outcome, None, None]]


#: a task's folder for what it has not finished, which is no part of its identity
UNFINISHED = "unfinished"


def task_key(function: TaskFunction, task: Mapping[str, Any], seed: int) -> str:
    """Return the name under which a task's result is stored: a hash of function, seed and task."""
    own = {key: value for key, value in task.items() if key != UNFINISHED}
    identity = {"function": name_of(function), "seed": int(seed), "task": own}
    return hashlib.sha256(canonical("task", identity).encode()).hexdigest()


def task_seed(task: Mapping[str, Any], seed: int) -> int:
    """Return a task's own 63-bit seed: it depends on the sweep's seed and the parameters only.

    It does not depend on the folder of the data (a parameter ``data_root``).
    """
    text = canonical("task", {"seed": int(seed), "task": _without_folders(task)})
    return int.from_bytes(hashlib.sha256(b"seed " + text.encode()).digest()[:8], "big") >> 1


def _without_folders(task: Any) -> Any:
    """Return a task with a fixed string in place of the folder of its data."""
    if not isinstance(task, Mapping):
        return task
    folders = ("data_root", UNFINISHED)
    return {k: k if k in folders and v else _without_folders(v) for k, v in task.items()}


def canonical(what: str, value: Any, *, finite: bool = True, ordered: bool = True) -> str:
    """Return a value as JSON: sorted keys, exact floats, NumPy numbers as Python's.

    Raises
    ------
    TypeError
        If JSON cannot hold the value; the message begins with ``what``.
    """
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
    # json.dumps would silently turn the keys 1, True and None into strings
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not a text")
            _check_keys(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            _check_keys(entry)


def encode_result(result: Any) -> str:
    """Return a result as JSON, with infinities and nan (an exact copy has infinite PSNR).

    Raises
    ------
    TypeError
        If the result is not a dict or a list of dicts that JSON can hold.
    """
    rows = result if isinstance(result, list | tuple) else [result]
    if not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"a task must return a dict or a list of dicts; got {result!r:.200}")
    # the order of the keys is that of a table's columns
    return canonical("the result of a task", result, finite=False, ordered=False)


def name_of(function: TaskFunction) -> str:
    """Return the full name of a task function, under which workers import it."""
    return f"{function.__module__}.{function.__qualname__}"


def check_importable(function: TaskFunction, workers: int) -> None:
    """Raise ``SweepError`` unless other processes can find the function by its name."""
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
        raise SweepError(f"{name_of(function)} does not name the function given; workers import it")
    if workers > 1 and module.__name__ == "__main__" and not hasattr(module, "__file__"):
        raise SweepError(
            f"{qualname} was defined in a notebook or a prompt, where worker processes cannot "
            "import it: move it into a module, or use workers=1"
        )


def _arguments(function: TaskFunction) -> int:
    """Return whether a function takes a task alone (1) or a task and its seed (2)."""
    named = [p for p in signature(function).parameters.values() if p.default is Parameter.empty]
    return 1 if len(named) == 1 else 2


def attempt(function: TaskFunction, call: Call) -> Outcome:
    """Make one call; return its result, or the exception that it raised, as an outcome."""
    position, task, seed = call
    try:
        given = (copy.deepcopy(task), seed)[: _arguments(function)]
        return Outcome(position, encode_result(function(*given)))
    except Exception as error:
        return Outcome(position, None, traceback.format_exc(), error)


def attempt_remotely(function: TaskFunction, call: Call) -> Outcome:
    """Make one call; return an outcome that can be sent to another process."""
    # not every exception can be pickled
    return replace(attempt(function, call), exception=None)
