"""Edit a kernel's text in place: declarations, casts and `where`.

`add_where(kernel, "K % 16 == 0")` puts ` where K % 16 == 0` after the parameters, or `, K % 16 == 0` at the
end of an existing `where`. Kernels that were not read from a text have no edits.

Casts may make a kernel's expression unify with an instruction's:

`f32(a[i]) * f32(b[i])` with bf16 operands and the kernel's `A[i] * B[i]` of f32 give `f32(bf16(A[i])) *
f32(bf16(B[i]))`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from isamap.ir.dtypes import BOOL, DType, converts_exactly, first_cast
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, IndexValue, Kernel, Read, Scalar
from isamap.ir.ops import OPS
from isamap.ir.printer import print_expr
from isamap.source import Edit, IsamapError, Source, Span, apply_edits
from isamap.syntax import ast, parse_kernel

Edits = tuple[Edit, ...]

_BRIEF = 32


def text_of(expr: Expr) -> str:
    """Return the text of an expression in the kernel, on one line."""
    return " ".join((expr.span.text if expr.span is not None else print_expr(expr)).split())


def abridge(expr: Expr) -> str:
    """Return an expression for use inside a sentence: long subscripts become `X[…]`."""
    text = text_of(expr)
    if len(text) > _BRIEF:
        text = re.sub(r"\[[^\[\]]*\]", "[…]", text)
    return text if len(text) <= 2 * _BRIEF else f"{text[: 2 * _BRIEF]}…"


@lru_cache(maxsize=64)
def _routines(source: Source) -> dict[str, ast.RoutineSyntax]:
    from isamap.syntax.tree_builder import parse_declarations  # brings the parser

    try:
        found = parse_declarations(source)
    except IsamapError:  # the instructions of a description stand in blocks of YAML
        return {}
    return {d.name.text: d for d in found if isinstance(d, ast.RoutineSyntax)}


def _syntax(kernel: Kernel) -> ast.RoutineSyntax | None:
    return _routines(kernel.span.source).get(kernel.name) if kernel.span is not None else None


def as_written(kernel: Kernel) -> Kernel | None:
    """Return the kernel as its text states it, with open sizes, or None if it was not read from a text."""
    return _as_written(kernel, kernel.span)


@lru_cache(maxsize=64)
def _as_written(kernel: Kernel, span: Span | None) -> Kernel | None:
    """Return the kernel's statements, cached by position, because messages point into the given text."""
    if span is None or is_whole(kernel):
        return kernel if span is not None else None
    try:
        return parse_kernel(span.source, kernel.name)
    except IsamapError:
        return None


def is_whole(kernel: Kernel) -> bool:
    """Return whether a kernel equals its text, with no size bound."""
    routine = _syntax(kernel)
    return routine is not None and len(routine.params) == len(kernel.params)


def _operand(kernel: Kernel, name: str) -> ast.OperandSyntax | None:
    routine = _syntax(kernel)
    items = routine.items if routine is not None else ()
    return next((i for i in items if isinstance(i, ast.OperandSyntax) and i.name.text == name), None)


# --- declarations -----------------------------------------------------------------------------------------


def add_where(kernel: Kernel, constraint: str) -> Edits:
    """Return the edits that add a constraint to `where`."""
    routine = _syntax(kernel)
    if routine is None:
        return ()
    source = routine.span.source
    if routine.where:
        end = routine.where[-1].span.end
        return (Edit(Span(source, end, end), f", {constraint}"),)
    after = routine.params[-1].span.end if routine.params else routine.name.span.end
    end = source.text.index(")", after) + 1
    return (Edit(Span(source, end, end), f" where {constraint}"),)


def retype(kernel: Kernel, name: str, dtype: DType) -> Edits:
    """Return the edits that declare an operand with another element type."""
    operand = _operand(kernel, name)
    return (Edit(operand.dtype.span, dtype.name),) if operand is not None else ()


