"""Parse text to typed and verified IR: the entry point of this package.

`parse_kernel(Source("gemm.ir", text))` is a `Kernel`, or raises one error that carries every finding.

A family of instructions is one text with variables and many members.

In a template `$T` may replace a name, a part of a name or a number: with T = f32 and N = 16, `instruction
add_$T() { in a: $T[$N] @ reg; … }` is `add_f32` on `f32[16]`. The text is parsed once; members are renamed
copies of its syntax tree, so that hundreds cost little, and every span points into that text.

Kernels are cached. The parser is imported where a text is parsed, because lark's import takes longer than most texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import cast

from isamap.ir import F64, ConstantDecl, DType, Expr, Kernel, MemoryDecl, Module, Routine
from isamap.ir.verify import check_view, verify
from isamap.source import IsamapError, Source, Span, TypeProblem, fields, is_digits, replace
from isamap.source.cache import digest, program_state, recall_or_make
from isamap.source.codec import read_as, write
from isamap.syntax import ast
from isamap.syntax.declarations import resolve_module
from isamap.syntax.scope import Scope, TextFindings
from isamap.syntax.values import resolve_value

Family = Callable[[Mapping[str, str]], tuple[ast.DeclarationSyntax, ...]]
"""The syntax trees of a family's member for the values of its variables."""


def parse_module(source: Source, known: Module | None = None) -> Module:
    """Return the declarations of a text. `known` supplies memories, states and constants from elsewhere.

    Raises: SyntaxProblem for the first thing that is not of the language; TypeProblem with all findings.
    """
    from isamap.syntax.tree_builder import parse_declarations

    return resolve_verified(parse_declarations(source), known or Module(()))


def resolve_verified(declarations: tuple[ast.DeclarationSyntax, ...], known: Module) -> Module:
    """Return the typed and verified module of a syntax tree. Raises: TypeProblem with all findings."""
    findings = TextFindings()
    module = resolve_module(declarations, known, findings)
    constants = [d.param for d in (*known.declarations, *module.declarations) if isinstance(d, ConstantDecl)]
    memories = {d.name: d for d in (*known.declarations, *module.declarations) if isinstance(d, MemoryDecl)}
    for declaration in module.declarations:
        match declaration:
            case Routine():
                findings.diagnostics += verify(declaration, constants)
            case MemoryDecl(base=str() as base):
                findings.diagnostics += check_view(declaration, memories[base], tuple(constants))
            case _:
                pass
    findings.raise_any()
    return module


@lru_cache(maxsize=256)  # the steps of a compilation ask for the same few texts again
def parse_kernel(source: Source, name: str | None = None) -> Kernel:
    """Return the kernel of a text: the only one, or the one called `name`. Raises: SyntaxProblem, TypeProblem."""
    return recall_or_make(
        "kernels",
        digest(program_state(), source.name, source.text, name or ""),
        lambda data: read_as(Kernel, data, [source]),
        lambda: _choose_kernel(source, name),
        lambda kernel: write(kernel, [source]).encode(),
    )


def _choose_kernel(source: Source, name: str | None) -> Kernel:
    kernels = [d for d in parse_module(source).declarations if isinstance(d, Kernel)]
    chosen = [k for k in kernels if name is None or k.name == name]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(f"`{k.name}`" for k in kernels) or "none"
    expected = "one kernel" if name is None else f"a kernel called `{name}`"
    raise TypeProblem.of(
        "kernel-missing" if not chosen else "kernel-ambiguous",
        f"{source.name} should hold {expected}; it holds {names}",
        Span(source, 0, 0) if source.text else None,
        help="move the others to files of their own" if chosen else "write `kernel NAME(SIZES) { … }`",
    )


def parse_expression(source: Source, scalars: Mapping[str, DType], dtype: DType = F64) -> Expr:
    """Return a value expression over scalars of given types, such as a cost. Raises: SyntaxProblem, TypeProblem."""
    from isamap.syntax.tree_builder import parse_expression_syntax

    return resolve_value(parse_expression_syntax(source), Scope(scalars=dict(scalars)), dtype)


VARIABLE = re.compile(r"\$([A-Z]+)")
"""A variable in a template: the longest run of capitals behind `$`."""


def parse_template(source: Source, text: str) -> tuple[ast.DeclarationSyntax, ...]:
    """Return the declarations in `text`, which equals `source.text` with all other content blanked.

    Both have the same length, so that the spans of the tree, and of errors, point into `source`.
    Raises: SyntaxProblem.
    """
    from isamap.syntax.parser import parse_tree
    from isamap.syntax.tree_builder import build_declarations

    assert len(text) == len(source.text)
    try:
        tree = parse_tree(Source(source.name, text.replace("$", "_")))
    except IsamapError as error:
        raise type(error)(*(replace(d, span=_move_span(d.span, source)) for d in error.diagnostics)) from None
    return build_declarations(source, tree)


def family_of(declarations: tuple[ast.DeclarationSyntax, ...]) -> Family:
    """Return the members of a family by the values of its variables."""
    make = _maker_of(declarations)
    return lambda values: (
        declarations if make is None else cast("tuple[ast.DeclarationSyntax, ...]", make(values))
    )


def resolve_template(family: Family, values: Mapping[str, str], known: Module) -> Module:
    """Return the member of a family for these values of its variables, verified. Raises: TypeProblem."""
    return resolve_verified(family(values), known)


def substitute_text(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its variables replaced. A variable without a value is unchanged."""
    return VARIABLE.sub(lambda m: values.get(m[1], m[0]), text) if "$" in text else text


def _move_span(span: Span | None, source: Source) -> Span | None:
    return Span(source, span.start, span.end) if span is not None else None


def _maker_of(node: object) -> Callable[[Mapping[str, str]], object] | None:
    """Return a function that replaces the variables of a syntax tree by values, or None if it has none.

    Subtrees without variables are shared.
    """
    match node:
        case ast.Name(_, span) if "$" in (text := span.text):
            return lambda values: _written_name(substitute_text(text, values), span)
        case ast.Ident(_, span) if "$" in (text := span.text):
            return lambda values: ast.Ident(substitute_text(text, values), span)
        case ast.Name() | ast.Ident() | ast.Number() | ast.Flag() | Span() | str() | int() | None:
            return None
        case tuple():
            parts = cast("tuple[object, ...]", node)
        case _:
            parts = tuple(getattr(node, name) for name in _field_names(type(node)))
    makers = [(part, _maker_of(part)) for part in parts]
    if all(make is None for _, make in makers):
        return None

    def make_all(values: Mapping[str, str]) -> object:
        made = [part if make is None else make(values) for part, make in makers]
        return tuple(made) if isinstance(node, tuple) else type(node)(*made)

    return make_all


def _written_name(written: str, span: Span) -> ast.Name | ast.Number:
    """Return what a variable's value stands for: a number, or a name."""
    from isamap.syntax.tree_builder import read_number

    return ast.Number(read_number(written, span), span) if is_digits(written) else ast.Name(written, span)


@cache
def _field_names(node: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(node))
