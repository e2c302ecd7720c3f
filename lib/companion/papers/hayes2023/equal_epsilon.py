"""Runs whose noise is tuned to an epsilon, computed once in each process."""

import functools

from reconrisk import DPSGD, privacy

#: the delta of every (epsilon, delta) in Hayes et al. 2023
DELTA = 1e-5


@functools.lru_cache(maxsize=4096)
def tuned_run(
    epsilon: float,
    sampling_rate: float = 1.0,
    steps: int = 1,
    max_grad_norm: float = 1.0,
    *,
    delta: float = DELTA,
) -> DPSGD:
    """The (epsilon, delta)-DP run with the least noise.

    Cost: a calibration, about half a second where the run is sub-sampled.
    """
    sigma = privacy.noise_for_epsilon(epsilon, delta, sampling_rate=sampling_rate, steps=steps)
    return DPSGD(sigma, sampling_rate, steps, max_grad_norm)
