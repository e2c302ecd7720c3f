"""Time the prior-aware attack: trials that each train a model, and trials that share trajectories.

    python benchmarks/prior_aware.py [--trials 500] [--dimension 784] [--workers 2]

Ten candidates, 100 full-batch steps of the 784-10-10 network on 1,000 records at epsilon = 10, as
in Hayes et al. Prints seconds for 10,000 trials, scaled up from the trials run, on one core and on
all workers at once, the time of the shortcut for 10,000 trials, and the success of both with 95%
intervals. The records are random pictures of ten classes, so that no files are needed.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from reconrisk import DPSGD, bounds, privacy
from reconrisk.attacks import (
    Guesses,
    prior_aware_attack,
    shared_trajectory_attack,
    success_interval,
)
from reconrisk.models import Classifier

STEPS, KNOWN, POOL, CANDIDATES, TRIALS = 100, 999, 1024, 10, 10000


def run_at(epsilon: float = 10.0) -> DPSGD:
    """Return the full-batch run of the benchmark."""
    return DPSGD(privacy.noise_for_epsilon(epsilon, 1e-5, steps=STEPS), 1.0, STEPS, 0.1)


def records(dimension: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random pictures: a smooth one per class, a smooth one per record, and pixels of their own."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (KNOWN + POOL,), generator=generator)
    bases = torch.rand(10, dimension, generator=generator)
    own = torch.rand(KNOWN + POOL, dimension, generator=generator)
    return (0.5 * bases[labels] + 0.5 * own) * (own > 0.5), labels


def attack(dimension: int, trials: int, seed: int, shortcut: bool = False) -> tuple[float, Guesses]:
    """Run one of the two attacks and return its seconds and outcome."""
    torch.set_num_threads(1)
    inputs, labels = records(dimension)
    start = time.perf_counter()
    outcome = (shared_trajectory_attack if shortcut else prior_aware_attack)(
        Classifier(dimension),
        run_at(),
        inputs[:KNOWN],
        labels[:KNOWN],
        inputs[KNOWN:],
        labels[KNOWN:],
        prior_size=CANDIDATES,
        trials=trials,
        learning_rate=5.0,
        generator=torch.Generator().manual_seed(seed),
    )
    return time.perf_counter() - start, outcome


def described(name: str, outcome: Guesses) -> str:
    """One line with the success of the sum and its interval."""
    right = outcome.correct("sum")
    low, high = success_interval(int(right.sum()), len(right))
    return f"{name:34}{outcome.success('sum'):8.3f}   [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Run the timings and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--dimension", type=int, default=784)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    attack(given.dimension, 20, 0)  # the first call pays for loading
    seconds, exact = attack(given.dimension, given.trials, 1)
    print(
        f"a model per trial, one core: {TRIALS} trials in {seconds * TRIALS / given.trials:.0f} s"
    )
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(attack, *zip(*[(given.dimension, 20, 0)] * given.workers, strict=True)))
        start = time.perf_counter()
        jobs = [(given.dimension, given.trials, 2 + k) for k in range(given.workers)]
        list(pool.map(attack, *zip(*jobs, strict=True)))
        spent = time.perf_counter() - start
    scaled = spent * TRIALS / (given.trials * given.workers)
    print(f"a model per trial, {given.workers} processes: {TRIALS} trials in {scaled:.0f} s")
    short, shared = attack(given.dimension, TRIALS, 1, shortcut=True)
    print(f"shared trajectories, one core: {TRIALS} trials in {short:.1f} s")
    run = run_at()
    print(f"{'':34}{'success':>8}   95% interval")
    print(described("a model per trial", exact))
    print(described("shared trajectories", shared))
    signal = STEPS**0.5 / run.noise_multiplier
    best = float(bounds.bayes_success(signal, CANDIDATES))
    print(f"{'best, orthogonal gradients':34}{best:8.3f}")
    print(f"{'bound':34}{bounds.rero(run, 1 / CANDIDATES).upper:8.3f}")


if __name__ == "__main__":
    main()
