"""One statement as loops: blocks and their tails, register blocks, staging, and what is issued inside.

Every loop over blocks of more than one element is followed by a copy of itself for the rest of the axis, so
that the block's own code knows how many elements it covers; of a rest that only the run knows there is a copy
for each number of tiles (`isamap.lower.rests`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from isamap.ir import Index, Kernel, index_min
from isamap.ir.index import ONE, ZERO
from isamap.lower.carried import in_turns
from isamap.lower.finish import Finish, at_end, copied_back, copied_in, finish_of, in_case, where_first
from isamap.lower.names import Names
from isamap.lower.overlap import Overlap
from isamap.lower.packed import pack_apart
from isamap.lower.parallel import dealt, parallel_nest, part_count
from isamap.lower.place import (
    Place,
    divides,
    left_inside,
    partial_axes,
    start_of,
    tiles_here,
    unrolled_places,
)
from isamap.lower.program import Block, For, If, Issue, MemoryRef, Node, OperandRef, RegisterRef, Value
from isamap.lower.rests import block_of, in_pieces
from isamap.lower.results import Results, bindings_of, symbols_of
from isamap.lower.staging import Staged, copy_tile, copy_tiles, stage_at
from isamap.lower.values import Emitter
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
)
from isamap.plan.schedule import LoopStep, NestSchedule, Stage

Held = dict[tuple[Index, ...], Value | MemoryRef]
"""Sums by place: in registers, or where they lie in a scratchpad that the instruction itself adds to."""
Build = Callable[[Place], tuple[Node, ...]]


def lower_nest(
    kernel: Kernel, tile: Tile, schedule: NestSchedule, suppliers: Suppliers, names: Names
) -> tuple[Node, ...]:
    """The loops, copies and issues of one statement of a kernel, and of those that it takes along."""
    finish = finish_of(kernel, tile, schedule.statement, schedule.fused) if tile.accumulator else None
    return _Nest(tile, schedule, suppliers, names, finish or Finish((), ())).loops(0, start_of(tile), {})


@dataclass
class _Nest:
    """One nest being built; `staged` are the operands whose buffers are filled where the builder stands."""

    tile: Tile
    schedule: NestSchedule
    suppliers: Suppliers
    names: Names
    finish: Finish
    staged: dict[str, Staged] = field(default_factory=dict[str, Staged])

    def __post_init__(self) -> None:
        self.results = Results(self.tile, self.suppliers, self.names)
        known = (self.finish, self.suppliers, self.names, self.staged)
        self.overlap = Overlap(self.tile, self.schedule, *known)

    # --- loops --------------------------------------------------------------------------------------------

    def loops(self, depth: int, place: Place, held: Held) -> tuple[Node, ...]:
        """Everything from loop number `depth` inward."""
        for stage in self.schedule.stages:
            if stage.depth == depth and stage.operand not in self.staged:
                return self._stage(stage, depth, place, held)
        if depth < self.schedule.parallel:
            return self._parallel(place)
        if depth == self.schedule.hold and self.tile.accumulator is not None and not held:
            return self._by_tiles(depth, place, lambda p: self._hold(depth, p))
        if depth == len(self.schedule.loops) or self.schedule.loops[depth].kind == "unroll":
            return self._by_tiles(depth, place, lambda p: self._issue_all(depth, p, held))
        return self._for(depth, self.schedule.loops[depth], place, held)

    def _for(self, depth: int, loop: LoopStep, place: Place, held: Held) -> tuple[Node, ...]:
        before, after = self.overlap.before(depth, place), self.overlap.after
        return (*before, *self._turns(depth, loop, place, held), *after(depth, place))

    def _turns(self, depth: int, loop: LoopStep, place: Place, held: Held) -> tuple[Node, ...]:
        axis, step = loop.axis, loop.step
        base, left = place.position[axis], place.left[axis]
        variable = self.names.fresh(axis)
        counter = Index.of(variable)
        is_block = not any(s.axis == axis and s.kind == "for" for s in self.schedule.loops[depth + 1 :])
        position = base + counter * step
        if not is_block or step == 1:
            trips = left.ceildiv(step)
            inner = left_inside(self.tile, self.schedule.loops, depth, place, position)
            return self._repeat(variable, trips, depth, axis, position, inner, place, held)
        whole, rest = left.floordiv(step), self._rest(depth, place)
        nodes: list[Node] = []
        if whole.value != 0:
            nodes += self._repeat(variable, whole, depth, axis, position, Index.of(step), place, held)
        if rest is not None:
            inside = place.enter(depth, axis, base + whole * step, rest, whole)
            body = self._turn(depth, inside, held)
            # With nothing left the body would still work on a whole tile where operands are staged.
            nodes += body if left.value is not None else [If(((whole * step, "<", left),), body)]
        return tuple(nodes)

    def _repeat(
        self,
        variable: str,
        trips: Index,
        depth: int,
        axis: str,
        position: Index,
        left: Index,
        place: Place,
        held: Held,
    ) -> tuple[Node, ...]:
        """A loop, or its body alone when it runs once; the first turn apart where it differs."""

        def turn(trip: Index) -> tuple[Node, ...]:
            now = {variable: trip}
            inside = place.enter(depth, axis, position.substitute(now), left.substitute(now), trip)
            return self._turn(depth, inside, held)

        if trips.value == 1:
            return turn(ZERO)
        if not self.overlap.is_crossed(depth):
            return (For(variable, trips, turn(Index.of(variable))),)
        first = turn(ZERO)
        later = For(variable, trips - 1, turn(Index.of(variable) + 1))
        return (*(first if trips.value is not None else (If(((ZERO, "<", trips),), first),)), later)

    def _turn(self, depth: int, inside: Place, held: Held) -> tuple[Node, ...]:
        """The body of a loop."""
        shares = self.overlap.shares(depth, inside)
        with self.overlap.prefetching(depth + 1, inside) as at_once:
            return (*shares, *at_once, *self.loops(depth + 1, inside, held))

    def _rest(self, depth: int, place: Place) -> Index | None:
        """Elements after the last whole step of a loop; None when there are never any."""
        loop = self.schedule.loops[depth]
        axis, step, left = loop.axis, loop.step, place.left[loop.axis]
        if divides(left, step):
            return None
        around = self.schedule.loops[self.schedule.parallel : depth]
        whole = place.spans.get(axis, self.tile.axis(axis).extent)
        if left.value is None and all(s.step % step == 0 for s in around if s.axis == axis):
            left = whole if whole.value is not None else left  # only the end can cut a step short
        if left.value is not None:
            rest = left.value % step
            return Index.of(rest) if rest else None
        return left - left.floordiv(step) * step

    def _parallel(self, place: Place) -> tuple[Node, ...]:
        """The parallel loops, all outermost, around the others."""

        def inside(here: Place) -> tuple[Node, ...]:
            return self.loops(self.schedule.parallel, here, {})

        known = self.finish, self.suppliers, self.names
        return parallel_nest(self.tile, self.schedule, place, self.staged, inside, *known)

    def _unrolled(self, depth: int) -> tuple[tuple[int, str, int], ...]:
        """Unrolled loops from `depth` on whose axis no loop in between still counts."""
        later = self.schedule.loops[depth:]
        counted = {s.axis for s in later if s.kind == "for"}
        return tuple(
            (depth + i, s.axis, s.step)
            for i, s in enumerate(later)
            if s.kind == "unroll" and s.axis not in counted
        )

    def _by_tiles(self, depth: int, place: Place, build: Build) -> tuple[Node, ...]:
        """Pieces, or a loop over tiles, around code that unrolls an axis whose length is not a number."""
        for number, axis, step in self._unrolled(depth):
            if tiles_here(place, axis, step) is None and number not in place.trips:
                block = block_of(self.schedule, axis)
                if block is not None:
                    known = self.tile, self.schedule.stages, self.finish, self.suppliers
                    return in_pieces(block, *known, place, lambda p: self._by_tiles(depth, p, build))
                left, variable = place.left[axis], self.names.fresh(axis)
                counter = Index.of(variable)
                inner = ONE if step == 1 else index_min(step, left - counter * step)
                inside = place.enter(number, axis, place.position[axis] + counter * step, inner, counter)
                return (For(variable, left.ceildiv(step), self._by_tiles(depth, inside, build)),)
        return build(place)

    # --- staging ------------------------------------------------------------------------------------------

    def _stage(self, stage: Stage, depth: int, place: Place, held: Held) -> tuple[Node, ...]:
        name = stage.operand
        operand = next(o for o in (self.tile.accumulator, *self.tile.inputs) if o and o.name == name)
        loops, known = self.schedule.loops, (self.suppliers, self.names)
        if stage.packed:
            self.staged[name], pack = pack_apart(operand, self.tile, self.schedule, place, *known)
            self.names.packs.append(pack)
            return self.loops(depth, place, held)
        shared = self.overlap.staged(stage, place)
        staged = shared or stage_at(operand, depth, self.tile, loops, *known, stage=stage)
        is_result = operand is self.tile.accumulator
        shares = part_count(self.tile, self.schedule) if depth < self.schedule.parallel else ONE
        nodes: list[Node] = []
        if is_result:
            into = copied_in(self.finish, staged, self.tile, loops, place, *known)
            nodes.append(Block(f"stage {name}", dealt(into, shares, self.names), is_copy=True))
        elif shared is None or not stage.ahead:
            into = copy_tiles(staged, self.tile, loops, place, *known)
            nodes.append(Block(f"stage {name}", dealt(into, shares, self.names), is_copy=True))
        self.staged[name] = staged
        with self.overlap.during(stage, place) as at_once:
            nodes += [*at_once, *self.loops(depth, place, held)]
        del self.staged[name]
        if is_result and shared is None:
            back = copied_back(self.finish, staged, self.tile, loops, place, *known)
            nodes.append(Block(f"write {name} back", dealt(back, shares, self.names), is_copy=True))
        return tuple(nodes)

    # --- register blocks ----------------------------------------------------------------------------------

    def _hold(self, depth: int, place: Place) -> tuple[Node, ...]:
        """Accumulators of the register block: brought in, summed into by the loops below, written back."""
        acc = self.tile.accumulator
        assert acc is not None
        held: Held = {}
        before = Emitter(self.names)
        mine = tuple(u for u in self._unrolled(depth) if u[1] in acc.axes)
        here = [leaf for _, leaf in unrolled_places(place, mine)]
        begun = self._begin(acc, here, before)
        buffers: list[str | None] = []
        if self.suppliers.is_addressable(acc.memory):
            held |= {self._key(acc, leaf): self._in_place(acc, leaf) for leaf in here}
            return (Block(f"hold {acc.name}", self.loops(depth, place, held)),)
        for leaf in here:
            held[self._key(acc, leaf)], buffer = self._bring(begun, leaf, before)
            buffers.append(buffer)
        inner = self.loops(depth, place, held)

        def write(written: tuple[Written, ...]) -> tuple[Node, ...]:
            after = Emitter(self.names)
            for leaf, buffer in zip(here, buffers, strict=True):
                value = held[self._key(acc, leaf)]
                assert isinstance(value, Value)
                self._take_back(acc, leaf, value, buffer, written, after)
            return tuple(after.nodes)

        back = (
            write(self.finish.partial)
            if acc.name in self.staged
            else at_end(self.finish, self.tile, place, write)
        )
        return (Block(f"hold {acc.name}", (*before.nodes, *inner, *back)),)

    def _in_place(self, acc: OperandTile, place: Place) -> MemoryRef:
        """Where sums lie that the instruction itself adds to in their scratchpad."""
        found, bindings, _ = self._supply(acc, place, Emitter(self.names))
        where = Emitter(self.names).reference(found, bindings)
        assert isinstance(where, MemoryRef), "sums in a scratchpad are staged there"
        return where

    def _begin(self, acc: OperandTile, places: list[Place], emitter: Emitter) -> OperandTile:
        """What accumulators are brought in from; where that is their array, it begins as a companion says."""
        first = self.finish.first
        if first is None or acc.name in self.staged:
            return acc
        measure = where_first(self.tile, places[0])
        if measure.value == 0:
            return first[0]

        def begin() -> tuple[Node, ...]:
            inner = Emitter(self.names)
            for place in places:
                self.results.write(acc, first[1], place, inner)
            return tuple(inner.nodes)

        emitter.nodes += in_case(measure, begin, tuple)
        return acc

    def _key(self, operand: OperandTile, place: Place) -> tuple[Index, ...]:
        return tuple(place.position[a] for a in operand.axes)

    def _bring(self, acc: OperandTile, place: Place, emitter: Emitter) -> tuple[Value, str | None]:
        """An accumulator with its first contents, and the buffer of its own that it goes through, if any."""
        found, bindings, buffer = self._supply(acc, place, emitter)
        assert not isinstance(found, Location), "sums in a scratchpad are not brought anywhere"
        value = emitter.value(found, bindings)
        emitter.known.clear()  # accumulators change: none may stand for another's first contents
        return value, buffer

    def _take_back(
        self,
        acc: OperandTile,
        place: Place,
        value: Value,
        buffer: str | None,
        written: tuple[Written, ...],
        emitter: Emitter,
    ) -> None:
        """An accumulator into its staging buffer, or what is to be written of it to where that belongs."""
        staged = self.staged.get(acc.name)
        if staged is not None:
            self.results.store_tile(acc, staged, staged.offset(place.trips), value, emitter)
            return
        if self.tile.held is not None:
            buffer = self.results.own_buffer(acc)
            self.results.store_tile(acc, Staged(buffer, acc, ()), ZERO, value, emitter)
            emitter.nodes += self.results.add_lanes(buffer, acc, place)
            return
        left = list(written)
        while left and buffer is None and self.results.deliver(acc, left[0], place, value, emitter):
            left.pop(0)
        if left:
            source = Staged(buffer or self.results.own_buffer(acc), acc, ())
            self.results.store_tile(acc, source, ZERO, value, emitter)
            args = (self.tile, place, self.suppliers, self.names)
            for what in left:
                emitter.nodes += copy_tile(acc, source.buffer, ZERO, *args, back=what)

    # --- operands -----------------------------------------------------------------------------------------

    def _supply(
        self, operand: OperandTile, place: Place, emitter: Emitter
    ) -> tuple[Supply | Leaf | Location, dict[str, Index], str | None]:
        """How an operand gets its elements here: from its buffer, in place, or through a tile of its own."""
        staged = self.staged.get(operand.name)
        if staged is not None:
            found = bring(self.suppliers, self.tile, operand, operand.want({}, expr=staged.elements()))
            assert found is not None, "planning has checked that tiles can be loaded"
            return found, {OFFSET: staged.offset(place.trips)}, None
        partial = partial_axes(self.tile.axes, place)
        sums = any(self.tile.axis(a).is_reduction for a in partial)
        mine = {a: n for a, n in partial.items() if a in operand.parts or a in operand.scattered}
        if not mine.keys() & operand.scattered:
            filled = sums and any(self.tile.axis(a).is_reduction for a in mine)
            found = bring(self.suppliers, self.tile, operand, operand.want(symbols_of(mine), filled=filled))
            if found is not None:
                return found, bindings_of(place, mine), None
        buffer = self.results.own_buffer(operand)
        emitter.nodes += copy_tile(
            operand, buffer, ZERO, self.tile, place, self.suppliers, self.names, back=None
        )
        single = Staged(buffer, operand, ())
        found = bring(self.suppliers, self.tile, operand, operand.want({}, expr=single.elements()))
        assert found is not None, "planning has checked that tiles can be loaded"
        return found, {OFFSET: ZERO}, buffer

    # --- issues -------------------------------------------------------------------------------------------

    def _issue_all(self, depth: int, place: Place, held: Held) -> tuple[Node, ...]:
        """The innermost block: one issue per tile, operands shared between them loaded once."""
        emitter = Emitter(self.names)
        brought: dict[tuple[object, ...], OperandRef] = {}
        for _, here in unrolled_places(place, self._unrolled(depth)):
            if self.tile.result is not None:
                self._assign(self.tile.result, here, emitter)
            else:
                self._accumulate(here, held, emitter, brought)
        return in_turns(self.schedule.carried, tuple(emitter.nodes), self.tile, self.suppliers.machine)

    def _accumulate(
        self, place: Place, held: Held, emitter: Emitter, brought: dict[tuple[object, ...], OperandRef]
    ) -> None:
        acc = self.tile.accumulator
        assert acc is not None
        operands: list[tuple[str, OperandRef]] = []
        for operand in self.tile.inputs:
            key = (
                operand.name,
                self._key(operand, place),
                tuple(partial_axes(self.tile.axes, place).items()),
            )
            if key not in brought:
                found, bindings, _ = self._supply(operand, place, emitter)
                brought[key] = emitter.reference(found, bindings)
            operands.append((operand.name, brought[key]))
        total = held[self._key(acc, place)]
        operands.append((acc.name, RegisterRef(total.name) if isinstance(total, Value) else total))
        emitter.nodes.append(
            Issue(self.tile.mapping.instruction, tuple(operands), (*self.tile.params, *self.tile.scalars))
        )

    def _assign(self, result: OperandTile, place: Place, emitter: Emitter) -> None:
        """A statement without accumulation: its value goes to its target."""
        target, where = self.tile.target_elements, self.tile.target_positions
        value, made = self.tile.value_elements, self.tile.value_positions
        assert target is not None, "a statement that only assigns has a target"
        assert where is not None, "a statement that only assigns has a target"
        assert value is not None, "a statement that only assigns has a value"
        assert made is not None, "a statement that only assigns has a value"
        self.results.write(result, Written(target, value, where, made), place, emitter)
