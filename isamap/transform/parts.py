"""Cut a kernel into parts that run one after the other, each a separate kernel.

    Y[p] = b[p]; Y[p] += X[p + r] * W[r] else 0; Z[p] = max(Y[p], 0)

becomes the units `X_padded`, `Y` and `Z`, one for each buffer that is written. A temporary that a later part
reads is a result of the part that writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from isamap.ir import Assign, Call, Cast, Const, Expr, Index, Kernel, Loop, Operand, Read, Stmt
from isamap.ir.index import elements_of
from isamap.ir.walk import indices, map_reads, reads, walk, with_parts
from isamap.source.records import dataclass, replace
from isamap.transform.statements import Statement, statements

Unit = tuple[Stmt, ...]


def with_values_apart(kernel: Kernel, performs: Callable[[Statement], bool]) -> Kernel:
    """Return a kernel of single statements in which narrow values of earlier results are temporaries.

    Such a value is a subexpression that a machine performs, of a narrower type than the result that it reads,
    such as a requantised sum. The temporary makes bytes move between two machines instead of wider types.
    """
    body, operands = list[Stmt](), list(kernel.operands)
    written, found = dict[str, int](), statements(kernel)
    if any(statement.sequence for statement in found):
        return kernel
    for stmt, statement in zip(kernel.body, found, strict=True):
        assign = statement.assign
        part = None
        if assign.op is None:
            parts = (
                e for e in walk(assign.value)
                if isinstance(e, Call | Cast) and e is not assign.value
                and any(written.get(r.buffer, 0) > e.dtype.bits for r in reads(e))
                and performs(replace(statement, assign=replace(assign, value=e)))
            )  # fmt: skip
            part = next(parts, None)
        written[assign.target.buffer] = assign.target.dtype.bits
        if part is None:
            body.append(stmt)
            continue
        taken = {operand.name for operand in operands}
        name = next(
            n for count in range(len(taken) + 1) if (n := f"{assign.target.buffer}_{count}") not in taken
        )
        value = Read(name, tuple(Index.of(axis.name) for axis in statement.axes), part.dtype)
        operands.append(Operand(name, "temp", part.dtype, tuple(axis.extent for axis in statement.axes)))
        first = Assign(value, None, part)
        behind = replace(assign, value=_replace_part(assign.value, part, value))
        body += [Loop(statement.axes, (one,)) if statement.axes else one for one in (first, behind)]
    return replace(kernel, body=tuple(body), operands=tuple(operands))


def _replace_part(e: Expr, part: Expr, value: Expr) -> Expr:
    """Return an expression with a part replaced by a value."""
    return value if e == part else with_parts(e, lambda inner: _replace_part(inner, part, value))


def with_constants(kernel: Kernel, known: Mapping[str, float]) -> Kernel:
    """Return a kernel in which known inputs of one element are constants."""

    def of_read(r: Read) -> Expr:
        return Const(float(known[r.buffer]), r.dtype) if r.buffer in known else r

    operands = tuple(o for o in kernel.operands if o.name not in known)
    return replace(_with_values(kernel, lambda e: map_reads(e, of_read)), operands=operands)


def with_extrema(kernel: Kernel) -> Kernel:
    """Return a kernel with `max` and `min` in place of selects, for machines that do not compare numbers.

    `select(x < c, c, x)` is `max(x, c)`, also of NaN; only the sign of a zero may be another one.
    """

    def change(e: Expr) -> Expr:
        match with_parts(e, change):
            case Call("select", (Call("lt", (x, c)), yes, no), dtype) if (x, c) == (no, yes):
                return Call("max", (x, c), dtype)
            case Call("select", (Call("lt", (c, x)), yes, no), dtype) if (x, c) == (no, yes):
                return Call("min", (x, c), dtype)
            case other:
                return other

    return _with_values(kernel, change)


def _with_values(kernel: Kernel, change: Callable[[Expr], Expr]) -> Kernel:
    """Return a kernel with changed values and conditions."""

    def of_statement(s: Stmt) -> Stmt:
        guard = change(s.guard) if s.guard is not None else None
        if isinstance(s, Loop):
            return replace(s, body=tuple(map(of_statement, s.body)), guard=guard)
        return replace(s, value=change(s.value), guard=guard)

    return replace(kernel, body=tuple(map(of_statement, kernel.body)))


def units_of(kernel: Kernel) -> tuple[Unit, ...]:
    """Return the statements of a kernel in groups, each after the groups that it reads from.

    Statements that write one buffer are one group, and so are those between whose reads and writes of a
    buffer the order matters.
    """
    seen = [_Touched.of(statement) for statement in kernel.body]
    group = list(range(len(seen)))

    def merge(one: int, other: int) -> None:
        kept, gone = sorted((group[one], group[other]))
        group[:] = [kept if number == gone else number for number in group]

    for later, own in enumerate(seen):
        for earlier in range(later):
            if own.writes & (seen[earlier].writes | seen[earlier].reads):
                merge(earlier, later)
    for _ in seen:  # groups that need each other are one
        needs = {(group[n], group[m]) for n, own in enumerate(seen) for m in range(n)
                 if own.reads & seen[m].writes and group[n] != group[m]}  # fmt: skip
        order = _order_groups(sorted(set(group)), needs)
        if order is not None:
            return tuple(
                tuple(s for s, g in zip(kernel.body, group, strict=True) if g == own) for own in order
            )
        first, second = min(needs)
        merge(first, second)
    raise AssertionError("one group is in order")


def _order_groups(groups: Sequence[int], needs: set[tuple[int, int]]) -> list[int] | None:
    """Return the groups, each as late as its readers allow, or None if the needs are cyclic."""
    found, left = list[int](), list(groups)
    while left:
        free = [one for one in left if not any(need == one and other in left for other, need in needs)]
        if not free:
            return None
        found.insert(0, max(free))
        left.remove(found[0])
    return found


def kernel_of(kernel: Kernel, units: Sequence[Unit], first: int, behind: int, name: str) -> Kernel:
    """Return the kernel of some consecutive units of a kernel."""
    body = tuple(statement for unit in units[first:behind] for statement in unit)
    own = [_Touched.of(statement) for statement in body]
    others = [_Touched.of(s) for n, unit in enumerate(units) for s in unit if not first <= n < behind]
    written = {buffer for one in own for buffer in one.writes}
    read = {buffer for one in own for buffer in one.reads}
    wanted = {buffer for one in others for buffer in one.reads}
    operands = (_take_operand(operand, written, read, wanted) for operand in kernel.operands)
    return replace(kernel, name=name, operands=tuple(o for o in operands if o is not None), body=body)


def _take_operand(operand: Operand, written: set[str], read: set[str], wanted: set[str]) -> Operand | None:
    """Return an operand with its role in a part, or None if the part does not use it."""
    name = operand.name
    if name not in written:
        return replace(operand, role="in") if name in read else None
    if operand.role == "temp" and name in wanted:
        return replace(operand, role="out")
    return operand


@dataclass(frozen=True, slots=True)
class _Touched:
    """The buffers that a statement reads and writes."""

    reads: frozenset[str]
    writes: frozenset[str]

    @staticmethod
    def of(statement: Stmt) -> _Touched:
        read, written = set[str](), set[str]()
        for one in _walk_statement(statement):
            if isinstance(one, Loop):
                found = [axis.extent for axis in one.axes]
                values = [one.guard] if one.guard is not None else []
            else:
                written.add(one.target.buffer)
                found = list(one.target.index)
                values = [value for value in (one.value, one.guard) if value is not None]
            read |= {r.buffer for value in values for r in reads(value)}
            found += [index for value in values for index in indices(value)]
            read |= {element.buffer for index in found for element in elements_of(index)}
        return _Touched(frozenset(read), frozenset(written))


def _walk_statement(statement: Stmt) -> Iterator[Stmt]:
    """Yield a statement and all statements inside it."""
    yield statement
    if isinstance(statement, Loop):
        for inner in statement.body:
            yield from _walk_statement(inner)
