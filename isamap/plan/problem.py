"""The scheduling problem: for each statement the mappings that it may take, with their costs.

Data only. The names of the decisions stand in `isamap.plan.decisions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from isamap.machine.timings import (
    MODEL,
    NO_LOOPS,
    NO_ROWS,
    NO_TLB,
    LoopTimes,
    ModelFigures,
    RowTimes,
    StreamTimes,
    Tlb,
)
from isamap.match import Window


@dataclass(frozen=True, slots=True)
class TileAxis:
    """A loop axis of a mapping: one kernel axis, or several fused ones.

    Units: `extent` in elements (the profile value where the size is symbolic), `tile` the elements that one
    issue covers (1 for an axis outside the instruction). Of an axis that `is_open` only the run knows how
    long it is.
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
    """The time in which separate units move all of an operand once, into its scratchpad or out of it.

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


@dataclass(frozen=True, slots=True)
class TileOperand:
    """An operand of the mapped instruction and what supplying it costs.

    `axes` are the loop axes that its element depends on. Units: nanoseconds of unit time per tile
    (`direct_ns` None when no move serves the tensor in place, so that it must be staged, and the mean where
    the tensor ends in the middle of a tile; `staged_ns` from the staging buffer), `pack_ns_per_element` for
    the copy. `tensor_bytes` per element where it lives,
    `staged_bytes` per element in the staging buffer. `registers` that one tile takes of `memory`.
    `stage_whole` when a summing axis outside the register block forces an accumulator through the buffer
    (its tensor is narrower than its accumulator). Of an accumulator, the nanoseconds are for in and out
    together. `direct_busy_ns` and `staged_busy_ns` are the parts of `direct_ns` and `staged_ns` that keep the
    unit busy that performs the issues: computing waits for these, and hides all others.

    `windows` are those that a buffer in a scratchpad holds once. `over` are registers of other memories that
    one tile's registers are made of: a group of four takes four of those that other operands take one by one.

    `subscripts` says per tensor axis which loop axes move it, and by how many elements a step: `2*p + r` is
    (("p", 2), ("r", 1)); empty when every loop axis has a tensor axis of its own. `dense_axis` is the loop
    axis along which the tensor lies without gaps ("" if unknown), `pitch_bytes` how far apart its rows lie
    (0 if unknown): with both known, what it costs to read many rows in place is modelled. A piece of a row
    takes `least_row_bytes` of a cache at least, a line (0 where rows are no longer than that). `next_row` is
    the loop axis each step of which moves to the row behind ("" if unknown). `in_rows` says that what an
    iteration of a loop reads in place is a box of one array.

    `homes` are the memories that its staging buffer may lie in, the one that is priced first: scratchpads by
    name, "" for the workspace. `packed` says that the caller passes it packed already: it is staged as a
    whole, and that costs nothing.

    `mover` is a unit that fills the buffer by itself while the instruction's unit computes; of an
    accumulator, that writes it back: "" where there is none, and the unit that computes copies as well.
    `moved_ns_per_element` is what that takes the unit. `flow` says what all units take that move it between
    main memory and a scratchpad, where none of them computes. `beside` says that the instruction's unit has
    its registers to itself: copies go by other units, and beside the sum where they are dealt to it. `hints`
    are the caches to which its lines may be named ahead, with nanoseconds per byte; one hint names
    `line_bytes`. `ahead_counts` are so many iterations: that what was hinted is hinted into the nearest
    cache, and at least that what register blocks share is. `streams` says that it comes from beyond all
    caches, and takes longer for that than all issues; its lines are hinted `ahead_bytes` before their use.
    `swept` says that a few of its rows may be worth reading side by side to their ends, each by loads of its
    own. `late` says that pieces of its rows may come sooner where they are hinted, though it does not stream.
    `cold` says that no cache has it when the kernel begins. A copy of it as a whole serves `turns_of_copy`
    iterations of the ordered loops around. Each of these reads other elements of an array of `fresh_bytes`; 0
    where none does.
    """

    name: str
    tensor: str
    axes: tuple[str, ...]
    is_accumulator: bool
    memory: str
    registers: int
    tile_elements: int
    tensor_bytes: int
    staged_bytes: int
    direct_ns: float | None
    staged_ns: float | None
    pack_ns_per_element: float
    stage_whole: bool = False
    subscripts: tuple[tuple[tuple[str, int], ...], ...] = ()
    dense_axis: str = ""
    pitch_bytes: int = 0
    least_row_bytes: int = 0
    next_row: str = ""
    in_rows: bool = True
    homes: tuple[str, ...] = ("",)
    packed: bool = False
    mover: str = ""
    moved_ns_per_element: float = 0.0
    flow: Flow | None = None
    beside: bool = False
    hints: tuple[tuple[str, float], ...] = ()
    line_bytes: int = 0
    ahead_counts: tuple[int, int] = (MODEL.near_ahead_count, MODEL.shared_ahead_count)
    streams: bool = False
    turns_of_copy: int = 1
    fresh_bytes: int = 0
    ahead_bytes: int = 0
    swept: bool = False
    cold: bool = False
    late: bool = False
    direct_busy_ns: float = 0.0
    staged_busy_ns: float = 0.0
    over: tuple[tuple[str, int], ...] = ()
    windows: tuple[Window, ...] = ()

    @property
    def takes(self) -> tuple[tuple[str, int], ...]:
        """How many registers of which memories one tile takes."""
        return ((self.memory, self.registers), *self.over)

    @property
    def buffer_tile_bytes(self) -> int:
        """Bytes of one tile in a staging buffer."""
        return self.tile_elements * self.staged_bytes


@dataclass(frozen=True, slots=True)
class Fusion:
    """An elementwise statement that an option can take along: performed on each tile while it is held.

    `needs` are the statements that have to be taken along with it. `passes` are scratchpads that a tile goes
    through on its way out. Units: `extra_ns` is what it adds for all tiles together, in nanoseconds; it saves
    the time of the statement's own nest; bytes of each scratchpad.
    """

    statement: int
    needs: tuple[int, ...]
    extra_ns: float
    passes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """Values that a mapping keeps in registers between iterations of the ordered loop over `axis`.

    That loop is then the innermost one, with `turns` iterations around each register block. Units:
    `chain_ns` is the latency from the values that an iteration takes to those that it leaves. `pitches` are
    the distances, in bytes, of rows of each array along which iterations proceed.
    """

    axis: str
    turns: int
    chain_ns: float
    pitches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NestOption:
    """One mapping of one statement, ready to be tiled. Units: `interval_ns` and `latency_ns` of one issue,
    which `unit` performs.

    `can_split_sums` says that partial results over a summing axis may be joined, and that the machine can.
    `parts` is for what schedulers hand to cost models: the option of one of so many parts per axis, which
    threads perform at the same time; extents are those of a part. `between` is how many registers of each
    memory an issue needs for a moment, beside those of its operands. `carried` is what ordered iterations
    leave in registers; None where they do not. `banked` says of scratchpads with banks how long one issue
    keeps all of them busy, and a nanosecond of loading an operand into registers.
    """

    mapping: str
    choose: tuple[tuple[str, int], ...]
    axes: tuple[TileAxis, ...]
    operands: tuple[TileOperand, ...]
    interval_ns: float
    latency_ns: float
    can_split_sums: bool = False
    parts: tuple[tuple[str, int], ...] = ()
    fusions: tuple[Fusion, ...] = ()
    between: tuple[tuple[str, int], ...] = ()
    carried: Carried | None = None
    unit: str = ""
    banked: tuple[tuple[str, str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """A schedule that is known of an option, by its place among those of its statement: what is decided.

    `parts` are those of the option that it is one of.
    """

    option: int
    parts: tuple[tuple[str, int], ...]
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NestProblem:
    """A statement and its options; the first option is never better known than the others.

    Mappings may be left out that cannot win: under none of them does a schedule of the statement cost less
    than `others_ns` by the model that left them out. Units: nanoseconds, infinite where all are there.

    Where the others were priced by it, schedules of these are known: `starts` are as good as greedy's.

    `turns` is how often the ordered loops around the statement have it performed: cost models price one.
    """

    statement: int
    options: tuple[NestOption, ...]
    others_ns: float = inf
    turns: int = 1
    starts: tuple[Start, ...] = ()


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache level, nearest first; `ways` and `line_bytes` are 0 where unknown; `shared` when all cores have
    it together, its bandwidth too; `cores` of them share its room. `rows` is what reading rows out of it
    takes. A line not touched for `kept_ns` is lost to others that share it (0: it is kept). A working set of
    more than `usable_factor` of it evicts itself.

    Units: bytes, bytes per nanosecond towards the level before it, and nanoseconds.
    """

    name: str
    capacity_bytes: int
    bandwidth_bytes_per_ns: float
    ways: int = 0
    shared: bool = False
    line_bytes: int = 0
    rows: RowTimes = NO_ROWS
    kept_ns: int = 0
    cores: int = 1
    usable_factor: float = MODEL.usable_factor


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything that a heuristic or a solver may look at.

    `registers` is how many registers each register memory has; `memory_bandwidth_bytes_per_ns` is what lies
    beyond the last cache, and `memory_shared` whether cores share that; `memory_rows` and `memory_streams`
    are what reading it takes beside, `tlb` and `loops` what pages and loops take, and `model` what prices are
    made with beside figures of parts. `threads` is how many there
    are to perform the kernel, and `thread_start_ns` what it takes them to begin, and to wait for each other,
    once.
    `hinted` are the caches into which an instruction brings memory ahead of its use.
    `scratchpads` are those with their bytes; addresses in them are multiples of `address_steps`. `blocks`
    are axes with how many iterations of each the statements share: those of the kernel in these blocks are
    asked about.
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
    memory_rows: RowTimes = NO_ROWS
    memory_streams: StreamTimes | None = None
    tlb: Tlb = NO_TLB
    loops: LoopTimes = NO_LOOPS
    model: ModelFigures = MODEL
    blocks: tuple[tuple[str, int], ...] = ()

    def room(self, option: NestOption) -> dict[str, int]:
        """Bytes of each scratchpad for an option's buffers: the end is kept free for what passes through it.

        One statement's tile is out before the next one's comes, so that they pass through the same bytes.
        """
        kept = dict(self.scratchpads)
        for memory, size_bytes in self.scratchpads:
            passing = (size for f in option.fusions for name, size in f.passes if name == memory)
            kept[memory] = size_bytes - max(passing, default=0)
        return kept

    @property
    def line_bytes(self) -> int:
        """Bytes of a line of the caches, the shortest; where none states one, what the model takes."""
        return min((c.line_bytes for c in self.caches if c.line_bytes), default=self.model.line_bytes)

    @property
    def rows_behind(self) -> tuple[RowTimes, ...]:
        """What reading rows takes out of what lies behind each cache: the next one, or memory."""
        return (*(cache.rows for cache in self.caches[1:]), self.memory_rows)[: len(self.caches)]
