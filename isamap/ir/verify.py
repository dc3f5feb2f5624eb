"""What a routine must obey before anything is done with it.

Subscripts stay inside; iterations of a `for` are independent; everything read was written; outputs are
written; placements are one-to-one; divisors are positive. Findings come as diagnostics; a sound routine
has none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from isamap.ir.casts import check_casts
from isamap.ir.definitions import check_definitions
from isamap.ir.dependences import check_dependences
from isamap.ir.facts import Known, known_facts
from isamap.ir.index import FloorDiv, Index, MinMax, Mod
from isamap.ir.nodes import Assign, Param, Read, Routine, Stmt
from isamap.ir.placements import check_placements
from isamap.ir.prove import is_nonnegative
from isamap.ir.ranges import check_ranges
from isamap.ir.sites import find_sites, reads_of
from isamap.source import Diagnostic, Span


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
        return s.op, _access(s.target), tuple(_access(read) for read in reads_of(s.value))
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
                case str():
                    pass
