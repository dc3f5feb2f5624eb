"""Indices as values: counting instructions, comparisons of lanes, and indices that fit them."""

from __future__ import annotations

import numpy as np
import pytest
from unit.matching import instruction, kernel

from isamap.ir import Cast, Expr, Index, IndexValue, bind, substitute_expr
from isamap.ir.dtypes import DTYPES, I64
from isamap.ir.evaluate import Env, evaluate_expr
from isamap.ir.walk import walk
from isamap.match.patterns.lane_indices import bind_affine, compare_by_lanes, have_short_indices
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import statements

I32 = DTYPES["i32"]


def counting(value: str) -> Expr:
    """Return what an instruction with the parameters S and C writes to each of its 8 lanes."""
    operands = "scalar S: i32, scalar C: i32) { out z: i32[8] @ reg;"
    return instruction(f"instruction count({operands} for i in 8 {{ z[i] = {value}; }} }}").value


def wrapped(index: Index) -> Expr:
    return Cast(IndexValue(index, I64), I32, "wrap")


LANE, BASE = Index.of("%i"), Index.of("@n")


@pytest.mark.parametrize(
    ("value", "index", "expected"),
    [
        ("S + C * i32(i)", LANE * 3 + BASE + 2, {"C": Index.of(3), "S": BASE + 2}),
        ("i32(i) * C + S", LANE * Index.of("N") + BASE, {"C": Index.of("N"), "S": BASE}),
        ("S + C * i32(i)", BASE, {"C": Index.of(0), "S": BASE}),
        ("S + 4 * i32(i)", LANE * 4 + BASE, {"S": BASE}),
        ("S + 4 * i32(i)", LANE * 3 + BASE, None),
        ("S + C * i32(i)", (LANE + BASE).floordiv(2), None),
        ("S + C * i32(i)", LANE * LANE, None),
        ("S + S * i32(i)", LANE * 3 + BASE, None),
        ("S + S * i32(i)", LANE * 3 + 3, {"S": Index.of(3)}),
        ("i32(i)", LANE, {}),
        ("i32(i)", LANE + 1, None),
    ],
)
def test_an_instruction_counts_as_an_index_does(
    value: str, index: Index, expected: dict[str, Index] | None
) -> None:
    found = bind_affine(counting(value), wrapped(index), ["i"])
    if expected is None:
        assert found is None
        return
    assert found is not None
    names = {"@n": 7, "N": 5}
    number = {b.name: int(evaluate_expr(b.subject, Env(symbols=names))) for b in found}
    assert number == {name: i.evaluate(names) for name, i in expected.items()}


def test_an_element_is_no_index() -> None:
    read = statements(kernel("in x: i32[8]; out y: i32[8];", "for n in 8 { y[n] = x[n]; }"))[0].assign.value
    assert bind_affine(counting("S + C * i32(i)"), read, ["i"]) is None


CHOICES = ["n <= m", "n <= m & m - n < 3", "n > 5 | n == m", "n < 3 & (n > m | n != 2)", "~(n <= m)"]


@pytest.mark.parametrize("condition", CHOICES)
def test_lanes_choose_as_the_condition_says(condition: str) -> None:
    text = f"for m in 9, n in 9 {{ y[m, n] = select({condition}, f32(n), f32(2*m)); }}"
    value = statements(kernel("out y: f32[9, 9];", text))[0].assign.value
    over_lanes = _renamed(value)
    found = compare_by_lanes(over_lanes)
    at = {"%0": np.arange(9), "@m": np.arange(9)[:, None]}
    assert np.array_equal(
        np.broadcast_to(evaluate_expr(found, Env(symbols=at)), (9, 9)),
        np.broadcast_to(evaluate_expr(over_lanes, Env(symbols=at)), (9, 9)),
    )
    wide = [part for part in walk(found) if isinstance(part, IndexValue) and "%0" in part.index.symbols]
    short = [p.value for p in walk(found) if isinstance(p, Cast) and p.dtype == I32]
    assert wide
    assert all(index in short for index in wide)


def _renamed(value: Expr) -> Expr:
    """Return a value of the kernel over the lane %0 and the position @m."""
    return substitute_expr(value, {"n": Index.of("%0"), "m": Index.of("@m")})


def test_a_condition_that_no_lane_changes_stays_as_it_is() -> None:
    text = "for m in 9, n in 9 { y[m, n] = select(m < 3, x[m, n], 0.0); }"
    value = statements(kernel("in x: f32[9, 9]; out y: f32[9, 9];", text))[0].assign.value
    assert compare_by_lanes(_renamed(value)) == _renamed(value)


@pytest.mark.parametrize(
    ("size", "value", "expected"),
    [(1000, "f32(n)", True), (1000, "f32(3000000*n)", False), (1000, "f32(n - 3000000000)", False)],
)
def test_indices_are_short_if_all_of_them_fit(size: int, value: str, expected: bool) -> None:
    text = f"kernel k(N) {{ out y: f32[N]; for n in N {{ y[n] = {value}; }} }}"
    given = parse_kernel(Source("k.ir", text))
    assert have_short_indices(bind(given, {"N": size})) is expected
    assert not have_short_indices(given)
