"""The plotting style: colours that colour-blind readers can distinguish, and light axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib as mpl
from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

__all__ = [
    "BLACK",
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "legend_above",
    "legend_line",
    "panels",
    "picture",
    "styled",
]

# Okabe and Ito's palette; their sky blue is darkened to a contrast of three to one with white, and
# a dark red stands for their yellow. Every two stay apart for colour-blind readers
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#3F9BD0",
    "#7A0A1E",
    "#5F5F5F",
    "#000000",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)

_STYLE = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "figure.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.7,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.formatter.min_exponent": 3,
    "mathtext.fontset": "dejavusans",
}
#: inches; a wider figure would be shrunk by the book's column, and its letters with it
_WIDEST = 8.4


@contextmanager
def styled() -> Iterator[None]:
    """Return a context that applies the style within a ``with`` block only."""
    with mpl.rc_context(_STYLE):
        yield


def panels(rows: int, columns: int, width: float = 3.1, height: float = 2.5) -> tuple[Figure, list]:
    """Return a figure and its axes.

    Parameters
    ----------
    rows, columns : int
        Panels of the figure.
    width, height : float
        Of each panel, in inches; narrower where all would not fit into 8.4 inches, the column
        of a page.

    Returns
    -------
    figure : Figure
    axes : list of list of Axes
        Row by row.
    """
    size = (min(width * columns, _WIDEST), height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    return figure, [list(row) for row in axes]


def legend_line(label: str, colour: str, style: str = "-", marker: str = "", **more) -> Line2D:
    """Return a legend entry that belongs to no plotted line.

    ``label``, ``colour``, ``style`` and ``marker`` are its own; ``more`` goes to ``Line2D``.
    """
    return Line2D(
        [], [], color=colour, linestyle=style, marker=marker, label=label, markersize=5, **more
    )


def legend_above(figure: Figure, handles: Sequence[Line2D], columns: int) -> None:
    """Put one legend of these handles, in so many columns, above the whole figure."""
    figure.legend(
        handles=list(handles),
        loc="outside upper center",
        ncols=columns,
        handlelength=2.4,
        columnspacing=1.6,
    )


def picture(axes: Axes, image, title: str = "", frame: str | None = None) -> None:
    """Show one image without ticks.

    Parameters
    ----------
    axes : Axes
    image : ndarray, shape (H, W) or (H, W, 3)
        Clipped to [0, 1].
    title : str
    frame : str, optional
        Colour of a frame; none by default.
    """
    axes.imshow(image.clip(0, 1), interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(frame is not None)
        if frame is not None:
            spine.set(color=frame, linewidth=2.5)
    axes.set_title(title, fontsize=9)
