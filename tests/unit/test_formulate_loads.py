"""What loads in place take: twice where they lie on two lines, and a second unit where they are masked."""

from __future__ import annotations

from functools import lru_cache

import pytest

from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.plan.problem import NestOption, TileOperand
from isamap.source import Source
from isamap.syntax import parse_kernel

MACHINE = load_machine("x86-avx512")
LOAD_NS, MASKED_NS = 1 / 3.6 / 2, 0.5 / 2  # of both load ports, as stated: a cycle, half a nanosecond


@lru_cache
def option(pixels: int, taps: int, pitch: int) -> NestOption:
    """Sixteen pixels a register, of rows `pitch` pixels apart, for filters of so many taps."""
    text = f"""kernel taps() {{
  in X: f32[8, {pitch}] strides({pitch}, 1); in F: f32[64, {taps}]; inout Y: f32[64, 8, {pixels}];
  for k in 64, p in 8, q in {pixels}, s in {taps} {{ Y[k, p, q] += X[p, q + s] * F[k, s]; }}
}}"""
    problem = build_problem(bind(parse_kernel(Source("taps.ir", text)), {}), MACHINE, {})
    return next(o for o in problem.nests[0].options if o.mapping.startswith("fma_zmm_f32 { i: q }"))


def operand(found: NestOption, tensor: str) -> TileOperand:
    return next(o for o in found.operands if o.tensor == tensor)


@pytest.mark.parametrize(
    ("pixels", "taps", "pitch", "share"),
    [
        (32, 1, 64, 0.0),  # every register is a line
        (32, 2, 64, 1 / 2),  # the second tap of two
        (32, 4, 64, 3 / 4),
        (32, 1, 40, 1 / 2),  # each second row begins in the middle of a line
        (32, 1, 33, 7 / 8),  # eight rows, seven of which begin within a line
        (1600, 16, 1616, 15 / 16),  # anywhere
    ],
)
def test_a_load_across_two_lines_takes_twice_as_long(
    pixels: int, taps: int, pitch: int, share: float
) -> None:
    taken = operand(option(pixels, taps, pitch), "X").costs.direct_ns
    assert taken == pytest.approx(LOAD_NS * (1 + share))


def test_a_number_lies_on_one_line() -> None:
    assert operand(option(32, 4, 64), "F").costs.direct_ns == operand(option(32, 1, 64), "F").costs.direct_ns


def test_masked_loads_keep_the_unit_busy_that_multiplies() -> None:
    whole, masked = operand(option(32, 1, 64), "X"), operand(option(30, 1, 64), "X")
    assert whole.costs.direct_busy_ns == 0
    assert masked.costs.direct_busy_ns == pytest.approx(
        MASKED_NS / 2
    )  # one of two tiles, on one of two units
