"""Execute a program: decode words, and interpret each command's semantics on images of memories.

It repairs and assumes nothing. Each access must be inside its memory, and in main memory inside one array. A
read element must have been written, and only the caller writes inputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import Axis, DType, Index, Loop, Operand, Read, Routine, Stmt, execute_bound
from isamap.ir.walk import map_reads
from isamap.machine import Machine
from isamap.source import VerificationFailed, dataclass, field, replace
from isamap.stream.accesses import AccessedBytes, accesses, span_of
from isamap.stream.command import Address, Command, Register, bound_instruction, extents, integers
from isamap.stream.command_words import Numbered
from isamap.stream.encoding import decode, decode_end
from isamap.stream.memory_layout import StreamArray
from isamap.stream.program_file import ProgramFile
from isamap.stream.queues import in_queues
from isamap.stream.tables import contents_of

Array = NDArray[Any]


NEVER = 2**31 - 1
"""In place of the level of a command that wrote: none did."""
MOST_TOGETHER = 1 << 20
"""The largest number of elements of one operand in the commands that are performed as one."""


@dataclass(slots=True)
class _Memory:
    """The image of a memory. Each byte has the levels of the last commands that wrote and accessed it.

    `bounds` has the first address of each array in it, its end, and the array; None if accesses may be anywhere.
    """

    image: Array
    written: Array
    touched: Array
    bounds: tuple[tuple[int, int, StreamArray], ...] | None = None


@dataclass(slots=True)
class _Value:
    """A register: its content, and the levels of the last commands that wrote and accessed it."""

    shape: tuple[int, ...]
    dtype: Any
    written: int
    touched: int
    values: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """The data that commands share if they differ only in addresses and register numbers."""

    bound: Routine
    scalars: Mapping[str, float]
    shapes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...] | None, ...]
    spans: tuple[range, ...]


_Issue = tuple[Numbered, _Plan, tuple[AccessedBytes, ...]]
"""A command with its plan, and the access of each operand."""


@dataclass(slots=True)
class Execution:
    """The memories and registers of a machine while it executes a program or its parts."""

    program: ProgramFile
    machine: Machine
    memories: dict[str, _Memory]
    registers: dict[tuple[str, int], _Value] = field(default_factory=dict[tuple[str, int], _Value])
    plans: dict[object, _Plan] = field(default_factory=dict[object, _Plan])

    @staticmethod
    def of(program: ProgramFile, machine: Machine, given: Mapping[str, Array]) -> Execution:
        """Return the state before the first word. `given` are inputs and old values of outputs, by name."""
        return Execution(program, machine, _memories(program, given))

    def perform(self, words: Sequence[int], instructions: int) -> None:
        """Execute words that are a whole program with a number of instructions.

        Raises: VerificationFailed if a word is not an instruction, or an instruction goes wrong.
        """
        placed = decode(words, self.machine, contents_of(self.program.tables))
        if len(placed) != instructions:
            said = f"the words are {len(placed)} instructions, and the header promises {instructions}"
            raise VerificationFailed.of("program-word", said)
        ordered = in_queues(placed, decode_end(words, self.machine), self.machine)
        levels: dict[int, list[_Issue]] = {}
        for _, at_once in groupby(ordered, key=lambda one: one.issued):
            issues = [_issue(one, self) for one in at_once]
            levels.setdefault(_note(issues, self), []).extend(issues)
        for _, issues in sorted(levels.items()):
            _perform(issues, self)

    def values(self, name: str) -> Array:
        """Return a copy of an array."""
        array, image = self._image(name)
        return image.view(array.dtype.numpy()).reshape(array.shape).copy()

    def put(self, name: str, values: Array) -> None:
        """Write an array in the way of the host."""
        array, image = self._image(name)
        image[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.memories[array.memory].written[array.offset : array.offset + array.size_bytes] = 0

    def _image(self, name: str) -> tuple[StreamArray, Array]:
        array = next(a for a in self.program.arrays if a.name == name)
        return array, self.memories[array.memory].image[array.offset : array.offset + array.size_bytes]


def execute_program(program: ProgramFile, machine: Machine, given: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs by name. `given` are inputs and old values of outputs, which are not changed.

    Raises: VerificationFailed if a word is not an instruction, or an instruction goes wrong.
    """
    run = Execution.of(program, machine, given)
    run.perform(program.words, program.instructions)
    return {a.name: run.values(a.name) for a in program.arrays if a.role in ("out", "inout")}


def count_instructions(program: ProgramFile, machine: Machine) -> dict[str, int]:
    """Return the number of occurrences of each instruction in a program."""
    placed = decode(program.words, machine, contents_of(program.tables))
    return dict(Counter(one.command.instruction for one in placed).most_common())


