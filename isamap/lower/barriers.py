"""Insert barriers between lanes that write an element and lanes that read it.

    stage a { … a_tiles0 … }                  stage a { … a_tiles0 … }
    for k { v1 = load a_tiles0 }      ->      for k { barrier; v1 = load a_tiles0 }

A barrier precedes an issue that reads elements written since the last barrier, or writes elements accessed
since then. A loop that carries such accesses between iterations counts as two iterations. All writes of one
parallel loop are complete before the next one begins.

Asynchronous products, which read memory after their issue, form product groups. A group is closed after its last
product, and waited for before a barrier and before its registers are accessed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product as points
from math import lcm, prod

from isamap.ir import ZERO, Index, Mod
from isamap.ir.domains import largest_value
from isamap.lower import program as lir
from isamap.lower.walk import Nodes, children, longest_lengths, walk, with_children, without_blocks
from isamap.machine import Machine, bound_level, is_late_product
from isamap.source.records import dataclass, replace

_MOST_POINTS, _MOST_SLOTS = 1 << 16, 1 << 8


@dataclass(frozen=True, slots=True)
class Touch:
    """The elements of an array that an issue accesses: a box with a count for each stride, or the whole array.

    The counts may depend on the number of an instance. With `carried`, the elements are those of another iteration
    of a loop, each of which moves the box by so many elements.
    """

    array: str
    offset: Index = ZERO
    strides: tuple[Index, ...] = ()
    counts: tuple[Index, ...] = ()
    carried: int = 0
    is_whole: bool = False

    @property
    def span(self) -> int:
        """The number of elements from the first to the last one. The strides are numbers."""
        pairs = zip(self.strides, self.counts, strict=True)
        return 1 + sum(stride.constant * (count.constant - 1) for stride, count in pairs)

    def of_instance(self, numbers: Mapping[str, int]) -> Touch:
        """Return the elements that the instance with these numbers touches."""
        counts = tuple(count.substitute(numbers) for count in self.counts)
        return replace(self, offset=self.offset.substitute(numbers), counts=counts)

    def step(self, variable: str) -> int | None:
        """Return by how many elements an iteration of a loop moves the box, or None if it is not constant."""
        found = self.offset.coefficient(variable)
        return found.value if found is not None else None

    def of_others(self, variable: str) -> Touch:
        """Return the elements that another iteration of a loop accesses."""
        if variable not in self.offset.symbols:
            return self
        step = self.step(variable)
        return (
            Touch(self.array, is_whole=True)
            if step is None or self.carried
            else replace(self, carried=abs(step))
        )

    def of_all(self, variable: str, trips: int | None) -> Touch:
        """Return the elements that all iterations of a loop access."""
        if variable not in self.offset.symbols:
            return self
        step = self.step(variable)
        if step is None or trips is None or step < 0:
            return Touch(self.array, is_whole=True)
        offset = self.offset.substitute({variable: ZERO})
        return Touch(self.array, offset, (*self.strides, Index.of(step)), (*self.counts, Index.of(trips)))


Touches = frozenset[Touch]
NONE: Touches = frozenset()
NO_LOOPS: Mapping[str, Index] = {}
NO_TEAM: Mapping[str, int] = {}
FAR, MOST_AXES = 1 << 24, 16
"""A stride that only the caller knows, in elements: longer than any row. Tensors have fewer axes."""


def find_touched(
    node: lir.Issue | lir.Fill,
    machine: Machine,
    loops: Mapping[str, Index] = NO_LOOPS,
    team: Mapping[str, int] = NO_TEAM,
) -> tuple[Touches, Touches]:
    """Return the elements that one issue reads and writes, for all lanes. `loops` has iteration counts.

    `team` are the instances on whose numbers lengths may depend.
    """
    if isinstance(node, lir.Fill):
        return NONE, frozenset((Touch(node.buffer, is_whole=True),))
    read: set[Touch] = set()
    written: set[Touch] = set()
    instruction = machine.instructions[node.instruction].instruction
    most = longest_lengths(node, instruction, loops, team)
    for name, ref in node.operands:
        if not isinstance(ref, lir.MemoryRef):
            continue
        operand = instruction.operand(name)
        counts = tuple(extent.substitute(most) for extent in operand.shape)
        known = len(counts) == len(ref.strides) and all(n.symbols <= team.keys() for n in counts)
        far = _strides_apart(ref)
        strides = tuple(stride.substitute(far) for stride in ref.strides)
        known = known and all(stride.value is not None for stride in strides)
        one = (
            Touch(ref.buffer, ref.offset.substitute(far), strides, counts)
            if known
            else Touch(ref.buffer, is_whole=True)
        )
        read |= {one} if operand.role != "out" else set()
        written |= {one} if operand.role != "in" else set()
    return frozenset(read), frozenset(written)


def _strides_apart(ref: lir.MemoryRef) -> dict[str, int]:
    """Return numbers for strides that only the caller knows. Each exceeds the extent of all inner axes."""
    stem = f"{ref.buffer}.s"
    own = {s for index in (ref.offset, *ref.strides) for s in index.symbols if s.startswith(stem)}
    return {s: FAR ** (MOST_AXES - int(s.removeprefix(stem))) for s in own}


def are_apart(one: Touch, other: Touch, team: Mapping[str, int]) -> bool:
    """Return whether two accesses of one array have no element in common, for all instances of a team.

    Rows of a tensor whose stride is not a number do not overlap: they are taken to be far apart.
    """
    if one.is_whole or other.is_whole:
        return False
    moving = [
        name
        for name in team
        if any(name in index.symbols for t in (one, other) for index in (t.offset, *t.counts))
    ]
    slots = _in_each_slot(one.offset, other.offset)
    for mine in points(*(range(team[name]) for name in moving)):
        here = one.of_instance(dict(zip(moving, mine, strict=True)))
        for theirs in points(*(range(team[name]) for name in moving)):
            there = other.of_instance(dict(zip(moving, theirs, strict=True)))
            gap = there.offset - here.offset
            if not all(_is_gap(gap.substitute(slot), here, there) for slot in slots):
                return False
    return True


def _in_each_slot(*offsets: Index) -> list[dict[str, Index]]:
    """Return, for each copy of a buffer with several copies, the variables with the remainder that selects it.

    The slot of an iteration is a remainder of its number: `1024*((k + 1) % 2)`.
    """
    atoms = [atom for index in offsets for monomial, _ in index.terms for atom in monomial]
    slots = {
        (atom.value.symbols, atom.divisor.value)
        for atom in atoms
        if isinstance(atom, Mod) and atom.divisor.value is not None
    }
    names = sorted({name for symbols, _ in slots for name in symbols})
    period = lcm(*(divisor or 1 for _, divisor in slots))
    if period ** len(names) > _MOST_SLOTS:
        return [{}]
    return [
        {name: period * Index.of(name) + number for name, number in zip(names, numbers, strict=True)}
        for numbers in points(range(period), repeat=len(names))
    ]


def _is_gap(gap: Index, one: Touch, other: Touch) -> bool:
    """Return whether two boxes at this distance have no element in common."""
    if gap.value is not None:
        if step := max(one.carried, other.carried):
            return step - abs(gap.value) >= max(one.span, other.span)
        boxes = _box(one), _box(other)
        return None not in boxes and (boxes[0] or NO_PLACES).isdisjoint(
            gap.value + at for at in boxes[1] or NO_PLACES
        )
    return False


NO_PLACES: frozenset[int] = frozenset()


@lru_cache(maxsize=1024)
def _places(steps: tuple[tuple[int, int], ...]) -> frozenset[int]:
    found: frozenset[int] = frozenset((0,))
    for step, count in steps:
        found = frozenset(at + step * n for at in found for n in range(count))
    return found


def _box(touch: Touch) -> frozenset[int] | None:
    """Return the distances of a box's elements from its first one, or None if there are many."""
    counts = [count.constant for count in touch.counts]
    steps = tuple((stride.constant, n) for stride, n in zip(touch.strides, counts, strict=True))
    return _places(steps) if prod(counts) <= _MOST_POINTS else None


