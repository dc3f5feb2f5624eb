"""Statements, loops, guards and what is rounded when: the interpreter on kernels and instructions as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isamap.ir import DTYPES, Instruction, Routine, evaluate_samples, interpret, interpret_magnitude
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel, parse_module

Array = NDArray[Any]
BF16 = DTYPES["bf16"].numpy()


def kernel(text: str) -> Routine:
    return parse_kernel(Source("test.ir", text))


def instruction(text: str) -> Routine:
    memory = "memory r: registers(count = 32, bytes = 64);"
    declarations = parse_module(Source("test.ir", memory + text)).declarations
    return next(d for d in declarations if isinstance(d, Instruction))


def run(text: str, sizes: dict[str, int] | None = None, **arrays: Any) -> dict[str, Array]:
    return interpret(kernel(text), {n: np.asarray(a) for n, a in arrays.items()}, sizes or {})


# --- guards -----------------------------------------------------------------------------------------------


def test_a_guarded_statement_leaves_other_elements_alone() -> None:
    text = "kernel f() { in p: bool[4]; in a: i32[4]; inout c: i32[4]; for i in 4 { c[i] = a[i] if p[i]; } }"
    found = run(text, p=[True, False, True, False], a=[1, 2, 3, 4], c=[9, 9, 9, 9])
    assert found["c"].tolist() == [1, 9, 3, 9]


def test_a_guard_on_indices_cuts_a_triangle() -> None:
    text = (
        "kernel f(N) { in a: i32[N, N]; inout c: i32[N]; for i in N, j in N if j <= i { c[i] += a[i, j]; } }"
    )
    found = run(text, {"N": 4}, a=np.ones((4, 4), np.int32), c=[0, 0, 0, 0])
    assert found["c"].tolist() == [1, 2, 3, 4]


def test_a_guard_keeps_a_subscript_inside() -> None:
    text = "kernel f(N) { in a: f32[N]; inout c: f32[N]; for i in N if i >= 1 { c[i] += a[i - 1]; } }"
    assert run(text, {"N": 3}, a=[1, 2, 3], c=[0, 0, 0])["c"].tolist() == [0, 1, 2]


def test_a_guard_keeps_a_target_inside() -> None:
    text = "kernel f(N) { in a: i32[N]; inout c: i32[N]; for i in N if i + 1 < N { c[i + 1] += a[i]; } }"
    assert run(text, {"N": 3}, a=[1, 2, 3], c=[5, 5, 5])["c"].tolist() == [5, 6, 7]


def test_a_loops_guard_holds_for_the_whole_body() -> None:
    """The body switches the flag off; its second statement runs all the same."""
    text = """kernel f() {
      inout p: bool[4]; inout c: i32[4];
      for i in 4 if p[i] { p[i] = false; c[i] = 7; }
    }"""
    found = run(text, p=[True, False, True, False], c=[0, 0, 0, 0])
    assert found["c"].tolist() == [7, 0, 7, 0]
    assert found["p"].tolist() == [False] * 4


def test_a_loops_guard_holds_for_sums_that_are_taken_step_by_step() -> None:
    text = """kernel f() {
      inout p: bool[4]; in a: bf16[4, 3]; inout c: bf16[4];
      for i in 4 if p[i] { p[i] = false; for k in 3 { c[i] += a[i, k]; } }
    }"""
    found = run(text, p=[True, False, True, False], a=np.ones((4, 3), BF16), c=np.zeros(4, BF16))
    assert found["c"].tolist() == [3, 0, 3, 0]


def test_masked_garbage_does_not_spread() -> None:
    text = "kernel f() { in p: bool[3]; in a: f32[3]; inout c: f32; for i in 3 { c += a[i] if p[i]; } }"
    assert run(text, p=[True, False, True], a=[1, np.nan, 2], c=4)["c"] == 7


def test_a_read_outside_gives_its_fill() -> None:
    text = "kernel f(N) { in a: i32[N]; out c: i32[N]; for i in N { c[i] = a[i + 1] else -5; } }"
    assert run(text, {"N": 3}, a=[1, 2, 3])["c"].tolist() == [2, 3, -5]


def test_subscripts_divide_and_choose() -> None:
    text = """kernel f() {
      in a: i32[8]; out c: i32[8, 3];
      for i in 8 { c[i, 0] = a[i / 2]; c[i, 1] = a[i % 3]; c[i, 2] = a[min(max(i, 2), 5)]; }
    }"""
    i = np.arange(8)
    expected = np.stack([i // 2, i % 3, np.clip(i, 2, 5)], axis=1) * 10
    assert run(text, a=i * 10)["c"].tolist() == expected.tolist()


# --- loops ------------------------------------------------------------------------------------------------


def test_an_ordered_loop_runs_in_order() -> None:
    text = "kernel f(N) { in a: i32[N]; inout h: i32; seq t in N { h = h * 2 + a[t]; } }"
    assert run(text, {"N": 4}, a=[1, 0, 1, 1], h=0)["h"] == 0b1011


def test_an_ordered_loop_inside_an_unordered_one_runs_for_each_point() -> None:
    text = """kernel f(N, T) {
      in a: i64[N, T]; out h: i64[N];
      for n in N { h[n] = 1; seq t in T { h[n] = h[n] * 3 + a[n, t]; } }
    }"""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (3, 5))
    expected = np.ones(3, np.int64)
    for t in range(5):
        expected = expected * 3 + a[:, t]
    assert run(text, {"N": 3, "T": 5}, a=a)["h"].tolist() == expected.tolist()


def test_statements_of_one_loop_see_what_earlier_ones_wrote() -> None:
    text = """kernel f(N) {
      in a: f64[N]; out c: f64[N]; temp t: f64[N];
      for i in N { t[i] = a[i] * a[i]; c[i] = t[i] + 1; }
    }"""
    assert run(text, {"N": 3}, a=[1, 2, 3])["c"].tolist() == [2, 5, 10]


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("+=", "i32", 5 + 3 - 2 + 6),
        ("*=", "i32", 5 * 3 * -2 * 6),
        ("max=", "i32", 6),
        ("min=", "i32", -2),
        ("&=", "i32", 5 & 3 & -2 & 6),
        ("|=", "i32", 5 | 3 | -2 | 6),
        ("^=", "i32", 5 ^ 3 ^ -2 ^ 6),
        ("*=", "f32", 5 * 3 * -2 * 6),
        ("max=", "f32", 6),
        ("min=", "f32", -2),
    ],
)
def test_every_reduction_starts_from_the_old_value(op: str, dtype: str, expected: int) -> None:
    text = f"kernel f(N) {{ in a: {dtype}[N]; inout c: {dtype}; for i in N {{ c {op} a[i]; }} }}"
    found = run(text, {"N": 3}, a=[3, -2, 6], c=5)["c"]
    assert found == expected
    assert found.dtype == DTYPES[dtype].numpy()


def test_a_reduction_into_shared_elements_counts_all_of_them() -> None:
    """A transposed convolution: several iterations add to one element."""
    text = """kernel f(N, R) {
      in a: i32[N]; in w: i32[R]; inout c: i32[N + R - 1];
      for i in N, r in R { c[i + r] += a[i] * w[r]; }
    }"""
    a, w = np.arange(1, 6), np.array([2, -1, 3])
    found = run(text, {"N": 5, "R": 3}, a=a, w=w, c=np.zeros(7, int))
    assert found["c"].tolist() == np.convolve(a, w).tolist()


# --- rounding ---------------------------------------------------------------------------------------------

SUM = "kernel f(N) {{ in a: {t}[N]; inout c: {t}{acc}; for i in N {{ c += {value}; }} }}"


def test_narrow_sums_are_rounded_after_each_addition() -> None:
    a, c = np.ones(1000, BF16), np.asarray(4, BF16)
    narrow = run(SUM.format(t="bf16", acc="", value="a[i]"), {"N": 1000}, a=a, c=c)["c"]
    wide = run(SUM.format(t="bf16", acc=" accumulate f32", value="f32(a[i])"), {"N": 1000}, a=a, c=c)["c"]
    assert float(narrow) == 256  # 256 + 1 is no bf16, and a tie: the sum stays where it is
    assert float(wide) == 1004


def test_a_strict_kernel_adds_in_order() -> None:
    a = np.array([2.0**24, 1, -(2.0**24)], np.float32)
    text = SUM.format(t="f32", acc="", value="a[i]")
    assert run(text, {"N": 3}, a=a, c=0)["c"] == 1
    assert run(f"strict {text}", {"N": 3}, a=a, c=0)["c"] == 0


def test_an_instruction_rounds_each_operation() -> None:
    text = """instruction f() {{
      in a: f32[1] @ r; in b: f32[1] @ r; inout c: f32[1] @ r; for i in 1 {{ {body} }}
    }}"""
    x = np.array([1 + 2.0**-12], np.float32)
    arrays = {"a": x, "b": x, "c": np.array([-(1 + 2.0**-11)], np.float32)}
    separate = interpret(instruction(text.format(body="c[i] += a[i] * b[i];")), arrays, {})["c"]
    fused = interpret(instruction(text.format(body="c[i] = fma(a[i], b[i], c[i]);")), arrays, {})["c"]
    assert separate.tolist() == [0]
    assert fused.tolist() == [2.0**-24]


def test_a_running_sum_is_rounded_when_it_is_read() -> None:
    text = """kernel f(N) {
      in a: bf16[N]; inout c: bf16[1] accumulate f32; out d: bf16[1];
      for m in 1 { for i in N { c[m] += f32(a[i]); } d[m] = c[m]; for i in N { c[m] += f32(a[i]); } }
    }"""
    found = run(text, {"N": 3}, a=np.full(3, 100.5, BF16), c=np.zeros(1, BF16))
    once = np.float32(3 * np.float32(BF16.type(100.5))).astype(BF16)
    assert found["d"].tolist() == [once]
    assert found["c"].tolist() == [np.float32(2 * float(once)).astype(BF16)]


def test_an_integer_sum_may_run_in_a_wider_type() -> None:
    text = SUM.format(t="i8", acc=" accumulate i32", value="i32(a[i])")
    assert run(text, {"N": 4}, a=np.full(4, 100, np.int8), c=np.int8(3))["c"] == np.int32(403 - 512)


def test_exact_results_are_not_rounded() -> None:
    text = "kernel f() { in a: f32[1]; out c: f32[1]; for i in 1 { c[i] = a[i] * a[i] + a[i]; } }"
    x = np.array([1.1], np.float32)
    found = interpret(kernel(text), {"a": x}, {}, exact=True)["c"]
    assert found.dtype == np.float64
    assert found.tolist() == [float(x[0]) ** 2 + float(x[0])]


def test_scalars_and_sizes_are_values() -> None:
    text = (
        "kernel f(N, scalar s: f32) { in a: f32[N]; out c: f32[N]; for i in N { c[i] = a[i] * s / f32(N); } }"
    )
    found = interpret(kernel(text), {"a": np.array([2, 4])}, {"N": 2}, {"s": 3})
    assert found["c"].tolist() == [3, 6]


# --- what was not written ---------------------------------------------------------------------------------

PARTLY = """instruction f(scalar L: 1..4) {{
  in a: f32[4] @ r; {role} c: {t}[4] @ r {outside}; for i in L {{ c[i] = {value}; }}
}}"""


@pytest.mark.parametrize(("outside", "rest"), [("zero", 0.0), ("keep", 9.0), ("undefined", np.nan)])
@pytest.mark.parametrize("role", ["inout", "out"])
def test_outside_says_what_a_masked_output_holds(role: str, outside: str, rest: float) -> None:
    masked = instruction(PARTLY.format(role=role, t="f32", outside=f"outside {outside}", value="a[i]"))
    arrays = {"a": np.arange(4), "c": np.full(4, 9)}
    found = interpret(masked, arrays, {"L": 2})["c"]
    np.testing.assert_array_equal(found, [0, 1, rest, rest])
    assert arrays["c"].tolist() == [9] * 4


def test_poison_is_recognisable_or_random() -> None:
    text = PARTLY.format(role="out", t="i16", outside="outside undefined", value="7")
    masked, arrays = instruction(text), {"a": np.zeros(4)}
    assert interpret(masked, arrays, {"L": 2})["c"].tolist() == [7, 7, -23131, -23131]  # 0xa5a5
    first, second = (
        interpret(masked, arrays, {"L": 2}, rng=np.random.default_rng(seed))["c"].tolist() for seed in (1, 2)
    )
    assert first[:2] == second[:2] == [7, 7]
    assert first[2:] != second[2:]


# --- refusals ---------------------------------------------------------------------------------------------

COPY = "kernel f(N, scalar s: f32) { in a: i4[N]; out c: i4[N]; for i in N { c[i] = a[i] if s > 0; } }"


@pytest.mark.parametrize(
    ("arrays", "sizes", "scalars", "code"),
    [
        ({}, {"N": 2}, {"s": 1}, "array-missing"),
        ({"a": [1, 2, 3]}, {"N": 2}, {"s": 1}, "wrong-shape"),
        ({"a": [1, 8]}, {"N": 2}, {"s": 1}, "wrong-values"),
        ({"a": [1.5, 2.0]}, {"N": 2}, {"s": 1}, "wrong-values"),
        ({"a": [1, 2], "b": [1]}, {"N": 2}, {"s": 1}, "unknown-operand"),
        ({"a": [1, 2]}, {"N": 2}, {}, "scalar-missing"),
        ({"a": [1, 2]}, {"N": 2}, {"s": 1, "t": 2}, "unknown-scalar"),
        ({"a": [1, 2]}, {}, {"s": 1}, "size-unbound"),
        ({"a": [1, 2]}, {"N": 2, "M": 3}, {"s": 1}, "unknown-size"),
    ],
)
def test_wrong_arguments_are_refused(
    arrays: dict[str, list[float]], sizes: dict[str, int], scalars: dict[str, float], code: str
) -> None:
    copy = kernel(COPY.replace("out c: i4[N]", "out c: i4[N] outside zero"))
    with pytest.raises(UsageProblem) as refused:
        interpret(copy, {n: np.asarray(a) for n, a in arrays.items()}, sizes, scalars)
    assert refused.value.diagnostics[0].code == code


def test_a_parameter_that_is_left_open_is_named() -> None:
    open_one = instruction(
        "instruction f(choose R: 1..16) { in a: f32[R] @ r; out c: f32[R] @ r; for i in R { c[i] = a[i]; } }"
    )
    with pytest.raises(UsageProblem, match="needs a value for `R`"):
        interpret(open_one, {"a": np.zeros(2)}, {})
    assert interpret(open_one, {"a": np.ones(2)}, {"R": 2})["c"].tolist() == [1, 1]


def test_a_machines_constant_is_given_with_the_sizes() -> None:
    text = """machine V: 1..16;
    memory z: registers(count = 32, bytes = 64);
    instruction f() { in a: f32[V] @ z; out c: f32[V] @ z; for i in V { c[i] = a[i] + 1; } }"""
    routine = next(d for d in parse_module(Source("t.ir", text)).declarations if isinstance(d, Instruction))
    assert interpret(routine, {"a": np.zeros(3)}, {"V": 3})["c"].tolist() == [1, 1, 1]


# --- magnitudes and samples -------------------------------------------------------------------------------


def test_a_magnitude_counts_terms_that_cancel() -> None:
    text = "kernel f(N) { in a: f64[N]; inout c: f64; for i in N { c += a[i]; } }"
    arrays = {"a": np.array([5.0, -5.0, 2.0]), "c": np.asarray(-2.0)}
    assert interpret(kernel(text), arrays, {"N": 3})["c"] == 0
    assert interpret_magnitude(kernel(text), arrays, {"N": 3})["c"] == 14


@pytest.mark.parametrize(
    "function",
    ["exp(x)", "log(x * x + 1)", "sqrt(x * x + 1)", "tanh(x)", "sigmoid(x)", "erf(x)", "sin(x)", "cos(x)",
     "expm1(x)", "log1p(x * x)", "tan(x)", "sinh(x)", "cosh(x)", "asin(sin(x))", "acos(x / (1 + x * x))", "atan(x)",
     "softplus(x)", "atan2(x, 2 - x)",
     "x / (x * x + 1)", "max(x, 0)", "select(x < 0, -x, x)", "abs(x) - 3", "fma(x, x, 1)", "round(x, even)"],
)  # fmt: skip
def test_magnitudes_bound_what_a_small_error_does(function: str) -> None:
    """Inputs change by 1e-6 of themselves: no result moves by more than a few times 1e-6 of its magnitude."""
    value = (
        function.replace("x", "(a[i] - b[i])")
        .replace("e(a[i] - b[i])p", "exp")
        .replace("ma(a[i] - b[i])", "max")
    )
    text = f"kernel f(N) {{ in a: f64[N]; in b: f64[N]; out c: f64[N]; for i in N {{ c[i] = {value}; }} }}"
    rng = np.random.default_rng(3)
    arrays = {"a": rng.normal(size=50) * 3, "b": rng.normal(size=50) * 3}
    moved = {n: a * (1 + 1e-6 * rng.choice([-1, 1], 50)) for n, a in arrays.items()}
    if "round" in function:
        moved = arrays
    k = kernel(text)
    difference = np.abs(interpret(k, arrays, {"N": 50})["c"] - interpret(k, moved, {"N": 50})["c"])
    magnitude = interpret_magnitude(k, arrays, {"N": 50})["c"]
    assert (difference <= 4e-6 * magnitude).all()
    assert (magnitude >= np.abs(interpret(k, arrays, {"N": 50})["c"])).all()


def test_samples_need_only_their_rows_and_columns() -> None:
    text = """kernel f(M, N, K) {
      in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];
      for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }
      for m in M, n in N { C[m, n] = max(C[m, n], 0); }
    }"""
    sizes = {"M": 1500, "N": 1400, "K": 1300}
    rng = np.random.default_rng(0)
    arrays = {
        "A": rng.normal(size=(1500, 1300)).astype(np.float32),
        "B": rng.normal(size=(1300, 1400)).astype(np.float32),
        "C": np.zeros((1500, 1400), np.float32),
    }
    at = np.array([[0, 0], [1499, 1399], [7, 8]])
    values, magnitudes = evaluate_samples(kernel(text), arrays, sizes, "C", at)
    a, b = (arrays[n].astype(np.float64) for n in "AB")
    assert np.allclose(values, np.array([max(float(a[m] @ b[:, n]), 0.0) for m, n in at]), rtol=1e-12)
    assert np.allclose(magnitudes, np.array([np.abs(a[m]) @ np.abs(b[:, n]) for m, n in at]), rtol=1e-12)


@pytest.mark.parametrize(
    "body",
    ["seq i in 4 { c[i] = a[i]; }", "for i in 2, j in 2 { c[2*i + j] = a[2*i + j]; }"],
)
def test_elements_that_cannot_be_traced_back_are_not_sampled(body: str) -> None:
    k = kernel(f"kernel f() {{ in a: f32[4]; out c: f32[4]; {body} }}")
    with pytest.raises(UsageProblem) as refused:
        evaluate_samples(k, {"a": np.zeros(4)}, {}, "c", [[0]])
    assert refused.value.diagnostics[0].code == "not-sampled"


@pytest.mark.parametrize("dtype", ["i4", "u4", "f8e5m2", "f16"])
def test_a_single_element_of_any_type_is_reduced_into(dtype: str) -> None:
    text = f"kernel one() {{ in a: {dtype}; inout y: {dtype}; y += a; }}"
    stored = DTYPES[dtype].numpy()
    given = {"a": np.array(3, stored), "y": np.array(2, stored)}
    found = interpret(parse_kernel(Source("one.ir", text)), given, {})
    assert found["y"] == 5
