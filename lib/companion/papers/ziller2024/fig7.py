"""Figure 7: a C between the norms at the two higher resolutions."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from companion.papers.ziller2024.attacked_photographs import CLIP_RATIOS
from companion.papers.ziller2024.picture_grids import (
    by_size,
    draw_grid,
    grid_parameters,
    picture_grid,
    shape_of,
)
from companion.study import Context, Tables, Verdict, check, measurement
from companion.style import drawing

PARAMETERS = grid_parameters(CLIP_RATIOS[2])
SETTLES = ("B-039",)
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    return picture_grid(study)


def judge(tables: Tables) -> Iterator[Verdict]:
    seen, per_value = _noise_ratios(tables)
    beta = by_size(tables)["beta"].to_numpy()
    for target in ("ziller2024/fig7", "B-039"):
        yield check(
            target,
            beta[0] == beta[1] == 1 > beta[2] and seen > 2 and abs(per_value - 1) < 0.05,
            "only the last row is clipped; seen at one size, the picture whose norm is far below C "
            "is noisier than the second; per value the noise is C sigma in both, and the higher "
            "resolution averages it away",
            ours=f"noise of the first row over that of the second: {seen:.1f} averaged to one "
            f"size, {per_value:.2f} per value; clipping factor of the last row {beta[2]:.2f}",
            stand_in=tables.stand_in,
        )


def _noise_ratios(tables: Tables) -> tuple[float, float]:
    """The first row's noise over that of the second: averaged to one size, and per value."""
    first, second = (by_size(tables).iloc[i] for i in (0, 1))
    return first["noise seen"] / second["noise seen"], first["noise"] / second["noise"]


CAPTION = (
    "A clipping norm between the picture's norms at the two higher resolutions: the first two rows "
    "are not clipped, the last is and is darker. The first row looks noisier than the second. Per "
    "pixel the noise is the same in both; the higher resolution averages more of it away. Values "
    "are clipped to [0, 1] for display. The paper prints neither C nor sigma."
)


def alt(tables: Tables) -> str:
    low, middle, high = by_size(tables).index
    seen, _ = _noise_ratios(tables)
    return (
        f"{shape_of(tables)}: original and growing noise. Seen at one size the {low}-pixel "
        f"pictures carry {seen:.0f} times the noise of the {middle}-pixel ones, which are still "
        f"clear where the first are grainy; the {high}-pixel pictures are darker throughout."
    )


@drawing
def draw(tables: Tables) -> Figure:
    return draw_grid(tables)
