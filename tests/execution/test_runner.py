"""Compiled programs in a child process and in this one: results, refusals, guards, limits."""

from __future__ import annotations

import ctypes
import gc
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from programs import gemm, multiply

import isamap
from isamap.emit.c import emit_c
from isamap.ir import Index
from isamap.lower.program import Buffer, Fill, For
from isamap.machine import load_machine
from isamap.run import toolchain
from isamap.run.arguments import make_call
from isamap.run.in_process import InProcess
from isamap.run.runner import ChildLimits, RunProblem, run_program
from isamap.run.toolchain import Compiled, compile_library
from isamap.run.worker import load_function, make_arguments
from isamap.source import UsageProblem

GENERIC = load_machine("generic-c")
SIZES = {"M": 7, "N": 33}


def compiled(compiler: str | None = None, **changes: Any) -> Compiled:
    return compile_library(emit_c(gemm(**changes), GENERIC), GENERIC, compiler=compiler)


def data(rows: int = 7) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((5, 40)).astype(np.float32)
    a = rng.standard_normal((rows, 5)).astype(np.float32)
    return {"A": a, "B": wide[:, :33], "C": np.ones((rows, 33), np.float32)}


def expected(arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    return arrays["C"] + arrays["A"] @ arrays["B"]


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_a_program_computes_what_its_kernel_says(compiler: str) -> None:
    import importlib.util

    there = importlib.util.find_spec("ziglang") if compiler == "zig" else shutil.which(compiler)
    if not there:
        pytest.skip(f"{compiler} is not installed")
    arrays = data()
    result = run_program(compiled(compiler), arrays, SIZES, guard=True, repeat=2)
    assert result.status == 0
    assert len(result.seconds) == 2
    np.testing.assert_allclose(result.arrays["C"], expected(arrays), rtol=1e-5, atol=1e-5)
    assert (arrays["C"] == 1).all(), "arrays stay as they are"


def test_a_program_runs_in_this_process_without_copies() -> None:
    arrays = data()
    reference = expected(arrays)
    program = InProcess(compiled())
    assert program(arrays, SIZES) == 0
    np.testing.assert_allclose(arrays["C"], reference, rtol=1e-5, atol=1e-5)


def test_the_model_of_a_program_gives_the_same_numbers() -> None:
    arrays = data()
    model = compile_library(emit_c(gemm(), GENERIC, model=True), GENERIC, model=True)
    found = run_program(model, arrays, SIZES).arrays["C"]
    np.testing.assert_array_equal(found, run_program(compiled(), arrays, SIZES).arrays["C"])


def test_rows_may_lie_apart_and_what_is_between_them_stays() -> None:
    arrays = data()
    room = np.full((7, 50), 3, np.float32)
    room[:, :33] = 1
    reference = expected(arrays)
    assert InProcess(compiled())({**arrays, "C": room[:, :33]}, SIZES) == 0
    np.testing.assert_allclose(room[:, :33], reference, rtol=1e-5, atol=1e-5)
    assert (room[:, 33:] == 3).all()


def test_calls_from_several_threads_have_workspaces_of_their_own() -> None:
    """They shared one, so that each overwrote what others had staged: one result in fourteen was wrong."""
    fix = {"stage.b": 2, "block.k": 64}
    kernel = isamap.compile("gemm_f32", "generic-c", {"M": 64, "N": 64, "K": 256}, fix=fix)
    wrong: list[int] = []

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((64, 256), (256, 64)))
        for _ in range(300):
            found = kernel(A=a, B=b, C=np.zeros((64, 64), np.float32))["C"]
            wrong.extend([] if np.array_equal(found, a @ b) else [seed])

    threads = [Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- refusals ---------------------------------------------------------------------------------------------


def test_a_size_outside_of_its_range_is_refused_by_status() -> None:
    result = run_program(compiled(), data(65), {"M": 65, "N": 33})
    assert (result.status, result.meaning) == (
        3,
        "a run-time size is outside of the range that the program was made for",
    )


def test_a_requirement_that_is_not_met_is_refused_by_status() -> None:
    even = (Index.of("M").mod(2), "==", Index.of(0))
    assert run_program(compiled(checks=(even,)), data(), SIZES).status == 5
    assert run_program(compiled(checks=(even,)), data(6), {"M": 6, "N": 33}).status == 0


@pytest.mark.parametrize(("rows_apart", "status"), [(0, 4), (1, 4), (32, 4), (-32, 4), (33, 0)])
def test_rows_of_a_result_that_overlap_are_refused_by_the_emitted_code(rows_apart: int, status: int) -> None:
    for rows, expected_status in ((7, status), (1, 0)):  # a single row overlaps none
        made, arrays = compiled(), {**data(rows), "C": np.zeros((rows, 33), np.float32)}
        call = make_call(made.interface, arrays, {"M": rows, "N": 33}, {}, in_place=True)
        reference = made.interface.fields.index(
            next(f for f in made.interface.fields if f.member == "C_stride0")
        )
        kind, c_type, _ = call.fields[reference]
        call.fields[reference] = (kind, c_type, 4 * rows_apart)
        arguments = make_arguments(call.fields, [t.array.ctypes.data for t in call.tensors])
        function, workspace_bytes = load_function(str(made.library), made.interface.name)
        pointer = ctypes.addressof(arguments)
        room = ctypes.create_string_buffer(workspace_bytes(pointer) or 1)
        assert function(pointer, ctypes.addressof(room), None) == expected_status
        assert arrays["C"].any() == (expected_status == 0)


def test_a_library_goes_with_the_program_that_was_loaded_from_it(tmp_path: Path) -> None:
    made = compiled()
    for number in range(20):
        library = tmp_path / f"{number}.so"
        shutil.copy(made.library, library)
        assert InProcess(replace(made, library=library))(data(), SIZES) == 0
    gc.collect()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_an_alignment_is_a_requirement_of_the_pointer() -> None:
    aligned = (Index.of("align(C)").mod(64), "==", Index.of(0))
    program = InProcess(compiled(checks=(aligned,)))
    arrays = data()
    room = np.zeros(7 * 33 + 64, np.float32)
    start = (-room.ctypes.data % 64) // 4
    for shift, status in ((0, 0), (1, 5)):
        piece = room[start + shift : start + shift + 7 * 33].reshape(7, 33)
        assert program({**arrays, "C": piece}, SIZES) == status


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"A": np.zeros((7, 5))}, "`A` is f32[7, 5], the array given is float64[7, 5]"),
        ({"B": np.zeros((5, 32), np.float32)}, "`B` is f32[5, 33], the array given is float32[5, 32]"),
        ({"D": np.zeros(3)}, "`gemm`: it takes no array `D`"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem) as found:
        run_program(compiled(), {**data(), **change}, SIZES)
    assert found.value.diagnostics[0].message == said


