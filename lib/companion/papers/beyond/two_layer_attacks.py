"""Attacks on two-layer networks under defences, as tasks of sweeps.

A task describes a network, its batch and what is released of the gradient. Results are the errors
of the tensor attack, as published and with low Hermite orders removed, and of least squares, and
the exact Cramer-Rao bound.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg

from companion.exhibit import *
from reconrisk import bounds, datasets, special, two_layer
from reconrisk.attacks import (
    Refinement,
    TensorReconstruction,
    refine_in_span,
    refine_records,
    refine_with_masks,
    tensor_attack,
)
from reconrisk.metrics import match, projection_error

#: label, colour and marker of every attack
ATTACKS: dict[str, tuple[str, str, str]] = {
    "tensor": ("tensor attack, as published", BLUE, "s"),
    "orders removed": ("low orders removed", GREEN, "^"),
    "least squares": ("least squares", ORANGE, "o"),
}
OURS = "not printed: our own"
#: parameters of the networks that are attacked, and of their batches
NETWORKS = {
    "dimension": Parameter("int", 12, 32, "d", "numbers in a record", low=4),
    "count": Parameter("int", 3, 4, "B", "records of a batch", low=2),
    "width": Parameter("int", 6000, 16000, "m", "neurons", low=1000),
    "networks": Parameter("int", 6, 12, OURS, "networks with batches of their own", low=3),
}

#: root mean squared error of recovered unit records; rounding alone leaves 1e-12 at most
EXACT = 1e-6
#: the same under noise, in multiples of the floor
_NEAR = 2.0


def task_of_network(study: Context, number: int) -> dict[str, Any]:
    """What the tasks on one network share; the number seeds the network and its records."""
    p = study.parameters
    return {
        "dimension": p.dimension,
        "count": p.get("count", 1),
        "width": p.width,
        "network": number,
        "seed": study.seed_of("network", number),
    }


def local_steps(steps: int, count: int, width: int) -> list[float]:
    """Local steps that each change the outputs by about a third of a residual, inner rate 1."""
    return [steps, 0.3 / (count * width), 1.0]


def attacked(
    study: Context,
    function: Callable[[dict[str, Any]], dict[str, Any]],
    tasks: Sequence[dict[str, Any]],
) -> pd.DataFrame:
    """Run tasks; return one row for each, its parameters and its results."""
    label = function.__name__.replace("_case", "s")
    return as_table(tasks, study.sweep(function, tasks, label, threads=1))


@dataclass(frozen=True)
class Case:
    """One network, one batch and what is released of its gradient."""

    network: two_layer.TwoLayer
    #: of unit norm, shape (B, d)
    inputs: np.ndarray
    released: two_layer.OutputGradient
    #: of all records as one batch, for the bounds; differs from ``released`` for several clients
    joint: two_layer.OutputGradient
    noise_std: float
    #: infinite for no clipping
    max_grad_norm: float
    #: whether the activation distinguishes a record from its negative
    signed: bool

    def error(self, found: np.ndarray) -> float:
        return rms_error(self.inputs, found, signs=not self.signed)


def rms_error(inputs: np.ndarray, found: np.ndarray, *, signs: bool = False) -> float:
    """Root mean square of the records' distances in the best order (Definition D.1)."""
    return float(np.sqrt(match(inputs, found, signs=signs).mse * inputs.shape[1]))


