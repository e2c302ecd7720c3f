"""A layer that sends an image's transform coefficients: what a server gains by a prior.

Most bits of a photograph's pixels follow from the others. A server that knows what images look like
lets the network compute the cosine transform of the image, which is one fixed linear layer, and
spends the bits that the noise lets through (:mod:`~reconrisk.attacks.bit_layer`) on the
coefficients that vary most *over other images*. This is a prior: means and variances, estimated
from images other than the record. :func:`linear_transform_attack` has the same prior and sends no
bits: what of the gain is the code's, and what the prior's, is the difference of the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import fft

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.attacks.bit_layer import BitLayer, send_coded
from reconrisk.attacks.polar_codes import PolarCode, polar_code
from reconrisk.models import sum_of_outputs
from reconrisk.training import single_record_steps

__all__ = [
    "TransformPrior",
    "allocate_bits",
    "laplace_cells",
    "linear_energies",
    "linear_transform_attack",
    "transform_attack",
    "transform_prior",
]

#: most bits of a coefficient
MOST_BITS = 14
#: coefficients whose frequencies lie within this factor share a variance
_BAND = 2**0.25


@dataclass(frozen=True)
class TransformPrior:
    """What a server knows of images: the law of their transform coefficients, taken as Laplace's.

    Attributes
    ----------
    mean, std : ndarray, shape (height, width, channels)
        Of the orthonormal discrete cosine transform (DCT-II) over all three axes; the channels'
        transform separates brightness from colour.
    """

    mean: np.ndarray
    std: np.ndarray


def transform_prior(pictures: ArrayLike) -> TransformPrior:
    """Return means and standard deviations of the coefficients of pictures.

    Parameters
    ----------
    pictures : array_like, shape (count, height, width, channels)
        Two pictures or more, none of them the record.

    Returns
    -------
    TransformPrior
        The three means are those of the channels' constant parts, all others are zero. Standard
        deviations are root mean squares over bands of nearly equal frequency: a few pictures
        suffice.

    Raises
    ------
    ValueError
        If the shape is not that of two pictures or more.
    """
    images = arguments.real("pictures", pictures, -np.inf, np.inf, low_open=True, high_open=True)
    if images.ndim != 4 or len(images) < 2:
        raise ValueError(
            f"pictures must have shape (count, height, width, channels), count >= 2; "
            f"got {images.shape}"
        )
    coefficients = fft.dctn(images, axes=(1, 2, 3), norm="ortho")
    mean = np.zeros(images.shape[1:])
    mean[0, 0] = coefficients[:, 0, 0].mean(axis=0)
    square = ((coefficients - mean) ** 2).mean(axis=0)
    # the means are of the same pictures
    square[0, 0] *= len(images) / (len(images) - 1)
    _, height, width, channels = images.shape
    rows, columns = np.ogrid[:height, :width]
    frequency = np.hypot(rows / height, columns / width) * max(height, width)
    bands = np.ceil(np.log(np.maximum(frequency, 0.5) / 0.5) / np.log(_BAND)).astype(int)
    count = np.maximum(np.bincount(bands.ravel()), 1)
    std = np.empty_like(mean)
    for channel in range(channels):
        total = np.bincount(bands.ravel(), square[..., channel].ravel())
        std[..., channel] = np.sqrt(total / count)[bands]
    return TransformPrior(mean, np.maximum(std, np.finfo(float).tiny))


@functools.cache
def _cells(bits: int) -> tuple[np.ndarray, float]:
    edges = _expand(np.arange(2**bits + 1) / 2**bits)
    # moments of the law of density exp(-|c| sqrt(2)) / sqrt(2) above each edge on the positive side
    rate = np.sqrt(2)
    low, high = edges[2 ** (bits - 1) : -1], edges[2 ** (bits - 1) + 1 :]

    def above(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        finite = np.where(np.isinf(a), 0.0, a)
        tail = np.where(np.isinf(a), 0.0, np.exp(-rate * finite)) / 2
        return (
            tail,
            tail * (finite + 1 / rate),
            tail * (finite**2 + 2 * finite / rate + 2 / rate**2),
        )

    mass, first, second = (x - y for x, y in zip(above(low), above(high), strict=True))
    centres = first / mass
    error = 2 * float((second - first**2 / mass).sum())
    return np.concatenate([-centres[::-1], centres]), error


def laplace_cells(bits: int) -> tuple[np.ndarray, float]:
    """Return the values that stand for the cells of a quantiser, and its mean squared error.

    The quantiser is that of a Laplace variable with variance one whose cells are equally long after
    the map ``u = F(c/3)``, F its distribution function (Panter and Dite, 1951); a cell's value is
    its mean.

    Parameters
    ----------
    bits : int
        From 0 (one cell, the mean) to 14.

    Returns
    -------
    values : ndarray, shape (2^bits,)
    error : float

    Examples
    --------
    >>> from reconrisk import attacks
    >>> values, error = attacks.laplace_cells(1)
    >>> values.round(4).tolist(), round(error, 4)
    ([-0.7071, 0.7071], 0.5)
    """
    bits = int(arguments.integer("bits", bits, 0, MOST_BITS))
    return _cells(bits) if bits else (np.zeros(1), 1.0)


def _expand(u: np.ndarray) -> np.ndarray:
    """The inverse of :func:`_compress`."""
    with np.errstate(divide="ignore"):
        tail = -3 / np.sqrt(2) * np.log(2 * np.minimum(u, 1 - u))
    return np.sign(u - 0.5) * tail


def _compress(c: torch.Tensor) -> torch.Tensor:
    """Laplace's distribution function at c/3, for the variance one."""
    tail = torch.exp(-(2**0.5) / 3 * c.abs()) / 2
    return torch.where(c < 0, tail, 1 - tail)


