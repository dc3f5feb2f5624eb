"""Operators that move elements to places determined by sizes and attributes, and views that move none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

import numpy as np

from isamap.graph.applied import Applied, element, known_value
from isamap.graph.making import Value, axes_of, broadcast_shape, permute_sizes
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.patterns import broadcast
from isamap.graph.sizes import as_known, is_open, is_zero
from isamap.graph.terms import NotTaken, cast, number
from isamap.graph.types import TYPES, size_bytes
from isamap.ir import DTYPES


def _transpose(o: Applied) -> Value:
    x = o[0]
    order = o.list("perm") or tuple(reversed(range(x.rank)))
    if sorted(order) != list(range(x.rank)):
        raise NotTaken(f"the order {list(order)} of {x.rank} axes")
    return transpose_axes(o, x, order)


def transpose_axes(o: Applied, x: Value, order: Sequence[int]) -> Value:
    """Return a value with permuted axes, without a step if the elements keep their order."""
    shape = [x.shape[n] for n in order]
    if o.making.views or (x.tensor and not x.is_part and _is_of_matrices(order)):
        if x.is_part:
            return x.seen(shape, [x.walk[n] for n in order])
        known = x.known.transpose(order) if x.known is not None else None
        place = {axis: n for n, axis in enumerate(order)}
        lying = tuple(place[axis] for axis in x.order or range(x.rank))
        turned = replace(x, shape=tuple(shape), known=known, order=())
        return turned.ordered(lying) if x.tensor else turned
    real = [n for n in order if x.shape[n] != 1]
    if real == sorted(real):
        return x.shaped(shape)
    text = o.text()
    at, loops = axes_of(shape)
    index = [at[list(order).index(n)] for n in range(x.rank)]
    y = text.write(x.dtype, shape)
    text.loop(loops, f"{y.at(at)} = {text.read(x).at(index)};")
    return text.done()


def _is_of_matrices(order: Sequence[int]) -> bool:
    """Return whether only the last two axes are exchanged, which products read without a move."""
    return list(order) == [*range(len(order) - 2), len(order) - 1, len(order) - 2]


def _concat(o: Applied) -> Value:
    return concatenate_values(o, o.all, o.axis(o.integer("axis", 1), o[0].rank))


def concatenate_values(o: Applied, values: Sequence[Value], axis: int) -> Value:
    """Return values concatenated along an axis. Raises: NotTaken for incompatible sizes."""
    first = values[0]
    rest = [v.shape[:axis] + v.shape[axis + 1 :] for v in values]
    if len(set(rest)) > 1 or len({v.dtype for v in values}) > 1:
        raise NotTaken("sizes or types that do not go together")
    there = [v for v in values if v.shape[axis]]
    if len(there) == 1:
        return there[0]
    order = next((v.order for v in there if v.order), ())
    flat = [o.making.laid(v, order).flat for v in there]
    shape = (*first.shape[:axis], sum(v.shape[axis] for v in values), *first.shape[axis + 1 :])
    place, lying = order.index(axis) if order else axis, permute_sizes(shape, order)
    inner = size_bytes(first.dtype, lying[place + 1 :])
    y = o.making.fresh(first.dtype, lying)
    parts = [v.shape[axis] * inner for v in there]
    o.making.move("join", flat, (y,), prod(lying[:place]), len(parts), *parts)
    return replace(y, shape=shape).ordered(order)


def _lower_split(o: Applied) -> tuple[Value, ...]:
    x = o[0]
    axis = o.axis(o.integer("axis", 0), x.rank)
    sizes = o.integers(1) if o.opset >= 13 else o.list("split")
    count, length = o.results, x.shape[axis]
    if sizes is None:
        parts = o.integer("num_outputs", count)
        each = -(-length // parts)
        sizes = tuple(max(0, min(each, length - n * each)) for n in range(parts))
    if sum(sizes) != length or any(size < 0 for size in sizes):
        raise NotTaken(f"{length} elements are not cut into {list(sizes)}")
    starts = accumulate((0, *sizes))
    return tuple(
        slice_value(o, x, {axis: (start, size, 1)}) for start, size in zip(starts, sizes, strict=False)
    )


def slice_value(o: Applied, x: Value, cuts: Mapping[int, tuple[int, int, int]]) -> Value:
    """Return a slice of a value, given first element, count and step for some axes."""
    shape = [cuts[n][1] if n in cuts else size for n, size in enumerate(x.shape)]
    if all(first == 0 and step == 1 and x.shape[n] == size for n, (first, size, step) in cuts.items()):
        return x
    if o.making.views and x.tensor and prod(shape) and all(step > 0 for _, _, step in cuts.values()):
        strides = [d * cuts[n][2] if n in cuts else d for n, d in enumerate(x.walk)]
        return replace(x, known=None).seen(shape, strides, sum(cuts[n][0] * x.walk[n] for n in cuts))
    text = o.text()
    y = text.write(x.dtype, shape)
    at, loops = axes_of(shape)
    if y.shape and not prod(y.shape):
        return text.done()
    index = [f"{cuts[n][0]} + {cuts[n][2]}*{name}" if n in cuts else name for n, name in enumerate(at)]
    index = [i.replace("+ -", "- ") for i in index]
    text.loop(loops, f"{y.at(at)} = {text.read(x).at(index)};")
    return text.done()


def _slice(o: Applied) -> Value:
    x = o[0]
    if o.opset < 10:
        starts, ends, axes, steps = o.list("starts"), o.list("ends"), o.list("axes"), None
    else:
        starts, ends, axes, steps = (o.integers(n) for n in (1, 2, 3, 4))
    if starts is None or ends is None:
        raise NotTaken("no starts or no ends are given")
    axes = axes if axes is not None else tuple(range(len(starts)))
    cuts: dict[int, tuple[int, int, int]] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts), strict=True):
        if step == 0:
            raise NotTaken("a step of 0")
        at = o.axis(axis, x.rank)
        cuts[at] = clip_slice(start, end, step, x.shape[at])
    return slice_value(o, x, cuts)


def clip_slice(start: int, end: int, step: int, size: int) -> tuple[int, int, int]:
    """Return first element, count and step of a slice clipped to the size."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (max(low, min(high, at + size if at < 0 else at)) for at in (start, end))
    count = (last - first + step - 1) // step if step > 0 else (first - last - step - 1) // -step
    return first, max(0, count), step


