"""A loop nest over tiles with the part of each operand that each memory level keeps, for access counts.

One sum over r and p, Y[p] += W[r] * X[p + r], in which a buffer keeps three weights and three inputs:

    LoopNest(axes=(("p", 16), ("r", 3)), loops=(Turn("p", 1), Turn("r", 1)),
             operands=(CountedOperand("w", ((("r", 1),),), keeps=(Keep("memory", 0), Keep("buffer", 1))), …))

`nest_of` builds one from a schedule: its stages and its `hold` determine the tiles that levels keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from isamap.ir import Index
from isamap.machine.timings import WindowOverlap
from isamap.plan.problem import NestOption, TileOperand
from isamap.plan.schedule import NestSchedule
from isamap.source.records import dataclass, field, replace

Role = Literal["read", "write", "update"]
Subscript = tuple[tuple[str, int], ...]
"""Axes with the elements that one step of each moves by."""


def axes_of(subscript: Subscript | Index) -> tuple[str, ...]:
    """Return the loop axes on which a subscript depends."""
    if isinstance(subscript, Index):
        return tuple(sorted(name.removeprefix("@") for name in subscript.symbols))
    return tuple(axis for axis, _ in subscript)


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop that runs over a step of the next outer loop of the same axis. Units: `step` in elements."""

    axis: str
    step: int


@dataclass(frozen=True, slots=True)
class Keep:
    """A memory level that holds the part of an operand that the loops from `depth` on use.

    A level that is `copied` is a buffer of the emitted code: tiles of issues, each filled by itself. A
    level that is `loaded` is registers, each with a tile: issues share equal tiles only.
    """

    level: str
    depth: int
    copied: bool = False
    loaded: bool = False


@dataclass(frozen=True, slots=True)
class FusedRead:
    """An array that a fused statement reads, with the loop axes of the sum along which it is read.

    `memory` is the scratchpad that it passes through, "" for none. If it is `kept` there, all tiles share one
    load; otherwise each tile loads its own part.
    """

    tensor: str
    element_bytes: int
    axes: frozenset[str]
    memory: str = ""
    kept: bool = False


@dataclass(frozen=True, slots=True)
class FusedAccesses:
    """The effects of fused statements on accesses: the source of a sum, and the written arrays.

    `begins` is true if the sum is not initialised from its own array. `begins_inside` is true if it is not
    read from its buffer either. `begins_outside` is true if the initial value is written to the outer array
    and read from there. `results` are the arrays to which finished sums are written, with the bytes of an
    element. They are written out of registers if `ends_inside`. `through` are the scratchpads that they pass
    through, "" for none. `reads` are the arrays that the statements read.
    """

    results: tuple[tuple[str, int], ...]
    begins: bool = False
    begins_inside: bool = False
    ends_inside: bool = False
    begins_outside: bool = False
    through: tuple[str, ...] = ()
    reads: tuple[FusedRead, ...] = ()


@dataclass(frozen=True, slots=True)
class GatheredTiles:
    """Tiles whose elements are loaded one by one at each issue. They are partial along exactly the axes in `short`.

    `groups` are the axes along which loads step, with the number of elements of a single load. Issues share
    nothing along axes that are `apart`.
    """

    short: frozenset[str]
    groups: tuple[tuple[str, int], ...]
    apart: frozenset[str]


Short = tuple[frozenset[str], tuple[GatheredTiles, ...]]
"""The axes along which tiles of an operand may be short, and the tiles among these that are gathered."""

NEVER: Short = frozenset(), ()


