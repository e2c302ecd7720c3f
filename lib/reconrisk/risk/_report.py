"""Reports, and their text: plain at any width, in Markdown, and as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import Any

from reconrisk.privacy._samplers import NEIGHBOURS
from reconrisk.risk._correlated import CorrelatedRun, given_noise
from reconrisk.risk._entries import THREAT_MODELS, Entry
from reconrisk.risk._judgement import Judgement, judgements
from reconrisk.risk._kinds import Setting
from reconrisk.risk._numbers import describe_value, says_nothing, short
from reconrisk.risk._phases import describe_phases
from reconrisk.risk._references import REFERENCES, Reference
from reconrisk.risk._settings import Questions, Record, TrainingRun, TwoLayerModel
from reconrisk.risk._text import (
    COLUMNS,
    PAPERS,
    basis,
    by_kind,
    capitalise,
    columns,
    is_never,
    left_out,
    markdown_table,
    quote,
    row,
    titles_of,
    wrap,
)
from reconrisk.risk._warnings import warnings_of

__all__ = [
    "SCHEMA_VERSION",
    "Report",
    "collect_references",
    "fragment",
    "markdown",
    "nothing_useful",
    "plain",
    "rest",
    "sections",
    "setting_lines",
]

#: Version of :meth:`Report.as_dict`; it increases when a field changes its meaning or is removed.
SCHEMA_VERSION = 1


@dataclass(frozen=True, repr=False)
class Report:
    """The entries of every threat model for one run; made by :func:`assess`.

    ``report["rero[prior_size=10]"]`` is one entry, ``report.of("matching")`` holds those of a
    threat model, ``report.kind("rero")`` those of a kind.

    Attributes
    ----------
    schema_version : int
    library_version : str
    run : TrainingRun
    record : Record
    questions : Questions
    model : TwoLayerModel or None
    entries : tuple of Entry
    notes : tuple of str
        Remarks on the report as a whole.
    """

    schema_version: int
    library_version: str
    run: TrainingRun
    record: Record
    questions: Questions
    model: TwoLayerModel | None
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Entry:
        for entry in self.entries:
            if entry.key == key:
                return entry
        raise KeyError(f"{key}; the report has {', '.join(entry.key for entry in self.entries)}")

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __contains__(self, key: str) -> bool:
        return any(entry.key == key for entry in self.entries)

    def of(self, threat_model: str) -> tuple[Entry, ...]:
        """Return the entries of a threat model; raise KeyError if its key is unknown."""
        if threat_model not in THREAT_MODELS:
            raise KeyError(threat_model)
        return tuple(e for e in self.entries if e.threat_model == threat_model)

    def kind(self, kind: str) -> tuple[Entry, ...]:
        """Return the entries of one kind."""
        return tuple(e for e in self.entries if e.kind == kind)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before any number: about delta, the sampling rate, the sampler."""
        return warnings_of(self.run, self.record)

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """For each attacker a verdict and a sentence with its numbers, in plain words."""
        setting = Setting(self.run, self.record, self.questions, self.model)
        return judgements(setting, self.entries)

    @property
    def nothing_useful(self) -> tuple[Entry, ...]:
        """Entries whose value is always true, or out of any range that a person can use."""
        return tuple(e for e in self.entries if says_nothing(e, self.record, self.run.dataset_size))

    def __repr__(self) -> str:
        run = self.run
        noise = run.noise_multiplier if run.gaussian else run.concentration
        known = "" if noise is None else f" noise {noise:g}"
        return (
            f"<Report: {run.mechanism}{known}, sampling rate {run.sampling_rate:g}, "
            f"{run.steps:,} steps, {len(self.entries)} entries>"
        )

    def __str__(self) -> str:
        """The report in plain text, 80 columns wide: warnings, judgements, every number."""
        return plain(self)

    def to_html(self) -> str:
        """Return what a notebook shows: warnings, judgements, and the numbers folded.

        A fragment, to be put into a page. ``reconrisk risk --format html`` writes a page
        of its own, with figures.

        Returns
        -------
        str

        Examples
        --------
        >>> from reconrisk import risk
        >>> run = risk.training_run(noise_multiplier=1.0, sampling_rate=1.0, steps=1)
        >>> risk.assess(run, risk.record(dimension=100)).to_html().startswith("<")
        True
        """
        return fragment(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values: strings, finite numbers, None, lists and dictionaries.

        The form is fixed by ``schema_version``; fields may be added within a version.
        """
        return {
            "schema_version": self.schema_version,
            "library_version": self.library_version,
            "run": self.run.as_dict(),
            "record": _as_json(asdict(self.record)),
            "questions": _as_json(asdict(self.questions)),
            "model": None if self.model is None else self._model(),
            "threat_models": [asdict(t) for t in THREAT_MODELS.values()],
            "warnings": list(self.warnings),
            "judgements": [_as_json(asdict(j)) for j in self.judgements],
            "references": [asdict(r) for r in REFERENCES.values()],
            "entries": [entry.as_dict() for entry in self.entries],
            "nothing_useful": [entry.key for entry in self.nothing_useful],
            "notes": list(self.notes),
        }

    def _model(self) -> dict[str, Any]:
        """The model's fields, without its matrices."""
        assert self.model is not None
        names = self.model.__dataclass_fields__
        plain = {k: getattr(self.model, k) for k in names if k not in ("information", "inputs")}
        plain["exact_information"] = self.model.information is not None
        return plain


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def setting_lines(report: Report) -> list[tuple[str, str]]:
    """Return the settings of a report, given or derived, as names and values."""
    run, record = report.run, report.record
    of_run: tuple[str, ...] = (
        "noise_multiplier", "concentration", "sampling_rate", "steps", "max_grad_norm",
        "batch_size", "dataset_size", "epochs", "parameters", "delta",
    )  # fmt: skip
    lines = [("mechanism", run.mechanism)]
    if run.adjacency is not None:
        lines.append(("adjacency", f"{run.adjacency} ({NEIGHBOURS[run.adjacency]} in its place)"))
    if isinstance(run, CorrelatedRun):  # its equivalent is a run that nobody trained
        of_run = of_run[4:]
        lines += [
            ("noise multiplier before it is decoded", short(given_noise(run))),
            ("noise", f"correlated between {run.words}"),
            ("as private as", f"noise multiplier {short(run.noise_multiplier)}, sampling rate "
             f"{short(run.sampling_rate)}, steps {short(run.steps)}"),
        ]  # fmt: skip
    if run.phases:  # one noise multiplier and one rate would be those of no phase
        of_run = of_run[3:]
        lines.append((f"{len(run.phases):,} phases", describe_phases(run.phases)))
    if run.guarantee_of_noise:
        lines[0] = ("sampler", run.sampler)
    elif run.guarantee is not None:  # its words say what is known of the run
        of_run, lines = ("dataset_size", "delta"), [("guarantee", run.guarantee.description)]
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


def nothing_useful(report: Report) -> str:
    """Return the line for all entries that are always true or out of range; "" without any."""
    if not report.nothing_useful:
        return ""
    return (
        "Nothing useful, because always true or out of any range a person can use: "
        f"{titles_of(report.nothing_useful)}."
    )


def never(report: Report) -> str:
    """Return the line for successes of a chance that nobody can tell from zero; "" without any."""
    rows = [
        f"{entry.title} ({describe_value(entry)})" for entry in report.entries if is_never(entry)
    ]
    return f"Practically never, under their assumptions: {'; '.join(rows)}." if rows else ""


def rest(report: Report) -> list[str]:
    """Return what follows the tables: collapsed entries, those left out, the notes."""
    collapsed = filter(None, [nothing_useful(report), never(report)])
    return [*collapsed, *left_out(report.entries), *report.notes]


def sections(report: Report) -> list[tuple[str, str, list[Entry]]]:
    """Return title, attacker and entries of each threat model with a value of some use."""
    useless = {entry.key for entry in report.nothing_useful}
    useless |= {entry.key for entry in report.entries if is_never(entry)}
    return [
        (model.title, f"Sees {model.sees}; knows {model.knows}; succeeds: {model.success}.", own)
        for key, model in THREAT_MODELS.items()
        if (own := [e for e in report.of(key) if e.status == "ok" and e.key not in useless])
    ]


def collect_references(report: Report) -> list[Reference]:
    """Return the publications that the report's sentences rely on."""
    used = {key for judgement in report.judgements for key in judgement.references}
    if report.run.sampling_rate < 1.0:
        used.add("chua2024")
    return [reference for key, reference in REFERENCES.items() if key in used]


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
    lines = wrap(answer, width) + [""] if answer else []
    for text in report.warnings:
        lines += [*wrap(f"Warning: {text}", width, "", "  "), ""]
    settings = "; ".join(f"{name} {value}" for name, value in setting_lines(report))
    lines += [*wrap(settings, width), "", "In plain words", ""]
    for judgement in report.judgements:
        lines += wrap(f"{judgement.question} {capitalise(judgement.verdict)}.", width)
        lines += [*wrap(judgement.text, width, "  ", "  "), ""]
    for title, who, entries in sections(report):
        lines += [*wrap(title, width), *wrap(who, width, "  ", "  "), ""]
        lines += [*columns(COLUMNS, [row(e, short=True) for e in entries], width), ""]
        if details:
            for name, own in by_kind(entries):
                lines += wrap(f"{name}: {basis(own[0])}", width, "  ", "    ")
            lines.append("")
    for text in rest(report):
        lines += wrap(text, width, "- ", "  ")
    letters = [paper.replace(", ", ": ") for paper in PAPERS.values() if ", " in paper]
    lines += ["", *wrap(f"From {'; '.join(letters)}; own: this companion's.", width)]
    for reference in collect_references(report):
        lines += wrap(f"{reference.short}: {reference.citation}.", width, "", "  ")
    return "\n".join(lines) + "\n"


def markdown(report: Report, answer: str = "") -> str:
    """Return a report as a page of Markdown, with assumptions and tightness."""
    parts = ["# Reconstruction risk of one training run", ""]
    if answer:
        parts += [quote(answer), ""]
    for text in report.warnings:
        parts += [f"> **Warning.** {quote(text)}", ""]
    parts += ["## In plain words", ""]
    parts += [
        f"- **{quote(j.question)} {quote(capitalise(j.verdict))}.** {quote(j.text)}"
        for j in report.judgements
    ]
    parts += ["", "## The run", "", *markdown_table(("setting", "value"), setting_lines(report))]
    for title, who, entries in sections(report):
        parts += [f"## {title}", "", quote(who), ""]
        parts += markdown_table(COLUMNS, [row(e) for e in entries])
        parts += [
            f"- **{quote(name)}:** {quote(own[0].question)} {quote(basis(own[0]))}"
            for name, own in by_kind(entries)
        ]
        parts.append("")
    parts += ["## Not answered, and notes", ""]
    parts += [*(f"- {quote(line)}" for line in rest(report)), ""]
    parts += ["## Cited", ""]
    parts += [
        f"- {quote(r.short)}: {quote(r.citation)}. <{r.url}>" for r in collect_references(report)
    ]
    parts += ["", f"reconrisk {report.library_version}, schema version {report.schema_version}"]
    return "\n".join(parts) + "\n"


def fragment(report: Report) -> str:
    """Return a report as HTML without styles, scripts or pictures, for a notebook."""
    parts = ['<div class="reconrisk-report">']
    parts += [f"<p><strong>Warning.</strong> {escape(text)}</p>" for text in report.warnings]
    parts.append("<dl>")
    parts += [
        f"<dt><strong>{escape(j.question)} {escape(capitalise(j.verdict))}.</strong></dt>"
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
             for r in collect_references(report))  # fmt: skip
    parts.append(f"<ul>{''.join(links)}</ul></details></div>")
    return "\n".join(parts)
