"""A layer that sends bits: what an architecture can do that a linear layer does not.

DP-SGD bounds the length of a gradient, not what it means. With ``f(X) = W phi(X)`` and a summed
loss the gradient of W is ``phi(X)``, whatever the network computes as phi. Here phi is the bits of
the record's values, ``+-a`` each, computed by threshold units. The attacker sees them through a
Gaussian channel: the energies of all values, in units of the noise's variance, add up to
``1/sigma^2``.

:func:`bits_attack` sends every bit by itself, :func:`coded_attack` through a polar code, with
almost no error up to the noise that the code allows. Neither knows more of the record than its
format: values in [0, 1] with 8 bits each. :mod:`~reconrisk.attacks.transform_layer` adds a prior.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import optimize
from torch import nn

from reconrisk import arguments
from reconrisk._types import DPSGD, check_run
from reconrisk.attacks.polar_codes import PolarCode, polar_code, polar_decode, polar_encode
from reconrisk.models import sum_of_outputs
from reconrisk.training import single_record_steps

__all__ = [
    "BitLayer",
    "binary_mmse",
    "bit_amplitudes",
    "bit_energies",
    "bits_attack",
    "coded_attack",
    "expected_mse_of_bits",
    "pixel_bits",
    "pixels_from_bits",
    "send_coded",
]

#: most bits of a value
MOST_BITS = 16


class BitLayer(nn.Module):
    """``f(X) = W phi(X)`` with ``phi(X) = a (2 b(X) - 1)``: the gradient of W is ``+-a``.

    Parameters
    ----------
    bits : callable
        The network's fixed part b: from a record, shape (...), to zeros and ones, shape (D,).
    amplitudes : Tensor, shape (D,)
        a >= 0, one for every bit. A gradient has their Euclidean norm, whatever the record.

    Raises
    ------
    ValueError
        If the amplitudes are not a vector of numbers >= 0.

    Notes
    -----
    W is one row of zeros. Its gradient needs no gradient through the threshold units.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> layer = attacks.BitLayer(lambda x: (x > 0.5).float(), torch.tensor([3.0, 4.0]))
    >>> layer(torch.tensor([0.2, 0.9])).backward()
    >>> layer.weight.grad.tolist()
    [[-3.0, 4.0]]
    """

    def __init__(
        self, bits: Callable[[torch.Tensor], torch.Tensor], amplitudes: torch.Tensor
    ) -> None:
        super().__init__()
        if amplitudes.ndim != 1 or not (amplitudes >= 0).all():
            raise ValueError("amplitudes must be a vector of numbers >= 0")
        self.bits = bits
        self.register_buffer("amplitudes", amplitudes)
        self.weight = nn.Parameter(torch.zeros_like(amplitudes)[None])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the layer's output, shape (1,), for one record."""
        features = self.amplitudes * (2 * self.bits(inputs) - 1)
        return nn.functional.linear(features, self.weight)


def pixel_bits(records: torch.Tensor, depth: int = 8) -> torch.Tensor:
    """Return the bits of the nearest of ``2^depth`` levels, shape (..., depth, N).

    Parameters
    ----------
    records : Tensor, shape (..., N)
        Values in [0, 1]; a half is rounded up, what lies outside goes to the end of the range.
    depth : int
        Bits of a value, from 1 to 16.

    Returns
    -------
    Tensor
        Zeros and ones; the most significant bits first.

    Notes
    -----
    One layer of threshold units for every bit: what is above the threshold is subtracted and the
    rest handed on.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import attacks
    >>> attacks.pixel_bits(torch.tensor([0.0, 2 / 3, 1.0]), depth=2).tolist()
    [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    """
    depth = int(arguments.integer("depth", depth, 1, MOST_BITS))
    rest = records * (2**depth - 1)
    planes = []
    for j in reversed(range(depth)):
        bit = (rest >= 2**j - 0.5).to(records.dtype)
        rest = rest - 2**j * bit
        planes.append(bit)
    return torch.stack(planes, dim=-2)


