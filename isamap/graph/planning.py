"""Place the tensors between steps, and the workspaces of kernels, in one workspace.

    plan(program, {"gemm_1f": 4096})     {"t0": 0, "t1": 1024, "#3": 2048}, 6144

A tensor lives from the step that writes it to the last step that reads it. The workspace of a kernel lives as
long as its step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from isamap.graph.model_program import KernelCall, ModelProgram, TensorView, called_by, reads_of, writes_of
from isamap.graph.sizes import is_open, most_of
from isamap.graph.types import size_bytes
from isamap.machine import Machine
from isamap.machine.cache_sets import uncrowding_bytes
from isamap.machine.timings import LINE_BYTES
from isamap.plan.placement import PlacedBuffer, check_placement
from isamap.scheduler.memory.allocation import pack

# --- row distances of tensors between steps -------------------------------------------------------------


def find_pitches(program: ModelProgram, machine: Machine) -> dict[str, int]:
    """Return the row pitch of each tensor whose rows are padded. Units: bytes."""
    kept = {port.passed.tensor for port in (*program.inputs, *program.outputs)} | program.constants.keys()
    seen: dict[str, set[int]] = {}
    for step in program.steps:
        for passed in (*reads_of(step), *writes_of(step)):
            is_row = len(passed.shape) > 1 and not is_open(passed.shape[-1])
            row = size_bytes(passed.dtype, passed.shape[-1:]) if is_row else 0
            is_whole = isinstance(step, KernelCall) and not passed.is_part
            seen.setdefault(passed.tensor, set()).add(row if is_whole else 0)
    rows = {tensor: min(sizes) for tensor, sizes in seen.items() if len(sizes) == 1 and tensor not in kept}
    apart = {tensor: (row, uncrowding_bytes(row, machine)) for tensor, row in rows.items()}
    return {tensor: row + more for tensor, (row, more) in apart.items() if more}


def room_bytes(passed: TensorView, pitches: Mapping[str, int]) -> int:
    """Return the bytes that a tensor occupies."""
    pitch = pitches.get(passed.tensor)
    return size_bytes(passed.dtype, passed.shape) if pitch is None else prod(passed.shape[:-1]) * pitch


def apart_bytes(passed: TensorView, axis: int, pitches: Mapping[str, int]) -> int:
    """Return the distance of neighbours along an axis other than the last. Units: bytes."""
    if passed.strides is not None:
        return size_bytes(passed.dtype, ()) * passed.strides[axis]
    pitch, inner = pitches.get(passed.tensor), passed.shape[axis + 1 :]
    return size_bytes(passed.dtype, inner) if pitch is None else prod(inner[:-1]) * pitch


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets of tensors by name and of steps' workspaces by number, and row pitches. Units: bytes."""

    tensors: Mapping[str, int]
    steps: Mapping[int, int]
    size_bytes: int
    pitches: Mapping[str, int]


def plan(
    program: ModelProgram,
    needed: Mapping[str, int],
    pitches: Mapping[str, int],
    places: Sequence[tuple[int, int]] | None = None,
) -> MemoryPlan:
    """Return the places of all tensors between steps at their largest sizes.

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
    buffers = [PlacedBuffer(t, begin[t], end[t], sizes[t], LINE_BYTES) for t in begin if sizes[t]]
    own = {n: needed[called_by(step)] for n, step in enumerate(program.steps) if needed.get(called_by(step))}
    buffers += [PlacedBuffer(f"#{n}", *runs[n], size, LINE_BYTES) for n, size in own.items()]
    offsets = pack(buffers)
    total = max((offsets[b.name] + b.size_bytes for b in buffers), default=0)
    assert not check_placement(buffers, offsets, total), "the packer broke its rules"
    tensors = {t: offsets.get(t, 0) for t in begin}
    return MemoryPlan(tensors, {n: offsets[f"#{n}"] for n in own}, total, pitches)
