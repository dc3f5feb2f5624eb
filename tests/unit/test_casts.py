"""Casts of indices keep their values; those to wider types are plain; narrower ones wrap when performed."""

from __future__ import annotations

import pytest

from isamap.ir import Kernel, Range, bind, print_routine
from isamap.source import Source, TypeProblem, UsageProblem
from isamap.syntax import parse_kernel
from isamap.transform import statements


def kernel(value: str, head: str = "(N)", dtype: str = "u8", guard: str = "") -> Kernel:
    text = f"kernel k{head} {{ inout y: {dtype}[N]; for n in N {{ y[n] = {value}{guard}; }} }}"
    return parse_kernel(Source("casts.ir", text))


@pytest.mark.parametrize(
    ("value", "head", "guard"),
    [
        ("u8(n % 16)", "(N)", ""),
        ("u8(2*n + 1)", "(N: 1..128)", ""),
        ("u8(2*n + 1)", "(N) where N <= 128", ""),
        ("u8(n)", "(N)", " if n < 256"),
        ("u8(max(n, 3) - 3)", "(N: 1..200)", ""),
    ],
)
def test_a_cast_of_an_index_that_fits_is_accepted(value: str, head: str, guard: str) -> None:
    assert kernel(value, head, guard=guard)


@pytest.mark.parametrize(
    ("value", "head"),
    [("u8(2*n)", "(N: 1..129)"), ("u8(n - 1)", "(N: 1..9)"), ("i8(n)", "(N)"), ("i8(N)", "(N: 1..128)")],
)
def test_a_cast_of_an_index_that_may_not_fit_is_refused(value: str, head: str) -> None:
    with pytest.raises(TypeProblem, match="cast-may-overflow"):
        kernel(value, head, "u8" if value[0] == "u" else "i8")


def test_a_cast_to_32_bits_is_checked_when_sizes_are_bound() -> None:
    steep = kernel("i32(2000000000*n)", dtype="i32")
    assert bind(steep, {"N": 2})
    assert bind(steep, {"N": Range(1, 2)})
    for sizes in ({"N": 3}, {"N": Range(1, 3)}):
        with pytest.raises(UsageProblem, match=r"it is 0 to (4000000000|2000000000\*N - 2000000000)"):
            bind(steep, sizes)
    with pytest.raises(UsageProblem, match="cast-may-overflow"):
        bind(kernel("u32(N - 3)", dtype="u32"), {"N": 2})


@pytest.mark.parametrize("mode", ["wrap_", "sat_", ""])
def test_a_cast_to_a_type_that_holds_all_values_is_the_plain_one(mode: str) -> None:
    text = f"kernel k(N) {{ in q: u8[N]; out y: i32[N]; for n in N {{ y[n] = {mode}i32(q[n]); }} }}"
    assert "y[n] = i32(q[n]);" in print_routine(parse_kernel(Source("casts.ir", text)))
    assert "y[n] = n;" in print_routine(kernel(f"{mode}i64(n)", dtype="i64"))


def test_a_cast_that_was_proved_to_fit_is_performed_as_the_one_that_wraps() -> None:
    (index,) = statements(kernel("i32(n)", dtype="i32"))
    (wrapped,) = statements(kernel("wrap_i32(n)", dtype="i32"))
    assert index.assign.value == wrapped.assign.value
    text = """kernel k(N) { in x: i32[N]; out y: i8[N]; out z: i64[N];
      for n in N { y[n] = i8(min(max(x[n], -100), 100)); z[n] = i64(x[n]); } }"""
    narrow, wide = statements(parse_kernel(Source("casts.ir", text)))
    assert getattr(narrow.assign.value, "mode", None) == "wrap"
    assert getattr(wide.assign.value, "mode", None) == "exact"
