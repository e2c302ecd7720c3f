"""Proposition 5: the PSNR statement for "any reconstruction" is exceeded."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from reconrisk import bounds, metrics
from reconrisk.attacks import scaled_direction, shrink

PARAMETERS = {
    "repeats": Parameter("int", 20_000, 200_000, STATED, "steps", 100),
    "dimension": Parameter("int", 16, 16, STATED, "N", 3),
    "noise_multiplier": Parameter("float", 1.0, 1.0, STATED, "sigma", 1e-12),
}
SETTLES = ("E-A-14",)
SHARE = "P(PSNR >= eta)"
ALTERED = {
    "measured": {
        SHARE: (
            at("reconstruction == 'scaled direction'", "successes of scaled directions"),
            at("reconstruction == 'X_hat'", "successes of X_hat"),
        ),
    },
    "eta": {"eta (dB)": "thresholds [dB]"},
}

#: how near measured shares must come to exact probabilities
MARGIN = 0.02


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma, dimension = p.noise_multiplier, p.dimension
    record = study.rng("record").random(dimension)
    norm, width = float(np.linalg.norm(record)), float(np.ptp(record))
    eta = 10 * math.log10(width**2 / (0.8 * norm**2 / dimension))  # the MSE level 0.8 ||X||^2 / N
    level = width**2 * 10 ** (-eta / 10)
    x_hat = torch.tensor(attack_repeatedly(study, record, sigma, 0.5 * norm, p.repeats))
    rebuilt = {
        "X_hat": x_hat,
        "shrunken": shrink(x_hat, sigma),
        "scaled direction": scaled_direction(x_hat, norm, level),
    }
    shares = {
        name: np.mean(metrics.psnr(record, as_numpy(y), width) >= eta)
        for name, y in rebuilt.items()
    }
    exact = {
        "eta (dB)": eta,
        "claimed": float(bounds.psnr_tail(eta, dimension, sigma, norm, width)),
        "sphere bound": float(bounds.mse_tail_sphere(level, dimension, sigma, norm)),
    }
    return Tables(
        {
            "eta": pd.DataFrame([exact]),
            "measured": pd.DataFrame(shares.items(), columns=["reconstruction", SHARE]),
        },
        exact=("eta",),
        ran=f"{p.repeats} DP-SGD steps of one record, N = {dimension}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p = tables.parameters
    eta, claimed, exact = tables["eta"].iloc[0]
    share = tables["measured"].set_index("reconstruction")[SHARE]
    error = math.sqrt(exact * (1 - exact) / p.repeats)
    best = share["scaled direction"]
    yield refute(
        "mean_to_extreme/prop5",
        "P(PSNR >= eta) of any reconstruction is at most that of X_hat",
        erratum="E-A-09",
        holds=not min(share["shrunken"], best) - STANDARD_ERRORS * error > claimed,
        corrected_holds=every(
            within(best, exact, error, MARGIN),
            within(share["X_hat"], claimed, math.sqrt(claimed / p.repeats), MARGIN / 10),
        ),
        ours=f"N = {p.dimension}, sigma = {p.noise_multiplier:g}, eta = {eta:.1f} dB: scaled "
        f"direction {rounded(best, error)}, sphere bound {exact:.4f}",
        paper=f"at most {claimed:.2g}",
    )
    yield refute(
        "E-A-14",
        holds=-eta >= 0,
        corrected_holds=-eta < 0 <= 10 ** (-eta / 10),
        ours=f"-PSNR of a threshold used here: {-eta:.1f}",
    )
