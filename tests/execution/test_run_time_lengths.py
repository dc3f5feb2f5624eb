"""Machines whose instructions all take their length at run time, as vectors of RISC-V do: full ones compute,
and where less is left their lanes are padded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.request import Request, Size
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.kernels import kernel_path
from isamap.run.fills import FILLS
from isamap.source import Source

MACHINE = """\
isamap: 1
name: lengths
summary: vectors of 256 bits whose length every instruction takes
sources: {rvv: "The RISC-V Vector Extension 1.0, chapters 7, 11 and 13", guess: "assumed"}
target: {run: model, toolchains: [gcc, clang, zig], flags: [-O2], headers: [stdint.h]}
clock_ghz: 1
language: |
  memory dram: addressable();
  memory v: registers(count = 32, bytes = 32, named = compiler);
memories: {dram: {source: rvv}, v: {source: rvv}}
units: {mem: {count: 1, source: guess}, alu: {count: 1, source: guess}}
instructions:
  - for: [{T: i32, N: 8}, {T: f32, N: 8}, {T: i8, N: 32}]
    semantics: |
      instruction vle_$T(scalar VL: 0..$N) {
        in a: $T[VL] @ dram strides(1);
        out z: $T[$N] @ v outside zero;
        for i in VL { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: mem, interval_cycles: 1, latency_cycles: 4}
    source: rvv
  - for: [{T: i8, N: 32}, {T: f32, N: 8}]
    semantics: |
      instruction vlse_$T(scalar VL: 0..$N) {
        in a: $T[VL] @ dram strides(any);
        out z: $T[$N] @ v outside zero;
        for i in VL { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: mem, interval_cycles: 8, latency_cycles: 12}
    source: rvv
  - for: [{T: i32, N: 8}, {T: f32, N: 8}, {T: i8, N: 32}]
    semantics: |
      instruction vse_$T(scalar VL: 0..$N) {
        in a: $T[$N] @ v;
        out z: $T[VL] @ dram strides(1);
        for i in VL { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: mem, interval_cycles: 1, latency_cycles: 1}
    source: rvv
  - semantics: |
      instruction vfmacc_vf(scalar VL: 0..8) {
        inout c: f32[8] @ v;
        in a: f32[8] @ v;
        in b: f32[1] @ dram;
        for i in VL { c[i] += a[i] * b[0]; }
      }
    emit: semantics
    cost: {unit: alu, interval_cycles: 1, latency_cycles: 4}
    source: rvv
  - semantics: |
      instruction vfmax_0(scalar VL: 0..8) {
        in a: f32[8] @ v;
        out z: f32[8] @ v outside keep;
        for i in VL { z[i] = max(a[i], 0); }
      }
    emit: semantics
    cost: {unit: alu, interval_cycles: 1, latency_cycles: 4}
    source: rvv
  - semantics: |
      instruction vqdot(scalar VL: 0..8) {
        inout c: i32[8] @ v;
        in a: i8[32] @ v;
        in b: i8[4] @ dram;
        for i in VL, p in 4 { c[i] += i32(a[4*i + p]) * i32(b[p]); }
      }
    emit: semantics
    cost: {unit: alu, interval_cycles: 1, latency_cycles: 4}
    source: guess
"""


def performed(kernel: str, sizes: dict[str, Size], folder: Path) -> dict[str, str]:
    """Verdicts by fill, and the mapping of each statement."""
    path = kernel_path(kernel)
    machine = folder / "lengths.yaml"
    machine.write_text(MACHINE, encoding="utf-8")
    prepared = prepare(Request(Source(path.name, path.read_text(encoding="utf-8")), str(machine), sizes))
    verdicts = {fill: verify_case(prepared, {k: int(v) for k, v in sizes.items()}, fill) for fill in FILLS}
    assert all(v.ok for v in verdicts.values()), [p.render() for v in verdicts.values() for p in v.problems]
    schedule = prepared.program.compilation.schedule
    assert schedule is not None
    return {str(nest.statement): nest.mapping.split()[0] for nest in schedule.nests}


@pytest.mark.parametrize(
    ("kernel", "sizes", "mappings"),
    [
        ("gemm_f32", {"M": 9, "N": 13, "K": 7}, ["vfmacc_vf"]),
        ("gemm_f32", {"M": 3, "N": 16, "K": 1}, ["vfmacc_vf"]),
        ("gemm_bias_relu_f32", {"M": 5, "N": 13, "K": 7}, ["vfmacc_vf"]),  # bias and max are taken along
        ("conv1d", {"N": 2, "C": 3, "K": 5, "W": 17, "R": 3}, ["vfmacc_vf"]),
    ],
)
def test_a_sum_of_run_time_length_is_performed_at_full_length(
    kernel: str, sizes: dict[str, Size], mappings: list[str], tmp_path: Path
) -> None:
    assert list(performed(kernel, sizes, tmp_path).values()) == mappings


@pytest.mark.parametrize("kernel", ["gemm_s8s8", "gemm_nt_s8s8", "gemm_tn_s8s8"])
def test_elements_are_packed_lane_by_lane_where_there_are_no_scalars(kernel: str, tmp_path: Path) -> None:
    assert performed(kernel, {"M": 9, "N": 13, "K": 7}, tmp_path) == {"0": "vqdot"}


ZERO = """\
kernel zero(N, M) {
  out Z: f32[N, M];
  for n in N, m in M { Z[n, m] = 0; }
}
"""
SCATTERED = """\
isamap schedule 1
kernel zero
machine matmul-16x16x16
sizes M = 3, N = 21

nest 0 {
  map scatter_tile { i: n, j: n } (a = 0);
  choose C = 16, R = 16;
  for m by 1 {
    hold;
    unroll n by 256 {
      issue;
    }
  }
}
"""


def test_an_axis_over_two_of_an_instruction_ends_where_the_tensor_does() -> None:
    request = Request(
        Source("zero.ir", ZERO),
        "matmul-16x16x16",
        {"N": 21, "M": 3},
        schedule=Source("zero.schedule", SCATTERED),
    )
    prepared = prepare(request)
    verdict = verify_case(prepared, {"N": 21, "M": 3}, "integers")
    assert verdict.ok, [p.render() for p in verdict.problems]
