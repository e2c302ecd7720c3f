"""``companion book``: run the notebooks, store their outputs, compile the book."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import nbformat
import typer
import yaml
from filelock import FileLock, Timeout
from rich.console import Console

from companion.book.execute import Outcome, check_parameters, execute, notebooks_of
from companion.book.refresh import judge_again, measure_spread, refresh_notebooks, tables_kept
from companion.book.stage import stage
from companion.study import registry
from companion.study.cluster import serve_children
from companion.study.progress import duration
from companion.study.records import FOLDER
from companion.study.running import Study
from companion.study.stored import exhibit_cells, read_provenances
from companion.study.tasks import ClusterError
from reconrisk.cli.console import FAILED, fail, usage_errors

app = typer.Typer(help="Run the notebooks and compile the book.", no_args_is_help=True)

Jobs = Annotated[int, typer.Option(min=1, help="Notebooks at a time.")]
Draw = Annotated[int, typer.Option("--jobs", min=1, help="Figures drawn at a time.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        help="A Dask cluster that all notebooks' sweeps share: tcp://HOST:PORT, local:N for N "
        "workers here, or a scheduler file; by default what RECONRISK_SCHEDULER says.",
    ),
]
Only = Annotated[list[str] | None, typer.Argument(help="Notebooks, paper/NN_topic; all if none.")]


@app.command()
def build(
    only: Only = None,
    profile: Annotated[str, typer.Option(help="quick or paper.")] = "quick",
    seed: Annotated[int, typer.Option(help="Every random number derives from it.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:0.")] = "cpu",
    data_root: Annotated[str, typer.Option(help="Folder with the papers' data sets.")] = "",
    jobs: Jobs = 2,
    scheduler: Scheduler = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="Any other one, NAME=VALUE.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS",
            help="Run the notebooks that take at most so many hours each; the book shows the "
            "others as they are stored.",
        ),
    ] = None,
) -> None:
    """Run the notebooks in a profile and compile the book from their outputs."""
    project = registry.project_root()
    console = _console()
    with usage_errors():
        parameters = {
            "profile": profile,
            "seed": seed,
            "device": device,
            "data_root": str(Path(data_root).resolve()) if data_root else "",
            **_assignments(parameter or []),
        }
        choices = {k: v for k, v in parameters.items() if k in Study.__dataclass_fields__}
        cluster = Study(**{"scheduler": scheduler, **choices}).cluster
        notebooks = _chosen(project, only)
        seconds = _expected(notebooks, profile)
        notebooks, left = _affordable(notebooks, seconds, within)
        _refuse(notebooks, parameters)
    build_folder = project / "_build"
    if profile == "paper" and "checkpoints" not in parameters:
        checkpoints = build_folder / "checkpoints" / profile
        checkpoints.mkdir(parents=True, exist_ok=True)
        parameters["checkpoints"] = str(checkpoints)  # for the notebooks that declare it

    if left:
        longest = ", ".join(f"{name} ({duration(seconds[name])})" for name, _ in left)
        console.print(f"As stored: {longest}")
    known = sum(seconds.get(name, 0.0) for name, _ in notebooks) / jobs
    after = "" if only else "; then figures and pages, about 4 min on two cores"
    console.print(
        f"{len(notebooks)} notebooks: about {duration(known)} on a machine like that which stored "
        f"them, more if it is busy{after}"
    )
    run = build_folder / "run" / profile / "notebooks"
    tables = run.with_name("tables")
    with _claim_build(project):
        with usage_errors(kinds=(ClusterError,)), serve_children(cluster), tables_kept(tables):
            outcomes = execute(
                notebooks,
                run,
                parameters,
                jobs=jobs,
                copied=parameters["device"] == "cpu" and len(notebooks) > jobs,
                console=console,
                expected={name: seconds[name] for name, _ in notebooks if name in seconds},
            )
        failed = _report_failures(console, outcomes)
        if only:  # the book needs all notebooks
            _closing(console, f"Executed notebooks: {run}", failed)
        for name, path in left:
            _carry_over(project, path, run / f"{name}.ipynb", tables)
        page = compile_book(project, run, console, tables=tables, jobs=jobs)
    _closing(console, f"Open {page}" if page else "", failed or page is None)


@app.command()
def html(jobs: Draw = 2) -> None:
    """Compile the book from the outputs stored in the notebooks; run nothing."""
    project = registry.project_root()
    console = _console()
    with _claim_build(project):
        page = compile_book(project, project / "notebooks", console, jobs=jobs)
    _closing(console, f"Open {page}" if page else "", page is None)


@app.command()
def pdf(
    as_built: Annotated[
        bool, typer.Option(help="Print the pages in _build/html; compile nothing.")
    ] = False,
    jobs: Draw = 2,
) -> None:
    """Print the book to a PDF, and the tour to one of slides, by default after compiling it."""
    from companion.book import printed

    project = registry.project_root()
    console = _console()
    target = project / "_build" / "reconstruction-risk.pdf"
    with usage_errors(), _claim_build(project):
        printed.find_chromium()
        fresh = not as_built
        if fresh and compile_book(project, project / "notebooks", console, jobs=jobs) is None:
            raise typer.Exit(FAILED)
        console.print("Printing the book")
        pages = project / "_build" / "html"
        printed.print_book(pages, project / "_toc.yml", target)
        printed.print_slides(pages, "book/tour", target.with_name(f"{target.stem}-slides.pdf"))
    size = target.stat().st_size / 1e6
    _closing(console, f"Open {target} ({size:.0f} MB)", False)


@app.command()
def refresh(
    only: Only = None,
    jobs: Jobs = 2,
    scheduler: Scheduler = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge stored tables; run nothing.")
    ] = False,
) -> None:
    """Run the notebooks with their own parameters and store the outputs in them."""
    project = registry.project_root()
    console = _console()
    with usage_errors():
        names = [name for name, _ in _chosen(project, only, suffix=".py")]
        cluster = Study(scheduler=scheduler).cluster
    if judge:
        with _claim_build(project):
            changed = judge_again(project, names)
        _closing(console, f"{len(changed)} of {len(names)} notebooks changed.", failed=False)
        return
    faults = usage_errors(kinds=(ClusterError, ValueError))
    with _claim_build(project), faults, serve_children(cluster):
        outcomes, changed = refresh_notebooks(project, names, jobs=jobs, console=console)
    failed = _report_failures(console, outcomes)
    what = f"{len(changed)} of {len(names)} notebooks changed: {', '.join(changed) or 'none'}"
    _closing(console, what, failed)


@app.command()
def spread(only: Only = None, jobs: Jobs = 2) -> None:
    """Run the notebooks with other kernels and store how far their tables are off."""
    project = registry.project_root()
    console = Console()
    with usage_errors():
        names = [name for name, _ in _chosen(project, only, suffix=".py")]
    with _claim_build(project):
        outcomes, moved, faults = measure_spread(project, names, jobs=jobs, console=console)
    failed = _report_failures(console, outcomes) or bool(faults)
    for fault in faults:
        console.print(fault, style="red", markup=False, highlight=False, soft_wrap=True)
    _closing(console, f"Other kernels move the tables of {len(moved)} exhibits.", failed)


@app.command()
def links() -> None:
    """Look up every address outside the book (needs the network)."""
    project = registry.project_root()
    console = _console()
    folder = project / "_build" / "links"
    with _claim_build(project):
        report = compile_book(project, project / "notebooks", console, folder, "linkcheck")
    _closing(console, "Every address answers." if report else "", report is None)


def compile_book(
    project: Path,
    notebooks: Path,
    console: Console,
    folder: Path | None = None,
    builder: str = "html",
    tables: Path | None = None,
    jobs: int = 2,
) -> Path | None:
    """Stage and compile the book; return its first page, or None if it has a fault.

    Parameters
    ----------
    project, notebooks : Path
        The checkout, and the folder with the executed notebooks.
    console : Console
        Where progress and faults are printed.
    folder : Path, optional
        Folder whose ``_build`` receives the staged source, the log and the pages (``html``); by
        default the project.
    builder : {"html", "linkcheck"}
        Pages, or a report on the addresses outside the book.
    tables, jobs
        As of :func:`companion.book.stage.stage`.
    """
    folder = folder or project
    source = folder / "_build" / "source"
    with _telling(console, "Staging the book"):
        stage(project, notebooks, source, tables, jobs)
    log = folder / "_build" / "book.log"
    with _telling(console, "Compiling the book"), log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(
            # Jupyter Book of this environment; -n: every reference must resolve; -W: a warning is
            # a fault
            [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
            + ["build", ".", "--path-output", str(folder), "-n", "-W"]
            + ["--keep-going", "-q", "--builder", builder],
            cwd=source,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": _python_path()},
            check=False,
        )
    first = {"html": "index.html", "linkcheck": "output.txt"}[builder]
    page = folder / "_build" / "html" / first
    if builder == "html" and page.is_file():
        _offer_originals(notebooks, page.parent)
    if done.returncode == 0 and page.is_file():
        return page
    console.print(f"The book has faults ({log}):", style="red")
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8"))  # Sphinx's colours
    lines = [line for line in text.splitlines() if line.strip()]
    faults = [line for line in lines if "WARNING" in line or "ERROR" in line] or lines[-15:]
    for line in faults:
        console.print(f"  {line}")
    return None


def _offer_originals(notebooks: Path, pages: Path) -> None:
    """Let the download buttons serve the original notebooks, not the dressed ones."""
    skipped = shutil.ignore_patterns("*.py", "*.log", ".ipynb_checkpoints")
    target = pages / "_sources" / "notebooks"
    shutil.copytree(notebooks, target, ignore=skipped, dirs_exist_ok=True)


def _python_path() -> str:
    """Return the path with the library's folder first: API pages import it, installed or not."""
    library = Path(__file__).resolve().parents[2]
    return os.pathsep.join(filter(None, [str(library), os.environ.get("PYTHONPATH", "")]))


