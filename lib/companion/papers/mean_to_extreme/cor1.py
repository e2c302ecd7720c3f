"""Corollary 1: other architectures: a bias, and an offset in front of the layer."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

PARAMETERS = {
    "pictures": Parameter("int", 4, 20, STATED, "photographs rebuilt", 1),
    "size": Parameter("int", 32, 224, STATED, "pixels a side", 8),
    "repeats": Parameter("int", 200, 50, STATED, "steps per photograph", 10),
    "noise_multiplier": Parameter("float", 0.01, 0.01, STATED, "sigma", 1e-12),
}
SETTLES = ("E-A-10",)
#: told the picture, whose gradient is zero: only the noise of an unclipped step is left
ORACLE = "offset X"
#: C over the norm, low enough that every other gradient is clipped, also after the offset
CLIPPING = 0.1
RATIO, EXPECTED = "MSE over sigma^2 ||X||^2", "(||X - 1/2|| / ||X||)^2"
ALTERED = {
    "variants": {
        RATIO: by("network", "MSEs", {"Corollary 1": "Corollary 1's network"}, each="with {}"),
        "bias": "squared mean errors over the variance",
    }
}

#: how near MSEs must come to their expectation, relative
MARGIN = 0.02
#: how large the mean error may be over the noise: its square adds a thousandth to an MSE
BIAS_MARGIN = 0.03
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    originals = photographs(study, p.size, p.pictures).reshape(p.pictures, -1)
    grey = tensor(study, np.full((1, originals.shape[1]), 0.5), torch.float32)[0]
    table = []
    for index, original in enumerate(originals):
        itself = tensor(study, original[None], torch.float32)[0]
        variants = {
            "Corollary 1": {},
            "with bias": {"bias": True},
            "offset 1/2": {"offset": grey},
            ORACLE: {"offset": itself},
        }
        norm = float(np.linalg.norm(original))
        least = (p.noise_multiplier * norm) ** 2
        without_offset = float(np.linalg.norm(original - 0.5) / norm) ** 2
        run = DPSGD(p.noise_multiplier, max_grad_norm=CLIPPING * norm)
        inputs = tensor(study, np.broadcast_to(original, (50, original.size)), torch.float32)
        for name, options in variants.items():
            errors, drift = [], np.zeros_like(original)
            generator = study.generator(index, name)
            for _ in range(0, p.repeats, 50):
                rebuilt = as_numpy(known_scale(observe(inputs, run, generator, **options)))
                errors.append(metrics.mse(original, rebuilt))
                drift += (rebuilt - original).sum(axis=0)
            mean, error = mean_and_error(np.concatenate(errors))
            count = sum(map(len, errors))
            # the squared mean error less its expectation without bias, over the variance
            bias = float(np.mean((drift / count) ** 2) / mean - 1 / count)
            table.append((index, name, mean / least, error / least, without_offset, bias))
    columns = ["picture", "network", RATIO, "error", EXPECTED, "bias"]
    return Tables(
        {"variants": pd.DataFrame(table, columns=columns)},
        ran=f"{p.pictures} photographs of {p.size}x{p.size}x3 values, {p.repeats} DP-SGD steps "
        "each, through four networks.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    networks = {
        name: own.set_index("picture").rename(columns={RATIO: "ratio"})
        for name, own in tables["variants"].groupby("network")
    }
    offset = networks["offset 1/2"]
    # what must not gain: the corollary's network, and one with a bias, which costs 1 / ||X||^2
    controls = networks["Corollary 1"], networks["with bias"]
    expected = offset[EXPECTED]  # below 1 if the mean value exceeds 1/4
    lower = offset["ratio"] + STANDARD_ERRORS * offset["error"] < 1
    told = networks[ORACLE]["ratio"] / CLIPPING**2
    unbiased = (tables["variants"]["bias"].abs() < BIAS_MARGIN**2).all()
    better = refute(
        "mean_to_extreme/cor1",
        erratum="E-A-10",
        holds=not lower.any(),
        corrected_holds=every(
            bool(unbiased),
            within(offset["ratio"] / expected, 1, offset["error"] / expected, MARGIN),
            *(within(own["ratio"], 1, own["error"], MARGIN) for own in controls),
            bool((told - 1).abs().max() < MARGIN),
        ),
        ours=f"variance with the offset over without: {offset['ratio'].min():.2f} to "
        f"{offset['ratio'].max():.2f}, lower for {lower.sum()} of {len(lower)} photographs",
        paper="at least 1",
    )
    yield from shared_by(better, "E-A-10")
