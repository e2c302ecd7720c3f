"""The style of the figures: the library's, and colours and markers shared by a paper's figures."""

import functools
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, ScalarFormatter

from companion.describe import describe
from companion.study.typeset import typeset
from reconrisk.plotting import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    legend_above,
    legend_line,
    panels,
    picture,
    styled,
)

__all__ = [
    "ATTACKS",
    "BEST",
    "BLACK",
    "BLUE",
    "BOUND",
    "COLOURS",
    "DEFENCES",
    "GREEN",
    "GREY",
    "MECHANISMS",
    "ORANGE",
    "PURPLE",
    "RED",
    "SCORES",
    "SKY",
    "attack_label",
    "drawing",
    "legend_above",
    "legend_below",
    "legend_line",
    "mark_printed",
    "panels",
    "picture",
    "printed_entry",
    "styled",
]

#: colours of what no attack exceeds, of the best attack there is, and of attacks by their score
BOUND, BEST, SCORES = BLACK, GREY, {"sum": ORANGE, "top": PURPLE, "likelihood": GREEN}

#: colours of the two mechanisms that Biswas et al. compare
MECHANISMS = {"Gaussian": BLUE, "VMF": ORANGE}
#: colours and markers of the attacks that Liu et al. compare
ATTACKS = {
    "Ours": {"color": ORANGE, "marker": "o"},
    "w/o FM": {"color": RED, "marker": "X"},
    "GradientInversion": {"color": BLUE, "marker": "s"},
    "CPA": {"color": GREEN, "marker": "^"},
    "Robbing The Fed": {"color": PURPLE, "marker": "p"},
    "Analytic": {"color": SKY, "marker": "v"},
}
#: colours and markers of the defences that Liu et al. compare; the baseline "None" is grey
DEFENCES = {
    "None": {"color": GREY, "marker": "o"},
    "GradClip": {"color": BLUE, "marker": "s"},
    "GradNoise": {"color": ORANGE, "marker": "^"},
    "GradDrop": {"color": GREEN, "marker": "p"},
    "GradPrune": {"color": PURPLE, "marker": "v"},
    "LocalAggregation": {"color": SKY, "marker": "P"},
}


def attack_label(name: str) -> str:
    """Return what figures call an attack; "ours" in paper E would be taken for this book's."""
    return name.replace("Ours", "proposed")


#: the mark of a printed number: a hollow diamond, which nothing else is drawn with
_PRINTED = {"marker": "D", "markerfacecolor": "white", "linestyle": ""}


def mark_printed(axes: Axes, x: Any, y: Any, colour: str = BLACK, **more: Any) -> None:
    """Draw printed numbers; ``more`` is passed to ``Axes.plot``."""
    look: dict[str, Any] = {"markersize": 4.5, "zorder": 4, **_PRINTED, **more}
    axes.plot(x, y, color=colour, **look)


def printed_entry(label: str = "printed", colour: str = BLACK) -> Line2D:
    """Return a legend's entry for printed numbers."""
    return legend_line(label, colour, "", "D", markerfacecolor="white")


def legend_below(axes: Axes, columns: int = 2, **more: Any) -> None:
    """Put a legend below a panel, where it covers nothing; ``more`` is passed to ``legend``."""
    # the distance is in units of the letters, so that it leaves room for the axis's label
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
    look = {"borderaxespad": 4.3, "fontsize": 8, "columnspacing": 1.0, "handlelength": 1.8}
    axes.legend(ncols=columns, **{**place, **look, **more})


_GREEK = re.compile("[α-ωΦΩ]+")


def _lettered(text: str) -> str:
    """Return a figure's text with one spelling: letters of formulas, and 0.5 rather than .5."""
    return text if "$" in text else _GREEK.sub(r"$\g<0>$", typeset(text))


def _texts(artist: Artist) -> Iterator[Text]:
    """Yield every text of a drawing but the labels of ticks, which would have to be made first."""
    if isinstance(artist, Text):
        yield artist
    parts = [artist.label] if isinstance(artist, Axis) else artist.get_children()
    for part in parts:
        yield from _texts(part)


def _spell(figure: Figure) -> None:
    """Give every text of a figure that spelling, however a table spells it."""
    for text in _texts(figure):
        text.set_text(_lettered(text.get_text()))
    # labels of ticks are written anew whenever they are drawn, by what their axis was told
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter):
                continue  # numbers, which need no other spelling
            told = [label.get_text() for label in axis.get_majorticklabels()]
            if (spelled := [_lettered(label) for label in told]) != told:
                axis.set_ticklabels(spelled)


class drawing:  # noqa: N801 (a decorator)
    """Decorate an exhibit's ``draw``: one style and spelling, closed so that it is shown once.

    ``draw.describe(tables)`` returns the figure's alternative text; it draws the figure only if
    these tables were not the last drawn.
    """

    def __init__(self, function: Callable[..., Figure]) -> None:
        self._function = function
        self._last: tuple[weakref.ref, str] | None = None
        functools.update_wrapper(self, function)

    def __call__(self, tables: Any) -> Figure:
        with styled():
            figure = self._function(tables)
            self._last = weakref.ref(tables), describe(figure)
            _spell(figure)
        plt.close(figure)
        return figure

    def describe(self, tables: Any) -> str:
        """Return the alternative text of these tables' figure."""
        if self._last is None or self._last[0]() is not tables:
            self(tables)
        assert self._last is not None
        return self._last[1]
