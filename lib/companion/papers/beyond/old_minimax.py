"""Our own: shrinking is minimax when the norm is unknown."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import integrate, special

from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import check
from reconrisk import bounds


@computes("beyond/minimax", "O-012")
def minimax(context: Context) -> Result:
    """Bayes risks under ever wider priors on the norm climb to the risk of the shrunken one.

    Relative to ``||X||^2 / N`` the shrunken reconstruction has the risk
    ``N sigma^2 / (1 + N sigma^2)`` at every record. A Bayes risk is a lower bound on the worst
    risk of *any* reconstruction. With a uniform direction and a log-uniform norm on
    ``[e^-L, e^L]`` it tends to that very value, so no reconstruction does better everywhere.
    """
    p = context.settings
    rows = []
    for dimension in p.dimensions:
        value = dimension * p.noise_multiplier**2
        shrunken = value / (1 + value)
        for half_width in p.half_widths:
            bayes = _bayes_risk(dimension, p.noise_multiplier, half_width)
            rows.append((dimension, half_width, bayes, shrunken, bayes / shrunken))
    table = pd.DataFrame(
        rows, columns=["N", "L", "Bayes risk", "risk of the shrunken", "share reached"]
    )
    library = float(bounds.expected_mse_shrunk(p.dimensions[0], p.noise_multiplier, 1.0))
    first = table[table["N"] == p.dimensions[0]]
    agrees = abs(library * p.dimensions[0] / first["risk of the shrunken"].iloc[0] - 1) < 1e-12
    below = bool((table["share reached"] <= 1 + 1e-9).all())
    climbs = all(
        bool((np.diff(group["share reached"]) > 0).all()) for _, group in table.groupby("N")
    )
    # the missing part is an edge effect: it halves when the prior's width doubles
    missing = 1 - table.pivot(index="L", columns="N", values="share reached")
    ratio = float((missing.iloc[-1] / missing.iloc[-2]).max())
    halves = ratio < 1.05 * p.half_widths[-2] / p.half_widths[-1]
    last = table[table["L"] == max(p.half_widths)]["share reached"].min()
    statement = "Bayes risks climb to the shrunken reconstruction's risk as the prior widens"
    shown = f"{last:.4f} of it at L = {max(p.half_widths):g}; what is missing falls like 1/L"
    holds = agrees and below and climbs and halves
    return Result(
        "beyond/minimax",
        [
            check("beyond/minimax", holds, statement, ours=shown),
            check("O-012", holds, "shrinking is minimax over all records", ours=shown),
        ],
        {"risks": table},
        exact=("risks",),
        shown=("risks",),
        ran="numerical integration over the norm of the record and of its noisy version.",
    )


def _bayes_risk(dimension: int, sigma: float, half_width: float) -> float:
    """Least expected ``||Y - X||^2 / ||X||^2`` for a uniform direction and log-uniform norm.

    With r the record's norm and rho that of ``X_hat``, averaging the density of ``X_hat`` over
    directions gives Bessel functions of ``z = rho / (sigma^2 r)``; the posterior mean of the
    direction is their ratio. Everything is a function of ``log rho - log r``.
    """
    nu = dimension / 2 - 1
    step = 0.02
    reach = 9.0 + sigma  # beyond it, in log rho, nothing is left of the density
    log_r = np.arange(-half_width, half_width + step / 2, step)
    log_rho = np.arange(-half_width - reach, half_width + reach, step)
    gap = log_rho[:, None] - log_r[None, :]
    z = np.exp(gap) / sigma**2
    # density of log rho given r, up to a constant: rho^N r^-N exp(-(rho^2 + r^2)/(2 sigma^2 r^2))
    # times the directional average; ive takes the exponential growth of the Bessel function out
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        log_density = (
            dimension * gap
            - (np.expm1(gap)) ** 2 / (2 * sigma**2)
            + np.log(special.ive(nu, z))
            - nu * np.log(z)
        )
        density = np.where(np.isfinite(log_density), np.exp(log_density), 0.0)
        cosine = np.where(density > 0, special.ive(nu + 1, z) / special.ive(nu, z), 0.0)
    density /= integrate.trapezoid(density, dx=step, axis=0)[None, :]
    prior = np.full(log_r.size, 1.0)
    prior[[0, -1]] = 0.5
    prior /= prior.sum()
    weight = density * prior
    # minimise E[(y - X)^2 / r^2]: with a = E[cos / r], b = E[1 / r^2] at each rho, gain a^2 / b
    first = (weight * cosine * np.exp(-log_r)).sum(axis=1)
    second = (weight * np.exp(-2 * log_r)).sum(axis=1)
    gain = np.divide(first**2, second, out=np.zeros_like(first), where=second > 0)
    return float(1 - integrate.trapezoid(gain, dx=step))
