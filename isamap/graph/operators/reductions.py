"""Reductions over axes, cumulative operations along one axis, and normalisations, which divide by such sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from isamap.graph.applied import Applied, known_value
from isamap.graph.making import Value, axes_of, broadcast_index, nest
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.operators.pooling import is_extreme, lowest
from isamap.graph.operators.products import accumulator_type, round_sums
from isamap.graph.sizes import as_value
from isamap.graph.terms import NotTaken, TextTerm, cast, number, wide_type
from isamap.ir import DTYPES


@dataclass(frozen=True, slots=True)
class Over:
    """The range of a reduction: sizes of the result with and without the reduced axes, and the indices."""

    kept: tuple[int, ...]
    shape: tuple[int, ...]
    at: tuple[str, ...]
    index: tuple[str, ...]
    loops: Mapping[str, int]
    inner: Mapping[str, int]
    count: int


def over_axes(x: Value, gone: Sequence[int], *, keeps: bool) -> Over:
    """Return how a reduction over some axes traverses a value."""
    names, _ = axes_of(x.shape)
    index = [f"k{n}" if n in gone and size != 1 else names[n] for n, size in enumerate(x.shape)]
    at = tuple(name for n, name in enumerate(names) if n not in gone)
    kept = tuple(size for n, size in enumerate(x.shape) if n not in gone)
    shape = tuple(1 if n in gone else size for n, size in enumerate(x.shape)) if keeps else kept
    loops = {name: size for name, size in zip(at, kept, strict=True) if name != "0"}
    inner = {f"k{n}": x.shape[n] for n in gone if x.shape[n] != 1}
    return Over(kept, shape, at, tuple(index), loops, inner, prod(x.shape[n] for n in gone))


def _axes(o: Applied, since: int) -> tuple[int, ...] | None:
    return o.integers(1) if o.opset >= since else o.list("axes")


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction: its initial value, its operator, the term of each element, and the final expression."""

    start: str
    operator: str
    each: str = "{0}"
    last: str = ""
    empty: float = 0.0
    since: int = 18
    """The version in which axes became an input."""


REDUCTIONS_BY_NAME: Mapping[str, Reduction] = {
    "ReduceSum": Reduction("0", "+=", since=13),
    "ReduceMean": Reduction("0", "+=", last="({0} / {n})", empty=float("nan")),
    "ReduceProd": Reduction("1", "*=", empty=1.0),
    "ReduceMax": Reduction("low", "max=", empty=float("-inf")),
    "ReduceMin": Reduction("high", "min=", empty=float("inf")),
    "ReduceL1": Reduction("0", "+=", "abs({0})"),
    "ReduceL2": Reduction("0", "+=", "{0} * {0}", "sqrt({0})"),
    "ReduceSumSquare": Reduction("0", "+=", "{0} * {0}"),
    "ReduceLogSum": Reduction("0", "+=", last="log({0})", empty=float("-inf")),
}


def _reduce_by(name: str) -> Lowered:
    found = REDUCTIONS_BY_NAME[name]

    def lower(o: Applied) -> Value:
        x, axes = o[0], _axes(o, found.since)
        if axes is None or not axes:
            if o.integer("noop_with_empty_axes", 0):
                if found.each == "{0}" and not found.last:
                    return x
                return o.map(found.last.format(found.each, n=1) if found.last else f"({found.each})", x)
            axes = tuple(range(x.rank))
        gone = sorted({o.axis(a, x.rank) for a in axes})
        return reduce_axes(o, x, gone, found, keeps=bool(o.integer("keepdims", 1)))

    return lower


