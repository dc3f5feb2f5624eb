"""Make guards explicit: reads beyond an array use a padded copy, and guarded statements become selects.

    Y[p] += X[p + r - 1] else 0        becomes        X_padded[i] = 0;  X_padded[i + 1] = X[i];
                                                      Y[p] += X_padded[p + r]

so that mapping, staging and emission only ever see plain accesses. The copy is a statement like any other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import product
from math import gcd, lcm, prod

from isamap.ir import ZERO, Facts, Index, Mod, index_max, index_min, is_nonnegative
from isamap.ir import nodes as ir
from isamap.ir.facts import inside_conditions
from isamap.ir.substitute import substitute_expr, substitute_routine, substitute_stmt
from isamap.ir.walk import conjuncts, symbols, with_parts
from isamap.source import NoMapping, dataclass, field, replace
from isamap.transform.loop_bounds import bound_loops
from isamap.transform.margins import fill_loose_reads, tells_apart, without_bounds, writes_loosely, zero_like
from isamap.transform.shared_elements import Conflicts, is_wide, sums_in_any_order
from isamap.transform.statements import Statement, both_hold, identity_of, in_ordered_loops, statements


def make_guards_explicit(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel as single statements without guards, fills and `let` names."""
    # The kernel with `let` names substituted, because the sizes of a program are its parameters.
    bindings: dict[str, Index | int] = {}
    for let in kernel.lets:
        bindings[let.name] = let.value.substitute(bindings)
    kernel = _with_zeros_outside(
        replace(substitute_routine(kernel, bindings), lets=()) if bindings else kernel
    )
    builder = _Builder({o.name for o in kernel.operands})
    found: list[tuple[Statement, ir.Stmt]] = []
    around: tuple[int, ...] = ()
    for statement in (bound_loops(part) for s in statements(kernel) for part in by_remainders(s, kernel)):
        if statement.ordered_loops != around:  # what was padded before the loop may be written inside it
            builder.known.clear()
            around = statement.ordered_loops
        extents = {a.name: a.extent for a in (*statement.sequence, *statement.axes)}
        buffer, kept = statement.assign.target.buffer, fill_loose_reads(statement, kernel)
        loose = writes_loosely(kept, kernel)
        kept = without_bounds(kept, kernel)
        back: list[ir.Stmt] = []
        if loose:
            target, back = builder.with_margins(kept.assign.target, kernel, extents)
            kept = replace(kept, assign=replace(kept.assign, target=target))
        if is_summed_everywhere(kept, kernel):
            kept, back = builder.summed_everywhere(kept, kernel, extents)
        value = builder.plain(_guarded_value(kept), kernel, extents)
        found += [(statement, pad) for pad in builder.take_pending()]
        assign = replace(kept.assign, value=value, guard=None)
        found.append((statement, _in_loops(statement.axes, assign)))
        found += [(statement, copy) for copy in back]
        builder.forget(buffer)
    body = in_ordered_loops(found, lambda axis, inner: ir.Loop((axis,), inner, ordered=True))
    return replace(kernel, operands=(*kernel.operands, *builder.temps), body=body)


