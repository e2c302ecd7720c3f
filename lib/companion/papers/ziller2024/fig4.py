"""Figure 4: NMI, SSIM and a perceptual distance of the reconstructions of Figure 1."""

import functools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.experiments.tools import perceptual
from companion.papers.ziller2024.attacked_photographs import MANY_PICTURES, METRICS, many_pictures
from companion.papers.ziller2024.metric_axes import UNITS, row_title, scatter, sigma_axis
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.style import BLUE, GREY, drawing, legend_above, legend_line, panels

#: largest step back of a monotone metric's mean between two noise levels, over its range
STEP_BACK = 0.02

PARAMETERS = {
    **MANY_PICTURES,
    "bins": Parameter("int", 100, 100, "not printed", "histogram bins per side (NMI)", low=2),
}
SETTLES = ("_nmi", "_ssim", "_perceptual", "B-031", "B-035", "B-036")
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    distance = perceptual(study.device)
    table = many_pictures(study, "structure", bins=p.bins).assign(distance=distance.name)
    return Tables(
        {"metrics": table},
        stand_ins=(distance.name,) if distance.stand_in else (),
        ran=f"{p.pictures} photographs of {p.size}x{p.size}x3 values, the reconstructions of "
        f"Figure 1; perceptual distance: {distance.name}"
        + (" (stand-in for LPIPS, whose backbone is not here)." if distance.stand_in else "."),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["metrics"]
    network = table["distance"].iloc[0]
    other_photographs = any(name != network for name in tables.stand_ins)
    rows = table["row"].unique()
    dark, near, noisy = rows[0], rows[2], rows[-1]
    means = table.groupby(["row", "sigma"])[list(METRICS["structure"])].mean()
    back = {row: _steps_back(means.loc[row]) for row in rows}
    cleanest = means.xs(table["sigma"].min(), level="sigma")
    middle_near, middle_noisy = (_at(means.loc[row], 1e-3) for row in (near, noisy))

    worst = max(steps["NMI"] for steps in back.values())
    limit = means.xs(table["sigma"].max(), level="sigma")["NMI"].max() - 1
    bias = _plug_in_bias(tables.parameters.bins, table["N"].iloc[0])
    nmi = worst < STEP_BACK and 0 <= limit < 1.5 * bias
    falling = check(
        "ziller2024/fig4_nmi",
        nmi,
        "the NMI falls to one like the NCC",
        ours=f"it falls at every C, steps back at most {100 * worst:.1f}% of its range; NMI - 1 at "
        f"the largest sigma {limit:.4f}, plug-in bias {bias:.4f}",
        stand_in=other_photographs,
    )
    yield from shared_by(falling, "B-035")
    ssim = (
        cleanest["SSIM"][dark] < 0.5 * cleanest["SSIM"][near]
        and middle_noisy["SSIM"] < 0.5 * middle_near["SSIM"]
        and back[near]["SSIM"] < STEP_BACK
    )
    distance = (
        cleanest["perceptual"][dark] > 2 * cleanest["perceptual"][near]
        and middle_noisy["perceptual"] > 1.2 * middle_near["perceptual"]
        and back[near]["perceptual"] < STEP_BACK
    )
    at_least_noise = {
        metric: f"at the least noise {cleanest[metric][dark]:.2f} at the smallest C against "
        f"{cleanest[metric][near]:.2f} at C = {near} ||X||"
        for metric in ("SSIM", "perceptual")
    }
    follows = "for the smallest and the largest C and follows sigma where C is near the norms"
    yield check(
        "ziller2024/fig4_ssim",
        ssim,
        f"the SSIM is low {follows}",
        ours=at_least_noise["SSIM"],
        stand_in=other_photographs,
    )
    settle = functools.partial(check, stand_in=tables.stand_in)
    yield settle(
        "ziller2024/fig4_perceptual",
        distance,
        f"the perceptual distance is high {follows}",
        ours=f"{network}; {at_least_noise['perceptual']}",
    )
    order = settle(
        "ziller2024/fig4",
        nmi and ssim and distance,
        "where C is near the norms, NMI, SSIM and perceptual distance order noise levels as the "
        "NCC does; far below and far above, SSIM and distance are bad",
        ours=f"steps back at C = {near} ||X||, as a share of the range: "
        + ", ".join(f"{k} {100 * v:.1f}%" for k, v in back[near].items())
        + f"; perceptual distance: {network}",
        tolerance=f"{100 * STEP_BACK:g}%",
    )
    yield from shared_by(order, "B-031", "B-036")


def _steps_back(means: pd.DataFrame) -> dict[str, float]:
    """Each metric's largest improvement with growing noise, over its range.

    Zero for a metric that is monotone in sigma, as the expected NCC is. It need not be zero: at
    its floor a metric still varies with the noise of its estimate.
    """
    steps = means.sort_index().diff().iloc[1:] * pd.Series({"NMI": 1, "SSIM": 1, "perceptual": -1})
    share = steps.max().clip(lower=0) / (means.max() - means.min())
    return {m: float(share[m]) for m in METRICS["structure"]}


def _at(means: pd.DataFrame, sigma: float) -> pd.Series:
    """The means of one row at the noise level nearest to ``sigma``."""
    return means.iloc[np.argmin(np.abs(np.log(means.index.to_numpy() / sigma)))]


def _plug_in_bias(bins: int, dimension: int) -> float:
    """Largest bias of the estimated NMI of independent values.

    The mutual information of two binned samples is overestimated by (bins - 1)^2 / (2 N) nats; the
    joint entropy, the divisor, is at least log(bins) where the values fill their bins.
    """
    return (bins - 1) ** 2 / (2 * dimension) / math.log(bins)


CAPTION = (
    "The same reconstructions judged by three measures without a bound: normalised mutual "
    "information, structural similarity and a perceptual distance (lower is better). The NMI falls "
    "to one like the NCC. The other two are poor for the smallest C, where the pictures are almost "
    "black, and for the largest, where more noise than needed is added. Where the pretrained "
    "network of LPIPS is not available, a distance of untrained features stands in for it, and the "
    "axis says so."
)


def alt(tables: Tables) -> str:
    table = tables["metrics"]
    quiet = table[table["sigma"] == table["sigma"].min()]
    means = quiet.groupby("row", sort=False)[["SSIM", "perceptual"]].mean()
    ssim, distance = ([f"{v:.1f}" for v in means[k]] for k in means)
    return (
        f"Grid of {len(means)} rows and three columns over the noise multiplier. NMI falls towards "
        f"one in every row, earlier in the lowest. SSIM stays near {ssim[0]} in the top row, falls "
        f"from {ssim[1]} in the second and from {ssim[2]} in the third, and earlier in the lowest. "
        f"The perceptual distance starts at {distance[0]} and {distance[1]} in the two upper rows "
        f"and grows from {distance[2]} and {distance[3]} in the two lower ones."
    )


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["metrics"]
    rows = table["row"].unique()
    figure, axes = panels(len(rows), 3, width=3.05, height=2.0)
    for line, row in zip(axes, rows, strict=True):
        points = table[table["row"] == row]
        means = points.groupby("sigma")[list(METRICS["structure"])].mean()
        for axis, metric in zip(line, means, strict=True):
            scatter(axis, points, metric)
            axis.plot(means.index, means[metric], color=BLUE, linewidth=1.3)
            low, top = float(metric == "NMI"), table[metric].max()
            axis.set_ylim(low - 0.06 * (top - low), top + 0.06 * (top - low))
            axis.set_ylabel(UNITS[metric])
            sigma_axis(axis, row == rows[-1])
        line[0].set_title(row_title(row, points["C"].iloc[0]), loc="left")
    network = table["distance"].iloc[0]
    named = network if network.startswith("LPIPS") else f"{network} (stand-in)"
    axes[0][2].set_title(named, loc="right", color=GREY, fontsize=9)
    handles = [
        legend_line("reconstructions, one dot each", BLUE, "", "o"),
        legend_line("mean over pictures", BLUE),
    ]
    legend_above(figure, handles, 2)
    return figure
