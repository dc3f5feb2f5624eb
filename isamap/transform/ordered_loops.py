"""Hoist statements without loop-carried dependences out of an ordered loop, to run over all its iterations.

    seq t in T {                                  for t in T, j in H, c in C { x[t, j] += X[t, c] * W[c, j]; }
      x[j] = 0;                                   seq t in T {
      x[j] += X[t, c] * W[c, j];          →         h[j] = tanh(x[t, j] + h[j]);
      h[j] = tanh(x[j] + h[j]);                   }
    }

A temporary that every iteration fills anew before it is read gets an axis for the loop (*expansion*). Then
statements form groups that depend on themselves from one iteration to the next, and statements that do not
(Allen and Kennedy's loop distribution); sums among the latter move before or after the loop.

Loop distribution makes several loops of an ordered one: one for each group of mutually dependent statements.

    seq t in T {                                  seq t in T { h[t + 1, j] = tanh(h[t, j]); }
      h[t + 1, j] = tanh(h[t, j]);        →       seq t in T { g[t + 1, j] = tanh(g[t, j] + h[t, j]); }
      g[t + 1, j] = tanh(g[t, j] + h[t, j]);
    }

Two layers of a recurrent network then run one after the other instead of alternating.

Retention stores overwritten values for all iterations, so that sums of them can run outside the loop.

    seq t in T {                                     seq t in T {
      h[j] = tanh(x[t, j] + h[j]);                     h[j] = tanh(x[t, j] + h[j]);
      Y[t, k] += h[j] * V[j, k];         →             h_all[t, j] = h[j];
    }                                                }
                                                     for t in T { Y[t, k] += h_all[t, j] * V[j, k]; }

The projection of a recurrent state is then one product over all time steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from isamap.ir import Assign, Axis, Index, Kernel, Operand, Read
from isamap.source.records import replace
from isamap.transform import rewrite
from isamap.transform.shared_elements import (
    Conflicts,
    Needs,
    Sequential,
    closure,
    in_needed_order,
    needs,
    sequential_loops,
    without_order,
    writes_all,
)
from isamap.transform.statements import Statement, statements


def hoistings(kernel: Kernel) -> Iterator[rewrite.Rewrite]:
    """Yield the kernel with sums moved out of an ordered loop, for each loop with sums to move."""
    for loop in sequential_loops(statements(kernel)):
        for behind in (False, True):
            found = _hoist_sums(kernel, loop, behind=behind)
            if found is not None:
                yield found


# --- taking out -------------------------------------------------------------------------------------------


def _hoist_sums(kernel: Kernel, loop: Sequential, *, behind: bool) -> rewrite.Rewrite | None:
    """Return the kernel with sums moved before or after a loop, with the statements that must move along."""
    chosen = find_expandable(kernel, loop)
    taken = movable(*expand(kernel, loop, chosen), behind=behind)
    if not taken:
        return None
    touched = {r.buffer for n in taken for s in loop.units[n] for r in rewrite.accesses(s)}
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
) -> rewrite.Rewrite | None:
    """Return the kernel with units of a loop moved before or after it, with the axis unordered there."""
    order = in_needed_order(taken, needs(Conflicts.of(kernel, in_order=True), loop))
    out = tuple(without_order(s, loop.depth) for n in order for s in loop.units[n])
    rest = tuple(s for n, unit in enumerate(loop.units) if n not in taken for s in unit)
    middle = (*rest, *out) if behind else (*out, *rest)
    after = rewrite.with_statements(kernel, (*loop.before, *middle, *loop.behind))
    if not rewrite.is_accepted(before, after):
        return None
    place, name = "behind" if behind else "in front of", loop.axis.name
    steps = steps + [
        f"fission: `{rewrite.line_of(s)}` moves {place} `seq {name}` and runs over `{name}` in any order"
        for n in order
        for s in loop.units[n]
    ]
    return rewrite.Rewrite(after, tuple(steps))


def movable(kernel: Kernel, loop: Sequential, *, behind: bool, only: int | None = None) -> list[int]:
    """Return the units that sums need and that may run before the loop, or the reverse if `behind`.

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


def find_expandable(kernel: Kernel, loop: Sequential) -> tuple[Operand, ...]:
    """Return the temporaries of an ordered loop that every iteration writes completely before reading."""
    of = Conflicts.of(kernel)
    if not of.positive(loop.axis.extent):
        return ()
    outside = {r.buffer for s in (*loop.before, *loop.behind) for r in rewrite.accesses(s)}
    return tuple(
        o
        for o in kernel.operands
        if o.role == "temp" and o.strides is None and o.name not in outside and _is_filled_first(o, loop, of)
    )


def _is_filled_first(operand: Operand, loop: Sequential, of: Conflicts) -> bool:
    filling: list[Statement] = []
    for s in loop.inside:
        touched = [r for r in rewrite.accesses(s) if r.buffer == operand.name]
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
    """Return the kernel and the loop with a copy of some operands for each iteration."""
    names = {o.name for o in operands}

    def change(read: Read) -> Read:
        if read.buffer not in names:
            return read
        return replace(read, index=(Index.of(loop.axis.name), *read.index))

    inside = tuple(rewrite.map_accesses(s, change) for s in loop.inside)
    larger = tuple(
        replace(o, shape=(loop.axis.extent, *o.shape)) if o.name in names else o for o in kernel.operands
    )
    after = rewrite.with_statements(kernel, (*loop.before, *inside, *loop.behind), larger)
    return after, replace(loop, inside=inside)


