"""Divide the kernels of a program between an accelerator and its host.

A kernel that the accelerator performs is one part. Otherwise the longest run of statements that the
accelerator performs is a part, and the statements before and after it are divided in the same way. The
remaining statements run on the host. A temporary between two parts becomes a tensor of the program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from isamap.driver.inputs import load_machine, machine_of
from isamap.driver.request import Request, complete_sizes
from isamap.driver.side_by_side import done_side_by_side
from isamap.emit.c import EmittedC
from isamap.formulate.build import least_issues
from isamap.graph.graph import Array
from isamap.graph.group_prices import compile_as_passed
from isamap.graph.model_program import KernelCall, ModelProgram, Step, TensorView, reads_of, writes_of
from isamap.graph.sizes import most_of
from isamap.graph.types import size_bytes
from isamap.ir import DTYPES, Constraint, Index, Kernel, Range, bind, print_routine
from isamap.lower.program import LoweredProgram
from isamap.lower.work_slices import dense_numbers
from isamap.machine import Machine, home_of, main_memories, memory_of_constants
from isamap.match.patterns.layouts import stored_blocks
from isamap.match.refusals.refuse import adds_to_narrowed, can_convert, lacking_abilities
from isamap.source import IsamapError, MissingTool, NoMapping, Source
from isamap.source.progress import Watch
from isamap.stream.memory_layout import ALIGNMENT, main_step, memories_of
from isamap.stream.unroll import MOST_COMMANDS, least_commands, too_long
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements
from isamap.transform.block_storage import Storage, in_stored_blocks
from isamap.transform.integer_scales import with_integer_scales
from isamap.transform.parts import kernel_of, units_of, with_constants, with_extrema, with_values_apart
from isamap.transform.split_sums import with_late_starts

NONE = "none"
"""The word for no host: kernels that the accelerator cannot perform are refused."""
DEFAULT = "generic-c"
"""The host of an accelerator whose description names none."""


@dataclass(frozen=True, slots=True)
class CompiledModelKernel:
    """A kernel of a model. Units: bytes of its workspace, and nanoseconds by the cost model."""

    emitted: EmittedC
    workspace_bytes: int
    cost_ns: float
    is_cut_short: bool
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its gap, energy, and bytes by level, of the last schedule where several are for parts of the sizes."""
    lowered: LoweredProgram | None = None
    """The program behind the C, where it was asked for."""
    memories: Mapping[str, str] = field(default_factory=dict[str, str])
    """The main memories of operands, on a machine with several, as far as they are decided."""


@dataclass(frozen=True, slots=True)
class KernelPart:
    """A part of a kernel that one machine performs. `why` is the reason for the host, "" on the accelerator."""

    name: str
    text: str
    made: CompiledModelKernel
    why: str
    temporaries: Mapping[str, TensorView]
    """The temporaries that it shares with other parts, by their names in the kernel, as tensors of that name."""
    storage: Mapping[str, Storage] = field(default_factory=dict[str, Storage])
    """The storage of those operands that it does not take as the kernel does."""


@dataclass(frozen=True, slots=True)
class DividedModel:
    """A program of kernel parts, the origin of each, and the reasons why some run on `host`.

    `origins` has, by the first tensor that a part writes, the first tensor that its kernel writes.
    """

    program: ModelProgram
    made: Mapping[str, CompiledModelKernel]
    why: Mapping[str, str]
    origins: Mapping[str, str]
    host: Machine


def host_of(word: str | None, machine: str) -> str:
    """Return the host that an option or a machine's description names, or "".

    By default a machine that runs as a model only has one. Raises: UsageProblem, SpecProblem.
    """
    accelerator = load_machine(machine)
    if word is None:
        word = accelerator.host or (DEFAULT if accelerator.target.run == "model" else NONE)
    host = "" if word == NONE else machine_of(word)
    return host if host and load_machine(host).name != accelerator.name else ""


def reads_signed_bytes_only(machine: str) -> bool:
    """Return whether a machine's instructions read signed bytes and none reads unsigned bytes."""
    every = (o for item in load_machine(machine).instructions.values() for o in item.instruction.operands)
    read = {str(operand.dtype) for operand in every if operand.role != "out"}
    return "i8" in read and "u8" not in read


