"""Registers that an issue needs for a moment, beside those of its operands.

emit: c = _mm256_add_epi32(c, _mm256_madd_epi16(a, b))     the product waits while c is still there: one
emit: z = _mm256_broadcastd_epi32(_mm_loadu_si32(a.addr))  what is loaded waits in z: none
"""

from __future__ import annotations

from typing import assert_never

from isamap.machine.model import EmitCall, EmitNothing, EmitSemantics, Machine, MachineInstruction


def held_between(item: MachineInstruction, machine: Machine) -> tuple[tuple[str, int], ...]:
    """How many results of calls that are arguments wait at a time, by the memory of what the last one writes.

    A register that is only written takes one of them meanwhile. Nothing where no call has another one in it.
    """
    match item.emit:
        case EmitCall(result=str(name), held=held):
            result = item.instruction.operand(name)
        case EmitCall() | EmitSemantics() | EmitNothing():
            return ()
        case _:
            assert_never(item.emit)
    count = held - (result.role == "out")
    assert result.memory is not None, "operands of instructions live somewhere"
    assert machine.memories[result.memory].named == "compiler", "the result of a call is a C value"
    return ((result.memory, count),) if count > 0 else ()