def _expand(o: Applied) -> Value:
    return expand_value(o, o[0], broadcast_shape([o[0].shape, o.integers(1) or ()]))


def expand_value(o: Applied, x: Value, shape: Sequence[int]) -> Value:
    """Return a value broadcast to larger sizes."""
    if prod(shape) == x.count:
        return x.shaped(shape)
    if o.making.views and x.tensor and prod(shape):
        strides = broadcast(x.shape, x.walk, tuple(shape))
        return replace(x, known=None).seen(shape, strides)
    text = o.text()
    at, loops = axes_of(shape)
    y = text.write(x.dtype, shape)
    if y.shape and not prod(y.shape):
        return text.done()
    text.loop(loops, f"{y.at(at)} = {element(text, x, at).text};")
    return text.done()


def _tile(o: Applied) -> Value:
    x, repeats = o[0], o.integers(1)
    if repeats is None or len(repeats) != x.rank or any(times < 0 for times in repeats):
        raise NotTaken(f"{x.rank} axes are not repeated {repeats} times")
    pairs = list(zip(repeats, x.shape, strict=True))
    narrow = x.shaped([n for size in x.shape for n in (1, size)])
    wide = expand_value(o, narrow, [n for pair in pairs for n in pair])
    return o.making.plain(wide).shaped([times * size for times, size in pairs])


