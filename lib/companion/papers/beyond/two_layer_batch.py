"""Growth of attacks' errors on a two-layer network, and of the bound, with B and 1/pi_min."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.papers.beyond.power_laws import exponents, geometric_means, regression_slope
from companion.papers.beyond.two_layer_attacks import (
    OURS,
    attacked,
    bound_case,
    moments_case,
    networks_parameter,
    task_of_network,
)
from companion.papers.beyond.two_layer_style import BLACK, draw_errors, draw_exponents
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import frame, graded, world
from companion.study.verdicts import rounded
from companion.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    drawing,
    legend_above,
    legend_line,
    panels,
)

PARAMETERS = {
    "dimension": Parameter("int", 16, 64, "d", "numbers in a record, for exponents", low=8),
    "width": Parameter("int", 131072, 524288, "m", "neurons, for exponents", low=1000),
    "record_width": Parameter("int", 16384, 65536, OURS, "neurons, for kinds of records", low=1000),
    "batch_sizes": Parameter("ints", (1, 2, 4, 8), (1, 2, 4, 8, 16), "B", "batch sizes", low=1),
    "networks": networks_parameter(5, 10),
}
SETTLES = ("O-040", "O-042")

KINDS = ("orthogonal", "random", "digits")
#: what grows with the batch; of these, what grows more slowly than the printed upper bound
GROWING = ("tensor", "tensor span", "orders removed", "orders removed span", "floor")
SLOW = GROWING[1:]
#: of the exponents of what grows more slowly than the printed bound, whose exponent is one, and of
#: 1/pi_min, whose printed exponent is two: half of it at most
BELOW_ONE, BELOW_TWO = 0.75, 1.0

FALSIFIERS = (
    graded(
        "exponents of the batch size {} smaller",
        frame("exponents", lambda t, by: _shifted(t, -by)),
        "",
        "O-040",
        unit="",
    ),
    graded(
        "exponents of the batch size {} larger",
        frame("exponents", lambda t, by: _shifted(t, by)),
        "O-040",
        unit="",
    ),
    world(
        "errors that do not depend on the batch size",
        frame("exponents", lambda t: t.assign(exponent=0.0, low=-0.1, high=0.1)),
        "",
        "O-040",
    ),
    graded(
        "errors and bounds of digits {} smaller",
        frame("kinds", lambda t, by: _of_digits(t, 1 - by)),
        "O-042",
        most=0.9,
    ),
    graded(
        "exponents of 1/pi_min {} larger",
        frame("pi exponents", lambda t, by: _shifted(t, by)),
        "O-042",
        most=2.0,
        unit="",
    ),
    world(
        "records of any kind alike",
        frame("pi exponents", lambda t: t.assign(exponent=0.0, low=-0.1, high=0.1)),
        "O-042",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tensor = attacked(study, moments_case, batch_tasks(study, p.width))
    floors = attacked(study, bound_case, batch_tasks(study, p.record_width))
    tensor["floor"] = floors["unit floor"]
    of_kinds = kind_tasks(study)
    kinds = attacked(study, moments_case, of_kinds)
    kinds["unit floor"] = attacked(study, bound_case, of_kinds)["unit floor"]
    errors = [
        {"labels": labels, "B": size, **geometric_means(own, GROWING)}
        for (labels, size), own in tensor.groupby(["labels", "count"], sort=False)
    ]
    growth = [
        {"labels": labels, "quantity": name, **exponents(own, "count", name)}
        for labels, own in tensor.groupby("labels", sort=False)
        for name in GROWING
    ]
    # batches of two are too alike for a slope
    slopes = [
        {"B": size, "quantity": name, **regression_slope(1 / own["pi_min"], own[name])}
        for size, own in kinds[kinds["count"] > 2].groupby("count")
        for name in ("orders removed", "unit floor")
    ]
    return Tables(
        {
            "errors": pd.DataFrame(errors),
            "exponents": pd.DataFrame(growth),
            "kinds": kinds,
            "pi exponents": pd.DataFrame(slopes),
        },
        ran=f"{p.networks} networks of {p.width:,} neurons at d = {p.dimension}; of "
        f"{p.record_width:,} neurons with digits of 64 pixels.",
    )


def batch_tasks(study: Context, width: int) -> list[dict[str, Any]]:
    """Batches of orthogonal records, whose smallest singular value is one whatever their number."""
    p = study.parameters
    return [
        task_of_network(study, number)
        | {"width": width, "count": size, "labels": labels, "records": "orthogonal"}
        for labels in ("random", "same")
        for size in p.batch_sizes
        if size <= p.dimension
        for number in range(p.networks)
    ]


def kind_tasks(study: Context) -> list[dict[str, Any]]:
    """Batches of three kinds of records, at the digits' dimension."""
    p = study.parameters
    digits = {"dimension": 64, "width": p.record_width}
    return [
        task_of_network(study, number)
        | digits
        | {"count": size, "records": kind, "labels": "random"}
        for kind in KINDS
        for size in p.batch_sizes
        if size > 1
        for number in range(p.networks)
    ]


