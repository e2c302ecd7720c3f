"""Kernels with which results are the same on every x86 processor with AVX2.

Otherwise sums differ in their last bit, and so do attacks of many steps in their tables. PyTorch,
NumPy and their libraries read the environment variables once, when they are imported; so nothing is
imported here. The only kernels of MKL that are the same everywhere are those of SSE2, a quarter as
fast as others. So NumPy makes PyTorch's products of matrices: its OpenBLAS computes as on the
processor that it is told.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["SAME_KERNELS", "take_products"]

_PRODUCTS = "RECONRISK_PRODUCTS"
SAME_KERNELS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    _PRODUCTS: "numpy",
}

#: what holds the registered products: they are PyTorch's own again when it goes
_registered: list[Any] = []


def take_products() -> None:
    """Have NumPy make this process's products of matrices, if the environment asks for it.

    It does where ``RECONRISK_PRODUCTS`` is ``numpy``. Derivatives and ``torch.func`` work as
    before: both are made of these products.
    """
    if _registered or os.environ.get(_PRODUCTS) != "numpy":
        return
    try:
        import torch
    except ModuleNotFoundError:  # closed forms do without it
        return
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for plain, added in (("mm", "addmm"), ("bmm", "baddbmm")):
            library.impl(plain, _product, "CPU")
            library.impl(f"{plain}.out", _product_into, "CPU")
            library.impl(added, _added, "CPU")
            library.impl(f"{added}_", _added_to, "CPU")
            library.impl(f"{added}.out", _added_into, "CPU")
    _registered.append(library)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import numpy as np
    import torch

    with np.errstate(all="ignore"):  # as PyTorch does
        return torch.from_numpy(a.numpy(force=True) @ b.numpy(force=True))


def _product_into(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    product = _product(a, b)
    return out.resize_(product.shape).copy_(product)


def _added(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    product = _product(a, b)
    if alpha != 1:
        product *= alpha
    return product.add_(c, alpha=beta) if beta else product


def _added_to(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    if beta != 1:
        c = c.mul_(beta) if beta else c.zero_()
    return c.add_(_product(a, b), alpha=alpha)


def _added_into(
    c: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: torch.Tensor,
) -> torch.Tensor:
    result = _added(c, a, b, beta=beta, alpha=alpha)
    return out.resize_(result.shape).copy_(result)
