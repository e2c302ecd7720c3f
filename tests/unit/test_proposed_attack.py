"""The proposed attack: its parts against inversion without them, and other spaces than pixels."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reconrisk.attacks import (
    PROPOSED,
    Knowledge,
    LatentSpace,
    Objective,
    UntrainedSpace,
    feature_match,
    fit_features,
    generative_attack,
    invert_updates,
    proposed_attack,
    recover_feature_span,
    recover_features,
)
from reconrisk.convnets import ConvNet, Decoder, ImagePrior, randomise_neurons
from reconrisk.training import client_updates

NEURONS = 256


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def problem():
    """A network, smooth images, their updates and what is known."""
    network = ConvNet(_generator(), side=8, channels=8, wide=NEURONS + 32)
    randomise_neurons(network, NEURONS, _generator(1))
    network.eval()
    corners = torch.rand((2 * 2, 3, 2, 2), generator=_generator(2))
    images = torch.nn.functional.interpolate(corners, size=(8, 8), mode="bilinear")
    images, labels = images.unflatten(0, (2, 2)), torch.tensor([[0, 1], [2, 3]])
    released = client_updates(network, images, labels, generator=_generator())
    return network, images, released, Knowledge(labels, (3, 8, 8))


def _attack(problem, attack=proposed_attack, iterations=5, **settings):
    network, _, released, knowledge = problem
    if attack is proposed_attack:
        settings.setdefault("neurons", NEURONS)
    return attack(
        network,
        released,
        settings.pop("knowledge", knowledge),
        generator=_generator(3),
        iterations=iterations,
        **settings,
    )


def _mse(problem, found) -> torch.Tensor:
    return (problem[1] - found.inputs).square().mean()


def test_the_published_weights_are_the_default():
    assert (PROPOSED.total_variation, PROPOSED.statistics, PROPOSED.features) == (0.01, 0.001, 0.1)
    assert PROPOSED.weighting == "count"


def test_without_its_parts_it_is_gradient_inversion(problem):
    plain = Objective(total_variation=0.01)
    mine = _attack(problem, objective=plain)
    theirs = _attack(problem, invert_updates, objective=plain)
    torch.testing.assert_close(mine.inputs, theirs.inputs, rtol=0, atol=0)


@pytest.mark.parametrize("match", ["cosine", "labels", "subspace"])
def test_it_inverts_with_the_features_that_it_recovers(problem, match):
    network, _, released, knowledge = problem
    if match == "labels":
        fit = fit_features(network, released, knowledge.labels)
        known = replace(knowledge, features=fit.features, cosines=fit.cosine)
    else:
        recover = recover_features if match == "cosine" else recover_feature_span
        found = recover(network, released, 2, neurons=NEURONS)
        expected = torch.full((2, 2), (1 - 0.72 * found.shape[2] / NEURONS) ** 0.5)
        known = replace(knowledge, features=found, cosines=expected)
    objective = replace(PROPOSED, feature_match=match)
    mine = _attack(problem, match=match)
    theirs = _attack(problem, invert_updates, knowledge=known, objective=objective, rematch=25)
    torch.testing.assert_close(mine.inputs, theirs.inputs)
    # features that are given are not recovered
    given = _attack(problem, knowledge=known, match=match)
    torch.testing.assert_close(given.inputs, mine.inputs)
    if match == "labels":  # the default while labels differ
        torch.testing.assert_close(_attack(problem).inputs, mine.inputs)
    none = _attack(problem, objective=replace(PROPOSED, features=0.0))
    assert (none.inputs - mine.inputs).abs().max() > 1e-3


def test_features_in_label_order_are_approached_as_far_as_they_are_known(problem):
    network, _, released, knowledge = problem
    fit = fit_features(network, released, knowledge.labels)
    known = replace(knowledge, features=fit.features, cosines=fit.cosine)
    alone = Objective(gradient=0.0, features=1.0, feature_match="labels")

    def cosines(found) -> torch.Tensor:
        reached = torch.stack([network(b, trace=True).features.detach() for b in found.inputs])
        return torch.cosine_similarity(reached, fit.features, dim=2)

    near = _attack(problem, invert_updates, knowledge=known, objective=alone, iterations=80)
    # from the opposite feature, too: the sign is known
    assert cosines(near).min() > 0.8
    ignorant = replace(known, cosines=torch.zeros((2, 2)))
    wide = replace(alone, feature_width=0.03)
    left = _attack(problem, invert_updates, knowledge=ignorant, objective=wide, iterations=80)
    assert 0.5 < cosines(left).max() < cosines(near).min()  # a squared cosine of a half, no nearer
    trusting = _attack(problem, invert_updates, knowledge=known, objective=wide, iterations=80)
    assert cosines(trusting).min() > cosines(left).max()


def test_the_span_is_matched_where_labels_repeat_or_are_many():
    assert feature_match(torch.tensor([[0, 1, 2]])) == "cosine"
    assert feature_match(torch.tensor([[0, 1, 0]])) == "subspace"
    assert feature_match(torch.arange(16)[None]) == "subspace"


def test_images_come_nearer_in_pixels_and_in_an_untrained_networks_weights(problem):
    objective = Objective(weighting="count", total_variation=0.01)
    first = _attack(problem, iterations=1, objective=objective, learning_rate=1e-9)
    pixels = _attack(problem, iterations=100, objective=objective)
    assert _mse(problem, pixels) < 0.5 * _mse(problem, first) and pixels.values is None
    space = UntrainedSpace.draw(ImagePrior(_generator(4), side=8, width=8), 2, _generator(5))
    seen: list[torch.Tensor] = []
    painted = _attack(
        problem,
        iterations=100,
        objective=objective,
        space=space,
        signed=False,
        learning_rate=5e-3,
        watch=lambda iteration, inputs, problems: seen.append(inputs),
    )
    assert seen[0].shape == (2, 1, 2, 3, 8, 8)
    before = (problem[1] - seen[0][:, 0]).square().mean()
    assert _mse(problem, painted) < 0.8 * before
    assert painted.values is not None
    torch.testing.assert_close(
        painted.inputs, torch.stack([space.images(v) for v in painted.values])
    )


def test_fitted_features_enter_the_untrained_network(problem):
    network = problem[0]
    painter = ImagePrior(_generator(4), side=8, width=4, features=network.wide.in_features)
    space = UntrainedSpace.draw(painter, 2, _generator(5))
    found = _attack(problem, iterations=2, space=space, signed=False, learning_rate=1e-3)
    fit = fit_features(network, problem[2], problem[3].labels)
    count = fit.features[0].numel()
    assert found.values is not None
    torch.testing.assert_close(found.values[:, -count:], fit.features.flatten(1))
    # where only a span is known, none does
    alike = replace(problem[3], labels=torch.zeros_like(problem[3].labels))
    spanned = _attack(problem, knowledge=alike, iterations=1, space=space, signed=False)
    assert spanned.values is not None
    assert spanned.values.shape[1] == found.values.shape[1] - count


def test_a_generators_weights_go_on_where_its_latent_vectors_ended(problem):
    decoder = Decoder(_generator(6), side=8, latent=4, width=4)
    known = torch.randn((20, 4), generator=_generator(7))
    weights = [p.detach().clone() for p in decoder.parameters()]
    found = _attack(problem, generative_attack, iterations=8, latent=LatentSpace(decoder, known))
    still = _attack(
        problem,
        generative_attack,
        iterations=8,
        latent=LatentSpace(decoder, known),
        learning_rates=(0.1, 1e-12),
    )
    assert (found.loss < still.loss).all()
    # the generator itself stays what it was
    for before, after in zip(weights, decoder.parameters(), strict=True):
        torch.testing.assert_close(before, after.detach(), rtol=0, atol=0)


def test_bad_input_is_refused(problem):
    with pytest.raises(ValueError, match="match"):
        _attack(problem, match="guess")
    with pytest.raises(ValueError, match="method"):
        _attack(problem, method="guess")
    space = UntrainedSpace.draw(ImagePrior(_generator(), side=8, width=4), 3, _generator())
    with pytest.raises(ValueError, match="space must give images"):
        _attack(problem, space=space)
    decoder = Decoder(_generator(), side=8, latent=2, width=2)
    latent = LatentSpace(decoder, torch.zeros(4, 2))
    with pytest.raises(ValueError, match="latent_share"):
        _attack(problem, generative_attack, latent=latent, latent_share=1.0)
    with pytest.raises(ValueError, match="start"):
        _attack(problem, invert_updates, space=latent, start=torch.zeros(2, 2, 5))
