"""Pictures of our own exhibits (risk)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, panels


@draws(
    "beyond/certified",
    caption="The certified success of any attack. Left: gamma over kappa for runs of paper C's "
    "kind; the enclosures are thinner than the lines. Middle: the enclosures' relative width, and "
    "how far an independent inversion of the characteristic function is from their middle. Right: "
    "an accountant's upper bound relative to gamma, for three runs and two grids; below zero it is "
    "no bound.",
    alt="Left: nine curves falling with kappa, all above the dotted diagonal. Middle: widths of at "
    "most 1e-6, with the distances of the independent values below them. Right: relative errors "
    "just above zero for large kappa, leaving zero to both sides at 1e-12 and 1e-14, where "
    "curves end far below it.",
)
def certified(result: Result) -> Figure:
    table, others = result.tables["enclosures"], result.tables["other libraries"]
    figure, (row,) = panels(1, 3, 4.0, 3.6)
    colours = (*COLOURS, GREY, "#B8860B", "#00655A")
    for colour, ((sigma, q, steps), own) in zip(
        colours, table.groupby(["sigma", "q", "T"], sort=False), strict=False
    ):
        label = rf"{sigma:g}, {q:g}, $10^{{{np.log10(steps):.0f}}}$"
        row[0].plot(own["kappa"], own["upper"], color=colour, label=label, lw=1.4)
        middle = 0.5 * (own["upper"] + own["lower"])
        row[1].plot(own["kappa"], (own["upper"] - own["lower"]) / middle, color=colour, lw=1.2)
        off = (own["reference"] - middle).abs() / middle
        row[1].plot(own["kappa"], off, ".", color=colour, ms=5)
    kappa = np.array([1e-12, 0.5])
    row[0].plot(kappa, kappa, ":", color=GREY, lw=1)
    row[0].set(xlabel=r"prior success $\kappa$", ylabel=r"$\gamma$", xscale="log", yscale="log")
    row[0].set_ylim(1e-18, 3)
    row[0].legend(
        title=r"$\sigma$, $q$, $T$", fontsize=7, title_fontsize=7.5, ncols=2, loc="lower right",
        handlelength=1.1, columnspacing=0.8,
    )  # fmt: skip
    row[1].plot([], [], color=GREY, label="width of the enclosure")
    row[1].plot([], [], ".", color=GREY, label="|inversion - middle|")
    row[1].set(xlabel=r"prior success $\kappa$", ylabel=r"relative to $\gamma$")
    row[1].set(xscale="log", yscale="log", ylim=(1e-11, 1e-4))
    row[1].legend(loc="upper right")
    dots = others[others["method"] == "connect-the-dots"]
    for colour, marker, ((sigma, steps, grid), own) in zip(
        COLOURS, "os^Dv", dots.groupby(["sigma", "T", "grid"]), strict=False
    ):
        own = own.sort_values("kappa")
        label = rf"$\sigma$ = {sigma:g}, T = {steps:,}, grid {grid:g}"
        row[2].plot(own["kappa"], own["error"], marker=marker, ms=4, color=colour, label=label)
    row[2].axhline(0, color=GREY, lw=1)
    row[2].set_xscale("log")
    row[2].set_yscale("symlog", linthresh=1e-5)
    row[2].set_yticks([-1e1, -1e-1, -1e-3, -1e-5, 0, 1e-5, 1e-3, 1e-1])
    row[2].set_ylim(-40, 1e4)
    row[2].set(xlabel=r"prior success $\kappa$", ylabel=r"library / $\gamma$ - 1")
    row[2].legend(fontsize=7.2, loc="upper right")
    return figure


@draws(
    "beyond/monte_carlo",
    caption="Estimates of gamma with a fixed number of samples, full batch, kappa = 1/10, over "
    "sqrt(T)/sigma. Left: Algorithm 1 with the factor that makes it right (median and the central "
    "90% of repeated runs), the self-normalised estimate, and the interval from two samples. "
    "Right: samples that Algorithm 1 needs for a standard error of 1%, in closed form.",
    alt="Left: the truth rises to one by a signal of four and stays. The median of Algorithm 1 "
    "follows to three, then falls steadily to below 1e-5 at ten, with a wide band. The "
    "self-normalised estimate and the two-sample interval stay on the truth. Right: the samples "
    "needed rise from about 5e4 at one to 3e47 at ten, as the exponential of the squared signal; "
    "a million suffices for two.",
)
def monte_carlo(result: Result) -> Figure:
    table, needed = result.tables["estimates"], result.tables["samples needed"]
    figure, (row,) = panels(1, 2, 4.4, 3.4)
    m = table["signal"]
    row[0].fill_between(m, table["low"], table["high"], color=ORANGE, alpha=0.25, lw=0)
    row[0].plot(m, table["median"], "o-", ms=4, color=ORANGE, label="Algorithm 1")
    row[0].plot(m, table["normalised median"], "s--", ms=4, color=PURPLE, label="self-normalised")
    middle = 0.5 * (table["lower"] + table["upper"])
    row[0].errorbar(
        m, middle, [middle - table["lower"], table["upper"] - middle], fmt="none", color=BLUE,
        capsize=4, lw=1.8, label="two-sample interval",
    )  # fmt: skip
    row[0].plot(m, table["gamma"], color=GREY, label=r"$\gamma$")
    row[0].set(yscale="log", ylim=(1e-10, 20), ylabel="estimate")
    row[0].legend(loc="lower left")
    row[1].plot(needed["signal"], needed["samples"], "o-", ms=4, color=BLUE, label="needed")
    scale = needed["samples"].iloc[0] / np.exp(needed["signal"].iloc[0] ** 2)
    row[1].plot(
        needed["signal"], scale * np.exp(needed["signal"] ** 2), ":", color=GREY,
        label=r"$\propto \exp(T/\sigma^2)$",
    )  # fmt: skip
    row[1].axhline(1e6, color=GREEN, lw=1, ls="--", label="a million")
    row[1].set(yscale="log", ylabel="samples for an error of 1%")
    row[1].legend(loc="upper left")
    for axis in row:
        axis.set_xlabel(r"$\sqrt{T}/\sigma$")
    return figure


@draws(
    "beyond/iso_risk",
    caption="Risk instead of epsilon, over the sampling rate and the number of steps (runs in "
    "which a record takes part at least once on average). Left: noise for a risk target (solid) "
    "and for a fixed epsilon (dashed). Middle: the success that the same epsilon allows. Right: "
    "the epsilon that the same success allows.",
    alt="Left: noise multipliers rise with the sampling rate and with T; solid and dashed curves "
    "are nearly parallel at large q and part at small q. Middle: gamma rises with q towards the "
    "full batch's value, from far below it at T = 100 and hardly below it at T = 10,000. Right: "
    "the allowed epsilon falls with q to a common limit; at q = 0.01 and T = 100 it is several "
    "times larger.",
)
def iso_risk(result: Result) -> Figure:
    equal, risk = result.tables["equal epsilon"], result.tables["equal risk"]
    figure, (row,) = panels(1, 3, 3.9, 3.4)
    steps = sorted(set(equal["T"]))
    target, epsilon = risk["gamma"].min(), equal["epsilon"].max()
    styles = ("-", "--", ":", "-.")
    for colour, count in zip(COLOURS, steps, strict=False):
        own = risk[(risk["T"] == count) & (risk["gamma"] == target)].sort_values("q")
        row[0].plot(own["q"], own["sigma"], "o-", ms=3.5, color=colour, label=f"T = {count:,}")
        own = equal[(equal["T"] == count) & (equal["epsilon"] == epsilon)].sort_values("q")
        row[0].plot(own["q"], own["sigma"], "s--", ms=3, color=colour)
    row[0].plot([], [], "o-", ms=3.5, color=GREY, label=rf"$\gamma$ = {target:g}")
    row[0].plot([], [], "s--", ms=3, color=GREY, label=rf"$\varepsilon$ = {epsilon:g}")
    row[0].set(ylabel=r"noise multiplier $\sigma$", yscale="log")
    row[0].legend(loc="upper left", fontsize=7.5)
    for axis, table, group, column, symbol in (
        (row[1], equal, "epsilon", "gamma", r"$\varepsilon$"),
        (row[2], risk, "gamma", "epsilon", r"$\gamma$"),
    ):
        for style, (value, part) in zip(styles, table.groupby(group), strict=False):
            for colour, count in zip(COLOURS, steps, strict=False):
                own = part[part["T"] == count].sort_values("q")
                axis.plot(own["q"], own[column], style, marker="o", ms=3, color=colour)
            axis.plot([], [], style, color=GREY, label=f"{symbol} = {value:g}")
    row[1].set(ylabel=r"$\gamma$ at equal $\varepsilon$", ylim=(0, None))
    row[1].legend(loc="lower right")
    row[2].set(ylabel=r"$\varepsilon$ at equal $\gamma$", yscale="log")
    row[2].set_yticks([2, 5, 10, 20], ["2", "5", "10", "20"])
    row[2].minorticks_off()
    row[2].legend(loc="upper right")
    for axis in row:
        axis.set(xscale="log", xlabel="sampling rate q")
    return figure


@draws(
    "beyond/risk_choice",
    caption="Runs of equal epsilon and equal signal-to-noise of the summed gradient, as a share of "
    "the full batch's: for every number of steps there is one sampling rate. The excess of gamma "
    "over kappa relative to that of the full batch at the same epsilon; dots mark the least.",
    alt="Three panels, one for each prior success. In each, curves for three epsilons and two "
    "shares lie below one and rise towards it with the number of steps from thirty on; the least "
    "is at one, three or ten steps. Curves of the larger share lie above those of the smaller.",
)
def risk_choice(result: Result) -> Figure:
    table = result.tables["choices"]
    priors = sorted(set(table["kappa"]), reverse=True)
    figure, (row,) = panels(1, len(priors), 3.6, 3.5)
    shares = sorted(set(table["share"]))
    for axis, kappa in zip(row, priors, strict=True):
        for colour, (epsilon, part) in zip(
            COLOURS, table[table["kappa"] == kappa].groupby("epsilon"), strict=False
        ):
            for style, (_, own) in zip(("-", "--", ":"), part.groupby("share"), strict=False):
                own = own.sort_values("T")
                axis.plot(own["T"], own["of full batch"], style, color=colour)
                best = own.loc[own["of full batch"].idxmin()]
                axis.plot(best["T"], best["of full batch"], "o", ms=5, color=colour)
            axis.plot([], [], color=colour, label=rf"$\varepsilon$ = {epsilon:g}")
        for style, share in zip(("-", "--", ":"), shares, strict=False):
            axis.plot([], [], style, color=GREY, label=f"share {share:g}")
        axis.axhline(1, color=GREY, lw=1, ls=(0, (1, 2)))
        axis.set(xscale="log", xlabel="steps T", ylim=(0.2, 1.03))
        axis.set_title(rf"$\kappa$ = {kappa:g}")
    row[0].set_ylabel("excess over that of the full batch")
    row[0].legend(loc="lower right", ncols=2, fontsize=7.5)
    return figure
