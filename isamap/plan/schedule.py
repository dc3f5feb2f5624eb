"""A schedule: for each statement a mapping, a loop nest over its tiles, and the stages of operands.

    nest 0 {
      map vfmadd_zmm_f32 { i: n } (a = A, b = B, c = C);
      for n by 512 { for k by 256 { stage b; for m by 6 { for n by 64 { hold; for k by 1 {
        unroll m by 1 { unroll n by 16 { issue; } } } } } } }
    }

A loop `for n by 64` runs over one step of the next outer loop on the same axis (or over the whole axis), in
steps of 64 elements. The innermost step of an axis is the extent of one issue. Tails are implicit: `lower`
derives them from the sizes. If sizes are open, `for m by 12 rest 8 4 2 1` gives the pieces of the remainder.
A loop `par n by 512` distributes its iterations over threads. Such loops are outermost. `isamap.plan.text`
prints and reads schedules.
"""

from __future__ import annotations

from typing import ClassVar

from isamap.plan.steady import Pipeline
from isamap.source import Diagnostic, dataclass, field, replace


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """A sequential loop. Units: `step` and `rest` in elements of the axis.

    `rest` are the piece sizes of a remainder that only run time knows, largest first; () if there is a
    piece for each number of tiles.
    """

    axis: str
    step: int
    rest: tuple[int, ...] = ()

    word: ClassVar[str] = "for"
    counts: ClassVar[bool] = True
    is_unrolled: ClassVar[bool] = False
    is_dealt: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class UnrolledLoop:
    """A loop that is unrolled completely. Units: `step` in elements of the axis."""

    axis: str
    step: int

    word: ClassVar[str] = "unroll"
    rest: ClassVar[tuple[int, ...]] = ()
    counts: ClassVar[bool] = False
    is_unrolled: ClassVar[bool] = True
    is_dealt: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class ParallelLoop:
    """A loop whose iterations are distributed to threads. Units: as of `CountedLoop`."""

    axis: str
    step: int
    rest: tuple[int, ...] = ()

    word: ClassVar[str] = "par"
    counts: ClassVar[bool] = False
    is_unrolled: ClassVar[bool] = False
    is_dealt: ClassVar[bool] = True


LoopStep = CountedLoop | UnrolledLoop | ParallelLoop
"""One loop of a nest."""
LOOP_KINDS: tuple[type[LoopStep], ...] = (CountedLoop, UnrolledLoop, ParallelLoop)


@dataclass(frozen=True, slots=True)
class Stage:
    """A copy of an operand into a workspace buffer, in the layout in which inner loops read it.

    `depth` is the number of loops of the nest around the copy. An accumulator is copied both ways. `ahead`
    is the number of iterations of the loop around it by which the buffer is filled early: slices of the
    copy are performed inside the current iteration, and the buffer has as many additional copies. `behind` is
    the number of further copies, which products of earlier iterations read while they are in flight. `into` is
    the axis of the innermost loop with which they are interleaved, "" for the loop just inside. `memory` is
    the scratchpad of the buffer, "" for the workspace in main memory. `address` is its start there, in
    bytes. `packed` says that a separate program makes the copy, and the caller passes it. `by_rows` says
    that the array is read (a result: written) row after row; otherwise the copy goes in the order of the
    buffer.
    """

    operand: str
    depth: int
    ahead: int = 0
    behind: int = 0
    memory: str = ""
    address: int | None = None
    packed: bool = False
    into: str = ""
    by_rows: bool = False


@dataclass(frozen=True, slots=True)
class DeferredWriteBack:
    """The deferred write-back of a staged result, interleaved with the next iteration down to loop `axis`."""

    operand: str
    axis: str


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A prefetch of an operand's data for later iterations into a cache.

    `depth` is the number of loops of the nest around it, `ahead` the prefetch distance in iterations of the
    innermost of these.
    """

    operand: str
    depth: int
    ahead: int
    cache: str


@dataclass(frozen=True, slots=True)
class NestSchedule:
    """The schedule of one statement.

    `mapping` is the canonical name of a mapping, `choose` the values of the instruction's `choose`
    parameters, and `LEVEL.AXIS` the number of instances of a level that have tiles side by side along an axis.
    `hold` is the depth at which the accumulator enters and leaves registers. `fused` are the
    numbers of elementwise statements that are computed on each tile while it is in the accumulator, and
    therefore have no nest of their own. `carried` is the axis of an ordered loop that runs inside these
    loops, around the unrolled ones, and keeps in registers the values that one iteration leaves for the
    next; "" if all ordered loops are outside.
    """

    statement: int
    mapping: str
    choose: tuple[tuple[str, int], ...]
    loops: tuple[LoopStep, ...]
    stages: tuple[Stage, ...]
    hold: int
    spread: tuple[DeferredWriteBack, ...] = ()
    fused: tuple[int, ...] = ()
    prefetches: tuple[Prefetch, ...] = ()
    pipeline: Pipeline | None = None
    carried: str = ""

    @property
    def parallel(self) -> int:
        """The number of outermost loops that distribute their iterations over threads."""
        return next((i for i, loop in enumerate(self.loops) if not loop.is_dealt), len(self.loops))

    @property
    def loops_around_unrolled(self) -> int:
        """The number of loops around the unrolled ones."""
        return next((i for i, loop in enumerate(self.loops) if loop.is_unrolled), len(self.loops))


def bound_axes(nest: NestSchedule, level: str) -> tuple[tuple[str, int], ...]:
    """Return the axes along which instances of a level have adjacent tiles, with the number of instances."""
    found = ((name.partition("."), count) for name, count in nest.choose)
    return tuple((axis, count) for (own, _, axis), count in found if own == level and axis)


COST_UNITS = {"energy": "pJ", "edp": "pJ·ns"}
"""The units of the costs of models that do not price time."""


def cost_unit(model: str) -> str:
    """Return the unit of a model's costs: that of the objective at the start of its name, else ns."""
    return COST_UNITS.get(model.partition(" ")[0], "ns")


