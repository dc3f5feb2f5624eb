"""Kernels rewritten: what is made of recurrent cells, gates and sums, and what is left as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from unit.rewriting import inputs, kernel, shipped, steps, text_after

from isamap.ir import Kernel, interpret, print_routine
from isamap.kernels import list_kernels
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import factorisations, rewrites, statements

Array = NDArray[Any]


# --- recurrent cells --------------------------------------------------------------------------------------

GRU_SIZES = {"T": 3, "N": 2, "C": 4, "H": 5}

GATES_APART = (
    """in X: f32[T, N, C]; in W: f32[3, C, H]; in U: f32[2, H, H]; in b: f32[3, H]; inout h: f32[N, H];
    temp r: f32[N, H]; temp z: f32[N, H]; temp v: f32[N, H];""",
    """seq t in T {
      for n in N, j in H {
        r[n, j] = b[0, j];
        for c in C { r[n, j] += X[t, n, c] * W[0, c, j]; }
        z[n, j] = b[1, j];
        for c in C { z[n, j] += X[t, n, c] * W[1, c, j]; }
        v[n, j] = b[2, j];
        for i in C { v[n, j] += X[t, n, i] * W[2, i, j]; }
      }
      for n in N, j in H, k in H { r[n, j] += h[n, k] * U[0, k, j]; }
      for n in N, j in H, k in H { z[n, j] += h[n, k] * U[1, k, j]; }
      for n in N, j in H { h[n, j] = sigmoid(r[n, j]) * h[n, j] + sigmoid(z[n, j]) * tanh(v[n, j]); }
    }""",
    "T, N, C, H",
)


CANDIDATE_APART = kernel(
    """in X: f32[T, N, C]; in W: f32[3, C, H]; in U: f32[3, H, H]; in b: f32[3, H]; inout h: f32[N, H];
    temp r: f32[N, H]; temp z: f32[N, H]; temp v: f32[N, H]; temp w: f32[N, H];""",
    """seq t in T {
      for n in N, j in H {
        r[n, j] = b[0, j];
        for c in C { r[n, j] += X[t, n, c] * W[0, c, j]; }
        for k in H { r[n, j] += h[n, k] * U[0, k, j]; }
        z[n, j] = b[1, j];
        for c in C { z[n, j] += X[t, n, c] * W[1, c, j]; }
        for k in H { z[n, j] += h[n, k] * U[1, k, j]; }
        v[n, j] = b[2, j];
        for c in C { v[n, j] += X[t, n, c] * W[2, c, j]; }
        w[n, j] = 0;
        for k in H { w[n, j] += h[n, k] * U[2, k, j]; }
      }
      for n in N, j in H {
        v[n, j] = tanh(v[n, j] + sigmoid(r[n, j]) * w[n, j]);
        h[n, j] = (1 - sigmoid(z[n, j])) * v[n, j] + sigmoid(z[n, j]) * h[n, j];
      }
    }""",
    "T, N, C, H",
)


def test_the_inputs_part_of_a_gru_is_one_product_over_all_time_steps() -> None:
    text = text_after(shipped("gru"), "expansion")
    assert "for t in T, g in 3, n in N, j in H, c in C { x[t, g, n, j] += X[t, n, c] * W[g, c, j]; }" in text
    assert text.index("for t in T") < text.index("seq t in T")
    assert "u[g, n, j] += h[n, k] * U[g, k, j]" in text[text.index("seq t in T") :]


def test_gates_written_one_by_one_become_one_product_outside_of_the_loop() -> None:
    sums = "for t in T, g in 3, n in N, j in H, c in C { r_z_v[t, g, n, j] += X[t, n, c] * W[g, c, j]; }"
    text = next(t for r in rewrites(kernel(*GATES_APART)) if sums in (t := print_routine(r.kernel)))
    assert "for g in 2, n in N, j in H, k in H { r_z_v[t, g, n, j] += h[n, k] * U[g, k, j]; }" in text
    assert text.index(sums) < text.index("seq t")


def test_gates_that_are_added_up_differently_become_one_product_each_for_input_and_state() -> None:
    text = print_routine(rewrites(CANDIDATE_APART)[-1].kernel)
    assert "[t, g, n, j] += X[t, n, c] * W[g, c, j];" in text
    assert "for g in 3, n in N, j in H, k in H {" in text
    assert "[g, n, j] += h[n, k] * U[g, k, j];" in text


@pytest.mark.parametrize(
    "routine",
    [shipped("gru"), kernel(*GATES_APART), CANDIDATE_APART],
    ids=["gru", "gates apart", "candidate apart"],
)
def test_a_rewritten_cell_computes_the_same(routine: Kernel) -> None:
    arrays = inputs(routine, GRU_SIZES)
    expected = interpret(routine, arrays, GRU_SIZES)
    for r in rewrites(routine):
        for name, found in interpret(r.kernel, arrays, GRU_SIZES).items():
            np.testing.assert_allclose(found, expected[name], rtol=1e-5, err_msg=str(r.steps))


def test_a_sum_of_the_state_stays_in_its_loop() -> None:
    routine = kernel(
        "in U: f32[H, H]; inout h: f32[H]; temp x: f32[H];",
        """seq t in T {
          for j in H { x[j] = 0; }
          for j in H, k in H { x[j] += U[j, k] * h[k]; }
          for j in H { h[j] = x[j]; }
        }""",
        "T, H",
    )
    assert steps(routine, "expansion") == []


def test_a_sum_of_what_a_loop_leaves_behind_moves_behind_it() -> None:
    routine = kernel(
        "in V: f32[H, K]; inout h: f32[T + 1, H]; inout Y: f32[T, K];",
        """seq t in T {
          for j in H { h[t + 1, j] = tanh(h[t, j]); }
          for j in H, k in K { Y[t, k] += h[t + 1, j] * V[j, k]; }
        }""",
        "T, H, K",
    )
    text = text_after(routine, "fission: `Y")
    assert text.index("seq t") < text.index("for t in T, j in H, k in K")


@pytest.mark.parametrize("fill", ["for j in 3 { x[j] = 0; }", "for j in H { x[j] = 0 if j < t; }", ""])
def test_a_temporary_that_keeps_values_is_not_expanded(fill: str) -> None:
    routine = kernel(
        "in A: f32[T, H, C]; out y: f32[T, H]; temp x: f32[H];",
        f"""for j in H {{ x[j] = 0; }}
        seq t in T {{
          {fill}
          for j in H, c in C {{ x[j] += A[t, j, c]; }}
          for j in H {{ y[t, j] = x[j]; }}
        }}""",
        "T, H: 3..9, C",
    )
    assert steps(routine, "expansion") == []


def test_a_temporary_that_is_used_outside_is_not_expanded() -> None:
    routine = kernel(
        "in A: f32[T, H, C]; out y: f32[H]; temp x: f32[H];",
        """for j in H { x[j] = 1; }
        seq t in T { for j in H { x[j] = 0; } for j in H, c in C { x[j] += A[t, j, c]; } }
        for j in H { y[j] = x[j]; }""",
        "T, H, C",
    )
    assert steps(routine, "expansion") == []


@pytest.mark.parametrize(("dtype", "moves"), [("f32", False), ("i32", True)])
def test_float_sums_over_an_ordered_axis_stay_in_order_and_integer_sums_need_not(
    dtype: str, moves: bool
) -> None:
    loops = "seq t in T { for j in H, c in C { y[j] += A[t, j, c]; } }"
    routine = kernel(f"in A: {dtype}[T, H, C]; inout y: {dtype}[H];", loops, "T, H, C")
    assert bool(steps(routine, "fission: `y[j] += A[t")) == moves


def test_loops_come_apart_in_the_order_in_which_their_groups_need_each_other() -> None:
    routine = kernel(
        "in A: f32[T, H]; inout x: f32[T + 1, H]; inout y: f32[H];",
        """seq t in T {
          for j in H { y[j] = tanh(y[j] + x[t, j]); }
          for j in H { x[t + 1, j] = x[t, j] * A[t, j]; }
        }""",
        "T, H",
    )
    (found,) = [r.kernel for r in rewrites(routine) if "becomes 2 loops" in r.steps[-1]]
    text = print_routine(found)
    assert text.index("x[t + 1, j] =") < text.index("y[j] =")
    sizes = {"T": 4, "H": 3}
    arrays = inputs(routine, sizes)
    for name, values in interpret(routine, arrays, sizes).items():
        np.testing.assert_array_equal(interpret(found, arrays, sizes)[name], values)


# --- what is kept -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "accumulate", "value", "parts"),
    [("bf16", " accumulate f32", "f32(A[m, k])", False), ("f32", "", "A[m, k]", True)],
)
def test_two_sums_that_are_rounded_together_stay_together(
    dtype: str, accumulate: str, value: str, parts: bool
) -> None:
    one = f"for k in K {{ y[m] += {value}; }}"
    operands = f"in A: {dtype}[M, K]; inout y: {dtype}[M]{accumulate};"
    assert bool(steps(kernel(operands, f"for m in M {{ {one} {one} }}", "M, K"), "fission")) == parts


def test_sums_of_a_strict_kernel_are_neither_exchanged_nor_split() -> None:
    parts = (
        "in A: f32[M]; in B: f32[M]; inout s: f32;",
        "for m in M { s += A[m]; } for m in M { s += B[m]; }",
        "M",
    )
    assert steps(kernel(*parts), "reordering")
    assert steps(kernel(*parts), "splitting")
    strict = kernel(*parts, word="strict kernel")
    assert not steps(strict, "reordering")
    assert not steps(strict, "splitting")
    assert not steps(strict, "fusion")


def test_statements_that_touch_the_same_elements_keep_their_order() -> None:
    routine = kernel(
        "in x: f32[8]; inout y: f32[8];", "for i in 4 { y[i] = x[i]; } for i in 4 { y[i + 3] = x[i + 4]; }"
    )
    assert not steps(routine, "reordering")
    apart = kernel(
        "in x: f32[8]; inout y: f32[8];", "for i in 4 { y[i] = x[i]; } for i in 4 { y[i + 4] = x[i + 4]; }"
    )
    assert steps(apart, "reordering")


@pytest.mark.parametrize(
    ("subscript", "fused"), [("i", True), ("N - 1 - i", False), ("max(i - 1, 0)", False)]
)
def test_only_what_reads_its_own_iteration_is_fused(subscript: str, fused: bool) -> None:
    loops = f"for i in N {{ t[i] = x[i]; }} for i in N {{ y[i] = t[{subscript}]; }}"
    routine = kernel("in x: f32[N]; out y: f32[N]; temp t: f32[N];", loops, "N")
    assert bool(steps(routine, "fusion")) == fused


def test_a_kernel_whose_loop_changes_its_own_guard_is_left_alone() -> None:
    routine = kernel(
        "inout p: i32[N]; inout y: i32[N];", "for i in N if p[i] > 0 { p[i] = 0; y[i] = 1; }", "N"
    )
    assert rewrites(routine) == ()
    assert factorisations(routine) == ()


@pytest.mark.parametrize(
    ("between", "merges"),
    [
        ("", True),
        ("for i in N { z[i] = 1; }", True),
        ("for i in N { x[i] = 1; }", False),
        ("for i in N { y[i] = 1; }", False),
    ],
)
def test_a_sum_is_not_moved_past_what_changes_its_factors(between: str, merges: bool) -> None:
    routine = kernel(
        "in A: f32[N, K]; inout x: f32[N]; inout y: f32[N]; inout z: f32[N]; temp s: f32[N];",
        f"""for i in N {{ s[i] = 0; }}
        for i in N, k in K {{ s[i] += A[i, k] * x[i]; }}
        {between}
        for i in N {{ y[i] = s[i] + A[i, 0]; }}
        for i in N {{ x[i] = 0; z[i] = 0; }}""",
        "N, K",
    )
    assert bool(steps(routine, "merging")) == merges


# --- flattening -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        "for i in H { x[i, i] = 0; }",
        "for g in H, j in H { y[g] += x[g, j]; }",
        "for g in H, j in H { x[g, j] = f32(j); }",
        "for g in H, j in H { y[g] += x[g, j + 1] else 0; }",
    ],
)
def test_arrays_that_some_statement_uses_otherwise_are_not_flattened(other: str) -> None:
    loops = f"for g in H, j in H, c in C {{ x[g, j] += X[c] * W[c, g, j]; }} {other}"
    operands = "in X: f32[C]; in W: f32[C, H, H]; inout x: f32[H, H]; inout y: f32[H];"
    if "y[" not in other:
        loops += " for g in H { y[g] = 0; }"
    assert not steps(kernel(operands, loops, "H, C"), "flattening")


def test_a_fused_axis_is_not_called_like_a_word_of_the_language() -> None:
    loops = "for i in 3, n in N, c in C { x[i, n] += X[c] * W[c, i, n]; }"
    routine = kernel("in X: f32[C]; in W: f32[C, 3, N]; inout x: f32[3, N];", loops, "N, C")
    text = text_after(routine, "flattening")
    assert "for in_ in 3*N, c in C { x[in_] += X[c] * W[c, in_]; }" in text
    parse_kernel(Source("flat", text))


# --- all shipped kernels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_kernels())
def test_rewrites_of_a_shipped_kernel_are_kernels(name: str) -> None:
    routine = shipped(name)
    for r in (*rewrites(routine), *factorisations(routine)):
        text = print_routine(r.kernel)
        assert parse_kernel(Source("rewritten", text)) == r.kernel
        assert r.steps
        assert r.kernel != routine
        assert len(statements(r.kernel)) >= 1
