"""The tensor attack at work on networks of each activation, step by step for one of them."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.papers.liu2024.tensor_errors import (
    NONE,
    Problem,
    attack_task,
    draw_problem,
    length_of_error,
    problem_tasks,
    released,
    run_networks,
)
from reconrisk.attacks import tensor_attack
from reconrisk.mechanisms import Released, SecureAggregation, defend
from reconrisk.metrics import match
from reconrisk.special import ACTIVATIONS, hermite_coefficient, tensor_orders
from reconrisk.two_layer import OutputGradient

_OURS = "no experiment"
PARAMETERS = {
    "dimension": Parameter("int", 8, 16, _OURS, "d", low=4),
    "batch": Parameter("int", 2, 3, _OURS, "B", low=2),
    "width": Parameter("int", 131072, 524288, _OURS, "m", low=1024),
    "networks": Parameter("int", 2, 4, _OURS, "networks for each activation", low=2),
}
SETTLES = ("E-010",)
SHOWN = ("activations",)

ALTERED = {
    "activations": {"error": "errors"},
    "steps": {"found": "eigenvalues and components"},
    "signs": {"claimed": "whether signs are claimed"},
    "secure aggregation": {
        "gradients": "differences of aggregates",
        "reconstructions": "differences of reconstructions",
    },
}

#: of the network whose steps are examined
ACTIVATION = "relu_shifted"
#: an error that counts as finding records of norm one: it leaves a hundredth of the squared norm
FOUND = 0.1
#: share by which an eigenvalue or a component may be off at this width
NEAR = 0.1
#: of equal reconstructions, in single precision
SAME = 1e-6


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    base = {"base": study.seed, "dimension": p.dimension, "width": p.width, "batch": p.batch}
    points = [{"activation": name, "defences": {NONE: {}}} for name in ACTIVATIONS]
    tasks = problem_tasks(points, p.networks, base)
    errors = run_networks(study, attack_task, tasks, "attacks")
    one = draw_problem({**base, "activation": ACTIVATION, "labels": "random", "network": 0})
    gradient, _ = released(one, {})
    generator = study.generator("secure aggregation")
    return Tables(
        {
            "activations": pd.DataFrame([_row(name, errors) for name in ACTIVATIONS]),
            **_steps(one, gradient),
            "secure aggregation": _secure_aggregation(one, gradient, generator),
        },
        ran=f"{p.networks} networks of {p.width} neurons for each of {len(ACTIVATIONS)} "
        f"activations, d = {p.dimension}, B = {p.batch}, orthonormal records, no defence.",
    )


def _row(name: str, errors: pd.DataFrame) -> dict[str, Any]:
    orders = tensor_orders(name)
    nu, weight = (hermite_coefficient(name, k) for k in orders)
    means = np.exp(np.log(errors.loc[errors["activation"] == name, ["span", "error"]]).mean())
    return {
        "activation": name,
        "orders": "{}, {}".format(*orders),
        "nu": round(nu, 3),
        "lambda": round(weight, 3),
        "least coefficient": round(min(abs(nu), abs(weight)), 3),
        "span error": round(float(means["span"]), 2),
        "error": round(float(means["error"]), 2),
    }


def _steps(problem: Problem, gradient: OutputGradient) -> dict[str, pd.DataFrame]:
    """Eigenvalues of P and components of T with what Stein's lemma predicts, and the signs."""
    x, r = problem.inputs, gradient.residuals
    found = tensor_attack(problem.network, gradient, len(x), removed=0)
    second, third = (hermite_coefficient(ACTIVATION, k) for k in (2, 3))
    order = match(x, found.inputs, signs=True).order
    steps = {
        "eigenvalue of P": (np.sort(second * r), np.sort(found.eigenvalues)),
        "component of T": (np.abs(third * r), np.abs(found.weights[order])),
    }
    signs = {
        "claimed": bool(found.signed),
        "error": length_of_error(x, found.inputs, signs=False),
        "error at best signs": length_of_error(x, found.inputs),
    }
    return {
        "steps": pd.concat(
            pd.DataFrame({"step": step, "expected": expected, "found": estimates})
            for step, (expected, estimates) in steps.items()
        ),
        "signs": pd.DataFrame([signs]),
    }


def _secure_aggregation(
    problem: Problem, whole: OutputGradient, generator: torch.Generator
) -> pd.DataFrame:
    """Clients with one record each, averaged, against one batch of all records."""
    clients = len(problem.inputs)
    records = zip(np.split(problem.inputs, clients), np.split(problem.labels, clients), strict=True)
    updates = [
        released(dataclasses.replace(problem, inputs=x, labels=y), {})[0].values for x, y in records
    ]
    sent = defend(
        Released({"outer": torch.tensor(np.stack(updates))}),
        (SecureAggregation(clients),),
        generator=generator,
    )
    seen = sent.gradient["outer"][0].numpy()
    norm = float(np.linalg.norm(seen))
    first, second = (
        tensor_attack(problem.network, gradient, clients, removed=0).inputs
        for gradient in (whole, dataclasses.replace(whole, values=seen, norm=norm))
    )
    gap = np.abs(seen * clients - whole.values).max() / np.abs(whole.values).max()
    row = {"clients": clients, "gradients": gap, "reconstructions": length_of_error(first, second)}
    return pd.DataFrame([row])


def judge(tables: Tables) -> Iterator[Verdict]:
    activations, steps, signs = tables["activations"], tables["steps"], tables["signs"].iloc[0]
    clear = activations["least coefficient"] >= 0.08
    errors, others = activations.loc[clear, "error"], activations.loc[~clear, "error"]
    signed = signs["claimed"] and math.isclose(
        signs["error"], signs["error at best signs"], rel_tol=1e-9
    )
    yield check(
        "liu2024/alg_tensor",
        (errors < FOUND).all()
        and signed
        and (steps["found"] / steps["expected"] - 1).abs().max() < NEAR,
        "the attack finds the batch for every activation with coefficients of at least 0.08, "
        "in the orders that Assumption B.1 allows; eigenvalues and components are those of "
        "Stein's lemma",
        ours=f"error at most {errors.max():.1f} for {len(errors)} activations, "
        f"{others.max():.1f} for {len(others)} others",
        paper="k2 <= 3 and k3 <= 4",
        tolerance=f"an error of {FOUND}; {NEAR:.0%} of each component",
    )
    clients, gradients, records = tables["secure aggregation"].iloc[0]
    yield check(
        "E-010",
        gradients < 1e-12 and records < SAME,
        f"what {clients:.0f} clients send together is the gradient of one batch over "
        f"{clients:.0f}, and the attack finds the same records",
        ours=f"gradients agree to {max(gradients, 1e-12):.0e}, "
        f"reconstructions to {max(records, SAME):.0e}",
        paper="no extra strength",
    )
