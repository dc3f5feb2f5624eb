"""The rows of DeepBench's GEMM suites.

    training row 3: m=1760 n=128 k=1760, neither transposed  ->  GemmCase(position=3, m=1760, …)

The suite is column-major, C[m, n] += op(A)[m, k] · op(B)[k, n]. Row-major, as it is run here, that is
Y[n, m] += X[n, k] · W[k, m]: M = n, N = m, K = k, the suite's B is our A and its A, the weights, our B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isamap.source import Diagnostic, UsageProblem, is_digits
from isamap.suites import Product, read_suite

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


def pick_rows(cases: Sequence[GemmCase], words: str | None) -> tuple[GemmCase, ...]:
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
