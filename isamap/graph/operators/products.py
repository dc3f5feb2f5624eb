"""Matrix products, sums of products with arbitrary indices, and Fourier transforms as products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from isamap.graph.applied import Applied, element, known_value
from isamap.graph.graph import Array
from isamap.graph.making import KernelText, Operand, Value, axes_of, broadcast_index, broadcast_shape
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.sizes import is_open
from isamap.graph.terms import NotTaken, TextTerm, cast, number, wide_type
from isamap.graph.thresholds import MOVED_FACTOR_ROWS
from isamap.ir import DTYPES


def product(
    text: KernelText,
    a: Operand,
    b: Operand,
    into: Operand,
    a_at: Sequence[str],
    b_at: Sequence[str],
    loops: Mapping[str, int],
    at: Sequence[str],
) -> None:
    """Write sums of products onto the result's initial values, in its type."""
    left, right = (cast(x.term(index), into.dtype).text for x, index in ((a, a_at), (b, b_at)))
    text.loop(loops, f"{into.at(at)} += {left} * {right};")


def accumulator_type(text: KernelText, dtype: str, shape: Sequence[int], result: Operand | None) -> Operand:
    """Return the accumulator: the result itself if it has the type, else a temporary."""
    if result is not None and result.dtype == dtype:
        return result
    return text.temp(dtype, shape, result.order if result is not None else ())


def round_into(text: KernelText, total: Operand, result: Operand) -> None:
    """Write the rounding of sums that are in a temporary. They are rounded once."""
    if total is not result:
        axes, loops = axes_of(result.shape)
        text.loop(loops, f"{result.at(axes)} = {cast(total.term(axes), result.dtype).text};")


def round_sums(text: KernelText, total: Operand, result: Operand) -> Value:
    """Return the result of a kernel whose sums are in a temporary."""
    round_into(text, total, result)
    return text.done()


def _matmul(o: Applied) -> Value:
    return multiply_matrices(o, o[0], o[1], o[0].dtype)


def multiply_matrices(
    o: Applied,
    a: Value,
    b: Value,
    dtype: str,
    points: tuple[Value | None, Value | None] = (None, None),
    inside: str = "",
    onto: Value | None = None,
) -> Value:
    """Return matrix products with numpy's broadcasting and zero points, added to `onto`.

    Raises: NotTaken for incompatible sizes.
    """
    if not a.rank or not b.rank:
        raise NotTaken("a factor is a single number")
    left = a if a.rank > 1 else a.shaped((1, *a.shape))
    right = b if b.rank > 1 else b.shaped((*b.shape, 1))
    if dtype == (inside or wide_type(dtype)) and left.dtype == wide_type(left.dtype):
        right = _with_rows(o, left, right)
    if left.shape[-1] != right.shape[-2]:
        raise NotTaken(f"factors of {list(a.shape)} and {list(b.shape)}")
    batch = broadcast_shape([left.shape[:-2], right.shape[:-2]])
    shape = (*batch, left.shape[-2], right.shape[-1])
    text, inside = o.text(), inside or wide_type(dtype)
    result = text.write(dtype, shape)
    at, loops = axes_of(shape)
    depth = {"k": left.shape[-1]}
    k = "k" if left.shape[-1] != 1 else "0"
    total = accumulator_type(text, inside, shape, result)
    of_left, of_right = (None if is_zero(point) else point for point in points)
    start = "0"
    if of_left is not None and of_right is None and right.known is not None and inside == "i32":
        if of_left.known is not None and of_left.count == 1 and (onto is None or onto.known is not None):
            onto = known_start(right.known, of_left.known, onto)
        else:
            start = _zero_point_term(text, (left, right), of_left, at, k)
        of_left = None
    if onto is not None:
        summand = cast(element(text, onto, at), inside).text
        start = summand if start == "0" else f"{summand} + {start}"
    text.loop(loops, f"{total.at(at)} = {start};")
    terms: list[str] = []
    for value, point, index in (
        (left, of_left, (*at[:-2], at[-2], k)),
        (right, of_right, (*at[:-2], k, at[-1])),
    ):
        there = broadcast_index(value.shape, index)
        term = text.read(value).term(there)
        if point is not None:
            term = _minus_point(term, _point(text, point, value, there), inside)
        terms.append(cast(term, inside).text)
    if left.shape[-1]:
        text.loop({**loops, **depth}, f"{total.at(at)} += {' * '.join(terms)};")
    done = round_sums(text, total, result)
    kept = (*batch, *(left.shape[-2:-1] if a.rank > 1 else ()), *(right.shape[-1:] if b.rank > 1 else ()))
    return done.shaped(kept)


