"""The model-based attack: shadow models and a reconstructor, without noise and with it."""

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from companion.papers.hayes2023 import gradient_reconstructions as informed
from companion.papers.hayes2023.shadow_models import (
    SHADOW_PARAMETERS,
    baseline_errors,
    shadowed,
    shadowed_images,
)
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.style import GREY, ORANGE, PURPLE, drawing, legend_above, legend_line, panels

PARAMETERS = {
    **informed.GREY_PARAMETERS,
    **SHADOW_PARAMETERS,
    "noiseless_epsilon": Parameter("float", 1e7, 1e7, "no DP", "epsilon for no noise", low=1e6),
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    epsilons = (*p.model_epsilons, p.noiseless_epsilon)
    table = shadowed(study, informed.GREY, epsilons)
    table = table.assign(**baseline_errors(study, informed.GREY))
    return Tables(
        {"model-based": table},
        ran=f"{table['shadow models'].iloc[0]} shadow models at each epsilon, each on "
        f"{p.grey_known} known and one auxiliary of the "
        f"{shadowed_images(study, informed.GREY).name}; judged on "
        f"{table['models'].iloc[0]} further models.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["model-based"]
    without, nearest = table.iloc[-1], table["nearest neighbour"].iloc[0]
    noisy = table.loc[table["epsilon"] <= 1000, "model-based"]
    yield check(
        "hayes2023/alg_model_based",
        without["model-based"] < without["mean image"] / 2.5
        and without["model-based"] < without["ridge"]
        and (noisy > 2 * nearest).all(),
        "without noise the reconstructor has less than 40% of the mean image's error and beats "
        "ridge regression; up to epsilon = 1000 its error is over twice the nearest neighbours'",
        ours=f"MSE {without['model-based']:.3f} without noise, at least {noisy.min():.2f} up to "
        f"epsilon = 1000; nearest neighbours {nearest:.3f}",
        stand_in=tables.stand_in,
    )


CAPTION = (
    "The model-based attack: a network learns from shadow models to map the final weights to the "
    "unknown record. Without noise (rightmost) it beats ridge regression and reaches the nearest "
    "neighbours' error; under DP noise it is no better than the mean image."
)


def alt(tables: Tables) -> str:
    table = tables["model-based"]
    first, last = table.iloc[0], table.iloc[-1]
    return (
        "Error over epsilon, the rightmost point without noise. The reconstructor falls from "
        f"{first['model-based']:.2f} to {last['model-based']:.2f} and the ridge regression from "
        f"{first['ridge']:.2f} to {last['ridge']:.2f}; the mean image's line is at "
        f"{first['mean image']:.2f}, the nearest neighbours' at {first['nearest neighbour']:.2f}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["model-based"]
    figure, [[axis]] = panels(1, 1, width=5.6, height=3.3)
    informed.points_with_intervals(axis, table, "model-based", ORANGE, hollow=True)
    axis.plot(table["epsilon"], table["ridge"], color=PURPLE, marker="o", markersize=4.5)
    for line, style in (("mean image", "-."), ("nearest neighbour", "--")):
        axis.axhline(table[line].iloc[0], color=GREY, linestyle=style, linewidth=1.3)
    informed.epsilon_axis(axis)
    axis.set(yscale="log", ylabel="mean squared error")
    text: dict[str, Any] = {
        "textcoords": "offset points",
        "ha": "right",
        "fontsize": 9,
        "color": GREY,
    }
    last = table["epsilon"].iloc[-1], table["model-based"].iloc[-1]
    axis.annotate("no noise", last, (-8, 12), **text)
    legend_above(
        figure,
        [
            legend_line("reconstructor network", ORANGE, "-", "s", markerfacecolor="white"),
            legend_line("ridge regression", PURPLE, "-", "o"),
            legend_line("mean image", GREY, "-."),
            legend_line("nearest neighbours", GREY, "--"),
        ],
        2,
    )
    return figure
