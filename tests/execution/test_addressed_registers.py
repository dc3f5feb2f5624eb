"""Registers of an accelerator that keep operands across outer loops: found by the search, right, and bounded in code.

The machine is ZigZag's `tpu_like`: 128 weights in each cell of an array, as registers that issues name by number.
"""

from __future__ import annotations

import re
from math import isclose
from pathlib import Path

import pytest
from emitted_programs import check_emitted

from isamap.driver.encoded_programs import compile_words, program_cases, program_kernel
from isamap.driver.explaining import explain
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.machine import load_machine, with_addressed_registers
from isamap.plan.check.judge import warn_unused_capacity
from isamap.report.explained import explained_text
from isamap.simulate.events import simulate
from isamap.source import NoMapping, Source, replace

DATA = Path(__file__).resolve().parents[1] / "data" / "machines"
KERNEL = read_kernel(str(DATA / "conv_out.ir"))
TEXT = (DATA / "tpu-like.yaml").read_text(encoding="utf-8")
LAYER = {"K": 64, "C": 64, "P": 14, "Q": 14, "R": 3, "S": 3}
UNEVEN = {"K": 50, "C": 37, "P": 5, "Q": 7, "R": 3, "S": 3}


def unencoded(text: str) -> str:
    """Return a description without its words."""
    return re.sub(r"\n +encoding: .*|\nprogram: .*", "", text)


PLAIN = unencoded(TEXT)
LOAD = re.search(r"instruction load_weights(.*\n)+?      }\n", PLAIN)
assert LOAD
WHOLE_LOAD = PLAIN.replace(
    LOAD[0],
    """instruction load_weights() {
        in w: i8[32, 32] @ dram strides(any, 1);
        out b: i8[32, 32] @ weights;
        for k in 32, n in 32 { b[k, n] = w[k, n]; }
      }
""",
).replace("R * max(1, C / 8)", "128", 2)


def described(folder: Path, text: str) -> str:
    path = folder / "tpu-like.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def compiled(machine: str, sizes: dict[str, int], heuristic: str = "cpsat") -> Compilation:
    return compile_kernel(Request(KERNEL, machine, {**sizes}, heuristic=heuristic, limit_s=60, cache=False))


def cost_of(made: Compilation) -> float:
    assert made.schedule
    assert made.schedule.cost_ns is not None
    return made.schedule.cost_ns


@pytest.fixture(scope="module")
def layer() -> Compilation:
    return compiled(str(DATA / "tpu-like.yaml"), LAYER)


def test_weights_stay_in_their_registers_and_cost_what_a_scratchpad_costs(layer: Compilation) -> None:
    assert layer.schedule
    assert layer.problem
    assert layer.machine
    assert isclose(cost_of(layer), cost_of(compiled(str(DATA / "tpu-like-w.yaml"), LAYER)), rel_tol=0.01)
    text = explained_text(explain(layer.schedule, layer.problem, layer.machine, "analytic"))
    assert "b stays in weights over" in text
    assert "c stays in sums over r, s" in text
    assert not [w for w in layer.warnings if w.code == "capacity-unused"]


def test_the_simulator_agrees_with_the_price(layer: Compilation) -> None:
    assert layer.program
    assert layer.machine
    assert layer.problem
    simulated = simulate(layer.program, layer.machine, layer.problem).total_ns
    assert isclose(simulated, cost_of(layer), rel_tol=0.1)


PARTS = """isamap schedule 1
kernel conv_out
machine tpu-like
sizes C = 128, K = 128, P = 14, Q = 14, R = 3, S = 3, stride = 1
status MANUAL

nest 1 {
  map mac { n: k, k: c } (a = X[p + r, q + s, c], b = F[r, s, c, k]);
  stage c in sram at 0;
  for c by 64 {
    stage a ahead 1 in sram at 100352;
    for k by 32 {
      stage b ahead 1 in weights at 0;
      for p by 1 { for q by 1 { hold; fuse 0; for r by 1 { for s by 1 { for c by 32 { issue; } } } } }
    }
  }
}
"""


