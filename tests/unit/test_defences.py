"""Each defence does to an update what it must, and shows what it must."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reconrisk.mechanisms import (
    Clipping,
    EntryDropout,
    LocalAggregation,
    NeuronDropout,
    Noise,
    Pruning,
    Released,
    SecureAggregation,
    changes_of_training,
    defend,
    dp_sgd,
    global_norm,
    support,
)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _update(count: int = 4, seed: int = 1) -> dict[str, torch.Tensor]:
    generator = _generator(seed)
    return {
        "a": torch.randn((count, 30, 20), generator=generator),
        "b": 5 * torch.randn((count, 100), generator=generator),
    }


def _entries(released: Released) -> torch.Tensor:
    return torch.cat([g.flatten(1) for g in released.gradient.values()], dim=1)


def test_no_defence_changes_nothing():
    update = _update()
    released = defend(update, (), generator=_generator())
    assert released.visible is None and released.clients == 1 and len(released) == 4
    for name, g in update.items():
        assert torch.equal(released.gradient[name], g)


def test_the_norm_is_that_of_all_entries_of_all_tensors():
    gradient = {"a": torch.full((2, 3), 2.0), "b": torch.full((2, 2, 2), 1.0)}
    assert global_norm(gradient).tolist() == pytest.approx([4.0, 4.0])  # 3 * 2^2 + 4 * 1^2 = 4^2


def test_clipping_bounds_the_norm_and_keeps_the_direction():
    update = _update()
    released = defend(update, [Clipping(2.0)], generator=_generator())
    torch.testing.assert_close(global_norm(released.gradient), torch.full((4,), 2.0).double())
    ratio = released.gradient["a"] / update["a"]
    assert ratio.flatten(1).std(dim=1).max() < 1e-6
    short = defend(update, [Clipping(1e6)], generator=_generator())
    assert torch.equal(short.gradient["b"], update["b"])


def test_noise_has_its_size_and_covers_what_was_removed():
    update = _update(40)
    pruned = defend(update, [Pruning(0.5)], generator=_generator())
    assert pruned.visible is not None
    noisy = defend(pruned, [Noise(0.3)], generator=_generator(3))
    added = _entries(noisy) - _entries(pruned)
    assert added.std().item() == pytest.approx(0.3, rel=5 / np.sqrt(2 * added.numel()))
    assert noisy.visible is None and all(bool(m.all()) for m in support(noisy.gradient).values())
    partial = defend(pruned, [Noise(0.3, everywhere=False)], generator=_generator(3))
    assert partial.visible is not None
    for name, mask in partial.visible.items():
        assert torch.equal(support(partial.gradient)[name], mask)
    assert defend(pruned, [Noise(0.0)], generator=_generator()).visible is not None


def test_dp_sgd_is_clipping_and_then_noise():
    update = _update()
    both = defend(update, dp_sgd(2.0, 0.5), generator=_generator(3))
    steps = defend(
        defend(update, [Clipping(2.0)], generator=_generator(8)),
        [Noise(1.0)],
        generator=_generator(3),
    )
    assert torch.equal(_entries(both), _entries(steps))
    # in the other order the noise is clipped too
    other = defend(update, dp_sgd(2.0, 0.5)[::-1], generator=_generator(3))
    assert global_norm(both.gradient).min() > 10 and global_norm(other.gradient).max() < 2.0001


@pytest.mark.parametrize("rescaled", [False, True])
def test_entry_dropout_keeps_its_share_and_is_unbiased_if_rescaled(rescaled):
    update = {name: g[:1].expand(3000, *g.shape[1:]) for name, g in _update(1).items()}
    defence = [EntryDropout(0.7, rescaled=rescaled)]
    thinned = defend(update, defence, generator=_generator())
    entries, whole = _entries(thinned), _entries(Released(update))[0]
    kept = (entries != 0).float()
    assert kept.mean().item() == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / kept.numel()))
    factor = 1.0 if rescaled else 0.3
    error = entries.mean(dim=0) - factor * whole
    spread = whole.abs() * np.sqrt(0.3 * 0.7 / 3000) * (factor / 0.3)
    assert ((error / spread).abs() < 6).all()
    assert error.div(spread).square().mean().item() == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.99])
def test_pruning_removes_the_smallest_entries(share):
    update = _update()
    whole = _entries(Released(update))
    pruned = defend(update, [Pruning(share)], generator=_generator())
    entries = _entries(pruned)
    removed = round(share * whole.shape[1])
    assert ((entries == 0).sum(dim=1) == removed).all()
    gone = entries == 0
    assert torch.equal(entries[~gone], whole[~gone])
    for k in range(len(whole)):
        if removed:
            assert whole[k][gone[k]].abs().max() < whole[k][~gone[k]].abs().min()
    # the second tensor is five times as large, and loses less
    by_layer = defend(update, [Pruning(share, by_layer=True)], generator=_generator())
    for g in by_layer.gradient.values():
        assert ((g == 0).flatten(1).sum(dim=1) == round(share * g[0].numel())).all()
    if share in (0.3, 0.9):
        assert (pruned.gradient["b"] == 0).sum() < (by_layer.gradient["b"] == 0).sum()


def test_masks_of_two_defences_meet():
    released = defend(_update(), [EntryDropout(0.5), Pruning(0.8)], generator=_generator())
    assert released.visible is not None
    for name, mask in released.visible.items():
        assert torch.equal(support(released.gradient)[name], mask)
    assert (_entries(released) != 0).sum(dim=1).float().mean() == 700 - 560


def test_secure_aggregation_averages_neighbours_and_unites_their_masks():
    update = _update(6)
    released = defend(update, [Pruning(0.9), SecureAggregation(3)], generator=_generator())
    alone = defend(update, [Pruning(0.9)], generator=_generator())
    assert len(released) == 2 and released.clients == 3
    for name, g in released.gradient.items():
        torch.testing.assert_close(g[1], alone.gradient[name][3:].mean(dim=0))
        assert torch.equal(released.visible[name][0], alone.visible[name][:3].any(dim=0))
    twice = defend(released, [SecureAggregation(2)], generator=_generator())
    assert len(twice) == 1 and twice.clients == 6
    with pytest.raises(ValueError, match="clients must divide"):
        defend(update, [SecureAggregation(4)], generator=_generator())


def test_neuron_dropout_draws_its_share_with_unbiased_factors():
    units = NeuronDropout(0.4).draw(50, 2000, _generator())
    assert units.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert units.mean().item() == pytest.approx(1, abs=5 * np.sqrt(0.4 / 0.6 / 1e5))


def test_the_same_seed_gives_the_same_update():
    defence = [EntryDropout(0.2), *dp_sgd(1.0, 0.1)]
    one, same, other = (defend(_update(), defence, generator=_generator(s)) for s in (1, 1, 2))
    assert torch.equal(_entries(one), _entries(same))
    assert not torch.equal(_entries(one), _entries(other))


def test_changes_of_training_come_first_and_once():
    dropout, local = NeuronDropout(0.3), LocalAggregation(3, 0.1)
    assert changes_of_training([local, dropout, Noise(1.0)]) == (dropout, local)
    assert changes_of_training([]) == (None, None)
    for wrong in ([Noise(1.0), dropout], [dropout, dropout], [local, local]):
        with pytest.raises(ValueError, match="defence must"):
            changes_of_training(wrong)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Clipping(0.0), "max_grad_norm"),
        (lambda: Noise(-0.1), "std"),
        (lambda: EntryDropout(1.0), "probability"),
        (lambda: Pruning(1.0), "share"),
        (lambda: Pruning(float("nan")), "share"),
        (lambda: NeuronDropout(-0.1), "probability"),
        (lambda: LocalAggregation(0, 0.1), "steps"),
        (lambda: LocalAggregation(2, 0.0), "learning_rate"),
        (lambda: SecureAggregation(0), "clients"),
        (lambda: dp_sgd(1.0, -1.0), "noise_multiplier"),
        (lambda: defend({"a": torch.ones(2), "b": torch.ones(3)}, [], generator=None), "update"),
    ],
)
def test_bad_arguments_are_refused_by_name(make, argument):
    with pytest.raises(ValueError, match=argument):
        make()
