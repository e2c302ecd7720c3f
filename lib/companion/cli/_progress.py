"""Progress of a run of several exhibits, and within them through their sweeps."""

import contextlib
from collections.abc import Iterator, Sequence

from companion.study import progress
from companion.study.progress import Row, Sweep, Work, about_left, duration
from reconrisk.cli.console import note


class Progress(Work):
    """The exhibits of a run, each with the seconds that it is likely to take, None if unknown."""

    def __init__(self, expected: Sequence[tuple[str, float | None]]) -> None:
        super().__init__(dict(expected))
        self._names = [name for name, _ in expected]
        self._number = 0

    @contextlib.contextmanager
    def exhibit(self) -> Iterator[None]:
        """Show the next exhibit while the block computes it."""
        name = self._names[self._number]
        self._number += 1
        self.begin(name)
        foreseen = self.left_of(name) or 0.0
        about = f", about {duration(foreseen)}" if foreseen >= 2 else ""
        note(f"{self._place()}computing {name}{about}{self._all_left()}")
        completed = False
        try:
            with (
                progress.collect_sweeps() as sweeps,
                progress.show_rows_or_lines(
                    lambda: self._rows(name, sweeps),
                    lambda: self._line(name, sweeps),
                    progress.PATIENCE_SECONDS,
                ),
            ):
                yield
            completed = True
        finally:
            self.end(name, completed)

    def passed(self) -> None:
        """Count the next exhibit as done without computing it."""
        self.end(self._names[self._number], completed=False)
        self._number += 1

    def _rows(self, name: str, sweeps: Sequence[Sweep]) -> Iterator[Row]:
        many, done = len(self._names), self._number - 1
        if many > 1:
            yield "exhibits", done / many, f"{done} of {many}{self._all_left()}"
        yield name, None, f"{duration(self.elapsed(name))} so far"
        for label, share, text in [sweep.row for sweep in sweeps]:
            yield label.removeprefix(f"{name}: "), share, text

    def _line(self, name: str, sweeps: Sequence[Sweep]) -> str:
        label, tasks, left = f"{name}: ", "", self.left_of(name)
        for sweep in sweeps[-1:]:
            label = "" if name in sweep.label else label
            tasks = f"{sweep.label}: {sweep.done} of {sweep.total} tasks, "
            left = sweep.left
        so_far = f"{duration(self.elapsed(name))} so far{about_left(left)}"
        return f"{self._place()}{label}{tasks}{so_far}{self._all_left()}"

    def _place(self) -> str:
        many = len(self._names)
        return f"[{self._number}/{many}] " if many > 1 else ""

    def _all_left(self) -> str:
        if len(self._names) == 1:
            return ""
        return f" (all: {duration(self.elapsed())} so far{about_left(self.left())})"
