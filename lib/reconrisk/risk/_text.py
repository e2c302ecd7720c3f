"""A report as text: plain at any width, in Markdown, and as a piece of HTML for a notebook."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from reconrisk.risk._numbers import describe_value, short
from reconrisk.risk._phases import listed
from reconrisk.risk._references import REFERENCES, Reference

if TYPE_CHECKING:
    from reconrisk.risk._report import Entry, Report

__all__ = [
    "COLUMNS",
    "basis",
    "by_kind",
    "capital",
    "cited",
    "columns",
    "fragment",
    "left_out",
    "markdown",
    "markdown_table",
    "nothing_useful",
    "place",
    "plain",
    "rest",
    "row",
    "sections",
    "setting_lines",
    "wrapped",
]

_PAPERS = {
    "mean_to_extreme": "A, From Mean to Extreme",
    "ziller2024": "B, Ziller et al.",
    "hayes2023": "C, Hayes et al.",
    "biswas2024": "D, Biswas et al.",
    "liu2024": "E, Liu et al.",
    "beyond": "this companion",
}
#: directions as a reader sees them
_WORDS = {
    "exact": "value for the worst record",
    "enclosed": "certified interval, worst record",
    "exact for one attack": "one known attack, no bound",
    "enclosed for one attack": "certified interval, one known attack",
    "upper bound on success": "no attack does better",
    "upper bound on leakage": "no attack learns more",
    "lower bound on error": "no such attack errs less",
    "success of the best known attack": "best known attack",
    "order of an error": "only ratios mean anything",
}
COLUMNS = ("what", "answer", "which is", "from")
#: least width of a table; below, its rows become paragraphs
_LEAST_TABLE = 72
#: log of a chance that nobody can tell from zero
_NEVER = -30.0 * math.log(10.0)


def place(entry: Entry, *, short: bool = False) -> str:
    """Return the source of an entry's formula: the paper, or its letter, and the place in it."""
    source = entry.source
    if source is None:
        return ""
    paper = _PAPERS.get(source.paper, source.paper)
    if short:
        paper = "own" if source.paper == "beyond" else paper.partition(",")[0]
    return ": ".join(filter(None, (paper, source.place)))


def row(entry: Entry, *, short: bool = False) -> tuple[str, str, str, str]:
    """Return an entry as a row of a table: what, the answer, which is, from."""
    words = _WORDS.get(entry.direction, entry.direction)
    return capital(entry.title), describe_value(entry), words, place(entry, short=short)


def setting_lines(report: Report) -> list[tuple[str, str]]:
    """Return the settings of a report, given or derived, as names and values."""
    run, record = report.run, report.record
    of_run: tuple[str, ...] = (
        "noise_multiplier", "concentration", "sampling_rate", "steps", "max_grad_norm",
        "batch_size", "dataset_size", "epochs", "parameters", "delta",
    )  # fmt: skip
    lines = [("mechanism", run.mechanism)]
    if run.phases:  # one noise multiplier and one rate would be those of no phase
        of_run = of_run[3:]
        lines.append((f"{len(run.phases):,} phases", listed(run.phases)))
    if run.guarantee is not None:  # its words say what is known of the run
        of_run, lines = ("dataset_size", "delta"), [("guarantee", run.guarantee.words)]
    of_run += tuple(name for name in ("layers", "group_size") if getattr(run, name) > 1)
    of_record = ("dimension", "data_range", "data_norm", "contrast")
    for owner, names in ((run, of_run), (record, of_record)):
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
    needs: dict[tuple[str, ...], list[Entry]] = {}
    why: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.status == "ok":
            continue
        if entry.missing:
            needs.setdefault(tuple(entry.missing), []).append(entry)
        else:
            why.setdefault(entry.reason, []).append(entry)
    lines = [
        f"Not answered without {_listed(missing)}: {_titles(own)}."
        for missing, own in needs.items()
    ]
    return lines + [f"{capital(_titles(own))}: {reason}." for reason, own in why.items()]


def nothing_useful(report: Report) -> str:
    """Return the line for all entries that are always true or out of range; "" without any."""
    if not report.nothing_useful:
        return ""
    return (
        "Nothing useful, because always true or out of any range a person can use: "
        f"{_titles(report.nothing_useful)}."
    )


def _titles(entries: Iterable[Entry]) -> str:
    """Titles of kinds, without their points, each once."""
    from reconrisk.risk._assess import KINDS

    found = dict.fromkeys(KINDS[entry.kind].title for entry in entries)
    return "; ".join(_AT.sub("", _AT_FIRST.sub("Within an error", title)) for title in found)


