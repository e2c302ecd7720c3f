"""Theorem 1: reconstructions of digits with a lower MSE than the "best achievable" one."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from scipy import integrate, stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from reconrisk import DPSGD, metrics
from reconrisk.attacks import clip_to_range, james_stein, known_scale, observe, shrink

SIGMAS = (0.015, 0.06, 0.3)
RIVALS = ("shrunken", "James-Stein", "clipped to [0, 1]")
#: the controls that no observation enters
BLACK, MEAN = "black", "mean of other digits"

PARAMETERS = {
    "noise_multipliers": Parameter("floats", SIGMAS, (0.003, *SIGMAS), STATED, "sigma", 1e-12),
    "records": Parameter("int", 400, 2000, STATED, "MNIST images rebuilt", 10),
}
SETTLES = ("A-023", "A-050", "E-A-02")
RATIO, CHANGE = "MSE over sigma^2 ||X||^2", "less that of X_hat"
ALTERED = {
    "ratios": {
        RATIO: (
            at("reconstruction == 'shrunken'", "MSEs of shrunken reconstructions"),
            at("reconstruction == 'James-Stein'", "MSEs of James-Stein reconstructions"),
            at("reconstruction == 'linear prior'", "MSEs of a linear prior"),
            at("reconstruction == 'X_hat'", "MSEs of X_hat"),
        ),
        CHANGE: "differences from the MSEs of X_hat",
    },
    "means": {
        "PSNR": at("reconstruction == 'shrunken'", "mean PSNRs of shrunken reconstructions [dB]"),
    },
}

#: how near MSEs must come to their closed forms, relative
MARGIN = 0.05
#: the same for James-Stein, of the MSE of X_hat: the smallest gain on it is 0.13
GAIN_MARGIN = 0.03


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    digits = mnist()
    order = study.rng("order").permutation(len(digits))
    records, others = digits[order[: p.records]], digits[order[p.records :]]
    mean, covariance = others.mean(axis=0), np.cov(others.T)
    inputs = tensor(study, records)
    norms = inputs.norm(dim=1)
    dimension = records.shape[1]
    ratios, means = [], []
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
        constant = {BLACK: np.zeros_like(mean), MEAN: mean}
        errors = {name: metrics.mse(records, as_numpy(y)) for name, y in rebuilt.items()}
        psnr = {name: metrics.psnr(records, as_numpy(y), 1.0) for name, y in rebuilt.items()}
        means += [(sigma, name, errors[name].mean(), psnr[name].mean()) for name in rebuilt]
        errors |= {name: metrics.mse(records, value) for name, value in constant.items()}
        scaled = {k: v / as_numpy(noise_std) ** 2 for k, v in errors.items()}
        for name, values in scaled.items():
            # compared with X_hat digit by digit: both have the same noise
            change = mean_and_error(values - scaled["X_hat"])
            ratios.append((sigma, name, *mean_and_error(values), *change))
    columns = ["sigma", "reconstruction", RATIO, "standard error"]
    columns += [CHANGE, "standard error of the difference"]
    exact = [
        (sigma, 1 / (1 + dimension * sigma**2), _james_stein_risk(dimension, sigma))
        for sigma in p.noise_multipliers
    ]
    return Tables(
        {
            "ratios": pd.DataFrame(ratios, columns=columns),
            "means": pd.DataFrame(means, columns=["sigma", "reconstruction", "MSE", "PSNR"]),
            "exact": pd.DataFrame(exact, columns=["sigma", "shrunken", "James-Stein"]),
        },
        exact=("exact",),
        subsets=(MNIST,),
        ran=f"{p.records} MNIST images (N = {dimension}), one DP-SGD step each per sigma; mean and "
        f"covariance of the other {len(others):,} of the sample.",
    )


def _james_stein_risk(dimension: int, sigma: float) -> float:
    """MSE of the positive-part James-Stein estimate over that of X_hat, by Stein's identity.

    ``w``, the squared length in units of the noise's variance, is non-central chi-squared with
    non-centrality ``1 / sigma^2`` whatever the record.
    """
    law, least = stats.ncx2(dimension, sigma**-2.0), dimension - 2

    def change(w: float) -> float:
        return law.pdf(w) * (-(least**2) / w if w > least else w - 2 * dimension)

    ends = max(0.0, law.mean() - 12 * law.std()), law.mean() + 14 * law.std()
    kink = [least] if ends[0] < least < ends[1] else None
    return 1 + float(integrate.quad(change, *ends, points=kink, limit=400)[0]) / dimension


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
    table, exact = tables["ratios"], tables["exact"].set_index("sigma")
    rivals = table[table["reconstruction"].isin(RIVALS)]
    gain = rivals[CHANGE] + STANDARD_ERRORS * rivals["standard error of the difference"]
    beaten = (gain < 0).all()
    by_sigma = table.set_index(["reconstruction", "sigma"])
    by_sigma = by_sigma.rename(columns={RATIO: "ratio", "standard error": "error"})
    shrunken = by_sigma.loc["shrunken"]
    # X_hat, the control, has its own MSE
    shares = [
        within(by_sigma.loc[k, "ratio"] / risk, 1, by_sigma.loc[k, "error"] / risk, MARGIN)
        for k, risk in exact[["shrunken"]].assign(X_hat=1.0).items()
    ]
    # nor is a rival's gain that of a black picture: its ratio is 1 / (N sigma^2)
    black = by_sigma.loc[BLACK, "ratio"]
    known = np.allclose(black, exact["shrunken"] / (1 - exact["shrunken"]), rtol=1e-6)
    stein = by_sigma.loc["James-Stein"]
    gains = within(stein["ratio"], exact["James-Stein"], stein["error"], GAIN_MARGIN)
    better = refute(
        "mean_to_extreme/thm1",
        erratum="E-A-02",
        holds=not beaten,
        corrected_holds=every(*shares, gains, known),
        ours="MSE of the shrunken over that of X_hat: "
        + "; ".join(
            f"sigma {sigma:g}: {rounded(row['ratio'], row['error'])}"
            for sigma, row in shrunken.iterrows()
        ),
        paper="at least 1",
    )
    yield from shared_by(better, "E-A-02")
    means = tables["means"].set_index("reconstruction").groupby("sigma")
    # with the data prior and without
    best = {
        (sigma, kind): (among["MSE"].idxmin(), among["PSNR"].idxmax())
        for sigma, own in means
        for kind, among in (("all", own), ("no prior", own.drop(index="linear prior")))
    }
    yield check(
        "A-023",
        all(least == highest for least, highest in best.values()),
        "of five reconstructions, and of the four without a data prior, that of the least mean MSE "
        "has the highest mean PSNR",
        ours="; ".join(
            f"sigma {sigma:g}: {best[sigma, 'all'][0]}, without it {best[sigma, 'no prior'][0]}"
            for sigma in exact.index
        ),
    )
    higher = tables["means"].pivot(index="sigma", columns="reconstruction", values="PSNR")
    yield refute(
        "A-023",
        "X_hat is also optimal with respect to the PSNR",
        erratum="E-A-02",
        holds=bool((higher["X_hat"] >= higher.max(axis=1)).any()),
        corrected_holds=bool((higher["shrunken"] > higher["X_hat"]).all()),
        ours="mean PSNR of the shrunken less that of X_hat: "
        + ", ".join(f"{gain:.1f} dB" for gain in higher["shrunken"] - higher["X_hat"]),
    )
    prior, shrunk, mean = (by_sigma.loc[name] for name in ("linear prior", "shrunken", MEAN))
    spread = STANDARD_ERRORS * np.hypot(prior["error"], shrunk["error"])
    apart = STANDARD_ERRORS * np.hypot(prior["error"], mean["error"])
    least = exact.index.min()
    yield check(
        "A-050",
        (prior["ratio"] + spread < shrunk["ratio"]).all()
        and (shrunk["ratio"] < 1).all()
        # at much noise the mean is all that a prior has to say
        and (prior["ratio"] + apart < mean["ratio"])[least],
        "an attacker with a data prior does better than any bound on X_hat says, and at little "
        "noise better than the prior's mean alone",
        ours=f"MSE ratio at sigma = {least:g} of a linear prior learnt from other digits "
        f"{rounded(*prior.loc[least, ['ratio', 'error']])}, of their mean alone "
        f"{rounded(*mean.loc[least, ['ratio', 'error']])}; at sigma = {exact.index.max():g} "
        f"{prior['ratio'].iloc[-1]:.2g} and {mean['ratio'].iloc[-1]:.2g}",
    )
