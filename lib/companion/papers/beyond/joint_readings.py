"""Readings together: start, first weights and pixels' units of paper D's attack, fitted jointly."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.experiments import batch_attacks
from companion.experiments.federated import BATCH_SIZE, KEY, SIDE, Standardised, load_standardised
from reconrisk.attacks import invert_gradients
from reconrisk.training import Release

_OURS = "not printed"

PARAMETERS = {
    "digits": Parameter("str", "MNIST-5000", "MNIST", "MNIST", "labelled data set of digits"),
    "garments": Parameter(
        "str",
        "FashionMNIST-20",
        "FashionMNIST",
        "FashionMNIST",
        "data set of garments, attacked if it fills a batch",
    ),
    "starts": Parameter(
        "str",
        "normal, grey",
        "normal, half, uniform, grey",
        _OURS,
        "first candidates: normal, half of it, uniform from black to white, all grey",
    ),
    "scales": Parameter(
        "floats", (0.5, 1.0), (0.25, 0.5, 1.0, 2.0), _OURS, "first weights over Glorot's", 0.01
    ),
    "pixels": Parameter(
        "str",
        "standardised",
        "standardised; -1 to 1; 0 to 1",
        _OURS,
        "units of the network's inputs, in which the attack works too",
    ),
    "iterations": Parameter("int", 500, 10_000, "10,000", "iterations of the attack", low=10),
    "draws": Parameter("int", 1, 3, _OURS, "batches, each with a network of its own", low=1),
}
UNDEFENDED, CLIPPED, CONSTANT = "no defence", "clipping only", "grey"
#: Table II's rows as they are printed, and what is released; its .0174 is read as 0.174
ROWS = {
    ("None", "-"): (UNDEFENDED, Release("none")),
    ("None", "Clip"): (CLIPPED, Release("clip")),
    ("VMF", "75"): ("VMF, kappa = 75", Release("vmf", 75.0)),
    ("VMF", "500"): ("VMF, kappa = 500", Release("vmf", 500.0)),
    ("Gauss", ".0174"): ("Gaussian, sigma = 0.174", Release("gaussian", 0.174)),
    ("Gauss", "1.23"): ("Gaussian, sigma = 1.23", Release("gaussian", 1.23)),
}
#: of the printed Gaussian noise
SHARES = (0.2, 1.0)
SETS = {"digits": "MNIST", "garments": "FashionMNIST"}
#: first weights over Glorot's that are compared: PyTorch's own are 0.45 to 0.53 of them
GLOROT, HALF = 1.0, 0.5
KEYS = ["start", "weights", "pixels"]
SETTLES = ("O-141", "O-142")
ALTERED = {
    "errors": {
        "MSE": (
            at(
                f"row == {UNDEFENDED!r} and weights == {HALF}",
                "undefended errors, weights halved",
            ),
            at(
                f"row == {CLIPPED!r} and start == {CONSTANT!r}",
                "clipped errors from one constant",
            ),
            at("share == 1", "errors under Gaussian noise"),
        )
    }
}
SCENARIOS = (
    scenario(
        "the printed errors with Glorot's own weights",
        frame(
            "errors",
            lambda t: t.assign(MSE=t["MSE"].mask(t["weights"] == GLOROT, t["printed"])),
        ),
        *("", "O-141"),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    released = _released()
    readings = list(itertools.product(_listed(p.starts, ","), p.scales, _listed(p.pixels, ";")))
    sets = [which for which in SETS if batch_attacks.most_records(p[which]) >= BATCH_SIZE]
    tasks = []
    for which, (start, scale, pixels) in itertools.product(sets, readings):
        budget = {"draws": p.draws, "iterations": p.iterations}
        task = batch_attacks.attack_task(
            study, p[which], BATCH_SIZE, [r for *_, r in released], **budget
        )
        tasks.append(task | {"start": start, "scale": scale, "pixels": pixels})
    results = study.sweep(attack_reading, tasks, "readings", threads=1)
    printed = _printed()
    rows = []
    for task, errors in zip(tasks, results, strict=True):
        which = next(w for w in sets if p[w] == task["data"])
        for (row, share, _), draws in zip(released, errors["mse"], strict=True):
            own = {"data": which, "start": task["start"], "weights": task["scale"]}
            own |= {"pixels": task["pixels"], "row": row, "share": share}
            rows.append(own | {"MSE": float(np.mean(draws)), "printed": printed[which, row]})
    return Tables(
        {"errors": pd.DataFrame(rows)},
        ran=f"{len(readings)} readings on {p.draws} batch(es) of {BATCH_SIZE} of "
        f"{' and '.join(p[w] for w in sets)}, {p.iterations} iterations.",
    )


def _listed(names: str, sign: str) -> list[str]:
    return [name.strip() for name in names.split(sign)]


def _released() -> list[tuple[str, float, Release]]:
    """Rows, share of the printed noise and what is released."""
    found = []
    for row, release in ROWS.values():
        shares = SHARES if release.kind == "gaussian" else (1.0,)
        found += [(row, s, replace(release, noise=s * release.noise)) for s in shares]
    # the share of a row without Gaussian noise is none
    return [(row, s if r.kind == "gaussian" else 0.0, r) for row, s, r in found]


def _printed() -> dict[tuple[str, str], float]:
    table = registry.printed(f"{KEY}/table2").query("metric == 'MSE'")
    names = {paper: which for which, paper in SETS.items()}
    columns = ["dataset", "mechanism", "noise_parameter_printed", "value"]
    return {
        (names[data], ROWS[mechanism, noise][0]): float(value)
        for data, mechanism, noise, value in table[columns].astype(str).to_numpy()
    }


def attack_reading(task: dict[str, Any]) -> dict[str, list[list[float]]]:
    """Attack batches under one reading; ``"mse"`` (releases, draws) in standardised units.

    Parameters
    ----------
    task : dict
        That of :func:`~companion.experiments.batch_attacks.attack_task`, with ``start``, ``scale``
        of the first weights and ``pixels``.
    """
    data = load_standardised(task["data"], task["data_root"], device=task["device"])
    releases = [Release(**r) for r in task["releases"]]
    drawn = batch_attacks.draw_batches(task, data)
    mean, std = _units(task["pixels"], data)
    inputs = (drawn.inputs * data.std + data.mean - mean) / std
    weights = {name: task["scale"] * w for name, w in drawn.weights.items()}
    scene = replace(drawn, inputs=inputs, weights=weights)
    released, _ = batch_attacks.release_batches(task, scene, releases)
    found = invert_gradients(
        batch_attacks.repeat_weights(weights, len(releases)),
        released,
        drawn.labels.repeat(len(releases), 1),
        generator=torch.Generator(device=task["device"]),  # the start is given
        iterations=task["iterations"],
        total_variation=task["total_variation"],
        shape=(SIDE, SIDE),
        box=((0 - mean) / std, (1 - mean) / std),
        start=_first(task["start"], drawn.start, mean, std).repeat(len(releases), 1, 1),
    ).inputs
    off = (found.unflatten(0, (len(releases), -1)) - inputs) * (std / data.std)
    return {"mse": as_numpy(off.square().mean(dim=(2, 3))).tolist()}


def _units(pixels: str, data: Standardised) -> tuple[float, float]:
    """What is subtracted from pixels in [0, 1], and what they are divided by."""
    known = {"standardised": (data.mean, data.std), "-1 to 1": (0.5, 0.5), "0 to 1": (0.0, 1.0)}
    if pixels not in known:
        raise ValueError(f"pixels must be among {'; '.join(known)}; got {pixels!r}")
    return known[pixels]


def _first(start: str, noise: torch.Tensor, mean: float, std: float) -> torch.Tensor:
    """First candidates of standard normal noise, in the attack's units."""
    if start == "normal":
        return noise
    if start == "half":
        return noise / 2
    if start == "uniform":
        return (torch.special.ndtr(noise) - mean) / std
    if start == CONSTANT:
        return torch.full_like(noise, (0.5 - mean) / std)
    raise ValueError(f"starts must be among normal, half, uniform, {CONSTANT}; got {start!r}")


