"""Run notebooks through papermill, several at a time, and show their progress.

Papermill writes the executed notebook to disk after every cell, so that a failed one can be
inspected. This module adds errors for unknown and mistyped parameters, a line for each cell that
starts, and the exhibit and cell of a failure.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import nbformat
import papermill
from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_core.utils import ensure_event_loop
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from rich.console import Console

from companion.book.copied_kernels import copied_kernels
from companion.kernels import KERNELS
from companion.study.progress import Row, Work, about_left, show_rows
from companion.study.stored import EXHIBIT_TAG

__all__ = [
    "Failure",
    "Outcome",
    "Progress",
    "check_parameters",
    "declared_parameters",
    "execute",
    "label_of",
    "notebooks_of",
]

#: prefixes of tags that set how a cell is shown or compared.
_DISPLAY_TAGS = ("hide-", "remove-", "nbval-")

ENGINE = "reconrisk"

#: environment variables of libraries that start one thread per core by default.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Failure:
    """Where a notebook stopped: the code cell's number (from 1), its label, the error."""

    cell: int
    label: str
    error: str


@dataclass(frozen=True)
class Outcome:
    """One notebook's run: its name (``paper/NN_topic``), the saved file, seconds, any failure."""

    name: str
    path: Path
    seconds: float
    failure: Failure | None = None


def notebooks_of(folder: Path, suffix: str = ".ipynb") -> list[Path]:
    """Return every ``<paper>/NN_topic`` notebook (or ``.py`` source) below a folder, sorted."""
    return sorted(p for p in folder.rglob(f"*{suffix}") if ".ipynb_checkpoints" not in p.parts)


def label_of(cell: Mapping[str, Any]) -> str:
    """Return a label for a code cell: its exhibit, else its first tag, else its first words.

    Tags that only set how a cell is shown or compared do not count.
    """
    tags = cell.get("metadata", {}).get("tags", [])
    for tag in tags:
        if tag.startswith(EXHIBIT_TAG):
            return tag.removeprefix(EXHIBIT_TAG)
    named = [tag for tag in tags if not tag.startswith(_DISPLAY_TAGS)]
    if named:
        return named[0]
    lines = [line.strip() for line in cell.get("source", "").splitlines() if line.strip()]
    return " ".join(lines[0].split()[:6])[:60] if lines else "(empty)"


# --- parameters -------------------------------------------------------------------------------


def declared_parameters(notebook: Path) -> dict[str, Any]:
    """Return the parameters a notebook declares, with their default values."""
    declared = {}
    for name, found in papermill.inspect_notebook(notebook).items():
        try:
            declared[name] = ast.literal_eval(found["default"])
        except (ValueError, SyntaxError):
            declared[name] = None  # not a literal: every type is valid
    return declared


def check_parameters(notebook: Path, parameters: Mapping[str, Any]) -> list[str]:
    """Return the faults of the parameters for one notebook; papermill alone only warns."""
    declared = declared_parameters(notebook)
    valid = ", ".join(f"{k} ({type(v).__name__})" for k, v in declared.items()) or "none"
    problems = []
    for name, value in parameters.items():
        if name not in declared:
            problems.append(f"no parameter {name!r}; its parameters: {valid}")
        elif not _fits(value, declared[name]):
            wanted = type(declared[name]).__name__
            problems.append(f"{name} must be of type {wanted}; got {value!r}. All: {valid}")
    return problems


def _fits(value: Any, default: Any) -> bool:
    if default is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, type(default))


# --- progress ---------------------------------------------------------------------------------


