"""Elementwise operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from isamap.graph.applied import Applied, element, known_value
from isamap.graph.graph import Array
from isamap.graph.making import Value, axes_of, broadcast_shape, nest
from isamap.graph.pending import band_of
from isamap.graph.terms import NotTaken, TextTerm, cast, limit, number, wide_type
from isamap.graph.types import CODED, TYPES, convert_stored, stored_type
from isamap.ir import DTYPES, OPS, Op

Lowered = Callable[[Applied], "Value | tuple[Value | None, ...]"]
"""A lowered operator; None for each result that it does not compute."""


def floats(template: str, **defaults: float) -> Lowered:
    """Return a lowering of a float operation from a template of inputs and attributes."""

    def lower(o: Applied) -> Value:
        _check_floats(o)
        inside = wide_type(o[0].dtype)
        given = {name: cast(number(o.real(name, value)), inside).text for name, value in defaults.items()}
        return o.formed(
            lambda terms: template.format(*_in(terms, inside), **given), o.all, o[0].dtype, inside
        )

    return lower


def through_f64(template: str) -> Lowered:
    """Return a lowering of a float function computed in f64, because its formula loses digits in f32."""

    def lower(o: Applied) -> Value:
        _check_floats(o)
        return o.formed(lambda terms: template.format(*_in(terms, "f64")), (o[0],), o[0].dtype, "f64")

    return lower


def numbers(template: str) -> Lowered:
    """Return a lowering of an operation on all numeric types."""
    return lambda o: o.map(template, *_of_one_type(o))


def compare_values(template: str, inside: str = "") -> Lowered:
    """Return a lowering of a comparison or of an operation on bools."""

    def lower(o: Applied) -> Value:
        values = _of_one_type(o)
        own = inside or (wide_type(values[0].dtype))
        return o.formed(lambda terms: template.format(*_in(terms, own)), values, "bool", "bool")

    return lower


def many(template: str, *, is_mean: bool = False) -> Lowered:
    """Return a lowering of an operation on any number of inputs, two at a time."""

    def lower(o: Applied) -> Value:
        values = _of_one_type(o)
        inside = wide_type(values[0].dtype)

        def form(terms: Sequence[TextTerm]) -> str:
            found, *others = _in(terms, inside)
            for other in others:
                found = template.format(found, other)
            return f"({found} / {len(terms)})" if is_mean else found

        return o.formed(form, values, values[0].dtype, inside)

    return lower


def _in(terms: Sequence[TextTerm], dtype: str) -> list[str]:
    return [cast(term, dtype).text for term in terms]


def _check_floats(o: Applied) -> None:
    if not all(DTYPES[v.dtype].is_float for v in o.all if v.dtype):
        raise NotTaken(f"on {o[0].dtype} it has no kernel here")


def _of_one_type(o: Applied) -> tuple[Value, ...]:
    values = o.all
    if len({v.dtype for v in values}) > 1:
        raise NotTaken(f"inputs of the types {', '.join(v.dtype for v in values)}")
    return values


def look_up_bytes(o: Applied, x: Value, table: Value) -> Value:
    """Return, for each byte, its element in a table of 256, which starts at the smallest byte."""
    low = DTYPES[x.dtype].low
    text = o.text()
    lying = x.flat.shaped((x.count,))
    found, codes = text.read(table), text.read(lying, f" values {low}..{low + 255}")
    y = text.write(table.dtype, (x.count,))
    (at,), loops = axes_of(y.shape)
    place = f"{codes.at([at])} + {-low}" if low else codes.at([at])
    text.loop(loops, f"{y.at([at])} = {found.at([place])};")
    return replace(text.done(), shape=x.shape).ordered(x.order)


def of_bytes(o: Applied, x: Value, through: Callable[[Value], Value]) -> Value:
    """Return an elementwise operation. On bytes, with other operands known, it becomes a table look-up."""
    if DTYPES[x.dtype].is_integer and DTYPES[x.dtype].bits == 8 and x.known is None:
        mark, low = o.making.mark(), DTYPES[x.dtype].low
        table = through(known_value(np.arange(low, low + 256), x.dtype))
        if table.known is not None and table.dtype:
            return look_up_bytes(o, x, table)
        o.making.drop_after(mark)
    return through(x)


# --- those that need more than a text ---------------------------------------------------------------------


def decode_numbers(o: Applied, value: Value) -> Value:
    """Return numbers decoded from a type that the language lacks to one that it has."""
    if value.dtype in ("i2", "u2"):
        known = convert_stored(value.known) if value.known is not None else None
        return replace(value, dtype=stored_type(value.dtype), known=known)
    return look_up_bytes(o, replace(value, dtype="u8"), known_value(_numbers(value.dtype, 256), "f32"))


def _numbers(dtype: str, count: int) -> Array:
    """Return the values of the first codes of a type. Codes beyond 4 bits repeat."""
    codes = np.arange(count, dtype=np.uint8) & (15 if dtype == "f4e2m1" else 255)
    return codes.view(np.dtype(CODED[dtype])).astype(np.float32)


def encode_numbers(o: Applied, value: Value, dtype: str, *, saturate: bool) -> Value:
    """Return numbers encoded as bytes of a type that the language lacks.

    The code of a float is how many numbers of the type have their upper midpoint below it. A midpoint itself
    rounds to the even code. Integers keep their low bits.
    """
    if dtype in ("i2", "u2"):
        low = 2 if dtype == "i2" else 0
        text = f"((wrap_i32({{0}}) % 4 + {4 + low}) % 4 - {low})"
        return replace(
            o.map(text, value, dtype=stored_type(dtype), inside=value.dtype, result="i32"), dtype=dtype
        )
    sign, nan = {"f4e2m1": (8, 8), "f8e8m0": (255, 255)}.get(dtype, (128, 128))
    numbers = _numbers(dtype, sign).astype(np.float64)
    if not saturate:
        numbers = np.append(numbers, 2 * numbers[-1] - numbers[-2])
    middles = (numbers[:-1] if dtype == "f8e8m0" else (numbers[1:] + numbers[:-1]) / 2).astype(np.float32)
    is_even = np.arange(len(middles)) % 2 == 0 if dtype != "f8e8m0" else True
    text, x = o.text(), value if value.dtype == "f32" else cast_value(o, value, "f32")
    at, loops = axes_of(x.shape)
    limits = text.read(known_value(np.where(is_even, middles, np.nextafter(middles, np.float32(0))), "f32"))
    count, each = text.temp("i32", x.shape).at(at), text.read(x).at(at)
    y = text.write("u8", x.shape)
    text.loop(loops, f"{count} = 0;")
    beyond = f"abs({each}) > {limits.at(['k'])}"
    text.loop({**loops, "k": len(middles)}, f"{count} += select({beyond}, i32(1), i32(0));")
    is_below = f"{each} < 0 & {count} > 0"
    if dtype == "f4e2m1":  # which has a zero below 0
        is_below = f"{each} < 0 | f32(1.0) / {each} < 0"
    code = f"{count} + select({is_below}, i32({sign}), i32(0))" if dtype != "f8e8m0" else count
    is_none = f"{each} != {each}" + ("" if saturate else f" | {count} >= {len(middles)}")
    text.loop(loops, f"{y.at(at)} = wrap_u8(select({is_none}, i32({nan}), {code}));")
    return replace(text.done(), dtype=dtype)


def cast_value(o: Applied, value: Value, dtype: str, *, saturate: bool = True) -> Value:
    """Return a value cast to another type as ONNX defines it. Raises: NotTaken."""
    if value.dtype == dtype:
        return value
    if not dtype or not value.dtype:
        raise NotTaken("no kernel computes with one of the types")
    if value.dtype in CODED:
        return cast_value(o, decode_numbers(o, value), dtype, saturate=saturate)
    if dtype in CODED:
        return encode_numbers(o, value, dtype, saturate=saturate)
    if dtype.startswith("f8") and DTYPES[value.dtype].is_float:
        if not saturate:  # what is larger than the largest number is NaN, or infinite where there is that
            return o.map("{0}", value, dtype=dtype)
        most = cast(number(DTYPES[dtype].largest), wide_type(value.dtype)).text
        return o.map(f"min(max({{0}}, -{most}), {most})", value, dtype=dtype)
    if dtype in ("i4", "u4") and DTYPES[value.dtype].is_float:  # ONNX keeps the low bits of these two
        return o.map(f"wrap_{dtype}({{0}})", value, dtype=dtype, inside=value.dtype, result=dtype)
    return o.map("{0}", value, dtype=dtype, inside=value.dtype)


def _cast(o: Applied) -> Value:
    if o.word("round_mode", "up") != "up":
        raise NotTaken("rounding modes of f8e8m0 have no kernel here")
    return cast_value(o, o[0], TYPES.get(o.integer("to", 0), ""), saturate=bool(o.integer("saturate", 1)))


def _clip(o: Applied) -> Value:
    x, template = o[0], "{0}"
    inside, values = wide_type(x.dtype), [x]
    for place, name in enumerate(("min", "max"), 1):
        if o.opset < 11 and o.has(name):
            known = o.real(name, 0.0)
            text = cast(number(known), inside).text
        elif o.opset < 11:
            continue  # the default is the largest number of f32
        elif (bound := o.optional(place)) is None:
            continue
        else:
            known = None if bound.known is None else float(bound.known.reshape(-1)[0])
            kind = DTYPES[x.dtype]
            if kind.is_integer and known == (kind.low if name == "min" else kind.high):
                continue  # no element is beyond it
            text = f"{{{len(values)}}}"
            values.append(bound.shaped(()))
        template = limit(template, text, known, inside, is_upper=name == "max")
    return o.map(template, *values) if template != "{0}" else x


def _sign(o: Applied) -> Value:
    if DTYPES[o[0].dtype].kind == "uint":
        return o.map("min({0}, 1)", o[0])
    return o.map("select({0} > 0, 1, select({0} < 0, -1, abs({0})))", o[0])


_BY_INFINITY = "abs({1}) == inf & abs({0}) != inf"


def _mod(o: Applied) -> Value:
    a, b = _of_one_type(o)
    if not o.integer("fmod", 0):
        if DTYPES[a.dtype].is_float:
            same = "{0} == 0 | {0} != {0} | ({0} < 0) == ({1} < 0)"
            rest = "fma(-round({0} / {1}, down), {1}, {0})"
            exact = f"select(({rest}) != 0 & (({rest}) < 0) != ({{1}} < 0), {rest} + {{1}}, {rest})"
            return o.map(f"select({_BY_INFINITY}, select({same}, {{0}}, {{1}}), {exact})", a, b, inside="f64")
        if DTYPES[a.dtype].kind == "uint":
            return o.map("({0} % {1})", a, b)
        return o.map(
            "select(({0} % {1} != 0) & (({0} % {1} < 0) != ({1} < 0)), {0} % {1} + {1}, {0} % {1})", a, b
        )
    if not DTYPES[a.dtype].is_float:
        return o.map("({0} % {1})", a, b)
    rest = "fma(-round({0} / {1}, zero), {1}, {0})"
    return o.map(f"select({_BY_INFINITY}, {{0}}, {rest})", a, b, inside="f64")


def _pow(o: Applied) -> Value:
    x, y = o[0], o[1]
    if not DTYPES[x.dtype].is_float and not DTYPES[y.dtype].is_float:
        return _whole_power(o, x, y)
    literal = y.known.reshape(-1)[0] if y.known is not None and y.count == 1 else None
    simple = {1: "{0}", 2: "({0} * {0})", 3: "({0} * {0} * {0})", 0.5: "sqrt({0})", -1: "(1 / {0})"}
    if literal is not None and float(literal) in simple and DTYPES[x.dtype].is_float:
        return o.map(simple[float(literal)], x)
    size = "exp({1} * log(abs({0})))"
    is_odd = "(round({1} / 2, down) * 2 != {1})"
    is_whole, of_root = "round({1}, down) == {1}", f"select({{0}} == -inf, {size}, inf - inf)"
    of_negative = f"select({is_whole}, select({is_odd}, -{size}, {size}), {of_root})"
    of_zero = f"select((round({{1}}, down) == {{1}}) & {is_odd}, select({{1}} < 0, 1 / {{0}}, {{0}}), {size})"
    of_others = f"select({{0}} == 0, {of_zero}, {size})"
    is_one = "{1} == 0 | {0} == 1 | abs({0}) == 1 & abs({1}) == inf"
    power = f"select({is_one}, 1, select({{0}} < 0, {of_negative}, {of_others}))"
    if not DTYPES[x.dtype].is_float:
        power = f"round({power} * 1.000000000001, zero)"  # whole powers are whole, whatever log rounds
    return o.map(power, x, y, inside="f64")


def _whole_power(o: Applied, x: Value, y: Value) -> Value:
    """Return an integer raised to an integer power by repeated squaring. The result wraps around.

    A negative exponent gives the exact result for the bases 1 and -1, and 0 for others.
    """
    text = o.text()
    axes, loops = axes_of(shape := broadcast_shape([x.shape, y.shape]))
    base = element(text, x, axes)
    power = cast(element(text, y, axes), "i64").text
    result = text.write(x.dtype, shape)
    square, found = text.temp(x.dtype, shape), text.temp(x.dtype, shape)
    p, r, b = square.at(axes), found.at(axes), base.text
    text.loop(loops, f"{p} = {b};", f"{r} = 1;")
    step = f"{r} = select((({power} >> i64(k)) & 1) == 1, {r} * {p}, {r});"
    text.state(nest({"k": 63}, nest(loops, step, f"{p} = {p} * {p};"), word="seq"))
    negative = f"select({b} == 1, {b}, 0)"
    if DTYPES[x.dtype].kind == "int":
        negative = f"select(abs({b}) == 1, select(({power} & 1) == 1, {b}, {b} * {b}), 0)"
    text.loop(loops, f"{result.at(axes)} = select({power} < 0, {negative}, {r});")
    return text.done()


def _add(o: Applied) -> Value:
    """Return a sum. A band mask of 0 and -inf becomes a `select`, whose condition can bound loops."""
    for x, added in ((o[0], o[1]), (o[1], o[0])):
        if x.known is None and added.known is not None and x.dtype == added.dtype and added.rank > 1:
            kept = np.asarray(added.known == 0)
            if np.array_equal(added.known[~kept], np.full((~kept).sum(), -np.inf)) and band_of(kept):
                chosen = known_value(kept, "bool"), x, known_value(np.asarray(-np.inf), x.dtype)
                return o.formed(
                    lambda t: f"select({t[0].text}, {t[1].text}, {t[2].text})", chosen, x.dtype, x.dtype
                )
    return o.map("({0} + {1})", *_of_one_type(o))


def _where(o: Applied) -> Value:
    chosen, one, other = o[0], o[1], o[2]
    if one.dtype != other.dtype:
        raise NotTaken(f"choosing between {one.dtype} and {other.dtype}")
    if chosen.known is not None and chosen.count and chosen.known.min() == chosen.known.max():
        found = one if chosen.known.all() else other
        if found.shape == broadcast_shape([v.shape for v in (chosen, one, other)]):
            return found
    return o.formed(
        lambda t: f"select({t[0].text}, {t[1].text}, {t[2].text})", (chosen, one, other), one.dtype, one.dtype
    )


def _shift(o: Applied) -> Value:
    sign = "<<" if o.word("direction", "") == "LEFT" else ">>"
    return o.map(f"({{0}} {sign} {{1}})", *_of_one_type(o))


def _is_infinite(o: Applied) -> Value | tuple[Value | None, ...]:
    tests = [
        f"({{0}} == {sign}inf)"
        for sign, name in (("", "positive"), ("-", "negative"))
        if o.integer(f"detect_{name}", 1)
    ]
    if not tests:
        return o.formed(lambda t: f"({t[0].text} != {t[0].text}) & false", (o[0],), "bool", "bool")
    return compare_values(f"({' | '.join(tests)})")(o)


def _gelu(o: Applied) -> Value:
    if o.word("approximate", "none") == "tanh":
        return o.map("(0.5*{0} * (1 + tanh(0.7978845608028654 * ({0} + 0.044715*{0}*{0}*{0}))))", o[0])
    return o.map("(0.5*{0} * (1 + erf({0} * 0.7071067811865476)))", o[0])


def _of_row(op: Op, text: str) -> Lowered:
    """Return the lowering for an operation of the language."""
    if op.result == "bool" or op.domain == "logical":
        return compare_values(text)
    return floats(text) if op.domain == "float" else numbers(text)


ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "Softsign": ("({0} / (1 + abs({0})))", {}),
    "Elu": ("select({0} > 0, {0}, {alpha} * expm1({0}))", {"alpha": 1.0}),
    "LeakyRelu": ("select({0} < 0, {0} * {alpha}, {0})", {"alpha": 0.01}),
    "ThresholdedRelu": ("select({0} > {alpha}, {0}, 0)", {"alpha": 1.0}),
    "HardSigmoid": ("max(0, min(1, {0} * {alpha} + {beta}))", {"alpha": 0.2, "beta": 0.5}),
}
"""Templates of an input and of attributes, with the defaults of the attributes in the order of ONNX."""

ELEMENTWISE: Mapping[str, Lowered] = {
    **{name: floats(template, **defaults) for name, (template, defaults) in ACTIVATIONS.items()},
    **{name: _of_row(op, text) for op in OPS.values() for name, text in op.texts(op.onnx).items()},
    "Relu": lambda o: o.map(limit("{0}", "0", 0, wide_type(o[0].dtype), is_upper=False), o[0]),
    "Asinh": through_f64(
        "select({0} == 0, {0}, select({0} < 0, -1, 1)"
        " * log1p(abs({0}) + abs({0}) / (1 / abs({0}) + sqrt(1 / ({0} * {0}) + 1))))"
    ),
    "Acosh": through_f64("log({0} + sqrt(({0} - 1) * ({0} + 1)))"),
    "Atanh": through_f64("(0.5 * log1p(2 * {0} / (1 - {0})))"),
    "Add": _add,
    "Reciprocal": floats("(1 / {0})"),
    "Mish": floats("({0} * tanh(softplus({0})))"),
    "Selu": floats(
        "({gamma} * select({0} > 0, {0}, {alpha} * expm1({0})))",
        alpha=1.67326319217681884765625,
        gamma=1.05070102214813232421875,
    ),
    "Celu": floats("select({0} > 0, {0}, {alpha} * expm1({0} / {alpha}))", alpha=1.0),
    "HardSwish": floats("({0} * max(0, min(1, {0} / 6 + 0.5)))"),
    "Swish": floats("({0} * sigmoid({0} * {alpha}))", alpha=1.0),
    "Shrink": floats(
        "select({0} < -{lambd}, {0} + {bias}, select({0} > {lambd}, {0} - {bias}, 0))", lambd=0.5, bias=0.0
    ),
    "Gelu": _gelu,
    "PRelu": lambda o: o.map("select({0} < 0, {0} * {1}, {0})", o[0], o[1]),
    "Sign": _sign,
    "Mod": _mod,
    "Pow": _pow,
    "Max": many("max({0}, {1})"),
    "Min": many("min({0}, {1})"),
    "Sum": many("({0} + {1})"),
    "Mean": many("({0} + {1})", is_mean=True),
    "IsNaN": compare_values("({0} != {0})"),
    "IsInf": _is_infinite,
    "BitwiseAnd": numbers("({0} & {1})"),
    "BitwiseOr": numbers("({0} | {1})"),
    "BitwiseXor": numbers("({0} ^ {1})"),
    "BitwiseNot": numbers("(~{0})"),
    "BitShift": _shift,
    "Where": _where,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": lambda o: cast_value(o, o[0], o[1].dtype, saturate=bool(o.integer("saturate", 1))),
}


OWN: Mapping[str, Lowered] = {
    "Log1p": floats("log1p({0})"),
    "Expm1": floats("expm1({0})"),
    "Atan2": floats("atan2({0}, {1})"),
    "Trunc": floats("round({0}, zero)"),
}
"""Operators that ONNX does not have."""
