"""Figure 4: six similarities of photographs and their reconstructions over sigma."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy import special, stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.labels import LABELS
from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import known_scale, observe

SIGMAS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)
#: whether a larger value of a metric is a better reconstruction
LARGER_IS_BETTER = dict(mse=False, psnr=True, ncc=True, nmi=True, ssim=True, perceptual_loss=False)
LARGER_IS_BETTER |= {ST_LPIPS: False}
UNBOUNDED = ("nmi", "ssim", "perceptual_loss", ST_LPIPS)
#: how the table calls what :func:`perceptual_metrics` calls otherwise
PERCEPTUAL = {"LPIPS": "perceptual_loss"}
BOUNDED = ("mse", "psnr", "ncc")
#: the values that metrics have without noise and without a picture
ENDS = {"ncc": (1.0, 0.0), "nmi": (2.0, 1.0), "ssim": (1.0, 0.0)}
#: rank correlation from which on a curve falls with another
MONOTONE = 0.9
_LOSS = "perceptual loss"
#: of a metric's range: beyond it the noise hides the picture, and the metric no longer moves
SATURATED = 0.98
#: curves are alike if, each scaled to [0, 1], they are nowhere farther apart
ALIKE = 0.2
#: mean NCC that is very low, and chance of telling a picture from its grey that is no low success
LOW, SURE = 0.2, 0.99
#: the coarse end of the grids of sigma that the figure could have; ours is the fine one
COARSE = (1e-3, 1e-2, 1e-1)

PARAMETERS = {
    "pictures": Parameter("int", 6, 100, "100", "photographs rebuilt", 2),
    "size": Parameter("int", 224, 224, "ImageNet size", "pixels a side", 32),
    "noise_multipliers": Parameter("floats", SIGMAS, SIGMAS, "not printed", "sigma", 1e-12),
    "max_grad_norm": Parameter("float", 1.0, 1.0, "not printed", "C (below every norm)", 1e-12),
}
CHOICES = {
    "noise_multipliers": "the paper prints neither its values of sigma nor its axis: from eight "
    "values from 1e-5 on to one a decade from 1e-3 on"
}
PANELS = {metric: f"_{metric}" for metric in LARGER_IS_BETTER} | {ST_LPIPS: "_perceptual_loss"}
SETTLES = (*dict.fromkeys(PANELS.values()), "A-040", "A-053")
ALTERED = {
    "metrics": {
        "mse": at("sigma == 0.001", "MSEs at sigma = 0.001"),
        "psnr": at("sigma == 0.001", "PSNRs at sigma = 0.001 [dB]"),
        "ncc": (
            at("sigma == 0.001", "NCCs at sigma = 0.001"),
            at("sigma >= 0.01", "NCCs from sigma = 0.01 on"),
        ),
        "nmi": at("sigma == 0.001", "NMIs at sigma = 0.001"),
        "ssim": at("sigma == 0.001", "SSIMs at sigma = 0.001"),
        "perceptual_loss": at("sigma == 0.001", "perceptual losses at sigma = 0.001"),
        ST_LPIPS: at("sigma == 0.001", f"{ST_LPIPS} at sigma = 0.001"),
    },
}
SCENARIOS = (
    scenario(
        "NMI and SSIM that fall as the PSNR does",
        frame("metrics", lambda t: t.assign(nmi=t["psnr"], ssim=t["psnr"])),
        "",
        "A-040",
    ),
)
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
    loss = perceptual(study.device, study.read_root)
    return Tables(
        {"metrics": pd.DataFrame(rows)},
        stand_ins=(loss.name,) if loss.stand_in else (),
        ran=f"{p.pictures} photographs of {p.size}x{p.size}x3 values, one DP-SGD step each for "
        f"{len(p.noise_multipliers)} values of sigma; {_LOSS}: {loss.name}.",
    )


def picture_metrics(task: dict, seed: int) -> dict:
    """Rebuild one photograph from one DP-SGD step and measure all similarities."""
    device = task["context"]["device"]
    original = task_pictures(task["size"], task["index"] + 1, task["data_root"])[task["index"]]
    generator = torch.Generator(device=device).manual_seed(seed)
    run = DPSGD(task["noise_multiplier"], max_grad_norm=task["max_grad_norm"])
    inputs = torch.as_tensor(original.reshape(1, -1), dtype=torch.float32, device=device)
    rebuilt = as_numpy(known_scale(observe(inputs, run, generator)))[0]
    flat, picture = original.ravel(), rebuilt.reshape(original.shape)
    losses = perceptual_metrics(device, task["data_root"]).items()
    return {
        "mse": float(metrics.mse(flat, rebuilt)),
        "psnr": float(metrics.psnr(flat, rebuilt, 1.0)),
        "ncc": float(metrics.ncc(flat, rebuilt)),
        "nmi": metrics.nmi(original, picture),
        "ssim": metrics.ssim(original, picture),
        **{PERCEPTUAL.get(name, name): loss(original, picture) for name, loss in losses},
        "norm": float(np.linalg.norm(flat)),
        "contrast": float(np.linalg.norm(flat - flat.mean()) / np.linalg.norm(flat)),
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    loss, stand_in_loss = _perceptual_loss(tables)
    others = tuple(name for name in tables.stand_ins if name != loss)
    pictures = Origin(others, tuple(tables.subsets))
    trend, off = _trends(tables), _off_expectation(tables)
    names = {metric: metric.upper() for metric in trend} | {"perceptual_loss": loss}
    for metric, worsening in trend.items():
        correlation = stats.spearmanr(worsening.index, worsening).statistic
        yield check(
            f"mean_to_extreme/fig4{PANELS[metric]}",
            _worsens(worsening) and off.get(metric, 0.0) < STANDARD_ERRORS,
            f"{names[metric]} worsens as sigma grows"
            + (", and its mean over the pictures is the exact one" if metric in off else ""),
            ours=f"rank correlation with sigma {correlation:.2f}",
            paper="monotone",
            tolerance=f"every step, up to {SATURATED:.0%} of the range"
            + (f"; {STANDARD_ERRORS:g} standard errors" if metric in off else ""),
            stand_in=tables.stand_in if metric == "perceptual_loss" else pictures,
        )
    yield _low_ncc(tables["metrics"], pictures)
    half = _half_lost(tables)
    coarse = {name: curve[curve.index.isin(COARSE)] for name, curve in trend.items()}
    grids = [trend, coarse] if len(coarse["ncc"]) > 2 else [trend]
    for metric in (name for name in UNBOUNDED if name in trend):
        away = [_away(grid, metric) for grid in grids]
        follows = alike(
            *(_follows_ncc(grid, metric, d) for grid, d in zip(grids, away, strict=True))
        )
        measured = ", ".join(f"{value:.2f} from the {b.upper()}" for b, value in away[0].items())
        if metric in half:
            measured += (
                f"; half of it is lost at sigma = {half[metric]:.1g}, of the NCC at "
                f"{half['ncc']:.1g}"
            )
        statement = f"the {names[metric]} follows the bounded metrics, and the NCC most closely"
        earlier = (
            "it worsens with the noise as they do, but its curve is nearer to another than the NCC"
        )
        if metric == "perceptual_loss" and stand_in_loss and ST_LPIPS in trend:
            continue
        if metric == "perceptual_loss" and stand_in_loss:
            # how early a distance sees noise depends on what its network was trained for
            needs = "weights of LPIPS' network, or the package stlpips-pytorch"
            similar = not_run("mean_to_extreme/fig4", statement, needs)
        else:
            similar = check(
                "mean_to_extreme/fig4",
                follows,
                statement,
                ours=measured,
                tolerance=f"nearest to the NCC, below {ALIKE:g} from it",
                stand_in=pictures,
                differs="" if follows else earlier,
                decided_by="the paper's grid of noise multipliers, which it does not print: from "
                f"1e-5 on the curve is {away[0]['ncc']:.2f} of its range from the NCC's and "
                f"{away[0]['psnr']:.2f} from the PSNR's, at 1e-3, 1e-2 and 1e-1 alone "
                f"{away[-1]['ncc']:.2f} and {away[-1]['psnr']:.2f}",
            )
        yield from shared_by(similar, "A-040")


def _low_ncc(table: pd.DataFrame, pictures: Origin) -> Verdict:
    """A-053: pictures of low NCC that are told from the grey of their mean."""
    known = table.assign(told=special.ndtr(table["contrast"] / (2 * table["sigma"])))
    at_noise = known.groupby("sigma").agg({"ncc": "mean", "told": "min"})
    low = at_noise[at_noise["ncc"] < LOW]
    return check(
        "A-053",
        not low.empty and low["told"].max() > SURE,
        f"at some noise the NCC is below {LOW:g} on average, and yet whoever knows each picture "
        f"and its mean grey tells from the reconstruction which was the record, {SURE:.0%} sure: "
        "half of their distance over the noise is the quantile",
        ours=f"NCC {low['ncc'].iloc[0]:.2f} and {low['told'].iloc[0]:.1%} at sigma = "
        f"{low.index[0]:g}"
        if len(low)
        else "",
        stand_in=pictures,
    )


def _off_expectation(tables: Tables) -> dict[str, float]:
    """The largest distances of MSE, PSNR and NCC from their exact expectations.

    Of means over the pictures, in standard errors: MSEs are chi-squared, and the deviation of an
    NCC is at most one over the root of the dimension.
    """
    table, dimension = tables["metrics"], 3 * int(tables.parameters.size) ** 2
    sigma, relative = table["sigma"], (2 / dimension) ** 0.5
    expected = bounds.expected_mse(sigma, table["norm"])
    psnr = bounds.expected_psnr(dimension, sigma, table["norm"], 1.0)
    ncc = bounds.expected_ncc(dimension, sigma, contrast=table["contrast"])
    gaps = {
        "mse": (table["mse"] / expected - 1) / relative,
        "psnr": (table["psnr"] - psnr) / (10 / np.log(10) * relative),
        "ncc": (table["ncc"] - ncc) * dimension**0.5,
    }
    means = pd.DataFrame(gaps).groupby(sigma).agg(lambda gap: gap.sum() / len(gap) ** 0.5)
    return means.abs().max().to_dict()


def _away(trend: dict[str, pd.Series], metric: str) -> dict[str, float]:
    """The distances of a metric's curve from those of the bounded ones."""
    return {bounded: _shape_distance(trend[metric], trend[bounded]) for bounded in BOUNDED}


