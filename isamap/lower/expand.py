"""Expand a nest's steps to nodes, each step around the steps inside it.

Every loop over blocks of more than one element is followed by a copy of its body for the rest of the axis, so
that the block's own code knows how many elements it covers; of a rest that only the run knows there is a copy
for each number of tiles (`isamap.lower.expand`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, assert_never

from isamap.formulate.finished_sums import Finish, finish_of
from isamap.ir import Assign, Call, Const, Expr, IndexValue, Kernel, Read, substitute_expr
from isamap.ir.index import ONE, ZERO, Index, index_min, product
from isamap.lower.finish import before_tiles, copied_in, copy_back, in_case, where_last
from isamap.lower.nest_scope import Build, Nest, NestScope, Nodes
from isamap.lower.overlap import epilogue, for_other_iterations, of_iteration, prologue, shares, with_hints
from isamap.lower.packed_operands import pack_apart, packed_tile
from isamap.lower.parallel_parts import distribute_loops, parallel_nest, part_count, regions, team_of
from isamap.lower.place import Place, RemainderPiece, count_tiles_here, elements_left, is_multiple, start_of
from isamap.lower.program import Block, Condition, For, If, Names
from isamap.lower.register_block import issue_tiles, register_block
from isamap.lower.staging import copy_tiles, stage_at
from isamap.lower.steps import Copies, Hold, Issues, LoopNode, PackedOperand, Step, ThreadLoops, Tree, Unroll
from isamap.lower.tile_results import symbols_of
from isamap.match import LoopAxis, MoveSearch, OperandTile, Tile, bring, find_operand_store, in_register
from isamap.plan.schedule import LoopStep, Stage
from isamap.source.records import dataclass, replace
from isamap.transform import Statement, identity_of, reads, statements, symbols

# --- open blocks ----------------------------------------------------------------------------------------

# Perform block remainders known only at run time in pieces with numbered tiles, without loops over tiles.
#
# A block of four rows, `for m by 4`, leaves one to three:
#
#     if left == 3 { three rows }   if left == 2 { two rows }   if left == 1 { one row }
#
# and a block of three registers, whose last one an instruction of the machine masks, the same with 1 to 16
# elements in the last one. Without such instructions full tiles go first, then the one that is not full, alone.
# With sizes given (`for m by 12 rest 8 4 2 1`) a rest takes several of these pieces, one after the other.


@dataclass(frozen=True, slots=True)
class GuardedPiece:
    """A piece with the conditions under which it is performed. Units: `left` in elements from its start."""

    conditions: tuple[Condition, ...]
    piece: RemainderPiece
    left: Index


def in_pieces(nest: Nest, block: LoopStep, scope: NestScope, build: Build) -> Nodes:
    """Return the pieces of a block's remainder, each with the body that `build` returns for its place."""
    place = scope.place
    axis = _of_team(nest.tile.axis(block.axis), nest, place)
    staged = frozenset(stage.operand for stage in nest.schedule.stages)
    known = staged, nest.search
    masked = axis.tile > 1 and not block.rest and is_masked(nest.tile, axis, nest.finish, *known)
    cases = _last_cut(block, axis, place) if masked else _full_first(block, axis, place)
    return tuple(If(case.conditions, build(scope.at(_place_of_piece(place, axis, case)))) for case in cases)


def _of_team(axis: LoopAxis, nest: Nest, place: Place) -> LoopAxis:
    """Return an axis with the tile of a whole level: the tiles of all its instances side by side."""
    count = product([n for number, (_, n) in place.team.items() if nest.loops[number].axis == axis.name])
    return replace(axis, tile=axis.tile * count.constant)


def _place_of_piece(place: Place, axis: LoopAxis, case: GuardedPiece) -> Place:
    """Return the place where a piece starts."""
    name = axis.name
    return replace(
        place,
        position={**place.position, name: place.position[name] + case.piece.first * axis.tile},
        left={**place.left, name: case.left},
        pieces={**place.pieces, name: case.piece},
    )


