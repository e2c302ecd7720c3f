"""A two-layer network whose neurons are generated on demand."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special

__all__ = ["Neurons", "TwoLayer"]

#: neurons per seed; a chunk is a multiple of it
_BLOCK = 1024
#: default number of inner weights in a chunk
_CHUNK_NUMBERS = 1 << 20
#: attacks and fits pass over the same network hundreds of times: the last chunks are kept, of up
#: to so many inner weights each, of networks of up to so many
_KEPT_CHUNKS, _KEPT_CHUNK_NUMBERS, _KEPT_NUMBERS = 32, 1 << 21, 1 << 24


@dataclass(frozen=True)
class Neurons:
    """A subset of a network's neurons.

    Attributes
    ----------
    where : slice
        Their positions among the m neurons.
    inner : ndarray of float32, shape (n, d)
        Inner weights w.
    outer : ndarray, shape (n,)
        Output weights a.
    """

    where: slice
    inner: np.ndarray
    outer: np.ndarray

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """Return ``w_j.x_i`` in double precision, shape (n, B)."""
        return self.inner.astype(float) @ inputs.T

    def split(self, rows: int) -> Iterator[Neurons]:
        """Yield these neurons, at most ``rows`` at a time."""
        for start in range(0, len(self.outer), rows):
            part = slice(start, start + rows)
            first = self.where.start + start
            inner, outer = self.inner[part], self.outer[part]
            yield Neurons(slice(first, first + len(outer)), inner, outer)


@dataclass(frozen=True)
class TwoLayer:
    """A two-layer network, defined by its shape and its seed.

    Parameters
    ----------
    dimension, width : int
        d >= 1 and m >= 1.
    activation : str or special.Activation
    seed : int
        In [0, 2**63 - 1025]. Networks that differ only in width share the inner weights of their
        first neurons.
    chunk : int, optional
        Neurons in memory at a time, rounded up to a multiple of 1024; by default those with about
        a million inner weights. Affects results by rounding only.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.
    """

    dimension: int
    width: int
    activation: str | special.Activation = "elu"
    seed: int = 0
    chunk: int | None = None

    def __post_init__(self) -> None:
        arguments.integer("dimension", self.dimension, 1, 1e6)
        arguments.integer("width", self.width, 1, 1e12)
        arguments.integer("seed", self.seed, 0, 2.0**63 - 1025)
        if self.chunk is not None:
            arguments.integer("chunk", self.chunk, 1)
        special.activation(self.activation)

    @property
    def function(self) -> special.Activation:
        """The activation with its derivatives."""
        return special.activation(self.activation)

    def neurons(self) -> Iterator[Neurons]:
        """Yield all neurons, chunk by chunk, always in the same order.

        Cost: about ``m d`` normal draws for each pass, of networks of up to 16 million inner
        weights for the first; memory for one chunk, and for those of the last such networks.
        """
        rows = _CHUNK_NUMBERS // self.dimension if self.chunk is None else self.chunk
        rows = max(1, -(-rows // _BLOCK)) * _BLOCK
        few = self.width * self.dimension <= _KEPT_NUMBERS
        small = min(self.width, rows) * self.dimension <= _KEPT_CHUNK_NUMBERS
        draw = _kept_neurons if few and small else _draw_neurons
        for start in range(0, self.width, rows):
            yield draw(self.seed, self.dimension, self.width, start, min(start + rows, self.width))

    def outputs(self, inputs: ArrayLike) -> np.ndarray:
        """Return ``f(x_i)`` for records (B, d), shape (B,); one pass over the neurons."""
        x = self.records(inputs)
        total = np.zeros(len(x))
        for some in self.neurons():
            total += some.outer @ self.function.value(some.scores(x))
        return total

    def records(self, inputs: ArrayLike) -> np.ndarray:
        """Return a batch as floats; raise ValueError unless it is finite with shape (B, d)."""
        x = arguments.real("inputs", inputs, low_open=True, high_open=True)
        if x.ndim != 2 or x.shape[1] != self.dimension or len(x) == 0:
            raise ValueError(f"inputs must have shape (B, {self.dimension}); got {x.shape}")
        return x


def _draw_neurons(seed: int, dimension: int, width: int, start: int, stop: int) -> Neurons:
    """Return a network's neurons from ``start``, a multiple of the block, to ``stop``."""
    inner = np.empty((stop - start, dimension), dtype=np.float32)
    outer = np.empty(stop - start)
    for first in range(start, stop, _BLOCK):
        part = slice(first - start, min(first + _BLOCK, stop) - start)
        key = np.array([seed, first // _BLOCK], dtype=np.uint64)
        draws = np.random.Generator(np.random.Philox(key=key))
        outer[part] = draws.standard_normal(_BLOCK)[: part.stop - part.start]
        draws.standard_normal(dtype=np.float32, out=inner[part])
    outer /= width
    for kept in (inner, outer):
        kept.flags.writeable = False
    return Neurons(slice(start, stop), inner, outer)


_kept_neurons = functools.lru_cache(maxsize=_KEPT_CHUNKS)(_draw_neurons)
