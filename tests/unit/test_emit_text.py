"""Names, index expressions and value expressions as C."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from isamap.emit.c_expr import CScope, value_text
from isamap.emit.c_names import CNames, literal, spell
from isamap.emit.c_text import CText, index_text
from isamap.ir import DTYPES, Assign, Index, Instruction, Loop, Read, index_min
from isamap.source import Source
from isamap.syntax import parse_module

x, y = Index.of("x"), Index.of("y")


@pytest.mark.parametrize(
    ("expected", "identifier"),
    [
        ("m1", "m1"),
        ("A.s0", "A_s0"),
        ("for", "for_"),
        ("memcpy", "memcpy_"),
        ("expf", "expf_"),
        ("args", "args_"),
        ("_mm512_add_ps", "x_mm512_add_ps"),
        ("int8_t", "int8_t_"),
        ("linux", "linux_"),
        ("div", "div_"),
        ("sqrtl", "sqrtl_"),
    ],
)
def test_identifiers_are_never_words_of_c_or_of_headers(expected: str, identifier: str) -> None:
    assert CNames().take(expected) == identifier


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the headers are read by gcc")
def test_nothing_that_headers_of_c_declare_is_a_name(tmp_path: Path) -> None:
    source = tmp_path / "headers.c"
    source.write_text("".join(f"#include <{name}.h>\n" for name in ("math", "stddef", "stdlib", "string")))
    text = subprocess.run(["gcc", "-E", "-P", source], capture_output=True, text=True, check=True).stdout
    while (outside := re.sub(r"\{[^{}]*\}", "", text)) != text:
        text = outside
    words = set(re.findall(r"\b([A-Za-z]\w*)\s*(?:\(|;)", text))
    assert {"div", "rand", "strlen", "qsort", "div_t"} < words
    assert [word for word in sorted(words) if spell(word) == word] == []


def test_names_are_unique_within_their_scope_and_those_around_it() -> None:
    outer = CNames(taken=("abs_i32",))
    assert [outer.take("m.1"), outer.take("m_1"), outer.take("abs_i32")] == ["m_1", "m_1_2", "abs_i32_2"]
    inner = outer.inside()
    assert inner.take("m.1") == "m_1_3"
    assert (inner.of("m.1"), outer.of("m.1")) == ("m_1_3", "m_1")


@pytest.mark.parametrize(
    ("index", "c"),
    [
        (x * 16 + y - 1, "16*x + y - 1"),
        (y - x, "y - x"),
        (-x, "-x"),
        (x * y * 4, "4*x*y"),
        (x.floordiv(4), "x / 4"),
        ((x + y).floordiv(4) * 2, "2*((x + y) / 4)"),
        (x.mod(4) + y, "y + x % 4"),
        ((x - 1).floordiv(2), "floor_div(x - 1, 2)"),
        ((x - 1).mod(2), "floor_mod(x - 1, 2)"),
        (Index.of("A.s0").floordiv(2), "floor_div(A.s0, 2)"),
        (index_min(x, y) + 1, "(x < y ? x : y) + 1"),
        (Index.of(1 << 40), "INT64_C(1099511627776)"),
        (Index.of(-3), "-3"),
        (x * 2 * index_min(x, y), "2*x*(x < y ? x : y)"),
    ],
)
def test_indices_have_only_the_parentheses_that_they_need(index: Index, c: str) -> None:
    assert index_text(index, lambda name: name, set()).text == c


def expression(text: str, declarations: str) -> str:
    """Return an expression of the language in C, over operands that keep their names."""
    source = f"instruction f() {{ {declarations} z = {text}; }}"
    memories = "memory reg: registers(count = 8, bytes = 8);\n"
    routine = parse_module(Source("test", memories + source)).declarations[-1]
    assert isinstance(routine, Instruction)
    stmt = routine.body[0]
    assert not isinstance(stmt, Loop)
    assert isinstance(stmt, Assign)
    return value_text(stmt.value, CScope(lambda name: name, lambda read: CText(_name(read)))).text


def _name(read: Read) -> str:
    return read.buffer


def operands(dtype: str, result: str | None = None) -> str:
    inputs = " ".join(f"in {n}: {dtype} @ reg;" for n in "abc")
    return f"{inputs} out z: {result or dtype} @ reg;"


@pytest.mark.parametrize(
    ("dtype", "text", "c"),
    [
        ("f32", "a + b * c", "a + b * c"),
        ("f32", "(a + b) * c", "(a + b) * c"),
        ("f32", "a - (b - c)", "a - (b - c)"),
        ("f32", "-a * 2", "-a * 2.0f"),
        ("f64", "a / 3", "a / 3.0"),
        ("f32", "max(a, 0)", "!(a <= 0.0f) ? a : 0.0f"),
        ("f32", "max(a, b)", "max_f32(a, b)"),
        ("f32", "round(a, even)", "rintf(a)"),
        ("f64", "exp(a)", "exp(a)"),
        ("i32", "a + b * c", "(int32_t)((uint32_t)a + (uint32_t)b * (uint32_t)c)"),
        ("u32", "a + b", "(uint32_t)(a + b)"),
        ("i32", "a >> 4", "a >> 4"),
        ("i32", "a >> b", "shr_i32(a, b)"),
        ("i32", "a / b", "div_i32(a, b)"),
        ("i32", "a / 4", "a / 4"),
        ("i8", "a & b", "(int8_t)(a & b)"),
        ("bf16", "a + b", "round_bf16(bf16_to_f32(a) + bf16_to_f32(b))"),
        ("bool", "a & ~b", "a & !b"),
    ],
)
def test_values_are_computed_as_their_types_say(dtype: str, text: str, c: str) -> None:
    assert expression(text, operands(dtype)) == c


@pytest.mark.parametrize(
    ("source", "target", "text", "c"),
    [
        ("f32", "f64", "f64(a)", "(double)a"),
        ("f64", "bf16", "bf16(a)", "round_bf16(f64_to_odd_f32(a))"),
        ("i64", "f16", "f16(a)", "round_f16(f64_to_odd_f32(i64_to_f64(a)))"),
        ("i32", "i8", "wrap_i8(a)", "(int8_t)a"),
        ("i32", "i8", "sat_i8(a)", "(int8_t)(a < -128 ? -128 : a > 127 ? 127 : a)"),
        ("f32", "u8", "sat_u8(a)", "saturate_u8(a)"),
        ("i32", "i4", "wrap_i4(a)", "(int8_t)((int8_t)((uint8_t)a << 4) >> 4)"),
        ("i32", "bool", "a < b", "a < b"),
    ],
)
def test_casts_round_wrap_and_saturate(source: str, target: str, text: str, c: str) -> None:
    assert expression(text, operands(source, target)) == c


@pytest.mark.parametrize(
    ("value", "dtype", "c"),
    [
        (1, "f32", "1.0f"),
        (0.1, "f32", "0.1f"),
        (1e30, "f32", "1e+30f"),
        (0.1, "f64", "0.1"),
        (float("inf"), "f32", "INFINITY"),
        (float("-inf"), "f64", "-INFINITY"),
        (-(2**63), "i64", "INT64_MIN"),
        (-(2**31), "i32", "INT32_MIN"),
        (2**64 - 1, "u64", "UINT64_C(18446744073709551615)"),
        (3, "u32", "3u"),
        (True, "bool", "1"),
    ],
)
def test_literals_have_the_type_that_they_stand_for(value: float, dtype: str, c: str) -> None:
    assert literal(value, DTYPES[dtype]) == c
