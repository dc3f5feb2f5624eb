"""What prefetched rows keep loads waiting for: fill buffers, each held until its line has come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm

from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile
from isamap.scheduler.effects.levels import buffers_filled, misses
from isamap.scheduler.nests.pricing import price, read_nest

M, N, K = 1024, 32, 2048  # 8 MB of A: beyond the second cache, within the third
BUFFERS, NEAR_NS, FAR_NS = 16, 5.0, 48.0
FIXED = {"unroll.m": 8, "block.m": M, "block.k": K, "stage.a": 0}


def question(fill_count: int = BUFFERS) -> Problem:
    """Return a product whose inputs may be hinted, rows of A along the sum, on a machine of so many buffers."""
    made = gemm(M, N, K)
    (nest,) = made.nests
    hints = (("l1", 0.002), ("l2", 0.002))
    operands = tuple(o if o.is_accumulator else with_fields(o, hints=hints) for o in nest.options[0].operands)
    nests = (replace(nest, options=(replace(nest.options[0], operands=operands),)),)
    l1, l2, l3 = made.caches
    caches = (
        l1,
        replace(l2, rows=replace(l2.rows, fill_count=fill_count, fill_ns=NEAR_NS)),
        replace(l3, rows=replace(l3.rows, fill_ns=FAR_NS)),
    )
    return replace(made, nests=nests, caches=caches, hinted=("l1", "l2"))


def filled_ns(problem: Problem, operand: str, into: int, columns: int = 2) -> float:
    """Return how long hints fill all buffers, in register blocks of so many vectors of columns."""
    found = schedule(problem, fixed={**FIXED, "unroll.n": columns, f"prefetch.{operand}": into})
    read = read_nest(problem, problem.nests[0], found.nests[0])
    assert read is not None
    option, made = read
    tiling = tile(Space(0, option, dict(problem.registers), {}))
    filled = buffers_filled(tiling.space, misses(tiling, problem), problem)
    return sum(float(evaluate(cost, made)) for cost in filled)


@pytest.mark.parametrize("into", [1, 2])
def test_each_line_of_hinted_rows_holds_a_buffer_until_it_has_come(into: int) -> None:
    lines = M * K * 4 // 64
    assert filled_ns(question(), "a", into) == pytest.approx(lines * FAR_NS / BUFFERS)


def test_what_is_not_hinted_and_pieces_of_rows_leave_buffers_to_loads() -> None:
    assert filled_ns(question(), "a", 0) == 0
    assert filled_ns(question(), "b", 2, columns=1) == 0  # rows of B lie across the sum


def test_hinted_rows_are_added_to_what_is_computed() -> None:
    plain, hinted = (schedule(question(), fixed={**FIXED, "unroll.n": 2, "prefetch.a": n}) for n in (0, 1))
    assert plain.cost_ns is not None
    assert hinted.cost_ns is not None
    computing = M * K * 2 * 0.14  # two vectors of 16
    assert hinted.cost_ns > computing + M * K * 4 // 64 * FAR_NS / BUFFERS > plain.cost_ns
    assert price(hinted, question(), AnalyticModel()) == (pytest.approx(hinted.cost_ns),)


def test_where_no_buffers_are_stated_hints_keep_nothing_waiting() -> None:
    plain, hinted = (schedule(question(0), fixed={**FIXED, "unroll.n": 2, "prefetch.a": n}) for n in (0, 1))
    assert plain.cost_ns is not None
    assert hinted.cost_ns == pytest.approx(plain.cost_ns, rel=0.01)
