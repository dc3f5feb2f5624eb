"""Software-pipeline copies: fill buffers an iteration early, and write results back late.

    for k by 256 {               fill b for iteration 0
      stage b ahead 1;       ->  for each iteration t:
      for m by 6 { ... }           for each m: { a slice of filling b for t + 1;  uses of b for t }
    }

`stage b ahead 1 into k;` interleaves the copy with all loops down to the one over k. If k is the reduction
axis, a few rows of the copy are interleaved with each step of the sum. Another unit may copy them in
parallel.

`stage c; spread write c into k;` is the mirror image: iteration t writes back what iteration t - 1 has left
in the buffer, and the last one is written behind the loop. A buffer has one copy more than iterations lie in
between.

Prefetches are loops of hints for the lines that later iterations of a loop will read. What stands in a buffer
is one run of elements. What is read in place is rows of its tensor. No line outside is touched: each hint
names an element that the iteration reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from isamap.ir import Expr, Index, Read, index_min
from isamap.ir.index import ONE, ZERO
from isamap.lower.deal import DividedWork, continue_slices, has_rows, is_even, share_of
from isamap.lower.finish import copy_back
from isamap.lower.nest_scope import Nest, NestScope, Nodes
from isamap.lower.place import Place, elements_left, is_multiple
from isamap.lower.program import Block, Condition, For, Hint, If, MemoryRef, Names, Node
from isamap.lower.staging import Staged, copy_tiles, stage_at
from isamap.lower.steps import Copies, LoopNode
from isamap.machine import LineHint, line_hints
from isamap.match import MoveSearch, OperandTile, Tile
from isamap.plan.schedule import LoopStep, Prefetch, Stage, loops_inside
from isamap.source import UsageProblem, replace
from isamap.transform import reads

Make = Callable[[], Nodes]
Hosts = tuple[tuple[int, Index], ...]
"""Loops by number, each with how often it runs."""
Lines = Literal["row by row", "side by side", "of whole iterations"]
"""In which order hints name the lines of several rows; of whole iterations, side by side as well."""


# --- around a loop ----------------------------------------------------------------------------------------


def prologue(nest: Nest, step: LoopNode, scope: NestScope) -> tuple[NestScope, Nodes]:
    """Return the fills for the first iterations, and the scope with their buffers."""
    nodes: list[Node] = []
    for copies in step.carried:
        stage = copies.stage
        operand, known = _operand(nest.tile, stage.operand), (nest.search, nest.names)
        made = stage_at(operand, stage.depth, nest.tile, nest.loops, *known, copies=copies.slots, stage=stage)
        scope = replace(scope, shared={**scope.shared, stage.operand: made})
        begun = sum((scope.place.trips[n] for n in _continuous_loops(nest, stage)), start=ZERO)
        for iteration in range(stage.ahead):
            filled = _guard(begun, ONE, _fill(nest, copies, scope, Index.of(iteration))())
            nodes += _label(f"stage {stage.operand} for iteration {iteration}", filled)
    return scope, tuple(nodes)


def epilogue(nest: Nest, step: LoopNode, scope: NestScope) -> Nodes:
    """Return the write-back of results that the last iteration of a loop has left in buffers."""
    nodes: list[Node] = []
    left = scope.place.left[step.loop.axis]
    last = left.ceildiv(step.loop.step) - 1
    for copies in step.carried:
        if copies.spread:
            back = _write_back(nest, copies, scope, _at_iteration(nest, scope, step.number, last), last)
            note = f"write {copies.stage.operand} of the last iteration back"
            nodes += _label(note, _guard(ZERO, left, back))
    return tuple(nodes)


# --- inside its iterations --------------------------------------------------------------------------------


def of_iteration(nest: Nest, step: Copies, scope: NestScope) -> Staged | None:
    """Return a buffer that iterations share, or None if each iteration has a buffer of its own."""
    return None if step.slots == 1 else _slot(nest, step, scope, scope.place.trips[step.stage.depth - 1])


def for_other_iterations(nest: Nest, step: Copies, scope: NestScope) -> tuple[NestScope, Nodes]:
    """Return the copies for other iterations: interleaved with inner loops, or all at once."""
    stage, works = step.stage, list[tuple[str, Make]]()
    if stage.ahead:
        iteration = scope.place.trips[stage.depth - 1] + stage.ahead
        works.append((f"stage {stage.operand} for a later iteration", _fill(nest, step, scope, iteration)))
        works += [
            (f"stage {stage.operand} for a later iteration of {nest.loops[outer].axis}", make)
            for outer in _continuous_loops(nest, stage)
            for make in [_fill_first(nest, step, scope, outer)]
        ]
    if step.spread:
        works.append((f"write {stage.operand} of the iteration before back", _store_last(nest, step, scope)))
    hosts = _trips(step.hosts, scope.place)
    if hosts:
        dealt = [continue_slices(DividedWork(note, hosts, make), nest.names) for note, make in works]
        return _with_dealt(scope, (work for work, _ in dealt)), tuple(
            node for _, nodes in dealt for node in nodes
        )
    return scope, tuple(node for note, make in works for node in _label(note, make()))


def with_hints(nest: Nest, step: LoopNode, scope: NestScope) -> tuple[NestScope, Nodes]:
    """Return the prefetches interleaved with the first inner loop of several iterations, and the immediate ones.

    Inside `hold`, slices that differ between iterations cost more than the hints themselves, so all hints are
    issued at once. Hints for pieces of rows are an exception: each iteration of the sum hints its own rows,
    because all hints of a register block at once would exceed the fill buffers and delay the block's own
    loads.
    """
    if not step.hints:
        return scope, ()
    trips = _trips(loops_inside(nest.schedule, step.number + 1), scope.place)
    single = next((n for n, (_, count) in enumerate(trips) if count.value != 1), 0)
    hosts = trips[: single + 1]
    is_around = bool(hosts) and hosts[-1][0] < nest.schedule.hold
    works = [_by_rows(nest, p, scope, trips) or _at_first(nest, p, scope, hosts) for p in step.hints]
    new = [work for work in works if work.by_rows or is_around or (hosts and is_even(work))]
    at_once = [node for work in works if work not in new for node in _label(work.note, work.make())]
    return _with_dealt(scope, new), tuple(at_once)


def shares(nest: Nest, step: LoopNode, scope: NestScope) -> Nodes:
    """Return the slices of interleaved work that one iteration of a loop performs."""
    due = [work for work in scope.dealt if work.innermost == step.number]
    return tuple(node for work in due for node in share_of(work, scope.place, nest.names))


def _with_dealt(scope: NestScope, works: Iterable[DividedWork]) -> NestScope:
    return replace(scope, dealt=(*scope.dealt, *works))


# --- prefetches -------------------------------------------------------------------------------------------


def _at_first(nest: Nest, prefetch: Prefetch, scope: NestScope, hosts: Hosts) -> DividedWork:
    """Return a prefetch interleaved with the first inner loops.

    If loops follow the rows, it advances over all rows line by line. Rows along a sum are prefetched one
    after the other: line by line they are a fifth slower.
    """
    axis = nest.loops[hosts[-1][0]].axis if hosts and hosts[-1][0] < nest.schedule.hold else ""
    lines = "side by side" if follows_rows(_operand(nest.tile, prefetch.operand), axis) else "row by row"
    return DividedWork(_note(prefetch), hosts, _prefetch(nest, prefetch, scope, lines))


def _by_rows(nest: Nest, prefetch: Prefetch, scope: NestScope, trips: Hosts) -> DividedWork | None:
    """Return a prefetch of row pieces interleaved with the loop over rows inside `hold`, or None without one."""
    hold = nest.schedule.hold
    counting = [(number, count) for number, count in trips if number >= hold and count.value != 1]
    if prefetch.depth > hold or prefetch.operand in scope.staged or len(counting) != 1:
        return None
    hosts = (*(host for host in trips if host[0] < hold), *counting)
    if any(count.value is None for _, count in hosts[:-1]):
        return None
    loop = nest.loops[counting[0][0]]
    if not crosses_rows(_operand(nest.tile, prefetch.operand), loop.axis):
        return None
    make = _prefetch(nest, prefetch, scope, "of whole iterations")
    work = DividedWork(_note(prefetch), hosts, make, by_rows=loop.step)
    return work if has_rows(work) else None


def _prefetch(nest: Nest, prefetch: Prefetch, scope: NestScope, lines: Lines) -> Make:
    """Return hints for the data of a later iteration, if that iteration exists.

    They run row by row, line by line over all rows, or over as many lines of each row as a whole iteration
    reads.
    """
    number = prefetch.depth - 1
    loop, iteration = nest.loops[number], scope.place.trips[number] + prefetch.ahead
    here, left = _at_iteration(nest, scope, number, iteration), scope.around[number].left[loop.axis]
    whole = here.enter(number, loop.axis, here.position[loop.axis], Index.of(loop.step), iteration)
    hint = line_hints(nest.search.machine)[prefetch.cache]
    staged = scope.staged.get(prefetch.operand)

    def make() -> Nodes:
        if staged is not None:
            found = buffer_lines(staged, number, here, hint, nest.names)
        else:
            operand, known = _operand(nest.tile, prefetch.operand), (nest.search, nest.names)
            longest = whole if lines == "of whole iterations" else None
            found = tensor_lines(operand, here, hint, *known, lines != "row by row", longest)
        return _guard(iteration * loop.step, left, found)

    return make


def _note(prefetch: Prefetch) -> str:
    return f"prefetch {prefetch.operand} into {prefetch.cache}"


# --- copies -----------------------------------------------------------------------------------------------


def _fill(nest: Nest, step: Copies, scope: NestScope, iteration: Index) -> Make:
    """Fill the buffer copy of an iteration, if that iteration exists."""
    number = step.stage.depth - 1
    loop, here = nest.loops[number], _at_iteration(nest, scope, number, iteration)
    left = scope.around[number].left[loop.axis]

    def make() -> Nodes:
        known = nest.tile, nest.loops, here, nest.search, nest.names
        return _guard(iteration * loop.step, left, copy_tiles(_slot(nest, step, scope, iteration), *known))

    return make


def _continuous_loops(nest: Nest, stage: Stage) -> tuple[int, ...]:
    """Return the loops, by number, whose next iteration's buffer is filled early without a pause.

    The last iteration of the loop around the buffer fills it for the first one of an outer loop's next iteration.
    That takes as many iterations each time, so that buffers alternate; else each time begins with an empty buffer.
    """
    number, extents = stage.depth - 1, {axis.name: axis.extent.value for axis in nest.tile.axes}
    if not stage.memory or stage.ahead != 1 or nest.schedule.parallel or nest.schedule.spread:
        return ()
    # What is peeled has buffers of its own.
    for loop in nest.loops[:number]:
        extent = extents[loop.axis]
        if extent is None or extent % loop.step:
            return ()
    return tuple(n for n, loop in enumerate(nest.loops[:number]) if loop.counts)


def _fill_first(nest: Nest, step: Copies, scope: NestScope, outer: int) -> Make:
    """Fill a buffer in the last iteration of its loop for the first one of the next outer iteration."""
    number, trips = step.stage.depth - 1, scope.place.trips
    after = trips[number] + step.stage.ahead  # counted on from those of this iteration
    here = _at_iteration(nest, scope, outer, trips[outer] + 1)
    for inner in range(outer + 1, number + 1):
        inside = replace(scope, around={**scope.around, inner: here})
        here = _at_iteration(nest, inside, inner, ZERO)
    counts = {
        n: scope.around[n].left[nest.loops[n].axis].ceildiv(nest.loops[n].step) for n in range(number + 1)
    }

    def make() -> Nodes:
        known = nest.tile, nest.loops, here, nest.search, nest.names
        found = _guard(trips[outer] + 1, counts[outer], copy_tiles(_slot(nest, step, scope, after), *known))
        for inner in range(outer + 1, number + 1):  # all of them are in their last iteration
            found = _guard(counts[inner] - 1, trips[inner] + 1, found)
        return found

    return make


def _store_last(nest: Nest, step: Copies, scope: NestScope) -> Make:
    """Write back the buffer copy of the previous iteration, if that iteration exists."""
    number = step.stage.depth - 1
    axis, size = nest.loops[number].axis, nest.loops[number].step
    now = scope.place.trips[number]
    here = _at_iteration(nest, scope, number, now - 1)
    if not any(loop.axis == axis and loop.counts for loop in nest.loops[number + 1 :]):
        # Only the last iteration of such a loop is cut short, and it comes before none.
        here = here.enter(number, axis, here.position[axis], Index.of(size), now - 1)
    return lambda: _guard(ZERO, now, _write_back(nest, step, scope, here, now - 1))


def _write_back(nest: Nest, step: Copies, scope: NestScope, place: Place, iteration: Index) -> Nodes:
    """Return the write-back of an iteration's results, from its copy of the buffer."""
    known = nest.tile, nest.loops, place, nest.search, nest.names
    return copy_back(nest.finish, _slot(nest, step, scope, iteration), *known)


