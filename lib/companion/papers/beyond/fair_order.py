"""What orders reconstruction risk across mechanisms: capacity, epsilon or the mean cosine."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import optimize, stats

from companion.exhibit import *
from companion.exhibit import MECHANISMS
from companion.experiments.batch_attacks import Attacked, attack_task, most_records, run_attacks
from companion.experiments.fair_pairs import fair_concentration
from companion.experiments.federated import DIMENSION, KEY, studied_pairs
from companion.papers.beyond.cosine_axis import draw_cosine_axis, stretched
from companion.papers.beyond.rounding import significant
from reconrisk import bounds, privacy
from reconrisk.training import Release

_OURS = "not printed: our own"

PARAMETERS = {
    "digits": Parameter("str", "MNIST-5000", "MNIST", "MNIST", "labelled data set of digits"),
    "garments": Parameter(
        "str",
        "FashionMNIST-20",
        "FashionMNIST",
        "Fashion-MNIST",
        "data set of garments, attacked in the batches that it can fill",
    ),
    "batch_sizes": Parameter(
        "ints", (16, 128), (16, 128), "16, 32, 64, 128", "records of a batch", low=2
    ),
    "draws": Parameter("int", 3, 12, _OURS, "batches attacked at each batch size", low=3),
    "iterations": Parameter("int", 60, 2000, "10,000", "iterations of the attack", low=10),
    "resamples": Parameter("int", 2000, 10000, _OURS, "resamples for intervals", low=200),
}
SETTLES = ("O-031", "E-D-25")
_OF = "pairing == '{}' and order == '{}'"
ALTERED = {
    "equal capacity": {"difference": "differences of errors at equal capacity []"},
    "correlations": {
        "Spearman": (
            at("order == 'cosine'", "correlations with the cosine"),
            at(_OF.format("equal epsilon", "epsilon"), "correlations with an equal epsilon"),
            at(_OF.format("equal capacity", "log capacity"), "correlations with an equal capacity"),
        )
    },
}
#: pairings of the noises, with their markers
_PAIRINGS = {"printed pairs": "o", "equal epsilon": "^", "equal capacity": "s"}
_TOGETHER = "the last two together"
#: what may order the risk
_ORDERS = ("log capacity", "epsilon", "cosine")
#: rank correlations that count as an order, and that do not; an order that is perfect within each
#: mechanism but ignores which one it is has 0.5
_WELL, _POORLY = 0.9, 0.8
#: MSE by which the mechanisms may differ at equal capacity to count as equal: a tenth of the
#: smallest MSE under the noises printed, about one
_EQUAL = 0.1


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    parts, correlations = [], []
    for name in (p.digits, p.garments):
        for size in (n for n in p.batch_sizes if n <= most_records(name)):
            points = paired_points(size)
            releases = list(dict.fromkeys(point.release for point in points))
            budget = {"draws": p.draws, "iterations": p.iterations}
            (run,) = run_attacks(study, [attack_task(study, name, size, releases, **budget)])
            table = _measured(run, points, name, size)
            errors = np.array([run.of("mse", point.release) for point in points])
            parts.append(table)
            correlations.append(_correlations(study, table, errors, name, size))
    points = pd.concat(parts, ignore_index=True)
    return Tables(
        {
            "points": points,
            "correlations": pd.concat(correlations, ignore_index=True),
            "printed numbers": printed_correlations(),
            "equal capacity": _equal_capacity(points),
        },
        exact=("printed numbers",),
        ran=f"{p.draws} batches of {', '.join(map(str, p.batch_sizes))} of {p.digits} and "
        f"{p.garments} at eight noises in three pairings, {p.iterations} iterations.",
    )


@dataclass(frozen=True)
class Point:
    """One setting of one mechanism in one pairing.

    Attributes
    ----------
    signal : float
        One over the noise multiplier; for VMF noise, over that of the Gaussian with its privacy
        loss. It orders as epsilon does after any number of steps.
    epsilon : float
        As printed at the printed pairs, the signal elsewhere: only its order is used.
    """

    pairing: str
    mechanism: str
    release: Release
    log_capacity: float
    signal: float
    epsilon: float


def paired_points(size: int) -> list[Point]:
    """The eight noises of Table VI with three partners each, at one batch size."""
    points = []
    for pair in studied_pairs():
        sigma, deviation = pair.noise_multiplier, pair.noise_multiplier / size
        layered = math.sqrt(3)
        matched = equal_capacity_concentration(deviation, layered)
        # concentration, whether layers are clipped one by one, and the radius of their ball
        partners = {
            "printed pairs": (pair.concentration, True, layered),
            "equal epsilon": (significant(fair_concentration(sigma), 5), False, 1.0),
            "equal capacity": (significant(matched, 5), True, layered),
        }
        for pairing, (kappa, by_layer, radius) in partners.items():
            signal = vmf_signal = radius / sigma
            # the certified accounting is equal to more digits than this closed form has
            if pairing != "equal epsilon":
                vmf_signal = 1 / float(privacy.vmf_noise_multiplier(DIMENSION, kappa))
            capacity = vmf_capacity = float(bounds.bayes_capacity_vmf(DIMENSION, kappa))
            # ties must be equal to all digits
            if pairing != "equal capacity":
                capacity = float(bounds.bayes_capacity_gaussian(DIMENSION, deviation, radius))
            for mechanism, noise, log_capacity, distance in (
                ("VMF", kappa, vmf_capacity, vmf_signal),
                ("Gaussian", sigma, capacity, signal),
            ):
                release = Release(mechanism.lower(), noise, by_layer=by_layer)
                epsilon = pair.epsilon if pairing == "printed pairs" else distance
                points.append(Point(pairing, mechanism, release, log_capacity, distance, epsilon))
    return points


@functools.lru_cache(maxsize=256)
def equal_capacity_concentration(noise_std: float, radius: float) -> float:
    """The concentration at which VMF noise has the capacity of Gaussian noise on a ball.

    ``noise_std`` is that of every coordinate of the released gradient, sigma over the batch size
    as in Theorem 5; the ball has radius sqrt(3) where three layers are clipped to norm one.
    """
    wanted = float(bounds.bayes_capacity_gaussian(DIMENSION, noise_std, radius))
    root = optimize.brentq(
        lambda at: float(bounds.bayes_capacity_vmf(DIMENSION, math.exp(at))) - wanted,
        math.log(1e-3),
        math.log(1e12),
        xtol=1e-10,
    )
    return math.exp(root)


def rank_correlation(risk: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Spearman's correlation, with average ranks for ties, over the last axis; (...)."""
    ranks = [stats.rankdata(np.asarray(v), axis=-1) for v in np.broadcast_arrays(risk, order)]
    centred = [r - r.mean(axis=-1, keepdims=True) for r in ranks]
    inner = (centred[0] * centred[1]).sum(axis=-1)
    return inner / np.sqrt(np.prod([(c * c).sum(axis=-1) for c in centred], axis=0))


