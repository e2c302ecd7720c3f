"""Pictures of our own exhibits that hold the papers' notions against each other."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, panels

__all__: list[str] = []

#: of the four laws of a near miss
_LAWS = {
    "row mean (A)": (BLUE, "-"),
    "shrunken": (GREEN, "--"),
    "any use of it": (PURPLE, "-"),
    "any network (C)": (ORANGE, "-"),
}


@draws(
    "beyond/worst_case",
    caption="The worst case of paper B, a closed form, beside the certified bound of paper C over "
    "the sampling rate. Left and middle: two signals, each for several prior successes; solid with "
    "marks: certified; dotted: closed form for the full batch. Right: the power of simulated "
    "membership tests at false-positive rate kappa, whose gradients depend on earlier releases, "
    "against the closed form.",
    alt="Rising curves that end, at a sampling rate of one, on dotted horizontal lines. In the "
    "right panel all marks lie on the diagonal.",
)
def worst_case(result: Result) -> Figure:
    table, tests = result.tables["bounds"], result.tables["tests"]
    figure, (row,) = panels(1, 3, 3.7, 3.2)
    steps = sorted(table["T"].unique())
    for axis, (signal, at_signal) in zip(row, table.groupby("signal"), strict=False):
        for colour, (kappa, own) in zip(COLOURS, at_signal.groupby("kappa"), strict=False):
            axis.axhline(own["closed form"].iloc[0], color=colour, linestyle=":", lw=1.2)
            for style, count in zip(("-", "--", "-."), steps, strict=False):
                line = own[own["T"] == count]
                label = rf"$\kappa$ = {kappa:g}" if count == steps[0] else None
                axis.plot(
                    line["q"], line["upper"], color=colour, linestyle=style, marker="o", ms=3,
                    label=label,
                )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="sampling rate q")
        axis.set_title(rf"$\sqrt{{T}}/\sigma$ = {signal:g}")
    row[0].set_ylabel("success")
    row[0].legend(loc="lower left", bbox_to_anchor=(0, 0.08))
    for style, count in zip(("-", "--", "-."), steps, strict=False):
        row[1].plot([], [], color=GREY, linestyle=style, label=f"T = {count:,}")
    row[1].legend(loc="lower right")
    for colour, marker, (count, own) in zip(COLOURS, "os^", tests.groupby("T"), strict=False):
        row[2].plot(
            own["closed form"], own["power"], marker, color=colour, label=f"T = {count:,}", ms=5,
            mfc="none",
        )  # fmt: skip
    ends = np.array([tests["closed form"].min() / 2, 1])
    row[2].plot(ends, ends, color=GREY, lw=1)
    row[2].set(xscale="log", yscale="log", xlabel="closed form", ylabel="power of the test")
    row[2].legend(loc="upper left")
    return figure


@draws(
    "beyond/near_misses",
    caption="How likely is a reconstruction whose MSE is a given share of the record's mean "
    "square? Left: log-probability per dimension for the smallest and largest N (thin and thick), "
    "noise with N sigma^2 = 1: paper A's row mean, its shrunken version, the bound for every use "
    "of the released picture, and paper C's with a ball prior. Right: the share at which each law "
    "is one half, over the noise; lines are the limits for many dimensions.",
    alt="Left: four rising curves that reach zero at shares of 1, one half, one half and about "
    "0.37. Right: limits against the noise scale, marks on them; paper C's lies lowest, paper A's "
    "highest, and the middle two share a line.",
)
def near_misses(result: Result) -> Figure:
    table, thresholds = result.tables["exponents"], result.tables["thresholds"]
    figure, (row,) = panels(1, 2, 4.6, 3.4)
    scales = sorted(table["scale"].unique())
    shown = scales[len(scales) // 2]
    sizes = sorted(table["N"].unique())
    for law, (colour, style) in _LAWS.items():
        for size, width in ((sizes[0], 0.9), (sizes[-1], 2.0)):
            own = table[(table["scale"] == shown) & (table["N"] == size)]
            label = law if size == sizes[-1] else None
            row[0].plot(
                own["share"], own[law], color=colour, linestyle=style, lw=width, label=label
            )
    row[0].set(
        xscale="log",
        ylim=(-2.6, 0.1),
        xlabel="MSE as a share of the mean square",
        ylabel="log-probability / N",
    )
    row[0].legend(loc="lower right")
    fine = np.geomspace(min(scales) / 1.3, max(scales) * 1.3, 80)
    limits = {
        "row mean (A)": fine**2,
        "shrunken": fine**2 / (1 + fine**2),
        "any use of it": fine**2 / (1 + fine**2),
        "any network (C)": np.exp(-1 / fine**2),
    }
    for (law, (colour, style)), marker in zip(_LAWS.items(), "os^D", strict=True):
        row[1].plot(fine, limits[law], color=colour, linestyle=style, lw=1.2)
        own = thresholds[(thresholds["law"] == law) & (thresholds["N"] == sizes[-1])]
        row[1].plot(own["scale"], own["median"], marker, color=colour, ms=6, mfc="none", label=law)
    row[1].set(
        xscale="log",
        yscale="log",
        xlabel=r"$a = \sigma\sqrt{N}$",
        ylabel="share at which the law is one half",
    )
    row[1].legend(loc="lower right")
    return figure


@draws(
    "beyond/capacity_and_rero",
    caption="One step, a uniform prior on n orthogonal candidates. Left: the gain over a guess of "
    "the best attack, what ReRo allows, and the Bayes capacity, which is the same for every n; the "
    "diagonal is certainty. Right: the prior success below which capacity is the sharper bound, "
    "as minus its logarithm over the number p of released values; lines are the closed form.",
    alt="Left: gains of the best attack grow slowly with n, ReRo lies a little above, and "
    "horizontal capacity lines far above both or beyond the diagonal. Right: minus the logarithm "
    "of the prior success, over p, falls to one half as p grows; marks lie just above the lines.",
)
def capacity_and_rero(result: Result) -> Figure:
    gains, crossings = result.tables["gains"], result.tables["crossings"]
    figure, (row,) = panels(1, 2, 4.6, 3.4)
    size = sorted(gains["p"].unique())[1:2] or [gains["p"].max()]
    own = gains[gains["p"] == size[0]]
    for colour, (sigma, line) in zip(COLOURS, own.groupby("sigma"), strict=False):
        label = rf"$\sigma$ = {sigma:g}"
        row[0].plot(line["n"], line["best attack"], "o", color=colour, ms=4, label=label)
        row[0].plot(line["n"], line["ReRo"], color=colour)
        row[0].axhline(line["capacity"].iloc[0], color=colour, linestyle=":", lw=1.3)
    n = own["n"].to_numpy()
    row[0].plot(n, n, color=GREY, lw=1)
    for style, label in (("-", "ReRo"), (":", "capacity")):
        row[0].plot([], [], color=GREY, linestyle=style, label=label)
    row[0].set(
        xscale="log",
        yscale="log",
        ylim=(0.9, 1e14),
        xlabel="candidates n",
        ylabel="gain over a guess",
        title=f"p = {size[0]:,}",
    )
    row[0].legend(loc="upper left", fontsize=8, ncols=2)
    p = np.geomspace(crossings["p"].min() / 1.5, crossings["p"].max() * 1.5, 60)
    for colour, (sigma, line) in zip(COLOURS, crossings.groupby("sigma"), strict=False):
        row[1].plot(p, (1 + 0.25 / (sigma * np.sqrt(p))) ** 2 / 2, color=colour, lw=1.2)
        row[1].plot(
            line["p"], line["crossing"] / line["p"], "o", color=colour, mfc="none",
            label=rf"$\sigma$ = {sigma:g}",
        )  # fmt: skip
    row[1].set(
        xscale="log", xlabel="released values p", ylabel=r"$-\ln\kappa$ at the crossing, over p"
    )
    row[1].legend(loc="upper right")
    return figure


@draws(
    "beyond/unbiased_bound",
    caption="The lower bound of Guo et al. on the MSE of unbiased attacks, pixels of range one, "
    "beside exact errors of paper A's row mean and of its shrunken version for three mean squares "
    "of the pixels, and of a layer that spends the clipping norm on a single pixel (line: exact; "
    "marks: measured with four standard errors).",
    alt="Over the noise multiplier the bound rises from far below to meet the one-pixel line under "
    "heavy noise. Lines of the row mean run parallel above; shrunken ones level off and end below "
    "the bound.",
)
def unbiased_bound(result: Result) -> Figure:
    table = result.tables["errors"]
    figure, ((axis,),) = panels(1, 1, 6.4, 3.9)
    squares = sorted(table["mean square"].unique())
    one = table[table["mean square"] == squares[0]]
    axis.plot(one["sigma"], one["bound"], color=ORANGE, lw=2.2, label="bound of Guo et al.")
    axis.plot(one["sigma"], one["one pixel"], color=PURPLE, label="one pixel")
    axis.errorbar(
        one["sigma"], one["one pixel, measured"], yerr=4 * one["one pixel, error"], color=PURPLE,
        linestyle="", marker="o", ms=4, capsize=2,
    )  # fmt: skip
    for square, width in zip(squares, (0.9, 1.5, 2.1), strict=False):
        own = table[table["mean square"] == square]
        last = square == squares[-1]
        axis.plot(
            own["sigma"], own["row mean"], color=BLUE, lw=width, label="row mean" if last else None
        )
        axis.plot(
            own["sigma"], own["shrunken"], color=GREEN, lw=width, linestyle="--",
            label="shrunken row mean" if last else None,
        )  # fmt: skip
    axis.set(
        xscale="log",
        yscale="log",
        ylim=(1e-6, 1e6),
        xlabel=r"noise multiplier $\sigma$",
        ylabel="MSE per pixel",
    )
    axis.legend(loc="upper left", fontsize=8)
    return figure