def _last_cut(block: LoopStep, axis: LoopAxis, place: Place) -> Iterator[GuardedPiece]:
    """Yield a case for each number of tiles. The last tile is short."""
    left, size = place.left[axis.name], axis.tile
    most = block.step // size
    for count in range(most, 0, -1):
        conditions: tuple[Condition, ...] = ((Index.of((count - 1) * size), "<", left),)
        if count < most:
            conditions = (*conditions, (left, "<=", Index.of(count * size)))
        yield GuardedPiece(conditions, RemainderPiece(ZERO, count), left)


def _full_first(block: LoopStep, axis: LoopAxis, place: Place) -> Iterator[GuardedPiece]:
    """Yield the cases of full tiles, and then the case of the short tile."""
    left, size = place.left[axis.name], axis.tile
    # Where threads share an axis in blocks, a block may be whole without being known to be.
    most = block.step // size - (not block.is_dealt)
    full = left.floordiv(size) if most else ZERO
    sizes = tuple(piece // size for piece in block.rest) or tuple(range(most, 0, -1))
    yield from _pieces_of_tiles(full, size, sizes) if block.rest else _one_of(full, size, sizes)
    if size > 1:
        cut = left - full * size
        yield GuardedPiece(((ZERO, "<", cut),), RemainderPiece(full, 1), cut)


def _one_of(full: Index, size: int, counts: Sequence[int]) -> Iterator[GuardedPiece]:
    """Yield a case for each number of full tiles."""
    for count in counts:
        yield GuardedPiece(
            ((full, "==", Index.of(count)),), RemainderPiece(ZERO, count), Index.of(count * size)
        )


def _pieces_of_tiles(full: Index, size: int, counts: Sequence[int]) -> Iterator[GuardedPiece]:
    """Yield pieces for the full tiles, such that each number of tiles is a sum of pieces."""
    left = full
    for count in counts:
        yield GuardedPiece(
            ((Index.of(count), "<=", left),), RemainderPiece(full - left, count), Index.of(count * size)
        )
        left = left.mod(count)


def is_masked(tile: Tile, axis: LoopAxis, finish: Finish, staged: frozenset[str], search: MoveSearch) -> bool:
    """Return whether instructions can move tiles that are short along an axis, for all operands without a buffer."""
    cut = symbols_of({axis.name: Index.of(axis.name)})
    for operand in tile.inputs:
        if operand.name in staged or not _has_short_tile(operand, axis):
            continue
        request = operand.request(cut, filled=axis.is_reduction)
        if axis.name in operand.scattered or bring(search, tile, operand, request) is None:
            return False
    held = tile.accumulator or tile.result
    assert held is not None, "a tile is summed or assigned"
    if held.name in staged or tile.held is not None or not _has_short_tile(held, axis):
        return True
    return axis.name not in held.scattered and _is_masked_out(tile, held, cut, finish, search)


def _has_short_tile(operand: OperandTile, axis: LoopAxis) -> bool:
    """Return whether an operand has a short tile where the axis has one."""
    return axis.name in operand.parts or axis.name in operand.scattered


def _is_masked_out(
    tile: Tile, held: OperandTile, cut: dict[str, Index], finish: Finish, search: MoveSearch
) -> bool:
    """Return whether instructions can store short tiles to all targets of a result."""
    request = held.request(cut)
    if tile.accumulator is None:
        assert tile.target_elements is not None, "a statement that only assigns has a target"
        given = (tile.target_elements, held.elements, held.memory, held.dtype, request)
        return find_operand_store(search, *given) is not None
    if bring(search, tile, held, request) is None:
        return False
    return all(
        find_operand_store(search, w.target, in_register(w, held), held.memory, held.dtype, request)
        is not None
        or find_operand_store(search, w.target, in_register(w, held), "", None, request) is not None
        for w in finish.whole
    )


# --- expand ---------------------------------------------------------------------------------------------


# --- skipping -------------------------------------------------------------------------------------------

# Skip register blocks in which a guard excludes every iteration.
#
#     B[i, r] += select(i > k, -L[i, k] * B[k, r], 0)      for i by 15 { … hold … }
#
# A block whose last i is not beyond k would only add zeros: half of all blocks here. So it is where the guard
# stands behind the sum, and what is summed elsewhere is never looked at:
#
#     T[i, j] += A[i, k] * A[j, k]                         C[i, j] = select(j <= i, T[i, j], C[i, j])


End = Literal["least", "most"]


def skip_by_guard(nest: Nest, inner: tuple[Step, ...], scope: NestScope, nodes: Nodes) -> Nodes:
    """Return a register block that is skipped if the statement's guard excludes all of its iterations.

    `inner` are the steps in it. Statements fused with its sum and copies for other iterations always execute,
    and so do values that an ordered loop carries to its next iteration.
    """
    place = scope.place
    shared = any(work.work and work.innermost >= nest.schedule.hold for work in scope.dealt)
    shared |= any(isinstance(s, Copies) or (isinstance(s, LoopNode) and s.carried) for s in inner)
    if nest.tile.held is not None or shared or nest.schedule.carried:
        return nodes
    found: list[Condition] = []
    axes = frozenset(axis.name for axis in nest.tile.statement.axes)
    if nest.finish.first is None and nest.finish.partial == nest.finish.whole:
        found += _conditions(_guard_of_sum(nest.tile.statement.assign), axes, place)
    if {w.target.buffer for w in nest.finish.whole} == {nest.tile.statement.assign.target.buffer}:
        found += _conditions(nest.seen, axes, place)
    conditions = tuple(c for c in found if not _is_certain(c))
    return (If(conditions, nodes),) if conditions else nodes


def _guard_of_sum(assign: Assign) -> Expr | None:
    """Return the condition under which a statement changes its sum, or None if it always does."""
    match assign.op, assign.value:
        case str() as op, Call("select", (guard, _, Const() as nothing)):
            return guard if nothing.value == identity_of(op, nothing.dtype).value else None
        case _:
            return None


def condition_of_reads(kernel: Kernel, statement: Statement) -> Expr | None:
    """Return the condition on its axes under which elements of a statement's target are read, or None."""
    target = statement.assign.target
    looking = [s for s in statements(kernel) if any(r.buffer == target.buffer for r in reads(s.assign.value))]
    if kernel.operand(target.buffer).role != "temp" or len(looking) != 1:
        return None
    match looking[0].assign.value:
        case Call("select", (guard, Read(_, index), other)) if not any(
            r.buffer == target.buffer for e in (guard, other) for r in reads(e)
        ):
            names = {str(theirs): own for theirs, own in zip(index, target.index, strict=True)}
            axes = {a.name for a in (*looking[0].axes, *looking[0].sequence)}
            other_array = looking[0].assign.target.buffer != target.buffer
            plain = len(names) == len(index) and names.keys() <= axes and other_array
            return substitute_expr(guard, names) if plain and symbols(guard) & axes <= names.keys() else None
        case _:
            return None


def _conditions(guard: Expr | None, axes: frozenset[str], place: Place) -> Iterator[Condition]:
    """Yield conditions that hold for each block with an iteration that satisfies the guard."""
    match guard:
        case Call("and", (left, right)):
            yield from _conditions(left, axes, place)
            yield from _conditions(right, axes, place)
        case Call("lt" | "le" | "gt" | "ge" | "eq" as op, (IndexValue(left), IndexValue(right))):
            least, most = (_end(left - right, axes, place, end) for end in ("least", "most"))
            if least is not None and op in ("lt", "le", "eq"):
                yield least, "<" if op == "lt" else "<=", ZERO
            if most is not None and op in ("gt", "ge", "eq"):
                yield ZERO, "<" if op == "gt" else "<=", most
        case _:
            return


def _end(difference: Index, axes: frozenset[str], place: Place, end: End) -> Index | None:
    """Return the least or the largest value of an index in a block, or None if it is unknown.

    It is unknown for an index that is no sum of multiples of axes, and for axes that are fused with others.
    """
    ends: dict[str, Index] = {}
    for axis in difference.symbols & axes:
        slope = difference.coefficient(axis)
        if slope is None or slope.value is None or axis not in place.position:
            return None
        first = place.position[axis]
        ends[axis] = first if (slope.value > 0) == (end == "least") else first + place.left[axis] - 1
    return difference.substitute(ends)


def _is_certain(condition: Condition) -> bool:
    """Return whether a condition holds for all nonnegative counters and sizes."""
    left, sign, right = condition
    gap = right - left - (1 if sign == "<" else 0)
    return all(count >= 0 and all(isinstance(a, str) for a in atoms) for atoms, count in gap.terms)


# --- expand ---------------------------------------------------------------------------------------------


Steps = tuple[Step, ...]


def expand_nest(kernel: Kernel, tree: Tree, search: MoveSearch, names: Names) -> Nodes:
    """Return the loops, copies and issues of one statement of a kernel, and of the statements fused with it."""
    tile, nest = tree.tile, tree.schedule
    finish = finish_of(kernel, tile, nest, search) if tile.accumulator else Finish((), ())
    seen = condition_of_reads(kernel, tile.statement)
    before = before_tiles(finish, tile, nest, search, names)
    known = Nest(tile, nest, finish, search, names, seen)
    claimed, place = len(names.buffers), replace(start_of(tile), team=team_of(nest, search.machine, names))
    nodes = _expand_steps(known, tree.steps, NestScope(place))
    if not nest.parallel:
        nodes = regions(nodes, (), known, claimed, place)
    return (*before, *nodes)


def _expand_steps(nest: Nest, steps: Steps, scope: NestScope) -> Nodes:
    step, inner = steps[0], steps[1:]

    def inside(here: NestScope) -> Nodes:
        return _expand_steps(nest, inner, here)

    match step:
        case PackedOperand():
            operand = packed_tile(step.stage.operand, nest.tile)
            known = nest.tile, nest.schedule, scope.place, nest.search, nest.names
            staged, pack = pack_apart(operand, *known)
            nest.names.packs.append(pack)
            return inside(scope.with_staged(staged, operand.name))
        case Copies():
            return _copies(nest, step, scope, inside)
        case ThreadLoops():
            return parallel_nest(nest, step, scope, inside)
        case LoopNode(number):
            around = replace(scope, around={**scope.around, number: scope.place})
            here, before = prologue(nest, step, around)
            return (*before, *_iterations(nest, step, here, inside), *epilogue(nest, step, here))
        case Hold(unrolled):

            def block(here: NestScope) -> Nodes:
                nodes = skip_by_guard(nest, inner, here, register_block(nest, unrolled, here, inside))
                return (*nodes, *_finished_tiles(nest, here))

            return _by_tiles(nest, unrolled, scope, block)
        case Issues(unrolled):
            return _by_tiles(nest, unrolled, scope, lambda s: issue_tiles(nest, step, s))
        case _:
            assert_never(step)


# --- loops ------------------------------------------------------------------------------------------------


def _iterations(nest: Nest, step: LoopNode, scope: NestScope, inside: Build) -> Nodes:
    number, axis, size, place = step.number, step.loop.axis, step.loop.step, scope.place
    base, left = place.position[axis], place.left[axis]
    variable = nest.names.fresh(axis)
    position = base + Index.of(variable) * size
    if not step.rest:
        here = elements_left(nest.tile, nest.loops, number, place, position)
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
    scope: NestScope,
    inside: Build,
) -> Nodes:
    """Return a loop, or its body alone if it runs once. A first iteration that differs is peeled."""

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


