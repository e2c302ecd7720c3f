"""Proposition 7: the law of the PSNR, exact without clipping, and which tail is the risk."""

import functools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.experiments.tools import SIGNIFICANCE, fits
from companion.papers.ziller2024 import projection_steps as projection
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import STANDARD_ERRORS, rounded, shared_by
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimension": Parameter("int", 50, 50, projection.STATED, "N, values of a record", low=2),
    "samples": projection.samples_parameter(4000, 100000),
}
SETTLES = ("B-026", "E-B-13", "E-B-14")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = clipping = width = 1.0
    run = DPSGD(sigma, max_grad_norm=clipping)

    def eq13(eta: np.ndarray) -> np.ndarray:
        mse = width**2 * 10 ** (-np.asarray(eta) / 10)
        return 1 - bounds.mse_tail(mse, p.dimension, sigma, clipping)

    psnr_of = functools.partial(metrics.psnr, data_range=width)
    eta = np.linspace(-3, 3, 25)
    measured, laws = {}, []
    for norm in (0.5, 6.0):
        record = projection.random_record(study.rng("record"), p.dimension, norm * clipping)
        psnr = projection.released(study, record, run, p.samples, psnr_of, (norm,))
        measured[norm] = np.mean(psnr[:, None] <= eta, axis=0)
        laws.append((norm, fits(psnr, eq13)))
    cdf = pd.DataFrame(
        {
            "eta (dB)": eta,
            "eq. (13)": eq13(eta),
            "measured, not clipped": measured[0.5],
            "measured, ||X|| = 6 C": measured[6.0],
            "P(PSNR >= eta)": bounds.psnr_tail(eta, p.dimension, sigma, clipping, width),
        }
    )
    return Tables(
        {
            "cdf": cdf,
            "closed form": cdf[["eta (dB)", "eq. (13)", "P(PSNR >= eta)"]],
            "law": pd.DataFrame(laws, columns=["norm over C", "p-value"]),
        },
        exact=["closed form"],
        ran=f"{p.samples} DP-SGD steps at N = {p.dimension}, C = sigma = range = 1, with ||X|| = "
        "C/2 and 6 C.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table, samples = tables["cdf"], tables.parameters.samples
    eta, printed = table["eta (dB)"], table["eq. (13)"]
    free, clipped = table["measured, not clipped"], table["measured, ||X|| = 6 C"]
    of_free, of_clipped = tables["law"]["p-value"]
    slack = STANDARD_ERRORS * np.sqrt(printed * (1 - printed) / samples) + 1 / samples
    error = 0.5 / math.sqrt(samples)
    exact = check(
        "ziller2024/prop7",
        of_free > SIGNIFICANCE,
        "without clipping eq. (13) is the law of the PSNR",
        ours=f"p-value {of_free:.2g}",
        tolerance=projection.level(),
    )
    yield from shared_by(exact, "B-026")
    shown = max((printed - 0.9).abs().idxmin() - 6, 0)
    larger = refute(
        "ziller2024/prop7",
        "eq. (13) is an equality for every known X",
        erratum="E-B-13",
        holds=of_clipped > SIGNIFICANCE,
        corrected_holds=(clipped >= printed - slack).all() and (clipped > printed + slack).any(),
        ours=f"at eta = {eta[shown]:.2f} dB and ||X|| = 6 C: {rounded(clipped[shown], error)} "
        "measured",
        paper=f"{printed[shown]:.3f}",
    )
    yield from shared_by(larger, "B-026", "E-B-13")
    risk, right = 1 - free, 1 - printed
    other_tail = refute(
        "B-026",
        "the probability at eta bounds the risk, as for the MSE",
        erratum="E-B-14",
        holds=(risk <= printed + slack).all(),
        corrected_holds=np.allclose(table["P(PSNR >= eta)"], right, rtol=1e-9)
        and ((risk - right).abs() <= slack).all(),
        ours=f"at eta = {eta[0]:g} dB the attack reaches eta with probability "
        f"{rounded(risk[0], error)}",
        paper=f"{printed[0]:.3f}",
    )
    yield from shared_by(other_tail, "E-B-14")
