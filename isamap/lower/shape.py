"""The passes that build steps from a schedule. Each pass adds one kind of decision."""

from __future__ import annotations

from isamap.lower.steps import Copies, Hold, Issues, LoopNode, PackedOperand, Step, ThreadLoops, Tree, Unroll
from isamap.match import Tile
from isamap.plan.schedule import LoopStep, NestSchedule, hosts_of, slots_of, spread_of
from isamap.source.records import replace


def loops(tree: Tree) -> Tree:
    """Return a step for each loop that is not unrolled, around the issues of the unrolled loops."""
    nest = tree.schedule
    inner = nest.loops_around_unrolled
    around = (LoopNode(number, loop) for number, loop in enumerate(nest.loops[:inner]))
    return replace(tree, steps=(*around, Issues(_unrolled_loops(nest, inner), nest.carried)))


def hold(tree: Tree) -> Tree:
    """Load and store accumulators around the loops that sum into them."""
    if tree.tile.accumulator is None:
        return tree
    step = Hold(_unrolled_loops(tree.schedule, tree.schedule.hold))
    return replace(tree, steps=_insert_steps(tree.steps, tree.schedule.hold, (step,)))


def stage(tree: Tree) -> Tree:
    """Insert copies of operands around the loops that read them.

    An engine that fills scratchpads works in order: copies for a later iteration come after those that this
    one waits for.
    """
    steps = tree.steps
    staged: set[str] = set()
    for depth in range(len(tree.schedule.loops) + 1):
        mine = [s for s in tree.schedule.stages if s.depth == depth and s.operand not in staged]
        staged |= {s.operand for s in mine}
        mine.sort(key=lambda s: bool(s.memory and s.ahead))
        steps = _insert_steps(steps, depth, tuple(PackedOperand(s) if s.packed else Copies(s) for s in mine))
    return replace(tree, steps=steps)


def parallel(tree: Tree) -> Tree:
    """Replace the loops that are distributed over threads by one step. Partial sums need no staging buffer."""
    count = tree.schedule.parallel
    dealt = tree.schedule.loops[:count]
    split = any(_splits_sum(loop, tree.tile) for loop in dealt)
    summed = tree.tile.accumulator.name if split and tree.tile.accumulator else ""
    steps: list[Step] = []
    for step in tree.steps:
        match step:
            case LoopNode(number) if number < count:
                steps += [] if number else [ThreadLoops(dealt, split)]
            case Copies(s) if s.operand == summed:
                pass
            case _:
                steps.append(step)
    return replace(tree, steps=tuple(steps))


def overlap(tree: Tree) -> Tree:
    """Add the copies for other iterations, the loops that carry them, and prefetches."""
    nest = tree.schedule
    steps = tuple(_share_copies(step, nest) if isinstance(step, Copies) else step for step in tree.steps)
    shared = [step for step in steps if isinstance(step, Copies) and step.slots > 1]
    return replace(
        tree,
        steps=tuple(
            replace(
                step,
                carried=tuple(copies for copies in shared if copies.stage.depth == step.number + 1),
                hints=tuple(p for p in nest.prefetches if p.depth == step.number + 1),
            )
            if isinstance(step, LoopNode)
            else step
            for step in steps
        ),
    )


def peel(tree: Tree) -> Tree:
    """Peel the remainder of blocks, and first iterations that differ from the others."""
    nest = tree.schedule

    def peeled(step: Step) -> Step:
        match step:
            case LoopNode(number, loop, carried):
                counted = any(s.axis == loop.axis and s.counts for s in nest.loops[number + 1 :])
                first_apart = any(copies.spread for copies in carried)
                return replace(step, rest=not counted and loop.step > 1, first_apart=first_apart)
            case Hold(unrolled) | Issues(unrolled):
                blocks = (replace(one, block=_block_of(nest, one.axis)) for one in unrolled)
                return replace(step, unrolled=tuple(blocks))
            case PackedOperand() | Copies() | ThreadLoops():
                return step

    return replace(tree, steps=tuple(map(peeled, tree.steps)))


def _unrolled_loops(nest: NestSchedule, depth: int) -> tuple[Unroll, ...]:
    """Return the unrolled loops inside a depth that belong to no counting loop inside it."""
    later = nest.loops[depth:]
    counted = {loop.axis for loop in later if loop.counts}
    return tuple(
        Unroll(depth + n, loop.axis, loop.step)
        for n, loop in enumerate(later)
        if loop.is_unrolled and loop.axis not in counted
    )


def _insert_steps(steps: tuple[Step, ...], depth: int, new: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with new ones inside the first `depth` loops."""
    outside = [n + 1 for n, step in enumerate(steps) if isinstance(step, LoopNode) and step.number < depth]
    at = max(outside, default=0)
    return (*steps[:at], *new, *steps[at:])


def _splits_sum(loop: LoopStep, tile: Tile) -> bool:
    """Return whether a loop divides a sum into partial sums."""
    axis = tile.axis(loop.axis)
    return axis.is_reduction and axis.extent.ceildiv(loop.step).value != 1


def _share_copies(step: Copies, nest: NestSchedule) -> Copies:
    """Return the copies, with the other operands that the same loops copy."""
    slots, spread = slots_of(nest, step.stage), spread_of(nest, step.stage.operand) is not None
    return replace(step, slots=slots, hosts=hosts_of(nest, step.stage) if slots > 1 else (), spread=spread)


def _block_of(nest: NestSchedule, axis: str) -> LoopStep | None:
    """Return the innermost loop over blocks of an axis, or None."""
    blocks = (loop for loop in reversed(nest.loops) if loop.axis == axis and not loop.is_unrolled)
    return next(blocks, None)
