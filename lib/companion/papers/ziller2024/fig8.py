"""Figure 8: a very large C, where nothing is clipped and everything is noise."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from companion.papers.ziller2024.attacked_photographs import CLIP_RATIOS
from companion.papers.ziller2024.picture_grids import (
    draw_grid,
    grid_parameters,
    picture_grid,
    shape_of,
)
from companion.study import Context, Tables, Verdict, check, measurement
from companion.style import drawing

PARAMETERS = grid_parameters(CLIP_RATIOS[3])
SETTLES = ("B-040",)
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    return picture_grid(study)


def judge(tables: Tables) -> Iterator[Verdict]:
    seen = _noise_over_contrast(tables)
    for target in ("ziller2024/fig8", "B-040"):
        yield check(
            target,
            (tables["grid"]["beta"] == 1).all()
            and seen.iloc[0] > 0.2
            and seen.iloc[-1] < seen.iloc[0] / 10,
            "no row is clipped; the lowest resolution is the noisiest, and noisy even at the "
            "smallest sigma",
            ours=f"noise over the picture's contrast at sigma = {tables['grid']['sigma'].min():g}, "
            f"averaged to one size: {seen.iloc[0]:.2f} at the lowest resolution, "
            f"{seen.iloc[-1]:.3f} at the highest",
            stand_in=tables.stand_in,
        )


def _noise_over_contrast(tables: Tables) -> pd.Series:
    """The noise at the least sigma, averaged to one size, over the picture's contrast, by size."""
    table = tables["grid"]
    quiet = table[table["sigma"] == table["sigma"].min()].set_index("size")
    return quiet["noise seen"] / quiet["contrast"]


CAPTION = (
    "A clipping norm far above all norms: nothing is clipped, and the noise, which grows with C, "
    "hides the lowest resolution even at the smallest sigma. Values are clipped to [0, 1] for "
    "display. The paper prints neither C nor sigma."
)


def alt(tables: Tables) -> str:
    shares = ", ".join(f"{v:.2g} at {size}" for size, v in _noise_over_contrast(tables).items())
    return (
        f"{shape_of(tables)}: original and growing noise. At the smallest noise multiplier the "
        f"noise, averaged to one size, is {shares} pixels of the picture's contrast: the first is "
        "grainy and the last clear; at the largest all are noise."
    )


@drawing
def draw(tables: Tables) -> Figure:
    return draw_grid(tables)
