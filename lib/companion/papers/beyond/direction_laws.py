"""Laws of a noisy direction's cosine with the true one, for Gaussian and von Mises-Fisher noise.

Both noises are symmetric about the true direction: the released direction is
``W g/|g| + sqrt(1 - W**2) V`` with V uniform on the unit sphere orthogonal to g and independent of
W. So the direction distinguishes the two mechanisms by the law of the number W only.
"""

import math
from dataclasses import dataclass

import numpy as np

from reconrisk import arguments, privacy

#: range of integration, in standard deviations to either side; nodes in the cosine and the length
_REACH, _NODES = 12.0, 4001
_LENGTHS = np.linspace(-12.0, 12.0, 193)


@dataclass(frozen=True)
class CosineLaws:
    """Two laws of the cosine with a common mean."""

    mean: float
    #: kappa of the von Mises-Fisher noise
    concentration: float
    std_gaussian: float
    std_vmf: float
    #: total variation between the two, and hence between the two laws of the direction
    distance: float


def log_density_vmf(cosine: np.ndarray, dimension: int, concentration: float) -> np.ndarray:
    """Log-density of the cosine under von Mises-Fisher noise, up to a constant.

    ``kappa w + (p - 3)/2 log(1 - w**2)``.
    """
    w = np.asarray(cosine, dtype=float)
    return concentration * w + 0.5 * (dimension - 3) * np.log1p(-w * w)


def log_density_gaussian(cosine: np.ndarray, dimension: int, signal: float) -> np.ndarray:
    """Log-density of the cosine of ``g + s Z`` with g, up to a constant.

    With ``signal = |g|/s`` and the length R of ``(g + s Z)/s`` integrated out ::

        (p - 3)/2 log(1 - w**2) - signal**2 (1 - w**2)/2
            + log int_0^inf R**(p-1) exp(-(R - signal w)**2/2) dR

    p must be at least 30: the integral runs 12 units to either side of its peak.
    """
    arguments.integer("dimension", dimension, 30)
    w = np.asarray(cosine, dtype=float)
    along = signal * w
    peak = 0.5 * (along + np.sqrt(along * along + 4.0 * (dimension - 1)))
    # the exponent minus its value at the peak, where its slope vanishes
    step = np.maximum(_LENGTHS, -0.999 * peak.min())[:, None]
    share = step / peak
    exponent = (dimension - 1) * (np.log1p(share) - share) - 0.5 * step * step
    integral = np.exp(exponent).sum(axis=0)
    # relative to one of the peaks: a small logarithm keeps its digits
    at_peak = (dimension - 1) * np.log(peak / peak[len(peak) // 2]) - 0.5 * (peak - along) ** 2
    sphere = 0.5 * (dimension - 3) * np.log1p(-w * w)
    return sphere - 0.5 * signal**2 * (1 - w * w) + at_peak + np.log(integral)


def cosine_laws(dimension: int, cosine: float) -> CosineLaws:
    """Compare the two mechanisms' directions at one mean cosine.

    Parameters
    ----------
    dimension : int
        p >= 30.
    cosine : float
        In (0, 1 - 1e-5]: the Gaussian's signal is ``sqrt(p) c/sqrt(1 - c**2)``, its mean cosine is
        within O(1/p) of this, and the concentration is that of the same mean.

    Notes
    -----
    Sums over 4,001 equidistant cosines within 12 standard deviations: both densities are smooth on
    that scale, and the tails have mass below 1e-30. For large p both laws are nearly normal with
    variances ``(1 - c**2)**2 (1 - c**2/2)/p`` and ``(1 - c**2)**2/(1 + c**2)/p``.
    """
    arguments.integer("dimension", dimension, 30)
    arguments.real("cosine", cosine, 0, 1 - 1e-5, low_open=True)
    sine_squared = 1 - cosine * cosine
    signal = math.sqrt(dimension * cosine * cosine / sine_squared)
    reach = _REACH * sine_squared / math.sqrt(dimension)
    grid = np.linspace(max(cosine - reach, -1 + 1e-12), min(cosine + reach, 1 - 1e-12), _NODES)
    gaussian = _masses(log_density_gaussian(grid, dimension, signal))
    mean = float(gaussian @ grid)
    concentration = float(privacy.vmf_concentration(dimension, mean))
    vmf = _masses(log_density_vmf(grid, dimension, concentration))
    spread = [math.sqrt(float(mass @ np.square(grid - mean))) for mass in (gaussian, vmf)]
    distance = 0.5 * float(np.abs(gaussian - vmf).sum())
    return CosineLaws(mean, concentration, spread[0], spread[1], distance)


def _masses(log_density: np.ndarray) -> np.ndarray:
    density = np.exp(log_density - log_density.max())
    return density / density.sum()
