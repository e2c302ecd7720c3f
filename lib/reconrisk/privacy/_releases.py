"""Releases that compose: what each says about a record, as a privacy loss on a lattice.

Every release is a pair of laws, ``nu`` without the record and ``mu`` with it, that is repeated
``steps`` times, each time on a Poisson sample: ``mu`` is then ``(1 - q) nu + q mu``. Gaussian
releases are cut into cells by :func:`reconrisk.privacy._step.one_step`. The others have masses of
intervals of the loss in closed form, from which :func:`_step_of` makes the same :class:`Step`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special as sc

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.privacy._saddle import LARGEST_OUTPUT, MOST_CELLS, Mechanism, reach
from reconrisk.privacy._step import UNIT, Law, Step, losses, one_step
from reconrisk.special import log_binomial_pmf

__all__ = ["Atoms", "Composable", "Gaussian", "Group", "Laplace", "Part", "Release", "part_of"]

#: beyond this ratio of shift to noise, likelihood ratios overflow
STEEPEST = 35.0
_POINTS = 600
#: members of a group beyond which the number in a batch is not spelt out
_MOST_MEMBERS = 10_000
#: probability in all steps with which more of them than can be composed may be in a batch
_RARE = 1e-15
#: most numbers of members times cells of one step, and times losses computed at once
_MOST_TERMS, _BLOCK = 1 << 25, 1 << 21
#: gap between the least loss and that of the lowest output from which on it is left empty
_FAR = 1.0


# What is released --------------------------------------------------------------------------------


@arguments.names_sampling_rate
@dataclass(frozen=True)
class Laplace:
    """Releases of a sum of sensitivity one with Laplace noise, each on a Poisson sample.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise over the sensitivity, in [1/35, 1e6]. One release of all records is
        ``1/noise_multiplier``-differentially private.
    sampling_rate : float
        q in (0, 1].
    steps : int
        T >= 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or is out of its range.

    Examples
    --------
    >>> from reconrisk import DPSGD, privacy
    >>> found = privacy.epsilon([privacy.Laplace(10.0, steps=20), DPSGD(5.0)], delta=1e-5)
    >>> f"{found.lower:.2f} {found.upper:.2f}"
    '1.83 1.83'
    """

    noise_multiplier: float
    sampling_rate: float = 1.0
    steps: int = 1

    def __post_init__(self) -> None:
        arguments.real("noise_multiplier", self.noise_multiplier, 1.0 / STEEPEST, 1e6)
        _check_sampling(self.sampling_rate, self.steps)


@arguments.names_sampling_rate
@dataclass(frozen=True)
class Atoms:
    """Releases with finitely many outcomes, each on a Poisson sample.

    A guarantee of (epsilon, delta), randomised response, a trade-off curve with corners: whatever
    is no easier to distinguish than two laws on finitely many outcomes. Make one with
    :meth:`approximate_dp` or :meth:`randomised_response`.

    Parameters
    ----------
    without, present : tuple of float
        Probabilities of the outcomes without the record and with it, each with sum one.
    sampling_rate : float
        q in (0, 1].
    steps : int
        T >= 1.

    Raises
    ------
    TypeError, ValueError
        If the laws are not probabilities on the same outcomes, or an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> ten = privacy.Atoms.approximate_dp(0.1, 1e-8, steps=10)
    >>> privacy.epsilon([ten], delta=1e-5).upper < 1.0
    True
    """

    without: tuple[float, ...]
    present: tuple[float, ...]
    sampling_rate: float = 1.0
    steps: int = 1

    def __post_init__(self) -> None:
        _check_sampling(self.sampling_rate, self.steps)
        for name in ("without", "present"):
            law = arguments.real(name, getattr(self, name), 0, 1)
            if law.ndim != 1 or abs(float(law.sum()) - 1.0) > 1e-9:
                raise ValueError(f"{name} must be probabilities of sum one; got sum {law.sum()!r}")
        if len(self.without) != len(self.present):
            raise ValueError(
                "present must have the outcomes of without, "
                f"{len(self.without)}; got {len(self.present)}"
            )

    @property
    def alone(self) -> float:
        """Probability in one step of outcomes that there are with the record alone."""
        laws = zip(self.without, self.present, strict=True)
        return float(self.sampling_rate) * math.fsum(mu for nu, mu in laws if nu == 0.0)

    @classmethod
    def approximate_dp(
        cls, epsilon: float, delta: float = 0.0, sampling_rate: float = 1.0, steps: int = 1
    ) -> Atoms:
        """Return the worst mechanism that is (epsilon, delta)-private (Kairouz et al. 2017).

        Parameters
        ----------
        epsilon : float
            In [0, 500], nats.
        delta : float
            In [0, 1).
        """
        e = float(arguments.real("epsilon", epsilon, 0, 500))
        d = float(arguments.real("delta", delta, 0, 1, high_open=True))
        likely, rare = ((1.0 - d) * float(sc.expit(s * e)) for s in (1.0, -1.0))
        return cls((0.0, rare, likely, d), (d, likely, rare, 0.0), sampling_rate, steps)

    @classmethod
    def randomised_response(cls, noise: float, categories: int, steps: int = 1) -> Atoms:
        """Return a uniform answer with probability ``noise``, the true one otherwise.

        Its laws are those of two different true answers. Composed with noise on sums, the run
        beside has another answer in the record's place, and no gradient of the record.

        Parameters
        ----------
        noise : float
            In (0, 1].
        categories : int
            k >= 2. Adjacent are records of different categories.
        """
        p = float(arguments.real("noise", noise, 0, 1, low_open=True))
        k = float(arguments.integer("categories", categories, 2))
        other, true = p / k, 1.0 - p + p / k
        rest = max(1.0 - true - other, 0.0)
        return cls((true, other, rest), (other, true, rest), 1.0, steps)


@dataclass(frozen=True)
class Group:
    """DP-SGD as it protects a group of records: all ``size`` of them are there, or none.

    Each takes part in a batch by itself, so that ``j`` of them, binomial, move the sum by ``j``
    clipping norms at most. Their gradients in one direction are the worst case (Ganesh 2024,
    "Tight group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians mechanisms").

    Parameters
    ----------
    run : DPSGD
    size : int
        In [1, 10000].

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Notes
    -----
    Below sampling rate one a group is composed, or refused by what composes it, if hardly ever
    more of it than 35 times the noise multiplier are in one batch. At sampling rate one the same
    group shows more, and has a closed form.

    Examples
    --------
    >>> from reconrisk import DPSGD, privacy
    >>> one = privacy.epsilon(DPSGD(1.0, 0.01, 100), 1e-5)
    >>> three = privacy.epsilon([privacy.Group(DPSGD(1.0, 0.01, 100), 3)], 1e-5)
    >>> round(three.upper / one.upper, 1)
    3.3
    """

    run: DPSGD
    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.run, DPSGD):
            raise TypeError(f"run must be a DPSGD; got {self.run!r}")
        arguments.single("size", self.size)
        arguments.integer("size", self.size, 1, _MOST_MEMBERS)


@dataclass(frozen=True, kw_only=True)
class Composable:
    """A release that knows its own part of a composition.

    Parameters
    ----------
    steps : int
        How often it is repeated.
    """

    steps: int = 1

    @property
    def shift(self) -> float:
        """Deviations by which a step that takes the record moves, if that is all it does."""
        return math.inf

    @property
    def share(self) -> float:
        """Probability with which a step takes the record."""
        return 1.0

    @property
    def replaces(self) -> bool:
        """Whether the law without the record, too, depends on which steps would take it."""
        return False

    @property
    def log_square(self) -> float:
        """Logarithm of the mean square of a step's likelihood ratio; infinite if unknown."""
        return math.inf

    def part(self) -> Part:
        """Return the part of a composition that this release is."""
        raise NotImplementedError


