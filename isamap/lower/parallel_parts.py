"""Lower parallel loops: divide a nest into parts with private buffers, and reduce partial sums.

    par n by 512 { ... }        parallel n0 < 2
                                  if 512*n0 + 512 <= 1000     a part that is whole knows its size
                                    ...
                                  if 1000 < 512*n0 + 512      so does the last one
                                    ...

A part's buffers are those that were claimed while its body was built: each gets as many copies as there are
parts, and everything in the body that names one is moved to the part's own.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from math import lcm

from isamap.formulate.finished_sums import Finish
from isamap.ir import ZERO, Index, index_max, index_min, product
from isamap.lower import program as lir
from isamap.lower import steps
from isamap.lower.copies import copy_loops
from isamap.lower.finish import copied_in, copy_back
from isamap.lower.nest_scope import Build, Nest, NestScope, Nodes
from isamap.lower.place import Place, is_multiple
from isamap.lower.staging import Staged, stage_at
from isamap.lower.walk import children, names_in, rename_in, shift_accesses, walk, with_children
from isamap.machine import Machine, line_bytes, private_memories, team_level
from isamap.match import MoveSearch, Tile
from isamap.match.moves.transfers import BLOCK, COUNTER, combine_elements
from isamap.plan.schedule import LoopStep, NestSchedule, bound_axes
from isamap.source.records import dataclass, replace

InPart = Callable[[Place], Nodes]
Counters = tuple[tuple[str, Index], ...]


@dataclass(frozen=True, slots=True)
class ParallelLoops:
    """The parallel loops of a nest, with the variable and the trip count of each.

    `sums` are the axes that are summed over: their loops count fastest, so that copies of one accumulator
    follow each other.
    """

    loops: tuple[LoopStep, ...]
    variables: tuple[str, ...]
    trips: tuple[Index, ...]
    sums: frozenset[str]

    @property
    def outer(self) -> Counters:
        """The loops that run more than once and select different elements of the output."""
        return self._counters(summing=False)

    @property
    def inner(self) -> Counters:
        """The loops that run more than once and divide a sum."""
        return self._counters(summing=True)

    @property
    def counters(self) -> Counters:
        return (*self.outer, *self.inner)

    def _counters(self, *, summing: bool) -> Counters:
        found = zip(self.loops, self.variables, self.trips, strict=True)
        return tuple((v, n) for loop, v, n in found if n.value != 1 and (loop.axis in self.sums) == summing)


def parallel_nest(nest: Nest, step: steps.ThreadLoops, scope: NestScope, inside: Build) -> Nodes:
    """Return all parts of a nest. `inside` builds the body of one part."""
    parts = parts_of(nest.tile, step.loops, nest.names)
    claimed, place = len(nest.names.buffers), scope.place
    if not step.split:
        body = in_parts(nest.tile, parts, place, lambda here: inside(scope.at(here)))
        return regions(body, parts.counters, nest, claimed, place)
    sums = _split_sum(nest, parts)
    within = scope.with_staged(sums.staged, sums.staged.operand.name)
    body = in_parts(
        nest.tile, parts, place, lambda here: (*sums.first_contents(here), *inside(within.at(here)))
    )
    nodes = regions(body, parts.counters, nest, claimed, place)
    return (*nodes, *sums.joined(), *sums.written_back(place))


def parts_of(tile: Tile, loops: tuple[LoopStep, ...], names: lir.Names) -> ParallelLoops:
    """Return the parallel loops of a nest, with a new variable for each."""
    # Of loops over an axis inside of others, the iterations that these leave.
    around = dict[str, Index]()
    trips = tuple[Index, ...]()
    for loop in loops:
        trips += (around.get(loop.axis, tile.axis(loop.axis).extent).ceildiv(loop.step),)
        around[loop.axis] = Index.of(loop.step)
    sums = frozenset(axis.name for axis in tile.axes if axis.is_reduction)
    return ParallelLoops(loops, tuple(names.fresh(loop.axis) for loop in loops), trips, sums)


def in_parts(
    tile: Tile, parts: ParallelLoops, place: Place, inside: InPart, *, sums: bool = True, number: int = 0
) -> Nodes:
    """Return the code of one part, for each possible size. Without `sums`, a part computes whole sums."""
    if number == len(parts.loops):
        return inside(place)
    loop, trips = parts.loops[number], parts.trips[number]
    axis, step, extent = loop.axis, loop.step, tile.axis(loop.axis).extent
    first = place.position[axis]

    def enter(left: Index, counter: Index) -> Nodes:
        here = place.enter(number, axis, first + counter * step, left, counter)
        here = replace(here, spans={**here.spans, axis: left})
        return in_parts(tile, parts, here, inside, sums=sums, number=number + 1)

    if not sums and axis in parts.sums:
        return in_parts(tile, parts, place, inside, sums=sums, number=number + 1)
    if trips.value == 1:
        return enter(index_min(step, extent), ZERO)
    counter = Index.of(parts.variables[number])
    is_group = any(inner.axis == axis for inner in parts.loops[number + 1 :])
    if is_multiple(extent, step) or is_group:
        return enter(Index.of(step), counter)
    end = first + counter * step + step
    full: lir.Condition = (end, "<=", extent)
    last: lir.Condition = (extent, "<", end)
    rest = Index.of(extent.value % step) if extent.value is not None else extent - (end - step)
    return (lir.If((full,), enter(Index.of(step), counter)), lir.If((last,), enter(rest, counter)))


def regions(body: Nodes, counters: Counters, nest: Nest, claimed: int, place: Place) -> Nodes:
    """Return the body for all parts, each with its own copies of the buffers claimed since `claimed`.

    Instances of a level that perform a part together have copies of their own, too, but for memories that they
    share.
    """
    machine, names = nest.search.machine, nest.names
    team = tuple((str(counter), Index.of(count)) for counter, count in place.team.values())
    if not (*counters, *team):
        return body
    body = _share_addresses(body, nest, claimed)
    part, count = part_number((*counters, *team)), product([trips for _, trips in (*counters, *team)])
    moves: dict[str, Index] = {}
    for number in range(claimed, len(names.buffers)):
        buffer = names.buffers[number]
        if buffer.memory in private_memories(machine):
            continue
        stride = copy_stride(buffer.elements, buffer.dtype.size_bytes, machine)
        moves[buffer.name] = part * stride
        names.buffers[number] = replace(buffer, elements=stride * count, why=f"{buffer.why}, per part")
    body = shift_accesses(body, moves)
    if (level := team_level(machine)) is not None and team:
        body = (lir.Parallel(team, _by_first(body, team), level=level.name),)
    return (lir.Parallel(counters, body),) if counters else body


def _share_addresses(body: Nodes, nest: Nest, claimed: int) -> Nodes:
    """Return the body in which whole parts and the last one share the buffers of a block.

    A block runs them one after the other, and the schedule gives their buffers the same address.
    """
    private = private_memories(nest.search.machine)
    kept: dict[object, lir.Buffer] = {}
    renamed: dict[str, str] = {}
    for buffer in nest.names.buffers[claimed:]:
        shared = buffer.memory in private and buffer.offset is not None
        at = (buffer.memory, buffer.offset, buffer.dtype) if shared else buffer.name
        first = kept.setdefault(at, buffer)
        renamed[buffer.name] = first.name
        kept[at] = replace(first, elements=index_max(first.elements, buffer.elements))
    nest.names.buffers[claimed:] = kept.values()
    return shift_accesses(body, {}, renamed)


def team_of(nest: NestSchedule, machine: Machine, names: lir.Names) -> dict[int, tuple[Index, int]]:
    """Return, by number, the loops over the tiles of a level's instances: the instance, and their count."""
    level = team_level(machine)
    bound = () if level is None else bound_axes(nest, level.name)
    first = len(nest.loops) - len(bound)
    return {first + n: (Index.of(names.fresh(axis)), count) for n, (axis, count) in enumerate(bound)}


