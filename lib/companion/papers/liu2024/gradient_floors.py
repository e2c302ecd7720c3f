"""Cramér-Rao bounds of batches from two-layer networks' gradients, under each defence (Liu et al.).

Records are random unit vectors; networks are drawn from the study's seed. Bounds are for noise of
standard deviation one on every observed entry, to which they are proportional.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from companion.exhibit import *
from reconrisk import bounds, special
from reconrisk.two_layer import (
    LocalSteps,
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)

#: relative slack for identities between sums of many thousand products
ROUNDING = 1e-9


@dataclass(frozen=True)
class Problem:
    """A network, a batch of unit records, and the released gradient."""

    network: TwoLayer
    inputs: np.ndarray
    labels: np.ndarray
    active: np.ndarray | None
    released: OutputGradient


@dataclass(frozen=True)
class Floor:
    """Bounds on the reconstruction error of one batch, for noise of standard deviation one.

    Attributes
    ----------
    exact, unit : float
        The Cramér-Rao bound of attackers with the paper's knowledge, and of those who know the
        records' norms as well.
    loosened : float
        The paper's: from the trace alone.
    trace : float
        Of the information.
    """

    exact: float
    unit: float
    loosened: float
    trace: float


def unit_rows(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Draw records from the unit sphere, shape (count, dimension)."""
    rows = rng.standard_normal((count, dimension))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


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
        Whether labels alternate between 1 and -1; otherwise all are one.
    draw : int
        Number of the network and batch.
    local, active, defences
        As of :func:`reconrisk.two_layer.release_output_gradient`.

    Notes
    -----
    Records, and the first neurons, are the same for all widths and defences.
    """
    x = unit_rows(study.rng("records", dimension, batch_size, draw), batch_size, dimension)
    y = np.where((np.arange(batch_size) % 2 == 1) & mixed, -1.0, 1.0)
    seed = study.seed_of("network", dimension, draw) % 2**62  # below the library's limit
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
    x, free = given.inputs, not labels_known
    information = bounds.gradient_information(
        gradient_jacobians(
            given.network, x, given.released, active=given.active, free_residuals=free
        )
    )
    if max_grad_norm is not None:
        information = information.clipped(max_grad_norm)
    return Floor(
        exact=float(bounds.cramer_rao_error(information, 1.0, x)),
        unit=float(bounds.cramer_rao_error(information, 1.0, x, unit_norm=True)),
        loosened=float(bounds.cramer_rao_error_loosened(information, 1.0, x)),
        trace=float(np.trace(information.matrix[: x.size, : x.size])),
    )


def slope(x: Any, y: Any) -> float:
    """Exponent of a power law fitted to points by least squares on logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])


def draw_network(
    study: Context, dimension: int, width: int, activation: str, draw: int = 0
) -> TwoLayer:
    """Draw a network without a batch."""
    return TwoLayer(dimension, width, activation, study.seed_of("network", dimension, draw) >> 1)


@functools.lru_cache(maxsize=2)
def weights_of(network: TwoLayer) -> tuple[np.ndarray, np.ndarray]:
    """All inner and output weights of a network that fits into memory."""
    parts = list(network.neurons())
    inner = np.concatenate([p.inner for p in parts]).astype(float)
    return inner, np.concatenate([p.outer for p in parts])


def two_batches(batch_size: int, outer_rate: float, inner_rate: float) -> dict[str, Any]:
    """Two local steps, each on half of the records: arguments of :func:`problem`."""
    first = np.arange(batch_size) < batch_size // 2
    return {"local": LocalSteps(2, outer_rate, inner_rate), "active": np.stack([first, ~first])}


