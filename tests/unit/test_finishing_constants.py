"""Constants that finish a tile are made behind its sums: in front, they would take a register from them."""

from __future__ import annotations

import re

from isamap.driver.compiling import compile_program
from isamap.driver.request import Request
from isamap.emit.c import EmittedC
from isamap.kernels import kernel_path
from isamap.source import Source

RELU = """kernel relu(N) {
  inout C: f32[N];
  for n in N { C[n] = max(C[n], 0); }
}
"""


def emitted(source: Source, model: bool = False, **sizes: int) -> str:
    compilation = compile_program(Request(source, "x86-avx2", sizes, model=model)).compilation
    assert isinstance(compilation.emitted, EmittedC)
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


ROWS = """kernel rows(M, N, K) {
  in A: f32[M, K];
  in B: f32[K, N];
  in first: f32[M];
  out C: f32[M, N];
  for m in M, n in N { C[m, n] = first[m]; }
  for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
}
"""


def starts_of(fixed: dict[str, int]) -> set[str]:
    request = Request(Source("rows.ir", ROWS), "x86-avx2", {"M": 64, "N": 64, "K": 64}, fixed=fixed)
    made = compile_program(request).emitted
    return set(re.findall(r"_mm256_set1_ps\((.*first.*)\);", made.source))


TILES = {"nest1.unroll.m": 2, "nest1.unroll.n": 2, "nest1.unroll.k": 1}


def test_what_sums_start_from_is_read_where_they_start_in_a_loop_that_does_not_move_it() -> None:
    inside = starts_of({**TILES, "nest1.sweep.m.n": 1})
    assert inside == {f"made_here_float(*(first + {place}))" for place in ("2*m0", "2*m0 + 1")}


def test_what_sums_start_from_is_left_to_the_compiler_in_a_loop_that_moves_it() -> None:
    assert starts_of({**TILES, "nest1.sweep.m.n": 0}) == {"*(first + 2*m0)", "*(first + 2*m0 + 1)"}
