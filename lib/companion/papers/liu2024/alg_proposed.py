"""The proposed attack at work: its parts added one after the other, and the features it uses."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from torch.nn import functional

from companion.exhibit import *
from companion.experiments.clients import KEY
from companion.papers.liu2024.defended_training import printed_after_training
from companion.papers.liu2024.proposed_panels import METHODS
from companion.papers.liu2024.proposed_runs import (
    BENCH,
    BEST,
    Bench,
    Variant,
    run_variants,
    variants,
    what_ran,
)
from reconrisk.attacks import greedy_matching, recover_feature_span, recover_features

PARAMETERS = {
    **BENCH,
    "batch_size": Parameter("int", 4, 4, "2 to 32", "pictures of the traced batches", low=1),
}
SETTLES = ("E-040", "E-041", "E-E-06", "E-E-07", "E-E-19")

#: how much better than the reference a reconstruction must be, in dB: half of its error
RECOVERED = 6.0

#: one unit of the last digit of the printed errors: two that differ by less may be the same
DIGIT = 0.01

#: controls: features known exactly but for their order, and guessed
ORACLE, GUESSED = "and the layer's exact span", "random directions"
#: what two recoveries within the same span may differ by
ORDER = 0.01
PAINTED = "Ours, untrained network"
#: how features are recovered from a gradient: together, with more knowledge, and as published
RECOVERIES: dict[str, dict[str, Any]] = {
    "all classes, order 2": {},
    ORACLE: {"span": "layer"},
    "one sum, tensor": {"method": "tensor", "removed": 0, "whitened": False},
}
#: what a reading of the regulariser minimises: the share inside the span, with this sign
READINGS = {"printed: share inside": 1.0, "corrected: share outside": -1.0}

ALTERED = {
    "reached": {"PSNR": at("method != 'grey pictures'", "PSNRs [dB]")},
    "features": {
        "cosine": (
            "cosines with the true features",
            at("how == 'all classes, order 2'", "cosines of recovered features"),
            at(f'how == "{ORACLE}"', "cosines of features in the exact span"),
            at(f"how == '{GUESSED}'", "cosines of guessed features"),
        )
    },
    f"{KEY}/text": {
        "value": at("condition == 'after 1 epoch of training'", "printed errors after one epoch")
    },
    "regulariser": {"inside": by("reading", "shares inside the span", each="by the {}")},
}
SCENARIOS = (
    scenario(
        "the same number of trained neurons in every section",
        printed(f"{KEY}/text", lambda t: t.assign(value=t["value"].replace("4096", "2048"))),
        "E-E-07",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    untrained = Variant(p.weighting, features=BEST["features"], space="untrained")
    swept = run_variants(study, {**variants(p.weighting), PAINTED: untrained}, [p.batch_size])
    runs = {name: run for (name, _), run in swept.items()}
    course = [
        pd.DataFrame(
            {"method": name, "iteration": run["iteration"], "PSNR": run["PSNR by iteration"]}
        )
        for name, run in runs.items()
    ]
    originals = np.asarray(runs["Ours"]["originals"])
    reached = {name: float(np.mean(run["PSNR"])) for name, run in runs.items()}
    reached["grey pictures"] = float(-10 * np.log10(((originals - 0.5) ** 2).mean()))
    return Tables(
        {
            "course": pd.concat(course, ignore_index=True),
            "features": _recovered(study),
            "regulariser": _regularised(study),
            "reached": pd.DataFrame(reached.items(), columns=["method", "PSNR"]),
        },
        ran=what_ran(study, [p.batch_size]),
    )


def _recovered(study: Context) -> pd.DataFrame:
    """Cosine of recovered with true features, by method of recovery and batch size."""
    bench = Bench.of(study)
    network = bench.model()
    rows = []
    for size in (1, 2, 4, 8, 16):
        batches = bench.batches(size, max(2, 16 // size))
        images, released = batches.images, bench.updates(network, batches)
        start = torch.rand(images.shape, generator=bench.generator(6), device=images.device)
        with torch.no_grad():
            true, before = (
                torch.stack([network(batch, trace=True).features for batch in pictures])
                for pictures in (images, start)
            )
        for how in (*RECOVERIES, GUESSED):
            if how == GUESSED:
                drawn = torch.randn(true.shape, generator=bench.generator(7), device=images.device)
                found = functional.normalize(drawn, dim=2)
            else:
                found = recover_features(
                    network, released, size, neurons=bench.random_neurons, **RECOVERIES[how]
                )
            cosines, at_start = (
                as_numpy((functional.normalize(f, dim=2) @ found.mT).abs()) for f in (true, before)
            )
            matched = np.stack([linear_sum_assignment(c, maximize=True)[1] for c in cosines])
            greedily = greedy_matching(torch.as_tensor(at_start**2)).numpy()
            own = np.take_along_axis(cosines, matched[..., None], axis=2)
            rows.append(
                {
                    "how": how,
                    "batch size": size,
                    "cosine": own.mean(),
                    "right at the start": (greedily == matched).mean(),
                }
            )
    return pd.DataFrame(rows)


def _regularised(study: Context) -> pd.DataFrame:
    """The share of the features inside the recovered span while each reading is minimised."""
    size = study.parameters.batch_size
    bench = Bench.of(study)
    network = bench.model()
    batches = bench.batches(size, 1)
    released = bench.updates(network, batches)
    basis = recover_feature_span(network, released, size, neurons=bench.random_neurons)[0]
    shape, device = batches.images[0].shape, batches.images.device
    rows = []
    for reading, sign in READINGS.items():
        candidates = torch.rand(shape, generator=bench.generator(6), device=device)
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
    cosines = tables["features"].pivot(index="batch size", columns="how", values="cosine")
    ours, published = cosines["all classes, order 2"], cosines["one sum, tensor"]
    several = cosines.index > 1
    reached = tables["reached"].set_index("method")["PSNR"]
    pixels, painted, grey = reached["Ours"], reached[PAINTED], reached["grey pictures"]
    yield check(
        "liu2024/alg_proposed",
        min(pixels, painted) > grey + RECOVERED
        and ours[ours.index <= 8].min() > 0.8
        and (ours[several] > published[several]).all(),
        f"the attack recovers images and features: images more than {RECOVERED:g} dB better than "
        "grey pictures, from pixels and from the untrained network; features with cosines "
        "above 0.8 for up to 8 images if the gradients of all classes are decomposed together, "
        "and for more than one image with larger ones than by the published tensor of their sum",
        # decibels as far as their spread over the pictures supports
        ours=f"images {pixels:.0f} and {painted:.0f} dB, grey {grey:.0f} dB; cosines above 0.8",
        stand_in=tables.stand_in,
    )
    yield _controls(cosines, tables.stand_in)
    # how long the attacked network is trained, and whether it matters
    epochs = sorted({int(value) for value in _text("pretraining_epochs")})
    after, errors = zip(*printed_after_training().items(), strict=True)
    rises = np.diff(errors)
    yield check(
        "E-E-06",
        # whichever of two is meant matters if the error rises with every epoch
        settle(len(epochs) == 1, bool((rises > DIGIT).all())),
        "Section 5.1 and Appendix I say of one network how long it was trained",
        paper=f"{' and '.join(map(str, epochs))} epochs; RMSE {[*errors]} after {[*after]}",
        differs="" if len(epochs) == 1 else "Two are named, of the same error.",
        decided_by=f"which network is attacked: {' and '.join(map(str, epochs))} epochs are named; "
        f"the printed error is {errors[0]:g} after the first and {errors[-1]:g} after the last",
    )
    kept = sorted({int(width) for width in _text("width")} - {16384})
    yield refute(
        "E-E-07",
        holds=len(kept) == 1,
        corrected_holds=len(kept) == 2,
        paper=" and ".join(map(str, kept)),
    )
    statement = "single features of one class are lost, and the space that they span is kept"
    yield not_run("E-040", statement, "batches in which labels repeat; labels differ here")
    statement = "a head of random neurons alone degrades the matching of gradients"
    yield not_run("E-041", statement, "networks with all neurons of the head random")
    inside, outside = _ends(tables)
    yield check(
        "E-E-19",
        inside["last"] < 0.1 * inside["first"] and outside["last"] > 0.9,
        "the share of the features outside the recovered span is what has to be minimised: "
        "minimising the share inside drives them out of it",
        ours=f"share of the features' square inside the span, from {inside['first']:.1f}: "
        f"to {inside['last']:.1f} and to {outside['last']:.1f}",
        stand_in=tables.stand_in,
    )


def _controls(cosines: pd.DataFrame, stand_in: Origin) -> Verdict:
    """Recovered features beside those known exactly but for their order, and beside guesses."""
    ours, guessed = cosines["all classes, order 2"], cosines[GUESSED]
    return check(
        "liu2024/alg_proposed",
        (cosines[ORACLE] > ours - ORDER).all() and guessed.max() < ours.min() / 2,
        "controls: with the layer's exact span the cosines are at least as large; those of guessed "
        "features are less than half",
        ours=f"{cosines[ORACLE].min():.1f} and more; {guessed.max():.1f} at most",
        stand_in=stand_in,
    )


def _text(metric: str) -> list[str]:
    """The values of one kind that the paper's text prints."""
    rows = registry.printed(f"{KEY}/text")
    return rows.loc[rows["metric"] == metric, "value"].tolist()


