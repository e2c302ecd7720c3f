"""Kernels with which results are nearly the same on every x86 processor with AVX2.

Otherwise sums differ in their last bit, and so do attacks of many steps in their tables. PyTorch,
NumPy and their libraries read the environment variables once, when they are imported; so nothing is
imported here.

Of PyTorch's operations some take another path on another processor whatever is asked of them: MKL's
square roots, and its logarithms in double precision, are rounded otherwise by AMD's and by Intel's,
and the only products of MKL that are the same everywhere are those of SSE2, a quarter as fast as
others. NumPy, whose OpenBLAS computes as on the processor that it is told, makes these in the place
of PyTorch. What remains is Cholesky's factor in single precision, which nothing here uses.
Nobody has compared all operations on all processors, and another number of threads changes sums: so
tables are compared within the spread that other kernels give them (:mod:`companion.study.spread`),
never to the last bit.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    import torch

__all__ = ["KERNELS", "SAME_KERNELS", "kernels_in_use", "set_kernels", "take_products"]

_NUMPY = "RECONRISK_PRODUCTS"
#: the variables with which outputs are stored: the machine code that all such processors have
SAME_KERNELS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    _NUMPY: "numpy",
}
#: further sets: square roots and logarithms by MKL, what each library chooses for this processor,
#: and an old one with two threads
KERNELS: Mapping[str, dict[str, str]] = {
    "fixed": SAME_KERNELS,
    "mkl": {**SAME_KERNELS, _NUMPY: "products"},
    "own": {},
    "plain": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
    },
}

#: what holds the registered operations: they are PyTorch's own again when it goes
_registered: list[Any] = []


def set_kernels(name: str) -> dict[str, str]:
    """Have the libraries that this process and its children import take a set of kernels.

    Variables that choose kernels and are set already stay: whoever runs a machine may know that
    its libraries compute wrong results without them.

    Parameters
    ----------
    name : str
        One of ``KERNELS``.

    Returns
    -------
    dict
        The variables that stay although the set has other values for them.

    Raises
    ------
    ValueError
        If there is no such set.
    """
    if name not in KERNELS:
        raise ValueError(f"kernels must be one of {', '.join(KERNELS)}; got {name!r}")
    wanted = KERNELS[name]
    for variable, value in wanted.items():
        if variable in SAME_KERNELS:
            os.environ.setdefault(variable, value)
        else:
            os.environ[variable] = value  # a number of threads, which hosts set for other reasons
    return {v: value for v, value in kernels_in_use().items() if value != wanted.get(v)}


def kernels_in_use() -> dict[str, str]:
    """Return the variables that choose kernels in this process, for a provenance."""
    return {name: os.environ[name] for name in SAME_KERNELS if name in os.environ}


def take_products() -> None:
    """Have NumPy make this process's products of matrices, square roots and logarithms.

    It does where ``RECONRISK_PRODUCTS`` is ``numpy``, and products alone where it is ``products``;
    from PyTorch's import on, which takes a second and a half, and closed forms do without it.
    Derivatives and ``torch.func`` work as before: they are made of these operations.
    """
    asked = os.environ.get(_NUMPY)
    if asked not in ("numpy", "products"):
        return
    if sys.modules.get("torch") is not None:
        _register_products(asked)
    elif not any(isinstance(finder, _AfterTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTorch(asked))


class _AfterTorch(MetaPathFinder):
    """Registers the products as soon as somebody has imported PyTorch, which others find."""

    def __init__(self, asked: str) -> None:
        self._asked, self._looking = asked, False

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != "torch" or self._looking:
            return None
        self._looking = True
        try:
            spec = _find_spec(name)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _register_products(self._asked)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _register_products(asked: str) -> None:
    import torch

    if _registered:
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
        for name in ("sqrt", "log") if asked == "numpy" else ():
            function = _elementwise(name)
            library.impl(name, function, "CPU")
            library.impl(f"{name}_", _in_place(function), "CPU")
            library.impl(f"{name}.out", _into(function), "CPU")
    _registered.append(library)


def _elementwise(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return NumPy's function of double precision, rounded to the tensor's own.

    Square roots of single precision are rounded rightly as they are.
    """

    def function(x: torch.Tensor) -> torch.Tensor:
        import numpy as np
        import torch

        real = x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())
        wide = real
        if name != "sqrt" or real.dtype != torch.float32:
            wide = x.to(torch.promote_types(real.dtype, torch.float64))
        with np.errstate(all="ignore"):  # as PyTorch does
            values = np.asarray(getattr(np, name)(wide.numpy(force=True)))
        return torch.from_numpy(values).to(real.dtype)

    return function


def _in_place(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x: x.copy_(function(x))


def _into(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def into(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        result = function(x)
        return out.resize_(result.shape).copy_(result)

    return into


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import numpy as np
    import torch

    if a.dtype == torch.bfloat16:  # NumPy has no such numbers
        return _product(a.float(), b.float()).to(a.dtype)
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
