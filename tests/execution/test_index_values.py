"""Numbers of elements as values in lanes: positions, masks and arguments of maxima, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.ir import IndexValue
from isamap.ir.walk import walk
from isamap.lower.walk import issued_names
from isamap.match import pattern_of
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source

KERNEL = """kernel positions(M, N) {
  in S: f32[M, N]; in top: f32[M];
  out Y: f32[M, N]; out Z: f32[M, N]; out P: i32[M, N]; out E: i32[M, N];
  for m in M, n in N {
    Y[m, n] = select(n <= m & m - n < 5, S[m, n] + 0.5 * f32(n - m), -inf);
    Z[m, n] = select(n > 3 | m == 2*n + 1, S[m, n], f32(2*n + m));
    P[m, n] = i32(3*n) + i32(m);
    E[m, n] = select(S[m, n] >= top[m], i32(n), i32(N));
  }
}"""


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512", "aarch64-neon", "generic-c"])
@pytest.mark.parametrize(("rows", "columns"), [(5, 37), (3, 16)])
def test_positions_and_masks_are_those_of_numpy(machine: str, rows: int, columns: int) -> None:
    sizes = {"M": rows, "N": columns}
    made = compile_kernel(
        Request(Source("k.ir", KERNEL), machine, {**sizes}, heuristic="greedy", model=True, cache=False)
    )
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    rng = np.random.default_rng(3)
    given = rng.integers(-4, 5, (rows, columns)).astype(np.float32)
    top = given.max(1)
    arrays = {"S": given, "top": top}
    arrays |= {name: np.full((rows, columns), -9, np.float32) for name in "YZ"}
    arrays |= {name: np.full((rows, columns), -9, np.int32) for name in "PE"}
    result = run_program(compile_library(made.emitted, made.machine), arrays, {}, guard=True)
    assert result.status == 0, result.meaning
    m, n = np.indices((rows, columns))
    seen = (n <= m) & (m - n < 5)
    expected = {
        "Y": np.where(seen, given + np.float32(0.5) * (n - m).astype(np.float32), -np.inf),
        "Z": np.where((n > 3) | (m == 2 * n + 1), given, 2 * n + m),
        "P": 3 * n + m,
        "E": np.where(given >= top[:, None], n, columns),
    }
    for name, right in expected.items():
        assert np.array_equal(result.arrays[name], right), name


@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512", "aarch64-neon"])
def test_a_machine_that_counts_in_lanes_computes_no_element_alone(machine: str) -> None:
    made = compile_kernel(
        Request(Source("k.ir", KERNEL), machine, {"M": 4, "N": 64}, heuristic="greedy", cache=False)
    )
    assert made.machine
    assert made.program
    issued = issued_names(made.program.body)
    patterns = [pattern_of(made.machine.instructions[name].instruction) for name in issued]
    assert any(isinstance(e, IndexValue) for p in patterns if p is not None for e in walk(p.value))
    assert all(p is not None and (p.axes or not p.instruction.operands) for p in patterns), issued