def _ends(tables: Tables) -> list[dict[str, float]]:
    """The share inside the span at the ends of the descent, that which minimises it first."""
    by_reading = tables["regulariser"].groupby("reading", sort=False)["inside"]
    return by_reading.agg(["first", "last"]).loc[[*READINGS]].to_dict("records")


CAPTION = (
    "The proposed attack at work. Left: PSNR over the iterations as its parts are added. Middle: "
    "cosine of recovered with true features, by batch size, with the gradients of all classes "
    "decomposed together, the same within the exact span, and as published. Right: share of the "
    "features inside the recovered span while that share, as printed, or the rest is minimised."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, ((left, middle, right),) = panels(1, 3, 3.0, 3.2)
    for name, rows in tables["course"].groupby("method", sort=False):
        left.plot(rows["iteration"], rows["PSNR"], color=METHODS[name], label=attack_label(name))
    left.set(xlabel="iteration", ylabel="PSNR (dB)")
    features = tables["features"].groupby("how", sort=False)
    for (how, rows), colour in zip(features, (ORANGE, SKY, GREY), strict=False):
        middle.plot(rows["batch size"], rows["cosine"], "o-", color=colour, label=how)
    middle.set(xscale="log", xlabel="batch size", ylabel="cosine", ylim=(0, 1.05))
    sizes = sorted(set(tables["features"]["batch size"]))
    middle.set_xticks(sizes, [str(n) for n in sizes])
    middle.minorticks_off()
    readings = tables["regulariser"].groupby("reading", sort=False)
    for (reading, rows), colour in zip(readings, (GREY, ORANGE), strict=True):
        right.plot(rows["iteration"], rows["inside"], color=colour, label=reading)
    right.set(xlabel="iteration", ylabel="share inside the span", ylim=(-0.03, 1.05))
    for axes in (left, middle, right):
        legend_below(axes, 1)
    return figure
