"""Verify a routine: return a diagnostic for each rule of the language that it breaks.

Subscripts stay inside their arrays, and iterations of a `for` are independent. Every element that is read
was written before, and all outputs are written. Divisors are positive. A sound routine has no findings.

Placements are one-to-one: no two elements share a place. This rule is checked by listing all elements for
the parameters' smallest values and for some larger ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache

import numpy as np

from isamap.ir import nodes as ir
from isamap.ir.dependences import check_dependences
from isamap.ir.dtypes import BOOL
from isamap.ir.facts import (
    AxisAt,
    FreeSizes,
    facts_of,
    find_sites,
    guard_facts,
    known_facts,
    loop_guards,
    unequal_gaps,
)
from isamap.ir.index import ONE, Element, FloorDiv, Index, MinMax, Mod, elements_of, typical_value
from isamap.ir.index_casts import check_casts
from isamap.ir.prove import Facts, is_impossible, is_nonnegative, smallest_value
from isamap.ir.small_sizes import evaluate_on, grid, may_hold_on, sample_sizes
from isamap.ir.walk import reads, symbols_of_values
from isamap.source import Diagnostic, Edit, Span, dataclass, field, replace

_PLACEMENT_POINTS = 300_000


def check_placements(routine: ir.Routine, constants: tuple[ir.Param, ...]) -> Iterator[Diagnostic]:
    """Yield a finding for every placement that is not one-to-one."""
    for operand in routine.operands:
        if operand.placement is None:
            continue
        for env in sample_sizes(routine, constants, 6):
            finding = _check(operand, env)
            if finding is not None:
                yield finding
                break


def _check(operand: ir.Operand, env: dict[str, int]) -> Diagnostic | None:
    assert operand.placement is not None
    return _check_points(f"`{operand.name}`", operand.placement, operand.shape, env)


def _check_points(
    what: str, placement: ir.Placement, shape: tuple[Index, ...], env: dict[str, int]
) -> Diagnostic | None:
    points = grid(dict(zip(placement.indices, shape, strict=True)), env, _PLACEMENT_POINTS)
    if not points:
        return None
    count = len(next(iter(points.values())))
    places = np.stack([evaluate_on(e, env, points, count) for _, e in placement.coordinates])
    names = [name for name, _ in placement.coordinates]
    if (places < 0).any():
        row, at = (int(x) for x in np.argwhere(places < 0)[0])
        where = f"element {_point(points, at)} has {names[row]} = {int(places[row, at])}"
        return Diagnostic(
            "placement-negative", f"a coordinate of {what} is negative", placement.span, notes=(where,)
        )
    _, first, inverse = np.unique(places, axis=1, return_index=True, return_inverse=True)
    if len(first) == count:
        return None
    at = next(i for i, group in enumerate(inverse.ravel().tolist()) if first[group] != i)
    other = int(first[inverse.ravel()[at]])
    place = ", ".join(f"{n} = {int(v)}" for n, v in zip(names, places[:, at], strict=True))
    return Diagnostic(
        "placement-not-one-to-one",
        f"two elements of {what} have the same place",
        placement.span,
        notes=(f"elements {_point(points, other)} and {_point(points, at)} are both at {place}",),
        help="let every index decide some coordinate",
    )


# --- views ------------------------------------------------------------------------------------------------


def check_view(
    view: ir.MemoryDecl, base: ir.MemoryDecl, constants: tuple[ir.Param, ...]
) -> Iterator[Diagnostic]:
    """Yield a finding when a view exceeds its memory, or when two of its bytes are one byte of the memory."""
    placement = view.placement
    if placement is None:
        return
    shape, room = _bytes_of(view), _bytes_of(base)
    if len(placement.indices) != len(shape):
        yield Diagnostic(
            "wrong-rank",
            f"`{view.name}` is made of {', '.join(shape)}; {len(placement.indices)} indices are placed",
            placement.span,
        )
        return
    unknown = [name for name, _ in placement.coordinates if name not in room]
    if unknown:
        yield Diagnostic(
            "unknown-coordinate",
            f"`{base.name}` has no coordinate called `{unknown[0]}`",
            placement.span,
            notes=(f"it is made of {', '.join(room)}",),
        )
        return
    carrier = ir.Routine("", (), (), ())
    for env in sample_sizes(carrier, constants, 6):
        finding = _check_points(f"`{view.name}`", placement, tuple(shape.values()), env)
        finding = finding or _check_room(view.name, placement, shape, room, env)
        if finding is not None:
            yield finding
            return


def _bytes_of(memory: ir.MemoryDecl) -> dict[str, Index]:
    """Return the coordinates that address the bytes of a memory, outermost first: registers, rows, bytes."""
    given = {name: value for name, value in memory.attributes if isinstance(value, Index)}
    count = {"register": given.get("count", ONE)}
    if "bytes" in given:
        return {**count, "byte": given["bytes"]}
    return {**count, "row": given.get("rows", ONE), "byte": given.get("row_bytes", ONE)}


def _check_room(
    view: str, placement: ir.Placement, shape: dict[str, Index], room: dict[str, Index], env: dict[str, int]
) -> Diagnostic | None:
    points = grid(dict(zip(placement.indices, shape.values(), strict=True)), env, _PLACEMENT_POINTS)
    if not points:
        return None
    count = len(next(iter(points.values())))
    for name, coordinate in placement.coordinates:
        places = evaluate_on(coordinate, env, points, count)
        extent = int(room[name].evaluate(env))
        if (places >= extent).any():
            at = int((places >= extent).argmax())
            return Diagnostic(
                "placement-outside",
                f"bytes of `{view}` are placed outside of its memory",
                placement.span,
                notes=(f"{_point(points, at)} is at {name} = {int(places[at])}, of {extent}",),
            )
    return None


def _point(points: dict[str, np.ndarray], at: int) -> str:
    return f"[{', '.join(str(int(values[at])) for values in points.values())}]"


def verify(routine: ir.Routine, constants: Iterable[ir.Param] = ()) -> tuple[Diagnostic, ...]:
    """Return all findings about a routine. `constants` are the machine constants that it may mention."""
    given = tuple(constants)
    accesses = _accesses_of(routine, given)
    if accesses is not None and _is_sound(accesses):
        return tuple(dict.fromkeys(check_casts(routine, known_facts(routine, given), bound=False)))
    known = known_facts(routine, given)
    divisors = tuple(_check_divisors(routine, known))
    if divisors:
        return divisors
    ranges = tuple(check_ranges(routine, known, given))
    casts = check_casts(routine, known, bound=False)
    findings = (*ranges, *casts, *check_dependences(routine, known, given), *check_placements(routine, given))
    definitions = check_definitions(routine, given) if not ranges else ()
    return tuple(dict.fromkeys((*findings, *definitions)))


# --- routines that differ in types and operations alone ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Accesses:
    """A routine's accesses and the machine constants as a cache key. Element types and operations are left out.

    Hundreds of instructions of a machine have the accesses of one of a few dozen.
    """

    shape: Hashable
    routine: ir.Routine = field(compare=False)
    constants: tuple[ir.Param, ...]


@lru_cache(maxsize=1024)
def _is_sound(accesses: _Accesses) -> bool:
    """Return whether a routine with these accesses breaks no rule, apart from the rules of casts."""
    routine, given = accesses.routine, accesses.constants
    known = known_facts(routine, given)
    return not (
        any(_check_divisors(routine, known))
        or any(check_ranges(routine, known, given))
        or any(check_dependences(routine, known, given))
        or any(check_placements(routine, given))
        or any(check_definitions(routine, given))
    )


def _accesses_of(routine: ir.Routine, constants: tuple[ir.Param, ...]) -> _Accesses | None:
    """Return the accesses that the checks need, or None if a guard depends on values."""
    body = tuple(_statement(s) for s in routine.body)
    if None in body:
        return None
    operands = tuple((o.name, o.role, o.shape, o.placement, o.outside) for o in routine.operands)
    shape = (routine.params, routine.lets, routine.where, operands, body)
    return _Accesses(shape, routine, constants)


def _statement(s: ir.Stmt) -> Hashable | None:
    if s.guard is not None:
        return None
    if isinstance(s, ir.Assign):
        return s.op, _access(s.target), tuple(_access(read) for read in reads(s.value))
    body = tuple(_statement(child) for child in s.body)
    return None if None in body else (s.axes, s.ordered, body)


def _access(read: ir.Read) -> Hashable:
    return read.buffer, read.index, read.fill is None


def _check_divisors(routine: ir.Routine, known: FreeSizes) -> Iterator[Diagnostic]:
    for index, span in _indices(routine):
        for divisor in _divisors(index):
            if not is_nonnegative(divisor.substitute(known.bindings) - 1, known.facts):
                yield Diagnostic(
                    "bad-divisor",
                    f"`{divisor}` divides an index, but may be 0 or negative",
                    span,
                    help=f"give it a range that starts at 1, or state `where {divisor} >= 1`",
                )


def _indices(routine: ir.Routine) -> Iterator[tuple[Index, Span | None]]:
    for let in routine.lets:
        yield let.value, let.span
    for operand in routine.operands:
        yield from ((extent, operand.span) for extent in operand.shape)
    for site in find_sites(routine):
        for access in (site.assign.target, *site.reads):
            yield from ((index, access.span) for index in access.index)


def _divisors(index: Index) -> Iterator[Index]:
    for monomial, _ in index.terms:
        for atom in monomial:
            match atom:
                case FloorDiv(value, divisor) | Mod(value, divisor):
                    yield divisor
                    yield from _divisors(value)
                case MinMax(_, left, right):
                    yield from _divisors(left)
                    yield from _divisors(right)
                case Element():
                    yield from (divisor for part in atom.parts for divisor in _divisors(part))
                case str():
                    pass


# Everything that is read was written, and outputs are written as far as they say.
#
# Checked by running the routine's index expressions, without data, on a few small sizes: what this finds is a
# counterexample with numbers; what it does not find is not a proof.


_WRITTEN_POINTS = 40_000
_SAMPLES = 5

Masks = dict[str, "np.ndarray"]


def check_definitions(routine: ir.Routine, constants: tuple[ir.Param, ...]) -> Iterator[Diagnostic]:
    """Yield findings on outputs that are not fully written, and on elements read before they are written."""
    never = list(_never_written(routine))
    yield from never
    if never or not any(o.role in ("out", "temp") for o in routine.operands):
        return
    for env in sample_sizes(routine, constants, _SAMPLES):
        finding = _trace(routine, env, constants)
        if finding is not None:
            yield finding
            return


def _never_written(routine: ir.Routine) -> Iterator[Diagnostic]:
    sites = find_sites(routine)
    written = {s.assign.target.buffer for s in sites}
    plainly = {s.assign.target.buffer for s in sites if s.assign.op is None}
    for operand in routine.operands:
        name = operand.name
        if operand.role in ("out", "inout") and name not in written:
            yield Diagnostic(
                "never-written",
                f"`{name}` is an output, but nothing is assigned to it",
                operand.span,
                help="assign to it, or declare it `in`",
            )
        elif operand.role in ("out", "temp") and name in written and name not in plainly:
            yield Diagnostic(
                "read-before-write",
                f"`{name}` is reduced into before it has a value",
                operand.span,
                help=f"assign `{name}` a first value"
                + (
                    ", or declare it `inout`: then the sum starts from the old value"
                    if operand.role == "out"
                    else ""
                ),
            )


# --- running the indices ----------------------------------------------------------------------------------


class _Found(Exception):
    """An exception that ends the trace and carries its first finding."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _TooLarge(Exception):
    """An exception: this sample has too many points to visit."""


