"""The shape contracts: complete, enforced, and kept by the functions whose arguments broadcast."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import shapes
from reconrisk import DPSGD, bounds, metrics
from shape_contracts import BROADCASTING, CONTRACTS, FIELDS
from shapes import ROOMS, ShapeError, array_fields, checked, contract_of, has_arrays

FUNCTIONS = {
    name: inspect.unwrap(value)
    for room in ROOMS
    for name, value in shapes.public_functions(room).items()
}
LISTED = {f"{room}.{name}" for room, names in BROADCASTING.items() for name in names.split()}

#: two values that functions take for a parameter of that name
VALID = {
    "ambient": (40, 50),
    "angle": (0.5, 2.0),
    "batch_size": (2, 4),
    "concentration": (3.0, 8.0),
    "contrast": (0.5, 1.0),
    "cosine": (-0.25, 0.5),
    "data_norm": (1.0, 2.0),
    "data_range": (1.0, 3.0),
    "delta": (1e-6, 1e-3),
    "diameter": (1.0, 2.0),
    "dimension": (10, 30),
    "dof": (3.0, 8.0),
    "epsilon": (0.5, 3.0),
    "grad_norm": (0.5, 1.0),
    "information": (0.5, 3.0),
    "k": (1, 2),
    "log_p": (-3.0, -0.5),
    "max_grad_norm": (0.5, 1.0),
    "mean_cosine": (0.2, 0.7),
    "mutual_information": (0.1, 0.4),
    "noise_multiplier": (0.5, 2.0),
    "noise_std": (0.3, 1.5),
    "noncentrality": (1.0, 3.0),
    "order": (2.0, 5.0),
    "prior_size": (4, 10),
    "prior_success": (0.1, 0.3),
    "parameters": (20, 300),
    "probability": (0.2, 0.6),
    "radius": (0.5, 2.0),
    "ratio": (0.2, 0.7),
    "renyi": (0.5, 2.0),
    "repeats": (1, 4),
    "sampling_rate": (0.1, 1.0),
    "selection_probability": (0.2, 0.6),
    "sensitivity": (0.5, 1.0),
    "shape": (0.5, 4.0),
    "share": (0.5, 1.0),
    "signal": (0.5, 2.0),
    "shift": (0.5, 1.0),
    "sine_squared": (0.2, 0.7),
    "slack": (1e-6, 1e-3),
    "steps": (2, 5),
    "success": (0.5, 0.9),
    "threshold": (0.02, 0.05),
    "tolerance": (0.1, 0.2),
    "trials": (4, 9),
    "value": (0.1, 0.3),
    "width": (100, 200),
    "x": (0.5, 2.0),
}


def scalars_of(function: Callable[..., Any]) -> dict[str, float]:
    """One valid value for each parameter that is a number and not an array."""
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    given = {p.name: VALID[p.name][0] for p in required if str(p.annotation) in ("int", "float")}
    if "run" in inspect.signature(function).parameters:
        given["run"] = DPSGD(1.0, 0.5, 3)
    return given


def arrays_of(name: str) -> list[str]:
    """The array parameters of a function, without ways to say the same twice."""
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    spoken_for = {"log_prior_success", "log_probability", "log_prior_size", "entropy", "factor"}
    spoken_for |= {"coefficient", "singular_value", "condition", "dropout", "pruned"}
    if name == "bounds.log_prior_success_pixels":
        spoken_for.add("probability")
    takes = contract_of(name, function).takes
    return [p for p in parameters if takes.get(p) == "*#b" and p not in spoken_for]


def test_every_public_array_function_has_one_contract():
    arrays = {name for name, function in FUNCTIONS.items() if has_arrays(function)}
    assert sorted(arrays ^ (LISTED | CONTRACTS.keys())) == []
    assert sorted(LISTED & CONTRACTS.keys()) == []
    for name in arrays:
        contract_of(name, FUNCTIONS[name])


def test_every_array_field_of_a_public_class_has_its_shape():
    for room in ROOMS:
        for name, fields in array_fields(room).items():
            assert set(fields) == FIELDS[name].keys()


def test_the_suite_calls_checked_functions():
    assert metrics.mse is not inspect.unwrap(metrics.mse)
    assert bounds.mse_tail is bounds._mse.mse_tail  # one function under all its names
    assert list(inspect.signature(metrics.mse).parameters) == ["target", "reconstruction"]


@pytest.mark.parametrize("returned", [np.zeros(2), np.zeros((4, 3)), 0.0, np.zeros((1, 3))])
def test_another_shape_than_the_broadcast_one_is_found(returned):
    def log_iv(order, x):
        return returned

    log_iv.__annotations__ = {"order": "ArrayLike", "x": "ArrayLike", "return": "np.ndarray"}
    with pytest.raises(ShapeError, match="the result of special.log_iv"):
        checked("special.log_iv", log_iv)(np.ones((1, 1)), np.ones((2, 3)))


def test_a_name_is_one_size_in_a_call_and_an_integer_its_value():
    def one_hot(labels, classes, dtype):
        return np.zeros((2, 3))

    one_hot.__annotations__ = {"labels": "torch.Tensor", "classes": "int"}
    enforced = checked("training.one_hot", one_hot)
    assert enforced([0, 1], 3, None).shape == (2, 3)
    for labels, classes in (([0, 1], 4), ([0, 1, 2], 3), ([[0, 1]], 3)):
        with pytest.raises(ShapeError):
            enforced(labels, classes, None)


@pytest.mark.parametrize("name", sorted(LISTED))
@settings(max_examples=5, deadline=None, derandomize=True)
@given(data=st.data())
def test_arguments_broadcast_and_scalars_give_scalars(name, data):
    function, arrays = FUNCTIONS[name], arrays_of(name)
    drawn = data.draw(mutually_broadcastable_shapes(num_shapes=len(arrays), max_dims=2, max_side=3))
    values = {}
    for parameter, shape in zip(arrays, drawn.input_shapes, strict=True):
        picks = st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
        picked = np.array(data.draw(picks), dtype=int).reshape(shape)
        values[parameter] = np.asarray(VALID[parameter])[picked]
    scalars = scalars_of(function)
    at = tuple(data.draw(st.integers(0, side - 1)) for side in drawn.result_shape)
    spread = dict(zip(arrays, np.broadcast_arrays(*values.values()), strict=True))
    found = function(**values, **scalars)
    alone = function(**{p: v[at] for p, v in spread.items()}, **scalars)
    if not isinstance(found, tuple):
        found, alone = (found,), (alone,)
    rtol = 1e-3 if name.endswith("_curve") else 1e-9  # curves are enclosures to a tolerance
    for many, one in zip(found, alone, strict=True):
        assert (np.shape(many), np.shape(one)) == (drawn.result_shape, ())
        np.testing.assert_allclose(np.asarray(many)[at], one, rtol, 1e-12)


@pytest.mark.parametrize("name", sorted(LISTED))
def test_shapes_that_do_not_broadcast_are_refused(name):
    arrays, scalars = arrays_of(name), scalars_of(FUNCTIONS[name])
    given = {p: np.full(2, VALID[p][0]) for p in arrays}
    for parameter in arrays if len(arrays) > 1 else ():
        wrong = given | {parameter: np.full(3, VALID[parameter][0])}
        with pytest.raises(ValueError, match="broadcast.* shape"):
            FUNCTIONS[name](**wrong, **scalars)


@pytest.mark.parametrize("metric", [metrics.mse, metrics.rmse, metrics.psnr, metrics.ncc])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(drawn=mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
def test_metrics_broadcast_their_leading_axes_and_name_what_does_not_fit(metric, drawn):
    rng = np.random.default_rng(0)
    x, y = (rng.random((*shape, 5)) for shape in drawn.input_shapes)
    assert np.shape(metric(x, y)) == drawn.result_shape
    for wrong in (y[..., :4], 0.5):
        with pytest.raises(ValueError, match="target and reconstruction"):
            metric(x, wrong)