def _by_first(nodes: Nodes, team: Counters) -> Nodes:
    """Return the nodes, with copies that are equal for all instances performed by the first instance."""
    counters = {counter for counter, _ in team}
    issues = [node for node in walk(nodes) if isinstance(node, lir.Issue)]
    own = {value for issue in issues if counters & names_in(issue) for value in _values(issue)}
    while more := {v for issue in issues if own & _values(issue) for v in _values(issue)} - own:
        own |= more
    first: tuple[lir.Condition, ...] = tuple((Index.of(counter), "==", ZERO) for counter, _ in team)

    def alone(node: lir.Node) -> bool:
        return isinstance(node, lir.Issue) and bool(_values(node)) and not own & _values(node)

    def inside(some: Nodes) -> Nodes:
        found: list[lir.Node] = []
        for is_alone, group in groupby(some, alone):
            run = tuple(group)
            found += (
                [lir.If(first, run)] if is_alone else (with_children(n, inside(children(n))) for n in run)
            )
        return tuple(found)

    return inside(nodes)


def _values(issue: lir.Issue) -> frozenset[str]:
    return frozenset(ref.value for _, ref in issue.operands if isinstance(ref, lir.RegisterRef))


def part_number(counters: Counters) -> Index:
    """Return the number of a part, the last counter fastest."""
    total = ZERO
    for variable, trips in counters:
        total = total * trips + Index.of(variable)
    return total


