"""A loop nest over tiles with what each level of memory keeps of each operand: what access counts are about.

One sum over r and p, Y[p] += W[r] * X[p + r], in which a buffer keeps three weights and three inputs:

    LoopNest(axes=(("p", 16), ("r", 3)), loops=(Turn("p", 1), Turn("r", 1)),
             operands=(Counted("w", ((("r", 1),),), keeps=(Keep("memory", 0), Keep("buffer", 1))), …))

`nest_of` makes one of a schedule: its stages and its `hold` are what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from isamap.plan.problem import NestOption, TileOperand
from isamap.plan.schedule import NestSchedule

Role = Literal["read", "write", "update"]
Subscript = tuple[tuple[str, int], ...]
"""Axes with the elements that one step of each moves by."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A loop over what the loops around it on the same axis leave. Units: `step` in elements of the axis."""

    axis: str
    step: int


@dataclass(frozen=True, slots=True)
class Keep:
    """A level that holds what the loops from `depth` on touch of an operand."""

    level: str
    depth: int


@dataclass(frozen=True, slots=True)
class Counted:
    """An operand: `subscripts` per tensor axis; `keeps` from its home inward, levels that it skips left out.

    `role` says whether it is read, written, or read and written back: a partial sum. `element_bytes` are
    those of an element at its home.
    """

    name: str
    tensor: str
    subscripts: tuple[Subscript, ...]
    keeps: tuple[Keep, ...]
    role: Role = "read"
    element_bytes: int = 0

    def __post_init__(self) -> None:
        depths = [keep.depth for keep in self.keeps]
        assert depths, "an operand has a home"
        assert depths == sorted(depths), "levels come from the outermost inward"


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Loops from outside inward, and the operands. What stands inside all loops is one issue."""

    axes: tuple[tuple[str, int], ...]
    loops: tuple[Turn, ...]
    operands: tuple[Counted, ...]


def nest_of(nest: NestSchedule, option: NestOption, home: str = "memory") -> LoopNest:
    """The nest of a scheduled statement.

    Arrays live in `home`. A stage keeps its operand in its memory (in `workspace` where it names none),
    `hold` the accumulator in registers where loops stand inside, and unrolled loops the inputs of their
    issues. Registers that are read for each issue anew are part of the datapath and keep nothing.
    """
    loops = tuple(Turn(loop.axis, loop.step) for loop in nest.loops)
    return LoopNest(
        tuple((axis.name, axis.extent) for axis in option.axes),
        loops,
        tuple(_counted(operand, nest, option, home) for operand in option.operands if _has_elements(operand)),
    )


def _has_elements(operand: TileOperand) -> bool:
    """Whether an operand stands for elements of one array; those of a computed operand stand beside it."""
    return operand.tensor_bytes > 0


def _counted(operand: TileOperand, nest: NestSchedule, option: NestOption, home: str) -> Counted:
    unrolled = [depth for depth, loop in enumerate(nest.loops) if loop.is_unrolled]
    keeps = [Keep(home, 0)]
    keeps += [
        Keep(stage.memory or "workspace", stage.depth)
        for stage in sorted(nest.stages, key=lambda s: s.depth)
        if stage.operand == operand.name
    ]
    held = nest.hold if operand.is_accumulator else min(unrolled, default=len(nest.loops))
    if held < len(nest.loops) and operand.memory not in operand.homes:  # else it is read where it is staged
        keeps.append(Keep(operand.memory, held))
    role: Role = "read"
    if operand.is_accumulator:
        role = "update" if len(option.operands) > 1 else "write"  # what only assigns has no other operand
    subscripts = operand.subscripts or tuple(((axis, 1),) for axis in operand.axes)
    return Counted(operand.name, operand.tensor, subscripts, tuple(keeps), role, operand.tensor_bytes)
