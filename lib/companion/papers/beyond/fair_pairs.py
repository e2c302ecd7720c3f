"""Settings of equal epsilon: the concentration with the epsilon of each printed sigma."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.experiments import federated
from companion.experiments.fair_pairs import fair_pair, middle
from companion.experiments.federated import BATCH_SIZE, DIMENSION, STEPS
from companion.papers.beyond.certified_vmf import certified_epsilon
from companion.study import Context, Tables, Verdict, check, measurement, shared_by
from companion.study.falsifiers import column, graded, world
from companion.style import GREY, MECHANISMS, drawing, mark_printed, panels
from reconrisk import privacy

SETTLES = ("O-026",)
SHOWN = ("settings of equal epsilon",)
_BOTH = ("", "O-026")
FALSIFIERS = (
    graded(
        "concentrations of equal epsilon {} larger",
        column("pairs", "fair kappa", lambda c, by: c * (1 + by)),
        *_BOTH,
    ),
    graded(
        "pairs whose epsilons differ by {}",
        column("pairs", "epsilon of fair kappa", lambda c, by: c * (1 + by)),
        *_BOTH,
    ),
    graded(
        "printed concentrations {} smaller",
        column("pairs", "printed kappa", lambda c, by: c * (1 - by)),
        *_BOTH,
    ),
    graded(
        "printed concentrations {} larger",
        column("pairs", "printed kappa", lambda c, by: c * (1 + by)),
        *_BOTH,
    ),
    world(
        "equal cosines at equal epsilon",
        column("pairs", "cosine, fair kappa", lambda c: 2 * c),
        *_BOTH,
    ),
    graded(
        "a cosine under VMF noise {} larger",
        column("pairs", "cosine, fair kappa", lambda c, by: c * (1 + by)),
        *_BOTH,
    ),
)

#: relative distance allowed to half the cosine, which is the leading order in kappa/p
_HALF = 0.01
#: relative distance allowed between the root and the closed form
_TOLERANCE = 2e-3
_FORMATS = {
    "sigma": "g",
    "printed kappa": "g",
    "fair kappa": ".2f",
    "closed form": ".2f",
    "by layers": ".2f",
    "printed epsilon": "g",
    "epsilon of sigma": ".4g",
    "epsilon of printed kappa": ".4g",
    "cosine, fair kappa": ".4f",
    "cosine, sigma, one record": ".4f",
    "cosine, sigma, batch": ".3f",
}


@measurement
def measure(study: Context) -> Tables:
    rows = []
    for pair in federated.pairs():
        sigma, fair = pair.noise_multiplier, fair_pair(pair.noise_multiplier)
        rows.append(
            {
                "sigma": sigma,
                "printed kappa": pair.concentration,
                "fair kappa": fair.concentration,
                "closed form": math.sqrt(DIMENSION) / (2 * sigma),
                "by layers": math.sqrt(3 * DIMENSION) / (2 * sigma),
                "printed epsilon": pair.epsilon,
                "epsilon of sigma": middle(fair.gaussian),
                "epsilon of fair kappa": middle(fair.vmf),
                "epsilon of printed kappa": middle(certified_epsilon(pair.concentration)),
                "cosine, fair kappa": float(privacy.vmf_mean_cosine(DIMENSION, fair.concentration)),
                "cosine, sigma, one record": _gaussian_cosine(sigma, 1),
                "cosine, sigma, batch": _gaussian_cosine(sigma, BATCH_SIZE),
            }
        )
    table = pd.DataFrame(rows)
    shown = {name: [f"{v:{form}}" for v in table[name]] for name, form in _FORMATS.items()}
    return Tables(
        {
            "pairs": table,
            "closed": table[["sigma", "printed kappa", "closed form"]],
            "settings of equal epsilon": pd.DataFrame(shown),
        },
        exact=("closed",),
        ran=f"p = {DIMENSION:,}, q = 128/60,000, T = {STEPS:,}, delta = 1/60,000, the gradient "
        "clipped as a whole; all epsilons certified.",
    )


def _gaussian_cosine(sigma: float, records: int) -> float:
    """Approximate cosine between a sum of aligned unit gradients and its noisy version."""
    return 1 / math.sqrt(1 + DIMENSION * (sigma / records) ** 2)


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["pairs"]
    off = (table["fair kappa"] / table["closed form"] - 1).abs().max()
    matched = (table["epsilon of fair kappa"] / table["epsilon of sigma"] - 1).abs().max()
    ratio = table["printed kappa"] / table["fair kappa"]
    layers = table["printed kappa"] / table["by layers"]
    dearer = table["epsilon of printed kappa"] / table["epsilon of sigma"]
    half = table["cosine, sigma, one record"] / table["cosine, fair kappa"]
    verdict = check(
        "beyond/fair_pairs",
        off < _TOLERANCE
        and matched < 1e-4
        and (ratio > 1).all()
        and (layers < 1).all()
        and (half / 2 - 1).abs().max() < _HALF,
        "the concentration of equal certified epsilon is sqrt(p)/(2 sigma); every printed one is "
        "larger, but smaller than if sigma is the noise on every coordinate of three layers "
        "clipped one by one, which makes the fair one sqrt(3) times as large; at the fair one VMF "
        "noise leaves half the cosine that Gaussian noise leaves one record's gradient",
        ours=f"{len(table)} noise multipliers: at most {off:.1e} from the closed form; printed "
        f"concentrations {ratio.min():.2f} to {ratio.max():.2f} times the fair one, for "
        f"{dearer.min():.2f} to {dearer.max():.2f} times the epsilon, and {layers.min():.2f} to "
        f"{layers.max():.2f} times that by layers; Gaussian cosine {half.min():.3f} to "
        f"{half.max():.3f} times that of VMF",
        tolerance=f"{_TOLERANCE:g}; half the cosine: {_HALF:.0%}",
    )
    yield from shared_by(verdict, "O-026")


CAPTION = (
    "Left: the concentration paired with each noise multiplier, as printed (hollow), with the "
    "same certified epsilon after 1,407 steps (dots), and by the closed form (line); dashed: if "
    "sigma is the noise on every coordinate of three layers clipped one by one. Right: the "
    "certified epsilon of both members of every printed pair, over the printed one: the "
    "concentration costs more, the noise multiplier less than the printed epsilon (dashed). Not in "
    "the paper."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["pairs"]
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    gaussian, vmf = MECHANISMS["Gaussian"], MECHANISMS["VMF"]
    for name, style, look, label in (
        ("closed form", "-", {"color": GREY}, r"$\sqrt{p}/(2\sigma)$"),
        ("by layers", "--", {"color": GREY, "linewidth": 1.2}, "three layers"),
        ("fair kappa", "o", {"color": vmf, "ms": 4.5}, "equal certified epsilon"),
    ):
        row[0].plot(table["sigma"], table[name], style, label=label, **look)
    mark_printed(row[0], table["sigma"], table["printed kappa"], label="printed")
    row[0].set(xlabel=r"noise multiplier $\sigma$", ylabel=r"concentration $\kappa$")
    ends = np.array([0.2, 500.0])
    row[1].plot(ends, ends, "--", color=GREY, linewidth=1.1)
    for name, colour, label in (
        ("epsilon of printed kappa", vmf, "printed concentration (VMF)"),
        ("epsilon of sigma", gaussian, "printed noise multiplier (Gaussian)"),
    ):
        row[1].plot(table["printed epsilon"], table[name], "o", color=colour, ms=4.5, label=label)
    row[1].set(xlabel=r"printed $\varepsilon$", ylabel=r"certified $\varepsilon$, 1,407 steps")
    for axis in row:
        axis.set(xscale="log", yscale="log")
    row[0].set_xticks([0.2, 0.4, 0.8], ["0.2", "0.4", "0.8"])
    row[0].set_yticks([50, 100, 200, 400], ["50", "100", "200", "400"])
    row[0].minorticks_off()
    row[0].legend(loc="upper right")
    row[1].legend(loc="upper left")
    return figure