def test_missing_sizes_are_refused_by_name() -> None:
    with pytest.raises(UsageProblem, match="the size `N` is not given"):
        run_program(compiled(), data(), {"M": 7})


def test_written_arrays_have_to_be_writable_in_place() -> None:
    arrays = data()
    arrays["C"].flags.writeable = False
    with pytest.raises(UsageProblem, match="read-only"):
        InProcess(compiled())(arrays, SIZES)


# --- guards and limits ------------------------------------------------------------------------------------


def test_a_row_too_many_is_caught_by_the_guard_page() -> None:
    beyond = compiled(rows=Index.of("M") + 1)
    with pytest.raises(RunProblem) as found:
        run_program(beyond, data(), SIZES, guard=True)
    assert found.value.diagnostics[0].code == "program-crashed"
    assert "accessed memory directly next to its tensors (SIGSEGV)" in found.value.diagnostics[0].message


def test_an_element_before_the_first_is_caught_by_the_guard_page() -> None:
    before = multiply(Index.of(0), Index.of(-1), Index.of(0))
    with pytest.raises(RunProblem, match="accessed memory directly next to its tensors"):
        run_program(compiled(before=before), data(), SIZES, guard=True)


def test_the_workspace_may_be_anywhere_and_holds_anything_at_first() -> None:
    packed = Buffer("packed", gemm().tensors[0].dtype, Index.of("N") * 5, "a copy of B")
    wrong = compiled(buffers=(packed,), before=(Fill("packed", Index.of(0), Index.of("N") * 5 + 64),))
    right = compiled(buffers=(packed,), before=(Fill("packed", Index.of(0), Index.of("N") * 5),))
    arrays = data()
    result = run_program(right, arrays, SIZES, guard=True)
    assert result.workspace_bytes == 704 + 63
    np.testing.assert_allclose(result.arrays["C"], expected(arrays), rtol=1e-5, atol=1e-5)
    with pytest.raises(RunProblem, match="accessed memory"):
        run_program(wrong, arrays, SIZES, guard=True)


def test_a_program_that_does_not_end_is_stopped() -> None:
    forever = For("t", Index.of(1 << 50), multiply(Index.of(0), Index.of(0), Index.of(0)))
    with pytest.raises(RunProblem) as found:
        run_program(compiled(before=(forever,)), data(), SIZES, limits=ChildLimits(seconds=0.5))
    assert found.value.diagnostics[0].code == "program-timeout"


def test_memory_has_a_limit() -> None:
    packed = Buffer("packed", gemm().tensors[0].dtype, Index.of("N") * (1 << 28))
    with pytest.raises(RunProblem) as found:
        run_program(compiled(buffers=(packed,)), data(), SIZES, limits=ChildLimits(memory_bytes=1 << 29))
    assert found.value.diagnostics[0].code == "program-out-of-memory"


def test_the_next_run_works_after_a_crash() -> None:
    with pytest.raises(RunProblem):
        run_program(compiled(rows=Index.of("M") + 1), data(), SIZES, guard=True)
    assert run_program(compiled(), data(), SIZES).status == 0


def test_a_library_of_known_files_is_linked_and_none_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ISAMAP_CACHE_DIR", str(tmp_path / "cache"))
    names = [f"f{n}" for n in range(3)]
    files: dict[str, str | bytes] = {
        f"{n}.c": f'#include "{n}.h"\nint {n}(void) {{ return TOLD; }}\n' for n in names
    }
    files |= {f"{n}.h": "#define TOLD 7\n" for n in names}
    compiler = toolchain.find_compiler(())
    compiled: list[str] = []

    def watch(label: str, done: int = 0, count: int = 0) -> None:
        compiled.append(label.rsplit(maxsplit=1)[-1])

    def built(more: dict[str, str | bytes], mains: list[str]) -> int:
        compiled.clear()
        found = toolchain.build(compiler, ("-O2",), files | more, [f"{n}.c" for n in mains], watch=watch)
        return int(ctypes.CDLL(str(found))[mains[0]]())

    assert built({}, names) == 7
    assert compiled == ["f0.c", "f1.c", "f2.c"]
    assert built({}, names[:2]) == 7
    assert compiled == []
    assert built({"f0.h": "#define TOLD 8\n"}, names) == 8
    assert compiled == ["f0.c"]
    image = {"f1.c": '__asm__(".incbin \\"w.bin\\"");\nint f1(void) { return 1; }\n', "w.bin": b"abc"}
    assert built(image, ["f0", "f1"]) == 7
    assert built(image | {"w.bin": b"abd"}, ["f0", "f1"]) == 7
    assert compiled == ["f1.c"]
