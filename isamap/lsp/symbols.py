"""Find the names in a language text with their definitions, for hovering and "go to definition".

    C[m, n] += A[m, k] * B[k, n];       the `A`   ->   NameUse(span, Definition("A", "in A: f32[M, K]", …))

Built of the syntax tree, so that a text whose types are wrong has its names all the same.

The symbols come from the syntax tree, so that a text with type errors has them as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from isamap.ir import DTYPES, OPS
from isamap.source import Span, dataclass
from isamap.syntax import ast


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a name: `text` describes it, `span` is its place, or None for built-in names."""

    name: str
    text: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class NameUse:
    """A name in a text."""

    span: Span
    definition: Definition


Scope = Mapping[str, Definition]


def find_uses(declarations: Sequence[ast.DeclarationSyntax], known: Scope) -> list[NameUse]:
    """Return all names in a text. `known` are definitions from other texts."""
    scope = {**BUILT_IN, **known, **defined_in(declarations)}
    return [use for declaration in declarations for use in _declaration(declaration, scope)]


def defined_in(declarations: Sequence[ast.DeclarationSyntax]) -> dict[str, Definition]:
    """Return the declarations of a text by name."""
    return {d.name.text: Definition(d.name.text, _head(d.span), d.name.span) for d in declarations}


def _built_in_symbols() -> dict[str, Definition]:
    types = {
        t.name: Definition(t.name, f"{t.name}: a type of {t.bits} bits ({t.kind})") for t in DTYPES.values()
    }
    casts = {
        f"{how}_{name}": Definition(f"{how}_{name}", f"{how}_{name}(x): {said}")
        for name in DTYPES
        for how, said in (
            ("sat", "converts, and takes the nearest value where none is equal"),
            ("wrap", "keeps the low bits"),
            ("bits", "takes the bits as they are"),
        )
    }
    functions: dict[str, Definition] = {}
    for op in OPS.values():
        arguments = ", ".join("xyz"[: op.arity])
        accuracy = f", within {op.ulp:g} ulp" if op.ulp else ""
        functions[op.name] = Definition(op.name, f"{op.name}({arguments}): of {op.domain} types{accuracy}")
    return {**functions, **casts, **types}


BUILT_IN = _built_in_symbols()
"""Types, conversions and functions of the language."""


def _head(span: Span) -> str:
    """Return the first line of a declaration without its body."""
    return " ".join(span.text.split("{")[0].split()).rstrip(";")


def _line(span: Span) -> str:
    return " ".join(span.text.split()).rstrip(";")


def _find_uses(name: ast.Ident, scope: Scope) -> Iterator[NameUse]:
    if (found := scope.get(name.text)) is not None:
        yield NameUse(name.span, found)


def _declaration(d: ast.DeclarationSyntax, scope: Scope) -> Iterator[NameUse]:
    yield from _find_uses(d.name, scope)
    match d:
        case ast.RoutineSyntax():
            yield from _routine(d, scope)
        case ast.FunctionSyntax():
            own = {
                **scope,
                **{p.name.text: Definition(p.name.text, _line(p.span), p.name.span) for p in d.params},
            }
            for p in d.params:
                yield from _param(p, own)
            for let in d.lets:
                yield from _expression(let.value, own)
                own[let.name.text] = Definition(let.name.text, _line(let.span), let.name.span)
                yield from _find_uses(let.name, own)
            yield from _expression(d.result, own)
        case ast.MemorySyntax():
            if d.base is not None:
                yield from _find_uses(d.base, scope)
            for _, value in d.attributes:
                yield from _expression(value, scope)
        case ast.StateSyntax():
            for field in d.fields:
                yield from _find_uses(field.dtype, scope)
        case ast.ConstantSyntax():
            for bound in d.bounds:
                yield from _expression(bound, scope)
        case _ as unreachable:
            assert_never(unreachable)


def _param(p: ast.ParamSyntax, scope: Scope) -> Iterator[NameUse]:
    yield from _find_uses(p.name, scope)
    for bound in p.bounds or ():
        yield from _expression(bound, scope)
    if p.dtype is not None:
        yield from _find_uses(p.dtype, scope)


