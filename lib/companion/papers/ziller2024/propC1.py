"""Proposition C.1: the NMI of densities, an identity with a pole; and the NMI of histograms."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from companion.experiments.tools import mean_and_error
from companion.papers.ziller2024.projection_steps import STATED, released
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.style import BLUE, GREEN, GREY, ORANGE, drawing, panels
from reconrisk import DPSGD, metrics

NOISE = (0.001, 0.01, 0.05, 0.07, 0.1, 1.0, 10.0, 100.0, 1000.0)
#: noise at which the joint entropy of Gaussian data of variance one is zero
POLE = 1 / (2 * math.pi * math.e)

PARAMETERS = {
    "samples": Parameter("int", 200000, 2000000, STATED, "values of the record", low=10000),
    "noise_stds": Parameter("floats", NOISE, NOISE, STATED, "C sigma over the data's std", 1e-12),
    "bins": Parameter("int", 100, 100, "not printed", "histogram bins per side", low=2),
}
SETTLES = ("B-043", "E-B-08")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    record = study.rng("record").normal(size=p.samples)
    norm = float(np.linalg.norm(record))
    rows = []
    for noise in p.noise_stds:
        run = DPSGD(noise / norm, max_grad_norm=norm)  # C = ||X||, so beta = 1
        rebuilt = released(study, record, run, 1, key=("nmi", noise))[0]
        rows.append(
            {
                "noise": noise,
                "NMI of densities": _nmi_of_gaussians(1.0, noise),
                **_entropies(record, rebuilt, noise),
                "NMI of histograms": metrics.nmi(record, rebuilt, p.bins),
            }
        )

    fresh = study.rng("independent").normal(size=p.samples)
    few = p.samples // 10
    independent = {
        "NMI": metrics.nmi(record, fresh, p.bins),
        "NMI of a tenth": metrics.nmi(record[:few], fresh[:few], p.bins),
        "plug-in bias": _plug_in_bias(record, fresh, p.bins),
    }
    curve = np.logspace(-3, 3, 241)
    densities = {"noise": curve, "NMI": [_nmi_of_gaussians(1.0, s) for s in curve]}
    return Tables(
        {
            "nmi": pd.DataFrame(rows),
            "independent": pd.DataFrame([independent]),
            "densities": pd.DataFrame(densities),
        },
        exact=["densities"],
        ran=f"A record of {p.samples} normal values, one DP-SGD step for each of "
        f"{len(p.noise_stds)} noise levels.",
    )


def _entropies(record: np.ndarray, rebuilt: np.ndarray, noise: float) -> dict[str, float]:
    """Deviation of mean log densities from the chain rule and from the closed-form entropies."""
    joint = stats.multivariate_normal([0, 0], [[1.0, 1.0], [1.0, 1 + noise**2]])
    marginal = stats.norm(0, math.sqrt(1 + noise**2))
    posterior = stats.norm(rebuilt / (1 + noise**2), noise / math.sqrt(1 + noise**2))
    measured = {
        "X": mean_and_error(-stats.norm().logpdf(record)),
        "X_hat": mean_and_error(-marginal.logpdf(rebuilt)),
        "both": mean_and_error(-joint.logpdf(np.stack([record, rebuilt], axis=1))),
    }
    closed = {"X": stats.norm().entropy(), "X_hat": marginal.entropy(), "both": joint.entropy()}
    chains = (
        measured["X"][0] - stats.norm(0, noise).logpdf(rebuilt - record).mean(),
        measured["X_hat"][0] - posterior.logpdf(record).mean(),
    )
    off = [abs(mean - closed[k]) / error for k, (mean, error) in measured.items()]
    chain_off = max(abs(chain - measured["both"][0]) for chain in chains)
    return {"chain rule off": chain_off, "entropies off": max(off)}


def _nmi_of_gaussians(data_std: float, noise_std: float) -> float:
    """Eq. (81) for X ~ N(0, data_std^2) and X_hat = X + N(0, noise_std^2)."""
    one = math.log(2 * math.pi * math.e)
    variances = (data_std**2, data_std**2 + noise_std**2)
    marginals = sum(0.5 * (one + math.log(v)) for v in variances)
    # the joint determinant in closed form: at small noise the matrix is singular numerically
    return marginals / (one + math.log(data_std) + math.log(noise_std))


def _plug_in_bias(first: np.ndarray, second: np.ndarray, bins: int) -> float:
    """Expected excess of the plug-in NMI of independent values: occupied cells over 2 N nats."""
    counts, _, _ = np.histogram2d(first, second, bins)
    rows, columns = np.count_nonzero(counts.sum(1)), np.count_nonzero(counts.sum(0))
    share = counts[counts > 0] / counts.sum()
    return (rows - 1) * (columns - 1) / (2 * len(first)) / float(-(share * np.log(share)).sum())


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["nmi"]
    off = table["entropies off"].max()
    yield check(
        "ziller2024/propC1",
        table["chain rule off"].max() < 1e-9 and off < 5,
        "joint entropy is marginal plus conditional entropy, conditioned on either variable",
        ours=f"largest difference below 1e-9; entropies within {off:.1f} standard errors of their "
        "closed forms",
        tolerance="5 standard errors",
    )
    histograms = table["NMI of histograms"]
    noisiest = histograms.iloc[-1] - 1
    independent, few, bias = tables["independent"].iloc[0] - [1, 1, 0]
    yield check(
        "B-043",
        independent < 1.5 * bias
        and abs(noisiest - independent) < 0.5 * bias
        and few > 3 * independent
        and (histograms.diff().iloc[1:] < 5e-4).all(),
        "the NMI of histograms tends to one as the noise grows, up to its plug-in bias "
        "(bins - 1)^2 / (2 N) nats over the joint entropy",
        ours=f"NMI - 1 = {noisiest:.4f} at the largest noise, {independent:.4f} for independent "
        f"values, {few:.4f} with a tenth of them",
        paper=f"1 (bias {bias:.4f})",
    )
    left, right = (_nmi_of_gaussians(1.0, POLE * f) for f in (1 - 1e-3, 1 + 1e-3))
    one, ten = (_nmi_of_gaussians(scale, scale) for scale in (1.0, 10.0))
    yield refute(
        "E-B-08",
        holds=table["NMI of densities"].between(1, 2).all() or abs(ten - one) < 1e-9,
        corrected_holds=left * right < 0
        and min(abs(left), abs(right)) > 100
        and abs(_nmi_of_gaussians(1.0, 1e-30)) < 0.05
        and abs(ten - one) > 0.01,
        ours=f"NMI {left:.0f} and {right:.0f} on the two sides of C sigma = {POLE:.4f}; {one:.3f} "
        f"against {ten:.3f} after rescaling by 10",
        paper="within [1, 2]",
    )


CAPTION = (
    "The normalised mutual information of a normal record and its reconstruction. With "
    "differential entropies (Definition C.2) it has a pole and leaves [1, 2]; with entropies of "
    "histograms (Definition C.1) it falls from two to one."
)


def alt(tables: Tables) -> str:
    histograms = tables["nmi"]["NMI of histograms"]
    return (
        "NMI against the noise over the data's standard deviation. The curve of differential "
        f"entropies is negative for little noise, falls to minus infinity at {POLE:.3f}, comes "
        "back from plus infinity and settles at one; the histogram points fall smoothly from "
        f"{histograms.iloc[0]:.1f} to {histograms.iloc[-1]:.1f}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    curve, points = tables["densities"], tables["nmi"]
    figure, [[axis]] = panels(1, 1, width=5.6, height=3.3)
    sides = {"differential entropies": curve["noise"] < POLE, None: curve["noise"] > POLE}
    for label, side in sides.items():
        axis.plot(curve["noise"][side], curve["NMI"][side], color=BLUE, label=label)
    style = {"color": ORANGE, "markersize": 5, "label": "histograms, measured"}
    axis.plot(points["noise"], points["NMI of histograms"], "o", **style)
    axis.axvline(POLE, color=GREY, linestyle=":", label=r"pole, $1/(2\pi e)$")
    axis.axhspan(1, 2, color=GREEN, alpha=0.12, linewidth=0, label="range of a similarity, [1, 2]")
    axis.set(xscale="log", ylim=(-4, 6), ylabel="NMI")
    axis.set_xlabel(r"$C\sigma$ over the data's standard deviation")
    axis.legend()
    return figure
