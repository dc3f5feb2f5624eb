"""Convert conditions on axes to loop bounds, so that excluded iterations are not executed.

    seq k in N { for i in N if i > k { x[i] += a[i]; } }   becomes
    seq k in N { for i in N - k - 1 { x[i + k + 1] += a[i + k + 1]; } }

In blocks of several statements conditions bound more than their own loop:

    seq b in 8 {                                               seq b in 8 {
      for m in 64, n in N { S[m, n] = … }                        for m in 64, n in 64*b + 64 { S[m, n] = … }
      for … { S[m, n] = select(n <= 64*b + m, S[m, n], -inf); }  for … n in 64*b + 64 { … }
      for … { top[m] max= S[m, n]; }                       →     for … n in 64*b + 64 { top[m] max= S[m, n]; }
    }                                                          }

A maximum takes nothing from -inf, hence no term behind the last `n` that passes for some m of the block. A temporary
is filled if it is read. So the masked half of causal attention is neither computed nor read. A kernel that is
`strict` keeps every term: that 0 times a value is 0, and -inf plus a value -inf, holds of finite values only, and
that 0 divided by a value is 0 only of values other than 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from isamap.ir.facts import facts_of
from isamap.ir.index import ZERO, Index, index_max, index_min
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, Kernel, Read
from isamap.ir.ops import OPS
from isamap.ir.prove import Facts, is_nonnegative
from isamap.ir.substitute import substitute_stmt
from isamap.ir.walk import conjuncts, reads, walk
from isamap.source.records import dataclass, replace
from isamap.transform.rewrite import is_accepted, with_statements
from isamap.transform.statements import Statement, both_hold, identity_of, statements


def bound_loops(statement: Statement) -> Statement:
    """Return the statement with conditions on axes, relative to its ordered axes, as bounds of those axes.

    seq k in N { for i in N if i > k { x[i] += a[i]; } }   becomes
    seq k in N { for i in N - k - 1 { x[i + k + 1] += a[i + k + 1]; } }
    """
    bounds: list[Bound] = []
    left: list[Expr] = []
    for condition in conjuncts(statement.assign.guard):
        found = [(*_bounds_of(fact, statement),) for fact in facts_of((condition,))]
        if not found or not all(found):
            left.append(condition)
        bounds += [b for some in found for b in some]
    if not bounds:
        return statement
    assign = replace(statement.assign, guard=reduce(both_hold, left, None))
    return _with_bounds(replace(statement, assign=assign), bounds)


def _with_bounds(statement: Statement, bounds: Sequence[Bound]) -> Statement:
    """Return the statement with axes that start and end at these bounds."""
    spans = _spans(statement, bounds)
    axes = tuple(replace(a, extent=spans[a.name].count) for a in statement.axes)
    starts = {name: span.start for name, span in spans.items() if span.start.value != 0}
    moved: dict[str, Index | int] = {name: Index.of(name) + start for name, start in starts.items()}
    assign = substitute_stmt(statement.assign, moved)
    assert isinstance(assign, Assign)
    return replace(statement, axes=axes, assign=assign)


def _spans(statement: Statement, bounds: Sequence[Bound]) -> dict[str, AxisRange]:
    """Return the range that each axis covers between its bounds."""
    around = {a.name: a.extent for a in statement.sequence}
    facts = Facts(lows=dict.fromkeys((s for e in around.values() for s in e.symbols), 1)).with_axes(around)
    spans: dict[str, AxisRange] = {}
    for axis in statement.axes:
        own = [b for b in bounds if b.axis == axis.name]
        start = _extreme([b.at for b in own if b.is_start], ZERO, facts, smallest=False)
        end = _extreme([b.at for b in own if not b.is_start], axis.extent, facts, smallest=True)
        count = end - start
        spans[axis.name] = AxisRange(start, count if is_nonnegative(count, facts) else index_max(0, count))
    return spans


@dataclass(frozen=True, slots=True)
class Bound:
    """The first value of an axis, or the value after its last one."""

    axis: str
    is_start: bool
    at: Index


@dataclass(frozen=True, slots=True)
class AxisRange:
    """The values of an axis: the first one, and their number."""

    start: Index
    count: Index


def _bounds_of(fact: Index, statement: Statement, *, of_block: bool = False) -> Iterator[Bound]:
    """Yield the bounds of axes, in terms of ordered axes and sizes, that `fact >= 0` implies.

    `of_block`: other unordered axes are at the end of their ranges that bounds least.
    """
    fixed = {a.name for a in statement.sequence}
    axes = {a.name: a.extent for a in statement.axes}
    names = [n for n in axes if n in fact.symbols] if fixed & fact.symbols else []
    for name in names if of_block or len(names) == 1 else ():
        slope = fact.coefficient(name)
        if slope is None or slope.value not in (1, -1):
            continue
        others: Index | None = fact - slope * Index.of(name)
        for other in (n for n in names if n != name):
            others = None if others is None else _largest_over(others, other, axes[other])
        if others is not None and not others.symbols & axes.keys():
            yield Bound(name, True, -others) if slope.value == 1 else Bound(name, False, others + 1)


def _largest_over(index: Index, axis: str, extent: Index) -> Index | None:
    """Return an index with an axis at the end of its range that maximises it, or None if that end is unknown."""
    slope = index.coefficient(axis)
    if slope is None or slope.value is None:
        return None
    rest = index - slope * Index.of(axis)
    return rest + slope * (extent - 1) if slope.value > 0 else rest


def _extreme(bounds: Sequence[Index], first: Index, facts: Facts, *, smallest: bool) -> Index:
    """Return the smallest or the largest of some bounds and `first`, without redundant bounds."""
    found = first
    for bound in bounds:
        less, more = (bound, found) if smallest else (found, bound)
        if is_nonnegative(more - less, facts):
            found = bound
        elif not is_nonnegative(less - more, facts):
            found = index_min(found, bound) if smallest else index_max(found, bound)
    return found


# --- conditions that other statements bring ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outside:
    """The constant value of elements for which one of some terms is negative.

    The terms are over axes `%0`, `%1` of an array, or over the axes of a statement.
    """

    terms: tuple[Index, ...]
    value: float


def bound_loops_in_blocks(kernel: Kernel) -> Kernel:
    """Return a canonical kernel whose loops inside ordered loops are bounded by their block's conditions."""
    given = statements(kernel)
    if kernel.strict or not any(s.sequence for s in given):
        return kernel
    bounds = _bounds_of_sums(kernel, given)
    found = _bound_statements(kernel, given, bounds)
    if found == list(given):
        return kernel
    after = with_statements(kernel, found)
    return after if is_accepted(kernel, after) else kernel


