"""A rewritten kernel with its steps, and the reasons why parts were not rewritten.

Rewrites work on canonical kernels: a tuple of `Statement`, each alone under its loops. `with_statements`
makes a kernel of such a tuple, and `accepted` verifies it like every kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from isamap.ir import Assign, Kernel, Loop, Operand, Read, Stmt, print_stmt, verify
from isamap.ir.index import has_elements
from isamap.ir.walk import map_reads, reads
from isamap.source import Span, dataclass, field, replace
from isamap.syntax.bodies import RESERVED
from isamap.transform.statements import Statement, in_ordered_loops, statements


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A kernel with the same results as another one, and the steps that lead to it, such as `fission: …`.

    `rounded` is the kernel whose roundings bound the errors of results, if another order of sums does not.
    """

    kernel: Kernel
    steps: tuple[str, ...]
    rounded: Kernel | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rewrite that was not made: its name, the condition that failed, and the remedy.

    `kernel` is the kernel after the remedy, if that changes the caller's arguments.
    """

    rewrite: str
    reason: str
    help: str | None = None
    span: Span | None = None
    kernel: Kernel | None = None


def with_statements(
    kernel: Kernel, given: Sequence[Statement], operands: Sequence[Operand] | None = None
) -> Kernel:
    """Return the kernel with other statements, each in its own loop inside the ordered loops that they share."""
    items: list[tuple[Statement, Stmt]] = [(s, alone(s)) for s in given]
    body = in_ordered_loops(items, lambda axis, inner: Loop((axis,), inner, ordered=True))
    kept = kernel.operands if operands is None else tuple(operands)
    return replace(kernel, body=tuple(_join_loops(s) for s in body), operands=kept)


def alone(statement: Statement) -> Stmt:
    """Return the statement under its unordered axes."""
    return Loop(statement.axes, (statement.assign,)) if statement.axes else statement.assign


def _join_loops(stmt: Stmt) -> Stmt:
    """Return nested ordered loops without other content as one loop: `seq s in S, t in T`."""
    if not isinstance(stmt, Loop) or not stmt.ordered:
        return stmt
    body = tuple(_join_loops(s) for s in stmt.body)
    match body:
        case (Loop(axes, inner, True, None),):
            return replace(stmt, axes=(*stmt.axes, *axes), body=inner)
        case _:
            return replace(stmt, body=body)


def line_of(statement: Statement) -> str:
    """Return the assignment as one line, without its semicolon."""
    return print_stmt(statement.assign).strip().rstrip(";")


# --- what every rewrite must keep -------------------------------------------------------------------------


def is_accepted(before: Kernel, after: Kernel, *, batched: bool = False) -> bool:
    """Return whether the verifier accepts the rewritten kernel, and wide sums are rounded at the same points.

    An operand with `accumulate` is rounded when the outermost loop ends: two sums into it that shared that
    loop have to go on sharing it, or one rounding becomes two.
    """
    for operand in after.operands:
        if operand.accumulate in (None, operand.dtype):
            continue
        old, new = _sums_by_loop(before, operand.name), _sums_by_loop(after, operand.name)
        fewer = batched and (len(old) == len(new) == 1 or {*old, *new} <= {1})
        if old != new and not fewer:
            return False
    return not verify(after)


def _sums_by_loop(kernel: Kernel, name: str) -> list[int]:
    """Return the number of reductions into an operand, for each top-level statement with at least one."""
    counts = [sum(a.target.buffer == name and a.op is not None for a in assigns(s)) for s in kernel.body]
    return [n for n in counts if n]


def is_rewritable(kernel: Kernel) -> bool:
    """Return whether guards may move to single statements and loops may be split.

    No guard of a loop may depend on the loop's own body, and no extent on data.
    """
    is_bounded = not any(has_elements(a.extent) for s in statements(kernel) for a in (*s.axes, *s.sequence))
    return is_bounded and all(_is_guarded_plainly(s) for s in kernel.body)


def _is_guarded_plainly(stmt: Stmt) -> bool:
    if not isinstance(stmt, Loop):
        return True
    if stmt.guard is not None and {r.buffer for r in reads(stmt.guard)} & {
        a.target.buffer for a in assigns(stmt)
    }:
        return False
    return all(_is_guarded_plainly(s) for s in stmt.body)


def assigns(stmt: Stmt) -> Iterator[Assign]:
    """Yield the assignments in a statement, in order."""
    match stmt:
        case Assign():
            yield stmt
        case Loop(_, body):
            for inner in body:
                yield from assigns(inner)


# --- names and accesses -----------------------------------------------------------------------------------


def free_name(kernel: Kernel, preferred: str) -> str:
    """Return this name, with `_` appended until it is unused."""
    taken = {o.name for o in kernel.operands} | {p.name for p in kernel.params}
    taken |= {let.name for let in kernel.lets} | RESERVED
    taken |= {a.name for s in statements(kernel) for a in (*s.axes, *s.sequence)}
    while preferred in taken:
        preferred += "_"
    return preferred


def map_accesses(statement: Statement, change: Callable[[Read], Read]) -> Statement:
    """Return the statement with every access changed, in the order of `accesses`."""
    a = statement.assign
    target, value = change(a.target), map_reads(a.value, change)
    guard = map_reads(a.guard, change) if a.guard is not None else None
    return replace(statement, assign=replace(a, target=target, value=value, guard=guard))


def accesses(statement: Statement) -> tuple[Read, ...]:
    """Return all accesses of a statement, its target first."""
    a = statement.assign
    return (a.target, *reads(a.value), *(reads(a.guard) if a.guard is not None else ()))
