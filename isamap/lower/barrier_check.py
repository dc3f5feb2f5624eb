"""Check that barriers separate lanes of a block that write an element from lanes that read it.

    check_barriers(program, machine)  ->  ("load_f32 touches a_tiles0, which lanes have written, and no barrier …",)

The check shares no code with the pass that inserts barriers. It follows the program in the order in which it runs,
the body of each loop twice, and compares accesses element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product as points
from math import lcm, prod

from isamap.ir import Index, Mod
from isamap.ir.domains import NO_AXES, largest_value
from isamap.lower.program import (
    Barrier,
    Begin,
    Condition,
    Fill,
    For,
    If,
    Issue,
    LoweredProgram,
    MemoryRef,
    Node,
    Parallel,
    RegisterRef,
    WorkSlice,
)
from isamap.lower.walk import children, names_in, walk, without_blocks
from isamap.lower.work_slices import is_met
from isamap.machine import Machine, bound_level
from isamap.source.records import dataclass, replace

_MOST_POINTS, _MOST_SLOTS = 1 << 16, 1 << 8


def check_barriers(program: LoweredProgram, machine: Machine) -> tuple[str, ...]:
    """Return the races between lanes, and the barriers that some lanes may not reach together with the others."""
    return tuple(dict.fromkeys(_Walk(machine).said(program.body)))


@dataclass(frozen=True, slots=True)
class _Access:
    """An access since the last barrier: its issue, whether it writes, and its elements, if they are known.

    `elements` are the first one, and the distances of all from there. If `other` is the variable of a loop, it was
    in another iteration of that loop. An asynchronous copy has been closed by so many `groups`; None for others.
    """

    name: str
    writes: bool
    array: str
    elements: tuple[Index, ...] | None
    other: str = ""
    groups: int | None = None


def _write_the_same(name: str) -> str:
    return f"several instances of a block write the same elements by {name}"


class _Walk:
    """One path through a program. `last` has, for each array, the accesses since the last barrier.

    `own` are the numbers of the instances that perform the nodes that it is at, and `team` all so far.

    Accesses are compared element by element. Strides that the caller decides are taken to be large numbers, so
    that an element lies at one place of its array.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        level = bound_level(machine)
        self.level = "" if level is None else level.name
        self.last: dict[str, set[_Access]] = {}
        self.team: dict[str, int] = {}
        self.own: dict[str, int] = {}
        self.loops: dict[str, Index] = {}
        self.here: tuple[Condition, ...] = ()

    def said(self, nodes: tuple[Node, ...]) -> Iterator[str]:
        earlier: dict[str, set[_Access]] = {}
        ways: list[If] = []
        for node in nodes:
            others = ways if isinstance(node, If) else []
            ways = [*others, node] if isinstance(node, If) else []
            match node:
                case If(conditions) if others and all(self.is_else(other, conditions) for other in others):
                    behind = self.last
                    self.last = {array: set(some) for array, some in earlier.items()}
                    yield from self.said((node,))
                    for array, some in behind.items():
                        self.last.setdefault(array, set()).update(some)
                case Barrier(level, in_flight):
                    if level != self.level:
                        yield f"a barrier is of {level}, which is not a level whose lanes may wait for each other"
                    for array, some in self.last.items():
                        left = [(one, one.groups) for one in some if one.groups is not None]
                        kept = {replace(one, groups=n + 1) for one, n in left if n < in_flight}
                        self.last[array] = kept
                case Issue(name):
                    each, made = self.is_of_each(node), self.accesses(node)
                    if each and any(one.writes and self.meets_itself(node, n) for n, one in enumerate(made)):
                        yield _write_the_same(name)
                    yield from self.performed(name, made, each)
                case Fill(buffer, offset, count):
                    most = count.value if count.value is not None and count.value <= _MOST_POINTS else None
                    elements = None if most is None else (offset, *map(Index.of, range(most)))
                    each = bool(self.own.keys() & (offset.symbols | count.symbols))
                    if each and self.are_shared([(numbers, elements) for numbers in self.instances()]):
                        yield _write_the_same("a fill")
                    yield from self.performed("a fill", [_Access("a fill", True, buffer, elements)], each)
                case Parallel(counters, body, level=str(own)) if own:
                    around, self.own = self.own, {counter: trips.constant for counter, trips in counters}
                    self.team |= self.own
                    yield from self.said(body)
                    self.own = around
                case Parallel(counters, body):
                    self.loops |= dict(counters)
                    self.last.clear()
                    yield from self.said(body)
                    self.last.clear()
                case For(variable, trips, body) | WorkSlice(nth=variable, trips=trips, body=body):
                    self.loops[variable] = trips
                    outside = self.here
                    if trips.symbols & self.own.keys():
                        self.here = (*self.here, (Index.of(variable), "<", trips))
                        if any(isinstance(inner, Barrier) for inner in walk(body)):
                            yield "a barrier stands where only some instances of a block come"
                    yield from self.said(body)
                    waits = [inner.in_flight for inner in without_blocks(body) if isinstance(inner, Barrier)]
                    again = (
                        0 if isinstance(node, For) and self.writes_apart(node) else 1 + max(waits, default=0)
                    )
                    for _ in range(again):
                        self.change(partial(self.before, variable=variable, is_closed=bool(waits)))
                        yield from self.said(body)
                    self.here = outside
                    self.change(lambda access: self.every(access, variable))
                case If(conditions, body):
                    ways = [node]
                    earlier = {array: set(some) for array, some in self.last.items()}
                    own = {name for left, _, right in conditions for name in left.symbols | right.symbols}
                    if own & self.team.keys() and any(isinstance(inner, Barrier) for inner in walk(body)):
                        yield "a barrier stands where only some instances of a block come"
                    # A barrier inside may be left out, and ends nothing behind it.
                    before = {array: set(some) for array, some in self.last.items()}
                    around, self.here = self.here, (*self.here, *conditions)
                    yield from self.said(body)
                    self.here = around
                    for array, some in before.items():
                        self.last.setdefault(array, set()).update(some)
                case Begin(work):
                    yield f"{work} is dealt to iterations, and lanes have no order of these"
                case _:
                    yield from self.said(children(node))

    def performed(self, name: str, made: list[_Access], each: bool) -> Iterator[str]:
        """Yield the races of accesses that each instance performs, or that all instances perform together."""
        some = any((left.symbols | right.symbols) & self.own.keys() for left, _, right in self.here)
        if some and not each:
            yield f"all instances of a block perform {name} together where only some of them come"
        yield from self.touch(name, made)

    def is_of_each(self, issue: Issue) -> bool:
        """Return whether each instance performs an issue. An issue that all perform together uses no register."""
        in_registers = any(isinstance(ref, RegisterRef) for _, ref in issue.operands)
        return bool(self.own) and (in_registers or not self.own.keys().isdisjoint(names_in(issue)))

    def instances(self) -> Iterator[dict[str, Index]]:
        """Yield the numbers of the instances that reach this place, as far as conditions decide it."""
        about = [c for c in self.here if (c[0].symbols | c[2].symbols) <= self.own.keys()]
        for values in points(*(range(count) for count in self.own.values())):
            numbers = dict(zip(self.own, values, strict=True))
            if is_met(about, numbers):
                yield {name: Index.of(value) for name, value in numbers.items()}

    def meets_itself(self, issue: Issue, number: int) -> bool:
        """Return whether two instances touch one element by the same access, `number`, of an issue."""
        return self.are_shared(
            [(numbers, self.accesses(issue, numbers)[number].elements) for numbers in self.instances()]
        )

    def are_shared(self, touched: list[tuple[dict[str, Index], tuple[Index, ...] | None]]) -> bool:
        """Return whether two instances, given their numbers, may touch one element."""
        seen: list[tuple[Index, set[int]]] = []
        for numbers, elements in touched:
            if elements is None:
                return True
            here, places = elements[0].substitute(numbers), {at.constant for at in elements[1:]}
            for there, others in seen:
                gap = (here - there).value
                if gap is None or not others.isdisjoint(gap + at for at in places):
                    return True
            seen.append((here, places))
        return False

    def is_else(self, before: If, conditions: tuple[Condition, ...]) -> bool:
        """Return whether conditions only hold where those of another node do not: `a < b` and `b <= a`."""
        return any(
            {one, other} == {"<", "<="} and (left, right) == (there, here)
            for left, one, right in before.conditions
            for here, other, there in conditions
        )

    def change(self, change: Callable[[_Access], _Access]) -> None:
        for array, some in self.last.items():
            self.last[array] = set(map(change, some))

    def before(self, access: _Access, variable: str, is_closed: bool) -> _Access:
        """Return an access as the next or any later iteration of a loop sees it.

        If each iteration closes a group, copies in flight are of known iterations.
        """
        if access.elements is None or variable not in access.elements[0].symbols:
            return access
        if access.groups is not None and is_closed:
            first, *others = access.elements
            return replace(access, elements=(first.substitute({variable: Index.of(variable) - 1}), *others))
        return replace(access, elements=None) if access.other else replace(access, other=variable)

    def every(self, access: _Access, variable: str) -> _Access:
        """Return an access of any iteration, as code after the loop sees it."""
        if access.elements is None or variable not in access.elements[0].symbols:
            return access
        first, *own = access.elements
        step, most = first.coefficient(variable), largest_value(self.loops[variable], self.loops).value
        if step is None or step.value is None or most is None or most * len(own) > _MOST_POINTS:
            return replace(access, elements=None)
        places = {at.constant + step.value * n for at in own for n in range(most)}
        elements = (first.substitute({variable: 0}), *map(Index.of, sorted(places)))
        return replace(access, elements=elements, other="" if access.other == variable else access.other)

    def accesses(self, issue: Issue, numbers: Mapping[str, Index] = NO_AXES) -> list[_Access]:
        """Return an issue's accesses of memory, of any instance or of the one with these numbers.

        Lengths are the longest ones that loops outside allow.
        """
        instruction = self.machine.instructions[issue.instruction].instruction
        longest = {p.name: p.high for p in instruction.params if p.high is not None}
        for name, value in issue.params:
            end = (
                largest_value(value.substitute(numbers), self.loops)
                if isinstance(value, Index)
                else Index.of(0)
            )
            end = Index.of(value) if isinstance(value, int) else end
            longest |= {name: end} if end.value else {}
        found: list[_Access] = []
        for name, ref in issue.operands:
            if not isinstance(ref, MemoryRef):
                continue
            operand = instruction.operand(name)
            shape = [extent.substitute(longest).value for extent in operand.shape]
            symbols = ref.offset.symbols.union(*(stride.symbols for stride in ref.strides))
            own = [s for s in symbols if s.rpartition(".s")[0] == ref.buffer]
            large = {s: 1 << 30 * (20 - int(s.rpartition(".s")[2])) for s in own}
            steps = [stride.substitute(large).value for stride in ref.strides]
            elements: tuple[Index, ...] | None = None
            if None not in shape and None not in steps and prod(n or 1 for n in shape) <= _MOST_POINTS:
                places = points(*(range(n or 1) for n in shape))
                first = ref.offset.substitute(large)
                distances = sorted(
                    {sum((s or 0) * n for s, n in zip(steps, at, strict=True)) for at in places}
                )
                elements = (first, *map(Index.of, distances))
            roles = {"in": (False,), "out": (True,), "inout": (False, True)}[operand.role]
            groups = 0 if self.machine.instructions[issue.instruction].is_asynchronous else None
            found += [
                _Access(issue.instruction, writes, ref.buffer, elements, groups=groups) for writes in roles
            ]
        return found

    def meet(self, one: _Access, other: _Access) -> bool:
        """Return whether two accesses, each by some instance of a team, may touch one element."""
        if one.elements is None or other.elements is None:
            return True
        left = (one.elements[0].symbols ^ other.elements[0].symbols) & self.loops.keys()
        for variable in sorted(left):  # a loop that one of them is behind
            one, other = self.every(one, variable), self.every(other, variable)
            if one.elements is None or other.elements is None:
                return True
        (here, *mine), (there, *theirs) = one.elements, other.elements
        own = {at.constant for at in mine}
        names = [name for name in self.team if name in here.symbols | there.symbols]
        for a in points(*(range(self.team[name]) for name in names)):
            for b in points(*(range(self.team[name]) for name in names)):
                known = (dict(zip(names, values, strict=True)) for values in (a, b))
                first, second = (
                    at.substitute(numbers) for at, numbers in zip((here, there), known, strict=True)
                )
                gaps = _values_of(second - first)
                steps = {name: first.coefficient(name) for name in (one.other, other.other) if name}
                if gaps is None or any(step is None or not step.value for step in steps.values()):
                    return True
                if not steps and any(not own.isdisjoint(gap + at.constant for at in theirs) for gap in gaps):
                    return True
                if any(
                    step is not None and self.meets_later(own, gap, theirs, (step.constant, name))
                    for name, step in steps.items()
                    for gap in gaps
                ):
                    return True
        return False

    def meets_later(self, own: set[int], gap: int, theirs: list[Index], loop: tuple[int, str]) -> bool:
        """Return whether another iteration of a loop, with its step and variable, touches one of the own elements."""
        step, variable = loop
        most = largest_value(self.loops[variable], self.loops).value
        alike: dict[int, set[int]] = {}
        for at in own:
            alike.setdefault(at % step, set()).add(at)
        moved = [gap + at.constant for at in theirs]
        return any(
            at != mine and (most is None or abs(at - mine) < abs(step) * most)
            for at in moved
            for mine in alike.get(at % step, ())
        )

    def writes_apart(self, loop: For) -> bool:
        """Return whether the addresses show that a loop nest around one issue writes each element once."""
        loops: list[tuple[str, int]] = []
        node: Node = loop
        while isinstance(node, For) and len(node.body) == 1 and node.trips.value is not None:
            loops.append((node.variable, node.trips.value))
            (node,) = node.body
        if not isinstance(node, Issue) or prod(count for _, count in loops) > _MOST_POINTS:
            return False
        params = {name: value for name, value in node.params if isinstance(value, Index | int)}
        touched = dict(node.operands)
        for operand in self.machine.instructions[node.instruction].instruction.operands:
            ref = touched[operand.name]
            if operand.role == "in" or not isinstance(ref, MemoryRef):
                continue
            shape = [extent.substitute(params).value for extent in operand.shape]
            steps = [stride.value for stride in ref.strides]
            own = {name for name, _ in loops}
            moving = [(m, c) for m, c in ref.offset.terms if own & Index(((m, 1),)).symbols]
            mixed = any(Index(((m, 1),)).symbols - own for m, _ in moving)
            if mixed or None in shape or None in steps or operand.role == "inout":
                return False
            seen: set[int] = set()
            for point in points(*(range(count) for _, count in loops)):
                at = Index(tuple(moving)).evaluate(dict(zip((name for name, _ in loops), point, strict=True)))
                inside = [at]
                for extent, step in zip(shape, steps, strict=True):
                    inside = [a + (step or 0) * n for a in inside for n in range(extent or 0)]
                if len(seen) + len(inside) > _MOST_POINTS or not seen.isdisjoint(inside):
                    return False
                seen.update(inside)
        return True

    def touch(self, name: str, accesses: list[_Access]) -> Iterator[str]:
        for one in accesses:
            met = [other for other in self.last.get(one.array, set[_Access]()) if self.meet(other, one)]
            if any(other.writes and other.groups for other in met):
                yield f"{name} touches {one.array}, and copies into it are on their way"
            elif any(other.writes for other in met):
                yield f"{name} touches {one.array}, which lanes have written, and no barrier stands between"
            elif one.writes and met:
                yield f"{name} writes {one.array}, which lanes have read, and no barrier stands between"
        for one in accesses:
            self.last.setdefault(one.array, set()).add(one)


def _values_of(index: Index) -> frozenset[int] | None:
    """Return all values of a sum of numbers and remainders of variables, or None for other indices."""
    if index.value is not None:
        return frozenset((index.value,))
    atoms = [atom for monomial, _ in index.terms for atom in (monomial if len(monomial) < 2 else ("",))]
    divisors = [atom.divisor.value for atom in atoms if isinstance(atom, Mod)]
    if len(divisors) != len(atoms) or None in divisors:
        return None
    every, names = lcm(*(divisor or 1 for divisor in divisors)), sorted(index.symbols)
    if every ** len(names) > _MOST_SLOTS:
        return None
    numbers = points(range(every), repeat=len(names))
    return frozenset(index.evaluate(dict(zip(names, values, strict=True))) for values in numbers)
