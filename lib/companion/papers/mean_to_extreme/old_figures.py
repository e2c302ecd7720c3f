"""Drawings of *From Mean to Extreme*."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from reconrisk import bounds
from companion.drawings import draws
from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, PURPLE, panels, picture
from companion.study import Result

KEY = "mean_to_extreme"


@draws(
    f"{KEY}/fig1",
    caption="At the same noise multiplier and clipping norm, a layer with enough rows gets rid of "
    "the noise that a too large clipping norm adds: original (left), one row (middle), a thousand "
    "rows (right).",
    alt="Rows of three pictures: an original photograph, its reconstruction from one row drowned "
    "in noise, and its reconstruction from a thousand rows with only faint grain.",
)
def figure1(result: Result) -> Figure:
    errors = result.tables["errors"]
    indices = sorted(errors["picture"].unique())
    figure, axes = panels(len(indices), 3, 2.6, 2.75)
    for row, index in zip(axes, indices, strict=True):
        of = errors[errors["picture"] == index].sort_values("rows M")
        norm = of["norm"].iloc[0]
        picture(row[0], result.images[f"{index} original"], rf"original, $\|X\|$ = {norm:.0f}")
        for axis, label, (_, cell) in zip(
            row[1:], ("few rows", "many rows"), of.iterrows(), strict=True
        ):
            picture(
                axis,
                result.images[f"{index} {label}"],
                f"M = {cell['rows M']:.0f}, MSE = {cell['MSE']:.3g}",
            )
    return figure


@draws(
    f"{KEY}/prop1",
    caption="The variance of a coordinate falls with the number of rows until the gradient is "
    "clipped, and not a step earlier: the threshold is the square of the printed one.",
    alt="Log-log plot of variance over the least variance against the number of rows. Measured "
    "points follow a line falling as one over M to 1 at M = 100; the printed threshold M = 10 "
    "stands at a ratio of 10.",
)
def proposition1(result: Result) -> Figure:
    table = result.tables["variance"]
    least = table["theory"].min()
    clipping = float(result.settings["max_grad_norm"])
    figure, ((axis,),) = panels(1, 1, 5.6, 3.5)
    axis.plot(table["rows M"], table["theory"] / least, color=GREY, label="closed form")
    axis.errorbar(
        table["rows M"],
        table["variance"] / least,
        yerr=2 * table["standard error"] / least,
        fmt="o",
        color=BLUE,
        ms=5,
        label="measured (2 standard errors)",
    )
    axis.axvline(np.ceil(clipping), color=ORANGE, ls="--", label=r"printed $\lceil C/\|X\|\rceil$")
    axis.axvline(
        np.ceil(clipping**2), color=GREEN, ls="-.", label=r"corrected $\lceil (C/\|X\|)^2\rceil$"
    )
    axis.set(xscale="log", yscale="log", xlabel="rows M", ylabel=r"variance / $\sigma^2\|X\|^2$")
    axis.legend(loc="lower left")
    return figure


_LABEL = {"mse": "MSE", "psnr": "PSNR (dB)", "ncc": "NCC", "nmi": "NMI", "ssim": "SSIM"}


@draws(
    f"{KEY}/fig2",
    caption="Boxplots of 100 four-dimensional reconstructions over the noise multiplier, on the "
    "theory. Rows: C at the smallest norm; C that only several rows reach; C out of reach. Colour: "
    "exact density of the metric over the data set, white low to black high along each sigma. "
    "Dashed: the expectation at the smallest norm (MSE, PSNR) and the printed bound (NCC); dotted: "
    "the largest expectation that the NCC can have.",
    alt="Three by three panels. In the upper two rows the boxes of MSE and PSNR lie on the dark "
    "band of the theoretical density; in the third row the MSE lies far above it and PSNR and NCC "
    "below. Many NCC boxes reach above the dashed bound in the upper rows.",
)
def figure2(result: Result) -> Figure:
    samples, expected = result.tables["samples"], result.tables["expected"]
    dimension = int(result.settings["dimension"])
    sigmas = np.sort(samples["sigma"].unique())
    norms = samples.loc[(samples["row"] == 1) & (samples["sigma"] == sigmas[0]), "norm"].to_numpy()
    figure, axes = panels(3, 3, 3.3, 2.55)
    widths = 0.22 * sigmas
    regimes = (r"$C=\min\|X\|$", r"$C=\sqrt{M}\,\min\|X\|$", r"$C>\sqrt{M}\,\max\|X\|$")
    for row, (line, regime) in enumerate(zip(axes, regimes, strict=True), start=1):
        own = samples[samples["row"] == row]
        for axis, metric in zip(line, ("mse", "psnr", "ncc"), strict=True):
            boxes = [own.loc[own["sigma"] == s, metric].to_numpy() for s in sigmas]
            low, high = min(b.min() for b in boxes), max(b.max() for b in boxes)
            if metric == "mse":
                low, high = max(low / 2, 1e-6), high * 2
                axis.set_yscale("log")
                _density(axis, sigmas, norms, dimension, metric, np.geomspace(low, high, 120))
            elif metric == "psnr":
                low, high = low - 3, high + 3
                _density(axis, sigmas, norms, dimension, metric, np.linspace(low, high, 120))
            else:
                low, high = -1.05, 1.05
            axis.boxplot(
                boxes,
                positions=sigmas,
                widths=widths,
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
            if metric == "ncc":
                axis.plot(
                    expected["sigma"],
                    expected["ncc bound"],
                    "--",
                    color=PURPLE,
                    label=r"printed $1/\sqrt{1+N\sigma^2}$",
                )
                axis.plot(
                    expected["sigma"],
                    expected["ncc exact, data-free"],
                    ":",
                    color=BLUE,
                    label="exact largest E[NCC]",
                )
            else:
                axis.plot(expected["sigma"], expected[metric], "--", color=BLUE)
            axis.set(xscale="log", ylim=(low, high), xlim=(sigmas[0] / 1.35, sigmas[-1] * 1.35))
            axis.set_ylabel(_LABEL[metric])
            axis.xaxis.set_minor_formatter(NullFormatter())
            if row == 3:
                axis.set_xlabel(r"noise multiplier $\sigma$")
            if metric == "psnr":
                axis.set_title(f"row {row}: {regime}")
    handles, labels = axes[0][2].get_legend_handles_labels()
    handles.append(axes[0][0].lines[-1])
    labels.append(r"expectation at $\min\|X\|$ (MSE, PSNR)")
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _density(axis, sigmas, norms, dimension: int, metric: str, values: np.ndarray) -> None:
    """Shade each sigma's exact density over the data set, scaled to its own largest value."""
    edges = np.sqrt(sigmas[:-1] * sigmas[1:])
    edges = np.concatenate([[sigmas[0] ** 2 / edges[0]], edges, [sigmas[-1] ** 2 / edges[-1]]])
    shade = np.empty((values.size, sigmas.size))
    for column, sigma in enumerate(sigmas):
        if metric == "mse":
            law = bounds.mse_density(values[:, None], dimension, sigma, norms[None, :]).mean(axis=1)
            law = law * values  # per unit of log MSE, as the axis shows it
        else:
            law = bounds.psnr_density(values[:, None], dimension, sigma, norms[None, :], 1.0).mean(
                axis=1
            )
        shade[:, column] = law / law.max()
    axis.pcolormesh(edges, _edges(values), shade, cmap="Greys", vmin=0, vmax=1.6, rasterized=True)


