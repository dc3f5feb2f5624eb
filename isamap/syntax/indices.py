"""Convert index expressions from syntax to polynomials, and check the rules for subscripts.

`p*s + r - pad` with axes p, r and sizes s, pad becomes that `Index`. `p*q` of two axes is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from isamap.ir.index import Element, Index, index_max, index_min
from isamap.ir.nodes import Comparison, Constraint, Domain, Operand
from isamap.ir.printer import print_operand
from isamap.source import Span, replace, show_value
from isamap.syntax import ast
from isamap.syntax.scope import Scope, problem_at

MAX_EXTENT = 2**31

_COMPARISONS: dict[str, Comparison] = {"eq": "==", "ne": "!=", "le": "<=", "lt": "<", "ge": ">=", "gt": ">"}


def resolve_index(e: ast.ExprSyntax, scope: Scope, place: str) -> Index:
    """Return the polynomial of an expression. `place` describes its place in messages.

    Raises: TypeProblem if it is not an integer expression that is affine in the axes.
    """
    match e:
        case ast.Number(value, span):
            if isinstance(value, float):
                raise problem_at("not-an-index", f"{place} is an integer, not {value}", span)
            if value >= 2**63:
                raise problem_at("number-too-large", f"{show_value(value)} does not fit into 64 bits", span)
            return Index.of(value)
        case ast.Name(name, span):
            return _symbol(name, scope, place, ast.Ident(name, span))
        case ast.Unary("neg", operand, _):
            return -resolve_index(operand, scope, place)
        case ast.Binary("add" | "sub" | "mul" | "div" | "rem" as op, left, right, _):
            return combine(
                op, resolve_index(left, scope, place), resolve_index(right, scope, place), e, scope
            )
        case ast.Apply(name, (left, right), _) if name.text in ("min", "max"):
            return combine(
                name.text, resolve_index(left, scope, place), resolve_index(right, scope, place), e, scope
            )
        case ast.Apply(name, args, span) if name.text in ("stride", "align"):
            return _layout_symbol(name, args, span, scope, place)
        case ast.Access():
            # An element of an input as a part of an index. `resolve` converts its subscript.
            operand = scope.operand(e.name)
            if operand.domain is None:
                raise report_undeclared(operand, e.span, place)
            if e.fill is not None or len(e.subscripts) != 1:
                what = "has no `else`" if e.fill is not None else "has one subscript"
                raise problem_at("not-an-index", f"an element of `{operand.name}` in an index {what}", e.span)
            at = resolve_index(e.subscripts[0], scope, f"a subscript of `{operand.name}`")
            domain = operand.domain
            return Index.of(
                Element(operand.name, at, domain.low, domain.high, operand.shape[0], domain.ascending)
            )
        case _:
            said = f"{place} is made of integers, axes and sizes with + - * / % min max"
            is_range = isinstance(e, ast.Apply) and e.name.text in ("range", "seq", "serial", "grid")
            advice = "write `for m in M`, or `for m in 1..M`" if is_range else None
            raise problem_at("not-an-index", said, e.span, advice=advice)


def combine(op: str, left: Index, right: Index, e: ast.ExprSyntax, scope: Scope) -> Index:
    """Return `left op right`, checked to be affine in the axes. Raises: TypeProblem."""
    axes = {s for s in (left.symbols | right.symbols) if scope.indices.get(s) in ("axis", "element")}
    combined = _combine(op, left, right, axes, e)
    if any(abs(c) >= 2**63 for _, c in combined.terms):
        raise problem_at("number-too-large", "the numbers in this index do not fit into 64 bits", e.span)
    return combined


def _combine(op: str, left: Index, right: Index, axes: set[str], e: ast.ExprSyntax) -> Index:
    match op:
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            if axes & left.symbols and axes & right.symbols:
                raise problem_at(
                    "not-affine",
                    f"`{left}` times `{right}` is not affine in the axes",
                    e.span,
                    "an axis may be multiplied by numbers and sizes only",
                )
            return left * right
        case "min":
            return index_min(left, right)
        case "max":
            return index_max(left, right)
        case _:
            _check_divisor(right, axes, e)
            return left.floordiv(right) if op == "div" else left.mod(right)


def _check_divisor(divisor: Index, axes: set[str], e: ast.ExprSyntax) -> None:
    if divisor.value is not None and divisor.value <= 0:
        code = "division-by-zero" if divisor.value == 0 else "bad-divisor"
        raise problem_at(code, f"indices are divided by positive numbers, not by {divisor.value}", e.span)
    if axes & divisor.symbols:
        raise problem_at(
            "not-affine", f"the divisor `{divisor}` changes from iteration to iteration", e.span,
            "indices are divided by numbers and sizes only",
        )  # fmt: skip


def _symbol(name: str, scope: Scope, place: str, ident: ast.Ident) -> Index:
    if name in scope.indices:
        return scope.symbol(name)
    if name in scope.operands and not scope.operands[name].shape:
        raise problem_at(
            "data-dependent", f"{place} depends on the data of `{name}`", ident.span,
            "subscripts, extents and sizes are known before the data is (version 1)",
        )  # fmt: skip
    meaning = scope.meaning(name)
    if meaning is not None:
        typed = f" of type {scope.scalars[name]}" if name in scope.scalars else ""
        raise problem_at(
            "not-an-index", f"`{name}` is {meaning}{typed}: {place} needs an integer", ident.span,
            advice=_whole_number_of_the_call(name, scope),
        )  # fmt: skip
    raise scope.unknown(ident, scope.indices)


def _whole_number_of_the_call(name: str, scope: Scope) -> str | None:
    """Return advice for an index with an integer scalar: declare the scalar as a parameter of the call."""
    if name not in scope.scalars or not scope.scalars[name].is_integer:
        return None
    return (
        f"an open size is a number of the call: declare `{name}_1` in place of the scalar, with "
        f"`where {name}_1 <= EXTENT`, write `{name}_1 - 1` for `{name}`, and bind it to a range, "
        f"as in `-D {name}_1=1..4096`"
    )


def _layout_symbol(
    name: ast.Ident, args: tuple[ast.ExprSyntax, ...], span: Span, scope: Scope, place: str
) -> Index:
    """Return `stride(A, 0)` or `align(A)` as a symbol for an operand's layout."""
    if place not in ("a constraint", "a required value"):
        raise problem_at("not-an-index", f"`{name.text}` may occur in `where` and `requires` only", span)
    expected = 2 if name.text == "stride" else 1
    if len(args) != expected or not isinstance(args[0], ast.Name):
        example = "stride(A, 0)" if expected == 2 else "align(A)"
        raise problem_at("argument-count", f"`{name.text}` is written `{example}`", span)
    operand = scope.operand(ast.Ident(args[0].name, args[0].span))
    if expected == 1:
        return Index.of(f"align({operand.name})")
    axis = args[1].value if isinstance(args[1], ast.Number) else -1
    if not isinstance(axis, int) or not 0 <= axis < len(operand.shape):
        raise problem_at(
            "wrong-rank", f"`{operand.name}` has axes 0 to {len(operand.shape) - 1}", args[1].span
        )
    return Index.of(f"stride({operand.name},{axis})")


