"""A network as one stream of encoded instructions, with its tensors in one map of main memory.

    words 0 to 791        quantizelinear        x at dram[0x40], y0 at dram[0x24c40]
    words 792 to 44150    qlinearconv           y0, weights, y1
    -                     softmax, on the host
    …

A part of the stream is a whole program of its step: it begins and ends with the words that the machine wants. The
host performs a step between two parts by a library in C. Each tensor has a place of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from isamap.graph.graph import Array
from isamap.graph.model_library import CompiledModel, ModelOptions, ModelSource, compile_program_of
from isamap.graph.model_program import (
    Control,
    KernelCall,
    ModelProgram,
    Port,
    Step,
    TensorView,
    reads_of,
    writes_of,
)
from isamap.graph.types import size_bytes
from isamap.ir import DTYPES
from isamap.lower.program import LoweredProgram
from isamap.machine import Machine, home_of, main_memories
from isamap.source import UsageProblem, dataclass, replace
from isamap.source.progress import Watch
from isamap.stream import memory_layout as layouts
from isamap.stream.assemble import require_encoding
from isamap.stream.command import Address, Command, bound_instruction, extents, integers
from isamap.stream.encoding import encode_all, encode_end, rename_registers
from isamap.stream.execute import Execution
from isamap.stream.program_file import ProgramFile, StreamPart
from isamap.stream.residency import StepCommands, keep_tiles
from isamap.stream.tables import lay_out_tables, places_in
from isamap.stream.timing import busiest_ns
from isamap.stream.tokens import assign_tokens
from isamap.stream.unroll import MOST_COMMANDS, too_long, unroll


@dataclass(frozen=True, slots=True)
class Traffic:
    """The main memory traffic of commands, each access counted. Units: bytes.

    `share` is the time of the busiest unit, relative to its time without tiles that stay in scratchpads.
    """

    read: int
    written: int
    share: float = 1.0

    @property
    def total(self) -> int:
        return self.read + self.written


@dataclass(frozen=True, slots=True)
class NetworkStream:
    """The program of a network as a stream, and the traffic of its parts, in order."""

    program: ProgramFile
    traffic: tuple[Traffic, ...]


def assemble_network(
    program: ModelProgram, lowered: Mapping[str, LoweredProgram], machine: Machine, watch: Watch
) -> NetworkStream:
    """Return the stream of a network. The host performs the steps whose kernels are not in `lowered`.

    Raises: UsageProblem for what no encoded instruction does.
    """
    encoding = require_encoding(machine)
    if control := next((step.name for step in program.steps if isinstance(step, Control)), None):
        said = f"`{control}` calls graphs inside as data decides, and a stream has no branches"
        raise UsageProblem.of("stream-unsupported", said, help="compile it without --emit program")
    main, homes = home_of(machine), {name: layouts.memories_of(one, machine) for name, one in lowered.items()}
    tensors = place_tensors(program, machine, homes)
    arrays = dict(tensors)
    numbers, unrolled, changed = list[int](), list[StepCommands](), list[layouts.StreamArray]()
    for number, step in enumerate(program.steps):
        if not isinstance(step, KernelCall) or step.kernel not in lowered:
            changed += [tensors[passed.tensor] for passed in writes_of(step)]
            continue
        watch(f"encode {step.kernel}", number + 1, len(program.steps))
        own = layouts.lay_out(
            lowered[step.kernel],
            machine,
            _operands(step, tensors, homes[step.kernel], main),
            layouts.end_of(arrays, main),
        )
        buffers = tuple(a for a in own.values() if a.role == "buffer" and a.memory == main)
        arrays |= {f"{step.kernel}_{number}_{a.name}": a for a in buffers}
        numbers.append(number)
        unrolled.append(
            StepCommands(tuple(unroll(lowered[step.kernel], machine, own)), tuple(changed), buffers)
        )
        changed.clear()
    if sum(len(part.commands) for part in unrolled) > MOST_COMMANDS:
        raise too_long(MOST_COMMANDS)
    watch("keep tiles")
    kept = [rename_registers(commands, machine) for commands in keep_tiles(unrolled, machine)]
    made = [(n, *assign_tokens(commands, machine)) for n, commands in zip(numbers, kept, strict=True)]
    every = [command for _, commands, _ in made for command in commands]
    tables = lay_out_tables(every, machine, main, layouts.end_of(arrays, main))
    places = places_in(tables)
    words, parts = list[int](), list[StreamPart]()
    for number, commands, last in made:
        own = [*encoding.begin, *encode_all(commands, machine, places), *encode_end(last, machine)]
        parts.append(StreamPart(number, len(own), len(commands)))
        words += own
    ends = (layouts.align_up(t.offset + t.size_bytes, layouts.ALIGNMENT) for t in tables)
    file = ProgramFile(
        program.name, machine.name, machine.digest, {}, encoding.word_bits, len(every),
        layouts.memory_sizes(machine, arrays, max((layouts.end_of(arrays, main), *ends))),
        tuple(replace(array, name=name) for name, array in arrays.items()), tuple(words), tables, tuple(parts),
    )  # fmt: skip
    traffic = [
        replace(_traffic(own, machine), share=busiest_ns(own, machine) / busiest_ns(part.commands, machine))
        for part, own in zip(unrolled, kept, strict=True)
    ]  # fmt: skip
    return NetworkStream(file, tuple(traffic))


def place_tensors(
    program: ModelProgram, machine: Machine, homes: Mapping[str, Mapping[str, str]]
) -> dict[str, layouts.StreamArray]:
    """Return all tensors in main memory: inputs and weights, results, and those between steps.

    `homes` has the memories of kernels' operands, if a machine has several. A constant is in each that is needed.
    """
    main, step = home_of(machine), layouts.first_address(machine)
    ends, found = dict.fromkeys(main_memories(machine), step), dict[str, layouts.StreamArray]()
    given = {port.passed.tensor for port in program.inputs} | program.constants.keys()
    results = {port.passed.tensor for port in program.outputs}
    ports = [port.passed for port in (*program.inputs, *program.outputs)]
    every = [(passed, main) for passed in ports]
    for one in program.steps:
        read = [(p, main) for p in reads_of(one)]
        if isinstance(one, KernelCall) and one.kernel in homes:
            read = [(p, homes[one.kernel].get(n, main)) for n, p in one.reads.items()]
        every += [*read, *((p, main) for p in writes_of(one))]
    for passed, memory in every:
        name = _name_in(memory, passed.tensor, main)
        if name in found:
            continue
        role = "in" if passed.tensor in given else "out" if passed.tensor in results else "buffer"
        dtype, shape = DTYPES[passed.dtype], passed.shape
        if passed.tensor in program.constants:  # a step may see a part of it
            constant = program.constants[passed.tensor]
            dtype, shape = DTYPES["u8"], (constant.nbytes,)
        elif passed.is_part:
            raise _in_part(passed)
        found[name] = layouts.StreamArray(name, role, memory, dtype, shape, ends[memory])
        ends[memory] = layouts.align_up(ends[memory] + found[name].size_bytes, step)
    return found


def _name_in(memory: str, tensor: str, main: str) -> str:
    """Return the name of a tensor's array in a memory."""
    return tensor if memory == main else f"{tensor}@{memory}"


