"""Sweeps on Dask clusters: real schedulers and workers on loopback, some of them killed."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from companion.study import Study, cluster, dask_engine, dask_worker, session, sweep
from companion.study.sources import code_stamp
from companion.study.sweep import SweepError, run_sweep, task_seed
from companion.study.tasks import ClusterError
from waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")

TASKS = '''
import os
import time

import numpy as np


def draw(task, seed):
    rng = np.random.default_rng(seed)
    return {"n": task["n"], "value": rng.standard_normal(), "vector": rng.random(2)}


def fails(task, seed):
    if task["n"] == 5:
        raise ZeroDivisionError("five is not allowed")
    return {"n": task["n"]}


def slow(task, seed):
    """Log its start and its process, sleep, and return something that depends on its seed."""
    with open(task["log"], "a") as log:
        log.write(f"{task['n']} {os.getpid()}\\n")
    if task["n"] == task.get("deadly"):
        os._exit(3)
    time.sleep(task["seconds"])
    return {"n": task["n"], "value": float(np.random.default_rng(seed).random())}


def reads(task, seed):
    return {"text": open("no such file").read()}


def threads(task, seed):
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return {"most": max(pool["num_threads"] for pool in threadpool_info())}
'''

SCRIPT = """
import sys
from cluster_tasks import slow
from companion.study.sweep import run_sweep

if __name__ == "__main__":
    log, store, scheduler, count = sys.argv[1:]
    grid = [{"n": n, "log": log, "seconds": 0.2} for n in range(int(count))]
    run_sweep(slow, grid, seed=5, scheduler=scheduler, store=store)
"""


class Machines:
    """Processes of Dask that end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = [str(folder), str(Path(sweep.__file__).parents[2])]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
            "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false",
        }
        self.started: list[subprocess.Popen] = []

    def start(self, *arguments: str | Path) -> subprocess.Popen:
        with (self.folder / "errors").open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                env=self.environment,
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self.started.append(process)
        return process

    def scheduler(self, name: str) -> tuple[subprocess.Popen, str]:
        file = self.folder / f"{name}.json"
        process = self.start(
            *("-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0"),
            *("--no-dashboard", "--scheduler-file", file),
        )
        wait_until(file.is_file)
        wait_until(lambda: file.read_text().endswith("}"))
        return process, json.loads(file.read_text())["address"]

    def worker(
        self, address: str, *more: str, program: tuple[str, ...] = ("-m", "dask")
    ) -> subprocess.Popen:
        return self.start(
            *(*program, "worker", address, "--nthreads", "1", "--memory-limit", "0"),
            *("--no-dashboard", "--host", "127.0.0.1", "--death-timeout", "120", *more),
        )

    def end(self) -> None:
        for process in reversed(self.started):
            process.terminate()  # a nanny ends its worker
        for process in self.started:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def executions(log: Path) -> list[tuple[int, int]]:
    return [(int(n), int(pid)) for n, pid in map(str.split, log.read_text().splitlines())]


def stored(store: Path) -> list[int]:
    return sorted(json.loads(p.read_text())["task"]["n"] for p in store.glob("*.json"))


def expected(grid, seed=5):
    return [
        {"n": t["n"], "value": np.random.default_rng(task_seed(t, seed)).random()} for t in grid
    ]


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "cluster_tasks.py").write_text(TASKS)
    (folder / "script.py").write_text(SCRIPT)
    made = Machines(folder)
    sys.path.insert(0, str(folder))
    try:
        yield made
    finally:
        cluster.disconnect()
        made.end()
        sys.path.remove(str(folder))
        sys.modules.pop("cluster_tasks", None)


@pytest.fixture(scope="module")
def tasks(machines):
    return importlib.import_module("cluster_tasks")


@pytest.fixture(scope="module")
def address(machines):
    """A scheduler with two workers that are restarted when they die."""
    _, address = machines.scheduler("shared")
    machines.worker(address, "--nworkers", "2")
    cluster.connect_to(address).wait_for_workers(2, timeout=120)
    return address