def _follows_ncc(trend: dict[str, pd.Series], metric: str, away: dict[str, float]) -> bool:
    """Whether a metric falls with all bounded ones, its curve nearest to the NCC's and near it."""
    falls = all(
        stats.spearmanr(trend[metric], trend[bounded]).statistic > MONOTONE for bounded in BOUNDED
    )
    return falls and away["ncc"] == min(away.values()) and away["ncc"] < ALIKE


def _worsens(trend: pd.Series) -> bool:
    """Whether a metric is worse at every larger sigma, until it saturates."""
    share = ((trend - trend.min()) / (trend.max() - trend.min())).to_numpy()
    before, after = share[:-1], share[1:]
    return bool(((after > before) | (np.minimum(before, after) > SATURATED)).all())


def _half_lost(tables: Tables) -> dict[str, float]:
    """The sigma at which the mean of a metric lies half-way between its ends."""
    means = tables["metrics"].groupby("sigma")[list(ENDS)].mean()
    # np.interp wants increasing values: metrics fall with sigma
    return {
        metric: float(
            np.exp(np.interp(-sum(ends) / 2, -means[metric], np.log(means.index.to_numpy())))
        )
        for metric, ends in ENDS.items()
    }


def _perceptual_loss(tables: Tables) -> tuple[str, bool]:
    """Name of the perceptual loss, and whether it stands in for LPIPS."""
    name = tables.ran.partition(f"{_LOSS}: ")[2].rstrip(".")
    return name, name in tables.stand_ins


