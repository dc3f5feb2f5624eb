"""Look up names while a routine is resolved, and collect findings.

A lookup that fails raises a `TypeProblem` with the nearest known name. The caller at statement level keeps
the finding and continues with the next statement.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Literal

from isamap.ir import DTYPES, DType, Index, Module, Operand, Param
from isamap.ir.functions import Function
from isamap.source import Diagnostic, Edit, IsamapError, Span, TypeProblem, dataclass, field, replace
from isamap.syntax import ast
from isamap.syntax.hints import read_other_languages

IndexRole = Literal["size", "let", "axis", "constant", "scalar", "element"]


class Cascade(Exception):
    """An exception: a name is used whose declaration was refused. No further message is needed."""


@dataclass(frozen=True)
class Scope:
    """Names in scope: index symbols, typed scalars, operands, and names whose declaration failed.

    `extents` are those of the accepted axes; `starts` the first values of axes that do not start at 0,
    `ordered` the axes of `seq`. `functions` are those that may be called besides the language's operations.
    `defines` is the operation that the text defines.
    """

    indices: Mapping[str, IndexRole] = field(default_factory=dict[str, IndexRole])
    scalars: Mapping[str, DType] = field(default_factory=dict[str, DType])
    operands: Mapping[str, Operand] = field(default_factory=dict[str, Operand])
    broken: frozenset[str] = frozenset()
    known: Module = field(default_factory=lambda: Module(()))
    extents: Mapping[str, Index] = field(default_factory=dict[str, Index])
    starts: Mapping[str, Index] = field(default_factory=dict[str, Index])
    ordered: frozenset[str] = frozenset()
    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])
    defines: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.indices, *self.scalars, *self.operands)

    def meaning(self, name: str) -> str | None:
        """Return the meaning of a name as text, or None."""
        if name in self.indices:
            words = {"let": "a named expression", "axis": "a loop axis", "constant": "a machine constant"}
            return words.get(
                self.indices[name],
                "an index of the placement" if self.indices[name] == "element" else "a parameter",
            )
        if name in self.scalars:
            return "a scalar parameter"
        return "an operand" if name in self.operands else None

    def with_index(self, name: str, role: IndexRole) -> Scope:
        return replace(self, indices={**self.indices, name: role})

    def with_axis(self, name: str, extent: Index, start: Index | None, *, ordered: bool) -> Scope:
        """Return the scope inside a loop over an axis."""
        return replace(
            self.with_index(name, "axis"),
            extents={**self.extents, name: extent},
            starts=self.starts if start is None else {**self.starts, name: start},
            ordered=self.ordered | {name} if ordered else self.ordered,
        )

    def symbol(self, name: str) -> Index:
        """Return the index for a name. An axis counts from 0, shifted by the start of its loop."""
        start = self.starts.get(name)
        return Index.of(name) if start is None else Index.of(name) + start

    def with_axes(self, names: Iterable[str]) -> Scope:
        return replace(self, indices={**self.indices, **dict.fromkeys(names, "axis")})

    def with_param(self, param: Param) -> Scope:
        if param.dtype is not None:
            return replace(self, scalars={**self.scalars, param.name: param.dtype})
        return self.with_index(param.name, "scalar" if param.kind == "scalar" else "size")

    def with_operand(self, operand: Operand) -> Scope:
        return replace(self, operands={**self.operands, operand.name: operand})

    def with_broken(self, name: str) -> Scope:
        return replace(self, broken=self.broken | {name})

    def operand(self, name: ast.Ident) -> Operand:
        """Return the operand with a name. Raises: TypeProblem, Cascade."""
        if name.text in self.operands:
            return self.operands[name.text]
        if (meaning := self.meaning(name.text)) is not None:
            raise problem_at("not-an-operand", f"`{name.text}` is {meaning}, not an operand", name.span)
        raise self.unknown(name, self.operands, "operand")

    def unknown(
        self, name: ast.Ident, candidates: Iterable[str] | None = None, what: str = "name"
    ) -> TypeProblem:
        """Return the error of an undeclared name. Raises: Cascade if its declaration was refused."""
        if name.text in self.broken:
            raise Cascade
        shown = list(self.names if candidates is None else candidates)
        return unknown_name("unknown-name", what, name, shown)


@dataclass
class TextFindings:
    """The diagnostics that are collected while one text is resolved."""

    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    refused: int = 0
    broken: dict[str, Span] = field(default_factory=dict[str, Span])
    """Declarations that were refused: that their names are unknown behind them is not a finding of its own."""

    @contextmanager
    def collect(self) -> Generator[None]:
        """Run a block and record the findings of an error instead of raising it."""
        try:
            yield
        except IsamapError as error:
            self.diagnostics += error.diagnostics
            self.refused += 1
        except Cascade:
            self.refused += 1

    def raise_any(self) -> None:
        """Raise one error with all findings, in textual order."""
        if self.diagnostics:
            own = (d for d in self.diagnostics if not self._is_consequence(d))
            ordered = sorted(own, key=lambda d: d.span.start if d.span else 0)
            raise TypeProblem(*dict.fromkeys(ordered))

    def _is_consequence(self, d: Diagnostic) -> bool:
        """Return whether a finding reports only the use of a name whose declaration was refused."""
        declared = self.broken.get(d.span.text) if d.span is not None else None
        is_behind = declared is not None and d.span is not None and d.span.start >= declared.end
        return is_behind and d.code.startswith("unknown-")


def problem_at(
    code: str,
    message: str,
    span: Span | None,
    *notes: str,
    advice: str | None = None,
    edits: tuple[Edit, ...] = (),
) -> TypeProblem:
    """Return a TypeProblem with one finding."""
    return TypeProblem.of(code, message, span, notes=notes, help=advice, edits=edits)


def unknown_name(
    code: str, what: str, name: ast.Ident, candidates: Iterable[str], most: int = 12
) -> TypeProblem:
    """Return the error of an unknown name, with the nearest known name and a list of others."""
    shown = sorted(set(candidates))
    near = get_close_matches(name.text, shown, n=1, cutoff=0.6)
    return problem_at(
        code,
        f"there is no {what} called `{name.text}`",
        name.span,
        *([f"known: {', '.join(shown[:most])}{', …' if len(shown) > most else ''}"] if shown else []),
        advice=f"did you mean `{near[0]}`?" if near else None,
        edits=(Edit(name.span, near[0]),) if near else (),
    )


def resolve_dtype(name: ast.Ident) -> DType:
    """Return the number type with a name. Raises: TypeProblem."""
    if name.text in DTYPES:
        return DTYPES[name.text]
    if (here := read_other_languages().types.get(name.text)) is not None:
        said, edits = f"there is no type called `{name.text}`", (Edit(name.span, here),)
        raise problem_at("unknown-type", said, name.span, advice=f"write `{here}`", edits=edits)
    if name.text in ("size", "index"):
        said = f"`{name.text}` is not a type: sizes have none"
        raise problem_at("unknown-type", said, name.span, advice="write the name alone: `kernel copy(M, N)`")
    raise unknown_name("unknown-type", "type", name, DTYPES)
