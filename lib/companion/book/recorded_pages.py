"""The recorded runs of ``data/recorded/`` in the book: below their exhibits, and on one page.

``companion run EXHIBIT --no-figure --out data/recorded/EXHIBIT`` makes a record. It holds what ran,
where and for how long; its figure is drawn from its tables when the book is built. The notebook's
run stays the quick one, which everyone can repeat.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from companion.book.markdown import (
    checked,
    escape,
    exhibit_link,
    list_table,
    listed,
    one_line,
    slug,
    tally,
)
from companion.study import registry
from companion.study.exhibits import Exhibit, describe_figure, find_exhibit
from companion.study.progress import duration
from companion.study.recorded import Judging, Recorded, list_differences, list_unrecorded
from companion.study.records import RECORDED, Record
from companion.study.results import verdict_table
from companion.study.verdicts import Verdict

__all__ = ["alternative", "recorded_block", "recorded_page"]

# a longer table is linked, not printed, and so is one whose cells are data rather than numbers
_MOST_ROWS, _MOST_LETTERS = 70, 500
# what is smaller is printed as below it: the files have the digits
_NOTHING = 1e-30
# digits of a checksum that are printed; the record has all
_SHOWN_DIGITS = 12


def recorded_block(
    exhibit: Exhibit,
    record: Record,
    judging: Judging,
    source: Callable[[str], str],
    picture: str = "",
) -> str:
    """Return the Markdown of an exhibit's recorded run.

    Parameters
    ----------
    exhibit : Exhibit
    record : Record
    judging : Judging
        The verdicts that count.
    source : callable
        From a file of the project to the address at which it can be read.
    picture : str
        The recorded figure's file, from the page that shows it; empty if there is none.
    """
    origin = record.provenance
    memory = "" if origin.peak_memory_gb is None else f" and {origin.peak_memory_gb:g} GB of memory"
    frozen = f" Its verdicts are those of the run: {escape(judging.lacks)}." * bool(judging.lacks)
    ran = escape(record.ran).rstrip(".")
    about = (
        f"{{doc}}`Recorded </book/generated/recorded>`: {ran}. Run on {origin.time[:10]} "
        f"on {_machine(record)}, seed {origin.seed}, in "
        f"{duration(origin.seconds or 0.0)} (tasks kept from earlier runs not counted)"
        f"{memory}; code of commit `{origin.commit[:10]}`.{_earlier_runs(record)} "
        f"{_data(record)[0]} "
        f"{_differing_sentence(exhibit, record)}{frozen}"
    )
    parts = [
        "::::::{div} recorded-run",
        "**Recorded run.**",
        "",
        *(_figure(exhibit, record, picture) if picture else []),
        "",
        *_details(exhibit, record, judging.verdicts, source, about),
        "::::::",
    ]
    return "\n".join(parts)


def alternative(exhibit: str, record: Record) -> str:
    """Return the alternative text of a recorded run's figure."""
    words = describe_figure(find_exhibit(exhibit).file, record.tables)
    return f"From the recorded run. {one_line(words.get('alt', ''))}"


def _figure(exhibit: Exhibit, record: Record, picture: str) -> list[str]:
    words = describe_figure(exhibit.file, record.tables)
    return [
        f":::::{{figure}} {picture}",
        f":name: fig-recorded-{slug(exhibit.id)}",
        f":alt: {alternative(exhibit.id, record)}",
        "",
        f"{escape(words.get('caption', '')).rstrip('.')}.",
        ":::::",
        "",
    ]


def _details(
    exhibit: Exhibit,
    record: Record,
    verdicts: Sequence[Verdict],
    source: Callable[[str], str],
    about: str,
) -> list[str]:
    """Return the folded parts: verdicts; provenance and tables."""
    parts = [
        f":::::{{dropdown}} {checked(verdicts)}",
        ":class-container: exhibit-details",
        "",
        "```{raw} html",
        verdict_table(verdicts),
        "```",
        ":::::",
        "",
        ":::::{dropdown} What ran",
        ":class-container: exhibit-details",
        "",
        about,
        "",
    ]
    for name, table in record.frames.items():
        path = (RECORDED / exhibit.id / f"{name}.csv").as_posix()
        link = f"[{escape(name.replace('-', ' '))}]({source(path)})"
        letters = max((len(str(v)) for v in table.to_numpy().flat), default=0)
        short = len(table) <= _MOST_ROWS and letters <= _MOST_LETTERS
        parts += [f"{link}:" if short else f"{link}, {len(table)} rows.", ""]
        if short:
            parts.append(_table(table))
    return [*parts, ":::::"]


def _differing_sentence(exhibit: Exhibit, record: Record) -> str:
    words = [
        f"`{d.name}` {escape(listed(d.ran))} instead of {escape(listed(d.paper))}"
        for d in list_differences(record, exhibit)
    ]
    if not words:
        return "All parameters are the paper profile's."
    return f"Parameters other than the paper profile's: {', '.join(words)}."


def _earlier_runs(record: Record) -> str:
    """Return a sentence for each earlier run with which the last one was put together."""
    last, sentences = record.provenance.parameters, []
    for run in record.provenance.earlier:
        own = [f"`{n}` {escape(listed(v))}" for n, v in run["parameters"].items() if v != last[n]]
        took = f"{run['time'][:10]}, {duration(run['seconds'] or 0.0)}"
        sentences.append(f" {', '.join(own)}: {took}, commit `{run['commit'][:10]}`.")
    return "".join(sentences)


