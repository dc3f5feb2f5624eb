"""Write a program and the C of its kernels as one library: NAME.c, NAME.h, the weights, and a Makefile.

    int mlp_run(const mlp_inputs *inputs, const mlp_outputs *outputs, void *workspace);

Each kernel is a file of its own, as `isamap compile` writes it; `mlp_run` calls them in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import assert_never

import numpy as np

from isamap.emit.c import EmittedC
from isamap.emit.c_build import COMMON_FLAGS, COMPILER_FLAGS, pool_files
from isamap.emit.c_functions import helper_texts
from isamap.emit.c_interface import clean_comment
from isamap.emit.c_names import CNames, storage_type
from isamap.emit.c_text import index_text
from isamap.graph.graph_file import weights_of
from isamap.graph.model_program import Control, KernelCall, ModelProgram, Move, Port, Step, TensorView
from isamap.graph.planning import LINE_BYTES, MemoryPlan, apart_bytes
from isamap.graph.sizes import OpenSize, index_of, most_of
from isamap.graph.types import size_bytes
from isamap.ir import DTYPES, Index
from isamap.machine import Machine
from isamap.machine.allowed import compiler_flags
from isamap.plan.device_plan import Phase
from isamap.source import UsageProblem
from isamap.version import __version__

MOVES = ("isamap_moves.c", "isamap_moves.h")
NO_BODIES: Mapping[str, EmittedModel] = {}
MOST_WRITTEN = 1 << 18
"""Bytes of weights that are written out in C; more lie in a file of their own that the assembler includes."""


@dataclass(frozen=True, slots=True)
class EmittedModel:
    """The files of a model by name, those for the compiler, and how the library is called."""

    name: str
    files: Mapping[str, str | bytes | memoryview]
    sources: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    weights: memoryview
    is_apart: bool
    plan: MemoryPlan
    takes_pool: bool = False
    sizes: tuple[OpenSize, ...] = ()
    steps: int = 0
    """The number of steps that `NAME_watch` times, 0 if there is no such function."""
    counts: tuple[OpenSize, ...] = ()
    returned: tuple[OpenSize, ...] = ()
    """The sizes that data determines, and those whose places precede the results' in a call."""

    @property
    def workspace_bytes(self) -> int:
        """The bytes of workspace that a call needs, aligned to a cache line."""
        return self.plan.size_bytes


def emit(
    program: ModelProgram,
    kernels: Mapping[str, EmittedC],
    plan: MemoryPlan,
    machine: Machine,
    builder: Machine | None,
    *,
    apart: bool = False,
    phases: Sequence[Phase] = (),
    watched: bool = False,
    bodies: Mapping[str, EmittedModel] = NO_BODIES,
) -> EmittedModel:
    """Return the files of a library. With `apart`, weights are arguments of each call, stored in `NAME.weights`.

    `builder` is the machine whose flags build the files, None for plain C. `phases` are the step numbers by
    device; without them, steps run in sequence. A `watched` library has `NAME_watch`, which times each step
    and calls a function after it. `bodies` are the libraries of programs that steps call, by name, each with
    external weights.
    """
    writer = _Writer(program, kernels, plan, apart, phases, watched, bodies)
    name, weights = program.name, writer.weights
    files: dict[str, str | bytes | memoryview] = {
        f"{name}.h": writer.header(machine),
        f"{name}.c": writer.source(machine),
    }
    if len(weights) > MOST_WRITTEN or apart:
        files[f"{name}.weights"] = weights
    for kernel in program.kernels:
        _add(files, kernels[kernel].files() | writer.with_entry(kernel))
    moves = any(isinstance(step, Move) for step in program.steps)
    if moves:
        _add(files, {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in MOVES})
    sources = (
        f"{name}.c",
        *(f"{kernels[kernel].name}.c" for kernel in program.kernels),
        *(MOVES[:1] if moves else ()),
    )
    pool = pool_files() if writer.takes_pool else {}
    common = {*pool, "Makefile", *(MOVES if moves else ())}
    for body in bodies.values():
        own = {n: f for n, f in body.files.items() if n not in common and n != f"{body.name}.weights"}
        common |= {*pool_files(), *MOVES} & own.keys()
        _add(files, own)
        sources += tuple(source for source in body.sources if source not in sources)
    _add(files, pool)
    built = (*sources, *(file for file in pool if file.endswith(".c")))
    files["Makefile"] = _makefile(name, built, builder, ["-pthread"] if pool else [])
    ports, steps = (program.inputs, program.outputs), len(program.steps) if watched else 0
    return EmittedModel(
        name, files, sources, *ports, weights, apart, plan, writer.takes_pool, program.sizes, steps,
        program.counts, tuple(returned_counts(program)),
    )  # fmt: skip


