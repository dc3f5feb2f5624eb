"""Explain why an operand cannot be loaded or stored: the field `why` of a movement of kind `none`.

`i8[2, 8] @ q` where the only load writes `i8[16] @ q`: as many bytes, and another shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from isamap.ir import Expr, Index, Operand, print_expr
from isamap.ir.bind import comparison_holds
from isamap.machine import unset_state
from isamap.match.moves.scratch_buffers import explain_behind_ends, explain_uncleared
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.operand_loads.load_search import find_operand_load
from isamap.match.patterns.pattern import Pattern
from isamap.match.patterns.reach import axis_limits, fit_shape
from isamap.match.tiles.operand_tiles import OperandTile, Tile, in_tiles, is_read_of


def array_of(operand: OperandTile) -> str:
    """Return text that names the array from which an operand is read, or to which it is written."""
    return is_read_of(operand.subject) or "its value"


def _expression_of(operand: OperandTile, tile: Tile) -> Expr:
    """Return the kernel's expression that an operand stands for."""
    return next((b.subject for b in tile.mapping.bindings if b.name == operand.name), operand.subject)


def explain_missing_move(operand: OperandTile, tile: Tile, search: MoveSearch, *, back: bool = False) -> str:
    """Return why an operand can be read neither in place nor from a buffer. `back` is set for a result."""
    machine = search.machine.name
    register = _show_shape(operand.register_dtype.name, operand.shape)
    if (lacking := explain_uncleared(tile, search)) is not None:
        said = lacking.diagnostics[0]
        return f"{said.message}, and {said.notes[0]}"
    if not back and (why := explain_behind_ends(operand, tile, search)):
        return why
    if search.is_addressable(operand.memory) and is_read_of(operand.subject) is None:
        reader = f"{operand.memory}, where {tile.mapping.instruction} reads it"
        return f"{machine} has no instruction that writes `{print_expr(_expression_of(operand, tile))}` to {reader}"
    if search.is_addressable(operand.memory) and not search.holds_arrays(operand.memory):
        step = search.known.address_steps[operand.memory]
        where = f", where all that is moved begins at multiples of {step} bytes" if step > 1 else ""
        copied = f"{register} of {array_of(operand)} into {operand.memory}"
        return f"{machine} has no instruction that copies {copied}{where}"
    writers = search.known.producers(operand.memory, operand.register_dtype.name)
    if not writers:
        without = _without_state(operand, search)
        return (
            without
            or f"{machine} has no instruction that writes {operand.register_dtype} to {operand.memory}"
        )
    if find_operand_load(search, operand.request({}, expr=in_tiles(operand, search))) is None:
        loads = {p.instruction.name: p.output for p in writers if _reads_memory(p, search)}
        others = {p.instruction.name: p.output for p in writers}
        hindered = (
            said
            for p in writers
            if _reads_memory(p, search) and (said := _describe_violation(p, operand.shape))
        )
        if (said := next(hindered, None)) is not None:
            return f"{said}, which {register} does not meet"
        return _other_shape(operand, machine, "writes {} to", {**loads, **others}) or (
            f"none of the {len(writers)} instructions of {machine} that write {operand.register_dtype} to "
            f"{operand.memory} loads {register} from memory, not even from a separate buffer"
        )
    stores = _stores(operand, search) if back else {}
    if stores and (said := _other_shape(operand, machine, "stores {} from", stores)) is not None:
        return said
    return f"{machine} cannot copy an element of {array_of(operand)} into a buffer, or one back"


def _without_state(operand: OperandTile, search: MoveSearch) -> str | None:
    """Return text that names a state which loads require and no instruction sets, or None."""
    for item in search.machine.instructions.values():
        outputs = {(o.memory, o.dtype) for o in item.instruction.operands if o.role != "in"}
        state = unset_state(item.instruction, search.machine)
        if state and (operand.memory, operand.register_dtype) in outputs:
            return f"{item.name} requires `{state}`, and no instruction sets it"
    return None


def _describe_violation(pattern: Pattern, shape: tuple[int, ...]) -> str | None:
    """Return text that names a violated constraint if an instruction writes this shape of register, or None."""
    params = fit_shape(pattern.output, shape)
    whole = tuple(None for _ in shape)
    placed = axis_limits(pattern, params, pattern.target.index, shape, whole) if params is not None else None
    if params is None or placed is None:
        return None
    known = params | {n: mask.value for n, mask in placed[1].items() if mask.value is not None}
    for c in pattern.instruction.where:
        left, right = c.left.substitute(known).value, c.right.substitute(known).value
        if left is not None and right is not None and not comparison_holds(left, c.comparison, right):
            return f"{pattern.name} requires `{c.left} {c.comparison} {c.right}`"
    return None


def _other_shape(operand: OperandTile, machine: str, verb: str, others: Mapping[str, Operand]) -> str | None:
    """Return the message that registers have other shapes, with the nearest one, or None if a shape is equal.

    The nearest holds as many elements, or is the first.
    """
    if any(fit_shape(o, operand.shape) is not None for o in others.values()):
        return None
    size = prod(operand.shape)
    as_many = (name for name, o in others.items() if prod(e.value or 0 for e in o.shape) == size)
    name = next(as_many, next(iter(others)))
    requested, there = (
        _show_shape(operand.register_dtype.name, s) for s in (operand.shape, others[name].shape)
    )
    missing = f"no move of {machine} {verb.format(requested)} {operand.memory}"
    nearest = f"the nearest, {name}, has {there} there"
    return f"{missing}: {nearest}; the moved and the computed tile need the same shape"


def _reads_memory(pattern: Pattern, search: MoveSearch) -> bool:
    inputs = [o for o in pattern.instruction.operands if o.role == "in"]
    return bool(inputs) and all(search.is_addressable(o.memory) for o in inputs)


def _stores(operand: OperandTile, search: MoveSearch) -> dict[str, Operand]:
    """Return, for each storing instruction, the operand that it reads from registers of the operand's kind."""
    memories = [m for m in search.machine.memories if search.is_addressable(m)]
    found: dict[str, Operand] = {}
    for memory, name in search.known.outputs:
        for pattern in search.known.producers(memory, name) if memory in memories else ():
            for o in pattern.instruction.operands:
                if o.role == "in" and (o.memory, o.dtype) == (operand.memory, operand.dtype):
                    found.setdefault(pattern.instruction.name, o)
    return found


def _show_shape(dtype: str, shape: Iterable[Index | int]) -> str:
    extents = ", ".join(map(str, shape))
    return f"{dtype}[{extents}]" if extents else dtype
