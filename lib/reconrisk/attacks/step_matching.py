"""Steps without labels: which releases are of the same record, found by clustering.

An attacker who meets a record in several steps can average its copies, if it can tell which steps
drew it. *From Mean to Extreme*, Section 4.3, assumes that it can and leaves the strategy open.
:func:`match_steps` is one: the releases' leading principal components, and k-means on them.
:func:`matching_limit` is the noise from which on those components show nothing. It limits this
method alone: who knows more of the records, for instance that they are smooth, filters first.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.cluster.vq import ClusterError, kmeans2

from reconrisk import arguments

__all__ = ["average_matched", "match_steps", "matching_limit"]


def match_steps(
    released: torch.Tensor, records: int, rng: np.random.Generator, *, restarts: int = 10
) -> np.ndarray:
    """Return which of ``records`` clusters each release belongs to, shape (T,).

    Parameters
    ----------
    released : Tensor, shape (T, N)
        Copies of unknown records, one a step, with independent noise of one variance.
    records : int
        How many records there are, from 1 to T.
    rng : Generator
        Source of the first centres.
    restarts : int
        Runs of k-means, of which the one with the least distortion counts.

    Returns
    -------
    ndarray of int, shape (T,)
        Numbers of clusters, which have no order.

    Raises
    ------
    ValueError
        If ``released`` is not a matrix or ``records`` is out of its range.

    Notes
    -----
    Time is ``T^2 N + T^3``. The space of the differences of n records has n - 1 dimensions: in the
    leading principal components as much of the signal is left as can be, and little of the noise.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from reconrisk import attacks
    >>> released = torch.tensor([[0.0, 1.0], [5.0, 5.0], [0.1, 1.0], [5.0, 5.1]])
    >>> found = attacks.match_steps(released, 2, np.random.default_rng(0))
    >>> bool(found[0] == found[2] != found[1] == found[3])
    True
    """
    if released.ndim != 2:
        raise ValueError(f"released must have shape (T, N); got {tuple(released.shape)}")
    count = int(arguments.integer("records", records, 1, len(released)))
    restarts = int(arguments.integer("restarts", restarts, 1))
    if count == 1:
        return np.zeros(len(released), dtype=int)
    centred = (released - released.mean(dim=0)).double()
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    scales = values[1 - count :].clamp(min=0).sqrt()
    coordinates = (vectors[:, 1 - count :] * scales).cpu().numpy()
    best, least = np.zeros(len(released), dtype=int), math.inf
    for _ in range(restarts):
        try:
            centres, found = kmeans2(coordinates, count, minit="++", missing="raise", seed=rng)
        except ClusterError:  # a cluster became empty: another start
            continue
        distortion = float(((coordinates - centres[found]) ** 2).sum())
        if distortion < least:
            best, least = found, distortion
    return best


def average_matched(released: torch.Tensor, matched: np.ndarray, records: int) -> torch.Tensor:
    """Return the mean release of every cluster, shape (records, N); of all for an empty one.

    Parameters
    ----------
    released : Tensor, shape (T, N)
    matched : ndarray of int, shape (T,)
        Clusters from 0 to ``records - 1``.
    records : int

    Examples
    --------
    >>> import numpy as np, torch
    >>> from reconrisk import attacks
    >>> attacks.average_matched(torch.tensor([[1.0], [3.0], [5.0]]), np.array([1, 1, 0]), 2)
    tensor([[5.],
            [2.]])
    """
    records = arguments.count("records", records)
    index = torch.as_tensor(matched, dtype=torch.long, device=released.device)
    sums = released.new_zeros(records, released.shape[1]).index_add(0, index, released)
    counts = torch.bincount(index, minlength=records)[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), released.mean(dim=0))


def matching_limit(records: np.ndarray, steps: int) -> float:
    """Return the noise from which on the releases' principal components show nothing of records.

    Parameters
    ----------
    records : ndarray, shape (n, N)
        At least two; each is drawn as often as the others.
    steps : int
        T >= 1.

    Returns
    -------
    float
        Standard deviation s of a value's noise: ``s^2 = L sqrt(T/N)`` with L the largest eigenvalue
        of the records' covariance (Baik, Ben Arous and Péché, 2005, in the limit of many steps and
        values): below it a component stands out of the noise, above it none does.

    Raises
    ------
    ValueError
        If there are fewer than two records.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import attacks
    >>> round(attacks.matching_limit(np.array([[1.0, 0.0], [-1.0, 0.0]]), steps=32), 6)
    2.0
    """
    values = arguments.real("records", records, -np.inf, np.inf, low_open=True, high_open=True)
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"records must have shape (n, N), n >= 2; got {values.shape}")
    steps = int(arguments.integer("steps", steps, 1))
    centred = values - values.mean(axis=0)
    largest = float(np.linalg.eigvalsh(centred @ centred.T)[-1]) / len(values)
    return math.sqrt(largest * math.sqrt(steps / values.shape[1]))
