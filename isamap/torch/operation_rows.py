"""Rows for torch operations: each takes a call, and returns the name of its result, or of its results.

hardsigmoid(x)      HardSigmoid(x, alpha=1/6, beta=0.5)

An operation whose decomposition by torch is as good as a row is translated as the calls that it consists of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from isamap.graph.quantising import RUNTIMES, join_bits
from isamap.graph.terms import NotTaken, wide_type
from isamap.ir import DTYPES, OPS
from isamap.torch.attention_rows import ATTENTION
from isamap.torch.calls import OWN, AtenCall, Row, decompose_call, in_wide, name_rows, type_of
from isamap.torch.element_places import PLACES, PLACES_OF_SEVERAL
from isamap.torch.fx_nodes import TYPES, first_of, is_view, name_of, outside_tracing, traced_value

# --- operations on single elements ---


def _inside(c: AtenCall, values: Iterable[Any]) -> str:
    """Return the type in which torch combines terms. It is wider than a narrow float that lacks the numbers."""

    def fits(value: Any) -> bool:
        if hasattr(value, "meta"):
            return value.meta["val"].dim() > 0 or type_of(value) == c.dtype
        with np.errstate(over="ignore"):
            return float(np.asarray(value).astype(DTYPES[c.dtype].numpy())) == float(value)

    return c.dtype if wide_type(c.dtype) == c.dtype or all(map(fits, values)) else wide_type(c.dtype)


def _elementwise_row(op: str, of_truths: str = "", domain: str = "") -> Row:
    """Return a row for an elementwise operator on one type."""

    def row(c: AtenCall) -> str:
        values = [value for name, value in c.given.items() if name in ("self", "other", "exponent")]
        if c.dtype == "bool":
            if not of_truths:
                raise NotTaken("truths")
            return c(of_truths, *map(c.term, values))
        alpha = c.given.get("alpha", 1)
        dtype = _inside(c, values) if alpha == 1 else wide_type(c.dtype)
        terms = [c.term(value, dtype) for value in values]
        if alpha != 1:
            terms[1] = c("Mul", terms[1], c.rounded(alpha, dtype))
        return c.cast(c(op, *terms, domain=domain), dtype, c.dtype)

    return row


def _compare_by(op: str, *, negated: bool = False) -> Row:
    def row(c: AtenCall) -> str:
        torch: Any = import_module("torch")
        values = [traced_value(value) for value in c.terms]
        dtype = TYPES[str(torch.result_type(*values))]
        dtype = "u8" if dtype == "bool" and op != "Equal" else dtype
        found = c(op, *(c.term(value, dtype) for value in c.terms))
        return c("Not", found) if negated else found

    return row


def _logical(op: str) -> Row:
    return lambda c: c(op, *(c.term(value, "bool") for value in c.terms))


def _bits(op: str, of_truths: str) -> Row:
    return lambda c: c(of_truths if c.dtype == "bool" else op, *map(c.term, c.terms))


def _shift_by(direction: str) -> Row:
    """Return a row for a shift by any number. A shift by at least the width yields no bits of the operand."""

    def row(c: AtenCall) -> str:
        known = DTYPES[c.dtype]
        value, by = map(c.term, c.terms)
        most, none = c.number(known.bits - 1), c.number(0)
        beyond = c("Or", c("Greater", by, most), c("Less", by, none))
        last = c("BitShift", value, most, direction="RIGHT") if direction == "RIGHT" else none
        return c.where(beyond, last, c("BitShift", value, c("Clip", by, none, most), direction=direction))

    return row


def _clip(c: AtenCall) -> str:
    """Return a value clamped to bounds, which are numbers or tensors."""
    bounds = [c.given.get(name) for name in ("min", "max")]
    if not any(hasattr(bound, "meta") for bound in bounds):
        return c("Clip", c.x, *("" if bound is None else c.number(bound) for bound in bounds))
    found = c.x
    for op, bound in zip(("Max", "Min"), bounds, strict=True):
        found = found if bound is None else c(op, found, c.term(bound))
    return found


def _remainder(c: AtenCall) -> str:
    a, b = (c.term(value) for value in c.terms)
    return c("Mod", a, b, fmod=int(name_of(c.node).startswith("fmod")))


def _divide(c: AtenCall) -> str:
    """Return a quotient with the given rounding. The mode `floor` is that of Python."""
    mode = c.given.get("rounding_mode", "floor")
    a, b = (c.term(value) for value in c.terms[:2])
    quotient = c("Div", a, b)
    if mode is None or (mode == "trunc" and DTYPES[c.dtype].is_integer):
        return quotient
    if mode == "trunc":  # torch rounds a narrow quotient before
        narrow = type_of(first_of(c.node))
        return c("Trunc", c.cast(c.cast(quotient, c.dtype, narrow), narrow, c.dtype), domain=OWN)
    zero, rest = c.number(0), c("Mod", a, b, fmod=1)
    other = c("And", c("Not", c("Equal", rest, zero)), c("Xor", c("Less", rest, zero), c("Less", b, zero)))
    if DTYPES[c.dtype].is_integer:
        return c("Sub", quotient, c.where(other, c.number(1), zero))
    whole = c("Round", c("Div", c("Sub", a, rest), b))
    return c.where(c("Equal", b, zero), quotient, c.where(other, c("Sub", whole, c.number(1)), whole))


def _round_row(c: AtenCall) -> str:
    factor = c.number(10.0 ** abs(c.given.get("decimals", 0)))
    ops = ("Mul", "Div") if c.given.get("decimals", 0) >= 0 else ("Div", "Mul")
    return c(ops[1], c("Round", c(ops[0], c.x, factor)), factor)


def _of_floats(row: Row) -> Row:
    """Return a row that leaves integers unchanged."""
    return lambda c: row(c) if DTYPES[c.dtype].is_float else c.x


def _choose(c: AtenCall) -> str:
    condition, one, other = c.terms
    return c.where(c.term(condition, "bool"), c.term(one), c.term(other))


def _mask(c: AtenCall) -> str:
    return c.where(c.term(c["mask"], "bool"), c.term(c["value"]), c.x)


def _elu(c: AtenCall) -> str:
    power = c("Expm1", c.scaled(c.x, c["input_scale"]), domain=OWN)
    below = c.scaled(power, float(c["alpha"]) * float(c["scale"]))
    return c.where(c("Greater", c.x, c.number(0)), c.scaled(c.x, c["scale"]), below)


def _in_base(base: float) -> Row:
    return in_wide(lambda c: c("Mul", c("Log", c.x), c.number(1 / math.log(base))), "f64")


def _sign(c: AtenCall) -> str:
    """Return the sign, which torch defines as 0 for NaN."""
    return (
        c.where(c("IsNaN", c.x), c.number(0), c("Sign", c.x)) if DTYPES[c.dtype].is_float else c("Sign", c.x)
    )


def _ignore_nan(op: str) -> Row:
    """Return a row for a minimum or maximum that ignores NaN."""

    def row(c: AtenCall) -> str:
        a, b = map(c.term, c.terms)
        if not DTYPES[c.dtype].is_float:
            return c(op, a, b)
        return c.where(c("IsNaN", a), b, c.where(c("IsNaN", b), a, c(op, a, b)))

    return row


def _test(op: str, **attributes: Any) -> Row:
    """Return a row for a test on floats that is false for all integers."""

    def row(c: AtenCall) -> str:
        dtype = type_of(c.terms[0])
        return c(op, c.term(c.terms[0], dtype if DTYPES[dtype].is_float else "f32"), **attributes)

    return row


def _fill(c: AtenCall) -> str:
    """Return a tensor filled with one number."""
    default = c.given.get("s", 1 if "ones" in name_of(c.node) else 0)
    value = c.given.get("fill_value", c.given.get("value", default))
    return c.expanded(c.term(value), *c.shape)


MOST_OF_RANGE = 1 << 16
"""The most numbers of a range that become a constant of the library."""


def _range(c: AtenCall) -> str:
    """Return the numbers of a range as a constant."""
    if c.shape[0] > MOST_OF_RANGE:
        raise NotTaken(f"a range of {c.shape[0]} numbers, of which at most {MOST_OF_RANGE} become a constant")
    return c.numbers(c.given.get("start", 0) + c.given.get("step", 1) * np.arange(c.shape[0]), c.dtype)


def _bucket(c: AtenCall) -> str:
    """Return, for each element, the number of bounds below it."""
    rank, dtype = len(c.sizes), type_of(c["self"])
    bounds = c.term(c["boundaries"], dtype)
    x = c.shaped(c.term(c["self"], dtype), *c.sizes, 1)
    below = c("Not", c("Less", x, bounds)) if c["right"] else c("Not", c("LessOrEqual", x, bounds))
    return c.reduced("ReduceSum", c.cast(below, "bool", c.dtype), [rank])


# --- reductions ---


def _reduce_by(op: str) -> Callable[[AtenCall], str]:
    def row(c: AtenCall) -> str:
        axes, rank = c.axes() if "dim" in c.given else list(range(len(c.sizes))), len(c.sizes)
        keeps = bool(c.given.get("keepdim", False))
        if op == "ReduceMean" and keeps and rank > 2 and axes == list(range(2, rank)):
            return c("GlobalAveragePool", c.x)
        return c.reduced(op, c.x, axes, keeps=keeps)

    return row


def _arg(op: str) -> Row:
    """Return a row for the position of an extreme, over all elements if no axis is given."""

    def row(c: AtenCall) -> str:
        return _place(c, op, None if c["dim"] is None else c.axis())

    return row


def _place(c: AtenCall, op: str, axis: int | None) -> str:
    dtype = type_of(c.terms[0])
    x = c.term(c.terms[0], "u8" if dtype == "bool" else dtype)
    if axis is None or not c.sizes:
        x, axis = c.shaped(x, prod(c.sizes)), 0
    return c.shaped(c(op, x, axis=axis), *c.shape)


def _extreme(word: str) -> Row:
    """Return a row for extremes along an axis and their positions."""

    def row(c: AtenCall) -> tuple[str, ...]:
        values = c.reduced(f"Reduce{word}", c.x, [c.axis()] if c.sizes else [], keeps=bool(c["keepdim"]))
        return values, _place(c, f"Arg{word}", c.axis()) if c.wants(1) else ""

    return row


def _spread(*, is_root: bool, has_mean: bool) -> Row:
    """Return a row for variances or standard deviations, optionally with the means."""

    def row(c: AtenCall) -> str | tuple[str, ...]:
        result, c.dtype = c.dtype, wide_type(c.dtype)
        axes, keeps = c.axes(), bool(c["keepdim"])
        correction = 1 if c["correction"] is None else c["correction"]
        mean = c.reduced("ReduceMean", c.x, axes, keeps=True)
        apart = c("Sub", c.x, mean)
        count = prod(c.sizes[axis] for axis in axes)
        divisor = c.number(max(float(count - correction), 0.0))
        found = c("Div", c.reduced("ReduceSum", c("Mul", apart, apart), axes, keeps=keeps), divisor)
        found = c.cast(c("Sqrt", found) if is_root else found, c.dtype, result)
        return (found, c.cast(c.shaped(mean, *c.shape), c.dtype, result)) if has_mean else found

    return row


def _norm(c: AtenCall) -> str:
    """Return a vector norm of any order."""
    return _norm_of(c, c.x, float(c["ord"]), c.axes(), keeps=bool(c["keepdim"]))


def _norm_of(c: AtenCall, x: str, order: float, axes: Sequence[int], *, keeps: bool = False) -> str:
    simple = {1.0: "ReduceL1", 2.0: "ReduceL2", math.inf: "ReduceMax", -math.inf: "ReduceMin"}
    if order in simple:
        return c.reduced(simple[order], c("Abs", x) if math.isinf(order) else x, axes, keeps=keeps)
    if order == 0:
        there = c("Not", c("Equal", x, c.number(0)))
        return c.reduced("ReduceSum", c.cast(there, "bool", c.dtype), axes, keeps=keeps)
    total = c.reduced("ReduceSum", c("Pow", c("Abs", x), c.number(order)), axes, keeps=keeps)
    return c("Pow", total, c.number(1 / order))


def _distances(c: AtenCall) -> str:
    one, other = (c("Unsqueeze", c.term(c[name]), c.to.integers(at)) for name, at in (("x1", -2), ("x2", -3)))
    return _norm_of(c, c("Sub", one, other), float(c["p"]), [len(c.shape)])


def _softmax(op: str) -> Row:
    def row(c: AtenCall) -> str:
        x = c.x if c.sizes else c.shaped(c.x, 1)
        found = c(op, x, axis=c.axis(), rounds_once=1)
        return found if c.sizes else c.shaped(found)

    return row


def _cumulate_by(op: str) -> Row:
    return lambda c: c(op, c.x, c.to.integers(c.axis())) if c.sizes else c.x


# --- products and norms ---


def for_each_axis(numbers: Sequence[int], count: int) -> list[int]:
    """Return a stride, padding or dilation for each axis. torch allows one number for all axes."""
    return list(numbers) * count if len(numbers) == 1 else list(numbers)


def _convolution(c: AtenCall) -> str:
    count = len(c.shape) - 2
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, more = (tuple(for_each_axis(c[name], count)) for name in names)
    terms = [c.term(c[name]) for name in ("input", "weight", "bias") if c[name] is not None]
    attributes: dict[str, Any] = {
        "strides": stride, "pads": (*padding, *padding), "dilations": dilation, "group": c["groups"],
    }  # fmt: skip
    if c["transposed"]:
        return c("ConvTranspose", *terms, **attributes, output_padding=more)
    return c("Conv", *terms, **attributes)


def _dot(c: AtenCall) -> str:
    row, column = (
        c.shaped(c.term(value), *sizes) for value, sizes in zip(c.terms, ((1, -1), (-1, 1)), strict=True)
    )
    return c.shaped(c("MatMul", row, column))


def _product(c: AtenCall) -> str:
    weights = _blocks_of(c, c.terms[1]) if name_of(c.node) == "mm.default" else None
    return c("MatMul", *map(c.term, c.terms)) if weights is None else _multiply_blocks(c, c.terms[0], weights)


_Blocks = tuple[Any, Any, Any]
"""Codes by column, block and place, and zero points and scales by column and block: (code - point) * scale."""
MOST_CODES = 16
"""The most different codes that are not bytes."""
ROUNDED = 2.0**-6
"""The largest relative difference of a matrix from its codes: in bf16, torch has rounded three times."""


def _blocks_of(c: AtenCall, matrix: Any) -> _Blocks | None:
    """Return the codes of at most four bits from which torch computes a known matrix, or None.

    torchao writes it as (code - point) * scale, of codes and points in i8.
    """

    def maker(node: Any, op: str) -> Any:
        while hasattr(node, "op") and (is_view(node) or name_of(node) == "clone.default"):
            node = node.args[0]
        return node if hasattr(node, "op") and name_of(node).partition(".")[0] == op else None

    if c.dtype == "f64" or matrix not in c.to.known or (product := maker(matrix, "mul")) is None:
        return None
    difference = maker(product.args[0], "sub")
    parts = [maker(value, "_to_copy") for value in difference.args] if difference is not None else [None]
    given: list[Any] = [part and c.to.array(part.args[0]) for part in parts] + [c.to.array(product.args[1])]
    if any(array is None for array in given):
        return None
    codes, points, scales = given
    columns, depth = traced_value(matrix).shape[::-1]
    shape = codes.shape if codes.ndim == 3 else (columns, 1, depth)
    sizes = codes.size, points.size, scales.size
    if (
        codes.dtype != np.int8
        or shape[0] != columns
        or sizes != (columns * depth, *[columns * shape[1]] * 2)
        or shape[2] % 8
    ):
        return None
    points, scales = (x.reshape(columns, -1).astype(np.float32) for x in (points, scales))
    codes = codes.reshape(columns, -1, shape[2])
    real = ((codes - points[..., None]) * scales[..., None]).reshape(columns, depth).T
    is_same = np.allclose(real, c.to.array(matrix).astype(np.float32), ROUNDED)
    return (codes, points, scales) if is_same and np.ptp(codes.astype(np.int16)) < MOST_CODES else None


def _multiply_blocks(c: AtenCall, x: Any, weights: _Blocks, bias: str = "") -> str:
    """Return rows times weights in blocks whose codes stay in four bits."""
    codes, points, scales = weights
    low, (columns, blocks, size) = codes.min(), codes.shape
    joined = (codes.astype(np.int16) - low).astype(np.uint8).reshape(columns, blocks, -1)
    points = points - np.float32(low)
    if np.array_equal(points, points.clip(0, MOST_CODES - 1).round()):
        points = join_bits(np.pad(points.astype(np.uint8), ((0, 0), (0, blocks % 2))), 4)
    terms = (c.to.constant(array) for array in (join_bits(joined, 4), scales.reshape(-1), points))
    sizes = {"K": blocks * size, "N": columns, "block_size": size, "bits": 4}
    return c("MatMulNBits", c.term(x), *terms, *(("", bias) if bias else ()), domain=RUNTIMES, **sizes)


def _packed_by_torch(c: AtenCall) -> str:
    """Return a product with weights of four bits in the layout of torch's own product, which only torch knows.

    Torch's product of the unit matrix with the same codes, scales of 1 and zero points of 0 is the codes, exactly.
    """
    packed, scales = (c.to.known.get(c[name]) for name in ("mat2", "qScaleAndZeros"))
    if packed is None or scales is None:
        raise NotTaken("weights that are not known before the call: use `pack`")
    torch: Any = import_module("torch")
    with outside_tracing():
        ones = torch.zeros_like(scales)
        ones[..., 0] = 1
        unit = torch.eye(c.sizes[1], dtype=scales.dtype)
        codes = c.node.target(unit, packed, c["qGroupSize"], ones).T.to(torch.int8)
        by, zeros = (part.T.float().numpy() for part in scales.unbind(-1))
    by = np.where(by == 0, np.float32(LEAST_SCALE), by)
    codes = codes.numpy().reshape(*by.shape, -1)
    return _multiply_blocks(c, c["self"], (codes, -zeros / by, by))


LEAST_SCALE = 1e-30
"""A scale in place of 0, whose weights are their zero points."""


def _onto(c: AtenCall) -> str:
    """Return a product times alpha plus a summand times beta."""
    summand, one, other = c.terms[:3]
    alpha, beta = c["alpha"], c["beta"]
    if name_of(c.node) == "addmm.default" and alpha == beta == 1:
        if (weights := _blocks_of(c, other)) is not None and len(traced_value(summand).shape) == 1:
            return _multiply_blocks(c, one, weights, c.term(summand))
        return c("Gemm", c.term(one), c.term(other), c.term(summand))
    found = c.scaled(c("MatMul", c.term(one), c.term(other)), alpha)
    return found if beta == 0 else c("Add", found, c.scaled(c.term(summand), beta))


def _layer_norm(c: AtenCall) -> tuple[str, ...]:
    result, sizes = c.dtype, c["normalized_shape"]
    given = [c[name] for name in ("input", "weight", "bias") if c[name] is not None]
    c.dtype = result if all(type_of(value) == result for value in given) else wide_type(result)
    gain, shift = c["weight"], c["bias"]
    scale = c.term(gain) if gain is not None else c.numbers(np.ones(tuple(sizes)), c.dtype)
    terms = [c.x, scale, *([c.term(shift)] if shift is not None else [])]
    count = 3 if c.wants(1) or c.wants(2) else 1
    names = c("LayerNormalization", *terms, results=count, axis=-len(sizes), epsilon=float(c["eps"]))
    if count == 1:
        return c.cast(names, c.dtype, result), "", ""
    found, *rest = names
    types = [TYPES[str(value.dtype)] for value in c.node.meta["val"][1:]]
    return c.cast(found, c.dtype, result), *(
        c.cast(name, wide_type(c.dtype), dtype) for name, dtype in zip(rest, types, strict=True)
    )


def _group_norm(c: AtenCall) -> str | tuple[str, ...]:
    if c.wants(1) or c.wants(2):
        return decompose_call(c)
    result, c.dtype = c.dtype, wide_type(c.dtype)
    batch, channels, groups = c.sizes[0], c.sizes[1], c["group"]
    rows = c.shaped(c.x, batch, groups, -1)
    ones = c.numbers(np.ones(prod(c.sizes[1:]) // groups), c.dtype)
    found = c.shaped(c("LayerNormalization", rows, ones, axis=-1, epsilon=float(c["eps"])), *c.sizes)
    for op, name in (("Mul", "weight"), ("Add", "bias")):
        if c[name] is not None:
            found = c(op, found, c.shaped(c.term(c[name]), channels, *(1 for _ in c.sizes[2:])))
    return c.cast(found, c.dtype, result), "", ""


# --- windows ---


def _windows(c: AtenCall) -> tuple[str, dict[str, Any], int]:
    """Return an image with a batch axis, the attributes of its windows, and its number of axes."""
    rank = int(name_of(c.node).partition("pool")[2][0])
    window, stride, padding = (
        for_each_axis(c[name] or c["kernel_size"], rank) for name in ("kernel_size", "stride", "padding")
    )
    if c["padding"] in (0, [], [0]):
        padding = [0] * rank
    attributes: dict[str, Any] = {
        "kernel_shape": tuple(window), "strides": tuple(stride), "pads": (*padding, *padding),
        "ceil_mode": int(c["ceil_mode"]),
    }  # fmt: skip
    image = c.shaped(c.x, 1, *c.sizes) if len(c.sizes) == rank + 1 else c.x
    return image, attributes, rank


def _max_pool(c: AtenCall) -> tuple[str, ...]:
    image, attributes, rank = _windows(c)
    dilations = tuple(for_each_axis(c["dilation"], rank))
    if not c.wants(1):
        found = c("MaxPool", image, **attributes, dilations=dilations)
        return c.shaped(found, *c.shape) if image != c.x else found, ""
    found, places = c("MaxPool", image, results=2, **attributes, dilations=dilations)
    plane = c.number(prod(c.sizes[-rank:]), "i64")
    return c.shaped(found, *c.shape), c.shaped(c("Mod", places, plane), *c.shape)


def _average_pool(c: AtenCall) -> str:
    image, attributes, _ = _windows(c)
    divisor = c["divisor_override"]
    if divisor and c["ceil_mode"]:
        raise NotTaken("a divisor for windows that end outside")
    counts = int(bool(divisor) or c["count_include_pad"])
    found = c.shaped(c("AveragePool", image, **attributes, count_include_pad=counts), *c.shape)
    return c.scaled(found, prod(attributes["kernel_shape"]) / divisor) if divisor else found


def _adaptive_pool(c: AtenCall) -> str | tuple[str, ...]:
    rank = len(c["output_size"])
    if any(size % wanted for size, wanted in zip(c.sizes[-rank:], c["output_size"], strict=True)):
        return decompose_call(c)
    window = tuple(size // wanted for size, wanted in zip(c.sizes[-rank:], c["output_size"], strict=True))
    image = c.shaped(c.x, *((1,) if len(c.sizes) == rank + 1 else ()), *c.sizes)
    return c.shaped(c("AveragePool", image, kernel_shape=window, strides=window), *c.shape)


def _average_pool_gradient(c: AtenCall) -> str:
    """Return the gradient of an average pool: each gradient, over its count, is added to all places of its window."""
    grads, attributes, rank = _windows(c)
    sizes, window, counts = (
        tuple(c["self"].meta["val"].shape)[-rank:],
        attributes["kernel_shape"],
        np.ones(()),
    )
    result, c.dtype, pads = c.dtype, wide_type(c.dtype), list(attributes["pads"])
    for axis, (size, count) in enumerate(zip(sizes, c.sizes[-rank:], strict=True)):
        k, s, pad = window[axis], attributes["strides"][axis], pads[axis]
        start = np.arange(count) * s - pad
        end = np.minimum(start + k, size + pad)
        within = np.minimum(end, size) - np.maximum(start, 0)
        counts = np.multiply.outer(counts, end - start if c["count_include_pad"] else within)
        pads[rank + axis] = (count - 1) * s + k - pad - size
    shares = c.numbers(1 / (c["divisor_override"] or counts), c.dtype)
    grads = c.shaped(c("Mul", c.cast(grads, result, c.dtype), shares), -1, 1, *c.sizes[-rank:])
    ones = c.numbers(np.ones((1, 1, *window)), c.dtype)
    found = c("ConvTranspose", grads, ones, strides=attributes["strides"], pads=tuple(pads))
    return c.cast(c.shaped(found, *c.shape), c.dtype, result)


def _adaptive_pool_gradient(c: AtenCall) -> str:
    """Return the gradient of an adaptive average pool, axis by axis."""
    rank = 3 if "3d" in name_of(c.node) else 2
    result, c.dtype, sizes = c.dtype, wide_type(c.dtype), list(c.sizes)
    found = c.x
    for axis in range(len(sizes) - rank, len(sizes)):
        count, size = sizes[axis], c.shape[axis]
        before, behind = prod(sizes[:axis]), prod(sizes[axis + 1 :])
        if size % count:
            shares = np.zeros((size, count))
            for n in range(count):
                first, end = n * size // count, -(-(n + 1) * size // count)
                shares[first:end, n] = 1 / (end - first)
            found = c("MatMul", c.numbers(shares, c.dtype), c.shaped(found, before, count, behind))
        else:
            found = c.expanded(
                c.shaped(found, before, count, 1, behind), before, count, size // count, behind
            )
            found = c.scaled(found, count / size)
        sizes[axis] = size
    return c.cast(c.shaped(found, *c.shape), c.dtype, result)


# --- quantised numbers, as `quantized_decomposed` of torch.export has them ---


def _quantise(c: AtenCall) -> str:
    """Return a value divided by a scale, rounded, shifted by a zero point, and clamped."""
    scale, zero, low, high = (c[name] for name in ("scale", "zero_point", "quant_min", "quant_max"))
    factor = 0.0 if hasattr(scale, "meta") else float(np.float32(1.0 / scale))
    terms = c.term(c["input"], "f32"), c.parameter(scale, "f32"), c.parameter(zero, c.dtype)
    found, known = c("QuantizeLinear", *terms, reciprocal=factor), DTYPES[c.dtype]
    return (
        found if (low, high) == (known.low, known.high) else c("Clip", found, c.number(low), c.number(high))
    )


def _real(c: AtenCall) -> str:
    """Return dequantised integers. There is one scale, or one for each position along an axis."""
    of, scale = type_of(c["input"]), c["scales"] if "scales" in c.given else c["scale"]
    zero = c.given.get("zero_points", c.given.get("zero_point"))
    if c.dtype != "f32" or ("scales" in c.given and type_of(scale) != "f32"):
        raise NotTaken("scales or results that are not in f32")
    axis: dict[str, Any] = {"axis": c["axis"]} if "scales" in c.given else {"bytes": of}
    point = c.parameter(zero, of) if zero is not None else c.numbers(np.zeros(traced_value(scale).shape), of)
    return c("DequantizeLinear", c.to.name(c["input"]), c.parameter(scale, "f32"), point, **axis)


def _chosen_scale(c: AtenCall) -> tuple[str, ...]:
    """Return a scale and a zero point for the range of a tensor's values."""
    c.dtype, lowest, highest = "f32", c["quant_min"], c["quant_max"]
    low, high = (
        c(word, c.reduced(f"Reduce{word}", c.x, list(range(len(c.sizes)))), c.number(0))
        for word in ("Min", "Max")
    )
    scale = c("Max", c("Div", c("Sub", high, low), c.number(highest - lowest)), c.number(c["eps"]))
    zero = c("Sub", c.number(lowest), c("Round", c("Div", low, scale)))
    zero = c("Clip", zero, c.number(lowest), c.number(highest))
    return c.shaped(c.cast(scale, "f32", "f64"), 1), c.shaped(c.cast(zero, "f32", "i64"), 1)


