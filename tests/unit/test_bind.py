"""Numbers replace sizes, ranges stay symbols, every limit is checked (`tests/errors` pins the words)."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.ir import Index, Kernel, Param, Range, bind, print_routine
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel

CONV = """
kernel conv(H, R, s: 1..4 = 1, pad: 0..8 = 0) where R <= H + 2*pad {
  let P = (H + 2*pad - R) / s + 1;
  in X: f32[H]; in F: f32[R]; inout Y: f32[P];
  for p in P, r in R { Y[p] += (X[p*s + r - pad] else 0) * F[r]; }
}
"""


@pytest.fixture
def conv() -> Kernel:
    return parse_kernel(Source("conv.ir", CONV))


def test_bound_sizes_lets_and_constraints_are_gone(conv: Kernel) -> None:
    bound = bind(conv, {"H": 8, "R": 3, "pad": 1})
    assert (bound.params, bound.lets, bound.where) == ((), (), ())
    assert [[e.value for e in o.shape] for o in bound.operands] == [[8], [3], [8]]
    assert "X[p + r - 1] else 0" in print_routine(bound)


def test_a_range_keeps_its_symbol_and_profile(conv: Kernel) -> None:
    bound = bind(conv, {"H": Range(3, 64, 32), "R": 3})
    assert bound.params == (Param("H", low=Index.of(3), high=Index.of(64), default=32),)
    assert str(bound.operand("Y").shape[0]) == "P"
    assert str(bound.lets[0].value) == "H - 2"


def test_a_cast_of_a_size_is_a_number_once_the_size_is_one() -> None:
    text = """kernel k(N) { in x: f32[N]; out y: f32[N]; out z: f32[N];
      for n in N { y[n] = x[n] / f32(N); z[n] = x[n] * f32(i64(3) + i64(n)); } }"""
    bound = print_routine(bind(parse_kernel(Source("k.ir", text)), {"N": 1024}))
    assert "y[n] = x[n] / 1024;" in bound
    assert "z[n] = x[n] * f32(n + 3);" in bound


def test_a_cast_of_a_number_is_a_number() -> None:
    text = """kernel k(N) { in x: f16[N]; out y: f16[N]; out z: i8[N];
      for n in N { y[n] = x[n] / f16(i64(70000)); z[n] = wrap_i8(i32(300)); } }"""
    bound = print_routine(bind(parse_kernel(Source("k.ir", text)), {"N": 4}))
    assert "y[n] = x[n] / inf;" in bound
    assert "z[n] = 44;" in bound


def test_numpy_integers_are_sizes(conv: Kernel) -> None:
    sizes = {"H": np.int64(8), "R": np.int32(3)}
    assert bind(conv, {k: int(v) for k, v in sizes.items()}) == bind(conv, {"H": 8, "R": 3})


@pytest.mark.parametrize(
    ("sizes", "code"),
    [
        ({"H": 8}, "size-unbound"),
        ({"H": 8, "R": 3, "Z": 1}, "unknown-size"),
        ({"H": 0, "R": 3}, "size-not-positive"),
        ({"H": 8, "R": 3, "s": 5}, "size-out-of-range"),
        ({"H": 2**31 + 1, "R": 3}, "size-too-large"),
        ({"H": 2, "R": 3}, "where-violated"),
        ({"H": Range(8, 4), "R": 3}, "size-out-of-range"),
    ],
)
def test_wrong_sizes_are_refused(conv: Kernel, sizes: dict[str, int | Range], code: str) -> None:
    with pytest.raises(UsageProblem) as found:
        bind(conv, sizes)
    assert found.value.diagnostics[0].code == code
