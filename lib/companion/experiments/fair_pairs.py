"""Von Mises-Fisher noise that costs the same epsilon as Gaussian noise, by certified accounting.

The paper's own run: batches of 128 of 60,000 records, 1,407 steps, delta = 1/60,000, and a gradient
of 13,700 entries that is clipped as a whole, so that the Gaussian's sigma is the noise multiplier.
"""

import functools
import math
from dataclasses import dataclass

from companion.experiments.federated import DELTA, DIMENSION, SAMPLING_RATE, STEPS
from reconrisk import DPSGD, Enclosure, privacy

#: relative widths of the enclosures that are matched, and how far apart their middles may be
_TOLERANCE = 3e-5
_ROUNDS = 12


@dataclass(frozen=True)
class FairPair:
    """Gaussian and von Mises-Fisher noise of one epsilon, with an enclosure of each epsilon."""

    noise_multiplier: float
    concentration: float
    gaussian: Enclosure
    vmf: Enclosure


def middle(enclosure: Enclosure) -> float:
    """The middle of an enclosure."""
    return 0.5 * (enclosure.lower + enclosure.upper)


@functools.lru_cache(maxsize=256)
def fair_pair(noise_multiplier: float, steps: int = STEPS) -> FairPair:
    """The concentration whose epsilon is that of a noise multiplier, and both enclosures.

    A root in the logarithms of the enclosures' middles. The search starts at the closed form
    ``sqrt(p)/(2 sigma)``, right to about one in a thousand, and uses the slope of epsilon in the
    noise multiplier, which is nearly the same.

    Parameters
    ----------
    noise_multiplier : float
        sigma, in [0.1, 10]: enclosures of VMF noise end at 690 nats.
    steps : int
        T.

    Returns
    -------
    FairPair
        The middles agree to a relative 3e-5, about the width of each enclosure.

    Raises
    ------
    ArithmeticError
        If the search does not converge.

    Notes
    -----
    Cost: two enclosures of either mechanism, a third of a second together; each pair is computed
    once in a process.
    """
    run = DPSGD(noise_multiplier, SAMPLING_RATE, steps)
    gaussian = privacy.epsilon(run, DELTA, tolerance=_TOLERANCE)
    target = math.log(middle(gaussian))
    less_noise = DPSGD(0.98 * noise_multiplier, SAMPLING_RATE, steps)
    near = privacy.epsilon(less_noise, DELTA, tolerance=1e-3)
    slope = (math.log(middle(near)) - target) / -math.log(0.98)
    at = math.log(math.sqrt(DIMENSION) / (2.0 * noise_multiplier))
    for _ in range(_ROUNDS):
        kappa = math.exp(at)
        vmf = privacy.vmf_epsilon(
            kappa, DIMENSION, DELTA, SAMPLING_RATE, steps, tolerance=_TOLERANCE
        )
        excess = math.log(middle(vmf)) - target
        if abs(excess) < _TOLERANCE:
            return FairPair(noise_multiplier, kappa, gaussian, vmf)
        at -= excess / slope
    raise ArithmeticError(f"no concentration was found for sigma = {noise_multiplier!r}")


def fair_concentration(noise_multiplier: float) -> float:
    """The concentration of von Mises-Fisher noise with the epsilon of Gaussian noise."""
    return fair_pair(float(noise_multiplier)).concentration
