"""Temme's uniform expansion of the incomplete gamma functions, evaluated as logarithms.

DLMF section 8.12 (Temme 1979): with ``eta**2 / 2 = mu - log(1 + mu)``, ``mu = x/a - 1``, and
``S = sum_k c_k(eta) a**-k``,

    Q(a, x) = erfc(eta sqrt(a/2))/2 + exp(-a eta**2/2) S / sqrt(2 pi a).

The logarithm of the common factor ``exp(-a eta**2/2)`` is added separately, so that tails of any
size keep their relative accuracy.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy import special as sc

__all__ = ["coefficients", "log_smaller_tail"]

# eta's series converge up to |eta| = 2 sqrt(pi) = 3.54; ORDERS x TERMS serve a >= 20, |eta| <= 1.
ORDERS = 11
TERMS = 33


@lru_cache(maxsize=1)
def exact_coefficients() -> tuple[tuple[Fraction, ...], ...]:
    """Return the Taylor coefficients ``d[k][n]`` of ``c_k(eta)`` as exact fractions.

    ``mu = sum alpha_n eta**n`` (DLMF 8.12.11-ff.); ``c_0 = 1/mu - 1/eta`` and
    ``c_k = c_{k-1}'/eta + (-1)**k g_k/mu``, with ``g_k = (2k+1)!! alpha_{2k+1}`` the coefficients
    of Stirling's series for Gamma.
    """
    count = TERMS + 2 * ORDERS + 2
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        total = alpha[n - 1]
        for j in range(2, n):
            total -= j * alpha[j] * alpha[n + 1 - j]
        alpha.append(total / (n + 1))
    base = [Fraction(-1, 3)] + [(n + 2) * alpha[n + 2] for n in range(1, count)]
    rows = [base]
    factorial = 1
    for k in range(1, ORDERS):
        factorial *= 2 * k + 1
        g = (-1) ** k * factorial * alpha[2 * k + 1]
        previous = rows[-1]
        rows.append([g * base[n] + (n + 2) * previous[n + 2] for n in range(len(previous) - 2)])
    return tuple(tuple(row[:TERMS]) for row in rows)


@lru_cache(maxsize=1)
def coefficients() -> np.ndarray:
    """Return :func:`exact_coefficients` as floats, shape ``(ORDERS, TERMS)``."""
    return np.array([[float(c) for c in row] for row in exact_coefficients()])


def _series(a: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Return ``S`` to double precision, with as few terms as the extremes of the block allow."""
    d = coefficients()
    smallest = float(np.min(a))
    largest = float(np.max(np.abs(eta)))
    # |d[k, n]| falls like (2 sqrt(pi))**-n and k! (2 pi)**-k; the counts below keep 1e-17.
    orders = next(
        (k for k in range(1, ORDERS) if np.max(np.abs(d[k])) * smallest**-k < 1e-17), ORDERS
    )
    if largest < 1e-16:
        terms = 1
    else:
        terms = int(np.clip(np.ceil(39.0 / np.log(3.5449 / min(largest, 1.1))), 1, TERMS))
    if a.ndim == 0:
        row = d[orders - 1, :terms]
        for k in range(orders - 2, -1, -1):
            row = row / a + d[k, :terms]
        return _horner(row, eta)
    out = _horner(d[orders - 1, :terms], eta)
    for k in range(orders - 2, -1, -1):
        out /= a
        out += _horner(d[k, : max(2, terms - 2 * k) if terms > 2 else terms], eta)
    return out


def _horner(row: np.ndarray, eta: np.ndarray) -> np.ndarray:
    out = np.full_like(eta, row[-1])
    for c in row[-2::-1]:
        out *= eta
        out += c
    return out


def log_smaller_tail(a: np.ndarray, eta: np.ndarray, half_square: np.ndarray) -> np.ndarray:
    """Return log P where ``eta < 0`` and log Q where ``eta >= 0``.

    Parameters
    ----------
    a : ndarray, zero- or one-dimensional
        Shape, at least 20.
    eta : ndarray, shape (n,)
        In [-1.1, 1.1].
    half_square : ndarray, shape (n,)
        ``eta**2 / 2`` with full relative accuracy.
    """
    s = np.where(eta < 0, -1.0, 1.0) * _series(a, eta)
    root = np.sqrt(a)
    bracket = 0.5 * sc.erfcx(np.abs(eta) * root * 0.7071067811865476)
    bracket += s / (2.5066282746310002 * root)
    return np.log(bracket) - a * half_square
