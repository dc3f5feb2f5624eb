"""Add margins to arrays whose accesses are inside only because of a guard.

    Y[2*h + r - 1] += X[h] * F[r] if 2*h + r >= 1 & 2*h + r < P + 1

Without the guard, the statement would access elements outside its arrays. The read gets a fill value, and
the written array gets margins. A comparison that only keeps the write inside can then be removed.

The module also proves that different iterations touch different elements, by reading subscripts like
digits. In `Y[8*i + j]` with j < 8 equal elements mean equal i, and then equal j. In `Y[i + j]` they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from isamap.ir import BOOL, Call, Const, DType, Expr, Facts, Index, Kernel, Read, is_nonnegative
from isamap.ir.facts import FreeSizes, guard_facts, known_facts
from isamap.ir.walk import conjuncts, with_parts
from isamap.source.records import replace
from isamap.transform.statements import Statement


def fill_loose_reads(statement: Statement, kernel: Kernel) -> Statement:
    """Return the statement with a fill for every read that may leave its array outside of the guard."""
    guard = statement.assign.guard
    if guard is None:
        return statement
    known = known_facts(kernel)
    value = _fill_margins(statement.assign.value, statement, kernel, known)
    guard = _fill_margins(guard, statement, kernel, known)
    return replace(statement, assign=replace(statement.assign, value=value, guard=guard))


def writes_loosely(statement: Statement, kernel: Kernel) -> bool:
    """Return whether the target may leave its array in iterations that the guard excludes."""
    assign = statement.assign
    return assign.guard is not None and not _stays_inside(
        assign.target, statement, kernel, known_facts(kernel)
    )


def without_bounds(statement: Statement, kernel: Kernel) -> Statement:
    """Return the statement without comparisons that always hold or that only keep the target inside its array.

    A target that lies outside if they do not hold is one in the margins, which are never read.
    """
    assign = statement.assign
    if assign.guard is None:
        return statement
    holds = _prover(statement, known_facts(kernel))
    shape = kernel.operand(assign.target.buffer).shape
    inside = {t for i, s in zip(assign.target.index, shape, strict=True) for t in (i, s - 1 - i)}
    kept = [c for c in conjuncts(assign.guard) if not _says_nothing(c, lambda t: t in inside or holds(t))]
    guard: Expr | None = None
    for c in kept:
        guard = c if guard is None else Call("and", (guard, c), BOOL)
    return replace(statement, assign=replace(assign, guard=guard))


def _says_nothing(comparison: Expr, certain: Callable[[Index], bool]) -> bool:
    terms = guard_facts(comparison)  # of one comparison they say all that it says
    return bool(terms) and all(map(certain, terms))


def _fill_margins(e: Expr, statement: Statement, kernel: Kernel, known: FreeSizes) -> Expr:
    match e:
        case Read(fill=None) if not _stays_inside(e, statement, kernel, known):
            return replace(e, fill=zero_like(e.dtype))
        case _:
            return with_parts(e, lambda part: _fill_margins(part, statement, kernel, known))


def zero_like(dtype: DType) -> Const:
    """Return zero in a type, or false for bool."""
    return Const(0.0 if dtype.is_float else 0, dtype)


def _stays_inside(access: Read, statement: Statement, kernel: Kernel, known: FreeSizes) -> bool:
    """Return whether an access is proved to stay inside its array in all iterations, ignoring the guard."""
    holds = _prover(statement, known)
    shape = kernel.operand(access.buffer).shape
    return all(holds(i) and holds(size - 1 - i) for i, size in zip(access.index, shape, strict=True))


def _prover(statement: Statement, known: FreeSizes) -> Callable[[Index], bool]:
    """Return a function that proves a term nonnegative in the statement's iterations."""
    extents = {a.name: a.extent.substitute(known.bindings) for a in (*statement.sequence, *statement.axes)}
    facts = known.facts.with_axes(extents)
    return lambda term: is_nonnegative(term.substitute(known.bindings), facts)


Extents = tuple[tuple[str, Index], ...]


def tells_apart(
    subscripts: tuple[Index, ...],
    extents: Mapping[str, Index],
    facts: tuple[Index, ...] = (),
    lows: tuple[tuple[str, int], ...] = (),
) -> bool:
    """Return whether elements determine all axes in `extents` if the subscripts' other symbols are fixed.

    Sizes are at least 1, or at least `lows`. `facts` are terms that are never negative. Sound, not complete:
    False means that it is not known.
    """
    return _tells_apart(subscripts, tuple(sorted(extents.items())), facts, lows)


@lru_cache(maxsize=65536)
def _tells_apart(
    subscripts: tuple[Index, ...],
    extents: Extents,
    known: tuple[Index, ...],
    lows: tuple[tuple[str, int], ...],
) -> bool:
    unknown = {a: e for a, e in extents if e.value != 1}
    facts = Facts(lows={s: 1 for e in unknown.values() for s in e.symbols} | dict(lows))
    facts = facts.with_facts((*known, *(e - 1 for e in unknown.values() if e.value is None)))
    before = -1
    while unknown and before != len(unknown):
        before = len(unknown)
        for subscript in subscripts:
            for axis in _digits(subscript, unknown, facts):
                del unknown[axis]
    return not unknown


def _digits(subscript: Index, unknown: Mapping[str, Index], facts: Facts) -> list[str]:
    """Return the axes that the value of a subscript determines, largest step first."""
    steps: dict[str, Index] = {}
    for axis in unknown:
        if axis in subscript.symbols:
            step = subscript.coefficient(axis)
            if step is None or step.symbols & unknown.keys():
                return []
            steps[axis] = _magnitude(step, facts)
    found: list[str] = []
    while leading := next((a for a in steps if _outweighs(a, steps, unknown, facts)), None):
        del steps[leading]
        found.append(leading)
    return found


def _magnitude(step: Index, facts: Facts) -> Index:
    lows = Facts(lows=dict.fromkeys(step.symbols, 1) | facts.lows)
    return step if is_nonnegative(step, lows) else -step


def _outweighs(axis: str, steps: Mapping[str, Index], extents: Mapping[str, Index], facts: Facts) -> bool:
    """Return whether one step of an axis exceeds the combined range of all other axes."""
    gap = steps[axis] - 1
    for other, step in steps.items():
        if other != axis:
            gap = gap - step * (extents[other] - 1)
    lows = Facts(lows=dict.fromkeys(gap.symbols, 1) | facts.lows, nonnegative=facts.nonnegative)
    return is_nonnegative(gap, lows)
