"""Instructions that initialise a sum in a scratchpad, so that no separate instruction sets it to 0.

stream         c[m, n] += i32(a[m, k]) * i32(b[k, n])
stream_first   c[m, n] = 0, then the same
"""

from __future__ import annotations

from isamap.ir import Const, Index, Instruction
from isamap.machine import Machine
from isamap.match.operand_loads.load_request import MoveSearch, OperandMove
from isamap.match.operand_loads.load_search import find_operand_load
from isamap.match.patterns.pattern import pattern_of
from isamap.match.tiles.operand_tiles import OperandTile, Tile
from isamap.source.records import replace
from isamap.transform import Statement, reads, statements


def beginning_of(name: str, machine: Machine) -> str | None:
    """Return the instruction that equals `name` except that it starts from 0, or None."""
    own = pattern_of(machine.instructions[name].instruction)
    if own is None:
        return None
    for item in machine.instructions.values():
        other = item.instruction
        if _zeroes_first(other, own.instruction, own.statement):
            return other.name
    return None


def find_zeroing(first: OperandTile, tile: Tile, search: MoveSearch) -> str:
    """Return the instruction that starts scratchpad sums from 0, or "" if none does."""
    if first.subject != first.fill or first.fill.value != 0 or not search.is_addressable(first.memory):
        return ""
    return beginning_of(tile.mapping.instruction, search.machine) or ""


def initial_load(first: OperandTile, search: MoveSearch) -> OperandMove | None:
    """Return the operand load that initialises sums without a memory access, or None."""
    found = None if reads(first.subject) else find_operand_load(search, first.request({}))
    return found if isinstance(found, OperandMove) else None


def _zeroes_first(other: Instruction, own: Instruction, summed: Statement) -> bool:
    """Return whether `other` sets the result to 0 and then does what `own`, with the statement `summed`, does."""
    found = statements(other)
    if len(found) != 2 or other.params != own.params or other.where != own.where:
        return False
    written = tuple(replace(o, role="inout") if o.role == "out" else o for o in other.operands)
    zero, then = found
    if written != own.operands or (then.assign, then.axes) != (summed.assign, summed.axes):
        return False
    target, shape = zero.assign.target, own.operand(summed.assign.target.buffer).shape
    is_zero = isinstance(zero.assign.value, Const) and zero.assign.value.value == 0
    is_all = target.index == tuple(Index.of(a.name) for a in zero.axes)
    is_all = is_all and tuple(a.extent for a in zero.axes) == shape and zero.assign.guard is None
    return is_zero and zero.assign.op is None and is_all and target.buffer == summed.assign.target.buffer
