"""A lowered program built by hand, small enough to read: C += A·B, one element at a time."""

from __future__ import annotations

from isamap.ir import F32, DType, Index
from isamap.lower.program import (
    Buffer,
    Condition,
    Declare,
    For,
    Issue,
    LoweredProgram,
    MemoryRef,
    Node,
    RegisterRef,
    Tensor,
    Value,
)
from isamap.source import Source
from isamap.syntax import parse_kernel

GEMM = """kernel gemm(M: 1..64, N: 1..64, K) {
  in A: f32[M, K];
  in B: f32[K, N];
  inout C: f32[M, N];
  for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
}
"""


def index(value: str | int) -> Index:
    return Index.of(value)


def at(tensor: str, row: Index, column: Index) -> MemoryRef:
    return MemoryRef(tensor, row * index(f"{tensor}.s0") + column)


def tensor(name: str, role: str, rows: Index, columns: Index, dtype: DType = F32) -> Tensor:
    assert role in ("in", "inout", "out")
    return Tensor(name, role, dtype, (rows, columns), (index(f"{name}.s0"), index(1)))


def multiply(row: Index, column: Index, inner: Index) -> tuple[Node, ...]:
    """C[row, column] += A[row, inner] * B[inner, column], with the scalar instructions of any machine."""
    c = at("C", row, column)
    return (
        Declare(tuple(Value(name, "reg", F32, ()) for name in ("va", "vb", "vc"))),
        Issue("load_f32", (("a", at("A", row, inner)), ("z", RegisterRef("va")))),
        Issue("load_f32", (("a", at("B", inner, column)), ("z", RegisterRef("vb")))),
        Issue("load_f32", (("a", c), ("z", RegisterRef("vc")))),
        Issue("mac_f32", tuple((o, RegisterRef(f"v{o}")) for o in "cab")),
        Issue("store_f32", (("a", RegisterRef("vc")), ("z", c))),
    )


def gemm(
    rows: Index | None = None,
    buffers: tuple[Buffer, ...] = (),
    checks: tuple[Condition, ...] = (),
    before: tuple[Node, ...] = (),
) -> LoweredProgram:
    """Return the program for K = 5; `rows` is how many rows are computed, all when it is not said."""
    m, n, k = index("M"), index("N"), index(5)
    inner = For("k", k, multiply(index("m"), index("n"), index("k")))
    body = (*before, For("m", rows if rows is not None else m, (For("n", n, (inner,)),), "rows of C"))
    return LoweredProgram(
        "gemm", parse_kernel(Source("gemm.ir", GEMM)), "generic-c", (("K", 5),), (("M", 1, 64), ("N", 1, 64)),
        (tensor("A", "in", m, k), tensor("B", "in", k, n), tensor("C", "inout", m, n)), buffers, body, checks,
    )  # fmt: skip
