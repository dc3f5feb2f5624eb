"""Buffers in scratchpads: which ones an operand may use, and the instructions that move its elements.

One instruction copies a block between two memories that are both addressed:

    mvin(scalar R: 0..16, scalar C: 0..16) { in x: i8[R, C] @ dram strides(any, 1); out z: i8[R, C] @ spad …; }
moves a tile of A[@m + ~m, @k + ~k] into a buffer of 16 by 16: R counts ~m, C counts ~k, both as far as the
axes go. Counters that no axis of the instruction counts become loops around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby, permutations
from math import lcm, prod
from typing import cast

from isamap.ir import Axis, Const, DType, Expr, Index, Read, index_min, print_expr, substitute_expr
from isamap.ir.index import ONE, ZERO, FloorDiv, MinMax, Mod, index_max
from isamap.ir.walk import map_reads, with_parts
from isamap.machine import Machine, Memory, private_memories
from isamap.match.moves.chains import Movement, moved_by, steps_of
from isamap.match.moves.transfers import (
    Copy,
    computed_counts,
    copy_by_axes,
    fills_all,
    find_transfer,
    moved_counts,
    shown_axes,
)
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove, Present
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.patterns.address import Location
from isamap.match.patterns.layouts import BUFFER_BYTES
from isamap.match.patterns.padding import fold, is_equal
from isamap.match.patterns.pattern import Pattern, encoded_values, pattern_of
from isamap.match.patterns.unify import Binding, heads_match, unify_once
from isamap.match.tiles.operand_tiles import OFFSET, PROBE, OperandTile, Tile, bring, in_tiles, zero_of
from isamap.match.tiles.written_values import Written, get_own_sum
from isamap.source import NoMapping, add_up, dataclass, field, replace
from isamap.transform import distinct_reads, reads, symbols


@dataclass(frozen=True, slots=True)
class Dma:
    """An instruction that moves a part of a copy, or computes it.

    `pieces` are the largest values of counters that it counts itself. A longer copy takes several pieces,
    and an outer counter counts them. `counts` are the extents of the counters, `places` the addresses of
    its operands. `fills_rest` says that it writes zeros into the cells of a tile that get no element.
    Units: `cost_ns` and `energy_pj` per element. `waits` is the memory at which lanes wait for each other, and the
    part of `cost_ns` for which they do.
    """

    instruction: str
    places: tuple[tuple[str, Location], ...]
    params: tuple[tuple[str, Index | Expr], ...]
    pieces: tuple[tuple[str, int], ...]
    counts: tuple[tuple[str, Index], ...]
    cost_ns: float
    fills_rest: bool = False
    energy_pj: float = 0.0
    waits: tuple[str, float] = ("", 0.0)

    @property
    def trips(self) -> dict[str, Index]:
        """The number of issues along each counter that one issue does not cover."""
        pieces = dict(self.pieces)
        around = {c: n for c, n in self.counts if c not in pieces or (largest(n) or 0) > pieces[c]}
        return {c: n.ceildiv(pieces.get(c, 1)) for c, n in around.items()}

    @property
    def issues(self) -> int:
        """The largest number of issues."""
        return prod(largest(n) or 1 for n in self.trips.values())


def find_dma(copy: Copy, counts: Mapping[str, Index], search: MoveSearch) -> Dma | None:
    """Return the cheapest instruction for a copy, with as many counters in one issue as possible, or None."""
    key = copy.target, copy.value, tuple((counter, counts[counter]) for counter in copy.counters)
    if key not in search.movers:
        runs = in_runs(copy, counts)
        ways = [(copy, counts), *([runs] if runs is not None else [])]
        patterns = [p for p in search.known.assigning if _ends_match(copy, p, search)]
        found = (_most_at_once(*way, pattern, search) for pattern in patterns for way in ways)
        search.movers[key] = min(
            (dma for dma in found if dma is not None), key=lambda dma: (dma.cost_ns, dma.issues), default=None
        )
    return cast("Dma | None", search.movers[key])


def _ends_match(copy: Copy, pattern: Pattern, search: MoveSearch) -> bool:
    """Return whether an instruction reads and writes the memories of a copy. This cheap test comes first."""
    output = pattern.output
    if output.dtype != copy.target.dtype or not search.lies_in(copy.target.buffer, output.memory):
        return False
    if not heads_match(pattern.value, copy.value):
        return False
    memories = {o.name: o.memory for o in pattern.instruction.operands}

    def is_there(binding: Binding) -> bool:
        subject = binding.subject
        if binding.name not in memories:
            return True  # a parameter
        return isinstance(subject, Read) and search.lies_in(subject.buffer, memories[binding.name])

    return any(all(map(is_there, bindings)) for bindings in unify_once(pattern.value, copy.value))


def _most_at_once(
    copy: Copy, counts: Mapping[str, Index], pattern: Pattern, search: MoveSearch
) -> Dma | None:
    """Return the instruction with as many counters of a copy in one issue as possible, or None."""
    for _, assigned in groupby(_assignments(pattern.axes, copy.counters), key=len):
        found = [lay_over_copy(copy, counts, pattern, counters, search) for counters in assigned]
        known = [dma for dma in found if dma is not None]
        if known:
            return min(known, key=lambda dma: (dma.cost_ns, dma.issues))
    return None


def _assignments(axes: tuple[Axis, ...], counters: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yield assignments of counters to the axes of an instruction. Axes may remain without a counter."""
    for size in range(min(len(axes), len(counters)), -1, -1):
        for chosen in permutations(counters, size):
            for places in permutations([a.name for a in axes], size):
                if list(places) == [a.name for a in axes if a.name in places]:
                    yield dict(zip(places, chosen, strict=True))


