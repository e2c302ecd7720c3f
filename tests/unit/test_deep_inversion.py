"""Inversion of deep networks: its loss against plain autograd, and what must not matter."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional

from reconrisk.attacks import (
    KeptSearch,
    Knowledge,
    Objective,
    UntrainedSpace,
    best_objective,
    greedy_matching,
    invert_updates,
)
from reconrisk.attacks.deep_inversion import WEIGHTINGS, _Descent, _pixels
from reconrisk.convnets import ConvNet, ImagePrior
from reconrisk.mechanisms import (
    LocalAggregation,
    NeuronDropout,
    Pruning,
    Released,
)
from reconrisk.training import client_updates

DOUBLE = torch.float64


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _problems(problems: int, size: int, side: int, **settings):
    """A network, batches of random images and their labels."""
    dtype = settings.pop("dtype", torch.float32)
    network = ConvNet(_generator(), side=side, **settings).to(dtype).eval()
    generator = _generator(1)
    images = torch.rand((problems, size, 3, side, side), generator=generator, dtype=dtype)
    return network, images, torch.randint(10, (problems, size), generator=generator)


def _attack(network, released, knowledge, iterations, **settings):
    settings.setdefault("objective", Objective(total_variation=1e-4))
    return invert_updates(
        network, released, knowledge, generator=_generator(2), iterations=iterations, **settings
    )


def test_a_brief_search_goes_further_in_few_iterations():
    network, images, labels = _problems(4, 2, 8, channels=8)
    released = client_updates(network, images, labels, generator=_generator())
    knowledge = Knowledge(labels, (3, 8, 8))
    brief = {"brief": True, "signed": False, "learning_rate": 0.4}
    errors = [
        _attack(network, released, knowledge, 40, **how).inputs.sub(images).square().mean().sqrt()
        for how in ({}, brief)
    ]
    assert errors[1] < 0.8 * errors[0]


# The loss ----------------------------------------------------------------------------------------


def _plain_loss(network, images, labels, released, objective, mask, steps, features):
    """The objective of one problem, as one would write it with autograd."""
    parameters = dict(network.named_parameters())
    weights, total = parameters, None
    for _ in range(steps.steps):
        outputs = torch.func.functional_call(network, weights, (images,))
        loss = functional.cross_entropy(outputs, labels)
        step = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {
            name: w - steps.learning_rate * s
            for (name, w), s in zip(weights.items(), step, strict=True)
        }
        total = step if total is None else [t + s for t, s in zip(total, step, strict=True)]
    mine = [torch.where(m, t, 0.0) for m, t in zip(mask.values(), total, strict=True)]
    theirs = list(released.values())
    if objective.weighting == "joint":
        mine, theirs = ([torch.cat([t.flatten() for t in ts])] for ts in (mine, theirs))
        shares = torch.ones(1, dtype=DOUBLE)
    else:
        of = {"equal": lambda p: 1, "norm": torch.linalg.vector_norm, "count": torch.numel}[
            objective.weighting
        ]
        shares = torch.stack([torch.as_tensor(of(p)).double() for p in parameters.values()])
    distances = []
    for g, r in zip(mine, theirs, strict=True):
        g = g / steps.steps
        if objective.distance == "cosine":
            distances.append(1 - functional.cosine_similarity(g.flatten(), r.flatten(), dim=0))
        else:
            distances.append((g - r).square().sum() / r.square().sum())
    value = objective.gradient * (torch.stack(distances) * shares).sum() / shares.sum()
    trace = network(images, trace=True)
    rough = images.diff(dim=3).abs().mean() + images.diff(dim=2).abs().mean()
    apart = sum(
        (mean - norm.mean).norm() + (variance - norm.variance).norm()
        for norm, (mean, variance) in zip(network.norms, trace.statistics, strict=True)
    )
    cosines = functional.cosine_similarity(trace.features[:, None], features[None], dim=2).square()
    order = greedy_matching(cosines.detach()[None])[0]
    unlike = (1 - cosines[torch.arange(len(order)), order]).mean()
    value = value + objective.total_variation * rough + objective.statistics * apart
    return value + objective.features * unlike


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("distance", ["cosine", "squared"])
def test_the_loss_and_its_derivative_equal_autograds(distance, weighting):
    network, images, labels = _problems(2, 3, 8, channels=3, wide=20, dtype=DOUBLE)
    local = LocalAggregation(2, 0.3)
    released = client_updates(
        network, images, labels, [local, Pruning(0.4)], generator=_generator()
    )
    generator = _generator(4)
    features = torch.randn((2, 5, 6), generator=generator, dtype=DOUBLE)
    objective = Objective(0.7, distance, weighting, 0.2, 0.3, 0.4)
    knowledge = Knowledge(labels, (3, 8, 8), aware=True, features=features)
    descent = _Descent(network, released, knowledge, objective, slice(None), 1, 10, _pixels)
    candidates = torch.rand(images.shape, generator=generator, dtype=DOUBLE).requires_grad_()
    assert released.visible is not None
    expected = torch.stack(
        [
            _plain_loss(
                network,
                candidates[k],
                labels[k],
                {name: g[k] for name, g in released.gradient.items()},
                objective,
                {name: v[k] for name, v in released.visible.items()},
                local,
                features[k],
            )
            for k in range(2)
        ]
    )
    (slope,) = torch.autograd.grad(expected.sum(), candidates)
    torch.testing.assert_close(descent.loss(candidates.detach()), expected.detach())
    torch.testing.assert_close(descent.slope(candidates.detach()), slope, rtol=1e-7, atol=1e-10)


def test_statistics_of_the_private_batch_take_the_place_of_the_stored_ones():
    network, images, labels = _problems(2, 3, 8, channels=3, dtype=DOUBLE)
    traced = [network(batch, trace=True).statistics for batch in images]
    known = tuple(
        (torch.stack([t[k][0] for t in traced]), torch.stack([t[k][1] for t in traced]))
        for k in range(3)
    )
    released = client_updates(network, images, labels, generator=_generator())
    objective = Objective(gradient=0.0, statistics=1.0)
    for statistics, zero in ((known, True), (None, False)):
        knowledge = Knowledge(labels, (3, 8, 8), statistics=statistics)
        descent = _Descent(network, released, knowledge, objective, slice(None), 1, 10, _pixels)
        assert bool((descent.loss(images).detach() < 1e-10).all()) == zero


def test_the_best_objective_has_the_largest_mean_psnr():
    known = torch.zeros((1, 2, 3, 2, 2))
    # mean squared errors of two pictures: the second pair has the smaller mean, not logarithm
    pairs = {0.0: (1e-6, 1e-2), 1.0: (4e-3, 4e-3)}
    tried = [Objective(total_variation=weight) for weight in pairs]

    def attack(objective):
        errors = torch.tensor(pairs[objective.total_variation])
        return known + errors.sqrt().view(1, 2, 1, 1, 1)

    best, errors = best_objective(tried, attack, known)
    assert best is tried[0]
    torch.testing.assert_close(errors[:, 0], torch.tensor(list(pairs.values())))
    with pytest.raises(ValueError, match="objectives must hold at least one"):
        best_objective([], attack, known)
    with pytest.raises(
        ValueError, match=r"pictures of shape \(1, 2, 3, 2, 2\); got \(1, 3, 2, 2\)"
    ):
        best_objective(tried, lambda _: known[:, 0], known)


def test_greedy_matching_takes_the_best_pair_first():
    scores = torch.tensor([[[0.9, 0.8, 0.0], [0.85, 0.1, 0.2]]])
    # the best assignment would be 0.8 + 0.85
    assert greedy_matching(scores).tolist() == [[0, 2]]
    drawn = torch.rand((50, 3, 4), generator=_generator())
    found = drawn.gather(2, greedy_matching(drawn)[..., None]).sum(dim=(1, 2))
    best = torch.stack(
        [
            sum(drawn[:, row, column] for row, column in enumerate(order))
            for order in itertools.permutations(range(4), 3)
        ]
    ).amax(dim=0)
    assert (found <= best + 1e-6).all() and (found >= best / 2).all()
    for wrong in (scores.mT, scores * float("nan")):
        with pytest.raises(ValueError, match="scores"):
            greedy_matching(wrong)


# What must not matter ----------------------------------------------------------------------------


@pytest.mark.parametrize("signed", [False, True])
def test_problems_do_not_depend_on_their_company(signed):
    network, images, labels = _problems(3, 2, 8, channels=4, wide=16, dtype=DOUBLE)
    defence = [NeuronDropout(0.2), Pruning(0.3)]
    released = client_updates(network, images, labels, defence, generator=_generator())
    knowledge = Knowledge(
        labels, (3, 8, 8), aware=True, features=torch.randn((3, 2, 8), generator=_generator())
    )
    objective = Objective(total_variation=1e-3, statistics=1e-3, features=0.1)
    settings = {"objective": objective, "signed": signed, "restarts": 2}
    together = _attack(network, released, knowledge, 10, **settings)
    apart = _attack(network, released, knowledge, 10, block=1, **settings)
    pairs = _attack(network, released, knowledge, 10, block=2, **settings)
    for other in (apart, pairs):
        torch.testing.assert_close(together.inputs, other.inputs, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(together.loss, other.loss, rtol=1e-7, atol=1e-9)


def test_a_generators_weights_do_not_keep_problems_apart():
    network, images, labels = _problems(8, 2, 8, channels=4)
    released = client_updates(network, images, labels, generator=_generator())
    blocks = set()
    _attack(
        network,
        released,
        Knowledge(labels, (3, 8, 8)),
        1,
        space=UntrainedSpace.draw(ImagePrior(_generator(), side=8, width=24), 2, _generator(1)),
        watch=lambda iteration, found, chosen: blocks.add(len(found)),
    )
    # a hundred thousand weights each, which are few beside the activations
    assert blocks == {8}


def test_restarts_can_only_help_and_the_seed_decides():
    network, images, labels = _problems(3, 2, 8, channels=4)
    released = client_updates(network, images, labels, generator=_generator())
    knowledge = Knowledge(labels, (3, 8, 8))
    one = _attack(network, released, knowledge, 30, start=images * 0.5)
    again = _attack(network, released, knowledge, 30, start=images * 0.5)
    many = _attack(network, released, knowledge, 30, start=images * 0.5, restarts=3)
    assert torch.equal(one.inputs, again.inputs)
    assert (many.loss <= one.loss + 1e-4).all()


@pytest.mark.parametrize("signed", [False, True])
def test_a_search_that_was_stopped_goes_on_to_the_same_bits(signed, tmp_path):
    network, images, labels = _problems(3, 2, 8, channels=4, wide=16)
    released = client_updates(network, images, labels, generator=_generator())
    features = torch.randn((3, 2, 8), generator=_generator())
    knowledge = Knowledge(labels, (3, 8, 8), features=features)
    settings = {"objective": Objective(features=0.1), "signed": signed, "rematch": 4, "block": 2}
    whole = _attack(network, released, knowledge, 20, **settings)

    def kept(seconds: float = 0.0) -> KeptSearch:
        return KeptSearch(tmp_path / "search.pt", seconds)

    search, run = kept(), []

    def watch(iteration, found, chosen):
        search.notes["last"] = iteration
        run.append((chosen.start, iteration))
        if run[0] == (0, 0) and run[-1] == (2, 10):  # in the second block
            raise InterruptedError

    with pytest.raises(InterruptedError):
        _attack(network, released, knowledge, 20, kept=search, watch=watch, **settings)
    search, run = kept(), []
    found = _attack(network, released, knowledge, 20, kept=search, watch=watch, **settings)
    assert run[0] == (0, 20) and run[1] == (2, 8)  # one block was done, the other rematched at 8
    assert torch.equal(found.inputs, whole.inputs) and torch.equal(found.loss, whole.loss)
    assert search.notes == {"last": 20}
    with pytest.raises(ValueError, match="kept must be of a search with .*'iterations': 21"):
        _attack(network, released, knowledge, 21, kept=kept(), **settings)
    other = client_updates(network, 1 - images, labels, generator=_generator())
    with pytest.raises(ValueError, match="kept must be of a search with .*'loss': "):
        _attack(network, other, knowledge, 20, kept=kept(), **settings)
    search.remove()
    assert not [*tmp_path.iterdir()]
    _attack(network, released, knowledge, 8, kept=kept(60.0), **settings)
    assert len([*tmp_path.iterdir()]) == 2  # within the minute, the two blocks that were done


def test_half_precision_and_a_single_problem_change_rounding_only():
    network, images, labels = _problems(2, 2, 8, channels=4, wide=16)
    released = client_updates(network, images, labels, generator=_generator())
    knowledge = Knowledge(labels, (3, 8, 8), features=torch.randn((2, 2, 8)))
    objective = Objective(weighting="count", statistics=1e-3, features=0.1, feature_match="labels")
    painter = ImagePrior(_generator(), side=8, width=8, features=8)
    space = UntrainedSpace.draw(painter, 2, _generator(1))
    given = {"objective": objective, "signed": False, "learning_rate": 1e-3}
    for where in ({"space": space}, {}):
        exact, half = (
            _attack(network, released, knowledge, 3, half=h, **given, **where)
            for h in (False, True)
        )
        assert half.inputs.dtype == exact.inputs.dtype == torch.float32
        assert 0 < (half.loss - exact.loss).abs().max() < 2e-2 * exact.loss.max()
        assert (half.inputs - exact.inputs).abs().max() < 0.02
    for wrong in ("block", "restarts"):
        with pytest.raises(ValueError, match=wrong):
            _attack(network, released, knowledge, 3, half=True, **given, **{wrong: 2})


def test_a_layer_of_which_nothing_is_left_does_not_count():
    network, images, labels = _problems(2, 1, 8, channels=4, dtype=DOUBLE)
    released = client_updates(network, images, labels, generator=_generator())
    bare = dict(released.gradient, **{"head.weight": 0 * released.gradient["head.weight"]})
    knowledge = Knowledge(labels, (3, 8, 8), aware=True)
    objective = Objective(weighting="equal")
    descent = _Descent(network, Released(bare), knowledge, objective, slice(None), 1, 10, _pixels)
    torch.testing.assert_close(descent.loss(images), torch.zeros(2, dtype=DOUBLE))


def _arguments(**changed):
    network, images, labels = _problems(2, 2, 8, channels=2)
    released = client_updates(network, images, labels, generator=_generator())
    knowledge = Knowledge(labels, (3, 8, 8))
    attack = {"network": network, "released": released, "knowledge": knowledge}
    return {**attack, "generator": _generator(), "iterations": 1, **changed}


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"iterations": 0}, "iterations"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"box": (1.0, 0.0)}, "box"),
        ({"restarts": 0}, "restarts"),
        ({"block": 0}, "block"),
        ({"start": torch.zeros(2, 2, 3, 4, 4)}, "start"),
        ({"released": Released({"head.bias": torch.ones(2, 10)})}, "released"),
        ({"objective": Objective(features=0.1)}, "features"),
        ({"network": ConvNet(_generator(), side=8, channels=3)}, "released"),
    ],
)
def test_bad_arguments_are_refused_by_name(changed, argument):
    with pytest.raises(ValueError, match=argument):
        invert_updates(**_arguments(**changed))


def test_bad_objectives_and_knowledge_are_refused_by_name():
    for settings in ({"distance": "l1"}, {"weighting": "all"}, {"feature_match": "x"}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            Objective(**settings)
    with pytest.raises(ValueError, match="total_variation"):
        Objective(total_variation=-1.0)
    with pytest.raises(ValueError, match="labels"):
        Knowledge(torch.zeros(2, 3), (3, 8, 8))
    with pytest.raises(ValueError, match="features"):
        Knowledge(torch.zeros(2, 3).long(), (3, 8, 8), features=torch.zeros(2, 2, 9))
    bare = ConvNet(_generator(), side=8, channels=2, batch_norm=False)
    images, labels = torch.rand(2, 1, 3, 8, 8), torch.zeros(2, 1).long()
    released = client_updates(bare, images, labels, generator=_generator())
    with pytest.raises(ValueError, match="batch norms"):
        _attack(bare, released, Knowledge(labels, (3, 8, 8)), 1, objective=Objective(statistics=1))
