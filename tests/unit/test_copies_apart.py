"""Copies inside loops are functions of their own: they take no register from the sums beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from isamap.driver.compiling import compile_program
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.kernels import kernel_path
from isamap.source import Source


def emitted(fixed: Mapping[str, int], *, model: bool = False, threads: int = 1) -> str:
    path = kernel_path("gemm_f32")
    sizes = {"M": 64, "N": 64, "K": 64}
    source = Source(path.name, path.read_text())
    request = Request(source, "x86-avx2", sizes, fixed=fixed, model=model, threads=threads)
    compilation = compile_program(request).compilation
    assert isinstance(compilation.emitted, EmittedC)
    return compilation.emitted.source


STAGED_INSIDE = {"nest0.stage.b": 1, "nest0.block.n": 16, "nest0.block.m": 64, "nest0.block.k": 64}


def parameters(source: str, function: str) -> list[str]:
    found = re.search(rf"void {function}\(([^)]*)\)", source)
    assert found is not None
    return [declaration.split()[-1].lstrip("*") for declaration in found[1].split(",")]


def test_a_copy_inside_a_loop_is_a_function_that_is_not_inlined() -> None:
    source = emitted(STAGED_INSIDE)
    assert "static __attribute__((noinline)) void gemm_f32_copy0(" in source
    body = source[source.index("gemm_f32_body(") :]
    assert re.search(
        r"for \(int64_t n0 = .*\n +gemm_f32_copy0\(B, b_tiles0, B_s0, n0\); /\* stage b \*/", body
    )


def test_a_copy_takes_what_it_uses_and_nothing_else() -> None:
    assert parameters(emitted(STAGED_INSIDE), "gemm_f32_copy0") == ["B", "b_tiles0", "B_s0", "n0"]


def test_a_copy_in_a_part_of_a_thread_is_given_the_counter_of_the_part() -> None:
    source = emitted({**STAGED_INSIDE, "nest0.parallel.n": 2}, threads=2)
    assert "int64_t part)" in source
    assert len(parameters(source, "gemm_f32_copy0")) == 5


def test_a_copy_in_front_of_all_loops_stays_where_it_is() -> None:
    source = emitted({"nest0.stage.b": 2})
    assert "stage b" in source
    assert "copy0" not in source


def test_models_of_instructions_are_called_where_they_stand() -> None:
    assert "copy0" not in emitted(STAGED_INSIDE, model=True)
