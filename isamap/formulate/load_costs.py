"""Price the load of a mapping's operand: in place, from a buffer, and the copy into the buffer.

C[m, n] += A[m, k] * B[k, n]   A and B as inputs, C as accumulator: loaded, added to and written back
C[m, n] = X[n, m] + 1          C as accumulator, and X in addition, for its traffic

A unit that copies by itself fills one buffer while another unit computes from another buffer: mvin moves 16
rows of dram to spad on unit `load`, matmul computes on `execute`. A vector unit that loads and stores
cannot: one stream of instructions does both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from isamap.formulate.copy_costs import can_copy, pack_held_ns, pack_ns
from isamap.formulate.load_times import issue_latency_ns, issued_pj, lane_wait, load_ns, unit_ns
from isamap.ir import Cast, DType, Index, Kernel, Read
from isamap.machine import Machine, MachineInstruction
from isamap.machine.timings import MODEL
from isamap.match import find_operand_load, hide_position, sum_of_lanes
from isamap.match.moves.chains import issued_ns
from isamap.match.moves.scratch_buffers import homes_of, scratch_move
from isamap.match.moves.together import tiles_move
from isamap.match.operand_loads.load_request import LoadRequest, MoveSearch, OperandMove, count_registers
from isamap.match.operand_loads.store_search import find_operand_store, least_copy_ns
from isamap.match.patterns.address import Location, is_lane
from isamap.match.tiles.operand_tiles import (
    OperandTile,
    Tile,
    accumulator_store,
    bring,
    in_tiles,
    is_read_of,
    part_of,
)
from isamap.match.tiles.overlapping_windows import windows_of
from isamap.plan.problem import (
    NO_WAITS,
    MoveEnergy,
    Staging,
    TensorLayout,
    TileCosts,
    TileOperand,
    with_fields,
)
from isamap.source import add_up, replace
from isamap.transform import distinct_reads, reads, symbols


def input_of(
    operand: OperandTile, tile: Tile, search: MoveSearch, kernel: Kernel, *, prices_copies: bool = True
) -> TileOperand | None:
    """Return an input with the costs of its loads, or None if it cannot be loaded from a buffer."""
    direct = bring(search, tile, operand, operand.request({}, expr=hide_position(operand.elements, is_lane)))
    homes = homes_of(tile, operand, search)
    if not homes and direct is None:
        return None
    # Without a home nothing brings it from a buffer; it is read in place then.
    first, staged = next(iter(homes.items()), ("", None))
    unit = search.machine.instructions[tile.mapping.instruction].cost.unit
    in_place = _describe_operand(operand, kernel, load_ns(direct), None, is_accumulator=False)
    in_place = with_fields(
        in_place,
        direct_busy_ns=unit_ns(direct, unit, search),
        staged_busy_ns=unit_ns(staged, unit, search),
        energy=MoveEnergy((issued_pj(direct, search), 0.0), (issued_pj(staged, search), 0.0)),
        lane_waits=(lane_wait(direct, search), lane_wait(staged, search), *NO_WAITS[2:]),
    )
    if not homes or (not first and not can_copy(operand, tile, search)):
        return in_place if direct is not None and _reads_ends_in_place(operand, tile, search) else None
    described = with_fields(in_place, staged_ns=load_ns(staged))
    if not prices_copies:
        least = (
            0.0 if first else min(search.machine.model.unpriced_move_ns, least_copy_ns(search, operand.dtype))
        )
        is_concurrent = not first and copied_by_other_units(tile, operand.dtype, search.machine)
        return with_fields(
            described, pack_ns_per_element=least, homes=tuple(homes), is_concurrent=is_concurrent
        )
    moved = _scratch_ns(operand, tile, first, search) if first else pack_ns(operand, direct, tile, search)
    described = with_fields(described, pack_ns_per_element=moved, homes=tuple(homes))
    if first:
        copied = _scratch_pj(operand, tile, first, search), 0.0
        energy = replace(described.costs.energy, copied=copied)
        found = tiles_move(operand, tile, first, search)
        waits = (*described.costs.lane_waits[:2], ("", 0.0) if found is None else found.move.waits)
        windows = windows_of(operand, tile, search)
        described = with_fields(described, windows=windows, energy=energy, lane_waits=waits)
    return with_mover(described, operand, tile, search)


def _reads_ends_in_place(operand: OperandTile, tile: Tile, search: MoveSearch) -> bool:
    """Return whether all tiles are read in place, including those at the ends of axes."""
    ends = {
        a.name: Index.of(a.extent.value % a.tile)
        for a in tile.axes
        if a.name in {*operand.parts, *operand.scattered} and a.extent.value and a.extent.value % a.tile
    }
    if not ends or ends.keys() & operand.scattered:
        return not ends
    filled = any(tile.axis(name).is_reduction for name in ends)
    return bring(search, tile, operand, operand.request(ends, filled=filled)) is not None


def _scratch_ns(
    operand: OperandTile, tile: Tile, home: str, search: MoveSearch, *, back: bool = False
) -> float:
    """Return the time to move one element into its scratchpad, or back."""
    moved = tiles_move(operand, tile, home, search, back=back)
    assert moved is not None, "homes are those that something moves to"
    return moved.move.cost_ns + add_up(ns for _, ns in moved.move.computing)


def _scratch_pj(
    operand: OperandTile, tile: Tile, home: str, search: MoveSearch, *, back: bool = False
) -> float:
    """Return the energy of the instruction that moves one element into its scratchpad, or back."""
    moved = tiles_move(operand, tile, home, search, back=back)
    return 0.0 if moved is None else moved.move.energy_pj


def computed_of_packed(
    operand: OperandTile, tile: Tile, packed: Sequence[str], search: MoveSearch, kernel: Kernel
) -> tuple[TileOperand, ...]:
    """Return an operand computed from a packed array, with its arrays, or () for other operands.

    The array's tiles lie in the packed buffer as they are, and the value is computed behind their load.
    """
    found = distinct_reads(operand.subject)
    position = next((n for n, read in enumerate(found) if read.buffer in packed), None)
    if position is None or is_read_of(operand.subject) is not None or search.is_addressable(operand.memory):
        return ()
    part = part_of(tile, operand, position)
    if part is None or not can_copy(part, tile, search):
        return ()
    loaded = find_operand_load(search, part.request({}, expr=in_tiles(part, search)))
    if loaded is None:
        return ()
    described = _describe_operand(operand, kernel, load_ns(loaded), None, is_accumulator=False)
    described = with_fields(described, tensor_bytes=0, staged_bytes=0)
    arrays = [traffic_operand(described, tile, read, n) for n, read in enumerate(found)]
    size_bytes = found[position].dtype.size_bytes
    arrays[position] = with_fields(
        arrays[position], direct_ns=None, staged_ns=0.0, staged_bytes=size_bytes, pack_ns_per_element=0.0
    )
    return (described, *arrays)


def with_reads(described: TileOperand, operand: OperandTile, tile: Tile) -> tuple[TileOperand, ...]:
    """Return the operand with the traffic of its arrays. It is never staged if there are several arrays."""
    if len(reads(operand.subject)) < 2 or described.costs.direct_ns is None:
        return (described,)
    parts = (
        traffic_operand(described, tile, read, position)
        for position, read in enumerate(distinct_reads(operand.subject))
    )
    return (with_fields(described, tensor_bytes=0, staged_bytes=0, staged_ns=None), *parts)


def traffic_operand(operand: TileOperand, tile: Tile, read: Read, position: int) -> TileOperand:
    """Return one of an operand's source arrays as an operand with only its traffic."""
    axes = tuple(a.name for a in tile.axes if f"@{a.name}" in symbols(read))
    return with_fields(
        operand,
        name=f"{operand.name}.{position}",
        tensor=read.buffer,
        axes=axes,
        is_accumulator=False,
        registers=0,
        tile_elements=prod(tile.axis(a).tile for a in axes),
        tensor_bytes=read.dtype.size_bytes,
        direct_ns=0.0,
        staged_ns=None,
        energy=MoveEnergy(),
        lane_waits=NO_WAITS,
    )


