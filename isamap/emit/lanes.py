"""Print a program for a machine whose instructions many lanes perform: its kernels, and a host.

    instruction fma() { inout c: f32[16, 16] @ reg placed [i, j] at lane: 16*i + j; …  c[i, j] += … }

    static inline void fma(int64_t lane, const float *a, const float *b, float *c) {
      const int64_t i = lane / 16;
      const int64_t j = lane % 16;
      c[0] += a[0] * b[0];
    }

Each parallel loop is a device kernel whose blocks are the loop's iterations. Code between two parallel loops
is a kernel of one block. The text of kernels is valid C and OpenCL C: as a *model* it is a part of the
emitted file, else a string for the device's compiler (`lanes_model.c`, `lanes_opencl.c`). Macros in front of it
adapt it to other languages of devices; families of devices define them (`hw_specs/families`).

`print_kernels` prints the kernels alone and the plan of their launches, for devices without host code of isamap.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from itertools import accumulate
from math import prod
from pathlib import Path

from isamap.emit.c import EmittedC, emit_c, emitted_title, take_names
from isamap.emit.c_body import BodyWriter
from isamap.emit.c_functions import helper_texts
from isamap.emit.c_interface import (
    OF_LANES,
    STATUSES,
    Interface,
    body_symbols,
    build_interface,
    clean_comment,
    entry_text,
    header_text,
)
from isamap.emit.c_issue import Here, Issuer, call_of
from isamap.emit.c_names import CNames, storage_type
from isamap.emit.c_parts import CFunction
from isamap.emit.c_text import SUM, CText, call, identifiers, index_text
from isamap.emit.lane_functions import build_lane_function, fragment_of, refuse
from isamap.emit.launchers import print_launcher
from isamap.ir import Index, Operand, product
from isamap.lower import program as lir
from isamap.lower.walk import has_parallel, names_in, walk
from isamap.machine import EmitArg, Machine, allowed, private_memories
from isamap.source import UsageProblem, dataclass, replace
from isamap.version import __version__


def emit_code(program: lir.LoweredProgram, machine: Machine, *, model: bool = False) -> EmittedC:
    """Return a program in C, for a processor's threads or for the lanes of a machine with levels.

    Raises: UsageProblem if an instruction of the program has no emission.
    """
    return (emit_lanes if machine.levels else emit_c)(program, machine, model=model)


_HEADERS = frozenset(("string.h", "math.h"))

_RESERVED_STEP = 1024
"""The alignment of arrays in the memory that a launch reserves for a block. Units: bytes."""


def emit_lanes(program: lir.LoweredProgram, machine: Machine, *, model: bool = False) -> EmittedC:
    """Return the host code of a program with the kernels that it launches. A model runs them on the host.

    Raises: UsageProblem for an operation that a single lane cannot perform.
    """
    checks = () if model else _rows_in_order(program)
    writer, names, name = _writer(replace(program, checks=(*program.checks, *checks)), machine, model=model)
    issuer, interface, host = writer.issuer, writer.interface, writer.program
    body, lines = writer.host()
    used = set(issuer.used)
    entry = entry_text(host, interface, names, used, body)
    device = writer.device()
    if model:
        device += [line for text in writer.wrappers for line in ("", *text)]
    else:
        prelude = _device(machine, with_host=True).prelude.splitlines()
        device = _quote_lines(f"{name}_device", [*prelude, *device])
    known = helper_texts(writer.on_device - _HEADERS) if model else ()
    helpers = (text for text in helper_texts(used - _HEADERS) if text not in known)
    title = emitted_title(program, model)
    how = "-O2" if model else " ".join(machine.target.flags)
    headers = ("math.h", "stdlib.h", "ucontext.h") if model else ("dlfcn.h",)
    runtime = Path(__file__).with_name("lanes_model.c" if model else "lanes_opencl.c")
    numbers = {status: number for number, (status, _) in enumerate(STATUSES)}
    statuses = ", ".join(f"ISAMAP_{s} = {numbers[s]}" for s in OF_LANES)
    parts = [
        [f"/* {title}", f"   Emitted by isamap {__version__}. Compile with {how} -fno-strict-aliasing. */"],
        [f'#include "{name}.h"', "", *(f"#include <{h}>" for h in (*headers, "string.h"))],
        [f"enum {{ {statuses} }};"],
        runtime.read_text(encoding="utf-8").rstrip().splitlines(),
        device,
        *(text.splitlines() for text in helpers),
        lines,
        entry,
    ]
    source = "\n\n".join("\n".join(part) for part in parts if part) + "\n"
    packs = tuple(emit_lanes(pack, machine, model=model) for pack in program.packs)
    return EmittedC(
        name, source, header_text(interface, title), interface, model, program.kernel.strict, packs
    )


def _writer(program: lir.LoweredProgram, machine: Machine, *, model: bool) -> tuple[LaneWriter, CNames, str]:
    """Return the writer of a program's host and kernels, the names of the file, and the function's name."""
    private = tuple(b for b in program.buffers if b.memory in private_memories(machine))
    host = replace(program, buffers=tuple(b for b in program.buffers if b not in private))
    names, name = take_names(program)
    interface = replace(build_interface(host, name), takes_pool=False, has_lanes=True)
    return LaneWriter(host, interface, LaneIssuer(machine, model, names), private), names, name


def _device(machine: Machine, *, with_host: bool) -> allowed.Device:
    """Return the device that a description names last, its own if it has one. Raises: UsageProblem without one."""
    found = allowed.device_of(machine.target.features)
    if found is not None and (found.library or not with_host):
        return found
    what = "prints kernels" if found is None else "has host code"
    listed = ", ".join(name for name, device in allowed.devices().items() if device.library or not with_host)
    advice = "`isamap compile --emit kernels` prints them" if found is not None else "run it as a model"
    raise UsageProblem.of(
        "lanes-unsupported",
        f"isamap {what} for no device that `target.features` of {machine.name} names",
        notes=(f"known: {listed}",),
        help=advice,
    )


@dataclass(frozen=True, slots=True)
class PrintedKernels:
    """The kernels of a program in the language of a device, and the plan of their launches as JSON.

    `launcher` are the files of the host that launches them, where the family of the device names its driver.
    """

    name: str
    source: str
    ending: str
    plan: str
    launcher: Mapping[str, str]

    def files(self) -> dict[str, str]:
        """Return all files by name."""
        return {f"{self.name}.{self.ending}": self.source, f"{self.name}.json": self.plan, **self.launcher}


def print_kernels(program: lir.LoweredProgram, machine: Machine) -> PrintedKernels:
    """Return the kernels of a program with fixed sizes, for arrays with contiguous rows.

    Raises: UsageProblem for what a lane cannot perform by itself, for sizes that are not fixed, and where
    the host decides what is launched.
    """
    device = _device(machine, with_host=False)
    writer, _, name = _writer(program, machine, model=False)
    writer.declared_bytes = device.declared_bytes
    if program.symbols:
        given = " ".join(f"{symbol}=…" for symbol, _, _ in program.symbols)
        said = f"the launches of {name} depend on {', '.join(symbol for symbol, _, _ in program.symbols)}"
        raise UsageProblem.of("lanes-unsupported", said, help=f"give its sizes: `-D {given}`")
    writer.host()
    if not writer.is_fixed:
        said = f"the host of {name} decides while it runs what it launches"
        raise UsageProblem.of(
            "lanes-unsupported", said, help="give all sizes, and fix a schedule without conditions there"
        )
    headers = [text for header in machine.target.headers if (text := allowed.headers()[header].text)]
    kernels = "\n".join(writer.device())
    for word, needs in (("PRODUCTS_END", "products in flight"), ("SWIZZLED", "a swizzle of memory")):
        if word in kernels and f"#define {word}" not in device.prelude:
            said = f"{name} has {needs}, and the prelude of the device defines no `{word}`"
            raise UsageProblem.of("lanes-unsupported", said, help="define it in the family's `prelude`")
    title = emitted_title(program, False)
    source = f"/* {title}\n   Emitted by isamap {__version__}."
    source += f" Compile with {device.compile} */\n\n" if device.compile else " */\n\n"
    source += "\n".join((device.prelude, *headers, kernels)) + "\n"
    plan = {
        "kernel": program.kernel.name,
        "machine": machine.name,
        "compile": device.compile,
        "image": device.image,
        "driver": dict(device.driver),
        "permitted": device.permitted,
        "arrays": [_array(t) for t in program.tensors],
        "scalars": [{"name": scalar, "dtype": dtype.name} for scalar, dtype in writer.interface.scalars],
        "buffers": [{"name": b.name, "bytes": _bytes(b).value} for b in writer.program.buffers],
        "launches": writer.launches,
    }
    launcher: dict[str, str] = {}
    if device.driver:
        launcher = print_launcher(name, plan)
        launcher["isamap_device.py"] = Path(__file__).with_name("device_call.py").read_text(encoding="utf-8")
    return PrintedKernels(name, source, device.ending, json.dumps(plan, indent=1) + "\n", launcher)


def _array(t: lir.Tensor) -> dict[str, object]:
    return {"name": t.name, "role": t.role, "dtype": t.dtype.name, "shape": [n.value for n in t.shape]}


def _rows_in_order(program: lir.LoweredProgram) -> list[lir.Condition]:
    """Return the conditions under which a tensor's first element has its lowest address, as devices require."""
    free = [s for t in program.tensors for s in t.strides[:-1] if s.value is None]
    return [(Index.of(0), "<=", stride) for stride in dict.fromkeys(free)]


