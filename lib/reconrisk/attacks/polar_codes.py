"""A polar code whose chance of a wrong block has a proven bound: bits through Gaussian noise.

A value of a released gradient is a use of a Gaussian channel. A code spreads bits over many values,
so that each bit comes through although each value drowns. Polar codes (Arıkan, 2009) need no
search and no trial: the Bhattacharyya parameters of the bits follow from the energy of a value by a
recursion, and half their sum bounds the chance that successive cancellation decodes a block
wrongly.

Energies are in units of the noise's variance: a value ``+-a`` under noise of standard deviation s
has the energy ``(a/s)^2``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from reconrisk import arguments

__all__ = ["PolarCode", "bhattacharyya", "polar_code", "polar_decode", "polar_encode"]

#: the numbers of blocks that are tried grow by this factor
_FINER = 2**0.25


@dataclass(frozen=True)
class PolarCode:
    """Blocks of a polar code for a message, and what can go wrong at most.

    Attributes
    ----------
    length : int
        n, values of a block, a power of two.
    information : ndarray of int, shape (bits,)
        The positions of a block that carry bits, in increasing order.
    blocks : int
        Number of blocks, at least one.
    energy : float
        Energy of a value in units of the noise's variance.
    error_bound : float
        The chance that any bit of any block is decoded wrongly is at most this.
    """

    length: int
    information: np.ndarray
    blocks: int
    energy: float
    error_bound: float

    @property
    def bits(self) -> int:
        """Bits that all blocks together carry."""
        return self.blocks * len(self.information)

    @property
    def values(self) -> int:
        """Values of all blocks together."""
        return self.blocks * self.length


@np.errstate(under="ignore")
def bhattacharyya(length: int, energy: float) -> np.ndarray:
    """Return bounds on the Bhattacharyya parameters of a polar code's positions, shape (length,).

    A value has ``Z = exp(-energy/2)``; combining two positions of parameter Z gives one with at
    most ``2 Z - Z^2`` and one with ``Z^2`` (Arıkan, *Channel polarization*, 2009, Proposition 5).
    A bit in a position with parameter Z is decided wrongly, its forerunners given, with chance at
    most Z/2.

    Parameters
    ----------
    length : int
        n >= 1, a power of two.
    energy : float
        Energy of a value in units of the noise's variance, >= 0.

    Raises
    ------
    ValueError
        If ``length`` is not a power of two or ``energy`` is out of its range.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> attacks.bhattacharyya(4, 1.0).round(3).tolist()
    [0.976, 0.714, 0.6, 0.135]
    """
    length = _power_of_two(length)
    energy = float(arguments.real("energy", energy, 0))
    z = np.array([math.exp(-energy / 2)])
    while z.size < length:
        z = np.stack([z * (2 - z), z**2], axis=1).ravel()
    return z


@np.errstate(under="ignore")
def polar_code(
    energy: float,
    bits: int,
    *,
    length: int = 2**16,
    failure: float = 1e-3,
    most_values: int = 2**24,
) -> PolarCode | None:
    """Return the polar code that carries most of a message, chosen from the noise alone.

    Of all numbers of blocks (powers of the fourth root of two) the least that carries the whole
    message; if none does, the one that carries most bits. The chance that anything is decoded
    wrongly stays at most ``failure``.

    Parameters
    ----------
    energy : float
        Energy of *all* values together in units of the noise's variance, > 0: ``1/sigma^2`` for a
        step of DP-SGD with noise multiplier sigma.
    bits : int
        Length of the message, >= 1.
    length : int
        n, values of a block, a power of two.
    failure : float
        In (0, 1).
    most_values : int
        At most this many values are used; at least ``length``.

    Returns
    -------
    PolarCode or None
        None if the energy does not carry a single bit.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    As the number of values grows, the energy that one bit needs by this bound tends to 2, where
    the capacity of the channel would ask for 2 ln 2.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> code = attacks.polar_code(energy=1e4, bits=2000, length=1024)
    >>> code.bits >= 2000, code.error_bound <= 1e-3
    (True, True)
    """
    length = _power_of_two(length)
    energy = float(arguments.real("energy", energy, 0, low_open=True))
    bits = int(arguments.integer("bits", bits, 1))
    failure = float(arguments.real("failure", failure, 0, 1, low_open=True, high_open=True))
    most = int(arguments.integer("most_values", most_values, length)) // length
    best = None
    for step in range(math.ceil(math.log(most, _FINER)) + 1 if most > 1 else 1):
        code = _with_blocks(min(most, round(_FINER**step)), energy, bits, length, failure)
        if code is not None and (best is None or code.bits > best.bits):
            best = code
        if best is not None and best.bits >= bits:
            break
    return best


def _with_blocks(
    blocks: int, energy: float, bits: int, length: int, failure: float
) -> PolarCode | None:
    share = energy / (blocks * length)
    z = bhattacharyya(length, share)
    order = np.argsort(z, kind="stable")[: -(-bits // blocks)]
    bound = blocks * np.cumsum(z[order]) / 2
    carried = int(np.searchsorted(bound, failure, side="right"))
    if carried == 0:
        return None
    chosen = np.sort(order[:carried])
    return PolarCode(length, chosen, blocks, share, float(bound[carried - 1]))


def polar_encode(code: PolarCode, message: torch.Tensor) -> torch.Tensor:
    """Return the blocks that carry a message: 0 and 1, shape (..., blocks, length).

    Parameters
    ----------
    code : PolarCode
    message : Tensor, shape (..., bits)
        Zeros and ones. What the code does not carry is left out, what it could carry more is zero.

    Notes
    -----
    Sums modulo two are ``|a - b|``: layers of an ordinary network.
    """
    sent = message[..., : code.bits]
    sent = torch.nn.functional.pad(sent, (0, code.bits - sent.shape[-1]))
    sent = sent.unflatten(-1, (code.blocks, len(code.information)))
    sent = torch.nn.functional.pad(sent, (1, 0))  # the frozen positions read this zero
    source = np.zeros(code.length, dtype=np.int64)
    source[code.information] = 1 + np.arange(len(code.information))
    return _transform(sent[..., torch.as_tensor(source, device=message.device)])


def _transform(word: torch.Tensor) -> torch.Tensor:
    """Arıkan's transform of zeros and ones, its own inverse."""
    half = 1
    while half < word.shape[-1]:
        first, second = word.unflatten(-1, (-1, 2, half)).unbind(-2)
        word = torch.stack([(first - second).abs(), second], dim=-2).flatten(-3)
        half *= 2
    return word


