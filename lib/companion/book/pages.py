"""The book's generated pages: exhibit index, claim ledger, errata, and the tables of other pages.

They are computed from the registry and from the verdicts stored in notebooks and records.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pandas as pd

from companion.book.costs_page import costs_page
from companion.book.downloads import Files
from companion.book.explorer import explorer_presets, explorer_report
from companion.book.gallery import Gallery, Shown
from companion.book.markdown import (
    anchor,
    badge,
    escape,
    exhibit_link,
    list_table,
    one_line,
    slug,
    tally,
)
from companion.book.print_against_ours import figure_of_print, how_near, in_print
from companion.book.recorded_pages import alternative, recorded_page
from companion.book.sources import bibtex
from companion.study import all_exhibits, find_exhibit, registry
from companion.study.registry import PAPERS, WEIGHTS, Claim, Defence, Erratum, Exhibit
from companion.study.verdicts import STATUSES, Verdict

__all__ = ["status_badges", "write_pages"]

#: the errata that are told unfolded
_HEAVIEST = next(iter(WEIGHTS))

THUMBNAIL_WIDTH = 512  # pixels; one page has more than a hundred

#: how a finding of the first page is cited, by the first of them
_FINDING = 'Finding: the "optimal" copy is beaten at every image (found-shrinkage)'

Row = TypeVar("Row", Exhibit, Claim, Erratum)


def write_pages(
    folder: Path,
    gallery: Gallery,
    project: Path,
    source: Callable[[str], str],
    files: Files | None = None,
) -> None:
    """Write every generated page and fragment.

    Parameters
    ----------
    folder : Path
        ``book/generated`` of the book's source.
    gallery : Gallery
        The exhibits of the notebooks, and the records.
    project : Path
        The checkout.
    source : callable
        From a file of the project to the address at which it can be read.
    files : Files, optional
        Figures drawn as vectors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = files or Files()
    pictures = _thumbnails(folder / "thumbnails", gallery)
    numbers = pd.DataFrame() if files.tables is None else in_print(gallery, files.tables)
    pages = {
        "exhibits.md": _exhibits(gallery, pictures, figure_of_print(folder / "print", numbers)),
        "claims.md": _claims(gallery),
        "errata.md": _errata(gallery),
        "recorded.md": recorded_page(gallery.recorded, project, source),
        "_explorer_presets.md": explorer_presets(),
        "_explorer_report.md": explorer_report(),
        "_summary.md": _summary(gallery) + ("" if numbers.empty else f"\n{how_near(numbers)}\n"),
        "_stand_ins.md": _stand_ins(gallery),
        "_deep_attacks.md": _deep_attacks(gallery),
        "_threat_models.md": _threat_models(),
        "_costs.md": costs_page(),
        "_bibtex.md": f"```bibtex\n{bibtex(project / 'CITATION.cff')}\n```\n",
        "_bibtex_finding.md": f"```bibtex\n{bibtex(project / 'CITATION.cff', _FINDING)}\n```\n",
    }
    pages |= {f"_status_{key}.md": _status(gallery, key) for key in PAPERS}
    pages |= _figures(folder / "figures", gallery, files)
    pages["claims.md"] += _untouched()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def _figures(folder: Path, gallery: Gallery, files: Files) -> dict[str, str]:
    """Store the exhibits' figures; return a fragment for each, for pages outside the notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    fragments = {}
    for exhibit, shown in gallery.shown.items():
        if shown.picture is None or shown.result is None:
            continue
        name = slug(exhibit)
        picture, alt = files.staged(exhibit), shown.result["alt"]
        if not picture:
            (folder / f"{name}.png").write_bytes(shown.picture)
            picture = f"/book/generated/figures/{name}.png"
        row = registry.exhibit(exhibit)
        ours = row.paper_key == "beyond"
        recorded = files.staged(f"{exhibit}-recorded")
        if recorded and not ours:  # a paper's page shows the paper's own data
            picture, alt = recorded, alternative(exhibit, gallery.recorded.records[exhibit])
        paper = "" if ours else f"{escape(PAPERS[row.paper_key])}, "
        verdict = "" if ours else badge(gallery.status(exhibit))
        title = escape(row.title).rstrip(".")
        fragments[f"_figure_{name}.md"] = "\n".join(
            [
                f":::{{figure}} {picture}",
                f":alt: {one_line(alt)}",
                ":align: center",
                "",
                f"{paper}{exhibit_link(exhibit)}: {title}. {verdict}".rstrip(),
                ":::",
                "",
            ]
        )
    return fragments


# --- counting ---------------------------------------------------------------------------------


def _of_paper(rows: Mapping[str, Row], paper_key: str) -> list[Row]:
    return [row for row in rows.values() if row.paper_key == paper_key]


def _whole(paper_key: str) -> list[Exhibit]:
    """Return the paper's computable exhibits, without the panels of figures."""
    every = _of_paper(registry.exhibits(), paper_key)
    return [e for e in every if e.computable and registry.parent_of(e.id) == e.id]


