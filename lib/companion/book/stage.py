"""Stage the book's source: prose, notebooks with their exhibits dressed, generated pages.

Jupyter Book compiles the staged folder and not the checkout. So building leaves the checkout clean,
and the stored notebooks hold nothing that the book adds: anchors, captions, alternative text, the
command that regenerates each exhibit.
"""

import ast
import dataclasses
import inspect
import os
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import yaml
from bs4 import BeautifulSoup
from nbformat import NotebookNode

from companion.book.downloads import Files, Source, citation, downloads, gather
from companion.book.execute import notebooks_of
from companion.book.gallery import Gallery, Shown, gallery
from companion.book.markdown import (
    anchor,
    badge,
    checked,
    escape,
    list_table,
    listed,
    one_line,
    tally,
)
from companion.book.notices import add_notices
from companion.book.pages import status_badges, write_pages
from companion.book.recorded_pages import recorded_block
from companion.book.sources import linked_place
from companion.study import registry
from companion.study.exhibits import Exhibit, find_exhibit
from companion.study.progress import duration
from companion.study.provenance import checkout
from companion.study.recorded import read_recorded, recorded_ids
from companion.study.records import FOLDER, RecordError
from companion.study.results import RESULT_MIME
from companion.study.stored import exhibit_cells, read_provenances
from companion.study.typeset import typeset
from companion.study.verdicts import ACCUSING, STATUSES, Verdict

__all__ = ["Addresses", "addresses", "decorate_notebook", "stage"]

#: the files of MathJax that the offline pages need.
MATHJAX = ("tex-mml-chtml.js", "output/chtml/fonts/woff-v2", "input/tex/extensions")

#: the style sheet of the generated pages.
STYLES = Path(__file__).with_name("generated.css")

#: what a notebook or a page holds a figure as.
PICTURE_MIMES = {"image/png", "image/svg+xml"}

#: tags of cells that set a notebook up; the book folds their code away.
SETUP_TAGS = {"parameters", "injected-parameters", "setup"}

#: verdicts that the head of an exhibit names wherever a fold below holds one
CONTRARY = frozenset({*ACCUSING, "not decided"})

#: rows of a table that a page shows unfolded, and about how many words of it
_MOST_ROWS, _MOST_WORDS = 10, 150


@dataclass(frozen=True)
class Addresses:
    """Addresses of the project and its launch hub, which a fork changes; the book's names."""

    repository: str
    branch: str
    hub: str
    title: str = ""
    authors: str = ""

    def source(self, path: str) -> str:
        """Return the address at which a file of the project can be read."""
        return f"{self.repository}/blob/{self.branch}/{path}"


