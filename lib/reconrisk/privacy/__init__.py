"""Privacy of DP-SGD and of von Mises-Fisher noise: (epsilon, delta) of a run, noise for a target.

NumPy and SciPy only. A record is added or removed, unless a run says which adjacency it has;
epsilon in nats.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from reconrisk.privacy._allocation import Allocation
    from reconrisk.privacy._audit import (
        audit_epsilon,
        audit_epsilon_many_runs,
        audit_gaussian,
        audit_gaussian_many_runs,
    )
    from reconrisk.privacy._conversions import (
        amplify,
        compose,
        epsilon_from_renyi,
        log_delta_from_renyi,
    )
    from reconrisk.privacy._gaussian import log_delta_gaussian
    from reconrisk.privacy._matrix import MatrixMechanism, square_root_encoder, tree_encoder
    from reconrisk.privacy._moments import noise_by_moments
    from reconrisk.privacy._releases import Atoms, Group, Laplace
    from reconrisk.privacy._samplers import SampledRun
    from reconrisk.privacy._targets import delta, epsilon, noise_for_epsilon, noise_for_success
    from reconrisk.privacy._tuning import tuned_epsilon
    from reconrisk.privacy._vmf import (
        vmf_concentration,
        vmf_kl,
        vmf_log_density,
        vmf_mean_cosine,
        vmf_noise_multiplier,
        vmf_renyi,
        vmf_renyi_blocks,
    )
    from reconrisk.privacy._vmf_accounting import (
        ConvertedEpsilon,
        vmf_epsilon_by_conversion,
        vmf_epsilon_by_renyi,
        vmf_epsilon_converted,
        vmf_renyi_sampled,
    )
    from reconrisk.privacy._vmf_epsilon import vmf_epsilon
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "Allocation",
    "Atoms",
    "ConvertedEpsilon",
    "Group",
    "Laplace",
    "MatrixMechanism",
    "SampledRun",
    "amplify",
    "audit_epsilon",
    "audit_epsilon_many_runs",
    "audit_gaussian",
    "audit_gaussian_many_runs",
    "compose",
    "delta",
    "epsilon",
    "epsilon_from_renyi",
    "log_delta_from_renyi",
    "log_delta_gaussian",
    "noise_by_moments",
    "noise_for_epsilon",
    "noise_for_success",
    "square_root_encoder",
    "tree_encoder",
    "tuned_epsilon",
    "vmf_concentration",
    "vmf_epsilon",
    "vmf_epsilon_by_conversion",
    "vmf_epsilon_by_renyi",
    "vmf_epsilon_converted",
    "vmf_kl",
    "vmf_log_density",
    "vmf_mean_cosine",
    "vmf_noise_multiplier",
    "vmf_renyi",
    "vmf_renyi_blocks",
    "vmf_renyi_sampled",
]
