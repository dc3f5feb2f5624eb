"""Torch operations: elementwise ones, and gradients of convolutions, each as torch defines it.

aten.mul.Tensor on bf16  ->  bf16(f32(a) * f32(b))

torch computes bf16 in f32 and rounds each result; so does the text, node by node: kernels that perform
several nodes round as often as torch does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isamap.adjoint import gradient
from isamap.graph.applied import Applied
from isamap.graph.making import KernelText, Operand, Value, axes_of
from isamap.graph.operators.elementwise import Lowered
from isamap.graph.terms import NotTaken, TextTerm, cast, limit, number, wide_type
from isamap.ir import DTYPES, OPS, Kernel, print_stmt
from isamap.source import Source
from isamap.syntax import parse_kernel


@dataclass(frozen=True, slots=True)
class Formula:
    """An operation as a text with terms `{0}`, `{1}`, ….

    `kinds` are the accepted types: "float", "number", "whole" (integers and bool), or "any". `is_truth` is
    true if the result is a bool, for any compared type.
    """

    template: str
    kinds: str = "float"
    is_truth: bool = False


_KINDS = {"integer": "whole", "logical": "whole"}
_FORMULAS: Mapping[str, Formula] = {
    **{
        name: Formula(text, _KINDS.get(op.domain, op.domain), is_truth=op.result == "bool")
        for op in OPS.values()
        for name, text in op.texts(op.aten).items()
    },
    "div": Formula("({0} / {1})"),
    "rsqrt": Formula("(1 / sqrt({0}))"),
    "reciprocal": Formula("(1 / {0})"),
    "silu": Formula("({0} * sigmoid({0}))"),
    "clamp_min.Tensor": Formula("max({0}, {1})", "number"),
    "clamp_max.Tensor": Formula("min({0}, {1})", "number"),
    "hardsigmoid": Formula("(min(max({0} + 3, 0), 6) / 6)"),
    "hardswish": Formula("({0} * min(max({0} + 3, 0), 6) / 6)"),
    "sigmoid_backward": Formula("({0} * (1 - {1}) * {1})"),
    "tanh_backward": Formula("({0} * (1 - {1}*{1}))"),
    "clone": Formula("{0}", "any"),
}
"""Operations of the language, then the operations composed of them."""

Option = Callable[[str], Any]
"""The value of a further argument by its name, or its default."""

Made = Callable[[Sequence[str], Option, str], str]
"""A text of terms in a type, and of further arguments."""


def _sum(sign: str) -> Made:
    def text(given: Sequence[str], option: Option, dtype: str) -> str:
        alpha = option("alpha")
        other = given[1] if alpha == 1 else f"{given[1]} * {_number(alpha, dtype)}"
        return f"({given[0]} {sign} {other})"

    return text


def _rsub(given: Sequence[str], option: Option, dtype: str) -> str:
    return _sum("-")(given[::-1], option, dtype)


def _gelu(given: Sequence[str], option: Option, dtype: str) -> str:
    (x,) = given
    if option("approximate") == "tanh":
        return f"(0.5*{x} * (1 + tanh(0.7978845608028654 * ({x} + 0.044715*{x}*{x}*{x}))))"
    return f"(0.5*{x} * (1 + erf({x} * 0.7071067811865476)))"


def _gelu_backward(given: Sequence[str], option: Option, dtype: str) -> str:
    g, x = given
    if option("approximate") != "none":
        _no("the gradient of gelu by tanh")
    density = f"{x} * exp(-0.5 * {x} * {x}) * 0.3989422804014327"
    return f"({g} * (0.5 * (1 + erf({x} * 0.7071067811865476)) + {density}))"


def _pow(given: Sequence[str], option: Option, dtype: str) -> str:
    x, power = given[0], option("exponent")
    known = {
        1: x,
        2: f"({x} * {x})",
        3: f"({x} * {x} * {x})",
        0.5: f"sqrt({x})",
        -0.5: f"(1 / sqrt({x}))",
        -1: f"(1 / {x})",
    }
    return known.get(power) or _no(f"the power {power}")


def _clamp(given: Sequence[str], option: Option, dtype: str) -> str:
    found = given[0]
    for name in ("min", "max"):
        bound = option(name)
        if bound is not None:
            found = limit(found, _number(bound, dtype), bound, dtype, is_upper=name == "max")
    return found


def _leaky(given: Sequence[str], option: Option, dtype: str) -> str:
    return f"select({given[0]} > 0, {given[0]}, {given[0]} * {_number(option('negative_slope'), dtype)})"


def _softplus(given: Sequence[str], option: Option, dtype: str) -> str:
    x, (beta, most) = given[0], (_number(option(name), dtype) for name in ("beta", "threshold"))
    return f"select({x} * {beta} > {most}, {x}, softplus({x} * {beta}) / {beta})"


def _threshold_backward(given: Sequence[str], option: Option, dtype: str) -> str:
    return f"select({given[1]} <= {_number(option('threshold'), dtype)}, {_number(0, dtype)}, {given[0]})"


@dataclass(frozen=True, slots=True)
class Optioned:
    """An operation whose text depends on further arguments: the number of terms, and these arguments."""

    terms: int
    options: tuple[tuple[str, Any], ...]
    made: Made
    kinds: str = "float"


_OPTIONED: Mapping[str, Optioned] = {
    "add": Optioned(2, (("alpha", 1),), _sum("+"), "number"),
    "sub": Optioned(2, (("alpha", 1),), _sum("-"), "number"),
    "rsub": Optioned(2, (("alpha", 1),), _rsub, "number"),
    "gelu": Optioned(1, (("approximate", "none"),), _gelu),
    "gelu_backward": Optioned(2, (("approximate", "none"),), _gelu_backward),
    "pow": Optioned(1, (("exponent", None),), _pow),
    "clamp": Optioned(1, (("min", None), ("max", None)), _clamp, "number"),
    "clamp_min": Optioned(1, (("min", None), ("max", None)), _clamp, "number"),
    "clamp_max": Optioned(1, (("max", None), ("min", None)), _clamp, "number"),
    "relu": Optioned(1, (("min", 0), ("max", None)), _clamp, "number"),
    "hardtanh": Optioned(1, (("min", -1), ("max", 1)), _clamp, "number"),
    "leaky_relu": Optioned(1, (("negative_slope", 0.01),), _leaky),
    "softplus": Optioned(1, (("beta", 1), ("threshold", 20)), _softplus),
    "threshold_backward": Optioned(2, (("threshold", 0),), _threshold_backward, "number"),
}

FORMS = ("default", "Tensor", "Scalar", "self", "Tensor_Scalar")
"""The forms of an operation on single elements, by torch's name behind the dot."""
_CONVERSIONS = ("_to_copy", "convert_element_type", "where")


