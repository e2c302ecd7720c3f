"""How often single reconstructions exceed the printed bound on the NCC, exactly."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import shared_by
from companion.style import COLOURS, GREY, drawing, panels
from reconrisk import bounds

_OURS = "our own exhibit"
_SIGMAS = (0.01, 0.1, 1.0)
_DIMENSIONS = (3, 4, 10, 30, 100, 300, 1000, 10_000, 150_528, 10**6, 10**9)

PARAMETERS = {
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", 1e-12),
    "dimensions": Parameter("ints", _DIMENSIONS, _DIMENSIONS, _OURS, "N", 3),
}
SETTLES = ("O-003", "E-A-07")
FALSIFIERS = (
    world(
        "no reconstruction above the bound",
        column("exceedance", "share above", lambda c: 0.0),
        *("", "O-003", "E-A-07"),
    ),
    graded(
        "shares above the bound {} smaller",
        column("exceedance", "share above", lambda c, by: c * (1 - by)),
        *("", "O-003", "E-A-07"),
    ),
    graded(
        "shares {} larger at the largest N",
        column("exceedance", "share above", lambda c, by: c * (1 + by), "N > 1e8"),
        *("", "O-003"),
    ),
    world(
        "an expectation equal to the bound",
        frame("exceedance", lambda t: t.assign(**{"expected NCC": t["bound"]})),
        "E-A-07",
    ),
    graded(
        "an expected NCC {} lower",
        column("exceedance", "expected NCC", lambda c, by: c * (1 - by)),
        "E-A-07",
    ),
)

#: the share may fall short of one half by rounding only, and must come this near at N = 1e9
HALF_MARGIN = 1e-3


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    dimension = np.array(p.dimensions, dtype=float)
    columns = []
    for sigma in p.noise_multipliers:
        bound = bounds.ncc_bound_paper(dimension, sigma)
        share = bounds.ncc_tail(bound, dimension, sigma)
        expected = bounds.expected_ncc(dimension, sigma)
        columns.append(np.stack([np.full_like(bound, sigma), dimension, bound, share, expected]))
    names = ["sigma", "N", "bound", "share above", "expected NCC"]
    return Tables(
        {"exceedance": pd.DataFrame(np.hstack(columns).T, columns=names)},
        exact=("exceedance",),
        ran="closed forms only (centred data: contrast 1).",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["exceedance"]
    smallest = table[table["N"] == table["N"].min()].iloc[-1]
    largest = table[table["N"] == table["N"].max()]
    exceeds = (table["share above"] >= 0.5 - 1e-9).all()
    half = ((largest["share above"] - 0.5).abs() < HALF_MARGIN).all()
    excess = table["expected NCC"] / table["bound"] - 1
    # for large N the expectation exceeds the bound by 1 / (4 N) of it
    limit = (4 * excess * table["N"])[table["N"] >= 1e6]
    shares = f"{table['share above'].min():.3f} to {table['share above'].max():.3f}"
    verdict = check(
        "beyond/ncc_exceedance",
        exceeds and half,
        "the share of single reconstructions above the printed bound tends to one half as N grows",
        ours=f"share above {shares}; at N = {table['N'].max():g} "
        + ", ".join(f"{share:.4f}" for share in largest["share above"]),
    )
    yield from shared_by(verdict, "O-003")
    yield refute(
        "E-A-07",
        holds=not (table["share above"] > 0.1).all(),
        corrected_holds=exceeds and (excess > 0).all() and np.allclose(limit, 1, rtol=0.05),
        ours=f"share above {shares}; expected NCC over bound at N = {smallest['N']:.0f}, sigma = "
        f"{smallest['sigma']:g}: {smallest['expected NCC'] / smallest['bound']:.3f}",
        paper="0",
    )


CAPTION = (
    "The share of single reconstructions whose NCC exceeds the printed bound (left) and the exact "
    "expected NCC over that bound (right), for centred data."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["exceedance"]
    figure, (row,) = panels(1, 2, 4.3, 3.1)
    for colour, marker, (sigma, own) in zip(COLOURS, "os^Dv", table.groupby("sigma"), strict=False):
        style = {"marker": marker, "ms": 4, "color": colour}
        row[0].plot(own["N"], own["share above"], label=rf"$\sigma$ = {sigma:g}", **style)
        row[1].plot(own["N"], own["expected NCC"] / own["bound"], **style)
    for axis, level in zip(row, (0.5, 1), strict=True):
        axis.axhline(level, color=GREY, lw=1, ls=":")
        axis.set(xscale="log", xlabel="dimension N")
    row[0].set_ylabel("share above the printed bound")
    row[1].set_ylabel("E[NCC] / printed bound")
    row[0].legend()
    return figure
