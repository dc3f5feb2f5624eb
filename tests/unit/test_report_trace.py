"""Traces of simulated calls are what Perfetto's reader of the Chrome trace event format takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isamap.driver.api import source_of
from isamap.driver.length_versions import compile_request
from isamap.driver.reporting import recording_of, trace_of
from isamap.driver.request import Request
from isamap.source import UsageProblem

CASES = [
    ("gemm_s8s8", "edge-npu", {"M": 96, "N": 64, "K": 128}),
    ("gemm_s8s8", "gemmini", {"M": 64, "N": 32, "K": 64}),
    ("gemm_f32", "x86-avx512", {"M": 12, "N": 64, "K": 64}),
]


def trace(kernel: str, machine: str, sizes: dict[str, int]) -> dict[str, Any]:
    request = Request(source_of(kernel), machine, sizes, heuristic="greedy")
    made = compile_request(request)
    return json.loads(trace_of(request, made, recording_of(request, made, is_recorded=True)))


def problems(trace: dict[str, Any]) -> list[str]:
    """Return what the format's document does not allow, and what a viewer would draw wrongly."""
    found: list[str] = []
    ends: dict[tuple[int, int], float] = {}
    counters: dict[str, tuple[float, frozenset[str]]] = {}
    last = 0.0
    for number, event in enumerate(trace["traceEvents"]):
        kind = event.get("ph")
        if kind not in ("M", "X", "C"):
            found.append(f"{number}: phase {kind}")
            continue
        if not isinstance(event.get("name"), str) or not isinstance(event.get("pid"), int):
            found.append(f"{number}: no name or process")
        if not isinstance(event.get("tid"), int):
            found.append(f"{number}: no thread")
            continue
        if kind == "M":
            found += [] if event["args"] else [f"{number}: nothing said"]
            continue
        ts = event.get("ts")
        if not isinstance(ts, int | float) or ts < last:
            found.append(f"{number}: time {ts} behind {last}")
            continue
        last = ts
        if kind == "C":
            before = counters.get(event["name"])
            names = frozenset(event["args"])
            if before is not None and (before[0] >= ts or before[1] != names):
                found.append(f"{number}: the counter does not go on")
            if not all(isinstance(v, int) and v >= 0 for v in event["args"].values()):
                found.append(f"{number}: a counter that is not an amount")
            counters[event["name"]] = ts, names
        else:
            if not isinstance(event.get("dur"), int | float) or event["dur"] < 0:
                found.append(f"{number}: how long?")
            track = event["pid"], event["tid"]
            if track[0] == 1 and track[1] > 0 and ts < ends.get(track, 0.0) - 1e-5:
                found.append(f"{number}: two at one time on {track}")
            ends[track] = ts + event["dur"]
    return found


@pytest.mark.parametrize(("kernel", "machine", "sizes"), CASES, ids=[c[1] for c in CASES])
def test_a_trace_keeps_to_the_format(kernel: str, machine: str, sizes: dict[str, int]) -> None:
    found = trace(kernel, machine, sizes)
    assert problems(found) == []
    kinds = {event["ph"] for event in found["traceEvents"]}
    assert kinds == ({"M", "X", "C"} if machine != "x86-avx512" else {"M", "X"})
    slices = [event for event in found["traceEvents"] if event["ph"] == "X"]
    named = {(e["pid"], e["tid"]) for e in found["traceEvents"] if e["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in slices} <= named
    total = found["otherData"]["total_ns"] / 1000
    assert max(event["ts"] + event["dur"] for event in slices) <= total + 1e-6


def test_buffers_are_counters_that_end_at_nothing() -> None:
    events = trace(*CASES[0])["traceEvents"]
    for memory in ("spad", "acc"):
        own = [event["args"] for event in events if event["name"] == f"{memory}, bytes"]
        assert len(own) > 1
        assert any(sum(args.values()) > 0 for args in own)
        assert sum(own[-1].values()) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ph": "Q"}, "phase"),
        ({"ts": -1.0}, "time"),
        ({"dur": -2}, "how long"),
        ({"pid": "load"}, "process"),
        ({"tid": None}, "thread"),
    ],
)
def test_the_reader_finds_what_is_wrong(change: dict[str, object], said: str) -> None:
    found = trace(*CASES[0])
    place = max(n for n, event in enumerate(found["traceEvents"]) if event["ph"] == "X")
    found["traceEvents"][place] |= change
    assert any(said in problem for problem in problems(found))


@pytest.mark.exhaustive
def test_a_program_for_several_lengths_is_not_simulated() -> None:
    request = Request(source_of("gemm_f32"), "riscv-rvv@Q=any", {"M": 4, "N": 64, "K": 8}, heuristic="greedy")
    made = compile_request(request)
    with pytest.raises(UsageProblem) as refused:
        recording_of(request, made, is_recorded=True)
    assert refused.value.diagnostics[0].code == "several-lengths"