def _entry(name: str) -> Formula | Optioned | None:
    """Return the table row of a torch operation such as `mul.Tensor`, or None if it is not elementwise."""
    base = name.partition(".")[0]
    if base in _CONVERSIONS:
        return None
    return _FORMULAS.get(name) or _OPTIONED.get(base) or _FORMULAS.get(base)


def count_of(name: str) -> int:
    """Return how many arguments of an operation are terms, which are tensors or numbers."""
    match _entry(name):
        case Formula(template):
            return 2 if "{1}" in template else 1
        case Optioned(terms):
            return terms
        case None:
            return 3 if name.startswith("where.") else 1


def options_of(name: str) -> tuple[tuple[str, Any], ...]:
    """Return the further arguments of an operation, in order, each with its default."""
    found = _entry(name)
    return found.options if isinstance(found, Optioned) else ()


def _elementwise(o: Applied) -> Value:
    """Compute an elementwise operation, rounded to the type of its result, `result`.

    A number instead of an input is its attribute `number0`, `number1`, …. `promoted` is the type in which
    torch compares inputs.
    """
    promoted, result = o.word("promoted", ""), o.word("result", "")

    def form(terms: Sequence[TextTerm]) -> str:
        left = iter(terms)
        given = [
            number(o.attribute(f"number{n}")) if value is None else next(left)
            for n, value in enumerate(o.inputs)
        ]
        return _value_of(o, given, promoted, result).text

    return o.formed(form, [value for value in o.inputs if value is not None], result, result)


def _value_of(o: Applied, given: Sequence[TextTerm], promoted: str, result: str) -> TextTerm:
    """Return the value of a node, computed from its terms in its result type. Raises: NotTaken."""
    match _entry(o.node.op):
        case Formula(template, kinds, is_truth):
            compared = promoted if is_truth else result
            inside = _computed_type(kinds, compared)
            texts = [cast(cast(t, compared) if is_truth else t, inside).text for t in given]
            return cast(TextTerm(template.format(*texts), "bool" if is_truth else inside), result)
        case Optioned(_, options, made, kinds):
            inside = _computed_type(kinds, result)
            texts = [cast(t, inside).text for t in given]
            found = {name: o.attribute(name, default) for name, default in options}
            return cast(TextTerm(made(texts, found.__getitem__, inside), inside), result)
        case None if o.node.op.startswith("where."):
            chosen, one, other = cast(given[0], "bool"), cast(given[1], result), cast(given[2], result)
            return TextTerm(f"select({chosen.text}, {one.text}, {other.text})", result)
        case None:
            return cast(given[0], result)


def _computed_type(kinds: str, dtype: str) -> str:
    """Return the type in which an operation is computed. Raises: NotTaken."""
    is_float = DTYPES[dtype].is_float
    fits = {"float": is_float, "number": dtype != "bool", "any": True, "whole": not is_float}
    return wide_type(dtype) if fits[kinds] else _no(f"the operation on {dtype}")


def _number(value: float, dtype: str) -> str:
    return cast(number(value), dtype).text


def _no(what: str) -> Any:
    raise NotTaken(f"{what} has no kernel here")


POINTWISE: Mapping[str, Lowered] = {
    f"{base}.{form}": _elementwise
    for base in dict.fromkeys((*(name.partition(".")[0] for name in (*_FORMULAS, *_OPTIONED)), *_CONVERSIONS))
    for form in FORMS
    if base in _CONVERSIONS or _entry(f"{base}.{form}") is not None
}
"""The operations on single elements, by torch's name."""


