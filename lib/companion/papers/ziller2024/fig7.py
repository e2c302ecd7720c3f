"""Figure 7: a C between the norms at the two higher resolutions."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.ziller2024 import picture_grids as grids

PARAMETERS = grids.parameters(2)
SETTLES = ("B-039",)
PHOTOGRAPHS = True
#: relative, of the noise of a picture
NOISE_MARGIN = 0.05
ALTERED = {
    "grid": {
        "noise": at("size == size.min()", "noise of the first row"),
        "noise seen": at("size == size.min()", "noise of the first row, averaged to one size,"),
        "beta": at("size == size.max()", "clipping factors of the last row"),
    },
}


@measurement
def measure(study: Context) -> Tables:
    return grids.picture_grid(study)


def judge(tables: Tables) -> Iterator[Verdict]:
    means = tables["grid"].groupby("size").mean()
    first, second = means.iloc[0], means.iloc[1]
    seen, per_value = (first[name] / second[name] for name in ("noise seen", "noise"))
    beta = means["beta"].to_numpy()
    noisier = check(
        "ziller2024/fig7",
        beta[0] == beta[1] == 1 > beta[2]
        and seen > (1 - NOISE_MARGIN) * means.index[1] / means.index[0]
        and abs(per_value - 1) < NOISE_MARGIN,
        "only the last row is clipped; shown at one size, the picture whose norm is far below C is "
        "noisier than the second; per value the noise is C sigma in both, and the higher "
        "resolution averages it away",
        ours=f"noise of the first row over that of the second: {seen:.1f} averaged to one size, "
        f"{per_value:.2f} per value; clipping factor of the last row {beta[2]:.2f}",
        stand_in=tables.stand_in,
    )
    yield from shared_by(noisier, "B-039")


def caption(tables: Tables) -> str:
    return (
        "A clipping norm between the picture's norms at the two higher resolutions: the first two "
        "rows are not clipped, the last is and is darker. The first row looks noisier than the "
        "second. Per pixel the noise is the same in both; the higher resolution averages more of "
        "it away. Values are clipped to [0, 1] for display. The paper prints neither C nor sigma."
    ) + grids.on_the_middle(tables)


def alt(tables: Tables) -> str:
    means = tables["grid"].groupby("size").mean()
    low, middle, high = means.index
    seen = means["noise seen"].iloc[0] / means["noise seen"].iloc[1]
    return (
        f"{grids.shape_of(tables)}: original and growing noise. Shown at one size the {low}-pixel "
        f"pictures carry {seen:.0f} times the noise of the {middle}-pixel ones, which are still "
        f"clear where the first are grainy; the {high}-pixel pictures are darker throughout."
    )


draw = grids.draw
