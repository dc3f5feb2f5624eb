"""Links that units share: which instruction moves over which of them."""

from __future__ import annotations

from isamap.machine.model import Link, Machine


def shared_link(machine: Machine, instruction: str) -> tuple[Link, str] | None:
    """The link that units share, over which an instruction moves, and the operand in the farther memory."""
    operands = machine.instructions[instruction].instruction.operands
    ends = {o.memory: o.name for o in operands if o.memory is not None}
    for link in machine.links:
        if link.shared and link.source_memory in ends and link.target_memory in ends:
            return link, ends[link.source_memory]
    return None
