"""Functions that take the address of a register's variable, alone and among several calls."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from isamap.driver.matrix import CellRequest, verify_cell
from isamap.driver.request import Request
from isamap.machine import load_machine
from isamap.run.conformance import check_machine
from isamap.source import Source

MACHINE = """isamap: 1
name: by-address
summary: vectors whose functions write through pointers
extends: generic-c
target: {toolchains: [gcc, clang, zig], headers: [immintrin.h], features: [sse2], run: native}
sources: {guess: for tests}
language: |
  memory xmm: registers(count = 16, bytes = 16, named = compiler);
memories:
  xmm: {c_types: {f32: __m128}, source: guess}
links:
  - {from: l1, to: xmm, bandwidth_bytes_per_ns: 100, shared: false, source: guess}
units:
  vec: {count: 2, source: guess}
instructions:
  - semantics: |
      instruction load_x() { in a: f32[4] @ mem; out z: f32[4] @ xmm; for i in 4 { z[i] = a[i]; } }
    emit: _mm_storeu_ps((float *) z.ref, _mm_loadu_ps(a.addr))
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - semantics: |
      instruction store_x() { in a: f32[4] @ xmm; out z: f32[4] @ mem; for i in 4 { z[i] = a[i]; } }
    emit: |
      __m128 r[0] = _mm_loadu_ps((float const *) a.ref);
      _mm_storeu_ps(z[0].addr, r[0]);
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - semantics: |
      instruction exchange() {
        in a: f32[4] @ xmm; out z: f32[4] @ xmm; for h in 2, i in 2 { z[2*h + i] = a[2 - 2*h + i]; }
      }
    emit: |
      __m128 r[0] = _mm_movehl_ps(a, a);
      _mm_storeu_ps((float *) z.ref, _mm_movelh_ps(r[0], a));
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - semantics: |
      instruction add_x() {
        inout c: f32[4] @ xmm; in a: f32[4] @ xmm; for i in 4 { c[i] += a[i]; }
      }
    emit: |
      __m128 r[0] = _mm_add_ps(c, a);
      _mm_storeu_ps((float *) c.ref, r[0]);
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the functions are x86-64's")
def test_functions_write_registers_through_their_addresses(tmp_path: Path) -> None:
    path = tmp_path / "by-address.yaml"
    path.write_text(MACHINE, encoding="utf-8")
    names = ["load_x", "store_x", "exchange", "add_x"]
    checks = check_machine(load_machine(str(path)), names)
    assert {c.instruction: c.verdict for c in checks} == dict.fromkeys(names, "ok")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the functions are x86-64's")
def test_a_kernel_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "by-address.yaml"
    path.write_text(MACHINE, encoding="utf-8")
    kernel = "kernel sums(M, N) { in A: f32[M, N]; inout C: f32[N]; for m in M, n in N { C[n] += A[m, n]; } }"
    request = Request(Source("sums.ir", kernel), str(path), {"M": 5, "N": 8}, heuristic="greedy")
    cell = verify_cell(CellRequest("key", "sums", str(path), (request,), ("integers", "random")))
    assert (cell.verdict, cell.instructions, cell.ran_on) == ("verified", ("add_x",), ("native",))


def test_what_is_written_by_its_address_is_not_forgotten(tmp_path: Path) -> None:
    """An address that is only passed is enough for a result, whose value no call returns."""
    path = tmp_path / "by-address.yaml"
    path.write_text(MACHINE, encoding="utf-8")
    emissions = {name: str(i.emit) for name, i in load_machine(str(path)).instructions.items()}
    assert emissions["load_x"] == "_mm_storeu_ps((float *) z.ref, _mm_loadu_ps(a.addr))"
