"""Von Mises-Fisher noise: random directions around a given one.

A draw is ``w mu + sqrt(1 - w**2) v``, where ``w`` is its cosine with the mean direction ``mu`` and
``v`` is uniform on the unit sphere orthogonal to ``mu``. The cosine comes from Wood's rejection
sampler (1994), reformulated without cancellation at large concentrations; ``v`` is the normalised
projection of a Gaussian vector onto the orthogonal complement of ``mu``. So a draw costs one
Gaussian vector, two inner products and one linear combination, without a rotation or a p-by-p
matrix.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk.mechanisms._gradients import Gradient

__all__ = ["add_vmf_noise", "sample_vmf", "vmf_cosines"]

# entries of a block of rows, which fits in the processor's cache
_BLOCK_ENTRIES = 1 << 15
# From this dimension on, the subtraction of squares loses half of the digits with probability below
# 1e-100, and the squared norm of the orthogonal part may be computed as a difference.
_MANY = 64
# number of products that are summed in single precision before these sums are added in double
_STRETCH = 1 << 14


def vmf_cosines(
    dimension: int, concentration: ArrayLike, rng: np.random.Generator, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw cosines (and sines) of the angle between a von Mises-Fisher vector and its mean.

    Parameters
    ----------
    dimension : int
        p >= 2.
    concentration : array_like, scalar or shape (size,)
        kappa in [0, 1e12].
    rng : numpy.random.Generator
        Source of the draws.
    size : int
        Number of draws, >= 0.

    Returns
    -------
    cosine, sine : ndarray, shape (size,)
        The density of the cosine is proportional to ``exp(kappa w) (1 - w**2)**((p-3)/2)``. The
        sine, in [0, 1], is computed without the cancellation in ``sqrt(1 - w**2)``.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    Wood's proposal is ``w = (1 - t)/(1 + t)`` with ``t = b G1/G2``, gamma variables ``G1, G2`` of
    shape ``(p-1)/2`` and ``b = (p-1)/(2 kappa + sqrt(4 kappa**2 + (p-1)**2))``. At least 65% of the
    proposals are accepted at every concentration and dimension.
    """
    p = float(arguments.integer("dimension", dimension, 2))
    count = int(arguments.integer("size", size, 0))
    kappa = arguments.real("concentration", concentration, 0, 1e12)
    kappa = np.broadcast_to(kappa, (count,))
    b = (p - 1.0) / (2.0 * kappa + np.hypot(2.0 * kappa, p - 1.0))
    cosine, sine = np.empty(count), np.empty(count)
    missing = np.arange(count)
    while missing.size:
        g1, g2 = rng.standard_gamma(0.5 * (p - 1.0), (2, missing.size))
        log_uniform = np.log1p(-rng.random(missing.size))
        bb = b[missing]
        valid = g1 + g2 > 0.0  # in two dimensions both can underflow
        total = np.where(valid, g2 + bb * g1, 1.0)
        # 1 - w, and 1 - x0 with Wood's x0 = (1 - b)/(1 + b)
        below_one = 2.0 * bb * g1 / total
        fixed = 2.0 * bb / (1.0 + bb)
        # x0 (x0 - w)/(1 - x0**2): the relative change of Wood's second factor
        change = (1.0 - bb) * (1.0 + bb) / (4.0 * bb) * (below_one - fixed)
        log_ratio = kappa[missing] * (fixed - below_one) + (p - 1.0) * np.log1p(change)
        accepted = (log_uniform <= log_ratio) & valid
        rows = missing[accepted]
        cosine[rows] = 1.0 - below_one[accepted]
        sine[rows] = (2.0 * np.sqrt(bb * g1) * np.sqrt(g2) / total)[accepted]
        missing = missing[~accepted]
    return cosine, sine


