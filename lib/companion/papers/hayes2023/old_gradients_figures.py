"""Pictures of the exhibits of Hayes et al. 2023 that reconstruct without candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

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
    picture,
)
from companion.study import Result
from companion.study.recorded import NoPicture

__all__: list[str] = []

KEY = "hayes2023"

_EPSILON = r"$\varepsilon$ at $\delta = 10^{-5}$"
_PANELS = (("grey", "a"), ("colour", "b"))


def _epsilon_axis(axes: Axes, *, label: bool = True) -> None:
    """A logarithmic axis of epsilon, labelled at whole decades."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if label:
        axes.set_xlabel(_EPSILON)


def _with_interval(
    axis: Axes, table: pd.DataFrame, value: str, colour: str, *, hollow: bool = False
) -> None:
    """Points with 95% intervals, joined."""
    errors = np.maximum([table[value] - table["low"], table["high"] - table[value]], 0)
    axis.errorbar(
        table["epsilon"],
        table[value],
        yerr=errors,
        color=colour,
        marker="s" if hollow else "o",
        markersize=4.5,
        markerfacecolor="white" if hollow else colour,
        linewidth=1.3,
        capsize=2.5,
        elinewidth=1,
        zorder=3,
    )


def _tens(value: float) -> str:
    """A round number, from 10,000 on as a power of ten."""
    if value < 1e4:
        return f"{value:g}"
    power = int(np.floor(np.log10(value) + 1e-9))
    factor = round(value / 10.0**power, 6)
    return rf"$10^{{{power}}}$" if factor == 1 else rf"${factor:g}\cdot 10^{{{power}}}$"


# Figure 1 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig1",
    caption="Mean squared error of reconstructions without candidates over epsilon: grey images on "
    "the left, colour images with last-layer fine-tuning on the right. The gradient-based attack "
    "sees every step's gradient, the model-based one only the final model. Horizontal lines: the "
    "average error between nearest neighbours and between uniform images, as in the paper, and "
    "that of the mean image. Shaded: where, by the paper, good reconstructions begin on its data. "
    "Guo et al.'s bound is drawn with the DP epsilon, as printed, and with the order-2 Renyi "
    "divergence, as is correct. Added: the Cramer-Rao error of an unbiased attack at these very "
    "models, and what clipping to the pixels' range makes of it.",
    alt="Two panels with logarithmic axes. Blue points of the gradient-based attack fall from "
    "0.1 or more to below 0.005 as epsilon grows to 100,000, crossing the nearest neighbours' line "
    "between 1,000 and 10,000 or just before. Orange squares of the model-based "
    "attack stay near the mean image's error up to 1,000. Two curves of Guo's bound drop out of "
    "the picture before epsilon = 20. Dotted theory lines accompany the blue points.",
)
def figure1(result: Result) -> Figure:
    tables = result.tables
    figure, axes = panels(1, 2, width=4.5, height=3.6)
    printed = {"grey": (1e2, 1e3), "colour": (1e3, 1e4)}
    lines = tables["baselines"].set_index("data")
    for axis, (which, panel) in zip(axes[0], _PANELS, strict=True):
        mine = tables["attack"][tables["attack"]["data"] == which]
        models = tables["model-based"][tables["model-based"]["data"] == which]
        axis.axvspan(*printed[which], color=GREY, alpha=0.12, linewidth=0)
        for name, style in (("uniform", ":"), ("mean image", "-."), ("nearest neighbour", "--")):
            axis.axhline(lines.loc[which, name], color=GREY, linestyle=style, linewidth=1.3)
        bound = tables["bound"]
        for column, colour in (("log with DP epsilon", PURPLE), ("log corrected", GREEN)):
            axis.plot(bound["epsilon"], np.exp(bound[column]), color=colour, linestyle="-")
        axis.plot(mine["epsilon"], mine["linearised"], color=BLUE, linestyle=":", linewidth=1.2)
        axis.plot(
            mine["epsilon"], mine["linearised and clipped"], color=BLUE, linestyle="--",
            linewidth=1.2,
        )  # fmt: skip
        _with_interval(axis, mine, "MSE", BLUE)
        spread = 1.96 * models["standard error"]
        shown = models.assign(
            low=models["model-based"] - spread, high=models["model-based"] + spread
        )
        _with_interval(axis, shown, "model-based", ORANGE, hollow=True)
        axis.set(yscale="log", ylim=(min(1e-4, 0.5 * mine["linearised and clipped"].min()), 4))
        _epsilon_axis(axis)
        axis.set_xlim(0.7, 1.4 * mine["epsilon"].max())
        title = f"({panel}) {lines.loc[which, 'name']}"
        features = lines.loc[which, "feature map"]
        if isinstance(features, str) and features:  # an empty cell is read back as no text
            title += f"\n{features}"
        axis.set_title(title, loc="left")
    axes[0][0].set_ylabel("mean squared error")
    legend_above(
        figure,
        [
            legend_line("gradient-based, eq. (1)", BLUE, "-", "o"),
            legend_line("model-based", ORANGE, "-", "s", markerfacecolor="white"),
            legend_line("Cram\u00e9r\u2013Rao, unbiased", BLUE, ":"),
            legend_line("the same, clipped to [0, 1]", BLUE, "--"),
            legend_line("nearest neighbours", GREY, "--"),
            legend_line("mean image", GREY, "-."),
            legend_line("uniform images", GREY, ":"),
            legend_line("Guo et al., as printed", PURPLE),
            legend_line("Guo et al., corrected", GREEN),
        ],
        3,
    )
    return figure


