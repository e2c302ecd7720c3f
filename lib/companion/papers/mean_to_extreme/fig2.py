"""Figure 2: reconstructions of synthetic records and their theory, for three clipping norms."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from scipy import stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.labels import LABELS
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import known_scale, observe

METRICS = ("mse", "psnr", "ncc")
MEAN = "mean MSE over theory"
SIGMAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)

PARAMETERS = {
    "samples": Parameter("int", 100, 100, "100", "records from U(0, 1)^N", 10),
    "dimension": Parameter("int", 4, 4, "4", "N", 3),
    "rows": Parameter("int", 100, 100, "100", "M", 1),
    "noise_multipliers": Parameter("floats", SIGMAS, SIGMAS, "not printed", "sigma", 1e-12),
    "repeats": Parameter("int", 20, 100, STATED, "more steps per record and sigma, not drawn", 2),
    "headroom": Parameter(
        "float", 2.0, 2.0, "larger than any data norm", "row 3: C over sqrt(M) max ||X||", 1.0
    ),
}
CHOICES = {
    "range of the PSNR": "1, that of the data; Definition 4 has each target's own, which moves a "
    "PSNR and its law alike, so that the PSNR's panels test what the MSE's do"
}
SETTLES = (
    *(f"_row{row}_{metric}" for row in (1, 2, 3) for metric in METRICS),
    *("A-031", "A-032", "A-033", "A-034"),
)
ALTERED = {
    "more steps": {
        MEAN: "mean MSEs",
        "distance mse": "distances of the MSEs from their law",
        "distance psnr": "distances of the PSNRs from their law",
        "mean NCC": "mean NCCs",
    },
    "samples": {"mse": "MSEs", "psnr": "PSNRs [dB]", "ncc": "NCCs"},
}

# What a printed box of 100 reconstructions could show: a reader of the paper's figure sees no less.
#: of a distribution function: 100 values of a law lie 0.136 from it in one case of twenty
LAW_MARGIN = 0.12
#: of the mean MSE, relative: three standard errors of 100 values of four coordinates, 7.1% each
MEAN_MARGIN = 0.2
#: of the mean NCC: two standard errors, at most 0.058 each
NCC_MARGIN = 0.1
# The same for the steps that are not drawn, twenty times as many: about two of the errors that
# `within` allows for, of 18,000 values
STEPS_LAW_MARGIN = 0.03
STEPS_MEAN_MARGIN = 0.04
STEPS_NCC_MARGIN = 0.03


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    records = study.rng("records").random((p.samples, p.dimension))
    norms = np.linalg.norm(records, axis=1)
    clipping = {
        1: norms.min(),
        2: math.sqrt(p.rows) * norms.min(),
        3: p.headroom * math.sqrt(p.rows) * norms.max(),
    }
    samples = [
        _samples(study, records, row, max_grad_norm, p.rows)
        for row, max_grad_norm in clipping.items()
    ]
    curve = np.geomspace(min(p.noise_multipliers), max(p.noise_multipliers), 60)
    expected = {
        "sigma": curve,
        "mse": bounds.expected_mse(curve, norms.min()),
        "psnr": bounds.expected_psnr(p.dimension, curve, norms.min(), 1.0),
        "ncc bound": bounds.ncc_bound_paper(p.dimension, curve),
        "ncc exact, data-free": bounds.expected_ncc(p.dimension, curve),
    }
    return Tables(
        {
            "samples": pd.concat(samples, ignore_index=True),
            # the first row once more, with M = 1
            "one row": _samples(study, records, 1, norms.min(), 1),
            "more steps": pd.DataFrame(
                [
                    _more_steps(study, records, row, max_grad_norm, rows)
                    for row, max_grad_norm in clipping.items()
                    for rows in ((1, p.rows) if row == 1 else (p.rows,))
                ]
            ),
            "expected": pd.DataFrame(expected),
        },
        ran=f"{p.samples} records from U(0, 1)^{p.dimension}, one DP-SGD step each through "
        f"{p.rows} rows, for {len(p.noise_multipliers)} values of sigma and three of C.",
    )


def _more_steps(
    study: Context, records: np.ndarray, row: int, max_grad_norm: float, rows: int
) -> dict[str, float]:
    """How near ``repeats`` times as many steps come to the theory for this row and M."""
    p = study.parameters
    many = np.tile(records, (p.repeats, 1))
    own = _samples(study, many, row, max_grad_norm, rows, "more")
    # with clipping or without
    inflation = np.maximum(1.0, own["C"] ** 2 / (rows * own["norm"] ** 2))
    as_clipped = own.assign(mse=own["mse"] / inflation, psnr=own["psnr"] + 10 * np.log10(inflation))
    count = len(own)
    difference = own["ncc"] - own["expected ncc"]
    return {
        **{"row": row, "rows M": rows, "steps": count},
        "distance mse": _distance(as_clipped, "mse", p.dimension)[0],
        "distance psnr": _distance(as_clipped, "psnr", p.dimension)[0],
        "standard error of the distance": 0.5 / math.sqrt(count),
        MEAN: _law_of(as_clipped, "mse", p.dimension).mean() / p.dimension,
        "standard error": math.sqrt(2 / (p.dimension * count)),
        "mean NCC": own["ncc"].mean(),
        "expected NCC": own["expected ncc"].mean(),
        "standard error of the NCC": difference.std(ddof=1) / math.sqrt(count),
    }


def _samples(
    study: Context, records: np.ndarray, row: int, max_grad_norm: float, rows: int, kind: str = ""
) -> pd.DataFrame:
    """One DP-SGD step on every record for each sigma, with the three metrics."""
    p = study.parameters
    norms = np.linalg.norm(records, axis=1)
    contrast = np.linalg.norm(records - records.mean(axis=1, keepdims=True), axis=1) / norms
    # noise has std sigma max(||X||, C / sqrt(M)): an effective sigma relative to ||X||
    inflation = np.maximum(1.0, max_grad_norm / (math.sqrt(rows) * norms))
    inputs, samples = tensor(study, records), []
    for sigma in p.noise_multipliers:
        key: tuple[float | str, ...] = (row, sigma) if rows == p.rows else (row, sigma, rows)
        if kind:
            key = (*key, kind)
        run = DPSGD(sigma, max_grad_norm=max_grad_norm)
        update = observe(inputs, run, study.generator(*key), rows=rows)
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
    return pd.concat(samples, ignore_index=True)


def judge(tables: Tables) -> Iterator[Verdict]:
    p, samples = tables.parameters, tables["samples"]
    one_row = tables["one row"]
    rows = {int(row): own for row, own in samples.groupby("row")}
    more = tables["more steps"].set_index(["row", "rows M"])
    distance = {row: f"{_distance(own, 'mse', p.dimension)[0]:.3f}" for row, own in rows.items()}
    law = {
        (row, metric): every(
            _follows(own, metric, p.dimension),
            *([_law_holds(more.loc[(row, p.rows)], metric)] if row < 3 else []),
        )
        for row, own in rows.items()
        for metric in ("mse", "psnr")
    }
    correlation = {
        row: every(_at_expectation(own), _ncc_holds(more.loc[(row, p.rows)]))
        for row, own in rows.items()
    }
    means = samples.groupby(["row", "sigma"])[list(METRICS)].mean()
    clipped, free = means.loc[1], means.loc[3]
    worse = {
        "mse": bool((free["mse"] > clipped["mse"]).all()),
        "psnr": bool((free["psnr"] < clipped["psnr"]).all()),
        "ncc": bool(free["ncc"].mean() < clipped["ncc"].mean()),
    }
    shares = [own["clipped"].mean() for own in rows.values()]
    ratio, inflation, error = _excess(rows[3], p.dimension, p.rows)
    inflated = every(
        within(ratio / inflation, 1, error, MEAN_MARGIN),
        _law_holds(more.loc[(3, p.rows)], "mse"),
    )
    tolerance = (
        f"{LAW_MARGIN:g} of probability and {MEAN_MARGIN:.0%} of the mean MSE; of "
        f"{p.repeats} times as many steps {STEPS_LAW_MARGIN:g} and {STEPS_MEAN_MARGIN:.0%}; errors "
        "included"
    )
    overlap = check(
        "mean_to_extreme/fig2",
        every(
            *(law[row, metric] for row in (1, 2) for metric in ("mse", "psnr")),
            law[3, "mse"] is False and law[3, "psnr"] is False,
            all(worse.values()),
            bool(min(shares[:2]) > 0.98 and shares[2] == 0),
        ),
        "boxes overlap the theory in the rows whose gradients are clipped, and only there",
        ours=f"share clipped {', '.join(f'{share:.0%}' for share in shares)}; "
        f"distance from the law {', '.join(distance.values())}",
        tolerance=tolerance,
    )
    yield from shared_by(overlap, "A-034")
    for row in (1, 2):
        for metric in ("mse", "psnr"):
            yield check(
                f"mean_to_extreme/fig2_row{row}_{metric}",
                law[row, metric],
                f"the simulated {metric.upper()} follows its theoretical law",
                ours=f"distance from the law {distance[row]}",
                tolerance=tolerance,
            )
    alone = more.loc[(1, 1)]
    also = (
        *(_follows(one_row, "mse", p.dimension), _law_holds(alone, "mse")),
        *(_at_expectation(one_row), _ncc_holds(alone)),
    )
    yield check(
        "A-031",
        every(law[1, "mse"], law[1, "psnr"], correlation[1], *also),
        "with C at the smallest norm all three metrics follow their theory, with one row as with "
        f"{p.rows}",
        ours=f"distance from the law {distance[1]}, with one row "
        f"{_distance(one_row, 'mse', p.dimension)[0]:.3f}",
        tolerance=tolerance,
    )
    yield check(
        "A-032",
        every(law[2, "mse"], law[2, "psnr"], correlation[2]),
        "with C at sqrt(M) times the smallest norm all three metrics follow their theory",
        ours=f"distance from the law {distance[2]}",
        tolerance=tolerance,
    )
    for metric in ("mse", "psnr"):
        yield check(
            f"mean_to_extreme/fig2_row3_{metric}",
            every(worse[metric], inflated, law[3, metric] is False),
            f"without clipping the {metric.upper()} is worse: the MSE is C^2 / (M ||X||^2) times "
            "the theory",
            ours=f"MSE {ratio:.1f} times the theory",
            paper=f"{inflation:.1f}",
            tolerance=f"{MEAN_MARGIN:.0%}, of more steps {STEPS_MEAN_MARGIN:.0%}, errors included",
        )
    yield check(
        "A-033",
        every(*worse.values(), inflated),
        "without clipping the MSE is C^2 / (M ||X||^2) times the theory; PSNR and NCC are lower",
        ours=f"MSE {ratio:.1f} times the theory; NCC {free['ncc'].mean():.2f} against "
        f"{clipped['ncc'].mean():.2f}",
        paper=f"{inflation:.1f}",
        tolerance=f"{MEAN_MARGIN:.0%}, of more steps {STEPS_MEAN_MARGIN:.0%}, errors included",
    )
    for row, own in rows.items():
        difference = own["ncc"] - own["expected ncc"]
        yield check(
            f"mean_to_extreme/fig2_row{row}_ncc",
            every(correlation[row], worse["ncc"]),
            "the mean NCC is at its exact expectation (above the dashed population bound), and "
            "lower where nothing is clipped",
            ours=f"mean difference {difference.mean():.3f}",
            tolerance=f"{NCC_MARGIN:g}, of more steps {STEPS_NCC_MARGIN:g}, its error included",
        )


def _law_of(own: pd.DataFrame, metric: str, dimension: int) -> np.ndarray:
    """N MSE / (sigma ||X||)^2, chi-squared with N degrees, from the MSE or from the PSNR."""
    mse = own["mse"] if metric == "mse" else 10 ** (-own["psnr"] / 10)
    return (mse * dimension / (own["sigma"] * own["norm"]) ** 2).to_numpy()


def _distance(own: pd.DataFrame, metric: str, dimension: int) -> tuple[float, float]:
    return distance_to_law(_law_of(own, metric, dimension), stats.chi2(dimension).cdf)


def _follows(own: pd.DataFrame, metric: str, dimension: int) -> bool | None:
    """Whether a metric follows its law, in distribution and in the mean of the MSE."""
    distance, error = _distance(own, metric, dimension)
    mean = _law_of(own, metric, dimension).mean() / dimension
    mean_error = math.sqrt(2 / (dimension * len(own)))
    return every(within(distance, 0, error, LAW_MARGIN), within(mean, 1, mean_error, MEAN_MARGIN))


def _law_holds(own: pd.Series, metric: str) -> bool | None:
    """The same of the steps that are not drawn."""
    error = own["standard error of the distance"]
    return every(
        within(own[f"distance {metric}"], 0, error, STEPS_LAW_MARGIN),
        within(own[MEAN], 1, own["standard error"], STEPS_MEAN_MARGIN),
    )


def _ncc_holds(own: pd.Series) -> bool | None:
    """Whether the mean NCC of the steps that are not drawn is at its exact expectation."""
    error = own["standard error of the NCC"]
    return within(own["mean NCC"], own["expected NCC"], error, STEPS_NCC_MARGIN)


def _at_expectation(own: pd.DataFrame) -> bool | None:
    """Whether the mean NCC is at its exact expectation."""
    difference = own["ncc"] - own["expected ncc"]
    error = difference.std(ddof=1) / math.sqrt(len(own))
    return within(difference.mean(), 0, error, NCC_MARGIN)


def _excess(own: pd.DataFrame, dimension: int, rows: int) -> tuple[float, float, float]:
    """Mean MSE over its theory with clipping, its expectation without, and the relative error."""
    # without clipping: noise C sigma / sqrt(M) a coordinate instead of sigma ||X||
    inflation = own["C"] ** 2 / (rows * own["norm"] ** 2)
    error = math.sqrt(2 * (inflation**2).mean() / (dimension * len(own))) / inflation.mean()
    return _law_of(own, "mse", dimension).mean() / dimension, inflation.mean(), error


CAPTION = (
    "Boxplots of 100 four-dimensional reconstructions over the noise multiplier, and the theory. "
    "Rows: C at the smallest norm; C that only a gradient of several rows reaches; C that none "
    "reaches. Grey: exact density of the metric over the data set, white low to black high along "
    "each sigma. Dashed: the expectation at the smallest norm (MSE, PSNR) and the printed bound "
    "(NCC); dotted: the largest possible expectation of the NCC."
)


def alt(tables: Tables) -> str:
    p, free = tables.parameters, tables["samples"].query("row == 3")
    excess, _, _ = _excess(free, p.dimension, p.rows)
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
    errors = bounds.MSELaw.unbiased(dimension, sigmas[:, None], norms[:, None, None])
    figure, axes = panels(3, 3, 2.8, 2.55)
    regimes = (r"$C=\min\|X\|$", r"$C=\sqrt{M}\,\min\|X\|$", r"$C>\sqrt{M}\,\max\|X\|$")
    for row, (line, regime) in enumerate(zip(axes, regimes, strict=True), start=1):
        line[1].set_title(f"row {row}: {regime}")
        own = samples[samples["row"] == row]
        for axis, metric in zip(line, METRICS, strict=True):
            boxes = [own.loc[own["sigma"] == s, metric].to_numpy() for s in sigmas]
            low, high = samples[metric].min(), samples[metric].max()
            if metric == "ncc":
                low, high = -1.05, 1.05
                bound, exact = expected["ncc bound"], expected["ncc exact, data-free"]
                label = r"printed $1/\sqrt{1+N\sigma^2}$"
                axis.plot(expected["sigma"], bound, "--", color=BOUND, label=label)
                axis.plot(expected["sigma"], exact, ":", color=BLUE, label="exact largest E[NCC]")
            elif metric == "mse":
                low, high = max(low / 2, 1e-6), high * 2
                values = np.geomspace(low, high, 120)
                density = errors.pdf(values)
                axis.set_yscale("log")
                _shade(axis, sigmas, values, density * values)  # per unit of log MSE
            else:
                low, high = low - 3, high + 3
                values = np.linspace(low, high, 120)
                density = bounds.PSNRLaw(errors, 1.0).pdf(values)
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
