"""Calls that are arguments of calls: read, checked, printed, and found by what they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.machine import EmitArg, EmitArithmetic, EmitCall, EmitSteps, Machine, load_machine
from isamap.machine.emission import MOST_NESTED
from isamap.source import SpecProblem

TEXT = """\
isamap: 1
name: nested
summary: one of the tests
extends: generic-c
sources: {t: the test}
target: {headers: [immintrin.h], flags: [-mavx2], features: [avx2]}
language: |
  state cfg { palette: u8; }
  memory ymm: registers(count = 16, bytes = 32, named = compiler);
memories: {ymm: {c_types: {f32: __m256, default: __m256i}}}
states: {cfg: {bytes: 64, fields: {palette: {offset_bytes: 0}}}}
instructions:
  - for: {T: i16, P: epi16}
    semantics: |
      instruction widen_$P(scalar L: 1..8) {
        in a: $T[L] @ mem;
        inout z: i32[8] @ ymm;
        for i in L { z[i] = z[i] + i32(a[i]); }
      }
    emit: EMIT
    cost: {unit: scalar, interval_ns: 1, latency_ns: 1}
    source: t
"""
WRITTEN = (
    "z = (__m256i) _mm256_add_epi32(z, "
    "(__m256i) _mm256_cvt$P_epi32((__m128i) _mm_maskz_loadu_$P((__mmask8) L.mask, (void const *) a.addr)))"
)
PRINTED = WRITTEN.replace("$P", "epi16")


def described(folder: Path, emit: str, *, name: str = "widen_epi16") -> EmitCall:
    found = machine(folder, emit).instructions[name].emit
    assert isinstance(found, EmitCall)
    return found


def machine(folder: Path, emit: str) -> Machine:
    path = folder / "nested.yaml"
    path.write_text(TEXT.replace("EMIT", emit), encoding="utf-8")
    return load_machine(str(path))


def test_a_call_is_an_argument_with_a_cast_of_its_own(tmp_path: Path) -> None:
    load = EmitCall(
        None,
        "__m128i",
        "_mm_maskz_loadu_epi16",
        (EmitArg("param", "L", "mask", "__mmask8"), EmitArg("operand", "a", "addr", "void const *")),
    )
    widened = EmitCall(None, "__m256i", "_mm256_cvtepi16_epi32", (load,))
    assert described(tmp_path, WRITTEN) == EmitCall(
        "z", "__m256i", "_mm256_add_epi32", (EmitArg("operand", "z"), widened)
    )


def test_a_printed_call_is_read_as_the_same_call(tmp_path: Path) -> None:
    found = described(tmp_path, WRITTEN)
    assert str(found) == PRINTED
    assert described(tmp_path, str(found)) == found


def test_a_call_knows_all_names_and_functions_in_it(tmp_path: Path) -> None:
    found = described(tmp_path, WRITTEN)
    assert [a.name for a in found.names] == ["z", "L", "a"]
    assert found.functions == ("_mm256_add_epi32", "_mm256_cvtepi16_epi32", "_mm_maskz_loadu_epi16")


def test_each_call_knows_where_its_function_stands(tmp_path: Path) -> None:
    found = described(tmp_path, WRITTEN)
    spans = [c.span for c in found.calls]
    assert [s.text for s in spans if s is not None] == [f.replace("epi16", "$P", 1) for f in found.functions]


def test_calls_stand_eight_deep_in_each_other_and_no_deeper(tmp_path: Path) -> None:
    def deep(depth: int) -> str:
        more = depth - 3  # those that are written
        return WRITTEN.replace("a.addr", f"{'_mm_abs_epi8(' * more}a.addr{')' * more}")

    assert len(described(tmp_path, deep(MOST_NESTED)).calls) == MOST_NESTED == 8
    with pytest.raises(SpecProblem, match="calls may be nested at most 8 deep"):
        described(tmp_path, deep(MOST_NESTED + 1))


def test_calls_beside_each_other_are_as_many_as_they_like(tmp_path: Path) -> None:
    beside = WRITTEN.replace("(z, ", f"({'_mm256_abs_epi32(z), ' * 20}", 1)
    assert len(described(tmp_path, beside).calls) == 23


def test_all_that_is_wrong_in_calls_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecProblem) as found:
        described(tmp_path, "z = _mm256_add_epi32((float) free(y), _mm256_cvtepi16_epi32((long) system(b)))")
    assert [(d.code, d.span.text if d.span else "") for d in found.value.diagnostics] == [
        ("emit-function", "free"),
        ("emit-name", "y"),
        ("emit-cast", "(long)"),
        ("emit-function", "system"),
        ("emit-name", "b"),
    ]


SIZED = """\
isamap: 1
name: sized
summary: one of the tests
extends: generic-c
sources: {t: the test}
target: {headers: [immintrin.h]}
language: |
  machine Q: 1..4 = 2;
  memory v: registers(count = 16, bytes = 16*Q, named = compiler);
memories: {v: {c_types: {i32: __m128i}}}
instructions:
  - for: {T: i32, K: 3}
    semantics: |
      instruction joined(imm S: 0..3) {
        in a: $T[4*Q, 4] @ mem strides(any, 1);
        out z: $T[4*Q] @ v;
        for i in 4*Q { z[i] = a[i, 0]; }
      }
    emit: EMIT
    cost: {unit: scalar, interval_ns: 1, latency_ns: 1}
    source: t
"""


def emitted(folder: Path, emit: str, length: int | None = None) -> EmitCall | EmitSteps:
    path = folder / "sized.yaml"
    path.write_text(SIZED.replace("EMIT", emit), encoding="utf-8")
    machine = load_machine(str(path) + (f"@Q={length}" if length else ""))
    found = machine.instructions["joined"].emit
    assert isinstance(found, EmitCall | EmitSteps)
    return found


def test_arguments_are_computed_as_c_does(tmp_path: Path) -> None:
    written = "z = _mm_set1_epi32(a.addr, a.stride, 1 + 2*Q << 3*S + $K, $K*Q)"
    found = emitted(tmp_path, written)
    assert isinstance(found, EmitCall)
    assert str(found.args[2]) == "1 + 2 * Q << 3 * S + 3"
    shift = found.args[2]
    assert isinstance(shift, EmitArithmetic)
    assert (str(shift.left), shift.operator, str(shift.right)) == ("1 + 2 * Q", "<<", "3 * S + 3")


def test_constants_of_a_machine_become_numbers_at_one_length(tmp_path: Path) -> None:
    found = emitted(tmp_path, "z = _mm_set1_epi32(a.addr, a.stride, S + 2*Q, $K*Q)", 4)
    assert isinstance(found, EmitCall)
    assert [str(a) for a in found.args[2:]] == ["S + 8", "12"]


def test_steps_are_as_many_as_vectors_are_long(tmp_path: Path) -> None:
    steps = "|\n      for i in 2*Q + 1: _mm_set1_epi32(a[i, 0].addr, S);\n      z = _mm_set1_epi32(a.stride);"
    counts: dict[int | None, int] = {}
    for length in (None, 1, 3):
        found = emitted(tmp_path, steps, length)
        assert isinstance(found, EmitSteps)
        assert found.results == {"z"}
        counts[length] = len(found.calls)
    assert counts == {None: 9 + 1, 1: 3 + 1, 3: 7 + 1}
