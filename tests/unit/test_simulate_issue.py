"""Statements performed by mappings, written down by hand: masks, padding, cuts, and what cannot be padded."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from performing import size_values
from unit.matching import DOT, MATRIX, PAIRS, instruction, kernel, mappings, shipped

from isamap.ir import DTYPES, Const, Kernel, interpret
from isamap.match import Mapping, Pattern
from isamap.match.patterns.padding import neutral_fills
from isamap.simulate import CannotPad, Cut, perform
from isamap.transform import statements

Array = NDArray[Any]
NONE_SHOWN: frozenset[str] = frozenset()

PRODUCTS = """instruction most() {
  inout c: f32 @ reg;
  in a: f32[8] @ reg;
  in b: f32 @ reg;
  for k in 8 { c max= a[k] * b; }
}"""

MASKED = """instruction add(scalar L: 0..4) {
  out c: i32[L] @ reg;
  in a: i32[L] @ reg;
  for i in L { c[i] = a[i]; }
}"""


def filled(routine: Kernel, sizes: MappingType[str, int], seed: int = 0) -> dict[str, Array]:
    rng, values = np.random.default_rng(seed), size_values(routine, sizes)
    return {
        o.name: rng.integers(-2, 3, tuple(s.evaluate(values) for s in o.shape)).astype(o.dtype.numpy())
        for o in routine.operands
    }


def done(pattern: Pattern, routine: Kernel, mapping: Mapping, cut: Cut, sizes: dict[str, int]) -> bool:
    """Return whether performing gives what the interpreter does."""
    arrays = filled(routine, sizes)
    statement = statements(routine)[0]
    found = perform(statement, pattern, mapping, arrays, cut, size_values(routine, sizes))
    expected = interpret(routine, arrays, sizes)[statement.assign.target.buffer]
    return np.array_equal(found, expected)


@pytest.mark.parametrize("k", [1, 15, 16, 17, 40])
def test_blocks_and_rests_of_a_matrix_product(k: int) -> None:
    pattern, routine = instruction(MATRIX), shipped("gemm_f32")
    for mapping in mappings(pattern, routine):
        assert done(pattern, routine, mapping, Cut(), {"M": 18, "N": 3, "K": k})


@pytest.mark.parametrize(("q", "k"), [(1, 5), (4, 16), (16, 33)])
def test_a_cut_over_two_axes(q: int, k: int) -> None:
    pattern, routine = instruction(PAIRS), shipped("gemm_bf16")
    cut = Cut({"R": 3, "N": 4, "Q": q})
    assert done(pattern, routine, mappings(pattern, routine)[0], cut, {"M": 7, "N": 5, "K": k})


def test_any_order_of_fusion_and_any_tiles_do() -> None:
    pattern, routine = instruction(MATRIX), shipped("conv1d")
    sizes = {"N": 2, "C": 3, "K": 4, "W": 9, "R": 3, "stride": 2, "pad": 1}
    for mapping in mappings(pattern, routine):
        backwards = tuple(replace(g, kernel_axes=g.kernel_axes[::-1]) for g in mapping.groups)
        cut = Cut({}, backwards, {"i": 5, "k": 3})
        assert done(pattern, routine, mapping, cut, sizes)


@pytest.mark.parametrize("masked", [True, False])
def test_a_rest_is_masked_or_padded(masked: bool) -> None:
    pattern = instruction(MASKED)
    routine = kernel("in A: i32[N]; inout C: i32[N];", "for n in N { C[n] = A[n]; }", "N")
    (mapping,) = mappings(pattern, routine)
    assert done(pattern, routine, mapping, Cut({"L": 4}, masked=masked), {"N": 10})


def test_padded_lanes_of_a_maximum_hold_the_lowest_number() -> None:
    pattern = instruction(
        "instruction most() { inout c: i8 @ reg; in a: i8[8] @ reg; for k in 8 { c max= a[k]; } }"
    )
    assert neutral_fills(pattern, frozenset({NONE_SHOWN})) == {"a": Const(-128, DTYPES["i8"])}
    routine = kernel("in A: i8[N]; inout C: i8;", "for n in N { C max= A[n]; }", "N")
    statement, (mapping,) = statements(routine)[0], mappings(pattern, routine)
    arrays = {"A": np.full(3, -100, np.int8), "C": np.asarray(-101, np.int8)}
    assert perform(statement, pattern, mapping, arrays, Cut(), {"N": 3}) == -100


def test_a_divisor_of_an_integer_quotient_is_never_filled_with_zero() -> None:
    for quotient in ("a[k] / b[k]", "a[k] % b[k]"):
        pattern = instruction(
            "instruction quotients() { inout c: i32 @ reg; in a: i32[8] @ reg; in b: i32[8] @ reg;"
            f" for k in 8 {{ c += {quotient}; }} }}"
        )
        fills = neutral_fills(pattern, frozenset({NONE_SHOWN}))
        assert fills is not None
        assert fills["b"].value != 0


def test_a_factor_in_use_leaves_nothing_to_pad_a_maximum_with() -> None:
    pattern = instruction(PRODUCTS)
    routine = kernel("in A: f32[N]; in B: f32; inout C: f32;", "for n in N { C max= A[n] * B; }", "N")
    mapping = next(m for m in mappings(pattern, routine) if m.groups)
    assert done(pattern, routine, mapping, Cut(), {"N": 16})
    with pytest.raises(CannotPad, match="b in use"):
        done(pattern, routine, mapping, Cut(), {"N": 12})


def test_zero_times_a_float_in_use_is_nothing_only_where_that_is_finite() -> None:
    shown = frozenset({frozenset({"b"})})
    assert neutral_fills(instruction(DOT), shown) is None
    fills = neutral_fills(instruction(DOT), shown, finite=True)
    assert fills is not None
    assert fills["a"].value == 0


def test_a_mapping_that_is_not_valid_computes_something_else() -> None:
    """Nothing is repaired: the summed axis on an axis of the output loses terms."""
    pattern, routine = instruction(MATRIX), shipped("gemm_f32")
    (mapping, _) = mappings(pattern, routine)
    groups = tuple(
        replace(g, kernel_axes={"i": ("m",), "j": ("k",), "k": ("n",)}[g.instruction_axes[0]])
        for g in mapping.groups
    )
    assert not done(pattern, routine, replace(mapping, groups=groups), Cut(), {"M": 4, "N": 4, "K": 4})


def test_what_a_guarded_read_leaves_is_its_fill() -> None:
    pattern = instruction(DOT)
    routine = kernel(
        "in A: f32[N]; in B: f32[N]; inout C: f32;", "for n in N { C += (A[n + 2] else 1) * B[n]; }", "N"
    )
    (mapping,) = mappings(pattern, routine)
    arrays = {"A": np.asarray([7, 7, 5], np.float32), "B": np.asarray([1, 2, 3], np.float32)}
    arrays["C"] = np.asarray(100, np.float32)
    found = perform(statements(routine)[0], pattern, mapping, arrays, Cut(), {"N": 3})
    assert found == 100 + 5 * 1 + 1 * 2 + 1 * 3
