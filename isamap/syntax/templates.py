"""Families of instructions: one text with variables, many members.

In a template `$T` may stand wherever a name, a part of a name or a number stands: with T = f32 and N = 16,
`instruction add_$T() { in a: $T[$N] @ reg; … }` is `add_f32` on `f32[16]`. The text is parsed once; members
are made by renaming in its syntax tree, so that hundreds cost little and every span points into the one text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import cast

from isamap.ir.nodes import Module
from isamap.source import IsamapError, Source, Span, is_digits
from isamap.syntax import ast
from isamap.syntax.build import build_declarations, read_number
from isamap.syntax.parse import resolve_verified
from isamap.syntax.parser import parse_tree

VARIABLE = re.compile(r"\$([A-Z]+)")
"""A variable in a template: the longest run of capitals behind `$`."""


def parse_template(source: Source, text: str) -> tuple[ast.DeclarationSyntax, ...]:
    """The declarations of `text`, which is `source.text` with everything blanked that is not of the language.

    Both have the same length, so that the spans of the tree, and of errors, point into `source`.
    Raises: SyntaxProblem.
    """
    assert len(text) == len(source.text)
    try:
        tree = parse_tree(Source(source.name, text.replace("$", "_")))
    except IsamapError as error:
        raise type(error)(*(replace(d, span=_moved(d.span, source)) for d in error.diagnostics)) from None
    return build_declarations(source, tree)


def resolve_template(
    declarations: tuple[ast.DeclarationSyntax, ...], values: Mapping[str, str], known: Module
) -> Module:
    """The member of a family for these values of its variables, verified. Raises: TypeProblem."""
    members = tuple(cast(ast.DeclarationSyntax, _instantiate(d, values)) for d in declarations)
    return resolve_verified(members, known)


def substitute_text(text: str, values: Mapping[str, str]) -> str:
    """A text with its variables replaced; a variable without a value stays as it is."""
    return VARIABLE.sub(lambda m: values.get(m[1], m[0]), text) if "$" in text else text


def _moved(span: Span | None, source: Source) -> Span | None:
    return Span(source, span.start, span.end) if span is not None else None


def _instantiate(node: object, values: Mapping[str, str]) -> object:
    """A syntax tree with variables replaced; subtrees without variables are shared."""
    match node:
        case ast.Name(_, span) if "$" in (text := span.text):
            written = substitute_text(text, values)
            return (
                ast.Number(read_number(written, span), span)
                if is_digits(written)
                else ast.Name(written, span)
            )
        case ast.Ident(_, span) if "$" in (text := span.text):
            return ast.Ident(substitute_text(text, values), span)
        case ast.Name() | ast.Ident() | ast.Number() | ast.Flag() | Span() | str() | int() | None:
            return node
        case tuple():
            before = cast("tuple[object, ...]", node)
            after = tuple(_instantiate(part, values) for part in before)
            return after if _changed(before, after) else before
        case _:
            before = tuple(getattr(node, name) for name in _field_names(type(node)))
            after = tuple(_instantiate(value, values) for value in before)
            return type(node)(*after) if _changed(before, after) else node


def _changed(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    return any(a is not b for a, b in zip(before, after, strict=True))


@cache
def _field_names(node: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(node))