def _with_zeros_outside(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel with zeroing statements for outputs that are zero where nothing is assigned."""
    zeros: list[ir.Stmt] = []
    for o in kernel.operands:
        if o.role == "out" and o.outside == "zero":
            axes = tuple(ir.Axis(f"i{d}", size) for d, size in enumerate(o.shape))
            here = ir.Read(o.name, tuple(Index.of(a.name) for a in axes), o.dtype)
            assign = ir.Assign(here, None, zero_like(o.dtype))
            zeros.append(ir.Loop(axes, (assign,)) if axes else assign)
    return replace(kernel, body=(*zeros, *kernel.body)) if zeros else kernel


def _in_loops(axes: tuple[ir.Axis, ...], assign: ir.Assign) -> ir.Stmt:
    """Return the statement in its loops, ordered over axes whose iterations would add to one element.

    `Y[i + j] += …` runs over j in order, so that iterations over i meet in no element.
    """
    free = {a.name: a.extent for a in axes if any(a.name in i.symbols for i in assign.target.index)}
    ordered: list[str] = []
    while not tells_apart(assign.target.index, free):
        ordered.append(_least(free, assign.target.index))
        del free[ordered[-1]]
    inner = tuple(a for a in axes if a.name not in ordered)
    stmt: ir.Stmt = ir.Loop(inner, (assign,)) if inner else assign
    outer = tuple(a for a in axes if a.name in ordered)
    return ir.Loop(outer, (stmt,), ordered=True) if outer else stmt


def is_summed_everywhere(statement: Statement, kernel: ir.Kernel) -> bool:
    """Return whether a guard excludes whole sums and not single terms. All sums are then computed.

    A guard inside of the sum would be in the way of every instruction that computes the terms.
    """
    assign, summed = statement.assign, {a.name for a in statement.reduction_axes}
    if assign.op is None or assign.guard is None or not summed or summed & symbols(assign.guard):
        return False
    if writes_loosely(statement, kernel):
        return False
    operand = kernel.operand(assign.target.buffer)
    if operand.accumulate not in (None, operand.dtype) and statement.sequence:
        return False  # rounded when the loops around end
    free = {a.name: a.extent for a in statement.axes if a.name not in summed}
    facts = Facts(lows=dict.fromkeys((s for e in free.values() for s in e.symbols), 1))
    exist = all(is_nonnegative(extent - 1, facts) for extent in free.values())
    return exist and tells_apart(assign.target.index, free)


def _least(free: dict[str, Index], subscripts: tuple[Index, ...]) -> str:
    """Return the axis without which subscripts stay distinct. Of several, the shortest and innermost one."""

    def key(name: str) -> tuple[bool, float]:
        rest = {a: e for a, e in free.items() if a != name}
        length = free[name].value
        return not tells_apart(subscripts, rest), length if length is not None else float("inf")

    return min(reversed(free), key=key)


def _guarded_value(statement: Statement) -> ir.Expr:
    """Return the value with the guard inside, so that excluded iterations change nothing."""
    assign = statement.assign
    if assign.guard is None:
        return assign.value
    if assign.op is None:
        return ir.Call("select", (assign.guard, assign.value, assign.target), assign.value.dtype)
    nothing = identity_of(assign.op, assign.value.dtype)
    return ir.Call("select", (assign.guard, assign.value, nothing), assign.value.dtype)


# What is padded to which sizes, with what, and where it begins.
_Padding = tuple[ir.Read, ir.Expr, tuple[tuple[str, Index], ...]]


@dataclass
class _Builder:
    """A collector of padded arrays: one per array, subscript and fill."""

    taken: set[str]
    temps: list[ir.Operand] = field(default_factory=list[ir.Operand])
    pending: list[ir.Stmt] = field(default_factory=list[ir.Stmt])
    known: dict[_Padding, tuple[str, tuple[Index, ...]]] = field(
        default_factory=dict["_Padding", tuple[str, tuple[Index, ...]]]
    )

    def take_pending(self) -> list[ir.Stmt]:
        found, self.pending = self.pending, []
        return found

    def forget(self, buffer: str) -> None:
        """Forget the padded copies of an array, which are outdated once it is written."""
        self.known = {key: name for key, name in self.known.items() if key[0].buffer != buffer}

    def plain(self, expr: ir.Expr, kernel: ir.Kernel, extents: dict[str, Index]) -> ir.Expr:
        """Return the expression with reads of padded arrays in place of reads with a fill."""
        match expr:
            case ir.Read(fill=fill) if fill is not None:
                return self._pad_read(expr, fill, kernel, extents)
            case ir.Call(
                "select", (condition, ir.Read(fill=ir.Const()) as read, (ir.Const() | ir.Scalar()) as value)
            ) if _is_inside(condition, read, kernel, extents):
                return self._pad_read(read, value, kernel, extents)
            case _:
                return with_parts(expr, lambda part: self.plain(part, kernel, extents))

    def _pad_read(
        self, read: ir.Read, fill: ir.Expr, kernel: ir.Kernel, extents: dict[str, Index]
    ) -> ir.Read:
        shape = kernel.operand(read.buffer).shape
        ranges = [_range(i, extents, read) for i in read.index]
        if all(_inside(low, high, size) for (low, high), size in zip(ranges, shape, strict=True)):
            return replace(read, fill=None)
        lows = tuple(low for low, _ in ranges)
        sizes = tuple(high - low + 1 for low, high in ranges)
        name = self._pad(read, fill, shape, ranges, sizes)
        return ir.Read(name, tuple(i - low for i, low in zip(read.index, lows, strict=True)), read.dtype)

    def _pad(
        self,
        read: ir.Read,
        fill: ir.Expr,
        shape: tuple[Index, ...],
        ranges: list[tuple[Index, Index]],
        sizes: tuple[Index, ...],
    ) -> str:
        """Return the padded array, which is filled whole before the existing part is copied in."""
        key = (replace(read, index=sizes), fill, tuple(("low", low) for low, _ in ranges))
        if key in self.known:
            return self.known[key][0]
        name = self._fresh(f"{read.buffer}_padded")
        self.known[key] = (name, sizes)
        self.temps.append(ir.Operand(name, "temp", read.dtype, sizes))
        axes = tuple(ir.Axis(f"i{d}", s) for d, s in enumerate(sizes))
        here = tuple(Index.of(a.name) for a in axes)
        self.pending.append(ir.Loop(axes, (ir.Assign(ir.Read(name, here, read.dtype), None, fill),)))
        self.pending += _common_part(read, shape, name, ranges)
        return name

    def with_margins(
        self, target: ir.Read, kernel: ir.Kernel, extents: dict[str, Index]
    ) -> tuple[ir.Read, list[ir.Stmt]]:
        """Return the target in an array with room for all of its subscripts, and the statements that copy it back.

        Old values are copied in. The margins hold values that are never read.
        """
        operand = kernel.operand(target.buffer)
        ranges = [_range(i, extents, target) for i in target.index]
        sizes = tuple(high - low + 1 for low, high in ranges)
        name = self._fresh(f"{target.buffer}_with_margins")
        self.temps.append(ir.Operand(name, "temp", operand.dtype, sizes, accumulate=operand.accumulate))
        self.pending += _common_part(target, operand.shape, name, ranges)
        inside = tuple(i - low for i, (low, _) in zip(target.index, ranges, strict=True))
        back = _common_part(target, operand.shape, name, ranges, back=True)
        return replace(target, buffer=name, index=inside), back

    def summed_everywhere(
        self, statement: Statement, kernel: ir.Kernel, extents: dict[str, Index]
    ) -> tuple[Statement, list[ir.Stmt]]:
        """Return the sum without its guard, in a separate array, and the guarded statements that store it.

        It starts from the old values, so that its terms are added in the same order.
        """
        assign, guard = statement.assign, statement.assign.guard
        assert guard is not None
        operand = kernel.operand(assign.target.buffer)
        free = tuple(a for a in statement.axes if a not in statement.reduction_axes)
        name = self._fresh(f"{operand.name}_everywhere")
        shape = tuple(a.extent for a in free)
        self.temps.append(ir.Operand(name, "temp", operand.dtype, shape, accumulate=operand.accumulate))
        cell = ir.Read(name, tuple(Index.of(a.name) for a in free), operand.dtype)
        old = replace(assign.target, span=None)
        kept = ir.Call("select", (self.plain(guard, kernel, extents), cell, old), operand.dtype)
        self.pending.append(_in_loops(free, ir.Assign(cell, None, old)))
        back = _in_loops(free, ir.Assign(assign.target, None, kept))
        return replace(statement, assign=replace(assign, target=cell, guard=None)), [back]

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _is_inside(condition: ir.Expr, read: ir.Read, kernel: ir.Kernel, extents: dict[str, Index]) -> bool:
    """Return whether a condition states that a read is inside its array, and nothing else."""
    said = _parts(condition)
    shape = kernel.operand(read.buffer).shape
    conditions = inside_conditions(read, shape)
    return said <= {part for both in conditions for part in both} and all(
        said.issuperset(both) or _inside(*_range(index, extents, read), size)
        for index, size, both in zip(read.index, shape, conditions, strict=True)
    )


def _parts(condition: ir.Expr) -> frozenset[ir.Expr]:
    match condition:
        case ir.Call("and", (left, right)):
            return _parts(left) | _parts(right)
        case _:
            return frozenset((condition,))


def _common_part(
    read: ir.Read,
    shape: tuple[Index, ...],
    name: str,
    ranges: list[tuple[Index, Index]],
    *,
    back: bool = False,
) -> list[ir.Stmt]:
    """Return the copy of the elements that the padded array `name` and the array of an access share."""
    starts = tuple(index_max(0, low) for low, _ in ranges)
    ends = tuple(index_min(s - 1, high) for s, (_, high) in zip(shape, ranges, strict=True))
    counts = tuple(_at_least_zero(e - s + 1) for e, s in zip(ends, starts, strict=True))
    if any(c.value is not None and c.value <= 0 for c in counts):
        return []
    axes = tuple(ir.Axis(f"i{d}", c) for d, c in enumerate(counts))
    here = tuple(Index.of(a.name) for a in axes)
    shifted = tuple(i + s - low for i, s, (low, _) in zip(here, starts, ranges, strict=True))
    mine = ir.Read(name, shifted, read.dtype)
    theirs = ir.Read(read.buffer, tuple(i + s for i, s in zip(here, starts, strict=True)), read.dtype)
    return [ir.Loop(axes, (ir.Assign(theirs, None, mine) if back else ir.Assign(mine, None, theirs),))]


def _at_least_zero(count: Index) -> Index:
    """Return the count, or 0 if the sizes make it negative."""
    facts = Facts(lows=dict.fromkeys(count.symbols, 1))
    return count if count.value is not None or is_nonnegative(count, facts) else index_max(0, count)


def _inside(low: Index, high: Index, size: Index) -> bool:
    gap = (size - 1 - high).value
    return low.value is not None and low.value >= 0 and gap is not None and gap >= 0


def _range(index: Index, extents: dict[str, Index], read: ir.Read) -> tuple[Index, Index]:
    """Return the smallest and the largest value of a subscript over the loops."""
    low = high = ZERO
    for monomial, coefficient in index.terms:
        axes = [a for a in monomial if isinstance(a, str) and a in extents]
        if any(
            not isinstance(a, str) and a_symbols & extents.keys()
            for a in monomial
            if (a_symbols := Index.of(a).symbols)
        ):
            numbers = {a: e.value for a, e in extents.items() if e.value is not None}
            bounds = _quotient_range(index, numbers)
            if bounds is None:
                raise NoMapping.of(
                    "fill-range",
                    f"the range of `{index}` cannot be computed, so `{read.buffer}` cannot be padded for it",
                    read.span,
                    help="give its sizes as numbers",
                )
            return Index.of(bounds[0]), Index.of(bounds[1])
        rest = Index(((tuple(a for a in monomial if a not in axes), coefficient),))
        if not axes:
            low, high = low + rest, high + rest
            continue
        top = rest
        for a in axes:
            top = top * (extents[str(a)] - 1)
        low, high = (low, high + top) if coefficient > 0 else (low + top, high)
    return low, high


def _quotient_range(index: Index, extents: dict[str, int]) -> tuple[int, int] | None:
    """Return bounds from the corners of all axes, or None for too many corners or open sizes."""
    import numpy as np

    names = sorted(index.symbols)
    if any(n not in extents for n in names) or np.prod([extents[n] for n in names]) > 10_000_000:
        return None
    grids = np.ix_(*[np.arange(extents[n]) for n in names])
    values = np.asarray(index.evaluate(dict(zip(names, grids, strict=True))))
    return int(values.min()), int(values.max())


# Guards by remainders of axes: the statement once for each remainder that they let through, without them.
#
#     for i in P, r in R { y[i] += x[(i - r) / 2] * w[r] if (i - r) % 2 == 0; }
#
#         becomes     for i in (P + 1) / 2, r in (R + 1) / 2 { y[2*i] += x[i - r] * w[2*r]; }
#                     for i in P / 2, r in R / 2 { y[2*i + 1] += x[i - r] * w[2*r + 1]; }
#
# Every iteration that the guard lets through is in one of them: each axis is cut as c*axis + remainder.
# What is left are strides, which instructions have; a guard inside a sum stands in the way of all that
# compute the sum.


# Statements in place of one, and remainders that are looked at for them.
MOST_PARTS = 16
MOST_TRIED = 4096

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def by_remainders(statement: Statement, kernel: ir.Kernel) -> tuple[Statement, ...]:
    """Return statements that replace one whose guard tests remainders of axes, else the statement itself.

    They may run in any order: iterations over unordered axes are independent of each other, and if several
    add to one element, the order of its sum is free.
    """
    conditions = conjuncts(statement.assign.guard)
    steps: dict[str, int] = {}
    split: list[ir.Expr] = []
    for condition in conditions:
        periods = _periods(condition, statement)
        if periods:
            split.append(condition)
            steps |= {name: lcm(steps.get(name, 1), step) for name, step in periods.items()}
    if not steps or prod(steps.values()) > MOST_TRIED:
        return (statement,)
    chosen = [dict(zip(steps, at, strict=True)) for at in product(*(range(s) for s in steps.values()))]
    chosen = [at for at in chosen if all(_holds(c, _move_axes(steps, at)) for c in split)]
    if len(chosen) > MOST_PARTS or not _in_any_order(statement, kernel, chosen):
        return (statement,)
    extents = [_extents(statement, steps, at) for at in chosen]
    of = Conflicts.of(kernel)
    if any(e.value is None and not of.positive(e) for made in extents for e in made.values()):
        return (statement,)
    rest = tuple(c for c in conditions if c not in split)
    parts = tuple(
        _part(statement, made, _move_axes(steps, at), rest)
        for at, made in zip(chosen, extents, strict=True)
        if all(e.value != 0 for e in made.values())
    )
    return parts or (statement,)  # a kernel that performs nothing has a statement, too


def _periods(condition: ir.Expr, statement: Statement) -> dict[str, int]:
    """Return the period of a condition along each axis, or {} if it depends on anything else."""
    match condition:
        case ir.Call(op, (left, right)) if op in _COMPARISONS:
            remainders = [m for side in (left, right) for m in _remainders(side)]
        case _:
            return {}
    axes = [a.name for a in statement.axes]  # in their order, which that of the parts follows
    periods: dict[str, int] = {}
    for remainder in remainders:
        divisor = remainder.divisor.value
        if divisor is None:
            return {}
        for name in (n for n in axes if n in remainder.value.symbols):
            coefficient = remainder.value.coefficient(name)
            if coefficient is None or coefficient.value is None:
                return {}
            periods[name] = lcm(periods.get(name, 1), divisor // gcd(divisor, coefficient.value))
    start = _move_axes(periods, dict.fromkeys(periods, 0))
    return periods if _decide(substitute_expr(condition, start)) is not None else {}


def _remainders(side: ir.Expr) -> Iterator[Mod]:
    if isinstance(side, ir.IndexValue):
        yield from (atom for monomial, _ in side.index.terms for atom in monomial if isinstance(atom, Mod))


def _move_axes(steps: Mapping[str, int], at: Mapping[str, int]) -> dict[str, Index | int]:
    """Return each axis as an expression in the part of a remainder."""
    return {name: step * Index.of(name) + at[name] for name, step in steps.items()}


def _holds(condition: ir.Expr, moved: Mapping[str, Index | int]) -> bool:
    decided = _decide(substitute_expr(condition, moved))
    assert decided is not None, "a condition that is decided for one remainder is so for all"
    return decided


def _decide(condition: ir.Expr) -> bool | None:
    """Return whether a comparison of numbers holds, or None for other conditions."""
    match condition:
        case ir.Call(op, (ir.Const(int(left)), ir.Const(int(right)))) if op in _COMPARISONS:
            return _COMPARISONS[op](left, right)
        case _:
            return None


def _in_any_order(statement: Statement, kernel: ir.Kernel, chosen: list[dict[str, int]]) -> bool:
    """Return whether the parts may add to their elements in any order without rounding twice."""
    if statement.assign.op is None:
        return True
    operand, summed = (
        kernel.operand(statement.assign.target.buffer),
        {a.name for a in statement.reduction_axes},
    )
    elements = [tuple((n, u) for n, u in at.items() if n not in summed) for at in chosen]
    alone = len(set(elements)) == len(elements)
    return alone or (sums_in_any_order(kernel, operand, statement.assign.op) and not is_wide(operand))


def _extents(statement: Statement, steps: Mapping[str, int], at: Mapping[str, int]) -> dict[str, Index]:
    """Return the number of iterations of each split axis in the part of a remainder."""
    extents = {n: statement.axis(n).extent - at[n] for n in steps}
    found = {n: e.ceildiv(steps[n]) for n, e in extents.items()}
    return {n: Index.of(0) if (e.value or 0) < 0 else e for n, e in found.items()}


def _part(
    statement: Statement,
    extents: Mapping[str, Index],
    moved: Mapping[str, Index | int],
    rest: tuple[ir.Expr, ...],
) -> Statement:
    assign = substitute_stmt(replace(statement.assign, guard=reduce(both_hold, rest, None)), moved)
    assert isinstance(assign, ir.Assign)
    axes = tuple(replace(a, extent=extents.get(a.name, a.extent)) for a in statement.axes)
    return replace(statement, axes=axes, assign=assign)
