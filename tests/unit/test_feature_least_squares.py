"""Features fitted to the head's gradient: exact without noise, forecast with it, in label order."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reconrisk.attacks import fit_features, recover_features
from reconrisk.attacks.feature_least_squares import _Layer
from reconrisk.convnets import ConvNet, randomise_neurons
from reconrisk.mechanisms import Clipping, EntryDropout, NeuronDropout, Noise, Pruning, Released
from reconrisk.training import client_updates

NEURONS, WIDE = 192, 256


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module", params=["elu", "relu"])
def problem(request):
    """A network, images, labels and the images' true features."""
    network = ConvNet(_generator(), side=8, wide=WIDE, activation=request.param).eval()
    randomise_neurons(network, NEURONS, _generator(1))
    images = torch.rand((3, 4, 3, 8, 8), generator=_generator(2))
    labels = torch.stack([torch.randperm(10, generator=_generator(3 + i))[:4] for i in range(3)])
    with torch.no_grad():
        true = torch.stack([network(batch, trace=True).features for batch in images])
    return network, images, labels, true


def _update(problem, *defence, plain: bool = False) -> Released:
    network, images, labels, _ = problem
    released = client_updates(network, images, labels, defence, generator=_generator(9))
    return Released(released.gradient) if plain else released


def _fit(problem, *defence, **settings):
    network, _, labels, true = problem
    fit = fit_features(network, _update(problem, *defence, **settings), labels)
    return fit, torch.cosine_similarity(fit.features, true, dim=2)


def test_without_noise_features_are_exact_and_clipping_does_not_matter(problem):
    for defence in ((), (Clipping(0.5),)):
        fit, cosine = _fit(problem, *defence)
        torch.testing.assert_close(fit.features, problem[3], rtol=0, atol=2e-3)
        assert cosine.min() > 0.9999 and fit.cosine.min() > 0.9999


def test_features_follow_the_labels_into_another_order(problem):
    network, images, labels, _ = problem
    order = torch.tensor([2, 0, 3, 1])
    first = _fit(problem)[0].features
    turned = client_updates(network, images[:, order], labels[:, order], generator=_generator())
    again = fit_features(network, turned, labels[:, order]).features
    torch.testing.assert_close(again, first[:, order], rtol=0, atol=2e-3)


def test_under_noise_the_forecast_is_near_and_moments_are_far_behind(problem):
    network, _, _, true = problem
    unit = torch.nn.functional.normalize(true, dim=2)
    last = 1.0
    for noise in (0.003, 0.01, 0.03):
        released = _update(problem, Noise(noise))
        fit, cosine = _fit(problem, Noise(noise))
        lost, forecast = float((1 - cosine).mean()), float((1 - fit.cosine).mean())
        assert lost / 3 < forecast < 3 * lost
        assert cosine.mean() < last
        last = float(cosine.mean())
        moments = recover_features(network, released, 4, neurons=NEURONS)
        assert cosine.mean() > (unit @ moments.mT).abs().amax(dim=2).mean()


@pytest.mark.parametrize("defence", [Pruning(0.7), EntryDropout(0.3), NeuronDropout(0.3)])
def test_what_is_known_of_a_defence_makes_them_nearly_exact(problem, defence):
    aware, cosine = _fit(problem, defence)
    assert cosine.mean() > 0.995
    if not isinstance(defence, NeuronDropout):
        assert cosine.mean() >= _fit(problem, defence, plain=True)[1].mean()
    assert (aware.cosine <= 1).all()


def test_guessed_labels_of_other_images_do_not_do(problem):
    network, _, labels, true = problem
    wrong = fit_features(network, _update(problem), labels.roll(1, dims=1)).features
    assert torch.cosine_similarity(wrong, true, dim=2).mean() < 0.9


def test_bad_input_is_refused(problem):
    network, _, labels, _ = problem
    released = _update(problem)
    with pytest.raises(ValueError, match="labels must differ within a batch"):
        fit_features(network, released, torch.zeros_like(labels))
    with pytest.raises(ValueError, match="labels must have shape"):
        fit_features(network, released, labels[:2])
    with pytest.raises(ValueError, match="must have a wide layer"):
        fit_features(ConvNet(_generator(), side=8), released, labels)
    bad = {n: torch.full_like(g, torch.nan) for n, g in released.gradient.items()}
    with pytest.raises(ValueError, match="released must be finite"):
        fit_features(network, replace(released, gradient=bad), labels)


@pytest.mark.parametrize("wide", [16, 64])
def test_regressions_solve_their_normal_equations_with_fewer_neurons_than_features_too(wide):
    network = ConvNet(_generator(), side=8, channels=12, wide=wide).eval()
    assert network.wide is not None
    layer = _Layer(network, Released({}))
    slope, right = torch.rand((2, 2, 3, wide), generator=_generator(1), dtype=torch.float64)
    ridge = torch.rand((2, 3), generator=_generator(2), dtype=torch.float64)
    found = layer.regressions(slope, right, ridge)
    for (i, j), solution in zip(((0, 0), (1, 2)), (found[0, 0], found[1, 2]), strict=True):
        sloped = slope[i, j][:, None] * network.wide.weight.double()
        left = sloped.mT @ (sloped @ solution) + ridge[i, j] * solution
        torch.testing.assert_close(left, sloped.mT @ right[i, j], rtol=1e-8, atol=1e-10)
