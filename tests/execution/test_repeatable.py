"""Schedules and code do not depend on the process that finds them: two give the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SMALL = "M=33,N=48,K=40"
IMAGE = "N=1,C=5,K=16,H=9,W=9,R=3,S=3"
CASES = (
    *(("gemm_f32", hw, SMALL) for hw in ("x86-avx2", "x86-avx512", "generic-c")),
    *(("gemm_bf16", hw, SMALL) for hw in ("x86-amx", "x86-avx512-bf16", "generic-c")),
    *(("gemm_u8s8", hw, SMALL) for hw in ("x86-amx", "x86-avx512-vnni")),
    *(("gemm_f64", hw, SMALL) for hw in ("x86-avx2", "x86-avx512")),
    *(("conv2d_nchw", hw, IMAGE) for hw in ("x86-avx2", "x86-avx512", "generic-c")),
    *(("conv2d_nhwc", hw, IMAGE) for hw in ("x86-avx2", "x86-avx512")),
    *(("gemv_f32", hw, "M=70,K=50") for hw in ("x86-avx2", "x86-avx512")),
    ("gemm_bias_relu_f32", "x86-avx512", SMALL),
    ("bmm_f32", "x86-avx2", f"L=3,{SMALL}"),
    ("gemm_nt_f32", "x86-avx512", SMALL),
    ("gemm_tn_f64", "x86-avx2", SMALL),
    ("depthwise", "x86-avx512", "N=1,C=16,H=9,W=9,R=3,S=3"),
)
PROGRAM = """
import sys
from isamap.driver.inputs import read_kernel
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.plan.text import print_schedule

for words in sys.argv[1:]:
    kernel, machine, sizes = words.split(" ")
    pairs = (word.split("=") for word in sizes.split(","))
    values = {name: int(value) for name, value in pairs}
    made = compile_kernel(Request(read_kernel(kernel), machine, values, limit_s=60))
    assert made.schedule.reproducible, words
    print(words, print_schedule(made.schedule), made.emitted.source, sep="\\n")
"""


@pytest.mark.exhaustive
def test_two_processes_give_the_same_schedules_and_the_same_code() -> None:
    assert len(CASES) >= 20
    words = [" ".join(case) for case in CASES]
    texts = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *words],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4711")
    ]
    assert texts[0] == texts[1]
    assert texts[0].count("isamap schedule 1") == len(CASES)
