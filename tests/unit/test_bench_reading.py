"""Reading a ring's weights by themselves: which copies, how much of them, and the faster of both ways."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.bench.campaign import ring_of
from isamap.bench.cases import FORMS
from isamap.bench.kind import MeasuringRules
from isamap.bench.product_cases import gemm_cases, product_work
from isamap.bench.ring import Array, fastest_bytes_per_ns, readings
from isamap.bench.timed_loops import build_loops


def copies(size_bytes: int, count: int = 3) -> list[Array]:
    return [np.zeros(size_bytes, np.uint8) for _ in range(count)]


class Loops:
    """Takes a nanosecond a call, and writes down what it was given."""

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []

    def time_reads(self, address: int, size_bytes: int, calls: int, sink: int) -> int:
        assert calls == 1
        assert sink
        self.read.append((address, size_bytes))
        return 1

    time_streams = time_reads


def test_copies_are_read_in_turn_as_far_as_whole_chunks_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    loops, ring = Loops(), copies(1500)

    def load(_: str) -> Loops:
        return loops

    monkeypatch.setattr("isamap.bench.ring.load_loops", load)
    one, other = readings("loops", ring)
    assert (one.name, other.name) == ("time_reads", "time_streams")
    assert one.time(4, 2) == 4
    places = [copy.ctypes.data for copy in ring]
    assert loops.read == [(places[n], 1024) for n in (2, 0, 1, 2)]


def test_the_faster_way_by_the_median_is_the_roof() -> None:
    ways = readings("loops", copies(1024))
    seconds = {"time_reads": (1e-7, 2e-7, 9e-7), "time_streams": (1.1e-7, 1.2e-7, 9e-7)}
    assert fastest_bytes_per_ns(ways, seconds) == pytest.approx(1024 / 120)


def test_what_is_smaller_than_a_chunk_says_nothing() -> None:
    assert readings("loops", copies(500)) == ()
    assert fastest_bytes_per_ns((), {}) == 0.0


def test_the_loops_read_for_real() -> None:
    data = np.ones(1 << 20, np.uint8)
    start = -data.ctypes.data % 64
    (one, other) = readings(build_loops(), [data[start : start + (1 << 19)]])
    assert one.time(3) > 0
    assert other.time(3) > 0


def test_a_ring_of_any_row_is_larger_than_twice_the_caches() -> None:
    rules = MeasuringRules("x86-avx512", 1, 1, "rotate", 7, 64 << 30, 33 << 20, 10.0, "loops")
    for case in gemm_cases():
        needed = product_work(case, FORMS["f32"], 1).held
        assert ring_of(needed, needed, rules) * needed > 2 * rules.caches_bytes
    assert ring_of(1 << 20, 1 << 30, rules) == 64, "as far as memory reaches"