class Progress(Work):
    """The running notebooks: live rows on a terminal, one line per event elsewhere.

    ``expected`` holds the known seconds that notebooks are likely to take, by name.
    """

    def __init__(
        self, console: Console, total: int, expected: Mapping[str, float], jobs: int = 1
    ) -> None:
        super().__init__(expected, jobs)
        self._console = console
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._cells: dict[str, str] = {}

    def cell(self, name: str, number: int, of: int, label: str) -> None:
        """Announce that a notebook starts its code cell ``number`` of ``of``."""
        text = f"cell {number}/{of}  {label}"
        with self._lock:
            self.begin(name)
            self._cells[name] = text
            if not self._console.is_terminal:
                self._say(f"{name}  {text}")

    def finished(self, outcome: Outcome) -> None:
        """Announce that a notebook is done or has failed."""
        with self._lock:
            self._done += 1
            self._cells.pop(outcome.name, None)
            self.end(outcome.name, completed=outcome.failure is None)
            state = "failed" if outcome.failure else "done"
            self._say(f"{outcome.name}  {state} in {outcome.seconds:.1f} s", bad=state == "failed")

    def _say(self, text: str, bad: bool = False) -> None:
        line = f"[{_clock(self.elapsed())}] {self._done}/{self._total} done"
        self._console.print(
            f"{line}{about_left(self.left())}  {text}",
            style="red" if bad else None,
            markup=False,
            highlight=False,
            soft_wrap=True,
        )

    def rows(self) -> Iterator[Row]:
        """Yield a row for each running notebook, and one for all."""
        for name, text in list(self._cells.items()):
            yield name, None, f"{text}  {_clock(self.elapsed(name))}"
        share, done = self._done / self._total, f"{self._done}/{self._total}"
        yield "notebooks", share, f"{done} done{about_left(self.left())}  {_clock(self.elapsed())}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes}:{seconds:02d}"


# --- running ----------------------------------------------------------------------------------


class _Engine(Engine):
    """Papermill's own engine, which also calls ``watch`` for each cell and registers its client.

    The kernel works in the output's folder by a setting of its own: ``chdir`` would act on the
    whole process, and notebooks run in its threads.
    """

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        watch: Callable[[int, int, str], None],
        clients: list[PapermillNotebookClient],
        folder: Path,
        errors: IO[bytes],
        kernels: type[KernelManager],
        start_timeout: int = 60,
        **_: Any,
    ) -> Any:
        started = nb_man.cell_start

        def cell_start(cell: Any, cell_index: int | None = None, **kwargs: Any) -> Any:
            if cell_index is not None and cell.cell_type == "code":
                code = [i for i, c in enumerate(nb_man.nb.cells) if c.cell_type == "code"]
                watch(code.index(cell_index) + 1, len(code), label_of(cell))
            return started(cell, cell_index, **kwargs)

        nb_man.cell_start = cell_start
        client = PapermillNotebookClient(
            nb_man,
            kernel_name=kernel_name,
            kernel_manager_class=kernels,
            timeout=None,
            startup_timeout=start_timeout,
            shutdown_kernel="immediate",  # with PyTorch, to end by itself takes a second and more
            record_timing=False,
            resources={"metadata": {"path": str(folder)}},
        )
        clients.append(client)
        try:
            return client.execute(stderr=errors)
        finally:
            clients.remove(client)


papermill_engines.register(ENGINE, _Engine)


