"""Sweeps: the same results however they are run, and nothing lost or repeated after a kill."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion.study import progress, sweep
from companion.study.sweep import SweepError, as_table, run_sweep, task_key, task_seed
from waiting import wait_until

TASKS = '''
import os
import time
from pathlib import Path

import numpy as np


def draw(task, seed):
    rng = np.random.default_rng(seed)
    return {"n": task["n"], "value": rng.standard_normal(), "vector": rng.random(2)}


def rows(task, seed):
    return [{"k": k, "value": task["n"] / (k + 1)} for k in range(2)]


def odd(task, seed):
    return {"inf": float("inf"), "tiny": np.float64(5e-324), "flag": np.bool_(True)}


def fails(task, seed):
    if task["n"] == 2:
        raise ZeroDivisionError("two is not allowed")
    return {"n": task["n"]}


def changes_its_task(task, seed):
    task["n"] = -1
    return {"n": task["n"]}


def dies(task, seed):
    os._exit(3)


def not_json(task, seed):
    return {"set": {1, 2}}


def threads(task, seed):
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return {"most": max(pool["num_threads"] for pool in threadpool_info())}


def slow(task, seed):
    """Log its start, sleep, and return something that depends on its seed."""
    with open(task["log"], "a") as log:
        log.write(f"{task['n']}\\n")
    time.sleep(task["seconds"])
    return {"n": task["n"], "value": float(np.random.default_rng(seed).random())}
'''


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """A module of task functions that worker processes can import."""
    import importlib

    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "sweep_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("sweep_tasks")
    del sys.modules["sweep_tasks"]


GRID = [{"n": n, "name": "é", "list": (1, 2.5)} for n in range(7)]


def test_results_are_identical_for_any_number_of_workers(tasks, tmp_path):
    serial = run_sweep(tasks.draw, GRID, seed=3)
    assert [r["n"] for r in serial] == list(range(7))
    assert len({r["value"] for r in serial}) == 7
    for workers in (2, 3):
        assert run_sweep(tasks.draw, GRID, seed=3, workers=workers) == serial
    shuffled = run_sweep(tasks.draw, GRID[::-1], seed=3, workers=2, store=tmp_path / "store")
    assert shuffled == serial[::-1]
    assert run_sweep(tasks.draw, GRID, seed=3, workers=3, store=tmp_path / "store") == serial
    assert run_sweep(tasks.draw, GRID, seed=4) != serial


def test_floats_come_back_exact_and_infinities_survive(tasks, tmp_path):
    expected = np.random.default_rng(task_seed(GRID[0], 3)).standard_normal()
    (got,) = run_sweep(tasks.draw, GRID[:1], seed=3, store=tmp_path)
    assert got["value"] == expected
    for _ in range(2):  # computed, then from the store
        (row,) = run_sweep(tasks.odd, [{}], seed=0, store=tmp_path)
        assert row == {"inf": math.inf, "tiny": 5e-324, "flag": True}


def test_equal_tasks_are_computed_once(tasks, tmp_path):
    log = tmp_path / "log"
    task = {"n": 1, "log": str(log), "seconds": 0}
    a, b = run_sweep(tasks.slow, [task, dict(task)], seed=0)
    assert a == b
    assert log.read_text() == "1\n"


def test_a_task_cannot_change_what_is_stored_about_it(tasks, tmp_path):
    assert run_sweep(tasks.changes_its_task, [{"n": 5}], seed=0, store=tmp_path) == [{"n": -1}]
    (stored,) = tmp_path.glob("*.json")
    assert json.loads(stored.read_text())["task"] == {"n": 5}


def test_seeds_and_keys_depend_on_what_they_should(tasks):
    assert task_seed({"a": 1, "b": 2}, 0) == task_seed({"b": 2, "a": 1}, 0)
    assert task_seed({"a": 1}, 0) != task_seed({"a": 1}, 1)
    assert task_seed({"a": 1}, 0) != task_seed({"a": 1.5}, 0)
    assert task_seed({"a": np.int64(1)}, 0) == task_seed({"a": 1}, 0)
    assert 0 <= task_seed({}, 0) < 2**63
    assert task_key(tasks.draw, {"a": 1}, 0) != task_key(tasks.rows, {"a": 1}, 0)
    assert task_key(tasks.draw, {"a": 1}, 0) != task_key(tasks.draw, {"a": 1}, 1)


def test_as_table_joins_parameters_and_rows(tasks):
    grid = [{"n": 1}, {"n": 3}]
    table = as_table(grid, run_sweep(tasks.rows, grid, seed=0))
    expected = pd.DataFrame({"n": [1, 1, 3, 3], "k": [0, 1, 0, 1], "value": [1, 0.5, 3, 1.5]})
    pd.testing.assert_frame_equal(table, expected)
    with pytest.raises(ValueError, match="overwrites the parameters n"):
        as_table([{"n": 1}], [{"n": 2}])
    with pytest.raises(ValueError):
        as_table(grid, [{}])


def test_stored_tasks_are_not_computed_again(tasks, tmp_path):
    log, store = tmp_path / "log", tmp_path / "store"
    grid = [{"n": n, "log": str(log), "seconds": 0} for n in range(4)]
    first = run_sweep(tasks.slow, grid[:2], seed=0, store=store)
    both = run_sweep(tasks.slow, grid, seed=0, store=store, workers=2)
    assert both[:2] == first
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3"]
    # another seed is another sweep, in the same folder
    run_sweep(tasks.slow, grid[:1], seed=1, store=store)
    assert len(list(store.glob("*.json"))) == 5
    assert not list(store.glob(".*"))


@pytest.mark.parametrize("damage", ["truncate", "edit", "foreign", "other", "empty", "binary"])
def test_damaged_files_are_noticed_and_computed_again(tasks, tmp_path, damage):
    first = run_sweep(tasks.draw, GRID[:3], seed=0, store=tmp_path)
    path = tmp_path / f"{task_key(tasks.draw, GRID[1], 0)}.json"
    text = path.read_text()
    if damage == "truncate":
        path.write_text(text[:-40])
    elif damage == "edit":
        changed = json.loads(text)
        changed["result"]["value"] = 0.0
        path.write_text(json.dumps(changed))
    elif damage == "foreign":
        path.write_text(json.dumps({"some": "file"}))
    elif damage == "other":
        path.write_text((tmp_path / f"{task_key(tasks.draw, GRID[0], 0)}.json").read_text())
    else:
        path.write_bytes(b"" if damage == "empty" else b"\xff\x00\xfe")
    with pytest.warns(UserWarning, match="1 stored tasks .* are damaged or foreign"):
        again = run_sweep(tasks.draw, GRID[:3], seed=0, store=tmp_path)
    assert again == first
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_sweep(tasks.draw, GRID[:3], seed=0, store=tmp_path) == first


def test_the_folder_of_the_data_changes_no_draw():
    here = {"n": 1, "inner": {"data_root": "/here"}, "data_root": "/here"}
    there = {"n": 1, "inner": {"data_root": "/there"}, "data_root": "/there"}
    assert task_seed(here, 0) == task_seed(there, 0) != task_seed({**here, "n": 2}, 0)
    # a bundled data set has no folder, and other draws
    assert task_seed({**here, "data_root": ""}, 0) != task_seed(here, 0)


def test_results_of_other_code_are_computed_again(tasks, tmp_path):
    store = tmp_path / "store"
    run_sweep(tasks.draw, GRID[:2], seed=0, store=store)
    source = Path(tasks.__file__)
    source.write_text(source.read_text().replace("rng.random(2)", "rng.random(3)"))
    with pytest.warns(UserWarning, match="2 stored tasks .* come from other code"):
        run_sweep(tasks.draw, GRID[:2], seed=0, store=store)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_task_is_named_and_the_finished_ones_are_kept(tasks, tmp_path, workers):
    grid = [{"n": n} for n in range(4)]
    with pytest.raises(SweepError, match=r"fails: task \{'n': 2\} failed: ZeroDivisionError: two"):
        run_sweep(tasks.fails, grid, seed=0, workers=workers, store=tmp_path)
    kept = {json.loads(p.read_text())["task"]["n"] for p in tmp_path.glob("*.json")}
    assert kept >= {0, 1}
    assert 2 not in kept
    assert run_sweep(tasks.fails, grid[:2], seed=0, store=tmp_path) == grid[:2]


def test_the_cause_of_a_failure_is_shown(tasks):
    with pytest.raises(SweepError) as failure:
        run_sweep(tasks.fails, [{"n": 2}], seed=0)
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    with pytest.raises(SweepError) as failure:
        run_sweep(tasks.fails, [{"n": 2}, {"n": 3}], seed=0, workers=2)
    assert "sweep_tasks.py" in str(failure.value.__cause__)


def test_a_dying_worker_is_an_error_not_a_hang(tasks):
    with pytest.raises(SweepError, match="a worker process ended abruptly"):
        run_sweep(tasks.dies, [{"n": n} for n in range(4)], seed=0, workers=2)


def test_functions_that_workers_cannot_import_are_refused(tasks):
    def local(task, seed):
        return {}

    for function in (local, lambda task, seed: {}):
        with pytest.raises(SweepError, match="defined at the top level of a module"):
            run_sweep(function, [{}], seed=0)
    impostor = type(tasks.draw)(tasks.draw.__code__, {}, "draw")
    impostor.__module__ = tasks.__name__
    with pytest.raises(SweepError, match="does not name the function given"):
        run_sweep(impostor, [{}], seed=0)


def test_what_json_cannot_hold_is_refused(tasks):
    for task in ({"a": {1}}, {"a": math.nan}, {"a": {1: 2}}, {1: "a"}):
        with pytest.raises(TypeError, match="task 1 must be made of what JSON can hold"):
            run_sweep(tasks.draw, [{"n": 0}, task], seed=0)
    with pytest.raises(SweepError, match=r"set \{1, 2\}"):
        run_sweep(tasks.not_json, [{}], seed=0)
    for name, value in (("workers", 0), ("seed", -1), ("seed", 0.5)):
        with pytest.raises(ValueError, match=name):
            run_sweep(tasks.draw, [], **{"seed": 0, name: value})
    assert run_sweep(tasks.draw, [], seed=0, workers=3) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_tasks_compute_with_the_threads_asked_for(tasks, workers):
    rows = run_sweep(tasks.threads, [{"n": n} for n in range(2)], seed=0, workers=workers)
    assert [row["most"] for row in rows] == [1, 1]


def test_a_task_that_imports_pytorch_first_has_one_thread_too(tmp_path):
    task = "def task(t):\n    import torch\n    return {'most': torch.get_num_threads()}\n"
    (tmp_path / "lazy_task.py").write_text(task)
    code = (
        "import sys, lazy_task; from companion.study.sweep import run_sweep\n"
        "assert 'torch' not in sys.modules; print(run_sweep(lazy_task.task, [{'n': 1}], seed=0))"
    )
    paths = os.pathsep.join([str(tmp_path), str(Path(sweep.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "3"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[{'most': 1}]"


SCRIPT = """
import sys
from sweep_tasks import slow
from companion.study.sweep import run_sweep

