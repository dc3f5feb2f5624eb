"""Published access counts and latencies, from machines, kernels and schedules in docs/examples/accesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.accesses import schedule_accesses
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.access_counts import CONVENTIONS
from isamap.plan.access_report import StatementAccesses
from isamap.source import Source

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "accesses"
KERNELS = Path(__file__).parents[2] / "kernels"

Counts = dict[tuple[str, str], tuple[int, int, int]]


def counted(
    kernel: str, machine: str, sizes: dict[str, int], convention: str, schedule: str | None = None
) -> tuple[StatementAccesses, ...]:
    path = EXAMPLES / f"{kernel}.ir"
    path = path if path.exists() else KERNELS / f"{kernel}.ir"
    text = schedule and (EXAMPLES / f"{schedule}.schedule").read_text(encoding="utf-8")
    request = Request(
        Source(f"{kernel}.ir", path.read_text(encoding="utf-8")),
        str(EXAMPLES / f"{machine}.yaml"),
        sizes,
        schedule=Source(f"{schedule}.schedule", text) if text else None,
        heuristic="greedy",
    )
    made = compile_kernel(request, "schedule")
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    return schedule_accesses(made.schedule, made.problem, made.machine, CONVENTIONS[convention])


def by_level(found: StatementAccesses) -> Counts:
    """(level, tensor) → (reads, fills, updates)."""
    return {(a.level, a.tensor): (a.reads, a.fills, a.updates) for a in found.accesses}


def test_one_level_under_a_convolution_counts_as_timeloop_publishes() -> None:
    (found,) = counted("conv1d_valid", "mac-1level", {"P": 16, "R": 3}, "timeloop", "conv1d-1level")
    assert found.latency_ns == 48
    assert by_level(found) == {
        ("buffer", "W"): (48, 0, 0),
        ("buffer", "X"): (48, 0, 0),
        ("buffer", "Y"): (32, 0, 48),
    }


def test_first_reads_are_charged_when_the_convention_says_so() -> None:
    (found,) = counted("conv1d_valid", "mac-1level", {"P": 16, "R": 3}, "isamap", "conv1d-1level")
    assert by_level(found)["buffer", "Y"] == (48, 0, 48)


def test_sums_that_share_a_port_take_as_long_as_zigzag_publishes() -> None:
    sizes = {"M": 128, "N": 128, "K": 128}
    (found,) = counted("gemm_s8s8", "array-8x8x8", sizes, "zigzag", "gemm-array")
    assert found.compute_ns == 4096
    assert found.latency_ns == 8191


def test_sums_that_stay_in_the_array_hide_their_port() -> None:
    sizes = {"M": 128, "N": 128, "K": 128}
    (found,) = counted("gemm_s8s8", "array-8x8x8", sizes, "zigzag", "gemm-array-stationary")
    assert found.latency_ns == 4097


@pytest.mark.parametrize(("machine", "latency_ns"), [("mac-1level", 524288), ("mac-fanout4", 131072)])
def test_two_products_take_one_issue_per_term(machine: str, latency_ns: int) -> None:
    found = counted("two_products", machine, {"M": 64, "N": 64}, "timeloop")
    assert sum(s.latency_ns for s in found) == latency_ns


def test_a_fan_out_of_four_takes_a_quarter_of_the_time() -> None:
    (first, _) = counted("two_products", "mac-fanout4", {"M": 64, "N": 64}, "timeloop")
    assert first.latency_ns == 65536
