"""What stands behind `else`: a number is part of the access, any other value is selected."""

from __future__ import annotations

import numpy as np

from isamap.ir import Kernel, Read, bind, interpret, print_routine
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit, reads, statements


def parse(value: str, head: str = "(M, N, scalar z: f32)") -> Kernel:
    text = f"""kernel k{head} {{ in x: f32[M, N]; in b: f32[M]; out y: f32[M, N];
      for m in M, n in N {{ y[m, n] = {value}; }} }}"""
    return parse_kernel(Source("else.ir", text))


def computed(value: str) -> np.ndarray:
    x, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([10, 20], np.float32)
    return interpret(parse(value), {"x": x, "b": b}, {"M": 2, "N": 3}, {"z": 7})["y"]


def test_a_number_is_part_of_the_access() -> None:
    (statement,) = statements(parse("x[m, n - 1] else -inf"))
    assert isinstance(statement.assign.value, Read)
    assert statement.assign.value.fill is not None


def test_any_value_is_taken_where_the_subscripts_leave() -> None:
    assert computed("x[m, n - 1] else z").tolist() == [[7, 0, 1], [7, 3, 4]]
    assert computed("x[m, n - 1] else b[m]").tolist() == [[10, 0, 1], [20, 3, 4]]
    assert computed("x[m - 1, n] else x[m, n - 1] else z").tolist() == [[7, 0, 1], [0, 1, 2]]


def test_what_is_read_comes_back_from_its_text() -> None:
    kernel = parse("(x[m, n - 1] else b[m]) * (x[m + 1, n + 1] else z)")
    assert parse_kernel(Source("again.ir", print_routine(kernel))) == kernel


def test_an_array_is_padded_with_a_scalar_as_with_a_number() -> None:
    explicit = make_guards_explicit(
        bind(parse("(x[m, n - 1] else z) + (x[m, n - 1] else 0)"), {"M": 2, "N": 3})
    )
    *_, last = statements(explicit)
    assert {read.buffer for read in reads(last.assign.value)} == {"x_padded", "x_padded_"}
    assert "select" not in print_routine(explicit)
