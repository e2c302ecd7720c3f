"""What private training does to a gradient: clip its norm, add Gaussian noise, turn its direction.

A gradient is a mapping from parameter names to tensors whose first axis runs over examples, so
that many single-example steps are privatised in one call.
"""

from reconrisk.mechanisms._gradients import Gradient, add_gaussian_noise, clip, global_norm
from reconrisk.mechanisms._vmf import add_vmf_noise, sample_vmf, vmf_cosines

__all__ = [
    "Gradient",
    "add_gaussian_noise",
    "add_vmf_noise",
    "clip",
    "global_norm",
    "sample_vmf",
    "vmf_cosines",
]
