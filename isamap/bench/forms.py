"""What a GEMM row is computed in: element types, storage and whether C is read; as a kernel's text.

kernel_text(BF16, case, beta=1)  ->  kernel deepbench_gemm(M, N, K) { in A: bf16[M, K]; … C[m, n] += …; }
"""

from __future__ import annotations

from dataclasses import dataclass

from isamap.bench.cases import GemmCase
from isamap.ir import DTYPES


@dataclass(frozen=True, slots=True)
class Form:
    """Element types of a product: those of A (activations), B (weights), C, and of the sum."""

    name: str
    a: str
    b: str
    c: str
    sum: str

    @property
    def is_float(self) -> bool:
        return self.sum == "f32"

    def element_bytes(self, operand: str) -> int:
        """Units: bytes of one element of operand A, B or C."""
        return DTYPES[{"A": self.a, "B": self.b, "C": self.c}[operand]].size_bytes


F32 = Form("f32", "f32", "f32", "f32", "f32")
BF16 = Form("bf16", "bf16", "bf16", "bf16", "f32")
BF16_F32 = Form("bf16_f32", "bf16", "bf16", "f32", "f32")
S8S8 = Form("s8s8", "i8", "i8", "i32", "i32")
U8S8 = Form("u8s8", "u8", "i8", "i32", "i32")
FORMS = {form.name: form for form in (F32, BF16, BF16_F32, S8S8, U8S8)}
FORMS_OF_DTYPE: dict[str, tuple[Form, ...]] = {"f32": (F32,), "bf16": (BF16, BF16_F32), "int8": (S8S8, U8S8)}


def forms_of(dtype: str) -> tuple[Form, ...]:
    """The forms that rows of a dtype are run in, the headline one first."""
    return FORMS_OF_DTYPE[dtype]


def shapes(case: GemmCase) -> dict[str, tuple[int, int]]:
    """The stored shapes of A, B and C, row-major."""
    return {
        "A": (case.k, case.n) if case.b_transposed else (case.n, case.k),
        "B": (case.m, case.k) if case.a_transposed else (case.k, case.m),
        "C": (case.n, case.m),
    }


def kernel_text(form: Form, case: GemmCase, beta: int) -> str:
    """The product in the kernel language; with `beta` 0 C is only written, with 1 it is read and added to."""
    a, at = ("K, M", "k, m") if case.b_transposed else ("M, K", "m, k")
    b, bt = ("N, K", "n, k") if case.a_transposed else ("K, N", "k, n")
    role, accumulate = ("inout" if beta else "out"), (f" accumulate {form.sum}" if form.c != form.sum else "")
    start = "" if beta else "  for m in M, n in N { C[m, n] = 0; }\n"
    left, right = _widened(form, form.a, f"A[{at}]"), _widened(form, form.b, f"B[{bt}]")
    return (
        "kernel deepbench_gemm(M, N, K) {\n"
        f"  in A: {form.a}[{a}];\n  in B: {form.b}[{b}];\n  {role} C: {form.c}[M, N]{accumulate};\n"
        f"{start}  for m in M, n in N, k in K {{ C[m, n] += {left} * {right}; }}\n}}\n"
    )


def _widened(form: Form, dtype: str, read: str) -> str:
    return read if dtype == form.sum else f"{form.sum}({read})"
