"""Reconstruction from all intermediate gradients of DP-SGD, with the pixels' range as only prior.

Hayes et al., Section 2.1 and Appendix A: an informed adversary subtracts the known records'
clipped gradients from every privatised gradient and searches for the record whose clipped gradients
fit the residuals of all steps (eq. 1). The model is a small classifier, or the last layer on top of
a frozen feature map, so that a gradient is an outer product: no gradient is formed, except where
the L1 distance needs its entries.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.attacks._inversion_problem import gram
from reconrisk.training import Weights, one_hot
from reconrisk.training._adam import Adam
from reconrisk.training._networks import check_classes

__all__ = [
    "LOSSES",
    "Fit",
    "Reconstruction",
    "absolute_distance",
    "cosine_distance",
    "infer_labels",
    "inner_and_absolute",
    "inner_product",
    "linearised_information",
    "linearised_variance",
    "match_gradients",
    "rank_one_start",
    "squared_distance",
]

FeatureMap = Callable[[torch.Tensor], torch.Tensor]


# Losses ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """Statistics of candidates' clipped gradients and the residuals, in units of C.

    K targets, T steps, R candidates for each target. Inner products and the L1 distance are
    evaluated when a loss asks for them: they read every residual.

    Attributes
    ----------
    squared_norm : Tensor, shape (K, T, R)
        Squared norm of the clipped gradient, over C^2; one where it is clipped.
    residual_norm : Tensor, shape (K, T, 1)
        Norm of the residual, over C.
    max_grad_norm : float
        C.
    products : callable
        Returns :attr:`inner`.
    combined : callable
        ``combined(a, b)`` with ``a > 0`` returns, (K, R), ``a`` times the L1 distance of clipped
        gradient and residual over C plus ``b`` times their inner product over C^2, both summed
        over steps: in one pass over the residuals.
    """

    squared_norm: torch.Tensor
    residual_norm: torch.Tensor
    max_grad_norm: float
    products: Callable[[], torch.Tensor]
    combined: Callable[[float, float], torch.Tensor]

    @functools.cached_property
    def inner(self) -> torch.Tensor:
        """Inner products of the clipped gradient with the residual, over C^2, (K, T, R)."""
        return self.products()


Loss = Callable[[Fit], torch.Tensor]


def inner_and_absolute(fit: Fit) -> torch.Tensor:
    """Eq. (1) of Hayes et al.: L1 distance minus inner product; shape (K, R), over C^2.

    The terms scale differently with C: the smaller C, the larger the weight of the L1 term.
    """
    return fit.combined(1 / fit.max_grad_norm, -1.0)


def squared_distance(fit: Fit) -> torch.Tensor:
    """Squared distance up to a constant, (K, R): under Gaussian noise, minus the log likelihood."""
    return (fit.squared_norm - 2 * fit.inner).sum(dim=1)


def absolute_distance(fit: Fit) -> torch.Tensor:
    """L1 distance, (K, R): minus the log likelihood under Laplace noise."""
    return fit.combined(1.0, 0.0)


def inner_product(fit: Fit) -> torch.Tensor:
    """Minus the inner product, (K, R): the squared distance if every gradient is clipped."""
    return -fit.inner.sum(dim=1)


def cosine_distance(fit: Fit) -> torch.Tensor:
    """One minus the cosine, averaged over steps, (K, R); for one step as Geiping et al. (2020)."""
    sizes = fit.squared_norm.clamp(min=1e-24).sqrt() * fit.residual_norm
    return 1 - (fit.inner / sizes.clamp(min=1e-24)).mean(dim=1)


#: Losses by the name shown in tables and figures.
LOSSES: dict[str, Loss] = {
    "eq. (1)": inner_and_absolute,
    "squared distance": squared_distance,
    "cosine": cosine_distance,
    "L1 distance": absolute_distance,
    "inner product": inner_product,
}


class _Evidence:
    """Models and residuals of some targets, laid out for fast comparison with candidates.

    The large layer (the hidden one, or the output layer of a linear classifier) is stored as one
    matrix per target, (K, 2 T rows, d): every step's weights, then every step's residual. One
    batched product with the candidates gives the responses of all steps.
    """

    def __init__(self, weights: Weights, residuals: Weights, max_grad_norm: float) -> None:
        self.max_grad_norm = max_grad_norm
        self.linear = "hidden.weight" not in weights
        large = "output" if self.linear else "hidden"
        w, g = (given[f"{large}.weight"] for given in (weights, residuals))
        self.steps, targets, self.rows, fed = w.shape
        # written in place: the steps of a few targets fill hundreds of megabytes
        both = w.new_empty(targets, 2, self.steps, self.rows, fed)
        both[:, 0] = w.transpose(0, 1)
        torch.div(g.transpose(0, 1), max_grad_norm, out=both[:, 1])
        self.large = both.flatten(1, 3)
        self.large_bias = _bias(weights, large)
        self.large_residual_bias = _bias(residuals, large) / max_grad_norm
        if not self.linear:
            pair = weights["output.weight"], residuals["output.weight"] / max_grad_norm
            self.small = torch.cat(pair, dim=2).transpose(0, 1).contiguous()  # (K, T, 2 c, h)
            self.small_bias = _bias(weights, "output")
            self.small_residual_bias = _bias(residuals, "output") / max_grad_norm
        norms = [torch.linalg.vector_norm(r.flatten(2), dim=2) for r in residuals.values()]
        self.residual_norm = torch.stack(norms).norm(dim=0).T[:, :, None] / max_grad_norm

    @property
    def classes(self) -> int:
        return self.rows if self.linear else self.small.shape[2] // 2

    def fit(self, candidates: torch.Tensor, one_hot: torch.Tensor) -> Fit:
        """Return the statistics of candidates (K, R, d) with one-hot labels (K, 1, c, R)."""
        weights, residuals = self.large.split(self.steps * self.rows, dim=1)
        # in this order the products and their derivatives are contiguous in the rows
        responses = self._by_step((candidates @ weights.mT).mT) + self.large_bias
        size = candidates.square().sum(dim=2)[:, None] + 1  # (K, 1, R)
        hidden, output_delta = None, None
        if self.linear:
            large_delta = responses.softmax(dim=2) - one_hot
            squared = large_delta.square().sum(dim=2) * size
        else:
            hidden = torch.nn.functional.elu(responses)
            small = self.small @ hidden  # (K, T, 2 c, R)
            logits, small_seen = small.chunk(2, dim=2)
            output_delta = (logits + self.small_bias).softmax(dim=2) - one_hot
            back = self.small[:, :, : self.classes].mT @ output_delta
            large_delta = back * (hidden.clamp(max=0) + 1)
            squared = output_delta.square().sum(dim=2) * (hidden.square().sum(dim=2) + 1)
            squared = squared + large_delta.square().sum(dim=2) * size
        factor = self._factor(squared)

        def products() -> torch.Tensor:
            # the residual applied to (candidate, 1)
            seen = self._by_step((candidates @ residuals.mT).mT) + self.large_residual_bias
            inner = (large_delta * seen).sum(dim=2)
            if output_delta is not None:
                seen = small_seen + self.small_residual_bias
                inner = inner + (output_delta * seen).sum(dim=2)
            return factor * inner

        def combined(absolute: float, inner: float) -> torch.Tensor:
            weight = absolute, inner
            scaled = factor[:, :, None] * large_delta  # (K, T, rows, R)
            total = _OuterFit.apply(scaled.flatten(1, 2), candidates, residuals, *weight)
            total = total + _entries_fit(scaled, self.large_residual_bias, *weight)
            if output_delta is None:
                return total
            scaled = factor[:, :, None] * output_delta
            outer = (scaled[:, :, :, None] * hidden[:, :, None]).flatten(2, 3)
            residual = self.small[:, :, self.classes :].flatten(2)[..., None]  # (K, T, c h, 1)
            total = total + _entries_fit(outer, residual, *weight)
            return total + _entries_fit(scaled, self.small_residual_bias, *weight)

        return Fit(
            factor.square() * squared, self.residual_norm, self.max_grad_norm, products, combined
        )

    def _by_step(self, responses: torch.Tensor) -> torch.Tensor:
        """(K, T rows, R) as (K, T, rows, R)."""
        return responses.unflatten(1, (self.steps, self.rows))

    def _factor(self, squared: torch.Tensor) -> torch.Tensor:
        """The clipping factor over C, (K, T, R)."""
        floor = torch.finfo(squared.dtype).tiny
        return squared.clamp(min=floor).rsqrt().clamp(max=1 / self.max_grad_norm)


def _bias(weights: Mapping[str, torch.Tensor], layer: str) -> torch.Tensor:
    """(T, K, rows) as (K, T, rows, 1)."""
    return weights[f"{layer}.bias"].transpose(0, 1)[..., None]


def _entries_fit(
    entries: torch.Tensor, residual: torch.Tensor, absolute: float, inner: float
) -> torch.Tensor:
    """Weighted L1 distance plus weighted inner product of entries (K, T, e, R), shape (K, R)."""
    total = absolute * (entries - residual).abs().sum(dim=(1, 2))
    return total + inner * (entries * residual).sum(dim=(1, 2)) if inner else total


class _OuterFit(torch.autograd.Function):
    """``a sum |u x' - G| + b u' G x``, without storing the outer products for backward.

    With S the signs of ``u x' - G`` and ``M = S + (b/a) G``, this is ``a (u' M x - sum S G)`` and
    its derivatives are ``a M x`` and ``a M' u``. The forward pass computes them all.
    """

    @staticmethod
    def forward(ctx, scaled, candidates, residual, absolute, inner):
        parts = _in_blocks if residual.device.type == "cpu" else _all_at_once
        value, *slopes = parts(scaled, candidates, residual, inner / absolute)
        ctx.save_for_backward(*slopes)
        ctx.weight = absolute
        return absolute * value

    @staticmethod
    def backward(ctx, *grads):
        to_scaled, to_candidates = ctx.saved_tensors
        grad = ctx.weight * grads[0]
        return to_scaled * grad[:, None], to_candidates * grad[:, :, None], None, None, None


#: numbers of one block of rows: with its residuals they stay in a processor's second cache
_BLOCK = 2**18
Parts = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _in_blocks(
    scaled: torch.Tensor, candidates: torch.Tensor, residual: torch.Tensor, ratio: float
) -> Parts:
    """Values over a, ``M x`` and ``M' u``, some rows of one target at a time: G is read once.

    Products of a matrix and a vector are several times as fast as batched ones of few rows.
    """
    rows, fed = residual.shape[1:]
    value = candidates.new_zeros(candidates.shape[:2])
    to_scaled, to_candidates = torch.empty_like(scaled), torch.zeros_like(candidates)
    size = max(1, _BLOCK // fed)
    signs = residual.new_empty(min(size, rows), fed)
    for k, own in enumerate(residual):
        blocks = own.split(size)
        for r, x in enumerate(candidates[k]):
            u, moved = scaled[k, :, r].contiguous(), scaled.new_empty(rows)
            total, pulled = value[k, r], to_candidates[k, r]
            for seen, part, out in zip(blocks, u.split(size), moved.split(size), strict=True):
                s = torch.addr(seen, part, x, beta=-1, out=signs[: len(seen)]).sign_()
                total -= torch.dot(s.view(-1), seen.reshape(-1))
                if ratio:
                    s.add_(seen, alpha=ratio)
                torch.mv(s, x, out=out)
                pulled.addmv_(s.T, part)
            total += torch.dot(u, moved)
            to_scaled[k, :, r] = moved
    return value, to_scaled, to_candidates


def _all_at_once(
    scaled: torch.Tensor, candidates: torch.Tensor, residual: torch.Tensor, ratio: float
) -> Parts:
    """The same, one candidate of every target at a time: few calls, for a GPU."""
    values, to_scaled, to_candidates = [], [], []
    for u, x in zip(scaled.unbind(2), candidates.unbind(1), strict=True):
        signs = (u[:, :, None] * x[:, None]).sub_(residual).sign_()
        value = -(signs * residual).sum(dim=(1, 2))
        mixed = signs.add_(residual, alpha=ratio)
        moved = (x[:, None] @ mixed.mT)[:, 0]
        to_scaled.append(moved)
        to_candidates.append((u[:, None] @ mixed)[:, 0])
        values.append(value + (u * moved).sum(dim=1))
    return torch.stack(values, 1), torch.stack(to_scaled, 2), torch.stack(to_candidates, 1)


# The attack --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reconstruction:
    """The result of :func:`match_gradients`.

    Attributes
    ----------
    inputs : Tensor, shape (K, d)
        The best candidate of each target, in [0, 1].
    labels : Tensor of integers, shape (K,)
        The known label, or the one with the least loss.
    loss : Tensor, shape (K,)
        Loss of that candidate.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    loss: torch.Tensor


