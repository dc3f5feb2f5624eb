"""Products whose weights are packed before: right on every machine, and only with weights that fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import isamap
from isamap.driver.request import Request, Size
from isamap.driver.runnable import CompiledKernel, PreparedKernel, prepare
from isamap.driver.verifying import all_cases, verify_case
from isamap.emit.c_interface import STATUSES
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.plan.text import print_schedule
from isamap.run.fills import make_arrays
from isamap.run.runner import packed_arrays, run_program
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel

MACHINES = ("generic-c", "x86-avx2", "x86-avx512", "x86-avx512-vnni", "x86-avx512-bf16", "x86-amx")
TYPES = ("f32", "f64", "bf16", "bf16_f32", "u8s8", "s8s8")
WRONG_LAYOUT = [name for name, _ in STATUSES].index("WRONG_LAYOUT")


def shipped(name: str) -> Source:
    return Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))


def packed(
    name: str, hw: str, sizes: dict[str, Size], *operands: str, threads: int = 1, schedule: str = ""
) -> PreparedKernel:
    given = Source("x", schedule) if schedule else None
    return prepare(
        Request(
            shipped(name),
            hw,
            sizes,
            schedule=given,
            heuristic="greedy",
            threads=threads,
            packed=operands or ("B",),
        )
    )


@pytest.mark.exhaustive(fast=4)
@pytest.mark.hardware
@pytest.mark.parametrize("hw", MACHINES)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_packed_product_is_right_at_any_number_of_rows(hw: str, dtype: str) -> None:
    prepared = packed(f"gemm_{dtype}", hw, {"M": "1..200@64", "N": 37, "K": 70})
    for m in (1, 17, 64):
        case = verify_case(prepared, {"M": m, "N": 37, "K": 70}, "integers")
        assert case.ok, case.problems[0].render()
        assert case.guarded


@pytest.mark.hardware
@pytest.mark.parametrize("hw", ["generic-c", "x86-avx2", "x86-avx512-vnni"])
@pytest.mark.parametrize("operand", ["B", "scale"])
def test_weights_of_four_bits_are_computed_behind_the_load_of_their_packed_bytes(
    hw: str, operand: str
) -> None:
    sizes: dict[str, Size] = {"M": "1..70@16", "N": 64, "G": 3}
    prepared = packed("gemm_w4_f32", hw, sizes, operand)
    assert prepared.program.compilation.schedule is not None
    text = print_schedule(prepared.program.compilation.schedule)
    assert f"stage b.{['B', 'scale'].index(operand)} packed;" in text, text
    for m in (1, 17, 64):
        case = verify_case(prepared, {"M": m, "N": 64, "G": 3}, "random")
        assert case.ok, case.problems[0].render()
    again = packed("gemm_w4_f32", hw, sizes, operand, schedule=text)
    assert again.program.compilation.schedule == prepared.program.compilation.schedule


def test_tiles_that_an_axis_cuts_are_not_computed_of_packed_bytes() -> None:
    """The scale of a tile would be read beyond the end of its row."""
    made = packed("gemm_w4_f32", "x86-avx512", {"M": 16, "N": 50, "G": 3})
    assert made.program.compilation.schedule is not None
    (nest,) = made.program.compilation.schedule.nests
    assert "i: n" not in nest.mapping, nest.mapping
    assert verify_case(made, {"M": 16, "N": 50, "G": 3}, "random").ok


@pytest.mark.hardware
@pytest.mark.parametrize(("name", "start"), [("gemm_q4_0", 1), ("gemm_q4_k", 3), ("gemm_q8_0", 1)])
def test_blocks_of_quantised_weights_are_dot_products_of_bytes_that_lie_in_place(
    name: str, start: int
) -> None:
    sizes = {"M": 3, "N": 2, "G": 2}
    made = prepare(Request(shipped(name), "x86-avx512-vnni", dict(sizes), heuristic="greedy"))
    assert made.program.compilation.schedule is not None
    (products,) = (n for n in made.program.compilation.schedule.nests if n.mapping.startswith("dpbusd_"))
    assert start in products.fused, (
        products.fused
    )  # sums begin with 0, or with the correction for signed values
    assert not products.stages, products.stages  # weights and activations are read where they lie
    assert verify_case(made, sizes, "random").ok


@pytest.mark.parametrize("storage", ["nt", "tn"])
def test_how_an_operand_is_stored_does_not_matter(storage: str) -> None:
    prepared = packed(f"gemm_{storage}_f32", "x86-avx512", {"M": 33, "N": 65, "K": 41})
    assert all(case.ok for case in all_cases(prepared, ("integers", "random"), guard=True))


def test_all_sizes_may_be_open_and_both_factors_packed_and_threads_take_part() -> None:
    sizes: dict[str, Size] = {"M": "1..90@64", "N": "1..90@64", "K": "1..90@64"}
    prepared = packed("gemm_f32", "x86-avx512", sizes, "A", "B", threads=2)
    for case in all_cases(prepared, ("integers",), guard=True):
        assert case.ok, case.problems[0].render()


@pytest.mark.parametrize(("axis", "rows"), [("m", 37), ("m", "1..90@37"), ("n", 37), ("k", 37)])
def test_parts_on_threads_share_what_is_packed(axis: str, rows: Size) -> None:
    sizes: dict[str, Size] = {"M": rows, "N": 70, "K": 45}
    fixed = {f"parallel.{axis}": 2}
    request = Request(shipped("gemm_f32"), "x86-avx512", sizes, fixed=fixed, threads=2, packed=("B",))
    prepared = prepare(request)
    assert prepared.compiled.interface.takes_pool
    for case in all_cases(prepared, ("integers",), guard=True):
        assert case.ok, case.problems[0].render()


def test_weights_of_a_recurrence_are_packed_once_for_all_turns() -> None:
    prepared = packed("gru", "x86-avx512", {"T": 3, "N": 4, "C": 9, "H": 21}, "U")
    for case in all_cases(prepared, ("integers", "random"), guard=True):
        assert case.ok, case.problems[0].render()


# --- what is packed ---------------------------------------------------------------------------------------


def b_of(prepared: PreparedKernel, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    return make_arrays(bind(parse_kernel(prepared.request.kernel), sizes), "random")


def test_packing_twice_gives_the_same_bytes_and_the_product_the_same_bits_as_unpacked() -> None:
    sizes = {"M": 33, "N": 70, "K": 45}
    prepared = packed("gemm_f32", "x86-avx512", dict(sizes))
    arrays = b_of(prepared, sizes)
    first, second = (packed_arrays(prepared.packers, arrays, {}, guard=True) for _ in range(2))
    assert first["B_packed"].tobytes() == second["B_packed"].tobytes()
    schedule = prepared.program.compilation.schedule
    assert schedule is not None
    text = print_schedule(schedule).replace("stage b packed;", "stage b;")
    plain = prepare(Request(shipped("gemm_f32"), "x86-avx512", dict(sizes), schedule=Source("x", text)))
    ours = run_program(prepared.compiled, first).arrays["C"]
    theirs = run_program(plain.compiled, arrays).arrays["C"]
    assert ours.tobytes() == theirs.tobytes()


def test_one_packed_operand_serves_every_number_of_rows_also_of_other_programs() -> None:
    """The layout depends on neither M nor on how M is cut."""
    fix = {"nest0.block.k": 45, "nest0.block.n": 64, "nest0.unroll.n": 4}
    rng = np.random.default_rng(1)
    b = rng.random((45, 70), np.float32)
    kernels = [
        isamap.compile("gemm_f32", "x86-avx512", {"M": m, "N": 70, "K": 45}, fix=fix, packed=("B",))
        for m in ("1..100@8", 5, 64)
    ]
    given = kernels[0].pack(B=b)
    for kernel, m in ((kernels[0], 3), (kernels[0], 99), (kernels[1], 5), (kernels[2], 64)):
        a, c = rng.random((m, 45), np.float32), np.zeros((m, 70), np.float32)
        kernel({"M": m} if kernel is kernels[0] else {}, A=a, C=c, **given)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_a_packed_operand_begins_at_a_cache_line_and_says_how_it_is_laid_out() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": 4, "N": 8, "K": 8}, packed=("B",))
    given = kernel.pack(B=np.ones((8, 8), np.float32))["B_packed"]
    assert given.ctypes.data % 64 == 0
    (entry,) = kernel.prepared.program.outcome.summary["packed"]
    assert given.tobytes()[:32].decode() == entry["layout"]
    assert given.nbytes == entry["bytes"]


# --- what is refused --------------------------------------------------------------------------------------


def status(kernel: CompiledKernel, m: int, n: int, k: int, given: np.ndarray, sizes: dict[str, int]) -> int:
    arrays = {"A": np.ones((m, k), np.float32), "C": np.zeros((m, n), np.float32), "B_packed": given}
    return run_program(kernel.prepared.compiled, arrays, sizes, guard=True).status


def test_what_was_never_packed_is_refused() -> None:
    kernel = isamap.compile("gemm_f32", "x86-avx512", {"M": 4, "N": 32, "K": 8}, packed=("B",))
    good = kernel.pack(B=np.ones((8, 32), np.float32))["B_packed"]
    assert status(kernel, 4, 32, 8, good, {}) == 0
    assert status(kernel, 4, 32, 8, np.zeros_like(good), {}) == WRONG_LAYOUT
    torn = good.copy()
    torn.view(np.uint8)[31] ^= 1
    assert status(kernel, 4, 32, 8, torn, {}) == WRONG_LAYOUT


def test_what_was_packed_by_another_machines_program_is_refused() -> None:
    sizes: dict[str, Size] = {"M": 4, "N": 32, "K": 8}
    wide, narrow = (isamap.compile("gemm_f32", hw, sizes, packed=("B",)) for hw in ("x86-avx512", "x86-avx2"))
    given = narrow.pack(B=np.ones((8, 32), np.float32))["B_packed"]
    assert status(wide, 4, 32, 8, given, {}) == WRONG_LAYOUT


def test_what_was_packed_at_another_size_that_only_the_run_knows_is_refused() -> None:
    sizes: dict[str, Size] = {"M": 4, "N": "1..64@32", "K": 8}
    kernel = isamap.compile("gemm_f32", "x86-avx512", sizes, packed=("B",))
    given = kernel.pack({"N": 32}, B=np.ones((8, 32), np.float32))["B_packed"]
    assert status(kernel, 4, 32, 8, given, {"N": 32}) == 0
    assert status(kernel, 4, 31, 8, given, {"N": 31}) == WRONG_LAYOUT


def test_a_call_with_the_wrong_layout_says_so_in_python() -> None:
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": 2, "N": 4, "K": 4}, packed=("B",))
    given = kernel.pack(B=np.ones((4, 4), np.float32))["B_packed"]
    given[:8] = 0
    with pytest.raises(UsageProblem, match="refused its arguments: a packed tensor was not packed"):
        kernel(A=np.ones((2, 4), np.float32), C=np.zeros((2, 4), np.float32), B_packed=given)
    with pytest.raises(UsageProblem, match="does not take `A` packed"):
        kernel.pack(A=np.ones((2, 4), np.float32))


def test_the_emitted_c_is_used_as_its_header_says(tmp_path: Path) -> None:
    """A caller that knows nothing but the two headers."""
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": 2, "N": 4, "K": 4}, packed=("B",))
    header = kernel.files["gemm_f32.h"]
    assert "gemm_f32_WRONG_LAYOUT = 6" in header
    assert "const float *B_packed; /* B, packed:" in header
    assert (
        "size_t gemm_f32_pack_B_bytes(const gemm_f32_pack_B_args *args);" in kernel.files["gemm_f32_pack_B.h"]
    )
    assert "WRONG_LAYOUT" not in kernel.files["gemm_f32_pack_B.h"]
