"""Compute how long separate units take to move all operands once between main memory and scratchpads.

Example: a product of bytes whose sums leave as bytes, on a machine with a DMA engine for each direction and
a vector unit:

    A, B     begun: load, and the bus of main memory
    sums     begun: load, which writes zeros;  finished: vector, then store and the bus

Units work in parallel, so each is priced by itself (`isamap.scheduler.effects.flowing`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import prod

from isamap.formulate.estimate import issue_lengths
from isamap.formulate.load_times import issue_latency_ns, largest_params, unit_ns
from isamap.ir import Kernel, Operand
from isamap.machine import (
    Machine,
    MachineInstruction,
    cached_bytes_per_ns,
    carried_ns,
    cost_params,
    cost_value,
    shared_link,
)
from isamap.machine.banks import banks_of
from isamap.machine.timings import IN_FLIGHT, WindowOverlap
from isamap.match.moves.chains import steps_of
from isamap.match.moves.epilogue_moves import WayOut, way_out
from isamap.match.moves.scratch_buffers import clearing_ns, computed_inputs, find_clearing, homes_of
from isamap.match.moves.together import TilesMove, tiles_move
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove, registers_of
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.patterns.address import Location
from isamap.match.tiles.operand_tiles import OperandTile, Tile, in_tiles
from isamap.match.tiles.sum_starts import find_zeroing, initial_load
from isamap.match.tiles.written_values import get_own_sum, start_of_sum, written_value
from isamap.plan.problem import Busy, Flow, Fusion, NestOption, TileOperand, with_fields
from isamap.source import add_up, dataclass, replace
from isamap.transform.companions import CompanionValues, fused_result

Moved = tuple[str, float, int]
"""An instruction, and the time and the elements of all its moves. Units: nanoseconds."""


def with_flows(
    option: NestOption, tile: Tile, number: int, kernel: Kernel, search: MoveSearch, taken: Sequence[Fusion]
) -> NestOption | None:
    """Return the option of statement `number` with the flow of each operand that other units move.

    Return None if another unit has to store sums and no instruction does. `taken` are the fused statements,
    which determine the initial and final values of sums: a scratchpad performs nothing else that is offered.
    """
    described = {o.name: o for o in (*tile.inputs, *((tile.accumulator,) if tile.accumulator else ()))}
    operands: list[TileOperand] = []
    between = dict(option.between)
    for operand in option.operands:
        if not operand.staging.homes[0]:
            operands.append(operand)
            continue
        flow, mover = None, operand.staging.mover
        moves = _Moves(operand.staging.homes[0], described[operand.name], option, tile, search)
        if operand.is_accumulator:
            found = fused_result(kernel, number, tuple(f.statement for f in taken))
            ways = _store_paths(moves, found) if mover or _leaves(moves, found) else []
            if mover and ways is None:
                return None
            if ways:
                flow = _of_sums(moves, found, ways)
            ways = ways if ways and mover and taken else []
            passes = bool(ways) and all(way.held for way in ways)
            if mover and flow is not None:
                flow = _through_registers(moves, flow, found, passes=passes)
            if passes:
                mover = ""  # nothing of them is left in a buffer to go later
            for memory, count in _registers_of_chains(ways, search.machine).items():
                if memory == moves.operand.memory:
                    between[memory] = between.get(memory, 0) + count
        elif mover:
            flow = _of_input(moves)
        operands.append(with_fields(operand, flow=flow, mover=mover))
    banked = _bank_times(option, tile, search.machine)
    registers = tuple(sorted(between.items()))
    ways = computed_inputs(tile, search).values()
    passes = tuple((b.memory, b.size_bytes) for way in ways for b in way.buffers)
    return replace(option, operands=tuple(operands), between=registers, banked=banked, passes=passes)


def _bank_times(option: NestOption, tile: Tile, machine: Machine) -> tuple[tuple[str, str, float], ...]:
    """Return how long each issue keeps banks and a shared link busy, and each nanosecond of register loads banks."""
    issue = dict[str, float]()
    for params, part in issue_lengths(option.choose, option.axes, tile.run_time_lengths):
        times = (bank_ns, _link_ns)
        for memory, ns in (
            both for f in times for both in f(machine, tile.mapping.instruction, params).items()
        ):
            issue[memory] = issue.get(memory, 0.0) + part * ns
    found = [(memory, "", ns) for memory, ns in issue.items()]
    for operand in option.operands:
        banks = (
            banks_of(machine.memories[operand.staging.homes[0]], machine.clock_ghz)
            if operand.staging.homes[0]
            else None
        )
        if banks is not None and operand.costs.staged_ns:
            elements = prod(a.tile for a in option.axes if a.name in operand.axes)
            load_ns = elements * operand.staging.staged_bytes / banks.together_per_ns
            found.append((banks.memory, operand.name, load_ns / operand.costs.staged_ns))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Moves:
    """The data movement of one operand whose buffer is in the scratchpad `home`."""

    home: str
    operand: OperandTile
    option: NestOption
    tile: Tile
    search: MoveSearch

    @property
    def windows(self) -> tuple[WindowOverlap, ...]:
        """The windows that the buffer stores once."""
        return next(o.staging.windows for o in self.option.operands if o.name == self.operand.name)

    @property
    def elements(self) -> int:
        return prod(sum(held) for held, _ in self._axes())

    @property
    def tiles(self) -> int:
        return prod(sum(-(-extent // tile) for extent in held) for held, tile in self._axes())

    def _axes(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield extents and tiles of the axes along which tiles move. A window counts each plane once."""
        extents = {a.name: a.extent for a in self.option.axes}
        reaches = {w.along: w.reaches(extents[w.tap]) for w in self.windows}
        taps = {w.tap for w in self.windows}
        for axis in self.option.axes:
            if axis.name in self.operand.axes and axis.name not in taps:
                yield tuple(axis.extent + reach for reach in reaches.get(axis.name, (0,))), axis.tile