def lay_over_copy(
    copy: Copy, counts: Mapping[str, Index], pattern: Pattern, counters: dict[str, str], search: MoveSearch
) -> Dma | None:
    """Return the instruction with its axes on these counters, or None if addresses or extents do not fit."""
    extents, over = _pieces(pattern, counters, counts)
    sizes = _params(pattern, extents)
    counted, lengths = set(counters.values()), dict[str, Index]()
    lengths |= {counters.get(axis, axis): extent for axis, extent in extents.items()}
    lengths |= {counter: counts[counter] for counter in copy.counters if counter not in counted}
    if sizes is None or any(n.symbols & (counted - {counter}) for counter, n in lengths.items()):
        return None  # rows of different lengths are no block
    limits = {name: largest(extent) or 0 for name, extent in extents.items()}
    numbers = {name: largest(value) or 0 for name, value in sizes.items()}
    written = Binding(pattern.target.buffer, pattern.target.index, substitute_expr(copy.target, over))
    known = {p.name for p in pattern.instruction.params}
    for bindings in unify_once(pattern.value, substitute_expr(copy.value, over)):
        given = {b.name: b.subject for b in bindings if b.name in known}
        operands = [*(b for b in bindings if b.name not in known), written]
        placed = [(b.name, search.locate(pattern.instruction, b, numbers, limits)) for b in operands]
        places = tuple((name, place) for name, place in placed if place is not None)
        named = encoded_values(pattern.instruction, bindings)
        if len(places) < len(placed) or named is None or known != {*sizes, *given}:
            continue
        if any(symbols(value) for value in given.values()):
            continue
        params: dict[str, Index | Expr] = {**sizes, **given, **{n: Index.of(v) for n, v in named.items()}}
        pieces = tuple((counter, limits[axis]) for axis, counter in counters.items())
        moved = max(1, prod(limits.values()))
        memory, waits_ns = search.lanes_ns(pattern.name, places, numbers)
        cost = (search.interval_ns(pattern.name, numbers) + waits_ns) / moved
        energy = search.energy_pj(pattern.name, numbers) / moved
        counted = tuple((c, counts[c]) for c in copy.counters)
        found = Dma(
            pattern.name,
            places,
            tuple(sorted(params.items())),
            pieces,
            counted,
            cost,
            energy_pj=energy,
            waits=(memory, waits_ns / moved),
        )
        if pattern.output.outside not in ("zero", "undefined") or copy.target.buffer not in search.homes:
            return found
        elements = prod(n.substitute(sizes).value or 0 for n in pattern.output.shape)
        if not found.trips and elements == search.steps.get(copy.target.buffer, {}).get(OFFSET):
            return replace(found, fills_rest=pattern.output.outside == "zero")
        if elements == prod(n.value or 0 for n in extents.values()):
            return found  # nothing is outside
    return None


