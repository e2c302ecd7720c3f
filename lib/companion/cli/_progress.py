"""How far a run of several exhibits is: live rows on a terminal, plain lines at intervals in a log.

What is left is estimated from what each exhibit cost before, corrected by how this run has gone so
far.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from companion.study.progress import duration, pace, shown_by
from reconrisk.cli.console import note

__all__ = ["Progress"]

#: a log says how far a run is after this many seconds, then ever more seldom: whenever the run has
#: grown by the share, and at the latest after ``MOST_SECONDS``.
LINE_SECONDS, LINE_SHARE, MOST_SECONDS = 10.0, 0.1, 600.0
#: an exhibit shorter than this shows no rows on a terminal.
PATIENCE_SECONDS = 2.0


@dataclass
class _Sweep:
    """The sweep that is running: how many of its tasks are finished, and were at its start."""

    label: str
    total: int
    done: int
    before: int
    start: float

    def left(self) -> float | None:
        if self.done <= self.before:
            return None
        elapsed = time.monotonic() - self.start
        return elapsed / (self.done - self.before) * (self.total - self.done)


class Progress:
    """The progress of a run over its exhibits and, through their sweeps, within them.

    Parameters
    ----------
    expected : sequence of (str, float or None)
        Each exhibit and the seconds it is likely to take; None where nothing is known.
    """

    def __init__(self, expected: Sequence[tuple[str, float | None]]) -> None:
        self._expected = list(expected)
        self._number = 0
        self._start = self._began = time.monotonic()
        #: seconds that finished exhibits took, and that they were expected to take
        self._took = self._foreseen = 0.0
        self._sweep: _Sweep | None = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def exhibit(self) -> Iterator[None]:
        """Show the next exhibit while the block computes it."""
        self._number += 1
        self._began = time.monotonic()
        name, foreseen = self._expected[self._number - 1]
        about = (
            ""
            if foreseen is None or foreseen < 2
            else f", about {duration(foreseen * self._pace())}"
        )
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
        """Return the seconds until the last exhibit ends; None if one of them never ran before."""
        here = [seconds for _, seconds in self._expected[max(self._number - 1, 0) :]]
        if not here or None in here:
            return None
        elapsed = time.monotonic() - self._began if self._number else 0.0
        current, *later = [self._pace() * seconds for seconds in here if seconds is not None]
        return max(current - elapsed, 0.0) + sum(later)

    def _all_left(self) -> str:
        if len(self._expected) == 1:
            return ""
        left = self.left()
        known = "" if left is None else f", about {duration(left)} left"
        return f" (all: {duration(time.monotonic() - self._start)} so far{known})"

    def _text(self) -> str:
        """How far the current exhibit is."""
        elapsed = time.monotonic() - self._began
        sweep = self._sweep
        foreseen = self._expected[self._number - 1][1]
        if sweep is None:
            left = None if foreseen is None else max(foreseen * self._pace() - elapsed, 0.0)
            tasks = ""
        else:
            left = sweep.left()
            tasks = f"{sweep.label}: {sweep.done} of {sweep.total} tasks, "
        known = f", about {duration(left)} left" if left else ""
        return f"{tasks}{duration(elapsed)} so far{known}{self._all_left()}"

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
            _said(bars.ProgressColumn)(),
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
        starter = threading.Timer(PATIENCE_SECONDS, rows.start)
        starter.daemon = True
        starter.start()

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

        try:
            yield sweeping
        finally:
            starter.cancel()
            starter.join()
            rows.stop()

    def _elapsed(self) -> str:
        return f"{duration(time.monotonic() - self._began)} so far"

    def _tasks(self) -> str:
        sweep = self._sweep
        if sweep is None:
            return ""
        left = sweep.left()
        known = "" if left is None else f", about {duration(left)} left"
        return f"{sweep.done} of {sweep.total} tasks{known}"


def _said(column: type[Any]) -> type[Any]:
    """A column of rich's that shows what a row's ``text`` says at that moment."""

    class Said(column):
        def render(self, task: Any) -> Any:
            from rich.text import Text

            return Text(task.fields["text"]())

    return Said