def _of_input(moves: _Moves) -> Flow:
    """Return the flow of an input."""
    busy = _busy(moves, _fillings(moves, moves.operand))
    # The delay from the end of a move's unit time to the arrival of its data. Units: nanoseconds.
    move, machine = _move_of(moves, moves.operand).move, moves.search.machine
    item = machine.instructions[move.instruction]
    numbers = cost_params(item, machine, {})
    # How many moves and computing issues wait in their units' queues, or are in flight without one.
    depths = _depths(moves)
    return Flow(
        busy,
        latency_ns=max(
            0.0, cost_value(item.cost.latency_ns, numbers) - cost_value(item.cost.interval_ns, numbers)
        ),
        issues=_issues(moves),
        queued=(sum(depths) if all(depths) else IN_FLIGHT),
        early=_early(moves, max(ns for _, ns in busy)),
        loaded=load_time(moves.operand, moves.tile, moves.home, moves.tiles, moves.search),
    )


def _leaves(moves: _Moves, found: CompanionValues) -> bool:
    """Return whether sums are in the scratchpad and can be initialised there."""
    if not moves.search.is_addressable(moves.operand.memory):
        return False
    first, written = start_of_sum(moves.tile, found), written_value(moves.tile, found)
    overwritten = moves.tile.overwrites(moves.operand)
    if (first is None and not overwritten) or not written:
        return False
    if first is None:
        return True
    return bool(find_zeroing(first[0], moves.tile, moves.search)) or _is_brought(moves, first[0])


def _is_brought(moves: _Moves, operand: OperandTile) -> bool:
    """Return whether an instruction loads the initial values of sums, or sets them to zero."""
    if operand.subject == operand.fill:
        return find_clearing(moves.search, moves.home, operand.dtype.name) is not None
    return tiles_move(operand, moves.tile, moves.home, moves.search) is not None


def _of_sums(moves: _Moves, found: CompanionValues, ways: Sequence[WayOut]) -> Flow:
    """Return the flow of sums that are initialised by `found` and stored by `ways`."""
    first = start_of_sum(moves.tile, found)
    begun = list[Moved]()
    if not moves.tile.overwrites(moves.operand):
        begun = _fillings(moves, moves.operand) if first is None else _initial_moves(moves, first[0])
    out = [_stores_of(moves, way) for way in ways]

    def latency_ns(moved: Moved) -> float:
        return issue_latency_ns(moves.search.machine, moved[0], moved[1] / moves.tiles)

    # Other inputs of an epilogue are loaded while the sums are computed.
    behind = [each[way.brought :] for each, way in zip(out, ways, strict=True)]
    return Flow(
        _busy(moves, begun),
        _busy(moves, (*chain.from_iterable(out), *_filled_once(ways))),
        add_up(each[0][1] for each in behind),
        add_up(map(latency_ns, chain.from_iterable(behind))),
        turn_ns=add_up(latency_ns(each[0]) for each in behind) + max(map(latency_ns, begun), default=0.0),
    )


