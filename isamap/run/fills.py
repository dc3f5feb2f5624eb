"""Data for verification and timing: nonzero, repeatable, and chosen so that results can be judged.

`integers`: floats hold small integers, so that sums are exact in any order; integers their whole range.
`random`: floats symmetric about 0, integers their whole range. `edges`: integers at the ends of their range,
floats of very different sizes and signs, zeros and subnormal numbers among them; NaN and infinities in so few
elements that most of each output stays finite.

Floats of `random` are between -1 and 1. In an ordered loop each iteration uses results of the previous one.
Sums of n terms would then amplify rounding errors until two correct results differ completely. If iterations
can be judged one by one, the weights of such a sum, which are equal in all iterations, are divided by √n:
sums are then as large as their terms, and gates do not saturate. Otherwise all floats are divided by n, so
that the error of a sum is at most the largest error of its terms.

The share of an output that depends on one element of an input:

In a matrix product an element of A affects one row of C, 1/M of it. An element of a vector that is multiplied
by a matrix affects all results. All later iterations of an ordered loop may depend on an input of one
iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache, partial
from math import ceil, inf, isfinite, isinf, log, log2, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir.argument_samples import SAMPLES, sample_arguments
from isamap.ir.domains import drawn_values
from isamap.ir.dtypes import DType
from isamap.ir.facts import Site, find_sites
from isamap.ir.index import typical_value
from isamap.ir.nodes import Call, Cast, Const, Expr, Kernel, Operand, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.recurrences import iterations_apart
from isamap.ir.walk import symbols, walk
from isamap.machine.timings import LINE_BYTES


def shares(kernel: Kernel) -> dict[str, float]:
    """Return, for each input of a bound kernel, the share of an output that depends on one of its elements."""
    places = find_sites(kernel)
    outputs = [o.name for o in kernel.operands if o.role in ("out", "inout")]
    found: dict[str, float] = {}
    for operand in kernel.operands:
        if operand.role in ("in", "inout"):
            known = {operand.name: 1 / prod(extent.evaluate({}) for extent in operand.shape)}
            while sum(_record_spread(site, known) for site in places):
                pass
            found[operand.name] = max(known.get(name, 0.0) for name in outputs)
    return found


def _record_spread(site: Site, known: dict[str, float]) -> bool:
    """Record how far an assignment spreads its inputs. Return whether that is further than known before."""
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
FILLS = ("integers", "random", "edges", "spread", "peaks", "ties")
"""All fills; `fills_of` says which of them a kernel is verified with."""


def fills_of(kernel: Kernel) -> tuple[str, ...]:
    """Return the names of the fills that verify a kernel: three, and three more if operations select by data."""
    return FILLS if any(_critical(e) for e in _all_parts(kernel)) else FILLS[:3]


def make_arrays(kernel: Kernel, fill: str, seed: int = 0) -> dict[str, Array]:
    """Return an array for each input and output of a kernel with bound sizes."""
    arrays: dict[str, Array] = {}
    for number, operand in enumerate(o for o in kernel.operands if o.role != "temp"):
        rng = np.random.default_rng((seed, number))
        shape, domain = shape_of(operand), operand.domain
        if domain is None:
            drawn, (_, exponent) = _draw_values(rng, shape, operand, kernel, fill), _exponents(kernel, fill)
            scaled = operand.dtype.is_float and exponent and fill in FILLS[3:]
            arrays[operand.name] = _scale_floats(drawn, exponent, operand.dtype) if scaled else drawn
        else:
            # Each fill has indices of its own: a row that is empty in one has elements in another.
            rng = np.random.default_rng((seed, number, FILLS.index(fill)))
            arrays[operand.name] = drawn_values(shape, domain, rng).astype(operand.dtype.numpy())
    if fill == "edges":
        _insert_special(kernel, arrays, seed)
    if fill == "random":
        for name, divisor in _divisors(kernel).items():
            scaled = arrays[name].astype(np.float64) / divisor
            arrays[name] = scaled.astype(kernel.operand(name).dtype.numpy())
    return arrays


def _scale_floats(values: Array, exponent: float, dtype: DType) -> Array:
    """Return floats times a power of two, saturated at the largest number of their type."""
    with np.errstate(over="ignore"):
        wide = values.astype(np.float64) * 2.0**exponent
    return np.clip(wide, -dtype.largest, dtype.largest).astype(values.dtype)


def _draw_values(
    rng: np.random.Generator, shape: tuple[int, ...], operand: Operand, kernel: Kernel, fill: str
) -> Array:
    match fill:
        case "integers" if operand.dtype.is_float:
            # The largest float for the fill `integers`, 16 where sums are rounded to bf16 and so meet ties.
            outputs = [o for o in kernel.operands if o.role in ("out", "inout") and o.dtype.is_float]
            own = {s.assign.target.buffer for s in find_sites(kernel) if s.assign.op is not None}
            is_rounded = [o.dtype.mantissa_bits == 8 and (o.accumulate or o.name not in own) for o in outputs]
            most = 16 if outputs and all(is_rounded) else 4
            return rng.integers(-most, most + 1, size=shape, dtype=np.int8).astype(operand.dtype.numpy())
        case "spread":
            return _with_peaks(_spread(rng, shape, operand.dtype, _octaves(kernel)), operand.dtype, 0.0)
        case "peaks":
            spread = _spread(rng, shape, operand.dtype, _octaves(kernel), _bits_of_products(kernel))
            return _with_peaks(spread, operand.dtype, None)
        case "ties":
            return _with_peaks(_ties(rng, shape, operand, kernel), operand.dtype, 1.0)
        case "edges":
            return _edges(rng, shape, operand.dtype)
        case _ if operand.dtype.is_float:
            values = rng.random(size=shape, dtype=np.float64 if operand.dtype.bits == 64 else np.float32)
            return np.asarray(2 * values - 1).astype(
                operand.dtype.numpy()
            )  # of one number it is not an array
        case _:
            return _whole_range(rng, shape, operand.dtype)


def _divisors(kernel: Kernel) -> dict[str, float]:
    """Return the divisors of floats for the fill `random`, by input."""
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
    """Return the number of terms that one iteration of ordered loops adds up, or 1 without a sum."""
    if site.assign.op != "add" or not any(a.ordered for a in site.axes):
        return 1
    kept = symbols(site.assign.target) | {a.name for a in site.axes if a.ordered}
    return prod(typical_value(a.extent, {}) or 1 for a in site.axes if a.name not in kept)


def _insert_special(kernel: Kernel, arrays: dict[str, Array], seed: int) -> None:
    """Put NaN and infinities into so few elements of inputs that most of each output stays finite."""
    reach = shares(kernel)
    for number, name in enumerate(n for n in reach if kernel.operand(n).dtype.is_float):
        array = arrays[name].reshape(-1)
        reached = max(reach[name], 1 / array.size)  # what nothing reads reaches nothing
        count = min(int(0.5 / len(reach) / reached), array.size // 8)
        at = np.random.default_rng((seed, number, 1 << 21)).choice(array.size, size=count, replace=False)
        array[at] = np.resize(np.roll(_SPECIAL, -number), count).astype(array.dtype)


_SPECIAL = np.array([np.nan, np.inf, -np.inf])


def with_gaps(array: Array, gap_bytes: int, most_bytes: int) -> Array:
    """Return the same elements with a gap between rows, and a row between matrices.

    The array itself is returned if it has no rows, or would take more than `most_bytes`.
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