def _slot(nest: Nest, step: Copies, scope: NestScope, iteration: Index) -> Staged:
    """Return the copy of a buffer that an iteration uses.

    In a scratchpad the copies alternate across runs of a loop, so that the first fill of a run need not wait
    until the last iteration of the previous run has read its copy.
    """
    made = scope.shared[step.stage.operand]
    before = _iterations_before(nest, scope, step.stage.depth - 1) if step.stage.memory else ZERO
    return replace(made, start=(before + iteration).mod(step.slots) * made.size)


def _iterations_before(nest: Nest, scope: NestScope, number: int) -> Index:
    """Return the number of iterations in earlier runs of a loop, or 0 if runs differ in length."""
    before = ZERO
    for outer, loop in enumerate(nest.loops[: number + 1]):
        outside = scope.around.get(outer)  # none outside of loops that threads share
        count = outside.left[loop.axis].ceildiv(loop.step) if outside is not None else None
        if count is None or count.value is None:
            return ZERO
        before = before * count
        if outer < number:
            before = before + scope.place.trips[outer]
    return before


def _at_iteration(nest: Nest, scope: NestScope, number: int, iteration: Index) -> Place:
    """Return the place inside a loop at a given iteration."""
    outside, loop = scope.around[number], nest.loops[number]
    position = outside.position[loop.axis] + iteration * loop.step
    whole = outside.left[loop.axis]
    if whole.value is None:
        left = elements_left(nest.tile, nest.loops, number, outside, position)
    elif is_multiple(whole, loop.step):
        left = Index.of(loop.step)
    else:
        left = index_min(loop.step, whole - iteration * loop.step)
    return outside.enter(number, loop.axis, position, left, iteration)