def _through_registers(moves: _Moves, flow: Flow, found: CompanionValues, *, passes: bool) -> Flow:
    """Return the flow of sums with the moves between their scratchpad and registers included.

    If instructions initialise the sums in registers, there is no load, unless only parts are summed at once;
    if they store finished sums elsewhere, there is no store back.
    """
    known = moves.operand, moves.tile, moves.home, moves.tiles, moves.search
    loads, stores = load_time(*known), store_time(*known)
    first = start_of_sum(moves.tile, found)
    begins = first is not None and _held_beginning(moves, first[0]) is not None
    apart = (*_busy(moves, _fillings(moves, first[0])), *loads) if begins and first is not None else ()
    around = (*(() if begins else loads), *(() if passes else stores))
    again_ns = latency_ns(moves.operand, moves.tile, moves.home, moves.search) if loads else 0.0
    between = (*loads, *stores)
    return replace(flow, around=around, between=between, apart=apart if loads else (), again_ns=again_ns)


def _held_beginning(moves: _Moves, first: OperandTile) -> OperandMove | None:
    """Return the operand load that initialises sums in registers, if an instruction accumulates there."""
    if moves.search.is_addressable(first.memory):
        return None
    return initial_load(first, moves.search)


def _initial_moves(moves: _Moves, first: OperandTile) -> list[Moved]:
    """Return the moves that initialise sums: in registers, in a scratchpad, or none if the first product does."""
    if find_zeroing(first, moves.tile, moves.search):
        return []
    set_by = _held_beginning(moves, first)
    if set_by is None:
        return _fillings(moves, first)
    return [(set_by.instruction, set_by.cost_ns * moves.tiles, moves.elements)]


def _store_paths(moves: _Moves, found: CompanionValues) -> list[WayOut] | None:
    """Return how each value of finished sums reaches its array, or None if no instruction stores one."""
    known = moves.tile, moves.home, moves.search
    written = written_value(moves.tile, found) or (get_own_sum(moves.tile),)
    ways = [way for w in written if (way := way_out(moves.operand, w, *known)) is not None]
    return ways if len(ways) == len(written) else None


def _registers_of_chains(ways: Sequence[WayOut], machine: Machine) -> dict[str, int]:
    """Return the most registers of each memory that these chains write while accumulators are live."""
    most: dict[str, int] = {}
    for way in ways:
        made = Counter[str]()
        for instruction in (machine.instructions[name].instruction for name, *_ in way.moves):
            for o in instruction.operands:
                if o.role == "out" and o.memory:
                    made[o.memory] += registers_of(instruction, o.name, {})
        most |= {memory: max(count, most.get(memory, 0)) for memory, count in made.items()}
    return most


def _fillings(moves: _Moves, operand: OperandTile) -> list[Moved]:
    """Return the moves that fill or zero tiles. At the end of an axis, the remainder is zeroed."""
    clearing = find_clearing(moves.search, moves.home, operand.dtype.name)
    cleared, found = float(moves.tiles * prod(operand.cell_shape)), list[Moved]()
    if operand.subject != operand.fill:
        cleared *= _zeroed_share(moves, operand)
        move = _move_of(moves, operand).move
        found.append((move.instruction, move.cost_ns * moves.elements, moves.elements))
        found += [
            (name, ns * moves.elements + _waits_ns(moves, name), moves.elements)
            for name, ns in move.computing
        ]
    if cleared > 0 and clearing is not None:
        found.append((clearing.instruction, clearing_ns(clearing, moves.search) * cleared, moves.elements))
    return found


def _waits_ns(moves: _Moves, name: str) -> float:
    """Return how long the computing unit waits for its own results in a chain of instructions."""
    machine, own = moves.search.machine, moves.tile.mapping.instruction
    same = machine.instructions[name].cost.unit == machine.instructions[own].cost.unit
    return moves.tiles * issue_latency_ns(machine, name, 0.0) if same else 0.0


