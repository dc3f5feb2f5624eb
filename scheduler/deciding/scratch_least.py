"""Find the assignments with the least scratchpad use under a register block. If none fits, no other does.

Smaller blocks never need more, and operands read in place need nothing. Only cutting a sum has two effects:
its inputs need less, but its partial sums need a backing memory if its tensor's type is too narrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from isamap.scheduler.deciding.orders import first_order
from isamap.scheduler.deciding.per_operand import least_values
from isamap.scheduler.deciding.software_pipelining import is_crossed
from isamap.scheduler.deciding.space import Assignment, RegisterBlock, Space
from isamap.scheduler.deciding.summing import sum_choices


def least_assignments(space: Space, block: RegisterBlock) -> Iterator[Assignment]:
    """Yield assignments that need the fewest bytes of a scratchpad. If none of them fits, no other one does."""
    sums = [axis for axis in space.axes if axis.is_reduction]
    rests = any(o.is_accumulator and o.staging.stage_whole for o in space.option.operands)
    iterations = next(iter(sum_choices(space, block)), dict[str, int]())
    factors = {a.name: block.get(a.name, iterations.get(space.unroll(a), 1)) for a in space.axes}
    sizes = {axis.name: space.blocks(axis, factors[axis.name]) for axis in space.axes}
    if not all(sizes.values()) or not all(map(space.stage_values, space.option.operands)):
        return
    crossed = least_values(space)
    late = any(is_crossed(space, o, crossed) for o in space.option.operands if o.is_accumulator)
    choices = product((True, False), repeat=len(sums)) if rests else iter([(True,) * len(sums)])
    for choice in [(False,) * len(sums)] if late else choices:
        whole = {axis.name for axis, is_cut in zip(sums, choice, strict=True) if not is_cut}
        # What is cut inside of everything else makes sums rest for the shortest time.
        axes = sorted(space.axes, key=lambda a: (a.is_reduction, a.name not in whole))
        order = first_order(axes, space.order_pairs(), space.fixed)
        sweep = first_order(space.register_axes, space.sweep_pairs(), space.fixed)
        if order is None or sweep is None:
            return
        blocks = {space.block(a): sizes[a.name][0 if a.name in whole else -1] for a in space.axes}
        is_cut = any(blocks[space.block(axis)] < axis.extent for axis in sums)
        staged = {
            space.stage(o): space.stage_values(o)[
                -1 if is_cut and o.is_accumulator and o.staging.stage_whole else 0
            ]
            for o in space.option.operands
        }
        unrolled = {space.unroll(axis): block[axis.name] for axis in space.register_axes} | iterations
        made = {**unrolled, **blocks, **order, **sweep, **staged, **crossed}
        if space.is_allowed(made):
            yield made
