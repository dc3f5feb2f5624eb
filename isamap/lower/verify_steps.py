"""The verifier of a nest's steps: that each stands where it can be made into nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from isamap.lower.steps import Copies, Hold, Issues, Packed, Parts, Tree, Turns, Unroll
from isamap.plan.schedule import Stage


def check_tree(tree: Tree) -> tuple[str, ...]:
    """What is wrong with the steps of a nest, a sentence each; () when nothing is."""
    return tuple(f"nest {tree.schedule.statement}: {said}" for said in _steps(tree))


def _steps(tree: Tree) -> Iterator[str]:
    """One walk inward: `depth` is how many loops stand around."""
    depth, is_held, staged = 0, False, set[str]()
    for place, step in enumerate(tree.steps):
        match step:
            case Packed(stage) | Copies(stage):
                yield from _staged(tree, stage, depth, staged)
                staged.add(stage.operand)
            case Parts(loops):
                if depth or is_held or loops != tree.schedule.loops[: len(loops)]:
                    yield "the loops that are dealt to threads are not its outermost"
                depth = len(loops)
            case Turns():
                yield from _turns(tree, step, depth)
                depth = step.number + 1
            case Hold(unrolled):
                if is_held or tree.tile.accumulator is None:
                    yield "it holds what it does not sum, or holds it twice"
                is_held = True
                yield from _unrolled(tree, unrolled, depth)
            case Issues(unrolled):
                yield from _unrolled(tree, unrolled, depth)
                if place + 1 < len(tree.steps):
                    yield "something stands inside its issues"
            case _:
                assert_never(step)
    if not tree.steps or not isinstance(tree.steps[-1], Issues):
        yield "it issues nothing"


def _staged(tree: Tree, stage: Stage, depth: int, staged: set[str]) -> Iterator[str]:
    tile = tree.tile
    known = {o.name for o in (tile.accumulator, *tile.inputs) if o is not None}
    if stage.operand not in known:
        yield f"`{stage.operand}` is staged, and is no operand of {tile.mapping.instruction}"
    if stage.operand in staged:
        yield f"`{stage.operand}` is staged twice"
    if stage.depth != depth:
        yield f"`{stage.operand}` is staged inside {depth} loops, not {stage.depth}"


def _turns(tree: Tree, step: Turns, depth: int) -> Iterator[str]:
    loop = step.loop
    if step.number != depth or tree.schedule.loops[depth : depth + 1] != (loop,):
        yield f"loop {step.number} over {loop.axis} stands inside {depth} loops"
    if loop.step < 1 or loop.axis not in {axis.name for axis in tree.tile.axes}:
        yield f"loop {step.number} goes by {loop.step} along {loop.axis}"
    inside = [s for s in tree.steps if isinstance(s, Copies)]
    if any(c not in inside or c.slots < 2 or c.stage.depth != step.number + 1 for c in step.carried):
        yield f"loop {step.number} carries what is not staged inside it for several turns"
    if any(hint.depth != step.number + 1 for hint in step.hints):
        yield f"loop {step.number} prefetches what stands elsewhere"


def _unrolled(tree: Tree, unrolled: tuple[Unroll, ...], depth: int) -> Iterator[str]:
    for one in unrolled:
        loop = tree.schedule.loops[one.number : one.number + 1]
        if one.number < depth or [(s.axis, s.step) for s in loop] != [(one.axis, one.step)]:
            yield f"loop {one.number} over {one.axis} is unrolled elsewhere"
        if one.block is not None and one.block.axis != one.axis:
            yield f"loop {one.number} over {one.axis} has blocks of {one.block.axis}"
