"""The attack of Corollary 1: the law of its estimator, eq. (20); without noise, eq. (8)."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from scipy import integrate, stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from reconrisk import metrics
from reconrisk.attacks import rows_for_least_noise
from reconrisk.mechanisms import global_norm
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import per_example_gradients

PARAMETERS = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 64, 784, STATED, "values of a record", 2),
    "batch_size": Parameter("int", 4, 16, "the threat model takes 1", "records mixed in A-002", 2),
}
SETTLES = ("A-001", "A-002", "A-003", "A-006", "A-012", "A-044", "A-047")
ALTERED = {
    "clipping": {
        "std over theory": by("C over norm", "noise over sigma ||X||"),
        "distance": "distances from the normal law",
    },
    "without noise": {"largest error": "errors without noise"},
    "batch": {
        "distance from their mean": "distances from the batch's mean",
        "MSE": "MSEs of the batch's mean",
    },
    "privacy profile": {"eq. (3)": "deltas"},
    "gradient norm": {"norm": at("`rows M` == `rows M`.max()", "norms at the most rows")},
}

#: how near to one the noise over sigma ||X|| must be
MARGIN = 0.02
#: how near the distribution function must come to the normal one
LAW_MARGIN = 0.02


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rng = study.rng("records")
    record = rng.random(p.dimension)
    norm = float(np.linalg.norm(record))
    clipping = []
    for index, max_grad_norm in enumerate((0.5 * norm, norm, 5 * norm)):
        rows = rows_for_least_noise(max_grad_norm, norm)
        setting = p.noise_multiplier, max_grad_norm, p.repeats // 4
        rebuilt = attack_repeatedly(study, record, *setting, rows=rows, key=(index,))
        standardised = (rebuilt - record) / (p.noise_multiplier * norm)
        law = distance_to_law(standardised, stats.norm.cdf)
        spread = standardised.std(), 1 / math.sqrt(2 * standardised.size)
        clipping.append((max_grad_norm / norm, *spread, *law))

    ratios = _ratio_without_noise(record[None], rows=5)
    batch = np.vstack([record, rng.random((p.batch_size - 1, p.dimension))])
    mixed = _ratio_without_noise(batch, rows=1)[0]
    mixture = {
        "distance from their mean": np.abs(mixed - batch.mean(axis=0)).max(),
        "MSE": metrics.mse(record, mixed),
    }
    privacy = [
        (epsilon, sigma, _privacy_profile(epsilon, sigma), _hockey_stick(epsilon, sigma))
        for epsilon in (0.1, 1.0, 4.0)
        for sigma in (0.5, 1.0, 3.0)
    ]
    one = torch.as_tensor(record[None])
    norms = [
        (rows, float(global_norm(per_example_gradients(layer, sum_of_outputs, one))))
        for rows in (1, 4, 16, 64, 256)
        for layer in [AttackLayer(p.dimension, rows, dtype=torch.float64)]
    ]
    columns = ["epsilon", "sigma", "eq. (3)", "by quadrature"]
    return Tables(
        {
            "clipping": pd.DataFrame(
                clipping,
                columns=[
                    *("C over norm", "std over theory", "standard error"),
                    *("distance", "standard error of the distance"),
                ],
            ),
            "without noise": pd.DataFrame({"largest error": np.abs(ratios - record).max(axis=1)}),
            "batch": pd.DataFrame([mixture]),
            "privacy profile": pd.DataFrame(privacy, columns=columns),
            "gradient norm": pd.DataFrame(norms, columns=["rows M", "norm"]),
        },
        ran=f"{p.repeats // 4} steps of DP-SGD at N = {p.dimension}, sigma = "
        f"{p.noise_multiplier:g}, for three clipping norms.",
    )


def _ratio_without_noise(records: np.ndarray, rows: int) -> np.ndarray:
    """Weight gradient over bias gradient of the mean loss, row by row, eq. (8), (rows, N)."""
    layer = AttackLayer(records.shape[-1], rows, bias=True, dtype=torch.float64)
    outputs = layer(torch.as_tensor(records)).sum(dim=1).mean()
    weight, bias = torch.autograd.grad(outputs, [layer.weight, layer.bias])
    return as_numpy(weight / bias[:, None])


def _privacy_profile(epsilon: float, sigma: float) -> float:
    """delta(epsilon) of the Gaussian mechanism, eq. (3)."""
    upper, lower = stats.norm.cdf(-epsilon * sigma + np.array([1, -1]) / (2 * sigma))
    return float(upper - math.exp(epsilon) * lower)


def _hockey_stick(epsilon: float, sigma: float) -> float:
    """The same for N(0, sigma^2) and N(1, sigma^2) by quadrature of ``(p - e^eps q)_+``."""
    start = epsilon * sigma**2 + 0.5  # where the density ratio is e^eps

    def excess(x: float) -> float:
        return stats.norm.pdf(x, 1, sigma) - math.exp(epsilon) * stats.norm.pdf(x, 0, sigma)

    return integrate.quad(excess, start, start + 40 * sigma, epsabs=1e-14, limit=200)[0]


def judge(tables: Tables) -> Iterator[Verdict]:
    clipping = tables["clipping"]
    std, distance = clipping["std over theory"], clipping["distance"]
    decided = every(
        within(std, 1, clipping["standard error"], MARGIN),
        within(distance, 0, clipping["standard error of the distance"], LAW_MARGIN),
    )
    law = check(
        "mean_to_extreme/alg_cor1_attack",
        decided,
        "DP-SGD steps through the attacker's layer give N(X, sigma^2 ||X||^2 I) for C = 0.5, 1 "
        "and 5 norms, with M adapted to C",
        ours=f"noise over sigma ||X|| {std.min():.3f} to {std.max():.3f}; distance from the normal "
        f"law at most {distance.max():.4f}",
        tolerance=f"{MARGIN:.0%} of the noise, {LAW_MARGIN:g} of probability, errors included",
    )
    yield from shared_by(law, "A-012", "A-044")
    error = tables["without noise"]["largest error"].max()
    exact = check(
        "A-001",
        error < 1e-9,
        "without noise, weight gradient over bias gradient is the record, in each of five rows",
        ours=f"largest error below {_bound_on(error)}",
    )
    yield from shared_by(exact, "A-006")
    batch = tables["batch"].iloc[0]
    yield check(
        "A-002",
        batch["distance from their mean"] < 1e-9 and batch["MSE"] > 0.01,
        "with a larger batch every row holds the mean of its records",
        ours=f"MSE of that mean as a reconstruction {rounded(batch['MSE'])}",
    )
    privacy = tables["privacy profile"]
    difference = (privacy["eq. (3)"] - privacy["by quadrature"]).abs().max()
    yield check(
        "A-003",
        difference < 1e-10,
        "eq. (3) equals the hockey-stick divergence by quadrature",
        ours=f"largest difference below {_bound_on(difference)}",
    )
    norms = tables["gradient norm"]
    slope = np.polyfit(np.log(norms["rows M"]), np.log(norms["norm"]), 1)[0]
    yield check(
        "A-047",
        abs(slope - 0.5) < 1e-9,
        "the norm of the gradient of M rows grows like sqrt(M)",
        ours=f"log-log slope {slope:.6f}",
    )


def _bound_on(error: float) -> str:
    """The least power of ten above an error, 1e-9 at the smallest."""
    return f"1e-{min(9, math.floor(-math.log10(max(error, 1e-300))))}"
