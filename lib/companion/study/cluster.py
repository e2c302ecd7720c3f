"""Dask clusters: their names, and connections to them.

A cluster is either an existing one, named by its scheduler's address or file, or a local one with a
number of workers. :mod:`~companion.study.dask_engine` runs tasks on it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import math
import os
import platform
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from companion.study.progress import in_notebook
from companion.study.tasks import ClusterError

if TYPE_CHECKING:
    from distributed import Client

#: environment variables: the cluster, and the seconds to wait for its scheduler.
SCHEDULER = "RECONRISK_SCHEDULER"
TIMEOUT = "RECONRISK_SCHEDULER_TIMEOUT"
TIMEOUT_SECONDS = 10.0
_LOCAL = re.compile(r"local:([1-9]\d*)")
_ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://\S+:\d+(/\S*)?")


def check_scheduler(scheduler: str, workers: int = 1) -> None:
    """Raise unless ``scheduler`` names a Dask cluster and Dask is installed.

    Parameters
    ----------
    scheduler : str
        ``"tcp://host:port"`` (or ``tls://``, ``ws://``, ``wss://``, ``ucx://``): an existing
        cluster. ``"local:N"``: N workers on this machine. A path that ends in ``.json``: the file
        that ``dask scheduler --scheduler-file`` writes.
    workers : int
        Local worker processes; with a cluster it must be 1.

    Raises
    ------
    ValueError
        If it is none of these, if ``workers`` is more than 1, or if Dask is not installed.
    """
    valid = _LOCAL.fullmatch(scheduler) or _ADDRESS.fullmatch(scheduler)
    if not valid and not scheduler.endswith(".json"):
        raise ValueError(
            "scheduler must be an address (tcp://host:port), local:N for N workers on this "
            f"machine, or a scheduler file (.json); got {scheduler!r}"
        )
    if workers > 1:
        raise ValueError(
            f"workers={workers} are processes of this machine and scheduler={scheduler!r} is a "
            f"cluster: give one of them (local:{workers} is a cluster of {workers} workers here)"
        )
    if importlib.util.find_spec("distributed") is None:
        raise ValueError(
            f"scheduler={scheduler!r} needs Dask, which is not installed: "
            "pip install -e 'lib/companion[cluster]', or dask and distributed"
        )


def is_local(scheduler: str) -> bool:
    """Return whether a scheduler names a local cluster, which ends with this process."""
    return _LOCAL.fullmatch(scheduler) is not None


def scheduler_of(given: str | None, workers: int = 1) -> str:
    """Return the cluster to use: the one given, else ``RECONRISK_SCHEDULER``; empty for none.

    With more than one worker process the environment variable is ignored.
    """
    if given is not None:
        return given
    return "" if workers > 1 else os.environ.get(SCHEDULER, "")


def seconds_from(variable: str, default: float) -> float:
    """Return the seconds that an environment variable holds, or the default.

    Raises
    ------
    ValueError
        If it is not a positive number.
    """
    text = os.environ.get(variable, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ValueError(f"{variable} must be a number of seconds above 0; got {text!r}")
    return seconds


# Connections ------------------------------------------------------------------------------------

#: open connections of this process: a local cluster serves every sweep of a run.
_CLIENTS: dict[str, Client] = {}


def connect_to(scheduler: str) -> Client:
    """Return this process's connection to a cluster; start a local cluster if there is none.

    Raises
    ------
    ClusterError
        If no scheduler answers, or another version of Python runs there.
    """
    open_client = _CLIENTS.get(scheduler)
    if open_client is not None and open_client.status == "running":
        return open_client
    if open_client is not None:
        disconnect(scheduler)
    if not _CLIENTS:
        atexit.register(disconnect)
    client = _connect(scheduler)
    _CLIENTS[scheduler] = client
    _greet(client)
    return client


def _connect(scheduler: str) -> Client:
    import distributed

    timeout = seconds_from(TIMEOUT, TIMEOUT_SECONDS)
    target: Any = scheduler
    local = _LOCAL.fullmatch(scheduler)
    if local:
        target = _local_cluster(int(local[1]))
    elif scheduler.endswith(".json"):
        target = _address_in(Path(scheduler))
    try:
        client = distributed.Client(target, timeout=timeout, set_as_default=False, name="reconrisk")
    except (OSError, ValueError) as error:  # time-outs are OSErrors
        raise ClusterError(
            f"no Dask scheduler answers at {target} within {timeout:g} s ({TIMEOUT} changes that): "
            f"{one_line(error)}"
        ) from None
    try:
        _check_python(client)
    except BaseException:
        client.close()
        raise
    return client


def _local_cluster(workers: int) -> Any:
    import logging

    import dask
    import distributed

    # no memory limit: Dask's would stop a task that needs more than an equal share of the memory;
    # the dashboard takes any free port
    with dask.config.set({"distributed.scheduler.allowed-failures": 2}), _ignore_interrupts():
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )


@contextlib.contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Let workers that start in this block ignore interrupts at the terminal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _address_in(file: Path) -> str:
    try:
        return str(json.loads(file.read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{file} is not a scheduler file of Dask: {one_line(error)}") from None


def _check_python(client: Client) -> None:
    """Raise unless every process runs the same version: Dask sends functions as bytecode."""
    here = platform.python_version_tuple()[:2]
    found = client.get_versions()
    for where, what in {"the scheduler": found["scheduler"], **found["workers"]}.items():
        text = str(((what or {}).get("host") or {}).get("python", ""))
        there = tuple(text.split(".")[:2])
        if text and there != here:
            raise ClusterError(
                f"{where} of {address_of(client)} runs Python {'.'.join(there)}, this process "
                f"{'.'.join(here)}: use one environment for all"
            )


def _greet(client: Client) -> None:
    """Print the dashboard's address, except in notebooks, whose output is stored."""
    if in_notebook() or sys.stderr is None:
        return
    from rich.console import Console
    from rich.text import Text

    text = Text(f"{address_of(client)}: {len(client.nthreads())} workers")
    if "dashboard" in client.scheduler_info().get("services", {}):
        link = client.dashboard_link
        text.append(", dashboard ")
        text.append(link, style=f"link {link}")
        if client.cluster is not None and importlib.util.find_spec("bokeh") is None:
            text.append(" (its pictures need bokeh)")
    Console(stderr=True, soft_wrap=True).print(text)


def address_of(client: Client) -> str:
    """Return the address of the scheduler."""
    return str(client.scheduler.address if client.scheduler else client)


def disconnect(scheduler: str | None = None) -> None:
    """Close the connection to a cluster, and the cluster if it is a local one; all if None."""
    for name in [scheduler] if scheduler is not None else list(_CLIENTS):
        client = _CLIENTS.pop(name, None)
        if client is None:
            continue
        with contextlib.suppress(Exception):
            client.close(timeout=2)
        if client.cluster is not None:
            with contextlib.suppress(Exception):
                client.cluster.close(timeout=5)


@contextlib.contextmanager
def serve_children(scheduler: str) -> Iterator[str]:
    """Let child processes of this block use one cluster, a local one too; yield its address.

    ``RECONRISK_SCHEDULER`` holds the address in the block. An empty ``scheduler`` does nothing.
    """
    if not scheduler:
        yield ""
        return
    address = address_of(connect_to(scheduler))
    before = os.environ.get(SCHEDULER)
    os.environ[SCHEDULER] = address
    try:
        yield address
    finally:
        if before is None:
            del os.environ[SCHEDULER]
        else:
            os.environ[SCHEDULER] = before
        disconnect(scheduler)


def one_line(error: BaseException) -> str:
    """Return an exception's message without line breaks, at most 500 characters."""
    return " ".join(str(error).split())[:500] or type(error).__name__
