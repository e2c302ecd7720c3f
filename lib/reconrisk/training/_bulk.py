"""DP-SGD of many models at once, which share the known records and differ in the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.models import Classifier
from reconrisk.training._factors import Factors, Records, Weights, factors_of

__all__ = ["Observer", "Trajectories", "record_trajectories", "train_many"]


class Observer(Protocol):
    """A callback that gets an informed adversary's view of every step."""

    def __call__(
        self, step: int, weights: Weights, residual: Weights, takes_part: torch.Tensor
    ) -> None:
        """Observe step ``step`` = 0 ... T-1; the tensors are overwritten afterwards.

        Parameters
        ----------
        weights : Weights, shape (K, ...)
            The models before the step.
        residual : Weights, shape (K, ...)
            The privatised gradient minus the known records' clipped gradients: C sigma N(0, I)
            plus the target's clipped gradient where it takes part.
        takes_part : Tensor of bool, shape (K,)
            Whether the target took part, which an adversary does not see.
        """


@dataclass(frozen=True)
class Trajectories:
    """Recorded runs, as an informed adversary sees them.

    Attributes
    ----------
    weights : Weights, shape (T, K, ...)
        The models before each step.
    residuals : Weights, shape (T, K, ...)
        Each step's privatised gradient minus the known records' clipped gradients.
    takes_part : Tensor of bool, shape (T, K)
        Whether the target took part, which an adversary does not see.
    final : Weights, shape (K, ...)
        The models after the last step.
    """

    weights: Weights
    residuals: Weights
    takes_part: torch.Tensor
    final: Weights


@torch.no_grad()
def train_many(
    classifier: Classifier,
    run: DPSGD,
    known_inputs: torch.Tensor,
    known_labels: torch.Tensor,
    target_inputs: torch.Tensor,
    target_labels: torch.Tensor,
    *,
    learning_rate: float,
    generator: torch.Generator,
    initial: Mapping[str, torch.Tensor] | None = None,
    observe: Observer | None = None,
    subtract_known: bool = True,
) -> Weights:
    """Train K models by DP-SGD: model k on the known records and target k.

    Parameters
    ----------
    classifier : Classifier
    run : DPSGD
        sigma, q, T and C. For q < 1 every record, the target included, takes part in every step
        with probability q, independently for every model (Poisson sampling).
    known_inputs : Tensor, shape (n, d)
    known_labels : Tensor of integers, shape (n,)
    target_inputs : Tensor, shape (K, d)
    target_labels : Tensor of integers, shape (K,)
    learning_rate : float
        A step subtracts ``learning_rate * privatised sum / (q (n + 1))``: the privatised sum is
        divided by the expected batch size.
    generator : torch.Generator
        Source of the initial weights, the sampling and the noise, on the inputs' device.
    initial : mapping of str to Tensor, optional
        Initial weights, of one model (shared by all) or of K models. By default one draw from the
        generator, shared by all.
    observe : Observer, optional
        Called at every step, before the weights are updated.
    subtract_known : bool
        If False, the observer's residual is the privatised gradient itself.

    Returns
    -------
    Weights, shape (K, ...)
        The final weights.

    Raises
    ------
    ValueError
        If shapes do not fit or an argument is out of its range.

    Notes
    -----
    Cost per step and model: ``4 (n + 1) h d`` multiplications and one normal draw per parameter; no
    per-example gradient is formed. With q < 1 only the records that take part are computed.
    Memory: two or three copies of the K models, and the known records' responses of one block of
    models at a time.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import DPSGD, training
    >>> from reconrisk.models import Classifier
    >>> generator = torch.Generator().manual_seed(0)
    >>> records, labels = torch.rand(60, 4, generator=generator), torch.arange(60) % 2
    >>> models = training.train_many(
    ...     Classifier(inputs=4, hidden=3, classes=2), DPSGD(0.5, sampling_rate=0.2, steps=20),
    ...     records[2:], labels[2:], records[:2], labels[:2],
    ...     learning_rate=0.5, generator=generator,
    ... )
    >>> tuple(models["hidden.weight"].shape)
    (2, 3, 4)
    """
    _check_records(classifier, known_inputs, known_labels, target_inputs, target_labels)
    arguments.real("learning_rate", learning_rate, 0, high_open=True)
    if initial is None:
        initial = classifier.initialise(generator, target_inputs.dtype)
    weights = _stack(initial, classifier, target_inputs)
    scale = learning_rate / (run.sampling_rate * (len(known_inputs) + 1))
    targets = None
    if observe is None and len(target_inputs) == 1 and run.sampling_rate == 1:
        # one unobserved full-batch model: its target is one more shared record
        known_inputs = torch.cat([known_inputs, target_inputs])
        known_labels = torch.cat([known_labels, target_labels])
    else:
        targets = Records.of(target_inputs[:, None], target_labels[:, None], classifier.classes)
    known = _Known(Records.of(known_inputs, known_labels, classifier.classes).contiguous(), run)
    residual = {name: torch.empty_like(w) for name, w in weights.items()}
    for step in range(run.steps):
        takes_part = _draw_residual(residual, weights, targets, run, generator)
        taken = known.sample(len(target_inputs), generator)
        if observe is not None and not subtract_known:
            known.accumulate(residual, weights, 1.0, taken)
            observe(step, weights, residual, takes_part)
        else:
            if observe is not None:
                observe(step, weights, residual, takes_part)
            known.accumulate(weights, weights, -scale, taken)
        for name, w in weights.items():
            w.add_(residual[name], alpha=-scale)
    return weights


