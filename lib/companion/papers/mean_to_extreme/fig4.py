"""Figure 4: six similarities of photographs and their reconstructions over sigma."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy import stats

from companion.experiments.tools import as_numpy, perceptual, photographs, task_pictures
from companion.papers.mean_to_extreme.labels import LABELS
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.style import BLUE, ORANGE, drawing, panels
from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import known_scale, observe

SIGMAS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)
#: whether a larger value of a metric is a better reconstruction
LARGER_IS_BETTER = dict(mse=False, psnr=True, ncc=True, nmi=True, ssim=True, perceptual_loss=False)
UNBOUNDED = ("nmi", "ssim", "perceptual_loss")

PARAMETERS = {
    "pictures": Parameter("int", 6, 100, "100", "photographs rebuilt", 2),
    "size": Parameter("int", 224, 224, "ImageNet size", "pixels a side", 32),
    "noise_multipliers": Parameter("floats", SIGMAS, SIGMAS, "not printed", "sigma", 1e-12),
    "max_grad_norm": Parameter("float", 1.0, 1.0, "not printed", "C (below every norm)", 1e-12),
}
SETTLES = (*(f"_{metric}" for metric in LARGER_IS_BETTER), "A-040")
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    photographs(study, 8, 1)  # name a missing folder before anything is computed
    context = {name: getattr(study, name) for name in ("exhibit", "profile", "device")}
    tasks = [
        {
            "context": context,
            "data_root": str(study.read_root) if study.read_root else None,
            "index": index,
            "size": p.size,
            "noise_multiplier": sigma,
            "max_grad_norm": p.max_grad_norm,
        }
        for index in range(p.pictures)
        for sigma in p.noise_multipliers
    ]
    rows = [
        {"picture": task["index"], "sigma": task["noise_multiplier"], **measured}
        for task, measured in zip(tasks, study.sweep(picture_metrics, tasks), strict=True)
    ]
    loss = perceptual(study.device)
    return Tables(
        {"metrics": pd.DataFrame(rows)},
        stand_ins=(loss.name,) if loss.stand_in else (),
        ran=f"{p.pictures} photographs of {p.size}x{p.size}x3 values, one DP-SGD step each for "
        f"{len(p.noise_multipliers)} values of sigma; perceptual loss: {loss.name}.",
    )


def picture_metrics(task: dict, seed: int) -> dict:
    """Rebuild one photograph from one DP-SGD step and measure all six similarities."""
    device = task["context"]["device"]
    original = task_pictures(task["size"], task["index"] + 1, task["data_root"])[task["index"]]
    generator = torch.Generator(device=device).manual_seed(seed)
    run = DPSGD(task["noise_multiplier"], max_grad_norm=task["max_grad_norm"])
    inputs = torch.as_tensor(original.reshape(1, -1), dtype=torch.float32, device=device)
    rebuilt = as_numpy(known_scale(observe(inputs, run, generator)))[0]
    flat, picture = original.ravel(), rebuilt.reshape(original.shape)
    return {
        "mse": float(metrics.mse(flat, rebuilt)),
        "psnr": float(metrics.psnr(flat, rebuilt, 1.0)),
        "ncc": float(metrics.ncc(flat, rebuilt)),
        "nmi": metrics.nmi(original, picture),
        "ssim": metrics.ssim(original, picture),
        "perceptual_loss": perceptual(device)(original, picture),
        "norm": float(np.linalg.norm(flat)),
        "contrast": float(np.linalg.norm(flat - flat.mean()) / np.linalg.norm(flat)),
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    loss, stand_in_loss = _perceptual_loss(tables)
    other_photographs = len(tables.stand_ins) > stand_in_loss
    trend = _trends(tables)
    for metric, worsening in trend.items():
        correlation = stats.spearmanr(worsening.index, worsening).statistic
        # not 1: once noise hides the picture a metric saturates
        yield check(
            f"mean_to_extreme/fig4_{metric}",
            correlation > 0.9,
            f"{loss if metric == 'perceptual_loss' else metric.upper()} worsens as sigma grows",
            ours=f"rank correlation with sigma {correlation:.2f}",
            paper="monotone",
            tolerance="above 0.9",
            stand_in=other_photographs or (metric == "perceptual_loss" and stand_in_loss),
        )
    agree = all(
        stats.spearmanr(trend[metric], trend[bounded]).statistic > 0.9
        for metric in UNBOUNDED
        for bounded in ("mse", "psnr", "ncc")
    )
    near, far = (
        {metric: _shape_distance(trend[metric], trend[bounded]) for metric in UNBOUNDED}
        for bounded in ("ncc", "mse")
    )
    similar = check(
        "mean_to_extreme/fig4",
        agree and all(near[metric] < far[metric] for metric in UNBOUNDED),
        "NMI, SSIM and the perceptual loss follow the bounded metrics, most like the NCC",
        ours="; ".join(
            f"{m} {near[m]:.2f} from the NCC, {far[m]:.2f} from the MSE" for m in UNBOUNDED
        ),
        stand_in=tables.stand_in,
    )
    yield from shared_by(similar, "A-040")


def _perceptual_loss(tables: Tables) -> tuple[str, bool]:
    """Name of the perceptual loss, and whether it stands in for LPIPS."""
    untrained = [name for name in tables.stand_ins if name.endswith("distance")]
    return (untrained[0], True) if untrained else ("LPIPS (AlexNet)", False)


def _trends(tables: Tables) -> dict[str, pd.Series]:
    """Each metric's mean over sigma, its sign such that larger is worse."""
    means = tables["metrics"].groupby("sigma")[list(LARGER_IS_BETTER)].mean()
    return {m: -means[m] if larger else means[m] for m, larger in LARGER_IS_BETTER.items()}


