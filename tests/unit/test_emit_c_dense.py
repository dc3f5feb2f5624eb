"""Versions for tensors without gaps: which numbers they take, when they are called, and what both compute."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from isamap.driver.compiling import compile_program
from isamap.driver.request import Request, Size
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import rows_apart, verify_case
from isamap.emit.c_parts import CFunction, used_in_loops
from isamap.ir import bind
from isamap.kernels import kernel_path
from isamap.run.fills import make_arrays, taken_bytes, with_gaps
from isamap.run.runner import run_program
from isamap.run.toolchain import compile_library
from isamap.source import Source
from isamap.syntax import parse_kernel

SIZES = {"M": 7, "N": 20, "K": 11}
A, LINES, PLACE = ("const float *A", "A"), ("int64_t A_s0", "A_s0"), ("int64_t part", "part")
BOTH = CFunction("f", (A, LINES, PLACE), (("A_s0", 2048),), "f_dense", "f_strided")


def gemm() -> Source:
    path = kernel_path("gemm_f32")
    return Source(path.name, path.read_text())


@pytest.fixture(scope="module")
def made() -> PreparedKernel:
    return prepare(Request(gemm(), "generic-c", SIZES))


def source(prepared: PreparedKernel) -> str:
    emitted = prepared.program.emitted
    return emitted.source


def test_a_function_without_strides_has_one_version() -> None:
    one = CFunction("f", (A, PLACE))
    assert one.text(["  work();"])[0] == "static void f(\n    const float *A,\n    int64_t part) {"
    assert one.call(["given->A", "2"]) == ["f(given->A, 2);"]


def test_numbers_are_given_where_the_caller_has_the_same() -> None:
    text = "\n".join(BOTH.text(["  work();"]))
    assert "static void" not in text.split("{")[0]  # always inlined into its versions
    assert "f_dense(\n    const float *A,\n    int64_t part) {\n  f(A, 2048, part);" in text
    assert (
        "f_strided(\n    const float *A,\n    int64_t A_s0,\n    int64_t part) {\n  f(A, A_s0, part);" in text
    )
    assert BOTH.call(["args->A", "lines", "p"]) == [
        "if (lines == 2048) {",
        "  f_dense(args->A, p);",
        "} else {",
        "  f_strided(args->A, lines, p);",
        "}",
    ]


def test_only_strides_that_loops_use_are_worth_a_version() -> None:
    lines = ["  copy(A, A_s0, m0);", "  for (int64_t m0 = 0; m0 < 4; m0++) {", "    x += C[C_s0*m0];", "  }"]
    assert "C_s0" in used_in_loops(lines, {"copy(A, A_s0, m0);"})
    assert "A_s0" not in used_in_loops(lines, {"copy(A, A_s0, m0);"})
    assert used_in_loops(["  x += C[C_s0];"], ()) == frozenset()


def test_a_product_has_the_strides_of_its_sizes(made: PreparedKernel) -> None:
    (test,) = re.findall(r"if \((.* == .*)\) \{\n +gemm_f32_dense", source(made))
    strides = {"A_s0": SIZES["K"], "B_s0": SIZES["N"], "C_s0": SIZES["N"]}
    assert test == " && ".join(f"{name} == {value}" for name, value in strides.items())


def test_strides_by_sizes_of_the_call_are_no_numbers() -> None:
    sizes: dict[str, Size] = {**SIZES, "K": "1..64@11"}
    text = source(prepare(Request(gemm(), "generic-c", sizes)))
    (test,) = re.findall(r"if \((.* == .*)\) \{\n +gemm_f32_dense", text)
    assert test == "B_s0 == 20 && C_s0 == 20"


def test_models_have_one_version() -> None:
    assert "_dense(" not in source(prepare(Request(gemm(), "x86-avx2", SIZES, model=True)))


def test_both_versions_give_the_same(made: PreparedKernel) -> None:
    arrays = make_arrays(bind(parse_kernel(gemm()), SIZES), "integers")
    apart = {name: with_gaps(array, 64, 1 << 20) for name, array in arrays.items()}
    assert all(apart[n].strides[0] == arrays[n].strides[0] + 64 for n in arrays)
    together, loose = run_program(made.compiled, arrays), run_program(made.compiled, apart)
    assert together.status == loose.status == 0
    assert np.array_equal(together.arrays["C"], loose.arrays["C"])


@pytest.mark.parametrize(
    ("version", "fill"), [("gemm_f32_dense", "integers"), ("gemm_f32_strided", "random")]
)
def test_each_version_is_verified(made: PreparedKernel, version: str, fill: str) -> None:
    emitted = made.program.emitted
    head, called, rest = emitted.source.rpartition(f"    {version}(")
    wrong = replace(emitted, source=f"{head}    (void)sizeof {called.strip()}{rest}")
    spoilt = replace(made, compiled=compile_library(wrong, made.machine))
    right = {"integers", "random", "edges"} - {fill}
    if version.endswith("_dense"):
        right -= {"edges"}
    assert not verify_case(spoilt, SIZES, fill).ok
    assert all(verify_case(spoilt, SIZES, other).ok for other in right)


@pytest.mark.parametrize("value", [0, 1])
def test_what_is_written_between_rows_is_found(made: PreparedKernel, value: int) -> None:
    emitted = made.program.emitted
    beyond = f"  args->C[args->C_stride0 / 4 - 1] = {value};\n  return gemm_f32_OK;"
    wrong = replace(emitted, source=emitted.source.replace("  return gemm_f32_OK;", beyond))
    spoilt = replace(made, compiled=compile_library(wrong, made.machine))
    case = verify_case(spoilt, SIZES, "random")
    assert [p.message for p in case.problems] == ["`C` is written between its rows"]


def test_what_would_grow_too_much_has_no_gaps() -> None:
    array = np.ones((10, 1), np.uint8)
    assert with_gaps(array, 64, 650).strides == (65, 1)
    assert with_gaps(array, 64, 649) is array
    assert taken_bytes(with_gaps(array, 64, 650)) == 9 * 65 + 1


def test_strides_that_a_kernel_promises_stay() -> None:
    text = gemm().text.replace("{", "where stride(A, 0) == K {", 1)
    prepared = prepare(Request(Source("promised.ir", text), "generic-c", SIZES))
    kernel = bind(parse_kernel(Source("promised.ir", text)), SIZES)
    apart = rows_apart(make_arrays(kernel, "random"), kernel, prepared)
    assert apart["A"].strides[0] == 4 * SIZES["K"]
    assert apart["B"].strides[0] == 4 * SIZES["N"] + 64


def test_parts_for_threads_have_versions_too_and_names_that_no_tensor_takes() -> None:
    text = gemm().text.replace("gemm_f32", "g")
    for operand, name in (("A", "g_part0"), ("B", "g_part0_dense")):
        text = re.sub(rf"\b{operand}\b", name, text)
    request = Request(Source("g.ir", text), "x86-avx2", {"M": 512, "N": 512, "K": 64}, threads=2, model=False)
    emitted = compile_program(request).emitted
    parameters = re.findall(r"\n    [^\n]*?(\w+)[,)]", emitted.source)
    functions = re.findall(r"^static [^\n]*void (\w+)\(", emitted.source, re.MULTILINE)
    assert {"g_part0", "g_part0_dense"} <= set(parameters)
    assert not set(functions) & set(parameters)
    assert "if (given->" in emitted.source
    assert re.search(r"given->\w+ == 64 && .*\{\n +g_part0\w*_dense\w*\(", emitted.source)
