"""An open challenge: attack private gradients, and learn how near you come to the possible.

One step of DP-SGD with a linear layer releases a record's direction with Gaussian noise,
``Y ~ N(X/||X||, sigma^2 I)``; the layer's rows are averaged already. An entry is a Python file with
one or both of

``name(releases, sigma, candidates)``
    the position among the candidates of each release's record, shape (count,);
``rebuild(releases, sigma, others)``
    each release's record, shape (count, N), by an attacker who knows other records only.

*What is granted*: everything public, the digits and this code included. *What is secret*: the
draws. Records are made when an entry is scored, from a seed of the operating system, and are in no
data set. Each call is a process of its own, which is sent what the function takes and nothing else.
It is no sandbox: read a file before you score it.

*What counts* is the mean over the candidates that a release leaves possible, by their posterior
probability: neither luck nor a sight of the answer helps. So no entry has a smaller error than the
posterior mean of one who knows the 1,000 candidates, nor names more records than the likeliest
candidate does, which paper C's bound (Corollary 4) limits. Nor does one answer for all releases
score above zero, whatever it knows of the records: scores start from the best such answer, chosen
afterwards. An entry that agrees with the answers more closely than its releases explain is refused.
"""

from __future__ import annotations

import ast
import io
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage, special

from reconrisk import DPSGD, arguments, bounds, datasets

__all__ = ["DATA", "NOISES", "Entry", "Score", "draw_records", "load_entry", "score", "summary"]

NOISES = (0.05, 0.1, 0.2, 0.5, 1.0)
DATA = ("MNIST", "synthetic")
#: records that an attacker who rebuilds knows; the others are the candidates
OTHERS = 4000
#: how far digits are turned [rad], resized [log] and shifted [pixels], at most
TURN, RESIZE, SHIFT = 0.25, 0.15, 2.0
#: an entry whose agreement with the answers is less probable is refused
_IMPOSSIBLE = 1e-6
#: no answer is larger
_LARGEST = 1e6
#: what a process runs: one function on what it is sent; what an entry prints is no answer
_PROCESS = """
import io, os, runpy, sys
import numpy as np
answer, kept = io.BytesIO(), os.dup(1)
os.dup2(2, 1)
given = np.load(io.BytesIO(sys.stdin.buffer.read()))
function = runpy.run_path(sys.argv[1])[sys.argv[2]]
found = function(given["releases"], float(given["sigma"]), given["known"])
np.save(answer, np.asarray(found, dtype=float))
os.fdopen(kept, "wb").write(answer.getvalue())
"""


@dataclass(frozen=True)
class Entry:
    """An attack that takes part.

    Attributes
    ----------
    title : str
    path : Path
        The file that defines it.
    functions : tuple of str
        Which of ``name`` and ``rebuild`` the file defines.
    """

    title: str
    path: Path
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """How near an entry came at one noise; what it has no function for is NaN.

    Attributes
    ----------
    sigma : float
    named : float
        Share of records named.
    guessed, likeliest, bound : float
        Share that the best single name for all releases is right about; share that the likeliest
        candidate names; and what no attack exceeds, certified.
    error : float
        Mean squared error of the rebuilt records.
    constant, floor : float
        Errors of the best single answer to all releases and of the candidates' posterior mean.
    """

    sigma: float
    named: float
    guessed: float
    likeliest: float
    bound: float
    error: float
    constant: float
    floor: float

    @property
    def recognised(self) -> float:
        """Share of the way from the best guess to the bound; negative if worse than the guess."""
        return (self.named - self.guessed) / (self.bound - self.guessed)

    @property
    def removed(self) -> float:
        """Share of the constant's error above the floor that is gone; negative if more is there."""
        return (self.constant - self.error) / (self.constant - self.floor)

    def as_dict(self) -> dict[str, float]:
        """Return the fields, ``recognised`` and ``removed`` by name."""
        return {**asdict(self), "recognised": self.recognised, "removed": self.removed}


def load_entry(path: Path | str) -> Entry:
    """Read an entry from a Python file, which is parsed and not run.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no Python, or defines neither ``name`` nor ``rebuild`` as functions.
    """
    path = Path(path).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"FILE must be a Python file; there is none at {path}")
    try:
        module = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise ValueError(f"{path} must be Python: {error}") from None
    defined = {part.name for part in module.body if isinstance(part, ast.FunctionDef)}
    functions = tuple(name for name in ("name", "rebuild") if name in defined)
    if not functions:
        raise ValueError(f"{path} must define a function name or rebuild; it defines neither")
    title = (ast.get_docstring(module) or path.stem).strip().splitlines()[0]
    return Entry(title, path, functions)


def draw_records(data: str, rng: np.random.Generator) -> np.ndarray:
    """Draw 5,000 records, (5000, N), that are in no data set.

    MNIST's digits in a random order, each turned, resized and shifted; or 64 uniform values each.
    """
    arguments.one_of("data", data, DATA)
    if data == "synthetic":
        return rng.uniform(size=(5000, 64))
    digits = datasets.classified("MNIST-5000", split="all").inputs.reshape(-1, 28, 28)
    turn = rng.uniform(-TURN, TURN, len(digits))
    size = np.exp(rng.uniform(-RESIZE, RESIZE, len(digits)))
    cos, sin = np.cos(turn) / size, np.sin(turn) / size
    matrices = np.moveaxis(np.array([[cos, -sin], [sin, cos]]), -1, 0)
    centre = np.full(2, 13.5)
    offsets = centre - matrices @ centre + rng.uniform(-SHIFT, SHIFT, (len(digits), 2))
    moved = [
        ndimage.affine_transform(digit, matrix, offset, order=1).ravel()
        for digit, matrix, offset in zip(digits.astype(float), matrices, offsets, strict=True)
    ]
    return rng.permutation(moved)


