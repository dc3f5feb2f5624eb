"""Work of one turn of a loop performed during another: buffers filled ahead, results written back late.

    for k by 256 {               fill b for turn 0
      stage b ahead 1;       ->  for each turn t:
      for m by 6 { ... }           for each m: { a share of filling b for turn t + 1;  what uses b of turn t }
    }

`stage c; spread write c into k;` is the mirror image: turn t writes back what turn t - 1 has left in the
buffer, and the last one is written behind the loop. A buffer has one copy more than turns lie in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from isamap.ir import Index, index_min
from isamap.ir.index import ZERO
from isamap.lower.deal import Dealt, has_rows, is_even, share_of
from isamap.lower.finish import Finish, copied_back
from isamap.lower.names import Names
from isamap.lower.place import Place, divides, left_inside
from isamap.lower.prefetch import buffer_lines, goes_across, goes_along, tensor_lines
from isamap.lower.program import Block, Condition, If, Node
from isamap.lower.staging import Staged, copy_tiles, stage_at
from isamap.machine import line_hints
from isamap.match import OperandTile, Suppliers, Tile
from isamap.plan.schedule import NestSchedule, Prefetch, Stage, hosts_of, loops_inside, slots_of, spread_of

Make = Callable[[], tuple[Node, ...]]
Lines = Literal["row by row", "side by side", "of whole turns"]
"""In which order hints name the lines of several rows; of whole turns, side by side as well."""


@dataclass
class Overlap:
    """What crosses turns of the loops of one nest.

    `staged_now` are the buffers in use where the builder stands, `around` is the place outside each loop that
    stands around the builder, `buffers` the buffers that such a loop's turns share, `dealt` the work that
    loops further inside perform share by share.
    """

    tile: Tile
    schedule: NestSchedule
    finish: Finish
    suppliers: Suppliers
    names: Names
    staged_now: Mapping[str, Staged]
    around: dict[int, Place] = field(default_factory=dict[int, Place])
    buffers: dict[str, Staged] = field(default_factory=dict[str, Staged])
    dealt: list[Dealt] = field(default_factory=list[Dealt])

    # --- around a loop

    def is_crossed(self, number: int) -> bool:
        """Whether results of one turn of a loop are written back in the next: its first turn is peeled."""
        return any(spread_of(self.schedule, stage.operand) for stage in self._crossing(number))

    def _crossing(self, number: int) -> list[Stage]:
        """The stages directly inside a loop that share a buffer among its turns."""
        stages = [stage for stage in self.schedule.stages if stage.depth == number + 1]
        return [stage for stage in stages if slots_of(self.schedule, stage) > 1]

    def before(self, number: int, place: Place) -> tuple[Node, ...]:
        """The prologue of a loop: buffers filled for the turns that no other turn comes before."""
        self.around[number] = place
        nodes: list[Node] = []
        for stage in self._crossing(number):
            made = stage_at(
                self._operand(stage.operand),
                stage.depth,
                self.tile,
                self.schedule.loops,
                self.suppliers,
                self.names,
                copies=slots_of(self.schedule, stage),
                stage=stage,
            )
            self.buffers[stage.operand] = made
            for turn in range(stage.ahead):
                fill = self._fill(stage, Index.of(turn))
                nodes += _labelled(f"stage {stage.operand} for turn {turn}", fill())
        return tuple(nodes)

    def after(self, number: int, place: Place) -> tuple[Node, ...]:
        """The epilogue of a loop: what its last turn has left in buffers, written back."""
        nodes: list[Node] = []
        loop = self.schedule.loops[number]
        left = place.left[loop.axis]
        last = left.ceildiv(loop.step) - 1
        for stage in self._crossing(number):
            if spread_of(self.schedule, stage.operand):
                here = self._turn(number, last)
                back = self._copy(stage, here, last, back=True)
                nodes += _labelled(f"write {stage.operand} of the last turn back", _when(ZERO, left, back))
        return tuple(nodes)

    # --- inside its turns

    def staged(self, stage: Stage, place: Place) -> Staged | None:
        """The buffer that a turn uses, where turns share one; None where each has its own contents."""
        if slots_of(self.schedule, stage) == 1:
            return None
        return self._slot(stage, place.trips[stage.depth - 1])

    @contextmanager
    def during(self, stage: Stage, place: Place) -> Generator[tuple[Node, ...]]:
        """Deals what a turn performs for another to the loops inside; gives what is performed at once."""
        works = (
            [(f"stage {stage.operand} for a later turn", self._ahead(stage, place))] if stage.ahead else []
        )
        if spread_of(self.schedule, stage.operand):
            works.append((f"write {stage.operand} of the turn before back", self._late(stage, place)))
        hosts = tuple(
            (number, place.left[loop.axis].ceildiv(loop.step))
            for number, loop in hosts_of(self.schedule, stage)
        )
        new = [Dealt(note, hosts, make) for note, make in works if hosts]
        self.dealt += new
        yield tuple(node for note, make in works if not hosts for node in _labelled(note, make()))
        self.dealt = [work for work in self.dealt if work not in new]

    @contextmanager
    def prefetching(self, depth: int, place: Place) -> Generator[tuple[Node, ...]]:
        """Deals the prefetches that stand at a depth to the first loop inside that runs more than once; gives
        those performed at once.

        Inside `hold` a share that differs from trip to trip costs more than its hints: they come at once. Of
        pieces of rows each turn of the sum has those of its own rows: all the hints of a register block at
        once have more lines under way than a cache can wait for, and what it computes waits with them.
        """
        mine = [prefetch for prefetch in self.schedule.prefetches if prefetch.depth == depth]
        inside = loops_inside(self.schedule, depth)
        trips = [(number, place.left[loop.axis].ceildiv(loop.step)) for number, loop in inside]
        single = next((n for n, (_, count) in enumerate(trips) if count.value != 1), 0)
        hosts = tuple(trips[: single + 1])
        is_around = bool(hosts) and hosts[-1][0] < self.schedule.hold
        works = [self._by_rows(p, place, trips) or self._at_first(p, place, hosts) for p in mine]
        new = [work for work in works if work.by_rows or is_around or (hosts and is_even(work))]
        self.dealt += new
        yield tuple(node for work in works if work not in new for node in _labelled(work.note, work.make()))
        self.dealt = [work for work in self.dealt if work not in new]

    def _at_first(self, prefetch: Prefetch, place: Place, hosts: tuple[tuple[int, Index], ...]) -> Dealt:
        """A prefetch dealt to the first loops inside: line by line of all rows where they go along them. Rows
        along a sum are asked for one after the other: line by line they come a fifth slower.
        """
        axis = self.schedule.loops[hosts[-1][0]].axis if hosts and hosts[-1][0] < self.schedule.hold else ""
        lines = "side by side" if goes_along(self._operand(prefetch.operand), axis) else "row by row"
        return Dealt(_note(prefetch), hosts, self._prefetch(prefetch, place, lines))

    def _by_rows(self, prefetch: Prefetch, place: Place, trips: Sequence[tuple[int, Index]]) -> Dealt | None:
        """A prefetch of pieces of rows dealt to the one loop inside `hold`, which goes from row to row; None
        where there is no such loop.
        """
        hold = self.schedule.hold
        counting = [(number, count) for number, count in trips if number >= hold and count.value != 1]
        if prefetch.depth > hold or prefetch.operand in self.staged_now or len(counting) != 1:
            return None
        hosts = (*(host for host in trips if host[0] < hold), *counting)
        if any(count.value is None for _, count in hosts[:-1]):
            return None
        loop = self.schedule.loops[counting[0][0]]
        if not goes_across(self._operand(prefetch.operand), loop.axis):
            return None
        make = self._prefetch(prefetch, place, "of whole turns")
        work = Dealt(_note(prefetch), hosts, make, by_rows=loop.step)
        return work if has_rows(work) else None

    def _prefetch(self, prefetch: Prefetch, place: Place, lines: Lines) -> Make:
        """Hints about what a later turn reads, if there is such a turn: row by row, line by line of all rows,
        or so about as many lines of each row as a whole turn reads.
        """
        number = prefetch.depth - 1
        loop, turn = self.schedule.loops[number], place.trips[number] + prefetch.ahead
        here, left = self._turn(number, turn), self.around[number].left[loop.axis]
        whole = here.enter(number, loop.axis, here.position[loop.axis], Index.of(loop.step), turn)
        hint = line_hints(self.suppliers.machine)[prefetch.cache]
        staged = self.staged_now.get(prefetch.operand)

        def make() -> tuple[Node, ...]:
            if staged is not None:
                found = buffer_lines(staged, number, here, hint, self.names)
            else:
                operand = self._operand(prefetch.operand)
                known = self.suppliers, self.names, lines != "row by row"
                found = tensor_lines(
                    operand, here, hint, *known, whole if lines == "of whole turns" else None
                )
            return _when(turn * loop.step, left, found)

        return make

    def shares(self, number: int, place: Place) -> tuple[Node, ...]:
        """What the body of a loop performs of work dealt to it."""
        due = [work for work in self.dealt if work.innermost == number]
        return tuple(node for work in due for node in share_of(work, place, self.names))

    # --- copies

    def _ahead(self, stage: Stage, place: Place) -> Make:
        return self._fill(stage, place.trips[stage.depth - 1] + stage.ahead)

    def _fill(self, stage: Stage, turn: Index) -> Make:
        """Fills the copy of a turn, if there is such a turn."""
        number = stage.depth - 1
        loop = self.schedule.loops[number]
        here = self._turn(number, turn)
        left = self.around[number].left[loop.axis]
        return lambda: _when(turn * loop.step, left, self._copy(stage, here, turn, back=False))

    def _late(self, stage: Stage, place: Place) -> Make:
        """Writes back the copy of the turn before, if there is such a turn."""
        number = stage.depth - 1
        axis, step = self.schedule.loops[number].axis, self.schedule.loops[number].step
        now = place.trips[number]
        here = self._turn(number, now - 1)
        if not any(loop.axis == axis and loop.kind == "for" for loop in self.schedule.loops[number + 1 :]):
            # Only the last turn of such a loop is cut short, and it comes before none.
            here = here.enter(number, axis, here.position[axis], Index.of(step), now - 1)
        return lambda: _when(ZERO, now, self._copy(stage, here, now - 1, back=True))

    def _copy(self, stage: Stage, place: Place, turn: Index, *, back: bool) -> tuple[Node, ...]:
        source = self._slot(stage, turn)
        loops = self.schedule.loops
        args = (source, self.tile, loops, place, self.suppliers, self.names)
        return copied_back(self.finish, *args) if back else copy_tiles(*args)

    def _slot(self, stage: Stage, turn: Index) -> Staged:
        made, slots = self.buffers[stage.operand], slots_of(self.schedule, stage)
        return replace(made, start=turn.mod(slots) * made.size)

    def _turn(self, number: int, turn: Index) -> Place:
        """The place inside a loop at a turn of it."""
        outside, loop = self.around[number], self.schedule.loops[number]
        position = outside.position[loop.axis] + turn * loop.step
        whole = outside.left[loop.axis]
        if whole.value is None:
            left = left_inside(self.tile, self.schedule.loops, number, outside, position)
        elif divides(whole, loop.step):
            left = Index.of(loop.step)
        else:
            left = index_min(loop.step, whole - turn * loop.step)
        return outside.enter(number, loop.axis, position, left, turn)

    def _operand(self, name: str) -> OperandTile:
        held = self.tile.held or self.tile.accumulator or self.tile.result
        candidates = (*self.tile.inputs, *((held,) if held is not None else ()))
        return next(operand for operand in candidates if operand.name == name)


def _note(prefetch: Prefetch) -> str:
    return f"prefetch {prefetch.operand} into {prefetch.cache}"


def _labelled(note: str, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    return (Block(note, nodes, is_copy=True),) if nodes else ()


def _when(less: Index, than: Index, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes where `less < than`; the condition only where it is not certain."""
    gap = than - less
    if gap.value is not None:
        return nodes if gap.value > 0 else ()
    if less.value == 0 and _is_positive(than):
        return nodes
    condition: Condition = (less, "<", than)
    return (If((condition,), nodes),) if nodes else ()


def _is_positive(index: Index) -> bool:
    """Whether it is certain that a sum of counters is above zero."""
    return index.constant > 0 and all(
        factor >= 0 and all(isinstance(atom, str) for atom in atoms) for atoms, factor in index.terms
    )