def _trends(tables: Tables) -> dict[str, pd.Series]:
    """Each metric's mean over sigma, its sign such that larger is worse."""
    means = tables["metrics"].groupby("sigma").mean()
    signs = {metric: -1 if larger else 1 for metric, larger in LARGER_IS_BETTER.items()}
    return {metric: sign * means[metric] for metric, sign in signs.items() if metric in means}


def _shape_distance(a: pd.Series, b: pd.Series) -> float:
    """Largest distance of two curves after each is scaled to [0, 1]."""
    scaled = [(curve - curve.min()) / (curve.max() - curve.min()) for curve in (a, b)]
    return float((scaled[0] - scaled[1]).abs().max())


def caption(tables: Tables) -> str:
    loss, stand_in = _perceptual_loss(tables)
    untrained = " (its network is not trained: a stand-in for LPIPS)" if stand_in else ""
    if ST_LPIPS in tables["metrics"]:
        untrained += f"; green: {ST_LPIPS}, trained and not LPIPS"
    return (
        "Similarities of photographs and their reconstructions over the noise multiplier. NMI "
        f"and SSIM fall with less noise than the NCC. Lower right: {loss}{untrained}. Points: "
        "pictures; line: mean; dashed: exact expectation, where there is one."
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
        if metric == "perceptual_loss" and ST_LPIPS in table:
            trained = table.groupby("sigma")[ST_LPIPS].mean()
            axis.plot(trained.index, trained, color=GREEN, label=ST_LPIPS)
            axis.legend()
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
