"""Ordered loops, and which of their statements some iteration of which other statements has to come before.

In `seq t { a[t] = b[t]; b[t + 1] = a[t]; }` each of the two needs the other: `a[t]` is written before it is
read, and `b[t + 1]` is read by the next iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from isamap.ir import Axis
from isamap.transform.shared_elements import ALWAYS, Conflicts, Relation, meetings
from isamap.transform.statements import Statement

Unit = tuple[Statement, ...]
"""Statements of one ordered loop that stay together: one, or those of an ordered loop inside."""

Needs = list[list[bool]]
"""For each pair of units whether the second needs the first."""


@dataclass(frozen=True, slots=True)
class Sequential:
    """An ordered loop of a canonical kernel: the statements before, inside and behind it, and its depth."""

    before: tuple[Statement, ...]
    inside: tuple[Statement, ...]
    behind: tuple[Statement, ...]
    depth: int

    @property
    def axis(self) -> Axis:
        return self.inside[0].sequence[self.depth]

    @property
    def units(self) -> tuple[Unit, ...]:
        groups = groupby(
            enumerate(self.inside), lambda i: (i[1].ordered_loops[self.depth + 1 :] or (~i[0],))[0]
        )
        return tuple(tuple(s for _, s in members) for _, members in groups)


def sequential_loops(given: Sequence[Statement]) -> Iterator[Sequential]:
    """All ordered loops, outer before inner ones."""
    numbers = dict.fromkeys(n for s in given for n in s.ordered_loops)
    for number in numbers:
        at = [i for i, s in enumerate(given) if number in s.ordered_loops]
        first, last = at[0], at[-1] + 1
        depth = given[first].ordered_loops.index(number)
        yield Sequential(tuple(given[:first]), tuple(given[first:last]), tuple(given[last:]), depth)


def without_order(s: Statement, depth: int) -> Statement:
    """The statement with an ordered axis among its unordered ones."""
    return replace(
        s,
        axes=(s.sequence[depth], *s.axes),
        sequence=(*s.sequence[:depth], *s.sequence[depth + 1 :]),
        ordered_loops=(*s.ordered_loops[:depth], *s.ordered_loops[depth + 1 :]),
    )


def needs(of: Conflicts, loop: Sequential) -> Needs:
    """needs[i][j]: some iteration of unit i has to come before some iteration of unit j."""
    units = loop.units
    found = [[False] * len(units) for _ in units]
    for i, first in enumerate(units):
        for j, second in enumerate(units[i:], i):
            relation = _meetings(first, second, loop.depth, of)
            found[i][j] |= "<" in relation or (i < j and "=" in relation)
            found[j][i] |= ">" in relation
    return found


def _meetings(first: Unit, second: Unit, depth: int, of: Conflicts) -> Relation:
    found: Relation = frozenset()
    for a in first:
        for b in second:
            found |= meetings(a, b, depth, of)
            if found == ALWAYS:
                return found
    return found


def closure(order: Needs) -> Needs:
    """The same with what is needed by way of others."""
    reach = [list(row) for row in order]
    for m, through in enumerate(reach):
        for row in reach:
            if row[m]:
                row[:] = [a or b for a, b in zip(row, through, strict=True)]
    return reach


def in_needed_order(taken: list[int], order: Needs) -> list[int]:
    """The units so that each stands behind those that it needs, else as in the text."""
    left, found = list(taken), list[int]()
    while left:
        following = next(n for n in left if not any(order[m][n] for m in left if m != n))
        left.remove(following)
        found.append(following)
    return found
