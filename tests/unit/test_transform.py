"""Canonical kernels: single statements under all of their loops, without guards and fills."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from unit.matching import kernel, shipped

from isamap.ir import Index, Kernel, Range, bind, interpret, print_expr, print_routine
from isamap.ir.facts import known_facts
from isamap.ir.verify import check_ranges
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements, tells_apart


def lines(routine: Kernel) -> list[str]:
    """Return the statements of a kernel as text, with their axes in front."""
    found: list[str] = []
    for s in statements(routine):
        order = [f"seq {a.name}" for a in s.sequence] + [a.name for a in s.axes]
        found.append(f"{', '.join(order)}: {s.assign.target.buffer} {s.assign.op or '='}")
    return found


def index(text: str) -> Index:
    """Return a sum such as `8*i + j`."""
    total = Index.of(0)
    for term in text.split(" + "):
        product = Index.of(1)
        for factor in term.split("*"):
            product = product * (int(factor) if factor.lstrip("-").isdigit() else Index.of(factor))
        total = total + product
    return total


# --- statements -------------------------------------------------------------------------------------------


def test_statements_of_one_loop_part() -> None:
    routine = kernel(
        "in A: f32[4, 5]; out Y: f32[4];",
        "for m in 4 { Y[m] = 0; for k in 5 { Y[m] += A[m, k]; } }",
    )
    assert lines(routine) == ["m: Y =", "m, k: Y add"]


def test_an_inner_axis_gets_a_name_of_its_own() -> None:
    routine = kernel(
        "in A: f32[4]; inout Y: f32[4]; inout Z: f32[4];",
        "for i in 4 { Y[i] += A[i]; } for i in 4 { Z[i] += A[i]; }",
    )
    assert lines(routine) == ["i: Y add", "i: Z add"]


def test_ordered_loops_stay_around_what_they_order() -> None:
    routine = kernel(
        "in A: f32[3, 4]; inout Y: f32[4];", "seq t in 3 { for i in 4 { Y[i] = Y[i] * A[t, i]; } }"
    )
    assert lines(make_guards_explicit(routine)) == ["seq t, i: Y ="]


# --- guards and fills -------------------------------------------------------------------------------------


def test_what_lies_outside_is_read_from_a_padded_copy() -> None:
    routine = kernel("in X: f32[5]; inout Y: f32[5];", "for p in 5, r in 3 { Y[p] += X[p + r - 1] else 0; }")
    canonical = make_guards_explicit(routine)
    assert lines(canonical) == ["i0: X_padded =", "i0: X_padded =", "p, r: Y add"]
    assert canonical.operand("X_padded").shape == (Index.of(7),)


def test_a_fill_that_is_never_needed_costs_nothing() -> None:
    routine = kernel("in X: f32[7]; inout Y: f32[5];", "for p in 5, r in 3 { Y[p] += X[p + r] else 0; }")
    assert lines(make_guards_explicit(routine)) == ["p, r: Y add"]


def test_one_padded_copy_serves_equal_reads() -> None:
    routine = kernel(
        "in X: f32[5]; inout Y: f32[5]; inout Z: f32[5];",
        "for p in 5 { Y[p] += X[p - 1] else 0; } for p in 5 { Z[p] += X[p - 1] else 0; }",
    )
    assert [x for x in lines(make_guards_explicit(routine)) if "X_padded" in x] == ["i0: X_padded ="] * 2


@pytest.mark.parametrize(
    "text", ["Y[i] = A[i] if A[i] > 0;", "Y[i] += A[i] if A[i] > 0;", "Y[i] max= A[i] if A[i] > 0;"]
)
def test_a_guard_becomes_a_choice(text: str) -> None:
    routine = kernel("in A: f32[6]; inout Y: f32[6];", f"for i in 6 {{ {text} }}")
    canonical = make_guards_explicit(routine)
    assert all(s.assign.guard is None for s in statements(canonical))
    arrays = {n: np.random.default_rng(i).integers(-3, 4, 6).astype(np.float32) for i, n in enumerate("AY")}
    np.testing.assert_array_equal(
        interpret(canonical, arrays, {})["Y"], interpret(routine, arrays, {})["Y"], print_routine(canonical)
    )


WHOLE_SUMS = (
    "for i in N, j in N, k in N if j <= i { C[i, j] += A[i, k] * A[j, k]; }",
    "for i in N, j in N, k in N if A[i, j] > 0 { C[j, i] max= A[i, k] + A[j, k]; }",
    "seq t in 2 { for i in N, j in N, k in N if j + t < i { C[i, j] += A[i - j, k] * A[j, k]; } }",
    "for i in N, j in N, k in N if i >= 3 & j < 3 { C[i, j] += C[j, 0] * A[k, j]; }",
)


@pytest.mark.parametrize("text", WHOLE_SUMS)
def test_a_guard_that_leaves_out_whole_sums_stays_outside_of_them(text: str) -> None:
    routine = kernel("in A: f32[N, N]; inout C: f32[N, N];", text, "N")
    canonical = make_guards_explicit(routine)
    (summed,) = (s for s in statements(canonical) if s.reduction_axes)
    assert "select" not in print_expr(summed.assign.value)
    assert summed.assign.target.buffer == "C_everywhere"
    arrays = {
        n: np.random.default_rng(i).integers(-3, 4, (6, 6)).astype(np.float32) for i, n in enumerate("AC")
    }
    np.testing.assert_array_equal(
        interpret(canonical, arrays, {"N": 6})["C"], interpret(routine, arrays, {"N": 6})["C"]
    )


@pytest.mark.parametrize(
    "text",
    [
        "for i in N, k in N if k <= i { y[i] += A[i, k]; }",  # about terms
        "for i in N, j in N, k in N if i >= j { y[i - j] += A[i, k]; }",  # several sums meet in an element
    ],
)
def test_a_guard_about_terms_of_a_sum_stays_inside(text: str) -> None:
    canonical = make_guards_explicit(kernel("in A: f32[N, N]; inout y: f32[N];", text, "N"))
    assert not any("everywhere" in o.name for o in canonical.operands)


def test_a_convolution_with_open_sizes_is_made_explicit() -> None:
    routine = bind(shipped("conv1d"), {"N": 1, "C": 2, "K": 3, "W": 9, "R": 3, "pad": 1, "stride": 2})
    arrays = {
        o.name: np.random.default_rng(1).integers(-3, 4, [s.value or 1 for s in o.shape]).astype(np.float32)
        for o in routine.operands
    }
    found = interpret(make_guards_explicit(routine), arrays, {})["Y"]
    np.testing.assert_array_equal(found, interpret(routine, arrays, {})["Y"])


def test_an_output_that_is_zero_where_nothing_is_assigned_is_zeroed_first() -> None:
    routine = kernel("in x: f32[4]; out y: f32[8] outside zero;", "for i in 4 { y[2*i] = x[i]; }")
    canonical = make_guards_explicit(routine)
    assert lines(canonical) == ["i0: y =", "i: y ="]
    plain = replace(canonical, operands=tuple(replace(o, outside=None) for o in canonical.operands))
    arrays = {"x": np.arange(1, 5, dtype=np.float32)}
    np.testing.assert_array_equal(interpret(plain, arrays, {})["y"], [1, 0, 2, 0, 3, 0, 4, 0])


def test_names_of_open_sizes_are_written_out() -> None:
    sizes: dict[str, int | Range] = {"N": 1, "C": 2, "K": 3, "W": Range(3, 9), "R": 3}
    canonical = make_guards_explicit(bind(shipped("conv1d"), sizes))
    assert canonical.lets == ()
    assert canonical.operand("Y").shape[2] == Index.of("W") - 2


# --- accesses that a guard keeps inside -------------------------------------------------------------------

SCATTER = """kernel scatter(H, R, stride = 2, pad: 0..9 = 0) where 2*pad <= (H - 1) * stride + R - 1 {
  let P = (H - 1) * stride + R - 2*pad;
  in X: f32[H];
  in F: f32[R];
  inout Y: f32[P];
  for h in H, r in R if h*stride + r >= pad & h*stride + r < P + pad {
    Y[h*stride + r - pad] += X[h] * F[r];
  }
}
"""
GUARDED = (
    "kernel k(N) { in x: f32[N]; inout y: f32[N]; for i in N if i >= 3 { y[i] += x[i - 3]; } }",
    "kernel k(N) { in x: f32[N]; inout y: f32[N]; for i in N if i < N - 3 { y[i] max= x[i + 3]; } }",
    "kernel k(N) { in x: f32[N]; inout y: f32[N]; for i in N if i < N - 3 { y[i + 3] = 2 * x[i]; } }",
    "kernel k(N) { in x: f32[N]; inout y: f32[N]; for i in N if i >= 2 { y[i] += x[i] if x[i - 2] > 0; } }",
    "kernel k(N) { in x: f32[N]; inout y: f32[N]; for i in N if i >= 2 { y[i - 2] = x[i] if x[i] > 0; } }",
    "kernel k(N) { in x: f32[N]; inout y: f32[N, N]; for i in N, j in N if j >= i { y[j - i, i] += x[j]; } }",
    "kernel k(N) { in x: f32[N]; inout y: f32[N]; seq t in N if t >= 1 { y[t] = y[t - 1] + x[t]; } }",
    SCATTER,
)  # fmt: skip


@pytest.mark.parametrize("text", GUARDED)
def test_without_its_guard_no_access_leaves_its_array(text: str) -> None:
    for size in (1, 2, 3, 4, 7):
        canonical = make_guards_explicit(bind(parsed(text), sizes(text, size)))
        assert all(s.assign.guard is None for s in statements(canonical))
        assert not list(check_ranges(canonical, known_facts(canonical), ())), print_routine(canonical)


@pytest.mark.parametrize("text", GUARDED)
def test_no_open_size_makes_an_access_leave_its_array(text: str) -> None:
    canonical = make_guards_explicit(parsed(text))
    found = {d.code for d in check_ranges(canonical, known_facts(canonical), ())}
    assert "index-out-of-range" not in found, print_routine(canonical)


@pytest.mark.parametrize("text", GUARDED)
@pytest.mark.parametrize("size", [1, 4, 5, 11])
def test_what_a_guard_kept_inside_is_computed_as_before(text: str, size: int) -> None:
    bound = bind(parsed(text), sizes(text, size))
    rng = np.random.default_rng(size)
    shapes = {o.name: [s.value or 1 for s in o.shape] for o in bound.operands}
    arrays = {name: rng.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}
    found = list(interpret(make_guards_explicit(bound), arrays, {}).values())
    np.testing.assert_array_equal(found, list(interpret(bound, arrays, {}).values()))


@pytest.mark.parametrize("pad", [0, 1])
def test_a_guard_that_only_keeps_a_sum_inside_is_gone(pad: int) -> None:
    assert "select" not in print_routine(make_guards_explicit(parsed(SCATTER)))
    bound = bind(parsed(SCATTER), {"H": 5, "R": 3, "pad": pad})
    assert "select" not in print_routine(make_guards_explicit(bound))


def test_a_guard_that_says_more_stays() -> None:
    routine = parsed(SCATTER.replace("< P + pad {", "< P + pad & r <= h {"))
    text = print_routine(make_guards_explicit(routine))
    assert "select(r <= h, X[h] * F[r], 0)" in text


def test_a_guard_that_nothing_depends_on_costs_no_copy() -> None:
    routine = kernel("in x: f32[9]; inout y: f32[9];", "for i in 9 if i >= 3 { y[i] += x[i]; }")
    assert lines(make_guards_explicit(routine)) == ["i: y add"]


def parsed(text: str) -> Kernel:
    return parse_kernel(Source("k.ir", text))


def sizes(text: str, size: int) -> dict[str, int]:
    return {"H": size, "R": 3, "pad": 1} if text == SCATTER else {"N": size}


# --- elements that iterations share -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscripts", "known"),
    [
        (["i", "j"], True),
        (["i + j"], False),
        (["8*i + j"], True),
        (["7*i + j"], False),
        (["8*i + -1*j"], True),
        (["-8*i + j"], True),
        (["i + j", "j"], True),
        (["i + j", "i + j"], False),
        (["i"], False),
        (["3*i", "j"], True),
    ],
)
def test_digits_tell_axes_apart(subscripts: list[str], known: bool) -> None:
    extents = {"i": Index.of(5), "j": Index.of(8)}
    assert tells_apart(tuple(index(s) for s in subscripts), extents) is known


def test_open_sizes_tell_axes_apart_where_they_must() -> None:
    extents = {"i": Index.of("M"), "j": Index.of("N")}
    assert tells_apart((index("N*i + j"),), extents)
    assert tells_apart((index("stride*i"), index("j")), extents)
    assert not tells_apart((index("M*i + j"),), extents)
    assert not tells_apart((index("i + j"),), extents)


def test_an_axis_of_one_element_is_always_told_apart() -> None:
    assert tells_apart((index("i + j"),), {"i": Index.of(1), "j": Index.of(8)})


def test_sums_into_shared_elements_run_in_order_over_the_shorter_axis() -> None:
    routine = kernel(
        "in A: f32[4]; in B: f32[9]; inout Y: f32[12];", "for i in 4, j in 9 { Y[i + j] += A[i] * B[j]; }"
    )
    assert lines(make_guards_explicit(routine)) == ["seq i, j: Y add"]


def test_a_read_that_small_sizes_put_outside_altogether_copies_nothing() -> None:
    routine = kernel("in C: f32[K]; inout Y: f32[K];", "for k in K { Y[k] += C[k + 2] else 0; }", "K")
    copied = statements(make_guards_explicit(routine))[1]
    assert [a.extent.evaluate({"K": k}) for a in copied.axes for k in (1, 2, 5)] == [0, 0, 3]


def test_a_choice_by_several_conditions_is_several_choices() -> None:
    value = "select(x[i] > 2 | x[i] < -2 & x[i] > -5, 0, 1)"
    text = f"kernel k(N) {{ in x: f32[N]; out y: f32[N]; for i in N {{ y[i] = {value}; }} }}"
    (found,) = statements(parse_kernel(Source("k.ir", text)))
    inner = "select(x[i] < -2, select(x[i] > -5, 0, 1), 1)"
    assert print_expr(found.assign.value) == f"select(x[i] > 2, 0, {inner})"
