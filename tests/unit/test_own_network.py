"""Networks that are not ours: what attacks and per-example gradients take, and refuse by name."""

from __future__ import annotations

import doctest
import types

import pytest
import torch
from torch import nn

from companion.study import registry
from reconrisk import DPSGD, attacks, bounds, mechanisms, models, training

cross_entropy = nn.functional.cross_entropy


class Small(nn.Module):
    """A convolution, a layer to be chosen, and a head behind ``flatten(1)``."""

    def __init__(self, layer: nn.Module | None = None, outputs: int = 4):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(1, 6, 3, padding=1)
        self.layer = nn.Identity() if layer is None else layer
        self.head = nn.Linear(6 * 64, outputs)

    def forward(self, images):
        return self.head(self.layer(torch.sigmoid(self.first(images))).flatten(1))


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(8, 16)
        self.attend = nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.0, activation="gelu", batch_first=True
        )
        self.head = nn.Linear(8 * 16, 4)

    def forward(self, images):
        return self.head(self.attend(self.embed(images.squeeze(1))).flatten(1))


class WithLogits(Small):
    def forward(self, images):
        return types.SimpleNamespace(logits=super().forward(images), hidden=None)


def _frozen() -> nn.Module:
    network = Small()
    network.first.requires_grad_(False)
    return network


def _batches() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.rand((2, 2, 1, 8, 8), generator=generator), torch.tensor([[0, 1], [2, 3]])


def _by_hand(network: nn.Module, images: torch.Tensor, labels: torch.Tensor, loss=cross_entropy):
    """The gradient of one batch, of the parameters that are not frozen, by plain autograd."""
    named = {name: p for name, p in network.named_parameters() if p.requires_grad}
    outputs = network(images)
    value = loss(getattr(outputs, "logits", outputs), labels)
    return dict(zip(named, torch.autograd.grad(value, list(named.values())), strict=True))


ORDINARY = {
    "plain": lambda: Small(),
    "batch norm, counting": lambda: Small(nn.BatchNorm2d(6)).train(),
    "batch norm, stored": lambda: Small(nn.BatchNorm2d(6)).eval(),
    "group norm": lambda: Small(nn.GroupNorm(2, 6)),
    "instance norm, counting": lambda: Small(nn.InstanceNorm2d(6, track_running_stats=True)),
    "dropout": lambda: Small(nn.Dropout(0.5)).eval(),
    "attention": lambda: Attending().train(),
    "attention, eval": lambda: Attending().eval(),
    "frozen": _frozen,
    "logits": WithLogits,
    "compiled": lambda: torch.compile(Small(), backend="eager"),
    "parallel": lambda: nn.DataParallel(Small(), device_ids=[]),
}


@pytest.mark.parametrize("case", ORDINARY)
@pytest.mark.filterwarnings("ignore:.*batching rule:UserWarning")
def test_ordinary_networks_are_attacked_as_they_are(case: str) -> None:
    network = ORDINARY[case]()
    images, labels = _batches()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    draw = torch.Generator().manual_seed(1)
    released = training.client_updates(network, images, labels, generator=draw)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), f"{name} was changed"
    for k in range(2):
        for name, g in _by_hand(network, images[k], labels[k]).items():
            plain = name.removeprefix("_orig_mod.").removeprefix("module.")
            torch.testing.assert_close(released.gradient[plain][k], g, atol=1e-6, rtol=1e-4)
    knowledge = attacks.Knowledge(labels, (1, 8, 8))
    start = (images + 0.02).clamp(0, 1)
    both = attacks.invert_updates(
        network, released, knowledge, generator=draw, iterations=30, start=start
    )
    assert float(both.loss.max()) < 2e-2
    # a problem by itself takes another way to the same place
    one = attacks.invert_updates(
        network,
        released.take(slice(1)),
        attacks.Knowledge(labels[:1], (1, 8, 8)),
        generator=draw,
        iterations=30,
        start=start[:1],
    )
    torch.testing.assert_close(one.loss, both.loss[:1], atol=1e-3, rtol=0.1)
    if "frozen" == case:
        assert set(released.gradient) == {"head.weight", "head.bias"}


