"""Casts and operations agree with Python's integers and fractions, in every type."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import fit

from isamap.ir import (
    DTYPES,
    F64,
    OPS,
    Call,
    Cast,
    Const,
    DType,
    Env,
    Scalar,
    convert,
    evaluate_expr,
    round_to,
)
from isamap.ir.ops import ROUNDING

FLOATS = [d for d in DTYPES.values() if d.is_float]
INTEGERS = [d for d in DTYPES.values() if d.is_integer]
FINFO: Any = ml_dtypes.finfo
LARGEST = {d.name: float(FINFO(d.numpy()).max) for d in FLOATS} | {"tf32": 3.4011621342146535e38}


def floats_near(dtype: DType) -> st.SearchStrategy[float]:
    """float64 numbers in and around a type: ties, almost ties, subnormals, and a few beyond its largest."""
    digits = st.integers(-(2 ** (dtype.mantissa_bits + 1)), 2 ** (dtype.mantissa_bits + 1))
    span = 2 ** (dtype.exponent_bits - 1)
    scale = st.integers(-span - 2 * dtype.mantissa_bits, span - dtype.mantissa_bits - 2)
    nudge = st.sampled_from((0.0, 2.0**-52, -(2.0**-52), 2.0**-30))
    ties = st.tuples(digits, nudge, scale).map(lambda t: math.ldexp(t[0] * (1 + t[1]), t[2] - 1))
    return ties.filter(lambda v: abs(v) <= LARGEST[dtype.name])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(data=st.data())
def test_floats_are_rounded_once_to_the_nearest(dtype: DType, data: st.DataObject) -> None:
    value = data.draw(floats_near(dtype))
    found = float(round_to(np.asarray(value), dtype))
    assert found == fit(Fraction(value), dtype)
    assert math.copysign(1, found) == math.copysign(1, value)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_is_too_large_becomes_infinite_or_nan(dtype: DType) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        found = round_to(np.array([math.inf, -math.inf, math.nan, LARGEST[dtype.name]]), dtype).astype(float)
    if np.isnan(np.array(math.inf).astype(dtype.numpy())):  # the format has no infinity
        assert np.isnan(found[:3]).all()
    else:
        assert found[0] == math.inf
        assert found[1] == -math.inf
        assert np.isnan(found[2])
    assert found[3] == LARGEST[dtype.name]


@pytest.mark.parametrize("target", FLOATS, ids=str)
@given(source=st.sampled_from(INTEGERS), data=st.data())
def test_integers_are_rounded_once_to_floats(target: DType, source: DType, data: st.DataObject) -> None:
    limit = int(LARGEST[target.name]) if target.exponent_bits < 8 else source.high
    value = data.draw(
        st.integers(max(source.low, -limit), min(source.high, limit)) | odd_integers(source, limit)
    )
    found = float(convert(np.asarray(value, source.numpy()), source, target, "exact"))
    assert found == fit(Fraction(value), target)


def odd_integers(source: DType, limit: int) -> st.SearchStrategy[int]:
    """Integers that are one beside a tie: 2**n + 2**m + 1."""
    powers = st.integers(0, source.bits - 1).map(lambda n: 1 << n)
    numbers = st.tuples(powers, powers, st.sampled_from((-1, 0, 1))).map(sum)
    return numbers.filter(lambda v: v <= min(source.high, limit))


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@given(source=st.sampled_from(INTEGERS), data=st.data())
def test_integers_wrap_and_saturate(target: DType, source: DType, data: st.DataObject) -> None:
    value = data.draw(st.integers(source.low, source.high))
    array = np.asarray(value, source.numpy())
    assert int(convert(array, source, target, "wrap")) == fit(value, target)
    assert int(convert(array, source, target, "sat")) == max(target.low, min(target.high, value))


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@given(value=st.floats(-1e21, 1e21) | st.floats(-300, 300) | st.sampled_from((2.0**63, 2.0**64, -(2.0**63))))
def test_floats_lose_their_fraction_and_wrap_or_saturate(target: DType, value: float) -> None:
    array, whole = np.asarray(value), math.trunc(value)
    assert int(convert(array, F64, target, "wrap")) == fit(whole, target)
    assert int(convert(array, F64, target, "sat")) == max(target.low, min(target.high, whole))


@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_infinities_saturate_and_nan_is_zero(target: DType) -> None:
    found = convert(np.array([math.inf, -math.inf, math.nan]), F64, target, "sat")
    assert found.tolist() == [target.high, target.low, 0]


# --- operations -------------------------------------------------------------------------------------------


def compute(op: str, values: list[int] | list[float], dtype: DType, mode: str | None = None) -> float:
    names = ["a", "b", "c"][: len(values)]
    scalars = {n: np.asarray(v, dtype.numpy()) for n, v in zip(names, values, strict=True)}
    call = Call(op, tuple(Scalar(n, dtype) for n in names), dtype, mode)
    with np.errstate(all="ignore"):
        return evaluate_expr(call, Env(scalars=scalars)).item()


def divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * divide(a, b)


INTEGER_OPS: dict[str, Callable[..., int]] = {
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
    "div": divide,
    "rem": remainder,
    "and": int.__and__,
    "or": int.__or__,
    "xor": int.__xor__,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("op", INTEGER_OPS)
@given(dtype=st.sampled_from(INTEGERS), data=st.data())
def test_integer_operations_wrap_around(op: str, dtype: DType, data: st.DataObject) -> None:
    a, b = (data.draw(st.integers(dtype.low, dtype.high)) for _ in range(2))
    if op in ("div", "rem") and b == 0:
        return
    assert compute(op, [a, b], dtype) == fit(INTEGER_OPS[op](a, b), dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@given(data=st.data())
def test_integer_operations_on_one_value(dtype: DType, data: st.DataObject) -> None:
    a = data.draw(st.integers(dtype.low, dtype.high))
    assert compute("neg", [a], dtype) == fit(-a, dtype)
    assert compute("not", [a], dtype) == fit(~a, dtype)
    assert compute("abs", [a], dtype) == fit(abs(a), dtype)
    assert compute("popcount", [a], dtype) == fit((a % 2**dtype.bits).bit_count(), dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@given(data=st.data())
def test_shifts_multiply_and_divide_by_powers_of_two(dtype: DType, data: st.DataObject) -> None:
    a = data.draw(st.integers(dtype.low, dtype.high))
    n = data.draw(st.integers(0, min(dtype.bits - 1, dtype.high)))
    assert compute("shl", [a, n], dtype) == fit(a << n, dtype)
    assert compute("shr", [a, n], dtype) == a >> n


def rounded(value: Fraction, mode: str) -> int:
    match mode:
        case "even":
            return round(value)
        case "down":
            return math.floor(value)
        case "up":
            return math.ceil(value)
        case "zero":
            return math.trunc(value)
        case _:
            return math.floor(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


@pytest.mark.parametrize("mode", ROUNDING)
@given(dtype=st.sampled_from(INTEGERS), data=st.data())
def test_a_rounding_shift_rounds_the_quotient(mode: str, dtype: DType, data: st.DataObject) -> None:
    a = data.draw(st.integers(dtype.low, dtype.high) | st.integers(max(dtype.low, -40), min(40, dtype.high)))
    n = data.draw(st.integers(0, min(dtype.bits - 1, dtype.high)))
    expected = rounded(Fraction(a, 2**n), mode)
    assert compute("rounding_shift", [a, n], dtype, mode) == fit(expected, dtype)


@pytest.mark.parametrize("mode", ROUNDING)
@given(value=st.floats(-1e6, 1e6) | st.sampled_from((0.5, 1.5, -2.5, 0.49999999999999994, -0.5)))
def test_rounding_has_five_modes(mode: str, value: float) -> None:
    assert compute("round", [value], F64, mode) == rounded(Fraction(value), mode)


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.bits >= 16], ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "sqrt", "fma"])
@given(data=st.data())
def test_float_arithmetic_is_correctly_rounded(op: str, dtype: DType, data: st.DataObject) -> None:
    limit = 100.0 if dtype.name == "f16" else 1e6
    right = st.floats(-limit, limit).filter(lambda v: v == 0 or abs(v) > 1e-3)
    values = [float(round_to(np.asarray(data.draw(right)), dtype)) for _ in range(OPS[op].arity)]
    a, *rest = (Fraction(v) for v in values)
    if op == "div" and not rest[0]:
        return
    if op == "sqrt":
        scale = 4**60  # far more digits than any type has, so that the floor decides no tie
        root = Fraction(math.isqrt(int(abs(a) * scale * 2**64)), 2**60 * 2**32)
        assert compute("sqrt", [abs(values[0])], dtype) == fit(root, dtype)
        return
    exact = {
        "add": lambda: a + rest[0],
        "sub": lambda: a - rest[0],
        "mul": lambda: a * rest[0],
        "div": lambda: a / rest[0],
        "fma": lambda: a * rest[0] + rest[1],
    }[op]()
    assert compute(op, values, dtype) == fit(exact, dtype)


def test_a_fused_product_keeps_what_two_roundings_lose() -> None:
    a = 1 + 2.0**-12
    assert compute("fma", [a, a, -(1 + 2.0**-11)], DTYPES["f32"]) == 2.0**-24
    # the sum is a tie of f32 only in f64: rounding twice would give the other neighbour
    assert compute("fma", [1 + 2.0**-23, 2.0**-24, 1.0], DTYPES["f32"]) == 1 + 2.0**-23
    assert compute("fma", [1e200, 1e200, -math.inf], F64) == -math.inf


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softplus(x: float) -> float:
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


FUNCTIONS: dict[str, Callable[[float], float]] = {
    name: globals().get(name) or getattr(math, name) for name, op in OPS.items() if op.ulp and op.arity == 1
}


@pytest.mark.parametrize("op", FUNCTIONS)
@given(value=st.floats(0.01, 20))
def test_elementwise_functions_are_those_of_python(op: str, value: float) -> None:
    value = value * min(1, OPS[op].takes[1] / 20)
    narrow = float(np.float32(value))
    assert compute(op, [narrow], DTYPES["f32"]) == pytest.approx(FUNCTIONS[op](narrow), rel=2**-23)
    assert compute(op, [value], F64) == pytest.approx(FUNCTIONS[op](value), rel=1e-13)


def test_comparisons_and_select_choose() -> None:
    env = Env(scalars={"a": np.array([1.0, 2.0, 3.0]), "b": np.array([2.0, 2.0, 2.0])})
    a, b = Scalar("a", F64), Scalar("b", F64)
    results = {
        op: evaluate_expr(Call(op, (a, b), DTYPES["bool"]), env).tolist()
        for op in ("lt", "le", "gt", "ge", "eq", "ne")
    }
    assert results == {
        "lt": [True, False, False],
        "le": [True, True, False],
        "gt": [False, False, True],
        "ge": [False, True, True],
        "eq": [False, True, False],
        "ne": [True, False, True],
    }
    smaller = Call("select", (Call("lt", (a, b), DTYPES["bool"]), a, b), F64)
    assert evaluate_expr(smaller, env).tolist() == [1.0, 2.0, 2.0]


def test_an_oracle_rounds_a_float_that_becomes_an_integer() -> None:
    """0.7 in f32 times 10 is 6.99999988, in f32 it is 7: the integer must be that of the declared types."""
    f32 = DTYPES["f32"]
    product = Call("mul", (Const(0.7, f32), Const(10.0, f32)), f32)
    assert evaluate_expr(product, Env(exact=True)) < 7
    truncated = Cast(product, DTYPES["i8"], "sat")
    assert evaluate_expr(truncated, Env(exact=True)) == evaluate_expr(truncated, Env()) == 7
