"""Pictures of the exhibits of Ziller et al. 2024."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from companion.drawings import draws
from companion.style import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    legend_above,
    legend_line,
    panels,
)
from companion.study import Result

__all__: list[str] = []

KEY = "ziller2024"

_UNITS = {
    "MSE": "MSE (range\u00b2)",
    "PSNR": "PSNR (dB)",
    "NCC": "NCC",
    "NMI": "NMI",
    "SSIM": "SSIM",
}
_SIGMA = r"noise multiplier $\sigma$"


def _sigma_axis(axes: Axes, last: bool) -> None:
    """A logarithmic axis labelled at whole decades, with its title in the last row only."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelbottom=last)
    if last:
        axes.set_xlabel(_SIGMA)
        labels = axes.get_xticks()
        if len(labels) > 7:
            axes.xaxis.set_major_locator(LogLocator(base=100, numticks=12))


def _plain(value: float) -> str:
    """Three digits, or all digits before the point, without a power of ten."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _row_title(row: str, c: float) -> str:
    """``0.01 min`` as the clipping norm it stands for."""
    factor, _, extreme = row.rpartition(" ")
    times = f"{factor}\\," if factor else ""
    return rf"$C = {times}\{extreme}\|X\|$ = {_plain(c)}"


# Figures 1 and 4 ---------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig1",
    caption="Three measures of a reconstruction over the noise multiplier, for many photographs. "
    "From the top row to the bottom the clipping norm C grows from far below every picture's norm "
    "to far above. The paper prints neither the values of C nor those of sigma. Dashed orange: the "
    "paper's bound on the expectation (for the NCC the one that needs no data); dashed purple: its "
    "bound for the NCC that knows the dimension. Added here: the exact expectation (the line is "
    "the median picture, the band all pictures). Dots are single reconstructions.",
    alt="Grid of four rows and three columns. MSE (left): dots lie on the dashed bound in the two "
    "lower rows, where C is at least the largest norm; in the upper rows they stay on a plateau "
    "above it. PSNR (middle): the mirror image. NCC (right): from one down to zero; below the "
    "purple bound by a little in the upper rows, by ever more in the lower ones.",
)
def figure1(result: Result) -> Figure:
    table, curves = result.tables["metrics"], result.tables["curves"]
    rows = list(dict.fromkeys(table["row"]))
    figure, axes = panels(len(rows), 3, width=3.05, height=2.05)
    for i, row in enumerate(rows):
        points, theory = table[table["row"] == row], curves[curves["row"] == row]
        for axis, metric in zip(axes[i], ("MSE", "PSNR", "NCC"), strict=True):
            expected = f"expected {metric}"
            axis.fill_between(
                theory["sigma"],
                theory[f"least {expected}"],
                theory[f"most {expected}"],
                color=BLUE,
                alpha=0.15,
                linewidth=0,
            )
            axis.plot(theory["sigma"], theory[expected], color=BLUE, linewidth=1.3)
            bound = "data-free bound NCC" if metric == "NCC" else f"bound {metric}"
            axis.plot(theory["sigma"], theory[bound], color=ORANGE, linestyle="--")
            if metric == "NCC":
                axis.plot(theory["sigma"], theory["bound NCC"], color=PURPLE, linestyle="--")
                axis.set_ylim(-0.05, 1.08)
            _cloud(axis, points, metric)
            if metric == "MSE":
                axis.set_yscale("log")
            axis.set_ylabel(_UNITS[metric])
            _sigma_axis(axis, i == len(rows) - 1)
        axes[i][0].set_title(_row_title(row, points["C"].iloc[0]), loc="left")
    legend_above(
        figure,
        [
            legend_line("reconstructions, one dot each", BLUE, "", "o"),
            legend_line("exact expectation (median; band: all pictures)", BLUE),
            legend_line("bound on the expectation (NCC: data-free)", ORANGE, "--"),
            legend_line("dimension-aware bound on the NCC", PURPLE, "--"),
        ],
        2,
    )
    return figure


def _cloud(axis: Axes, points: pd.DataFrame, metric: str, colour: str = BLUE) -> None:
    axis.scatter(points["sigma"], points[metric], s=13, color=colour, alpha=0.4, linewidths=0)


@draws(
    f"{KEY}/fig4",
    caption="The same reconstructions judged by three measures without a bound: normalised mutual "
    "information, structural similarity and a perceptual distance (lower is better). The NMI falls "
    "to one like the NCC. The other two are poor for the smallest C, where the pictures are almost "
    "black, and for the largest, where more noise than needed is added. Where the pretrained "
    "network of LPIPS is not at hand, a distance of untrained features stands in for it, and the "
    "axis says so.",
    alt="Grid of four rows and three columns over the noise multiplier. NMI falls towards one in "
    "every row, earlier in the lowest. SSIM is near zero throughout the top row, falls from one "
    "half in the second and from one in the third, and earlier in the lowest. The perceptual "
    "distance is high throughout the two upper rows and grows from zero in the two lower ones.",
)
def figure4(result: Result) -> Figure:
    table = result.tables["metrics"]
    rows = list(dict.fromkeys(table["row"]))
    distance = table["distance"].iloc[0]
    figure, axes = panels(len(rows), 3, width=3.05, height=2.0)
    for i, row in enumerate(rows):
        points = table[table["row"] == row]
        means = points.groupby("sigma")[["NMI", "SSIM", "perceptual"]].mean()
        for axis, metric in zip(axes[i], means, strict=True):
            _cloud(axis, points, metric)
            axis.plot(means.index, means[metric], color=BLUE, linewidth=1.3)
            top = table[metric].max()
            low = 1.0 if metric == "NMI" else 0.0
            axis.set_ylim(low - 0.06 * (top - low), top + 0.06 * (top - low))
            axis.set_ylabel(_UNITS.get(metric, "perceptual distance"))
            _sigma_axis(axis, i == len(rows) - 1)
        axes[i][0].set_title(_row_title(row, points["C"].iloc[0]), loc="left")
        if i == 0:
            named = distance if distance.startswith("LPIPS") else f"{distance} (stand-in)"
            axes[i][2].set_title(named, loc="right", color=GREY, fontsize=9)
    legend_above(
        figure,
        [
            legend_line("reconstructions, one dot each", BLUE, "", "o"),
            legend_line("mean over pictures", BLUE),
        ],
        2,
    )
    return figure


# Figure 2 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig2",
    caption="Distribution functions of MSE, PSNR and NCC at C = sigma = T = 1 and N = 50, to be "
    "read as (eta, gamma)-robustness. Dashed purple: the paper's bounds on the expectations. Added "
    "here: the exact expectations, simulated reconstructions, and the exact law of the NCC in "
    "place of a numerical one. For PSNR and NCC, where more is better, the risk at eta is one "
    "minus the curve.",
    alt="Three S-shaped curves from zero to one with simulated points on them. The MSE's passes "
    "one half near 1, the PSNR's near 0.1 dB, the NCC's near 0.14. Dashed bounds stand at 1, 0 dB "
    "and 0.140; the exact expectations of PSNR and NCC stand just right of them.",
)
def figure2(result: Result) -> Figure:
    curves, points = result.tables["curves"], result.tables["points"]
    expectations = result.tables["expectations"].set_index("metric")
    figure, axes = panels(1, 3, width=3.05, height=2.9)
    labels = {"MSE": r"MSE, $\eta$", "PSNR": r"PSNR (dB), $\eta$", "NCC": r"NCC, $\eta$"}
    for axis, (metric, label) in zip(axes[0], labels.items(), strict=True):
        curve = curves[curves["metric"] == metric]
        dots = points[points["metric"] == metric]
        axis.plot(curve["eta"], curve["CDF"], color=BLUE)
        axis.scatter(dots["eta"], dots["share"], s=20, facecolor="white", edgecolor=BLUE, zorder=3)
        bound, exact = expectations.loc[metric]
        axis.axvline(bound, color=PURPLE, linestyle="--")
        axis.axvline(exact, color=GREEN, linestyle=":", linewidth=2)
        axis.set(xlabel=label, ylim=(-0.03, 1.03))
        axis.set_title(f"bound {bound + 0.0:.3f}, exact {exact:.3f}", color=GREY, fontsize=9)
    axes[0][0].set_ylabel(r"$\gamma$ = P(metric $\leq \eta$)")
    for axis, risk in zip(axes[0], ("curve", *["1 \u2212 curve"] * 2), strict=True):
        axis.text(0.03, 0.95, f"risk: {risk}", transform=axis.transAxes, va="top", fontsize=9)
    legend_above(
        figure,
        [
            legend_line("exact law", BLUE),
            Line2D(
                [],
                [],
                color=BLUE,
                linestyle="",
                marker="o",
                markerfacecolor="white",
                label="simulated",
            ),
            legend_line("paper's bound on the expectation", PURPLE, "--"),
            legend_line("exact expectation", GREEN, ":"),
        ],
        4,
    )
    return figure


# Figure 3 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig3",
    caption="One photograph at three resolutions, for four clipping norms (which the paper does "
    "not print; here they lie below, between and above the picture's norms at the three "
    "resolutions). Where C clips, MSE and PSNR carry a bias that grows with the resolution. At the "
    "largest C the NCCs coincide although their bounds do not. Dots: reconstructions; solid: exact "
    "expectations; dashed: bounds.",
    alt="Grid of four rows and three columns over the noise multiplier, one colour per resolution. "
    "In the top row the three MSE plateaus nearly coincide; in the middle rows they separate, the "
    "highest resolution highest; in the bottom row all follow the one bound. The NCC curves are "
    "apart in the top row, each near its own bound, and coincide in the bottom row far below "
    "the bounds.",
)
def figure3(result: Result) -> Figure:
    table, curves = result.tables["metrics"], result.tables["curves"]
    levels = sorted(table["C"].unique())
    sizes = sorted(table["size"].unique())
    norms = table.groupby("size")["norm"].first()
    figure, axes = panels(len(levels), 3, width=3.05, height=2.05)
    for i, c in enumerate(levels):
        for axis, metric in zip(axes[i], ("MSE", "PSNR", "NCC"), strict=True):
            for size, colour in zip(sizes, COLOURS, strict=False):
                at = curves[(curves["C"] == c) & (curves["size"] == size)]
                points = table[(table["C"] == c) & (table["size"] == size)]
                axis.plot(at["sigma"], at[f"expected {metric}"], color=colour, linewidth=1.3)
                dashed = colour if metric == "NCC" else GREY
                axis.plot(
                    at["sigma"], at[f"bound {metric}"], color=dashed, linestyle="--", linewidth=1.3
                )
                _cloud(axis, points.assign(alpha=1), metric, colour)
            if metric == "MSE":
                axis.set_yscale("log")
            if metric == "NCC":
                axis.set_ylim(-0.05, 1.08)
            axis.set_ylabel(_UNITS[metric])
            _sigma_axis(axis, i == len(levels) - 1)
        clipped = [str(size) for size in sizes if norms[size] > c]
        state = "clips " + ", ".join(clipped) if clipped else "clips none"
        axes[i][0].set_title(f"C = {_plain(c)}: {state}", loc="left")
    legend_above(
        figure,
        [
            *(
                legend_line(f"{size}\u00d7{size}, norm {norms[size]:.0f}", colour, "-", "o")
                for size, colour in zip(sizes, COLOURS, strict=False)
            ),
            legend_line("bound on the expectation", GREY, "--"),
        ],
        4,
    )
    return figure


# Figures 5 to 8 ----------------------------------------------------------------------------------


def _tens(value: float) -> str:
    """A small number as a multiple of a power of ten."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    if exponent > -3:
        return f"{value:g}"
    factor = round(value / 10.0**exponent, 6)
    return rf"$10^{{{exponent}}}$" if factor == 1 else rf"${factor:g}\cdot10^{{{exponent}}}$"


