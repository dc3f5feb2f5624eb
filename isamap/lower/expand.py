"""Expand a nest's steps to nodes, each step around the steps inside it.

Every loop over blocks of more than one element is followed by a copy of its body for the rest of the axis, so
that the block's own code knows how many elements it covers; of a rest that only the run knows there is a copy
for each number of tiles (`isamap.lower.open_blocks`).
"""

from __future__ import annotations

from typing import assert_never

from isamap.ir import Index, Kernel, index_min
from isamap.ir.index import ONE, ZERO
from isamap.lower.finish import Finish, before_tiles, copied_back, copied_in, finish_of
from isamap.lower.nest_scope import Build, Nest, Nodes, Scope
from isamap.lower.open_blocks import in_pieces
from isamap.lower.overlap import epilogue, for_other_iterations, of_iteration, prologue, shares, with_hints
from isamap.lower.packed_operands import pack_apart
from isamap.lower.parallel_parts import dealt, parallel_nest, part_count
from isamap.lower.place import Place, count_tiles_here, divides, left_inside, start_of
from isamap.lower.program import Block, For, If, Names
from isamap.lower.register_block import issue_tiles, register_block
from isamap.lower.skipping import seen_where, skipped
from isamap.lower.staging import copy_tiles, stage_at
from isamap.lower.steps import Copies, Hold, Issues, LoopNode, Packed, Parts, Step, Tree, Unroll
from isamap.match import MoveSearch
from isamap.source.records import replace

Steps = tuple[Step, ...]


def expand_nest(kernel: Kernel, tree: Tree, search: MoveSearch, names: Names) -> Nodes:
    """Return the loops, copies and issues of one statement of a kernel, and of the statements fused with it."""
    tile, nest = tree.tile, tree.schedule
    finish = finish_of(kernel, tile, nest, search) if tile.accumulator else Finish((), ())
    seen = seen_where(kernel, tile.statement)
    before = before_tiles(finish, tile, nest, search, names)
    known = Nest(tile, nest, finish, search, names, seen)
    return (*before, *_expanded(known, tree.steps, Scope(start_of(tile))))


def _expanded(nest: Nest, steps: Steps, scope: Scope) -> Nodes:
    step, inner = steps[0], steps[1:]

    def inside(here: Scope) -> Nodes:
        return _expanded(nest, inner, here)

    match step:
        case Packed():
            return _packed(nest, step, scope, inside)
        case Copies():
            return _copies(nest, step, scope, inside)
        case Parts():
            return parallel_nest(nest, step, scope, inside)
        case LoopNode(number):
            around = replace(scope, around={**scope.around, number: scope.place})
            here, before = prologue(nest, step, around)
            return (*before, *_iterations(nest, step, here, inside), *epilogue(nest, step, here))
        case Hold(unrolled):

            def block(here: Scope) -> Nodes:
                return skipped(nest, inner, here, register_block(nest, unrolled, here, inside))

            return _by_tiles(nest, unrolled, scope, block)
        case Issues(unrolled):
            return _by_tiles(nest, unrolled, scope, lambda s: issue_tiles(nest, step, s))
        case _:
            assert_never(step)


# --- loops ------------------------------------------------------------------------------------------------


def _iterations(nest: Nest, step: LoopNode, scope: Scope, inside: Build) -> Nodes:
    number, axis, size, place = step.number, step.loop.axis, step.loop.step, scope.place
    base, left = place.position[axis], place.left[axis]
    variable = nest.names.fresh(axis)
    position = base + Index.of(variable) * size
    if not step.rest:
        here = left_inside(nest.tile, nest.loops, number, place, position)
        return _repeat(nest, step, variable, left.ceildiv(size), position, here, scope, inside)
    whole, rest = left.floordiv(size), _rest(nest, step, place)
    nodes: Nodes = ()
    if whole.value != 0:
        nodes = _repeat(nest, step, variable, whole, position, Index.of(size), scope, inside)
    if rest is not None:
        here = scope.at(place.enter(number, axis, base + whole * size, rest, whole))
        body = _iteration(nest, step, here, inside)
        # With nothing left the body would still work on a whole tile where operands are staged.
        nodes += body if left.value is not None else (If(((whole * size, "<", left),), body),)
    return nodes