def copy_stride(elements: Index, element_bytes: int, machine: Machine) -> Index:
    """Return the distance between two parts' copies of a buffer, in whole cache lines and whole joined blocks.

    Units: elements.
    """
    unit = lcm(BLOCK, -(-(line_bytes(machine) or machine.model.line_bytes) // element_bytes))
    return elements.ceildiv(unit) * unit


def part_count(tile: Tile, schedule: NestSchedule) -> Index:
    """Return how many parts a nest has."""
    return product(parts_of(tile, schedule.loops[: schedule.parallel], lir.Names(set())).trips)


def distribute_loops(nodes: Nodes, count: Index, names: lir.Names) -> Nodes:
    """Return nodes whose outermost loops are divided into `count` parts with independent iterations."""
    if count.value == 1 or not all(isinstance(node, lir.For) for node in nodes):
        return nodes
    return tuple(_partition(node, count, names) for node in nodes if isinstance(node, lir.For))


def _partition(loop: lir.For, count: Index, names: lir.Names) -> lir.Parallel:
    share = loop.trips.ceildiv(count)
    chunk, iteration = names.fresh("part"), names.fresh(loop.variable)
    first = Index.of(chunk) * share
    body = rename_in(loop.body, {loop.variable: first + Index.of(iteration)})
    iterations = index_min(share, loop.trips - first)
    return lir.Parallel(((chunk, loop.trips.ceildiv(share)),), (lir.For(iteration, iterations, body),))


# --- sums in parts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SplitSum:
    """A sum whose parts are summed separately, each in its own copy of the accumulator buffer.

    Units: copies are `stride` elements apart.
    """

    tile: Tile
    parts: ParallelLoops
    loops: tuple[LoopStep, ...]
    staged: Staged
    stride: Index
    op: str
    finish: Finish
    search: MoveSearch
    names: lir.Names

    def first_contents(self, here: Place) -> Nodes:
        """Return the initial value of a part of a sum: the old value for the first part, zero for the others."""
        known = self.search, self.names
        copied = copied_in(self.finish, self.staged, self.tile, self.loops, here, *known)
        if self.op != "add":
            return copied  # the largest of twice the same is the same
        number = part_number(self.parts.inner)
        return (
            lir.If(((number, "==", ZERO),), (lir.Block(f"stage {self.staged.operand.name}", copied),)),
            lir.If(((ZERO, "<", number),), (lir.Fill(self.staged.buffer, ZERO, self.stride),)),
        )

    def joined(self) -> Nodes:
        """Return the nodes that add all accumulator copies to the first one, a section of them by each part."""
        count = product([trips for _, trips in self.parts.inner])
        blocks = self.stride.floordiv(BLOCK)
        share = blocks.ceildiv(count)
        chunk, block, other = (self.names.fresh(stem) for stem in ("part", "block", "other"))
        here = self._first_copy() + (Index.of(chunk) * share + Index.of(block)) * BLOCK
        there = here + (Index.of(other) + 1) * self.stride
        copy = combine_elements(self.staged.operand, self.staged.buffer, self.op, here, there)
        body = copy_loops(copy, {COUNTER: Index.of(BLOCK)}, self.search, self.names)
        over = lir.For(
            block, index_min(share, blocks - Index.of(chunk) * share), (lir.For(other, count - 1, body),)
        )
        counters = (*self.parts.outer, (chunk, count))
        return (lir.Parallel(counters, (lir.Block(f"join {self.staged.operand.name}", (over,)),)),)

    def written_back(self, place: Place) -> Nodes:
        """Return the nodes that write the first copies back to their target."""

        def back(here: Place) -> Nodes:
            known = self.search, self.names
            return copy_back(self.finish, self.staged, self.tile, self.loops, here, *known)

        nodes = in_parts(self.tile, self.parts, place, back, sums=False)
        nodes = shift_accesses(nodes, {self.staged.buffer: self._first_copy()})
        if not self.parts.outer:
            nodes = distribute_loops(nodes, product([n for _, n in self.parts.inner]), self.names)
        else:
            nodes = (lir.Parallel(self.parts.outer, nodes),)
        return (lir.Block(f"write {self.staged.operand.name} back", nodes),)

    def _first_copy(self) -> Index:
        """Return the start of the first accumulator copy for a part of the output."""
        return part_number(self.parts.outer) * product([n for _, n in self.parts.inner]) * self.stride


def _split_sum(nest: Nest, parts: ParallelLoops) -> SplitSum:
    tile, acc, op = nest.tile, nest.tile.accumulator, nest.tile.statement.assign.op
    assert acc is not None, "only what sums has sums in parts"
    assert op is not None, "only what sums has sums in parts"
    known = nest.search, nest.names
    staged = stage_at(acc, nest.schedule.parallel, tile, nest.loops, *known)
    buffer = nest.names.buffers[-1]
    stride = copy_stride(buffer.elements, buffer.dtype.size_bytes, nest.search.machine)
    return SplitSum(tile, parts, nest.loops, staged, stride, op, nest.finish, *known)
