"""Alternative text of a figure, read off its artists: panels, axes, and what each series does.

What a legend names by colour, dash and marker, :func:`describe` names too, wherever the legend
stands. Words do not depend on the last digits of measured numbers: a series "turns" only where its
extreme is clear of both its ends.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import AxLine, Line2D
from matplotlib.patches import Polygon, Rectangle
from matplotlib.ticker import LogFormatter, NullFormatter, ScalarFormatter

__all__ = ["describe"]

#: words of a text at most, as far as panels can be put together
_WORDS = 120
#: entries that are listed one by one, and lines of one name that are told apart
_LISTED, _LINES = 8, 3
#: shares of a panel's range: less is level, and an extreme that is so far beyond the ends is told
_LEVEL, _CLEAR = 0.01, 0.1
#: the share of a range that no eye can tell from zero
_HIDDEN = 1e-4
#: the least difference between the parts of a colour that is not grey
_GREY = 0.01

_SIGNS = {
    **{r"\leq": " at most ", r"\geq": " at least ", r"\cdot": " times ", r"\div": " over "},
    **{r"\propto": " proportional to ", r"\infty": "infinity", r"\varepsilon": "epsilon"},
    **{r"\|": "||", r"\,": " ", r"\;": " ", r"\{": "", r"\}": "", "w/o": "without"},
    **{"–": "-", "—": "-", "−": "-", "×": " x ", "→": " to ", "≥": ">=", "≤": "<=", "±": "+-"},
    **{"‖": "||", "√": "sqrt", "∞": "infinity", "·": " times ", "∇": "gradient of "},
}


def describe(figure: Figure) -> str:
    """Return what a figure shows: each panel's axes, and the course of each series.

    Parameters
    ----------
    figure : Figure
        Drawn, but for its rendering.

    Returns
    -------
    str
        Plain ASCII sentences. Panels of one kind are put together, and long lists cut, where the
        text would be longer than 120 words.
    """
    keys = _keys(figure)
    drawn = [axes for axes in figure.axes if axes.get_visible() and not hasattr(axes, "_colorbar")]
    pictures = [axes for axes in drawn if _is_picture(axes)]
    panels = [p for axes in drawn if axes not in pictures and (p := _read(axes, keys[axes])).series]
    first = [_tell_pictures(pictures)] * bool(pictures)
    last = ["Points have error bars."] * any(map(_has_error_bars, drawn))
    for tell in _TELLERS:
        text = " ".join([*first, *tell(panels), *last])
        if len(text.split()) <= _WORDS:
            break
    return text


# Words --------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Return a label as ASCII words, without TeX and without slashes."""
    text = re.sub(r"\\hat\s*\{?(\w)\}?", r"\1-hat", text)
    text = re.sub(r"\\sqrt\{([^{}]*)\}", r" sqrt(\1)", text)
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    text = "".join(map(_spell_out, re.sub(r"\\(math\w+|[lr]ceil)\b", "", text)))
    text = re.sub(r"[\\${}]", "", re.sub(r"\\([A-Za-z]+)", r" \1 ", text))
    text = re.sub(r"\s+(?=[\^_)\],])|(?<=[(_])\s+", "", re.sub(r"\s*/\s*", " over ", text))
    return " ".join(re.sub(r"_(\d)", r"\1", text).split()).rstrip(".")


def _spell_out(character: str) -> str:
    if character.isascii():
        return character
    if (name := unicodedata.name(character, "")).startswith("GREEK"):
        word = name.split()[3]
        return word.title() if "CAPITAL" in name else word.lower()
    power = "^" * unicodedata.decomposition(character).startswith("<super>")
    return power + unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()


def _number(value: float) -> str:
    """Return a number to two digits, from a hundred on to three."""
    size = abs(value)
    if 100 <= size < 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{float(f'{value:.2g}') + 0.0:g}")


def _enumerate(words: Iterable[str]) -> str:
    """Return a list of a few entries, the others as a number."""
    entries = list(words)
    more = len(entries) - _LISTED
    return "; ".join(entries[:_LISTED]) + f" and {more} more" * (more > 0)


