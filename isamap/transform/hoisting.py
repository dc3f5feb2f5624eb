"""Statements taken out of an ordered loop: what no iteration passes on to the next runs over all of them.

    seq t in T {                                  for t in T, j in H, c in C { x[t, j] += X[t, c] * W[c, j]; }
      x[j] = 0;                                   seq t in T {
      x[j] += X[t, c] * W[c, j];          →         h[j] = tanh(x[t, j] + h[j]);
      h[j] = tanh(x[j] + h[j]);                   }
    }

A temporary that every iteration fills anew before it is read gets an axis for the loop (*expansion*). Then
statements form groups that depend on themselves from one iteration to the next, and statements that do not
(Allen and Kennedy's loop distribution); sums among the latter move in front of the loop, or behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from isamap.ir import Axis, Index, Kernel, Operand, Read
from isamap.transform.conflicts import ALWAYS, Conflicts, Relation, meetings, writes_all
from isamap.transform.rewrite import Rewrite, accepted, accesses, map_accesses, shown, with_statements
from isamap.transform.statements import Statement, statements

Unit = tuple[Statement, ...]
"""Statements of one ordered loop that stay together: one, or those of an ordered loop inside."""


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


def hoistings(kernel: Kernel) -> Iterator[Rewrite]:
    """The kernel with sums moved out of one of its ordered loops, for each loop that has such."""
    for loop in sequential_loops(statements(kernel)):
        for behind in (False, True):
            found = _hoisted(kernel, loop, behind=behind)
            if found is not None:
                yield found


def sequential_loops(given: Sequence[Statement]) -> Iterator[Sequential]:
    """All ordered loops, outer before inner ones."""
    numbers = dict.fromkeys(n for s in given for n in s.ordered_loops)
    for number in numbers:
        at = [i for i, s in enumerate(given) if number in s.ordered_loops]
        first, last = at[0], at[-1] + 1
        depth = given[first].ordered_loops.index(number)
        yield Sequential(tuple(given[:first]), tuple(given[first:last]), tuple(given[last:]), depth)


# --- taking out -------------------------------------------------------------------------------------------


def _hoisted(kernel: Kernel, loop: Sequential, *, behind: bool) -> Rewrite | None:
    """Sums moved in front of a loop, or behind it, with what they need (or what needs them)."""
    chosen = expandable(kernel, loop)
    taken = _movable(expand(kernel, loop, chosen), behind)
    if not taken:
        return None
    touched = {r.buffer for n in taken for s in loop.units[n] for r in accesses(s)}
    chosen = tuple(o for o in chosen if o.name in touched)
    expanded, moved_loop = expand(kernel, loop, chosen)
    if not set(taken) <= set(_movable((expanded, moved_loop), behind)):
        return None
    axis, depth = loop.axis, loop.depth
    order = _ordered(taken, _order(Conflicts.of(expanded, in_order=True), moved_loop))
    out = tuple(_unordered(s, depth) for n in order for s in moved_loop.units[n])
    rest = tuple(s for n, unit in enumerate(moved_loop.units) if n not in taken for s in unit)
    middle = (*rest, *out) if behind else (*out, *rest)
    after = with_statements(expanded, (*moved_loop.before, *middle, *moved_loop.behind))
    if not accepted(kernel, after):
        return None
    steps = [
        f"expansion: `{o.name}` gets an axis for `{axis.name}`, for every iteration fills it anew"
        for o in chosen
    ]
    place = "behind" if behind else "in front of"
    steps += [
        f"fission: `{shown(s)}` moves {place} `seq {axis.name}` and runs over `{axis.name}` in any order"
        for n in order
        for s in moved_loop.units[n]
    ]
    return Rewrite(after, tuple(steps))


def _unordered(s: Statement, depth: int) -> Statement:
    """The statement with an ordered axis among its unordered ones."""
    return replace(
        s,
        axes=(s.sequence[depth], *s.axes),
        sequence=(*s.sequence[:depth], *s.sequence[depth + 1 :]),
        ordered_loops=(*s.ordered_loops[:depth], *s.ordered_loops[depth + 1 :]),
    )


def _movable(given: tuple[Kernel, Sequential], behind: bool) -> list[int]:
    """Numbers of the units that sums need (or that need sums) which may run in front of (behind) the loop.

    Only a sum is worth it: an elementwise statement stays where its data are.
    """
    kernel, loop = given
    order = _order(Conflicts.of(kernel, in_order=True), loop)
    reach = _closure(order)
    if behind:
        reach = [list(column) for column in zip(*reach, strict=True)]
    free = [
        n
        for n in range(len(reach))
        if not any(reach[m][m] and (m == n or reach[m][n]) for m in range(len(reach)))
    ]
    sums = [n for n in free if any(s.is_reduction and s.reduction_axes for s in loop.units[n])]
    return [n for n in range(len(reach)) if n in free and any(m == n or reach[n][m] for m in sums)]


def _order(of: Conflicts, loop: Sequential) -> list[list[bool]]:
    """order[i][j]: some iteration of unit i has to come before some iteration of unit j."""
    units = loop.units
    order = [[False] * len(units) for _ in units]
    for i, first in enumerate(units):
        for j, second in enumerate(units[i:], i):
            relation = _meetings(first, second, loop.depth, of)
            order[i][j] |= "<" in relation or (i < j and "=" in relation)
            order[j][i] |= ">" in relation
    return order


def _meetings(first: Unit, second: Unit, depth: int, of: Conflicts) -> Relation:
    found: Relation = frozenset()
    for a in first:
        for b in second:
            found |= meetings(a, b, depth, of)
            if found == ALWAYS:
                return found
    return found


def _closure(order: list[list[bool]]) -> list[list[bool]]:
    reach = [list(row) for row in order]
    for m, through in enumerate(reach):
        for row in reach:
            if row[m]:
                row[:] = [a or b for a, b in zip(row, through, strict=True)]
    return reach


def _ordered(taken: list[int], order: list[list[bool]]) -> list[int]:
    """The units so that each stands behind those that it needs, else as in the text."""
    left, found = list(taken), list[int]()
    while left:
        following = next(n for n in left if not any(order[m][n] for m in left if m != n))
        left.remove(following)
        found.append(following)
    return found


# --- expansion --------------------------------------------------------------------------------------------


def expandable(kernel: Kernel, loop: Sequential) -> tuple[Operand, ...]:
    """Temporaries of one ordered loop of which every iteration writes all elements before it reads any."""
    of = Conflicts.of(kernel)
    if not of.positive(loop.axis.extent):
        return ()
    outside = {r.buffer for s in (*loop.before, *loop.behind) for r in accesses(s)}
    return tuple(
        o
        for o in kernel.operands
        if o.role == "temp" and o.strides is None and o.name not in outside and _is_filled_first(o, loop, of)
    )


def _is_filled_first(operand: Operand, loop: Sequential, of: Conflicts) -> bool:
    filling: list[Statement] = []
    for s in loop.inside:
        touched = [r for r in accesses(s) if r.buffer == operand.name]
        if not touched:
            continue
        if s.assign.op is not None or len(touched) > 1:
            break
        if s.assign.target.buffer != operand.name:
            break
        if not all(of.positive(a.extent) for a in (*s.sequence[loop.depth + 1 :], *s.axes)):
            break
        filling.append(s)
    return writes_all(filling, operand, of)


def expand(kernel: Kernel, loop: Sequential, operands: Sequence[Operand]) -> tuple[Kernel, Sequential]:
    """The kernel and the loop with an element of some operands for each iteration."""
    names = {o.name for o in operands}

    def change(read: Read) -> Read:
        if read.buffer not in names:
            return read
        return replace(read, index=(Index.of(loop.axis.name), *read.index))

    inside = tuple(map_accesses(s, change) for s in loop.inside)
    larger = tuple(
        replace(o, shape=(loop.axis.extent, *o.shape)) if o.name in names else o for o in kernel.operands
    )
    after = with_statements(kernel, (*loop.before, *inside, *loop.behind), larger)
    return after, replace(loop, inside=inside)