Release = DPSGD | Laplace | Atoms | Group | Composable


def _check_sampling(rate: float, steps: int) -> None:
    arguments.real("sampling_rate", rate, 0, 1, low_open=True)
    arguments.integer("steps", steps, 1)


# Their losses ------------------------------------------------------------------------------------


class Part(Protocol):
    """A release as the composition needs it. ``spill`` is the mass it may leave out in all steps.

    Attributes
    ----------
    steps : int
    lowest, highest : float
        Infimum and supremum of the loss of one step.
    cells : int
        The most cells of one step that are worth their cost.
    finest : float
        Their least width that is.
    """

    cells: int
    finest: float
    steps: int
    lowest: float
    highest: float

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        """Return losses and the logarithms of their masses under ``nu``, roughly."""

    def step(self, width: float, spill: float) -> Step:
        """Return one step on a lattice with cells of a width."""


def part_of(release: Release) -> Part:
    """Return the part of a composition that a release is."""
    if isinstance(release, DPSGD):
        return Gaussian(release)
    if isinstance(release, Laplace):
        return _LaplacePart(release)
    if isinstance(release, Atoms):
        return _AtomsPart(release)
    if isinstance(release, Composable):
        return release.part()
    q, sigma = float(release.run.sampling_rate), float(release.run.noise_multiplier)
    if release.size == 1 or q == 1.0:
        return Gaussian(DPSGD(sigma / release.size, q, release.run.steps))
    return _MixturePart(1.0 / sigma, q, int(release.size), int(release.run.steps))


