"""Execute a program: decode words, and interpret each command's meaning on images of memories.

It repairs and assumes nothing. Each access must be inside its memory, and in main memory inside one array. A
read element must have been written, and only the caller writes inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isamap.ir import DType, Operand, execute_bound
from isamap.machine import Machine
from isamap.source import Diagnostic, VerificationFailed
from isamap.source.records import dataclass, field
from isamap.stream.accesses import accesses, bytes_of, span_of
from isamap.stream.command import Place, Register, bound_instruction, extents, integers
from isamap.stream.command_words import Placed
from isamap.stream.encoding import decode, decode_end
from isamap.stream.memory_layout import StreamArray
from isamap.stream.program_file import ProgramFile
from isamap.stream.queues import in_queues
from isamap.stream.tables import contents_of

Array = NDArray[Any]


@dataclass(slots=True)
class _Memory:
    """An image, which of its bytes were written, and in which array each lies (0: in none, or not asked)."""

    image: Array
    written: Array
    owner: Array | None = None


@dataclass(slots=True)
class Execution:
    """The memories and registers of a machine while it performs a program, or the parts of one."""

    program: ProgramFile
    machine: Machine
    memories: dict[str, _Memory]
    registers: dict[tuple[str, int], Array] = field(default_factory=dict[tuple[str, int], Array])

    @staticmethod
    def of(program: ProgramFile, machine: Machine, given: Mapping[str, Array]) -> Execution:
        """Return the state before the first word; `given` are inputs and old values of outputs, by name."""
        return Execution(program, machine, _memories(program, given))

    def perform(self, words: Sequence[int], instructions: int) -> None:
        """Perform words that are a whole program of so many instructions.

        Raises: VerificationFailed if a word is no instruction, or an instruction goes wrong.
        """
        placed = decode(words, self.machine, contents_of(self.program.tables))
        if len(placed) != instructions:
            said = f"the words are {len(placed)} instructions, and the header promises {instructions}"
            raise VerificationFailed(Diagnostic("program-word", said))
        ordered = in_queues(placed, decode_end(words, self.machine), self.machine)
        for _, at_once in groupby(ordered, key=lambda one: one.issued):
            _perform(tuple(at_once), self)

    def values(self, name: str) -> Array:
        """Return a copy of an array."""
        array, image = self._image(name)
        return image.view(array.dtype.numpy()).reshape(array.shape).copy()

    def put(self, name: str, values: Array) -> None:
        """Write an array as the host does."""
        array, image = self._image(name)
        image[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.memories[array.memory].written[array.offset : array.offset + array.size_bytes] = True

    def _image(self, name: str) -> tuple[StreamArray, Array]:
        array = next(a for a in self.program.arrays if a.name == name)
        return array, self.memories[array.memory].image[array.offset : array.offset + array.size_bytes]


def execute_program(program: ProgramFile, machine: Machine, given: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs by name; `given` are inputs and old values of outputs, which are not changed.

    Raises: VerificationFailed if a word is no instruction, or an instruction goes wrong.
    """
    run = Execution.of(program, machine, given)
    run.perform(program.words, program.instructions)
    return {a.name: run.values(a.name) for a in program.arrays if a.role in ("out", "inout")}


def count_instructions(program: ProgramFile, machine: Machine) -> dict[str, int]:
    """Return the number of occurrences of each instruction in a program."""
    placed = decode(program.words, machine, contents_of(program.tables))
    return dict(Counter(one.command.instruction for one in placed).most_common())


def _memories(program: ProgramFile, given: Mapping[str, Array]) -> dict[str, _Memory]:
    """Return the images before the first command: inputs are there, all else was never written."""
    main = {a.memory for a in program.arrays if a.role != "buffer"}
    memories: dict[str, _Memory] = {}
    for name, size in program.memories.items():
        image, written = np.zeros(size, np.uint8), np.zeros(size, np.bool_)
        memories[name] = _Memory(image, written, np.zeros(size, np.int16) if name in main else None)
    for number, array in enumerate(program.arrays, 1):
        memory, where = memories[array.memory], slice(array.offset, array.offset + array.size_bytes)
        if memory.owner is not None:
            memory.owner[where] = number
        if array.role in ("in", "inout"):
            values = np.ascontiguousarray(given[array.name]).astype(array.dtype.numpy(), copy=False)
            memory.image[where] = values.reshape(-1).view(np.uint8)
            memory.written[where] = True
    return memories


