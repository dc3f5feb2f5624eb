"""A kernel's scalar parameters as the numbers that a compiled program takes, each in its own type.

scalar_value("s", DTYPES["i64"], 2**53 + 1)  ->  9007199254740993, exactly
scalar_value("s", DTYPES["i8"], 200)         ->  refused: it is a whole number from -128 to 127
"""

from __future__ import annotations

from math import isfinite, isnan

import numpy as np

from isamap.ir import DType, round_to
from isamap.source import Diagnostic, UsageProblem, real_number, shown, truth_value, whole_number


def scalar_value(name: str, dtype: DType, given: object) -> int | float:
    """The value in its type: whole numbers and truth values exactly, floats rounded once.

    Raises: UsageProblem for what is no number of the type, or outside its range.
    """
    if dtype.is_float:
        return _float_value(name, dtype, given)
    number, truth = whole_number(given), truth_value(given)
    if dtype.kind == "bool":
        number = number if truth is None else int(truth)
        if number not in (0, 1):
            raise _refused(name, dtype, "True or False", given)
        return number
    if number is None or not dtype.low <= number <= dtype.high:
        raise _refused(name, dtype, f"a whole number from {dtype.low} to {dtype.high}", given)
    return number


def _float_value(name: str, dtype: DType, given: object) -> float:
    """A number rounded to a float type. Infinities and nan are such numbers where the type has them."""
    value = real_number(given)
    if value is None:
        raise _refused(name, dtype, "a number", given)
    with np.errstate(over="ignore"):
        rounded = float(round_to(np.asarray(value, np.float64), dtype))
    is_infinity = rounded == value and whole_number(given) is None
    if isfinite(rounded) or isnan(value) or is_infinity:
        return rounded
    raise _refused(name, dtype, _limits(dtype), given)


def _limits(dtype: DType) -> str:
    return f"a number from {-dtype.largest:.6g} to {dtype.largest:.6g}"


def _refused(name: str, dtype: DType, wanted: str, given: object) -> UsageProblem:
    said = f"`{name}` is {dtype}: {wanted}, not {shown(given)}"
    return UsageProblem(Diagnostic("argument-mismatch", said))
