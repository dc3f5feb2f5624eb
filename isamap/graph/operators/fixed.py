"""Operators whose results depend only on sizes and constants, and rearrangements of blocks of elements."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.making import Value
from isamap.graph.operators.data_movement import transposed
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.operators.indexing import gathered
from isamap.graph.terms import NotTaken
from isamap.graph.types import TYPES
from isamap.ir import DTYPES


def _known_only(o: Applied) -> Value:
    """Refuse a node whose result is not computed before the model runs. Raises: NotTaken."""
    for number in range(len(o.inputs)):
        o.known(number)
    raise NotTaken("its result is too large to be computed before the model runs, or its inputs are wrong")


def _eye_like(o: Applied) -> Value:
    x = o[0]
    if x.rank != 2:
        raise NotTaken("it is no matrix")
    o.making.reserve(x.count)
    dtype = TYPES.get(o.integer("dtype", 0), "") or x.dtype
    return known_value(np.eye(*x.shape, k=o.integer("k", 0)), dtype)


def _compress(o: Applied) -> Value:
    x, chosen = o[0], o.known(1)
    assert chosen is not None
    axis = o.attribute("axis")
    if axis is None:
        x, at = x.shaped((x.count,)), 0
    else:
        at = o.axis(o.integer("axis", 0), x.rank)
    places = np.flatnonzero(chosen[: x.shape[at]])
    return gathered(o, x, at, known_value(places, "i64"))


def _depth_to_space(o: Applied) -> Value:
    x, b = o[0], o.integer("blocksize", 1)
    if x.rank != 4 or b < 1 or x.shape[1] % (b * b):
        raise NotTaken(f"blocks of {b} in {list(x.shape)}")
    n, c, h, w = x.shape
    if o.word("mode", "DCR") == "DCR":
        parts = transposed(o, x.shaped((n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = transposed(o, x.shaped((n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return parts.shaped((n, c // (b * b), h * b, w * b))


def _space_to_depth(o: Applied) -> Value:
    x, b = o[0], o.integer("blocksize", 1)
    if x.rank != 4 or b < 1 or x.shape[2] % b or x.shape[3] % b:
        raise NotTaken(f"blocks of {b} in {list(x.shape)}")
    n, c, h, w = x.shape
    if o.word("mode", "DCR") == "DCR":
        parts = transposed(o, x.shaped((n, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
    else:
        parts = transposed(o, x.shaped((n, c, h // b, b, w // b, b)), (0, 1, 3, 5, 2, 4))
    return parts.shaped((n, c * b * b, h // b, w // b))


def _determinant(o: Applied) -> Value:
    x = o[0]
    if x.rank < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] > 3 or not DTYPES[x.dtype].is_float:
        raise NotTaken(f"of {list(x.shape)} it has no kernel here; it has for matrices up to 3 x 3")
    size, count = x.shape[-1], prod(x.shape[:-2])
    text = o.text()
    matrix = text.read(x.shaped((count, size, size)))
    y = text.write(x.dtype, (count,))
    n = "n" if count != 1 else "0"

    def e(row: int, column: int) -> str:
        return (
            f"f64({matrix.at([n, str(row), str(column)])})"
            if x.dtype != "f64"
            else matrix.at([n, str(row), str(column)])
        )

    def minor(r: int, a: int, b: int) -> str:
        return f"({e(r, a)} * {e(r + 1, b)} - {e(r, b)} * {e(r + 1, a)})"

    value = e(0, 0)
    if size == 2:
        value = minor(0, 0, 1)
    if size == 3:
        value = (
            f"({e(0, 0)} * {minor(1, 1, 2)} - {e(0, 1)} * {minor(1, 0, 2)} + {e(0, 2)} * {minor(1, 0, 1)})"
        )
    text.loop({"n": count}, f"{y.at([n])} = {value if x.dtype == 'f64' else f'{x.dtype}({value})'};")
    return text.done().shaped(x.shape[:-2])


FIXED: Mapping[str, Lowered] = {
    "ConstantOfShape": _known_only,
    "Range": _known_only,
    "NonZero": _known_only,
    "HannWindow": _known_only,
    "HammingWindow": _known_only,
    "BlackmanWindow": _known_only,
    "MelWeightMatrix": _known_only,
    "EyeLike": _eye_like,
    "Compress": _compress,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Det": _determinant,
}
