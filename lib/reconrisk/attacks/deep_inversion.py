"""Gradient inversion of any network, many problems in one tensor program (Liu et al., Section 4).

The loss of a candidate batch is a weighted sum: the distance of its update from the released one,
its total variation, and its distances from the batch norms' statistics and from recovered features.
With the first two terms this is the attack of Geiping et al. (2020) that the paper calls
*GradientInversion*; with the third, that of Yin et al. (2021); with weights by layer and recovered
features, the paper's own.

The problems are mapped (``torch.func.vmap``) over one network, which pays off most for small
networks, where calls cost more than arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.func import functional_call, vmap

from reconrisk import arguments
from reconrisk.attacks._adam import best_of_restarts, descend
from reconrisk.attacks._interface import ImageSpace, Knowledge
from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.attacks.gradient_inversion import Watcher
from reconrisk.mechanisms import Gradient, Released, support
from reconrisk.training import update_function

__all__ = ["Objective", "greedy_matching", "invert_updates", "total_variation"]

DISTANCES = ("cosine", "squared")
WEIGHTINGS = ("joint", "equal", "norm", "count")
FEATURE_MATCHES = ("cosine", "subspace")


@dataclass(frozen=True)
class Objective:
    """The objective that a reconstruction minimises: a weighted sum of terms.

    Parameters
    ----------
    gradient : float
        Weight of the distance of updates; 0 inverts features alone.
    distance : str
        ``"cosine"``, one minus the cosine, or ``"squared"``, the squared distance over the squared
        norm of what was released.
    weighting : str
        ``"joint"``: all parameters as one vector. Otherwise the weighted mean of the distances of
        the parameter tensors, with equal weights (``"equal"``), their Euclidean norms (``"norm"``)
        or their numbers of entries (``"count"``). The paper's Appendix F weights by a norm of the
        parameters whose index, 2 or 0, is illegible in our text; the last two are these readings.
    total_variation : float
        Weight of :func:`total_variation`; the paper takes 0.01.
    statistics : float
        Weight of the distance of the batch norms' means and variances; the paper takes 0.001.
    features : float
        Weight of the distance from recovered features; the paper takes 0.1.
    feature_match : str
        ``"cosine"``: one minus the squared cosine with the feature matched to each image;
        ``"subspace"``: the share of each image's features outside the recovered ones' span (the
        paper prints the share inside it, which would drive the features away from it).
    """

    gradient: float = 1.0
    distance: str = "cosine"
    weighting: str = "joint"
    total_variation: float = 0.0
    statistics: float = 0.0
    features: float = 0.0
    feature_match: str = "cosine"

    def __post_init__(self) -> None:
        for name in ("gradient", "total_variation", "statistics", "features"):
            arguments.real(name, getattr(self, name), 0, high_open=True)
        arguments.one_of("distance", self.distance, DISTANCES)
        arguments.one_of("weighting", self.weighting, WEIGHTINGS)
        arguments.one_of("feature_match", self.feature_match, FEATURE_MATCHES)


def invert_updates(
    network: nn.Module,
    released: Released,
    knowledge: Knowledge,
    *,
    generator: torch.Generator,
    objective: Objective = Objective(),
    iterations: int = 10_000,
    learning_rate: float = 0.1,
    signed: bool = True,
    box: tuple[float, float] | None = (0.0, 1.0),
    restarts: int = 1,
    start: torch.Tensor | None = None,
    space: ImageSpace | None = None,
    rematch: int = 100,
    watch: Watcher | None = None,
    block: int | None = None,
) -> Inversion:
    """Reconstruct P batches of images from P clients' updates, all at once.

    Adam on the derivatives or on their signs; the learning rate is divided by ten after 3/8, 5/8
    and 7/8 of the iterations.

    Parameters
    ----------
    network : Module
        The network the clients started from, in their mode (``eval()`` or ``train()``); a
        :class:`~reconrisk.convnets.WideHead` if statistics or features are matched.
    released : Released
        P updates.
    knowledge : Knowledge
        An aware attacker uses ``released.visible`` (or, without it, the support of the update),
        ``released.units`` and ``released.local``.
    generator : torch.Generator
        Source of the initial candidates, uniform in the box (standard normal without one).
    objective : Objective
    iterations : int
        By default the paper's number.
    learning_rate : float
        Initial rate, in the images' units. The paper's 1e-5 is for the weights of its image prior
        network; on pixels, Geiping et al. take 0.1.
    signed : bool
        Whether Adam is given the signs of the derivatives.
    box : tuple of float, optional
        Least and largest value of a pixel; ignored with ``space``.
    restarts : int
        Initial candidates per problem; the one with the least final loss is returned.
    start : Tensor, shape (P, n, \\*shape), optional
        Initial candidate in place of the first restart's noise; with ``space``, its values.
    space : ImageSpace, optional
        Parametrisation whose values are optimised instead of the pixels, for instance the weights
        of an image prior (:mod:`~reconrisk.attacks.image_priors`).
    rematch : int
        Iterations between greedy matchings of recovered features to images.
    watch : callable, optional
        Called before the first and after every iteration, with a block's candidates
        (problems, restarts, n, \\*shape).
    block : int, optional
        Problems (with their restarts) optimised together; affects results by rounding only.

    Returns
    -------
    Inversion
        ``inputs`` of shape (P, n, \\*shape), in the order of the labels.

    Raises
    ------
    ValueError
        If shapes do not fit, an argument is out of its range, or the network or the knowledge lacks
        what the objective needs.

    Notes
    -----
    Cost per problem and iteration: about five forward passes of the batch, times the local steps.
    Memory: block times the activations and several times the parameters.
    """
    arguments.integer("iterations", iterations, 1)
    arguments.integer("restarts", restarts, 1)
    arguments.integer("rematch", rematch, 1)
    arguments.real("learning_rate", learning_rate, 0, low_open=True)
    if box is not None and not box[0] < box[1]:
        raise ValueError(f"box must be (low, high) with low < high; got {box!r}")
    _check_problem(network, released, knowledge, objective)
    if space is None:
        first = _first_candidates(released, knowledge, generator, restarts, box, start)
    else:
        box = None
        first = _first_values(released, knowledge, generator, restarts, space, start)
    to_images = _pixels if space is None else space.images
    if block is None:
        block = _block_size(released, first)
    arguments.integer("block", block, 1)
    parts = []
    for low in range(0, len(first), block):
        chosen = slice(low, low + block)
        descent = _Descent(
            network, released, knowledge, objective, chosen, restarts, rematch, to_images
        )

        def observe(
            iteration: int,
            values: torch.Tensor,
            chosen: slice = chosen,
            images: Callable[[torch.Tensor], torch.Tensor] = descent.images,
        ) -> None:
            if watch is not None:
                watch(iteration, images(values).unflatten(0, (-1, restarts)), chosen)

        values = first[chosen].flatten(0, 1)
        loss = descend(descent, values, iterations, learning_rate, signed, box, observe)
        best = best_of_restarts(values, loss, restarts)
        parts.append(replace(best, values=best.inputs, inputs=descent.images(best.inputs)))
    inputs, values = torch.cat([p.inputs for p in parts]), torch.cat([p.values for p in parts])
    loss = torch.cat([p.loss for p in parts])
    return Inversion(inputs, loss, None if space is None else values)


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Return the mean absolute difference of neighbouring pixels, along rows plus along columns.

    Parameters
    ----------
    images : Tensor, shape (..., height, width)
        At least 2 pixels a side.

    Returns
    -------
    Tensor, scalar
        The means are over all axes.
    """
    return images.diff(dim=-1).abs().mean() + images.diff(dim=-2).abs().mean()