def _trace(routine: ir.Routine, env: dict[str, int], constants: tuple[ir.Param, ...]) -> Diagnostic | None:
    watched = [o for o in routine.operands if o.role in ("out", "temp")]
    masks: Masks = {}
    total = _steps(routine.body, env)
    for o in watched:
        shape = tuple(int(e.evaluate(env)) for e in o.shape)
        total += int(np.prod(shape, dtype=object)) if shape else 1
        if total > _WRITTEN_POINTS:
            return None
        masks[o.name] = np.zeros(shape, dtype=np.bool_)
    sizes = {p.name: env[p.name] for p in (*constants, *routine.params) if p.name in env}
    shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    try:
        for statement in routine.body:
            _verify_statement(statement, env, {}, (), False, masks, shown)
    except _Found as found:
        return found.diagnostic
    except _TooLarge:
        return None
    return next((d for o in watched if (d := _partly(o, masks[o.name], shown)) is not None), None)


def _steps(body: tuple[ir.Stmt, ...], env: Mapping[str, int]) -> int:
    """Return how many times all statements run in total."""
    total = 0
    for statement in body:
        if isinstance(statement, ir.Loop):
            trips = 1
            for axis in statement.axes:
                trips *= max(0, typical_value(axis.extent, env) or 0)
            total += trips * _steps(statement.body, env)
        else:
            total += 1
    return total


