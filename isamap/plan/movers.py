"""Units that copy by themselves: a DMA engine fills a buffer while another unit computes from the other.

mvin moves 16 rows of dram to spad on unit `load`, matmul computes on `execute`: what moves by mvin may move
beside sums. A vector unit that loads and stores again does not: one stream of instructions does both.
"""

from __future__ import annotations

from dataclasses import replace

from isamap.match import OperandTile, Suppliers, Tile, scratch_move
from isamap.plan.problem import TileOperand


def with_mover(described: TileOperand, operand: OperandTile, tile: Tile, suppliers: Suppliers) -> TileOperand:
    """The operand with the unit that fills its buffer, or writes a result back, beside the instruction's."""
    home = described.homes[0]
    move = scratch_move(operand, tile, home, suppliers, back=described.is_accumulator) if home else None
    if move is None:
        return described
    machine = suppliers.machine
    copy, own = machine.instructions[move.instruction], machine.instructions[tile.mapping.instruction]
    memories = [o.memory for o in copy.instruction.operands]
    alone = all(memory is not None and suppliers.is_addressable(memory) for memory in memories)
    if not alone or copy.cost.unit == own.cost.unit:
        return described
    return replace(described, mover=copy.cost.unit, moved_ns_per_element=move.cost_ns)
