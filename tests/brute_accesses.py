"""Access counts by walking a loop nest iteration by iteration: what the analytic counts have to equal.

Shares nothing with `isamap.plan.access_counts` but the data that goes in. Each level of each operand is a
set of elements; wherever the walk enters the place of a level, the elements that the loops inside touch are
found by walking them, and compared with the set.
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.ir import Index
from isamap.plan.access_counts import Convention, Refill
from isamap.plan.loop_nest import CountedOperand, LoopNest

Element = tuple[int, ...]
Place = dict[str, tuple[int, int]]


def walked_accesses(
    nest: LoopNest, convention: Convention
) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """(operand, level) → (reads, fills, updates, drains)."""
    found: dict[tuple[str, str], tuple[int, int, int, int]] = {}
    for operand in nest.operands:
        depths = [k.depth for k in operand.keeps] + [len(nest.loops)]
        inner: list[Refill] = [convention.refill] * len(operand.keeps)
        refills: list[Refill] = [*inner, convention.latch]
        moved = [_moved(nest, operand, d, r) for d, r in zip(depths[1:], refills[1:], strict=True)]
        filled = [0, *(sum(len(taken) for taken in takes) for takes in moved)]
        for i, keep in enumerate(operand.keeps):
            reads = filled[i + 1]
            if operand.role == "update" and not convention.first_read:
                seen: set[Element] = set()
                reads = 0
                for taken in moved[i]:
                    reads += len(taken & seen)
                    seen |= taken
            fills = filled[i]
            if operand.role == "update" and convention.first_read == "partial":
                back = [sum(map(len, takes)) > len(set[Element]().union(*takes)) for takes in moved]
                reads = reads if back[i] else 0
                fills = fills if i and back[i - 1] else 0
            writes = operand.role != "read"
            reads, fills = (0, 0) if operand.role == "write" else (reads, fills)
            counts = (reads, fills, filled[i + 1] if writes else 0, filled[i] if writes else 0)
            found[(operand.name, keep.level)] = counts
    return found


def walked_issues(nest: LoopNest) -> int:
    return sum(1 for _ in _places(nest, len(nest.loops)))


def _moved(nest: LoopNest, operand: CountedOperand, depth: int, refill: Refill) -> list[set[Element]]:
    """Return what a level takes at each entry of its place, in order."""
    has: set[Element] = set()
    taken: list[set[Element]] = []
    for place in _places(nest, depth):
        expected = _touched(operand, place)
        if refill == "entry":
            taken.append(expected)
        elif refill == "change":
            taken.append(expected if expected != has else set())
        else:
            taken.append(expected - has)
        has = expected
    return taken


def _places(nest: LoopNest, depth: int) -> Iterator[Place]:
    def walk(number: int, place: Place) -> Iterator[Place]:
        if number == depth:
            yield place
            return
        axis, step = nest.loops[number].axis, nest.loops[number].step
        start, end = place[axis]
        at = start
        while at < end:
            yield from walk(number + 1, place | {axis: (at, min(end, at + step))})
            at += step

    return walk(0, {axis: (0, extent) for axis, extent in nest.axes})


def _touched(operand: CountedOperand, place: Place) -> set[Element]:
    subscripts = [s for s in operand.subscripts if not isinstance(s, Index)]
    assert len(subscripts) == len(operand.subscripts), "brute force knows sums of axes"
    points: list[dict[str, int]] = [{}]
    for axis in sorted({a for s in subscripts for a, _ in s}):
        points = [point | {axis: x} for point in points for x in range(*place[axis])]
    return {tuple(sum(c * point[a] for a, c in s) for s in subscripts) for point in points}
