"""The setting of Liu et al. 2024: reconstruction as an inverse problem (Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from reconrisk import bounds
from reconrisk.attacks import refine_records, tensor_attack
from reconrisk.metrics import match
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import Verdict, check
from reconrisk.two_layer import (
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)

__all__ = ["Chain", "chain", "parts"]

#: an error that only rounding leaves
_EXACT = 1e-5
#: an average error over the draws is this factor from the Cramer-Rao bound at the most
_NEAR = 1.5


@dataclass(frozen=True)
class Chain:
    """One batch sent through every part of the diagram.

    Attributes
    ----------
    reordered : float
        Largest relative change of an observed entry when the batch is put in another order.
    undefended, defended : float
        Root mean square distance of records and reconstructions, in the best order.
    bound : float
        The Cramer-Rao bound of the defended observation.
    """

    reordered: float
    undefended: float
    defended: float
    bound: float


def chain(
    rng: np.random.Generator, dimension: int, width: int, batch_size: int, noise_std: float
) -> Chain:
    """Draw a batch, take its gradient, defend it, attack it, measure.

    Parameters
    ----------
    rng : numpy.random.Generator
    dimension, width, batch_size : int
        d, m and B of the two-layer network.
    noise_std : float
        Of the noise that is the defence, per entry.
    """
    x = rng.standard_normal((batch_size, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = rng.choice([-1.0, 1.0], batch_size)
    network = TwoLayer(dimension, width, "elu", int(rng.integers(2**31)))
    plain = release_output_gradient(network, x, labels)
    back = release_output_gradient(network, x[::-1], labels[::-1])
    noisy = release_output_gradient(network, x, labels, noise_std=noise_std, rng=rng)
    rows = gradient_jacobians(network, x, noisy, free_residuals=True)
    information = bounds.gradient_information(rows)
    return Chain(
        float(np.abs(back.values - plain.values).max() / np.abs(plain.values).max()),
        _error(network, x, plain, 0.0),
        _error(network, x, noisy, noise_std),
        float(bounds.cramer_rao_error(information, noise_std, x, unit_norm=True)),
    )


def _error(network: TwoLayer, x: np.ndarray, released: OutputGradient, noise_std: float) -> float:
    """What the tensor attack followed by least squares is off, in the best order."""
    start = tensor_attack(network, released, len(x), removed=2)
    found = refine_records(network, released, start, noise_std=noise_std)
    return float(np.sqrt(np.mean(match(x, found.inputs).mse) * x.shape[1]))


def parts(dimension: int, width: int, batch_size: int) -> pd.DataFrame:
    """The parts of the diagram in order: what each is, in which room, how many numbers leave it.

    Parameters
    ----------
    dimension, width, batch_size : int
        d, m and B.
    """
    signal, observed = batch_size * dimension, width
    rows = [
        ("batch", "S", "the unknown signal", "study", signal),
        ("gradient", "grad L(theta; S)", "the forward map", "two_layer, training", observed),
        ("defence", "D", "changes what is seen", "mechanisms", observed),
        ("attack", "A", "solves the inverse problem", "attacks", signal),
        ("error", "min over orders of d(S, pi(A))", "what is left", "metrics", 1),
        ("upper bound", "R_U", "one attack's error, from above", "bounds", 1),
        ("lower bound", "R_L", "every attack's error, from below", "bounds", 1),
    ]
    return pd.DataFrame(rows, columns=["part", "symbol", "role", "room", "numbers"])


@computes("liu2024/fig1")
def fig1(context: Context) -> Result:
    """The diagram, and a batch sent through it."""
    p = context.settings
    runs = [
        chain(context.rng("chain", k), p.dimension, p.width, p.batch_size, p.noise_std)
        for k in range(p.draws)
    ]
    table = pd.DataFrame([vars(run) for run in runs])
    return Result(
        "liu2024/fig1",
        [_runs(table)],
        {"parts": parts(p.dimension, p.width, p.batch_size), "chains": table},
        exact=("parts",),
        ran=f"{p.draws} batches of {p.batch_size} records in {p.dimension} dimensions, "
        f"{p.width:,} neurons, noise of standard deviation {p.noise_std:g}.",
    )


def _runs(chains: pd.DataFrame) -> Verdict:
    reordered = float(chains["reordered"].max())
    exact = float(chains["undefended"].max())
    ratio = _rms(chains["defended"]) / _rms(chains["bound"])
    return check(
        "liu2024/fig1",
        reordered < 1e-12 and exact < _EXACT and 1 / _NEAR < ratio < _NEAR,
        "The parts fit together: the gradient does not depend on the batch's order, without a "
        "defence the inverse problem is solved exactly, and with noise an attack's error is that "
        "of the Cramer-Rao bound",
        ours=f"change by order, and error without a defence, below {_EXACT:g}; the error under "
        f"noise within a factor {_NEAR:g} of the bound",
        paper="a diagram, no numbers",
    )


def _rms(values: pd.Series) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
