"""Subscripts stay inside their operands, for all sizes that the routine allows.

Reads with `else` may leave their operand; everything else must be proved inside, or is refused with a
counterexample where one is found.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir.facts import Known, guard_facts
from isamap.ir.index import Index
from isamap.ir.nodes import Param, Read, Routine
from isamap.ir.prove import Facts, is_nonnegative, smallest_value
from isamap.ir.samples import evaluate_on, grid, sample_sizes
from isamap.ir.sites import AxisAt, Site, find_sites, loop_guards, reads_of
from isamap.source import Diagnostic

_POINTS = 20_000


def check_ranges(routine: Routine, known: Known, constants: tuple[Param, ...]) -> Iterator[Diagnostic]:
    """A finding for every subscript that is not proved to stay inside."""
    seen: set[tuple[object, ...]] = set()
    for access, axes, guards in _accesses(routine):
        shape = routine.operand(access.buffer).shape
        key = (access.buffer, access.index, guards, axes, access.span)
        if access.fill is not None or key in seen:
            continue
        seen.add(key)
        facts = _facts(known, axes, guards)
        for position, (index, extent) in enumerate(zip(access.index, shape, strict=True)):
            for term, below in ((index, True), (extent - 1 - index, False)):
                if not is_nonnegative(term.substitute(known.bindings), facts):
                    yield _finding(
                        routine, access, position, term, below, axes, guards, facts, known, constants
                    )
                    break


def _accesses(routine: Routine) -> Iterator[tuple[Read, tuple[AxisAt, ...], tuple[Index, ...]]]:
    for guard, axes, guards in loop_guards(routine):
        yield from ((read, axes, guards) for read in reads_of(guard))
    for site in find_sites(routine):
        yield site.assign.target, site.axes, site.guards
        yield from ((read, site.axes, site.guards) for read in reads_of(site.assign.value))
        if site.assign.guard is not None:
            yield from ((read, site.axes, _outer_guards(site)) for read in reads_of(site.assign.guard))


def _outer_guards(site: Site) -> tuple[Index, ...]:
    return site.guards[: len(site.guards) - len(guard_facts(site.assign.guard))]


def _facts(known: Known, axes: tuple[AxisAt, ...], guards: tuple[Index, ...]) -> Facts:
    extents = {a.name: a.extent.substitute(known.bindings) for a in axes}
    return known.facts.with_axes(extents).with_facts(tuple(g.substitute(known.bindings) for g in guards))


def _finding(
    routine: Routine,
    access: Read,
    position: int,
    term: Index,
    below: bool,
    axes: tuple[AxisAt, ...],
    guards: tuple[Index, ...],
    facts: Facts,
    known: Known,
    constants: tuple[Param, ...],
) -> Diagnostic:
    index, extent = access.index[position], routine.operand(access.buffer).shape[position]
    rule = "at least 0" if below else f"below {extent}"
    example = _counterexample(routine, index, term, axes, guards, constants)
    worst = smallest_value(term.substitute(known.bindings), facts)
    ways = ["guard the statement with `if`"]
    if not any(access is site.assign.target for site in find_sites(routine)):
        ways.insert(0, "read it with `else 0`")
    if worst is not None and worst.value is None and not any("'" in s for s in worst.symbols):
        ways.append(f"state `where {_as_constraint(worst)}`")
    code = "index-out-of-range" if example else "index-unproved"
    verb = "can leave" if example else "cannot be proved to stay inside"
    return Diagnostic(
        code,
        f"subscript {position} of `{access.buffer}` {verb} its range: `{index}` must be {rule}",
        access.span,
        notes=(example,) if example else (),
        help=", or ".join(ways),
    )


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
    guards: tuple[Index, ...],
    constants: tuple[Param, ...],
) -> str | None:
    """Sizes and axes for which the term is negative, in words."""
    used = term.symbols | {s for g in guards for s in g.symbols}
    extents = {a.name: a.extent for a in axes if a.name in used}
    for env in sample_sizes(routine, constants, 40):
        points = grid(extents, env, _POINTS)
        if points is None:
            continue
        count = len(next(iter(points.values()))) if points else 1
        bad = evaluate_on(term, env, points, count) < 0
        for guard in guards:
            bad = bad & (evaluate_on(guard, env, points, count) >= 0)
        if not bad.any():
            continue
        at = int(bad.argmax())
        shown = {name: int(values[at]) for name, values in points.items() if name in term.symbols}
        sizes = {p.name: env[p.name] for p in (*constants, *routine.params) if p.name in env}
        value = int(evaluate_on(index, env, points, count)[at])
        words = ", ".join(f"{name} = {number}" for name, number in {**sizes, **shown}.items())
        return f"it is {value} for {words}" if words else f"it is {value}"
    return None
