"""The price of not knowing the scale: the MSE with the scale estimated over that with it known."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from reconrisk import DPSGD, metrics
from reconrisk.attacks import observe, with_estimated_scale

_OURS = "our own exhibit"
_SIGMAS = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3)
_SCALED_NORMS = (0.5, 1.0, 5.29, 20.0)
_SCALED = "a times the median norm, sqrt(u); N^(1/4) = 5.29 is best"

PARAMETERS = {
    "records": Parameter("int", 200, 5000, _OURS, "MNIST images rebuilt, at most 5,000", 100),
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", 1e-12),
    "scaled_norms": Parameter("floats", _SCALED_NORMS, _SCALED_NORMS, _OURS, _SCALED, 1e-12),
    "rows": Parameter("int", 4, 4, _OURS, "M", 1),
}
SETTLES = ("O-009",)
ALTERED = {
    "price": {
        "mean ratio": "prices",
        "first order": "best prices",
        "share above four times": "shares of scales that fail",
    },
}

#: how near the measured price must come to the first-order one, relative
MARGIN = 0.2
#: how near the best price of the scales tried must come to the least one, relative
BEST_MARGIN = 0.01
#: an estimate of the scale that multiplies the price by four in this share of the steps has failed
FAILS = 0.05


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    records = mnist(p.records)
    inputs, dimension = tensor(study, records), records.shape[1]
    norms = as_numpy(inputs.norm(dim=1))
    clipping = 1e-3 * float(norms.min())  # every gradient is clipped at every input scale
    rows = []
    for sigma in p.noise_multipliers:
        run = DPSGD(sigma, max_grad_norm=clipping)
        for scaled_norm in p.scaled_norms:
            scale = scaled_norm / float(np.median(norms))
            generator = study.generator(sigma, scaled_norm)
            observed = observe(inputs, run, generator, rows=p.rows, bias=True, input_scale=scale)
            rebuilt = as_numpy(with_estimated_scale(observed))
            ratio = metrics.mse(records, rebuilt) / (sigma * norms) ** 2
            # to first order in sigma the rows have the noise sigma^2 (||X||^2 + 1/a^2), because the
            # bias is part of the gradient's norm, and the estimated scale has the relative error
            # sigma sqrt(a^2 ||X||^2 + 1), which multiplies the whole record
            u = (scale * norms) ** 2
            first_order = 1 + 1 / u + (1 + u) / dimension
            mean, error = mean_and_error(ratio)
            rows.append(
                {
                    "N": dimension,
                    "sigma": sigma,
                    "a ||X||": scaled_norm,
                    "median ratio": np.median(ratio),
                    "first order": first_order.mean(),
                    "mean ratio": mean,
                    "standard error": error,
                    "scale error": (sigma * np.sqrt(1 + u)).max(),
                    "share above four times": np.mean(ratio > 4 * first_order),
                }
            )
    return Tables(
        {"price": pd.DataFrame(rows)},
        subsets=(MNIST,),
        ran=f"{p.records} MNIST images (N = {dimension}), one DP-SGD step each through "
        f"{p.rows} rows with bias, for each input scale and sigma.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["price"]
    # second-order terms are of the size of the squared relative error of the scale
    small = table[table["scale error"] < 0.02]
    relative, error = (small[c] / small["first order"] for c in ("mean ratio", "standard error"))
    agrees = every(len(small) > 0, within(relative, 1, error, MARGIN))
    cheapest = table.loc[table.groupby("sigma")["first order"].idxmin()]
    low, high = cheapest.iloc[0], cheapest.iloc[-1]
    least = (1 + 1 / math.sqrt(low["N"])) ** 2
    yield check(
        "beyond/unknown_scale",
        every(
            agrees,
            bool(low["share above four times"] == 0 and high["share above four times"] > FAILS),
            bool(low["first order"] < (1 + BEST_MARGIN) * least),
        ),
        "with a suitable input scale the estimated scale costs little at small sigma; at large "
        "sigma its estimate fails",
        ours=f"first-order price {low['first order']:.3f}, median {low['median ratio']:.2f} at "
        f"sigma = {low['sigma']:g}; more than four times that for none there and for "
        f"{high['share above four times']:.0%} at {high['sigma']:g}",
        paper=f"known scale assumed; (1 + 1/sqrt(N))^2 = {least:.3f}",
    )
    yield check(
        "O-009",
        agrees,
        ours=f"{len(small)} settings, largest deviation {(relative - 1).abs().max():.1%}",
        tolerance=f"{MARGIN:.0%}, errors included",
    )


CAPTION = (
    "The price of not knowing the scale: median MSE with the scale estimated from the noisy bias "
    "gradients over that with it known, for several fixed input scales a (left; lines: expected "
    "price to first order, above the median where the scale's error dominates), and how often the "
    "estimate of the scale fails (right)."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, (row,) = panels(1, 2, 4.4, 3.2)
    groups = tables["price"].groupby("a ||X||", sort=False)
    for colour, marker, (scaled, own) in zip(COLOURS, "os^DvP", groups, strict=False):
        label = rf"$a\,\|X\|$ = {scaled:g}"
        row[0].plot(own["sigma"], own["first order"], color=colour, lw=1.2)
        row[0].plot(own["sigma"], own["median ratio"], marker, ms=5, color=colour, label=label)
        row[1].plot(own["sigma"], own["share above four times"], marker=marker, ms=4, color=colour)
    for axis in row:
        axis.set(xscale="log", xlabel=r"noise multiplier $\sigma$")
    row[0].set(ylim=(0.9, None), ylabel="median MSE, scale estimated / known")
    row[1].set(ylabel="share above four times the line")
    row[1].legend(*row[0].get_legend_handles_labels(), loc="upper left")
    return figure