def reduce_axes(o: Applied, x: Value, gone: Sequence[int], how: Reduction, *, keeps: bool) -> Value:
    """Return a value reduced over some axes, in the node's `result` type, if it has one. Raises: NotTaken."""
    over, dtype = over_axes(x, gone, keeps=keeps), o.word("result", x.dtype)
    if not x.count and prod(over.kept):
        return _of_none(o, x, over, how)
    if dtype == "bool":
        how = Reduction(*{"max=": ("false", "|="), "min=": ("true", "&=")}.get(how.operator, ("", "")))
        if not how.operator:
            raise NotTaken("on bool it has no kernel here")
    text = o.text()
    y = text.write(dtype, over.kept)
    inside = wide_type(dtype)
    if "sqrt" in how.last or "log" in how.last:
        inside = inside if DTYPES[inside].is_float else "f64"
    total = accumulator_type(text, inside, y.shape, y)
    start = {"low": lowest(inside), "high": highest(inside)}.get(how.start, how.start)
    text.loop(over.loops, f"{total.at(over.at)} = {start};")
    element = cast(text.read(x).term(over.index), inside).text
    text.loop({**over.loops, **over.inner}, f"{total.at(over.at)} {how.operator} {how.each.format(element)};")
    if how.last:
        text.loop(
            over.loops,
            f"{total.at(over.at)} = {how.last.format(total.at(over.at), n=as_value(over.count, inside))};",
        )
    return round_sums(text, total, y).shaped(over.shape)


def highest(dtype: str) -> str:
    """Return the largest value of a type as text."""
    return "inf" if DTYPES[dtype].is_float else f"{dtype}({DTYPES[dtype].high})"


def _of_none(o: Applied, x: Value, over: Over, how: Reduction) -> Value:
    """Return the result of a reduction of zero elements."""
    known = DTYPES[x.dtype]
    empty = how.empty
    if not known.is_float and how.start in ("low", "high"):
        empty = known.low if how.start == "low" else known.high
        if x.dtype == "bool":
            empty = how.start == "high"
    o.making.reserve(*over.shape)
    return known_value(np.full(over.shape, empty, known.numpy()), x.dtype)


def _log_sum_exp(o: Applied) -> Value:
    x, axes = o[0], _axes(o, 18)
    if not axes and o.integer("noop_with_empty_axes", 0):
        return o.map("log(exp({0}))", x)
    gone = sorted({o.axis(a, x.rank) for a in axes or range(x.rank)})
    over = over_axes(x, gone, keeps=bool(o.integer("keepdims", 1)))
    if not x.count and prod(over.kept):
        return _of_none(o, x, over, REDUCTIONS_BY_NAME["ReduceLogSum"])
    text, inside = o.text(), wide_type(x.dtype)
    y = text.write(x.dtype, over.kept)
    top, total = (text.temp(inside, y.shape) for _ in range(2))
    element, at = cast(text.read(x).term(over.index), inside).text, over.at
    text.loop(over.loops, f"{top.at(at)} = -inf;")
    text.loop({**over.loops, **over.inner}, f"{top.at(at)} max= {element};")
    text.loop(
        over.loops,
        f"{top.at(at)} = select(abs({top.at(at)}) == inf, 0, {top.at(at)});",
        f"{total.at(at)} = 0;",
    )
    text.loop({**over.loops, **over.inner}, f"{total.at(at)} += exp({element} - {top.at(at)});")
    value = TextTerm(f"(log({total.at(at)}) + {top.at(at)})", inside)
    text.loop(over.loops, f"{y.at(at)} = {cast(value, y.dtype).text};")
    return text.done().shaped(over.shape)


def _arg(operator: str) -> Lowered:
    """Return a lowering for the index of the largest or smallest element along an axis."""

    def lower(o: Applied) -> Value:
        x = o[0]
        axis = o.axis(o.integer("axis", 0), x.rank)
        over = over_axes(x, [axis], keeps=bool(o.integer("keepdims", 1)))
        if not x.shape[axis]:
            raise NotTaken("an axis without elements")
        return arg(o, x, axis, over, operator, is_last=bool(o.integer("select_last_index", 0))).shaped(
            over.shape
        )

    return lower


