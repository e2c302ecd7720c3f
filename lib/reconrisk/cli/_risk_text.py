"""A report as text, for a terminal and in Markdown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconrisk.cli._risk_numbers import describe_value, short
from reconrisk.cli.console import note, print_table, show

if TYPE_CHECKING:
    from reconrisk.cli._risk_inputs import CliInputs
    from reconrisk.risk import Entry, Report

__all__ = [
    "basis",
    "by_kind",
    "capital",
    "compared_in_markdown",
    "compared_in_terminal",
    "headlines",
    "in_markdown",
    "in_terminal",
    "left_out",
    "notes_side_by_side",
    "place",
    "printing",
    "sections",
    "setting_lines",
    "side_by_side",
]

_PAPERS = {
    "mean_to_extreme": "A, From Mean to Extreme",
    "ziller2024": "B, Ziller et al.",
    "hayes2023": "C, Hayes et al.",
    "biswas2024": "D, Biswas et al.",
    "liu2024": "E, Liu et al.",
    "beyond": "this companion",
}


def place(entry: Entry, *, short: bool = False) -> str:
    """Return the source of an entry's formula: the paper, or its letter, and the place in it."""
    source = entry.source
    if source is None:
        return ""
    paper = _PAPERS.get(source.paper, source.paper)
    if short:
        paper = "own" if source.paper == "beyond" else paper.partition(",")[0]
    return ": ".join(filter(None, (paper, source.place)))


def setting_lines(report: Report) -> list[tuple[str, str]]:
    """Return the settings of a report, given or derived, as names and values."""
    run, record = report.run, report.record
    lines = [("mechanism", run.mechanism)]
    for owner, names in (
        (run, ("noise_multiplier", "concentration", "sampling_rate", "steps", "max_grad_norm",
               "batch_size", "dataset_size", "epochs", "parameters", "delta")),
        (record, ("dimension", "data_range", "data_norm", "contrast")),
    ):  # fmt: skip
        for name in names:
            value = getattr(owner, name)
            if value is not None:
                lines.append((name.replace("_", " "), short(value)))
    if record.norms is not None:
        low, middle, high = map(short, record.norms)
        lines.append(("norms of the sample", f"{low} to {high}, median {middle}"))
    return lines


def left_out(entries: Iterable[Entry]) -> list[str]:
    """Return a sentence for each group of entries without a value: what is missing, or why."""
    needs: dict[tuple[str, ...], list[str]] = {}
    why: dict[str, list[str]] = {}
    for entry in entries:
        if entry.status == "ok":
            continue
        if entry.missing:
            needs.setdefault(tuple(entry.missing), []).append(entry.title)
        else:
            why.setdefault(entry.reason, []).append(entry.title)
    lines = [
        f"Not answered without {_listed(missing)}: {_titles(titles)}."
        for missing, titles in needs.items()
    ]
    return lines + [f"{_titles(titles)}: {reason}" for reason, titles in why.items()]


def _titles(titles: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(titles))


def _listed(fields: Sequence[str]) -> str:
    names = [field.replace("_", " ") for field in fields]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


#: kinds of entries that represent their threat model in the summary, in order of preference
_HEADLINES = (
    "epsilon", "rero", "box_success", "sphere_success", "psnr", "mse_shrunk", "mse", "ncc",
    "direction_error", "mutual_information", "capacity_record", "mse_unbiased", "cramer_rao",
    "cramer_rao_wide",
)  # fmt: skip


def headlines(report: Report) -> list[tuple[str, str]]:
    """Return one question and its answer for each threat model that has one."""
    rank = {kind: place for place, kind in enumerate(_HEADLINES)}
    found = []
    for _, _, entries in sections(report):
        first = min(entries, key=lambda e: rank.get(e.kind, len(rank)))
        found.append((first.question, capital(describe_value(first))))
    return found


def sections(report: Report) -> list[tuple[str, str, list[Entry]]]:
    """Return title, attacker and entries of each threat model with a value."""
    from reconrisk.risk import THREAT_MODELS

    return [
        (model.title, f"Sees {model.sees}; knows {model.knows}; succeeds: {model.success}.", own)
        for key, model in THREAT_MODELS.items()
        if (own := [e for e in report.of(key) if e.status == "ok"])
    ]


@contextlib.contextmanager
def printing(out: Path | None) -> Iterator[None]:
    """Redirect stdout to a file, if one is given."""
    if out is None:
        yield
        return
    with out.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        yield
    note(f"written to {out}")


def by_kind(entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """Group entries by kind, each under its title without the point."""
    from reconrisk.risk import KINDS

    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.kind, []).append(entry)
    return [
        (own[0].title if len(own) == 1 else capital(KINDS[kind].title.format(at="\u2026")), own)
        for kind, own in groups.items()
    ]