def quiet(errors: pd.DataFrame) -> pd.DataFrame:
    """Log ratios to print of the rows without Gaussian noise, readings by data set and row."""
    own = errors[errors["share"] == 0]
    own = own.assign(off=np.log(own["MSE"] / own["printed"]))
    return own.pivot_table(index=KEYS, columns=["row", "data"], values="off", sort=False)


def fits(errors: pd.DataFrame) -> pd.DataFrame:
    """By reading: how far undefended rows, and the farthest of the others, are off print.

    ``"any unit"`` is the farthest row if the MSE's unit is free for each data set, ``"noise"`` the
    geometric mean of the shares of the printed Gaussian noise that give the printed errors.
    """
    off = quiet(errors)
    others = off.drop(columns=UNDEFENDED, level="row")
    centred = off - off.T.groupby(level="data").transform("mean").T
    gaussian = errors[errors["share"] > 0].pivot_table(
        index=[*KEYS, "data", "row", "printed"], columns="share", values="MSE", sort=False
    )
    low, high = (np.log(gaussian[share]) for share in SHARES)
    paper = np.log(gaussian.index.get_level_values("printed").to_numpy(dtype=float))
    share = (1 - (paper - low) / (high - low)) * math.log(SHARES[0])
    return pd.DataFrame(
        {
            "undefended": off[UNDEFENDED].mean(axis=1),
            "others": others.abs().max(axis=1),
            "farthest": off.abs().max(axis=1),
            "any unit": centred.abs().max(axis=1),
            "noise": np.exp(share.groupby(level=KEYS, sort=False).mean()),
        }
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    errors = tables["errors"]
    origin = tables.origin_of(*errors["data"].unique())
    table = fits(errors)
    off = quiet(errors).T.groupby(level="row").mean().T  # over the data sets
    constant = off.index.get_level_values("start") == CONSTANT
    start = off[constant].droplevel("start") - off[~constant].groupby(KEYS[1:]).mean()
    weights = off[~constant].xs(HALF, level="weights") - off[~constant].xs(GLOROT, level="weights")
    best = table["farthest"].idxmin()
    verdict = check(
        "O-141",
        (weights[UNDEFENDED] < 0).all()
        and (weights[UNDEFENDED] < weights[CLIPPED]).all()
        and (start[CLIPPED] < start[UNDEFENDED]).all()
        and best[1] == HALF,
        ours=f"{len(table)} readings; the nearest is off by "
        f"{math.expm1(table['farthest'].min()):.0%} in its farthest row, with the MSE's unit free "
        f"by {math.expm1(table['any unit'][best]):.0%}; Glorot's by at least "
        f"{math.expm1(table['farthest'].xs(GLOROT, level='weights').min()):.0%}, a constant start "
        f"by at least {math.expm1(table['farthest'][constant].min()):.0%}",
        stand_in=origin,
    )
    yield from shared_by(verdict, "beyond/joint_readings")
    drawn = errors[(errors["share"] == SHARES[1]) & (errors["start"] != CONSTANT)]
    noise = table["noise"][~(table.index.get_level_values("start") == CONSTANT)]
    yield check(
        "O-142",
        (drawn["MSE"] > drawn["printed"]).all(),
        ours=f"{noise.min():.2f} to {noise.max():.2f} of the noise would give the printed errors",
        stand_in=origin,
    )


_MARKERS = ("o", "s", "^")


def caption(tables: Tables) -> str:
    readings = len(fits(tables["errors"]))
    return (
        f"Table II of paper D under {readings} readings of what it does not state, one mark each: "
        "the error without defence, ours over print, and the row farthest from print among "
        "clipping alone and VMF noise. A reading that explains these rows lies at the lower end of "
        "the dashed line. Larger marks: larger first weights."
    )


@drawing
def draw(tables: Tables) -> Figure:
    table = fits(tables["errors"]).reset_index()
    figure, ((axis,),) = panels(1, 1, 6.4, 3.6)
    starts, pixels = (list(dict.fromkeys(table[name])) for name in ("start", "pixels"))
    colours = dict(zip(starts, COLOURS, strict=False))
    markers = dict(zip(pixels, _MARKERS, strict=False))
    for _, row in table.iterrows():
        look = {"marker": markers[row["pixels"]], "color": colours[row["start"]]}
        look |= {"ms": 5 + 2 * math.log2(row["weights"] / table["weights"].min()), "alpha": 0.85}
        axis.plot(math.exp(row["undefended"]), math.exp(row["others"]), **look)
    axis.axvline(1, color=GREY, linestyle="--", linewidth=1.1)
    axis.set(xlabel="undefended MSE over print", ylabel="farthest other row, a factor")
    axis.set_ylim(1, None)
    handles = [legend_line(f"{name} start", colour, "", "o") for name, colour in colours.items()]
    if len(pixels) > 1:
        handles += [legend_line(f"pixels {name}", GREY, "", m) for name, m in markers.items()]
    legend_above(figure, handles, 3)
    return figure
