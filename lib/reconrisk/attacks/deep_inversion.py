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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map

from reconrisk import arguments
from reconrisk.attacks._adam import KeptSearch, best_of_restarts, descend
from reconrisk.attacks._interface import ImageSpace, Knowledge
from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.attacks.gradient_inversion import Watcher
from reconrisk.mechanisms import Gradient, Released, support
from reconrisk.training._clients import update_and_trace
from reconrisk.training._networks import check_labels, plain_names, prepare

__all__ = ["Objective", "best_objective", "greedy_matching", "invert_updates", "total_variation"]

DISTANCES = ("cosine", "squared")
WEIGHTINGS = ("joint", "equal", "norm", "count")
FEATURE_MATCHES = ("cosine", "labels", "subspace")


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
        ``"cosine"``: one minus the squared cosine with the feature matched to each image, greedily
        as published; ``"labels"``: twice one minus the cosine with features that are in the labels'
        order and have their signs, which is the same near one but has no minimum at minus one;
        ``"subspace"``: the share of each image's features outside the recovered ones' span (the
        paper prints the share inside it, which would drive the features away from it).
    feature_width : float
        0 for the distance as published. Otherwise the pull of recovered features ends at half of
        the distance that ``knowledge.cosines`` lets the attacker expect between them and the true
        ones, and grows to its full weight over this width beyond: Huber's function of the excess.
        (The best mean of two independent estimates is within half the error of the better one.)
        Features that the gradient alone determines better are then left alone.
    """

    gradient: float = 1.0
    distance: str = "cosine"
    weighting: str = "joint"
    total_variation: float = 0.0
    statistics: float = 0.0
    features: float = 0.0
    feature_match: str = "cosine"
    feature_width: float = 0.0

    def __post_init__(self) -> None:
        for name in ("gradient", "total_variation", "statistics", "features", "feature_width"):
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
    brief: bool = False,
    box: tuple[float, float] | None = (0.0, 1.0),
    restarts: int = 1,
    start: torch.Tensor | None = None,
    space: ImageSpace | None = None,
    rematch: int = 100,
    watch: Watcher | None = None,
    watch_every: int = 1,
    block: int | None = None,
    half: bool = False,
    kept: KeptSearch | None = None,
) -> Inversion:
    """Reconstruct P batches of images from P clients' updates, all at once.

    Adam on the derivatives or on their signs; the learning rate is divided by ten after 3/8, 5/8
    and 7/8 of the iterations.

    Parameters
    ----------
    network : Module
        The network the clients started from, in their mode (``eval()`` or ``train()``), also in
        the wrapper of Opacus; a :class:`~reconrisk.convnets.WideHead` if statistics or features are
        matched.
    released : Released
        P updates, of all parameters or of those that are not frozen.
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
    brief : bool
        Whether the rate falls as half a cosine, and Adam forgets squares as soon as derivatives:
        for searches of some hundred iterations or fewer, which the published schedule ends early.
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
    watch_every : int
        Of so many iterations and the last, where making the images of ``space`` costs much.
    block : int, optional
        Problems (with their restarts) optimised together; affects results by rounding only.
    half : bool
        Whether networks are evaluated in bfloat16, and distances in single precision, problem by
        problem and without restarts: on ResNet-18 1.6 times as fast where a processor multiplies
        such numbers. Rounding then costs 1e-4 of a cosine between gradients.
    kept : KeptSearch, optional
        Where the search is kept, so that a run of hours survives being stopped.

    Returns
    -------
    Inversion
        ``inputs`` of shape (P, n, \\*shape), in the order of the labels.

    Raises
    ------
    ValueError
        If shapes do not fit, an argument is out of its range, a layer draws at random in training
        mode, or the network or the knowledge lacks what the objective needs.

    Notes
    -----
    Cost per problem and iteration: about five forward passes of the batch, times the local steps.
    Memory: block times the activations and several times the parameters.
    """
    arguments.integer("iterations", iterations, 1)
    arguments.integer("restarts", restarts, 1, 1 if half else math.inf)
    arguments.integer("rematch", rematch, 1)
    arguments.integer("watch_every", watch_every, 1)
    arguments.real("learning_rate", learning_rate, 0, low_open=True)
    if box is not None and not box[0] < box[1]:
        raise ValueError(f"box must be (low, high) with low < high; got {box!r}")
    network, released = _prepared(network, released)
    _check_problem(network, released, knowledge, objective)
    if space is None:
        first = _first_candidates(released, knowledge, generator, restarts, box, start)
    else:
        box = None
        first = _first_values(released, knowledge, generator, restarts, space, start)
    to_images = _pixels if space is None else space.images
    if block is None:
        block = 1 if half else _block_size(released, first, knowledge, space is not None)
    arguments.integer("block", block, 1, 1 if half else math.inf)
    parts = []
    for low in range(0, len(first), block):
        chosen = slice(low, low + block)
        descent = _Descent(
            network, released, knowledge, objective, chosen, restarts, rematch, to_images, half
        )

        def observe(
            iteration: int,
            values: torch.Tensor,
            chosen: slice = chosen,
            images: Callable[[torch.Tensor], torch.Tensor] = descent.images,
        ) -> None:
            if watch is not None and (iteration % watch_every == 0 or iteration == iterations):
                watch(iteration, images(values).unflatten(0, (-1, restarts)), chosen)

        values = first[chosen].flatten(0, 1)
        how = iterations, learning_rate, signed, box, observe, brief
        loss = descend(descent, values, *how, kept, low, rematch)
        best = best_of_restarts(values, loss, restarts)
        parts.append(replace(best, values=best.inputs, inputs=descent.images(best.inputs)))
    inputs, values = torch.cat([p.inputs for p in parts]), torch.cat([p.values for p in parts])
    loss = torch.cat([p.loss for p in parts])
    return Inversion(inputs, loss, None if space is None else values)


def best_objective(
    objectives: Sequence[Objective],
    attack: Callable[[Objective], torch.Tensor],
    images: torch.Tensor,
) -> tuple[Objective, torch.Tensor]:
    """Choose the objective with which an attack reconstructs pictures best that are known.

    Weights that are best for one kind of pictures, network and defence are not for another, and an
    attacker cannot compare them on the pictures that are sought. Pictures of the attacker's own
    serve: their updates are computed as a client's are, defence included
    (:func:`~reconrisk.training.client_updates`), and attacked.

    Parameters
    ----------
    objectives : sequence of Objective
        Those to compare, at least one.
    attack : callable
        Returns what an objective reconstructs of the known pictures.
    images : Tensor, shape (P, n, \\*shape)
        The known pictures.

    Returns
    -------
    best : Objective
        With the largest mean PSNR, that is, the least mean logarithm of the squared error.
    errors : Tensor, shape (objectives, P, n)
        Mean squared error of each picture.

    Raises
    ------
    ValueError
        If there is no objective, or the attack returns another shape than that of the pictures.

    Examples
    --------
    >>> import torch
    >>> known = torch.full((1, 2, 3, 4, 4), 0.5)
    >>> tried = [Objective(total_variation=weight) for weight in (0.001, 0.01, 0.1)]
    >>> best, _ = best_objective(tried, lambda tried: known + tried.total_variation, known)
    >>> best.total_variation
    0.001
    """
    if not objectives:
        raise ValueError("objectives must hold at least one; got none")
    errors = []
    for objective in objectives:
        found = attack(objective)
        if found.shape != images.shape:
            raise ValueError(
                f"attack must return pictures of shape {tuple(images.shape)}; "
                f"got {tuple(found.shape)}"
            )
        errors.append((found - images).square().flatten(2).mean(dim=2))
    stacked = torch.stack(errors)
    return objectives[int(stacked.log().mean(dim=(1, 2)).argmin())], stacked


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
        half: bool = False,
    ) -> None:
        def spread(t: torch.Tensor) -> torch.Tensor:
            return t[chosen].repeat_interleave(restarts, dim=0) if restarts > 1 else t[chosen]

        self._network, self._objective, self._rematch = network, objective, rematch
        gradient = {name: spread(g) for name, g in released.gradient.items()}
        self._released = gradient
        self._sizes = {name: g.flatten(1).square().sum(dim=1) for name, g in gradient.items()}
        self._visible: dict[str, torch.Tensor] = {}
        # tensors that are mapped over the problems along with the candidates
        self._data: dict[str, object] = {"labels": spread(knowledge.labels)}
        if knowledge.aware:
            visible = released.visible or support(released.gradient)
            self._visible = {name: spread(v) for name, v in visible.items()}
            if released.units is not None:
                self._data["units"] = spread(released.units)
        if objective.statistics and knowledge.statistics is not None:
            self._data["statistics"] = [(spread(m), spread(v)) for m, v in knowledge.statistics]
        if objective.feature_width and knowledge.cosines is not None:
            self._data["expected"] = (1 - spread(knowledge.cosines).square()) / 2
        self._recovered: torch.Tensor | None = None
        if objective.features:
            assert knowledge.features is not None  # checked with the arguments
            like = next(iter(gradient.values()))
            recovered = spread(knowledge.features).to(like)
            if objective.feature_match == "subspace":
                self._data["basis"] = torch.linalg.svd(recovered, full_matrices=False).Vh
            elif objective.feature_match == "labels":
                self._data["aligned"] = nn.functional.normalize(recovered, dim=2)
            else:
                self._recovered = nn.functional.normalize(recovered, dim=2)
        local = released.local if knowledge.aware else None
        self._traced = bool(objective.statistics or objective.features)
        self._joined: list[str] = []
        # mapping costs a single problem more than it saves
        single = len(next(iter(gradient.values()))) == 1
        self._alone = single and (half or to_images is _pixels)
        self._half = half
        self._update = update_and_trace(
            network, local, knowledge.loss, names=gradient, trace=self._traced, eager=self._alone
        )
        self._weights = _layer_weights(network, list(gradient), objective.weighting)
        if self._alone and self._weights is None:  # one vector costs fewer calls
            self._join(gradient)
        frozen = {name: p.detach() for name, p in network.named_parameters()}
        self._state = {**frozen, **dict(network.named_buffers())}
        self._to_images = to_images
        self._terms = self._terms_alone if self._alone else vmap(self._terms_of_one)
        self._calls = 0

    def _join(self, gradient: Gradient) -> None:
        """Take the released update, and what is visible of it, as one vector."""
        self._released = {"": torch.cat([g.flatten(1) for g in gradient.values()], dim=1)}
        self._sizes = {"": self._released[""].square().sum(dim=1)}
        if self._visible:
            parts = [self._visible[name].flatten(1) for name in gradient]
            self._visible = {"": torch.cat(parts, dim=1)}
        self._joined = list(gradient)

    def images(self, values: torch.Tensor) -> torch.Tensor:
        """Return the candidates' images (P, n, ...)."""
        if self._to_images is _pixels:
            return values
        with torch.no_grad():
            return vmap(self._to_images)(values)

    def _precision(self, values: torch.Tensor) -> torch.autocast:
        """The number format of the networks' products."""
        return torch.autocast(values.device.type, torch.bfloat16, enabled=self._half)

    def loss(self, values: torch.Tensor) -> torch.Tensor:
        """Loss (P,) of candidates' values (P, ...)."""
        self._match(values)
        with torch.no_grad():
            return self._loss(values)

    def slope(self, values: torch.Tensor) -> torch.Tensor:
        """Derivative of the loss."""
        if self._calls % self._rematch == 0:
            self._match(values)
        self._calls += 1
        # the problems are independent, so that one backward pass of the sum gives all derivatives
        with torch.enable_grad():
            candidates = values.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self._loss(candidates).sum(), candidates)
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

    def _loss(self, values: torch.Tensor) -> torch.Tensor:
        update, loss = self._terms(values, self._data)
        if update:
            loss = loss + self._objective.gradient * self._distance(update)
        return loss

    def _terms_alone(self, values: torch.Tensor, data: Mapping) -> tuple[Gradient, torch.Tensor]:
        """:meth:`_terms_of_one` of a single problem, with the axis of problems."""
        update, loss = self._terms_of_one(values[0], tree_map(lambda t: t[0], dict(data)))
        return {name: g[None] for name, g in update.items()}, loss[None]

    def _terms_of_one(self, values: torch.Tensor, data: Mapping) -> tuple[Gradient, torch.Tensor]:
        """The update of one problem, empty if it has no weight, and the sum of the other terms."""
        goal = self._objective
        units, labels = data.get("units"), data["labels"]
        loss = values.new_zeros(())
        update: Gradient = {}
        trace: Any = None
        with self._precision(values):
            images = self._to_images(values).to(values.dtype)
            if goal.gradient:
                update, trace = self._update(images, labels, units)
            elif self._traced:
                trace = self._trace(images, units)
        if self._traced and self._half:
            trace = tree_map(lambda t: t.to(values.dtype), trace)
        if goal.total_variation:
            loss = loss + goal.total_variation * total_variation(images)
        if goal.statistics:
            target = data["statistics"] if "statistics" in data else self._stored_statistics()
            loss = loss + goal.statistics * _statistics_distance(trace.statistics, target)
        if goal.features:
            loss = loss + goal.features * _feature_distance(trace.features, data, goal)
        return update, loss

    def _distance(self, update: Gradient) -> torch.Tensor:
        """Distance (P,) of updates from the released ones, joint or averaged over the tensors."""
        products = []
        if self._joined:
            update = {"": torch.cat([update[name].flatten(1) for name in self._joined], dim=1)}
        for name, released in self._released.items():
            g = update[name]
            if self._visible:
                g = torch.where(self._visible[name], g, 0.0)
            products.append(
                (*_Products.apply(g.flatten(1), released.flatten(1)), self._sizes[name])
            )
        a, b, c = (torch.stack(column, dim=1) for column in zip(*products, strict=True))
        if self._weights is None:
            return _distance(self._objective.distance, a.sum(1), b.sum(1), c.sum(1))
        # a tensor without released entries carries no information
        weights = torch.where(c > 0, self._weights, 0.0)
        distances = _distance(self._objective.distance, a, b, c)
        return (weights * distances).sum(dim=1) / weights.sum(dim=1)

    def _stored_statistics(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        means = [b for name, b in self._network.named_buffers() if name.endswith("mean")]
        variances = [b for name, b in self._network.named_buffers() if name.endswith("variance")]
        return list(zip(means, variances, strict=True))


class _Products(torch.autograd.Function):
    """``<g, r>`` and ``|g|^2`` (P,) of gradients (P, N); differentiable once, in g."""

    @staticmethod
    def forward(ctx, g: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(g, r)
        rows = g[:, None]
        return (rows @ r[..., None]).flatten(), (rows @ g[..., None]).flatten()

    @staticmethod
    def backward(ctx, by_inner: torch.Tensor, by_squared: torch.Tensor):
        g, r = ctx.saved_tensors
        return torch.mul(r, by_inner[:, None]).addcmul_(g, 2 * by_squared[:, None]), None


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


def _feature_distance(features: torch.Tensor, data: Mapping, goal: Objective) -> torch.Tensor:
    """Distance from the recovered features or their span; mean over images.

    With a width, Huber's function of its excess over what is expected.
    """
    squared = features.square().sum(dim=1).clamp(min=torch.finfo(features.dtype).tiny)
    if goal.feature_match == "subspace":
        distance = 1 - (features @ data["basis"].mT).square().sum(dim=1) / squared
    else:
        inner = (features * data["aligned"]).sum(dim=1)
        if goal.feature_match == "labels":
            distance = 2 - 2 * inner * squared.rsqrt()
        else:
            distance = 1 - inner.square() / squared
    width = goal.feature_width
    if not width:
        return distance.mean()
    excess = (distance - data.get("expected", 0.0)).clamp(min=0)
    return torch.where(excess < width, excess.square() / (2 * width), excess - width / 2).mean()


def _layer_weights(network: nn.Module, names: Sequence[str], weighting: str) -> torch.Tensor | None:
    """Weight of each parameter tensor's distance; None for all tensors as one vector."""
    parameters = [network.get_parameter(name).detach() for name in names]
    if weighting == "joint":
        return None
    if weighting == "norm":
        return torch.stack([p.norm() for p in parameters])
    counts = [p.numel() if weighting == "count" else 1 for p in parameters]
    return torch.tensor(counts, dtype=parameters[0].dtype, device=parameters[0].device)


# Arguments ---------------------------------------------------------------------------------------


def _prepared(network: nn.Module, released: Released) -> tuple[nn.Module, Released]:
    """Return a network without wrapper and side effects, and the updates by its names."""
    network = prepare(network)
    visible = released.visible and plain_names(released.visible, network)
    return network, replace(
        released, gradient=plain_names(released.gradient, network), visible=visible
    )


def _check_problem(
    network: nn.Module, released: Released, knowledge: Knowledge, objective: Objective
) -> None:
    problems = len(knowledge.labels)
    parameters = dict(network.named_parameters())
    needed = {name for name, p in parameters.items() if p.requires_grad}
    names = set(released.gradient)
    if not names or not needed <= names <= set(parameters):
        wrong = sorted((needed - names) | (names - set(parameters)))
        raise ValueError(
            "released must have the network's parameters, but those that are frozen; differs by "
            f"{wrong}"
        )
    for name in released.gradient:
        p = parameters[name]
        if released.gradient[name].shape != (problems, *p.shape):
            raise ValueError(
                f"released.gradient[{name!r}] must have shape {(problems, *p.shape)}; "
                f"got {tuple(released.gradient[name].shape)}"
            )
        if not bool(torch.isfinite(released.gradient[name]).all()):
            raise ValueError(f"released.gradient[{name!r}] must be finite")
    if knowledge.loss is None and objective.gradient:
        like = next(iter(released.gradient.values()))
        check_labels(
            network, like.new_zeros((knowledge.labels.shape[1], *knowledge.shape)), knowledge.labels
        )
    if objective.features:
        if knowledge.features is None:
            raise ValueError("knowledge.features must be given where features are matched")
        if objective.feature_match == "labels" and (
            knowledge.features.shape[:2] != knowledge.labels.shape
        ):
            raise ValueError(
                "knowledge.features must be one for each label to be matched by them; "
                f"got shape {tuple(knowledge.features.shape)}"
            )
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
    problems, count = knowledge.labels.shape[:2]
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
    problems, count = knowledge.labels.shape[:2]
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


def _block_size(
    released: Released, first: torch.Tensor, knowledge: Knowledge, searched: bool
) -> int:
    """Problems that fit in memory comfortably, in blocks of similar size.

    ``searched``: another space than that of the pixels.
    """
    room = 2**24 if first.device.type == "cpu" else 2**29
    pixels = first.shape[1] * knowledge.labels.shape[1] * math.prod(knowledge.shape)
    # activations: about 64 numbers per pixel value, and three times as many of a generator
    each = sum(g[0].numel() for g in released.gradient.values()) + 64 * pixels
    if searched:
        each += 4 * first[0].numel() + 192 * pixels
    most = max(1, room // each)
    return math.ceil(len(first) / math.ceil(len(first) / most))