def _with_rows(o: Applied, left: Value, right: Value) -> Value:
    """Return the right factors of several products in row order. Computed ones in another order are moved."""
    if right.known is not None or any(map(is_open, (*left.shape, *right.shape, *right.walk))):
        return right
    is_across = right.shape[-1] != 1 and right.walk[-1] != 1
    is_worth = left.shape[-2] >= MOVED_FACTOR_ROWS and prod(right.shape[:-2]) > 1
    return o.making.laid(right, ()) if is_across and is_worth else right


def is_zero(point: Value | None) -> bool:
    """Return whether a zero point is known to be 0."""
    return point is not None and point.known is not None and not np.any(point.known)


def known_start(weights: Array, point: Array, onto: Value | None) -> Value:
    """Return the known initial values of sums: a summand minus the zero point times the weights' sums, or None."""
    sums = weights.astype(np.int64).sum(axis=-2, keepdims=True)
    start = (0 if onto is None or onto.known is None else onto.known) - int(point.reshape(-1)[0]) * sums
    return Value.of(start.astype(np.int32))


def _zero_point_term(
    text: KernelText, factors: tuple[Value, Value], point: Value, at: Sequence[str], k: str
) -> str:
    """Return the correction for a left zero point: it is multiplied by the sum of a column of known weights.

    Products are then of bytes as they lie, which machines multiply. Source: Jacob et al. 2018, equation 7.
    """
    left, right = factors
    assert right.known is not None
    sums = Value.of(right.known.astype(np.int64).sum(axis=-2).astype(np.int32))
    column = text.read(sums).term(broadcast_index(sums.shape, (*at[:-2], at[-1]))).text
    there = broadcast_index(left.shape, (*at[:-2], at[-2], k))
    return f"i32(0) - {cast(_point(text, point, left, there), 'i32').text} * {column}"


def _minus_point(term: TextTerm, point: TextTerm, inside: str) -> TextTerm:
    """Return a factor minus its zero point: bytes in 16 bits, of which machines sum pairs, others as the sum."""
    if inside == "i32" and all(
        DTYPES[x.dtype].is_integer and DTYPES[x.dtype].bits <= 8 for x in (term, point)
    ):
        inside = "i16"
    return TextTerm(f"({cast(term, inside).text} - {cast(point, inside).text})", inside)


def _point(text: KernelText, point: Value, value: Value, there: Sequence[str]) -> TextTerm:
    """Return a zero point: one number, or one per row of a left factor or per column of a right one."""
    if point.count == 1:
        return element(text, point.shaped(()), ())
    axis = (
        value.rank - 2
        if point.rank == 1 and point.shape[0] == value.shape[-2] and there[-1] == "k"
        else value.rank - 1
    )
    if point.rank == 1:
        return text.read(point).term([there[axis]])
    return element(text, point, there)


