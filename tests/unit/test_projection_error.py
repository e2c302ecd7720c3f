"""The feature reconstruction error: zero within a span, one across it, blind to scale and order."""

from __future__ import annotations

import numpy as np
import pytest

from reconrisk.metrics import projection_error


def test_known_answers():
    axes = np.eye(5)
    assert projection_error(axes[:2], axes[:3]) == pytest.approx(0, abs=1e-12)
    assert projection_error(axes[3:], axes[:3]) == pytest.approx(1)
    tilted = np.array([[1.0, 0, 0, np.sqrt(3), 0]])
    assert projection_error(7 * tilted, axes[:3]) == pytest.approx(np.sqrt(3) / 2)


def test_scale_sign_and_order_do_not_matter_and_sets_broadcast():
    rng = np.random.default_rng(0)
    targets, found = rng.standard_normal((4, 3, 20)), rng.standard_normal((4, 6, 20))
    error = projection_error(targets, found)
    assert error.shape == (4,)
    assert projection_error(targets, -3 * found[:, ::-1]) == pytest.approx(error)
    # a repeated direction spans nothing more
    assert projection_error(targets, np.concatenate([found, found], axis=1)) == pytest.approx(error)
    assert projection_error(targets[1], found[1]) == pytest.approx(error[1])


def test_random_directions_leave_what_is_expected():
    rng = np.random.default_rng(1)
    targets, found = rng.standard_normal((400, 2, 64)), rng.standard_normal((400, 16, 64))
    error = projection_error(targets, found)
    standard = error.std() / np.sqrt(len(error))
    # the norm's mean is a little below the root of the square's
    assert error.mean() == pytest.approx(np.sqrt(1 - 16 / 64), abs=5 * standard + 0.003)


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ValueError, match="targets and reconstructions"):
        projection_error(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="targets"):
        projection_error(np.zeros((2, 3)), np.ones((2, 3)))
