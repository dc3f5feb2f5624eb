"""Check numbers from Python callers, and print other values in messages.

    whole_number(np.int64(4))  ->  4            whole_number(4.0), whole_number(True)  ->  None
    shown(4.0)  ->  "4.0"                       shown([4])  ->  "a list"

Numbers are those of Python and of numpy, which is not imported for that. No text and no truth value is one.

Its sums of floats are equal in every version of Python.

From 3.12 on `sum` compensates rounding errors; numpy, which adds up lower bounds, does not. The price of a
mapping was once below its own lower bound, and the best mapping was left out.

It summarises samples of one quantity without heavy imports, because profiles are read often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import inf
from numbers import Number
from operator import add, index
from statistics import median, quantiles
from typing import SupportsFloat, SupportsIndex, cast

from isamap.source.records import dataclass

BYTES_PER_UNIT = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
"""The bytes of each unit in which descriptions and options may write a memory size."""

_MOST_BITS = 128
_MOST_CHARACTERS = 40


def whole_number(value: object) -> int | None:
    """Return the integer that a value of Python or numpy represents, or None if it is not an integer."""
    if isinstance(value, bool):
        return None
    try:
        return index(cast("SupportsIndex", value))
    except TypeError:
        return None


def real_number(value: object) -> float | None:
    """Return the float nearest to a number, infinite beyond all floats, or None for other values."""
    if truth_value(value) is not None or isinstance(value, str | bytes):
        return None
    try:
        return float(cast("SupportsFloat", value))
    except OverflowError:
        return inf if cast("int", value) > 0 else -inf
    except (TypeError, ValueError):
        return None


def truth_value(value: object) -> bool | None:
    """Return the truth value of a Python or numpy bool, or None for other values."""
    if isinstance(value, bool):
        return value
    is_single = getattr(value, "shape", None) == ()
    return bool(value) if is_single and getattr(getattr(value, "dtype", None), "kind", "") == "b" else None


def show_value(value: object) -> str:
    """Return a value for a message: numbers and short texts as Python writes them, else the type."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    is_single = getattr(value, "shape", None) == ()  # a number of numpy, or an array without axes
    if value is None or is_single or isinstance(value, Number | str | bytes):
        text = repr(value)
        return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def add_up(numbers: Iterable[float]) -> float:
    """Return the sum of numbers, added one by one, with each sum rounded."""
    return reduce(add, numbers, 0)


@dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of one quantity's samples: minimum, quartiles and count. Units: of the quantity or ns."""

    least: float
    low: float
    middle: float
    high: float
    count: int

    @staticmethod
    def of(samples: Sequence[float]) -> Spread:
        """Return the statistics of at least one sample."""
        quarters = quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
        return Spread(min(samples), quarters[0], median(samples), quarters[2], len(samples))