def status_badges(gallery: Gallery, target: str) -> str:
    """Return badges of a target's verdicts by the recorded run and by the notebook.

    The first is the verdict that counts.
    """
    recorded = gallery.recorded.status(target)
    if not recorded:
        return badge(gallery.status(target))
    first, second = gallery.status(target), gallery.shown_status(target)
    profile = gallery.profile(target)
    if first == recorded == second:
        return f"{badge(first)} recorded and {profile} run"
    words = f"{badge(recorded)} recorded run"
    if first != recorded:  # an exhibit without a record has a worse verdict
        words = f"{badge(first)} in all; {words}"
    return f"{words}, {badge(second)} {profile} run"


# --- pages ------------------------------------------------------------------------------------


def _thumbnails(folder: Path, gallery: Gallery) -> dict[str, str]:
    """Write a small copy of every stored picture; return their paths from the generated pages."""
    from PIL import Image

    folder.mkdir(exist_ok=True)
    paths = {}
    for exhibit_id, shown in gallery.shown.items():
        if shown.picture is None:
            continue
        left, top, right, bottom = find_exhibit(exhibit_id).thumbnail
        with Image.open(io.BytesIO(shown.picture)) as full:
            box = left * full.width, top * full.height, right * full.width, bottom * full.height
            size = THUMBNAIL_WIDTH, round((box[3] - box[1]) * THUMBNAIL_WIDTH / (box[2] - box[0]))
            small = full.convert("RGB").resize(size, Image.Resampling.LANCZOS, box)
        # lines are lighter as PNG, photographs as JPEG
        as_png, as_jpeg = io.BytesIO(), io.BytesIO()
        small.quantize(32).save(as_png, "PNG", optimize=True)
        small.save(as_jpeg, "JPEG", quality=80, optimize=True)
        ending, lighter = min(
            ("png", as_png.getvalue()), ("jpg", as_jpeg.getvalue()), key=lambda pair: len(pair[1])
        )
        name = f"{slug(exhibit_id)}.{ending}"
        (folder / name).write_bytes(lighter)
        paths[exhibit_id] = f"thumbnails/{name}"
    return paths


def _exhibits(gallery: Gallery, pictures: dict[str, str], overview: Sequence[str]) -> str:
    every = [e for key in PAPERS for e in _whole(key)]
    done = sum(gallery.status(e.id) != "pending" for e in every)
    parts = [
        "# Exhibits",
        "Every figure, table, algorithm and theorem of the five papers, and the companion's own "
        "results, with the verdict that was computed last. Where a run on the papers' own data has "
        "been recorded ({doc}`all of them </book/generated/recorded>`), its verdict counts and the "
        "quick run's is given beside it.",
        f"**{done} of {len(every)} are built, {len(every) - done} are pending.** "
        f"By verdict: {tally(gallery.status(e.id) for e in every)}.",
        "\n".join(overview),
    ]
    for key, title in PAPERS.items():
        rows = _whole(key)
        if not rows:
            continue
        done = sum(gallery.status(e.id) != "pending" for e in rows)
        parts += [f"## {title}", f"{done} of {len(rows)} built."]
        cards = [_card(e, gallery, pictures) for e in rows]
        parts.append("\n".join([":::::{grid} 1 2 2 2", ":gutter: 2", "", *cards, ":::::"]))
        stated = [e for e in _of_paper(registry.exhibits(), key) if not e.computable]
        if stated:
            labels = "\n".join(f"({e.anchor})=" for e in stated)
            names = "; ".join(
                f"{escape(e.place)} ({escape(e.title)}), {escape(e.headline_claims)}"
                for e in stated
            )
            parts.append(
                f"{labels}\nStated on {{doc}}`the paper's page </book/papers/{key}>`, without a "
                f"verdict of their own: {names}."
            )
    return "\n\n".join(parts) + "\n"


