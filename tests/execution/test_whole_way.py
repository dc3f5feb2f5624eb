"""Kernels from text to arrays, beside guard pages: strict sums, ordered loops, run-time sizes, tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.driver.pipeline import Compilation, compile_kernel
from isamap.driver.request import Request, Size
from isamap.emit.c import EmittedC
from isamap.ir import bind, interpret
from isamap.kernels import kernel_path
from isamap.machine import load_machine, missing_features
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import IsamapError, Source
from isamap.syntax import parse_kernel

STRICT = """
strict kernel ordered_sum(M, N, K) {
  in A: f32[M, K];
  in B: f32[K, N];
  inout C: f32[M, N];
  for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
}
"""

Arrays = dict[str, NDArray[Any]]


def shipped(name: str) -> Source:
    return Source(f"{name}.ir", kernel_path(name).read_text())


def made(source: Source, machine: str, sizes: dict[str, Size], *, model: bool = False) -> Compilation:
    if not model and (missing := missing_features(load_machine(machine))):
        pytest.skip(f"this computer lacks {', '.join(missing)}")
    return compile_kernel(Request(source, machine, sizes, heuristic="greedy", model=model))


def run(compilation: Compilation, arrays: Arrays, sizes: dict[str, int] | None = None) -> Arrays:
    assert isinstance(compilation.emitted, EmittedC)
    assert compilation.machine
    library = compile_library(compilation.emitted, compilation.machine)
    result = run_program(library, arrays, sizes or {}, guard=True)
    assert result.status == 0, result.meaning
    return dict(result.arrays)


def fill(source: Source, sizes: dict[str, int], seed: int = 0, *, whole: bool = True) -> Arrays:
    """Small integers, which sum exactly in any order, or numbers between -1 and 1."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    for operand in bind(parse_kernel(source), sizes).operands:
        if operand.role not in ("in", "inout"):
            continue
        shape = tuple(s.value or 1 for s in operand.shape)
        low = 0 if operand.dtype.kind == "uint" else -3
        values = rng.integers(low, 4, shape) if whole else rng.uniform(-1, 1, shape)
        arrays[operand.name] = values.astype(operand.dtype.numpy())
    return arrays


def assert_same(
    got: Arrays, source: Source, arrays: Arrays, sizes: dict[str, int], tolerance: float = 0.0
) -> None:
    expected = interpret(parse_kernel(source), arrays, sizes, exact=True)
    for name, values in expected.items():
        error = np.abs(got[name].astype(np.float64) - values.astype(np.float64))
        assert float(error.max(initial=0.0)) <= tolerance, name


@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2", "x86-avx512"])
def test_a_strict_sum_has_the_bits_of_the_plain_loop(machine: str) -> None:
    source, sizes = Source("strict.ir", STRICT), {"M": 13, "N": 37, "K": 211}
    arrays = fill(source, sizes, whole=False)
    got = run(made(source, machine, dict(sizes)), arrays)
    expected = interpret(parse_kernel(source), arrays, sizes)
    assert np.array_equal(got["C"], expected["C"])


def test_a_strict_sum_takes_no_fused_instruction() -> None:
    compilation = made(Source("strict.ir", STRICT), "x86-avx512", {"M": 8, "N": 64, "K": 8})
    assert compilation.schedule
    used = {nest.mapping.split()[0] for nest in compilation.schedule.nests}
    machine = load_machine("x86-avx512")
    assert not any(machine.instructions[name].instruction.numerics for name in used)


@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2", "x86-avx512"])
def test_ordered_loops_run_all_statements_of_a_step_before_the_next(machine: str) -> None:
    source, sizes = shipped("gru"), {"T": 4, "N": 3, "C": 5, "H": 19}
    arrays = fill(source, sizes, whole=False)
    assert_same(run(made(source, machine, dict(sizes)), arrays), source, arrays, sizes, tolerance=1e-5)


@pytest.mark.parametrize("machine", ["generic-c", "x86-avx2", "x86-avx512"])
def test_one_program_serves_all_sizes_of_its_range(machine: str) -> None:
    source = shipped("gemm_f32")
    compilation = made(source, machine, dict.fromkeys("MNK", "1..300@64"))
    for m, n, k in ((1, 1, 1), (17, 127, 251), (64, 64, 64), (300, 1, 7), (5, 300, 33)):
        sizes = {"M": m, "N": n, "K": k}
        arrays = fill(source, sizes)
        assert_same(run(compilation, arrays, sizes), source, arrays, sizes)


@pytest.mark.exhaustive(fast=3)
@pytest.mark.parametrize("kernel", ["gemm_bf16", "gemm_bf16_f32", "gemm_u8s8", "gemm_s8s8", "gemm_nt_bf16"])
@pytest.mark.parametrize(("m", "n", "k"), [(17, 33, 65), (48, 64, 128), (1, 40, 3)])
def test_tile_instructions_compute_products_in_model_mode(kernel: str, m: int, n: int, k: int) -> None:
    source, sizes = shipped(kernel), {"M": m, "N": n, "K": k}
    compilation = made(source, "x86-amx", dict(sizes), model=True)
    arrays = fill(source, sizes)
    assert_same(run(compilation, arrays), source, arrays, sizes)


def test_removing_the_instruction_of_a_mapping_changes_the_mapping(tmp_path: Any) -> None:
    """The description does it: without its fused instruction a machine multiplies and adds."""
    first = made(shipped("gemm_f32"), "x86-avx2", {"M": 32, "N": 32, "K": 32})
    assert first.schedule
    taken = first.schedule.nests[0].mapping.split()[0]
    poorer = tmp_path / "poorer.yaml"
    poorer.write_text(
        "isamap: 1\nname: poorer\nsummary: one instruction less\nextends: x86-avx2\n"
        f"remove: [{taken}]\ntarget: {{run: native}}\n"
    )
    second = compile_kernel(
        Request(shipped("gemm_f32"), str(poorer), {"M": 32, "N": 32, "K": 32}, heuristic="greedy")
    )
    assert second.schedule
    assert second.schedule.nests[0].mapping.split()[0] != taken


def test_a_machine_without_a_move_says_so() -> None:
    with pytest.raises(IsamapError) as refused:
        compile_kernel(Request(shipped("gemm_f32"), "drafts/nvidia-mma", {"M": 16, "N": 8, "K": 16}))
    assert refused.value.exit_code in (2, 3)
