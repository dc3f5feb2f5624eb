"""What movements say is what programs do: compiled, run beside guard pages, compared with the interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.ir import F64, Const, Kernel, bind, interpret
from isamap.kernels import kernel_path
from isamap.lower.walk import issued_names
from isamap.machine import Machine, load_machine, missing_features
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel

Arrays = dict[str, NDArray[Any]]


def compiled(name: str, machine: str, sizes: dict[str, int]) -> Compilation:
    """Return the kernel as it is scheduled; natively where this processor can, else as a model."""
    source = Source(f"{name}.ir", kernel_path(name).read_text())
    model = bool(missing_features(load_machine(machine)))
    return compile_kernel(Request(source, machine, dict(sizes), model=model))


def assert_right(name: str, made: Compilation, sizes: dict[str, int]) -> None:
    """The program's results are the interpreter's, on small integers, which sum exactly in any order."""
    assert_right_of(parse_kernel(Source(f"{name}.ir", kernel_path(name).read_text())), made, sizes)


def assert_right_of(kernel: Kernel, made: Compilation, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    arrays: Arrays = {}
    for operand in bind(kernel, sizes).operands:
        if operand.role in ("in", "inout"):
            low = 0 if operand.dtype.kind == "uint" else -3
            shape = tuple(s.value or 1 for s in operand.shape)
            arrays[operand.name] = rng.integers(low, 4, shape).astype(operand.dtype.numpy())
    assert isinstance(made.emitted, EmittedC)
    assert made.machine
    result = run_program(compile_library(made.emitted, made.machine), arrays, {}, guard=True)
    assert result.status == 0, result.meaning
    for output, values in interpret(kernel, arrays, sizes, exact=True).items():
        assert np.array_equal(result.arrays[output].astype(np.float64), values.astype(np.float64))


@pytest.mark.parametrize(
    ("name", "machine", "expected"),
    [
        # fours of rows side by side, turned twice into the order of use
        ("gemm_u8s8", "x86-avx512-vnni", {"dpbusd_zmm", "beside_zmm_i8", "turn4_zmm_i8", "turn1_zmm_i8"}),
        # the same of a transposed array, where the four lie together: four bytes at once
        ("gemm_nt_u8s8", "x86-avx512-vnni", {"dpbusd_zmm", "load4_xmm_i8", "store4_xmm_i8"}),
        # pairs of rows
        ("gemm_bf16_f32", "x86-avx512-bf16", {"dpbf16_zmm", "beside_zmm_bf16", "pairs_zmm_bf16"}),
        # widened by lanes that matter in part, without an instruction that converts
        ("gemm_bf16", "x86-avx512", {"fma_zmm_f32", "space_zmm_bf16", "cvt_even_zmm_bf16_f32"}),
        ("gemm_bf16", "x86-avx2", {"fma_ymm_f32", "space_ymm_bf16", "cvt_even_ymm_bf16_f32"}),
        # rows of tiles at the distance of the array's own, and a load that transposes
        ("gemm_nt_f32", "matmul-16x16x16", {"matmul", "load_tile", "load_tile_transposed"}),
    ],
)
def test_operands_are_moved_as_was_said(name: str, machine: str, expected: set[str]) -> None:
    sizes = {"M": 37, "N": 100, "K": 70}
    made = compiled(name, machine, sizes)
    assert made.program
    assert expected <= {*issued_names(made.program.body)}
    assert_right(name, made, sizes)


def test_windows_are_gathered_where_output_axes_are_fused() -> None:
    """One row of output is shorter than a vector; several fused fill it, and their windows are copied."""
    sizes = {"N": 1, "C": 3, "K": 20, "H": 9, "W": 9, "R": 3, "S": 3}
    made = compiled("conv2d_nchw", "x86-avx512", sizes)
    assert_right("conv2d_nchw", made, {**sizes, "stride": 1, "pad": 0})


def test_an_instruction_that_reads_memory_reads_the_kernels_arrays(tmp_path: Path) -> None:
    path = tmp_path / "reads-memory.yaml"
    path.write_text(READS_MEMORY)
    sizes = {"M": 33, "N": 50, "K": 20}
    made = compiled("gemm_f32", str(path), sizes)
    assert made.program
    assert "fma_from_memory" in issued_names(made.program.body)
    assert_right("gemm_f32", made, sizes)


def test_two_statements_that_write_one_register_pack_pairs(tmp_path: Path) -> None:
    path = tmp_path / "zips.yaml"
    path.write_text(ZIPS)
    sizes = {"M": 9, "N": 20, "K": 10}
    made = compiled("gemm_f32", str(path), sizes)
    assert made.program
    assert {"dot2", "zip"} <= {*issued_names(made.program.body)}
    assert_right("gemm_f32", made, sizes)


HEAD = """isamap: 1
name: {name}
summary: made for a test
extends: generic-c
sources: {{nowhere: "made up"}}
target: {{toolchains: [gcc], run: model}}
language: |
  memory v: registers(count = 16, bytes = 64, named = compiler);
memories:
  v: {{c_types: {{f32: __m512}}, source: nowhere}}
units:
  u: {{count: 1, source: nowhere}}
instructions:
"""


def instruction(text: str) -> str:
    lines = "\n".join(f"      {line}" for line in text.strip().splitlines())
    cost = "{unit: u, interval_ns: 0.1, latency_ns: 0.1}"
    return f"  - semantics: |\n{lines}\n    emit: semantics\n    cost: {cost}\n    source: nowhere\n"


LOAD = "instruction ld() { in a: f32[16] @ mem; out z: f32[16] @ v; for i in 16 { z[i] = a[i]; } }"
STORE = "instruction st() { in a: f32[16] @ v; out z: f32[16] @ mem; for i in 16 { z[i] = a[i]; } }"
READS_MEMORY = (
    HEAD.format(name="reads-memory")
    + instruction(LOAD)
    + instruction(STORE)
    + instruction("""
