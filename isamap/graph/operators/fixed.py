"""Operators whose results depend only on sizes and constants, and permutations of blocks of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.making import Value, axes_of, whole
from isamap.graph.operators.data_movement import clip_slice, expand_value, transpose_axes
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.sizes import is_open, is_zero
from isamap.graph.terms import NotTaken, TextTerm, cast
from isamap.graph.types import TYPES, type_of
from isamap.ir import DTYPES


def _known_only(o: Applied) -> Value:
    """Refuse a node whose result should have been known at compile time. Raises: NotTaken."""
    for number in range(len(o.inputs)):
        o.known(number)
    raise NotTaken("its result is too large to be computed before the model runs, or its inputs are wrong")


def _eye_like(o: Applied) -> Value:
    x = o[0]
    if x.rank != 2:
        raise NotTaken("it is not a matrix")
    o.making.reserve(x.count)
    dtype = TYPES.get(o.integer("dtype", 0), "") or x.dtype
    return known_value(np.eye(*x.shape, k=o.integer("k", 0)), dtype)


def _depth_to_space(o: Applied) -> Value:
    x, b = o[0], o.integer("blocksize", 1)
    if x.rank != 4 or b < 1 or x.shape[1] % (b * b):
        raise NotTaken(f"blocks of {b} in {list(x.shape)}")
    n, c, h, w = x.shape
    if o.word("mode", "DCR") == "DCR":
        parts = transpose_axes(o, x.shaped((n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = transpose_axes(o, x.shaped((n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return parts.shaped((n, c // (b * b), h * b, w * b))


def _space_to_depth(o: Applied) -> Value:
    x, b = o[0], o.integer("blocksize", 1)
    if x.rank != 4 or b < 1 or x.shape[2] % b or x.shape[3] % b:
        raise NotTaken(f"blocks of {b} in {list(x.shape)}")
    n, c, h, w = x.shape
    if o.word("mode", "DCR") == "DCR":
        parts = transpose_axes(o, x.shaped((n, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
    else:
        parts = transpose_axes(o, x.shaped((n, c, h // b, b, w // b, b)), (0, 1, 3, 5, 2, 4))
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


# Arithmetic on sizes that the caller gives: what models compute of shapes, before they reshape by it.
#
#     Shape -> Gather -> Unsqueeze -> Concat([batch, -1, 64]) -> Reshape      no step: [N0, -1, 64] is known


def _gather(o: Applied, given: list[Any]) -> Any:
    return np.take(given[0], given[1].astype(np.int64), axis=o.integer("axis", 0))


def _concat(o: Applied, given: list[Any]) -> Any:
    return np.concatenate(given, axis=o.integer("axis", 0))


def _slice(o: Applied, given: list[Any]) -> Any:
    """Return a part of a list of sizes. Raises: NotTaken, NeedsSize."""
    starts, ends = (o.integers(1), o.integers(2)) if o.opset >= 10 else (o.list("starts"), o.list("ends"))
    steps = (o.integers(4) if o.opset >= 10 else None) or (1,)
    if given[0].ndim != 1 or not starts or not ends:
        raise NotTaken("sizes are cut along one axis")
    first, count, step = clip_slice(starts[0], ends[0], steps[0], len(given[0]))
    return given[0][first + step * np.arange(count)]


def _divide(_: Applied, given: list[Any]) -> Any:
    if np.any(given[0] < 0) or np.any(given[1] <= 0):
        raise NotTaken("a quotient of sizes that may be negative")
    return given[0] // given[1]


def _choose_elements(_: Applied, given: list[Any]) -> Any:
    choice: Any = np.where  # its types know no sizes
    return choice(given[0].astype(bool), given[1], given[2])


def _compare_sizes(how: Any, _: Applied, given: list[Any]) -> Any:
    return how(*given)


_COMPARED: Mapping[str, Any] = {
    "Equal": np.frompyfunc(lambda a, b: is_zero(a - b), 2, 1),
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}
_OF_SIZES: Mapping[str, Callable[[Applied, list[Any]], Any]] = {
    **{name: partial(_compare_sizes, how) for name, how in _COMPARED.items()},
    "Add": lambda _, given: given[0] + given[1],
    "Sub": lambda _, given: given[0] - given[1],
    "Mul": lambda _, given: given[0] * given[1],
    "Div": _divide,
    "Neg": lambda _, given: -given[0],
    "Max": lambda _, given: np.maximum(*given),
    "Min": lambda _, given: np.minimum(*given),
    "ReduceProd": lambda o, given: np.prod(given[0], keepdims=bool(o.integer("keepdims", 1))),
    "Where": _choose_elements,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Cast": lambda _, given: given[0],
}


def fold_sizes(o: Applied) -> Value | None:
    """Return a node's result for known integers or open sizes, or None if a step must compute it."""
    rule = _OF_SIZES.get(o.node.op)
    if rule is None or o.node.domain or any(v.dtype not in ("i32", "i64", "bool") for v in o.all):
        return None
    found = np.asarray(rule(o, [np.asarray(v.known, object) for v in o.all]), object)
    if o.node.op in _COMPARED:
        return Value.of(found.astype(bool))
    dtype = TYPES.get(o.integer("to", 0), "") if o.node.op == "Cast" else o.all[-1].dtype
    if not any(map(is_open, found.flat)):
        found = found.astype(DTYPES[dtype].numpy())
    return Value(dtype, found.shape, known=found)


def _constant_of_shape(o: Applied) -> Value:
    """Return a constant-filled array with sizes from the caller. Raises: as `_known_only`."""
    shape, value = o.integers(0) or (), o.attribute("value", np.zeros(1, np.float32))
    if not any(map(is_open, shape)):
        return _known_only(o)
    dtype = type_of(value)
    return expand_value(o, known_value(value.reshape(()), dtype), shape)


def _range(o: Applied) -> Value:
    """Return equally spaced integers, with a count from the caller's sizes. Raises: as `_known_only`."""
    given = [o.known(n) for n in range(3)]
    start, end, step = (array.reshape(-1)[0] for array in given if array is not None)
    if not any(map(is_open, (start, end, step))) or o[0].dtype not in ("i32", "i64"):
        return _known_only(o)
    _, count, _ = clip_slice(0, whole(end - start), whole(step), whole(end - start))
    text = o.text()
    y = text.write(o[0].dtype, (count,))
    at, loops = axes_of(y.shape)
    number = cast(TextTerm(f"(i64({at[0]}) * {step} + {start})", "i64"), o[0].dtype).text
    text.loop(loops, f"{y.at(at)} = {number};")
    return text.done()


FIXED: Mapping[str, Lowered] = {
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "HannWindow": _known_only,
    "HammingWindow": _known_only,
    "BlackmanWindow": _known_only,
    "MelWeightMatrix": _known_only,
    "EyeLike": _eye_like,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Det": _determinant,
}
