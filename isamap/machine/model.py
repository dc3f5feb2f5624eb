"""A machine as the rest of the compiler sees it: memories, links, units, states, instructions and the target.

`load_machine("generic-c").instructions["mac_f32"].emit` is `EmitSemantics()`.

`caches_from_nearest(load_machine("generic-c"))` is `("l1", "l2", "l3")`.

Some calls need temporary registers in addition to those of their operands:

    emit: c = _mm256_add_epi32(c, _mm256_madd_epi16(a, b))     the product is live together with c: one
    emit: z = _mm256_broadcastd_epi32(_mm_loadu_si32(a.addr))  the loaded value is in z: none

Hints are instructions whose only output is in a cache. They prefetch data and change no value.

    instruction prefetch_l2() {
      in a: u8[64] @ mem;
      out z: u8[64] @ l2;
      for i in 64 { z[i] = a[i]; }
    }

The meaning of such an instruction is a copy of a line. A cache has no buffers, so no other instruction can
name the copy, and the schedule may drop or repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, assert_never

from isamap.ir import Expr, Index, Instruction, MemoryDecl, MemoryKind, Param, StateDecl
from isamap.machine import timings
from isamap.machine.emit_nodes import Emission, EmitCall, EmitNothing, EmitSemantics, EmitSteps
from isamap.machine.encodings import Encoding, ProgramFormat
from isamap.machine.target_fields import Attributes, Length
from isamap.source import Span, add_up, dataclass, field

Run = Literal["native", "emulator", "model"]


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory: its declaration and further facts.

    `c_types` gives the C type of a register operand by the name of its element type, or under `default`.
    `c_variables` gives that of C variables, where it differs from the type that the functions of `emit` take.
    `energy` is None if it is not stated. Units: square millimetres, of the whole, and of each KiB in
    addition.
    """

    decl: MemoryDecl
    c_types: Mapping[str, str] = field(default_factory=dict[str, str])
    source: str | None = None
    energy: timings.AccessEnergy | None = None
    area_mm2: float | None = None
    area_mm2_per_kib: float | None = None
    c_variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        return self.decl.name

    @property
    def kind(self) -> MemoryKind:
        return self.decl.kind

    @property
    def base(self) -> str | None:
        """The memory that this one is a view of."""
        return self.decl.base

    @property
    def named(self) -> str | None:
        """How a program names a register: `compiler`, `immediate` or `chosen`. None for other memories."""
        value = dict(self.decl.attributes).get("named", "compiler" if self.kind == "registers" else None)
        return value if isinstance(value, str) else None

    @property
    def count(self) -> int | None:
        """The number of registers or slots, or None if it is not a stated number."""
        return self.number("count")

    @property
    def capacity_bytes(self) -> int | None:
        """All bytes of the memory, or None if it is unlimited or its size is known only at run time."""
        if (one := self.register_bytes) is None:
            return None
        return one * (self.count or 1)

    @property
    def register_bytes(self) -> int | None:
        """Bytes of one register or slot: `bytes`, or `rows` times `row_bytes`."""
        if (size := self.number("bytes")) is not None:
            return size
        rows, row_bytes = self.number("rows"), self.number("row_bytes")
        return rows * row_bytes if rows is not None and row_bytes is not None else None

    @property
    def swizzle(self) -> int:
        """The bits of the number of a line that its parts are XORed with: 7 if `swizzle_bytes` is 128, 0 without it.

        Lines have 128 bytes and parts 16. Part p of line n of the memory lies at part p ^ (n & 7) of the line.
        """
        return (self.number("swizzle_bytes") or 16) // 16 - 1

    def c_type(self, dtype: str) -> str | None:
        """Return the C type of a register that holds elements of a type."""
        return self.c_types.get(dtype, self.c_types.get("default"))

    def c_variable(self, dtype: str) -> str | None:
        """Return the C type of a variable for a register that holds elements of a type."""
        return self.c_variables.get(dtype, self.c_type(dtype))

    def number(self, name: str) -> int | None:
        """Return a numeric attribute of the declaration, or None if it is not a stated number."""
        value = dict(self.decl.attributes).get(name)
        return value.value if isinstance(value, Index) else None