def _partly(o: ir.Operand, mask: np.ndarray, shown: str) -> Diagnostic | None:
    if o.role != "out" or o.outside is not None or mask.all():
        return None
    first = tuple(int(x) for x in np.argwhere(~mask)[0])
    element = f"`{o.name}[{', '.join(map(str, first))}]`" if first else f"`{o.name}`"
    return Diagnostic(
        "partly-written",
        f"`{o.name}` is not written everywhere, and has no value elsewhere",
        o.span,
        notes=(f"{element} is not assigned" + (f" for {shown}" if shown else ""),),
        help="add `outside zero`, `outside keep` or `outside undefined` to it, or assign the other elements",
    )


def _verify_statement(
    s: ir.Stmt,
    env: Mapping[str, int],
    extents: dict[str, Index],
    guards: tuple[Index, ...],
    data_guarded: bool,
    masks: Masks,
    shown: str,
) -> None:
    match s:
        case ir.Loop(axes, body, ordered, guard, _):
            inner = (*guards, *guard_facts(guard))
            by_data = data_guarded or not _is_index_guard(guard)
            own = {a.name: a.extent for a in axes}
            if not ordered:
                for child in body:
                    _verify_statement(child, env, {**extents, **own}, inner, by_data, masks, shown)
                return
            for point in _points_in_order(own, env):
                for child in body:
                    _verify_statement(child, {**env, **point}, extents, inner, by_data, masks, shown)
        case ir.Assign():
            _assign(s, env, extents, (*guards, *guard_facts(s.guard)), data_guarded, masks, shown)


