"""Time the certified success of any attack against what a user would run instead.

    python benchmarks/rero.py [--samples 1000000]

All in one process, one after the other; prints seconds, ratios and the error of each. riskcal is
compared where it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from reconrisk import DPSGD, bounds, privacy

KAPPAS = np.geomspace(1e-12, 0.99, 50)


def timed(function: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """The result and the least time of a few calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)


def curve(samples: int) -> None:
    run = DPSGD(1.0, 0.02, 1000)
    (lower, upper), certified = timed(lambda: bounds.rero_curve(run, KAPPAS))
    print(f"certified curve, {KAPPAS.size} kappa, T = 1,000, q = 0.02: {certified:.3f} s")
    print(f"  widest gap {np.max(upper - lower):.1e}, of gamma {np.max(1 - lower / upper):.1e}")
    rng = np.random.default_rng(0)
    kappa = 0.1
    estimate, sampled = timed(lambda: bounds.rero_algorithm1(run, kappa, samples, rng), 1)
    gamma = bounds.rero(run, kappa, tolerance=1e-7)
    off = max(gamma.lower - estimate, estimate - gamma.upper, 0.0)
    print(f"Algorithm 1, {samples:,} samples, one kappa: {sampled:.1f} s, error {off:.1e}")
    print(f"  ratio {sampled / certified:.0f}")
    for sigma in (1.0, 10.0):
        long, seconds = timed(lambda s=sigma: bounds.rero_curve(DPSGD(s, 0.02, 100_000), KAPPAS))
        gap = np.max(1 - long[0] / long[1])
        print(
            f"certified curve, T = 100,000, sigma = {sigma:g}: {seconds:.3f} s, "
            f"{seconds / certified:.2f} times T = 1,000, widest gap {gap:.1e} of gamma"
        )


def calibration() -> None:
    q, steps, kappa, success = 0.002, 10_000, 0.1, 0.3
    noise, ours = timed(
        lambda: privacy.noise_for_success(success, kappa, sampling_rate=q, steps=steps)
    )
    reached = bounds.rero(DPSGD(noise, q, steps), kappa, tolerance=1e-6)
    print(f"noise for gamma = {success} at kappa = {kappa}, q = {q}, T = {steps:,}: {ours:.2f} s")
    print(f"  sigma {noise:.6f}, gamma in [{reached.lower:.6f}, {reached.upper:.6f}]")
    if importlib.util.find_spec("riskcal"):
        from riskcal.calibration import dpsgd

        # error rates: alpha = kappa, beta = 1 - gamma, over both directions
        theirs, seconds = timed(
            lambda: dpsgd.find_noise_multiplier_for_err_rates(
                alpha=kappa, beta=1 - success, sample_rate=q, num_steps=steps, grid_step=1e-3
            ),
            1,
        )
        sigma = float(theirs[0] if isinstance(theirs, tuple) else theirs)
        found = bounds.rero(DPSGD(sigma, q, steps), kappa, tolerance=1e-6)
        print(f"riskcal, grid 1e-3: {seconds:.1f} s, ratio {seconds / ours:.0f}")
        print(f"  sigma {sigma:.6f}, gamma in [{found.lower:.6f}, {found.upper:.6f}]")
    else:
        print("riskcal is not installed")


def epsilon() -> None:
    from dp_accounting.pld import privacy_loss_distribution

    run, delta = DPSGD(1.0, 0.02, 1000), 1e-5
    found, ours = timed(lambda: privacy.epsilon(run, delta))
    print(f"epsilon in [{found.lower:.6f}, {found.upper:.6f}], both directions: {ours:.3f} s")
    for grid in (1e-3, 1e-4):
        value, seconds = timed(
            lambda g=grid: (
                privacy_loss_distribution.from_gaussian_mechanism(
                    1.0, sampling_prob=0.02, value_discretization_interval=g, use_connect_dots=True
                )
                .self_compose(1000)
                .get_epsilon_for_delta(delta)
            )
        )
        print(
            f"dp-accounting, grid {grid:g}: {value:.6f}, {seconds:.3f} s, "
            f"ratio {seconds / ours:.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    arguments = parser.parse_args()
    curve(arguments.samples)
    calibration()
    epsilon()


if __name__ == "__main__":
    main()
