"""Which values have to be kept from being read again by compilers.

    v27 = _mm512_loadu_ps(b);               b is read once, as the schedule has it,
    v0 = _mm512_fmadd_ps(v24, v27, v0);     and not by each of these
    v9 = _mm512_fmadd_ps(v25, v27, v9);

Gcc takes an operand out of memory in two or three instructions to be cheaper than a register, where registers
are few: three rows by nine vectors of sums then take 30 loads a turn, not twelve. It can do so with what lies
in memory as it is used alone: a number that is broadcast needs no keeping, and is copied from register to
register where it is kept all the same (docs/decisions/0027-read-once.md).
"""

from __future__ import annotations

from collections import Counter

from isamap.lower.program import Issue, MemoryRef, Node, RegisterRef
from isamap.machine import Machine


def read_once(body: tuple[Node, ...], machine: Machine) -> frozenset[str]:
    """The values that an issue of the body reads from memory as they are, and that several issues use."""
    loaded: set[str] = set()
    uses: Counter[str] = Counter()
    for node in body:
        if isinstance(node, Issue):
            instruction = machine.instructions[node.instruction].instruction
            roles = {operand.name: operand.role for operand in instruction.operands}
            shapes = {operand.name: operand.shape for operand in instruction.operands}
            read = [shapes[name] for name, ref in node.operands if isinstance(ref, MemoryRef)]
            for name, ref in node.operands:
                if isinstance(ref, RegisterRef):
                    if roles[name] != "out":
                        uses[ref.value] += 1
                    elif shapes[name] in read:
                        loaded.add(ref.value)
    return frozenset(value for value in loaded if uses[value] > 1)
