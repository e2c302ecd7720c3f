"""The progress of a sweep: a bar on a terminal, lines in a log, nothing in a notebook."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TextIO

__all__ = [
    "Display",
    "duration",
    "in_notebook",
    "pace",
    "progress_of",
    "shown_by",
    "started_after",
]

#: a shorter sweep shows no progress by default.
PATIENCE_SECONDS = 3.0
#: seconds between lines where there is no terminal.
LINE_SECONDS = 10.0
#: weight of the expected seconds against the measured ones, in seconds.
_TRUSTED = 30.0


#: shows a sweep while it runs, given its label, the number of its tasks and of finished ones;
#: yields a function to call once per finished task
Display = Callable[[str, int, int], contextlib.AbstractContextManager[Callable[[], None]]]

_DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)


@contextlib.contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """Show the sweeps that start in this block on ``display``."""
    token = _DISPLAY.set(display)
    try:
        yield
    finally:
        _DISPLAY.reset(token)


@contextlib.contextmanager
def progress_of(
    label: str, total: int, done: int, wanted: bool | None
) -> Iterator[Callable[[], None]]:
    """Yield a function to call once per finished task; ``wanted`` None leaves the choice to us."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    display = _DISPLAY.get()
    if wanted is None and display is not None:
        with display(label, total, done) as advance:
            yield advance
    elif wanted is False or sys.stderr is None or in_notebook() or not (terminal or wanted):
        yield lambda: None
    elif terminal:
        with _bar(label, total, done, 0.0 if wanted else PATIENCE_SECONDS) as advance:
            yield advance
    else:
        lines = _Lines(label, total, done, sys.stderr)
        yield lines.advance
        lines.write()


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextlib.contextmanager
def _bar(label: str, total: int, done: int, patience: float) -> Iterator[Callable[[], None]]:
    from rich import progress as bars
    from rich.console import Console

    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("tasks,"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("elapsed,"),
        bars.TimeRemainingColumn(),
        bars.TextColumn("left"),
        console=Console(stderr=True),
    )
    line = bar.add_task(label, total=total, completed=done)
    with started_after(patience, bar):
        yield lambda: bar.advance(line)


@contextlib.contextmanager
def started_after(seconds: float, bars: Any) -> Iterator[None]:
    """Start a display of rich's in this block after some seconds, and stop it at the end."""
    starter = threading.Timer(seconds, bars.start)
    starter.daemon = True
    starter.start()
    try:
        yield
    finally:
        starter.cancel()
        starter.join()
        bars.stop()


class _Lines:
    """Progress as plain lines, for logs."""

    def __init__(self, label: str, total: int, done: int, stream: TextIO) -> None:
        self.label, self.total, self.done, self.stream = label, total, done, stream
        self.start = self.last = time.monotonic()
        self.before = done

    def advance(self) -> None:
        self.done += 1
        if time.monotonic() - self.last >= LINE_SECONDS:
            self.write()

    def write(self) -> None:
        self.last = time.monotonic()
        elapsed = self.last - self.start
        text = f"{self.label}: {self.done} of {self.total} tasks, {elapsed:.0f} s elapsed"
        if self.before < self.done < self.total:
            left = elapsed / (self.done - self.before) * (self.total - self.done)
            text += f", about {left:.0f} s left"
        print(text, file=self.stream, flush=True)


def duration(seconds: float) -> str:
    """Return a time in a suitable unit: 12 s, 3 min, 2.5 h, 4.1 days."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def pace(took: float, expected: float) -> float:
    """Return measured seconds per expected second, since machines differ in speed.

    The first few seconds, in which libraries are loaded, count little.
    """
    return (took + _TRUSTED) / (expected + _TRUSTED)
