"""Theorems 3.1 and B.6: the tensor attack's error over every factor that they name."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.exhibit import DEFENCES
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import attack_laws, attack_sweep, means_over, of_defence
from companion.papers.liu2024.factor_panels import (
    draw_means,
    draw_order,
    set_logarithmic,
    spread_widths,
)
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    PowerLaw,
    check_exponents,
    fit_column,
    laws_of,
    listed,
)

EXHIBITS = ("thm3_1", "thmB6")
PARAMETERS = attack_sweeps.PARAMETERS

SETTLES_THM3_1 = ("E-003",)
SHOWN_THM3_1 = ("exponents",)
ALTERED_THM3_1 = {"fits": EXPONENTS}


def measure_thm3_1(study: Context) -> Tables:
    """Theorem 3.1: the tensor attack's error over m, d and B, and the error of its first stage."""
    undefended = {x: of_defence(attack_sweep(study, x)) for x in ("width", "dimension")}
    laws = attack_laws(study, "none m", "none d", "random B", "equal B")
    for letter, (x, table) in zip("md", undefended.items(), strict=True):
        laws[f"span {letter}"] = fit_column(table, x, "span")
    return Tables(
        {
            "exponents": _beside_printed(laws),
            "fits": listed(laws),
            **{x: _with_span(table, x) for x, table in undefended.items()},
            "batch": means_over(attack_sweep(study, "batch"), "batch"),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _beside_printed(laws: dict[str, PowerLaw]) -> pd.DataFrame:
    rows = (
        ("m", "error", -0.5, "none m"),
        ("m", "span", -0.5, "span m"),
        ("d", "error", 0.5, "none d"),
        ("d", "span", 0.5, "span d"),
        ("B", "error, labels at random", 1.0, "random B"),
        ("B", "error, equal labels", 1.0, "equal B"),
    )
    return pd.DataFrame(
        [(*row, *str(laws[name]).split(" ", 1)) for *row, name in rows],
        columns=["factor", "of", "printed", "exponent", "95% interval"],
    )


def _with_span(table: pd.DataFrame, over: str) -> pd.DataFrame:
    """Means of the error and of its part outside the span of P's eigenvectors."""
    parts = [means_over(table, over, column).assign(of=column) for column in ("error", "span")]
    return pd.concat(parts, ignore_index=True)


def judge_thm3_1(tables: Tables) -> Iterator[Verdict]:
    verdict = check_exponents(
        "liu2024/thm3_1",
        laws_of(tables["fits"]),
        "the error grows as the root of d/m, and no faster than B, whether labels are random or "
        "equal",
        {"none m": -0.5, "none d": 0.5, "random B": 1, "equal B": 1},
        at_most=("random B", "equal B"),
    )
    yield from shared_by(verdict, "E-003")


CAPTION_THM3_1 = (
    "The attack's error over width, dimension and batch size, geometric means over "
    "networks with 95% intervals. Hollow: the error of the first stage, the records' distance from "
    "the span of P's eigenvectors. Dotted: the printed order. In the batch size the error grows "
    "more slowly than the bound, whether the labels are random or all the same."
)


@drawing
def draw_thm3_1(tables: Tables) -> Figure:
    figure, ((left, middle, right),) = panels(1, 3, width=3.3, height=2.9)
    for axis, name, letter, power in ((left, "width", "m", -0.5), (middle, "dimension", "d", 0.5)):
        table = tables[name]
        whole, span = (table[table["of"] == what] for what in ("error", "span"))
        draw_means(axis, whole, name, DEFENCES["None"])
        draw_means(axis, span, name, DEFENCES["None"], "--", markerfacecolor="white")
        draw_order(axis, whole, name, power, last=True)
        ticks = spread_widths(whole) if name == "width" else sorted(set(whole[name]))
        set_logarithmic(axis, f"{name} {letter}", ticks)
    left.set_ylabel("error of the records")
    batch = tables["batch"]
    for kind, colour, marker in (("random", BLUE, "s"), ("equal", ORANGE, "^")):
        mine = batch[batch["labels"] == kind]
        draw_means(right, mine, "batch", {"color": colour, "marker": marker})
        draw_order(right, mine, "batch", 1.0)
    set_logarithmic(right, "batch size B", sorted(set(batch["batch"])))
    legend_above(
        figure,
        [
            legend_line("error", GREY, "-", "o"),
            legend_line("span", GREY, "--", "o", markerfacecolor="white"),
            legend_line("random labels", BLUE, "-", "s"),
            legend_line("equal labels", ORANGE, "-", "^"),
            legend_line("printed order", "black", ":"),
        ],
        5,
    )
    return figure


ALTERED_THMB6 = {"exponents": EXPONENTS}
#: of the sweep over the batch size
DIMENSION = 16


def measure_thmb6(study: Context) -> Tables:
    """Theorem B.6: the full statement, with pi_min and B, which the short one leaves out."""
    overlap = attack_sweep(study, "overlap")
    laws = attack_laws(study, "none m", "none d", "equal B")
    # records of equal inner products o have the smallest singular value (1 - o)^(1/2)
    laws["1/pi_min"] = fit_column(
        overlap.assign(inverse=(1 - overlap["overlap"]) ** -0.5), "inverse"
    )
    return Tables(
        {
            "exponents": listed(laws),
            "over pi_min": means_over(overlap, "overlap"),
            "over B": means_over(attack_sweep(study, "batch"), "batch"),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge_thmb6(tables: Tables) -> Iterator[Verdict]:
    largest = tables["over B"]["batch"].max()
    yield check_exponents(
        "liu2024/thmB6",
        laws_of(tables["exponents"]),
        "the error grows as the root of d/m, and no faster than B and than 1/pi_min^2, also beyond "
        f"the batches of order d^(1/4) that the theorem covers: up to B = {largest} where d^(1/4) "
        f"is {DIMENSION**0.25:g}",
        {"none m": -0.5, "none d": 0.5, "equal B": 1, "1/pi_min": 2},
        at_most=("equal B", "1/pi_min"),
    )
