"""Check that barriers separate lanes of a block that write an element from lanes that read it.

    check_barriers(program, machine)  ->  ("load_f32 touches a_tiles0, which lanes have written, and no barrier …",)

The check shares nothing but the lengths that instances pass with the pass that inserts barriers. It follows the
program in the order in which it runs, the body of each loop twice, and compares accesses element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import product as points
from math import lcm, prod

from isamap.ir import Index, Mod
from isamap.ir.domains import largest_value
from isamap.lower import program as lir
from isamap.lower.walk import children, longest_lengths, names_in, walk, without_blocks
from isamap.lower.work_slices import is_met
from isamap.machine import Machine, bound_level, is_late_product
from isamap.source.records import dataclass, replace

_MOST_POINTS, _MOST_SLOTS = 1 << 16, 1 << 8


def check_barriers(program: lir.LoweredProgram, machine: Machine) -> tuple[str, ...]:
    """Return text for each race between lanes, and for each barrier that only some of the lanes may reach."""
    return tuple(dict.fromkeys(_Walk(machine).said(program.body)))


Numbers = Mapping[str, int]
"""The numbers of an instance."""


@dataclass(frozen=True, slots=True)
class _Box:
    """The elements of an access: the first one, and for each axis a distance and a count.

    Both may depend on the number of an instance.
    """

    first: Index
    axes: tuple[tuple[int, Index], ...]

    def follows(self, variable: str) -> bool:
        """Return whether the loop with this variable moves the box."""
        return variable in self.first.symbols

    def places(self, numbers: Numbers) -> frozenset[int] | None:
        """Return the distances of an instance's elements from the first, or None for many or unknown ones."""
        counts = [count.substitute(numbers).value for _, count in self.axes]
        known = [max(count, 0) for count in counts if count is not None]
        if len(known) < len(counts) or prod(known) > _MOST_POINTS:
            return None
        return _sums(tuple((step, count) for (step, _), count in zip(self.axes, known, strict=True)))


@lru_cache(maxsize=1024)
def _sums(axes: tuple[tuple[int, int], ...]) -> frozenset[int]:
    return frozenset(
        sum(at)
        for at in points(*(range(0, step * n, step) if step else (0,) * min(n, 1) for step, n in axes))
    )


@dataclass(frozen=True, slots=True)
class _Access:
    """An access since the last barrier: its issue, whether it writes, and its elements, if they are known.

    If `other` is the variable of a loop, it was in another iteration of that loop. An asynchronous copy has been
    closed by so many `groups`; None for others. So has a product that goes on (`is_product`), which barriers do not
    await. Its sums in a register are an access of that register.
    """

    name: str
    writes: bool
    array: str
    box: _Box | None
    other: str = ""
    groups: int | None = None
    is_product: bool = False


def _write_the_same(name: str) -> str:
    return f"several instances of a block write the same elements by {name}"