def _iteration(nest: Nest, step: LoopNode, scope: NestScope, inside: Build) -> Nodes:
    """Return the body of a loop."""
    own = shares(nest, step, scope)
    within, at_once = with_hints(nest, step, scope)
    return (*own, *at_once, *inside(within))


def _rest(nest: Nest, step: LoopNode, place: Place) -> Index | None:
    """Return the number of elements after the last whole step of a loop, or None if there never are any."""
    axis, size, left = step.loop.axis, step.loop.step, place.left[step.loop.axis]
    if is_multiple(left, size):
        return None
    around = nest.loops[nest.schedule.parallel : step.number]
    whole = place.spans.get(axis, nest.tile.axis(axis).extent)
    if left.value is None and all(s.step % size == 0 for s in around if s.axis == axis):
        left = whole if whole.value is not None else left  # only the end can cut a step short
    if left.value is not None:
        rest = left.value % size
        return Index.of(rest) if rest else None
    return left - left.floordiv(size) * size


def _by_tiles(nest: Nest, unrolled: tuple[Unroll, ...], scope: NestScope, build: Build) -> Nodes:
    """Return the code that unrolls an axis of symbolic length: its pieces, or a loop over tiles."""
    place = scope.place
    for number, axis, size, block in ((u.number, u.axis, u.step, u.block) for u in unrolled):
        if count_tiles_here(place, axis, size) is None and number not in {*place.trips, *place.team}:
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