def _bounds_of_sums(kernel: Kernel, given: Sequence[Statement]) -> list[list[Bound]]:
    """Return, for each statement, the bounds beyond which it changes nothing."""
    arrays: dict[str, Outside] = {}
    found: list[list[Bound]] = []
    for s in given:
        assign, outside = s.assign, _outside(s, arrays)
        op, target = assign.op, assign.target
        found.append([])
        if outside is not None and op is not None and outside.value == identity_of(op, target.dtype).value:
            found[-1] += [b for term in outside.terms for b in _bounds_of(term, s, of_block=True)]
        arrays.pop(target.buffer, None)
        names = _whole(s, kernel)
        if op is None and outside is not None and names is not None:
            terms = tuple(t.substitute(names) for t in outside.terms)
            if not any({a.name for a in s.axes} & t.symbols for t in terms):
                arrays[target.buffer] = Outside(terms, outside.value)
    return found


def _whole(s: Statement, kernel: Kernel) -> dict[str, Index | int] | None:
    """Return the array's axes `%d` in terms of the axes of a statement that covers the array, or None."""
    names: dict[str, Index | int] = {}
    extents = {a.name: a.extent for a in s.axes}
    shape = kernel.operand(s.assign.target.buffer).shape
    for d, (index, size) in enumerate(zip(s.assign.target.index, shape, strict=True)):
        if index.value == 0 and size.value == 1:
            continue
        axis = str(index)
        if axis not in extents or axis in names or extents[axis] != size:
            return None
        names[axis] = Index.of(f"%{d}")
    return names


def _outside(s: Statement, arrays: Mapping[str, Outside]) -> Outside | None:
    """Return where the value of a statement is constant, with the constant, or None."""
    value = s.assign.value
    if not value.dtype.is_float:
        return None
    for terms in _terms_in(value, arrays):
        number = _number(value, terms, arrays)
        if number is not None:
            return Outside(terms, number)
    return None