def _operands(
    step: KernelCall, tensors: Mapping[str, layouts.StreamArray], homes: Mapping[str, str], main: str
) -> dict[str, layouts.StreamArray]:
    """Return the places of a kernel's operands. Raises: UsageProblem for a part of a tensor."""
    found: dict[str, layouts.StreamArray] = {}
    for role, passed in (("in", step.reads), ("out", step.writes)):
        for name, one in passed.items():
            if one.is_part:
                raise _in_part(one)
            place = tensors[_name_in(homes.get(name, main), one.tensor, main)]
            found[name] = layouts.StreamArray(
                name, role, place.memory, DTYPES[one.dtype], one.shape, place.offset
            )
    return found


def _in_part(passed: TensorView) -> UsageProblem:
    said = f"a kernel reads a part of `{passed.tensor}`, and a stream places whole tensors"
    return UsageProblem.of("stream-unsupported", said, help="compile it without --emit program")


def _traffic(commands: Sequence[Command], machine: Machine) -> Traffic:
    """Return the bytes that commands read and write in main memory."""
    mains, read, written = main_memories(machine), 0, 0
    for command in commands:
        instruction = machine.instructions[command.instruction].instruction
        bound = bound_instruction(instruction, integers(instruction, command.params))
        for name, where in command.operands:
            if isinstance(where, Address) and where.memory in mains:
                operand = bound.operand(name)
                size = prod(extents(operand)) * operand.dtype.size_bytes
                read += size if operand.role != "out" else 0
                written += size if operand.role != "in" else 0
    return Traffic(read, written)


