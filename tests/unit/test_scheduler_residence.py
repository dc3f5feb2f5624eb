"""Where tensors are when a statement begins: nothing is read from farther away, and rows have to be begun."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from plan_problems import CACHES, MEMORY_ROWS, gemm

from isamap.machine.timings import RowTimes, Tlb
from isamap.plan.cost import evaluate
from isamap.plan.problem import Cache, Problem, with_fields
from isamap.scheduler import AnalyticModel, schedule
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import loops, reloads, tile
from isamap.scheduler.effects.hint_costs import hint_time
from isamap.scheduler.effects.residence import holds_all, starts
from isamap.scheduler.effects.time_parts import where_time_goes


def sources(problem: Problem) -> set[str]:
    """From where data is read while the statement runs."""
    (time,) = where_time_goes(schedule(problem, heuristic="greedy"), problem, AnalyticModel())
    assert time is not None
    return {share.name for share in time.shares if share.name.startswith("from ") and share.ns > 0}


def test_what_fits_a_cache_is_read_from_nowhere_beyond_it() -> None:
    assert "from memory" not in sources(gemm(256, 256, 256))
    assert sources(gemm(32, 32, 32)) <= {"from l2"}


def test_what_fits_no_cache_is_read_from_memory() -> None:
    assert "from memory" in sources(gemm(4096, 4096, 4096))


@pytest.mark.parametrize(("size", "home"), [(32, "l1"), (128, "l2"), (1024, "l3"), (4096, None)])
def test_tensors_are_in_the_nearest_cache_that_holds_them_all(size: int, home: str | None) -> None:
    problem = gemm(size, size, size)
    space = Space(0, problem.nests[0].options[0], dict(problem.registers), {})
    found = next((cache.name for cache in problem.caches if holds_all(space, [cache])), None)
    assert found == home


def kept_for(kept_ns: int, size: int = 1024) -> Problem:
    """Return a product whose tensors the last cache holds, if it keeps them long enough."""
    problem = gemm(size, size, size)
    return replace(problem, caches=(*CACHES[:2], replace(CACHES[2], kept_ns=kept_ns)))


def test_a_cache_that_others_share_holds_what_is_used_within_its_time() -> None:
    issues_ns = 0.14 * 1024 * 1024 * 1024 / 16
    for kept_ns, held in ((0, True), (int(issues_ns) + 1, True), (int(issues_ns) - 1, False)):
        problem = kept_for(kept_ns)
        space = Space(0, problem.nests[0].options[0], dict(problem.registers), {})
        assert holds_all(space, problem.caches) == held
    assert "from memory" not in sources(kept_for(0))
    assert "from memory" in sources(kept_for(1_000_000))


def test_what_loops_come_back_to_too_late_is_read_again() -> None:
    """for m by 64 { for n by 64 { … } }: 64 rows by all of B take 0.6 ms, and B is there again if kept."""
    problem = gemm(1024, 1024, 1024)
    names = {"nest0.unroll.m": 4, "nest0.unroll.n": 4, "nest0.unroll.k": 1}
    names |= {"nest0.block.m": 64, "nest0.block.n": 64, "nest0.block.k": 1024}
    names |= {f"nest0.stage.{name}": 0 for name in "abc"}
    names |= {"nest0.order.m.n": 1, "nest0.order.m.k": 0, "nest0.order.n.k": 0, "nest0.sweep.m.n": 0}
    space = Space(0, problem.nests[0].options[0], dict(problem.registers), {})
    b = next(o for o in space.option.operands if o.name == "b")

    def read(kept_ns: int, *before: Cache) -> float:
        cache = replace(CACHES[2], kept_ns=kept_ns)
        factors, _ = reloads(space, b, loops(tile(space)), [*before, cache])
        return prod(float(evaluate(factor, names)) for factor in factors)

    body_ns = 0.14 * 64 * 1024 * 1024 / 16
    assert [read(kept_ns) for kept_ns in (0, int(1.01 * body_ns), int(0.99 * body_ns))] == [1, 1, 16]
    # A cache before it that has room for the body of 64 rows, 4.5 MB, and keeps it, does not ask.
    large, short = replace(CACHES[1], capacity_bytes=8 << 20), int(0.99 * body_ns)
    assert read(short, CACHES[0], large) == 1
    assert read(short, large, CACHES[1]) == 16, "the one just before has no room"
    assert read(short, replace(large, kept_ns=int(1.01 * body_ns))) == 1
    assert read(short, replace(large, kept_ns=short)) == 16


def begun_ns(problem: Problem, columns: int, stage: int = 0, **decided: int) -> float:
    """Return the time to begin the rows of b when so many vectors of a row are read before the next one is."""
    option = problem.nests[0].options[0]
    tiling = tile(Space(0, option, dict(problem.registers), {}))
    b = next(o for o in option.operands if o.name == "b")
    names = {"nest0.unroll.n": columns, "nest0.unroll.m": 1, "nest0.stage.b": stage}
    names |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes}
    names |= {f"nest0.{name.replace('_', '.')}": value for name, value in decided.items()}
    return sum(float(evaluate(starts(tiling, b, problem, n), names)) for n in range(len(problem.caches)))


def test_narrow_blocks_begin_more_rows_than_wide_ones() -> None:
    problem = gemm(4096, 4096, 4096)
    assert begun_ns(problem, 4) == pytest.approx(MEMORY_ROWS.start_ns * 4096 * 4096 / 64)
    assert begun_ns(problem, 8) == pytest.approx(begun_ns(problem, 4) / 2)


def test_a_line_or_two_of_each_row_out_of_memory_costs_more_than_long_pieces() -> None:
    problem = gemm(4096, 4096, 4096)
    assert begun_ns(problem, 2) == pytest.approx(MEMORY_ROWS.short_start_ns * 4096 * 4096 / 32)
    assert begun_ns(problem, 2) > 2 * begun_ns(problem, 3)


def test_rows_begin_sooner_where_the_tensors_are_nearer() -> None:
    assert CACHES[1].rows.start_ns < CACHES[2].rows.start_ns < MEMORY_ROWS.start_ns
    near, far = gemm(1024, 1024, 1024), gemm(4096, 4096, 4096)
    assert begun_ns(near, 1) / 1024**2 < begun_ns(far, 1) / 4096**2
    assert begun_ns(gemm(32, 32, 32), 1) == 0.0


def test_copies_out_of_memory_begin_each_row_once_for_each_part_of_it() -> None:
    near, far = gemm(1024, 1024, 1024), gemm(4096, 4096, 4096)
    for columns in (3, 4, 8):
        assert begun_ns(far, columns, stage=1, block_n=512) == pytest.approx(MEMORY_ROWS.start_ns * 4096 * 8)
        assert begun_ns(far, columns, stage=2, block_n=512) == pytest.approx(MEMORY_ROWS.start_ns * 4096)
    assert begun_ns(near, 4, stage=1) == 0.0 < begun_ns(near, 4)


def test_rows_of_one_page_out_of_a_cache_begin_with_the_first() -> None:
    narrow, wide = gemm(64, 128, 4096), gemm(64, 1024, 1024)  # eight rows of B on a page, and one
    assert begun_ns(narrow, 4) == pytest.approx(CACHES[2].rows.start_ns * 4096 / 8 * 2)
    assert begun_ns(wide, 4) == pytest.approx(CACHES[2].rows.start_ns * 1024 * 16)


def swept(count: int, size: int = 1024) -> Problem:
    """Return a product whose tensors lie in the last cache, which follows so many rows from piece to piece."""
    rows = RowTimes(start_ns=2.0, swept_count=count)
    return replace(gemm(size, size, size), caches=(*CACHES[:2], replace(CACHES[2], rows=rows)))


ORDERS = {"order_m_n": 0, "order_m_k": 0, "order_n_k": 0, "sweep_m_n": 0}


def test_pieces_of_few_rows_go_on_where_the_last_ended() -> None:
    in_columns = begun_ns(swept(0), 4, block_k=32, **ORDERS)
    assert in_columns == pytest.approx(2.0 * 1024 * 1024 / 64)
    assert begun_ns(swept(32), 4, block_k=32, **ORDERS) == pytest.approx(2.0 * 1024)
    assert begun_ns(swept(31), 4, block_k=32, **ORDERS) == pytest.approx(in_columns)


def late(count: int, hints: int = 2, **rows: float) -> Problem:
    """Return the same of up to 32 rows, whose pieces may come late; hints are in time for so many rows."""
    problem = swept(32)
    (nest,) = problem.nests
    (option,) = nest.options
    named = (("l1", 0.002), ("l2", 0.002))[:hints]
    operands = [with_fields(o, is_late=True, hints=named) if o.name == "b" else o for o in option.operands]
    nest = replace(nest, options=(replace(option, operands=tuple(operands)),))
    found = replace(problem.caches[2].rows, swept_ns=3.0, hinted_swept_count=count, **rows)
    return replace(problem, nests=(nest,), caches=(*CACHES[:2], replace(CACHES[2], rows=found)))


def test_pieces_without_hints_are_late_though_their_rows_are_followed() -> None:
    pieces = 1024 * 1024 / 64
    unasked = begun_ns(late(32), 4, block_k=32, prefetch_b=0, **ORDERS)
    assert unasked == pytest.approx(2.0 * 1024 + 3.0 * pieces)
    assert begun_ns(late(32, hints=0), 4, block_k=32, **ORDERS) == unasked
    never = replace(late(32), nests=swept(32).nests)
    assert begun_ns(never, 4, block_k=32, **ORDERS) == unasked, "also where hints save nothing"
    assert begun_ns(late(32, start_bytes=512), 4, block_k=32, prefetch_b=0, **ORDERS) == pytest.approx(
        2.0 * 1024 + 3.0 * pieces / 2  # pieces of 256 bytes
    )


def test_of_pieces_shorter_than_a_line_no_more_are_late_than_rows_have_lines() -> None:
    """Twelve elements an issue: 86 pieces of each row, which has 64 lines."""
    problem = late(32)
    (nest,) = problem.nests
    (option,) = nest.options
    axes = tuple(replace(a, tile=12) if a.name == "n" else a for a in option.axes)
    short = replace(problem, nests=(replace(nest, options=(replace(option, axes=axes),)),))
    assert begun_ns(short, 1, block_k=32, prefetch_b=0, **ORDERS) == pytest.approx((2.0 + 3.0 * 64) * 1024)


def test_hinted_pieces_take_what_is_stated_of_them() -> None:
    pieces = 1024 * 1024 / 64
    rows = late(32, hinted_swept_ns=1.0)
    assert begun_ns(rows, 4, block_k=32, prefetch_b=1, **ORDERS) == pytest.approx(4.0 * 1024 + pieces)
    assert begun_ns(rows, 4, block_k=32, prefetch_b=0, **ORDERS) == pytest.approx(2.0 * 1024 + 3.0 * pieces)


@pytest.mark.parametrize("cache", [1, 2])
def test_hints_are_in_time_for_so_many_rows_as_are_stated(cache: int) -> None:
    in_time = begun_ns(late(32), 4, block_k=32, prefetch_b=cache, **ORDERS)
    assert in_time == pytest.approx((2.0 + 3.0) * 1024), "each row is begun once"
    too_many = begun_ns(late(31), 4, block_k=32, prefetch_b=cache, **ORDERS)
    assert too_many == pytest.approx((2.0 + 3.0) * 1024 * 1024 / 64)


def test_each_piece_has_hints_of_a_line_and_again_for_each_time_that_it_is_gone_through() -> None:
    problem = late(32)
    option = problem.nests[0].options[0]
    tiling, b = tile(Space(0, option, dict(problem.registers), {})), option.operands[1]

    def hints_ns(columns: int, sweep: int, asked: int = 2) -> float:
        names = {"nest0.unroll.n": columns, "nest0.unroll.m": 4, "nest0.prefetch.b": asked}
        names |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes}
        cost = hint_time(tiling, b, problem, 1024 * 1024 * 4)
        return float(evaluate(cost, {**names, "nest0.sweep.m.n": sweep}))

    once = 0.002 * 1024 * 1024 * 4
    assert hints_ns(1, 0, asked=0) == 0.0
    assert hints_ns(1, 0) == pytest.approx(once), "16 numbers are a line"
    assert hints_ns(4, 0) == pytest.approx(once)
    assert hints_ns(4, 1) == pytest.approx(1024 / 4 * once), "m is outside"


def test_copies_are_not_late() -> None:
    stage = {"stage": 1, "block_k": 32, **ORDERS}
    assert begun_ns(late(32), 4, prefetch_b=0, **stage) == begun_ns(swept(32), 4, **stage)


def test_blocks_of_columns_begin_rows_once_each_where_all_rows_lie_between() -> None:
    """for n by 256 { for k by 32 { for n by 64 { … } } }: the next 256 columns come after all 1024 rows."""
    by_blocks = begun_ns(swept(32), 4, block_n=256, block_k=32, **{**ORDERS, "order_n_k": 1})
    assert by_blocks == pytest.approx(2.0 * 1024 * 4)


def test_a_short_piece_takes_its_share_of_beginning_where_pages_do_not_matter() -> None:
    problem = replace(gemm(1024, 1024, 1024), tlb=Tlb())
    rows = RowTimes(start_ns=2.0, start_bytes=512)
    shared = replace(problem, caches=(*CACHES[:2], replace(CACHES[2], rows=rows)))
    assert begun_ns(shared, 16) == pytest.approx(begun_ns(problem, 16))
    assert begun_ns(shared, 8) == pytest.approx(begun_ns(problem, 8))  # 512 bytes
    assert begun_ns(shared, 1) == begun_ns(shared, 8) < begun_ns(problem, 1)


def test_out_of_memory_pieces_of_a_line_or_two_take_no_share_but_longer_ones_do() -> None:
    problem = gemm(4096, 4096, 4096)
    assert MEMORY_ROWS.short_bytes == 128
    shared = replace(problem, memory_rows=replace(MEMORY_ROWS, start_bytes=512))
    assert begun_ns(shared, 2) == begun_ns(problem, 2)  # 128 bytes
    assert begun_ns(shared, 4) == pytest.approx(begun_ns(problem, 8)) == begun_ns(shared, 8)
    assert begun_ns(shared, 16) == pytest.approx(begun_ns(problem, 16))
