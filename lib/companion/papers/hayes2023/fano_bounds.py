"""The three bounds on the advantage of Table 2 and Figure 11, after one full-batch step."""

import math

import numpy as np
import pandas as pd

from companion.exhibit import *
from reconrisk import bounds

#: the rows' names in Table 2
GUO, GUO_MC, OURS = "Guo et al. (2022b)", "Guo et al. (2022b) (MC)", "Ours"


def printed_cells() -> pd.DataFrame:
    """The cells of Table 2, with their numbers as text."""
    printed = registry.printed("hayes2023/table2")
    return pd.DataFrame(
        {
            "n": printed["prior_size"].astype(int),
            "bound": printed["method"],
            "sigma": printed["sigma_noise_multiplier"].astype(float),
            "printed": printed["printed"],
        }
    )


def advantages(sigma: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """The three bounds against a uniform prior over n, none of them sampled."""
    return {
        # gradients of norm C at right angles are sqrt(2) C apart
        GUO: closed_fano(sigma, n, math.sqrt(2)),
        GUO_MC: fano(bounds.mutual_information_orthogonal(n, 1 / sigma), n),
        OURS: bounds.advantage(bounds.rero_gaussian(sigma, 1 / n), 1 / n),
    }


def closed_fano(sigma: np.ndarray, n: int, sensitivity: float) -> np.ndarray:
    """Fano's bound from the closed bound on the mutual information."""
    return fano(bounds.mutual_information_bound(sigma, n, sensitivity), n)


def fano(information: np.ndarray, n: int) -> np.ndarray:
    """Fano's bound on the advantage from a mutual information."""
    return bounds.advantage(bounds.fano_success(information, n), 1 / n)