def arg(o: Applied, x: Value, axis: int, over: Over, operator: str, *, is_last: bool) -> Value:
    """Return the positions of the largest elements (`max`) or of the smallest ones along an axis."""
    text, inside = o.text(), wide_type(x.dtype)
    y = text.write("i64", over.kept)
    best = text.temp(inside, over.kept)
    element, at = cast(text.read(x).term(over.index), inside).text, over.at
    start = lowest(inside) if operator == "max" else highest(inside)
    text.loop(over.loops, f"{best.at(at)} = {start};", f"{y.at(at)} = {-1 if is_last else x.shape[axis]};")
    every = {**over.loops, **over.inner}
    text.loop(every, f"{best.at(at)} {operator}= {element};")
    place = f"k{axis}" if x.shape[axis] != 1 else "0"
    none, how = ("-1", "max") if is_last else (str(x.shape[axis]), "min")
    text.loop(
        every, f"{y.at(at)} {how}= select({is_extreme(element, best.at(at), inside)}, i64({place}), {none});"
    )
    return text.done()


def _hardmax(o: Applied) -> Value:
    x, _, axis = rows_of(o)
    over = over_axes(x, [axis], keeps=True)
    places = arg(o, x, axis, over, "max", is_last=False).shaped(over.shape)
    o.making.reserve(x.shape[axis])
    numbers = known_value(
        np.arange(x.shape[axis]).reshape([-1 if n == axis else 1 for n in range(x.rank)]), "i64"
    )
    return o.formed(
        lambda t: f"select({t[0].text} == {t[1].text}, {t[2].text}, {t[3].text})",
        (places, numbers, known_value(np.ones(()), x.dtype), known_value(np.zeros(()), x.dtype)),
        x.dtype,
        x.dtype,
    ).shaped(o[0].shape)


def rows_of(o: Applied) -> tuple[Value, int, int]:
    """Return a value as a row-wise operator reads it, with the length of rows and their axis.

    Before version 13 all axes from the one that is named are one.
    """
    x = o[0]
    if o.opset >= 13:
        axis = o.axis(o.integer("axis", -1), x.rank)
        return x, x.shape[axis] if x.rank else 1, axis
    axis = o.axis(o.integer("axis", 1), x.rank)
    return x.shaped((prod(x.shape[:axis]), prod(x.shape[axis:]))), prod(x.shape[axis:]), 1


def _softmax(*, is_log: bool) -> Lowered:
    def lower(o: Applied) -> Value:
        x, _, axis = rows_of(o)
        return softmax(o, x, axis, is_log=is_log).shaped(o[0].shape)

    return lower


def softmax(o: Applied, x: Value, axis: int, *, is_log: bool) -> Value:
    """Return the softmax along an axis, or its logarithm."""
    text, inside = o.text(), wide_type(x.dtype)
    y = text.write(x.dtype, x.shape)
    at, whole = axes_of(x.shape)
    row = [name for n, name in enumerate(at) if n != axis]
    rows = {name: size for name, size in whole.items() if name in row}
    sizes = [size for n, size in enumerate(x.shape) if n != axis]
    top, total = (text.temp(inside, sizes) for _ in range(2))
    element = cast(text.read(x).term(at), inside).text
    text.loop(rows, f"{top.at(row)} = -inf;")
    text.loop(whole, f"{top.at(row)} max= {element};")
    text.loop(rows, f"{total.at(row)} = 0;")
    if is_log:
        text.loop(whole, f"{total.at(row)} += exp({element} - {top.at(row)});")
        text.loop(rows, f"{total.at(row)} = log({total.at(row)});")
        value = TextTerm(f"({element} - {top.at(row)} - {total.at(row)})", inside)
        text.loop(whole, f"{y.at(at)} = {cast(value, y.dtype).text};")
        return text.done()
    # Of narrow floats each step is rounded, as in what defines Softmax by other operators, but in torch's.
    powers = text.temp(inside, x.shape) if o.integer("rounds_once", 0) and inside != y.dtype else y
    power, exponential = (
        cast(powers.term(at), inside).text,
        TextTerm(f"exp({element} - {top.at(row)})", inside),
    )
    text.loop(whole, f"{powers.at(at)} = {cast(exponential, powers.dtype).text};")
    text.loop(whole, f"{total.at(row)} += {power};")
    quotient = f"({power} / {cast(cast(total.term(row), powers.dtype), inside).text})"
    if powers.dtype == inside:  # a total is at least 1, so that its reciprocal is a number
        text.loop(rows, f"{total.at(row)} = 1 / {total.at(row)};")
        quotient = f"({power} * {total.at(row)})"
    text.loop(whole, f"{y.at(at)} = {cast(TextTerm(quotient, inside), y.dtype).text};")
    return text.done()