def _gemm(o: Applied) -> Value:
    a, b, c = o[0], o[1], o.optional(2)
    if a.rank != 2 or b.rank != 2:
        raise NotTaken("a factor is not a matrix")
    rows, depth = a.shape if not o.integer("transA", 0) else a.shape[::-1]
    other, columns = b.shape if not o.integer("transB", 0) else b.shape[::-1]
    if depth != other:
        raise NotTaken(f"factors of {list(a.shape)} and {list(b.shape)}")
    text, inside = o.text(), wide_type(a.dtype)
    result = text.write(a.dtype, (rows, columns))
    at, loops = axes_of(result.shape)
    total = accumulator_type(text, inside, result.shape, result)
    alpha, beta = (cast(number(o.real(name, 1.0)), inside).text for name in ("alpha", "beta"))
    is_plain = o.real("alpha", 1.0) == 1
    k = "k" if depth != 1 else "0"
    a_at, b_at = [at[0], k], [k, at[1]]
    a_at, b_at = (
        index[::-1] if o.integer(f"trans{n}", 0) else index for n, index in (("A", a_at), ("B", b_at))
    )
    onto = "0"
    if c is not None and o.real("beta", 1.0) != 0:
        if broadcast_shape([c.shape, result.shape]) != result.shape:
            raise NotTaken(f"a summand of {list(c.shape)} for a result of {list(result.shape)}")
        onto = cast(text.read(c).term(broadcast_index(c.shape, at)), inside).text
        onto = onto if o.real("beta", 1.0) == 1 else f"{beta} * {onto}"
    text.loop(loops, f"{total.at(at)} = {onto if is_plain else '0'};")
    product(text, text.read(a), text.read(b), total, a_at, b_at, {**loops, "k": depth}, at)
    if not is_plain:
        more = f" + {onto}" if onto != "0" else ""
        text.loop(loops, f"{total.at(at)} = {alpha} * {total.at(at)}{more};")
    return round_sums(text, total, result)


def _matmul_integer(o: Applied) -> Value:
    return multiply_matrices(o, o[0], o[1], "i32", (o.optional(2), o.optional(3)))


def _einsum(o: Applied) -> Value:
    values = o.all
    inputs, sizes, output = _equation(o.word("equation", ""), values)
    text, dtype = o.text(), values[0].dtype
    names = {letter: f"e{n}" if sizes[letter] != 1 else "0" for n, letter in enumerate(sizes)}
    result = text.write(dtype, [sizes[letter] for letter in output])
    total = accumulator_type(text, wide_type(dtype), result.shape, result)
    outer = {names[c]: sizes[c] for c in output if names[c] != "0"}
    every = outer | {names[c]: sizes[c] for c in sizes if names[c] != "0"}
    at = [names[c] for c in output]
    text.loop(outer, f"{total.at(at)} = 0;")
    factors = [
        cast(
            text.read(value).term(
                [names[c] if size != 1 else "0" for c, size in zip(letters, value.shape, strict=True)]
            ),
            total.dtype,
        ).text
        for letters, value in zip(inputs, values, strict=True)
    ]
    text.loop(every, f"{total.at(at)} += {' * '.join(factors)};")
    return round_sums(text, total, result)


def _equation(said: str, values: Sequence[Value]) -> tuple[list[str], dict[str, int], str]:
    """Return the subscripts of each input, the size of each subscript, and the result's subscripts.

    An ellipsis is replaced by fresh subscripts.
    """
    left, arrow, right = said.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise NotTaken(f"the equation `{said}` for {len(values)} inputs")
    most, inputs = 0, list[str]()
    spare = [chr(0x100 + n) for n in range(32)]
    for term, value in zip(terms, values, strict=True):
        hidden = value.rank - len(term.replace("...", "")) if "..." in term else 0
        if hidden < 0 or len(term.replace("...", "")) + hidden != value.rank:
            raise NotTaken(f"the equation `{said}` for sizes {list(value.shape)}")
        most = max(most, hidden)
        inputs.append(term.replace("...", "".join(spare[32 - hidden :])))
    sizes: dict[str, int] = {}
    for letters, value in zip(inputs, values, strict=True):
        for letter, size in zip(letters, value.shape, strict=True):
            if sizes.get(letter, 1) != 1 and size not in (1, sizes[letter]):
                raise NotTaken(f"the equation `{said}` gives an index two sizes")
            sizes[letter] = max(size, sizes.get(letter, 1))
    ellipsis = "".join(spare[32 - most :])
    if arrow:
        return inputs, sizes, right.replace("...", ellipsis)
    joined = "".join(inputs)
    return (
        inputs,
        sizes,
        ellipsis + "".join(sorted(c for c in sizes if joined.count(c) == 1 and c not in ellipsis)),
    )


SUMS: Mapping[str, Lowered] = {"SumMatMul": lambda o: multiply_matrices(o, o[0], o[1], wide_type(o[0].dtype))}
"""Operators that ONNX does not have: a product of narrow floats whose result keeps the type of its sums."""

PRODUCTS: Mapping[str, Lowered] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "MatMulInteger": _matmul_integer,
    "Einsum": _einsum,
}


# --- spectra --------------------------------------------------------------------------------------------