@dataclass(frozen=True, slots=True)
class _Since:
    """The elements that lanes have read, and those that they have written, since the last barrier."""

    read: Touches = NONE
    written: Touches = NONE

    def joined(self, other: _Since) -> _Since:
        return _Since(self.read | other.read, self.written | other.written)

    def changed(self, change: Callable[[Touch], Touch]) -> _Since:
        """Return the record with a function applied to all accesses."""
        return _Since(frozenset(map(change, self.read)), frozenset(map(change, self.written)))

    def of_all(self, variable: str, loops: Mapping[str, Index], team: Mapping[str, int]) -> _Since:
        """Return the elements that all iterations of a loop access."""
        most = most_trips(variable, loops, team)
        return self.changed(lambda touch: touch.of_all(variable, most))

    def meets(self, other: _Since, team: Mapping[str, int], loops: Mapping[str, Index]) -> bool:
        """Return whether one record writes an element that the other one accesses."""
        pairs = [(w, t) for w in other.written for t in self.read | self.written]
        pairs += [(r, w) for r in other.read for w in self.written]

        def is_apart(a: Touch, b: Touch) -> bool:
            return are_apart(_extended(a, b, loops, team), _extended(b, a, loops, team), team)

        return any(a.array == b.array and not is_apart(a, b) for a, b in pairs)


