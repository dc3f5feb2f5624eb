"""The front door: text in, typed and verified IR out.

`parse_kernel(Source("gemm.ir", text))` is a `Kernel`, or raises one error that carries every finding.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import (
    F64,
    ConstantDecl,
    DType,
    Expr,
    Index,
    Kernel,
    MemoryDecl,
    Module,
    Routine,
    check_view,
    verify,
)
from isamap.source import Diagnostic, Source, Span, TypeProblem
from isamap.syntax import ast
from isamap.syntax.build import parse_declarations, parse_expression_syntax
from isamap.syntax.declarations import resolve_module
from isamap.syntax.indices import resolve_index
from isamap.syntax.scope import Findings, Scope
from isamap.syntax.values import resolve_value


def parse_module(source: Source, known: Module | None = None) -> Module:
    """The declarations of a text; `known` supplies memories, states and constants from elsewhere.

    Raises: SyntaxProblem for the first thing that is not of the language; TypeProblem with all findings.
    """
    return resolve_verified(parse_declarations(source), known or Module(()))


def resolve_verified(declarations: tuple[ast.DeclarationSyntax, ...], known: Module) -> Module:
    """The typed and verified module of a syntax tree. Raises: TypeProblem with all findings."""
    findings = Findings()
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


def parse_kernel(source: Source, name: str | None = None) -> Kernel:
    """The kernel of a text: the only one, or the one called `name`. Raises: SyntaxProblem, TypeProblem."""
    kernels = [d for d in parse_module(source).declarations if isinstance(d, Kernel)]
    chosen = [k for k in kernels if name is None or k.name == name]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(f"`{k.name}`" for k in kernels) or "none"
    wanted = "one kernel" if name is None else f"a kernel called `{name}`"
    raise TypeProblem(
        Diagnostic(
            "kernel-missing" if not chosen else "kernel-ambiguous",
            f"{source.name} should hold {wanted}; it holds {names}",
            Span(source, 0, 0) if source.text else None,
            help="say which one is meant" if chosen else "write `kernel NAME(SIZES) { … }`",
        )
    )


def parse_expression(source: Source, scalars: Mapping[str, DType], dtype: DType = F64) -> Expr:
    """A value expression over scalars of given types, such as a cost. Raises: SyntaxProblem, TypeProblem."""
    return resolve_value(parse_expression_syntax(source), Scope(scalars=dict(scalars)), dtype)


def parse_index(source: Source, symbols: tuple[str, ...]) -> Index:
    """One index expression over symbols, such as an extent. Raises: SyntaxProblem, TypeProblem."""
    return resolve_index(
        parse_expression_syntax(source), Scope(indices=dict.fromkeys(symbols, "size")), "this"
    )
