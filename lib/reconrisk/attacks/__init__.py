"""The attacks: what is computed from a released gradient.

- :mod:`~reconrisk.attacks.analytic`: inversion of a linear layer (papers A and B);
- :mod:`~reconrisk.attacks.estimators`: reconstructions that beat its row mean;
- :mod:`~reconrisk.attacks.threat_models`: what each attacker sees, changes and knows.
"""

from reconrisk.attacks.analytic import (
    Observation,
    known_scale,
    observe,
    ratio_by_row,
    rows_for_least_noise,
    unscaled,
    with_estimated_scale,
)
from reconrisk.attacks.estimators import clip_to_range, james_stein, scaled_direction, shrink
from reconrisk.attacks.threat_models import THREAT_MODELS, ThreatModel

__all__ = [
    "THREAT_MODELS",
    "Observation",
    "ThreatModel",
    "clip_to_range",
    "james_stein",
    "known_scale",
    "observe",
    "ratio_by_row",
    "rows_for_least_noise",
    "scaled_direction",
    "shrink",
    "unscaled",
    "with_estimated_scale",
]
