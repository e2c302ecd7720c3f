"""Figures 5 to 8: one picture at three resolutions and one C, over the noise multipliers."""

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch.nn.functional import adaptive_avg_pool2d

from companion.exhibit import *
from companion.papers.ziller2024.attacked_photographs import (
    CLIP_RATIOS,
    RESOLUTIONS,
    one_picture,
    rebuild,
    sigmas_parameter,
)
from companion.papers.ziller2024.metric_axes import plain
from reconrisk import DPSGD

__all__ = [
    "displayed",
    "draw",
    "least_noise",
    "on_the_middle",
    "parameters",
    "picture_grid",
    "shape_of",
]

#: pixels a side of a picture in a figure; larger ones are averaged down to it, as a screen would
SHOWN = 256
#: pixels a side of the part that is shown as it is of a picture that is averaged
PART = 64


def parameters(row: int) -> dict[str, Parameter]:
    """Return the parameters of one of Figures 5 to 8: pictures at the C of a row of Figure 3."""
    sigmas, ratio = (1e-5, 1e-4, 3e-4, 1e-3, 1e-2), CLIP_RATIOS[row]
    meaning = "C over the picture's norm at the lowest resolution"
    return {
        **RESOLUTIONS,
        "clip_ratio": Parameter("float", ratio, ratio, "not printed", meaning, low=1e-9),
        "noise_multipliers": sigmas_parameter(sigmas, sigmas),
    }


def picture_grid(study: Context) -> Tables:
    """Return the reconstructions of one figure, as displayed, and their measurements.

    Columns: ``brightness`` is the mean displayed value, ``noise`` the standard deviation of the
    noise per value, ``noise seen`` that of the noise averaged down to the lowest resolution.
    """
    p = study.parameters
    pictures, sizes = one_picture(study)
    c = p.clip_ratio * float(sizes["norm"].iloc[0])
    images: dict[str, np.ndarray] = {}
    rows = []
    for size, picture in pictures.items():
        norm = float(np.linalg.norm(picture))
        beta = min(1.0, c / norm)
        images |= _shown(picture, f"{size} original")
        for sigma in p.noise_multipliers:
            generator = study.generator(size, sigma)
            rebuilt = rebuild(picture, DPSGD(sigma, max_grad_norm=c), generator, study.device)
            noise = rebuilt - beta * picture
            images |= _shown(rebuilt, f"{size} {sigma:g}")
            rows.append(
                {
                    "size": size,
                    "C": c,
                    "norm": norm,
                    "beta": beta,
                    "sigma": sigma,
                    "brightness": float(rebuilt.clip(0, 1).mean()),
                    "original brightness": float(picture.mean()),
                    "noise": float(noise.std()),
                    "noise seen": float(_averaged(noise, min(p.sizes)).std()),
                    "contrast": float(picture.std()),
                }
            )
    return Tables(
        {"grid": pd.DataFrame(rows)},
        images=images,
        ran=f"One photograph at {', '.join(map(str, pictures))} pixels a side, C = {c:.3g}, one "
        f"DP-SGD step for each of {len(p.noise_multipliers)} noise multipliers.",
    )


def _averaged(picture: np.ndarray, side: int) -> np.ndarray:
    """A picture (H, W, channels) averaged down to ``side`` pixels a side."""
    channels_first = torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))[None]
    return adaptive_avg_pool2d(channels_first, side)[0].numpy().transpose(1, 2, 0)


def displayed(picture: np.ndarray) -> np.ndarray:
    """Clip a picture to [0, 1] and average it where it has more pixels than a figure shows."""
    shown = picture.clip(0, 1)
    return _averaged(shown, SHOWN) if len(shown) > SHOWN else shown


