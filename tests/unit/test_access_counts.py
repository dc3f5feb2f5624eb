"""Published access counts and latencies, from machines, kernels and schedules in docs/examples/accesses."""

from __future__ import annotations

from pathlib import Path

import pytest
from ownership import moved_elements

from isamap.driver.explaining import schedule_accesses
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.access_counts import CONVENTIONS, StatementAccesses, count_accesses
from isamap.plan.loop_nest import CountedOperand, Keep, LoopNest, NestLoop
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
    assert made.canonical is not None
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    return schedule_accesses(
        made.canonical, made.schedule, made.problem, made.machine, CONVENTIONS[convention]
    )


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


@pytest.mark.parametrize("schedule", ["conv1d-2level-os", "conv1d-2level-ws"])
def test_two_levels_count_as_timeloop_publishes_whatever_stays(schedule: str) -> None:
    (found,) = counted("conv1d_valid", "mac-2level", {"P": 16, "R": 3}, "timeloop", schedule)
    assert found.latency_ns == 48
    assert by_level(found) == {
        ("main", "W"): (3, 0, 0),
        ("buffer", "W"): (48, 3, 0),
        ("main", "X"): (18, 0, 0),
        ("buffer", "X"): (48, 18, 0),
        ("main", "Y"): (0, 0, 16),
        ("buffer", "Y"): (32, 16, 48),
    }


def test_three_levels_that_operands_bypass_count_as_timeloop_publishes() -> None:
    sizes = {"K": 32, "P": 16, "R": 3}
    (found,) = counted("conv1d_channels", "mac-3level", sizes, "timeloop", "conv1d-3level-bypass")
    assert found.latency_ns == 1536
    assert by_level(found) == {
        ("main", "W"): (96, 0, 0),
        ("global", "W"): (1536, 96, 0),
        ("main", "X"): (18, 0, 0),
        ("global", "X"): (1536, 18, 0),
        ("main", "Y"): (0, 0, 512),
        ("file", "Y"): (1024, 512, 1536),
    }


def test_the_best_schedule_of_three_levels_takes_no_longer_than_timeloop_s() -> None:
    (found,) = counted("conv1d_channels", "mac-3level", {"K": 32, "P": 16, "R": 3}, "timeloop")
    assert found.latency_ns <= 1536


def test_three_levels_that_nothing_bypasses_count_as_timeloop_publishes() -> None:
    axes = (("k", 32), ("p", 16), ("r", 3))
    loops = (NestLoop("k", 2), NestLoop("p", 1), NestLoop("k", 1), NestLoop("r", 1))
    keeps = (Keep("main", 0), Keep("global", 0), Keep("file", 2))
    operands = (
        CountedOperand("w", "W", ((("k", 1),), (("r", 1),)), keeps),
        CountedOperand("x", "X", ((("p", 1), ("r", 1)),), keeps),
        CountedOperand("y", "Y", ((("k", 1),), (("p", 1),)), keeps, "update"),
    )
    found = count_accesses(LoopNest(axes, loops, operands), CONVENTIONS["timeloop"])
    assert {(a.level, a.tensor): (a.reads, a.fills, a.updates) for a in found} == {
        ("main", "W"): (96, 0, 0),
        ("global", "W"): (96, 96, 0),
        ("file", "W"): (1536, 96, 0),
        ("main", "X"): (18, 0, 0),
        ("global", "X"): (288, 18, 0),
        ("file", "X"): (1536, 288, 0),
        ("main", "Y"): (0, 0, 512),
        ("global", "Y"): (0, 512, 512),
        ("file", "Y"): (1024, 512, 1536),
    }


@pytest.mark.parametrize(
    ("kernel", "machine", "sizes", "fixed"),
    [
        ("gemm_f32", "x86-avx512", {"M": 13, "N": 50, "K": 21}, {}),
        ("gemm_f32", "x86-avx512", {"M": 24, "N": 64, "K": 20}, {"nest0.stage.b": 2}),
        ("gemm_s8s8", "systolic-16", {"M": 40, "N": 33, "K": 50}, {}),
        ("conv2d_s8_requant", "edge-npu", {"N": 1, "C": 32, "K": 32, "H": 10, "W": 10, "R": 3, "S": 3}, {}),
        ("conv2d_nchw", "x86-avx512", {"N": 1, "C": 3, "K": 4, "H": 10, "W": 20, "R": 3, "S": 3}, {}),
    ],
)
def test_our_own_convention_counts_what_programs_do(
    kernel: str, machine: str, sizes: dict[str, int], fixed: dict[str, int]
) -> None:
    path = next(p for p in (KERNELS, EXAMPLES.parent) if (p / f"{kernel}.ir").exists()) / f"{kernel}.ir"
    source = Source(f"{kernel}.ir", path.read_text(encoding="utf-8"))
    made = compile_kernel(Request(source, machine, sizes, heuristic="greedy", fixed=fixed), "lower")
    assert made.canonical is not None
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    assert made.program is not None
    (found,) = schedule_accesses(
        made.canonical, made.schedule, made.problem, made.machine, CONVENTIONS["isamap"]
    )
    home = next(m.name for m in made.machine.memories.values() if m.kind == "addressable")
    moved = moved_elements(made.program, made.machine)
    arrays = {tensor.name for tensor in made.program.tensors}
    counts = {
        count.tensor: count for count in found.accesses if count.level == home and count.tensor in arrays
    }
    assert {name for name, _ in moved} & arrays == {n for n, c in counts.items() if c.reads or c.updates}
    for name, count in counts.items():
        assert (count.reads, count.updates) == (moved[name, "in"], moved[name, "out"])


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


CONV = """isamap schedule 1
kernel conv_out
machine tpu-like-w
sizes C = 64, K = 64, P = 6, Q = 6, R = 3, S = 3, stride = 1
status MANUAL

nest 1 {
  map mac { n: k, k: s.c } (a = X[p + r, q + s, c], b = F[r, s, c, k]);
  stage c in sram at 0;
  for s.c by 32 {
    stage a in sram at 200704;
    for k by 32 {
      stage b in weights at 0;
      for q by 1 {
        for p by 1 {
          hold;
          fuse 0;
          for r by 1 {
            issue;
          }
        }
      }
    }
  }
}
"""


def test_taps_on_an_axis_with_another_one_are_counted_as_they_are_copied() -> None:
    data = Path(__file__).parents[1] / "data" / "machines"
    source = Source("conv_out.ir", (data / "conv_out.ir").read_text(encoding="utf-8"))
    sizes = {"C": 64, "K": 64, "P": 6, "Q": 6, "R": 3, "S": 3, "stride": 1}
    text = Source("conv.schedule", CONV)
    made = compile_kernel(Request(source, str(data / "tpu-like-w.yaml"), sizes, schedule=text), "lower")
    assert made.canonical is not None
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    assert made.program is not None
    known = made.canonical, made.schedule, made.problem, made.machine
    (found,) = schedule_accesses(*known, CONVENTIONS["isamap"])
    levels = by_level(found)
    rows = 8 * 6 * 3 * 64  # of p and r each row once; q and s as often as they meet
    assert levels["dram", "X"] == (rows, 0, 0)
    assert levels["sram", "X"][1] == rows
    assert levels["dram", "Y"] == (0, 0, 6 * 6 * 64)  # what it begins with is fused
    moved = moved_elements(made.program, made.machine)
    assert moved["X", "in"] == rows
    assert moved["Y", "in"] == 0
    assert moved["Y", "out"] == 6 * 6 * 64
