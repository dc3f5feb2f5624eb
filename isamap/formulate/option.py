"""Price a mapping: its instruction, its operand loads and stores, and the statements that it may fuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd, prod

from isamap.formulate import load_costs
from isamap.formulate.copy_costs import with_ends
from isamap.formulate.estimate import issue_lengths
from isamap.formulate.finished_sums import with_energy_of_fusions
from isamap.formulate.flows import with_flows
from isamap.formulate.frame import Frame, energies_of
from isamap.formulate.fusable import fusions, lacks_start
from isamap.formulate.hierarchy import Memories
from isamap.formulate.load_times import loading_ns
from isamap.formulate.tensor_layout import lay_out
from isamap.ir import Axis, Expr, Index, Kernel, Read, strict_forbids, typical_value
from isamap.ir.index import ONE, ZERO
from isamap.machine import (
    Machine,
    cost_params,
    cost_value,
    count_between,
    is_late_product,
    line_bytes,
    line_hints,
)
from isamap.match import LoopAxis, MoveSearch, OperandMove, OperandTile, Tile, bring, hide_position, in_tiles
from isamap.match import Mapping as Mapped
from isamap.match.moves.transfers import BLOCK, JOINABLE, find_joining
from isamap.match.patterns.address import Location, is_lane
from isamap.plan.problem import CarriedValues, NestOption, TileAxis, TileOperand, with_fields
from isamap.source import add_up, replace
from isamap.transform import Statement, distinct_reads, reads, statements, symbols, tells_apart

# --- line crossings -------------------------------------------------------------------------------------

# Price loads in place that cross cache lines: the load unit reads one line after the other.
#
# Y[k, p, q] += X[c, p + r, q + s] * F[k, c, r, s]   16 q of f32 are a line; beside s = 1 or 2 they lie on two
#
# A processor's load port reads one line at a time, so such a load takes it twice: on an Emerald Rapids guest
# 64 bytes take 0.20 ns within a line and 0.41 across two (docs/decisions/0065-loads-across-lines.md).
#
# A mask that leaves out what lies on the second line does not help there.
#
# Where it errs: arrays are taken to begin with a line; stores are not looked at, nor copies, which wait for
# caches more than for ports.


def with_crossings(
    described: TileOperand,
    operand: OperandTile,
    tile: Tile,
    search: MoveSearch,
    kernel: Kernel,
    profile: Mapping[str, int],
) -> TileOperand:
    """Return the operand with the additional mean time of unaligned in-place loads."""
    line = line_bytes(search.machine)
    if not line or described.costs.direct_ns is None:
        return described
    share = crossing_share(operand, tile, kernel, profile, line)
    if not share:
        return described
    direct = bring(search, tile, operand, operand.request({}, expr=hide_position(operand.elements, is_lane)))
    return with_fields(described, direct_ns=described.costs.direct_ns + share * loading_ns(direct))


def crossing_share(
    operand: OperandTile, tile: Tile, kernel: Kernel, profile: Mapping[str, int], line: int
) -> float:
    """Return the mean share of lines that a tile's rows touch beyond the fewest possible lines.

    The result is 0 if the array's layout is unknown, or if a tile has no rows of several elements.
    Units: `line` in bytes.
    """
    found = _place(operand, kernel, profile)
    if found is None:
        return 0.0
    place, size = found
    begins, row, known = {0: 1.0}, 1, {f"@{axis.name}": axis for axis in tile.axes}
    for monomial, coefficient in place.terms:
        if not monomial:
            begins = {(begin + coefficient * size) % line: part for begin, part in begins.items()}
            continue
        atom = monomial[0]
        if len(monomial) > 1 or not isinstance(atom, str):
            return 0.0
        axis = known.get(atom)
        extent = axis.extent.substitute(profile).value or line if axis else line
        step = coefficient * size
        if axis is not None and coefficient == 1 and axis.tile > 1:
            row, step, extent = axis.tile, size * axis.tile, -(-extent // axis.tile)
        begins = _row_places(begins, step, extent, line)
    least = -(-row * size // line)
    touched = add_up(part * -(-(begin + row * size) // line) for begin, part in begins.items())
    return touched / least - 1 if row > 1 else 0.0


def _place(operand: OperandTile, kernel: Kernel, profile: Mapping[str, int]) -> tuple[Index, int] | None:
    """Return the element offset in the array and the element size in bytes, or None if no array is known."""
    found = reads(operand.subject)
    array = next((o for o in kernel.operands if len(found) == 1 and o.name == found[0].buffer), None)
    if array is None:
        return None
    place, pitch = ZERO, Index.of(1)
    strides = array.strides or (None,) * len(array.shape)
    for index, extent, stride in reversed(list(zip(found[0].index, array.shape, strides, strict=True))):
        pitch = pitch if stride is None else stride
        place = place + index * pitch
        pitch = pitch * extent
    return place.substitute(profile), array.dtype.size_bytes


def _row_places(begins: Mapping[int, float], step: int, count: int, line: int) -> dict[int, float]:
    """Return the offsets in a line at which rows start, with their shares, if each row is a step further."""
    places = min(count, line // gcd(step, line))
    moved: dict[int, float] = {}
    for begin, part in begins.items():
        for iteration in range(places):
            at = (begin + iteration * step) % line
            moved[at] = moved.get(at, 0.0) + part / places
    return moved


# --- option ---------------------------------------------------------------------------------------------


# --- carriable ------------------------------------------------------------------------------------------

# Find elements that one iteration of an ordered loop writes and the next reads, and keep them in registers.
#
#     for m in M { seq n in N - 1 { y[m, n + 1] = y[m, n] + x[m, n + 1]; } }
#
#       for m by 4 {          the ordered loop runs inside the loops over rows: a block of rows at a time
#         carry n;            goes along n, and y[m, n] is still where the iteration before has computed it
#         unroll m by 1 { issue; }
#       }
#
# That is legal where the statement is alone in the ordered loop, writes each element once, and reads of its own
# array what the iteration before wrote: then rows do not meet. It pays where iterations go along rows of the
# array; where they go from row to row, the loops over the row's elements stay inside.


# So many iterations back recurrences are looked for: what the last one left stays in registers.
FARTHEST = 4


def with_carried(
    option: NestOption, tile: Tile, search: MoveSearch, kernel: Kernel, profile: Mapping[str, int]
) -> NestOption:
    """Return the option of an assigning tile with the values that it carries along an ordered loop.

    The loads of carried values are removed from its costs. It is unchanged if nothing can be carried.
    """
    axis, store = carried_axis(tile.statement, kernel), load_costs.store_of(tile, search)
    if axis is None or store is None or store.target is None:
        return option
    if store.target.offset.coefficient(axis.name) not in (ONE, -ONE):  # iterations go from row to row
        return option
    loads = [s for s in _issues(store) if _reads_before(s, store.target, axis.name)]
    if not loads:
        return option
    saved_ns = add_up({id(s): s.cost_ns for s in loads}.values())
    chain_ns = _chain_ns(store, store, axis.name, search.machine) or 0.0
    pitches = tuple(_pitches(tile.statement, axis.name, kernel, profile))
    operands = tuple(
        with_fields(o, direct_ns=max(0.0, o.costs.direct_ns - saved_ns))
        if o.is_accumulator and o.costs.direct_ns
        else o
        for o in option.operands
    )
    iterations = typical_value(axis.extent, profile) or 1
    return replace(option, operands=operands, carried=CarriedValues(axis.name, iterations, chain_ns, pitches))


def carried_axis(statement: Statement, kernel: Kernel) -> Axis | None:
    """Return the innermost ordered axis around a statement whose iterations may run inside the other loops.

    Its iterations must read values that the previous iteration wrote.
    """
    target, operand = statement.assign.target, kernel.operand(statement.assign.target.buffer)
    if not statement.sequence or statement.assign.op is not None or statement.assign.guard is not None:
        return None
    if operand.accumulate not in (None, operand.dtype):
        return None  # rounded when the loops around end
    loop, axis = statement.ordered_loops[-1], statement.sequence[-1]
    if sum(loop in s.ordered_loops for s in statements(kernel)) > 1:
        return None
    if not tells_apart(target.index, {a.name: a.extent for a in (*statement.axes, axis)}):
        return None
    own = [r for r in reads(statement.assign.value) if r.buffer == target.buffer]
    return axis if own and all(_is_written_before(r, target, axis.name) for r in own) else None


def _is_written_before(read: Read, target: Read, axis: str) -> bool:
    """Return whether an earlier iteration along an axis writes the element that is read."""
    later = ({axis: Index.of(axis) + iterations} for iterations in range(1, FARTHEST + 1))
    return any(tuple(i.substitute(moved) for i in read.index) == target.index for moved in later)


def _issues(load: OperandMove) -> Iterator[OperandMove]:
    yield load
    for _, source in load.inputs:
        if isinstance(source, OperandMove):
            yield from _issues(source)


def _reads_before(load: OperandMove, target: Location, axis: str) -> bool:
    """Return whether an instruction loads the previous iteration's results into the same lanes."""
    places = [source for _, source in load.inputs if isinstance(source, Location)]
    later = {axis: Index.of(axis) + 1}
    return len(places) == len(load.inputs) == 1 and all(
        p.buffer == target.buffer
        and p.strides == target.strides
        and p.offset.substitute(later) == target.offset
        for p in places
    )


