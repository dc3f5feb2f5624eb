"""Operations on single elements: each as torch defines it, in the language.

aten.mul.Tensor on bf16  ->  bf16(f32(a) * f32(b))

torch computes bf16 in f32 and rounds each result; so does the text, node by node: kernels that perform
several nodes round as often as torch does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isamap.graph.terms import NotTaken, Term, cast, limit, number, wide
from isamap.ir import DTYPES, OPS


@dataclass(frozen=True, slots=True)
class Formula:
    """An operation as a text of its terms `{0}`, `{1}`, ….

    `kinds` says of what: "float", "number", "whole" (integers and bool), or "any". `is_truth` says that it
    gives a bool, whatever it compares.
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
"""Operations of the language, then what is made of them."""

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
    return _sum("-")(given[::-1], option, dtype) if option("alpha") == 1 else _no("a factor")


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
    """An operation whose text depends on further arguments: its number of terms, and these arguments."""

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

_OTHER_FORMS = frozenset(("default", "Tensor", "Scalar", "self", "Tensor_Scalar"))
_CONVERSIONS = frozenset(("_to_copy", "convert_element_type"))


def _entry(name: str) -> Formula | Optioned | None:
    """Return the operation that a node of torch, `mul.Tensor`, is; None where it is none of a text alone."""
    base = name.partition(".")[0]
    return _FORMULAS.get(name) or _FORMULAS.get(base) or _OPTIONED.get(base)


def is_pointwise(name: str) -> bool:
    """Return whether a node of torch, `mul.Tensor`, is such an operation."""
    base, _, form = name.partition(".")
    known = _entry(name) is not None or base in _CONVERSIONS or base == "where"
    return known and form in _OTHER_FORMS


def terms_of(node: Any, name: str) -> list[Any]:
    """Return the arguments of a node that are terms: tensors, and numbers in their place."""
    match _entry(name):
        case Formula(template):
            return list(node.args[: 2 if "{1}" in template else 1])
        case Optioned(terms):
            return list(node.args[:terms])
        case None:
            return list(node.args[: 3 if name.startswith("where.") else 1])


def value_of(node: Any, name: str, given: Sequence[Term], promoted: str, result: str) -> Term:
    """Return a node's value, computed from its terms, in the type of its result.

    `promoted` is the type in which torch compares them. Raises: NotTaken.
    """
    match _entry(name):
        case Formula(template, kinds, is_truth):
            compared = promoted if is_truth else result
            inside = _inside(kinds, compared)
            texts = [cast(cast(t, compared) if is_truth else t, inside).text for t in given]
            return cast(Term(template.format(*texts), "bool" if is_truth else inside), result)
        case Optioned(_, _, made, kinds) as optioned:
            inside = _inside(kinds, result)
            texts = [cast(t, inside).text for t in given]
            return cast(Term(made(texts, _options(node, optioned), inside), inside), result)
        case None if name.startswith("where."):
            chosen, one, other = cast(given[0], "bool"), cast(given[1], result), cast(given[2], result)
            return Term(f"select({chosen.text}, {one.text}, {other.text})", result)
        case None:
            return cast(given[0], result)


def _options(node: Any, optioned: Optioned) -> Option:
    rest = list(node.args[optioned.terms :])
    found = {
        name: rest[n] if n < len(rest) else node.kwargs.get(name, default)
        for n, (name, default) in enumerate(optioned.options)
    }
    for name, value in found.items():
        if hasattr(value, "meta"):
            _no(f"`{name}` as a tensor")
    return found.__getitem__


def _inside(kinds: str, dtype: str) -> str:
    """Return the type in which an operation is computed. Raises: NotTaken."""
    is_float = DTYPES[dtype].is_float
    fits = {"float": is_float, "number": dtype != "bool", "any": True, "whole": not is_float}
    return wide(dtype) if fits[kinds] else _no(f"the operation on {dtype}")


def _number(value: float, dtype: str) -> str:
    return cast(number(value), dtype).text


def _no(what: str) -> Any:
    raise NotTaken(f"{what} has no kernel here")
