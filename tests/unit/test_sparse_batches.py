"""Exact batches from the first layer of a ReLU network: who is found, and who is told apart."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from reconrisk import attacks, bounds
from reconrisk.attacks import sparse_batches

SEARCHES = ("descent", "sampling")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def layer_of(width, dimension, seed=0):
    drawn = generator(seed)
    weights = torch.randn(width, dimension, generator=drawn, dtype=torch.float64)
    return weights, torch.randn(width, generator=drawn, dtype=torch.float64), drawn


def batch(count, width=200, dimension=30, seed=0):
    """Records, the layer and signals that are normal where a unit is on."""
    weights, biases, drawn = layer_of(width, dimension, seed)
    records = torch.randn(count, dimension, generator=drawn, dtype=torch.float64)
    signals = torch.randn(width, count, generator=drawn, dtype=torch.float64)
    return records, weights, biases, signals * (weights @ records.T + biases[:, None] > 0)


def attack(records, weights, biases, signals, **settings):
    return attacks.sparse_batch_attack(
        signals @ records, signals.sum(dim=1), weights, biases, generator=generator(1), **settings
    )


def distance(records, found):
    """Largest distance of a record to the nearest of those found, which must all differ."""
    distances = torch.cdist(records, found)
    assert len(set(distances.argmin(dim=1).tolist())) == len(records)
    return float(distances.amin(dim=1).max())


def network_gradient(classes, depth, activation=nn.ReLU, count=6, width=200, seed=3):
    """Records and the first layer's gradient of the mean cross-entropy, by autograd."""
    weights, biases, drawn = layer_of(width, 40, seed)
    sizes = [width] * depth + [classes]
    layers = [activation()]
    for columns, rows in zip(sizes, sizes[1:], strict=False):
        linear = nn.Linear(columns, rows, dtype=torch.float64)
        with torch.no_grad():
            for p in linear.parameters():
                p.normal_(0, columns**-0.5, generator=drawn)
        layers += [linear, activation()]
    records = torch.rand(count, 40, generator=drawn, dtype=torch.float64)
    labels = torch.randint(classes, (count,), generator=drawn)
    w, b = (t.clone().requires_grad_() for t in (weights, biases))
    outputs = nn.Sequential(*layers[:-1])(records @ w.T + b)
    loss = nn.functional.cross_entropy(outputs, labels)
    return records, torch.autograd.grad(loss, (w, b)), (weights, biases)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_whole_batches_are_exact(search, count):
    records, *rest = batch(count, seed=count)
    found = attack(records, *rest, search=search, batch_size=count)
    assert (found.rank, found.found, found.agreement, found.reason) == (count, count, 1.0, "")
    assert distance(records, found.inputs) < 1e-9
    order = torch.cdist(records, found.inputs).argmin(dim=1)
    assert torch.allclose(found.signals[:, order], rest[-1], atol=1e-9)
    assert torch.equal(found.zeros, (found.signals.abs() < 1e-9).sum(dim=0))


@pytest.mark.parametrize(
    ("search", "classes", "depth"),
    [("descent", 10, 1), ("descent", 10, 2), ("sampling", 10, 1), ("sampling", 2, 1)],
)
def test_networks_need_no_labels(search, classes, depth):
    records, gradients, layer = network_gradient(classes, depth)
    found = attacks.sparse_batch_attack(*gradients, *layer, generator=generator(), search=search)
    assert found.certified
    assert distance(records, found.inputs) < 1e-9


def test_with_two_classes_differences_have_more_zeros_than_records():
    """Hence candidates are ranked by the half-space that separates their zeros."""
    records, gradients, layer = network_gradient(2, 1)
    descent, found = (
        attacks.sparse_batch_attack(*gradients, *layer, generator=generator(), search=s, trials=256)
        for s in SEARCHES
    )
    assert not descent.certified and float(descent.separated.min()) < 0.9
    d = found.signals.numpy()
    # two units that both records switch on have signals of one ratio
    i, k = np.unravel_index(np.argmax(np.corrcoef(d.T) - np.eye(len(records))), (6, 6))
    both = (d[:, i] != 0) & (d[:, k] != 0)
    ratio = d[both, i] / d[both, k]
    difference = d[:, i] - np.median(ratio) * d[:, k]
    assert (np.abs(difference) < 1e-12 * np.abs(d).max()).sum() > found.zeros.max()
    assert found.separated.min() > 0.9


@pytest.mark.parametrize("search", SEARCHES)
def test_a_sigmoid_network_gives_no_batch_and_says_why(search):
    _, gradients, layer = network_gradient(10, 1, nn.Sigmoid)
    found = attacks.sparse_batch_attack(
        *gradients, *layer, generator=generator(), search=search, trials=256
    )
    assert found.inputs is None and found.signals is None and not found.certified
    assert found.rank == 6 and found.found == 0 and "0 sparse directions" in found.reason


