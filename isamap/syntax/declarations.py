"""Declarations: names of a text in order, memories, views, states and machine constants.

A declaration may use those above it and everything that `known` brings along.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import NUMERICS, Index
from isamap.ir import nodes as ir
from isamap.ir.functions import Function
from isamap.source.records import dataclass, field
from isamap.syntax import ast
from isamap.syntax.bodies import check_free, resolve_operand, resolve_placement, resolve_statement
from isamap.syntax.function_library import FunctionLibrary, resolve_function
from isamap.syntax.indices import resolve_constraint, resolve_index
from isamap.syntax.scope import Scope, TextFindings, problem_at, resolve_dtype, unknown_name

_OF_BANKS = ("bank_bytes", "bank_ports", "interleave_bytes")
ATTRIBUTES: dict[ir.MemoryKind, frozenset[str]] = {
    "addressable": frozenset(
        ("bytes", "align", "sector_bytes", "cache_bytes", "cache_bytes_per_ns", "multicast_bytes_per_ns")
    ),
    "cache": frozenset(("bytes", "cores", "kept_ns", "line_bytes", "ways")),
    "scratchpad": frozenset(
        ("bytes", "rows", "row_bytes", "count", "align", "core_bytes", "swizzle_bytes", "banks", *_OF_BANKS)
    ),
    "registers": frozenset(("count", "bytes", "core_bytes", "rows", "row_bytes", "lanes", "named")),
}
"""The attributes that each kind of memory may have."""

REQUIRED: dict[ir.MemoryKind, tuple[frozenset[str], ...]] = {
    "addressable": (frozenset(),),
    "cache": (frozenset(("bytes",)),),
    "scratchpad": (frozenset(("bytes",)), frozenset(("rows", "row_bytes"))),
    "registers": (frozenset(("count", "bytes")), frozenset(("count", "rows", "row_bytes"))),
}
"""The attributes that each kind must state, as alternatives."""

NEEDED = {
    "bank_bytes": "banks",
    "bank_ports": "bank_bytes",
    "interleave_bytes": "bank_bytes",
    "swizzle_bytes": "align",
    "cache_bytes": "cache_bytes_per_ns",
    "cache_bytes_per_ns": "cache_bytes",
}
"""The attribute that each of these attributes requires."""

NAMED = ("compiler", "immediate", "chosen")


def resolve_module(
    declarations: tuple[ast.DeclarationSyntax, ...], known: ir.Module, findings: TextFindings
) -> ir.Module:
    """Return the module of a text. Refused declarations are omitted, with their errors in `findings`."""
    found: list[ir.Declaration] = []
    functions = dict[str, Function]()
    taken = {(d.param.name if isinstance(d, ir.ConstantDecl) else d.name) for d in known.declarations}
    for syntax in declarations:
        scope = _module_scope(ir.Module((*known.declarations, *found)), functions)
        with findings.collect():
            check_free(syntax.name, Scope(), "declaration")
            if syntax.name.text in taken:
                raise problem_at("name-taken", f"`{syntax.name.text}` is declared already", syntax.name.span)
        taken.add(syntax.name.text)
        if isinstance(syntax, ast.FunctionSyntax):
            with findings.collect():
                functions[syntax.name.text] = resolve_function(syntax, scope)
            if syntax.name.text not in functions:
                findings.broken[syntax.name.text] = syntax.span
            continue
        resolved = _resolve(syntax, scope, findings)
        if resolved is None:
            findings.broken[syntax.name.text] = syntax.span
        else:
            found.append(resolved)
    return ir.Module(tuple(found))


def _module_scope(known: ir.Module, functions: Mapping[str, Function]) -> Scope:
    constants = [d.param.name for d in known.declarations if isinstance(d, ir.ConstantDecl)]
    return Scope(
        indices=dict.fromkeys(constants, "constant"), known=known, functions=FunctionLibrary(dict(functions))
    )


def _resolve(
    syntax: ast.RoutineSyntax | ast.MemorySyntax | ast.StateSyntax | ast.ConstantSyntax,
    scope: Scope,
    findings: TextFindings,
) -> ir.Declaration | None:
    match syntax:
        case ast.RoutineSyntax():
            return resolve_routine(syntax, scope, findings)
        case ast.MemorySyntax():
            with findings.collect():
                return _memory(syntax, scope)
        case ast.StateSyntax():
            with findings.collect():
                return _state(syntax)
        case ast.ConstantSyntax():
            with findings.collect():
                return _constant(syntax, scope)
    return None


def _memory(m: ast.MemorySyntax, scope: Scope) -> ir.MemoryDecl:
    kind = _memory_kind(m.kind)
    attributes: dict[str, Index | str] = {}
    for name, value in m.attributes:
        if name.text in attributes:
            raise problem_at("clause-repeated", f"`{name.text}` is given twice", name.span)
        if name.text not in ATTRIBUTES[kind]:
            raise unknown_name("unknown-attribute", f"attribute of {kind}", name, ATTRIBUTES[kind])
        attributes[name.text] = known = _attribute(name, value, scope)
        if name.text == "swizzle_bytes" and known not in (Index.of(32), Index.of(64), Index.of(128)):
            raise problem_at("unknown-attribute", "`swizzle_bytes` is 32, 64 or 128", value.span)
    if {"cache_bytes_per_ns", "multicast_bytes_per_ns"} <= attributes.keys():
        said = f"memory `{m.name.text}` states a cache and a multicast, which both share what it transfers"
        raise problem_at("unknown-attribute", said, m.span)
    if not any(required <= attributes.keys() for required in REQUIRED[kind]):
        missing = " or ".join(" and ".join(sorted(r - attributes.keys())) for r in REQUIRED[kind])
        raise problem_at("attribute-missing", f"memory `{m.name.text}` does not state {missing}", m.span)
    for name, _ in m.attributes:
        if NEEDED.get(name.text, name.text) not in attributes:
            said = f"memory `{m.name.text}` states `{name.text}` without `{NEEDED[name.text]}`"
            raise problem_at("attribute-missing", said, name.span)
    base = _base(m.base, scope) if m.base is not None else None
    placement = resolve_placement(m.placement, scope) if m.placement is not None else None
    return ir.MemoryDecl(m.name.text, kind, tuple(attributes.items()), base, placement, m.span)


def _memory_kind(kind: ast.Ident) -> ir.MemoryKind:
    match kind.text:
        case "addressable" | "cache" | "scratchpad" | "registers" as known:
            return known
        case _:
            raise unknown_name("unknown-kind", "kind of memory", kind, ATTRIBUTES)


def _attribute(name: ast.Ident, value: ast.ExprSyntax, scope: Scope) -> Index | str:
    if name.text != "named":
        index = resolve_index(value, scope, f"`{name.text}`")
        if index.value is not None and index.value < 1:
            raise problem_at(
                "extent-not-positive", f"`{name.text}` is {index.value}; the smallest is 1", value.span
            )
        return index
    if not isinstance(value, ast.Name) or value.name not in NAMED:
        shown = ast.Ident(value.span.text, value.span)
        raise unknown_name("unknown-attribute", "way of naming registers", shown, NAMED)
    return value.name


def _base(name: ast.Ident, scope: Scope) -> str:
    memories = [d.name for d in scope.known.declarations if isinstance(d, ir.MemoryDecl)]
    if name.text not in memories:
        raise unknown_name("unknown-memory", "memory", name, memories)
    return name.text


def _state(s: ast.StateSyntax) -> ir.StateDecl:
    fields: list[ir.StateField] = []
    for f in s.fields:
        if any(f.name.text == other.name for other in fields):
            raise problem_at("name-taken", f"field `{f.name.text}` is declared already", f.name.span)
        if f.count is not None and f.count < 1:
            raise problem_at("extent-not-positive", f"field `{f.name.text}` has {f.count} entries", f.span)
        fields.append(ir.StateField(f.name.text, resolve_dtype(f.dtype), f.count, f.span))
    return ir.StateDecl(s.name.text, tuple(fields), s.per_thread, s.span)


def _constant(c: ast.ConstantSyntax, scope: Scope) -> ir.ConstantDecl:
    low, high = resolve_bounds(c.bounds, scope, c.name.text)
    return ir.ConstantDecl(ir.Param(c.name.text, "machine", low, high, c.default, None, c.span), c.span)


# Routines: parameters, lets, operands and body of a kernel or an instruction, in dependency order.
#
# `where` is written first and resolved last, for it may speak of operands (`stride(A, 0)`); lets may use
# every parameter and every let above them.


@dataclass
class _Parts:
    """The parts of one routine that are resolved so far."""

    scope: Scope
    params: list[ir.Param] = field(default_factory=list[ir.Param])
    lets: list[ir.Let] = field(default_factory=list[ir.Let])
    operands: list[ir.Operand] = field(default_factory=list[ir.Operand])
    where: list[ir.Constraint] = field(default_factory=list[ir.Constraint])
    body: list[ir.Stmt] = field(default_factory=list[ir.Stmt])
    requires: list[ir.Require] = field(default_factory=list[ir.Require])
    settings: list[ir.Setting] = field(default_factory=list[ir.Setting])
    numerics: list[str] = field(default_factory=list[str])
    uses: dict[str, list[str]] = field(default_factory=lambda: {"sets": [], "releases": [], "clobbers": []})


def resolve_routine(
    r: ast.RoutineSyntax, scope: Scope, findings: TextFindings
) -> ir.Kernel | ir.Instruction | None:
    """Return the typed routine, or None if a part of it is refused. The reasons are recorded in `findings`."""
    before = findings.refused
    parts = _Parts(scope)
    for p in r.params:
        _add_param(p, r, parts, findings)
    for item in r.items:
        _add_item(item, r, parts, findings)
    for constraint in r.where:
        with findings.collect():
            parts.where.append(resolve_constraint(constraint, parts.scope))
    changes_state = bool(parts.uses["sets"] or parts.uses["releases"] or parts.settings)
    if findings.refused == before and not parts.body and not changes_state:
        with findings.collect():
            raise problem_at("empty-routine", f"`{r.name.text}` has no statement", r.name.span)
    if findings.refused > before:
        return None
    shared = (
        r.name.text, tuple(parts.params), tuple(parts.operands), tuple(parts.body), tuple(parts.lets),
        tuple(parts.where), r.strict, r.span,
    )  # fmt: skip
    if r.kind == "kernel":
        return ir.Kernel(*shared)
    uses = (tuple(parts.uses[u]) for u in ("sets", "releases", "clobbers"))
    settings, numerics = tuple(parts.settings), tuple(parts.numerics)
    return ir.Instruction(*shared, tuple(parts.requires), *uses, settings=settings, numerics=numerics)


# --- parameters -------------------------------------------------------------------------------------------


def _add_param(p: ast.ParamSyntax, r: ast.RoutineSyntax, parts: _Parts, findings: TextFindings) -> None:
    with findings.collect():
        param = resolve_param(p, r.kind, parts.scope)
        parts.params.append(param)
        parts.scope = parts.scope.with_param(param)
        return
    if p.name.text not in parts.scope.names:
        parts.scope = parts.scope.with_broken(p.name.text)


def resolve_param(p: ast.ParamSyntax, routine: str, scope: Scope) -> ir.Param:
    """Return a parameter with its kind, range and default. Raises: TypeProblem."""
    if scope.indices.get(p.name.text) != "constant":
        check_free(p.name, scope, "parameter")
    kind = _param_kind(p, routine)
    dtype = None
    if p.dtype is not None:
        dtype = resolve_dtype(p.dtype)
        if kind != "scalar":
            raise problem_at(
                "bad-parameter", f"`{p.name.text}` is an integer; only a scalar has a type", p.dtype.span,
                advice=f"write `scalar {p.name.text}: {dtype}`",
            )  # fmt: skip
    elif kind == "scalar" and (p.bounds is None or routine == "kernel"):
        raise problem_at(
            "bad-parameter",
            f"scalar `{p.name.text}` needs a type" + ("" if routine == "kernel" else " or a range"),
            p.span,
            advice=f"write `scalar {p.name.text}: f32`"
            + (
                f", or `{p.name.text}: 1..16` for a size"
                if routine == "kernel"
                else f" or `scalar {p.name.text}: 1..16`"
            ),
        )
    low, high = resolve_bounds(p.bounds, scope, p.name.text) if p.bounds else (None, None)
    _check_default(p, low, high, dtype is not None)
    return ir.Param(p.name.text, kind, low, high, p.default, dtype, p.span)


def _param_kind(p: ast.ParamSyntax, routine: str) -> ir.ParamKind:
    if routine == "kernel":
        if p.kind not in (None, "scalar"):
            raise problem_at(
                "bad-parameter", f"`{p.kind}` parameters belong to instructions", p.span,
                "a kernel's parameters are its sizes and typed scalars",
                advice=f"write `{p.name.text}`",
            )  # fmt: skip
        return "scalar" if p.kind == "scalar" else "size"
    if p.kind is None:
        raise problem_at(
            "bad-parameter", f"`{p.name.text}` has no kind: it does not say where its value comes from", p.span,
            "an instruction's parameter is chosen by the scheduler (`choose`), by the machine (`machine`), "
            "encoded (`imm`) or a run-time value (`scalar`)",
            advice=f"write `choose {p.name.text}`",
        )  # fmt: skip
    match p.kind:
        case "choose" | "machine" | "imm" | "scalar":
            return p.kind
        case _:
            raise AssertionError(p.kind)


def resolve_bounds(
    bounds: tuple[ast.ExprSyntax, ast.ExprSyntax], scope: Scope, name: str
) -> tuple[Index, Index]:
    """Return both ends of a range. Raises: TypeProblem if they are in the wrong order."""
    low, high = (resolve_index(b, scope, f"the range of `{name}`") for b in bounds)
    if low.value is not None and high.value is not None and low.value > high.value:
        raise problem_at(
            "bad-range", f"the range {low}..{high} of `{name}` is empty", bounds[0].span.to(bounds[1].span)
        )
    return low, high


def _check_default(p: ast.ParamSyntax, low: Index | None, high: Index | None, typed: bool) -> None:
    if p.default is None:
        return
    if typed:
        raise problem_at("bad-parameter", f"scalar `{p.name.text}` has no default", p.span)
    smallest = low.value if low is not None else 1
    largest = high.value if high is not None else None
    if smallest is not None and p.default < smallest:
        raise problem_at(
            "bad-range",
            f"the default {p.default} of `{p.name.text}` is below its smallest value {smallest}",
            p.span,
            advice=None
            if low is not None
            else f"sizes are at least 1; a range allows more: `{p.name.text}: {p.default}..64 = {p.default}`",
        )
    if largest is not None and p.default > largest:
        raise problem_at(
            "bad-range",
            f"the default {p.default} of `{p.name.text}` is above its largest value {largest}",
            p.span,
        )


# --- items ------------------------------------------------------------------------------------------------


def _add_item(item: ast.ItemSyntax, r: ast.RoutineSyntax, parts: _Parts, findings: TextFindings) -> None:
    match item:
        case ast.OperandSyntax():
            with findings.collect():
                operand = resolve_operand(item, parts.scope, r.kind)
                parts.operands.append(operand)
                parts.scope = parts.scope.with_operand(operand)
                return
            if item.name.text not in parts.scope.names:
                parts.scope = parts.scope.with_broken(item.name.text)
        case ast.LetSyntax(name, value, span):
            with findings.collect():
                check_free(name, parts.scope, "let")
                parts.lets.append(
                    ir.Let(name.text, resolve_index(value, parts.scope, f"`{name.text}`"), span)
                )
                parts.scope = parts.scope.with_index(name.text, "let")
                return
            if name.text not in parts.scope.names:
                parts.scope = parts.scope.with_broken(name.text)
        case ast.RequireSyntax():
            with findings.collect():
                _only_instructions(r, item.kind, item)
                _add_state_field(item, parts)
        case ast.StateUseSyntax(kind, name, _):
            with findings.collect():
                _only_instructions(r, kind, item)
                expected = ir.MemoryDecl if kind == "clobbers" else ir.StateDecl
                known = [d.name for d in parts.scope.known.declarations if isinstance(d, expected)]
                if name.text not in known:
                    what = "memory" if kind == "clobbers" else "state"
                    raise unknown_name(f"unknown-{what}", what, name, known)
                parts.uses[kind].append(name.text)
        case ast.NumericsSyntax():
            with findings.collect():
                _only_instructions(r, "numerics", item)
                parts.numerics += [_numerics_word(word, parts) for word in item.words]
        case ast.LoopSyntax() | ast.AssignSyntax():
            statement = resolve_statement(item, parts.scope, findings)
            parts.body += [statement] if statement is not None else []


def _only_instructions(r: ast.RoutineSyntax, word: str, item: ast.ItemSyntax) -> None:
    if r.kind == "kernel":
        raise problem_at("clause-misplaced", f"`{word}` belongs to instructions, not to a kernel", item.span)


def _numerics_word(word: ast.Ident, parts: _Parts) -> str:
    if word.text not in NUMERICS:
        raise unknown_name("unknown-numerics", "word of `numerics`", word, NUMERICS)
    if word.text in parts.numerics:
        raise problem_at("clause-repeated", f"`{word.text}` is said twice", word.span)
    return word.text


def _add_state_field(item: ast.RequireSyntax, parts: _Parts) -> None:
    ref = _state_field(item, parts.scope)
    if item.kind == "requires":
        value = resolve_index(item.value, parts.scope, "a required value")
        parts.requires.append(ir.Require(ref, value, item.span))
    else:
        value = resolve_index(item.value, parts.scope, "the value of a field")
        parts.settings.append(ir.Setting(ref, value, item.span))


def _state_field(item: ast.RequireSyntax, scope: Scope) -> ir.StateRef:
    states = {d.name: d for d in scope.known.declarations if isinstance(d, ir.StateDecl)}
    if item.state.text not in states:
        raise unknown_name("unknown-state", "state", item.state, states)
    fields = {f.name: f for f in states[item.state.text].fields}
    if item.field.text not in fields:
        raise unknown_name("unknown-field", f"field of `{item.state.text}`", item.field, fields)
    index = _field_index(item, fields[item.field.text], scope)
    return ir.StateRef(item.state.text, item.field.text, index)


def _field_index(item: ast.RequireSyntax, target: ir.StateField, scope: Scope) -> str | int | None:
    match item.index:
        case None if target.count is None:
            return None
        case None:
            raise problem_at(
                "wrong-rank", f"`{target.name}` has {target.count} entries: say which", item.span
            )
        case e if target.count is None:
            raise problem_at("wrong-rank", f"`{target.name}` is one value, not an array", e.span)
        case ast.Name(name, span):
            return scope.operand(ast.Ident(name, span)).name
        case ast.Number(int() as value, span):
            if value >= target.count:
                raise problem_at(
                    "index-out-of-range", f"`{target.name}` has entries 0 to {target.count - 1}", span
                )
            return value
        case e:
            raise problem_at("not-an-index", "an entry is named by a number or by an operand", e.span)
