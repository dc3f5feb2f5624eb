"""Whether hinted pieces have come when they are used, and what of their traffic shows then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import MEMORY_ROWS, gemm
from properties.sampled_prices import of_blocks

from isamap.machine.timings import Tlb
from isamap.plan.cost import Const, evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler.effects.bursts import exposed_loads
from isamap.scheduler.effects.hint_costs import if_in_time
from isamap.scheduler.effects.levels import misses
from isamap.scheduler.effects.row_pieces import pieces_and_computing
from isamap.scheduler.effects.table import AnalyticModel

SIZE = 4096
# A vector of B takes 64 bytes / 25.6 = 2.5 ns to come, and an issue 0.14 ns: 18 rows of A on it hide it.
BANDWIDTH, NEEDED = 25.6, 18


def late(rows: int = SIZE, hinted_traffic_factor: float | None = None, columns: int = SIZE) -> Problem:
    """Return a product out of memory, whose pieces of B may be hinted into the second cache."""
    made = gemm(rows, columns, SIZE)
    (option,) = made.nests[0].options
    hinted = (("l1", 0.002), ("l2", 0.002))
    operands = tuple(
        with_fields(o, is_late=True, hints=hinted) if o.name == "b" else o for o in option.operands
    )
    nest = replace(made.nests[0], options=(replace(option, operands=operands),))
    stated = replace(MEMORY_ROWS, computing_factor=1.0, swept_ns=8.0, hinted_swept_count=64)
    stated = replace(stated, hinted_traffic_factor=hinted_traffic_factor)
    return replace(made, nests=(nest,), memory_rows=stated, memory_bandwidth_bytes_per_ns=BANDWIDTH)


def cost(problem: Problem, **decided: int) -> float:
    """Of pieces that cost 5 without hints, and 1 where hints bring all of them in time."""
    tiling, names = of_blocks(problem, **{"prefetch_b": 2, "sweep_m_n": 0, **decided})
    b = next(operand for operand in tiling.space.option.operands if operand.name == "b")
    return float(evaluate(if_in_time(tiling, b, BANDWIDTH, Const(5.0), Const(1.0)), names))


def is_in_time(problem: Problem, **decided: int) -> bool:
    found = cost(problem, **decided)
    assert found in (1.0, 5.0)
    return found == 1.0


def test_hinted_pieces_are_in_time_where_a_turn_computes_for_as_long_as_they_take_to_come() -> None:
    assert is_in_time(late())
    assert not is_in_time(late(), prefetch_b=0)
    assert is_in_time(late(NEEDED))
    assert not is_in_time(late(NEEDED - 1)), "all rows there are take less"


def test_what_other_turns_compute_on_a_piece_does_not_count() -> None:
    assert not is_in_time(late(), sweep_m_n=1), "all pieces are read by the first rows, and then again"
    assert is_in_time(late(), sweep_m_n=1, block_m=4096, unroll_m=4096), "there are no other register blocks"
    assert is_in_time(late(), block_m=32)
    assert not is_in_time(late(), block_m=16), "another block of rows comes much later"


def test_the_first_turns_of_each_block_of_columns_ask_too_late() -> None:
    """Two iterations ahead: before the first two of a block none could hint at their pieces."""
    assert cost(late(), block_n=16 * 64) == 1.0 + 5.0 * 2 / 16
    assert cost(late(), block_n=16 * 64, unroll_n=8) == 1.0 + 5.0 * 2 / 8
    assert cost(late(), block_n=16 * 32) == 1.0 + 5.0 * 2 / 8
    assert cost(late(), block_n=16 * 64, unroll_n=32) == 5.0, "two iterations: priced as without hints"
    assert cost(late(), unroll_n=64) == 1.0
    assert cost(late(columns=2048), unroll_n=64) == 5.0, "two iterations in all"
    assert cost(late(columns=16)) == 1.0, "one register block: what is hinted is later rows"


def test_hints_that_stand_further_ahead_are_late_for_more_of_the_first_turns() -> None:
    problem = late()
    (option,) = problem.nests[0].options
    operands = tuple(with_fields(operand, ahead_counts=(2, 4)) for operand in option.operands)
    nest = replace(problem.nests[0], options=(replace(option, operands=operands),))
    assert cost(replace(problem, nests=(nest,)), block_n=16 * 64) == 1.0 + 5.0 * 4 / 16


def test_of_hinted_pieces_as_much_traffic_shows_as_is_stated_of_them() -> None:
    def ns(hinted_traffic_factor: float | None, **decided: int) -> float:
        problem = late(hinted_traffic_factor=hinted_traffic_factor)
        tiling, names = of_blocks(problem, block_k=32, **{"sweep_m_n": 0, **decided})
        pieces = pieces_and_computing(tiling, misses(tiling, problem), Const(0.0), problem)
        return float(evaluate(pieces, names))

    lines = SIZE * SIZE * 4 / BANDWIDTH
    assert ns(0.25, prefetch_b=0) == ns(None, prefetch_b=0)
    assert ns(None, prefetch_b=2) - ns(0.25, prefetch_b=2) == pytest.approx(0.75 * lines)
    assert ns(1.5, prefetch_b=2) == ns(None, prefetch_b=2), "no more than of others"
    assert ns(0.25, prefetch_b=2, sweep_m_n=1) == ns(None, prefetch_b=2, sweep_m_n=1), "they are not in time"


def test_what_hints_have_brought_near_is_used_no_faster_than_it_comes_from_there() -> None:
    problem = late()
    tiling, names = of_blocks(problem, block_m=64, block_k=4096)
    found = {
        value: evaluate(
            exposed_loads(tiling, problem, misses(tiling, problem)), {**names, "nest0.prefetch.b": value}
        )
        for value in (0, 2)
    }
    assert found[0] > found[2]


def test_a_part_that_the_nearest_cache_holds_shows_nothing_of_what_the_whole_would() -> None:
    """Inputs of a whole product come late; a thread's part of it may fit into caches."""
    problem = late()
    room = tuple(replace(cache, capacity_bytes=1 << 40, kept_ns=0) for cache in problem.caches)
    problem = replace(problem, caches=room)
    tiling, names = of_blocks(problem)
    assert misses(tiling, problem) == ()
    decided = {**names, "nest0.prefetch.b": 2, "nest0.unroll.k": 1}
    assert evaluate(exposed_loads(tiling, problem, ()), decided) == 0.0
    (option,) = problem.nests[0].options
    price = AnalyticModel().expression(problem, problem.nests[0], option)
    assert evaluate(price, decided) > 0.0


def test_pages_that_hints_have_visited_hide_as_other_work_does() -> None:
    problem = replace(late(), tlb=Tlb(64, 4096, 0.5))
    (option,) = problem.nests[0].options
    shares = AnalyticModel().shares(problem, problem.nests[0], option)
    (pages,) = [share.cost for share in shares if (share.name, share.operand) == ("pages", "b")]
    _, names = of_blocks(problem)
    unasked, asked = (float(evaluate(pages, {**names, "nest0.prefetch.b": value})) for value in (0, 2))
    assert unasked == pytest.approx(0.5 * SIZE * (SIZE / 4) * (SIZE / 64)), "each row, each register block"
    assert asked == pytest.approx(problem.model.leak_factor * unasked)
