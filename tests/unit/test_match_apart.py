"""Summing axes on lanes that sum apart: which instructions take one, and what leaves their registers."""

from __future__ import annotations

import pytest

from isamap.formulate.build import build_problem
from isamap.formulate.matches import matches_of, tiles_of
from isamap.formulate.option import reorders as reorders_sums
from isamap.ir import print_expr
from isamap.machine import load_machine
from isamap.match import Tile, sum_of_lanes
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements

DOT = """kernel k(M, K) {
  in A: bf16[M, K];  in x: bf16[K];  inout y: f32[M];
  for m in M, k in K { y[m] += f32(A[m, k]) * f32(x[k]); }
}"""
NOT_BOTH = """kernel k(M, K) {
  in A: f32[M, K];  in x: f32[M];  inout y: f32[M];
  for m in M, k in K { y[m] += A[m, k] * x[m]; }
}"""
LARGEST = """kernel k(M, K) {
  in A: f32[M, K];  inout y: f32[M];
  for m in M, k in K { y[m] max= A[m, k]; }
}"""
SUM_OF_BYTES = """kernel k(M, K) {
  in A: i8[M, K];  inout y: i32[M];
  for m in M, k in K { y[m] += i32(u8(1)) * i32(A[m, k]); }
}"""
SUM_OF_FLOATS = """kernel k(M, K) {
  in A: f32[M, K];  inout y: f32[M];
  for m in M, k in K { y[m] += FACTOR * A[m, k]; }
}"""
STRICT = """strict kernel k(M, K) {
  in A: f32[M, K];  in x: f32[K];  inout y: f32[M];
  for m in M, k in K { y[m] += A[m, k] * x[k]; }
}"""


def tiles(text: str, hw: str) -> list[Tile]:
    kernel = make_guards_explicit(parse_kernel(Source("k.ir", text)))
    machine = load_machine(hw)
    found = tiles_of(matches_of(statements(kernel)[0], 0, machine), machine)
    return [tile for tile in found if tile.held is not None]


def test_all_axes_of_a_dot_product_take_one_summing_axis_together() -> None:
    names = {t.mapping.ident: t for t in tiles(DOT, "x86-avx512-bf16")}
    tile = names["dpbf16_zmm { i: k, p: k } (a = A[m, k], b = x[k])"]
    k = tile.axis("k")
    assert (k.tile, k.is_reduction, k.digits) == (32, True, (("i", 16), ("p", 2)))
    # A row as it lies: 32 elements behind each other.
    assert print_expr(tile.inputs[0].elements) == "A[@ m, % 0 + @ k]"
    assert tile.accumulator is not None
    assert print_expr(tile.accumulator.elements) == "0"
    assert tile.accumulator.axes == ("m",)


def test_a_pairing_counts_once_where_operands_may_be_swapped() -> None:
    found = [t.mapping.ident for t in tiles(DOT, "x86-avx512-bf16")]
    assert len(found) == len(set(found))
    assert sum("dpbf16_zmm" in name for name in found) == 1


def test_every_operand_has_to_be_followed() -> None:
    # A lane beyond the end of k would add 0 * x[m], which is no 0 when x[m] is infinite.
    assert not any("fma" in t.mapping.ident for t in tiles(NOT_BOTH, "x86-avx512"))


def test_the_other_factor_may_be_a_number() -> None:
    names = [t.mapping.ident for t in tiles(SUM_OF_BYTES, "x86-avx512-vnni")]
    assert "dpbusd_zmm { i: k, p: k } (a = 1, b = A[m, k])" in names
    names = [t.mapping.ident for t in tiles(SUM_OF_FLOATS.replace("FACTOR", "2.0"), "x86-avx512")]
    assert any(name.startswith("fma_zmm_f32 { i: k }") for name in names)


def test_the_other_factor_may_be_no_number_that_makes_nan_of_0() -> None:
    text = SUM_OF_FLOATS.replace("FACTOR", "inf")
    assert not any("fma" in t.mapping.ident for t in tiles(text, "x86-avx512"))


@pytest.mark.parametrize(
    ("op", "dtype", "nothing"),
    [
        ("max=", "f32", "-inf"),
        ("min=", "f64", "inf"),
        ("max=", "i32", "-2147483648"),
        ("*=", "f32", "1"),
        ("&=", "i32", "-1"),
        ("^=", "i32", "0"),
    ],
)
def test_every_reduction_may_be_taken_apart(op: str, dtype: str, nothing: str) -> None:
    text = LARGEST.replace("max=", op).replace("f32", dtype)
    (tile,) = (t for t in tiles(text, "x86-avx2") if "ymm" in t.mapping.ident)
    assert tile.accumulator is not None
    assert print_expr(tile.accumulator.elements) == nothing
    # Lanes behind the end of a row hold it as well.
    assert print_expr(tile.inputs[0].fill) == nothing


def test_lanes_are_added_half_to_half_and_then_to_the_element() -> None:
    (tile, *_) = [t for t in tiles(DOT, "x86-avx512-bf16") if "fma_ymm" in t.mapping.ident]
    target, value = sum_of_lanes("b", 4, tile)
    assert print_expr(target) == "y[@ m]"
    assert print_expr(value) == "y[@ m] + (b[0, 0] + b[0, 2] + (b[0, 1] + b[0, 3]))"


def test_a_strict_kernel_keeps_its_order() -> None:
    kernel = make_guards_explicit(parse_kernel(Source("k.ir", STRICT)))
    assert all(reorders_sums(tile) for tile in tiles(STRICT, "x86-avx512"))
    problem = build_problem(kernel, load_machine("x86-avx512"), {"M": 8, "K": 8})
    assert not any(" k }" in o.mapping or ": k" in o.mapping for o in problem.nests[0].options)
