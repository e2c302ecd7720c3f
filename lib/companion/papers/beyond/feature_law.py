"""When matching recovered features helps: a map over the noise and the neurons for each feature."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch.nn import functional

from companion.experiments.clients import Batches, draw_batches, make_network, pictures, seeded
from companion.experiments.tools import as_numpy, data_folder, mean_and_error
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import STANDARD_ERRORS, rounded
from companion.style import BLUE, COLOURS, GREY, drawing, panels
from reconrisk.attacks import (
    PROPOSED,
    Knowledge,
    fit_features,
    invert_updates,
    proposed_attack,
    recover_features,
)
from reconrisk.convnets import WideHead
from reconrisk.mechanisms import Noise, Released
from reconrisk.metrics import psnr
from reconrisk.training import client_updates

_OURS = "our own exhibit"
_NOISES = (0.0, 0.001, 0.01, 0.1)
PARAMETERS = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    "side": Parameter("int", 16, 32, "32", "pixels a side: 8, 16 or 32", 8, stand_in=True),
    "images": Parameter("int", 16, 40, _OURS, "private pictures", 4),
    "batch_size": Parameter("int", 4, 4, "2 to 8", "pictures a batch", 1),
    "channels": Parameter("int", 16, 16, _OURS, "of the ConvNet's first stage", 4, stand_in=True),
    "ratios": Parameter(
        "ints", (2, 3, 6, 12), (2, 3, 6, 12, 28), "28", "random neurons for each feature, v / f", 2
    ),
    "attacked": Parameter("ints", (3,), (3, 6, 12), "28", "of these, those that are attacked", 2),
    "noises": Parameter(
        "floats", _NOISES, (*_NOISES[:3], 0.05, 0.1), "0.001, 0.01, 0.1", "sigma", 0.0
    ),
    "iterations": Parameter("int", 200, 1000, "10,000", "of each attack", 8),
}
_NOISY = "noise >= 0.01"
FALSIFIERS = (
    graded(
        "gains where features are known better {} smaller",
        column("cells", "gain", lambda c, by: c - by, _NOISY),
        most=10.0,
        unit=" dB",
    ),
    world("features driven apart", column("cells", "gain", lambda c: -c, _NOISY)),
    world(
        "features that gradients leave better known than fits",
        column("cells", "left", lambda c: 0.99999, _NOISY),
    ),
    world(
        "no fit better than moments",
        frame("features", lambda t: t.assign(recovered=t["moments"])),
    ),
    graded(
        "undefended gains of {}",
        column("cells", "gain", lambda c, by: c + by, "noise == 0"),
        most=20.0,
        unit=" dB",
    ),
    world(
        "forecasts that say nothing",
        column("features", "forecast", lambda c: 0.5),
    ),
)

#: features are known better than gradient matching leaves them if they lose this share of what it
#: loses, in one minus the cosine
BETTER = 0.25
#: forecast and measured loss agree within this factor, where the loss is above rounding
FORECAST, ROUNDING = 4.0, 1e-5


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    seeds = {name: study.seed_of(name) for name in ("network", "pictures", "noise", "start")}
    names = ("data", "side", "images", "batch_size", "channels", "noises", "iterations")
    task = {name: p[name] for name in names} | {
        "data_root": data_folder(study, p.data),
        "device": study.device,
        "seeds": seeds,
    }
    tasks = [{**task, "ratio": ratio, "attacked": ratio in p.attacked} for ratio in p.ratios]
    parts = study.sweep(matching_gains, tasks, "mapping what matching gains")
    features = pd.DataFrame([row for part in parts for row in part["features"]])
    cells = pd.DataFrame([row for part in parts for row in part["cells"]])
    return Tables(
        {"features": features, "cells": cells.merge(features, on=["noise", "ratio"])},
        ran=f"{p.images} pictures of {p.data}, {p.side} pixels a side, in batches of "
        f"{p.batch_size}; ConvNet with {p.channels} channels, {p.iterations} iterations.",
    )


def matching_gains(task: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    """Fit the features of noisy updates and attack with and without matching, all noises at once.

    Parameters
    ----------
    task : dict
        The exhibit's parameters, ``ratio``, whether that is ``attacked``, ``data_root``,
        ``device`` and ``seeds``.

    Returns
    -------
    dict
        Rows by noise. ``"features"``: cosines with the true features of fitted ones
        (``"recovered"``) and of those from moments, and the fit's own ``"forecast"``. ``"cells"``,
        if attacked: cosines of what is ``"left"`` by the attack without matching and ``"reached"``
        with it, the mean ``"PSNR"`` without matching, the ``"gain"`` and its error.
    """
    images, labels = pictures(task["data"], task["data_root"], task["side"])
    size, seeds, device = task["batch_size"], task["seeds"], task["device"]
    rng = np.random.default_rng(seeds["pictures"])
    drawn = draw_batches(images, labels, task["images"] // size, size, rng)
    batches = Batches(drawn.images.to(device), drawn.labels.to(device))
    features = 2 * task["channels"] * (task["side"] // 8) ** 2
    neurons = task["ratio"] * features
    network = make_network(
        "ConvNet",
        seeded(seeds["network"], device=device),
        side=task["side"],
        channels=task["channels"],
        wide=neurons + features,
        random_neurons=neurons,
        activation="elu",
    )
    noises = task["noises"]
    parts = [
        client_updates(
            network,
            batches.images,
            batches.labels,
            (Noise(noise),) if noise else (),
            generator=seeded(seeds["noise"], device=device),
        ).gradient
        for noise in noises
    ]
    released = Released({name: torch.cat([part[name] for part in parts]) for name in parts[0]})
    repeated = batches.labels.repeat(len(noises), 1)
    true = _features(network, batches.images).repeat(len(noises), 1, 1)
    fit = fit_features(network, released, repeated)
    moments = recover_features(network, released, size, neurons=neurons)

    def by_noise(columns: dict[str, torch.Tensor]) -> list[dict[str, float]]:
        """Means over the pictures under each noise."""
        means = {name: v.double().unflatten(0, (len(noises), -1)) for name, v in columns.items()}
        return [
            {"noise": noise, "ratio": task["ratio"]}
            | {name: float(values[number].mean()) for name, values in means.items()}
            for number, noise in enumerate(noises)
        ]

    found = {
        "features": by_noise(
            {
                "recovered": functional.cosine_similarity(fit.features, true, dim=2),
                "forecast": fit.cosine,
                "moments": (true @ moments.mT).abs().amax(dim=2),
            }
        )
    }
    if not task["attacked"]:
        return {**found, "cells": []}
    knowledge = Knowledge(repeated, tuple(batches.images.shape[2:]))
    start = torch.rand(
        batches.images.shape, generator=seeded(seeds["start"], device=device), device=device
    )
    shared: dict[str, Any] = {
        "generator": seeded(seeds["start"], 1, device=device),
        "iterations": task["iterations"],
        "start": start.repeat(len(noises), 1, 1, 1, 1),
    }
    ours = replace(PROPOSED, statistics=0.0)
    plain = invert_updates(
        network, released, knowledge, objective=replace(ours, features=0.0), **shared
    ).inputs
    matched = proposed_attack(
        network, released, knowledge, neurons=neurons, objective=ours, **shared
    ).inputs
    targets = as_numpy(batches.images.repeat(len(noises), 1, 1, 1, 1).flatten(2))
    before, after = (
        torch.as_tensor(psnr(targets, as_numpy(images.flatten(2)), data_range=1.0))
        for images in (plain, matched)
    )
    cells = by_noise(
        {
            "left": functional.cosine_similarity(_features(network, plain), true, dim=2),
            "reached": functional.cosine_similarity(_features(network, matched), true, dim=2),
            "PSNR": before,
        }
    )
    for row, gains in zip(cells, (after - before).chunk(len(noises)), strict=True):
        row["gain"], row["gain error"] = mean_and_error(gains.flatten().numpy())
    return {**found, "cells": cells}


@torch.no_grad()
def _features(network: WideHead, images: torch.Tensor) -> torch.Tensor:
    """Unit features (P, n, f) of batches."""
    found = torch.stack([network(batch, trace=True).features for batch in images])
    return functional.normalize(found, dim=2)


def judge(tables: Tables) -> Iterator[Verdict]:
    cells = tables["cells"]
    lost, left = 1 - cells["recovered"], 1 - cells["left"]
    noisy = cells["noise"] >= 0.01
    known_better = lost < BETTER * left
    gains, errors = (cells.loc[noisy, name] for name in ("gain", "gain error"))
    mean, error = gains.mean(), np.sqrt((errors**2).mean() / len(errors))
    quiet = cells[cells["noise"] == 0]
    none, none_error = quiet["gain"].mean(), np.sqrt((quiet["gain error"] ** 2).mean() / len(quiet))
    yield check(
        "beyond/feature_law",
        bool(known_better[noisy].all())
        and mean - STANDARD_ERRORS * error > 0
        and none - STANDARD_ERRORS * none_error < 0,
        "under noise of .01 or more the recovered features lose less of the cosine with the true "
        f"ones than {BETTER:g} of what those of pictures rebuilt without them lose, and matching "
        "gains; undefended, where nothing is left to know better, it does not",
        ours=f"under noise {rounded(mean, error)} dB; undefended {rounded(none, none_error)} dB; "
        f"between: {_between(cells)}",
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
        stand_in=tables.stand_in,
    )
    features = tables["features"]
    lost = 1 - features["recovered"]
    clear = lost > ROUNDING
    ratio = (1 - features["forecast"])[clear] / lost[clear]
    yield check(
        "beyond/feature_law",
        bool((features["recovered"] > features["moments"]).all() and clear.sum() > 1)
        and ratio.max() < FORECAST
        and ratio.min() > 1 / FORECAST,
        "the fitted features are nearer than those from moments under every noise and with any "
        "number of neurons, and the fit tells how near: forecast and measured loss agree within a "
        f"factor of {FORECAST:g}",
        ours=f"loss of the cosine at most {lost.max():.2f}, of moments "
        f"{1 - features['moments'].max():.1f} and more",
        stand_in=tables.stand_in,
    )


def _between(cells: pd.DataFrame) -> str:
    """Gains under noise below .01, in words."""
    light = cells[(cells["noise"] > 0) & (cells["noise"] < 0.01)]
    texts = [
        f"{rounded(row['gain'], row['gain error'])} dB at {row['noise']:g}"
        for _, row in light.iterrows()
    ]
    return ", ".join(texts) or "no noise"


CAPTION = (
    "Left: what is lost of the cosine with the true features, by the attacker's fit (solid), by "
    "moments (dotted) and by pictures that are rebuilt without matching (dashed), over the noise, "
    "for several numbers of random neurons for each feature, v / f. Right: what matching the "
    "fitted features gains, with 95% intervals over the pictures. Where it gains, the solid line "
    "lies far below the dashed one; that alone is not enough, as the lightest noise shows."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, ((left, right),) = panels(1, 2, 4.4, 3.2)
    features, cells = tables["features"], tables["cells"]
    places = {noise: i for i, noise in enumerate(sorted(set(features["noise"])))}
    shades = dict(zip(sorted(set(features["ratio"])), (BLUE, *COLOURS[1:]), strict=False))
    mark = {"marker": "o", "markersize": 3}
    for ratio, rows in features.groupby("ratio"):
        for name, style in (("recovered", "-"), ("moments", ":")):
            loss = np.maximum(1 - rows[name], 1e-8)
            left.plot(rows["noise"].map(places), loss, style, color=shades[ratio], **mark)
        left.plot([], [], color=shades[ratio], label=f"v / f = {ratio}")
    for ratio, rows in cells.groupby("ratio"):
        x = rows["noise"].map(places)
        left.plot(x, np.maximum(1 - rows["left"], 1e-8), "--", color=shades[ratio], **mark)
        look = {"color": shades[ratio], "marker": "o", "capsize": 2, "label": f"v / f = {ratio}"}
        right.errorbar(x, rows["gain"], yerr=1.96 * rows["gain error"], **look)
    for axis in (left, right):
        axis.set_xticks(list(places.values()), [f"{noise:g}" for noise in places])
        axis.set_xlabel(r"noise $\sigma$")
    left.set(yscale="log", ylabel="one minus the cosine")
    for name, style in (("fitted", "-"), ("left without matching", "--"), ("moments", ":")):
        left.plot([], [], style, color=GREY, label=name)
    right.axhline(0, color=GREY, linewidth=1)
    right.set_ylabel("gain of matching (dB)")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    return figure