def _chain_ns(load: OperandMove, store: OperandMove, axis: str, machine: Machine) -> float | None:
    """Return the latency from the carried value to the stored register, or None if they are independent."""
    assert store.target is not None
    if _reads_before(load, store.target, axis):
        return 0.0
    inputs = [s for _, s in load.inputs if isinstance(s, OperandMove)]
    found = [c for s in inputs if (c := _chain_ns(s, store, axis, machine)) is not None]
    if not found:
        return None
    if load is store:
        return max(found)
    item = machine.instructions[load.instruction]
    known = {n: v.value for n, v in load.params if isinstance(v, Index) and v.value is not None}
    return max(found) + cost_value(item.cost.latency_ns, cost_params(item, machine, known))


def _pitches(statement: Statement, axis: str, kernel: Kernel, profile: Mapping[str, int]) -> Iterator[int]:
    """Yield the row pitch of each array that is accessed along its rows. Units: bytes."""
    touched = (statement.assign.target, *reads(statement.assign.value))
    for buffer in sorted({r.buffer for r in touched if r.index and axis in r.index[-1].symbols}):
        operand = kernel.operand(buffer)
        row = operand.shape[-1].substitute(profile).value
        if row and len(operand.shape) > 1:
            yield row * operand.dtype.size_bytes