def geometric_mean(values: Any) -> float:
    """Geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=float)))))


def span(values: Any, digits: int = 2) -> str:
    """The least and the largest of some values, as text."""
    return f"{np.min(values):.{digits}g} to {np.max(values):.{digits}g}"


def round_digits(table: pd.DataFrame, digits: int = 4) -> pd.DataFrame:
    """Round all floats of a table that is shown, so that their last bits do not matter."""
    return table.map(lambda v: float(f"{v:.{digits}g}") if isinstance(v, float) else v)


def one_thread(measure: Callable[[Context], Tables]) -> Callable[[Context], Tables]:
    """Decorate a function of thousands of small products, which threads only slow down."""

    @functools.wraps(measure)
    def limited(study: Context) -> Tables:
        with threadpool_limits(1):
            return measure(study)

    return limited


# Orders in d and m, from sweeps over one factor at a time -----------------------------------------

#: tolerance of fitted exponents, because networks are finite
EXPONENT = 0.1

NOT_PRINTED = "not printed: the paper only proves"
#: of the sweeps of :func:`orders`
SWEPT = {
    "dimensions": Parameter(
        "ints", (32, 64, 128), (64, 128, 256), NOT_PRINTED, "values of d in its sweep", low=3
    ),
    "widths": Parameter(
        "ints",
        (4000, 8000, 16000),
        (4000, 16000, 64000, 256000),
        NOT_PRINTED,
        "values of m in its sweep",
        low=100,
    ),
}
#: of verdicts on :func:`order_holds`
ORDER: dict[str, Any] = {
    "paper": "1/2 in d, -1/2 in m",
    "tolerance": f"{EXPONENT:g} in each exponent",
}


def around(
    dimension: tuple[int, int], batch_size: tuple[int, int], width: tuple[int, int]
) -> dict[str, Parameter]:
    """The network and batch of which one argument at a time is varied, quick and paper."""
    return {
        "activation": Parameter(
            "str", "elu", "elu", "any with bounded derivatives", "activation of the networks"
        ),
        "dimension": Parameter("int", *dimension, NOT_PRINTED, "d, values of a record", low=3),
        "batch_size": Parameter("int", *batch_size, NOT_PRINTED, "B, records of a batch", low=1),
        "width": Parameter("int", *width, NOT_PRINTED, "m, neurons", low=100),
        "draws": Parameter("int", 3, 10, NOT_PRINTED, "networks and batches at each point", low=2),
    }


def base_of(study: Context) -> dict[str, Any]:
    """The network and batch of :func:`around`, as arguments of :func:`problem`."""
    p = study.parameters
    names = ("dimension", "batch_size", "width", "activation")
    return {name: p[name] for name in names if name in p}


def problems(study: Context, **changed: Any) -> Iterator[Problem]:
    """Every draw of the network and batch of :func:`around`, with some arguments changed."""
    for draw in range(study.parameters.draws):
        yield problem(study, **(base_of(study) | changed), draw=draw)


def floors_over(study: Context, name: str, values: Sequence[float], **changed: Any) -> pd.DataFrame:
    """Bounds over one argument of :func:`problem`: geometric means over the draws."""
    rows = []
    for value in values:
        found = [floor_of(given) for given in problems(study, **(changed | {name: value}))]
        means = {
            column: geometric_mean([getattr(f, column) for f in found])
            for column in ("exact", "unit", "loosened")
        }
        rows.append({"over": name, "value": value, **means})
    return pd.DataFrame(rows)


def orders(study: Context, **changed: Any) -> pd.DataFrame:
    """Bounds over the dimension and over the width."""
    sweeps = {"dimension": study.parameters.dimensions, "width": study.parameters.widths}
    found = [floors_over(study, name, values, **changed) for name, values in sweeps.items()]
    return pd.concat(found, ignore_index=True)


def exponents(table: pd.DataFrame, column: str) -> dict[str, float]:
    """Exponents of one bound in each argument that was varied."""
    return {str(name): slope(part["value"], part[column]) for name, part in table.groupby("over")}


def order_holds(found: dict[str, float]) -> bool:
    """Whether the exponents are 1/2 in d and -1/2 in m."""
    return abs(found["dimension"] - 0.5) < EXPONENT and abs(found["width"] + 0.5) < EXPONENT


def order_text(found: dict[str, float]) -> str:
    """The exponents in d and m."""
    return f"{found['dimension']:.2f} in d, {found['width']:.2f} in m"


def of_sweeps(words: str) -> tuple[str | Parts, ...]:
    """Name bounds to be altered: all, and the first over m and d, which alters the order."""
    firsts = (
        at(f"over == '{over}' and over != over.shift()", f"{words} at the smallest {over}")
        for over in ("width", "dimension")
    )
    return (words, *firsts)
