"""Draw the activity of units and transfers in a recorded simulation over time, as bars on tracks.

load           ████████████▌
dram → spad    ██████
execute              ▐█▌   ▐█▌  ██

A bar on a unit's track is the time for which an issue books the unit. A bar on the track of a link is an
issue that moves data along it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from isamap.machine import Machine
from isamap.report.page.memories import MemoryUse
from isamap.report.page.stamp import STAMP
from isamap.simulate.recording import Recorded, RecordedIssue
from isamap.source.records import dataclass


@dataclass(frozen=True, slots=True)
class Track:
    """A unit, or a link between two memories (`is_link`). Units: nanoseconds. `busy_ns` is of the whole run."""

    name: str
    is_link: bool
    busy_ns: float


@dataclass(frozen=True, slots=True)
class Bar:
    """Consecutive issues (`count`) of an instruction on a track. Units: nanoseconds."""

    track: str
    label: str
    start_ns: float
    end_ns: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class Gap:
    """A time for which earlier iterations were repeated `times` times without simulation. Units: nanoseconds."""

    start_ns: float
    end_ns: float
    times: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """One run. Of `issues`, only `run` were simulated individually. Units: nanoseconds.

    `unrecorded` of the simulated ones are in no bar. `left_out` names effects that the simulator ignores.
    """

    total_ns: float
    tracks: tuple[Track, ...]
    bars: tuple[Bar, ...]
    gaps: tuple[Gap, ...]
    issues: int
    run: int
    unrecorded: int
    left_out: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The instructions, in the order of their first issue."""
        return tuple(dict.fromkeys(bar.label for bar in self.bars))


def timeline_of(recorded: Recorded, machine: Machine) -> Timeline:
    """Return the bars of a recorded simulation: units first, then links with transfers."""
    routes = {i.instruction: route_of(i.instruction, machine) for i in recorded.issued}
    units = [_bar(i.unit, i) for i in recorded.issued]
    # What crosses a shared link is booked twice: on its own unit, and on the link.
    crossing = {i.instruction for i in recorded.issued if i.unit not in machine.units}
    links = [
        _bar(route, i)
        for i in recorded.issued
        if (route := routes[i.instruction]) is not None
        and (i.unit not in machine.units or i.instruction not in crossing)
    ]
    links += [Bar(f"from {c.level}", "lines", c.begin_ns, c.end_ns) for c in recorded.crossed]
    named = dict(recorded.simulation.busy_ns)
    sums = _busy(links)
    tracks = [Track(unit, False, named.get(unit, 0.0)) for unit in recorded.units if named.get(unit)]
    tracks += [Track(name, True, busy) for name, busy in sums.items()]
    shown = {track.name for track in tracks}
    return Timeline(
        recorded.simulation.total_ns,
        tuple(tracks),
        tuple(bar for bar in (*units, *links) if bar.track in shown),
        tuple(Gap(r.begin_ns, r.end_ns, r.times) for r in recorded.repeated),
        recorded.simulation.issues,
        recorded.simulation.run,
        recorded.left_out,
        recorded.simulation.left_out,
    )


def _bar(track: str, issue: RecordedIssue) -> Bar:
    return Bar(track, issue.instruction, issue.begin_ns, issue.begin_ns + issue.busy_ns)


def _busy(bars: Iterable[Bar]) -> Mapping[str, float]:
    sums: dict[str, float] = {}
    for bar in bars:
        sums[bar.track] = sums.get(bar.track, 0.0) + bar.end_ns - bar.start_ns
    return sums


def route_of(name: str, machine: Machine) -> str | None:
    """Return the link that an instruction uses, such as `dram → spad`, or None."""
    known = machine.instructions.get(name)
    if known is None:
        return None
    operands = known.instruction.operands
    ends = {o.role: o.memory for o in operands if o.role in ("in", "out") and o.memory is not None}
    if len(operands) != 2 or len(ends) != 2:
        return None
    linked = {frozenset((link.source_memory, link.target_memory)) for link in machine.links}
    return f"{ends['in']} → {ends['out']}" if frozenset(ends.values()) in linked else None


NARROW = 4
"""So many of the finest lengths are seen as one; several instructions share no wider bar."""


def merge_bars(bars: Iterable[Bar], finest_ns: float) -> tuple[Bar, ...]:
    """Return the bars of each track, with two bars joined if the gap between them is below `finest_ns`.

    Bars of one instruction are joined, and short ones as long as the whole stays narrow. The result has the
    label of the instruction with the most time, and counts all.
    """
    found: list[Bar] = []
    last: dict[str, int] = {}
    spent: list[dict[str, float]] = []
    for bar in sorted(bars, key=lambda b: b.start_ns):
        at = last.get(bar.track)
        length = bar.end_ns - bar.start_ns
        if at is not None and _is_joined(found[at], bar, finest_ns):
            before, own = found[at], spent[at]
            own[bar.label] = own.get(bar.label, 0.0) + length
            end = max(before.end_ns, bar.end_ns)
            label = max(own, key=lambda name: own[name])
            found[at] = Bar(bar.track, label, before.start_ns, end, before.count + bar.count)
        else:
            last[bar.track] = len(found)
            found.append(bar)
            spent.append({bar.label: length})
    return tuple(found)


