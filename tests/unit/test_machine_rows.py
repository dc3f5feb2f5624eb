"""Moves of a whole tile, made of the move of one of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap import verify
from isamap.ir import print_routine
from isamap.machine import EmitArg, EmitSteps, Machine, cost_value, load_machine
from isamap.machine.lint import find_warnings

TEXT = """\
isamap: 1
name: rows
summary: a tile that is filled row by row
extends: generic-c
sources: {x: "x"}
target: {run: model, headers: [immintrin.h]}
language: |
  memory v: registers(count = 8, bytes = 16, named = compiler);
  memory acc: registers(count = 8, rows = 4, row_bytes = 16, named = immediate);
memories: {v: {c_types: {f32: __m128}}}
units: {u: {count: 1, source: x}}
instructions:
  - semantics: |
      instruction ger() {
        inout c: f32[4, 4] @ acc;
        in a: f32[4] @ v;
        in b: f32[4] @ v;
        for i in 4, j in 4 { c[i, j] += a[i] * b[j]; }
      }
    emit: semantics
    cost: {unit: u, interval_ns: 1, latency_ns: 4}
    source: x
  - semantics: |
      instruction load() {
        in a: f32[4] @ mem;
        out z: f32[4] @ v;
        for i in 4 { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: u, interval_ns: 1, latency_ns: 4}
    source: x
  - semantics: |
      instruction load_row(imm S: 0..3) {
        in a: f32[4] @ mem;
        inout z: f32[4, 4] @ acc;
        for j in 4 { z[S, j] = a[j]; }
      }
    emit: _tile_loadd(z.index, a.addr, 2*S + 1)
    cost: {unit: u, interval_ns: 1 + S, latency_ns: 6}
    source: x
  - semantics: |
      instruction store_column(imm S: 0..3) {
        in a: f32[4, 4] @ acc;
        out z: f32[4] @ mem;
        for j in 4 { z[j] = a[j, S]; }
      }
    emit: semantics
    cost: {unit: u, interval_ns: 2, latency_ns: 3}
    source: x
  - semantics: |
      instruction store_row(imm S: 0..3) {
        in a: f32[4, 4] @ acc;
        out z: f32[4] @ mem;
        for j in 4 { z[j] = a[S, j]; }
      }
    emit: semantics
    cost: {unit: u, interval_ns: 1, latency_ns: 3}
    source: x
"""


def machine(folder: Path, *changes: tuple[str, str]) -> Machine:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "rows.yaml"
    path.write_text(text, encoding="utf-8")
    return load_machine(str(path))


def test_the_whole_tile_is_rows_one_after_the_other(tmp_path: Path) -> None:
    entry = machine(tmp_path).instructions["load_row_rows"]
    assert print_routine(entry.instruction) == (
        "instruction load_row_rows() {\n"
        "  in a: f32[4, 4] @ mem strides(any, 1);\n"
        "  out z: f32[4, 4] @ acc;\n"
        "  for S in 4, j in 4 { z[S, j] = a[S, j]; }\n"
        "}\n"
    )
    assert str(entry.emit) == "for S in 4: _tile_loadd(z.index, a.addr, 2 * S + 1);"
    assert [cost_value(c, {}) for c in (entry.cost.interval_ns, entry.cost.latency_ns)] == [10.0, 12.0]


def test_each_row_is_told_its_number_and_its_place(tmp_path: Path) -> None:
    emit = machine(tmp_path).instructions["load_row_rows"].emit
    assert isinstance(emit, EmitSteps)
    found: list[tuple[tuple[int, ...], str]] = []
    for call in emit.calls:
        _, address, number = call.args
        assert isinstance(address, EmitArg)
        found.append((address.place, str(number)))
    assert found == [((n, 0), f"2 * {n} + 1") for n in range(4)]


def test_columns_are_rows_of_memory(tmp_path: Path) -> None:
    text = print_routine(machine(tmp_path).instructions["store_column_rows"].instruction)
    assert "  for S in 4, j in 4 { z[S, j] = a[j, S]; }\n" in text


@pytest.mark.parametrize(
    "change",
    [
        (
            "imm S: 0..3) {\n        in a: f32[4] @ mem",
            "imm S: 1..3) {\n        in a: f32[4] @ mem",
        ),  # not row 0
        ("for j in 4 { z[S, j] = a[j]; }", "for j in 3 { z[S, j] = a[j]; }"),  # not all of a row
        ("for j in 4 { z[S, j] = a[j]; }", "for j in 4 { z[S, j] = a[j] + a[0]; }"),  # no move
        ("for j in 4 { z[S, j] = a[j]; }", "for j in 4 { z[S, j] = a[j] if j < 3; }"),
        ("emit: _tile_loadd(z.index, a.addr, 2*S + 1)", "emit: |\n      _tile_loadd(z.index, a[0].addr, S);"),
    ],
)
def test_other_instructions_stay_alone(tmp_path: Path, change: tuple[str, str]) -> None:
    assert "load_row_rows" not in machine(tmp_path, change).instructions


ALL_AT_ONCE = """\
instructions:
  - semantics: |
      instruction load_all() {
        in a: f32[4, 4] @ mem strides(any, 1);
        out z: f32[4, 4] @ acc;
        for i in 4, j in 4 { z[i, j] = a[i, j]; }
      }
    emit: semantics
    cost: {unit: u, interval_ns: 40, latency_ns: 40}
    source: x
"""


def test_odd_is_what_the_text_says_and_not_what_is_made_of_it(tmp_path: Path) -> None:
    """Slower than the rows one after the other: never chosen, and no duplicate of anything that is written."""
    described = machine(tmp_path, ("instructions:\n", ALL_AT_ONCE))
    assert {"load_row_rows", "load_all"} <= described.instructions.keys()
    assert [
        d.message for d in find_warnings(described) if "_rows`" in d.message or "load_all" in d.message
    ] == ["`load_all` copies from `mem` to `acc`, and no link leads there"]


def test_a_product_in_such_tiles_is_right(tmp_path: Path) -> None:
    machine(tmp_path)
    cases = verify("gemm_f32", str(tmp_path / "rows.yaml"), {"M": 6, "N": 9, "K": 5}, heuristic="greedy")
    assert [p.message for case in cases for p in case.problems] == []
