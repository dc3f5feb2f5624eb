"""Find the statements that a mapping of a sum can fuse, with their costs: from tiles to `Fusion`s.

On a vector unit `C[m, n] = max(C[m, n], 0)` adds one instruction between a sum and its store. A unit that
only multiplies tiles has no chain of instructions from the accumulator to the value to be written. There
the tile goes through a buffer near the processor, and the fused statement is computed from that buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from isamap.formulate.hierarchy import Memories
from isamap.formulate.load_costs import homes_of_sums
from isamap.ir import Index, Kernel, typical_value
from isamap.ir.index import ONE
from isamap.match.moves.epilogue_moves import held_way_out, stored_way_out, way_out
from isamap.match.moves.scratch_buffers import clearing_ns, find_clearing, scratch_move, scratchpads
from isamap.match.moves.transfers import copy_by_axes, find_transfer, shown_axes
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove
from isamap.match.operand_loads.load_search import find_operand_load
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.tiles.operand_tiles import OFFSET, OperandTile, Tile, in_tiles
from isamap.match.tiles.written_values import Written, in_register, start_of_sum, written_value
from isamap.plan.problem import Fusion, NestProblem
from isamap.source import add_up, replace
from isamap.transform import reads, symbols
from isamap.transform.companions import HELD, Companion, companions, fused_result


def fusions(
    kernel: Kernel,
    number: int,
    tile: Tile,
    search: MoveSearch,
    profile: Mapping[str, int],
    memories: Memories,
) -> tuple[Fusion, ...]:
    """Return the statements that can be fused with a tile of statement `number`."""
    acc = tile.accumulator
    if acc is None or tile.held is not None:
        return ()
    found: list[Fusion] = []
    tiles = prod(_extent(a.extent, profile, a.tile) for a in tile.axes if a.name in acc.axes)
    for companion in companions(kernel, number):
        if not set(companion.needs) <= {f.statement for f in found}:
            continue
        tile_ns = _start_ns if companion.starts else _follow_ns
        extra_ns = tile_ns(kernel, number, companion, tile, acc, search)
        if extra_ns is not None:
            sizes = _bytes_of(companion, tile, profile)
            total_ns = tiles * max(0.0, extra_ns) + add_up(memories.moved_ns(size) for size in sizes)
            passes = tuple(_passes(kernel, number, companion, tile, acc, search))
            found.append(Fusion(companion.number, companion.needs, total_ns, passes))
    return tuple(found)


def offer_once(nests: Sequence[NestProblem]) -> tuple[NestProblem, ...]:
    """Return the nests with each fusable statement offered only to the first nest that may fuse it."""
    taken: set[int] = set()
    found: list[NestProblem] = []
    for nest in nests:
        mine = {f.statement for o in nest.options for f in o.fusions} - taken
        options = tuple(replace(o, fusions=_allowed_fusions(o.fusions, mine)) for o in nest.options)
        found.append(replace(nest, options=options))
        taken |= mine
    return tuple(found)


def _allowed_fusions(offered: tuple[Fusion, ...], allowed: set[int]) -> tuple[Fusion, ...]:
    """Return the fusions of allowed statements whose prerequisites are allowed, too."""
    kept: list[Fusion] = []
    for fusion in offered:
        if fusion.statement in allowed and set(fusion.needs) <= {f.statement for f in kept}:
            kept.append(fusion)
    return tuple(kept)


def lacks_start(kernel: Kernel, number: int, tile: Tile, taken: Sequence[Fusion], search: MoveSearch) -> bool:
    """Return whether nothing loads a tile's sums into their scratchpad, and no fused statement starts them."""
    acc = tile.accumulator
    home = _home(acc, tile, search) if acc is not None and tile.held is None else ""
    move = scratch_move(acc, tile, home, search) if acc is not None and home else None
    starts = {companion.number for companion in companions(kernel, number) if companion.starts}
    return move is not None and move.only_starts and starts.isdisjoint(f.statement for f in taken)


