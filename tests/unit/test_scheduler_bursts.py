"""What is used faster than it comes from afar: lines count by what is computed for them meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_problems import MEMORY_BANDWIDTH, gemm

from isamap.machine.timings import StreamTimes
from isamap.plan.cost import Const, evaluate
from isamap.plan.problem import Problem, with_fields
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.deciding.tiling import tile
from isamap.scheduler.effects.bursts import exposed_loads
from isamap.scheduler.effects.levels import misses

SIZE = 4096  # 64 MB each: out of memory
ISSUE_NS, VECTOR_BYTES = 0.14, 64
STREAMS = StreamTimes(1.0, 0.5, 0.5, 0.0, 10.0, 256, 4096, row_computing_factor=1.0)


def decided(rows: int, columns: int, **blocks: int) -> dict[str, int]:
    """Return all in place, register blocks of so many issues, blocks of n outside of those of k and m."""
    names = {"nest0.unroll.m": rows, "nest0.unroll.n": columns, "nest0.unroll.k": 1}
    names |= {f"nest0.stage.{name}": 0 for name in "abc"}
    names |= {f"nest0.block.{axis}": blocks.get(axis, SIZE) for axis in "mnk"}
    return names | {"nest0.order.m.n": 0, "nest0.order.m.k": 0, "nest0.order.n.k": 1, "nest0.sweep.m.n": 0}


def shown_ns(problem: Problem, name: str, assignment: dict[str, int]) -> float:
    """Return what shows of one input."""
    space = Space(0, problem.nests[0].options[0], dict(problem.registers), {})
    operands = space.option.operands
    missed = [
        replace(
            level,
            lines=tuple(
                x if o.name == name else Const(0) for o, x in zip(operands, level.lines, strict=True)
            ),
        )
        for level in misses(tile(space), problem)
    ]
    return float(evaluate(exposed_loads(tile(space), problem, missed), assignment))


def flat(bandwidth: float) -> Problem:
    """Return a product out of memory at some bandwidth, with caches that are as fast as computing."""
    problem = gemm(SIZE, SIZE, SIZE)
    caches = tuple(replace(c, bandwidth_bytes_per_ns=1e6) for c in problem.caches)
    return replace(problem, caches=caches, memory_bandwidth_bytes_per_ns=bandwidth)


@pytest.mark.parametrize("rows", [1, 4, 9, 16, 30])
def test_a_line_shows_as_far_as_its_issues_take_less_than_it(rows: int) -> None:
    """B is read once per iteration of m, of which there is one: each line serves `rows` issues."""
    taken_ns = max(0.0, VECTOR_BYTES / MEMORY_BANDWIDTH - rows * ISSUE_NS)
    lines = SIZE * SIZE * 4 / VECTOR_BYTES
    assignment = decided(rows, 2, n=32)
    assert shown_ns(flat(MEMORY_BANDWIDTH), "b", assignment) == pytest.approx(lines * taken_ns)


def test_rows_along_the_sum_serve_all_columns_of_a_block() -> None:
    """An element of A serves one issue per vector: 0.2 ns out of memory beside 0.14 and 0.28 of issues."""
    problem = flat(20.0)
    assert shown_ns(problem, "a", decided(4, 1, n=16)) > 0
    assert shown_ns(problem, "a", decided(4, 2, n=32)) == 0


def test_rows_along_the_sum_hide_where_computing_takes_as_much_longer_as_is_stated() -> None:
    """0.2 ns out of memory for an element of A: all of it beside 0.14 of issues, half beside 0.28, as 2 * 0.2
    - 0.28 is left, and nothing beside 0.42; columns of B hide as before.
    """
    plain = flat(20.0)
    stated = replace(plain, memory_streams=STREAMS)
    each_ns = SIZE * SIZE * 4 / 20  # A comes once for each block of columns
    for vectors, left in ((1, 1.0), (2, 0.6), (3, 0.0)):
        assignment = decided(4, vectors, n=16 * vectors)
        blocks = -(-SIZE // (16 * vectors))
        assert shown_ns(stated, "a", assignment) == pytest.approx(left * blocks * each_ns)
        assert shown_ns(stated, "b", assignment) == pytest.approx(shown_ns(plain, "b", assignment))


def test_what_was_packed_before_has_no_rows_along_the_sum() -> None:
    plain = flat(20.0)
    (nest,) = plain.nests
    (option,) = nest.options
    packed = tuple(with_fields(o, is_packed=o.name == "a") for o in option.operands)
    nests = (replace(nest, options=(replace(option, operands=packed),)),)
    stated = replace(plain, nests=nests, memory_streams=STREAMS)
    for vectors in (1, 2):
        assignment = decided(4, vectors, n=16 * vectors)
        assert shown_ns(stated, "a", assignment) == shown_ns(plain, "a", assignment)


def test_rows_along_the_sum_hide_out_of_caches_where_computing_takes_as_long() -> None:
    size = 1024  # 12 MB
    problem = gemm(size, size, size)
    caches = tuple(replace(c, bandwidth_bytes_per_ns=1e6) for c in problem.caches[:2])
    # It is the place that counts, whatever a description calls it.
    last = replace(problem.caches[2], name="memory", bandwidth_bytes_per_ns=20.0)
    assert last.capacity_bytes > 3 * 4 * size * size
    stated = replace(problem, caches=(*caches, last), memory_streams=STREAMS)
    expected = 0.3 * (size // 16) * 4 * size * size / 20
    assert shown_ns(stated, "a", decided(4, 1, n=16)) == pytest.approx(expected)
    assert shown_ns(stated, "a", decided(4, 2, n=32)) == 0


def test_what_comes_again_shows_again() -> None:
    problem, often = flat(5.0), decided(4, 2, m=1024)
    often |= {"nest0.order.m.n": 1, "nest0.order.m.k": 1}
    assert shown_ns(problem, "b", often) == pytest.approx(4 * shown_ns(problem, "b", decided(4, 2, n=32)))


def test_nearer_levels_show_what_farther_ones_do_not_count() -> None:
    """Out of a cache and of memory: all lines by the cache's bandwidth, and what memory takes beyond that."""
    problem = flat(10.0)
    caches = (*problem.caches[:2], replace(problem.caches[2], bandwidth_bytes_per_ns=20.0))
    both = replace(problem, caches=caches)
    assignment = decided(2, 2, n=32)
    assert shown_ns(both, "b", assignment) == pytest.approx(shown_ns(problem, "b", assignment))


def test_fast_memory_shows_nothing() -> None:
    assert shown_ns(flat(1e6), "b", decided(4, 2, n=32)) == 0