def _cumulate_by(operator: str) -> Lowered:
    """Return a lowering for cumulative sums or products along an axis."""

    def lower(o: Applied) -> Value:
        x, given = o[0], o.integers(1)
        axis = o.axis(given[0] if given else 0, x.rank)
        length, start = x.shape[axis], "0" if operator == "+" else "1"
        is_exclusive, is_reverse = (bool(o.integer(name, 0)) for name in ("exclusive", "reverse"))
        text, inside = o.text(), wide_type(x.dtype)
        source = text.read(x)
        y = text.write(x.dtype, x.shape)
        total = accumulator_type(text, inside, y.shape, y)
        at, loops = axes_of(x.shape)
        others = {name: size for name, size in loops.items() if name != at[axis]}

        def there(place: str) -> list[str]:
            transposed = f"{length - 1} - ({place})" if is_reverse else place
            return [transposed if n == axis else name for n, name in enumerate(at)]

        def element(place: str) -> str:
            return cast(source.term(there(place)), inside).text

        text.loop(others, f"{total.at(there('0'))} = {start if is_exclusive else element('0')};")
        if length > 1:
            added = element("j" if is_exclusive else "j + 1")
            step = f"{total.at(there('j + 1'))} = {total.at(there('j'))} {operator} {added};"
            text.state(
                nest({"j": length - 1}, nest(others, step), word="seq")
                if length > 2
                else nest(
                    others,
                    step.replace("j + 1", "1").replace("[j", "[0").replace(" j", " 0").replace("(j)", "(0)"),
                )
            )
        return round_sums(text, total, y)

    return lower


REDUCTIONS: Mapping[str, Lowered] = {
    **{name: _reduce_by(name) for name in REDUCTIONS_BY_NAME},
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": _arg("max"),
    "ArgMin": _arg("min"),
    "Hardmax": _hardmax,
    "Softmax": _softmax(is_log=False),
    "LogSoftmax": _softmax(is_log=True),
    "CumSum": _cumulate_by("+"),
    "CumProd": _cumulate_by("*"),
}


# --- norms ----------------------------------------------------------------------------------------------

# Normalisation operators, with statistics from the data or from training.


def _batch(o: Applied) -> Value | tuple[Value, ...]:
    x, scale, bias, mean, var = (o[n] for n in range(5))
    if o.opset < 14 and o.results > 1:
        raise NotTaken("in training it has kernels since version 14")
    if o.opset < 9 and not o.integer("spatial", 1):
        raise NotTaken("without `spatial` it has no kernel here")
    inside = wide_type(x.dtype)
    eps = cast(number(o.real("epsilon", 1e-5)), inside).text
    template = f"({{1}} * ({{0}} - {{3}}) / sqrt({{4}} + {eps}) + {{2}})"
    if not o.integer("training_mode", 0):
        return o.map(template, x, *(_spread(v, x) for v in (scale, bias, mean, var)))
    axes = [n for n in range(x.rank) if n != 1]
    now = reduce_axes(o, x, axes, REDUCTIONS_BY_NAME["ReduceMean"], keeps=True)
    squares = o.map("({0} - {1}) * ({0} - {1})", x, now)
    spread = reduce_axes(o, squares, axes, REDUCTIONS_BY_NAME["ReduceMean"], keeps=True)
    y = o.map(template, x, _spread(scale, x), _spread(bias, x), now, spread)
    kept = cast(number(o.real("momentum", 0.9)), inside).text
    mixed = f"({{0}} * {kept} + {{1}} * (1 - {kept}))"
    return (y, *(o.map(mixed, old, one.shaped(old.shape)) for old, one in ((mean, now), (var, spread))))


def _spread(value: Value, x: Value) -> Value:
    """Return one number per channel as a value that is broadcast over images."""
    return value.shaped((value.count, *(1 for _ in x.shape[2:])))