@pytest.mark.parametrize("weight", ["max(B[k, n], 0)", "max(B[k, n], D[k, n])", "-B[k, n]"])
def test_a_computed_operand_of_registers_whose_load_fills_the_rest_is_refused(weight: str) -> None:
    """The search brings parts into buffers that have no steps of loops, as the load sets what is outside to zero."""
    text = f"""kernel computed(M, N, K) {{
      in A: i8[M, K]; in B: i8[K, N]; in D: i8[K, N]; inout C: i32[M, N];
      for m in M, n in N, k in K {{ C[m, n] += i32(A[m, k]) * i32({weight}); }}
    }}"""
    for size in (20, 32, 40):
        sizes = dict.fromkeys("MNK", size)
        with pytest.raises(NoMapping, match=r"tpu-like cannot perform `C\[m, n\] \+= ") as found:
            compile_kernel(Request(Source("k.ir", text), str(DATA / "tpu-like.yaml"), sizes), "formulate")
        assert "has no instruction that computes" in found.value.diagnostics[0].notes[0]


def test_fills_and_results_overlap_the_loops_around_them() -> None:
    """Weights of the next part are loaded in the last block of this one, and sums leave in the last part."""
    sizes = {"K": 128, "C": 128, "P": 14, "Q": 14, "R": 3, "S": 3}
    schedule = Source("parts.schedule", PARTS)
    made = compile_kernel(Request(KERNEL, str(DATA / "tpu-like.yaml"), {**sizes}, schedule=schedule))
    assert made.program
    assert made.machine
    assert made.problem
    computing, first_fills, results = 28_224, 2_048 + 2_304, 12_544
    simulated = simulate(made.program, made.machine, made.problem).total_ns
    assert simulated < computing + first_fills + 0.7 * results
    assert isclose(simulated, cost_of(made), rel_tol=0.1)
    check_emitted(made, KERNEL, sizes)


def test_axes_that_follow_each_other_in_memory_are_one_axis_of_an_array() -> None:
    """Rows s, c of the filters are neighbours in memory: a load of weights takes 21 of them, not 3."""
    sizes = {"K": 40, "C": 3, "P": 5, "Q": 6, "R": 7, "S": 7, "stride": 2}
    made = compiled(str(DATA / "tpu-like.yaml"), sizes, "greedy")
    assert made.schedule
    assert "k: s.c" in made.schedule.nests[-1].mapping
    check_emitted(made, KERNEL, sizes)


def test_code_does_not_grow_with_the_number_of_registers(layer: Compilation) -> None:
    assert isinstance(layer.emitted, EmittedC)
    assert layer.emitted.source.count("load_weights(") < 12
    assert layer.emitted.source.count("mac(") < 12


@pytest.mark.parametrize("sizes", [LAYER, UNEVEN], ids=["whole", "uneven"])
@pytest.mark.parametrize("count", [1, 3, 128])
def test_results_are_right_at_each_capacity(count: int, sizes: dict[str, int], tmp_path: Path) -> None:
    text = PLAIN.replace("registers(count = 128, rows", f"registers(count = {count}, rows")
    made = compiled(described(tmp_path, text), sizes, heuristic="greedy")
    check_emitted(made, KERNEL, sizes)


def test_a_program_names_registers_by_numbers() -> None:
    machine = str(DATA / "tpu-like.yaml")
    program, _ = compile_words(Request(KERNEL, machine, {**UNEVEN}, heuristic="greedy"))
    described = load_machine(machine)
    kernel = program_kernel(program, KERNEL)
    for case in program_cases(program, described, kernel, ("random",)):
        assert case.ok


def test_registers_that_a_compiler_names_are_told_of(tmp_path: Path) -> None:
    text = PLAIN.replace("row_bytes = 32, named = immediate", "row_bytes = 32, named = compiler")
    made = compiled(described(tmp_path, text), LAYER, heuristic="greedy")
    (found,) = [w for w in made.warnings if w.code == "capacity-unused"]
    assert found.message == (
        "nest 1 uses 1 of 128 registers of `weights`, and loads each tile of `b` 224 times"
    )
    assert made.schedule
    assert made.problem
    of_lanes = replace(made.problem, private=("spad",))
    assert list(warn_unused_capacity(made.schedule, of_lanes)) == [], "more blocks use registers of lanes"


KEPT = {
    "as it is": (TEXT, True),
    "a load without parameters": (WHOLE_LOAD, True),
    "named by a compiler": (PLAIN.replace("32, named = immediate", "32, named = compiler"), False),
    "loaded from the scratchpad": (
        PLAIN.replace("in w: i8[R, C] @ dram strides(any, 1)", "in w: i8[R, C] @ sram strides(32, 1)"), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", KEPT)
def test_registers_get_addresses_where_loops_can_count_them(what: str, tmp_path: Path) -> None:
    text, kept = KEPT[what]
    machine = with_addressed_registers(load_machine(described(tmp_path, text)))
    assert (machine.memories["weights"].kind == "scratchpad") == kept
    assert machine.memories["sums"].kind == "registers"