# --- helpers ----------------------------------------------------------------------------------


@contextmanager
def _claim_build(project: Path) -> Iterator[None]:
    """Refuse to start where another command builds: each empties folders that the other fills.

    The system takes the lock from a process that ends, however it ends.
    """
    folder = project / "_build"
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / "build.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise fail(f"another companion book command runs in {project}", FAILED) from None
    try:
        yield
    finally:
        lock.release()


def _console() -> Console:
    """Return a console that prints texts as they are."""
    return Console(markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _telling(console: Console, step: str) -> Iterator[None]:
    """Say what is done, and every minute for how long."""
    console.print(step)
    over = threading.Event()

    def tell() -> None:
        minutes = 0
        while not over.wait(60):
            minutes += 1
            console.print(f"{step}: {minutes} min")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _chosen(
    project: Path, only: Sequence[str] | None, suffix: str = ".ipynb"
) -> list[tuple[str, Path]]:
    folder = project / "notebooks"
    found = notebooks_of(folder, suffix)
    every = {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}
    unknown = [name for name in only or [] if name not in every]
    if unknown or not every:
        raise KeyError(f"no notebook {', '.join(unknown)}; there are: {', '.join(every) or 'none'}")
    chosen = [(name, path) for name, path in every.items() if not only or name in only]
    # the longest first, by stored durations: shorter ones fill the remaining time
    return sorted(chosen, key=lambda item: -_seconds(folder / f"{item[0]}.ipynb"))


def _seconds(notebook: Path) -> float:
    """Return the stored seconds of a notebook's exhibits; 0 if they cannot be read."""
    with suppress(OSError, ValueError):
        stored = read_provenances(notebook.parents[2], nbformat.read(notebook, as_version=4))
        return sum(run.seconds or 0.0 for run in stored.values())
    return 0.0


def _expected(notebooks: Sequence[tuple[str, Path]], profile: str) -> dict[str, float]:
    """Return the seconds that notebooks are likely to take, where known."""
    if profile != "paper":
        seconds = {name: _seconds(path) for name, path in notebooks}
    else:
        costs = registry.costs()
        seconds = {
            name: sum(
                float(costs[exhibit].seconds)
                for exhibit in exhibit_cells(nbformat.read(path, as_version=4))
                if exhibit in costs
            )
            for name, path in notebooks
        }
    return {name: value for name, value in seconds.items() if value}


def _affordable(
    notebooks: Sequence[tuple[str, Path]], seconds: Mapping[str, float], hours: float | None
) -> tuple[list[tuple[str, Path]], list[tuple[str, Path]]]:
    """Divide notebooks into those that take at most so many hours each and the others."""
    if hours is None:
        return list(notebooks), []
    if not hours > 0:
        raise ValueError(f"--within must be a number of hours above 0; got {hours:g}")
    fits = [one for one in notebooks if seconds.get(one[0], 0.0) <= 3600 * hours]
    if not fits:
        least = min(seconds.values())
        raise ValueError(f"--within {hours:g} admits no notebook; one takes {duration(least)}")
    return fits, [one for one in notebooks if one not in fits]


def _carry_over(project: Path, stored: Path, target: Path, tables: Path) -> None:
    """Put a stored notebook and the tables behind it among those of a run."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(stored, target)
    for exhibit in exhibit_cells(nbformat.read(stored, as_version=4)):
        shutil.copytree(project / FOLDER / exhibit, tables / exhibit, dirs_exist_ok=True)


def _assignments(texts: Sequence[str]) -> dict[str, Any]:
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"a parameter is given as NAME=VALUE; got {text!r}")
        try:
            values[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"{name.strip()} must be a value in YAML; got {value!r}") from error
    return values


def _refuse(notebooks: Sequence[tuple[str, Path]], parameters: Mapping[str, Any]) -> None:
    """Raise with every unknown or mistyped parameter before anything runs."""
    problems = [
        f"{name}: {problem}"
        for name, path in notebooks
        for problem in check_parameters(path, parameters)
    ]
    if problems:
        raise ValueError("\n".join(problems))


def _report_failures(console: Console, outcomes: Sequence[Outcome]) -> bool:
    failed = [(o, o.failure) for o in outcomes if o.failure is not None]
    for outcome, failure in failed:
        where = f"cell {failure.cell} ({failure.label})" if failure.cell else "its start"
        console.print(
            f"\n{outcome.name} failed at {where}:\n  {failure.error}\n  saved: {outcome.path}",
            style="red",
        )
    return bool(failed)


def _closing(console: Console, message: str, failed: bool) -> None:
    if message:
        console.print(message)
    raise typer.Exit(FAILED if failed else 0)