def _trips(loops: Iterable[tuple[int, LoopStep]], place: Place) -> Hosts:
    return tuple((number, place.left[loop.axis].ceildiv(loop.step)) for number, loop in loops)


def _operand(tile: Tile, name: str) -> OperandTile:
    held = tile.held or tile.accumulator or tile.result
    candidates = (*tile.inputs, *((held,) if held is not None else ()))
    return next(operand for operand in candidates if operand.name == name)


def _label(note: str, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    return (Block(note, nodes, is_copy=True),) if nodes else ()


def _guard(less: Index, than: Index, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the nodes under the condition `less < than`, which is omitted if it always holds."""
    gap = than - less
    if gap.value is not None:
        return nodes if gap.value > 0 else ()
    if less.value == 0 and _is_positive(than):
        return nodes
    condition: Condition = (less, "<", than)
    return (If((condition,), nodes),) if nodes else ()


def _is_positive(index: Index) -> bool:
    """Return whether a sum of counters is always positive."""
    return index.constant > 0 and all(
        factor >= 0 and all(isinstance(atom, str) for atom in atoms) for atoms, factor in index.terms
    )


# --- hints


def buffer_lines(staged: Staged, number: int, place: Place, hint: LineHint, names: Names) -> tuple[Node, ...]:
    """Return hints about the tiles that an iteration of loop `number` reads from a buffer."""
    trips = {n: place.trips.get(n, ZERO) if n <= number else ZERO for n, _ in staged.loops}
    elements = dict(staged.loops)[number]
    size_bytes = staged.operand.dtype.size_bytes
    here, lines = _lines(staged.buffer, staged.offset(trips), elements, elements, size_bytes, hint, names)
    return _nest_loops(lines, here)


def tensor_lines(
    operand: OperandTile,
    place: Place,
    hint: LineHint,
    search: MoveSearch,
    names: Names,
    by_lines: bool,
    whole: Place | None = None,
) -> tuple[Node, ...]:
    """Return hints for the elements of a tensor that are read at a place, row by row, or line by line over all rows.

    Line by line needs a known row length. With `whole`, the place belongs to a full iteration, so the number
    of lines is fixed; a line that a shorter iteration lacks is replaced by its first element.

    Raises: UsageProblem if the elements are no box.
    """
    read = _read_of(operand.subject)
    box = _box(read, place) if read is not None and read.fill is None else None
    if read is None or box is None:
        raise UsageProblem.of(
            "schedule-overlap",
            f"`{operand.name}` cannot be prefetched: the reads of its iterations are not a box of one array",
            help=f"stage it, and prefetch the buffer; or drop `prefetch {operand.name}`",
        )
    strides = search.strides[read.buffer]
    start, loops = ZERO, list[tuple[str, Index]]()
    for (low, count), stride in zip(box[:-1], strides, strict=False):
        variable = names.fresh("row")
        start = start + low * stride
        if count.value != 1:
            start = start + Index.of(variable) * stride
            loops.append((variable, count))
    low, count = box[-1]
    longest = _box(read, whole) if whole is not None else None
    most = longest[-1][1] if longest is not None else count
    here, lines = _lines(
        read.buffer, start + low * strides[-1], count, most, read.dtype.size_bytes, hint, names
    )
    counted = all(count.value is not None for _, count in lines)
    return _nest_loops((*lines, *loops) if by_lines and counted else (*loops, *lines), here)


def follows_rows(operand: OperandTile, axis: str) -> bool:
    """Return whether a loop over an axis runs along the rows of an operand."""
    read = _read_of(operand.subject)
    return read is not None and _moves(read.index[-1], axis)


def crosses_rows(operand: OperandTile, axis: str) -> bool:
    """Return whether a loop over an axis runs from row to row of an operand."""
    read = _read_of(operand.subject)
    if read is None or _moves(read.index[-1], axis):
        return False
    return any(_moves(subscript, axis) for subscript in read.index[:-1])


def _moves(subscript: Index, axis: str) -> bool:
    """Return whether a subscript depends on an axis."""
    factor = subscript.coefficient(f"@{axis}")
    return factor is None or factor.value != 0


def _lines(
    buffer: str, start: Index, elements: Index, most: Index, size_bytes: int, hint: LineHint, names: Names
) -> tuple[Hint, tuple[tuple[str, Index], ...]]:
    """Return a hint for one line of a run of elements, and the loop over the lines of the longest such run.

    Elements are counted back from the last one: the first element's line was probably loaded with the data
    before it, but the last element's line was not.
    """
    each = max(1, hint.line_bytes // size_bytes)
    count = most.ceildiv(each)
    variable = names.fresh("line")
    counter = ZERO if count.value == 1 else Index.of(variable)
    back = (count - 1 - counter) * each
    if elements != most:
        back = index_min(elements - 1, back)
    here = Hint(hint.item.name, hint.operand, MemoryRef(buffer, start + (elements - 1) - back, (ONE,)))
    return here, () if count.value == 1 else ((variable, count),)


def _nest_loops(loops: Sequence[tuple[str, Index]], here: Node) -> tuple[Node, ...]:
    """Return a node nested in loops, the first one outermost."""
    for variable, count in reversed(loops):
        here = For(variable, count, (here,))
    return (here,)


def _read_of(expr: Expr) -> Read | None:
    """Return the only read in an expression of one element and constants, as `u8(B[k, n] ^ -128)`, or None."""
    found = reads(expr)
    return found[0] if len(found) == 1 else None


def _box(read: Read, place: Place) -> list[tuple[Index, Index]] | None:
    """Return for each subscript its least value at a place and the number of values, or None if not affine."""
    positions = {f"@{axis}": position for axis, position in place.position.items()}
    found: list[tuple[Index, Index]] = []
    for subscript in read.index:
        low, count = subscript, ONE
        for axis, left in place.left.items():
            factor = subscript.coefficient(f"@{axis}")
            if factor is None or factor.value is None:
                return None
            count = count + (left - 1) * abs(factor.value)
            if factor.value < 0:
                low = low + (left - 1) * factor.value
        found.append((low.substitute(positions), count))
    return found or None
