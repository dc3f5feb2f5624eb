"""What the lanes of a machine access in one issue: sectors, and words of banks that follow one another."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from random import Random

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.machine import MachineInstruction, load_machine
from isamap.machine.emit_nodes import EmitSemantics
from isamap.match import pattern_of
from isamap.match.operand_loads.lane_accesses import lane_access_ns, lane_accesses
from isamap.scheduler import AnalyticModel
from isamap.scheduler.effects.time_parts import where_time_goes
from isamap.transform import reads
from tests.device_kernels import product as product_of

MACHINE = load_machine("nvidia-sm80")


@pytest.mark.parametrize(
    ("name", "operand", "strides", "numbers", "wavefronts", "sectors"),
    [
        # Four matrices of 8 rows of 16 bytes. Rows 32 bytes apart: rows 0 and 4 begin in bank 0.
        ("ldmatrix_a_f16", "s", (16, 1), {}, 8, 16),
        # 48 bytes apart, the rows of a matrix begin in banks 0, 12, 24, 4, 16, 28, 8, 20.
        ("ldmatrix_a_f16", "s", (24, 1), {}, 4, 24),
        # 128 bytes apart, all rows begin in bank 0.
        ("ldmatrix_a_f16", "s", (64, 1), {}, 32, 16),
        ("ldmatrix_b_trans_f16", "s", (8, 1), {}, 2, 8),
        # 32 neighbouring floats are 4 sectors; 32 bytes apart each has one of its own, and 8 share a bank.
        ("load_lanes_f32", "x", (1,), {"L": 32}, 1, 4),
        ("load_lanes_f32", "x", (8,), {"L": 32}, 8, 32),
        # Every lane wants the same word.
        ("broadcast_f32", "x", (), {}, 1, 1),
        # A lane loads four bytes along a column one by one.
        ("load_b_i8", "s", (1, 32), {}, 4, 8),
        ("load_b_i8", "s", (8, 1), {}, 8, 8),
    ],
)
def test_accesses_counted_by_hand(
    name: str, operand: str, strides: tuple[int, ...], numbers: dict[str, int], wavefronts: int, sectors: int
) -> None:
    found = lane_accesses(MACHINE.instructions[name], MACHINE, operand, strides, numbers)
    assert found is not None
    assert (found.wavefronts(32, 4), found.sectors(32)) == (wavefronts, sectors)


def count_by_address(
    item: MachineInstruction, operand: str, strides: tuple[int, ...], numbers: dict[str, int]
) -> tuple[int, int]:
    """Return wavefronts and sectors, from a list of each lane's addresses in the order of its registers."""
    pattern = pattern_of(item.instruction)
    assert pattern is not None
    accesses = (pattern.target, *reads(pattern.value))
    (own,) = (read for read in accesses if read.buffer == operand)
    size = own.dtype.size_bytes
    placed = next(
        (read for read in accesses if item.instruction.operand(read.buffer).placement is not None), None
    )
    loads = defaultdict[tuple[int, int], list[int]](list)  # a register of a lane: its addresses
    extents = [axis.extent.substitute(numbers).value or 0 for axis in pattern.axes]
    for number, point in enumerate(product(*map(range, extents))):
        at = {axis.name: value for axis, value in zip(pattern.axes, point, strict=True)}
        address = size * sum(i.evaluate(at) * s for i, s in zip(own.index, strides, strict=True))
        lane, register = number % 32, number // 32
        if placed is not None:
            placement = item.instruction.operand(placed.buffer).placement
            assert placement is not None
            indices = (index.evaluate(at) for index in placed.index)
            here = dict(zip(placement.indices, indices, strict=True))
            by_name = {coordinate: index.evaluate(here) for coordinate, index in placement.coordinates}
            lane, register = by_name["lane"], by_name.get("register", 0)
        loads[register, lane].append(address)
    sectors = {byte // 32 for found in loads.values() for a in found for byte in range(a, a + size)}
    requests = defaultdict[tuple[int, int], list[range]](list)
    for (register, _), found in loads.items():
        ordered, step = sorted(found), 0
        for position, address in enumerate(ordered):
            apart = position > 0 and address > ordered[position - 1] + size
            step += apart and isinstance(item.emit, EmitSemantics)
            requests[register, step].append(range(address, address + size))
    taken = 0
    for wanted in requests.values():
        words = {byte // 4 for bytes_ in wanted for byte in bytes_}
        taken += max(sum(word % 32 == bank for word in words) for bank in range(32))
    return taken, len(sectors)


def test_counts_are_those_of_all_addresses_at_random_strides() -> None:
    random = Random(64)
    cases: list[tuple[str, str, int, dict[str, int]]] = [
        ("ldmatrix_a_f16", "s", 2, {}),
        ("ldmatrix_b_f16", "s", 2, {}),
        ("ldmatrix_b_trans_bf16", "s", 2, {}),
        ("load_a_i8", "s", 2, {}),
        ("load_b_i8", "s", 2, {}),
        ("load_lanes_f32", "x", 1, {"L": 32}),
        ("load_lanes_i8", "x", 1, {"L": 21}),
        ("load_f32", "x", 2, {"R": 16, "C": 8}),
        ("store_f32", "y", 2, {"R": 13, "C": 7}),
        ("stage_f16", "g", 2, {"R": 16, "C": 16}),
        ("stage_i8", "s", 2, {"R": 9, "C": 32}),
    ]
    wrong: list[str] = []
    for _ in range(12):
        for name, operand, rank, numbers in cases:
            strides = tuple(random.choice([1, 2, 3, 8, random.randrange(1, 200)]) for _ in range(rank))
            item = MACHINE.instructions[name]
            found = lane_accesses(item, MACHINE, operand, strides, numbers)
            assert found is not None
            counted = found.wavefronts(32, 4), found.sectors(32)
            if counted != (wanted := count_by_address(item, operand, strides, numbers)):
                wrong.append(f"{name} {strides}: {counted}, by addresses {wanted}")
    assert wrong == []


def test_an_access_takes_the_time_of_its_sectors_or_of_its_busiest_bank() -> None:
    assert lane_access_ns(MACHINE, "load_lanes_f32", "x", (8,), {"L": 32}) == pytest.approx(32 * 32 / 3.6)
    assert lane_access_ns(MACHINE, "ldmatrix_a_f16", "s", (16, 1), {}) == pytest.approx(8 * 4 / 1.41)
    assert lane_access_ns(load_machine("x86-avx512"), "load_f32", "a", (1,), {}) == 0


def test_the_report_names_conflicts_and_unused_sectors() -> None:
    sizes = {"M": 64, "N": 64, "K": 64}
    fixed = {"nest0.stage.a": 1, "nest0.stage.b": 1}
    made = compile_kernel(
        Request(
            product_of("f16", "f32", is_aligned=True), "nvidia-sm80", sizes, heuristic="greedy", fixed=fixed
        ),
        "check",
    )
    assert made.schedule is not None
    assert made.problem is not None
    (time,) = where_time_goes(made.schedule, made.problem, AnalyticModel())
    assert time is not None
    waits = {(share.name, share.operand): share.ns for share in time.shares if share.ns}
    assert waits["conflicts shared", "a"] > 0
