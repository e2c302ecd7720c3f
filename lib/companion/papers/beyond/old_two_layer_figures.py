"""Pictures of attacks on two-layer networks against what bounds them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from companion.drawings import draws
from companion.study import Result
from companion.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    legend_above,
    legend_line,
    panels,
)

__all__: list[str] = []

_ATTACKS = {
    "tensor": ("tensor attack, as published", BLUE, "s"),
    "orders removed": ("low orders removed", GREEN, "^"),
    "least squares": ("least squares", ORANGE, "o"),
}
_BLACK = "#1A1A1A"
_FLOOR = legend_line("exact Cramér–Rao bound", _BLACK, "-", linewidth=2.2)


def _small_legend(axes: Axes, **how) -> None:
    """A legend of one panel that takes no room from the others in the layout."""
    axes.legend(**how).set_in_layout(False)


def _attack_legend() -> list:
    return [legend_line(label, colour, "-", m) for label, colour, m in _ATTACKS.values()]


# Refinement --------------------------------------------------------------------------------------

_LEAST = 1e-17
_ENDS = {"at once": ORANGE, "more starts": "#F0A868", "more neurons": "#F7D7B5", "not": GREY}


@draws(
    "beyond/two_layer_refinement",
    caption="Errors of three attacks on the gradient of a two-layer network under every defence: "
    "median over networks and the range up to the largest. Black: the exact Cramér–Rao bound of "
    "what is released, zero without noise (left of the axis) and infinite where the records are "
    "not determined (right). Second panel: share of networks from which least squares recover the "
    "records, at once (95% interval), from more random starts, at more neurons; hatched: bound "
    "infinite. Third: the bound at unit noise, relative to no defence.",
    alt="Rows of defences in five groups. Without noise the orange dots of least squares sit "
    "near 1e-16 in all rows, blue and green ones of the tensor attacks between 0.1 and 2. In the "
    "rows with noise orange lies on the black bound. Heavily pruned rows with equal labels have "
    "orange dots near one; there bars are hatched, or pale for more neurons.",
)
def two_layer_refinement(result: Result) -> Figure:
    table = result.tables["summary"].reset_index(drop=True)
    places, heads = _places(table)
    figure, (row,) = panels(1, 3, 4.2, 0.24 * (max(places) + 3))
    errors, success, information = row
    for axis in row:
        axis.set_ylim(max(places) + 0.8, min(heads.values()) - 0.7)
        axis.grid(axis="y", visible=False)
        for y in places[::2]:
            axis.axhspan(y - 0.5, y + 0.5, color="#F4F4F4", zorder=0)
    _errors_panel(errors, table, places)
    errors.set_yticks(places, list(table["defence"]))
    errors.tick_params(axis="y", length=0)
    for family, y in heads.items():
        errors.text(
            -0.02, y, family, transform=errors.get_yaxis_transform(), ha="right", va="center",
            weight="bold", fontsize=9,
        )  # fmt: skip
    _success_panel(success, table, places)
    _information_panel(information, table, places)
    for axis in (success, information):
        axis.set_yticks([])
    legend_above(
        figure,
        [
            *(legend_line(label, c, "", m) for label, c, m in _ATTACKS.values()),
            legend_line("least squares that take masks for noise", ORANGE, "", "o",
                        markerfacecolor="white"),
            legend_line("exact Cramér–Rao bound", _BLACK, "", "|", markeredgewidth=2.2),
        ],
        3,
    )  # fmt: skip
    return figure


def _places(table: pd.DataFrame) -> tuple[list[float], dict[str, float]]:
    """Rows from above, with room for a heading before each family."""
    places: list[float] = []
    heads: dict[str, float] = {}
    y = 0.0
    for family in table["family"]:
        if family not in heads:
            heads[family] = y
            y += 1.0
        places.append(y)
        y += 1.0
    return places, heads


def _errors_panel(axes: Axes, table: pd.DataFrame, places: list[float]) -> None:
    for name, (_, colour, marker) in _ATTACKS.items():
        middle = np.maximum(table[name], _LEAST)
        most = np.maximum(table[f"largest {name}"], _LEAST)
        axes.hlines(places, middle, most, color=colour, linewidth=1.2, alpha=0.6)
        axes.plot(middle, places, marker, color=colour, ms=5)
    masked = table["without masks"] > 100 * table["least squares"].clip(lower=_LEAST)
    masked &= table["defence"].str.startswith("dropout by")
    axes.plot(
        table["without masks"][masked], np.array(places)[masked.to_numpy()], "o", ms=5,
        color=ORANGE, markerfacecolor="white",
    )  # fmt: skip
    finite = np.isfinite(table["floor"]) & (table["floor"] > 0)
    shown = np.array(places)[finite.to_numpy()]
    axes.plot(table["floor"][finite], shown, "|", color=_BLACK, ms=11, mew=2.2)
    axes.set(xscale="log", xlim=(2e-18, 40), xlabel="RMSE of the records")
    axes.xaxis.set_major_locator(FixedLocator([1e-16, 1e-12, 1e-8, 1e-4, 1e-2, 1]))
    axes.xaxis.set_minor_locator(NullLocator())
    for y, floor in zip(places, table["floor"], strict=True):
        if floor == 0:
            axes.text(2.6e-18, y, "0", va="center", ha="left", fontsize=8, color=_BLACK)
        elif np.isinf(floor):
            axes.text(22, y, r"$\infty$", va="center", ha="center", fontsize=11, color=_BLACK)


def _success_panel(axes: Axes, table: pd.DataFrame, places: list[float]) -> None:
    total = table["networks"].to_numpy()
    left = np.zeros(len(table))
    for how, colour in _ENDS.items():
        share = table[how].to_numpy() / total
        axes.barh(places, share, left=left, height=0.62, color=colour, label=_CURES[how])
        left = left + share
    share = table["undetermined"].to_numpy() / total
    axes.barh(
        places, share, left=left, height=0.62, color="white", edgecolor=GREY, hatch="////",
        linewidth=0.6, label="bound infinite",
    )  # fmt: skip
    axes.hlines(np.array(places) + 0.02, table["low"], table["high"], color=_BLACK, linewidth=1)
    axes.set(xlim=(0, 1.02), xlabel="share of networks recovered by least squares")
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7.5, handlelength=1.4,
        columnspacing=1.0,
    )  # fmt: skip


_CURES = {
    "at once": "at once",
    "more starts": "more starts",
    "more neurons": "more neurons",
    "not": "not",
}


def _information_panel(axes: Axes, table: pd.DataFrame, places: list[float]) -> None:
    plain = float(table.loc[table["defence"] == "none", "unit floor"].iloc[0])
    loose = float(table.loc[table["defence"] == "none", "unit loosened"].iloc[0])
    for name, base, marker, colour in (
        ("unit loosened", loose, "D", PURPLE),
        ("unit floor", plain, "o", _BLACK),
    ):
        value = table[name] / base
        known = np.isfinite(value) & (value > 0)
        axes.plot(
            value[known], np.array(places)[known.to_numpy()], marker, color=colour, ms=4.5,
            label="exact bound" if name == "unit floor" else "loosened to a trace, as printed",
        )  # fmt: skip
    for y, floor in zip(places, table["unit floor"], strict=True):
        if np.isinf(floor):
            axes.text(3e3, y, r"$\infty$", va="center", ha="center", fontsize=11)
    axes.axvline(1.0, color=GREY, linewidth=1, linestyle=":")
    axes.set(xscale="log", xlim=(0.1, 8e3), xlabel="bound at unit noise, against none")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=7.5)


# Floor -------------------------------------------------------------------------------------------

_PARTS = {
    "bound's slack": ("loosened to exact bound", PURPLE),
    "least squares": ("exact bound to least squares", _BLACK),
    "without least squares": ("least squares to tensor attack", ORANGE),
    "with low orders": ("low orders kept", BLUE),
}


@draws(
    "beyond/two_layer_floor",
    caption="A two-layer network's noisy gradient. Above left: errors over the noise (root mean "
    "squares over networks, bands from least to largest), the exact Cramér–Rao bound, its printed "
    "loosening, and dotted the printed orders of the upper and lower bound with constants one. "
    "Above right: the way from the printed lower bound to the published attack's error, cut into "
    "factors, under each defence. Below: exact over loosened bound by batch size, with its limit; "
    "and what pruning and dropout do to the exact bound (solid; triangles: infinite) and the "
    "loosened one (dashed).",
    alt="Orange least squares lie on the black exact bound over four decades and bend away above "
    "one; blue stays near one, green near 0.2 however small the noise. In the bars the blue and "
    "orange parts are many times longer than the purple one. The ratio of the bounds rises from "
    "one to nearly four. With the share removed all bounds rise alike, but the exact bound of "
    "pruned records with one label leaves the picture.",
)
def two_layer_floor(result: Result) -> Figure:
    tables = result.tables
    figure, axes = panels(2, 2, 5.0, 3.8)
    _noise_panel(axes[0][0], tables["curves"])
    _gap_panel(axes[0][1], tables["gaps"])
    _slack_panel(axes[1][0], tables["batches"])
    _shares_panel(axes[1][1], tables["shares"])
    return figure


def _noise_panel(axes: Axes, curves: pd.DataFrame) -> None:
    x = curves["noise"]
    for name, (label, colour, marker) in _ATTACKS.items():
        axes.fill_between(
            x, curves[f"{name} low"], curves[f"{name} high"], color=colour, alpha=0.15, linewidth=0
        )
        axes.plot(x, curves[name], color=colour, marker=marker, ms=4.5, label=label, zorder=3)
    axes.plot(x, curves["floor"], color=_BLACK, linewidth=2.2, label="exact Cramér–Rao bound")
    axes.plot(x, curves["loosened"], color=PURPLE, label="loosened to a trace", linewidth=1.5)
    axes.plot(x, curves["upper order"], ":", color=BLUE, label=r"$(B+\sigma)\sqrt{d/m}$")
    axes.plot(x, curves["lower order"], ":", color=PURPLE, label=r"$\sigma\sqrt{d/m}$")
    axes.set(xscale="log", yscale="log", xlabel=r"noise $\sigma$", ylabel="RMSE of the records")
    axes.set_title("errors and bounds over the noise")
    axes.set_ylim(0.3 * float(curves["loosened"].min()), 8)
    _small_legend(
        axes, loc="lower right", fontsize=7, handlelength=2.2, labelspacing=0.25, borderaxespad=0.1
    )


def _gap_panel(axes: Axes, gaps: pd.DataFrame) -> None:
    places = np.arange(len(gaps))[::-1]
    left = np.ones(len(gaps))
    for name, (label, colour) in _PARTS.items():
        factor = gaps[name].to_numpy()
        # a factor a little below one takes nothing away from what was drawn
        end = left * np.maximum(factor, 1.0)
        axes.barh(places, end - left, left=left, height=0.66, color=colour, label=label)
        for y, a, b, f in zip(places, left, end, factor, strict=True):
            if b / a > 1.6:
                axes.text(
                    np.sqrt(a * b), y, f"{f:.1f}" if f < 10 else f"{f:.0f}", ha="center",
                    va="center", color="white", fontsize=8,
                )  # fmt: skip
        left = end
    axes.set(xscale="log", xlim=(1, None), xlabel="factor over the printed lower bound")
    axes.set_yticks(places, list(gaps["defence"]))
    axes.grid(axis="y", visible=False)
    # above the bars, in the layout: the longest reach the right edge
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=7.5)


def _slack_panel(axes: Axes, batches: pd.DataFrame) -> None:
    x = batches["count"]
    axes.fill_between(x, batches["low"], batches["high"], color=_BLACK, alpha=0.15, linewidth=0)
    axes.plot(x, batches["slack"], color=_BLACK, marker="o", ms=4.5, label="measured")
    axes.plot(x, batches["limit"], "--", color=GREY, label="limit of high dimension")
    axes.axhline(1.0, color=PURPLE, linewidth=1.5, label="loosened bound")
    _small_legend(axes, loc="lower right", bbox_to_anchor=(1.0, 0.1), fontsize=7.5)
    axes.set(xlabel="batch size", ylabel="exact over loosened bound", ylim=(0.8, None))
    axes.set_title("slack of the printed loosening")
    axes.set_xticks(list(x))


_SHARES = {
    "dropout": (GREEN, "^"),
    "pruning, labels mixed": (BLUE, "s"),
    "pruning, labels the same": (ORANGE, "o"),
    "pruning, 2 records, labels the same": ("#B2182B", "D"),
}


def _shares_panel(axes: Axes, shares: pd.DataFrame) -> None:
    top = 300.0
    for place, (kind, (colour, marker)) in enumerate(_SHARES.items()):
        own = shares[shares["kind"] == kind]
        kept = 1.0 - own["share"]
        seen = np.isfinite(own["floor"]) & (own["floor"] < top)
        axes.plot(kept[seen], own["floor"][seen], color=colour, marker=marker, ms=4.5, label=kind)
        axes.plot(kept, own["loosened"], "--", color=colour, linewidth=1.2)
        if not seen.all():
            # infinite, or beyond the picture: one height for each kind
            axes.plot(
                kept[~seen], np.full(np.sum(~seen), top * 0.76**place), "^", color=colour, ms=7,
                markerfacecolor="white", clip_on=False,
            )  # fmt: skip
    axes.set(
        xscale="log", yscale="log", xlim=(1.15, 0.008), ylim=(0.85, top),
        xlabel="share of entries kept", ylabel="bound, against none",
    )  # fmt: skip
    axes.set_title("what is left by dropout and pruning")
    ticks = [1.0, 0.5, 0.1, 0.03, 0.01]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    _small_legend(axes, loc="upper left", fontsize=7.5)


# Batch -------------------------------------------------------------------------------------------

_RECORDS = {"orthogonal": (GREY, "s"), "random": (PURPLE, "v"), "digits": (ORANGE, "o")}
_MEASURED = {
    "tensor": ("tensor attack", BLUE, "s"),
    "tensor span": ("its span", "#56B4E9", "D"),
    "orders removed": ("low orders removed", GREEN, "^"),
    "floor": ("exact bound, unit noise", _BLACK, "o"),
}


@draws(
    "beyond/two_layer_batch",
    caption="Errors over the batch size of orthogonal records, labels random or all one (geometric "
    "means over networks, 95% intervals; its span: of the space that the attack places the records "
    "in), and the fitted exponents with their intervals beside "
    "those of the printed bounds, one and zero. Below: orthogonal, random and digit records of one "
    "dimension: the attack's error with low orders removed, and the exact Cramér–Rao bound, over "
    "one over the smallest singular value of the batch; marker size grows with the batch. Dashed: "
    "the printed power, two.",
    alt="Upper panels: four slowly rising curves, flatter than the dotted line of slope one; the "
    "exponents lie between 0.2 and 1. Lower panels: orthogonal and random records crowd at a "
    "singular value near one, digits lie to the right and higher, along a line much flatter than "
    "the dashed one.",
)
def two_layer_batch(result: Result) -> Figure:
    tables = result.tables
    figure, axes = panels(2, 3, 3.3, 2.9)
    for axis, labels in zip(axes[0], ("random", "same"), strict=False):
        own = tables["errors"][tables["errors"]["labels"] == labels]
        for name, (_, colour, marker) in _MEASURED.items():
            middle = own[name]
            axis.errorbar(
                own["B"], middle, yerr=[middle - own[f"{name} low"], own[f"{name} high"] - middle],
                color=colour, marker=marker, ms=4.5, capsize=2, elinewidth=0.9, linewidth=1.3,
            )  # fmt: skip
        sizes = own["B"].to_numpy()
        start = float(own["orders removed"].iloc[0])
        axis.plot(sizes, start * sizes / sizes[0], ":", color=GREY)
        axis.set(xscale="log", yscale="log", xlabel="batch size", ylabel="error")
        axis.set_xticks(sizes, [str(b) for b in sizes])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_title("random labels" if labels == "random" else "all labels +1")
    _exponent_panel(axes[0][2], tables["exponents"])
    for axis, name, title in zip(
        axes[1],
        ("orders removed", "unit floor"),
        ("error, low orders removed", "exact bound, unit noise"),
        strict=False,
    ):
        _kinds_panel(axis, tables["kinds"], name)
        axis.set_ylabel(title)
    _pi_panel(axes[1][2], tables["pi exponents"])
    legend_above(
        figure,
        [
            *(legend_line(label, c, "-", m) for label, c, m in _MEASURED.values()),
            legend_line("slope one", GREY, ":"),
            *(
                legend_line(k if k == "digits" else f"{k} records", c, "", m)
                for k, (c, m) in _RECORDS.items()
            ),
            legend_line(r"slope two: $1/\pi_{\min}^2$", GREY, "--"),
        ],
        5,
    )
    return figure


def _exponent_panel(axes: Axes, table: pd.DataFrame) -> None:
    names = list(_MEASURED)
    for i, name in enumerate(names):
        for shift, labels in ((-0.15, "random"), (0.15, "same")):
            own = table[(table["quantity"] == name) & (table["labels"] == labels)].iloc[0]
            colour, marker = _MEASURED[name][1:]
            y = len(names) - 1 - i - shift
            axes.plot([own["low"], own["high"]], [y, y], color=colour, linewidth=1.4)
            axes.plot(
                own["exponent"], y, marker, color=colour, ms=5,
                markerfacecolor=colour if labels == "random" else "white",
            )  # fmt: skip
    for printed in (0.0, 1.0):
        axes.axvline(printed, color=GREY, linestyle=":")
    axes.set_yticks(range(len(names))[::-1], [_MEASURED[n][0] for n in names])
    axes.set(xlabel="exponent of B", ylim=(-0.6, len(names) - 0.4))
    axes.set_title("filled: random labels; hollow: +1", fontsize=9)


def _kinds_panel(axes: Axes, table: pd.DataFrame, name: str) -> None:
    for kind, (colour, marker) in _RECORDS.items():
        own = table[table["records"] == kind]
        axes.scatter(
            1 / own["pi_min"], own[name], s=8 + 5 * own["count"], marker=marker, color=colour,
            alpha=0.7, linewidths=0,
        )  # fmt: skip
    most = table["count"].max()
    base = table[(table["records"] == "orthogonal") & (table["count"] == most)][name].median()
    far = np.array([1.0, float((1 / table["pi_min"]).max())])
    axes.plot(far, base * far**2, "--", color=GREY)
    axes.set(xscale="log", yscale="log", xlabel=r"$1/\pi_{\min}$")
    ticks = [t for t in (1, 2, 3, 5, 10, 20) if t <= 1.2 * far[1]]
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _pi_panel(axes: Axes, table: pd.DataFrame) -> None:
    labels = {"orders removed": ("error, low orders removed", GREEN, "^"),
              "unit floor": ("exact bound", _BLACK, "o")}  # fmt: skip
    places, ticks = [], []
    for i, (_, own) in enumerate(table.iterrows()):
        label, colour, marker = labels[own["quantity"]]
        y = len(table) - 1 - i
        axes.plot([own["low"], own["high"]], [y, y], color=colour, linewidth=1.4)
        axes.plot(own["exponent"], y, marker, color=colour, ms=5)
        places.append(y)
        ticks.append(f"{label},\nB = {own['B']:g}")
    axes.axvline(2.0, color=GREY, linestyle="--")
    axes.axvline(0.0, color=GREY, linestyle=":")
    axes.set_yticks(places, ticks, fontsize=8)
    axes.set(xlabel=r"exponent of $1/\pi_{\min}$", ylim=(-0.6, len(table) - 0.4))


# Clipping with noise -----------------------------------------------------------------------------


@draws(
    "beyond/two_layer_clip_noise",
    caption="Errors over the width of the network: under noise alone, and under noise after "
    "clipping (geometric means over networks, 95% intervals), with the exact Cramér–Rao bound. "
    "Right: the gradient's norm, and the exponents of the width with their intervals, filled under "
    "clipping and noise, hollow under noise alone.",
    alt="Left: under noise alone all curves fall, least squares on the black bound with a slope of "
    "minus one half. Middle: under clipping with noise bound and least squares are level, the "
    "tensor attacks fall towards them and level out. Right: in the clipped case the exponents of "
    "bound and least squares lie at zero.",
)
def two_layer_clip_noise(result: Result) -> Figure:
    errors, fits = result.tables["errors"], result.tables["exponents"]
    figure, (row,) = panels(1, 3, 3.4, 3.0)
    top = 1.3 * float(errors[[f"{n} high" for n in _ATTACKS]].to_numpy().max())
    low = 0.7 * float(errors["least squares low"].min())
    for axis, defence in zip(row, ("noise", "clipping and noise"), strict=False):
        own = errors[errors["defence"] == defence].sort_values("width")
        axis.plot(own["width"], own["floor"], color=_BLACK, linewidth=2.2)
        for name, (_, colour, marker) in _ATTACKS.items():
            middle = own[name]
            axis.errorbar(
                own["width"], middle,
                yerr=[middle - own[f"{name} low"], own[f"{name} high"] - middle],
                color=colour, marker=marker, ms=4.5, capsize=2, elinewidth=0.9, linewidth=1.3,
            )  # fmt: skip
        axis.set(
            xscale="log", yscale="log", xlabel="width m", ylabel="RMSE of the records",
            ylim=(low, top),
        )  # fmt: skip
        axis.set_title(defence)
        ticks = list(own["width"])[:: 2 if len(own) > 4 else 1]
        axis.set_xticks(ticks, [f"{w:,}" for w in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    _width_exponents(row[2], fits)
    legend_above(figure, [*_attack_legend(), _FLOOR], 4)
    return figure


def _width_exponents(axes: Axes, fits: pd.DataFrame) -> None:
    names = {
        "norm": ("gradient's norm", GREY, "D"),
        "floor": ("exact bound", _BLACK, "o"),
        **{name: (name, colour, marker) for name, (_, colour, marker) in _ATTACKS.items()},
    }
    for i, (name, (_, colour, marker)) in enumerate(names.items()):
        for shift, defence in ((-0.15, "clipping and noise"), (0.15, "noise")):
            own = fits[(fits["quantity"] == name) & (fits["defence"] == defence)].iloc[0]
            y = len(names) - 1 - i - shift
            axes.plot([own["low"], own["high"]], [y, y], color=colour, linewidth=1.4)
            axes.plot(
                own["exponent"], y, marker, color=colour, ms=5,
                markerfacecolor="white" if defence == "noise" else colour,
            )  # fmt: skip
    for place in (-0.5, 0.0, 0.5):
        axes.axvline(place, color=GREY, linestyle=":", linewidth=1)
    axes.set_yticks(range(len(names))[::-1], [label for label, _, _ in names.values()])
    axes.set(xlabel="exponent of m", ylim=(-0.6, len(names) - 0.4))
