"""Addresses that a chain of moves touches by the meaning of its instructions, and those that are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from isamap.ir import Index, Read
from isamap.ir.evaluate import evaluate_index
from isamap.ir.index import ONE
from isamap.lower.touched import touched_elements
from isamap.machine import Machine
from isamap.match import Location, OperandMove

Places = set[tuple[str, int]]
STRIDES = (Index.of("A.s0"), ONE)
"""Of A, the array of all wants: rows as far apart as the caller says."""


def elements(
    read: Read, sizes: tuple[int, ...], valid: tuple[Index | None, ...], env: Mapping[str, int]
) -> Places:
    """Addresses of the elements that an access names at all coordinates that matter."""
    counts = [s if v is None else min(s, v.evaluate(env)) for s, v in zip(sizes, valid, strict=True)]
    at = np.indices(counts).reshape(len(counts), -1) if counts else np.zeros((0, 1), np.int64)
    named: dict[str, Any] = {**env, **{f"%{n}": row for n, row in enumerate(at)}}
    address = sum(
        (evaluate_index(i, named) * s.evaluate(env) for i, s in zip(read.index, STRIDES, strict=True))
    )
    return {(read.buffer, int(a)) for a in np.broadcast_to(address, at.shape[1:])}


def touched(found: OperandMove, machine: Machine, env: Mapping[str, int]) -> Places:
    """Addresses of all that the instructions of a chain touch by their meaning."""
    instruction = machine.instructions[found.instruction].instruction
    params = tuple((n, v.evaluate(env)) for n, v in found.params if isinstance(v, Index))
    meant = dict(touched_elements(instruction, params))
    ends = [(n, p) for n, p in found.inputs if isinstance(p, Location)]
    ends += [(found.output, found.target)] if found.target is not None else []
    places: Places = set()
    for name, place in ends:
        steps = [s.evaluate(env) for s in place.strides]
        start = place.offset.evaluate(env)
        for corner in between(meant.get(name, ())):
            places.add((place.buffer, start + sum(n * s for n, s in zip(corner, steps, strict=True))))
    for _, source in found.inputs:
        if isinstance(source, OperandMove):
            places |= touched(source, machine, env)
    return places


def between(corners: tuple[tuple[int, ...], ...]) -> Iterator[tuple[int, ...]]:
    """Yield the ends of a box and everything between them, one by one; of no box the elements themselves."""
    spans = [sorted({c[axis] for c in corners}) for axis in range(len(corners[0]))] if corners else []
    if corners and set(corners) == set(product(*((s[0], s[-1]) for s in spans))):
        yield from product(*(range(s[0], s[-1] + 1) for s in spans))
    else:
        yield from corners
