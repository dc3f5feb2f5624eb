"""What the cost model says of schedules in scratchpads beside the simulator, double-buffered and not."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.simulate.events import simulate
from isamap.source import Source

REQUANTISED = (Path(__file__).parents[2] / "docs" / "examples" / "gemm_requant.ir").read_text()
STILL = {"nest1.ahead.a": 0, "nest1.ahead.b": 0, "nest1.spread.c": 0}
EARLY = dict.fromkeys(STILL, 1)


@pytest.mark.exhaustive(fast=2)
@pytest.mark.parametrize("fixed", [STILL, EARLY], ids=["one copy", "two copies"])
@pytest.mark.parametrize(("m", "n", "k"), [(512, 512, 512), (1024, 256, 64)])
def test_a_requantised_product_takes_as_long_as_the_model_says(
    m: int, n: int, k: int, fixed: dict[str, int]
) -> None:
    modelled_ns, simulated_ns = _times(m, n, k, fixed, "cpsat")
    assert modelled_ns == pytest.approx(simulated_ns, rel=0.15)
    assert simulated_ns >= 2 * m * n * k / 2048, "32 x 32 cells, two operations each"


@pytest.mark.parametrize(("m", "n", "k"), [(512, 512, 128), (256, 512, 64)])
def test_sums_of_one_copy_wait_for_the_first_tile_of_a_block_alone(m: int, n: int, k: int) -> None:
    modelled_ns, simulated_ns = _times(m, n, k, {"nest1.spread.c": 0}, "greedy")
    assert modelled_ns == pytest.approx(simulated_ns, rel=0.06)


def _times(m: int, n: int, k: int, fixed: dict[str, int], heuristic: str) -> tuple[float, float]:
    """Return a requantised product's time by the cost model and by the simulator. Units: nanoseconds."""
    sizes = {"M": m, "N": n, "K": k}
    source = Source("k.ir", REQUANTISED)
    asked = Request(source, "edge-npu", sizes, heuristic=heuristic, limit_s=5, fixed=dict(fixed))
    made = compile_kernel(asked, "emit")
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    assert made.schedule is not None
    assert made.schedule.cost_ns is not None
    return made.schedule.cost_ns, simulate(made.program, made.machine, made.problem).total_ns


WITH_SCALES = """kernel layer() {
  in X: i8[576, 24];
  in F: i8[24, 144];
  in bias: i32[144];
  in scales: f32[144];
  out Y: i8[576, 144];
  temp S: i32[576, 144];
  for p in 576, k in 144 { S[p, k] = 0; }
  for p in 576, k in 144, c in 24 { S[p, k] += i32(X[p, c]) * i32(F[c, k]); }
  for p in 576, k in 144 { Y[p, k] = sat_i8(round(f32(S[p, k] + bias[k]) * scales[k], even)); }
}
"""


def test_scales_and_biases_that_all_tiles_read_cross_the_shared_link_once() -> None:
    made = compile_kernel(Request(Source("k.ir", WITH_SCALES), "edge-npu", {}, heuristic="greedy"), "emit")
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    assert made.schedule is not None
    assert made.schedule.cost_ns is not None
    least_ns = (576 * 24 + 24 * 144 + 8 * 144 + 576 * 144) / 16
    assert least_ns <= made.schedule.cost_ns < 1.5 * least_ns
    simulated_ns = simulate(made.program, made.machine, made.problem).total_ns
    assert made.schedule.cost_ns == pytest.approx(simulated_ns, rel=0.1)


MIXED = """kernel mixed() {{
  in X: i8[{p}, {q} * {c}];
  in F: i8[{c}, {k}];
  out Y: i8[{p}, {q}, {k}];
  temp S: i32[{p}, {q}, {k}];
  for p in {p}, q in {q}, k in {k} {{ S[p, q, k] = 0; }}
  for p in {p}, q in {q}, k in {k}, c in {c} {{ S[p, q, k] += i32(X[p, {c}*q + c]) * i32(F[c, k]); }}
  for p in {p}, q in {q}, k in {k} {{ Y[p, q, k] = sat_i8(round(f32(S[p, q, k]) * 0.0078125, even)); }}
}}
"""