def zeros_at_line(count: int, dtype: np.dtype[Any]) -> Array:
    """Return an array of zeros that starts at a cache line."""
    raw = np.zeros(count * dtype.itemsize + LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + count * dtype.itemsize].view(dtype)


def taken_bytes(array: Array) -> int:
    """Return the bytes from an array's first element to its end, including gaps between rows."""
    if not array.size:
        return 0
    return array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))


def make_scalars(kernel: Kernel, fill: str = "integers", seed: int = 0) -> dict[str, float]:
    """Return a value for each typed scalar parameter: a nonzero small integer, or a value that causes saturation.

    If a scale decides whether results saturate, `q = sat_i8(round(f32(s) * scale, even))`, floats are
    multiplied by a power of 2 with which about half of the results saturate. In `ties` they are such powers
    themselves, so that products are halfway between two integers.
    """
    exponent, _ = _exponents(kernel, fill)
    found: dict[str, float] = {}
    for name, (dtype, n) in _drawn_scalars(kernel, seed).items():
        if dtype.is_float and exponent:
            found[name] = (1 if fill == "ties" else 0.83 * n if fill == "random" else n) * 2.0**exponent
        else:
            found[name] = bool(n) if dtype.kind == "bool" else n
    return found


def _drawn_scalars(kernel: Kernel, seed: int = 0) -> dict[str, tuple[DType, int]]:
    rng = np.random.default_rng((seed, 1 << 20))
    return {p.name: (p.dtype, int(rng.integers(1, 4))) for p in kernel.params if p.dtype is not None}


