"""What a part of a statement sees of a machine whose cores share some of what they have."""

from __future__ import annotations

from dataclasses import replace

from plan_problems import CACHES, gemm

from isamap.plan.problem import Problem
from isamap.scheduler.deciding.partitioning import part_of, part_problem


def seen(problem: Problem, threads: int, **parts: int) -> Problem:
    """Return the problem of one of so many parts, with some threads beside it."""
    part = part_of(problem.nests[0].options[0], parts)
    assert part is not None
    return part_problem(replace(problem, threads=threads), part)


def test_parts_divide_the_room_of_a_cache_that_cores_share_and_not_its_bandwidth() -> None:
    nearest, second, last = CACHES
    problem = replace(gemm(1024, 1024, 1024), caches=(nearest, second, replace(last, cores=3)))
    for threads, parts, room in ((2, 2, 2), (3, 3, 3), (8, 8, 3), (2, 8, 2)):
        found = seen(problem, threads, m=parts).caches
        assert found[:2] == (nearest, second)
        assert found[2].capacity_bytes == last.capacity_bytes // room
        assert found[2].bandwidth_bytes_per_ns == last.bandwidth_bytes_per_ns


def test_parts_divide_both_where_the_link_is_shared() -> None:
    nearest, second, last = CACHES
    problem = replace(gemm(1024, 1024, 1024), caches=(nearest, second, replace(last, cores=2, shared=True)))
    found = seen(problem, 4, n=4).caches[2]
    assert found.capacity_bytes == last.capacity_bytes // 4
    assert found.bandwidth_bytes_per_ns == last.bandwidth_bytes_per_ns / 4