# Figure 6 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig6",
    caption="Examples of gradient-based reconstructions over epsilon: targets on the left, then "
    "what the attack makes of the noisy gradients. Grey images on top, colour images below.",
    alt="Two blocks of small pictures. In each row the target stands on the left. The "
    "reconstructions are noise up to epsilon = 100, recognisable at 1,000, and nearly equal to the "
    "target at the largest epsilon.",
)
def figure6(result: Result) -> Figure:
    found = result.tables["found"]
    counts = {
        which: len({name.split()[1] for name in result.images if name.startswith(which)})
        for which, _ in _PANELS
    }
    widest = 1 + max((found["data"] == which).sum() for which, _ in _PANELS)
    rows = sum(counts.values())
    figure, axes = plt.subplots(
        rows, widest, figsize=(0.98 * widest, 1.0 * rows + 0.5), squeeze=False, layout="constrained"
    )
    row = 0
    for which, panel in _PANELS:
        epsilons = found.loc[found["data"] == which, "epsilon"]
        for i in range(counts[which]):
            line = axes[row]
            names = ["target", *(f"{e:g}" for e in epsilons)]
            titles = [f"({panel}) target", *(rf"$\varepsilon$ = {_tens(e)}" for e in epsilons)]
            for axis, name, title in zip(line, names, titles, strict=False):
                picture(axis, result.images[f"{which} {i} {name}"], title if i == 0 else "")
            for axis in line[len(names) :]:
                axis.set_axis_off()
            row += 1
    return figure