def _repeat(
    nest: Nest,
    step: LoopNode,
    variable: str,
    trips: Index,
    position: Index,
    left: Index,
    scope: Scope,
    inside: Build,
) -> Nodes:
    """Return a loop, or its body alone when it runs once; the first iteration apart where it differs."""

    def iteration(trip: Index) -> Nodes:
        now = {variable: trip}
        there = position.substitute(now), left.substitute(now)
        return _iteration(
            nest, step, scope.at(scope.place.enter(step.number, step.loop.axis, *there, trip)), inside
        )

    if trips.value == 1:
        return iteration(ZERO)
    if not step.first_apart:
        return (For(variable, trips, iteration(Index.of(variable))),)
    first = iteration(ZERO)
    later = For(variable, trips - 1, iteration(Index.of(variable) + 1))
    return (*(first if trips.value is not None else (If(((ZERO, "<", trips),), first),)), later)


def _iteration(nest: Nest, step: LoopNode, scope: Scope, inside: Build) -> Nodes:
    """Return the body of a loop."""
    own = shares(nest, step, scope)
    within, at_once = with_hints(nest, step, scope)
    return (*own, *at_once, *inside(within))


def _rest(nest: Nest, step: LoopNode, place: Place) -> Index | None:
    """Elements after the last whole step of a loop; None when there are never any."""
    axis, size, left = step.loop.axis, step.loop.step, place.left[step.loop.axis]
    if divides(left, size):
        return None
    around = nest.loops[nest.schedule.parallel : step.number]
    whole = place.spans.get(axis, nest.tile.axis(axis).extent)
    if left.value is None and all(s.step % size == 0 for s in around if s.axis == axis):
        left = whole if whole.value is not None else left  # only the end can cut a step short
    if left.value is not None:
        rest = left.value % size
        return Index.of(rest) if rest else None
    return left - left.floordiv(size) * size


def _by_tiles(nest: Nest, unrolled: tuple[Unroll, ...], scope: Scope, build: Build) -> Nodes:
    """Pieces, or a loop over tiles, around code that unrolls an axis whose length is not a number."""
    place = scope.place
    for number, axis, size, block in ((u.number, u.axis, u.step, u.block) for u in unrolled):
        if count_tiles_here(place, axis, size) is None and number not in place.trips:
            if block is not None:
                return in_pieces(nest, block, scope, lambda s: _by_tiles(nest, unrolled, s, build))
            left, variable = place.left[axis], nest.names.fresh(axis)
            counter = Index.of(variable)
            inner = ONE if size == 1 else index_min(size, left - counter * size)
            here = place.enter(number, axis, place.position[axis] + counter * size, inner, counter)
            body = _by_tiles(nest, unrolled, scope.at(here), build)
            return (For(variable, left.ceildiv(size), body),)
    return build(scope)


# --- copies -----------------------------------------------------------------------------------------------


def _packed(nest: Nest, step: Packed, scope: Scope, inside: Build) -> Nodes:
    name = step.stage.operand
    operand = next(o for o in nest.tile.inputs if o.name == name)
    known = nest.tile, nest.schedule, scope.place, nest.search, nest.names
    staged, pack = pack_apart(operand, *known)
    nest.names.packs.append(pack)
    return inside(scope.with_staged(staged, name))


def _copies(nest: Nest, step: Copies, scope: Scope, inside: Build) -> Nodes:
    stage, place, tile = step.stage, scope.place, nest.tile
    name = stage.operand
    operand = next(o for o in (tile.accumulator, *tile.inputs) if o and o.name == name)
    known = (nest.search, nest.names)
    shared = of_iteration(nest, step, scope)
    staged = shared or stage_at(operand, stage.depth, tile, nest.loops, *known, stage=stage)
    is_result = operand is tile.accumulator
    parts = part_count(tile, nest.schedule) if stage.depth < nest.schedule.parallel else ONE
    nodes: Nodes = ()
    if is_result:
        into = copied_in(nest.finish, staged, tile, nest.loops, place, *known)
        nodes = (Block(f"stage {name}", dealt(into, parts, nest.names), is_copy=True),)
    elif shared is None or not stage.ahead:
        into = copy_tiles(staged, tile, nest.loops, place, *known)
        nodes = (Block(f"stage {name}", dealt(into, parts, nest.names), is_copy=True),)
    within, at_once = for_other_iterations(nest, step, scope.with_staged(staged, name))
    nodes = (*nodes, *at_once, *inside(within))
    if is_result and shared is None:
        back = copied_back(nest.finish, staged, tile, nest.loops, place, *known)
        nodes = (*nodes, Block(f"write {name} back", dealt(back, parts, nest.names), is_copy=True))
    return nodes
