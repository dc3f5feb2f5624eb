"""Find the kernel iteration that each lane of an issue performs. Some lanes perform none.

With `k` on an instruction axis of 4 lanes and extent 6 there are two issues: lanes 0 … 3 perform k = 0 … 3,
then lanes 0 and 1 perform k = 4 and 5, and lanes 2 and 3 nothing. Several kernel axes on one instruction
axis are fused: lane a performs the a-th of their points, counted from the first point of the issue.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Index
from isamap.match import AxisGroup, Mapping, Pattern
from isamap.source.records import dataclass, field, replace
from isamap.transform import Statement

Array = NDArray[Any]
Sizes = MappingType[str, int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A variant of a mapping: the division of its iterations into issues.

    `groups` are the mapping's, with kernel axes in the order of their fusion and instruction axes in the
    order of the digits of the fused number, outermost first. Empty means as the mapping writes them.
    `params` are values of the instruction's integer parameters. `tiles` gives the number of lanes used of
    an instruction axis. The default is all. On axes that share their kernel axes, fewer lanes also change
    the iterations of the others. With `masked`, an axis whose length is a parameter is made shorter at the
    end. Otherwise, lanes beyond the end are padded.
    """

    params: Sizes = field(default_factory=dict[str, int])
    groups: tuple[AxisGroup, ...] = ()
    tiles: Sizes = field(default_factory=dict[str, int])
    masked: bool = False


@dataclass(frozen=True, slots=True)
class IssueSpan:
    """The issues along one group of fused axes. `starts` has the number of the first point of each issue.

    Points number the iterations of the fused axes, the last axis fastest."""

    group: AxisGroup
    extents: tuple[int, ...]
    tiles: tuple[int, ...]
    starts: Array

    @property
    def points(self) -> int:
        return prod(self.extents)

    @property
    def step(self) -> int:
        """The number of points that one issue covers."""
        return prod(self.tiles)

    def at(self, starts: Array, lanes: MappingType[str, Array]) -> tuple[dict[str, Array], Array]:
        """Return the kernel axes of given lanes (0 for an axis without lanes), and a mask of valid lanes."""
        fused: Any = 0
        valid: Any = True
        for axis, tile in zip(self.group.instruction_axes, self.tiles, strict=True):
            lane = lanes.get(axis, np.zeros((), np.int64))
            fused = fused * tile + lane
            valid = valid & (lane < tile)
        fused = starts + fused
        valid = valid & (fused < self.points)
        found: dict[str, Array] = {}
        rest = fused
        for axis, extent in reversed(list(zip(self.group.kernel_axes, self.extents, strict=True))):
            found[axis] = rest % extent
            rest = rest // extent
        return found, np.asarray(valid)


@dataclass(frozen=True, slots=True)
class Grid:
    """All issues of one shape: the instruction's axes with their lengths, and the loops around it.

    `spans` are the groups; `loops` extents of kernel axes on no instruction axis; `empty` unused instruction
    axes, of which only lane 0 performs iterations.
    """

    params: tuple[tuple[str, int], ...]
    lengths: Sizes
    spans: tuple[IssueSpan, ...]
    loops: Sizes
    empty: tuple[str, ...]

    def lanes(self, axes: tuple[str, ...]) -> dict[str, Array]:
        """Return the lanes of some instruction axes, each along its own dimension after that of the issues."""
        rank = len(axes)
        return {
            axis: np.arange(self.lengths[axis]).reshape([-1 if d == n else 1 for d in range(-1, rank)])
            for n, axis in enumerate(axes)
        }


def make_grids(
    statement: Statement, pattern: Pattern, mapping: Mapping, cut: Cut, values: Sizes
) -> tuple[Grid, ...]:
    """Return all issues of a mapping: one grid for each combination of whole blocks and masked remainders."""
    groups = cut.groups or mapping.groups
    inside = {k for g in groups for k in g.kernel_axes}
    extents = {a.name: number(a.extent, values) for a in statement.axes}
    loops = {a: n for a, n in extents.items() if a not in inside}
    if not all(n > 0 for n in extents.values()):
        return ()
    params = dict(cut.params)
    spans = tuple(_span(g, extents, pattern, params, cut) for g in groups)
    whole = Grid(tuple(sorted(params.items())), lengths_of(pattern, params), spans, loops, mapping.empty)
    return tuple(_with_rests(whole, pattern)) if cut.masked else (whole,)


def lengths_of(pattern: Pattern, params: Sizes) -> Sizes:
    """Return the extents of the instruction's axes for given parameters."""
    return {a.name: number(a.extent, params) for a in pattern.axes}


def number(index: Index, values: Sizes) -> int:
    """Return the value of an index expression, given values for all symbols."""
    return int(index.evaluate(values))


def _span(group: AxisGroup, extents: Sizes, pattern: Pattern, params: Sizes, cut: Cut) -> IssueSpan:
    lengths = lengths_of(pattern, params)
    tiles = tuple(min(cut.tiles.get(i, lengths[i]), lengths[i]) for i in group.instruction_axes)
    own = tuple(extents[k] for k in group.kernel_axes)
    return IssueSpan(group, own, tiles, np.arange(0, prod(own), prod(tiles), dtype=np.int64))


# --- rests as issues of their own -------------------------------------------------------------------------


def _with_rests(grid: Grid, pattern: Pattern) -> list[Grid]:
    """Return the grid, and grids of the last issue along axes that may be shortened there."""
    choices: list[list[tuple[IssueSpan, dict[str, int]]]] = []
    for span in grid.spans:
        rest = span.points % span.step
        param = _length_param(span, pattern)
        if rest and param is not None:
            full = replace(span, starts=span.starts[:-1])
            choices.append(
                [(full, {}), (replace(span, tiles=(rest,), starts=span.starts[-1:]), {param: rest})]
            )
        else:
            choices.append([(span, {})])
    found: list[Grid] = []
    for chosen in product(*choices):
        params = dict(grid.params)
        for _, changed in chosen:
            params |= changed
        spans = tuple(s for s, _ in chosen)
        if all(s.starts.size for s in spans):
            found.append(
                replace(
                    grid,
                    params=tuple(sorted(params.items())),
                    lengths=lengths_of(pattern, params),
                    spans=spans,
                )
            )
    return found


def _length_param(span: IssueSpan, pattern: Pattern) -> str | None:
    """Return the parameter that alone gives the length of a group's single axis, or None."""
    if len(span.group.instruction_axes) != 1:
        return None
    (name,) = span.group.instruction_axes
    extent = next(a.extent for a in pattern.axes if a.name == name)
    param = next((p for p in pattern.instruction.params if Index.of(p.name) == extent), None)
    others = [a for a in pattern.axes if a.name != name and param and param.name in a.extent.symbols]
    if param is None or others or (param.low is not None and (param.low.value or 0) > 1):
        return None
    return param.name