def _memories(program: ProgramFile, given: Mapping[str, Array]) -> dict[str, _Memory]:
    """Return the images before the first command: inputs are present, everything else is unwritten."""
    main = {a.memory for a in program.arrays if a.role != "buffer"}
    memories: dict[str, _Memory] = {}
    for name, size in program.memories.items():
        own = sorted(
            (a.offset, a.offset + a.size_bytes, n) for n, a in enumerate(program.arrays) if a.memory == name
        )
        bounds = tuple((first, end, program.arrays[n]) for first, end, n in own) if name in main else None
        image, written = np.zeros(size, np.uint8), np.full(size, NEVER, np.int32)
        memories[name] = _Memory(image, written, np.zeros(size, np.int32), bounds)
    for array in program.arrays:
        if array.role in ("in", "inout"):
            memory, where = memories[array.memory], slice(array.offset, array.offset + array.size_bytes)
            values = np.ascontiguousarray(given[array.name]).astype(array.dtype.numpy(), copy=False)
            memory.image[where] = values.reshape(-1).view(np.uint8)
            memory.written[where] = 0
    return memories


# --- the order: a command's level is above those of all commands that it has to wait for ---


def _issue(one: Numbered, state: Execution) -> _Issue:
    """Return a command with its plan and accesses. Raises: VerificationFailed for invalid bytes."""
    command = one.command
    strides = tuple(where.strides if isinstance(where, Address) else None for _, where in command.operands)
    key = command.instruction, command.params, strides
    if (plan := state.plans.get(key)) is None:
        plan = state.plans[key] = _plan(command, strides, state.machine)
    for operand, span, (_, where) in zip(plan.bound.operands, plan.spans, command.operands, strict=True):
        if isinstance(where, Address):
            _check_place(operand, where, span, one, state)
    return one, plan, tuple(accesses(command, state.machine.instructions[command.instruction].instruction))


def _plan(command: Command, strides: tuple[tuple[int, ...] | None, ...], machine: Machine) -> _Plan:
    instruction = machine.instructions[command.instruction].instruction
    bound, params = (
        bound_instruction(instruction, integers(instruction, command.params)),
        dict(command.params),
    )
    scalars = {
        p.name: float(_value(params[p.name], p.dtype)) for p in instruction.params if p.dtype is not None
    }
    spans = (
        range(1) if s is None else span_of(o, Address("", 0, s))
        for o, s in zip(bound.operands, strides, strict=True)
    )
    return _Plan(bound, scalars, tuple(map(extents, bound.operands)), strides, tuple(spans))


def _value(bits: int, dtype: DType) -> Any:
    return np.frombuffer(bits.to_bytes(dtype.size_bytes, "little"), dtype.numpy())[0]


def _check_place(operand: Operand, where: Address, span: range, one: Numbered, state: Execution) -> None:
    """Refuse bytes outside a memory, across arrays, or of a written input. Raises: VerificationFailed."""
    memory, first, end = (
        state.memories.get(where.memory),
        where.address + span.start,
        where.address + span.stop,
    )
    size = 0 if memory is None else memory.image.size
    if memory is None or first < 0 or end > size:
        raise _error(one, f"`{operand.name}` reaches {where.memory} + {end - 1}, which has {size} bytes")
    if memory.bounds is None:
        return
    at = bisect_right(memory.bounds, first, key=lambda own: own[0]) - 1
    if at < 0 or end > memory.bounds[at][1]:
        raise _error(one, f"`{operand.name}` at {where.memory} + {where.address} is not within one array")
    if operand.role != "in" and (array := memory.bounds[at][2]).role == "in":
        raise _error(one, f"`{operand.name}` is written into `{array.name}`, an input")


def _note(issues: Sequence[_Issue], state: Execution) -> int:
    """Return the level of commands that run at the same time, and record it at the bytes that they access.

    Raises: VerificationFailed for a read of what nothing has written, and for two that write the same.
    """
    level = 0
    for one, plan, touched in issues:
        for n, access in enumerate(touched):
            level = max(level, _needed_level(one, plan, n, access, state))
    level += 1
    for one, plan, touched in issues:
        for n, access in enumerate(touched):
            _mark(one, plan, n, access, level, state)
    return level


def _needed_level(one: Numbered, plan: _Plan, n: int, access: AccessedBytes, state: Execution) -> int:
    """Return the highest level of the commands that must execute before an access."""
    operand, where, level = plan.bound.operands[n], one.command.operands[n][1], 0
    if isinstance(where, Register):
        held = state.registers.get((where.memory, where.number))
        if access.is_read:
            if held is None or held.shape != plan.shapes[n] or held.dtype != operand.dtype.numpy():
                said = f"`{operand.name}` is register {where.number} of {where.memory}, which has no such registers"
                raise _error(one, said)
            level = held.written
        return max(level, held.touched) if held is not None and access.is_written else level
    memory = state.memories[where.memory]
    if access.is_read:
        seen = access.of(memory.written)
        if (level := int(seen.max())) == NEVER:
            first = int(access.of(np.arange(memory.image.size))[seen == NEVER].min())
            raise _error(one, f"`{operand.name}` is read at {where.memory} + {first}, never written before")
    return max(level, int(access.of(memory.touched).max())) if access.is_written else level


