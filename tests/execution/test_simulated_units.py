"""Prices beside the simulator where the unit that computes moves sums, too, and where windows have planes."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.bench.cases import SIMULATED_FORMS
from isamap.bench.convolution_cases import conv_cases
from isamap.bench.layer_kinds import CONVOLUTION_LAYERS
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request, Size
from isamap.plan.text import print_schedule
from isamap.simulate.events import simulate
from isamap.source import Source

WIDE = 15  # 512 channels of 14 x 14 pixels, with stride 2
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def _over_simulated(request: Request) -> float:
    """Return the price over the simulated time."""
    made = compile_kernel(request, "lower")
    assert made.program is not None
    assert made.machine is not None
    assert made.problem is not None
    assert made.schedule is not None
    assert made.schedule.cost_ns is not None
    return made.schedule.cost_ns / simulate(made.program, made.machine, made.problem).total_ns


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        ("gemm_s8_blocks", {"M": 64, "N": 8, "K": 32}),
        ("gemm_s8_blocks", {"M": 16, "N": 4, "K": 4}),
        ("conv2d_s8_blocks", {"H": 14, "W": 14, "C": 8, "K": 16, "R": 1, "S": 1}),
    ],
    ids=["product", "few rows", "pixels"],
)
def test_a_unit_that_computes_begins_sums_and_takes_them_out_one_behind_the_other(
    kernel: str, sizes: dict[str, Size]
) -> None:
    source = read_kernel(str(EXAMPLES / f"{kernel}.ir"))
    assert _over_simulated(Request(source, "vta", sizes, heuristic="greedy")) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("ahead", [0, 1], ids=["one copy", "two copies"])
@pytest.mark.parametrize("position", [7, 15])
def test_windows_with_strides_take_as_long_as_the_model_says(position: int, ahead: int) -> None:
    (case,) = (c for c in conv_cases("mobilenet-conv", "nhwc") if c.position == position)
    source = CONVOLUTION_LAYERS.source(CONVOLUTION_LAYERS.laid_out(case), SIMULATED_FORMS["int8"], 0)
    fixed: dict[str, int | None] = {"nest1.ahead.a": ahead, "nest1.stage.a": 1}
    asked = Request(source, "edge-npu", case.bindings, heuristic="greedy", fixed=fixed)
    assert _over_simulated(asked) == pytest.approx(1, rel=0.1)


def test_a_window_that_is_filled_beside_the_sum_has_a_price() -> None:
    (case,) = (c for c in conv_cases("mobilenet-conv", "nhwc") if c.position == WIDE)
    source = CONVOLUTION_LAYERS.source(CONVOLUTION_LAYERS.laid_out(case), SIMULATED_FORMS["int8"], 0)
    fixed: dict[str, int | None] = {"nest1.ahead.a": 1, "nest1.stage.a": 1}
    asked = Request(source, "edge-npu", case.bindings, heuristic="greedy", fixed=fixed)
    made = compile_kernel(asked, "check")
    assert made.schedule is not None
    text = print_schedule(made.schedule)
    assert "stage a ahead 1 in" in text
    beside = Source("beside.schedule", text.replace("stage a ahead 1 in", "stage a ahead 1 into s in"))
    again = Request(source, "edge-npu", case.bindings, schedule=beside)
    assert _over_simulated(again) == pytest.approx(1, rel=0.3)
