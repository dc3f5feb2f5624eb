"""Lower a register block: load the accumulators, sum into them, and write them back.

hold c { v0 = load C[m, n]; for k { v0 += … }; store C[m, n] = v0 }

How an operand gets its elements: from its buffer, from where it lies, or through a tile of its own.

The innermost block: one issue for each tile, with operands that tiles share loaded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isamap.ir import Index
from isamap.ir.index import ZERO
from isamap.lower.carried import in_turns
from isamap.lower.finish import at_end, in_case, where_first, where_last
from isamap.lower.nest_scope import Build, Held, Nest, Nodes, Scope, key_of
from isamap.lower.place import Place, partial_axes, unrolled_places
from isamap.lower.program import Block, Issue, MemoryRef, OperandRef, RegisterRef, Value
from isamap.lower.staging import Staged
from isamap.lower.steps import Issues, Unroll
from isamap.lower.supply_issues import Emitter
from isamap.lower.tile_copies import copy_tile
from isamap.lower.tile_results import bindings_of, symbols_of, value_of
from isamap.match import (
    OFFSET,
    Leaf,
    Location,
    OperandTile,
    Suppliers,
    Supply,
    Tile,
    Written,
    bring,
    held_beginning,
)

Supplied = tuple[Supply | Leaf | Location, dict[str, Index], str | None]
"""The chain of moves, what its symbols are here, and the buffer of its own that it goes through, if any."""


def supply(nest: Nest, scope: Scope, operand: OperandTile, place: Place, emitter: Emitter) -> Supplied:
    """Return how an operand gets its elements at a place; copies that this needs go to the emitter."""
    staged = scope.staged.get(operand.name)
    if staged is not None:
        return _from(staged, nest), {OFFSET: staged.offset(place.trips)}, None
    mine = _partial(nest, operand, place)
    found = find_chain(nest.suppliers, nest.tile, operand, mine)
    if found is not None:
        return found, bindings_of(place, mine), None
    buffer = nest.results.own_buffer(operand)
    known = nest.tile, place, nest.suppliers, nest.names
    emitter.nodes += copy_tile(operand, buffer, ZERO, *known, back=None)
    return _from(Staged(buffer, operand, ()), nest), {OFFSET: ZERO}, buffer


def find_chain(
    suppliers: Suppliers, tile: Tile, operand: OperandTile, partial: dict[str, Index]
) -> Supply | Leaf | Location | None:
    """Return how an operand's tile is brought at once; None where its elements are copied one by one."""
    if partial.keys() & operand.scattered:
        return None
    filled = any(tile.axis(a).is_reduction for a in partial)
    return bring(suppliers, tile, operand, operand.want(symbols_of(partial), filled=filled))


def _partial(nest: Nest, operand: OperandTile, place: Place) -> dict[str, Index]:
    """Axes of which an operand's tile may not be full here, with the elements that are left."""
    own = {*operand.parts, *operand.scattered}
    return {a: n for a, n in partial_axes(nest.tile.axes, place).items() if a in own}


def _from(staged: Staged, nest: Nest) -> Supply | Leaf | Location:
    """Return how a tile comes out of its buffer."""
    operand = staged.operand
    found = bring(nest.suppliers, nest.tile, operand, operand.want({}, expr=staged.elements()))
    assert found is not None, "planning has checked that tiles can be loaded"
    return found


def in_place(nest: Nest, scope: Scope, acc: OperandTile, place: Place) -> MemoryRef:
    """Return where sums lie that the instruction itself adds to in their scratchpad."""
    found, bindings, _ = supply(nest, scope, acc, place, Emitter(nest.names))
    where = Emitter(nest.names).reference(found, bindings)
    assert isinstance(where, MemoryRef), "sums in a scratchpad are staged there"
    return where


Brought = dict[tuple[object, ...], OperandRef]
"""The loaded operands, by the places of their tiles and the number of valid elements."""


def issue_tiles(nest: Nest, step: Issues, scope: Scope) -> Nodes:
    """Return the issues of all tiles under unrolled loops, in the loop whose iterations carry results on."""
    emitter = Emitter(nest.names)
    brought: Brought = {}
    for _, here in unrolled_places(scope.place, step.unrolled):
        if nest.tile.result is not None:
            _assign(nest, nest.tile.result, here, emitter)
        else:
            _accumulate(nest, scope, here, emitter, brought)
    return in_turns(step.carried, tuple(emitter.nodes), nest.tile, nest.suppliers.machine)


def _accumulate(nest: Nest, scope: Scope, place: Place, emitter: Emitter, brought: Brought) -> None:
    tile, acc = nest.tile, nest.tile.accumulator
    assert acc is not None, "what has no result sums"
    operands: list[tuple[str, OperandRef]] = []
    for operand in tile.inputs:
        key = (operand.name, key_of(operand, place), tuple(_partial(nest, operand, place).items()))
        if key not in brought:
            found, bindings, _ = supply(nest, scope, operand, place, emitter)
            brought[key] = emitter.reference(found, bindings)
        operands.append((operand.name, brought[key]))
    total = scope.held[key_of(acc, place)]
    operands.append((acc.name, RegisterRef(total.name) if isinstance(total, Value) else total))
    issue = Issue(tile.mapping.instruction, tuple(operands), (*tile.params, *tile.scalars))
    if beginning := nest.finish.beginning:
        first = replace(issue, instruction=beginning)
        emitter.nodes += in_case(where_first(tile, place), lambda: (first,), lambda: (issue,))
    else:
        emitter.nodes.append(issue)