def _quote_lines(name: str, lines: Sequence[str]) -> list[str]:
    """Return a text as a C string literal."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return [f"static const char {name}[] =", *(f'    "{line}\\n"' for line in escaped), "    ;"]


class HostFunction(CFunction):
    """A function that returns a status. Its caller returns the status if it is not 0."""

    def text(self, body: Sequence[str]) -> list[str]:
        """Return the function."""
        listed = ",\n    ".join(declared for declared, _ in self.parameters)
        return [f"static int {self.name}(\n    {listed}) {{", *body, "}"]

    def call(self, arguments: Sequence[str]) -> list[str]:
        """Return the statements that call it."""
        return [f"const int ended = {self.name}({', '.join(arguments)});", "if (ended != 0) return ended;"]


class LaneIssuer(Issuer):
    """A printer of issues as calls of the functions of one lane.

    `team` are the numbers of the instances of a level that a block has, in the kernel that is written.
    """

    team: frozenset[str] = frozenset()

    def lanes_of(self, issue: lir.Issue) -> tuple[str, ...]:
        """Return the C names of the lane number and, for issues that lanes divide, of the number of lanes.

        What depends on no instance of a level, and uses no registers, is performed by all lanes of a block.
        """
        in_registers = any(isinstance(ref, lir.RegisterRef) for _, ref in issue.operands)
        if in_registers or self.team & names_in(issue):
            return ("lane",) if in_registers else ("lane", "lanes")
        return "block_lane", "block_lanes"

    @property
    def has_versions(self) -> bool:
        """Return whether there are versions for dense strides: kernels have none."""
        return False

    def _operand(
        self, arg: EmitArg, operand: Operand, ref: lir.RegisterRef | lir.MemoryRef, here: Here
    ) -> CText:
        """Return an operand of a call. A register operand is a pointer to the elements of the lane."""
        if isinstance(ref, lir.RegisterRef):
            return CText(here.names.of(ref.value))
        return super()._operand(arg, operand, ref, here)

    def statements(self, issue: lir.Issue, here: Here) -> list[str]:
        """Return the call of one issue."""
        item = self.machine.instructions[issue.instruction]
        if (emit := call_of(item, model=self.model)) is not None:
            if emit.result is not None:
                advice = f"pass `{emit.result}.ref`, a pointer to the elements of a lane"
                raise refuse(item, f"`{emit.result}` is not a value of C", advice)
            return [f"{self._call(emit, item, dict(issue.operands), dict(issue.params), here)};"]
        if item.name not in self.models:
            self.models[item.name] = build_lane_function(item, self.machine, self.names, model=self.model)
            self.used |= self.models[item.name].used
        model, operands, params = self.models[item.name], dict(issue.operands), dict(issue.params)
        args = [CText(here.names.of(lane)) for lane in self.lanes_of(issue)]
        for m in model.operands:
            ref = operands[m.operand.name]
            if isinstance(ref, lir.RegisterRef):
                args.append(CText(here.names.of(ref.value)))
            elif here.elements[ref.buffer] == m.operand.dtype:
                args += [self._pointer(ref, m.operand, here), *self._strides(m, ref, here)]
            else:
                raise refuse(
                    item,
                    f"it takes `{ref.buffer}`, of {here.elements[ref.buffer]}, for {m.operand.dtype}",
                    "describe an instruction for these elements",
                )
        args += [self._param(params[p.name], here) for p in model.params]
        return [f"{call(model.name, *args)};"]


class LaneWriter(BodyWriter):
    """A writer of the host's statements, and of a function for each kernel that they launch.

    `private` are buffers that each block has for itself.
    """

    def __init__(
        self,
        program: lir.LoweredProgram,
        interface: Interface,
        issuer: LaneIssuer,
        private: Sequence[lir.Buffer],
    ) -> None:
        super().__init__(program, interface, issuer)
        self.sources = {self.names.of(name): name for name in _passed_names(program, interface)}
        self.launches: list[dict[str, object]] = []
        self.is_conditional = False
        self.is_fixed = True
        self.lanes = issuer.machine.levels[-1].count or 1
        self.private: dict[str, lir.Buffer] = {}
        self.declared_bytes = 0
        for buffer in private:
            self.private[self.names.take(buffer.name)] = buffer
        self.elements |= {b.name: b.dtype for b in private}
        self.handle = self.names.take("device")
        self.memories = {
            name: self.names.take(f"{name}_memory") for declared, name in self.parameters if "*" in declared
        }
        self.kernels: list[list[str]] = []
        self.wrappers: list[list[str]] = []
        self.on_device: set[str] = set()
        self.is_kernel = False
        self.elements_held = _elements_held(program, issuer.machine)

    def host(self) -> tuple[CFunction, list[str]]:
        """Return the host's function and its text."""
        device, text = self.handle, f"{self.interface.name}_device"
        self.lines = [f"  isamap_device {device};"]
        self.add(1, f"isamap_open(&{device}, {'NULL' if self.issuer.model else text});")
        for array in (*self.program.tensors, *self.program.buffers):
            name = self.names.of(array.name)
            took = "share" if isinstance(array, lir.Tensor) else "reserve"
            self.add(
                1,
                f"const isamap_memory {self.memories[name]} = "
                f"isamap_{took}(&{device}, {name}, (size_t)({self.index(_bytes(array))}));",
            )
        self.block(self.program.body, 1)
        self.add(1, f"return isamap_close(&{device});")
        made = HostFunction(f"{self.interface.name}_body", tuple(self.parameters))
        return made, made.text(self.lines)

    def device(self) -> list[str]:
        """Return the functions of lanes and the kernels."""
        helpers = helper_texts(self.on_device - _HEADERS)
        texts = [text.rstrip().splitlines() for text in helpers]
        texts += [m.text.rstrip().splitlines() for m in self.issuer.models.values()]
        return "\n\n".join("\n".join(text) for text in (*texts, *self.kernels)).splitlines()

    def block(self, body: tuple[lir.Node, ...], depth: int) -> None:
        """Write statements. On the host, statements between two parallel loops become a kernel of one block."""
        if self.is_kernel:
            super().block(body, depth)
            return
        names, self.names = self.names, self.names.inside()
        pending: list[lir.Node] = []
        for node in body:
            if has_parallel((node,)):
                self.one_block(pending, depth)
                self.node(node, depth)
            else:
                pending.append(node)
        self.one_block(pending, depth)
        self.names = names

    def one_block(self, nodes: list[lir.Node], depth: int) -> None:
        if nodes:
            self.launch((), tuple(nodes), depth, "")
            nodes.clear()

    def node(self, node: lir.Node, depth: int) -> None:
        match node:
            case lir.If() if not self.is_kernel:
                outer, self.is_conditional = self.is_conditional, True
                super().node(node, depth)
                self.is_conditional = outer
            case lir.Barrier(in_flight=in_flight):
                self.add(depth, f"BARRIER_WITHIN({in_flight});" if in_flight else "BARRIER;")
            case lir.ProductGroup(in_flight):
                self.add(depth, "PRODUCTS_END;" if in_flight is None else f"PRODUCTS_WITHIN({in_flight});")
            case lir.Hint():
                pass
            case lir.If(conditions, body) if any(isinstance(inner, lir.Barrier) for inner in walk(body)):
                self.add(depth, f"if ({' && '.join(map(self.condition, conditions))}) {{")
                self.block(body, depth + 1)
                # Behind the last barrier of a branch, pocl 3.1 takes the first lane's conditions for those of all.
                self.add(depth + 1, "BARRIER;")
                self.add(depth, "}")
            case lir.Block(note, body):
                self.add(depth, f"{{ /* {clean_comment(note)} */" if note else "{")
                self.block(body, depth + 1)
                self.add(depth, "}")
            case lir.Configure() | lir.Begin() | lir.WorkSlice():
                raise UsageProblem.of(
                    "lanes-unsupported",
                    f"the lanes of a block cannot perform `{type(node).__name__.lower()}`",
                    help="take a schedule without it: `isamap schedule` prints one to edit",
                )
            case _:
                super().node(node, depth)

    def loop_word(self, node: lir.For) -> str:
        """Return the word that begins a loop. The device's compiler may unroll loops of copies, and no others."""
        refs = (ref for own in walk(node.body) if isinstance(own, lir.Issue) for _, ref in own.operands)
        return "LOOP" if self.is_kernel and any(isinstance(ref, lir.RegisterRef) for ref in refs) else "for"

    def loop(self, node: lir.For, depth: int) -> None:
        """Write a loop. Around launches it is a step of their plan."""
        if self.is_kernel:
            super().loop(node, depth)
            return
        around, self.launches = self.launches, list[dict[str, object]]()
        counter = self.names.inside().take(node.variable)
        super().loop(node, depth)
        inside, self.launches = self.launches, around
        self.is_fixed &= node.trips.value is not None
        self.launches.append({"counter": counter, "trips": node.trips.value, "launches": inside})

    def parallel(self, node: lir.Parallel, depth: int) -> None:
        """Write the launch of a kernel with a block per iteration, or inside a kernel, the instances of a level."""
        if self.is_kernel:
            self.instances(node, depth)
        elif node.level:
            self.launch((), (node,), depth, node.note)
        else:
            self.launch(node.counters, node.body, depth, node.note)

    def instances(self, node: lir.Parallel, depth: int) -> None:
        """Write the variables that give the instance to which a lane belongs."""
        names, self.names = self.names, self.names.inside()
        number = Index.of("block_lane").floordiv(self.lanes)
        for position, (counter, _) in enumerate(node.counters):
            inner = product([trips for _, trips in node.counters[position + 1 :]])
            value = (
                number.floordiv(inner)
                if position == 0
                else number.floordiv(inner).mod(node.counters[position][1])
            )
            text = index_text(value, self.names.of, self.issuer.used).text
            self.add(depth, f"const int64_t {self.names.take(counter)} = {text};")
        self.block(node.body, depth)
        self.names = names

    def launch(
        self, counters: tuple[tuple[str, Index], ...], nodes: tuple[lir.Node, ...], depth: int, note: str
    ) -> None:
        name = self.issuer.names.take(f"{self.interface.name}_kernel{len(self.kernels)}")
        given = [*self.parameters, *((f"int64_t {counter}", counter) for counter in self.counters)]
        kept = self.lines, self.values, self.names, self.counters
        self.lines, self.values, self.names, self.is_kernel = [], {}, self.names.inside(), True
        before, self.issuer.used = self.issuer.used, set[str]()
        team = [node for node in walk(nodes) if isinstance(node, lir.Parallel) and node.level]
        lanes = self.lanes * max((product([n for _, n in one.counters]).constant for one in team), default=1)
        assert isinstance(self.issuer, LaneIssuer)
        self.issuer.team = frozenset(counter for one in team for counter, _ in one.counters)
        for stem, value in (("block_lane", "LANE"), ("block_lanes", str(lanes)), ("lanes", str(self.lanes))):
            self.add(1, f"const int64_t {self.names.take(stem)} = {value};")
        own = self.names.of("block_lane")
        self.add(
            1, f"const int64_t {self.names.take('lane')} = {own if not team else f'{own} % {self.lanes}'};"
        )
        if counters:
            self.add(1, "const int64_t part = BLOCK;")
            self.part_counters(lir.Parallel(counters, nodes))
        super().block(nodes, 1)
        self.on_device |= self.issuer.used
        self.issuer.used = before
        words = identifiers(self.lines)
        taken = [(declared, own) for declared, own in given if own in words]
        arrays, reserved_bytes = self.arrays_of_block(words)
        listed = ",\n    ".join(_kernel_parameter(declared) for declared, _ in taken)
        declared = [f"#undef LANES\n#define LANES {lanes}", f"__kernel void {name}(\n    {listed}) {{"]
        self.kernels.append([*declared, *arrays, *self.lines, "}"])
        self.wrappers.append(_wrapper(name, taken))
        self.lines, self.values, self.names, self.counters = kept
        self.is_kernel = False
        values = [self.memories.get(own, own) for _, own in taken]
        shown = ", ".join(f"{{&{value}, sizeof {value}}}" for value in values)
        blocks = self.index(product([trips for _, trips in counters]))
        self.plan(name, counters, [own for _, own in taken], lanes, reserved_bytes)
        self.add(depth, f"{{ /* {clean_comment(note)} */" if note else "{")
        self.add(depth + 1, f"const isamap_value given[] = {{{shown}}};")
        self.add(
            depth + 1,
            f"isamap_launch(&{self.handle}, LAUNCH({name}), {blocks}, {lanes}, given, {len(values)});",
        )
        self.add(depth, "}")

    def arrays_of_block(self, words: Container[str]) -> tuple[list[str], int]:
        """Return the declarations of a block's arrays, and the bytes that a launch reserves for them, if it does."""
        used = [(storage_type(b.dtype), own, b) for own, b in self.private.items() if own in words]
        steps = [-(-(_bytes(b).value or 0) // _RESERVED_STEP) * _RESERVED_STEP for _, _, b in used]
        if not self.declared_bytes or sum(steps) <= self.declared_bytes:
            return [f"  OWN_OF_BLOCK({kind}, {own}, {self.index(b.elements)});" for kind, own, b in used], 0
        places = list(accumulate(steps, initial=0))
        return [
            f"  RESERVED_OF_BLOCK({kind}, {own}, {at});"
            for (kind, own, _), at in zip(used, places, strict=False)
        ], places[-1]

    def plan(
        self,
        name: str,
        counters: tuple[tuple[str, Index], ...],
        taken: list[str],
        lanes: int,
        reserved_bytes: int,
    ) -> None:
        """Record how a kernel is launched, for arrays with contiguous rows."""
        blocks = product([trips for _, trips in counters]).value
        self.is_fixed &= blocks is not None and not self.is_conditional
        arguments = [self.argument(own) for own in taken]
        launched = {"kernel": name, "blocks": blocks, "lanes": lanes, "reserved_bytes": reserved_bytes}
        self.launches.append({**launched, "arguments": arguments})

    def argument(self, own: str) -> dict[str, object]:
        """Return an argument of a launch: an array, a scalar, a number, or a loop counter.

        A number may be the stride of an array's axis.
        """
        if own in self.counters:
            return {"counter": own}
        source = self.sources[own]
        for tensor in self.program.tensors:
            shape = [extent.value or 1 for extent in tensor.shape]
            for axis, stride in enumerate(tensor.strides[:-1]):
                if stride == Index.of(source):
                    return {"number": prod(shape[axis + 1 :]), "stride": [tensor.name, axis]}
        return {"scalar" if source in dict(self.interface.scalars) else "array": source}

    def issue(self, issue: lir.Issue, depth: int) -> None:
        here = Here(self.names, self.values, self.elements)
        note = f" /* {clean_comment(issue.note)} */" if issue.note else ""
        for line in self.issuer.statements(issue, here):
            self.add(depth, line + note)

    def fill(self, node: lir.Fill, depth: int) -> None:
        at = self.names.inside().take("at")
        offset = index_text(node.offset, self.names.of, self.issuer.used).inside(SUM)
        shared = int(any(b.name == node.buffer for b in self.private.values()))
        place = f"{self.names.of(node.buffer)}[{offset} + {at}]"
        assert isinstance(self.issuer, LaneIssuer)
        buffer = next((b for b in self.private.values() if b.name == node.buffer), None)
        if buffer is not None and (swizzle := self.issuer.machine.memories[buffer.memory].swizzle):
            place = f"SWIZZLED({storage_type(buffer.dtype)}, &{place}, {swizzle})"
        each = self.issuer.team & (node.offset.symbols | node.elements.symbols)
        lane, lanes = map(self.names.of, ("lane", "lanes") if each else ("block_lane", "block_lanes"))
        count = self.index(node.elements)
        self.add(depth, f"for (int64_t {at} = {lane}; {at} < {count}; {at} += {lanes}) {{")
        self.add(depth + 1, f"STORE({shared}, {place}, 0);")
        self.add(depth, "}")

    def declare(self, values: tuple[lir.Value, ...], depth: int) -> None:
        self.values = {**self.values, **{v.name: v for v in values}}
        for value in values:
            count = max(self.elements_held.get(value.name, 0), -(-prod(value.shape) // self.lanes), 1)
            self.add(depth, f"{storage_type(value.dtype)} {self.names.take(value.name)}[{count}];")


def _passed_names(program: lir.LoweredProgram, interface: Interface) -> tuple[str, ...]:
    """Return the program's names of the values that kernels receive."""
    arrays = (array.name for array in (*program.tensors, *program.buffers))
    return (*arrays, *body_symbols(program), *(name for name, _ in interface.scalars))


def _elements_held(program: lir.LoweredProgram, machine: Machine) -> dict[str, int]:
    """Return how many elements of each value a lane holds, more than its part if lanes repeat elements."""
    found: dict[str, int] = {}
    for node in walk(program.body):
        if not isinstance(node, lir.Issue):
            continue
        item = machine.instructions[node.instruction]
        for name, ref in node.operands:
            if isinstance(ref, lir.RegisterRef):
                fragment = fragment_of(item.instruction.operand(name), item, machine)
                count = 1 if fragment is None else fragment.elements
                found[ref.value] = max(found.get(ref.value, 0), count)
    return found


def _bytes(array: lir.Tensor | lir.Buffer) -> Index:
    """Return the bytes from the first to the last element of an array."""
    size = array.dtype.size_bytes
    if isinstance(array, lir.Buffer):
        return array.elements * size
    if array.header is not None:
        return array.shape[0] * size - array.header.size_bytes
    steps = ((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    return (sum(steps, start=Index.of(0)) + 1) * size


def _kernel_parameter(declared: str) -> str:
    """Return a kernel's parameter for a declared one, without `restrict`, because lanes share what they write."""
    return f"__global {declared.replace('restrict ', '')}" if "*" in declared else declared


def _wrapper(name: str, taken: Sequence[tuple[str, str]]) -> list[str]:
    """Return the function through which a model calls a kernel for one lane."""
    types = [declared[: -len(own)].replace("restrict ", "").strip() for declared, own in taken]
    args = ", ".join(f"*({kind} const *)given[{at}].at" for at, kind in enumerate(types))
    return [f"static void {name}_lane(const isamap_value *given) {{", f"  {name}({args});", "}"]
