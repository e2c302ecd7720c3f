"""Figure 3: CDF of the MSE and survival function of the PSNR for varied sigma, N and norm."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from scipy import stats

from companion.exhibit import *
from reconrisk import bounds, metrics

VALUES = (0.5, 1.0, 2.0, 4.0)
MSE_RISK, PSNR_RISK = "P(MSE <= eta)", "P(PSNR >= eta)"
RISKS = {"mse": MSE_RISK, "psnr": PSNR_RISK}

PARAMETERS = {
    "noise_multipliers": Parameter("floats", VALUES, VALUES, "not printed", "sigma, row 1", 1e-12),
    "dimensions": Parameter("ints", (1, 4, 16, 64), (1, 4, 16, 64), "not printed", "N of row 2", 1),
    "data_norms": Parameter("floats", VALUES, VALUES, "not printed", "min ||X|| of row 3", 1e-12),
    "noise_multiplier": Parameter("float", 1.0, 1.0, "1", "sigma where not varied", 1e-12),
    "dimension": Parameter("int", 1, 1, "1", "N where not varied", 1),
    "data_norm": Parameter("float", 1.0, 1.0, "1 (as a maximum)", "norm where not varied", 1e-12),
    "points": Parameter("int", 201, 201, "not printed", "thresholds per curve", 11),
}
SETTLES = (
    *(f"_row{row}_{metric}" for row in (1, 2, 3) for metric in ("mse", "psnr")),
    *("A-035", "A-036", "A-037", "A-038", "A-039", "E-A-04"),
)
ALTERED = {
    "curves": {
        "P(MSE <= eta)": "probabilities of an MSE of at most eta",
        "P(PSNR >= eta)": "probabilities of a PSNR of at least eta",
        "expected MSE": at("row == 2 and value > 1", "expected MSEs at N > 1"),
        "expected PSNR": "expected PSNRs [dB]",
    },
    "two reconstructions": {"PSNR": "PSNRs of two reconstructions"},
}

#: a curve of risks is another one if they differ by more than this somewhere
APART = 0.05


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    base = {name: p[name] for name in ("noise_multiplier", "dimension", "data_norm")}
    mse, psnr = np.geomspace(1e-3, 1e2, p.points), np.linspace(-25, 30, p.points)
    curves = []
    for row, name in enumerate(base, start=1):
        for value in p[f"{name}s"]:
            at = base | {name: value}
            sigma, norm = at["noise_multiplier"], at["data_norm"]
            columns = {
                "row": row,
                "varied": name,
                "value": float(value),
                "MSE": mse,
                MSE_RISK: bounds.mse_tail(mse, **at),
                "PSNR": psnr,
                PSNR_RISK: bounds.psnr_tail(psnr, data_range=1.0, **at),
                "expected MSE": float(bounds.expected_mse(sigma, norm)),
                "expected PSNR": float(bounds.expected_psnr(data_range=1.0, **at)),
            }
            curves.append(pd.DataFrame(columns))
    values = np.array([0.5, 0.9])  # of a pixel whose value is 1
    two = {
        "MSE": [float(metrics.mse([0.0, 1.0], [0.0, v])) for v in values],
        "PSNR": [float(metrics.psnr([0.0, 1.0], [0.0, v], 1.0)) for v in values],
    }
    return Tables(
        {
            "curves": pd.concat(curves, ignore_index=True),
            "two reconstructions": pd.DataFrame(two),
        },
        exact=("curves",),
        ran="closed forms only.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p = tables.parameters
    law = {metric: _follows_law(tables, metric) for metric in RISKS}
    falls = {(row, risk): _falls(tables, row, risk) for row in (1, 3) for risk in RISKS.values()}
    by_dimension = tables["curves"].query("row == 2").groupby("value")
    dimensions = np.array(list(by_dimension.groups))
    widths = _widths(tables)
    steeper = (np.diff(widths) < 0).all()
    steeper &= np.ptp(by_dimension["expected MSE"].first().to_numpy()) < 1e-12
    psnr = by_dimension["expected PSNR"].first().to_numpy()
    below_log = np.array([math.log(n / 2) - _digamma(n / 2) for n in dimensions])
    theory = 10 / math.log(10) * below_log - 20 * math.log10(p.noise_multiplier * p.data_norm)
    shifts = (np.diff(psnr) < 0).all() and np.allclose(psnr, theory, rtol=0, atol=1e-9)
    factors = np.exp(widths)
    sharp = f"from 10% to 90% the MSE grows {factors[0]:.0f}-fold at N = {dimensions[0]:g}, "
    sharp += f"{factors[-1]:.1f}-fold at {dimensions[-1]:g}"
    yield check(
        "mean_to_extreme/fig3",
        falls[1, MSE_RISK] and falls[3, MSE_RISK] and steeper and shifts and all(law.values()),
        "noise and norm lower the risk, dimension sharpens it around its mean; every value is that "
        "of the chi-squared law of N MSE / (sigma ||X||)^2",
        ours=sharp,
    )
    for row, what, values, claims in (
        (1, "sigma", p.noise_multipliers, {"mse": ["A-035"], "psnr": ["A-035"]}),
        (3, "norm", p.data_norms, {"mse": ["A-038"], "psnr": []}),
    ):
        for metric, risk in RISKS.items():
            lower = check(
                f"mean_to_extreme/fig3_row{row}_{metric}",
                falls[row, risk] and law[metric],
                f"a larger {what} lowers {risk} at every threshold, to its chi-squared value",
                ours=f"{what} = {', '.join(f'{v:g}' for v in values)}",
            )
            yield from shared_by(lower, *claims[metric])
    statement = "the chi-squared curves steepen with N around an expected MSE that stays"
    held = steeper and law["mse"]
    steep = check("mean_to_extreme/fig3_row2_mse", held, statement, ours=sharp)
    yield from shared_by(steep, "A-036")
    shift = check(
        "mean_to_extreme/fig3_row2_psnr",
        shifts and law["psnr"],
        "the expected PSNR shifts with N, by the digamma term, and the curves are chi-squared",
        ours=f"E[PSNR] from {psnr[0]:.2f} to {psnr[-1]:.2f} dB",
    )
    yield from shared_by(shift, "A-037")
    # which way is better: a smaller MSE is a higher PSNR (Definition 4)
    two = tables["two reconstructions"].sort_values("MSE")
    higher = bool(two["PSNR"].is_monotonic_decreasing)
    statement = "the caption contradicts Definition 4: a better reconstruction has a higher PSNR"
    psnr_of = " and ".join(f"{value:.0f} dB" for value in two["PSNR"])
    ours = f"MSEs {two['MSE'].iloc[0]:.3g} and {two['MSE'].iloc[1]:.3g} have {psnr_of}"
    yield check("A-039", higher, statement, ours=ours)
    yield refute("E-A-04", holds=not higher, corrected_holds=higher, ours=ours)


def _follows_law(tables: Tables, metric: str) -> bool:
    """Whether every risk drawn, and every expected MSE, is that of the chi-squared law."""
    p, table = tables.parameters, tables["curves"]
    at = {
        name: table["value"].where(table["varied"] == name, float(p[name]))
        for name in ("noise_multiplier", "dimension", "data_norm")
    }
    scale = (at["noise_multiplier"] * at["data_norm"]) ** 2
    mse = table["MSE"] if metric == "mse" else 10 ** (-table["PSNR"] / 10)
    risk = stats.chi2(at["dimension"]).cdf(at["dimension"] * mse / scale)
    return bool(
        np.allclose(table[RISKS[metric]], risk, rtol=1e-6, atol=1e-12)
        and np.allclose(table["expected MSE"], scale, rtol=1e-9)
    )


def _falls(tables: Tables, row: int, risk: str) -> bool:
    """Whether a row's varied parameter lowers the risk: nowhere higher, plainly lower somewhere."""
    own = tables["curves"].query("row == @row")
    curves = np.stack([curve[risk] for _, curve in own.groupby("value")])
    steps = np.diff(curves, axis=0)
    return bool((steps <= 1e-15).all() and (steps.min(axis=1) < -APART).all())