def allocate_bits(std: ArrayLike, bits: int) -> np.ndarray:
    """Return the numbers of bits that leave the least expected squared error, of the shape of std.

    Parameters
    ----------
    std : array_like
        Standard deviations of the coefficients, >= 0.
    bits : int
        Bits to spend in all, >= 0; what exceeds 14 for every coefficient is not spent.

    Returns
    -------
    ndarray of int
        With sum ``bits``: each bit goes where it lowers the error of :func:`laplace_cells` most.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> attacks.allocate_bits([8.0, 2.0, 0.1], 5).tolist()
    [4, 1, 0]
    """
    scale = arguments.real("std", std, 0, np.inf, high_open=True)
    bits = int(arguments.integer("bits", bits, 0))
    errors = np.array([laplace_cells(b)[1] for b in range(MOST_BITS + 1)])
    gains = (scale.ravel() ** 2)[:, None] * (errors[:-1] - errors[1:])
    if bits >= gains.size:
        return np.full(scale.shape, MOST_BITS)
    # a later bit of a coefficient gains less than an earlier one, so the best are a beginning
    best = np.argsort(-gains, axis=None, kind="stable")[:bits]
    chosen = np.bincount(best // MOST_BITS, minlength=scale.size)
    return chosen.reshape(scale.shape)


def transform_attack(
    pictures: torch.Tensor,
    run: DPSGD,
    generator: torch.Generator,
    prior: TransformPrior,
    *,
    length: int = 2**16,
    failure: float = 1e-3,
) -> tuple[torch.Tensor, PolarCode | None]:
    """Rebuild pictures from one DP-SGD step each through a layer that sends their coefficients.

    Parameters
    ----------
    pictures : Tensor, shape (examples, height, width, channels)
        Values in [0, 1].
    run : DPSGD
        ``noise_multiplier`` and ``max_grad_norm`` of the step.
    generator : torch.Generator
        Source of the noise, on the device of ``pictures``.
    prior : TransformPrior
        From other pictures of the same shape.
    length, failure
        As in :func:`polar_code`.

    Returns
    -------
    rebuilt : Tensor, shape (examples, height, width, channels)
        In [0, 1].
    code : PolarCode or None
        None if not a single bit comes through: then ``rebuilt`` is the prior's mean.

    Raises
    ------
    ValueError
        If the prior's shape is not that of the pictures.
    """
    _check_pictures(pictures, prior)
    most = MOST_BITS * prior.std.size
    code = polar_code(1 / run.noise_multiplier**2, most, length=length, failure=failure)
    shares = allocate_bits(prior.std, 0 if code is None else min(most, code.bits)).ravel()
    decoded, code = send_coded(
        pictures,
        _coefficient_bits(prior, shares, pictures),
        max(1, int(shares.sum())),
        run,
        generator,
        length=length,
        failure=failure,
    )
    values = np.stack([_coefficients(bits, shares) for bits in decoded.cpu().numpy()])
    values = prior.mean + prior.std * values.reshape(len(values), *prior.std.shape)
    rebuilt = fft.idctn(values, axes=(1, 2, 3), norm="ortho").clip(0, 1)
    return torch.as_tensor(rebuilt).to(pictures), code


def linear_energies(variances: ArrayLike, energy: float) -> np.ndarray:
    """Return the energies of coefficients that leave a linear layer the least error.

    A coefficient of variance v with energy P, in units of the noise's variance, is left with the
    error ``v / (1 + P)``. The sum is least at ``P = max(sqrt(v / mu) - 1, 0)``.

    Parameters
    ----------
    variances : array_like
        Of the coefficients, > 0.
    energy : float
        Sum of all energies, > 0.

    Returns
    -------
    ndarray
        Of the shape of ``variances``.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> attacks.linear_energies([4.0, 1.0, 0.01], energy=4.0).tolist()
    [3.0, 1.0, 0.0]
    """
    root = np.sqrt(arguments.real("variances", variances, 0, np.inf, low_open=True, high_open=True))
    energy = float(arguments.real("energy", energy, 0, low_open=True, high_open=True))
    descending = -np.sort(-root, axis=None)
    # the level if the first 1, 2, ... coefficients are sent, of which each must be above it
    levels = np.cumsum(descending) / (energy + 1 + np.arange(descending.size))
    return np.maximum(root / levels[np.flatnonzero(descending > levels)[-1]] - 1, 0.0)


def linear_transform_attack(
    pictures: torch.Tensor, run: DPSGD, generator: torch.Generator, prior: TransformPrior
) -> torch.Tensor:
    """Rebuild pictures from one DP-SGD step each through a linear layer that knows the prior.

    The layer is fed the picture's transform coefficients, less their means and in amplitudes by
    :func:`linear_energies`; the copy is the best linear estimate at the energies that the prior
    expects. The clipping factor is not used.

    Parameters
    ----------
    pictures : Tensor, shape (examples, height, width, channels)
        Values in [0, 1].
    run : DPSGD
        ``noise_multiplier`` and ``max_grad_norm`` of the step.
    generator : torch.Generator
        Source of the noise, on the device of ``pictures``.
    prior : TransformPrior
        From other pictures of the same shape.

    Returns
    -------
    Tensor, shape (examples, height, width, channels)
        In [0, 1].

    Raises
    ------
    ValueError
        If the prior's shape is not that of the pictures.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import DPSGD, attacks
    >>> pictures = torch.rand(3, 8, 8, 1, generator=torch.Generator().manual_seed(0))
    >>> prior, generator = attacks.transform_prior(pictures[1:]), torch.Generator().manual_seed(1)
    >>> found = attacks.linear_transform_attack(pictures[:1], DPSGD(1e-4), generator, prior)
    >>> bool((found - pictures[:1]).abs().max() < 0.01)
    True
    """
    _check_pictures(pictures, prior)
    energies = linear_energies(prior.std**2, 1 / run.noise_multiplier**2)
    standardised = _standardise(prior, pictures)
    # far longer than the clipping norm, so that every gradient is clipped
    longer = 1e3 * run.max_grad_norm * run.noise_multiplier
    layer = BitLayer(
        lambda picture: (1 + standardised(picture).flatten()) / 2,
        torch.as_tensor(longer * np.sqrt(energies)).flatten().to(pictures),
    )
    gradient, _ = single_record_steps(layer, sum_of_outputs, pictures, run, generator)
    seen = gradient["weight"][:, 0].double() / (run.noise_multiplier * run.max_grad_norm)
    values = seen.cpu().numpy().reshape(len(pictures), *prior.std.shape)
    values = prior.mean + prior.std * np.sqrt(energies) / (1 + energies) * values
    rebuilt = fft.idctn(values, axes=(1, 2, 3), norm="ortho").clip(0, 1)
    return torch.as_tensor(rebuilt).to(pictures)


def _check_pictures(pictures: torch.Tensor, prior: TransformPrior) -> None:
    if pictures.ndim != 4 or pictures.shape[1:] != prior.std.shape:
        raise ValueError(
            f"pictures must have shape (examples, {', '.join(map(str, prior.std.shape))}); "
            f"got {tuple(pictures.shape)}"
        )


def _standardise(
    prior: TransformPrior, like: torch.Tensor
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The network's fixed part: a linear layer for every axis, in the prior's deviations."""
    transforms = [
        torch.as_tensor(fft.dct(np.eye(size), axis=0, norm="ortho")).to(like)
        for size in prior.std.shape
    ]
    mean, std = (torch.as_tensor(x).to(like) for x in (prior.mean, prior.std))
    return lambda picture: (torch.einsum("hwc,ah,bw,dc->abd", picture, *transforms) - mean) / std


def _coefficient_bits(
    prior: TransformPrior, shares: np.ndarray, like: torch.Tensor
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Threshold units behind the fixed part."""
    standardised = _standardise(prior, like)
    planes = [
        (torch.as_tensor(np.flatnonzero(shares > j)).to(like.device)) for j in range(shares.max())
    ]

    def bits(picture: torch.Tensor) -> torch.Tensor:
        rest = _compress(standardised(picture).flatten())
        found = []
        for plane in planes:  # digits of the compressed value, the most significant first
            bit = (rest >= 0.5).to(rest.dtype)
            rest = 2 * rest - bit
            found.append(bit[plane])
        return torch.cat(found) if found else rest[:1].round()

    return bits


def _coefficients(bits: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The values that the decoded bits stand for, shape of ``shares``."""
    cells, start = np.zeros(shares.size, dtype=np.int64), 0
    for j in range(shares.max(initial=0)):
        plane = np.flatnonzero(shares > j)
        digits = bits[start : start + len(plane)].astype(np.int64)
        cells[plane] = 2 * cells[plane] + digits
        start += len(plane)
    values = np.zeros(shares.size)
    for share in np.unique(shares):
        chosen = shares == share
        values[chosen] = laplace_cells(int(share))[0][cells[chosen]]
    return values
