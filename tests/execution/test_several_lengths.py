"""One binary for vectors of 128, 256 and 512 bits, held against the interpreter at each of these lengths."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.util import find_spec

import pytest

from isamap.driver.request import Request, Size
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import verify_case
from isamap.kernels import kernel_path
from isamap.source import Source

AXPY = (
    "kernel axpy(N, scalar a: f32) { in x: f32[N]; inout y: f32[N]; for i in N { y[i] = a * x[i] + y[i]; } }"
)
RELU = "kernel relu(N) { in x: i8[N]; out y: i8[N]; for i in N { y[i] = max(x[i], 0); } }"
# The last one is tried always: other tests need the C library of AArch64, too.
MACHINES = ("riscv-rvv@Q=2,4,8", "aarch64-sve2@Q=1,2,4")


def built(kernel: str, machine: str, sizes: Mapping[str, Size]) -> PreparedKernel:
    text = kernel if "{" in kernel else kernel_path(kernel).read_text()
    return prepare(Request(Source("kernel.ir", text), machine, sizes, heuristic="greedy", cache=False))


needs_emulators = pytest.mark.skipif(
    not (shutil.which("qemu-riscv64") and shutil.which("qemu-aarch64") and find_spec("ziglang")),
    reason="needs QEMU for riscv64 and aarch64 and the extra `cc`",
)


@needs_emulators
@pytest.mark.exhaustive(fast=1)
@pytest.mark.parametrize(
    ("kernel", "sizes", "given"),
    [
        (AXPY, {"N": "1..1000@300"}, {"N": 203}),
        (RELU, {"N": "1..1000@300"}, {"N": 131}),
        ("gemm_f32", {"M": 5, "N": "1..99@43", "K": 9}, {"M": 5, "N": 43, "K": 9}),
        ("gemm_f32", {"M": 5, "N": 43, "K": 9}, {"M": 5, "N": 43, "K": 9}),
        ("gemm_s8s8", {"M": 3, "N": "1..99@43", "K": 13}, {"M": 3, "N": 43, "K": 13}),
        ("softmax_f32", {"M": 3, "N": "1..99@43"}, {"M": 3, "N": 43}),
        ("rms_norm_f32", {"M": 3, "N": 43}, {"M": 3, "N": 43}),
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_one_binary_is_right_at_three_lengths(
    machine: str, kernel: str, sizes: Mapping[str, Size], given: Mapping[str, int]
) -> None:
    prepared = built(kernel, machine, sizes)
    emitted = prepared.program.emitted
    assert (
        "*Q" in emitted.source or "if (Q == 2)" in emitted.source
    )  # it is in multiples of the length, or looks
    right_everywhere(prepared, machine, given)


TOTAL = "kernel total(M, N) { in x: f32[M, N]; inout s: f32[M]; for m in M, n in N { s[m] += x[m, n]; } }"
BY_HAND = """\
isamap schedule 1
kernel total
machine MACHINE
sizes M = 3, N = 1..999@300

nest 0 {
  map MAPPING { i: n } (a = x[m, n]);
  for m by 1 { hold; for n by 16 { unroll n by 8 { issue; } } }
}
"""


@needs_emulators
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("machine", "mapping"), tuple(zip(MACHINES, ("reduce_v_f32", "total_v_f32"), strict=True))
)
def test_a_sum_over_lanes_by_a_schedule_written_for_one_length(machine: str, mapping: str) -> None:
    text = BY_HAND.replace("MACHINE", machine.partition("@")[0]).replace("MAPPING", mapping)
    sizes: dict[str, Size] = {"M": 3, "N": "1..999@300"}
    source, schedule = Source("total.ir", TOTAL), Source("total.schedule", text)
    prepared = prepare(Request(source, machine, sizes, schedule=schedule, cache=False))
    assert not prepared.program.compilation.own_lengths
    right_everywhere(prepared, machine, {"M": 3, "N": 203})


def right_everywhere(prepared: PreparedKernel, machine: str, given: Mapping[str, int]) -> None:
    tried: list[str] = []
    for at, there in prepared.everywhere():
        tried.append(at)
        for fill in ("integers", "random"):
            case = verify_case(there, given, fill)
            assert (case.ran_on, case.problems) == ("emulator", ())
    constant, lengths = machine.partition("@")[2].split("=")
    assert tried == [f"{constant}={length}" for length in lengths.split(",")]
