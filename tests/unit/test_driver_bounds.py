"""What `verify` allows: right programs in any order of summing pass, and programs with a fault do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isamap.driver.deviation import find_deviation
from isamap.driver.oracle import Expected, expect
from isamap.ir import DTYPES, Index, Kernel, bind, interpret
from isamap.ir.error_bounds import FloatReduction, Measure, begin_tally, finish_tally
from isamap.ir.measuring import most_hits
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel

F32 = np.float32
SQUARES = "in x: f32[M, N]; out s: f32[M]; {zero} for m in M, n in N {{ s[m] += x[m, n] * x[m, n]; }}"
SIZES = "in x: f32[M, N]; out s: f32[M]; {zero} for m in M, n in N {{ s[m] += abs(x[m, n]); }}"
ZERO = "for m in M { s[m] = 0; }"


def kernel(body: str, **sizes: int) -> Kernel:
    names = ", ".join(sizes)
    return bind(parse_kernel(Source("k.ir", f"kernel k({names}) {{ {body} }}")), sizes)


def expected(k: Kernel, fill: str = "random") -> tuple[dict[str, Any], dict[str, Expected]]:
    arrays = make_arrays(k, fill)
    return arrays, expect(k, arrays, {}, fill)


def is_right(found: Any, reference: Expected) -> bool:
    return find_deviation(np.asarray(found), reference).ratio <= 1


# --- orders of summing ------------------------------------------------------------------------------------


def in_turn(terms: Any) -> Any:
    """Return the sums along the last axis, one term after the other, each rounded to the terms' type."""
    total = np.zeros(terms.shape[:-1], terms.dtype)
    for n in range(terms.shape[-1]):
        total = total + terms[..., n]
    return total


def in_lanes(terms: Any) -> Any:
    return in_turn(in_turn(terms.reshape(*terms.shape[:-1], -1, 16).swapaxes(-1, -2)))


def largest_first(terms: Any) -> Any:
    return in_turn(-np.sort(-terms, axis=-1))


def smallest_first(terms: Any) -> Any:
    return in_turn(np.sort(terms, axis=-1))


ORDERS = (in_turn, in_lanes, largest_first, smallest_first)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("body", [SQUARES, SIZES])
def test_a_long_sum_of_one_sign_is_right_in_any_order(body: str, order: Callable[[Any], Any]) -> None:
    arrays, reference = expected(kernel(body.format(zero=ZERO), M=4, N=80_000))
    x = arrays["x"]
    assert is_right(order(x * x if body == SQUARES else np.abs(x)), reference["s"])


def test_a_sum_of_one_sign_in_a_narrow_type_stops_growing() -> None:
    """Past 256, bf16 cannot take in a number below 1."""
    body = "in x: bf16[M, N]; out s: bf16[M]; {zero} for m in M, n in N {{ s[m] += abs(x[m, n]); }}"
    arrays, reference = expected(kernel(body.format(zero=ZERO), M=3, N=2000))
    found = in_turn(np.abs(arrays["x"]))
    assert np.all(found <= 256)
    assert is_right(found, reference["s"])


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_computed_from_a_long_sum_may_be_off_with_it(order: Callable[[Any], Any]) -> None:
    body = SQUARES.replace("out s", "temp s") + " for m in M, n in N {{ y[m, n] = x[m, n] / sqrt(s[m]); }}"
    k = kernel("out y: f32[M, N]; " + body.format(zero=ZERO), M=2, N=40_000)
    arrays, reference = expected(k)
    x = arrays["x"]
    assert is_right(x / np.sqrt(order(x * x))[:, None], reference["y"])
    assert not is_right(x / np.sqrt(order(x[:, :-2560] * x[:, :-2560]))[:, None], reference["y"])


@pytest.mark.parametrize("body", [SQUARES, SIZES])
def test_a_term_that_is_missing_is_seen(body: str) -> None:
    arrays, reference = expected(kernel(body.format(zero=ZERO), M=64, N=1000))
    x = arrays["x"]
    terms = x * x if body == SQUARES else np.abs(x)
    assert is_right(in_turn(terms), reference["s"])
    assert not is_right(in_turn(terms[:, :-1]), reference["s"])


def test_a_lane_that_is_missing_is_seen_in_a_long_sum() -> None:
    arrays, reference = expected(kernel(SQUARES.format(zero=ZERO), M=4, N=160_000))
    terms = (arrays["x"] * arrays["x"]).reshape(4, -1, 16)
    assert is_right(in_lanes(terms.reshape(4, -1)), reference["s"])
    assert not is_right(in_turn(in_turn(terms[..., :-1].swapaxes(-1, -2))), reference["s"])