# Legends ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Look:
    """How an artist is drawn, which is what a legend's entries differ in."""

    colour: tuple[float, ...] | None
    dash: str
    marker: str

    @property
    def is_grey(self) -> bool:
        return self.colour is not None and float(np.ptp(self.colour)) < _GREY

    def shares(self, other: _Look, *names: str) -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in names)


def _look(artist: Any) -> _Look:
    if isinstance(artist, ErrorbarContainer):
        return _look(artist[0] or artist[2][0])
    if isinstance(artist, BarContainer):
        return _look(artist.patches[0]) if artist.patches else _Look(None, "", "")
    if isinstance(artist, Line2D):
        marker, dash = str(artist.get_marker()), str(artist.get_linestyle())
        clear = {"None": "", "none": "", " ": ""}
        return _Look(to_rgb(artist.get_color()), clear.get(dash, dash), clear.get(marker, marker))
    if isinstance(artist, LineCollection):
        colours, dash = artist.get_colors(), "-"
    else:
        colours, dash = np.atleast_2d(artist.get_facecolor()), ""
    return _Look(to_rgb(colours[0]) if len(colours) else None, dash, "")


def _label(artist: Any) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else _plain(label)


@dataclass(frozen=True)
class _Key:
    """What looks are called: in this panel and the figure's legends, and in other panels."""

    here: tuple[tuple[_Look, str], ...]
    elsewhere: tuple[tuple[_Look, str], ...]

    def name(self, artist: Any) -> str:
        """Return an artist's label, or what a legend calls its look; empty if none says."""
        if label := _label(artist):
            return label
        look = _look(artist)
        alike: list[tuple[str, ...]] = [("colour", "dash", "marker")]
        alike += [("colour", "marker")] * bool(look.marker)
        alike += [("colour", "dash")] * bool(look.dash)
        for parts in alike:
            if found := self._labels(look, *parts):
                return found.pop() if len(found) == 1 else ""
        if found := {label for other, label in self.elsewhere if other == look}:
            return found.pop() if len(found) == 1 else ""
        # one entry may say what the colour means, a grey one what the dash or the marker means
        colour = set() if look.is_grey else self._labels(look, "colour")
        way = self._labels(replace(look, colour=None), "dash", "marker")
        return ", ".join(found.pop() for found in (colour, way) if len(found) == 1)

    def _labels(self, look: _Look, *parts: str) -> set[str]:
        shared = [(other, label) for other, label in self.here if look.shares(other, *parts)]
        if look.colour is None:
            shared = [
                (o, label) for o, label in shared if o.is_grey and (o.marker or o.dash != "-")
            ]
        return {label for _, label in shared}


def _entries(legends: Iterable[Legend | None]) -> Iterator[tuple[_Look, str]]:
    for legend in filter(None, legends):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
            yield _look(handle), _plain(text.get_text())


def _keys(figure: Figure) -> dict[Axes, _Key]:
    """Return what legends and labels call each look, for each panel."""
    shared = tuple(_entries(figure.legends))
    for part in figure.subfigs:
        shared += tuple(_entries(part.legends))
    own = {
        axes: (
            *((_look(a), label) for a in _artists(axes) if (label := _label(a))),
            *_entries([axes.get_legend()]),
        )
        for axes in figure.axes
    }
    every = tuple(itertools.chain(*own.values()))
    return {axes: _Key(here + shared, every) for axes, here in own.items()}


# Panels -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Series:
    """What one name stands for in a panel: in full, and by its ends."""

    name: str
    title: str
    full: str
    ends: str


