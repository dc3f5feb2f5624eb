"""Lower a register block: load the accumulators, sum into them, and write them back.

    hold c { v0 = load C[m, n]; for k { v0 += … }; store C[m, n] = v0 }

An operand is loaded from its staging buffer, from its tensor, or through a temporary tile.

The innermost block has one issue for each tile, and loads an operand that tiles share once.

Elements that one iteration of an ordered loop stores and the next one loads stay in registers:

    For("n", trips=N) {                        v0 = load(y[0])
      v0 = load(y[n])                          For("n", trips=N) {
      v1 = load(x[n + 1])              ->        v1 = load(x[n + 1])
      v2 = add(v0, v1)                           v0 = add(v0, v1)
      store(v2, y[n + 1]) }                      store(v0, y[n + 1]) }

This applies only if the instructions copy a register to memory and back unchanged. Otherwise the next
iteration loads the element from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from isamap.ir import ZERO, Axis, Index, Read, index_min
from isamap.lower.finish import at_end, in_case, where_first, where_last
from isamap.lower.load_issues import Emitter
from isamap.lower.nest_scope import Build, Held, Nest, NestScope, Nodes, key_of
from isamap.lower.place import Place, partial_axes, unrolled_places
from isamap.lower.program import Block, Declare, For, Issue, MemoryRef, Node, OperandRef, RegisterRef, Value
from isamap.lower.staging import Staged
from isamap.lower.steps import Issues, Unroll
from isamap.lower.tile_copies import copy_tile
from isamap.lower.tile_results import bindings_of, symbols_of, value_of
from isamap.machine import Machine
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove, Present
from isamap.match.patterns.address import Location
from isamap.match.patterns.pattern import pattern_of
from isamap.match.tiles.operand_tiles import OFFSET, OperandTile, Tile, bring
from isamap.match.tiles.sum_starts import initial_load
from isamap.match.tiles.written_values import Written
from isamap.source.records import dataclass, replace
from isamap.transform import reads

LoadedOperand = tuple[OperandMove | Present | Location, dict[str, Index], str | None]
"""The chain of moves, the values of its symbols, and the temporary buffer that it uses, if any."""


def load_operand(
    nest: Nest, scope: NestScope, operand: OperandTile, place: Place, emitter: Emitter
) -> LoadedOperand:
    """Return how an operand is loaded at a place. Copies that the load needs are emitted."""
    staged = scope.staged.get(operand.name)
    if staged is not None:
        bindings = {**bindings_of(place, {}), OFFSET: staged.offset(place.trips)}
        return _load_from_staging(staged, nest), bindings, None
    mine = _partial(nest, operand, place)
    found = find_chain(nest.search, nest.tile, operand, mine)
    if found is not None:
        return found, bindings_of(place, mine), None
    buffer = nest.results.own_buffer(operand)
    known = nest.tile, place, nest.search, nest.names
    emitter.nodes += copy_tile(operand, buffer, ZERO, *known, back=None)
    return _load_from_staging(Staged(buffer, operand, ()), nest), {OFFSET: ZERO}, buffer


def find_chain(
    search: MoveSearch, tile: Tile, operand: OperandTile, partial: dict[str, Index]
) -> OperandMove | Present | Location | None:
    """Return how an operand's tile is loaded as a whole, or None if its elements are copied one by one."""
    if partial.keys() & operand.scattered:
        return None
    filled = any(tile.axis(a).is_reduction for a in partial)
    return bring(search, tile, operand, operand.request(symbols_of(partial), filled=filled))


def _partial(nest: Nest, operand: OperandTile, place: Place) -> dict[str, Index]:
    """Return the axes along which an operand's tile may be short at a place, with the elements that are left."""
    own = {*operand.parts, *operand.scattered}
    return {a: n for a, n in partial_axes(nest.tile.axes, place).items() if a in own}


