"""Convert a lowered program to numbers: units, registers and accesses counted, costs and strides evaluated.

Index expressions of loops keep their symbols. Everything else about an issue is known before it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import assert_never

from isamap.ir import Index
from isamap.lower import program as lir
from isamap.lower.work_slices import by_one_thread, dense_numbers
from isamap.machine import Machine, MachineInstruction, carried_ns, cost_params, cost_value, shared_link
from isamap.machine.banks import Runs, banks_of
from isamap.simulate.machine_time import ScratchpadAccess, Step, Varying
from isamap.simulate.reuse import LoopAround, MemoryOperand, strides_of
from isamap.source.records import dataclass, field, replace

# A buffer is filled by stores as wide as this. Units: bytes.
FILL_BYTES = 64


@dataclass(frozen=True, slots=True, eq=False)
class PreparedLoop:
    """A loop. `inner` are the inner expressions that depend on its variable, `variables` those of inner loops.

    The number of its issues over all iterations depends on the loops and sizes in `around`.
    """

    trip_loop: LoopAround
    trips: Index
    body: tuple[Run, ...]
    inner: tuple[Index, ...]
    variables: tuple[str, ...]
    around: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A body that runs if all conditions hold."""

    conditions: tuple[lir.Condition, ...]
    body: tuple[Run, ...]


Run = Step | PreparedLoop | Branch


@dataclass(frozen=True, slots=True)
class PreparedProgram:
    """A program ready for simulation. Units: `array_bytes`. `masks` are the bits of loops around an access."""

    body: tuple[Run, ...]
    units: tuple[str, ...]
    registers: int
    accesses: tuple[MemoryOperand, ...]
    masks: tuple[int, ...]
    array_bytes: Mapping[str, int]
    env: Mapping[str, int]


def prepare(program: lir.LoweredProgram, machine: Machine, profile: Mapping[str, int]) -> PreparedProgram:
    """Return the program with dense tensors. `profile` has values for open sizes."""
    env = dense_numbers(program, profile)
    array_bytes: dict[str, int] = {}
    item_bytes: dict[str, int] = {}
    for tensor in program.tensors:
        item_bytes[tensor.name] = tensor.dtype.size_bytes
        array_bytes[tensor.name] = prod(n.evaluate(env) for n in tensor.shape) * tensor.dtype.size_bytes
    for buffer in program.buffers:
        array_bytes[buffer.name] = buffer.elements.evaluate(env) * buffer.dtype.size_bytes
        item_bytes[buffer.name] = buffer.dtype.size_bytes
    scratch = {b.name: (b.memory, b.offset or 0) for b in program.buffers if b.memory}
    builder = _Builder(machine, env, item_bytes, scratch)
    body = builder.nodes(program.body, None)
    masks = tuple(sum(t.bit for t in (a.loop.chain if a.loop else ())) for a in builder.accesses)
    return PreparedProgram(
        body, tuple(builder.units), len(builder.registers), tuple(builder.accesses), masks, array_bytes, env
    )