def _points_in_order(extents: dict[str, Index], env: Mapping[str, int]) -> Iterator[dict[str, int]]:
    points = grid(extents, env, 4096)
    if points is None:
        raise _TooLarge
    arrays: dict[str, list[int]] = {name: values.tolist() for name, values in points.items()}
    for point in zip(*arrays.values(), strict=True):
        yield dict(zip(arrays, point, strict=True))


def _assign(
    s: ir.Assign,
    env: Mapping[str, int],
    extents: dict[str, Index],
    guards: tuple[Index, ...],
    data_guarded: bool,
    masks: Masks,
    shown: str,
) -> None:
    points = grid(extents, env, _WRITTEN_POINTS)
    if points is None:
        raise _TooLarge
    count = len(next(iter(points.values()))) if points else 1
    active = np.ones(count, dtype=np.bool_)
    for guard in guards:
        active &= evaluate_on(guard, env, points, count) >= 0
    read_here = [*reads(s.value), *(reads(s.guard) if s.guard is not None else ())]
    for read in [*read_here, *([s.target] if s.op is not None else [])]:
        if read.buffer in masks:
            _check_read(read, masks[read.buffer], active, env, points, count, shown)
    if s.target.buffer in masks and not data_guarded and _is_index_guard(s.guard):
        mask = masks[s.target.buffer]
        index, inside = _elements(s.target, mask.shape, env, points, count)
        keep = active & inside
        mask[tuple(i[keep] for i in index)] = True if index else bool(keep.any() or mask)


def _check_read(
    read: ir.Read,
    mask: np.ndarray,
    active: np.ndarray,
    env: Mapping[str, int],
    points: Mapping[str, np.ndarray],
    count: int,
    shown: str,
) -> None:
    index, inside = _elements(read, mask.shape, env, points, count)
    keep = active & inside
    found = mask[tuple(i[keep] for i in index)] if index else np.broadcast_to(mask, (int(keep.sum()),))
    if found.all():
        return
    at = int(np.flatnonzero(keep)[int((~found).argmax())])
    element = f"{read.buffer}[{', '.join(str(int(i[at])) for i in index)}]" if index else read.buffer
    raise _Found(
        Diagnostic(
            "read-before-write",
            f"`{read.buffer}` is read where nothing was written before",
            read.span,
            notes=(f"`{element}` has no value" + (f" for {shown}" if shown else ""),),
            help=f"assign `{read.buffer}` first, over all elements that are read",
        )
    )


