"""The linear projection on photographs: sweeps, pictures, and what theory says of them.

Every reconstruction is a DP-SGD step through the projection, eqs. (1) to (3). A task of a sweep is
one picture at one clipping norm. Its noise comes from a seed of its own, which Figures 1 and 4
share: they judge the same reconstructions.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from reconrisk import DPSGD, bounds, metrics
from reconrisk.attacks import observe, unscaled

#: clipping norms over the norm at the lowest of three resolutions: below all norms, between them
#: (norms grow like the side), and above
CLIP_RATIOS = (0.01, 2.6, 15.0, 320.0)
METRICS = {"pixel": ("MSE", "PSNR", "NCC"), "structure": ("NMI", "SSIM", "perceptual")}


def sigmas_parameter(quick: Sequence[float], paper: Sequence[float]) -> Parameter:
    """Return the parameter that lists the noise multipliers."""
    return Parameter("floats", quick, paper, "not printed", "sigma, noise multipliers", low=1e-12)


#: of Figures 1 and 4, which show the same reconstructions
MANY_PICTURES = {
    "pictures": Parameter("int", 4, 100, "100", "photographs attacked", low=2),
    "size": Parameter("int", 224, 224, "224x224", "pixels a side", low=32),
    "clip_below": Parameter(
        "float", 0.01, 0.01, "not printed", "C of row 1 over the least norm", low=1e-9
    ),
    "clip_above": Parameter(
        "float", 10.0, 10.0, "not printed", "C of row 4 over the largest norm", low=1
    ),
    "noise_multipliers": sigmas_parameter(
        (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1),
        (*(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)), 1.0),
    ),
}
SIZES = (32, 224, 1024)
#: of Figures 3 and 5 to 8, which show one picture
RESOLUTIONS = {
    "picture": Parameter("int", 0, 0, "not printed", "which picture, counted from 0", low=0),
    "sizes": Parameter(
        "ints", SIZES, SIZES, "32x32, 224x224, 1024x1024", "pixels a side, lowest first", low=32
    ),
}


# One task ----------------------------------------------------------------------------------------


def rebuild(
    picture: np.ndarray, run: DPSGD, generator: torch.Generator, device: str = "cpu"
) -> np.ndarray:
    """Return the reconstruction of a picture (any shape) from one DP-SGD step, eq. (3)."""
    inputs = torch.as_tensor(picture.reshape(1, -1), dtype=torch.float64, device=device)
    seen = observe(inputs, run, generator, rows=1)
    return as_numpy(unscaled(seen))[0].reshape(picture.shape)


def attack_picture(task: dict[str, Any]) -> list[dict[str, float]]:
    """Attack one picture at one clipping norm and measure it, one row per noise multiplier.

    Parameters
    ----------
    task : dict
        ``picture``, ``count``, ``size`` and ``data_root`` name the picture; ``centred`` subtracts
        its mean first; ``max_grad_norm``, ``noise_multipliers``, ``noise_seed`` and ``device`` say
        how it is attacked; ``metrics`` is a key of ``METRICS``, ``bins`` those of the NMI.
    """
    loaded = task_pictures(task["size"], task["count"], task["data_root"])
    picture = loaded[task["picture"]]
    if task["centred"]:
        picture = picture - picture.mean()
    generator = torch.Generator(device=task["device"]).manual_seed(task["noise_seed"])
    rows, stack = [], []
    for sigma in task["noise_multipliers"]:
        run = DPSGD(sigma, max_grad_norm=task["max_grad_norm"])
        rebuilt = rebuild(picture, run, generator, task["device"])
        if task["metrics"] == "pixel":
            pair = picture.ravel(), rebuilt.ravel()
            measured = {"MSE": metrics.mse, "PSNR": metrics.psnr, "NCC": metrics.ncc}
            rows.append({"sigma": sigma, **{k: float(f(*pair)) for k, f in measured.items()}})
        else:
            nmi, ssim = metrics.nmi(picture, rebuilt, task["bins"]), metrics.ssim(picture, rebuilt)
            rows.append({"sigma": sigma, "NMI": nmi, "SSIM": ssim})
            stack.append(rebuilt)
    if stack:  # compared at once: the features of the picture are found once
        for name, loss in perceptual_metrics(task["device"], task["data_root"]).items():
            for row, distance in zip(rows, loss(picture, np.stack(stack)), strict=True):
                row["perceptual" if name == "LPIPS" else name] = float(distance)
    return rows


# Many tasks --------------------------------------------------------------------------------------


def picture_task(study: Context, **given: Any) -> dict[str, Any]:
    """Return a complete task; the noise depends on picture, size and row, not on the figure."""
    seeds = dataclasses.replace(study, exhibit="ziller2024/photographs")
    key = (given["picture"], given["size"], given.pop("row"), given.get("centred", False))
    return {
        "count": given["picture"] + 1,
        "centred": False,
        "noise_multipliers": list(study.parameters.noise_multipliers),
        "data_root": str(study.read_root or ""),
        "device": study.device,
        "noise_seed": seeds.seed_of(*key),
        "metrics": "pixel",
        **given,
    }


def attack_pictures(study: Context, tasks: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the metrics of every task, with its picture, size and C."""
    named = [{"picture": t["picture"], "size": t["size"], "C": t["max_grad_norm"]} for t in tasks]
    return as_table(named, study.sweep(attack_picture, tasks))


