"""Success of the best attack under sub-sampling, for orthogonal candidates, by quadrature.

A candidate's score is the sum over T steps of ``l(z) = log(1 - q + q exp(z/s - 1/(2 s**2)))``.
Under ``nu`` (the candidate is not in the data) ``z`` is standard normal, under ``mu`` (it is) it
has the mixture distribution. The success is the integral of ``f_mu F_nu**(n - 1)``; the density
under ``mu`` is ``e**S`` times that under ``nu``.

Both densities are computed from the characteristic function of one step, raised to the power T, by
the trapezoidal rule in the frequency. The errors are the mass outside the window and that of the
omitted frequencies, both below e**-40. The distribution functions have the same coefficients
divided by ``i w`` or, in the upper tail and after the factor ``e**-S``, by ``1 - i w``, so that
``1 - F`` has the relative accuracy that the power n - 1 requires.
"""

from __future__ import annotations

import numpy as np

__all__ = ["likelihood_success"]

_LOG_SMALL = 40.0
_REACH = 9.5
#: outputs farther away, in standard deviations, have weights below the smallest float
_FARTHEST = 400.0
_MOST_FREQUENCIES = 2**20
_MOST_NODES = 2**20
#: frequencies times nodes up to which the transform is summed term by term
_PLAIN = 2**23
#: grid points on either side over which the fast transform spreads a node: error 1e-14
_SPREAD = 14


def likelihood_success(sigma: float, q: float, steps: float, n: float) -> float:
    """Return ``E_mu[F_nu(S)**(n - 1)]`` for ``0 < q < 1`` and at least two steps."""
    low, high = _window(sigma, q, steps)
    width = high - low
    highest = _highest_frequency(sigma, q, steps, 2.0 * np.pi / width * _MOST_FREQUENCIES)
    if highest == np.inf:
        raise ValueError(
            "sampling_rate * steps must be larger for this computation (it would need more than "
            f"{_MOST_FREQUENCIES} frequencies or nodes); got {q * steps:g}"
        )
    count = int(np.ceil(width * highest / (2.0 * np.pi))) + 8
    frequency = 2.0 * np.pi / width * np.arange(count + 1)
    log_nu, log_mu = _log_transforms(frequency, sigma, q, low, width)
    turn = np.exp(1j * frequency * low)
    # coefficients of the periodic densities, twice the real part of sum_k c_k exp(i w_k (s - low))
    c_nu = np.conj(np.exp(steps * log_nu)) * turn / width
    c_mu = np.conj(np.exp(steps * log_mu)) * turn / width
    # finer than the densities need, because of the power n - 1
    size = max(2 ** int(np.ceil(np.log2(4 * (count + 1)))), 2**14)
    offset = width / size * np.arange(size)
    s = low + offset
    density = _evaluate(c_mu, size)
    with np.errstate(divide="ignore", invalid="ignore"):
        integrated = c_nu / (1j * frequency)
    integrated[0] = 0.0
    below = _evaluate(integrated, size)
    below = below - below[0] + c_nu[0].real * offset
    tilted = _evaluate(c_mu / (1.0 - 1j * frequency), size)
    # the periodic density repeats beyond the window: subtract its integral from there on
    above = np.exp(-np.maximum(s, 0.0)) * tilted - np.exp(-high) * tilted[0]
    # the tilted form is the more accurate where e**-S is small
    above = np.where(s > 0.0, above, 1.0 - below)
    log_power = (n - 1.0) * np.log1p(-np.clip(above, 0.0, 1.0 - 1e-16))
    value = float((np.maximum(density, 0.0) * np.exp(log_power)).sum() * width / size)
    return min(max(value, 1.0 / n), 1.0)


