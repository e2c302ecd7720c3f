"""Proposition C.1: the NMI of densities, an identity with a pole; and the NMI of histograms."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from companion.exhibit import *
from companion.papers.ziller2024.projection_steps import STATED, agree, released, within_margin
from reconrisk import DPSGD, metrics

NOISE = (0.001, 0.01, 0.05, 0.07, 0.1, 1.0, 10.0, 100.0, 1000.0)
#: noise at which the joint entropy of Gaussian data of variance one is zero
POLE = 1 / (2 * math.pi * math.e)

PARAMETERS = {
    "samples": Parameter("int", 200000, 2000000, STATED, "values of the record", low=10000),
    "noise_stds": Parameter("floats", NOISE, NOISE, STATED, "C sigma over the data's std", 1e-12),
    "bins": Parameter("int", 100, 100, "not printed", "histogram bins per side", low=2),
}
#: nats; the record and its reconstruction share 0.35 nats where the noise is as large as the data
MARGIN = 0.02
#: of NMI - 1 of independent values over its expected plug-in bias, which leaves out empty cells
BIAS_FACTOR = 1.5
SETTLES = ("B-043", "E-B-08")
ALTERED = {
    "chain rule": {"joint": "joint entropies [nats]", "sum": "sums of two entropies [nats]"},
    "nmi": {"NMI of histograms": at("noise == noise.max()", "NMIs at the largest noise")},
    "independent": {"NMI": "NMIs of independent values"},
    "around the pole": {"NMI": "ratios of differential entropies"},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    record = study.rng("record").normal(size=p.samples)
    norm = float(np.linalg.norm(record))
    rows, chains = [], []
    for noise in p.noise_stds:
        run = DPSGD(noise / norm, max_grad_norm=norm)  # C = ||X||, so beta = 1
        rebuilt = released(study, record, run, 1, key=("nmi", noise))[0]
        chains += _chain_rule(record, rebuilt, noise)
        rows.append(
            {
                "noise": noise,
                "NMI of densities": _nmi_of_gaussians(1.0, noise),
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
            "chain rule": pd.DataFrame(chains),
            "around the pole": pd.DataFrame(_around_the_pole()),
            "independent": pd.DataFrame([independent]),
            "densities": pd.DataFrame(densities),
        },
        exact=["densities", "around the pole"],
        ran=f"A record of {p.samples} normal values, one DP-SGD step for each of "
        f"{len(p.noise_stds)} noise levels.",
    )


def _chain_rule(
    record: np.ndarray, rebuilt: np.ndarray, noise: float
) -> list[dict[str, float | str]]:
    """Both sides of the chain rule: the joint entropy and, from samples, the sum of two.

    The joint entropy is that of the covariance matrix, the conditional one the mean of minus the
    log-density of the noise, or of the record's posterior.
    """
    unit = 0.5 * math.log(2 * math.pi * math.e)
    # the joint determinant in closed form: at small noise the matrix is singular numerically
    joint = 2 * unit + math.log(noise)
    both = {"X": unit, "X_hat": unit + 0.5 * math.log1p(noise**2)}
    spread = noise / math.sqrt(1 + noise**2)
    posterior = stats.norm(rebuilt / (1 + noise**2), spread)
    given = {
        "X": mean_and_error(-stats.norm(0, noise).logpdf(rebuilt - record)),
        "X_hat": mean_and_error(-posterior.logpdf(record)),
    }
    return [
        {
            "noise": noise,
            "given": name,
            "joint": joint,
            "sum": both[name] + mean,
            "standard error": error,
            "independent": sum(both.values()),
        }
        for name, (mean, error) in given.items()
    ]


def _around_the_pole() -> Iterator[dict[str, float | str]]:
    """Eq. (81) on the two sides of its pole, without noise, and before and after rescaling."""
    places = {
        "left": (1.0, POLE * (1 - 1e-3)),
        "right": (1.0, POLE * (1 + 1e-3)),
        "little noise": (1.0, 1e-30),
        "unit data": (1.0, 1.0),
        "data times ten": (10.0, 10.0),
    }
    for place, stds in places.items():
        yield {"place": place, "NMI": _nmi_of_gaussians(*stds)}


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
    table, chain = tables["nmi"], tables["chain rule"]
    off = (chain["sum"] - chain["joint"]).abs().max()
    apart = (chain["independent"] - chain["joint"]).max()
    yield check(
        "ziller2024/propC1",
        every(agree(chain, "sum", "joint", MARGIN), apart > 10 * MARGIN),
        "joint entropy is marginal plus conditional entropy, conditioned on either variable",
        ours=f"{len(chain)} sums at most {off:.4f} nats off; those of the two marginal entropies "
        f"up to {apart:.1f}",
        tolerance=within_margin(MARGIN, " nats"),
    )
    histograms = table.sort_values("noise")["NMI of histograms"]
    noisiest = histograms.iloc[-1] - 1
    independent, few, bias = tables["independent"].iloc[0] - [1, 1, 0]
    yield check(
        "B-043",
        0 < independent < BIAS_FACTOR * bias
        and abs(noisiest - independent) < 0.5 * bias
        and few > 3 * independent
        and (histograms.diff().iloc[1:] < 5e-4).all(),
        "the NMI of histograms tends to one as the noise grows, up to its plug-in bias "
        "(bins - 1)^2 / (2 N) nats over the joint entropy",
        ours=f"NMI - 1 = {noisiest:.4f} at the largest noise, {independent:.4f} for independent "
        f"values, {few:.4f} with a tenth of them",
        paper=f"1 (bias {bias:.4f})",
    )
    left, right, little, one, ten = tables["around the pole"]["NMI"]
    inside = all(1 <= value <= 2 for value in (left, right, little))
    yield refute(
        "E-B-08",
        holds=inside or abs(ten - one) < 1e-9,
        corrected_holds=left * right < 0
        and min(abs(left), abs(right)) > 100
        and abs(little) < 0.05
        and abs(ten - one) > 0.01,
        ours=f"NMI {left:.0f} and {right:.0f} on the two sides of C sigma = {POLE:.4f}; {one:.3f} "
        f"against {ten:.3f} after rescaling by 10",
        paper="a similarity",
    )


CAPTION = (
    "The normalised mutual information of a normal record and its reconstruction. With "
    "differential entropies (Definition C.2) it has a pole and leaves [1, 2]; with entropies of "
    "histograms (Definition C.1) it falls from two to one."
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
