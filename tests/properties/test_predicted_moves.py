"""The predicted time of kernels that move more than they compute is near the simulated time."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import examples
from properties.test_energy_objective import KERNELS as OTHERS
from properties.test_energy_objective import MACHINES

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Choices, make_request
from isamap.simulate.events import simulate
from isamap.source import IsamapError, Source

ELEMENTWISE = """kernel k(M, N) {{
  in x: {0}[M, N]; in z: {0}[M, N]; out y: {0}[M, N];
  for m in M, n in N {{ y[m, n] = {1}; }}
}}"""
MOVED = {
    "fill": OTHERS["fill"],
    "copy": OTHERS["copy"],
    "copy of planes": """kernel k(M, N) {
      in x: i8[M, 28, N]; out y: i8[M, 28, N];
      for m in M, q in 28, n in N { y[m, q, n] = x[m, q, n]; }
    }""",
    "fill of planes": "kernel k(M, N) { out y: i8[M, 28, N]; for m in M, q in 28, n in N { y[m, q, n] = 0; } }",
    "copy of floats": OTHERS["copy"].replace("i8", "f32"),
}
COMPUTED = {
    "relu": OTHERS["relu"],
    "maximum": ELEMENTWISE.format("i8", "max(x[m, n], z[m, n])"),
    "sum": ELEMENTWISE.format("i32", "x[m, n] + z[m, n]"),
    "sum of floats": ELEMENTWISE.format("f32", "x[m, n] + z[m, n]"),
}
SIZES = [{"M": 28, "N": 64}, {"M": 100, "N": 256}, {"M": 50, "N": 40}]
ARRIVAL_NS = 120.0
"""The latency of one transfer: the model has the first and the last one of a short kernel only roughly."""


def compare(kernel: str, machine: Path, sizes: dict[str, int], share: float) -> str:
    """Return how predicted and simulated time differ by more than a share and an arrival; "" if they do not."""
    choices = Choices(heuristic="greedy")
    try:
        made = compile_kernel(make_request(Source("k.ir", kernel), str(machine), sizes, choices), "lower")
    except IsamapError as error:
        code = error.diagnostics[0].code
        return "refused" if code == "no-mapping" else code
    assert made.program is not None
    assert made.schedule is not None
    assert made.problem is not None
    assert made.machine is not None
    simulated_ns = simulate(made.program, made.machine, made.problem).total_ns
    predicted_ns = made.schedule.cost_ns or 0.0
    is_near = abs(predicted_ns - simulated_ns) <= share * simulated_ns + ARRIVAL_NS
    return "" if is_near else f"predicted {predicted_ns} ns, simulated {simulated_ns} ns"


MOVING = [path for path in MACHINES if path.stem in ("b16", "edge-npu", "vector-dsp")]


@pytest.mark.parametrize("machine", MOVING, ids=lambda path: path.stem)
def test_copies_fills_and_elementwise_kernels_take_what_is_predicted(machine: Path) -> None:
    found = {
        (name, *sizes.values()): compare(kernel, machine, sizes, share)
        for kernels, share in ((MOVED, 0.1), (COMPUTED, 0.15))
        for name, kernel in kernels.items()
        for sizes in SIZES[: examples(2)]
    }
    assert {key: said for key, said in found.items() if said not in ("", "refused")} == {}
    assert any(not said for said in found.values()), "the machine performs none of these kernels"
