"""One figure of every printed number that a run on the same data could meet: print against ours."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion.book.figures import save
from companion.book.gallery import Gallery
from companion.book.sources import letter
from companion.study.exhibits import find_exhibit
from companion.study.records import read_tables
from companion.study.registry import PAPERS
from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, drawing, panels

__all__ = ["draw_print", "figure_of_print", "how_near", "in_print"]

_COLOURS = dict(zip(PAPERS, (BLUE, GREEN, ORANGE, PURPLE, RED, GREY), strict=False))
#: numbers nearer than this share are called equal in words
_NEAR = 0.05


def in_print(gallery: Gallery, tables: Path) -> pd.DataFrame:
    """Return each printed number beside ours, of the runs on the papers' own data.

    An exhibit says which by ``beside_print(tables)``, a frame with the columns ``printed`` and
    ``ours``. Its recorded run counts if it has one; a run on stand-ins, or on a part of the data,
    has nothing to meet.

    Parameters
    ----------
    gallery : Gallery
    tables : Path
        Folder of the tables that the notebooks judged.

    Returns
    -------
    DataFrame
        With ``paper``, ``exhibit``, ``status``, ``printed`` and ``ours``.
    """
    frames = []
    for name in gallery.shown:
        exhibit = find_exhibit(name)
        if not hasattr(exhibit.file, "beside_print"):
            continue
        record = gallery.recorded.records.get(name)
        ran = record.tables if record else read_tables(tables / name)
        if ran.stand_in.whole:
            about = {"paper": name.split("/")[0], "exhibit": name, "status": gallery.status(name)}
            frames.append(exhibit.file.beside_print(ran).assign(**about))
    columns = ["paper", "exhibit", "status", "printed", "ours"]
    return pd.concat(frames)[columns] if frames else pd.DataFrame(columns=columns)


@drawing
def draw_print(numbers: pd.DataFrame) -> Figure:
    """Draw ours over print against print, both on logarithmic axes: those above zero."""
    figure, [[axes]] = panels(1, 1, 8.0, 4.6)
    seen = numbers[(numbers["printed"] > 0) & (numbers["ours"] > 0)]
    axes.axhspan(1 - _NEAR, 1 + _NEAR, color=GREY, alpha=0.25, lw=0)
    for (paper, met), own in seen.groupby(["paper", seen["status"] == "reproduced"]):
        axes.plot(
            own["printed"],
            own["ours"] / own["printed"],
            ls="",
            marker="o" if met else "v",
            color=_COLOURS[str(paper)],
            ms=5,
            mfc="none",
        )
    axes.set(xscale="log", yscale="log", xlabel="as printed", ylabel="ours over print")
    papers = [paper for paper in PAPERS if (seen["paper"] == paper).any()]
    entries = [
        Line2D([], [], ls="", marker="s", color=_COLOURS[p], label=f"{letter(p)}: {PAPERS[p]}")
        for p in papers
    ]
    entries += [
        Line2D([], [], ls="", marker=m, color=GREY, mfc="none", label=label)
        for m, label in (("o", "table reproduced"), ("v", "not so"))
    ]
    entries.append(Line2D([], [], color=GREY, lw=6, alpha=0.25, label=f"within {_NEAR:.0%}"))
    axes.legend(handles=entries, loc="lower right", fontsize=9)
    return figure


def _near(numbers: pd.DataFrame) -> pd.Series:
    return (numbers["ours"] - numbers["printed"]).abs() <= _NEAR * numbers["printed"].abs()


def how_near(numbers: pd.DataFrame) -> str:
    """Say how many printed numbers ours come near, and in how many tables all of them."""
    near = _near(numbers)
    whole = sum(near.groupby(numbers["exhibit"]).all())
    return (
        f"We could compare {len(numbers)} printed numbers of {numbers['exhibit'].nunique()} tables "
        f"with runs on the papers' own data, or without data: {near.mean():.0%} come out within "
        f"{_NEAR:.0%}, and in {whole} tables all do."
    )


def figure_of_print(folder: Path, numbers: pd.DataFrame) -> list[str]:
    """Draw the figure into a folder of the book's generated pages; return its Markdown."""
    if numbers.empty:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    save(draw_print(numbers), folder)
    numbers.to_csv(folder / "print-against-ours.csv", index=False)
    at = f"/book/generated/{folder.name}"
    counted: Mapping[str, int] = numbers.groupby("paper").size().to_dict()
    split = ", ".join(f"{n} of paper {letter(p)}" for p, n in counted.items())
    return [
        f":::{{figure}} {at}/figure.svg",
        ":name: fig-print-against-ours",
        f":alt: Scatter plot of ours over {len(numbers)} printed numbers, on logarithmic axes. "
        f"{_near(numbers).mean():.0%} lie within {_NEAR:.0%} of one; the others spread to both "
        "sides.",
        "",
        f"{how_near(numbers)} By paper: {split}. What rests on a part of the data, or on other "
        "data or networks, is left out. Numbers not above zero are counted and not drawn. "
        f"{{download}}`The numbers <{at}/print-against-ours.csv>`, "
        f"{{download}}`SVG <{at}/figure.svg>`, {{download}}`PDF <{at}/figure.pdf>`.",
        ":::",
    ]
