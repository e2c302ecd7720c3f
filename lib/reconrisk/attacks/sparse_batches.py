"""Exact batches from the first layer of a ReLU network: low rank and sparsity.

Dimitrov et al. 2024 (SPEAR, arXiv 2403.03945; known to us from abstract and summaries, the search
by sampling is our own account of it). The gradient of a linear layer with weights and
biases is ``G = D X'``, with a column of D for every record (the loss's derivatives in the layer's
outputs) and a record with an appended one in every row of X'. Its rank is the batch's size b, and
D is, up to an invertible b x b matrix, what a singular value decomposition of G returns. Every such
matrix explains G equally well. But ReLU makes about half of every column of D zero, which mixtures
of columns are not. So the columns are the sparse vectors of a known space:

- ``search="sampling"`` draws b - 1 rows of that space's basis at random; the vector that vanishes
  on them is a column if that column is zero on all of them (:func:`sparse_hit_probability`), which
  takes about 2^(b - 1) trials;
- ``search="descent"`` minimises a smooth version of the sum of absolute values over the sphere
  from random starts: learning a dictionary of sparse vectors, as Bakarsky et al. 2025 (SPEAR++,
  arXiv 2510.24200) propose; of their paper only the abstract and what others tell of it was read,
  so the method below is ours.

Two more things are ours. Candidates are not ranked by their zeros but by how well a half-space of
the records' span separates zeros from others, as the layer's own units do: differences of records
can have more zeros than records. With two classes and one hidden layer they do, and only sampling
finds the records. And the result carries a certificate: the rebuilt batch must
switch on, in a forward pass, exactly the units that its gradient says; otherwise none is returned.
Zeros fix a record's direction, and biases its brightness. If the units of a record twice or half as
bright agree as well, as they do with zero biases, the batch is returned without a certificate:
whoever clips weights and biases separately has changed how bright its records are.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import integrate
from scipy.special import gammaln

from reconrisk import arguments

__all__ = [
    "SparseBatch",
    "determined_by_zeros",
    "expected_sparse_trials",
    "sparse_batch_attack",
    "sparse_hit_probability",
]

#: trials of one chunk, and the most candidates of a chunk that are kept
_CHUNK = {"sampling": 8192, "descent": 128}
_KEPT = 64
#: entries below this multiple of the root mean square are rounding
_ROUNDING = 1e-8
#: standard deviations of the noise within which an entry may be zero
_WIDTH = 3.0
#: squared sine below which candidates are one or dependent, without and with noise
_SAME = (1e-8, 0.02)
#: share of right units that is asked for under noise
_NOISY_AGREEMENT = 0.9
#: a record that is brighter or darker by this factor must agree with fewer units
_BRIGHTER = 2.0


@dataclass(frozen=True)
class SparseBatch:
    """The result of :func:`sparse_batch_attack`.

    Attributes
    ----------
    inputs : Tensor of float64, shape (b, N), or None
        The records in arbitrary order; None unless the forward pass agrees with the zeros.
    signals : Tensor of float64, shape (m, b), or None
        The derivatives of the loss in the layer's outputs, a column for every record.
    rank : int
        Rank of the gradient above its noise: the batch's size, unless records are dependent.
    found : int
        Linearly independent candidates at the end; all are needed.
    trials : int
        Trials made.
    zeros : Tensor of int, shape (found,)
        Zeros of the candidates' columns.
    separated : Tensor, shape (found,)
        How well a half-space separates a candidate's zeros: the mean of the shares of zeros and of
        others on the right side, in [0, 1].
    agreement : float
        Share of records and units at which the forward pass agrees with the zeros, in [0, 1]; 0 if
        there were too few candidates.
    reason : str
        Why there is no batch, or no certificate; empty if there is one.
    """

    inputs: torch.Tensor | None
    signals: torch.Tensor | None
    rank: int
    found: int
    trials: int
    zeros: torch.Tensor
    separated: torch.Tensor
    agreement: float
    reason: str

    @property
    def certified(self) -> bool:
        """Whether the batch passed the forward pass, and a brighter or darker one would not."""
        return self.inputs is not None and not self.reason


def sparse_batch_attack(
    weight_gradient: torch.Tensor,
    bias_gradient: torch.Tensor,
    weights: torch.Tensor,
    biases: torch.Tensor,
    *,
    generator: torch.Generator,
    search: str = "descent",
    trials: int | None = None,
    noise_std: float = 0.0,
    batch_size: int | None = None,
    least_agreement: float | None = None,
    seconds: float = math.inf,
) -> SparseBatch:
    """Reconstruct a batch from the gradient of a linear layer that is followed by ReLU.

    Labels, loss and the other layers need not be known, and every record's gradient may be clipped
    as a whole. Where weights and biases are clipped separately, records come back brighter or
    darker; the certificate notices if the layer has biases, and is withheld if it has none.

    Parameters
    ----------
    weight_gradient : Tensor, shape (m, N)
        A sum or mean over the batch.
    bias_gradient : Tensor, shape (m,)
    weights, biases : Tensor, shapes (m, N) and (m,)
        Of the layer. Its outputs are ``weights x + biases``.
    generator : torch.Generator
        Source of rows or starts, on the tensors' device.
    search : {"descent", "sampling"}
        See the module.
    trials : int, optional
        Most trials, rounded up to whole chunks; by default 2,560 starts or 2^22 choices of rows.
    noise_std : float
        Standard deviation of normal noise on each entry of the gradient.
    batch_size : int, optional
        b, if it is known; a gradient of another rank is refused.
    least_agreement : float, optional
        Share of right units that the certificate asks for; by default 1 without noise, 0.9 with.
    seconds : float
        Time after which no chunk of trials begins; a finite one makes results depend on the
        machine.

    Returns
    -------
    SparseBatch

    Raises
    ------
    ValueError
        If shapes do not fit, a tensor is not finite or an argument is out of its range.

    Notes
    -----
    Without noise, ratios of a record's row of X' to its last entry, which is that of the bias, are
    the record: at b = 1 that is paper A's ratio, *From Mean to Extreme*, eq. (8). Under noise
    directions are the leading singular ones and zeros what the noise explains.

    Cost: one singular value decomposition; for each choice of rows ``b^3 / 3 + m b``
    multiplications; for each start 300 gradients of ``2 m b`` and 20 eigenproblems of ``m b^2``.
    In double precision.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> draws = torch.Generator().manual_seed(0)
    >>> def normal(*shape):
    ...     return torch.randn(shape, generator=draws, dtype=torch.float64)
    >>> records, weights, biases = normal(4, 30), normal(100, 30), normal(100)
    >>> signals = normal(100, 4) * (weights @ records.T + biases[:, None] > 0)
    >>> found = attacks.sparse_batch_attack(
    ...     signals @ records, signals.sum(dim=1), weights, biases, generator=draws
    ... )
    >>> distances = torch.cdist(records, found.inputs).amin(dim=1)
    >>> found.rank, bool((distances < 1e-9).all())
    (4, True)
    """
    arguments.one_of("search", search, tuple(_CHUNK))
    most = {"sampling": 1 << 22, "descent": 2560}[search] if trials is None else trials
    arguments.integer("trials", most, 1)
    noise_std = float(arguments.real("noise_std", noise_std, 0, high_open=True))
    arguments.real("seconds", seconds, 0)
    if least_agreement is None:
        least_agreement = _NOISY_AGREEMENT if noise_std else 1.0
    arguments.real("least_agreement", least_agreement, 0, 1)
    gradient, layer = _join_layer(weight_gradient, bias_gradient, weights, biases)
    space = _Space.of(gradient, layer, noise_std)
    if batch_size is not None:
        arguments.integer("batch_size", batch_size, 1)
    nothing = torch.zeros(0, dtype=torch.long, device=gradient.device)
    if space.rank == 0 or space.rank != (batch_size or space.rank):
        expected = "at least 1" if batch_size is None else f"{batch_size}"
        reason = f"the gradient's rank above its noise is {space.rank}, not {expected}"
        return SparseBatch(None, None, space.rank, 0, 0, nothing, nothing.double(), 0.0, reason)
    pool, made, agreement, end = _Pool(space), 0, 0.0, time.monotonic() + seconds
    exchange_at = 1
    chosen = torch.zeros(0, dtype=torch.long, device=gradient.device)
    for count, some in _candidates(space, search, most, generator, pool):
        made += count
        pool.add(some)
        chosen = pool.independent()
        if space.rank > 1 and len(chosen) >= space.rank - 1:
            pool.add(_find_implied_zeros(space, pool.directions[chosen]))
            chosen = pool.independent()
        if len(chosen) == space.rank:
            agreement = float(space.agreement(pool.directions[chosen]))
            # exchanges cost more than a chunk of trials: fewer and fewer of them
            if agreement < least_agreement and made >= exchange_at:
                chosen, agreement = _exchange_candidates(space, pool, chosen, agreement)
                exchange_at = 2 * made
            if agreement >= least_agreement:
                coordinates, signals = _refine_batch(space, pool.directions[chosen])
                break
        if time.monotonic() > end:
            break
    zeros, separated = pool.zeros[chosen], pool.separated[chosen]
    found = (space.rank, len(chosen), made, zeros, separated, agreement)
    if len(chosen) < space.rank:
        reason = f"{len(chosen)} sparse directions in {made} trials, of {space.rank}"
        return SparseBatch(None, None, *found, reason)
    if agreement < least_agreement:
        reason = f"the forward pass agrees with {agreement:.1%} of the zeros only"
        return SparseBatch(None, None, *found, reason)
    seen = bool(space.sees_brightness(pool.directions[chosen]).all())
    reason = "" if seen else "the layer's biases do not tell how bright a record is"
    return SparseBatch((coordinates @ space.basis)[:, :-1], signals, *found, reason)


def _join_layer(
    weight_gradient: torch.Tensor,
    bias_gradient: torch.Tensor,
    weights: torch.Tensor,
    biases: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient and layer with the biases as a last column, (m, N + 1), in double precision."""
    shape = weight_gradient.shape
    if weight_gradient.ndim != 2 or weights.shape != shape:
        raise ValueError(
            "weight_gradient and weights must have one shape (m, N); "
            f"got {tuple(shape)} and {tuple(weights.shape)}"
        )
    for name, values in (("bias_gradient", bias_gradient), ("biases", biases)):
        if values.shape != shape[:1]:
            raise ValueError(f"{name} must have shape ({shape[0]},); got {tuple(values.shape)}")
    pairs = ((weight_gradient, bias_gradient), (weights, biases))
    gradient, layer = (torch.cat([w, b[:, None]], dim=1).double() for w, b in pairs)
    if not bool(torch.isfinite(gradient).all() and torch.isfinite(layer).all()):
        raise ValueError("weight_gradient, bias_gradient, weights and biases must be finite")
    return gradient, layer


