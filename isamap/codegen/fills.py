"""Data to verify and to time with: never zeros, repeatable, and made so that its results can be judged.

`integers`: floats hold small integers, so that sums are exact in any order; integers their whole range.
`random`: floats symmetric about 0, integers their whole range.
`edges`: integers at the ends of their range, floats of very different sizes and signs, zeros and subnormal
numbers among them; NaN and infinities in so few elements that most of each output stays finite.

Floats of `random` are between -1 and 1. Where a loop runs in order, what one iteration computes goes into the
next, and sums of n terms would make more and more of a rounding, until two right results have nothing to do
with each other. Of a kernel whose iterations can be judged one by one, the weights in such a sum, which are
the same in each iteration, are divided by √n: sums are as large as their terms then, and gates neither shut
nor idle. Of any other all floats are divided by n, so that no sum makes an error larger than the largest of
its terms'.

How far one element of an input is felt: the largest share of an output that depends on it.

Of a matrix product an element of A is in one row of C, 1/M of it. One of a vector that a matrix is multiplied
with is in all results. What an iteration of an ordered loop takes in, all later ones may depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import DType, Kernel, Operand, iterations_apart, typical_value
from isamap.ir.domains import drawn_values
from isamap.ir.facts import Site, find_sites
from isamap.ir.walk import symbols


def shares(kernel: Kernel) -> dict[str, float]:
    """For each input of a kernel whose sizes are bound, the share of an output that one element reaches."""
    places = find_sites(kernel)
    outputs = [o.name for o in kernel.operands if o.role in ("out", "inout")]
    found: dict[str, float] = {}
    for operand in kernel.operands:
        if operand.role in ("in", "inout"):
            known = {operand.name: 1 / prod(extent.evaluate({}) for extent in operand.shape)}
            while sum(_passes_on(site, known) for site in places):
                pass
            found[operand.name] = max(known.get(name, 0.0) for name in outputs)
    return found


def _passes_on(site: Site, known: dict[str, float]) -> bool:
    """Whether an assignment spreads what it reads further than was known; then it is known."""
    assign, extents = site.assign, {name: typical_value(n, {}) or 1 for name, n in site.extents.items()}
    kept = symbols(assign.target) - {a.name for a in site.axes if a.ordered}
    by_buffer: dict[str, float] = {}
    for read in dict.fromkeys(site.reads):
        for_one_element = prod(extents[a] for a in (symbols(read) - kept) & extents.keys())
        felt = known.get(read.buffer, 0.0) * for_one_element
        by_buffer[read.buffer] = by_buffer.get(read.buffer, 0.0) + felt
    # Of one array other elements are read at each subscript; of several, what goes back to the same elements.
    share = min(max(by_buffer.values(), default=0.0), 1.0)
    if share <= 1.001 * known.get(assign.target.buffer, 0.0):
        return False
    known[assign.target.buffer] = share
    return True


Array = NDArray[Any]
LINE_BYTES = 64
FILLS = ("integers", "random", "edges")


def make_arrays(kernel: Kernel, fill: str, seed: int = 0) -> dict[str, Array]:
    """An array for each input and output of a kernel whose sizes are bound."""
    make = _MAKERS[fill]
    arrays: dict[str, Array] = {}
    for number, operand in enumerate(o for o in kernel.operands if o.role != "temp"):
        rng = np.random.default_rng((seed, number))
        shape, domain = shape_of(operand), operand.domain
        if domain is None:
            arrays[operand.name] = make(rng, shape, operand.dtype)
        else:
            arrays[operand.name] = drawn_values(shape, domain, rng).astype(operand.dtype.numpy())
    if fill == "edges":
        _strew(kernel, arrays, seed)
    if fill == "random":
        for name, divisor in _divisors(kernel).items():
            scaled = arrays[name].astype(np.float64) / divisor
            arrays[name] = scaled.astype(kernel.operand(name).dtype.numpy())
    return arrays


def _divisors(kernel: Kernel) -> dict[str, float]:
    """What floats of `random` are divided by, of the inputs that are divided at all."""
    sums = [(site, n) for site in find_sites(kernel) if (n := _terms_in_turn(site)) > 1]
    floats = [o.name for o in kernel.operands if o.role != "temp" and o.dtype.is_float]
    if iterations_apart(kernel) is None:
        most = max((n for _, n in sums), default=1)
        return dict.fromkeys(floats, float(most)) if most > 1 else {}
    found: dict[str, float] = {}
    for site, terms in sums:
        turning = {a.name for a in site.axes if a.ordered}
        factors = [r for r in site.reads if r.buffer in floats]
        weights = [r for r in factors if not turning & symbols(r)] or factors
        for name in {r.buffer for r in weights[-1:]}:
            found[name] = max(found.get(name, 1.0), sqrt(terms))
    return found


def _terms_in_turn(site: Site) -> int:
    """The terms that one iteration of loops that run in order adds up; 1 where it is no sum inside of one."""
    if site.assign.op != "add" or not any(a.ordered for a in site.axes):
        return 1
    kept = symbols(site.assign.target) | {a.name for a in site.axes if a.ordered}
    return prod(typical_value(a.extent, {}) or 1 for a in site.axes if a.name not in kept)


def _strew(kernel: Kernel, arrays: dict[str, Array], seed: int) -> None:
    """Put NaN and infinities into inputs: as many as leave more than half of each output untouched."""
    reach = shares(kernel)
    for number, name in enumerate(n for n in reach if kernel.operand(n).dtype.is_float):
        array = arrays[name].reshape(-1)
        reached = max(reach[name], 1 / array.size)  # what nothing reads reaches nothing
        count = min(int(0.5 / len(reach) / reached), array.size // 8)
        at = np.random.default_rng((seed, number, 1 << 21)).choice(array.size, size=count, replace=False)
        array[at] = np.resize(np.roll(_SPECIAL, -number), count).astype(array.dtype)


_SPECIAL = np.array([np.nan, np.inf, -np.inf])


def with_gaps(array: Array, gap_bytes: int, most_bytes: int) -> Array:
    """The same elements with so many bytes between rows, and a row between matrices.

    The array itself where it has no rows, or would take more than `most_bytes`.
    """
    if array.ndim < 2 or not array.size:
        return array
    gap = max(1, gap_bytes // array.itemsize)
    first, *middle, last = array.shape
    shape = (first, *(extent + 1 for extent in middle), last + gap)
    if prod(shape) * array.itemsize > most_bytes:
        return array
    wide = np.empty(shape, array.dtype)
    rows: Array = wide[tuple(slice(extent) for extent in array.shape)]
    rows[...] = array
    return rows


def at_line(array: Array) -> Array:
    """The same elements beginning at a cache line, as allocators of frameworks place them; numpy's do not."""
    placed = zeros_at_line(array.size, array.dtype).reshape(array.shape)
    placed[...] = array
    return placed


