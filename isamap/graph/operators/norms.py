"""Normalisation operators, with statistics from the data or from training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from isamap.graph.applied import Applied
from isamap.graph.making import Value, axes_of, broadcast_index
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.operators.reductions import REDUCTIONS_BY_NAME, reduce_axes
from isamap.graph.sizes import as_value
from isamap.graph.terms import NotTaken, TextTerm, cast, number, wide_type


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
    y = text.write(x.dtype, x.shape)
    at, whole = axes_of(x.shape)
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
    y, inside = text.write(x.dtype, x.shape), wide_type(x.dtype)
    at, whole = axes_of(x.shape)
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
    y = text.write(x.dtype, x.shape)
    at, whole = axes_of(x.shape)
    total = text.temp("f64", x.shape)
    before = (size - 1) // 2
    there = f"{image.name}[{', '.join([at[0], f'{at[1]} + c - {before}', *at[2:]])}] else 0"
    pixel = f"f64({there})" if x.dtype != "f64" else f"({there})"
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