PROVEN = 1e-6
"""The largest gap that counts as none. The solver's prices are integers of a small unit of time."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All nests of a kernel, and their known cost.

    Units: `cost_ns` and `lower_bound_ns` in nanoseconds of the model named `model`, or in its `cost_unit`;
    both None for a schedule written by hand. `status` is the solver's word (OPTIMAL, FEASIBLE), HEURISTIC or
    MANUAL. `findings`, which the text does not have, are events of the search. `profile` is the beginning of
    the digest of the measured parameters that the model used; empty for those of the description. `fixed` are
    decisions that a person made: the bound and the status hold for schedules with them. `question` is the
    beginning of the digest of all other inputs; empty if not requested. `found_by` and `proved_by` name the
    engines that found the nests and proved the bound, separated by commas. `blocks` are axes that statements
    share in blocks, with the iterations of each: nests are those of the kernel in these blocks.
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
    profile: str = ""
    fixed: tuple[tuple[str, int], ...] = ()
    question: str = ""
    found_by: str = ""
    proved_by: str = ""
    blocks: tuple[tuple[str, int], ...] = ()

    @property
    def gap(self) -> float | None:
        """The largest possible distance of the cost from the optimum, as a fraction of the cost."""
        if self.cost_ns is None or self.lower_bound_ns is None:
            return None
        return max(0.0, 1 - self.lower_bound_ns / self.cost_ns) if self.cost_ns > 0 else 0.0

    @property
    def is_proven(self) -> bool:
        """Return whether the bound proves that no other schedule costs less by the model."""
        return self.gap is not None and self.gap < PROVEN


def engines_words(schedule: Schedule) -> str:
    """Return text with the engines that found the schedule and proved its bound. Unknown engines are left out."""
    said = (("found", schedule.found_by), ("proved", schedule.proved_by))
    return ", ".join(f"{what} by {engine}" for what, engine in said if engine)


def forget_cost(schedule: Schedule) -> Schedule:
    """Return the schedule without its cost and bound, as one written by hand."""
    return replace(
        schedule,
        model="",
        profile="",
        cost_ns=None,
        lower_bound_ns=None,
        status="MANUAL",
        reproducible=True,
        fixed=(),
        question="",
        found_by="",
        proved_by="",
    )


def spread_of(nest: NestSchedule, operand: str) -> DeferredWriteBack | None:
    """Return the deferred write-back of an operand, or None if its write-back is immediate."""
    return next((spread for spread in nest.spread if spread.operand == operand), None)


def slots_of(nest: NestSchedule, stage: Stage) -> int:
    """Return the number of copies of a stage's buffer: one more than the iterations that a copy outlives."""
    return 1 + stage.ahead + stage.behind + (1 if spread_of(nest, stage.operand) else 0)


def hosts_of(nest: NestSchedule, stage: Stage) -> tuple[tuple[int, LoopStep], ...]:
    """Return the loops, by number, with which a copy for another iteration is interleaved, or ().

    These are the loops down to the named one. By default a buffer is filled in the next inner loop, and one
    in a scratchpad in all loops around sums, because many transfers at once would delay the others. They end
    before the second loop over an axis whose number of iterations varies.
    """
    spread = spread_of(nest, stage.operand)
    inside = loops_inside(nest, stage.depth)
    into = stage.into if spread is None else spread.axis
    if not into:
        around = tuple(host for host in inside if host[0] < nest.hold)
        axes = [loop.axis for _, loop in around]
        once = next((n for n, axis in enumerate(axes) if axis in axes[:n]), len(axes))
        return around[:once] if stage.memory else around[:1]
    last = next((n for n, loop in inside if loop.axis == into), -1)
    return tuple((n, loop) for n, loop in inside if n <= last)


def loops_inside(nest: NestSchedule, depth: int) -> tuple[tuple[int, LoopStep], ...]:
    """Return the loops from a depth inward, by number, except unrolled ones."""
    return tuple((n, loop) for n, loop in enumerate(nest.loops) if n >= depth and not loop.is_unrolled)