def _mark(one: Numbered, plan: _Plan, n: int, access: AccessedBytes, level: int, state: Execution) -> None:
    """Record the level of a command at the bytes and registers that it accesses."""
    operand, where = plan.bound.operands[n], one.command.operands[n][1]
    same = f"another instruction of the word also writes `{operand.name}`"
    if isinstance(where, Register):
        held = state.registers.get((where.memory, where.number))
        if access.is_written:
            if held is not None and held.written == level:
                raise _error(one, same)
            own = (
                plan.shapes[n],
                operand.dtype.numpy(),
                level,
                level,
                held.values if held is not None else None,
            )
            state.registers[where.memory, where.number] = _Value(*own)
        elif held is not None:
            held.touched = max(held.touched, level)
        return
    memory = state.memories[where.memory]
    touched = access.of(memory.touched)
    if access.is_written:
        written = access.of(memory.written)
        if bool((written == level).any()):
            raise _error(one, same)
        written[...] = level
    np.maximum(touched, level, out=touched)


# --- commands of one level that differ in places only, as one ---


def _perform(issues: Sequence[_Issue], state: Execution) -> None:
    """Execute commands that are independent of each other."""
    groups: dict[_Plan, list[Numbered]] = {}
    for one, plan, _ in issues:
        groups.setdefault(plan, []).append(one)
    results = [
        (plan, part, done)
        for plan, group in groups.items()
        for part, done in _compute_group(plan, group, state)
    ]
    for plan, part, done in results:
        for n, operand in enumerate(plan.bound.operands):
            if operand.role != "in":
                for one, values in zip(part, done[operand.name], strict=True):
                    _write(plan, n, one.command.operands[n][1], values, state)


def _compute_group(
    plan: _Plan, group: Sequence[Numbered], state: Execution
) -> Iterator[tuple[Sequence[Numbered], dict[str, Array]]]:
    """Yield parts of a group of commands, each with the results of all operands."""
    if any(o.domain is not None for o in plan.bound.operands):  # data decides places
        for one in group:
            seen = {
                o.name: _read_place(plan, n, one.command.operands[n][1], state)
                for n, o in enumerate(plan.bound.operands) if o.role != "out"
            }  # fmt: skip
            done = execute_bound(plan.bound, seen, plan.scalars)
            yield (one,), {name: values[np.newaxis] for name, values in done.items()}
        return
    most = max(1, MOST_TOGETHER // max(1, *map(prod, plan.shapes)))
    for first in range(0, len(group), most):
        part = group[first : first + most]
        arrays = {
            o.name: np.stack([_read_place(plan, n, one.command.operands[n][1], state) for one in part])
            for n, o in enumerate(plan.bound.operands) if o.role != "out"
        }  # fmt: skip
        yield part, execute_bound(_together(plan.bound, len(part)), arrays, plan.scalars)


@lru_cache(maxsize=4096)
def _together(routine: Routine, count: int) -> Routine:
    """Return a routine that performs another one `count` times, with an additional axis in all operands."""
    axis = Index.of("#")

    def of_read(r: Read) -> Read:
        return replace(r, index=(axis, *r.index))

    def of_statement(s: Stmt) -> Stmt:
        guard = map_reads(s.guard, of_read) if s.guard is not None else None
        if isinstance(s, Loop):
            return replace(s, body=tuple(map(of_statement, s.body)), guard=guard)
        return replace(s, target=of_read(s.target), value=map_reads(s.value, of_read), guard=guard)

    body = tuple(Loop((Axis("#", Index.of(count)),), (of_statement(s),)) for s in routine.body)
    operands = tuple(replace(o, shape=(Index.of(count), *o.shape), strides=None) for o in routine.operands)
    return replace(routine, operands=operands, body=body)


def _view(plan: _Plan, n: int, where: Address, state: Execution) -> Array:
    image, dtype = state.memories[where.memory].image, plan.bound.operands[n].dtype.numpy()
    return np.ndarray(plan.shapes[n], dtype, image, where.address, where.strides)


def _read_place(plan: _Plan, n: int, where: Address | Register, state: Execution) -> Array:
    match where:
        case Register(memory, number):
            values = state.registers[memory, number].values
            assert values is not None, "it was written at a lower level"
            return values
        case Address():
            return _view(plan, n, where, state)


def _write(plan: _Plan, n: int, where: Address | Register, values: Array, state: Execution) -> None:
    match where:
        case Register(memory, number):
            state.registers[memory, number].values = values
        case Address():
            _view(plan, n, where, state)[...] = values


def _error(one: Numbered, said: str) -> VerificationFailed:
    return VerificationFailed.of("program-access", f"word {one.at}, `{one.command.instruction}`: {said}")
