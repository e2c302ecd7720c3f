"""Proposition 1: the Rényi divergence of two VMF laws, and opposite centres as the worst case."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats
from scipy.special import logsumexp

from companion.exhibit import *
from companion.experiments.federated import DIMENSION
from companion.papers.biswas2024.sphere_quadrature import at_angle, latitudes, points_on_sphere
from reconrisk import privacy

_THEOREM = "not printed: a statement, not an experiment"
_ORDERS = (1.0, 1.5, 2.0, 4.0)
_ANGLES = (0.3, 0.6, 1.2, 2.0, 3.14159)
_CONCENTRATIONS = (25.0, 75.0, 150.0, 500.0)

PARAMETERS = {
    "orders": Parameter("floats", _ORDERS, _ORDERS, _THEOREM, "alpha, orders", 1),
    "angles": Parameter(
        "floats", (0.6, 2.0, 3.14159), _ANGLES, _THEOREM, "angles between the centres", 0.01
    ),
    "concentrations": Parameter(
        "floats", _CONCENTRATIONS, _CONCENTRATIONS, "25 to 500", "kappa, concentrations", 1e-3
    ),
    "points": Parameter("int", 61, 201, "not printed", "points of each curve", 2),
    "sampling_rate": Parameter("float", 0.2, 0.2, _THEOREM, "q of the Poisson sample", 1e-3),
}
SETTLES = ("D-004",)
ALTERED = {
    "two routes": {"closed form": "closed forms on the circle and the sphere"},
    "latitudes": {"closed form": "closed forms at the paper's dimension"},
    "growth": {"least rise": "rises of the divergence from one angle to the next [nats]"},
    "hockey sticks": {"least rise": "rises of delta from one angle to the next"},
}
SCENARIOS = (
    scenario(
        "deltas that do not depend on the angle",
        frame("hockey sticks", lambda t: t.assign(**{"least rise": 0.0, "largest rise": 0.0})),
        "D-004",
    ),
)

#: of the circle and the sphere
_SMALL = tuple(itertools.product((2, 3), (0.7, 2.5)))


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    orders = np.geomspace(1.01, 64.0, p.points)
    angles = np.linspace(0.05, math.pi, p.points)
    every, count = p.concentrations, len(p.concentrations)
    by_order = pd.DataFrame({"kappa": np.repeat(every, p.points), "order": np.tile(orders, count)})
    by_angle = pd.DataFrame({"kappa": np.repeat(every, p.points), "angle": np.tile(angles, count)})
    values = [privacy.vmf_renyi(orders, DIMENSION, kappa) for kappa in every]
    by_order["divergence"] = np.concatenate(values)
    by_order["Gaussian"] = 2 * by_order["order"] * by_order["kappa"] ** 2 / DIMENSION
    values = [privacy.vmf_renyi(2.0, DIMENSION, kappa, angles) for kappa in every]
    by_angle["divergence"] = np.concatenate(values)
    curves = pd.concat([by_order, by_angle], ignore_index=True)[["divergence"]].round(8)
    return Tables(
        {
            "by order": by_order,
            "by angle": by_angle,
            "two routes": _by_points(p.orders, p.angles),
            "latitudes": _by_latitudes(p.orders, p.concentrations),
            "growth": _growth_with_angle(p.orders),
            "hockey sticks": _hockey_sticks(p.sampling_rate),
            "curves": curves,
        },
        exact=("curves",),
        ran=f"closed forms at p = {DIMENSION:,}; quadrature on the circle and the sphere at "
        "kappa = 0.7 and 2.5.",
    )


def _by_points(orders: Sequence[float], angles: Sequence[float]) -> pd.DataFrame:
    """Closed form and quadrature in two and three dimensions, with SciPy's density."""
    rows = []
    for (dimension, kappa), angle in itertools.product(_SMALL, angles):
        points, weights = points_on_sphere(dimension)
        first, second = (
            stats.vonmises_fisher(at_angle(dimension, centre), kappa).logpdf(points)
            for centre in (0.0, angle)
        )
        for order in orders:
            closed = float(privacy.vmf_renyi(order, dimension, kappa, angle))
            if order == 1.0:
                value = float(weights @ (np.exp(first) * (first - second)))
            else:
                moment = weights @ np.exp(order * first + (1 - order) * second)
                value = math.log(float(moment)) / (order - 1)
            rows.append((dimension, kappa, angle, order, closed, value))
    columns = ["p", "kappa", "angle", "order", "closed form", "quadrature"]
    return pd.DataFrame(rows, columns=columns)


def _by_latitudes(orders: Sequence[float], concentrations: Sequence[float]) -> pd.DataFrame:
    """Closed form and quadrature at the paper's dimension."""
    rows = []
    for kappa in concentrations:
        loss, log_mass = latitudes(kappa)
        for order in orders:
            if order == 1.0:
                value = float(np.sum(np.exp(log_mass + loss) * loss))
            else:
                value = float(logsumexp(log_mass + order * loss)) / (order - 1)
            rows.append((kappa, order, float(privacy.vmf_renyi(order, DIMENSION, kappa)), value))
    return pd.DataFrame(rows, columns=["kappa", "order", "closed form", "quadrature"])