def pixels_from_bits(bits: torch.Tensor) -> torch.Tensor:
    """Return values in [0, 1], shape (..., N), from bits or their probabilities (..., depth, N).

    The inverse of :func:`pixel_bits`; of probabilities it makes the posterior mean, a half for a
    bit of which nothing is known.
    """
    return torch.einsum("...jn,j->...n", bits, _weights(bits.shape[-2]).to(bits))


@functools.cache
def _weights(depth: int) -> torch.Tensor:
    """What a bit is worth in a value of [0, 1], shape (depth,)."""
    return 2.0 ** torch.arange(depth - 1, -1, -1, dtype=torch.float64) / (2**depth - 1)


# How much energy a bit gets ----------------------------------------------------------------------


@np.errstate(under="ignore")
def binary_mmse(energy: ArrayLike) -> np.ndarray:
    """Return the least mean squared error of a sign ``+-1`` that is seen through Gaussian noise.

    Parameters
    ----------
    energy : array_like
        s, squared amplitude over the noise's variance, >= 0.

    Returns
    -------
    ndarray
        ``exp(-s/2) E[1/cosh(sqrt(s) Y)]`` with a standard normal Y; 1 at s = 0. It is reached by
        the posterior mean, ``tanh(sqrt(s) y)`` of ``y = +-sqrt(s) + noise``.

    Notes
    -----
    This form of ``1 - E[tanh(s + sqrt(s) Y)]`` subtracts nothing: it is exact to a relative 1e-13
    as long as it can be represented.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> attacks.binary_mmse([0.0, 1.0, 9.0]).round(4).tolist()
    [1.0, 0.4496, 0.0042]
    """
    return np.exp(_log_moment(arguments.real("energy", energy, 0), 1))


def _log_moment(energy: np.ndarray, power: int) -> np.ndarray:
    """``log(exp(-s/2) E[sech(sqrt(s) Y)^power])`` by the trapezoidal rule, which is exact here."""
    root = np.sqrt(energy)[..., None]
    step = 0.2 / np.maximum(1, root)
    y = step * np.arange(-200, 201)
    # sech without overflow
    sech = 2 * np.exp(-np.abs(root * y)) / (1 + np.exp(-2 * np.abs(root * y)))
    mean = (step * np.exp(-(y**2) / 2) * sech**power).sum(axis=-1) / math.sqrt(2 * math.pi)
    return -np.asarray(energy) / 2 + np.log(mean)


@np.errstate(under="ignore")
def bit_energies(energy: float, depth: int = 8) -> np.ndarray:
    """Return how a value's energy is best divided among its bits, shape (depth,).

    Parameters
    ----------
    energy : float
        Energy of a value in units of the noise's variance, >= 0: ``1/(N sigma^2)`` for records of N
        values.
    depth : int
        Bits of a value, from 1 to 16.

    Returns
    -------
    ndarray
        Energies of the bits, the most significant first, with sum ``energy``. They minimise the
        expected squared error of a value whose bits are independent and uniform: the rule sees the
        noise and nothing of the record.

    Notes
    -----
    The error is a sum of convex functions of the energies, since the derivative of
    :func:`binary_mmse` is ``-exp(-s/2) E[sech(sqrt(s) Y)^3]``, which increases. So a bit of weight
    w gets the energy at which ``w^2`` times that derivative is a common multiplier, or none
    ("mercury/waterfilling": Lozano, Tulino and Verdú, 2006).

    Examples
    --------
    >>> from reconrisk import attacks
    >>> attacks.bit_energies(10.0, depth=3).round(2).tolist()
    [5.52, 3.23, 1.24]
    """
    energy = float(arguments.real("energy", energy, 0, np.inf, high_open=True))
    depth = int(arguments.integer("depth", depth, 1, MOST_BITS))
    if energy == 0:
        return np.zeros(depth)
    worth = 2 * np.log(_weights(depth).numpy())

    def divide_energy(log_multiplier: float) -> np.ndarray:
        return _energies_at_slope(log_multiplier - worth, energy)

    low = float(_log_moment(np.asarray(energy), 3)) + worth[-1] - 1
    root = optimize.brentq(lambda m: divide_energy(m).sum() - energy, low, worth[0], xtol=1e-13)
    found = divide_energy(root)
    return found * (energy / found.sum())


