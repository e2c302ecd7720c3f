"""What all gradients of a run say of one record's pixels, and a prior that reads it.

Hayes et al. 2023 match gradients pixel by pixel (eq. (1)). The first layer's gradient of a record
is the derivatives in the layer's outputs times the record. Given these derivatives, which vary
slowly with the record, the residuals of all steps are one release of the record with normal noise
of known size: what denoisers are made for. So derivatives at a guess, the release, and the prior's
estimate from it take turns. The method is ours.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from reconrisk import arguments
from reconrisk._types import DPSGD, check_run
from reconrisk.attacks.gradient_matching import rank_one_start
from reconrisk.training._factors import Weights, gradient_factors

__all__ = ["Prior", "first_layer_release", "match_with_prior"]

#: what an attacker makes of noisy records, (K, d), and their standard deviations, (K,)
Prior = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def first_layer_release(
    weights: Weights,
    residuals: Weights,
    run: DPSGD,
    guess: torch.Tensor,
    labels: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each target as the first layer's residuals show it, and the noise's deviation.

    The estimate is the least-squares one for clipped derivatives at ``guess``; where these are the
    target's, it is the target plus normal noise of that standard deviation in every pixel.

    Parameters
    ----------
    weights, residuals : Weights, shape (T, K, ...)
        As in :class:`~reconrisk.training.Trajectories`.
    run : DPSGD
        With ``sampling_rate`` 1.
    guess : Tensor, shape (K, d)
    labels : Tensor of integers, shape (K,)

    Returns
    -------
    x_hat : Tensor, shape (K, d)
    noise_std : Tensor, shape (K,)
        In units of a pixel; infinite for a target without derivatives.

    Raises
    ------
    ValueError
        If the run samples its batches, or shapes do not fit.

    Notes
    -----
    Cost: one forward and backward pass of T models for each target, and ``T h d`` multiplications.
    """
    check_run(run)
    if run.sampling_rate != 1:
        raise ValueError(
            f"run.sampling_rate must be 1: every step shows the target; got {run.sampling_rate:g}"
        )
    layer = "hidden" if "hidden.weight" in residuals else "output"
    seen = residuals[f"{layer}.weight"]
    if guess.shape != (seen.shape[1], seen.shape[3]) or labels.shape != seen.shape[1:2]:
        raise ValueError(
            f"guess and labels must have shapes {(seen.shape[1], seen.shape[3])} and "
            f"{(seen.shape[1],)}; got {tuple(guess.shape)} and {tuple(labels.shape)}"
        )
    factors = gradient_factors(weights, guess[:, None], labels[:, None])
    delta = factors.output_delta if layer == "output" else factors.hidden_delta
    assert delta is not None
    clipped = (delta * factors.clip_factors(run.max_grad_norm)[..., None, :])[..., 0]
    size = clipped.square().sum(dim=(0, 2))
    tiny = torch.finfo(size.dtype).tiny
    summed = torch.einsum("tkh,tkhd->kd", clipped, seen)
    std = run.noise_multiplier * run.max_grad_norm * size.rsqrt()
    return summed / size.clamp(min=tiny)[:, None], std


def match_with_prior(
    weights: Weights,
    residuals: Weights,
    run: DPSGD,
    labels: torch.Tensor,
    prior: Prior,
    *,
    start: torch.Tensor | None = None,
    iterations: int = 2,
) -> torch.Tensor:
    """Reconstruct each target from all gradients of its run, with a prior.

    Parameters
    ----------
    weights, residuals, run, labels
        As for :func:`first_layer_release`.
    prior : callable
        From records (K, d) with normal noise of standard deviations (K,) to estimates (K, d): a
        learnt denoiser (:func:`denoise`), a filter, the mean over a list.
    start : Tensor, shape (K, d), optional
        First guess; by default :func:`rank_one_start`.
    iterations : int
        Turns of release and estimate, at least 1. The first two help; more of them follow the
        noise, to which the derivatives at an estimate are no longer blind.

    Returns
    -------
    Tensor, shape (K, d)
        In [0, 1].

    Raises
    ------
    ValueError
        If the run samples its batches, or shapes do not fit.

    Examples
    --------
    Without noise to speak of, no prior is needed:

    >>> import torch
    >>> from reconrisk import DPSGD, attacks
    >>> from reconrisk.models import Classifier
    >>> from reconrisk.training import record_trajectories
    >>> draws = torch.Generator().manual_seed(0)
    >>> records, labels = torch.rand(8, 20, generator=draws), torch.arange(8) % 3
    >>> run = DPSGD(1e-6, steps=5, max_grad_norm=0.1)
    >>> seen = record_trajectories(
    ...     Classifier(20, 4, 3), run, records[2:], labels[2:], records[:2], labels[:2],
    ...     learning_rate=1.0, generator=draws,
    ... )
    >>> found = attacks.match_with_prior(
    ...     seen.weights, seen.residuals, run, labels[:2], lambda noisy, std: noisy
    ... )
    >>> bool((found - records[:2]).abs().max() < 1e-3)
    True
    """
    arguments.integer("iterations", iterations, 1)
    guess = rank_one_start(residuals) if start is None else start
    for _ in range(iterations):
        x_hat, std = first_layer_release(weights, residuals, run, guess, labels)
        guess = prior(x_hat, std).to(guess.dtype).clamp(0, 1)
    return guess
