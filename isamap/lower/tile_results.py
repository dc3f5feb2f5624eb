"""Store the results of a tile from registers: by a chain of instructions, or element by element."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from isamap.ir import Index, index_min, substitute_expr, substitute_read
from isamap.ir.index import ONE
from isamap.lower.copies import copy_loops
from isamap.lower.load_issues import Emitter
from isamap.lower.place import Place, partial_axes
from isamap.lower.program import Names, Node, Value
from isamap.lower.staging import Staged, claim_buffer
from isamap.match.moves.transfers import Copy
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove
from isamap.match.operand_loads.store_search import find_operand_store
from isamap.match.tiles.operand_tiles import OFFSET, OperandTile, Tile
from isamap.match.tiles.written_values import Written, in_register, sum_of_lanes
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Results:
    """The stores of one nest's results."""

    tile: Tile
    search: MoveSearch
    names: Names

    def own_buffer(self, operand: OperandTile) -> str:
        """Return a new buffer for a single tile."""
        size = ONE
        for s in operand.cell_shape:
            size = size * s
        return claim_buffer(operand, size, self.search, self.names, "one tile at an edge")

    def store_tile(
        self, acc: OperandTile, staged: Staged, offset: Index, value: Value, emitter: Emitter
    ) -> None:
        """Store a whole accumulator in a buffer of tiles."""
        found = find_operand_store(
            self.search, staged.elements(), acc.held, acc.memory, acc.dtype, acc.request({})
        )
        assert found is not None, f"{self.search.machine.name} has no instruction that stores {acc.memory}"
        emitter.deliver(found, {OFFSET: offset}, value)

    def deliver(
        self, acc: OperandTile, written: Written, place: Place, value: Value, emitter: Emitter
    ) -> bool:
        """Store an accumulator's result from its register. Return whether instructions can do this."""
        partial = partial_axes(self.tile.axes, place)
        if partial.keys() & acc.scattered:
            return False
        request, expr = acc.request(symbols_of(partial)), in_register(written, acc)
        found = find_operand_store(self.search, written.target, expr, acc.memory, acc.dtype, request)
        found = found or find_operand_store(self.search, written.target, expr, "", None, request)
        if found is not None:
            emitter.deliver(found, bindings_of(place, partial), value)
        return found is not None

    def write(self, result: OperandTile, written: Written, place: Place, emitter: Emitter) -> None:
        """Write a value that depends on no accumulator, element by element where axes end."""
        partial = partial_axes(self.tile.axes, place)
        found = self.find_value(result, written, partial)
        if found is not None:
            emitter.deliver(found, bindings_of(place, partial))
            return
        left = {a.name: index_min(a.tile, place.left[a.name]) for a in self.tile.axes}
        copy, counts = copy_of_result(self.tile, written, place.position, left)
        emitter.nodes += copy_loops(copy, counts, self.search, self.names)

    def find_value(
        self, result: OperandTile, written: Written, partial: dict[str, Index]
    ) -> OperandMove | None:
        """Return the instructions that compute a whole tile's value, or None if they compute single elements."""
        if partial.keys() & result.scattered:
            return None
        request = result.request(symbols_of(partial))
        return find_operand_store(
            self.search, written.target, written.value, result.memory, result.dtype, request
        )

    def add_lanes(self, buffer: str, acc: OperandTile, place: Place) -> tuple[Node, ...]:
        """Return nodes that add the partial sums in a buffer to the element that they belong to."""
        target, value = sum_of_lanes(buffer, prod(acc.shape), self.tile)
        moved = {f"@{n}": p for n, p in place.position.items()}
        copy = Copy(substitute_read(target, moved), substitute_expr(value, moved), ())
        return copy_loops(copy, {}, self.search, self.names)


def value_of(tile: Tile) -> Written:
    """Return the value and the target of a statement without accumulation."""
    target, where = tile.target_elements, tile.target_positions
    value, made = tile.value_elements, tile.value_positions
    assert target is not None, "a statement that only assigns has a target"
    assert where is not None, "a statement that only assigns has a target"
    assert value is not None, "a statement that only assigns has a value"
    assert made is not None, "a statement that only assigns has a value"
    return Written(target, value, where, made)


def copy_of_result(
    tile: Tile, written: Written, position: Mapping[str, Index], left: Mapping[str, Index]
) -> tuple[Copy, dict[str, Index]]:
    """Return the copy that computes a tile's elements one by one, and the ranges of its counters."""
    counts = {f"~{a.name}": left[a.name] for a in tile.axes if a.tile > 1 and not a.is_reduction}
    moved = {f"@{n}": p + Index.of(f"~{n}") if f"~{n}" in counts else p for n, p in position.items()}
    target = substitute_read(written.target_at, moved)
    return Copy(target, substitute_expr(written.value_at, moved), tuple(counts)), counts


def symbols_of(partial: dict[str, Index]) -> dict[str, Index]:
    """Return valid parts with symbols for values that vary, so that equal parts can share one load."""
    return {a: n if n.value is not None else Index.of(f"#{a}") for a, n in partial.items()}


def bindings_of(place: Place, partial: dict[str, Index]) -> dict[str, Index]:
    """Return the values of positions and valid parts at a place."""
    return {f"@{a}": p for a, p in place.position.items()} | {f"#{a}": n for a, n in partial.items()}
