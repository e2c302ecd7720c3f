"""The capacity of gradients whose layers are clipped one by one, which is below that of Theorem 5.

Each layer of a clipped gradient lies in a unit ball, so gradients and their averages lie in the
product of these balls. The supremum of a Gaussian density over a product is the product of the
suprema, and integrates to the product of the layers' capacities.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special as sc

from companion.experiments import capacity_routes as routes
from companion.experiments import federated
from companion.experiments.capacity_routes import LAYER_SIZES
from companion.experiments.federated import DIMENSION
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import STANDARD_ERRORS, within
from companion.style import MECHANISMS, drawing, legend_above, legend_line, panels
from reconrisk import bounds

_OURS = "our own exhibit"
_SIDES = (2, 3, 5, 9, 65)

PARAMETERS = {
    "batch_size": Parameter("int", 128, 128, "128", "B, the divisor of the average's noise", 1),
    "least_noise": Parameter("float", 0.1, 0.1, "0.174", "least sigma drawn", 1e-3),
    "most_noise": Parameter("float", 3.0, 3.0, "1.23", "largest sigma drawn", 0.01),
    "points": Parameter("int", 25, 61, _OURS, "sigmas of the curves", 5),
    "noises": Parameter("floats", (0.1, 0.4), (0.05, 0.1, 0.2, 0.4), _OURS, "sampled noise", 0.02),
    "samples": Parameter("int", 40_000, 200_000, _OURS, "samples of each small product", 1000),
    "grid": Parameter(
        "ints", _SIDES, (*_SIDES, 257), _OURS, "inputs a side of channels on a square, growing", 2
    ),
}
SETTLES = ("O-027",)
FALSIFIERS = (
    world(
        "layers that fill the ball of Theorem 5",
        frame("marks", lambda t: t.assign(layers=t["ball"])),
        "",
        "O-027",
    ),
    graded(
        "Gaussian noise on the sphere with {} less log capacity than in the ball",
        column("surface", "surface", lambda c, by: c * (1 - by)),
    ),
    world(
        "one concentration with more capacity than averaged Gaussian noise",
        column("VMF", "log capacity", lambda c: 1e4, "index == 0"),
    ),
    graded(
        "products of layers with {} more log capacity by sampling",
        column("sampled", "sampled", lambda c, by: c + by),
        "O-027",
        unit=" nats",
    ),
    graded(
        "channels on a square that stop {} short of its capacity",
        column("channels", "channel", lambda c, by: c * (1 - by)),
        "O-027",
    ),
    graded(
        "channels on a square with {} more than its capacity",
        column("channels", "channel", lambda c, by: c * (1 + by)),
        "O-027",
    ),
    graded(
        "a gap {} larger under little noise",
        column("gaps", "gap", lambda c, by: c * (1 + by)),
        "O-027",
    ),
    world(
        "a gap that does not depend on the noise",
        column("gaps", "gap", lambda c: c.max()),
        "O-027",
    ),
)

#: how near sampled log capacities must come, in nats: less than a sixth of the least gap to the
#: ball (0.26)
_SAMPLED = 0.04

#: layer sizes of small products, on which the closed form is compared with sampling
_PRODUCTS = ((1, 1), (2, 3), (12, 4, 2), (5, 5, 5))
_DOMAINS = {
    "ball": ("ball of Theorem 5, each layer clipped", "-"),
    "layers": ("product of the layers' balls", "--"),
    "whole": ("unit ball, clipped as a whole", ":"),
}


@measurement
def measure(study: Context) -> Tables:
    p, pairs = study.parameters, federated.pairs()
    sigma = np.array([pair.noise_multiplier for pair in pairs])
    curve = np.geomspace(p.least_noise, p.most_noise, p.points)
    marks = _curves(sigma, p.batch_size)
    # of the directions alone, the domain of VMF noise
    deviations = marks["sigma"] / marks["batch size"]
    surface = [routes.gaussian_by_shells(DIMENSION, s, 1.0, surface=True) for s in deviations]
    vmf = bounds.bayes_capacity_vmf(DIMENSION, [pair.concentration for pair in pairs])
    noises = np.geomspace(1e-7, 10.0, 60)
    sampled = _sampled(study)
    return Tables(
        {
            "curves": _curves(curve, p.batch_size),
            "marks": marks,
            "surface": marks[["batch size", "sigma", "whole"]].assign(surface=surface),
            "VMF": pd.DataFrame({"log capacity": vmf}),
            "sampled": sampled,
            "channels": _channels(p.grid, min(p.noises)),
            "gaps": pd.DataFrame({"noise": noises, "gap": [gap(s, LAYER_SIZES) for s in noises]}),
        },
        exact=("curves", "marks", "channels"),
        ran=f"p = {DIMENSION:,} in {len(LAYER_SIZES)} layers; closed forms; {p.samples:,} "
        f"samples for each of {len(sampled)} small products.",
    )


def _curves(sigma: np.ndarray, batch_size: int) -> pd.DataFrame:
    """Log capacities of a batch's average and of one gradient (batch size 1)."""
    sizes = np.array(LAYER_SIZES)
    parts = []
    for size in (batch_size, 1):
        noise = sigma / size
        columns = {
            "batch size": size,
            "sigma": sigma,
            "ball": bounds.bayes_capacity_gaussian(DIMENSION, noise, math.sqrt(len(sizes))),
            "layers": bounds.bayes_capacity_gaussian(sizes[:, None], noise, 1.0).sum(axis=0),
            "whole": bounds.bayes_capacity_gaussian(DIMENSION, noise, 1.0),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def gap(noise_std: float, sizes: Sequence[int]) -> float:
    """Theorem 5's log capacity minus that of the product of layers."""
    ball = bounds.bayes_capacity_gaussian(sum(sizes), noise_std, math.sqrt(len(sizes)))
    return float(ball - np.sum(bounds.bayes_capacity_gaussian(sizes, noise_std, 1.0)))


def log_volumes(sizes: Sequence[int]) -> tuple[float, float]:
    """Log ratio of the volumes of ball and product, and its leading part ``p/2 (log l - H)``."""
    half = 0.5 * np.array(sizes)
    ratio = half.sum() * math.log(len(sizes)) - sc.gammaln(half.sum() + 1.0)
    entropy = np.sum(sc.entr(half / half.sum()))
    leading = half.sum() * (math.log(len(sizes)) - entropy)
    return float(ratio + np.sum(sc.gammaln(half + 1.0))), float(leading)


def _sampled(study: Context) -> pd.DataFrame:
    """Log capacities of products of unit balls, by sampling and in closed form."""
    p = study.parameters
    rows = []
    for sizes, s in itertools.product(_PRODUCTS, p.noises):
        rng = study.rng("sampled", sizes, s)
        value, error = routes.gaussian_by_sampling(rng, sizes, s, [1.0] * len(sizes), p.samples)
        product = float(np.sum(bounds.bayes_capacity_gaussian(sizes, s, 1.0)))
        rows.append((" + ".join(map(str, sizes)), s, value, error, product, gap(s, sizes)))
    columns = ["layers", "noise", "sampled", "standard error", "product", "ball less"]
    return pd.DataFrame(rows, columns=columns)


def _channels(sides: Sequence[int], noise_std: float) -> pd.DataFrame:
    """Channels from a grid of inputs on the square to fine cells: lower bounds that converge."""
    edges = np.linspace(-1.0 - 10.0 * noise_std, 1.0 + 10.0 * noise_std, 2001)
    square = 2.0 * float(bounds.bayes_capacity_gaussian(1, noise_std, 1.0))
    disc = float(bounds.bayes_capacity_gaussian(2, noise_std, math.sqrt(2.0)))
    rows = []
    for side in sides:
        inputs = np.linspace(-1.0, 1.0, side)
        channel = np.diff(sc.ndtr((edges - inputs[:, None]) / noise_std), axis=1)
        # two independent coordinates: the maxima of the Kronecker product are products of maxima
        value = 2.0 * math.log(float(np.sum(np.max(channel, axis=0))))
        rows.append((side**2, value, square, disc))
    return pd.DataFrame(rows, columns=["inputs", "channel", "square", "disc"])


def judge(tables: Tables) -> Iterator[Verdict]:
    marks, sampled, surface = tables["marks"], tables["sampled"], tables["surface"]
    both = pd.concat([tables["curves"], marks])
    nested = ((both["whole"] < both["layers"]) & (both["layers"] < both["ball"])).all()
    on_surface = (surface["surface"] - surface["whole"]).abs().max() < 1e-6
    averaged = marks[marks["batch size"] == tables.parameters.batch_size]
    first = averaged.iloc[0]
    yield check(
        "beyond/capacity_of_layers",
        nested and on_surface and averaged["whole"].min() > tables["VMF"]["log capacity"].max(),
        "the capacity of Theorem 5's ball exceeds that of the product of layers, and that exceeds "
        "the unit ball's; on the unit sphere, the domain of VMF noise, Gaussian noise has the unit "
        "ball's capacity; with averaging every Gaussian capacity is above every VMF one",
        ours=f"at sigma = {first['sigma']:g} and batch size {first['batch size']:.0f}: ball of "
        f"radius sqrt({len(LAYER_SIZES)}) {first['ball']:,.0f} nats, product of layers "
        f"{first['layers']:,.0f}, clipped as a whole {first['whole']:,.0f}",
    )
    near = within(sampled["sampled"], sampled["product"], sampled["standard error"], _SAMPLED)
    off = (sampled["sampled"] - sampled["product"]).abs().max()
    gaps = tables["gaps"].sort_values("noise")["gap"]
    volumes, leading = log_volumes(LAYER_SIZES)
    limit = (gaps.diff().dropna() < 0).all() and abs(gaps.iloc[0] / volumes - 1) < 1e-6
    channels = tables["channels"]
    finest = channels.iloc[-1]
    approached = (
        (channels["channel"].diff().dropna() > 0).all()
        and (channels["channel"] < channels["square"]).all()
        and finest["square"] - finest["channel"] < 0.01
    )
    yield check(
        "O-027",
        bool(approached and nested and limit and abs(leading / volumes - 1) < 0.01) and near,
        "layers clipped one by one have the product of the layers' capacities; its gap to Theorem "
        "5's grows as noise falls, up to the log ratio of the volumes, about p/2 (log l - H) nats "
        "with H the entropy of the layers' shares",
        ours=f"{len(sampled)} products sampled, at most {off:.3f} nats off; "
        f"{volumes:,.1f} nats for {' + '.join(f'{n:,}' for n in LAYER_SIZES)} weights, "
        f"{leading:,.1f} by the entropy formula",
        tolerance=f"sampled: {_SAMPLED:g} nats, {STANDARD_ERRORS:g} standard errors included",
    )


CAPTION = (
    "Log of Bayes' capacity of Gaussian noise over the noise multiplier at p = 13,700 in three "
    "layers, by the domain of the gradients: Theorem 5's ball, the product of the layers' unit "
    "balls, as clipping each layer gives, and the unit ball of a gradient clipped as a whole. "
    "Left: the average over a batch, as in the paper. Right: one record's gradient. Dots: Theorem "
    "5 at Table IV's noise. Orange: VMF noise at the concentrations paired with it."
)


@drawing
def draw(tables: Tables) -> Figure:
    curves, marks, vmf = tables["curves"], tables["marks"], tables["VMF"]["log capacity"]
    blue, orange = MECHANISMS["Gaussian"], MECHANISMS["VMF"]
    figure, (row,) = panels(1, 2, 4.2, 3.3)
    sizes = sorted(curves["batch size"].unique(), reverse=True)
    for axes, size in zip(row, sizes, strict=True):
        lines = curves[curves["batch size"] == size]
        for domain, (_, style) in _DOMAINS.items():
            axes.plot(lines["sigma"], lines[domain], color=blue, linestyle=style)
        at = marks[marks["batch size"] == size]
        axes.plot(at["sigma"], at["ball"], "o", color=blue, ms=4)
        axes.plot(at["sigma"], vmf, "s", color=orange, ms=4)
        name = "one record" if size == 1 else f"average of {size} records"
        axes.set(xscale="log", yscale="log", title=name, xlabel=r"noise multiplier $\sigma$")
        axes.set_xticks([0.1, 0.3, 1.0, 3.0], ["0.1", "0.3", "1", "3"])
        axes.minorticks_off()
    row[0].set_ylabel("log capacity (nats)")
    handles = [
        *(legend_line(label, blue, style) for label, style in _DOMAINS.values()),
        legend_line("Table IV", blue, "", "o"),
        legend_line("VMF at the paired concentration", orange, "", "s"),
    ]
    legend_above(figure, handles, 3)
    return figure