def basis(entry: Entry) -> str:
    """Return an entry's assumptions and tightness, which all entries of its kind share."""
    return " ".join((*entry.assumptions, entry.tightness))


def capital(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]


# Terminal ----------------------------------------------------------------------------------------


def in_terminal(report: Report, setting: CliInputs, details: bool) -> None:
    """Print a report."""
    if setting.answer:
        show(setting.answer + "\n")
    show("; ".join(f"{name} {value}" for name, value in setting_lines(report)) + "\n")
    for question, answer in headlines(report):
        show(f"- {question} {answer}.")
    show("")
    for title, who, entries in sections(report):
        show(title)
        show(f"  {who}\n")
        print_table(
            ("what", "answer", "which is", "from"),
            [(e.title, describe_value(e), e.direction, place(e, short=True)) for e in entries],
        )
        if details:
            for name, own in by_kind(entries):
                show(f"  {name}: {basis(own[0])}")
        show("")
    for line in [*left_out(report.entries), *setting.notes, *report.notes]:
        show(line)
    letters = [paper.replace(", ", ": ") for paper in _PAPERS.values() if ", " in paper]
    show(f"\nFrom {'; '.join(letters)}; own: this companion's.")
    if not details:
        show("--details adds assumptions and tightness; --format html draws.")


def compared_in_terminal(reports: Sequence[Report], settings: Sequence[CliInputs]) -> None:
    """Print several reports side by side."""
    names, rows = side_by_side(reports, settings)
    print_table(("what", *names), rows, flexible="what")
    for line in notes_side_by_side(reports, settings):
        show(line)


def _names(settings: Sequence[CliInputs]) -> list[str]:
    """File names as headings, numbered where two are equal."""
    names = [s.name for s in settings]
    if len(set(names)) == len(names):
        return names
    return [f"{number}. {name}" for number, name in enumerate(names, 1)]


def side_by_side(
    reports: Sequence[Report], settings: Sequence[CliInputs]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return column headings, and a row for each question that some report answers."""
    keyed = [{e.key: e for e in report.entries} for report in reports]
    order = dict.fromkeys(key for own in keyed for key in own)
    rows = []
    for key in order:
        entries = [own.get(key) for own in keyed]
        if any(e is not None and e.status == "ok" for e in entries):
            title = next(e.title for e in entries if e is not None)
            rows.append(
                (title, *("not asked" if e is None else describe_value(e) for e in entries))
            )
    return _names(settings), rows


def notes_side_by_side(reports: Sequence[Report], settings: Sequence[CliInputs]) -> list[str]:
    """Return each report's notes under its name, then the notes that all reports share."""
    notes = [
        dict.fromkeys(filter(None, (setting.answer, *setting.notes, *report.notes)))
        for report, setting in zip(reports, settings, strict=True)
    ]
    common = [line for line in notes[0] if all(line in own for own in notes)]
    own_lines = [
        f"{name}: {line}"
        for name, own in zip(_names(settings), notes, strict=True)
        for line in own
        if line not in common
    ]
    return own_lines + common


# Markdown ----------------------------------------------------------------------------------------


def in_markdown(report: Report, setting: CliInputs) -> str:
    """Return a report as a page of Markdown, with assumptions and tightness."""
    parts = ["# Reconstruction risk of one training run", ""]
    if setting.answer:
        parts += [_escaped(setting.answer), ""]
    parts += _table(("setting", "value"), setting_lines(report))
    for title, who, entries in sections(report):
        parts += [f"## {title}", "", _escaped(who), ""]
        parts += _table(
            ("what", "answer", "which is", "from"),
            [(e.title, describe_value(e), e.direction, place(e)) for e in entries],
        )
        parts += [
            f"- **{_escaped(name)}:** {_escaped(own[0].question)} {_escaped(basis(own[0]))}"
            for name, own in by_kind(entries)
        ]
        parts.append("")
    rest = [*left_out(report.entries), *setting.notes, *report.notes]
    if rest:
        parts += ["## Not answered, and notes", "", *(f"- {_escaped(line)}" for line in rest), ""]
    parts.append(f"reconrisk {report.library_version}, schema version {report.schema_version}")
    return "\n".join(parts) + "\n"


def compared_in_markdown(reports: Sequence[Report], settings: Sequence[CliInputs]) -> str:
    """Return several reports side by side as a page of Markdown."""
    parts = ["# Reconstruction risk, side by side", ""]
    names, rows = side_by_side(reports, settings)
    parts += _table(("what", *names), rows)
    parts += [f"- {_escaped(line)}" for line in notes_side_by_side(reports, settings)]
    return "\n".join(parts) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [list(columns), ["---"] * len(columns), *rows]
    return ["| " + " | ".join(map(_escaped, line)) + " |" for line in lines] + [""]


def _escaped(text: str) -> str:
    """Escape the characters that are special in Markdown."""
    for sign in "\\|*_<>`[]$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
