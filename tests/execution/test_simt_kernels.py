"""Twenty kernels on each GPU: as a model of its lanes, and on `opencl-simt` by an OpenCL driver as well."""

from __future__ import annotations

import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import prepare
from isamap.driver.verifying import verify_case
from isamap.machine import load_machine, missing_features
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


@pytest.mark.exhaustive(fast=10)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("model", [True, False], ids=["model", "device"])
def test_lanes_compute_kernels_of_all_kinds_at_odd_sizes(kernel: str, model: bool) -> None:
    missing = missing_features(load_machine(SIMT))
    if missing and not model:
        pytest.skip(f"there is no device for {', '.join(missing)}")
    sizes = KERNELS[kernel]
    prepared = prepare(Request(shipped(kernel), SIMT, sizes, heuristic="greedy", model=model))
    assert prepared.ran_on == ("model" if model else "native")
    found = verify_case(prepared, sizes, "random")
    assert found.ok, found.problems
    assert found.checked.startswith("all elements")


@pytest.mark.exhaustive(fast=11)  # each of another kernel
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", OTHERS)
def test_lanes_of_gpus_with_matrix_instructions_compute_the_same_kernels(kernel: str, machine: str) -> None:
    sizes = KERNELS[kernel]
    prepared = prepare(Request(shipped(kernel), machine, sizes, heuristic="greedy"))
    assert prepared.ran_on == "model"
    found = verify_case(prepared, sizes, "random")
    assert found.ok, found.problems
    assert found.checked.startswith("all elements")
