"""Subscripts stay inside their operands, for all sizes that the routine allows.

Reads with `else` may leave their operand; everything else must be proved inside, or is refused with a
counterexample where one is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isamap.ir.atoms import FloorDiv
from isamap.ir.dtypes import BOOL
from isamap.ir.facts import AxisAt, Known, facts_of, find_sites, known_facts, loop_guards, unequal_gaps
from isamap.ir.index import Index, elements_of
from isamap.ir.nodes import Constraint, Expr, Param, Read, Routine
from isamap.ir.prove import Facts, is_impossible, is_nonnegative, smallest_value
from isamap.ir.samples import evaluate_on, grid, may_hold_on, sample_sizes
from isamap.ir.walk import reads, symbols_of_values
from isamap.source import Diagnostic, Edit, Span

_POINTS = 20_000


def check_ranges(routine: Routine, known: Known, constants: tuple[Param, ...]) -> Iterator[Diagnostic]:
    """A finding for every subscript that is not proved to stay inside."""
    seen: set[tuple[object, ...]] = set()
    for access, axes, conditions in _accesses(routine):
        shape = routine.operand(access.buffer).shape
        key = (access.buffer, access.index, conditions, axes, access.span)
        if access.fill is not None or key in seen:
            continue
        seen.add(key)
        facts = _facts(known, axes, conditions)
        for position, (index, extent) in enumerate(zip(access.index, shape, strict=True)):
            for term, below in ((index, True), (extent - 1 - index, False)):
                bound = term.substitute(known.bindings)
                # isl knows more of quotients with remainders: (i + 2) % 4 + 4*(i / 4) <= i + 3.
                if not is_nonnegative(bound, facts) and not is_impossible((-bound - 1,), facts):
                    yield _finding(
                        routine, access, position, term, below, axes, conditions, facts, known, constants
                    )
                    break


def _accesses(routine: Routine) -> Iterator[tuple[Read, tuple[AxisAt, ...], tuple[Expr, ...]]]:
    for access, axes, conditions in _plain_accesses(routine):
        yield access, axes, conditions
        for index in access.index:
            yield from _in_index(index, access, axes, conditions)
        for n, axis in enumerate(axes):
            yield from _in_index(axis.extent, access, axes[:n], ())


def _in_index(
    index: Index, access: Read, axes: tuple[AxisAt, ...], conditions: tuple[Expr, ...]
) -> Iterator[tuple[Read, tuple[AxisAt, ...], tuple[Expr, ...]]]:
    """The elements of arrays that an index reads: accesses where it stands."""
    for element in elements_of(index):
        yield replace(access, buffer=element.buffer, index=(element.at,), fill=None), axes, conditions


def _plain_accesses(routine: Routine) -> Iterator[tuple[Read, tuple[AxisAt, ...], tuple[Expr, ...]]]:
    for guard, axes, conditions in loop_guards(routine):
        yield from ((read, axes, conditions) for read in reads(guard))
    for site in find_sites(routine):
        yield site.assign.target, site.axes, site.conditions
        yield from ((read, site.axes, site.conditions) for read in reads(site.assign.value))
        if site.assign.guard is not None:
            yield from ((read, site.axes, site.conditions[:-1]) for read in reads(site.assign.guard))


def _facts(known: Known, axes: tuple[AxisAt, ...], conditions: tuple[Expr, ...]) -> Facts:
    extents = {a.name: a.extent.substitute(known.bindings) for a in axes}
    stated = tuple(f.substitute(known.bindings) for f in facts_of(conditions))
    facts = known.facts.with_axes(extents).with_facts(stated)
    gaps = (gap.substitute(known.bindings) for c in conditions for gap in unequal_gaps(c))
    return facts.with_facts(tuple(gap - 1 for gap in gaps if is_nonnegative(gap, facts)))


def _finding(
    routine: Routine,
    access: Read,
    position: int,
    term: Index,
    below: bool,
    axes: tuple[AxisAt, ...],
    conditions: tuple[Expr, ...],
    facts: Facts,
    known: Known,
    constants: tuple[Param, ...],
) -> Diagnostic:
    index, extent = access.index[position], routine.operand(access.buffer).shape[position]
    rule = "at least 0" if below else f"below {extent}"
    example = _counterexample(routine, index, term, axes, conditions, constants)
    worst = smallest_value(term.substitute(known.bindings), facts)
    ways = ["guard the statement with `if`"]
    edits: tuple[Edit, ...] = ()
    is_read = not any(access is site.assign.target for site in find_sites(routine))
    whole = next(_whole_blocks(routine, extent, term, axes, conditions, constants), None)
    if whole is not None:  # the other ways would drop the elements of the last block
        ways = [f"state `where {whole.left} == 0`"]
    elif is_read and access.dtype != BOOL:
        ways.insert(0, "read it with `else 0`")
        if access.span is not None:
            edits = (Edit(Span(access.span.source, access.span.end, access.span.end), " else 0"),)
    if (
        whole is None
        and worst is not None
        and worst.value is None
        and not any("'" in s for s in worst.symbols)
    ):
        ways.append(f"state `where {_as_constraint(worst)}`")
    code = "index-out-of-range" if example else "index-unproved"
    verb = "can leave" if example else "cannot be proved to stay inside"
    return Diagnostic(
        code,
        f"subscript {position} of `{access.buffer}` {verb} its range: `{index}` must be {rule}",
        access.span,
        notes=(example,) if example else (),
        help=", or ".join(ways),
        edits=edits,
    )


def _whole_blocks(
    routine: Routine,
    extent: Index,
    term: Index,
    axes: tuple[AxisAt, ...],
    conditions: tuple[Expr, ...],
    constants: tuple[Param, ...],
) -> Iterator[Constraint]:
    """Yield the constraints `SIZE % block == 0` of a size in an extent with which the subscript is proved."""
    blocks = dict.fromkeys(
        (size, atom.divisor)
        for monomial, _ in extent.terms
        for atom in monomial
        if isinstance(atom, FloorDiv)
        for size in sorted(atom.value.symbols)
    )
    for size, block in blocks:
        constraint = Constraint(Index.of(size).mod(block), "==", Index.of(0))
        known = known_facts(replace(routine, where=(*routine.where, constraint)), constants)
        if is_nonnegative(term.substitute(known.bindings), _facts(known, axes, conditions)):
            yield constraint


def _as_constraint(worst: Index) -> str:
    """`worst >= 0` with the negative terms on the other side."""
    left = Index(tuple((m, c) for m, c in worst.terms if c > 0)) + 0
    right = Index(tuple((m, -c) for m, c in worst.terms if c < 0)) + 0
    return f"{right} <= {left}"


def _counterexample(
    routine: Routine,
    index: Index,
    term: Index,
    axes: tuple[AxisAt, ...],
    conditions: tuple[Expr, ...],
    constants: tuple[Param, ...],
) -> str | None:
    """Sizes and axes for which the term is negative, in words."""
    used = term.symbols | {s for c in conditions for s in symbols_of_values(c)}
    extents = {a.name: a.extent for a in axes if a.name in used}
    for env in sample_sizes(routine, constants, 40):
        points = grid(extents, env, _POINTS)
        if points is None:
            continue
        count = len(next(iter(points.values()))) if points else 1
        bad = evaluate_on(term, env, points, count) < 0
        for condition in conditions:
            bad = bad & may_hold_on(condition, env, points, count)
        if not bad.any():
            continue
        at = int(bad.argmax())
        shown = {name: int(values[at]) for name, values in points.items() if name in term.symbols}
        sizes = {p.name: env[p.name] for p in (*constants, *routine.params) if p.name in env}
        value = int(evaluate_on(index, env, points, count)[at])
        words = ", ".join(f"{name} = {number}" for name, number in {**sizes, **shown}.items())
        return f"it is {value} for {words}" if words else f"it is {value}"
    return None
