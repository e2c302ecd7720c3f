"""Figure 2: reconstructions of synthetic records and their theory, for three clipping norms."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from scipy import stats

from companion.experiments.tools import SIGNIFICANCE, as_numpy, fits, tensor
from companion.papers.mean_to_extreme.labels import LABELS
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE, drawing, panels
from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import known_scale, observe

METRICS = ("mse", "psnr", "ncc")
SIGMAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)

PARAMETERS = {
    "samples": Parameter("int", 100, 100, "100", "records from U(0, 1)^N", 10),
    "dimension": Parameter("int", 4, 4, "4", "N", 3),
    "rows": Parameter("int", 100, 100, "100", "M", 1),
    "noise_multipliers": Parameter("floats", SIGMAS, SIGMAS, "not printed", "sigma", 1e-12),
    "headroom": Parameter(
        "float", 2.0, 2.0, "larger than any data norm", "row 3: C over sqrt(M) max ||X||", 1.0
    ),
}
SETTLES = (
    *(f"_row{row}_{metric}" for row in (1, 2, 3) for metric in METRICS),
    *("A-031", "A-032", "A-033", "A-034"),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    records = study.rng("records").random((p.samples, p.dimension))
    norms = np.linalg.norm(records, axis=1)
    contrast = np.linalg.norm(records - records.mean(axis=1, keepdims=True), axis=1) / norms
    clipping = {
        1: norms.min(),
        2: math.sqrt(p.rows) * norms.min(),
        3: p.headroom * math.sqrt(p.rows) * norms.max(),
    }
    inputs = tensor(study, records)
    samples = []
    for row, max_grad_norm in clipping.items():
        # noise has std sigma max(||X||, C / sqrt(M)): an effective sigma relative to ||X||
        inflation = np.maximum(1.0, max_grad_norm / (math.sqrt(p.rows) * norms))
        for sigma in p.noise_multipliers:
            run = DPSGD(sigma, max_grad_norm=max_grad_norm)
            update = observe(inputs, run, study.generator(row, sigma), rows=p.rows)
            rebuilt = as_numpy(known_scale(update))
            columns = {
                **{"row": row, "sigma": sigma, "norm": norms, "C": max_grad_norm},
                "mse": metrics.mse(records, rebuilt),
                "psnr": metrics.psnr(records, rebuilt, 1.0),
                "ncc": metrics.ncc(records, rebuilt),
                "expected ncc": bounds.expected_ncc(p.dimension, sigma * inflation, contrast),
                "clipped": as_numpy(update.scale) < 1,
            }
            samples.append(pd.DataFrame(columns))
    curve = np.geomspace(min(p.noise_multipliers), max(p.noise_multipliers), 60)
    expected = {
        "sigma": curve,
        "mse": bounds.expected_mse(curve, norms.min()),
        "psnr": bounds.expected_psnr(p.dimension, curve, norms.min(), 1.0),
        "ncc bound": bounds.ncc_bound_paper(p.dimension, curve),
        "ncc exact, data-free": bounds.expected_ncc(p.dimension, curve),
    }
    return Tables(
        {"samples": pd.concat(samples, ignore_index=True), "expected": pd.DataFrame(expected)},
        ran=f"{p.samples} records from U(0, 1)^{p.dimension}, one DP-SGD step each through "
        f"{p.rows} rows, for {len(p.noise_multipliers)} values of sigma and three of C.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, samples = tables.parameters, tables["samples"]
    regimes = {row: _regime(own, p.dimension, p.rows) for row, own in samples.groupby("row")}
    follows = {row: regime["p-value"] > SIGNIFICANCE for row, regime in regimes.items()}
    free = regimes[3]
    means = samples.groupby(["row", "sigma"])[list(METRICS)].mean()
    clipped, not_clipped = means.loc[1], means.loc[3]
    worse = {
        "mse": (not_clipped["mse"] > clipped["mse"]).all(),
        "psnr": (not_clipped["psnr"] < clipped["psnr"]).all(),
        "ncc": not_clipped["ncc"].mean() < clipped["ncc"].mean(),
    }
    shares = [regimes[row]["share clipped"] for row in (1, 2, 3)]
    overlap = check(
        "mean_to_extreme/fig2",
        follows[1]
        and follows[2]
        and not follows[3]
        and all(worse.values())
        and min(shares[:2]) > 0.98
        and shares[2] == 0,
        "boxes overlap the theory in the rows whose gradients are clipped, and only there",
        ours="share clipped "
        + ", ".join(f"{share:.0%}" for share in shares)
        + "; p-values "
        + ", ".join(f"{regime['p-value']:.2g}" for regime in regimes.values()),
        tolerance=f"p > {SIGNIFICANCE:g}",
    )
    yield from shared_by(overlap, "A-034")
    for row in (1, 2):
        law = check(
            f"mean_to_extreme/fig2_row{row}_mse",
            follows[row],
            "simulated MSE and PSNR follow the theoretical law",
            ours=f"p-value {regimes[row]['p-value']:.2g}",
            tolerance=f"p > {SIGNIFICANCE:g}",
        )
        yield from shared_by(law, f"mean_to_extreme/fig2_row{row}_psnr", f"A-03{row}")
    spread = 8 * free["inflation"] * math.sqrt(2 / (p.dimension * (samples["row"] == 3).sum()))
    inflated = check(
        "mean_to_extreme/fig2_row3_mse",
        all(worse.values()) and abs(free["mse over theory"] - free["inflation"]) < spread,
        "without clipping the MSE is C^2 / (M ||X||^2) times the theory; PSNR and NCC are lower",
        ours=f"MSE {free['mse over theory']:.1f} times the theory; NCC "
        f"{not_clipped['ncc'].mean():.2f} against {clipped['ncc'].mean():.2f}",
        paper=f"{free['inflation']:.1f}",
    )
    yield from shared_by(
        inflated, "mean_to_extreme/fig2_row3_psnr", "mean_to_extreme/fig2_row3_ncc", "A-033"
    )
    for row, regime in regimes.items():
        yield check(
            f"mean_to_extreme/fig2_row{row}_ncc",
            abs(regime["ncc z-score"]) < 4,
            "the mean NCC is at its exact expectation (above the dashed population bound)",
            ours=f"z-score {regime['ncc z-score']:.1f}",
            tolerance="4 standard errors",
        )


def _regime(own: pd.DataFrame, dimension: int, rows: int) -> dict[str, float]:
    """One row of the figure against the law N MSE / (sigma ||X||)^2 ~ chi^2 with N degrees."""
    ratio = own["mse"] * dimension / (own["sigma"] * own["norm"]) ** 2
    difference = own["ncc"] - own["expected ncc"]
    return {
        "p-value": fits(ratio.to_numpy(), stats.chi2(dimension).cdf),
        "mse over theory": ratio.mean() / dimension,
        # without clipping: noise C sigma / sqrt(M) a coordinate instead of sigma ||X||
        "inflation": (own["C"] ** 2 / (rows * own["norm"] ** 2)).mean(),
        "ncc z-score": difference.mean() / (difference.std(ddof=1) / math.sqrt(len(own))),
        "share clipped": own.loc[own["sigma"] == own["sigma"].iloc[-1], "clipped"].mean(),
    }


CAPTION = (
    "Boxplots of 100 four-dimensional reconstructions over the noise multiplier, and the theory. "
    "Rows: C at the smallest norm; C that only a gradient of several rows reaches; C that none "
    "reaches. Grey: exact density of the metric over the data set, white low to black high along "
    "each sigma. Dashed: the expectation at the smallest norm (MSE, PSNR) and the printed bound "
    "(NCC); dotted: the largest possible expectation of the NCC."
)


def alt(tables: Tables) -> str:
    p, free = tables.parameters, tables["samples"].query("row == 3")
    excess = _regime(free, p.dimension, p.rows)["mse over theory"]
    return (
        "Three by three panels. In the upper two rows the boxes of MSE and PSNR lie on the dark "
        "band of the theoretical density; in the third row the MSE lies far above it, "
        f"{excess:.0f} times on average, and PSNR and NCC below. Many NCC boxes reach above the "
        "dashed bound in the upper rows."
    )


@drawing
def draw(tables: Tables) -> Figure:
    samples, expected = tables["samples"], tables["expected"]
    dimension = int(tables.parameters.dimension)
    sigmas = np.sort(samples["sigma"].unique())
    norms = samples.query("row == 1 and sigma == @sigmas[0]")["norm"].to_numpy()
    at_sigma, at_norm = sigmas[:, None], norms[:, None, None]
    figure, axes = panels(3, 3, 3.3, 2.55)
    regimes = (r"$C=\min\|X\|$", r"$C=\sqrt{M}\,\min\|X\|$", r"$C>\sqrt{M}\,\max\|X\|$")
    for row, (line, regime) in enumerate(zip(axes, regimes, strict=True), start=1):
        line[1].set_title(f"row {row}: {regime}")
        own = samples[samples["row"] == row]
        for axis, metric in zip(line, METRICS, strict=True):
            boxes = [own.loc[own["sigma"] == s, metric].to_numpy() for s in sigmas]
            low, high = min(b.min() for b in boxes), max(b.max() for b in boxes)
            if metric == "ncc":
                low, high = -1.05, 1.05
                bound, exact = expected["ncc bound"], expected["ncc exact, data-free"]
                label = r"printed $1/\sqrt{1+N\sigma^2}$"
                axis.plot(expected["sigma"], bound, "--", color=PURPLE, label=label)
                axis.plot(expected["sigma"], exact, ":", color=BLUE, label="exact largest E[NCC]")
            elif metric == "mse":
                low, high = max(low / 2, 1e-6), high * 2
                values = np.geomspace(low, high, 120)
                density = bounds.mse_density(values, dimension, at_sigma, at_norm)
                axis.set_yscale("log")
                _shade(axis, sigmas, values, density * values)  # per unit of log MSE
            else:
                low, high = low - 3, high + 3
                values = np.linspace(low, high, 120)
                density = bounds.psnr_density(values, dimension, at_sigma, at_norm, 1.0)
                _shade(axis, sigmas, values, density)
            if metric != "ncc":
                axis.plot(expected["sigma"], expected[metric], "--", color=BLUE)
            _boxes(axis, boxes, sigmas)
            axis.set(xscale="log", ylim=(low, high), xlim=(sigmas[0] / 1.35, sigmas[-1] * 1.35))
            axis.set_ylabel(LABELS[metric])
            axis.xaxis.set_minor_formatter(NullFormatter())
            if row == 3:
                axis.set_xlabel(r"noise multiplier $\sigma$")
    handles, labels = axes[0][2].get_legend_handles_labels()
    handles.append(axes[0][0].lines[0])
    labels.append(r"expectation at $\min\|X\|$ (MSE, PSNR)")
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _boxes(axis: Axes, boxes: list[np.ndarray], sigmas: np.ndarray) -> None:
    axis.boxplot(
        boxes,
        positions=sigmas,
        widths=0.22 * sigmas,
        manage_ticks=False,
        showmeans=True,
        meanline=True,
        patch_artist=True,
        medianprops={"visible": False},
        meanprops={"color": ORANGE, "linestyle": "-", "linewidth": 1.8},
        boxprops={"facecolor": "none", "edgecolor": GREEN, "linewidth": 1.2},
        whiskerprops={"color": GREEN},
        capprops={"color": GREEN},
        flierprops={"marker": "o", "markersize": 2.5, "markeredgecolor": GREY},
    )


def _shade(axis: Axes, sigmas: np.ndarray, values: np.ndarray, density: np.ndarray) -> None:
    """Shade densities (norm, sigma, value): the mean over the data set, scaled to its maximum."""
    mean = density.mean(axis=0)
    edges = _edges(sigmas, log=True), _edges(values, log=axis.get_yscale() == "log")
    shade = (mean / mean.max(axis=1, keepdims=True)).T
    axis.pcolormesh(*edges, shade, cmap="Greys", vmin=0, vmax=1.6, rasterized=True)


def _edges(centres: np.ndarray, *, log: bool) -> np.ndarray:
    """Edges of the cells around centres, halfway between them on the axis."""
    at = np.log(centres) if log else centres
    inner = (at[:-1] + at[1:]) / 2
    edges = np.concatenate([[2 * at[0] - inner[0]], inner, [2 * at[-1] - inner[-1]]])
    return np.exp(edges) if log else edges
