"""Convert a lark tree to a syntax tree, with one function per family of grammar rules.

Everything here is mechanical. Nothing is looked up, and nothing can be wrong with the text any more,
numbers that are too long apart.
"""

from __future__ import annotations

from typing import Any, cast

from lark import Token, Tree

from isamap.source import Source, Span, SyntaxProblem
from isamap.source.numbers import BYTES_PER_UNIT
from isamap.syntax import ast
from isamap.syntax.parser import SyntaxTree, parse_tree

MOST_DIGITS = 1000
"""Characters of a number: more than any type can tell apart, and fewer than Python converts."""
_UNARY = frozenset(("neg", "not"))


def parse_declarations(source: Source) -> tuple[ast.DeclarationSyntax, ...]:
    """Return the declarations of a text. Raises: SyntaxProblem."""
    return build_declarations(source, parse_tree(source))


def build_declarations(source: Source, tree: SyntaxTree) -> tuple[ast.DeclarationSyntax, ...]:
    """Return the declarations of a lark tree with positions in `source`."""
    return _Builder(source).declarations(tree)


def parse_expression_syntax(source: Source) -> ast.ExprSyntax:
    """Return the expression that is the whole text. Raises: SyntaxProblem."""
    return _Builder(source).expr(parse_tree(source, "expr"))