@dataclass(frozen=True)
class _Panel:
    title: str
    over: str
    span: str
    series: tuple[_Series, ...]
    values: np.ndarray

    @property
    def kind(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.over, tuple((one.name, one.title) for one in self.series)


def _has_error_bars(axes: Axes) -> bool:
    bars = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    return any(c.has_xerr or c.has_yerr for c in bars)


def _is_picture(axes: Axes) -> bool:
    return bool(axes.images) and not len(axes.get_xticks())


def _artists(axes: Axes) -> Iterator[Any]:
    """Yield what is drawn in a panel, points with their error bars, and bars, as one."""
    together: set[Artist] = set()
    for container in axes.containers:
        together |= set(container.get_children())
        yield container
    for artist in axes.get_children():
        parts = (Line2D, LineCollection, PathCollection, PolyCollection, Polygon, Rectangle)
        if isinstance(artist, parts) and artist not in together and artist is not axes.patch:
            yield artist


def _read(axes: Axes, key: _Key) -> _Panel:
    """Read a panel off its axes."""
    places = _Places(axes)
    named: dict[tuple[str, bool], list[Any]] = {}
    for artist in _artists(axes):
        named.setdefault((key.name(artist), _is_loose(artist)), []).append(artist)
    series = [_describe_image(axes)] if axes.images else []
    for (name, loose), artists in named.items():
        twins = named.get((name, not loose), []) if name else []
        if loose and _any_points(twins, axes):
            continue  # told with their line
        if not loose and twins and not _any_points(artists, axes):
            continue  # whiskers or rows, told by their points
        extra = " with points" * bool(twins and not loose)
        if told := _describe_series(name, extra, artists, places):
            series.append(told)
    x, y = _axis_label(axes, "x"), _axis_label(axes, "y")
    over = " against ".join(filter(None, (y, x)))
    return _Panel(_title(axes), over, places.span() * bool(x), tuple(series), places.values)


def _title(axes: Axes) -> str:
    return _plain(
        " ".join(
            filter(
                None, (axes.get_title(loc="left"), axes.get_title(), axes.get_title(loc="right"))
            )
        )
    )


def _axis_label(axes: Axes, which: str) -> str:
    """Return an axis's label; where it has none that of its column, its row or its figure."""
    own = getattr(axes, f"get_{which}label")()
    if not own and not _categories_there(axes, which):
        there = (getattr(a, f"get_{which}label")() for a in _neighbours(axes, which))
        own = next(filter(None, there), "")
    if not own:
        own = getattr(axes.figure, f"get_sup{which}label")()
    log = " (log)" * (getattr(axes, f"get_{which}scale")() == "log")
    return _plain(own) + log if own else ""


class _Places:
    """The two axes of a panel: what is a category, and what is far apart."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.names = {which: _categories_there(axes, which) for which in "xy"}
        self.lying = bool(self.names["y"]) and not self.names["x"]
        self.all = np.concatenate([np.empty((0, 2)), *(_points(a, axes) for a in _artists(axes))])
        self.values = self.all[:, 0 if self.lying else 1]
        scaled = self.scaled(self.values)
        self.reach = float(np.ptp(scaled)) if len(scaled) else 0.0

    @property
    def logarithmic(self) -> bool:
        return (self.axes.get_xscale() if self.lying else self.axes.get_yscale()) == "log"

    def scaled(self, values: np.ndarray) -> np.ndarray:
        return np.log(values[values > 0]) if self.logarithmic else values

    def span(self) -> str:
        """Return the range of the numbers on the horizontal axis."""
        x = self.all[:, 0]
        if self.names["x"] or self.lying or not len(x) or np.ptp(x) == 0:
            return ""
        return f" from {_number(x.min())} to {_number(x.max())}"

    def split(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where points stand, and their values."""
        place, value = points.T[::-1] if self.lying else points.T
        hidden = np.abs(value) < _HIDDEN * self.reach
        return place, value if self.logarithmic else np.where(hidden, 0.0, value)

    def at(self, place: float) -> str:
        """Return the category or number at a place."""
        names = self.names["y" if self.lying else "x"]
        near = min(names, key=lambda p: abs(p - place), default=np.inf)
        return names[near] if abs(near - place) < 0.5 else _number(place)

    @property
    def are_categories(self) -> bool:
        return bool(self.names["x"] or self.names["y"])


def _categories_there(axes: Axes, which: str) -> dict[float, str]:
    """Return the categories of an axis, also where only a panel beside or below names them."""
    limits = getattr(axes, f"get_{which}lim")
    for other in (axes, *_neighbours(axes, which)):
        found = _categories(other, which)
        if found and getattr(other, f"get_{which}lim")() == limits():
            return found
    return {}


def _neighbours(axes: Axes, which: str) -> Iterator[Axes]:
    """Yield the panels of the same column, for x, or of the same row, for y."""
    spec, span = axes.get_subplotspec(), {"x": "colspan", "y": "rowspan"}[which]
    for other in axes.figure.axes:
        there = other.get_subplotspec()
        if spec is not None and there is not None and other is not axes:
            if there.get_gridspec() is spec.get_gridspec():
                if getattr(there, span) == getattr(spec, span):
                    yield other


def _categories(axes: Axes, which: str) -> dict[float, str]:
    """Return the labels of an axis's ticks by place, if they are not the numbers there."""
    axis = getattr(axes, f"{which}axis")
    if isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter | NullFormatter):
        return {}
    ticks = axis.get_majorticklocs()
    words = map(_plain, axis.get_major_formatter().format_ticks(ticks))
    named = {float(p): w for p, w in zip(ticks, words, strict=True) if w}
    return named if any(not _says(word, place) for place, word in named.items()) else {}


