"""Declarations: the names of a text in their order, and memories, views, states and machine constants.

A declaration may use those above it and everything that `known` brings along.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir.functions import Function
from isamap.ir.index import Index
from isamap.ir.nodes import (
    ConstantDecl,
    Declaration,
    MemoryDecl,
    MemoryKind,
    Module,
    Param,
    StateDecl,
    StateField,
)
from isamap.syntax import ast
from isamap.syntax.bodies import check_free, resolve_placement
from isamap.syntax.functions import Library, resolve_function
from isamap.syntax.indices import resolve_index
from isamap.syntax.routines import resolve_bounds, resolve_routine
from isamap.syntax.scope import Findings, Scope, problem, resolve_dtype, unknown

_OF_BANKS = ("bank_bytes", "bank_ports", "interleave_bytes")
ATTRIBUTES: dict[MemoryKind, frozenset[str]] = {
    "addressable": frozenset(("bytes", "align")),
    "cache": frozenset(("bytes", "cores", "kept_ns", "line_bytes", "ways")),
    "scratchpad": frozenset(("bytes", "rows", "row_bytes", "count", "align", "banks", *_OF_BANKS)),
    "registers": frozenset(("count", "bytes", "rows", "row_bytes", "lanes", "named")),
}
"""What each kind of memory may state."""

REQUIRED: dict[MemoryKind, tuple[frozenset[str], ...]] = {
    "addressable": (frozenset(),),
    "cache": (frozenset(("bytes",)),),
    "scratchpad": (frozenset(("bytes",)), frozenset(("rows", "row_bytes"))),
    "registers": (frozenset(("count", "bytes")), frozenset(("count", "rows", "row_bytes"))),
}
"""Alternatives of what each kind has to state."""

NEEDED = {"bank_bytes": "banks", "bank_ports": "bank_bytes", "interleave_bytes": "bank_bytes"}
"""What is stated only beside something else."""

NAMED = ("compiler", "immediate", "chosen")


def resolve_module(
    declarations: tuple[ast.DeclarationSyntax, ...], known: Module, findings: Findings
) -> Module:
    """The module of a text; what was refused is missing from it and told in `findings`."""
    found: list[Declaration] = []
    functions = dict[str, Function]()
    taken = {declaration_name(d) for d in known.declarations}
    for syntax in declarations:
        scope = _module_scope(Module((*known.declarations, *found)), functions)
        with findings.collect():
            check_free(syntax.name, Scope(), "declaration")
            if syntax.name.text in taken:
                raise problem("name-taken", f"`{syntax.name.text}` is declared already", syntax.name.span)
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
    return Module(tuple(found))


def declaration_name(declaration: Declaration) -> str:
    """The name under which other declarations refer to it."""
    return declaration.param.name if isinstance(declaration, ConstantDecl) else declaration.name


def _module_scope(known: Module, functions: Mapping[str, Function]) -> Scope:
    constants = [d.param.name for d in known.declarations if isinstance(d, ConstantDecl)]
    return Scope(
        indices=dict.fromkeys(constants, "constant"), known=known, functions=Library(dict(functions))
    )


def _resolve(
    syntax: ast.RoutineSyntax | ast.MemorySyntax | ast.StateSyntax | ast.ConstantSyntax,
    scope: Scope,
    findings: Findings,
) -> Declaration | None:
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


def _memory(m: ast.MemorySyntax, scope: Scope) -> MemoryDecl:
    kind = _memory_kind(m.kind)
    attributes: dict[str, Index | str] = {}
    for name, value in m.attributes:
        if name.text in attributes:
            raise problem("clause-repeated", f"`{name.text}` is given twice", name.span)
        if name.text not in ATTRIBUTES[kind]:
            raise unknown("unknown-attribute", f"attribute of {kind}", name, ATTRIBUTES[kind])
        attributes[name.text] = _attribute(name, value, scope)
    if not any(required <= attributes.keys() for required in REQUIRED[kind]):
        missing = " or ".join(" and ".join(sorted(r - attributes.keys())) for r in REQUIRED[kind])
        raise problem("attribute-missing", f"memory `{m.name.text}` does not state {missing}", m.span)
    for name, _ in m.attributes:
        if NEEDED.get(name.text, name.text) not in attributes:
            said = f"memory `{m.name.text}` states `{name.text}` without `{NEEDED[name.text]}`"
            raise problem("attribute-missing", said, name.span)
    base = _base(m.base, scope) if m.base is not None else None
    placement = resolve_placement(m.placement, scope) if m.placement is not None else None
    return MemoryDecl(m.name.text, kind, tuple(attributes.items()), base, placement, m.span)


def _memory_kind(kind: ast.Ident) -> MemoryKind:
    match kind.text:
        case "addressable" | "cache" | "scratchpad" | "registers" as known:
            return known
        case _:
            raise unknown("unknown-kind", "kind of memory", kind, ATTRIBUTES)


def _attribute(name: ast.Ident, value: ast.ExprSyntax, scope: Scope) -> Index | str:
    if name.text != "named":
        index = resolve_index(value, scope, f"`{name.text}`")
        if index.value is not None and index.value < 1:
            raise problem(
                "extent-not-positive", f"`{name.text}` is {index.value}; the smallest is 1", value.span
            )
        return index
    if not isinstance(value, ast.Name) or value.name not in NAMED:
        shown = ast.Ident(value.span.text, value.span)
        raise unknown("unknown-attribute", "way of naming registers", shown, NAMED)
    return value.name


def _base(name: ast.Ident, scope: Scope) -> str:
    memories = [d.name for d in scope.known.declarations if isinstance(d, MemoryDecl)]
    if name.text not in memories:
        raise unknown("unknown-memory", "memory", name, memories)
    return name.text


def _state(s: ast.StateSyntax) -> StateDecl:
    fields: list[StateField] = []
    for f in s.fields:
        if any(f.name.text == other.name for other in fields):
            raise problem("name-taken", f"field `{f.name.text}` is declared already", f.name.span)
        if f.count is not None and f.count < 1:
            raise problem("extent-not-positive", f"field `{f.name.text}` has {f.count} entries", f.span)
        fields.append(StateField(f.name.text, resolve_dtype(f.dtype), f.count, f.span))
    return StateDecl(s.name.text, tuple(fields), s.per_thread, s.span)


def _constant(c: ast.ConstantSyntax, scope: Scope) -> ConstantDecl:
    low, high = resolve_bounds(c.bounds, scope, c.name.text)
    return ConstantDecl(Param(c.name.text, "machine", low, high, c.default, None, c.span), c.span)