# Figure 8 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig8",
    caption="What knowing the candidates is worth: probability of picking the target out of a "
    "prior of n images. The gradient-based attack reconstructs first, without the prior, and takes "
    "the nearest candidate; the prior-aware attack (Algorithm 2) scores the candidates. The paper "
    "speaks of an order of magnitude of success; that is impossible for two and for eight "
    "candidates, and what differs is epsilon. Added: the likelihood score, which does "
    "not lose where gradients are not clipped, the bound, and the best success for orthogonal "
    "gradients. 95% intervals over the targets.",
    alt="Three panels for priors of 2, 8 and 128 over epsilon. All curves rise to one, from "
    "guessing or, for the gradient-based attack where noise is large, from below it. The "
    "prior-aware attack rises at an epsilon several times smaller than the gradient-based one. At "
    "large epsilon Algorithm 2 levels off below one, most at 128 candidates, while the "
    "likelihood score and the gradient-based attack reach one.",
)
def figure8(result: Result) -> Figure:
    table, theory = result.tables["success"], result.tables["bound"]
    sizes = list(dict.fromkeys(table["prior size"]))
    figure, axes = panels(1, len(sizes), width=3.1, height=3.0)
    for axis, size in zip(axes[0], sizes, strict=True):
        curve = theory[theory["prior size"] == size]
        axis.plot(curve["epsilon"], curve["bound"], color=GREEN, linewidth=1.3)
        axis.plot(curve["epsilon"], curve["orthogonal"], color=GREEN, linestyle=":", linewidth=1.3)
        axis.axhline(1 / size, color=GREY, linestyle=":", linewidth=1.2)
        for attack, colour, hollow in (
            ("gradient-based", BLUE, False),
            ("prior-aware", ORANGE, True),
            ("prior-aware, likelihood", PURPLE, True),
        ):
            mine = table[(table["prior size"] == size) & (table["attack"] == attack)]
            _with_interval(axis, mine, "success", colour, hollow=hollow)
        _epsilon_axis(axis)
        axis.set(ylim=(-0.03, 1.05))
        axis.set_title(f"prior of {size}", loc="left")
    axes[0][0].set_ylabel("reconstruction success")
    legend_above(
        figure,
        [
            legend_line("gradient-based, then nearest candidate", BLUE, "-", "o"),
            legend_line("prior-aware, Algorithm 2", ORANGE, "-", "s", markerfacecolor="white"),
            legend_line("prior-aware, likelihood", PURPLE, "-", "s", markerfacecolor="white"),
            legend_line("bound on every attack", GREEN),
            legend_line("best with orthogonal gradients", GREEN, ":"),
            legend_line("guessing", GREY, ":"),
        ],
        3,
    )
    return figure


# Figure 12 ---------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig12",
    caption="Success without candidates: a reconstruction succeeds if a share rho of its pixels "
    "are less than 32/255 off. Top: the attack with 95% intervals, one colour for each rho, and "
    "the bound for uniform images, solid with the exact prior success (a binomial tail), dashed "
    "as printed (a power, which at rho < 1 counts one choice of pixels only and is no bound). "
    "Crosses at the left edge: an all-black image, which has seen nothing; where it is above the "
    "bound, the images are not uniform. Below: for each rho the reconstruction that only just "
    "meets it, beside its target.",
    alt="Top: two panels over epsilon. For each rho a solid bound rises from zero to one, its "
    "dashed printed counterpart later, and the attack's points later still, the later the larger "
    "rho. At rho = 1 solid and dashed coincide nearly. Below, where a run keeps "
    "pictures: pairs of them; at rho = 0.6 the reconstruction is noisy but resembles its target, "
    "at 1 it equals it to the eye.",
)
def figure12(result: Result) -> Figure:
    table, theory = result.tables["success"], result.tables["bound"]
    shares = sorted(table["rho"].unique())
    pictures = _stored_pictures(result)
    figure = plt.figure(figsize=(9.4, 6.0 if pictures else 3.4), layout="constrained")
    if pictures:
        top, bottom = figure.subfigures(2, 1, height_ratios=(3.2, 2.6))
    else:
        top = figure.subfigures()
    for axis, (which, panel) in zip(top.subplots(1, 2, sharey=True), _PANELS, strict=True):
        for share, colour in zip(shares, COLOURS, strict=False):
            curve = theory[(theory["data"] == which) & np.isclose(theory["rho"], share)]
            for name, style in (("exact", "-"), ("printed", "--")):
                axis.plot(
                    curve["epsilon"],
                    10.0 ** curve[f"log10 bound, {name}"],
                    color=colour,
                    linestyle=style,
                    linewidth=1.2,
                )
            mine = table[(table["data"] == which) & (table["rho"] == share)]
            _with_interval(axis, mine, "success", colour)
            axis.plot(0.8, mine["black image"].iloc[0], marker="x", color=colour, zorder=4)
        _epsilon_axis(axis)
        axis.set(ylim=(-0.03, 1.05), xlim=(0.65, 1.5e5))
        axis.set_title(
            f"({panel}) {'grey' if which == 'grey' else 'colour'} images, "
            f"d = {theory.loc[theory['data'] == which, 'dimension'].iloc[0]}",
            loc="left",
        )
        if which == "grey":
            axis.set_ylabel("reconstruction success")
    top.legend(
        handles=[
            *(
                legend_line(rf"attack, $\rho$ = {share:g}", colour, "-", "o")
                for share, colour in zip(shares, COLOURS, strict=False)
            ),
            legend_line("bound", GREY),
            legend_line("bound as printed", GREY, "--"),
            legend_line("black image, nothing seen", GREY, "", "x"),
        ],
        loc="outside upper center",
        ncols=4,
        handlelength=1.8,
        columnspacing=1.2,
    )
    if pictures:
        _pairs(bottom, pictures, shares)
    return figure


