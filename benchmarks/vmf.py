"""Time the von Mises-Fisher functions against what one would use instead, in one process.

    python benchmarks/vmf.py [--size 1000000]

Three tables. *log I*: seconds per million values and the digits in which they agree, against
mpmath at 30 digits on a sample of the same points, and how often SciPy's ``ive`` gives zero.
*Vectors*: draws in p = 13,700 against plain Gaussian vectors of the same number and type, and
against SciPy's sampler in the few dimensions where that is practical (it builds a p by p rotation).
*Accounting*: the certified epsilon at the paper's settings.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import mpmath as mp
import numpy as np
import torch
from scipy import special as sc
from scipy import stats

from reconrisk import privacy, special
from reconrisk.mechanisms import add_gaussian_noise, add_vmf_noise, sample_vmf

DIMENSION = 13_700


def timed(function: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest CPU time of a few calls (everything here runs on one thread)."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def by_series(order: float, x: float) -> mp.mpf:
    """``log I`` in mpmath, whose own ``besseli`` does not converge at these orders."""
    nu, quarter = mp.mpf(order), mp.mpf(x) ** 2 / 4
    term = total = mp.mpf(1)
    m = 0
    while term > total * mp.mpf(10) ** -25 or quarter > m * (nu + m):
        m += 1
        term *= quarter / (m * (nu + m))
        total += term
    return mp.log(total) + nu * mp.log(mp.mpf(x) / 2) - mp.loggamma(nu + 1)


def besseli(order: float, x: float) -> mp.mpf:
    """mpmath's own function."""
    return mp.log(mp.besseli(order, x, maxterms=10**7))


def bessel(size: int) -> None:
    """The first table."""
    rng = np.random.default_rng(0)
    head = f"{'log I, orders and arguments':44}{'ours s/1e6':>11}{'mpmath s/1e6':>13}{'ratio':>10}"
    print(f"{head}{'digits':>8}{'ive = 0':>9}")
    cases = {
        "order < 40, x < 40": (rng.uniform(0, 40, size), rng.uniform(0, 40, size), besseli),
        "order 6849, x in [1, 3e4]": (
            np.full(size, 6849.0), 10 ** rng.uniform(0, 4.5, size), besseli,
        ),
        "order and x in [1, 1e4]": (
            10 ** rng.uniform(0, 4, size), 10 ** rng.uniform(0, 4, size), besseli,
        ),
        "order in [1, 1e6], x in [1e-6, 1e6]": (
            10 ** rng.uniform(0, 6, size), 10 ** rng.uniform(-6, 6, size), by_series,
        ),
    }  # fmt: skip
    special.log_iv(50.0, 50.0)  # the coefficients are made on the first call
    for name, (nu, x, reference) in cases.items():
        ours = timed(lambda nu=nu, x=x: special.log_iv(nu, x)) / size * 1e6
        count = 12 if reference is by_series else 40
        with mp.workdps(30):
            start = time.process_time()
            exact = [
                reference(float(a), float(b)) for a, b in zip(nu[:count], x[:count], strict=True)
            ]
            theirs = (time.process_time() - start) / count * 1e6
            values = special.log_iv(nu[:count], x[:count])
            error = max(
                float(abs(v - e) / max(1, abs(e))) for v, e in zip(values, exact, strict=True)
            )
        zero = np.mean(sc.ive(nu, x) == 0.0)
        digits = -np.log10(max(error, 1e-17))
        print(f"{name:44}{ours:11.3f}{theirs:13.0f}{theirs / ours:10.0f}{digits:8.1f}{zero:9.1%}")


def vectors() -> None:
    """The second table."""
    print(f"\n{'vectors':60}{'ours s':>9}{'other s':>9}{'ours/other':>12}")
    rng = np.random.default_rng(1)
    mu = rng.standard_normal(DIMENSION)

    def row(name: str, ours: Callable[[], object], other: Callable[[], object]) -> None:
        a, b = timed(ours, 5), timed(other, 5)
        print(f"{name:60}{a:9.4f}{b:9.4f}{a / b:12.2f}")

    for count in (16, 256, 2048):
        row(
            f"{count} around one direction, against Gaussian vectors",
            lambda count=count: sample_vmf(mu, 75.0, rng, count),
            lambda count=count: rng.standard_normal((count, DIMENSION)),
        )
    several = rng.standard_normal((256, DIMENSION))
    row(
        "256, a direction each, against Gaussian vectors added",
        lambda: sample_vmf(several, 75.0, rng),
        lambda: several + 0.1 * rng.standard_normal(several.shape),
    )
    generator = torch.Generator().manual_seed(1)
    gradient = {"a": torch.randn(128, 12_800), "b": torch.randn(128, 900)}
    row(
        "128 gradients (torch), against add_gaussian_noise",
        lambda: add_vmf_noise(gradient, 75.0, generator),
        lambda: add_gaussian_noise(gradient, 0.1, generator),
    )
    for p in (10, 300, 1000):
        unit = np.eye(p)[1]
        row(
            f"1000 in {p} dimensions, against SciPy's vonmises_fisher",
            lambda unit=unit: sample_vmf(unit, 75.0, rng, 1000),
            lambda unit=unit: stats.vonmises_fisher(unit, 75.0).rvs(1000, random_state=rng),
        )


def accounting() -> None:
    """The third table."""
    print(f"\n{'epsilon, p = 13,700, q = 128/60,000, delta = 1/60,000':60}{'s':>9}  enclosure")
    for kappa, steps in ((75.0, 3), (75.0, 1407), (150.0, 1407), (400.0, 1407)):
        args = (kappa, DIMENSION, 1 / 60_000, 128 / 60_000, steps)
        value = privacy.vmf_epsilon(*args)
        seconds = timed(lambda args=args: privacy.vmf_epsilon(*args), 1)
        name = f"concentration {kappa:g}, {steps} steps"
        print(f"{name:60}{seconds:9.3f}  [{value.lower:.6g}, {value.upper:.6g}]")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="values per row")
    torch.set_num_threads(1)
    bessel(parser.parse_args().size)
    vectors()
    accounting()


if __name__ == "__main__":
    main()
