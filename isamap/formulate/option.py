"""Price a mapping: its instruction, its operand loads and stores, and the statements that it may fuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from isamap.formulate.carriable import with_carried
from isamap.formulate.copy_costs import with_ends
from isamap.formulate.flows import with_flows
from isamap.formulate.frame import Frame
from isamap.formulate.fusable import fusions
from isamap.formulate.hierarchy import Memories
from isamap.formulate.line_crossings import with_crossings
from isamap.formulate.load_costs import held_of, input_of, read_beside, with_reads
from isamap.formulate.tensor_layout import lay_out
from isamap.ir import Expr, Index, Kernel, strict_forbids, typical_value
from isamap.ir.index import ZERO
from isamap.machine import Machine, cost_params, cost_value, held_between, line_bytes, line_hints
from isamap.match import LoopAxis, MoveSearch, OperandTile, Tile, in_tiles
from isamap.match import Mapping as Mapped
from isamap.match.moves.transfers import BLOCK, JOINABLE, find_joining
from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.source.records import replace
from isamap.transform import distinct_reads, reads, statements, symbols


def whole_option(tile: Tile, number: int, frame: Frame) -> NestOption | None:
    """Return the option of a tile of statement `number`, with what can be fused with it; None where there is none."""
    option = option_of(tile, frame.search, frame.kernel, frame.profile)
    if option is None or (frame.kernel.strict and reorders(tile)):
        return None
    taken = fusions(frame.kernel, number, tile, frame.search, frame.profile, frame.memories)
    iterations = frame.iterations[number]
    option = with_flows(option, tile, number, frame.kernel, frame.search, taken)
    if any(o.flow is not None for o in option.operands if o.is_accumulator):
        taken = tuple(replace(fusion, extra_ns=0.0) for fusion in taken)  # among what flows
    taken = tuple(replace(fusion, extra_ns=iterations * fusion.extra_ns) for fusion in taken)
    cold = tuple(
        replace(o, cold=frame.is_cold(number, o.tensor), fresh_bytes=frame.fresh_bytes(number, o.tensor))
        for o in option.operands
    )
    known = with_streams(replace(option, operands=cold), frame.memories)
    return replace(with_late(known, frame.memories), fusions=taken)


def option_of(
    tile: Tile, search: MoveSearch, kernel: Kernel, profile: Mapping[str, int], *, prices_copies: bool = True
) -> NestOption | None:
    """Return the mapping with its costs; None when an operand can be loaded neither in place nor from a buffer.

    Without `prices_copies`, copying into buffers costs no more than it does: to find what moves most at once
    takes most of the time.
    """
    operands: list[TileOperand] = []
    for operand in tile.inputs:
        described = input_of(operand, tile, search, kernel, prices_copies=prices_copies)
        if described is None:
            return None
        if prices_copies:
            described = with_ends(described, operand, tile, search, profile)
            described = with_crossings(described, operand, tile, search, kernel, profile)
        kept = replace(
            described, iterations_of_copy=_iterations_of_copy(described, operand, tile, kernel, profile)
        )
        operands += with_reads(kept, operand, tile, kernel)
    held = held_of(tile, search, kernel, prices_copies=prices_copies)
    if held is None:
        return None
    if prices_copies and tile.accumulator is not None and tile.held is None:
        held = with_ends(held, tile.accumulator, tile, search, profile)
    operands.append(held)
    subjects = {o.name: o.subject for o in tile.inputs}
    held_tile = tile.held or tile.accumulator
    if held_tile is not None:
        subjects[held_tile.name] = held_tile.subject
    elif tile.result is not None and tile.target_positions is not None:
        subjects[tile.result.name] = tile.target_positions
        read = [r for r in distinct_reads(tile.result.subject) if r != tile.target_positions]
        operands[-1:-1] = [read_beside(held, tile, r, n) for n, r in enumerate(read)]
        subjects |= {f"{held.name}.{n}": r for n, r in enumerate(read)}
    subjects |= {f"{o.name}.{n}": r for o in tile.inputs for n, r in enumerate(distinct_reads(o.subject))}
    line = line_bytes(search.machine)
    bare = bare_option(tile.mapping, tile.params, tile.axes, search.machine, profile)
    option = replace(
        bare,
        operands=tuple(
            with_hints(_laid_out(o, subjects.get(o.name), tile, kernel, profile, line), search.machine)
            for o in sharing_files(operands, search.machine)
        ),
        interval_ns=bare.interval_ns if tile.accumulator else 0.0,
        latency_ns=bare.latency_ns if tile.accumulator else 0.0,
        can_split_sums=prices_copies and can_split_sums(tile, search, is_strict=kernel.strict),
    )
    return option if tile.accumulator is not None else with_carried(option, tile, search, kernel, profile)


def _iterations_of_copy(
    described: TileOperand, operand: OperandTile, tile: Tile, kernel: Kernel, profile: Mapping[str, int]
) -> int:
    """Return how many iterations of ordered loops one copy of an input serves: one where it is never copied, or into
    a scratchpad, where it would be in the way of others (`isamap.lower.hoist`).

    Loops from the innermost one on in which no statement writes what is read, and which do not move it.
    """
    if described.staged_ns is None or described.homes[0]:
        return 1
    own, given, iterations = tile.statement, statements(kernel), 1
    arrays, moving = {read.buffer for read in reads(operand.subject)}, symbols(operand.subject)
    for axis, loop in reversed(list(zip(own.sequence, own.ordered_loops, strict=True))):
        written = {s.assign.target.buffer for s in given if loop in s.ordered_loops}
        if not arrays or axis.name in moving or arrays & written:
            break
        iterations *= typical_value(axis.extent, profile) or 1
    return iterations


def _laid_out(
    operand: TileOperand,
    subject: Expr | None,
    tile: Tile,
    kernel: Kernel,
    profile: Mapping[str, int],
    line: int,
) -> TileOperand:
    """As `lay_out`; what is written is no box that is read, and nothing of it is prefetched."""
    found = lay_out(operand, subject, kernel, profile, line)
    return replace(found, in_rows=False) if tile.result is not None else found


def bare_option(
    mapping: Mapped,
    params: Iterable[tuple[str, int]],
    loops: Iterable[LoopAxis],
    machine: Machine,
    profile: Mapping[str, int],
) -> NestOption:
    """Return a mapping with its loops and what its instruction takes, nothing about operands."""
    item, known = machine.instructions[mapping.instruction], dict(params)
    numbers = cost_params(item, machine, known)
    count = max(1, machine.units[item.cost.unit].count)
    axes = tuple(
        TileAxis(
            a.name, typical_value(a.extent, profile) or 1, a.tile, a.is_reduction, a.extent.value is None
        )
        for a in loops
    )
    interval_ns = cost_value(item.cost.interval_ns, numbers) / count
    latency_ns = cost_value(item.cost.latency_ns, numbers)
    between = held_between(item, machine)
    unit = machine.instructions[mapping.instruction].cost.unit
    return NestOption(
        mapping.ident, tuple(params), axes, (), interval_ns, latency_ns, between=between, unit=unit
    )


def reorders(tile: Tile) -> bool:
    """Return whether floats would be computed otherwise than a strict kernel says: term by term, each rounded.

    One summing axis outside the instruction keeps its order however it is blocked; several do not.
    """
    if strict_forbids(tile.pattern.instruction.numerics):
        return True
    if tile.accumulator is None or not tile.accumulator.dtype.is_float:
        return False
    if tile.statement.assign.op in ("max", "min"):  # which round nothing
        return False
    summing = [a for a in tile.axes if a.is_reduction]
    return len(summing) > 1 or any(a.tile > 1 for a in summing)


def can_split_sums(tile: Tile, search: MoveSearch, *, is_strict: bool) -> bool:
    """Return whether parts of a sum may be taken apart from each other, and the machine can join them."""
    acc, op = tile.accumulator, tile.statement.assign.op
    if acc is None or op not in JOINABLE or (is_strict and acc.dtype.is_float):
        return False
    buffer = in_tiles(acc, search).buffer
    return find_joining(acc, buffer, op, ZERO, Index.of(BLOCK), search) is not None


# --- Registers that are parts or groups of others: what one of them takes of the file that it lies on ---


def sharing_files(operands: Sequence[TileOperand], machine: Machine) -> tuple[TileOperand, ...]:
    """Return the operands; those that share a file of registers under different names say what they take of it."""
    names = {operand.memory for operand in operands if operand.registers}
    files = {name: _file_of(name, machine) for name in names}
    return tuple(
        replace(operand, over=tuple((file, operand.registers * each) for file, each in files[operand.memory]))
        if operand.registers and _is_shared(operand.memory, names, files)
        else operand
        for operand in operands
    )


_Files = dict[str, list[tuple[str, int]]]


def _is_shared(name: str, names: set[str], files: _Files) -> bool:
    """Return whether another operand's registers are, or lie on, those that these lie on."""
    mine = {file for file, _ in files[name]}
    return any(other != name and mine & {other, *(file for file, _ in files[other])} for other in names)


