"""Log-domain special functions: tails of gamma, normal, non-central t and chi-square; Bessel.

Probabilities are passed and returned as natural logarithms. Every function broadcasts its arguments
and raises ``ValueError`` if one is outside the range that its docstring states. The module also has
activations of neural networks, their Hermite coefficients, and concave hulls.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from reconrisk.special._bessel import (
        bessel_ratio,
        bessel_ratio_inverse,
        log_iv,
        log_iv_reduced,
    )
    from reconrisk.special._blocks import log1mexp
    from reconrisk.special._cosine import log_cap_tail, log_cosine_tail
    from reconrisk.special._cosine_quantile import log_cosine_quantile
    from reconrisk.special._gamma import (
        log_gamma_density,
        log_gamma_lower,
        log_gamma_quantile,
        log_gamma_upper,
    )
    from reconrisk.special._hermite import (
        ACTIVATIONS,
        Activation,
        activation,
        hermite_coefficient,
        normal_mean,
        tensor_orders,
    )
    from reconrisk.special._hull import concave_hull
    from reconrisk.special._noncentral_chi2 import log_noncentral_chi2_cdf
    from reconrisk.special._normal import (
        log_normal_cdf,
        log_normal_cdf_shifted,
        log_normal_quantile,
    )
    from reconrisk.special._quadrature import log_integral
    from reconrisk.special._stirling import log_binomial_pmf
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "activation",
    "bessel_ratio",
    "bessel_ratio_inverse",
    "concave_hull",
    "hermite_coefficient",
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
    "log_iv",
    "log_iv_reduced",
    "log_noncentral_chi2_cdf",
    "log_normal_cdf",
    "log_normal_cdf_shifted",
    "log_normal_quantile",
    "normal_mean",
    "tensor_orders",
]
