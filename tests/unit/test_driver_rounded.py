"""What `verify` allows where floats become whole numbers or narrower types: their errors, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isamap.driver.deviation import find_deviation
from isamap.driver.oracle import Expected, expect, sums_only
from isamap.ir import DTYPES, Kernel, bind
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel

F32 = np.float32
QUANTISED = """in x: f32[M, N]; temp s: f32[M]; out q: i32[M];
for m in M { s[m] = 0; }
for m in M, n in N { s[m] += x[m, n] * x[m, n]; }
for m in M { q[m] = sat_i32(round(s[m] * 10000, even)); }
"""


def kernel(body: str, **sizes: int) -> Kernel:
    names = ", ".join(sizes)
    return bind(parse_kernel(Source("k.ir", f"kernel k({names}) {{ {body} }}")), sizes)


def is_right(found: Any, expected: Expected) -> bool:
    return find_deviation(np.asarray(found), expected).ratio <= 1


def in_turn(terms: Any) -> Any:
    total = np.zeros(terms.shape[:-1], terms.dtype)
    for n in range(terms.shape[-1]):
        total = total + terms[..., n]
    return total


# --- integers ---------------------------------------------------------------------------------------------


def test_an_integer_may_be_what_a_float_within_its_bound_rounds_to() -> None:
    k = kernel(QUANTISED, M=3000, N=30)
    arrays = make_arrays(k, "random")
    expected = expect(k, arrays, {}, "random")["q"]
    x = arrays["x"]
    found = [
        np.rint(total * F32(10000)).astype(np.int32) for total in (in_turn(x * x), in_turn((x * x)[:, ::-1]))
    ]
    assert np.count_nonzero(found[0] != found[1])
    assert all(is_right(q, expected) for q in found)
    assert expected.bound.max() <= 3


def test_a_whole_number_that_is_added_to_a_rounded_one_leaves_it_whole() -> None:
    """A zero point does not make each quantised number one off."""
    text = QUANTISED.replace("even)", "even) + 3").replace("sat_i32", "sat_i8").replace("q: i32", "q: i8")
    k = kernel(text.replace("10000", "4"), M=300, N=4)
    expected = expect(k, arrays := make_arrays(k, "random"), {}, "random")["q"]
    assert len(np.unique(expected.values)) > 5
    assert np.count_nonzero(expected.bound) < 30
    assert not is_right(np.trunc(np.square(arrays["x"]).sum(axis=1) * 4).astype(np.int8) + 3, expected)


def test_an_integer_is_off_where_its_float_is_near_a_boundary_and_nowhere_else() -> None:
    k = kernel(QUANTISED, M=3000, N=4)
    arrays = make_arrays(k, "random")
    expected = expect(k, arrays, {}, "random")["q"]
    scaled = 10000 * np.sum(arrays["x"].astype(np.float64) ** 2, axis=1)
    to_boundary = np.abs(scaled - np.floor(scaled) - 0.5)
    free = expected.bound > 0
    assert 0 < np.count_nonzero(free) < 0.1 * free.size
    assert np.all(to_boundary[free] < 0.06)
    assert np.all(to_boundary[~free] > 0.001)
    for m in (int(np.argmax(free)), int(np.argmin(free))):
        for by in (-2, -1, 1, 2):
            found = expected.values.copy()
            found[m] += by
            towards = np.sign(scaled[m] - expected.values[m])
            if by == towards:
                assert is_right(found, expected) == free[m]
            elif abs(by) == 2:
                assert not is_right(found, expected)


@pytest.mark.parametrize("value", ["x[m] * 30", "x[m] / 3", "x[m]", "f32(i[m]) * 0.37", "-(x[m] * 30)"])
def test_an_integer_from_one_operation_is_exact(value: str) -> None:
    """It rounds correctly on every instruction and in every compiler."""
    text = "in x: f32[M]; in i: i8[M]; out q: i8[M]; for m in M {{ q[m] = sat_i8(round({}, even)); }}"
    k = kernel(text.format(value), M=5000)
    assert expect(k, make_arrays(k, "random"), {}, "random")["q"].is_exact


def test_an_integer_from_a_product_and_a_sum_may_be_contracted() -> None:
    text = "in x: f32[M]; in y: f32[M]; out q: i32[M];"
    text += "for m in M { q[m] = sat_i32(round(x[m] * 30000 + y[m], even)); }"
    k = kernel(text, M=20_000)
    arrays = make_arrays(k, "random")
    expected = expect(k, arrays, {}, "random")["q"]
    once = np.rint((arrays["x"].astype(np.float64) * 30000 + arrays["y"]).astype(F32)).astype(np.int32)
    twice = np.rint(arrays["x"] * F32(30000) + arrays["y"]).astype(np.int32)
    assert np.any(once != twice)
    assert is_right(once, expected)
    assert is_right(twice, expected)
    assert not is_right(once + 1, expected)


def test_saturated_integers_are_exact() -> None:
    k = kernel(QUANTISED.replace("i32", "i8").replace("10000", "1000"), M=500, N=30)
    expected = expect(k, make_arrays(k, "random"), {}, "random")["q"]
    assert np.all(expected.values == 127)
    assert expected.is_exact


def test_small_integers_are_exact_when_they_are_floats_on_the_way() -> None:
    k = kernel(QUANTISED.replace("10000", "3"), M=50, N=30)
    expected = expect(k, make_arrays(k, "integers"), {}, "integers")["q"]
    assert expected.is_exact


def test_a_float_that_is_cut_may_lie_on_either_side_of_a_whole_number() -> None:
    k = kernel(QUANTISED.replace("round(s[m] * 10000, even)", "s[m]"), M=1, N=4)
    arrays = {"x": np.array([[0.6, 0.8, 1, 1]], F32)}
    expected = expect(k, arrays, {}, "random")["q"]
    assert is_right([2], expected)
    assert is_right([3], expected)
    assert not is_right([1], expected)
    assert not is_right([5], expected)


def test_integers_pass_on_by_how_much_they_may_differ() -> None:
    text = QUANTISED.replace("out q", "temp q") + "for m in M, k in K { t[k] += i32(w[m, k]) * q[m]; }"
    text += "for k in K { u[k] = rounding_shift(t[k], 4, away); y[k] = f32(u[k]) * 0.5; }"
    head = "in w: i8[M, K]; inout t: i32[K]; out u: i32[K]; out y: f32[K];"
    k = kernel(head + text.replace("10000", "100"), M=40, N=5, K=6)
    arrays = make_arrays(k, "random")
    arrays["t"][:] = 0
    expected = expect(k, arrays, {}, "random")
    scaled = 100 * np.sum(arrays["x"].astype(np.float64) ** 2, axis=1)
    arrays["x"][0] *= np.sqrt((np.floor(scaled[0]) + 0.5) / scaled[0]).astype(F32)  # to a boundary
    near = expect(k, arrays, {}, "random")
    by = np.abs(arrays["w"].astype(np.float64)).T @ np.eye(40)[0]
    assert np.array_equal(near["t"].bound - expected["t"].bound, by)
    assert np.all(near["u"].bound - expected["u"].bound >= np.floor(by / 16))
    assert np.all(near["u"].bound - expected["u"].bound <= np.floor(by / 16) + 1)
    assert np.all(near["y"].bound >= near["u"].bound / 2)


def test_what_is_computed_from_integers_differs_as_they_do() -> None:
    text = QUANTISED.replace("out q", "temp q")
    text += "for m in M { u[m] = q[m] * i32(w[m]); } for m in M { v[m] = q[m - 1] else 9; }"
    k = kernel("in w: i8[M]; out u: i32[M]; out v: i32[M];" + text, M=500, N=4)
    arrays = make_arrays(k, "random")
    expected = expect(k, arrays, {}, "random")
    free = expected["v"].bound[1:] > 0
    assert 0 < np.count_nonzero(free) < 50
    assert expected["v"].bound[0] == 0
    weights = np.abs(arrays["w"].astype(np.float64))
    assert np.array_equal(expected["u"].bound[:-1], expected["v"].bound[1:] * weights[:-1])


def test_each_output_is_exact_for_itself() -> None:
    text = "in x: f32[M]; out y: f32[M]; out z: f32[M];"
    text += "for m in M { y[m] = x[m] * 1048576 * 32; } for m in M { z[m] = x[m] * 3; }"
    k = kernel(text, M=50)
    expected = expect(k, make_arrays(k, "integers"), {}, "integers")
    assert expected["z"].is_exact
    assert not expected["y"].is_exact


def test_samples_of_integers_agree_with_the_whole() -> None:
    k = kernel(QUANTISED, M=400, N=30)
    arrays = make_arrays(k, "random")
    whole, some = expect(k, arrays, {}, "random")["q"], expect(k, arrays, {}, "random", 300)["q"]
    assert some.at is not None
    assert np.any(whole.bound)
    assert np.array_equal(whole.bound[some.at], some.bound)
    assert np.array_equal(whole.values[some.at], some.values)


def test_a_float_that_is_rounded_to_a_whole_number_may_be_the_next_one() -> None:
    k = kernel(QUANTISED.replace("i32[M]", "f32[M]").replace("sat_i32", ""), M=3000, N=30)
    arrays = make_arrays(k, "random")
    expected = expect(k, arrays, {}, "random")["q"]
    x = arrays["x"]
    assert is_right(np.rint(in_turn(x * x) * F32(10000)), expected)
    assert np.count_nonzero(expected.bound < 0.5) > 100
    assert not is_right(expected.values + 1, expected)


# --- narrower types ---------------------------------------------------------------------------------------


def test_a_cast_to_a_narrower_type_rounds() -> None:
    k = kernel("in x: f32[M]; out y: f32[M]; for m in M { y[m] = f32(bf16(x[m] * 3)); }", M=500)
    arrays = make_arrays(k, "random")
    expected = expect(k, arrays, {}, "random")["y"]
    bf16 = DTYPES["bf16"].numpy()
    found = (arrays["x"] * F32(3)).astype(bf16)
    assert is_right(found.astype(F32), expected)
    assert not is_right((found.astype(F32) * F32(1 + 2**-7)), expected)


def test_integers_too_large_for_a_narrower_type_are_not_exact_in_it() -> None:
    k = kernel("in x: f32[M]; out y: f32[M]; for m in M { y[m] = f32(bf16(x[m] * 301)); }", M=500)
    arrays = make_arrays(k, "integers")
    found = (arrays["x"] * F32(301)).astype(DTYPES["bf16"].numpy()).astype(F32)
    assert is_right(found, expect(k, arrays, {}, "integers")["y"])
    few = kernel("in x: f32[M]; out y: f32[M]; for m in M { y[m] = f32(bf16(x[m] * 3)); }", M=500)
    assert expect(few, arrays, {}, "integers")["y"].is_exact


def test_padding_with_an_infinity_is_held_to_a_bound() -> None:
    text = "in x: f32[M]; out y: f32[M];"
    text += "for m in M { y[m] = max(x[m - 1] else -inf, x[m] * 3); }"
    k = kernel(text, M=50)
    arrays = make_arrays(k, "random")
    whole, some = expect(k, arrays, {}, "random")["y"], expect(k, arrays, {}, "random", 80)["y"]
    assert np.all(whole.bound < 1e-5)
    assert np.all(some.bound < 1e-5)


def test_a_sum_that_is_stored_in_a_narrower_type_rounds() -> None:
    text = "in x: f32[M, N]; out s: bf16[M] accumulate f32; out y: f32[M];"
    text += "for m in M { s[m] = 0; } for m in M, n in N { s[m] += x[m, n]; }"
    text += "for m in M { y[m] = f32(s[m]) * 3; }"
    k = kernel(text, M=500, N=8)
    arrays = make_arrays(k, "random")
    expected = expect(k, arrays, {}, "random")["y"]
    found = in_turn(arrays["x"]).astype(DTYPES["bf16"].numpy()).astype(F32) * F32(3)
    assert is_right(found, expected)
    assert not is_right(found * F32(1 + 2**-7), expected)


NARROWED = "in x: f32[M, N]; in z: f32[M, N]; inout s: bf16[M] accumulate f32;"
TWO_SUMS = {
    "two loops": "for m in M, n in N { s[m] += x[m, n]; } for m in M, n in N { s[m] += z[m, n]; }",
    "one loop": "for m in M { for n in N { s[m] += x[m, n]; } for n in N { s[m] += z[m, n]; } }",
    "maxima": "for m in M, n in N { s[m] += x[m, n]; } for m in M, n in N { s[m] max= z[m, n]; }",
    "a product": "for m in M, n in N { s[m] += x[m, n]; } for m in M, n in N { s[m] *= z[m, n]; }",
    "in order": "for m in M { s[m] += 0; } seq n in N { for m in M { s[m] += x[m, n] * z[m, n]; } }",
}
FOLDS = {"maxima": np.maximum, "a product": np.multiply}


def narrowed(values: Any) -> Any:
    return values.astype(DTYPES["bf16"].numpy())


@pytest.mark.parametrize("fill", ["integers", "random"])
@pytest.mark.parametrize("text", TWO_SUMS)
def test_a_sum_that_goes_on_may_be_rounded_in_between(text: str, fill: str) -> None:
    """What is left may be far smaller than what was rounded: its own last place says nothing of that."""
    k = kernel(NARROWED + TWO_SUMS[text], M=400, N=2 if text == "a product" else 300)
    arrays = make_arrays(k, fill)
    x, z, s = arrays["x"], arrays["z"], arrays["s"]
    if text in ("two loops", "one loop"):
        x[...] = np.abs(x)
        z[...] = -x[:, ::-1]
    if text == "in order":
        found = s
        for n in range(x.shape[1]):
            found = narrowed(found.astype(F32) + x[:, n] * z[:, n])
    else:
        first = narrowed(in_turn(np.concatenate([s[:, None].astype(F32), x], axis=1))).astype(F32)
        fold = FOLDS.get(text, np.add)
        found = narrowed(fold.accumulate(np.concatenate([first[:, None], z], axis=1), axis=1)[:, -1])
    expected = expect(k, arrays, {}, fill)["s"]
    assert is_right(found, expected)
    assert not is_right(found.astype(F32) + 4 * float(np.max(expected.bound)) + 1e-3, expected)
    if text != "in order":
        assert is_right(found, expect(k, arrays, {}, fill, 80)["s"])


def test_what_only_one_of_two_sums_reaches_is_rounded_once() -> None:
    text = NARROWED + "for m in M, n in N if m < 50 { s[m] += x[m, n]; }"
    k = kernel(text + "for m in M, n in N if m >= 50 { s[m] += z[m, n]; }", M=100, N=300)
    arrays = make_arrays(k, "integers")
    assert expect(k, arrays, {}, "integers")["s"].is_exact


def test_integers_beyond_a_narrower_type_that_sums_are_read_from_are_not_exact() -> None:
    text = "in x: f32[M, N]; out s: bf16[M] accumulate f32; out y: f32[M]; for m in M { s[m] = 0; }"
    text += "for m in M, n in N { s[m] += x[m, n] * x[m, n]; } for m in M { y[m] = f32(s[m]) * 3; }"
    k = kernel(text, M=50, N=301)
    arrays = make_arrays(k, "integers")
    sums = in_turn(arrays["x"] * arrays["x"])
    assert is_right(narrowed(sums).astype(F32) * 3, expect(k, arrays, {}, "integers")["y"])


def test_a_fraction_in_the_text_makes_sums_inexact() -> None:
    text = "in x: f32[M, N]; inout s: f32[M]; for m in M, n in N {{ s[m] += {} * x[m, n]; }}"
    assert sums_only(kernel(text.format("2"), M=3, N=100))
    k = kernel(text.format("0.1"), M=3, N=100)
    assert not sums_only(k)
    arrays = make_arrays(k, "integers")
    found = in_turn(np.concatenate([arrays["s"][:, None], F32(0.1) * arrays["x"]], axis=1))
    assert is_right(found, expect(k, arrays, {}, "integers")["s"])