def _extended(touch: Touch, other: Touch, loops: Mapping[str, Index], team: Mapping[str, int]) -> Touch:
    """Return an access extended to all iterations of the loops around it that are not around another access."""
    for variable in sorted((touch.offset.symbols - other.offset.symbols) & loops.keys()):
        touch = touch.of_all(variable, most_trips(variable, loops, team))
    return touch


def most_trips(variable: str, loops: Mapping[str, Index], team: Mapping[str, int]) -> int | None:
    """Return the most iterations of a loop in any instance of a team, or None if no number bounds them."""
    counters = {name: Index.of(count) for name, count in team.items()}
    return largest_value(loops[variable], {**loops, **counters}).value


def with_barriers(program: lir.LoweredProgram, machine: Machine) -> Nodes:
    """Return the body of a program with the barriers that its lanes need."""
    level = bound_level(machine)
    assert level is not None, "only lanes wait for each other"
    barrier, team, loops = lir.Barrier(level.name), dict[str, int](), dict[str, Index]()
    known: dict[tuple[int, _Since], tuple[Nodes, _Since]] = {}

    def place(nodes: Nodes, since: _Since, next_nodes: Nodes = ()) -> tuple[Nodes, _Since]:
        found: list[lir.Node] = []
        earlier, branches = since, list[lir.If]()
        for number, node in enumerate(nodes, 1):
            if isinstance(node, lir.If) and branches and all(exclude(branch, node) for branch in branches):
                before, made, other = one(node, earlier, (*nodes[number:], *next_nodes))
                since = since.joined(other)
            else:
                earlier = since
                branches.clear()
                before, made, since = one(node, since, (*nodes[number:], *next_nodes))
                earlier = _Since() if before else earlier
            branches += [node] if isinstance(node, lir.If) else []
            found += [*before, made]
        return tuple(found), since

    def iterate(body: Nodes, since: _Since) -> tuple[Nodes, _Since]:  # each loop around it asks again
        return known.get((id(body), since)) or known.setdefault((id(body), since), place(body, since))

    def one(node: lir.Node, since: _Since, behind: Nodes) -> tuple[Nodes, lir.Node, _Since]:
        """Return the nodes to insert before a node, the node with barriers inside, and the accesses after it."""
        match node:
            case lir.Issue() | lir.Fill():
                return waited(node, _issued((node,), machine, loops, team), since)
            case lir.For() if (issue := _repeated_issue(node, machine)) is not None:
                own = _Since(*find_touched(issue, machine, loops, team))
                nest = [inner for inner in walk((node,)) if isinstance(inner, lir.For)]
                loops.update((loop.variable, loop.trips) for loop in nest)
                for loop in reversed(nest):
                    own = own.of_all(loop.variable, loops, team)
                return waited(node, own, since)
            case lir.Parallel(counters, body, level=str(own)) if own:
                team.update((name, trips.constant) for name, trips in counters)
                inside, after = place(body, since)
                return (), with_children(node, inside), after
            case lir.Parallel(counters, body):
                loops.update(counters)
                return (), with_children(node, place(body, _Since())[0]), _Since()
            case lir.For(counter, trips, body) | lir.WorkSlice(nth=counter, trips=trips, body=body):
                loops[counter] = trips
                carried = iterate(body, _Since())[1].changed(lambda touch: touch.of_others(counter))
                alone, after = iterate(body, carried)
                inside, left = iterate(body, carried.joined(since))
                if _barriers(inside) > _barriers(alone):  # one in front of the loop does for all iterations
                    return (barrier,), with_children(node, alone), after.of_all(counter, loops, team)
                around = left.of_all(counter, loops, team)  # a loop of no iterations changes nothing
                return (), with_children(node, inside), around if trips.value else since.joined(around)
            case lir.If(conditions, body) if any(names_of_condition(c) & team.keys() for c in conditions):
                return where(conditions, body, since)
            case lir.If(body=body):
                alone, left = place(body, _Since())
                inside, after = place(body, since)
                has_more = _barriers(inside) > _barriers(alone)
                if has_more and since.meets(_issued(behind, machine, loops, team), team, loops):
                    return (barrier,), with_children(node, alone), left  # else another one would follow
                return (), with_children(node, inside), since.joined(after)
            case _:
                inside, after = place(children(node), since, behind)
                return (), with_children(node, inside), after

    def where(
        conditions: tuple[lir.Condition, ...], body: Nodes, since: _Since
    ) -> tuple[Nodes, lir.Node, _Since]:
        """Return conditional nodes, split at barriers so that each barrier is reached by all instances."""
        found, together, own = list[lir.Node](), list[lir.Node](), _Since()
        loops.update((node.variable, node.trips) for node in walk(body) if isinstance(node, lir.For))
        for node in body:
            touches = _issued((node,), machine, loops, team)
            if own.meets(touches, team, loops):
                before, made, since = waited(lir.If(conditions, tuple(together)), own, since)
                found += [*before, made]
                together, own = [], _Since()
            together.append(node)
            own = own.joined(touches)
        before, made, since = waited(lir.If(conditions, tuple(together)), own, since)
        return (*found, *before), made, since

    def waited(node: lir.Node, own: _Since, since: _Since) -> tuple[Nodes, lir.Node, _Since]:
        return ((barrier,), node, own) if since.meets(own, team, loops) else ((), node, since.joined(own))

    found = _with_copies_in_flight(place(program.body, _Since())[0], machine)
    return with_product_groups(found, machine)