def _pieces(
    pattern: Pattern, counters: Mapping[str, str], counts: Mapping[str, Index]
) -> tuple[dict[str, Index], dict[str, Index]]:
    """Return the extent of each axis of the instruction, and each counter as an expression of axes and pieces."""
    extents: dict[str, Index] = {}
    over: dict[str, Index] = {}
    for axis in pattern.axes:
        counter = counters.get(axis.name)
        if counter is None:
            extents[axis.name] = Index.of(1)
            continue
        count, most = counts[counter], _most(pattern, axis)
        extents[axis.name], over[counter] = count, Index.of(f"%{axis.name}")
        if most is not None and (largest(count) or 0) > most:
            before = Index.of(counter) * most
            is_even = count.value is not None and count.value % most == 0
            extents[axis.name] = Index.of(most) if is_even else index_min(most, count - before)
            over[counter] += before
    return extents, over


def _most(pattern: Pattern, axis: Axis) -> int | None:
    """Return the limit of an axis whose extent is a parameter, or None if it has no limit."""
    limits = [p.high for p in pattern.instruction.params if axis.extent == Index.of(p.name)]
    return limits[0].value if limits and limits[0] is not None else None


def _params(pattern: Pattern, extents: Mapping[str, Index]) -> dict[str, Index] | None:
    """Return the parameter values that give the axes these extents, or None if an extent does not fit."""
    found: dict[str, Index] = {}
    for axis in pattern.axes:
        requested, most = extents[axis.name], largest(extents[axis.name])
        if axis.extent.value is not None:
            if requested.value != axis.extent.value:
                return None
            continue
        (symbol,) = axis.extent.symbols if len(axis.extent.symbols) == 1 else ("",)
        if axis.extent != Index.of(symbol) or most is None:
            return None
        param = pattern.instruction.param(symbol)
        low = param.low.value if param.low is not None and param.low.value is not None else 1
        high = param.high.value if param.high is not None else None
        if high is None or most > high or (requested.value is not None and requested.value < low) or low > 1:
            return None
        if found.setdefault(symbol, requested) != requested:
            return None
    return found


def largest(count: Index) -> int | None:
    """Return the largest value of a count that is a number or a minimum with a number, else None."""
    if count.value is not None:
        return count.value
    if len(count.terms) != 1 or count.terms[0][1] != 1 or len(count.terms[0][0]) != 1:
        return None
    atom = count.terms[0][0][0]
    if not isinstance(atom, MinMax) or atom.op != "min":
        return None
    return min((p for p in (largest(atom.left), largest(atom.right)) if p is not None), default=None)


@dataclass(frozen=True, slots=True)
class Clearing:
    """An instruction that sets `most` neighbouring elements of a memory to zero. `param` says how many."""

    instruction: str
    operand: str
    param: str
    most: int


def find_clearing(search: MoveSearch, memory: str, dtype: str) -> Clearing | None:
    """Return the move that zeroes a scratchpad, or None if no instruction does this."""
    for item in search.machine.instructions.values():
        pattern = pattern_of(item.instruction)
        if pattern is None or pattern.statement.assign.op is not None or len(pattern.axes) != 1:
            continue
        output, params = pattern.output, pattern.instruction.params
        zero = isinstance(pattern.value, Const) and pattern.value.value == 0
        if not zero or (output.memory, output.dtype.name) != (memory, dtype) or len(params) != 1:
            continue
        most = params[0].high.value if params[0].high is not None else None
        if most is not None and pattern.axes[0].extent == Index.of(params[0].name):
            return Clearing(pattern.name, output.name, params[0].name, most)
    return None


def clearing_ns(clearing: Clearing, search: MoveSearch) -> float:
    """Return the time per element of zeroing, in issues of the largest size. Units: ns."""
    return search.interval_ns(clearing.instruction, {clearing.param: clearing.most}) / clearing.most


