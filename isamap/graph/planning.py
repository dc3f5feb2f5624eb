"""Place the tensors between steps, and the workspaces of kernels, in one workspace.

    plan(program, {"gemm_1f": 4096})     {"t0": 0, "t1": 1024, "#3": 2048}, 6144

A tensor lives from the step that writes it to the last step that reads it. The workspace of a kernel lives as
long as its step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isamap.graph.model_program import Program, called_by, reads_of, writes_of
from isamap.graph.pitches import room_bytes
from isamap.graph.sizes import most_of
from isamap.plan.placement import Buffer, check_placement
from isamap.scheduler.memory.allocation import pack

LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets of tensors by name and of steps' own workspaces by number, distances of rows. Units: bytes."""

    tensors: Mapping[str, int]
    steps: Mapping[int, int]
    size_bytes: int
    pitches: Mapping[str, int]


def plan(
    program: Program,
    needed: Mapping[str, int],
    pitches: Mapping[str, int],
    places: Sequence[tuple[int, int]] | None = None,
) -> Plan:
    """Return the places of all tensors between steps, at their largest sizes.

    `needed` are the workspaces of kernels, and of steps with bodies, by name. `pitches` are the distances of
    rows by tensor, if they are not dense (pitches.py). `places` are the start and the end of each step, if
    they do not run in sequence.
    """
    runs = places or [(n, n + 1) for n in range(len(program.steps))]
    outside = {port.passed.tensor for port in (*program.inputs, *program.outputs)} | program.constants.keys()
    begin: dict[str, int] = {}
    end: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for (first, behind), step in zip(runs, program.steps, strict=True):
        for passed in (*reads_of(step), *writes_of(step)):
            if passed.tensor not in outside:
                begin.setdefault(passed.tensor, first)
                end[passed.tensor] = behind
        sizes |= {p.tensor: most_of(room_bytes(p, pitches)) for p in writes_of(step)}
    end |= {size.tensor: max(behind for _, behind in runs) for size in program.counts}
    buffers = [Buffer(t, begin[t], end[t], sizes[t], LINE_BYTES) for t in begin if sizes[t]]
    own = {n: needed[called_by(step)] for n, step in enumerate(program.steps) if needed.get(called_by(step))}
    buffers += [Buffer(f"#{n}", *runs[n], size, LINE_BYTES) for n, size in own.items()]
    offsets = pack(buffers)
    total = max((offsets[b.name] + b.size_bytes for b in buffers), default=0)
    assert not check_placement(buffers, offsets, total), "the packer broke its rules"
    tensors = {t: offsets.get(t, 0) for t in begin}
    return Plan(tensors, {n: offsets[f"#{n}"] for n in own}, total, pitches)
