"""Figure 6: a C between the norms at the two lower resolutions."""

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

PARAMETERS = grid_parameters(CLIP_RATIOS[1])
SETTLES = ("B-038",)
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    return picture_grid(study)


def judge(tables: Tables) -> Iterator[Verdict]:
    dimmed = _dimmed(tables)
    beta = tables["grid"].groupby("size")["beta"].first()
    for target in ("ziller2024/fig6", "B-038"):
        yield check(
            target,
            beta.iloc[0] == 1 and (beta.iloc[1:] < 1).all() and (dimmed - beta).abs().max() < 0.02,
            "the norm grows with the resolution: only the lowest keeps its brightness, the higher "
            "ones are clipped and darker",
            ours="brightness over the original's: "
            + ", ".join(f"{v:.2f} at {size}" for size, v in dimmed.items()),
            stand_in=tables.stand_in,
        )


def _dimmed(tables: Tables) -> pd.Series:
    """Brightness over the original's at the least noise, by size."""
    table = tables["grid"]
    quiet = table[table["sigma"] == table["sigma"].min()].set_index("size")
    return quiet["brightness"] / quiet["original brightness"]


CAPTION = (
    "A clipping norm between the picture's norms at the two lower resolutions: only the lowest "
    "resolution keeps its brightness, the others are clipped and darker. Values are clipped to "
    "[0, 1] for display. The paper prints neither C nor sigma."
)


def alt(tables: Tables) -> str:
    kept = ", ".join(f"{v:.0%} at {size}" for size, v in _dimmed(tables).items())
    return (
        f"{shape_of(tables)}: original and growing noise. At the least noise they keep {kept} "
        "pixels of the original's brightness; at the largest sigma noise hides everything."
    )


@drawing
def draw(tables: Tables) -> Figure:
    return draw_grid(tables)
