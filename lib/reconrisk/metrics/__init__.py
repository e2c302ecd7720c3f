"""Errors and similarities of records and their reconstructions.

MSE, RMSE, PSNR and NCC reduce the last axis and broadcast over the others; SSIM and NMI take one
pair of images; :func:`match` assigns an unordered set of reconstructions to its targets. The
perceptual distance needs PyTorch and is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconrisk._extras import require
from reconrisk.metrics.matching import Matching, match
from reconrisk.metrics.pixel import mse, ncc, nmi, psnr, rmse, ssim
from reconrisk.metrics.subspace import projection_error

if TYPE_CHECKING:
    from reconrisk.metrics.perceptual import PerceptualMetric, load_perceptual

__all__ = [
    "Matching",
    "PerceptualMetric",
    "load_perceptual",
    "match",
    "mse",
    "ncc",
    "nmi",
    "projection_error",
    "psnr",
    "rmse",
    "ssim",
]


def __getattr__(name: str) -> Any:
    if name in {"PerceptualMetric", "load_perceptual"}:
        require("lpips", f"reconrisk.metrics.{name}")
        from reconrisk.metrics import perceptual

        return getattr(perceptual, name)
    raise AttributeError(f"module 'reconrisk.metrics' has no attribute {name!r}")
