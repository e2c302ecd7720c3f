"""The progress of long computations: rows on a terminal, lines in a log, nothing in a notebook."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

#: a shorter computation shows no rows by default.
PATIENCE_SECONDS = 3.0
#: seconds to the first line in a log; then the share of the seconds so far to the next, at most
#: ``MOST_SECONDS``.
LINE_SECONDS, LINE_SHARE, MOST_SECONDS = 10.0, 0.1, 600.0
#: weight of the expected seconds against the measured ones, in seconds.
_TRUSTED = 30.0

#: a row of a display: its label, the share that is done (None for no bar), a text
Row = tuple[str, float | None, str]


# What is computed ---------------------------------------------------------------------------------


@dataclass
class Sweep:
    """A running sweep: its tasks, those finished, and those finished before its start."""

    label: str
    total: int
    done: int
    before: int = field(init=False)
    start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.before = self.done

    def advance(self) -> None:
        """Count one more finished task."""
        self.done += 1

    @property
    def left(self) -> float | None:
        """The seconds that it still takes; None before its first task has finished."""
        if self.done <= self.before:
            return None
        elapsed = time.monotonic() - self.start
        return elapsed / (self.done - self.before) * (self.total - self.done)

    @property
    def row(self) -> Row:
        """Its row of a display."""
        share = self.done / self.total if self.total else 1.0
        return self.label, share, f"{self.done} of {self.total} tasks{about_left(self.left)}"


class Work:
    """Pieces of work, and the seconds that they still take at the pace of those finished.

    Machines differ in speed, so measured seconds correct the expected ones; the first few, in which
    libraries are loaded, count little.

    Parameters
    ----------
    expected : mapping
        The seconds that each is likely to take, by name; None if unknown.
    jobs : int
        How many run at a time.
    """

    def __init__(self, expected: Mapping[str, float | None], jobs: int = 1) -> None:
        self._waiting = dict(expected)
        self._jobs = jobs
        self._took = self._foreseen = 0.0
        self._began: dict[str, float] = {}
        self._start = time.monotonic()

    def begin(self, name: str) -> None:
        """Note that a piece begins, unless it has."""
        self._began.setdefault(name, time.monotonic())

    def end(self, name: str, completed: bool = True) -> None:
        """Note that a piece is over; its pace counts if it was completed."""
        took = self.elapsed(name)
        self._began.pop(name, None)
        foreseen = self._waiting.pop(name, None)
        if completed and foreseen:
            self._took += took
            self._foreseen += foreseen

    def elapsed(self, name: str = "") -> float:
        """Return the seconds since a piece began, or since the start of all."""
        now = time.monotonic()
        return now - (self._began.get(name, now) if name else self._start)

    def left_of(self, name: str) -> float | None:
        """Return the seconds that a piece still takes; None if unknown."""
        expected = self._waiting.get(name)
        if expected is None:
            return None
        pace = (self._took + _TRUSTED) / (self._foreseen + _TRUSTED)
        return max(pace * expected - self.elapsed(name), 0.0)

    def left(self) -> float | None:
        """Return the seconds until all are over; None if those of one are unknown."""
        each = [self.left_of(name) for name in list(self._waiting)]  # threads change it
        known = [seconds for seconds in each if seconds is not None]
        if len(known) < len(each):
            return None
        return max(sum(known) / self._jobs, max(known, default=0.0))


# How it is shown ----------------------------------------------------------------------------------

#: the running sweeps, where a display around them shows them
_SWEEPS: ContextVar[list[Sweep] | None] = ContextVar("sweeps", default=None)


@contextlib.contextmanager
def collect_sweeps() -> Iterator[list[Sweep]]:
    """Yield the list of the sweeps that run in this block, for the caller to show."""
    sweeps: list[Sweep] = []
    token = _SWEEPS.set(sweeps)
    try:
        yield sweeps
    finally:
        _SWEEPS.reset(token)


@contextlib.contextmanager
def progress_of(
    label: str, total: int, done: int, wanted: bool | None
) -> Iterator[Callable[[], None]]:
    """Yield a function to call once per finished task; ``wanted`` None leaves the choice to us."""
    sweep, around = Sweep(label, total, done), _SWEEPS.get()
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if wanted is None and around is not None:
        around.append(sweep)
        try:
            yield sweep.advance
        finally:
            around.remove(sweep)
    elif wanted is False or sys.stderr is None or in_notebook() or not (terminal or wanted):
        yield sweep.advance
    else:
        work = Work({})

        def line() -> str:
            tasks = f"{label}: {sweep.done} of {total} tasks, {duration(work.elapsed())} so far"
            return tasks + about_left(sweep.left)

        with show_rows_or_lines(lambda: [sweep.row], line, 0.0 if wanted else PATIENCE_SECONDS):
            yield sweep.advance
        if not terminal:
            _say(line())


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextlib.contextmanager
def show_rows_or_lines(
    rows: Callable[[], Iterable[Row]], line: Callable[[], str], patience: float
) -> Iterator[None]:
    """Show rows in this block if stderr is a terminal, and else a line from time to time."""
    if sys.stderr.isatty():
        with show_rows(rows, patience):
            yield
        return
    over, start = threading.Event(), time.monotonic()

    def speak() -> None:
        wait = LINE_SECONDS
        while not over.wait(wait):
            _say(line())
            wait = min(max(LINE_SECONDS, LINE_SHARE * (time.monotonic() - start)), MOST_SECONDS)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


@contextlib.contextmanager
def show_rows(
    rows: Callable[[], Iterable[Row]], patience: float = 0.0, console: Any = None
) -> Iterator[None]:
    """Show rows on a terminal after ``patience`` seconds; they vanish at the end of the block."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def table() -> Table:
        grid = Table.grid(padding=(0, 2))
        for label, share, text in rows():
            bar = "" if share is None else ProgressBar(1.0, share, width=40)
            grid.add_row(Text(label), bar, Text(text))
        return grid

    console = console or Console(stderr=True)
    live = Live(get_renderable=table, console=console, transient=True)
    starter = threading.Timer(patience, live.start)
    starter.daemon = True
    if console.is_terminal:
        starter.start()
    try:
        yield
    finally:
        starter.cancel()
        if starter.ident is not None:
            starter.join()
        live.stop()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def about_left(seconds: float | None) -> str:
    """Return ``", about 3 min left"``; nothing if the time is unknown or over."""
    return f", about {duration(seconds)} left" if seconds else ""


def duration(seconds: float) -> str:
    """Return a time in a suitable unit: 12 s, 3 min, 2.5 h, 4.1 days."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