@dataclass(frozen=True, slots=True)
class ConfigurationState:
    """Configuration state and its image in memory, of 0 bytes if it has none.

    Units: `bytes` and `offsets` of the fields are in bytes.
    """

    decl: StateDecl
    bytes: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Unit:
    """A functional unit with `count` copies.

    A copy performs at most `products_per_cycle` multiplications. `queued` issues may wait.
    Units: `area_mm2` of one copy, in square millimetres.
    """

    name: str
    count: int
    products_per_cycle: int | None = None
    queued: int | None = None
    area_mm2: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A data path between a farther memory (`source_memory`) and a nearer one, in both directions.

    `rows` and `streams` are reading times in addition to the bandwidth. `streams` is None if not stated.
    Each row that an instruction moves takes whole bursts of `burst_bytes`.
    """

    source_memory: str
    target_memory: str
    bandwidth_bytes_per_ns: float
    shared: bool
    source: str
    rows: timings.RowTimes = timings.NO_ROWS
    streams: timings.StreamTimes | None = None
    burst_bytes: int = 1
    energy_pj_per_byte: float | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ExecutionLevel:
    """An execution level: `count` instances of it run inside one instance of the enclosing level.

    `most` is the largest number of them that may run inside of one, where a schedule chooses it. `at_once` of
    them run at the same time, each on a core that may have so many `residents`, which hide each other's waits. Each
    has `memories` of its own. Units: `barrier_ns` is the time until all that
    run inside of one have waited for each other.
    """

    name: str
    count: int | None = None
    most: int | None = None
    at_once: int = 1
    memories: tuple[str, ...] = ()
    barrier_ns: float = 0.0
    residents: int = 1
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cost:
    """The unit that is occupied for `interval_ns`, and the time until the result can be used.

    `also` is another unit that is occupied for as long, by a second micro-operation; "" for none.
    `energy_pj` is the energy of one issue without its accesses to memories; None if it is not stated.
    Units: all are expressions, in ns or pJ, of type f64 over the instruction's integer parameters.
    """

    unit: str
    interval_ns: Expr
    latency_ns: Expr
    also: str = ""
    energy_pj: Expr | None = None

    @property
    def occupied(self) -> tuple[str, ...]:
        """All units that the instruction occupies."""
        return (self.unit, self.also) if self.also else (self.unit,)


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """An instruction's meaning, its emission, its cost and their source.

    `stated` is its cost as written if a link increases it. `encoding` are its words in a program. `made_of`
    names the instruction from which it was derived if no text describes it. The result of an asynchronous
    instruction is available after a barrier has waited for it.
    """

    instruction: Instruction
    emit: Emission
    cost: Cost
    barrier: bool = False
    source: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
    stated: Cost | None = field(default=None, compare=False, repr=False)
    encoding: Encoding | None = None
    made_of: str = ""
    is_asynchronous: bool = False

    @property
    def name(self) -> str:
        return self.instruction.name


@dataclass(frozen=True, slots=True)
class Target:
    """The compilers, flags and headers of the emitted code, and the processor features that it needs."""

    toolchains: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    run: Run = "native"
    lengths: tuple[Length, ...] = ()
    emulator: str | None = None  # under which programs run, on the model `cpu` of its processors
    cpu: str | None = None
    parts: tuple[tuple[str, EmitCall], ...] = ()
    attributes: Attributes = field(default_factory=Attributes)


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """A machine with everything that it inherits.

    It is equal only to itself, so that facts about it can be cached. `chain` holds its own name and those
    it extends, nearest first; `sources` the citations. `digest` is the sha256 of all texts from which it
    was read. `hints` are prefetch instructions: they change no value, so mappings and moves do not use
    them. `starts_cold` says that no cache contains a kernel's tensors at its start; a compilation sets it,
    not a text. `word` is the name by which it was requested. `figures` says whose measured parameters
    replace the stated ones. `served` are a constant and its values if one program is for several. `program`
    is the format of its encoded programs, if it has one. `levels` are its execution levels, the outermost
    first; () for a processor, whose threads run C. `host` names the machine that performs what it cannot, if
    the description says so. Units: `thread_start_ns` is the time to start waiting threads and to wait for
    their end.
    """

    name: str
    summary: str
    chain: tuple[str, ...]
    constants: tuple[Param, ...]
    memories: Mapping[str, Memory]
    states: Mapping[str, ConfigurationState]
    units: Mapping[str, Unit]
    links: tuple[Link, ...]
    instructions: Mapping[str, MachineInstruction]
    target: Target
    clock_ghz: float | None
    sources: Mapping[str, str]
    digest: str
    hints: Mapping[str, MachineInstruction] = field(default_factory=dict[str, MachineInstruction])
    thread_start_ns: float = timings.THREAD_START_NS
    tlb: timings.Tlb = timings.NO_TLB
    loops: timings.LoopTimes = timings.NO_LOOPS
    model: timings.ModelFigures = timings.MODEL
    starts_cold: bool = False
    word: str = ""
    figures: str = ""
    served: tuple[str, tuple[int, ...]] | None = None
    program: ProgramFormat | None = None
    levels: tuple[ExecutionLevel, ...] = ()
    host: str = ""

    @property
    def called(self) -> str:
        """The name on a command line: the machine's name, or the path of its file."""
        return self.word or self.name


