"""Read an item of `links`: two memories, and the cost of transfers between them."""

from __future__ import annotations

from isamap.machine.fields import read_flag, read_mapping, read_name, read_number, read_text
from isamap.machine.keys import COUNT, FLAG, NUMBER, TEXT, Keys, LeafKey
from isamap.machine.timing_fields import ROWS, STREAMS, StatedParameters, read_row_times, read_stream_times
from isamap.machine.timings import RowTimes, StreamTimes
from isamap.machine.tree import Findings, Node, ScalarNode
from isamap.source.records import dataclass

LINK = Keys(
    {
        "from": TEXT,
        "to": TEXT,
        "bandwidth_bytes_per_ns": LeafKey("number", 1e-6),
        "shared": FLAG,
        "burst_bytes": COUNT,
        "energy_pj_per_byte": NUMBER,
        "rows": ROWS,
        "streams": STREAMS,
        "source": TEXT,
    },
    ("from", "to", "bandwidth_bytes_per_ns", "source"),
)


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A link as written, or None for an inherited parameter. Units: the bandwidth is in bytes per ns."""

    source_memory: ScalarNode
    target_memory: ScalarNode
    bandwidth_bytes_per_ns: float
    shared: bool
    source: ScalarNode | None
    rows: StatedParameters[RowTimes] | None
    streams: StatedParameters[StreamTimes] | None
    burst_bytes: int | None = None
    energy_pj_per_byte: float | None = None


def read_link(node: Node, findings: Findings) -> LinkSpec | None:
    """Return a link, or None if an end was refused."""
    keys = read_mapping(node, "a link", LINK, findings)
    source_memory = read_name(keys.get("from"), "`from`", findings)
    target_memory = read_name(keys.get("to"), "`to`", findings)
    bandwidth = read_number(
        keys.get("bandwidth_bytes_per_ns"), "`bandwidth_bytes_per_ns`", findings, lowest=1e-6
    )
    shared = read_flag(keys.get("shared"), "`shared`", findings)
    rows = read_row_times(keys.get("rows"), findings)
    streams = read_stream_times(keys.get("streams"), findings)
    burst = read_number(keys.get("burst_bytes"), "`burst_bytes`", findings, lowest=1, whole=True)
    energy = read_number(keys.get("energy_pj_per_byte"), "`energy_pj_per_byte`", findings)
    source = read_text(keys.get("source"), "`source`", findings)
    if source_memory is None or target_memory is None:
        return None
    # A bandwidth that was refused is stood in for, so that the names are checked all the same.
    bursts = None if burst is None else int(burst)
    ends = source_memory, target_memory
    return LinkSpec(*ends, bandwidth or 1.0, shared, source, rows, streams, bursts, energy)
