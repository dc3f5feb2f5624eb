"""Between what a cost lies in one box, number by number: bounds of many boxes are held against it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import assert_never

from isamap.plan.cost import (
    Add,
    Cases,
    CeilDiv,
    Const,
    Cost,
    Decision,
    Max,
    Mul,
    Number,
    OverBlocks,
    Threshold,
    block_classes,
)

Interval = tuple[Number, Number]


def bounds(cost: Cost, ranges: Mapping[str, tuple[int, int]]) -> Interval:
    """Between what an expression lies when each decision lies in its range: proven, not always tight."""
    return _bounds(cost, ranges, {})


def _bounds(cost: Cost, ranges: Mapping[str, tuple[int, int]], known: dict[int, Interval]) -> Interval:
    if id(cost) in known:
        return known[id(cost)]
    match cost:
        case Const(value):
            return value, value
        case Decision(name):
            return ranges[name]
        case Add(parts):
            pairs = [_bounds(part, ranges, known) for part in parts]
            value = sum(low for low, _ in pairs), sum(high for _, high in pairs)
        case Mul(parts):
            pairs = [_bounds(part, ranges, known) for part in parts]
            value = prod(low for low, _ in pairs), prod(high for _, high in pairs)
        case Max(parts):
            pairs = [_bounds(part, ranges, known) for part in parts]
            value = max(low for low, _ in pairs), max(high for _, high in pairs)
        case CeilDiv(dividend, divisor):
            (low, high), (small, large) = (_bounds(part, ranges, known) for part in (dividend, divisor))
            value = -(-low // large), -(-high // small)
        case Cases(decision, branches):
            first, last = ranges[decision]
            pairs = [_bounds(part, ranges, known) for key, part in branches if first <= key <= last]
            value = min(low for low, _ in pairs), max(high for _, high in pairs)
        case Threshold(load, limit, below, above):
            low, high = _bounds(load, ranges, known)
            under, over = _bounds(below, ranges, known), _bounds(above, ranges, known)
            value = over if low > limit else under if high <= limit else (under[0], over[1])
        case OverBlocks(axes, body):
            value = _bounds_over_blocks(axes, body, ranges)
        case _:
            assert_never(cost)
    known[id(cost)] = value
    return value


def _bounds_over_blocks(
    axes: tuple[tuple[str, int], ...], body: Cost, ranges: Mapping[str, tuple[int, int]]
) -> Interval:
    """Return where the sizes of blocks are given, their sum; else as few or many as there may be, of any size."""
    spans = [ranges[name] for name, _ in axes]
    if all(low == high for low, high in spans):
        given = {name: low for (name, _), (low, _) in zip(axes, spans, strict=True)}
        found = [
            (n, _bounds(body, {**ranges, **{name: (made[name], made[name]) for name in given}}, {}))
            for n, made in block_classes(axes, given)
        ]
        return sum(n * low for n, (low, _) in found), sum(n * high for n, (_, high) in found)
    least, most = _bounds(body, {**ranges, **{name: (1, ranges[name][1]) for name, _ in axes}}, {})
    few, many = (
        prod(-(-issues // span[end]) for (_, issues), span in zip(axes, spans, strict=True)) for end in (1, 0)
    )
    return few * least, many * most
