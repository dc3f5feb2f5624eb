"""What is said where nothing brings an operand to its register, or back: in JSON, and by `--explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isamap.cli import main

TEXT = """\
isamap: 1
name: pairs
summary: an instruction that takes its registers for rows of a matrix
extends: generic-c
sources: {here: "this test"}
target: {run: model}
clock_ghz: 1
language: |
  memory q: registers(count = 32, bytes = 16, named = compiler);
memories:
  q: {source: here}
instructions:
  - for: [{T: i8, N: 16}, {T: i32, N: 4}]
    semantics: |
      instruction fetch_$T() {
        in a: $T[$N] @ mem;
        out z: $T[$N] @ q;
        for i in $N { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: load_port, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction clear() {
        out z: i32[4] @ q;
        for i in 4 { z[i] = 0; }
      }
    emit: semantics
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction put_i32() {
        in a: i32[4] @ q;
        out z: i32[4] @ mem;
        for i in 4 { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: store_port, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction smmla() {
        inout c: i32[2, 2] @ q;
        in a: i8[2, 8] @ q;
        in b: i8[2, 8] @ q;
        for i in 2, j in 2, k in 8 { c[i, j] += i32(a[i, k]) * i32(b[j, k]); }
      }
    emit: semantics
    cost: {unit: scalar, interval_cycles: 1, latency_cycles: 1}
    source: here
"""

LOADS = """\
  - for: [{T: i8, M: 8}, {T: i32, M: 2}]
    semantics: |
      instruction fetch_rows_$T() {
        in a: $T[2, $M] @ mem;
        out z: $T[2, $M] @ q;
        for i in 2, k in $M { z[i, k] = a[i, k]; }
      }
    emit: semantics
    cost: {unit: load_port, interval_cycles: 1, latency_cycles: 1}
    source: here
"""

NEED = "the moved and the computed tile need the same shape"


def asked(folder: Path, text: str, *words: str) -> int:
    (folder / "pairs.yaml").write_text(text, encoding="utf-8")
    sizes = ("-D", "M=64", "N=64", "K=64", "--instruction", "smmla")
    return main(["match", "gemm_nt_s8s8", "--hw", str(folder / "pairs.yaml"), *sizes, *words])


def reasons(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> dict[str, str]:
    assert asked(folder, text, "--json") == 0
    moved = json.loads(capsys.readouterr().out)["mappings"][0]["movement"]
    return {name: m["why"] for name, m in moved.items() if m["kind"] == "none"}


def test_another_shape_is_named_with_the_nearest_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"no move of pairs writes i8[2, 8] to q: the nearest, fetch_i8, has i8[16] there; {NEED}"
    assert reasons(tmp_path, capsys, TEXT) == {
        "a": said,
        "b": said,
        "c": f"no move of pairs writes i32[2, 2] to q: the nearest, fetch_i32, has i32[4] there; {NEED}",
    }


def test_a_result_that_no_store_takes_in_its_shape_is_named_with_the_nearest_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reasons(tmp_path, capsys, TEXT + LOADS) == {
        "c": f"no move of pairs stores i32[2, 2] from q: the nearest, put_i32, has i32[4] there; {NEED}"
    }


def test_explain_says_why_operands_cannot_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, TEXT, "--explain") == 0
    _, _, said = capsys.readouterr().out.partition("cannot move for statement 0:\n")
    unmoved = {
        "smmla  a, b": "no move of pairs writes i8[2, 8] to q: the nearest, fetch_i8, has i8[16] there",
        "smmla  c   ": "no move of pairs writes i32[2, 2] to q: the nearest, fetch_i32, has i32[4] there",
    }
    assert said.splitlines() == [
        *(f"  {operands}  {why}; {NEED}" for operands, why in unmoved.items()),
        "",
        "no refusal: every named instruction has mappings; operands that cannot be moved are listed above",
    ]


def test_what_can_move_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("gemm_f32", "--hw", "generic-c", "--instruction", "mac_f32", "--explain")
    assert main(["match", *words]) == 0
    said = capsys.readouterr().out
    assert "cannot move" not in said
    assert said.endswith("no refusal: every requested instruction performs every statement\n")


BOUNDED = """\
isamap: 1
name: bounded
summary: a load under a bound
extends: model-f32
sources: {here: "this test"}
language: |
  memory v8: registers(count = 8, bytes = 32, named = compiler);
memories:
  v8: {source: here}
links:
  - {from: mem, to: v8, bandwidth_bytes_per_ns: 64, shared: false, source: here}
instructions:
  - semantics: |
      instruction prefix_load(scalar B: 1..8) where B < 8 {
        in a: f32[B] @ mem;
        out z: f32[8] @ v8 outside zero;
        for i in B { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: move, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction prefix_store(scalar B: 1..8) {
        in a: f32[8] @ v8;
        out z: f32[B] @ mem;
        for i in B { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: move, interval_cycles: 1, latency_cycles: 1}
    source: here
  - semantics: |
      instruction double8() {
        in a: f32[8] @ v8;
        out z: f32[8] @ v8;
        for i in 8 { z[i] = a[i] + a[i]; }
      }
    emit: semantics
    cost: {unit: product, interval_cycles: 1, latency_cycles: 1}
    source: here
"""


def test_a_load_whose_precondition_is_not_met_is_named_and_only_its_operand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bounded.yaml").write_text(BOUNDED)
    kernel = tmp_path / "k.ir"
    kernel.write_text("kernel d(N) { in x: f32[N]; out y: f32[N]; for i in N { y[i] = x[i] + x[i]; } }")
    words = ["verify", str(kernel), "--hw", str(tmp_path / "bounded.yaml"), "-D", "N=5"]
    assert main(words) == 3
    said = capsys.readouterr().err
    assert "nothing moves a: prefix_load requires `B < 8`, which f32[8] does not meet" in said