def draw_records(kind: str, count: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Records of unit norm: ``"random"``, ``"orthogonal"`` or ``"digits"`` (64 numbers)."""
    if kind == "digits":
        pool = datasets.digits()
        x = pool[rng.choice(len(pool), count, replace=False)]
    else:
        x = rng.standard_normal((count, dimension))
    if kind == "orthogonal":
        x = np.linalg.qr(x.T)[0].T
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def draw_labels(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Labels of one sign (``"same"``), alternating (``"mixed"``), or ``"random"`` ones."""
    if kind == "same":
        return np.ones(count)
    if kind == "mixed":
        return np.where(np.arange(count) % 2, -1.0, 1.0)
    return rng.choice([-1.0, 1.0], count)


def draw_case(task: Mapping[str, Any]) -> Case:
    """Draw the network, the batch and the release that a task describes.

    It has ``dimension``, ``count`` (of records in a client's batch), ``width`` and ``seed``, and
    optionally ``activation``, ``labels``, ``records``, ``clients``, ``local`` (arguments of
    ``LocalSteps``), ``release`` (arguments of ``release_output_gradient``) and ``draw``, which
    seeds masks and noise on one network.
    """
    draws, clients = np.random.default_rng([task["seed"], 0]), task.get("clients", 1)
    count, activation = task["count"] * clients, task.get("activation", "elu")
    x = draw_records(task.get("records", "random"), count, task["dimension"], draws)
    y = draw_labels(task.get("labels", "mixed"), count, draws)
    network = two_layer.TwoLayer(x.shape[1], task["width"], activation, task["seed"] >> 1)
    how = dict(task.get("release", {}))
    local = two_layer.LocalSteps(*task["local"]) if "local" in task else None
    rng = np.random.default_rng([task["seed"], 1, task.get("draw", 0)])
    joint = two_layer.release_output_gradient(network, x, y, local=local, rng=rng, **how)
    released = joint
    if clients > 1:
        parts = zip(np.split(x, clients), np.split(y, clients), strict=True)
        released = two_layer.aggregate_gradients(
            [two_layer.release_output_gradient(network, own, labels) for own, labels in parts]
        )
    signed = special.tensor_orders(activation)[0] == 2
    clipping = how.get("max_grad_norm", np.inf)
    return Case(network, x, released, joint, how.get("noise_std", 0.0), clipping, signed)


def floors(case: Case) -> dict[str, float]:
    """The Cramer-Rao bound of a case, at unit noise and at its own.

    ``"unit floor"`` is exact, for an attacker who knows the norms but neither labels nor output
    weights; ``"unit loosened"`` is loosened to a trace as in the paper; ``"floor"`` and
    ``"loosened"`` are both at the noise of the case.
    """
    rows = two_layer.gradient_jacobians(case.network, case.inputs, case.joint, free_residuals=True)
    information = bounds.gradient_information(rows)
    if information.squared_norm > case.max_grad_norm**2:
        information = _up_to_scale(
            information.clipped(case.max_grad_norm), case.inputs.size, case.joint.residuals
        )
    unit = float(bounds.cramer_rao_error(information, 1.0, case.inputs, unit_norm=True))
    loosened = float(bounds.cramer_rao_error_loosened(information, 1.0, case.inputs))
    return {
        "unit floor": unit,
        "unit loosened": loosened,
        "floor": case.noise_std * unit if np.isfinite(unit) else np.inf,
        "loosened": case.noise_std * loosened,
    }


def _up_to_scale(
    information: bounds.GradientInformation, known: int, residuals: np.ndarray
) -> bounds.GradientInformation:
    """Remove the residuals' common scale, on which a clipped gradient does not depend."""
    basis = linalg.block_diag(np.eye(known), linalg.null_space(residuals[None]))
    return replace(
        information, matrix=basis.T @ information.matrix @ basis, pull=information.pull @ basis
    )


def tensor_errors(case: Case) -> tuple[dict[str, float], TensorReconstruction]:
    """Errors of the tensor attack as published and with the low orders removed; and the latter."""
    removed = 3 if case.signed and case.released.kept is None else 2
    count = len(case.inputs)
    row = {}
    for name, how_many in (("tensor", 0), ("orders removed", removed)):
        found = tensor_attack(case.network, case.released, count, removed=how_many)
        row[name] = case.error(found.inputs)
        row[f"{name} span"] = float(projection_error(case.inputs, found.span))
    return row, found


def _fit(
    case: Case, start: TensorReconstruction, restarts: int, attempts: int, seed: int
) -> Refinement:
    # a fit as good as the noise allows ends the search; where noise hides the gradient, wrong fits
    # are that good, and none may end it
    hidden = 10.0 * case.noise_std**2 > float(np.mean(case.released.seen**2))
    return refine_records(
        case.network,
        case.released,
        start,
        noise_std=0.0 if hidden else case.noise_std,
        restarts=restarts,
        attempts=attempts,
        seed=seed,
    )


def _starts(case: Case, start: TensorReconstruction, first: Refinement) -> Iterator[Refinement]:
    """Fits that treat masks as noise; those in the span only if the first does not succeed."""
    yield first
    yield from refine_in_span(case.network, case.released, start, restarts=6)


def _recovered(case: Case, error: float, floor: float) -> bool:
    return error <= max(EXACT, _NEAR * floor if np.isfinite(floor) else 0.0)


def attack_case(task: dict[str, Any]) -> dict[str, Any]:
    """Attack one network's gradient in every way, and bound the error.

    Besides what :func:`draw_case` reads, the task may have ``restarts`` and ``widening``: how many
    more random starts, and how many times more neurons, least squares get where they fail.
    Returns the errors, how the records were recovered (``"how"``: at once, more starts, more
    neurons, or not; undetermined where the floor is infinite), the gradient's norm, and the floors.
    """
    case = draw_case(task)
    row, start = tensor_errors(case)
    masked = case.released.record_dropout > 0
    # the bound does not cover masks by record; without noise it is zero
    none = dict.fromkeys(("unit floor", "unit loosened", "floor", "loosened"), 0.0)
    bound = none if masked else floors(case)
    found = _fit(case, start, 6, 6, task["seed"])
    row["without masks"] = case.error(found.inputs)
    if masked:
        found = refine_with_masks(case.network, case.released, _starts(case, start, found))
    error, how = case.error(found.inputs), "at once"
    if not _recovered(case, error, bound["floor"]):
        how = "not"
        if np.isinf(bound["floor"]):
            how = "undetermined"
        elif task.get("restarts", 0):
            how, error = _again(task, case, start, error, bound["floor"])
    return {**row, "least squares": error, "how": how, "norm": case.released.norm, **bound}


def bound_case(task: dict[str, Any]) -> dict[str, Any]:
    return floors(draw_case(task))


def moments_case(task: dict[str, Any]) -> dict[str, Any]:
    """Errors of the tensor attacks and of their spans on a task."""
    return tensor_errors(draw_case(task))[0]


def _again(
    task: Mapping[str, Any], case: Case, start: TensorReconstruction, error: float, floor: float
) -> tuple[str, float]:
    """Try more random starts, then more neurons; return what helped, and the error."""
    found = _fit(case, start, task["restarts"], task["restarts"] // 2, task["seed"] + 1)
    if _recovered(case, case.error(found.inputs), floor):
        return "more starts", error
    wider = draw_case({**task, "width": task["width"] * task["widening"]})
    _, start = tensor_errors(wider)
    found = _fit(wider, start, task["restarts"], task["restarts"] // 2, task["seed"] + 2)
    if _recovered(wider, wider.error(found.inputs), floors(wider)["floor"]):
        return "more neurons", error
    return "not", error
