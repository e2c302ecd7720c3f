"""Pictures of results: one style, one drawing function per exhibit, caption and alternative text.

:func:`show` is what a notebook cell calls; :func:`draw` returns the Matplotlib figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconrisk.figures.drawings import Description, describe, draw

if TYPE_CHECKING:
    from reconrisk.study import Result

__all__ = ["Description", "describe", "draw", "show"]


def show(result: Result) -> None:
    """Display a result in a notebook: its picture, if it has one, then its verdicts."""
    from IPython.display import display
    from matplotlib import pyplot as plt

    figure = draw(result)
    if figure is not None:
        display(figure)
        plt.close(figure)
    display(result)