def _load_from_staging(staged: Staged, nest: Nest) -> OperandMove | Present | Location:
    """Return how a tile is loaded from its staging buffer."""
    operand = staged.operand
    found = bring(nest.search, nest.tile, operand, operand.request({}, expr=staged.elements()))
    assert found is not None, "planning has checked that tiles can be loaded"
    return found


def in_place(nest: Nest, scope: NestScope, acc: OperandTile, place: Place) -> MemoryRef:
    """Return the place of sums in a scratchpad, where the instruction itself accumulates."""
    found, bindings, _ = load_operand(nest, scope, acc, place, Emitter(nest.names))
    where = Emitter(nest.names).reference(found, bindings)
    assert isinstance(where, MemoryRef), "sums in a scratchpad are staged there"
    return where


Brought = dict[tuple[object, ...], OperandRef]
"""The loaded operands, by the places of their tiles and the number of valid elements."""


def issue_tiles(nest: Nest, step: Issues, scope: NestScope) -> Nodes:
    """Return the issues of all tiles under unrolled loops, inside the loop that carries results."""
    emitter = Emitter(nest.names)
    brought: Brought = {}
    for _, here in unrolled_places(scope.place, step.unrolled):
        if (result := nest.tile.result) is not None:
            emitter.where(here.conditions, partial(_assign, nest, result, here, emitter))
        else:
            emitter.where(here.conditions, partial(_accumulate, nest, scope, here, emitter, brought))
    # A block of issues inside the ordered loop over the carried axis, or unchanged without one.
    body = tuple(emitter.nodes)
    axes = [axis for axis in nest.tile.statement.sequence if axis.name == step.carried]
    return _loop_around(axes[0], body, nest.search.machine) if axes else body


def _accumulate(nest: Nest, scope: NestScope, place: Place, emitter: Emitter, brought: Brought) -> None:
    tile, acc = nest.tile, nest.tile.accumulator
    assert acc is not None, "what has no result sums"
    operands: list[tuple[str, OperandRef]] = []
    for operand in tile.inputs:
        key = (operand.name, key_of(operand, place), tuple(_partial(nest, operand, place).items()))
        if key not in brought:
            found, bindings, _ = load_operand(nest, scope, operand, place, emitter)
            brought[key] = emitter.reference(found, bindings)
        operands.append((operand.name, brought[key]))
    total = scope.held[key_of(acc, place)]
    operands.append((acc.name, RegisterRef(total.name) if isinstance(total, Value) else total))
    short = {tile.run_time_lengths.get(axis): n for axis, n in partial_axes(tile.axes, place).items()}
    lengths = tuple((p, _at_most(n, short.get(p))) for p, n in tile.params)
    issue = Issue(tile.mapping.instruction, tuple(operands), (*lengths, *tile.scalars))
    if beginning := nest.finish.beginning:
        first = replace(issue, instruction=beginning)
        emitter.nodes += in_case(where_first(tile, place), lambda: (first,), lambda: (issue,))
    else:
        emitter.nodes.append(issue)


def _at_most(length: int, left: Index | None) -> Index | int:
    """Return the number of elements in an issue along an axis, if `left` are left on it."""
    found = Index.of(length) if left is None else index_min(length, left)
    return found if found.value is None else found.value


def _assign(nest: Nest, result: OperandTile, place: Place, emitter: Emitter) -> None:
    """Write the value of a statement without accumulation to its target."""
    nest.results.write(result, value_of(nest.tile), place, emitter)


