"""What all levels of memory take: each line counts where it comes from; what copies read hides nowhere."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from plan_problems import MEMORY_ROWS, gemm

from isamap.machine.timings import RowTimes
from isamap.plan.cost import Const, evaluate
from isamap.plan.problem import Problem, TileOperand, with_fields
from isamap.scheduler import AnalyticModel
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import Tiling, tile
from isamap.scheduler.effects.levels import Misses, added_in_pieces, copying_afar, one_after_another
from isamap.scheduler.effects.residence import starts
from isamap.scheduler.effects.time_parts import Counts

SPEEDS = (("l2", 200.0), ("l3", 100.0), ("memory", 40.0))


def together_ns(
    *moved_bytes: float, begun_ns: float = 0.0, speeds: tuple[tuple[str, float], ...] = SPEEDS
) -> float:
    """Return the time of one operand of which each level sends so many bytes; rows are begun in the last one."""
    found: list[Misses] = []
    for size, (source, bandwidth) in zip(moved_bytes, speeds, strict=False):
        begun = begun_ns if len(found) + 1 == len(moved_bytes) else 0.0
        lines = size / bandwidth
        found.append(
            Misses(
                source, bandwidth, 0.0, 1.0, 1.0, (Const(lines),), (Const(begun),), (Const(lines + begun),)
            )
        )
    return float(evaluate(one_after_another(found), {}))


def test_what_is_read_once_from_memory_takes_what_memory_takes() -> None:
    assert together_ns(8000, 8000, 8000) == pytest.approx(8000 / 40)


def test_each_line_counts_where_it_comes_from() -> None:
    assert together_ns(10000, 4000, 1000) == pytest.approx(6000 / 200 + 3000 / 100 + 1000 / 40)


def test_levels_take_longer_together_than_the_slowest_of_them() -> None:
    assert together_ns(10000, 4000) > max(10000 / 200, 4000 / 100)


def test_rows_are_begun_on_top_of_what_their_lines_take() -> None:
    assert together_ns(8000, 8000, begun_ns=7) == pytest.approx(8000 / 100 + 7)


def test_a_level_that_is_faster_than_the_one_before_adds_nothing() -> None:
    faster = (("l2", 100.0), ("l3", 400.0))
    assert together_ns(1000, 1000, speeds=faster) == pytest.approx(1000 / 100)


def test_no_level_is_taken_for_faster_than_it_is_by_itself() -> None:
    assert together_ns(100, 9000) == pytest.approx(9000 / 100)


def in_pieces_ns(size_bytes: float, *factors: float, hinted: bool = False) -> float:
    """Return what shows of lines that pass every level, of which each has so much of them show."""
    missed = [
        Misses(source, bandwidth, 1.0, factor, factor / 2, (Const(size_bytes / bandwidth),), (), ())
        for (source, bandwidth), factor in zip(SPEEDS, factors, strict=False)
    ]
    shown = ((share, level.lines[0]) for level, share in added_in_pieces(missed, hinted=hinted))
    return sum(share * float(evaluate(lines, {})) for share, lines in shown)


def test_of_lines_in_pieces_as_much_shows_as_where_they_come_from() -> None:
    assert in_pieces_ns(8000, 1, 1, 1) == pytest.approx(8000 / 40)
    assert in_pieces_ns(8000, 0.5, 0.25, 0.5) == pytest.approx(0.5 * 8000 / 40)
    assert in_pieces_ns(8000, 0.5) == pytest.approx(0.5 * 8000 / 200)


def test_of_hinted_lines_as_much_shows_as_is_stated_of_them() -> None:
    assert in_pieces_ns(8000, 0.5, 0.5, 1.0, hinted=True) == pytest.approx(
        in_pieces_ns(8000, 0.25, 0.25, 0.5)
    )


def test_lines_from_farther_on_show_no_less_than_those_that_are_near() -> None:
    assert in_pieces_ns(8000, 1, 0.1) == pytest.approx(8000 / 200)


def reading(problem: Problem, **changes: object) -> float:
    option = problem.nests[0].options[0]
    tiling = tile(Space(0, option, dict(problem.registers), {}))
    b = next(o for o in option.operands if o.name == "b")
    return copying_afar(tiling, with_fields(b, **changes), problem)


def test_a_copy_reads_its_input_out_of_where_all_tensors_lie() -> None:
    near, far = gemm(1024, 1024, 1024), gemm(4096, 4096, 4096)
    assert reading(near) == pytest.approx(4 * 1024 * 1024 / near.caches[2].bandwidth_bytes_per_ns)
    assert reading(far) == pytest.approx(4 * 4096 * 4096 / far.memory_bandwidth_bytes_per_ns)


def test_a_copy_of_results_goes_both_ways() -> None:
    near = gemm(1024, 1024, 1024)
    assert reading(near, is_accumulator=True) == pytest.approx(2 * reading(near))


def test_a_copy_out_of_the_first_cache_or_into_a_scratchpad_waits_for_nothing() -> None:
    assert reading(gemm(32, 32, 32)) == 0.0
    assert reading(gemm(1024, 1024, 1024), homes=("spad",)) == 0.0
    assert reading(replace(gemm(1024, 1024, 1024), caches=())) == 0.0


def test_a_copy_of_what_an_iteration_is_the_first_to_use_reads_it_out_of_where_its_array_lies() -> None:
    near = gemm(32, 32, 32)
    one_bytes = 4 * 32 * 32
    last, memory = near.caches[2].bandwidth_bytes_per_ns, near.memory_bandwidth_bytes_per_ns
    rooms = [cache.capacity_bytes for cache in near.caches]
    assert reading(near, fresh_bytes=rooms[0]) == 0.0
    assert reading(near, fresh_bytes=rooms[2]) == pytest.approx(one_bytes / last)
    assert reading(near, fresh_bytes=rooms[2] + 1) == pytest.approx(one_bytes / memory)


def test_a_copy_costs_what_it_reads_on_top_of_what_is_computed() -> None:
    problem = gemm(1024, 1024, 1024)
    nest = problem.nests[0]
    option = nest.options[0]
    shares = AnalyticModel().shares(problem, nest, option)
    packing = next(s for s in shares if (s.name, s.operand) == ("packing", "b"))
    space = Space(0, option, dict(problem.registers), {})
    made = {space.stage(o): 1 for o in option.operands}
    made |= {space.block(axis): 64 for axis in option.axes}
    made |= {name: 0 for name, _, _ in space.order_pairs()}
    made |= {"nest0.ahead.b": 0}
    b = next(o for o in option.operands if o.name == "b")
    copied_ns = 1024 * 1024 * b.staging.pack_ns_per_element
    assert packing.counts is Counts.ON_TOP
    assert float(evaluate(packing.cost, made)) >= copied_ns + reading(problem)


def side_by_side(problem: Problem, dense: str, rows: int, stage: int = 0) -> float:
    """Return the time to begin the rows of b when a register block reads so many vectors or rows."""
    option = problem.nests[0].options[0]
    tiling: Tiling = tile(Space(0, option, dict(problem.registers), {}))
    b: TileOperand = with_fields(next(o for o in option.operands if o.name == "b"), dense_axis=dense)
    names = {"nest0.unroll.n": rows, "nest0.unroll.m": 1, "nest0.stage.b": stage}
    names |= {f"nest0.block.{axis.name}": axis.extent for axis in option.axes}
    return sum(float(evaluate(starts(tiling, b, problem, n), names)) for n in range(len(problem.caches)))


def test_lines_of_more_rows_side_by_side_than_are_followed_come_late() -> None:
    problem = gemm(4096, 4096, 4096)
    tile_n = next(a.tile for a in problem.nests[0].options[0].axes if a.name == "n")
    followed = MEMORY_ROWS.followed_count // tile_n
    late_ns = MEMORY_ROWS.late_line_ns * 4096 * (4 * 4096 // 64)
    few, many = side_by_side(problem, "k", followed), side_by_side(problem, "k", followed + 1)
    assert many - few == pytest.approx(late_ns)


def test_copies_and_nearer_tensors_have_no_rows_that_come_late() -> None:
    problem, near = gemm(4096, 4096, 4096), gemm(1024, 1024, 1024)
    assert side_by_side(problem, "k", 1, stage=1) == side_by_side(problem, "k", 20, stage=1)
    assert side_by_side(near, "k", 1) == side_by_side(near, "k", 20)


def across(rows: int) -> float:
    """Return the time to begin the rows of b in l3, a page each, in blocks of so many, 64 bytes at once."""
    problem = gemm(24, 1024, 2048)
    stated = RowTimes(start_ns=8.0, start_bytes=320, swept_count=16)
    problem = replace(problem, caches=tuple(replace(cache, rows=stated) for cache in problem.caches))
    space = Space(0, problem.nests[0].options[0], dict(problem.registers), {})
    tiling: Tiling = tile(space)
    b = next(o for o in space.option.operands if o.name == "b")
    names = {space.unroll(axis): 1 for axis in space.axes} | {space.stage(b): 0}
    names |= {space.block(axis): axis.extent for axis in space.axes} | {"nest0.block.k": rows}
    names |= {name: 0 for name, _, _ in space.order_pairs()} | {"nest0.sweep.m.n": 1}
    return sum(float(evaluate(starts(tiling, b, problem, n), names)) for n in range(len(problem.caches)))


def test_short_pieces_of_rows_on_more_pages_than_are_followed_are_begun_in_full() -> None:
    rows, pieces, shares = 2048, 1024 // 16, 4096 / 320
    assert across(16) == 8.0 * rows
    assert across(32) == 8.0 * rows * ceil(shares)  # as many shares as a row has
    assert across(33) == 8.0 * rows * pieces
