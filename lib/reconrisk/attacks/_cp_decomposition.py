"""CP decomposition of symmetric tensors of order three, and joint one of sets of matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Cubes", "decompose_cubes", "decompose_jointly"]


@dataclass(frozen=True)
class Cubes:
    """A decomposition ``T = sum_i weights_i v_i (x) v_i (x) v_i``, approximately.

    Attributes
    ----------
    vectors : ndarray, shape (n, B)
        Unit rows.
    weights : ndarray, shape (n,)
    misfit : float
        Norm of the residual relative to the norm of T.
    """

    vectors: np.ndarray
    weights: np.ndarray
    misfit: float


def decompose_cubes(
    tensor: np.ndarray, rng: np.random.Generator, *, pencils: int = 20, sweeps: int = 100
) -> Cubes:
    """Decompose a symmetric tensor of shape (B, B, B) into the cubes of B unit vectors.

    Jennrich's method on random pencils, then alternating least squares from the pencil with the
    least misfit. (From B = 8 on a single pencil often has complex eigenvalues.)

    Parameters
    ----------
    tensor : ndarray, shape (B, B, B)
        Symmetric.
    rng : Generator
        Source of the pencils.
    pencils, sweeps : int
        Number of pencils, and of alternating sweeps at most.

    Returns
    -------
    Cubes

    Raises
    ------
    ValueError
        If the tensor is zero or not finite.

    Notes
    -----
    Cost: ``pencils`` eigenproblems of size B and ``sweeps`` times ``6 B^4`` multiplications.
    """
    if not (np.any(tensor) and np.all(np.isfinite(tensor))):
        raise ValueError(
            "tensor, the third moment of a released gradient, must be finite and not zero"
        )
    n = len(tensor)
    directions = rng.standard_normal((2, pencils, n))
    first, second = np.einsum("abc,tpc->tpab", tensor, directions)
    # the eigenvectors of first second^-1 do not depend on the lengths of the vectors
    ratios = np.linalg.solve(np.swapaxes(second, -1, -2), np.swapaxes(first, -1, -2))
    _, columns = np.linalg.eig(np.swapaxes(ratios, -1, -2))
    best = min(
        (_fit_weights(tensor, vectors.real.T) for vectors in columns), key=lambda c: c.misfit
    )
    polished = _fit_weights(tensor, _alternate(tensor, best.vectors, sweeps))
    return polished if polished.misfit < best.misfit else best


def _fit_weights(tensor: np.ndarray, vectors: np.ndarray) -> Cubes:
    """Return the normalised vectors with the weights of the least-squares fit."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    v = vectors / np.where(lengths > 0, lengths, 1.0)
    inner = np.einsum("abc,ia,ib,ic->i", tensor, v, v, v, optimize=True)
    gram = (v @ v.T) ** 3
    weights = np.linalg.lstsq(gram, inner, rcond=1e-12)[0]
    residual = tensor - np.einsum("i,ia,ib,ic->abc", weights, v, v, v, optimize=True)
    size = float(np.linalg.norm(tensor))
    return Cubes(v, weights, float(np.linalg.norm(residual)) / size if size > 0 else 0.0)


def _alternate(tensor: np.ndarray, start: np.ndarray, sweeps: int) -> np.ndarray:
    """Fit the three factors by alternating least squares; return their mean, (n, B)."""
    factors = [start.copy(), start.copy(), start.copy()]
    unfolded = tensor.reshape(len(tensor), -1)
    for _ in range(sweeps):
        before = factors[0]
        for mode in range(3):
            a, b = (factors[k] for k in range(3) if k != mode)
            products = (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
            gram = (a @ a.T) * (b @ b.T)
            # the tensor is symmetric: every unfolding is the same
            fitted = np.linalg.lstsq(gram, products @ unfolded.T, rcond=1e-12)[0]
            lengths = np.linalg.norm(fitted, axis=1, keepdims=True)
            factors[mode] = fitted / np.where(lengths > 0, lengths, 1.0)
        cosines = np.abs(np.einsum("ia,ia->i", before, factors[0]))
        if np.all(cosines > 1.0 - 1e-13):
            break
    lead = factors[0]
    for other in factors[1:]:
        signs = np.where(np.einsum("ia,ia->i", lead, other) < 0, -1.0, 1.0)
        lead = lead + signs[:, None] * other
    return lead


def decompose_jointly(
    slices: np.ndarray, rng: np.random.Generator, *, pencils: int = 20, sweeps: int = 100
) -> np.ndarray:
    """Decompose matrices jointly: n unit vectors with ``slices_k = sum_i weights_ki v_i v_i'``.

    Jennrich's method on random pairs of combinations of the slices, then alternating least
    squares. Two vectors are identified, up to sign, unless their weights are proportional.

    Parameters
    ----------
    slices : ndarray, shape (K, n, n)
        Symmetric; K >= 2 where n > 1.
    rng : Generator
    pencils, sweeps : int
        As in :func:`decompose_cubes`.

    Returns
    -------
    ndarray, shape (n, n)
        Unit rows.
    """
    n = slices.shape[1]
    if n == 1:
        return np.ones((1, 1))
    drawn = rng.standard_normal((2, pencils, len(slices)))
    first, second = np.einsum("tpk,kab->tpab", drawn, slices)
    # the ridge keeps combinations of few records' matrices regular
    ridge = 1e-9 * np.linalg.norm(second, axis=(1, 2))[:, None, None] * np.eye(n)
    ratios = np.linalg.solve(second + ridge, first)
    _, columns = np.linalg.eig(np.swapaxes(ratios, -1, -2))
    starts = [_unit_rows(vectors.real.T) for vectors in columns]
    best = min(starts, key=lambda rows: _residual_norm(slices, rows))
    left = right = best
    for _ in range(sweeps):
        before = left
        left = _refit_side(slices, left, right)
        right = _refit_side(slices, right, left)
        if np.all(np.abs(np.einsum("ia,ia->i", before, left)) > 1.0 - 1e-12):
            break
    signs = np.where(np.einsum("ia,ia->i", left, right) < 0, -1.0, 1.0)
    polished = _unit_rows(left + signs[:, None] * right)
    return min((polished, best), key=lambda rows: _residual_norm(slices, rows))


def _unit_rows(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def _pair_weights(slices: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Least-squares weights (K, n) of the outer products of left and right rows."""
    inner = np.einsum("kab,ia,ib->ik", slices, left, right, optimize=True)
    gram = (left @ left.T) * (right @ right.T)
    return np.linalg.lstsq(gram, inner, rcond=1e-12)[0].T


def _residual_norm(slices: np.ndarray, rows: np.ndarray) -> float:
    weights = _pair_weights(slices, rows, rows)
    fitted = np.einsum("ki,ia,ib->kab", weights, rows, rows, optimize=True)
    return float(np.linalg.norm(slices - fitted))


def _refit_side(slices: np.ndarray, old: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Refit the vectors on one side of the slices, with the weights of the previous ones."""
    weights = _pair_weights(slices, old, other)
    gram = (weights.T @ weights) * (other @ other.T)
    inner = np.einsum("kab,ki,ib->ia", slices, weights, other, optimize=True)
    return _unit_rows(np.linalg.lstsq(gram, inner, rcond=1e-12)[0])
