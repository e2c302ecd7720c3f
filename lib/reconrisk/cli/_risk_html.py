"""A report as one self-contained HTML page: no script, no requests, for phones and for print."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from reconrisk.cli._risk_compared import notes, side_by_side
from reconrisk.risk._numbers import describe_value
from reconrisk.risk._report import collect_references, rest, sections, setting_lines
from reconrisk.risk._text import by_kind, capitalise, place, row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reconrisk.cli._risk_inputs import CliInputs
    from reconrisk.cli._risk_pictures import Picture
    from reconrisk.risk import Entry, Report

__all__ = ["card"]

_STYLE = """\
:root {
  color-scheme: light dark;
  --back: #ffffff; --text: #1c2429; --muted: #55626a; --line: #d5dce0; --card: #f5f8f9;
  --accent: #0f5f73; --grid: #e3e3e3;
  --blue: #0072b2; --orange: #c75500; --green: #00815e; --purple: #8a4f9e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12181b; --text: #e4eaed; --muted: #a5b1b8; --line: #37444b; --card: #1b2327;
    --accent: #86d0e2; --grid: #303b41;
    --blue: #6db9ee; --orange: #ff9a57; --green: #45cfa5; --purple: #cf9fe0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.25rem; max-width: 70rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: break-word;
}
h1 { margin: 0 0 .25rem; font-size: 1.6rem; line-height: 1.25; }
h2 { margin: 2.2rem 0 .4rem; font-size: 1.2rem; line-height: 1.3; color: var(--accent); }
h3 { margin: 0; font-size: 1rem; }
p { margin: .3rem 0; }
.muted, figcaption, dt { color: var(--muted); font-size: .92rem; }
dl { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; margin: .8rem 0; }
dl div { display: flex; gap: .45rem; align-items: baseline; }
dt { white-space: nowrap; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
.warning { padding: .5rem .8rem; border-left: 4px solid var(--orange); background: var(--card); }
.examples { display: grid; grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); gap: .6rem;
  max-width: 52rem; }
.examples img { display: block; width: 100%; image-rendering: pixelated; }
.answer { color: var(--accent); font-weight: 650; }
sup { line-height: 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 1rem; }
figure { margin: 0; padding: .7rem; border: 1px solid var(--line); border-radius: 8px;
  break-inside: avoid; }
figure svg text { fill: var(--text); }
figure svg { display: block; width: 100%; height: auto; max-width: 30rem; margin: 0 auto; }
.entry { margin: .6rem 0; padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 8px;
  background: var(--card); break-inside: avoid; }
