"""The schedule that benchmarks/peers.py gives to Exo: f32 products on AVX-512, whole blocks only."""

from __future__ import annotations

from exo import DRAM, proc
from exo.platforms.x86 import AVX512, mm512_fmadd_ps, mm512_loadu_ps, mm512_set1_ps, mm512_storeu_ps
from exo.stdlib.scheduling import (
    bind_expr,
    divide_dim,
    divide_loop,
    expand_dim,
    fission,
    lift_alloc,
    reorder_loops,
    replace_all,
    set_memory,
    set_precision,
    simplify,
    stage_mem,
)


def gemm(m: int, n: int, k: int, mr: int, nr: int):
    """C[m, n] += A[m, k]·B[k, n] in blocks of mr x nr, which divide it; panels of B are packed."""
    M, N, K = m, n, k  # Exo reads them out of this scope

    @proc
    def gemm(A: f32[M, K] @ DRAM, B: f32[K, N] @ DRAM, C: f32[M, N] @ DRAM):  # noqa: F821
        for i in seq(0, M):  # noqa: F821
            for j in seq(0, N):  # noqa: F821
                for k in seq(0, K):  # noqa: F821
                    C[i, j] += A[i, k] * B[k, j]

    p = divide_loop(gemm, "i", mr, ["io", "ii"], perfect=True)
    p = divide_loop(p, "j", nr, ["jo", "ji"], perfect=True)
    for pair in ("ii jo", "ji k", "ii k", "io jo"):
        p = reorder_loops(p, pair)
    p = divide_loop(p, "ji", 16, ["jv", "jl"], perfect=True)
    p = stage_mem(p, "for k in _:_", f"C[{mr}*io:{mr}*io+{mr}, {nr}*jo:{nr}*jo+{nr}]", "C_reg")
    p = set_memory(divide_dim(p, "C_reg", 1, 16), "C_reg", AVX512)
    for _ in ("load", "store"):
        p = divide_loop(p, "i1", 16, ["iv", "il"], perfect=True)
    p = simplify(stage_mem(simplify(p), "for io in _:_", f"B[0:{K}, {nr}*jo:{nr}*jo+{nr}]", "B_panel"))
    for read, name in (("A[_]", "a_vec"), ("B_panel[_]", "b_vec")):
        p = bind_expr(p, p.find(read, many=True), name)
        p = set_precision(
            set_memory(lift_alloc(expand_dim(p, name, 16, "jl"), name, 3), name, AVX512), name, "f32"
        )
    for name in ("a_vec", "b_vec"):
        p = fission(p, p.find(f"{name}[_] = _").after())
    return replace_all(p, [mm512_set1_ps, mm512_loadu_ps, mm512_fmadd_ps, mm512_storeu_ps])