@pytest.fixture
def grid(tmp_path):
    return [{"n": n, "log": str(tmp_path / "log"), "seconds": 0.1} for n in range(20)]


def idle(address: str) -> bool:
    """No task is with the workers; one that its client no longer wants still runs to its end."""

    def busy(dask_worker) -> int:
        return len(dask_worker.state.executing)

    client = cluster.connect_to(address)
    return not any(client.processing().values()) and not any(client.run(busy).values())


def test_the_table_is_the_same_whatever_the_engine(tasks, address, tmp_path):
    grid = [{"n": n, "name": "é", "list": (1, 2.5)} for n in range(30)]
    serial = run_sweep(tasks.draw, grid, seed=3)
    assert run_sweep(tasks.draw, grid, seed=3, workers=2) == serial
    store = tmp_path / "store"
    assert run_sweep(tasks.draw, grid, seed=3, scheduler=address, store=store) == serial
    # what one engine has stored serves another
    (store / f"{sweep.task_key(tasks.draw, json.loads(json.dumps(grid[4])), 3)}.json").unlink()
    assert run_sweep(tasks.draw, grid, seed=3, store=store) == serial
    assert len(list(store.glob("*.json"))) == 30
    # a scheduler file names the same cluster
    file = str(Path(tasks.__file__).parent / "shared.json")
    assert run_sweep(tasks.draw, grid[:3], seed=3, scheduler=file) == serial[:3]
    cluster.disconnect(file)


def test_an_exhibit_has_the_same_tables_and_verdicts(address, monkeypatch):
    few = {"liu2024/lemB2": {"trials": 50, "count": 500}}
    here = Study(seed=2, overrides=few).run("liu2024/lemB2")
    monkeypatch.setattr(session, "_FINISHED", {})  # nothing is remembered from the run before
    there = Study(seed=2, overrides=few, scheduler=address).run("liu2024/lemB2")
    assert [v.as_dict() for v in there.verdicts] == [v.as_dict() for v in here.verdicts]
    for name, table in here.tables.items():
        assert there.tables[name].equals(table), name

    def loaded() -> bool:
        import sys

        return "companion.papers.liu2024.proof_tools" in sys.modules

    assert any(cluster.connect_to(address).run(loaded).values())  # they did compute


def test_tasks_compute_with_the_threads_asked_for(tasks, address):
    rows = run_sweep(tasks.threads, [{"n": n} for n in range(4)], seed=0, scheduler=address)
    assert {row["most"] for row in rows} == {1}


def test_the_cluster_holds_a_bounded_number_of_calls(tasks, address):
    calls = [(n, {"n": n}, n) for n in range(300)]
    client, most, seen = cluster.connect_to(address), 0, set()
    for outcome in dask_engine.call_dask(tasks.draw, calls, scheduler=address):
        states = [state.status for state in list(client.futures.values())]
        most = max(most, states.count("pending"))
        seen.add(outcome.position)
    assert seen == set(range(300))
    assert 2 <= most <= dask_engine.CALLS_AT_LEAST


def test_a_failing_task_is_named_and_the_finished_ones_are_kept(tasks, address, tmp_path):
    grid = [{"n": n} for n in range(60)]
    with pytest.raises(SweepError, match=r"fails: task \{'n': 5\} failed: ZeroDivisionError: five"):
        run_sweep(tasks.fails, grid, seed=0, scheduler=address, store=tmp_path)
    kept = stored(tmp_path)
    assert 5 not in kept and 0 < len(kept) < 59
    wait_until(lambda: idle(address))