def _evaluate(coefficients: np.ndarray, size: int) -> np.ndarray:
    """Evaluate at ``size`` nodes the real periodic function with these Fourier coefficients."""
    padded = np.zeros(size // 2 + 1, dtype=complex)
    padded[: coefficients.size] = coefficients
    return np.fft.irfft(padded, size) * size


def _loss(z: np.ndarray, sigma: float, q: float) -> np.ndarray:
    return np.logaddexp(np.log1p(-q), np.log(q) + z / sigma - 0.5 / sigma**2)


def _window(sigma: float, q: float, steps: float) -> tuple[float, float]:
    """Return a window that omits e**-40 of the score, below under ``nu`` and above under ``mu``.

    By Chernoff's bound on both sides.
    """
    theta = np.geomspace(1e-3, 1e3, 121)
    # the integrand of the moment of order 1 + theta peaks near z = (1 + theta)/sigma
    theta = theta[(1.0 + theta) / sigma < _FARTHEST]
    if not theta.size:
        least = (1.0 + 1e-3) / _FARTHEST
        raise ValueError(f"noise_multiplier must be above {least:.3g} here; got {sigma:g}")
    z = np.arange(-_REACH, (1.0 + theta[-1]) / sigma + _REACH, min(0.1, 0.5 * sigma))
    loss = _loss(z, sigma, q)
    weight = -0.5 * z * z
    base = np.logaddexp.reduce(weight)

    def log_moment(order: float) -> float:
        return steps * float(np.logaddexp.reduce(weight + order * loss) - base)

    high = min((log_moment(1.0 + t) + _LOG_SMALL) / t for t in theta)
    low = max(-(log_moment(-t) + _LOG_SMALL) / t for t in theta)
    return max(low, steps * np.log1p(-q)), high


def _nodes(top: float, sigma: float) -> tuple[float, int]:
    """Return the step and number of quadrature nodes in z for frequencies up to ``top``."""
    step = min(0.1, 0.5 * sigma, 2.0 * np.pi / (top / sigma + 12.0))
    return step, int((2.0 * _REACH + 1.0 / sigma) / step) + 1


def _log_transforms(
    frequency: np.ndarray, sigma: float, q: float, low: float = 0.0, width: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logs of one step's characteristic functions under ``nu`` and ``mu``.

    If ``width`` is given, the frequencies must be ``2 pi/width`` times 0, 1, 2, ...; large numbers
    of them are then evaluated by a fast transform.
    """
    step, count = _nodes(float(frequency[-1]), sigma)
    z = -_REACH + step * np.arange(count)
    loss = _loss(z, sigma, q)
    nu = np.exp(-0.5 * z * z) * (step / np.sqrt(2.0 * np.pi))
    mu = (1.0 - q) * nu + q * np.exp(-0.5 * (z - 1.0 / sigma) ** 2) * (step / np.sqrt(2.0 * np.pi))
    weights = np.stack([nu / nu.sum(), mu / mu.sum()], axis=1)
    if width and frequency.size * count > _PLAIN:
        both = np.stack(
            [_fast_transform(2.0 * np.pi / width * loss, w, frequency.size) for w in weights.T], 1
        )
    else:
        blocks = np.array_split(frequency, 1 + frequency.size * count // 2**20)
        both = np.concatenate([np.exp(1j * block[:, None] * loss) @ weights for block in blocks])
    with np.errstate(divide="ignore"):
        logs = np.log(both)
    return logs[:, 0], logs[:, 1]


def _fast_transform(position: np.ndarray, weight: np.ndarray, modes: int) -> np.ndarray:
    """Return the sum of ``weight * exp(1j * k * position)`` for ``k = 0 .. modes - 1``.

    Gaussian gridding (Greengard and Lee 2004, SIAM Review 46(3)): convolution of the weights with a
    Gaussian on a grid of twice the resolution, one FFT, and deconvolution.
    """
    size = 2 ** int(np.ceil(np.log2(4 * modes)))
    grid = 2.0 * np.pi / size
    # the width at which truncation and aliasing errors of the Gaussian are equal
    tau = np.pi * _SPREAD / (4.0 * modes**2) / ((size / (2 * modes)) * (size / (2 * modes) - 0.5))
    nearest = np.floor(position / grid)
    offset = position - nearest * grid
    total = np.zeros(size)
    for shift in range(-_SPREAD + 1, _SPREAD + 1):
        spread = weight * np.exp(-((offset - shift * grid) ** 2) / (4.0 * tau))
        index = np.mod(nearest + shift, size).astype(np.int64)
        total += np.bincount(index, weights=spread, minlength=size)
    k = np.arange(modes)
    transform = np.conj(np.fft.rfft(total)[:modes]) / size
    return np.sqrt(np.pi / tau) * np.exp(tau * k * k) * transform


def _highest_frequency(sigma: float, q: float, steps: float, most: float) -> float:
    """Return a frequency beyond which both transforms are below e**-40, inf if above ``most``."""
    top = 1.0
    while top < most and _nodes(2.0 * top, sigma)[1] < _MOST_NODES:
        nu, mu = _log_transforms(np.linspace(top, 2.0 * top, 5), sigma, q)
        if np.all(steps * np.maximum(nu.real, mu.real) < -_LOG_SMALL):
            return top
        top *= 1.5
    return np.inf
