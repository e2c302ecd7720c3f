"""What a sweep adds to its tasks: serially, in processes and on a local Dask cluster, in one run.

    python benchmarks/sweep.py [--tasks 2000] [--workers 2] [--seconds 0.005]

The tasks do nothing, then nothing but wait. Prints, for each engine, what it takes to start (a
sweep of one task per worker, before any worker is there), milliseconds per task that does nothing,
the same with a store on disk, and how many times as long as ideal a sweep of waiting tasks takes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

from _waiting import wait

from companion.study.cluster import disconnect
from companion.study.sweep import run_sweep


def timed(count: int, seconds: float, **how: Any) -> float:
    """Return the wall seconds of one sweep."""
    # another base for each sweep: no two share a task
    base = time.monotonic_ns()
    tasks = [{"n": base + n, "seconds": seconds} for n in range(count)]
    start = time.perf_counter()
    run_sweep(wait, tasks, seed=0, progress=False, **how)
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.005, help="of a task that waits")
    given = parser.parse_args()
    engines: dict[str, dict[str, Any]] = {
        "serial": {},
        f"{given.workers} processes": {"workers": given.workers},
        f"Dask, {given.workers} workers": {"scheduler": f"local:{given.workers}"},
    }
    rows = {}
    for name, how in engines.items():
        workers = 1 if name == "serial" else given.workers
        start = timed(workers, 0.0, **how)
        # what starting costs is not counted again where workers stay
        again = start if "workers" in how else 0.0
        plain = timed(given.tasks, 0.0, **how) - again
        with tempfile.TemporaryDirectory() as store:
            stored = timed(given.tasks, 0.0, store=store, **how) - again
        waiting = timed(given.tasks, given.seconds, **how) - again
        ideal = given.tasks * given.seconds / workers
        rows[name] = (start, 1e3 * plain / given.tasks, 1e3 * stored / given.tasks, waiting / ideal)
    disconnect()
    first = rows["serial"][1]
    print(f"{given.tasks} tasks; waiting: {1e3 * given.seconds:g} ms each")
    print(f"{'engine':20}{'start s':>9}{'ms/task':>9}{'ratio':>8}{'stored ms':>11}{'waiting':>9}")
    for name, (start, plain, stored, waiting) in rows.items():
        print(f"{name:20}{start:9.2f}{plain:9.3f}{plain / first:8.1f}{stored:11.2f}{waiting:9.2f}")


if __name__ == "__main__":
    main()
