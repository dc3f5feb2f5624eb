"""Derivatives of kernels as kernels: the adjoint of each statement, in reverse order.

    gradient(parse_kernel(gemm), of=["C"], by=["A", "B"])

is `gemm_back`: `d_A[m, k] += d_C[m, n] * B[k, n]`, `d_B[k, n] += A[m, k] * d_C[m, n]`.
"""

from isamap.adjoint.gradient import Derivative, differentiate, gradient

__all__ = ["Derivative", "differentiate", "gradient"]
