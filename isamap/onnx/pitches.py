"""How far rows of a tensor lie apart between steps: a line further where they would share a few cache sets.

    f32[1, 7, 7, 512] on a cache whose ways hold 4096 bytes      2112 bytes from row to row, not 2048

A convolution reads rows side by side. Where their distance divides what a way holds, they fall into the same
sets and evict each other (docs/decisions/0068-rows-of-models.md). Kernels take the distance from their
caller, so that it costs them nothing; moves, views of other rows, and what the caller of the model owns keep
dense rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod

from isamap.ir import Index
from isamap.machine import Machine
from isamap.machine.model import caches_from_nearest, line_bytes
from isamap.onnx.program import Call, Passed, Program, reads_of, writes_of
from isamap.onnx.types import size_bytes

FEW_PLACES = 4
"""Rows that begin at no more different places of a way than these crowd it."""


def find_pitches(program: Program, machine: Machine) -> dict[str, int]:
    """The distance of rows by tensor, for those whose rows are moved apart. Units: bytes."""
    way, line = _way_bytes(machine), line_bytes(machine)
    if not way or not line:
        return {}
    kept = {port.passed.tensor for port in (*program.inputs, *program.outputs)} | program.constants.keys()
    seen: dict[str, set[int]] = {}
    for step in program.steps:
        for passed in (*reads_of(step), *writes_of(step)):
            row = size_bytes(passed.dtype, passed.shape[-1:]) if len(passed.shape) > 1 else 0
            seen.setdefault(passed.tensor, set()).add(row if isinstance(step, Call) else 0)
    rows = {tensor: min(sizes) for tensor, sizes in seen.items() if len(sizes) == 1 and tensor not in kept}
    return {tensor: row + line for tensor, row in rows.items() if row and _is_crowded(row, way, line)}


def _is_crowded(row: int, way: int, line: int) -> bool:
    """Whether rows so long begin at a few places of a way only. Units: bytes."""
    return row % line == 0 and way // gcd(row, way) <= FEW_PLACES


def _way_bytes(machine: Machine) -> int:
    """What a way of the nearest cache holds; 0 where it is not stated."""
    for name in caches_from_nearest(machine)[:1]:
        memory = machine.memories[name]
        ways = dict(memory.decl.attributes).get("ways")
        if isinstance(ways, Index) and ways.value and memory.capacity_bytes:
            return memory.capacity_bytes // ways.value
    return 0


def room_bytes(passed: Passed, pitches: Mapping[str, int]) -> int:
    """How many bytes a tensor takes."""
    pitch = pitches.get(passed.tensor)
    return size_bytes(passed.dtype, passed.shape) if pitch is None else prod(passed.shape[:-1]) * pitch


def apart_bytes(passed: Passed, axis: int, pitches: Mapping[str, int]) -> int:
    """How far elements lie apart that are neighbours along an axis other than the last."""
    pitch, inner = pitches.get(passed.tensor), passed.shape[axis + 1 :]
    return size_bytes(passed.dtype, inner) if pitch is None else prod(inner[:-1]) * pitch
