"""The attacks: reconstructions of records from released gradients.

- :mod:`~reconrisk.attacks.analytic`: inversion of a linear layer (papers A and B);
- :mod:`~reconrisk.attacks.analytic_inversion`: the same for the update of any network;
- :mod:`~reconrisk.attacks.bit_layer`: layers that send a record's bits, and
  :mod:`~reconrisk.attacks.polar_codes`, the code they use;
- :mod:`~reconrisk.attacks.transform_layer`: the same for an image's transform coefficients;
- :mod:`~reconrisk.attacks.estimators`: estimators with less error than its row mean;
- :mod:`~reconrisk.attacks.prior_estimators`: estimators that know what records look like;
- :mod:`~reconrisk.attacks.learnt_prior`: a denoiser and a diffusion model on the same;
- :mod:`~reconrisk.attacks.first_layer`: all gradients of a run as one release, and a prior on it;
- :mod:`~reconrisk.attacks.step_matching`: which steps were of the same record;
- :mod:`~reconrisk.attacks.prior_aware`: which of n candidates was trained on (paper C);
- :mod:`~reconrisk.attacks.gradient_matching`: a record from all steps' gradients (paper C);
- :mod:`~reconrisk.attacks.model_based`: a record from the final model (paper C);
- :mod:`~reconrisk.attacks.baselines`: baselines that a reconstruction is compared with;
- :mod:`~reconrisk.attacks.gradient_inversion`: a whole batch from one gradient (paper D);
- :mod:`~reconrisk.attacks.least_squares_inversion`: the same by least squares, or with a prior;
- :mod:`~reconrisk.attacks.vmf_analytic`: attacks on von Mises-Fisher noise;
- :mod:`~reconrisk.attacks.deep_inversion`: batches of images from any network's update (paper E);
- :mod:`~reconrisk.attacks.deep_least_squares`: the same by least squares, on small networks;
- :mod:`~reconrisk.attacks.image_priors`: images parametrised by a generator (paper E);
- :mod:`~reconrisk.attacks.proposed`: the attack that paper E proposes;
- :mod:`~reconrisk.attacks.independent_components`: the inputs of a linear layer (paper E);
- :mod:`~reconrisk.attacks.feature_least_squares`: the same, image by image, by the labels;
- :mod:`~reconrisk.attacks.feature_moments`: the inputs of a wide layer, from moments (paper E);
- :mod:`~reconrisk.attacks.imprint`: records read off a manipulated layer (paper E);
- :mod:`~reconrisk.attacks.sparse_batches`: exact batches from a layer before ReLU;
- :mod:`~reconrisk.attacks.two_layer_moments`: the tensor attack on two-layer networks (paper E);
- :mod:`~reconrisk.attacks.two_layer_refinement`: its refinement by least squares;
- :mod:`~reconrisk.attacks.two_layer_masks`: the same with a dropout mask for every record;
- :mod:`~reconrisk.attacks.threat_models`: what each attacker sees, changes and knows.

Shapes that do not fit, and numbers out of the range that a docstring states, raise ``ValueError``.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy
from reconrisk._extras import require

require("torch", "reconrisk.attacks")

if TYPE_CHECKING:
    from reconrisk.attacks._adam import KeptSearch
    from reconrisk.attacks._cp_decomposition import Cubes, decompose_cubes
    from reconrisk.attacks._interface import Attack, ImageSpace, Knowledge
    from reconrisk.attacks._levenberg_marquardt import minimise_squares
    from reconrisk.attacks.analytic import (
        Observation,
        known_scale,
        observe,
        ratio_by_row,
        rows_for_least_noise,
        unscaled,
        with_estimated_scale,
    )
    from reconrisk.attacks.analytic_inversion import analytic_attack, layer_ratio
    from reconrisk.attacks.baselines import (
        conversion_success,
        mean_record_mse,
        nearer_records,
        nearest_neighbour_mse,
    )
    from reconrisk.attacks.bit_layer import (
        BitLayer,
        binary_mmse,
        bit_amplitudes,
        bit_energies,
        bits_attack,
        coded_attack,
        expected_mse_of_bits,
        pixel_bits,
        pixels_from_bits,
        send_coded,
    )
    from reconrisk.attacks.deep_inversion import (
        Objective,
        best_objective,
        greedy_matching,
        invert_updates,
        total_variation,
    )
    from reconrisk.attacks.deep_least_squares import NormalLaw, refine_updates
    from reconrisk.attacks.estimators import (
        clip_to_range,
        james_stein,
        posterior_on_sphere,
        scaled_direction,
        shrink,
        unbiased_on_sphere,
    )
    from reconrisk.attacks.feature_least_squares import FittedFeatures, fit_features
    from reconrisk.attacks.feature_moments import recover_feature_span, recover_features
    from reconrisk.attacks.first_layer import first_layer_release, match_with_prior
    from reconrisk.attacks.gradient_inversion import (
        Inversion,
        deep_leakage,
        invert_gradients,
    )
    from reconrisk.attacks.gradient_matching import (
        LOSSES,
        infer_labels,
        linearised_information,
        linearised_variance,
        match_gradients,
        rank_one_start,
    )
    from reconrisk.attacks.image_priors import (
        LatentSpace,
        TunedSpace,
        UntrainedSpace,
        generative_attack,
    )
    from reconrisk.attacks.imprint import (
        Imprints,
        imprint_attack,
        imprint_thresholds,
        isolated_share,
        read_imprints,
    )
    from reconrisk.attacks.independent_components import (
        Components,
        component_attack,
        row_space,
        stretch,
        unmix,
    )
    from reconrisk.attacks.learnt_prior import denoise, noise_of, posterior_sample
    from reconrisk.attacks.least_squares_inversion import (
        class_means,
        span_attack,
    )
    from reconrisk.attacks.model_based import train_linear_reconstructor, train_reconstructor
    from reconrisk.attacks.polar_codes import (
        PolarCode,
        bhattacharyya,
        polar_code,
        polar_decode,
        polar_encode,
    )
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
    from reconrisk.attacks.prior_estimators import (
        SecondMoments,
        list_posterior,
        second_moments,
        wiener_filter,
    )
    from reconrisk.attacks.proposed import PROPOSED, feature_match, proposed_attack
    from reconrisk.attacks.sparse_batches import (
        SparseBatch,
        determined_by_zeros,
        expected_sparse_trials,
        sparse_batch_attack,
        sparse_hit_probability,
    )
    from reconrisk.attacks.step_matching import average_matched, match_steps, matching_limit
    from reconrisk.attacks.threat_models import THREAT_MODELS, ThreatModel
    from reconrisk.attacks.transform_layer import (
        TransformPrior,
        allocate_bits,
        laplace_cells,
        linear_energies,
        linear_transform_attack,
        transform_attack,
        transform_prior,
    )
    from reconrisk.attacks.two_layer_masks import refine_with_masks
    from reconrisk.attacks.two_layer_moments import (
        GradientMoments,
        TensorReconstruction,
        gradient_moments,
        project_tensor,
        tensor_attack,
    )
    from reconrisk.attacks.two_layer_refinement import (
        Refinement,
        refine_in_span,
        refine_records,
    )
    from reconrisk.attacks.vmf_analytic import (
        draw_vmf_scores,
        observe_vmf,
        vmf_attack_success,
    )
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "LOSSES",
    "PROPOSED",
    "SCORES",
    "THREAT_MODELS",
    "Attack",
    "BitLayer",
    "Components",
    "Cubes",
    "FittedFeatures",
    "GradientMoments",
    "Guesses",
    "ImageSpace",
    "Imprints",
    "Inversion",
    "KeptSearch",
    "Knowledge",
    "LatentSpace",
    "NormalLaw",
    "Objective",
    "Observation",
    "PolarCode",
    "Refinement",
    "SecondMoments",
    "SparseBatch",
    "StepScores",
    "StepScoresObserver",
    "TensorReconstruction",
    "ThreatModel",
    "TransformPrior",
    "TunedSpace",
    "UntrainedSpace",
    "allocate_bits",
    "analytic_attack",
    "average_matched",
    "best_objective",
    "bhattacharyya",
    "binary_mmse",
    "bit_amplitudes",
    "bit_energies",
    "bits_attack",
    "class_means",
    "clip_to_range",
    "coded_attack",
    "component_attack",
    "conversion_success",
    "decompose_cubes",
    "deep_leakage",
    "denoise",
    "determined_by_zeros",
    "draw_priors",
    "draw_vmf_scores",
    "expected_mse_of_bits",
    "expected_sparse_trials",
    "feature_match",
    "first_layer_release",
    "fit_features",
    "generative_attack",
    "gradient_moments",
    "greedy_matching",
    "imprint_attack",
    "imprint_thresholds",
    "infer_labels",
    "invert_gradients",
    "invert_updates",
    "isolated_share",
    "james_stein",
    "known_scale",
    "laplace_cells",
    "layer_ratio",
    "likelihood_score",
    "linearised_information",
    "linearised_variance",
    "linear_energies",
    "linear_transform_attack",
    "list_posterior",
    "match_gradients",
    "match_steps",
    "match_with_prior",
    "matching_limit",
    "mean_record_mse",
    "minimise_squares",
    "nearer_records",
    "nearest_neighbour_mse",
    "noise_of",
    "observe",
    "observe_vmf",
    "pixel_bits",
    "pixels_from_bits",
    "polar_code",
    "polar_decode",
    "polar_encode",
    "posterior_on_sphere",
    "posterior_sample",
    "printed_likelihood_score",
    "prior_aware_attack",
    "project_tensor",
    "proposed_attack",
    "rank_one_start",
    "ratio_by_row",
    "read_imprints",
    "recover_feature_span",
    "recover_features",
    "refine_in_span",
    "refine_records",
    "refine_updates",
    "refine_with_masks",
    "row_space",
    "rows_for_least_noise",
    "scaled_direction",
    "second_moments",
    "send_coded",
    "shared_trajectory_attack",
    "shrink",
    "span_attack",
    "sparse_batch_attack",
    "sparse_hit_probability",
    "stretch",
    "success_by_prior_size",
    "success_interval",
    "sum_score",
    "tensor_attack",
    "top_score",
    "total_variation",
    "train_linear_reconstructor",
    "train_reconstructor",
    "transform_attack",
    "transform_prior",
    "unbiased_on_sphere",
    "unmix",
    "unscaled",
    "vmf_attack_success",
    "wiener_filter",
    "with_estimated_scale",
]