class _Builder:
    """The conversion of each grammar rule to a syntax node, with the source for the spans."""

    def __init__(self, source: Source) -> None:
        self.source = source

    # --- positions and leaves

    def span(self, node: SyntaxTree) -> Span:
        return Span(self.source, node.meta.start_pos, node.meta.end_pos)

    def ident(self, token: Any) -> ast.Ident:
        assert isinstance(token, Token)
        assert token.start_pos is not None
        return ast.Ident(str(token), Span(self.source, token.start_pos, token.start_pos + len(token)))

    def integer(self, node: SyntaxTree | None) -> int | None:
        """Return the number in an `integer` rule, or None without a rule. Fractions were refused before."""
        if node is None:
            return None
        minus, digits = node.children
        value = read_number(str(digits), self.span(node))
        return int(-value if minus else value)

    # --- expressions

    def expr(self, node: Any) -> ast.ExprSyntax:
        assert isinstance(node, Tree)
        tree = cast(SyntaxTree, node)
        span = self.span(tree)
        children: list[Any] = tree.children
        match str(tree.data):
            case "number":
                return ast.Number(read_number(str(children[0]), span), span)
            case "true" | "false" as word:
                return ast.Flag(word == "true", span)
            case "name":
                return ast.Name(str(children[0]), span)
            case "access":
                fill = self.expr(children[2]) if children[2] is not None else None
                return ast.Access(self.ident(children[0]), self.exprs(children[1]), fill, span)
            case "call":
                return ast.Apply(self.ident(children[0]), self.exprs(children[1]), span)
            case op if op in _UNARY:
                return ast.Unary(op, self.expr(children[0]), span)
            case op:
                return ast.Binary(op, self.expr(children[0]), self.expr(children[1]), span)

    def exprs(self, node: SyntaxTree | None) -> tuple[ast.ExprSyntax, ...]:
        return tuple(self.expr(child) for child in node.children) if node is not None else ()

    # --- statements

    def statement(self, node: SyntaxTree) -> ast.StmtSyntax:
        children: list[Any] = node.children
        if str(node.data) == "assign":
            target, op, value, guard = children
            return ast.AssignSyntax(
                self.target(target),
                str(op)[:-1],
                self.expr(value),
                self.expr(guard) if guard is not None else None,
                self.span(node),
            )
        axes = [cast(SyntaxTree, c) for c in children[1:] if _is_rule(c, "axis")]
        guard, *body = children[1 + len(axes) :]
        return ast.LoopSyntax(
            str(children[0]) == "seq",
            tuple(self.axis(a) for a in axes),
            self.expr(guard) if guard is not None else None,
            tuple(self.statement(s) for s in body),
            self.span(node),
        )

    def axis(self, node: SyntaxTree) -> ast.AxisSyntax:
        name, first, end = cast("list[Any]", node.children)
        if end is None:
            return ast.AxisSyntax(self.ident(name), self.expr(first), self.span(node))
        return ast.AxisSyntax(self.ident(name), self.expr(end), self.span(node), self.expr(first))

    def target(self, node: SyntaxTree) -> ast.Access:
        name, subscripts = cast("list[Any]", node.children)
        return ast.Access(self.ident(name), self.exprs(subscripts), None, self.span(node))

    # --- parts of routines

    def item(self, node: SyntaxTree) -> ast.ItemSyntax:
        children: list[Any] = node.children
        span = self.span(node)
        match str(node.data):
            case "operand":
                role, name, dtype, shape, *clauses = children
                return ast.OperandSyntax(
                    str(role),
                    self.ident(name),
                    self.ident(dtype),
                    self.exprs(shape),
                    tuple(self.clause(c) for c in clauses),
                    span,
                )
            case "let":
                return ast.LetSyntax(self.ident(children[0]), self.expr(children[1]), span)
            case "requires" | "setting" as rule:
                state, field, index = children[0].children
                subscript = self.expr(index) if index is not None else None
                kind = "requires" if rule == "requires" else "sets"
                return ast.RequireSyntax(
                    kind, self.ident(state), self.ident(field), subscript, self.expr(children[1]), span
                )
            case "numerics":
                return ast.NumericsSyntax(tuple(self.ident(n) for n in children[0].children), span)
            case "sets" | "releases" | "clobbers" as kind:
                return ast.StateUseSyntax(kind, self.ident(children[0]), span)
            case _:
                return self.statement(node)

    def clause(self, node: SyntaxTree) -> ast.ClausesSyntax:
        match str(node.data):
            case "in_memory" | "accumulate" | "outside" as kind:
                return ast.ClauseSyntax(kind, self.ident(node.children[0]), self.span(node))
            case "strides":
                values = tuple(
                    None if isinstance(c, Tree) and str(c.data) == "any_stride" else self.expr(c)
                    for c in node.children
                )
                return ast.StridesSyntax(values, self.span(node))
            case "domain":
                bounds, ascending = cast("list[Any]", node.children)
                return ast.DomainSyntax(self.bounds(bounds), ascending is not None, self.span(node))
            case _:
                return self.placement(node)

    def placement(self, node: SyntaxTree) -> ast.PlacementSyntax:
        names, *coordinates = cast("list[Any]", node.children)
        return ast.PlacementSyntax(
            tuple(self.ident(n) for n in names.children) if names is not None else (),
            tuple((self.ident(c.children[0]), self.expr(c.children[1])) for c in coordinates),
            self.span(node),
        )

    def params(self, node: SyntaxTree | None) -> tuple[ast.ParamSyntax, ...]:
        found = cast("list[SyntaxTree | None]", node.children if node is not None else [])
        return tuple(self.param(p) for p in found if p is not None)

    def param(self, node: SyntaxTree) -> ast.ParamSyntax:
        kind, name, domain, default = cast("list[Any]", node.children)
        is_range = _is_rule(domain, "range")
        return ast.ParamSyntax(
            str(kind) if kind is not None else None,
            self.ident(name),
            self.bounds(domain) if is_range else None,
            self.ident(domain.children[0]) if domain is not None and not is_range else None,
            self.integer(default),
            self.span(node),
        )

    def bounds(self, node: Any) -> tuple[ast.ExprSyntax, ast.ExprSyntax]:
        low, high = node.children
        return self.expr(low), self.expr(high)

    # --- declarations

    def declarations(self, tree: SyntaxTree) -> tuple[ast.DeclarationSyntax, ...]:
        return tuple(self.declaration(cast(SyntaxTree, node)) for node in tree.children)

    def declaration(self, node: SyntaxTree) -> ast.DeclarationSyntax:
        children: list[Any] = node.children
        span = self.span(node)
        match str(node.data):
            case "kernel" | "instruction" as kind:
                strict, name, params, where, *items = children
                return ast.RoutineSyntax(
                    kind,
                    strict is not None,
                    self.ident(name),
                    self.params(params),
                    tuple(self.expr(c.children[0]) for c in where.children) if where is not None else (),
                    tuple(self.item(i) for i in items),
                    span,
                )
            case "function":
                name, params, ulp, below, *lets, result = children
                return ast.FunctionSyntax(
                    self.ident(name),
                    self.params(params),
                    float(read_number(str(ulp), span)) if ulp is not None else None,
                    float(read_number(str(below), span)) if below is not None else None,
                    tuple(
                        ast.LetSyntax(self.ident(e.children[0]), self.expr(e.children[1]), self.span(e))
                        for e in lets
                    ),
                    self.expr(result),
                    span,
                )
            case "memory":
                name, kind, attributes = children
                return ast.MemorySyntax(
                    self.ident(name), None, self.ident(kind), self.attributes(attributes), None, span
                )
            case "view":
                name, base, kind, attributes, placement = children
                return ast.MemorySyntax(
                    self.ident(name),
                    self.ident(base),
                    self.ident(kind),
                    self.attributes(attributes),
                    self.placement(placement) if placement is not None else None,
                    span,
                )
            case "state":
                name, per_thread, *fields = children
                return ast.StateSyntax(
                    self.ident(name), per_thread is not None, tuple(self.field(f) for f in fields), span
                )
            case _:
                name, bounds, default = children
                return ast.ConstantSyntax(self.ident(name), self.bounds(bounds), self.integer(default), span)

    def attributes(self, node: SyntaxTree | None) -> tuple[tuple[ast.Ident, ast.ExprSyntax], ...]:
        children = node.children if node is not None else []
        trees = [cast(SyntaxTree, c) for c in children if _is_rule(c, "attribute")]
        return tuple((self.ident(t.children[0]), self.sized(t.children[1], t.children[2])) for t in trees)

    def sized(self, node: Any, unit: Any) -> ast.ExprSyntax:
        """Return a number of bytes multiplied by its unit. Raises: SyntaxProblem."""
        value = self.expr(node)
        if unit is None:
            return value
        scale, span = BYTES_PER_UNIT.get(str(unit)), self.ident(unit).span
        if scale is None or not isinstance(value, ast.Number) or not isinstance(value.value, int):
            said = (
                f"`{unit}` is not a unit of sizes"
                if scale is None
                else f"`{unit}` must follow a whole number"
            )
            advice = "write KiB, MiB or GiB (of 1024), or the bytes as a number"
            raise SyntaxProblem.of("unknown-unit", said, span, help=advice)
        return ast.Number(value.value * scale, Span(span.source, value.span.start, span.end))

    def field(self, node: SyntaxTree) -> ast.FieldSyntax:
        name, dtype, count = cast("list[Any]", node.children)
        return ast.FieldSyntax(self.ident(name), self.ident(dtype), self.integer(count), self.span(node))


def _is_rule(node: Any, rule: str) -> bool:
    return isinstance(node, Tree) and str(cast(SyntaxTree, node).data) == rule


def read_number(text: str, span: Span) -> int | float:
    """Return the value of a literal. Raises: SyntaxProblem if it has too many digits for any type."""
    if len(text) > MOST_DIGITS:
        raise SyntaxProblem.of(
            "number-too-large",
            f"a number of {len(text)} characters is of no type",
            span,
            notes=(f"f64, the largest, ends at 1.8e308; numbers have {MOST_DIGITS} characters at most",),
        )
    if text.startswith("0x"):
        return int(text, 16)
    return float(text) if any(c in text for c in ".eE") else int(text)
