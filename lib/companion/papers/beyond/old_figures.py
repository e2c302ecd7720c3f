"""Drawings of the companion's own exhibits."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, panels


@draws(
    "beyond/ncc_law",
    caption="P(NCC >= threshold) of one record, exactly (line), simulated through the real DP-SGD "
    "step (points), and without knowing the data (dashed): the statement that paper A says cannot "
    "be had.",
    alt="One panel per dimension. Simulated points lie on the exact survival curve of the NCC; the "
    "dashed data-free curve lies above it. With growing dimension the curves drop more steeply.",
)
def ncc_law(result: Result) -> Figure:
    curves = result.tables["curves"]
    dimensions = list(dict.fromkeys(curves["N"]))
    figure, (row,) = panels(1, len(dimensions), 3.2, 2.8)
    for axis, dimension in zip(row, dimensions, strict=True):
        own = curves[curves["N"] == dimension]
        axis.plot(own["threshold"], own["exact"], color=BLUE, label="exact")
        axis.plot(own["threshold"], own["data-free"], "--", color=ORANGE, label="data-free")
        some = own.iloc[::10]
        axis.plot(some["threshold"], some["simulated"], "o", color=GREY, ms=4, label="simulated")
        axis.set(title=f"N = {dimension:g}", xlabel=r"threshold $\eta$", ylim=(-0.03, 1.03))
    row[0].set_ylabel(r"P(NCC $\geq \eta$)")
    row[0].legend(loc="lower left")
    return figure


@draws(
    "beyond/ncc_exceedance",
    caption="The share of single reconstructions whose NCC exceeds the printed bound (left) and "
    "the exact expected NCC over that bound (right), for centred data.",
    alt="Left: shares between about one third and two thirds that tend to one half as the "
    "dimension grows. Right: the expected NCC over the bound exceeds one at small dimensions and "
    "large noise and tends to one.",
)
def ncc_exceedance(result: Result) -> Figure:
    table = result.tables["exceedance"]
    figure, (row,) = panels(1, 2, 4.3, 3.1)
    for colour, marker, (sigma, own) in zip(COLOURS, "os^Dv", table.groupby("sigma"), strict=False):
        label = rf"$\sigma$ = {sigma:g}"
        row[0].plot(own["N"], own["share above"], marker=marker, ms=4, color=colour, label=label)
        row[1].plot(own["N"], own["expected NCC"] / own["bound"], marker=marker, ms=4, color=colour)
    row[0].axhline(0.5, color=GREY, lw=1, ls=":")
    row[1].axhline(1, color=GREY, lw=1, ls=":")
    row[0].set(xscale="log", xlabel="dimension N", ylabel="share above the printed bound")
    row[1].set(xscale="log", xlabel="dimension N", ylabel="E[NCC] / printed bound")
    row[0].legend()
    return figure


@draws(
    "beyond/many_steps",
    caption="The averaged attack when every step picks one of |D| records: exact probability of "
    "success (left) and expected MSE given that the record is met at all (right), over the number "
    "of steps. Dashed: every step a hit.",
    alt="Left: success probabilities rise with the number of steps, later for larger data sets, "
    "all below the dashed curve of certain hits. Right: the expected MSE stays flat until the "
    "record is met several times and then falls as one over T.",
)
def many_steps(result: Result) -> Figure:
    table = result.tables["mixture"]
    figure, (row,) = panels(1, 2, 4.4, 3.2)
    for colour, marker, (size, own) in zip(COLOURS, "os^Dv", table.groupby("|D|"), strict=False):
        row[0].plot(
            own["T"],
            own["P(MSE <= eta)"],
            marker=marker,
            ms=4,
            color=colour,
            label=f"|D| = {size:g}",
        )
        row[1].plot(own["T"], own["E[MSE | met]"], marker=marker, ms=4, color=colour)
    certain = table[table["|D|"] == table["|D|"].min()]
    row[0].plot(certain["T"], certain["every step a hit"], "--", color=GREY, label="every step")
    row[0].set(
        xscale="log", yscale="log", ylim=(1e-12, 3), xlabel="steps T", ylabel=r"P(MSE $\leq \eta$)"
    )
    row[1].set(xscale="log", yscale="log", xlabel="steps T", ylabel=r"E[MSE | met] / $\|X\|^2$")
    row[0].legend(loc="lower right")
    return figure


_STYLE = {
    "X_hat": (GREY, "o", "-"),
    "shrunken": (BLUE, "s", "-"),
    "James-Stein": (PURPLE, "D", "-"),
    "clipped to [0, 1]": (GREEN, "^", "-"),
    "offset 1/2": (ORANGE, "v", "-"),
    "offset 1/2, clipped": ("#56B4E9", "P", "-"),
    "scaled direction": ("#B2182B", "*", "-"),
}


@draws(
    "beyond/estimators",
    caption='Measured MSE over that of the "optimal" reconstruction (1, dotted) on three data '
    "sets. Points: measured through the real DP-SGD step; lines: exact expectations (James-Stein: "
    "through the points).",
    alt="Six log-log panels over the noise multiplier. Shrunken, James-Stein, clipped and offset "
    "reconstructions all lie below the line at one; at large noise shrinkage and clipping are "
    "smaller by orders of magnitude.",
)
def estimators(result: Result) -> Figure:
    table = result.tables["ratios"]
    names = list(dict.fromkeys(table["data"]))
    figure, rows = panels(-(-len(names) // 3), 3, 3.4, 2.7)
    axes = [axis for row in rows for axis in row]
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    for index, (axis, name) in enumerate(zip(axes, names, strict=False)):
        own = table[table["data"] == name]
        for label, cells in own.groupby("reconstruction", sort=False):
            colour, marker, line = _STYLE[label]
            if label == "X_hat":
                axis.axhline(1, color=colour, ls=":")
                continue
            known = cells["theory"].where(cells["theory"].notna(), cells["ratio"])
            axis.plot(cells["sigma"], known, line, color=colour, lw=1.3)
            axis.plot(cells["sigma"], cells["ratio"], marker, color=colour, ms=4.5, label=label)
        axis.set(
            xscale="log",
            yscale="log",
            title=name if " N = " in name else f"{name}, N = {own['N'].iloc[0]:,}",
        )
        if index % 3 == 0:
            axis.set_ylabel(r"MSE / $\sigma^2\|X\|^2$")
        if index + 3 >= len(names):
            axis.set_xlabel(r"noise multiplier $\sigma$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


@draws(
    "beyond/corrected_rero",
    caption='How often a reconstruction comes within an MSE threshold: the "optimal" X-hat, the '
    "shrunken one, the exact bound for every estimator that knows the norm (attained), and "
    "closed-form ReRo, which holds for every attack and network. Points: simulated.",
    alt="One panel per dimension and noise. The curve of X-hat rises late and lies far below the "
    "sphere bound, on which the simulated scaled-direction points lie; the ReRo curve is highest.",
)
def corrected_rero(result: Result) -> Figure:
    curves, simulated = result.tables["curves"], result.tables["simulated"]
    groups = list(dict.fromkeys(zip(curves["N"], curves["sigma"], strict=True)))
    figure, (row,) = panels(1, len(groups), 3.4, 3.2)
    for axis, (dimension, sigma) in zip(row, groups, strict=True):
        own = curves[(curves["N"] == dimension) & (curves["sigma"] == sigma)]
        axis.plot(own["relative"], own["ReRo"], "--", color=GREY, label="closed-form ReRo")
        axis.plot(own["relative"], own["sphere bound"], color="#B2182B", label="sphere bound")
        axis.plot(own["relative"], own["shrunken"], color=BLUE, label="shrunken")
        axis.plot(own["relative"], own["X_hat"], color=ORANGE, label=r"$\hat X$ (paper A)")
        points = simulated[(simulated["N"] == dimension) & (simulated["sigma"] == sigma)]
        for label, cells in points.groupby("reconstruction"):
            colour, marker, _ = _STYLE[label]
            axis.plot(
                cells["relative"],
                cells["share"],
                marker,
                color=colour,
                zorder=5,
                ms=11 if marker == "*" else 5,
                mec="white",
                mew=0.6,
                label=label.replace("X_hat", r"$\hat X$") + ", simulated",
            )
        axis.set(
            title=rf"N = {dimension:g}, $\sigma$ = {sigma:g}",
            ylim=(-0.03, 1.03),
            xlabel=r"threshold $N\eta\,/\,\|X\|^2$",
        )
    row[0].set_ylabel(r"P(MSE $\leq \eta$)")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


@draws(
    "beyond/unknown_scale",
    caption="The price of not knowing the scale: median MSE with the scale estimated from the "
    "noisy bias gradients over that with it known, for several fixed input scales a (left; lines: "
    "expected price to first order, above the median where the scale's error dominates), and how "
    "often the estimate of the scale fails (right).",
    alt="Left: points for four input scales lie on horizontal lines, the lowest just above one. "
    "Right: the share of failed reconstructions is zero at small noise and rises beyond a noise "
    "multiplier of about a tenth, first for the largest input scale.",
)
def unknown_scale(result: Result) -> Figure:
    table = result.tables["price"]
    figure, (row,) = panels(1, 2, 4.4, 3.2)
    groups = table.groupby("a ||X||", sort=False)
    for colour, marker, (scaled, own) in zip(COLOURS, "os^D", groups, strict=False):
        row[0].plot(own["sigma"], own["first order"], color=colour, lw=1.2)
        row[0].plot(
            own["sigma"],
            own["median ratio"],
            marker,
            ms=5,
            color=colour,
            label=rf"$a\,\|X\|$ = {scaled:g}",
        )
        row[1].plot(own["sigma"], own["share above four times"], marker=marker, ms=4, color=colour)
    row[0].set(
        xscale="log",
        xlabel=r"noise multiplier $\sigma$",
        ylim=(0.9, None),
        ylabel="median MSE, scale estimated / known",
    )
    row[1].set(
        xscale="log", xlabel=r"noise multiplier $\sigma$", ylabel="share above four times the line"
    )
    row[1].legend(*row[0].get_legend_handles_labels(), loc="upper left")
    return figure
