"""Blocks of several warps, teams or cores that share tiles: right at odd sizes, in models and by OpenCL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import count
from math import prod

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import verify_case
from isamap.emit.lanes import emit_lanes
from isamap.ir import Index
from isamap.lower.barrier_check import check_barriers
from isamap.lower.program import Barrier, For, If, Issue, LoweredProgram, MemoryRef, Node, Parallel
from isamap.lower.walk import children, rewrite, walk
from isamap.machine import Machine, load_machine
from isamap.source import Source
from tests.device_kernels import product, shipped

SIZES = {"M": 72, "N": 56, "K": 40}
SHARED = """isamap schedule 1
kernel product
machine {machine}
sizes K = 40, M = 72, N = 56
status MANUAL
nest 0 {{
  map {mapping} (a = A[m, k], b = B[k, n]);
  choose {level}.m = 2, {level}.n = 2;
  par n by {n} {{ par m by {m} {{ for k by {k} {{
    {stage}stage a in shared at 16384;
    hold;
    for k by {tile} {{ unroll n by {pair} {{ unroll m by 32 {{ issue; }} }} }}
  }} }} }}
}}
"""
MATRIX = {
    "nvidia-sm80": SHARED.format(
        machine="nvidia-sm80", mapping="mma_f16 { i: m, j: n, k: k }", level="warp",
        n=32, m=64, k=32, tile=16, pair=16, stage="stage b in shared at 0; ",
    ),
    "amd-rdna3": SHARED.format(
        machine="amd-rdna3", mapping="wmma_f32_f16 { i: m, j: n, k: k }", level="wave",
        n=64, m=64, k=32, tile=16, pair=32, stage="stage b in shared at 0; ",
    ),
}  # fmt: skip
TEAMS = """isamap schedule 1
kernel gemm_f32
machine opencl-simt
sizes K = 9, M = 50, N = 20
status MANUAL
nest 0 {
  map fma_f32 { i: m, j: n } (a = A[m, k], b = B[k, n]);
  choose team.m = 2;
  par m by 32 { stage a in shared at 0; stage b in shared at 7680;
    for n by 16 { hold; for k by 1 { issue; } } }
}
"""
TEAM_SIZES = {"M": 50, "N": 20, "K": 9}


@cache
def verified(machine: str, schedule: str) -> PreparedKernel:
    """Return the product with a schedule, which computes the right results: several tests share it."""
    prepared = prepare(Request(product("f16", "f32"), machine, SIZES, schedule=Source("given", schedule)))
    found = verify_case(prepared, SIZES, "random")
    assert found.ok, found.problems
    return prepared


def program_of(machine: str) -> LoweredProgram:
    made = verified(machine, MATRIX[machine]).program.compilation.program
    assert made is not None
    return made


def test_the_last_part_of_an_axis_takes_no_memory_of_a_block_besides_that_of_whole_parts() -> None:
    private = [b for b in program_of("nvidia-sm80").buffers if b.memory == "shared"]
    assert sorted(b.offset or 0 for b in private) == [0, 16384], "the addresses of the schedule, once each"


@pytest.mark.parametrize("machine", MATRIX)
def test_four_instances_share_the_tiles_of_a_block(machine: str) -> None:
    prepared = verified(machine, MATRIX[machine])
    assert ", 128, given" in prepared.program.emitted.source, "a launch of four times 32 lanes"


@pytest.mark.parametrize("ahead", ["", " ahead 1", " ahead 3"])
@pytest.mark.parametrize("machine", MATRIX)
def test_sums_stay_in_registers_while_the_tiles_of_a_block_are_staged_in_parts(
    machine: str, ahead: str
) -> None:
    outside = MATRIX[machine]
    inside = outside.replace("{ for k by 32 {", "{ hold; for k by 32 {").replace("    hold;\n", "")
    given = inside.replace(" in shared", f"{ahead} in shared")
    each, once = (
        sum(_counted(verified(machine, schedule).program.compilation.program))
        for schedule in (outside, given)
    )
    assert each > once, "sums are loaded for each part of k, or once"


def test_the_scheduler_decides_how_far_ahead_tiles_are_copied() -> None:
    sizes = {"M": 40, "N": 24, "K": 104}
    fixed = {"nest0.parallel.m": 2, "nest0.parallel.n": 1, "nest0.parallel.k": 1, "nest0.block.k": 16}
    fixed |= {"nest0.ahead.a": 2, "nest0.ahead.b": 3}
    kernel = product("f16", "f32", is_aligned=True)
    prepared = prepare(Request(kernel, "nvidia-sm80", sizes, heuristic="greedy", fixed=fixed))
    found = verify_case(prepared, sizes, "random")
    assert found.ok, found.problems
    program = prepared.program.compilation.program
    assert program is not None
    waits = {node.in_flight for node in walk(program.body) if isinstance(node, Barrier)}
    assert 1 in waits, "copies of a arrive in the iteration behind the next one"


def _counted(program: LoweredProgram | None) -> Iterator[int]:
    """Yield how often loads of sums are performed in the loops of a program."""
    assert program is not None

    def inside(nodes: tuple[Node, ...], times: int) -> Iterator[int]:
        for node in nodes:
            if isinstance(node, For):
                yield from inside(node.body, times * (node.trips.value or 1))
            elif isinstance(node, Issue):
                yield times * node.instruction.startswith(("load_f32", "load_acc", "load_c", "load_sums"))
            else:
                yield from inside(children(node), times)

    return inside(program.body, 1)


@pytest.mark.parametrize("model", [False, True])
def test_teams_of_a_work_group_share_local_memory(model: bool) -> None:
    request = Request(
        shipped("gemm_f32"), "opencl-simt", TEAM_SIZES, schedule=Source("given", TEAMS), model=model
    )
    prepared = prepare(request)
    found = verify_case(prepared, TEAM_SIZES, "random")
    assert found.ok, found.problems
    assert ", 512, given" in prepared.program.emitted.source
    if not model and prepared.ran_on != "native":
        pytest.skip("there is no OpenCL device")


def test_cores_of_a_cluster_are_described_by_the_same_words() -> None:
    sizes = {"M": 19, "N": 9, "K": 5}
    prepared = prepare(Request(shipped("gemm_f32"), "core-cluster", sizes, heuristic="greedy"))
    found = verify_case(prepared, sizes, "random")
    assert found.ok, found.problems
    schedule = prepared.program.compilation.schedule
    assert schedule is not None
    (nest,) = schedule.nests
    assert prod(cores for name, cores in nest.choose if name.startswith("core.")) == 8


def test_a_kernel_with_fewer_tiles_than_cores_leaves_cores_idle() -> None:
    sizes = {"M": 3, "N": 5, "K": 4}
    prepared = prepare(Request(shipped("gemm_f32"), "core-cluster", sizes, heuristic="greedy"))
    assert verify_case(prepared, sizes, "random").ok


# --- faults across instances


def changed(program: LoweredProgram, change: Callable[[Node], tuple[Node, ...] | None]) -> LoweredProgram:
    return replace(program, body=rewrite(program.body, change))


def instead(old: Node, new: Node, node: Node) -> tuple[Node, ...] | None:
    return (new,) if node == old else None


def counters(program: LoweredProgram) -> list[str]:
    return [
        c
        for node in walk(program.body)
        if isinstance(node, Parallel) and node.level
        for c, _ in node.counters
    ]


def is_of_team(node: If, program: LoweredProgram) -> bool:
    own = set(counters(program))
    return any(own & (left.symbols | right.symbols) for left, _, right in node.conditions)


def machine_of(machine: str) -> Machine:
    return load_machine(machine)


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("machine", MATRIX)
def test_instances_that_store_the_same_tile_are_found(machine: str, place: int) -> None:
    program, described = program_of(machine), machine_of(machine)
    stores = [n for n in walk(program.body) if isinstance(n, Issue) and n.instruction.startswith("store")]
    tails = [n for node in walk(program.body) if isinstance(node, If) and is_of_team(node, program)
             for n in walk(node.body)]  # fmt: skip
    stores = [store for store in stores if store not in tails]
    store = stores[place * len(stores) // 4]
    for counter in counters(program):
        operands = tuple(
            (name, replace(ref, offset=ref.offset.substitute({counter: Index.of(0)})))
            if isinstance(ref, MemoryRef)
            else (name, ref)
            for name, ref in store.operands
        )
        assert operands != store.operands, "each instance stores elements of its own"
        other = replace(store, operands=operands)
        said = check_barriers(changed(program, partial(instead, store, other)), described)
        assert f"several instances of a block write the same elements by {store.instruction}" in said


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize("machine", MATRIX)
def test_barriers_that_only_some_instances_reach_are_found(machine: str) -> None:
    program, described = program_of(machine), machine_of(machine)
    (first, *_) = counters(program)
    barriers = count()

    def alone(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, Barrier) or next(barriers) > 0:
            return None
        return (If(((Index.of(first), "==", Index.of(0)),), (node,)),)

    said = check_barriers(changed(program, alone), described)
    assert "only some instances of a block reach a barrier" in said
    source = emit_lanes(program, described, model=True).source
    assert source.count("BARRIER;") > 4
