"""Several reports side by side, for a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reconrisk.risk._numbers import describe_value
from reconrisk.risk._report import nothing_useful
from reconrisk.risk._text import capitalise, columns, markdown_table, wrap

if TYPE_CHECKING:
    from reconrisk.cli._risk_inputs import CliInputs
    from reconrisk.risk import Report

__all__ = ["in_markdown", "in_terminal", "notes", "side_by_side"]


def in_terminal(reports: Sequence[Report], settings: Sequence[CliInputs], width: int) -> str:
    """Return several reports side by side, in lines of at most ``width`` characters."""
    names, rows = side_by_side(reports, settings)
    lines = [*columns(("what", *names), rows, width), ""]
    for text in notes(reports, settings):
        lines += wrap(text, width, "- ", "  ")
    return "\n".join(lines) + "\n"


def in_markdown(reports: Sequence[Report], settings: Sequence[CliInputs]) -> str:
    """Return several reports side by side as a page of Markdown."""
    parts = ["# Reconstruction risk, side by side", ""]
    names, rows = side_by_side(reports, settings)
    parts += markdown_table(("what", *names), rows)
    parts += [f"- {line}" for line in notes(reports, settings)]
    return "\n".join(parts) + "\n"


def _names(settings: Sequence[CliInputs]) -> list[str]:
    """File names as headings, numbered where two are equal."""
    names = [s.name for s in settings]
    if len(set(names)) == len(names):
        return names
    return [f"{number}. {name}" for number, name in enumerate(names, 1)]


def side_by_side(
    reports: Sequence[Report], settings: Sequence[CliInputs]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return column headings, and a row for each question that some report answers usefully."""
    named = (report.run.adjacency or "the guarantee's" for report in reports)
    rows: list[tuple[str, ...]] = [("Adjacency", *named)]
    for judged in zip(*(report.judgements for report in reports), strict=True):
        rows.append((judged[0].question, *(capitalise(j.verdict) for j in judged)))
    keyed = [{e.key: e for e in report.entries} for report in reports]
    useless = [{e.key for e in report.nothing_useful} for report in reports]
    for key in dict.fromkeys(key for own in keyed for key in own):
        entries = [own.get(key) for own in keyed]
        useful = [
            e is not None and e.status == "ok" and key not in own
            for e, own in zip(entries, useless, strict=True)
        ]
        if any(useful):
            title = next(e.title for e in entries if e is not None)
            answers = ("not asked" if e is None else describe_value(e) for e in entries)
            rows.append((capitalise(title), *answers))
    return _names(settings), rows


def notes(reports: Sequence[Report], settings: Sequence[CliInputs]) -> list[str]:
    """Return each report's warnings and notes under its name, then those that all share."""
    every = [
        dict.fromkeys(
            filter(
                None,
                (
                    setting.answer,
                    *(f"Warning: {text}" for text in report.warnings),
                    nothing_useful(report),
                    *report.notes,
                ),
            )
        )
        for report, setting in zip(reports, settings, strict=True)
    ]
    common = [line for line in every[0] if all(line in own for own in every)]
    own_lines = [
        f"{name}: {line}"
        for name, own in zip(_names(settings), every, strict=True)
        for line in own
        if line not in common
    ]
    return own_lines + common
