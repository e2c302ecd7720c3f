"""Robbing the Fed: records read off a manipulated layer's gradient (Fowl et al. 2022).

The server puts an imprint module in front of the network
(:class:`~reconrisk.convnets.ImprintNetwork`). Its neurons compare one measurement of a record with
increasing thresholds, so that the gradients of adjacent neurons differ only by the records between
their thresholds. A record alone in its bin is recovered exactly; several give a weighted mean. One
of the attacks of Liu et al., Table 4.
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
    """The records read from each bin.

    Attributes
    ----------
    records : Tensor, shape (P, k, d)
        The bins' weighted means of records; zero where nothing was found.
    strength : Tensor, shape (P, k)
        Absolute difference of adjacent bias gradients, by which the records are divided.
    found : Tensor of bool, shape (P, k)
        Whether the strength exceeds noise and rounding.
    """

    records: torch.Tensor
    strength: torch.Tensor
    found: torch.Tensor


def imprint_thresholds(measured: torch.Tensor, count: int) -> torch.Tensor:
    """Return thresholds that split auxiliary measurements into bins of equal size, shape (k,).

    Parameters
    ----------
    measured : Tensor, shape (N,)
        ``h.x`` of records similar to the private ones, with more than k different values.
    count : int
        k >= 1. The last bin is open above; the first begins a full range below the least
        measurement, so that hardly any record falls below it.

    Raises
    ------
    ValueError
        If the quantiles do not all differ.
    """
    arguments.integer("count", count, 1)
    if measured.ndim != 1 or len(measured) < 2:
        raise ValueError(
            f"measured must be a vector of at least 2 values; got shape {tuple(measured.shape)}"
        )
    levels = torch.arange(count, dtype=measured.dtype, device=measured.device) / count
    thresholds = torch.quantile(measured, levels)
    thresholds[0] = 2 * measured.min() - measured.max()
    if not bool((thresholds.diff() > 0).all()):
        raise ValueError(f"measured must have more than {count} different values")
    return thresholds


def read_imprints(
    weights: torch.Tensor, biases: torch.Tensor, *, noise_std: float = 0.0
) -> Imprints:
    """Read each bin's record from the gradient of the imprint layer.

    Parameters
    ----------
    weights : Tensor, shape (P, k, d)
    biases : Tensor, shape (P, k)
    noise_std : float
        Standard deviation of the noise on each entry, >= 0. A bin counts as empty below four
        standard deviations of its difference, where the ratio would be noise.

    Returns
    -------
    Imprints

    Notes
    -----
    Cost: ``k d`` subtractions and divisions a problem.
    """
    if weights.ndim != 3 or weights.shape[:2] != biases.shape:
        raise ValueError(
            "weights and biases must have shapes (P, k, d) and (P, k); "
            f"got {tuple(weights.shape)} and {tuple(biases.shape)}"
        )
    arguments.real("noise_std", noise_std, 0, high_open=True)
    # the last bin has no neuron above it
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
    """Return the n strongest bins of each update as its batch, strongest first.

    Parameters
    ----------
    network : ImprintNetwork
    released, knowledge
        As in :func:`~reconrisk.attacks.invert_updates`. Only the batch size and the records' shape
        are used, and only the noise of a defence is accounted for.
    generator : torch.Generator, optional
        Not used: the attack is deterministic.
    noise_std : float
        As in :func:`read_imprints`.
    box : tuple of float, optional
        Range of the values, to which records are clipped; missing records are its midpoint (zero
        without a box).
    layer : str
        The layer's name in the network.

    Returns
    -------
    Inversion
        ``loss`` is the share of the batch for which no bin was found.

    Raises
    ------
    ValueError
        If there is no such layer, or it has fewer neurons than the batch has records.
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
    the Fed recovers exactly. The published code takes all occupancy numbers of the bins as equally
    likely, which they are not for independent records, and reports a smaller share.

    Parameters
    ----------
    batch_size : array_like of int, shape (...)
        n >= 1, independent records.
    probabilities : array_like, shape (k,), or int
        Probability of each bin, with sum at most 1 (other records are in no bin); or the number k
        of equal bins.

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
        raise ValueError(f"probabilities must have sum at most 1; got sum {p.sum()!r}")
    return np.sum(p * (1 - p) ** (n[..., None] - 1), axis=-1)
