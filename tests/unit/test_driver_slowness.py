"""What is said of statements that other instructions would perform faster."""

from __future__ import annotations

from pathlib import Path

import pytest

from isamap.cli import main
from isamap.driver.explaining import form_warnings
from isamap.driver.pipeline import compile_kernel
from isamap.driver.request import Request
from isamap.kernels import kernel_path
from isamap.machine import load_machine
from isamap.report.compilation import MANY_BUFFERS, workspace_lines
from isamap.source import Source
from isamap.syntax import parse_kernel

QUANTISED = """kernel k(M, N, K, scalar zx: i32) {
  in x: u8[M, K];
  in w: u8[N, K];
  inout y: i32[M, N];
  for m in M, n in N, k in K { y[m, n] += (i32(x[m, k]) - zx) * i32(w[n, k]); }
}"""
IN_ORDER = """strict kernel k(N) {
  in x: f32[N];
  inout y: f32[1];
  for i in 1, n in N { y[i] += x[n]; }
}"""


def test_a_product_with_zero_points_is_told_of_its_faster_form() -> None:
    (found,) = form_warnings(parse_kernel(Source("k.ir", QUANTISED)), load_machine("x86-avx2"))
    text = found.render()
    assert "warning[form-slow]: `y[m, n] += (i32(x[m, k]) - zx) * i32(w[n, k]);` takes offsets off" in text
    assert "note: without them dot2_ymm_i16 would perform it" in text
    assert "`--transform` takes them out of the sum" in text


def test_a_product_without_them_is_told_nothing() -> None:
    plain = QUANTISED.replace("(i32(x[m, k]) - zx)", "i32(x[m, k])")
    assert form_warnings(parse_kernel(Source("k.ir", plain)), load_machine("x86-avx2")) == ()


def test_a_guard_by_a_remainder_is_told_of_the_form_that_scatters() -> None:
    text = """kernel k(P, R, H, s: 1..32) where (P - 1) / s < H {
      in x: f32[H];
      in w: f32[R];
      inout y: f32[P];
      for i in P, r in R if (i - r) % s == 0 { y[i] += (x[(i - r) / s] else 0) * w[r]; }
    }"""
    request = Request(
        Source("k.ir", text), "x86-avx2", {"P": 60, "R": 3, "H": 9, "s": 20}, heuristic="greedy"
    )
    found = "\n".join(d.render() for d in compile_kernel(request, "schedule").warnings)
    assert "scalar-only" in found
    assert "for `(i - r) % 20`" in found
    assert "`y[h*20 + r] += x[h] * w[r]`" in found


@pytest.mark.parametrize(
    ("operand", "value", "said"),
    [
        ("t: f32[256, 8]", "t[c[n], 3]", "declare `t` with `strides(8, 1)`"),
        ("x: f32[N]", "x[N - 1 - n] * 2", "`x` is read in steps of -1 along `n`"),
        ("x: f32[3*N]", "x[3*n] * 2", "`x` is read in steps of 3 along `n`"),
    ],
)
def test_a_read_that_no_vector_loads_is_told_of_the_layout_that_would_do(
    operand: str, value: str, said: str
) -> None:
    text = f"""kernel k(N) {{
      in {operand};
      in c: u8[N] values 0..255;
      out y: f32[N];
      for n in N {{ y[n] = {value}; }}
    }}"""
    request = Request(Source("k.ir", text), "x86-avx512", {"N": 1000}, heuristic="greedy")
    assert said in "\n".join(d.render() for d in compile_kernel(request, "schedule").warnings)
    stated = Request(
        Source("k.ir", text.replace("8];\n", "8] strides(8, 1);\n")),
        "x86-avx512",
        {"N": 1000},
        heuristic="greedy",
    )
    silent = not compile_kernel(stated, "schedule").warnings
    assert silent == (operand[0] == "t")


def test_a_sum_over_clamped_indices_is_told_of_a_copy_with_a_margin() -> None:
    text = """kernel k(H, W) {
      in x: f32[H, W];
      in w: f32[5];
      inout y: f32[H, W];
      for i in H, j in W, s in 5 { y[i, j] += w[s] * x[i, min(max(j + s - 2, 0), W - 1)]; }
    }"""
    request = Request(Source("k.ir", text), "x86-avx2", {"H": 9, "W": 40}, heuristic="greedy")
    found = "\n".join(d.render() for d in compile_kernel(request, "schedule").warnings)
    assert "copy `x` once to a `temp` with a margin" in found


@pytest.mark.parametrize(("length", "count"), [(64, 1), (1, 0)])
def test_lanes_of_which_one_is_busy_are_no_lanes(length: int, count: int) -> None:
    request = Request(Source("k.ir", IN_ORDER), "x86-avx2", {"N": length}, heuristic="greedy")
    found = [d.render() for d in compile_kernel(request, "schedule").warnings]
    assert len(found) == count
    assert all("scalar-only" in text for text in found)


def test_a_value_computed_before_its_instruction_names_the_operation_without_lanes() -> None:
    text = """kernel k(M, N) {
      in x: f32[M, N];
      in y: i32[M, N];
      out best: i32[M];
      temp top: f32[M];
      for m in M { top[m] = -inf; best[m] = i32(N); }
      for m in M, n in N { top[m] max= x[m, n]; }
      for m in M, n in N { best[m] min= select(x[m, n] == top[m], y[m, n] / 3, i32(N)); }
    }"""
    request = Request(Source("k.ir", text), "x86-avx512", {"N": 64, "M": 16}, heuristic="greedy")
    (found,) = (d.render() for d in compile_kernel(request, "schedule").warnings)
    assert "computes the operands of running_min_zmm_i32 for `best[m] min= " in found
    assert "on several elements at once: `y[m, n] / 3`" in found
    assert "`--transform` tries to reduce along lanes of `n`" in found