def _shape_distance(a: pd.Series, b: pd.Series) -> float:
    """Largest distance of two curves after each is scaled to [0, 1]."""
    scaled = [(curve - curve.min()) / (curve.max() - curve.min()) for curve in (a, b)]
    return float((scaled[0] - scaled[1]).abs().max())


CAPTION = (
    "Six similarities of photographs and their reconstructions over the noise multiplier: NMI, "
    "SSIM and a perceptual loss follow the metrics that can be bounded. Points: pictures; line: "
    "mean; dashed: exact expectation, where there is one."
)


def alt(tables: Tables) -> str:
    means = tables["metrics"].groupby("sigma")[list(LARGER_IS_BETTER)].mean()
    first, last = means.iloc[0], means.iloc[-1]
    return (
        "Six panels over a logarithmic noise multiplier. MSE rises steadily and PSNR falls "
        f"linearly, from {first['psnr']:.0f} to {last['psnr']:.0f} dB; NCC ({first['ncc']:.1f} to "
        f"{last['ncc']:.1f}), NMI ({first['nmi']:.1f} to {last['nmi']:.1f}) and SSIM "
        f"({first['ssim']:.1f} to {last['ssim']:.1f}) fall in an S-shape, and the perceptual loss "
        "rises and levels off."
    )


@drawing
def draw(tables: Tables) -> Figure:
    table, fine = tables["metrics"], _expectations(tables)
    loss, _ = _perceptual_loss(tables)
    labels = {**LABELS, "nmi": "NMI", "ssim": "SSIM", "perceptual_loss": loss}
    figure, axes = panels(2, 3, 3.3, 2.6)
    for axis, (metric, label) in zip(sum(axes, []), labels.items(), strict=True):
        axis.scatter(table["sigma"], table[metric], s=10, color=BLUE, alpha=0.55, lw=0)
        means = table.groupby("sigma")[metric].mean()
        axis.plot(means.index, means, color=BLUE, label="mean")
        if metric in fine:
            axis.plot(fine.index, fine[metric], "--", color=ORANGE, label="exact expectation")
        axis.set(xscale="log", title=label)
    axes[0][0].set_yscale("log")
    axes[0][0].legend()
    for axis in axes[-1]:
        axis.set_xlabel(r"noise multiplier $\sigma$")
    return figure


def _expectations(tables: Tables) -> pd.DataFrame:
    """Exact expectations of MSE, PSNR and NCC over sigma, mean over the pictures."""
    table, dimension = tables["metrics"], 3 * int(tables.parameters.size) ** 2
    sigma = np.geomspace(table["sigma"].min(), table["sigma"].max(), 80)
    pictures = table.groupby("picture")[["norm", "contrast"]].first()
    norms, contrasts = pictures["norm"], pictures["contrast"]
    values = {
        "mse": [bounds.expected_mse(sigma, norm) for norm in norms],
        "psnr": [bounds.expected_psnr(dimension, sigma, norm, 1.0) for norm in norms],
        "ncc": [bounds.expected_ncc(dimension, sigma, contrast=c) for c in contrasts],
    }
    return pd.DataFrame({k: np.mean(v, axis=0) for k, v in values.items()}, index=sigma)
