"""A kernel is cut into parts between machines: each buffer is written in one part, in an order that reads keep."""

from __future__ import annotations

import numpy as np

from isamap.ir import Call, Kernel, bind, interpret, print_routine
from isamap.ir.walk import walk
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import Statement, make_guards_explicit, statements
from isamap.transform.parts import kernel_of, units_of, with_extrema, with_values_apart

CONVOLVED = """kernel convolved() {
  in x: i8[8];
  in w: i8[3];
  in bias: i32[8];
  temp s: i32[8];
  out y: i8[8];
  for p in 8 { s[p] = bias[p]; }
  for p in 8, r in 3 { s[p] += i32((x[p + r - 1] else 0)) * i32(w[r]); }
  for p in 8 { y[p] = sat_i8(max(sat_i8(s[p]), 3) + 1); }
}
"""


def explicit(text: str) -> Kernel:
    return make_guards_explicit(bind(parse_kernel(Source("kernel", text)), {}))


def parts_in(kernel: Kernel) -> list[Kernel]:
    """Return a part for each unit, read back from its text."""
    units = units_of(kernel)
    texts = [print_routine(kernel_of(kernel, units, n, n + 1, f"part_{n}")) for n in range(len(units))]
    return [bind(parse_kernel(Source("kernel", text)), {}) for text in texts]


def roles(kernel: Kernel) -> dict[str, str]:
    return {operand.name: operand.role for operand in kernel.operands}


def test_padding_comes_before_the_sum_that_reads_it() -> None:
    assert [roles(part) for part in parts_in(explicit(CONVOLVED))] == [
        {"x": "in", "x_padded": "out"},
        {"w": "in", "bias": "in", "s": "out", "x_padded": "in"},
        {"s": "in", "y": "out"},
    ]


def test_parts_one_behind_the_other_compute_what_the_kernel_does() -> None:
    kernel = explicit(CONVOLVED)
    drawn = np.random.default_rng(0)
    given = {
        "x": drawn.integers(-128, 128, 8).astype(np.int8),
        "w": drawn.integers(-128, 128, 3).astype(np.int8),
        "bias": drawn.integers(-100, 100, 8).astype(np.int32),
    }
    known = dict(given)
    for part in parts_in(kernel):
        known |= interpret(part, {n: known[n] for n, role in roles(part).items() if role == "in"}, {})
    assert np.array_equal(known["y"], interpret(kernel, given, {})["y"])


def test_a_buffer_that_changes_between_its_readers_is_not_cut() -> None:
    text = """kernel twice() {
  inout a: i32[4];
  out y: i32[4];
  out z: i32[4];
  for i in 4 { y[i] = a[i]; }
  for i in 4 { a[i] = 7; }
  for i in 4 { z[i] = a[i]; }
}
"""
    units = units_of(explicit(text))
    assert [len(unit) for unit in units] == [2, 1]


def test_groups_that_need_each_other_are_one() -> None:
    text = """kernel mutual() {
  in x: i32[4];
  temp a: i32[4];
  temp b: i32[4];
  out y: i32[4];
  for i in 4 { a[i] = x[i]; }
  for i in 4 { b[i] = a[i]; }
  for i in 4 { a[i] += b[i]; }
  for i in 4 { y[i] = a[i]; }
}
"""
    assert [len(unit) for unit in units_of(explicit(text))] == [3, 1]


def test_a_buffer_that_bounds_a_loop_or_an_index_is_read() -> None:
    text = """kernel gathered() {
  in x: f32[4];
  in places: i32[4] values 0..3;
  out y: f32[4];
  for i in 4 { y[i] = x[places[i]]; }
}
"""
    (part,) = parts_in(explicit(text))
    assert roles(part) == {"x": "in", "places": "in", "y": "out"}


def adds(statement: Statement) -> bool:
    return any(isinstance(e, Call) and e.op == "add" for e in walk(statement.assign.value))


def test_a_narrow_value_of_a_sum_that_is_performed_becomes_a_temporary() -> None:
    kernel = explicit(CONVOLVED)
    made = with_values_apart(kernel, lambda statement: not adds(statement))
    (added,) = (o for o in made.operands if o.name not in roles(kernel))
    assert (str(added.dtype), added.role) == ("i8", "temp")
    assert [adds(statement) for statement in statements(made)][-2:] == [False, True]
    assert len(units_of(made)) == len(units_of(kernel)) + 1


def test_a_kernel_no_part_of_which_is_performed_keeps_its_expressions() -> None:
    kernel = explicit(CONVOLVED)
    assert with_values_apart(kernel, lambda _: False) == kernel


def test_choices_between_a_value_and_its_limit_are_extrema_also_of_nan() -> None:
    text = """kernel k() {
      in x: f32[8];
      out y: f32[8];
      for i in 8 {
        y[i] = select(6 < select(x[i] < 0, 0, x[i]), 6, select(x[i] < 0, 0, x[i])) + select(x[i] < 0, 1, x[i]);
      }
    }"""
    kernel = parse_kernel(Source("k", text))
    made = with_extrema(kernel)
    assert "min(max(x[i], 0), 6) + select(x[i] < 0, 1, x[i])" in print_routine(made)
    x = np.array([-1.5, -0.0, 0.0, 3.0, 6.0, 7.5, np.inf, np.nan], np.float32)
    for one, other in zip(*(interpret(k, {"x": x}, {}).values() for k in (kernel, made)), strict=True):
        np.testing.assert_array_equal(one, other)
