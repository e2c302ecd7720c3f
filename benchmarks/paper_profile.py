"""Measure what every exhibit costs in the paper profile, and store it for the book.

    python benchmarks/paper_profile.py DATA_ROOT [--workers 2] [EXHIBIT ...]

Each exhibit runs in a process of its own through the command line, so that the peak memory is its
own. The table goes to ``data/companion/costs.csv``; rows of exhibits that are not run again stay.
DATA_ROOT is a folder with the data that ``--holds`` names: photographs in the layout
``root/class/*.jpg``, or MNIST or CIFAR-10 as torchvision lays them out.

Where the whole profile takes too long for the machine at hand, run a part of it and scale up:

    python benchmarks/paper_profile.py ROOT hayes2023/fig3 --holds MNIST --set trials=100 --times 99
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from companion.study import all_exhibits, registry

COLUMNS = ("exhibit", "seconds", "memory_gb", "device", "tasks", "needs_data", "basis")


def run(
    exhibit: str, workers: int, data_root: str | None, settings: list[str]
) -> tuple[int, float, float, str]:
    """Return exit status, wall seconds, peak gigabytes and messages of one run."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "companion.cli", "run", exhibit, "--profile", "paper"]
        command += ["--workers", str(workers), "--out", out]
        command += ["--data-root", data_root] if data_root else []
        command += [part for pair in settings for part in ("--set", pair)]
        start = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        messages = process.stderr.read()
        # wait4 gives the usage of this child and of the workers it waited for
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    return os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss / 1e6, messages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_root")
    parser.add_argument("exhibits", nargs="*")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--holds", default="photographs", help="what DATA_ROOT holds")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--times", type=float, default=1, help="factor from this run to the whole")
    arguments = parser.parse_intermixed_args()
    path = registry.project_root() / "data" / "companion" / "costs.csv"
    rows = {}
    if path.is_file():
        with path.open(newline="") as file:
            rows = {row["exhibit"]: row for row in csv.DictReader(file)}
    device = f"{os.cpu_count()} CPU cores"
    settings = arguments.settings
    basis = f"scaled up from a run with {', '.join(settings)}" if settings else "measured"
    for exhibit in arguments.exhibits or list(all_exhibits()):
        status, seconds, memory, messages = run(exhibit, arguments.workers, None, settings)
        needs_data = "data_root" in messages
        if needs_data:
            root = str(Path(arguments.data_root).resolve())
            status, seconds, memory, messages = run(exhibit, arguments.workers, root, settings)
        print(f"{exhibit}: {seconds:.0f} s, {memory:.1f} GB, exit {status}", flush=True)
        if status:
            print(messages, file=sys.stderr)
            continue
        data = arguments.holds if needs_data else ""
        whole = f"{seconds * arguments.times:.0f}"
        tasks = rows.get(exhibit, {}).get("tasks", "")
        values = (exhibit, whole, f"{memory:.1f}", device, tasks, data, basis)
        rows[exhibit] = dict(zip(COLUMNS, values, strict=True))
        with path.open("w", newline="") as file:  # each finished run is kept
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[e] for e in registry.exhibits() if e in rows)


if __name__ == "__main__":
    main()