if __name__ == "__main__":
    log, store, workers, seconds = sys.argv[1:]
    grid = [{"n": n, "log": log, "seconds": float(seconds)} for n in range(12)]
    print(run_sweep(slow, grid, seed=5, workers=int(workers), store=store))
"""


def _start(tmp_path, workers, **more):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    library = Path(sweep.__file__).parents[2]
    paths = os.pathsep.join([str(tmp_path / "code"), str(library)])
    return subprocess.Popen(
        [sys.executable, script, tmp_path / "log", tmp_path / "store", str(workers), "0.2"],
        env={**os.environ, "PYTHONPATH": paths},
        text=True,
        **more,
    )


def _alive(folder):
    """Processes that work in a sweep of this test: they name its folder or were started by one."""
    text = str(folder).encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text in (entry / "environ").read_bytes() and entry.name != str(os.getpid()):
                found.append(entry.name)
    return found


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_sweep_resumes_without_losing_or_repeating_a_task(tasks, tmp_path, workers):
    store, log = tmp_path / "store", tmp_path / "log"
    process = _start(tmp_path, workers)
    wait_until(lambda: len(list(store.glob("*.json"))) >= 3, 30)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if Path("/proc/self/environ").exists():
        wait_until(lambda: not _alive(tmp_path), 30)  # the workers end with their parent
    started = [int(n) for n in log.read_text().split()]
    finished = {json.loads(p.read_text())["task"]["n"] for p in store.glob("*.json")}
    assert 3 <= len(finished) < 12
    assert finished <= set(started)
    in_flight = set(started) - finished
    assert len(started) == len(set(started))
    assert len(in_flight) <= 2 * workers  # one computing, one on its way to the disk

    # the task that was under way is computed again, nothing else; other numbers of workers share
    # the folder
    grid = [{"n": n, "log": str(log), "seconds": 0.2} for n in range(12)]
    resumed = run_sweep(tasks.slow, grid, seed=5, workers=3 - workers, store=store)
    all_started = [int(n) for n in log.read_text().split()]
    assert sorted(all_started[len(started) :]) == sorted(set(range(12)) - finished)
    assert sorted(set(all_started)) == list(range(12))
    expected = [np.random.default_rng(task_seed(task, 5)).random() for task in grid]
    assert [row["value"] for row in resumed] == expected


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_workers_and_keeps_what_is_done(tasks, tmp_path):
    store = tmp_path / "store"
    process = _start(tmp_path, 2, stderr=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: len(list(store.glob("*.json"))) >= 2, 30)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert errors.count("Traceback") == 1, errors  # the workers do not complain as well
    done = list(store.glob("*.json"))
    assert 2 <= len(done) < 12
    assert all(json.loads(p.read_text())["sha256"] for p in done)


def test_progress_is_silent_unless_wanted(tasks, capsys):
    run_sweep(tasks.draw, GRID, seed=0)
    assert capsys.readouterr().err == ""
    run_sweep(tasks.draw, GRID, seed=0, progress=True, label="draws")
    assert capsys.readouterr().err.startswith("draws: 7 of 7 tasks, ")


def test_progress_on_a_terminal_shows_after_a_while(tasks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    grid = [{"n": n, "log": str(tmp_path / "log"), "seconds": 0.1} for n in range(3)]
    run_sweep(tasks.slow, grid, seed=0, label="slow ones")
    assert capsys.readouterr().err == ""  # over before anybody wonders
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    run_sweep(tasks.slow, grid, seed=0, label="slow ones")
    shown = capsys.readouterr().err
    assert "slow ones" in shown
    assert "3 of 3 tasks" in shown
    run_sweep(tasks.slow, grid, seed=0, progress=False)
    assert capsys.readouterr().err == ""


def test_progress_never_enters_a_notebook(tasks, monkeypatch, capsys):
    class Shell:
        kernel = object()

    class IPython:
        @staticmethod
        def get_ipython():
            return Shell()

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    run_sweep(tasks.draw, GRID, seed=0, progress=True)
    assert capsys.readouterr().err == ""
