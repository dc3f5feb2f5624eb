"""Scratchpads while scheduling: where buffers begin, and that they fit, as constraints of the solver's model.

What a buffer takes is said by `Space.scratch_tiles`. All buffers of a nest are needed while its innermost
loops run: their sum must fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from isamap.plan.placement import Buffer
from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.plan.schedule import NestSchedule, Stage, slots_of
from isamap.scheduler.crossing import name_of
from isamap.scheduler.memory.allocation import pack
from isamap.scheduler.space import BLOCK, HELD, WHOLE
from isamap.scheduler.terms import imply

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from isamap.scheduler.space import Space
    from isamap.scheduler.translate import Literals


# --- addresses --------------------------------------------------------------------------------------------


def with_addresses(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """The nest with addresses for its buffers in scratchpads."""
    operands = {operand.name: operand for operand in option.operands}
    places: dict[str, int] = {}
    for memory in sorted({stage.memory for stage in nest.stages if stage.memory}):
        here = [stage for stage in nest.stages if stage.memory == memory]
        sizes = {s.operand: _buffer_bytes(nest, s, operands[s.operand], option) for s in here}
        places |= pack([Buffer(name, 0, 1, size) for name, size in sizes.items()])
    stages = tuple(
        replace(stage, address=places[stage.operand]) if stage.memory else stage for stage in nest.stages
    )
    return replace(nest, stages=stages)


def _buffer_bytes(nest: NestSchedule, stage: Stage, operand: TileOperand, option: NestOption) -> int:
    """Bytes of a stage's buffer, all of its copies."""
    inside = {axis.name: axis.extent for axis in option.axes}
    for loop in nest.loops[: stage.depth]:
        inside[loop.axis] = min(inside[loop.axis], loop.step)
    tiles = slots_of(nest, stage)
    for loop in nest.loops[stage.depth :]:
        if loop.axis in operand.axes:
            tiles *= -(-inside[loop.axis] // loop.step)
            inside[loop.axis] = min(inside[loop.axis], loop.step)
    return tiles * operand.buffer_tile_bytes


# --- in the solver's model --------------------------------------------------------------------------------


def limit_scratch(model: cp_model.CpModel, space: Space, literals: Literals) -> None:
    """Constraints: what is staged in a scratchpad fits into it."""
    by_home: dict[str, list[cp_model.IntVar]] = {}
    for operand in space.option.operands:
        home = operand.homes[0]
        if home:
            by_home.setdefault(home, []).append(_taken(model, space, operand, literals))
    for home, taken in by_home.items():
        model.add(sum(taken) <= space.scratchpads[home])


def _taken(
    model: cp_model.CpModel, space: Space, operand: TileOperand, literals: Literals
) -> cp_model.IntVar:
    """The bytes that an operand's buffer takes; 0 where it has none."""
    capacity = space.scratchpads[operand.homes[0]]
    most = capacity + 1  # as good as more
    taken = model.new_int_var(0, most, "")
    crossed = literals.single.get(name_of(space, operand), {}).get(1)
    for choice, chosen in literals.single[space.stage(operand)].items():
        if not choice:
            continue
        tiles = _tiles_of_sums if operand.is_accumulator else _tiles_of_input
        counts = [tiles(model, space, axis, operand, choice, literals) for axis in space.axes_of(operand)]
        size = _product(model, counts, operand.buffer_tile_bytes, most)
        imply(model, chosen, taken >= size)
        if crossed is not None and choice == 1:
            imply(model, crossed, taken >= 2 * size)
    return taken


Count = tuple["cp_model.LinearExprT", int]
"""A number of tiles, and the most that it can be."""


def _tiles_of_input(
    model: cp_model.CpModel,
    space: Space,
    axis: TileAxis,
    operand: TileOperand,
    choice: int,
    literals: Literals,
) -> Count:
    """Tiles along an axis of an input's buffer."""
    del model, operand
    return _counted(space, axis, choice, literals)


def _tiles_of_sums(
    model: cp_model.CpModel,
    space: Space,
    axis: TileAxis,
    operand: TileOperand,
    choice: int,
    literals: Literals,
) -> Count:
    """Tiles along an axis of a buffer of sums, or more, as `Space.scratch_tiles` has them."""
    del choice
    held, most = _counted(space, axis, HELD, literals)
    sums = [x for x in space.axes if x.is_reduction] if operand.stage_whole else []
    if not sums:
        return held, most
    block, _ = _counted(space, axis, BLOCK, literals)
    whole, most = _counted(space, axis, WHOLE, literals)
    tiles = model.new_int_var(1, most, "")
    model.add(tiles >= held)
    for other in sums:
        cut = model.new_bool_var("")
        literals_of = literals.joint[other.name]
        model.add(cut == sum(at for at, made in literals_of if made[space.block(other)] < other.extent))
        imply(model, cut, tiles >= block)
        name, first, _ = next(
            p for p in space.order_pairs() if {p[1].name, p[2].name} == {axis.name, other.name}
        )
        around = literals.single[name][int(first.name == other.name)]
        both = model.new_bool_var("")
        model.add_bool_or([both, cut.negated(), around.negated()])
        imply(model, both, tiles >= whole)
    return tiles, most


def _counted(space: Space, axis: TileAxis, reach: int, literals: Literals) -> Count:
    """Tiles along an axis, after its block and its unrolling."""
    counts = [(at, space.scratch_tiles(axis, reach, made)) for at, made in literals.joint[axis.name]]
    return sum(count * at for at, count in counts), max(count for _, count in counts)


def _product(
    model: cp_model.CpModel, counts: Sequence[Count], tile_bytes: int, most: int
) -> cp_model.LinearExprT:
    """Bytes of so many tiles, cut off at `most`."""
    size: cp_model.LinearExprT = min(most, tile_bytes)
    bound = min(most, tile_bytes)
    for count, high in counts:
        tiles = model.new_int_var(1, high, "")
        model.add(tiles == count)
        whole = model.new_int_var(0, bound * high, "")
        model.add_multiplication_equality(whole, [size, tiles])
        bound = min(most, bound * high)
        cut = model.new_int_var(0, bound, "")
        model.add_min_equality(cut, [whole, most])
        size = cut
    return size
