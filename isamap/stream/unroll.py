"""Unroll a lowered program to its sequence of commands, by running its loops in the compiler.

`for k0 < 3 { mvin x = A + 16*k0, … }` is three commands. So a program serves one set of sizes, and grows with
them: MOST_COMMANDS bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

import numpy as np

from isamap.ir import Const, DType, Index
from isamap.lower import program as lir
from isamap.lower.work_slices import by_one_thread, dense_numbers, is_met
from isamap.machine import Machine, MachineInstruction
from isamap.source import UsageProblem, dataclass, field
from isamap.stream import command as commands
from isamap.stream.memory_layout import StreamArray

MOST_COMMANDS = 1_000_000


def unroll(
    program: lir.LoweredProgram,
    machine: Machine,
    arrays: Mapping[str, StreamArray],
    most: int = MOST_COMMANDS,
) -> Iterator[commands.Command]:
    """Yield the commands of a program. Raises: UsageProblem for issues that cannot be encoded, and for too many."""
    assert not program.symbols, "a program is made for numbers"
    walk = _Walk(machine, arrays, dense_numbers(program, {}))
    for count, command in enumerate(walk.nodes(program.body), 1):
        if count > most:
            raise too_long(most)
        yield command


def too_long(most: int, notes: Sequence[str] = ()) -> UsageProblem:
    """Return the error that a program has more than `most` instructions."""
    return UsageProblem.of(
        "stream-too-long",
        f"the program has more than {most} instructions: its loops are written out",
        notes=tuple(notes),
        help="give smaller sizes; the plain-C model, `compile` without --emit, keeps its loops",
    )


def least_commands(nodes: Sequence[lir.Node], env: Mapping[str, int]) -> int:
    """Return a lower bound of the commands of nodes, where loops of equal iterations count by their trips.

    An issue whose parameters change with a loop is left out, because some of them may have no elements.
    """
    found = 0
    for node in by_one_thread(nodes):
        match node:
            case lir.Issue():
                found += not any(isinstance(v, Index) and v.symbols for _, v in node.params)
            case lir.For(variable, trips, body):
                count = trips.evaluate(env)
                alike = variable not in _find_deciding(body)
                for trip in range(min(count, 1) if alike else count):
                    found += least_commands(body, {**env, variable: trip}) * (count if alike else 1)
            case lir.If(conditions, body):
                found += least_commands(body, env) if is_met(conditions, env) else 0
            case lir.Block(_, body):
                found += least_commands(body, env)
            case _:
                pass
    return found


def _find_deciding(body: Sequence[lir.Node]) -> set[str]:
    """Return the variables on which trips and conditions in a body depend."""
    found = set[str]()
    for node in by_one_thread(body):
        match node:
            case lir.For(_, trips, inner):
                found |= {*trips.symbols, *_find_deciding(inner)}
            case lir.If(conditions, inner):
                ends = (end for left, _, right in conditions for end in (left, right))
                found |= {name for end in ends for name in end.symbols} | _find_deciding(inner)
            case lir.Block(_, inner):
                found |= _find_deciding(inner)
            case _:
                pass
    return found


@dataclass(slots=True)
class _Walk:
    machine: Machine
    arrays: Mapping[str, StreamArray]
    env: dict[str, int]
    values: dict[str, lir.Value] = field(default_factory=dict[str, lir.Value])

    def nodes(self, nodes: Sequence[lir.Node]) -> Iterator[commands.Command]:
        """Yield the commands of nodes in order."""
        for node in by_one_thread(nodes):
            match node:
                case lir.Issue():
                    if (command := self._command(node)) is not None:
                        yield command
                case lir.Declare(values):
                    self.values |= {value.name: value for value in values}
                case lir.For(variable, trips, body):
                    yield from self._loop(variable, trips, body)
                case lir.If(conditions, body):
                    if is_met(conditions, self.env):
                        yield from self.nodes(body)
                case lir.Block(_, body):
                    yield from self.nodes(body)
                case lir.Fill(buffer):
                    raise _report_unsupported(
                        f"`{buffer}` is filled with zeros by the host", "an instruction"
                    )
                case lir.Configure(instruction):
                    raise _report_unsupported(
                        f"`{instruction}` loads configuration state", "constants in its words"
                    )
                case _:
                    assert_never(node)

    def _loop(self, variable: str, trips: Index, body: tuple[lir.Node, ...]) -> Iterator[commands.Command]:
        for trip in range(trips.evaluate(self.env)):
            self.env[variable] = trip
            yield from self.nodes(body)
        self.env.pop(variable, None)

    def _command(self, issue: lir.Issue) -> commands.Command | None:
        """Return the command of an issue, or None if it has no elements, as beyond an axis' end."""
        item = self.machine.instructions[issue.instruction]
        decided = dict(issue.params)
        params = tuple((p.name, self._param(decided[p.name], p.dtype, item)) for p in item.instruction.params)
        numbers = commands.integers(item.instruction, params)
        if any(e.evaluate(dict(numbers)) == 0 for o in item.instruction.operands for e in o.shape):
            return None
        bound = commands.bound_instruction(item.instruction, numbers)
        given = dict(issue.operands)
        operands: list[tuple[str, commands.Address | commands.Register]] = []
        for operand in item.instruction.operands:
            match given[operand.name]:
                case lir.RegisterRef(value):
                    held = self.values[value]
                    operands.append((operand.name, commands.Register(held.memory, held.register or 0)))
                case lir.MemoryRef(buffer, offset, strides):
                    array = self.arrays[buffer]
                    size = array.dtype.size_bytes
                    apart = tuple(stride.evaluate(self.env) * size for stride in strides)
                    address = array.offset + offset.evaluate(self.env) * size
                    own = bound.operand(operand.name)
                    place = commands.byte_strides(own, apart)
                    assert all(
                        a == b for a, b, n in zip(apart, place, commands.extents(own), strict=True) if n > 1
                    ), f"`{item.name}` takes `{operand.name}` as its words say"
                    operands.append((operand.name, commands.Address(array.memory, address, place)))
        return commands.Command(item.name, tuple(operands), params)

    def _param(self, value: lir.Argument, dtype: DType | None, item: MachineInstruction) -> int:
        match value:
            case int():
                return value
            case Index():
                return value.evaluate(self.env)
            case Const(number) if dtype is not None:
                return int.from_bytes(np.asarray(number).astype(dtype.numpy()).tobytes(), "little")
            case _:
                raise _report_unsupported(
                    f"`{item.name}` is given a number that only a call of the kernel knows", "constants"
                )


def _report_unsupported(what: str, instead: str) -> UsageProblem:
    return UsageProblem.of(
        "stream-unsupported", f"{what}, which no encoded instruction does", help=f"describe {instead}"
    )
