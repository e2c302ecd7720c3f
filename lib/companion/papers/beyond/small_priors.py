"""Bounds at very small priors from the binomial tail, beside those from the printed power."""

import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from reconrisk import bounds, privacy

_OURS = "our own exhibit"
_SIZES, _SHARES = (784, 3072), (0.3, 0.6, 0.9, 1.0)
_PRINTED = "0.6 and 1; the others are not stated"

PARAMETERS = {
    "dimensions": Parameter("ints", _SIZES, _SIZES, "784, 3072", "d, values of an image", 1),
    "shares": Parameter("floats", _SHARES, _SHARES, _PRINTED, "rho, share of pixels to fit", 1e-9),
    "curve_points": Parameter("int", 81, 161, _OURS, "epsilons of the curves, from 1 to 10,000", 5),
    "steps": Parameter("int", 100, 100, "100", "T, full batch", 1),
    "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of the privacy guarantee", 1e-300),
    "trials": Parameter("int", 200_000, 2_000_000, _OURS, "simulated images of 12 pixels", 1000),
}
SETTLES = ("O-024",)

#: how near a simulated tail must be, its error included
MARGIN = 0.01
ALTERED = {
    "priors": {"log prior": "logarithms of priors [nats]"},
    "curves": {"printed bound": at("share == 1", "printed bounds for whole images [decades]")},
    "simulated": {"simulated": "shares of images that fit by chance"},
}
SCENARIOS = (
    scenario(
        "the printed prior is the right one",
        together(
            frame("curves", lambda t: t.assign(bound=t["printed bound"])),
            frame("curves", lambda t: t.assign(prior=t["printed prior"])),
        ),
        *("", "O-024"),
    ),
)

#: a pixel of 256 values fits by chance, as the paper has it
_PIXEL = 0.25


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigmas = {
        float(e): privacy.noise_for_epsilon(float(e), p.delta, steps=p.steps)
        for e in np.geomspace(1.0, 1e4, p.curve_points)
    }
    priors, rows = [], []
    for d in p.dimensions:
        for share in p.shares:
            tail = float(bounds.log_prior_success_pixels(d, share, probability=_PIXEL))
            printed = float(bounds.log_prior_success_pixels_printed(d, share))
            priors.append((d, share, tail, log_tail_by_integers(d, share)))
            logs = np.array([tail, printed])
            for epsilon, sigma in sigmas.items():
                both = bounds.rero_gaussian(sigma, log_prior_success=logs, steps=p.steps, log=True)
                rows.append((d, share, epsilon, *logs / math.log(10), *both / math.log(10)))
    columns = ["d", "share", "epsilon", "prior", "printed prior", "bound", "printed bound"]
    return Tables(
        {
            "curves": pd.DataFrame(rows, columns=columns).round(9),
            "priors": pd.DataFrame(priors, columns=["d", "share", "log prior", "by integers"]),
            "simulated": _simulated_guesses(study),
        },
        exact=("curves",),
        ran=f"closed forms in the log domain, T = {p.steps}, q = 1, delta = {p.delta:g}, one pixel "
        f"with probability 1/4 as the paper has it; {p.trials} images of 12 uniform pixels.",
    )


def log_tail_by_integers(d: int, share: float) -> float:
    """Log of the binomial tail with probability 1/4, from exact integers."""
    needed = math.ceil(share * d - 1e-9)
    total = sum(math.comb(d, k) * 3 ** (d - k) for k in range(needed, d + 1))
    with mpmath.workdps(40):
        return float(mpmath.log(total) - d * mpmath.log(4))


def _simulated_guesses(study: Context) -> pd.DataFrame:
    """Blind guesses on simulated images, beside the tail with a probability of 64/255."""
    trials = study.parameters.trials
    images = study.rng("images").random((trials, 12), dtype=np.float32)
    fitting = (np.abs(images - 0.5) < 32 / 255).sum(axis=1)
    rows = []
    for share in (0.25, 0.5, 0.75):
        tail = float(np.exp(bounds.log_prior_success_pixels(12, share)))
        measured = float(np.mean(fitting >= 12 * share))
        error = math.sqrt(tail * (1 - tail) / trials)
        rows.append((share, tail, measured, error))
    return pd.DataFrame(rows, columns=["share", "tail", "simulated", "standard error"])


def judge(tables: Tables) -> Iterator[Verdict]:
    table, priors = tables["curves"], tables["priors"]
    simulated = tables["simulated"]
    error = simulated["standard error"]
    agree = within(simulated["simulated"], simulated["tail"], error, MARGIN)
    off = (simulated["simulated"] - simulated["tail"]).abs().max()
    exact = (priors["log prior"] - priors["by integers"]).abs().max() < 1e-9
    part = table[table["share"] < 1]
    # a blind guess, right with the probability of the prior, beats the printed bound by decades
    start = part[part["epsilon"] == part["epsilon"].min()]
    start = start.assign(behind=start["prior"] - start["printed bound"])
    sixty = np.isclose(part["share"], 0.6)
    sixty = part[sixty] if sixty.any() else part
    telling = sixty[(sixty["bound"] > -2) & (sixty["printed bound"] < -20)]
    whole = table[table["share"] == 1]
    same = np.allclose(whole["bound"], whole["printed bound"], rtol=1e-9)
    holds = exact and start["behind"].min() > 5 and len(telling) > 0 and same
    at_sixty = start[np.isclose(start["share"], 0.6)]
    verdict = check(
        "O-024",
        holds and agree,
        ours=f"guesses ahead by 10^{start['behind'].min():.0f} or more at epsilon = 1, for rho = "
        "0.6 by "
        + " and ".join(f"10^{row.behind:.0f} (d = {row.d})" for row in at_sixty.itertuples())
        + f", the bound exceeds 0.01 in {len(telling)} such settings; simulated shares off by up "
        f"to {off:.4f}",
        tolerance=f"{MARGIN:g} for simulated shares, with {STANDARD_ERRORS:g} standard errors "
        "inside",
    )
    yield from shared_by(verdict, "beyond/small_priors")


CAPTION = (
    "Upper bounds on finding a share rho of the pixels within 32/255, T = 100, q = 1, "
    "delta = 1e-5: from the prior success as paper C prints it, (1/4)^(d rho) (dashed), and from "
    "the binomial tail that it is (solid). The marks at the left edge are what a blind guess "
    "achieves. Logarithms to base ten."
)


@drawing
def draw(tables: Tables) -> Figure:
    groups = list(tables["curves"].groupby("d", sort=False))
    figure, (row,) = panels(1, len(groups), 4.6, 3.5)
    for axis, (d, own) in zip(row, groups, strict=True):
        shares = sorted(own["share"].unique(), reverse=True)
        for colour, share in zip((GREY, BLUE, ORANGE, GREEN, PURPLE), shares, strict=False):
            part = own[own["share"] == share]
            axis.plot(part["epsilon"], part["bound"], color=colour, label=rf"$\rho$ = {share:g}")
            axis.plot(part["epsilon"], part["printed bound"], "--", color=colour, lw=1.4)
            axis.plot(part["epsilon"].iloc[0], part["prior"].iloc[0], "<", color=colour, ms=7)
        axis.plot([], [], color="black", label="binomial tail")
        axis.plot([], [], "--", color="black", lw=1.4, label="as printed")
        axis.plot([], [], "<", color="black", ls="none", label="blind guess")
        axis.set(xscale="log", xlabel=r"$\varepsilon$", title=f"d = {d}")
    row[0].set_ylabel(r"log$_{10}$ of the bound on the success")
    row[-1].legend(loc="lower right", fontsize=8)
    return figure