_Result = tuple[Operand, Array, Placed]
"""The values that a command writes to an operand."""


def _perform(at_once: Sequence[Placed], state: Execution) -> None:
    """Perform commands on the values from before any of them. Raises: VerificationFailed."""
    results = [result for one in at_once for result in _computed(one, state)]
    if len(at_once) > 1:
        for operand, _, one in results:  # refuse places outside of memories before all bytes are listed
            place = dict(one.command.operands)[operand.name]
            if isinstance(place, Place):
                _bytes(operand, place, one, state, writes=True)
        _check_apart(at_once, state)
    for operand, values, one in results:
        _write(operand, dict(one.command.operands)[operand.name], values, one, state)


def _computed(one: Placed, state: Execution) -> list[_Result]:
    command = one.command
    instruction = state.machine.instructions[command.instruction].instruction
    bound = bound_instruction(instruction, integers(instruction, command.params))
    where = dict(command.operands)
    arrays = {o.name: _read(o, where[o.name], one, state) for o in bound.operands if o.role != "out"}
    scalars = {
        p.name: float(_value(dict(command.params)[p.name], p.dtype))
        for p in instruction.params
        if p.dtype is not None
    }
    done = execute_bound(bound, arrays, scalars)
    return [(o, done[o.name], one) for o in bound.operands if o.role != "in"]


def _check_apart(at_once: Sequence[Placed], state: Execution) -> None:
    """Refuse two commands of one word that write the same. Raises: VerificationFailed."""
    written: dict[str, set[int]] = {}
    for one in at_once:
        instruction = state.machine.instructions[one.command.instruction].instruction
        for access in (a for a in accesses(one.command, instruction) if a.is_written):
            own, noted = set(access.at.tolist()), written.setdefault(access.memory, set())
            if own & noted:
                raise _wrong(one, f"another instruction of the word also writes `{access.operand}`")
            noted |= own


def _value(bits: int, dtype: DType) -> Any:
    return np.frombuffer(bits.to_bytes(dtype.size_bytes, "little"), dtype.numpy())[0]


def _read(operand: Operand, where: Place | Register, one: Placed, state: Execution) -> Array:
    shape = extents(operand)
    match where:
        case Register(memory, number):
            held = state.registers.get((memory, number))
            if held is None or held.shape != shape or held.dtype != operand.dtype.numpy():
                raise _wrong(
                    one, f"`{operand.name}` is register {number} of {memory}, which has no such registers"
                )
            return held
        case Place():
            at = _bytes(operand, where, one, state)
            memory = state.memories[where.memory]
            if not memory.written[at].all():
                first = int(at[~memory.written[at]].min())
                raise _wrong(
                    one, f"`{operand.name}` is read at {where.memory} + {first}, never written before"
                )
            return memory.image[at].view(operand.dtype.numpy()).reshape(shape)


def _write(operand: Operand, where: Place | Register, values: Array, one: Placed, state: Execution) -> None:
    values = np.ascontiguousarray(values, operand.dtype.numpy())
    match where:
        case Register(memory, number):
            state.registers[memory, number] = values
        case Place():
            at = _bytes(operand, where, one, state, writes=True)
            memory = state.memories[where.memory]
            memory.image[at] = values.view(np.uint8).reshape(at.shape)
            memory.written[at] = True


def _bytes(operand: Operand, where: Place, one: Placed, state: Execution, *, writes: bool = False) -> Array:
    """Return the addresses of all bytes of an operand. Raises: VerificationFailed for one that is not its own."""
    memory, span = state.memories.get(where.memory), span_of(operand, where)
    size = 0 if memory is None else memory.image.size
    if span and (span.start < 0 or span.stop > size):
        last = span.stop - 1
        raise _wrong(one, f"`{operand.name}` reaches {where.memory} + {last}, which has {size} bytes")
    at = bytes_of(operand, where)
    if memory is not None and memory.owner is not None and at.size:
        owners = np.unique(memory.owner[at])
        if owners.size > 1 or owners[0] == 0:
            raise _wrong(one, f"`{operand.name}` at {where.memory} + {where.address} is not within one array")
        array = state.program.arrays[int(owners[0]) - 1]
        if writes and array.role == "in":
            raise _wrong(one, f"`{operand.name}` is written into `{array.name}`, an input")
    return at


def _wrong(one: Placed, said: str) -> VerificationFailed:
    return VerificationFailed(
        Diagnostic("program-access", f"word {one.at}, `{one.command.instruction}`: {said}")
    )
