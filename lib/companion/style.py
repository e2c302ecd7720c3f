"""The style of the figures: the library's, and colours and markers shared by a paper's figures."""

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

#: colours of the two mechanisms that Biswas et al. compare
MECHANISMS = {"Gaussian": BLUE, "VMF": ORANGE}
#: colours and markers of the attacks that Liu et al. compare
ATTACKS = {
    "Ours": {"color": ORANGE, "marker": "o"},
    "w/o FM": {"color": RED, "marker": "X"},
    "GradientInversion": {"color": BLUE, "marker": "s"},
    "CPA": {"color": GREEN, "marker": "^"},
    "Robbing The Fed": {"color": PURPLE, "marker": "D"},
    "Analytic": {"color": SKY, "marker": "v"},
}
#: colours and markers of the defences that Liu et al. compare; the baseline "None" is grey
DEFENCES = {
    "None": {"color": GREY, "marker": "o"},
    "GradClip": {"color": BLUE, "marker": "s"},
    "GradNoise": {"color": ORANGE, "marker": "^"},
    "GradDrop": {"color": GREEN, "marker": "D"},
    "GradPrune": {"color": PURPLE, "marker": "v"},
    "LocalAggregation": {"color": SKY, "marker": "P"},
}


def drawing(function: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorate an exhibit's ``draw``: in the shared style, closed so that it is displayed once."""

    @functools.wraps(function)
    def draw(tables: Any) -> Figure:
        with styled():
            figure = function(tables)
        plt.close(figure)
        return figure

    return draw