def _issued(
    nodes: tuple[lir.Node, ...], machine: Machine, loops: Mapping[str, Index], team: Mapping[str, int]
) -> _Since:
    """Return all accesses of the issues in nodes."""
    own = _Since()
    for node in walk(nodes):
        if isinstance(node, lir.Issue | lir.Fill):
            own = own.joined(_Since(*find_touched(node, machine, loops, team)))
    return own


def _with_copies_in_flight(nodes: tuple[lir.Node, ...], machine: Machine) -> tuple[lir.Node, ...]:
    """Weaken barriers at the start of iterations, so that copies for later iterations may stay in flight.

    In front of such a loop all copies arrive: those for its first iterations are no groups of their own.
    """
    found: list[lir.Node] = []
    for node in nodes:
        made = with_children(node, _with_copies_in_flight(children(node), machine))
        first = next(without_blocks(node.body), None) if isinstance(node, lir.For) else None
        groups = _groups_in_flight(node, machine) if isinstance(node, lir.For) else 0
        if isinstance(first, lir.Barrier) and groups > 0:
            found.append(first)
            made = with_children(made, _with_first(children(made), replace(first, in_flight=groups)))
        found.append(made)
    return tuple(found)


def _with_first(nodes: tuple[lir.Node, ...], barrier: lir.Barrier) -> tuple[lir.Node, ...]:
    """Return nodes whose first barrier, perhaps inside blocks, is replaced by another one."""
    first, *others = nodes
    inside = isinstance(first, lir.Block)
    return (with_children(first, _with_first(first.body, barrier)) if inside else barrier, *others)


def _groups_in_flight(loop: lir.For, machine: Machine) -> int:
    """Return for how many later iterations copies may be in flight at the start of an iteration (0: unknown).

    A copy of so many iterations ahead arrives in front of the iteration that reads its slot.
    """
    filled: dict[str, set[tuple[Index, int] | None]] = {}
    read: dict[str, set[tuple[Index, int] | None]] = {}
    for node in walk(loop.body):
        for name, ref in node.operands if isinstance(node, lir.Issue) else ():
            if isinstance(node, lir.Issue) and isinstance(ref, lir.MemoryRef):
                item = machine.instructions[node.instruction]
                role = item.instruction.operand(name).role
                if role == "in" or item.is_asynchronous:
                    of_role = read if role == "in" else filled
                    of_role.setdefault(ref.buffer, set()).add(slot_of(ref, loop.variable))
    ahead = [
        0 if fill is None or use is None or fill[1] != use[1] else (fill[0] - use[0]).mod(fill[1]).value or 0
        for buffer, fills in filled.items()
        for fill in fills
        for use in read.get(buffer, {None})
    ]
    return min(ahead, default=1) - 1