#: where a title has its point, and where it begins with it
_AT, _AT_FIRST = re.compile(r"(?: with| on| at|,) \{at\}"), re.compile(r"^\{at\}(?: hit)?")


def _listed(fields: Sequence[str]) -> str:
    names = [field.replace("_", " ") for field in fields]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def never(report: Report) -> str:
    """Return the line for successes of a chance that nobody can tell from zero; "" without any."""
    rows = [f"{entry.title} ({describe_value(entry)})" for entry in report.entries if _never(entry)]
    return f"Practically never, under their assumptions: {'; '.join(rows)}." if rows else ""


def _never(entry: Entry) -> bool:
    """Whether a chance is below 1e-30, and nobody asked for a prior that small."""
    if entry.status != "ok" or entry.unit != "probability" or "log_prior" in dict(entry.at):
        return False
    if entry.log_upper is not None:
        return entry.log_upper < _NEVER
    return entry.upper == 0.0


def rest(report: Report) -> list[str]:
    """Return what follows the tables: collapsed entries, those left out, the notes."""
    collapsed = filter(None, [nothing_useful(report), never(report)])
    return [*collapsed, *left_out(report.entries), *report.notes]


def sections(report: Report) -> list[tuple[str, str, list[Entry]]]:
    """Return title, attacker and entries of each threat model with a value of some use."""
    from reconrisk.risk._report import THREAT_MODELS

    useless = {entry.key for entry in report.nothing_useful}
    useless |= {entry.key for entry in report.entries if _never(entry)}
    return [
        (model.title, f"Sees {model.sees}; knows {model.knows}; succeeds: {model.success}.", own)
        for key, model in THREAT_MODELS.items()
        if (own := [e for e in report.of(key) if e.status == "ok" and e.key not in useless])
    ]


def by_kind(entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """Group entries by kind, each under its title without the point."""
    from reconrisk.risk._assess import KINDS

    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.kind, []).append(entry)
    return [
        (capital(own[0].title if len(own) == 1 else KINDS[kind].title.format(at="…")), own)
        for kind, own in groups.items()
    ]


def basis(entry: Entry) -> str:
    """Return an entry's assumptions and tightness, which all entries of its kind share."""
    return " ".join((*entry.assumptions, entry.tightness))


def cited(report: Report) -> list[Reference]:
    """Return the publications that the report's sentences rely on."""
    used = {key for judgement in report.judgements for key in judgement.references}
    if report.run.sampling_rate < 1.0:
        used.add("chua2024")
    return [reference for key, reference in REFERENCES.items() if key in used]


def capital(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]


# Plain text --------------------------------------------------------------------------------------


