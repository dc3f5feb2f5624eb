"""The loops of a mapping before its operands are known: their tiles and extents.

A statement has hundreds of mappings, most of which are discarded, but few different loops. Therefore loops
are built once and shared. The module also chooses the lengths of instructions whose lengths are parameters:
rows of a tile, lanes of a vector.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from functools import lru_cache
from itertools import pairwise
from math import prod

from isamap.ir import ZERO, Index, Operand, Read, typical_value
from isamap.match.mappings.exact import largest_parameters
from isamap.match.mappings.mapping import AxisGroup, Mapping
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.patterns.address import address_of, operand_strides
from isamap.match.patterns.pattern import Pattern, encoded_values
from isamap.match.patterns.reach import Params, extents_of, is_allowed, solve
from isamap.match.patterns.unify import read_twice
from isamap.source.records import dataclass, field
from isamap.transform import Statement

# Lengths that are looked at where not all are allowed.
MOST_LENGTHS = 4096


def choose_params(
    statement: Statement, mapping: Mapping, pattern: Pattern, profile: MappingType[str, int]
) -> Params:
    """Return the values of `choose` parameters: as large as the kernel fills, within the instruction's limits.

    Run-time lengths of an issue are as large as possible. A remainder is padded.
    """
    asked = _asked_axes(pattern)
    filled = [
        (
            group.instruction_axes,
            prod([_extent(statement.axis(a).extent, profile) for a in group.kernel_axes]),
        )
        for group in mapping.groups
        if not asked.isdisjoint(group.instruction_axes)
    ]
    # 1 as the run-time length of axes without loops, along which operands have one element.
    _, lengths = extents_of(pattern, {})
    shapes = {str(extent) for operand in pattern.instruction.operands for extent in operand.shape}
    used = {param for axis, param in lengths.items() if axis not in mapping.empty}
    alone = {lengths[axis] for axis in mapping.empty if axis in lengths} & shapes - used
    chosen = dict(_choose_parameters(pattern, tuple(filled))) | {
        param: 1 for param in alone if is_allowed(pattern, {param: 1})
    }
    return chosen | (_lengths_of_whole(statement, mapping, pattern) if statement.assign.op is None else {})


def _lengths_of_whole(statement: Statement, mapping: Mapping, pattern: Pattern) -> Params:
    """Return run-time lengths for a short kernel axis that several axes of an instruction run over.

    960 values on rows of 16 are 60 rows: with the largest number of rows, an issue would compute the padding, too.
    Fewer rows than columns would be many short issues. Mappings of other axes have longer ones.
    """
    (_, lengths), most, found = extents_of(pattern, {}), full_lengths(pattern), Params()
    sizes = {axis.name: axis.extent.substitute(most).value for axis in pattern.axes}
    for group in mapping.groups:
        extents = [statement.axis(a).extent.value or 0 for a in group.kernel_axes]
        others = [sizes[a] or 0 for a in group.instruction_axes if a not in lengths]
        params = [lengths[a] for a in group.instruction_axes if a in lengths]
        if len(params) == 1 and prod(others) > 1 and all(extents):
            needed = -(-prod(extents) // prod(others))
            is_long = prod(others) <= needed < most.get(params[0], 0)
            if is_long and is_allowed(pattern, {params[0]: needed}):
                found[params[0]] = needed
    return found


@lru_cache(maxsize=4096)
def _asked_axes(pattern: Pattern) -> frozenset[str]:
    """Return the axes whose lengths are parameters to be chosen."""
    chosen = {p.name for p in pattern.instruction.params if p.kind == "choose"}
    return frozenset(axis.name for axis in pattern.axes if axis.extent.symbols & chosen)


@lru_cache(maxsize=1 << 14)
def _choose_parameters(
    pattern: Pattern, filled: tuple[tuple[tuple[str, ...], int], ...]
) -> tuple[tuple[str, int], ...]:
    """Return the parameters for given numbers of iterations of these axes."""
    chosen, needs = full_lengths(pattern), list[tuple[str, int]]()
    group_of = {axis: (axes, count) for axes, count in filled for axis in axes}
    for axis in pattern.axes:
        extent = axis.extent.substitute(chosen)
        if extent.value is not None or len(extent.symbols) != 1:
            continue
        (symbol,) = extent.symbols
        param = pattern.instruction.param(symbol)
        if param.kind != "choose":
            continue
        low, high = _limits(pattern, symbol)
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
        needs.append((symbol, -(-needed // step)))
    for param in pattern.instruction.params:
        if param.kind == "choose" and param.name not in chosen:
            for operand in pattern.instruction.operands:
                for s in operand.shape:
                    alone = s.symbols == frozenset({param.name}) and solve(s, 1) is None
                    if alone and param.low and param.low.value:
                        chosen.setdefault(param.name, param.low.value)
    return tuple(_allowed_parameters(pattern, chosen, dict(needs)).items())


def _allowed_parameters(pattern: Pattern, chosen: Params, needs: MappingType[str, int]) -> Params:
    """Return the parameters, or near values that the instruction allows.

    If not every length is allowed (`where M % 32 == 0`), the remainder is padded. Among the lengths of at
    least half the desired one, the one with the least padding wins, and among equals the largest.
    """
    for name, needed in needs.items():
        low, high = _limits(pattern, name)
        lengths = range(max(low, min(needed, high) // 2), min(high, MOST_LENGTHS) + 1)
        allowed = [n for n in lengths if is_allowed(pattern, {**chosen, name: n})]
        if 0 < len(allowed) < len(lengths):
            return {**chosen, name: min(allowed, key=lambda n: (-(-needed // n) * n, -n))}
    if is_allowed(pattern, chosen):
        return chosen
    most = largest_parameters(
        pattern.instruction
    )  # as with `where L == 8` and 4 to be done: the other lanes are padded
    longer = {name: most.get(name, value) for name, value in chosen.items()}
    return longer if is_allowed(pattern, longer) else chosen


def _limits(pattern: Pattern, name: str) -> tuple[int, int]:
    """Return the least and the greatest value of a parameter. A missing limit counts as 1."""
    param = pattern.instruction.param(name)
    low, high = (end.value if end is not None else None for end in (param.low, param.high))
    return low or 1, high or 1


def full_lengths(pattern: Pattern) -> Params:
    """Return the largest value, if it is a number, of each parameter that is the run-time length of an axis."""
    _, lengths = extents_of(pattern, {})
    highest = {name: pattern.instruction.param(name).high for name in lengths.values()}
    return {name: high.value for name, high in highest.items() if high is not None and high.value is not None}


def _extent(extent: Index, profile: MappingType[str, int]) -> int:
    """Return the extent at the profile's sizes, or a large value if open sizes may cancel, as in `H - R + 1`."""
    if extent.value is None and len(extent.terms) > 1:
        return max(profile.values())
    value = typical_value(extent, profile)
    assert value is not None, "extents are numbers once sizes have their profile values"
    return value