def writes_borders(machine: str) -> bool:
    """Return whether a machine can write constant bytes to main memory, as image borders require."""
    text = "kernel border() { out y: i8[64]; for i in 64 { y[i] = 1; } }"
    try:
        make_kernel(Request(Source("border", text), machine, {}, heuristic="greedy"))
    except IsamapError:
        return False
    return True


def make_kernel(request: Request, *, lowered: bool = False) -> CompiledModelKernel:
    """Return a compiled kernel: C, workspace and arguments, and whether a time limit ended its search."""
    try:
        made = compile_as_passed(request)
    except NoMapping:
        if not request.packed:
            raise
        made = compile_as_passed(replace(request, packed=()))  # each mapping reads its weights in place
    summary: Mapping[str, Any] = made.outcome.summary
    room = summary["workspace"]
    size = int(room.get("most_bytes", room["fixed_bytes"])) + sum(room["scratchpad_bytes"].values())
    cost = float(summary["schedule"]["cost"])
    program = made.compilation.program if lowered else None
    of_last = {key: summary[key][-1] for key in ("levels", "energy_pj") if key in summary}
    facts = {"gap": summary["schedule"]["gap"], **of_last}
    return CompiledModelKernel(made.emitted, size, cost, made.outcome.is_cut_short, facts, program)


def with_known_numbers(program: ModelProgram) -> ModelProgram:
    """Return a program with constants of one number as literals, which instructions can encode.

    A vector whose elements are equal, such as one scale for all channels, is one number, too.
    Steps with other numbers then have kernels of their own. Constants that no step reads any more are left out.
    """
    kernels, steps = dict[str, str](), list[Step]()
    for step in program.steps:
        made, text = step, ""
        if isinstance(step, KernelCall) and not step.sizes:
            text = program.kernels[step.kernel]
            known = {
                name: program.constants[p.tensor].reshape(-1)[0] for name, p in step.reads.items()
                if p.dtype == "f32" and (array := program.constants.get(p.tensor)) is not None
                and array.size == max(p.shape, default=1) and np.isfinite(array).all()
                and (array == array.reshape(-1)[0]).all()
            }  # fmt: skip
            if known:
                kernel = with_constants(parse_kernel(Source("kernel", text)), known)
                digest = sha256(repr(sorted(known.items())).encode()).hexdigest()[:8]
                kernel = replace(kernel, name=f"{step.kernel}_{digest}")
                reads = {name: p for name, p in step.reads.items() if name not in known}
                made, text = replace(step, kernel=kernel.name, reads=reads), print_routine(kernel)
        if isinstance(made, KernelCall):
            kernels[made.kernel] = text or program.kernels[made.kernel]
        steps.append(made)
    used = {p.tensor for step in steps for p in reads_of(step)} | {
        port.passed.tensor for port in program.outputs
    }
    constants = {name: array for name, array in program.constants.items() if name in used}
    return replace(program, kernels=kernels, steps=tuple(steps), constants=constants)


def with_shifts_of(program: ModelProgram, machine: Machine) -> ModelProgram:
    """Return a program with shifts for power-of-two scales, if a machine cannot convert integers to floats."""
    if can_convert(machine, "i32", "f32"):
        return program
    most: dict[str, dict[str, int]] = {}
    for step in program.steps:
        if isinstance(step, KernelCall) and not step.sizes:
            own = most.setdefault(step.kernel, {})
            for name in _constant_operands(program, step.kernel):
                passed = step.reads[name]
                if DTYPES[passed.dtype].is_integer:
                    values = program.constants[passed.tensor].reshape(-1).view(DTYPES[passed.dtype].numpy())
                    own[name] = max(own.get(name, 0), *(abs(int(x)) for x in (values.min(), values.max())))
    kernels = dict(program.kernels)
    for name, own in most.items():
        kernel = make_guards_explicit(bind(parse_kernel(Source("kernel", kernels[name])), {}))
        if (made := with_integer_scales(kernel, own)) is not None:
            kernels[name] = print_routine(made)
    return replace(program, kernels=kernels)


