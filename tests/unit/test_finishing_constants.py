"""Constants that finish a tile are made behind its sums: in front, they would take a register from them."""

from __future__ import annotations

import re

from isamap.driver.compiling import compile_program
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.source import Source

RELU = """kernel relu(N) {
  inout C: f32[N];
  for n in N { C[n] = max(C[n], 0); }
}
"""


def emitted(source: Source, model: bool = False, **sizes: int) -> str:
    compilation = compile_program(Request(source, "x86-avx2", sizes, model=model)).compilation
    assert compilation.emitted is not None
    return compilation.emitted.source


def test_a_constant_behind_a_loop_of_sums_is_made_where_it_stands() -> None:
    path = kernel_path("gemm_bias_relu_f32")
    text = emitted(Source(path.name, path.read_text()), M=64, N=64, K=64)
    made = re.findall(r"_mm256_set1_ps\((.*0\.0f.*)\);", text)
    assert made
    assert set(made) == {"made_here_float(0.0f)"}


def test_a_constant_of_an_innermost_loop_is_left_to_the_compiler() -> None:
    text = emitted(Source("relu.ir", RELU), N=4096)
    assert re.findall(r"_mm256_set1_ps\((.*)\);", text)
    assert "made_here" not in text


def test_a_model_has_its_constants_as_they_are() -> None:
    path = kernel_path("gemm_bias_relu_f32")
    text = emitted(Source(path.name, path.read_text()), model=True, M=64, N=64, K=64)
    assert "0.0f" in text
    assert "__asm__" not in text
