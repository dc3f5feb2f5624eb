"""Why an instruction does not perform a statement: the first condition that fails, nearest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isamap.ir import Call, Cast, Expr, Kernel, Read, print_expr
from isamap.machine import Machine
from isamap.match import Mapping, Pattern, pattern_of, statement_text
from isamap.match.unify import unify
from isamap.source import Span
from isamap.transform import Statement, statements

NEARNESS = (
    "axis-has-no-place",
    "types-differ",
    "expression-differs",
    "result-type-differs",
    "operation-differs",
)
"""Reasons from the one that failed last to the one that failed first."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One instruction that cannot perform one statement; `span` is that of the statement."""

    instruction: str
    statement: int
    reason: str
    message: str
    span: Span | None
    edit: str | None = None


def find_rejections(kernel: Kernel, machine: Machine, mappings: tuple[Mapping, ...]) -> tuple[Rejection, ...]:
    """A rejection for every statement and instruction without a mapping, the nearest first per statement."""
    matched = {(m.statement, m.instruction) for m in mappings}
    found = [
        _reject(pattern, statement, number)
        for number, statement in enumerate(statements(kernel))
        for item in machine.instructions.values()
        if (pattern := pattern_of(item.instruction)) is not None and (number, pattern.name) not in matched
    ]
    return tuple(sorted(found, key=lambda r: (r.statement, NEARNESS.index(r.reason))))


def _reject(pattern: Pattern, statement: Statement, number: int) -> Rejection:
    mine, theirs = pattern.statement.assign, statement.assign
    span = theirs.span

    def refusal(reason: str, message: str, edit: str | None = None) -> Rejection:
        return Rejection(pattern.name, number, reason, f"{pattern.name} {message}", span, edit)

    if mine.op != theirs.op:
        return refusal("operation-differs", f"{_verb(mine.op)}; the statement {_verb(theirs.op)}")
    wanted = theirs.target.dtype if theirs.op is None else statement.accumulator
    if mine.target.dtype != wanted:
        doing = "sums in" if mine.op else "writes"
        edit = f"accumulate {mine.target.dtype}" if mine.op and wanted.is_float else None
        return refusal("result-type-differs", f"{doing} {mine.target.dtype}; the statement, {wanted}", edit)
    if next(unify(mine.value, theirs.value), None) is not None:
        axes = ", ".join(a.name for a in pattern.axes)
        return refusal(
            "axis-has-no-place", f"needs its axes {axes} filled, and no axes of the kernel fit together"
        )
    leaves = [sorted(_leaves(e)) for e in (mine.value, theirs.value)]
    if _shape(mine.value) == _shape(theirs.value):
        taken, given = (", ".join(names) for names in leaves)
        return refusal("types-differ", f"takes {taken}; the statement has {given}")
    return refusal(
        "expression-differs",
        f"computes `{print_expr(mine.value)}`; `{statement_text(statement)}` does not have this form",
    )


def _verb(op: str | None) -> str:
    if op is None:
        return "assigns"
    return {
        "add": "sums up",
        "mul": "multiplies up",
        "max": "takes the maximum",
        "min": "takes the minimum",
    }.get(op, f"reduces by `{op}`")


def _leaves(e: Expr) -> Iterator[str]:
    """Types of what an expression reads."""
    match e:
        case Read():
            yield str(e.dtype)
        case Call(_, args):
            for arg in args:
                yield from _leaves(arg)
        case Cast(value):
            yield from _leaves(value)
        case _:
            yield str(e.dtype)


def _shape(e: Expr) -> object:
    """The expression without types, casts and names."""
    match e:
        case Call(op, args):
            return (op, *(_shape(a) for a in args))
        case Cast(value):
            return _shape(value)
        case _:
            return ""