def _describe_operand(
    operand: OperandTile,
    kernel: Kernel,
    direct: float | None,
    staged: float | None,
    *,
    is_accumulator: bool,
    stage_whole: bool = False,
) -> TileOperand:
    tensor = is_read_of(operand.subject) or operand.name
    dtype = next((o.dtype for o in kernel.operands if o.name == tensor), operand.dtype)
    return TileOperand(
        operand.name,
        tensor,
        tuple(a for a in operand.axes),
        is_accumulator,
        operand.memory,
        count_registers(operand.placement, operand.shape),
        prod(operand.cell_shape),
        TensorLayout(dtype.size_bytes),
        TileCosts(direct, staged),
        Staging(operand.dtype.size_bytes, MODEL.unpriced_move_ns, stage_whole=stage_whole),
    )


def held_of(tile: Tile, search: MoveSearch, kernel: Kernel, *, prices_copies: bool) -> TileOperand | None:
    """Return the accumulator or the written register, loaded and stored in place or through a buffer."""
    if tile.accumulator is None:
        assert tile.result is not None
        found = store_of(tile, search)
        if found is None:
            return None
        written = _describe_operand(tile.result, kernel, issued_ns(found), None, is_accumulator=True)
        waits = (lane_wait(found, search), *NO_WAITS[1:])
        return _describe_written(tile, with_fields(written, lane_waits=waits))
    acc = tile.accumulator
    if tile.held is not None:
        return _shares(tile, acc, tile.held, search, kernel)
    homes = homes_of_sums(tile, acc, search)
    if not homes:
        return None
    target, expr = accumulator_store(tile)
    there = hide_position(target, is_lane)
    assert isinstance(there, Read)
    first = find_operand_load(search, acc.request({}, expr=hide_position(acc.elements, is_lane)))
    back = find_operand_store(search, there, expr, "", None, acc.request({}))
    direct = None if first is None or back is None else (load_ns(first) or 0.0) + back.cost_ns
    home, staged = next(iter(homes.items()))
    # In a scratchpad sums stay until they are whole: their parts never go through main memory.
    stays = isinstance(acc.elements, Cast) or bool(home)
    described = _describe_operand(acc, kernel, direct, staged, is_accumulator=True, stage_whole=stays)
    waits = [wait for move in (first, back) if (wait := lane_wait(move, search))[0]]
    direct_waits = (waits[0][0], add_up(ns for _, ns in waits)) if waits else ("", 0.0)
    described = with_fields(
        described,
        energy=MoveEnergy((issued_pj(first, search), issued_pj(back, search))),
        lane_waits=(direct_waits, *NO_WAITS[1:]),
    )
    if not prices_copies:
        return with_fields(described, homes=tuple(homes), pack_ns_per_element=0.0)
    if not home:
        packed = pack_held_ns(acc, tile, search)
        return with_fields(described, homes=tuple(homes), pack_ns_per_element=packed)
    ways = (True,) if tile.overwrites(acc) else (False, True)
    moved = [_scratch_ns(acc, tile, home, search, back=back) for back in ways]
    loaded = homes_of(tile, acc, search)[home]
    stored = None
    if not isinstance(loaded, Location):
        cell = in_tiles(acc, search, home)
        stored = find_operand_store(search, cell, acc.held, acc.memory, acc.dtype, acc.request({}))
    copied = [
        _scratch_pj(acc, tile, home, search, back=back) if back in ways else 0.0 for back in (False, True)
    ]
    energy = replace(
        described.costs.energy,
        staged=(issued_pj(loaded, search), issued_pj(stored, search)),
        copied=(copied[0], copied[1]),
    )
    described = with_fields(
        described, homes=tuple(homes), pack_ns_per_element=add_up(moved) / 2, energy=energy
    )
    return with_mover(described, acc, tile, search)