def _terms_in(e: Expr, arrays: Mapping[str, Outside]) -> Iterator[tuple[Index, ...]]:
    """Yield the conditions in an expression, each as terms that are >= 0 if it holds."""
    for part in walk(e):
        match part:
            case Call("select", (condition, _, _)) if terms := _exact_terms(condition):
                yield terms
            case Read(buffer) if buffer in arrays:
                yield _over(part, arrays[buffer])
            case _:
                pass


def _exact_terms(condition: Expr) -> tuple[Index, ...]:
    """Return terms that are >= 0 exactly where a condition holds, or () if it compares no indices."""
    found = [facts_of((c,)) for c in conjuncts(condition)]
    return tuple(t for terms in found for t in terms) if all(found) else ()


def _over(read: Read, outside: Outside) -> tuple[Index, ...]:
    names: dict[str, Index | int] = {f"%{d}": index for d, index in enumerate(read.index)}
    return tuple(t.substitute(names) for t in outside.terms)


def _number(e: Expr, terms: tuple[Index, ...], arrays: Mapping[str, Outside]) -> float | None:
    """Return the constant value of an expression where one of the terms is negative, or None."""
    match e:
        case Const(value):
            return float(value)
        case Read(buffer) if buffer in arrays and _over(e, arrays[buffer]) == terms:
            return arrays[buffer].value
        case Cast(value) if e.dtype.is_float and value.dtype.is_float:
            return _number(value, terms, arrays)
        case Call("select", (condition, _, other)) if _exact_terms(condition) == terms:
            return _number(other, terms, arrays)
        case Call(op, args, dtype) if dtype.is_float and all(a.dtype.is_float for a in args):
            # The result of an operation on numbers, where None stands for an unknown finite value.
            given = [_number(a, terms, arrays) for a in args]
            known = [g for g in given if g is not None]
            if len(known) == len(given):
                with np.errstate(all="ignore"):
                    found = float(OPS[op].compute(*(np.float64(g) for g in known)))
                return None if np.isnan(found) else found
            match op, given:
                case "mul", _ if 0 in known:
                    return 0.0
                case "div", [0, None]:
                    return 0.0
                case ("add", _) | ("sub", [_, None]) if known and np.isinf(known[0]):
                    return known[0]
                case _:
                    return None
        case _:
            return None


def _bound_statements(
    kernel: Kernel, given: Sequence[Statement], bounds: Sequence[Sequence[Bound]]
) -> list[Statement]:
    """Return the statements within their bounds. Statements that fill temporaries cover what is read."""
    filled = _filled_in_place(kernel, given)
    needed: dict[tuple[str, int], AxisRange | None] = {}
    found: list[Statement] = []
    for s, own in zip(reversed(given), reversed(bounds), strict=True):
        target = s.assign.target
        asked = [*own]
        for d, index in enumerate(target.index if target.buffer in filled else ()):
            span = needed.get((target.buffer, d))
            if span is not None and any(str(index) == a.name for a in s.axes):
                asked += [
                    Bound(str(index), True, span.start),
                    Bound(str(index), False, span.start + span.count),
                ]
        spans = _spans(s, asked)
        for read in (*reads(s.assign.value), *((target,) if s.assign.op is not None else ())):
            for d, index in enumerate(read.index if read.buffer in filled else ()):
                key, span = (read.buffer, d), spans.get(str(index))
                needed[key] = span if needed.get(key, span) == span else None
        found.append(_with_bounds(s, asked) if asked else s)
    return found[::-1]


def _filled_in_place(kernel: Kernel, given: Sequence[Statement]) -> set[str]:
    """Return the temporaries that each iteration of the surrounding loops fills before reading them."""
    found: set[str] = set()
    for operand in kernel.operands:
        using = [
            s for s in given if operand.name in {r.buffer for r in (s.assign.target, *reads(s.assign.value))}
        ]
        if operand.role != "temp" or not using or not using[0].sequence:
            continue
        first = using[0].assign
        begins = first.op is None and operand.name not in {r.buffer for r in reads(first.value)}
        if begins and _whole(using[0], kernel) is not None and len({s.ordered_loops for s in using}) == 1:
            found.add(operand.name)
    return found
