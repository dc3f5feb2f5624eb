"""A sum over several gates as one for each: when, where the parts stand, and that they compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from unit.rewriting import inputs, kernel, shipped, steps, text_after

from isamap.ir import Kernel, interpret, print_routine
from isamap.transform import rewrites

OPERANDS = (
    "in h: f32[N, K]; in U: f32[3, K, H]; inout r: f32[N, H]; inout v: f32[N, H]; temp u: f32[3, N, H];"
)
START = "for g in 3, n in N, j in H { u[g, n, j] = 1; }"
SUM = "for g in 3, n in N, j in H, k in K { u[g, n, j] += h[n, k] * U[g, k, j]; }"
RESET = "for n in N, j in H { r[n, j] = max(u[0, n, j], 0); }"
CANDIDATE = "for n in N, j in H { v[n, j] = u[1, n, j] + r[n, j] * u[2, n, j]; }"
ALL = "for g in 3, n in N, j in H { v[n, j] += u[g, n, j]; }"
SIZES = {"N": 3, "K": 4, "H": 5}


def of(body: str, operands: str = OPERANDS) -> Kernel:
    kept = operands if "r[" in body else operands.replace("inout r: f32[N, H];", "")
    return kernel(kept if "v[" in body else kept.replace("inout v: f32[N, H];", ""), body, "N, K, H")


def targets(text: str) -> list[str]:
    """Return what the statements of a printed kernel write, in order."""
    return [line.split("{ ")[1].split("]")[0] + "]" for line in text.splitlines() if "{ " in line]


def test_each_gate_is_summed_in_front_of_what_needs_it() -> None:
    first, second, third = (f"u[{g}, n, j]" for g in range(3))
    found = targets(text_after(of(START + SUM + RESET + CANDIDATE), "splitting:"))
    assert found == [first, first, "r[n, j]", third, third, second, second, "v[n, j]"]


@pytest.mark.parametrize(
    "body", [START + SUM + ALL, "for n in N, j in H { r[n, j] = 1; }" + START + SUM + ALL]
)
def test_a_sum_of_which_no_statement_needs_single_gates_stays_one(body: str) -> None:
    assert not steps(of(body), "splitting:")


def test_a_sum_with_many_gates_stays_one() -> None:
    operands, body = OPERANDS.replace("f32[3,", "f32[9,"), (START + SUM).replace("g in 3", "g in 9")
    assert not steps(of(body + RESET, operands), "splitting:")


def test_a_sum_that_is_rounded_as_a_whole_stays_one() -> None:
    wide = OPERANDS.replace("temp u: f32[3, N, H];", "inout u: bf16[3, N, H] accumulate f32;")
    assert not steps(of(SUM + RESET.replace("max(u[0, n, j], 0)", "f32(u[0, n, j])"), wide), "splitting:")


def test_parted_sums_are_those_that_were_one() -> None:
    whole = of(START + SUM + RESET + CANDIDATE)
    arrays = inputs(whole, SIZES)
    expected = interpret(whole, arrays, SIZES)
    parted = [r.kernel for r in rewrites(whole) if any(s.startswith("splitting:") for s in r.steps)]
    assert parted
    for rewritten in parted:
        for name, array in interpret(rewritten, arrays, SIZES).items():
            np.testing.assert_array_equal(array, expected[name])


def test_gates_of_a_recurrent_unit_stand_behind_their_own_products() -> None:
    found = [r for r in rewrites(shipped("gru")) if r.steps[0].startswith("expansion")]
    last = next(r for r in found if r.steps[-1].startswith("splitting:"))
    loop = print_routine(last.kernel).partition("seq t")[2]
    first, second, third = (f"u[{g}, n, j]" for g in range(3))
    gates = [first, first, "r[n, j]", second, second, "z[n, j]", third, third, "v[n, j]", "h[n, j]"]
    assert targets(loop)[:10] == gates
