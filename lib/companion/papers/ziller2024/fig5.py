"""Figure 5: a very small C gives nearly black pictures, which rescaling restores."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.ziller2024 import picture_grids as grids
from companion.papers.ziller2024.attacked_photographs import one_picture, rebuild
from reconrisk import DPSGD

PARAMETERS = grids.parameters(0)
SETTLES = ("B-037",)
PHOTOGRAPHS = True
#: mean displayed value of a picture that is nearly black: five of 255 levels
BLACK = 0.02
#: of the noise of a rescaled picture, relative: four errors of 3,072 values are 5.1%
NOISE_MARGIN = 0.08
ALTERED = {
    "grid": {"brightness": "brightness", "noise": "noise"},
    "rescaled": {"off C = ||X||": "differences of rescaled pictures from those at C = ||X||"},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tables = grids.picture_grid(study)
    pictures, sizes = one_picture(study)
    norms = dict(zip(sizes["size"], sizes["norm"].astype(float), strict=True))
    lowest = min(pictures)
    c = p.clip_ratio * norms[lowest]

    # the grid's reconstructions at the second noise multiplier, divided by their clipping factor
    sigma = sorted(p.noise_multipliers)[:2][-1]
    images, run = dict(tables.images), DPSGD(sigma, max_grad_norm=c)
    for size, picture in pictures.items():
        rebuilt = rebuild(picture, run, study.generator(size, sigma), study.device)
        images[f"{size} rescaled {sigma:g}"] = grids.displayed(rebuilt / min(1.0, c / norms[size]))

    # the same noise at C = ||X||
    sigma = p.noise_multipliers[0]
    runs = [DPSGD(sigma, max_grad_norm=ratio * norms[lowest]) for ratio in (p.clip_ratio, 1.0)]
    small, whole = (
        rebuild(pictures[lowest], run, study.generator("rescaled"), study.device) for run in runs
    )
    off = np.abs(small / p.clip_ratio - whole).max()
    rescaled = pd.DataFrame([{"size": lowest, "sigma": sigma, "off C = ||X||": off}])
    frames = {**tables.frames, "rescaled": rescaled}
    return dataclasses.replace(tables, frames=frames, images=images)


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["grid"]
    # at C = ||X|| the noise is ||X|| sigma
    noise = table["noise"] / (table["beta"] * table["norm"] * table["sigma"])
    error = 1 / np.sqrt(6 * table["size"] ** 2)
    brightest = table["brightness"].max()
    black = check(
        "ziller2024/fig5",
        every(
            bool(brightest < BLACK and (table["beta"] < 1).all()),
            within(noise, 1, error, NOISE_MARGIN),
            bool((tables["rescaled"]["off C = ||X||"] < 1e-9).all()),
        ),
        "at a very small C all reconstructions are nearly black; divided by beta they are those of "
        "C = ||X||",
        ours=f"mean brightness at most {brightest:.3f} of 1; clipping factors up to "
        f"{table['beta'].max():.3f}; noise over beta within {(noise - 1).abs().max():.1%} of "
        "||X|| sigma",
        tolerance=f"{BLACK:g}; {NOISE_MARGIN:.0%}, errors included",
        stand_in=tables.stand_in,
    )
    yield from shared_by(black, "B-037")


CAPTION = (
    "Reconstructions for a very small clipping norm: everything is almost black. Divided by the "
    "clipping factor, which can be guessed from the range of pixels, they are those of C = ||X||; "
    "the last column, added here, shows them. Rows are resolutions; of the "
    "paper's noise multipliers one is drawn, since the others are as black; values are clipped to "
    "[0, 1] for display. The paper prints neither C nor sigma."
)


def alt(tables: Tables) -> str:
    table = tables["grid"]
    return (
        f"{table['size'].nunique()} rows of three pictures. The first of each row is the original "
        "photograph, the second is black; under every noise multiplier the mean brightness is at "
        f"most {table['brightness'].max():.3f}. The last, rescaled, shows the photograph again."
    )


draw = grids.draw