def exclude(one: lir.If, other: lir.If) -> bool:
    """Return whether conditions of two nodes contradict each other, so that at most one of the nodes runs."""
    opposite = {"<": "<=", "<=": "<"}
    return any((b, opposite.get(sign), a) in other.conditions for a, sign, b in one.conditions)


def names_of_condition(condition: lir.Condition) -> frozenset[str]:
    """Return the variables and sizes on which a condition depends."""
    left, _, right = condition
    return left.symbols | right.symbols


def _barriers(nodes: tuple[lir.Node, ...]) -> int:
    return sum(isinstance(node, lir.Barrier) for node in walk(nodes))


def _repeated_issue(loop: lir.For, machine: Machine) -> lir.Issue | None:
    """Return the only issue in a loop nest if no two iterations write the same element, else None."""
    counts: dict[str, int] = {}
    node: lir.Node = loop
    while isinstance(node, lir.For):
        if node.trips.value is None or len(node.body) != 1:
            return None
        counts[node.variable] = node.trips.value
        (node,) = node.body
    if not isinstance(node, lir.Issue):
        return None
    read, written = find_touched(node, machine)
    if {touch.array for touch in read} & {touch.array for touch in written}:
        return None
    operands, params = machine.instructions[node.instruction].instruction, dict(node.params)
    for name, ref in node.operands:
        operand = operands.operand(name)
        if operand.role == "in" or not isinstance(ref, lir.MemoryRef):
            continue
        extents = (extent.substitute(_indices(params)).value for extent in operand.shape)
        steps = [(stride.value, count) for stride, count in zip(ref.strides, extents, strict=True)]
        steps += [(_coefficient(ref.offset, name), count) for name, count in counts.items()]
        if not _is_apart(steps):
            return None
    return node


def _indices(params: Mapping[str, object]) -> dict[str, Index | int]:
    return {name: value for name, value in params.items() if isinstance(value, Index | int)}


def _coefficient(index: Index, variable: str) -> int | None:
    """Return the coefficient of a variable, or None if it occurs in a product of variables or a quotient."""
    terms = [(monomial, c) for monomial, c in index.terms if variable in Index(((monomial, 1),)).symbols]
    return terms[0][1] if len(terms) == 1 and terms[0][0] == (variable,) else None


def _is_apart(steps: list[tuple[int | None, int | None]]) -> bool:
    """Return whether different multiples of the steps, within the counts, always have different sums."""
    known = [(step, count) for step, count in steps if step is not None and count is not None]
    reached = 0
    for step, count in sorted(pair for pair in known if pair[1] > 1):
        if step <= reached:
            return False
        reached += step * (count - 1)
    return len(known) == len(steps)


# --- product groups -------------------------------------------------------------------------------------

# Close groups of asynchronous products, and wait for them where their results or their operands are used otherwise.
#
#     for k {                                        for k {
#       barrier; stage a;                              wait; barrier; stage a;
#       for k1 { v0 += wgmma(a, b) }          ->       for k1 { v0 += wgmma(a, b) } close
#     }                                              }
#     store v0                                       wait; store v0
#
# A product continues after its issue, reads memory meanwhile, and adds to registers. Products of one instruction may
# follow each other on the same registers. Other nodes wait before they access these registers, and so does a barrier,
# because lanes may overwrite the products' operands after it. Where a buffer has more copies than are filled ahead
# (`behind`), the groups of so many iterations stay in flight across the barrier at the start of an iteration.


Late = Mapping[str, str]
"""The registers to which products in flight add, each with the instruction."""


def with_product_groups(nodes: Nodes, machine: Machine) -> Nodes:
    """Return the nodes with all products closed in groups and waited for."""
    late = {name for name, item in machine.instructions.items() if is_late_product(item, machine)}
    if not any(isinstance(node, lir.Issue) and node.instruction in late for node in walk(nodes)):
        return nodes
    waiting, _ = _with_waits(nodes, {}, late, (None, 0))
    return with_closed_groups(waiting, late)[0]


