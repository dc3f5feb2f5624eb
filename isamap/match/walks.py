"""The loops of a mapping, before anything is known of its operands: their tiles and their extents.

A statement has hundreds of mappings, of which most are never looked at again, and few loops: each is made
once.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from math import prod

from isamap.ir import Index
from isamap.match.chosen import choose_params
from isamap.match.encoded import encoded_values
from isamap.match.instructions import Pattern
from isamap.match.mapping import AxisGroup, Mapping
from isamap.match.params import Params, extents_of, holds
from isamap.match.unify import read_twice
from isamap.transform import Statement


@dataclass(frozen=True, slots=True)
class LoopAxis:
    """Kernel axes looped over together. Units: `tile` is how many elements one issue covers.

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
    """The loops that mappings of a statement have: around the instruction, and by what runs on its axes."""

    statement: Statement
    around: MappingType[str, LoopAxis]
    joined: dict[tuple[AxisGroup, tuple[int, ...]], LoopAxis] = field(
        default_factory=dict[tuple[AxisGroup, tuple[int, ...]], LoopAxis]
    )

    @staticmethod
    def of(statement: Statement) -> Loops:
        """Those around, and no others yet."""
        reductions = {a.name for a in statement.reduction_axes}
        around = {a.name: LoopAxis(a.name, a.extent, 1, a.name in reductions) for a in statement.axes}
        return Loops(statement, around)

    def over(self, group: AxisGroup, lengths: MappingType[str, int]) -> LoopAxis:
        """The loop over axes that an instruction takes, whose own axes are so long."""
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
    """The loops of a mapping; None where it has none."""
    if read_twice(mapping.bindings):
        return None
    encoded = encoded_values(pattern.instruction, mapping.bindings)
    assert encoded is not None, "mappings have no parameters that cannot be encoded"
    params = choose_params(loops.statement, mapping, pattern, profile) | encoded
    if not holds(pattern, params):
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
