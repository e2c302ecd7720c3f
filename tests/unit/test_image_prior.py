"""Networks that paint images, and the spaces that an inversion may descend."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.func import vmap

from reconrisk.attacks import LatentSpace, TunedSpace, UntrainedSpace
from reconrisk.convnets import Decoder, ImagePrior, train_decoder


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("side", "stages", "attends"), [(8, 2, 0), (16, 3, 2), (32, 4, 2)])
def test_the_untrained_network_has_the_papers_sides(side, stages, attends):
    network = ImagePrior(_generator(), side=side, width=4)
    assert len(network.down) == stages and len(network.up) == stages - 1
    attention = [stage.attention for stage in (*network.down, *network.up)]
    assert sum(a is not None for a in attention) == attends
    images = network(torch.randn((2, 4, side, side), generator=_generator(1)))
    assert images.shape == (2, 3, side, side)
    assert 0 < images.min() and images.max() < 1


def test_weights_are_the_generators_alone():
    first, again = (ImagePrior(_generator(), side=8, width=4) for _ in range(2))
    other = ImagePrior(_generator(1), side=8, width=4)
    noise = torch.randn((1, 4, 8, 8), generator=_generator(2))
    torch.testing.assert_close(first(noise), again(noise))
    assert (first(noise) - other(noise)).abs().max() > 1e-3


def test_many_problems_weights_are_mapped_at_once():
    space = UntrainedSpace.draw(ImagePrior(_generator(), side=8, width=4), 2, _generator(1))
    values = space.start(3, 2, _generator(2))
    together = vmap(space.images)(values)
    assert together.shape == (3, 2, 3, 8, 8)
    for one, batch in zip(values, together, strict=True):
        torch.testing.assert_close(space.images(one), batch)
    # the first problem starts from the network itself, the others from weights of their own
    torch.testing.assert_close(together[0], space.network(space.noise))
    assert (values[1] - values[2]).abs().max() > 0.01


def test_problems_take_a_given_number_of_first_weights_in_turn():
    space = UntrainedSpace.draw(ImagePrior(_generator(), side=8, width=4), 2, _generator(1))
    own = space.start(2, 2, _generator(2))
    shared = replace(space, distinct=2).start(6, 2, _generator(2))
    torch.testing.assert_close(shared, own.repeat(3, 1), rtol=0, atol=0)
    with pytest.raises(ValueError, match="distinct"):
        replace(space, distinct=-1)


def test_features_enter_every_residual_block_by_their_direction_and_are_not_optimised():
    network = ImagePrior(_generator(), side=8, width=4, features=6)
    blocks = [b for s in (*network.down, *network.up) for b in (s.before, s.after)]
    assert len(blocks) == 6 and all(b.enter.weight.shape[1] == 6 for b in blocks)
    features = torch.randn((3, 2, 6), generator=_generator(3))
    space = UntrainedSpace.draw(network, 2, _generator(1))
    plain = space.images(space.start(1, 2, _generator(2))[0])
    space = replace(space, features=features)
    values = space.start(3, 2, _generator(2))
    together = vmap(space.images)(values)
    assert (together[0] - plain).abs().max() > 0.01
    torch.testing.assert_close(together[0], network(space.noise, 5 * features[0]))
    torch.testing.assert_close(space.images(values[2]), together[2])
    # two restarts of each problem have its features
    assert (space.start(6, 2, _generator(2))[1, -12:] == features[0].flatten()).all()
    values.requires_grad_()
    (slope,) = torch.autograd.grad(vmap(space.images)(values).sum(), values)
    assert (slope[:, -12:] == 0).all() and (slope[:, :-12].abs().amax(dim=1) > 0).all()


def test_a_decoder_learns_and_its_latent_law_has_the_known_vectors_moments():
    generator = _generator(3)
    corners = torch.rand((64, 3, 2, 2), generator=generator)
    images = torch.nn.functional.interpolate(corners, size=(8, 8), mode="bilinear")
    decoder = Decoder(_generator(), side=8, latent=8, width=8)
    known = train_decoder(decoder, images, generator=_generator(1), steps=120)
    assert known.shape == (64, 8)
    assert known.norm(dim=1).max() <= 8**0.5 + 1e-4
    with torch.no_grad():
        error = (decoder(known) - images).square().mean()
    assert error < 0.6 * images.var(dim=0).mean()
    space = LatentSpace(decoder, known)
    drawn = space.start(500, 8, _generator(2)).flatten(0, 1)
    torch.testing.assert_close(drawn.mean(dim=0), known.mean(dim=0), atol=0.1, rtol=0)
    torch.testing.assert_close(drawn.T.cov(), known.T.cov(), atol=0.15, rtol=0.1)
    latents = drawn[:6].view(2, 3, 8)
    tuned = TunedSpace(space)
    torch.testing.assert_close(
        vmap(tuned.images)(tuned.beside(latents)), vmap(space.images)(latents)
    )
    assert tuned.start(2, 3, _generator(4)).shape == tuned.beside(latents).shape


def test_bad_sizes_are_refused():
    for make in (ImagePrior, Decoder):
        with pytest.raises(ValueError, match="side"):
            make(_generator(), side=12)
        with pytest.raises(ValueError, match="side"):
            make(_generator(), side=4)
    decoder = Decoder(_generator(), side=8, latent=2, width=2)
    with pytest.raises(ValueError, match="steps"):
        train_decoder(decoder, torch.rand(2, 3, 8, 8), generator=_generator(), steps=0)