def test_the_tasks_of_a_killed_worker_run_on_others(tasks, machines, address, grid, tmp_path):
    client = cluster.connect_to(address)
    victim = machines.worker(address, "--no-nanny")
    client.wait_for_workers(3, timeout=120)
    log, store = tmp_path / "log", tmp_path / "store"
    killed = []

    def kill() -> None:
        if not killed and any(pid == victim.pid for _, pid in executions(log)):
            killed.append(victim.pid)
            victim.kill()

    calls = dask_engine.call_dask

    def watched(*arguments, **more):
        for outcome in calls(*arguments, **more):
            kill()
            yield outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "call_dask", watched)
        rows = run_sweep(tasks.slow, grid, seed=5, scheduler=address, store=store)
    assert killed
    assert rows == expected(grid)
    assert stored(store) == list(range(20))  # none lost, none doubled
    runs = Counter(n for n, _ in executions(log))
    assert set(runs) == set(range(20))
    twice = {n for n, times in runs.items() if times > 1}
    on_victim = {n for n, pid in executions(log) if pid == victim.pid}
    assert twice <= on_victim  # nothing was repeated that the dead worker had not begun


def test_a_deadly_task_is_blamed_and_everything_else_is_done(tasks, address, grid, tmp_path):
    deadly = [{**task, "deadly": 3, "seconds": 0.01} for task in grid]
    with pytest.raises(SweepError, match=r"'n': 3.* ended abruptly, also with no other") as failure:
        run_sweep(tasks.slow, deadly, seed=5, scheduler=address, store=tmp_path / "store")
    assert not isinstance(failure.value, ClusterError)
    assert "19 finished tasks are kept" in str(failure.value)
    assert stored(tmp_path / "store") == [n for n in range(20) if n != 3]
    # twice, then twice alone; Dask also counts a death before which the task had not yet begun
    assert 2 <= Counter(n for n, _ in executions(tmp_path / "log"))[3] <= 4


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_stopped_client_takes_its_tasks_back_and_resumes(tasks, machines, address, tmp_path, how):
    log, store = tmp_path / "log", tmp_path / "store"
    client = machines.start("script.py", log, store, address, "40")
    wait_until(lambda: len(list(store.glob("*.json"))) >= 3)
    client.send_signal(getattr(signal, how))
    assert client.wait(timeout=30) != 0
    wait_until(lambda: idle(address))  # what had begun ends, the rest is forgotten
    begun, finished = executions(log), stored(store)
    assert 3 <= len(finished) < 40
    assert len(begun) == len({n for n, _ in begun}) <= len(finished) + 8
    grid = [{"n": n, "log": str(log), "seconds": 0.2} for n in range(40)]
    small = [grid[n] for n in sorted({n for n, _ in begun} | set(range(6)))]
    rows = run_sweep(tasks.slow, small, seed=5, scheduler=address, store=store)
    assert rows == expected(small)
    again = sorted(n for n, _ in executions(log)[len(begun) :])
    assert again == sorted({t["n"] for t in small} - set(finished))  # only the rest


def test_workers_of_another_version_are_refused(tasks, machines, address, tmp_path):
    run_sweep(tasks.draw, [{"n": n} for n in range(8)], seed=0, scheduler=address)
    source = Path(tasks.__file__)
    before, times = source.read_text(), source.stat()
    source.write_text(before.replace("rng.random(2)", "rng.random(3)"))
    try:
        with pytest.raises(ClusterError, match=r"other code of cluster_tasks\.draw .* restart"):
            run_sweep(tasks.draw, [{"n": 1}], seed=0, scheduler=address)
    finally:
        source.write_text(before)
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    # and one without the package at all
    lacking = "import sys; sys.modules['reconrisk'] = None; from dask.__main__ import main; main()"
    bare = machines.worker(address, "--no-nanny", program=("-c", lacking))
    cluster.connect_to(address).wait_for_workers(3, timeout=120)
    grid = [{"n": n, "log": str(tmp_path / "log"), "seconds": 0.05} for n in range(40)]
    with pytest.raises(ClusterError, match="has no reconrisk, or an older one"):
        run_sweep(tasks.slow, grid, seed=0, scheduler=address)
    bare.kill()
    wait_until(lambda: len(cluster.connect_to(address).nthreads()) == 2)


