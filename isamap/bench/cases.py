"""The rows of DeepBench's GEMM suites.

    training row 3: m=1760 n=128 k=1760, neither transposed  ->  GemmCase(position=3, m=1760, …)

The suite is column-major, C[m, n] += op(A)[m, k] · op(B)[k, n]. Row-major, as it is run here, that is
Y[n, m] += X[n, k] · W[k, m]: M = n, N = m, K = k, the suite's B is our A and its A, the weights, our B.

What a GEMM row is computed in: element types, storage and whether C is read; as a kernel's text.

kernel_text(BF16, case, beta=1)  ->  kernel deepbench_gemm(M, N, K) { in A: bf16[M, K]; … C[m, n] += …; }

The result of one row, as it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from isamap.ir import DTYPES
from isamap.source import Diagnostic, UsageProblem, is_digits
from isamap.suites import Product, read_suite

C = TypeVar("C")
SUITES = ("training", "inference_server", "inference_device")
CLASSES = ("n <= 4", "8 <= n <= 64", "n around 128", "n >= 700", "m = 35", "k <= 176")


@dataclass(frozen=True, slots=True)
class GemmCase:
    """One row in the suite's own terms; `position` counts from 0 through the suites that were chosen."""

    position: int
    suite: str
    m: int
    n: int
    k: int
    a_transposed: bool
    b_transposed: bool

    @property
    def operations(self) -> int:
        """Multiplications and additions of one call."""
        return 2 * self.m * self.n * self.k

    @property
    def label(self) -> str:
        """The sizes as the suite writes them."""
        marks = ("T" if self.a_transposed else "N") + ("T" if self.b_transposed else "N")
        return f"{self.m}x{self.n}x{self.k} {marks}"

    @property
    def class_name(self) -> str:
        """Which geometric mean the row belongs to; m = 35 and small k, bound by C's traffic, stand apart."""
        if self.m == 35:
            return "m = 35"
        if self.k <= 176:
            return "k <= 176"
        if self.n <= 4:
            return "n <= 4"
        if self.n <= 64:
            return "8 <= n <= 64"
        return "n around 128" if self.n < 700 else "n >= 700"


def gemm_cases(suites: Sequence[str] = SUITES) -> tuple[GemmCase, ...]:
    """The rows of some suites, in the order of the suite's list."""
    products = [p for p in read_suite("deepbench-gemm") if isinstance(p, Product) and p.part in suites]
    return tuple(
        GemmCase(position, p.part, p.n, p.m, p.k, p.w_transposed, p.x_transposed)
        for position, p in enumerate(products)
    )


def pick_rows(cases: Sequence[C], words: str | None) -> tuple[C, ...]:
    """The rows that `0,3,9` or `10..20` or `0..247/5` (every fifth) names. Raises: UsageProblem."""
    if words is None:
        return tuple(cases)
    wanted: dict[int, None] = {}
    for word in words.split(","):
        wanted |= dict.fromkeys(_positions(word.strip(), len(cases)))
    return tuple(cases[position] for position in wanted)


def _positions(word: str, count: int) -> range:
    span, _, step = word.partition("/")
    first, dots, last = span.partition("..")
    numbers = (first, last if dots else first, step or "1")
    if not all(is_digits(number) and len(number) < 19 for number in numbers):
        raise _refused(f"`{word[:40]}` names no rows", count)
    low, high, every = (int(number) for number in numbers)
    if not low <= high < count or every < 1:
        raise _refused(f"there are no rows {word[:40]}", count)
    return range(low, high + 1, every)


def _refused(message: str, count: int) -> UsageProblem:
    return UsageProblem(
        Diagnostic(
            "bench-rows",
            message,
            notes=(f"the chosen suites have rows 0 to {count - 1}",),
            help="write --rows 0,3,9 or --rows 10..20 or --rows 0..100/5",
        )
    )


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


@dataclass(frozen=True, slots=True)
class Row:
    """One case in one form with the times of all contenders.

    Units: `seconds` per call and round, by contender; `compile_seconds` of isamap; `attainable_seconds` the
    roofline; `predicted_ns` by the cost model, for each set of figures; `dispatch_ns` what a framework takes
    to get to its function at all. `left_out` says why there are no times. `again` are the ratios of a second
    run, which rows get that came out slower. `reading_bytes_per_ns` is at what the weights alone were read in
    the same rounds, 0 where that was not measured.
    """

    case: int
    suite: str
    label: str
    class_name: str
    m: int
    n: int
    k: int
    form: str
    beta: int
    threads: int
    cache: str
    operations: int
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    implementation: Mapping[str, str] = field(default_factory=dict[str, str])
    in_c: Mapping[str, bool] = field(default_factory=dict[str, bool])
    verified: Mapping[str, bool] = field(default_factory=dict[str, bool])
    ratio: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    again: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    attainable_seconds: float = 0.0
    predicted_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    compile_seconds: float = 0.0
    ring: int = 1
    dispatch_ns: Mapping[str, float] = field(default_factory=dict[str, float])
    left_out: str = ""
    packed: bool = False
    reading_bytes_per_ns: float = 0.0

    @property
    def key(self) -> str:
        """What names the row in a file that is resumed."""
        how = f"beta={self.beta} threads={self.threads} {self.cache}{' packed' if self.packed else ''}"
        return f"{self.suite} {self.label} {self.form} {how}"

    @property
    def measured_ns(self) -> float | None:
        """The least time of a call of ours over all rounds; None where there is none. Units: nanoseconds."""
        return 1e9 * min(self.seconds["isamap"]) if "isamap" in self.seconds else None

    @property
    def best_baseline(self) -> str | None:
        """The baseline that takes least time, of those that computed the product."""
        from statistics import median

        known = {n: median(s) for n, s in self.seconds.items() if n != "isamap" and self.verified.get(n)}
        return min(known, key=lambda name: known[name]) if known else None

    def as_json(self) -> dict[str, Any]:
        """The row as JSON, with what follows from it."""
        from statistics import median

        middle = {name: median(times) for name, times in self.seconds.items()}
        return {
            **asdict(self),
            "seconds": {n: {"min": min(t), "median": middle[n]} for n, t in self.seconds.items()},
            "rounds_seconds": {n: list(t) for n, t in self.seconds.items()},
            "gflops": {n: self.operations / t / 1e9 for n, t in middle.items()},
            "measured_ns": self.measured_ns,
            "roofline_fraction": self.attainable_seconds / middle["isamap"] if "isamap" in middle else None,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Row:
        """The row that `as_json` gave."""
        derived = ("gflops", "measured_ns", "roofline_fraction", "rounds_seconds")
        kept: dict[str, Any] = {name: value for name, value in data.items() if name not in derived}
        kept["seconds"] = {name: tuple(times) for name, times in data["rounds_seconds"].items()}
        return Row(**kept)