def record_trajectories(
    classifier: Classifier,
    run: DPSGD,
    known_inputs: torch.Tensor,
    known_labels: torch.Tensor,
    target_inputs: torch.Tensor,
    target_labels: torch.Tensor,
    *,
    learning_rate: float,
    generator: torch.Generator,
    initial: Mapping[str, torch.Tensor] | None = None,
    subtract_known: bool = True,
) -> Trajectories:
    """Train as :func:`train_many` and record every step's models and residuals.

    Parameters
    ----------
    classifier, run, known_inputs, known_labels, target_inputs, target_labels
        As in :func:`train_many`.
    learning_rate, generator, initial, subtract_known
        As in :func:`train_many`.

    Returns
    -------
    Trajectories

    Notes
    -----
    Memory: ``2 T K`` times the parameters (6.4 MB a model at T = 100 for 784-10-10).
    """
    models = (run.steps, len(target_inputs))
    shapes = {name: (*models, *shape) for name, shape in classifier.shapes.items()}
    kept, residuals = ({n: target_inputs.new_empty(s) for n, s in shapes.items()} for _ in range(2))
    parts = target_inputs.new_empty(models, dtype=torch.bool)

    def keep(step: int, weights: Weights, residual: Weights, takes_part: torch.Tensor) -> None:
        for name, w in weights.items():
            kept[name][step] = w
            residuals[name][step] = residual[name]
        parts[step] = takes_part

    final = train_many(
        classifier,
        run,
        known_inputs,
        known_labels,
        target_inputs,
        target_labels,
        learning_rate=learning_rate,
        generator=generator,
        initial=initial,
        observe=keep,
        subtract_known=subtract_known,
    )
    return Trajectories(kept, residuals, parts, final)


