"""A lowered program walked issue by issue: what its instructions read and write of each array.

Knows nothing of the simulator and of access counts: every loop is walked to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ownership import Walk, number

from isamap.ir import Index
from isamap.lower.program import Issue, LoweredProgram, MemoryRef
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


class _Count(Walk):
    """Counts instead of remembering."""

    def __init__(self, program: LoweredProgram, machine: Machine) -> None:
        super().__init__(program, machine)
        self.buffers = {}
        self.counted = Counted()

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
