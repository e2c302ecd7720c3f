"""Pictures of results: one style, one drawing function per exhibit, caption and alternative text.

:func:`show` is what a notebook cell calls; :func:`draw` returns the Matplotlib figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from companion.drawings import Description, describe, draw

if TYPE_CHECKING:
    import pandas as pd

    from companion.study import Result

__all__ = ["Description", "describe", "draw", "show"]


def show(result: Result) -> None:
    """Display a result in a notebook: its picture or its tables, then its verdicts."""
    from IPython.display import display
    from matplotlib import pyplot as plt

    figure = draw(result)
    if figure is not None:
        display(figure)
        plt.close(figure)
    for name in result.shown:
        display(_as_shown(result.tables[name]), raw=True)
    display(result)


def _as_shown(table: pd.DataFrame) -> dict[str, str]:
    """A table without its row numbers, as text (which nbval compares) and as HTML."""
    return {
        "text/plain": table.to_string(index=False),
        "text/html": table.to_html(index=False, border=0),
    }