_QUANTISED: Mapping[str, Row] = {
    f"quantized_decomposed.{name}": row
    for row, names in (
        (_quantise, ("quantize_per_tensor.default", "quantize_per_tensor.tensor")),
        (
            _real,
            (
                "dequantize_per_tensor.default",
                "dequantize_per_tensor.tensor",
                "dequantize_per_channel.default",
            ),
        ),
        (_chosen_scale, ("choose_qparams.tensor",)),
    )
    for name in names
}


# --- the table ---


_ELEMENTS: Mapping[str, Row] = {
    **{
        f"{name}.{form}": _elementwise_row(onnx, {"Max": "Or", "Add": "Or", "Min": "And", "Mul": "And"}.get(onnx, ""))
        for op in OPS.values() if op.domain == "number" and op.result == "same"
        for name, onnx in zip(op.aten, op.onnx, strict=False) if name and onnx
        for form in (("Tensor", "Scalar", "default") if op.arity > 1 else ("default",))
    },
    **{f"{name}.default": _elementwise_row(op) for name, op in (
        ("mish", "Mish"), ("asinh", "Asinh"), ("acosh", "Acosh"), ("atanh", "Atanh"),
    )},
    **{f"{name.lower()}.default": _elementwise_row(name, domain=OWN) for name in ("Log1p", "Expm1", "Atan2")},
    **{f"{name.lower()}.default": _of_floats(_elementwise_row(name)) for name in ("Ceil", "Floor", "Round")},
    **{f"logical_{op.lower()}.default": _logical(op) for op in ("And", "Or", "Xor", "Not")},
    **{
        f"bitwise_{op.lower()}.{form}": _bits(f"Bitwise{op}", op)
        for op in ("And", "Or", "Xor", "Not") for form in ("Tensor", "Scalar", "default")
    },
    **{f"{name}.{form}": _compare_by(op) for form in ("Tensor", "Scalar") for name, op in (
        ("lt", "Less"), ("le", "LessOrEqual"), ("gt", "Greater"), ("ge", "GreaterOrEqual"), ("eq", "Equal"),
    )},
    **name_rows(
        (_compare_by("Equal", negated=True), "ne.Tensor ne.Scalar"),
        (_of_floats(_elementwise_row("Trunc", domain=OWN)), "trunc"),
        (_of_floats(in_wide(_round_row)), "round.decimals"),
        (_elementwise_row("Pow"), "pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar"),
        (in_wide(lambda c: c("Exp", c.scaled(c.x, math.log(2))), "f64"), "exp2"),
        (_in_base(2), "log2"),
        (_in_base(10), "log10"),
        (lambda c: c("PRelu", c.x, c.term(c["weight"])), "_prelu_kernel"),
        (in_wide(_elu), "elu"),
        (_clip, "clamp clamp.Tensor clamp_min clamp_min.Tensor clamp_max clamp_max.Tensor"),
        (in_wide(_divide), "div.Tensor_mode div.Scalar_mode floor_divide floor_divide.Scalar"),
        (_remainder, "remainder.Tensor remainder.Scalar fmod.Tensor fmod.Scalar"),
        (_shift_by("LEFT"), "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar"),
        (_shift_by("LEFT"), "__lshift__.Scalar __lshift__.Tensor"),
        (_shift_by("RIGHT"), "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar"),
        (_shift_by("RIGHT"), "__rshift__.Scalar __rshift__.Tensor"),
        (_sign, "sign sgn"),
        (_test("IsNaN"), "isnan"),
        (_test("IsInf"), "isinf"),
        (_test("IsInf", detect_negative=0), "isposinf"),
        (_test("IsInf", detect_positive=0), "isneginf"),
        (_ignore_nan("Max"), "fmax"),
        (_ignore_nan("Min"), "fmin"),
        (_choose, "where.self"),
        (_mask, "masked_fill.Scalar masked_fill.Tensor"),
        (lambda c: c.x, "_to_copy clone alias detach lift_fresh_copy convert_element_type"),
        (_fill, "full_like zeros_like ones_like empty_like new_full new_zeros new_ones new_empty"),
        (_fill, "fill.Scalar fill.Tensor zero zeros ones full scalar_tensor"),
        (_range, "arange arange.start arange.start_step"),
        (lambda c: c.expanded(c.term(c["src"]), *c.shape), "copy"),
        (_bucket, "bucketize.Tensor"),
        (decompose_call, """addcmul addcdiv lerp.Scalar lerp.Tensor celu selu frac glu hardshrink softshrink logit
            threshold nan_to_num heaviside sinc logaddexp logaddexp2 xlogy.Tensor xlogy.Scalar_Other
            xlogy.Scalar_Self special_entr mse_loss smooth_l1_loss huber_loss binary_cross_entropy
            binary_cross_entropy_with_logits binary_cross_entropy_backward smooth_l1_loss_backward
            huber_loss_backward elu_backward glu_backward hardsigmoid_backward leaky_relu_backward
            log_sigmoid_backward logit_backward mish_backward softplus_backward"""),
    ),
}  # fmt: skip

