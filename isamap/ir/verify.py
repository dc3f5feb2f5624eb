"""What a routine must obey before anything is done with it.

Subscripts stay inside; iterations of a `for` are independent; everything read was written; outputs are
written; placements are one-to-one; divisors are positive. Findings come as diagnostics; a sound routine
has none.

Placements put every element somewhere, and no two elements into one place.

Checked by listing all elements for the parameters' smallest and some larger values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from isamap.ir.atoms import Element, FloorDiv, MinMax, Mod
from isamap.ir.definitions import check_definitions
from isamap.ir.dependences import check_dependences
from isamap.ir.facts import Known, find_sites, known_facts
from isamap.ir.index import ONE, Index
from isamap.ir.index_casts import check_casts
from isamap.ir.nodes import Assign, MemoryDecl, Operand, Param, Placement, Read, Routine, Stmt
from isamap.ir.prove import is_nonnegative
from isamap.ir.ranges import check_ranges
from isamap.ir.samples import evaluate_on, grid, sample_sizes
from isamap.ir.walk import reads
from isamap.source import Diagnostic, Span

_POINTS = 300_000


def check_placements(routine: Routine, constants: tuple[Param, ...]) -> Iterator[Diagnostic]:
    """A finding for every placement that is not one-to-one."""
    for operand in routine.operands:
        if operand.placement is None:
            continue
        for env in sample_sizes(routine, constants, 6):
            finding = _check(operand, env)
            if finding is not None:
                yield finding
                break


def _check(operand: Operand, env: dict[str, int]) -> Diagnostic | None:
    assert operand.placement is not None
    return _check_points(f"`{operand.name}`", operand.placement, operand.shape, env)


def _check_points(
    what: str, placement: Placement, shape: tuple[Index, ...], env: dict[str, int]
) -> Diagnostic | None:
    points = grid(dict(zip(placement.indices, shape, strict=True)), env, _POINTS)
    if not points:
        return None
    count = len(next(iter(points.values())))
    places = np.stack([evaluate_on(e, env, points, count) for _, e in placement.coordinates])
    names = [name for name, _ in placement.coordinates]
    if (places < 0).any():
        row, at = (int(x) for x in np.argwhere(places < 0)[0])
        where = f"element {_point(points, at)} has {names[row]} = {int(places[row, at])}"
        return Diagnostic(
            "placement-negative",
            f"a coordinate of {what} is negative",
            placement.span,
            notes=(where,),
        )
    _, first, inverse = np.unique(places, axis=1, return_index=True, return_inverse=True)
    if len(first) == count:
        return None
    at = next(i for i, group in enumerate(inverse.ravel().tolist()) if first[group] != i)
    other = int(first[inverse.ravel()[at]])
    place = ", ".join(f"{n} = {int(v)}" for n, v in zip(names, places[:, at], strict=True))
    return Diagnostic(
        "placement-not-one-to-one",
        f"two elements of {what} are placed at one spot",
        placement.span,
        notes=(f"elements {_point(points, other)} and {_point(points, at)} are both at {place}",),
        help="let every index decide some coordinate",
    )


# --- views ------------------------------------------------------------------------------------------------


def check_view(view: MemoryDecl, base: MemoryDecl, constants: tuple[Param, ...]) -> Iterator[Diagnostic]:
    """A finding when a view's bytes are not bytes of its memory, or two of them are one byte."""
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
    carrier = Routine("", (), (), ())
    for env in sample_sizes(carrier, constants, 6):
        finding = _check_points(f"`{view.name}`", placement, tuple(shape.values()), env)
        finding = finding or _check_room(view.name, placement, shape, room, env)
        if finding is not None:
            yield finding
            return


def _bytes_of(memory: MemoryDecl) -> dict[str, Index]:
    """What the bytes of a memory are counted by, outermost first: registers, rows, bytes."""
    given = {name: value for name, value in memory.attributes if isinstance(value, Index)}
    count = {"register": given.get("count", ONE)}
    if "bytes" in given:
        return {**count, "byte": given["bytes"]}
    return {**count, "row": given.get("rows", ONE), "byte": given.get("row_bytes", ONE)}


def _check_room(
    view: str, placement: Placement, shape: dict[str, Index], room: dict[str, Index], env: dict[str, int]
) -> Diagnostic | None:
    points = grid(dict(zip(placement.indices, shape.values(), strict=True)), env, _POINTS)
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


def verify(routine: Routine, constants: Iterable[Param] = ()) -> tuple[Diagnostic, ...]:
    """All findings about a routine; `constants` are the machine constants that it may mention."""
    given = tuple(constants)
    accesses = _accesses_of(routine, given)
    if accesses is not None and _is_sound(accesses):
        return tuple(dict.fromkeys(check_casts(routine, known_facts(routine, given), bound=False)))
    return _all_findings(routine, given)


def _all_findings(routine: Routine, given: tuple[Param, ...]) -> tuple[Diagnostic, ...]:
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
    """A routine and machine constants, equal where all accesses are: types and operations do not count.

    Hundreds of instructions of a machine have the accesses of one of a few dozen.
    """

    shape: Hashable
    routine: Routine = field(compare=False)
    constants: tuple[Param, ...]


@lru_cache(maxsize=1024)
def _is_sound(accesses: _Accesses) -> bool:
    """Whether nothing but a cast can be wrong with a routine of these accesses."""
    routine, given = accesses.routine, accesses.constants
    known = known_facts(routine, given)
    return not (
        any(_check_divisors(routine, known))
        or any(check_ranges(routine, known, given))
        or any(check_dependences(routine, known, given))
        or any(check_placements(routine, given))
        or any(check_definitions(routine, given))
    )


def _accesses_of(routine: Routine, constants: tuple[Param, ...]) -> _Accesses | None:
    """What every check but that of casts looks at; None where a guard, whose values count, takes part."""
    body = tuple(_statement(s) for s in routine.body)
    if None in body:
        return None
    operands = tuple((o.name, o.role, o.shape, o.placement, o.outside) for o in routine.operands)
    shape = (routine.params, routine.lets, routine.where, operands, body)
    return _Accesses(shape, routine, constants)


def _statement(s: Stmt) -> Hashable | None:
    if s.guard is not None:
        return None
    if isinstance(s, Assign):
        return s.op, _access(s.target), tuple(_access(read) for read in reads(s.value))
    body = tuple(_statement(child) for child in s.body)
    return None if None in body else (s.axes, s.ordered, body)


def _access(read: Read) -> Hashable:
    return read.buffer, read.index, read.fill is None


def _check_divisors(routine: Routine, known: Known) -> Iterator[Diagnostic]:
    for index, span in _indices(routine):
        for divisor in _divisors(index):
            if not is_nonnegative(divisor.substitute(known.bindings) - 1, known.facts):
                yield Diagnostic(
                    "bad-divisor",
                    f"`{divisor}` divides an index, but may be 0 or negative",
                    span,
                    help=f"give it a range that starts at 1, or state `where {divisor} >= 1`",
                )


def _indices(routine: Routine) -> Iterator[tuple[Index, Span | None]]:
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
