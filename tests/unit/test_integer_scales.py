"""Scales that are powers of two become shifts with the same results, and constants are stored in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from isamap.graph.graph import Array
from isamap.ir import Kernel, bind, interpret
from isamap.source import Source
from isamap.syntax import parse_kernel
from isamap.transform import make_guards_explicit
from isamap.transform.block_storage import Side, in_stored_blocks
from isamap.transform.integer_scales import with_integer_scales

MOST = 1 << 30


def kernel_of(text: str) -> Kernel:
    return make_guards_explicit(bind(parse_kernel(Source("k.ir", text)), {}))


def narrowed(scale: str, to: str = "i8") -> str:
    text = f"kernel k() {{ in x: i32[4096]; out y: {to}[4096];\n"
    return text + f"  for i in 4096 {{ y[i] = sat_{to}(round(f32(x[i]) * {scale}, even)); }}\n}}\n"


@pytest.mark.parametrize("places", [1, 2, 7, 12, 16])
@pytest.mark.parametrize("to", ["i8", "u8"])
def test_a_shift_rounds_as_the_product_by_a_power_of_two(places: int, to: str) -> None:
    kernel = kernel_of(narrowed(repr(2.0**-places), to))
    made = with_integer_scales(kernel, {"x": MOST})
    assert made is not None
    half = 1 << (places - 1)
    rng = np.random.default_rng(places)
    ties = half * np.arange(-600, 600)
    far = [-MOST, MOST, (1 << 24) + 1, -(1 << 24) - 1]
    values = np.concatenate([ties, ties + 1, ties - 1, far, rng.integers(-200 << places, 200 << places, 492)])
    x = values[:4096].astype(np.int32)
    x = np.pad(x, (0, 4096 - len(x)))
    before, after = (interpret(one, {"x": x}, {})["y"] for one in (kernel, made))
    assert np.array_equal(before, after)
    assert len(np.unique(before)) > 200


@pytest.mark.parametrize(
    ("scale", "most", "why"),
    [
        ("0.3", MOST, "no power of two"),
        ("0.5", (1 << 31) - 1, "half of a place more overflows"),
        (repr(2.0**-17), MOST, "the float rounds where the result does not saturate"),
        ("2.0", MOST, "no division"),
    ],
)
def test_another_scale_stays_as_it_is(scale: str, most: int, why: str) -> None:
    assert with_integer_scales(kernel_of(narrowed(scale)), {"x": most}) is None, why


SUMS = """kernel k() {
  in a: i8[8, 32];
  in w: i8[32, 48];
  in b: i32[48];
  out y: i8[8, 48];
  temp s: i32[8, 48];
  for m in 8, n in 48 { s[m, n] = b[n]; }
  for m in 8, n in 48, k in 32 { s[m, n] += i32(a[m, k]) * i32(w[k, n]); }
  for m in 8, n in 48 { y[m, n] = sat_i8(round(f32(s[m, n]) * 0.00048828125, even)); }
}
"""


def test_sums_of_bounded_inputs_do_not_overflow_and_others_might() -> None:
    kernel = kernel_of(SUMS)
    assert with_integer_scales(kernel, {"b": 1 << 20}) is not None
    assert with_integer_scales(kernel, {}) is None, "a bias may be anything"


def test_a_constant_stored_in_blocks_gives_the_same_sums() -> None:
    kernel = kernel_of(SUMS)
    found = in_stored_blocks(kernel, ["w", "b"], (Side(16, is_summed=False), Side(8, is_summed=True)))
    assert found is not None
    made, storage = found
    assert storage["w"].shape == (3, 4, 16, 8)
    assert storage["a"].shape == (8, 4, 8)
    rng = np.random.default_rng(1)
    given: dict[str, Array] = {
        name: rng.integers(-128, 128, shape).astype(np.int8)
        for name, shape in (("a", (8, 32)), ("w", (32, 48)))
    }
    given |= {"b": rng.integers(-9999, 9999, 48).astype(np.int32)}
    stored = {n: x.reshape(storage[n].split).transpose(storage[n].order) for n, x in given.items()}
    before, after = interpret(kernel, given, {})["y"], interpret(made, stored, {})["y"]
    assert np.array_equal(before.ravel(), after.ravel())
    assert len(np.unique(before)) > 50


@pytest.mark.parametrize(
    ("constants", "block"),
    [(["b"], (16, 8)), (["w"], (32, 8)), (["w"], (16, 64))],
    ids=["no sum reads a matrix", "results are no multiple", "terms are no multiple"],
)
def test_what_blocks_do_not_divide_is_not_stored_in_them(
    constants: list[str], block: tuple[int, int]
) -> None:
    sides = Side(block[0], is_summed=False), Side(block[1], is_summed=True)
    assert in_stored_blocks(kernel_of(SUMS), constants, sides) is None


def test_an_axis_that_an_access_uses_in_another_way_is_not_split() -> None:
    shifted = SUMS.replace("b: i32[48]", "b: i32[50]").replace("= b[n]", "= b[n + 2]")
    assert (
        in_stored_blocks(kernel_of(shifted), ["w"], (Side(16, is_summed=False), Side(8, is_summed=True)))
        is None
    )