class Watcher(Protocol):
    """Called after each iteration with the best candidates so far."""

    def __call__(self, iteration: int, best: Reconstruction, targets: slice) -> None:
        """``iteration`` counts from 1; ``targets`` says which targets ``best`` belongs to."""


def match_gradients(
    weights: Weights,
    residuals: Weights,
    run: DPSGD,
    labels: torch.Tensor | None,
    *,
    generator: torch.Generator,
    loss: Loss = inner_and_absolute,
    iterations: int = 300,
    restarts: int = 1,
    learning_rate: float = 0.05,
    start: torch.Tensor | None = None,
    feature_map: FeatureMap | None = None,
    dimension: int | None = None,
    watch: Watcher | None = None,
    block: int | None = None,
) -> Reconstruction:
    """Reconstruct every target from its model's steps: Hayes et al., Section 2.1, eq. (1).

    Adam with a cosine schedule on the candidates' values, projected to [0, 1] after each iteration.
    Returns the candidate with the least loss over all restarts and iterations.

    Parameters
    ----------
    weights, residuals : Weights, shape (T, K, ...)
        As :func:`reconrisk.training.record_trajectories` stores them, full batch.
    run : DPSGD
        Its clipping norm is used; the sampling rate must be 1.
    labels : Tensor of integers, shape (K,), or None
        The targets' labels if known. None tries every label, which multiplies the cost by the
        number of classes; :func:`infer_labels` estimates them from the residuals at no cost.
    generator : torch.Generator
        Source of the initial candidates (uniform noise).
    loss : callable
        One of this module's losses.
    iterations, restarts : int
        Iterations of Adam, and initial candidates per target and label.
    learning_rate : float
        Initial rate of Adam, in units of the pixels' range.
    start : Tensor, shape (K, d), optional
        Initial candidate of each target, in place of the first restart's noise.
    feature_map : callable, optional
        For a model on top of a frozen feature map: maps images (count, d) to features (count, f).
    dimension : int, optional
        d, needed with a feature map.
    watch : callable, optional
        Called after each iteration.
    block : int, optional
        Targets attacked together; by default as many as fit in the cache. Affects results by
        rounding only.

    Returns
    -------
    Reconstruction

    Raises
    ------
    ValueError
        If the sampling rate is below one or shapes do not fit.

    Notes
    -----
    Cost per target, candidate and iteration: ``8 T h d`` multiplications (h rows of the large
    layer) for both passes; with the L1 distance ``8 T h d`` more. Memory per target of a block:
    ``2 T h d`` values, once more while the L1 distance is computed. The paper ran 10^6 iterations
    of plain gradient descent with five restarts; a few hundred of Adam reach the noise floor.
    """
    if run.sampling_rate != 1:
        raise ValueError(f"run must have sampling_rate 1 (full batch); got {run.sampling_rate!r}")
    arguments.integer("iterations", iterations, 1)
    arguments.integer("restarts", restarts, 1)
    arguments.real("learning_rate", learning_rate, 0, low_open=True)
    output = weights["output.bias"]
    steps, count, classes = output.shape
    large = weights["hidden.weight" if "hidden.weight" in weights else "output.weight"]
    if feature_map is None:
        dimension = large.shape[-1]
    elif dimension is None:
        raise ValueError("dimension must be given with a feature_map; got None")
    if labels is not None and labels.shape != (count,):
        raise ValueError(f"labels must have shape ({count},); got {tuple(labels.shape)}")
    if labels is not None:
        check_classes(labels, classes)
    if start is not None and start.shape != (count, dimension):
        raise ValueError(f"start must have shape ({count}, {dimension}); got {tuple(start.shape)}")
    tried = classes if labels is None else 1
    noise = torch.rand(
        (count, restarts, dimension), generator=generator, device=output.device, dtype=output.dtype
    )
    if start is not None:
        noise[:, 0] = start.to(noise).clamp(0, 1)
    if block is None:
        block = _block_size(large)
    parts = []
    for first in range(0, count, block):
        chosen = slice(first, first + block)
        evidence = _Evidence(
            {name: w[:, chosen] for name, w in weights.items()},
            {name: r[:, chosen] for name, r in residuals.items()},
            run.max_grad_norm,
        )
        kept = noise[chosen]
        if labels is None:
            trial = torch.arange(classes, device=output.device).expand(len(kept), classes)
        else:
            trial = labels[chosen, None]
        observed = None if watch is None else functools.partial(watch, targets=chosen)
        parts.append(
            _descend(
                evidence,
                kept.repeat(1, tried, 1),
                trial.repeat_interleave(restarts, dim=1),
                loss,
                iterations,
                learning_rate,
                feature_map,
                observed,
            )
        )
    return Reconstruction(
        torch.cat([p.inputs for p in parts]),
        torch.cat([p.labels for p in parts]),
        torch.cat([p.loss for p in parts]),
    )