def _card(exhibit: Exhibit, gallery: Gallery, pictures: dict[str, str]) -> str:
    shown = gallery.cell_of(exhibit.id)
    lines = ["::::{grid-item-card}", ":class-card: exhibit-card"]
    if shown is not None:
        lines += [f":link: {exhibit.anchor}", ":link-type: ref"]
        lines.append(f":link-alt: {one_line(f'{exhibit.place} of {PAPERS[exhibit.paper_key]}')}")
    if exhibit.id in pictures:
        result = (shown.result if shown is not None else None) or {}
        alt = one_line(result.get("alt", exhibit.title))
        lines += [f":img-top: {pictures[exhibit.id]}", f":img-alt: {alt}"]
    panels = registry.panels_of(exhibit.id)
    lines.append("")
    if shown is None:  # no notebook shows it yet: references to it lead here
        lines += [f"({e.anchor})=" for e in (exhibit, *panels)]
    lines.append(f"**{escape(exhibit.place)}** {status_badges(gallery, exhibit.id)}")
    lines += ["", escape(exhibit.title)]
    return "\n".join([*lines, "::::", ""])


FILTER = """\
```{raw} html
<form class="ledger-filter" role="search" hidden>
<label>Show rows with <input type="search" name="text" autocomplete="off"></label>
<label>and verdict <select name="verdict"><option value="">any</option>%s</select></label>
<output aria-live="polite"></output>
</form>
<script src="../../_static/ledger.js" defer></script>
```"""


def _claims(gallery: Gallery) -> str:
    claims = registry.claims()
    statuses = {target: gallery.status(target) for target in claims}
    options = "".join(
        f'<option value="{s}">{s}</option>' for s in STATUSES if s in set(statuses.values())
    )
    parts = [
        "# Claim ledger",
        "Every checkable statement of the five papers and of this companion, and what became of "
        "it. The link leads to the exhibit that checks it, whose folds have the numbers. Where a "
        "run on the papers' own data has been recorded, its verdict counts.",
        f"{len(claims)} claims: {tally(statuses.values())}.",
        FILTER % options,
    ]
    for key, title in PAPERS.items():
        rows = [
            (
                f"({anchor('claim', c.id)})=\n{escape(c.id)}",
                f"{escape(c.claim)} *{escape(c.place)}*",
                status_badges(gallery, c.id),
                _homes(gallery.verdicts_for(c.id)) or escape(c.how_to_check),
            )
            for c in _of_paper(claims, key)
        ]
        if rows:
            header = ("Id", "Claim", "Verdict", "Checked at")
            table = list_table(header, rows, widths=(10, 56, 16, 18), classes="ledger")
            parts.append(f"::::{{dropdown}} {title}: {len(rows)} claims\n{table}::::")
    return "\n\n".join(parts) + "\n"


def _homes(judged: Sequence[tuple[Shown, Verdict]]) -> str:
    """Return links to the cells that computed the verdicts."""
    return ", ".join(dict.fromkeys(exhibit_link(shown.exhibit) for shown, _ in judged))


def _errata(gallery: Gallery) -> str:
    parts = [
        "# Errata",
        "Statements in the papers that are wrong as printed, each with the statement that holds "
        "and the computation that shows both, those first on which most depends. What has a value "
        "is decided by a computation. That a name is the wrong one, as that of the norm in "
        "{ref}`E-A-04 <erratum-e-a-04>`, is read from the rest of the paper. Each gives the "
        "reading that we take, the best answer its authors could give, and why it stands "
        "nonetheless. *Reproduced* is what holds as corrected, where the fault may be our text's.",
    ]
    for weight, heading in WEIGHTS.items():
        rows = [e for e in registry.errata().values() if e.weight == weight]
        if rows:
            parts.append(f"## {heading}")
        for e in rows:
            shown_at = _homes(gallery.verdicts_for(e.id)) or exhibit_link(e.exhibit)
            said = (
                ("Printed", escape(e.printed)),
                ("Corrected", escape(e.corrected)),
                ("Computed", f"{status_badges(gallery, e.id)} at {shown_at}"),
            )
            parts += [
                f"({anchor('erratum', e.id)})=\n"
                f"### {escape(e.id)}: {escape(PAPERS[e.paper_key])}, {escape(e.place)}",
                *([_terms(said), *_defence(e)] if weight == _HEAVIEST else _defence(e, said)),
            ]
    if not registry.errata():
        parts.append("None has been computed yet.")
    return "\n\n".join([*parts, *_differing(gallery)]) + "\n"


def _terms(said: Iterable[tuple[str, str]]) -> str:
    return "\n\n".join(f"{term}\n: {text}" for term, text in said if text)


def _defence(row: Defence, before: Sequence[tuple[str, str]] = ()) -> Iterator[str]:
    """Yield the reading, the defence and the answer to it, folded with what stands before."""
    said = _terms(
        (
            *before,
            ("As we read it", escape(row.reading)),
            ("In its defence", escape(row.defence)),
            ("It stands because", escape(row.stands_because)),
        )
    )
    title = "What is printed, and what holds" if before else "In its defence, and why it stands"
    if said:
        yield f"::::{{dropdown}} {title}\n:class-container: argument\n\n{said}\n::::"


