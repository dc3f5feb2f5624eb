"""Sums are those of one addition after the other, under every Python."""

from __future__ import annotations

from random import Random

import numpy as np

from isamap.source import add_up


def test_what_rounding_loses_stays_lost() -> None:
    assert add_up([1e16, 1.0, -1e16]) == 0.0  # `sum` of Python 3.12 says 1


def test_sums_are_those_of_arrays() -> None:
    random = Random(1)
    for _ in range(100):
        numbers = [random.expovariate(1e-3) for _ in range(7)]
        one_by_one = np.float64(0)
        for number in numbers:
            one_by_one = np.add(one_by_one, number)
        assert add_up(numbers) == float(one_by_one)
    assert add_up([]) == 0