def _copies(nest: Nest, step: Copies, scope: NestScope, inside: Build) -> Nodes:
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
        nodes = (Block(f"stage {name}", distribute_loops(into, parts, nest.names), is_copy=True),)
    elif shared is None or not stage.ahead:
        into = copy_tiles(staged, tile, nest.loops, place, *known)
        nodes = (Block(f"stage {name}", distribute_loops(into, parts, nest.names), is_copy=True),)
    within, at_once = for_other_iterations(nest, step, scope.with_staged(staged, name))
    nodes = (*nodes, *at_once, *inside(within))
    if is_result and shared is None and not _leaves_by_blocks(nest, stage):
        back = copy_back(nest.finish, staged, tile, nest.loops, place, *known)
        nodes = (*nodes, Block(f"write {name} back", distribute_loops(back, parts, nest.names), is_copy=True))
    return nodes


def _leaves_by_blocks(nest: Nest, stage: Stage) -> bool:
    """Return whether register blocks of sums are stored from their scratchpad when their last part is summed.

    If partial sums move to the scratchpad and back, all but the last block leave during the computation of
    others.
    """
    schedule, between = nest.schedule, nest.loops[stage.depth : nest.schedule.hold]
    is_cut = any(nest.tile.axis(loop.axis).is_reduction and loop.counts for loop in between)
    return bool(stage.memory) and is_cut and stage.depth >= schedule.parallel and not schedule.spread


