"""Elements of arrays in indices: what data says, of inputs that declare which values they have.

in col: i32[NNZ] values 0..K - 1;      …  B[col[p], n]  …      has the subscript `col[p]`, which is below K
"""

from __future__ import annotations

from collections.abc import Callable

from isamap.ir.atoms import Element
from isamap.ir.index import Index
from isamap.ir.nodes import Operand
from isamap.source import Span
from isamap.syntax import ast
from isamap.syntax.scope import Scope, problem

Resolve = Callable[[ast.ExprSyntax, Scope, str], Index]


def resolve_element(e: ast.Access, scope: Scope, place: str, resolve: Resolve) -> Index:
    """An element of an input as a part of an index; `resolve` is how its subscript becomes one.

    Raises: TypeProblem when the operand says nothing of its values, or is not read by one subscript.
    """
    operand = scope.operand(e.name)
    if operand.domain is None:
        raise undeclared(operand, e.span, place)
    if e.fill is not None or len(e.subscripts) != 1:
        what = "has no `else`" if e.fill is not None else "has one subscript"
        raise problem("not-an-index", f"an element of `{operand.name}` in an index {what}", e.span)
    at = resolve(e.subscripts[0], scope, f"a subscript of `{operand.name}`")
    domain = operand.domain
    return Index.of(Element(operand.name, at, domain.low, domain.high, operand.shape[0], domain.ascending))


def undeclared(operand: Operand, span: Span, place: str) -> Exception:
    """The problem of an index that is made of data of which nothing is known."""
    message = f"{place} depends on the data of `{operand.name}`"
    if operand.role != "in" or not operand.dtype.is_integer or len(operand.shape) != 1:
        return problem(
            "data-dependent",
            message,
            span,
            "data in indices is of inputs: integers along one axis that declare their range",
        )
    return problem(
        "data-dependent",
        message,
        span,
        "nothing says which values it has",
        advice="declare them where it is declared: "
        f"`in {operand.name}: {operand.dtype}[{operand.shape[0]}] values 0..HIGH;`",
    )