def _check_shift(shift: float) -> None:
    if shift > STEEPEST:
        raise ValueError(
            "noise_multiplier of every phase must be at least 1/35 to be composed; got "
            f"{1.0 / shift:g}"
        )


class TooDear(ValueError):
    """A release is not composed, so that only bounds in closed form are known."""


class TooManyMembers(TooDear):
    """A group is too large for its noise to be composed."""


def full_batch_shift(releases: Iterable[Release]) -> float:
    """Return the shift, in deviations, of the one release that says no less than Gaussian ones.

    It is that of their steps without sub-sampling; infinite if another release is among them.
    """
    shifts = []
    for release in releases:
        run, size = (release.run, release.size) if isinstance(release, Group) else (release, 1)
        if isinstance(run, DPSGD):
            shift = 1.0 / float(run.noise_multiplier)
        else:
            shift = run.shift if isinstance(run, Composable) else math.inf
        shifts.append(size * shift * math.sqrt(float(run.steps)))
    return math.hypot(*shifts) * (1.0 + 1e-14)


def taken(release: Release) -> tuple[int, float]:
    """Return the steps of a release, and the probability with which one takes the record."""
    if isinstance(release, Group):
        return int(release.run.steps), 1.0
    rate = release.share if isinstance(release, Composable) else float(release.sampling_rate)
    return int(release.steps), rate


def log_untouched(releases: Iterable[Release]) -> tuple[float, float]:
    """Return the logarithms of the mass of one law in the laws with the record and without.

    It is the law of steps that do not take the record: as much of the law with it as no step takes
    it, and all of the law without it, or as much where something is in its place.
    """
    never, replaced = [], []
    for release in releases:
        steps, rate = taken(release)
        one = steps * math.log1p(-rate) if rate < 1.0 else -math.inf
        never.append(one)
        if isinstance(release, Composable) and release.replaces:
            replaced.append(one)
    return math.fsum(never), math.fsum(replaced)


def log_mean_square(releases: Iterable[Release]) -> float:
    """Return the logarithm of the mean square of the likelihood ratio; infinite if unknown."""
    found = []
    for release in releases:
        one = math.inf
        if isinstance(release, DPSGD):
            one = log_square_of(float(release.noise_multiplier), float(release.sampling_rate) ** 2)
        elif isinstance(release, Composable):
            one = release.log_square
        found.append(math.inf if one == math.inf else float(taken(release)[0]) * one)
    return math.fsum(found)


def log_square_of(noise_multiplier: float, share: float) -> float:
    """Return ``log(1 + share (exp(1/sigma**2) - 1))``; infinite where that overflows."""
    square = noise_multiplier**-2.0
    return math.log1p(share * math.expm1(square)) if square < 700.0 else math.inf


class Gaussian:
    """Steps of DP-SGD."""

    cells, finest = MOST_CELLS, 0.0
    highest = math.inf

    def __init__(self, run: DPSGD) -> None:
        self.steps = int(run.steps)
        self._a, self._q = 1.0 / float(run.noise_multiplier), float(run.sampling_rate)
        _check_shift(self._a)
        self.lowest = math.log1p(-self._q) if self._q < 1.0 else -math.inf

    def _reach(self, spill: float) -> tuple[float, float]:
        return reach(Mechanism(self._a, self._q, self.steps), spill)

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        x, log_mass = _outputs(*self._reach(spill))
        return losses(x, self._a, self._q), log_mass

    def step(self, width: float, spill: float) -> Step:
        return one_step(self._a, self._q, width, *self._reach(spill))