def store_of(tile: Tile, search: MoveSearch) -> OperandMove | None:
    """Return the instructions that compute and write the tile of an assigning statement, or None."""
    assert tile.result is not None
    assert tile.target_elements is not None
    assert tile.value_elements is not None
    # The axes of the instruction that no kernel axis runs on.
    fixed = {a.name: a.extent for a in tile.axes if a.name.startswith("_") and a.tile > 1}
    request = tile.result.request(fixed)
    args = (tile.target_elements, tile.value_elements, tile.result.memory, tile.result.dtype, request)
    found = find_operand_store(search, *args)
    return found if found is not None and found.instruction == tile.mapping.instruction else None


def _describe_written(tile: Tile, described: TileOperand) -> TileOperand:
    """Return the written register as its target. A scalar takes as many stores as a tensor."""
    target = tile.target_positions
    assert target is not None
    axes = tuple(a for a in tile.axes if f"@{a.name}" in symbols(target))
    return with_fields(
        described,
        tensor=target.buffer,
        axes=tuple(a.name for a in axes),
        tile_elements=prod(a.tile for a in axes),
        tensor_bytes=target.dtype.size_bytes,
    )


def homes_of_sums(tile: Tile, acc: OperandTile, search: MoveSearch) -> dict[str, float]:
    """Return the time to load sums from a buffer and store them, by backing memory. Units: nanoseconds."""
    found: dict[str, float] = {}
    for home, loaded in homes_of(tile, acc, search).items():
        if home and scratch_move(acc, tile, home, search, back=True) is None:
            continue
        if isinstance(loaded, Location):  # the instruction itself adds to what lies there
            found |= {home: 0.0} if home else {}
            continue
        cell = in_tiles(acc, search, home)
        stored = find_operand_store(search, cell, acc.held, acc.memory, acc.dtype, acc.request({}))
        if stored is not None:
            found[home] = (load_ns(loaded) or 0.0) + stored.cost_ns
    return found


