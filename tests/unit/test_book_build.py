"""Running notebooks and dressing them: parameters, failures, order, Markdown, addresses."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import psutil
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from rich.console import Console
from typer.testing import CliRunner

from companion.book import (
    copied_kernels,
    downloads,
    execute,
    markdown,
    pages,
    refresh,
    sources,
    stage,
)
from companion.book.gallery import Gallery, Shown, gallery
from companion.cli import book
from companion.study import registry
from companion.study.results import RESULT_MIME
from companion.study.typeset import typeset
from companion.study.verdicts import Verdict
from waiting import wait_until

ROOT = registry.project_root()
linux = pytest.mark.skipif(not copied_kernels.can_watch(), reason="kernels are copied on Linux")
PARAMETERS = 'profile = "quick"\nseed = 0\nrate = 0.5\noverrides = {}'


def write(path: Path, *cells: tuple[str, str], parameters: str = PARAMETERS) -> Path:
    """A notebook with a parameters cell and (source, tag) cells."""
    notebook = new_notebook(cells=[new_code_cell(parameters, metadata={"tags": ["parameters"]})])
    notebook.metadata = nbformat.from_dict(refresh.METADATA)
    notebook.cells.insert(0, new_markdown_cell("# A title"))
    for source, tag in cells:
        notebook.cells.append(new_code_cell(source, metadata={"tags": [tag]} if tag else {}))
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


# --- parameters -------------------------------------------------------------------------------


def test_declared_parameters_are_read_with_their_values(tmp_path: Path) -> None:
    declared = execute.declared_parameters(write(tmp_path / "a.ipynb"))
    assert declared == {"profile": "quick", "seed": 0, "rate": 0.5, "overrides": {}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sed": 1}, "no parameter 'sed'"),
        ({"seed": "one"}, "seed must be of type int"),
        ({"seed": True}, "seed must be of type int"),
        ({"seed": 1.5}, "seed must be of type int"),
        ({"rate": "high"}, "rate must be of type float"),
        ({"overrides": [1]}, "overrides must be of type dict"),
    ],
)
def test_unknown_and_mistyped_parameters_are_refused(tmp_path: Path, given, said) -> None:
    problems = execute.check_parameters(write(tmp_path / "a.ipynb"), given)
    assert len(problems) == 1
    assert said in problems[0]
    for name in ("profile", "seed", "rate", "overrides"):  # it lists those there are
        assert name in problems[0]


def test_fitting_parameters_are_let_through(tmp_path: Path) -> None:
    given = {"seed": 3, "rate": 1, "overrides": {"a": {}}}
    assert execute.check_parameters(write(tmp_path / "a.ipynb"), given) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--profile", "fast"],
        ["--seed", "-1"],
        ["--seed", "one"],
        ["--data-root", "no/such/folder"],
        ["-p", "nonsense=1"],
        ["-p", "profile"],
        ["-p", "seed=["],
        ["--jobs", "0"],
        ["--within", "0"],
        ["no_such/notebook"],
    ],
)
def test_build_refuses_before_anything_runs(tmp_path: Path, monkeypatch, arguments) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    write(tmp_path / "notebooks" / "paper" / "01_a.ipynb")
    monkeypatch.setenv("RECONRISK_ROOT", str(tmp_path))
    ran = CliRunner().invoke(book.app, ["build", *arguments])
    assert ran.exit_code == 2, ran.output
    assert isinstance(ran.exception, SystemExit)  # told, not raised
    assert not (tmp_path / "_build").exists()


@pytest.fixture()
def checkout(tmp_path: Path, monkeypatch) -> Path:
    """A small project under git, with one notebook that runs and one that fails."""
    declared = 'profile = "quick"\nseed = 0\ndevice = "cpu"\ndata_root = ""'
    folder = tmp_path / "notebooks" / "paper"
    write(
        folder / "01_good.ipynb", ("open('left_behind.txt', 'w').close()", ""), parameters=declared
    )
    write(folder / "02_bad.ipynb", ("1 / 0", "exhibit:a/b"), parameters=declared)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    monkeypatch.setenv("RECONRISK_ROOT", str(tmp_path))
    git(tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "t")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return ran.stdout


def test_a_run_leaves_the_tree_clean(checkout: Path) -> None:
    ran = CliRunner().invoke(book.app, ["build", "paper/01_good", "--seed", "3"])
    assert ran.exit_code == 0, ran.output
    executed = checkout / "_build" / "run" / "quick" / "notebooks" / "paper" / "01_good.ipynb"
    assert "seed = 3" in executed.read_text()
    assert git(checkout, "status", "--porcelain") == ""


HOLDER = """
import sys, time
from pathlib import Path
from companion.cli.book import _claim_build
with _claim_build(Path(sys.argv[1])):
    print("builds", flush=True)
    time.sleep(600)
