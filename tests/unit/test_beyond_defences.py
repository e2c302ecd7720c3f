"""What a defended update determines, and the judges of attackers who know the defence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from companion.papers.beyond import aware_attackers
from reconrisk import bounds
from reconrisk.attacks import Knowledge, NormalLaw, refine_updates
from reconrisk.convnets import ConvNet
from reconrisk.mechanisms import Clipping, EntryDropout, LocalAggregation, Pruning
from reconrisk.training import client_updates, update_function, update_jacobian

SHAPE = (1, 8, 8)


class _Linear(torch.nn.Module):
    """Outputs W x + b of flat images."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
        self.bias = torch.nn.Parameter(torch.zeros_like(weight[:, 0]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1) @ self.weight.T + self.bias


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(count: int = 1, seed: int = 0, channels: int = 16):
    network = ConvNet(generator(seed), side=8, channels=channels, colours=1).double().eval()
    images = torch.rand(1, count, *SHAPE, generator=generator(1), dtype=torch.float64)
    return network, images, torch.arange(count)[None]


def test_jacobian_of_a_linear_network_has_a_closed_form():
    """Of softmax regression: d (p - y) x' = W' (diag p - p p') dx x' + (p - y) dx'."""
    weight = torch.randn(3, 4, generator=generator(), dtype=torch.float64)
    x = torch.randn(1, 4, generator=generator(1), dtype=torch.float64)
    values, jacobian = update_jacobian(_Linear(weight).eval(), x, torch.tensor([2]))
    p = torch.softmax(weight @ x[0], dim=0)
    error = p - torch.eye(3, dtype=torch.float64)[2]
    moved = (torch.diag(p) - torch.outer(p, p)) @ weight  # d p / d x
    expected = torch.einsum("cp,d->cdp", moved, x[0])
    expected += torch.einsum("c,dp->cdp", error, torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(values, torch.cat([torch.outer(error, x[0]).flatten(), error]))
    torch.testing.assert_close(jacobian, torch.cat([expected.reshape(12, 4), moved]))


@pytest.mark.parametrize("local", [None, LocalAggregation(2, 0.1)])
def test_jacobian_is_the_limit_of_differences(local):
    network, images, labels = problem(2, channels=4)
    _, jacobian = update_jacobian(network, images[0], labels[0], local=local, block=50)
    update = update_function(network, local)
    direction = torch.randn(images[0].shape, generator=generator(2), dtype=torch.float64)

    def at(step: float) -> torch.Tensor:
        moved = update(images[0] + step * direction, labels[0], None)
        return torch.cat([g.flatten() for g in moved.values()]).detach()

    difference = (at(1e-5) - at(-1e-5)) / 2e-5
    torch.testing.assert_close(jacobian @ direction.flatten(), difference, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "defence",
    [(), (Pruning(0.9),), (EntryDropout(0.9),), (Clipping(0.1),), (LocalAggregation(2, 0.01),)],
)
def test_least_squares_recover_what_is_only_hidden(defence):
    network, images, labels = problem()
    released = client_updates(network, images, labels, defence, generator=generator())
    clip = 0.1 if defence and isinstance(defence[0], Clipping) else None
    start = images + 0.02 * torch.randn(images.shape, generator=generator(4), dtype=images.dtype)
    found = refine_updates(
        network,
        released,
        Knowledge(labels, SHAPE, aware=True),
        start=start,
        max_grad_norm=clip,
        iterations=12,
    )
    assert (found.inputs - images).abs().max() < 1e-7


def test_an_attacker_who_ignores_the_mask_does_not():
    network, images, labels = problem()
    released = client_updates(network, images, labels, (EntryDropout(0.9),), generator=generator())
    errors = [
        float(
            (
                refine_updates(
                    network,
                    released,
                    Knowledge(labels, SHAPE, aware=aware),
                    start=images,
                    iterations=4,
                ).inputs
                - images
            )
            .abs()
            .max()
        )
        for aware in (False, True)
    ]
    assert errors[1] < 1e-9 < 1e-2 < errors[0]


def test_a_law_decides_where_the_update_says_nothing():
    """One visible entry in a linear network: the rest stays at the law's mean."""
    law = NormalLaw(np.full(4, 0.5), np.eye(4) / 9)
    network = _Linear(torch.zeros(2, 4, dtype=torch.float64)).eval()
    x = torch.rand(1, 1, 4, 1, 1, generator=generator(), dtype=torch.float64)
    labels = torch.tensor([[0]])
    released = client_updates(network, x, labels, generator=generator())
    only = {name: torch.zeros_like(g, dtype=torch.bool) for name, g in released.gradient.items()}
    only["weight"][0, 0, 1] = True
    seen = type(released)(released.gradient, visible=only)
    found = refine_updates(
        network,
        seen,
        Knowledge(labels, (4, 1, 1), aware=True),
        start=torch.full_like(x, 0.3),
        noise_std=1e-5,
        law=law,
    ).inputs.flatten()
    expected = torch.full((4,), 0.5, dtype=torch.float64)
    expected[1] = x.flatten()[1]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_van_trees_is_the_posterior_of_a_linear_model():
    rng = np.random.default_rng(0)
    j, root = rng.standard_normal((5, 3)), rng.standard_normal((3, 3))
    law = root @ root.T + 0.1 * np.eye(3)
    gain = law @ j.T @ np.linalg.inv(j @ law @ j.T + 0.04 * np.eye(5))
    expected = np.sqrt(np.trace(law - gain @ j @ law))
    assert bounds.van_trees_error(j.T @ j, 0.2, law) == pytest.approx(expected)
    # two records that the observation does not mix
    twice = np.kron(np.eye(2), j.T @ j)
    assert bounds.van_trees_error(twice, 0.2, law) == pytest.approx(expected)


def test_van_trees_between_nothing_and_cramer_rao():
    rng = np.random.default_rng(1)
    j = rng.standard_normal((6, 4))
    law = np.diag([1.0, 2, 3, 4])
    info = bounds.gradient_information([(np.zeros(6), j)])
    noises = np.array([0.0, 1e-3, 0.1, 10, 1e4])
    floor = bounds.van_trees_error(info.matrix, noises, law)
    unbiased = bounds.cramer_rao_error(info, noises, np.ones((1, 4)))
    assert floor[0] == 0 and np.all(np.diff(floor) > 0)
    assert np.all(floor[1:] < unbiased[1:])
    assert floor[1] == pytest.approx(unbiased[1], rel=1e-3)
    assert floor[-1] == pytest.approx(np.sqrt(10), rel=1e-3)
    # without noise: what the rows of rank two leave open of the law
    part = j[:2].T @ j[:2]
    left = law - law @ j[:2].T @ np.linalg.inv(j[:2] @ law @ j[:2].T) @ j[:2] @ law
    assert bounds.van_trees_error(part, 0.0, law) == pytest.approx(np.sqrt(np.trace(left)))
    # a prior that leaves only some directions open: the same in coordinates of these
    open_to = rng.standard_normal((4, 2))
    singular = bounds.van_trees_error(info.matrix, 0.3, open_to @ open_to.T)
    left = open_to @ np.linalg.inv(open_to.T @ info.matrix @ open_to / 0.09 + np.eye(2)) @ open_to.T
    assert singular == pytest.approx(np.sqrt(np.trace(left)))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: bounds.van_trees_error(np.eye(3), 1.0, np.eye(2)), "information"),
        (lambda: bounds.van_trees_error(np.eye(2), -1.0, np.eye(2)), "noise_std"),
        (lambda: bounds.van_trees_error(np.eye(2), 1.0, -np.eye(2)), "covariance"),
        (lambda: NormalLaw.of(torch.zeros(1, 3)), "images"),
        (
            lambda: update_jacobian(
                _Linear(torch.zeros(2, 4)), torch.zeros(1, 4), torch.tensor([0, 1])
            ),
            "images and labels",
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()


# Gains ------------------------------------------------------------------------------------------


def test_gains_and_their_intervals():
    cells = {"defence": "GradDrop", "batch size": 2, "batch": range(3), "gain": [4.0, 4.1, 4.2]}
    by_batch = pd.DataFrame(cells)
    (row,) = aware_attackers.gains_by_defence(by_batch).to_dict("records")
    assert row["gain"] == pytest.approx(4.1) and row["low"] < 4.1 < row["high"]
