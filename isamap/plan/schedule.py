"""The answer of scheduling: per statement a mapping, a loop nest over its tiles, and where data is staged.

    nest 0 {
      map vfmadd_zmm_f32 { i: n } (a = A, b = B, c = C);
      for n by 512 { for k by 256 { stage b; for m by 6 { for n by 64 { hold; for k by 1 {
        unroll m by 1 { unroll n by 16 { issue; } } } } } } }
    }

A loop `for n by 64` runs over what the loop around it on the same axis (or the whole axis) leaves, in steps
of 64 elements; the innermost step of an axis is what one issue of the instruction covers. Tails are implicit:
`lower` makes them from the sizes. `isamap.plan.text` prints schedules, `isamap.plan.parse` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from isamap.source import Diagnostic

LoopKind = Literal["for", "unroll"]


@dataclass(frozen=True, slots=True)
class LoopStep:
    """One loop of a nest. Units: `step` in elements of the axis."""

    axis: str
    step: int
    kind: LoopKind = "for"


@dataclass(frozen=True, slots=True)
class Stage:
    """Copy of an operand into a workspace buffer, laid out as the loops below read it.

    `depth` is how many loops of the nest stand around the copy. For the accumulator the copy goes both ways.
    `memory` is the scratchpad that the buffer lies in, "" for the workspace in main memory.
    """

    operand: str
    depth: int
    memory: str = ""


@dataclass(frozen=True, slots=True)
class NestSchedule:
    """How one statement is performed.

    `mapping` is the canonical name of a mapping, `choose` the values of the instruction's `choose`
    parameters; `hold` is the depth at which the accumulator enters and leaves registers.
    """

    statement: int
    mapping: str
    choose: tuple[tuple[str, int], ...]
    loops: tuple[LoopStep, ...]
    stages: tuple[Stage, ...]
    hold: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """All nests of a kernel with what is known about their cost.

    Units: `cost_ns` and `lower_bound_ns` in nanoseconds of the model named `model`; both None for a schedule
    written by hand. `status` is the solver's word (OPTIMAL, FEASIBLE) or HEURISTIC or MANUAL. `findings`,
    which the text does not have, are what happened while it was looked for.
    """

    kernel: str
    machine: str
    sizes: tuple[tuple[str, int | str], ...]
    nests: tuple[NestSchedule, ...]
    model: str = ""
    cost_ns: float | None = None
    lower_bound_ns: float | None = None
    status: str = "MANUAL"
    reproducible: bool = True
    findings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    @property
    def gap(self) -> float | None:
        """How far the cost may be above the optimum, as a fraction of the cost."""
        if self.cost_ns is None or self.lower_bound_ns is None:
            return None
        return max(0.0, 1 - self.lower_bound_ns / self.cost_ns) if self.cost_ns > 0 else 0.0
