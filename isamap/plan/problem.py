"""The scheduling problem: for each statement the possible mappings, with their costs.

It is data only. `isamap.plan.decisions` has the names of the decisions.
"""

from __future__ import annotations

from dataclasses import fields
from math import ceil, inf, prod
from typing import Any

from isamap.machine import timings
from isamap.plan.schedule import NestSchedule, Schedule
from isamap.source.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class TileAxis:
    """A loop axis of a mapping: one kernel axis, or several fused ones.

    Units: `extent` in elements (the profile value if the size is symbolic), `tile` the elements that one
    issue covers (1 for an axis outside the instruction). The extent of an axis that `is_open` is known only
    at run time.
    """

    name: str
    extent: int
    tile: int
    is_reduction: bool
    is_open: bool = False


Busy = tuple[tuple[str, float], ...]
"""Units, and links that units share, with how long each is busy. Units: nanoseconds."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The time in which separate units move a whole operand once, into its scratchpad or out of it.

    `begun` is the time to bring an input, or the initial values of sums. For sums, `finished` is the time
    to take them out, `first_ns` the part of it in which they are read, and `latency_ns` the delay of the
    last tile. For an input, `latency_ns` is the delay from the end of its unit's work to its arrival.
    `issues` is the number of issues that bring an input, of which `queued` wait in queues with those that
    compute. `early` is the number of issues for a later buffer before computing waits.

    If an instruction reads registers, `loaded` is the time to bring all tiles of an input there once. Sums
    that it accumulates in registers come from their scratchpad and go back: `around` is the time if all of
    them are summed at once. If they are summed in parts, `between` is the time from one part to the next,
    and `apart` the time before the first. `again_ns` is the time to take a tile out and in again. `turn_ns`
    is the time to read its place in a scratchpad and initialise it anew.
    """

    begun: Busy
    finished: Busy = ()
    first_ns: float = 0.0
    latency_ns: float = 0.0
    issues: int = 0
    queued: int = 0
    early: int = 0
    loaded: Busy = ()
    around: Busy = ()
    between: Busy = ()
    apart: Busy = ()
    again_ns: float = 0.0
    turn_ns: float = 0.0

    def scaled(self, share: float) -> Flow:
        """Return the times for a share of the operand. Times of a single tile are unchanged."""

        def times(busy: Busy) -> Busy:
            return tuple((unit, ns * share) for unit, ns in busy)

        moved = {name: times(getattr(self, name)) for name in BUSY_FIELDS}
        issues = ceil(self.issues * share)
        return replace(self, **moved, first_ns=self.first_ns * share, issues=issues)


BUSY_FIELDS = ("begun", "finished", "loaded", "around", "between", "apart")


@dataclass(frozen=True, slots=True)
class MoveEnergy:
    """The energy of the instructions that move an operand, in and out, without memory accesses.

    Units: picojoules. `direct` is for one tile between its tensor and registers, `staged` for one between a
    buffer and registers, `copied` for one element between its tensor and a buffer in a scratchpad.
    """

    direct: tuple[float, float] = (0.0, 0.0)
    staged: tuple[float, float] = (0.0, 0.0)
    copied: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Energies:
    """The energies that a machine states. Tensors and workspaces lie in the memory `home`.

    Units: `memories` in picojoules for each byte read and each byte written. `links`, by their ends, for each
    byte either way; `leakage_pj_per_ns` of all memories together.
    """

    home: str
    memories: tuple[tuple[str, float, float], ...]
    links: tuple[tuple[str, str, float], ...]
    leakage_pj_per_ns: float = 0.0

    def access_pj(self, memory: str) -> tuple[float, float]:
        """Return the energies to read and to write a byte, 0 where not stated."""
        return next(((r, w) for name, r, w in self.memories if name == (memory or self.home)), (0.0, 0.0))

    def link_pj(self, one: str, other: str) -> float:
        """Return the energy to move a byte between two memories, or 0 if no link joins them."""
        ends = {one or self.home, other or self.home}
        return next((pj for a, b, pj in self.links if {a, b} == ends), 0.0)


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """The tensor of an operand in its backing memory. Units: bytes."""

    tensor_bytes: int
    """Bytes of an element."""
    subscripts: tuple[tuple[tuple[str, int], ...], ...] = ()
    """For each tensor axis, the loop axes that move it, with elements per step: `2*p + r` is (("p", 2), ("r", 1)).
    Empty if every loop axis has a tensor axis of its own."""
    dense_axis: str = ""
    """The loop axis along which the tensor is contiguous; "" if unknown."""
    pitch_bytes: int = 0
    """The distance of its rows; 0 if unknown. With it and `dense_axis`, reading many rows in place is priced."""
    least_row_bytes: int = 0
    """The least that a piece of a row takes of a cache: a line; 0 if rows are no longer than that."""
    next_row: str = ""
    """The loop axis each step of which moves to the next row; "" if unknown."""
    in_rows: bool = True
    """True if an iteration of a loop reads a box of one array in place."""
    main: str = ""
    """The main memory to which the kernel assigns the tensor; "" if it names none."""


