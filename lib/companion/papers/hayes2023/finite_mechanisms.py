"""Mechanisms with finitely many outputs, on which theorems can be tested exhaustively."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from reconrisk import special

#: slack for sums of probabilities that are equal on paper
ROUNDING = 1e-12


@dataclass(frozen=True)
class Mechanism:
    """A prior over n candidates and a mechanism with m outputs.

    Attributes
    ----------
    prior : ndarray, shape (n,)
    null : ndarray, shape (m,)
        Distribution of the output without the target.
    channel : ndarray, shape (n, m)
        Distribution of the output with each candidate.
    close : ndarray of bool, shape (n, n)
        Which guesses (rows) count as a success for which targets (columns).
    """

    prior: np.ndarray
    null: np.ndarray
    channel: np.ndarray
    close: np.ndarray


def random_mechanism(
    rng: np.random.Generator, candidates: int, outputs: int, *, epsilon: float | None = None
) -> Mechanism:
    """Draw a mechanism; with ``epsilon``, one that is (epsilon, 0)-private against the null."""
    null = rng.dirichlet(np.full(outputs, 0.7))
    if epsilon is None:
        channel = rng.dirichlet(np.full(outputs, 0.5), size=candidates)
    else:
        # factors and their mean are between e^(-eps/2) and e^(eps/2)
        channel = null * np.exp(epsilon * (rng.random((candidates, outputs)) - 0.5))
        channel /= channel.sum(axis=1, keepdims=True)
    close = np.eye(candidates, dtype=bool) | (rng.random((candidates, candidates)) < 0.15)
    return Mechanism(rng.dirichlet(np.full(candidates, 3.0)), null, channel, close)


def random_size(rng: np.random.Generator) -> tuple[int, int]:
    """2 to 6 candidates and 2 to 7 outputs."""
    return int(rng.integers(2, 7)), int(rng.integers(2, 8))


def random_pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two distributions on 2 to 7 outputs; from 4 on, each misses an output of the other."""
    outputs = int(rng.integers(2, 8))
    mu, nu = rng.dirichlet(np.full(outputs, 0.7), size=2)
    if outputs > 3:
        mu[0] = nu[1] = 0.0
    return mu / mu.sum(), nu / nu.sum()


def symmetric_mechanism(candidates: int, kept: float) -> Mechanism:
    """Name the target with probability ``kept``, all others equally often; a uniform null."""
    uniform = np.full(candidates, 1 / candidates)
    channel = np.full((candidates, candidates), (1 - kept) / (candidates - 1))
    np.fill_diagonal(channel, kept)
    return Mechanism(uniform, uniform, channel, np.eye(candidates, dtype=bool))


def vertices(mu: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices ``(nu(E), mu(E))`` of the most powerful tests, by the Neyman-Pearson lemma."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(nu > 0, mu / nu, np.where(mu > 0, np.inf, -1.0))
    order = np.argsort(-ratio, kind="stable")
    order = order[nu[order] > 0]
    free = float(mu[nu == 0].sum())  # power at level zero
    return (
        np.concatenate([[0.0], np.cumsum(nu[order])]),
        np.concatenate([[free], free + np.cumsum(mu[order])]),
    )


def blow_up(mu: np.ndarray, nu: np.ndarray, kappa: float | np.ndarray) -> np.ndarray:
    """``sup{mu(phi) : nu(phi) <= kappa}`` over randomised tests."""
    return np.interp(kappa, *vertices(mu, nu))


def events(mu: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``nu(E)`` and ``mu(E)`` of all ``2**m`` events."""
    members = np.array(list(itertools.product([0.0, 1.0], repeat=len(mu))))
    return members @ nu, members @ mu


def blow_up_of_events(mu: np.ndarray, nu: np.ndarray, kappa: float | np.ndarray) -> np.ndarray:
    """``sup{mu(E) : nu(E) <= kappa}`` over events, eq. (3) as printed."""
    level, power = events(mu, nu)
    allowed = level <= np.asarray(kappa)[..., None] + ROUNDING
    return np.max(np.broadcast_to(power, allowed.shape), axis=-1, where=allowed, initial=0.0)


def above_chords(values: np.ndarray) -> float:
    """The largest height of a curve on an even grid above the chord of two neighbours."""
    return float((values[1:-1] - (values[:-2] + values[2:]) / 2).max())


def trade_off_by_programming(mu: np.ndarray, nu: np.ndarray, kappa: float) -> float:
    """``inf{1 - mu(phi) : nu(phi) <= kappa}`` over randomised tests, as a linear program."""
    best = optimize.linprog(-mu, A_ub=nu[None], b_ub=[kappa], bounds=(0, 1), method="highs")
    return 1 + float(best.fun)


def largest_blow_up(mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """Vertices of the smallest concave curve above the blow-up of every candidate.

    Its steps are the masses of the tightest pair of distributions that dominates the mechanism in
    the sense of Theorem 2.
    """
    points = np.hstack([vertices(row, mechanism.null) for row in mechanism.channel]).T
    level, power = special.concave_hull(points).T
    return level, power


def prior_success(mechanism: Mechanism) -> float:
    """The largest success of a fixed guess, ``kappa``."""
    return float(np.max(mechanism.close @ mechanism.prior))


def optimal_success(mechanism: Mechanism) -> float:
    """The success of the best attack, which takes the best guess at every output."""
    joint = mechanism.prior[:, None] * mechanism.channel
    return float((mechanism.close @ joint).max(axis=0).sum())


def exhaustive_success(mechanism: Mechanism) -> float:
    """The same by trying every attack, that is every map from outputs to guesses."""
    joint = mechanism.close @ (mechanism.prior[:, None] * mechanism.channel)
    guesses, outputs = joint.shape
    return max(
        float(joint[list(attack), range(outputs)].sum())
        for attack in itertools.product(range(guesses), repeat=outputs)
    )