def _machine(record: Record) -> str:
    origin = record.provenance
    return f"{escape(origin.device)} ({escape(origin.platform)})"


def _data(record: Record) -> tuple[str, str]:
    """Return the data files that were read, as a sentence and as an entry of a table."""
    inputs = sorted(record.provenance.inputs.items())
    if inputs:
        files = [f"{escape(name)} `{sum_[:_SHOWN_DIGITS]}`" for name, sum_ in inputs]
        return f"Data read: {', '.join(files)}.", "; ".join(files)
    cost = registry.costs().get(record.provenance.exhibit)
    if cost is None or not cost.needs_data:
        return "It reads no data file.", "none"
    return (
        f"It read {escape(cost.needs_data)}; the record is older than checksums of data.",
        f"{escape(cost.needs_data)}, no checksum kept",
    )


def _table(table: pd.DataFrame) -> str:
    def cell(value: object) -> str:
        if isinstance(value, float):
            if 0.0 < value < _NOTHING:
                return f"below {_NOTHING:g}"
            return "" if pd.isna(value) else f"{value:.4g}"
        return escape(str(value))

    rows = [tuple(cell(v) for v in row) for row in table.itertuples(index=False)]
    header = tuple(escape(str(c)) for c in table.columns)
    return list_table(header, rows, widths=(1,) * len(header), classes="recorded-table")


# The page of all of them --------------------------------------------------------------------------


def recorded_page(recorded: Recorded, project: Path, source: Callable[[str], str]) -> str:
    """Return the page of all recorded runs, and of the exhibits without one.

    Parameters
    ----------
    recorded : Recorded
    project : Path
    source : callable
        From a file of the project to the address at which it can be read.
    """
    parts = [
        "# Recorded runs",
        "The notebooks run the quick profile, which everyone can repeat in minutes. What the "
        "papers' own data and sizes give was computed once, for as long as the machines allowed, "
        "and is kept as tables with their provenance. Where an exhibit has such a record, its "
        "verdicts are the ones that count in the ledgers, and the quick ones stand beside them.",
        "`companion verdicts --profile recorded` lists the verdicts of both. Each record holds the "
        "commit of the code, every parameter, the seed and, since it is kept, the checksum of the "
        "data, so that the run can be repeated. A test computes one point of each again.",
        f"## {_counted(len(recorded.records), 'record')}",
    ]
    if recorded.records:
        parts.append(
            "Parameters are given where they are not the paper profile's, with that profile's "
            "value in brackets; checksums by their first digits. Photographs are of "
            "ImageNet's; they are their owners' and not kept here."
        )
        header = ("Exhibit", "Run, data", "Parameters", "Verdicts")
        rows = [
            _row(exhibit, record, recorded.judgings[exhibit].verdicts, source)
            for exhibit, record in _in_order(recorded)
        ]
        parts.append(list_table(header, rows, widths=(18, 32, 28, 22), classes="records"))
    if recorded.problems:
        problems = "\n".join(f"- {escape(problem)}" for problem in recorded.problems)
        parts += ["What is wrong with them:", problems]
    costs = [
        (
            exhibit_link(c.exhibit, _name(c.exhibit)),
            escape(c.needs_data),
            f"{duration(float(c.seconds))}, {escape(c.memory_gb)} GB, {escape(c.device)}",
            escape(c.basis),
        )
        for c in list_unrecorded(project)
    ]
    parts += [
        f"## {_counted(len(costs), 'exhibit')} without a record",
        "They read data and have been run in the quick profile only. The cost is that of the paper "
        "profile.",
    ]
    if costs:
        header = ("Exhibit", "Reads", "Would take", "Known from")
        parts.append(list_table(header, costs, widths=(26, 20, 26, 28), classes="costs"))
    return "\n\n".join(parts) + "\n"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)


def _in_order(recorded: Recorded) -> list[tuple[str, Record]]:
    order = {exhibit: i for i, exhibit in enumerate(registry.exhibits())}
    return sorted(recorded.records.items(), key=lambda item: order.get(item[0], len(order)))


def _name(exhibit: str) -> str:
    row = registry.exhibit(exhibit)
    return f"{registry.PAPERS[row.paper_key]}, {row.place}"


def _row(
    exhibit: str, record: Record, verdicts: Sequence[Verdict], source: Callable[[str], str]
) -> tuple[str, str, str, str]:
    origin = record.provenance
    seconds = sum(float(run["seconds"] or 0.0) for run in origin.earlier) + (origin.seconds or 0.0)
    ran = f"{origin.time[:10]}, {_machine(record)}, {duration(seconds)}"
    memory = "" if origin.peak_memory_gb is None else f", {origin.peak_memory_gb:g} GB"
    changed = [
        f"`{d.name}` {escape(listed(d.ran))} ({escape(listed(d.paper))})"
        for d in list_differences(record, find_exhibit(exhibit))
    ]
    tables = _counted(len(record.frames), "table")
    files = f"[{tables}]({source((RECORDED / exhibit).as_posix())})"
    return (
        f"{exhibit_link(exhibit, _name(exhibit))}\n\n{files}",
        f"{ran}{memory}\n\nData: {_data(record)[1]}",
        ", ".join(changed) or "the paper's",
        tally(v.status for v in verdicts),
    )