def greedy_matching(scores: torch.Tensor) -> torch.Tensor:
    """Match rows to columns, the largest score first: Liu et al., Appendix F.

    Parameters
    ----------
    scores : Tensor, shape (P, n, m)
        Finite, with m >= n.

    Returns
    -------
    Tensor of int, shape (P, n)
        The column of each row, all distinct.

    Notes
    -----
    n passes over the scores. The sum of matched scores is at least half the largest possible if no
    score is negative.
    """
    if scores.ndim != 3 or scores.shape[1] > scores.shape[2]:
        raise ValueError(f"scores must have shape (P, n, m), m >= n; got {tuple(scores.shape)}")
    if not bool(torch.isfinite(scores).all()):
        raise ValueError("scores must be finite")
    left = scores.clone()
    problems, rows, columns = scores.shape
    every = torch.arange(problems, device=scores.device)
    matched = torch.zeros((problems, rows), dtype=torch.long, device=scores.device)
    for _ in range(rows):
        best = left.flatten(1).argmax(dim=1)
        row, column = best // columns, best % columns
        matched[every, row] = column
        left[every, row] = -math.inf
        left[every, :, column] = -math.inf
    return matched


# One block of problems ---------------------------------------------------------------------------


class _Descent:
    """The loss of candidates (P, ...) and its derivative, mapped over a block of problems."""

    def __init__(
        self,
        network: nn.Module,
        released: Released,
        knowledge: Knowledge,
        objective: Objective,
        chosen: slice,
        restarts: int,
        rematch: int,
        to_images: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        def spread(t: torch.Tensor) -> torch.Tensor:
            return t[chosen].repeat_interleave(restarts, dim=0) if restarts > 1 else t[chosen]

        self._network, self._objective, self._rematch = network, objective, rematch
        gradient = {name: spread(g) for name, g in released.gradient.items()}
        # tensors that are mapped over the problems along with the candidates
        self._data: dict[str, object] = {"labels": spread(knowledge.labels), "released": gradient}
        if knowledge.aware:
            visible = released.visible or support(released.gradient)
            self._data["visible"] = {name: spread(v) for name, v in visible.items()}
            if released.units is not None:
                self._data["units"] = spread(released.units)
        if objective.statistics and knowledge.statistics is not None:
            self._data["statistics"] = [(spread(m), spread(v)) for m, v in knowledge.statistics]
        self._recovered: torch.Tensor | None = None
        if objective.features:
            assert knowledge.features is not None  # checked with the arguments
            like = next(iter(gradient.values()))
            recovered = spread(knowledge.features).to(like)
            if objective.feature_match == "subspace":
                self._data["basis"] = torch.linalg.svd(recovered, full_matrices=False).Vh
            else:
                self._recovered = nn.functional.normalize(recovered, dim=2)
        self._update = update_function(network, released.local if knowledge.aware else None)
        self._weights = _layer_weights(network, objective.weighting)
        frozen = {name: p.detach() for name, p in network.named_parameters()}
        self._state = {**frozen, **dict(network.named_buffers())}
        self._to_images = to_images
        self._loss = vmap(self._loss_of_one)
        self._calls = 0

    def images(self, values: torch.Tensor) -> torch.Tensor:
        """Return the candidates' images (P, n, ...)."""
        if self._to_images is _pixels:
            return values
        with torch.no_grad():
            return vmap(self._to_images)(values)

    def loss(self, values: torch.Tensor) -> torch.Tensor:
        """Loss (P,) of candidates' values (P, ...)."""
        self._match(values)
        with torch.no_grad():
            return self._loss(values, self._data)

    def slope(self, values: torch.Tensor) -> torch.Tensor:
        """Derivative of the loss."""
        if self._calls % self._rematch == 0:
            self._match(values)
        self._calls += 1
        # the problems are independent, so that one backward pass of the sum gives all derivatives
        with torch.enable_grad():
            candidates = values.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self._loss(candidates, self._data).sum(), candidates)
        return slope

    def _match(self, values: torch.Tensor) -> None:
        """Match recovered features to images, greedily by squared cosine."""
        if self._recovered is None:
            return
        with torch.no_grad():
            features = vmap(lambda v: self._trace(self._to_images(v), None).features)(values)
        cosines = nn.functional.normalize(features, dim=2) @ self._recovered.mT
        order = greedy_matching(cosines.square())
        index = order[..., None].expand(-1, -1, self._recovered.shape[2])
        self._data["aligned"] = self._recovered.gather(1, index)

    def _trace(self, images: torch.Tensor, units: torch.Tensor | None):
        return functional_call(self._network, self._state, (images, units), {"trace": True})

    def _loss_of_one(self, values: torch.Tensor, data: Mapping) -> torch.Tensor:
        goal, images = self._objective, self._to_images(values)
        units = data.get("units")
        loss = images.new_zeros(())
        if goal.gradient:
            update = self._update(images, data["labels"], units)
            loss = loss + goal.gradient * self._distance(update, data)
        if goal.total_variation:
            loss = loss + goal.total_variation * total_variation(images)
        if goal.statistics or goal.features:
            trace = self._trace(images, units)
            if goal.statistics:
                target = data.get("statistics", self._stored_statistics())
                loss = loss + goal.statistics * _statistics_distance(trace.statistics, target)
            if goal.features:
                loss = loss + goal.features * _feature_distance(trace.features, data)
        return loss

    def _distance(self, update: Gradient, data: Mapping) -> torch.Tensor:
        """Distance of an update from the released one, joint or averaged over the tensors."""
        inner, squared, size = [], [], []
        for name, released in data["released"].items():
            g = update[name]
            if "visible" in data:
                g = torch.where(data["visible"][name], g, 0.0)
            inner.append((g * released).sum())
            squared.append(g.square().sum())
            size.append(released.square().sum())
        a, b, c = torch.stack(inner), torch.stack(squared), torch.stack(size)
        if self._weights is None:
            return _distance(self._objective.distance, a.sum(), b.sum(), c.sum())
        # a tensor without released entries carries no information
        weights = torch.where(c > 0, self._weights, 0.0)
        distances = _distance(self._objective.distance, a, b, c)
        return (weights * distances).sum() / weights.sum()

    def _stored_statistics(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        means = [b for name, b in self._network.named_buffers() if name.endswith("mean")]
        variances = [b for name, b in self._network.named_buffers() if name.endswith("variance")]
        return list(zip(means, variances, strict=True))


def _distance(
    kind: str, inner: torch.Tensor, squared: torch.Tensor, size: torch.Tensor
) -> torch.Tensor:
    """Distance of gradients g and r from ``<g, r>``, ``|g|^2`` and ``|r|^2``; 1 where r is zero."""
    least = torch.finfo(size.dtype).tiny
    if kind == "cosine":
        return 1 - inner * squared.clamp(min=least).rsqrt() * size.clamp(min=least).rsqrt()
    return (squared - 2 * inner + size) / size.clamp(min=least)


def _statistics_distance(found, target) -> torch.Tensor:
    """Sum over layers of the Euclidean distances of means and of variances (Yin et al. 2021)."""
    total = torch.zeros((), device=found[0][0].device, dtype=found[0][0].dtype)
    least = torch.finfo(total.dtype).tiny  # keeps the norm's derivative at zero finite
    for (mean, variance), (mean0, variance0) in zip(found, target, strict=True):
        total = total + ((mean - mean0).square().sum() + least).sqrt()
        total = total + ((variance - variance0).square().sum() + least).sqrt()
    return total


def _feature_distance(features: torch.Tensor, data: Mapping) -> torch.Tensor:
    """One minus the squared cosine with the recovered features or their span; mean over images."""
    squared = features.square().sum(dim=1).clamp(min=torch.finfo(features.dtype).tiny)
    if "basis" in data:
        inside = (features @ data["basis"].mT).square().sum(dim=1)
    else:
        inside = (features * data["aligned"]).sum(dim=1).square()
    return (1 - inside / squared).mean()


def _layer_weights(network: nn.Module, weighting: str) -> torch.Tensor | None:
    """Weight of each parameter tensor's distance; None for all tensors as one vector."""
    parameters = [p.detach() for p in network.parameters()]
    if weighting == "joint":
        return None
    if weighting == "norm":
        return torch.stack([p.norm() for p in parameters])
    counts = [p.numel() if weighting == "count" else 1 for p in parameters]
    return torch.tensor(counts, dtype=parameters[0].dtype, device=parameters[0].device)


# Arguments ---------------------------------------------------------------------------------------


def _check_problem(
    network: nn.Module, released: Released, knowledge: Knowledge, objective: Objective
) -> None:
    problems = len(knowledge.labels)
    parameters = dict(network.named_parameters())
    if set(parameters) != set(released.gradient):
        missing = sorted(set(parameters) ^ set(released.gradient))
        raise ValueError(f"released must have the network's parameters; differs by {missing}")
    for name, p in parameters.items():
        if released.gradient[name].shape != (problems, *p.shape):
            raise ValueError(
                f"released.gradient[{name!r}] must have shape {(problems, *p.shape)}; "
                f"got {tuple(released.gradient[name].shape)}"
            )
        if not bool(torch.isfinite(released.gradient[name]).all()):
            raise ValueError(f"released.gradient[{name!r}] must be finite")
    if objective.features:
        if knowledge.features is None:
            raise ValueError("knowledge.features must be given where features are matched")
        if objective.feature_match == "subspace" and (
            knowledge.features.shape[1] >= knowledge.features.shape[2]
        ):
            raise ValueError(
                "knowledge.features must be fewer than their dimension to match a subspace; "
                f"got shape {tuple(knowledge.features.shape)}"
            )
    if objective.statistics and not any(n.endswith("variance") for n, _ in network.named_buffers()):
        raise ValueError("network must have batch norms where statistics are matched")
    if objective.total_variation and (len(knowledge.shape) < 2 or min(knowledge.shape[-2:]) < 2):
        raise ValueError(
            "knowledge.shape must end in height and width of at least 2 for total variation; "
            f"got {knowledge.shape!r}"
        )


def _first_candidates(
    released: Released,
    knowledge: Knowledge,
    generator: torch.Generator,
    restarts: int,
    box: tuple[float, float] | None,
    start: torch.Tensor | None,
) -> torch.Tensor:
    """Draw (P, restarts, n, ...) at once, so that the draws do not depend on the blocks."""
    problems, count = knowledge.labels.shape
    like = next(iter(released.gradient.values()))
    first = torch.empty(
        (problems, restarts, count, *knowledge.shape), device=like.device, dtype=like.dtype
    )
    if box is None:
        first.normal_(generator=generator)
    else:
        first.uniform_(*box, generator=generator)
    if start is not None:
        expected = (problems, count, *knowledge.shape)
        if start.shape != expected:
            raise ValueError(f"start must have shape {expected}; got {tuple(start.shape)}")
        first[:, 0] = start
    return first


def _first_values(
    released: Released,
    knowledge: Knowledge,
    generator: torch.Generator,
    restarts: int,
    space: ImageSpace,
    start: torch.Tensor | None,
) -> torch.Tensor:
    """Draw initial values (P, restarts, ...) of a space, all at once."""
    problems, count = knowledge.labels.shape
    like = next(iter(released.gradient.values()))
    first = space.start(problems * restarts, count, generator).to(like)
    made = tuple(space.images(first[0]).shape)
    if made != (count, *knowledge.shape):
        raise ValueError(f"space must give images {(count, *knowledge.shape)}; got {made}")
    first = first.unflatten(0, (problems, restarts)).clone()
    if start is not None:
        if start.shape != first[:, 0].shape:
            raise ValueError(
                f"start must have shape {tuple(first[:, 0].shape)}; got {tuple(start.shape)}"
            )
        first[:, 0] = start
    return first


def _pixels(values: torch.Tensor) -> torch.Tensor:
    """The identity: the space of the pixels."""
    return values


def _block_size(released: Released, first: torch.Tensor) -> int:
    """Problems that fit in memory comfortably, in blocks of similar size."""
    room = 2**24 if first.device.type == "cpu" else 2**29
    parameters = sum(g[0].numel() for g in released.gradient.values())
    # activations: about 64 numbers per pixel value
    most = max(1, room // (parameters + 64 * first[0].numel()))
    return math.ceil(len(first) / math.ceil(len(first) / most))
