"""Drawing the proposed attack beside others: what Tables 3 and 6 and the algorithms share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from companion.exhibit import *
from companion.exhibit import ATTACKS
from companion.papers.liu2024.proposed_runs import CONTROL, DISTANCES, GRANTED

#: colours of the attack with and without its parts, and of those it is compared with
METHODS = {
    "w/o GR and FM": BLUE,
    "Geiping": BLUE,
    GRANTED: SKY,
    "w/o FM": ATTACKS["w/o FM"]["color"],
    "Ours": ORANGE,
    "Ours, untrained network": GREEN,
    "Jeon": PURPLE,
    CONTROL: GREY,
}


def printed_beside(tables: Tables) -> pd.DataFrame:
    """Return the printed numbers; none where the data are others than the paper's."""
    return tables["printed"].iloc[:0] if tables.origin_of("data") else tables["printed"]


def draw_metric(
    axis: Axes,
    cells: pd.DataFrame,
    printed: pd.DataFrame,
    metric: str,
    colours: Mapping[str, str] = METHODS,
) -> None:
    """What was run with 95% intervals by batch size, printed numbers hollow."""
    mine, theirs = (table[table["metric"] == metric] for table in (cells, printed))
    sizes, methods = (list(dict.fromkeys(mine[key])) for key in ("batch size", "method"))
    theirs = theirs[theirs["batch size"].isin(sizes)]
    for number, method in enumerate(methods):
        shift = 0.22 * (number - (len(methods) - 1) / 2)
        look: dict[str, Any] = {"color": colours[method], "markersize": 5}
        rows, hollow = (table[table["method"] == method] for table in (mine, theirs))
        places = np.arange(len(sizes)) + shift
        axis.errorbar(
            places, rows["value"], yerr=1.96 * rows["error"], fmt="o", capsize=2, zorder=3, **look
        )
        places = shift + np.array([sizes.index(n) for n in hollow["batch size"]])
        if metric not in DISTANCES:  # ours are others, on other scales
            mark_printed(axis, places, hollow["value"], look["color"])
    axis.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    axis.set(xlabel="batch size", xlim=(-0.5, len(sizes) - 0.5))


def method_entries(cells: pd.DataFrame, printed: bool = False) -> list[Line2D]:
    """Entries of a legend for the methods of a table and for what is printed, if it is drawn."""
    return [
        *(
            legend_line(attack_label(name), METHODS[name], "", "o")
            for name in dict.fromkeys(cells["method"])
        ),
        *([printed_entry("printed (another network)")] if printed else []),
    ]
