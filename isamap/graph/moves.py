"""Check the numbers of a move against its tensors before `isamap_moves.c` receives them.

The C code checks every index that is data, but relies on its other numbers. Therefore these are checked
here, for models and for graph files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from isamap.graph.model_program import Move, TensorView
from isamap.graph.sizes import most_of
from isamap.graph.types import size_bytes

Numbers = Sequence[int]
MOST_AXES = 64
"""Of a tensor; numpy has no more either."""
_TYPE_BYTES = {1: 4, 2: 8, 3: 1, 4: 2, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8}
"""Bytes of types by the numbers that moves know them by."""


def is_sound(move: Move) -> bool:
    """Return whether a move only accesses its tensors, for any data."""
    rule = _RULES.get(move.function)
    if rule is None or any(number < 0 for number in move.numbers):
        return False
    try:
        reads, writes = ([_bytes(p) for p in of] for of in (move.reads, move.writes))
        return rule(move.numbers, reads, writes)
    except (IndexError, ValueError):
        return False


def _bytes(passed: TensorView) -> int:
    return size_bytes(passed.dtype, passed.shape)


def _product(sizes: Numbers) -> int:
    if len(sizes) > MOST_AXES:
        raise ValueError("a tensor of too many axes")
    return prod(sizes)


def _copy(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    return [n[0]] == list(reads) == list(writes)


def _join(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    rows, parts = n[0], n[2:]
    each = [rows * part for part in parts]
    return n[1] == len(parts) and each == list(reads) and [sum(each)] == list(writes)


def _gather(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    outer, length, inner, count, index = n
    given = [outer * length * inner, count * index]
    return index in (4, 8) and given == list(reads) and [outer * count * inner] == list(writes)


def _leading_sizes(n: Numbers) -> tuple[int, int, int] | None:
    """Return the elements of x and of its indices, and the bytes of an element, or None if numbers are invalid."""
    rank, axis, size, index = n[:4]
    sizes, own = n[4 : 4 + rank], n[4 + rank :]
    fits = all(d == axis or few <= many for d, (many, few) in enumerate(zip(sizes, own, strict=True)))
    if not fits or axis >= rank or index not in (4, 8) or not size:
        return None
    return _product(sizes), _product(own), size


def _gather_elements(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    led = _leading_sizes(n)
    if led is None:
        return False
    many, few, size = led
    return [many * size, few * n[3]] == list(reads) and [few * size] == list(writes)


def _scatter_elements(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    led = _leading_sizes(n[2:])
    if led is None:
        return False
    many, few, size = led
    whole = [many * size, few * n[5], few * size]
    return _is_combined(n[0], n[1], size) and whole == list(reads) and whole[:1] == list(writes)


def _is_combined(how: int, kind: int, size: int) -> bool:
    return how == 0 or (how <= 4 and _TYPE_BYTES.get(kind) == size)


def _gather_nd(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    batch, count, depth, inner, *sizes = n
    given = [batch * _product(sizes) * inner, batch * count * depth * 8]
    return len(sizes) == depth and given == list(reads) and [batch * count * inner] == list(writes)


def _scatter_nd(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    how, kind, count, depth, inner, size, *sizes = n
    given = [_product(sizes) * inner * size, count * depth * 8, count * inner * size]
    fits = len(sizes) == depth and _is_combined(how, kind, size)
    return fits and given == list(reads) and given[:1] == list(writes)


def _non_zero(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    rank, *sizes = n
    fits = len(sizes) == rank and list(reads) == [_product(sizes)]
    return fits and most_of(writes[0]) >= 8 * rank * most_of(_product(sizes)) and writes[1:] == [8]


def _sizes(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    return n[0] == len(n) - 1 and not reads and list(writes) == [8 * n[0]]


def _suppress(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    batches, classes, count, _ = n
    given = [batches * count * 16, batches * classes * count * 4, 8, 4, 4]
    return given == list(reads) and writes[1:] == [8, 8 * count]


def _unique(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    rows, inner, kind, _ = n
    fits = list(reads) == [rows * inner * _TYPE_BYTES.get(kind, 0)]
    return (
        fits and most_of(writes[0]) >= 8 * rows and writes[2] == writes[0] and writes[1::2] == [8 * rows, 8]
    )


def _top(n: Numbers, reads: Numbers, writes: Numbers) -> bool:
    outer, length, inner, k, _, kind, size = n
    lines = outer * inner
    fits = k <= length and _TYPE_BYTES.get(kind) == size and [lines * length * size] == list(reads)
    return fits and [lines * k * size, lines * k * 8] == list(writes)


_RULES: Mapping[str, Callable[[Numbers, Numbers, Numbers], bool]] = {
    "copy": _copy,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "join": _join,
    "non_zero": _non_zero,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "sizes": _sizes,
    "suppress": _suppress,
    "top": _top,
    "unique": _unique,
}