def _trilu(o: Applied) -> Value:
    x, by = o[0], o.known(1)
    k = int(by.reshape(-1)[0]) if by is not None else 0
    if x.rank < 2:
        raise NotTaken("it is not a matrix")
    upper = o.integer("upper", 1)
    if any(map(is_open, x.shape[-2:])):
        text = o.text()
        y = text.write(x.dtype, x.shape)
        at, loops = axes_of(x.shape)
        kept = f"i64({at[-1]}) - i64({at[-2]}) {'>=' if upper else '<='} {k}"
        text.loop(
            loops, f"{y.at(at)} = select({kept}, {text.read(x).at(at)}, {cast(number(0), x.dtype).text});"
        )
        return text.done()
    o.making.reserve(*x.shape[-2:])
    rows, columns = np.indices(x.shape[-2:])
    kept = columns - rows >= k if upper else columns - rows <= k
    zero = known_value(np.zeros(()), x.dtype)
    return o.formed(
        lambda t: f"select({t[0].text}, {t[1].text}, {t[2].text})",
        (known_value(kept, "bool"), x, zero),
        x.dtype,
        x.dtype,
    )


# --- sequences of known length, and optional values that exist: no step makes them or takes them apart -----


@dataclass(frozen=True, slots=True)
class ValueList(Value):
    """A sequence of tensors. Its type is "", so only operators on sequences take it."""

    items: tuple[Value, ...] = ()


def _items(o: Applied) -> tuple[Value, ...]:
    found = o[0]
    if not isinstance(found, ValueList):
        raise NotTaken("data decides the elements of the sequence")
    return found.items


