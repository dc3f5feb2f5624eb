"""A decision: whether a copy runs in the order of the buffer, or row by row of the source array.

    nest0.rows.b = 0    stage b;            32 columns of all rows of a block, then the next 32
    nest0.rows.b = 1    stage b by rows;    all columns of a block of one row, then those of the next

It is searched if a tile of the buffer holds pieces of many rows, so that a copy would return to each row for
the next piece. Other copies take a few rows at a time, tile by tile, and run equally fast in either order
(docs/decisions/0052-copy-orders.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from isamap.plan.decisions import WRITTEN_BYTES, rows_of
from isamap.plan.problem import NestOption, TileOperand
from isamap.plan.schedule import NestSchedule
from isamap.scheduler.deciding.option_view import Choices, Made
from isamap.scheduler.translation.constraints import DecisionClause, Is
from isamap.source.records import replace


def order_values(space: Choices) -> dict[str, tuple[int, ...]]:
    """Return the decisions with their possible values, or {} if a fixed value is impossible."""
    return {name: _values(space, name, operand) for name, operand in _operands_by_name(space).items()}


def _operands_by_name(space: Choices) -> dict[str, TileOperand]:
    return {
        rows_of(space.statement, o.name): o
        for o in space.option.operands
        if o.costs.staged_ns is not None
        and not o.staging.is_packed
        and o.layout.dense_axis
        and not o.is_accumulator
    }


def _values(space: Choices, name: str, operand: TileOperand) -> tuple[int, ...]:
    pinned = space.fixed.get(name)
    if pinned is not None:
        return (pinned,)
    return (0, 1) if leaves_rows(space.option, operand) else (0,)


def leaves_rows(option: NestOption, operand: TileOperand) -> bool:
    """Return whether a copy in buffer order reads pieces of many rows before it returns to the first row."""
    along = next((axis for axis in option.axes if axis.name == operand.layout.dense_axis), None)
    runs = along is not None and not along.is_reduction and along.extent > along.tile
    plain = not (
        operand.staging.homes[0]
        or operand.layout.subscripts
        or operand.is_accumulator
        or operand.staging.is_packed
    )
    return runs and plain and operand.buffer_tile_bytes >= WRITTEN_BYTES


def staged_by_rows(space: Choices, operand: TileOperand) -> tuple[int, ...] | None:
    """Return how an operand may be staged, or None for any way. An operand that is copied by rows is staged."""
    return (1, 2) if space.fixed.get(rows_of(space.statement, operand.name), 0) else None


def order_constraints(space: Choices) -> Iterator[DecisionClause]:
    """Yield the constraints that an operand which is copied by rows is staged."""
    for name, operand in _operands_by_name(space).items():
        stage = space.stage(operand)
        said = f"{name} = 1 is impossible: {stage} = 0 (read in place) makes no copy"
        yield DecisionClause((Is(name, (0,)), Is(stage, (1, 2))), "fix-stage", lambda _, said=said: said)


def with_orders(nest: NestSchedule, space: Choices, made: Made) -> NestSchedule:
    """Return the nest with copies in the decided orders."""
    by_rows = {operand.name for name, operand in _operands_by_name(space).items() if made.get(name, 0)}
    return replace(
        nest, stages=tuple(replace(s, by_rows=True) if s.operand in by_rows else s for s in nest.stages)
    )


def orders_of(space: Choices, nest: NestSchedule) -> dict[str, int]:
    """Return the decisions about copy orders that a nest has."""
    by_rows = {stage.operand for stage in nest.stages if stage.by_rows}
    return {name: int(operand.name in by_rows) for name, operand in _operands_by_name(space).items()}
