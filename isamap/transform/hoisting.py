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
from dataclasses import replace

from isamap.ir import Index, Kernel, Operand, Read
from isamap.transform.conflicts import Conflicts, writes_all
from isamap.transform.rewrite import Rewrite, accepted, accesses, map_accesses, shown, with_statements
from isamap.transform.sequences import (
    Sequential,
    closure,
    in_needed_order,
    needs,
    sequential_loops,
    without_order,
)
from isamap.transform.statements import Statement, statements


def hoistings(kernel: Kernel) -> Iterator[Rewrite]:
    """The kernel with sums moved out of one of its ordered loops, for each loop that has such."""
    for loop in sequential_loops(statements(kernel)):
        for behind in (False, True):
            found = _hoisted(kernel, loop, behind=behind)
            if found is not None:
                yield found


# --- taking out -------------------------------------------------------------------------------------------


def _hoisted(kernel: Kernel, loop: Sequential, *, behind: bool) -> Rewrite | None:
    """Sums moved in front of a loop, or behind it, with what they need (or what needs them)."""
    chosen = expandable(kernel, loop)
    taken = movable(*expand(kernel, loop, chosen), behind=behind)
    if not taken:
        return None
    touched = {r.buffer for n in taken for s in loop.units[n] for r in accesses(s)}
    chosen = tuple(o for o in chosen if o.name in touched)
    expanded, moved_loop = expand(kernel, loop, chosen)
    if not set(taken) <= set(movable(expanded, moved_loop, behind=behind)):
        return None
    name = loop.axis.name
    steps = [
        f"expansion: `{o.name}` gets an axis for `{name}`, for every iteration fills it anew" for o in chosen
    ]
    return moved_out(kernel, expanded, moved_loop, taken, steps, behind=behind)


def moved_out(
    before: Kernel, kernel: Kernel, loop: Sequential, taken: list[int], steps: list[str], *, behind: bool
) -> Rewrite | None:
    """The kernel with units of a loop in front of it, or behind it, where their axis has no order."""
    order = in_needed_order(taken, needs(Conflicts.of(kernel, in_order=True), loop))
    out = tuple(without_order(s, loop.depth) for n in order for s in loop.units[n])
    rest = tuple(s for n, unit in enumerate(loop.units) if n not in taken for s in unit)
    middle = (*rest, *out) if behind else (*out, *rest)
    after = with_statements(kernel, (*loop.before, *middle, *loop.behind))
    if not accepted(before, after):
        return None
    place, name = "behind" if behind else "in front of", loop.axis.name
    steps = steps + [
        f"fission: `{shown(s)}` moves {place} `seq {name}` and runs over `{name}` in any order"
        for n in order
        for s in loop.units[n]
    ]
    return Rewrite(after, tuple(steps))


def movable(kernel: Kernel, loop: Sequential, *, behind: bool, only: int | None = None) -> list[int]:
    """Numbers of the units that sums need (or that need sums) which may run in front of (behind) the loop.

    Only a sum is worth it: an elementwise statement stays where its data are. `only` asks about one sum.
    """
    order = needs(Conflicts.of(kernel, in_order=True), loop)
    reach = closure(order)
    if behind:
        reach = [list(column) for column in zip(*reach, strict=True)]
    free = [
        n
        for n in range(len(reach))
        if not any(reach[m][m] and (m == n or reach[m][n]) for m in range(len(reach)))
    ]
    sums = [n for n in free if any(s.is_reduction and s.reduction_axes for s in loop.units[n])]
    sums = sums if only is None else [n for n in sums if n == only]
    return [n for n in range(len(reach)) if n in free and any(m == n or reach[n][m] for m in sums)]


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