NO_WAITS: Busy = (("", 0.0),) * 3


@dataclass(frozen=True, slots=True)
class TileCosts:
    """The costs to load and to store one tile. Only accumulators are stored.

    Units: nanoseconds of unit time. The parts named `busy` occupy the issuing unit: computing waits for them, and
    hides the others.
    """

    direct_ns: float | None
    """With the tensor in place: the mean if it ends in the middle of a tile; None if no move reads it there."""
    staged_ns: float | None
    """With a staging buffer; None if no move reads one."""
    direct_busy_ns: float = 0.0
    staged_busy_ns: float = 0.0
    energy: MoveEnergy = MoveEnergy()
    lane_waits: Busy = NO_WAITS
    """The parts for which lanes wait for each other, each with the memory: of a tile in place, of a tile from a
    buffer, and of an element that is copied into it."""


@dataclass(frozen=True, slots=True)
class Staging:
    """The buffers that an operand may have, and the copies that fill them or write them back.

    Units: bytes, and nanoseconds per element of a copy.
    """

    staged_bytes: int
    """Bytes of an element in a buffer."""
    pack_ns_per_element: float
    """The time of the copy."""
    stage_whole: bool = False
    """True if a summing axis outside the register block requires a buffer, because the tensor is narrower."""
    homes: tuple[str, ...] = ("",)
    """The possible memories, the one that is priced first: scratchpads by name, "" for the workspace."""
    is_packed: bool = False
    """True if the caller passes the tensor packed: it is staged as a whole at no cost."""
    mover: str = ""
    """The unit that copies by itself while the instruction's unit computes; "" if the unit that computes copies."""
    moved_ns_per_element: float = 0.0
    """The time of that unit."""
    arrives_ns: float = 0.0
    """The time from the end of its work to the arrival of what lanes read. Units: nanoseconds."""
    flow: Flow | None = None
    """The time of all units that move it between main memory and a scratchpad, if none of them computes."""
    is_concurrent: bool = False
    """True if copies use other units and registers: interleaved with the sum, they run in parallel with it."""
    iterations_of_copy: int = 1
    """The iterations of the ordered loops around that one copy of the whole tensor serves."""
    fresh_bytes: int = 0
    """The bytes of an array of which each of these iterations reads other elements; 0 if none does."""
    windows: tuple[timings.WindowOverlap, ...] = ()
    """The windows that a buffer in a scratchpad stores once."""


@dataclass(frozen=True, slots=True)
class Prefetching:
    """The caches that an operand's lines come from, and the prefetch hints that may load them. Units: bytes."""

    hints: tuple[tuple[str, float], ...] = ()
    """The caches into which lines may be prefetched, with nanoseconds per byte."""
    line_bytes: int = 0
    """Bytes that one hint loads."""
    ahead_counts: tuple[int, int] = (timings.MODEL.near_ahead_count, timings.MODEL.shared_ahead_count)
    """Distances in iterations: for the nearest cache after an earlier hint, and the least one for inputs that
    register blocks share."""
    is_streamed: bool = False
    """True if it comes from beyond all caches, and takes longer than all issues."""
    ahead_bytes: int = 0
    """The distance at which the lines of a streamed operand are hinted before their use."""
    is_swept: bool = False
    """True if it may pay to read a few rows together to their ends, each by separate loads."""
    is_late: bool = False
    """True if hints may make pieces of its rows arrive earlier, though it is not streamed."""
    is_cold: bool = False
    """True if no cache contains it when the kernel begins."""