@dataclass(frozen=True, slots=True)
class ScratchMove:
    """The instructions that move a tile between an array and a buffer. Units: ns and pJ per element.

    `computing` are the instructions that compute the tile afterwards if it is no copy, each with its time. `waits`
    is the memory at which lanes wait for each other, with the part of `cost_ns` for which they do. `only_starts`
    says that nothing loads the tile: zeros are written where its sums start.
    """

    instruction: str
    issues: int
    cost_ns: float
    energy_pj: float = 0.0
    computing: tuple[tuple[str, float], ...] = ()
    waits: tuple[str, float] = ("", 0.0)
    only_starts: bool = False


def scratchpads(machine: Machine) -> tuple[Memory, ...]:
    """Return the memories in which the compiler places each buffer at an address."""
    return tuple(m for m in machine.memories.values() if m.kind == "scratchpad")


def homes_of(
    tile: Tile, operand: OperandTile, search: MoveSearch
) -> dict[str, OperandMove | Present | Location]:
    """Return how a tile is loaded from a buffer, for each memory of the buffer. "" is the workspace.

    A result that is overwritten is brought from nowhere: it needs a buffer only.
    A memory of each part of a parallel loop is nearer than the workspace, and comes first.
    """
    found: dict[str, OperandMove | Present | Location] = {}
    private = private_memories(search.machine)
    others = (m.name for m in scratchpads(search.machine) if m.name not in private)
    for home in (*private, "", *others):
        if home and not is_whole(operand, home, search):
            continue
        brought = bring(search, tile, operand, operand.request({}, expr=in_tiles(operand, search, home)))
        is_filled = bool(home) and not tile.overwrites(operand)
        if brought is None or (is_filled and scratch_move(operand, tile, home, search) is None):
            continue
        if not is_filled or is_cleared(operand, tile, home, search):
            found[home] = brought
    return found


def is_whole(operand: OperandTile, home: str, search: MoveSearch) -> bool:
    """Return whether the size of a tile in a scratchpad is a multiple of its address step."""
    return prod(operand.cell_shape) * operand.dtype.size_bytes % search.known.address_steps[home] == 0


def is_cleared(operand: OperandTile, tile: Tile, home: str, search: MoveSearch) -> bool:
    """Return whether every cell of an operand's tiles in a scratchpad gets an element or zero.

    Remainders of open sizes are checked when the program is built.
    """
    if operand.fill.value == 0 and (
        find_clearing(search, home, operand.dtype.name) is not None
        or (
            (dma := find_dma(*_tile_copy(operand, tile, home, search), search)) is not None and dma.fills_rest
        )
    ):
        return True
    shown = [a for a in shown_axes(operand, tile) if a.name not in tile.run_time_lengths]
    extents = [(a.extent.value, a.tile) for a in shown]
    return fills_all(operand, tile) and all(n is None or n % of == 0 for n, of in extents)


def explain_uncleared(tile: Tile, search: MoveSearch) -> NoMapping | None:
    """Return the error of a mapping whose tiles need zero fill that no instruction provides, or None."""
    for operand in (*tile.inputs, *((tile.accumulator,) if tile.accumulator is not None else ())):
        for memory in scratchpads(search.machine):
            if tile.overwrites(operand) or is_cleared(operand, tile, memory.name, search):
                continue
            cells = in_tiles(operand, search, memory.name)
            if bring(search, tile, operand, operand.request({}, expr=cells)) is not None:
                what = f"tiles of `{operand.name}` are"
                return no_clearing(operand.dtype, memory.name, what, search, fill=operand.fill)
    return None


def no_clearing(
    dtype: DType, home: str, what: str, search: MoveSearch, *, fill: Const | None = None
) -> NoMapping:
    """Return the error for partly filled tiles in a scratchpad whose rest no instruction fills. Zero fills sums."""
    value = "zero" if fill is None or fill.value == 0 else print_expr(fill)
    way = (
        "give the machine an instruction that writes 0 to neighbouring elements, as many as a scalar "
        "parameter states, or "
    )
    return NoMapping.of(
        "no-clearing",
        f"{search.machine.name} cannot set {dtype} in {home} to {value}",
        notes=(f"{what} filled in part at the end of an axis",),
        help=f"{way if value == 'zero' else ''}choose sizes that are whole tiles",
    )


