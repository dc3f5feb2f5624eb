"""Accumulators of two axes: sums of one lane after the other are of one axis, and are not looked for."""

from __future__ import annotations

from pathlib import Path

from isamap.cli import main

PAIRS = """isamap: 1
name: pairs
summary: products of even elements in one register of a pair, of odd ones in the other
extends: generic-c
sources: {guess: for tests}
language: |
  memory v: registers(count = 32, bytes = 128, named = compiler);
  view w of v: registers(count = 16, bytes = 256, named = compiler);
memories:
  v: {c_types: {default: int32_t}, source: guess}
  w: {c_types: {default: int32_t}, source: guess}
links:
  - {from: l1, to: v, bandwidth_bytes_per_ns: 100, shared: false, source: guess}
units:
  vec: {count: 2, source: guess}
instructions:
  - for: [{T: i32, N: 32}, {T: i16, N: 64}, {T: i8, N: 128}]
    semantics: |
      instruction load_v_$T() { in a: $T[$N] @ mem; out z: $T[$N] @ v; for i in $N { z[i] = a[i]; } }
    emit: none
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - for: [{T: i32, N: 32}, {T: i16, N: 64}]
    semantics: |
      instruction store_v_$T() { in a: $T[$N] @ v; out z: $T[$N] @ mem; for i in $N { z[i] = a[i]; } }
    emit: none
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - for: [{T: i32, N: 32, M: 64}, {T: i16, N: 64, M: 128}]
    semantics: |
      instruction low_w_$T() { in a: $T[$M] @ w; out z: $T[$N] @ v; for i in $N { z[i] = a[i]; } }
    emit: none
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - for: [{A: i8, C: i16, M: 64, N: 128}, {A: i16, C: i32, M: 32, N: 64}]
    semantics: |
      instruction mac_w_$A() {
        inout c: $C[2, $M] @ w; in a: $A[$N] @ v; in b: $A[$N] @ v;
        for h in 2, i in $M { c[h, i] += $C(a[2*i + h]) * $C(b[2*i + h]); }
      }
    emit: none
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
  - for: [{T: i32, N: 32}, {T: i16, N: 64}]
    semantics: |
      instruction sum_v_$T() { inout c: $T[$N] @ v; in a: $T[$N] @ v; for i in $N { c[i] += a[i]; } }
    emit: none
    cost: {unit: vec, interval_cycles: 1, latency_cycles: 4}
    source: guess
"""


def test_products_into_pairs_of_registers_are_scheduled(tmp_path: Path) -> None:
    path = tmp_path / "pairs.yaml"
    path.write_text(PAIRS, encoding="utf-8")
    sizes = ["-D", "M=5", "N=43", "K=9"]
    assert main(["schedule", "gemm_s8s8", "--hw", str(path), *sizes, "--heuristic", "greedy"]) == 0