def accumulate_in(kernel: Kernel, name: str, dtype: DType) -> Edits:
    """Return the edits that make an output accumulate in another type, or () where the language forbids it."""
    operand = _operand(kernel, name)
    if operand is None:
        return ()
    own = kernel.operand(name).dtype
    if operand.role not in ("out", "inout"):
        return ()
    if own.kind != dtype.kind or own.bits > dtype.bits:
        return ()
    for clause in operand.clauses:
        if isinstance(clause, ast.ClauseSyntax) and clause.kind == "accumulate":
            return (Edit(clause.name.span, dtype.name),)
    end = operand.span.end - 1  # before the semicolon
    return (Edit(Span(operand.span.source, end, end), f" accumulate {dtype}"),)


def remove_strict(kernel: Kernel) -> Edits:
    """Return the edits that remove the word `strict`."""
    routine = _syntax(kernel)
    if routine is None or not routine.strict:
        return ()
    found = re.match(r"strict\s+", routine.span.text)
    assert found is not None
    return (Edit(Span(routine.span.source, routine.span.start, routine.span.start + found.end()), ""),)


def without_guard(kernel: Kernel, assign: Assign) -> Edits:
    """Return the edits that remove a statement's own condition, or that of the loops around it alone."""
    guard = assign.guard.span if assign.guard is not None else None
    if guard is None or assign.span is None or assign.value.span is None:
        return ()  # two conditions are joined in the tree, and stand in two places of the text
    if assign.span.start <= guard.start and guard.end <= assign.span.end:
        return (Edit(Span(guard.source, assign.value.span.end, guard.end), ""),)
    routine = _syntax(kernel)
    for loop in _loops(routine.items) if routine is not None else ():
        alone = len(loop.body) == 1 and loop.body[0].span == assign.span
        if alone and loop.guard is not None and loop.guard.span == guard:
            return (Edit(Span(guard.source, loop.axes[-1].span.end, guard.end), ""),)
    return ()


def unorder(kernel: Kernel, axis: str) -> Edits:
    """Return the edits that turn the `seq` loop over an axis into a `for` loop."""
    routine = _syntax(kernel)
    loops = list(_loops(routine.items)) if routine is not None else []
    for loop in loops:
        if loop.ordered and any(a.name.text == axis for a in loop.axes):
            return (Edit(Span(loop.span.source, loop.span.start, loop.span.start + 3), "for"),)
    return ()


def _loops(items: tuple[ast.ItemSyntax, ...] | tuple[ast.StmtSyntax, ...]) -> list[ast.LoopSyntax]:
    found: list[ast.LoopSyntax] = []
    for item in items:
        if isinstance(item, ast.LoopSyntax):
            found += [item, *_loops(item.body)]
    return found


def are_legal(kernel: Kernel, edits: Edits) -> bool:
    """Return whether the edited text is a kernel that the verifier accepts."""
    assert kernel.span is not None
    return _are_legal(kernel.span.source, kernel.name, edits)


@lru_cache(maxsize=256)
def _are_legal(source: Source, name: str, edits: Edits) -> bool:
    try:
        parse_kernel(Source(source.name, apply_edits(source.text, edits)), name)
    except IsamapError:
        return False
    return True


# --- statements and expressions ---------------------------------------------------------------------------


def wrap(expr: Expr, before: str, after: str) -> Edits:
    """Return the edits that write text before and after an expression."""
    if expr.span is None:
        return ()
    source = expr.span.source
    start, end = Span(source, expr.span.start, expr.span.start), Span(source, expr.span.end, expr.span.end)
    return (Edit(start, before), Edit(end, after))


def replace_by(replaced: Expr | Assign, text: str) -> Edits:
    """Return the edits that replace an expression or a statement by a text."""
    return (Edit(replaced.span, text),) if replaced.span is not None else ()


def replace_operator(assign: Assign, operator: str) -> Edits:
    """Return the edit that replaces the assignment operator of a statement."""
    target, value = assign.target.span, assign.value.span
    if target is None or value is None:
        return ()
    between = Span(target.source, target.end, value.start)
    found = re.search(r"\S*=", between.text)
    if found is None:
        return ()
    start = between.start + found.start()
    return (Edit(Span(target.source, start, between.start + found.end()), operator),)


