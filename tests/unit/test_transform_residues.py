"""Guards become loops: by remainders of axes strides, one for each remainder, by ordered axes bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isamap.ir import Kernel, bind, interpret, print_expr, print_stmt
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, statements

CONVOLUTION = """kernel k(P, R, H, s: 1..32) where (P - 1) / s < H {
  in x: f32[H];
  in w: f32[R];
  inout y: f32[P];
  for i in P, r in R if (i - r) % s == 0 { y[i] += (x[(i - r) / s] else 0) * w[r]; }
}"""


def of(text: str, **sizes: int) -> Kernel:
    return bind(parse_kernel(Source("k.ir", text)), dict(sizes))


def shown(kernel: Kernel) -> list[str]:
    """Return the statements without their guards, with the axes in front."""
    return [
        f"{', '.join(f'{a.name} in {a.extent}' for a in s.axes)}: {print_stmt(s.assign).strip()}"
        for s in statements(make_guards_explicit(kernel))
    ]


OUTPUTS = {"y[": "y: f32[N, M]", "s[": "s: f32[N]", "b[": "b: bf16[N] accumulate f32"}


def plain(statement: str, strict: str = "", n: int = 9, m: int = 7) -> Kernel:
    (output,) = (declared for name, declared in OUTPUTS.items() if name in statement)
    return of(f"{strict} kernel k(N, M) {{ in x: f32[N, M]; inout {output}; {statement} }}", N=n, M=m)


def agrees(kernel: Kernel) -> bool:
    """Return whether the kernel computes what it does with its guards made explicit."""
    arrays = make_arrays(kernel, "integers")
    expected = interpret(kernel, arrays, {})
    found = interpret(make_guards_explicit(kernel), arrays, {})
    return all(np.array_equal(found[name], array) for name, array in expected.items())


def test_a_transposed_convolution_is_one_of_strides_for_each_remainder() -> None:
    found = shown(of(CONVOLUTION, P=9, R=3, H=5, s=2))
    assert found[-2:] == [
        "i in 5, r in 2: y[2*i] += x_padded[i - r + 1] * w[2*r];",
        "i in 4, r in 1: y[2*i + 1] += x[i - r] * w[2*r + 1];",
    ]


@pytest.mark.parametrize("s", [1, 2, 3, 4, 7])
def test_such_convolutions_are_right(s: int) -> None:
    assert agrees(of(CONVOLUTION, P=11, R=4, H=11, s=s))


@pytest.mark.parametrize(
    ("statement", "parts"),
    [
        ("for n in N, m in M if n % 2 == 0 { y[n, m] = x[n, m] * f32(n); }", 1),
        ("for n in N, m in M if n % 2 != 0 & m % 3 == 1 { y[n, m] += x[n, m]; }", 1),
        ("for n in N, m in M if (n + 2*m) % 3 < 2 { y[n, m] = x[n, m]; }", 6),
        ("for n in N, m in M if (2*n + m) % 4 == 1 { y[n, m] max= x[n, m]; }", 2),
        ("for n in N, m in M if (n - m) % 2 == 0 { s[n] += x[n, m]; }", 2),
        ("for n in N, m in M if m % 3 > 0 { s[n] += x[n, m]; }", 2),
        ("seq t in 4 { for n in N, m in M if n % 2 == 1 & n + t < N { y[n, m] = y[n, m] + x[n, m]; } }", 1),
        ("for n in N, m in M if n % 16 == 5 & m < 5 { y[n, m] = (x[n - 5, m + 2] else 0); }", 1),
    ],
)  # fmt: skip
def test_what_a_guard_asks_of_remainders_is_gone(statement: str, parts: int) -> None:
    kernel = plain(statement)
    found = [s for s in statements(make_guards_explicit(kernel)) if "_padded" not in s.assign.target.buffer]
    assert len(found) == parts
    assert all("%" not in print_expr(s.assign.value) for s in found)
    assert agrees(kernel)


@pytest.mark.parametrize(
    ("statement", "strict"),
    [
        ("for n in N, m in M if m % 3 > 0 { s[n] += x[n, m]; }", "strict"),
        ("for n in N, m in M if m % 3 > 0 { b[n] += x[n, m]; }", ""),
        ("seq t in 4 { for n in N, m in M if (n + t) % 2 == 0 { y[n, m] = x[n, m]; } }", ""),
        ("for n in N, m in M if (n + m) % 5 != 0 { y[n, m] = x[n, m]; }", ""),
        ("for n in N, m in M if n % 2 == m { y[n, m] = x[n, m]; }", ""),
    ],
    ids=["order of a strict sum", "rounded twice", "an ordered axis", "too many", "more than remainders"],
)
def test_a_guard_stays_where_parts_would_differ_or_are_too_many(statement: str, strict: str) -> None:
    kernel = plain(statement, strict)
    assert any("%" in print_expr(s.assign.value) for s in statements(make_guards_explicit(kernel)))


def test_a_strict_sum_whose_elements_are_in_one_part_each_is_cut() -> None:
    found = shown(plain("for n in N, m in M if (n - m) % 2 == 0 { s[n] += x[n, m]; }", strict="strict"))
    assert found == [
        "n in 5, m in 4: s[2*n] += x[2*n, 2*m];",
        "n in 4, m in 3: s[2*n + 1] += x[2*n + 1, 2*m + 1];",
    ]


def test_a_guard_that_lets_nothing_through_is_a_statement() -> None:
    kernel = plain("for n in N, m in M if n % 16 == 12 { y[n, m] = x[n, m]; }")
    assert len(shown(kernel)) == 1
    assert agrees(kernel)


@given(
    divisor=st.integers(2, 5), a=st.integers(-3, 3), b=st.integers(-3, 3), c=st.integers(-4, 4),
    expected=st.integers(-1, 4), op=st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    n=st.integers(1, 8), m=st.integers(1, 8),
    body=st.sampled_from(["y[n, m] = x[n, m];", "s[n] += x[n, m];", "y[n, m] += (x[n, m + 1] else 1);"]),
)  # fmt: skip
def test_any_guard_by_a_remainder_is_performed_as_it_is_written(
    divisor: int, a: int, b: int, c: int, expected: int, op: str, n: int, m: int, body: str
) -> None:
    guard = f"({a}*n + {b}*m + {c}) % {divisor} {op} {expected}".replace("+ -", "- ")
    assert agrees(plain(f"for n in N, m in M if {guard} {{ {body} }}", n=n, m=m))


def test_the_order_of_parts_is_that_of_the_axes() -> None:
    found = shown(plain("for n in N, m in M if (n + m) % 2 == 0 { y[n, m] = x[n, m]; }"))
    assert [line.partition(": ")[2][:12] for line in found] == ["y[2*n, 2*m] ", "y[2*n + 1, 2"]
    kernel = plain("for n in N, m in M if (n + 2*m) % 3 < 2 { y[n, m] = x[n, m]; }")
    targets = [
        print_stmt(s.assign).partition(" = ")[0].strip() for s in statements(make_guards_explicit(kernel))
    ]
    assert targets == [
        "y[3*n, 3*m]",
        "y[3*n, 3*m + 2]",
        "y[3*n + 1, 3*m]",
        "y[3*n + 1, 3*m + 1]",
        "y[3*n + 2, 3*m + 1]",
        "y[3*n + 2, 3*m + 2]",
    ]


BOUNDED = [
    ("i > k", "i in -k + 8, j in 9: y[i + k + 1, j] += x[i + k + 1, j];"),
    ("i <= k", "i in k + 1, j in 9: y[i, j] += x[i, j];"),
    ("i > k & j > k", "i in -k + 8, j in -k + 8: y[i + k + 1, j + k + 1] += x[i + k + 1, j + k + 1];"),
    ("i == k", "i in 1, j in 9: y[i + k, j] += x[i + k, j];"),
    ("i > k & x[i, j] > 0", ("i in -k + 8, j in 9: y[i + k + 1, j] += "
     "select(x[i + k + 1, j] > 0, x[i + k + 1, j], 0);")),
    ("i >= k - 2 & i <= k + 3", ("i in min(9, k + 4) - max(0, k - 2), j in 9: "
     "y[i + max(0, k - 2), j] += x[i + max(0, k - 2), j];")),
]  # fmt: skip


@pytest.mark.parametrize(("guard", "expected"), BOUNDED)
def test_conditions_on_an_ordered_axis_are_bounds_of_loops(guard: str, expected: str) -> None:
    kernel = plain(f"seq k in 9 {{ for i in N, j in M if {guard} {{ y[i, j] += x[i, j]; }} }}", m=9)
    assert shown(kernel) == [expected]
    assert agrees(kernel)


@pytest.mark.parametrize(
    "guard",
    ["i > k", "k > i", "i + k < 7", "i >= 2*k - 3", "i - k == 2", "i > k & j < k", "i > k + 20", "2*i > k"],
)
@pytest.mark.parametrize("body", ["y[i, j] += x[i, j]", "y[i, j] = x[i, j] + 1", "s[i] max= x[i, j]"])
def test_bounded_loops_compute_the_same(guard: str, body: str) -> None:
    assert agrees(plain(f"seq k in 11 {{ for i in N, j in M if {guard} {{ {body}; }} }}"))
