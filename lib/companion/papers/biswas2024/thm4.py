"""Theorem 4: the reconstruction risk is at most the capacity of the noise."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from companion.exhibit import *
from companion.experiments import federated
from companion.experiments.federated import BATCH_SIZE, RECORDS
from companion.papers.biswas2024.capacity_at_paper_size import gaussian_capacity, log_batches
from companion.papers.biswas2024.random_channels import (
    CHANNELS,
    ROUNDING,
    log_capacity,
    random_channel,
    random_map,
    random_sizes,
)
from reconrisk import bounds

_THEOREM = "none (a theorem)"
_COUNTS = (2, 4, 16, 64, 256, 4096)

PARAMETERS = {
    "channels": CHANNELS,
    "gradients": Parameter(
        "ints", _COUNTS, (*_COUNTS, 65536), _THEOREM, "n, gradients on the unit disc, growing", 2
    ),
    "noise_std": Parameter("float", 0.05, 0.05, _THEOREM, "noise on the disc", 0.02),
    "attacked": Parameter(
        "ints", (2, 10, 100), (2, 10, 100, 1000), _THEOREM, "n, gradients attacked", 2
    ),
    "attack_noise": Parameter(
        "floats", (1.0, 0.25), (1.0, 0.5, 0.25), _THEOREM, "noise on unit gradients", 0.05
    ),
    "attacks": Parameter("int", 100_000, 200_000, _THEOREM, "attacks for each setting", 1000),
}
SETTLES = ("D-011", "E-D-18")
SHOWN = ("finitely many gradients",)
ALTERED = {
    "random channels": {
        "onto": "leakages through a map onto the inputs [nats]",
        "missed": at("missed < -0.01", "leakages through a map that misses inputs"),
    },
    "attacked": {"leakage": "leakages to simulated attacks [nats]"},
    "other attackers": {
        ("prior", "prior and gain", "gain"): "gains of attackers with another prior or aim",
        "best gain": "best gains",
    },
    "paper size": {"batches": "log numbers of batches"},
    "finitely many gradients": {
        "log capacity": at(
            "`log capacity` < `log n` - 0.1", "log capacities of gradients that noise mixes up"
        )
    },
}

#: how near simulated attacks must come to the log capacity, in nats: a tenth of their success
_SIMULATED = 0.1
#: attacks simulated at once, for memory
_BLOCK = 10_000
#: how near the best gain must come to the capacity, relative: sums of a few dozen probabilities
_ATTAINED = 1e-9


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rng = study.rng("attacks")
    attacked = [
        _nearest_gradient(rng, n, noise, p.attacks)
        for n, noise in itertools.product(p.attacked, p.attack_noise)
    ]
    return Tables(
        {
            "random channels": _uniform_leakage(study.rng("channels"), p.channels),
            "finitely many gradients": finite_gradients(p.gradients, p.noise_std),
            "attacked": pd.DataFrame(attacked),
            "other attackers": _other_leakage(study.rng("gains"), p.channels),
            "paper size": pd.DataFrame(
                {
                    "batches": [log_batches()],
                    "least capacity": [
                        float(gaussian_capacity(federated.pairs()[0].noise_multiplier))
                    ],
                }
            ),
        },
        exact=("finitely many gradients",),
        ran=f"{p.channels} random channels; up to {max(p.gradients):,} gradients spread over the "
        f"unit disc under Gaussian noise of {p.noise_std:g}; {p.attacks:,} attacks on each of "
        f"{len(attacked)} sets of orthonormal gradients.",
    )


def _uniform_leakage(rng: np.random.Generator, channels: int) -> pd.DataFrame:
    """Log of posterior over prior success, eq. (12), less the log capacity of the noise alone."""
    rows = []
    for _ in range(channels):
        secrets, inputs, outputs = random_sizes(rng)
        noise = random_channel(rng, inputs, outputs)
        alone, uniform = log_capacity(noise), np.full(secrets, 1 / secrets)
        leakage = [
            secrets * _posterior(uniform, random_map(rng, secrets, inputs, onto=onto) @ noise)
            for onto in (True, False)
        ]
        rows.append((alone, *(math.log(value) - alone for value in leakage)))
    return pd.DataFrame(rows, columns=["log capacity", "onto", "missed"])


def _posterior(prior: np.ndarray, channel: np.ndarray, gain: np.ndarray | None = None) -> float:
    """Expected gain of the best action after seeing the output, eq. (11)."""
    weighted = prior[:, None] * channel
    return float(np.sum(np.max(weighted if gain is None else gain @ weighted, axis=0)))


def finite_gradients(counts: Sequence[int], noise_std: float) -> pd.DataFrame:
    """Return the log capacity of n gradients spread over the unit disc, by a fine grid."""
    reach = 1.0 + 8.0 * noise_std
    axis = np.linspace(-reach, reach, 801)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    cell = (axis[1] - axis[0]) ** 2 / (2.0 * math.pi * noise_std**2)
    ball = float(bounds.bayes_capacity_gaussian(2, noise_std, 1.0))
    rows = []
    for n in counts:
        away, _ = cKDTree(sunflower(n)).query(grid)
        total = cell * float(np.sum(np.exp(-0.5 * (away / noise_std) ** 2)))
        rows.append((n, math.log(n), math.log(total), ball))
    return pd.DataFrame(rows, columns=["n", "log n", "log capacity", "ball"])


def sunflower(count: int) -> np.ndarray:
    """Return points spread evenly over the unit disc."""
    place = np.arange(count)
    angle = place * math.pi * (3.0 - math.sqrt(5.0))
    length = np.sqrt((place + 0.5) / count)
    return length[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _nearest_gradient(
    rng: np.random.Generator, n: int, noise: float, attacks: int
) -> dict[str, float]:
    """Guess the nearest of n gradients: simulated leakage against the channel's capacity.

    The capacity of orthonormal gradients has a closed form: n times the chance that one normal
    variable of mean 1/s exceeds n - 1 centred ones.
    """
    found = 0
    for block in range(0, attacks, _BLOCK):
        secret = rng.integers(0, n, min(_BLOCK, attacks - block))
        scores = rng.standard_normal((secret.size, n))
        scores[np.arange(secret.size), secret] += 1.0 / noise
        found += int(np.sum(np.argmax(scores, axis=1) == secret))
    right = found / attacks
    return {
        "n": n,
        "noise": noise,
        "leakage": math.log(n * right),
        "standard error": math.sqrt((1 - right) / (right * attacks)),
        "log capacity": math.log(n * float(bounds.bayes_success(1.0 / noise, n))),
        "ball": float(bounds.bayes_capacity_gaussian(n, noise, 1.0)),
    }


def _other_leakage(rng: np.random.Generator, channels: int) -> pd.DataFrame:
    """Leakage to attackers with other priors and gains, over the capacity.

    The best gain for a prior pays a right guess the inverse of the secret's probability.
    """
    rows = []
    for _ in range(channels):
        _, inputs, outputs = random_sizes(rng)
        channel = random_channel(rng, inputs, outputs)
        capacity = math.exp(log_capacity(channel))
        flat, certain = np.full(inputs, 1 / inputs), np.eye(inputs)
        prior = rng.dirichlet(np.ones(inputs))
        gain = rng.random((int(rng.integers(2, 12)), inputs))
        best = np.diag(1 / prior)
        attackers = ((flat, certain), (prior, certain), (prior, gain), (flat, gain), (prior, best))
        rows.append(
            [
                _posterior(chance, channel, reward) / float(np.max(reward @ chance)) / capacity
                for chance, reward in attackers
            ]
        )
    return pd.DataFrame(rows, columns=["uniform", "prior", "prior and gain", "gain", "best gain"])


def judge(tables: Tables) -> Iterator[Verdict]:
    channels, attacked = tables["random channels"], tables["attacked"]
    missed = channels["missed"]
    near = within(
        attacked["leakage"], attacked["log capacity"], attacked["standard error"], _SIMULATED
    )
    exact = channels["onto"].abs().max() < ROUNDING and missed.max() < ROUNDING
    settled = check(
        "biswas2024/thm4",
        exact and near,
        "if every input of the noise mechanism comes from some batch, guessing once under a "
        "uniform prior multiplies success by the mechanism's capacity, which the deterministic "
        "map in front does not change; if not, by no more",
        ours=f"{len(channels)} random channels; {len(attacked)} simulated attacks on "
        f"orthonormal gradients",
        tolerance=f"{ROUNDING:g}; simulated: {_SIMULATED:g} nats, {STANDARD_ERRORS:g} standard "
        "errors included",
    )
    yield from shared_by(settled, "D-011")
    yield _judge_tightness(tables["other attackers"])
    yield _judge_domain(tables, near)


def _judge_tightness(others: pd.DataFrame) -> Verdict:
    ratios = others[["prior", "prior and gain", "gain"]].to_numpy()
    return check(
        "biswas2024/thm4",
        ratios.max() < 1 + ROUNDING
        and np.allclose(others[["uniform", "best gain"]], 1.0, rtol=0, atol=_ATTAINED),
        "the capacity is a tight bound on the leakage to attackers with another prior or another "
        "aim, as the paper says: none gains more, and for every prior some aim attains it",
        ours=f"{ratios.size} random priors and gains leak {np.median(ratios):.2f} of the capacity "
        f"in the median; {len(others)} random priors with a right guess paid by the inverse of its "
        "probability leak all of it",
        tolerance=f"{_ATTAINED:g}",
    )


def _judge_domain(tables: Tables, simulated: bool | None) -> Verdict:
    finite = tables["finitely many gradients"]
    size = tables["paper size"].iloc[0]
    few, many = finite.iloc[0], finite.iloc[-1]
    falls = tables["random channels"]["missed"].min() < -1e-3
    return refute(
        "E-D-18",
        holds=not (
            falls
            and size["batches"] < size["least capacity"]
            and few["log capacity"] < 0.5 * few["ball"]
        ),
        corrected_holds=simulated
        and bool((finite["log capacity"] < finite["ball"]).all())
        and bool((finite["log capacity"] <= finite["log n"] + ROUNDING).all())
        and finite["log capacity"].is_monotonic_increasing,
        ours=f"{few['log capacity']:.2f} nats for {few['n']:.0f} gradients in a disc, "
        f"{many['log capacity']:.2f} for {many['n']:.0f}, {many['ball']:.2f} for the disc; at the "
        f"paper's size {size['batches']:.0f} for all batches of {BATCH_SIZE} of {RECORDS:,} "
        f"records, {size['least capacity']:,.0f} by Theorem 5 at the most noise",
    )
