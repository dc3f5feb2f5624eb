"""Products with a sparse matrix as cases: the rows of DeepBench's suite for servers.

    row 3: m=7680 n=1500 k=2560, 95 % zeros  ->  SparseCase(position=3, m=7680, …, nonzeros=983040)

C[m, n] += A[m, k] · B[k, n] with A sparse, and all row-major. A is stored in compressed rows; for few columns
of B, in slices of interleaved rows with 16-bit column indices. Libraries get compressed rows, which they may
convert before the timing. The positions of its elements are random, and equal for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from isamap.bench.cases import F32, SUITES, Types
from isamap.bench.kind import DataMovement
from isamap.bench.paired_timing import TimedContender
from isamap.bench.ring import Array, Shared, random_values
from isamap.driver.inputs import named_kernel
from isamap.source import Source, dataclass
from isamap.suites import Sparse, read_suite

FORMS_OF_DTYPE: dict[str, tuple[Types, ...]] = {"f32": (F32,)}
FEW = 4
"""The most columns of B for which rows of A are interleaved."""
INTERLEAVED = {1: 12}
"""Rows of a slice by columns of B, else FEW: they are lanes where B has one column."""
LARGEST_SHORT = 1 << 16
SAMPLED = 16
"""Rows of the result that are looked at element by element."""
STEPS = 16 * 2.0**-23
"""The allowed error of a sum in f32, relative to the sum of absolute products."""


@dataclass(frozen=True, slots=True)
class SparseCase:
    """One row of the suite. A has `nonzeros` nonzero elements."""

    position: int
    suite: str
    m: int
    n: int
    k: int
    nonzeros: int

    @property
    def operations(self) -> int:
        """Multiplications and additions of one call."""
        return 2 * self.nonzeros * self.n

    @property
    def label(self) -> str:
        """The sizes as the suite writes them, and how many of A's elements are zeros."""
        return f"{self.m}x{self.n}x{self.k}, {1 - self.nonzeros / (self.m * self.k):.0%} zeros"

    @property
    def class_name(self) -> str:
        """The bottleneck of the row: reading A, or reading rows of B."""
        return f"n <= {FEW}" if self.n <= FEW else "n >= 1500"

    @property
    def sizes(self) -> Mapping[str, int]:
        return {name: getattr(self, name) for name in ("m", "n", "k", "nonzeros")}

    @property
    def bindings(self) -> Mapping[str, int]:
        sizes = {"M": self.m, "N": self.n, "K": self.k}
        if self.n > FEW:
            return {**sizes, "NNZ": self.nonzeros}
        return {**sizes, "P": len(slices(self)["val"]), "R": self.interleaved}

    @property
    def interleaved(self) -> int:
        """The number of rows in a slice."""
        return INTERLEAVED.get(self.n, FEW)


def sparse_cases(suites: Sequence[str] = SUITES) -> tuple[SparseCase, ...]:
    """Return the rows of some of DeepBench's suites."""
    rows = [s for s in read_suite("deepbench-sparse") if isinstance(s, Sparse) and s.part in suites]
    return tuple(SparseCase(n, s.part, s.m, s.n, s.k, s.nonzeros) for n, s in enumerate(rows))