# --- option ---------------------------------------------------------------------------------------------


def whole_option(tile: Tile, number: int, frame: Frame) -> NestOption | None:
    """Return the option of a tile of statement `number`, with its possible fusions, or None."""
    option = option_of(tile, frame.search, frame.kernel, frame.profile, packed=frame.packed)
    if option is None or (frame.kernel.strict and reorders(tile)):
        return None
    taken = fusions(frame.kernel, number, tile, frame.search, frame.profile, frame.memories)
    if lacks_start(frame.kernel, number, tile, taken, frame.search):
        return None
    iterations = frame.iterations[number]
    option = with_flows(option, tile, number, frame.kernel, frame.search, taken)
    if option is None:
        return None
    if any(o.staging.flow is not None for o in option.operands if o.is_accumulator):
        taken = tuple(replace(fusion, extra_ns=0.0) for fusion in taken)  # among what flows
    if taken and (energies := energies_of(frame.search.machine)) is not None:
        taken = with_energy_of_fusions(taken, option, tile, frame.kernel, number, energies, frame.search)
    taken = tuple(
        replace(f, extra_ns=iterations * f.extra_ns, extra_pj=iterations * f.extra_pj) for f in taken
    )
    cold = tuple(
        with_fields(
            o, is_cold=frame.is_cold(number, o.tensor), fresh_bytes=frame.fresh_bytes(number, o.tensor)
        )
        for o in option.operands
    )
    known = with_streams(replace(option, operands=cold), frame.memories)
    return replace(with_late(known, frame.memories), fusions=taken)