@pytest.mark.parametrize("search", SEARCHES)
def test_one_record_needs_no_zeros(search):
    records, gradients, layer = network_gradient(10, 1, nn.Sigmoid, count=1)
    found = attacks.sparse_batch_attack(*gradients, *layer, generator=generator(), search=search)
    # its forward pass switches units off that the gradient shows: exact, but without certificate
    assert not found.certified and "forward pass" in found.reason
    again = attacks.sparse_batch_attack(
        *gradients, *layer, generator=generator(), search=search, least_agreement=0.0
    )
    ratio = attacks.layer_ratio(gradients[0][None], gradients[1][None])
    assert torch.allclose(again.inputs, records) and torch.allclose(again.inputs, ratio)


def test_records_that_depend_on_each_other_are_refused():
    records, weights, biases, _ = batch(5)
    records[4] = records[3]
    signals = torch.randn(200, 5, generator=generator(), dtype=torch.float64)
    signals *= weights @ records.T + biases[:, None] > 0
    found = attack(records, weights, biases, signals, batch_size=5)
    assert found.rank == 4 and "rank above its noise is 4, not 5" in found.reason
    # a mean of both that switches the same units on is a record to the gradient
    merged = attack(records, weights, biases, signals)
    assert merged.certified and merged.rank == 4
    assert distance(records[:4], merged.inputs) < 1e-9


def test_more_records_than_values_are_refused():
    found = attack(*batch(12, dimension=8), trials=256)
    assert found.rank == 9 and not found.certified and found.reason


def test_no_gradient_no_batch():
    zero = torch.zeros(20, 5)
    found = attacks.sparse_batch_attack(
        zero, zero[:, 0], zero + 1, zero[:, 0], generator=generator()
    )
    assert found.rank == 0 and "rank above its noise is 0" in found.reason


@pytest.mark.parametrize("search", SEARCHES)
def test_clipping_records_changes_nothing(search):
    """Weights and biases of a record are clipped by one factor, which their ratio does not see."""
    records, weights, biases, signals = batch(5)
    lengths = (signals.norm(dim=0) * (records.square().sum(dim=1) + 1).sqrt()).square().sqrt()
    factor = (0.3 * lengths.min() / lengths).clamp(max=1.0)
    found = attack(records, weights, biases, signals * factor, search=search)
    assert distance(records, found.inputs) < 1e-9


def test_clipping_weights_and_biases_separately_is_noticed():
    """A record's scale is lost then, and its forward pass differs."""
    records, weights, biases, signals = batch(5)
    weight_lengths = signals.norm(dim=0) * records.norm(dim=1)
    bias_lengths = signals.norm(dim=0)
    g = (signals / weight_lengths) @ records, (signals / bias_lengths).sum(dim=1)
    settings = {"generator": generator(), "trials": 256}
    found = attacks.sparse_batch_attack(*g, weights, biases, **settings)
    assert not found.certified and found.found == 5 and 0.5 < found.agreement < 1
    wrong = attacks.sparse_batch_attack(*g, weights, biases, least_agreement=0.0, **settings)
    # up to its length every record is right
    unit, units = (r / r.norm(dim=1, keepdim=True) for r in (records, wrong.inputs))
    assert distance(unit, units) < 1e-9
    # without biases nothing tells the scale, and there is no certificate
    without = torch.zeros_like(biases)
    drawn = torch.randn(signals.shape, generator=generator(2), dtype=signals.dtype)
    signals = torch.where(weights @ records.T > 0, drawn, 0.0)
    g = (signals / weight_lengths) @ records, (signals / bias_lengths).sum(dim=1)
    blind = attacks.sparse_batch_attack(*g, weights, without, **settings)
    assert blind.agreement == 1 and distance(records, blind.inputs) > 1
    assert not blind.certified and "how bright" in blind.reason


@pytest.mark.parametrize(("noise_std", "missing"), [(0.0, 0.05), (1e-6, 0.4)])
def test_units_that_are_on_but_not_in_the_gradient_refuse_the_certificate(noise_std, missing):
    """Every unit of the gradient is on: the certificate needs the other direction as well."""
    records, weights, biases, signals = batch(4)
    signals = signals * (torch.rand(signals.shape, generator=generator()) > missing)
    found = attack(records, weights, biases, signals, noise_std=noise_std, trials=256)
    assert found.found == 4 and 0.6 < found.agreement < 0.99
    assert not found.certified and "forward pass" in found.reason