@lru_cache(maxsize=1)
def compress_rows(case: SparseCase) -> dict[str, Array]:
    """Return A in compressed rows: `row` i32[m + 1], `col` i32[nonzeros], `val` f32[nonzeros]."""
    rng = np.random.default_rng(case.position)
    places = np.sort(rng.choice(case.m * case.k, case.nonzeros, replace=False, shuffle=False))
    counts = np.bincount(places // case.k, minlength=case.m)
    return {
        "row": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "col": (places % case.k).astype(np.int32),
        "val": random_values((case.nonzeros,), "f32", (case.position, 0)),
    }


@lru_cache(maxsize=1)
def slices(case: SparseCase) -> dict[str, Array]:
    """Return A in slices of R rows: `slice` i32[m / R + 1], `col` [P·R] (16 bits if possible), `val` f32[P, R]."""
    given, rows = compress_rows(case), case.interleaved
    starts = given["row"].astype(np.int64)
    lengths: Array = np.diff(starts)
    ends = np.cumsum(lengths.reshape(-1, rows).max(axis=1))
    begun: Array = np.concatenate([[0], ends]).astype(np.int32)
    short = np.uint16 if case.k <= LARGEST_SHORT else np.int32
    columns, values = np.zeros((int(ends[-1]), rows), short), np.zeros((int(ends[-1]), rows), np.float32)
    of_row: Array = np.repeat(np.arange(case.m), lengths)
    at: Array = begun[of_row // rows] + np.arange(case.nonzeros) - starts[of_row]
    columns[at, of_row % rows], values[at, of_row % rows] = given["col"], given["val"]
    return {"slice": begun, "col": columns.reshape(-1), "val": values}


def sparse_source(case: SparseCase, form: Types, beta: int) -> Source:
    """Return the text of a row's kernel."""
    if case.n > FEW:
        return named_kernel("csr_f32")
    source = named_kernel("sell_f32")
    short = "u16" if case.k <= LARGEST_SHORT else "i32"
    return Source(source.name, source.text.replace("in col: i32", f"in col: {short}"))


def sparse_values(case: SparseCase, form: Types) -> dict[str, tuple[str, Array]]:
    """Return the operands by name, each with its type. A has the format that isamap reads."""
    given = compress_rows(case) if case.n > FEW else slices(case)
    return {
        **{name: (_TYPES[str(array.dtype)], array) for name, array in given.items()},
        "B": ("f32", random_values((case.k, case.n), "f32", (case.position, 1))),
        "C": ("f32", random_values((case.m, case.n), "f32", (case.position, 2))),
    }


_TYPES = {"int32": "i32", "uint16": "u16", "float32": "f32"}


def sparse_work(case: SparseCase, form: Types, beta: int) -> DataMovement:
    """Return the data movement: each operand once, with A in compressed rows, and the result twice."""
    a, c = 8 * case.nonzeros + 4 * (case.m + 1), 4 * case.m * case.n
    held = a + 4 * case.k * case.n + c
    return DataMovement(held, a, held + c, held, case.operations)


def is_sparse_product(
    contender: TimedContender, case: SparseCase, form: Types, beta: int, shared: Shared
) -> bool:
    """Return whether the result of one call is right: some rows by element, and all rows by a random sum."""
    shared.refill()
    contender.time(1)
    b, c = (shared.arrays[name][0] for name in "BC")
    rng = np.random.default_rng(case.position)
    signs = rng.choice(np.array([-1.0, 1.0]), size=case.n)
    # Rows without elements have no sum: `add.reduceat` would give them another's.
    a = compress_rows(case)
    of_row = np.repeat(np.arange(case.m), np.diff(a["row"]))
    parts = a["val"] * (b @ signs)[a["col"]]
    expected = shared.first @ signs + np.bincount(of_row, parts, case.m)
    norms = np.abs(a["val"]) * np.sqrt(np.sum(b.astype(np.float64) ** 2, axis=1))[a["col"]]
    scale = np.bincount(of_row, norms, case.m) + np.sqrt(np.sum(shared.first.astype(np.float64) ** 2, axis=1))
    if np.any(np.abs(c @ signs - expected) > 4 * STEPS * scale + 1e-30):
        return False
    return all(_is_row(a, b, c, shared.first, m) for m in rng.permutation(case.m)[:SAMPLED])


def _is_row(a: Mapping[str, Array], b: Array, c: Array, before: Array, m: int) -> bool:
    """Return whether a row of the result is right, element by element."""
    at = slice(int(a["row"][m]), int(a["row"][m + 1]))
    left, right = a["val"][at].astype(np.float64), b[a["col"][at]].astype(np.float64)
    bound = np.abs(left) @ np.abs(right) + np.abs(before[m])
    return bool(np.all(np.abs(c[m] - (before[m] + left @ right)) <= STEPS * bound + 1e-30))
