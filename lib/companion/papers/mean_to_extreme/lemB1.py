"""Lemma B.1: the Fisher information of X_hat, by the covariance of the score."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED

PARAMETERS = {
    "repeats": Parameter("int", 200_000, 2_000_000, STATED, "draws of the score", 1000),
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 3, 3, STATED, "values of a record", 2),
}
SETTLES = ("E-A-11",)
SCENARIOS = (
    scenario(
        "measured information {} smaller", frame("scores", lambda t, by: t * (1 - by)), "", "E-A-11"
    ),
)

#: how near the information must come to its formula, over that of noise of constant size: a
#: twentieth of what the size of the noise adds along X, 2 N sigma^2 = 0.54
MARGIN = 0.03


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


def _norm_and_variance(tables: Tables) -> tuple[float, float]:
    """The record's norm, and the variance of a coordinate of X_hat."""
    norm = float(np.linalg.norm(tables["record"]["value"]))
    return norm, (tables.parameters.noise_multiplier * norm) ** 2


def judge(tables: Tables) -> Iterator[Verdict]:
    norm, variance = _norm_and_variance(tables)
    unit = tables["record"]["value"].to_numpy() / norm
    # all in units of the information that noise of constant size would give
    exact = tables["information"].to_numpy() * variance
    measured = tables["scores"].drop(columns="standard error").to_numpy() * variance
    error = tables["scores"]["standard error"].iloc[0] * variance
    cramer_rao = np.linalg.inv(exact)
    coordinates, along = np.diag(cramer_rao), unit @ cramer_rao @ unit
    # the bound for who knows the norm: the information along the sphere only
    sphere = np.eye(unit.size) - np.outer(unit, unit)
    known_norm = np.linalg.pinv(sphere @ measured @ sphere, rcond=1e-6)
    smaller = refute(
        "mean_to_extreme/lemB1",
        erratum="E-A-11",
        holds=within(measured, np.eye(unit.size), error, MARGIN),
        corrected_holds=every(
            within(measured, exact, error, MARGIN),
            within(known_norm, sphere, error, MARGIN),
            bool((coordinates < 1).all() and (np.diag(sphere) < 1).all()),
        ),
        ours=f"Cramer-Rao bounds over variance: {_listed(coordinates)} by coordinate, {along:.4g} "
        f"along X; for who knows the norm {_listed(np.diag(known_norm))}",
        paper="1",
    )
    yield from shared_by(smaller, "E-A-11")


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3f}" for value in values)
