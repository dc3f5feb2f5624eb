"""Conditions on the machine: whether an instruction's operands can be loaded before it is issued.

fma takes b in far, and nothing moves f32 from memory to far
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from isamap.ir import Const, Expr, Index, Kernel, Operand, Placement, Read, Scalar, print_expr
from isamap.machine import Machine
from isamap.machine.model import EmitNothing
from isamap.match.mappings.groups import find_groups
from isamap.match.moves.chains import Movement
from isamap.match.moves.movement import movements
from isamap.match.operand_loads.load_search import MoveSearch
from isamap.match.patterns.pattern import Pattern, patterns_of
from isamap.match.refusals.kernel_edits import abridge
from isamap.match.refusals.rejection import Failure, Pair
from isamap.match.tiles.operand_tiles import move_search_of
from isamap.source.records import dataclass
from isamap.transform import Statement, reads, statements

Held = tuple[str, str]
"""A memory and a type."""

_TRIED = 16
"""The number of mappings of one instruction whose operand moves are searched."""


@dataclass(frozen=True)
class OfferedMoves:
    """The data movements that a machine offers for a kernel, computed once for all instructions."""

    kernel: Kernel
    machine: Machine

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The kernel's statements."""
        return statements(self.kernel)

    @cached_property
    def search(self) -> MoveSearch:
        """The cached search for chains of moves."""
        return move_search_of(self.kernel, self.machine)

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The instructions that assign, moves included."""
        found = (p for i in self.machine.instructions.values() for p in patterns_of(i.instruction))
        return tuple(p for p in found if p.statement.assign.op is None)

    @cached_property
    def reachable(self) -> frozenset[Held]:
        """The memories and types that chains of moves from addressable memory reach."""
        found: set[Held] = set()
        before = -1
        while before != len(found):
            before = len(found)
            for p in self.patterns:
                inputs = [o for o in p.instruction.operands if o.role == "in"]
                if all(self.is_addressable(o) or _held_parts(o) in found for o in inputs):
                    found.add(_held_parts(p.output))
        return frozenset(found)

    @cached_property
    def returning(self) -> frozenset[Held]:
        """The memories and types from which chains store data into the kernel's arrays."""
        found: set[Held] = set()
        before = -1
        while before != len(found):
            before = len(found)
            for p in self.patterns:
                if self.is_addressable(p.output) or _held_parts(p.output) in found:
                    found |= {_held_parts(o) for o in p.instruction.operands if o.role == "in"}
        return frozenset(found)

    def is_addressable(self, operand: Operand) -> bool:
        return self.search.is_addressable(operand.memory)

    @cached_property
    def grouped(self) -> frozenset[tuple[int, str]]:
        """The statements that a multi-statement instruction performs together with others."""
        found = find_groups(self.kernel, self.machine)
        return frozenset((n, g.instruction) for g in found if g.kind != "degenerate" for n in g.statements)

    @cached_property
    def settable(self) -> frozenset[tuple[str, str]]:
        """The fields of states (or whole states) that an instruction sets."""
        found: set[tuple[str, str]] = set()
        for item in self.machine.instructions.values():
            found |= {(state, "") for state in item.instruction.sets_state}
            found |= {(s.field.state, s.field.field) for s in item.instruction.settings}
        return frozenset(found)


def _held_parts(operand: Operand) -> Held:
    return operand.memory or "", operand.dtype.name


def refuse_around(case: Pair, around: OfferedMoves) -> Failure | None:
    """Return the failure that the machine cannot execute an instruction that has mappings, or None."""
    assert case.pattern is not None
    return next((c for condition in AROUND if (c := condition(case, around)) is not None), None)


# --- operands ---------------------------------------------------------------------------------------------


def _out_of_reach(case: Pair, around: OfferedMoves) -> Failure | None:
    for o in case.item.instruction.operands:
        if around.is_addressable(o) or o.role == "temp":
            continue
        span = case.statement.assign.span
        if o.role in ("in", "inout") and _held_parts(o) not in around.reachable:
            message = f"takes {o.name} in {o.memory}: no instruction brings {o.dtype} there from memory"
            edit = f"a load of {o.dtype} into {o.memory} in the machine's description"
            return Failure("memory-out-of-reach", message, span, o.span, edit)
        if o.role in ("out", "inout") and _held_parts(o) not in around.returning:
            message = f"leaves {o.name} in {o.memory}: no instruction brings {o.dtype} back to memory"
            edit = f"a store of {o.dtype} from {o.memory} in the machine's description"
            return Failure("memory-out-of-reach", message, span, o.span, edit)
    return None


