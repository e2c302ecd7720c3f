"""Gradients of a sigmoid network in closed form, and how they change with the records.

One backward pass of a fully connected network is a few products of small matrices. Written out,
they run for many networks and batches at once, per-record norms cost next to nothing, and the
derivative of any function of the gradients with respect to the records (what every gradient
inversion attack descends along) is five products more instead of a second graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from reconrisk.training._factors import Weights

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
    """What one forward and backward pass of n records leaves behind, layer by layer.

    ``...`` stands for the axes of the networks and batches: none, or (P,).

    Attributes
    ----------
    weights : list of Tensor, shape (..., rows, columns)
    fed : list of Tensor, shape (..., n, columns)
        What each layer was fed; the first is the records.
    slopes : list of Tensor, shape (..., n, rows)
        Derivative of each hidden layer's activation; one entry fewer than layers.
    returned : list of Tensor, shape (..., n, rows)
        Derivative of each record's loss with respect to each hidden layer's activations.
    deltas : list of Tensor, shape (..., n, rows)
        Derivative of each record's loss with respect to each layer's responses.
    probabilities : Tensor, shape (..., n, classes)
        The softmax.
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
            One factor for all, or each layer's factor of each record.
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
            V: the derivative of some function of the summed gradients ``G = gradients(1.0)``.

        Returns
        -------
        Tensor, shape (..., n, d)

        Notes
        -----
        Reverse mode by hand. Cost: three products with ``n d h1`` multiplications; the forward and
        backward pass took two.
        """
        responses = self.pull_back_to_responses(cotangents)
        return self.deltas[0] @ cotangents[0] + responses @ self.weights[0]

    def pull_back_to_responses(self, cotangents: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return :meth:`pull_back` as far as the first layer's responses, shape (..., n, h1).

        The derivative with respect to the records is ``deltas[0] @ V_1`` plus this times the first
        layer's weights; who does that again and again can do it in one product and in place.
        """
        hidden = len(self.slopes)
        # from the first layer up: how the result depends on the deltas ...
        towards_delta = self.fed[0] @ cotangents[0].mT
        through_fed = []  # ... and, directly, on what each hidden layer hands on
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
        # from the loss down again: softmax, then each layer's responses
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
        """Return how each record's gradient changes when the record moves in given directions.

        Forward mode by hand: a record changes no gradient but its own, so that one pass with k
        directions gives all n k columns of the batch's Jacobian.

        Parameters
        ----------
        directions : Tensor, shape (..., k, d)
            The same for every record of a batch.
        max_grad_norm, by_layer
            As in :func:`mean_gradient`: the derivative of clipped gradients.

        Returns
        -------
        list of Tensor, shape (..., n, k, rows, columns)
            Layer by layer.

        Notes
        -----
        Cost: the result's entries, twice.
        """
        # each layer's (..., n, k, units), the middle axis over directions
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
            # C / |g| changes by -C / (2 |g|^3) times the squared norm's change; 1 does not change
            change = torch.where(factor < 1, -0.5 * factor / norm, 0)[..., None] * d_norm
            scale = factor[..., None, None]
            left = scale * d_delta + change[..., None] * delta[..., None, :]
            right = (scale * delta[..., None, :])[..., None] * d_fed[..., None, :]
            result.append(left[..., None] * fed[..., None, None, :] + right)
        return result


def backward_pass(
    weights: Mapping[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor
) -> BackwardPass:
    """Run the softmax cross-entropy of every record forward and backward through the networks.

    Parameters
    ----------
    weights : mapping of str to Tensor, shape (..., rows, columns)
        In the order of the layers, as :class:`reconrisk.models.SigmoidNetwork` names them; without
        leading axes one network is used for all batches.
    inputs : Tensor, shape (n, d) or (..., n, d)
    targets : Tensor, shape (n, classes) or (..., n, classes)
        Probabilities of the classes: see :func:`one_hot`.

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
    # class by class: a softmax over the ten last entries would be the slowest step of all
    probabilities = (layers[-1] @ fed[-1].mT).softmax(dim=-2).mT
    deltas = [probabilities - targets]
    returned = []
    for layer, slope in zip(layers[:0:-1], slopes[::-1], strict=True):
        returned.append(deltas[-1] @ layer)
        deltas.append(returned[-1] * slope)
    return BackwardPass(layers, fed, slopes, returned[::-1], deltas[::-1], probabilities)


def one_hot(labels: torch.Tensor, classes: int, dtype: torch.dtype) -> torch.Tensor:
    """Return labels (..., n) as probabilities of the classes, shape (..., n, classes)."""
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
        True clips every layer's gradient to C on its own; False clips all of them together.
    """
    # a gradient that vanishes is not clipped; the floor keeps its derivative finite
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
    """Return the batches' average gradient, shaped as the weights: what plain SGD leaks.

    Parameters
    ----------
    weights, inputs
        As in :func:`backward_pass`.
    labels : Tensor of integers, shape (n,) or (..., n); or of probabilities, (..., n, classes)
    max_grad_norm : float, optional
        C > 0, to clip every record's gradient before the average.
    by_layer : bool
        Whether every layer is clipped to C on its own, or all of them together.

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
    """Return every network's share of records it classifies rightly, shape (...), float64.

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