def _says(word: str, place: float) -> bool:
    """Return whether a tick's label is its number."""
    try:
        number = float(re.sub("k$", "e3", word.replace(",", "").replace("10^", "1e")))
        return bool(np.isclose(number, place, rtol=0.1))
    except ValueError:
        return False


def _any_points(artists: Iterable[Any], axes: Axes) -> bool:
    kinds = [a for a in artists if not isinstance(a, LineCollection | BarContainer)]
    return any(len(_points(artist, axes)) for artist in kinds)


def _points(artist: Any, axes: Axes) -> np.ndarray:
    """Return the finite points of an artist in data coordinates; none of a reference line."""
    if isinstance(artist, ErrorbarContainer):
        artist = artist[0]
    if isinstance(artist, BarContainer):
        return _bars(artist)
    if isinstance(artist, Line2D) and not isinstance(artist, AxLine):
        points = np.asarray(artist.get_xydata(), float)
    elif isinstance(artist, LineCollection):
        points = np.array([line.mean(axis=0) for line in artist.get_segments() if len(line)])
        points = points.reshape(-1, 2)
    elif isinstance(artist, PathCollection):
        points = np.asarray(np.ma.filled(artist.get_offsets(), np.nan), float)
    else:
        return np.empty((0, 2))
    if not all(artist.get_transform().contains_branch_seperately(axes.transData)):
        if not isinstance(artist, PathCollection):
            return np.empty((0, 2))
    return _visible(points, axes)


