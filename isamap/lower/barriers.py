"""Insert barriers between lanes that write an element and lanes that read it, and check that none is missing.

    stage a { … a_tiles0 … }                  stage a { … a_tiles0 … }
    for k { v1 = load a_tiles0 }      ->      for k { barrier; v1 = load a_tiles0 }

A barrier precedes an issue that reads an array written since the last barrier, or writes an array accessed
since then. A loop that carries such accesses between iterations counts as two iterations. All writes of one
parallel loop are complete before the next one begins.

`check_barriers` shares no code with `with_barriers`: it follows the program in the order in which it runs,
the body of each loop twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product as points
from math import prod

from isamap.ir import Index
from isamap.lower.program import (
    Barrier,
    Begin,
    Fill,
    For,
    If,
    Issue,
    LoweredProgram,
    MemoryRef,
    Node,
    Parallel,
    Share,
)
from isamap.lower.walk import children, walk, with_children
from isamap.machine import Machine
from isamap.source.records import dataclass

Arrays = frozenset[str]
NONE: Arrays = frozenset()
_MOST_POINTS = 1 << 16


def touched_arrays(node: Issue | Fill, machine: Machine) -> tuple[Arrays, Arrays]:
    """Return the arrays that the lanes of a block read, and those that they write, in one issue."""
    if isinstance(node, Fill):
        return NONE, frozenset((node.buffer,))
    operands = machine.instructions[node.instruction].instruction
    refs = [(operands.operand(o), ref.buffer) for o, ref in node.operands if isinstance(ref, MemoryRef)]
    return (
        frozenset(buffer for operand, buffer in refs if operand.role != "out"),
        frozenset(buffer for operand, buffer in refs if operand.role != "in"),
    )


@dataclass(frozen=True, slots=True)
class _Since:
    """The arrays that lanes have read and written since all of them waited for each other."""

    read: Arrays = NONE
    written: Arrays = NONE

    def joined(self, other: _Since) -> _Since:
        return _Since(self.read | other.read, self.written | other.written)


def with_barriers(program: LoweredProgram, machine: Machine) -> tuple[Node, ...]:
    """Return the body of a program in which lanes wait for each other before they need it."""
    barrier = Barrier(machine.levels[-2].name)

    def placed(nodes: tuple[Node, ...], since: _Since) -> tuple[tuple[Node, ...], _Since]:
        found: list[Node] = []
        for node in nodes:
            before, made, since = one(node, since)
            found += [*before, made]
        return tuple(found), since

    def one(node: Node, since: _Since) -> tuple[tuple[Node, ...], Node, _Since]:
        """Return the nodes before a node, the node with barriers inside, and the accesses after it."""
        match node:
            case Issue() | Fill():
                return touched(node, node, since)
            case For() if (issue := _repeated(node, machine)) is not None:
                return touched(node, issue, since)
            case Parallel(body=body):
                return (), with_children(node, placed(body, _Since())[0]), _Since()
            case For(body=body) | Share(body=body):
                carried = placed(body, _Since())[1]
                alone, after = placed(body, carried)
                inside, behind = placed(body, carried.joined(since))
                if _barriers(inside) > _barriers(alone):  # one in front of the loop does for all iterations
                    return (barrier,), with_children(node, alone), after
                return (), with_children(node, inside), since.joined(behind)
            case If(body=body):
                inside, after = placed(body, since)
                return (), with_children(node, inside), since.joined(after)
            case _:
                inside, after = placed(children(node), since)
                return (), with_children(node, inside), after

    def touched(node: Node, issue: Issue | Fill, since: _Since) -> tuple[tuple[Node, ...], Node, _Since]:
        read, written = touched_arrays(issue, machine)
        if read & since.written or written & (since.read | since.written):
            return (barrier,), node, _Since(read, written)
        return (), node, since.joined(_Since(read, written))

    return placed(program.body, _Since())[0]


def _barriers(nodes: tuple[Node, ...]) -> int:
    return sum(isinstance(node, Barrier) for node in walk(nodes))


def _repeated(loop: For, machine: Machine) -> Issue | None:
    """Return the issue that a loop nest repeats, if no two of its iterations write the same element."""
    counts: dict[str, int] = {}
    node: Node = loop
    while isinstance(node, For):
        if node.trips.value is None or len(node.body) != 1:
            return None
        counts[node.variable] = node.trips.value
        (node,) = node.body
    if not isinstance(node, Issue):
        return None
    read, written = touched_arrays(node, machine)
    if read & written:
        return None
    operands, params = machine.instructions[node.instruction].instruction, dict(node.params)
    for name, ref in node.operands:
        operand = operands.operand(name)
        if operand.role == "in" or not isinstance(ref, MemoryRef):
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
    """Return the coefficient of a variable; None if it occurs in a product of variables or in a quotient."""
    terms = [(monomial, c) for monomial, c in index.terms if variable in Index(((monomial, 1),)).symbols]
    return terms[0][1] if len(terms) == 1 and terms[0][0] == (variable,) else None


def _is_apart(steps: list[tuple[int | None, int | None]]) -> bool:
    """Return whether the sums of multiples of the steps, up to these counts, are all different."""
    known = [(step, count) for step, count in steps if step is not None and count is not None]
    reached = 0
    for step, count in sorted(pair for pair in known if pair[1] > 1):
        if step <= reached:
            return False
        reached += step * (count - 1)
    return len(known) == len(steps)


def check_barriers(program: LoweredProgram, machine: Machine) -> tuple[str, ...]:
    """Return the races between lanes, and the barriers that not all lanes may reach together."""
    return tuple(dict.fromkeys(_Walk(machine).said(program.body)))


class _Walk:
    """One way through a program; `last` is, for each array, which accesses no barrier has ended."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.levels = {level.name for level in machine.levels[1:-1]}
        self.last: dict[str, set[str]] = {}

    def said(self, nodes: tuple[Node, ...]) -> Iterator[str]:
        for node in nodes:
            match node:
                case Barrier(level):
                    if level not in self.levels:
                        yield f"a barrier is of {level}, which is no level whose lanes may wait for each other"
                    self.last.clear()
                case Issue(name, operands):
                    roles = {o.name: o.role for o in self.machine.instructions[name].instruction.operands}
                    yield from self.touch(
                        name, [(r.buffer, roles[o]) for o, r in operands if isinstance(r, MemoryRef)]
                    )
                case Fill(buffer):
                    yield from self.touch("a fill", [(buffer, "out")])
                case Parallel(_, body):
                    self.last.clear()
                    yield from self.said(body)
                    self.last.clear()
                case For(_, _, body) | Share(body=body):
                    yield from self.said(body)
                    if not (isinstance(node, For) and self.writes_apart(node)):
                        yield from self.said(body)
                case If(_, body):
                    # A barrier inside may be left out, and ends nothing behind it.
                    before = {array: set(kinds) for array, kinds in self.last.items()}
                    yield from self.said(body)
                    for array, kinds in before.items():
                        self.last.setdefault(array, set()).update(kinds)
                case Begin(work):
                    yield f"{work} is dealt to iterations, and lanes have no order of these"
                case _:
                    yield from self.said(children(node))

    def writes_apart(self, loop: For) -> bool:
        """Return whether a nest of loops around one issue writes each element once, by its addresses."""
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

    def touch(self, name: str, accesses: list[tuple[str, str]]) -> Iterator[str]:
        for array, role in accesses:
            kinds = self.last.get(array, set[str]())
            if "written" in kinds:
                yield f"{name} touches {array}, which lanes have written, and no barrier stands between"
            elif role != "in" and "read" in kinds:
                yield f"{name} writes {array}, which lanes have read, and no barrier stands between"
        for array, role in accesses:
            here = self.last.setdefault(array, set())
            here |= ({"read"} if role != "out" else set()) | ({"written"} if role != "in" else set())
