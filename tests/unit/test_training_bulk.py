"""DP-SGD of many models: factors against autograd, runs against Opacus, sampling and residuals."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from scipy import stats
from torch.nn.functional import cross_entropy

from reconrisk import DPSGD
from reconrisk.mechanisms import clip, global_norm
from reconrisk.models import Classifier
from reconrisk.training import (
    accuracy,
    gradient_factors,
    per_example_gradients,
    record_trajectories,
    train_many,
)

CLASSIFIERS = [Classifier(6, 4, 3), Classifier(6, None, 3)]


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _records(count, dimension=6, classes=3, seed=0, dtype=torch.float64):
    generator = _generator(seed)
    inputs = torch.rand(count, dimension, dtype=dtype, generator=generator)
    return inputs, torch.randint(classes, (count,), generator=generator)


def _gradients(classifier, weights, inputs, labels):
    """Every record's gradient by autograd through the module, formed in full."""
    network = classifier.module(weights)
    parts = [
        per_example_gradients(network, lambda out, y=y: cross_entropy(out[None], y[None]), x[None])
        for x, y in zip(inputs, labels, strict=True)
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _flat(gradient):
    return torch.cat([g.flatten(1) for g in gradient.values()], dim=1)


def _data(count=9, targets=4, dimension=6, classes=3, dtype=torch.float64):
    inputs, labels = _records(count + targets, dimension, classes, dtype=dtype)
    return inputs[:count], labels[:count], inputs[count:], labels[count:]


# Models ------------------------------------------------------------------------------------------


def test_the_papers_networks_have_the_stated_numbers_of_parameters():
    assert Classifier(784).parameter_count == 7960
    assert Classifier(784, 100).parameter_count == 79510
    assert Classifier(784, 1000).parameter_count == 795010
    assert Classifier(640, None).parameter_count == 6410


def test_first_weights_are_uniform_within_one_over_root_fan_in():
    weights = Classifier(400, 50).initialise(_generator(), torch.float64)
    for name, fan_in in (("hidden.weight", 400), ("output.weight", 50)):
        values = weights[name].flatten().numpy() * math.sqrt(fan_in)
        assert stats.kstest(values, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_a_module_draws_nothing_from_the_global_seed():
    before = torch.get_rng_state()
    weights = Classifier(5, 3, 2).initialise(_generator())
    network = Classifier(5, 3, 2).module(weights)
    assert torch.equal(before, torch.get_rng_state())
    torch.testing.assert_close(
        dict(network.named_parameters())["hidden.weight"].detach(), weights["hidden.weight"]
    )


@pytest.mark.parametrize(
    "bad", [{"inputs": 0}, {"inputs": 4, "hidden": 0}, {"inputs": 4, "classes": 1}]
)
def test_impossible_networks_are_refused(bad):
    with pytest.raises(ValueError, match="must be in"):
        Classifier(**bad)


# Factors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=["hidden", "linear"])
def test_factors_are_the_gradients_of_autograd(classifier):
    weights = classifier.initialise(_generator(1), torch.float64)
    inputs, labels = _records(7)
    full = _gradients(classifier, weights, inputs, labels)
    factors = gradient_factors(weights, inputs, labels)
    flat = _flat(full)
    torch.testing.assert_close(factors.squared_norms(), global_norm(full) ** 2)
    torch.testing.assert_close(factors.gram(), flat @ flat.T)
    shares = torch.rand(7, dtype=torch.float64, generator=_generator(2))
    for name, total in factors.weighted_sum(shares).items():
        torch.testing.assert_close(total, torch.einsum("n...,n->...", full[name], shares))
    other = classifier.initialise(_generator(3), torch.float64)
    along = flat @ torch.cat([other[name].flatten() for name in full])
    torch.testing.assert_close(factors.inner(other), along)
    limit = float(factors.squared_norms().sqrt().median())
    torch.testing.assert_close(factors.clip_factors(limit), clip(full, limit)[1])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=["hidden", "linear"])
def test_a_stack_of_models_gives_each_models_factors(classifier, shared):
    drawn = [classifier.initialise(_generator(seed), torch.float64) for seed in range(3)]
    stack = {name: torch.stack([w[name] for w in drawn]) for name in drawn[0]}
    inputs, labels = _records(5)
    own = torch.stack([inputs + 0.1 * k * (not shared) for k in range(3)])
    factors = gradient_factors(stack, inputs if shared else own, labels)
    shares = torch.rand(3, 5, dtype=torch.float64, generator=_generator(4))
    total = factors.weighted_sum(shares)
    added = {name: torch.ones_like(w) for name, w in stack.items()}
    factors.add_weighted_sum(added, shares)
    for k, weights in enumerate(drawn):
        alone = gradient_factors(weights, own[k], labels)
        torch.testing.assert_close(factors.squared_norms()[k], alone.squared_norms())
        torch.testing.assert_close(factors.inner(stack)[k], alone.inner(weights))
        torch.testing.assert_close(factors.gram()[k], alone.gram())
        for name, t in alone.weighted_sum(shares[k]).items():
            torch.testing.assert_close(total[name][k], t)
            torch.testing.assert_close(added[name][k], t + 1)


def test_factors_are_differentiable_in_the_inputs_and_in_soft_labels():
    classifier = CLASSIFIERS[0]
    weights = classifier.initialise(_generator(1), torch.float64)
    inputs, labels = _records(2)
    soft = torch.nn.functional.one_hot(labels, 3).double()

    def clipped(x, y):
        factors = gradient_factors(weights, x, y)
        return factors.inner(weights) * factors.clip_factors(0.3)

    torch.testing.assert_close(clipped(inputs, labels), clipped(inputs, soft))
    assert torch.autograd.gradcheck(
        clipped, (inputs.requires_grad_(), (0.9 * soft + 0.03).requires_grad_())
    )


def test_a_record_without_a_gradient_is_not_clipped():
    weights = {"output.weight": torch.zeros(2, 1), "output.bias": torch.tensor([200.0, -200.0])}
    factors = gradient_factors(weights, torch.ones(1, 1), torch.tensor([0]))
    assert float(factors.squared_norms()) == 0
    assert float(factors.clip_factors(1.0)) == 1


def test_accuracy_counts_what_is_classified_rightly():
    weights = {"output.weight": torch.eye(3), "output.bias": torch.zeros(3)}
    inputs = torch.eye(3)[[0, 1, 2, 2]]
    assert float(accuracy(weights, inputs, torch.tensor([0, 1, 1, 2]))) == 0.75


# Runs --------------------------------------------------------------------------------------------


def _reference(classifier, run, known, target, weights, noise, takes_part, learning_rate):
    """One plain run from the definition: all gradients formed, clipped, summed, noise added."""
    inputs, labels = torch.cat([known[0], target[0]]), torch.cat([known[1], target[1]])
    for step, part in zip(noise, takes_part, strict=True):
        gradient, _ = clip(_gradients(classifier, weights, inputs, labels), run.max_grad_norm)
        size = run.sampling_rate * len(inputs)
        weights = {
            name: w
            - learning_rate
            * (torch.einsum("n...,n->...", gradient[name], part) + step[name])
            / size
            for name, w in weights.items()
        }
    return weights


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=["hidden", "linear"])
@pytest.mark.parametrize("watched", [True, False])
def test_a_full_batch_run_is_the_definition(classifier, watched):
    """The noise is read off the residuals: what is left of them without the target's gradient."""
    known_x, known_y, target_x, target_y = _data(targets=3)
    run = DPSGD(0.7, steps=4, max_grad_norm=0.4)
    first = classifier.initialise(_generator(5), torch.float64)
    arguments = (classifier, run, known_x, known_y, target_x, target_y)
    options = dict(learning_rate=0.9, initial=first)
    kept = record_trajectories(*arguments, generator=_generator(6), **options)
    final = kept.final
    if not watched:
        final = train_many(*arguments, generator=_generator(6), **options)
    for k in range(3):
        noise = []
        for t in range(run.steps):
            at = {name: w[t, k] for name, w in kept.weights.items()}
            own = _gradients(classifier, at, target_x[k : k + 1], target_y[k : k + 1])
            clipped, _ = clip(own, run.max_grad_norm)
            noise.append({n: r[t, k] - clipped[n][0] for n, r in kept.residuals.items()})
        expected = _reference(
            classifier,
            run,
            (known_x, known_y),
            (target_x[k : k + 1], target_y[k : k + 1]),
            first,
            noise,
            torch.ones(run.steps, len(known_x) + 1, dtype=torch.float64),
            0.9,
        )
        for name, w in expected.items():
            torch.testing.assert_close(final[name][k], w)