def option_of(
    tile: Tile,
    search: MoveSearch,
    kernel: Kernel,
    profile: Mapping[str, int],
    *,
    prices_copies: bool = True,
    packed: Sequence[str] = (),
) -> NestOption | None:
    """Return the mapping with its costs, or None if an operand can be loaded neither in place nor from a buffer.

    Without `prices_copies`, the costs of copies into buffers are lower bounds: the search for the largest
    moves takes most of the time. `packed` are arrays that the caller passes packed.
    """
    operands: list[TileOperand] = []
    for operand in tile.inputs:
        if behind := load_costs.computed_of_packed(operand, tile, packed, search, kernel):
            operands += behind
            continue
        described = load_costs.input_of(operand, tile, search, kernel, prices_copies=prices_copies)
        if described is None:
            return None
        if prices_copies:
            described = with_ends(described, operand, tile, search, profile)
            described = with_crossings(described, operand, tile, search, kernel, profile)
        kept = with_fields(
            described, iterations_of_copy=_iterations_of_copy(described, operand, tile, kernel, profile)
        )
        operands += load_costs.with_reads(kept, operand, tile)
    held = load_costs.held_of(tile, search, kernel, prices_copies=prices_copies)
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
        operands[-1:-1] = [load_costs.traffic_operand(held, tile, r, n) for n, r in enumerate(read)]
        subjects |= {f"{held.name}.{n}": r for n, r in enumerate(read)}
    subjects |= {f"{o.name}.{n}": r for o in tile.inputs for n, r in enumerate(distinct_reads(o.subject))}
    line = line_bytes(search.machine)
    bare = bare_option(tile.mapping, tile.params, tile.axes, search.machine, profile, tile.run_time_lengths)
    option = replace(
        bare,
        operands=tuple(
            with_hints(_add_layout(o, subjects.get(o.name), tile, kernel, profile, line), search.machine)
            for o in sharing_files(operands, search.machine)
        ),
        interval_ns=bare.interval_ns if tile.accumulator else 0.0,
        latency_ns=bare.latency_ns if tile.accumulator else 0.0,
        issue_pj=bare.issue_pj if tile.accumulator else 0.0,
        is_sum=tile.statement.assign.op is not None,
        can_split_sums=prices_copies and can_split_sums(tile, search, is_strict=kernel.strict),
    )
    return option if tile.accumulator is not None else with_carried(option, tile, search, kernel, profile)


def _iterations_of_copy(
    described: TileOperand, operand: OperandTile, tile: Tile, kernel: Kernel, profile: Mapping[str, int]
) -> int:
    """Return how many iterations of ordered loops one copy of an input serves.

    These are the inner loops in which no statement writes the input and which do not select other elements.
    The number is 1 for an input without a copy, and for a copy into a scratchpad, where it would occupy the
    bytes of other buffers (`isamap.lower.hoist`).
    """
    if described.costs.staged_ns is None or described.staging.homes[0]:
        return 1
    own, given, iterations = tile.statement, statements(kernel), 1
    arrays, moving = {read.buffer for read in reads(operand.subject)}, symbols(operand.subject)
    for axis, loop in reversed(list(zip(own.sequence, own.ordered_loops, strict=True))):
        written = {s.assign.target.buffer for s in given if loop in s.ordered_loops}
        if not arrays or axis.name in moving or arrays & written:
            break
        iterations *= typical_value(axis.extent, profile) or 1
    return iterations


def _add_layout(
    operand: TileOperand,
    subject: Expr | None,
    tile: Tile,
    kernel: Kernel,
    profile: Mapping[str, int],
    line: int,
) -> TileOperand:
    """Return the operand with the layout of its tensor. Outputs are never prefetched."""
    found = lay_out(operand, subject, kernel, profile, line)
    return with_fields(found, in_rows=False) if tile.result is not None else found


def bare_option(
    mapping: Mapped,
    params: Iterable[tuple[str, int]],
    loops: Iterable[LoopAxis],
    machine: Machine,
    profile: Mapping[str, int],
    lengths: Mapping[str, str],
) -> NestOption:
    """Return a mapping with its loops and instruction costs, without operands.

    `lengths` are the parameters of loop axes that give the elements of an issue: at most the remainder.
    """
    item, params = machine.instructions[mapping.instruction], tuple(params)
    count = max(1, machine.units[item.cost.unit].count)
    axes = tuple(
        TileAxis(
            a.name, typical_value(a.extent, profile) or 1, a.tile, a.is_reduction, a.extent.value is None
        )
        for a in loops
    )
    costs = [(cost_params(item, machine, n), part) for n, part in issue_lengths(params, axes, lengths)]
    interval_ns = add_up(part * cost_value(item.cost.interval_ns, n) for n, part in costs) / count
    latency_ns = max(cost_value(item.cost.latency_ns, n) for n, _ in costs)
    between = count_between(item, machine)
    stated = item.cost.energy_pj
    issue_pj = add_up(part * cost_value(stated, n) for n, part in costs) if stated is not None else 0.0
    return NestOption(
        mapping.ident, params, axes, (), interval_ns, latency_ns, between=between,
        unit=item.cost.unit, issue_pj=issue_pj, lengths=tuple(sorted(lengths)),
        outlives=int(is_late_product(item, machine)),
    )  # fmt: skip


