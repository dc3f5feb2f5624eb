"""Scalars of a call: each in its own type, exactly, or refused with the numbers that the type has."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest

import isamap
from isamap.ir import DTYPES
from isamap.run.arguments import scalar_value
from isamap.run.fills import make_scalars
from isamap.source import Source, UsageProblem
from isamap.syntax import parse_kernel

ORS = "kernel ors(N, scalar s: {0}) {{ inout X: {0}[N]; for n in N {{ X[n] = X[n] | s; }} }}"


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("i64", -(2**63), 2**63 - 1),
        ("u64", 0, 2**64 - 1),
        ("i32", -(2**31), 2**31 - 1),
        ("i4", -8, 7),
        ("u8", 0, 255),
    ],
)
def test_whole_numbers_within_the_type_are_exact_and_no_others_are_taken(
    dtype: str, low: int, high: int
) -> None:
    for value in (low, high, high - 1):
        assert scalar_value("s", DTYPES[dtype], value) == value
    for value in (low - 1, high + 1):
        with pytest.raises(UsageProblem) as refused:
            scalar_value("s", DTYPES[dtype], value)
        said = f"`s` is {dtype}: a whole number from {low} to {high}, not {value}"
        assert refused.value.diagnostics[0].message == said


@pytest.mark.parametrize("value", [1.0, 1.5, np.float64(1), nan, True, np.bool_(True), "1", None, [1]])
def test_what_is_no_whole_number_is_refused_where_one_is_required(value: object) -> None:
    with pytest.raises(UsageProblem, match="`s` is i64: a whole number from"):
        scalar_value("s", DTYPES["i64"], value)


def test_floats_are_rounded_once_into_their_type() -> None:
    assert scalar_value("s", DTYPES["f32"], 0.1) == float(np.float32(0.1))
    assert scalar_value("s", DTYPES["bf16"], 1.00390625 + 2**-30) == 1.0078125  # halfway by way of f32
    assert scalar_value("s", DTYPES["f64"], np.float64(0.1)) == 0.1
    assert scalar_value("s", DTYPES["f32"], 3) == 3.0


@pytest.mark.parametrize(
    ("dtype", "value", "largest"),
    [
        ("f64", 10**400, "1.79769e+308"),
        ("f32", 1e300, "3.40282e+38"),
        ("f32", 10**400, "3.40282e+38"),
        ("f16", 70000, "65504"),
        ("bf16", 3.4e38, "3.38953e+38"),
        ("tf32", 3.402e38, "3.40116e+38"),
        ("f8e4m3", 500, "448"),
        ("f8e4m3", inf, "448"),
    ],
)
def test_floats_beyond_their_type_are_refused(dtype: str, value: float, largest: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        scalar_value("s", DTYPES[dtype], value)
    assert f"`s` is {dtype}: a number from -{largest} to {largest}, not " in refused.value.render()


def test_infinities_and_nan_are_numbers_of_floats() -> None:
    assert scalar_value("s", DTYPES["f32"], -inf) == -inf
    assert scalar_value("s", DTYPES["f16"], np.float32(inf)) == inf
    assert isnan(scalar_value("s", DTYPES["bf16"], nan))


@pytest.mark.parametrize("value", ["2.5", True, None, 1j, [2.0]])
def test_what_is_no_number_is_refused_where_a_float_is_required(value: object) -> None:
    with pytest.raises(UsageProblem, match="`s` is f32: a number, not "):
        scalar_value("s", DTYPES["f32"], value)


def test_truth_values_are_true_and_false() -> None:
    assert [scalar_value("s", DTYPES["bool"], v) for v in (True, np.bool_(False), 1, 0)] == [1, 0, 1, 0]
    for value in (2, 0.5, "x", None):
        with pytest.raises(UsageProblem, match="`s` is bool: True or False, not "):
            scalar_value("s", DTYPES["bool"], value)


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(("dtype", "value"), [("i64", 2**53 + 1), ("i64", -(2**63)), ("u64", 2**64 - 1)])
def test_a_program_is_given_every_bit_of_an_integer(dtype: str, value: int, isolate: bool) -> None:
    ors = isamap.compile(ORS.format(dtype), "generic-c", {"N": 3}, isolate=isolate)
    zeros: Any = np.zeros(3, DTYPES[dtype].numpy())
    assert ors(X=zeros, s=value)["X"].tolist() == [value] * 3
    with pytest.raises(isamap.IsamapError, match=f"`s` is {dtype}: a whole number"):
        ors(X=zeros, s=2**64)


def test_scalars_to_verify_with_are_of_their_types() -> None:
    scalars = "scalar a: i64, scalar b: bool, scalar c: f32"
    text = f"kernel k(N, {scalars}) {{ inout X: i64[N]; for n in N {{ X[n] = a; }} }}"
    kernel = parse_kernel(Source("kernel", text))
    made = make_scalars(kernel)
    dtypes = {p.name: p.dtype for p in kernel.params if p.dtype is not None}
    assert {name: scalar_value(name, dtypes[name], value) for name, value in made.items()} == made