def _edges(values: np.ndarray) -> np.ndarray:
    """Cell edges around grid values that are equally spaced or geometric."""
    if values[0] > 0 and not np.isclose(values[1] - values[0], values[-1] - values[-2]):
        inner = np.sqrt(values[:-1] * values[1:])
        return np.concatenate([[values[0] ** 2 / inner[0]], inner, [values[-1] ** 2 / inner[-1]]])
    inner = (values[:-1] + values[1:]) / 2
    return np.concatenate([[2 * values[0] - inner[0]], inner, [2 * values[-1] - inner[-1]]])


@draws(
    f"{KEY}/fig3",
    caption="Risk of a reconstruction within an MSE threshold (left) or above a PSNR threshold "
    "(right), while the noise (top), the dimension (middle) and the smallest norm (bottom) vary; "
    "everything else is 1. Dashed: expectations.",
    alt="Six panels of risk curves. More noise and a larger norm shift the MSE curves right and "
    "the PSNR curves left; a larger dimension makes both steeper around their mean.",
)
def figure3(result: Result) -> Figure:
    curves = result.tables["curves"]
    figure, axes = panels(3, 2, 3.9, 2.5)
    names = {1: r"$\sigma$", 2: "N", 3: r"$\min\|X\|$"}
    for row, line in enumerate(axes, start=1):
        own = curves[curves["row"] == row]
        for colour, (value, curve) in zip(COLOURS, own.groupby("value"), strict=False):
            label = f"{value:g}"
            line[0].plot(curve["MSE"], curve["P(MSE <= eta)"], color=colour, label=label)
            line[1].plot(curve["PSNR"], curve["P(PSNR >= eta)"], color=colour, label=label)
            line[0].axvline(curve["expected MSE"].iloc[0], color=colour, ls="--", lw=1)
            line[1].axvline(curve["expected PSNR"].iloc[0], color=colour, ls="--", lw=1)
        line[0].set(xscale="log", ylabel=r"risk $\gamma(\eta)$")
        line[1].legend(loc="upper right", handlelength=1.2, title=names[row])
        line[0].xaxis.set_major_locator(LogLocator(numticks=7))
    axes[0][0].set_title(r"P(MSE $\leq \eta$)")
    axes[0][1].set_title(r"P(PSNR $\geq \eta$)")
    axes[-1][0].set_xlabel(r"MSE threshold $\eta$")
    axes[-1][1].set_xlabel(r"PSNR threshold $\eta$ (dB)")
    return figure


