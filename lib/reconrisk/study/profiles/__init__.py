"""Every exhibit's parameters: the quick profile, the paper profile, and what the paper prints."""

from reconrisk.study.profiles import (
    biswas2024_accounting,
    biswas2024_capacity,
    biswas2024_reconstruction,
    biswas2024_utility,
    companion,
    companion_accounting,
    companion_capacity,
    companion_fair,
    companion_risk,
    companion_success,
    companion_utility,
    companion_vmf,
    hayes2023_bounds,
    hayes2023_gradients,
    hayes2023_hyperparameters,
    hayes2023_prior_aware,
    hayes2023_threat,
    mean_to_extreme,
    ziller2024,
)

__all__ = ["PARAMETERS"]

PARAMETERS = {
    **mean_to_extreme.PARAMETERS,
    **ziller2024.PARAMETERS,
    **hayes2023_bounds.PARAMETERS,
    **hayes2023_prior_aware.PARAMETERS,
    **hayes2023_threat.PARAMETERS,
    **hayes2023_gradients.PARAMETERS,
    **hayes2023_hyperparameters.PARAMETERS,
    **biswas2024_accounting.PARAMETERS,
    **biswas2024_capacity.PARAMETERS,
    **biswas2024_utility.PARAMETERS,
    **biswas2024_reconstruction.PARAMETERS,
    **companion.PARAMETERS,
    **companion_success.PARAMETERS,
    **companion_risk.PARAMETERS,
    **companion_accounting.PARAMETERS,
    **companion_capacity.PARAMETERS,
    **companion_fair.PARAMETERS,
    **companion_utility.PARAMETERS,
    **companion_vmf.PARAMETERS,
}