@dataclass(frozen=True)
class _Known:
    """The records that all models share, and the run that samples them."""

    records: Records
    run: DPSGD

    def sample(self, models: int, generator: torch.Generator) -> torch.Tensor | None:
        """Draw which records take part in each model's step, (K, n); None if all do."""
        if self.run.sampling_rate == 1:
            return None
        like = self.records.sizes
        return _bernoulli((models, len(like)), self.run, generator, like)

    def accumulate(
        self, into: Weights, weights: Weights, scale: float, taken: torch.Tensor | None
    ) -> None:
        """Add ``scale`` times the sum of clipped gradients at ``weights`` to ``into``.

        Models are processed in blocks whose responses fit in the cache; ``into`` may be ``weights``
        itself.
        """
        models = len(weights["output.bias"])
        size = _block_size(weights, self.records.sizes)
        for start in range(0, models, size):
            block = slice(start, start + size)
            part = {name: w[block] for name, w in weights.items()}
            factors, mask = self._taking_part(part, None if taken is None else taken[block])
            share = scale * factors.clip_factors(self.run.max_grad_norm)
            held = {name: w[block] for name, w in into.items()}
            factors.add_weighted_sum(held, share if mask is None else share * mask)

    def _taking_part(
        self, weights: Weights, taken: torch.Tensor | None
    ) -> tuple[Factors, torch.Tensor | None]:
        """Factors of the records that take part, padded, and the mask without the padding."""
        if taken is None or self.run.sampling_rate > _DENSE_RATE:
            return factors_of(weights, self.records), taken
        # gather each model's batch, padded to the longest one
        order = taken.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        order = order[:, : max(1, int(taken.sum(dim=1).max()))]
        return factors_of(weights, self.records.take(order)), taken.gather(1, order)


#: sampling rate above which one product with all records is cheaper than gathering batches
_DENSE_RATE = 0.25


def _block_size(weights: Weights, like: torch.Tensor) -> int:
    """Number of models whose responses to all records fit in the cache (or fill a GPU)."""
    units = sum(w.shape[-1] for name, w in weights.items() if name.endswith("bias"))
    room = 2**18 if like.device.type == "cpu" else 2**28
    return max(1, room // (units * max(1, len(like))))


def _draw_residual(
    residual: Weights,
    weights: Weights,
    targets: Records | None,
    run: DPSGD,
    generator: torch.Generator,
) -> torch.Tensor:
    """Fill ``residual`` with noise plus each model's clipped target gradient where it takes part.

    Returns
    -------
    takes_part : Tensor of bool, shape (K,)
    """
    # reuse one buffer: allocation would cost more than the draws
    for r in residual.values():
        r.normal_(0, run.noise_multiplier * run.max_grad_norm, generator=generator)
    like = weights["output.bias"]
    takes_part = _bernoulli((len(like),), run, generator, like)
    if targets is not None:
        factors = factors_of(weights, targets)
        share = factors.clip_factors(run.max_grad_norm)
        factors.add_weighted_sum(residual, share * takes_part[:, None])
    return takes_part


def _bernoulli(
    shape: tuple[int, ...], run: DPSGD, generator: torch.Generator, like: torch.Tensor
) -> torch.Tensor:
    if run.sampling_rate == 1:
        return torch.ones(shape, dtype=torch.bool, device=like.device)
    return torch.rand(shape, generator=generator, device=like.device) < run.sampling_rate


def _stack(
    initial: Mapping[str, torch.Tensor], classifier: Classifier, target_inputs: torch.Tensor
) -> Weights:
    """Return K copies of one model's weights, or a copy of K models' weights."""
    stacked: Weights = {}
    for name, shape in classifier.shapes.items():
        value = initial[name].to(target_inputs)
        full = (len(target_inputs), *shape)
        if value.shape not in (shape, full):
            raise ValueError(
                f"initial[{name!r}] must have shape {shape} or {full}; got {tuple(value.shape)}"
            )
        stacked[name] = value.expand(full).clone()
    return stacked


def _check_records(
    classifier: Classifier,
    known_inputs: torch.Tensor,
    known_labels: torch.Tensor,
    target_inputs: torch.Tensor,
    target_labels: torch.Tensor,
) -> None:
    for who, inputs, labels in (
        ("known", known_inputs, known_labels),
        ("target", target_inputs, target_labels),
    ):
        if inputs.ndim != 2 or inputs.shape[1] != classifier.inputs:
            raise ValueError(
                f"{who}_inputs must have shape (records, {classifier.inputs}); "
                f"got {tuple(inputs.shape)}"
            )
        if labels.shape != inputs.shape[:1]:
            raise ValueError(
                f"{who}_labels must have shape ({len(inputs)},); got {tuple(labels.shape)}"
            )
    if known_inputs.dtype != target_inputs.dtype:
        raise ValueError(
            "known_inputs and target_inputs must have one dtype; "
            f"got {known_inputs.dtype} and {target_inputs.dtype}"
        )
