"""The context in which a step is expanded to nodes: the nest, its place, and its buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isamap.formulate.finished_sums import Finish
from isamap.ir import Expr, Index
from isamap.lower.deal import DividedWork
from isamap.lower.place import Place
from isamap.lower.program import MemoryRef, Names, Node, Value
from isamap.lower.staging import Staged
from isamap.lower.tile_results import Results
from isamap.match import MoveSearch, OperandTile, Tile
from isamap.plan.schedule import LoopStep, NestSchedule
from isamap.source.records import dataclass, field, replace

Nodes = tuple[Node, ...]
Held = Mapping[tuple[Index, ...], Value | MemoryRef]
"""Sums by place: in registers, or where they lie in a scratchpad that the instruction itself adds to."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest whose nodes are built: its statement and schedule, and the sources of names and moves.

    `seen` is the condition under which elements of its target are used, None if that is not known.
    """

    tile: Tile
    schedule: NestSchedule
    finish: Finish
    search: MoveSearch
    names: Names
    seen: Expr | None = None

    @property
    def loops(self) -> tuple[LoopStep, ...]:
        return self.schedule.loops

    @property
    def results(self) -> Results:
        return Results(self.tile, self.search, self.names)


@dataclass(frozen=True, slots=True)
class NestScope:
    """The context of a step in the expansion of a nest.

    `staged` are the buffers filled at this step, `shared` those that iterations of an outer loop share.
    `around` is the place outside each outer loop, by number. `dealt` is the work that inner loops perform in
    slices. `held` are the accumulators in registers. There are none outside `hold`.
    """

    place: Place
    staged: Mapping[str, Staged] = field(default_factory=dict[str, Staged])
    shared: Mapping[str, Staged] = field(default_factory=dict[str, Staged])
    around: Mapping[int, Place] = field(default_factory=dict[int, Place])
    dealt: tuple[DividedWork, ...] = ()
    held: Held = field(default_factory=dict[tuple[Index, ...], "Value | MemoryRef"])

    def at(self, place: Place) -> NestScope:
        """Return the scope at another place."""
        return replace(self, place=place)

    def with_staged(self, staged: Staged, operand: str) -> NestScope:
        """Return the scope with the buffer of one more operand."""
        return replace(self, staged={**self.staged, operand: staged})


Build = Callable[[NestScope], Nodes]
"""A function that builds the nodes inside."""


def key_of(operand: OperandTile, place: Place) -> tuple[Index, ...]:
    """Return a key of an operand's tile. Places with equal keys have the same tile."""
    return tuple(place.position[axis] for axis in operand.axes)
