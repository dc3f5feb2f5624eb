"""Share equal parts of costs as one object, so that each is computed once and becomes one solver term.

    Add((times(2, a), times(2, a)))  with two products  ->  the same with one of them, twice

Readers of costs cache results by object identity. An integer and an equal float stay different, because
solvers distinguish them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import assert_never

from isamap.plan.cost import algebra


def share_equal_parts(cost: algebra.Cost) -> algebra.Cost:
    """Return the same expression, in which equal parts are the same object."""
    return _share(cost, {}, {})


def _share(
    cost: algebra.Cost, by_id: dict[int, algebra.Cost], by_form: dict[Hashable, algebra.Cost]
) -> algebra.Cost:
    if id(cost) in by_id:
        return by_id[id(cost)]

    def all_of(parts: tuple[algebra.Cost, ...]) -> tuple[algebra.Cost, ...]:  # most parts are known: 15 of 16
        return tuple([by_id.get(id(part)) or _share(part, by_id, by_form) for part in parts])

    made: algebra.Cost
    form: Hashable
    match cost:
        case algebra.Const(value):
            made, form = cost, (type(value), value)
        case algebra.Decision(name):
            made, form = cost, name
        case algebra.Add(parts) | algebra.Mul(parts) | algebra.Max(parts):
            made = type(cost)(all_of(parts))
            form = type(cost), *map(id, made.parts)
        case algebra.CeilDiv(dividend, divisor):
            made = algebra.CeilDiv(*all_of((dividend, divisor)))
            form = algebra.CeilDiv, id(made.dividend), id(made.divisor)
        case algebra.Cases(decision, branches):
            own = all_of(tuple([part for _, part in branches]))
            made = algebra.Cases(decision, tuple(zip([key for key, _ in branches], own, strict=True)))
            form = decision, *((key, id(part)) for key, part in made.branches)
        case algebra.Threshold(load, limit, below, above):
            load, below, above = all_of((load, below, above))
            made = algebra.Threshold(load, limit, below, above)
            form = algebra.Threshold, id(load), limit, id(below), id(above)
        case algebra.OverBlocks(axes, body):
            made = algebra.OverBlocks(axes, _share(body, by_id, by_form))
            form = axes, id(made.body)
        case _:
            assert_never(cost)
    # What is kept by form stays alive, so that no two of these parts ever have one identity.
    by_id[id(cost)] = found = by_form.setdefault(form, made)
    return found