def polar_decode(code: PolarCode, received: torch.Tensor) -> torch.Tensor:
    """Return the message of noisy blocks by successive cancellation, shape (..., bits).

    Parameters
    ----------
    code : PolarCode
    received : Tensor, shape (..., blocks, length)
        ``+-sqrt(energy)`` (plus for ones) under noise of variance one.

    Raises
    ------
    ValueError
        If the shape is not that of the code's blocks.

    Notes
    -----
    Time and memory are ``values * log2(length)``.
    """
    if received.shape[-2:] != (code.blocks, code.length):
        raise ValueError(
            f"received must have shape (..., {code.blocks}, {code.length}); "
            f"got {tuple(received.shape)}"
        )
    frozen = np.ones(code.length, dtype=bool)
    frozen[code.information] = False
    # logarithms of P(0)/P(1)
    source, _ = _cancel(-2 * math.sqrt(code.energy) * received, frozen)
    return source[..., torch.as_tensor(code.information, device=received.device)].flatten(-2)


def _cancel(ratios: torch.Tensor, frozen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """The source bits and the word of a block, or part of it, from its log-likelihood ratios."""
    if frozen.all():
        zeros = torch.zeros_like(ratios)
        return zeros, zeros
    if not frozen.any():  # every word is a code word: each value is decided by itself
        word = (ratios < 0).to(ratios.dtype)
        return _transform(word), word
    if frozen[:-1].all():  # one bit, repeated in every position
        bit = (ratios.sum(dim=-1, keepdim=True) < 0).to(ratios.dtype)
        word = bit.expand(ratios.shape)
        return torch.nn.functional.pad(bit, (ratios.shape[-1] - 1, 0)), word
    half = ratios.shape[-1] // 2
    a, b = ratios[..., :half], ratios[..., half:]
    sum_ratio = torch.logaddexp(a + b, torch.zeros_like(a)) - torch.logaddexp(a, b)
    first, word = _cancel(sum_ratio, frozen[:half])
    second, other = _cancel(b + (1 - 2 * word) * a, frozen[half:])
    return (
        torch.cat([first, second], dim=-1),
        torch.cat([(word - other).abs(), other], dim=-1),
    )


def _power_of_two(length: int) -> int:
    size = arguments.count("length", length)
    if size & (size - 1):
        raise ValueError(f"length must be a power of two; got {length!r}")
    return size