def _stored_pictures(result: Result) -> dict[str, np.ndarray]:
    """A result's pictures; none of a recorded run, which keeps tables only."""
    try:
        return dict(result.images)
    except NoPicture:
        return {}


def _pairs(figure, pictures: dict[str, np.ndarray], shares: Sequence[float]) -> None:
    """Targets and reconstructions in two rows, grey images on the left."""
    axes = figure.subplots(2, 2 * len(shares))
    for axis in axes.ravel():
        axis.set_axis_off()
    for start, (which, panel) in zip(
        (0, len(shares)), (("grey", "c"), ("colour", "d")), strict=True
    ):
        names = [n.rpartition(" ")[0] for n in pictures if n.startswith(f"{which} ")]
        by_share = {n.split()[1]: n for n in names}
        for i, share in enumerate(shares):
            name = by_share.get(f"{share:g}")
            if name is None:
                continue
            _, _, fits, epsilon = name.split()
            title = rf"$\rho$ = {share:g}"
            for axis, what in zip(axes[:, start + i], ("target", "rebuilt"), strict=True):
                axis.set_axis_on()
                picture(axis, pictures[f"{name} {what}"])
            axes[0, start + i].set_title(
                f"({panel}) {title}" if i == 0 else title, fontsize=9, loc="left"
            )
            axes[1, start + i].set_xlabel(
                f"{float(fits):.0%} fit\n" + rf"$\varepsilon$ = {_tens(float(epsilon))}", fontsize=8
            )


# The algorithms ----------------------------------------------------------------------------------


@draws(
    f"{KEY}/alg_gradient_based",
    caption="The gradient-based attack with different losses on the same gradients: error of the "
    "best candidates so far over the iterations of Adam. Grey: the rank-one start, which needs no "
    "iteration and is exact without noise. The paper ran a million iterations of gradient descent "
    "and found eq. (1) best; under Gaussian noise the squared distance, which is the likelihood, "
    "ends lower.",
    alt="One panel per epsilon with falling curves for five losses, logarithmic axes. All level "
    "off within some two hundred iterations. The squared distance ends lowest or nearly so, eq. "
    "(1) and the L1 distance above it.",
)
def gradient_based(result: Result) -> Figure:
    trace, errors = result.tables["trace"], result.tables["errors"]
    epsilons = list(dict.fromkeys(trace["epsilon"]))
    columns = min(2, len(epsilons))
    figure, rows = panels(math.ceil(len(epsilons) / columns), columns, width=4.1, height=3.1)
    axes = [axis for row in rows for axis in row]
    losses = list(dict.fromkeys(trace["loss"]))
    styles = ("-", "-", "--", ":", "-.")
    for axis in axes[len(epsilons) :]:
        axis.set_axis_off()
    for axis, epsilon in zip(axes, epsilons, strict=False):
        start = errors[(errors["epsilon"] == epsilon) & (errors["loss"] == "rank-one start")]
        axis.axhline(start["mean"].iloc[0], color=GREY, linewidth=1.2)
        for loss, colour, style in zip(losses, COLOURS, styles, strict=False):
            mine = trace[(trace["epsilon"] == epsilon) & (trace["loss"] == loss)]
            axis.plot(mine["iteration"], mine["error"], color=colour, linestyle=style)
        axis.set(xscale="log", yscale="log", xlabel="iterations of Adam")
        axis.set_title(rf"$\varepsilon$ = {_tens(epsilon)}", loc="left")
    for row in rows:
        row[0].set_ylabel("mean squared error")
    legend_above(
        figure,
        [
            *(legend_line(n, c, s) for n, c, s in zip(losses, COLOURS, styles, strict=False)),
            legend_line("rank-one start", GREY),
        ],
        3,
    )
    return figure


