"""An ordered loop as several: one for each group of statements that need each other.

    seq t in T {                                  seq t in T { h[t + 1, j] = tanh(h[t, j]); }
      h[t + 1, j] = tanh(h[t, j]);        →       seq t in T { g[t + 1, j] = tanh(g[t, j] + h[t, j]); }
      g[t + 1, j] = tanh(g[t, j] + h[t, j]);
    }

Two layers of a recurrent network run one after the other then, instead of in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from isamap.ir import Kernel, Operand
from isamap.transform.conflicts import Conflicts
from isamap.transform.hoisting import expand, expandable
from isamap.transform.rewrite import Rewrite, accepted, accesses, with_statements
from isamap.transform.sequences import Needs, Sequential, closure, needs, sequential_loops, without_order
from isamap.transform.statements import Statement, statements

Group = tuple[int, ...]
"""Numbers of units that need each other, in the order of the text."""


def distributions(kernel: Kernel) -> Iterator[Rewrite]:
    """The kernel with one of its ordered loops as several, for each that falls apart."""
    for loop in sequential_loops(statements(kernel)):
        found = _distributed(kernel, loop)
        if found is not None:
            yield found


def _distributed(kernel: Kernel, loop: Sequential) -> Rewrite | None:
    chosen = expandable(kernel, loop)
    chosen = _shared(chosen, loop, _groups(*expand(kernel, loop, chosen)))
    expanded, inside = expand(kernel, loop, chosen)
    groups = _groups(expanded, inside)
    order = needs(Conflicts.of(expanded, in_order=True), inside)
    ordered = [g for g in groups if len(g) > 1 or any(order[n][n] for n in g)]
    if len(ordered) < 2:
        return None  # what needs no order is taken out of the loop by hoisting, where it is worth it
    numbers = count(1 + max(n for s in statements(kernel) for n in s.ordered_loops))
    parts: list[Statement] = []
    for group in groups:
        number = next(numbers)
        own = [s for n in group for s in inside.units[n]]
        parts += [
            _in_loop(s, loop.depth, number) if group in ordered else without_order(s, loop.depth) for s in own
        ]
    after = with_statements(expanded, (*loop.before, *parts, *loop.behind))
    if not accepted(kernel, after):
        return None
    name = loop.axis.name
    steps = [
        f"expansion: `{o.name}` gets an axis for `{name}`, for every iteration fills it anew" for o in chosen
    ]
    steps.append(f"fission: `seq {name}` becomes {len(groups)} loops, of which {len(ordered)} are ordered")
    return Rewrite(after, tuple(steps))


def _groups(kernel: Kernel, loop: Sequential) -> list[Group]:
    """The units that need each other, each group behind those that it needs."""
    order = needs(Conflicts.of(kernel, in_order=True), loop)
    reach = closure(order)
    units = range(len(order))
    left = list(
        dict.fromkeys(tuple(m for m in units if m == n or (reach[n][m] and reach[m][n])) for n in units)
    )
    found: list[Group] = []
    while left:
        following = next(g for g in left if not any(_needs(g, other, reach) for other in left if other != g))
        left.remove(following)
        found.append(following)
    return found


def _needs(group: Group, other: Group, reach: Needs) -> bool:
    return any(reach[m][n] for m in other for n in group)


def _shared(chosen: Sequence[Operand], loop: Sequential, groups: list[Group]) -> tuple[Operand, ...]:
    """The temporaries that more than one group uses: the others pass nothing on."""
    used = [{r.buffer for n in g for s in loop.units[n] for r in accesses(s)} for g in groups]
    return tuple(o for o in chosen if sum(o.name in names for names in used) > 1)


def _in_loop(s: Statement, depth: int, number: int) -> Statement:
    """The statement in an ordered loop of another number."""
    return replace(s, ordered_loops=(*s.ordered_loops[:depth], number, *s.ordered_loops[depth + 1 :]))