def _shifted(fits: pd.DataFrame, by: float) -> pd.DataFrame:
    """Exponents with their intervals, all larger by the same."""
    return fits.assign(**{c: fits[c] + by for c in ("exponent", "low", "high")})


def _of_digits(kinds: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Errors and bounds of batches of digits times a factor."""
    digits = kinds["records"] == "digits"
    names = ("orders removed", "unit floor")
    return kinds.assign(**{n: kinds[n].mask(digits, factor * kinds[n]) for n in names})


def judge(tables: Tables) -> Iterator[Verdict]:
    growth, kinds, slopes = tables["exponents"], tables["kinds"], tables["pi exponents"]
    by = growth.set_index(["quantity", "labels"]).sort_index()
    random = by.xs("random", level="labels")
    fitted = ", ".join(
        f"{name} {rounded(random.loc[name, 'exponent'], random.loc[name, 'error'])}"
        for name in ("tensor", "orders removed", "floor")
    )
    yield check(
        "beyond/two_layer_batch",
        (by.loc[["tensor", "orders removed", "floor"], "low"] > 0).all(),
        "For orthogonal records the tensor attack's error and the exact Cramer-Rao bound grow "
        "with the batch size",
        ours=fitted,
        tolerance="95% intervals",
    )
    yield check(
        "O-040",
        (by.loc[list(SLOW), "high"] < BELOW_ONE).all()
        and (by.loc[["orders removed", "floor"], "low"] > 0).all(),
        "The tensor attack's error with the low orders removed and the exact Cramer-Rao bound grow "
        f"with exponents of the batch size above zero and below {BELOW_ONE:g}, the errors of both "
        "attacks' spans with no larger ones, labels random or the same",
        ours=fitted,
        paper="1 (upper bound), 0 (lower bound)",
        tolerance="95% intervals",
    )
    steep = slopes[slopes["B"] == slopes["B"].max()].set_index("quantity")
    middle = kinds.groupby(["records", "count"])[["orders removed", "unit floor"]].median()
    least, most = kinds["count"].min(), kinds["count"].max()
    by_kind = middle.loc["digits", most] / middle.loc["orthogonal", most]
    by_size = middle.loc["orthogonal", most] / middle.loc["orthogonal", least]
    yield check(
        "O-042",
        (by_kind > by_size).all()
        and steep.loc["unit floor", "low"] > 0
        and (steep["high"] < BELOW_TWO).all(),
        "From orthogonal records to digits, at one batch size, error and exact bound grow by more "
        f"than over the batch sizes, with an exponent of 1/pi_min below {BELOW_TWO:g}",
        ours="; ".join(
            f"{name}: digits {by_kind[name]:.1f} times, batch {by_size[name]:.1f} times, exponent "
            f"{rounded(steep.loc[name, 'exponent'], steep.loc[name, 'error'])}"
            for name in middle.columns
        ),
        paper="1/pi_min^2",
        tolerance="95% intervals",
    )


CAPTION = (
    "Errors over the batch size of orthogonal records, labels random or all one (geometric means "
    "over networks, 95% intervals; its span: of the space that the attack places the records in), "
    "and the fitted exponents with their intervals beside those of the printed bounds, one and "
    "zero. Below: orthogonal, random and digit records of one dimension: the attack's error with "
    "low orders removed, and the exact Cramér–Rao bound, over one over the smallest singular value "
    "of the batch; marker size grows with the batch. Dashed: the printed power, two."
)


def alt(tables: Tables) -> str:
    growth, slopes = tables["exponents"], tables["pi exponents"]
    slow = growth[growth["quantity"].isin(SLOW)]["exponent"]
    tensor = growth[growth["quantity"] == "tensor"]["exponent"]
    return (
        "Upper panels: four rising curves beside the dotted line of slope one; the exponents lie "
        f"between {slow.min():.1f} and {slow.max():.1f}, the published attack's own at "
        f"{tensor.min():.1f} to {tensor.max():.1f}. Lower panels: orthogonal and random records "
        "crowd at a singular value near one, digits lie to the right and higher, along a line "
        f"flatter than the dashed one: the exponents lie between {slopes['exponent'].min():.1f} "
        f"and {slopes['exponent'].max():.1f}."
    )


_RECORDS = {
    "orthogonal": ("orthogonal records", GREY, "s"),
    "random": ("random records", PURPLE, "v"),
    "digits": ("digits", ORANGE, "o"),
}
_MEASURED = {
    "tensor": ("tensor attack", BLUE, "s"),
    "tensor span": ("its span", SKY, "v"),
    "orders removed": ("low orders removed", GREEN, "^"),
    "floor": ("exact bound, unit noise", BLACK, "o"),
}


@drawing
def draw(tables: Tables) -> Figure:
    figure, axes = panels(2, 3, 3.3, 2.9)
    titles = {"random": "random labels", "same": "all labels +1"}
    for axis, (labels, title) in zip(axes[0], titles.items(), strict=False):
        own = tables["errors"].query(f"labels == '{labels}'")
        draw_errors(axis, "B", own, _MEASURED)
        slope_one = own["orders removed"].iloc[0] * own["B"] / own["B"].iloc[0]
        axis.plot(own["B"], slope_one, ":", color=GREY)
        axis.set(xlabel="batch size", ylabel="error", title=title)
        axis.set_xticks(own["B"], [str(size) for size in own["B"]])
        axis.set_xticks([], minor=True)
    last = axes[0][2]
    draw_exponents(last, tables["exponents"], _MEASURED, "labels", ("random", "same"))
    for printed in (0.0, 1.0):
        last.axvline(printed, color=GREY, linestyle=":")
    last.set_xlabel("exponent of B")
    last.set_title("filled: random; hollow: +1", fontsize=9)
    for axis, name in zip(axes[1], ("orders removed", "unit floor"), strict=False):
        _kinds_panel(axis, tables["kinds"], name)
    axes[1][0].set_ylabel("error, low orders removed")
    axes[1][1].set_ylabel("exact bound, unit noise")
    _pi_panel(axes[1][2], tables["pi exponents"])
    handles = [
        *(legend_line(label, c, "-", m) for label, c, m in _MEASURED.values()),
        legend_line("slope one", GREY, ":"),
        *(legend_line(label, c, "", m) for label, c, m in _RECORDS.values()),
        legend_line(r"slope two: $1/\pi_{\min}^2$", GREY, "--"),
    ]
    legend_above(figure, handles, 5)
    return figure


def _kinds_panel(axes: Axes, table: pd.DataFrame, name: str) -> None:
    for kind, (_, colour, marker) in _RECORDS.items():
        own = table[table["records"] == kind]
        look = {"s": 8 + 5 * own["count"], "marker": marker, "color": colour, "alpha": 0.7}
        axes.scatter(1 / own["pi_min"], own[name], linewidths=0, **look)
    most = table["count"] == table["count"].max()
    base = table.loc[(table["records"] == "orthogonal") & most, name].median()
    far = np.array([1.0, float((1 / table["pi_min"]).max())])
    axes.plot(far, base * far**2, "--", color=GREY)
    axes.set(xscale="log", yscale="log", xlabel=r"$1/\pi_{\min}$")
    ticks = [t for t in (1, 2, 3, 5, 10, 20) if t <= 1.2 * far[1]]
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.set_xticks([], minor=True)


def _pi_panel(axes: Axes, table: pd.DataFrame) -> None:
    names = {"orders removed": "error, low orders removed", "floor": "exact bound"}
    labels = []
    for y, row in zip(range(len(table))[::-1], table.to_dict("records"), strict=True):
        quantity = row["quantity"].removeprefix("unit ")
        _, colour, marker = _MEASURED[quantity]
        axes.plot([row["low"], row["high"]], [y, y], color=colour, linewidth=1.4)
        axes.plot(row["exponent"], y, marker, color=colour, ms=5)
        labels.append(f"{names[quantity]},\nB = {row['B']:g}")
    axes.axvline(2.0, color=GREY, linestyle="--")
    axes.axvline(0.0, color=GREY, linestyle=":")
    axes.set_yticks(range(len(table))[::-1], labels, fontsize=8)
    axes.set(xlabel=r"exponent of $1/\pi_{\min}$", ylim=(-0.6, len(table) - 0.4))
