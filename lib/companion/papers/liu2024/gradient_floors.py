"""Cramér-Rao bounds of batches from two-layer networks' gradients, under each defence (Liu et al.).

Records are random unit vectors; networks are drawn from the study's seed. Everything returned is
for noise of standard deviation one on every observed entry: the bounds are proportional to it.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from companion.study import Context, Tables
from reconrisk import bounds, special
from reconrisk.two_layer import (
    LocalSteps,
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)

__all__ = [
    "ROUNDING",
    "Floor",
    "Problem",
    "draw_network",
    "floor_of",
    "geometric_mean",
    "labels_of",
    "one_thread",
    "problem",
    "round_digits",
    "slope",
    "span",
    "two_batches",
    "unit_rows",
]

#: relative slack for identities between sums of many thousand products
ROUNDING = 1e-9

#: the last chunk of a network's seeds is kept free by the library
_SEEDS = 2**62


@dataclass(frozen=True)
class Problem:
    """A network, a batch of unit records, and what is released of its gradient."""

    network: TwoLayer
    inputs: np.ndarray
    labels: np.ndarray
    active: np.ndarray | None
    released: OutputGradient


@dataclass(frozen=True)
class Floor:
    """What bounds the reconstruction of one batch, for noise of standard deviation one.

    Attributes
    ----------
    exact, unit : float
        The Cramer-Rao bound of attackers who know what the paper's does, and of those who know the
        records' norms besides.
    loosened : float
        The paper's: from the trace alone.
    trace : float
        Of the information.
    norm : float
        Of the released gradient before clipping.
    """

    exact: float
    unit: float
    loosened: float
    trace: float
    norm: float


def unit_rows(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Draw records from the unit sphere, shape (count, dimension)."""
    rows = rng.standard_normal((count, dimension))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def labels_of(count: int, mixed: bool) -> np.ndarray:
    """Labels: one and minus one in turn, or all one."""
    return np.where((np.arange(count) % 2 == 1) & mixed, -1.0, 1.0)


def problem(
    study: Context,
    dimension: int,
    batch_size: int,
    width: int,
    *,
    activation: str | special.Activation = "elu",
    mixed: bool = True,
    draw: int = 0,
    local: LocalSteps | None = None,
    active: np.ndarray | None = None,
    **defences: float,
) -> Problem:
    """Draw a network and a batch, and release its gradient after the defences.

    Parameters
    ----------
    study : Context
    dimension, batch_size, width : int
    activation : str or special.Activation
    mixed : bool
        Whether labels take turns; else all are one.
    draw : int
        Which of many independent networks and batches.
    local, active, defences
        As of :func:`reconrisk.two_layer.release_output_gradient`.

    Notes
    -----
    Records, and the first neurons, are the same for all widths and defences.
    """
    x = unit_rows(study.rng("records", dimension, batch_size, draw), batch_size, dimension)
    y = labels_of(batch_size, mixed)
    seed = study.seed_of("network", dimension, draw) % _SEEDS
    network = TwoLayer(dimension, width, activation, seed)
    rng = study.rng("defence", dimension, batch_size, draw)
    released = release_output_gradient(
        network, x, y, local=local, active=active, rng=rng, **defences
    )
    return Problem(network, x, y, active, released)


def floor_of(
    given: Problem, max_grad_norm: float | None = None, *, labels_known: bool = True
) -> Floor:
    """Compute all bounds of a problem, after clipping if a norm is given.

    Without the labels (and the output weights) the residuals are unknowns of their own.
    """
    x = given.inputs
    information = bounds.gradient_information(
        gradient_jacobians(
            given.network,
            x,
            given.released,
            active=given.active,
            free_residuals=not labels_known,
        )
    )
    if max_grad_norm is not None:
        information = information.clipped(max_grad_norm)
    return Floor(
        exact=float(bounds.cramer_rao_error(information, 1.0, x)),
        unit=float(bounds.cramer_rao_error(information, 1.0, x, unit_norm=True)),
        loosened=float(bounds.cramer_rao_error_loosened(information, 1.0, x)),
        trace=float(np.trace(information.matrix[: x.size, : x.size])),
        norm=given.released.norm,
    )


def slope(x: Any, y: Any) -> float:
    """Exponent of a power law fitted to points by least squares on logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])


def draw_network(
    study: Context, dimension: int, width: int, activation: str, draw: int = 0
) -> TwoLayer:
    """Draw a network without a batch."""
    return TwoLayer(dimension, width, activation, study.seed_of("network", dimension, draw) >> 1)


def two_batches(batch_size: int, outer_rate: float, inner_rate: float) -> dict[str, Any]:
    """Two local steps, each on half of the records: arguments of :func:`problem`."""
    first = np.arange(batch_size) < batch_size // 2
    return {"local": LocalSteps(2, outer_rate, inner_rate), "active": np.stack([first, ~first])}


def geometric_mean(values: Any) -> float:
    """Geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=float)))))


def span(values: Any, digits: int = 2) -> str:
    """The least and the largest of some values, as text."""
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.{digits}g} to {high:.{digits}g}"


def round_digits(table: pd.DataFrame, digits: int = 4) -> pd.DataFrame:
    """Round all floats of a table that is shown, to what does not hang on the last bits."""
    return table.map(lambda v: float(f"{v:.{digits}g}") if isinstance(v, float) else v)


def one_thread(measure: Callable[[Context], Tables]) -> Callable[[Context], Tables]:
    """Decorate thousands of small products: to share each among threads takes longer."""

    @functools.wraps(measure)
    def limited(study: Context) -> Tables:
        with threadpool_limits(1):
            return measure(study)

    return limited