def test_a_lost_scheduler_and_missing_workers_are_told(
    tasks, machines, grid, tmp_path, monkeypatch
):
    process, address = machines.scheduler("doomed")
    monkeypatch.setenv(dask_engine.PATIENCE, "1")
    with pytest.raises(ClusterError, match=r"no worker for 1 s .*under way: \{'n': 0") as failure:
        run_sweep(tasks.draw, [{"n": 0}], seed=0, scheduler=address)
    assert address in str(failure.value)
    monkeypatch.delenv(dask_engine.PATIENCE)
    monkeypatch.setenv(cluster.TIMEOUT, "2")
    cluster.disconnect(address)
    worker = machines.worker(address, "--no-nanny")
    store = tmp_path / "store"
    calls = dask_engine.call_dask

    def watched(*arguments, **more):
        for number, outcome in enumerate(calls(*arguments, **more)):
            yield outcome
            if number == 2:
                process.kill()

    monkeypatch.setattr(sweep, "call_dask", watched)
    with pytest.raises(
        ClusterError, match=f"slow: the connection to .*{address} is lost"
    ) as failure:
        run_sweep(tasks.slow, grid, seed=5, scheduler=address, store=store)
    kept = stored(store)
    assert 3 <= len(kept) < 20
    assert f"{len(kept)} finished tasks are kept in {store}" in str(failure.value)
    worker.kill()
    monkeypatch.setattr(sweep, "call_dask", calls)
    assert run_sweep(tasks.slow, grid, seed=5, store=store) == expected(grid)
    assert sorted(stored(store)) == list(range(20))


def test_a_scheduler_that_does_not_answer_is_named(tasks, tmp_path, monkeypatch):
    monkeypatch.setenv(cluster.TIMEOUT, "0.3")
    start = time.monotonic()
    with pytest.raises(
        ClusterError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9 within"
    ):
        run_sweep(tasks.draw, [{"n": 0}], seed=0, scheduler="tcp://127.0.0.1:9")
    assert time.monotonic() - start < 15
    with pytest.raises(ClusterError, match="is not a scheduler file"):
        run_sweep(tasks.draw, [{"n": 0}], seed=0, scheduler=str(tmp_path / "none.json"))
    monkeypatch.setenv(cluster.TIMEOUT, "soon")
    with pytest.raises(ValueError, match=r"RECONRISK_SCHEDULER_TIMEOUT must .* got 'soon'"):
        run_sweep(tasks.draw, [{"n": 0}], seed=0, scheduler="tcp://127.0.0.1:9")
    # nothing to compute needs no cluster
    assert run_sweep(tasks.draw, [], seed=0, scheduler="tcp://127.0.0.1:9") == []


def test_a_local_cluster_serves_child_processes(tasks, monkeypatch, capsys):
    monkeypatch.delenv(cluster.SCHEDULER, raising=False)
    with cluster.serve_children("") as none:
        assert none == "" and cluster.SCHEDULER not in os.environ
    with cluster.serve_children("local:1") as address:
        assert os.environ[cluster.SCHEDULER] == address == Study().cluster
        assert address.startswith("tcp://127.0.0.1:")
        assert "dashboard http://127.0.0.1:" in capsys.readouterr().err
        monkeypatch.syspath_prepend(str(Path(tasks.__file__).parent))
        rows = run_sweep(tasks.draw, [{"n": 1}], seed=3, scheduler=address)
        assert rows == run_sweep(tasks.draw, [{"n": 1}], seed=3)
        cluster.disconnect(address)
    assert cluster.SCHEDULER not in os.environ


# Without a cluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tcp://a:1", "tls://a.b:8786", "local:12", "to/scheduler.json"])
def test_clusters_have_names(name):
    cluster.check_scheduler(name)
    assert Study(scheduler=name).context("liu2024/lemB2").scheduler == name
    with pytest.raises(ValueError, match="give one of them"):
        cluster.check_scheduler(name, workers=2)


