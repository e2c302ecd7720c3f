"""All gradients of a run as one release of the record, and a prior that reads it."""

import numpy as np
import pytest
import torch

from reconrisk import DPSGD, attacks
from reconrisk.models import Classifier
from reconrisk.training import record_trajectories

COUNT, SIDE = 40, 30


def recorded(noise_multiplier, hidden=6, seed=0, rate=1.0, steps=20):
    """Targets, labels, run and what an informed adversary sees of them."""
    draws = torch.Generator().manual_seed(seed)
    records = torch.rand(COUNT + 20, SIDE, generator=draws, dtype=torch.float64)
    labels = torch.arange(len(records)) % 3
    run = DPSGD(noise_multiplier, sampling_rate=rate, steps=steps, max_grad_norm=0.1)
    seen = record_trajectories(
        Classifier(SIDE, hidden, 3),
        run,
        *(records[COUNT:], labels[COUNT:], records[:COUNT], labels[:COUNT]),
        learning_rate=1.0,
        generator=draws,
    )
    return records[:COUNT], labels[:COUNT], run, seen


@pytest.mark.parametrize("hidden", [6, None])
def test_with_the_records_derivatives_it_is_the_record_and_normal_noise(hidden):
    records, labels, run, seen = recorded(2.0, hidden)
    x_hat, std = attacks.first_layer_release(seen.weights, seen.residuals, run, records, labels)
    scores = ((x_hat - records) / std[:, None]).numpy()
    assert abs(scores.mean()) < 4 / scores.size**0.5
    assert abs(scores.var() - 1) < 4 * (2 / scores.size) ** 0.5
    # pixels of one release are independent
    assert np.abs(np.corrcoef(scores[:, 0], scores[:, 1])[0, 1]) < 4 / COUNT**0.5


def test_a_linear_layers_clipped_gradients_have_a_known_size():
    """All of a clipped gradient's norm C is in one layer: its derivatives have C over |(x, 1)|."""
    records, labels, run, seen = recorded(2.0, None, steps=20)
    _, std = attacks.first_layer_release(seen.weights, seen.residuals, run, records, labels)
    size = (records.square().sum(dim=1) + 1).sqrt()
    assert torch.allclose(std, 2.0 * size / 20**0.5, rtol=1e-9)


def test_without_noise_no_prior_is_needed():
    records, labels, run, seen = recorded(1e-9)
    given = seen.weights, seen.residuals, run, labels
    found = attacks.match_with_prior(*given, lambda noisy, std: noisy)
    assert float((found - records).abs().max()) < 1e-6


def test_a_prior_that_knows_the_mean_and_variance_gains_where_noise_is_large():
    """Uniform pixels: the linear filter's error is at most the variance, 1/12."""
    records, labels, run, seen = recorded(5.0)
    given = seen.weights, seen.residuals, run, labels

    def filtered(noisy, std):
        kept = (1 / 12) / (1 / 12 + std.square())[:, None]
        return 0.5 + kept * (noisy - 0.5)

    plain, better = (attacks.match_with_prior(*given, p) for p in (lambda x, _: x, filtered))
    errors = [float((found - records).square().mean()) for found in (plain, better)]
    assert errors[1] < 1 / 12 * 1.1 < errors[0]


def test_the_last_word_is_the_priors():
    _, labels, run, seen = recorded(2.0)
    wanted = torch.full((COUNT, SIDE), 0.25, dtype=torch.float64)
    found = attacks.match_with_prior(
        seen.weights, seen.residuals, run, labels, lambda *_: wanted, iterations=1
    )
    assert torch.equal(found, wanted)


def test_sampled_batches_and_wrong_shapes_are_refused():
    records, labels, run, seen = recorded(2.0, rate=0.5)
    given = seen.weights, seen.residuals
    with pytest.raises(ValueError, match="sampling_rate must be 1.*got 0.5"):
        attacks.first_layer_release(*given, run, records, labels)
    run = DPSGD(2.0, steps=20, max_grad_norm=0.1)
    with pytest.raises(ValueError, match=r"guess and labels must have shapes \(40, 30\)"):
        attacks.first_layer_release(*given, run, records[:3], labels)
    with pytest.raises(ValueError, match="iterations must be"):
        attacks.match_with_prior(*given, run, labels, lambda x, _: x, iterations=0)
