"""Theorem 1: reconstructions of digits with a lower MSE than the "best achievable" one."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.experiments.tools import as_numpy, mean_and_error, tensor
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import rounded, shared_by
from reconrisk import DPSGD, datasets, metrics
from reconrisk.attacks import clip_to_range, james_stein, known_scale, observe, shrink

SIGMAS = (0.05, 0.2, 1.0)
RIVALS = ("shrunken", "James-Stein", "clipped to [0, 1]")

PARAMETERS = {
    "repeats": REPEATS,
    "noise_multipliers": Parameter("floats", SIGMAS, (0.01, *SIGMAS), STATED, "sigma", 1e-12),
    "records": Parameter("int", 200, 1000, STATED, "digits rebuilt", 10),
}
SETTLES = ("A-023", "A-050", "E-A-02")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    digits = datasets.digits()
    order = study.rng("order").permutation(len(digits))
    records, others = digits[order[: p.records]], digits[order[p.records :]]
    mean, covariance = others.mean(axis=0), np.cov(others.T)
    inputs = tensor(study, records)
    norms = inputs.norm(dim=1)
    dimension = records.shape[1]
    ratios, ordering = [], []
    for sigma in p.noise_multipliers:
        run = DPSGD(sigma, max_grad_norm=0.5 * float(norms.min()))
        x_hat = known_scale(observe(inputs, run, study.generator(sigma)))
        noise_std = sigma * norms
        rebuilt = {
            "X_hat": x_hat,
            "shrunken": shrink(x_hat, sigma),
            "James-Stein": james_stein(x_hat, noise_std),
            "clipped to [0, 1]": clip_to_range(x_hat),
            "linear prior": _linear_estimate(x_hat, noise_std, mean, covariance),
        }
        errors = {name: metrics.mse(records, as_numpy(y)) for name, y in rebuilt.items()}
        psnr = {name: metrics.psnr(records, as_numpy(y), 1.0) for name, y in rebuilt.items()}
        agree = [
            (errors[a] < errors[b]) == (psnr[a] > psnr[b])
            for a, b in itertools.permutations(errors, 2)
        ]
        ordering.append((sigma, np.size(agree), np.sum(agree)))
        scaled = {k: v / as_numpy(noise_std) ** 2 for k, v in errors.items()}
        for name, values in scaled.items():
            # compared with X_hat digit by digit: both have the same noise
            change, spread = mean_and_error(values - scaled["X_hat"])
            ratios.append((sigma, name, *mean_and_error(values), change + 4 * spread < 0))
    columns = ["sigma", "reconstruction", "MSE over sigma^2 ||X||^2", "error", "beats X_hat"]
    exact = [(sigma, 1 / (1 + dimension * sigma**2)) for sigma in p.noise_multipliers]
    return Tables(
        {
            "ratios": pd.DataFrame(ratios, columns=columns),
            "ordering": pd.DataFrame(ordering, columns=["sigma", "pairs", "ordered alike"]),
            "exact": pd.DataFrame(exact, columns=["sigma", "shrunken"]),
        },
        exact=("exact",),
        ran=f"{p.records} handwritten digits (N = {dimension}), one DP-SGD step each per sigma.",
    )


def _linear_estimate(
    x_hat: torch.Tensor, noise_std: torch.Tensor, mean: np.ndarray, covariance: np.ndarray
) -> torch.Tensor:
    """Return the best linear estimate under a Gaussian prior of these moments (Wiener filter)."""
    centre = torch.as_tensor(mean, dtype=x_hat.dtype, device=x_hat.device)
    values, vectors = torch.linalg.eigh(torch.as_tensor(covariance, dtype=x_hat.dtype))
    values, vectors = values.clamp(min=0).to(x_hat.device), vectors.to(x_hat.device)
    gain = values / (values + noise_std[:, None] ** 2)
    return centre + ((x_hat - centre) @ vectors * gain) @ vectors.T


def judge(tables: Tables) -> Iterator[Verdict]:
    table, exact = tables["ratios"], tables["exact"].set_index("sigma")["shrunken"]
    beaten = table.loc[table["reconstruction"].isin(RIVALS), "beats X_hat"].all()
    by_sigma = table.set_index(["reconstruction", "sigma"])
    by_sigma = by_sigma.rename(columns={"MSE over sigma^2 ||X||^2": "ratio"})
    shrunken = by_sigma.loc["shrunken"]
    off = ((shrunken["ratio"] - exact).abs() / shrunken["error"]).max()
    better = refute(
        "mean_to_extreme/thm1",
        erratum="E-A-02",
        holds=not beaten,
        corrected_holds=off < 5,
        ours="MSE of the shrunken over that of X_hat: "
        + "; ".join(
            f"sigma {sigma:g}: {rounded(row['ratio'], row['error'])}"
            for sigma, row in shrunken.iterrows()
        ),
        paper="at least 1",
    )
    yield from shared_by(better, "E-A-02")
    ordering = tables["ordering"]
    yield check(
        "A-023",
        (ordering["ordered alike"] == ordering["pairs"]).all(),
        "of two reconstructions, that of lower MSE has the higher PSNR",
        ours=f"all {tables.parameters.records} digits, all pairs of reconstructions",
    )
    largest = exact.index.max()
    prior = by_sigma.loc["linear prior", largest]
    yield check(
        "A-050",
        prior["ratio"] < shrunken.loc[largest, "ratio"],
        "an attacker with a data prior does better than any bound on X_hat says",
        ours=f"MSE ratio of a linear prior learnt from other digits at sigma = {largest:g}: "
        f"{rounded(prior['ratio'], prior['error'])}",
    )
