"""Access patterns of tensors: the size and the stride, in elements, of each axis of a loop nest.

sizes (4, 8, 16), strides (128, 16, 1)   may be walked as (512,) by (1,), or as (32, 16) by (16, 1)
sizes (4, 8), strides (0, 1)             one row that is read four times
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Sizes = tuple[int, ...]
Strides = tuple[int, ...]


def broadcast(sizes: Sizes, strides: Strides, target: Sizes) -> Strides:
    """Return the strides of a tensor that is broadcast to a larger shape, 0 along broadcast axes."""
    missing = len(target) - len(sizes)
    there = zip(sizes, strides, target[missing:], strict=True)
    return (0,) * missing + tuple(stride if size == full else 0 for size, stride, full in there)


def reshape_strides(sizes: Sizes, strides: Strides, target: Sizes) -> Strides | None:
    """Return the strides under another shape with equally many elements, or None if there are none."""
    if prod(sizes) != prod(target):
        return None
    runs = _runs(sizes, strides)
    found: list[int] = []
    for size in reversed(target):
        if size == 1:
            found.append(0)
            continue
        while runs and runs[-1][0] == 1:
            runs.pop()
        length, stride = runs[-1]
        if length % size:
            return None
        found.append(stride)
        runs[-1] = (length // size, stride * size)
    return tuple(reversed(found))


def _runs(sizes: Sizes, strides: Strides) -> list[tuple[int, int]]:
    """Return the fewest axes that visit the same elements in the same order."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


def merge_walks(sizes: Sizes, walks: Sequence[Strides]) -> Sizes:
    """Return the fewest axes with which all of these strides can be followed."""
    found: list[int] = []
    inner: int | None = None
    for axis in reversed(range(len(sizes))):
        if sizes[axis] == 1:
            continue
        together = inner is not None and all(w[axis] == w[inner] * sizes[inner] for w in walks)
        if together:
            found[-1] *= sizes[axis]
        else:
            found.append(sizes[axis])
        inner = axis
    return tuple(reversed(found))