def _is_joined(before: Bar, bar: Bar, finest_ns: float) -> bool:
    if bar.start_ns - before.end_ns >= finest_ns:
        return False
    is_short = bar.end_ns - bar.start_ns < finest_ns
    if before.label == bar.label:
        return is_short or bar.start_ns <= before.end_ns
    return is_short and bar.end_ns - before.start_ns < NARROW * finest_ns


# --- the timeline as a trace ----------------------------------------------------------------------------

# A recorded simulation as a trace that Perfetto opens: units and links as tracks, buffers as counters.
#
#     {"name": "stream", "ph": "X", "ts": 1.124, "dur": 0.064, "pid": 1, "tid": 2, "args": {…}}
#     {"name": "spad", "ph": "C", "ts": 0.256, "pid": 1, "args": {"a_tiles0": 4096, "b_tiles0": 4096}}
#
# Source: Trace Event Format, the document of the Chromium project. Units: microseconds in `ts` and `dur`.

UNITS, LINKS = 1, 2
"""Processes of the trace, by which a viewer groups tracks."""


def trace_json(title: str, recorded: Recorded, timeline: Timeline, memories: Sequence[MemoryUse]) -> str:
    """Return the trace as JSON, with one event per line."""
    events = [
        *_names(title, timeline),
        *sorted(_events(recorded, timeline, memories), key=lambda e: (float(str(e["ts"])), str(e["ph"]))),
    ]
    other = {
        "made by": STAMP,
        "title": title,
        "total_ns": timeline.total_ns,
        "issues": timeline.issues,
        "simulated": timeline.run,
        "not written": timeline.unrecorded,
        "left out by the simulator": list(timeline.left_out),
    }
    head = f'{{"otherData": {json.dumps(other)},\n"displayTimeUnit": "ns",\n"traceEvents": [\n'
    return head + ",\n".join(json.dumps(event, ensure_ascii=False) for event in events) + "\n]}\n"


Event = dict[str, object]


def _tracks(timeline: Timeline) -> dict[str, tuple[int, int]]:
    """Return the process and the thread of each track, and of the repeated iterations."""
    return {
        track.name: (LINKS if track.is_link else UNITS, number)
        for number, track in enumerate(timeline.tracks, 1)
    }


def _names(title: str, timeline: Timeline) -> Iterator[Event]:
    for process, name in ((UNITS, f"{title}: units"), (LINKS, f"{title}: transfers")):
        yield {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}}
        yield {
            "name": "process_sort_index",
            "ph": "M",
            "pid": process,
            "tid": 0,
            "args": {"sort_index": process},
        }
    for name, (process, thread) in _tracks(timeline).items():
        yield {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
        yield {
            "name": "thread_sort_index",
            "ph": "M",
            "pid": process,
            "tid": thread,
            "args": {"sort_index": thread},
        }
    yield {
        "name": "thread_name",
        "ph": "M",
        "pid": UNITS,
        "tid": 0,
        "args": {"name": "iterations that repeat"},
    }


def _events(recorded: Recorded, timeline: Timeline, memories: Sequence[MemoryUse]) -> Iterator[Event]:
    tracks = _tracks(timeline)
    issues = {(i.unit, i.begin_ns): i for i in recorded.issued}
    for bar in timeline.bars:
        process, thread = tracks[bar.track]
        event = _slice(bar.label, bar.start_ns, bar.end_ns, process, thread)
        issue = issues.get((bar.track, bar.start_ns))
        if issue is not None:
            event["args"] = {
                "arrays": ", ".join(issue.arrays),
                "operands there at (ns)": issue.start_ns,
                "result there at (ns)": issue.end_ns,
            }
        yield event
    for gap in timeline.gaps:
        name = f"the same {gap.times} times more"
        yield _slice(name, gap.start_ns, gap.end_ns, UNITS, 0)
    for use in memories:
        if use.is_timed:
            yield from _counters(use)


def _slice(name: str, start_ns: float, end_ns: float, process: int, thread: int) -> Event:
    times = {"ts": _us(start_ns), "dur": _us(max(0.0, end_ns - start_ns))}
    return {"name": name, "ph": "X", **times, "pid": process, "tid": thread, "cat": "simulated"}


def _counters(use: MemoryUse) -> Iterator[Event]:
    """Yield the bytes of each buffer at each moment at which a buffer appears or disappears."""
    for moment in sorted({0.0, *(s.start for s in use.stays), *(s.end for s in use.stays)}):
        sizes = dict.fromkeys(use.buffers, 0)
        for stay in use.stays:
            if stay.start <= moment < stay.end:
                sizes[stay.buffer] += stay.size_bytes
        yield {
            "name": f"{use.memory}, bytes",
            "ph": "C",
            "ts": _us(moment),
            "pid": UNITS,
            "tid": 0,
            "args": sizes,
        }


def _us(ns: float) -> float:
    return round(ns / 1000, 6)
