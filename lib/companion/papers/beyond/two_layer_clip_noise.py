"""DP-SGD's error against the width of a two-layer network: noise alone, and after clipping."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

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
from companion.papers.beyond.two_layer_style import BLACK, draw_errors, draw_exponents
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import Falsifier, column, frame, graded, world
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
#: of exponents of the bound and of the norm, which hardly scatter, and of least squares, three
#: standard errors
NEAR, SCATTER = 0.05, 0.15


def _off(words: str, defence: str, quantity: str, *targets: str) -> Falsifier:
    """A world in which one exponent is larger."""
    row = f"defence == '{defence}' and quantity == '{quantity}'"
    change = column("exponents", "exponent", lambda c, by: c + by, row)
    return graded(f"an exponent of {words} {{}} larger", change, *targets, unit="")


FALSIFIERS = (
    _off("the bound under noise alone", "noise", "floor"),
    _off("least squares under noise alone", "noise", "least squares"),
    _off("the norm", "clipping and noise", "norm"),
    _off("the bound", "clipping and noise", "floor", "O-041"),
    _off("least squares", "clipping and noise", "least squares", "O-041"),
    world(
        "clipping with noise and noise alone exchanged",
        frame("exponents", lambda t: _exchanged(t)),
        "",
        "O-041",
    ),
)


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
    # a failure that more starts would mend says nothing about the width
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


def _exchanged(fits: pd.DataFrame) -> pd.DataFrame:
    """Exponents with the names of both defences exchanged."""
    names = {"noise": "clipping and noise", "clipping and noise": "noise"}
    return fits.assign(defence=fits["defence"].map(names))


def judge(tables: Tables) -> Iterator[Verdict]:
    by = tables["exponents"].set_index(["defence", "quantity"])
    clipped, alone = by.loc["clipping and noise"], by.loc["noise"]

    def fitted(fit: pd.Series) -> str:
        return rounded(fit["exponent"], fit["error"])

    yield check(
        "beyond/two_layer_clip_noise",
        abs(clipped.loc["norm", "exponent"] - 0.5) < NEAR
        and abs(alone.loc["floor", "exponent"] + 0.5) < NEAR
        and abs(alone.loc["least squares", "exponent"] + 0.5) < SCATTER,
        "Under noise alone the exact bound and the error of least squares fall like the inverse "
        "root of the width; the gradient's norm grows like its root",
        ours=", ".join(
            fitted(fit)
            for fit in (alone.loc["floor"], alone.loc["least squares"], clipped.loc["norm"])
        ),
        tolerance=f"{NEAR:g}, {SCATTER:g} for least squares",
    )
    yield check(
        "O-041",
        abs(clipped.loc["floor", "exponent"]) < NEAR
        and abs(clipped.loc["least squares", "exponent"]) < SCATTER,
        "Under clipping with noise the exact bound and the error of least squares have exponents "
        f"of the width within {NEAR:g} and {SCATTER:g} of zero",
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


@drawing
def draw(tables: Tables) -> Figure:
    errors = tables["errors"]
    figure, (row,) = panels(1, 3, 3.4, 3.0)
    top = 1.3 * float(errors[[f"{n} high" for n in ATTACKS]].to_numpy().max())
    low = 0.7 * float(errors["least squares low"].min())
    for axis, defence in zip(row, ("noise", "clipping and noise"), strict=False):
        own = errors[errors["defence"] == defence].sort_values("width")
        axis.plot(own["width"], own["floor"], color=BLACK, linewidth=2.2)
        draw_errors(axis, "width", own, STYLES)
        axis.set(ylim=(low, top), xlabel="width m", ylabel="RMSE of the records", title=defence)
        ticks = list(own["width"])[:: 2 if len(own) > 4 else 1]
        axis.set_xticks(ticks, [f"{w:,}" for w in ticks])
        axis.set_xticks([], minor=True)
    looks = {"norm": ("gradient's norm", GREY, "v"), "floor": ("exact bound", BLACK, "o")}
    looks |= {name: (name, colour, marker) for name, (_, colour, marker) in STYLES.items()}
    draw_exponents(row[2], tables["exponents"], looks, "defence", ("clipping and noise", "noise"))
    for place in (-0.5, 0.0, 0.5):
        row[2].axvline(place, color=GREY, linestyle=":", linewidth=1)
    row[2].set_xlabel("exponent of m")
    handles = [
        *(legend_line(label, colour, "-", m) for label, colour, m in STYLES.values()),
        legend_line("exact Cramér–Rao bound", BLACK, "-", linewidth=2.2),
    ]
    legend_above(figure, handles, 4)
    return figure
