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

from isamap.ir import Operand
from isamap.lower.program import Issue, MemoryRef, Node, RegisterRef
from isamap.machine import Machine


def shared(body: tuple[Node, ...], machine: Machine) -> frozenset[str]:
    """The values that several issues of a body use."""
    uses: Counter[str] = Counter()
    for node in body:
        if isinstance(node, Issue):
            used = (_register(node, o) for o in _operands(node, machine) if o.role != "out")
            uses.update(value for value in used if value is not None)
    return frozenset(value for value, count in uses.items() if count > 1)


def read_as_it_lies(issue: Issue, machine: Machine) -> str | None:
    """The value that an issue reads from memory, with as many elements as it has there; None without one."""
    refs, operands = dict(issue.operands), _operands(issue, machine)
    read = [o.shape for o in operands if o.role == "in" and isinstance(refs[o.name], MemoryRef)]
    made = [o for o in operands if o.role == "out" and o.shape and o.shape in read]
    return _register(issue, made[0]) if made else None


def _operands(issue: Issue, machine: Machine) -> tuple[Operand, ...]:
    return machine.instructions[issue.instruction].instruction.operands


def _register(issue: Issue, operand: Operand) -> str | None:
    """The value that an operand is; None of one in memory."""
    ref = dict(issue.operands)[operand.name]
    return ref.value if isinstance(ref, RegisterRef) else None
