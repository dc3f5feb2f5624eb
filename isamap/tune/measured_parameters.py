"""The results of one calibration, parameter by parameter, which `profile` combines.

Each result belongs to this processor, and most name a memory or an instruction. A parameter that could not
be measured has a reason instead.
"""

from __future__ import annotations

from isamap.source.numbers import Spread
from isamap.source.records import dataclass

Params = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class InstructionFigure:
    """The measured times of an instruction with its parameters: interval and latency.

    `said` is why something was not measured. Units: ns of one issue, on all its units together.
    """

    instruction: str
    params: Params
    interval: Spread | None
    latency: Spread | None
    said: str = ""


@dataclass(frozen=True, slots=True)
class BandwidthFigure:
    """The measured bandwidth of one kind of access to a memory: sequential, or by parallel streams if faster.

    Units: `ns_per_byte`; `size_bytes` of the buffer.
    """

    memory: str
    access: str
    instruction: str
    size_bytes: int
    ns_per_byte: Spread


@dataclass(frozen=True, slots=True)
class CacheFigure:
    """The measured properties of a cache. `reported_bytes` is its size as the system reports it.

    None means unknown, and the description's value remains. `said` is the origin of the values. A line not
    touched for longer than `kept_ns` is lost. Units: bytes and nanoseconds.
    """

    memory: str
    size_bytes: int | None
    ways: int | None
    line_bytes: int | None
    reported_bytes: int | None
    said: str
    kept_ns: int | None = None


@dataclass(frozen=True, slots=True)
class PackingFigure:
    """The measured time of an element-by-element copy as planners would make it. Units: ns per element."""

    way: str
    element_bytes: int
    ns_per_element: Spread


@dataclass(frozen=True, slots=True)
class UnmeasuredPacking:
    """A copy that could not be timed. `said` is why."""

    way: str
    dtype: str
    said: str


@dataclass(frozen=True, slots=True)
class RowReading:
    """The measured time of a row piece that is multiplied by `computed` rows. Units: ns.

    `together` pieces are read before those next to them, 0: all of a column.
    """

    computed: int
    together: int
    hinted: bool
    piece_ns: float


@dataclass(frozen=True, slots=True)
class RowFigure:
    """The time to start rows of a memory in pieces of `piece_bytes`, as `rows` of a link states it.

    `hinted_start_ns` is None if nothing can be hinted. `crowded_ns` and `crowded_piece_ns` are None if the
    memory is not the one behind the nearest cache, or if the products do not show them. `swept_count` is as
    measured. Applied to a machine, it is at most half of the pages that are translated at once. A piece of
    rows that are followed takes `swept_ns` longer than one of a near memory. Of `hinted_swept_count` rows,
    a prefetched piece takes `hinted_swept_ns` (0 rows: as long). `hinted_traffic_factor` is the part of
    their lines' time that is added to computing (None: as much as of others).
    """

    memory: str
    piece_bytes: int
    start_ns: float
    hinted_start_ns: float | None
    swept_count: int
    computing_factor: float
    readings: tuple[RowReading, ...]
    crowded_ns: float | None = None
    swept_ns: float = 0.0
    hinted_swept_count: int = 0
    hinted_swept_ns: float = 0.0
    traffic_factor: float = 1.0
    crowded_piece_ns: float | None = None
    hinted_traffic_factor: float | None = None


@dataclass(frozen=True, slots=True)
class StreamFigure:
    """The time of rows along a sum that stream from a memory, as `streams` of a link states it.

    Units: nanoseconds a row. Factors are the part of computing that is added.
    """

    memory: str
    computing_factor: float
    start_ns: float
    hinted_computing_factor: float
    hinted_start_ns: float


@dataclass(frozen=True, slots=True)
class PieceFigure:
    """The time to start a long piece of a row that streams from a memory, with and without hints.

    `swept_start_ns` and `hinted_swept_start_ns` are the time to start a row if each load reads its own row
    to the end. Units: nanoseconds.
    """

    memory: str
    long_start_ns: float
    hinted_start_ns: float | None = None
    swept_start_ns: float | None = None
    hinted_swept_start_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A memory with some unmeasured parameter, which keeps its stated value. `said` is the reason."""

    memory: str
    said: str