_SUMS: Mapping[str, Row] = name_rows(
    (_reduce_by("ReduceMean"), "mean mean.dim"),
    (_reduce_by("ReduceSum"), "sum sum.dim_IntList"),
    (_reduce_by("ReduceMax"), "amax max"),
    (_reduce_by("ReduceMin"), "amin min"),
    (_reduce_by("ReduceProd"), "prod prod.dim_int"),
    (_reduce_by("ReduceLogSumExp"), "logsumexp"),
    (in_wide(_reduce_by("ReduceMax"), "bool"), "any any.dim any.dims"),
    (in_wide(_reduce_by("ReduceMin"), "bool"), "all all.dim all.dims"),
    (_arg("ArgMax"), "argmax"),
    (_arg("ArgMin"), "argmin"),
    (_spread(is_root=False, has_mean=False), "var.correction"),
    (_spread(is_root=True, has_mean=False), "std.correction"),
    (in_wide(_norm), "linalg_vector_norm"),
    (_distances, "_cdist_forward"),
    (_softmax("Softmax"), "_softmax"),
    (_softmax("LogSoftmax"), "_log_softmax"),
    (decompose_call, "_safe_softmax nansum count_nonzero count_nonzero.dim_IntList addr"),
    (_cumulate_by("CumSum"), "cumsum"),
    (_cumulate_by("CumProd"), "cumprod"),
    (_product, "mm bmm mv"),
    (_packed_by_torch, "_weight_int4pack_mm_for_cpu"),
    (_dot, "dot"),
    (_onto, "addmm baddbmm addmv"),
    (lambda c: c("MatMulInteger", *(c.term(value, type_of(value)) for value in c.terms)), "_int_mm"),
    (_convolution, "convolution"),
    (_average_pool, "avg_pool2d avg_pool3d"),
    (_adaptive_pool, "_adaptive_avg_pool2d _adaptive_avg_pool3d"),
    (_average_pool_gradient, "avg_pool2d_backward avg_pool3d_backward"),
    (_adaptive_pool_gradient, "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward"),
)