def _elements(
    read: ir.Read,
    shape: tuple[int, ...],
    env: Mapping[str, int],
    points: Mapping[str, np.ndarray],
    count: int,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the element that each point accesses, and a mask of the points inside the array."""
    index = [evaluate_on(i, env, points, count) for i in read.index]
    inside = np.ones(count, dtype=np.bool_)
    for values, extent in zip(index, shape, strict=True):
        inside &= (values >= 0) & (values < extent)
    return index, inside


def _is_index_guard(guard: ir.Expr | None) -> bool:
    """Return whether a guard only compares indices, so that the trace can follow it exactly."""
    match guard:
        case None:
            return True
        case ir.Call("and", (left, right), _, _, _):
            return _is_index_guard(left) and _is_index_guard(right)
        case ir.Call("ne", _, _, _, _):
            return False
        case _:
            return bool(guard_facts(guard))


# Subscripts stay inside their operands, for all sizes that the routine allows.
#
# Reads with `else` may leave their operand; everything else must be proved inside, or is refused with a
# counterexample where one is found.


_RANGE_POINTS = 20_000


def check_ranges(
    routine: ir.Routine, known: FreeSizes, constants: tuple[ir.Param, ...]
) -> Iterator[Diagnostic]:
    """Yield a finding for each subscript that is not proved to stay inside its array."""
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
                    yield _describe_access(
                        routine, access, position, term, below, axes, conditions, facts, known, constants
                    )
                    break


def _accesses(routine: ir.Routine) -> Iterator[tuple[ir.Read, tuple[AxisAt, ...], tuple[ir.Expr, ...]]]:
    for access, axes, conditions in _plain_accesses(routine):
        yield access, axes, conditions
        for index in access.index:
            yield from _in_index(index, access, axes, conditions)
        for n, axis in enumerate(axes):
            yield from _in_index(axis.extent, access, axes[:n], ())


def _in_index(
    index: Index, access: ir.Read, axes: tuple[AxisAt, ...], conditions: tuple[ir.Expr, ...]
) -> Iterator[tuple[ir.Read, tuple[AxisAt, ...], tuple[ir.Expr, ...]]]:
    """Yield the array elements that an index reads, each with the axes and conditions of the access."""
    for element in elements_of(index):
        yield replace(access, buffer=element.buffer, index=(element.at,), fill=None), axes, conditions


def _plain_accesses(routine: ir.Routine) -> Iterator[tuple[ir.Read, tuple[AxisAt, ...], tuple[ir.Expr, ...]]]:
    for guard, axes, conditions in loop_guards(routine):
        yield from ((read, axes, conditions) for read in reads(guard))
    for site in find_sites(routine):
        yield site.assign.target, site.axes, site.conditions
        yield from ((read, site.axes, site.conditions) for read in reads(site.assign.value))
        if site.assign.guard is not None:
            yield from ((read, site.axes, site.conditions[:-1]) for read in reads(site.assign.guard))


def _facts(known: FreeSizes, axes: tuple[AxisAt, ...], conditions: tuple[ir.Expr, ...]) -> Facts:
    extents = {a.name: a.extent.substitute(known.bindings) for a in axes}
    stated = tuple(f.substitute(known.bindings) for f in facts_of(conditions))
    facts = known.facts.with_axes(extents).with_facts(stated)
    gaps = (gap.substitute(known.bindings) for c in conditions for gap in unequal_gaps(c))
    return facts.with_facts(tuple(gap - 1 for gap in gaps if is_nonnegative(gap, facts)))


def _describe_access(
    routine: ir.Routine,
    access: ir.Read,
    position: int,
    term: Index,
    below: bool,
    axes: tuple[AxisAt, ...],
    conditions: tuple[ir.Expr, ...],
    facts: Facts,
    known: FreeSizes,
    constants: tuple[ir.Param, ...],
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
    routine: ir.Routine,
    extent: Index,
    term: Index,
    axes: tuple[AxisAt, ...],
    conditions: tuple[ir.Expr, ...],
    constants: tuple[ir.Param, ...],
) -> Iterator[ir.Constraint]:
    """Yield constraints `SIZE % block == 0` under which the subscript can be proved."""
    blocks = dict.fromkeys(
        (size, atom.divisor)
        for monomial, _ in extent.terms
        for atom in monomial
        if isinstance(atom, FloorDiv)
        for size in sorted(atom.value.symbols)
    )
    for size, block in blocks:
        constraint = ir.Constraint(Index.of(size).mod(block), "==", Index.of(0))
        known = known_facts(replace(routine, where=(*routine.where, constraint)), constants)
        if is_nonnegative(term.substitute(known.bindings), _facts(known, axes, conditions)):
            yield constraint


def _as_constraint(worst: Index) -> str:
    """Return `worst >= 0` as a comparison, with the negative terms moved to the other side."""
    left = Index(tuple((m, c) for m, c in worst.terms if c > 0)) + 0
    right = Index(tuple((m, -c) for m, c in worst.terms if c < 0)) + 0
    return f"{right} <= {left}"


def _counterexample(
    routine: ir.Routine,
    index: Index,
    term: Index,
    axes: tuple[AxisAt, ...],
    conditions: tuple[ir.Expr, ...],
    constants: tuple[ir.Param, ...],
) -> str | None:
    """Return text with sizes and axes for which the term is negative, or None."""
    used = term.symbols | {s for c in conditions for s in symbols_of_values(c)}
    extents = {a.name: a.extent for a in axes if a.name in used}
    for env in sample_sizes(routine, constants, 40):
        points = grid(extents, env, _RANGE_POINTS)
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
