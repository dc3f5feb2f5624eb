"""The steps of a nest, between its schedule and its nodes: nested, each with its decisions.

    stage b ahead 1                                 Copies
      parallel n by 512                             Parts
        for k by 256 carries b, then the remainder       LoopNode
          hold                                      Hold
            for k by 1                              LoopNode
              issue, unrolled m by 1, n by 16       Issues

The passes of `isamap.lower.shape` make the steps out of a schedule, one kind of decision each.
`isamap.lower.expand` makes nodes of them.
"""

from __future__ import annotations

from isamap.match import Tile
from isamap.plan.schedule import LoopStep, NestSchedule, Prefetch, Stage
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Unroll:
    """Loop number `number` of a nest, unrolled. Units: `step` in elements of the axis.

    `block` is the innermost loop over blocks of the axis, whose rest is performed in pieces; None if there
    is no such loop.
    """

    number: int
    axis: str
    step: int
    block: LoopStep | None = None


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """An operand that another program has packed before."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class Copies:
    """An operand that is copied into a buffer, and out of it if it is a result.

    `slots` is the number of copies of the buffer: with more than one, the iterations of the loop around
    share it. `hosts` are the loops whose iterations share the copying for another iteration of that loop.
    """

    stage: Stage
    slots: int = 1
    hosts: tuple[tuple[int, LoopStep], ...] = ()
    spread: bool = False


@dataclass(frozen=True, slots=True)
class ThreadLoops:
    """The loops that distribute their iterations to threads. `split` says that partial sums are computed."""

    loops: tuple[LoopStep, ...]
    split: bool = False


@dataclass(frozen=True, slots=True)
class LoopNode:
    """Loop number `number` of a nest.

    `carried` are copies whose buffers its iterations share, and `hints` are prefetches for later
    iterations. With `rest`, the remainder after the last whole step is peeled. With `first_apart`, so is
    the first iteration, which has no results of a previous one to write back.
    """

    number: int
    loop: LoopStep
    carried: tuple[Copies, ...] = ()
    hints: tuple[Prefetch, ...] = ()
    rest: bool = False
    first_apart: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """The accumulators of a register block: loaded, accumulated inside, and stored."""

    unrolled: tuple[Unroll, ...] = ()


@dataclass(frozen=True, slots=True)
class Issues:
    """The innermost block: one issue for each tile of the unrolled loops.

    `carried` is the ordered loop around them whose iterations pass values in registers.
    """

    unrolled: tuple[Unroll, ...] = ()
    carried: str = ""


Step = PackedOperand | Copies | ThreadLoops | LoopNode | Hold | Issues


@dataclass(frozen=True, slots=True)
class Tree:
    """A nest as steps, the outermost first. `note` names the statement for readers of the code."""

    schedule: NestSchedule
    tile: Tile
    note: str
    steps: tuple[Step, ...] = ()