@dataclass(frozen=True, slots=True)
class TileOperand:
    """An operand of the mapped instruction: its tile in registers, its tensor, and the costs to move it."""

    name: str
    tensor: str
    axes: tuple[str, ...]
    """The loop axes on which its element depends."""
    is_accumulator: bool
    memory: str
    registers: int
    """The number of registers of `memory` that one tile takes."""
    tile_elements: int
    layout: TensorLayout
    costs: TileCosts
    staging: Staging
    prefetching: Prefetching = Prefetching()
    over: tuple[tuple[str, int], ...] = ()
    """Registers of other memories that one tile aliases: a group of four takes four of those that others use."""

    @property
    def takes(self) -> tuple[tuple[str, int], ...]:
        """The number of registers of each memory that one tile occupies."""
        return ((self.memory, self.registers), *self.over)

    @property
    def buffer_tile_bytes(self) -> int:
        """The bytes of one tile in a staging buffer."""
        return self.tile_elements * self.staging.staged_bytes


_PARTS = {"layout": TensorLayout, "costs": TileCosts, "staging": Staging, "prefetching": Prefetching}
_PART_OF = {field.name: part for part, kind in _PARTS.items() for field in fields(kind)}


def with_fields(operand: TileOperand, **values: Any) -> TileOperand:
    """Return an operand with new values of these fields, its own or those of its records."""
    changed = {name: value for name, value in values.items() if name not in _PART_OF}
    for part in {_PART_OF[name] for name in values.keys() & _PART_OF.keys()}:
        own = {name: value for name, value in values.items() if _PART_OF.get(name) == part}
        changed[part] = replace(getattr(operand, part), **own)
    return replace(operand, **changed)


@dataclass(frozen=True, slots=True)
class Fusion:
    """An elementwise statement that an option can fuse, computed on each tile in the accumulator.

    `needs` are the statements that must be fused with it. `passes` are scratchpads that a tile goes through
    on its way out. Units: `extra_ns` and `extra_pj` are the added time and energy for all tiles together, in
    nanoseconds and picojoules (less than 0 if it saves accesses of the sum); fusion saves the cost of the
    statement's own nest; bytes of each scratchpad.
    """

    statement: int
    needs: tuple[int, ...]
    extra_ns: float
    passes: tuple[tuple[str, int], ...] = ()
    extra_pj: float = 0.0


