"""Derive moves of whole tiles from instructions that move one row of a tile.

    instruction load_row(imm S: 0..3) {           instruction load_row_rows() {
      in a: f32[4] @ mem;                           in a: f32[4, 4] @ mem strides(any, 1);
      inout z: f32[4, 4] @ acc;                     out z: f32[4, 4] @ acc;
      for j in 4 { z[S, j] = a[j]; }                for S in 4, j in 4 { z[S, j] = a[S, j]; }
    }                                             }

A description gives the move of one row, whose number is a parameter. The derived instruction moves all rows
one after the other: it is matched, priced and scheduled like any other, and emitted as one call per row.
"""

from __future__ import annotations

from collections.abc import Mapping

from isamap.ir import F64, Assign, Axis, Cast, Const, Expr, Index, Instruction, Loop, Operand, Read
from isamap.machine import emit_nodes
from isamap.machine.costs import cost_value
from isamap.machine.model import Cost, MachineInstruction, Memory
from isamap.source import add_up, dataclass, replace

Instructions = Mapping[str, MachineInstruction]


def with_whole_tiles(
    instructions: Instructions, memories: Mapping[str, Memory]
) -> dict[str, MachineInstruction]:
    """Return the instructions, followed by a whole-tile move for each instruction that moves one row of a tile."""
    found = dict(instructions)
    for entry in instructions.values():
        row = _row_of(entry.instruction, memories)
        whole = _whole(entry, row) if row is not None and entry.encoding is None else None
        if whole is not None:
            found.setdefault(whole.name, whole)
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    """A move of one row: the parameter with the row number, the number of rows, the loop over elements."""

    param: str
    count: int
    tile: Operand
    memory: Operand
    loop: Loop


def _row_of(instruction: Instruction, memories: Mapping[str, Memory]) -> _Row | None:
    """Return the parts of an instruction that moves one row, or None for other instructions."""
    if (
        len(instruction.operands) != 2
        or len(instruction.params) != 1
        or instruction.where
        or instruction.lets
    ):
        return None
    tiles = [o for o in instruction.operands if memories[o.memory or ""].kind == "registers"]
    if len(tiles) != 1 or len(instruction.body) != 1 or instruction.requires or instruction.settings:
        return None
    (tile,), (param,), (loop,) = tiles, instruction.params, instruction.body
    memory = next(o for o in instruction.operands if o is not tile)
    if not isinstance(loop, Loop) or loop.ordered or loop.guard is not None or len(loop.body) != 1:
        return None
    (assign,) = loop.body
    if not isinstance(assign, Assign) or assign.op is not None or assign.guard is not None:
        return None
    inner = assign.value.value if isinstance(assign.value, Cast) else assign.value
    if not isinstance(inner, Read) or inner.fill is not None:
        return None
    into = assign.target.buffer == tile.name
    ends = (assign.target, inner) if into else (inner, assign.target)
    if {e.buffer for e in ends} != {tile.name, memory.name} or len(memory.shape) != 1:
        return None
    if (tile.role, memory.role) != (("inout", "in") if into else ("in", "out")):
        return None
    axis = next((n for n, i in enumerate(ends[0].index) if i == Index.of(param.name)), None)
    if axis is None or param.dtype is not None or not _is_whole(ends[0], tile, axis, loop.axes):
        return None
    count = tile.shape[axis].value
    if count is None or (param.low, param.high) != (Index.of(0), Index.of(count - 1)):
        return None
    return None if param.name in ends[1].index[0].symbols else _Row(param.name, count, tile, memory, loop)


def _is_whole(place: Read, tile: Operand, axis: int, axes: tuple[Axis, ...]) -> bool:
    """Return whether all elements of one row are moved."""
    extents = {Index.of(a.name): a.extent for a in axes}
    others = [
        (at, size) for n, (at, size) in enumerate(zip(place.index, tile.shape, strict=True)) if n != axis
    ]
    return len(others) == len(axes) and all(extents.get(at) == size for at, size in others)


# --- the whole tile ---------------------------------------------------------------------------------------


def _whole(entry: MachineInstruction, row: _Row) -> MachineInstruction | None:
    """Return the instruction that moves all rows, or None if one row takes several calls."""
    emit = _emission(entry.emit, row)
    if emit is None:
        return None
    own = entry.instruction
    index = Index.of(row.param)

    def read(e: Read) -> Read:
        return replace(e, index=(index, *e.index)) if e.buffer == row.memory.name else e

    def value(e: Expr) -> Expr:
        match e:
            case Read():
                return read(e)
            case Cast(inner, _, mode) if mode != "bits":
                return replace(e, value=value(inner))
            case _:
                return e

    (assign,) = row.loop.body
    assert isinstance(assign, Assign), "looked at before"
    moved = replace(assign, target=read(assign.target), value=value(assign.value))
    axes = (Axis(row.param, Index.of(row.count)), *row.loop.axes)
    rows = replace(
        row.memory,
        shape=(Index.of(row.count), *row.memory.shape),
        strides=(None, *(row.memory.strides or (Index.of(1),))),
    )
    tile = replace(row.tile, role="in" if row.tile.role == "in" else "out")
    named = {row.memory.name: rows, row.tile.name: tile}
    instruction = replace(
        own,
        name=f"{own.name}_rows",
        params=(),
        operands=tuple(named[o.name] for o in own.operands),
        body=(replace(row.loop, axes=axes, body=(moved,)),),
    )
    return replace(
        entry, instruction=instruction, emit=emit, cost=_cost(entry.cost, row), stated=None, made_of=own.name
    )


def _cost(cost: Cost, row: _Row) -> Cost:
    """Return the cost of all rows. Their moves start one after the other, and the last one ends the whole move."""
    *before, last = (cost_value(cost.interval_ns, {row.param: n}) for n in range(row.count))
    latency = cost_value(cost.latency_ns, {row.param: row.count - 1})
    begun = add_up(before)
    energy = cost.energy_pj
    if energy is not None:
        energy = Const(add_up(cost_value(energy, {row.param: n}) for n in range(row.count)), F64)
    return Cost(cost.unit, Const(begun + last, F64), Const(begun + latency, F64), cost.also, energy)


def _emission(emit: emit_nodes.Emission, row: _Row) -> emit_nodes.Emission | None:
    match emit:
        case emit_nodes.EmitCall():
            steps = tuple(
                emit_nodes.EmitStep("", emit.result or "", _call_of_row(emit, row, n))
                for n in range(row.count)
            )
            known = all(name.kind != "param" for step in steps for name in step.call.names)
            return emit_nodes.EmitSteps(steps, f"for {row.param} in {row.count}: {emit};") if known else None
        case emit_nodes.EmitSteps():
            return None
        case emit_nodes.EmitSemantics() | emit_nodes.EmitNothing():
            return emit


def _call_of_row(call: emit_nodes.EmitCall, row: _Row, number: int) -> emit_nodes.EmitCall:
    """Return the call that moves row `number`."""

    def passed(value: emit_nodes.EmitValue) -> emit_nodes.EmitValue:
        match value:
            case emit_nodes.EmitCall():
                return _call_of_row(value, row, number)
            case emit_nodes.EmitArithmetic(operator, left, right):
                return emit_nodes.EmitArithmetic(operator, passed(left), passed(right))
            case emit_nodes.EmitArg("param", row.param, None):
                return replace(value, kind="literal", name=str(number))
            case emit_nodes.EmitArg("operand", row.memory.name):
                return replace(value, place=(number, 0))
            case emit_nodes.EmitArg():
                return value

    return replace(call, result=None, args=tuple(passed(a) for a in call.args))