@dataclass(slots=True)
class _Builder:
    machine: Machine
    env: Mapping[str, int]
    item_bytes: Mapping[str, int]
    scratch: Mapping[str, tuple[str, int]]
    units: dict[str, int] = field(default_factory=dict[str, int])
    registers: dict[str, int] = field(default_factory=dict[str, int])
    accesses: list[MemoryOperand] = field(default_factory=list[MemoryOperand])
    loops: int = 0
    block: str = ""

    def nodes(self, nodes: Sequence[lir.Node], loop: LoopAround | None) -> tuple[Run, ...]:
        """Return the nodes of one body under a loop."""
        found: list[Run] = []
        for node in by_one_thread(nodes):
            match node:
                case lir.Issue():
                    found.append(self._issue(node, loop))
                case lir.Configure(name):
                    found.append(self._configure(name))
                case lir.Fill():
                    found += self._fill(node, loop)
                case lir.Declare():
                    pass
                case lir.For():
                    found.append(self._loop(node, loop))
                case lir.If(conditions, body):
                    found.append(Branch(conditions, self.nodes(body, loop)))
                case lir.Block(note, body):
                    outer, self.block = self.block, self.block or note
                    found += self.nodes(body, loop)
                    self.block = outer
                case _:
                    assert_never(node)
        return tuple(found)

    def _loop(self, node: lir.For, around: LoopAround | None) -> PreparedLoop:
        self.loops += 1
        zero = {**self.env, **dict.fromkeys(node.trips.symbols - self.env.keys(), 0)}
        trip_loop = LoopAround(node.variable, max(1, node.trips.evaluate(zero)), 1 << self.loops, around)
        body = self.nodes(node.body, trip_loop)
        inside = dict.fromkeys(_trips(body))
        mentioned = tuple(index for index in inside if node.variable in index.symbols)
        variables = tuple(item.trip_loop.variable for item in _inside(body) if isinstance(item, PreparedLoop))
        moved = node.trips.symbols.union(*(index.symbols for index in inside))
        outside = tuple(sorted(moved - self.env.keys() - {node.variable, *variables}))
        return PreparedLoop(trip_loop, node.trips, body, mentioned, variables, outside)

    def _issue(self, node: lir.Issue, loop: LoopAround | None) -> Step:
        item = self.machine.instructions[node.instruction]
        roles = {o.name: o.role for o in item.instruction.operands}
        reads: list[int] = []
        writes, accesses = -1, list[int]()
        typical = self._params(node, self.env)
        for name, operand in node.operands:
            role = roles[name]
            match operand:
                case lir.RegisterRef(value):
                    register = self.registers.setdefault(value, len(self.registers))
                    if role != "out":
                        reads.append(register)
                    writes = register if role != "in" else writes
                case lir.MemoryRef():
                    size = self._size(typical, item, name)
                    accesses.append(
                        self._access(operand, size, loop, writes=role != "in", reads=role != "out")
                    )
        known = tuple(reads), writes, tuple(accesses), self.block
        moving = tuple((n, v) for n, v in node.params if isinstance(v, Index) and v.symbols - self.env.keys())
        made: dict[tuple[int, ...], Step] = {}

        def at(env: Mapping[str, int]) -> Step:
            """Return the cached issue for the values of its parameters."""
            values = tuple(value.evaluate(env) for _, value in moving)
            if values not in made:
                made[values] = self._step(node, item, self._params(node, env), *known)
            return made[values]

        step = self._step(node, item, typical, *known)
        return replace(step, varying=Varying(moving, at)) if moving else step

    def _params(self, node: lir.Issue, env: Mapping[str, int]) -> dict[str, int]:
        """Return the parameters as numbers, with loops at their start unless `env` has their variables."""
        found: dict[str, int] = {}
        for name, value in node.params:
            if isinstance(value, Index):
                zero = {**env, **dict.fromkeys(value.symbols - env.keys(), 0)}
                found[name] = max(1, value.evaluate(zero))
            elif isinstance(value, int):
                found[name] = value
        return found

    def _step(
        self,
        node: lir.Issue,
        item: MachineInstruction,
        params: Mapping[str, int],
        reads: tuple[int, ...],
        writes: int,
        accesses: tuple[int, ...],
        block: str,
    ) -> Step:
        """Return an issue with these parameters: its times, and its accesses to scratchpads."""
        crossed, link_ns = shared_link(self.machine, node.instruction), 0.0
        roles = {o.name: o.role for o in item.instruction.operands}
        touches: list[ScratchpadAccess] = []
        sizes: list[int] = []
        for name, operand in node.operands:
            if not isinstance(operand, lir.MemoryRef):
                continue
            size = self._size(params, item, name)
            sizes.append(size)
            if crossed is not None and crossed[1] == name:
                link_ns = carried_ns(
                    crossed[0], item.instruction.operand(name), self._extents(params, item, name)
                )
            if operand.buffer in self.scratch:
                memory, begin = self.scratch[operand.buffer]
                place = operand.offset * self.item_bytes[operand.buffer] + begin
                role = roles[name]
                touch = ScratchpadAccess(memory, place, size, role != "out", role != "in")
                touches.append(self._in_banks(touch, operand, item, name, params))
        times = self._times(item, params)
        queued = self.machine.units[item.cost.unit].queued or 0
        also, also_ns = self._second_unit(item, times[1])
        step = Step(
            *times, reads, writes, accesses, tuple(touches), item.name, block, queued=queued, also=also,
            also_ns=also_ns, sizes=tuple(sizes),
        )  # fmt: skip
        if crossed is None:
            return step
        link = self.units.setdefault(crossed[0].source_memory, len(self.units))
        return replace(step, link=link, link_ns=link_ns, link_written=roles[crossed[1]] != "in")

    def _in_banks(
        self,
        touch: ScratchpadAccess,
        place: lir.MemoryRef,
        item: MachineInstruction,
        name: str,
        params: Mapping[str, int],
    ) -> ScratchpadAccess:
        """Return the access with the banks of its bytes, which count as units."""
        banks = banks_of(self.machine.memories[touch.memory], self.machine.clock_ghz)
        if banks is None:
            return touch
        names = [f"{touch.memory}.{number}" for number in range(banks.count)]
        first, *_ = [self.units.setdefault(one, len(self.units)) for one in names]
        extents = self._extents(params, item, name)
        strides = [stride.evaluate(self.env) for stride in place.strides]
        size = self.item_bytes[place.buffer]
        return replace(touch, banks=banks, first_bank=first, runs=_runs(extents, strides, size))

    def _times(self, item: MachineInstruction, params: Mapping[str, int]) -> tuple[int, float, float]:
        """Return an instruction's unit, how long it occupies the unit, and its latency."""
        numbers = cost_params(item, self.machine, params)
        count = max(1, self.machine.units[item.cost.unit].count)
        unit = self.units.setdefault(item.cost.unit, len(self.units))
        work = cost_value(item.cost.interval_ns, numbers) / count
        return unit, work, cost_value(item.cost.latency_ns, numbers)

    def _second_unit(self, item: MachineInstruction, work_ns: float) -> tuple[int, float]:
        """Return another unit that an instruction occupies, and for how long, or -1 if there is none."""
        if not item.cost.also:
            return -1, 0.0
        copies, others = (max(1, self.machine.units[u].count) for u in (item.cost.unit, item.cost.also))
        return self.units.setdefault(item.cost.also, len(self.units)), work_ns * copies / others

    def _configure(self, name: str) -> Step:
        return Step(*self._times(self.machine.instructions[name], {}), (), -1, (), (), name, self.block)

    def _fill(self, node: lir.Fill, loop: LoopAround | None) -> list[Run]:
        """Return a loop of its own, with consecutive stores."""
        self.loops += 1
        size = node.elements * self.item_bytes[node.buffer]
        trips = size.ceildiv(FILL_BYTES)
        zero = {**self.env, **dict.fromkeys(trips.symbols - self.env.keys(), 0)}
        trip_loop = LoopAround(f"$fill{self.loops}", max(1, trips.evaluate(zero)), 1 << self.loops, loop)
        step = FILL_BYTES // self.item_bytes[node.buffer]
        place = lir.MemoryRef(node.buffer, node.offset + Index.of(trip_loop.variable) * step)
        unit = self.units.setdefault("fill", len(self.units))
        access = self._access(place, FILL_BYTES, trip_loop, writes=True, reads=False)
        fill = Step(unit, 0.0, 0.0, (), -1, (access,), (), "fill", self.block, sizes=(FILL_BYTES,))
        return [
            PreparedLoop(trip_loop, trips, (fill,), (), (), tuple(sorted(trips.symbols - self.env.keys())))
        ]

    def _size(self, params: Mapping[str, int], item: MachineInstruction, name: str) -> int:
        """Return the bytes from an operand's first to its last element, for a dense or almost dense operand."""
        return prod(self._extents(params, item, name)) * item.instruction.operand(name).dtype.size_bytes

    def _extents(self, params: Mapping[str, int], item: MachineInstruction, name: str) -> list[int]:
        """Return the number of elements along each axis of an operand, at least 1."""
        env = {**self.env, **params}
        env |= {c.name: 1 for c in item.instruction.params if c.name not in env}
        return [max(1, extent.evaluate(env)) for extent in item.instruction.operand(name).shape]

    def _access(
        self, place: lir.MemoryRef, size: int, loop: LoopAround | None, *, writes: bool, reads: bool = True
    ) -> int:
        chain = loop.chain if loop is not None else ()
        base, strides = strides_of(place.offset, [t.variable for t in chain], self.env)
        item = self.item_bytes[place.buffer]
        number = len(self.accesses)
        moved = tuple(stride * item for stride in strides)
        self.accesses.append(
            MemoryOperand(number, place.buffer, base * item, size, moved, loop, writes, reads)
        )
        return number


def _runs(extents: Sequence[int], strides: Sequence[int], item_bytes: int) -> Runs:
    """Return the contiguous runs of an operand's bytes from its first one on. Without strides, it is dense."""
    if len(strides) != len(extents):
        return ((0, prod(extents) * item_bytes),)
    starts, together = [0], 1
    for stride, extent in sorted(zip(strides, extents, strict=True)):
        if stride == together and len(starts) == 1:
            together *= extent
        elif extent > 1:
            starts = [start + n * stride for n in range(extent) for start in starts]
    return tuple((start * item_bytes, together * item_bytes) for start in starts)


def _inside(body: Sequence[Run]) -> Iterator[Run]:
    """Yield all nodes of a body, each loop and branch before its content."""
    for item in body:
        yield item
        if not isinstance(item, Step):
            yield from _inside(item.body)


def _trips(body: Sequence[Run]) -> list[Index]:
    """Return the indices that decide how often a body runs, and how much its issues move."""
    found: list[Index] = []
    for item in _inside(body):
        match item:
            case PreparedLoop(_, trips):
                found.append(trips)
            case Branch(conditions):
                found += [side for left, _, right in conditions for side in (left, right)]
            case Step():
                found += [value for _, value in item.varying.params] if item.varying is not None else []
    return found
