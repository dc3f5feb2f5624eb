"""Measured parameters of a processor in addition to instructions and bandwidths: rows, streams, pages, loops.

    links:
      - {from: l3, to: l2, …, rows: {start_ns: 2, again_ns: 12, source: measured}}

A parameter that a description does not state is 0, and the cost model then omits its effect. It is None if
another parameter is the default. The model's own parameters have typical values as defaults. `source` cites
the origin of all parameters of the same mapping.

The overlap of windows is here as well: all of this is data that plans state, and none of it needs the matcher.
"""

from __future__ import annotations

from isamap.source.records import dataclass

# The usual parameters of what no description states. Each is here once, with its source.

# Issues in flight, as reorder buffers of server cores hold: 224 (Skylake), 512 (Golden Cove).
IN_FLIGHT = 256
# A cache line of x86-64 and of most Arm cores (their optimization manuals). Arrays that isamap places start on one.
LINE_BYTES = 64
# Starting threads that wait awake on two cores of one socket: an estimate, which `isamap hw calibrate` measures.
THREAD_START_NS = 5000.0


@dataclass(frozen=True, slots=True)
class RowTimes:
    """The time, in addition to the bandwidth, of reading rows from the farther memory of a link.

    Units: nanoseconds and bytes. `start_ns` is the time to start a row of an input or of results. A piece
    shorter than `start_bytes` takes a proportional part of it (0: each piece takes all of it). A row of at
    most `short_bytes` takes `short_start_ns`. `again_ns` is the exposed time of returning to a row that the
    nearer memory has evicted. `crowded_ns` is the wait of a register block that reads pieces from sets into
    which the previous block has stored. `crowded_piece_ns` is the least time of a piece if there are more
    rows than their set has ways. If more than `followed_count` rows are read together, each line takes
    `late_line_ns` (0: any number is followed).

    Loops may sweep rows: they read one piece of each of at most `swept_count` rows and then the next
    pieces. Such a piece takes `swept_ns`, since the prefetcher continues (0: every piece is started). For
    at most `hinted_swept_count` rows, hinted pieces take `hinted_swept_ns` instead (0 rows: hints save
    nothing). `computing_factor` is the part of the computation on such rows that is added to their traffic
    (0: the longer hides the shorter). `traffic_factor` is the part of that traffic that counts, and
    `hinted_traffic_factor` the part for hinted pieces (None: the same).

    A line that a hint loads occupies a fill buffer for `fill_ns`. The nearer memory has `fill_count` fill
    buffers (0: no hint waits for a buffer). Only those of the nearest cache are modelled.
    """

    start_ns: float = 0.0
    short_start_ns: float = 0.0
    short_bytes: int = 0
    again_ns: float = 0.0
    followed_count: int = 0
    late_line_ns: float = 0.0
    swept_count: int = 0
    computing_factor: float = 0.0
    traffic_factor: float = 1.0
    start_bytes: int = 0
    crowded_ns: float = 0.0
    crowded_piece_ns: float = 0.0
    swept_ns: float = 0.0
    hinted_swept_count: int = 0
    hinted_swept_ns: float = 0.0
    hinted_traffic_factor: float | None = None
    fill_count: int = 0
    fill_ns: float = 0.0
    source: str = ""

    @property
    def hinted_or_other_traffic_factor(self) -> float:
        """The part of the traffic of hinted pieces that counts: as stated for them, else as stated for all pieces."""
        stated = self.hinted_traffic_factor
        return self.traffic_factor if stated is None else min(stated, self.traffic_factor)


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """The time of tensors that no cache holds, together with the computation on them.

        time = traffic_factor * traffic + computing_factor * computing

    Units: nanoseconds and bytes. With hints, computing counts by `hinted_computing_factor`, and a row or a
    piece is started in `hinted_start_ns`, `ahead_bytes` before its use. Without hints, a row along a
    reduction is started in `row_start_ns`. A piece of at least `long_bytes` is started in `long_start_ns`
    without hints (None: as with hints), and in `hinted_long_start_ns` with hints. A shorter piece takes a
    proportional part, and at least the time of the link's rows. If separate loads read each of a few rows
    to its end, a row is started in `swept_start_ns` (None: each piece is started), and with hints in
    `hinted_swept_start_ns`, at least in `hinted_start_ns`.

    Parameters that begin with `row_` and `hinted_row_` are for rows along a reduction (None: as for
    pieces). The first read of reused rows is hidden if computing takes 1 + `row_computing_factor` times as
    long.
    """

    traffic_factor: float
    computing_factor: float
    hinted_computing_factor: float
    row_start_ns: float
    hinted_start_ns: float
    long_bytes: int
    ahead_bytes: int
    row_computing_factor: float | None = None
    hinted_row_computing_factor: float | None = None
    hinted_row_start_ns: float | None = None
    long_start_ns: float | None = None
    hinted_long_start_ns: float | None = None
    swept_start_ns: float | None = None
    hinted_swept_start_ns: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Tlb:
    """Address translation: accesses to `count` pages cost nothing, and an access to another page takes `miss_ns`."""

    count: int = 0
    page_bytes: int = 0
    miss_ns: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """The overhead of loops that execution cannot hide. Units: nanoseconds.

    `turn_ns` is one iteration of a loop. `address_ns` is the address computation of one of several rows
    that are read in place at a distance known only at run time. An unrolled reduction costs `unrolled_ns`
    for a step and `unrolled_issue_ns` for an issue. `share_ns` is one slice of a copy that is interleaved
    with a computing iteration. `joined_ns` is the wait of a load that combines elements which were just
    stored one by one.
    """

    turn_ns: float = 0.0
    address_ns: float = 0.0
    unrolled_ns: float = 0.0
    unrolled_issue_ns: float = 0.0
    share_ns: float = 0.0
    joined_ns: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class AccessEnergy:
    """The energy of a memory: an access reads or writes up to `access_bytes`. Leakage counts at all times.

    Units: picojoules. A narrower access takes a proportional part, so that a byte costs the same everywhere.
    """

    read_pj: float
    write_pj: float
    access_bytes: int
    leakage_pj_per_ns: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """Parameters of the cost model for the whole machine, used where no part of it states its own.

    Source: `generic-c` states the defaults up to `copied_rows_count`, and cites their origin; a test compares them.

    `leak_factor` is the exposed part of time that should hide behind the slowest unit, and
    `stream_leak_factor` the exposed part for data that is read in order and prefetched. `usable_factor` is
    the part of a cache that a working set may fill before it evicts itself. Prefetches into the nearest
    cache, of rows that were hinted before, stand `near_ahead_count` iterations before their use; those that
    several register blocks share stand at least `shared_ahead_count` before. `line_bytes` is the size of a
    memory line if no cache states one.

    A slice of a copy that is interleaved with a step of a reduction takes as long as `share_turns_count`
    iterations of a loop. While the processor computes, a copy starts `copied_rows_count` rows in the time
    of one. Rows of at most `run_lines_count` lines that follow each other are read as one run. Loads of at
    most `swept_lines_count` lines of each row are followed by the prefetchers.

    A byte that another core has written takes `remote_byte_ns` to be fetched from that core's cache.

    Of the registers of a register memory, the device's compiler takes `kernel_registers_count` for numbers of lanes
    and intermediate values, `input_registers_count` for the address and the strides of each input, and
    `loop_registers_count` for the counter and the copies of each loop.

    Three have no time in a description, and are orders of magnitude: `call_ns` of one kernel by a program,
    `unpriced_move_ns` of an element that no single instruction moves, and the bandwidth of a memory without links.
    """

    leak_factor: float = 0.1
    stream_leak_factor: float = 0.06
    usable_factor: float = 0.75
    near_ahead_count: int = 2
    shared_ahead_count: int = 2
    line_bytes: int = LINE_BYTES
    share_turns_count: int = 30
    copied_rows_count: int = 2
    run_lines_count: int = 4
    swept_lines_count: int = 2
    call_ns: float = 10.0
    unpriced_move_ns: float = 1.0
    unlinked_bytes_per_ns: float = 10.0
    remote_byte_ns: float = 0.0
    kernel_registers_count: int = 0
    input_registers_count: int = 0
    loop_registers_count: int = 0
    source: str = ""


# What a description says that says nothing, and what is usual.
NO_ROWS, NO_TLB, NO_LOOPS, MODEL = RowTimes(), Tlb(), LoopTimes(), ModelFigures()


@dataclass(frozen=True, slots=True)
class WindowOverlap:
    """An overlap of windows: `period` steps of loop axis `tap` read the same as `shift` steps of `along`."""

    along: str
    tap: str
    shift: int
    period: int = 1

    def reaches(self, taps: int) -> tuple[int, ...]:
        """Return the distance from the first to the last tap, for each plane. Units: elements of `along`."""
        return tuple(
            self.shift * ((taps - 1 - first) // self.period) for first in range(min(self.period, taps))
        )