def addresses(config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Addresses:
    """Return the addresses of ``_config.yml``; environment variables take precedence."""
    return Addresses(
        environment.get("BOOK_REPOSITORY_URL") or config["repository"]["url"],
        environment.get("BOOK_BRANCH") or config["repository"]["branch"],
        environment.get("BOOK_HUB_URL") or config["launch_buttons"].get("jupyterhub_url", ""),
        config.get("title", ""),
        config.get("author", ""),
    )


def stage(
    project: Path, notebooks: Path, target: Path, tables: Path | None = None, jobs: int = 1
) -> Gallery:
    """Write the book's source.

    Parameters
    ----------
    project : Path
        The checkout.
    notebooks : Path
        Folder with the executed notebooks (``<paper>/NN_topic.ipynb``).
    target : Path
        Folder for the source; emptied first.
    tables : Path, optional
        Folder of the tables that the notebooks judged; by default the stored ones.
    jobs : int
        Processes that draw, and later write pages.

    Returns
    -------
    Gallery
        The exhibits of the staged notebooks, and the records.

    Raises
    ------
    RecordError
        If a recorded run cannot be read, or a file of it has changed.
    """
    shutil.rmtree(target, ignore_errors=True)
    skipped = shutil.ignore_patterns("__pycache__", "generated", ".ipynb_checkpoints")
    shutil.copytree(project / "book", target / "book", ignore=skipped)
    shutil.copy(project / "_toc.yml", target)
    (target / "book" / "conf.py").rename(target / "conf.py")  # read by Sphinx alone

    config = yaml.safe_load((project / "_config.yml").read_text(encoding="utf-8"))
    where = addresses(config)
    config["repository"] |= {"url": where.repository, "branch": where.branch}
    config["launch_buttons"]["jupyterhub_url"] = where.hub
    sphinx = config["sphinx"]["config"]
    sphinx["html_css_files"] = [*sphinx.get("html_css_files", []), STYLES.name]
    sphinx["source_address"] = where.source("")
    sphinx["writers"] = jobs
    sphinx["html_baseurl"] = os.environ.get("BOOK_ADDRESS", "")
    sphinx["linkcheck_anchors"] = False  # lines of a source file are not anchors of its page
    shutil.copy(STYLES, target / "book" / "_static")
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    (target / "_config.yml").write_text(text, encoding="utf-8")

    recorded = read_recorded(project)
    if len(recorded.records) < len(recorded_ids(project)):
        raise RecordError("; ".join(recorded.problems))
    recorded = add_notices(recorded, project, jobs)
    everything = dataclasses.replace(gallery(notebooks), recorded=recorded)
    files = gather(everything, project, target, tables or project / FOLDER, jobs)
    for path in notebooks_of(notebooks):
        staged = target / "notebooks" / path.relative_to(notebooks)
        staged.parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.read(path, as_version=4)
        nbformat.write(decorate_notebook(notebook, everything, where, project, files), staged)
    generated = target / "book" / "generated"
    write_pages(generated, everything, project, where.source, files)
    copy_mathjax(target / "book" / "_static" / "mathjax")
    return everything


def copy_mathjax(target: Path) -> None:
    """Copy the part of MathJax that the pages load, so that they work offline.

    Raises
    ------
    RuntimeError
        If the package that carries MathJax is not installed.
    """
    spec = find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "MathJax is missing: install the book's requirements, "
            "pip install -e 'lib/companion[book]'"
        )
    source = Path(spec.origin).parent / "static" / "mathjax"
    for name in MATHJAX:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, dirs_exist_ok=True)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, target / name)


# --- dressing the notebooks -------------------------------------------------------------------


def decorate_notebook(
    notebook: NotebookNode,
    everything: Gallery,
    where: Addresses,
    project: Path,
    files: Files | None = None,
) -> NotebookNode:
    """Return the notebook as the book shows it: every exhibit's cell with heading and footing.

    Parameters
    ----------
    notebook : NotebookNode
        Changed in place.
    everything : Gallery
    where : Addresses
    project : Path
        The checkout.
    files : Files, optional
    """
    files = files or Files()
    ids = {cell["id"]: exhibit_id for exhibit_id, cell in exhibit_cells(notebook).items()}
    provenances = {e: vars(p) for e, p in read_provenances(project, notebook).items()}
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if "papermill-error-cell-tag" in tags:
            continue  # papermill's banner is raw HTML with its own colours
        if SETUP_TAGS & set(tags) and "hide-cell" not in tags:
            cell.metadata["tags"] = sorted({*tags, "hide-input"})
        if "injected-parameters" in tags:
            cell.metadata["mystnb"] = {"code_prompt_show": "Parameters of this run"}
        exhibit_id = ids.get(cell["id"])
        if exhibit_id is None:
            cells.append(cell)
            continue
        shown = everything.shown[exhibit_id]
        ran = cell.metadata.get("papermill", provenances.get(exhibit_id, {}))
        seconds = ran.get("duration", ran.get("seconds"))
        cells.append(_markdown(_heading(shown, everything)))
        record = everything.recorded.records.get(exhibit_id)
        if record is not None:
            picture = files.staged(f"{exhibit_id}-recorded")
            judging = everything.recorded.judgings[exhibit_id]
            exhibit = find_exhibit(exhibit_id)
            cells.append(_markdown(recorded_block(exhibit, record, judging, where.source, picture)))
        figure = files.shown(exhibit_id)
        if figure is not None and figure.suffix == ".svg":
            _show_vectors(cell, figure)
        source = _source(where, ran, project)
        taken = downloads(files.offers.get(exhibit_id, {}), citation(exhibit_id, source))
        second = record is not None and bool(files.staged(f"{exhibit_id}-recorded"))
        footing = _footing(shown, seconds, where, taken)
        cells += [*_captioned(cell, shown, second), _markdown(footing)]
    notebook.cells = cells
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:03d}"
    return notebook


