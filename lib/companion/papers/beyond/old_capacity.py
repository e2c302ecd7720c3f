"""Our own: the capacity of gradients whose layers are clipped one by one.

Each layer of a clipped gradient lies in a unit ball of its own, so all lie in the product of these
balls; so does every average. The supremum of a Gaussian density over a product is the product of
the suprema, and integrates to the product of the layers' capacities.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import special as sc

from companion.experiments import capacity_routes as routes
from companion.experiments import federated as federated
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import STANDARD_ERRORS, check
from reconrisk import bounds

__all__: list[str] = []

#: small products on which the closed form is held against sampling
_PRODUCTS = ((1, 1), (2, 3), (12, 4, 2), (5, 5, 5))


@computes("beyond/capacity_of_layers", "O-027")
def capacity_of_layers(context: Context) -> Result:
    """Theorem 5's ball, the product that the layers fill, and a gradient clipped as a whole."""
    p = context.settings
    sizes = routes.LAYER_SIZES
    curves = _curves(np.geomspace(p.least_noise, p.most_noise, p.points), p.batch_size, sizes)
    marks = _curves(
        np.array([pair.noise_multiplier for pair in federated.pairs()]), p.batch_size, sizes
    )
    sampled, channels = _sampled(context), _channels(p.grid, min(p.noises))
    deviation = ((sampled["sampled"] - sampled["product"]) / sampled["standard error"]).abs().max()
    closed_form = deviation < STANDARD_ERRORS and _approached(channels)

    both = pd.concat([curves, marks])
    nested = bool(((both["whole"] < both["layers"]) & (both["layers"] < both["ball"])).all())
    surface = max(
        abs(routes.gaussian_by_shells(federated.DIMENSION, s / b, 1.0, surface=True) - whole)
        for s, b, whole in zip(marks["sigma"], marks["batch size"], marks["whole"], strict=True)
    )
    volumes, leading = _log_volumes(sizes)
    gaps = np.array([_gap(s, sizes) for s in np.geomspace(1e-7, 10.0, 60)])
    limit = bool(np.all(np.diff(gaps) < 0)) and abs(gaps[0] / volumes - 1.0) < 1e-6
    limit = limit and abs(leading / volumes - 1.0) < 0.01
    averaged = marks[marks["batch size"] == p.batch_size]
    vmf = bounds.bayes_capacity_vmf(
        federated.DIMENSION, [pair.concentration for pair in federated.pairs()]
    )
    ours = (
        f"at sigma = {averaged['sigma'].iloc[0]:g} and batch size {p.batch_size}: ball of radius "
        f"sqrt({len(sizes)}) {averaged['ball'].iloc[0]:,.0f} nats, product of layers "
        f"{averaged['layers'].iloc[0]:,.0f}, clipped as a whole {averaged['whole'].iloc[0]:,.0f}"
    )
    return Result(
        "beyond/capacity_of_layers",
        [
            check(
                "beyond/capacity_of_layers",
                nested and float(averaged["whole"].min()) > float(np.max(vmf)) and surface < 1e-6,
                "Theorem 5's ball is larger than what the layers fill, and that than the unit "
                "ball; of the whole gradient's directions alone, VMF's own domain, Gaussian noise "
                "has the unit ball's capacity, and in each reading with averaging every Gaussian "
                "capacity is above every VMF one",
                ours=ours,
            ),
            check(
                "O-027",
                closed_form and nested and limit,
                "layers clipped one by one have the product of the layers' capacities, below "
                "Theorem 5's by more the less noise there is, up to the log ratio of the volumes, "
                "about p/2 (log l - H) nats with H the entropy of the layers' shares",
                ours=f"{len(sampled)} products sampled, largest deviation {deviation:.1f} standard "
                f"errors; {volumes:,.1f} nats for {' + '.join(f'{n:,}' for n in sizes)} weights, "
                f"of which {leading:,.1f} by the entropy",
                tolerance=f"{STANDARD_ERRORS:g} standard errors",
            ),
        ],
        {
            "curves": curves,
            "marks": marks,
            "VMF": pd.DataFrame({"log capacity": vmf}),
            "sampled": sampled,
            "channels": channels,
        },
        exact=("curves", "marks", "channels"),
        ran=f"p = {federated.DIMENSION:,} in {len(sizes)} layers; closed forms; {p.samples:,} "
        f"samples for each of {len(sampled)} small products.",
    )


def _curves(sigma: np.ndarray, batch_size: int, sizes: Sequence[int]) -> pd.DataFrame:
    """Log capacities of one gradient (batch size 1) and of a batch's average."""
    whole = sum(sizes)
    parts = [
        pd.DataFrame(
            {
                "batch size": size,
                "sigma": sigma,
                "ball": bounds.bayes_capacity_gaussian(whole, sigma / size, math.sqrt(len(sizes))),
                "layers": bounds.bayes_capacity_gaussian(
                    np.array(sizes)[:, None], sigma / size, 1.0
                ).sum(axis=0),
                "whole": bounds.bayes_capacity_gaussian(whole, sigma / size, 1.0),
            }
        )
        for size in (batch_size, 1)
    ]
    return pd.concat(parts, ignore_index=True)


def _gap(noise_std: float, sizes: Sequence[int]) -> float:
    """How much larger Theorem 5's log capacity is than the product's."""
    ball = bounds.bayes_capacity_gaussian(sum(sizes), noise_std, math.sqrt(len(sizes)))
    return float(ball - np.sum(bounds.bayes_capacity_gaussian(sizes, noise_std, 1.0)))


def _log_volumes(sizes: Sequence[int]) -> tuple[float, float]:
    """Log ratio of the volumes of ball and product, and its leading part ``p/2 (log l - H)``."""
    half = 0.5 * np.array(sizes)
    ratio = half.sum() * math.log(len(sizes)) - sc.gammaln(half.sum() + 1.0)
    entropy = np.sum(sc.entr(half / half.sum()))
    leading = half.sum() * (math.log(len(sizes)) - entropy)
    return float(ratio + np.sum(sc.gammaln(half + 1.0))), float(leading)


def _sampled(context: Context) -> pd.DataFrame:
    """Products of unit balls: sampled, the product of closed forms, and Theorem 5's ball."""
    p = context.settings
    rows = []
    for sizes, s in itertools.product(_PRODUCTS, p.noises):
        rng = context.rng("sampled", sizes, s)
        value, error = routes.gaussian_by_sampling(rng, sizes, s, [1.0] * len(sizes), p.samples)
        product = float(np.sum(bounds.bayes_capacity_gaussian(sizes, s, 1.0)))
        rows.append((" + ".join(map(str, sizes)), s, value, error, product, _gap(s, sizes)))
    return pd.DataFrame(
        rows, columns=["layers", "noise", "sampled", "standard error", "product", "ball less"]
    )


def _channels(sides: Sequence[int], noise_std: float) -> pd.DataFrame:
    """Channels from a grid of inputs on the square to fine cells: lower bounds that close in."""
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


def _approached(channels: pd.DataFrame) -> bool:
    rising = bool((channels["channel"].diff().dropna() > 0).all())
    below = bool((channels["channel"] < channels["square"]).all())
    last = channels.iloc[-1]
    return rising and below and float(last["square"] - last["channel"]) < 0.01
