"""Operators on quantised numbers, with scales and zero points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

import numpy as np

from isamap.graph.applied import Applied, element, known_value
from isamap.graph.graph import Array
from isamap.graph.making import KernelText, Value, axes_of
from isamap.graph.operators.data_movement import transpose_axes
from isamap.graph.operators.elementwise import Lowered, decode_numbers, encode_numbers
from isamap.graph.operators.pooling import convolve, counts_of, find_windows, tap
from isamap.graph.operators.products import multiply_matrices
from isamap.graph.terms import NotTaken, TextTerm, cast, number, wide_type
from isamap.graph.types import CODED, TYPES, stored_type
from isamap.ir import DTYPES


def _scale_axis(o: Applied, x: Value, scale: Value) -> tuple[int, int]:
    """Return a scale's axis, and how many neighbours share one scale, or (0, 0) for a single scale."""
    if scale.count == 1 and scale.rank < 2:
        return 0, 0
    axis, block = o.axis(o.integer("axis", 1), x.rank), o.integer("block_size", 0)
    if scale.rank == 1 and not block:
        if scale.count != x.shape[axis]:
            raise NotTaken(f"{scale.count} scales for {x.shape[axis]} elements")
        return axis, 1
    target = tuple(-(-size // block) if n == axis and block else size for n, size in enumerate(x.shape))
    if not block or scale.shape != target:
        raise NotTaken(f"scales {list(scale.shape)} for {list(x.shape)}")
    return axis, block


def _of(text: KernelText, value: Value, at: list[str], axis: int, block: int) -> TextTerm:
    """Return the scale or zero point of an element."""
    if block == 0:
        return element(text, value.shaped(()), ())
    if value.rank == 1:
        return text.read(value).term([at[axis]])
    index = [f"({name} / {block})" if n == axis and name != "0" else name for n, name in enumerate(at)]
    return text.read(value).term(index)


def _is_none(point: TextTerm) -> bool:
    """Return whether a zero point is always 0."""
    return point.text in (f"{point.dtype}(0)", f"{point.dtype}(0.0)")


def _less(value: TextTerm, point: TextTerm) -> str:
    """Return an integer minus its zero point, in i32."""
    wide = cast(value, "i32").text
    return wide if _is_none(point) else f"({wide} - {cast(point, 'i32').text})"


def _plus(value: str, point: TextTerm, inside: str = "f32") -> str:
    """Return a rounded number plus a zero point."""
    return value if _is_none(point) else f"({value} + {cast(point, inside).text})"


def _quantize(o: Applied) -> Value:
    x, scale, zero = o[0], o[1], o.optional(2)
    dtype = zero.dtype if zero is not None else TYPES.get(o.integer("output_dtype", 2), "")
    if not dtype or dtype == "bool":
        raise NotTaken("to that type it has no kernel here")
    if dtype in CODED:
        return _quantize_coded(o, x, scale, zero, dtype)
    axis, block = _scale_axis(o, x, scale)
    if is_reciprocal := o.has("reciprocal"):  # torch multiplies by it
        factor = o.real("reciprocal", 0.0)
        scale = known_value(np.asarray(factor), "f32") if factor else o.map("(1 / {0})", scale, inside="f64")
    precision = TYPES.get(o.integer("precision", 0), "") or (
        wide_type(scale.dtype) if DTYPES[x.dtype].is_float else "f32"
    )
    inside, known = wide_type(precision), DTYPES[dtype]

    def form(terms: Sequence[TextTerm]) -> str:
        x, by, *point = terms
        value = f"({cast(x, inside).text} {'*' if is_reciprocal else '/'} {cast(by, inside).text})"
        if known.is_float:
            most = cast(number(known.largest), inside).text
            return f"min(max({value}, -{most}), {most})" if o.integer("saturate", 1) else value
        return _plus(f"round({value}, even)", point[0], inside) if point else f"round({value}, even)"

    points = () if zero is None or known.is_float else (_in_f32(zero) if inside == "f32" else zero,)
    return _with_scales(o, (x, scale, *points), axis, block, form, dtype, inside)


def _with_scales(
    o: Applied,
    values: Sequence[Value],
    axis: int,
    block: int,
    form: Callable[[Sequence[TextTerm]], str],
    dtype: str,
    inside: str,
) -> Value:
    """Return a function of each number, its scale, and perhaps its zero point."""
    x, *others = values
    if block < 2:
        return o.formed(form, (x, *(_fit_axis(value, x.rank, axis) for value in others)), dtype, inside)
    text = o.text()
    y = text.write(dtype, x.shape, x.order)
    at, _ = axes_of(x.shape)
    terms = element(text, x, at), *(_of(text, value, at, axis, block) for value in others)
    text.loop(y.loops(at), f"{y.at(at)} = {cast(TextTerm(form(terms), inside), dtype).text};")
    return text.done()


def _quantize_coded(o: Applied, x: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """Return numbers quantised to a type that the language does not have, by way of f32 or of bytes."""
    if dtype.startswith("f"):
        quotient = _quantize(replace(o, inputs=(x, scale, known_value([0], "f32"))))
        return encode_numbers(
            o, o.map("({0} + f32(0.0))", quotient), dtype, saturate=True
        )  # the zero point makes 0 of -0
    low, high = (-2, 1) if dtype == "i2" else (0, 3)
    point = decode_numbers(o, zero) if zero is not None else known_value(np.asarray(0), stored_type(dtype))
    found = _quantize(replace(o, inputs=(x, scale, point)))
    return replace(o.map(f"min(max({{0}}, {low}), {high})", found), dtype=dtype)


def _dequantize(o: Applied) -> Value:
    x, scale, zero = o[0], o[1], o.optional(2)
    if x.dtype in CODED:
        point = decode_numbers(o, zero) if zero is not None and x.dtype in ("i2", "u2") else None
        return _dequantize(replace(o, inputs=(decode_numbers(o, x), scale, point)))
    dtype = TYPES.get(o.integer("output_dtype", 0), "") or scale.dtype
    axis, block = _scale_axis(o, x, scale)
    inside = wide_type(scale.dtype)

    def form(terms: Sequence[TextTerm]) -> str:
        value, by, *point = terms
        value = TextTerm(_less(value, point[0]), "i32") if point else value
        return f"({cast(value, inside).text} * {cast(by, inside).text})"

    points = () if zero is None or DTYPES[x.dtype].is_float else (zero,)
    return _with_scales(o, (x, scale, *points), axis, block, form, dtype, inside)


def _dynamic_quantize(o: Applied) -> tuple[Value, ...]:
    """Lower DynamicQuantizeLinear. The range includes 0, and an empty range counts as 1."""
    low, high = (o.call(op, o[0], keepdims=0) for op in ("ReduceMin", "ReduceMax"))
    extent = "(max({1}, f32(0.0)) - min({0}, f32(0.0)))"
    scale = o.map(f"(select({extent} > f32(0.0), {extent}, f32(1.0)) / f32(255.0))", low, high)
    point = "min(max(f32(0.0) - min({0}, f32(0.0)) / {1}, f32(0.0)), f32(255.0))"
    zero = o.map(f"round({point}, even)", low, scale, dtype="u8")
    return o.call("QuantizeLinear", o[0], scale, zero), scale, zero


def requantise_sums(
    o: Applied,
    total: Value,
    scales: tuple[Value, Value, Value | None],
    zero: Value | None,
    axis: int,
    offset: Value | None = None,
) -> Value:
    """Return requantised sums: times two scales, plus an offset, over a third, rounded, plus a zero point.

    Scales and the offset may differ along an axis.
    """
    scaled = tuple(_fit_axis(scale, total.rank, axis) for scale in scales if scale is not None)
    more = () if offset is None else (_fit_axis(offset, total.rank, axis),)
    known = [value.known.astype(np.float64) for value in (*scaled, *more) if value.known is not None]
    if len(known) == len(scaled) + len(more):
        by = known[2] if len(scaled) > 2 else 1.0
        more = tuple(Value.of((value / by).astype(np.float32)) for value in known[len(scaled) :])
        scaled = (Value.of((known[0] * known[1] / by).astype(np.float32)),)
    elif more and len(scaled) > 2:
        raise NotTaken("a bias in f32, and scales that are not known")

    def form(terms: Sequence[TextTerm]) -> str:
        value, *by = (cast(term, "f32").text for term in terms[: 1 + len(scaled) + len(more)])
        plus = f" + {by.pop()}" if more else ""
        factor = f"({' * '.join(by[:2])}{''.join(f' / {one}' for one in by[2:])})" if len(by) > 1 else by[0]
        found = f"{value} * {factor}{plus}"
        return found if zero is None else _plus(f"round({found}, even)", terms[-1])

    point = () if zero is None else (_in_f32(_fit_axis(zero, total.rank, axis)),)
    return o.formed(form, (total, *scaled, *more, *point), "f32" if zero is None else zero.dtype, "f32")


def _in_f32(zero: Value) -> Value:
    """Return a zero point in the type of the sum that it is added to."""
    return Value.of(zero.known.astype(np.float32)) if zero.known is not None else zero


def _fit_axis(value: Value, rank: int, axis: int) -> Value:
    """Return one number for all elements, or one for each position of an axis."""
    if value.count == 1:
        return value.shaped(())
    return value.shaped([value.count if n == axis else 1 for n in range(rank)]) if value.rank == 1 else value


def _linear_matmul(o: Applied) -> Value:
    total = multiply_matrices(o, o[0], o[3], _sum_type(o[0]), (o[2], o[5]))
    rows = max(0, total.rank - 2)
    scale, result, zero = (v and _fit_axis(v, total.rank, rows) for v in (o[1], o.optional(6), o.optional(7)))
    assert scale is not None
    return requantise_sums(o, total, (scale, o[4], result), zero, total.rank - 1)


def _sum_type(a: Value) -> str:
    """Return the type that holds sums of byte products over a row of a factor."""
    return "i32" if a.shape[-1:] < (2**31 // 256**2,) else "i64"


def _transpose_matrix(o: Applied, x: Value) -> Value:
    """Return a transposed matrix. Raises: NotTaken for other ranks."""
    if x.rank != 2:
        raise NotTaken("a factor is not a matrix")
    return Value.of(np.ascontiguousarray(x.known.T)) if x.known is not None else transpose_axes(o, x, (1, 0))


def _linear_gemm(o: Applied) -> Value:
    """Lower QGemm with `transA`, `transB` and a summand. Without a third scale, the result is f32."""
    if o.real("alpha", 1.0) != 1:
        raise NotTaken("a factor before the sums")
    a, b = (
        _transpose_matrix(o, o[n]) if o.integer(f"trans{word}", 0) else o[n]
        for n, word in ((0, "A"), (3, "B"))
    )
    onto, offset = _summands(o.optional(6))
    total = multiply_matrices(o, a, b, _sum_type(a), (o[2], o[5]), onto=onto)
    return requantise_sums(o, total, (o[1], o[4], o.optional(7)), o.optional(8), 1, offset)


def _linear_conv(o: Applied) -> Value:
    onto, offset = _summands(o.optional(8))
    total = convolve(o, o[0], o[3], onto, "i32", (o[2], o[5]))
    return requantise_sums(o, total, (o[1], o[4], o.optional(6)), o.optional(7), 1, offset)


def _summands(bias: Value | None) -> tuple[Value | None, Value | None]:
    """Return a bias as a summand of integer sums, or as one of the dequantised result. The other one is None."""
    return (None, bias) if bias is not None and DTYPES[bias.dtype].is_float else (bias, None)


def _linear_pointwise(template: str, *, is_product: bool) -> Lowered:
    """Return a lowering of an elementwise operator on two dequantised inputs, quantised again.

    With known scales, the factors or their product are divided by the result's scale at import, not at run
    time.
    """

    def lower(o: Applied) -> Value:
        a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (
            v if n in (0, 3) else v.shaped(()) for n, v in enumerate(o[n] for n in range(8))
        )
        scales = [a_scale, b_scale, scale]
        known = [v.known.astype(np.float64) for v in scales if v.known is not None]
        if len(known) == len(scales):
            by = (
                (known[0] * known[1] / known[2],)
                if is_product
                else (known[0] / known[2], known[1] / known[2])
            )
            scales = [Value.of(factor.astype(np.float32)) for factor in by]

        def form(terms: Sequence[TextTerm]) -> str:
            x, xz, y, yz, z, *by = terms
            left, right = (f"f32({_less(value, point)})" for value, point in ((x, xz), (y, yz)))
            if len(by) == 1:
                value = f"{template.format(left, right)} * {by[0].text}"
            else:
                value = template.format(f"({left} * {by[0].text})", f"({right} * {by[1].text})")
                value += f" / {by[2].text}" if len(by) > 2 else ""
            return _plus(f"round({value}, even)", z)

        return o.formed(form, (a, a_zero, b, b_zero, _in_f32(zero), *scales), zero.dtype, "f32")

    return lower


def _means(o: Applied, total: Value, counts: Array) -> Value:
    """Return sums divided by their element counts and requantised, with exact halves."""
    scale, result, zero = (o[n].shaped(()) for n in (1, 3, 4))
    zero, dtype = _in_f32(zero), zero.dtype
    scales: tuple[Value, ...] = (scale, result)
    if scale.known is not None and result.known is not None:
        scales = (Value.of((scale.known.astype(np.float64) / result.known).astype(np.float32)),)

    def form(terms: Sequence[TextTerm]) -> str:
        value, count, *by = (cast(term, "f32").text for term in (*terms[:2], *terms[3:]))
        return _plus(f"round({value} * {' / '.join(by)} / {count}, even)", terms[2])

    return o.formed(form, (total, known_value(counts, "f32"), zero, *scales), dtype, "f32")


def _linear_mean(o: Applied, axes: Collection[int]) -> Value:
    """Return means over reduced axes, with sums in i32, requantised."""
    x, zero = o[0], o[2]
    count = prod(x.shape[n] for n in axes)
    if not count:
        raise NotTaken("a mean of no elements")
    text = o.text()
    total = text.write("i32", [1 if n in axes else size for n, size in enumerate(x.shape)])
    at, loops = axes_of(x.shape)
    kept = ["0" if n in axes else name for n, name in enumerate(at)]
    point = element(text, zero.shaped(()), ())
    start = "i32(0)" if _is_none(point) else f"i32(0) - i32({count}) * {cast(point, 'i32').text}"
    if zero.known is not None and zero.known.dtype.kind in "iu":
        start = f"i32({-count * int(zero.known.reshape(-1)[0])})"
    text.loop(total.loops(kept), f"{total.at(kept)} = {start};")
    text.loop(loops, f"{total.at(kept)} += {cast(text.read(x).term(at), 'i32').text};")
    return _means(o, text.done(), np.asarray(count))


def _linear_global_average(o: Applied) -> Value:
    if o.integer("channels_last", 0) or o[0].rank < 3:
        raise NotTaken("channels after the image, or no image")
    return _linear_mean(o, range(2, o[0].rank))


def _linear_reduce_mean(o: Applied) -> Value:
    x = o[0]
    axes = {o.axis(axis, x.rank) for axis in o.list("axes") or range(x.rank)}
    y = _linear_mean(o, axes)
    kept = [size for n, size in enumerate(x.shape) if n not in axes]
    return y if o.integer("keepdims", 1) else y.shaped(kept)


def _linear_average_pool(o: Applied) -> Value:
    """Lower QLinearAveragePool. Elements beyond the image are read as the zero point."""
    if o.integer("channels_last", 0):
        raise NotTaken("channels after the image")
    x, found = find_windows(o)
    text = o.text()
    total = text.write("i32", (*x.shape[:2], *found.result), x.order)
    zero = element(text, o[2].shaped(()), ())
    at, loops, pixel, inner = tap(text, x, total, found, zero.text)
    text.loop(loops, f"{total.at(at)} = 0;")
    text.loop({**loops, **inner}, f"{total.at(at)} += {_less(TextTerm(pixel, x.dtype), zero)};")
    counts = counts_of(o, found, counts_padding=bool(o.integer("count_include_pad", 0)))
    return _means(o, text.done(), reduce(np.multiply.outer, counts, np.ones((1, 1))))


QUANTISED: Mapping[str, Lowered] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QLinearMatMul": _linear_matmul,
    "QLinearConv": _linear_conv,
}

BYTES: Mapping[str, Lowered] = {
    "QLinearMatMul": _linear_matmul,
    "QLinearConv": _linear_conv,
    "QGemm": _linear_gemm,
}
"""Products of bytes, also with a bias in f32, and in f32 if they have no scale of the result."""

OF_RUNTIMES: Mapping[str, Lowered] = {
    "QGemm": _linear_gemm,
    "QLinearAdd": _linear_pointwise("({0} + {1})", is_product=False),
    "QLinearMul": _linear_pointwise("({0} * {1})", is_product=True),
    "DequantizeLinear": _dequantize,
    "QLinearAveragePool": _linear_average_pool,
    "QLinearGlobalAveragePool": _linear_global_average,
    "QLinearReduceMean": _linear_reduce_mean,
    "QuantizeLinear": _quantize,
}
"""Operators of the domain `com.microsoft`, by their definitions in onnxruntime's ContribOperators.md."""
