"""Figure 8: a very large C, where nothing is clipped and everything is noise."""

import math
from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.ziller2024 import picture_grids as grids

PARAMETERS = grids.parameters(3)
SETTLES = ("B-040",)
PHOTOGRAPHS = True
#: noise over contrast that is seen at once: the grain of a photograph is a tenth of this
NOISY = 0.2
#: how near the noise must come to C sigma (over the ratio of the resolutions once averaged),
#: relative: four errors of 3,072 values at each of five noise multipliers are 2.3%
NOISE_MARGIN = 0.05
ALTERED = {
    "grid": {
        "noise seen": (
            at("size == size.min()", "noise of the first row"),
            at("size == size.max()", "noise of the last row"),
        ),
    },
}
SCENARIOS = (
    scenario(
        "a last row that is clipped",
        column("grid", "beta", lambda c: 0.9 * c, "size == size.max()"),
        "",
        "B-040",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    return grids.picture_grid(study)


def judge(tables: Tables) -> Iterator[Verdict]:
    table, noise = tables["grid"], _noise_over_contrast(tables)
    lowest = table["size"].min()
    # averaged over as many values as the resolutions differ by
    expected = table["C"] * table["sigma"] * lowest / table["size"]
    ratio = (table["noise seen"] / expected).groupby(table["size"]).mean()
    error = 1 / math.sqrt(2 * 3 * lowest**2 * table["sigma"].nunique())
    noisy = check(
        "ziller2024/fig8",
        every(
            bool((table["beta"] == 1).all() and noise.iloc[0] > NOISY),
            bool(noise.is_monotonic_decreasing),
            within(ratio, 1, error, NOISE_MARGIN),
        ),
        "no row is clipped; the lowest resolution is the noisiest, even at the smallest sigma",
        ours=f"noise over the picture's contrast at sigma = {tables['grid']['sigma'].min():g}, "
        f"averaged to one size: {noise.iloc[0]:.2f} at the lowest resolution, "
        f"{noise.iloc[-1]:.3f} at the highest",
        tolerance=f"above {NOISY:g}; noise within {NOISE_MARGIN:.0%} of C sigma, errors included",
        stand_in=tables.stand_in,
    )
    yield from shared_by(noisy, "B-040")


def _noise_over_contrast(tables: Tables) -> pd.Series:
    """Noise at the least sigma, averaged to one size, over the picture's contrast, by size."""
    quiet = grids.least_noise(tables)
    return quiet["noise seen"] / quiet["contrast"]


def caption(tables: Tables) -> str:
    return (
        "A clipping norm far above all norms: nothing is clipped, and the noise, which grows with "
        "C, hides the lowest resolution even at the smallest sigma. Values are clipped to [0, 1] "
        "for display. The paper prints neither C nor sigma."
    ) + grids.on_the_middle(tables)


def alt(tables: Tables) -> str:
    shares = ", ".join(f"{v:.2g} at {size}" for size, v in _noise_over_contrast(tables).items())
    return (
        f"{grids.shape_of(tables)}: original and growing noise. At the smallest noise multiplier "
        f"the noise, averaged to one size, is {shares} pixels of the picture's contrast: the first "
        "is grainy and the last clear; at the largest all are noise."
    )


draw = grids.draw