def divide(
    program: ModelProgram,
    asked: Sequence[tuple[Request, Request]],
    host: Machine,
    jobs: int | str,
    watch: Watch,
    *,
    lowered: bool = False,
) -> DividedModel:
    """Return a divided program. Each kernel has a request for the accelerator and one for the host.

    Raises: IsamapError of any kind if the host cannot perform what the accelerator cannot.
    """
    names, parts = list(program.kernels), dict[str, tuple[KernelPart, ...]]()
    constants, do = dict(program.constants), partial(_parts_of, lowered=lowered)
    calls = Counter(s.kernel for s in program.steps if isinstance(s, KernelCall) and lowered and not s.sizes)
    machines = {name: load_machine(request.machine) for name, (request, _) in zip(names, asked, strict=True)}
    least = {name: _least_length(program.kernels[name], machines[name]) for name in calls}
    _require_short(least, calls)
    given = [(*pair, _constant_operands(program, name)) for name, pair in zip(names, asked, strict=True)]
    made = done_side_by_side(do, given, jobs, here=True, machines=lambda one: [r.machine for r in one[:2]])
    for done, (number, found) in enumerate(made):
        watch(f"divide {names[number]}", done + 1, len(names))
        parts[names[number]] = found
        if names[number] in calls:
            programs = (part.made.lowered for part in found if part.made.lowered is not None)
            least[names[number]] = sum(least_commands(p.body, dense_numbers(p, {})) for p in programs)
            _require_short(least, calls)
    steps, origins = list[Step](), dict[str, str]()
    for step in program.steps:
        made = list(_calls(step, parts[step.kernel], constants)) if isinstance(step, KernelCall) else [step]
        first = next(iter(writes_of(step))).tensor
        origins |= {next(iter(writes_of(one))).tensor: first for one in made}
        steps += made
    every = [part for name in names for part in parts[name]]
    kernels = {part.name: part.text for part in every}
    used = {p.tensor for step in steps for p in reads_of(step)}
    used |= {port.passed.tensor for port in program.outputs}
    constants = {name: array for name, array in constants.items() if name in used}
    return DividedModel(
        replace(program, kernels=kernels, steps=tuple(steps), constants=constants),
        {part.name: part.made for part in every},
        {part.name: part.why for part in every if part.why},
        origins,
        host,
    )


def _least_length(text: str, machine: Machine) -> int:
    """Return a lower bound of the instructions of a kernel in a stream, by the mappings of its sums."""
    kernel = make_guards_explicit(bind(parse_kernel(Source("kernel", text)), {}))
    return 0 if _lacks(kernel, machine) else least_issues(kernel, machine)


def _require_short(least: Mapping[str, int], calls: Mapping[str, int]) -> None:
    """Check the length of a stream by lower bounds of its kernels. Raises: UsageProblem."""
    each = {name: calls[name] * length for name, length in least.items()}
    if sum(each.values()) > MOST_COMMANDS:
        most = max(each, key=lambda name: each[name])
        said = f"it has at least {sum(each.values())}; {each[most]} of them are those of `{most}`"
        raise too_long(MOST_COMMANDS, (said,))


def _constant_operands(program: ModelProgram, kernel: str) -> tuple[str, ...]:
    """Return the inputs of a kernel that are constants in each of its calls."""
    calls = [step for step in program.steps if isinstance(step, KernelCall) and step.kernel == kernel]
    names = calls[0].reads if calls else ()
    return tuple(n for n in names if all(call.reads[n].tensor in program.constants for call in calls))


def _store(passed: TensorView, storage: Storage, constants: dict[str, Array]) -> TensorView:
    """Return a tensor in the storage that a part requires. A reordered constant is added to `constants`."""
    if storage.order == tuple(range(len(storage.order))):
        return replace(passed, shape=storage.shape)
    name = f"{passed.tensor}_{'_'.join(map(str, storage.shape))}"
    if name not in constants:
        values = constants[passed.tensor].reshape(-1).view(DTYPES[passed.dtype].numpy())
        constants[name] = np.ascontiguousarray(values.reshape(storage.split).transpose(storage.order))
    return replace(passed, tensor=name, shape=storage.shape)


def _calls(
    step: KernelCall, parts: Sequence[KernelPart], constants: dict[str, Array]
) -> Iterator[KernelCall]:
    """Yield the calls of a kernel's parts. Temporary tensors are named after the kernel's first result."""
    first = next(iter(step.writes.values())).tensor
    for part in parts:
        own = {n: replace(p, tensor=f"{first}_{n}") for n, p in part.temporaries.items()}
        known = {**step.reads, **step.writes}
        known = {
            n: _store(p, part.storage[n], constants) if n in part.storage else p for n, p in known.items()
        }
        known |= own
        roles = {t.name: t.role for t in part.made.emitted.interface.tensors}
        reads = {name: known[name] for name, role in roles.items() if role == "in"}
        writes = {name: known[name] for name, role in roles.items() if role != "in"}
        yield replace(step, kernel=part.name, reads=reads, writes=writes)