"""


def test_two_builds_do_not_run_at_once(checkout: Path) -> None:
    """The second is refused and touches nothing; the lock of a killed process is no obstacle."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib")}
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(checkout)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert first.stdout is not None and first.stdout.readline() == "builds\n"
        kept = checkout / "_build" / "source" / "_toc.yml"
        kept.parent.mkdir()
        kept.touch()
        for command in (["html"], ["build"], ["build", "paper/01_good"], ["pdf"], ["links"]):
            ran = CliRunner().invoke(book.app, command)
            assert ran.exit_code == 1, ran.output
            assert "another companion book command runs in" in ran.output + ran.stderr
        assert kept.exists() and not (checkout / "_build" / "run").exists()
    finally:
        first.kill()
        first.communicate()
    ran = CliRunner().invoke(book.app, ["build", "paper/01_good"])
    assert ran.exit_code == 0, ran.output


def test_a_failing_notebook_fails_the_build_and_says_where(checkout: Path) -> None:
    ran = CliRunner().invoke(book.app, ["build", "paper/01_good", "paper/02_bad"])
    assert ran.exit_code == 1
    assert "paper/02_bad failed at cell 3 (a/b)" in ran.output
    assert "ZeroDivisionError: division by zero" in ran.output
    saved = checkout / "_build" / "run" / "quick" / "notebooks" / "paper" / "02_bad.ipynb"
    assert f"saved: {saved}" in ran.output
    assert saved.is_file()
    assert "paper/01_good  done" in ran.output
    assert git(checkout, "status", "--porcelain") == ""


# --- execution --------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[False, True], ids=["own", "copied"])
def run(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[execute.Outcome], str]:
    """Three notebooks, two at a time: one good, one that fails, one whose kernel dies."""
    folder = tmp_path_factory.mktemp("run")
    good = write(folder / "good.ipynb", ("import os\nprint(seed, os.getcwd())", "show"))
    bad = write(
        folder / "bad.ipynb",
        ("x = 1", ""),
        ("raise ValueError('no such luck')", "exhibit:mean_to_extreme/fig2"),
        ("y = 2", ""),
    )
    dead = write(folder / "dead.ipynb", ("import os\nos.kill(os.getpid(), 9)", "exhibit:b/c"))
    said = io.StringIO()
    outcomes = execute.execute(
        [("p/good", good), ("p/bad", bad), ("p/dead", dead)],
        folder / "out",
        {"seed": 7, "checkpoints": "somewhere"},
        jobs=2,
        copied=request.param,
        console=Console(file=said, width=200),
    )
    return outcomes, said.getvalue()


def test_what_is_too_long_is_shown_as_stored(checkout: Path, monkeypatch) -> None:
    folder = checkout / "notebooks" / "paper"
    declared = 'profile = "quick"\nseed = 0\ndevice = "cpu"\ndata_root = ""'
    (folder / "02_bad.ipynb").unlink()
    # weeks in the paper profile, by the project's costs
    long = write(folder / "03_long.ipynb", ("1 / 0", "exhibit:liu2024/table7"), parameters=declared)
    stored = checkout / "tests" / "tables" / "liu2024" / "table7"
    stored.mkdir(parents=True)
    (stored / "success.csv").write_text("n\n4\n")
    compiled = []

    def compile_book(
        project: Path, notebooks: Path, *_: object, tables: Path, **__: object
    ) -> Path:
        compiled.extend([notebooks, tables])
        return notebooks

    monkeypatch.setattr(book, "compile_book", compile_book)
    arguments = ["build", "--profile", "paper", "--within", "1"]
    ran = CliRunner().invoke(book.app, arguments)
    assert ran.exit_code == 0, ran.output
    assert "As stored: paper/03_long (46.3 days)" in ran.output
    notebooks, tables = compiled
    good = nbformat.read(notebooks / "paper" / "01_good.ipynb", as_version=4)
    assert good.cells[-1].execution_count is not None
    assert (notebooks / "paper" / "03_long.ipynb").read_text() == long.read_text()
    assert (tables / "liu2024" / "table7" / "success.csv").is_file()
    ran = CliRunner().invoke(book.app, [*arguments, "paper/03_long"])
    assert ran.exit_code == 2
    assert "--within 1 admits no notebook; one takes 46.3 days" in ran.output


