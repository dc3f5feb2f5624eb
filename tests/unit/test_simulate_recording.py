"""What a recorded simulation says happened: the same time, the same sums, and when each issue was."""

from __future__ import annotations

from itertools import pairwise

import pytest

from isamap.driver.api import source_of
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.simulate.events import simulate
from isamap.simulate.recording import Recorded, record


def compiled(kernel: str, machine: str, **sizes: int) -> Compilation:
    return compile_kernel(Request(source_of(kernel), machine, sizes, heuristic="greedy"), "lower")


def recorded(made: Compilation, most: int = 100_000) -> Recorded:
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    return record(made.program, made.machine, made.problem, most=most)


@pytest.mark.parametrize(
    ("kernel", "machine", "sizes"),
    [
        ("gemm_s8s8", "edge-npu", {"M": 64, "N": 64, "K": 64}),
        ("gemm_f32", "x86-avx512", {"M": 24, "N": 64, "K": 64}),
    ],
)
def test_watching_changes_nothing(kernel: str, machine: str, sizes: dict[str, int]) -> None:
    made = compiled(kernel, machine, **sizes)
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    assert recorded(made).simulation == simulate(made.program, made.machine, made.problem)


def test_bookings_of_a_unit_follow_each_other_and_come_to_its_work() -> None:
    found = recorded(compiled("gemm_s8s8", "edge-npu", M=64, N=64, K=64))
    assert not found.repeated
    for unit, busy in found.simulation.busy_ns:
        own = [issue for issue in found.issued if issue.unit == unit]
        assert sum(issue.busy_ns for issue in own) == pytest.approx(busy)
        for one, other in pairwise(own):
            assert one.begin_ns + one.busy_ns <= other.begin_ns + 1e-9
        assert all(issue.begin_ns <= issue.start_ns <= issue.end_ns for issue in own)


def test_bytes_of_turns_that_are_not_run_are_counted() -> None:
    m, n, k = 4096, 512, 1024
    found = recorded(compiled("gemm_s8s8", "edge-npu", M=m, N=n, K=k))
    assert found.repeated
    read = sum(c.read_bytes for c in found.carried if c.array == "A")
    assert read % (m * k) == 0
    assert read > 0
    written = sum(c.written_bytes for c in found.carried if c.array == "C")
    assert written == 4 * m * n


def test_sums_hold_where_events_are_left_out() -> None:
    made = compiled("gemm_s8s8", "edge-npu", M=64, N=64, K=64)
    whole, short = recorded(made), recorded(made, most=5)
    assert len(short.issued) == 5
    assert short.left_out == len(whole.issued) - 5
    assert short.carried == whole.carried
    assert short.simulation == whole.simulation