def _shown(picture: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """The picture as displayed and, if that averages it, its middle pixel by pixel."""
    if len(picture) <= SHOWN:
        return {name: displayed(picture)}
    start = (len(picture) - PART) // 2
    middle = picture[start : start + PART, start : start + PART]
    return {name: displayed(picture), f"{name} middle": displayed(middle)}


def on_the_middle(tables: Tables) -> str:
    """Return what a caption adds on the row of ``draw`` that shows a middle; may be empty."""
    size = tables["grid"]["size"].max()
    if size <= SHOWN:
        return ""
    return (
        f" The last row shows {PART} by {PART} pixels of the row above, those in the white square, "
        "which no display has averaged."
    )


def least_noise(tables: Tables) -> pd.DataFrame:
    """Return the rows of the least sigma, by size, lowest first."""
    table = tables["grid"]
    return table[table["sigma"] == table["sigma"].min()].set_index("size")


def shape_of(tables: Tables) -> str:
    """Return the numbers of rows and of pictures in a row, in words."""
    rows, sigmas = (tables["grid"][name].nunique() for name in ("size", "sigma"))
    middle = ", and the middle of the last row" if tables["grid"]["size"].max() > SHOWN else ""
    return f"{rows} rows of {1 + sigmas} pictures{middle}"


@drawing
def draw(tables: Tables) -> Figure:
    """Draw resolutions as rows and noise multipliers as columns, the original first."""
    table = tables["grid"]
    sizes, sigmas = list(table["size"].unique()), list(table["sigma"].unique())
    titles = {"original": "original", **{f"{v:g}": rf"$\sigma$ = {_tens(v)}" for v in sigmas}}
    rescaled = {name.partition(" rescaled ")[2] for name in tables.images} - {""}
    if rescaled:  # the others are as black as these
        titles = {name: titles[name] for name in ("original", *sorted(rescaled))}
    for sigma in sorted(rescaled):
        titles[f"rescaled {sigma}"] = rf"$\sigma$ = {_tens(float(sigma))}, $\div\,\beta$"
    rows = [(size, "") for size in sizes]
    if sizes[-1] > SHOWN and not rescaled:
        rows.append((sizes[-1], " middle"))
    side = min(8.4 / (len(titles) + 0.25), 2.0)
    figure = plt.figure(
        figsize=(side * (len(titles) + 0.25), side * len(rows) + 0.62), layout="constrained"
    )
    axes = figure.subplots(len(rows), len(titles), squeeze=False)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    beta, norms = (table.groupby("size")[name].first() for name in ("beta", "norm"))
    for line, (size, part) in zip(axes, rows, strict=True):
        for axis, column in zip(line, titles, strict=True):
            # averaged where the picture has more pixels than the panel, as on any screen
            axis.imshow(tables.images[f"{size} {column}{part}"], interpolation="auto")
            axis.set(xticks=[], yticks=[])
            axis.grid(False)
            for spine in axis.spines.values():
                spine.set(visible=True, color="#B0B0B0", linewidth=0.6)
        shown = PART if part else size
        below = f"of {size}" if part else rf"$\beta$ = {beta[size]:.2g}"
        line[0].set_ylabel(f"{shown}\u00d7{shown}\n{below}")
        if (size, " middle") in rows and not part:
            _mark_middle(line[0], len(tables.images[f"{size} original"]), PART / size)
    for axis, title in zip(axes[0], titles.values(), strict=True):
        axis.set_title(title, fontsize=9.5)
    figure.supxlabel(
        f"C = {plain(table['C'].iloc[0])}, norms {', '.join(f'{v:.0f}' for v in norms)}; values "
        "clipped to [0, 1] for display",
        fontsize=9.5,
    )
    return figure


def _mark_middle(axis: Axes, side: int, share: float) -> None:
    """Draw a square round the middle of a picture shown with ``side`` pixels."""
    start, length = (side * (1 - share) - 1) / 2, side * share
    axis.add_patch(Rectangle((start, start), length, length, fill=False, color="white", lw=1.2))


def _tens(value: float) -> str:
    """A small number as a multiple of a power of ten."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    if exponent > -3:
        return f"{value:g}"
    factor = round(value / 10.0**exponent, 6)
    return rf"$10^{{{exponent}}}$" if factor == 1 else rf"${factor:g}\cdot10^{{{exponent}}}$"
