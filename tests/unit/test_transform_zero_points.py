"""Zero points of quantised factors taken out of their sum: equal bit by bit, also where sums wrap around."""

from __future__ import annotations

import numpy as np
import pytest
from unit.rewriting import chosen_form, kernel, steps

from isamap.driver.request import Request
from isamap.ir import Kernel, bind
from isamap.ir.interpret import interpret
from isamap.source import Source
from isamap.transform import rewrites

SCALARS = {"zx": -(2**31) + 5, "zw": 2**31 - 3}
SIZES = {"M": 3, "N": 5, "K": 300}
OPERANDS = "in x: u8[M, K]; in w: i8[N, K]; in zn: i8[N]; inout y: i32[M, N]; "
PARAMS = "M, N, K, scalar zx: i32, scalar zw: i32"
SUM = "for m in M, n in N, k in K { y[m, n] += FACTORS; }"
BEGUN = "for m in M, n in N { y[m, n] = 7; } " + SUM
PER_TENSOR = "(i32(x[m, k]) - zx) * (i32(w[n, k]) - zw)"


def taken_out(routine: Kernel) -> list[Kernel]:
    return [r.kernel for r in rewrites(routine) if r.steps[0].startswith("zero points")]


@pytest.mark.parametrize(
    "factors",
    [
        PER_TENSOR,
        "(i32(x[m, k]) - 128) * (i32(w[n, k]) + 119)",
        "(i32(x[m, k]) - zx) * (i32(w[n, k]) - i32(zn[n]))",
        "i32(x[m, k]) * (zw + i32(w[n, k]))",
        "(i32(x[m, k]) - 2147483647) * i32(w[n, k])",
    ],
)
@pytest.mark.parametrize("loops", [SUM, BEGUN])
def test_a_sum_without_its_zero_points_is_equal_bit_by_bit(factors: str, loops: str) -> None:
    routine = kernel(OPERANDS, loops.replace("FACTORS", factors), PARAMS)
    rng = np.random.default_rng(3)
    arrays: dict[str, np.ndarray] = {}
    for operand in bind(routine, SIZES).operands:
        shape = [int(e.evaluate({})) for e in operand.shape]
        low, high = operand.dtype.low, operand.dtype.high
        values = rng.integers(low, high, shape, endpoint=True, dtype=np.int64)
        arrays[operand.name] = values.astype(operand.dtype.numpy())
    expected = interpret(routine, arrays, SIZES, SCALARS)["y"]
    found = taken_out(routine)
    assert len(found) == 3  # as it is, and with either factor shifted
    for form in found:
        np.testing.assert_array_equal(interpret(form, arrays, SIZES, SCALARS)["y"], expected)


@pytest.mark.parametrize(
    ("operands", "factors"),
    [
        (OPERANDS, "i32(x[m, k]) * i32(w[n, k])"),  # has none
        (OPERANDS + "in zk: i32[K]; ", "(i32(x[m, k]) - zk[k]) * i32(w[n, k])"),  # changes along the sum
        ("in x: f32[M, K]; in w: f32[N, K]; inout y: f32[M, N]; ", "(x[m, k] - 3) * w[n, k]"),
    ],
    ids=["none", "along the sum", "floats"],
)
def test_what_is_no_zero_point_of_integers_stays(operands: str, factors: str) -> None:
    assert steps(kernel(operands, SUM.replace("FACTORS", factors), PARAMS), "zero points") == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("machine", ["x86-avx2", "x86-amx"])
def test_the_form_without_zero_points_is_the_cheapest(machine: str) -> None:
    routine = kernel(OPERANDS.replace("in w: i8", "in w: u8"), SUM.replace("FACTORS", PER_TENSOR), PARAMS)
    request = Request(
        Source("k.ir", ""), machine, {"M": 64, "N": 64, "K": 128}, heuristic="greedy", transform="best"
    )
    assert chosen_form(request, routine).steps[0].startswith("zero points")
