"""Pack the workspace of a program: lifetimes from the program, offsets from the packer, checked separately.

Behind it the whole program is judged, before code is emitted from it.
"""

from __future__ import annotations

from isamap.lower.lifetimes import exact_bytes, place_buffers, scratch_buffers, workspace_buffers
from isamap.lower.passes import PASSES, Pass, ProgramPass
from isamap.lower.program import LoweredProgram
from isamap.lower.touched import check_touched
from isamap.machine import Machine
from isamap.plan.placement import check_placement
from isamap.source import UsageProblem, replace

MOST_OF_A_SIZE = 4096  # of sizes that only the run knows, where a program is judged


def finish_program(program: LoweredProgram, machine: Machine) -> LoweredProgram:
    """Return the program ready for emission, after a check that it accesses only its tensors and buffers."""
    # Sets of sizes near the least and the largest that a caller may give.
    found: list[dict[str, int]] = []
    for from_low, away in ((True, 0), (True, 1), (False, 1), (False, 0)):
        chosen: dict[str, int] = {}
        for name, low, high in program.symbols:
            most = min(high, max(low, MOST_OF_A_SIZE))
            chosen[name] = min(low + away, most) if from_low else max(most - away, low)
        found.append(chosen)
    outside = check_touched(program, machine, [some for n, some in enumerate(found) if some not in found[:n]])
    assert not outside, f"lowering broke its rules: {outside[0]}"
    return program


def pack_workspace(program: LoweredProgram, machine: Machine) -> LoweredProgram:
    """Return the program with offsets for its buffers. Buffers with disjoint lifetimes may share bytes.

    The programs that pack its operands get offsets as well.
    """
    from isamap.scheduler.memory.allocation import pack

    buffers = workspace_buffers(program, machine)
    offsets = pack(buffers)
    whole = sum(b.size_bytes for b in buffers)
    findings = check_placement(buffers, offsets, whole)
    assert not findings, f"the packer broke its rules: {findings}"
    _check_scratchpads(program, machine)
    packs = tuple(pack_workspace(pack, machine) for pack in program.packs)
    return replace(place_buffers(program, buffers, offsets), packs=packs)


def _check_scratchpads(program: LoweredProgram, machine: Machine) -> None:
    """Check a schedule's scratchpad addresses against the lowered buffers. Raises: UsageProblem."""
    for memory in sorted({b.memory for b in program.buffers if b.memory}):
        buffers = [b for b in program.buffers if b.memory == memory]
        for buffer in buffers:
            if exact_bytes(buffer) is None:
                raise UsageProblem.of(
                    "scratchpad-open-size",
                    f"`{buffer.name}` in `{memory}` has {buffer.elements} elements: how many "
                    "is known only at run time",
                    help="give the sizes as numbers, or stage inside loops that cut them",
                )
        capacity = machine.memories[memory].capacity_bytes or 0
        findings = check_placement(
            scratch_buffers(program, machine, memory), {b.name: b.offset or 0 for b in buffers}, capacity
        )
        if findings:
            raise UsageProblem(*findings)


ALL_PASSES: tuple[Pass, ...] = (
    *PASSES,
    ProgramPass("workspace", lambda program, setting: pack_workspace(program, setting.machine)),
)
"""The passes of lowering; the last one calls the scheduler, and is therefore added here."""
