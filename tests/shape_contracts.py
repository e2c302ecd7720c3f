"""Which shapes the public functions take and return, in jaxtyping's notation.

An entry lists the shapes of the parameters that are arrays, in their order, then the results.
``n d``: two axes with these names; ``*b n``: any number of axes, then one; ``...``: any axes;
``_``: one axis of any size; ``()``: a scalar. ``*#b`` are leading axes that broadcast together, to
``*b``. Beyond jaxtyping's notation: ``{...}`` is a mapping whose values all have that shape, ``|``
means either, ``any`` is not checked, and a name from :data:`FIELDS` stands for all of its fields;
after ``new``, names of axes stand for other sizes than before. None, where a parameter may be left
out, fits everything.
"""

from __future__ import annotations

#: functions all of whose array parameters broadcast together, to the shape of what is returned
BROADCASTING = {
    "special": """
        bessel_ratio bessel_ratio_inverse log1mexp log_binomial_pmf log_cap_tail log_cosine_quantile
        log_cosine_tail log_gamma_density log_gamma_lower log_gamma_quantile log_gamma_upper log_iv
        log_iv_reduced log_noncentral_chi2_cdf log_normal_cdf log_normal_cdf_shifted
        log_normal_quantile""",
    "bounds": """
        advantage bayes_capacity_gaussian bayes_capacity_vmf bayes_success bayes_success_two
        bayes_success_vmf_two cramer_rao_order direction_cosine_gaussian direction_cosine_vmf
        direction_error_gaussian direction_error_scaled_vmf direction_error_vmf expected_mse
        expected_mse_clipped expected_mse_james_stein expected_mse_known_norm expected_mse_sampled
        expected_mse_shrunk expected_mse_unbiased expected_ncc expected_psnr fano_success
        information_capacity information_capacity_vmf information_on_sphere information_success
        log_prior_success_box log_prior_success_pixels log_prior_success_pixels_printed mse_density
        mse_floor_uniform mse_lower_bound mse_lower_bound_renyi
        mse_of_psnr mse_quantile mse_tail mse_tail_clipped mse_tail_sampled mse_tail_shrunk
        mse_tail_sphere mutual_information_orthogonal ncc_bound_paper psnr_bound_paper psnr_density
        psnr_quantile psnr_tail psnr_tail_sampled rero_box rero_curve rero_gaussian rero_pure
        rero_rdp rero_renyi rero_sphere rero_vmf_curve rero_vmf_one_release selection_log_pmf
        selection_probability_printed shrinkage_factor tensor_attack_order""",
    "privacy": """
        amplify compose epsilon_from_renyi log_delta_from_renyi noise_by_moments vmf_concentration
        vmf_entropy vmf_kl vmf_log_density vmf_mean_cosine vmf_noise_multiplier vmf_renyi""",
}

