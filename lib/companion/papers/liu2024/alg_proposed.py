"""The proposed attack at work: its parts put in one after the other, and the features it uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from torch.nn import functional

from companion.experiments.clients import KEY
from companion.experiments.tools import as_numpy
from companion.papers.liu2024.proposed_panels import METHODS, draw_strips
from companion.papers.liu2024.proposed_runs import (
    BENCH,
    BEST,
    Bench,
    Variant,
    run_variants,
    strip,
    variants,
    what_ran,
)
from companion.study import (
    Context,
    Parameter,
    Tables,
    Verdict,
    check,
    measurement,
    refute,
    registry,
)
from companion.style import GREY, ORANGE, SKY, drawing
from reconrisk.attacks import greedy_matching, recover_feature_span, recover_features
from reconrisk.metrics import projection_error
from reconrisk.training import client_updates

PARAMETERS = {
    **BENCH,
    "batch_size": Parameter("int", 4, 4, "2 to 32", "pictures of the traced batches", low=1),
}
SETTLES = ("E-E-06", "E-E-07", "E-E-19")

PAINTED = "Ours, untrained network"
#: how features are recovered from a gradient: together, with more knowledge, and as published
RECOVERIES: dict[str, dict[str, Any]] = {
    "all classes, order 2": {},
    "and the layer's exact span": {"span": "layer"},
    "one sum, tensor": {"method": "tensor", "removed": 0, "whitened": False},
}
#: what a reading of the regulariser descends: the share inside the span, with this sign
READINGS = {"printed: share inside": 1.0, "corrected: share outside": -1.0}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    untrained = Variant(p.weighting, features=BEST["features"], space="untrained")
    methods = {**variants(p.weighting), PAINTED: untrained}
    runs = run_variants(study, [(variant, p.batch_size) for variant in methods.values()])
    found = {name: runs[variant, p.batch_size] for name, variant in methods.items()}
    course = [
        pd.DataFrame(
            {"method": name, "iteration": run["iteration"], "PSNR": run["PSNR by iteration"]}
        )
        for name, run in found.items()
    ]
    originals = np.asarray(found["Ours"]["originals"])
    reached = {name: float(np.mean(run["PSNR"])) for name, run in found.items()}
    reached["grey pictures"] = float(-10 * np.log10(((originals - 0.5) ** 2).mean()))
    return Tables(
        {
            "course": pd.concat(course, ignore_index=True),
            "features": _recovered(study),
            "regulariser": _regularised(study),
            "reached": pd.DataFrame(reached.items(), columns=["method", "PSNR"]),
        },
        images={
            "original": strip(originals),
            **{name: strip(run["pictures"]) for name, run in found.items()},
        },
        ran=what_ran(study, [p.batch_size]),
    )


def _recovered(study: Context) -> pd.DataFrame:
    """How near recovered features come, by how they are recovered and by batch size."""
    bench = Bench.of(study)
    network = bench.model()
    rows = []
    for size in (1, 2, 4, 8, 16):
        batches = bench.batches(size)
        some = slice(0, max(2, 16 // size))
        images, labels = batches.images[some], batches.labels[some]
        released = client_updates(network, images, labels, generator=bench.generator(0))
        start = torch.rand(images.shape, generator=bench.generator(6), device=images.device)
        with torch.no_grad():
            true, before = (
                torch.stack([network(batch, trace=True).features for batch in pictures])
                for pictures in (images, start)
            )
        for how, settings in RECOVERIES.items():
            found = recover_features(
                network, released, size, neurons=bench.random_neurons, **settings
            )
            cosines, at_start = (
                as_numpy((functional.normalize(f, dim=2) @ found.mT).abs()) for f in (true, before)
            )
            matched = [linear_sum_assignment(c, maximize=True)[1] for c in cosines]
            greedily = greedy_matching(torch.as_tensor(at_start**2)).numpy()
            own = [c[np.arange(size), m] for c, m in zip(cosines, matched, strict=True)]
            outside = projection_error(as_numpy(true), as_numpy(found))
            rows.append(
                {
                    "how": how,
                    "batch size": size,
                    "cosine": float(np.mean(own)),
                    "right at the start": float(np.mean(greedily == np.stack(matched))),
                    "outside the span": float(np.mean(outside)),
                }
            )
    return pd.DataFrame(rows)


def _regularised(study: Context) -> pd.DataFrame:
    """The share of the features inside the recovered span, as each reading is descended."""
    size = study.parameters.batch_size
    bench = Bench.of(study)
    network = bench.model()
    batches = bench.batches(size)
    images, labels = batches.images[:1], batches.labels[:1]
    released = client_updates(network, images, labels, generator=bench.generator(0))
    basis = recover_feature_span(network, released, size, neurons=bench.random_neurons)[0]
    rows = []
    for reading, sign in READINGS.items():
        candidates = torch.rand(images[0].shape, generator=bench.generator(6), device=images.device)
        candidates.requires_grad_()
        optimiser = torch.optim.Adam([candidates], lr=0.02)
        for iteration in range(61):
            features = network(candidates, trace=True).features
            inside = (features @ basis.mT).square().sum(dim=1) / features.square().sum(dim=1)
            share = float(inside.detach().mean())
            rows.append({"reading": reading, "iteration": iteration, "inside": share})
            optimiser.zero_grad()
            (sign * inside.mean()).backward()
            optimiser.step()
            with torch.no_grad():
                candidates.clamp_(0, 1)
    return pd.DataFrame(rows)


def judge(tables: Tables) -> Iterator[Verdict]:
    yield _images_and_features(tables)
    yield _three_statements()
    yield _two_splits()
    yield _pushed_out(tables["regulariser"])


def _images_and_features(tables: Tables) -> Verdict:
    reached = tables["reached"].set_index("method")["PSNR"]
    rows = tables["features"].set_index(["how", "batch size"])["cosine"].unstack()
    ours, published = rows.loc["all classes, order 2"], rows.loc["one sum, tensor"]
    several = ours.index > 1
    grey, pixels, painted = reached[["grey pictures", "Ours", PAINTED]]
    return check(
        "liu2024/alg_proposed",
        min(pixels, painted) > grey + 2
        and ours[ours.index <= 8].min() > 0.8
        and (ours[several] > published[several]).all(),
        "the attack's features and images come out: more than 2 dB above grey pictures, with "
        "pixels and with the untrained network; up to 8 images the features' cosines are above "
        "0.8 with every class's gradient taken apart together, and for more than one image "
        "above those of the published tensor of their sum",
        # decibels as far as their spread over the pictures supports
        ours=f"images {pixels:.0f} and {painted:.0f} dB, grey {grey:.0f} dB; cosines above 0.8",
        stand_in=tables.stand_in,
    )


def _text(metric: str) -> pd.DataFrame:
    rows = registry.printed(f"{KEY}/text")
    return rows[rows["metric"] == metric]


def _three_statements() -> Verdict:
    """How long the backbone is trained."""
    section = int(float(_text("pretraining_epochs")["value"].iloc[0]))
    appendix = int(float(_text("epochs")["value"].iloc[0]))
    lines = registry.printed(f"{KEY}/text")
    later = lines[lines["condition"].astype(str).str.contains("of training")]
    after = [int(text.split()[1]) for text in later["condition"]]
    errors = later["value"].astype(float).tolist()
    return refute(
        "E-E-06",
        holds=section == appendix,
        corrected_holds=section != appendix
        and len(after) == 3
        and max(after) < appendix
        and errors == sorted(errors),
        paper=f"{section} epoch; {appendix} epochs; RMSE {errors} after {after} epochs",
    )


def _two_splits() -> Verdict:
    """How many neurons keep their weights, and which batches are attacked."""
    kept = sorted(set(_text("width")["value"].astype(float).astype(int)) - {16384})
    sizes = [tuple(int(n) for n in str(text).split(";")) for text in _text("batch_sizes")["value"]]
    attacked = sorted(set(registry.printed(f"{KEY}/table7")["attack_batch_size"].astype(int)))
    announced = [n for n in sizes if len(n) == 4][0]
    return refute(
        "E-E-07",
        holds=len(kept) == 1 or set(attacked) <= set(announced),
        corrected_holds=len(kept) == 2 and attacked != list(announced),
        paper=f"{kept}; {announced}; {tuple(attacked)}",
    )


def _ends(regulariser: pd.DataFrame) -> pd.DataFrame:
    """The share inside the span before and after the descent, the printed reading first."""
    return regulariser.groupby("reading", sort=False)["inside"].agg(["first", "last"])


def _pushed_out(regulariser: pd.DataFrame) -> Verdict:
    ends = _ends(regulariser)
    printed, corrected = ends.iloc[0], ends.iloc[1]
    return refute(
        "E-E-19",
        holds=printed["last"] >= printed["first"],
        corrected_holds=printed["last"] < 0.1 * printed["first"] and corrected["last"] > 0.9,
        ours=f"share of the features' square inside the span, from {printed['first']:.1f}: "
        f"{printed['last']:.1f} as printed, {corrected['last']:.1f} as corrected",
    )


CAPTION = (
    "The proposed attack at work. Left: PSNR over the iterations as its parts are put in. Middle, "
    "top: cosine of recovered with true features, by batch size, with all classes' gradients taken "
    "apart together, the same within the exact span, and as published. Middle, bottom: share of "
    "the features inside the recovered span when the regulariser is descended as printed and as "
    "corrected. Right: four originals and what is recovered of them."
)


def alt(tables: Tables) -> str:
    last = tables["course"].groupby("method", sort=False)["PSNR"].last()
    cosines = tables["features"].groupby("how", sort=False)["cosine"].mean()
    ends = _ends(tables["regulariser"])["last"]
    return (
        "Three parts. Curves of PSNR over the iterations end at "
        + ", ".join(f"{value:.0f} dB ({name})" for name, value in last.items())
        + ". Cosines with the true features are on average "
        + ", ".join(f"{value:.1f} ({how})" for how, value in cosines.items())
        + f"; below, the share inside the span goes to {ends.iloc[0]:.1f} as printed and to "
        f"{ends.iloc[1]:.1f} as corrected. At the right, rows of small pictures."
    )


@drawing
def draw(tables: Tables) -> Figure:
    figure = plt.figure(figsize=(10.2, 4.6), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=(1.15, 1, 0.9))
    axis = left.subplots()
    for name, rows in tables["course"].groupby("method", sort=False):
        axis.plot(rows["iteration"], rows["PSNR"], color=METHODS[str(name)], label=str(name))
    axis.set(xlabel="iteration", ylabel="PSNR (dB)")
    left.legend(loc="outside upper center", ncols=2, handlelength=1.6, columnspacing=1.0)
    top, bottom = middle.subplots(2, 1)
    features = tables["features"]
    for (how, rows), colour in zip(
        features.groupby("how", sort=False), (ORANGE, SKY, GREY), strict=False
    ):
        top.plot(rows["batch size"], rows["cosine"], "o-", color=colour, label=str(how))
    top.set(xscale="log", xlabel="batch size", ylabel="cosine", ylim=(0, 1.05))
    sizes = sorted(set(features["batch size"]))
    top.set_xticks(sizes, [str(n) for n in sizes])
    top.minorticks_off()
    top.legend(loc="lower left", bbox_to_anchor=(-0.12, 1.0), fontsize=7.5, ncols=1)
    for (reading, rows), colour in zip(
        tables["regulariser"].groupby("reading", sort=False), (GREY, ORANGE), strict=True
    ):
        bottom.plot(rows["iteration"], rows["inside"], color=colour, label=str(reading))
    bottom.set(xlabel="iteration", ylabel="share inside", ylim=(-0.03, 1.05))
    bottom.legend(loc="center right", fontsize=7.5)
    draw_strips(list(right.subplots(len(tables.images), 1)), tables.images)
    return figure