def _finished_tiles(nest: Nest, scope: NestScope) -> Nodes:
    """Return the stores of a register block's finished tiles from their scratchpad."""
    acc, place = nest.tile.accumulator, scope.place
    stage = next((s for s in nest.schedule.stages if acc is not None and s.operand == acc.name), None)
    if acc is None or stage is None or not _leaves_by_blocks(nest, stage):
        return ()
    whole = scope.around[stage.depth]
    left = [
        whole.position[a.name] + whole.left[a.name] - place.position[a.name] - place.left[a.name]
        for a in nest.tile.axes
        if a.is_reduction
    ]
    rest = sum(left, start=ZERO)
    finish, known = nest.finish, (nest.tile, nest.loops, place, nest.search, nest.names)
    if rest == where_last(nest.tile, place):  # no part of these sums is left for another iteration
        finish = replace(finish, partial=() if finish.ends_held else finish.whole)
    whole_buffer = scope.staged[acc.name]
    start = sum(
        (place.trips[n] * step for n, step in whole_buffer.loops if n in place.trips), whole_buffer.start
    )
    inside = tuple((n, step) for n, step in whole_buffer.loops if n not in place.trips)
    back = copy_back(finish, replace(whole_buffer, start=start, loops=inside), *known)
    block = Block(f"write {acc.name} back", back, is_copy=True)
    return in_case(rest, lambda: (block,) if back else (), tuple)
