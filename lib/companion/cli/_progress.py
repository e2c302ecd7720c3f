"""Progress of a run of several exhibits: live rows on a terminal, plain lines in a log.

The remaining time is estimated from earlier costs, corrected by the pace of this run.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from companion.study.progress import duration, pace, shown_by, started_after
from reconrisk.cli.console import note

__all__ = ["Progress"]

#: seconds to the first line in a log; then the share of the run's seconds so far to the next, at
#: most ``MOST_SECONDS``.
LINE_SECONDS, LINE_SHARE, MOST_SECONDS = 10.0, 0.1, 600.0
#: a shorter exhibit shows no rows on a terminal.
PATIENCE_SECONDS = 2.0


@dataclass
class _Sweep:
    """The running sweep: its tasks, those finished, and those finished before its start."""

    label: str
    total: int
    done: int
    before: int
    start: float

    def left(self) -> float | None:
        """Return the seconds that it still takes; None before its first task has finished."""
        if self.done <= self.before:
            return None
        elapsed = time.monotonic() - self.start
        return elapsed / (self.done - self.before) * (self.total - self.done)


def _about_left(seconds: float | None) -> str:
    return "" if seconds is None else f", about {duration(seconds)} left"


class Progress:
    """The progress of a run over its exhibits and, through their sweeps, within them.

    Parameters
    ----------
    expected : sequence of (str, float or None)
        Each exhibit and the seconds that it is likely to take, None if unknown.
    """

    def __init__(self, expected: Sequence[tuple[str, float | None]]) -> None:
        self._expected = list(expected)
        self._number = 0
        self._start = self._began = time.monotonic()
        #: measured and expected seconds of the finished exhibits
        self._took = self._foreseen = 0.0
        self._sweep: _Sweep | None = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def exhibit(self) -> Iterator[None]:
        """Show the next exhibit while the block computes it."""
        self._number += 1
        self._began = time.monotonic()
        name, foreseen = self._expected[self._number - 1]
        about = ""
        if foreseen is not None and foreseen >= 2:
            about = f", about {duration(foreseen * self._pace())}"
        note(f"{self._place()}computing {name}{about}{self._all_left()}")
        show = self._rows if sys.stderr.isatty() else self._lines
        with show(name) as display, shown_by(display):
            yield
        if foreseen:
            self._took += time.monotonic() - self._began
            self._foreseen += foreseen

    def passed(self) -> None:
        """Count the next exhibit as done without computing it."""
        self._number += 1

    def _place(self) -> str:
        many = len(self._expected)
        return f"[{self._number}/{many}] " if many > 1 else ""

    def _pace(self) -> float:
        return pace(self._took, self._foreseen)

    def left(self) -> float | None:
        """Return the seconds until the last exhibit ends; None if those of one are unknown."""
        here = [seconds for _, seconds in self._expected[max(self._number - 1, 0) :]]
        if not here or None in here:
            return None
        elapsed = time.monotonic() - self._began if self._number else 0.0
        current, *later = [self._pace() * seconds for seconds in here if seconds is not None]
        return max(current - elapsed, 0.0) + sum(later)

    def _all_left(self) -> str:
        if len(self._expected) == 1:
            return ""
        elapsed = duration(time.monotonic() - self._start)
        return f" (all: {elapsed} so far{_about_left(self.left())})"

    def _text(self) -> str:
        """Return the progress of the current exhibit and of all."""
        elapsed = time.monotonic() - self._began
        sweep = self._sweep
        foreseen = self._expected[self._number - 1][1]
        if sweep is None:
            left = None if foreseen is None else max(foreseen * self._pace() - elapsed, 0.0)
            tasks = ""
        else:
            left = sweep.left()
            tasks = f"{sweep.label}: {sweep.done} of {sweep.total} tasks, "
        return f"{tasks}{duration(elapsed)} so far{_about_left(left or None)}{self._all_left()}"

    @contextlib.contextmanager
    def _sweeping(
        self,
        label: str,
        total: int,
        done: int,
        changed: Callable[[_Sweep], None] = lambda sweep: None,
    ) -> Iterator[Callable[[], None]]:
        sweep = _Sweep(label, total, done, done, time.monotonic())
        before, self._sweep = self._sweep, sweep

        def advance() -> None:
            sweep.done += 1
            changed(sweep)

        changed(sweep)
        try:
            yield advance
        finally:
            self._sweep = before

    # Plain lines --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _lines(self, name: str) -> Iterator[Callable[..., Any]]:
        over = threading.Event()

        def speak() -> None:
            wait = LINE_SECONDS
            while not over.wait(wait):
                sweep = self._sweep
                about = "" if sweep is not None and name in sweep.label else f"{name}: "
                note(f"{self._place()}{about}{self._text()}")
                elapsed = time.monotonic() - self._began
                wait = min(max(LINE_SECONDS, LINE_SHARE * elapsed), MOST_SECONDS)

        speaker = threading.Thread(target=speak, daemon=True)
        speaker.start()
        try:
            yield self._sweeping
        finally:
            over.set()
            speaker.join()

    # Rows on a terminal -------------------------------------------------------------------------

    @contextlib.contextmanager
    def _rows(self, name: str) -> Iterator[Callable[..., Any]]:
        from rich import progress as bars
        from rich.console import Console

        rows = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            _text_column(bars.ProgressColumn)(),
            console=Console(stderr=True),
            transient=True,
        )
        if len(self._expected) > 1:
            rows.add_task(
                "exhibits",
                total=len(self._expected),
                completed=self._number - 1,
                text=lambda: f"{self._number - 1} of {len(self._expected)}{self._all_left()}",
            )
        rows.add_task(name, total=None, text=self._elapsed)

        @contextlib.contextmanager
        def sweeping(label: str, total: int, done: int) -> Iterator[Callable[[], None]]:
            line = rows.add_task(label.removeprefix(f"{name}: "), total=total, text=self._tasks)
            try:
                with self._sweeping(
                    label, total, done, lambda sweep: rows.update(line, completed=sweep.done)
                ) as advance:
                    yield advance
            finally:
                rows.remove_task(line)

        with started_after(PATIENCE_SECONDS, rows):
            yield sweeping

    def _elapsed(self) -> str:
        return f"{duration(time.monotonic() - self._began)} so far"

    def _tasks(self) -> str:
        sweep = self._sweep
        if sweep is None:
            return ""
        return f"{sweep.done} of {sweep.total} tasks{_about_left(sweep.left())}"


def _text_column(column: type[Any]) -> type[Any]:
    """Return a column of rich's that calls a row's ``text`` and shows the result."""

    class TextColumn(column):
        def render(self, task: Any) -> Any:
            from rich.text import Text

            return Text(task.fields["text"]())

    return TextColumn
