"""Axes of Figures 1, 3 and 4: metrics over the noise multiplier."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from companion.exhibit import *

__all__ = ["UNITS", "plain", "row_title", "scatter", "sigma_axis"]

UNITS = {"MSE": "MSE (range\u00b2)", "PSNR": "PSNR (dB)", "perceptual": "perceptual distance"}
UNITS |= {metric: metric for metric in ("NCC", "NMI", "SSIM")}


def sigma_axis(axes: Axes, last: bool) -> None:
    """Make the axis logarithmic with labels at decades, shown in the last row only."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelbottom=last)
    if last:
        axes.set_xlabel(r"noise multiplier $\sigma$")
        if len(axes.get_xticks()) > 7:
            axes.xaxis.set_major_locator(LogLocator(base=100, numticks=12))


def plain(value: float) -> str:
    """Return a value with three digits, without a power of ten."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def row_title(row: str, c: float) -> str:
    """Return the title of a row such as ``0.01 min``: its clipping norm."""
    factor, _, extreme = row.rpartition(" ")
    times = f"{factor}\\," if factor else ""
    return rf"$C = {times}\{extreme}\|X\|$ = {plain(c)}"


def scatter(axis: Axes, points: pd.DataFrame, metric: str, colour: str = BLUE) -> None:
    """Draw one dot for each reconstruction."""
    axis.scatter(points["sigma"], points[metric], s=13, color=colour, alpha=0.4, linewidths=0)