def _parts_of(
    asked: tuple[Request, Request, tuple[str, ...]], *, lowered: bool = False
) -> tuple[KernelPart, ...]:
    """Return the parts of a kernel, each with the machine that performs it.

    In a stream, constants are stored in the blocks that the machine copies.

    Raises: IsamapError if the host does not perform a part.
    """
    request, host, constants = asked
    if lowered and constants:
        for block in stored_blocks(load_machine(request.machine)):
            parts = _parts_as_written(
                request, host, constants, lowered, lambda k, own=block: in_stored_blocks(k, constants, own)
            )
            if not all(part.why for part in parts):
                return parts
    late = None
    if adds_to_narrowed(load_machine(request.machine)):
        kernel = parse_kernel(request.kernel)
        is_open = any(isinstance(size, Range) for size in complete_sizes(kernel, request.sizes).values())
        late = None if is_open else with_late_starts(kernel)
    if late is None:
        return _parts_as_written(request, host, constants, lowered)
    own = Source(request.kernel.name, print_routine(late))
    parts = _parts_as_written(replace(request, kernel=own), replace(host, kernel=own), constants, lowered)
    if not any(part.why for part in parts):
        return parts
    written = _parts_as_written(request, host, constants, lowered)
    return min(
        parts, written, key=lambda one: (sum(1 for p in one if p.why), sum(p.made.cost_ns for p in one))
    )


StoreIn = Callable[[Kernel], tuple[Kernel, dict[str, Storage]] | None]
"""Returns a kernel that wants operands stored otherwise, and how; None if it is no such kernel."""


def _parts_as_written(
    request: Request,
    host: Request,
    constants: Sequence[str],
    lowered: bool,
    store: StoreIn = lambda kernel: None,
) -> tuple[KernelPart, ...]:
    """Return the parts of a kernel. Raises: IsamapError if the host does not perform one."""
    text = request.kernel.text
    parsed = parse_kernel(request.kernel)
    sizes = complete_sizes(parsed, request.sizes)
    is_open = any(isinstance(size, Range) for size in sizes.values())
    machine = load_machine(request.machine)
    kernel, storage = parsed, dict[str, Storage]()
    if not is_open:
        kernel = make_guards_explicit(bind(parsed, sizes))
        if (found := store(kernel)) is not None:
            kernel, storage = found
            text = print_routine(kernel)
        if not kernel.strict and _lacks(kernel, machine):
            kernel = with_extrema(kernel)
            text = print_routine(kernel)
        kernel = with_values_apart(kernel, lambda statement: not lacking_abilities(statement, machine))
    units = ((),) if is_open else units_of(kernel)
    tried: dict[tuple[int, int], CompiledModelKernel | str] = {}

    def text_of(first: int, behind: int) -> tuple[str, str]:
        if (first, behind) == (0, len(units)):
            return parsed.name, text
        name = f"{parsed.name}_{first}_{behind}"
        return name, print_routine(kernel_of(kernel, units, first, behind, name))

    def attempt(first: int, behind: int) -> CompiledModelKernel | str:
        if (first, behind) not in tried:
            _, own = text_of(first, behind)
            lacks = _lacks(kernel_of(kernel, units, first, behind, "part"), machine)
            if lacks and not is_open:  # the search for mappings would take longer to say the same
                return tried.setdefault((first, behind), lacks)
            promised, why = _promise_alignment(own, machine) if lowered else own, ""
            for placed, memories in _placements(promised, constants, machine):
                try:
                    wanted = Source(request.kernel.name, placed)
                    made = make_kernel(replace(request, kernel=wanted), lowered=lowered)
                    seen = {} if made.lowered is None else memories_of(made.lowered, machine)
                    return tried.setdefault((first, behind), replace(made, memories=memories | seen))
                except MissingTool:
                    raise
                except IsamapError as error:
                    found = error.diagnostics[0]
                    why = found.notes[0] if found.notes else found.message
            tried[first, behind] = why
        return tried[first, behind]

    def split(first: int, behind: int) -> Iterator[KernelPart]:
        for length in range(behind - first, 0, -1):
            for start in range(first, behind - length + 1):
                made = attempt(start, start + length)
                if isinstance(made, CompiledModelKernel):
                    if first < start:
                        yield from split(first, start)
                    yield part(start, start + length, made, "")
                    if start + length < behind:
                        yield from split(start + length, behind)
                    return
        why = attempt(first, behind)
        assert isinstance(why, str), "all runs were refused"
        _, own = text_of(first, behind)
        made = make_kernel(replace(host, kernel=Source(host.kernel.name, own)))
        yield part(first, behind, made, why)

    def part(first: int, behind: int, made: CompiledModelKernel, why: str) -> KernelPart:
        return KernelPart(*text_of(first, behind), made, why, _temporaries(kernel, made), storage)

    return tuple(split(0, len(units)))


