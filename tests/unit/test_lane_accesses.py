"""What the lanes of a machine access in one issue: sectors, and words of banks that follow one another."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from pathlib import Path
from random import Random

import pytest

from isamap.formulate import matches
from isamap.formulate.build import build_problem
from isamap.formulate.matches import find_matches, tiles_of
from isamap.ir import bind
from isamap.machine import Machine, MachineInstruction, load_machine
from isamap.machine.emit_nodes import EmitSemantics
from isamap.match import Tile, pattern_of
from isamap.match.operand_loads.lane_accesses import lane_access_ns, lane_accesses
from isamap.plan.cost import evaluate
from isamap.plan.decisions import stage_of
from isamap.scheduler import AnalyticModel
from isamap.scheduler.deciding.space import Space
from isamap.scheduler.search.greedy import first_assignment
from isamap.source import Source
from isamap.source.records import replace
from isamap.syntax import parse_kernel
from isamap.transform import reads
from tests.device_kernels import product as product_of

MACHINE = load_machine("nvidia-sm80")
MODEL = AnalyticModel()


def test_a_swizzle_takes_rows_128_bytes_apart_to_other_banks(tmp_path: Path) -> None:
    swizzled = load_machine("nvidia-sm90-wgmma")
    text = "isamap: 1\nname: plain\nsummary: without swizzle\nextends: nvidia-sm90-wgmma\nlanguage: |\n"
    text += "  memory shared: scratchpad(bytes = 64 KiB, banks = 32, bank_bytes = 4, interleave_bytes = 4);\n"
    (tmp_path / "plain.yaml").write_text(text, encoding="utf-8")
    plain = load_machine(str(tmp_path / "plain.yaml"))
    # 128 lanes write 16 rows of 16 bytes: of 128 bytes, all rows begin in bank 0, and swizzled, each eighth one does.
    for machine, wavefronts in ((plain, 16), (swizzled, 2)):
        item = machine.instructions["stage_f16"]
        found = lane_accesses(item, machine, "s", (64, 1), {"R": 16, "C": 8})
        assert found is not None
        assert replace(found, is_whole=True).wavefronts(32, 4) == wavefronts
    # Copies of whole rows touch each sector once. Pieces of 16 bytes touch one of 32 bytes each.
    for name, rows, sectors in (("cp_async_64_f16", 8, 32), ("cp_async_8_f16", 64, 64)):
        found = lane_accesses(swizzled.instructions[name], swizzled, "g", (4096, 1), {"R": rows})
        assert found is not None
        assert (len(found.addresses), found.sectors(32)) == (512, sectors)


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
    assert lane_access_ns(MACHINE, "load_lanes_f32", "x", (8,), (("L", 32),)) == pytest.approx(32 * 32 / 3.6)
    assert lane_access_ns(MACHINE, "ldmatrix_a_f16", "s", (16, 1), ()) == pytest.approx(8 * 4 / 1.41)
    assert lane_access_ns(load_machine("simt-32"), "load_lanes_f32", "x", (8,), (("L", 32),)) == 0


def waits_of(
    kernel: Source, sizes: dict[str, int], instruction: str, stage: int
) -> dict[tuple[str, str], float]:
    """Return the times of lanes that the report names, by effect and operand, of an option of one warp."""
    problem = build_problem(bind(parse_kernel(kernel), dict(sizes)), MACHINE, dict(sizes))
    (nest,) = problem.nests
    option = next(o for o in nest.options if o.members == 1 and o.mapping.startswith(instruction))
    fixed = {stage_of(0, o.name): stage for o in option.operands if not o.is_accumulator}
    space = Space(0, option, problem.registers_of(option), {}, problem.room(option))
    made = first_assignment(space, {axis.name: 1 for axis in space.register_axes})
    assert made is not None
    shares = MODEL.shares(problem, nest, option)
    named = [share for share in shares if share.name.startswith(("coalescing", "conflicts"))]
    found = {(share.name, share.operand): float(evaluate(share.cost, {**made, **fixed})) for share in named}
    return {key: ns for key, ns in found.items() if ns}


def _unpadded(tile: Tile, _: Machine) -> Tile:
    return tile


def test_the_report_names_conflicts_where_rows_are_not_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    aligned, sizes = product_of("f16", "f32", is_aligned=True), {"M": 16, "N": 8, "K": 16}
    assert not waits_of(aligned, sizes, "mma_f16", stage=1)
    monkeypatch.setattr(matches, "pad_tiles", _unpadded)
    # One tile: 8 words of the busiest banks, where the description states 16 cycles.
    assert waits_of(aligned, sizes, "mma_f16", stage=1) == {
        ("conflicts shared", "a"): pytest.approx((32 - 16) / 1.41)
    }


def test_the_report_names_sectors_of_which_lanes_use_a_part() -> None:
    column = "kernel column(M) { in x: f32[M, 8]; out y: f32[M]; for m in M { y[m] = x[m, 3] + 1; } }"
    waits = waits_of(Source("column.ir", column), {"M": 64}, "store_lanes_f32", stage=0)
    # Two loads of 32 sectors of 32 bytes, where the description states 64 cycles each.
    assert waits == {("coalescing global", "c"): pytest.approx(2 * (1024 / 3.6 - 64 / 1.41))}


def test_rows_in_shared_memory_are_padded_so_that_no_lanes_meet_in_a_bank() -> None:
    kernel = bind(parse_kernel(product_of("f16", "f32", is_aligned=True)), {"M": 64, "N": 64, "K": 64})
    found = {
        operand.name: (operand.cell_shape, operand.padding)
        for tile in tiles_of(find_matches(kernel, MACHINE)[0], MACHINE)
        if tile.mapping.instruction == "mma_f16"
        for operand in tile.inputs
    }
    # 16 rows of 16 elements, 48 bytes from each other; 16 rows of 8 elements lie in all banks as they are.
    assert found == {"a": ((16, 24), 8), "b": ((16, 8), 0)}
    item = MACHINE.instructions["ldmatrix_a_f16"]
    taken = {row: lane_accesses(item, MACHINE, "s", (row, 1), {}) for row in range(16, 80, 8)}
    wavefronts = {row: accesses.wavefronts(32, 4) for row, accesses in taken.items() if accesses is not None}
    assert min(wavefronts, key=lambda row: (wavefronts[row], row)) == 24
