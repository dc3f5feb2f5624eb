"""A command: one instruction with all quantities of an issue as numbers, to be encoded or executed.

mvin  x = dram + 64, rows 40 bytes apart   z = spad + 0, rows 16 bytes apart   R = 16, C = 16
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from isamap.ir import Instruction, Operand, Param, Routine
from isamap.ir.interpret import bind_all
from isamap.machine.encodings import TOKENS, Quantity
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an operand in a memory. Units: `address` and `strides`, one per axis, in bytes."""

    memory: str
    address: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Register:
    """A register of a memory by its number."""

    memory: str
    number: int


@dataclass(frozen=True, slots=True)
class Command:
    """An instruction performed once; parameters of a type are given by their bits.

    `tokens` are those that it takes before and gives after, as ("pop", "load"), ("push", "store").
    """

    instruction: str
    operands: tuple[tuple[str, Place | Register], ...]
    params: tuple[tuple[str, int], ...] = ()
    tokens: frozenset[tuple[str, str]] = frozenset()


def free_axis(operand: Operand) -> int | None:
    """Return the axis whose stride each issue decides."""
    return next((axis for axis, stride in enumerate(operand.strides or ()) if stride is None), None)


def quantities(
    command: Command, instruction: Instruction, tokens: Iterable[Quantity] = ()
) -> dict[Quantity, int]:
    """Return all quantities that a command decides; `tokens` are the possible ones. Units: bytes."""
    found = {Quantity("param", name): value for name, value in command.params}
    found |= {token: int((token.kind, token.name) in command.tokens) for token in tokens}
    for name, where in command.operands:
        match where:
            case Register(_, number):
                found[Quantity("index", name)] = number
            case Place(_, address, strides):
                found[Quantity("address", name)] = address
                axis = free_axis(instruction.operand(name))
                if axis is not None:
                    found[Quantity("stride", name)] = strides[axis]
    return found


def command_of(instruction: Instruction, found: Mapping[Quantity, int]) -> Command:
    """Return the command with these field values; the instruction fixes those that no field holds."""
    params = tuple((p.name, _held(p, found)) for p in instruction.params)
    bound = bound_instruction(instruction, integers(instruction, params))
    operands = tuple((o.name, _where(o, bound, found)) for o in instruction.operands)
    return Command(instruction.name, operands, params, tokens_in(found))


def tokens_in(found: Mapping[Quantity, int]) -> frozenset[tuple[str, str]]:
    """Return the tokens that fields say are taken and given."""
    return frozenset((q.kind, q.name) for q, number in found.items() if q.kind in TOKENS and number)


def _held(param: Param, found: Mapping[Quantity, int]) -> int:
    """Return the value of a parameter in a field, or the one value that it may have."""
    if (held := found.get(Quantity("param", param.name))) is not None:
        return held
    only = param.low.value if param.low is not None else None
    assert only is not None, "a parameter that no field holds has one value"
    return only


def _where(operand: Operand, bound: Routine, found: Mapping[Quantity, int]) -> Place | Register:
    memory = operand.memory or ""
    if (address := found.get(Quantity("address", operand.name))) is None:
        return Register(memory, found.get(Quantity("index", operand.name), 0))
    free = found.get(Quantity("stride", operand.name), 0)
    return Place(memory, address, byte_strides(bound.operand(operand.name), free))


def byte_strides(operand: Operand, free: int) -> tuple[int, ...]:
    """Return strides of a bound operand in bytes; `free` is the stride of the axis without a declared one."""
    size = operand.dtype.size_bytes
    if operand.strides is not None:
        return tuple(free if s is None else int(s.evaluate({})) * size for s in operand.strides)
    strides: list[int] = []
    dense = size
    for extent in reversed(extents(operand)):
        strides.append(dense)
        dense *= extent
    return tuple(reversed(strides))


def extents(bound: Operand) -> tuple[int, ...]:
    """Return the extents of an operand whose instruction is bound."""
    return tuple(int(extent.evaluate({})) for extent in bound.shape)


def integers(instruction: Instruction, params: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return the parameters that are integers: those that shapes depend on."""
    return tuple((name, value) for name, value in params if instruction.param(name).dtype is None)


@lru_cache(maxsize=4096)
def bound_instruction(instruction: Instruction, params: tuple[tuple[str, int], ...]) -> Routine:
    """Return the instruction with its integer parameters put in. Raises: UsageProblem for one out of range."""
    return bind_all(instruction, dict(params))
