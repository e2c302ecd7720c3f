"""How well any attack, or the analytic one, can reconstruct a record from private gradients.

NumPy and SciPy only. Arguments are scalars or arrays and broadcast; probabilities are returned as
such, or with ``log=True`` as natural logarithms that do not underflow.
"""

from reconrisk.bounds._clipped import expected_mse_clipped, mse_tail_clipped
from reconrisk.bounds._estimators import (
    expected_mse_clipped_to_range,
    expected_mse_james_stein,
    expected_mse_shrunk,
    mse_tail_shrunk,
    shrinkage_factor,
)
from reconrisk.bounds._many_steps import (
    expected_mse_sampled,
    mse_tail_sampled,
    ncc_tail_sampled,
    psnr_tail_sampled,
    selection_log_pmf,
    selection_probability_printed,
)
from reconrisk.bounds._mse import expected_mse, mse_density, mse_quantile, mse_tail
from reconrisk.bounds._ncc import (
    contrast_of,
    expected_ncc,
    ncc_bound_paper,
    ncc_quantile,
    ncc_tail,
)
from reconrisk.bounds._psnr import (
    expected_psnr,
    mse_of_psnr,
    psnr_bound_paper,
    psnr_density,
    psnr_quantile,
    psnr_tail,
)
from reconrisk.bounds._rero import rero, rero_gaussian
from reconrisk.bounds._sphere import (
    log_prior_success_box,
    mse_tail_sphere,
    rero_box,
    rero_sphere,
)

__all__ = [
    "contrast_of",
    "expected_mse",
    "expected_mse_clipped",
    "expected_mse_clipped_to_range",
    "expected_mse_james_stein",
    "expected_mse_sampled",
    "expected_mse_shrunk",
    "expected_ncc",
    "expected_psnr",
    "log_prior_success_box",
    "mse_density",
    "mse_of_psnr",
    "mse_quantile",
    "mse_tail",
    "mse_tail_clipped",
    "mse_tail_sampled",
    "mse_tail_shrunk",
    "mse_tail_sphere",
    "ncc_bound_paper",
    "ncc_quantile",
    "ncc_tail",
    "ncc_tail_sampled",
    "psnr_bound_paper",
    "psnr_density",
    "psnr_quantile",
    "psnr_tail",
    "psnr_tail_sampled",
    "rero",
    "rero_box",
    "rero_gaussian",
    "rero_sphere",
    "selection_log_pmf",
    "selection_probability_printed",
    "shrinkage_factor",
]