def wrapped(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return a text in lines of at most ``width`` characters, with the given indents."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=then) or [""]


def columns(names: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[str]:
    """Return a table in lines of at most ``width`` characters; as paragraphs if that is narrow.

    Parameters
    ----------
    names : sequence of str
        Headings of the columns.
    rows : iterable of sequences of str
    width : int
        Of the window.
    """
    rows = list(rows)
    count = len(names)
    if width < _LEAST_TABLE or (width - 2 * count) // count < 12:
        return [line for cells in rows for line in _paragraph(names, cells, width)]
    widest = [max(len(cell) for cell in column) for column in zip(names, *rows, strict=True)]
    free = width - 2 * (count - 1)
    # the widest column gives way until all fit
    while sum(widest) > free:
        widest[widest.index(max(widest))] -= 1
    lines = ["  ".join(n.ljust(w) for n, w in zip(names, widest, strict=True)).rstrip()]
    lines.append("─" * min(sum(widest) + 2 * (count - 1), width))
    for cells in rows:
        parts = [textwrap.wrap(c, w) or [""] for c, w in zip(cells, widest, strict=True)]
        for i in range(max(map(len, parts))):
            texts = [part[i] if i < len(part) else "" for part in parts]
            line = "  ".join(t.ljust(w) for t, w in zip(texts, widest, strict=True))
            lines.append(line.rstrip())
    return lines


def _paragraph(names: Sequence[str], cells: Sequence[str], width: int) -> list[str]:
    if tuple(names) == COLUMNS:
        lines = wrapped(f"{cells[0]}: {cells[1]}", width, "", "  ")
        return lines + wrapped(f"({cells[2]}; {cells[3]})", width, "  ", "  ")
    named = [f"{name}: {cell}" for name, cell in zip(names[1:], cells[1:], strict=True)]
    more = [line for text in named for line in wrapped(text, width, "  ", "    ")]
    return wrapped(cells[0], width) + more


def plain(report: Report, *, width: int = 80, details: bool = False, answer: str = "") -> str:
    """Return a report as plain text.

    Parameters
    ----------
    report : Report
    width : int
        Characters of a line.
    details : bool
        Whether to add every number's assumptions and tightness.
    answer : str
        A sentence to begin with.
    """
    lines = wrapped(answer, width) + [""] if answer else []
    for text in report.warnings:
        lines += [*wrapped(f"Warning: {text}", width, "", "  "), ""]
    settings = "; ".join(f"{name} {value}" for name, value in setting_lines(report))
    lines += [*wrapped(settings, width), "", "In plain words", ""]
    for judgement in report.judgements:
        lines += wrapped(f"{judgement.question} {capital(judgement.verdict)}.", width)
        lines += [*wrapped(judgement.text, width, "  ", "  "), ""]
    for title, who, entries in sections(report):
        lines += [*wrapped(title, width), *wrapped(who, width, "  ", "  "), ""]
        lines += [*columns(COLUMNS, [row(e, short=True) for e in entries], width), ""]
        if details:
            for name, own in by_kind(entries):
                lines += wrapped(f"{name}: {basis(own[0])}", width, "  ", "    ")
            lines.append("")
    for text in rest(report):
        lines += wrapped(text, width, "- ", "  ")
    letters = [paper.replace(", ", ": ") for paper in _PAPERS.values() if ", " in paper]
    lines += ["", *wrapped(f"From {'; '.join(letters)}; own: this companion's.", width)]
    for reference in cited(report):
        lines += wrapped(f"{reference.short}: {reference.citation}.", width, "", "  ")
    return "\n".join(lines) + "\n"


# Markdown ----------------------------------------------------------------------------------------


def markdown(report: Report, answer: str = "") -> str:
    """Return a report as a page of Markdown, with assumptions and tightness."""
    parts = ["# Reconstruction risk of one training run", ""]
    if answer:
        parts += [_escaped(answer), ""]
    for text in report.warnings:
        parts += [f"> **Warning.** {_escaped(text)}", ""]
    parts += ["## In plain words", ""]
    parts += [
        f"- **{_escaped(j.question)} {_escaped(capital(j.verdict))}.** {_escaped(j.text)}"
        for j in report.judgements
    ]
    parts += ["", "## The run", "", *markdown_table(("setting", "value"), setting_lines(report))]
    for title, who, entries in sections(report):
        parts += [f"## {title}", "", _escaped(who), ""]
        parts += markdown_table(COLUMNS, [row(e) for e in entries])
        parts += [
            f"- **{_escaped(name)}:** {_escaped(own[0].question)} {_escaped(basis(own[0]))}"
            for name, own in by_kind(entries)
        ]
        parts.append("")
    parts += ["## Not answered, and notes", ""]
    parts += [*(f"- {_escaped(line)}" for line in rest(report)), ""]
    parts += ["## Cited", ""]
    parts += [f"- {_escaped(r.short)}: {_escaped(r.citation)}. <{r.url}>" for r in cited(report)]
    parts += ["", f"reconrisk {report.library_version}, schema version {report.schema_version}"]
    return "\n".join(parts) + "\n"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, and an empty one."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    return ["| " + " | ".join(map(_escaped, line)) + " |" for line in lines] + [""]


def _escaped(text: str) -> str:
    """Escape the characters that are special in Markdown."""
    for sign in "\\|*_<>`[]$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")


# A piece of HTML ---------------------------------------------------------------------------------


def fragment(report: Report) -> str:
    """Return a report as HTML without styles, scripts or pictures, for a notebook."""
    parts = ['<div class="reconrisk-report">']
    parts += [f"<p><strong>Warning.</strong> {escape(text)}</p>" for text in report.warnings]
    parts.append("<dl>")
    parts += [
        f"<dt><strong>{escape(j.question)} {escape(capital(j.verdict))}.</strong></dt>"
        f"<dd>{escape(j.text)}</dd>"
        for j in report.judgements
    ]
    parts.append("</dl><details><summary>Every number</summary>")
    for title, who, entries in sections(report):
        head = "".join(f"<th>{name}</th>" for name in COLUMNS)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row(e)) + "</tr>"
            for e in entries
        )
        parts.append(
            f"<p><strong>{escape(title)}</strong> {escape(who)}</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    lines = "".join(f"<li>{escape(text)}</li>" for text in rest(report))
    parts.append(f"<ul>{lines}</ul>")
    links = (f'<li><a href="{r.url}">{escape(r.short)}</a>: {escape(r.citation)}</li>'
             for r in cited(report))  # fmt: skip
    parts.append(f"<ul>{''.join(links)}</ul></details></div>")
    return "\n".join(parts)
