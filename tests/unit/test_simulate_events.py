"""Simulated time: units, chains of results, memory levels, and loops that are not run to their end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isamap.driver.api import source_of
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.plan.problem import Problem
from isamap.simulate import events
from isamap.simulate.events import Simulation, simulate
from isamap.source import Source

DATA = Path(__file__).parent.parent / "data" / "machines"


def compiled(machine: str = "x86-avx512", kernel: str = "gemm_f32", **sizes: int) -> Compilation:
    return compile_kernel(Request(source_of(kernel), machine, sizes, heuristic="greedy"), "lower")


def simulated(made: Compilation) -> Simulation:
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    return simulate(made.program, made.machine, made.problem)


def run_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each iteration run from now on."""
    monkeypatch.setattr(events, "SAME", -1.0)
    monkeypatch.setattr(events, "MOST_ITERATIONS", 10**9)
    monkeypatch.setattr(events, "MOST_STEPS", 10**12)


def busy(found: Simulation, unit: str) -> float:
    return dict(found.busy_ns)[unit]


def test_every_issue_of_a_product_is_counted() -> None:
    made = compiled(M=24, N=64, K=32)
    found = simulated(made)
    assert made.machine is not None
    interval = 24 * 64 * 32 / 16 * 0.28 / 2
    assert busy(found, "fma") == pytest.approx(interval, rel=0.05)
    assert found.total_ns >= busy(found, "fma")


def test_turns_that_are_not_run_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(M=48, N=96, K=200)
    skipping = simulated(made)
    run_all(monkeypatch)
    whole = simulated(made)
    assert whole.run == whole.issues
    assert skipping.run < whole.run / 4
    assert skipping.issues == whole.issues
    assert skipping.total_ns == pytest.approx(whole.total_ns, rel=0.03)
    assert dict(skipping.busy_ns) == pytest.approx(dict(whole.busy_ns))
    assert dict(skipping.moved_bytes) == pytest.approx(dict(whole.moved_bytes), rel=0.02)