def _grid(result: Result) -> Figure:
    """Rows are resolutions, columns noise multipliers, the original first."""
    table = result.tables["grid"]
    sizes, sigmas = list(table["size"].unique()), list(table["sigma"].unique())
    titles = {"original": "original", **{f"{v:g}": rf"$\sigma$ = {_tens(v)}" for v in sigmas}}
    for name in result.images:
        _, _, sigma = name.partition(" rescaled ")
        if sigma:
            titles[f"rescaled {sigma}"] = rf"$\sigma$ = {_tens(float(sigma))}, $\div\,\beta$"
    side = 9.1 / (len(titles) + 0.25)
    figure, axes = plt.subplots(
        len(sizes),
        len(titles),
        figsize=(9.1, side * len(sizes) + 0.62),
        squeeze=False,
        layout="constrained",
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    for i, size in enumerate(sizes):
        of_size = table[table["size"] == size]
        beta = of_size["beta"].iloc[0]
        for axis, column in zip(axes[i], titles, strict=True):
            # averaged where the picture has more pixels than the panel, as on any screen
            axis.imshow(result.images[f"{size} {column}"], interpolation="auto")
            axis.set(xticks=[], yticks=[])
            axis.grid(False)
            for spine in axis.spines.values():
                spine.set(visible=True, color="#B0B0B0", linewidth=0.6)
        axes[i][0].set_ylabel(f"{size}\u00d7{size}\n" + rf"$\beta$ = {beta:.2g}")
    for axis, title in zip(axes[0], titles.values(), strict=True):
        axis.set_title(title, fontsize=9.5)
    norms = ", ".join(f"{v:.0f}" for v in table.groupby("size")["norm"].first())
    figure.supxlabel(
        f"C = {_plain(table['C'].iloc[0])}, norms {norms}; values clipped to [0, 1] for display",
        fontsize=9.5,
    )
    return figure


@draws(
    f"{KEY}/fig5",
    caption="Reconstructions for a very small clipping norm: everything is almost black. Divided "
    "by the clipping factor, which a viewer who knows the range of pixels can guess, they are "
    "those of C = ||X||; the last column, added here, shows that. Rows are resolutions, columns "
    "noise multipliers; values are clipped to [0, 1] for display. The paper prints neither C nor "
    "sigma.",
    alt="Three rows of seven pictures. The first of each row is the original portrait, the next "
    "five are black. The last, rescaled, shows the portrait again.",
)
def figure5(result: Result) -> Figure:
    return _grid(result)


@draws(
    f"{KEY}/fig6",
    caption="A clipping norm between the picture's norms at the two lower resolutions: only the "
    "lowest resolution keeps its brightness, the others are clipped and darker. Values are clipped "
    "to [0, 1] for display. The paper prints neither C nor sigma.",
    alt="Three rows of six pictures: original and growing noise. At 32 pixels the pictures keep "
    "their brightness, at 224 they are dark, at 1024 almost black; noise shows at sigma = 0.001 "
    "and hides everything at 0.01.",
)
def figure6(result: Result) -> Figure:
    return _grid(result)


@draws(
    f"{KEY}/fig7",
    caption="A clipping norm between the picture's norms at the two higher resolutions: the first "
    "two rows are not clipped, the last is and is darker. The first row looks noisier than the "
    "second. Per pixel the noise is the same in both; the higher resolution averages more of it "
    "away. Values are clipped to [0, 1] for display. The paper prints neither C nor sigma.",
    alt="Three rows of six pictures: original and growing noise. At the second noise level the "
    "32-pixel picture is grainy while the 224-pixel one is still clear; the 1024-pixel one is "
    "darker throughout.",
)
def figure7(result: Result) -> Figure:
    return _grid(result)


@draws(
    f"{KEY}/fig8",
    caption="A clipping norm far above all norms: nothing is clipped, and the noise, which grows "
    "with C, hides the lowest resolution even at the smallest sigma. Values are clipped to [0, 1] "
    "for display. The paper prints neither C nor sigma.",
    alt="Three rows of six pictures: original and growing noise. At the smallest noise multiplier "
    "the 32-pixel picture is grainy and the 1024-pixel one clear; at the second the first is "
    "pure noise while the other two can still be made out; at the largest all are noise.",
)
def figure8(result: Result) -> Figure:
    return _grid(result)


# Table 1 and the propositions --------------------------------------------------------------------


@draws(
    f"{KEY}/table1",
    caption="The paper's table of bounds, all 68 numbers computed: the worst-case success of an "
    "attacker who matches against candidates, and the bounds on MSE, PSNR and NCC, one parameter "
    "varied at a time. In green, what the paper does not print: the exact expectations of PSNR and "
    "NCC of the same reconstruction, which exceed the columns called Max.",
    alt="Table of 17 rows: noise multiplier, clipping norm, dimension, steps and prior, then "
    "worst-case success, least expected MSE, largest expected PSNR and NCC, and the exact "
    "expectations of PSNR and NCC. The exact ones differ most at dimension 10: 0.45 dB instead "
    "of 0 and 31.0% instead of 30.2%.",
)
def table1(result: Result) -> Figure:
    table = result.tables["table"]
    heads = [
        "vary",
        r"$\sigma$",
        "C",
        "N",
        "T",
        r"$\kappa$",
        "worst-case\nsuccess",
        "min\nE[MSE]",
        "max\nE[PSNR]",
        "max\nE[NCC]",
        "exact\nE[PSNR]",
        "exact\nE[NCC]",
    ]
    text = [
        [
            "" if row["varied"] == "baseline" else str(row["varied"]),
            *(_power(row[k], bold=k == row["varied"]) for k in ("sigma", "C", "N", "T", "kappa")),
            f"{row['success (%)']:.1f}%",
            _power(row["E[MSE]"]),
            f"{row['E[PSNR] (dB)'] + 0.0:.1f} dB".replace("-", "\u2212"),
            f"{row['E[NCC] (%)']:.1f}%",
            f"{row['exact E[PSNR] (dB)']:.2f} dB".replace("-", "\u2212"),
            f"{row['exact E[NCC] (%)']:.1f}%",
        ]
        for _, row in table.iterrows()
    ]
    figure, axis = plt.subplots(figsize=(9.1, 5.4), layout="constrained")
    axis.axis("off")
    edges = np.cumsum([0, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 1.0, 0.8, 1.05, 0.9, 1.1, 0.9])
    centres = (edges[:-1] + edges[1:]) / 2
    named = {"sigma": r"$\sigma$", "kappa": r"$\kappa$"}
    varied = {"sigma": 1, "C": 2, "N": 3, "T": 4, "kappa": 5}
    for x, head in zip(centres, heads, strict=True):
        axis.text(
            x,
            -0.4,
            head,
            ha="center",
            va="bottom",
            fontsize=9.5,
            weight="bold",
            color=GREEN if head.startswith("exact") else "black",
        )
    previous = "baseline"
    for i, cells in enumerate(text):
        kind = table["varied"].iloc[i]
        first = kind != previous
        if first or i == 0:
            axis.plot([0, edges[-1]], [i - 0.02] * 2, color="#B0B0B0", linewidth=0.7)
        previous = kind
        for j, (x, cell) in enumerate(zip(centres, cells, strict=True)):
            if j == 0:
                cell = named.get(cell, cell) if first else ""
            axis.text(
                x,
                i + 0.5,
                cell,
                ha="center",
                va="center",
                fontsize=9.5,
                weight="bold" if varied.get(kind) == j else "normal",
                color=GREEN if j >= 10 else "black",
            )
    axis.set(xlim=(0, edges[-1]), ylim=(len(text) + 0.1, -1.6))
    return figure


def _power(value: float, bold: bool = False) -> str:
    """A number as the table prints it: plain near one, else as a power of ten."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    if -2 < exponent < 4:
        return f"{value:g}"
    return rf"$\mathbf{{10^{{{exponent}}}}}$" if bold else rf"$10^{{{exponent}}}$"


@draws(
    f"{KEY}/prop2",
    caption="How far the expected PSNR lies above the bound of Proposition 2 when nothing is "
    "clipped: 4.34 / N dB, never below. The paper proves the opposite inequality.",
    alt="Excess over the bound in decibel against the dimension, both logarithmic: measured points "
    "on a curve that falls from 5.5 dB at dimension 1 to 0.004 dB at 1000, always positive.",
)
def proposition2(result: Result) -> Figure:
    table = result.tables["psnr"]
    free = table[table["norm over C"] < 1]
    figure, [[axis]] = panels(1, 1, width=5.6, height=3.3)
    measured = free["mean"] - free["printed bound"]
    sure = free[measured > 2 * free["standard error"]].index
    curve = result.tables["excess"]
    axis.plot(
        curve["N"],
        curve["excess"],
        color=BLUE,
        label="exact: (10/ln 10)(ln(N/2) \u2212 digamma(N/2))",
    )
    axis.plot(curve["N"], 10 / np.log(10) / curve["N"], color=GREY, linestyle=":", label="4.34 / N")
    axis.errorbar(
        free["N"][sure],
        measured[sure],
        2 * free["standard error"][sure],
        fmt="o",
        color=ORANGE,
        markersize=5,
        capsize=3,
        label="DP-SGD steps, \u00b1 2 std. errors",
    )
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="dimension N",
        ylabel="E[PSNR] \u2212 printed upper bound (dB)",
    )
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.legend()
    return figure


@draws(
    f"{KEY}/prop3",
    caption="The expected NCC of centred, clipped data against the bound of Proposition 3, eq. "
    "(8), over which the paper puts no such data. Its exact value lies above for every dimension, "
    "by 18% at N = 2.",
    alt="Expected NCC against the dimension for two noise multipliers. Measured points lie on the "
    "exact curves, which stay above the dashed printed bounds and approach them as the dimension "
    "grows.",
)
def proposition3(result: Result) -> Figure:
    table, curves = result.tables["ncc"], result.tables["curves"]
    centred = table[table["centred"]]
    figure, [[axis]] = panels(1, 1, width=5.6, height=3.3)
    for colour, (sigma, part) in zip(COLOURS, centred.groupby("sigma"), strict=False):
        curve = curves[curves["sigma"] == sigma]
        axis.plot(curve["N"], curve["exact"], color=colour, label=rf"exact, $\sigma$ = {sigma:g}")
        axis.plot(
            curve["N"],
            curve["eq. (8)"],
            color=colour,
            linestyle="--",
            label=rf"eq. (8), $\sigma$ = {sigma:g}",
        )
        axis.errorbar(
            part["N"],
            part["mean"],
            2 * part["standard error"],
            fmt="o",
            color=colour,
            markersize=4,
            capsize=3,
        )
    axis.set(xscale="log", xlabel="dimension N", ylabel="E[NCC]", ylim=(0, 1.05))
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.legend()
    return figure


@draws(
    f"{KEY}/propC1",
    caption="The normalised mutual information of a normal record and its reconstruction. With "
    "differential entropies (Definition C.2) it has a pole and leaves [1, 2]; with entropies of "
    "histograms (Definition C.1) it falls from two to one.",
    alt="NMI against the noise over the data's standard deviation. The curve of differential "
    "entropies is negative for little noise, falls to minus infinity at the pole near 0.06, comes "
    "back from plus infinity and settles at one; the histogram points fall smoothly from near two "
    "to one.",
)
def proposition_c1(result: Result) -> Figure:
    curve, points = result.tables["densities"], result.tables["nmi"]
    figure, [[axis]] = panels(1, 1, width=5.6, height=3.3)
    pole = 1 / (2 * np.pi * np.e)
    for k, side in enumerate((curve["noise"] < pole, curve["noise"] > pole)):
        axis.plot(
            curve["noise"][side],
            curve["NMI"][side],
            color=BLUE,
            label=None if k else "differential entropies",
        )
    axis.plot(
        points["noise"],
        points["NMI of histograms"],
        "o",
        color=ORANGE,
        markersize=5,
        label="histograms, measured",
    )
    axis.axvline(pole, color=GREY, linestyle=":", label=r"pole, $1/(2\pi e)$")
    axis.axhspan(1, 2, color=GREEN, alpha=0.12, linewidth=0, label="range of a similarity, [1, 2]")
    axis.set(
        xscale="log",
        xlabel=r"$C\sigma$ over the data's standard deviation",
        ylabel="NMI",
        ylim=(-4, 6),
    )
    axis.legend()
    return figure