@dataclass(frozen=True, slots=True)
class LoopAxis:
    """Kernel axes that one loop runs over. Units: `tile` is the number of elements per issue.

    `digits` are the instruction axes that run inside the tile, outermost first, with their lengths.
    """

    name: str
    extent: Index
    tile: int
    is_reduction: bool
    digits: tuple[tuple[str, int], ...] = ()


Walk = tuple[Params, dict[str, int], tuple[LoopAxis, ...]]
"""Values of `choose` parameters, lengths of instruction axes, and the loops of a mapping."""


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops of the mappings of a statement: around the instruction, and on each of its axes."""

    statement: Statement
    around: MappingType[str, LoopAxis]
    joined: dict[tuple[AxisGroup, tuple[int, ...]], LoopAxis] = field(
        default_factory=dict[tuple[AxisGroup, tuple[int, ...]], LoopAxis]
    )
    steps: dict[Read, dict[str, Index]] = field(default_factory=dict[Read, dict[str, Index]])
    """The known distances in memory of neighbouring elements of accesses, by axis."""

    @staticmethod
    def of(statement: Statement) -> Loops:
        """Return the loops around a statement that no mapping has changed."""
        reductions = {a.name for a in statement.reduction_axes}
        around = {a.name: LoopAxis(a.name, a.extent, 1, a.name in reductions) for a in statement.axes}
        return Loops(statement, around)

    def over(self, group: AxisGroup, lengths: MappingType[str, int]) -> LoopAxis:
        """Return the loop over a group's kernel axes, given the lengths of the instruction axes."""
        key = group, tuple([lengths[i] for i in group.instruction_axes])
        if key not in self.joined:
            extent = Index.of(1)
            for a in group.kernel_axes:
                extent = extent * self.around[a].extent
            digits = tuple(zip(group.instruction_axes, key[1], strict=True))
            is_reduction = self.around[group.kernel_axes[0]].is_reduction
            self.joined[key] = LoopAxis(group.name, extent, prod(key[1]), is_reduction, digits)
        return self.joined[key]


