"""The attacks: what is computed from a released gradient.

- :mod:`~reconrisk.attacks.analytic`: inversion of a linear layer (papers A and B);
- :mod:`~reconrisk.attacks.estimators`: reconstructions that beat its row mean;
- :mod:`~reconrisk.attacks.prior_aware`: which of n candidates was trained on (paper C);
- :mod:`~reconrisk.attacks.gradient_matching`: a record from all steps' gradients (paper C);
- :mod:`~reconrisk.attacks.model_based`: a record from the final model (paper C);
- :mod:`~reconrisk.attacks.baselines`: what a reconstruction is held against;
- :mod:`~reconrisk.attacks.gradient_inversion`: a whole batch from one gradient (paper D);
- :mod:`~reconrisk.attacks.least_squares_inversion`: the same, by what else is known;
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
from reconrisk.attacks.baselines import (
    conversion_success,
    mean_record_mse,
    nearer_records,
    nearest_neighbour_mse,
)
from reconrisk.attacks.estimators import clip_to_range, james_stein, scaled_direction, shrink
from reconrisk.attacks.gradient_inversion import (
    Inversion,
    deep_leakage,
    invert_gradients,
)
from reconrisk.attacks.gradient_matching import (
    LOSSES,
    infer_labels,
    linearised_variance,
    match_gradients,
    rank_one_start,
)
from reconrisk.attacks.least_squares_inversion import (
    class_means,
    gaussian_prior_attack,
    span_attack,
)
from reconrisk.attacks.model_based import train_linear_reconstructor, train_reconstructor
from reconrisk.attacks.prior_aware import (
    SCORES,
    Guesses,
    StepScores,
    StepScoresObserver,
    draw_priors,
    likelihood_score,
    printed_likelihood_score,
    prior_aware_attack,
    shared_trajectory_attack,
    success_by_prior_size,
    success_interval,
    sum_score,
    top_score,
)
from reconrisk.attacks.threat_models import THREAT_MODELS, ThreatModel

__all__ = [
    "LOSSES",
    "SCORES",
    "THREAT_MODELS",
    "Guesses",
    "Inversion",
    "Observation",
    "StepScores",
    "StepScoresObserver",
    "ThreatModel",
    "class_means",
    "clip_to_range",
    "conversion_success",
    "deep_leakage",
    "draw_priors",
    "gaussian_prior_attack",
    "infer_labels",
    "invert_gradients",
    "james_stein",
    "known_scale",
    "likelihood_score",
    "linearised_variance",
    "match_gradients",
    "mean_record_mse",
    "nearer_records",
    "nearest_neighbour_mse",
    "observe",
    "printed_likelihood_score",
    "prior_aware_attack",
    "rank_one_start",
    "ratio_by_row",
    "rows_for_least_noise",
    "scaled_direction",
    "shared_trajectory_attack",
    "shrink",
    "span_attack",
    "success_by_prior_size",
    "success_interval",
    "sum_score",
    "top_score",
    "train_linear_reconstructor",
    "train_reconstructor",
    "unscaled",
    "with_estimated_scale",
]
