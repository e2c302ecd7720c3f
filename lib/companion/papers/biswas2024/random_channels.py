"""Random channels with finitely many inputs and outputs, to check the lemmas."""

import numpy as np

from companion.exhibit import *
from reconrisk import bounds

_THEOREM = "none (a theorem)"
CHANNELS = Parameter(
    "int", 400, 5000, _THEOREM, "random channels with up to 8 inputs and outputs", 50
)
NOISE = Parameter("float", 0.5, 0.5, _THEOREM, "standard deviation of the noise", 0.05)

#: slack for sums of a few dozen probabilities
ROUNDING = 1e-12


def random_channel(rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray:
    """Return random rows, some nearly certain and some nearly flat, with no column of zeros."""
    return rng.dirichlet(np.full(outputs, rng.choice((0.3, 1.0, 3.0))), size=inputs)


def random_map(rng: np.random.Generator, inputs: int, outputs: int, *, onto: bool) -> np.ndarray:
    """Return a deterministic channel that reaches all of its outputs, or all but one."""
    reached = np.arange(outputs if onto else outputs - 1)
    more = rng.choice(reached, inputs - len(reached))
    return np.eye(outputs)[rng.permutation(np.concatenate([reached, more]))]


def random_sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    """Return numbers of secrets, of inputs (fewer than secrets) and of outputs of a channel."""
    inputs, outputs = int(rng.integers(2, 9)), int(rng.integers(2, 9))
    return inputs + int(rng.integers(1, 6)), inputs, outputs


def log_capacity(channel: np.ndarray) -> float:
    """Return the log of Bayes' capacity of a channel."""
    return float(bounds.bayes_capacity_discrete(channel))


def falls(rng: np.random.Generator, count: int) -> list[float]:
    """Return by how much the capacity of random channels falls without some of their inputs."""
    found = []
    for _ in range(count):
        _, inputs, outputs = random_sizes(rng)
        channel = random_channel(rng, inputs + 1, outputs)
        kept = rng.choice(inputs + 1, int(rng.integers(1, inputs + 1)), replace=False)
        found.append(log_capacity(channel) - log_capacity(channel[kept]))
    return found
