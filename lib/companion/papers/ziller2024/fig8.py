"""Figure 8: a very large C, where nothing is clipped and everything is noise."""

from collections.abc import Iterator

import pandas as pd

from companion.papers.ziller2024 import picture_grids as grids
from companion.study import Context, Tables, Verdict, check, measurement, shared_by

PARAMETERS = grids.parameters(3)
SETTLES = ("B-040",)
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    return grids.picture_grid(study)


def judge(tables: Tables) -> Iterator[Verdict]:
    noise = _noise_over_contrast(tables)
    noisy = check(
        "ziller2024/fig8",
        (tables["grid"]["beta"] == 1).all()
        and noise.iloc[0] > 0.2
        and noise.iloc[-1] < noise.iloc[0] / 10,
        "no row is clipped; the lowest resolution is the noisiest, even at the smallest sigma",
        ours=f"noise over the picture's contrast at sigma = {tables['grid']['sigma'].min():g}, "
        f"averaged to one size: {noise.iloc[0]:.2f} at the lowest resolution, "
        f"{noise.iloc[-1]:.3f} at the highest",
        stand_in=tables.stand_in,
    )
    yield from shared_by(noisy, "B-040")


def _noise_over_contrast(tables: Tables) -> pd.Series:
    """Noise at the least sigma, averaged to one size, over the picture's contrast, by size."""
    quiet = grids.least_noise(tables)
    return quiet["noise seen"] / quiet["contrast"]


CAPTION = (
    "A clipping norm far above all norms: nothing is clipped, and the noise, which grows with C, "
    "hides the lowest resolution even at the smallest sigma. Values are clipped to [0, 1] for "
    "display. The paper prints neither C nor sigma."
)


def alt(tables: Tables) -> str:
    shares = ", ".join(f"{v:.2g} at {size}" for size, v in _noise_over_contrast(tables).items())
    return (
        f"{grids.shape_of(tables)}: original and growing noise. At the smallest noise multiplier "
        f"the noise, averaged to one size, is {shares} pixels of the picture's contrast: the first "
        "is grainy and the last clear; at the largest all are noise."
    )


draw = grids.draw