def _with_waits(
    nodes: Nodes, flying: Late, late: set[str], spared: tuple[lir.Node | None, int]
) -> tuple[Nodes, Late]:
    """Return nodes with waits, and the registers to which products are still in flight at their end.

    `spared` is a barrier that some groups of products may pass in flight.
    """
    found: list[lir.Node] = []
    for node in nodes:
        match node:
            case lir.Issue(name):
                touched = {ref.value for _, ref in node.operands if isinstance(ref, lir.RegisterRef)}
                if any(flying[value] != name for value in touched & flying.keys()):
                    found.append(lir.ProductGroup(0))
                    flying = {}
                flying = {**flying, **dict.fromkeys(touched, name)} if name in late else flying
                found.append(node)
            case lir.Barrier():
                groups = spared[1] if node is spared[0] else 0
                found += [lir.ProductGroup(groups)] * bool(flying) + [node]
                flying = flying if groups else {}
            case lir.For(_, _, body):
                first = next(without_blocks(body), None), _groups_behind(node, late)
                again = _with_waits(body, flying, late, first)[1]
                inside, after = _with_waits(body, {**flying, **again}, late, first)
                found.append(with_children(node, inside))
                flying = {**flying, **after} if node.trips.value is None else after
            case lir.If(_, body):
                inside, after = _with_waits(body, flying, late, spared)
                found.append(with_children(node, inside))
                flying = {**flying, **after}
            case _:
                inside, flying = _with_waits(children(node), flying, late, spared)
                found.append(with_children(node, inside))
    return tuple(found), flying


def _groups_behind(loop: lir.For, late: set[str]) -> int:
    """Return the iterations whose products may be in flight at the start of one, each with a group of its own.

    A copy that an iteration fills is read again by the iteration that comes so many later as there are copies.
    """
    inside = [node for node in walk(loop.body) if isinstance(node, lir.Issue)]
    others = [issue for issue in inside if issue.instruction not in late]
    barriers = sum(isinstance(node, lir.Barrier) for node in walk(loop.body))
    if barriers != 1 or any(
        isinstance(ref, lir.RegisterRef) for issue in others for _, ref in issue.operands
    ):
        return 0
    gaps: list[int] = []
    for read in (ref for issue in inside if issue.instruction in late for _, ref in issue.operands):
        for fill in (ref for issue in others for _, ref in issue.operands if isinstance(ref, lir.MemoryRef)):
            if isinstance(read, lir.MemoryRef) and read.buffer == fill.buffer:
                use, made = slot_of(read, loop.variable), slot_of(fill, loop.variable)
                known = use and made and use[1] == made[1]
                gaps.append(((use[0] - made[0]).mod(use[1]).value or 1) - 1 if use and made and known else 0)
    return min(gaps, default=0)


def slot_of(ref: lir.MemoryRef, variable: str) -> tuple[Index, int] | None:
    """Return the dividend and the divisor of the remainder that selects a slot, or None if not one slot is used."""
    atoms = [atom for monomial, _ in ref.offset.terms for atom in monomial if isinstance(atom, Mod)]
    slots = [(atom.value, atom.divisor.value or 0) for atom in atoms if variable in atom.value.symbols]
    return slots[0] if len(slots) == 1 and slots[0][1] else None


def with_closed_groups(nodes: Nodes, late: set[str]) -> tuple[Nodes, bool]:
    """Return nodes with each group closed behind its last product, and whether one is left open at their end.

    A group ends where nodes wait. Loops around products alone are parts of one group.
    """
    is_open, last, found = False, 0, list[lir.Node]()
    waits = any(isinstance(node, lir.ProductGroup) for node in walk(nodes))
    for node in nodes:
        if is_open and any(isinstance(inner, lir.ProductGroup) for inner in walk((node,))):
            found.insert(last, lir.ProductGroup())
            is_open = False
        inside, leaves = with_closed_groups(children(node), late)
        found.append(with_children(node, inside))
        if leaves or (isinstance(node, lir.Issue) and node.instruction in late):
            is_open, last = True, len(found)
    if is_open and waits:
        found.insert(last, lir.ProductGroup())
    return tuple(found), is_open and not waits