@pytest.mark.parametrize("search", SEARCHES)
def test_noise_leaves_the_error_of_an_attacker_who_knows_the_signals(search):
    """The Cramer-Rao floor with D known, to 10%, over 10,000 values; and heavy noise is refused.

    Values are small against one, so that the error of a record's scale adds little.
    """
    records, weights, biases, signals = batch(4, width=300, dimension=2500, seed=5)
    weights, records = 10 * weights, 0.1 * records
    gradient, bias = signals @ records, signals.sum(dim=1)
    d = signals.numpy()
    information = bounds.gradient_information([(np.zeros(300), d)])
    smallest = float(torch.linalg.svdvals(gradient)[3])
    for share, is_found in ((1e-4, True), (0.03, True), (3.0, False)):
        noise_std = share * smallest / (300 * 2500) ** 0.25
        noise = torch.randn(300, 2501, generator=generator(7), dtype=torch.float64) * noise_std
        found = attacks.sparse_batch_attack(
            gradient + noise[:, :-1],
            bias + noise[:, -1],
            weights,
            biases,
            generator=generator(),
            search=search,
            trials=256 if search == "descent" else 20_000,
            noise_std=np.float64(noise_std),  # comparisons of NumPy numbers are no Python bools
        )
        assert (found.inputs is not None) is is_found, (share, found.reason)
        assert not found.certified  # biases are too small beside the outputs to tell a brightness
        if is_found:
            distances = torch.cdist(records, found.inputs).amin(dim=1)
            rmse = float(distances.square().mean() / 2500) ** 0.5
            # each value of a record has the same floor: one column of the records is enough
            floor = bounds.cramer_rao_error(information, noise_std, np.zeros((4, 1)))
            assert abs(rmse / floor - 1) < 0.1


def test_the_floor_is_that_of_the_whole_layer():
    """With D known, the information on all values of all records is that of one value, repeated."""
    records, _, _, signals = batch(3, width=12, dimension=4)
    d, x = signals.numpy(), records.numpy()
    # derivative of entry (j, n) of the gradient in value (i, n') of the records
    jacobian = np.einsum("ji,nk->jnik", d, np.eye(4)).reshape(48, 12)
    whole = bounds.gradient_information([((d @ x).ravel(), jacobian)])
    one = bounds.gradient_information([(np.zeros(12), d)])
    assert bounds.cramer_rao_error(whole, 0.2, x) == pytest.approx(
        2 * bounds.cramer_rao_error(one, 0.2, np.zeros((3, 1))), rel=1e-12
    )


def test_one_missing_direction_follows_from_the_others():
    records, weights, biases, signals = batch(5)
    gradient = torch.cat([signals @ records, signals.sum(dim=1, keepdim=True)], dim=1)
    space = sparse_batches._Space.of(gradient, torch.cat([weights, biases[:, None]], dim=1), 0.0)
    right = torch.linalg.lstsq(space.columns, signals).solution.T
    right = right / right.norm(dim=1, keepdim=True)
    for i in range(5):
        others = torch.cat([right[:i], right[i + 1 :]])
        asked = sparse_batches._find_implied_zeros(space, others)
        assert float((asked @ right[i]).abs().max()) > 1 - 1e-12


@pytest.mark.parametrize(("width", "fewest", "most"), [(6, 0, 0), (12, 4, 12), (32, 18, 20)])
def test_batches_are_exact_where_zeros_determine_them(width, fewest, most):
    """Of 20 batches of four: none at few units, some near twice the batch, most at many."""
    determined, exact = 0, 0
    for seed in range(20):
        records, *rest = batch(4, width=width, dimension=20, seed=seed)
        found = attack(records, *rest, search="sampling", trials=8192)
        by_zeros = bool(attacks.determined_by_zeros(rest[-1].numpy()).all())
        # so few units seldom tell how bright a record is: the certificate is withheld
        near = found.inputs is not None and float(
            torch.cdist(records, found.inputs).amin(dim=1).max()
        )
        determined += by_zeros
        exact += by_zeros and found.inputs is not None and near < 1e-6
    assert fewest <= determined <= most
    assert 0.8 * determined <= exact <= determined


def test_determined_by_zeros_counts_the_rank_on_the_zeros():
    full = np.array([[1, 0, 0], [2, 0, 1], [0, 1, 1], [0, 1, 2], [0, 2, 1], [1, 1, 0], [3, 1, 0]])
    assert attacks.determined_by_zeros(full).tolist() == [True, False, True]
    # the same rows, but the others are parallel there
    parallel = full.copy()
    parallel[2:5, 1:] = [[1, 1], [2, 2], [3, 3]]
    assert attacks.determined_by_zeros(parallel).tolist() == [False, False, True]
    assert attacks.determined_by_zeros(np.ones((4, 1))).tolist() == [True]
    assert not attacks.determined_by_zeros(np.zeros((4, 2))).any()
    assert not attacks.determined_by_zeros([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]]).any()


