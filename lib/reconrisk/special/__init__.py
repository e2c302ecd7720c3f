"""Log-domain special functions: gamma, normal, non-central t and chi-square tails.

Every function takes and returns natural logarithms of probabilities, broadcasts its arguments, and
raises where an argument is outside the range that its docstring states.
"""

from reconrisk.special._blocks import log1mexp
from reconrisk.special._cosine import log_cap_tail, log_cosine_tail
from reconrisk.special._cosine_quantile import log_cosine_quantile
from reconrisk.special._gamma import (
    log_gamma_density,
    log_gamma_lower,
    log_gamma_quantile,
    log_gamma_upper,
)
from reconrisk.special._noncentral_chi2 import log_noncentral_chi2_cdf
from reconrisk.special._normal import (
    log_normal_cdf,
    log_normal_cdf_shifted,
    log_normal_quantile,
)
from reconrisk.special._quadrature import log_integral
from reconrisk.special._stirling import log_binomial_pmf

__all__ = [
    "log1mexp",
    "log_binomial_pmf",
    "log_cap_tail",
    "log_cosine_quantile",
    "log_cosine_tail",
    "log_gamma_density",
    "log_gamma_lower",
    "log_gamma_quantile",
    "log_gamma_upper",
    "log_integral",
    "log_noncentral_chi2_cdf",
    "log_normal_cdf",
    "log_normal_cdf_shifted",
    "log_normal_quantile",
]