def test_outcomes_come_in_order_and_failures_do_not_stop_the_others(run) -> None:
    outcomes, _ = run
    assert [o.name for o in outcomes] == ["p/good", "p/bad", "p/dead"]
    assert [o.failure is None for o in outcomes] == [True, False, False]


def test_parameters_reach_the_notebook_that_declares_them(run) -> None:
    good = nbformat.read(run[0][0].path, as_version=4)
    said = good.cells[-1].outputs[0].text
    assert said.startswith("7 ")
    assert said.strip().endswith("/out/p")  # it works beside its output, not in the checkout
    assert "checkpoints" not in "".join(c.source for c in good.cells)


def test_a_failure_is_told_by_exhibit_and_cell(run) -> None:
    failure = run[0][1].failure
    assert failure.label == "mean_to_extreme/fig2"
    assert failure.cell == 4  # parameters, those given, x = 1, this one
    assert failure.error == "ValueError: no such luck"
    assert run[0][1].path.is_file()


def test_a_dead_kernel_is_a_failure_too(run) -> None:
    failure = run[0][2].failure
    assert failure.label == "b/c"
    assert "Kernel died" in failure.error


def test_progress_names_notebook_cell_and_label(run) -> None:
    assert "p/bad  cell 4/5  mean_to_extreme/fig2" in run[1]
    assert "p/good  cell 3/3  show" in run[1]
    assert "p/bad  failed in" in run[1]
    assert "3/3 done" in run[1]


def test_progress_tells_what_is_left(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(execute.time, "monotonic", lambda: now[0])
    said = io.StringIO()
    expected = {"a": 100.0, "b": 60.0, "c": 60.0}
    progress = execute.Progress(Console(file=said, width=200), 4, expected, jobs=2)
    progress.cell("a", 1, 2, "first")
    assert "0/4 done, about 2 min left  a  cell 1/2" in said.getvalue()  # 220 s for two jobs
    progress.cell("b", 1, 1, "only")
    now[0] = 150.0
    progress.finished(execute.Outcome("a", Path("a"), 150.0))
    # half again as slow as foreseen, 30 s aside: c alone takes about 83 s
    assert "1/4 done, about 83 s left  a  done in" in said.getvalue()
    progress.finished(execute.Outcome("b", Path("b"), 150.0))
    progress.finished(execute.Outcome("c", Path("c"), 150.0))
    assert "3/4 done  c" in said.getvalue()


def test_environment_is_put_back(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    path = write(tmp_path / "a.ipynb", ("import os\nprint(os.environ['OMP_NUM_THREADS'])", ""))
    outcome = execute.execute([("a", path)], tmp_path / "out", console=Console(file=io.StringIO()))
    shown = nbformat.read(outcome[0].path, as_version=4).cells[-1].outputs[0].text
    assert int(shown) >= 1
    assert "OMP_NUM_THREADS" not in os.environ


#: by what a kernel could tell that it is a copy
TELLING = """
import companion.study, companion.exhibit
import gc, json, multiprocessing, os, pathlib, signal, sys, threading, warnings
import matplotlib.pyplot, numpy, pandas, scipy.stats, torch._dynamo
from companion import kernels
pathlib.Path("beside.py").write_text("def double(x):\\n    return 2 * x\\n")
import beside
with multiprocessing.get_context("spawn").Pool(1) as pool:
    doubled = pool.map(beside.double, [4, 9])
print(json.dumps({
    "copy": sys.orig_argv[1] == "-c", "arguments": sys.argv[:2],
    "path": sys.path, "flags": str(sys.flags),
    "environment": {k: v for k, v in os.environ.items() if k != "JPY_PARENT_PID"},
    "parent": os.environ["JPY_PARENT_PID"] == str(os.getppid()),
    "handlers": [str(signal.getsignal(s)) for s in (signal.SIGCHLD, signal.SIGINT)],
    "leads": [os.getpid() == os.getpgrp() == os.getsid(0), os.getcwd()],
    "threads": sorted(thread.name for thread in threading.enumerate()),
    "collects": [gc.isenabled(), gc.get_threshold()],
    "warns": sorted(str(one) for one in warnings.filters),
    "shows": [matplotlib.get_backend(), matplotlib.rcParams["figure.dpi"]],
    "tables": [pandas.get_option("display.max_columns"), str(numpy.geterr())],
    "main": sorted(vars(sys.modules["__main__"])),
    "torch": [torch.get_num_threads(), str(torch.get_default_dtype()), len(kernels._registered)],
    "modules": sorted(set(sys.modules) - {"companion.book", "companion.book.copied_kernels"}),
    "doubled": doubled,
}))
print(numpy.random.rand(), torch.rand(1).item(), file=sys.stderr)
"""


@linux
def test_a_copied_kernel_is_like_one_of_its_own(tmp_path: Path) -> None:
    """But for its own process, parent and random numbers; and no two draw the same."""
    path = write(tmp_path / "a.ipynb", (TELLING, ""))
    told, drawn = [], []
    for copied, names in ((False, "a"), (True, "bc")):
        quiet = Console(file=io.StringIO())
        outcomes = execute.execute(
            [(name, path) for name in names], tmp_path / "out", copied=copied, console=quiet
        )
        for outcome in outcomes:
            assert outcome.failure is None, outcome.failure
            outputs = nbformat.read(outcome.path, as_version=4).cells[-1].outputs
            said = {
                stream: "".join(o.text for o in outputs if o.name == stream)
                for stream in ("stdout", "stderr")
            }
            told.append(json.loads(said["stdout"]))
            assert told[-1].pop("copy") == copied
            drawn += said["stderr"].splitlines()[-1].split()
    assert told[0] == told[1] == told[2]
    assert told[0]["parent"] and told[0]["leads"][0] and told[0]["doubled"] == [8, 18]
    assert told[0]["torch"][2] == 1 and told[0]["tables"][0] == 20
    assert len(set(drawn)) == 6


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_copies_end_with_the_build(tmp_path: Path, number: int) -> None:
    """Killed while a kernel runs, or interrupted while the copied process imports."""
    told, kernels = tmp_path / "told", number == signal.SIGKILL
    cell = f"import time\nopen({str(told)!r}, 'w').close()\ntime.sleep(120)"
    path = write(tmp_path / "a.ipynb", (cell, ""))
    code = f"""
        import pathlib, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what runs unattended
        from companion.book.execute import execute
        given = [("a", pathlib.Path({str(path)!r}))]
        execute(given, pathlib.Path({str(tmp_path / "out")!r}), copied=True)
    """
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], **quiet) as build:
        try:
            begun = psutil.Process(build.pid)
            wait_until(told.is_file if kernels else lambda: imports(begun))
            left = [one.pid for one in begun.children(recursive=True)]
            assert len(left) == 1 + kernels
            build.send_signal(number)
            build.wait(20)
        finally:
            build.kill()
    wait_until(lambda: not any(map(runs, left)), 20)
    assert told.exists() == kernels