@dataclass(frozen=True, slots=True)
class NestFacts:
    """The facts about a statement's mapping on which access counts depend.

    `is_sum` is true for a reduction. `arrays` gives the array of each operand that is an expression of one
    element, with its bytes and subscripts; () if the subscripts are not known. `fused` holds the effects of
    fused statements, and `gathered` the gathered tiles by operand. `files` are register files that form a
    level for every operand in them, even if each issue reloads them; machines that state energies have them.
    """

    is_sum: bool
    arrays: Mapping[str, tuple[str, int, tuple[Subscript | Index, ...]]]
    fused: FusedAccesses | None = None
    gathered: Mapping[str, Short] = field(default_factory=dict[str, "Short"])
    files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CountedOperand:
    """An operand: `subscripts` per tensor axis. `keeps` are its tiles from the backing memory inward.

    `role` says whether it is read, written, or read and written back: a partial sum. `element_bytes` is the
    size of an element in its backing memory, `kept_bytes` its size elsewhere. A buffer stores each element of
    `windows` once. A tile there has `tile_elements`.

    `fused` is the effect of statements that are fused into a sum; None without such statements.
    `lengths` are axes along which an issue writes no more than is left, with the elements of a tile.
    """

    name: str
    tensor: str
    subscripts: tuple[Subscript | Index, ...]
    keeps: tuple[Keep, ...]
    role: Role = "read"
    element_bytes: int = 0
    windows: tuple[WindowOverlap, ...] = ()
    fused: FusedAccesses | None = None
    kept_bytes: int = 0
    tile_elements: int = 1
    gathered: Short = NEVER
    lengths: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        depths = [keep.depth for keep in self.keeps]
        assert depths, "an operand has a home"
        assert depths == sorted(depths), "levels come from the outermost inward"


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Loops, the outermost first, and the operands. The body of all loops is one issue."""

    axes: tuple[tuple[str, int], ...]
    loops: tuple[NestLoop, ...]
    operands: tuple[CountedOperand, ...]


def nest_of(nest: NestSchedule, option: NestOption, home: str, known: NestFacts) -> LoopNest:
    """Return the nest of a scheduled statement.

    Arrays live in `home`, if the kernel names no other memory. A stage keeps its operand in its memory (by
    default in `workspace`). `hold` keeps the accumulator in registers if there are loops inside, and unrolled
    loops keep the inputs of their issues. Registers that each issue reloads are part of the datapath and
    keep nothing.
    """
    loops = tuple(NestLoop(loop.axis, loop.step) for loop in nest.loops)
    return LoopNest(
        tuple((axis.name, axis.extent) for axis in option.axes),
        loops,
        tuple(
            _count_operand(operand, nest, option, home, known)
            for operand in option.operands
            if operand.layout.tensor_bytes > 0  # those of a computed operand stand in the operands beside it
        ),
    )


def _count_operand(
    operand: TileOperand, nest: NestSchedule, option: NestOption, home: str, known: NestFacts
) -> CountedOperand:
    unrolled = [depth for depth, loop in enumerate(nest.loops) if loop.is_unrolled]
    keeps = [Keep(operand.layout.main or home, 0)]
    keeps += [
        Keep(stage.memory or "workspace", stage.depth, copied=True)
        for stage in sorted(nest.stages, key=lambda s: s.depth)
        if stage.operand == operand.name
    ]
    held = nest.hold if operand.is_accumulator else min(unrolled, default=len(nest.loops))
    is_file = operand.memory in known.files and operand.registers > 0
    # Else issues access the array or its stage itself.
    in_place = operand.memory in (keeps[0].level, *operand.staging.homes)
    if (held < len(nest.loops) or is_file) and not in_place:
        keeps.append(Keep(operand.memory, held, loaded=True))
    role: Role = "read"
    if operand.is_accumulator:
        role = "update" if known.is_sum else "write"
    subscripts: tuple[Subscript | Index, ...] = operand.layout.subscripts
    tensor, element_bytes = operand.tensor, operand.layout.tensor_bytes
    if operand.name in known.arrays:
        tensor, element_bytes, subscripts = known.arrays[operand.name]
    subscripts = subscripts or tuple(((axis, 1),) for axis in operand.axes)
    fused = known.fused
    sums = {axis.name: axis.extent for axis in option.axes if axis.is_reduction}
    is_cut = any(loop.step < sums.get(loop.axis, 0) for loop in nest.loops[: nest.hold])
    if fused is not None and fused.begins and is_cut and not any(keep.copied for keep in keeps):
        fused = replace(fused, begins=False, begins_outside=True)
    return CountedOperand(
        operand.name, tensor, subscripts, tuple(keeps), role, element_bytes, operand.staging.windows,
        fused if role == "update" else None, operand.staging.staged_bytes, operand.tile_elements,
        known.gathered.get(operand.name, NEVER),
        tuple((a.name, a.tile) for a in option.axes if operand.is_accumulator and a.name in option.lengths),
    )  # fmt: skip