def test_one_unwatched_model_trains_like_a_watched_one():
    data = _data(targets=1)
    run = DPSGD(0.7, steps=4, max_grad_norm=0.4)
    plain = train_many(CLASSIFIERS[0], run, *data, learning_rate=1.0, generator=_generator(1))
    watched = record_trajectories(
        CLASSIFIERS[0], run, *data, learning_rate=1.0, generator=_generator(1)
    ).final
    for name in plain:
        torch.testing.assert_close(plain[name], watched[name])


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_poisson_sampling_takes_each_record_at_the_rate_and_weights_rightly(rate):
    """The known part of each step, read off consecutive models, is a sum of some gradients."""
    classifier = CLASSIFIERS[0]
    known_x, known_y, target_x, target_y = _data(count=6, targets=40)
    run = DPSGD(0.5, rate, steps=30, max_grad_norm=0.4)
    kept = record_trajectories(
        classifier,
        run,
        known_x,
        known_y,
        target_x,
        target_y,
        learning_rate=0.3,
        generator=_generator(2),
    )
    factors = gradient_factors(kept.weights, known_x, known_y)
    names = list(kept.final)
    later = {n: torch.cat([kept.weights[n][1:], kept.final[n][None]]) for n in names}
    moved = {n: (kept.weights[n] - later[n]) * rate * 7 / 0.3 - kept.residuals[n] for n in names}
    flat = torch.cat([moved[n].flatten(2) for n in names], dim=2)
    # solve for which records took part: six clipped gradients in 43 coordinates
    scale = factors.clip_factors(run.max_grad_norm)
    parts = [factors.weighted_sum(scale * torch.eye(6, dtype=torch.float64)[i]) for i in range(6)]
    basis = torch.stack([torch.cat([p[n].flatten(2) for n in names], 2) for p in parts], dim=3)
    taken = torch.linalg.lstsq(basis, flat[..., None]).solution[..., 0]
    torch.testing.assert_close(taken, taken.round(), atol=1e-6, rtol=0)
    assert set(taken.round().unique().tolist()) <= {0.0, 1.0}
    share = stats.binomtest(int(taken.round().sum()), taken.numel(), rate)
    assert share.pvalue > 1e-3
    # one draw per model, record and step: no two records always go together
    together = torch.corrcoef(taken.reshape(-1, 6).T) - torch.eye(6)
    assert float(together.abs().max()) < 0.15
    # the target's part: the residual less the noise
    target = gradient_factors(kept.weights, target_x[:, None], target_y[:, None])
    along = target.inner(kept.residuals)[..., 0] / target.squared_norms()[..., 0].sqrt()
    clipped = target.squared_norms()[..., 0].sqrt().clamp(max=0.4)
    noise = (along - clipped * kept.takes_part) / (0.4 * 0.5)
    assert stats.kstest(noise.flatten().numpy(), stats.norm.cdf).pvalue > 1e-3
    assert stats.binomtest(int(kept.takes_part.sum()), kept.takes_part.numel(), rate).pvalue > 1e-3


