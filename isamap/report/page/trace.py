"""A recorded simulation as a trace that Perfetto opens: units and links as tracks, buffers as counters.

    {"name": "stream", "ph": "X", "ts": 1.124, "dur": 0.064, "pid": 1, "tid": 2, "args": {…}}
    {"name": "spad", "ph": "C", "ts": 0.256, "pid": 1, "args": {"a_tiles0": 4096, "b_tiles0": 4096}}

Source: Trace Event Format, the document of the Chromium project. Units: microseconds in `ts` and `dur`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from isamap.report.page.memories import MemoryUse
from isamap.report.page.stamp import STAMP
from isamap.report.page.timeline import Timeline
from isamap.simulate.recording import Recorded

UNITS, LINKS = 1, 2
"""Processes of the trace, by which a viewer groups tracks."""


def trace_json(title: str, recorded: Recorded, timeline: Timeline, memories: Sequence[MemoryUse]) -> str:
    """Return the trace as JSON, an event a line."""
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
    """Process and thread of each track, and of the iterations that repeat."""
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
    """Yield the bytes of each buffer from each moment on at which some buffer comes or goes."""
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
