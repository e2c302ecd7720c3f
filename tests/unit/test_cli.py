"""The command line: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import companion as package
import reconrisk
from companion.study import find_exhibit, registry
from companion.study.records import read_record

FIG1, TABLE1 = "ziller2024/fig1", "ziller2024/table1"


@pytest.fixture
def companion(project, call_command):
    """The command line on the small project."""
    return call_command


def _no_traceback(result):
    assert "Traceback" not in result.output
    assert result.stdout == ""
    return result.stderr


# list


def test_list_shows_figures_with_their_panels_folded(companion):
    shown = companion("list").stdout
    assert "ziller2024/fig1 " in shown
    assert "fig1_mse" not in shown
    assert "fig5a" not in shown
    assert "Metrics [0; 1] over the noise" in shown  # brackets are no markup
    assert "5 exhibits (4 pending, 1 stated)" in shown
    assert "fig1_mse" in companion("list", "--panels").stdout


def test_list_knows_verdicts_and_costs_of_refreshed_notebooks(companion, project):
    project.refreshed()
    rows = {r["id"]: r for r in json.loads(companion("list", "--json", "--panels").stdout)}
    assert rows[FIG1]["status"] == "reproduced"
    assert rows[FIG1]["seconds"] == 0.4
    assert rows[FIG1 + "_psnr"]["status"] == "differs"
    assert rows[FIG1 + "_psnr"]["seconds"] == 0.4
    assert rows["hayes2023/fig5"]["seconds"] is None
    assert rows["ziller2024/def1"]["status"] == "stated"
    assert "0.4 s" in companion("list").stdout


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--paper", "hayes2023"], ["hayes2023/fig5"]),
        (["--kind", "table"], [TABLE1]),
        (["--kind", "table", "--kind", "definition"], [TABLE1, "ziller2024/def1"]),
        (["--status", "reproduced"], [FIG1, TABLE1]),
        (["--status", "Holds-on-stand-in-data", "--panels"], [FIG1 + "_mse"]),
        (["--cost", "1"], [FIG1, TABLE1]),
        (["--cost", "0.1"], []),
    ],
)
def test_list_filters(companion, project, options, expected):
    project.refreshed()
    shown = json.loads(companion("list", "--json", *options).stdout)
    assert [r["id"] for r in shown] == expected


@pytest.mark.parametrize(
    ("option", "value", "lists"),
    [("--paper", "zil", "ziller2024"), ("--kind", "plot", "figure"), ("--status", "ok", "refuted")],
)
def test_unknown_filters_list_the_known(companion, option, value, lists):
    error = _no_traceback(companion("list", option, value, code=2))
    assert f"{option} must be one of" in error
    assert lists in error


# run


def test_run_writes_figure_tables_and_record(companion, tmp_path):
    result = companion("run", FIG1)
    assert "ziller2024/fig1: reproduced" in result.stdout
    assert "the MSE is in [0, 1]" in result.stdout
    assert "other photographs" in result.stdout
    folder = tmp_path / "work" / "companion-out" / "ziller2024-fig1"
    assert {p.name for p in folder.iterdir()} == {"figure.png", "draws.csv", "record.json"}
    record = read_record(folder)
    assert record.provenance.parameters["samples"] == 5
    assert len(record.tables["draws"]) == 5


def test_run_takes_parameters_and_a_folder(companion, tmp_path):
    out = tmp_path / "there"
    companion(
        "run", FIG1, "--set", "samples=7", "--set", "scale=1e-3", "--set", "norms=[1e-3, 2]",
        "--seed", 3, "--out", out, "--no-figure",
    )  # fmt: skip
    record = read_record(out)
    assert record.provenance.parameters == {"samples": 7, "scale": 1e-3, "norms": [1e-3, 2.0]}
    assert record.provenance.seed == 3
    assert record.figure is None
    assert record.tables["draws"]["value"].abs().max() < 0.01


@pytest.mark.parametrize("place", ["--out", "--checkpoints"])
def test_where_to_write_is_checked_before_anything_is_computed(companion, tmp_path, place):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    said = _no_traceback(companion("run", FIG1, place, taken, code=2))
    assert f"{taken} is a file" in said and "profile, seed" not in said
    assert taken.read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody may write to")
def test_a_place_that_takes_no_files_is_refused_at_once(companion):
    said = _no_traceback(companion("run", FIG1, "--out", "/proc/there/x", code=2))
    assert "/proc/there/x cannot be written" in said and "profile, seed" not in said


def test_a_full_disk_at_the_end_is_said_and_keeps_the_old_record(companion, tmp_path, monkeypatch):
    out = tmp_path / "there"
    companion("run", FIG1, "--seed", 3, "--out", out, "--no-figure")

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("companion.study.records.write_atomically", full)
    said = _no_traceback(companion("run", FIG1, "--seed", 4, "--out", out, "--no-figure", code=1))
    assert "cannot be written" in said and "No space left" in said
    assert read_record(out).provenance.seed == 3


def test_outside_a_checkout_every_command_says_so(tmp_path):
    site = tmp_path / "site"
    compiled = shutil.ignore_patterns("__pycache__")  # another process may be writing it
    shutil.copytree(Path(package.__file__).parent, site / "companion", ignore=compiled)
    paths = [str(site), str(Path(reconrisk.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("RECONRISK_ROOT", None)
    code = "from companion.cli import main; main()"

    def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    for arguments in (["list"], ["verdicts"], ["costs"]):
        done = run(tmp_path, *arguments)
        assert done.returncode == 2 and done.stderr.startswith("error: the companion reads"), done
        assert "Traceback" not in done.stderr and "RECONRISK_ROOT" in done.stderr
    # another checkout is read, and named
    done = run(registry.project_root(), "list", "--paper", "ziller2024")
    assert done.returncode == 0 and "of which this companion is no part" in done.stderr


def test_run_of_a_panel_runs_its_figure(companion, tmp_path):
    result = companion("run", FIG1 + "_mse", "--set", "samples=9")
    assert "ziller2024/fig1_mse is a part of ziller2024/fig1" in result.stderr
    assert len(read_record(tmp_path / "work/companion-out/ziller2024-fig1").tables["draws"]) == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ziller2024/fig9"], "no exhibit 'ziller2024/fig9'; did you mean ziller2024/fig1"),
        (["nonsense"], "`companion list` shows them all"),
        (["ziller2024/def1"], "is stated on its paper's page"),
        (["hayes2023/fig5"], "is not built yet (pending)"),
        ([FIG1, "--set", "sample=3"], "has no parameter 'sample'; its parameters: samples (int)"),
        ([TABLE1, "--set", "a=1"], "its parameters: none"),
        ([FIG1, "--set", "samples"], "--set takes NAME=VALUE; got 'samples'"),
        ([FIG1, "--set", "samples=0"], "samples must be finite and at least 1; got 0"),
        ([FIG1, "--set", "norms=[1, "], "norms must be a list of numbers; got '[1, '"),
        ([FIG1, "--profile", "fast"], "profile must be one of quick, paper; got 'fast'"),
        ([FIG1, "--seed", "-1"], "seed must be in [0, inf]"),
        ([FIG1, "--device", "tpu"], "device must be one of cpu, cuda; got 'tpu'"),
        ([FIG1, "--workers", "0"], "workers must be in [1, inf]"),
        ([FIG1, "--data-root", "/nowhere"], "data_root must be an existing folder"),
        ([FIG1, "--set", "scale=13"], "scale must not be unlucky; got 13.0 (--debug shows where)"),
    ],
)
def test_mistakes_are_one_line_and_status_2(companion, tmp_path, arguments, message):
    error = _no_traceback(companion("run", *arguments, code=2))
    assert message in error
    assert error.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "work" / "companion-out").exists()


def test_debug_shows_where_a_refusal_comes_from(companion):
    with pytest.raises(ValueError, match="unlucky"):
        companion("--debug", "run", FIG1, "--set", "scale=13")


def test_a_failed_verdict_is_status_1_and_loses_nothing(companion, tmp_path):
    result = companion("run", FIG1, "--set", "scale=-1", code=1)
    assert "error: ziller2024/fig1: the scale is positive: does not hold" in result.stderr
    assert "Traceback" not in result.output
    folder = tmp_path / "work" / "companion-out" / "ziller2024-fig1"
    record = read_record(folder)
    assert len(record.tables["draws"]) == 5
    assert record.figure is not None
    marked = {v.target: (v.status, v.why, v.ours) for v in record.verdicts}
    assert marked[FIG1] == ("failed", "does not hold", "-1")
    assert marked["B-001"] == ("reproduced", "", "")
    # what is kept is told again, and is no more sound the second time
    error = companion("run", FIG1, "--set", "scale=-1", code=1).stderr
    assert "up to date" in error
    assert "error: ziller2024/fig1: the scale is positive: does not hold" in error


def test_a_figure_that_cannot_be_drawn_loses_no_table(companion, tmp_path, monkeypatch):
    def draw(tables):
        raise IndexError("no such panel")

    monkeypatch.setattr(find_exhibit(FIG1).file, "draw", draw)
    error = companion("run", FIG1, code=1).stderr
    assert "the figure could not be drawn: IndexError: no such panel" in error
    record = read_record(tmp_path / "work" / "companion-out" / "ziller2024-fig1")
    assert record.figure is None
    assert len(record.tables["draws"]) == 5


def test_fresh_verdicts_stop_at_a_failed_one(companion, project):
    table = project.folder / "table1.py"
    table.write_text(table.read_text().replace("ours[0] < 100", "ours[0] > 100"))
    answer = json.loads(companion("verdicts", "--fresh", "--json", code=1).stdout)
    assert any("it falls: does not hold" in problem for problem in answer["problems"])


def test_sweeps_of_a_killed_run_are_kept_until_it_is_over(companion, tmp_path, monkeypatch):
    from companion.study import Study

    folder = tmp_path / "work" / "companion-out" / "ziller2024-fig1"
    seen = []

    def run(self, exhibit):
        (self.checkpoints).mkdir(parents=True, exist_ok=True)
        seen.append(sorted(p.name for p in self.checkpoints.iterdir()))
        (self.checkpoints / "task.json").write_text("")
        if len(seen) == 1:
            raise KeyboardInterrupt
        return original(self, exhibit)

    original = Study.run
    monkeypatch.setattr(Study, "run", run)
    companion("run", FIG1, code=130)
    assert (folder / "tasks" / "task.json").exists()
    companion("run", FIG1)
    assert not (folder / "tasks").exists()
    companion("run", FIG1, "--again", "--checkpoints", tmp_path / "kept")
    assert (tmp_path / "kept" / "task.json").exists()
    assert seen == [[], ["task.json"], []]


# parameters


def test_parameters_are_shown_beside_the_papers(companion):
    shown = companion("parameters", FIG1).stdout
    for text in ("samples", "int, >= ", "1000", "not printed", "[1.0, 2.0]", "clipping norms"):
        assert text in shown
    assert "has no parameters" in companion("parameters", TABLE1).stdout
    assert "did you mean" in _no_traceback(companion("parameters", "ziller2024/fig", code=2))


def test_the_values_of_a_run_are_shown_without_running_it(companion, tmp_path):
    shown = companion("run", FIG1, "--set", "samples=77", "--show-parameters").stdout
    assert "this run" in shown
    assert "77" in shown
    assert not (tmp_path / "work" / "companion-out").exists()


# verdicts


def test_verdicts_without_notebooks_are_pending_and_status_1(companion):
    shown = companion("verdicts", code=1).stdout
    assert "11 targets: 11 pending" in shown
    assert "8 pending of ziller2024: ziller2024/fig1, " in shown


def test_stored_verdicts_are_complete_only_with_all_of_the_paper(companion, project):
    project.refreshed()
    answer = json.loads(companion("verdicts", "--json", code=1).stdout)
    assert answer["problems"] == ["1 pending of ziller2024: ziller2024/alg_linear"]
    exhibits = project.root / "data/paper/exhibits.csv"
    kept = [row for row in exhibits.read_text().splitlines() if "alg_linear" not in row]
    exhibits.write_text("\n".join(kept))
    from companion.study import registry

    registry.exhibits.cache_clear()
    answer = json.loads(companion("verdicts", "--json").stdout)
    assert answer["ok"] is True
    assert answer["summary"]["pending"] == 2  # of papers not built yet
    shown = companion("verdicts", "--paper", "ziller2024").stdout
    assert "every verdict of ziller2024 is there and sound" in shown
    assert "C-001" not in shown
    shown = companion("verdicts", "--paper", "hayes2023", code=1).stdout
    assert "2 pending of hayes2023" in shown


def test_tampered_verdicts_are_status_1(companion, project):
    path = project.refreshed()
    path.write_text(path.read_text().replace('"status": "differs"', '"status": "reproduced"'))
    shown = companion("verdicts", code=1).stdout
    assert "ziller2024/fig1_psnr is 'reproduced' but says 'other photographs'" in shown
    text = path.read_text().replace('"status": "refuted"', '"status": "confirmed"')
    path.write_text(text)
    answer = json.loads(companion("verdicts", "--json", code=1).stdout)
    assert any("unknown verdict 'confirmed'" in p for p in answer["problems"])


def test_fresh_verdicts_are_computed_with_progress(companion):
    result = companion("verdicts", "--fresh", "--json", code=1)
    answer = json.loads(result.stdout)
    assert answer["problems"] == ["1 pending of ziller2024: ziller2024/alg_linear"]
    assert answer["summary"] == {
        "reproduced": 5,
        "holds on stand-in data": 1,
        "differs": 1,
        "pending": 3,
        "refuted": 1,
    }
    assert "[1/2] ziller2024/fig1: reproduced (" in result.stderr
    assert "[2/2] ziller2024/table1: reproduced (" in result.stderr


def test_fresh_verdicts_of_a_paper_run_whatever_settles_its_claims(companion):
    result = companion("verdicts", "--fresh", "--paper", "hayes2023", "--json", code=1)
    assert json.loads(result.stdout)["summary"] == {"pending": 2, "reproduced": 1}
    assert "[1/1] ziller2024/table1: reproduced (" in result.stderr


def test_a_fresh_failure_does_not_stop_the_others(companion, project):
    from companion.study import registry

    printed = project.root / "data/paper/ziller2024/table1.csv"
    printed.write_text(printed.read_text().replace("1.0,1.0", "1.2,1.2"))
    registry.forget()
    result = companion("verdicts", "--fresh", "--json", code=1)
    problems = json.loads(result.stdout)["problems"]
    assert "1 of 2 agree; first: 1 against 1.2" in problems[0]
    assert "[2/2] ziller2024/table1: failed" in result.stderr
    assert "[1/2] ziller2024/fig1: reproduced" in result.stderr


# why


def test_why_says_what_would_run_again(companion, project):
    assert "nothing recorded" in companion("why", FIG1, code=1).stdout
    project.refreshed()
    shown = companion("why", FIG1).stdout
    assert "nothing would run again; notebooks/ziller2024/01_bounds.ipynb holds" in shown
    shown = companion("why", FIG1, "--set", "samples=6", "--seed", "2", code=1).stdout
    assert "again; compared with notebooks/ziller2024/01_bounds.ipynb's result:" in shown
    assert "parameters: samples was 5, is 6" in shown
    assert "seed: 0 stored, 2 asked for" in shown
    project.experiment.write_text(project.experiment.read_text() + "#")
    assert "code: ziller2024/fig1.py changed" in companion("why", FIG1, code=1).stdout
    assert "no exhibit" in _no_traceback(companion("why", "x", code=2))


# the command itself


def _start(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=60
    )


def test_help_and_version_load_nothing_heavy():
    for argument in ("--help", "--version", "run --help"):
        code = (
            "import sys; from companion.cli import main\n"
            f"sys.argv = ['reconrisk', *{argument.split()!r}]\n"
            "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
            "heavy = {'torch', 'pandas', 'scipy', 'matplotlib'} & set(sys.modules)\n"
            "assert not heavy, heavy"
        )
        assert _start("-c", code).stdout.strip()


def test_help_names_every_command_with_an_example(companion):
    shown = _start("-m", "companion.cli", "--help").stdout
    for command in ("list", "run", "parameters", "verdicts", "why"):
        assert command in shown
        assert f"Example: companion {command}" in companion(command, "--help").stdout
    assert "book" in shown
    assert "build" in companion("book", "--help").stdout


def test_the_package_alone_loads_no_torch():
    code = "import sys, reconrisk, companion.study; assert 'torch' not in sys.modules"
    _start("-c", code)


def test_output_in_a_pipe_has_no_colour_codes(companion, project):
    project.refreshed()
    assert "\x1b" not in companion("list").output
    assert "\x1b" not in companion("run", FIG1).output


# without PyTorch


def test_a_closed_form_runs_without_pytorch_and_others_say_what_they_need(tmp_path):
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.partition('.')[0] in ('torch', 'torchvision'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from companion.cli import main; main()"
    )

    def run(exhibit):
        arguments = ["run", exhibit, "--no-figure", "--out", str(tmp_path / exhibit)]
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
        )

    done = run("hayes2023/prop5")
    assert done.returncode == 0, done.stderr
    assert "reproduced" in {v.status for v in read_record(tmp_path / "hayes2023/prop5").verdicts}
    done = run("biswas2024/fig1")
    assert done.returncode == 2
    assert done.stderr == "error: this needs torch: pip install 'reconrisk[train]'\n"