@pytest.mark.parametrize(("zeros", "rows", "count"), [(500, 1000, 11), (7, 20, 4), (3, 20, 5)])
def test_hits_are_hypergeometric(zeros, rows, count):
    exact = stats.hypergeom.pmf(count - 1, rows, zeros, count - 1)
    found = attacks.sparse_hit_probability(zeros, rows, count)
    assert found == pytest.approx(exact, rel=1e-9)


def test_hits_are_half_to_the_power_of_the_others():
    sizes = np.arange(1, 25)
    law = attacks.sparse_hit_probability(500_000, 1_000_000, sizes)
    assert np.allclose(law, 0.5 ** (sizes - 1), rtol=1e-3)


def test_random_rows_hit_as_often_as_they_should():
    """Counted over the attack's own draws, within four standard errors for each column."""
    records, weights, _, signals = batch(4, width=60)
    space = sparse_batches._Space.of(signals @ records, weights, 0.0)
    alive = signals[(signals != 0).any(dim=1)]
    law = attacks.sparse_hit_probability((alive == 0).sum(dim=0).numpy(), len(alive), 4)
    trials, rng = 40_000, np.random.default_rng(0)
    rows = np.argsort(rng.random((trials, len(alive))), axis=1)[:, :3]
    hits = (alive.numpy()[rows] == 0).all(axis=1).mean(axis=0)
    assert np.all(np.abs(hits - law) < 4 * np.sqrt(law / trials))
    made, found = sparse_batches._null_vectors(space, generator())
    right = torch.linalg.lstsq(space.columns, signals).solution
    cosines = (found @ (right / right.norm(dim=0))).abs()
    assert made > 7000 and bool((cosines.amax(dim=0) > 1 - 1e-9).all())


def test_expected_trials():
    assert attacks.expected_sparse_trials([0.01] * 5) == pytest.approx(
        sum(1 / k for k in range(1, 6)) / 0.01, rel=1e-9
    )
    assert attacks.expected_sparse_trials([0.5]) == pytest.approx(2.0, rel=1e-9)
    p = np.array([0.3, 0.1, 0.05])
    exact = (1 / p).sum() - (1 / (p[[0, 0, 1]] + p[[1, 2, 2]])).sum() + 1 / p.sum()
    assert attacks.expected_sparse_trials(p) == pytest.approx(exact, rel=1e-9)
    rng = np.random.default_rng(0)
    waits = []
    for _ in range(2000):
        seen, trials = set(), 0
        while len(seen) < 3:
            trials += 1
            u = rng.random()
            seen.update(i for i in range(3) if p[:i].sum() <= u < p[: i + 1].sum())
        waits.append(trials)
    assert abs(np.mean(waits) - exact) < 4 * np.std(waits) / math.sqrt(2000)


def test_time_and_trials_end_the_search():
    case = batch(6)
    rushed = attack(*case, search="descent", seconds=0.0)
    assert rushed.trials == 128
    records, gradients, layer = network_gradient(10, 1, nn.Sigmoid)
    for search, most in (("descent", 200), ("sampling", 9000)):
        found = attacks.sparse_batch_attack(
            *gradients, *layer, generator=generator(), search=search, trials=most
        )
        assert most <= found.trials < 2 * most


def test_one_seed_one_result():
    case = batch(6)
    one, other = (attack(*case, search="sampling") for _ in range(2))
    assert torch.equal(one.inputs, other.inputs) and one.trials == other.trials


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight_gradient": torch.ones(3)}, "weight_gradient and weights"),
        ({"weights": torch.ones(4, 6)}, "weight_gradient and weights"),
        ({"bias_gradient": torch.ones(5)}, r"bias_gradient must have shape \(4,\); got \(5,\)"),
        ({"biases": torch.ones(4, 1)}, "biases must have shape"),
        ({"biases": torch.full((4,), math.nan)}, "must be finite"),
        ({"search": "genetic"}, "search must be one of"),
        ({"trials": 0}, "trials must be"),
        ({"noise_std": -1.0}, "noise_std must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"least_agreement": 1.5}, "least_agreement must be"),
        ({"seconds": -1.0}, "seconds must be"),
    ],
)
def test_bad_arguments(change, message):
    given = {
        "weight_gradient": torch.ones(4, 5),
        "bias_gradient": torch.ones(4),
        "weights": torch.ones(4, 5),
        "biases": torch.ones(4),
    } | change
    with pytest.raises(ValueError, match=message):
        attacks.sparse_batch_attack(**given, generator=generator())


def test_bad_arguments_of_the_laws():
    with pytest.raises(ValueError, match="signals must have shape"):
        attacks.determined_by_zeros(np.ones(3))
    with pytest.raises(ValueError, match="at most rows"):
        attacks.sparse_hit_probability([4, 4], [3, 20], 2)
    with pytest.raises(ValueError, match="probabilities must"):
        attacks.expected_sparse_trials([0.0])
    with pytest.raises(ValueError, match="probabilities must"):
        attacks.expected_sparse_trials([])
