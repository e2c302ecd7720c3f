"""Gradients of a sigmoid network in closed form, and their derivatives in the records.

A backward pass of a fully connected network is a few products of small matrices. Explicit formulas
batch over networks and batches, give per-record norms at almost no cost, and need only five more
products for the derivative of a function of the gradients in the records, which gradient inversion
descends along, instead of a second autograd graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from reconrisk.training._factors import Weights
from reconrisk.training._networks import check_classes

__all__ = [
    "BackwardPass",
    "backward_pass",
    "mean_gradient",
    "network_accuracy",
    "one_hot",
    "per_record_clip_factors",
]


@dataclass(frozen=True)
class BackwardPass:
    """The intermediate results of a forward and backward pass of n records, by layer.

    ``...`` stands for the axes of the networks and batches: none, or (P,).

    Attributes
    ----------
    weights : list of Tensor, shape (..., rows, columns)
    fed : list of Tensor, shape (..., n, columns)
        Inputs of each layer; the first are the records.
    slopes : list of Tensor, shape (..., n, rows)
        Derivative of each hidden layer's activation; one entry fewer than layers.
    returned : list of Tensor, shape (..., n, rows)
        Derivative of each record's loss with respect to each hidden layer's activations.
    deltas : list of Tensor, shape (..., n, rows)
        Derivative of each record's loss with respect to each layer's responses.
    probabilities : Tensor, shape (..., n, classes)
        Softmax of the outputs.
    """

    weights: list[torch.Tensor]
    fed: list[torch.Tensor]
    slopes: list[torch.Tensor]
    returned: list[torch.Tensor]
    deltas: list[torch.Tensor]
    probabilities: torch.Tensor

    def gradients(self, shares: float | Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the records' gradients summed with weights, shaped as the networks' weights.

        Parameters
        ----------
        shares : float or sequence of Tensor, shape (..., n)
            One factor for all, or a factor for each layer and record.

        Returns
        -------
        list of Tensor, shape (..., rows, columns)
        """
        result = []
        for layer, (delta, fed) in enumerate(zip(self.deltas, self.fed, strict=True)):
            if isinstance(shares, float):
                result.append((delta.mT @ fed).mul_(shares))
            else:
                result.append((delta * shares[layer][..., None]).mT @ fed)
        return result

    def squared_norms(self) -> list[torch.Tensor]:
        """Return each record's squared gradient norm layer by layer, shape (..., n) each.

        A layer's gradient is an outer product: its squared norm is ``|delta|^2 |fed|^2``.
        """
        return [
            delta.square().sum(dim=-1) * fed.square().sum(dim=-1)
            for delta, fed in zip(self.deltas, self.fed, strict=True)
        ]

    def pull_back(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the derivative of ``sum_l <V_l, G_l>`` with respect to the records.

        Parameters
        ----------
        cotangents : sequence of Tensor, shape (..., rows, columns)
            V: the derivative of a function of the summed gradients ``G = gradients(1.0)``.

        Returns
        -------
        Tensor, shape (..., n, d)

        Notes
        -----
        Explicit reverse mode. Cost: three products with ``n d h1`` multiplications; the forward and
        backward pass took two.
        """
        responses = self.pull_back_to_responses(cotangents)
        return self.deltas[0] @ cotangents[0] + responses @ self.weights[0]

    def pull_back_to_responses(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return :meth:`pull_back` as far as the first layer's responses, shape (..., n, h1).

        The derivative with respect to the records is ``deltas[0] @ V_1`` plus this times the first
        layer's weights; callers in a loop can compute it in one product and in place.
        """
        hidden = len(self.slopes)
        # from the first layer up: derivative in the deltas ...
        towards_delta = self.fed[0] @ cotangents[0].mT
        through_fed = []  # ... and, directly, in each hidden layer's outputs
        for layer in range(hidden):
            slope, fed = self.slopes[layer], self.fed[layer + 1]
            felt = towards_delta * slope
            # the slope a (1 - a) has derivative 1 - 2 a in the activation a
            through = towards_delta * self.returned[layer]
            through.addcmul_(through, fed, value=-2)
            through += self.deltas[layer + 1] @ cotangents[layer + 1]
            through_fed.append(through)
            towards_delta = felt @ self.weights[layer + 1].mT
            towards_delta += fed @ cotangents[layer + 1].mT
        # from the loss down: softmax, then each layer's responses
        p = self.probabilities
        response = p * (towards_delta - (p * towards_delta).sum(dim=-1, keepdim=True))
        for layer in range(hidden, 0, -1):
            activation = response @ self.weights[layer]
            activation += through_fed[layer - 1]
            response = activation.mul_(self.slopes[layer - 1])
        return response

    def along(
        self, directions: torch.Tensor, max_grad_norm: float | None = None, by_layer: bool = True
    ) -> list[torch.Tensor]:
        """Return the derivatives of each record's gradient along given directions of the record.

        Explicit forward mode: a record affects its own gradient only, so that one pass with k
        directions gives all n k columns of the batch's Jacobian.

        Parameters
        ----------
        directions : Tensor, shape (..., k, d)
            The same for every record of a batch.
        max_grad_norm, by_layer
            As in :func:`mean_gradient`; with clipping, the derivatives of clipped gradients.

        Returns
        -------
        list of Tensor, shape (..., n, k, rows, columns)
            One entry a layer.

        Notes
        -----
        Cost: two multiplications for each entry of the result.
        """
        # shape (..., n, k, units) for each layer, with k over the directions
        fed_moves = [directions[..., None, :, :].expand(*self.fed[0].shape[:-1], -1, -1)]
        slope_moves = []
        move = (directions @ self.weights[0].mT)[..., None, :, :]
        for layer, slope in enumerate(self.slopes):
            fed_moves.append(slope[..., None, :] * move)
            slope_moves.append((1 - 2 * self.fed[layer + 1][..., None, :]) * fed_moves[-1])
            move = fed_moves[-1] @ self.weights[layer + 1][..., None, :, :].mT
        p = self.probabilities[..., None, :]
        delta_moves = [p * (move - (p * move).sum(dim=-1, keepdim=True))]
        for layer in range(len(self.slopes) - 1, -1, -1):
            returned = delta_moves[0] @ self.weights[layer + 1][..., None, :, :]
            own = returned * self.slopes[layer][..., None, :]
            delta_moves.insert(0, own + self.returned[layer][..., None, :] * slope_moves[layer])

        layers = list(zip(self.deltas, self.fed, delta_moves, fed_moves, strict=True))
        if max_grad_norm is None:
            return [
                d_delta[..., None] * fed[..., None, None, :]
                + delta[..., None, :, None] * d_fed[..., None, :]
                for delta, fed, d_delta, d_fed in layers
            ]
        norms = self.squared_norms()
        factors = per_record_clip_factors(norms, max_grad_norm, by_layer)
        norm_moves = [
            2 * (delta[..., None, :] * d_delta).sum(dim=-1) * fed.square().sum(dim=-1)[..., None]
            + 2 * (fed[..., None, :] * d_fed).sum(dim=-1) * delta.square().sum(dim=-1)[..., None]
            for delta, fed, d_delta, d_fed in layers
        ]
        if not by_layer:
            norms = [torch.stack(norms).sum(dim=0)] * len(norms)
            norm_moves = [torch.stack(norm_moves).sum(dim=0)] * len(norm_moves)
        result = []
        for (delta, fed, d_delta, d_fed), factor, norm, d_norm in zip(
            layers, factors, norms, norm_moves, strict=True
        ):
            # the derivative of C / |g| is -C / (2 |g|^3) times that of |g|^2; that of 1 is 0
            change = torch.where(factor < 1, -0.5 * factor / norm, 0)[..., None] * d_norm
            scale = factor[..., None, None]
            left = scale * d_delta + change[..., None] * delta[..., None, :]
            right = (scale * delta[..., None, :])[..., None] * d_fed[..., None, :]
            result.append(left[..., None] * fed[..., None, None, :] + right)
        return result


def backward_pass(
    weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor
) -> BackwardPass:
    """Run a forward and a backward pass of every record's softmax cross-entropy.

    Parameters
    ----------
    weights : mapping of str to Tensor, shape (..., rows, columns)
        In the order of the layers, named as in :class:`reconrisk.models.SigmoidNetwork`; without
        leading axes one network is used for all batches.
    inputs : Tensor, shape (n, d) or (..., n, d)
    targets : Tensor, shape (n, classes) or (..., n, classes)
        Probabilities of the classes (:func:`one_hot`).

    Returns
    -------
    BackwardPass
        Differentiable by autograd as well, with respect to weights, inputs and targets.
    """
    layers = list(weights.values())
    fed = [inputs]
    slopes = []
    for layer in layers[:-1]:
        activation = torch.sigmoid(fed[-1] @ layer.mT)
        fed.append(activation)
        slopes.append(activation.addcmul(activation, activation, value=-1))
    # softmax over the second-last axis: over the last one it would be the slowest step
    probabilities = (layers[-1] @ fed[-1].mT).softmax(dim=-2).mT
    deltas = [probabilities - targets]
    returned = []
    for layer, slope in zip(layers[:0:-1], slopes[::-1], strict=True):
        returned.append(deltas[-1] @ layer)
        deltas.append(returned[-1] * slope)
    return BackwardPass(layers, fed, slopes, returned[::-1], deltas[::-1], probabilities)


def one_hot(labels: torch.Tensor, classes: int, dtype: torch.dtype) -> torch.Tensor:
    """Return labels (..., n) as probabilities of ``dtype``, shape (..., n, classes).

    Raise ValueError if a label is not in [0, classes).
    """
    check_classes(labels, classes)
    numbers = torch.arange(classes, device=labels.device)
    return (labels[..., None] == numbers).to(dtype)


def per_record_clip_factors(
    squared_norms: Sequence[torch.Tensor], max_grad_norm: float, by_layer: bool
) -> list[torch.Tensor]:
    """Return each layer's factor ``1 / max(1, norm / C)`` of each record, shape (..., n) each.

    Parameters
    ----------
    squared_norms : sequence of Tensor, shape (..., n)
        Of each layer's gradient.
    max_grad_norm : float
        C.
    by_layer : bool
        Whether every layer's gradient is clipped to C separately, or all of them together.
    """
    # the floor keeps the derivative finite at a zero gradient, which is not clipped
    floor = torch.finfo(squared_norms[0].dtype).tiny
    if not by_layer:
        total = torch.stack(list(squared_norms)).sum(dim=0)
        return [(max_grad_norm * total.clamp(min=floor).rsqrt()).clamp(max=1)] * len(squared_norms)
    return [(max_grad_norm * s.clamp(min=floor).rsqrt()).clamp(max=1) for s in squared_norms]


def mean_gradient(
    weights: Mapping[str, torch.Tensor],
    inputs: torch.Tensor,
    labels: torch.Tensor,
    *,
    max_grad_norm: float | None = None,
    by_layer: bool = True,
) -> Weights:
    """Return the average gradient of each batch, which plain SGD releases.

    Parameters
    ----------
    weights, inputs
        As in :func:`backward_pass`.
    labels : Tensor of integers, shape (n,) or (..., n); or of probabilities, (..., n, classes)
    max_grad_norm : float, optional
        C > 0, to clip every record's gradient before averaging; by default none is clipped.
    by_layer : bool
        Whether every layer is clipped to C separately, or all of them together.

    Returns
    -------
    Weights, shape (..., rows, columns)
        Differentiable by autograd with respect to the inputs.
    """
    classes = list(weights.values())[-1].shape[-2]
    soft = labels if labels.is_floating_point() else one_hot(labels, classes, inputs.dtype)
    run = backward_pass(weights, inputs, soft)
    count = inputs.shape[-2]
    if max_grad_norm is None:
        gradients = run.gradients(1.0 / count)
    else:
        factors = per_record_clip_factors(run.squared_norms(), max_grad_norm, by_layer)
        gradients = run.gradients([factor / count for factor in factors])
    return dict(zip(weights, gradients, strict=True))


def network_accuracy(
    weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the share of records that each network classifies correctly, shape (...), float64.

    Parameters
    ----------
    weights : mapping of str to Tensor, shape (..., rows, columns)
    inputs : Tensor, shape (n, d)
    labels : Tensor of integers, shape (n,)
    """
    layers = list(weights.values())
    fed = inputs
    for layer in layers[:-1]:
        fed = torch.sigmoid(fed @ layer.mT)
    right = (fed @ layers[-1].mT).argmax(dim=-1) == labels
    return right.to(torch.float64).mean(dim=-1)
