"""An open challenge: attack private gradients, and learn how near you come to the possible.

One step of DP-SGD with a linear layer releases a record's direction with Gaussian noise,
``Y ~ N(X/||X||, sigma^2 I)``; the layer's rows are averaged already. An entry is a Python file with
one or both of

``name(releases, sigma, candidates)``
    the position among the candidates of each release's record, shape (count,);
``rebuild(releases, sigma, others)``
    each release's record, shape (count, N), by an attacker who knows other records only.

Records and noise are drawn anew from the seed given when an entry is scored, so that there is no
answer to look up. No attack can name more records than paper C's bound (Corollary 4) allows, nor
err less, on average, than the posterior mean of one who knows the 1,000 candidates drawn from.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from reconrisk import DPSGD, arguments, bounds, datasets

__all__ = ["DATA", "NOISES", "Entry", "Score", "load_entry", "score", "summary"]

NOISES = (0.05, 0.1, 0.2, 0.5, 1.0)
DATA = ("MNIST", "synthetic")
#: records that an attacker who rebuilds knows; the others are the candidates
OTHERS = 4000
#: keeps the draws apart from an entry's: seeds 0 and (0, 0) are one to NumPy
_OWN_STREAM = 20231
#: level of the intervals of a score, and what a share beyond the bound must be significant at
_LEVEL, _IMPOSSIBLE = 0.95, 1e-6

Name = Callable[[np.ndarray, float, np.ndarray], Any]
Rebuild = Callable[[np.ndarray, float, np.ndarray], Any]


@dataclass(frozen=True)
class Entry:
    """An attack that takes part.

    Attributes
    ----------
    title : str
    name, rebuild : callable or None
        As in the module's description.
    """

    title: str
    name: Name | None = None
    rebuild: Rebuild | None = None


@dataclass(frozen=True)
class Score:
    """How near an entry came at one noise; what it has no function for is NaN.

    Attributes
    ----------
    sigma : float
    named, low, high : float
        Share of records named, and its 95% interval (Clopper and Pearson).
    bound : float
        What no attack exceeds, certified.
    error : float
        Mean squared error of the rebuilt records.
    constant, floor : float
        Errors of the others' mean and of the candidates' posterior mean.
    """

    sigma: float
    named: float
    low: float
    high: float
    bound: float
    error: float
    constant: float
    floor: float

    @property
    def removed(self) -> float:
        """Share of the constant's error above the floor that is gone; negative for a worse one."""
        return (self.constant - self.error) / (self.constant - self.floor)

    def as_dict(self) -> dict[str, float]:
        """Return the fields and ``removed`` by name."""
        return {**asdict(self), "removed": self.removed}