def _zeroed_share(moves: _Moves, operand: OperandTile) -> float:
    """Return the share of cells at the ends of axes that are set to zero.

    Along rows these are the cells after the last row of a tile, else all of a tile in which an axis ends.
    """
    filled = 1.0
    for axis in moves.tile.axes:
        extent = next(a.extent for a in moves.option.axes if a.name == axis.name)
        short = extent % axis.tile
        digits = {digit for digit, _ in axis.digits}
        if short and any(digits & place.symbols for place in operand.cell_pattern):
            is_rows = bool(digits & operand.cell_pattern[0].symbols)
            filled *= 1 - (1 - short / axis.tile if is_rows else 1) / -(-extent // axis.tile)
    return 1 - filled


def _issues(moves: _Moves) -> int:
    found = _move_of(moves, moves.operand)
    return -(-found.move.issues * moves.tiles // found.tiles)


def _move_of(moves: _Moves, operand: OperandTile) -> TilesMove:
    """Return the instruction that moves tiles into the scratchpad."""
    found = tiles_move(operand, moves.tile, moves.home, moves.search)
    assert found is not None, "homes are those that something moves to"
    return found


def _early(moves: _Moves, moved_ns: float) -> int:
    """Return how many moves are issued before the computation waits for them.

    Their queue holds some, and others run in parallel with the queue of the computing unit. Without a queue,
    the moves in flight count. Moves of windows do not run in parallel, because they would overwrite data that
    is still read.
    """
    move, computes = _depths(moves)
    if not (move and computes):
        return IN_FLIGHT
    if moves.windows:
        return move
    return move + int(computes * moves.option.interval_ns * _issues(moves) / moved_ns)


def _depths(moves: _Moves) -> tuple[int, int]:
    """Return the queue lengths of the moving and of the computing unit, 0 without a queue."""
    move, machine = _move_of(moves, moves.operand).move, moves.search.machine
    units = (machine.instructions[n].cost.unit for n in (move.instruction, moves.tile.mapping.instruction))
    move_count, compute_count = (machine.units[unit].queued or 0 for unit in units)
    return move_count, compute_count


def _stores_of(moves: _Moves, way: WayOut) -> list[Moved]:
    """Return the moves that store all tiles of a result. Only existing elements enter and leave the scratchpads."""
    *before, (last, last_ns, _) = way.moves
    size = prod(moves.operand.cell_shape)
    first = [(name, ns * moves.tiles, -(-count * moves.elements // size)) for name, ns, count in before]
    return [*first, (last, last_ns / size * moves.elements, moves.elements)]


def _filled_once(ways: Iterable[WayOut]) -> Iterator[Moved]:
    """Yield the moves that fill a buffer once for all tiles."""
    for way in ways:
        kept = (buffer for buffer in way.buffers[1:] if buffer.kept)
        for (name, ns, _), buffer in zip(way.once, kept, strict=True):
            yield name, ns, prod(buffer.shape)


def _busy(moves: _Moves, moved: Iterable[Moved]) -> Busy:
    """Return the busy time of units and shared links for some moves."""
    machine, found = moves.search.machine, dict[str, float]()
    for name, ns, elements in moved:
        unit = machine.instructions[name].cost.unit
        found[unit] = found.get(unit, 0.0) + ns
        crossed = shared_link(machine, name)
        if crossed is not None:
            link, operand = crossed
            # A link's time per element for an instruction's largest issue. Units: nanoseconds. An element that
            # crosses the link once may be written several times, as one row for all rows of a tile.
            instruction = machine.instructions[name].instruction
            most = cost_params(machine.instructions[name], machine, largest_params(machine, name))
            shapes = {o.name: [extent.evaluate(most) for extent in o.shape] for o in instruction.operands}
            carried = carried_ns(link, instruction.operand(operand), shapes[operand])
            link_ns = elements * (carried / max(map(prod, shapes.values())))
            found[link.source_memory] = found.get(link.source_memory, 0.0) + link_ns
            if rate := cached_bytes_per_ns(machine.memories[link.source_memory], machine.levels):
                is_cached = machine.memories[link.source_memory].number("cache_bytes")
                cache = f"the {'cache' if is_cached else 'receivers'} of {link.source_memory}"
                found[cache] = found.get(cache, 0.0) + link_ns * link.bandwidth_bytes_per_ns / rate
        for memory, bank in moved_bank_ns(machine, name, elements).items():
            found[memory] = found.get(memory, 0.0) + bank
    return tuple(sorted(found.items()))


# --- how long banks of scratchpads are busy ---


def bank_ns(machine: Machine, instruction: str, params: Mapping[str, int]) -> dict[str, float]:
    """Return, for each memory, how long one issue keeps all its banks busy. Units: nanoseconds."""
    item = machine.instructions[instruction]
    numbers = cost_params(item, machine, params)
    return _banks_busy(
        machine, item, lambda o: (1 + (o.role == "inout")) * prod(e.evaluate(numbers) for e in o.shape)
    )


def _link_ns(machine: Machine, instruction: str, params: Mapping[str, int]) -> dict[str, float]:
    """Return, by its memory, how long one issue keeps the link busy that units share. Units: nanoseconds."""
    crossed, item = shared_link(machine, instruction), machine.instructions[instruction]
    if crossed is None:
        return {}
    link, there = crossed[0], item.instruction.operand(crossed[1])
    numbers = cost_params(item, machine, params)
    return {link.source_memory: carried_ns(link, there, [e.evaluate(numbers) for e in there.shape])}


def moved_bank_ns(machine: Machine, instruction: str, elements: int) -> dict[str, float]:
    """Return the bank times of an instruction for a number of elements, in as many issues as necessary."""
    return _banks_busy(machine, machine.instructions[instruction], lambda _: elements)


def _banks_busy(
    machine: Machine, item: MachineInstruction, touched: Callable[[Operand], int]
) -> dict[str, float]:
    found = dict[str, float]()
    for operand in item.instruction.operands:
        banks = banks_of(machine.memories[operand.memory], machine.clock_ghz) if operand.memory else None
        if banks is not None:
            ns = touched(operand) * operand.dtype.size_bytes / banks.together_per_ns
            found[banks.memory] = found.get(banks.memory, 0.0) + ns
    return found


# --- What it takes to bring tiles from their scratchpad into registers, and sums back, by unit ---


def load_time(operand: OperandTile, tile: Tile, home: str, tiles: int, search: MoveSearch) -> Busy:
    """Return how long loads of an operand's tiles occupy units other than the computing one."""
    return _by_unit(_load(operand, tile, home, search), tile, tiles, search)


def store_time(acc: OperandTile, tile: Tile, home: str, tiles: int, search: MoveSearch) -> Busy:
    """Return how long stores of sum tiles occupy units other than the computing one."""
    if isinstance(_load(acc, tile, home, search), Location):
        return ()  # the instruction itself adds to what lies there
    return _by_unit(_store(acc, home, search), tile, tiles, search)


def latency_ns(acc: OperandTile, tile: Tile, home: str, search: MoveSearch) -> float:
    """Return the round-trip time of a tile of sums from registers to its scratchpad and back."""
    machine, ways = search.machine, (_load(acc, tile, home, search), _store(acc, home, search))
    steps = (step for way in ways if isinstance(way, OperandMove) for step in steps_of(way))
    found = (machine.instructions[step.instruction] for step in steps)
    return add_up(cost_value(i.cost.latency_ns, cost_params(i, machine, {})) for i in found)


def _load(operand: OperandTile, tile: Tile, home: str, search: MoveSearch) -> OperandMove | Location | None:
    found = homes_of(tile, operand, search).get(home)
    return found if isinstance(found, OperandMove | Location) else None


def _store(acc: OperandTile, home: str, search: MoveSearch) -> OperandMove | None:
    cell = in_tiles(acc, search, home)
    return find_operand_store(search, cell, acc.held, acc.memory, acc.dtype, acc.request({}))


def _by_unit(found: OperandMove | Location | None, tile: Tile, tiles: int, search: MoveSearch) -> Busy:
    machine = search.machine
    own = machine.instructions[tile.mapping.instruction].cost.unit
    each = ((unit, tiles * unit_ns(found, unit, search)) for unit in machine.units if unit != own)
    return tuple((unit, ns) for unit, ns in each if ns)
