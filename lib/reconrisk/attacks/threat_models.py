"""What each attacker sees, changes and knows: the source of the book's table of threat models."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["THREAT_MODELS", "ThreatModel"]


@dataclass(frozen=True)
class ThreatModel:
    """The assumptions on one attacker.

    Attributes
    ----------
    name : str
    paper_key : str
        Key of the paper, "beyond" for our own.
    sees, changes, knows : str
        What is released to the attacker, what it may alter beforehand, what it knows besides.
    success : str
        What counts as success.
    bound : str
        Names in :mod:`reconrisk.bounds` of the functions that bound its success, or why none does.
    """

    name: str
    paper_key: str
    sees: str
    changes: str
    knows: str
    success: str
    bound: str


THREAT_MODELS = (
    ThreatModel(
        "analytic inversion, scale known",
        "mean_to_extreme",
        "privatised gradients of single-record steps",
        "architecture, loss, hyper-parameters (batch size 1)",
        "N, sigma, C and the clipping factor, hence the record's norm",
        "MSE at most, PSNR or NCC at least a threshold",
        "mse_tail, psnr_tail, ncc_tail (this estimator); mse_tail_sphere (every estimator)",
    ),
    ThreatModel(
        "linear projection",
        "ziller2024",
        "privatised gradients of single-record steps",
        "architecture, loss, hyper-parameters (batch size 1)",
        "N, sigma, C",
        "MSE at most, PSNR or NCC at least a threshold",
        "mse_tail_clipped, expected_mse_clipped",
    ),
    ThreatModel(
        "shrinkage",
        "beyond",
        "as in analytic inversion",
        "as in analytic inversion",
        "as in analytic inversion; no more than sigma and N is used",
        "MSE at most a threshold",
        "mse_tail_shrunk",
    ),
    ThreatModel(
        "James-Stein",
        "beyond",
        "as in analytic inversion",
        "as in analytic inversion",
        "the noise's standard deviation sigma ||X||",
        "expected MSE",
        "expected_mse_james_stein",
    ),
    ThreatModel(
        "range clipping",
        "beyond",
        "as in analytic inversion",
        "as in analytic inversion",
        "the range of the values (8-bit pixels, say)",
        "expected MSE",
        "expected_mse_clipped_to_range",
    ),
    ThreatModel(
        "offset layer",
        "beyond",
        "as in analytic inversion",
        "also a fixed offset in front of the layer",
        "a typical value c (mid grey, say)",
        "MSE at most a threshold",
        "mse_tail at the norm ||X - c||",
    ),
    ThreatModel(
        "unlabelled steps",
        "beyond",
        "privatised gradients of many single-record steps",
        "as in analytic inversion",
        "how many records there are, not which step drew which",
        "the share of steps matched; MSE of the averages",
        "mse_tail_sampled (with labels)",
    ),
    ThreatModel(
        "layer that sends bits",
        "beyond",
        "as in analytic inversion",
        "also what the network computes in front of the layer: threshold units, a code",
        "N, sigma, C and the format of the values (8 bits in [0, 1])",
        "expected MSE; no wrong bit",
        "rero with the prior success of the best guess (every network)",
    ),
    ThreatModel(
        "layer that sends transform coefficients",
        "beyond",
        "as in analytic inversion",
        "as a layer that sends bits",
        "the same, and how other images vary",
        "MSE",
        "rero with the prior success of the best guess (every network)",
    ),
    ThreatModel(
        "unknown scale",
        "beyond",
        "as in analytic inversion, with the layer's bias",
        "as in analytic inversion",
        "N, sigma, C; the scale is estimated from the noisy bias gradients",
        "MSE at most a threshold",
        "none closed; to first order that of the known scale times 1 + 1/u + (1 + u)/N",
    ),
    ThreatModel(
        "prior-aware",
        "hayes2023",
        "all privatised gradients of a run",
        "nothing",
        "all other records, the first weights, a list of candidates with their prior",
        "naming the right candidate",
        "rero; bayes_success, equicorrelated_bound (from the candidates' geometry)",
    ),
    ThreatModel(
        "gradient-based",
        "hayes2023",
        "all privatised gradients of a run",
        "nothing",
        "all other records, the first weights, the label, the range of the values",
        "MSE; the nearest of a list of candidates; a share of the pixels within a tolerance",
        "rero (with a list or a tolerance), posterior_mse (images of a list), van_trees_error "
        "(images of a normal law), mse_lower_bound (unbiased reconstructions)",
    ),
    ThreatModel(
        "model-based",
        "hayes2023",
        "the final weights",
        "nothing",
        "all other records, the first weights, auxiliary records like the missing one",
        "MSE",
        "rero",
    ),
    ThreatModel(
        "inverting gradients",
        "biswas2024",
        "one batch's averaged gradient, privatised",
        "nothing",
        "the weights, the batch's size and labels, that neighbouring pixels are alike",
        "MSE, SSIM; the whole batch named exactly, once, in the bound",
        "bayes_capacity_gaussian, bayes_capacity_vmf (over equally likely batches)",
    ),
    ThreatModel(
        "deep leakage",
        "biswas2024",
        "as in inverting gradients",
        "nothing",
        "the weights, the batch's size and labels",
        "as in inverting gradients",
        "as in inverting gradients",
    ),
    ThreatModel(
        "span-restricted least squares",
        "beyond",
        "one batch's averaged gradient, without noise",
        "nothing",
        "the weights, the batch's size and labels, the clipping norm",
        "MSE",
        "none; exact where the gradient fixes the batch",
    ),
    ThreatModel(
        "most probable batch",
        "beyond",
        "one batch's averaged gradient, privatised",
        "nothing",
        "the weights, labels, the noise; class means and principal directions of like records",
        "MSE",
        "bayes_capacity_gaussian, bayes_capacity_vmf (over equally likely batches)",
    ),
    ThreatModel(
        "prior-aware, turned gradients",
        "beyond",
        "one batch's direction after von Mises-Fisher noise",
        "nothing",
        "all other records, the weights, a list of candidates, the concentration",
        "naming the right candidate",
        "rero_vmf; bayes_success_vmf (from the candidates' geometry)",
    ),
    ThreatModel(
        "analytic inversion, turned gradients",
        "beyond",
        "directions of single-record gradients after von Mises-Fisher noise",
        "architecture, loss, hyper-parameters (batch size 1)",
        "N, the concentration and the record's norm",
        "MSE; the cosine with the record",
        "direction_cosine_vmf, direction_error_vmf",
    ),
    ThreatModel(
        "tensor attack",
        "liu2024",
        "a batch's gradient of a two-layer network's output weights, under a defence",
        "the inner weights: random normal ones, many of them",
        "the inner weights, the batch's size, that records have norm one",
        "RMSE of the records, in the best order (and up to signs for some activations)",
        "tensor_attack_order; cramer_rao_error (unbiased estimators, under noise)",
    ),
    ThreatModel(
        "least squares on two-layer networks",
        "beyond",
        "as in the tensor attack, and which entries are zero",
        "as in the tensor attack; fewer neurons do",
        "the same; for local steps the output weights and rates, for dropout who was dropped",
        "RMSE of the records, in the best order",
        "cramer_rao_error (unbiased estimators, under noise); zero without",
    ),
    ThreatModel(
        "least squares with dropout masks",
        "beyond",
        "as in the tensor attack, with dropout drawn for every record on its own",
        "as in the tensor attack",
        "as in the tensor attack",
        "RMSE of the records, in the best order",
        "cramer_rao_error (unbiased estimators, under noise, masks known)",
    ),
    ThreatModel(
        "gradient inversion of deep networks",
        "liu2024",
        "one client's update under a defence",
        "nothing",
        "the weights, the batch's size and labels, the batch norms' statistics",
        "RMSE, PSNR, LPIPS",
        "none here for deep networks",
    ),
    ThreatModel(
        "proposed attack",
        "liu2024",
        "as in gradient inversion of deep networks",
        "the wide layer: most of its neurons get random weights",
        "the same; that an untrained network's outputs look like pictures",
        "RMSE, PSNR, LPIPS; how far the true features are from the recovered ones' span",
        "none here for the pictures; cramer_rao_error for the wide layer's inputs",
    ),
    ThreatModel(
        "generative prior",
        "liu2024",
        "as in gradient inversion of deep networks",
        "nothing",
        "the same, and a generator trained on like pictures",
        "LPIPS",
        "none here for deep networks",
    ),
    ThreatModel(
        "analytic inversion of a layer",
        "beyond",
        "one client's gradient of a fully connected layer, under a defence",
        "nothing",
        "what the layer's inputs are made of, to invert them",
        "RMSE",
        "none; exact for one record without a defence",
    ),
    ThreatModel(
        "gradient inversion, defence-aware",
        "beyond",
        "one client's update under a defence, and which of its entries are zero",
        "as in gradient inversion of deep networks",
        "the same, and the protocol: local steps, rates, the kind of defence",
        "RMSE, PSNR, LPIPS",
        "none here for deep networks",
    ),
    ThreatModel(
        "least squares on an update",
        "beyond",
        "as in gradient inversion, defence-aware, of a small network",
        "nothing",
        "the same; in place of what images look like a normal law of them",
        "RMSE",
        "van_trees_error (records of a normal law, near the truth)",
    ),
    ThreatModel(
        "independent components",
        "liu2024",
        "one client's gradient of a linear layer",
        "nothing",
        "the batch's size; that values of different inputs are independent",
        "correlation with the layer's inputs; RMSE of what is inverted from them",
        "none; their span is exact without noise",
    ),
    ThreatModel(
        "exact batches",
        "beyond",
        "a batch's gradient of a linear layer with biases that ReLU follows; clipped, with noise",
        "nothing",
        "the layer's weights and biases, the noise; no labels, no loss, no other layer",
        "a batch whose forward pass agrees with its zeros; RMSE in the best order",
        "rero (naming one of a list); cramer_rao_error (unbiased estimators, under noise)",
    ),
    ThreatModel(
        "imprint module",
        "liu2024",
        "one client's gradient of a manipulated first layer",
        "the architecture: a layer of equal rows with thresholds",
        "the law of one measurement of like records (their brightness)",
        "RMSE; the share of records alone in their bin",
        "none; without a defence, the expected share of lone records is known",
    ),
)
