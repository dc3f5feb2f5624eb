"""The workspace of a program packed: lives from the program, offsets from the packer, judged by neither."""

from __future__ import annotations

from isamap.lower.program import LoweredProgram
from isamap.lower.workspace import place_buffers, workspace_buffers
from isamap.machine import Machine
from isamap.plan.memory import check_placement


def pack_workspace(program: LoweredProgram, machine: Machine) -> LoweredProgram:
    """The program with offsets for its buffers; those that never live at one time may share bytes."""
    from isamap.scheduler.workspace import pack

    buffers = workspace_buffers(program, machine)
    offsets = pack(buffers)
    whole = sum(b.size_bytes for b in buffers)
    findings = check_placement(buffers, offsets, whole)
    assert not findings, f"the packer broke its rules: {findings}"
    return place_buffers(program, buffers, offsets)