def _energies_at_slope(log_slope: np.ndarray, most: float) -> np.ndarray:
    """The energies in [0, most] at which the error falls with a slope, by bisection."""
    low, high = np.zeros_like(log_slope), np.full_like(log_slope, most)
    for _ in range(80):
        middle = (low + high) / 2
        steeper = _log_moment(middle, 3) > log_slope
        low, high = np.where(steeper, middle, low), np.where(steeper, high, middle)
    return (low + high) / 2


def bit_amplitudes(run: DPSGD, dimension: int, depth: int = 8) -> np.ndarray:
    """Return the amplitudes of a value's bits, shape (depth,), by :func:`bit_energies`.

    Parameters
    ----------
    run : DPSGD
        Its ``noise_multiplier`` and ``max_grad_norm`` are used.
    dimension : int
        N >= 1: all N values get the same, and ``N sum_j a_j^2 = C^2``.
    depth : int
        Bits of a value, from 1 to 16.
    """
    check_run(run)
    dimension = int(arguments.integer("dimension", dimension, 1))
    energies = bit_energies(1 / (dimension * run.noise_multiplier**2), depth)
    return run.noise_multiplier * run.max_grad_norm * np.sqrt(energies)


@np.errstate(under="ignore")
def expected_mse_of_bits(energies: ArrayLike, record: ArrayLike | None = None) -> float:
    """Return the expected mean squared error of :func:`bits_attack`, exactly.

    Parameters
    ----------
    energies : array_like, shape (depth,)
        Energies of a value's bits in units of the noise's variance, the most significant first.
    record : array_like, shape (N,), optional
        The record, of values in [0, 1] that have ``depth`` bits. By default the expectation is over
        values whose bits are independent and uniform.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    A posterior mean ``t`` of a sign s with error m has ``E[t] = s (1 - m)`` and ``E[t^2] = 1 - m``.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> round(attacks.expected_mse_of_bits(attacks.bit_energies(20.0)), 5)
    0.00159
    """
    s = np.atleast_1d(arguments.real("energies", energies, 0))
    depth = int(arguments.integer("depth", s.size, 1, MOST_BITS))
    weights, error = _weights(depth).numpy() / 2, binary_mmse(s)
    if record is None:
        return float((weights**2 * error).sum())
    values = np.ravel(arguments.real("record", record, 0, 1))
    signs = 2 * pixel_bits(torch.as_tensor(values), depth).numpy() - 1
    bias = (weights * error) @ signs
    return float(np.mean(bias**2) + (weights**2 * error * (1 - error)).sum())


# The attacks -------------------------------------------------------------------------------------


@np.errstate(under="ignore")
def bits_attack(
    inputs: torch.Tensor, run: DPSGD, generator: torch.Generator, *, depth: int = 8
) -> torch.Tensor:
    """Rebuild records from one DP-SGD step each through a layer that sends their bits.

    Parameters
    ----------
    inputs : Tensor, shape (examples, N)
        The records, one step each, with values in [0, 1].
    run : DPSGD
        ``noise_multiplier`` and ``max_grad_norm`` of the step.
    generator : torch.Generator
        Source of the noise, on the device of ``inputs``.
    depth : int
        Bits of a value, from 1 to 16.

    Returns
    -------
    Tensor, shape (examples, N)
        The posterior means of the values if their bits were independent and uniform.

    Raises
    ------
    ValueError
        If ``inputs`` are not records of values in [0, 1].

    Notes
    -----
    Time and memory are ``examples * depth * N``.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import DPSGD, attacks
    >>> record = torch.arange(256)[None] / 255
    >>> rebuilt = attacks.bits_attack(record, DPSGD(1e-3), torch.Generator().manual_seed(0))
    >>> bool((rebuilt - record).abs().max() < 1e-6)
    True
    """
    _check_records(inputs)
    amplitudes = torch.as_tensor(bit_amplitudes(run, inputs.shape[1], depth)).to(inputs)
    spread = amplitudes.repeat_interleave(inputs.shape[1])
    layer = BitLayer(lambda record: pixel_bits(record, depth).flatten(-2), spread)
    gradient, _ = single_record_steps(layer, sum_of_outputs, inputs, run, generator)
    variance = (run.noise_multiplier * run.max_grad_norm) ** 2
    means = torch.tanh(spread / variance * gradient["weight"][:, 0])
    return pixels_from_bits((1 + means.unflatten(-1, (len(amplitudes), -1))) / 2)


