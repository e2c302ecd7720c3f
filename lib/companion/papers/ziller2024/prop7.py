"""Proposition 7: the law of the PSNR, exact without clipping, and which tail is the risk."""

import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.ziller2024 import projection_steps as projection
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimension": Parameter("int", 50, 50, projection.STATED, "N, values of a record", low=2),
    "samples": projection.samples_parameter(10000, 100000),
}
FREE, CLIPPED = (f"measured, {kind}" for kind in ("not clipped", "||X|| = 6 C"))
SETTLES = ("B-026", "E-B-13", "E-B-14")
ALTERED = {
    "cdf": {
        FREE: "measured probabilities without clipping",
        CLIPPED: "measured probabilities with clipping",
        "exact": "exact probabilities with clipping",
    },
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = clipping = width = 1.0
    run = DPSGD(sigma, max_grad_norm=clipping)

    def mse_of(psnr: np.ndarray) -> np.ndarray:
        return width**2 * 10 ** (-psnr / 10)

    psnr_of = functools.partial(metrics.psnr, data_range=width)
    eta = np.linspace(-3, 3, 25)
    measured = {}
    for norm in (0.5, 6.0):
        record = projection.random_record(study.rng("record"), p.dimension, norm * clipping)
        psnr = projection.released(study, record, run, p.samples, psnr_of, (norm,))
        measured[norm] = np.mean(psnr[:, None] <= eta, axis=0)
    cdf = pd.DataFrame(
        {
            "eta (dB)": eta,
            "eq. (13)": 1 - bounds.mse_tail(mse_of(eta), p.dimension, sigma, clipping),
            FREE: measured[0.5],
            CLIPPED: measured[6.0],
            "standard error": 0.5 / np.sqrt(p.samples),  # of a share, at most
            "exact": 1 - bounds.mse_tail_clipped(mse_of(eta), p.dimension, sigma, clipping, 6.0),
            "P(PSNR >= eta)": bounds.psnr_tail(eta, p.dimension, sigma, clipping, width),
        }
    )
    return Tables(
        {
            "cdf": cdf,
            "closed form": cdf[["eta (dB)", "eq. (13)", "P(PSNR >= eta)"]],
        },
        exact=["closed form"],
        ran=f"{p.samples} DP-SGD steps at N = {p.dimension}, C = sigma = range = 1, with ||X|| = "
        "C/2 and 6 C.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table, margin = tables["cdf"], projection.SHARE_MARGIN
    eta, printed, error = table["eta (dB)"], table["eq. (13)"], table["standard error"]
    free, clipped = table[FREE], table[CLIPPED]
    law = within(free, printed, error, margin)
    exact = check(
        "ziller2024/prop7",
        law,
        "without clipping eq. (13) is the law of the PSNR",
        ours=f"probabilities at most {(free - printed).abs().max():.3f} off",
        tolerance=projection.within_margin(margin),
    )
    yield from shared_by(exact, "B-026")
    shown = max((printed - 0.9).abs().idxmin() - 6, 0)
    larger = refute(
        "ziller2024/prop7",
        "eq. (13) is an equality for every known X",
        erratum="E-B-13",
        holds=within(clipped, printed, error, margin),
        corrected_holds=every(
            within(clipped, table["exact"], error, margin), (table["exact"] >= printed).all()
        ),
        ours=f"at eta = {eta[shown]:.2f} dB and ||X|| = 6 C: "
        f"{rounded(clipped[shown], error[shown])} measured",
        paper=f"{printed[shown]:.3f}",
    )
    yield from shared_by(larger, "B-026", "E-B-13")
    risk, right = 1 - free, table["P(PSNR >= eta)"]
    other_tail = refute(
        "B-026",
        "the probability at eta bounds the risk, as for the MSE",
        erratum="E-B-14",
        holds=at_most(risk, printed + margin, error),
        corrected_holds=every(
            np.allclose(right, 1 - printed, rtol=1e-9), within(risk, right, error, margin)
        ),
        ours=f"at eta = {eta[0]:g} dB the attack reaches eta with probability "
        f"{rounded(risk[0], error[0])}",
        paper=f"{printed[0]:.3f}",
    )
    yield from shared_by(other_tail, "E-B-14")
