"""Matrix products as cases: the rows of DeepBench's GEMM suites and of transformers.

    training row 3: m=1760 n=128 k=1760, neither transposed  ->  GemmCase(position=3, m=1760, …)

DeepBench is column-major, C[m, n] += op(A)[m, k] · op(B)[k, n]. Row-major, as it is run here, that is
Y[n, m] += X[n, k] · W[k, m]: M = n, N = m, K = k, the suite's B is our A and its A, the weights, our B.

kernel_text(case, BF16, beta=1)  ->  kernel product(M, N, K) { in A: bf16[M, K]; … C[m, n] += …; }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from isamap.bench.cases import BF16, BF16_F32, F32, S8S8, SUITES, U8S8, Types, requantising
from isamap.bench.kind import DataMovement
from isamap.bench.paired_timing import TimedContender
from isamap.bench.product_check import check_product
from isamap.bench.ring import Array, Shared, random_values
from isamap.source import Source, dataclass
from isamap.suites import BatchedProduct, read_suite

FORMS_OF_DTYPE: dict[str, tuple[Types, ...]] = {"f32": (F32,), "bf16": (BF16, BF16_F32), "int8": (S8S8, U8S8)}
"""The forms that rows of a type are run in, the headline one first."""


@dataclass(frozen=True, slots=True)
class GemmCase:
    """One row in DeepBench's terms, or `batch` products of these sizes in parallel."""

    position: int
    suite: str
    m: int
    n: int
    k: int
    a_transposed: bool
    b_transposed: bool
    batch: int = 1

    @property
    def operations(self) -> int:
        """Multiplications and additions of one call."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def label(self) -> str:
        """The sizes as the suite writes them."""
        marks = ("T" if self.a_transposed else "N") + ("T" if self.b_transposed else "N")
        return f"{f'{self.batch} of ' if self.batch > 1 else ''}{self.m}x{self.n}x{self.k} {marks}"

    @property
    def class_name(self) -> str:
        """The class of the row's geometric mean. m = 35 and small k are separate, since C's traffic bounds them."""
        if self.batch > 1:
            return "batched"
        if self.m == 35:
            return "m = 35"
        if self.k <= 176:
            return "k <= 176"
        if self.n <= 4:
            return "n <= 4"
        if self.n <= 64:
            return "8 <= n <= 64"
        return "n around 128" if self.n < 700 else "n >= 700"

    @property
    def sizes(self) -> Mapping[str, int]:
        more = {"batch": self.batch} if self.batch > 1 else {}
        return {"m": self.m, "n": self.n, "k": self.k, **more}

    @property
    def bindings(self) -> Mapping[str, int]:
        more = {"G": self.batch} if self.batch > 1 else {}
        return {"M": self.n, "N": self.m, "K": self.k, **more}


def gemm_cases(suites: Sequence[str] = SUITES) -> tuple[GemmCase, ...]:
    """Return the rows of some of DeepBench's suites, in the order of its list."""
    return _cases("deepbench-gemm", suites)


def transformer_cases() -> tuple[GemmCase, ...]:
    """Return the products of BERT and LLaMA. Products of several heads are `batch` products."""
    return _cases("transformer-gemm", None)


def _cases(name: str, parts: Sequence[str] | None) -> tuple[GemmCase, ...]:
    rows = [
        p for p in read_suite(name) if isinstance(p, BatchedProduct) and (parts is None or p.part in parts)
    ]
    return tuple(
        GemmCase(position, p.part, p.n, p.m, p.k, p.w_transposed, p.x_transposed, p.batch)
        for position, p in enumerate(rows)
    )


def shapes(case: GemmCase) -> dict[str, tuple[int, ...]]:
    """Return the stored shapes of A, B and C, row-major."""
    side = (case.batch,) if case.batch > 1 else ()
    return {
        "A": (*side, *((case.k, case.n) if case.b_transposed else (case.n, case.k))),
        "B": (*side, *((case.m, case.k) if case.a_transposed else (case.k, case.m))),
        "C": (*side, case.n, case.m),
    }


def kernel_text(case: GemmCase, form: Types, beta: int) -> str:
    """Return the product in the kernel language. With `beta` 0 C is only written, with 1 it is added to."""
    a, at = ("K, M", "k, m") if case.b_transposed else ("M, K", "m, k")
    b, bt = ("N, K", "n, k") if case.a_transposed else ("K, N", "k, n")
    size, side, loop = ("G, ", "g, ", "g in G, ") if case.batch > 1 else ("", "", "")
    # Sums that leave as bytes have an array of their own.
    sums = "S" if form.requantises else "C"
    temp = f"  temp S: {form.sum}[{size}M, N];\n" if form.requantises else ""
    end = requantising(form, f"C[{side}m, n]", f"S[{side}m, n]", case.k) if form.requantises else ""
    role = "inout" if beta else "out"
    accumulate = f" accumulate {form.sum}" if form.is_float and form.c != form.sum else ""
    made, to = f"{loop}m in M, n in N", f"{side}m, n"
    start = "" if beta else f"  for {made} {{ {sums}[{to}] = 0; }}\n"
    left, right = form.widened("A", f"A[{side}{at}]"), form.widened("B", f"B[{side}{bt}]")
    return (
        f"kernel deepbench_gemm({size}M, N, K) {{\n"
        f"  in A: {form.a}[{size}{a}];\n  in B: {form.b}[{size}{b}];\n"
        f"  {role} C: {form.c}[{size}M, N]{accumulate};\n{temp}"
        f"{start}  for {made}, k in K {{ {sums}[{to}] += {left} * {right}; }}\n"
        + (f"  for {made} {{ {end} }}\n}}\n" if end else "}\n")
    )


def product_source(case: GemmCase, form: Types, beta: int) -> Source:
    """Return the text of a row's kernel."""
    return Source("deepbench_gemm.ir", kernel_text(case, form, beta))


def product_values(case: GemmCase, form: Types, seed: int = 0) -> dict[str, tuple[str, Array]]:
    """Return the operands of a product by name, each with its type and random nonzero values."""
    dtypes = {"A": form.a, "B": form.b, "C": form.c}
    return {
        name: (dtype, random_values(shapes(case)[name], dtype, (seed, number)))
        for number, (name, dtype) in enumerate(dtypes.items())
    }


def product_work(case: GemmCase, form: Types, beta: int) -> DataMovement:
    """Return the data movement: each operand once, and the result twice if it is added to."""
    size = {name: prod(shape) * form.element_bytes(name) for name, shape in shapes(case).items()}
    held = sum(size.values())
    return DataMovement(held, size["B"], held + (size["C"] if beta else 0), held)


def is_product(contender: TimedContender, case: GemmCase, form: Types, beta: int, shared: Shared) -> bool:
    """Return whether the result of one call, on the first copy, is the product."""
    shared.refill()
    contender.time(1)
    a, b, c = (shared.arrays[name][0] for name in "ABC")
    a, b = (a.swapaxes(-1, -2) if case.b_transposed else a), (b.swapaxes(-1, -2) if case.a_transposed else b)
    before = shared.first if beta else None
    if case.batch == 1:
        return check_product(form, a, b, before, c).ok
    each = ((a[g], b[g], None if before is None else before[g], c[g]) for g in range(case.batch))
    return all(check_product(form, *one).ok for one in each)