def coded_attack(
    inputs: torch.Tensor,
    run: DPSGD,
    generator: torch.Generator,
    *,
    depth: int = 8,
    length: int = 2**16,
    failure: float = 1e-3,
) -> tuple[torch.Tensor, PolarCode | None]:
    """Rebuild records from one DP-SGD step each through a layer that sends their bits in a code.

    Parameters
    ----------
    inputs, run, generator, depth
        As in :func:`bits_attack`. The most significant bits of all values come first in the
        message; the last ones are left out where the noise does not let all of them through.
    length, failure
        As in :func:`polar_code`.

    Returns
    -------
    rebuilt : Tensor, shape (examples, N)
        Bits that were left out count one half.
    code : PolarCode or None
        None if not a single bit comes through: then ``rebuilt`` is one half everywhere.

    Raises
    ------
    ValueError
        If ``inputs`` are not records of values in [0, 1], or ``length`` or ``failure`` is out of
        its range.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import DPSGD, attacks
    >>> record, noise = torch.arange(256)[None] / 255, torch.Generator().manual_seed(0)
    >>> rebuilt, code = attacks.coded_attack(record, DPSGD(0.008), noise, length=1024)
    >>> code.bits >= 2048, bool((rebuilt - record).abs().max() < 1e-6)
    (True, True)
    """
    _check_records(inputs)
    probabilities, code = send_coded(
        inputs,
        lambda record: pixel_bits(record, depth).flatten(-2),
        depth * inputs.shape[1],
        run,
        generator,
        length=length,
        failure=failure,
    )
    return pixels_from_bits(probabilities.unflatten(-1, (depth, -1))), code


def send_coded(
    inputs: torch.Tensor,
    message: Callable[[torch.Tensor], torch.Tensor],
    bits: int,
    run: DPSGD,
    generator: torch.Generator,
    *,
    length: int = 2**16,
    failure: float = 1e-3,
) -> tuple[torch.Tensor, PolarCode | None]:
    """Send a message about each record through a polar code in a DP-SGD step's gradient.

    Parameters
    ----------
    inputs : Tensor, shape (examples, ...)
    message : callable
        The network's fixed part: from a record to zeros and ones, shape (bits,).
    bits : int
        Length of the message.
    run, generator, length, failure
        As in :func:`coded_attack`.

    Returns
    -------
    decoded : Tensor, shape (examples, bits)
        Zeros and ones; one half for what the code does not carry.
    code : PolarCode or None
        None if it carries nothing.
    """
    check_run(run)
    bits = arguments.count("bits", bits, 0)
    code = polar_code(1 / run.noise_multiplier**2, bits, length=length, failure=failure)
    decoded = torch.full((len(inputs), bits), 0.5).to(inputs)
    if code is None:
        return decoded, None
    amplitude = run.max_grad_norm / math.sqrt(code.values)
    layer = BitLayer(
        lambda record: polar_encode(code, message(record)).flatten(),
        torch.full((code.values,), amplitude).to(inputs),
    )
    gradient, _ = single_record_steps(layer, sum_of_outputs, inputs, run, generator)
    received = gradient["weight"][:, 0] / (run.noise_multiplier * run.max_grad_norm)
    carried = polar_decode(code, received.unflatten(-1, (code.blocks, code.length)))
    sent = min(bits, code.bits)
    decoded[:, :sent] = carried[:, :sent]
    return decoded, code


def _check_records(inputs: torch.Tensor) -> None:
    if inputs.ndim != 2:
        raise ValueError(f"inputs must have shape (examples, N); got {tuple(inputs.shape)}")
    if not ((inputs >= 0) & (inputs <= 1)).all():
        raise ValueError("inputs must be values in [0, 1]")
