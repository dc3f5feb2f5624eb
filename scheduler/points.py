"""Schedules that lie inside a box of decisions: what a floor may come true with.

    {"nest0.block.k": (64, 512), "nest0.order.m.k": (1, 1), ...}
    ->  {"nest0.block.k": 64, "nest0.order.m.k": 1, ...},  {"nest0.block.k": 512, ...}

A box leaves orders open that go in circles together, and sizes that do not go with how a sum is unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.scheduler.orders import agrees, first_order
from isamap.scheduler.space import Assignment, Space
from isamap.scheduler.sums import summed_axis

Ends = Mapping[str, tuple[int, int]]
"""The least and the largest value of each decision."""


def points(space: Space, ends: Ends) -> Iterator[Assignment]:
    """Up to two feasible assignments inside a box: of least values, and of largest ones.

    That there is none proves something only where each decision has one value. A box may hold what is not
    fixed, where no size or factor goes with what is.
    """
    seen: list[Assignment] = []
    for largest in (False, True):
        found = _point(space, ends, largest=largest)
        if found is None or found in seen or not agrees(found, space.fixed):
            continue
        if space.is_feasible(found):
            seen.append(found)
            yield found


def _point(space: Space, ends: Ends, *, largest: bool) -> dict[str, int] | None:
    found = {name: high if largest else low for name, (low, high) in ends.items()}
    made = {name: low for name, (low, high) in ends.items() if low == high}
    for axes, pairs in (
        (space.axes, space.order_pairs()),
        (space.register_axes, space.sweep_pairs()),
    ):
        order = first_order(axes[::-1] if largest else axes, pairs, made)
        if order is None:
            return None
        found |= order
    summed = summed_axis(space.option)
    if summed is not None:
        name = space.block(summed)
        low, high = ends[name]
        sizes = [s for s in space.blocks(summed, found[space.unroll(summed)]) if low <= s <= high]
        if not sizes:
            return None
        found[name] = max(sizes) if largest else min(sizes)
    return found
