"""What operands cost that are only written: the stores that the tensor takes, and all that is read for it."""

from __future__ import annotations

import pytest

from isamap.formulate.build import build_problem
from isamap.ir import bind
from isamap.machine import load_machine
from isamap.plan.problem import NestOption
from isamap.scheduler import schedule
from isamap.source import Source
from isamap.syntax import parse_kernel

MACHINE = load_machine("x86-avx512-vnni")


def written(value: str, operands: str = "") -> str:
    filled = f"for m in 64, n in 4096 {{ C[m, n] = {value}; }}"
    return f"kernel written() {{ {operands} out C: i32[64, 4096]; {filled} }}"


def stores(text: str) -> tuple[NestOption, ...]:
    """Return the ways to perform it that store a register of sixteen."""
    problem = build_problem(bind(parse_kernel(Source("written.ir", text)), {}), MACHINE, {})
    return tuple(o for o in problem.nests[0].options if "zmm_i32 { i: n }" in o.mapping)


def test_a_number_is_stored_as_often_as_there_are_elements() -> None:
    found = stores(written("7"))
    assert found
    for option in found:
        (held,) = option.operands
        assert (held.tensor, held.axes, held.layout.tensor_bytes) == ("C", ("m", "n"), 4)
        assert (held.tile_elements, held.layout.dense_axis, held.layout.pitch_bytes) == (16, "n", 4 * 4096)


@pytest.mark.parametrize(
    ("value", "operands", "read"),
    [
        ("X[m]", "in X: i32[64];", {("X", ("m",), 4)}),
        ("i32(X[n])", "in X: i8[4096];", {("X", ("n",), 1)}),
        ("X[m, n] + Y[m]", "in X: i32[64, 4096]; in Y: i32[64];", {("X", ("m", "n"), 4), ("Y", ("m",), 4)}),
    ],
)
def test_arrays_that_a_value_is_computed_from_have_their_own_traffic(
    value: str, operands: str, read: set[tuple[str, tuple[str, ...], int]]
) -> None:
    found = stores(written(value, operands))
    assert found
    for option in found:
        beside = {(o.tensor, o.axes, o.layout.tensor_bytes) for o in option.operands if not o.is_accumulator}
        assert beside == read
        (held,) = (o for o in option.operands if o.is_accumulator)
        assert (held.tensor, held.axes) == ("C", ("m", "n"))


def test_filling_takes_as_long_as_its_stores_take() -> None:
    problem = build_problem(bind(parse_kernel(Source("written.ir", written("7"))), {}), MACHINE, {})
    store_ns = min(o.operands[-1].costs.direct_ns or 0 for o in problem.nests[0].options)
    assert store_ns > 0
    least = min(64 * 4096 / o.operands[-1].tile_elements for o in problem.nests[0].options)
    cost_ns = schedule(problem, heuristic="greedy").cost_ns
    assert cost_ns is not None
    assert cost_ns >= least * store_ns
