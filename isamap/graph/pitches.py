"""Choose row distances of tensors between steps, with one line of padding where rows would share cache sets.

    f32[1, 7, 7, 512] on a cache whose ways hold 4096 bytes      2112 bytes from row to row, not 2048

A convolution reads several rows together. If their distance divides the size of a cache way, they map to
the same sets and evict each other (docs/decisions/0068-rows-of-models.md). Kernels take the distance from
their caller, so that it costs them nothing. Moves, views of other rows, and the caller's own arrays keep
dense rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from isamap.graph.model_program import Call, Passed, Program, reads_of, writes_of
from isamap.graph.sizes import is_open
from isamap.graph.types import size_bytes
from isamap.machine import Machine
from isamap.machine.cache_sets import uncrowding_bytes


def find_pitches(program: Program, machine: Machine) -> dict[str, int]:
    """Return the distance of rows by tensor, for those whose rows are moved apart. Units: bytes."""
    kept = {port.passed.tensor for port in (*program.inputs, *program.outputs)} | program.constants.keys()
    seen: dict[str, set[int]] = {}
    for step in program.steps:
        for passed in (*reads_of(step), *writes_of(step)):
            is_row = len(passed.shape) > 1 and not is_open(passed.shape[-1])
            row = size_bytes(passed.dtype, passed.shape[-1:]) if is_row else 0
            is_whole = isinstance(step, Call) and not passed.is_part
            seen.setdefault(passed.tensor, set()).add(row if is_whole else 0)
    rows = {tensor: min(sizes) for tensor, sizes in seen.items() if len(sizes) == 1 and tensor not in kept}
    apart = {tensor: (row, uncrowding_bytes(row, machine)) for tensor, row in rows.items()}
    return {tensor: row + more for tensor, (row, more) in apart.items() if more}


def room_bytes(passed: Passed, pitches: Mapping[str, int]) -> int:
    """Return how many bytes a tensor takes."""
    pitch = pitches.get(passed.tensor)
    return size_bytes(passed.dtype, passed.shape) if pitch is None else prod(passed.shape[:-1]) * pitch


def apart_bytes(passed: Passed, axis: int, pitches: Mapping[str, int]) -> int:
    """Return how far elements lie apart that are neighbours along an axis other than the last."""
    if passed.strides is not None:
        return size_bytes(passed.dtype, ()) * passed.strides[axis]
    pitch, inner = pitches.get(passed.tensor), passed.shape[axis + 1 :]
    return size_bytes(passed.dtype, inner) if pitch is None else prod(inner[:-1]) * pitch
