"""What `verify` allows where results are too large for their type: the overflow, alone where it must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isamap.driver.deviation import find_deviation
from isamap.driver.oracle import Expected, expect
from isamap.ir import DTYPES, bind, round_to
from isamap.run.fills import make_arrays
from isamap.source import Source
from isamap.syntax import parse_kernel

F32 = np.float32


def is_right(found: Any, reference: Expected) -> bool:
    return find_deviation(np.asarray(found), reference).ratio <= 1


def in_turn(terms: Any) -> Any:
    total = np.zeros(terms.shape[:-1], terms.dtype)
    for n in range(terms.shape[-1]):
        total = total + terms[..., n]
    return total


def stored(values: list[float], dtype: str, error: float) -> Expected:
    """Return what an output of a type should hold whose values are known up to an error."""
    exact = np.array(values)
    computed = np.full(exact.shape, error)
    return Expected(exact, computed + 32, None, False, DTYPES[dtype], computed)


INF = np.inf


@pytest.mark.parametrize(
    ("value", "error", "right", "wrong"),
    [
        (65504.0, 1, [65504], [INF, -INF, np.nan]),
        (65510.0, 20, [65504, INF], [-INF, np.nan]),
        (65530.0, 20, [65504, INF], [-INF, 65408]),
        (-65530.0, 20, [-65504, -INF], [INF, np.nan]),
        (65545.0, 20, [INF], [65504, -INF, np.nan]),
        (70000.0, 20, [INF], [65504, 0, -INF]),
        (-1e300, 20, [-INF], [-65504, INF]),
    ],
)
def test_what_may_overflow_is_the_largest_number_or_infinite(
    value: float, error: float, right: list[float], wrong: list[float]
) -> None:
    reference = stored([value, 1.0], "f16", error)
    assert [v for v in right if not is_right(np.array([v, 1], np.float16), reference)] == []
    assert [v for v in wrong if is_right(np.array([v, 1], np.float16), reference)] == []


def test_a_type_without_infinities_overflows_to_nan() -> None:
    reference = stored([500.0], "f8e4m3", 1)
    f8 = DTYPES["f8e4m3"].numpy()
    assert is_right(np.array([np.nan]).astype(f8), reference)
    assert not is_right(np.array([448]).astype(f8), reference)


def test_a_pole_is_nan_in_a_type_without_infinities() -> None:
    f8, reference = DTYPES["f8e4m3"].numpy(), stored([INF], "f8e4m3", 0)
    assert is_right(np.array([np.nan]).astype(f8), reference)
    assert not is_right(np.array([448]).astype(f8), reference)
    assert not is_right(np.array([np.nan], np.float16), stored([INF], "f16", 0))
    assert is_right(np.array([INF], np.float16), stored([INF], "f16", 0))


# --- overflow on the way ----------------------------------------------------------------------------------


def expected(body: str, **arrays: list[float]) -> Expected:
    """Return what the f32 output y should hold, all operands of one length."""
    given = {name: np.array(values, F32) for name, values in arrays.items()}
    size = len(next(iter(arrays.values())))
    declared = " ".join(f"in {name}: f32[N];" for name in arrays)
    k = bind(parse_kernel(Source("k.ir", f"kernel k(N) {{ {declared} out y: f32[N]; {body} }}")), {"N": size})
    return expect(k, given | {"y": np.zeros(size, F32)}, {}, "edges")["y"]


def test_what_follows_from_an_overflow_is_not_compared() -> None:
    reference = expected("for i in N { y[i] = exp(x[i]) * z[i]; }", x=[96, 96, 1], z=[1e-20, 0, 2])
    e = F32(2 * np.e)
    for first, second in ((INF, np.nan), (1.23e21, INF), (0, 0)):
        assert is_right(np.array([first, second, e], F32), reference)
    assert not is_right(np.array([INF, np.nan, INF], F32), reference)


def test_an_overflow_itself_is_compared() -> None:
    reference = expected("for i in N { y[i] = exp(x[i]); }", x=[96, 1000, 1])
    assert is_right(np.array([INF, INF, F32(np.e)], F32), reference)
    assert not is_right(np.array([INF, 3e38, F32(np.e)], F32), reference)
    assert not is_right(np.array([3e38, INF, F32(np.e)], F32), reference)


def test_an_overflow_is_passed_on_where_it_makes_no_difference() -> None:
    reference = expected("for i in N { y[i] = min(exp(x[i]), 1); }", x=[96, -1])
    assert is_right(np.array([1, F32(np.exp(-1))], F32), reference)
    assert not is_right(np.array([INF, F32(np.exp(-1))], F32), reference)


def test_a_sum_that_leaves_the_type_and_comes_back_is_not_compared() -> None:
    body = "for i in N { y[i] = 0; } for i in N, j in N { y[i] += select(i == 0, x[j], z[j]); }"
    reference = expected(body, x=[3e38, 3e38, -3e38, -3e38], z=[1, 2, 3, 4])
    assert is_right(np.array([np.nan, 10, 10, 10], F32), reference)
    assert not is_right(np.array([np.nan, np.nan, 10, 10], F32), reference)


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("max(x[i], 0)", [np.nan, INF, 0, 2]),
        ("x[i] + 1", [np.nan, INF, -INF, 3]),
        ("1 / x[i]", [np.nan, 0, 0, 0.5]),
        ("x[i] / 0", [np.nan, INF, -INF, INF]),
        ("x[i] * 0", [np.nan, np.nan, np.nan, 0]),
        ("exp(x[i]) - 1", [np.nan, INF, -1, np.e**2 - 1]),
        ("tanh(x[i])", [np.nan, 1, -1, np.tanh(2)]),
        ("sqrt(x[i])", [np.nan, INF, np.nan, np.sqrt(2)]),
        ("select(x[i] > 0, x[i], 0)", [0, INF, 0, 2]),
        ("min(max(x[i], -6), 6)", [np.nan, 6, -6, 2]),
    ],
)
def test_what_is_infinite_or_nan_for_certain_is_compared(value: str, right: list[float]) -> None:
    reference = expected(f"for i in N {{ y[i] = {value}; }}", x=[np.nan, INF, -INF, 2])
    assert is_right(np.array(right, F32), reference)
    for at in range(4):
        for other in (np.nan, INF, 7.0):
            found = np.array(right, F32)
            found[at] = other
            same = right[at] == other or (np.isnan(right[at]) and np.isnan(other))
            assert is_right(found, reference) is bool(same)


@pytest.mark.parametrize("value", ["1 / (x[i] - z[i])", "log(x[i] - z[i])", "sqrt(x[i] - z[i])"])
def test_what_may_be_infinite_is_not_compared(value: str) -> None:
    reference = expected(f"for i in N {{ y[i] = {value}; }}", x=[1, 2], z=[1 - 2.0**-24, 1])
    for found in (np.nan, INF, 2.0**24, -16.6):
        assert is_right(np.array([found, np.float32(reference.values[1])], F32), reference)
    assert not is_right(np.array([0.5, np.nan], F32), reference)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e5m2", "f8e4m3"])
def test_sums_that_are_stored_may_overflow(dtype: str) -> None:
    text = f"in x: f32[M, N]; inout y: {dtype}[M] accumulate f32;"
    text += " for m in M, n in N { y[m] += abs(x[m, n]); }"
    k = bind(parse_kernel(Source("k.ir", f"kernel k(M, N) {{ {text} }}")), {"M": 400, "N": 40})
    arrays = make_arrays(k, "random")
    largest = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f8e5m2": 57344.0, "f8e4m3": 448.0}[dtype]
    arrays["x"] *= F32(largest / 20)
    reference = expect(k, arrays, {}, "random")["y"]
    start, x = arrays["y"].astype(F32)[:, None], np.abs(arrays["x"])
    with np.errstate(over="ignore"):
        sums = [in_turn(np.concatenate([start, terms], axis=1)) for terms in (x, x[:, ::-1])]
        found = [round_to(total, DTYPES[dtype]) for total in sums]
    beyond = ~np.isfinite(found[0].astype(F32))
    assert 50 < np.count_nonzero(beyond) < 350
    assert all(is_right(y, reference) for y in found)
    for change in (beyond, ~beyond):
        spoilt = found[0].astype(F32)
        m = int(np.argmax(change))
        spoilt[m] = largest if change[m] and beyond[m] else np.nan if dtype == "f8e4m3" else np.inf
        assert not is_right(spoilt.astype(found[0].dtype), reference)