@linux
def test_processes_that_draw_end_with_the_build(tmp_path: Path) -> None:
    call = f"import os, time; open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w'); time.sleep(120)"
    code = f"from companion.book.figures import call_each; call_each(exec, [({call!r},)] * 2, 2)"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as build:
        try:
            wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        finally:
            build.kill()
    left = [int(path.name) for path in tmp_path.iterdir()]
    wait_until(lambda: not any(map(runs, left)), 20)


@linux
def test_kernels_are_their_own_where_nothing_can_be_copied(tmp_path: Path, monkeypatch) -> None:
    path = write(tmp_path / "a.ipynb", ("import sys\nprint(sys.orig_argv[1])", ""))

    def started_with() -> str:
        quiet = Console(file=io.StringIO())
        outcome = execute.execute([("a", path)], tmp_path / "out", copied=True, console=quiet)[0]
        assert outcome.failure is None, outcome.failure
        return nbformat.read(outcome.path, as_version=4).cells[-1].outputs[0].text.strip()

    with monkeypatch.context() as patched:
        patched.setattr(copied_kernels, "__name__", "nowhere")  # the process ends before it serves
        assert started_with() == "-m"
    monkeypatch.delattr(os, "pidfd_open")
    assert started_with() == "-m"


def imports(build: psutil.Process) -> bool:
    """Whether the copied process is at PyTorch: by then something would ask for kernels."""
    return sum(one.memory_info().rss for one in build.children()) > 150e6