@lru_cache(maxsize=32)
def main_memories(machine: Machine) -> tuple[str, ...]:
    """Return the memories of callers' arrays, in the order of the description."""
    return tuple(m.name for m in machine.memories.values() if m.kind == "addressable" and m.base is None)


@lru_cache(maxsize=32)
def home_of(machine: Machine) -> str:
    """Return the main memory of inputs, results and temporaries: the first that instructions read and write."""
    mains, (read, written) = main_memories(machine), _find_accessed(machine)
    return next((name for name in mains if name in read & written), mains[0])


@lru_cache(maxsize=32)
def memory_of_constants(machine: Machine) -> str:
    """Return the first main memory that instructions only read, or the memory of inputs and results."""
    read, written = _find_accessed(machine)
    return next((name for name in main_memories(machine) if name in read - written), home_of(machine))


def _find_accessed(machine: Machine) -> tuple[frozenset[str | None], frozenset[str | None]]:
    """Return the memories that instructions read, and those that they write."""
    every = [o for item in machine.instructions.values() for o in item.instruction.operands]
    read, written = ([o.memory for o in every if o.role != role] for role in ("out", "in"))
    return frozenset(read), frozenset(written)


def area_mm2(machine: Machine) -> float | None:
    """Return the sum of the areas that a description states, or None if it states none. Units: square millimetres."""
    units = [unit.count * unit.area_mm2 for unit in machine.units.values() if unit.area_mm2]
    fixed = [m.area_mm2 for m in machine.memories.values() if m.area_mm2 is not None]
    sized = [
        m.area_mm2_per_kib * (m.capacity_bytes or 0) / 1024
        for m in machine.memories.values()
        if m.area_mm2_per_kib is not None
    ]
    return add_up([*units, *fixed, *sized]) if units or fixed or sized else None


def bound_level(machine: Machine) -> ExecutionLevel | None:
    """Return the level whose instances run the iterations of parallel loops, or None if threads run them."""
    return machine.levels[1] if machine.levels else None


def team_level(machine: Machine) -> ExecutionLevel | None:
    """Return the level whose instances share one iteration of a parallel loop, or None if there is none."""
    return machine.levels[2] if len(machine.levels) == 4 else None


def threads_of(machine: Machine) -> int | None:
    """Return how many instances run at the same time at the level around the lanes, or None without levels.

    The result is None if threads perform parallel loops.
    """
    bound, team = bound_level(machine), team_level(machine)
    return None if bound is None else bound.at_once * (1 if team is None else team.at_once)


def private_memories(machine: Machine) -> tuple[str, ...]:
    """Return the memories that one part of a parallel loop has to itself."""
    level = bound_level(machine)
    return () if level is None else level.memories


def is_late_product(item: MachineInstruction, machine: Machine) -> bool:
    """Return whether an instruction continues after its issue, and its results arrive in registers."""
    written = (o.memory or "" for o in item.instruction.operands if o.role in ("out", "inout"))
    return item.is_asynchronous and any(machine.memories[name].kind == "registers" for name in written)


