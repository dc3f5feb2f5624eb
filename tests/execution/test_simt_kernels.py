"""Twenty kernels on each GPU: as a model of its lanes, and on `opencl-simt` by an OpenCL driver as well.

To price all mappings of a kernel takes several times as long as all other steps together. So greedy chooses among the
mappings of simt_mappings.txt, which are those that it chooses among all. This command records them anew:

    PYTHONPATH=. python tests/execution/test_simt_kernels.py > new && mv new tests/execution/simt_mappings.txt
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.driver.verifying import Case, ComparedResult, case_of
from isamap.emit.c import EmittedC
from isamap.ir import bind
from isamap.machine import load_machine, missing_features
from isamap.run.fills import make_arrays, make_scalars
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.syntax import parse_kernel
from tests.device_kernels import shipped

SIMT = "opencl-simt"
OTHERS = ("amd-rdna3", "nvidia-sm80", "nvidia-sm86", "nvidia-sm90")
LAYER = {"M": 17, "N": 19, "K": 8}
WINDOWS = {"N": 1, "H": 5, "W": 6, "C": 3, "K": 17, "R": 3, "S": 3}
KERNELS = {
    "gemm_f32": {"M": 18, "N": 21, "K": 5},
    "gemm_nt_bf16_f32": {"M": 18, "N": 21, "K": 5},
    "pointwise": {"N": 1, "H": 5, "W": 6, "C": 7, "K": 19},
    "gemm_tn_f32": {"M": 19, "N": 18, "K": 7},
    "gemm_s8s8": {"M": 19, "N": 18, "K": 9},
    "gru_bf16": {"T": 1, "N": 3, "C": 5, "H": 17},
    "bmm_f32": {"L": 3, "M": 17, "N": 20, "K": 9},
    "gemv_f32": {"M": 33, "K": 21},
    "gemm_bias_relu_f32": LAYER,
    "linear_residual_bf16": LAYER,
    "linear_gelu_f32": LAYER,
    "conv1d": {"N": 1, "C": 5, "K": 17, "W": 19, "R": 3},
    "conv2d_nchw": {**WINDOWS, "stride": 1, "pad": 1},
    "conv2d_nhwc_bf16": {**WINDOWS, "stride": 2, "pad": 1},
    "gemm_w4_f32": {"M": 5, "N": 35, "G": 2},
    "depthwise": {"N": 1, "H": 5, "W": 6, "C": 19, "R": 3, "S": 3, "stride": 1, "pad": 1},
    "attention_scores": {"L": 2, "H": 2, "M": 9, "N": 17, "D": 8},
    "softmax_f32": {"M": 5, "N": 37},
    "rms_norm_bf16": {"M": 6, "N": 33},
    "layer_norm_f32": {"M": 3, "N": 41},
}


ALL = (SIMT, *OTHERS)
RECORD = Path(__file__).with_name("simt_mappings.txt")


def chosen(kernel: str, machine: str) -> tuple[str, ...]:
    """Return the mappings that greedy chooses among all."""
    made = compile_kernel(Request(shipped(kernel), machine, KERNELS[kernel], heuristic="greedy"), "schedule")
    assert made.schedule is not None
    return tuple(sorted({nest.mapping for nest in made.schedule.nests}))


def recorded() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the recorded mappings of each kernel and machine."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for block in RECORD.read_text(encoding="utf-8").strip().split("\n\n") if RECORD.exists() else ():
        title, *mappings = block.split("\n")
        kernel, *machines = title.split()
        found |= {(kernel, machine): tuple(mappings) for machine in machines}
    return found


MAPPINGS = recorded()


def run_random(kernel: str, machine: str, *, model: bool) -> Case:
    """Return the comparison of a run with the interpreter."""
    sizes, described = KERNELS[kernel], load_machine(machine)
    request = Request(shipped(kernel), machine, sizes, heuristic="greedy", model=model)
    emitted = compile_kernel(request, extent=MAPPINGS[kernel, machine]).emitted
    assert isinstance(emitted, EmittedC)
    library = compile_library(emitted, described, model)
    bound = bind(parse_kernel(request.kernel), sizes)
    arrays, scalars = make_arrays(bound, "random"), make_scalars(bound, "random")
    result = run_program(library, arrays, {}, scalars=scalars, guard=True)
    assert result.status == 0, result.meaning
    ran_on = "model" if model else "native"
    return case_of(
        ComparedResult(bound, arrays, result.arrays, sizes, "random", ran_on, []), scalars, guard=True
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", ALL)
def test_lanes_compute_kernels_of_all_kinds_at_odd_sizes(kernel: str, machine: str) -> None:
    found = run_random(kernel, machine, model=True)
    assert found.ok, found.problems
    assert found.checked.startswith("all elements")


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_opencl_driver_computes_the_same_kernels(kernel: str) -> None:
    if missing := missing_features(load_machine(SIMT)):
        pytest.skip(f"there is no device for {', '.join(missing)}")
    found = run_random(kernel, SIMT, model=False)
    assert found.ok, found.problems
    assert found.checked.startswith("all elements")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", ALL)
def test_recorded_mappings_are_those_that_greedy_chooses(kernel: str, machine: str) -> None:
    assert chosen(kernel, machine) == MAPPINGS[kernel, machine]


if __name__ == "__main__":
    for name in KERNELS:
        of_machines = {machine: chosen(name, machine) for machine in ALL}
        for some in dict.fromkeys(of_machines.values()):
            print(name, *(machine for machine, own in of_machines.items() if own == some))
            print(*some, sep="\n", end="\n\n")