def load_entry(path: Path | str) -> Entry:
    """Read an entry from a Python file, which runs.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it defines neither ``name`` nor ``rebuild`` as functions.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"FILE must be a Python file; there is none at {path}")
    found = runpy.run_path(str(path))
    functions = {n: found[n] for n in ("name", "rebuild") if callable(found.get(n))}
    if not functions:
        raise ValueError(f"{path} must define a function name or rebuild; it defines neither")
    return Entry((found.get("__doc__") or path.stem).strip().splitlines()[0], **functions)


def records_of(data: str) -> np.ndarray:
    """Return the challenge's 5,000 records, (5000, N): MNIST's, or 64 uniform values each."""
    arguments.one_of("data", data, DATA)
    if data == "synthetic":
        return np.random.default_rng(64).uniform(size=(5000, 64))
    return datasets.classified("MNIST-5000", split="all").inputs.astype(float)


def score(
    entry: Entry,
    *,
    data: str = "MNIST",
    trials: int = 200,
    seed: int = 0,
    noises: tuple[float, ...] = NOISES,
) -> Iterator[Score]:
    """Score an entry at each noise.

    Parameters
    ----------
    entry : Entry
    data : {"MNIST", "synthetic"}
    trials : int
        Releases a noise, 1 to 10,000: each of a record drawn anew from the 1,000 candidates.
    seed : int
        Draws records and noise.
    noises : tuple of float
        sigma > 0.

    Yields
    ------
    Score
        In the order of the noises.

    Raises
    ------
    ValueError
        If an entry's answers have another shape or range, or more records were named than any
        attack can: then it has seen what it was not given.
    """
    arguments.integer("trials", trials, 1, 10_000)
    records = records_of(data)
    others, candidates = records[:OTHERS], records[OTHERS:]
    directions = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    for number, sigma in enumerate(noises):
        arguments.real("noises", sigma, 0, np.inf, low_open=True, high_open=True)
        rng = np.random.default_rng([_OWN_STREAM, seed, number])
        own = rng.integers(len(candidates), size=trials)
        targets = candidates[own]
        releases = directions[own] + sigma * rng.normal(size=targets.shape)
        floor = _posterior(releases, sigma, directions) @ candidates
        constant = np.broadcast_to(others.mean(axis=0), targets.shape)
        most = float(bounds.rero(DPSGD(sigma), 1 / len(candidates)).upper)
        yield Score(
            sigma,
            *_naming(entry, releases, sigma, candidates, own, most),
            most,
            _rebuilding(entry, releases, sigma, others, targets),
            _mse(constant, targets),
            _mse(floor, targets),
        )


def _posterior(releases: np.ndarray, sigma: float, directions: np.ndarray) -> np.ndarray:
    log_law = releases @ directions.T / sigma**2
    law = np.exp(log_law - log_law.max(axis=1, keepdims=True))
    return law / law.sum(axis=1, keepdims=True)


def _naming(
    entry: Entry,
    releases: np.ndarray,
    sigma: float,
    candidates: np.ndarray,
    own: np.ndarray,
    most: float,
) -> tuple[float, float, float]:
    if entry.name is None:
        return np.nan, np.nan, np.nan
    named = entry.name(releases.copy(), sigma, candidates.copy())
    answers = _answers("name", named, (len(own),))
    if not np.isin(answers, np.arange(len(candidates))).all():
        raise ValueError(f"name must return positions from 0 to {len(candidates) - 1}; got others")
    hits, trials = int((answers == own).sum()), len(own)
    if stats.binom.sf(hits - 1, trials, most) < _IMPOSSIBLE:
        raise ValueError(
            f"name found {hits} of {trials} records at sigma = {sigma:g}, where no attack finds "
            f"more than a share of {most:.4f}: it was given something else than the releases"
        )
    interval = stats.binomtest(hits, trials).proportion_ci(_LEVEL)
    return hits / trials, float(interval.low), float(interval.high)


def _rebuilding(
    entry: Entry, releases: np.ndarray, sigma: float, others: np.ndarray, targets: np.ndarray
) -> float:
    if entry.rebuild is None:
        return np.nan
    rebuilt = entry.rebuild(releases.copy(), sigma, others.copy())
    return _mse(_answers("rebuild", rebuilt, targets.shape), targets)


def _answers(function: str, answers: Any, shape: tuple[int, ...]) -> np.ndarray:
    found = np.asarray(answers, dtype=float)
    if found.shape != shape or not np.isfinite(found).all():
        what = f"shape {found.shape}" if found.shape != shape else "values that are not finite"
        raise ValueError(f"{function} must return finite numbers of shape {shape}; got {what}")
    return found


def _mse(rebuilt: np.ndarray, targets: np.ndarray) -> float:
    return float(np.square(rebuilt - targets).mean())


def summary(scores: Sequence[Score]) -> tuple[float, float]:
    """Return two means over the noises: of the share of the bound that was named, of ``removed``.

    An error above the constant's counts as none removed.
    """
    named = np.mean([s.named / s.bound for s in scores])
    return float(named), float(np.mean([np.maximum(s.removed, 0.0) for s in scores]))