@pytest.mark.filterwarnings("ignore:Full backward hook:UserWarning")
def test_the_wrapper_of_opacus_comes_off_and_its_names_too() -> None:
    opacus = pytest.importorskip("opacus")
    plain, images, labels = Small(), *_batches()
    wrapped = opacus.GradSampleModule(Small())
    draw = torch.Generator().manual_seed(1)
    released = training.client_updates(wrapped, images, labels, generator=draw)
    for name, g in _by_hand(plain, images[0], labels[0]).items():
        torch.testing.assert_close(released.gradient[name][0], g, atol=1e-6, rtol=1e-4)
    theirs = mechanisms.Released({f"_module.{k}": g for k, g in released.gradient.items()})
    found = attacks.invert_updates(
        wrapped, theirs, attacks.Knowledge(labels, (1, 8, 8)), generator=draw, iterations=5
    )
    assert found.inputs.shape == images.shape
    each = training.per_example_gradients(wrapped, cross_entropy, images[0], labels[0])
    assert set(each) == set(released.gradient)
    # the user's own passes are counted as before
    cross_entropy(wrapped(images[0]), labels[0]).backward()
    assert wrapped._module.head.weight.grad_sample.shape == (2, 4, 384)


def test_another_loss_and_its_labels() -> None:
    network, (images, _) = Small(outputs=1), _batches()
    labels = torch.tensor([[0.0, 1.0], [1.0, 0.5]])

    def loss(outputs, labels):
        return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], labels)

    draw = torch.Generator().manual_seed(1)
    released = training.client_updates(network, images, labels, generator=draw, loss=loss)
    for name, g in _by_hand(network, images[1], labels[1], loss).items():
        torch.testing.assert_close(released.gradient[name][1], g)
    found = attacks.invert_updates(
        network,
        released,
        attacks.Knowledge(labels, (1, 8, 8), loss=loss),
        generator=draw,
        iterations=150,
    )
    assert float(found.loss.max()) < 1e-2  # one output mixes two pictures: the match is not unique
    with pytest.raises(ValueError, match="labels must be integers"):
        attacks.Knowledge(labels, (1, 8, 8))


@pytest.mark.parametrize("case", ["plain", "group norm", "attention", "frozen", "logits"])
def test_each_record_has_the_gradient_that_it_has_alone(case: str) -> None:
    network = ORDINARY[case]()
    images, labels = (part.flatten(0, 1) for part in _batches())
    for count in (1, 3):
        found = training.per_example_gradients(
            network, cross_entropy, images[:count], labels[:count]
        )
        for k in range(count):
            alone = _by_hand(network, images[k : k + 1], labels[k : k + 1])
            assert set(found) == set(alone)
            for name, g in alone.items():
                torch.testing.assert_close(found[name][k], g, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (nn.Dropout(0.5), r"network.layer \(Dropout\) draws at random"),
        (nn.Sequential(nn.Identity(), nn.Dropout2d(0.1)), r"network.layer.1 \(Dropout2d\)"),
        (nn.BatchNorm2d(6), r"network.layer \(BatchNorm2d\) normalises by the whole batch"),
    ],
)
def test_what_cannot_be_done_names_the_layer(layer: nn.Module, named: str) -> None:
    network, (images, labels) = Small(layer).train(), _batches()
    with pytest.raises(ValueError, match=named):
        training.per_example_gradients(network, cross_entropy, images[0], labels[0])
    if "BatchNorm" not in named:
        with pytest.raises(ValueError, match=named):
            training.client_updates(network, images, labels, generator=torch.Generator())


def test_labels_names_and_outputs_that_do_not_fit_are_refused() -> None:
    network, (images, labels) = Small(), _batches()
    draw = torch.Generator().manual_seed(1)
    for wrong in (4, -1):
        with pytest.raises(ValueError, match=rf"labels must be in \[0, 3\].*got {wrong}$"):
            training.client_updates(
                network, images, labels.masked_fill(labels == 1, wrong), generator=draw
            )
    released = training.client_updates(network, images, labels, generator=draw)
    with pytest.raises(ValueError, match=r"labels must be in \[0, 3\]"):
        attacks.invert_updates(
            network, released, attacks.Knowledge(labels + 3, (1, 8, 8)), generator=draw
        )
    less = mechanisms.Released(
        {name: g for name, g in released.gradient.items() if name != "first.bias"}
    )
    with pytest.raises(ValueError, match=r"but those that are frozen; differs by \['first.bias'\]"):
        attacks.invert_updates(network, less, attacks.Knowledge(labels, (1, 8, 8)), generator=draw)

    class Odd(Small):
        def forward(self, images):
            return [super().forward(images)]

    with pytest.raises(TypeError, match="an object with logits; got list"):
        training.client_updates(Odd(), images, labels, generator=draw)