def _block_size(large: torch.Tensor) -> int:
    """Targets whose steps fit in the cache; at least 8, to amortise the cost of calls."""
    steps, _, rows, fed = large.shape
    room = 2**21 if large.device.type == "cpu" else 2**31
    return max(8, room // (2 * steps * rows * fed))


def _descend(
    evidence: _Evidence,
    candidates: torch.Tensor,
    labels: torch.Tensor,
    loss: Loss,
    iterations: int,
    learning_rate: float,
    feature_map: FeatureMap | None,
    watch: Callable[..., None] | None,
) -> Reconstruction:
    """Run Adam on candidates (K, R, d) with labels (K, R); return the best of each target."""
    classes = torch.arange(evidence.classes, device=labels.device)[:, None]
    one_hot = (labels[:, None, None] == classes).to(candidates.dtype)  # (K, 1, c, R)
    values = candidates.clone().requires_grad_()
    optimiser = Adam([values])
    best = candidates.clone()
    least = torch.full(labels.shape, math.inf, dtype=candidates.dtype, device=labels.device)

    def losses() -> torch.Tensor:
        fed = values
        if feature_map is not None:
            fed = feature_map(values.flatten(0, 1)).unflatten(0, labels.shape)
        return loss(evidence.fit(fed, one_hot))

    def keep(current: torch.Tensor) -> None:
        better = current < least  # false for nan, so that a diverged candidate is never kept
        least[better] = current[better]
        best[better] = values.detach()[better]

    for iteration in range(iterations):
        current = losses()
        (slope,) = torch.autograd.grad(current.sum(), [values])
        keep(current.detach())
        if watch is not None and iteration:
            watch(iteration, _best_of(best, labels, least))
        rate = learning_rate * 0.5 * (1 + math.cos(math.pi * iteration / iterations))
        optimiser.step([slope], rate)
        with torch.no_grad():
            values.clamp_(0, 1)
    with torch.no_grad():
        keep(losses())
    result = _best_of(best, labels, least)
    if watch is not None:
        watch(iterations, result)
    return result


def _best_of(best: torch.Tensor, labels: torch.Tensor, least: torch.Tensor) -> Reconstruction:
    chosen = least.argmin(dim=1)
    rows = torch.arange(len(best), device=best.device)
    return Reconstruction(best[rows, chosen].clone(), labels[rows, chosen], least[rows, chosen])


# Closed forms ------------------------------------------------------------------------------------


def infer_labels(residuals: Weights) -> torch.Tensor:
    """Return an estimate of each target's label from the output biases' residuals, shape (K,).

    A record's gradient in the output biases is the predicted probabilities minus one at its label:
    only the label's entry is negative. Summing over the steps averages out the noise.
    """
    return residuals["output.bias"].sum(dim=0).argmin(dim=-1)


def rank_one_start(residuals: Weights, iterations: int = 100) -> torch.Tensor:
    """Return an initial candidate for each target, shape (K, d); exact without noise.

    All steps' residuals of the first layer, bias included, are multiples of the record with a one
    appended: stacked they have rank one, and the leading right singular vector, divided by its
    last entry, is the record. Clipped to [0, 1].

    Parameters
    ----------
    residuals : Weights, shape (T, K, ...)
    iterations : int
        Iterations of the power method; the spectral gap is large wherever the start is useful.

    Notes
    -----
    Cost per target: ``T h d^2`` multiplications, and ``d^2`` an iteration.
    """
    layer = "hidden" if "hidden.weight" in residuals else "output"
    rows = torch.cat([residuals[f"{layer}.weight"], residuals[f"{layer}.bias"][..., None]], dim=3)
    matrix = rows.transpose(0, 1).flatten(1, 2).double()  # (K, T rows, d + 1)
    scale = matrix.abs().amax(dim=(1, 2), keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    matrix = matrix / scale
    # start from the sum of rows weighted by their last entries, close to the record
    vector = matrix.mT @ matrix[:, :, -1:]
    for own, rows in zip(vector, matrix, strict=True):
        products = gram(rows)  # one target's stays in the processor's cache
        for _ in range(iterations):
            own.copy_(products @ own)
            own /= own.norm().clamp(min=1e-300)
    last = vector[:, -1:, 0]
    tiny = torch.finfo(torch.float64).tiny
    safe = torch.where(last.abs() > tiny, last, torch.full_like(last, tiny))
    return (vector[:, :-1, 0] / safe).clamp(0, 1).to(residuals[f"{layer}.weight"].dtype)


def linearised_variance(
    weights: Weights,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    run: DPSGD,
    feature_map: FeatureMap | None = None,
) -> torch.Tensor:
    """Return the Cramer-Rao bound on each value's variance at the true record, shape (K, d).

    The residuals are the record's clipped gradients plus Gaussian noise of variance
    ``C^2 sigma^2``, with the models known. With J the Jacobian of all steps' clipped gradients in
    the record, an *unbiased* reconstruction has covariance at least ``C^2 sigma^2 (J'J)^-1``, and
    the least squared distance attains it for small noise. It does not bind biased attacks: one
    that uses the pixels' range, or a prior, can have less error, and does.

    Parameters
    ----------
    weights : Weights, shape (T, K, ...)
    inputs : Tensor, shape (K, d)
    labels : Tensor of integers, shape (K,)
    run : DPSGD
        sigma and C.
    feature_map : callable, optional
        As in :func:`match_gradients`; the information about the features is carried back to the
        pixels through its Jacobian.

    Returns
    -------
    Tensor, shape (K, d), float64
        Diagonal of the bound; infinite where the gradients do not determine the record.

    Notes
    -----
    With u the clipped delta of a layer fed v, and U, V their Jacobians, one step adds
    ``|u|^2 V'V + (V'v)(u'U) + (u'U)'(V'v)' + (|v|^2 + 1) U'U``; the first layer has V = I. Cost
    per target: ``O(T h d^2 + d^3)``, memory ``O(T h d + d^2)``.
    """
    wide = {name: w.double() for name, w in weights.items()}
    noise = (run.noise_multiplier * run.max_grad_norm) ** 2
    rows = [inputs.new_empty(0, inputs.shape[1], dtype=torch.float64)]
    for k in range(len(inputs)):
        own = {name: w[:, k] for name, w in wide.items()}
        given = own, inputs[k].double(), labels[k], run.max_grad_norm
        information = linearised_information(*given, feature_map)
        inverse, failed = torch.linalg.inv_ex(information)
        diagonal = noise * inverse.diagonal()
        usable = int(failed) == 0 and bool((diagonal > 0).all())
        rows.append((diagonal if usable else torch.full_like(diagonal, math.inf))[None])
    return torch.cat(rows)


def _features_and_jacobian(
    feature_map: FeatureMap, record: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (f,) of one record (d,) and their Jacobian (f, d)."""

    def map_record(values: torch.Tensor) -> torch.Tensor:
        return feature_map(values[None])[0]

    return map_record(record), torch.autograd.functional.jacobian(map_record, record)


def linearised_information(
    weights: Weights,
    record: torch.Tensor,
    label: torch.Tensor,
    max_grad_norm: float,
    feature_map: FeatureMap | None = None,
) -> torch.Tensor:
    """Return J'J, with J the Jacobian of one target's clipped gradients at all T models.

    Over ``C^2 sigma^2`` it is what the run's gradients say of the record, Fisher's information:
    each step's gradient is normal given the steps before, with the clipped gradient in its mean,
    and informations of such steps add. Averaged over records of a prior, each with a run of its
    own, it is the information of :func:`reconrisk.bounds.van_trees_error`.

    Parameters
    ----------
    weights : Weights, shape (T, ...)
    record : Tensor, shape (d,)
    label : Tensor, scalar
    max_grad_norm : float
    feature_map : callable, optional
        As in :func:`match_gradients`, of the weights' type; J is the Jacobian in the pixels.

    Returns
    -------
    Tensor, shape (d, d)
    """
    if feature_map is not None:
        fed, jacobian = _features_and_jacobian(feature_map, record)
        about_features = linearised_information(weights, fed, label, max_grad_norm)
        return jacobian.mT @ about_features @ jacobian
    size = record.square().sum()
    layer = "hidden" if "hidden.weight" in weights else "output"
    large = weights[f"{layer}.weight"]  # (T, rows, d)
    responses = large @ record + weights[f"{layer}.bias"]
    small = {name: w for name, w in weights.items() if layer == "hidden" and name[0] == "o"}

    def step(small: Weights, responses: torch.Tensor, size: torch.Tensor):
        """Clipped deltas of one step, as functions of the responses and the squared norm."""
        if layer == "output":
            delta = responses.softmax(dim=0) - one_hot(label, len(responses), responses.dtype)
            squared = delta.square().sum() * (size + 1)
            factor = (max_grad_norm * squared.rsqrt()).clamp(max=1)
            return (factor * delta,)
        hidden = torch.nn.functional.elu(responses)
        logits = small["output.weight"] @ hidden + small["output.bias"]
        output_delta = logits.softmax(dim=0) - one_hot(label, len(logits), logits.dtype)
        hidden_delta = (small["output.weight"].mT @ output_delta) * (hidden.clamp(max=0) + 1)
        squared = output_delta.square().sum() * (hidden.square().sum() + 1)
        squared = squared + hidden_delta.square().sum() * (size + 1)
        factor = (max_grad_norm * squared.rsqrt()).clamp(max=1)
        return factor * hidden_delta, factor * output_delta, hidden

    sizes = size.expand(len(large))
    values = torch.func.vmap(step)(small, responses, sizes)
    jacobians = torch.func.vmap(torch.func.jacrev(step, argnums=(1, 2)))(small, responses, sizes)
    # chain rule through the responses (rows of the layer) and the record's squared norm
    chained = [by_rows @ large + 2 * by_size[..., None] * record for by_rows, by_size in jacobians]
    u, slope = values[0], chained[0]  # (T, rows), (T, rows, d)
    mixed = torch.einsum("tr,trd->d", u, slope)
    flat = slope.flatten(0, 1)
    information = torch.diag(u.square().sum().expand(len(record)))
    information = information + torch.outer(record, mixed) + torch.outer(mixed, record)
    information = information + (size + 1) * gram(flat)
    if len(values) == 1:
        return information
    _, v, hidden = values
    _, v_slope, h_slope = chained
    # the rows of all steps' Jacobians, stacked, make one product where a sum has one for each step
    weighted = (v.square().sum(dim=1), h_slope), (hidden.square().sum(dim=1) + 1, v_slope)
    for given, slopes in weighted:
        information += gram((given.sqrt()[:, None, None] * slopes).flatten(0, 1))
    sides = (hidden, h_slope), (v, v_slope)
    felt, answered = (torch.einsum("tr,trd->td", *side) for side in sides)
    crossed = felt.mT @ answered
    return information + crossed + crossed.mT
