"""Errors and similarities of records and their reconstructions.

MSE, RMSE, PSNR and NCC reduce the last axis and broadcast over the others; SSIM and NMI take one
pair of images; :func:`match` assigns an unordered set of reconstructions to its targets. The
perceptual distances need PyTorch and are imported on first use.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from reconrisk.metrics.matching import Matching, match
    from reconrisk.metrics.perceptual import (
        PerceptualMetric,
        load_perceptual,
        load_shift_tolerant,
    )
    from reconrisk.metrics.pixel import mse, ncc, nmi, psnr, rmse, ssim
    from reconrisk.metrics.subspace import projection_error
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "Matching",
    "PerceptualMetric",
    "load_perceptual",
    "load_shift_tolerant",
    "match",
    "mse",
    "ncc",
    "nmi",
    "projection_error",
    "psnr",
    "rmse",
    "ssim",
]
