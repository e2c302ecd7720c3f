"""What a reader takes from an exhibit's page: figure, tables, and a sentence to cite it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from companion.book.figures import Wanted, drawn_files
from companion.book.gallery import Gallery
from companion.book.markdown import escape, slug
from companion.book.sources import linked_place
from companion.study import registry
from companion.study.records import RECORDED
from companion.study.registry import PAPERS
from reconrisk import __version__

__all__ = ["Files", "Source", "citation", "downloads", "gather", "offer"]

#: where the files lie in the book's source
FOLDER = Path("book", "generated", "downloads")


@dataclass(frozen=True)
class Source:
    """What a citation says of the book and of a run.

    Attributes
    ----------
    authors, title, address : str
        Of the book.
    commit, date : str
        Of the code that computed the exhibit, and the day (``2026-11-20``); empty if unknown.
    """

    authors: str
    title: str
    address: str
    commit: str = ""
    date: str = ""


def citation(exhibit_id: str, source: Source) -> str:
    """Return a sentence, in Markdown, that cites one exhibit of this version of the book."""
    row = registry.exhibit(exhibit_id)
    name = row.place if row.paper_key == "beyond" else f"{PAPERS[row.paper_key]}, {row.place}"
    about = [f"*{escape(source.title)}*", f"version {__version__}", f"exhibit `{exhibit_id}`"]
    if source.date:
        about.append(f"computed on {source.date}")
    if source.commit:
        about.append(f"code of commit `{source.commit[:10]}`")
    place = linked_place(row.paper_key, escape(row.place))
    return (
        f"{escape(source.authors)}. “{escape(name)}: {escape(row.title).rstrip('.')}.” "
        f"In {', '.join(about)}. <{source.address}>." + (f" After {place}." if place else "")
    )


@dataclass(frozen=True)
class Files:
    """What is drawn and offered on the pages.

    Attributes
    ----------
    figures : mapping of str to mapping
        By name (``hayes2023/fig4``, ``hayes2023/fig4-recorded``) a figure's files by ending.
    offers : mapping of str to mapping
        By exhibit and run, links to its files.
    tables : Path or None
        Folder of the tables that the notebooks judged.
    """

    figures: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    offers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tables: Path | None = None

    def shown(self, name: str) -> Path | None:
        """Return the file of a figure that a page shows: vectors, or a lighter raster."""
        files = self.figures.get(name, {})
        return files.get("png", files.get("svg"))

    def staged(self, name: str) -> str:
        """Return the address of that file in the book's source; empty if there is none."""
        file = self.shown(name)
        return "" if file is None else f"/{_copy_of(name, file).as_posix()}"


def gather(everything: Gallery, project: Path, staged: Path, tables: Path, jobs: int = 1) -> Files:
    """Draw the figures of exhibits and records, and copy what readers may take.

    Where a figure asks for pictures and none are kept, the notebook's own picture is offered.

    Parameters
    ----------
    everything : Gallery
    project : Path
        The checkout, whose ``_build/figures`` keeps what is drawn.
    staged : Path
        The book's source.
    tables : Path
        Folder of the tables that the notebooks judged.
    jobs : int
        Processes that draw.
    """
    wanted = [Wanted(exhibit, tables / exhibit) for exhibit in everything.shown]
    wanted += [
        Wanted(exhibit, project / RECORDED / exhibit, recorded=True)
        for exhibit in everything.recorded.records
        if exhibit in everything.shown
    ]
    figures = drawn_files(wanted, project / "_build" / "figures", jobs)
    offers: dict[str, dict[str, str]] = {}
    for one in wanted:
        shown = everything.shown[one.exhibit]
        profile = "recorded" if one.recorded else str((shown.result or {}).get("profile", "quick"))
        picture = None if one.recorded else shown.picture
        links = offer(staged, one.name, figures.get(one.name, {}), one.tables, picture)
        offers.setdefault(one.exhibit, {})[profile] = links
    return Files(figures, offers, tables)


def _copy_of(name: str, file: Path) -> Path:
    """Return where the copy of a figure's file lies in the book's source."""
    return FOLDER / slug(name) / f"{slug(name)}{file.suffix}"


def offer(
    staged: Path,
    name: str,
    figure: Mapping[str, Path],
    tables: Path,
    picture: bytes | None = None,
) -> str:
    """Copy an exhibit's files into the book's source; return links to them, in Markdown.

    Parameters
    ----------
    staged : Path
        The book's source.
    name : str
        ``hayes2023/fig4``, or ``hayes2023/fig4-recorded`` for a record: whose files they are, which
        their names say.
    figure : mapping of str to Path
        Its files by ending; empty if there is none.
    tables : Path
        Folder of its tables; it need not exist.
    picture : bytes, optional
        A PNG to offer if there are no files.
    """
    folder = FOLDER / slug(name)
    (staged / folder).mkdir(parents=True, exist_ok=True)

    def link(target: Path, data: bytes, words: str) -> str:
        (staged / target).write_bytes(data)
        return f"{{download}}`{words} </{target.as_posix()}>`"

    contents = {path: path.read_bytes() for path in figure.values()}
    if not contents and picture is not None:
        contents = {Path("figure.png"): picture}
    links = {
        "figure as": [
            link(_copy_of(name, path), data, path.suffix[1:].upper())
            for path, data in contents.items()
        ],
        # hyphens stand for spaces in the names of files
        "tables as CSV:": [
            link(
                folder / f"{folder.name}-{path.name}",
                path.read_bytes(),
                escape(path.stem.replace("-", " ")),
            )
            for path in sorted(tables.glob("*.csv"))
        ],
    }
    return "; ".join(f"{what} {', '.join(found)}" for what, found in links.items() if found)


def downloads(offers: Mapping[str, str], cited: str) -> list[str]:
    """Return an exhibit's files and the sentence to cite it, as lines of Markdown.

    Parameters
    ----------
    offers : mapping of str to str
        By run (``"quick"``), the links of :func:`offer`.
    cited : str
        As :func:`citation` returns it.
    """
    runs = [f"- {run.capitalize()} run: {links}." for run, links in offers.items() if links]
    return [*runs, "", f"To cite: {cited}", ""]
