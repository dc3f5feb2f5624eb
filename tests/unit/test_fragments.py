"""Fragments over the registers of many lanes: `placed … register:` says how many registers one takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.lower.program import Block, Declare, For, If, LoweredProgram, Node, Value
from isamap.lower.registers import number_registers
from isamap.machine import Machine
from isamap.plan.check import check_schedule, live_registers
from isamap.plan.schedule import CountedLoop, NestSchedule, Schedule, UnrolledLoop
from isamap.plan.steady import (
    Dependence,
    LocalValue,
    Operation,
    Pipeline,
    Steady,
    check_pipeline,
    lifetime_of,
)
from isamap.scheduler.pipelines.modulo import find_pipeline
from isamap.source import Infeasible, Source

WARP = Path(__file__).parent.parent / "data" / "machines" / "nv-warp.yaml"
PRODUCT = """kernel product(M, N, K) {
  in A: f16[M, K];
  in B: f16[K, N];
  inout C: f32[M, N];
  for m in M, n in N, k in K { C[m, n] += f32(A[m, k]) * f32(B[k, n]); }
}"""
SIZES = {"M": 128, "N": 128, "K": 64}


def compiled(folder: Path, count: int = 255, named: str = "compiler") -> Compilation:
    """Return the product on a warp with so many registers a lane."""
    path = folder / "nv-warp.yaml"
    text = WARP.read_text(encoding="utf-8").replace("count = 255", f"count = {count}")
    path.write_text(text.replace("named = compiler", f"named = {named}"), encoding="utf-8")
    return compile_kernel(
        Request(Source("product.ir", PRODUCT), str(path), SIZES, heuristic="greedy"), "lower"
    )


def registers_of_values(program: LoweredProgram, machine: Machine) -> dict[str, int]:
    """By the text of each placement, for each point of a fragment: which registers a value has."""
    found: dict[str, int] = {}
    for value in declared(program.body):
        shaped = (
            o
            for item in machine.instructions.values()
            for o in item.instruction.operands
            if o.memory == value.memory and o.dtype == value.dtype
            if tuple(extent.value for extent in o.shape) == value.shape
        )
        placement = next(shaped).placement
        assert placement is not None
        where = dict(placement.coordinates)["register"]
        points = product(*map(range, value.shape))
        found[value.name] = len(
            {where.evaluate(dict(zip(placement.indices, point, strict=True))) for point in points}
        )
    return found


def declared(nodes: tuple[Node, ...]) -> Iterator[Value]:
    for node in nodes:
        if isinstance(node, Declare):
            yield from node.values
        elif isinstance(node, Block | For | If):
            yield from declared(node.body)


def test_operands_take_the_registers_that_their_placement_names(tmp_path: Path) -> None:
    made = compiled(tmp_path)
    assert made.problem is not None
    (option,) = made.problem.nests[0].options
    assert {o.name: o.takes for o in option.operands} == {
        "a": (("reg", 4),),
        "b": (("reg", 2),),
        "c": (("reg", 4),),
    }
    assert made.program is not None
    assert made.machine is not None
    counted = registers_of_values(made.program, made.machine)
    assert counted
    assert {v.name: v.registers for v in declared(made.program.body)} == counted


@pytest.mark.parametrize(("rows", "columns", "fits"), [(6, 9, True), (7, 9, False), (7, 10, False)])
def test_a_block_of_more_fragments_than_registers_is_refused(
    tmp_path: Path, rows: int, columns: int, fits: bool
) -> None:
    made = compiled(tmp_path)
    assert made.schedule is not None
    assert made.problem is not None
    (nest,) = made.schedule.nests
    loops = (
        CountedLoop("m", 16 * rows),
        CountedLoop("n", 8 * columns),
        CountedLoop("k", 16),
        UnrolledLoop("m", 16),
        UnrolledLoop("n", 8),
    )
    stages = tuple(replace(s, depth=0, address=64 * 1024 * n, ahead=0) for n, s in enumerate(nest.stages))
    given = NestSchedule(nest.statement, nest.mapping, nest.choose, loops, stages, hold=2)
    (option,) = made.problem.nests[0].options
    needed = 4 * rows * columns + 4 + 2 * columns
    assert live_registers(given, option) == {"reg": needed}
    asked = Schedule(made.problem.kernel, made.problem.machine, made.problem.sizes, (given,))
    said = [d.message for d in check_schedule(asked, made.problem)]
    assert said == ([] if fits else [f"nest 0: {needed} registers of `reg` are needed, there are 255"])


@pytest.mark.parametrize("count", [10, 16, 31, 64])
def test_schedules_stay_within_the_registers_of_fragments(tmp_path: Path, count: int) -> None:
    made = compiled(tmp_path, count, "immediate")
    assert made.program is not None
    assert made.machine is not None
    placed = [
        range(v.register, v.register + v.registers)
        for v in declared(made.program.body)
        if v.register is not None
    ]
    assert placed
    assert all(place.stop <= count for place in placed)


def test_numbers_of_fragments_that_live_together_do_not_overlap(tmp_path: Path) -> None:
    made = compiled(tmp_path, 64, "immediate")
    assert made.program is not None

    def check(nodes: tuple[Node, ...], around: frozenset[int]) -> None:
        held = {v.name: v for node in nodes if isinstance(node, Declare) for v in node.values}
        outer = {n for v in held.values() if _outlives(v.name, nodes) for n in _numbers(v)}
        assert not outer & around
        for node in nodes:
            if isinstance(node, For):
                check(node.body, around | outer)

    check(made.program.body, frozenset())


def _outlives(name: str, nodes: tuple[Node, ...]) -> bool:
    """Return whether a value is declared in front of a loop that names it."""
    return any(isinstance(node, For) and f"'{name}'" in repr(node) for node in nodes)


def _numbers(value: Value) -> range:
    assert value.register is not None
    return range(value.register, value.register + value.registers)


def test_too_few_numbers_in_a_row_are_refused(tmp_path: Path) -> None:
    made = compiled(tmp_path, 10, "immediate")
    assert made.machine is not None
    dtype = made.machine.instructions["zero_f32"].instruction.operand("d").dtype
    values = [Value(f"v{n}", "reg", dtype, (16, 8), 4) for n in range(3)]
    numbered = number_registers((Declare(tuple(values[:2])),), made.machine)
    assert [v.register for v in declared(numbered)] == [0, 4]
    with pytest.raises(Infeasible, match="more values are alive at once than `reg` has registers"):
        number_registers((Block("nest", (Declare(tuple(values)),)),), made.machine)


def test_a_pipeline_counts_all_registers_of_its_values() -> None:
    chain = [Operation(f"o{n}", "u", 1) for n in range(3)]
    values = (LocalValue("v", "r", 0, (1,), 4), LocalValue("w", "r", 1, (2,), 2))
    waits = (Dependence(0, 1, 1, 0), Dependence(1, 2, 1, 0))
    asked = Steady(tuple(chain), waits, values, (("u", 3),), (("r", 5),), 1.0)
    together = Pipeline(1, (0, 1, 2))
    assert lifetime_of(asked, together) == 6
    assert [d.message for d in check_pipeline(asked, together)] == [
        "6 registers of `r` are taken at once, and 5 are free"
    ]
    assert not list(check_pipeline(replace(asked, registers=(("r", 6),)), together))
    found = find_pipeline(asked, 5.0)
    assert found is not None
    assert not list(check_pipeline(asked, found.pipeline))
