"""Which values compilers have to be told of, so that vectors stay in the registers that a schedule gave them.

    v27 = _mm512_loadu_ps(b);               b is read once, as the schedule has it,
    READ_ONCE(v27);
    v0 = _mm512_fmadd_ps(v24, v27, v0);     and not by each of these,
    v9 = _mm512_fmadd_ps(v25, v27, v9);     whose sums stay where they are
    LAST_USE(v27, v9);

Gcc takes an operand out of memory in two or three instructions to be cheaper than a register, where registers
are few: three rows by nine vectors of sums then take 30 loads an iteration, not twelve. It can do so with
what lies in memory as it is used alone: a number that is broadcast needs no keeping, and is copied from
register to register where it is kept all the same.

Where sums go in and out in the same straight line, as where a few rows out of memory are followed to their
ends, two or three instructions may each read: what waits for memory then takes no register, and more of it is
under way (docs/decisions/0027-emitted-c-and-gcc.md).

An instruction that adds to a register may as well end in that of an operand which is not used again. Gcc lets
sums wander so, and brings them back over the stack at the end of an iteration. What is used once more, by
nothing, cannot be overwritten (docs/decisions/0027-emitted-c-and-gcc.md).

    v0 = _mm256_dpbusd_epi32(v0, v24, v27);
    ONE_SUM(v0);

C has one type for vectors of integers, gcc one for each width of their elements: a sum is made in one, kept
in the other, and either is used behind the loop. Both are live then, and half of them on the stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from isamap.ir import Operand
from isamap.lower.program import Declare, Issue, MemoryRef, Node, RegisterRef
from isamap.machine import Machine

# Vectors that so many issues read may as well be read by each, where no loop over the sum is inside.
READ_BY_EACH = 3


def shared(body: tuple[Node, ...], machine: Machine) -> frozenset[str]:
    """The values that several issues of a body use; not those that may as well be read by each of them."""
    uses: Counter[str] = Counter()
    for node in body:
        if isinstance(node, Issue):
            used = (_register(node, o) for o in _operands(node, machine) if o.role != "out")
            uses.update(value for value in used if value is not None)
    again = _read_by_each(body, uses, machine)
    return frozenset(value for value, count in uses.items() if count > 1 and value not in again)


def _read_by_each(body: tuple[Node, ...], uses: Mapping[str, int], machine: Machine) -> frozenset[str]:
    """The vectors that two or three issues read whose sums all begin and end in the body."""
    issues = [node for node in body if isinstance(node, Issue)]
    own = {value.name for node in body if isinstance(node, Declare) for value in node.values}
    sums = [added_to(issue, machine) for issue in issues]
    if any(value is not None and value not in own for value in sums) or not any(sums):
        return frozenset()
    read = (read_as_it_lies(issue, machine) for issue in issues)
    return frozenset(value for value in read if value is not None and 1 < uses[value] <= READ_BY_EACH)


def last_uses(body: tuple[Node, ...], machine: Machine) -> dict[str, int]:
    """Where in a body its issues only read for the last time what several of them use."""
    several, found = shared(body, machine), dict[str, int]()
    for place, node in enumerate(body):
        if isinstance(node, Issue):
            read = (_register(node, o) for o in _operands(node, machine) if o.role == "in" and o.shape)
            found |= {value: place for value in read if value in several}
    return found


def added_to(issue: Issue, machine: Machine) -> str | None:
    """The value that an issue reads and writes; None without one."""
    sums = (_register(issue, o) for o in _operands(issue, machine) if o.role == "inout" and o.shape)
    return next((value for value in sums if value is not None), None)


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