def runs(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has asked for its status has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize(
    ("source", "tags", "label"),
    [
        ("x = 1", ["exhibit:a/b", "other"], "a/b"),
        ("x = 1", ["other", "exhibit:a/b"], "a/b"),
        ("x = 1", ["setup"], "setup"),
        ("x = 1", ["hide-input", "setup"], "setup"),
        ("x = 1", ["hide-cell"], "x = 1"),
        ("\n  import   numpy as np\nx", [], "import numpy as np"),
        ("", [], "(empty)"),
    ],
)
def test_labels(source: str, tags: list[str], label: str) -> None:
    assert execute.label_of(new_code_cell(source, metadata={"tags": tags})) == label


# --- storing ----------------------------------------------------------------------------------


def test_stored_outputs_carry_nothing_of_the_run(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text(
        "# %% [markdown]\n# # T\n\n# %% tags=['parameters']\nseed = 0\n\n# %%\nseed\n"
    )
    source = refresh.source_of(script)
    path = tmp_path / "a.ipynb"
    nbformat.write(source, path)
    cleaned = []
    for folder in ("one", "two"):
        quiet = Console(file=io.StringIO())
        outcome = execute.execute([("a", path)], tmp_path / folder, console=quiet)[0]
        executed = nbformat.read(outcome.path, as_version=4)
        cleaned.append(refresh.clean(executed, source))
    first = cleaned[0]
    assert cleaned[0] == cleaned[1]
    assert [c.get("execution_count") for c in first.cells] == [None, 1, 2]
    assert first.cells[-1].outputs[0].data["text/plain"] == "0"
    assert first.metadata == refresh.METADATA
    assert all(set(c.metadata) <= {"tags"} for c in first.cells)
    nbformat.validate(first)


def test_pieces_of_one_stream_are_joined() -> None:
    source = new_notebook(cells=[new_code_cell("f()")])
    executed = new_notebook(cells=[new_code_cell("f()", execution_count=1)])
    executed.cells[0].outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=t) for t in ("a\n", "b\n")
    ] + [nbformat.v4.new_output("stream", name="stderr", text="c\n")]
    outputs = refresh.clean(executed, source).cells[0].outputs
    assert [(o.name, o.text) for o in outputs] == [("stdout", "a\nb\n"), ("stderr", "c\n")]
    assert len(executed.cells[0].outputs) == 3  # its input is left alone


def test_cells_out_of_order_are_not_stored() -> None:
    source = new_notebook(cells=[new_code_cell("a"), new_code_cell("b")])
    executed = new_notebook(cells=[new_code_cell("a"), new_code_cell("b")])
    executed.cells[0].execution_count, executed.cells[1].execution_count = 2, 1
    with pytest.raises(ValueError, match="order"):
        refresh.clean(executed, source)


# --- dressing ---------------------------------------------------------------------------------


def result(exhibit: str, status: str = "reproduced") -> dict:
    verdict = {"target": exhibit, "status": status, "statement": "s", "ours": "1", "paper": "1"}
    return {
        "exhibit": exhibit,
        "profile": "quick",
        "seed": 0,
        "settings": {},
        "ran": "something on <data> with a_name",
        "status": status,
        "verdicts": [verdict | {"tolerance": "", "why": ""}],
        "digests": {},
        "caption": "What it shows: $x_1$.",
        "alt": "A curve\nthat rises.",
    }


def picture() -> str:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (40, 30), "white").save(stream, format="png")
    return base64.b64encode(stream.getvalue()).decode()


@pytest.fixture()
def dressed(tmp_path: Path, monkeypatch) -> nbformat.NotebookNode:
    monkeypatch.setattr(stage, "find_exhibit", _pending)
    ids = ("mean_to_extreme/fig1", "mean_to_extreme/prop1")
    path = write(tmp_path / "mean_to_extreme" / "01_a.ipynb", *[("1", f"exhibit:{i}") for i in ids])
    notebook = nbformat.read(path, as_version=4)
    for cell, exhibit in zip(notebook.cells[2:], ids, strict=True):
        shown = {"text/plain": "r", RESULT_MIME: result(exhibit)}
        cell.outputs = [nbformat.v4.new_output("display_data", data=shown)]
        if "fig" in exhibit:
            data = {"image/png": picture(), "text/plain": "<Figure>"}
            cell.outputs.insert(0, nbformat.v4.new_output("display_data", data=data))
    nbformat.write(notebook, path)
    where = stage.Addresses("https://example.org/us/it", "trunk", "https://hub.example.org")
    return stage.decorate_notebook(notebook, gallery(tmp_path), where, ROOT)


def _pending(exhibit: str):
    raise KeyError(exhibit)