def _markdown(source: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def _heading(shown: Shown, everything: Gallery) -> str:
    """Return the exhibit's anchors and its panels', its title, and its place in the paper."""
    row = registry.exhibit(shown.exhibit)
    labels = "\n".join(f"({e.anchor})=" for e in (row, *registry.panels_of(row.id)))
    title = escape(row.title).rstrip(".")
    verdict = badge(shown.status)
    if shown.exhibit in everything.recorded.records:
        verdict = status_badges(everything, shown.exhibit)
    paper = linked_place(row.paper_key, escape(row.place))
    place = escape(row.place[:1].upper() + row.place[1:])
    heading = f"{labels}\n**{place}. {title}.** {paper} {verdict}"
    compared = f"{_comparison(shown, everything)} {_contrary(shown, everything)}".strip()
    return "\n\n".join(filter(None, [heading, compared]))


def _counting(shown: Shown, everything: Gallery) -> list[Verdict]:
    """Return the verdicts that count at an exhibit: those of its record, if it has one."""
    recorded = everything.recorded.judgings.get(shown.exhibit)
    return list(recorded.verdicts if recorded is not None else shown.verdicts)


def _contrary(shown: Shown, everything: Gallery) -> str:
    """Return how many folded checks are worse than the head's verdict; empty if none is."""
    verdicts = _counting(shown, everything)
    said = [v.status for v in verdicts if v.target == shown.exhibit]
    worse = [v for v in verdicts if v.target != shown.exhibit and v.status in CONTRARY - {*said}]
    named = [
        f"{tally([status])[2:]} {listed(tuple(map(_named, found)))}"
        for status in STATUSES
        if (found := list(dict.fromkeys(v.target for v in worse if v.status == status)))
    ]
    return f"Also among its checks: {'; '.join(named)}." if named else ""


def _named(target: str) -> str:
    """Return a panel by its place; a claim or an erratum by its id, with a link."""
    if target in registry.exhibits():
        return escape(registry.exhibit(target).place)
    kind = "claim" if target in registry.claims() else "erratum"
    return f"{{ref}}`{target} <{anchor(kind, target)}>`"


def _comparison(shown: Shown, everything: Gallery) -> str:
    """Return one sentence on how the exhibit compares with its paper: the worst verdict on it."""
    own = [v for v in _counting(shown, everything) if v.target == shown.exhibit]
    if not own:
        return ""
    worst = max(own, key=lambda v: STATUSES.index(v.status))
    values = "; ".join(
        f"{label} {escape(text)}"
        for label, text in (("here", worst.ours), ("paper", worst.paper))
        if text
    )
    sentence = escape(worst.told[:1].upper() + worst.told[1:]).rstrip(".")
    sentence += f" ({values})." if values else "."
    if not worst.why or values:
        return sentence
    return f"{sentence} {escape(worst.reason).rstrip('.')}."


def _captioned(cell: NotebookNode, shown: Shown, second: bool = False) -> list[NotebookNode]:
    """Give the cell's picture its caption, label and alternative text.

    MyST-NB makes a figure of every output of a cell with a caption; so the other outputs move to a
    cell of their own, whose code is not shown. A picture that is the ``second`` of its exhibit,
    after the recorded run's, is folded, and its caption says only what ran.

    Raises
    ------
    KeyError
        If there is a picture without caption or alternative text.
    """
    for output in cell.outputs:
        output.get("data", {}).pop(RESULT_MIME, None)  # for machines; no page can show it
    _fold_outputs(cell, shown, second)
    if shown.picture is None or shown.result is None:
        return [cell]  # nothing to caption, or a verdict failed: the cell ends with its error
    result = shown.result
    ran = escape(result.get("ran", "")).rstrip(".")
    caption = typeset(result["caption"].rstrip(".")) + "."
    if second:
        profile = result.get("profile", "quick")
        caption = f"The {profile} run of the same."
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-output"]
        prompt = {"code_prompt_show": f"{profile.capitalize()} run"}
        cell.metadata["mystnb"] = cell.metadata.get("mystnb", {}) | prompt
    cell.metadata["mystnb"] = {
        **cell.metadata.get("mystnb", {}),
        "figure": {
            "caption": one_line(f"{caption} Run here: {ran}." if ran else caption),
            "name": f"fig-{shown.exhibit.replace('/', '-')}",
        },
        "image": {"alt": one_line(result["alt"])},
    }
    # MyST-NB leaves out cells without source
    rest = nbformat.v4.new_code_cell("# verdicts", metadata={"tags": ["remove-input"]})
    rest.outputs = [o for o in cell.outputs if not PICTURE_MIMES & o.get("data", {}).keys()]
    cell.outputs = [o for o in cell.outputs if PICTURE_MIMES & o.get("data", {}).keys()]
    return [cell, rest]


def _fold_outputs(cell: NotebookNode, shown: Shown, second: bool = False) -> None:
    """Fold the verdicts below their count, and what is long of a table."""
    checks = "Quick run's checks" if second else checked(shown.verdicts)
    for output in cell.outputs:
        data = output.get("data", {})
        page = data.get("text/html", "")
        if 'class="verdicts"' in page:
            data["text/html"] = (
                f'<details class="exhibit-verdicts"><summary>{checks}</summary>{page}</details>'
            )
        elif "<table" in page:
            data["text/html"] = shortened(page)
        else:
            continue
        data.pop("text/plain", None)


def shortened(page: str) -> str:
    """Return a table as HTML with its first rows in sight and the whole of it folded below."""
    soup = BeautifulSoup(page, "html.parser")
    rows = soup.select("tbody tr")
    words = np.cumsum([len(row.get_text(" ").split()) for row in rows])
    kept = min(_MOST_ROWS, max(1, int((words <= _MOST_WORDS).sum())))
    if kept >= len(rows):
        return page
    for row in rows[kept:]:
        row.decompose()
    folded = f"<summary>All {len(rows)} rows</summary>{page}"
    return f'{soup}<details class="exhibit-table">{folded}</details>'


def _footing(
    shown: Shown, seconds: float | None, where: Addresses, taken: Sequence[str] = ()
) -> str:
    """Return the folded parts below an exhibit: its command, parameters, files, code."""
    result = shown.result or {}
    profile, seed = result.get("profile", "quick"), result.get("seed", 0)
    lines = [
        "::::{dropdown} Rerun, cite",
        ":class-container: exhibit-details",
        "",
        "```bash",
        f"companion run {shown.exhibit} --profile {profile} --seed {seed}",
        "```",
        "",
    ]
    if shown.result is None:
        lines += ["This cell did not finish in the run shown here.", ""]
    try:
        exhibit = find_exhibit(shown.exhibit)
    except KeyError:
        return "\n".join([*lines, *taken, "::::"])
    lines += [_another(exhibit), _parameters(exhibit), _choices(exhibit)]
    if seconds is not None:
        lines += [f"The run shown took {duration(seconds)}.", ""]
    lines += [_paper_profile(exhibit), "", *taken, "::::", ""]
    return "\n".join([*lines, *_source_of(exhibit, where)])


def _source(where: Addresses, ran: Mapping[str, Any], project: Path) -> Source:
    """Return what a citation says, of a stored run or of one just made by papermill."""
    commit = ran.get("commit") or checkout(project)[0]
    date = str(ran.get("time") or ran.get("start_time") or "")[:10]
    return Source(where.authors, where.title, where.repository, commit, date)


def _show_vectors(cell: NotebookNode, figure: Path) -> None:
    """Put a figure's SVG in the place of the picture among a cell's outputs."""
    for output in cell.outputs:
        if output.get("data", {}).pop("image/png", None) is not None:
            output["data"]["image/svg+xml"] = figure.read_text(encoding="utf-8")
            return


def _another(exhibit: Exhibit) -> str:
    """Return a command that changes one number: the first that the paper profile has larger."""
    for name, p in exhibit.parameters.items():
        if p.kind in ("int", "float") and p.quick != p.paper:
            command = f"companion run {exhibit.id} --set {name}={p.paper}"
            return f"Or with another parameter:\n\n```bash\n{command}\n```\n"
    return ""


def _parameters(exhibit: Exhibit) -> str:
    if not exhibit.parameters:
        return "It takes no parameter: both profiles compute the same.\n"
    rows = [
        (
            f"`{name}`",
            *(escape(t) for t in (listed(p.quick), listed(p.paper), p.printed, p.meaning)),
        )
        for name, p in exhibit.parameters.items()
    ]
    header = ("Parameter", "quick", "paper", "printed", "Meaning")
    return list_table(header, rows, widths=(18, 14, 14, 24, 30), classes="parameters")


def _choices(exhibit: Exhibit) -> str:
    """Return what had to be chosen, in one paragraph; a verdict that turns on it is not decided."""
    chosen = "; ".join(f"{escape(name)} ({escape(w)})" for name, w in exhibit.choices.items())
    return f"Chosen, not printed: {chosen}.\n" if chosen else ""


def _paper_profile(exhibit: Exhibit) -> str:
    """Return the changed parameters, the data and the cost of a run in the paper profile."""
    larger = [f"`{name}`" for name, p in exhibit.parameters.items() if p.quick != p.paper]
    text = "The paper profile "
    text += f"changes {', '.join(larger)}." if larger else "has the same parameters."
    cost = registry.costs().get(exhibit.id)
    if cost is None:
        return text
    if cost.needs_data:
        text += (
            f" It reads {cost.needs_data} from a folder: add `--profile paper --data-root FOLDER`; "
            "{doc}`/book/rerun` shows the layout."
        )
    how = cost.basis[:1].upper() + cost.basis[1:]
    text += f" {how} on {cost.device}: {duration(float(cost.seconds))} from start to end, "
    return text + f"{cost.memory_gb} GB of memory."


def _source_of(exhibit: Exhibit, where: Addresses) -> list[str]:
    """Return the folded source of ``measure`` with the imports that it needs."""
    function = inspect.unwrap(exhibit.file.measure)
    lines, first = inspect.getsourcelines(function)
    code = textwrap.dedent("".join(lines)).rstrip()
    path = f"lib/{exhibit.module.replace('.', '/')}.py"
    return [
        f"::::{{dropdown}} `{Path(path).stem}.{function.__name__}`",
        ":class-container: exhibit-source",
        "",
        f"The whole exhibit is [`{path}`]({where.source(path)}#L{first}).",
        "",
        "```python",
        *_imports_of(inspect.getsource(exhibit.file), code),
        "",
        code,
        "```",
        "::::",
    ]


def _imports_of(module: str, code: str) -> list[str]:
    """Return the imports of a module that a piece of its code uses, one per line."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    lines = []
    for node in ast.parse(module).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [a for a in node.names if (a.asname or a.name) in used]
            if node.names:
                lines.append(ast.unparse(node))
    return lines