class _Walk:
    """A path through a program. `last` has, for each array, the accesses since the last barrier.

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
        self.here: tuple[lir.Condition, ...] = ()

    def said(self, nodes: tuple[lir.Node, ...]) -> Iterator[str]:
        earlier: dict[str, set[_Access]] = {}
        ways: list[lir.If] = []
        for node in nodes:
            others = ways if isinstance(node, lir.If) else []
            ways = [*others, node] if isinstance(node, lir.If) else []
            match node:
                case lir.If(conditions) if others and all(
                    self.is_else(other, conditions) for other in others
                ):
                    behind = self.last
                    self.last = {array: set(some) for array, some in earlier.items()}
                    yield from self.said((node,))
                    for array, some in behind.items():
                        self.last.setdefault(array, set()).update(some)
                case lir.Barrier(level, in_flight):
                    if level != self.level:
                        yield f"a barrier is of {level}, which is not a level whose lanes may wait for each other"
                    for array, some in self.last.items():
                        copies = {one for one in some if not one.is_product}
                        left = [(one, one.groups) for one in copies if one.groups is not None]
                        kept = {replace(one, groups=n + 1) for one, n in left if n < in_flight}
                        self.last[array] = kept | (some - copies)
                case lir.ProductGroup(in_flight):
                    for array, some in self.last.items():
                        products = {one for one in some if one.is_product}
                        self.last[array] = (some - products) | set(_in_flight(products, in_flight))
                case lir.Issue(name):
                    each, made = self.is_of_each(node), self.accesses(node)
                    in_memory = [one for one in made if not one.array.startswith("register ")]
                    if each and any(one.writes and self.are_shared(one.box) for one in in_memory):
                        yield _write_the_same(name)
                    yield from self.find_races(name, made, each)
                case lir.Fill(buffer, offset, count):
                    box = _Box(offset, ((1, count),))
                    each = bool(self.own.keys() & (offset.symbols | count.symbols))
                    if each and self.are_shared(box):
                        yield _write_the_same("a fill")
                    yield from self.find_races("a fill", [_Access("a fill", True, buffer, box)], each)
                case lir.Parallel(counters, body, level=str(own)) if own:
                    around, self.own = self.own, {counter: trips.constant for counter, trips in counters}
                    self.team |= self.own
                    yield from self.said(body)
                    self.own = around
                case lir.Parallel(counters, body):
                    self.loops |= dict(counters)
                    self.last.clear()
                    yield from self.said(body)
                    self.last.clear()
                case lir.For(variable, trips, body) | lir.WorkSlice(nth=variable, trips=trips, body=body):
                    self.loops[variable] = trips
                    outside = self.here
                    if trips.symbols & self.own.keys():
                        self.here = (*self.here, (Index.of(variable), "<", trips))
                        if any(isinstance(inner, lir.Barrier) for inner in walk(body)):
                            yield "only some instances of a block reach a barrier"
                    yield from self.said(body)
                    waits = [
                        inner.in_flight or 0
                        for inner in without_blocks(body)
                        if isinstance(inner, lir.Barrier | lir.ProductGroup)
                    ]
                    again = (
                        0
                        if isinstance(node, lir.For) and self.writes_apart(node)
                        else 1 + max(waits, default=0)
                    )
                    for _ in range(again):
                        self.change(partial(self.before, variable=variable, is_closed=bool(waits)))
                        yield from self.said(body)
                    self.here = outside
                    self.change(lambda access: self.every(access, variable))
                case lir.If(conditions, body):
                    ways = [node]
                    earlier = {array: set(some) for array, some in self.last.items()}
                    own = {name for left, _, right in conditions for name in left.symbols | right.symbols}
                    if own & self.team.keys() and any(isinstance(inner, lir.Barrier) for inner in walk(body)):
                        yield "only some instances of a block reach a barrier"
                    # A barrier inside may be left out, and ends nothing behind it.
                    before = {array: set(some) for array, some in self.last.items()}
                    around, self.here = self.here, (*self.here, *conditions)
                    yield from self.said(body)
                    self.here = around
                    for array, some in before.items():
                        self.last.setdefault(array, set()).update(some)
                case lir.Begin(work):
                    yield f"{work} is dealt to iterations, and lanes have no order of these"
                case _:
                    yield from self.said(children(node))

    def find_races(self, name: str, made: list[_Access], each: bool) -> Iterator[str]:
        """Yield the races of accesses. Each instance performs them, or all instances perform them as one."""
        some = any((left.symbols | right.symbols) & self.own.keys() for left, _, right in self.here)
        if some and not each:
            yield f"all instances of a block perform {name} together where only some of them come"
        yield from self.touch(name, made)

    def is_of_each(self, issue: lir.Issue) -> bool:
        """Return whether each instance performs an issue. An issue without registers is performed once for all."""
        in_registers = any(isinstance(ref, lir.RegisterRef) for _, ref in issue.operands)
        return bool(self.own) and (in_registers or not self.own.keys().isdisjoint(names_in(issue)))

    def instances(self) -> Iterator[dict[str, int]]:
        """Yield the numbers of the instances that reach this place, as far as conditions decide it."""
        about = [c for c in self.here if (c[0].symbols | c[2].symbols) <= self.own.keys()]
        for values in points(*(range(count) for count in self.own.values())):
            numbers = dict(zip(self.own, values, strict=True))
            if is_met(about, numbers):
                yield numbers

    def are_shared(self, box: _Box | None) -> bool:
        """Return whether two instances may access one element through the same box."""
        seen: list[tuple[Index, frozenset[int]]] = []
        for numbers in self.instances():
            if box is None or (places := box.places(numbers)) is None:
                return True
            here = box.first.substitute(numbers)
            for there, others in seen:
                gap = (here - there).value
                if gap is None or not others.isdisjoint(gap + at for at in places):
                    return True
            seen.append((here, places))
        return False

    def is_else(self, before: lir.If, conditions: tuple[lir.Condition, ...]) -> bool:
        """Return whether conditions exclude those of another node, as `a < b` excludes `b <= a`."""
        return any(
            {one, other} == {"<", "<="} and (left, right) == (there, here)
            for left, one, right in before.conditions
            for here, other, there in conditions
        )

    def change(self, change: Callable[[_Access], _Access]) -> None:
        for array, some in self.last.items():
            self.last[array] = set(map(change, some))

    def before(self, access: _Access, variable: str, is_closed: bool) -> _Access:
        """Return an access for comparison with those of a later iteration of a loop.

        If each iteration closes a group, copies in flight are of known iterations.
        """
        if access.box is None or not access.box.follows(variable):
            return access
        if access.groups is not None and is_closed:
            before = access.box.first.substitute({variable: Index.of(variable) - 1})
            return replace(access, box=replace(access.box, first=before))
        return replace(access, box=None) if access.other else replace(access, other=variable)

    def every(self, access: _Access, variable: str) -> _Access:
        """Return an access extended to all iterations of a loop, for comparison with code after the loop."""
        if access.box is None or not access.box.follows(variable):
            return access
        step, most = access.box.first.coefficient(variable), self.most_trips(variable)
        if step is None or step.value is None or most.value is None:
            return replace(access, box=None)
        box = _Box(access.box.first.substitute({variable: 0}), (*access.box.axes, (step.value, most)))
        return replace(access, box=box, other="" if access.other == variable else access.other)

    def accesses(self, issue: lir.Issue) -> list[_Access]:
        """Return the accesses of memory of an issue. Lengths are the longest ones that loops outside allow."""
        instruction = self.machine.instructions[issue.instruction].instruction
        longest = longest_lengths(issue, instruction, self.loops, self.team)
        found: list[_Access] = []
        item = self.machine.instructions[issue.instruction]
        is_product = is_late_product(item, self.machine)
        for name, ref in issue.operands:
            if isinstance(ref, lir.RegisterRef):
                found.append(
                    _Access(issue.instruction, True, f"register {ref.value}", None, "", 0, is_product)
                )
            if not isinstance(ref, lir.MemoryRef):
                continue
            operand = instruction.operand(name)
            shape = [extent.substitute(longest) for extent in operand.shape]
            symbols = ref.offset.symbols.union(*(stride.symbols for stride in ref.strides))
            own = [s for s in symbols if s.rpartition(".s")[0] == ref.buffer]
            large = {s: 1 << 30 * (20 - int(s.rpartition(".s")[2])) for s in own}
            steps = [stride.substitute(large).value for stride in ref.strides]
            known = [step for step in steps if step is not None]
            box: _Box | None = None
            if len(known) == len(shape):
                box = _Box(ref.offset.substitute(large), tuple(zip(known, shape, strict=True)))
            roles = {"in": (False,), "out": (True,), "inout": (False, True)}[operand.role]
            groups = 0 if item.is_asynchronous else None
            found += [_Access(item.name, writes, ref.buffer, box, "", groups, is_product) for writes in roles]
        return found

    def meet(self, one: _Access, other: _Access) -> bool:
        """Return whether two accesses, each by any instance of a team, may have an element in common."""
        if one.box is None or other.box is None:
            return True
        left = (one.box.first.symbols ^ other.box.first.symbols) & self.loops.keys()
        for variable in sorted(left):  # a loop that one of them is behind
            one, other = self.every(one, variable), self.every(other, variable)
            if one.box is None or other.box is None:
                return True
        boxes = one.box, other.box
        moving = {s for box in boxes for at in (box.first, *(n for _, n in box.axes)) for s in at.symbols}
        names = [name for name in self.team if name in moving]
        instances = [dict(zip(names, p, strict=True)) for p in points(*(range(self.team[n]) for n in names))]
        ours, others = ([(box.first.substitute(n), box.places(n)) for n in instances] for box in boxes)
        for (first, own), (second, theirs) in points(ours, others):
            if own is None or theirs is None or (gaps := _values_of(second - first)) is None:
                return True
            steps = {name: first.coefficient(name) for name in (one.other, other.other) if name}
            if any(step is None or not step.value for step in steps.values()):
                return True
            if not steps and any(not own.isdisjoint(gap + at for at in theirs) for gap in gaps):
                return True
            if any(
                step is not None and self.meets_later(own, gap, theirs, (step.constant, name))
                for name, step in steps.items()
                for gap in gaps
            ):
                return True
        return False

    def meets_later(
        self, own: frozenset[int], gap: int, theirs: frozenset[int], loop: tuple[int, str]
    ) -> bool:
        """Return whether an earlier or later iteration of a loop accesses one of the given elements."""
        step, variable = loop
        most = self.most_trips(variable).value
        alike: dict[int, set[int]] = {}
        for at in own:
            alike.setdefault(at % step, set()).add(at)
        moved = [gap + at for at in theirs]
        return any(
            at != mine and (most is None or abs(at - mine) < abs(step) * most)
            for at in moved
            for mine in alike.get(at % step, ())
        )

    def most_trips(self, variable: str) -> Index:
        """Return a bound on the iterations of a loop in all instances, whose numbers may be in its own bound."""
        counters = {name: Index.of(count) for name, count in self.team.items()}
        return largest_value(self.loops[variable], {**self.loops, **counters})

    def writes_apart(self, loop: lir.For) -> bool:
        """Return whether the addresses in a loop nest around one issue prove that each element is written once."""
        loops: list[tuple[str, int]] = []
        node: lir.Node = loop
        while isinstance(node, lir.For) and len(node.body) == 1 and node.trips.value is not None:
            loops.append((node.variable, node.trips.value))
            (node,) = node.body
        if not isinstance(node, lir.Issue) or prod(count for _, count in loops) > _MOST_POINTS:
            return False
        params = {name: value for name, value in node.params if isinstance(value, Index | int)}
        touched = dict(node.operands)
        for operand in self.machine.instructions[node.instruction].instruction.operands:
            ref = touched[operand.name]
            if operand.role == "in" or not isinstance(ref, lir.MemoryRef):
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
            before = self.last.get(one.array, set[_Access]())
            if one.array.startswith("register "):
                if any(other.is_product and other.name != name for other in before):
                    yield f"{name} touches {one.array}, to which products in flight add"
                continue
            met = [other for other in before if (one.writes or other.writes) and self.meet(other, one)]
            if one.writes and any(other.is_product for other in met):
                yield f"{name} writes {one.array}, which products in flight read"
            elif any(other.writes and other.groups for other in met):
                yield f"{name} touches {one.array}, and copies into it are in flight"
            elif any(other.writes for other in met):
                yield f"{name} touches {one.array}, which lanes have written, without a barrier in between"
            elif one.writes and met:
                yield f"{name} writes {one.array}, which lanes have read, without a barrier in between"
        for one in accesses:
            if one.is_product or not one.array.startswith("register "):
                self.last.setdefault(one.array, set()).add(one)


def _in_flight(products: set[_Access], in_flight: int | None) -> Iterator[_Access]:
    """Yield the products that are in flight after the end of a group, or after a wait for all but some groups."""
    for one in products:
        groups = one.groups or 0
        if in_flight is None:
            yield replace(one, groups=groups + 1)
        elif groups <= in_flight:
            yield one


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