# Fourier transforms, as products with constant matrices of cosines and sines.


MOST = 4096
"""The most rows of a matrix; a larger one would cost more than it saves."""


def _waves(o: Applied, count: int, length: int, results: int, sign: float) -> Any:
    """Return the cosines and sines [results, count, 2] of a transform of this length."""
    if length > MOST:
        raise NotTaken(f"a transform of {length} elements; kernels have them up to {MOST}")
    o.making.reserve(count, results, 2)
    angles = sign * 2 * np.pi * ((np.arange(results)[:, None] * np.arange(count)[None, :]) % length) / length
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def _dft(o: Applied) -> Value:
    x, given = o[0], o.integers(1)
    axis = o.integer("axis", 1)
    if o.opset >= 20:
        named = o.integers(2)
        axis = named[0] if named else -2
    axis = o.axis(axis, x.rank)
    length = given[0] if given else x.shape[axis]
    is_inverse, is_half = bool(o.integer("inverse", 0)), bool(o.integer("onesided", 0))
    if axis == x.rank - 1 or x.shape[-1] not in (1, 2) or (is_inverse and is_half) or length < 1:
        raise NotTaken("of such an input, or backwards from one half, it has no kernel here")
    results = length // 2 + 1 if is_half else length
    count = min(length, x.shape[axis])
    waves = _waves(o, count, length, results, 1.0 if is_inverse else -1.0) / (length if is_inverse else 1)
    text, inside = o.text(), "f64"  # sums of waves cancel, and f32 would lose the digits that are left
    shape = [results if n == axis else size for n, size in enumerate(x.shape)]
    shape[-1] = 2
    signal, factors = text.read(x), text.read(known_value(waves, inside))
    y = text.write(x.dtype, shape)
    total = accumulator_type(text, inside, shape, y)
    at, loops = axes_of(shape[:-1])
    (k,), inner = axes_of((count,), "k")

    def part(number: str) -> str:
        return cast(
            signal.term([*(k if n == axis else name for n, name in enumerate(at)), number]), inside
        ).text

    cosine, sine = (factors.at([at[axis], k, n]) for n in ("0", "1"))
    real, imaginary = (total.at([*at, n]) for n in ("0", "1"))
    values = [f"{part('0')} * {cosine}", f"{part('0')} * {sine}"]
    if x.shape[-1] == 2:
        values = [f"{values[0]} - {part('1')} * {sine}", f"{values[1]} + {part('1')} * {cosine}"]
    text.loop(loops, f"{real} = 0;", f"{imaginary} = 0;")
    text.loop({**loops, **inner}, f"{real} += {values[0]};", f"{imaginary} += {values[1]};")
    return round_sums(text, total, y)


def _stft(o: Applied) -> Value:
    x, step, window, given = o[0], o.integers(1), o.optional(2), o.integers(3)
    if x.rank == 2:
        x = x.shaped((*x.shape, 1))
    length = given[0] if given else window.count if window is not None else x.shape[1]
    if not step or x.shape[-1] != 1 or not 0 < length <= x.shape[1] or step[0] < 1:
        raise NotTaken("of such an input it has no kernel here")
    frames = (x.shape[1] - length) // step[0] + 1
    results = length // 2 + 1 if o.integer("onesided", 1) else length
    text, inside = o.text(), "f64"
    signal = text.read(x.shaped(x.shape[:2]))
    factors = text.read(known_value(_waves(o, length, length, results, -1.0), inside))
    y = text.write(x.dtype, (x.shape[0], frames, results, 2))
    total = accumulator_type(text, inside, y.shape, y)
    at, loops = axes_of(y.shape)
    (k,), inner = axes_of((length,), "k")
    value = cast(signal.term([at[0], f"{at[1]}*{step[0]} + {k}"]), inside).text
    if window is not None:
        value = f"{value} * {cast(text.read(window).term([k]), inside).text}"
    text.loop(loops, f"{total.at(at)} = 0;")
    text.loop({**loops, **inner}, f"{total.at(at)} += {value} * {factors.at([at[2], k, at[3]])};")
    return round_sums(text, total, y)


SPECTRA: Mapping[str, Lowered] = {"DFT": _dft, "STFT": _stft}