def register_block(nest: Nest, unrolled: Sequence[Unroll], scope: NestScope, inside: Build) -> Nodes:
    """Return the block around the body that `inside` builds for its accumulators."""
    acc, place = nest.tile.accumulator, scope.place
    assert acc is not None, "only what sums is held"
    held: dict[tuple[Index, ...], Value | MemoryRef] = {}
    before = Emitter(nest.names)
    here = [leaf for _, leaf in unrolled_places(place, [u for u in unrolled if u.axis in acc.axes])]
    begun = _begin(nest, scope, acc, here, before)
    if nest.search.is_addressable(acc.memory):
        held |= {key_of(acc, leaf): in_place(nest, scope, acc, leaf) for leaf in here}
        return (Block(f"hold {acc.name}", inside(replace(scope, held=held))),)
    buffers: list[str | None] = []
    for leaf in here:
        bring_here = partial(_start_accumulator, nest, scope, begun, leaf, before)
        held[key_of(acc, leaf)], buffer = before.where(leaf.conditions, bring_here)
        buffers.append(buffer)
    inner = inside(replace(scope, held=held))

    def write(written: tuple[Written, ...]) -> Nodes:
        after = Emitter(nest.names)
        for leaf, buffer in zip(here, buffers, strict=True):
            value = held[key_of(acc, leaf)]
            assert isinstance(value, Value), "only sums in registers are written back"
            known = nest, scope, acc, leaf, value, buffer, written, after
            after.where(leaf.conditions, partial(_take_back, *known))
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


def _out_of_registers(
    nest: Nest, scope: NestScope, acc: OperandTile, held: Held, places: list[Place]
) -> Nodes:
    """Return the stores of finished sums from registers that go through a scratchpad."""
    nodes: Nodes = ()
    for place in places:
        value, staged = held[key_of(acc, place)], scope.staged[acc.name]
        assert isinstance(value, Value), "only sums in registers leave from there"
        for written in nest.finish.whole:
            known = nest.tile, place, nest.search, nest.names
            at = staged.offset(place.trips)
            nodes += copy_tile(acc, staged.buffer, at, *known, back=written, held=value)
    return nodes


def _begin(
    nest: Nest, scope: NestScope, acc: OperandTile, places: list[Place], emitter: Emitter
) -> OperandTile:
    """Return the operand from which the accumulators get their initial values."""
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


def _start_accumulator(
    nest: Nest, scope: NestScope, acc: OperandTile, place: Place, emitter: Emitter
) -> tuple[Value, str | None]:
    """Return an accumulator with its initial value, and its separate buffer, if it has one."""
    if nest.finish.begins_held:
        first = initial_load(acc, nest.search)
        assert first is not None, "it was found before"
        value = emitter.value(first, {})
        emitter.known.clear()
        return value, None
    found, bindings, buffer = load_operand(nest, scope, acc, place, emitter)
    assert not isinstance(found, Location), "sums in a scratchpad are not brought anywhere"
    value = emitter.value(found, bindings)
    emitter.known.clear()  # accumulators change: none may stand for another's first contents
    return value, buffer


def _take_back(
    nest: Nest,
    scope: NestScope,
    acc: OperandTile,
    place: Place,
    value: Value,
    buffer: str | None,
    written: tuple[Written, ...],
    emitter: Emitter,
) -> None:
    """Store an accumulator in its staging buffer, or its result in its target."""
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
        known = nest.tile, place, nest.search, nest.names
        for what in left:
            emitter.nodes += copy_tile(acc, source.buffer, ZERO, *known, back=what)


# --- elements that stay in registers between iterations


@dataclass(frozen=True, slots=True)
class _Kept:
    """A register with a value that the previous iteration stored from another register."""

    load: Issue
    value: Value
    stored: str


def _loop_around(axis: Axis, body: tuple[Node, ...], machine: Machine) -> tuple[Node, ...]:
    """Return the loop over `axis` around a block of issues, with registers for kept values loaded before it."""
    kept = _kept_values(axis.name, body, machine)
    if not kept:
        return (For(axis.name, axis.extent, body),)
    names = {k.stored: k.value.name for k in kept}
    loads = {k.load for k in kept}
    gone = {k.value.name for k in kept} | names.keys()
    inside: list[Node] = []
    for node in body:
        match node:
            case Declare(values):
                left = tuple(v for v in values if v.name not in gone)
                inside += [Declare(left)] if left else []
            case Issue(_, operands) if node not in loads:
                inside.append(replace(node, operands=tuple((n, _rename_ref(r, names)) for n, r in operands)))
            case Issue():
                pass
            case _:
                inside.append(node)
    first = [Declare((k.value,)) for k in kept] + [_at_start(k.load, axis.name) for k in kept]
    return (*first, For(axis.name, axis.extent, tuple(inside)))  # extents are at least 1


