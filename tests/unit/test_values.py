"""What callers from Python give: which values are numbers, and how messages show the others."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from isamap.source import real_number, show_value, truth_value, whole_number


@pytest.mark.parametrize("value", [4, np.int64(4), np.uint8(4), np.array(4)])
def test_whole_numbers_are_those_of_python_and_numpy(value: object) -> None:
    assert whole_number(value) == 4
    assert real_number(value) == 4.0


@pytest.mark.parametrize(
    "value", [True, np.bool_(True), 4.0, np.float32(4), "4", b"4", None, [4], 4j, np.array([4])]
)
def test_nothing_else_is_a_whole_number(value: object) -> None:
    assert whole_number(value) is None


@pytest.mark.parametrize("value", [True, np.bool_(False), "4.5", b"4", None, [4], 4j, np.array([4.0, 5.0])])
def test_texts_and_truth_values_are_no_numbers(value: object) -> None:
    assert real_number(value) is None


def test_numbers_become_the_nearest_float() -> None:
    assert real_number(Fraction(1, 3)) == 1 / 3
    assert real_number(np.float32(0.1)) == float(np.float32(0.1))
    assert (real_number(10**400), real_number(-(10**400))) == (inf, -inf)


def test_truth_values_are_those_of_python_and_numpy() -> None:
    assert [truth_value(v) for v in (True, np.bool_(False), 1, "True", np.array([True]))] == [
        True, False, None, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.0, "4.0"),
        (None, "None"),
        ("a" * 99, f"'{'a' * 39}…"),
        (10**400, "a number of 1329 bits"),
        (np.float32(1.5), "np.float32(1.5)"),
        (np.bool_(True), "np.True_"),
        ([1], "a list"),
        (np.zeros(3), "an ndarray"),
    ],
)
def test_a_message_shows_numbers_and_short_texts_and_names_what_else_there_is(
    value: object, text: str
) -> None:
    assert show_value(value) == text