def _growth_with_angle(orders: Sequence[float]) -> pd.DataFrame:
    """The least rise of the divergence from angle to angle, also at orders below one."""
    angles = np.linspace(0.0, math.pi, 61)
    rows = []
    for dimension, kappa in itertools.product((2, 3, 50, DIMENSION), (0.01, 5.0, 75.0, 500.0)):
        for order in sorted({0.1, 0.5, 0.9, *orders, 64.0}):
            rise = np.diff(privacy.vmf_renyi(order, dimension, kappa, angles))
            rows.append((order, dimension, kappa, rise.size, rise.min()))
    return pd.DataFrame(rows, columns=["order", "p", "kappa", "angles", "least rise"])


def _hockey_sticks(q: float) -> pd.DataFrame:
    """The change of every hockey-stick divergence from angle to angle, by quadrature.

    One release on all records and on a Poisson sample, with the record present against absent and
    the other way round, and two releases on the circle.
    """
    rows = []
    for dimension, kappa in _SMALL:
        points, weights = points_on_sphere(dimension)
        away = np.exp(stats.vonmises_fisher(at_angle(dimension, 0.0), kappa).logpdf(points))
        levels = np.exp(np.linspace(0.0, 2 * kappa, 9))
        values: dict[str, list[np.ndarray]] = {}
        for angle in np.linspace(0.2, math.pi, 8):
            centre = at_angle(dimension, angle)
            here = np.exp(stats.vonmises_fisher(centre, kappa).logpdf(points))
            mixed = (1 - q) * away + q * here
            releases: dict[str, tuple[np.ndarray, ...]] = {
                "all records": (here, away, weights),
                "sample, removed": (mixed, away, weights),
                "sample, added": (away, mixed, weights),
            }
            if dimension == 2:
                squares = (np.outer(v, v).ravel() for v in (mixed, away, weights))
                releases["two samples"] = tuple(squares)
            for name, (one, other, area) in releases.items():
                sticks = [area @ np.maximum(one - level * other, 0.0) for level in levels]
                values.setdefault(name, []).append(np.array(sticks))
        for name, curve in values.items():
            rise = np.diff(np.array(curve), axis=0)
            rows.append((dimension, kappa, name, float(rise.min()), float(rise.max())))
    columns = ["p", "kappa", "releases", "least rise", "largest rise"]
    return pd.DataFrame(rows, columns=columns)


def judge(tables: Tables) -> Iterator[Verdict]:
    routes, growth, sticks = tables["two routes"], tables["growth"], tables["hockey sticks"]
    small, large = (
        float((table["closed form"] / table["quadrature"] - 1).abs().max())
        for table in (routes, tables["latitudes"])
    )
    yield check(
        "biswas2024/prop1",
        small < 1e-9 and large < 1e-7,
        "the closed form, at any angle, is the divergence by quadrature over the circle and the "
        f"sphere with another library's density, and over the latitudes at p = {DIMENSION:,}",
        ours=f"{len(routes)} values agree to a relative 1e-9, at p = {DIMENSION:,} to 1e-7",
    )
    yield check(
        "D-004",
        (growth["least rise"] > 0).all()
        # a fall below the rounding of the quadrature counts as none
        and (sticks["least rise"] > -1e-12).all()
        and (sticks["largest rise"] > 0).all(),
        "at every order the divergence grows with the angle between the centres, so it is largest "
        "at opposite ones; so is delta at every epsilon, also on a Poisson sample and after two "
        "releases",
        ours=f"orders {growth['order'].min():g} to {growth['order'].max():g}, dimensions "
        f"{growth['p'].min():,} to {growth['p'].max():,}, {growth['angles'].min()} angles; delta "
        f"of {len(sticks)} kinds of release on the circle and the sphere",
    )


CAPTION = (
    "The Rényi divergence of two VMF laws of the paper's dimension, p = 13,700. Left: of opposite "
    "centres over the order, with the straight line that Gaussian noise of the same spread has "
    "(dotted); they separate at large orders, the sooner the larger the concentration. Right: of "
    "order two over the angle between the centres; it is largest at 180 degrees. Not in the paper "
    "as a picture; its Proposition 1 and footnote 3."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, ((over_order, over_angle),) = panels(1, 2, 4.4, 3.3)
    angles = dict(list(tables["by angle"].groupby("kappa")))
    for colour, (kappa, part) in zip(
        itertools.cycle(COLOURS), tables["by order"].groupby("kappa"), strict=False
    ):
        line = {"color": colour, "label": rf"$\kappa$ = {kappa:g}"}
        over_order.plot(part["order"], part["divergence"], **line)
        over_order.plot(part["order"], part["Gaussian"], ":", color="black", linewidth=1.1)
        degrees = angles[kappa]["angle"] * 180 / math.pi
        over_angle.plot(degrees, angles[kappa]["divergence"], color=colour)
    over_order.plot([], [], ":", color="black", linewidth=1.1, label=r"$2\alpha\kappa^2/p$")
    ticks = [1, 2, 4, 8, 16, 32, 64]
    over_order.set(xscale="log", yscale="log", xlabel=r"order $\alpha$", xticks=ticks)
    over_order.set(xticklabels=map(str, ticks), ylabel="Rényi divergence, opposite centres")
    over_order.minorticks_off()
    over_angle.set(yscale="log", xticks=[0, 45, 90, 135, 180])
    over_angle.set(xlabel="angle between the centres (degrees)", ylabel="divergence of order 2")
    figure.legend(loc="outside upper center", ncols=5)
    return figure
