"""Resolve the body of a routine: operands and statements, with the axes of loops and types of targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, cast

from isamap.ir import nodes as ir
from isamap.ir.dtypes import BOOL, DTYPES, TYPE_SETS, DType
from isamap.ir.index import Index, elements_of, has_elements
from isamap.ir.ops import OPS, REDUCTIONS
from isamap.ir.printer import print_operand
from isamap.ir.text_layout import KEYWORDS
from isamap.source import Span, replace
from isamap.syntax import ast
from isamap.syntax.indices import MAX_EXTENT, one_axis, resolve_index
from isamap.syntax.scope import Scope, TextFindings, problem_at, resolve_dtype, unknown_name
from isamap.syntax.values import resolve_access, resolve_value

RESERVED = KEYWORDS | {"inf", "true", "false", "any", "strides", *DTYPES}


def resolve_statement(s: ast.StmtSyntax, scope: Scope, findings: TextFindings) -> ir.Stmt | None:
    """Return the typed statement, or None if it is refused. The reasons are recorded in `findings`."""
    match s:
        case ast.AssignSyntax():
            with findings.collect():
                return _assign(s, scope)
            return None
        case ast.LoopSyntax():
            return _loop(s, scope, findings)


def _loop(s: ast.LoopSyntax, scope: Scope, findings: TextFindings) -> ir.Loop | None:
    axes: list[ir.Axis] = []
    inner = scope
    for axis in s.axes:
        name = axis.name.text
        with findings.collect():
            check_free(axis.name, inner, "axis")
            start, extent = resolve_bounds(axis, scope)
            axes.append(ir.Axis(name, extent, axis.span))
        if axes and axes[-1].name == name:
            inner = inner.with_axis(name, axes[-1].extent, start, ordered=s.ordered)
        else:
            inner = inner.with_index(name, "axis") if name not in inner.names else inner.with_broken(name)
    guard: ir.Expr | None = None
    if s.guard is not None:
        with findings.collect():
            guard = resolve_value(s.guard, inner, BOOL, "a guard")
    before = findings.refused
    body = [resolve_statement(b, inner, findings) for b in s.body]
    if not s.body:
        with findings.collect():
            raise problem_at("empty-loop", "this loop does nothing", s.span, advice="put a statement into it")
    if findings.refused > before or len(axes) != len(s.axes):
        return None
    return ir.Loop(tuple(axes), tuple(b for b in body if b is not None), s.ordered, guard, s.span)


def resolve_bounds(axis: ast.AxisSyntax, scope: Scope) -> tuple[Index | None, Index]:
    """Return an axis' first value (None: 0) and its number of values. Raises: TypeProblem."""
    place = f"the extent of axis `{axis.name.text}`"
    if axis.start is None:
        return None, resolve_extent(axis.extent, scope, place)
    start = resolve_index(axis.start, scope, f"the start of axis `{axis.name.text}`")
    extent = resolve_index(axis.extent, scope, f"the end of axis `{axis.name.text}`") - start
    return start, checked_extent(extent, axis.span, scope, place)


def resolve_extent(e: ast.ExprSyntax, scope: Scope, place: str) -> Index:
    """Return an extent: an index expression without axes, 1 to 2**31 if it is a number. Raises: TypeProblem."""
    return checked_extent(resolve_index(e, scope, place), e.span, scope, place)


def checked_extent(extent: Index, span: Span, scope: Scope, place: str) -> Index:
    """Return a valid extent. Data elements may give it inside `seq`. Raises: TypeProblem."""
    moving = sorted(s for s in extent.symbols if scope.indices.get(s) == "axis")
    if has_elements(extent) and (loose := [s for s in moving if s not in scope.ordered]):
        raise problem_at(
            "extent-varies",
            f"{place} changes with axis `{loose[0]}`, whose iterations have no order",
            span,
            "data may determine the length of a loop only inside an ordered loop",
            advice=f"write `seq {loose[0]} in …` around it",
        )
    if moving and not has_elements(extent):
        raise problem_at(
            "extent-varies",
            f"{place} changes with axis `{moving[0]}`",
            span,
            "loops are rectangular: extents are made of numbers and sizes",
            advice="loop over the whole range and add a guard: `if …`",
        )
    if extent.value is not None and extent.value < 1:
        raise problem_at("extent-not-positive", f"{place} is {extent.value}; the smallest is 1", span)
    if extent.value is not None and extent.value > MAX_EXTENT:
        raise problem_at("extent-too-large", f"{place} is {extent.value}; the limit is 2**31", span)
    return extent