def shape_of(operand: Operand) -> tuple[int, ...]:
    """Return the extents of an operand with bound sizes."""
    return tuple(extent.evaluate({}) for extent in operand.shape)


def _edges(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.is_float:
        tiny, normal = dtype.smallest_subnormal, dtype.smallest_normal
        usual = [1, -1, 0.5, 3, -1024, 2.0**-20, -(2.0**-20), 0.3125, 96, -96, 7, -0.75]
        values = np.array([*usual, 0.0, -0.0, 3 * tiny, tiny - normal])
        return rng.choice(values, size=shape).astype(dtype.numpy())
    if dtype.kind == "bool":
        return _whole_range(rng, shape, dtype)
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


def _bits_of_products(kernel: Kernel) -> int:
    """Return the bits of products of narrow inputs to which wider inputs are added, or 64."""
    inputs = [o.dtype for o in kernel.operands if o.role == "in" and o.domain is None and o.dtype.is_integer]
    return sum(t.bits for t in inputs if t.bits <= 16) or 64


def _spread(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, octaves: Octaves, bits: int = 64
) -> Array:
    """Return numbers of either sign with uniform logarithms, so that one number dominates each row."""
    if dtype.kind == "bool":
        return _whole_range(rng, shape, dtype)
    low, high = octaves
    if dtype.is_float:
        most = log2(dtype.largest) - 2
        low, high = min(low, most - OCTAVES), min(high, most)
    else:
        low, high = 0, min(dtype.bits - (dtype.kind == "int"), max(bits, 16))
    sizes, signs = 2 ** rng.uniform(low, high, size=shape), rng.choice([-1.0, 1.0], size=shape)
    if dtype.is_float:
        return np.asarray(signs * sizes).astype(dtype.numpy())
    whole = np.minimum(sizes, 2.0**62).astype(np.int64)
    return _in_range(whole if dtype.kind == "uint" else np.where(signs < 0, -whole, whole), dtype)


def _with_peaks(values: Array, dtype: DType, where: float | None) -> Array:
    """Make one float in each row 2 to 16 times as large as all others, in a given part of the row.

    A lost largest element, or one of another row, shows in a softmax only if it is the largest by far. Code
    treats the first, the last and the other elements of a row in different places.
    """
    if not dtype.is_float or not values.ndim or not values.size or values.shape[-1] < 2:
        return values
    rows = values.reshape(-1, values.shape[-1]).copy()
    number, length = np.arange(len(rows)), values.shape[-1]
    near = number % min(length, 4)
    at = (
        near
        if where == 0
        else length - 1 - near
        if where
        else (number * GOLDEN % 1 * length).astype(np.int64)
    )
    most = np.max(np.abs(rows.astype(np.float64)), initial=0.0)
    peaks = most * 2 ** (1 + 3 * (number * sqrt(2) % 1))
    rows[number, at] = np.minimum(peaks, dtype.largest / 4).astype(rows.dtype)
    return rows.reshape(values.shape)


def _in_range(values: Array, dtype: DType) -> Array:
    return np.asarray(np.clip(values, dtype.low, min(dtype.high, (1 << 63) - 1))).astype(dtype.numpy())


def _ties(rng: np.random.Generator, shape: tuple[int, ...], operand: Operand, kernel: Kernel) -> Array:
    """Return halves of integers, and integers that end in zeros, so that products and sums are ties.

    In the first half along the first and the last axis nothing is positive: windows and rows of negative
    numbers lie there. A quarter are numbers that the kernel compares this input with, and their neighbours.
    """
    dtype = operand.dtype
    if dtype.kind == "bool":
        return _whole_range(rng, shape, dtype)
    signs = np.asarray(rng.choice([-1, 1], size=shape))
    for axis in {0, len(shape) - 1} if shape else ():
        if shape[axis] > 1:
            np.moveaxis(signs, axis, 0)[: shape[axis] // 2] = -1
    if dtype.is_float:
        _, high = _octaves(kernel)
        whole = np.rint(2 ** rng.uniform(0, min(max(high, 3), 10) + 1, size=shape))
        whole = np.where(rng.random(shape) < 1 / 8, 0.0, whole)
        values = np.asarray(np.copysign(whole, signs) / 2).astype(dtype.numpy())
    else:
        shifts = rng.integers(0, dtype.bits, size=shape)
        whole = np.left_shift(rng.integers(0, 10, size=shape), np.minimum(shifts, 58))
        values = _in_range(whole * signs if dtype.kind == "int" else whole, dtype)
    planted = _find_compared(kernel, operand)
    if planted.size:
        return np.where(rng.random(shape) < 1 / 4, rng.choice(planted, size=shape), values)
    return values


# --- what a kernel's operations ask of its data ---------------------------------------------------------

Octaves = tuple[float, float]
OCTAVES = 6
"""The octaves that floats of `spread` lie in, at least."""
GOLDEN = (sqrt(5) - 1) / 2
"""Multiples of it, without their whole part, lie all over 0 … 1."""
STEP = 4
"""The octaves from one size of data that is tried to the next."""
_COMPARING = ("min", "max", "lt", "le", "gt", "ge", "eq", "ne")


def _parts(site: Site) -> Iterator[Expr]:
    """Yield all nodes in a statement's value and conditions. A reduction that compares is a node, too."""
    assign = site.assign
    if assign.op in _COMPARING:
        yield Call(assign.op, (assign.value, assign.value), assign.value.dtype)
    for e in (assign.value, *site.conditions):
        yield from walk(e)


def _all_parts(kernel: Kernel) -> Iterator[Expr]:
    return (e for site in find_sites(kernel) for e in _parts(site))


def _critical(e: Expr) -> bool:
    """Return whether an operation treats some values of its arguments differently from others."""
    match e:
        case Call(op, args):
            row = OPS[op]
            bends = row.ulp or row.is_slow or row.modes or op in (*_COMPARING, "select", "abs")
            return bool(bends) and any(isinstance(p, Read) for a in args for p in walk(a))
        case Cast(value, dtype, mode):
            return dtype.is_integer and (mode == "sat" or value.dtype.is_float)
        case _:
            return False


def _reaches(e: Expr) -> Iterator[tuple[Expr, float]]:
    """Yield the arguments of operations, each with the magnitude up to which all cases occur."""
    match e:
        case Call(op, args) if reach := OPS[op].reach:
            for x in args:
                yield x, -2 * log(x.dtype.smallest_subnormal) if isinf(reach) else reach
        case Call(op, (a, b)) if op in _COMPARING:
            for x, other in ((a, b), (b, a)):
                if isinstance(other, Const) and isfinite(other.value) and other.value:
                    yield x, 2 * abs(float(other.value))
        case Cast(x, dtype, "sat") if dtype.is_integer:
            yield x, 1.5 * dtype.high
        case _:
            pass


@lru_cache(maxsize=16)
def _octaves(kernel: Kernel) -> Octaves:
    """Return the octaves in which floats are drawn, so that arguments reach the magnitudes that operations need.

    An argument that inputs do not enlarge, as one that is divided by the largest of a row, asks for nothing.
    """
    targets: dict[Expr, float] = {x: n for e in _all_parts(kernel) for x, n in _reaches(e)}
    asked: dict[Expr, float] = {}
    before: Mapping[Expr, float] = {}
    scalars = {name: float(n) for name, (_, n) in _drawn_scalars(kernel).items()}
    for high in range(0, 41, STEP):
        given = _samples(kernel, partial(_spread, octaves=(high - OCTAVES, high)))
        found = _sizes(kernel, targets, given, scalars)
        for x in found.keys() - asked.keys():
            if found[x] >= targets[x]:
                grown = log2(found[x] / before[x]) if before.get(x) else inf
                asked[x] = high - STEP * log2(found[x] / targets[x]) / grown if high > 0 else 0
        before = found
    return min(asked.values(), default=0.0) - OCTAVES, ceil(max(asked.values(), default=0.0))


@lru_cache(maxsize=16)
def _exponents(kernel: Kernel, fill: str) -> tuple[int, int]:
    """Return powers of 2, for float scalars and for inputs, with which about a quarter of the values saturate.

    One of them is 0: inputs are scaled if scalars do not affect the saturation.
    """
    targets: dict[Expr, float] = {
        e.value: float(e.dtype.high)
        for e in _all_parts(kernel)
        if isinstance(e, Cast) and e.mode == "sat" and e.dtype.is_integer
    }
    if not targets:
        return 0, 0
    drawn = _drawn_scalars(kernel)
    rng = np.random.default_rng(0)
    inputs = [o for o in kernel.operands if o.role in ("in", "inout")]
    given = {o.name: _draw_values(rng, (SAMPLES,), o, kernel, fill) for o in inputs}

    def beyond(scalars: float, floats: float) -> float:
        """Return the mean number of octaves by which values exceed the limit of saturation."""
        now = {name: n * 2.0**scalars if t.is_float else n for name, (t, n) in drawn.items()}
        made = {
            o.name: _scale_floats(given[o.name], floats, o.dtype) if o.dtype.is_float else given[o.name]
            for o in inputs
        }
        found = _sizes(kernel, targets, made, now)
        octaves = [log2(size / targets[x]) for x, size in found.items() if 0 < size < inf]
        return sum(octaves) / max(1, len(octaves))

    start = beyond(0, 0)
    for scalars, floats in ((1.0, 0.0), (0.0, 1.0)) if abs(start) > STEP else ():
        if abs(beyond(-STEP * scalars, -STEP * floats) - start) > 1:
            exponent = 0.0
            for _ in range(8):  # what grows as its square is there at once, others halfway each time
                exponent -= beyond(exponent * scalars, exponent * floats) / 2
            return round(exponent * scalars), round(exponent * floats)
    return 0, 0


def _samples(
    kernel: Kernel, make: Callable[[np.random.Generator, tuple[int, ...], DType], Array]
) -> dict[str, Array]:
    """Return samples of all inputs."""
    rng = np.random.default_rng(0)
    return {o.name: make(rng, (SAMPLES,), o.dtype) for o in kernel.operands if o.role in ("in", "inout")}


def _sizes(
    kernel: Kernel, targets: Collection[Expr], given: Mapping[str, Array], scalars: Mapping[str, float]
) -> dict[Expr, float]:
    """Return for each expression a magnitude that a quarter of its samples exceed."""
    found: dict[Expr, float] = {}
    for e, values in sample_arguments(kernel, targets, given, scalars).items():
        sizes = np.abs(values.astype(np.float64))
        sizes = sizes[~np.isnan(sizes)]
        if sizes.size:
            found[e] = float(np.quantile(sizes, 0.75, method="nearest"))
    return found


def _find_compared(kernel: Kernel, operand: Operand) -> Array:
    """Return the constants with which an input is compared, and their neighbouring numbers."""
    dtype, found, scalars = operand.dtype, set[float](), _drawn_scalars(kernel)
    for e in _all_parts(kernel):
        if isinstance(e, Call) and e.op in _COMPARING and len(e.args) == 2:
            for x, other in (e.args, e.args[::-1]):
                factor = _factor_of(x, operand.name, scalars)
                if isinstance(other, Const) and isfinite(other.value) and factor:
                    found.add(other.value / factor if dtype.is_float else int(other.value / factor))
    if dtype.is_float:
        near = np.array(sorted(found)).astype(dtype.numpy())
        if not near.size:
            return near
        step = np.maximum(
            np.abs(near.astype(np.float64)) * 2.0 ** (1 - dtype.mantissa_bits), dtype.smallest_subnormal
        )
        every = np.concatenate([near.astype(np.float64) + sign * step for sign in (-1, 0, 1)])
        return every.astype(dtype.numpy())
    whole = [int(c) + by for c in sorted(found) for by in (-1, 0, 1)]
    return np.array([n for n in whole if dtype.low <= n <= dtype.high], dtype.numpy())


def _factor_of(e: Expr, name: str, scalars: Mapping[str, tuple[DType, int]]) -> float:
    """Return the factor of an input's element in an expression, or 0 if the expression is not a product."""
    match e:
        case Cast(value):
            return _factor_of(value, name, scalars)
        case Call("mul", (Const(factor), x) | (x, Const(factor))):
            return factor * _factor_of(x, name, scalars)
        case Call("mul", (Scalar(factor), x) | (x, Scalar(factor))) if factor in scalars:
            return scalars[factor][1] * _factor_of(x, name, scalars)
        case _:
            return float(isinstance(e, Read) and e.buffer == name)