def _part_items(o: Applied, number: int, most: int) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Return the elements before and after the position in an input, by default `most`. Raises: NotTaken."""
    items, (place,) = _items(o), o.integers(number) or (most,)
    if not -len(items) <= place <= most:
        raise NotTaken(f"the position {place} in a sequence of {len(items)}")
    return items[:place], items[place:]


def _split_to_sequence(o: Applied) -> Value:
    x, sizes = o[0], o.known(1)
    axis = o.axis(o.integer("axis", 0), x.rank)
    if is_open(length := x.shape[axis]):
        raise NotTaken("the length of the sequence is open")
    if sizes is None or sizes.ndim == 0:
        sizes = np.diff([*range(0, length, 1 if sizes is None else max(int(sizes), 1)), length])
    items = o.calls("Split", (x, known_value(sizes, "i64")), len(sizes), axis=axis)
    if o.optional(1) is None and not o.integer("keepdims", 1):
        items = tuple(o.call("Squeeze", item, known_value([axis], "i64")) for item in items)
    return ValueList("", (), items=items)


def _concat_from_sequence(o: Applied) -> Value:
    items, axis = _items(o), o.integer("axis", 0)
    if o.integer("new_axis", 0):
        items = [o.call("Unsqueeze", item, known_value([axis], "i64")) for item in items]
    return o.call("Concat", *items, axis=axis)


def _insert(o: Applied) -> Value:
    before, behind = _part_items(o, 2, len(_items(o)))
    return ValueList("", (), items=(*before, o[1], *behind))


SEQUENCES: Mapping[str, Lowered] = {
    "ConcatFromSequence": _concat_from_sequence,
    "Optional": lambda o: o[0],
    "OptionalGetElement": lambda o: o[0],
    "OptionalHasElement": lambda o: known_value(np.asarray(o.optional(0) is not None), "bool"),
    "SequenceAt": lambda o: _part_items(o, 1, len(_items(o)) - 1)[1][0],
    "SequenceConstruct": lambda o: ValueList("", (), items=o.all),
    "SequenceEmpty": lambda _: ValueList("", ()),
    "SequenceInsert": _insert,
    "SequenceLength": lambda o: known_value(np.asarray(len(_items(o))), "i64"),
    "SplitToSequence": _split_to_sequence,
}

LAYOUT: Mapping[str, Lowered] = {
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _lower_split,
    "Slice": _slice,
    "Expand": _expand,
    "Tile": _tile,
    "Trilu": _trilu,
    **SEQUENCES,
}


# --- views ----------------------------------------------------------------------------------------------

# Operators that compute nothing: reshapes, and queries of sizes.


def _reshape(o: Applied) -> Value:
    target = o.integers(1) if o.opset >= 5 else o.list("shape")
    x, keeps = o[0], not o.integer("allowzero", 0)
    if target is None:
        raise NotTaken("no sizes are given")
    if keeps and any(size == 0 and n >= x.rank for n, size in enumerate(target)):
        raise NotTaken(f"the sizes {list(target)} keep one that is not there")
    sizes = [x.shape[n] if size == 0 and keeps else size for n, size in enumerate(target)]
    return x.shaped(complete_sizes(sizes, x.count))


def complete_sizes(sizes: list[int], count: int) -> list[int]:
    """Return the sizes with -1 replaced so that there are `count` elements. Raises: NotTaken."""
    if sizes.count(-1) == 1:
        others = prod(size for size in sizes if size != -1)
        if others and count % others == 0:
            return [count // others if size == -1 else size for size in sizes]
    if any(size < 0 for size in sizes) or prod(sizes) != count:
        raise NotTaken(f"{count} elements have no sizes {sizes}")
    return sizes


def _flatten(o: Applied) -> Value:
    x, axis = o[0], o.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise NotTaken(f"the axis {axis} of a tensor of {x.rank} dimensions")
    at = axis if axis >= 0 else axis + x.rank
    return x.shaped((prod(x.shape[:at]), prod(x.shape[at:])))


def _axes(o: Applied) -> tuple[int, ...] | None:
    return o.integers(1) if o.opset >= 13 else o.list("axes")


def _squeeze(o: Applied) -> Value:
    x, axes = o[0], _axes(o)
    gone = (
        {o.axis(a, x.rank) for a in axes}
        if axes is not None
        else {n for n, s in enumerate(x.shape) if is_zero(s - 1)}
    )
    if any(x.shape[n] != 1 for n in gone):
        raise NotTaken(f"{list(x.shape)} has more than one element along an axis that is to go")
    return x.shaped([size for n, size in enumerate(x.shape) if n not in gone])


def _unsqueeze(o: Applied) -> Value:
    x, axes = o[0], _axes(o)
    if axes is None:
        raise NotTaken("no axes are given")
    rank = x.rank + len(axes)
    there = {o.axis(a, rank) for a in axes}
    if len(there) < len(axes):
        raise NotTaken("an axis is given twice")
    left = iter(x.shape)
    return x.shaped([1 if n in there else next(left) for n in range(rank)])


def _shape(o: Applied) -> Value:
    sizes = o[0].shape
    start, end = o.integer("start", 0), o.integer("end", len(sizes))
    chosen = sizes[slice(start, end)]
    return replace(Value.of(as_known(chosen, (len(chosen),))), dtype="i64")


def _size(o: Applied) -> Value:
    return replace(Value.of(as_known((o[0].count,), ())), dtype="i64")


def _dropout(o: Applied) -> Value | tuple[Value, ...]:
    x, training = o[0], o.known(2) if o.opset >= 12 else None
    ratio = o.known(1) if training is not None and bool(training) else None
    if training is not None and bool(training) and (ratio is None or float(ratio) != 0):
        raise NotTaken("in training it draws random numbers")
    if o.results == 1:
        return x
    o.making.reserve(x.count)
    return x, Value.of(np.ones(x.shape, np.bool_ if o.opset >= 10 else DTYPES[x.dtype].numpy()))


def _bit_cast(o: Applied) -> Value:
    x, dtype = o[0], TYPES.get(o.integer("to", 0), "")
    if not dtype or dtype == "bool" or DTYPES[dtype].bits != DTYPES[x.dtype].bits or DTYPES[dtype].bits < 8:
        raise NotTaken(f"the bits of {x.dtype} taken for another type")
    x = o.making.plain(x) if x.is_part else x
    return Value(dtype, x.shape, o.making.passed(x).tensor, order=x.order)


VIEWS: Mapping[str, Lowered] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Shape": _shape,
    "Size": _size,
    "Identity": lambda o: o[0],
    "Dropout": _dropout,
    "BitCast": _bit_cast,
}