def test_the_residual_can_keep_the_known_gradients():
    data = _data()
    run = DPSGD(0.7, 0.5, steps=3, max_grad_norm=0.4)
    whole = record_trajectories(
        CLASSIFIERS[0], run, *data, learning_rate=0.3, generator=_generator(1), subtract_known=False
    )
    less = record_trajectories(
        CLASSIFIERS[0], run, *data, learning_rate=0.3, generator=_generator(1)
    )
    for name, w in whole.final.items():
        torch.testing.assert_close(w, less.final[name])
        step = (whole.weights[name][0] - whole.weights[name][1]) * 0.5 * 10 / 0.3
        torch.testing.assert_close(step, whole.residuals[name][0])


def test_results_do_not_depend_on_how_models_are_blocked(monkeypatch):
    from reconrisk.training import _bulk

    data = _data(targets=7)
    run = DPSGD(0.7, steps=3, max_grad_norm=0.4)
    whole = train_many(CLASSIFIERS[0], run, *data, learning_rate=1.0, generator=_generator(1))
    monkeypatch.setattr(_bulk, "_block_size", lambda weights, like: 3)
    blocked = train_many(CLASSIFIERS[0], run, *data, learning_rate=1.0, generator=_generator(1))
    for name in whole:
        torch.testing.assert_close(whole[name], blocked[name])