def normalise_rows(
    o: Applied,
    x: Value,
    rows: Sequence[int],
    gamma: Value | None,
    beta: Value | None,
    eps: float,
    *,
    statistics: bool = False,
    centred: bool = True,
) -> tuple[Value, ...]:
    """Return rows minus their means, divided by their deviations, scaled and shifted by broadcast values.

    `rows` are the axes that number them. With `statistics`, means and inverse deviations are results, too. If
    not `centred`, the mean is assumed to be 0.
    """
    text = o.text()
    inside = wide_type(x.dtype)
    y = text.write(x.dtype, x.shape, x.order)
    at, _ = axes_of(x.shape)
    whole = y.loops(at)
    row = [at[n] for n in rows]
    loops = {name: size for name, size in whole.items() if name in row}
    sizes = [x.shape[n] for n in rows]
    count = as_value(prod(size for n, size in enumerate(x.shape) if n not in rows), inside)
    make = (lambda: text.write(inside, sizes)) if statistics else (lambda: text.temp(inside, sizes))
    mean = make() if centred else None
    rate = make()
    value = cast(text.read(x).term(at), inside).text
    if mean is not None:
        text.loop(loops, f"{mean.at(row)} = 0;")
        text.loop(whole, f"{mean.at(row)} += {value};")
        text.loop(loops, f"{mean.at(row)} = {mean.at(row)} / {count};")
        value = f"({value} - {mean.at(row)})"
    text.loop(loops, f"{rate.at(row)} = 0;")
    text.loop(whole, f"{rate.at(row)} += {value} * {value};")
    small = cast(number(eps), inside).text
    text.loop(loops, f"{rate.at(row)} = 1 / sqrt({rate.at(row)} / {count} + {small});")
    found = f"{value} * {rate.at(row)}"
    for sign, more in (("*", gamma), ("+", beta)):
        if more is not None:
            found = (
                f"{found} {sign} {cast(text.read(more).term(broadcast_index(more.shape, at)), inside).text}"
            )
    text.loop(whole, f"{y.at(at)} = {cast(TextTerm(f'({found})', inside), x.dtype).text};")
    return text.all_done()


def _layer(o: Applied) -> tuple[Value, ...]:
    x = o[0]
    axis = o.axis(o.integer("axis", -1), x.rank)
    if o.integer("stash_type", 1) != 1 and x.dtype in ("f16", "bf16"):
        raise NotTaken("with statistics in a type of 16 bits it has no kernel here")
    found = normalise_rows(
        o, x, range(axis), o.optional(1), o.optional(2), o.real("epsilon", 1e-5), statistics=o.results > 1
    )
    shape = (*x.shape[:axis], *(1 for _ in x.shape[axis:]))
    return found[0], *(one.shaped(shape) for one in found[1:])


def _rms(o: Applied) -> Value:
    x = o[0]
    axis = o.axis(o.integer("axis", -1), x.rank)
    if o.integer("stash_type", 1) != 1 and x.dtype in ("f16", "bf16"):
        raise NotTaken("with statistics in a type of 16 bits it has no kernel here")
    return normalise_rows(o, x, range(axis), o.optional(1), None, o.real("epsilon", 1e-5), centred=False)[0]


def _instance(o: Applied) -> Value:
    x = o[0]
    scale, bias = (o[n].shaped((o[n].count, *(1 for _ in x.shape[2:]))) for n in (1, 2))
    return normalise_rows(o, x, (0, 1), scale, bias, o.real("epsilon", 1e-5))[0]


def _group(o: Applied) -> Value:
    x, groups = o[0], o.integer("num_groups", 1)
    each = x.shape[1] // groups
    parts = x.shaped((x.shape[0], groups, each, prod(x.shape[2:])))
    per_group = o.opset < 21
    sizes = (groups, 1, 1) if per_group else (groups, each, 1)
    scale, bias = (o[n].shaped(sizes) for n in (1, 2))
    return normalise_rows(o, parts, (0, 1), scale, bias, o.real("epsilon", 1e-5))[0].shaped(x.shape)