def test_papers_addresses_come_from_the_bibliography(tmp_path: Path) -> None:
    """The published version before the preprint; none for a paper without an entry."""
    assert sources.address("hayes2023").startswith("https://papers.nips.cc/")
    assert sources.address("beyond") == sources.linked_place("beyond", "Figure 1") == ""
    entries = "@misc{a, eprint = {1}, doi = {10.1/b}}\n@misc{c, title = {d}}\n"
    (tmp_path / "some.bib").write_text(entries)
    assert sources.address("a", tmp_path / "some.bib") == "https://doi.org/10.1/b"
    assert sources.address("c", tmp_path / "some.bib") == ""
    assert sources.address("a", tmp_path / "none.bib") == ""


def test_every_exhibit_gets_its_anchors_and_its_command(dressed) -> None:
    text = "\n\n".join(c.source for c in dressed.cells if c.cell_type == "markdown")
    for anchor in ("fig1", "fig1_left", "fig1_middle", "fig1_right", "prop1"):
        assert f"(exhibit-mean_to_extreme-{anchor})=" in text
    assert "**Figure 1. " in text
    assert f"[Paper A, Proposition 1]({sources.address('mean_to_extreme')})" in text
    assert "companion run mean_to_extreme/prop1 --profile quick --seed 0" in text
    assert '<span class="verdict verdict-reproduced">' in text


def test_pictures_get_caption_name_and_alternative_text(dressed) -> None:
    cell = next(c for c in dressed.cells if "mystnb" in c.metadata)
    figure = cell.metadata["mystnb"]["figure"]
    assert figure["name"] == "fig-mean_to_extreme-fig1"
    assert figure["caption"] == (
        r"What it shows: $x_1$. Run here: something on \<data\> with a\_name."
    )
    assert cell.metadata["mystnb"]["image"]["alt"] == "A curve that rises."
    assert [list(o.data) for o in cell.outputs] == [["image/png", "text/plain"]]
    after = dressed.cells[dressed.cells.index(cell) + 1]
    assert [list(o.data) for o in after.outputs] == [["text/plain"]]


def test_vectors_take_the_place_of_a_picture_and_keep_its_caption(dressed, tmp_path) -> None:
    notebook = nbformat.read(tmp_path / "mean_to_extreme" / "01_a.ipynb", as_version=4)
    (tmp_path / "figure.svg").write_text("<svg/>", encoding="utf-8")
    files = downloads.Files({"mean_to_extreme/fig1": {"svg": tmp_path / "figure.svg"}})
    where = stage.Addresses("u", "b", "h")
    again = stage.decorate_notebook(notebook, gallery(tmp_path), where, ROOT, files)
    cell = next(c for c in again.cells if "mystnb" in c.metadata)
    assert [set(o.data) for o in cell.outputs] == [{"image/svg+xml", "text/plain"}]
    assert cell.metadata["mystnb"]["figure"]["caption"].startswith("What it shows")


def test_dressed_notebooks_are_valid_and_setup_is_folded(dressed) -> None:
    nbformat.validate(dressed)
    setup = next(c for c in dressed.cells if "parameters" in c.metadata.get("tags", []))
    assert "hide-input" in setup.metadata["tags"]
    assert RESULT_MIME not in nbformat.writes(dressed)


def test_parameters_of_another_run_are_named(dressed) -> None:
    injected = nbformat.v4.new_code_cell("profile = 'paper'")
    injected.metadata["tags"] = ["injected-parameters"]
    notebook = nbformat.v4.new_notebook(cells=[injected])
    cell = stage.decorate_notebook(
        notebook, Gallery({}), stage.Addresses("u", "b", "h"), ROOT
    ).cells[0]
    assert cell.metadata["mystnb"]["code_prompt_show"] == "Parameters of this run"
    assert "hide-input" in cell.metadata["tags"]


def test_a_picture_that_nothing_describes_is_an_error(dressed, tmp_path) -> None:
    path = tmp_path / "mean_to_extreme" / "01_a.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for output in notebook.cells[2].outputs:
        output["data"].get(RESULT_MIME, {}).pop("alt", None)
    nbformat.write(notebook, path)
    where = stage.Addresses("u", "b", "h")
    with pytest.raises(KeyError, match="alt"):
        stage.decorate_notebook(notebook, gallery(tmp_path), where, ROOT)


def test_a_cell_whose_verdict_failed_keeps_its_picture_and_its_error(dressed, tmp_path) -> None:
    path = tmp_path / "mean_to_extreme" / "01_a.ipynb"
    notebook = nbformat.read(path, as_version=4)
    error = nbformat.v4.new_output("error", ename="VerdictError", evalue="less: does not hold")
    notebook.cells[2].outputs[1] = error
    nbformat.write(notebook, path)
    where = stage.Addresses("u", "b", "h")
    again = stage.decorate_notebook(notebook, gallery(tmp_path), where, ROOT)
    cell = next(c for c in again.cells if "error" in [o.output_type for o in c.get("outputs", ())])
    assert "image/png" in cell.outputs[0].data and "mystnb" not in cell.metadata