def _outputs(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs between two ends and the logarithms of their normal masses."""
    edges = np.linspace(low, high, _POINTS + 1)
    x = 0.5 * (edges[1:] + edges[:-1])
    return x, -0.5 * x * x - 0.5 * math.log(2 * math.pi) + math.log(edges[1] - edges[0])


class _MixturePart:
    """A group's steps: ``mu`` is a binomial mixture of normal laws, ``size`` of them at most."""

    highest, finest = math.inf, 0.0

    def __init__(self, shift: float, rate: float, size: int, steps: int) -> None:
        self.steps, self._a = steps, shift
        j = np.arange(size + 1.0)
        log_weight = log_binomial_pmf(j, float(size), rate)
        # more members in one batch than likelihood ratios allow for count as certain
        within = shift * j <= STEEPEST
        self._certain = float(np.exp(log_weight[~within]).sum())
        if steps * self._certain > _RARE:
            sigma = 1.0 / shift
            raise TooManyMembers(
                "size of a group must be so small that hardly ever more than "
                f"{math.floor(STEEPEST * sigma):,} of its records, {STEEPEST:g} times "
                f"noise_multiplier, are in one batch, to be composed; got {size:,} at "
                f"noise_multiplier {sigma:g} and sampling_rate {rate:g}"
            )
        kept = within & (log_weight > -750.0)
        self._log_weight, self._j = log_weight[kept], j[kept]
        self.cells = min(MOST_CELLS, _MOST_TERMS // self._j.size)
        self.lowest = size * math.log1p(-rate)

    def _loss(self, x: np.ndarray) -> np.ndarray:
        return self._loss_and_slope(x)[0]

    def _loss_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        blocks = np.array_split(x, max(self._j.size * x.size // _BLOCK, 1))
        found = [self._of_block(block) for block in blocks]
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])

    def _of_block(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a = self._a * self._j
        exponent = self._log_weight[:, None] + a[:, None] * (x - 0.5 * a[:, None])
        top = exponent.max(axis=0)
        weight = np.exp(exponent - top)
        total = weight.sum(axis=0)
        return np.maximum(top + np.log(total), self.lowest), (a @ weight) / total

    def _reach(self, spill: float) -> tuple[float, float]:
        z = min(-float(sc.ndtri(0.5 * spill / self.steps)), LARGEST_OUTPUT)
        # the number of members that is rarely exceeded
        chance = np.cumsum(np.exp(self._log_weight)[::-1])[::-1] * self.steps
        most = float(self._j[np.flatnonzero(chance > 0.5 * spill)[-1]])
        return -z, min(self._a * most + z, LARGEST_OUTPUT)

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        x, log_mass = _outputs(*self._reach(spill))
        return self._loss(x), log_mass

    def step(self, width: float, spill: float) -> Step:
        low, high = self._reach(spill)
        base, top = (float(v) for v in self._loss(np.array([low, high])))
        # rare outputs whose losses are far below the others' are lost: cells end above them
        apart = base > self.lowest + _FAR
        base, start = (base, low) if apart else (self.lowest, -math.inf)
        halves = 2 * max(math.ceil((top - base) / width), 1)
        at = base + 0.5 * width * np.arange(1.0, halves)
        edges, miss = self._inverse(at, low, high)
        edges = np.concatenate([[start], edges, [high]])
        weight, a = np.exp(self._log_weight), self._a * self._j
        nu, error = _normal_masses(edges, 0.0)
        mu, slip = np.zeros((2, nu.size))
        for w, mean in zip(weight, a, strict=True):
            mass, relative = _normal_masses(edges, mean)
            mu, slip = mu + w * mass, slip + w * mass * relative
        # the weights have errors of their logarithms, sums of a few log factorials
        error = np.maximum(error, slip / np.maximum(mu, 1e-300)) + UNIT * 400.0 + miss
        ends = float(sc.ndtr(-high)), float(np.sum(weight * sc.ndtr(a - high)))
        lost = float(sc.ndtr(start)), float(np.sum(weight * sc.ndtr(start - a))) + self._certain
        return _step_of(base, width, nu, mu, error, ends, lost=lost[0], certain=lost[1])

    def _inverse(self, loss: np.ndarray, low: float, high: float) -> tuple[np.ndarray, float]:
        """Return increasing outputs near those of some losses, and by how much they miss them."""
        table = np.linspace(low, high, 2 * _POINTS)
        known = np.maximum.accumulate(self._loss(table))
        place = np.clip(np.searchsorted(known, loss), 1, table.size - 1)
        x = np.interp(loss, known, table)
        # the loss is convex: Newton's steps stay right of the root after the first
        for _ in range(6):
            value, slope = self._loss_and_slope(x)
            x = np.clip(
                x - (value - loss) / np.maximum(slope, 1e-300), table[place - 1], table[place]
            )
        x = np.maximum.accumulate(x)
        inside = (x > low) & (x < high)
        miss = float(np.max(np.abs(self._loss(x[inside]) - loss[inside]), initial=0.0))
        return x, miss


def _normal_masses(edges: np.ndarray, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the masses between edges of a normal law, and their relative errors."""
    x = edges - mean
    right = x[:-1] > 0.0
    one = np.where(right, sc.ndtr(-x[:-1]), sc.ndtr(x[1:]))
    other = np.where(right, sc.ndtr(-x[1:]), sc.ndtr(x[:-1]))
    mass = np.maximum(one - other, 0.0)
    x = np.where(np.isfinite(x), x, 0.0)
    tail = UNIT * (16.0 + 4.0 * np.maximum(x[:-1] ** 2, x[1:] ** 2))
    return mass, tail * one / np.maximum(mass, 1e-300)


class _LaplacePart:
    """Laplace noise of scale ``1/mu`` around zero without the record, around one with it.

    The loss of an output ``x`` in [0, 1] is ``mu (2 x - 1)``, and constant on either side.
    """

    cells, finest = MOST_CELLS, 0.0

    def __init__(self, release: Laplace) -> None:
        self.steps = int(release.steps)
        self._mu, self._q = 1.0 / float(release.noise_multiplier), float(release.sampling_rate)
        self.lowest, self.highest = self._sampled(-self._mu), self._sampled(self._mu)

    def _sampled(self, loss: float) -> float:
        return _sampled_loss(np.array([loss]), self._q).item()

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        edges = np.linspace(0.0, 1.0, _POINTS + 1)
        nu, _ = self._masses(edges)
        loss = self._mu * (edges[1:] + edges[:-1] - 1.0)
        loss[0], loss[-1] = -self._mu, self._mu
        return _sampled_loss(loss, self._q), np.log(nu)

    def _masses(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masses under ``nu`` and ``mu`` between edges in [0, 1]; the end cells have the rest."""
        size = -np.expm1(-self._mu * np.diff(edges))
        without = 0.5 * np.exp(-self._mu * edges[:-1]) * size
        present = 0.5 * np.exp(-self._mu * (1.0 - edges[1:])) * size
        tail = 0.5 * math.exp(-self._mu)
        without[0], without[-1] = without[0] + 0.5, without[-1] + tail
        present[0], present[-1] = present[0] + tail, present[-1] + 0.5
        return without, (1.0 - self._q) * without + self._q * present

    def step(self, width: float, spill: float) -> Step:
        q, mu = self._q, self._mu
        top = self._sampled(mu) - self.lowest
        halves = 2 * max(math.ceil(top / width * (1.0 + 1e-15)), 1)
        at = self.lowest + 0.5 * width * np.arange(1.0, halves)
        # the loss without sampling, exp(l) = 1 + (exp(at) - 1)/q
        full = at if q == 1.0 else np.log1p(np.maximum(np.expm1(at) / q, math.expm1(-mu)))
        edges = np.clip(0.5 * (full / mu + 1.0), 0.0, 1.0)
        edges = np.maximum.accumulate(np.concatenate([[0.0], edges, [1.0]]))
        without, present = self._masses(edges)
        # differences of edges near each other
        error = UNIT * (64.0 + 8.0 / np.maximum(np.diff(edges), 1e-300))
        error = np.where(np.diff(edges) > 0.0, error, UNIT * 64.0)
        return _step_of(self.lowest, width, without, present, error, (0.0, 0.0))


def _sampled_loss(loss: np.ndarray, q: float) -> np.ndarray:
    """Return ``log(1 - q + q exp(loss))``."""
    if q == 1.0:
        return loss
    near = np.log1p(q * np.expm1(np.minimum(loss, 30.0)))
    return np.where(loss < 30.0, near, np.logaddexp(math.log1p(-q), math.log(q) + loss))


class _AtomsPart:
    """Finitely many outcomes; those that only one of the laws has are at infinity."""

    cells, finest = MOST_CELLS, 0.0

    def __init__(self, release: Atoms) -> None:
        self.steps = int(release.steps)
        q = float(release.sampling_rate)
        nu = np.asarray(release.without, float)
        mu = (1.0 - q) * nu + q * np.asarray(release.present, float)
        both = (nu > 0.0) & (mu > 0.0)
        self._nu, self._mu = nu[both], mu[both]
        if not self._nu.size:
            raise ValueError("without and present must share an outcome; got disjoint laws")
        self._loss = np.log(self._mu) - np.log(self._nu)
        self._lost = float(nu[mu == 0.0].sum())
        self._certain = release.alone
        self.lowest = float(self._loss.min()) if self._lost == 0.0 else -math.inf
        self.highest = float(self._loss.max()) if self._certain == 0.0 else math.inf

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        return self._loss, np.log(self._nu)

    def step(self, width: float, spill: float) -> Step:
        base = float(self._loss.min())
        place = ((self._loss - base) / (0.5 * width)).astype(int)
        halves = 2 * (int(place.max()) // 2 + 1)
        nu, mu = (np.bincount(place, mass, minlength=halves) for mass in (self._nu, self._mu))
        error = np.full(halves, UNIT * (64.0 + 4.0 * self._nu.size))
        ends = 0.0, self._certain
        return _step_of(base, width, nu, mu, error, ends, lost=self._lost)


def _step_of(
    base: float,
    width: float,
    nu: np.ndarray,
    mu: np.ndarray,
    error: np.ndarray,
    ends: tuple[float, float],
    *,
    lost: float = 0.0,
    certain: float = 0.0,
) -> Step:
    """Return a step from the masses of half cells under both laws.

    A cell's mass is split between its ends so that both laws keep their totals: the part at the
    upper end is linear in the likelihood ratio, so that the cell's mean ratio decides it. An error
    of the masses is one of that ratio.

    Parameters
    ----------
    base, width : float
        Half cell ``j`` has the losses from ``base + j width/2`` on.
    nu, mu, error : ndarray
        Of an even number of half cells; bounds on the relative errors of both masses.
    ends : tuple of float
        Masses of both laws beyond the last cell.
    lost : float
        Mass of ``nu`` at a loss of minus infinity.
    certain : float
        Mass of ``mu`` that counts as certain from above, and from below as in the first cell.
    """
    h, cells = width, nu.size // 2
    whole_nu, whole_mu = (mass.reshape(-1, 2).sum(axis=1) for mass in (nu, mu))
    low = base + h * np.arange(cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.exp(np.log(whole_mu) - np.log(whole_nu) - low)
    share = np.clip(np.nan_to_num((ratio - 1.0) / math.expm1(h)), 0.0, 1.0)
    above = np.zeros(cells + 1)
    above[:-1] += whole_nu * (1.0 - share)
    above[1:] += whole_nu * share
    above[-1] += ends[0]
    # a cell without mass under nu goes to infinity
    missed = float(whole_mu[whole_nu == 0.0].sum())
    label = (np.arange(nu.size) + 1) // 2
    used = nu + mu > 0.0
    relative = float(error[used].max(initial=0.0)) + UNIT * 16.0
    errors = np.full(cells + 1, relative)
    laws = []
    for mass, beyond, start in ((nu, ends[0], lost), (mu, ends[1], certain)):
        rounded = np.bincount(label, mass, minlength=cells + 1)
        rounded[-1] += beyond
        rounded[0] += start
        laws.append(Law(0, rounded, errors))
    top = abs(base) + h * cells
    return Step(
        base=base,
        width=h,
        above=Law(0, above, errors),
        nu=laws[0],
        mu=laws[1],
        ratio_error=2.0 * relative + UNIT * (32.0 + 8.0 * top),
        at_infinity=(ends[1] + missed + certain) * (1.0 + 1e-9),
        at_minus_infinity=lost * (1.0 + 1e-9),
    )