def _placement(case: Pair, around: OfferedMoves) -> Failure | None:
    for o in case.item.instruction.operands:
        if o.placement is None or o.role not in ("in", "inout") or around.is_addressable(o):
            continue
        makers = [p.output for p in around.patterns if _held_parts(p.output) == _held_parts(o)]
        if makers and not any(_same_place(m.placement, o.placement) for m in makers):
            written = ", ".join(f"{name}: {e}" for name, e in o.placement.coordinates)
            message = f"takes {o.name} placed at {written}: no load to {o.memory} has that placement"
            edit = f"a move within {o.memory} to that placement in the machine's description"
            return Failure("placement-differs", message, case.statement.assign.span, o.span, edit)
    return None


def _same_place(mine: Placement | None, theirs: Placement) -> bool:
    if mine is None or len(mine.indices) != len(theirs.indices):
        return False
    renamed: dict[str, Index | int] = {
        a: Index.of(b) for a, b in zip(mine.indices, theirs.indices, strict=True)
    }
    return {n: e.substitute(renamed) for n, e in mine.coordinates} == dict(theirs.coordinates)


def _moves(case: Pair, around: OfferedMoves) -> Failure | None:
    """Return the failure that each mapping has an operand in memory that no chain loads, or None.

    Registers are loaded from a known place. The chain is shown with the mapping. The last instruction of a
    chain performs an assignment: one that does not reach a scratchpad may be followed by another.
    """
    operands = [o for o in case.item.instruction.operands if around.is_addressable(o)]
    if case.statement.assign.op is None:
        operands = [o for o in operands if case.machine.memories[o.memory or ""].kind == "scratchpad"]
    if not operands:
        return None
    first: Failure | None = None
    for mapping in case.performed[:_TRIED]:
        found = movements(case.kernel, case.statement, mapping, around.machine, search=around.search)
        missing = next((m for m in found if m.kind == "none"), None)
        if missing is None:
            return None
        subject = next((b.subject for b in mapping.bindings if b.name == missing.operand), None)
        first = first or _not_loadable(case, missing, subject)
    return first


def _not_loadable(case: Pair, missing: Movement, subject: Expr | None) -> Failure:
    operand = case.item.instruction.operand(missing.operand)
    shown = case.statement.assign.target if subject is None else subject
    memory = case.machine.memories.get(operand.memory or "")
    if isinstance(subject, Read) and memory is not None and memory.kind == "addressable":
        required = f"reads {operand.name} in {operand.memory} as {_layout(operand)}"
        message = f"{required}; `{abridge(shown)}` has another layout"
        edit = f"the array of `{abridge(shown)}` stored the other way round, or a load into a register"
        return Failure("column-load", message, shown.span, operand.span, edit)
    message = f"cannot load or store {operand.name}: {missing.why}"
    edit = f"a move of {operand.dtype} to {operand.memory} in the machine's description"
    return Failure("operand-not-supplied", message, shown.span, operand.span, edit)


def _layout(operand: Operand) -> str:
    """Return text about the strides that the instruction expects."""
    if operand.strides is None:
        return "neighbours without a gap"
    return f"strides({', '.join('any' if s is None else str(s) for s in operand.strides)})"


def _fill(case: Pair, around: OfferedMoves) -> Failure | None:
    for read in reads(case.statement.assign.value):
        if read.fill is None or any(_writes(p, read.fill) for p in around.patterns):
            continue
        shown = print_expr(read.fill)
        message = f"needs `{abridge(read)}`, and no instruction writes {shown} where the array ends"
        edit = f"an array with {shown} around it, or an instruction that sets {read.dtype} to {shown}"
        return Failure("fill-not-supplied", message, read.span, case.item.instruction.span, edit)
    return None


def _writes(pattern: Pattern, fill: Const) -> bool:
    """Return whether an instruction may leave a value in its target, as a result or in masked lanes."""
    if pattern.output.dtype != fill.dtype:
        return False
    if pattern.output.outside == "zero" and fill.value == 0:
        return True
    return pattern.value == fill or isinstance(pattern.value, Scalar)


# --- state and emission -----------------------------------------------------------------------------------


def _state(case: Pair, around: OfferedMoves) -> Failure | None:
    for required in case.item.instruction.requires:
        field = required.field
        if (field.state, "") in around.settable or (field.state, field.field) in around.settable:
            continue
        message = f"requires {field.state}.{field.field} == {required.value}, and no instruction sets it"
        edit = f"an instruction that `sets {field.state}` in the machine's description"
        return Failure("state-not-set", message, case.statement.assign.span, required.span, edit)
    return None


def _emission(case: Pair, _around: OfferedMoves) -> Failure | None:
    if not isinstance(case.item.emit, EmitNothing):
        return None
    message = "matches, but cannot be written: its `emit` is `none`"
    edit = "say in the machine's description how it is emitted"
    return Failure("not-emitted", message, case.statement.assign.span, case.item.instruction.span, edit)


AROUND: tuple[Callable[[Pair, OfferedMoves], Failure | None], ...] = (
    _placement,
    _out_of_reach,
    _moves,
    _fill,
    _state,
    _emission,
)
"""The conditions on the machine around an instruction, tested in this order after all others."""