def scratch_move(
    operand: OperandTile, tile: Tile, home: str, search: MoveSearch, *, back: bool = False
) -> ScratchMove | None:
    """Return the move of a whole tile into a buffer in a scratchpad, or back, or None if there is none."""
    written = get_own_sum(tile) if back else None
    copy, counts = _tile_copy(operand, tile, home, search, written)
    elements = prod(operand.cell_shape)
    dma = find_dma(copy, counts, search)
    if dma is not None:
        return ScratchMove(dma.instruction, dma.issues, dma.cost_ns, dma.energy_pj, waits=dma.waits)
    found = find_transfer(copy, counts, search)
    way = find_way_in(operand, tile, home, search) if found is None and not back else None
    if way is not None:
        (name, cost_ns), *others = way.moves
        return ScratchMove(name, len(way.moves), cost_ns, computing=tuple(others))
    if found is None:
        subject = written.target if written is not None else operand.subject
        passing = (
            isinstance(subject, Read) and subject.buffer in search.passing and not tile.overwrites(operand)
        )
        in_place = _computed_away(operand, home, search) if back else _started_in(operand, tile, home, search)
        return in_place if passing else None
    return ScratchMove(found.store.instruction, elements // found.width, found.cost_ns)


def _tile_copy(
    operand: OperandTile, tile: Tile, home: str, search: MoveSearch, back: Written | None = None
) -> tuple[Copy, dict[str, Index]]:
    """Return the copy of a whole tile into a buffer in a scratchpad, or back, and the extents of its counters."""
    buffer = in_tiles(operand, search, home).buffer
    copy = copy_by_axes(
        operand, buffer, Index.of(OFFSET), tile, position_of(operand, tile, search), back=back
    )
    return copy, moved_counts(operand, tile)


def position_of(operand: OperandTile, tile: Tile, search: MoveSearch) -> dict[str, Index]:
    """Return the loop position along each axis, and register with the search that it is a multiple of a tile."""
    steps = {f"@{a.name}": a.tile for a in shown_axes(operand, tile)}
    for buffer in {read.buffer for read in reads(operand.subject)}:
        search.steps[buffer] = {**search.steps.get(buffer, {}), **steps}
    return {a.name: Index.of(f"@{a.name}") for a in tile.axes}


# A buffer on the way in has two copies where so many of them fit into its scratchpad.
MOST_COPIES = 64


@dataclass(frozen=True, slots=True)
class InBetween:
    """An intermediate buffer that holds a tile until an instruction reads it.

    Neighbouring tiles have different ones of its `copies`, so that one is filled while another is read.
    """

    name: str
    memory: str
    dtype: DType
    copy_bytes: int
    copies: int

    @property
    def size_bytes(self) -> int:
        return self.copies * self.copy_bytes


@dataclass(frozen=True, slots=True)
class WayIn:
    """The copies that load a tile of a computed operand, in order. The last one fills its scratchpad buffer.

    Units: `moves` are instructions with nanoseconds per element, one for each copy.
    """

    steps: tuple[Copy, ...]
    buffers: tuple[InBetween, ...]
    moves: tuple[tuple[str, float], ...]

    def bytes_of(self, memory: str) -> int:
        """Return the bytes of a scratchpad that the buffers take."""
        return sum(buffer.size_bytes for buffer in self.buffers if buffer.memory == memory)


def find_way_in(operand: OperandTile, tile: Tile, home: str, search: MoveSearch) -> WayIn | None:
    """Return the instructions that compute a tile of an operand in its load into `home`, or None.

    Values computed beyond the end of a reduction axis are summed, so they must be the neutral element.
    """
    way = _find_way(operand, tile, home, search)
    return way if way is None or not _explain_behind(way, operand, tile, search) else None


def explain_behind_ends(operand: OperandTile, tile: Tile, search: MoveSearch) -> str:
    """Return why instructions that compute an operand cannot be used where a sum ends, or ""."""
    found = (_find_way(operand, tile, m.name, search) for m in scratchpads(search.machine))
    return next((why for way in found if way and (why := _explain_behind(way, operand, tile, search))), "")


def _find_way(operand: OperandTile, tile: Tile, home: str, search: MoveSearch) -> WayIn | None:
    copy, _ = _tile_copy(operand, tile, home, search)
    if isinstance(copy.value, Read):
        return None
    return _Composition(copy, computed_counts(operand, tile), operand.cell_shape, search).way_in(home)


def _explain_behind(way: WayIn, operand: OperandTile, tile: Tile, search: MoveSearch) -> str:
    """Return why a value may change a sum behind its end, where arrays are set to zero, or ""."""
    lengths = tile.run_time_lengths
    summed = [a for a in tile.axes if a.is_reduction and a.tile > 1 and a.name not in lengths]
    if all(a.extent.value is not None and a.extent.value % a.tile == 0 for a in summed):
        return ""
    value = _tile_copy(operand, tile, "", search)[0].value
    zeros = {read.buffer: zero_of(read.dtype) for read in reads(value)}
    loads = [b for step, b in zip(way.steps, way.buffers, strict=False) if isinstance(step.value, Read)]
    computing = [step for step in way.steps if not isinstance(step.value, Read)]
    uncleared = [b for b in loads if not find_clearing(search, b.memory, b.dtype.name)]
    if any(a.extent.value is None for a in summed):
        return "the sum's size is open, and its last tile is computed whole: give the size"
    if not is_equal(operand.fill, fold(value, zeros, finite=True)):
        shown = next((b.subject for b in tile.mapping.bindings if b.name == operand.name), operand.subject)
        said = f"`{print_expr(shown)}` of zeros is not {print_expr(operand.fill)}"
    elif uncleared:
        said = f"no instruction sets {uncleared[0].dtype.name} in {uncleared[0].memory} to zero"
    elif any(read.buffer in zeros for step in computing for read in reads(step.value)):
        said = "an instruction computes from an array whose end nothing sets to zero"
    else:
        return ""
    return f"{said}, and the last tile of the sum is computed whole: choose sizes of whole tiles"


def computed_inputs(tile: Tile, search: MoveSearch) -> dict[str, WayIn]:
    """Return, for each input tile that no copy can load, the instructions that compute it."""
    found: dict[str, WayIn] = {}
    for operand in tile.inputs:
        if not isinstance(operand.subject, Read):
            homes = [home for home in homes_of(tile, operand, search) if home]
            copied = (
                bool(homes) and find_dma(*_tile_copy(operand, tile, homes[0], search), search) is not None
            )
            way = find_way_in(operand, tile, homes[0], search) if homes and not copied else None
            found |= {operand.name: way} if way is not None else {}
    return found


@dataclass(frozen=True)
class _Composition:
    """The search for instructions that compute a copy's value from its parts, each part in a buffer.

    `known` is, by value and memory, the copies that leave it there, `None` where nothing does or while it is
    looked for.
    """

    copy: Copy
    counts: Mapping[str, Index]
    shape: tuple[int, ...]
    search: MoveSearch
    known: dict[tuple[Expr, str], WayIn | None] = field(
        default_factory=dict[tuple[Expr, str], "WayIn | None"]
    )

    def way_in(self, home: str) -> WayIn | None:
        """Return the copies that compute the value into the scratchpad `home`, or None."""
        found = self._compute_into(self.copy.value, home)
        if found is None:
            return None
        *before, last = found.steps
        return replace(
            found, steps=(*before, replace(last, target=self.copy.target)), buffers=found.buffers[:-1]
        )

    def _leaving(self, value: Expr, memory: str) -> WayIn | None:
        """Return the cheapest copies after which a buffer of a memory has the value, or None."""
        if (value, memory) not in self.known:
            self.known[value, memory] = None
            self.known[value, memory] = self._brought(value, memory) or self._compute_into(value, memory)
        return self.known[value, memory]

    def _brought(self, value: Expr, memory: str) -> WayIn | None:
        return self._last(value, memory, ()) if isinstance(value, Read) or not reads(value) else None

    def _compute_into(self, value: Expr, memory: str) -> WayIn | None:
        found: list[WayIn] = []
        for pattern in self.search.known.assigning:
            if pattern.output.memory != memory or not heads_match(pattern.value, value):
                continue
            for bindings in unify_once(pattern.value, value):
                parts = [b for b in bindings if b.pattern]
                if any(b.subject == value for b in parts):
                    continue
                made = [(b.subject, self._leaving(b.subject, self._memory(pattern, b))) for b in parts]
                ways = {subject: way for subject, way in made if way is not None}
                if len(ways) == len({subject for subject, _ in made}):
                    last = self._last(value, memory, tuple(ways.items()))
                    found += [last] if last is not None else []
        if not found and memory in self.search.known.address_steps and not isinstance(value, Read):
            found += self._through_registers(value, memory)
        return min(found, key=lambda way: add_up(ns for _, ns in way.moves), default=None)

    def _through_registers(self, value: Expr, memory: str) -> list[WayIn]:
        """Return the way that brings the arrays' elements into a scratchpad and computes in registers, if any."""
        ways = {read: self._leaving(read, memory) for read in distinct_reads(value)}
        parts = {read: way for read, way in ways.items() if way is not None}
        last = self._last(value, memory, tuple(parts.items())) if parts and len(parts) == len(ways) else None
        return [last] if last is not None else []

    def _memory(self, pattern: Pattern, binding: Binding) -> str:
        return pattern.instruction.operand(binding.name).memory or ""

    def _last(self, value: Expr, memory: str, parts: tuple[tuple[Expr, WayIn], ...]) -> WayIn | None:
        """Return the copies that put parts of a value into buffers, and then compute the value from them, or None."""
        if self.search.holds_arrays(memory):
            return None
        here = {subject: way.steps[-1].target for subject, way in parts}
        number = len({key for key in self.known if self.known[key] is not None})
        name = f"{PROBE}:in {number}:{value.dtype}:{self.shape}@{memory}"
        self.search.homes[name] = memory
        strides = (Index.of(prod(self.shape[d + 1 :])) for d in range(len(self.shape)))
        self.search.strides[name] = (ONE, *strides)
        target = Read(name, (ZERO, *self.copy.target.index[1:]), value.dtype)
        copy = Copy(target, _with_parts_in(value, here), self.copy.counters)
        dma = find_dma(copy, self.counts, self.search)
        move = (dma.instruction, dma.cost_ns) if dma is not None else None
        if move is None and parts and (found := find_transfer(copy, self.counts, self.search)) is not None:
            move = (found.store.instruction, found.cost_ns)
        if move is None:
            return None
        before = dict[Copy, tuple[InBetween, tuple[str, float]]]()
        for _, way in parts:
            before |= dict(zip(way.steps, zip(way.buffers, way.moves, strict=True), strict=True))
        step = lcm(BUFFER_BYTES, self.search.known.address_steps[memory])
        size = -(-prod(self.shape) * value.dtype.size_bytes // step) * step
        capacity = self.search.machine.memories[memory].capacity_bytes or 0
        copies = 2 if size * MOST_COPIES <= capacity else 1
        own = InBetween(name, memory, value.dtype, size, copies), move
        steps = {**before, copy: own}
        return WayIn(tuple(steps), tuple(b for b, _ in steps.values()), tuple(m for _, m in steps.values()))


def _with_parts_in(value: Expr, here: Mapping[Expr, Read]) -> Expr:
    """Return a value in which the given parts are read from buffers."""
    found = here.get(value)
    return found if found is not None else with_parts(value, lambda part: _with_parts_in(part, here))


def _computed_away(operand: OperandTile, home: str, search: MoveSearch) -> ScratchMove | None:
    """Return the store of sums from a scratchpad by an instruction that also computes, or None."""
    for pattern in search.known.assigning:
        read = [o for o in pattern.instruction.operands if o.role == "in" and o.memory == home]
        if read and read[0].dtype == operand.dtype:
            return ScratchMove(pattern.name, 1, 0.0)  # its time is that of the statement that computes
    return None


def _started_in(operand: OperandTile, tile: Tile, home: str, search: MoveSearch) -> ScratchMove | None:
    """Return the start of sums in a scratchpad by an instruction that writes zeros, or None."""
    clearing = find_clearing(search, home, operand.dtype.name) if operand is tile.accumulator else None
    if clearing is None:
        return None
    issues = -(-prod(operand.cell_shape) // clearing.most)
    return ScratchMove(clearing.instruction, issues, clearing_ns(clearing, search), only_starts=True)


def through_scratchpad(
    operand: OperandTile, tile: Tile, search: MoveSearch, *, back: bool = False
) -> Movement | None:
    """Return the movement of an operand through a scratchpad. Sums are also written there and copied out."""
    for home, loaded in homes_of(tile, operand, search).items():
        ways = (True,) if tile.overwrites(operand) else (False, True) if back else (False,)
        moves = [scratch_move(operand, tile, home, search, back=b) for b in ways]
        known = [move for move in moves if move is not None]
        if not home or len(known) < len(moves):
            continue
        chain = () if isinstance(loaded, Location) else steps_of(loaded)
        if back and not search.is_addressable(operand.memory):
            cell = in_tiles(operand, search, home)
            request = operand.request({})
            stored = find_operand_store(search, cell, operand.held, operand.memory, operand.dtype, request)
            if stored is None:
                continue
            chain = (*chain, *steps_of(stored))
        at_once = all(move.issues < prod(operand.cell_shape) for move in known)
        moved = moved_by(operand, "packed" if at_once or prod(operand.cell_shape) == 1 else "gathered", chain)
        return replace(
            moved,
            packing=tuple(move.instruction for move in known),
            packing_moves=sum(move.issues for move in known),
            packing_ns=add_up(move.cost_ns for move in known) * prod(operand.cell_shape),
        )
    return None


# Copies of fused axes as runs: as far as elements follow each other along one of them, one move takes many.
#
#     X[(@pq + ~pq) / 56, (@pq + ~pq) % 56, c]     a tile of 256 pixels of rows of 56
#     X[@pq / 56 + j, o + start + ~pq - 56*j, c]   run j of it, with o = @pq % 56, start = max(0, 56*j - o)
#
# Counters of one axis that tiles cut anywhere become two, of runs and of what is in a run.


Counts = Mapping[str, Index]


def in_runs(copy: Copy, counts: Counts) -> tuple[Copy, dict[str, Index]] | None:
    """Return the copy with the counter of a fused axis split into runs, or None if it has no such counter."""
    for counter in copy.counters:
        found = {(atom.value, atom.divisor) for atom in _divisions(copy, counter)}
        if len(found) != 1:
            continue
        ((value, divisor),) = found
        before = value - Index.of(counter)
        if divisor.value is None or before.symbols & set(copy.counters):
            continue
        return _cut_counter(copy, counts, counter, before, divisor.value)
    return None


def _cut_counter(
    copy: Copy, counts: Counts, counter: str, before: Index, length: int
) -> tuple[Copy, dict[str, Index]] | None:
    """Return the copy with a counter split into runs of at most `length`. The first starts `before` its start."""
    run, inside, count = f"{counter}/", Index.of(counter), counts[counter]
    here, skipped = Index.of(run) * length, before.mod(length)
    start = here if skipped.value == 0 else index_max(0, here - skipped)
    end = index_min(count, here + length - skipped)
    most = count.value
    if most is None:
        return None
    runs = index_min((most + length - 1 + length - 1) // length, (skipped + count).ceildiv(length))
    within = Index.of(length) if skipped.value == 0 and most % length == 0 else index_min(length, end - start)
    quotient = before.floordiv(length) + Index.of(run)
    remainder = skipped + start + inside - here

    def move(index: Index) -> Index:
        # The index with a counter, and the divisions of it, expressed by runs.
        plain = start + inside
        found = ZERO
        for monomial, coefficient in index.terms:
            product = Index.of(coefficient)
            for atom in monomial:
                if atom == counter:
                    product = product * plain
                elif isinstance(atom, FloorDiv) and counter in atom.value.symbols:
                    product = product * quotient
                elif isinstance(atom, Mod) and counter in atom.value.symbols:
                    product = product * remainder
                else:
                    product = product * Index.of(atom)
            found = found + product
        return found

    def at(read: Read) -> Read:
        return Read(read.buffer, tuple(map(move, read.index)), read.dtype, read.fill, span=read.span)

    counters = tuple(c for name in copy.counters for c in ((run, name) if name == counter else (name,)))
    made = Copy(at(copy.target), map_reads(copy.value, at), counters)
    return made, {**counts, run: runs, counter: within}


def _divisions(copy: Copy, counter: str) -> Iterator[FloorDiv | Mod]:
    """Yield the divisions of a copy that depend on a counter."""
    for read in (copy.target, *reads(copy.value)):
        for index in read.index:
            for monomial, _ in index.terms:
                for atom in monomial:
                    if isinstance(atom, FloorDiv | Mod) and counter in atom.value.symbols:
                        yield atom