def test_a_sum_that_is_cut_to_a_narrow_type_is_seen() -> None:
    arrays, reference = expected(kernel(SQUARES.format(zero=ZERO), M=8, N=2000))
    terms = arrays["x"] * arrays["x"]
    cut = (in_turn(terms).view(np.uint32) & np.uint32(0xFFFF0000)).view(F32)
    assert not is_right(cut, reference["s"])
    assert not is_right(in_turn(terms.astype(DTYPES["bf16"].numpy())).astype(F32), reference["s"])


def test_a_missing_term_among_small_integers_is_seen_however_long_the_sum() -> None:
    arrays, reference = expected(kernel(SQUARES.format(zero=ZERO), M=1, N=1_000_000), "integers")
    terms = arrays["x"] * arrays["x"]
    assert reference["s"].is_exact
    assert is_right(terms.sum(axis=1), reference["s"])
    assert not is_right(terms[:, np.flatnonzero(terms[0])[1:]].sum(axis=1), reference["s"])


def test_the_bound_of_random_signs_does_not_depend_on_the_length() -> None:
    body = "in A: f32[M, K]; in B: f32[K, N]; inout C: f32[M, N];"
    body += "for m in M, n in N, k in K { C[m, n] += A[m, k] * B[k, n]; }"
    arrays, reference = expected(kernel(body, M=40, N=30, K=900))
    a, b, c = (np.abs(arrays[n].astype(np.float64)) for n in "ABC")
    ratio = reference["C"].bound / (4 * 2.0**-23 * (c + a @ b))
    assert np.mean(np.abs(ratio - 1) < 1e-9) > 0.9
    assert np.max(ratio) < 100


@given(count=st.integers(1, 100) | st.integers(1, 10**7), cancels=st.booleans(), ordered=st.booleans())
def test_no_order_of_terms_of_one_sign_is_beyond_the_bound(count: int, cancels: bool, ordered: bool) -> None:
    """Rump's bound for n additions to nearest, in any order, is n·u·Σ|t|."""
    total, nothing = np.asarray(3.0), np.zeros(())
    measure = Measure(scale=8.0, growth=0.25, cancels=cancels)  # in units of u
    tally = begin_tally("add", nothing, nothing, nothing)
    tally.terms[...], tally.touched[...] = total, True
    found = finish_tally(FloatReduction("add", count, 0, ordered), tally, total, total, measure)
    assert 8 * found >= count * total * (1 - 1e-12)
    assert 8 * found <= (2 * count + 8) * total


def test_a_loop_in_order_adds_up_its_roundings() -> None:
    body = f"in x: f32[M, N]; out s: f32[M]; {ZERO} seq n in N {{ for m in M {{ s[m] += abs(x[m, n]); }} }}"
    arrays, reference = expected(kernel(body, M=4, N=4000))
    x = np.abs(arrays["x"])
    assert is_right(in_turn(x), reference["s"])
    whole = expected(kernel(SIZES.format(zero=ZERO), M=4, N=4000))[1]
    assert np.all(reference["s"].bound < whole["s"].bound)
    assert np.all(reference["s"].bound > whole["s"].bound / 4)


@pytest.mark.parametrize(
    ("subscripts", "hits"),
    [("i", 12), ("i, j", 4), ("i + j", 12), ("i + 3*k, j", 4), ("i / 2", 60), ("i + j, i + j", 60), ("", 60)],
)
def test_how_often_an_element_is_hit_is_bounded(subscripts: str, hits: int) -> None:
    i, j, k = (Index.of(n) for n in "ijk")
    parsed = {
        "i": (i,), "i, j": (i, j), "i + j": (i + j,), "i + 3*k, j": (i + k * 3, j), "i / 2": (i.floordiv(2),),
        "i + j, i + j": (i + j, i + j), "": (),
    }  # fmt: skip
    assert most_hits(parsed[subscripts], {"i": 5, "j": 3, "k": 4}) == hits


# --- products ---------------------------------------------------------------------------------------------

FACTORS = "in x: f32[M, N]; inout p: f32[M]; for m in M, n in N { p[m] *= 1 + 0.1 * x[m, n]; }"


def multiplied(factors: Any, start: Any) -> Any:
    for n in range(factors.shape[-1]):
        start = start * factors[..., n]
    return start


@pytest.mark.parametrize("fill", ["random", "integers"])
def test_a_long_product_is_right_in_any_order_and_no_other_is(fill: str) -> None:
    arrays, reference = expected(kernel(FACTORS, M=64, N=600), fill)
    factors, start = F32(1) + F32(0.1) * arrays["x"], arrays["p"]
    assert is_right(multiplied(factors, start), reference["p"])
    assert is_right(multiplied(np.sort(factors, axis=-1), start), reference["p"])
    some = multiplied(factors.reshape(64, -1, 20), np.ones((64, 30), F32))
    assert is_right(multiplied(some, start), reference["p"])
    assert not is_right(multiplied(factors[:, :-1], start), reference["p"])
    assert not is_right(multiplied(factors, start) * F32(1.01), reference["p"])


