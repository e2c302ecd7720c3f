"""Environment variables with which results are the same on every x86 processor with AVX2.

PyTorch, NumPy and their libraries read them once, when they are imported; so nothing is imported
here. Otherwise sums differ in their last bit, and so do attacks of many steps in their tables.
"""

__all__ = ["SAME_KERNELS"]

SAME_KERNELS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