def _measured(run: Attacked, points: Sequence[Point], name: str, size: int) -> pd.DataFrame:
    """One row per point: the quantities that may order the risk, and the reconstruction error."""
    rows = []
    for point in points:
        cosine = float(run.of("cosine", point.release).mean())
        setting = (name, size, point.pairing, point.mechanism, point.release.noise)
        orders = (point.log_capacity, point.signal, point.epsilon, cosine)
        rows.append((*setting, *orders, *mean_and_error(run.of("mse", point.release))))
    columns = ["data", "n", "pairing", "mechanism", "noise", "log capacity", "signal", "epsilon"]
    return pd.DataFrame(rows, columns=[*columns, "cosine", "MSE", "error"])


def _correlations(
    study: Context, table: pd.DataFrame, errors: np.ndarray, name: str, size: int
) -> pd.DataFrame:
    """Spearman's correlation of minus the MSE with each order, with intervals over batches."""
    rng = study.rng("resamples", name, size)
    picked = rng.integers(errors.shape[1], size=(study.parameters.resamples, errors.shape[1]))
    resampled = -errors[:, picked].mean(axis=2).T  # (resamples, points)
    groups = {pairing: [pairing] for pairing in _PAIRINGS} | {_TOGETHER: list(_PAIRINGS)[1:]}
    rows = []
    for pairing, among in groups.items():
        own = table["pairing"].isin(among).to_numpy()
        risk = -table.loc[own, "MSE"].to_numpy()
        for order in _ORDERS:
            by = table.loc[own, order].to_numpy()
            value = float(rank_correlation(risk, by))
            interval = np.quantile(rank_correlation(resampled[:, own], by), [0.025, 0.975])
            rows.append((name, size, pairing, order, value, *interval))
    return pd.DataFrame(rows, columns=["data", "n", "pairing", "order", "Spearman", "low", "high"])


