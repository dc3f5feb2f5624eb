"""Functions of numbers, defined in the language: their steps and their accuracy.

    function silu(x: f32) within 5 ulp { return x * sigmoid(x); }

A call in a kernel stands for the expression with its arguments substituted: `y[i] = silu(a[i])` is `y[i] =
a[i] * sigmoid(a[i])`. A function with a name in the language, such as `sigmoid`, is an operation: its
definition gives the steps for machines without an instruction for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from isamap.ir.nodes import Call, Cast, Const, Expr, IndexValue, Read, Scalar
from isamap.ir.walk import walk
from isamap.source import Span, dataclass, replace


@dataclass(frozen=True, slots=True)
class Function:
    """A definition: steps in their order, each with a name that stands for its value, then the result.

    Parameters and names are `Scalar`s in the expressions. Units: `ulp` is the largest error, in units in the
    last place of the result, None if the definition states none. If `below` is given, it holds for numbers
    of a smaller absolute value: C's library computes the others.
    """

    name: str
    params: tuple[Scalar, ...]
    steps: tuple[tuple[str, Expr], ...]
    result: Expr
    ulp: float | None = None
    below: float | None = None
    span: Span | None = None


MOST_NODES = 5000
"""The most operations of a function's expression: a larger one is not worth inlining."""


def inline_call(function: Function, args: Sequence[Expr], span: Span | None) -> Expr | None:
    """Return the result with arguments substituted, or None if the expression would become too large."""
    known: dict[str, Expr] = {p.name: a for p, a in zip(function.params, args, strict=True)}
    for name, value in function.steps:
        known[name] = _put_in(value, known, span)
        if count_nodes(known[name]) > MOST_NODES:
            return None
    found = _put_in(function.result, known, span)
    return found if count_nodes(found) <= MOST_NODES else None


def _put_in(e: Expr, known: Mapping[str, Expr], span: Span | None) -> Expr:
    match e:
        case Scalar(name):
            return known[name]
        case Call(_, args):
            return replace(e, args=tuple(_put_in(a, known, span) for a in args), span=span)
        case Cast(value):
            return replace(e, value=_put_in(value, known, span), span=span)
        case Const() | IndexValue() | Read():
            return replace(e, span=span)
        case _:
            assert_never(e)


def count_nodes(e: Expr) -> int:
    """Return how many nodes an expression has."""
    return sum(1 for _ in walk(e))
