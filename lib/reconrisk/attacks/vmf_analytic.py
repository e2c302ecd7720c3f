"""Attacks on von Mises-Fisher noise (paper D's mechanism).

The output's density depends only on its cosine with the true direction. The likelihood of a
candidate is therefore ``exp(kappa <direction, output>)``, and the row mean of the analytic
inversion is a multiple of the record plus noise that is symmetric around it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk.attacks.analytic import Observation
from reconrisk.mechanisms import add_vmf_noise, global_norm, vmf_cosines
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.privacy import vmf_mean_cosine
from reconrisk.training import per_example_gradients

__all__ = [
    "draw_vmf_scores",
    "observe_vmf",
    "vmf_attack_success",
]

_CHUNK_SCORES = 1 << 20


def draw_vmf_scores(
    cosines: ArrayLike,
    dimension: int,
    concentration: float,
    target: ArrayLike,
    rng: np.random.Generator,
    steps: int = 1,
) -> np.ndarray:
    """Draw the candidates' scores ``sum_t <mu_j, y_t>`` without drawing vectors of length p.

    Only the projection of an output onto the candidates' span matters: its cosine with the target,
    and part of a uniform orthogonal direction, whose length is a ratio of chi-square variables.

    Parameters
    ----------
    cosines : array_like, shape (n, n)
        Cosines between the candidates' directions.
    dimension : int
        p >= 2, at least the rank of ``cosines``.
    concentration : float
        kappa in [0, 1e12].
    target : array_like of int, shape (K,)
        Each attack's true candidate.
    rng : numpy.random.Generator
    steps : int
        T, the number of releases from the same direction.

    Returns
    -------
    ndarray, shape (K, n)

    Raises
    ------
    ValueError
        If ``cosines`` is not a positive semi-definite matrix with ones on its diagonal.

    Notes
    -----
    Cost: ``T K n**2`` operations, independent of p.
    """
    g, root, span = _root(cosines)
    rank = int(round(float(np.trace(span))))
    p = int(arguments.integer("dimension", dimension, max(2, rank)))
    count = int(arguments.integer("steps", steps, 1))
    chosen = np.asarray(target, dtype=int)
    out = np.zeros((chosen.size, g.shape[0]))
    for _ in range(count):
        cosine, sine = vmf_cosines(p, concentration, rng, chosen.size)
        z = rng.standard_normal(out.shape) @ span
        outside = rng.chisquare(p - rank, chosen.size) if p > rank else 0.0
        inner = z @ root
        along = np.take_along_axis(inner, chosen[:, None], axis=1)
        # in one dimension nothing is orthogonal: the sine is then zero as well
        across = np.sum(z * z, axis=1) + outside - along[:, 0] ** 2
        scale = sine / np.sqrt(np.maximum(across, 1e-300))
        out += (cosine - scale * along[:, 0])[:, None] * g[chosen] + scale[:, None] * inner
    return out


def _root(cosines: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the matrix, its symmetric root and the projection onto its range."""
    g = arguments.real("cosines", cosines, -1 - 1e-6, 1 + 1e-6)
    if g.ndim != 2 or g.shape[0] != g.shape[1] or np.any(np.abs(g - g.T) > 1e-6):
        raise ValueError(f"cosines must be a symmetric matrix; got shape {g.shape}")
    if np.any(np.abs(np.diag(g) - 1.0) > 1e-6):
        raise ValueError("cosines must have ones on its diagonal")
    g = 0.5 * (g + g.T)
    values, vectors = np.linalg.eigh(g)
    if values[0] < -1e-5 * g.shape[0]:
        raise ValueError(
            f"cosines must be positive semi-definite; got smallest eigenvalue {values[0]!r}"
        )
    # root and projection do not depend on the library's choice of eigenvectors
    kept = values > 1e-12 * g.shape[0]
    root = (vectors * np.sqrt(np.where(kept, values, 0.0))) @ vectors.T
    return g, root, (vectors * kept) @ vectors.T


def vmf_attack_success(
    cosines: ArrayLike,
    dimension: int,
    concentration: float,
    samples: int,
    rng: np.random.Generator,
    steps: int = 1,
) -> tuple[float, float]:
    """Estimate the success of the best attack on equally likely candidates of any geometry.

    Averages the largest posterior probability over simulated outputs, which has less variance than
    the success itself.

    Parameters
    ----------
    cosines, dimension, concentration, rng, steps
        As in :func:`draw_vmf_scores`.
    samples : int
        Draws, >= 2.

    Returns
    -------
    estimate, standard_error : float

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    count = int(arguments.integer("samples", samples, 2))
    n = np.shape(cosines)[0]
    chunk = max(1, _CHUNK_SCORES // n)
    best = []
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        target = rng.integers(n, size=size)
        drawn = draw_vmf_scores(cosines, dimension, concentration, target, rng, steps)
        scores = concentration * drawn
        top = scores.max(axis=1)
        best.append(1.0 / np.exp(scores - top[:, None]).sum(axis=1))
    values = np.concatenate(best)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(count))


def observe_vmf(
    inputs: torch.Tensor,
    concentration: float,
    generator: torch.Generator,
    *,
    rows: int = 1,
    bias: bool = False,
) -> Observation:
    """Release one step per record through the manipulated network under von Mises-Fisher noise.

    The counterpart of :func:`observe`: the gradient, all parameters as one vector, is normalised
    and perturbed by von Mises-Fisher noise. The release does not contain the record's norm, but
    with a bias the ratio of weight to bias gradient reveals it.

    Parameters
    ----------
    inputs : Tensor, shape (examples, N)
        The records, one step each; none may be zero.
    concentration : float
        kappa > 0.
    generator : torch.Generator
        Source of the noise, on the device of ``inputs``.
    rows : int
        M >= 1.
    bias : bool
        Whether the layer has a bias.

    Returns
    -------
    Observation
        Its ``scale`` is ``A_p(kappa)`` over the gradient's norm: the row mean's expectation is
        ``scale * X``. An attacker who knows the scale knows the record's norm.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    arguments.integer("rows", rows, 1)
    kappa = float(arguments.real("concentration", concentration, 0, 1e12, low_open=True))
    layer = AttackLayer(inputs.shape[1], rows, bias=bias, dtype=inputs.dtype).to(inputs.device)
    clean = per_example_gradients(layer, sum_of_outputs, inputs)
    noisy = add_vmf_noise(clean, kappa, generator)
    shrink = float(vmf_mean_cosine(sum(g[0].numel() for g in clean.values()), kappa))
    return Observation(
        row_mean=noisy["weight"].mean(dim=1),
        bias_mean=noisy["bias"].mean(dim=1) if bias else None,
        rows=None,
        scale=(shrink / global_norm(clean)).to(inputs.dtype),
        offset=None,
        input_scale=1.0,
    )
