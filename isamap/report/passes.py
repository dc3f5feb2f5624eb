"""What a pass of lowering leaves, as text: the steps of nests, or the program.

nest 0: C[m, n] += A[m, k] * B[k, n];
  vfmadd_zmm_f32 { i: n } (a = A, b = B, c = C)
  for n by 512
    stage b ahead 1 in 2 buffers
      hold
        issue, unrolled m by 1, n by 16
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from isamap.lower.passes import State
from isamap.lower.program import LoweredProgram
from isamap.lower.steps import Copies, Hold, Issues, Packed, Parts, Step, Tree, Turns, Unroll
from isamap.plan.loops import LoopStep
from isamap.report.program import print_program


def print_state(state: State) -> str:
    """The text, with a newline at its end."""
    if isinstance(state, LoweredProgram):
        return print_program(state)
    return "\n".join(line for tree in state for line in _tree(tree)) + "\n"


def _tree(tree: Tree) -> Iterator[str]:
    yield f"nest {tree.schedule.statement}: {tree.note}"
    yield f"  {tree.schedule.mapping}"
    for depth, step in enumerate(tree.steps, 1):
        yield f"{'  ' * depth}{', '.join(_words(step))}"


def _words(step: Step) -> Iterator[str]:
    match step:
        case Packed(stage):
            yield f"packed {stage.operand}"
        case Copies(stage, slots, hosts, spread):
            ahead = f" ahead {stage.ahead}" if stage.ahead else ""
            where = f" in {stage.memory}" if stage.memory else ""
            yield f"stage {stage.operand}{ahead}{where}"
            if slots > 1:
                yield f"{slots} buffers"
            if spread:
                yield "written back a turn later"
            if hosts:
                yield f"dealt to {' and '.join(_loop(loop) for _, loop in hosts)}"
        case Parts(loops, split):
            yield f"parallel {' and '.join(_loop(loop) for loop in loops)}"
            if split:
                yield "sums in parts"
        case Turns(_, loop, carried, hints, rest, first_apart):
            yield f"for {_loop(loop)}"
            yield from (f"carries {copies.stage.operand}" for copies in carried)
            yield from (f"prefetches {p.operand} ahead {p.ahead} into {p.cache}" for p in hints)
            yield from ["then the rest"] if rest else []
            yield from ["the first turn apart"] if first_apart else []
        case Hold(unrolled):
            yield "hold"
            yield from _unrolled(unrolled)
        case Issues(unrolled, axis):
            yield f"issue, carried along {axis}" if axis else "issue"
            yield from _unrolled(unrolled)
        case _:
            assert_never(step)


def _unrolled(unrolled: Sequence[Unroll]) -> Iterator[str]:
    for one in unrolled:
        blocks = f" of blocks by {one.block.step}" if one.block is not None else ""
        yield f"unrolled {one.axis} by {one.step}{blocks}"


def _loop(loop: LoopStep) -> str:
    return f"{loop.axis} by {loop.step}"