def reorders(tile: Tile) -> bool:
    """Return whether floats would be summed in another order than a strict kernel prescribes.

    One summing axis outside the instruction keeps its order however it is blocked. Several do not.
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
    """Return whether parts of a sum may be summed separately, and the machine can join them."""
    acc, op = tile.accumulator, tile.statement.assign.op
    if acc is None or op not in JOINABLE or (is_strict and acc.dtype.is_float):
        return False
    buffer = in_tiles(acc, search).buffer
    return find_joining(acc, buffer, op, ZERO, Index.of(BLOCK), search) is not None


# --- Registers that are parts or groups of others: what one of them takes of the file that it lies on ---


def sharing_files(operands: Sequence[TileOperand], machine: Machine) -> tuple[TileOperand, ...]:
    """Return the operands. Operands that share a register file under different names state their use of it."""
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
    """Return whether another operand has registers in the same file."""
    mine = {file for file, _ in files[name]}
    return any(other != name and mine & {other, *(file for file, _ in files[other])} for other in names)


def _file_of(name: str, machine: Machine) -> list[tuple[str, int]]:
    """Return the memory of a view, with the registers of that memory in each register of the view, or []."""
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
    """Return an input with the caches into which hints may prefetch it, if it is read in boxes of one array."""
    if (
        operand.is_accumulator
        or operand.registers == 0
        or not operand.layout.in_rows
        or operand.staging.is_packed
    ):
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
    return with_fields(operand, hints=tuple(found), line_bytes=line_bytes, ahead_counts=ahead)


def with_late(option: NestOption, memories: Memories) -> NestOption:
    """Return the option with the inputs marked whose rows may be hinted by pieces to save time.

    Its tensors are in the nearest cache that holds them all, or farther if that cache does not retain them.
    """
    extents = {axis.name: axis.extent for axis in option.axes}
    size_bytes = sum(o.layout.tensor_bytes * prod(extents[name] for name in o.axes) for o in option.operands)
    rows = [cache.rows for cache in memories.caches[1:] if size_bytes <= cache.capacity_bytes]
    if not any(found.hinted_swept_count for found in (*rows, memories.beyond_rows)):
        return option
    free = {axis.name for axis in option.axes if not axis.is_reduction}

    def is_late(operand: TileOperand) -> bool:
        known = operand.prefetching.hints and operand.layout.pitch_bytes and not operand.layout.subscripts
        return bool(known) and operand.layout.dense_axis in free and not operand.prefetching.is_streamed

    ahead_bytes = memories.beyond_streams.ahead_bytes if memories.beyond_streams is not None else 0
    return replace(
        option,
        operands=tuple(
            with_fields(o, is_late=True, ahead_bytes=ahead_bytes) if is_late(o) else o
            for o in option.operands
        ),
    )


def with_streams(option: NestOption, memories: Memories) -> NestOption:
    """Return the option with the inputs marked that are streamed."""
    stated = memories.beyond_streams
    if stated is None:
        return option
    axes = {axis.name: axis for axis in option.axes}
    issues_ns = prod(-(-axis.extent // axis.tile) for axis in option.axes) * option.interval_ns

    def streams(operand: TileOperand) -> bool:
        plain = (
            operand.layout.in_rows
            and operand.layout.dense_axis
            and operand.layout.pitch_bytes
            and not operand.layout.subscripts
        )
        if not plain or operand.is_accumulator or operand.staging.is_packed or not memories.caches:
            return False
        size = prod(axes[name].extent for name in operand.axes) * operand.layout.tensor_bytes
        beyond = operand.prefetching.is_cold or size > memories.caches[-1].capacity_bytes
        return beyond and issues_ns < size / memories.beyond_bytes_per_ns

    def mark(operand: TileOperand) -> TileOperand:
        in_pieces = not axes[operand.layout.dense_axis].is_reduction
        swept = in_pieces and stated.swept_start_ns is not None
        return with_fields(operand, is_streamed=True, ahead_bytes=stated.ahead_bytes, is_swept=swept)

    return replace(option, operands=tuple(mark(o) if streams(o) else o for o in option.operands))