def check_free(name: ast.Ident, scope: Scope, what: str) -> None:
    """Refuse to declare a name that is already visible."""
    if name.text in RESERVED:
        raise problem_at(
            "reserved-name",
            f"`{name.text}` is a word of the language: this {what} needs another name",
            name.span,
        )
    meaning = scope.meaning(name.text)
    if meaning is not None:
        raise problem_at(
            "name-taken", f"`{name.text}` is {meaning} already: this {what} needs another name", name.span
        )


def _assign(s: ast.AssignSyntax, scope: Scope) -> ir.Assign:
    operand = scope.operand(s.target.name)
    if operand.role == "in":
        raise problem_at(
            "write-to-input",
            f"`{operand.name}` is an input: it cannot be assigned",
            s.target.span,
            advice="declare it `out` or `inout`",
        )
    target = resolve_access(s.target.name, s.target.subscripts, s.target.span, scope)
    # Refuse a target whose index depends on data, because two iterations could write the same element.
    for element in (e for index in target.index for e in elements_of(index)):
        raise problem_at(
            "data-dependent",
            f"the value assigned in `{target.buffer}` depends on the data of `{element.buffer}`",
            target.span,
            "data may determine where elements are read and how often loops run, not where results are written",
        )
    op = REDUCTIONS[s.op] if s.op else None
    if op is not None:
        dtype = operand.accumulate or operand.dtype
        if dtype not in TYPE_SETS[OPS[op].domain]:
            raise problem_at("wrong-operand-type", f"`{s.op}=` does not work on {dtype}", s.span)
    expected = (operand.accumulate or operand.dtype) if op is not None else operand.dtype
    value = resolve_value(s.value, scope, expected, _target_place(s, operand, expected))
    guard = resolve_value(s.guard, scope, BOOL, "a guard") if s.guard is not None else None
    return ir.Assign(target, op, value, guard, s.span)


def _target_place(s: ast.AssignSyntax, operand: ir.Operand, expected: DType) -> str:
    if s.op and operand.accumulate is not None:
        return f"the value accumulated into `{operand.name}` (accumulate {expected})"
    return f"the value assigned to `{operand.name}`"


RoutineKind = Literal["kernel", "instruction"]
Clause = ast.ClausesSyntax

_OUTSIDE: dict[str, ir.Outside] = {"zero": "zero", "keep": "keep", "undefined": "undefined"}


def resolve_operand(o: ast.OperandSyntax, scope: Scope, kind: RoutineKind) -> ir.Operand:
    """Return the operand of a declaration. Raises: TypeProblem."""
    check_free(o.name, scope, "operand")
    place = f"an extent of `{o.name.text}`"
    operand = ir.Operand(
        o.name.text,
        cast(ir.Role, o.role),
        resolve_dtype(o.dtype),
        tuple(resolve_extent(e, scope, place) for e in o.shape),
        span=o.span,
    )
    seen: set[str] = set()
    for clause in o.clauses:
        name = _clause_name(clause)
        if name in seen:
            raise problem_at("clause-repeated", f"`{name}` is said twice of `{o.name.text}`", clause.span)
        seen.add(name)
        operand = _with_clause(operand, clause, scope, kind)
    if kind == "instruction" and operand.memory is None and operand.role != "temp":
        raise problem_at(
            "memory-missing",
            f"`{o.name.text}` does not say in which memory it lives",
            o.name.span,
            "every operand of an instruction names its memory",
            advice=f"add `@ MEMORY`{_known_memories(scope)}",
        )
    return operand


def _known_memories(scope: Scope) -> str:
    names = [d.name for d in scope.known.declarations if isinstance(d, ir.MemoryDecl)]
    return f": {', '.join(names[:8])}" if names else ""


def _clause_name(clause: Clause) -> str:
    match clause:
        case ast.ClauseSyntax("in_memory", _, _):
            return "@"
        case ast.ClauseSyntax(kind, _, _):
            return kind
        case ast.StridesSyntax():
            return "strides"
        case ast.DomainSyntax():
            return "values"
        case ast.PlacementSyntax():
            return "placed"


