"""Robbing the Fed: records read off a manipulated layer's gradient (Fowl et al. 2022).

The server puts an imprint module in front of the network
(:class:`~reconrisk.convnets.ImprintNetwork`). Its neurons take one measurement of a record and
compare it with increasing thresholds, so that the gradients of adjacent neurons differ by the
records in between alone. One record in a bin is exact; several come out as a weighted mean. One of
the attacks of Liu et al., Table 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from reconrisk import arguments
from reconrisk.attacks._interface import Knowledge
from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.mechanisms import Released

__all__ = ["Imprints", "imprint_attack", "imprint_thresholds", "isolated_share", "read_imprints"]


@dataclass(frozen=True)
class Imprints:
    """What each bin holds.

    Attributes
    ----------
    records : Tensor, shape (P, k, d)
        The bins' weighted means of records; zero where nothing was found.
    strength : Tensor, shape (P, k)
        Size of the difference of adjacent biases' gradients, by which the records are divided.
    found : Tensor of bool, shape (P, k)
        Whether that is above noise and rounding.
    """

    records: torch.Tensor
    strength: torch.Tensor
    found: torch.Tensor


def imprint_thresholds(measured: torch.Tensor, count: int) -> torch.Tensor:
    """Return k increasing thresholds with equal shares of auxiliary measurements between them.

    Parameters
    ----------
    measured : Tensor, shape (N,)
        ``h.x`` of records like those to come, more than k different ones.
    count : int
        k >= 1. The last bin is open above; the first begins a full range below the least
        measurement, so that hardly any record falls out.

    Raises
    ------
    ValueError
        If the quantiles do not all differ.
    """
    arguments.integer("count", count, 1)
    if measured.ndim != 1 or len(measured) < 2:
        raise ValueError(f"measured must be a vector; got shape {tuple(measured.shape)}")
    levels = torch.arange(count, dtype=measured.dtype, device=measured.device) / count
    thresholds = torch.quantile(measured, levels)
    thresholds[0] = 2 * measured.min() - measured.max()
    if not bool((thresholds.diff() > 0).all()):
        raise ValueError(f"measured must have more than {count} different values")
    return thresholds


def read_imprints(
    weights: torch.Tensor, biases: torch.Tensor, *, noise_std: float = 0.0
) -> Imprints:
    """Read the bins off the imprint layer's gradient.

    Parameters
    ----------
    weights : Tensor, shape (P, k, d)
    biases : Tensor, shape (P, k)
    noise_std : float
        Of the noise on each entry, >= 0: a bin counts as empty below four standard deviations of
        its difference, where a ratio would be of noise alone.

    Returns
    -------
    Imprints

    Notes
    -----
    ``k d`` subtractions and divisions a problem.
    """
    if weights.ndim != 3 or weights.shape[:2] != biases.shape:
        raise ValueError(
            "weights and biases must have shapes (P, k, d) and (P, k); "
            f"got {tuple(weights.shape)} and {tuple(biases.shape)}"
        )
    arguments.real("noise_std", noise_std, 0, high_open=True)
    # above the last threshold there is no other neuron
    rows = weights - torch.cat([weights[:, 1:], torch.zeros_like(weights[:, :1])], dim=1)
    sums = biases - torch.cat([biases[:, 1:], torch.zeros_like(biases[:, :1])], dim=1)
    rounding = 64 * torch.finfo(biases.dtype).eps * biases.abs().amax(dim=1, keepdim=True)
    found = sums.abs() > torch.clamp(rounding, min=4 * math.sqrt(2) * noise_std)
    divisor = torch.where(found, sums, 1.0)
    records = torch.where(found[..., None], rows / divisor[..., None], 0.0)
    return Imprints(records, sums.abs(), found)


def imprint_attack(
    network: nn.Module,
    released: Released,
    knowledge: Knowledge,
    *,
    generator: torch.Generator | None = None,
    noise_std: float = 0.0,
    box: tuple[float, float] | None = (0.0, 1.0),
    layer: str = "imprint",
) -> Inversion:
    """Return the n strongest bins of each update as its batch, in the order of their strength.

    Parameters
    ----------
    network : ImprintNetwork
    released, knowledge
        As in :func:`~reconrisk.attacks.invert_updates`; of the knowledge, the batch's size and the
        records' shape. Nothing of the defence is allowed for but its noise.
    generator : torch.Generator, optional
        Not used: nothing is random.
    noise_std : float
        As in :func:`read_imprints`.
    box : tuple of float, optional
        Range of the values, to which records are clipped; bins not found are its middle (zero
        without one).
    layer : str
        The layer's name in the network.

    Returns
    -------
    Inversion
        ``loss`` is the share of the batch for which no bin was found.
    """
    try:
        weights, biases = released.gradient[f"{layer}.weight"], released.gradient[f"{layer}.bias"]
    except KeyError:
        raise ValueError(
            f"layer must name an imprint layer of the network; got {layer!r}"
        ) from None
    count = knowledge.labels.shape[1]
    arguments.integer("batch size", count, 1, weights.shape[1])
    bins = read_imprints(weights, biases, noise_std=noise_std)
    ranked = torch.where(bins.found, bins.strength, -1.0).topk(count, dim=1)
    index = ranked.indices[..., None].expand(-1, -1, weights.shape[2])
    records = bins.records.gather(1, index)
    found = ranked.values >= 0
    if box is not None:
        records = records.clamp(*box)
        records = torch.where(found[..., None], records, sum(box) / 2)
    missing = 1 - found.to(weights.dtype).mean(dim=1)
    return Inversion(records.unflatten(2, knowledge.shape), missing)


def isolated_share(batch_size: ArrayLike, probabilities: ArrayLike) -> np.ndarray:
    """Return the expected share of a batch's records that are alone in their bin.

    ``sum_j p_j (1 - p_j)^(n - 1)``, for k equal bins ``(1 - 1/k)^(n - 1)``: the share that Robbing
    the Fed recovers exactly. The published code counts as if all ways to fill the bins were equally
    likely, which independent records' are not, and promises less.

    Parameters
    ----------
    batch_size : array_like of int, shape (...)
        n >= 1, independent records.
    probabilities : array_like, shape (k,), or int
        Of each bin, at most 1 in all (what is missing falls out of all bins); or the number k of
        equal bins.

    Returns
    -------
    ndarray, shape (...)
    """
    n = arguments.integer("batch_size", batch_size, 1)
    if np.ndim(probabilities) == 0:
        bins = int(arguments.integer("probabilities", probabilities, 1))
        return (1 - 1 / bins) ** (n - 1)
    p = arguments.real("probabilities", probabilities, 0, 1)
    if p.sum() > 1 + 1e-12:
        raise ValueError(f"probabilities must not exceed 1 in all; got {p.sum()!r}")
    return np.sum(p * (1 - p) ** (n[..., None] - 1), axis=-1)
