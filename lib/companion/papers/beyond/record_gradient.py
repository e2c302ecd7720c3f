"""One record's clipped gradient at each of many models, differentiable in the record."""

import math

import torch

from reconrisk.training import Weights


def clipped_gradient(
    weights: Weights, record: torch.Tensor, label: torch.Tensor, max_grad_norm: float = math.inf
) -> Weights:
    """One record's clipped gradient at each of T models with a hidden layer, shape (T, ...).

    ``weights`` have shape (T, ...), ``record`` (d,) and ``label`` ().
    """
    responses = weights["hidden.weight"] @ record + weights["hidden.bias"]
    hidden = torch.nn.functional.elu(responses)
    logits = (weights["output.weight"] @ hidden[..., None])[..., 0] + weights["output.bias"]
    wanted = (torch.arange(logits.shape[-1], device=logits.device) == label).to(logits.dtype)
    outer = logits.softmax(dim=-1) - wanted
    back = (outer[..., None, :] @ weights["output.weight"])[..., 0, :]
    inner = back * (hidden.clamp(max=0) + 1)
    if math.isfinite(max_grad_norm):
        squared = outer.square().sum(dim=-1) * (hidden.square().sum(dim=-1) + 1)
        squared = squared + inner.square().sum(dim=-1) * (record.square().sum() + 1)
        factor = (max_grad_norm * squared.rsqrt()).clamp(max=1)[..., None]
        outer, inner = factor * outer, factor * inner
    return {
        "hidden.weight": inner[..., None] * record,
        "hidden.bias": inner,
        "output.weight": outer[..., None] * hidden[..., None, :],
        "output.bias": outer,
    }
