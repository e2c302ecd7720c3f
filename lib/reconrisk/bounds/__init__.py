"""Bounds on reconstruction from private gradients, by any attack or by the analytic one.

NumPy and SciPy only. Arguments are scalars or arrays and broadcast. Probabilities are returned as
such, or with ``log=True`` as natural logarithms, which do not underflow. Every function raises
``ValueError`` if an argument is nan or out of the range that its docstring states.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from reconrisk.bounds._any_network import (
        information_capacity,
        information_capacity_vmf,
        information_on_sphere,
    )
    from reconrisk.bounds._audit import audit_claim, audit_noise, audit_rero
    from reconrisk.bounds._bayes_capacity import (
        bayes_capacity_discrete,
        bayes_capacity_gaussian,
        bayes_capacity_vmf,
    )
    from reconrisk.bounds._bayes_success import (
        bayes_success,
        bayes_success_simulated,
        bayes_success_subsampled,
        bayes_success_two,
        equicorrelated_bound,
        smallest_cosine,
        sum_score_success,
    )
    from reconrisk.bounds._bayes_success_vmf import bayes_success_vmf, bayes_success_vmf_two
    from reconrisk.bounds._count import SuccessCount, rero_count
    from reconrisk.bounds._direction import (
        direction_cosine_gaussian,
        direction_cosine_vmf,
        direction_error_gaussian,
        direction_error_vmf,
    )
    from reconrisk.bounds._estimators import (
        expected_mse_clipped_to_range,
        expected_mse_james_stein,
    )
    from reconrisk.bounds._guarantees import (
        ApproximateDP,
        Guarantee,
        LossDistribution,
        Releases,
        RenyiDP,
        TradeOff,
        ZeroConcentratedDP,
        gaussian_dp,
    )
    from reconrisk.bounds._information import (
        advantage,
        fano_success,
        information_success,
        mutual_information_bound,
        mutual_information_monte_carlo,
        mutual_information_orthogonal,
    )
    from reconrisk.bounds._knowledge import (
        gaussian_summary,
        prior_success_given,
        rero_given,
        rero_secrets,
    )
    from reconrisk.bounds._known_norm import expected_mse_known_norm, expected_mse_unbiased
    from reconrisk.bounds._mse import (
        MSELaw,
        expected_mse,
        expected_mse_clipped,
        expected_mse_sampled,
        expected_mse_shrunk,
        mse_quantile,
        mse_tail,
        mse_tail_clipped,
        mse_tail_sampled,
        mse_tail_shrunk,
        shrinkage_factor,
    )
    from reconrisk.bounds._ncc import (
        NCCLaw,
        contrast_of,
        expected_ncc,
        ncc_bound_paper,
        ncc_tail,
        ncc_tail_sampled,
    )
    from reconrisk.bounds._posterior import posterior_mse
    from reconrisk.bounds._priors import (
        log_prior_success_pixels,
        log_prior_success_pixels_printed,
        prior_success_ball,
        prior_success_ball_any_centre,
        prior_success_from_samples,
    )
    from reconrisk.bounds._psnr import (
        PSNRLaw,
        expected_psnr,
        psnr_bound_paper,
        psnr_tail,
        psnr_tail_sampled,
    )
    from reconrisk.bounds._rate_distortion import (
        mse_floor_gaussian,
        mse_floor_levels,
        mse_floor_set,
        mse_floor_uniform,
    )
    from reconrisk.bounds._renyi import (
        mse_lower_bound,
        mse_lower_bound_renyi,
        rero_pure,
        rero_rdp,
        rero_renyi,
    )
    from reconrisk.bounds._rero import rero, rero_curve, rero_gaussian
    from reconrisk.bounds._rero_samples import rero_algorithm1, rero_monte_carlo
    from reconrisk.bounds._rero_vmf import rero_vmf, rero_vmf_curve, rero_vmf_one_release
    from reconrisk.bounds._selections import selection_log_pmf, selection_probability_printed
    from reconrisk.bounds._sphere import (
        log_prior_success_box,
        mse_tail_sphere,
        rero_box,
        rero_sphere,
    )
    from reconrisk.bounds._two_layer import (
        GradientInformation,
        cramer_rao_error,
        cramer_rao_error_loosened,
        cramer_rao_order,
        gradient_information,
        information_trace_limit,
        tensor_attack_order,
    )
    from reconrisk.bounds._van_trees import van_trees_error
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "ApproximateDP",
    "GradientInformation",
    "Guarantee",
    "LossDistribution",
    "MSELaw",
    "NCCLaw",
    "PSNRLaw",
    "Releases",
    "RenyiDP",
    "SuccessCount",
    "TradeOff",
    "ZeroConcentratedDP",
    "advantage",
    "audit_claim",
    "audit_noise",
    "audit_rero",
    "bayes_capacity_discrete",
    "bayes_capacity_gaussian",
    "bayes_capacity_vmf",
    "bayes_success",
    "bayes_success_simulated",
    "bayes_success_subsampled",
    "bayes_success_two",
    "bayes_success_vmf",
    "bayes_success_vmf_two",
    "contrast_of",
    "cramer_rao_error",
    "cramer_rao_error_loosened",
    "cramer_rao_order",
    "direction_cosine_gaussian",
    "direction_cosine_vmf",
    "direction_error_gaussian",
    "direction_error_vmf",
    "equicorrelated_bound",
    "expected_mse",
    "expected_mse_clipped",
    "expected_mse_clipped_to_range",
    "expected_mse_james_stein",
    "expected_mse_known_norm",
    "expected_mse_sampled",
    "expected_mse_shrunk",
    "expected_mse_unbiased",
    "expected_ncc",
    "expected_psnr",
    "fano_success",
    "gaussian_dp",
    "gaussian_summary",
    "gradient_information",
    "information_capacity",
    "information_capacity_vmf",
    "information_on_sphere",
    "information_success",
    "information_trace_limit",
    "log_prior_success_box",
    "log_prior_success_pixels",
    "log_prior_success_pixels_printed",
    "mse_floor_gaussian",
    "mse_floor_levels",
    "mse_floor_set",
    "mse_floor_uniform",
    "mse_lower_bound",
    "mse_lower_bound_renyi",
    "mse_quantile",
    "mse_tail",
    "mse_tail_clipped",
    "mse_tail_sampled",
    "mse_tail_shrunk",
    "mse_tail_sphere",
    "mutual_information_bound",
    "mutual_information_monte_carlo",
    "mutual_information_orthogonal",
    "ncc_bound_paper",
    "ncc_tail",
    "ncc_tail_sampled",
    "posterior_mse",
    "prior_success_ball",
    "prior_success_ball_any_centre",
    "prior_success_from_samples",
    "prior_success_given",
    "psnr_bound_paper",
    "psnr_tail",
    "psnr_tail_sampled",
    "rero",
    "rero_algorithm1",
    "rero_count",
    "rero_curve",
    "rero_box",
    "rero_gaussian",
    "rero_given",
    "rero_monte_carlo",
    "rero_pure",
    "rero_rdp",
    "rero_renyi",
    "rero_secrets",
    "rero_sphere",
    "rero_vmf",
    "rero_vmf_curve",
    "rero_vmf_one_release",
    "selection_log_pmf",
    "selection_probability_printed",
    "shrinkage_factor",
    "smallest_cosine",
    "sum_score_success",
    "tensor_attack_order",
    "van_trees_error",
]
