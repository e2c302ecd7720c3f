"""Figure 6: one photograph in three scenarios; no threshold of a metric fits all of them."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.exhibit import *
from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import known_scale, observe

SIGMAS = (1e-4, 3e-4, 6e-4, 1e-3, 2e-3, 4e-3, 1e-2, 3e-2)

PARAMETERS = {
    "size": Parameter("int", 224, 224, "224", "pixels a side in scenarios 1 and 2", 32),
    "small_size": Parameter("int", 64, 64, "64", "pixels a side in scenario 3", 32),
    "noise_multipliers": Parameter("floats", SIGMAS, SIGMAS, "not printed", "sigma", 1e-12),
    "max_grad_norm": Parameter("float", 1.0, 1.0, "1", "C", 1e-12),
    "rows": Parameter("int", 1, 1, "1", "M", 1),
}
SETTLES = ("_scenario1", "_scenario2", "_scenario3", "A-043")
OWN_RANGE = "psnr, own range"
ALTERED = {"metrics": {"mse": by("scenario", "MSEs", each="of scenario {}")}}
SCENARIOS = (
    scenario(
        "PSNRs of the small picture {} higher",
        column("metrics", OWN_RANGE, lambda c, by: c + by, "scenario == 3"),
        "",
        "A-043",
        most=3.0,
        unit=" dB",
    ),
)

#: in dB: values at SSIM 0.5 are read off between noise levels at most 6 dB apart (a factor of two
#: in sigma), to a quarter of that; of the NCC r, the noise over the signal is 1/r^2 - 1
GAP = 1.5
#: how near MSEs must come to their expectation, relative; at 64 pixels a side the error is 1.3%
MARGIN = 0.1
PHOTOGRAPHS = True


def _scenarios(p: Settings) -> dict[int, tuple[int, int]]:
    """Pixels a side and the range of their values in each scenario."""
    return {1: (p.size, 1), 2: (p.size, 255), 3: (p.small_size, 1)}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    images, rows = {}, []
    for scenario, (size, scale) in _scenarios(p).items():
        original = photographs(study, size, 1)[0]
        record = scale * original.ravel()
        for sigma in p.noise_multipliers:
            run = DPSGD(sigma, max_grad_norm=p.max_grad_norm)
            # scenarios 1 and 2 share their noise: the same picture in other units
            generator = study.generator(size, sigma)
            update = observe(tensor(study, record[None]), run, generator, rows=p.rows)
            rebuilt = as_numpy(known_scale(update))[0]
            images[f"{scenario} {sigma:g}"] = shown = (rebuilt / scale).reshape(original.shape)
            rows.append(
                {
                    "scenario": scenario,
                    "sigma": sigma,
                    "mse": float(metrics.mse(record, rebuilt)),
                    "psnr": float(metrics.psnr(record, rebuilt, 1.0)),
                    "psnr, own range": float(metrics.psnr(record, rebuilt, scale)),
                    "ncc": float(metrics.ncc(record, rebuilt)),
                    "ssim": metrics.ssim(original, shown),
                    "expected mse": float(bounds.expected_mse(sigma, np.linalg.norm(record))),
                }
            )
    return Tables(
        {"metrics": pd.DataFrame(rows)},
        images=images,
        ran=f"one photograph at {p.size} and {p.small_size} pixels a side, ranges (0, 1) and "
        f"(0, 255), one DP-SGD step for each of {len(p.noise_multipliers)} values of sigma.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    by = {s: own.set_index("sigma") for s, own in tables["metrics"].groupby("scenario")}
    ratio = by[2]["mse"] / by[1]["mse"]
    # the same picture in other units: what does not depend on units is the same
    same = (by[2] - by[1])[[OWN_RANGE, "ncc", "ssim"]].abs().max().max() < 1e-6
    (first, third), ncc = (_at_half_ssim(by, m) for m in (OWN_RANGE, "ncc"))
    psnr_gap = abs(first - third)
    noise_gap = float(abs(np.diff(10 * np.log10(1 / np.square(ncc) - 1))[0]))
    no_threshold = check(
        "mean_to_extreme/fig6",
        same and ((ratio / 255**2 - 1).abs() < 1e-6).all() and min(psnr_gap, noise_gap) > GAP,
        "no one threshold of MSE, PSNR or NCC separates usable reconstructions",
        ours=f"the same picture has an MSE {ratio.median():.0f} times as large in units of 255; at "
        f"SSIM 0.5 the PSNR of scenarios 1 and 3 differs by {psnr_gap:.1f} dB; the NCC is "
        f"{ncc[0]:.3f} and {ncc[1]:.3f}, {noise_gap:.1f} dB of noise apart",
        tolerance=f"gaps above {GAP:g} dB",
        stand_in=tables.stand_in,
    )
    yield from shared_by(no_threshold, "A-043")
    for scenario, (size, _) in _scenarios(tables.parameters).items():
        own, dimension = by[scenario], 3 * size**2
        yield check(
            f"mean_to_extreme/fig6_scenario{scenario}",
            within(own["mse"] / own["expected mse"], 1, math.sqrt(2 / dimension), MARGIN),
            "the measured MSE is sigma^2 ||X||^2 at every sigma",
            ours=f"{len(own)} values of sigma, N = {dimension}",
            tolerance=f"{MARGIN:.0%}, its error included",
            stand_in=tables.stand_in,
        )


def _at_half_ssim(by: dict[int, pd.DataFrame], metric: str) -> tuple[float, float]:
    """A metric in scenarios 1 and 3 at SSIM 0.5, linear between the sigmas that were run."""
    ordered = [by[scenario].sort_values("ssim") for scenario in (1, 3)]
    first, third = (float(np.interp(0.5, curve["ssim"], curve[metric])) for curve in ordered)
    return first, third


CAPTION = (
    "One photograph in three scenarios (224 pixels in (0, 1); the same in (0, 255); 64 pixels) "
    "over the noise multiplier, with the metrics below. The PSNR takes the range of the picture, "
    "as Definition 4 says: scenarios 1 and 2 then coincide in all but the MSE. Frames match the "
    "curves."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["metrics"]
    sigmas = np.sort(table["sigma"].unique())
    names = {
        scenario: f"{scenario}: {size} px, (0, {scale})"
        for scenario, (size, scale) in _scenarios(tables.parameters).items()
    }
    colours = {1: BLUE, 2: ORANGE, 3: GREEN}
    lines = {1: "-o", 2: "--o", 3: "-.o"}
    figure = plt.figure(figsize=(8.4, 7.0), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[1.55, 1])
    for scenario, line in zip(names, upper.subplots(3, sigmas.size), strict=True):
        for axis, sigma in zip(line, sigmas, strict=True):
            title = rf"$\sigma$ = {sigma:g}" if scenario == 1 else ""
            picture(axis, tables.images[f"{scenario} {sigma:g}"], title, colours[scenario])
        line[0].set_ylabel(f"scenario {scenario}")
    axes = lower.subplots(1, 4)
    labels = {"mse": "MSE", OWN_RANGE: "PSNR (dB)", "ncc": "NCC", "ssim": "SSIM"}
    for axis, (metric, label) in zip(axes, labels.items(), strict=True):
        for scenario, own in table.groupby("scenario"):
            style = {"ms": 3, "color": colours[scenario], "label": names[scenario]}
            axis.plot(own["sigma"], own[metric], lines[scenario], **style)
        axis.set(xscale="log", title=label, xlabel=r"$\sigma$")
    axes[0].set_yscale("log")
    lower.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
