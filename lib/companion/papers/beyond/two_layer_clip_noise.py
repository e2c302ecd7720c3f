"""DP-SGD's error against the width of a two-layer network: noise alone, and after clipping."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from companion.papers.beyond.power_laws import exponents, geometric_means
from companion.papers.beyond.two_layer_attacks import (
    ATTACKS,
    OURS,
    attack_case,
    attacked,
    networks_parameter,
    shape_parameters,
    task_of_network,
)
from companion.papers.beyond.two_layer_style import ATTACKS as STYLES
from companion.papers.beyond.two_layer_style import BLACK
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.verdicts import rounded
from companion.style import GREY, drawing, legend_above, legend_line, panels

PARAMETERS = {
    **shape_parameters((12, 32), (3, 4), (6000, 16000)),
    "widths": Parameter(
        "ints", (2000, 4000, 8000, 16000, 32000), (4000, 16000, 64000), OURS, "neurons", low=1000
    ),
    "max_grad_norm": Parameter("float", 10.0, 10.0, "2, 4, 8", "C", low=0.01),
    "noise": Parameter("float", 0.05, 0.05, OURS, "noise after clipping", low=1e-4),
    "networks": networks_parameter(6, 12),
}
SETTLES = ("O-041",)

MEASURED = (*ATTACKS, "floor", "norm")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    defences = {
        "clipping and noise": {"max_grad_norm": p.max_grad_norm, "noise_std": p.noise},
        "noise": {"noise_std": 1.0},
    }
    tasks = [
        {**task_of_network(study, number), "width": width, "defence": name, "release": release}
        for name, release in defences.items()
        for width in p.widths
        for number in range(p.networks)
    ]
    runs = attacked(study, attack_case, tasks)
    # a start in the wrong place, that more starts would mend, says nothing of the width
    used = runs[runs["how"] == "at once"]
    errors = [
        {"defence": name, "width": width, "networks": len(own), **geometric_means(own, MEASURED)}
        for (name, width), own in used.groupby(["defence", "width"])
    ]
    fits = [
        {"defence": name, "quantity": quantity, **exponents(own, "width", quantity)}
        for name, own in used.groupby("defence", sort=False)
        for quantity in MEASURED
    ]
    return Tables(
        {"errors": pd.DataFrame(errors), "exponents": pd.DataFrame(fits)},
        ran=f"{p.networks} networks at each of {len(p.widths)} widths, d = {p.dimension}, "
        f"B = {p.count}; least squares at the bound at once in {len(used)} of {len(runs)} runs.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    by = tables["exponents"].set_index(["defence", "quantity"])
    clipped, alone = by.loc["clipping and noise"], by.loc["noise"]

    def fitted(fit: pd.Series) -> str:
        return rounded(fit["exponent"], fit["error"])

    yield check(
        "beyond/two_layer_clip_noise",
        abs(clipped.loc["norm", "exponent"] - 0.5) < 0.05
        and abs(alone.loc["floor", "exponent"] + 0.5) < 0.1
        and abs(alone.loc["least squares", "exponent"] + 0.5) < 0.2,
        "Under noise alone floor and least squares fall with the root of the width; the "
        "gradient's norm grows with it, and so does the noise relative to a clipped gradient",
        ours=", ".join(
            fitted(fit)
            for fit in (alone.loc["floor"], alone.loc["least squares"], clipped.loc["norm"])
        ),
    )
    yield check(
        "O-041",
        abs(clipped.loc["floor", "exponent"]) < 0.1
        and abs(clipped.loc["least squares", "exponent"]) < 0.2,
        "Under clipping with noise neither the exact bound nor the error of least squares "
        "depends on the width; the exponents are zero to within 0.1 and 0.2",
        ours=", ".join(
            f"{name} {fitted(clipped.loc[name])}"
            for name in ("least squares", "floor", "orders removed", "norm")
        ),
        paper="max(1, |G|/C) sqrt(d/m), with |G| not resolved",
    )


CAPTION = (
    "Errors over the width of the network: under noise alone, and under noise after "
    "clipping (geometric means over networks, 95% intervals), with the exact Cramér–Rao bound. "
    "Right: the gradient's norm, and the exponents of the width with their intervals, filled under "
    "clipping and noise, hollow under noise alone."
)


def alt(tables: Tables) -> str:
    by = tables["exponents"].set_index(["defence", "quantity"])["exponent"]
    alone, clipped = by["noise"], by["clipping and noise"]
    # + 0.0: no "-0.0"
    level = [round(clipped[name], 1) + 0.0 for name in ("floor", "least squares")]
    return (
        "Left: under noise alone all curves fall, least squares on the black bound with a slope of "
        f"{alone['floor']:.1f}. Middle: under clipping with noise bound and least squares are "
        "level, the tensor attacks fall towards them. Right: in the clipped case the exponents of "
        f"bound and least squares are {level[0]:.1f} and {level[1]:.1f}, that of the norm is "
        f"{clipped['norm']:.1f}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    errors = tables["errors"]
    figure, (row,) = panels(1, 3, 3.4, 3.0)
    top = 1.3 * float(errors[[f"{n} high" for n in ATTACKS]].to_numpy().max())
    low = 0.7 * float(errors["least squares low"].min())
    line = {"ms": 4.5, "capsize": 2, "elinewidth": 0.9, "linewidth": 1.3}
    for axis, defence in zip(row, ("noise", "clipping and noise"), strict=False):
        own = errors[errors["defence"] == defence].sort_values("width")
        axis.plot(own["width"], own["floor"], color=BLACK, linewidth=2.2)
        for name, (_, colour, marker) in STYLES.items():
            room = [own[name] - own[f"{name} low"], own[f"{name} high"] - own[name]]
            axis.errorbar(own["width"], own[name], yerr=room, color=colour, marker=marker, **line)
        axis.set(xscale="log", yscale="log", ylim=(low, top))
        axis.set(xlabel="width m", ylabel="RMSE of the records", title=defence)
        ticks = list(own["width"])[:: 2 if len(own) > 4 else 1]
        axis.set_xticks(ticks, [f"{w:,}" for w in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    _exponents_panel(row[2], tables["exponents"])
    handles = [
        *(legend_line(label, colour, "-", m) for label, colour, m in STYLES.values()),
        legend_line("exact Cramér–Rao bound", BLACK, "-", linewidth=2.2),
    ]
    legend_above(figure, handles, 4)
    return figure


def _exponents_panel(axes: Axes, fits: pd.DataFrame) -> None:
    names = {
        "norm": ("gradient's norm", GREY, "D"),
        "floor": ("exact bound", BLACK, "o"),
        **{name: (name, colour, marker) for name, (_, colour, marker) in STYLES.items()},
    }
    by = fits.set_index(["quantity", "defence"])
    for i, (name, (_, colour, marker)) in enumerate(names.items()):
        for shift, defence, face in (
            (-0.15, "clipping and noise", colour),
            (0.15, "noise", "white"),
        ):
            own, y = by.loc[(name, defence)], len(names) - 1 - i - shift
            axes.plot([own["low"], own["high"]], [y, y], color=colour, linewidth=1.4)
            axes.plot(own["exponent"], y, marker, color=colour, ms=5, markerfacecolor=face)
    for place in (-0.5, 0.0, 0.5):
        axes.axvline(place, color=GREY, linestyle=":", linewidth=1)
    axes.set_yticks(range(len(names))[::-1], [label for label, _, _ in names.values()])
    axes.set(xlabel="exponent of m", ylim=(-0.6, len(names) - 0.4))
