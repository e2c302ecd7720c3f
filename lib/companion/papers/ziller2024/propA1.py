"""Proposition A.1: the parts of the law of the NCC, printed and corrected, and the exact law."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.ziller2024 import projection_steps as projection
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimension": Parameter("int", 10, 10, projection.STATED, "N, values of a record", low=3),
    "samples": projection.samples_parameter(100000, 200000),
}
#: relative; the printed parts are off by 20% and more
MARGIN = 0.05
#: of distribution functions; those with N and N - 1 degrees of freedom are 0.09 apart at N = 10
LAW_MARGIN = 0.02
Z4_RIGHT, Z4_PRINTED = "Z4 from N - 1 degrees", "Z4 from N degrees"
RIGHT_75, PRINTED_75 = "corrected eq. (75) off", "printed eq. (75) off"
SETTLES = ("B-042", "E-B-05", "E-B-09")
ALTERED = {
    "parts": {"measured": "measured moments"},
    "ncc": {
        Z4_RIGHT: "distances of Z4 from N - 1 degrees of freedom",
        Z4_PRINTED: "distances of Z4 from N degrees of freedom",
        "from the exact law": "distances from the exact law",
        RIGHT_75: "differences of the corrected eq. (75) from the NCC",
    },
}
SCENARIOS = (
    scenario(
        "eq. (75) as printed is the NCC",
        frame("ncc", lambda t: t.rename(columns={RIGHT_75: PRINTED_75, PRINTED_75: RIGHT_75})),
        "",
        "E-B-09",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    n, clipping, sigma, beta = p.dimension, 2.0, 0.7, 1 / 3
    scale, run = clipping * sigma, DPSGD(sigma, max_grad_norm=clipping)
    record = projection.random_record(study.rng("record"), n, 3 * clipping)
    rebuilt = projection.released(study, record, run, p.samples)
    noise = rebuilt - beta * record
    rho = noise.mean(axis=1)
    nu = noise - rho[:, None]
    centred = record - record.mean()
    z3 = (2 * beta * centred * nu).mean(axis=1)
    z4 = np.square(nu).mean(axis=1)
    # part, values whose mean is measured, printed and corrected mean
    parts = [
        ("variance of rho, eq. (71)", rho**2, scale**2 / math.sqrt(n), scale**2 / n),
        ("variance of nu, eq. (74)", z4, (1 + 1 / math.sqrt(n)) * scale**2, (1 - 1 / n) * scale**2),
        ("variance of Z3", z3**2, math.nan, 4 * beta**2 * scale**2 * (centred**2).sum() / n**2),
        ("mean of Z4, eq. (79)", z4, scale, scale**2 * (n - 1) / n),
    ]
    parts = [(part, *mean_and_error(values), *means) for part, values, *means in parts]

    ncc = metrics.ncc(record, rebuilt)
    square = np.square(rebuilt - rebuilt.mean(axis=1, keepdims=True)).mean(axis=1)
    wrong_numerator = ((1 - beta) * centred**2 + centred * nu).mean(axis=1)
    printed = wrong_numerator / (record.std() * square)
    right = (centred / record.std() * (beta * centred + nu)).mean(axis=1) / np.sqrt(square)
    law, error = projection.distance(ncc, lambda x: 1 - bounds.ncc_tail(x, n, sigma, record))
    whole = {
        RIGHT_75: np.abs(right - ncc).max(),
        PRINTED_75: np.abs(printed - ncc).mean(),
        "from the exact law": law,
        Z4_RIGHT: projection.distance(z4 * n / scale**2, stats.chi2(n - 1).cdf)[0],
        Z4_PRINTED: projection.distance(z4 * n / scale**2, stats.chi2(n).cdf)[0],
        "standard error": error,
    }
    columns = ["part", "measured", "standard error", "printed", "corrected"]
    return Tables(
        {"parts": pd.DataFrame(parts, columns=columns), "ncc": pd.DataFrame([whole])},
        ran=f"{p.samples} DP-SGD steps at N = {n}, C = {clipping:g}, sigma = {sigma:g}, "
        "||X|| = 3 C.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    parts, ncc = tables["parts"], tables["ncc"].iloc[0]
    error = ncc["standard error"]
    law, right_z4, printed_z4 = (
        within(ncc[name], 0, error, LAW_MARGIN)
        for name in ("from the exact law", Z4_RIGHT, Z4_PRINTED)
    )
    right, as_printed = (_agree(parts, name) for name in ("corrected", "printed"))
    measured = [rounded(*row) for row in parts[["measured", "standard error"]].to_numpy()]
    printed, corrected = ([f"{v:.3f}" for v in parts[k]] for k in ("printed", "corrected"))
    is_75 = ncc[PRINTED_75] < 1e-9
    yield refute(
        "ziller2024/propA1",
        "the printed parts give the distribution of the NCC",
        erratum="E-B-05",
        holds=any_of(every(*as_printed[:2]), is_75),
        corrected="With the parts corrected eq. (75) is the NCC, and no numerical work is needed: "
        "r sqrt(N-2) / sqrt(1 - r^2) is non-central t with N - 2 degrees of freedom and "
        "non-centrality beta ||X - mean|| / (C sigma).",
        corrected_holds=every(law, ncc[RIGHT_75] < 1e-9),
        ours=f"distribution functions of the exact law and of {tables.parameters.samples:,} NCCs "
        f"at most {ncc['from the exact law']:.4f} apart",
        paper=f"eq. (75) as printed is off by {ncc[PRINTED_75]:.2f} on average",
    )
    yield check(
        "B-042",
        every(right[0], negate(as_printed[0])),
        "the mean of N noise terms has variance C^2 sigma^2 / N, not / sqrt(N)",
        ours=measured[0],
        paper=f"{printed[0]} printed, {corrected[0]} corrected",
        tolerance=projection.within_margin(100 * MARGIN, "%"),
    )
    yield refute(
        "E-B-05",
        holds=any_of(as_printed[0], as_printed[1], as_printed[3], printed_z4),
        corrected_holds=every(*right, right_z4),
        ours=f"{measured[0]}, {measured[1]} and mean of Z4 {measured[3]}; N - 1 degrees of freedom "
        f"{ncc[Z4_RIGHT]:.3f} from Z4's distribution function, N {ncc[Z4_PRINTED]:.2f}",
        paper=f"{printed[0]}, {printed[1]} and {printed[3]}",
    )
    yield refute(
        "E-B-09",
        holds=is_75,
        corrected_holds=ncc[RIGHT_75] < 1e-9,
        ours=f"off by {ncc[PRINTED_75]:.2f} on average as printed, by {ncc[RIGHT_75]:.0e} at most "
        "as corrected",
        paper="equal",
    )


def _agree(parts: pd.DataFrame, name: str) -> list[bool | None]:
    """Whether each part has the moment of a column; an undefined one agrees with none."""
    rows = parts[["measured", name, "standard error"]].to_numpy()
    return [
        within(value, expected, error, MARGIN * abs(expected)) if np.isfinite(expected) else False
        for value, expected, error in rows
    ]
