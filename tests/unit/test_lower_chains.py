"""Chains of functions side by side: what moves, what stays, and that results are the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import isamap
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.lower.program import Declare, Issue, LoweredProgram, MemoryRef, Node, RegisterRef
from isamap.source import Source

TWICE = "kernel twice() {{ in x: f32[{n}]; out y: f32[{n}]; for i in {n} {{ y[i] = {value}; }} }}"
CHAIN = "tanh(tanh(x[i]) * 2)"


def lowered(value: str, hw: str = "x86-avx512") -> LoweredProgram:
    text = TWICE.format(n=1024, value=value)
    program = compile_kernel(Request(Source("twice.ir", text), hw, {}, heuristic="greedy")).program
    assert program is not None
    return program


def runs(nodes: tuple[Node, ...]) -> Iterator[list[Issue]]:
    """Yield the issues of each straight piece of code."""
    run: list[Issue] = []
    for node in nodes:
        if isinstance(node, Issue):
            run.append(node)
        elif not isinstance(node, Declare):
            yield from runs(getattr(node, "body", ()))
    yield run


def longest(value: str) -> list[str]:
    """Names of instructions in the longest piece of code."""
    return [issue.instruction for issue in max(runs(lowered(value).body), key=len)]


def test_functions_that_wait_for_each_other_stand_side_by_side() -> None:
    names = longest(CHAIN)
    first = names.index("tanh_zmm_f32")
    assert names[first : first + 4] == ["tanh_zmm_f32"] * 4


def test_values_that_all_chains_read_count_once_beside_those_of_each() -> None:
    value = "tanh(tanh(x[i] * b0[0] + b1[0]) * b2[0] + b3[0]) * b4[0] + b5[0]"
    given = " ".join(f"in b{n}: f32[1];" for n in range(6))
    text = TWICE.format(n=1024, value=value).replace("out y", f"{given} out y")
    program = compile_kernel(Request(Source("t.ir", text), "x86-avx512", {}, heuristic="greedy")).program
    assert program is not None
    names = [issue.instruction for issue in max(runs(program.body), key=len)]
    first = names.index("tanh_zmm_f32")
    assert names[first : first + 4] == ["tanh_zmm_f32"] * 4


def test_one_function_of_a_chain_waits_for_none_and_stays() -> None:
    names = longest("tanh(x[i]) * 2")
    first = names.index("tanh_zmm_f32")
    assert names[first + 1] != "tanh_zmm_f32"


def test_every_value_is_written_before_it_is_read_and_stores_keep_their_order() -> None:
    for run in runs(lowered(CHAIN).body):
        written: set[str] = set()
        stores: list[int] = []
        for issue in run:
            *reads, (_, result) = issue.operands
            assert all(ref.value in written for _, ref in reads if isinstance(ref, RegisterRef))
            if isinstance(result, RegisterRef):
                written.add(result.value)
            else:
                assert isinstance(result, MemoryRef)
                stores.append(result.offset.evaluate(dict.fromkeys(result.offset.symbols, 0)))
        assert stores == sorted(stores)


@pytest.mark.parametrize("n", [16, 1000, 4096])
def test_results_are_those_of_numpy(n: int) -> None:
    kernel = isamap.compile(TWICE.format(n=n, value=CHAIN), machine="x86-avx512", heuristic="greedy")
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    found = np.zeros_like(x)
    kernel(x=x, y=found)
    expected = np.tanh(np.tanh(x.astype(np.float64)) * 2)
    np.testing.assert_allclose(found, expected, rtol=2e-6)
