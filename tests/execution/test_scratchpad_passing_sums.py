"""Sums that leave their scratchpad only as what one instruction makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.source import NoMapping, Source

MACHINE = """isamap: 1
name: passing
summary: an array of 8 x 8 x 8, whose sums leave only as bytes
sources: {own: invented}
target: {toolchains: [gcc, clang, zig], flags: [-O2], headers: [stdint.h, math.h], run: model}
clock_ghz: 1.0
language: |
  memory dram: addressable();
  memory inp: scratchpad(bytes = 4096);
  memory wgt: scratchpad(bytes = 4096);
  memory acc: scratchpad(bytes = 4096);
  memory ofm: scratchpad(bytes = 4096);
memories: {dram: {source: own}, inp: {source: own}, wgt: {source: own}, acc: {source: own}, ofm: {source: own}}
units:
  load: {count: 1, queued: 8, source: own}
  store: {count: 1, queued: 8, source: own}
  array: {count: 1, queued: 8, source: own}
  scale: {count: 1, queued: 8, source: own}
model: {leak_factor: 0, stream_leak_factor: 0, source: own}
instructions:
  - for: [{P: a, T: i8, M: inp}, {P: b, T: i8, M: wgt}, {P: c, T: i32, M: acc}]
    semantics: |
      instruction load_$P(scalar R: 0..8, scalar C: 0..8) {
        in x: $T[R, C] @ dram strides(any, 1);
        out z: $T[R, C] @ $M strides(8, 1);
        for r in R, c in C { z[r, c] = x[r, c]; }
      }
    emit: semantics
    cost: {unit: load, interval_cycles: 8, latency_cycles: 16}
    source: own
  - for: [{P: a, T: i8, M: inp}, {P: b, T: i8, M: wgt}, {P: c, T: i32, M: acc}]
    semantics: |
      instruction zero_$P(scalar L: 0..64) {
        out z: $T[L] @ $M;
        for i in L { z[i] = 0; }
      }
    emit: semantics
    cost: {unit: array, interval_cycles: 8, latency_cycles: 8}
    source: own
  - semantics: |
      instruction multiply() {
        in a: i8[8, 8] @ inp;
        in b: i8[8, 8] @ wgt;
        inout c: i32[8, 8] @ acc;
        for m in 8, n in 8, k in 8 { c[m, n] += i32(a[m, k]) * i32(b[k, n]); }
      }
    emit: semantics
    cost: {unit: array, interval_cycles: 8, latency_cycles: 16}
    source: own
  - semantics: |
      instruction scale_out(scalar R: 0..8, scalar scale: f32) {
        in x: i32[R, 8] @ acc;
        out y: i8[R, 8] @ ofm;
        for r in R, n in 8 { y[r, n] = sat_i8(round(f32(x[r, n]) * scale, even)); }
      }
    emit: semantics
    cost: {unit: scale, interval_cycles: 8, latency_cycles: 16}
    source: own
  - semantics: |
      instruction store_bytes(scalar R: 0..8, scalar C: 0..8) {
        in x: i8[R, C] @ ofm strides(8, 1);
        out z: i8[R, C] @ dram strides(any, 1);
        for r in R, c in C { z[r, c] = x[r, c]; }
      }
    emit: semantics
    cost: {unit: store, interval_cycles: 8, latency_cycles: 16}
    source: own
"""
KERNEL = """kernel k(M, N, K, scalar scale: f32) {
  in A: i8[M, K];
  in B: i8[K, N];
  out Y: i8[M, N];
  temp s: i32[M, N];
  for m in M, n in N { s[m, n] = 0; }
  for m in M, n in N, k in K { s[m, n] += i32(A[m, k]) * i32(B[k, n]); }
  for m in M, n in N { Y[m, n] = sat_i8(round(f32(SUM) * scale, even)); }
}
"""


def compiled(machine: Path, value: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return the instruction of each nest, and the statements that it fuses."""
    machine.write_text(MACHINE)
    request = Request(
        Source("k.ir", KERNEL.replace("SUM", value)),
        str(machine),
        dict.fromkeys("MNK", 16),
        heuristic="greedy",
    )
    schedule = compile_kernel(request, "schedule").schedule
    assert schedule is not None
    return [(nest.mapping.split()[0], nest.fused) for nest in schedule.nests]


def test_sums_that_leave_only_as_bytes_take_their_zeros_and_bytes_along(tmp_path: Path) -> None:
    assert compiled(tmp_path / "passing.yaml", "s[m, n]") == [("multiply", (0, 2))]


def test_sums_are_refused_where_nothing_computes_what_leaves_of_them(tmp_path: Path) -> None:
    with pytest.raises(NoMapping) as refused:
        compiled(tmp_path / "passing.yaml", "max(s[m, n], 0)")
    assert refused.value.diagnostics[0].code == "no-mapping"
