"""Derivatives: of all shipped kernels and of each operation against differences; refusals; the command."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from finite_differences import directional, some_sizes
from hypothesis import given
from hypothesis import strategies as st

import isamap
from isamap.adjoint import gradient
from isamap.cli import main
from isamap.driver.inputs import read_kernel
from isamap.ir import Kernel, interpret, print_routine
from isamap.ir.ops import OPS
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel


@cache
def shipped(name: str) -> Kernel:
    return parse_kernel(read_kernel(name))


def of_text(text: str) -> Kernel:
    return parse_kernel(Source("k.ir", text))


def results(kernel: Kernel) -> list[str]:
    return [o.name for o in kernel.operands if o.role in ("out", "inout") and o.dtype.is_float]


def sources(kernel: Kernel) -> list[str]:
    arrays = [o.name for o in kernel.operands if o.role in ("in", "inout") and o.dtype.is_float]
    return arrays + [p.name for p in kernel.params if p.dtype is not None and p.dtype.is_float]


KERNELS = sorted(p.stem for p in (Path(__file__).parents[2] / "kernels").glob("*.ir"))
IN_BLOCKS = ["gemm_q4_0", "gemm_q4_k", "gemm_q8_0"]  # ordered loops within each other: `grad` refuses them
OF_FLOATS = [n for n in KERNELS if results(shipped(n)) and sources(shipped(n)) and n not in IN_BLOCKS]
OF_DATA = [n for n in OF_FLOATS if any(o.domain is not None for o in shipped(n).operands)]


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_a_shipped_kernel_of_ordered_loops_within_each_other_is_refused(name: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        gradient(shipped(name))
    assert caught.value.diagnostics[0].code == "no-gradient"


@pytest.mark.exhaustive(fast=20)
@pytest.mark.parametrize("name", [n for n in OF_FLOATS if n not in OF_DATA])
def test_shipped_kernels_agree_with_differences(name: str) -> None:
    kernel = shipped(name)
    for seed in (0, 1):
        mine, measured = directional(kernel, some_sizes(kernel, seed), results(kernel), sources(kernel), seed)
        assert mine == pytest.approx(measured, rel=1e-5, abs=1e-6)


def test_each_operation_of_floats_has_a_rule() -> None:
    of_floats = {
        op.name for op in OPS.values() if op.domain in ("number", "float", "any") and op.result == "same"
    }
    assert of_floats == {op.name for op in OPS.values() if op.derivative}


FUNCTIONS = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / (b + 3)", "neg": "-a", "abs": "abs(a)",
    "min": "min(a, b)", "max": "max(a, b)", "sqrt": "sqrt(a * a + 1)", "exp": "exp(a)",
    "log": "log(a * a + 2)",
    "tanh": "tanh(a * b)", "sigmoid": "sigmoid(a)", "erf": "erf(a)", "sin": "sin(a)", "cos": "cos(a * b)",
    "fma": "fma(a, b, a)", "select": "select(a > b, a * a, b)", "round": "a * round(b, even) + b",
    "log1p": "log1p(a * a)", "expm1": "expm1(a)", "tan": "tan(0.1*a)", "asin": "asin(sin(0.4*a))",
    "acos": "acos(b / (a * a + b * b + 1))", "atan2": "atan2(a, b)",
}  # fmt: skip


@pytest.mark.parametrize("op", [op.name for op in OPS.values() if op.derivative])
def test_operations_agree_with_differences(op: str) -> None:
    value = FUNCTIONS.get(op, f"{op}(a)")
    spelled = "".join({"a": "x[n]", "b": "z[n]"}.get(word, word) for word in _words(value))
    kernel = of_text(
        f"kernel k(N) {{ in x: f32[N]; in z: f32[N]; out y: f32[N]; for n in N {{ y[n] = {spelled}; }} }}"
    )
    by = ["x", "z"] if "b" in _words(value) else ["x"]
    mine, measured = directional(kernel, {"N": 7}, ["y"], by)
    assert mine == pytest.approx(measured, rel=1e-6, abs=1e-7)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z_0-9.]+|[^a-z_0-9.]+", text)


@given(st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(1, 5), st.integers(0, 99))
def test_strided_dilated_and_padded_convolutions_gather(
    stride: int, pad: int, dilation: int, filters: int, seed: int
) -> None:
    reach = dilation * (filters - 1)
    kernel = of_text(
        f"""kernel conv(W, R) {{
          in x: f32[W + {reach}];
          in w: f32[{filters}];
          out y: f32[(W + {2 * pad} - 1) / {stride} + 1];
          for p in (W + {2 * pad} - 1) / {stride} + 1 {{ y[p] = 0; }}
          for p in (W + {2 * pad} - 1) / {stride} + 1, r in {filters} {{
            y[p] += (x[p*{stride} + r*{dilation} - {pad}] else 0) * w[r];
          }}
        }}"""
    )
    mine, measured = directional(kernel, {"W": 6, "R": 1}, ["y"], ["x", "w"], seed)
    assert mine == pytest.approx(measured, rel=1e-5, abs=1e-7)
    (by_image,) = [
        s for s in print_routine(gradient(kernel, by=["x"])).split("for ") if "d_x[" in s and "+=" in s
    ]
    assert "d_x[i0]" in by_image, "gathered"


def test_what_is_overwritten_in_part() -> None:
    kernel = of_text(
        """kernel k(N) {
          in x: f32[N];
          inout h: f32[3, N];
          out y: f32[N];
          for n in N { h[1, n] = h[1, n] * x[n]; }
          for n in N { h[1, n] += h[0, n] * h[2, n]; }
          for n in N { y[n] = h[1, n] * h[0, n]; }
        }"""
    )
    mine, measured = directional(kernel, {"N": 4}, ["h", "y"], ["x", "h"])
    assert mine == pytest.approx(measured, rel=1e-6)


@pytest.mark.parametrize("around", ["", "seq t in 3 "])
def test_what_is_replaced_after_it_was_read(around: str) -> None:
    kernel = of_text(
        f"""kernel k(N) {{
          in x: f32[N];
          inout h: f32[2, N];
          out y: f32[N];
          for n in N {{ y[n] = 0; }}
          {around}{"{" if around else ""}
            for n in N {{ y[n] += h[0, n] * h[1, n] * x[n]; }}
            for n in N {{ h[1, n] = h[0, n] * x[n]; }}
            for n in N {{ y[n] += h[0, n] * h[1, n]; }}
          {"}" if around else ""}
        }}"""
    )
    mine, measured = directional(kernel, {"N": 4}, ["h", "y"], ["x", "h"])
    assert mine == pytest.approx(measured, rel=1e-6)


def test_equal_maxima_share() -> None:
    kernel = of_text(
        """kernel k(M, N) {
          in x: f32[M, N];
          out y: f32[M];
          for m in M { y[m] = -inf; }
          for m in M, n in N { y[m] max= x[m, n]; }
        }"""
    )
    x = np.array([[1, 3, 3], [2, 0, 1]], np.float32)
    found = interpret(gradient(kernel), {"x": x, "d_y": np.array([1, 5], np.float32)}, {"M": 2, "N": 3})
    assert found["d_x"].tolist() == [[0, 0.5, 0.5], [5, 0, 0]]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([[2, 3, 4], [5, 1, 2]], [[12, 8, 6], [4, 20, 10]]),
        ([[2, 0, 4], [0, 1, 0]], [[0, 8, 0], [0, 0, 0]]),
    ],
)
def test_a_factor_gets_the_product_of_the_others_also_beside_zeros(
    x: list[list[int]], expected: list[list[int]]
) -> None:
    kernel = of_text(
        """kernel k(M, N) {
          in x: f32[M, N];
          out y: f32[M];
          for m in M { y[m] = 1; }
          for m in M, n in N { y[m] *= x[m, n]; }
        }"""
    )
    given = {"x": np.array(x, np.float32), "d_y": np.array([1, 2], np.float32)}
    assert interpret(gradient(kernel), given, {"M": 2, "N": 3})["d_x"].tolist() == expected


@pytest.mark.parametrize(
    "body",
    [
        "for m in M { y[m] = z[m]; } for m in M, n in N { y[m] *= x[m, n] + z[m] if n > m; }",
        "for m in M { y[m] = z[m]; } seq n in N { for m in M { y[m] *= x[m, n]; } }",
        "for m in M { y[m] = 2; } for m in M, n in N { y[m] *= x[m, n]; } for m in M { y[m] += z[m]; }",
    ],
)
def test_products_over_an_axis(body: str) -> None:
    text = f"kernel k(M, N) {{ in x: f32[M, N]; in z: f32[M]; out y: f32[M]; {body} }}"
    mine, measured = directional(of_text(text), {"M": 3, "N": 3}, ["y"], ["x", "z"])
    assert mine == pytest.approx(measured, rel=1e-5)


def test_bf16_is_summed_in_f32_and_rounded_once() -> None:
    text = print_routine(gradient(shipped("gemm_bf16"), by=["A"]))
    assert "out d_A: bf16[M, K] accumulate f32;" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seq n in N, m in N { y[n] = x[m]; }", "ordered loops within each other"),
        ("for n in N { y[n] = x[n]; } for n in N { y[n] = 0 if n > 2; }", "replaces a part of `y`"),
        ("seq n in N { y[n] = x[n]; y[n] += y[n] * y[n]; }", "is changed by a step that has used it"),
        ("for n in N { y[n] = x[n]; } seq n in N { y[n] = 2 * x[n]; }", "replaces a part of `y`"),
        ("seq n in N { y[n] = x[n]; y[n] = 0 if n > 2; }", "replaces a part of `y`"),
        ("for n in N { y[n] = f32(sat_i8(x[n])); }", "no result depends on an input of floats"),
    ],
)  # fmt: skip
def test_refusals(text: str, said: str) -> None:
    kernel = of_text(f"kernel k(N) {{ in x: f32[N]; out y: f32[N]; {text} }}")
    with pytest.raises(UsageProblem) as caught:
        gradient(kernel)
    assert said in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].help


def test_from_python() -> None:
    text = isamap.gradient("gemm_f32", by=["A"])
    compiled = isamap.compile(text, "generic-c", {"M": 2, "N": 3, "K": 4}, heuristic="greedy")
    rng = np.random.default_rng(0)
    upstream, b = rng.random((2, 3), np.float32), rng.random((4, 3), np.float32)
    found = np.empty((2, 4), np.float32)
    compiled(d_C=upstream, B=b, d_A=found)
    np.testing.assert_allclose(found, upstream @ b.T, rtol=1e-5)
    with pytest.raises(UsageProblem, match="a list of names"):
        isamap.gradient("gemm_f32", by="A")


def test_the_command_writes_a_kernel_that_parses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "back.ir"
    assert main(["grad", "gru", "--by", "X,U", "-o", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["outputs"] == ["d_X", "d_U"]
    assert parse_kernel(Source("back.ir", file.read_text())).name == "gru_back"
    assert main(["grad", "gru", "--by", "Z"]) == 2
    assert "`Z` is not an input of floats" in capsys.readouterr().err
    assert main(["grad", "gru", "--of", "r"]) == 2
    assert "--of takes Y" in capsys.readouterr().err