details { margin-top: .3rem; font-size: .92rem; }
summary { cursor: pointer; color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
code { font: .9em/1.4 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
footer { margin-top: 2.5rem; padding-top: .6rem; border-top: 1px solid var(--line); }
@media print {
  :root { color-scheme: light; --back: #ffffff; --text: #000000; --muted: #444444;
    --line: #bbbbbb; --card: #ffffff; --accent: #0f5f73; --grid: #e3e3e3;
    --blue: #0072b2; --orange: #c75500; --green: #00815e; --purple: #8a4f9e; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  details::details-content { content-visibility: visible; }
}
"""

#: colours of the figures, and the variables of the page's two themes that replace them
_COLOURS = {
    "#0072b2": "blue",
    "#d55e00": "orange",
    "#009e73": "green",
    "#8a4f9e": "purple",
    "#5f5f5f": "muted",
    "#e3e3e3": "grid",
    "#000000": "text",
    "#ffffff": "back",
}


def card(reports: Sequence[Report], settings: Sequence[CliInputs]) -> str:
    """Return the HTML page of one report, with figures, or of several reports side by side."""
    if len(reports) == 1:
        title = "Reconstruction risk of one training run"
        body = _single_report(reports[0], settings[0])
    else:
        title = "Reconstruction risk, side by side"
        body = _comparison(reports, settings)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{title}</h1>\n{body}\n"
        f'<footer class="muted"><p>Made by reconrisk {escape(reports[0].library_version)}, schema '
        f"version {reports[0].schema_version}. Every number is a bound or a law under the "
        "assumptions beside it, and says nothing of attackers outside them.</p></footer>\n"
        "</body>\n</html>\n"
    )


def _single_report(report: Report, setting: CliInputs) -> str:
    from reconrisk.cli._risk_pictures import pictures

    lines = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in setting_lines(report)
    )
    answer = f"<p>{escape(setting.answer)}</p>" if setting.answer else ""
    warnings = "".join(
        f'<p class="warning"><strong>Warning.</strong> {_powers(text)}</p>'
        for text in report.warnings
    )
    words = "".join(
        f'<article class="entry"><h3>{escape(j.question)} '
        f'<span class="answer">{escape(capitalise(j.verdict))}.</span></h3>'
        f"<p>{_powers(j.text)}</p></article>" + (_examples(report) if j.key == "picture" else "")
        for j in report.judgements
    )
    parts = [
        f"{answer}{warnings}<dl>{lines}</dl>\n</header>\n<main>",
        '<section aria-labelledby="summary"><h2 id="summary">In plain words</h2>'
        f'<div class="summary">{words}</div></section>',
        '<section aria-labelledby="figures"><h2 id="figures">In pictures</h2><div class="figures">',
        *(_figure(number, picture) for number, picture in enumerate(pictures(report))),
        "</div></section>",
    ]
    for number, (title, who, entries) in enumerate(sections(report)):
        parts.append(
            f'<section aria-labelledby="s{number}"><h2 id="s{number}">{escape(title)}</h2>'
            f'<p class="muted">{escape(who)}</p>'
        )
        parts += [_kind(name, own) for name, own in by_kind(entries)]
        parts.append("</section>")
    parts.append(_notes(rest(report)))
    links = "".join(
        f'<li><a href="{r.url}">{escape(r.short)}</a>: {escape(r.citation)}.</li>'
        for r in collect_references(report)
    )
    parts.append(
        f'<section aria-labelledby="cited"><h2 id="cited">Cited</h2><ul>{links}</ul></section>'
    )
    return "\n".join([*parts, "</main>"])


def _comparison(reports: Sequence[Report], settings: Sequence[CliInputs]) -> str:
    names, rows = side_by_side(reports, settings)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("what", *names))
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{_powers(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    given = [
        f"{name}: " + "; ".join(f"{field} {value}" for field, value in setting_lines(report))
        for name, report in zip(names, reports, strict=True)
    ]
    return (
        "</header>\n<main>\n"
        + _list(given)
        + '<div class="wide" role="region" aria-label="Comparison" tabindex="0">'
        + f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
        + _notes(notes(reports, settings))
        + "</main>"
    )


def _examples(report: Report) -> str:
    """A picture as the analytic attack rebuilds it, beside known amounts of noise."""
    from reconrisk.cli._risk_pictures import examples

    shown = "".join(
        f'<figure><img src="data:image/png;base64,{base64.b64encode(e.png).decode()}" '
        f'alt="{escape(e.alt, quote=True)}"><figcaption>{escape(e.caption)}</figcaption></figure>'
        for e in examples(report)
    )
    return f'<div class="examples">{shown}</div>' if shown else ""


def _kind(title: str, entries: Sequence[Entry]) -> str:
    """One kind of entry: its value at each point, its assumptions, tightness and formula."""
    first = entries[0]
    answers = "".join(
        f"<p>{escape(e.question)} "
        f'<strong class="answer">{_powers(capitalise(describe_value(e)))}</strong></p>'
        for e in entries
    )
    more = "".join(f"<li>{escape(text)}</li>" for text in first.assumptions)
    formula = f"<p>Formula: <code>{escape(first.definition)}</code></p>" if first.definition else ""
    function = "" if first.source is None else first.source.function
    return (
        f'<article class="entry"><h3>{escape(title)}</h3>{answers}'
        f'<p class="muted">{escape(capitalise(row(first)[2]))}. From {escape(place(first))}.</p>'
        f"<details><summary>Assumptions, and how tight it is</summary><ul>{more}</ul>"
        f"<p>{escape(first.tightness)}</p>{formula}"
        f"<p>Computed by <code>{escape(function)}</code></p></details></article>"
    )


def _powers(text: str) -> str:
    """Write a number's exponent as a power of ten, in HTML; it does not break."""
    return re.sub(
        r"(?<=[0-9])e([+-])0*([0-9]+)",
        lambda m: f"&nbsp;&times;&nbsp;10<sup>{'&minus;' if m[1] == '-' else ''}{m[2]}</sup>",
        escape(text),
    )


def _notes(lines: Iterable[str]) -> str:
    lines = list(lines)
    if not lines:
        return ""
    return (
        '<section aria-labelledby="notes"><h2 id="notes">Not answered, and notes</h2>'
        f"{_list(lines)}</section>"
    )


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _figure(number: int, picture: Picture) -> str:
    name = f"figure-{number}"
    drawing = _svg(picture.figure, name, picture.alt)
    return (
        f"<figure>{drawing}<figcaption><strong>{escape(picture.title)}.</strong> "
        f"{escape(picture.caption)}</figcaption></figure>"
    )


def _svg(figure: Figure, name: str, alt: str) -> str:
    """Return a figure as an inline SVG in the page's colours, with text kept as text."""
    from matplotlib import style

    own = {"svg.fonttype": "none", "svg.hashsalt": name}
    buffer = io.StringIO()
    with style.context(["default", own]):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"#[0-9a-fA-F]{6}", lambda m: _theme(m.group()), text)
    text = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font: \1px system-ui, sans-serif", text)
    text = _unique_ids(text)
    opening = f'<svg role="img" aria-label="{escape(alt, quote=True)}" '
    return opening + re.sub(r' (?:width|height)="[0-9.]+pt"', "", text[len("<svg ") :], count=2)


def _unique_ids(text: str) -> str:
    """Remove the ids that nothing refers to, and repeated ids."""
    used, seen = set(re.findall(r"#([\w-]+)", text)), set()

    def once(match: re.Match[str]) -> str:
        name = match[1]
        if name not in used or name in seen:
            return ""
        seen.add(name)
        return match[0]

    return re.sub(r' id="([^"]*)"', once, text)


def _theme(colour: str) -> str:
    variable = _COLOURS.get(colour.lower())
    return colour if variable is None else f"var(--{variable})"
