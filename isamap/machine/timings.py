"""What a processor takes beside instructions and bandwidths: to begin rows, to stream, for pages and loops.

    links:
      - {from: l3, to: l2, …, rows: {start_ns: 2, again_ns: 12, source: measured}}

A figure that a description does not state is 0, and what it would price costs nothing; it is None
where another figure stands for it, and those of the model are what is usual. `source` names the citation of
all figures beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

# Issues in flight: what the reorder buffers of server cores hold, as no description says it.
IN_FLIGHT = 256


@dataclass(frozen=True, slots=True)
class RowTimes:
    """What reading rows out of the farther memory of a link takes beside its bandwidth.

    Units: nanoseconds and bytes. `start_ns` is to begin a row of an input or of results, of which a piece
    shorter than `start_bytes` takes its share (0: each takes all of it), `short_start_ns` to begin one of at
    most `short_bytes`;
    `again_ns` what shows of coming back to a row that the nearer memory has lost, `crowded_ns` how long a
    register block waits that reads pieces out of sets into which the one before has stored, and
    `crowded_piece_ns` what a piece takes at least of more rows than their set holds. Of more than
    `followed_count` rows side by side, each line takes `late_line_ns` (0: any number is followed).

    Pieces of at most `swept_count` rows, one piece of each and then the next ones, go on where the last ended
    (0: every piece is begun), and take `swept_ns` each. Of at most `hinted_swept_count` rows, pieces that
    are hinted go on and take `hinted_swept_ns` instead (0 rows: hints save nothing). `computing_factor` is
    how much of what is computed on rows from there counts beside their traffic (0: it hides, or hides them),
    `traffic_factor` how much of that traffic does, and `hinted_traffic_factor` how much of it where pieces
    are hinted (None: as much).

    A line that a hint brings from there holds a fill buffer for `fill_ns`, of which the nearer memory has
    `fill_count` (0: what hints bring keeps nothing waiting); those of the nearest cache count.
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
        """How much of traffic counts where pieces are hinted, stated of them or of all."""
        stated = self.hinted_traffic_factor
        return self.traffic_factor if stated is None else min(stated, self.traffic_factor)


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """What tensors take that no cache holds, beside what is computed on them.

        time = traffic_factor * traffic + computing_factor * computing

    Units: nanoseconds and bytes. With hints, computing counts by `hinted_computing_factor`, and a row or a
    piece of one is begun in `hinted_start_ns`, so many bytes ahead of its use; without them, a row along a
    sum in `row_start_ns`. A piece of at least `long_bytes` is begun in `long_start_ns` without them (None: as
    if it were hinted), a shorter one in its share, and at least in what the link's rows say; with hints, in
    `hinted_long_start_ns` likewise. Where loads of its own read each of a few rows to its end, a row is begun
    in `swept_start_ns`, or what a long piece takes (None: piece by piece, and nothing else of such rows
    counts); with hints in `hinted_swept_start_ns`, and at least in `hinted_start_ns`.

    What begins with `row_` and `hinted_row_` is that of rows along a sum; None: as pieces take it. Those that
    are used again hide the first time where computing takes 1 + `row_computing_factor` times as long.
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
    """Address translation that costs nothing: `count` pages; each visit to another one takes `miss_ns`."""

    count: int = 0
    page_bytes: int = 0
    miss_ns: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """What loops take beside the instructions in them, as far as it does not hide. Units: nanoseconds.

    `turn_ns` is an iteration of a loop, `address_ns` the address of one of several rows read in place where
    the run alone knows how far apart they are. A sum unrolled in its loop costs `unrolled_ns` a step and
    `unrolled_issue_ns` an issue; `share_ns` is a share of a copy, dealt to an iteration that computes.
    `joined_ns` is what a load waits for that joins elements which were just stored one by one.
    """

    turn_ns: float = 0.0
    address_ns: float = 0.0
    unrolled_ns: float = 0.0
    unrolled_issue_ns: float = 0.0
    share_ns: float = 0.0
    joined_ns: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """What cost models take of a machine as a whole, where no part of it states its own.

    `leak_factor` is how much shows of time that should hide behind the slowest unit, `stream_leak_factor` of
    what comes in order and is fetched ahead; `usable_factor` is how much of a cache a working set may take
    before it evicts itself. Prefetches into the nearest cache, of rows that were hinted before, stand
    `near_ahead_count` iterations before their use; those that several register blocks share at least
    `shared_ahead_count`. `line_bytes` is a line of memory where no cache states one.

    A share of a copy that is dealt to a step of a sum takes as long as `share_turns_count` iterations of a
    loop, and of rows that a copy reads `copied_rows_count` begin in the time of one beside computing.
    """

    leak_factor: float = 0.1
    stream_leak_factor: float = 0.06
    usable_factor: float = 0.75
    near_ahead_count: int = 2
    shared_ahead_count: int = 2
    line_bytes: int = 64
    share_turns_count: int = 30
    copied_rows_count: int = 2
    source: str = ""


# What a description says that says nothing, and what is usual.
NO_ROWS, NO_TLB, NO_LOOPS, MODEL = RowTimes(), Tlb(), LoopTimes(), ModelFigures()
