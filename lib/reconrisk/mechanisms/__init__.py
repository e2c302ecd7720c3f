"""Mechanisms of private training: clipping, Gaussian noise, von Mises-Fisher noise, other defences.

A gradient is a mapping from parameter names to tensors whose first axis runs over examples, so that
many single-example steps are privatised in one call. The defences of Liu et al. compose; the first
axis of their updates runs over clients.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy
from reconrisk._extras import require

require("torch", "reconrisk.mechanisms")

if TYPE_CHECKING:
    from reconrisk.mechanisms._defences import (
        Clipping,
        Defence,
        EntryDropout,
        LocalAggregation,
        NeuronDropout,
        Noise,
        Pruning,
        Released,
        SecureAggregation,
        changes_of_training,
        defend,
        dp_sgd,
        support,
    )
    from reconrisk.mechanisms._gradients import Gradient, add_gaussian_noise, clip, global_norm
    from reconrisk.mechanisms._vmf import add_vmf_noise, sample_vmf, vmf_cosines
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "Clipping",
    "Defence",
    "EntryDropout",
    "Gradient",
    "LocalAggregation",
    "NeuronDropout",
    "Noise",
    "Pruning",
    "Released",
    "SecureAggregation",
    "add_gaussian_noise",
    "add_vmf_noise",
    "changes_of_training",
    "clip",
    "defend",
    "dp_sgd",
    "global_norm",
    "sample_vmf",
    "support",
    "vmf_cosines",
]