INTERLEAVED = """isamap schedule 1
kernel conv_out
machine tpu-like-w
sizes C = 64, K = 128, P = 24, Q = 24, R = 3, S = 3, stride = 1
status MANUAL

nest 1 {{
  map mac {{ n: k, k: s.c }} (a = X[p + r, q + s, c], b = F[r, s, c, k]);
  stage c in sram at 0;
  for s.c by 32 {{
    stage a{a} in sram at 1048576;
    for k by 32 {{
      stage b{b} in weights at 0;
      for q by 1 {{
        for p by 1 {{
          hold;
          fuse 0;
          for r by 1 {{
            issue;
          }}
        }}
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("a", "b"),
    [("", ""), (" ahead 1", " ahead 1"), (" ahead 2", " ahead 1 into q"), (" ahead 1 into k", " ahead 3")],
)
def test_work_that_is_interleaved_into_loops_is_counted(
    monkeypatch: pytest.MonkeyPatch, a: str, b: str
) -> None:
    sizes = {"C": 64, "K": 128, "P": 24, "Q": 24, "R": 3, "S": 3, "stride": 1}
    text = Source("conv.schedule", INTERLEAVED.format(a=a, b=b))
    kernel = Source("conv_out.ir", (DATA / "conv_out.ir").read_text(encoding="utf-8"))
    request = Request(kernel, str(DATA / "tpu-like-w.yaml"), sizes, schedule=text)
    made = compile_kernel(request, "lower")
    skipping = simulated(made)
    words = 9 * 64 * 128 + 3 * 26 * 24 * 64 + 4 * 24 * 24 * 128
    assert busy(skipping, "dma") == pytest.approx(words / 8)
    run_all(monkeypatch)
    whole = simulated(made)
    assert skipping.run < whole.run == whole.issues == skipping.issues
    assert dict(skipping.busy_ns) == pytest.approx(dict(whole.busy_ns))
    assert skipping.total_ns == pytest.approx(whole.total_ns, rel=0.03)


def test_a_large_product_is_mostly_not_run() -> None:
    found = simulated(compiled(M=1024, N=1024, K=1024))
    assert found.issues > 67_000_000
    assert found.run < 200_000


def test_what_fits_into_the_nearest_cache_crosses_no_link() -> None:
    found = simulated(compiled(M=16, N=32, K=32))
    assert {name: moved for name, moved in found.moved_bytes if moved} == {}


def test_what_fits_nowhere_comes_from_memory_each_time() -> None:
    made = compiled(kernel="gemv_f32", M=4096, K=8192)
    found = simulated(made)
    matrix_bytes = 4096 * 8192 * 4
    assert dict(found.moved_bytes)["memory"] == pytest.approx(matrix_bytes, rel=0.05)
    assert made.problem is not None
    assert found.total_ns >= matrix_bytes / made.problem.memory_bandwidth_bytes_per_ns


def test_fewer_accumulators_wait_for_each_other() -> None:
    def with_block(m: int, n: int) -> float:
        fixed = {"nest0.unroll.m": m, "nest0.unroll.n": n}
        request = Request(
            source_of("gemm_f32"), "x86-avx512", {"M": 48, "N": 96, "K": 96}, heuristic="greedy", fixed=fixed
        )
        return simulated(compile_kernel(request, "lower")).total_ns

    assert with_block(1, 1) > 2 * with_block(6, 3)


def test_a_unit_more_is_never_slower() -> None:
    made = compiled(M=64, N=64, K=64)
    assert made.machine is not None
    fma = made.machine.units["fma"]
    more = replace(made.machine, units={**made.machine.units, "fma": replace(fma, count=fma.count + 1)})
    assert simulated(replace(made, machine=more)).total_ns < simulated(made).total_ns


@pytest.mark.parametrize(
    ("machine", "kernel", "sizes"),
    [
        ("x86-amx", "gemm_bf16", {"M": 100, "N": 70, "K": 90}),
        ("generic-c", "gemm_f32", {"M": 17, "N": 5, "K": 9}),
        ("x86-avx2", "conv2d_nchw", {"N": 1, "C": 3, "K": 8, "H": 9, "W": 10, "R": 3, "S": 3}),
        ("x86-avx512", "gru", {"T": 3, "N": 4, "C": 16, "H": 32}),
    ],
)
def test_every_kind_of_program_can_be_simulated(machine: str, kernel: str, sizes: dict[str, int]) -> None:
    made = compiled(machine, kernel, **sizes)
    found = simulated(made)
    assert found.total_ns > 0
    assert found.issues >= found.run > 0
    assert found.left_out


RESTING = {"ahead.a": 0, "ahead.b": 0, "spread.c": 0}


def on_an_array(fixed: dict[str, int], **sizes: int) -> Simulation:
    return simulated(
        compile_kernel(Request(source_of("gemm_s8s8"), "systolic-16", sizes, fixed=fixed), "lower")
    )


def test_an_array_waits_for_its_scratchpads_unless_they_are_filled_early() -> None:
    resting = on_an_array(RESTING, M=128, N=128, K=128)
    crossing = on_an_array({}, M=128, N=128, K=128)
    assert crossing.total_ns < 0.95 * resting.total_ns
    assert resting.total_ns > busy(resting, "execute") + busy(resting, "store")
    assert crossing.total_ns < busy(crossing, "execute") + busy(crossing, "load")


def test_turns_of_scratchpads_that_are_not_run_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    skipping = on_an_array({}, M=64, N=128, K=128)
    monkeypatch.setattr(events, "SAME", -1.0)
    monkeypatch.setattr(events, "MOST_ITERATIONS", 10**9)
    whole = on_an_array({}, M=64, N=128, K=128)
    assert whole.run == whole.issues
    assert skipping.total_ns == pytest.approx(whole.total_ns, rel=0.05)


def test_a_line_is_as_long_as_caches_say_or_the_model_where_none_does() -> None:
    made = compiled(M=1024, N=1024, K=1024)
    assert made.problem is not None

    def with_lines(stated: int, model: int) -> Problem:
        assert made.problem is not None
        caches = tuple(replace(cache, line_bytes=stated) for cache in made.problem.caches)
        return replace(made.problem, caches=caches, model=replace(made.problem.model, line_bytes=model))

    assert (with_lines(128, 32).line_bytes, with_lines(0, 32).line_bytes) == (128, 32)
    usual, longer = (
        simulated(replace(made, problem=with_lines(0, line_bytes))).total_ns for line_bytes in (64, 4096)
    )
    assert usual == simulated(made).total_ns != longer