def printed_correlations() -> pd.DataFrame:
    """The same for Table VI's printed numbers, where the cosine is unknown."""
    six = registry.printed(f"{KEY}/table6")
    six = six[six["metric"] == "MSE"]
    of = {pair.concentration: pair for pair in studied_pairs()}
    rows = []
    for (name, size), part in six.groupby(["dataset", six["batch_size"].astype(int)], sort=False):
        pairs = [of[kappa] for kappa in part["paired_kappa_vmf"].astype(float)]
        deviations = np.array([pair.noise_multiplier for pair in pairs]) / size
        capacity = np.where(
            part["mechanism"] == "VMF",
            bounds.bayes_capacity_vmf(DIMENSION, [pair.concentration for pair in pairs]),
            bounds.bayes_capacity_gaussian(DIMENSION, deviations, math.sqrt(3)),
        )
        risk = -part["value"].to_numpy(dtype=float)
        orders = (capacity, np.array([pair.epsilon for pair in pairs]))
        rows.append((name, size, *(float(rank_correlation(risk, order)) for order in orders)))
    return pd.DataFrame(rows, columns=["data", "n", "log capacity", "epsilon"])


def _equal_capacity(table: pd.DataFrame) -> pd.DataFrame:
    """Gaussian minus VMF error at equal capacity, pair by pair."""
    own = table[table["pairing"] == "equal capacity"]
    gaussian, vmf = (own[own["mechanism"] == m].reset_index(drop=True) for m in ("Gaussian", "VMF"))
    columns = {
        "sigma": gaussian["noise"],
        "log capacity": gaussian["log capacity"],
        "kappa": vmf["noise"],
        "cosine Gaussian": gaussian["cosine"],
        "cosine VMF": vmf["cosine"],
        "difference": gaussian["MSE"] - vmf["MSE"],
        "error": np.hypot(gaussian["error"], vmf["error"]),
    }
    return gaussian[["data", "n"]].assign(**columns)


