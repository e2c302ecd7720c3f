"""Time certified epsilons and curves of every sampler at T = 1,000 against other packages.

    python benchmarks/samplers.py

All in one process, one after the other; PLD_accounting (random allocation) is compared where it is
installed, dp-accounting's Renyi accountant for batches of fixed size.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import dp_accounting as dp
import numpy as np
from dp_accounting.rdp import RdpAccountant

from reconrisk import bounds, privacy
from reconrisk.privacy import SampledRun

SIGMA, BATCHES, EPOCHS, DELTA = 1.0, 100, 10, 1e-5
KAPPAS = np.geomspace(1e-6, 0.99, 20)


def timed(function: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """The result and the least processor time of a few calls."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        seconds.append(time.process_time() - start)
    return result, min(seconds)


def samplers() -> dict[tuple[str, str], float]:
    """Print every sampler's epsilon and the widest gap of its curve; return the first's times."""
    spent = {}
    for sampler, adjacency in (
        ("poisson", "zero-out"),
        ("random-allocation", "zero-out"),
        ("shuffle", "zero-out"),
        ("fixed", "zero-out"),
        ("fixed", "replace"),
        ("cyclic", "zero-out"),
    ):
        run = SampledRun(SIGMA, 1 / BATCHES, BATCHES * EPOCHS, sampler, adjacency)
        found, seconds = timed(lambda one=run: privacy.epsilon(one, DELTA, tolerance=1e-3))
        (low, high), long = timed(lambda one=run: bounds.rero_curve(one, KAPPAS, tolerance=1e-3))
        spent[sampler, adjacency] = seconds
        print(
            f"{sampler}, {adjacency}: epsilon {found.lower:.4f} to {found.upper:.4f} in "
            f"{seconds:.2f} s; curve of {KAPPAS.size} kappa in {long:.2f} s, gap up to "
            f"{np.max(1 - low / high):.2g} of gamma"
        )
    return spent


def others(spent: dict[tuple[str, str], float]) -> None:
    """Print what other packages say, and how much longer or shorter they take."""

    def renyi() -> float:
        accountant = RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
        # their noise is relative to two clipping norms, the sensitivity to replacement
        event = dp.SampledWithoutReplacementDpEvent(
            100 * BATCHES, 100, dp.GaussianDpEvent(SIGMA / 2)
        )
        return accountant.compose(event, BATCHES * EPOCHS).get_epsilon(DELTA)

    theirs, seconds = timed(renyi)
    ratio = seconds / spent["fixed", "replace"]
    print(f"dp-accounting, Renyi, fixed, replace: epsilon up to {theirs:.4f}, time x {ratio:.2f}")
    if importlib.util.find_spec("PLD_accounting") is None:
        print("PLD_accounting is not installed")
        return
    from PLD_accounting import gaussian_allocation_epsilon_range

    (high, low), seconds = timed(
        lambda: gaussian_allocation_epsilon_range(
            delta=DELTA, sigma=SIGMA, num_steps=BATCHES, num_epochs=EPOCHS
        ),
        1,
    )
    ratio = seconds / spent["random-allocation", "zero-out"]
    print(f"PLD_accounting: epsilon {low:.4f} to {high:.4f}, time x {ratio:.0f}")


if __name__ == "__main__":
    others(samplers())