def test_a_product_of_what_is_given_has_an_error_for_each_factor() -> None:
    body = "in x: f32[M, N]; inout p: f32[M]; for m in M, n in N { p[m] *= x[m, n]; }"
    k = kernel(body, M=500, N=800)
    arrays = make_arrays(k, "random")
    arrays["x"] = (1 + 0.1 * arrays["x"]).astype(F32)
    reference = expect(k, arrays, {}, "random")["p"]
    assert is_right(multiplied(arrays["x"], arrays["p"]), reference)
    assert not is_right(multiplied(arrays["x"][:, :-1], arrays["p"]), reference)


def test_a_factor_that_cancels_leaves_its_error() -> None:
    """(a - b) is 0 within the error of a: the product may be that error times the other factors."""
    body = "in a: f32[N]; in b: f32[N]; temp t: f32[N]; inout p: f32;"
    body += "for n in N { t[n] = a[n] * 3; } for n in N { p *= t[n] - b[n]; }"
    k = kernel(body, N=4)
    a = np.array([1.1, 5, 6, 7], F32)
    third = a.astype(np.float64) * 3
    arrays = {"a": a, "b": third.astype(F32), "p": np.asarray(1, F32)}
    arrays["b"][1:] = 1
    reference = expect(k, arrays, {}, "random")["p"]
    assert 1e-5 < reference.bound < 1e-1


def test_what_a_reduction_leaves_alone_keeps_its_bound() -> None:
    for op, body in (("*", "x[n]"), ("+", "abs(x[n])")):
        text = "in x: f32[N]; in y: f32[M + 3]; out p: f32[M + 3]; for m in M + 3 { p[m] = y[m]; }"
        text += f"for m in 3, n in N {{ p[m] {op}= {body}; }}"
        k = kernel(text, M=3, N=1000)
        arrays = make_arrays(k, "random")
        arrays["x"], arrays["y"][:] = (1 + arrays["x"] / 1000).astype(F32), 1
        bound = expect(k, arrays, {}, "random")["p"].bound
        assert np.allclose(bound[3:], 4 * 2.0**-23)
        assert np.all(bound[:3] > 100 * bound[3:])


def test_a_recurrence_adds_up_its_roundings() -> None:
    body = "in x: f32[N, M]; inout h: f32[M]; seq n in N { for m in M { h[m] = h[m] * x[n, m]; } }"
    k = kernel(body, M=500, N=800)
    arrays = make_arrays(k, "random")
    arrays["x"] = (1 + 0.1 * arrays["x"]).astype(F32)
    reference = expect(k, arrays, {}, "random")["h"]
    assert is_right(multiplied(arrays["x"].T, arrays["h"]), reference)
    assert not is_right(multiplied(arrays["x"][1:].T, arrays["h"]), reference)


@pytest.mark.parametrize("function", ["tanh", "sigmoid", "erf"])
def test_a_loop_through_a_function_that_levels_off_passes_on_little(function: str) -> None:
    body = "in w: f32[M, M]; in h0: f32[M]; temp h: f32[M]; temp u: f32[M]; out y: f32[T, M];"
    body += "for m in M { h[m] = h0[m]; } seq t in T { for m in M { u[m] = 0; }"
    body += "for m in M, k in M { u[m] += 3 * w[m, k] * h[k]; }"
    body += f"for m in M {{ h[m] = {function}(u[m]); y[t, m] = h[m]; }} }}"
    k = kernel(body, M=16, T=40)
    arrays, reference = expected(k)
    assert is_right(interpret(k, arrays, {})["y"], reference["y"])
    assert np.median(reference["y"].bound[3]) < 0.01
    assert np.all(reference["y"].bound < 2.1)


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("name", "function"),
    [("tanh", math.tanh), ("sigmoid", logistic), ("erf", math.erf)],
)
def test_a_function_passes_on_what_it_makes_of_an_error(
    name: str, function: Callable[[float], float]
) -> None:
    """Of 0 ± 0.1 and of 2 ± 0.1: what is left of 10⁵ - 10⁵."""
    body = f"in a: f32[N]; in b: f32[N]; out y: f32[N]; for n in N {{ y[n] = {name}(a[n] - b[n]); }}"
    arrays = {"a": np.array([1e5, 1e5 + 2], F32), "b": np.array([1e5, 1e5], F32)}
    bound = expect(kernel(body, N=2), arrays, {}, "random")["y"].bound
    error = 4 * 2.0**-23 * 2e5
    for at, found in zip((0.0, 2.0), bound, strict=True):
        passed_on = max(abs(function(at + by) - function(at)) for by in (-error, error))
        assert passed_on <= found <= 1.2 * passed_on