def caches_from_nearest(machine: Machine) -> tuple[str, ...]:
    """Return the caches, with the one nearest to the registers first.

    Links are acyclic, as loading has checked. Of memories that no link orders, the first name comes first.
    """
    sources = {name: {link.source_memory for link in machine.links if link.target_memory == name}
               for name in machine.memories}  # fmt: skip
    order: list[str] = []
    while sources:
        order.append(min(name for name, before in sources.items() if before.isdisjoint(sources)))
        del sources[order[-1]]
    return tuple(name for name in reversed(order) if machine.memories[name].kind == "cache")


def line_bytes(machine: Machine) -> int:
    """Return the shortest line of a machine's caches, or 0 if none is stated. Units: bytes."""
    stated = [dict(memory.decl.attributes).get("line_bytes") for memory in machine.memories.values()]
    return min((size.value for size in stated if isinstance(size, Index) and size.value), default=0)


def unset_state(instruction: Instruction, machine: Machine) -> str:
    """Return a required state that no instruction sets as a whole or in the required field, or ""."""
    if not instruction.requires:
        return ""
    loaded, fields = _settable(machine)
    needed = (required.field for required in instruction.requires)
    return next((f.state for f in needed if f.state not in loaded and (f.state, f.field) not in fields), "")


@lru_cache(maxsize=32)
def _settable(machine: Machine) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """Return the states that instructions load as a whole, and the (state, field) pairs that they set singly."""
    every = [m.instruction for m in machine.instructions.values()]
    loaded = frozenset(state for i in every for state in i.sets_state)
    free = (i for i in every if not i.operands)
    return loaded, frozenset((s.field.state, s.field.field) for i in free for s in i.settings)


def count_between(item: MachineInstruction, machine: Machine) -> tuple[tuple[str, int], ...]:
    """Return the number of temporary registers for nested calls, by the memory of the outermost call's result.

    A target that is only written serves as one of them. Without nested calls there are none.
    """
    match item.emit:
        case EmitCall(result=str(name), held=held):
            result = item.instruction.operand(name)
        case EmitCall() | EmitSteps() | EmitSemantics() | EmitNothing():
            return ()
        case _:
            assert_never(item.emit)
    count = held - (result.role == "out")
    assert result.memory is not None, "operands of instructions live somewhere"
    assert machine.memories[result.memory].named == "compiler", "the result of a call is a C value"
    return ((result.memory, count),) if count > 0 else ()


@dataclass(frozen=True, slots=True)
class LineHint:
    """A hint that brings one line into a cache: its instruction and the operand that names the line.

    Units: `line_bytes`.
    """

    item: MachineInstruction
    cache: str
    operand: str
    line_bytes: int


def is_hint(instruction: Instruction, memories: Mapping[str, Memory]) -> bool:
    """Return whether all outputs of an instruction lie in caches."""
    outputs = [o for o in instruction.operands if o.role in ("out", "inout")]
    return bool(outputs) and all(o.memory is not None and memories[o.memory].kind == "cache" for o in outputs)


def line_hints(machine: Machine) -> Mapping[str, LineHint]:
    """Return, for each cache, the hint that prefetches a row of bytes from addressable memory into it."""
    found: dict[str, LineHint] = {}
    for item in machine.hints.values():
        hint = _line_hint(item, machine)
        if hint is not None:
            found.setdefault(hint.cache, hint)
    return found


def _line_hint(item: MachineInstruction, machine: Machine) -> LineHint | None:
    operands = item.instruction.operands
    sources, targets = ([o for o in operands if o.role == role] for role in ("in", "out"))
    if len(sources) != 1 or len(targets) != 1 or len(operands) != 2 or item.instruction.params:
        return None
    source, cache = sources[0], targets[0].memory
    length = source.shape[0].value if len(source.shape) == 1 else None
    memory = machine.memories[source.memory] if source.memory else None
    if cache is None or length is None or (memory is not None and memory.kind != "addressable"):
        return None
    return LineHint(item, cache, source.name, length * source.dtype.size_bytes)
