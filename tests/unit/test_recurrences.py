"""Iterations of recurrences apart: the same results, each from what a program left, and faults that show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isamap.driver.request import Request
from isamap.driver.runnable import PreparedKernel, prepare
from isamap.driver.verifying import Case, compare, with_unverified
from isamap.ir import Kernel, bind, interpret, iterations_apart, print_routine
from isamap.kernels import kernel_path
from isamap.run.fills import make_arrays
from isamap.run.runner import RunResult
from isamap.source import Diagnostic, Source
from isamap.syntax import parse_kernel

SHOWN = """kernel shown(T, N) {
  in U: f32[N, N];
  in x: f32[T, N];
  out Y: f32[T, N];
  temp h: f32[N];
  temp u: f32[N];
  for j in N { h[j] = 0; }
  seq t in T {
    for j in N { u[j] = x[t, j]; }
    for j in N, k in N { u[j] += U[j, k] * h[k]; }
    for j in N { h[j] = tanh(u[j]); Y[t, j] = h[j]; }
  }
}"""
BACKWARD = SHOWN.replace("Y[t, j]", "Y[T - 1 - t, j]")
LAGGING = """kernel lagging(T, N) {
  in U: f32[N, N];
  in x: f32[T, N];
  inout h: f32[T + 1, N];
  seq t in T {
    for j in N { h[t + 1, j] = x[t, j]; }
    for j in N, k in N { h[t + 1, j] += U[j, k] * h[t, k]; }
    for j in N { h[t + 1, j] = tanh(h[t + 1, j]); }
  }
}"""
ALONG = """kernel along(T, N) {
  in x: f32[T, N];
  in a: f32[T];
  out y: f32[T, N];
  for t in T {
    y[t, 0] = x[t, 0];
    seq n in N - 1 { y[t, n + 1] = tanh(a[t] * y[t, n] + x[t, n]); }
  }
}"""
TWICE = """kernel twice(T, N) {
  in x: f32[T, N];
  out y: f32[T, N];
  temp h: f32;
  h = 0;
  seq t in T { seq n in N { h = tanh(h + x[t, n]); y[t, n] = h; } }
}"""
LAST = SHOWN.replace("out Y: f32[T, N];", "out Y: f32[N];").replace("Y[t, j]", "Y[j]")
REDUCED = SHOWN.replace("Y[t, j] = h[j]", "Y[t, j] = 2 * h[j]")
CHANGED = SHOWN.replace("Y[t, j] = h[j];", "Y[t, j] = h[j]; h[j] = h[j] / 2;")
CHAOS = """kernel logistic(T, N) {
  in a: f32[N];
  out y: f32[N];
  temp x: f32[N];
  for n in N { x[n] = abs(a[n]); }
  seq t in T { for n in N { x[n] = 3.9 * x[n] * (1 - x[n]); } }
  for n in N { y[n] = x[n]; }
}"""


def bound(text: str, **sizes: int) -> Kernel:
    return bind(parse_kernel(Source("k.ir", text)), sizes)


@pytest.mark.parametrize("text", [SHOWN, BACKWARD, LAGGING, ALONG, TWICE])
def test_from_right_results_iterations_apart_give_the_same(text: str) -> None:
    kernel = bound(text, T=5, N=6)
    arrays = make_arrays(kernel, "random")
    right = interpret(kernel, arrays, {})
    apart = iterations_apart(kernel)
    assert apart is not None
    given = {name: right[output] for name, output in apart.shown.items()}
    again = interpret(apart.kernel, {**arrays, **given}, {})
    assert all(np.array_equal(again[name], right[name]) for name in right)


@pytest.mark.parametrize("text", [SHOWN, BACKWARD, LAGGING], ids=["shown", "backward", "lagging"])
def test_a_state_that_is_given_is_the_one_that_is_taken(text: str) -> None:
    kernel = bound(text, T=5, N=6)
    arrays = make_arrays(kernel, "random")
    apart = iterations_apart(kernel)
    assert apart is not None
    nothing = {name: np.zeros(arrays[output].shape) for name, output in apart.shown.items()}
    found = next(iter(interpret(apart.kernel, {**arrays, **nothing}, {}, exact=True).values()))
    last = found[0] if text is BACKWARD else found[-1]
    assert np.allclose(last, np.tanh(arrays["x"][-1].astype(np.float64)), rtol=1e-14)


@pytest.mark.parametrize("text", [LAST, REDUCED, CHANGED, CHAOS], ids=["last", "reduced", "changed", "chaos"])
def test_what_outputs_do_not_show_is_not_taken_from_them(text: str) -> None:
    assert iterations_apart(bound(text, T=3, N=4)) is None


def test_the_kernel_with_its_iterations_apart_can_be_read() -> None:
    apart = iterations_apart(bound(SHOWN, T=3, N=4))
    assert apart is not None
    printed = print_routine(apart.kernel)
    assert "h[j] = Y_found[t - 1, j] else 0 if t > 0" in printed
    assert parse_kernel(Source("apart.ir", printed)).operands == apart.kernel.operands


@pytest.fixture(scope="module")
def gru() -> PreparedKernel:
    text = kernel_path("gru").read_text(encoding="utf-8")
    return prepare(Request(Source("gru.ir", text), "generic-c", {"T": 12, "N": 2, "C": 3, "H": 40}))


def judged(gru: PreparedKernel, change: Any) -> Case:
    """Return the comparison of a result of which some was changed."""
    sizes = {n: int(v) for n, v in gru.request.sizes.items() if isinstance(v, int)}
    kernel = bind(parse_kernel(gru.request.kernel), sizes)
    arrays = make_arrays(kernel, "random")
    result = interpret(kernel, arrays, {})["Y"]
    change(result)
    return compare(kernel, arrays, {}, RunResult({"Y": result}, (), 0), gru, sizes, "random", False)


def test_a_step_of_a_long_recurrence_is_judged_from_the_state_before_it(gru: PreparedKernel) -> None:
    def spoil(y: Any) -> None:
        y[9, 1, 7] += 1e-4

    case = judged(gru, spoil)
    assert not case.ok
    assert any(p.message.startswith("Y[9, 1, 7] is ") for p in case.problems)
    fine = judged(gru, np.asarray)
    assert fine.ok
    assert fine.bound < 1e-5
    assert fine.checked == "all elements, each iteration from the program's own state"


def test_a_bound_that_is_larger_than_the_values_fails_and_says_so() -> None:
    prepared = prepare(Request(Source("k.ir", CHAOS), "generic-c", {"T": 40, "N": 5}))
    kernel = bound(CHAOS, T=40, N=5)
    arrays = make_arrays(kernel, "random")
    right = RunResult(interpret(kernel, arrays, {}), (), 0)
    case = compare(kernel, arrays, {}, right, prepared, {"T": 40, "N": 5}, "random", False)
    (case,) = with_unverified([case])
    assert [p.code for p in case.problems] == ["bound-too-large"]
    assert case.problems[0].message.startswith("`y` is not verified: its bound, ")
    assert " is larger than a tenth of its values, which reach 0." in case.problems[0].message
    few = bound(CHAOS, T=4, N=5)
    right = RunResult(interpret(few, arrays, {}), (), 0)
    assert compare(few, arrays, {}, right, prepared, {"T": 4, "N": 5}, "random", False).ok


def test_an_output_without_a_finite_value_is_not_verified() -> None:
    text = "kernel k(N) { in x: f32[N]; out y: f32[N]; for n in N { y[n] = exp(x[n]); } }"
    prepared, kernel = prepare(Request(Source("k.ir", text), "generic-c", {"N": 5})), bound(text, N=5)
    for value, said in (
        (1000.0, "`y` is not verified: none of its values is finite, on every fill"),
        (1.0, ""),
    ):
        arrays = {"x": np.full(5, value, np.float32)}
        right = RunResult(interpret(kernel, arrays, {}), (), 0)
        case = compare(kernel, arrays, {}, right, prepared, {"N": 5}, "edges", False)
        (case,) = with_unverified([case])
        assert "".join(p.message for p in case.problems) == said


def test_an_output_that_one_fill_judges_is_verified() -> None:
    vague = {"y": Diagnostic("bound-too-large", "`y` is not verified")}
    blind = Case({}, "random", 0.0, 0.0, "native", "nothing of y", False, vague=vague)
    telling = Case({}, "edges", 0.0, 0.0, "native", "all elements", False)
    assert all(case.ok for case in with_unverified([blind, telling]))
    assert [case.ok for case in with_unverified([blind, blind])] == [True, False]


IN_ORDER = "seq i in N - 1 { for m in M { d[i + 1, m] = d[i + 1, m] - a[i + 1, m] * d[i, m]; } }"
LAGS = f"kernel k(N, M) where N > 1 {{ in a: f32[N, M]; inout d: f32[N, M]; {IN_ORDER} }}"


@pytest.mark.parametrize(
    "text",
    [
        LAGS.replace(" } }", " } } for m in M { d[0, m] = 0; }", 1),
        LAGS.replace("seq i", "seq o in 2 { seq i").replace(" } }", " } } }", 1),
        LAGS.replace("d[i + 1, m] = d[i + 1, m]", "d[i % 2, m] = d[i + 1, m]").replace(
            "d[i, m]", "d[(i - 1) % 2, m]"
        ),
    ],
    ids=["later", "outer", "modulo"],
)
def test_an_output_that_is_assigned_again_shows_no_state(text: str) -> None:
    assert iterations_apart(bound(LAGS, N=5, M=4)) is not None
    assert iterations_apart(bound(text, N=5, M=4)) is None
