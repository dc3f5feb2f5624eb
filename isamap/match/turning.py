"""Permutations of one register as supplies: tried only where they bring neighbours in memory together.

    z[2*i + p] = a[16*p + i]    of two rows in turn makes two rows side by side

A search that laid every permutation over every want would go through all of their products. One that has to
gain on the number of lanes next to which the next element of memory stands goes straight to the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Read
from isamap.ir.evaluate import evaluate_index
from isamap.match.instructions import Pattern
from isamap.match.interleave import places_of
from isamap.match.params import extents_of
from isamap.match.want import Suppliers, Want

MAX_LANES = 4096


def is_wasted(suppliers: Suppliers, pattern: Pattern, want: Want) -> bool:
    """Whether the instruction permutes a register and brings no more of its lanes together."""
    if pattern.name not in suppliers.known.turns:
        suppliers.known.turns[pattern.name] = _lanes_read(pattern)
    lanes = suppliers.known.turns[pattern.name]
    if lanes is None:
        return False
    places = places_of(suppliers, want)
    if places is None or places.shape[1] != len(lanes):
        return True
    before, after = places[1], np.empty_like(places[1])
    after[list(lanes)] = before
    return _neighbours(after) <= _neighbours(before)


def _neighbours(places: NDArray[np.int64]) -> int:
    """How many lanes hold what follows in memory the element of the lane below."""
    return int(np.count_nonzero(np.diff(places) == 1))


def _lanes_read(pattern: Pattern) -> tuple[int, ...] | None:
    """For each lane written, the lane read; None where the instruction is no permutation of one register."""
    value, written = pattern.value, pattern.output
    if not isinstance(value, Read) or len(written.shape) != 1 or len(value.index) != 1:
        return None
    read = pattern.instruction.operand(value.buffer)
    if (read.memory, read.dtype, read.shape) != (written.memory, written.dtype, written.shape):
        return None
    lengths, masked = extents_of(pattern, {})
    sizes = [lengths.get(axis.name, 0) for axis in pattern.axes]
    size = written.shape[0].value
    if masked or size is None or size > MAX_LANES or int(np.prod(sizes)) != size:
        return None
    points = np.indices(sizes).reshape(len(sizes), -1)
    env: dict[str, int | NDArray[np.int64]] = {a.name: points[n] for n, a in enumerate(pattern.axes)}
    to, source = (
        np.broadcast_to(evaluate_index(i, env), size) for i in (pattern.target.index[0], value.index[0])
    )
    if len(np.unique(to)) != size or len(np.unique(source)) != size:
        return None
    return tuple(int(lane) for lane in source[np.argsort(to)])