def test_no_known_records_at_all_is_allowed():
    _, _, x, y = _data()
    run = DPSGD(0.7, steps=2)
    for rate in (1.0, 0.1):
        final = train_many(
            CLASSIFIERS[0],
            DPSGD(0.7, rate, 2),
            x[:0],
            y[:0],
            x,
            y,
            learning_rate=1.0,
            generator=_generator(1),
        )
        assert all(bool(w.isfinite().all()) for w in final.values()), run


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_opacus_gives_the_same_model_with_the_same_noise(dtype):
    opacus = pytest.importorskip("opacus")
    from opacus.optimizers import DPOptimizer

    classifier = Classifier(30, 8, 5)
    inputs, labels = _records(21, 30, 5, dtype=dtype)
    first = classifier.initialise(_generator(3), dtype)
    run = DPSGD(0.8, steps=6, max_grad_norm=0.3)
    ours = train_many(
        classifier,
        run,
        inputs[:20],
        labels[:20],
        inputs[20:],
        labels[20:],
        learning_rate=2.0,
        generator=_generator(4),
        initial=first,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = opacus.GradSampleModule(classifier.module(first))
        optimiser = DPOptimizer(
            torch.optim.SGD(network.parameters(), lr=2.0),
            noise_multiplier=run.noise_multiplier,
            max_grad_norm=run.max_grad_norm,
            expected_batch_size=21,
            generator=_generator(4),
        )
        for _ in range(run.steps):
            optimiser.zero_grad()
            cross_entropy(network(inputs), labels).backward()
            optimiser.step()
    # Opacus divides by the norm plus 1e-6
    for name, w in network._module.named_parameters():
        torch.testing.assert_close(ours[name][0], w.detach(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({2: torch.zeros(9, 5)}, r"known_inputs must have shape \(records, 6\)"),
        ({3: torch.zeros(8, dtype=torch.int64)}, r"known_labels must have shape \(9,\)"),
        ({4: torch.zeros(4, 5)}, r"target_inputs must have shape \(records, 6\)"),
        ({4: torch.zeros(4, 6)}, "must have one dtype"),
    ],
)
def test_records_that_do_not_fit_are_refused(change, message):
    arguments = [CLASSIFIERS[0], DPSGD(1.0), *_data()]
    for position, value in change.items():
        arguments[position] = value
    with pytest.raises(ValueError, match=message):
        train_many(*arguments, learning_rate=1.0, generator=_generator())


def test_bad_first_weights_and_learning_rates_are_refused():
    first = CLASSIFIERS[0].initialise(_generator(), torch.float64)
    first["hidden.bias"] = first["hidden.bias"][:-1]
    with pytest.raises(ValueError, match="hidden.bias"):
        train_many(
            CLASSIFIERS[0],
            DPSGD(1.0),
            *_data(),
            learning_rate=1.0,
            generator=_generator(),
            initial=first,
        )
    with pytest.raises(ValueError, match="learning_rate must be in"):
        train_many(CLASSIFIERS[0], DPSGD(1.0), *_data(), learning_rate=-1.0, generator=_generator())