def walk_of(loops: Loops, mapping: Mapping, pattern: Pattern, profile: MappingType[str, int]) -> Walk | None:
    """Return the loops of a mapping, or None if it has none."""
    if read_twice(mapping.bindings):
        return None
    encoded = encoded_values(pattern.instruction, mapping.bindings)
    assert encoded is not None, "mappings have no parameters that cannot be encoded"
    params = choose_params(loops.statement, mapping, pattern, profile) | encoded
    if not is_allowed(pattern, params):
        return None
    lengths, masked = extents_of(pattern, params)
    if masked or len(lengths) != len(pattern.axes):
        return None
    return params, lengths, _loop_axes(loops, mapping, pattern, lengths)


def _loop_axes(
    loops: Loops, mapping: Mapping, pattern: Pattern, lengths: dict[str, int]
) -> tuple[LoopAxis, ...]:
    first = {group.kernel_axes[0]: group for group in mapping.groups}
    inside = {a for group in mapping.groups for a in group.kernel_axes}
    found: list[LoopAxis] = []
    for name, loop in loops.around.items():
        if name in first:
            found.append(loops.over(first[name], lengths))
        elif name not in inside:
            found.append(loop)
    # On an empty axis one lane counts: where the instruction sums over it, the others have to add nothing.
    unused = [empty for empty in mapping.empty if lengths[empty] > 1]
    indexed = {s for i in pattern.target.index for s in i.symbols} if unused else set[str]()
    found += [
        LoopAxis(f"_{empty}", Index.of(1), lengths[empty], empty not in indexed, ((empty, lengths[empty]),))
        for empty in unused
    ]
    return tuple(found)


def lengths_at_run_time(pattern: Pattern, axes: tuple[LoopAxis, ...]) -> dict[str, str]:
    """Return the parameter of each loop axis that gives the number of elements per issue."""
    params = {p.name for p in pattern.instruction.params if p.kind == "scalar"}
    extents = {a.name: str(a.extent) for a in pattern.axes}
    found = {axis.name: {extents[digit] for digit, length in axis.digits if length > 1} for axis in axes}
    return {axis: next(iter(e)) for axis, e in found.items() if len(e) == 1 and e <= params}


def may_write(pattern: Pattern, mapping: Mapping, loops: Loops, walk: Walk, search: MoveSearch) -> bool:
    """Return whether a store may write its lanes: its memory operands can have the elements' layout.

    It compares neighbours along each loop. Most mappings of stores fail here, before their tiles are built.
    """
    params = (*walk[0].items(),)
    places = [(pattern.output, pattern.target.index, loops.statement.assign.target)]
    named = {operand.name: operand for operand in pattern.instruction.operands}
    places += [
        (named[b.name], b.pattern, b.subject)
        for b in mapping.bindings
        if b.name in named and search.is_addressable(named[b.name].memory)
    ]
    return all(
        isinstance(read, Read)
        and _neighbours_fit(_lane_steps(operand, subscripts, params), read, mapping, loops, walk, search)
        for operand, subscripts, read in places
    )


def _neighbours_fit(
    lanes: MappingType[str, Index], read: Read, mapping: Mapping, loops: Loops, walk: Walk, search: MoveSearch
) -> bool:
    """Return whether neighbouring lanes of an operand may be neighbouring elements in memory."""
    if read not in loops.steps:
        # Where known, the distance of neighbours along axes longer than one. Units: elements.
        address = address_of(read, search.strides) or ZERO
        long = [axis.name for axis in loops.statement.axes if (axis.extent.value or 1) > 1]
        loops.steps[read] = {name: step for name in long if (step := address.coefficient(name)) is not None}
    steps, members = loops.steps[read], {group.name: group.kernel_axes for group in mapping.groups}
    for axis in walk[2]:
        digit = next((name for name, length in reversed(axis.digits) if length > 1), None)
        if digit is None or axis.name not in members:
            continue
        *_, last = members[axis.name]
        if last in steps and digit in lanes and steps[last] != lanes[digit]:
            return False
        for outer, inner in pairwise(members[axis.name]):  # joined axes are one run, or have no address
            known = outer in steps and inner in steps
            if known and steps[outer] != steps[inner] * loops.around[inner].extent:
                return False
    return True


@lru_cache(maxsize=1 << 14)
def _lane_steps(
    operand: Operand, subscripts: tuple[Index, ...], params: tuple[tuple[str, int], ...]
) -> dict[str, Index]:
    """Return the distance of neighbours along instruction axes, without axes for which it varies. Units: elements."""
    strides = operand_strides(operand, dict(params))
    found: dict[str, Index] = {}
    for name in {symbol for index in subscripts for symbol in index.symbols}:
        parts = [(i.coefficient(name), s) for i, s in zip(subscripts, strides, strict=True)]
        if all(c is not None and (s is not None or not c.terms) for c, s in parts):
            found[name] = sum((c * s for c, s in parts if c is not None and s is not None), start=ZERO)
    return found