def _extent(extent: Index, profile: Mapping[str, int], step: int = 1) -> int:
    """Return the number of steps of an axis at the profile's sizes."""
    return -(-(typical_value(extent, profile) or 1) // step)


def _bytes_of(companion: Companion, tile: Tile, profile: Mapping[str, int]) -> Iterator[int]:
    """Yield the bytes of each array, other than the sum's, that a fused statement reads or writes."""
    own = tile.statement.assign.target.buffer
    for access in (companion.target, *reads(companion.value)):
        if access.buffer not in (own, HELD):
            axes = [a for a in tile.statement.axes if a.name in symbols(access)]
            yield prod(_extent(a.extent, profile) for a in axes) * access.dtype.size_bytes


# --- one tile: nanoseconds more than without the companion; None where nothing performs it ----------------


def _start_ns(
    kernel: Kernel, number: int, companion: Companion, tile: Tile, acc: OperandTile, search: MoveSearch
) -> float | None:
    """Return the additional time of loading a sum's initial value from another array, or None."""
    first = start_of_sum(tile, fused_result(kernel, number, (companion.number,)))
    home = _home(acc, tile, search)
    if first is not None and home:
        made, plain = (_filled_ns(operand, tile, home, search) for operand in (first[0], acc))
        return None if made is None or plain is None else made - plain
    if first is None or _through_buffer(acc, first[1], tile, search) is None:
        return None
    made, plain = (_brought_ns(operand, tile, search) for operand in (first[0], acc))
    return None if made is None else made - (plain or 0.0)


def _follow_ns(
    kernel: Kernel, number: int, companion: Companion, tile: Tile, acc: OperandTile, search: MoveSearch
) -> float | None:
    """Return the time to write the result of a fused epilogue. Units: nanoseconds."""
    before = companion.needs
    written = written_value(tile, fused_result(kernel, number, (*before, companion.number)))
    plain = written_value(tile, fused_result(kernel, number, before))
    if written is None or plain is None:
        return None
    costs = [[_written_ns(acc, w, tile, search) for w in every] for every in (written, plain)]
    known = [[ns for ns in every if ns is not None] for every in costs]
    return None if len(known[0]) < len(written) else sum(known[0]) - sum(known[1])


def _passes(
    kernel: Kernel, number: int, companion: Companion, tile: Tile, acc: OperandTile, search: MoveSearch
) -> Iterator[tuple[str, int]]:
    """Yield the scratchpads that a tile passes through when it is stored, with the bytes in each."""
    home = _home(acc, tile, search)
    if companion.starts or not home:
        return
    written = written_value(tile, fused_result(kernel, number, (*companion.needs, companion.number))) or ()
    kinds = held_way_out, stored_way_out
    ways = [way(acc, w, tile, home, search) for w in written for way in kinds]
    for memory in scratchpads(search.machine):
        taken = max((way.bytes_of(memory.name) for way in ways if way is not None), default=0)
        if taken:
            yield memory.name, taken


def _home(acc: OperandTile, tile: Tile, search: MoveSearch) -> str:
    """Return the scratchpad of sums, or their backing memory, or ""."""
    if search.is_addressable(acc.memory):
        return acc.memory
    return next(iter(homes_of_sums(tile, acc, search)), "")


def _filled_ns(operand: OperandTile, tile: Tile, home: str, search: MoveSearch) -> float | None:
    """Return the time to fill a tile of sums in their scratchpad, with zeros or from an array."""
    elements = prod(operand.cell_shape)
    if operand.subject == operand.fill:
        clearing = find_clearing(search, home, operand.dtype.name)
        return None if clearing is None else elements * clearing_ns(clearing, search)
    move = scratch_move(operand, tile, home, search)
    return None if move is None else elements * move.cost_ns


def _brought_ns(operand: OperandTile, tile: Tile, search: MoveSearch) -> float | None:
    found = find_operand_load(search, operand.request({}))
    if isinstance(found, OperandMove):
        return found.cost_ns
    loaded = find_operand_load(search, operand.request({}, expr=in_tiles(operand, search)))
    copied = _copied_ns(operand, None, tile, search)
    return loaded.cost_ns + copied if isinstance(loaded, OperandMove) and copied is not None else None


def _written_ns(acc: OperandTile, written: Written, tile: Tile, search: MoveSearch) -> float | None:
    """Return the time to store a result from a register or buffer, or None unless both are possible.

    Both must be possible because tails may take the other one. A result in a scratchpad is stored from there.
    """
    home = _home(acc, tile, search)
    if home:
        way = way_out(acc, written, tile, home, search)
        return None if way is None else way.cost_ns * prod(acc.cell_shape)
    through = _through_buffer(acc, written, tile, search)
    found = find_operand_store(search, written.target, in_register(written, acc), "", None, acc.request({}))
    return through if through is None or found is None else found.cost_ns


def _through_buffer(acc: OperandTile, written: Written, tile: Tile, search: MoveSearch) -> float | None:
    cell = in_tiles(acc, search)
    stored = find_operand_store(search, cell, acc.held, acc.memory, acc.dtype, acc.request({}))
    copied = _copied_ns(acc, written, tile, search)
    return stored.cost_ns + copied if stored is not None and copied is not None else None


def _copied_ns(operand: OperandTile, written: Written | None, tile: Tile, search: MoveSearch) -> float | None:
    """Return the time to copy a tile into its buffer, or to compute the result from the buffer, or None.

    Edges are copied element by element.
    """
    buffer, position = (in_tiles(operand, search).buffer, {a.name: Index.of(f"@{a.name}") for a in tile.axes})
    copy = copy_by_axes(operand, buffer, Index.of(OFFSET), tile, position, back=written)
    sizes = {f"~{a.name}": a.tile for a in shown_axes(operand, tile)}
    found = find_transfer(copy, {n: Index.of(size) for n, size in sizes.items()}, search)
    single = find_transfer(copy, dict.fromkeys(sizes, ONE), search)
    return None if found is None or single is None else found.cost_ns * prod(sizes.values())