def described(pictures: np.ndarray) -> pd.DataFrame:
    """Return norm, range and contrast ``||x - mean|| / ||x||`` of each picture."""
    flat = pictures.reshape(len(pictures), -1)
    norm = np.linalg.norm(flat, axis=1)
    spread = np.linalg.norm(flat - flat.mean(axis=1, keepdims=True), axis=1)
    return pd.DataFrame(
        {
            "picture": range(len(flat)),
            "N": flat.shape[1],
            "norm": norm,
            "contrast": spread / norm,
            "range": flat.max(axis=1) - flat.min(axis=1),
        }
    )


def attack_many(
    study: Context, clipping: Iterable[float], pictures: pd.DataFrame, **given: Any
) -> pd.DataFrame:
    """Attack every picture at every clipping norm; with bounds and expectations."""
    p = study.parameters
    size = {"count": p.pictures, "size": p.size}
    tasks = [
        picture_task(study, picture=i, **size, row=row, max_grad_norm=float(c), **given)
        for row, c in enumerate(clipping)
        for i in range(p.pictures)
    ]
    return with_theory(attack_pictures(study, tasks).merge(pictures, on="picture"))


def many_pictures(study: Context, kind: str, **given: Any) -> pd.DataFrame:
    """Attack the pictures of Figures 1 and 4 at four clipping norms, which the paper omits.

    The table has the metrics of ``kind`` (a key of ``METRICS``); ``row`` names the clipping norm.
    """
    p = study.parameters
    pictures = described(photographs(study, p.size, p.pictures))
    least, largest = pictures["norm"].min(), pictures["norm"].max()
    clipping = {
        f"{p.clip_below:g} min": p.clip_below * least,
        "min": least,
        "max": largest,
        f"{p.clip_above:g} max": p.clip_above * largest,
    }
    table = attack_many(study, clipping.values(), pictures, metrics=kind, **given)
    table.insert(0, "row", table["C"].map({float(c): name for name, c in clipping.items()}))
    return table


def one_picture(study: Context) -> tuple[dict[int, np.ndarray], pd.DataFrame]:
    """Return one picture at each resolution, lowest first, and the table that describes it."""
    index, sizes = study.parameters.picture, sorted(study.parameters.sizes)
    pictures = {size: photographs(study, size, index + 1)[index] for size in sizes}
    table = pd.concat([described(picture[None]) for picture in pictures.values()])
    return pictures, table.assign(size=sizes, picture=index)


# Theory ------------------------------------------------------------------------------------------


def with_theory(table: pd.DataFrame) -> pd.DataFrame:
    """Add the bounds, the exact expectations and the standard deviation of one reconstruction.

    The expected PSNR is ``10 log10(range^2 / E[MSE])``, exact to 10/N dB: less than 1e-4 dB on
    these pictures.
    """
    columns = table[["C", "sigma", "N", "norm", "range", "contrast"]].to_numpy(float)
    c, sigma, n, norm, width, contrast = columns.T
    noise = c * sigma
    beta = np.minimum(1.0, c / norm)
    noncentrality = np.square((1 - beta) * norm / noise)
    signal = beta * norm * contrast / noise  # non-centrality of the NCC
    expected = bounds.expected_mse_clipped(norm, n, sigma, c)
    tangent = signal / np.sqrt(n)
    return table.assign(
        **{
            "beta": beta,
            "bound MSE": bounds.expected_mse(sigma, c),
            "bound PSNR": bounds.psnr_bound_paper(sigma, c, width),
            "bound NCC": bounds.ncc_bound_paper(n, sigma),
            "data-free bound NCC": bounds.ncc_bound_paper(1, sigma),
            "expected MSE": expected,
            "expected PSNR": 20 * np.log10(width) - 10 * np.log10(expected),
            "expected NCC": bounds.expected_ncc(n, 1 / signal),
            "spread MSE": noise**2 / n * np.sqrt(2 * n + 4 * noncentrality),
            # to first order: the cosine of two vectors, one of them fixed
            "spread NCC": (1 + tangent**2) ** -1.5 * np.sqrt((1 + tangent**2 / 2) / n),
        }
    )


def curves(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return median, least and largest bounds and expectations on a grid of sigma."""
    given = ["picture", "C", "N", "norm", "contrast", "range"]
    pictures = table[list(dict.fromkeys([*by, *given]))].drop_duplicates()
    low, high = np.log10(table["sigma"].min()), np.log10(table["sigma"].max())
    grid = pd.DataFrame({"sigma": np.logspace(low, high, 49)})
    theory = with_theory(pictures.merge(grid, how="cross"))
    columns = [c for c in theory if c.startswith(("bound", "data-free", "expected"))]
    grouped = theory.groupby([*by, "C", "sigma"], sort=False)[columns]
    extremes = grouped.min().add_prefix("least "), grouped.max().add_prefix("most ")
    return pd.concat([grouped.median(), *extremes], axis=1).reset_index()