def test_a_picture_after_the_recorded_one_is_folded_and_has_no_caption_twice() -> None:
    data = {"image/png": picture(), "text/plain": "<Figure>"}
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data=data)])
    shown = Shown("mean_to_extreme/fig1", "notebooks/a", result("mean_to_extreme/fig1"), b"png")
    stage._captioned(cell, shown, second=True)
    assert "hide-output" in cell.metadata["tags"]
    assert cell.metadata["mystnb"]["code_prompt_show"] == "Quick run"
    said = cell.metadata["mystnb"]["figure"]["caption"]
    assert said.startswith("The quick run of the same. Run here:") and "What it shows" not in said


def test_the_head_names_what_its_folds_hold_against_it() -> None:
    content = result("mean_to_extreme/fig1")
    content["verdicts"] += [
        content["verdicts"][0] | {"target": "A-001", "status": "refuted"},
        content["verdicts"][0] | {"target": "mean_to_extreme/fig1_left", "status": "not decided"},
        content["verdicts"][0] | {"target": "A-002", "status": "reproduced"},
    ]
    shown = Shown("mean_to_extreme/fig1", "notebooks/a", content, None)
    said = stage._contrary(shown, Gallery({"mean_to_extreme/fig1": shown}))
    assert "refuted</span> {ref}`A-001 <claim-a-001>`" in said
    assert "not decided</span>" in said and "A-002" not in said


def test_a_long_table_shows_its_first_rows_and_folds_the_whole() -> None:
    def table(rows: int) -> str:
        body = "".join(f"<tr><td>{i}</td></tr>" for i in range(rows))
        return f"<table><thead><tr><th>n</th></tr></thead><tbody>{body}</tbody></table>"

    assert stage.shortened(table(10)) == table(10)
    in_sight, _, folded = stage.shortened(table(50)).partition("<details")
    assert in_sight.count("<td>") == 10 and folded.count("<td>") == 50
    assert "All 50 rows" in folded


@pytest.mark.parametrize("status", ["reproduced", "differs"])
def test_verdicts_fold_below_their_count(status) -> None:
    content = result("mean_to_extreme/prop1", status)
    page = f'<div class="verdicts">{status}</div>'
    data = {"text/html": page, "text/plain": "r"}
    cell = nbformat.v4.new_code_cell(
        outputs=[nbformat.v4.new_output("execute_result", data=data, execution_count=1)]
    )
    stage._fold_outputs(cell, Shown("mean_to_extreme/prop1", "notebooks/a", content, None))
    (output,) = cell.outputs
    folded = f'<details class="exhibit-verdicts"><summary>Checks: 1 {status}</summary>{page}'
    assert output.data["text/html"].startswith(folded) and "text/plain" not in output.data


def test_one_exhibit_in_two_notebooks_is_an_error(tmp_path: Path) -> None:
    for name in ("01_a", "02_b"):
        write(tmp_path / "p" / f"{name}.ipynb", ("1", "exhibit:mean_to_extreme/fig1"))
    with pytest.raises(ValueError, match="shown twice"):
        gallery(tmp_path)


def test_addresses_follow_the_environment() -> None:
    config = {
        "repository": {"url": "https://a", "branch": "main"},
        "launch_buttons": {"jupyterhub_url": "https://h"},
    }
    assert stage.addresses(config, {}) == stage.Addresses("https://a", "main", "https://h")
    fork = {"BOOK_REPOSITORY_URL": "https://b", "BOOK_BRANCH": "x", "BOOK_HUB_URL": ""}
    assert stage.addresses(config, fork) == stage.Addresses("https://b", "x", "https://h")
    assert stage.addresses(config | {"launch_buttons": {}}, {}).hub == ""
    assert stage.addresses(config, fork).source("a.py") == "https://b/blob/x/a.py"


# --- Markdown ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        r"a_b*c* `d` $e$ {f} [g](h) <i> |j| \k ~l~ #m ^n^ &amp; {{o}}",
        "1. not a list",
        "- not a list",
        "+ not a list",
        "# no heading",
        "> no quotation",
        "```no code",
        ":::{note}",
        "||X||_2^2 >= sigma^2 (1 - 1/|D|)^(K-k)",
    ],
)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    """CommonMark renders it as one paragraph with exactly that text."""
    import html
    import re

    from markdown_it import MarkdownIt

    rendered = MarkdownIt("commonmark").render(markdown.escape(text))
    inner = re.fullmatch(r"<p>(.*)</p>\n", rendered, re.S)
    assert inner is not None, rendered
    assert html.unescape(inner[1]) == typeset(text)  # signs for words, nothing else


