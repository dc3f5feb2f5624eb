"""How large an instruction is issued whose lengths are parameters: rows of a tile, lanes of a vector."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from functools import lru_cache
from math import prod

from isamap.ir import Index
from isamap.match.instructions import Pattern
from isamap.match.mapping import Mapping
from isamap.match.params import Params, extents_of, holds, solve
from isamap.match.preconditions import largest
from isamap.transform import Statement


def choose_params(
    statement: Statement, mapping: Mapping, pattern: Pattern, profile: MappingType[str, int]
) -> Params:
    """Values of `choose` parameters: as large as the kernel fills, at most what the instruction allows.

    Lengths that an issue says at run time are as large as they may be: where less is left, lanes are padded.
    """
    asked = _asked(pattern)
    filled = [
        (
            group.instruction_axes,
            prod([_extent(statement.axis(a).extent, profile) for a in group.kernel_axes]),
        )
        for group in mapping.groups
        if not asked.isdisjoint(group.instruction_axes)
    ]
    return dict(_chosen(pattern, tuple(filled)))


@lru_cache(maxsize=4096)
def _asked(pattern: Pattern) -> frozenset[str]:
    """The axes whose lengths are chosen."""
    chosen = {p.name for p in pattern.instruction.params if p.kind == "choose"}
    return frozenset(axis.name for axis in pattern.axes if axis.extent.symbols & chosen)


@lru_cache(maxsize=1 << 14)
def _chosen(pattern: Pattern, filled: tuple[tuple[tuple[str, ...], int], ...]) -> tuple[tuple[str, int], ...]:
    """The parameters where the kernel has so many iterations for these axes together."""
    chosen = full_lengths(pattern)
    group_of = {axis: (axes, count) for axes, count in filled for axis in axes}
    for axis in pattern.axes:
        extent = axis.extent.substitute(chosen)
        if extent.value is not None or len(extent.symbols) != 1:
            continue
        (symbol,) = extent.symbols
        param = pattern.instruction.param(symbol)
        if param.kind != "choose":
            continue
        high = param.high.value if param.high is not None and param.high.value is not None else 1
        low = param.low.value if param.low is not None and param.low.value is not None else 1
        group = group_of.get(axis.name)
        if group is None:
            chosen[symbol] = low
            continue
        together, needed = group
        others = [a for a in pattern.axes if a.name in together and a.name != axis.name]
        needed = -(-needed // prod(a.extent.substitute(chosen).value or 1 for a in others))
        coefficient = extent.coefficient(symbol)
        step = coefficient.value if coefficient is not None and coefficient.value else 1
        chosen[symbol] = max(low, min(high, -(-needed // step)))
    for param in pattern.instruction.params:
        if param.kind == "choose" and param.name not in chosen:
            for operand in pattern.instruction.operands:
                for s in operand.shape:
                    alone = s.symbols == frozenset({param.name}) and solve(s, 1) is None
                    if alone and param.low and param.low.value:
                        chosen.setdefault(param.name, param.low.value)
    if not holds(pattern, chosen):  # as with `where L == 8` and 4 to be done: the other lanes are padded
        most = largest(pattern.instruction)
        longer = {name: most.get(name, value) for name, value in chosen.items()}
        chosen = longer if holds(pattern, longer) else chosen
    return tuple(chosen.items())


def full_lengths(pattern: Pattern) -> Params:
    """The largest value of each parameter that is the run-time length of an axis, where it is a number."""
    _, lengths = extents_of(pattern, {})
    highest = {name: pattern.instruction.param(name).high for name in lengths.values()}
    return {name: high.value for name, high in highest.items() if high is not None and high.value is not None}


def _extent(extent: Index, profile: MappingType[str, int]) -> int:
    """The extent at the profile's sizes; one in which open sizes may cancel, `H - R + 1`, is large."""
    if extent.value is None and len(extent.terms) > 1:
        return max(profile.values())
    value = extent.substitute(profile).value
    assert value is not None, "extents are numbers once sizes have their profile values"
    return value