CONTRACTS = {
    "special.log_integral": "any, n, _ n -> n",
    "metrics.match": "*b n N, *b m N -> Matching",
    "metrics.mse": "*#b N, *#b N -> *b",
    "metrics.ncc": "*#b N, *#b N -> *b",
    "metrics.nmi": "*picture, *picture -> ()",
    "metrics.projection_error": "*b n N, *b m N -> *b",
    "metrics.psnr": "*#b N, *#b N, *#b -> *b",
    "metrics.rmse": "*#b N, *#b N -> *b",
    "metrics.ssim": "*picture, *picture -> ()",
    "bounds.bayes_capacity_discrete": "*b inputs outputs -> *b",
    "bounds.bayes_success_simulated": "n n, n -> (), ()",
    "bounds.contrast_of": "... -> ()",
    "bounds.cramer_rao_error": "GradientInformation, *b, B d -> *b",
    "bounds.cramer_rao_error_loosened": "GradientInformation, *b, B d -> *b",
    "bounds.expected_mse_clipped_to_range": "..., *b -> *b",
    "bounds.gradient_information": "any -> GradientInformation",
    "bounds.information_trace_limit": "B -> ()",
    "bounds.mse_floor_gaussian": "*b, N -> *b",
    "bounds.mse_floor_levels": "*#b, *#b, () | n, n -> *b",
    "bounds.mse_floor_set": "*b, n N -> *b",
    "bounds.mutual_information_bound": "*#b, () | n, *#b, *#b -> *b",
    "bounds.mutual_information_monte_carlo": "n d, n -> (), ()",
    "bounds.ncc_quantile": "*#b, *#b, *#b, ..., *#b, *#b, *#b -> *b",
    "bounds.ncc_tail": "*#b, *#b, *#b, ..., *#b, *#b -> *b",
    "bounds.ncc_tail_sampled": "*#b, *#b, *#b, *#b, *#b, ..., *#b -> *b",
    "bounds.prior_success": "() | n -> ()",
    "bounds.prior_success_ball": "centres points, points -> ()",
    "bounds.prior_success_ball_any_centre": "points points, points -> any",
    "bounds.smallest_cosine": "... n n -> ()",
    "bounds.van_trees_error": "q q, *b, d d -> *b",
    "privacy.square_root_encoder": "-> steps steps",
    "privacy.tree_encoder": "-> nodes steps",
    "privacy.vmf_renyi_blocks": """
        *#b, *#b blocks | (), *#b blocks | (), *#b blocks | () -> *b""",
    "privacy.vmf_renyi_sampled": "-> orders",
    "mechanisms.add_gaussian_noise": "{e ...} -> {e ...}",
    "mechanisms.add_vmf_noise": "{e ...}, () | e -> {e ...}",
    "mechanisms.clip": "{e ...} -> {e ...}, e",
    "mechanisms.defend": "Released | {P ...} -> new Released",
    "mechanisms.global_norm": "{e ...} -> e",
    "mechanisms.sample_vmf": "p | n p, () | n -> p | size p | n p",
    "mechanisms.support": "{P ...} -> {P ...}",
    "mechanisms.vmf_cosines": "() | size -> size, size",
    "models.sum_of_outputs": "... -> ()",
    "training.accuracy": "Layers, *#s n d, *#s n -> *s",
    "training.backward_pass": "{_ _} | {*s _ _}, *#s n d, *#s n c -> any",
    "training.client_updates": "P n ..., P n -> new Released",
    "training.gradient_factors": "Layers, *#s n d, *#s n | *#s n c -> Factors",
    "training.mean_gradient": """
        {_ _} | {*s _ _}, *#s n d, *#s n | *#s n c -> {*s _ _}""",
    "training.network_accuracy": "{*s _ _}, n d, n -> *s",
    "training.one_hot": "*n -> *n classes",
    "training.per_example_gradients": "e ... -> {e ...}",
    "training.record_trajectories": "n d, n, K d, K, {...} -> Trajectories",
    "training.release_gradients": "{_ _} | {K _ _}, n d | K n d, n | K n, K n -> {K _ _}",
    "training.single_record_steps": "e ... -> {e ...}, e",
    "training.train_many": "n d, n, K d, K, {...} -> {K ...}",
    "training.train_mini_batches": "N d, N, {_ _} | {K _ _} -> {K _ _}",
    "training.train_under_defences": "N 3 side side, N -> DefendedTraining",
    "training.update_jacobian": "n ..., n, neurons -> q, q _",
    "attacks.allocate_bits": "*b -> *b",
    "attacks.analytic_attack": "Released, Knowledge -> Inversion",
    "attacks.average_matched": "T N, T -> _ N",
    "attacks.bhattacharyya": "-> _",
    "attacks.binary_mmse": "*b -> *b",
    "attacks.bit_amplitudes": "-> _",
    "attacks.bit_energies": "-> _",
    "attacks.bits_attack": "examples N -> examples N",
    "attacks.candidate_directions": "p, n p -> n p",
    "attacks.class_means": "N d, N -> classes d",
    "attacks.clip_to_range": "*x -> *x",
    "attacks.coded_attack": "examples N -> examples N, PolarCode",
    "attacks.component_attack": "Released, Knowledge -> Inversion",
    "attacks.conversion_success": "*b -> *b",
    "attacks.decompose_cubes": "B B B -> Cubes",
    "attacks.deep_leakage": "{_ _} | {P _ _}, {P _ _}, P n, n d | P n d -> Inversion",
    "attacks.draw_priors": "pool_size -> trials prior_size",
    "attacks.draw_vmf_scores": "n n, K -> K n",
    "attacks.expected_mse_of_bits": "_, ... -> ()",
    "attacks.feature_match": "P n -> any",
    "attacks.gaussian_prior_attack": """
        {_ _} | {P _ _}, {P _ _}, P n, classes d, k d, k, () | P -> Inversion""",
    "attacks.generative_attack": "Released, Knowledge, any -> Inversion",
    "attacks.gradient_moments": "-> GradientMoments",
    "attacks.fit_features": "Released, P n -> FittedFeatures",
    "attacks.greedy_matching": "P n m -> P n",
    "attacks.imprint_attack": "Released, Knowledge -> Inversion",
    "attacks.imprint_thresholds": "N -> count",
    "attacks.infer_labels": "{T K ...} -> K",
    "attacks.invert_gradients": "{_ _} | {P _ _}, {P _ _}, P n, n d | P n d -> Inversion",
    "attacks.invert_updates": "Released, Knowledge, P n ... | P _ -> Inversion",
    "attacks.isolated_share": "*b, () | k -> *b",
    "attacks.james_stein": "*#b N, *#b -> *b N",
    "attacks.known_scale": "Observation -> examples N",
    "attacks.laplace_cells": "-> _, ()",
    "attacks.layer_ratio": "P rows d, P rows -> P d",
    "attacks.likelihood_score": "StepScores, n | K n -> K n",
    "attacks.linearised_information": "{T ...}, d, () -> d d",
    "attacks.linearised_variance": "{T K ...}, K d, K -> K d",
    "attacks.match_gradients": "{T K ...}, {T K ...}, K, K d -> any",
    "attacks.match_steps": "T N -> T",
    "attacks.matching_limit": "_ _ -> ()",
    "attacks.mean_record_mse": "N d -> ()",
    "attacks.minimise_squares": "any, any, q -> q, ()",
    "attacks.nearer_records": "K d, K d, M d -> K",
    "attacks.nearest_neighbour_mse": "N d -> N",
    "attacks.observe": "examples N, N -> Observation",
    "attacks.observe_vmf": "examples N -> Observation",
    "attacks.pixel_bits": "*b N -> *b _ N",
    "attacks.pixels_from_bits": "*b _ N -> *b N",
    "attacks.polar_code": "-> PolarCode",
    "attacks.polar_decode": "PolarCode, *b blocks n -> *b _",
    "attacks.polar_encode": "PolarCode, *b _ -> *b blocks n",
    "attacks.printed_likelihood_score": "StepScores, n | K n -> K n",
    "attacks.prior_aware_attack": "n d, n, N d, N, prior_size, {...} -> Guesses",
    "attacks.project_tensor": "GradientMoments, B d -> B B B",
    "attacks.proposed_attack": "Released, Knowledge -> Inversion",
    "attacks.rank_one_start": "{T K ...} -> K d",
    "attacks.ratio_by_row": "Observation -> examples M N",
    "attacks.read_imprints": "P k d, P k -> Imprints",
    "attacks.recover_feature_span": "Released -> P count f",
    "attacks.recover_features": "Released -> P count f",
    "attacks.refine_in_span": "TensorReconstruction -> any",
    "attacks.refine_records": "TensorReconstruction -> Refinement",
    "attacks.refine_updates": "Released, Knowledge, P n ..., NormalLaw -> Inversion",
    "attacks.refine_with_masks": "any -> Refinement",
    "attacks.row_space": "P rows d -> P count d",
    "attacks.posterior_on_sphere": "*#b N, *#b -> *b N",
    "attacks.scaled_direction": "*#b N, *#b -> *b N",
    "attacks.send_coded": "examples ..., any -> examples _, PolarCode",
    "attacks.shared_trajectory_attack": "n d, n, N d, N, prior_size, {...} -> Guesses",
    "attacks.denoise": "n N, n -> n N",
    "attacks.list_posterior": "*b N, n N -> *b n",
    "attacks.second_moments": "n N -> any",
    "attacks.noise_of": "n N -> n",
    "attacks.posterior_sample": "n N, n -> n N",
    "attacks.shrink": "*b N -> *b N",
    "attacks.wiener_filter": "*b N, SecondMoments -> *b N",
    "attacks.unbiased_on_sphere": "*#b N, *#b -> *b N",
    "attacks.span_attack": "{_ _} | {P _ _}, {P _ _}, P n, n d | P n d -> Inversion",
    "attacks.stretch": "*b d -> *b d",
    "attacks.success_by_prior_size": "Guesses -> trials _",
    "attacks.sum_score": "StepScores -> K n",
    "attacks.tensor_attack": "-> TensorReconstruction",
    "attacks.top_score": "StepScores -> K n",
    "attacks.total_variation": "... _ _ -> ()",
    "attacks.train_linear_reconstructor": "K p, K d -> any",
    "attacks.train_reconstructor": "K p, K d -> any",
    "attacks.transform_attack": "examples h w c, TransformPrior -> examples h w c, PolarCode",
    "attacks.transform_prior": "_ h w c -> TransformPrior",
    "attacks.unmix": "P rows d -> Components",
    "attacks.unscaled": "Observation -> examples N",
    "attacks.vmf_attack_success": "n n -> (), ()",
    "attacks.vmf_likelihood_score": "n p | T n p, T K p -> K n",
    "attacks.with_estimated_scale": "Observation -> examples N",
}