def judge(tables: Tables) -> Iterator[Verdict]:
    by = tables["correlations"].set_index(["pairing", "order"])["Spearman"].sort_index()
    # a quantity that is held equal cannot order across mechanisms
    blind = max(
        by["printed pairs", "epsilon"].max(),
        by["equal epsilon", "epsilon"].max(),
        by["equal capacity", "log capacity"].max(),
    )
    cosine = min(by[pairing, "cosine"].min() for pairing in (*_PAIRINGS, _TOGETHER))
    both = max(by[_TOGETHER, order].max() for order in ("epsilon", "log capacity"))
    equal, printed = tables["equal capacity"], tables["printed numbers"]
    always = _always_larger(equal)
    others = [
        f"{name} at equal epsilon {_range(by['equal epsilon', order])}, at equal capacity "
        f"{_range(by['equal capacity', order])}, together {_range(by[_TOGETHER, order])}"
        for name, order in (("epsilon", "epsilon"), ("capacity", "log capacity"))
    ]
    verdict = check(
        "O-031",
        cosine > _WELL
        and blind < _POORLY
        and both < cosine
        and min(by["equal epsilon", "log capacity"].min(), by["equal capacity", "epsilon"].min())
        > _WELL
        and always,
        ours="Spearman's correlation with minus the MSE: cosine at least "
        f"{math.floor(100 * cosine) / 100:.2f} in every pairing, data set and batch size; "
        + "; ".join(others),
        paper=f"on the printed MSEs capacity {_range(printed['log capacity'])}, epsilon "
        f"{_range(printed['epsilon'])}",
        tolerance=f"above {_WELL:g} and below {_POORLY:g}",
        stand_in=tables.stand_in,
    )
    yield from shared_by(verdict, "beyond/fair_order")
    gaussian, vmf = equal["cosine Gaussian"], equal["cosine VMF"]
    yield refute(
        "E-D-25",
        holds=within(equal["difference"], 0.0, equal["error"], _EQUAL),
        corrected_holds=always and by["equal capacity", "log capacity"].max() < _POORLY,
        stand_in=tables.stand_in,
        ours=f"{len(equal)} pairs; Gaussian minus VMF MSE {_range(equal['difference'], 1)}; "
        f"cosines {_range(gaussian)} against {_range(vmf)}",
    )


def _always_larger(equal: pd.DataFrame) -> bool:
    """Whether the Gaussian error is the larger in every pair.

    The pairs of one batch size share their batches, so that one of them must be significant.
    """
    surest = (equal["difference"] / equal["error"]).groupby([equal["data"], equal["n"]]).max()
    return bool((equal["difference"] > 0).all() and (surest > STANDARD_ERRORS).all())


def _range(values: pd.Series, digits: int = 2) -> str:
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"


CAPTION = (
    "What orders reconstruction errors across mechanisms, a row for each data set: MSE at the "
    "largest batch size over each candidate for the order: log capacity; one over the noise "
    "multiplier, which orders as epsilon does (for VMF noise, that of the Gaussian of equal "
    "privacy); the mean cosine. Each noise of Table VI is paired as printed, by certified epsilon, "
    "and by capacity (Theorems 5 and 6)."
)


@drawing
def draw(tables: Tables) -> Figure:
    points = tables["points"]
    names = list(points["data"].unique())
    figure, axes = panels(len(names), len(_ORDERS), 2.8, 2.5)
    for row, name in zip(axes, names, strict=True):
        own = points[points["data"] == name]
        top = own["n"].max()
        for axis, order in zip(row, _ORDERS, strict=True):
            _order_panel(axis, own[own["n"] == top], order)
        row[0].set_ylabel(f"{shown_name(name)}\nMSE, batch size {top}")
    handles = [
        *(legend_line(m, colour, "", "o") for m, colour in MECHANISMS.items()),
        legend_line("printed pairs", GREY, "", "o"),
        legend_line("equal epsilon", GREY, "", "^", markerfacecolor="white"),
        legend_line("equal capacity", GREY, "", "s"),
    ]
    legend_above(figure, handles, 5)
    return figure


def _order_panel(axes: Axes, points: pd.DataFrame, order: str) -> None:
    for mechanism, colour in MECHANISMS.items():
        for pairing, marker in _PAIRINGS.items():
            part = points[(points["mechanism"] == mechanism) & (points["pairing"] == pairing)]
            x = part["signal" if order == "epsilon" else order]
            look: dict[str, Any] = {"fmt": marker, "ms": 4.5, "color": colour, "elinewidth": 0.7}
            look["markerfacecolor"] = "white" if marker == "^" else colour
            x = stretched(x) if order == "cosine" else x
            axes.errorbar(x, part["MSE"], yerr=1.96 * part["error"], **look)
    if order == "cosine":
        draw_cosine_axis(axes, 0.0012)
    else:
        labels = {"log capacity": "log capacity (nats)", "epsilon": r"1/$\sigma$, as $\varepsilon$"}
        axes.set(xscale="log", xlabel=labels[order])
    axes.set_ylim(0, None)