# Gradients of convolutions by `isamap.adjoint`.
#
# convolution_backward(g, x, w)  ->  the kernel of the derivatives of
#
#     for n in 2, k in 8, p0 in 9, c in 4, r0 in 3 { Y[n, k, p0] += X[n, c, p0 + r0] * F[k, c, r0]; }
#
# with its arrays called as in the kernel at hand.


def _convolution_backward(o: Applied) -> tuple[Value, ...]:
    """Return the gradients of image, filters and bias. Unrequested ones are undefined."""
    grad, x, w = o[0], o[1], o[2]
    groups, inside = o.integer("group", 1), wide_type(x.dtype)
    names = [name for name, is_wanted in zip("XFB", o.list("wanted") or (), strict=True) if is_wanted]
    text = o.text(is_searched=True)
    read = {"X": (x, 1), "F": (w, 0), "d_Y": (grad, 1)}
    shapes = {"d_X": x.shape, "d_F": w.shape, "d_B": w.shape[:1]}
    called: dict[str, str] = {}
    sums: dict[str, Operand] = {}  # of gradients, in the order of results
    made = gradient(_convolution(o, inside), ["Y"], names)
    for operand in made.operands:
        sizes = [int(size.evaluate({})) for size in operand.shape]
        if operand.name in read:
            value, axis = read[operand.name]
            called[operand.name] = _array(
                text, value.shaped(_cut_axis(value.shape, axis, groups)), inside
            ).name
        elif operand.name in shapes:
            make = text.write if x.dtype == inside else text.temp
            sums[operand.name] = make(inside, sizes)
            called[operand.name] = sums[operand.name].name
        else:
            called[operand.name] = text.temp(operand.dtype.name, sizes).name
    for statement in made.body:
        text.state(re.sub(r"[A-Za-z_0-9]+", lambda word: called.get(word[0], word[0]), print_stmt(statement)))
    if x.dtype != inside:
        for total in sums.values():
            y, (axes, loops) = text.write(x.dtype, total.shape), axes_of(total.shape)
            text.loop(loops, f"{y.at(axes)} = {cast(total.term(axes), x.dtype).text};")
    found = dict(zip(sums, text.all_done(), strict=True))
    return tuple(found[name].shaped(shape) if name in found else x for name, shape in shapes.items())


def _array(text: KernelText, value: Value, dtype: str) -> Operand:
    """Return an array of a value by its axes: the value's own, or a copy with this type."""
    found = text.read(value)
    if found.dtype == dtype and not found.order and found.axes is None:
        return found
    copy, (axes, loops) = text.temp(dtype, value.shape), axes_of(value.shape)
    text.loop(loops, f"{copy.at(axes)} = {cast(found.term(axes), dtype).text};")
    return copy


def _cut_axis(shape: Sequence[int], axis: int, parts: int) -> tuple[int, ...]:
    """Return sizes with one axis split into parts, if there are several."""
    cut = (parts, shape[axis] // parts) if parts != 1 else (shape[axis],)
    return (*shape[:axis], *cut, *shape[axis + 1 :])


def _convolution(o: Applied, dtype: str) -> Kernel:
    """Return the convolution for a gradient as a kernel. Several groups get a separate axis."""
    image, filters, result = o[1].shape, o[2].shape, o[0].shape
    count, groups = len(image) - 2, o.integer("group", 1)
    stride, padding, dilation = (o.list(name) or () for name in ("strides", "pads", "dilations"))
    apart = {"g": groups} if groups != 1 else {}
    of_image, of_filters = {"n": image[0]} | apart, apart | {"k": filters[0] // groups}
    inner = {"c": filters[1]} | {f"r{d}": filters[2 + d] for d in range(count)}
    outer = of_image | of_filters | {f"p{d}": result[2 + d] for d in range(count)}
    places = [f"p{d}*{stride[d]} + r{d}*{dilation[d]} - {padding[d]}" for d in range(count)]
    read = f"X[{', '.join([*of_image, 'c', *places])}]"
    read = f"({read} else 0)" if any(padding) else read
    operands = {
        "in X": (*of_image.values(), filters[1], *image[2:]),
        "in F": (*of_filters.values(), *filters[1:]),
        "in B": tuple(of_filters.values()),
        "out Y": tuple(outer.values()),
    }
    text = [f"{name}: {dtype}[{', '.join(map(str, sizes))}];" for name, sizes in operands.items()]
    element = f"Y[{', '.join(outer)}]"
    text.append(f"for {_nest(outer)} {{ {element} = B[{', '.join(of_filters)}]; }}")
    filter_ = f"F[{', '.join([*of_filters, *inner])}]"
    text.append(f"for {_nest(outer | inner)} {{ {element} += {read} * {filter_}; }}")
    return parse_kernel(Source("convolution", "kernel convolution() {\n" + "\n".join(text) + "\n}\n"))


def _nest(axes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} in {size}" for name, size in axes.items())


ATEN: Mapping[str, Lowered] = {**POINTWISE, "convolution_backward.default": _convolution_backward}
"""The operators of torch that are no operators of ONNX."""