@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize(("p", "q", "c", "k"), [(28, 28, 32, 192), (56, 56, 24, 144)])
def test_short_rows_of_pixels_leave_as_fast_as_their_link_takes_them(p: int, q: int, c: int, k: int) -> None:
    source = Source("k.ir", MIXED.format(p=p, q=q, c=c, k=k))
    made = compile_kernel(Request(source, "edge-npu", {}, limit_s=5), "emit")
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    assert made.schedule is not None
    assert made.schedule.cost_ns is not None
    found = simulate(made.program, made.machine, made.problem)
    assert made.schedule.cost_ns == pytest.approx(found.total_ns, rel=0.1)
    moved = p * q * (c + k) + c * k
    assert found.total_ns < 1.1 * moved / 16, "16 bytes a nanosecond"


@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 128), (64, 512, 128)])
def test_sums_that_registers_hold_for_a_part_of_them_go_out_and_come_back(m: int, n: int, k: int) -> None:
    source = Source("gemm_s8s8_requant.ir", kernel_path("gemm_s8s8_requant").read_text())
    made = compile_kernel(Request(source, "vector-dsp", {"M": m, "N": n, "K": k}, limit_s=2), "emit")
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    assert made.schedule is not None
    assert made.schedule.cost_ns is not None
    found = simulate(made.program, made.machine, made.problem)
    for unit, busy_ns in found.busy_ns:
        assert made.schedule.cost_ns >= 0.95 * busy_ns, unit
    assert 0.6 < made.schedule.cost_ns / found.total_ns < 1.2, "fillings that many moves are issued for wait"


WITH_RESIDUAL = """kernel residual() {
  in X: i8[14, 14, 64];
  in F: i8[64, 256];
  in bias: i32[256];
  in scales: f32[256];
  in Z: i8[14, 14, 256];
  out Y: i8[14, 14, 256];
  temp S: i32[14, 14, 256];
  for p in 14, q in 14, k in 256 { S[p, q, k] = 0; }
  for p in 14, q in 14, k in 256, c in 64 { S[p, q, k] += i32(X[p, q, c]) * i32(F[c, k]); }
  for p in 14, q in 14, k in 256 {
    Y[p, q, k] = sat_i8(round(f32(i32(Z[p, q, k]) - i32(i8(7))) * 1.9 +
        f32(i32(sat_i8(round(f32(S[p, q, k] + bias[k]) * scales[k], even) + 5)) - i32(i8(5))) * 1.1, even) + -128);
  }
}
"""


def test_other_inputs_of_an_epilogue_cross_the_link_by_their_bytes_and_make_no_sum_wait() -> None:
    """A fault once charged a bias of each column as many elements as the tile of sums has, 4 times the tensor.

    It also took the load of the residual for the time after which the next sums may begin. Tiles of several rows
    of the image were too dear by both, and those of one row, 14 of 32 pixels, were taken.
    """
    made = compile_kernel(Request(Source("r.ir", WITH_RESIDUAL), "edge-npu", {}, heuristic="greedy"), "emit")
    assert made.problem is not None
    assert made.schedule is not None
    assert made.schedule.cost_ns is not None
    assert made.program is not None
    assert made.machine is not None
    options = [
        o for nest in made.problem.nests for o in nest.options if any(f.statement == 2 for f in o.fusions)
    ]
    flows = [
        f for o in options for operand in o.operands if (f := operand.staging.flow) is not None and f.finished
    ]
    moved = (
        2 * 14 * 14 * 256 + 14 * 2 * 4 * 256
    )  # residual and results, and at most biases and scales for each row
    assert flows
    assert all(dict(flow.finished)["dram"] <= moved / 16 for flow in flows)
    assert all(flow.first_ns <= dict(flow.finished)["vector"] for flow in flows)
    (nest,) = made.schedule.nests
    assert "m: p.q" in str(nest.mapping), "a tile has pixels of several rows"
    simulated_ns = simulate(made.program, made.machine, made.problem).total_ns
    assert made.schedule.cost_ns == pytest.approx(simulated_ns, rel=0.15)