def test_matching_warns_of_what_compilation_does_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.ir"
    text = """kernel k(N) {
      in x: i32[N]; out y: i32[N]; out z: i32[N];
      for n in N { y[n] = x[n] / 3; z[n] = x[n]; }
    }"""
    path.write_text(text)
    assert main(["match", str(path), "--hw", "x86-avx512", "-D", "N=64"]) == 0
    said = capsys.readouterr().err
    assert said.count("warning[scalar-only]") == 1
    assert "k.ir:3:20: warning[scalar-only]: x86-avx512 performs" in said
    assert main(["match", str(path), "--hw", "generic-c", "-D", "N=64"]) == 0
    assert "scalar-only" not in capsys.readouterr().err


def test_many_buffers_of_one_kind_share_a_line_of_the_workspace() -> None:
    text = """kernel k(M, N) {
      in x: f32[M, N];
      out v: f32[M];
      for m in M { v[m] = -inf; }
      for m in M, n in N { v[m] max= x[m, n]; }
    }"""
    made = compile_kernel(
        Request(Source("k.ir", text), "x86-avx512", {"M": 300, "N": 512}, heuristic="greedy")
    )
    assert made.program is not None
    buffers = made.program.buffers
    lines = list(workspace_lines(made.program))
    assert len(buffers) > MANY_BUFFERS, "else nothing is shared"
    assert len(lines) < len(buffers)
    assert sum("more like it, to" in line for line in lines) >= 1


def test_a_conversion_that_lanes_perform_in_another_way_is_named() -> None:
    text = "kernel k(N) { in x: f32[N]; out y: i32[N]; for n in N { y[n] = wrap_i32(x[n]); } }"
    request = Request(Source("k.ir", text), "x86-avx512", {"N": 64}, heuristic="greedy")
    (found,) = (d.render() for d in compile_kernel(request, "schedule").warnings)
    assert "converts f32 to i32 and wraps around on several elements at once: `wrap_i32(x[n])`" in found


def test_a_zero_point_added_after_rounding_needs_no_scalar_code() -> None:
    text = """kernel k(N, scalar z: i32, scalar s: f32) {
      in a: i8[N]; out y: i8[N];
      for n in N { y[n] = sat_i8(sat_i32(round(f32(i32(a[n])) * s, even)) + z); }
    }"""
    request = Request(Source("k.ir", text), "x86-avx512", {"N": 64}, heuristic="greedy")
    assert compile_kernel(request, "schedule").warnings == ()


@pytest.mark.parametrize(
    ("name", "hw", "sizes"),
    [
        ("gemm_q8_0", "x86-avx2", {"M": 16, "N": 1, "G": 2}),
        ("gemm_q4_0", "x86-avx512", {"M": 16, "N": 1, "G": 2}),
        ("linear_residual_bf16", "x86-avx2", {"M": 16, "N": 64, "K": 32}),
        ("linear_residual_bf16", "x86-avx512-vnni", {"M": 16, "N": 64, "K": 32}),
        ("lstm_s8", "x86-avx2", {"T": 2, "N": 2, "C": 64, "H": 64}),
    ],
)
def test_what_newer_vectors_have_an_instruction_for_stays_in_lanes_of_older_ones(
    name: str, hw: str, sizes: dict[str, int]
) -> None:
    """Products of four bytes, bf16 from f32, and bytes out of floats take several operations each."""
    text = Source(f"{name}.ir", kernel_path(name).read_text(encoding="utf-8"))
    found = compile_kernel(Request(text, hw, sizes, heuristic="greedy"), "schedule").warnings
    assert [w.render() for w in found if w.code == "scalar-only"] == []


def test_a_store_of_some_lanes_needs_no_value_in_the_others() -> None:
    """An instruction of WebAssembly fills 4 of 8 lanes, and a store writes 4."""
    text = "kernel k(N) { in x: i32[N]; out y: i16[N]; for n in N { y[n] = sat_i16(x[n]); } }"
    request = Request(Source("k.ir", text), "wasm-simd128", {"N": 64}, heuristic="greedy")
    assert compile_kernel(request, "schedule").warnings == ()


def test_a_table_of_bytes_at_halves_of_bytes_is_looked_up_in_lanes() -> None:
    text = """kernel k(N) {
      in w: u8[N] values 0..255; in codes: i8[16]; out y: f32[N]; out z: f32[N];
      for n in N { y[n] = f32(codes[w[n] % 16]); }
      for n in N { z[n] = f32(codes[w[n] / 16]); }
    }"""
    request = Request(Source("k.ir", text), "x86-avx2", {"N": 64}, heuristic="greedy")
    assert compile_kernel(request, "schedule").warnings == ()


def test_a_table_of_a_type_that_is_not_looked_up_is_told_which_types_are() -> None:
    text = "kernel k(N) { in w: u8[N] values 0..255; in t: TYPE[256]; out y: i8[N]; for n in N { y[n] = TABLE; } }"

    def warnings(kind: str, read: str) -> list[str]:
        source = Source("k.ir", text.replace("TYPE", kind).replace("TABLE", read))
        request = Request(source, "x86-avx2", {"N": 64}, heuristic="greedy")
        return [w.help or "" for w in compile_kernel(request, "schedule").warnings]

    (advice,) = warnings("i8", "t[w[n]]")
    assert "looks up f32, f64, i32 in memory on several elements at once: keep `t` in such a type" in advice
    assert warnings("i32", "wrap_i8(t[w[n]])") == []