@dataclass(frozen=True)
class _Space:
    """The leading singular directions of a layer's gradient.

    ``columns`` (m, r), orthonormal columns times sqrt(m), span those of D; ``sizes`` (r,) are their
    singular values over sqrt(m), ``basis`` (r, N + 1) the records' span, ``scores`` (m, r) the
    layer's outputs for the basis, ``half_spaces`` an orthonormal basis of their columns,
    ``biases`` (m,) the layer's.
    """

    columns: torch.Tensor
    sizes: torch.Tensor
    basis: torch.Tensor
    scores: torch.Tensor
    biases: torch.Tensor
    half_spaces: torch.Tensor
    noise_std: float

    @classmethod
    def of(cls, gradient: torch.Tensor, layer: torch.Tensor, noise_std: float) -> _Space:
        left, sizes, right = torch.linalg.svd(gradient, full_matrices=False)
        m, values = gradient.shape
        # the largest singular value of the noise alone is about this
        edge = max(1e-10 * float(sizes[0]), noise_std * (math.sqrt(m) + math.sqrt(values)))
        rank = int((sizes > edge).sum())
        scores = layer @ right[:rank].T
        half_spaces = torch.linalg.qr(scores).Q
        root = math.sqrt(m)
        span = root * left[:, :rank], sizes[:rank] / root, right[:rank]
        return cls(*span, scores, layer[:, -1], half_spaces, noise_std)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @functools.cached_property
    def products(self) -> torch.Tensor:
        """Of the columns, see :func:`_products`."""
        return _products(self.columns)

    def nonzero(self, directions: torch.Tensor) -> torch.Tensor:
        """Which entries of candidates, (k, r), rounding and noise do not explain, (k, m)."""
        noise = self.noise_std * (directions / self.sizes).norm(dim=1)
        least = torch.clamp(_WIDTH * noise, min=_ROUNDING)
        return (directions @ self.columns.T).abs() > least[:, None]

    def separated(self, nonzero: torch.Tensor, steps: int = 0) -> torch.Tensor:
        """How well a half-space separates nonzero from zero units, (k,).

        The mean of the shares that are right among the former and among the latter, for the best
        linear fit and for that of some steps of Newton's method on the squared hinge loss, which
        approach a perfect half-space if there is one.
        """
        right = nonzero.to(self.columns.dtype)
        signs, halves = 2 * right - 1, self.half_spaces
        on, off = right.sum(dim=1).clamp(min=1), (1 - right).sum(dim=1).clamp(min=1)
        normal, best = signs @ halves, right.new_zeros(len(right))
        products = _products(halves) if steps else halves
        for step in range(steps + 1):
            fitted = normal @ halves.T
            share = ((fitted > 0) & nonzero).sum(dim=1) / on
            best = torch.maximum(best, (share + ((fitted <= 0) & ~nonzero).sum(dim=1) / off) / 2)
            if step < steps:
                short = (signs * fitted < 1).to(right.dtype)
                matrix = (short @ products).reshape(-1, self.rank, self.rank)
                matrix = matrix + 1e-6 * torch.eye(
                    self.rank, dtype=right.dtype, device=right.device
                )
                normal = torch.linalg.solve(matrix, (short * signs) @ halves)
        return best

    def least_squares(self, weights: torch.Tensor) -> torch.Tensor:
        """Unit vectors with the least weighted squares, (k, r), for weights (k, m)."""
        normal = (weights @ self.products).reshape(-1, self.rank, self.rank)
        # noise is the same in all directions before their singular values are divided out
        scale = self.sizes if self.noise_std else torch.ones_like(self.sizes)
        normal = scale[:, None] * normal * scale
        found = scale * torch.linalg.eigh(normal).eigenvectors[:, :, 0]
        return found / found.norm(dim=1, keepdim=True)

    def batch(self, directions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Records with their last entry, one, in coordinates of the basis, and D.

        Of shapes (..., r, r) and (..., m, r), for r candidates (..., r, r).
        """
        rows = torch.linalg.pinv(directions.mT) * self.sizes
        last = rows @ self.basis[:, -1:]
        # a record that the bias does not see has no scale
        scale = torch.where(last == 0, torch.ones_like(last), last)
        return rows / scale, self.columns @ (directions * scale).mT

    def agreements(self, directions: torch.Tensor, brightness: float = 1.0) -> torch.Tensor:
        """Shares of units at which a record's forward pass and zeros agree, (..., r).

        ``brightness`` multiplies the records, not what the biases add.
        """
        outputs = self.batch(directions)[0] @ self.scores.T
        active = brightness * (outputs - self.biases) + self.biases > 0
        nonzero = self.nonzero(directions.reshape(-1, self.rank)).view_as(active)
        return (active == nonzero).double().mean(dim=-1)

    def agreement(self, directions: torch.Tensor) -> torch.Tensor:
        """Share of records and units at which forward pass and zeros agree, (...)."""
        return self.agreements(directions).mean(dim=-1)

    def sees_brightness(self, directions: torch.Tensor) -> torch.Tensor:
        """Whether each record agrees less once it is brighter or darker, (r,)."""
        others = [self.agreements(directions, factor) for factor in (1 / _BRIGHTER, _BRIGHTER)]
        return self.agreements(directions) > torch.maximum(*others)


def _products(rows: torch.Tensor) -> torch.Tensor:
    """Products of every two entries of a row, (m, r^2)."""
    return (rows[:, :, None] * rows[:, None, :]).flatten(1)


class _Pool:
    """Distinct candidates, best separated first, of equals those with most zeros."""

    def __init__(self, space: _Space) -> None:
        self.space, self.same = space, _SAME[space.noise_std > 0]
        like = space.columns
        self.directions = like.new_zeros((0, space.rank))
        self.separated = like.new_zeros(0)
        self.zeros = torch.zeros(0, dtype=torch.long, device=like.device)

    def add(self, some: torch.Tensor) -> None:
        """Add candidates that have more zeros than every vector of the space can be given."""
        nonzero = self.space.nonzero(some)
        zeros = (~nonzero).sum(dim=1)
        sparse = zeros >= (self.space.rank if self.space.rank > 1 else 0)
        directions = torch.cat([self.directions, some[sparse]])
        separated = torch.cat([self.separated, self.space.separated(nonzero[sparse], steps=8)])
        zeros = torch.cat([self.zeros, zeros[sparse]])
        order = zeros.argsort(descending=True, stable=True)
        order = order[separated[order].argsort(descending=True, stable=True)]
        order = order[: 8 * self.space.rank + _KEPT]
        kept: list[int] = []
        for k in order.tolist():
            if not kept or float((directions[kept] @ directions[k]).square().max()) < 1 - self.same:
                kept.append(k)
        self.directions, self.separated = directions[kept], separated[kept]
        self.zeros = zeros[kept]

    def independent(self) -> torch.Tensor:
        """Positions of the best separated candidates that are linearly independent."""
        chosen: list[int] = []
        span = self.directions.new_zeros((0, self.space.rank))
        for k, direction in enumerate(self.directions):
            rest = direction - (direction @ span.T) @ span
            if len(chosen) < self.space.rank and float(rest.square().sum()) > self.same:
                chosen.append(k)
                span = torch.cat([span, (rest / rest.norm())[None]])
        return torch.tensor(chosen, dtype=torch.long, device=self.directions.device)


# Candidates --------------------------------------------------------------------------------------


def _candidates(
    space: _Space, search: str, trials: int, generator: torch.Generator, pool: _Pool
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield how many trials were made and the unit vectors, (k, r), that came of them."""
    if space.rank == 1:
        yield 1, space.sizes.new_ones((1, 1))
        return
    made = 0
    while made < trials:
        if search == "sampling":
            count, some = _null_vectors(space, generator)
            # without noise these are right or wrong already
            steps = 20 if space.noise_std else 2
        else:
            some = _descend(space, _starts(space, pool, generator))
            count, steps = len(some), 20
        made += count
        yield count, _sparsify(space, some, steps)


def _null_vectors(space: _Space, generator: torch.Generator) -> tuple[int, torch.Tensor]:
    """Vectors that vanish on random rows; of those with more zeros the best separated ones."""
    rows = space.columns[space.columns.norm(dim=1) > _ROUNDING]
    r, device = space.rank, rows.device
    if len(rows) < r:
        return _CHUNK["sampling"], rows[:0]
    drawn = (
        torch.randint(len(rows), (_CHUNK["sampling"], r - 1), generator=generator, device=device)
        .sort(dim=1)
        .values
    )
    drawn = drawn[(drawn.diff(dim=1) > 0).all(dim=1)]
    added = torch.randn((len(drawn), 1, r), generator=generator, dtype=rows.dtype, device=device)
    # one more equation fixes the length; a system that is singular gives no vector
    right = torch.zeros((len(drawn), r, 1), dtype=rows.dtype, device=device)
    right[:, -1] = 1
    solved = torch.linalg.solve_ex(torch.cat([rows[drawn], added], dim=1), right)
    found = solved.result[..., 0]
    found = found / found.norm(dim=1, keepdim=True)
    directions = found[(solved.info == 0) & torch.isfinite(found).all(dim=1)]
    nonzero = space.nonzero(directions)
    zeros = nonzero.shape[1] - nonzero.sum(dim=1)
    sparse = zeros >= len(space.columns) - len(rows) + r
    directions, nonzero, zeros = directions[sparse], nonzero[sparse], zeros[sparse]
    first = _first_of_each(nonzero, generator)
    first = first[zeros[first].argsort(descending=True, stable=True)[: 32 * _KEPT]]
    best = space.separated(nonzero[first]).argsort(descending=True, stable=True)[:_KEPT]
    return len(drawn), directions[first[best]]


def _first_of_each(patterns: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Positions of the first of each distinct row: equal rows have equal random sums."""
    count, device = len(patterns), patterns.device
    # sums of integers are exact in double precision
    weights = torch.randint(1 << 40, patterns.shape[1:], generator=generator, device=device)
    sums, group = torch.unique(patterns.double() @ weights.double(), return_inverse=True)
    first = torch.full(sums.shape, count, device=device)
    return first.scatter_reduce(0, group, torch.arange(count, device=device), "amin")


def _starts(space: _Space, pool: _Pool, generator: torch.Generator) -> torch.Tensor:
    """Random unit vectors, orthogonal to a random number of the best candidates."""
    shape, like = (_CHUNK["descent"], space.rank), space.columns
    drawn = torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
    chosen = pool.independent()[: space.rank - 1]
    some = torch.randint(len(chosen) + 1, (), generator=generator, device=like.device)
    if int(some):
        span = torch.linalg.qr(pool.directions[chosen[: int(some)]].T).Q
        drawn = drawn - (drawn @ span) @ span.T
    return drawn / drawn.norm(dim=1, keepdim=True)


def _descend(space: _Space, directions: torch.Tensor) -> torch.Tensor:
    """Minimise the mean of ``w log cosh(z / w)`` over the sphere, with w from 0.5 to 0.02."""
    m = len(space.columns)
    for width in (0.5, 0.2, 0.1, 0.05, 0.02):
        for _ in range(60):
            slopes = torch.tanh(directions @ space.columns.T / width)
            pull = slopes @ space.columns / m
            pull = pull - (pull * directions).sum(dim=1, keepdim=True) * directions
            # the curvature is at most 1 / width
            directions = directions - width * pull
            directions = directions / directions.norm(dim=1, keepdim=True)
    return directions


def _find_implied_zeros(space: _Space, directions: torch.Tensor) -> torch.Tensor:
    """Vectors that vanish where the records that follow from candidates switch units off.

    The record of one missing or wrong direction follows from all others, and leads to it.
    """
    missing = torch.linalg.qr(directions.T, mode="complete").Q[:, len(directions) :].T
    coordinates, _ = space.batch(torch.cat([directions, missing]))
    inactive = (coordinates @ space.scores.T <= 0).to(coordinates.dtype)
    return space.least_squares(inactive)


def _exchange_candidates(
    space: _Space, pool: _Pool, chosen: torch.Tensor, agreement: float
) -> tuple[torch.Tensor, float]:
    """Exchange chosen candidates for others as long as the forward pass agrees better."""
    gained = True
    while gained:
        gained = False
        for place in range(len(chosen)):
            trial = chosen.repeat(len(pool.zeros), 1)
            trial[:, place] = torch.arange(len(pool.zeros), device=chosen.device)
            directions = pool.directions[trial]
            independent = torch.linalg.svdvals(directions)[:, -1] > pool.same**0.5
            shares = space.agreement(directions) * independent
            best = int(shares.argmax())
            if float(shares[best]) > agreement:
                chosen, agreement, gained = trial[best], float(shares[best]), True
    return chosen, agreement


def _refine_batch(space: _Space, directions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch from all zeros at once, which say more than those few that found it."""
    for _ in range(5):
        coordinates, signals = space.batch(directions)
        zero = (coordinates @ space.scores.T <= 0) & ~space.nonzero(directions)
        directions = space.least_squares(zero.to(coordinates.dtype))
    return space.batch(directions)


def _sparsify(space: _Space, directions: torch.Tensor, steps: int) -> torch.Tensor:
    """Make nearly sparse vectors sparse: least squares with weights 1 / (z^2 + w^2), w to zero."""
    widths = np.geomspace(0.03, 0.1 * _ROUNDING, 16)
    for least in [*widths, *[widths[-1]] * 4][-steps:]:
        noise = space.noise_std * (directions / space.sizes).norm(dim=1, keepdim=True)
        width = torch.clamp(noise, min=float(least))
        weights = 1 / ((directions @ space.columns.T).square() + width.square())
        directions = space.least_squares(weights)
    return directions


# When is a batch determined, and after how many trials? ------------------------------------------


def determined_by_zeros(signals: ArrayLike) -> np.ndarray:
    """Say for each record whether the zeros of its column determine it, shape (b,).

    Column i of D is, up to its scale, the only vector of D's span that is zero where it is, if and
    only if the other columns are linearly independent on those rows: their rank must be b - 1. The
    attack needs this of all columns, and one zero more, by which to tell it from vectors that were
    chosen to vanish on b - 1 rows.

    Parameters
    ----------
    signals : array_like, shape (m, b)
        D, the derivatives of the loss in a layer's outputs.

    Returns
    -------
    ndarray of bool, shape (b,)

    Raises
    ------
    ValueError
        If the shape is another or a value is not finite.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> attacks.determined_by_zeros([[1, 0], [2, 0], [0, 1], [1, 1]]).tolist()
    [False, True]
    """
    d = arguments.real("signals", signals, low_open=True, high_open=True)
    if d.ndim != 2 or d.size == 0:
        raise ValueError(f"signals must have shape (m, b); got {d.shape}")
    b = d.shape[1]
    lengths = np.linalg.norm(d, axis=0)
    if np.any(lengths == 0) or np.linalg.matrix_rank(d / np.where(lengths > 0, lengths, 1)) < b:
        return np.zeros(b, dtype=bool)
    determined = []
    for i in range(b):
        rows = np.delete(d / lengths, i, axis=1)[d[:, i] == 0]
        alive = rows[np.any(rows != 0, axis=1)]
        enough = len(alive) >= b and b > 1
        determined.append(b == 1 or (enough and np.linalg.matrix_rank(alive) == b - 1))
    return np.array(determined)


def sparse_hit_probability(zeros: ArrayLike, rows: ArrayLike, batch_size: ArrayLike) -> np.ndarray:
    """Probability that b - 1 random rows are all zero in a column with ``zeros`` zeros.

    ``binom(zeros, b - 1) / binom(rows, b - 1)``, about 2^(1 - b) at half zeros. The vector that
    vanishes on them is then the column, unless the rows are dependent.

    Parameters
    ----------
    zeros, rows, batch_size : array_like of int
        Broadcast together. 0 <= zeros <= rows, 1 <= batch_size <= rows + 1. Rows that are zero in
        all columns count in neither.

    Returns
    -------
    ndarray or float
        In [0, 1].

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> round(float(attacks.sparse_hit_probability(500, 1000, 11)), 6)
    0.000933
    """
    n = arguments.integer("rows", rows, 1, 1e12)
    k = arguments.integer("zeros", zeros, 0, n.max())
    chosen = arguments.integer("batch_size", batch_size, 1, n.max() + 1) - 1
    if np.any(k > n) or np.any(chosen > n):
        raise ValueError("zeros and batch_size - 1 must be at most rows")
    n, k, chosen = np.broadcast_arrays(n.astype(float), k, chosen)
    short = chosen > k
    log = gammaln(k + 1) - gammaln(np.where(short, 0, k - chosen) + 1)
    log = log - gammaln(n + 1) + gammaln(n - chosen + 1)
    return np.where(short, 0.0, np.exp(np.minimum(log, 0.0)))[()]


def expected_sparse_trials(probabilities: ArrayLike) -> float:
    """Expected number of trials until every column was hit at least once.

    A collector of coupons with unequal chances: ``int 1 - prod_i (1 - exp(-p_i t)) dt``, where each
    trial hits one column at most. For equal chances p it is ``(1 + 1/2 + ... + 1/b) / p``.

    Parameters
    ----------
    probabilities : array_like, shape (b,)
        Of hitting each column in one trial, in (0, 1].

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are none or one is out of range.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> round(attacks.expected_sparse_trials([0.25, 0.25]), 6)
    6.0
    """
    p = arguments.real("probabilities", probabilities, 0, 1, low_open=True)
    if p.ndim != 1 or len(p) == 0:
        raise ValueError(f"probabilities must have shape (b,); got {p.shape}")
    shares = p / p.min()

    def missing(t: float) -> float:
        return float(-np.expm1(np.sum(np.log(-np.expm1(-shares * t)))))

    # beyond 60 mean waiting times of the rarest even b = 10^9 columns are there
    parts = [integrate.quad(missing, a, c, limit=200)[0] for a, c in ((0, 1), (1, 10), (10, 60))]
    return float(sum(parts) / p.min())
