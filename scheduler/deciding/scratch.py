"""Scratchpads in scheduling: the base addresses and sizes of buffers, which must fit.

All buffers of a nest are needed while its innermost loops run: their sum must fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isamap.plan.cost import Add, Cases, CeilDiv, Const, Cost, Decision, Threshold, times
from isamap.plan.placement import PlacedBuffer
from isamap.plan.problem import NestOption, TileAxis, TileOperand
from isamap.plan.schedule import NestSchedule, Stage, slots_of
from isamap.scheduler.deciding.option_view import Choices
from isamap.scheduler.deciding.software_pipelining import copies
from isamap.scheduler.deciding.sums import summed_axis
from isamap.scheduler.deciding.window_buffers import in_window, reaches_of, tiles_in_window
from isamap.scheduler.memory.allocation import pack
from isamap.scheduler.translation.constraints import AtMost
from isamap.source.records import replace

# What of an axis a buffer of an input holds, as stages are numbered.
BLOCK, WHOLE = 1, 2


# --- addresses --------------------------------------------------------------------------------------------


def with_addresses(nest: NestSchedule, option: NestOption) -> NestSchedule:
    """Return the nest with addresses for its buffers in scratchpads."""
    operands = {operand.name: operand for operand in option.operands}
    places: dict[str, int] = {}
    for memory in sorted({stage.memory for stage in nest.stages if stage.memory}):
        here = [stage for stage in nest.stages if stage.memory == memory]
        sizes = {s.operand: _buffer_bytes(nest, s, operands[s.operand], option) for s in here}
        places |= pack([PlacedBuffer(name, 0, 1, size) for name, size in sizes.items()])
    stages = tuple(
        replace(stage, address=places[stage.operand]) if stage.memory else stage for stage in nest.stages
    )
    return replace(nest, stages=stages)


def _buffer_bytes(nest: NestSchedule, stage: Stage, operand: TileOperand, option: NestOption) -> int:
    """Return the bytes of a stage's buffer, including all of its copies."""
    inside = {axis.name: axis.extent for axis in option.axes}
    for loop in nest.loops[: stage.depth]:
        inside[loop.axis] = min(inside[loop.axis], loop.step)
    tiles = slots_of(nest, stage)
    shared: set[str] = set()
    for window in operand.staging.windows:
        along, tap = (next(a for a in option.axes if a.name == n) for n in (window.along, window.tap))
        if inside[tap.name] >= tap.extent:
            reaches = reaches_of(window, option)
            held = -(-inside[along.name] // along.tile) * along.tile + reaches[0]
            tiles *= len(reaches) * -(-held // along.tile)
            shared |= {along.name, tap.name}
    for loop in nest.loops[stage.depth :]:
        if loop.axis in operand.axes and loop.axis not in shared:
            tiles *= -(-inside[loop.axis] // loop.step)
            inside[loop.axis] = min(inside[loop.axis], loop.step)
    return tiles * operand.buffer_tile_bytes


# --- as constraints ---------------------------------------------------------------------------------------


def capacities(space: Choices) -> Iterator[AtMost]:
    """Yield the constraints that all buffers of a scratchpad fit into it."""
    by_home: dict[str, list[Cost]] = {}
    for operand in space.option.operands:
        if operand.staging.homes[0] in space.scratchpads:
            by_home.setdefault(operand.staging.homes[0], []).append(scratch_bytes(space, operand))
    for home, sizes in by_home.items():
        yield AtMost(Add(tuple(sizes)), Const(space.scratchpads[home]))


def scratch_bytes(space: Choices, operand: TileOperand) -> Cost:
    """Return the bytes of all copies of an operand's scratchpad buffers, or 0 if it has none."""

    def size(reach: int) -> Cost:
        tiles = {
            axis.name: _sum_tiles(space, axis, operand)
            if operand.is_accumulator
            else _tiles(space, axis)[reach]
            for axis in space.axes_of(operand)
        }
        return times(
            operand.buffer_tile_bytes, copies(space, operand), *_in_windows(space, operand, tiles, reach)
        )

    return Cases(space.stage(operand), ((0, Const(0)), (BLOCK, size(BLOCK)), (WHOLE, size(WHOLE))))


def _in_windows(
    space: Choices, operand: TileOperand, tiles: Mapping[str, Cost], reach: int
) -> Iterator[Cost]:
    """Yield factors of the tiles in a buffer. The two axes of a window have one factor in common."""
    axes = {axis.name: axis for axis in space.option.axes}
    rest = dict(tiles)
    for window in operand.staging.windows:
        along, taps = rest.pop(window.along, Const(1)), rest.pop(window.tap)
        shared = tiles_in_window(window, space.option, axes[window.along], along)
        own = times(along, taps)
        yield shared if reach == WHOLE else in_window(space, operand, shared, own, window)
    yield from rest.values()


def _tiles(space: Choices, axis: TileAxis) -> tuple[Cost, Cost, Cost]:
    """Return the tiles of an axis in a buffer: for a register block, for a cache block, and for the whole axis."""
    size = Decision(space.block(axis))
    held: Cost = Const(1)
    if not axis.is_reduction or axis == summed_axis(space.option):
        held = Decision(space.unroll(axis))
    block = times(held, CeilDiv(size, times(axis.tile, held)))
    return held, block, times(block, CeilDiv(Const(axis.extent), size))


def _sum_tiles(space: Choices, axis: TileAxis, operand: TileOperand) -> Cost:
    """Return the tiles of sums that are loaded and stored with each register block.

    Where their tensor is too narrow for them, they stay while the loops over blocks of summing axes run.
    """
    held, block, whole = _tiles(space, axis)
    iterations = {
        x.name: CeilDiv(Const(x.extent), Decision(space.block(x))) for x in space.axes if x.is_reduction
    }
    if not (iterations and operand.staging.stage_whole):
        return held
    around: list[Cost] = []
    for name, outer, inner in space.order_pairs():
        if axis in (outer, inner) and (other := inner if axis == outer else outer).is_reduction:
            inside, outside = (0, iterations[other.name]), (1, Const(1))
            if other == outer:
                inside, outside = (0, Const(1)), (1, iterations[other.name])
            around.append(Cases(name, (inside, outside)))
    is_cut = Add(tuple(iterations.values()))
    return Threshold(is_cut, len(iterations), held, Threshold(Add(tuple(around)), len(around), block, whole))
