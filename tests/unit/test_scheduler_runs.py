"""Short rows that follow each other without a gap: reading them whole starts a stream once a page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import gemm_option, problem
from properties.sampled_prices import of_blocks, sampled_prices

from isamap.machine.timings import RowTimes
from isamap.plan.cost import evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler.effects.residence import revisits, rows_in_a_run, starts

M, N, START_NS = 4096, 64, 40.0


def short_rows(k: int = 16, gap_bytes: int = 0, next_row: str = "m", m: int = M) -> Problem:
    """Return a[m, k] of so many f32 a row, out of memory, in caches that hold none of it."""
    option = gemm_option(m, N, k)
    a, *others = option.operands
    a = with_fields(a, next_row=next_row, pitch_bytes=4 * k + gap_bytes)
    made = problem(replace(option, operands=(a, *others)))
    caches = tuple(
        replace(c, capacity_bytes=4096 << n, cores=1, line_bytes=64) for n, c in enumerate(made.caches)
    )
    far = RowTimes(start_ns=START_NS, again_ns=12.0, followed_count=2, late_line_ns=1.5)
    return replace(made, caches=caches, memory_rows=far)


def run_of(made: Problem) -> int:
    tiling, _ = of_blocks(made)
    return rows_in_a_run(tiling.space.option.operands[0], tiling.space, made)


def begun_ns(made: Problem, **decided: int) -> float:
    """Return what rows of A take to begin, first and again."""
    tiling, names = of_blocks(made, **decided)
    a, level = tiling.space.option.operands[0], len(made.caches) - 1
    first, again = starts(tiling, a, made, level), revisits(tiling, a, made)
    return float(evaluate(first, names)) + float(evaluate(again, names))


def test_rows_of_one_page_are_a_run_where_they_are_short_and_have_no_gaps() -> None:
    page = short_rows().tlb.page_bytes
    assert run_of(short_rows()) == page // 64
    assert run_of(short_rows(m=20)) == 20
    assert run_of(short_rows(k=64)) == page // 256
    assert run_of(short_rows(k=65)) == 1, "more than four lines are a place of their own to follow"
    assert run_of(short_rows(gap_bytes=64)) == 1
    assert run_of(short_rows(next_row="")) == 1


def test_a_run_is_begun_once_and_late_nowhere() -> None:
    apart, run = begun_ns(short_rows(gap_bytes=64)), begun_ns(short_rows())
    assert apart >= START_NS * M
    assert run == pytest.approx(apart / (short_rows().tlb.page_bytes // 64), rel=0.05)


def test_rows_of_which_each_block_of_the_sum_reads_a_part_are_no_run() -> None:
    assert begun_ns(short_rows(), block_k=8) == pytest.approx(
        begun_ns(short_rows(gap_bytes=64), block_k=8), rel=0.2
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("k", [16, 64])
def test_the_price_is_what_the_loops_say(k: int) -> None:
    priced = sampled_prices(short_rows(k))
    assert all(tree <= price * (1 + 1e-9) for tree, price in priced)
    # Where the model rounds, it does upwards, which is rare.
    assert sum(tree == pytest.approx(price) for tree, price in priced) >= 90