def resolve_constraint(e: ast.ExprSyntax, scope: Scope) -> Constraint:
    """Return a comparison in `where`. Raises: TypeProblem."""
    match e:
        case ast.Binary(op, left, right, span) if op in _COMPARISONS:
            return Constraint(
                resolve_index(left, scope, "a constraint"),
                _COMPARISONS[op],
                resolve_index(right, scope, "a constraint"),
                span,
            )
        case _:
            raise problem_at(
                "not-a-constraint",
                "`where` takes comparisons",
                e.span,
                advice="write it with ==, !=, <, <=, > or >=; separate several by commas",
            )


# Elements of arrays in indices: what data says, of inputs that declare which values they have.
#
# in col: i32[NNZ] values 0..K - 1;      …  B[col[p], n]  …      has the subscript `col[p]`, which is below K


Resolve = Callable[[ast.ExprSyntax, Scope, str], Index]


def one_axis(operand: Operand) -> str:
    """Return advice on how to declare and access an input with several axes as one axis."""
    axes = [f"i{n}" for n in range(len(operand.shape))]
    flat = replace(operand, shape=(prod(operand.shape, start=Index.of(1)),))
    place = sum(
        (Index.of(axis) * prod(operand.shape[n + 1 :], start=Index.of(1)) for n, axis in enumerate(axes)),
        Index.of(0),
    )
    name = operand.name
    return f"write `{print_operand(flat)}`, and `{name}[{place}]` for `{name}[{', '.join(axes)}]`"


def report_undeclared(operand: Operand, span: Span, place: str) -> Exception:
    """Return the error that an index depends on data without a declared domain."""
    message = f"{place} depends on the data of `{operand.name}`"
    may_declare = operand.role == "in" and operand.dtype.is_integer
    if not may_declare or len(operand.shape) != 1:
        domain = Domain(Index.of(0), Index.of("HIGH"), False)
        return problem_at(
            "data-dependent",
            message,
            span,
            "data in indices is of inputs: integers along one axis that declare their range",
            advice=one_axis(replace(operand, domain=domain)) if may_declare and operand.shape else None,
        )
    return problem_at(
        "data-dependent",
        message,
        span,
        "its range of values is not declared",
        advice="declare them where it is declared: "
        f"`in {operand.name}: {operand.dtype}[{operand.shape[0]}] values 0..HIGH;`",
    )
