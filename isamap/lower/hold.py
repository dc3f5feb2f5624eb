"""A register block: accumulators brought in, summed into by what stands inside, and written back.

hold c { v0 = load C[m, n]; for k { v0 += … }; store C[m, n] = v0 }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isamap.ir import Index
from isamap.ir.index import ZERO
from isamap.lower.finish import at_end, in_case, where_first
from isamap.lower.place import Place, unrolled_places
from isamap.lower.program import Block, MemoryRef, Value
from isamap.lower.scope import Build, Nest, Nodes, Scope, key_of
from isamap.lower.staging import Staged, copy_tile
from isamap.lower.steps import Unroll
from isamap.lower.supplying import in_place, supply
from isamap.lower.values import Emitter
from isamap.match import Location, OperandTile, Written


def register_block(nest: Nest, unrolled: Sequence[Unroll], scope: Scope, inside: Build) -> Nodes:
    """The block, around what `inside` makes of the sums that it holds."""
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
    return (Block(f"hold {acc.name}", (*before.nodes, *inner, *back)),)


def _begin(nest: Nest, scope: Scope, acc: OperandTile, places: list[Place], emitter: Emitter) -> OperandTile:
    """What accumulators are brought in from; where that is their array, it begins as a companion says."""
    first = nest.finish.first
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
    """An accumulator with its first contents, and the buffer of its own that it goes through, if any."""
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
