"""Prove that casts of indices to integers keep their values, for all sizes that the routine allows.

`u8(2*j)` keeps it for `j in 100`, and for `j in J` only if a range, `where` or a guard ensures it. Casts to
32 bits and more are checked when sizes are bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir.dtypes import I64, DType, converts_exactly
from isamap.ir.facts import FreeSizes, facts_of, find_sites, loop_guards
from isamap.ir.index import Index
from isamap.ir.nodes import Assign, Call, Cast, Const, Expr, IndexValue, Read, Routine, Scalar
from isamap.ir.prove import Facts, is_nonnegative, smallest_value
from isamap.ir.walk import reads, walk
from isamap.source import Diagnostic, Edit, Span, replace

CHECKED_WHEN_BOUND = 32
"""Bits from which on types hold the indices of all but enormous arrays."""


def check_casts(routine: Routine, known: FreeSizes, *, bound: bool) -> Iterator[Diagnostic]:
    """Yield a finding for each cast of an index that may change its value. Wide types are checked once bound."""
    seen: set[Cast] = set()
    for expr, extents, conditions in _expressions(routine):
        for cast, index in _index_casts(expr):
            if cast in seen or (cast.dtype.bits >= CHECKED_WHEN_BOUND and not bound):
                continue
            seen.add(cast)
            given = {name: extent.substitute(known.bindings) for name, extent in extents.items()}
            stated = tuple(f.substitute(known.bindings) for f in facts_of(conditions))
            facts = known.facts.with_axes(given).with_facts(stated)
            inside = index.substitute(known.bindings)
            limits = (inside - int(cast.dtype.low), int(cast.dtype.high) - inside)
            if not all(is_nonnegative(limit, facts) for limit in limits):
                yield _describe_cast(cast, index, inside, facts)


def _expressions(routine: Routine) -> Iterator[tuple[Expr, dict[str, Index], tuple[Expr, ...]]]:
    for guard, axes, conditions in loop_guards(routine):
        yield guard, {a.name: a.extent for a in axes}, conditions
    for site in find_sites(routine):
        yield site.assign.value, site.extents, site.conditions
        if site.assign.guard is not None:
            yield site.assign.guard, site.extents, site.conditions[:-1]


def _index_casts(e: Expr) -> Iterator[tuple[Cast, Index]]:
    for part in walk(e):
        match part:
            case Cast(IndexValue(index, _, _), dtype, "exact", _) if dtype.is_integer:
                yield part, index
            case Cast(Const(int() as number, of, _), dtype, "exact", _) if dtype.is_integer and of == I64:
                yield part, Index.of(number)  # an index whose sizes are bound
            case _:
                pass


def _describe_cast(cast: Cast, index: Index, inside: Index, facts: Facts) -> Diagnostic:
    dtype = cast.dtype
    least, most = smallest_value(inside, facts), smallest_value(-inside, facts)
    ends = None if least is None or most is None else f"{least} to {-most}"
    why = f"it is {ends}; " if ends else ""
    return Diagnostic(
        "cast-may-overflow",
        f"`{dtype}(…)` of the index `{index}` cannot be proved not to overflow",
        cast.span,
        notes=(f"{why}{dtype} holds {dtype.low} to {dtype.high}",),
        help=f"write `sat_{dtype}(…)` to saturate or `wrap_{dtype}(…)` to keep the low bits, "
        "or give the sizes in it a range",
        edits=()
        if cast.span is None
        else (Edit(Span(cast.span.source, cast.span.start, cast.span.start), "sat_"),),
    )


def as_performed(assign: Assign) -> Assign:
    """Return the assignment with wrapping casts for narrowing ones, and one `select` per condition.

    The cast was proved to keep the value, and no machine has an instruction that would ask. Vector units
    compare and choose at once: `select(p | q, a, b)` is `select(p, a, select(q, a, b))`.
    """
    guard = None if assign.guard is None else _as_performed(assign.guard)
    return replace(assign, value=_as_performed(assign.value), guard=guard)


def _as_performed(e: Expr) -> Expr:
    match e:
        case Cast(value, dtype, mode, _):
            narrows = mode == "exact" and _is_narrowing(value.dtype, dtype)
            return replace(e, value=_as_performed(value), mode="wrap" if narrows else mode)
        case Call("select", (Call("or" | "and" as op, (p, q)), a, b)) if _is_of_data(p) and _is_of_data(q):
            inner = replace(e, args=(q, a, b))
            return _as_performed(replace(e, args=(p, a, inner) if op == "or" else (p, inner, b)))
        case Call(_, args, _, _, _):
            return replace(e, args=tuple(_as_performed(a) for a in args))
        case Const() | IndexValue() | Scalar() | Read():
            return e


def _is_of_data(condition: Expr) -> bool:
    """Return whether a condition reads array elements. Other conditions are decided for whole tiles."""
    return next(iter(reads(condition)), None) is not None


def _is_narrowing(source: DType, target: DType) -> bool:
    return source.is_integer and target.is_integer and not converts_exactly(source, target)