def score(
    entry: Entry,
    *,
    data: str = "MNIST",
    trials: int = 200,
    seed: int | None = None,
    noises: tuple[float, ...] = NOISES,
    limit: float = 600.0,
) -> Iterator[Score]:
    """Score an entry at each noise.

    Parameters
    ----------
    entry : Entry
    data : {"MNIST", "synthetic"}
    trials : int
        Releases a noise, 10 to 10,000: each of a record drawn anew from the 1,000 candidates.
    seed : int, optional
        Draws records and noise, the same again; by default they are secret and never the same.
    noises : tuple of float
        sigma > 0.
    limit : float
        Seconds that an entry may take for one answer.

    Yields
    ------
    Score
        In the order of the noises.

    Raises
    ------
    ValueError
        If the entry fails or takes too long, if its answers have another shape or range, or if they
        agree with the records more closely than any function of the releases does.
    """
    arguments.integer("trials", trials, 10, 10_000)
    rng = np.random.default_rng(secrets.randbits(128) if seed is None else seed)
    records = draw_records(data, rng)
    others, candidates = records[:OTHERS], records[OTHERS:]
    directions = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
    for sigma in noises:
        arguments.real("noises", sigma, 0, np.inf, low_open=True, high_open=True)
        own = rng.integers(len(candidates), size=trials)
        releases = directions[own] + sigma * rng.normal(size=(trials, candidates.shape[1]))
        law = special.softmax(releases @ directions.T / sigma**2, axis=1)
        means = law @ candidates
        constant = np.broadcast_to(means.mean(axis=0), releases.shape)
        named = error = np.nan
        if "name" in entry.functions:
            answers = _answer(entry, "name", (releases, sigma, candidates), (trials,), limit)
            named = -_mean_cost("name", _misses(answers, len(candidates)), law, own)
        if "rebuild" in entry.functions:
            rebuilt = _answer(entry, "rebuild", (releases, sigma, others), releases.shape, limit)
            error = _mean_cost("rebuild", _squares(rebuilt, candidates), law, own)
        yield Score(
            sigma,
            named,
            float(law.mean(axis=0).max()),
            float(law.max(axis=1).mean()),
            float(bounds.rero(DPSGD(sigma), 1 / len(candidates)).upper),
            error,
            _expected(_squares(constant, candidates), law),
            _expected(_squares(means, candidates), law),
        )


def _answer(
    entry: Entry,
    function: str,
    given: tuple[np.ndarray, float, np.ndarray],
    shape: tuple[int, ...],
    limit: float,
) -> np.ndarray:
    """Return what an entry's function answers, in a process that is sent ``given`` and no more."""
    sent = io.BytesIO()
    np.savez(sent, releases=given[0], sigma=given[1], known=given[2])
    command = [sys.executable, "-c", _PROCESS, str(entry.path), function]
    try:
        run = subprocess.run(command, input=sent.getvalue(), capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{function} took more than {limit:g} seconds") from None
    if run.returncode or not run.stdout:
        last = (run.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"{function} failed, with exit status {run.returncode}: {last}")
    found = np.load(io.BytesIO(run.stdout))
    if found.shape != shape or not np.all(np.abs(found) <= _LARGEST):
        what = f"shape {found.shape}" if found.shape != shape else "others"
        raise ValueError(
            f"{function} must return numbers of at most {_LARGEST:g}, shape {shape}; got {what}"
        )
    return found


def _misses(answers: np.ndarray, count: int) -> np.ndarray:
    """Return -1 at the candidate that is named, 0 at others: (trials, candidates)."""
    positions = np.arange(count)
    if not np.isin(answers, positions).all():
        raise ValueError(f"name must return positions from 0 to {count - 1}; got others")
    return -(answers[:, None] == positions).astype(float)


def _squares(rebuilt: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Return mean squared distances of rebuilt records to each candidate: (trials, candidates)."""
    own, other = np.square(rebuilt).mean(axis=1), np.square(candidates).mean(axis=1)
    products = rebuilt @ candidates.T / candidates.shape[1]
    return np.maximum(own[:, None] + other - 2 * products, 0.0)


def _expected(costs: np.ndarray, law: np.ndarray) -> float:
    return float((law * costs).sum(axis=1).mean())


def _mean_cost(function: str, costs: np.ndarray, law: np.ndarray, own: np.ndarray) -> float:
    """Return the expected cost given the releases; refuse answers that know more than they.

    Given its release a record follows the posterior ``law``, whatever was answered. By Chernoff's
    bound the total cost at the records themselves is as small with at most the probability here.
    """
    total = costs[np.arange(len(own)), own].sum()
    scale = max(float(np.abs(costs).max()), np.finfo(float).tiny)
    log_chance = min(
        weight * total + special.logsumexp(-weight * costs, b=law, axis=1).sum()
        for weight in np.geomspace(0.1, 1e4, 26) / scale
    )
    if log_chance < np.log(_IMPOSSIBLE):
        raise ValueError(
            f"{function} agrees with the records more closely than its releases explain (by chance "
            f"with a probability below {_IMPOSSIBLE:g}): it has seen something else"
        )
    return _expected(costs, law)


def summary(scores: Sequence[Score]) -> tuple[float, float]:
    """Return the means of ``recognised`` and of ``removed`` over the noises.

    Each is from 0 to 1 at any noise: what is worse than the best single answer counts as nothing.
    """
    shares = np.array([(s.recognised, s.removed) for s in scores])
    recognised, removed = np.clip(shares, 0.0, 1.0).mean(axis=0)
    return float(recognised), float(removed)
