"""Operators of the domain `com.microsoft`, which optimisers and exporters write, composed of others.

    BiasGelu(x, b)      Gelu(Add(x, b))

Source: onnxruntime's ContribOperators.md. An attribute or an input that changes the result and is not computed
here is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.graph import Array
from isamap.graph.making import Value
from isamap.graph.operators.blocked_weights import BlockedWeights, multiply_blocks
from isamap.graph.operators.data_movement import slice_value, transpose_axes
from isamap.graph.operators.elementwise import ACTIVATIONS, ELEMENTWISE, Lowered, floats, of_bytes
from isamap.graph.operators.products import multiply_matrices
from isamap.graph.operators.reductions import normalise_rows
from isamap.graph.terms import NotTaken, cast, number, wide_type


def _refuse(o: Applied, *places: int, **attributes: float) -> None:
    """Refuse a node with an input at one of these positions, or with other values of attributes. Raises: NotTaken."""
    for place in places:
        if o.optional(place) is not None:
            raise NotTaken(f"with its input {place}, `{o.node.inputs[place]}`, it has no kernel here")
    for name, default in attributes.items():
        if o.real(name, default) != default:
            raise NotTaken(f"with its attribute `{name}` of {o.attribute(name)} it has no kernel here")


def _plus(o: Applied, first: Value, *others: Value | None) -> Value:
    """Return the sum of the given values, of which some may be None."""
    there = [first, *(value for value in others if value is not None)]
    terms = (f"{{{n}}}" for n in range(len(there)))
    return o.map(f"({' + '.join(terms)})", *there) if len(there) > 1 else first


def _parts(o: Applied, x: Value, axis: int, *sizes: int) -> tuple[Value, ...]:
    """Return the parts of a value along an axis, with the given sizes."""
    return o.calls("Split", (x, known_value(sizes, "i64")), len(sizes), axis=axis)


# --- activations, products and norms with more behind them ----------------------------------------------------


def _activate(o: Applied, y: Value, numbers: Sequence[float]) -> Value:
    """Return a result after the activation in the attribute `activation`."""
    name = o.word("activation", "")
    if name == "Clip":
        return o.call("Clip", y, *(known_value(np.asarray(n), y.dtype) for n in numbers))
    _, parameters = ACTIVATIONS.get(name, ("", {}))
    return o.call(name, y, **dict(zip(parameters, numbers, strict=False))) if name else y


def _fused_conv(o: Applied) -> Value:
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    y = o.call("Conv", *o.inputs[:3], **{name: o.attribute(name) for name in names if o.has(name)})
    return _activate(o, _plus(o, y, o.optional(3)), o.attribute("activation_params", ()))


def _fused_gemm(o: Applied) -> Value:
    attributes = {n: o.attribute(n) for n in ("alpha", "beta", "transA", "transB") if o.has(n)}
    words = [f"activation_{word}" for word in ("alpha", "beta") if o.has(f"activation_{word}")]
    y = o.call("Gemm", *o.inputs[:3], **attributes)
    return _activate(o, y, [o.real(word, 0.0) for word in words])


def _fused_matmul(o: Applied) -> Value:
    a, b = o[0], o[1]

    def letters(which: str, row: str, column: str) -> str:
        first, last = (column, row) if o.integer(f"trans{which}", 0) else (row, column)
        return f"{first}...{last}" if o.integer(f"transBatch{which}", 0) else f"...{first}{last}"

    said = letters("A", "m", "k"), letters("B", "k", "n")
    if min(a.rank, b.rank) < 2 or said == ("...mk", "...kn"):
        y = o.call("MatMul", a, b)
    else:
        y = o.call("Einsum", a, b, equation=f"{','.join(said)}->...mn")
    alpha = o.real("alpha", 1.0)
    return y if alpha == 1 else o.map(f"({{0}} * {cast(number(alpha), wide_type(y.dtype)).text})", y)


def _skip_norm(*, centred: bool) -> Lowered:
    """Return a lowering for a norm over the rows of a sum. The sum is the fourth result."""

    def lower(o: Applied) -> tuple[Value | None, ...]:
        beta, bias = (o.optional(3), o.optional(4)) if centred else (None, o.optional(3))
        total = _plus(o, o[0], o[1], bias)
        eps = o.real("epsilon", 1e-12 if centred else 1e-5)
        found = normalise_rows(o, total, range(total.rank - 1), o[2], beta, eps, centred=centred)
        return found[0], None, None, total

    return lower


def _lower_embedding(o: Applied) -> tuple[Value | None, ...]:
    ids, segments, kinds, positions = o[0], o.optional(1), o.optional(4), o.optional(8)
    positions = positions or known_value(np.arange(ids.shape[1]), "i64")
    kind = None if segments is None else o.call("Gather", kinds, segments)
    rows = o.call("Gather", o[2], ids), o.call("Gather", o[3], positions), kind
    return _embedding_norm(o, _plus(o, *rows), o[5], o[6], o.optional(7))


def _embedding_norm(
    o: Applied, total: Value, gamma: Value, beta: Value, mask: Value | None
) -> tuple[Value | None, ...]:
    y = normalise_rows(o, total, (0, 1), gamma, beta, o.real("epsilon", 1e-12))[0]
    counts = known_value(np.zeros(total.shape[:1]), "i32")
    if mask is not None and o.results > 1:
        counts = o.call("ReduceSum", mask, known_value([1], "i64"), keepdims=0)
    return y, counts, total


# --- attention ------------------------------------------------------------------------------------------------


def _heads(o: Applied, x: Value, heads: int, bias: Value | None = None) -> Value:
    """Return rows plus bias as [batch, heads, sequence, size]. Rows in this form already have their bias."""
    if x.rank == 4:
        return x
    x = _plus(o, x, bias)
    batch, length, size = x.shape
    if heads < 1 or size % heads:
        raise NotTaken(f"{heads} heads of rows of {size}")
    return transpose_axes(o, x.shaped((batch, length, heads, size // heads)), (0, 2, 1, 3))


def _row_mask(o: Applied, mask: Value, batch: int, length: int, total: int, dtype: str) -> Value:
    """Return the term that a mask adds to scores: 0 for a used key, `mask_filter_value` for others.

    A mask has a number for each key, for each row and key, or the end (and the start) of each sequence's
    keys.
    """
    low = cast(number(o.real("mask_filter_value", -10000.0)), "f32").text
    places = known_value(np.arange(total), "i32")
    if mask.rank == 1 and mask.count in (batch, 2 * batch):
        ends = slice_value(o, mask, {0: (0, batch, 1)}).shaped((batch, 1, 1, 1))
        kept, values = "{0} < {1}", [places, ends]
        if mask.count == 2 * batch:
            values.append(slice_value(o, mask, {0: (batch, batch, 1)}).shaped((batch, 1, 1, 1)))
            kept = f"({kept}) & ({{0}} >= {{2}})"
        return o.map(f"select({kept}, f32(0), {low})", *values, dtype=dtype, inside="i32", result="f32")
    if mask.rank not in (2, 3) or mask.shape[-1] != total:
        raise NotTaken(f"a mask of the sizes {list(mask.shape)} for {length} rows and {total} keys")
    mask = mask.shaped((batch, 1, mask.shape[1] if mask.rank == 3 else 1, total))
    return o.map(f"select({{0}} > 0, f32(0), {low})", mask, dtype=dtype, inside=mask.dtype, result="f32")


def _attend(
    o: Applied,
    qkv: Sequence[Value],
    mask: Value | None,
    more: Value | None,
    past: Sequence[Value | None] = (None, None),
) -> tuple[Value, Value, Value]:
    """Return the joined results of all heads, and all keys and values, including past ones.

    `mask` excludes keys by `mask_filter_value`, and `more` is added to the scores.
    """
    q, k, v = qkv
    if mask is not None:
        total = k.shape[2] + (past[0].shape[2] if past[0] is not None else 0)
        more = _plus(o, _row_mask(o, mask, q.shape[0], q.shape[2], total, q.dtype), more)
    attributes = {name: o.real(name, 0.0) for name in ("scale", "softcap") if o.real(name, 0.0)}
    results, causal = 3 if past[0] is not None else 1, o.integer("unidirectional", 0)
    found = o.calls("Attention", (q, k, v, more, *past), results, is_causal=causal, **attributes)
    batch, heads, length, size = found[0].shape
    y = transpose_axes(o, found[0], (0, 2, 1, 3)).shaped((batch, length, heads * size))
    return (y, found[1], found[2]) if results > 1 else (y, k, v)


def _multi_head(o: Applied) -> tuple[Value | None, ...]:
    _refuse(o, 8, 9)
    query, key, value, bias, heads = (
        o[0],
        o.optional(1),
        o.optional(2),
        o.optional(3),
        o.integer("num_heads", 1),
    )
    if key is None or value is None:
        raise NotTaken("no key, or no value")
    three = query, key, value
    sizes = (x.shape[-1] * (1 if x.rank == 3 else heads) for x in three)
    biases = (None, None, None) if bias is None else _parts(o, bias, 0, *sizes)
    qkv = [_heads(o, x, heads, part) for x, part in zip(three, biases, strict=True)]
    return _attend(o, qkv, o.optional(4), o.optional(5), (o.optional(6), o.optional(7)))


def _attention(
    o: Applied, joined: Value, mask: Value | None, past: Value | None, more: Value | None
) -> tuple[Value, ...]:
    """Return the attention of rows in which a query, a key and a value are concatenated."""
    _refuse(o, do_rotary=0, past_present_share_buffer=0)
    sizes = o.list("qkv_hidden_sizes") or (joined.shape[-1] // 3,) * 3
    qkv = [_heads(o, x, o.integer("num_heads", 1)) for x in _parts(o, joined, 2, *sizes)]
    before = (None, None)
    if past is not None:
        before = [x.shaped(past.shape[1:]) for x in _parts(o, past, 0, 1, 1)]
    y, *kept = _attend(o, qkv, mask, more, before)
    if o.results < 2:
        return (y,)
    return y, o.call("Concat", *(x.shaped((1, *x.shape)) for x in kept), axis=0)


def _float_attention(o: Applied) -> tuple[Value, ...]:
    _refuse(o, 6)
    joined = _plus(o, o.call("MatMul", o[0], o[1]), o.optional(2))
    return _attention(o, joined, o.optional(3), o.optional(4), o.optional(5))


def _lower_rotary(o: Applied) -> Value:
    _refuse(o, is_packed_batching=0, scale=1)
    x, positions, cos, sin = (o[n] for n in range(4))
    batch, length = x.shape[0], x.shape[-2]
    if positions.rank == 1:  # those from one on
        steps = known_value(np.broadcast_to(np.arange(length), (batch, length)), "i64")
        positions = o.map("({0} + {1})", positions, steps)
    default = x.shape[-1] // (2 * cos.shape[-1]) if x.rank == 3 else 0
    names = {n: o.integer(n, 0) for n in ("interleaved", "rotary_embedding_dim")}
    heads = o.integer("num_heads", 0) or default
    return o.call("RotaryEmbedding", x, cos, sin, positions, num_heads=heads, **names)


def _lower_grouped_attention(o: Applied) -> tuple[Value | None, ...]:
    """Lower GroupQueryAttention. Each sequence may fill its rows of the cache to another length."""
    _refuse(o, 11, smooth_softmax=0, qk_output=0, k_quant_type=0, v_quant_type=0)
    heads, groups = o.integer("num_heads", 1), o.integer("kv_num_heads", 1)
    three, counts = (o[0], o.optional(1), o.optional(2)), o.integers(6)
    if three[1] is None:
        size = o[0].shape[-1] // (heads + 2 * groups)
        three = _parts(o, o[0], 2, heads * size, groups * size, groups * size)
    q, k, v = (_heads(o, x or o[2], n) for x, n in zip(three, (heads, groups, groups), strict=True))
    batch, _, length, _ = q.shape
    old = o.optional(3), o.optional(4)
    total = max(old[0].shape[2] if old[0] is not None else 0, counts[0] if counts else length)
    filled = known_value(np.zeros((batch, 1)), "i64")
    if length != total:
        filled = o.map(f"({{0}} + 1 - {length})", o[5].shaped((batch, 1)), dtype="i64", inside="i64")
    places = o.map("({0} + {1})", filled, known_value(np.arange(length)[None], "i64"))
    if o.integer("do_rotary", 0):
        at, cos, sin, woven = o.optional(9) or places, o[7], o[8], o.integer("rotary_interleaved", 0)
        part = 2 * cos.shape[-1] if 2 * cos.shape[-1] != q.shape[-1] else 0
        more = {"interleaved": woven, "rotary_embedding_dim": part}
        q, k = (o.call("RotaryEmbedding", x, cos, sin, at, **more) for x in (q, k))
    first = filled.shaped((batch,))
    keys, values = (_store_rows(o, x, before, total, first) for x, before in zip((k, v), old, strict=True))
    window, more = o.integer("local_window_size", -1), o.optional(10)
    kept = "({0} <= {1})" + (f" & ({{0}} > {{1}} - {window})" if window > 0 else "")
    columns, rows = known_value(np.arange(total), "i64"), places.shaped((batch, 1, length, 1))
    mask = o.map(kept, columns, rows, dtype="bool", inside="i64", result="bool")
    if more is not None:
        mask = o.call("Where", mask, more, known_value(np.asarray(-np.inf), more.dtype))
    return _attend(o, (q, keys, values), None, mask)


def _store_rows(o: Applied, new: Value, old: Value | None, total: int, first: Value) -> Value:
    """Return a cache of `total` rows with new ones stored from `first` on, which differs by sequence."""
    if new.shape[2] == total:
        return new
    batch, heads, _, size = new.shape
    rest = total - (old.shape[2] if old is not None else 0)
    none = known_value(np.zeros((batch, heads, rest, size)), new.dtype)
    return o.call("TensorScatter", none if old is None else o.call("Concat", old, none, axis=2), new, first)


# --- quantised weights ----------------------------------------------------------------------------------------


def _unpack_bits(array: Array, bits: int, count: int) -> Array:
    """Return the first `count` numbers of `bits` bits along the last axis, lowest bits of a byte first."""
    if 8 % bits == 0:
        parts = array.view(np.uint8)[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)
        return (parts & np.uint8((1 << bits) - 1)).reshape(*array.shape[:-1], -1)[..., :count]
    flags = np.unpackbits(np.ascontiguousarray(array).view(np.uint8), axis=-1, bitorder="little")
    whole = flags.shape[-1] // bits
    numbers = flags[..., : whole * bits].reshape(*array.shape[:-1], whole, bits)
    return (numbers << np.arange(bits, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8)[..., :count]


def _matmul_nbits(o: Applied) -> Value:
    """Lower MatMulNBits: weights of few bits in blocks with a scale each.

    Weights whose codes fill bytes stay in bytes. Others, and those whose rows are in groups, are unpacked at import.
    """
    x, bits, size = o[0], o.integer("bits", 4), o.integer("block_size", 0)
    depth, columns = o.integer("K", 0), o.integer("N", 0)
    packed, scales, points, group = (o.known(n) for n in range(1, 5))
    if not 2 <= bits <= 8 or size < 1 or packed is None or scales is None or o.integer("weight_prepacked", 0):
        raise NotTaken(f"weights of {bits} bits in blocks of {size}, or prepacked ones, have no kernel here")
    if x.shape[-1:] != (depth,):
        raise NotTaken(f"rows of {list(x.shape)} for weights of {depth} rows")
    blocks = -(-depth // size)
    codes = _unpack_bits(packed.reshape(columns, blocks, -1), bits, size)
    if points is not None and points.dtype == np.uint8:
        points = _unpack_bits(points.reshape(columns, -1), bits, blocks)
    points = np.asarray(1 << bits - 1) if points is None else points.reshape(columns, blocks)
    by = scales.reshape(columns, blocks).astype(np.float32)
    if 8 % bits == 0 and size % (32 // bits) == 0 and group is None:
        is_exact = o.integer("accuracy_level", 0) < 4 or points.dtype.kind not in "iu"
        bias, weights = o.optional(5), BlockedWeights(codes, points, by, bits)
        known = None if bias is None else bias.known
        y = multiply_blocks(o, x, weights, known, is_exact=is_exact)
        return y if known is not None else _plus(o, y, bias)
    group = np.arange(depth) // size if group is None else group.reshape(-1)[:depth]
    real = codes.reshape(columns, -1)[:, :depth].astype(np.float32)
    real = (real - np.broadcast_to(points, by.shape)[:, group].astype(np.float32)) * by[:, group]
    return _plus(o, multiply_matrices(o, x, known_value(real.T, x.dtype), x.dtype), o.optional(5))


# --- quantised inputs and results -----------------------------------------------------------------------------


def _real(o: Applied, x: Value, scale: Value, zero: Value | None) -> Value:
    return o.call("DequantizeLinear", x, _number(scale), zero and _number(zero))


def _number(value: Value) -> Value:
    """Return a single scale or zero point as a scalar value. Others are unchanged."""
    return value.shaped(()) if value.count == 1 else value


def _quantise(o: Applied, y: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    zero = known_value(np.zeros(()), dtype) if zero is None else zero
    return o.call("QuantizeLinear", y, _number(scale), _number(zero))


def _single(op: str, *names: str) -> Lowered:
    """Return a lowering for an elementwise operator on quantised values."""

    def lower(o: Applied) -> Value:
        x, scale, zero, result, point = o[0], o[1], o.optional(2), o[3], o.optional(4)
        given = {name: o.attribute(name) for name in names if o.has(name)}

        def through(codes: Value) -> Value:
            return _quantise(o, o.call(op, _real(o, codes, scale, zero), **given), result, point, x.dtype)

        return of_bytes(o, x, through)

    return lower


def _softmax(o: Applied) -> Value:
    x, scale, zero, result, point = o[0], o[1], o.optional(2), o[3], o.optional(4)
    axis, real = o.axis(o.integer("axis", -1), x.rank), _real(o, x, scale, zero)
    if o.integer("opset", 13) < 13:  # of all axes from the given one on
        rows = real.shaped((int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))
        found = o.call("Softmax", rows, axis=1).shaped(x.shape)
    else:
        found = o.call("Softmax", real, axis=axis)
    return _quantise(o, found, result, point, x.dtype)


def _concat(o: Applied) -> Value:
    scale, zero, *given = o.all
    parts = [
        of_bytes(o, x, lambda codes, s=s, z=z: _quantise(o, _real(o, codes, s, z), scale, zero, zero.dtype))
        for x, s, z in zip(given[::3], given[1::3], given[2::3], strict=True)
    ]
    return o.call("Concat", *parts, axis=o.integer("axis", 0))


def _where(o: Applied) -> Value:
    chosen, x, xs, xz, y, ys, yz, scale, zero = (o[n] for n in range(9))
    real = o.call("Where", chosen, _real(o, x, xs, xz), _real(o, y, ys, yz))
    return _quantise(o, real, scale, zero, zero.dtype)


Factor = tuple[Value, Value, Value | None]
"""Bytes, their scale and their zero point."""


def _to_float(o: Applied, a: Factor, b: Factor, bias: Value | None) -> Value:
    """Return the product of dequantised values with exact sums."""
    total = o.call("MatMulInteger", a[0], b[0], *(f[2] and _number(f[2]) for f in (a, b)))
    inside = a[1].dtype
    y = o.map("({0} * ({1} * {2}))", total, _number(a[1]), _number(b[1]), dtype=inside, inside=inside)
    return _plus(o, y, bias)


def _dynamic(o: Applied, x: Value) -> Factor:
    """Return a value quantised by its extremes."""
    bytes_, scale, zero = o.calls("DynamicQuantizeLinear", (x,), 3)
    return bytes_, scale, zero


def _matmul_to_float(o: Applied) -> Value:
    return _to_float(o, (o[0], o[2], o.optional(4)), (o[1], o[3], o.optional(5)), o.optional(6))


def _dynamic_matmul(o: Applied) -> Value:
    return _to_float(o, _dynamic(o, o[0]), (o[1], o[2], o.optional(3)), o.optional(4))


def _quantised_attention(o: Applied) -> tuple[Value, ...]:
    joined = _to_float(o, (o[0], o[3], o.optional(6)), (o[1], o[4], o.optional(7)), o.optional(2))
    return _attention(o, joined, o.optional(5), o.optional(8), None)


def _quantised_embedding(o: Applied) -> tuple[Value | None, ...]:
    places = known_value(np.arange(o[0].shape[1]), "i64")
    rows = [
        _real(o, o.call("Gather", o[2 + n], at), o[8 + n], o.optional(13 + n)) if at is not None else None
        for n, at in enumerate((o[0], places, o.optional(1)))
    ]
    gamma, beta = (_real(o, o[5 + n], o[11 + n], o.optional(16 + n)) for n in range(2))
    return _embedding_norm(o, _plus(o, rows[0] or o[0], *rows[1:]), gamma, beta, o.optional(7))


def _dynamic_lstm(o: Applied) -> tuple[Value, ...]:
    """Lower DynamicQuantizeLSTM: the input is quantised once, and the hidden state in each step."""
    _refuse(o, 4, 7, input_forget=0, clip=0)
    names, turns = [str(name).lower() for name in o.attribute("activations", ())], o[1].shape[0]
    if names not in ([], ["sigmoid", "tanh", "tanh"] * turns):
        raise NotTaken(f"the activations {', '.join(names)} have no kernel here")
    found = zip(*(_lstm_turn(o, turn) for turn in range(turns)), strict=True)
    return tuple(o.call("Concat", *parts, axis=axis) for parts, axis in zip(found, (1, 0, 0), strict=True))


def _lstm_turn(o: Applied, turn: int) -> tuple[Value, Value, Value]:
    """Return the hidden states of one direction, [steps, 1, batch, size], with the last state and cell."""

    def own(place: int) -> Value | None:
        value = o.optional(place)
        if value is None or (value.rank < 2 and value.count == 1):
            return value
        return slice_value(o, value, {0: (turn, 1, 1)}).shaped(value.shape[1:])

    steps, batch, _ = o[0].shape
    size = o[2].shape[1]
    weights, recurrent = ((own(n) or o[n], own(2 * n + 6) or o[2 * n + 6], own(2 * n + 7)) for n in (1, 2))
    none, bias = known_value(np.zeros((batch, size)), o[0].dtype), own(3)
    state, cell = own(5) or none, own(6) or none
    onto = _to_float(
        o, _dynamic(o, o[0]), weights, _plus(o, *_parts(o, bias, 0, 4 * size, 4 * size)) if bias else None
    )
    is_back = turn == 1 or o.word("direction", "forward") == "reverse"
    rows: list[Value] = []
    for step in reversed(range(steps)) if is_back else range(steps):
        more = slice_value(o, onto, {0: (step, 1, 1)}).shaped((batch, 4 * size))
        gates = _to_float(o, _dynamic(o, state), recurrent, more)
        i, out, forget, new = _parts(o, gates, 1, *(size,) * 4)
        cell = o.map("(sigmoid({0}) * {1} + sigmoid({2}) * tanh({3}))", forget, cell, i, new)
        state = o.map("(sigmoid({0}) * tanh({1}))", out, cell)
        rows.insert(0 if is_back else step, state.shaped((1, 1, batch, size)))
    shape = 1, batch, size
    return o.call("Concat", *rows, axis=0), state.shaped(shape), cell.shaped(shape)


COMBINED: Mapping[str, Lowered] = {
    "Attention": _float_attention,
    "BiasGelu": lambda o: o.call("Gelu", _plus(o, o[0], o[1])),
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "EmbedLayerNormalization": _lower_embedding,
    "FastGelu": lambda o: o.call("Gelu", _plus(o, o[0], o.optional(1)), approximate="tanh"),
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": ELEMENTWISE["Gelu"],
    "GroupQueryAttention": _lower_grouped_attention,
    "MatMulIntegerToFloat": _matmul_to_float,
    "MatMulNBits": _matmul_nbits,
    "MultiHeadAttention": _multi_head,
    "QAttention": _quantised_attention,
    "QEmbedLayerNormalization": _quantised_embedding,
    "QLinearConcat": _concat,
    "QLinearLeakyRelu": _single("LeakyRelu", "alpha"),
    "QLinearSigmoid": _single("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _where,
    "QuickGelu": floats("({0} * sigmoid({0} * {alpha}))", alpha=1.702),
    "RotaryEmbedding": _lower_rotary,
    "SkipLayerNormalization": _skip_norm(centred=True),
    "SkipSimplifiedLayerNormalization": _skip_norm(centred=False),
}
"""Operators of runtimes."""
