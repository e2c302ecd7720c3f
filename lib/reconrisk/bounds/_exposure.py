"""Exposure of canaries, the measure of secrets in language models, and the prior it speaks of.

Carlini et al. (2019), "The Secret Sharer": a canary is drawn from a set R of equally likely
secrets, and its exposure is ``log2 |R| - log2 rank``, the rank being its place among all of R by
the model's perplexity. A rank of at most ``k`` is a right guess with ``k`` tries, of prior success
``k/|R|``: exposure of at least e bits is success at ``kappa = 2**-e``, whatever the ranking and
however large R is. The same holds for a secret that is guessed right before the release with
probability ``2**-b``, of b bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk._types import DPSGD, Enclosure
from reconrisk.bounds._rero import rero, rero_curve
from reconrisk.privacy._phases import Release
from reconrisk.privacy._samplers import SampledRun

__all__ = ["exposure_prior", "exposure_success", "mean_exposure"]

#: levels to a bit of the upper sum below
_TO_A_BIT = 8


def exposure_prior(exposure: ArrayLike) -> np.ndarray:
    """Return the prior success that an exposure speaks of, ``2**-exposure``.

    Parameters
    ----------
    exposure : array_like
        In [0, 600] bits.

    Returns
    -------
    ndarray or float
        ``kappa``, as :func:`rero` takes it.

    Raises
    ------
    ValueError
        If an exposure is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> float(bounds.exposure_prior(10.0))
    0.0009765625
    """
    return np.exp2(-arguments.real("exposure", exposure, 0, 600))[()]


def exposure_success(
    run: DPSGD | SampledRun | Iterable[Release], exposure: float, *, tolerance: float = 1e-4
) -> Enclosure:
    """Certified chance that a canary reaches an exposure, by the best ranking of all.

    ``P(exposure >= e) <= gamma(2**-e)`` (Carlini et al. 2019, Section 4; Hayes et al. 2023,
    Corollary 4). Without the canary among the records it is ``2**-e``.

    Parameters
    ----------
    run : DPSGD, or list of releases, or SampledRun
        As in :func:`rero`. A canary inserted k times is a group of k records:
        ``[privacy.Group(run, k)]``.
    exposure : float
        e in [0, 600] bits.
    tolerance : float
        As in :func:`rero`.

    Returns
    -------
    Enclosure
        Its upper end bounds every attack; the lower one is reached where records' gradients have
        full length and candidates are many.

    Raises
    ------
    TypeError, ValueError
        As :func:`rero`.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds, privacy
    >>> run = DPSGD(1.1, sampling_rate=256 / 60_000, steps=3516)
    >>> float(f"{bounds.exposure_success(run, 10.0).upper:.3g}")
    0.00255
    >>> float(f"{bounds.exposure_success([privacy.Group(run, 10)], 10.0).upper:.3g}")
    0.399
    """
    return rero(run, float(exposure_prior(exposure)), tolerance=tolerance)


def mean_exposure(
    run: DPSGD | SampledRun | Iterable[Release], candidates: float, *, tolerance: float = 1e-4
) -> float:
    """Upper bound on a canary's mean exposure, by the best ranking of all.

    The integral of ``gamma(2**-e)`` over e up to ``log2`` of the number of candidates, by an upper
    sum; 1.44 bits for many candidates of whom the release says nothing.

    Parameters
    ----------
    run : DPSGD, or list of releases, or SampledRun
        As in :func:`exposure_success`.
    candidates : float
        Number of equally likely secrets, in [2, 1e180].
    tolerance : float
        As in :func:`rero`.

    Returns
    -------
    float
        Bits; a few per cent above the integral.

    Raises
    ------
    TypeError, ValueError
        As :func:`rero`.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> run = DPSGD(1.1, sampling_rate=256 / 60_000, steps=3516)
    >>> round(bounds.mean_exposure(run, 1e9), 2)
    1.92
    """
    arguments.real("candidates", candidates, 2, 1e180)
    most = math.log2(candidates)
    levels = np.linspace(0.0, most, math.ceil(_TO_A_BIT * most) + 1)
    chance = rero_curve(run, exposure_prior(levels[:-1]), tolerance=tolerance)[1]
    return float(np.sum(chance * np.diff(levels))) * (1.0 + 1e-12)
