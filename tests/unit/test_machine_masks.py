"""Instructions under predicates are issued with all lanes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from isamap import compile as compile_kernel
from isamap import verify
from isamap.ir import print_routine
from isamap.machine import Machine, load_machine

TEXT = """\
isamap: 1
name: masked
summary: arithmetic under predicates alone
extends: aarch64-sve2
remove: [fma_v_f32, sum_v_f32]
language: |
  memory p: registers(count = 16, bytes = 2*Q, named = compiler);
memories: {p: {source: acle, c_types: {bool: svbool_t}}}
instructions:
  - semantics: |
      instruction whilelt(scalar L: 0..2147483647) {
        out d: bool[4*Q] @ p placed [i] at bit: 4*i;
        for i in 4*Q { d[i] = i < L; }
      }
    emit: d = svwhilelt_b32_s64(0, L)
    cost: {unit: w, interval_cycles: 1, latency_cycles: 3}
    source: acle
  - semantics: |
      instruction fmla() {
        in m: bool[4*Q] @ p placed [j] at bit: 4*j;
        inout c: f32[4*Q] @ v;
        in a: f32[4*Q] @ v;
        in b: f32[4*Q] @ v;
        numerics unrounded;
        for i in 4*Q { c[i] += a[i] * b[i] if m[i]; }
      }
    emit: c = svmla_f32_m(m, c, a, b)
    cost: {unit: w, interval_cycles: 1, latency_cycles: 4}
    source: v1
  - semantics: |
      instruction move() {
        in m: bool[4*Q] @ p placed [j] at bit: 4*j;
        in n: bool[4*Q] @ p placed [j] at bit: 4*j;
        in a: f32[4*Q] @ v;
        inout z: f32[4*Q] @ v;
        for i in 4*Q { z[i] = a[i] if m[i] & n[i]; }
      }
    emit: z = svsel_f32(svand_b_z(m, m, n), a, z)
    cost: {unit: w, interval_cycles: 1, latency_cycles: 4}
    source: v1
"""


def machine(folder: Path, *changes: tuple[str, str]) -> Machine:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "masked.yaml"
    path.write_text(text, encoding="utf-8")
    return load_machine(f"{path}@Q=2")


def test_the_predicate_is_set_in_the_call(tmp_path: Path) -> None:
    entry = machine(tmp_path).instructions["fmla_whole"]
    assert print_routine(entry.instruction) == (
        "instruction fmla_whole() {\n"
        "  inout c: f32[8] @ v;\n"
        "  in a: f32[8] @ v;\n"
        "  in b: f32[8] @ v;\n"
        "  numerics unrounded;\n"
        "  for i in 8 { c[i] += a[i] * b[i]; }\n"
        "}\n"
    )
    assert str(entry.emit) == "c = svmla_f32_m(svwhilelt_b32_s64(0, 8), c, a, b)"


def test_what_merges_overwrites_once_all_lanes_are_on(tmp_path: Path) -> None:
    entry = machine(tmp_path).instructions["move_whole"]
    assert [(o.name, o.role) for o in entry.instruction.operands] == [("a", "in"), ("z", "out")]
    lanes = "svwhilelt_b32_s64(0, 8)"
    assert str(entry.emit) == f"z = svsel_f32(svand_b_z({lanes}, {lanes}, {lanes}), a, z)"


def test_an_instruction_may_set_all_lanes_without_being_told_how_many(tmp_path: Path) -> None:
    changes = (
        ("scalar L: 0..2147483647", ""),
        ("i < L", "true"),
        ("svwhilelt_b32_s64(0, L)", "svptrue_b32()"),
    )
    emit = machine(tmp_path, *changes).instructions["fmla_whole"].emit
    assert str(emit) == "c = svmla_f32_m(svptrue_b32(), c, a, b)"


@pytest.mark.parametrize(
    "change",
    [
        ("d[i] = i < L", "d[i] = L < i"),  # other lanes
        ("[i] at bit: 4*i", "[i] at bit: 2*i"),  # a predicate of other elements
        ("if m[i];", "if a[i] < 1;"),  # no predicate
    ],
)
def test_other_instructions_stay_as_they_are(tmp_path: Path, change: tuple[str, str]) -> None:
    assert "fmla_whole" not in machine(tmp_path, change).instructions


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="needs qemu-aarch64 (Debian's qemu-user)")
def test_a_product_under_predicates_is_right(tmp_path: Path) -> None:
    machine(tmp_path)
    sizes, path = {"M": 3, "N": 19, "K": 5}, tmp_path / "masked.yaml"
    files = compile_kernel("gemm_f32", path, sizes, heuristic="greedy").files
    assert "fmla_whole" in files["gemm_f32.schedule"]
    cases = verify("gemm_f32", path, sizes, schedule=files["gemm_f32.schedule"])
    assert [p.message for case in cases for p in case.problems] == []