def _assign(nest: Nest, result: OperandTile, place: Place, emitter: Emitter) -> None:
    """A statement without accumulation: its value goes to its target."""
    nest.results.write(result, value_of(nest.tile), place, emitter)


def register_block(nest: Nest, unrolled: Sequence[Unroll], scope: Scope, inside: Build) -> Nodes:
    """Return the block, around what `inside` makes of the sums that it holds."""
    acc, place = nest.tile.accumulator, scope.place
    assert acc is not None, "only what sums is held"
    held: dict[tuple[Index, ...], Value | MemoryRef] = {}
    before = Emitter(nest.names)
    here = [leaf for _, leaf in unrolled_places(place, [u for u in unrolled if u.axis in acc.axes])]
    begun = _begin(nest, scope, acc, here, before)
    if nest.suppliers.is_addressable(acc.memory):
        held |= {key_of(acc, leaf): in_place(nest, scope, acc, leaf) for leaf in here}
        return (Block(f"hold {acc.name}", inside(replace(scope, held=held))),)
    buffers: list[str | None] = []
    for leaf in here:
        held[key_of(acc, leaf)], buffer = _bring(nest, scope, begun, leaf, before)
        buffers.append(buffer)
    inner = inside(replace(scope, held=held))

    def write(written: tuple[Written, ...]) -> Nodes:
        after = Emitter(nest.names)
        for leaf, buffer in zip(here, buffers, strict=True):
            value = held[key_of(acc, leaf)]
            assert isinstance(value, Value), "only sums in registers are written back"
            _take_back(nest, scope, acc, leaf, value, buffer, written, after)
        return tuple(after.nodes)

    is_staged = acc.name in scope.staged
    back = write(nest.finish.partial) if is_staged else at_end(nest.finish, nest.tile, place, write)
    if nest.finish.ends_held:
        parts = back
        back = in_case(
            where_last(nest.tile, place),
            lambda: _out_of_registers(nest, scope, acc, held, here),
            lambda: parts,
        )
    return (Block(f"hold {acc.name}", (*before.nodes, *inner, *back)),)


def _out_of_registers(nest: Nest, scope: Scope, acc: OperandTile, held: Held, places: list[Place]) -> Nodes:
    """Return what is written of finished sums, through a scratchpad, out of the registers that hold them."""
    nodes: Nodes = ()
    for place in places:
        value, staged = held[key_of(acc, place)], scope.staged[acc.name]
        assert isinstance(value, Value), "only sums in registers leave from there"
        for written in nest.finish.whole:
            known = nest.tile, place, nest.suppliers, nest.names
            at = staged.offset(place.trips)
            nodes += copy_tile(acc, staged.buffer, at, *known, back=written, held=value)
    return nodes


def _begin(nest: Nest, scope: Scope, acc: OperandTile, places: list[Place], emitter: Emitter) -> OperandTile:
    """Return what accumulators are brought in from; where that is their array, it begins as a companion says."""
    first = nest.finish.first
    if first is not None and nest.finish.begins_held:
        return first[0]
    if first is None or acc.name in scope.staged:
        return acc
    measure = where_first(nest.tile, places[0])
    if measure.value == 0:
        return first[0]

    def begin() -> Nodes:
        inner = Emitter(nest.names)
        for place in places:
            nest.results.write(acc, first[1], place, inner)
        return tuple(inner.nodes)

    emitter.nodes += in_case(measure, begin, tuple)
    return acc


def _bring(
    nest: Nest, scope: Scope, acc: OperandTile, place: Place, emitter: Emitter
) -> tuple[Value, str | None]:
    """Return an accumulator with its first contents, and the buffer of its own that it goes through, if any."""
    if nest.finish.begins_held:
        first = held_beginning(acc, nest.suppliers)
        assert first is not None, "it was found before"
        value = emitter.value(first, {})
        emitter.known.clear()
        return value, None
    found, bindings, buffer = supply(nest, scope, acc, place, emitter)
    assert not isinstance(found, Location), "sums in a scratchpad are not brought anywhere"
    value = emitter.value(found, bindings)
    emitter.known.clear()  # accumulators change: none may stand for another's first contents
    return value, buffer


def _take_back(
    nest: Nest,
    scope: Scope,
    acc: OperandTile,
    place: Place,
    value: Value,
    buffer: str | None,
    written: tuple[Written, ...],
    emitter: Emitter,
) -> None:
    """An accumulator into its staging buffer, or what is to be written of it to where that belongs."""
    results, staged = nest.results, scope.staged.get(acc.name)
    if staged is not None:
        results.store_tile(acc, staged, staged.offset(place.trips), value, emitter)
        return
    if nest.tile.held is not None:
        buffer = results.own_buffer(acc)
        results.store_tile(acc, Staged(buffer, acc, ()), ZERO, value, emitter)
        emitter.nodes += results.add_lanes(buffer, acc, place)
        return
    left = list(written)
    while left and buffer is None and results.deliver(acc, left[0], place, value, emitter):
        left.pop(0)
    if left:
        source = Staged(buffer or results.own_buffer(acc), acc, ())
        results.store_tile(acc, source, ZERO, value, emitter)
        known = nest.tile, place, nest.suppliers, nest.names
        for what in left:
            emitter.nodes += copy_tile(acc, source.buffer, ZERO, *known, back=what)