def test_slugs() -> None:
    assert markdown.anchor("erratum", "E-A-01") == "erratum-e-a-01"
    assert "verdict-holds-on-stand-in-data" in markdown.badge("holds on stand-in data")


def test_list_table_keeps_cells_together() -> None:
    table = markdown.list_table(("A", "B"), [("x\n\ny", "")], widths=(1, 2), classes="c")
    assert "* - x\n\n    y\n  - \n" in table
    assert table.startswith(":::{list-table}") and table.endswith(":::\n")


# Links in code ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linked_names():
    path = ROOT / "book" / "_ext" / "linked_names.py"
    spec = importlib.util.spec_from_file_location("linked_names", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_imports_are_read_without_running_them(linked_names):
    code = (
        "%matplotlib inline\nimport numpy as np\nimport os.path\nfrom reconrisk import bounds as b"
    )
    assert linked_names.imports_of(code) == {"np": "numpy", "os": "os", "b": "reconrisk.bounds"}
    assert linked_names.imports_of("this is no Python") == {}


def test_names_become_links_and_attributes_and_keywords_do_not(linked_names):
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    code = "x = bounds.rero(run, rero=1).upper + other.rero + rero(bounds.rero.cache)"
    html = highlight(code, PythonLexer(), HtmlFormatter())
    found = linked_names.linked(html, {"bounds.rero": "api.html#a", "rero": "api.html#b"})
    soup = BeautifulSoup(found, "html.parser")
    assert soup.get_text() == BeautifulSoup(html, "html.parser").get_text()
    assert [(a["href"], a.get_text()) for a in soup.find_all("a")] == [
        ("api.html#a", "bounds.rero"),
        ("api.html#b", "rero"),
        ("api.html#a", "bounds.rero"),
    ]


def test_the_companions_own_names_lead_to_their_lines(linked_names):
    file, line = linked_names.defined_in("companion.study.verdicts.check")
    assert file == "lib/companion/study/verdicts.py"
    assert (ROOT / file).read_text().splitlines()[line - 1].startswith("def check(")
    assert linked_names.defined_in("companion.study.verdicts") == (file, 1)
    assert linked_names.defined_in("companion.study.verdicts.STATUSES")[0] == file
    assert linked_names.defined_in("companion.study.verdicts.nothing") is None
    assert linked_names.defined_in("numpy.mean") is None


def test_stand_ins_are_counted_from_the_stored_results() -> None:
    def shown(name: str, statuses: list[str], stand_ins: list[str]) -> Shown:
        verdicts = [Verdict(f"mean_to_extreme/{name}", s, "").as_dict() for s in statuses]
        result = {"verdicts": verdicts, "stand_ins": stand_ins}
        return Shown(f"mean_to_extreme/{name}", "notebooks/a", result, None)

    held = ["holds on stand-in data", "reproduced"]
    untrained = "untrained-AlexNet distance"
    cells = [shown("fig4", held, [untrained, "data = x"]), shown("fig5", ["reproduced"], [])]
    text = pages._stand_ins(Gallery({cell.exhibit: cell for cell in cells}))
    assert "1 of the 3 verdicts" in text and "counts for 1 of 2 exhibits, claims" in text
    assert "with a stand-in: 1" in text
    assert "untrained-AlexNet distance; data = x\n  - 1 of 2\n  - none" in text
    assert "fig5" not in text
    # the reason with its count, and the verdict by name
    for name in (untrained, "data = x"):
        kind = registry.stand_in(name)
        assert f"* - {kind.what}\n" in text and f"{kind.why}\n  - {kind.lifted_by}\n  - 1\n" in text
    figure = f"Figure 4 ({registry.PAPERS['mean_to_extreme']})"
    assert f"* - {{ref}}`{figure} <exhibit-mean_to_extreme-fig4>`\n  - the whole\n" in text


def test_what_had_to_be_chosen_is_named_below_the_parameters():
    from companion.book.stage import _choices
    from companion.study import find_exhibit

    words = _choices(find_exhibit("mean_to_extreme/fig4"))
    assert words.startswith("Chosen, not printed: noise") and words.count("\n") == 1
    assert _choices(find_exhibit("mean_to_extreme/fig5")) == ""