@dataclass(frozen=True, slots=True)
class CarriedValues:
    """Values that a mapping keeps in registers between iterations of the ordered loop over `axis`.

    That loop is then the innermost one, with `iterations` iterations around each register block. Units:
    `chain_ns` is the latency from the values that an iteration takes to those that it leaves. `pitches` are
    the distances, in bytes, of rows of each array along which iterations proceed.
    """

    axis: str
    iterations: int
    chain_ns: float
    pitches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NestOption:
    """One mapping of one statement, ready to be tiled.

    Units: `interval_ns` and `latency_ns` of one issue, which `unit` performs. `can_split_sums` says that
    partial sums over a summing axis may be joined, and that the machine can. `parts` is for schedulers and
    cost models: the option is one of so many parts per axis, which threads perform in parallel. Extents are
    those of a part. If an axis occurs twice, the first number is that of groups of its parts. Each part is
    `alone` on its core, or with as many residents as the machine allows. `between` is the number of registers of each
    memory that an issue needs temporarily, in addition to its operands. `carried` are the values that ordered
    iterations leave in registers; None if they do not. `passes` are the bytes of scratchpads that inputs take while
    they are computed. `banked`
    gives for scratchpads with banks the time for which one issue keeps all of them busy, and that of a
    nanosecond of loading an operand into registers; for the memory of a shared link, that of one issue.
    `issue_pj` is the energy of one issue without its accesses, in picojoules. Along axes in `lengths` an issue
    writes no more of its result than is left. `is_sum` is false if the statement only assigns. `team` is the
    number of the problem's threads that perform each part together: costs are those of one of them. `members`
    is the number of instances that share a part, some of which may wait for others. `shares_work` is false if
    lanes perform it: iterations that share a copy would be in an order that lanes do not have. `outlives` is the
    number of iterations that its products may be in flight behind their own.
    """

    mapping: str
    choose: tuple[tuple[str, int], ...]
    axes: tuple[TileAxis, ...]
    operands: tuple[TileOperand, ...]
    interval_ns: float
    latency_ns: float
    can_split_sums: bool = False
    parts: tuple[tuple[str, int], ...] = ()
    alone: bool = False
    fusions: tuple[Fusion, ...] = ()
    between: tuple[tuple[str, int], ...] = ()
    carried: CarriedValues | None = None
    unit: str = ""
    banked: tuple[tuple[str, str, float], ...] = ()
    issue_pj: float = 0.0
    lengths: tuple[str, ...] = ()
    is_sum: bool = True
    passes: tuple[tuple[str, int], ...] = ()
    team: int = 1
    members: int = 1
    shares_work: bool = True
    outlives: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """The decisions of a known schedule of an option, by the option's place among those of its statement.

    `parts` and `alone` are those of the partition that it belongs to.
    """

    option: int
    parts: tuple[tuple[str, int], ...]
    values: tuple[tuple[str, int], ...]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class NestProblem:
    """A statement with its options, and a bound for the options that were left out.

    Mappings that cannot win may be omitted: by the model that omitted them, no schedule with one of them
    costs less than `others_ns`. Units: nanoseconds, infinite if all are present. Schedules may be known
    from that pricing: `starts` are as good as greedy's. `iterations` is the number of times that ordered loops
    around the statement perform it; cost models price one.
    """

    statement: int
    options: tuple[NestOption, ...]
    others_ns: float = inf
    iterations: int = 1
    starts: tuple[Start, ...] = ()


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache level, nearest first.

    `ways` and `line_bytes` are 0 if unknown. `shared` says that all cores share it with its bandwidth.
    `cores` of them share its capacity. `rows` is the time to read rows from it. A line not touched for
    `kept_ns` is evicted by others that share it (0: it stays). A working set of more than `usable_factor`
    of it evicts itself.

    Units: bytes, bytes per nanosecond towards the level before it, and nanoseconds.
    """

    name: str
    capacity_bytes: int
    bandwidth_bytes_per_ns: float
    ways: int = 0
    shared: bool = False
    line_bytes: int = 0
    rows: timings.RowTimes = timings.NO_ROWS
    kept_ns: int = 0
    cores: int = 1
    usable_factor: float = timings.MODEL.usable_factor


@dataclass(frozen=True, slots=True)
class Problem:
    """The scheduling problem: all data that a heuristic or a solver may use.

    `registers` is the number of registers of each register memory. `memory_bandwidth_bytes_per_ns` is the
    bandwidth of the memory behind the last cache, which cores share if `memory_shared`. `memory_rows` and
    `memory_streams` are its additional reading times. `tlb` and `loops` are the times of pages and loops,
    and `model` has further parameters of cost models. `threads` is the number of threads that perform the
    kernel, and `thread_start_ns` the time to start them and to wait for their end, once. `hinted` are the
    caches into which an instruction prefetches. `scratchpads` are those with their bytes. Addresses in them
    are multiples of `address_steps`. `blocks` are axes that statements share in blocks, with the iterations
    of each: the problem is about the kernel in these blocks. `energies` are None if the machine states none.
    `private` are memories of which each part of a parallel loop has its own, and `barrier_ns` is the time
    until all lanes of such a part have waited for each other. `team_threads` of the threads share one of them: they
    are a core. Up to `residents` parts take the place of one there, and hide each other's waits. All parts on a core
    share what it has of a memory, `of_core`: bytes, or registers. `cached` are the bytes of the cache that all parts
    share in front of a memory: parts that run at the same time read what they have in common once.
    """

    kernel: str
    machine: str
    sizes: tuple[tuple[str, int | str], ...]
    nests: tuple[NestProblem, ...]
    registers: tuple[tuple[str, int], ...]
    caches: tuple[Cache, ...]
    memory_bandwidth_bytes_per_ns: float
    hinted: tuple[str, ...] = ()
    memory_shared: bool = False
    threads: int = 1
    thread_start_ns: float = 0.0
    scratchpads: tuple[tuple[str, int], ...] = ()
    address_steps: tuple[tuple[str, int], ...] = ()
    memory_rows: timings.RowTimes = timings.NO_ROWS
    memory_streams: timings.StreamTimes | None = None
    tlb: timings.Tlb = timings.NO_TLB
    loops: timings.LoopTimes = timings.NO_LOOPS
    model: timings.ModelFigures = timings.MODEL
    blocks: tuple[tuple[str, int], ...] = ()
    energies: Energies | None = None
    private: tuple[str, ...] = ()
    barrier_ns: float = 0.0
    team_threads: int = 1
    residents: int = 1
    of_core: tuple[tuple[str, int], ...] = ()
    cached: tuple[tuple[str, int], ...] = ()

    def residents_of(self, option: NestOption) -> int:
        """Return how many parts of an option share a core's place for one part. It is 1 if all run at once."""
        parts = 1 if option.alone else prod(count for _, count in option.parts)
        return min(self.residents, -(-parts // self.teams(option)))

    def registers_of(self, option: NestOption) -> dict[str, int]:
        """Return the registers of each memory that tiles of one instance may use.

        All instances that run on a core share the core's, and the compiler of the device takes some of each.
        """
        found, of_core = dict(self.registers), dict(self.of_core)
        for memory in found.keys() & of_core.keys():
            own = of_core[memory] // (self._parts_on_core(option) * option.members)
            found[memory] = min(found[memory], own)
        return {memory: max(0, count - self.compiler_registers(option)) for memory, count in found.items()}

    def compiler_registers(self, option: NestOption, loops: int = 1) -> int:
        """Return the registers that the device's compiler is predicted to take besides those of tiles."""
        inputs = sum(not operand.is_accumulator for operand in option.operands)
        model, of_inputs = self.model, self.model.input_registers_count * inputs
        return model.kernel_registers_count + of_inputs + model.loop_registers_count * loops

    def _parts_on_core(self, option: NestOption) -> int:
        return max(1, self.team_threads // option.team) * self.residents_of(option)

    def teams(self, option: NestOption) -> int:
        """Return how many parts of an option run at the same time."""
        return max(1, self.threads // option.team)

    def room(self, option: NestOption) -> dict[str, int]:
        """Return the bytes of each scratchpad for an option's buffers. Its end is reserved for intermediate values.

        The tile of one statement leaves before the next one's arrives, so that all of them use the same
        bytes.
        """
        kept = dict(self.scratchpads)
        for memory, size_bytes in self.scratchpads:
            passing = (size for f in option.fusions for name, size in f.passes if name == memory)
            computed = sum(size for name, size in option.passes if name == memory)
            kept[memory] = size_bytes - max(passing, default=0) - computed
            if memory in self.private:
                core = dict(self.of_core).get(memory, size_bytes) - (size_bytes - kept[memory])
                kept[memory] = min(kept[memory], core // self._parts_on_core(option))
        return kept

    @property
    def line_bytes(self) -> int:
        """The shortest cache line in bytes, or the model's default if no cache states one."""
        return min((c.line_bytes for c in self.caches if c.line_bytes), default=self.model.line_bytes)

    @property
    def rows_behind(self) -> tuple[timings.RowTimes, ...]:
        """The row times of the memory that each cache loads from: the next cache, or main memory."""
        return (*(cache.rows for cache in self.caches[1:]), self.memory_rows)[: len(self.caches)]


def chosen_options(schedule: Schedule, problem: Problem) -> tuple[tuple[NestSchedule, NestOption], ...]:
    """Return each nest of a schedule with its option: that of its mapping with the same parameters."""
    options = {(q.statement, o.mapping, o.choose): o for q in problem.nests for o in q.options}
    return tuple((nest, options[nest.statement, nest.mapping, nest.choose]) for nest in schedule.nests)