#: array fields of the values that functions take and return, and keys of the mappings ``Layers``
FIELDS = {
    "MatrixMechanism": {"encoder": "rows steps"},
    "PolarCode": {"information": "_"},
    "SecondMoments": {"mean": "N", "variances": "N", "directions": "N N"},
    "TransformPrior": {"mean": "h w c", "std": "h w c"},
    "Matching": {"order": "*b n", "signs": "*b n", "errors": "*b n"},
    "GradientInformation": {"matrix": "q q", "pull": "q"},
    "Released": {"gradient": "{P ...}", "visible": "{P ...}", "units": "P neurons"},
    "Layers": {
        "hidden.weight": "*s h d",
        "hidden.bias": "*s h",
        "output.weight": "*s c _",
        "output.bias": "*s c",
    },
    "Factors": {
        "records": "Records",
        "output_delta": "*s c n",
        "hidden": "*s h n",
        "hidden_delta": "*s h n",
    },
    "Records": {
        "inputs": "*#s n d",
        "columns": "*#s d n",
        "sizes": "*#s n",
        "targets": "*#s c n",
    },
    "Trajectories": {
        "weights": "{T K ...}",
        "residuals": "{T K ...}",
        "takes_part": "T K",
        "final": "{K ...}",
    },
    "DefendedTraining": {"losses": "S K epochs", "state": "{S K ...}"},
    "Components": {"sources": "P n d", "converged": "P"},
    "Cubes": {"vectors": "n B", "weights": "n"},
    "GradientMoments": {"linear": "d", "matrix": "d d", "contraction": "d"},
    "Guesses": {
        "candidates": "trials prior_size",
        "target": "trials",
        "scores": "{trials prior_size}",
    },
    "FittedFeatures": {"features": "P n f", "cosine": "P n", "noise": "P n"},
    "Imprints": {"records": "P k d", "strength": "P k", "found": "P k"},
    "Inversion": {"inputs": "P n ...", "loss": "P", "values": "P ..."},
    "Knowledge": {
        "labels": "P n",
        "statistics": "any",
        "features": "P m f",
        "cosines": "P n",
    },
    "LatentSpace": {"known": "N latent"},
    "NormalLaw": {"mean": "d", "covariance": "d d"},
    "Observation": {
        "row_mean": "examples N",
        "bias_mean": "examples",
        "rows": "any",
        "scale": "examples",
        "offset": "N",
    },
    "Refinement": {"inputs": "B d", "residuals": "B"},
    "StepScores": {"inner": "T K n", "squared_norms": "T K n", "residual_squared_norms": "T K"},
    "TensorReconstruction": {
        "inputs": "B d",
        "span": "B d",
        "eigenvalues": "B",
        "weights": "B",
    },
    "TunedSpace": {"latent": "LatentSpace"},
    "UntrainedSpace": {"noise": "n width side side"},
}