def _with_clause(operand: ir.Operand, clause: Clause, scope: Scope, kind: RoutineKind) -> ir.Operand:
    match clause:
        case ast.ClauseSyntax("in_memory", name, span):
            if kind == "kernel" and operand.role == "temp":
                raise problem_at(
                    "memory-in-kernel", "a kernel does not say where its temporaries live", span,
                    "the schedule places them; only inputs and results name a main memory",
                )  # fmt: skip
            is_instruction = kind == "instruction"  # a kernel's machine is not known yet
            return replace(operand, memory=_memory(name, scope).name if is_instruction else name.text)
        case ast.ClauseSyntax("accumulate", name, span):
            return replace(operand, accumulate=_accumulate(operand, name, resolve_dtype(name)))
        case ast.ClauseSyntax("outside", name, span):
            if operand.role not in ("out", "inout"):
                raise problem_at(
                    "clause-misplaced",
                    f"`outside` is allowed on outputs only; `{operand.name}` is not one",
                    span,
                )
            if name.text not in _OUTSIDE:
                raise unknown_name("unknown-outside", "rule for `outside`", name, _OUTSIDE)
            return replace(operand, outside=_OUTSIDE[name.text])
        case ast.StridesSyntax(values, span):
            if len(values) != len(operand.shape):
                raise problem_at(
                    "wrong-rank",
                    f"`{operand.name}` has {len(operand.shape)} axes, but {len(values)} strides",
                    span,
                )
            strides = tuple(None if v is None else resolve_index(v, scope, "a stride") for v in values)
            return replace(operand, strides=strides)
        case ast.DomainSyntax(bounds, ascending, span):
            low, high = (resolve_index(b, scope, "a bound of values") for b in bounds)
            operand = replace(operand, domain=ir.Domain(low, high, ascending))
            _check_domain(operand, span)
            return operand
        case ast.PlacementSyntax():
            placement = resolve_placement(clause, scope)
            if len(placement.indices) != len(operand.shape):
                raise problem_at(
                    "wrong-rank",
                    f"`{operand.name}` has {len(operand.shape)} axes; {len(placement.indices)} are placed",
                    clause.span,
                )
            return replace(operand, placement=placement)
        case _:
            raise AssertionError(clause)


def _check_domain(operand: ir.Operand, span: Span) -> None:
    """Check that only one-dimensional integer inputs declare their values."""
    if operand.role != "in":
        raise problem_at(
            "clause-misplaced", f"`values` is allowed on inputs only; `{operand.name}` is not one", span
        )
    if not operand.dtype.is_integer:
        raise problem_at(
            "bad-domain",
            f"`{operand.name}` is {operand.dtype}, and indices are made of integers",
            span,
            advice=f"declare it as integers: `{print_operand(replace(operand, dtype=DTYPES['i32']))}`",
        )
    if len(operand.shape) != 1:
        raise problem_at(
            "bad-domain",
            f"`{operand.name}` has {len(operand.shape)} axes, and indices are made of inputs along one axis",
            span,
            "its elements lie in memory in the same order as those of an input along one axis",
            advice=one_axis(operand),
        )


def _accumulate(operand: ir.Operand, name: ast.Ident, dtype: DType) -> DType:
    if operand.role not in ("out", "inout"):
        raise problem_at(
            "clause-misplaced",
            f"`accumulate` is allowed on outputs only; `{operand.name}` is not one",
            name.span,
        )
    if dtype.kind != operand.dtype.kind or dtype.bits < operand.dtype.bits:
        raise problem_at(
            "bad-accumulate",
            f"`{operand.name}` of {operand.dtype} cannot be accumulated in {dtype}",
            name.span,
            "the sum runs in a type of the same kind that is at least as wide",
        )  # fmt: skip
    return dtype


def _memory(name: ast.Ident, scope: Scope) -> ir.MemoryDecl:
    memories = {d.name: d for d in scope.known.declarations if isinstance(d, ir.MemoryDecl)}
    if name.text not in memories:
        raise unknown_name("unknown-memory", "memory", name, memories)
    return memories[name.text]


def resolve_placement(p: ast.PlacementSyntax, scope: Scope) -> ir.Placement:
    """Return the index names and the memory coordinates in terms of them. Raises: TypeProblem."""
    inner = scope
    for index in p.indices:
        check_free(index, inner, "index of the placement")
        inner = inner.with_index(index.text, "element")
    _check_distinct(
        [name for name, _ in p.coordinates],
        lambda name: problem_at("clause-repeated", f"coordinate `{name.text}` is given twice", name.span),
    )
    coordinates = tuple((n.text, resolve_index(e, inner, f"coordinate `{n.text}`")) for n, e in p.coordinates)
    return ir.Placement(tuple(i.text for i in p.indices), coordinates, p.span)


def _check_distinct(names: Iterable[ast.Ident], refusal: Callable[[ast.Ident], Exception]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            raise refusal(name)
        seen.add(name.text)