@contextlib.contextmanager
def _environment(jobs: int, kernels: str) -> Iterator[None]:
    """Share the cores among the kernels, and start kernels from this Python environment."""
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    wanted = dict.fromkeys(_THREADS, threads) | KERNELS[kernels]
    wanted |= {"JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    added = {k: v for k, v in wanted.items() if k not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def execute(
    notebooks: Sequence[tuple[str, Path]],
    output: Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    jobs: int = 1,
    kernels: str = "fixed",
    copied: bool = False,
    console: Console | None = None,
    expected: Mapping[str, float] | None = None,
    finished: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run notebooks, each in its own kernel, and save the executed ones.

    Parameters
    ----------
    notebooks : sequence of (str, Path)
        Name (``paper/NN_topic``) and file of each.
    output : Path
        Folder for the executed notebooks (``<name>.ipynb``) and the standard error stream of their
        kernels (``<name>.log``). The kernels work in it.
    parameters : mapping
        Values of parameters; each notebook gets those that it declares.
    jobs : int
        How many to run at a time, at least 1.
    kernels : str
        The set of the libraries' machine code, of :data:`companion.kernels.KERNELS`.
    copied : bool
        Whether notebooks' kernels are copies of one process, which saves their imports. Not for
        CUDA, which a copy could not use if an import had.
    console : Console, optional
        Where progress is shown.
    expected : mapping
        Seconds that they are likely to take, by name, for the remaining time that is shown.
    finished : callable
        Called in this thread with each outcome as soon as its notebook is done or has failed.

    Returns
    -------
    list of Outcome
        In the order given. A failed notebook does not stop the others.
    """
    console = console or Console()
    clients: list[PapermillNotebookClient] = []
    outcomes: dict[str, Outcome] = {}
    progress = Progress(console, len(notebooks), expected or {}, jobs)
    with (
        _environment(jobs, kernels),
        copied_kernels() if copied else contextlib.nullcontext(AsyncKernelManager) as manager,
        show_rows(progress.rows, console=console),
        ThreadPoolExecutor(max_workers=jobs) as pool,
    ):
        futures = [
            pool.submit(_run, name, path, output, parameters or {}, progress, clients, manager)
            for name, path in notebooks
        ]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                outcomes[outcome.name] = outcome
                finished(outcome)
        except BaseException:
            for future in futures:
                future.cancel()
            _kill(clients)
            raise
    return [outcomes[name] for name, _ in notebooks]


def _run(
    name: str,
    path: Path,
    output: Path,
    parameters: Mapping[str, Any],
    progress: Progress,
    clients: list[PapermillNotebookClient],
    manager: type[KernelManager],
) -> Outcome:
    target = output / f"{name}.ipynb"
    log = target.with_suffix(".log")
    target.parent.mkdir(parents=True, exist_ok=True)
    declared = declared_parameters(path) if parameters else {}
    given = {k: v for k, v in parameters.items() if k in declared}
    began = time.monotonic()
    failure = None
    with log.open("wb") as errors:
        try:
            papermill.execute_notebook(
                path,
                target,
                parameters=given or None,
                engine_name=ENGINE,
                kernel_name="python3",
                progress_bar=False,
                watch=functools.partial(progress.cell, name),
                clients=clients,
                folder=target.parent,
                errors=errors,
                kernels=manager,
            )
        except PapermillExecutionError as error:
            failure = _failure(target, f"{error.ename}: {error.evalue}")
        except Exception as error:  # a dead kernel, an unreadable file: the others must go on
            failure = _failure(target, f"{type(error).__name__}: {error} {_tail(log)}".strip())
        finally:
            ensure_event_loop().close()  # nbclient leaves its thread's loop open
    outcome = Outcome(name, target, time.monotonic() - began, failure)
    progress.finished(outcome)
    return outcome


def _failure(path: Path, error: str) -> Failure:
    """Find the cell at which a saved notebook stopped: the last one that started."""
    cells = nbformat.read(path, as_version=4).cells if path.is_file() else []
    begun = [
        (number, cell)
        for number, cell in enumerate((c for c in cells if c.cell_type == "code"), 1)
        if cell.metadata.get("papermill", {}).get("start_time")
    ]
    if not begun:
        return Failure(0, "", error)
    number, cell = begun[-1]
    return Failure(number, label_of(cell), error)


def _tail(log: Path) -> str:
    """Return the last three lines of a kernel's log, without the notice that all kernels print."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return " | ".join([line for line in lines if "TCP without encryption" not in line][-3:])


def _kill(clients: Sequence[PapermillNotebookClient]) -> None:
    """Kill the running kernels and the processes that they started."""
    for client in list(clients):
        pid = getattr(getattr(client.km, "provisioner", None), "pid", None)
        if pid:
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                os.killpg(pid, signal.SIGKILL)
