"""The model-based attack: shadow models and a reconstructor, without noise and with it."""

from collections.abc import Iterator

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import gradient_reconstructions as informed
from companion.papers.hayes2023.shadow_models import (
    SHADOW_PARAMETERS,
    baseline_errors,
    shadowed,
    shadowed_images,
)

PARAMETERS = {
    **informed.WITH_SHADOWS,
    **SHADOW_PARAMETERS,
    "noiseless_epsilon": Parameter("float", 1e7, 1e7, "no DP", "epsilon for no noise", low=1e6),
}

#: largest error without noise, over the nearest neighbours', that counts as reaching it
REACHES = 1.25
#: smallest error up to epsilon = 1000, over the mean image's: hardly better than no attack
FAILS = 0.8

ALTERED = {
    "model-based": {
        "model-based": (
            "errors",
            at("epsilon > 1e6", "errors without noise"),
            at("epsilon <= 1000", "errors up to epsilon = 1000"),
        ),
        "ridge": "errors of ridge regression",
    }
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
        without["model-based"] < REACHES * nearest
        and without["model-based"] < without["ridge"]
        and (noisy > FAILS * without["mean image"]).all(),
        "without noise the reconstructor's error is at most a quarter above the nearest "
        "neighbours', and below that of ridge regression; up to epsilon = 1000 it is over "
        f"{FAILS:.0%} of the mean image's",
        ours=f"MSE {without['model-based']:.3f} without noise, at least {noisy.min():.2f} up to "
        f"epsilon = 1000; nearest neighbours {nearest:.3f}",
        stand_in=tables.stand_in,
    )


CAPTION = (
    "The model-based attack: a network learns from shadow models to map the final weights to the "
    "unknown record. Without noise (rightmost) it beats ridge regression and reaches the nearest "
    "neighbours' error; under DP noise it is no better than the mean image. Bars: 95% intervals "
    "over the targets."
)


@drawing
def draw(tables: Tables) -> Figure:
    whole = tables["model-based"]
    figure, (axis, apart) = plt.subplots(
        1, 2, figsize=(6.0, 3.3), width_ratios=(6, 1), layout="constrained"
    )
    for axes, table in ((axis, whole.iloc[:-1]), (apart, whole.iloc[-1:])):
        informed.points_with_intervals(axes, table, "model-based", ORANGE, hollow=True)
        axes.plot(table["epsilon"], table["ridge"], color=PURPLE, marker="o", markersize=4.5)
        for line, style in (("mean image", "-."), ("nearest neighbour", "--")):
            axes.axhline(whole[line].iloc[0], color=GREY, linestyle=style, linewidth=1.3)
        informed.epsilon_axis(axes)
        axes.set(yscale="log")
    limits = [axes.get_ylim() for axes in (axis, apart)]
    for axes in (axis, apart):
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    axis.set_ylabel("mean squared error")
    apart.set_xticks([whole["epsilon"].iloc[-1]], ["no noise"])
    apart.set(xlabel="")
    apart.tick_params(axis="y", which="both", left=False, labelleft=False)
    apart.spines["left"].set_visible(False)
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
