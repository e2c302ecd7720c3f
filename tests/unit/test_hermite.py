"""Hermite coefficients of activations: closed forms, Stein's lemma, and the orders they allow."""

from __future__ import annotations

import numpy as np
import pytest

from reconrisk import special
from reconrisk.special._hermite import normal_mean

ROOT = np.sqrt(2 * np.pi)


@pytest.mark.parametrize("slope, name", [(0.0, "relu"), (0.2, "leaky_relu")])
def test_rectifiers_have_closed_forms(slope, name):
    kink = (1 - slope) / ROOT
    expected = [kink, (1 + slope) / 2, kink, 0.0, -kink, 0.0, 3 * kink]
    found = [special.hermite_coefficient(name, k) for k in range(7)]
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_a_shifted_rectifier_has_closed_forms():
    density = np.exp(-0.5) / ROOT
    # E[relu(z - 1)^(k)] = He_{k-2}(1) phi(1) for k >= 2
    for order, expected in [(2, density), (3, density), (4, 0.0), (5, -2 * density)]:
        assert special.hermite_coefficient("relu_shifted", order) == pytest.approx(
            expected, abs=1e-13
        )


def test_a_polynomial_is_its_own_expansion():
    found = [special.hermite_coefficient("hermite", k) for k in range(9)]
    np.testing.assert_allclose(found, [0, 0, 1, 1, 0, 0, 0, 0, 0], atol=1e-12)


@pytest.mark.parametrize("name", special.ACTIVATIONS)
def test_coefficients_are_means_of_the_derivatives(name):
    """Stein's lemma for k = 1 and 2; for kinks the second derivative has a point mass."""
    s = special.activation(name)
    first = normal_mean(s.slope, s.kinks)
    assert special.hermite_coefficient(name, 1) == pytest.approx(first, abs=1e-12)
    second = normal_mean(s.curvature, s.kinks)
    for kink in s.kinks:
        jump = float(s.slope(np.array(kink + 1e-12)) - s.slope(np.array(kink - 1e-12)))
        second += jump * np.exp(-0.5 * kink**2) / ROOT
    assert special.hermite_coefficient(name, 2) == pytest.approx(second, abs=1e-9)


@pytest.mark.parametrize("name", special.ACTIVATIONS)
def test_derivatives_are_those_of_the_function(name):
    s = special.activation(name)
    z = np.random.default_rng(0).uniform(-4, 4, 400)
    z = z[np.all(np.abs(z[:, None] - np.array([*s.kinks, 100.0])) > 1e-3, axis=1)]
    h = 1e-5
    np.testing.assert_allclose((s.value(z + h) - s.value(z - h)) / (2 * h), s.slope(z), atol=1e-8)
    np.testing.assert_allclose(
        (s.slope(z + h) - s.slope(z - h)) / (2 * h), s.curvature(z), atol=1e-8
    )


def test_orders_that_the_tensor_attack_can_use():
    expected = {
        **dict.fromkeys(["elu", "selu", "relu_shifted", "sigmoid_shifted", "hermite"], (2, 3)),
        **dict.fromkeys(["relu", "leaky_relu", "gelu", "silu", "softplus"], (2, 4)),
        **dict.fromkeys(["tanh", "sigmoid"], (3, 3)),
    }
    assert {name: special.tensor_orders(name) for name in special.ACTIVATIONS} == expected


def test_an_activation_without_them_is_refused():
    quadratic = special.Activation("quadratic", np.square, lambda z: 2 * z, lambda z: 0 * z + 2)
    assert special.hermite_coefficient(quadratic, 2) == pytest.approx(2)
    with pytest.raises(ValueError, match="quadratic has"):
        special.tensor_orders(quadratic)
    with pytest.raises(ValueError, match="activation must be one of"):
        special.hermite_coefficient("sign", 1)
    for order in (-1, 9, 1.5):
        with pytest.raises(ValueError, match="order"):
            special.hermite_coefficient("elu", order)
    # two functions of one name are not taken for each other
    other = special.Activation("quadratic", lambda z: 3 * z * z, np.square, np.square)
    assert special.hermite_coefficient(other, 2) == pytest.approx(6)
