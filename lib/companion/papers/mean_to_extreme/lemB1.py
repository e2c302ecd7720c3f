"""Lemma B.1: the Fisher information of X_hat, by the covariance of the score."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.experiments.tools import as_numpy
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from companion.study import Context, Parameter, Tables, Verdict, measurement, refute, shared_by

PARAMETERS = {
    "repeats": Parameter("int", 200_000, 2_000_000, STATED, "draws of the score", 1000),
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 3, 3, STATED, "values of a record", 2),
}
SETTLES = ("E-A-11",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = p.noise_multiplier
    record = study.rng("record").random(p.dimension) + 0.2
    norm = float(np.linalg.norm(record))

    # the score of N(X, sigma^2 ||X||^2 I) at its own parameter, by autograd
    draws = record + sigma * norm * study.rng("draws").standard_normal((p.repeats, p.dimension))
    parameter = torch.tensor(np.broadcast_to(record, draws.shape).copy(), requires_grad=True)
    scale = sigma * parameter.norm(dim=1)
    log_density = -p.dimension * scale.log() - (
        (torch.tensor(draws) - parameter).square().sum(dim=1) / (2 * scale**2)
    )
    (score,) = torch.autograd.grad(log_density.sum(), parameter)
    information = as_numpy(score.T @ score) / p.repeats
    error = np.sqrt((as_numpy(score) ** 4).mean(axis=0).max() / p.repeats)

    unit = record / norm
    exact = np.eye(p.dimension) / (sigma * norm) ** 2
    exact += 2 * p.dimension / norm**2 * np.outer(unit, unit)
    return Tables(
        {
            "record": pd.DataFrame({"value": record}),
            "information": pd.DataFrame(exact),
            "scores": pd.DataFrame(information).assign(**{"standard error": error}),
        },
        exact=("information",),
        ran=f"{p.repeats} scores of X_hat at N = {p.dimension}, sigma = {sigma:g}, by autograd.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    record = tables["record"]["value"].to_numpy()
    exact = tables["information"].to_numpy()
    measured = tables["scores"].drop(columns="standard error").to_numpy()
    error = tables["scores"]["standard error"].iloc[0]
    norm = np.linalg.norm(record)
    variance = (tables.parameters.noise_multiplier * norm) ** 2
    cramer_rao = np.linalg.inv(exact) / variance
    coordinates, along = np.diag(cramer_rao), record @ cramer_rao @ record / norm**2
    bounds = f"{', '.join(f'{b:.3f}' for b in coordinates)} by coordinate, {along:.4g} along X"
    smaller = refute(
        "mean_to_extreme/lemB1",
        erratum="E-A-11",
        holds=np.abs(np.diag(measured) * variance - 1).max() < 6 * error * variance,
        corrected_holds=np.abs(measured - exact).max() < 6 * error and (coordinates < 1).all(),
        ours=f"Cramer-Rao bounds over variance: {bounds}",
        paper="1",
    )
    yield from shared_by(smaller, "E-A-11")