def _routine(d: ast.RoutineSyntax, scope: Scope) -> Iterator[NameUse]:
    own = dict(scope)
    for p in d.params:
        own[p.name.text] = Definition(p.name.text, _line(p.span), p.name.span)
    for item in d.items:
        match item:
            case ast.OperandSyntax(name=name, span=span) | ast.LetSyntax(name=name, span=span):
                own[name.text] = Definition(name.text, _line(span), name.span)
            case _:
                pass
    for p in d.params:
        yield from _param(p, own)
    for constraint in d.where:
        yield from _expression(constraint, own)
    for item in d.items:
        yield from _item(item, own)


def _item(item: ast.ItemSyntax, scope: Scope) -> Iterator[NameUse]:
    match item:
        case ast.OperandSyntax():
            yield from _operand(item, scope)
        case ast.LetSyntax():
            yield from _find_uses(item.name, scope)
            yield from _expression(item.value, scope)
        case ast.RequireSyntax():
            yield from _find_uses(item.state, scope)
            yield from _expression(item.value, scope)
            if item.index is not None:
                yield from _expression(item.index, scope)
        case ast.StateUseSyntax():
            yield from _find_uses(item.name, scope)
        case ast.NumericsSyntax():
            pass
        case ast.LoopSyntax() | ast.AssignSyntax():
            yield from _statement(item, scope)
        case _ as unreachable:
            assert_never(unreachable)


def _operand(o: ast.OperandSyntax, scope: Scope) -> Iterator[NameUse]:
    yield from _find_uses(o.name, scope)
    yield from _find_uses(o.dtype, scope)
    for extent in o.shape:
        yield from _expression(extent, scope)
    for clause in o.clauses:
        match clause:
            case ast.ClauseSyntax():
                yield from _find_uses(clause.name, scope)
            case ast.StridesSyntax():
                for stride in clause.values:
                    if stride is not None:
                        yield from _expression(stride, scope)
            case ast.PlacementSyntax():
                own = {
                    **scope,
                    **{
                        i.text: Definition(i.text, f"index {i.text} of `{o.name.text}`", i.span)
                        for i in clause.indices
                    },
                }
                for index in clause.indices:
                    yield from _find_uses(index, own)
                for _, value in clause.coordinates:
                    yield from _expression(value, own)
            case ast.DomainSyntax():
                for bound in clause.bounds:
                    yield from _expression(bound, scope)
            case _ as unreachable:
                assert_never(unreachable)


def _statement(s: ast.StmtSyntax, scope: Scope) -> Iterator[NameUse]:
    match s:
        case ast.AssignSyntax():
            yield from _expression(s.target, scope)
            yield from _expression(s.value, scope)
            if s.guard is not None:
                yield from _expression(s.guard, scope)
        case ast.LoopSyntax():
            own = dict(scope)
            for axis in s.axes:
                extent = _line(axis.extent.span)
                start = "0" if axis.start is None else _line(axis.start.span)
                runs = extent if axis.start is None else f"{start}..{extent}"
                order = ", in order" if s.ordered else ""
                said = f"{axis.name.text} in {runs}: from {start} to {extent} - 1{order}"
                own[axis.name.text] = Definition(axis.name.text, said, axis.name.span)
                yield from _find_uses(axis.name, own)
                yield from _expression(axis.start, own) if axis.start is not None else ()
                yield from _expression(axis.extent, own)
            if s.guard is not None:
                yield from _expression(s.guard, own)
            for inner in s.body:
                yield from _statement(inner, own)
        case _ as unreachable:
            assert_never(unreachable)


def _expression(e: ast.ExprSyntax, scope: Scope) -> Iterator[NameUse]:
    match e:
        case ast.Number() | ast.Flag():
            pass
        case ast.Name(name, span):
            yield from _find_uses(ast.Ident(name, span), scope)
        case ast.Access(name, subscripts, fill, _):
            yield from _find_uses(name, scope)
            for subscript in subscripts:
                yield from _expression(subscript, scope)
            if fill is not None:
                yield from _expression(fill, scope)
        case ast.Apply(name, args, _):
            yield from _find_uses(name, scope)
            for arg in args:
                yield from _expression(arg, scope)
        case ast.Unary(_, operand, _):
            yield from _expression(operand, scope)
        case ast.Binary(_, left, right, _):
            yield from _expression(left, scope)
            yield from _expression(right, scope)
        case _ as unreachable:
            assert_never(unreachable)