instruction fma_from_memory() {
  inout c: f32[16] @ v;
  in a: f32 @ mem;
  in b: f32[16] @ mem;
  for i in 16 { c[i] += a * b[i]; }
}""")
)
ZIPS = (
    HEAD.format(name="zips")
    + instruction(STORE)
    + instruction(LOAD)
    + instruction("""
instruction ld_half() {
  in a: f32[8] @ mem;
  out z: f32[16] @ v outside undefined;
  for i in 8 { z[i] = a[i]; }
}""")
    + instruction("""
instruction ld_sum() { in a: f32[8] @ mem; out z: f32[8] @ v; for i in 8 { z[i] = a[i]; } }""")
    + instruction("""
instruction st_sum() { in a: f32[8] @ v; out z: f32[8] @ mem; for i in 8 { z[i] = a[i]; } }""")
    + instruction("""
instruction spread_pair() {
  in a: f32[2] @ mem;
  out z: f32[16] @ v;
  for i in 8, p in 2 { z[2*i + p] = a[p]; }
}""")
    + instruction("""
instruction zip() {
  in a: f32[16] @ v;
  in b: f32[16] @ v;
  out z: f32[16] @ v;
  for i in 8 { z[2*i] = a[i]; }
  for i in 8 { z[2*i + 1] = b[i]; }
}""")
    + instruction("""
instruction dot2() {
  inout c: f32[8] @ v;
  in a: f32[16] @ v;
  in b: f32[16] @ v;
  for i in 8, p in 2 { c[i] += a[2*i + p] * b[2*i + p]; }
}""")
)


@pytest.mark.parametrize(
    ("name", "cheap"), [("x86-avx2", "broadcast2_ymm"), ("x86-avx512-bf16", "broadcast2_zmm")]
)
def test_the_last_element_at_the_end_of_a_page_is_read_alone_however_cheap_pairs_are(
    name: str, cheap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a pair for one element meets the guard page: K is odd, and rows are no whole pairs."""
    machine = load_machine(name)
    known = machine.instructions.items()
    costs = {n: replace(i.cost, interval_ns=Const(1e-6, F64)) for n, i in known if n.startswith(cheap)}
    favouring = {n: replace(i, cost=costs.get(n, i.cost)) for n, i in known}
    changed = replace(machine, instructions=favouring)

    def always(_: object) -> Machine:
        return changed

    monkeypatch.setattr("isamap.driver.pipeline.load_machine", always)
    text = (
        "kernel scale(M, N, K) { in A: bf16[M, K]; in B: bf16[K, N]; inout C: f32[M, N];"
        " for m in M, n in N, k in K { C[m, n] += f32(A[m, k]) * f32(B[k, n]); } }"
    )
    sizes = {"M": 2, "N": 16, "K": 3}
    source = Source("k.ir", text)
    model = bool(missing_features(machine))
    made = compile_kernel(Request(source, name, dict(sizes), heuristic="greedy", model=model, cache=False))
    assert_right_of(parse_kernel(source), made, sizes)


NARROWING = """isamap: 1
name: narrowing
summary: sums of i32 whose only way back narrows them
extends: model-f32
sources: {here: made up}
language: |
  memory acc: registers(count = 32, bytes = 64, named = compiler);
memories:
  acc: {source: here}
links:
  - {from: mem, to: acc, bandwidth_bytes_per_ns: 16, shared: false, source: here}
instructions:
  - semantics: |
      instruction load_acc(scalar L: 1..16) {
        in a: i32[L] @ mem;
        out z: i32[16] @ acc outside zero;
        for i in L { z[i] = a[i]; }
      }
    emit: semantics
    cost: {unit: move, interval_cycles: 4, latency_cycles: 8}
    source: here
  - semantics: |
      instruction at_least(scalar v: i32) {
        in a: i32[16] @ acc;
        out z: i32[16] @ acc;
        for i in 16 { z[i] = max(a[i], v); }
      }
    emit: semantics
    cost: {unit: move, interval_cycles: 2, latency_cycles: 4}
    source: here
  - semantics: |
      instruction store_narrow(scalar L: 1..16) {
        in a: i32[16] @ acc;
        out z: i8[L] @ mem;
        for i in L { z[i] = wrap_i8(a[i]); }
      }
    emit: semantics
    cost: {unit: move, interval_cycles: 1, latency_cycles: 8}
    source: here
"""


@pytest.mark.parametrize("size", [5, 16, 21])
@pytest.mark.parametrize("value", ["wrap_i8(s[n])", "wrap_i8(max(s[n], 1))"])
def test_a_store_that_narrows_on_its_way_performs_the_conversion(
    value: str, size: int, tmp_path: Path
) -> None:
    (tmp_path / "narrowing.yaml").write_text(NARROWING)
    text = f"kernel narrow(N) {{ in s: i32[N]; out y: i8[N]; for n in N {{ y[n] = {value}; }} }}"
    source = Source("k.ir", text)
    made = compile_kernel(Request(source, str(tmp_path / "narrowing.yaml"), {"N": size}))
    assert made.program
    assert {"load_acc", "store_narrow"} <= {*issued_names(made.program.body)}
    assert_right_of(parse_kernel(source), made, {"N": size})