def _differing(gallery: Gallery) -> Iterator[str]:
    """Yield the section of exhibits and claims that differ without a statement being wrong."""
    errata = registry.errata()
    rows = [d for d in registry.defences().values() if d.id not in errata]
    if rows:
        yield "## Results that come out differently here"
        yield (
            "Measurements and remarks that differ from ours. That does not make them wrong: data, "
            "networks and sizes are not always the paper's."
        )
    for row in rows:
        judged = gallery.verdicts_for(row.id)
        paper = PAPERS[_paper_of(row.id)]
        yield f"### {escape(row.id)}: {escape(paper)}, {escape(registry.place_of(row.id))}"
        if row.id in registry.claims():
            yield f"Claimed\n: {escape(registry.claims()[row.id].claim)}"
        yield f"Computed\n: {status_badges(gallery, row.id)} at {_homes(judged)}"
        yield from _defence(row)


def _paper_of(target: str) -> str:
    claims = registry.claims()
    return claims[target].paper_key if target in claims else registry.exhibit(target).paper_key


# --- fragments included by other pages --------------------------------------------------------


def _status(gallery: Gallery, paper_key: str) -> str:
    rows = _whole(paper_key)
    if not rows:
        return "No exhibit is registered yet.\n"
    claims = _of_paper(registry.claims(), paper_key)
    errata = _of_paper(registry.errata(), paper_key)
    table = list_table(
        ("Exhibit", "Verdict", "What it shows"),
        [(exhibit_link(e.id), status_badges(gallery, e.id), escape(e.title)) for e in rows],
        widths=(22, 20, 58),
        classes="status",
    )
    return (
        f"Exhibits: {tally(gallery.status(e.id) for e in rows)}. "
        f"Claims: {tally(gallery.status(c.id) for c in claims)}. "
        f"Errata: {tally(gallery.status(e.id) for e in errata)}.\n\n"
        f"::::{{dropdown}} All {len(rows)} exhibits\n{table}::::\n"
    )


def _summary(gallery: Gallery) -> str:
    rows = []
    for key, title in PAPERS.items():
        exhibits = [gallery.status(e.id) for e in _whole(key)]
        claims = [gallery.status(c.id) for c in _of_paper(registry.claims(), key)]
        errata = [gallery.status(e.id) for e in _of_paper(registry.errata(), key)]
        if exhibits or claims:
            rows.append((escape(title), tally(exhibits), tally(claims), tally(errata)))
    return list_table(
        ("Paper", "Exhibits", "Claims", "Errata"), rows, widths=(22, 28, 28, 22), classes="status"
    )


#: parameters of attacks on deep networks that decide how large a run is, and their headings
_SIZES = {
    "side": "Side",
    "network": "Network",
    "channels": "Channels",
    "wide": "Wide neurons",
    "images": "Pictures",
    "iterations": "Iterations",
}


def _deep_attacks(gallery: Gallery) -> str:
    """What each attack on a deep network runs on: in print, in the quick run, in the record."""
    rows: list[tuple[str, ...]] = []
    for exhibit, found in all_exhibits().items():
        if not set(_SIZES) <= set(found.parameters):
            continue
        runs = {"quick": {name: p.quick for name, p in found.parameters.items()}}
        if record := gallery.recorded.records.get(exhibit):
            runs["recorded"] = dict(record.provenance.parameters)
        if not rows:
            rows.append(("in print", *(found.parameters[name].printed for name in _SIZES)))
        row = registry.exhibit(exhibit)
        place = row.place.removeprefix("unnumbered (").removesuffix(")")
        for run, values in runs.items():
            sizes = (values[name] for name in _SIZES)
            cells = (f"{v:,}" if isinstance(v, int) else str(v) for v in sizes)
            rows.append((f"{exhibit_link(row.id, place)}, {run}", *cells))
    header = ("Run", *_SIZES.values())
    return list_table(header, rows, widths=(30, 8, 16, 12, 12, 12, 12), classes="status")