def fitting_casts(pattern: Expr, subject: Expr) -> Edits | None:
    """Return the casts after which the expressions agree, or None if casts do not suffice."""
    match pattern, subject:
        case Call(op, args), Call(other, others):
            if (op, pattern.mode, len(args)) != (other, subject.mode, len(others)):
                return None
            found = _of_arguments(args, others)
            if OPS[op].commutative and len(args) == 2 and found != ():
                swapped = _of_arguments(args, others[::-1])
                found = min((f for f in (found, swapped) if f is not None), key=len, default=None)
            return found
        case Read(), _:
            return _convert_subject(subject, pattern.dtype)
        case Scalar(), Const() | Scalar() | IndexValue():
            return () if pattern.dtype == subject.dtype else None
        case Cast(value), Cast(inner) if (pattern.dtype, pattern.mode) == (subject.dtype, subject.mode):
            if isinstance(value, Read) and first_cast(inner.dtype, value.dtype, pattern.dtype, pattern.mode):
                return ()
            return fitting_casts(value, inner)
        case Call(), Cast(inner) if inner.dtype == pattern.dtype:
            outside, inside = _unwrap_cast(subject, inner), fitting_casts(pattern, inner)
            return (*outside, *inside) if outside is not None and inside is not None else None
        case Cast(value), _:
            inner = fitting_casts(value, subject)
            return None if inner is None else _add_cast(subject, pattern.dtype, pattern.mode, inner)
        case _:
            return () if pattern == subject else None


def _of_arguments(patterns: tuple[Expr, ...], subjects: tuple[Expr, ...]) -> Edits | None:
    found: list[Edit] = []
    for p, s in zip(patterns, subjects, strict=True):
        edits = fitting_casts(p, s)
        if edits is None:
            return None
        found += edits
    return tuple(found)


def _convert_subject(subject: Expr, dtype: DType) -> Edits | None:
    """Return the edits that cast the subject to a type, or that remove a cast of it, or None."""
    if subject.dtype == dtype:
        return ()
    inner = subject
    while isinstance(inner, Cast):
        inner = inner.value
        if inner.dtype == dtype:
            return _unwrap_cast(subject, inner)
    if isinstance(subject, Const) or dtype == BOOL:  # a number becomes a bool by a comparison
        return None
    return wrap(subject, f"{cast_name(subject.dtype, dtype)}(", ")")


def _unwrap_cast(outer: Expr, inner: Expr) -> Edits | None:
    if outer.span is None or inner.span is None:
        return None
    source = outer.span.source
    before = Span(source, outer.span.start, inner.span.start)
    return (Edit(before, ""), Edit(Span(source, inner.span.end, outer.span.end), ""))


def _add_cast(subject: Expr, dtype: DType, mode: str, inner: Edits) -> Edits | None:
    """Return the edits that put a cast around an edited expression."""
    name = dtype.name if mode == "exact" else f"{mode}_{dtype}"
    if not inner:
        return wrap(subject, f"{name}(", ")")
    if subject.span is None:
        return None
    changed = subject.span.text
    for e in sorted(inner, key=lambda e: -e.span.start):
        at, end = e.span.start - subject.span.start, e.span.end - subject.span.start
        changed = changed[:at] + e.replacement + changed[end:]
    return (Edit(subject.span, f"{name}({changed})"),)


def cast_name(source: DType, target: DType) -> str:
    """Return the text of a cast: plain if only rounding changes values, else saturating."""
    plain = target.is_float or converts_exactly(source, target)
    return target.name if plain else f"sat_{target}"


def needs_parentheses(expr: Expr) -> bool:
    """Return whether an expression needs parentheses to be a factor."""
    infix = isinstance(expr, Call) and OPS[expr.op].spelling is not None
    return infix or (isinstance(expr, Read) and expr.fill is not None)


def as_factor(expr: Expr) -> str:
    """Return an expression as the kernel's text, in parentheses if a product needs them."""
    text = text_of(expr)
    return f"({text})" if needs_parentheses(expr) else text