def _add(files: dict[str, str | bytes | memoryview], more: Mapping[str, str | bytes | memoryview]) -> None:
    """Add files. Raises: UsageProblem if a file of the same name exists."""
    if twice := files.keys() & more.keys():
        said = f"two files of the model are called `{min(twice)}`"
        raise UsageProblem.of("graph-damaged", said, help="give the model or the kernel another name")
    files |= more


class _Writer:
    """A writer of the two files that belong to the model itself."""

    def __init__(
        self,
        program: ModelProgram,
        kernels: Mapping[str, EmittedC],
        plan: MemoryPlan,
        apart: bool,
        phases: Sequence[Phase],
        watched: bool,
        bodies: Mapping[str, EmittedModel],
    ) -> None:
        self.program, self.kernels, self.plan, self.apart = program, kernels, plan, apart
        self.watched = watched
        self.phases = phases or ((tuple(range(len(program.steps))),),)
        self.is_dealt = any(len(phase) > 1 for phase in self.phases)
        self.bodies = bodies
        self.takes_pool = self.is_dealt or any(
            [kernel.interface.takes_pool for kernel in kernels.values()]
            + [body.takes_pool for body in bodies.values()]
        )
        own = (*(["weights"] if apart else []), *(["pool"] if self.takes_pool else []))
        members = CNames(taken=own)
        self.members = {size.symbol: members.take(size.name) for size in program.sizes}
        self.sizes = {symbol: f"inputs->{member}" for symbol, member in self.members.items()}
        for size in program.counts:
            self.sizes[size.symbol] = f"(*(const int64_t *)(space + {plan.tensors[size.tensor]}))"
        self.inputs = [members.take(port.name) for port in program.inputs]
        members = CNames()
        self.returned = {size.symbol: members.take(size.name) for size in returned_counts(program)}
        self.outputs = [members.take(port.name) for port in program.outputs]
        own = {name: body.weights for name, body in bodies.items()}
        self.weights, self.places = weights_of(program, own)
        self.used: set[str] = set()
        self.strides: dict[str, set[tuple[int | None, ...]]] = {}
        for step in program.steps:
            if isinstance(step, KernelCall):
                self.strides.setdefault(step.kernel, set()).add(self._strides(step))

    def _strides(self, step: KernelCall) -> tuple[int | None, ...]:
        """Return the strides of a call in the order of the kernel's fields, None for run-time ones. Units: bytes."""
        operands = {**step.reads, **step.writes}
        fields = (f for f in self.kernels[step.kernel].interface.fields if f.kind == "stride")
        found = (apart_bytes(operands[field.source], field.axis, self.plan.pitches) for field in fields)
        return tuple(index_of(distance).value for distance in found)

    def entry(self, kernel: str) -> str:
        """Return the function with which the model calls a kernel, specialised if all strides are known."""
        name, strides = self.kernels[kernel].interface.name, self.strides[kernel]
        if len(strides) > 1 or strides == {()} or any(None in own for own in strides):
            return name
        return f"{name}_{hashlib.sha256(repr(strides).encode()).hexdigest()[:8]}"

    def with_entry(self, kernel: str) -> dict[str, str]:
        """Return the file of a kernel with a function for constant strides, or {} if they vary.

        The compiler then makes one version of the kernel, of those for dense rows and for any others.
        """
        emitted, entry = self.kernels[kernel], self.entry(kernel)
        if entry == (name := emitted.interface.name):
            return {}
        fields = [field for field in emitted.interface.fields if field.kind == "stride"]
        numbers = zip(fields, *self.strides[kernel], strict=True)
        lines = [
            f"#define {name} static __attribute__((always_inline)) inline {name}",
            emitted.source.rstrip(),
            f"#undef {name}",
            "",
            f"{self._prototype(kernel)} {{",
            f"  {name}_args known = *args;",
            *(f"  known.{field.member} = {number};" for field, number in numbers),
            f"  return {name}(&known, workspace, pool);",
            "}",
            "",
        ]
        return {f"{emitted.name}.c": "\n".join(lines)}

    def _prototype(self, kernel: str) -> str:
        name = self.kernels[kernel].interface.name
        return f"int {self.entry(kernel)}(const {name}_args *args, void *workspace, {name}_pool *pool)"

    # --- the header ---

    def header(self, machine: Machine) -> str:
        name = self.program.name
        guard = f"ISAMAP_{name.upper()}_H"
        lines = [f"/* {name} on {machine.name}. Emitted by isamap {__version__}. */"]
        lines += [
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
        ]
        lines += ['#include "isamap_pool.h"', ""] if self.takes_pool else []
        lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
        more: list[str] = []
        if self.apart:
            more.append(f"  const void *weights; /* the bytes of {name}.weights, at a multiple of 64 */")
        if self.takes_pool:
            more.append(
                "  isamap_pool *pool; /* the threads that share the work; NULL: the caller's alone */"
            )
        for size in self.program.sizes:
            member = self.members[size.symbol]
            said = f"{size.name}: " if size.name != member else ""
            low = 0 if size.tensor else size.low
            more.append(f"  int64_t {member}; /* {clean_comment(said)}{low} to {size.high} */")
        lines += self._struct("inputs", "const ", self.program.inputs, self.inputs, more)
        outside = ", 101 where a size does" if self.members else ""
        counts = (
            ["   It returns 102 where a result needs a row, and data leaves none. */"]
            if self.program.counts
            else []
        )
        sizes = [
            f"  int64_t *{self.returned[size.symbol]}; /* a call writes this size here: {size.high} at most */"
            for size in returned_counts(self.program)
        ]
        lines += self._struct("outputs", "", self.program.outputs, self.outputs, sizes)
        lines += [
            "/* How many bytes of workspace a call needs; any alignment will do. */",
            f"size_t {name}_workspace_bytes(void);",
            "",
            "/* 0, or where a call failed: the number that a kernel returned (its header has them), or 100",
            f"   where an index that is data lies outside{outside}. Arrays are dense and row-major; results share",
            "   memory with nothing else. No state is kept: several threads may call it, each with a",
            "   workspace of its own." + (" */" if not counts else ""),
            *counts,
            f"int {name}_run(const {name}_inputs *inputs, const {name}_outputs *outputs, void *workspace);",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
        return "\n".join(lines)

    def _struct(
        self, what: str, const: str, ports: Sequence[Port], members: Sequence[str], more: Sequence[str]
    ) -> list[str]:
        lines = ["typedef struct {", *more]
        for port, member in zip(ports, members, strict=True):
            said = f"{port.name}: " if port.name != member else ""
            shape = ", ".join(map(repr, port.passed.shape))
            comment = clean_comment(f"{said}{port.passed.dtype}[{shape}]")[:200]
            lines.append(f"  {const}{storage_type(DTYPES[port.passed.dtype])} *{member}; /* {comment} */")
        if not ports and not more:
            lines.append("  char unused;")
        return [*lines, f"}} {self.program.name}_{what};", ""]

    # --- the source ---

    def source(self, machine: Machine) -> str:
        name = self.program.name
        moves = any(isinstance(step, Move) for step in self.program.steps)
        includes = [
            f"{name}.h",
            *(f"{self.kernels[kernel].name}.h" for kernel in self.program.kernels),
            *(f"{body}.h" for body in self.bodies),
            *(MOVES[1:] if moves else ()),
        ]
        head = [f"/* {name} on {machine.name}. Emitted by isamap {__version__}; the Makefile builds it. */"]
        head += [f'#include "{file}"' for file in includes]
        head += ["#include <string.h>"] if self.bodies else []
        known = (kernel for kernel in self.program.kernels if self.entry(kernel) != kernel)
        head += ["", *(f"{self._prototype(kernel)};" for kernel in known)]
        lines = ["", *self._weights(), f"size_t {name}_workspace_bytes(void) {{"]
        lines += [f"  return {self.plan.size_bytes + LINE_BYTES - 1};", "}", ""]
        lines += self._side_by_side()
        taken = f"const {name}_inputs *inputs, const {name}_outputs *outputs, void *workspace"
        begun = [
            f"  const uintptr_t mask = {LINE_BYTES - 1};",
            "  char *space = (char *)(((uintptr_t)workspace + mask) & ~mask);",
            *(
                f"  if (inputs->{member} < {0 if size.tensor else size.low} || inputs->{member} > {size.high}) "
                "return 101;"
                for size, member in zip(self.program.sizes, self.members.values(), strict=True)
            ),
            *self._opening_lines(),
        ]
        lines += [f"int {name}_run({taken}) {{", *begun]
        for number, phase in enumerate(self.phases):
            alone = (n for part in phase for n in part)
            lines += self._phase(number, len(phase)) if len(phase) > 1 else self._steps(alone)
        ends = [f"  *outputs->{member} = {self.sizes[symbol]};" for symbol, member in self.returned.items()]
        lines += [*ends, "  return status;", "}", ""]
        helpers = [line for text in helper_texts(self.used) for line in text.splitlines()]
        return "\n".join(
            [*head, *helpers, *lines, *(self._watch(taken, begun, ends) if self.watched else ())]
        )

    def _watch(self, taken: str, begun: Sequence[str], ends: Sequence[str]) -> list[str]:
        """Return the function that performs the steps in order and measures each. Units: nanoseconds."""
        lines = [
            "#include <time.h>",
            "static int64_t now(void) {",
            "  struct timespec time;",
            "  timespec_get(&time, TIME_UTC);",
            "  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;",
            "}",
            "",
            f"int {self.program.name}_watch({taken}, int64_t *ns, void (*watch)(int)) {{",
            *begun,
            "  int64_t start = now();",
        ]
        for number in range(len(self.program.steps)):
            lines += [*self._steps([number]), f"  ns[{number}] = now() - start;"]
            lines += [f"  if (watch) watch({number});", "  start = now();"]
        return [*lines, *ends, "  return status;", "}", ""]

    def _opening_lines(self) -> list[str]:
        """Return the lines before the steps of a function."""
        weights = ["  const unsigned char *weights = inputs->weights;"] if self.apart else []
        return [*weights, "  int status = 0;", "  (void)space, (void)inputs, (void)outputs;"]

    def _steps(self, part: Iterable[int]) -> list[str]:
        """Return the steps in sequence."""
        steps = [(number, self.program.steps[number]) for number in part]
        return [line for number, step in steps for line in self._step(number, step)]

    # --- phases of several devices ---

    def _side_by_side(self) -> list[str]:
        """Return a function for each part of a phase, and one for the phase, which a pool runs part by part."""
        if not self.is_dealt:
            return []
        name, most = self.program.name, max(map(len, self.phases))
        taken = f"const {name}_inputs *inputs, const {name}_outputs *outputs, char *space"
        lines = [
            "/* What the parts of a phase share; each has a status of its own. */",
            "typedef struct {",
            f"  const {name}_inputs *inputs;",
            f"  const {name}_outputs *outputs;",
            "  char *space;",
            f"  int status[{most}];",
            f"}} {name}_shared;",
            "",
        ]
        for number, phase in enumerate(self.phases):
            if len(phase) == 1:
                continue
            for device, part in enumerate(phase):
                lines += [f"static int {name}_part_{number}_{device}({taken}) {{", *self._opening_lines()]
                lines += [*self._steps(part), "  return status;", "}", ""]
            lines += [
                f"static void {name}_phase_{number}(void *argument, int64_t part) {{",
                f"  {name}_shared *all = argument;",
                f"  static int (*const parts[])({taken}) = {{",
                *(f"    {name}_part_{number}_{device}," for device in range(len(phase))),
                "  };",
                "  all->status[part] = parts[part](all->inputs, all->outputs, all->space);",
                "}",
                "",
            ]
        return lines

    def _phase(self, number: int, parts: int) -> list[str]:
        """Return a phase with several parts, run by a thread pool or in sequence."""
        function = f"{self.program.name}_phase_{number}"
        return [
            "  {",
            f"    {self.program.name}_shared all = {{inputs, outputs, space, {{0}}}};",
            "    isamap_pool *pool = inputs->pool;",
            f"    if (pool != NULL) pool->parallel_for(pool, {parts}, {function}, &all);",
            f"    else for (int64_t part = 0; part < {parts}; part++) {function}(&all, part);",
            f"    for (int part = 0; part < {parts}; part++) {{",
            "      if ((status = all.status[part]) != 0) return status;",
            "    }",
            "  }",
        ]

    def _weights(self) -> list[str]:
        """Return the declaration of the weights in the library."""
        if not self.weights or self.apart:
            return []
        name = self.program.name
        if len(self.weights) > MOST_WRITTEN:
            return [
                f'__asm__(".section .rodata\\n.balign {LINE_BYTES}\\n.local {name}_weights\\n"',
                f'        "{name}_weights:\\n"',
                f'        ".incbin \\"{name}.weights\\"\\n.previous\\n");',
                f'extern const unsigned char {name}_weights[] __attribute__((visibility("hidden")));',
                f"#define weights {name}_weights",
                "",
            ]
        words = np.frombuffer(bytes(self.weights) + bytes(-len(self.weights) % 8), "<u8")
        rows = [", ".join(f"0x{word:x}" for word in words[n : n + 6]) for n in range(0, len(words), 6)]
        return [
            f"static const _Alignas({LINE_BYTES}) uint64_t words[{len(words)}] = {{",
            *(f"  {row}," for row in rows),
            "};",
            "#define weights ((const unsigned char *)words)",
            "",
        ]

    def place(self, passed: TensorView) -> str:
        """Return the C address of a tensor, or of the first element of a view."""
        if passed.offset:
            first = size_bytes(passed.dtype, ()) * passed.offset
            return f"((const char *){self.place(replace(passed, offset=0))} + {first})"
        for ports, members, struct in (
            (self.program.inputs, self.inputs, "inputs"),
            (self.program.outputs, self.outputs, "outputs"),
        ):
            for port, member in zip(ports, members, strict=True):
                if port.passed.tensor == passed.tensor:
                    return f"{struct}->{member}"
        if passed.tensor in self.places:
            return f"(weights + {self.places[passed.tensor]})"
        return f"(space + {self.plan.tensors[passed.tensor]})"

    def number(self, index: Index) -> str:
        """Return a number in C, which may depend on sizes of the call."""
        return index_text(index, lambda symbol: self.sizes[symbol], self.used).text

    def _step(self, number: int, step: Step) -> list[str]:
        match step:
            case KernelCall():
                return self._call(number, step)
            case Move():
                return self._move(step)
            case Control():
                return self._control(number, step)
            case _:
                assert_never(step)

    def _call(self, number: int, step: KernelCall) -> list[str]:
        interface = self.kernels[step.kernel].interface
        operands = {**step.reads, **step.writes}
        fields: list[str] = []
        for field in interface.fields:
            if field.kind == "size":
                value = self.number(Index.of(step.sizes[field.source].symbol))
            elif field.kind == "pointer":
                passed, const = operands[field.source], "const " if field.source in step.reads else ""
                value = f"({field.c_type.strip()})({const}void *){self.place(passed)}"
            else:
                distance = apart_bytes(operands[field.source], field.axis, self.plan.pitches)
                value = self.number(index_of(distance))
            fields.append(f".{field.member} = {value}")
        own = self.plan.steps.get(number)
        room = f"space + {own}" if own is not None else "NULL"
        pool = "inputs->pool" if interface.takes_pool else "NULL"
        return [
            *self._without_rows(step),
            "  {",
            f"    {interface.name}_args args = {{{', '.join(fields)}}};",
            f"    if ((status = {self.entry(step.kernel)}(&args, {room}, {pool})) != 0) return status;",
            "  }",
        ]

    def _without_rows(self, step: KernelCall) -> list[str]:
        """Return the lines that skip a call, or refuse it, if a size is 0 at run time."""
        lines: list[str] = []
        for size in (size for size in step.sizes.values() if size.tensor):
            counts = (index_of(prod(passed.shape)) for passed in step.writes.values())
            zero = {size.symbol: Index.of(0)}
            is_empty = all(count.substitute(zero).value == 0 for count in counts)
            value = self.sizes[size.symbol]
            lines.append(f"  if ({value} > 0)" if is_empty else f"  if ({value} <= 0) return 102;")
        return sorted(lines, key=lambda line: line.endswith(")"))

    def _move(self, step: Move) -> list[str]:
        reads = ", ".join(self.place(passed) for passed in step.reads) or "NULL"
        writes = ", ".join(self.place(passed) for passed in step.writes)
        indices = [index_of(number) for number in step.numbers]
        static = "static " if all(index.value is not None for index in indices) else ""
        return [
            "  {",
            f"    const void *const reads[] = {{{reads}}};",
            f"    void *const writes[] = {{{writes}}};",
            f"    {static}const int64_t numbers[] = {{{', '.join(map(self.number, indices))}}};",
            f"    if ((status = isamap_{step.function}(reads, writes, numbers)) != 0) return status;",
            "  }",
        ]

    def _control(self, number: int, step: Control) -> list[str]:
        """Return a step that calls bodies: a conditional or a loop."""
        own = self.plan.steps.get(number, 0)
        if step.function == "if":
            results = [
                f"(void *){self.place(passed)}" for passed in step.writes[: -len(step.counted) or None]
            ]
            then, other = (self._body(step, n, results, own, "    ") for n in range(2))
            condition = f"*(const unsigned char *){self.place(step.reads[0])}"
            return [f"  if ({condition}) {{", *then, "  } else {", *other, "  }"]
        states, rows = (
            step.writes[: len(step.starts)],
            step.writes[len(step.starts) : -len(step.counted) or None],
        )
        lines = ["  {", f"    int64_t trip = 0, trips = {self.number(index_of(step.trips))};"]
        if step.trips_at is not None:
            lines.append(f"    trips = *(const int64_t *){self.place(step.reads[step.trips_at])};")
        goes = (
            f"*(const unsigned char *){self.place(step.reads[step.goes_at])}"
            if step.goes_at is not None
            else "1"
        )
        lines.append(f"    unsigned char goes = {goes};")
        for n, (passed, start) in enumerate(zip(states, step.starts, strict=True)):
            lines += [
                f"    void *now{n} = {self.place(passed)}, *next{n} = space + {own};",
                f"    memcpy(now{n}, {self.place(step.reads[start])}, {self._bytes(passed)});",
            ]
            own += _lines(passed)
        results = ["&goes"] if step.has_condition else []
        results += [f"next{n}" for n in range(len(states))]
        for passed, is_backward in zip(rows, step.backward, strict=True):
            results.append(self._row(passed, is_backward=is_backward))
        lines += [
            "    for (; goes && trip < trips; trip++) {",
            *self._body(step, 0, results, own, "      "),
            *(
                f"      void *last{n} = now{n}; now{n} = next{n}; next{n} = last{n};"
                for n in range(len(states))
            ),
            "    }",
        ]
        for n, passed in enumerate(states):
            there = self.place(passed)
            lines.append(
                f"    if (now{n} != (void *){there}) memcpy({there}, now{n}, {self._bytes(passed)});"
            )
        ends = [f"    *(int64_t *){self.place(step.writes[n])} = trip;" for n, _ in step.counted]
        return [*lines, *ends, "  }"]

    def _bytes(self, passed: TensorView) -> str:
        return f"(size_t){self.number(index_of(size_bytes(passed.dtype, passed.shape)))}"

    def _row(self, passed: TensorView, *, is_backward: bool) -> str:
        """Return the address of the slice of a tensor for one iteration."""
        size = self.number(index_of(size_bytes(passed.dtype, passed.shape[1:])))
        return f"(char *){self.place(passed)} + {'(trips - 1 - trip)' if is_backward else 'trip'} * {size}"

    def _body(self, step: Control, which: int, results: Sequence[str], own: int, indent: str) -> list[str]:
        """Return the call of a body with its workspace: struct members in the order of its header."""
        program, body = step.bodies[which], self.bodies[step.bodies[which].name]
        members = [f"weights + {self.places[program.name]}" if body.weights else "NULL"]
        members += ["inputs->pool"] if body.takes_pool else []
        members += [self.sizes[size.symbol] for size in body.sizes]
        for given in step.given[which]:
            match given.kind:
                case "read":
                    members.append(f"(const void *){self.place(step.reads[given.number])}")
                case "trip":
                    members.append("&trip")
                case "state":
                    members.append(f"now{given.number}")
                case "row":
                    row = self._row(step.reads[given.number], is_backward=given.is_backward)
                    members.append(f"(const void *)({row})")
        counts = {size.symbol: f"own_{size.symbol}" for size in body.returned}
        made = ", ".join([f"&{count}" for count in counts.values()] + [f"(void *)({one})" for one in results])
        ends: list[str] = []
        for n, sizes in step.counted if step.function == "if" else ():
            number = index_text(
                index_of(sizes[which]), lambda s: counts.get(s) or self.sizes[s], self.used
            ).text
            ends.append(f"{indent}*(int64_t *){self.place(step.writes[n])} = {number};")
        return [
            *(f"{indent}int64_t {count};" for count in counts.values()),
            f"{indent}const {program.name}_inputs given = {{{', '.join(members)}}};",
            f"{indent}const {program.name}_outputs made = {{{made or '0'}}};",
            f"{indent}if ((status = {program.name}_run(&given, &made, space + {own})) != 0) return status;",
            *ends,
        ]


def returned_counts(program: ModelProgram) -> list[OpenSize]:
    """Return the data-determined sizes that occur in the sizes of results."""
    shown = {s for port in program.outputs for size in port.passed.shape for s in index_of(size).symbols}
    return [size for size in program.counts if size.symbol in shown]


def _lines(passed: TensorView) -> int:
    """Return the largest size of a tensor in bytes, rounded up to whole cache lines."""
    return -(-most_of(size_bytes(passed.dtype, passed.shape)) // LINE_BYTES) * LINE_BYTES


def room_of(step: Control, bodies: Mapping[str, EmittedModel]) -> int:
    """Return the workspace bytes of a step that calls bodies."""
    states = sum(_lines(passed) for passed in step.writes[: len(step.starts)])
    return states + max(bodies[body.name].workspace_bytes for body in step.bodies)


def _makefile(name: str, sources: Sequence[str], machine: Machine | None, more: Sequence[str]) -> str:
    of_gcc = " ".join(COMPILER_FLAGS["gcc"])
    flags = (
        (*machine.target.flags, *compiler_flags(machine.target.features, "gcc"))
        if machine
        else ("-O2", "-std=c11")
    )
    objects = " ".join(source.replace(".c", ".o") for source in sources)
    return "\n".join(
        [
            "CC = gcc",
            f"# For gcc: {of_gcc}; for clang: nothing.",
            f"OWN_FLAGS = {of_gcc}",
            f"CFLAGS = {' '.join((*flags, *COMMON_FLAGS, *more))} $(OWN_FLAGS) -fPIC",
            "",
            f"all: lib{name}.a lib{name}.so",
            "",
            f"lib{name}.a: {objects}",
            "\tar rcs $@ $^",
            "",
            f"lib{name}.so: {objects}",
            f"\t$(CC) {' '.join((*more, '-shared'))} -o $@ $^ -lm",
            "",
            "%.o: %.c",
            "\t$(CC) $(CFLAGS) -c -o $@ $<",
            "",
        ]
    )
