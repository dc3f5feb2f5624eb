"""A sum over several gates as one sum for each, right in front of what needs it.

    for g in 2, j in H, k in H { u[g, j] += h[k] * U[g, k, j]; }   for j in H, k in H { u[0, j] += …; }
    for j in H { r[j] = sigmoid(u[0, j]); }                     →  for j in H { r[j] = sigmoid(u[0, j]); }
    for j in H { v[j] = tanh(r[j] * u[1, j]); }                    for j in H, k in H { u[1, j] += …; }
                                                                   for j in H { v[j] = tanh(r[j] * u[1, j]); }

The opposite of batching. Each gate's elements can be finished then where its sum is held
(`isamap.transform.companions`): with one sum for all, no tile has all that a gate needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isamap.ir import Index, Kernel, substitute_stmt
from isamap.ir.nodes import Assign
from isamap.transform.conflicts import Conflicts, is_wide, never_meet
from isamap.transform.rewrite import Rewrite, accepted, accesses, shown, with_statements
from isamap.transform.statements import Statement, statements

MOST_PARTS = 8
"""Of an axis with more values there are no statements of its own for each."""


def partings(kernel: Kernel) -> Iterator[Rewrite]:
    """The kernel with one of its sums parted, for each of which others need single values of an axis."""
    given = statements(kernel)
    for number, s in enumerate(given):
        dimension = _parted_dimension(given, number)
        # What accumulates in a wider type is rounded as a whole: one statement stays one.
        if dimension is None or is_wide(kernel.operand(s.assign.target.buffer)):
            continue
        after = with_statements(kernel, _parted(kernel, given, s, dimension))
        if accepted(kernel, after):
            count, axis = _axis_at(s, dimension) or (0, "")
            step = f"`{shown(s)}` becomes {count} statements, one for each `{axis}`"
            yield Rewrite(after, (f"parting: {step}, in front of what needs it",))


def _parted_dimension(given: tuple[Statement, ...], number: int) -> int | None:
    """The dimension of a sum's array of which a later statement beside it needs one value only."""
    s = given[number]
    if s.assign.op is None or not s.reduction_axes or s.assign.guard is not None:
        return None
    target = s.assign.target
    beside = [t for t in given[number + 1 :] if t.ordered_loops == s.ordered_loops]
    needed = [r for t in beside for r in accesses(t)[1:] if r.buffer == target.buffer]
    for dimension in range(len(target.index)):
        found = _axis_at(s, dimension)
        if found is not None and any(r.index[dimension].value is not None for r in needed):
            return dimension
    return None


def _axis_at(s: Statement, dimension: int) -> tuple[int, str] | None:
    """The number of values and the name of the axis that is one of a target's subscripts, and in no other."""
    index = s.assign.target.index
    name = str(index[dimension])
    extent = next((a.extent.value for a in s.axes if a.name == name), None)
    elsewhere = any(name in i.symbols for d, i in enumerate(index) if d != dimension)
    return (extent, name) if extent is not None and 1 < extent <= MOST_PARTS and not elsewhere else None


def _parted(
    kernel: Kernel, given: tuple[Statement, ...], s: Statement, dimension: int
) -> tuple[Statement, ...]:
    """The statements with those beside `s` that write its array parted, each as late as it can stand."""
    of, buffer = Conflicts.of(kernel), s.assign.target.buffer
    found: list[Statement] = []
    moved: list[Statement] = []
    for t in given:
        is_beside = t.ordered_loops == s.ordered_loops and t.assign.target.buffer == buffer
        axis = _axis_at(t, dimension) if is_beside else None
        parts = [t] if axis is None else [_of_one(t, axis[1], n) for n in range(axis[0])]
        found += parts
        moved += parts if axis is not None else []
    for part in reversed(moved):
        _sink(found, part, of)
    return tuple(found)


def _of_one(s: Statement, axis: str, value: int) -> Statement:
    """The statement for one value of an axis."""
    assign = substitute_stmt(s.assign, {axis: Index.of(value)})
    assert isinstance(assign, Assign)
    return replace(s, axes=tuple(a for a in s.axes if a.name != axis), assign=assign)


def _sink(order: list[Statement], s: Statement, of: Conflicts) -> None:
    """Moves a statement behind those that follow it, up to the first that it has to stay in front of."""
    at = next(n for n, t in enumerate(order) if t is s)
    to = at
    while to + 1 < len(order) and order[to + 1].ordered_loops == s.ordered_loops:
        if not never_meet(s, order[to + 1], of):
            break
        to += 1
    else:
        return  # no statement here needs it
    order.insert(to, order.pop(at))