def least_traffic(
    program: ModelProgram, stream: ProgramFile, images: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Return the least main memory traffic of each part of a stream. Units: bytes.

    Weights, inputs and results count once, and tensors between steps once per part that reads or writes them.
    Steps of the host and borders of images do not count. `images` has the sizes without borders.
    """
    steps = [program.steps[part.step] for part in stream.parts]

    def inside(p: TensorView) -> int:
        return size_bytes(p.dtype, images.get(p.tensor, p.shape))

    moved = [p for step in steps for p in {*reads_of(step), *writes_of(step)}]
    sizes = {p.tensor: inside(p) for p in moved}
    given = {port.passed.tensor for port in program.inputs}
    results = {port.passed.tensor for port in program.outputs}
    kinds = {"weights": program.constants.keys(), "inputs": given, "results": results}
    found = {kind: sum(size for t, size in sizes.items() if t in names) for kind, names in kinds.items()}
    outside = given | results | program.constants.keys()
    between = sum(inside(p) for p in moved if p.tensor not in outside)
    return {**found, "between steps": between}


# --- steps of the host -------------------------------------------------------------------------------------


def host_programs(program: ModelProgram, stream: ProgramFile) -> Iterator[tuple[int, ModelProgram]]:
    """Yield each step of the host as a program of its own, with its number."""
    encoded = {part.step for part in stream.parts}
    for number, step in enumerate(program.steps):
        if number not in encoded:
            yield number, _program_of_step(program, step, number)


def _program_of_step(program: ModelProgram, step: Step, number: int) -> ModelProgram:
    """Return the program of one step, whose inputs and results have the names of its tensors."""
    constants = {
        p.tensor: program.constants[p.tensor] for p in reads_of(step) if p.tensor in program.constants
    }
    inputs = {p.tensor: Port(p.tensor, p) for p in reads_of(step) if p.tensor not in constants}
    outputs = {p.tensor: Port(p.tensor, p) for p in writes_of(step)}
    kernels = {step.kernel: program.kernels[step.kernel]} if isinstance(step, KernelCall) else {}
    return ModelProgram(
        f"{program.name}_host{number}",
        tuple(inputs.values()),
        tuple(outputs.values()),
        constants,
        kernels,
        (step,),
    )


def compile_host(
    program: ModelProgram, stream: ProgramFile, how: ModelOptions, watch: Watch, *, runs: bool
) -> dict[int, ModelSource]:
    """Return the library of each step of the host, by step number."""
    on_host = replace(how, machine=how.host, host="", devices=1)
    steps = list(host_programs(program, stream))
    found: dict[int, ModelSource] = {}
    for number, alone in steps:
        watch(f"host {alone.name}", len(found) + 1, len(steps))
        found[number] = compile_program_of(alone, on_host, runs=runs)
    return found


def host_files(host: Mapping[int, ModelSource]) -> dict[str, str | bytes]:
    """Return the C of the host's steps, by file name, without Makefiles."""
    found: dict[str, str | bytes] = {}
    for library in host.values():
        for name, content in library.emitted.files.items():
            if name != "Makefile":
                found[name] = content if isinstance(content, str) else bytes(content)
    return found


# --- performing --------------------------------------------------------------------------------------------


class StreamedModel:
    """A network whose stream is interpreted step by step. The host's steps run as C."""

    def __init__(
        self,
        program: ModelProgram,
        stream: ProgramFile,
        machine: Machine,
        host: Mapping[int, ModelSource],
        watch: Watch,
    ) -> None:
        self.program, self.stream, self.machine, self.progress = program, stream, machine, watch
        self._host = {number: CompiledModel(library) for number, library in host.items()}

    @property
    def inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The types and sizes of inputs by name."""
        return {port.name: (port.passed.dtype, port.passed.shape) for port in self.program.inputs}

    def watch(
        self, inputs: Mapping[str, Any], each: Callable[[Callable[[TensorView], Array], int], None]
    ) -> None:
        """Perform all steps. `each` is called after a step with a function that copies a tensor, and the number.

        Raises: VerificationFailed if a word is not an instruction, or an instruction goes wrong.
        """
        named = {a.name: a.name.removesuffix(f"@{a.memory}") for a in self.stream.arrays}
        given = {
            name: np.ascontiguousarray(self.program.constants[tensor]).reshape(-1).view(np.uint8)
            for name, tensor in named.items() if tensor in self.program.constants
        }  # fmt: skip
        given |= {port.passed.tensor: inputs[port.name] for port in self.program.inputs}
        run = Execution.of(self.stream, self.machine, given)
        parts, at = {part.step: part for part in self.stream.parts}, 0

        def copy(passed: TensorView) -> Array:
            return (
                run.values(passed.tensor).reshape(-1).view(DTYPES[passed.dtype].numpy()).reshape(passed.shape)
            )

        for number, step in enumerate(self.program.steps):
            self.progress("perform", number + 1, len(self.program.steps))
            if (part := parts.get(number)) is not None:
                run.perform(self.stream.words[at : at + part.words], part.instructions)
                at += part.words
            else:
                read = {p.tensor: p for p in reads_of(step) if p.tensor not in self.program.constants}
                made = self._host[number]({name: copy(passed) for name, passed in read.items()})
                for name, array in made.items():
                    run.put(name, array)
            each(copy, number)
