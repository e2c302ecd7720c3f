"""What a long run left in ``data/recorded/``, as it is shown below its exhibit.

``reconrisk run EXHIBIT --no-figure --out data/recorded/EXHIBIT`` makes one. The notebook above it
stays the quick run that everyone can repeat; the record says what ran, where and for how long.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from reconrisk.cli._markdown import badge, escape, list_table
from reconrisk.study.computations import Computation
from reconrisk.study.records import Record, read_record

__all__ = ["RECORDED", "recorded_block", "recorded_ids"]

#: folder of the records, in the project
RECORDED = Path("data", "recorded")
# a longer table is linked, not printed
_MOST_ROWS = 70


def recorded_ids(project: Path) -> list[str]:
    """Exhibits of which the project holds a recorded run."""
    folder = project / RECORDED
    return sorted(p.parent.relative_to(folder).as_posix() for p in folder.glob("*/*/record.json"))


def recorded_block(
    known: Computation, project: Path, source: Callable[[str], str], duration: Callable[..., str]
) -> str:
    """Return the folded part with an exhibit's recorded run; empty if there is none.

    Parameters
    ----------
    known : Computation
        Whose parameters say what the paper's profile is.
    project : Path
    source : callable
        From a file of the project to the address at which it can be read.
    duration : callable
        From seconds to words.

    Raises
    ------
    RecordError
        If a file of the record is not the one that was recorded.
    """
    folder = RECORDED / known.exhibit
    if not (project / folder / "record.json").is_file():
        return ""
    record = read_record(project / folder)
    origin = record.provenance
    rows = [
        (
            escape(v["target"]),
            badge(v["status"]),
            "\n\n".join(escape(t) for t in (v["statement"], v.get("why", "")) if t),
            escape(v.get("ours", "")),
            escape(v.get("paper", "")),
        )
        for v in record.result["verdicts"]
    ]
    parts = [
        f":::::{{dropdown}} Recorded run: {escape(record.result['ran'])}",
        ":class-container: exhibit-details recorded-run",
        "",
        f"Run on {origin.time[:10]} on {escape(origin.device)} ({escape(origin.platform)}), seed "
        f"{origin.seed}, in {duration(origin.seconds or 0.0)}, not counting what earlier runs had "
        f"kept of it; code of commit `{origin.commit[:10]}`. {_differences(known, record)}",
        "",
        list_table(
            ("What", "Verdict", "Checked", "Ours", "Paper"),
            rows,
            widths=(12, 12, 40, 18, 18),
            classes="recorded-verdicts",
        ),
    ]
    for name, table in record.tables.items():
        path = (folder / f"{name}.csv").as_posix()
        link = f"[{escape(name.replace('-', ' '))}]({source(path)})"
        parts.append(f"{link}, {len(table)} rows." if len(table) > _MOST_ROWS else f"{link}:")
        parts.append("")
        if len(table) <= _MOST_ROWS:
            parts.append(_table(table))
    return "\n".join([*parts, ":::::"])


def _differences(known: Computation, record: Record) -> str:
    """How the run's parameters differ from the paper's."""
    ran = record.provenance.parameters
    changed = [
        f"`{name}` {escape(_text(ran[name]))} instead of {escape(_text(p.paper))}"
        for name, p in known.parameters.items()
        if name in ran and _text(ran[name]) != _text(p.paper)
    ]
    if not changed:
        return "All parameters are the paper profile's."
    return f"Parameters other than the paper profile's: {', '.join(changed)}."


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _table(table: pd.DataFrame) -> str:
    def cell(value: object) -> str:
        if isinstance(value, float):
            return "" if pd.isna(value) else f"{value:.4g}"
        return escape(str(value))

    rows = [tuple(cell(v) for v in row) for row in table.itertuples(index=False)]
    header = tuple(escape(str(c)) for c in table.columns)
    return list_table(header, rows, widths=(1,) * len(header), classes="recorded-table")