def test_scores_of_anybody_s_gradients_are_the_adversary_s() -> None:
    """Five steps of a network of attention: inner products and norms by hand, success bounded."""
    network, run = Attending(), DPSGD(1.0, steps=2, max_grad_norm=0.7)
    draw = torch.Generator().manual_seed(5)
    candidates = torch.rand((4, 1, 8, 8), generator=draw)
    each = training.per_example_gradients(network, cross_entropy, candidates, torch.arange(4))
    clipped, _ = mechanisms.clip(each, 0.7)
    rows = torch.cat([g.flatten(1) for g in clipped.values()], dim=1) / 0.7
    right = 0
    for trial in range(300):
        steps = []
        for _ in range(run.steps):
            mine = {name: g[[trial % 4]] for name, g in clipped.items()}
            steps.append((each, mechanisms.add_gaussian_noise(mine, 0.7, draw)))
        scores = attacks.StepScores.of(iter(steps), 0.7)
        right += int(attacks.likelihood_score(scores, run).argmax()) == trial % 4
    seen = torch.cat([steps[0][1][name].flatten() for name in each]) / 0.7
    torch.testing.assert_close(scores.inner[0, 0], rows @ seen, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(scores.squared_norms[0, 0], rows.square().sum(dim=1))
    torch.testing.assert_close(scores.residual_squared_norms[0, 0], seen.square().sum())
    assert 0.4 < right / 300 < bounds.rero(run, 0.25).upper + 0.08
    with pytest.raises(ValueError, match="same names"):
        attacks.StepScores.of([(each, {})], 0.7)
    with pytest.raises(TypeError, match=r"StepScores.of; got Attending"):
        attacks.prior_aware_attack(
            network, run, candidates, torch.arange(4), candidates, torch.arange(4),
            prior_size=2, trials=1, learning_rate=0.1, generator=draw,
        )  # fmt: skip


def test_the_page_s_examples_run() -> None:
    page = registry.project_root() / "book/own_network.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried >= 20 and not failed


def test_labels_out_of_range_are_refused_in_every_training() -> None:
    """Counted from one, the last class would be trained towards none."""
    draw = torch.Generator().manual_seed(0)
    inputs, labels = torch.rand((20, 16), generator=draw), torch.arange(20) % 4 + 1
    sigmoid = models.SigmoidNetwork((16, 8, 4))
    classifier = models.Classifier(inputs=16, hidden=3, classes=4)
    run, right = DPSGD(1.0, steps=2), torch.arange(20) % 4
    weights = classifier.initialise(draw)
    calls = (
        lambda: training.train_mini_batches(
            sigmoid, inputs, labels, [training.Release("gaussian", 1.0)],
            batch_size=5, epochs=1, generator=draw,
        ),
        lambda: training.train_many(
            classifier, run, inputs, labels, inputs[:1], right[:1],
            learning_rate=0.1, generator=draw, initial=weights,
        ),
        lambda: training.gradient_factors(weights, inputs, labels),
        lambda: attacks.prior_aware_attack(
            classifier, run, inputs, right, inputs, labels,
            prior_size=2, trials=2, learning_rate=0.1, generator=draw,
        ),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=r"labels must be in \[0, 3\].*; got 4"):
            call()


def test_a_poisson_batch_without_records_releases_any_direction() -> None:
    draw = torch.Generator().manual_seed(0)
    trained = training.train_mini_batches(
        models.SigmoidNetwork((16, 8, 4)),
        torch.rand((20, 16), generator=draw),
        torch.arange(20) % 4,
        [training.Release("vmf", 100.0), training.Release("gaussian", 1.0)],
        batch_size=1,
        epochs=3,
        generator=draw,
    )
    assert all(bool(torch.isfinite(w).all()) for w in trained.values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_clipping_in_half_precision_leaves_no_more_than_its_norm(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    for size in (1, 3, 100, 5000):
        g = (3 * torch.randn((200, size), generator=draw) + 2).to(dtype)
        clipped, factor = mechanisms.clip({"w": g}, 1.0)
        norms = mechanisms.global_norm(clipped)
        assert float(norms.max()) <= 1.0
        assert float(norms[factor < 1].min()) > 1 - 6 * torch.finfo(dtype).eps
