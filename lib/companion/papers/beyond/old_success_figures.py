"""Drawings of our own exhibits on how often the best attack succeeds."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, panels

_TWO_SIDED = 1.96


@draws(
    "beyond/bayes_success",
    caption="Success of the best possible attack on n equally likely candidates, full batch, "
    "T = 100, delta = 1e-5. Left: over epsilon, as the bound of paper C has it, for the best "
    "geometry known (the regular simplex) and for orthogonal gradients. Middle: how far orthogonal "
    "candidates stay below the bound, over the prior size. Right: the largest such gap over all "
    "epsilons.",
    alt="Left: three groups of S-shaped curves for 2, 10 and 2048 candidates; in each the bound is "
    "on top, the simplex close below (on it for two candidates) and orthogonal candidates below "
    "that. Middle: gaps against the number of candidates; they fall steadily at epsilon 1 and 4, "
    "rise and fall at 10, rise at 32 and vanish at 100. Right: the largest gap of orthogonal "
    "candidates peaks at four candidates near 0.094 and falls slowly; the simplex starts at zero, "
    "peaks near 0.068 and joins it.",
)
def bayes_success(result: Result) -> Figure:
    figure, (row,) = panels(1, 3, 3.7, 3.4)
    curves = result.tables["curves"]
    for colour, (n, own) in zip(COLOURS, curves.groupby("n"), strict=False):
        row[0].plot(own["epsilon"], own["bound"], color=colour, label=f"n = {n}")
        row[0].plot(own["epsilon"], own["simplex"], "--", color=colour, lw=1.4)
        row[0].plot(own["epsilon"], own["orthogonal"], ":", color=colour, lw=1.8)
    for style, label in (("-", "bound"), ("--", "simplex"), (":", "orthogonal")):
        row[0].plot([], [], style, color=GREY, label=label)
    row[0].set(
        xscale="log", xlabel=r"$\varepsilon$", ylabel="success", ylim=(-0.02, 1.02), xlim=(0.5, 100)
    )
    row[0].legend(loc="lower right", fontsize=7.5, handlelength=1.8)
    sizes = result.tables["by prior size"]
    for colour, marker, (epsilon, own) in zip(
        COLOURS, "os^Dv", sizes.groupby("epsilon"), strict=False
    ):
        gap = own["bound"] - own["orthogonal"]
        label = rf"$\varepsilon$ = {epsilon:g}"
        row[1].plot(own["n"], gap, marker=marker, ms=3.5, color=colour, label=label)
    row[1].set_xscale("log", base=2)
    row[1].set(xlabel="prior size n", ylabel="bound - orthogonal", ylim=(-0.003, 0.125))
    row[1].legend(loc="upper right", ncols=2, fontsize=8)
    gaps = result.tables["largest gaps"]
    row[2].plot(gaps["n"], gaps["orthogonal"], "o-", ms=3.5, color=BLUE, label="orthogonal")
    row[2].plot(gaps["n"], gaps["simplex"], "s--", ms=3.5, color=ORANGE, label="simplex")
    row[2].set(xscale="log", xlabel="prior size n", ylabel=r"largest gap over all $\varepsilon$")
    row[2].set_ylim(-0.003, 0.105)
    row[2].legend(loc="lower right")
    return figure


@draws(
    "beyond/subsampled_success",
    caption="The setting of paper C's Figure 4 (q = 0.02, T = 1000, ten candidates) with "
    "orthogonal gradients: the bound, the best possible attack, and the paper's Algorithms 2 and "
    "3. Left: success. Right: the share of the bound's excess over 1/n that each attack recovers.",
    alt="Left: four rising curves over epsilon from 1 to 32; the bound on top, the likelihood "
    "below it, then Algorithm 3, and Algorithm 2, which flattens below one half. At small epsilon "
    "Algorithm 2 is above Algorithm 3. Right: the likelihood recovers between 0.84 and 0.96 "
    "throughout, Algorithm 3 climbs from about a third to 0.94, Algorithm 2 falls from 0.8 to 0.4.",
)
def subsampled_success(result: Result) -> Figure:
    table = result.tables["success"]
    n = int(result.settings.get("prior_size", 10))
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    epsilon = table["epsilon"]
    row[0].plot(epsilon, table["bound"], color=GREY, label="ReRo bound")
    row[0].plot(epsilon, table["likelihood"], color=BLUE, label="likelihood (exact)")
    row[0].errorbar(
        epsilon, table["Algorithm 3"], _TWO_SIDED * table["standard error"], fmt="^--", ms=4.5,
        color=ORANGE, label="Algorithm 3 (simulated)", capsize=2,
    )  # fmt: skip
    row[0].plot(epsilon, table["Algorithm 2"], "-.", color=GREEN, label="Algorithm 2 (exact)")
    row[0].axhline(1 / n, color=GREY, lw=1, ls=":")
    row[0].set(ylabel="success", ylim=(0, 1.02))
    row[0].legend(loc="upper left")
    excess = table["bound"] - 1 / n
    for name, style, colour in (
        ("likelihood", "-", BLUE),
        ("Algorithm 3", "^--", ORANGE),
        ("Algorithm 2", "-.", GREEN),
    ):
        row[1].plot(epsilon, (table[name] - 1 / n) / excess, style, ms=4.5, color=colour)
    row[1].set(ylabel="recovered share of the excess", ylim=(0, 1.05))
    for axis in row:
        axis.set(xscale="log", xlabel=r"$\varepsilon$")
        axis.set_xticks(list(epsilon), [f"{e:g}" for e in epsilon])
        axis.minorticks_off()
    return figure


@draws(
    "beyond/small_priors",
    caption="Upper bounds on finding a share rho of the pixels within 32/255, T = 100, q = 1, "
    "delta = 1e-5: from the prior success as paper C prints it, (1/4)^(d rho) (dashed), and from "
    "the binomial tail that it is (solid). The marks at the left edge are what a blind guess "
    "achieves. Logarithms to base ten.",
    alt="Two panels, MNIST's 784 and CIFAR-10's 3072 values. For a share of one both curves "
    "coincide. For smaller shares the dashed curves start hundreds of decades below the solid ones "
    "and below the blind guess, and reach one at much larger epsilon.",
)
def small_priors(result: Result) -> Figure:
    table = result.tables["curves"]
    dimensions = list(dict.fromkeys(table["d"]))
    figure, (row,) = panels(1, len(dimensions), 4.6, 3.5)
    for axis, d in zip(row, dimensions, strict=True):
        own = table[table["d"] == d]
        shares = sorted(set(own["share"]), reverse=True)
        for colour, share in zip((GREY, BLUE, ORANGE, GREEN, PURPLE), shares, strict=False):
            part = own[own["share"] == share]
            axis.plot(part["epsilon"], part["bound"], color=colour, label=rf"$\rho$ = {share:g}")
            axis.plot(part["epsilon"], part["printed bound"], "--", color=colour, lw=1.4)
            axis.plot(part["epsilon"].iloc[0], part["prior"].iloc[0], "<", color=colour, ms=7)
        axis.plot([], [], color="black", label="binomial tail")
        axis.plot([], [], "--", color="black", lw=1.4, label="as printed")
        axis.plot([], [], "<", color="black", ls="none", label="blind guess")
        axis.set(xscale="log", xlabel=r"$\varepsilon$", title=f"d = {d}")
    row[0].set_ylabel(r"log$_{10}$ of the bound on the success")
    row[-1].legend(loc="lower right", fontsize=8)
    return figure


@draws(
    "beyond/data_bound",
    caption="Attacks on trained networks against two bounds: that of paper C, which knows only the "
    "number of candidates, and the one from how far apart the candidates' gradients come. Left: "
    "candidates of one class, as against an attacker who knows the label. Right: candidates of any "
    "class.",
    alt="Two panels over epsilon. In each, from top to bottom: the ReRo bound, the bound from the "
    "data, and the success of the likelihood and of the plain sum with error bars. For ten "
    "candidates of one class the bound from the data is far below the ReRo bound and below the "
    "value for orthogonal candidates.",
)
def data_bound(result: Result) -> Figure:
    table = result.tables["success"]
    kinds = list(dict.fromkeys(table["candidates"]))
    figure, (row,) = panels(1, len(kinds), 4.4, 3.4)
    for axis, kind in zip(row, kinds, strict=True):
        own = table[table["candidates"] == kind]
        n = int(own["n"].iloc[0])
        axis.plot(own["epsilon"], own["bound"], color=GREY, label="ReRo bound")
        axis.plot(own["epsilon"], own["orthogonal"], ":", color=GREY, label="orthogonal candidates")
        axis.plot(own["epsilon"], own["data bound"], "D-", ms=4, color=PURPLE, label="data bound")
        # side by side, since the two scores agree where every gradient is clipped
        for name, marker, colour, aside in (
            ("likelihood", "o", BLUE, 0.985),
            ("sum", "s", ORANGE, 1.015),
        ):
            share = own[name].to_numpy()
            error = _TWO_SIDED * np.sqrt(share * (1 - share) / own["trials"])
            axis.errorbar(aside * own["epsilon"], share, error, fmt=marker, ms=4.5, color=colour,
                          capsize=2, label=f"attack, {name}")  # fmt: skip
        axis.axhline(1 / n, color=GREY, lw=1, ls="-.")
        axis.set(xscale="log", xlabel=r"$\varepsilon$", title=f"{n} candidates of {kind}")
        axis.set_xticks(list(own["epsilon"]), [f"{e:g}" for e in own["epsilon"]])
        axis.minorticks_off()
    row[0].set(ylabel="success", ylim=(0, 1.02))
    row[-1].set_ylim(0.4, 1.02)
    row[0].legend(loc="upper left", fontsize=8)
    return figure
