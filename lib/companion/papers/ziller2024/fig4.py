"""Figure 4: NMI, SSIM and a perceptual distance of the reconstructions of Figure 1."""

import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from companion.exhibit import *
from companion.papers.ziller2024.attacked_photographs import MANY_PICTURES, METRICS, many_pictures
from companion.papers.ziller2024.metric_axes import UNITS, row_title, scatter, sigma_axis

#: largest step back of a monotone metric's mean between two noise levels, over its range
STEP_BACK = 0.02
#: least rank correlation (Kendall's tau) with the NCC over all C and sigma of a metric that follows
#: it; that of the PSNR and the SSIM is below 0.4
ORDER = 0.9
#: relative, of the NMI's excess over one at two values of C, where the NCC is the same
SAME = 0.02
#: largest distance of two curves of one shape, over their range
SHAPE = 0.2
#: the coarse end of the grids of sigma that the figure could have; ours is the fine one
COARSE = (1e-3, 1e-2, 1e-1)
#: SSIM and distance on a scale from 0 (the picture) to 1 (pure noise). Good: an SSIM of 0.95 passes
#: for the picture itself; bad: nine tenths of the way to noise
GOOD, BAD = 0.05, 0.9

PARAMETERS = {
    **MANY_PICTURES,
    "bins": Parameter("int", 100, 100, "not printed", "histogram bins per side (NMI)", low=2),
}
CHOICES = {
    "noise_multipliers": "the paper prints neither its values of sigma nor its axis: from those of "
    "this run to one a decade from 1e-3 to 0.1"
}
SETTLES = ("_nmi", "_ssim", "_perceptual", "B-031", "B-035", "B-036")
PHOTOGRAPHS = True
ALTERED = {
    "metrics": {
        "NMI": (
            at("sigma == sigma.max()", "NMIs at the largest sigma"),
            at("row == 'max' and sigma == 0.01", "NMIs near the norms at sigma = 0.01"),
        ),
        "SSIM": (
            at("row == 'max'", "SSIMs near the norms"),
            at("row == '0.01 min'", "SSIMs at the smallest C"),
        ),
        "perceptual": (
            at("row == 'max'", "perceptual distances near the norms"),
            at("row == '0.01 min'", "perceptual distances at the smallest C"),
        ),
        ST_LPIPS: (
            at("row == 'max'", f"{ST_LPIPS} near the norms"),
            at("row == '0.01 min'", f"{ST_LPIPS} at the smallest C"),
        ),
    },
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    distance = perceptual(study.device, study.read_root)
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
    others = tuple(name for name in tables.stand_ins if name != network)
    pictures = Origin(others, tuple(tables.subsets))
    rows = table["row"].unique()
    dark, near = rows[0], rows[2]
    # the prior that the paper speaks of is in a trained network
    is_replaced = network in tables.stand_ins and ST_LPIPS in table
    judged = ST_LPIPS if is_replaced else "perceptual"
    names = {"perceptual": network, ST_LPIPS: ST_LPIPS}
    origins = {"perceptual": tables.stand_in, ST_LPIPS: pictures}
    columns = [*_distances(table), "NMI", "SSIM", "expected NCC", "expected PSNR"]
    means = table.groupby(["row", "sigma"])[columns].mean()
    back = {row: _steps_back(means.loc[row]) for row in rows}
    worst = max(steps["NMI"] for steps in back.values())
    limit = means.xs(table["sigma"].max(), level="sigma")["NMI"].max() - 1
    bias = _plug_in_bias(tables.parameters.bins, table["N"].iloc[0])
    order = _order(means, "NMI", 1 + 2 * bias)
    all_clipped = means.loc[list(rows[:2])]["NMI"].unstack("row") - 1
    clear = all_clipped[all_clipped.min(axis=1) > 2 * bias]
    changed = float((clear[rows[0]] / clear[rows[1]] - 1).abs().max())
    nmi = (
        worst < STEP_BACK
        and 0 <= limit < 1.5 * bias
        and order["expected NCC"] > ORDER
        and changed < SAME
    )
    falling = check(
        "ziller2024/fig4_nmi",
        nmi,
        "over all C and sigma the NMI orders the settings as the NCC does, it falls to one, and "
        "while everything is clipped C does not change it",
        ours=f"rank correlation {order['expected NCC']:.2f} with the NCC, "
        f"{order['expected PSNR']:.2f} with the PSNR; C changes NMI - 1 by at most {changed:.1%} "
        f"while everything is clipped; it steps back at most {100 * worst:.1f}% of "
        f"its range; NMI - 1 at the largest sigma {limit:.4f}, plug-in bias {bias:.4f}",
        tolerance=f"Kendall's tau over {ORDER:g}; {SAME:.0%}",
        stand_in=pictures,
    )
    yield from shared_by(falling, "B-035")
    yield _shape(means.loc[near])
    bad = {"SSIM": 1 - means["SSIM"]}
    bad |= {name: means[name] / means.loc[near][name].iloc[-1] for name in _distances(table)}
    follows = {
        name: _bad_but_near(bad[name], rows) and back[near][name] < STEP_BACK for name in bad
    }
    both = follows["SSIM"] and follows[judged]
    cleanest = means.xs(table["sigma"].min(), level="sigma")
    at_least_noise = {
        metric: f"at the least noise {cleanest[metric][dark]:.2f} at the smallest C against "
        f"{cleanest[metric][near]:.2f} at C = {near} ||X||"
        for metric in bad
    }
    tolerance = f"below {GOOD:g} and above {BAD:g} of the way from the picture to noise"
    where = "for the smallest and the largest C and follows sigma where C is near the norms"
    yield check(
        "ziller2024/fig4_ssim",
        follows["SSIM"],
        f"the SSIM is low {where}",
        ours=at_least_noise["SSIM"],
        tolerance=tolerance,
        stand_in=pictures,
    )
    for name in _distances(table):
        yield check(
            "ziller2024/fig4_perceptual",
            follows[name],
            f"the perceptual distance is high {where}",
            ours=f"{names[name]}; {at_least_noise[name]}",
            tolerance=tolerance,
            stand_in=origins[name],
        )
    settle = functools.partial(check, stand_in=origins[judged])
    steps = {k: f"{names.get(k, k)} {100 * back[near][k]:.1f}%" for k in ("NMI", "SSIM", judged)}
    yield settle(
        "B-036",
        both,
        "SSIM and perceptual distance are bad for the smallest and the largest C; where C is near "
        "the norms they are good at the least noise and worsen with every step of sigma",
        ours=f"steps back at C = {near} ||X||, as a share of the range: {steps['SSIM']}, "
        f"{steps[judged]}",
        tolerance=f"{tolerance}; {100 * STEP_BACK:g}% back",
    )
    alike = settle(
        "ziller2024/fig4",
        nmi and both,
        "where C is near the norms, NMI, SSIM and perceptual distance order noise levels as the "
        "NCC does; far below and far above, SSIM and distance are bad; over all C the NMI orders "
        "the settings as the NCC does",
        ours=f"steps back at C = {near} ||X||, as a share of the range: "
        + ", ".join(steps.values()),
        tolerance=f"{100 * STEP_BACK:g}%",
    )
    yield from shared_by(alike, "B-031")


def _distances(table: pd.DataFrame) -> list[str]:
    """The perceptual distances that a table has."""
    return [name for name in ("perceptual", ST_LPIPS) if name in table]


def _order(means: pd.DataFrame, metric: str, floor: float) -> dict[str, float]:
    """Rank correlations of a metric with NCC and PSNR over the settings in which it is above."""
    above = means[means[metric] > floor]
    return {
        other: float(stats.kendalltau(above[metric], above[other]).statistic)
        for other in ("expected NCC", "expected PSNR")
    }


def _shape(means: pd.DataFrame) -> Verdict:
    """B-035: whether the NMI's curve over sigma, scaled to its range, is like the NCC's."""
    coarse = means[means.index.isin(COARSE)]
    apart = [_apart(grid) for grid in (means, coarse) if len(grid) > 2]
    same = alike(*(a["NCC"] < min(SHAPE, a["PSNR"]) for a in apart))
    return check(
        "B-035",
        same,
        "scaled to its range, the NMI falls over sigma as the NCC does",
        ours=f"curves up to {apart[0]['NCC']:.2f} of the range apart, from the PSNR's "
        f"{apart[0]['PSNR']:.2f}",
        tolerance=f"{SHAPE:g} of the range, and nearer than the PSNR",
        differs="" if same else "whatever the grid of sigma, the curves part",
        decided_by="the paper's grid of noise multipliers, which it does not print: on all of ours "
        f"the curves are up to {apart[0]['NCC']:.2f} of the range apart, at 1e-3, 1e-2 and 1e-1 "
        f"alone {apart[-1]['NCC']:.2f}",
    )


def _apart(means: pd.DataFrame) -> dict[str, float]:
    """How far the NMI's curve, scaled to its range, is from the scaled NCC's and PSNR's."""
    share = (means - means.iloc[-1]) / (means.iloc[0] - means.iloc[-1])
    return {
        name: float((share["NMI"] - share[f"expected {name}"]).abs().max())
        for name in ("NCC", "PSNR")
    }


def _steps_back(means: pd.DataFrame) -> dict[str, float]:
    """Each metric's largest improvement with growing noise, over its range.

    Zero for a metric that is monotone in sigma, as the expected NCC is. It need not be zero: at
    its floor a metric still varies with the noise of its estimate.
    """
    worse = {"NMI": -1, "SSIM": -1, **dict.fromkeys(_distances(means), 1)}
    values = means.sort_index()[list(worse)].to_numpy() * list(worse.values())
    back = np.maximum(-np.diff(values, axis=0), 0).max(axis=0)
    with np.errstate(invalid="ignore"):  # a metric that does not change has no range
        back = back / np.ptp(values, axis=0)
    return dict(zip(worse, back.tolist(), strict=True))


def _bad_but_near(bad: pd.Series, rows: Sequence[str]) -> bool:
    """Whether a metric is bad at the smallest and the largest C where it is good near the norms.

    At the smallest C without noise; at the largest where it is half-way near the norms.
    """
    dark, near, noisy = (bad.loc[row] for row in (rows[0], rows[2], rows[-1]))
    half = (near - 0.5).abs().idxmin()
    return bool(dark.iloc[0] > BAD and near.iloc[0] < GOOD and noisy[half] > BAD)


def _plug_in_bias(bins: int, dimension: int) -> float:
    """Largest bias of the estimated NMI of independent values.

    The mutual information of two binned samples is overestimated by (bins - 1)^2 / (2 N) nats; the
    joint entropy, the divisor, is at least log(bins) where the values fill their bins.
    """
    return (bins - 1) ** 2 / (2 * dimension) / math.log(bins)


CAPTION = (
    "The same reconstructions judged by three measures without a bound: normalised mutual "
    "information, structural similarity and a perceptual distance (lower is better). The NMI "
    "orders the settings as the NCC does but falls at smaller noise. The other two are poor for "
    "the smallest C, where the pictures are almost black, and for the largest, where more noise "
    "than needed is added. Where the pretrained network of LPIPS is not available, a distance of "
    "untrained features stands in for it, and the axis says so."
)


def alt(tables: Tables) -> str:
    table = tables["metrics"]
    quiet = table[table["sigma"] == table["sigma"].min()]
    means = quiet.groupby("row", sort=False)[["SSIM", "perceptual"]].mean()
    ssim, distance = ([f"{v:.1f}" for v in means[k]] for k in means)
    near = table[table["row"] == means.index[2]].groupby("sigma")
    trained = [f"{v:.1f}" for v in near[ST_LPIPS].mean()] if ST_LPIPS in table else []
    return (
        f"Grid of {len(means)} rows and three columns over the noise multiplier. NMI falls towards "
        f"one in every row, earlier in the lowest. SSIM stays near {ssim[0]} in the top row, falls "
        f"from {ssim[1]} in the second and from {ssim[2]} in the third, and earlier in the lowest. "
        f"The perceptual distance starts at {distance[0]} and {distance[1]} in the two upper rows "
        f"and grows from {distance[2]} and {distance[3]} in the two lower ones."
        + (f" {ST_LPIPS} grows from {trained[0]} to {trained[-1]} in the third." if trained else "")
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
            if metric == "perceptual" and ST_LPIPS in table:
                trained = points.groupby("sigma")[ST_LPIPS].mean()
                axis.plot(trained.index, trained, color=GREEN, linewidth=1.3)
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
    if ST_LPIPS in table:
        handles.append(legend_line(f"of {ST_LPIPS}", GREEN))
    legend_above(figure, handles, len(handles))
    return figure
