"""The certified epsilon of von Mises-Fisher noise in the setting of Biswas et al."""

from __future__ import annotations

import functools

from companion.experiments.federated import DELTA, DIMENSION, SAMPLING_RATE, STEPS
from reconrisk import Enclosure, privacy


@functools.lru_cache(maxsize=256)
def certified_epsilon(concentration: float, steps: int = STEPS) -> Enclosure:
    """Return the enclosure of a concentration, computed once in a process (a tenth of a second)."""
    return privacy.vmf_epsilon(concentration, DIMENSION, DELTA, SAMPLING_RATE, steps)
