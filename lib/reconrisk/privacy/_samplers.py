"""Batches as practice draws them: what is proven of their privacy, from above and from below.

Every sampler is enclosed by two lists of releases: one that is proven to tell at least as much
about a record as the run does, and attacks, each a test that an attacker can carry out on some
data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import special as sc

from reconrisk import arguments
from reconrisk._types import DPSGD, Enclosure, order_ends
from reconrisk.privacy._allocation import MOST_BATCHES, Allocation
from reconrisk.privacy._fixed_size import Announced, Binned, FixedSizeBound, bin_outputs
from reconrisk.privacy._releases import Release

__all__ = [
    "ADJACENCIES",
    "LEAST_SAMPLED_NOISE",
    "SAMPLERS",
    "Bracketed",
    "SampledRun",
    "bracket",
]

ADJACENCIES = ("zero-out", "replace", "add-remove")
#: what each sampler does, in words
SAMPLERS = {
    "poisson": "every record is in every batch with the sampling rate, independently",
    "fixed": "every batch is a new draw of fixed size without replacement",
    "random-allocation": "each epoch, every record goes into one batch, drawn uniformly by itself",
    "shuffle": "each epoch, all records are shuffled and cut into batches",
    "cyclic": "every epoch has the same batches in an order that the attacker knows",
}
#: sigma from which a run can be enclosed
LEAST_SAMPLED_NOISE = 0.05
_BINS = 4000
#: batches beyond which shuffling's attacks are the cheap ones, three per cent weaker at most
_MANY_BATCHES = 10_000

#: what a neighbouring data set has in the place of the record, and the sentence that says it
NEIGHBOURS = {
    "add-remove": "no record",
    "zero-out": "a record of gradient zero",
    "replace": "any other record",
}
NEIGHBOUR = "The neighbouring data set has {} in the record's place."

Value = TypeVar("Value")


class Bracketed:
    """What is enclosed between proven releases and attacks."""

    def dominating(self) -> list[Release]:
        """Return releases that say at least as much about a record as the run does."""
        raise NotImplementedError

    def attained(self) -> list[list[Release]]:
        """Return what attackers can learn, each on data of its own: no more than the run says."""
        raise NotImplementedError

    def enclosed(self, value: Callable[[list[Release]], Value]) -> tuple[list[Value], Value]:
        """Return a value of every attack, and that of the dominating releases.

        Where they are the same it is computed once.
        """
        above, below = self.dominating(), self.attained()
        upper = value(above)
        return [upper if one == above else value(one) for one in below], upper

    def enclosure(self, value: Callable[[list[Release]], Enclosure]) -> Enclosure:
        """Return a value that grows with what is released, from the best attack to the bound."""
        attacks, bound = self.enclosed(value)
        lower = max(a.lower for a in attacks)
        logarithms = bound.upper < 0.0
        return Enclosure(float(order_ends(lower, bound.upper, log=logarithms)), bound.upper)


@arguments.names_sampling_rate
@dataclass(frozen=True)
class SampledRun(Bracketed):
    """A run of DP-SGD whose batches are not, or not only, Poisson samples.

    Functions that take a run, :func:`~reconrisk.privacy.epsilon`,
    :func:`~reconrisk.privacy.delta`, :func:`~reconrisk.bounds.rero` and
    :func:`~reconrisk.bounds.rero_curve`, enclose its value between a proven bound and the best of
    some explicit attacks.

    Parameters
    ----------
    noise_multiplier : float
        sigma, of the noise on the sum of a batch; >= 0.05.
    sampling_rate : float
        Expected batch size over number of records, in [1e-100, 1]; of random allocation and
        shuffling at least 1e-7.
    steps : int
        T >= 1.
    sampler : str
        "poisson", "fixed", "random-allocation" (balls-and-bins), "shuffle" or "cyclic".
    adjacency : str
        What the neighbouring data set has in the record's place: "zero-out" a record whose gradient
        is zero, "replace" any other, "add-remove" none. "replace" for "poisson" and "fixed",
        "add-remove" for "poisson" and "random-allocation", where it is the same as zero-out, and
        for "fixed".

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or is out of its range.

    Notes
    -----
    An epoch has ``batches`` steps, the whole part of ``1/sampling_rate``; a last epoch may be cut
    short. If ``1/sampling_rate`` is not whole, ``E`` epochs are ``E * batches`` steps: with
    ``E/sampling_rate`` steps a further epoch begins. Proofs are on the book's page *Beyond the
    papers*.

    - *random allocation*: exact. One epoch is dominated by a mixture of normal laws (Chua et al.,
      2025), and there are data that attain it.
    - *poisson*: exact, for "replace" by a pair of opposite gradients.
    - *fixed*: from above, a pair that dominates every step; from below the data that are worst for
      one step. Exact for "add-remove": as Poisson sampling with half the noise.
    - *shuffle*: from above, a release of the full batch an epoch, as for batches in a known order;
      an epoch that is cut short tells at most whether it took the record, and if so as much.
      From below random allocation, which all other gradients being zero amounts to, and the largest
      output of an epoch where they oppose the record's (Chua et al., 2024).
    - *cyclic*: exact. One full-batch release an epoch.

    Examples
    --------
    >>> from reconrisk import bounds, privacy
    >>> run = privacy.SampledRun(0.8, sampling_rate=1 / 100, steps=300, sampler="shuffle")
    >>> found = privacy.epsilon(run, delta=1e-5)
    >>> f"{found.lower:.1f} to {found.upper:.1f}"
    '9.8 to 11.0'
    >>> round(bounds.rero(run, 0.01).upper, 2)
    0.44
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    sampler: str
    adjacency: str = "zero-out"

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "sampling_rate", "steps"):
            arguments.single(name, getattr(self, name))
        arguments.real("noise_multiplier", self.noise_multiplier, LEAST_SAMPLED_NOISE, 1e6)
        arguments.real("sampling_rate", self.sampling_rate, 1e-100, 1)
        arguments.integer("steps", self.steps, 1)
        arguments.one_of("sampler", self.sampler, tuple(SAMPLERS))
        arguments.one_of("adjacency", self.adjacency, ADJACENCIES)
        allowed = {
            "fixed": ADJACENCIES,
            "poisson": ADJACENCIES,
            "random-allocation": ("zero-out", "add-remove"),
        }.get(self.sampler, ("zero-out",))
        if self.adjacency not in allowed:
            words = " or ".join(f'"{one}"' for one in allowed)
            raise ValueError(
                f"adjacency must be {words} for sampler={self.sampler!r}; got {self.adjacency!r}"
            )
        if self.sampler in ("random-allocation", "shuffle") and self.batches > MOST_BATCHES:
            raise ValueError(
                f"sampling_rate must be at least {1 / MOST_BATCHES:g} for "
                f"sampler={self.sampler!r}; got {self.sampling_rate!r}"
            )

    @property
    def batches(self) -> int:
        """Steps of an epoch."""
        return math.floor(1.0 / float(self.sampling_rate) * (1.0 + 1e-12))

    @property
    def epochs(self) -> int:
        """Epochs that the run begins."""
        return -(-int(self.steps) // self.batches)

    @property
    def drawing(self) -> str:
        """How batches are drawn, as a sentence."""
        what = SAMPLERS[self.sampler]
        text = what[0].upper() + what[1:]
        if self.sampler not in ("poisson", "fixed"):
            text += f"; an epoch has {self.batches:,} batches, and {self.epochs:,} begin"
        return f"{text}."

    @property
    def assumption(self) -> str:
        """What is assumed of the batches and of neighbouring data, in two sentences."""
        return f"{self.drawing} {NEIGHBOUR.format(NEIGHBOURS[self.adjacency])}"

    def dominating(self) -> list[Release]:
        """Return releases that say at least as much about a record as the run does."""
        sigma, q, steps = float(self.noise_multiplier), float(self.sampling_rate), int(self.steps)
        if self.sampler == "poisson" and self.adjacency == "replace" and q < 1.0:
            return [FixedSizeBound(sigma, q, "replace in Poisson samples", steps=steps)]
        if self.sampler == "poisson":
            return [DPSGD(0.5 * sigma if self.adjacency == "replace" else sigma, q, steps)]
        if self.sampler == "random-allocation":
            return self._allocate_epochs()
        if self.sampler == "fixed" and q < 1.0:
            if self.adjacency == "add-remove":
                return [DPSGD(0.5 * sigma, q, steps)]
            return [FixedSizeBound(sigma, q, self.adjacency, steps=steps)]
        if self.sampler == "fixed":
            return [DPSGD(sigma if self.adjacency == "zero-out" else 0.5 * sigma, 1.0, steps)]
        whole, rest = divmod(steps, self.batches)
        if self.sampler == "cyclic" or not rest:
            return [DPSGD(sigma, 1.0, self.epochs)]
        # a shuffled record is in the batches of an unfinished epoch with their share of all
        part = Announced(sigma, rest / self.batches)
        return [DPSGD(sigma, 1.0, whole), part] if whole else [part]

    def attained(self) -> list[list[Release]]:
        """Return what attackers can learn, each on data of its own: no more than the run says."""
        if self.sampler == "shuffle" and self.batches > 1:
            return [*self._test_allocation(), self._largest_outputs()]
        if self.sampler == "random-allocation":
            return self._test_allocation()
        if self.sampler != "fixed" or self.adjacency == "add-remove" or self.sampling_rate == 1.0:
            return [self.dominating()]
        return self._worst_batches()

    def _allocate_epochs(self) -> list[Release]:
        """Whole epochs of random allocation, and one that is cut short."""
        sigma, b = float(self.noise_multiplier), self.batches
        whole, rest = divmod(int(self.steps), b)
        if b == 1:
            return [DPSGD(sigma, 1.0, whole)]
        found: list[Release] = []
        if whole:
            found.append(Allocation(sigma, b, steps=whole))
        if rest:
            found.append(Allocation(sigma, b, released=rest))
        return found

    def _test_allocation(self) -> list[list[Release]]:
        """Random allocation itself, or the sums and the largest outputs where that is dear."""
        epochs = self._allocate_epochs()
        dear = any(isinstance(one, Allocation) and one.is_dear for one in epochs)
        if not dear and not (self.sampler == "shuffle" and self.batches > _MANY_BATCHES):
            return [epochs]
        sigma, b = float(self.noise_multiplier), self.batches
        whole, rest = divmod(int(self.steps), b)
        sums: list[Release] = []
        if whole:
            sums.append(DPSGD(sigma * math.sqrt(b), 1.0, whole))
        if rest:
            sums.append(DPSGD(sigma * math.sqrt(rest), rest / b, 1))
        return [sums, self._largest_outputs((0.0, 1.0))]

    def _largest_outputs(self, shifts: tuple[float, float] = (1.0, 2.0)) -> list[Release]:
        """The largest output of every epoch, where all other gradients oppose the record's.

        The batch of the record is then shifted by two clipping norms against the others, and by one
        if its gradient is zero. With no other gradients it is by one, and by none.
        """
        whole, rest = divmod(int(self.steps), self.batches)
        found: list[Release] = []
        if whole:
            found.append(self._largest_output(self.batches, whole, shifts))
        if rest:
            found.append(self._largest_output(rest, 1, shifts))
        return found

    def _largest_output(self, released: int, epochs: int, shifts: tuple[float, float]) -> Binned:
        a, share = 1.0 / float(self.noise_multiplier), released / self.batches
        # from where the largest of all outputs may lie on, bins of equal size
        low = -float(sc.ndtri(-math.expm1(math.log(1e-15) / released)))
        edges = np.linspace(min(low, 12.0), 2.0 * a + 12.0, _BINS - 1)
        idle = released * sc.log_ndtr(edges)
        laws = []
        for shift in (a * times for times in shifts):
            taken = (released - 1) * sc.log_ndtr(edges) + sc.log_ndtr(edges - shift)
            # probabilities of larger values, and of no larger ones
            above = -share * np.expm1(taken) - (1.0 - share) * np.expm1(idle)
            below = share * np.exp(taken) + (1.0 - share) * np.exp(idle)
            middle = np.where(above[:-1] > 0.5, np.diff(below), -np.diff(above))
            laws.append((float(below[0]), *np.maximum(middle, 0.0).tolist(), float(above[-1])))
        return Binned(laws[0], laws[1], steps=epochs)

    def _worst_batches(self) -> list[list[Release]]:
        """Data that attain every step's bound at some thresholds, those above one or below it."""
        sigma, q, steps = float(self.noise_multiplier), float(self.sampling_rate), int(self.steps)
        a = 1.0 / sigma
        far = [(1.0 - q, 0.0), (q, 2.0 * a)]
        zero: list[Release] = [bin_outputs(far, [(1.0 - q, 0.0), (q, a)], steps)]
        if self.adjacency == "replace":
            # the others side with the neighbouring record, or with this one
            # or oppose it where it is replaced by one of gradient zero
            return [[DPSGD(0.5 * sigma, q, steps)], [bin_outputs([(1.0, 0.0)], far, steps)], zero]
        # the others oppose the record, or have no gradients
        return [zero, [DPSGD(sigma, q, steps)]]


@dataclass(frozen=True)
class _Several(Bracketed):
    """Runs and releases on the same records, one after another."""

    parts: tuple[SampledRun | Release, ...]

    def dominating(self) -> list[Release]:
        return [one for part in self.parts for one in _dominating(part)]

    def attained(self) -> list[list[Release]]:
        every = [p.attained() if isinstance(p, SampledRun) else [[p]] for p in self.parts]
        return [
            [one for attacks in every for one in attacks[i % len(attacks)]]
            for i in range(max(map(len, every)))
        ]


def _dominating(part: SampledRun | Release) -> list[Release]:
    return part.dominating() if isinstance(part, SampledRun) else [part]


def bracket(run: object) -> Bracketed | None:
    """Return a sampled run, or a list with one among its parts; None of anything else.

    Raises
    ------
    ValueError
        If the parts have different neighbouring data sets.
    """
    if isinstance(run, SampledRun) or not isinstance(run, (list, tuple)):
        return run if isinstance(run, Bracketed) else None
    kinds = {part.adjacency for part in run if isinstance(part, SampledRun)}
    if not kinds:
        return None
    if len(kinds) > 1 or ("replace" in kinds and not all(isinstance(p, SampledRun) for p in run)):
        raise ValueError(
            "adjacency of all runs of a list must be the same, and not 'replace' beside other "
            f"releases; got {', '.join(sorted(kinds))}"
        )
    return _Several(tuple(run))
