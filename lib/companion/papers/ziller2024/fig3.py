"""Figure 3: MSE, PSNR and NCC of one picture at three resolutions, over sigma and C."""

from collections.abc import Iterable, Iterator

import pandas as pd
from matplotlib.figure import Figure

from companion.papers.ziller2024.attacked_photographs import (
    CLIP_RATIOS,
    DEVIATIONS,
    METRICS,
    RESOLUTIONS,
    attack_pictures,
    curves,
    described,
    largest_psnr_excess,
    one_picture,
    picture_task,
    sigmas_parameter,
    with_theory,
    worst_deviation,
)
from companion.papers.ziller2024.metric_axes import UNITS, plain, scatter, sigma_axis
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.style import COLOURS, GREY, drawing, legend_above, legend_line, panels

PARAMETERS = {
    **RESOLUTIONS,
    "clip_ratios": Parameter(
        "floats",
        CLIP_RATIOS,
        CLIP_RATIOS,
        "not printed",
        "C of each row, over the picture's norm at the lowest resolution",
        low=1e-9,
    ),
    "noise_multipliers": sigmas_parameter(
        (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        (*(float(f"{m}e{e}") for e in range(-7, 0) for m in (1, 2, 5)), 1.0),
    ),
}
SETTLES = ("_mse", "_psnr", "_ncc", "B-032", "B-033", "B-034")
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    pictures, sizes = one_picture(study)
    lowest = float(sizes["norm"].iloc[0])
    less_mean = pd.concat([described((x - x.mean())[None]) for x in pictures.values()])
    less_mean = less_mean.assign(size=list(pictures), picture=p.picture)
    table = _attacked(study, sizes, [ratio * lowest for ratio in p.clip_ratios])
    centred = _attacked(study, less_mean, [p.clip_ratios[0] * lowest], centred=True)
    return Tables(
        {"metrics": table, "curves": curves(table, ["size"]), "centred": centred},
        exact=["curves"],
        ran=f"One photograph at {', '.join(map(str, pictures))} pixels a side, one DP-SGD step for "
        f"each of {len(p.clip_ratios)} clipping norms and {len(p.noise_multipliers)} noise "
        "multipliers.",
    )


def _attacked(
    study: Context, sizes: pd.DataFrame, clipping: Iterable[float], centred: bool = False
) -> pd.DataFrame:
    """The picture's reconstructions at each size and C, with what theory says of them."""
    p = study.parameters
    tasks = [
        picture_task(
            study,
            picture=p.picture,
            size=int(size),
            row=f"resolution {ratio:g}",
            max_grad_norm=float(c),
            centred=centred,
        )
        for ratio, c in zip(p.clip_ratios, clipping, strict=False)
        for size in sizes["size"]
    ]
    return with_theory(attack_pictures(study, tasks).merge(sizes, on=["picture", "size"]))


def judge(tables: Tables) -> Iterator[Verdict]:
    table, stand_in = tables["metrics"], tables.stand_in
    off = {metric: worst_deviation(table, metric) for metric in ("MSE", "NCC")}
    excess = largest_psnr_excess(table)
    below = (table["expected NCC"] <= table["bound NCC"] * (1 + 2 / table["N"])).all()
    resolutions = ", ".join(str(size) for size in sorted(table["size"].unique()))
    yield check(
        "ziller2024/fig3",
        max(*off.values(), excess) < DEVIATIONS and below,
        "at every resolution and C the metrics are at their expectations",
        ours=f"{len(table)} reconstructions at {resolutions} pixels a side",
        paper="32, 224, 1024 pixels a side",
        stand_in=stand_in,
    )
    for metric, holds, statement, ours in (
        (
            "mse",
            off["MSE"] < DEVIATIONS,
            "the MSE is at its expectation, eq. (4)",
            f"the worst {off['MSE']:.1f} standard deviations off",
        ),
        (
            "psnr",
            off["MSE"] < DEVIATIONS and excess < DEVIATIONS,
            "the PSNR follows the MSE and stays below its bound",
            f"largest excess over the bound: {excess:.1f} standard deviations",
        ),
        (
            "ncc",
            off["NCC"] < DEVIATIONS and below,
            "the NCC is at its exact expectation, below the bound of its own dimension",
            f"the worst {off['NCC']:.1f} standard deviations off",
        ),
    ):
        yield check(
            f"ziller2024/fig3_{metric}",
            holds,
            statement,
            ours=ours,
            tolerance=f"{DEVIATIONS:g} standard deviations of one reconstruction",
            stand_in=stand_in,
        )
    share = _share_of_bias(table)
    everywhere = share[share.notna().all(axis=1)]
    somewhere = share[share.isna().any(axis=1)].fillna(0.0)
    yield check(
        "B-032",
        (everywhere.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)
        and (somewhere.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
        and not everywhere.empty,
        "where C clips, the bias (1 - beta)^2 of the MSE grows with the resolution",
        ours="; ".join(
            f"C = {c:.3g}: " + ", ".join(f"{v:.3f}" for v in shares)
            for c, shares in share.fillna(0.0).iterrows()
        )
        + f" of the mean square, for {resolutions} pixels",
        stand_in=stand_in,
    )
    together, apart = (_apart_at_largest_c(table, name) for name in ("NCC", "bound NCC"))
    yield check(
        "B-033",
        together < 0.1 and apart > 0.5,
        "at the largest C the NCCs of the three resolutions coincide and their bounds do not",
        ours=f"NCCs at most {together:.2f} apart, bounds up to {apart:.2f}",
        stand_in=stand_in,
    )
    smallest, centred = table[table["C"] == table["C"].min()], tables["centred"]
    gap = (smallest["bound NCC"] - smallest["expected NCC"]).max()
    centred_gap = (centred["expected NCC"] / centred["bound NCC"] - 1).abs().max()
    yield check(
        "B-034",
        gap > 0.05
        and worst_deviation(centred, "NCC") < DEVIATIONS
        and centred_gap < 2 / centred["N"].min(),
        "at the smallest C the NCC misses its bound only because the data are not centred",
        ours=f"gap up to {gap:.2f}; less its mean the picture reaches the bound within "
        f"{100 * centred_gap:.2f}%",
        stand_in=stand_in,
    )


def _share_of_bias(table: pd.DataFrame) -> pd.DataFrame:
    """The MSE at the least noise over the mean square, by C and size; NaN where nothing clips."""
    clipped = table[(table["beta"] < 1) & (table["sigma"] == table["sigma"].min())]
    share = clipped["MSE"] / (clipped["norm"] ** 2 / clipped["N"])
    return clipped.assign(share=share).pivot_table(index="C", columns="size", values="share")


def _apart_at_largest_c(table: pd.DataFrame, column: str) -> float:
    """How far the resolutions differ at the largest C, at most over sigma."""
    largest = table[table["C"] == table["C"].max()]
    by_size = largest.pivot_table(index="sigma", columns="size", values=column)
    return float((by_size.max(axis=1) - by_size.min(axis=1)).max())


CAPTION = (
    "One photograph at three resolutions, for four clipping norms (which the paper does not print; "
    "here they lie below, between and above the picture's norms at the three resolutions). Where C "
    "clips, MSE and PSNR carry a bias that grows with the resolution. At the largest C the NCCs "
    "coincide although their bounds do not. Dots: reconstructions; solid: exact expectations; "
    "dashed: bounds."
)


def alt(tables: Tables) -> str:
    table = tables["metrics"]
    together, apart = (_apart_at_largest_c(table, name) for name in ("NCC", "bound NCC"))
    return (
        f"Grid of {table['C'].nunique()} rows and three columns over the noise multiplier, one "
        "colour per resolution. In the top row the MSE plateaus nearly coincide; in the middle "
        "rows they separate, the highest resolution highest; in the bottom row all follow the one "
        "bound. The NCC curves are apart in the top row, each near its own bound, and coincide in "
        f"the bottom row (at most {together:.2f} apart) far below the bounds (up to {apart:.1f} "
        "apart)."
    )


@drawing
def draw(tables: Tables) -> Figure:
    table, theory = tables["metrics"], tables["curves"]
    levels = sorted(table["C"].unique())
    norms = table.groupby("size")["norm"].first()
    colours = dict(zip(norms.index, COLOURS, strict=False))
    figure, axes = panels(len(levels), 3, width=3.05, height=2.05)
    for line, c in zip(axes, levels, strict=True):
        for axis, metric in zip(line, METRICS["pixel"], strict=True):
            for size, colour in colours.items():
                at = theory[(theory["C"] == c) & (theory["size"] == size)]
                dashed = {"color": colour if metric == "NCC" else GREY, "linestyle": "--"}
                axis.plot(at["sigma"], at[f"expected {metric}"], color=colour, linewidth=1.3)
                axis.plot(at["sigma"], at[f"bound {metric}"], linewidth=1.3, **dashed)
                points = table[(table["C"] == c) & (table["size"] == size)]
                scatter(axis, points, metric, colour)
            axis.set_ylabel(UNITS[metric])
            sigma_axis(axis, c == levels[-1])
        line[0].set_yscale("log")
        line[2].set_ylim(-0.05, 1.08)
        clipped = ", ".join(str(size) for size in norms.index[norms > c]) or "none"
        line[0].set_title(f"C = {plain(c)}: clips {clipped}", loc="left")
    handles = [
        legend_line(f"{size}\u00d7{size}, norm {norms[size]:.0f}", colour, "-", "o")
        for size, colour in colours.items()
    ]
    legend_above(figure, [*handles, legend_line("bound on the expectation", GREY, "--")], 4)
    return figure