def _shares(
    tile: Tile, acc: OperandTile, held: OperandTile, search: MoveSearch, kernel: Kernel
) -> TileOperand | None:
    """Return the accumulator for lanes with partial sums, or None if these cannot be added up."""
    direct = lanes_ns(tile, acc, search)
    narrower = isinstance(held.subject, Cast)
    described = _describe_operand(held, kernel, direct, None, is_accumulator=True, stage_whole=narrower)
    return None if direct is None else described


def lanes_ns(tile: Tile, acc: OperandTile, search: MoveSearch) -> float | None:
    """Return the time to fill lanes with 0, to store them, and to add them up, or None if impossible.

    Units: nanoseconds.
    """
    if len(acc.shape) != 1:
        return None
    cell = in_tiles(acc, search)
    begun = find_operand_load(search, acc.request({}))
    stored = find_operand_store(search, cell, acc.held, acc.memory, acc.dtype, acc.request({}))
    target, value = sum_of_lanes(cell.buffer, prod(acc.shape), tile)
    added = find_operand_store(search, target, value, "", None, LoadRequest(value, "", value.dtype, (), ()))
    if begun is None or stored is None or added is None:
        return None
    return (begun.cost_ns if isinstance(begun, OperandMove) else 0.0) + stored.cost_ns + added.cost_ns


def with_mover(described: TileOperand, operand: OperandTile, tile: Tile, search: MoveSearch) -> TileOperand:
    """Return the operand with the unit that fills its buffer or stores it, if another unit than the sum's does."""
    home = described.staging.homes[0]
    known = operand, tile, home, search
    found = tiles_move(*known, back=described.is_accumulator) if home else None
    if found is None:
        return with_fields(
            described, is_concurrent=not home and copied_by_other_units(tile, operand.dtype, search.machine)
        )
    move, machine = found.move, search.machine
    copy, own = machine.instructions[move.instruction], machine.instructions[tile.mapping.instruction]
    memories = [o.memory for o in copy.instruction.operands]
    alone = all(memory is not None and search.is_addressable(memory) for memory in memories)
    if not alone or copy.cost.unit == own.cost.unit:
        return described
    later_ns = issue_latency_ns(machine, move.instruction, 0.0) if machine.levels else 0.0
    return with_fields(
        described, mover=copy.cost.unit, moved_ns_per_element=move.cost_ns, arrives_ns=max(0.0, later_ns)
    )


# --- Units that have their registers to themselves: copies go through others, by other units, meanwhile ---


def copied_by_other_units(tile: Tile, dtype: DType, machine: Machine) -> bool:
    """Return whether other units than the summing one copy the elements, through other registers."""
    return _other_units_copy(tile.mapping.instruction, dtype, machine)


@lru_cache(maxsize=4096)
def _other_units_copy(instruction: str, dtype: DType, machine: Machine) -> bool:
    own = machine.instructions[instruction]
    files = _registers(own, machine)
    others = [item for item in machine.instructions.values() if item.cost.unit != own.cost.unit]
    alone = all(_reaches_memory(item, machine) for item in others if files & _registers(item, machine))
    return alone and bool(files) and any(_loads(item, dtype, machine) - files for item in others)


def _loads(item: MachineInstruction, dtype: DType, machine: Machine) -> frozenset[str]:
    """Return the register memories into which an instruction loads elements of a type."""
    read = [o for o in item.instruction.operands if o.role == "in" and o.dtype == dtype]
    is_load = any(o.memory is not None and o.memory not in _files(machine) for o in read)
    return _registers(item, machine) if is_load else frozenset()


def _reaches_memory(item: MachineInstruction, machine: Machine) -> bool:
    """Return whether an instruction loads or stores. The others compute."""
    memories = [o.memory for o in item.instruction.operands]
    return any(memory is not None and memory not in _files(machine) for memory in memories)


def _registers(item: MachineInstruction, machine: Machine) -> frozenset[str]:
    """Return the register files of an instruction's operands."""
    files = _files(machine)
    return frozenset(files[o.memory] for o in item.instruction.operands if o.memory in files)


@lru_cache(maxsize=32)
def _files(machine: Machine) -> dict[str, str]:
    """Return the register memories of a machine, each with the memory that it is a view of."""
    found: dict[str, str] = {}
    for name, memory in machine.memories.items():
        if memory.kind == "registers":
            base = memory
            while base.base is not None:
                base = machine.memories[base.base]
            found[name] = base.name
    return found
