"""Time and check the library's tail functions against SciPy's plain ones, in one process.

    python benchmarks/tails.py [--size 1000000]

Prints, for each law and setting, CPU seconds per million evaluations of both, their ratio (above
one: ours is faster), and in how many of the evaluations SciPy returns zero, nan or a probability
that is off by more than 1e-6 of it. A value is judged only where ours is a float (above 1e-300), by
ours, which the unit tests hold against 30 to 50 digits.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import stats

from reconrisk import special


def timed(function: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the value and the shorter of two CPU times (both sides use one thread)."""
    best = np.inf
    for _ in range(2):
        start = time.process_time()
        value = function()
        best = min(best, time.process_time() - start)
    return value, best


def cases(size: int) -> list[tuple[str, int, Callable, Callable]]:
    """Return (name, evaluations, ours as logarithm, SciPy's as probability)."""
    rng = np.random.default_rng(0)
    out: list[tuple[str, int, Callable, Callable]] = []

    def chi2(n: float, width: float, count: int) -> None:
        x = n * (1.0 + np.sqrt(2.0 / n) * rng.uniform(-width, min(width, 5.0), count))
        x = np.maximum(x, 1e-3 * n)
        out.append(
            (
                f"chi-square, N={n:.6g}, |z|<{width:g}",
                count,
                lambda: special.log_gamma_lower(0.5 * n, 0.5 * x),
                lambda: stats.chi2.cdf(x, n),
            )
        )

    for n in (4, 784, 150528, 1e9):
        chi2(n, 5.0, size)
    chi2(784, 60.0, size)
    chi2(1e9, 30.0, size)

    def cosine(n: float, delta: float, low: float, high: float, count: int) -> None:
        # NCC of N entries: non-central t with N - 2 degrees of freedom.
        t = rng.uniform(low, high, count)
        c = t / np.sqrt(n - 2 + t * t)
        out.append(
            (
                f"non-central t, N={n:.6g}, delta={delta:g}, t in [{low:g}, {high:g}]",
                count,
                lambda: special.log_cosine_tail(c, n - 1, delta),
                lambda: stats.nct.sf(t, n - 2, delta),
            )
        )

    small = max(size // 50, 1)
    for n in (4, 1000, 150528, 1e9):
        cosine(n, 1.0, -3.0, 5.0, small)
    cosine(1000, 1.0, 5.0, 35.0, small)
    cosine(150528, -20.0, -20.0, 10.0, small)

    def noncentral(n: float, lam: float, low: float, high: float, count: int) -> None:
        z = rng.uniform(low, high, count)
        x = np.maximum(n + lam + z * np.sqrt(2 * n + 4 * lam), 1e-3 * n)
        out.append(
            (
                f"non-central chi-square, N={n:.6g}, lam={lam:g}, z in [{low:g}, {high:g}]",
                count,
                lambda: special.log_noncentral_chi2_cdf(x, n, lam),
                lambda: stats.ncx2.cdf(x, n, lam),
            )
        )

    for n, lam in ((4, 10.0), (784, 1e3), (150528, 1e6)):
        noncentral(n, lam, -5.0, 5.0, small)
    noncentral(784, 1e3, -30.0, -5.0, small)
    return out


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="evaluations per row")
    size = parser.parse_args().size
    special.log_gamma_lower(100.0, 90.0)  # the coefficients are made on the first call
    head = f"{'law and setting':62}{'ours s/1e6':>11}{'SciPy s/1e6':>12}{'ratio':>8}"
    print(f"{head}{'zero':>8}{'nan':>7}{'wrong':>8}")
    for name, count, ours, theirs in cases(size):
        log_p, our_time = timed(ours)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            p, their_time = timed(theirs)
        judged = log_p > np.log(1e-300)
        zero = np.mean(judged & (p == 0.0))
        nan = np.mean(np.isnan(p))
        with np.errstate(all="ignore"):
            off = np.abs(p / np.exp(log_p) - 1.0) > 1e-6
        wrong = np.mean(judged & off & (p != 0.0) & ~np.isnan(p))
        scale = 1e6 / count
        print(
            f"{name:62}{our_time * scale:11.2f}{their_time * scale:12.2f}"
            f"{their_time / our_time:8.1f}{zero:8.1%}{nan:7.1%}{wrong:8.1%}"
        )


if __name__ == "__main__":
    main()
