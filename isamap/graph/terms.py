"""Values in a kernel's text with their types: elements, numbers, and computed expressions."""

from __future__ import annotations

from math import isnan

import numpy as np

from isamap.ir import DTYPES, round_to
from isamap.source.records import dataclass


class NotTaken(Exception):
    """An exception: no kernel performs a node. It has the reason for users."""


@dataclass(frozen=True, slots=True)
class TextTerm:
    """A value as text. The text of a number is chosen when its type is known."""

    text: str
    dtype: str
    number: float | bool | None = None


def number(value: float | bool) -> TextTerm:
    """Return a Python number as a term, which takes the type of the other operand."""
    if isinstance(value, bool):
        return TextTerm("true" if value else "false", "bool", value)
    return TextTerm("", "i64" if isinstance(value, int) else "f64", value)


def wide_type(dtype: str) -> str:
    """Return the type in which values are computed: f32 for narrower floats, else their own."""
    known = DTYPES[dtype]
    return "f32" if known.is_float and known.bits < 32 else dtype


def cast(term: TextTerm, dtype: str) -> TextTerm:
    """Return a value in another type, as torch and ONNX convert it. Raises: NotTaken."""
    if term.number is not None:
        return TextTerm(_literal(term.number, dtype), dtype)
    if term.dtype == dtype:
        return term
    before, after = DTYPES[term.dtype], DTYPES[dtype]
    if dtype == "bool":
        return TextTerm(f"({term.text} != 0)", dtype)
    if term.dtype == "bool":
        return TextTerm(f"select({term.text}, {dtype}(1), {dtype}(0))", dtype)
    if after.is_float:
        return TextTerm(f"{dtype}({term.text})", dtype)
    if before.is_float:
        return TextTerm(f"sat_{dtype}({term.text})", dtype)
    return TextTerm(f"wrap_{dtype}({term.text})", dtype)


def limit(text: str, bound: str, value: float | None, dtype: str, *, is_upper: bool) -> str:
    """Return the text of a clamped value, with the rules of torch and ONNX for NaN and equal bounds.

    `value` is the bound if it is known. An element equal to its bound stays as it is, so that a zero keeps
    its sign: `max` and `min` of two zeros may be either of them. If one of both is NaN, the result is NaN.
    """
    if value or not DTYPES[dtype].is_float:
        return f"{'min' if is_upper else 'max'}({text}, {bound})"
    beyond = f"{bound} < {text}" if is_upper else f"{text} < {bound}"
    is_nan = f" | {bound} != {bound}" if value is None else ""
    return f"select({beyond}{is_nan}, {bound}, {text})"


def _literal(value: float | bool, dtype: str) -> str:
    """Return a number as a literal of a type, rounded once. Raises: NotTaken."""
    known = DTYPES[dtype]
    if dtype == "bool":
        return "true" if value else "false"
    if not known.is_float:
        whole = int(value)
        if whole != value or not known.low <= whole <= known.high:
            raise NotTaken(f"{value} is not a value of {dtype}")
        return f"{dtype}({whole})"
    if isnan(value):
        raise NotTaken("NaN has no literal")
    with np.errstate(over="ignore"):
        rounded = float(round_to(np.asarray(value, np.float64), known))
    return f"{dtype}({repr(rounded).replace('e+', 'e')})"