def zeros_at_line(count: int, dtype: np.dtype[Any]) -> Array:
    """So many zeros, which begin at a cache line."""
    raw = np.zeros(count * dtype.itemsize + LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + count * dtype.itemsize].view(dtype)


def taken_bytes(array: Array) -> int:
    """The memory from an array's first to behind its last element, with gaps between rows."""
    if not array.size:
        return 0
    return array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))


def make_scalars(kernel: Kernel, seed: int = 0) -> dict[str, float]:
    """A value for each typed scalar parameter: a small integer that is not 0."""
    rng = np.random.default_rng((seed, 1 << 20))
    drawn = {p.name: (p.dtype, int(rng.integers(1, 4))) for p in kernel.params if p.dtype is not None}
    return {name: bool(n) if dtype.kind == "bool" else n for name, (dtype, n) in drawn.items()}


def shape_of(operand: Operand) -> tuple[int, ...]:
    """The extents of an operand whose sizes are bound."""
    return tuple(extent.evaluate({}) for extent in operand.shape)


def _integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        return rng.integers(-4, 5, size=shape, dtype=np.int8).astype(dtype.numpy())
    return _whole_range(rng, shape, dtype)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        values = rng.random(size=shape, dtype=np.float64 if dtype.bits == 64 else np.float32)
        return np.asarray(2 * values - 1).astype(dtype.numpy())  # of one number it is no array
    return _whole_range(rng, shape, dtype)


def _edges(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        tiny, normal = dtype.smallest_subnormal, dtype.smallest_normal
        usual = [1, -1, 0.5, 3, -1024, 2.0**-20, -(2.0**-20), 0.3125, 96, -96, 7, -0.75]
        values = np.array([*usual, 0.0, -0.0, 3 * tiny, tiny - normal])
        return rng.choice(values, size=shape).astype(dtype.numpy())
    if dtype.kind == "bool":
        return rng.integers(0, 2, size=shape).astype(np.bool_)
    values: Array = np.array(
        [dtype.low, dtype.high, 0, 1, dtype.high - 1], np.int64 if dtype.kind == "int" else np.uint64
    )
    values = values.astype(dtype.numpy())
    return rng.choice(values, size=shape)


def _whole_range(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.kind == "bool":
        return rng.integers(0, 2, size=shape).astype(np.bool_)
    stored: Any = np.int64 if dtype.kind == "int" else np.uint64
    draw: Any = rng.integers  # its stubs lose the type of the result
    values: Array = draw(dtype.low, dtype.high, size=shape, dtype=stored, endpoint=True)
    return values.astype(dtype.numpy())


_MAKERS: dict[str, Callable[[np.random.Generator, tuple[int, ...], DType], Array]] = {
    "integers": _integers,
    "random": _random,
    "edges": _edges,
}
