"""Sums of floats that are the same under every Python.

From 3.12 on `sum` carries along what rounding loses; numpy, which adds up floors, does not. A price
came to lie below the floor of its own mapping, and the best mapping was left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add


def added(numbers: Iterable[float]) -> float:
    """The sum of numbers, one added after the other, each sum rounded."""
    return reduce(add, numbers, 0)