def _stand_ins(gallery: Gallery) -> str:
    """Every kind of stand-in with its reason, every verdict on one, every exhibit that has one."""
    counts: Counter[registry.StandIn] = Counter()
    exhibits, on_them, verdicts = [], [], 0
    on_stand_ins = "holds on stand-in data"
    targets = {v.target for shown in gallery.shown.values() for v in shown.verdicts}
    statuses = [gallery.shown_status(target) for target in targets]
    for shown in gallery.shown.values():
        names = (shown.result or {}).get("stand_ins", ())
        kinds = list(dict.fromkeys(map(registry.stand_in, names)))
        row, every = registry.exhibit(shown.exhibit), list(shown.verdicts)
        link = exhibit_link(row.id, f"{row.place} ({PAPERS[row.paper_key]})")
        held = [v for v in every if v.status == on_stand_ins]
        verdicts += len(every)
        counts.update({kind: len(held) for kind in kinds})
        if names:
            share = f"{len(held)} of {len(every)}"
            said = "; ".join(map(escape, names))
            exhibits.append((link, said, share, _recorded_on(gallery, shown)))
        whats = "; ".join(kind.what for kind in kinds)
        on_them += [
            (link, _target(v.target, shown.exhibit), escape(v.statement), whats) for v in held
        ]
    records = gallery.recorded.records.values()
    recorded = {registry.stand_in(name) for r in records for name in r.stand_ins}
    kinds = [k for k in registry.stand_ins() if k in recorded.union(counts)]
    reasons = list_table(
        ("Stands in", "For", "Why", "What would lift it", "Verdicts"),
        [(k.what, k.instead_of, k.why, k.lifted_by, str(counts[k])) for k in kinds],
        widths=(20, 20, 26, 24, 10),
        classes="status",
    )
    judged = list_table(
        ("Exhibit", "On", "What holds", "Stands in"),
        on_them,
        widths=(18, 14, 44, 24),
        classes="status",
    )
    whole = list_table(
        ("Exhibit", "In place of the paper's", "Verdicts on them", "Recorded run"),
        exhibits,
        widths=(26, 38, 16, 20),
        classes="status",
    )
    return (
        f"{reasons}\n{len(on_them)} of the {verdicts} verdicts of the quick runs hold on stand-in "
        f"data; they are what counts for {statuses.count(on_stand_ins)} of {len(statuses)} "
        "exhibits, claims and errata. Where several stand in at once, each is counted.\n\n"
        f"::::{{dropdown}} Verdicts on a stand-in: {len(on_them)}\n{judged}::::\n\n"
        f"::::{{dropdown}} Exhibits with a stand-in: {len(exhibits)}\n{whole}::::\n"
    )


def _target(target: str, exhibit: str) -> str:
    """What a verdict of an exhibit is on: itself, its panel, or a claim or an erratum by a link."""
    if target == exhibit:
        return "the whole"
    if target in registry.exhibits():
        return escape(registry.exhibit(target).place)
    kind = "claim" if target in registry.claims() else "erratum"
    return f"{{ref}}`{target} <{anchor(kind, target)}>`"


def _recorded_on(gallery: Gallery, shown: Shown) -> str:
    """Whether a recorded run of an exhibit is on the paper's own data."""
    record = gallery.recorded.records.get(shown.exhibit)
    if record is None:
        return "none"
    left = record.stand_ins
    return "; ".join(map(escape, left)) if left else "on the paper's own"


def _untouched() -> str:
    """Return what no scale of what is measured touches, by the reason why; nothing without rows."""
    rows = registry.untouched()
    parts = [
        "(no-scale)=\n## What a scale cannot touch",
        "Every column that a verdict of the five papers reads was made twice and half as large, "
        "and all errors of an exhibit twice as large at once. These notice neither, and why: most "
        "are claims of order.",
    ]
    for scaled in dict.fromkeys(row.scaled for row in rows):
        by_reason: dict[str, list[str]] = {}
        for row in rows:
            if row.scaled == scaled:
                by_reason.setdefault(row.why, []).append(row.target)
        table = list_table(
            ("The claim is about", "Whose"),
            [(f"{w[0].upper()}{w[1:]}", escape(", ".join(t))) for w, t in by_reason.items()],
            widths=(35, 65),
            classes="status",
        )
        parts.append(f"::::{{dropdown}} With {scaled} at another scale\n{table}::::")
    return "\n" + "\n\n".join(parts) + "\n" if rows else ""


def _threat_models() -> str:
    from reconrisk.attacks import THREAT_MODELS

    header = ("Attack", "Sees", "May change", "Knows besides", "Succeeds when", "Bounded by")
    rows = [
        (
            f"**{escape(m.name)}**\n\n{escape(PAPERS[m.paper_key])}",
            *(escape(t) for t in (m.sees, m.changes, m.knows, m.success, m.bound)),
        )
        for m in THREAT_MODELS
    ]
    return list_table(header, rows, widths=(16, 17, 17, 17, 16, 17), classes="threats")
