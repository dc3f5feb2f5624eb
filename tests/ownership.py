"""A lowered program walked byte by byte, iteration by iteration: is what is read from a buffer still there?

Knows nothing of lives and packers. Each byte of each memory remembers which buffer wrote it last; a byte
that is read through another buffer, or was never written, is a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import prod

from isamap.ir import Index
from isamap.lower.program import (
    Barrier,
    Begin,
    Block,
    Configure,
    Declare,
    Fill,
    For,
    Hint,
    If,
    Issue,
    LoweredProgram,
    MemoryRef,
    Node,
    Parallel,
    ProductGroup,
    WorkSlice,
)
from isamap.machine import Machine

MOST = 20


def lost_bytes(program: LoweredProgram, machine: Machine, sizes: dict[str, int] | None = None) -> list[str]:
    """Return what is read through a buffer and was not written through it; at most 20 findings."""
    return list(Walk(program, machine).run(sizes or {}))[:MOST]


def moved_elements(program: LoweredProgram, machine: Machine) -> Counter[tuple[str, str]]:
    """(array or buffer, role of the operand) → elements that instructions read or write there."""
    walk = _Count(program, machine)
    assert list(walk.run({})) == []
    return walk.moved


class Walk:
    def __init__(self, program: LoweredProgram, machine: Machine) -> None:
        self.program, self.machine = program, machine
        self.buffers = {b.name: b for b in program.buffers}
        self.wrote: dict[tuple[str, int], str] = {}
        self.shares: dict[str, int] = {}
        self.done: dict[str, int] = {}

    def run(self, sizes: dict[str, int]) -> Iterator[str]:
        yield from self.nodes(self.program.body, {**dict(self.program.sizes), **sizes})

    def nodes(self, nodes: tuple[Node, ...], at: dict[str, int]) -> Iterator[str]:
        for node in nodes:
            match node:
                case For(variable, trips, body):
                    for iteration in range(number(trips, at)):
                        yield from self.nodes(body, at | {variable: iteration})
                case If(conditions, body):
                    if all(holds(number(a, at), how, number(b, at)) for a, how, b in conditions):
                        yield from self.nodes(body, at)
                case Block(_, body):
                    yield from self.nodes(body, at)
                case Fill(buffer, offset, elements):
                    first = number(offset, at)
                    self.write(buffer, range(first, first + number(elements, at)))
                case Issue():
                    yield from self.issue(node, at)
                case Parallel(counters, body):
                    for turns in product(*(range(number(trips, at)) for _, trips in counters)):
                        names = (name for name, _ in counters)
                        yield from self.nodes(body, at | dict(zip(names, turns, strict=True)))
                case Begin(work):
                    self.shares[work], self.done[work] = 0, 0
                case WorkSlice():
                    yield from self.share(node, at)
                case Configure(instruction):
                    self.configure(instruction)
                case Declare() | Hint() | Barrier() | ProductGroup():
                    pass

    def configure(self, instruction: str) -> None:
        """Loading and releasing a configuration move no elements."""

    def share(self, node: WorkSlice, at: dict[str, int]) -> Iterator[str]:
        """Yield the pieces from where the share before ended, as many as fall to as many shares."""
        pieces: list[tuple[tuple[Node, ...], dict[str, int]]] = []
        for part, depth in zip(node.body, node.depths, strict=True):
            counted = [((part,), dict[str, int]())]
            for _ in range(depth):
                loops = [(loop, turns) for (loop,), turns in counted if isinstance(loop, For)]
                counted = [
                    (loop.body, turns | {loop.variable: iteration})
                    for loop, turns in loops
                    for iteration in range(number(loop.trips, at | turns))
                ]
            pieces += counted
        self.shares[node.work] += 1
        end = min(len(pieces), self.shares[node.work] * len(pieces) // number(node.trips, at))
        for body, turns in pieces[self.done[node.work] : end]:
            yield from self.nodes(body, at | turns)
        self.done[node.work] = end

    def issue(self, node: Issue, at: dict[str, int]) -> Iterator[str]:
        instruction = self.machine.instructions[node.instruction].instruction
        params = {n: number(v, at) if isinstance(v, Index) else v for n, v in node.params}
        numbers = {n: v for n, v in params.items() if isinstance(v, int)}
        refs = [
            (instruction.operand(name), ref)
            for name, ref in node.operands
            if isinstance(ref, MemoryRef) and ref.buffer in self.buffers
        ]
        touched = [
            (operand, ref, self.elements(ref, [s.substitute(numbers).value or 0 for s in operand.shape], at))
            for operand, ref in refs
        ]
        for operand, ref, elements in touched:
            if operand.role != "out":
                yield from self.read(node.instruction, ref.buffer, elements)
        for operand, ref, elements in touched:
            if operand.role != "in":
                self.write(ref.buffer, elements)

    def elements(self, ref: MemoryRef, shape: list[int], at: dict[str, int]) -> list[int]:
        start = number(ref.offset, at)
        strides = [number(s, at) for s in ref.strides] or [0] * len(shape)
        return [
            start + sum(i * s for i, s in zip(point, strides, strict=True))
            for point in product(*(range(n) for n in shape))
        ]

    def write(self, name: str, elements: list[int] | range) -> None:
        for byte in self.bytes(name, elements):
            self.wrote[byte] = name

    def read(self, instruction: str, name: str, elements: list[int]) -> Iterator[str]:
        for byte in self.bytes(name, elements):
            if self.wrote.get(byte) != name:
                writer = self.wrote.get(byte, "no operand")
                yield f"{instruction} reads byte {byte[1]} of {name}: {writer} wrote it"

    def bytes(self, name: str, elements: list[int] | range) -> Iterator[tuple[str, int]]:
        buffer = self.buffers[name]
        assert buffer.offset is not None, "programs of known sizes have offsets"
        size = buffer.dtype.size_bytes
        for element in elements:
            start = buffer.offset + element * size
            yield from ((buffer.memory, byte) for byte in range(start, start + size))


class _Count(Walk):
    """Counts instead of remembering."""

    def __init__(self, program: LoweredProgram, machine: Machine) -> None:
        super().__init__(program, machine)
        self.buffers = {}
        self.moved: Counter[tuple[str, str]] = Counter()

    def issue(self, node: Issue, at: dict[str, int]) -> Iterator[str]:
        instruction = self.machine.instructions[node.instruction].instruction
        params = {n: number(v, at) if isinstance(v, Index) else v for n, v in node.params}
        numbers = {n: v for n, v in params.items() if isinstance(v, int)}
        for name, ref in node.operands:
            if isinstance(ref, MemoryRef):
                operand = instruction.operand(name)
                size = prod(s.substitute(numbers).value or 0 for s in operand.shape)
                self.moved[ref.buffer, operand.role] += size
        return iter(())


def number(index: Index | int, at: dict[str, int]) -> int:
    return index if isinstance(index, int) else index.evaluate(at)


def holds(left: int, how: str, right: int) -> bool:
    return {"<": left < right, "<=": left <= right, "==": left == right}[how]
