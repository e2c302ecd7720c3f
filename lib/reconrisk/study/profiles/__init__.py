"""Every exhibit's parameters: the quick profile, the paper profile, and what the paper prints."""

from reconrisk.study.profiles import companion, mean_to_extreme, ziller2024

__all__ = ["PARAMETERS"]

PARAMETERS = {**mean_to_extreme.PARAMETERS, **ziller2024.PARAMETERS, **companion.PARAMETERS}