def _visible(points: np.ndarray, axes: Axes) -> np.ndarray:
    (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    x, y = points.T
    return points[(left <= x) & (x <= right) & (low <= y) & (y <= high)]


def _bars(bars: BarContainer) -> np.ndarray:
    lying = bars.orientation == "horizontal"
    if lying:
        ends = [(b.get_x() + b.get_width(), b.get_y() + b.get_height() / 2) for b in bars]
    else:
        ends = [(b.get_x() + b.get_width() / 2, b.get_y() + b.get_height()) for b in bars]
    points = np.array(ends, float).reshape(-1, 2)
    return points[np.isfinite(points).all(axis=1)]


# Series -------------------------------------------------------------------------------------------


def _describe_series(name: str, extra: str, artists: list[Any], places: _Places) -> _Series | None:
    """Return what the artists of one name do; None for what has nothing to tell."""
    if fixed := _describe_references(name, artists, places.axes):
        return fixed
    points = [found for a in artists if len(found := _points(a, places.axes))]
    if not points:
        return _describe_area(name, artists, places) if name else None
    kind = "bars" if isinstance(artists[0], BarContainer) else "points" * _is_loose(artists[0])
    if not name and not kind and places.are_categories and not _look(artists[0]).marker:
        return None  # lines that join what is told
    if kind != "points" and len(points) > 1 and max(map(len, points)) > 1:
        if not name and max(map(len, points)) == 2:
            return None
        count = f"{len(points)} {kind or 'lines'}"
        told = _tell_lines([places.split(p) for p in points])
        title = f"{name}{extra} ({count})" if name else count
        return _Series(name, title, told, told)
    course = _list_values if places.are_categories or kind == "bars" else _tell_course
    title = (name or kind or "a line") + extra
    return _Series(name, title, *course(*places.split(np.concatenate(points)), places))


def _describe_area(name: str, artists: list[Any], places: _Places) -> _Series | None:
    """Return the range of shaded bands; None where nothing is shaded."""
    bands = [a for a in artists if isinstance(a, PolyCollection)]
    corners = [path.vertices for band in bands for path in band.get_paths()]
    shown = _visible(np.concatenate([np.empty((0, 2)), *corners]), places.axes)
    told = f"shaded {_between(places.split(shown)[1])}" if len(shown) else ""
    return _Series(name, name, told, told) if told else None


def _tell_lines(lines: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """Return where each of a few lines begins and ends, or the range of more."""
    if len(lines) > _LINES:
        return _between(np.concatenate([value for _, value in lines]))
    both = [
        [_number(value[end(place)]) for place, value in lines] for end in (np.argmin, np.argmax)
    ]
    return "from {} to {}".format(*(", ".join(ends) for ends in both))


def _is_loose(artist: Any) -> bool:
    return isinstance(artist, PathCollection | BarContainer) or _look(artist).dash == ""


def _between(values: np.ndarray) -> str:
    low, high = _number(values.min()), _number(values.max())
    return f"at {low}" if low == high else f"between {low} and {high}"


def _describe_references(name: str, artists: list[Any], axes: Axes) -> _Series | None:
    """Return straight lines across a panel by where they stand; None if one is something else."""
    stand: dict[str, list[float]] = {}
    for line in artists:
        if isinstance(line, AxLine):
            stand.setdefault("a straight line", [])
        elif isinstance(line, Line2D) and len(points := np.asarray(line.get_xydata(), float)):
            in_data = line.get_transform().contains_branch_seperately(axes.transData)
            if in_data == (False, True):
                stand.setdefault("horizontal line", []).append(float(points[0, 1]))
            elif in_data == (True, False):
                stand.setdefault("vertical line", []).append(float(points[0, 0]))
            else:
                return None
        else:
            return None
    told = []
    for kind, places in stand.items():
        at = f" at {_enumerate(_number(p) for p in sorted(set(places)))}" if places else ""
        told.append(kind + at)
    text = " and ".join(told)
    return _Series(name, name and f"{name},", text, text)


def _list_values(place: np.ndarray, value: np.ndarray, places: _Places) -> tuple[str, str]:
    """Return values by their category: each of a few, otherwise the least and the largest."""
    low, high = np.argmin(value), np.argmax(value)
    ends = _between(value)
    if len(value) > _LISTED:
        where = f" ({places.at(place[low])})", f" ({places.at(place[high])})"
        full = f"between {_number(value[low])}{where[0]} and {_number(value[high])}{where[1]}"
        return full, ends
    pairs = zip(place, value, strict=True)
    return ", ".join(f"{_number(v)} ({places.at(p)})" for p, v in pairs), ends


def _tell_course(place: np.ndarray, value: np.ndarray, places: _Places) -> tuple[str, str]:
    """Return how a series goes from its first to its last point, and where it turns."""
    order = np.argsort(place, kind="stable")
    place, value = place[order], value[order]
    if (np.diff(place) == 0).any() or len(value) == 1:
        return _between(value), _between(value)
    scaled = places.scaled(value)
    if len(scaled) and np.ptp(scaled) <= _LEVEL * places.reach:
        level = f"level at {_number(np.median(value))}"
        return level, level
    ends = f"from {_number(value[0])} to {_number(value[-1])}"
    return ends + _tell_turns(place, value, scaled, places), ends


def _tell_turns(place: np.ndarray, value: np.ndarray, scaled: np.ndarray, places: _Places) -> str:
    """Return a series' extremes that are clear of both its ends."""
    if len(scaled) < len(value):  # a logarithmic axis hides some
        return ""
    last = scaled[[0, -1]]
    words = ""
    clear = _CLEAR * places.reach
    if scaled.max() > last.max() + clear:
        top = int(np.argmax(scaled))
        words += f", highest {_number(value[top])} at {_number(place[top])}"
    if scaled.min() < last.min() - clear:
        low = int(np.argmin(scaled))
        words += f", lowest {_number(value[low])} at {_number(place[low])}"
    return words


def _describe_image(axes: Axes) -> _Series:
    """Return the size and the range of a heat map."""
    image: Any = np.ma.masked_invalid(np.ma.asarray(axes.images[0].get_array()))
    values, (rows, columns) = np.ma.compressed(image), image.shape[:2]
    words = [_enumerate(_categories(axes, which).values()) for which in "yx"]
    by = " by ".join(filter(None, words)) or f"{rows} rows by {columns} columns"
    text = f"of {by}, values {_between(values)}"
    return _Series("", "heat map", text, text)


# Texts, from the longest to the shortest ----------------------------------------------------------


def _tell_pictures(pictures: list[Axes]) -> str:
    titles = dict.fromkeys(filter(None, map(_title, pictures)))
    rows = dict.fromkeys(filter(None, (_plain(axes.get_ylabel()) for axes in pictures)))
    shown = f": {_enumerate(titles)}" if titles else ""
    shown += f"; rows: {_enumerate(rows)}" if rows else ""
    return f"{len(pictures)} picture{'s' * (len(pictures) > 1)}{shown}."


def _tell_all(panels: Sequence[_Panel]) -> Iterator[str]:
    return _tell_each(panels, lambda one: f"{one.title} {one.full}".strip())


def _tell_ends(panels: Sequence[_Panel]) -> Iterator[str]:
    return _tell_each(panels, lambda one: f"{one.title} {one.ends}".strip())


def _tell_each(panels: Sequence[_Panel], told: Callable[[_Series], str]) -> Iterator[str]:
    if len(panels) > 1:
        yield f"{len(panels)} panels."
    for number, panel in enumerate(panels, 1):
        heads = [panel.title or f"Panel {number}" * (len(panels) > 1), panel.over + panel.span]
        yield f"{_join_heads(heads)}{'; '.join(map(told, panel.series))}."


def _join_heads(heads: Iterable[str]) -> str:
    return "".join(f"{head}: " for head in heads if head)


def _tell_groups(panels: Sequence[_Panel], most: int) -> Iterator[str]:
    """Put panels of the same axes and series together, and tell their first and last."""
    if len(panels) > 1:
        yield f"{len(panels)} panels."
    for group in _groups(panels, lambda panel: panel.kind):
        first, last = group[0].series, group[-1].series
        told = [_compare(one, other) for one, other in zip(first, last, strict=True)]
        more = f"; {len(told) - most} more, {_range_of(group)}" * (len(told) > most)
        yield f"{_head_of(group, len(panels))}{'; '.join(told[:most])}{more}."


def _compare(first: _Series, last: _Series) -> str:
    """Return a series' ends in the first panel of a kind, and in the last where they differ."""
    differs = f", in the last {last.ends}" if first.ends != last.ends else ""
    return f"{first.title} {first.ends}{differs}".strip()


def _range_of(group: Sequence[_Panel]) -> str:
    values = np.concatenate([panel.values for panel in group])
    return f"all {_between(values)}" if len(values) else "no points"


def _tell_names(panels: Sequence[_Panel]) -> Iterator[str]:
    """Tell the range of each kind of panel, and the names of the series of all."""
    if len(panels) > 1:
        yield f"{len(panels)} panels."
    for group in _groups(panels, lambda panel: panel.over):
        yield f"{_head_of(group, len(panels))}{_range_of(group)}."
    names = dict.fromkeys(one.name for panel in panels for one in panel.series if one.name)
    yield f"Shown are {_enumerate(names)}."


def _groups(panels: Sequence[_Panel], kind: Callable[[_Panel], Any]) -> Iterator[list[_Panel]]:
    """Yield the panels of each kind, in the order of the first of them."""
    found: dict[Any, list[_Panel]] = {}
    for panel in panels:
        found.setdefault(kind(panel), []).append(panel)
    yield from found.values()


def _head_of(group: Sequence[_Panel], of: int) -> str:
    titles = dict.fromkeys(panel.title for panel in group if panel.title)
    span = group[0].span if len({panel.span for panel in group}) == 1 else ""
    name = _enumerate(titles) or f"{len(group)} of them" * (of > len(group) > 1)
    return _join_heads([name, group[0].over + span])


#: from the longest to the shortest
_TELLERS: tuple[Callable[[Sequence[_Panel]], Iterator[str]], ...] = (
    _tell_all,
    _tell_ends,
    *(functools.partial(_tell_groups, most=most) for most in (7, 4, 2, 1)),
    _tell_names,
)
