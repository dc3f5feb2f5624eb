"""How an operand gets its elements: from its buffer, from where it lies, or through a tile of its own."""

from __future__ import annotations

from isamap.ir import Index
from isamap.ir.index import ZERO
from isamap.lower.place import Place, partial_axes
from isamap.lower.program import MemoryRef
from isamap.lower.results import bindings_of, symbols_of
from isamap.lower.scope import Nest, Scope
from isamap.lower.staging import Staged, copy_tile
from isamap.lower.values import Emitter
from isamap.match import OFFSET, Leaf, Location, OperandTile, Supply, bring

Supplied = tuple[Supply | Leaf | Location, dict[str, Index], str | None]
"""The chain of moves, what its symbols are here, and the buffer of its own that it goes through, if any."""


def supply(nest: Nest, scope: Scope, operand: OperandTile, place: Place, emitter: Emitter) -> Supplied:
    """How an operand gets its elements at a place; copies that this needs go to the emitter."""
    staged = scope.staged.get(operand.name)
    if staged is not None:
        return _from(staged, nest), {OFFSET: staged.offset(place.trips)}, None
    partial = partial_axes(nest.tile.axes, place)
    sums = any(nest.tile.axis(a).is_reduction for a in partial)
    mine = {a: n for a, n in partial.items() if a in operand.parts or a in operand.scattered}
    if not mine.keys() & operand.scattered:
        filled = sums and any(nest.tile.axis(a).is_reduction for a in mine)
        want = operand.want(symbols_of(mine), filled=filled)
        found = bring(nest.suppliers, nest.tile, operand, want)
        if found is not None:
            return found, bindings_of(place, mine), None
    buffer = nest.results.own_buffer(operand)
    known = nest.tile, place, nest.suppliers, nest.names
    emitter.nodes += copy_tile(operand, buffer, ZERO, *known, back=None)
    return _from(Staged(buffer, operand, ()), nest), {OFFSET: ZERO}, buffer


def _from(staged: Staged, nest: Nest) -> Supply | Leaf | Location:
    """How a tile comes out of its buffer."""
    operand = staged.operand
    found = bring(nest.suppliers, nest.tile, operand, operand.want({}, expr=staged.elements()))
    assert found is not None, "planning has checked that tiles can be loaded"
    return found


def in_place(nest: Nest, scope: Scope, acc: OperandTile, place: Place) -> MemoryRef:
    """Where sums lie that the instruction itself adds to in their scratchpad."""
    found, bindings, _ = supply(nest, scope, acc, place, Emitter(nest.names))
    where = Emitter(nest.names).reference(found, bindings)
    assert isinstance(where, MemoryRef), "sums in a scratchpad are staged there"
    return where
