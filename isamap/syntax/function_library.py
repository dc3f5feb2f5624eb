"""Definitions of functions: those of a text, and those of the library, each in a file of its name.

`FunctionLibrary()["gelu"]` is the definition in `kernels/functions/gelu.ir`. A text may declare its own functions
before their calls. Built-in functions such as `exp` also have a definition in the library:
`definition("exp")`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from isamap.ir.functions import Function
from isamap.ir.nodes import Expr, Scalar
from isamap.kernels import function_path, list_functions
from isamap.source import Source, dataclass, field, replace
from isamap.syntax import ast
from isamap.syntax.bodies import check_free
from isamap.syntax.scope import Scope, problem_at, resolve_dtype
from isamap.syntax.values import FUNCTIONS, resolve_value


@dataclass(frozen=True, slots=True)
class FunctionLibrary(Mapping[str, Function]):
    """The functions of a text, and those of the library that are not operations. The library is read on demand."""

    own: Mapping[str, Function] = field(default_factory=dict[str, Function])

    def __getitem__(self, name: str) -> Function:
        if name in FUNCTIONS:
            raise KeyError(name)
        return self.own[name] if name in self.own else _read_function(name, False)

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted({*self.own, *list_functions()}) if name not in FUNCTIONS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def definition(name: str) -> Function:
    """Return the definition of an operation. Raises: KeyError if the library has none."""
    return _read_function(name, True)


@cache
def _read_function(name: str, defines: bool) -> Function:
    from isamap.syntax.tree_builder import parse_declarations  # brings the parser

    path = function_path(name)
    source = Source(f"functions/{name}.ir", path.read_text(encoding="utf-8"))
    (syntax,) = parse_declarations(source)
    assert isinstance(syntax, ast.FunctionSyntax)
    assert syntax.name.text == name, f"{path} defines `{syntax.name.text}`"
    return resolve_function(syntax, Scope(functions={} if defines else FunctionLibrary(), defines=defines))


def resolve_function(f: ast.FunctionSyntax, scope: Scope) -> Function:
    """Return the typed definition. Raises: TypeProblem."""
    if f.name.text in FUNCTIONS and not scope.defines:
        said = f"`{f.name.text}` is a function of the language: this one needs another name"
        raise problem_at("name-taken", said, f.name.span)
    params: list[Scalar] = []
    for p in f.params:
        check_free(p.name, scope, "parameter")
        if p.kind is not None or p.dtype is None or p.default is not None:
            said = f"`{p.name.text}` is a value: it has only a type"
            raise problem_at("bad-parameter", said, p.span, advice=f"write `{p.name.text}: f32`")
        params.append(Scalar(p.name.text, resolve_dtype(p.dtype), p.span))
        scope = _with(scope, params[-1])
    steps: list[tuple[str, Expr]] = []
    for let in f.lets:
        check_free(let.name, scope, "step")
        value = resolve_value(let.value, scope)
        steps.append((let.name.text, value))
        scope = _with(scope, Scalar(let.name.text, value.dtype))
    result = resolve_value(f.result, scope)
    return Function(f.name.text, tuple(params), tuple(steps), result, f.ulp, f.below, f.span)


def _with(scope: Scope, value: Scalar) -> Scope:
    return replace(scope, scalars={**scope.scalars, value.name: value.dtype})