def _placements(
    text: str, constants: Sequence[str], machine: Machine
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a kernel that names the main memories of its operands, and these memories, those to try first first.

    Other tensors are where instructions read and write, and constants where instructions only read, if there are
    such memories. Otherwise the constants are with the others, or each where the instruction that moves it reads.
    """
    if len(main_memories(machine)) == 1:
        yield text, {}
        return
    kernel, home = parse_kernel(Source("kernel", text)), home_of(machine)
    read = {(o.memory, o.dtype) for i in machine.instructions.values() for o in i.instruction.operands}
    every: dict[str, dict[str, str]] = {}
    for memory in dict.fromkeys((memory_of_constants(machine), home, "")):
        places = {
            o.name: memory if o.name in constants and (not memory or (memory, o.dtype) in read) else home
            for o in kernel.operands if o.role != "temp"
        }  # fmt: skip
        places = {name: place for name, place in places.items() if place}
        operands = (replace(o, memory=places.get(o.name)) for o in kernel.operands)
        every.setdefault(print_routine(replace(kernel, operands=tuple(operands))), places)
    yield from every.items()


def _promise_alignment(text: str, machine: Machine) -> str:
    """Return a kernel that states the alignment of a stream's arrays, if it exceeds what machines require."""
    step = main_step(machine)
    if step <= ALIGNMENT:
        return text
    kernel = parse_kernel(Source("kernel", text))
    where = (
        Constraint(Index.of(f"align({o.name})"), ">=", Index.of(step))
        for o in kernel.operands
        if o.role != "temp"
    )
    return print_routine(replace(kernel, where=(*kernel.where, *where)))


def _lacks(kernel: Kernel, machine: Machine) -> str:
    """Return the name of an operation that no instruction of a machine performs, or ""."""
    return next((lacks[0] for s in statements(kernel) if (lacks := lacking_abilities(s, machine))), "")


def _temporaries(kernel: Kernel, made: CompiledModelKernel) -> dict[str, TensorView]:
    """Return the temporaries that a part of a kernel reads or writes, by name."""
    own = {operand.name for operand in kernel.operands if operand.role == "temp"}
    return {
        t.name: TensorView(t.name, t.dtype.name, tuple(int(size.evaluate({})) for size in t.shape))
        for t in made.emitted.interface.tensors
        if t.name in own
    }


def transfers_of(program: ModelProgram, on_host: Mapping[str, str], machine: Machine) -> list[float]:
    """Return, for each step, the time of transfers between the machines. Units: nanoseconds.

    A tensor is transferred if the reading machine is not the one that wrote it, over the slowest link of the
    memory of results. Inputs, results and constants are in main memory, which both machines access.
    """
    home = home_of(machine)
    rates = [link.bandwidth_bytes_per_ns for link in machine.links if link.source_memory == home]
    wrote: dict[str, bool] = {}
    found: list[float] = []
    for step in program.steps:
        is_host = not isinstance(step, KernelCall) or step.kernel in on_host
        crossing = {p.tensor: p for p in reads_of(step) if wrote.get(p.tensor, is_host) != is_host}
        moved = sum(most_of(size_bytes(p.dtype, p.shape)) for p in crossing.values())
        found.append(moved / min(rates) if rates else 0.0)
        wrote |= {p.tensor: is_host for p in writes_of(step)}
    return found