@draws(
    f"{KEY}/fig4",
    caption="Six similarities of photographs and their reconstructions over the noise multiplier: "
    "NMI, SSIM and a perceptual loss follow the metrics that can be bounded. Points: pictures; "
    "line: mean; dashed: exact expectation, where there is one.",
    alt="Six panels over a logarithmic noise multiplier. MSE rises steadily, PSNR falls "
    "linearly, NCC, NMI and SSIM fall from one level to another in an S-shape, and the perceptual "
    "loss rises and levels off.",
)
def figure4(result: Result) -> Figure:
    table = result.tables["metrics"]
    figure, axes = panels(2, 3, 3.3, 2.6)
    sigma = np.sort(table["sigma"].unique())
    fine = np.geomspace(sigma[0], sigma[-1], 80)
    by_picture = table.groupby("picture")[["norm", "contrast"]].first()
    dimension = 3 * int(result.settings["size"]) ** 2
    expected = {
        "mse": np.mean([bounds.expected_mse(fine, n) for n in by_picture["norm"]], axis=0),
        "psnr": np.mean(
            [bounds.expected_psnr(dimension, fine, n, 1.0) for n in by_picture["norm"]], axis=0
        ),
        "ncc": np.mean(
            [bounds.expected_ncc(dimension, fine, contrast=c) for c in by_picture["contrast"]],
            axis=0,
        ),
    }
    perceptual = result.ran.rpartition("perceptual loss: ")[2].rstrip(".")
    labels = {**_LABEL, "perceptual_loss": perceptual}
    for axis, metric in zip((a for line in axes for a in line), labels, strict=True):
        axis.scatter(table["sigma"], table[metric], s=10, color=BLUE, alpha=0.55, lw=0)
        means = table.groupby("sigma")[metric].mean()
        axis.plot(means.index, means, color=BLUE, label="mean")
        if metric in expected:
            axis.plot(fine, expected[metric], "--", color=ORANGE, label="exact expectation")
        axis.set(xscale="log", title=labels[metric])
        if metric == "mse":
            axis.set_yscale("log")
            axis.legend()
    for axis in axes[-1]:
        axis.set_xlabel(r"noise multiplier $\sigma$")
    return figure


@draws(
    f"{KEY}/fig5",
    caption="The same picture, rebuilt once as it is and once multiplied by a = 10, at the same "
    "noise multiplier and with C at its norm: it looks the same, its MSE is a^2 times as large.",
    alt="Three pictures: the target photograph and two reconstructions with the same light noise; "
    "the MSE printed over the second is a hundred times that of the first.",
)
def figure5(result: Result) -> Figure:
    errors = result.tables["errors"].set_index("scale")["MSE"]
    factor = float(result.settings["factor"])
    figure, (row,) = panels(1, 3, 2.7, 2.9)
    picture(row[0], result.images["target"], "target")
    picture(row[1], result.images["original"], f"MSE = {errors['original']:.3g}")
    picture(
        row[2],
        result.images["scaled"],
        f"times {factor:g} (shown / {factor:g}): MSE = {errors['scaled']:.3g}",
    )
    return figure


@draws(
    f"{KEY}/fig6",
    caption="One photograph in three scenarios (224 pixels in (0, 1); the same in (0, 255); 64 "
    "pixels) over the noise multiplier, with the metrics below: the same threshold means another "
    "picture in each. Frames match the curves.",
    alt="Three rows of reconstructions from clear to pure noise; the 64-pixel row stays "
    "recognisable for longer. Below, curves of MSE, PSNR, NCC and SSIM differ between scenarios.",
)
def figure6(result: Result) -> Figure:
    from matplotlib import pyplot as plt

    table = result.tables["metrics"]
    sigmas = np.sort(table["sigma"].unique())
    colours = dict(zip((1, 2, 3), (BLUE, ORANGE, GREEN), strict=True))
    styles = {1: "-", 2: "--", 3: "-."}
    names = {1: "1: 224 px, (0, 1)", 2: "2: 224 px, (0, 255)", 3: "3: 64 px, (0, 1)"}
    figure = plt.figure(figsize=(9.6, 7.4), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[1.55, 1])
    grid = upper.subplots(3, sigmas.size)
    for scenario, line in zip((1, 2, 3), grid, strict=True):
        for axis, sigma in zip(line, sigmas, strict=True):
            title = rf"$\sigma$ = {sigma:g}" if scenario == 1 else ""
            picture(axis, result.images[f"{scenario} {sigma:g}"], title, colours[scenario])
        line[0].set_ylabel(f"scenario {scenario}")
    axes = lower.subplots(1, 4)
    labels = {"mse": "MSE", "psnr": "PSNR, range 1 (dB)", "ncc": "NCC", "ssim": "SSIM"}
    for axis, (metric, label) in zip(axes, labels.items(), strict=True):
        for scenario, own in table.groupby("scenario"):
            axis.plot(
                own["sigma"],
                own[metric],
                styles[scenario],
                marker="o",
                ms=3,
                color=colours[scenario],
                label=names[scenario],
            )
        axis.set(xscale="log", title=label, xlabel=r"$\sigma$")
        if metric == "mse":
            axis.set_yscale("log")
    lower.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