Group = tuple[int, ...]
"""Numbers of units that need each other, in the order of the text."""


def distributions(kernel: Kernel) -> Iterator[rewrite.Rewrite]:
    """Yield the kernel with one ordered loop distributed into several, for each loop that allows it."""
    for loop in sequential_loops(statements(kernel)):
        found = _distribute_loop(kernel, loop)
        if found is not None:
            yield found


def _distribute_loop(kernel: Kernel, loop: Sequential) -> rewrite.Rewrite | None:
    chosen = find_expandable(kernel, loop)
    chosen = _shared_temporaries(chosen, loop, _groups(*expand(kernel, loop, chosen)))
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
    after = rewrite.with_statements(expanded, (*loop.before, *parts, *loop.behind))
    if not rewrite.is_accepted(kernel, after):
        return None
    name = loop.axis.name
    steps = [
        f"expansion: `{o.name}` gets an axis for `{name}`, for every iteration fills it anew" for o in chosen
    ]
    steps.append(f"fission: `seq {name}` becomes {len(groups)} loops, of which {len(ordered)} are ordered")
    return rewrite.Rewrite(after, tuple(steps))


def _groups(kernel: Kernel, loop: Sequential) -> list[Group]:
    """Return the groups of mutually dependent units, each after those that it needs."""
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


def _shared_temporaries(
    chosen: Sequence[Operand], loop: Sequential, groups: list[Group]
) -> tuple[Operand, ...]:
    """Return the temporaries that more than one group uses."""
    used = [{r.buffer for n in g for s in loop.units[n] for r in rewrite.accesses(s)} for g in groups]
    return tuple(o for o in chosen if sum(o.name in names for names in used) > 1)


def _in_loop(s: Statement, depth: int, number: int) -> Statement:
    """Return the statement in an ordered loop with another number."""
    return replace(s, ordered_loops=(*s.ordered_loops[:depth], number, *s.ordered_loops[depth + 1 :]))


def retentions(kernel: Kernel) -> Iterator[rewrite.Rewrite]:
    """Yield the kernel with one sum moved after its ordered loop, for each sum whose inputs can be copied."""
    for loop in sequential_loops(statements(kernel)):
        if not Conflicts.of(kernel).positive(loop.axis.extent):
            continue
        free = movable(kernel, loop, behind=True)
        for n, unit in enumerate(loop.units):
            if n not in free and len(unit) == 1 and unit[0].is_reduction and unit[0].reduction_axes:
                found = _retain_inputs(kernel, loop, unit[0])
                if found is not None:
                    yield found


def _retain_inputs(kernel: Kernel, loop: Sequential, s: Statement) -> rewrite.Rewrite | None:
    """Return the kernel with copies of a sum's changing inputs, and the sum after the loop, or None."""
    changed = {t.assign.target.buffer for t in loop.inside} - {s.assign.target.buffer}
    names = [n for n in dict.fromkeys(r.buffer for r in rewrite.accesses(s)) if n in changed]
    if not names:
        return None
    kept: dict[str, Operand] = {}
    for name in names:
        taken = replace(kernel, operands=(*kernel.operands, *kept.values()))
        o = kernel.operand(name)
        shape = (loop.axis.extent, *o.shape)
        kept[name] = Operand(rewrite.free_name(taken, f"{name}_all"), "temp", o.dtype, shape)
    t = Index.of(loop.axis.name)

    def change(read: Read) -> Read:
        if read.buffer not in kept:
            return read
        return replace(read, buffer=kept[read.buffer].name, index=(t, *read.index))

    at = loop.inside.index(s)
    copies = [_copy(kernel, s, kernel.operand(n), kept[n], t) for n in names]
    inside = (*loop.inside[:at], *copies, rewrite.map_accesses(s, change), *loop.inside[at + 1 :])
    longer = replace(loop, inside=inside)
    operands = (*kernel.operands, *kept.values())
    changed_kernel = rewrite.with_statements(kernel, (*loop.before, *inside, *loop.behind), operands)
    return _behind(kernel, changed_kernel, longer, inside[at + len(copies)], names)


def _behind(
    before: Kernel, kernel: Kernel, loop: Sequential, s: Statement, names: Sequence[str]
) -> rewrite.Rewrite | None:
    number = next(n for n, unit in enumerate(loop.units) if unit == (s,))
    if movable(kernel, loop, behind=True, only=number) != [number]:
        return None
    steps = [f"retention: `{n}` of every iteration of `{loop.axis.name}` is stored" for n in names]
    return moved_out(before, kernel, loop, [number], steps, behind=True)


def _copy(kernel: Kernel, s: Statement, source: Operand, target: Operand, t: Index) -> Statement:
    """Return a statement that copies all elements of an array to the place of an iteration."""
    own = rewrite.with_statements(kernel, [s])
    names = [rewrite.free_name(own, f"e{d}") for d in range(len(source.shape))]
    axes = tuple(Axis(n, e) for n, e in zip(names, source.shape, strict=True))
    here = tuple(Index.of(n) for n in names)
    assign = Assign(Read(target.name, (t, *here), target.dtype), None, Read(source.name, here, source.dtype))
    return replace(s, axes=axes, assign=assign, accumulator=target.dtype)