def _widths(tables: Tables) -> np.ndarray:
    """Width in log MSE of the rise of each curve of row 2 from 10% to 90%."""
    own = tables["curves"].query("row == 2")
    return np.array(
        [
            float(np.diff(np.interp([0.1, 0.9], curve[MSE_RISK], np.log(curve["MSE"])))[0])
            for _, curve in own.groupby("value")
        ]
    )


def _digamma(x: float) -> float:
    """psi(x) by recurrence and its asymptotic series, independent of the library's route."""
    shift = 0.0
    while x < 12:
        shift -= 1 / x
        x += 1
    inverse = 1 / x**2
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
    return shift + math.log(x) - 1 / (2 * x) - series


CAPTION = (
    "Risk of a reconstruction within an MSE threshold (left) or above a PSNR threshold (right), "
    "while the noise (top), the dimension (middle) and the smallest norm (bottom) vary; everything "
    "else is 1. Dashed: expectations."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, axes = panels(3, 2, 3.9, 2.5)
    names = {1: r"$\sigma$", 2: "N", 3: r"$\min\|X\|$"}
    for (row, own), line in zip(tables["curves"].groupby("row"), axes, strict=True):
        for colour, (value, curve) in zip(COLOURS, own.groupby("value"), strict=False):
            label = f"{value:g}"
            line[0].plot(curve["MSE"], curve[MSE_RISK], color=colour, label=label)
            line[1].plot(curve["PSNR"], curve[PSNR_RISK], color=colour, label=label)
            line[0].axvline(curve["expected MSE"].iloc[0], color=colour, ls="--", lw=1)
            line[1].axvline(curve["expected PSNR"].iloc[0], color=colour, ls="--", lw=1)
        line[0].set(xscale="log", ylabel=r"risk $\gamma(\eta)$")
        line[1].legend(loc="upper right", handlelength=1.2, title=names[row])
        line[0].xaxis.set_major_locator(LogLocator(numticks=7))
    axes[0][0].set_title(r"P(MSE $\leq \eta$)")
    axes[0][1].set_title(r"P(PSNR $\geq \eta$)")
    axes[-1][0].set_xlabel(r"MSE threshold $\eta$")
    axes[-1][1].set_xlabel(r"PSNR threshold $\eta$ (dB)")
    return figure
