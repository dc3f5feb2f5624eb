"""Casts that keep all bits are free in vectors: no kernel falls back to single elements for one of them."""

from __future__ import annotations

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.ir import print_expr
from isamap.lower.walk import issued_names
from isamap.source import Source

HALVES = [("f16", "i16"), ("bf16", "i16")]
WIDE = [("f32", "i32"), ("f64", "i64")]
UNSIGNED = [("f32", "u32"), ("f64", "u64"), ("f16", "u16"), ("bf16", "u16")]
PAIRS = {
    "x86-avx2": HALVES + WIDE,
    "x86-avx512": HALVES + WIDE,
    "aarch64-neon": HALVES + WIDE + UNSIGNED,
    "aarch64-sve2": HALVES + WIDE + UNSIGNED,
}
COMPUTED = {
    "powers of two": ("u8", "f32", "bits_f32(i32(x[n]) << 23)"),
    "scales of blocks, 2**-127 to 2**127": ("u8", "f32", "bits_f32(max(i32(x[n]) << 23, 4194304))"),
    "exponents": ("f32", "i32", "(bits_i32(x[n]) >> 23 & 255) - 127"),
    "signs": ("f32", "f32", "bits_f32(bits_i32(x[n]) & 2147483647)"),
}


def check(given: str, made: str, value: str, hw: str) -> None:
    """Compile a kernel for a vector machine: casts of bits are free and in vectors, and results are right."""
    text = f"kernel k(N) {{ in x: {given}[N]; out y: {made}[N]; for n in N {{ y[n] = {value}; }} }}"
    whole, ragged = (
        Request(Source("k.ir", text), hw, {"N": size}, heuristic="greedy", cache=False) for size in (192, 203)
    )
    compilation = compile_kernel(whole)
    assert compilation.program
    assert compilation.machine
    used = issued_names(compilation.program.body)
    costs = [compilation.machine.instructions[name].cost for name in used if name.startswith("bits_")]
    assert {(print_expr(c.interval_ns), print_expr(c.latency_ns)) for c in costs} == {("0", "0")}
    cases = all_cases(prepare(ragged), ("integers", "random", "edges"), guard=True)
    assert [d.render() for case in cases for d in case.problems] == []


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize(("hw", "pair"), [(hw, pair) for hw, pairs in PAIRS.items() for pair in pairs])
def test_arrays_are_read_as_the_other_type(hw: str, pair: tuple[str, str]) -> None:
    number, integer = pair
    check(number, integer, f"bits_{integer}(x[n])", hw)
    check(integer, number, f"bits_{number}(x[n])", hw)


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("hw", PAIRS)
@pytest.mark.parametrize("case", COMPUTED.values(), ids=COMPUTED)
def test_casts_stand_between_other_operations(case: tuple[str, str, str], hw: str) -> None:
    check(*case, hw)


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("hw", ["x86-avx2", "x86-avx512", "aarch64-neon"])
def test_bits_of_halves_are_widened(hw: str) -> None:
    check("i16", "f32", "f32(bits_f16(x[n])) * 2", hw)
