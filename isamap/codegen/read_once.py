"""Which values have to be kept from being read again by compilers.

    v27 = _mm512_loadu_ps(b);               b is read once, as the schedule has it,
    v0 = _mm512_fmadd_ps(v24, v27, v0);     and not by each of these
    v9 = _mm512_fmadd_ps(v25, v27, v9);

Gcc takes an operand out of memory in two or three instructions to be cheaper than a register, where registers
are few: three rows by nine vectors of sums then take 30 loads a turn, not twelve
(docs/decisions/0027-read-once.md).
"""

from __future__ import annotations

from collections import Counter

from isamap.lower.program import Issue, MemoryRef, Node, RegisterRef
from isamap.machine import Machine


def read_once(body: tuple[Node, ...], machine: Machine) -> frozenset[str]:
    """The values that an issue of the body reads from memory, and that more than one issue of it uses."""
    loaded: set[str] = set()
    uses: Counter[str] = Counter()
    for node in body:
        if isinstance(node, Issue):
            instruction = machine.instructions[node.instruction].instruction
            roles = {operand.name: operand.role for operand in instruction.operands}
            reads = any(isinstance(ref, MemoryRef) and roles[name] == "in" for name, ref in node.operands)
            for name, ref in node.operands:
                if isinstance(ref, RegisterRef):
                    if roles[name] != "out":
                        uses[ref.value] += 1
                    elif reads:
                        loaded.add(ref.value)
    return frozenset(value for value in loaded if uses[value] > 1)