@draws(
    f"{KEY}/alg_model_based",
    caption="The model-based attack: a network learns from shadow models to map the final weights "
    "to the one record it does not know. Without noise (rightmost) it beats ridge regression and "
    "comes to the nearest neighbours' error; under DP noise it falls back to the mean image.",
    alt="Error over epsilon, the rightmost point without noise. The reconstructor and the ridge "
    "regression start at the mean image's line for small epsilon and fall; only at the right end "
    "does the reconstructor come near the nearest neighbours' line.",
)
def model_based(result: Result) -> Figure:
    table = result.tables["model-based"]
    figure, axes = panels(1, 1, width=5.6, height=3.3)
    axis = axes[0][0]
    spread = 1.96 * table["standard error"]
    shown = table.assign(low=table["model-based"] - spread, high=table["model-based"] + spread)
    _with_interval(axis, shown, "model-based", ORANGE, hollow=True)
    axis.plot(table["epsilon"], table["ridge"], color=PURPLE, marker="o", markersize=4.5)
    axis.axhline(table["mean image"].iloc[0], color=GREY, linestyle="-.", linewidth=1.3)
    axis.axhline(table["nearest neighbour"].iloc[0], color=GREY, linestyle="--", linewidth=1.3)
    _epsilon_axis(axis)
    axis.set(yscale="log", ylabel="mean squared error")
    axis.annotate(
        "no noise",
        (table["epsilon"].iloc[-1], table["model-based"].iloc[-1]),
        xytext=(-8, 12),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        color=GREY,
    )
    legend_above(
        figure,
        [
            legend_line("reconstructor network", ORANGE, "-", "s", markerfacecolor="white"),
            legend_line("ridge regression", PURPLE, "-", "o"),
            legend_line("mean image", GREY, "-."),
            legend_line("nearest neighbours", GREY, "--"),
        ],
        2,
    )
    return figure


@draws(
    f"{KEY}/alg_postprocess",
    caption="Turning a reconstruction into a success: it wins if its target is the nearest image "
    "of a random prior. Points: random priors, as in the paper; line: the average over all priors, "
    "which follows from the number of images nearer than the target.",
    alt="Success over epsilon rising from about one in ten to one; the points lie on the line.",
)
def postprocess(result: Result) -> Figure:
    table = result.tables["conversion"]
    figure, axes = panels(1, 1, width=5.6, height=3.0)
    axis = axes[0][0]
    axis.plot(table["epsilon"], table["exact"], color=BLUE)
    axis.scatter(
        table["epsilon"], table["sampled"], s=30, facecolor="white", edgecolor=ORANGE, zorder=3
    )
    _epsilon_axis(axis)
    axis.set(ylabel="reconstruction success", ylim=(-0.03, 1.05))
    legend_above(
        figure,
        [
            legend_line("average over all priors", BLUE),
            legend_line("random priors", ORANGE, "", "o", markerfacecolor="white"),
        ],
        2,
    )
    return figure
