"""Share equal parts of costs as one object, so that each is computed once and becomes one solver term.

    Add((times(2, a), times(2, a)))  with two products  ->  the same with one of them, twice

Readers of costs cache results by object identity. An integer and an equal float stay different, because
solvers distinguish them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import assert_never

from isamap.plan.cost.algebra import (
    Add,
    Cases,
    CeilDiv,
    Const,
    Cost,
    Decision,
    Max,
    Mul,
    OverBlocks,
    Threshold,
)


def share_equal_parts(cost: Cost) -> Cost:
    """Return the same expression, in which equal parts are the same object."""
    return _share(cost, {}, {})


def _share(cost: Cost, by_id: dict[int, Cost], by_form: dict[Hashable, Cost]) -> Cost:
    if id(cost) in by_id:
        return by_id[id(cost)]

    def all_of(parts: tuple[Cost, ...]) -> tuple[Cost, ...]:  # most parts are known: 15 of 16
        return tuple([by_id.get(id(part)) or _share(part, by_id, by_form) for part in parts])

    made: Cost
    form: Hashable
    match cost:
        case Const(value):
            made, form = cost, (type(value), value)
        case Decision(name):
            made, form = cost, name
        case Add(parts) | Mul(parts) | Max(parts):
            made = type(cost)(all_of(parts))
            form = type(cost), *map(id, made.parts)
        case CeilDiv(dividend, divisor):
            made = CeilDiv(*all_of((dividend, divisor)))
            form = CeilDiv, id(made.dividend), id(made.divisor)
        case Cases(decision, branches):
            own = all_of(tuple([part for _, part in branches]))
            made = Cases(decision, tuple(zip([key for key, _ in branches], own, strict=True)))
            form = decision, *((key, id(part)) for key, part in made.branches)
        case Threshold(load, limit, below, above):
            load, below, above = all_of((load, below, above))
            made = Threshold(load, limit, below, above)
            form = Threshold, id(load), limit, id(below), id(above)
        case OverBlocks(axes, body):
            made = OverBlocks(axes, _share(body, by_id, by_form))
            form = axes, id(made.body)
        case _:
            assert_never(cost)
    # What is kept by form stays alive, so that no two of these parts ever have one identity.
    by_id[id(cost)] = found = by_form.setdefault(form, made)
    return found
