"""Runs of several exhibits: progress, interrupts, what is skipped, and the memory they may take."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from companion.cli import _memory, _progress, _runs
from companion.study import progress as study_progress
from companion.study import registry
from companion.study.progress import duration, progress_of
from companion.study.records import read_record
from waiting import wait_until

FIG1, TABLE1 = "ziller2024/fig1", "ziller2024/table1"

SWEPT = '''
"""A sweep whose tasks say when they run."""

from __future__ import annotations

import os
import time
from multiprocessing import parent_process

import pandas as pd

from companion.study import Context, Tables, check, measurement

SETTLES = ("_mse", "_psnr", "B-001", "E-B-01")

if parent_process() is not None:
    time.sleep(float(os.environ.get("IMPORTING", "0")))  # as loading PyTorch takes


def slow(task):
    with open(os.environ["RAN"], "a") as file:
        file.write(f"{task['index']}\\n")
    time.sleep(0.2)
    return {"square": task["index"] ** 2}


@measurement
def measure(study: Context) -> Tables:
    rows = study.sweep(slow, [{"index": i} for i in range(24)])
    return Tables({"squares": pd.DataFrame(rows)}, ran="24 tasks.")


def judge(tables):
    for panel in ("", "_mse", "_psnr"):
        yield check(f"ziller2024/fig1{panel}", True, "it runs")
    yield check("B-001", True, "it runs")
    yield check("E-B-01", True, "it runs")
'''


@pytest.fixture
def command(project, tmp_path, monkeypatch):
    """The command line over a sweep of slow tasks, to be started as a process of its own."""
    project.experiment.write_text(SWEPT.lstrip())
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    work = tmp_path / "work"
    work.mkdir()

    def start(*arguments, **more):
        return subprocess.Popen(
            [sys.executable, "-m", "companion.cli", *arguments],
            cwd=work,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt goes to all its processes, as at a terminal
            **more,
        )

    return start


def _ran(tmp_path) -> list[int]:
    return [int(line) for line in (tmp_path / "ran").read_text().split()]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_what_is_done_and_the_command_it_names_goes_on(command, tmp_path):
    asked = ["run", TABLE1, FIG1, "--workers", "2", "--no-figure"]
    process = command(*asked)
    tasks = tmp_path / "work" / "companion-out" / "ziller2024-fig1" / "tasks"
    wait_until(lambda: len(list(tasks.rglob("*.json"))) >= 4)
    os.killpg(process.pid, signal.SIGINT)
    start = time.monotonic()
    _, said = process.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert process.returncode == 130, said
    assert "Traceback" not in said
    kept = len(list(tasks.rglob("*.json")))
    assert "interrupted: 1 of 2 exhibits are finished and kept" in said
    assert f"{FIG1}: {kept} finished tasks are kept in " in said
    go_on = said.splitlines()[-1].removeprefix("to go on: ")
    assert go_on == shlex.join(["companion", *asked])
    # no process is left to compute
    before = len(_ran(tmp_path))
    time.sleep(0.5)
    assert len(_ran(tmp_path)) == before < 24

    process = command(*shlex.split(go_on)[1:])
    shown, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert f"{TABLE1}: up to date" in said
    assert "\x1b" not in said
    assert "\r" not in said
    assert sorted(set(_ran(tmp_path))) == list(range(24))
    # only the tasks that were under way may have begun twice
    assert len(_ran(tmp_path)) <= 24 + before - kept
    record = read_record(tmp_path / "work" / "companion-out" / "ziller2024-fig1")
    assert list(record.tables["squares"]["square"]) == [i**2 for i in range(24)]
    assert not tasks.exists()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_workers_start_says_no_more_than_that(command, monkeypatch):
    monkeypatch.setenv("IMPORTING", "3")
    process = command("run", FIG1, "--workers", "2", "--no-figure")

    def workers():
        with contextlib.suppress(psutil.NoSuchProcess):
            return [p for p in psutil.Process(process.pid).children() if "spawn" in _line(p)]
        return []

    wait_until(lambda: len(workers()) == 2)
    time.sleep(0.15)  # they load their libraries, and have not come to ignoring interrupts
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert f"{FIG1}: nothing of it was finished" in said


def _line(process):
    return " ".join(process.cmdline())


# In this process --------------------------------------------------------------------------------


@pytest.fixture
def reconrisk(project, call_command):
    """The command line on the small project."""
    return call_command


def test_a_paper_is_computed_whole_and_a_second_time_not_at_all(reconrisk, tmp_path):
    first = reconrisk("run", "--paper", "ziller2024", "--no-figure", "--out", "all")
    assert "[1/2] computing ziller2024/fig1" in first.stderr
    assert "[2/2] computing ziller2024/table1" in first.stderr
    for exhibit in (FIG1, TABLE1):
        assert read_record(tmp_path / "work" / "all" / exhibit).provenance.exhibit == exhibit
    second = reconrisk("run", "--paper", "ziller2024", "--no-figure", "--out", "all")
    assert second.stderr.count("up to date") == 2
    assert "computing" not in second.stderr
    again = reconrisk("run", "--paper", "ziller2024", "--no-figure", "--out", "all", "--again")
    assert again.stderr.count("computing") == 2
    # other parameters, another seed and a figure that was not drawn are asked for anew
    other = reconrisk("run", TABLE1, FIG1, "--no-figure", "--out", "all", "--seed", 1)
    assert other.stderr.count("computing") == 2


def test_what_breaks_does_not_stop_the_rest(reconrisk, tmp_path, monkeypatch):
    from companion.study import Study

    original = Study.run

    def run(self, exhibit):
        if exhibit == FIG1:
            raise ZeroDivisionError("nothing to divide by")
        return original(self, exhibit)

    monkeypatch.setattr(Study, "run", run)
    result = reconrisk("run", FIG1, TABLE1, "--no-figure", code=1)
    assert "error: ziller2024/fig1: ZeroDivisionError: nothing to divide by" in result.stderr
    assert read_record(tmp_path / "work" / "companion-out" / "ziller2024-table1")
    assert not (tmp_path / "work" / "companion-out" / "ziller2024-fig1").exists()
    # alone, a fault of the code shows itself whole
    with pytest.raises(ZeroDivisionError):
        reconrisk("run", FIG1, "--no-figure")


def test_nothing_to_compute_is_a_mistake(reconrisk):
    assert "name an exhibit" in reconrisk("run", code=2).stderr
    error = reconrisk("run", FIG1, TABLE1, "--set", "samples=3", code=2).stderr
    assert "ziller2024/table1 has no parameter 'samples'" in error


# Runs put together ------------------------------------------------------------------------------

CELLS = '''
"""A run over a list, each value for itself."""

import pandas as pd

from companion.study import Context, Parameter, Tables, check, measurement

PARAMETERS = {
    "rates": Parameter("floats", (0.5,), (0.5,), "", "one cell each"),
    "power": Parameter("int", 2, 2, "", "of each", low=1),
}
SETTLES = ("_mse", "_psnr", "B-001", "E-B-01")
CELLS = ("rates", "rate")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = [
        {"rate": r, "kind": k, "value": study.rng(f"{r} {k}").random() * r**p.power}
        for r in p.rates for k in ("a", "b")
    ]
    table = pd.DataFrame(rows)
    mixed = table.groupby("kind")["value"].mean().reset_index()
    return Tables({"values": table} | ({"mixed": mixed} if p.power > 2 else {}))


def judge(tables):
    known = len(tables["values"])
    for target in ("fig1", "fig1_mse", "fig1_psnr"):
        yield check(f"ziller2024/{target}", True, f"{known} values")
    yield check("B-001", True, "it runs")
    yield check("E-B-01", True, "it runs")
'''


@pytest.fixture
def cells(project, reconrisk):
    """Runs the small exhibit with some rates, and puts runs together."""
    project.experiment.write_text(CELLS.lstrip())

    def run(rates, out, *more):
        reconrisk("run", FIG1, "--no-figure", "--set", f"rates={rates}", "--out", out, *more)

    def join(*arguments, code=0):
        return " ".join(reconrisk("join", *arguments, code=code).stderr.split())

    return run, join


def test_runs_that_are_put_together_are_the_whole_run(cells, tmp_path):
    run, join = cells
    for rates, name in (
        ([0.25, 0.5], "a"),
        ([0.75], "b"),
        ([1], "c"),
        ([0.25, 0.5, 0.75, 1], "all"),
    ):
        run(rates, name)
    join("a", "b", "--out", "ab")
    join("ab", "c", "--out", "abc")
    joint, whole = (read_record(tmp_path / "work" / name) for name in ("abc", "all"))
    assert joint.frames["values"].equals(whole.frames["values"])
    assert joint.provenance.parameters == whole.provenance.parameters
    assert joint.verdicts == whole.verdicts
    before = [one["parameters"]["rates"] for one in joint.provenance.earlier]
    assert before == [[0.25, 0.5], [0.75]]


@pytest.mark.parametrize(
    ("rates", "more", "problem"),
    [
        ([0.5, 1], (), "runs may have no rates in common"),
        ([1], ("--seed", 1), "runs may differ in rates alone; these do in seed"),
        ([1], ("--set", "power=1"), "these do in power"),
        ([1], ("--set", "power=3"), "these do in columns, power"),
    ],
)
def test_other_runs_stay_apart(cells, tmp_path, rates, more, problem):
    run, join = cells
    run([0.5], "a")
    run(rates, "b", *more)
    assert problem in join("a", "b", "--out", "c", code=2)
    assert "none of the records, which stay" in join("a", "b", "--out", "a", code=2)
    assert "must be two or more" in join("a", "--out", "c", code=2)
    assert not (tmp_path / "work" / "c").exists()


def test_a_table_whose_rows_mix_values_is_not_put_together(cells, project):
    run, join = cells
    for rates, name in (([0.5], "a"), ([1], "b")):
        run(rates, name, "--set", "power=3")
    assert "tables mixed have no column 'rate'" in join("a", "b", "--out", "c", code=2)


# Memory -----------------------------------------------------------------------------------------

COSTS = """\
exhibit,seconds,memory_gb,device,needs_data,basis
ziller2024/fig1,100,4.0,2 CPU cores,,measured
ziller2024/table1,50,0.2,2 CPU cores,,measured
"""


@pytest.fixture
def costs(project):
    (project.root / "data/companion/costs.csv").write_text(COSTS)
    registry.costs.cache_clear()
    return registry.costs()


@pytest.mark.parametrize(
    ("memory", "workers", "given"),
    [("21", "4", 4), ("17", "4", 3), ("5.3", "4", 1), ("5.3", "1", 1)],
)
def test_workers_are_as_many_as_fit(reconrisk, costs, monkeypatch, memory, workers, given):
    seen = []
    monkeypatch.setattr(_runs, "execute_plans", lambda plans, **more: seen.extend(plans))
    said = reconrisk(
        "run", FIG1, "--profile", "paper", "--workers", workers, "--memory", memory
    ).stderr
    assert [plan.session.workers for plan in seen] == [given]
    assert (f"{given} instead of {workers} workers" in said) == (given < int(workers))


def test_what_does_not_fit_is_refused_before_it_starts(reconrisk, costs, monkeypatch, tmp_path):
    monkeypatch.setattr(_runs, "free_gigabytes", lambda: 5.1)
    error = reconrisk("run", TABLE1, FIG1, "--profile", "paper", code=2).stderr
    assert "ziller2024/fig1 may take 5.2 GB in the paper profile, and 5.1 GB are free" in error
    assert "--memory GB" in error
    assert not (tmp_path / "work" / "companion-out").exists()
    reconrisk("run", FIG1, "--no-figure")  # a quick run is small


def test_free_memory_knows_a_containers_limit(tmp_path):
    machine = _memory.free_gigabytes(tmp_path)
    assert machine > 0
    (tmp_path / "memory.max").write_text("3000000000\n")
    (tmp_path / "memory.current").write_text("2500000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 100000000\n")
    assert _memory.free_gigabytes(tmp_path) == pytest.approx(min(0.6, machine), abs=0.3)
    (tmp_path / "memory.max").write_text("max\n")
    assert _memory.free_gigabytes(tmp_path) > 0.6 or machine < 0.6


def test_a_streaming_exhibit_stays_under_its_ceiling(tmp_path):
    """40,000 reconstructions of 1,024 values: 330 MB an array, and 32 MB a chunk."""
    exhibit = "ziller2024/prop1"
    subprocess.run(
        [
            *(sys.executable, "-m", "companion.cli", "run", exhibit, "--profile", "paper"),
            *("--set", "dimensions=[1024]", "--set", "noise_multipliers=[0.01]"),
            *("--set", "samples=40000", "--no-figure", "--out", str(tmp_path)),
        ],
        check=True,
        capture_output=True,
    )
    peak = read_record(tmp_path).provenance.peak_memory_gb
    assert peak is not None
    assert 0.1 < peak < registry.costs()[exhibit].ceiling_gb


# Progress ---------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    hand = Clock()
    monkeypatch.setattr(time, "monotonic", hand.monotonic)
    return hand


def test_remaining_time_follows_the_pace_of_this_run(clock):
    progress = _progress.Progress([("a", 100.0), ("b", 200.0), ("c", 300.0)])
    with progress.exhibit():
        assert progress.left() == pytest.approx(600)
        clock.now += 100
        assert progress.left() == pytest.approx(500)
        clock.now += 130  # twice as slow as foreseen, start aside
    with progress.exhibit():
        pace = (230 + 30) / (100 + 30)
        assert progress.left() == pytest.approx(pace * 500)
        clock.now += 10_000
        assert progress.left() == pytest.approx(pace * 300)


def test_an_unknown_cost_leaves_the_remaining_time_open(clock):
    progress = _progress.Progress([("a", 10.0), ("b", None)])
    with progress.exhibit():
        assert progress.left() is None


def test_a_log_gets_plain_lines_at_intervals(monkeypatch, capsys):
    monkeypatch.setattr(study_progress, "LINE_SECONDS", 0.05)
    progress = _progress.Progress([("a", 60.0), ("b", 60.0)])
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress.exhibit())
        advance = stack.enter_context(progress_of("a: draws", 10, 2, None))
        advance()
        time.sleep(0.2)
    said = capsys.readouterr().err
    assert "[1/2] computing a, about 60 s (all: 0.0 s so far, about 2 min left)" in said
    assert "[1/2] a: draws: 3 of 10 tasks, " in said
    assert 2 <= said.count("a: draws: 3 of 10 tasks") <= 6
    assert all(32 <= ord(c) < 127 or c == "\n" for c in said)


def test_a_terminal_gets_rows_that_vanish():
    """The rows show the run, the exhibit and its sweep, and are gone at the end."""
    code = textwrap.dedent(
        """
        import os, pty, sys, time
        pid, master = pty.fork()
        if pid == 0:
            from companion.cli import _progress
            from companion.study import progress
            from companion.study.progress import progress_of
            progress.PATIENCE_SECONDS = 0.0
            progress = _progress.Progress([("a", 60.0), ("b", 60.0)])
            with progress.exhibit(), progress_of("a: draws", 10, 2, None) as advance:
                advance()
                time.sleep(0.6)
            os._exit(0)
        seen = b""
        try:
            while part := os.read(master, 4096):
                seen += part
        except OSError:
            pass
        sys.stdout.write(seen.decode())
        """
    )
    seen = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ).stdout
    assert "0 of 2 (all: " in seen
    assert "3 of 10 tasks, about " in seen
    assert seen.rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (99.4, "99 s"),
        (119, "2 min"),
        (5000, "83 min"),
        (9000, "2.5 h"),
        (200_000, "2.3 days"),
    ],
)
def test_durations_are_in_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text


def test_the_record_of_a_run_holds_its_own_peak_memory(reconrisk, tmp_path):
    reconrisk("run", TABLE1, "--no-figure")
    record = json.loads(
        Path(tmp_path, "work", "companion-out", "ziller2024-table1", "record.json").read_text()
    )
    assert record["provenance"]["peak_memory_gb"] > 0.01
