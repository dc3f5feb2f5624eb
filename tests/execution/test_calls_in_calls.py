"""Products of bytes on AVX2 are summed by two calls, one in the other, and right to the last bit."""

from __future__ import annotations

import re

import pytest

from isamap.bench import campaign
from isamap.bench.campaign import mapped_tile, measure_peak
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import all_cases
from isamap.kernels import kernel_path
from isamap.machine import Machine, load_machine, missing_features
from isamap.machine.processor import Cpu
from isamap.run.conformance import check_machine
from isamap.source import Source
from isamap.source.numbers import Spread
from isamap.tune.measured_parameters import InstructionFigure
from isamap.tune.profile import Profile

HW = "x86-avx2"


@pytest.mark.hardware
@pytest.mark.parametrize("name", ["gemm_s8s8", "gemm_u8s8"])
def test_products_of_bytes_are_summed_by_a_call_in_a_call(name: str) -> None:
    if missing := missing_features(load_machine(HW)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    text = kernel_path(name).read_text(encoding="utf-8")
    sizes = {"M": 33, "N": 40, "K": 70}  # K ends in the middle of a register
    prepared = prepare(Request(Source(f"{name}.ir", text), HW, sizes, heuristic="greedy"))
    assert prepared.ran_on == "native"
    emitted = prepared.program.emitted
    assert re.search(
        r"(v\d+) = \(__v8si\)_mm256_add_epi32\(\(__m256i\)\1, _mm256_madd_epi16\(", emitted.source
    )
    cases = list(all_cases(prepared, ("integers", "random", "edges"), guard=True))
    assert len(cases) == 3
    assert not [d.render() for case in cases for d in case.problems]


@pytest.mark.hardware
@pytest.mark.parametrize("name", ["gemm_q4_0", "gemm_q4_k", "gemm_q8_0"])
def test_weights_in_blocks_are_summed_four_at_a_time(name: str) -> None:
    """Without VNNI, 255 times -128 and back is exact: `vpmaddubsw` would saturate."""
    if missing := missing_features(load_machine(HW)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    text = kernel_path(name).read_text(encoding="utf-8")
    sizes = {"M": 5, "N": 1, "G": 2}
    prepared = prepare(Request(Source(f"{name}.ir", text), HW, sizes, heuristic="greedy"))
    assert prepared.ran_on == "native"
    assert "_mm256_madd_epi16(_mm256_srli_epi16(" in prepared.program.emitted.source
    assert not [w for w in prepared.program.compilation.warnings if w.code == "scalar-only"]
    cases = list(all_cases(prepared, ("integers", "random", "edges"), guard=True))
    assert len(cases) == 3
    assert not [d.render() for case in cases for d in case.problems]


@pytest.mark.hardware
def test_instructions_of_several_operations_mean_what_they_state() -> None:
    machine = load_machine(HW)
    if missing := missing_features(machine):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    names = ["dot4_ymm_u8_i8", "cvt_ymm_f32_bf16", "store_sat_ymm_f32_i8", "store_sat_ymm_f32_u8"]
    checks = check_machine(machine, names)
    assert {c.instruction: c.verdict for c in checks} == dict.fromkeys(names, "ok")


CONVOLUTION = """
kernel conv_u8() {
  in x: u8[6, 6, 16];
  in w: i8[3, 3, 16, 16];
  in b: i32[16];
  in s: f32[16];
  temp y: i32[4, 4, 16];
  out z: u8[4, 4, 16];
  for i in 4, j in 4, n in 16 { y[i, j, n] = b[n]; }
  for i in 4, j in 4, n in 16, c in 16, p in 3, q in 3 {
    y[i, j, n] += wrap_i32(x[i + p, j + q, c]) * wrap_i32(w[p, q, c, n]);
  }
  for i in 4, j in 4, n in 16 { z[i, j, n] = sat_u8(round(f32(y[i, j, n]) * s[n], even)); }
}
"""


@pytest.mark.hardware
def test_convolutions_of_bytes_read_them_in_place_and_narrow_their_sums_in_registers() -> None:
    """Pairs of bytes were copied to 16 bits one at a time, or sums left registers one element at a time."""
    if missing := missing_features(load_machine(HW)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    prepared = prepare(Request(Source("c.ir", CONVOLUTION), HW, {}, heuristic="greedy", packed=("w",)))
    issued = {
        name for name in load_machine(HW).instructions if f" {name}(" in prepared.program.emitted.source
    }
    # A scalar instruction would be a function, too.
    assert len(issued) == 1
    assert issued <= {"store_sat_round_ymm_f32_u8", "store_sat_ymm_i32_u8"}
    assert "stage a" not in prepared.program.emitted.source
    cases = list(all_cases(prepared, ("integers", "random", "edges"), guard=True))
    assert not [d.render() for case in cases for d in case.problems]


def test_the_peak_of_calls_in_calls_is_what_calibration_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a product that never changes, compilers kept the addition alone: a peak of twice what there is."""
    if missing := missing_features(load_machine(HW)):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    asked: list[tuple[str, ...]] = []

    def timed(machine: Machine, names: tuple[str, ...], budget_s: float) -> Profile:
        asked.append(names)
        interval = Spread(0.2, 0.2, 0.2, 0.2, 1)
        return Profile(
            machine.name, "", Cpu("", (), "", ()), "", "", (InstructionFigure(names[0], (), interval, None),)
        )

    monkeypatch.setattr(campaign, "calibrate", timed)
    text = Source("k.ir", kernel_path("gemm_s8s8").read_text(encoding="utf-8"))
    made = compile_kernel(Request(text, HW, {"M": 64, "N": 64, "K": 64}, heuristic="greedy"))
    assert made.machine is not None
    assert measure_peak(mapped_tile(made), made.machine) == pytest.approx(2 * 16 / 0.2)
    assert asked == [("dot2_ymm_i16",)]
