"""A command: one issue of an instruction with all quantities as numbers, to be encoded or executed.

mvin  x = dram + 64, rows 40 bytes apart   z = spad + 0, rows 16 bytes apart   R = 16, C = 16
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from isamap.ir import Instruction, Operand, Param, Routine
from isamap.ir.interpret import bind_all
from isamap.machine.encodings import TOKENS, Quantity, free_axes
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """The place of an operand in a memory. Units: `address` and `strides`, one per axis, in bytes."""

    memory: str
    address: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Register:
    """The number of a register in a memory."""

    memory: str
    number: int


@dataclass(frozen=True, slots=True)
class Command:
    """One execution of an instruction. Typed parameters are given by their bits.

    `tokens` are those that it takes before and gives after, as ("pop", "load"), ("push", "store").
    """

    instruction: str
    operands: tuple[tuple[str, Address | Register], ...]
    params: tuple[tuple[str, int], ...] = ()
    tokens: frozenset[tuple[str, str]] = frozenset()


def quantities(
    command: Command, instruction: Instruction, tokens: Iterable[Quantity] = ()
) -> dict[Quantity, int]:
    """Return all quantities that a command determines. `tokens` are the possible ones. Units: bytes."""
    found = {Quantity("param", name): value for name, value in command.params}
    found |= {token: int((token.kind, token.name) in command.tokens) for token in tokens}
    for name, where in command.operands:
        match where:
            case Register(_, number):
                found[Quantity("index", name)] = number
            case Address(_, address, strides):
                found[Quantity("address", name)] = address
                for number, axis in enumerate(free_axes(instruction.operand(name))):
                    found[Quantity("stride", name, number=number)] = strides[axis]
    return found


def command_of(instruction: Instruction, found: Mapping[Quantity, int]) -> Command:
    """Return the command with these field values. The instruction fixes the quantities without a field."""
    params = tuple((p.name, _held_value(p, found)) for p in instruction.params)
    operands: list[tuple[str, Address | Register]] = []
    for name, memory, (address, index), strides in _places_of(instruction, integers(instruction, params)):
        if (at := found.get(address)) is None:
            operands.append((name, Register(memory, found.get(index, 0))))
            continue
        known = (found.get(s, 0) if isinstance(s, Quantity) else s for s in strides)
        operands.append((name, Address(memory, at, tuple(known))))
    return Command(instruction.name, tuple(operands), params, tokens_in(found))


def tokens_in(found: Mapping[Quantity, int]) -> frozenset[tuple[str, str]]:
    """Return the tokens that fields pop and push."""
    return frozenset((q.kind, q.name) for q, number in found.items() if q.kind in TOKENS and number)


def _held_value(param: Param, found: Mapping[Quantity, int]) -> int:
    """Return the value of a parameter from its field, or its only value without a field."""
    if (held := found.get(Quantity("param", param.name))) is not None:
        return held
    only = param.low.value if param.low is not None else None
    assert only is not None, "a parameter that no field holds has one value"
    return only


@lru_cache(maxsize=16384)
def _places_of(
    instruction: Instruction, params: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, str, tuple[Quantity, Quantity], tuple[int | Quantity, ...]], ...]:
    """Return each operand's memory, address, register, and strides (as numbers, or quantities in fields)."""
    bound = bound_instruction(instruction, params)
    found: list[tuple[str, str, tuple[Quantity, Quantity], tuple[int | Quantity, ...]]] = []
    for o in instruction.operands:
        held = Quantity("address", o.name), Quantity("index", o.name)
        strides: list[int | Quantity] = list(byte_strides(bound.operand(o.name)))
        for number, axis in enumerate(free_axes(o)):
            strides[axis] = Quantity("stride", o.name, number=number)
        found.append((o.name, o.memory or "", held, tuple(strides)))
    return tuple(found)


def byte_strides(operand: Operand, given: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return strides of a bound operand in bytes. Those that each issue determines come from `given`, or are 0."""
    size = operand.dtype.size_bytes
    if operand.strides is not None:
        known = enumerate(operand.strides)
        return tuple(
            (given[axis] if given else 0) if s is None else int(s.evaluate({})) * size for axis, s in known
        )
    strides: list[int] = []
    dense = size
    for extent in reversed(extents(operand)):
        strides.append(dense)
        dense *= extent
    return tuple(reversed(strides))


def extents(bound: Operand) -> tuple[int, ...]:
    """Return the extents of an operand of a bound instruction."""
    return tuple(int(extent.evaluate({})) for extent in bound.shape)


def integers(instruction: Instruction, params: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return the integer parameters, on which shapes depend."""
    names = _integer_names(instruction)
    return params if len(names) == len(params) else tuple(one for one in params if one[0] in names)


@lru_cache(maxsize=4096)
def _integer_names(instruction: Instruction) -> frozenset[str]:
    return frozenset(p.name for p in instruction.params if p.dtype is None)


@lru_cache(maxsize=4096)
def bound_instruction(instruction: Instruction, params: tuple[tuple[str, int], ...]) -> Routine:
    """Return the instruction with integer parameters substituted. Raises: UsageProblem for one out of range."""
    return bind_all(instruction, dict(params))
