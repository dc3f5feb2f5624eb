"""A lowered program walked issue by issue: what its instructions read and write of each array.

Knows nothing of the simulator and of access counts: every loop is walked to its end. A body that was walked
with the same values of all symbols that its counts depend on is counted from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ownership import Walk, number

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


@dataclass
class Counted:
    """What a call moves. Units: `moved` bytes by (instruction, array, whether they are written)."""

    issues: Counter[str] = field(default_factory=Counter[str])
    moved: Counter[tuple[str, str, bool]] = field(default_factory=Counter[tuple[str, str, bool]])


def count_program(program: LoweredProgram, machine: Machine) -> Counted:
    walk = _Count(program, machine)
    assert list(walk.run({})) == []
    return walk.counted


def symbols_of_counts(nodes: tuple[Node, ...]) -> frozenset[str] | None:
    """Return the symbols that say how much nodes move; None where that depends on the shares done before."""
    found: set[str] = set()
    for node in nodes:
        body, bound = (), frozenset[str]()
        match node:
            case Begin() | WorkSlice():
                return None
            case For(variable, trips, body):
                found |= trips.symbols
                bound = frozenset({variable})
            case Parallel(counters, body):
                found |= {symbol for _, trips in counters for symbol in trips.symbols}
                bound = frozenset(name for name, _ in counters)
            case If(conditions, body):
                found |= {symbol for a, _, b in conditions for symbol in (*a.symbols, *b.symbols)}
            case Block(_, body):
                pass
            case Issue():
                found |= {symbol for _, v in node.params if isinstance(v, Index) for symbol in v.symbols}
            case Fill() | Configure() | Declare() | Hint() | Barrier() | ProductGroup():
                pass
        inside = symbols_of_counts(body)
        if inside is None:
            return None
        found |= inside - bound
    return frozenset(found)


class _Count(Walk):
    """Counts instead of remembering."""

    def __init__(self, program: LoweredProgram, machine: Machine) -> None:
        super().__init__(program, machine)
        self.buffers = {}
        self.counted = Counted()
        self.known: dict[tuple[int, tuple[int, ...]], Counted] = {}
        self.mentioned: dict[int, tuple[tuple[Node, ...], frozenset[str] | None]] = {}
        """By identity, which lasts as long as the nodes: so they are kept as well."""

    def nodes(self, nodes: tuple[Node, ...], at: dict[str, int]) -> Iterator[str]:
        if id(nodes) not in self.mentioned:
            self.mentioned[id(nodes)] = nodes, symbols_of_counts(nodes)
        _, mentioned = self.mentioned[id(nodes)]
        if mentioned is None:
            yield from super().nodes(nodes, at)
            return
        key = id(nodes), tuple(at[name] for name in sorted(mentioned))
        if key not in self.known:
            before, self.counted = self.counted, Counted()
            yield from super().nodes(nodes, at)
            self.known[key], self.counted = self.counted, before
        self.counted.issues.update(self.known[key].issues)
        self.counted.moved.update(self.known[key].moved)

    def write(self, name: str, elements: list[int] | range) -> None:
        """Main memory is filled by the language that is emitted, not by an instruction."""

    def configure(self, instruction: str) -> None:
        self.counted.issues[instruction] += 1

    def issue(self, node: Issue, at: dict[str, int]) -> Iterator[str]:
        instruction = self.machine.instructions[node.instruction].instruction
        params = {n: number(v, at) for n, v in node.params if isinstance(v, int | Index)}
        self.counted.issues[node.instruction] += 1
        for name, ref in node.operands:
            if isinstance(ref, MemoryRef):
                operand = instruction.operand(name)
                size = operand.dtype.size_bytes * prod(s.evaluate(params) for s in operand.shape)
                for is_written, other in ((False, "out"), (True, "in")):
                    if operand.role != other:
                        self.counted.moved[node.instruction, ref.buffer, is_written] += size
        return iter(())