def _mean_variance(o: Applied) -> Value:
    x = o[0]
    axes = {o.axis(a, x.rank) for a in o.list("axes") or (0, 2, 3)}
    rows = [n for n in range(x.rank) if n not in axes]
    text = o.text()
    y, inside = text.write(x.dtype, x.shape, x.order), wide_type(x.dtype)
    at, _ = axes_of(x.shape)
    whole = y.loops(at)
    row = [at[n] for n in rows]
    loops = {name: size for name, size in whole.items() if name in row}
    mean, square = (text.temp(inside, [x.shape[n] for n in rows]) for _ in range(2))
    value, count = cast(text.read(x).term(at), inside).text, as_value(prod(x.shape[n] for n in axes), inside)
    text.loop(loops, f"{mean.at(row)} = 0;", f"{square.at(row)} = 0;")
    text.loop(whole, f"{mean.at(row)} += {value};")
    text.loop(loops, f"{mean.at(row)} = {mean.at(row)} / {count};")
    text.loop(whole, f"{square.at(row)} += ({value} - {mean.at(row)}) * ({value} - {mean.at(row)});")
    small = cast(number(1e-9), inside).text
    found = f"(({value} - {mean.at(row)}) / (sqrt({square.at(row)} / {count}) + {small}))"
    text.loop(whole, f"{y.at(at)} = {cast(TextTerm(found, inside), x.dtype).text};")
    return text.done()


def _lp(o: Applied) -> Value:
    x = o[0]
    axis = o.axis(o.integer("axis", -1), x.rank)
    p, text, inside = o.real("p", 2), o.text(), wide_type(x.dtype)
    y = text.write(x.dtype, x.shape)
    at, whole = axes_of(x.shape)
    row = [name for n, name in enumerate(at) if n != axis]
    loops = {name: size for name, size in whole.items() if name in row}
    total = text.temp(inside, [size for n, size in enumerate(x.shape) if n != axis])
    value = cast(text.read(x).term(at), inside).text
    text.loop(loops, f"{total.at(row)} = 0;")
    text.loop(whole, f"{total.at(row)} += {f'abs({value})' if p == 1 else f'{value} * {value}'};")
    if p != 1:
        text.loop(loops, f"{total.at(row)} = sqrt({total.at(row)});")
    found = f"select({total.at(row)} == 0, 0, {value} / {total.at(row)})"
    text.loop(whole, f"{y.at(at)} = {cast(TextTerm(found, inside), x.dtype).text};")
    return text.done()


def _lrn(o: Applied) -> Value:
    x, size = o[0], o.integer("size", 1)
    if x.rank < 2:
        raise NotTaken("no channels")
    text = o.text()
    image = text.read(x)
    y = text.write(x.dtype, x.shape, x.order)
    at, _ = axes_of(x.shape)
    whole = y.loops(at)
    total = text.temp("f64", x.shape, x.order)
    before = (size - 1) // 2
    pixel = cast(
        TextTerm(image.filled([at[0], f"{at[1]} + c - {before}", *at[2:]], "0"), x.dtype), "f64"
    ).text
    text.loop(whole, f"{total.at(at)} = 0;")
    text.loop({**whole, "c": size}, f"{total.at(at)} += {pixel} * {pixel};") if size > 1 else text.loop(
        whole, f"{total.at(at)} = f64({image.at(at)}) * f64({image.at(at)});"
    )
    alpha, beta, bias = o.real("alpha", 1e-4) / size, o.real("beta", 0.75), o.real("bias", 1.0)
    base = f"({bias!r} + {alpha!r} * {total.at(at)})"
    found = TextTerm(f"f64({image.at(at)}) / exp({beta!r} * log({base}))".replace("e+", "e"), "f64")
    text.loop(whole, f"{y.at(at)} = {cast(found, y.dtype).text};")
    return text.done()


NORMS: Mapping[str, Lowered] = {
    "BatchNormalization": _batch,
    "LayerNormalization": _layer,
    "RMSNormalization": _rms,
    "SimplifiedLayerNormalization": _rms,  # as runtimes call it, in the domain of ONNX
    "InstanceNormalization": _instance,
    "GroupNormalization": _group,
    "MeanVarianceNormalization": _mean_variance,
    "LpNormalization": _lp,
    "LRN": _lrn,
}