def _kept_values(axis: str, body: tuple[Node, ...], machine: Machine) -> list[_Kept]:
    """Return the values that stay in registers. The body must consist of issues in the order of their effects."""
    if not all(isinstance(node, Declare | Issue) for node in body):
        return []
    issues = [node for node in body if isinstance(node, Issue)]
    values = {v.name: v for node in body if isinstance(node, Declare) for v in node.values}
    later = {axis: Index.of(axis) + 1}
    moves = [moved for issue in issues if (moved := _moved_place(issue, values, machine, "stores"))]
    stores = {place: stored for stored, place in moves}
    found: dict[str, _Kept] = {}
    for issue in issues:
        moved = _moved_place(issue, values, machine, "loads")
        if moved is None:
            continue
        loaded, place = moved
        stored = stores.get(replace(place, offset=place.offset.substitute(later)))
        if stored is not None and _can_share(values[loaded], values[stored], issues, machine):
            found.setdefault(stored, _Kept(issue, values[loaded], stored))
    return list(found.values())


def _at_start(load: Issue, axis: str) -> Issue:
    """Return the load for the first iteration. No parameter of it depends on the iteration."""
    first = {axis: ZERO}
    return replace(
        load,
        operands=tuple(
            (n, replace(r, offset=r.offset.substitute(first)) if isinstance(r, MemoryRef) else r)
            for n, r in load.operands
        ),
    )


def _moved_place(
    issue: Issue, values: Mapping[str, Value], machine: Machine, how: Literal["loads", "stores"]
) -> tuple[str, MemoryRef] | None:
    """Return register and place if an issue copies all elements unchanged between them, or None."""
    pattern = pattern_of(machine.instructions[issue.instruction].instruction)
    if pattern is None or pattern.statement.assign.op is not None or not isinstance(pattern.value, Read):
        return None
    refs = dict(issue.operands)
    ends = refs.get(pattern.value.buffer), refs[pattern.target.buffer]
    match ends if how == "stores" else ends[::-1]:
        case RegisterRef(name), MemoryRef() as place if name in values:
            known = {n: v for n, v in issue.params if isinstance(v, int | Index)}
            lanes = tuple(a.extent.substitute(known).value for a in pattern.axes)
            order = tuple(Index.of(a.name) for a in pattern.axes)
            whole = pattern.value.index == pattern.target.index == order and lanes == values[name].shape
            return (name, place) if whole and pattern.value.dtype == pattern.target.dtype else None
        case _:
            return None


def _can_share(loaded: Value, stored: Value, issues: Sequence[Issue], machine: Machine) -> bool:
    """Return whether one register may hold both values: their live ranges are disjoint."""
    alike = replace(loaded, name=stored.name) == stored != loaded
    named = machine.memories[loaded.memory].named == "immediate"
    last = max(n for n, issue in enumerate(issues) if _uses(issue, loaded.name))
    made = min(n for n, issue in enumerate(issues) if _uses(issue, stored.name))
    return alike and not named and last <= made and _in_place(issues[made], loaded.name, machine)


def _uses(issue: Issue, value: str) -> bool:
    return any(ref == RegisterRef(value) for _, ref in issue.operands)


def _in_place(issue: Issue, value: str, machine: Machine) -> bool:
    """Return whether an instruction may write to the register of a value that it reads."""
    pattern = pattern_of(machine.instructions[issue.instruction].instruction)
    names = {name for name, ref in issue.operands if ref == RegisterRef(value)}
    found = [] if pattern is None else [r for r in reads(pattern.value) if r.buffer in names]
    return not names or (
        pattern is not None and bool(found) and all(r.index == pattern.target.index for r in found)
    )


def _rename_ref(ref: OperandRef, names: Mapping[str, str]) -> OperandRef:
    return RegisterRef(names.get(ref.value, ref.value)) if isinstance(ref, RegisterRef) else ref
