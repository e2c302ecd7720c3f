"""Shrinking is minimax: Bayes risks under ever wider priors on the norm increase to its risk.

Relative to ``||X||^2 / N`` the shrunken reconstruction has the risk ``N sigma^2 / (1 + N sigma^2)``
at every record. A Bayes risk is a lower bound on the worst risk of *any* reconstruction. With a
uniform direction and a log-uniform norm on ``[e^-L, e^L]`` it tends to that very value, so no
reconstruction has a smaller worst risk.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import integrate, special

from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.study.falsifiers import column, graded
from reconrisk import bounds

_OURS = "our own exhibit"

_SIZES, _WIDTHS, _PAPER_WIDTHS = (2, 4, 16), (1.0, 2.0, 4.0, 8.0), (1.0, 2.0, 4.0, 8.0, 16.0)
_PRIOR = "L of the log-uniform prior on the norm"
PARAMETERS = {
    "dimensions": Parameter("ints", _SIZES, _SIZES, _OURS, "N", 2),
    "noise_multiplier": Parameter("float", 0.5, 0.5, _OURS, "sigma", 1e-12),
    "half_widths": Parameter("floats", _WIDTHS, _PAPER_WIDTHS, _OURS, _PRIOR, 0.1),
}
SETTLES = ("O-012",)
FALSIFIERS = (
    graded(
        "a risk of the shrunken reconstruction {} larger",
        column("risks", "risk of the shrunken", lambda c, by: c * (1 + by)),
        *("", "O-012"),
    ),
    graded(
        "Bayes risks {} larger than the shrunken one's",
        column("risks", "share reached", lambda c, by: c * (1 + by)),
        *("", "O-012"),
    ),
    graded(
        "Bayes risks whose limit is {} lower",
        column("risks", "share reached", lambda c, by: c * (1 - by)),
        *("", "O-012"),
    ),
)
SHOWN = ("risks",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for dimension in p.dimensions:
        value = dimension * p.noise_multiplier**2
        shrunken = value / (1 + value)
        for half_width in p.half_widths:
            bayes = _bayes_risk(dimension, p.noise_multiplier, half_width)
            rows.append((dimension, half_width, bayes, shrunken, bayes / shrunken))
    columns = ["N", "L", "Bayes risk", "risk of the shrunken", "share reached"]
    return Tables(
        {"risks": pd.DataFrame(rows, columns=columns)},
        exact=("risks",),
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
    reach = 9.0 + sigma  # beyond it, in log rho, the density is negligible
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
    prior = np.ones(log_r.size)
    prior[[0, -1]] = 0.5
    weight = density * (prior / prior.sum())
    # minimise E[(y - X)^2 / r^2]: with a = E[cos / r], b = E[1 / r^2] at each rho, gain a^2 / b
    first = (weight * cosine * np.exp(-log_r)).sum(axis=1)
    second = (weight * np.exp(-2 * log_r)).sum(axis=1)
    gain = np.divide(first**2, second, out=np.zeros_like(first), where=second > 0)
    return float(1 - integrate.trapezoid(gain, dx=step))


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["risks"]
    shrunken = table.groupby("N")["risk of the shrunken"].first()
    agrees = all(
        abs(bounds.expected_mse_shrunk(n, p.noise_multiplier, 1.0) * n / risk - 1) < 1e-12
        for n, risk in shrunken.items()
    )
    reached = table.pivot(index="L", columns="N", values="share reached")
    climbs = (reached.diff().dropna() > 0).to_numpy().all() and (reached <= 1 + 1e-9).all(axis=None)
    # the rest is an edge effect: it halves when the prior's width doubles
    missing = (1 - reached).iloc[-2:]
    width = missing.index[-1] / missing.index[0]
    halves = width > 1 and (missing.iloc[-1] / missing.iloc[0]).max() < 1.05 / width
    verdict = check(
        "beyond/minimax",
        agrees and climbs and halves,
        "as the prior widens, Bayes risks increase to the risk of the shrunken reconstruction: it "
        "is minimax over all records",
        ours=f"{reached.iloc[-1].min():.4f} of it at L = {reached.index[-1]:g}; the rest falls "
        "like 1/L",
    )
    yield from shared_by(verdict, "O-012")
