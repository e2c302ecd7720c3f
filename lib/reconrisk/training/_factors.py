"""Per-example gradients of a small classifier, stored as the factors of outer products.

A fully connected layer's gradient for one record is the outer product of its delta, the derivative
of the loss in its responses, and its input. Norms, inner products and weighted sums need only the
two factors, so that no per-example gradient is formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from reconrisk.training._networks import check_classes

__all__ = ["Factors", "Records", "Weights", "accuracy", "factors_of", "gradient_factors"]

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Records:
    """Records with derived quantities that :func:`factors_of` reuses in every step.

    Attributes
    ----------
    inputs : Tensor, shape (n, d) or (..., n, d)
    columns : Tensor, shape (d, n) or (..., d, n)
        The inputs, feature-major.
    sizes : Tensor, shape (n,) or (..., n)
        ``|x|^2 + 1``, the factor of ``|delta|^2`` in the first layer's squared gradient norm.
    targets : Tensor, shape (c, n) or (..., c, n)
        The labels as probabilities of the classes.
    """

    inputs: torch.Tensor
    columns: torch.Tensor
    sizes: torch.Tensor
    targets: torch.Tensor

    @classmethod
    def of(cls, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> Records:
        """Build from inputs, (..., n, d), with integer or soft labels, (..., n[, c])."""
        if labels.is_floating_point():
            targets = labels.mT
        else:
            check_classes(labels, classes)
            numbers = torch.arange(classes, device=labels.device)[:, None]
            targets = (labels[..., None, :] == numbers).to(inputs.dtype)
        return cls(inputs, inputs.mT, inputs.square().sum(dim=-1) + 1, targets)

    def contiguous(self) -> Records:
        """Return the records with contiguous columns, for reuse over many steps."""
        return Records(self.inputs, self.columns.contiguous(), self.sizes, self.targets)

    def take(self, rows: torch.Tensor) -> Records:
        """Select records ``rows``, (..., m), of a shared set, with leading axes for the models."""
        # the same as self.inputs[rows] in half the time
        inputs = torch.nn.functional.embedding(rows, self.inputs)
        targets = self.targets.mT[rows].mT
        return Records(inputs, inputs.mT, self.sizes[rows], targets)


@dataclass(frozen=True)
class Factors:
    """Gradients of n records as factors of outer products, for every model of a stack.

    ``...`` stands for the stack's axes: none, (K,), or (T, K).

    Attributes
    ----------
    records : Records
        Of shape (n, d), shared by all models, or (..., n, d).
    output_delta : Tensor, shape (..., c, n)
        Derivative of each record's loss with respect to its logits.
    hidden : Tensor, shape (..., h, n), or None
        Inputs of the output layer; None for a linear classifier, whose inputs are the records.
    hidden_delta : Tensor, shape (..., h, n), or None
        Derivative of each record's loss with respect to the hidden layer's responses.
    """

    records: Records
    output_delta: torch.Tensor
    hidden: torch.Tensor | None = None
    hidden_delta: torch.Tensor | None = None

    def squared_norms(self) -> torch.Tensor:
        """Return each record's squared gradient norm over all layers together, shape (..., n).

        ``|delta_2|^2 (|h|^2 + 1) + |delta_1|^2 (|x|^2 + 1)``, where the ones are the biases. Cost:
        n (d + h + c) per model.
        """
        output = self.output_delta.square().sum(dim=-2)
        if self.hidden is None or self.hidden_delta is None:
            return output * self.records.sizes
        hidden_size = self.hidden.square().sum(dim=-2) + 1
        return output * hidden_size + self.hidden_delta.square().sum(dim=-2) * self.records.sizes

    def clip_factors(self, max_grad_norm: float) -> torch.Tensor:
        """Return ``1 / max(1, |g| / C)`` for every record, shape (..., n); differentiable."""
        # the floor keeps the derivative finite at a zero gradient, which is not clipped
        floor = torch.finfo(self.output_delta.dtype).tiny
        return (max_grad_norm * self.squared_norms().clamp(min=floor).rsqrt()).clamp(max=1)

    def inner(self, gradient: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the inner product of each record's gradient with a given one, shape (..., n).

        Parameters
        ----------
        gradient : mapping of str to Tensor
            Named and shaped as the weights, with the same leading axes.

        Notes
        -----
        Cost: ``n d h`` multiplications per model, as for a forward pass.
        """
        output = _responses(gradient, "output", self._output_fed())
        result = (output * self.output_delta).sum(dim=-2)
        if self.hidden_delta is None:
            return result
        hidden = _responses(gradient, "hidden", self.records.columns)
        return result + (hidden * self.hidden_delta).sum(dim=-2)

    def weighted_sum(self, weights: torch.Tensor) -> Weights:
        """Return the sum of ``weights[..., i]`` times record i's gradient, shaped as the weights.

        Parameters
        ----------
        weights : Tensor, shape (..., n)

        Notes
        -----
        Cost: ``n d h`` multiplications per model.
        """
        total = {}
        for layer, delta, fed in self._layers():
            weighted = delta * weights[..., None, :]
            total[f"{layer}.weight"] = weighted @ fed
            total[f"{layer}.bias"] = weighted.sum(dim=-1)
        return total

    def add_weighted_sum(self, into: Weights, weights: torch.Tensor) -> None:
        """Add :meth:`weighted_sum` to ``into`` in place, without a temporary copy."""
        for layer, delta, fed in self._layers():
            weighted = delta * weights[..., None, :]
            held = into[f"{layer}.weight"]
            if fed.ndim == 2:  # shared by all models: one product of matrices
                held.view(-1, held.shape[-1]).addmm_(weighted.flatten(0, -2), fed)
            elif fed.shape[-2] == 1:  # one record each: an outer product
                held.addcmul_(weighted, fed)
            else:
                held.baddbmm_(weighted, fed)
            into[f"{layer}.bias"] += weighted.sum(dim=-1)

    def gram(self) -> torch.Tensor:
        """Return all inner products of the records' gradients with one another, (..., n, n).

        Cost: ``n^2 (d + 2 h + c)`` multiplications per model.
        """
        fed = self.records.inputs @ self.records.columns + 1
        output = self.output_delta.mT @ self.output_delta
        if self.hidden is None or self.hidden_delta is None:
            return output * fed
        hidden = self.hidden_delta.mT @ self.hidden_delta
        return output * (self.hidden.mT @ self.hidden + 1) + hidden * fed

    def _output_fed(self) -> torch.Tensor:
        return self.records.columns if self.hidden is None else self.hidden

    def _layers(self) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Yield name, delta (..., units, n) and inputs, record-major, of each layer."""
        if self.hidden is None or self.hidden_delta is None:
            yield "output", self.output_delta, self.records.inputs
        else:
            yield "output", self.output_delta, self.hidden.mT
            yield "hidden", self.hidden_delta, self.records.inputs


def gradient_factors(
    weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor
) -> Factors:
    """Return the factors of every record's gradient of the softmax cross-entropy.

    Parameters
    ----------
    weights : mapping of str to Tensor
        ``"hidden.weight"`` (..., h, d), ``"hidden.bias"`` (..., h), ``"output.weight"``
        (..., c, h), ``"output.bias"`` (..., c); only ``"output.*"`` for a linear classifier. The
        activation is ELU.
    inputs : Tensor, shape (n, d) or (..., n, d)
        Without leading axes the records are shared by all models, which needs one matrix product
        instead of one per model.
    labels : Tensor of integers, shape (n,) or (..., n); or of probabilities, (..., n, c)

    Returns
    -------
    Factors
        Differentiable with respect to weights, inputs and probabilities.

    Notes
    -----
    All results are feature-major, with the records on the last axis. Cost: one product with
    ``n d h`` multiplications per model; per-example gradients would need memory ``n h d``.
    """
    return factors_of(weights, Records.of(inputs, labels, weights["output.bias"].shape[-1]))


def factors_of(weights: Mapping[str, torch.Tensor], records: Records) -> Factors:
    """Return :func:`gradient_factors` of prepared records."""
    hidden = None
    if "hidden.weight" in weights:
        hidden = torch.nn.functional.elu(_responses(weights, "hidden", records.columns))
    logits = _responses(weights, "output", records.columns if hidden is None else hidden)
    output_delta = logits.softmax(dim=-2) - records.targets
    if hidden is None:
        return Factors(records, output_delta)
    # ELU's derivative is 1 above zero and exp(z) = ELU(z) + 1 below
    slope = hidden.clamp(max=0) + 1
    hidden_delta = (weights["output.weight"].mT @ output_delta) * slope
    return Factors(records, output_delta, hidden, hidden_delta)


def accuracy(
    weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the share of records that each model classifies correctly, shape (...), float64.

    Parameters
    ----------
    weights, inputs, labels
        As in :func:`gradient_factors`, labels as integers.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import training
    >>> weights = {"output.weight": torch.eye(2), "output.bias": torch.zeros(2)}
    >>> records = torch.tensor([[1.0, 0.0], [0.2, 0.9]])
    >>> training.accuracy(weights, records, torch.tensor([0, 0])).item()
    0.5
    """
    fed = inputs.mT
    if "hidden.weight" in weights:
        fed = torch.nn.functional.elu(_responses(weights, "hidden", fed))
    right = _responses(weights, "output", fed).argmax(dim=-2) == labels
    return right.to(torch.float64).mean(dim=-1)


def _responses(weights: Mapping[str, torch.Tensor], layer: str, fed: torch.Tensor) -> torch.Tensor:
    """A layer's responses, (..., units, n), to inputs (..., d, n)."""
    return weights[f"{layer}.weight"] @ fed + weights[f"{layer}.bias"][..., None]
