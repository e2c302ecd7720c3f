"""The figures' style: the library's, and what is drawn the same in every figure of a paper."""

import functools
from collections.abc import Callable
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from reconrisk.plotting import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    legend_above,
    legend_line,
    panels,
    picture,
    styled,
)

__all__ = [
    "ATTACKS",
    "BLUE",
    "COLOURS",
    "DEFENCES",
    "GREEN",
    "GREY",
    "MECHANISMS",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "drawing",
    "legend_above",
    "legend_line",
    "panels",
    "picture",
    "styled",
]

#: of the two mechanisms that Biswas et al. compare, the same in every picture
MECHANISMS = {"Gaussian": BLUE, "VMF": ORANGE}
#: of the attacks that Liu et al. compare; in grey, the marker tells them apart
ATTACKS = {
    "Ours": {"color": ORANGE, "marker": "o"},
    "w/o FM": {"color": RED, "marker": "X"},
    "GradientInversion": {"color": BLUE, "marker": "s"},
    "CPA": {"color": GREEN, "marker": "^"},
    "Robbing The Fed": {"color": PURPLE, "marker": "D"},
    "Analytic": {"color": SKY, "marker": "v"},
}
#: of the defences that Liu et al. compare; "None" is grey, as the line they are held against
DEFENCES = {
    "None": {"color": GREY, "marker": "o"},
    "GradClip": {"color": BLUE, "marker": "s"},
    "GradNoise": {"color": ORANGE, "marker": "^"},
    "GradDrop": {"color": GREEN, "marker": "D"},
    "GradPrune": {"color": PURPLE, "marker": "v"},
    "LocalAggregation": {"color": SKY, "marker": "P"},
}


def drawing(function: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorate an exhibit's ``draw``: in the one style, closed so that it is displayed once."""

    @functools.wraps(function)
    def draw(tables: Any) -> Figure:
        with styled():
            figure = function(tables)
        plt.close(figure)
        return figure

    return draw