def _file_of(name: str, machine: Machine) -> list[tuple[str, int]]:
    """Return the memory that a view lies on, and how many registers of it one takes; none where one register holds
    several, or where sizes are not stated.
    """
    memory = machine.memories.get(name)
    if memory is None or memory.kind != "registers" or memory.base is None:
        return []
    base = machine.memories[memory.base]
    while base.base is not None:
        base = machine.memories[base.base]
    known = memory.count, base.count, memory.register_bytes, base.register_bytes
    if None in known or (memory.count or 0) > (base.count or 0):
        return []
    return [(base.name, -(-(memory.register_bytes or 0) // (base.register_bytes or 1)))]


# --- Inputs that come from far: which stream through from beyond all caches, and for which hints may pay ---


def with_hints(operand: TileOperand, machine: Machine) -> TileOperand:
    """Return an input with the caches that the machine has hints for, where iterations read boxes of one array."""
    if operand.is_accumulator or operand.registers == 0 or not operand.in_rows or operand.packed:
        return operand
    found: list[tuple[str, float]] = []
    line_bytes = 0
    for cache, hint in sorted(line_hints(machine).items()):
        line_bytes = max(line_bytes, hint.line_bytes)
        count = max(1, machine.units[hint.item.cost.unit].count)
        found.append(
            (
                cache,
                cost_value(hint.item.cost.interval_ns, cost_params(hint.item, machine, {}))
                / count
                / hint.line_bytes,
            )
        )
    ahead = machine.model.near_ahead_count, machine.model.shared_ahead_count
    return replace(operand, hints=tuple(found), line_bytes=line_bytes, ahead_counts=ahead)


def with_late(option: NestOption, memories: Memories) -> NestOption:
    """Return the option, each of whose inputs says whether hints about pieces of its rows may save time.

    Its tensors lie in the nearest cache that holds them all, or farther where that one does not keep them.
    """
    extents = {axis.name: axis.extent for axis in option.axes}
    size_bytes = sum(o.tensor_bytes * prod(extents[name] for name in o.axes) for o in option.operands)
    rows = [cache.rows for cache in memories.caches[1:] if size_bytes <= cache.capacity_bytes]
    if not any(found.hinted_swept_count for found in (*rows, memories.beyond_rows)):
        return option
    free = {axis.name for axis in option.axes if not axis.is_reduction}

    def is_late(operand: TileOperand) -> bool:
        known = operand.hints and operand.pitch_bytes and not operand.subscripts
        return bool(known) and operand.dense_axis in free and not operand.streams

    ahead_bytes = memories.beyond_streams.ahead_bytes if memories.beyond_streams is not None else 0
    return replace(
        option,
        operands=tuple(
            replace(o, late=True, ahead_bytes=ahead_bytes) if is_late(o) else o for o in option.operands
        ),
    )


def with_streams(option: NestOption, memories: Memories) -> NestOption:
    """Return the option, each of whose inputs says whether it does."""
    stated = memories.beyond_streams
    if stated is None:
        return option
    axes = {axis.name: axis for axis in option.axes}
    issues_ns = prod(-(-axis.extent // axis.tile) for axis in option.axes) * option.interval_ns

    def streams(operand: TileOperand) -> bool:
        plain = operand.in_rows and operand.dense_axis and operand.pitch_bytes and not operand.subscripts
        if not plain or operand.is_accumulator or operand.packed or not memories.caches:
            return False
        size = prod(axes[name].extent for name in operand.axes) * operand.tensor_bytes
        beyond = operand.cold or size > memories.caches[-1].capacity_bytes
        return beyond and issues_ns < size / memories.beyond_bytes_per_ns

    def marked(operand: TileOperand) -> TileOperand:
        in_pieces = not axes[operand.dense_axis].is_reduction
        swept = in_pieces and stated.swept_start_ns is not None
        return replace(operand, streams=True, ahead_bytes=stated.ahead_bytes, swept=swept)

    return replace(option, operands=tuple(marked(o) if streams(o) else o for o in option.operands))
