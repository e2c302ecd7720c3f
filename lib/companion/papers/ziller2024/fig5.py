"""Figure 5: a very small C gives nearly black pictures, which rescaling brings back."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.papers.ziller2024.attacked_photographs import CLIP_RATIOS, one_picture, rebuild
from companion.papers.ziller2024.picture_grids import (
    displayed,
    draw_grid,
    grid_parameters,
    picture_grid,
    shape_of,
)
from companion.study import Context, Tables, Verdict, check, measurement
from companion.style import drawing
from reconrisk import DPSGD

PARAMETERS = grid_parameters(CLIP_RATIOS[0])
SETTLES = ("B-037",)
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tables = picture_grid(study)
    pictures, sizes = one_picture(study)
    norms = dict(zip(sizes["size"], sizes["norm"], strict=True))
    lowest = min(pictures)
    c = p.clip_ratio * float(norms[lowest])

    # the grid's reconstructions at the second noise multiplier, divided by their clipping factor
    sigma = sorted(p.noise_multipliers)[:2][-1]
    images = dict(tables.images)
    for size, picture in pictures.items():
        run, generator = DPSGD(sigma, max_grad_norm=c), study.generator(size, sigma)
        rebuilt = rebuild(picture, run, generator, study.device)
        images[f"{size} rescaled {sigma:g}"] = displayed(rebuilt / min(1.0, c / norms[size]))

    # the same noise at C = ||X||
    picture, sigma = pictures[lowest], p.noise_multipliers[0]
    small, whole = (
        rebuild(
            picture,
            DPSGD(sigma, max_grad_norm=factor * float(norms[lowest])),
            study.generator("rescaled"),
            study.device,
        )
        for factor in (p.clip_ratio, 1.0)
    )
    off = np.abs(small / p.clip_ratio - whole).max()
    rescaled = pd.DataFrame([{"size": lowest, "sigma": sigma, "off C = ||X||": off}])
    return dataclasses.replace(
        tables, frames={**tables.frames, "rescaled": rescaled}, images=images
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table, rescaled = tables["grid"], tables["rescaled"]
    brightest = table["brightness"].max()
    for target in ("ziller2024/fig5", "B-037"):
        yield check(
            target,
            brightest < 0.05
            and (table["beta"] < 1).all()
            and (rescaled["off C = ||X||"] < 1e-9).all(),
            "at a very small C all reconstructions are nearly black; divided by beta they are "
            "those of C = ||X||",
            ours=f"mean brightness at most {brightest:.3f} of 1; clipping factors up to "
            f"{table['beta'].max():.3f}",
            stand_in=tables.stand_in,
        )


CAPTION = (
    "Reconstructions for a very small clipping norm: everything is almost black. Divided by the "
    "clipping factor, which a viewer who knows the range of pixels can guess, they are those of "
    "C = ||X||; the last column, added here, shows that. Rows are resolutions, columns noise "
    "multipliers; values are clipped to [0, 1] for display. The paper prints neither C nor sigma."
)


def alt(tables: Tables) -> str:
    table = tables["grid"]
    return (
        f"{shape_of(tables, more=1)}. The first of each row is the original photograph, the next "
        f"{table['sigma'].nunique()} are black (mean brightness at most "
        f"{table['brightness'].max():.3f}). The last, rescaled, shows the photograph again."
    )


@drawing
def draw(tables: Tables) -> Figure:
    return draw_grid(tables)