_PLACES: Mapping[str, Row] = {
    **PLACES,
    **name_rows(
        (
            decompose_call,
            """pixel_shuffle pixel_unshuffle im2col col2im diag_embed roll rot90 take slice_scatter select_scatter
            index_add index_copy index_fill.int_Scalar index_fill.int_Tensor _unsafe_masked_index select_backward
            _unsafe_masked_index_put_accumulate embedding_dense_backward slice_backward unfold_backward
            reflection_pad1d_backward reflection_pad2d_backward nll_loss_backward nll_loss2d_backward
            max_pool2d_with_indices_backward""",
        )
    ),
}

_SEVERAL: Mapping[str, Row] = {
    **PLACES_OF_SEVERAL,
    **ATTENTION,
    **name_rows(
        (_layer_norm, "native_layer_norm"),
        (_group_norm, "native_group_norm"),
        (_max_pool, "max_pool2d_with_indices max_pool3d_with_indices"),
        (_extreme("Max"), "max.dim"),
        (_extreme("Min"), "min.dim"),
        (_spread(is_root=False, has_mean=True), "var_mean.correction"),
        (_spread(is_root=True, has_mean=True), "std_mean.correction"),
        (
            decompose_call,
            """nll_loss_forward nll_loss2d_forward adaptive_max_pool2d log_sigmoid_forward aminmax
            native_group_norm_backward native_batch_norm_backward _prelu_kernel_backward""",
        ),
    ),
}

TABLE: Mapping[str, Mapping[str, Row]] = {
    "operations on single elements": _ELEMENTS,
    "sums, products and windows": _SUMS,
    "places of elements": _PLACES,
    "operations of several results": _SEVERAL,
    "quantised numbers": _QUANTISED,
}
"""The rows by operation."""

ROWS: Mapping[str, Row] = {name: row for rows in TABLE.values() for name, row in rows.items()}
