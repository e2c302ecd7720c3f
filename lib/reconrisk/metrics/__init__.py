"""How alike a record and its reconstruction are.

Errors and similarities of vectors reduce the last axis and broadcast over the others; SSIM and
the NMI take one picture each; a set without an order is matched to its targets first. The
perceptual distance needs PyTorch and is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        from reconrisk.metrics import perceptual

        return getattr(perceptual, name)
    raise AttributeError(f"module 'reconrisk.metrics' has no attribute {name!r}")
