"""Figure 6: a C between the norms at the two lower resolutions."""

from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.ziller2024 import picture_grids as grids

PARAMETERS = grids.parameters(1)
SETTLES = ("B-038",)
PHOTOGRAPHS = True
ALTERED = {
    "grid": {
        "brightness": "brightness",
        "beta": at("size > size.min()", "clipping factors of the higher resolutions"),
    },
}


@measurement
def measure(study: Context) -> Tables:
    return grids.picture_grid(study)


def judge(tables: Tables) -> Iterator[Verdict]:
    beta, brightness = grids.least_noise(tables)["beta"], _brightness(tables)
    dimmed = check(
        "ziller2024/fig6",
        beta.iloc[0] == 1 and (beta.iloc[1:] < 1).all() and (brightness - beta).abs().max() < 0.02,
        "the norm grows with the resolution: only the lowest keeps its brightness, the higher ones "
        "are clipped and darker",
        ours="brightness over the original's: "
        + ", ".join(f"{v:.2f} at {size}" for size, v in brightness.items()),
        stand_in=tables.stand_in,
    )
    yield from shared_by(dimmed, "B-038")


def _brightness(tables: Tables) -> pd.Series:
    """Brightness over the original's at the least noise, by size."""
    quiet = grids.least_noise(tables)
    return quiet["brightness"] / quiet["original brightness"]


def caption(tables: Tables) -> str:
    return (
        "A clipping norm between the picture's norms at the two lower resolutions: only the lowest "
        "resolution keeps its brightness, the others are clipped and darker. Values are clipped to "
        "[0, 1] for display. The paper prints neither C nor sigma."
    ) + grids.on_the_middle(tables)


def alt(tables: Tables) -> str:
    kept = ", ".join(f"{v:.0%} at {size}" for size, v in _brightness(tables).items())
    return (
        f"{grids.shape_of(tables)}: original and growing noise. At the least noise they keep "
        f"{kept} pixels of the original's brightness; at the largest sigma noise hides everything."
    )


draw = grids.draw