def sample_vmf(
    mean_direction: ArrayLike,
    concentration: ArrayLike,
    seed: int | np.random.Generator,
    size: int | None = None,
) -> np.ndarray:
    """Draw unit vectors from the von Mises-Fisher distribution around given directions.

    Parameters
    ----------
    mean_direction : array_like, shape (p,) or (n, p)
        Vectors of any positive norm, of which only the direction matters; p >= 2.
    concentration : array_like, scalar or shape (n,)
        kappa in [0, 1e12]; zero is the uniform distribution on the sphere.
    seed : int or numpy.random.Generator
        A generator is advanced.
    size : int, optional
        Number of draws around one direction; not with several directions.

    Returns
    -------
    ndarray, shape (p,), (size, p) or (n, p), float64
        Unit vectors, up to rounding.

    Raises
    ------
    ValueError
        If a direction is zero or not finite, or an argument is out of its range or shape.

    Notes
    -----
    Exact for every concentration. Cost: one Gaussian vector per draw, and about a fifth of that for
    the rest; memory for the result and one block of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import mechanisms
    >>> drawn = mechanisms.sample_vmf(np.eye(100)[0], 50.0, seed=0, size=2000)
    >>> round(float(drawn[:, 0].mean()), 2), bool(np.allclose(np.linalg.norm(drawn, axis=1), 1))
    (0.42, True)
    """
    mu, length = _directions(mean_direction)
    if mu.ndim == 2 and size is not None:
        raise ValueError(f"size must be None with several rows of mean_direction; got {size!r}")
    draws = 1 if size is None else int(arguments.integer("size", size, 0))
    count = mu.shape[0] if mu.ndim == 2 else draws
    if not isinstance(seed, np.random.Generator):
        seed = arguments.count("seed", seed, 0)
    rng = np.random.default_rng(seed)
    p = mu.shape[-1]
    cosine, sine = vmf_cosines(p, concentration, rng, count)
    out = np.empty((count, p))
    rows = max(_BLOCK_ENTRIES // p, 1)
    for start in range(0, count, rows):
        block = slice(start, min(start + rows, count))
        rng.standard_normal(out=out[block])
        row = block if mu.ndim == 2 else slice(None)
        _combine(out[block], mu[row], length[row], cosine[block], sine[block])
    return out[0] if mu.ndim == 1 and size is None else out


def _directions(mean_direction: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions, rescaled if their squares overflow or underflow, and their norms."""
    mu = np.asarray(mean_direction, dtype=float)
    if mu.ndim not in (1, 2) or mu.shape[-1] < 2:
        raise ValueError(f"mean_direction must have shape (p,) or (n, p), p >= 2; got {mu.shape}")
    with np.errstate(over="ignore", under="ignore"):
        length = np.sqrt(_inner_rows(mu, mu))
    if not np.all((length > 1e-140) & (length < 1e140)):
        largest = np.max(np.abs(mu), axis=-1)
        valid = (largest > 0.0) & np.isfinite(largest)
        if not np.all(valid):
            wrong = np.asarray(largest)[~valid].item(0)
            raise ValueError(
                f"mean_direction must be finite and not zero; got a largest entry of {wrong!r}"
            )
        mu = mu / largest[..., None]
        length = np.sqrt(_inner_rows(mu, mu))
    return mu, np.atleast_1d(length)


def _inner_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)


def _combine(
    noise: np.ndarray, mu: np.ndarray, length: np.ndarray, cosine: np.ndarray, sine: np.ndarray
) -> None:
    """Turn Gaussian rows, in place, into ``cosine mu/length + sine v``, v orthogonal to mu."""
    along = _inner_rows(noise, mu) / length
    if mu.shape[-1] < _MANY:
        # project twice: for rows nearly parallel to mu, once does not make them orthogonal
        noise -= (along / length)[:, None] * mu
        noise -= (_inner_rows(noise, mu) / length**2)[:, None] * mu
        along = np.zeros(noise.shape[0])
    scale = sine / np.sqrt(_inner_rows(noise, noise) - along * along)
    noise *= scale[:, None]
    noise += ((cosine - scale * along) / length)[:, None] * mu


def add_vmf_noise(
    gradient: Mapping[str, torch.Tensor], concentration: ArrayLike, generator: torch.Generator
) -> Gradient:
    """Perturb the direction of every example's gradient by von Mises-Fisher noise.

    All parameters together are one vector, which is normalised and replaced by a draw around its
    direction (Biswas et al. 2024, Algorithm 2, lines 10 and 11). The output does not depend on the
    gradient's norm.

    Parameters
    ----------
    gradient : mapping of str to Tensor, shape (examples, ...)
        Not zero for any example.
    concentration : array_like, scalar or shape (examples,)
        kappa in [0, 1e12].
    generator : torch.Generator
        Source of the noise, on the gradient's device.

    Returns
    -------
    Gradient
        Same names, shapes, types and device; of norm one over all parameters together.

    Raises
    ------
    ValueError
        If a gradient is zero or not finite, or the concentration is out of its range.

    Notes
    -----
    The Gaussian vectors are drawn on the device in the gradient's precision; inner products are
    summed in double precision. The cosines are drawn on the CPU in double precision, from a seed
    drawn from the generator. Memory: little more than the result.
    """
    flat = [g.flatten(1) for g in gradient.values()]
    length = torch.sqrt(_square_parts(flat))
    valid = (length > 0) & torch.isfinite(length)
    if not bool(torch.all(valid)):
        raise ValueError(
            "gradient must be finite and not zero for every example; got norms of "
            f"{length[~valid].tolist()[:3]}"
        )
    p = sum(part.shape[1] for part in flat)
    seed = torch.randint(2**62, (1,), generator=generator, device=generator.device)
    rng = np.random.default_rng(int(seed))
    cosine, sine = (
        torch.from_numpy(x).to(length.device)
        for x in vmf_cosines(p, concentration, rng, length.shape[0])
    )
    noise = [torch.empty_like(part).normal_(0, 1, generator=generator) for part in flat]
    along = _inner_parts(noise, flat) / length
    if p < _MANY:
        for _ in range(2):
            _add_parts(noise, -_inner_parts(noise, flat) / length**2, flat)
        along = torch.zeros_like(along)
    scale = sine / torch.sqrt(_square_parts(noise) - along * along)
    for part in noise:
        part.mul_(scale.to(part.dtype)[:, None])
    _add_parts(noise, (cosine - scale * along) / length, flat)
    return {
        name: part.reshape(g.shape) for (name, g), part in zip(gradient.items(), noise, strict=True)
    }


Parts = list[torch.Tensor]  # one tensor per parameter, shape (examples, entries)


def _inner_parts(a: Parts, b: Parts) -> torch.Tensor:
    """Return row-wise inner products, summed over short stretches, then in double precision."""
    sums = [
        torch.linalg.vecdot(x, y).double()
        for u, v in zip(a, b, strict=True)
        for x, y in zip(u.split(_STRETCH, dim=1), v.split(_STRETCH, dim=1), strict=True)
    ]
    return torch.stack(sums).sum(dim=0)


def _square_parts(a: Parts) -> torch.Tensor:
    """Return the squared norm of each row, summed as in :func:`_inner_parts`, in one pass."""
    norms = [
        torch.linalg.vector_norm(x, dim=1).double() for u in a for x in u.split(_STRETCH, dim=1)
    ]
    return torch.stack(norms).square().sum(dim=0)


def _add_parts(a: Parts, factor: torch.Tensor, b: Parts) -> None:
    """Add ``factor`` times ``b`` to ``a`` in place, one factor per row."""
    for u, v in zip(a, b, strict=True):
        u.addcmul_(v, factor.to(u.dtype)[:, None])