@pytest.mark.parametrize("name", ["4", "local:0", "local:", "host:8786", "http://a:1", "tcp://a"])
def test_other_names_are_refused_at_once(name):
    with pytest.raises(ValueError, match=r"scheduler must be an address \(tcp://host:port\)"):
        Study(scheduler=name)


def test_the_environment_names_the_cluster_unless_told_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv(cluster.SCHEDULER, "tcp://a:1")
    assert Study().cluster == "tcp://a:1"
    assert Study(scheduler="local:2").cluster == "local:2"
    assert Study(scheduler="").cluster == Study(workers=2).cluster == ""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    root = Study(data_root="data").context("liu2024/lemB2").data_root
    assert root == tmp_path.resolve() / "data"  # workers have other current folders
    monkeypatch.setenv(cluster.SCHEDULER, "nonsense")
    with pytest.raises(ValueError, match="got 'nonsense'"):
        Study()


def test_without_dask_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -e 'lib/companion\[cluster\]'"):
        cluster.check_scheduler("local:2")


@pytest.fixture
def fresh(monkeypatch):
    """This process as a worker that starts now."""
    monkeypatch.setattr(dask_worker, "_START", time.time())
    dask_worker._load.cache_clear()
    yield
    dask_worker._load.cache_clear()


def request(tasks, of="draw", **changed):
    made = json.loads(dask_engine._Requests(getattr(tasks, of), 1)((0, {"n": 1}, 7)))
    return json.dumps({**made, **changed})


def test_a_worker_says_why_it_refuses(tasks, fresh, tmp_path):
    kind, text = dask_worker.answer_request(request(tasks))
    assert kind == "result" and json.loads(text)["n"] == 1
    for changed, why in (
        ({"folders": [str(tmp_path / "gone")]}, "gone: it must be visible under the same path"),
        ({"libraries": {"numpy": "1.0"}}, "where numpy 1.0 is asked for"),
        ({"libraries": {"absent": "1.0"}}, "has absent missing where absent 1.0"),
        ({"module": "no_such_module"}, "cannot import no_such_module.draw"),
        ({"function": "no_such"}, "cannot import cluster_tasks.no_such"),
        ({"code": "0" * 64}, "other code of cluster_tasks.draw"),
    ):
        kind, text = dask_worker.answer_request(request(tasks, **changed))
        assert kind == "refused" and why in text, text


def test_a_task_names_the_folders_that_workers_must_see(tasks, tmp_path):
    task = {"data": {"root": str(tmp_path)}, "list": ["relative", "/no/such/folder"], "n": 1.5}
    made = json.loads(dask_engine._Requests(tasks.draw, 1)((0, task, 7)))
    assert made["folders"] == [str(tmp_path)]
    assert made["task"] == task
    assert made["code"] == code_stamp(tasks.draw)


def test_a_missing_file_is_told_with_a_hint(tasks, fresh):
    kind, text = dask_worker.answer_request(request(tasks, "reads"))
    assert kind == "failure"
    assert "same absolute path on every worker" in text.strip().splitlines()[-1]


def test_a_worker_refuses_when_its_files_changed_after_it_started(tasks, fresh, monkeypatch):
    monkeypatch.setattr(dask_worker, "_START", Path(tasks.__file__).stat().st_mtime - 1)
    kind, text = dask_worker.answer_request(request(tasks))
    assert kind == "refused" and "restart workers" in text


def test_functions_of_a_script_are_refused(tasks, monkeypatch):
    monkeypatch.setattr(tasks.draw, "__module__", "__main__")
    with (
        contextlib.closing(
            dask_engine.call_dask(tasks.draw, [(0, {}, 0)], scheduler="local:1")
        ) as outcomes,
        pytest.raises(ClusterError, match="move it into a module"),
    ):
        next(outcomes)
