"""Which tests a run takes."""

from __future__ import annotations

from pathlib import Path

from clocked import long_tests
from tiers import SHARE, SHARE_OF_WHOLE, SLOW, SLOWEST, is_drawn, left_out

TESTS = {
    "a.py::test_plain": None,
    "a.py::test_long": 0,
    **{f"a.py::test_cases[{case}]": 2 for case in range(6)},
    "a.py::test_one_case[x]": 3,
}


def test_all_leaves_nothing_out() -> None:
    assert left_out("all", "", TESTS) == set()


def test_the_fast_tier_takes_so_many_cases_as_a_marker_says() -> None:
    taken = set(TESTS) - left_out("fast", "", TESTS)
    assert taken == {
        "a.py::test_plain",
        "a.py::test_cases[2]",
        "a.py::test_cases[5]",
        "a.py::test_one_case[x]",
    }


def test_a_share_is_drawn_in_addition_to_the_fast_tier() -> None:
    many = {f"a.py::test_long[{case}]": 0 for case in range(100 * SHARE)}
    taken = set(many) - left_out("drawn", "one", many)
    assert 60 < len(taken) < 140
    assert taken == set(many) - left_out("drawn", "one", many)
    assert taken != set(many) - left_out("drawn", "another", many)
    assert left_out("drawn", "one", TESTS) <= left_out("fast", "", TESTS)


def test_every_test_is_drawn_sooner_or_later() -> None:
    assert all(any(is_drawn(str(seed), name) for seed in range(20 * SHARE)) for name in TESTS)


def test_what_was_measured_to_take_long_is_left_to_the_other_tiers() -> None:
    slow = "a.py::test_plain"
    assert slow in left_out("fast", "", TESTS, [slow])
    assert slow not in left_out("all", "", TESTS, [slow])


def test_the_slowest_are_never_drawn() -> None:
    slow = "a.py::test_long"
    seed = next(str(seed) for seed in range(1000) if is_drawn(str(seed), slow, SHARE_OF_WHOLE))
    assert slow not in left_out("drawn", seed, TESTS, [slow], [])
    assert slow in left_out("drawn", seed, TESTS, [slow], [slow])


def test_a_slow_test_without_cases_is_drawn_more_often_than_one_case_of_many() -> None:
    seeds = [str(seed) for seed in range(100 * SHARE)]
    whole, case = "a.py::test_plain", "a.py::test_one_case[x]"
    drawn = {n: sum(n not in left_out("drawn", s, {n: None}, [n], []) for s in seeds) for n in (whole, case)}
    assert 60 < drawn[case] < 140
    assert 60 < drawn[whole] * SHARE_OF_WHOLE / SHARE < 140


def test_tests_that_take_long_are_there() -> None:
    root = Path(__file__).parents[2]
    assert SLOWEST <= SLOW
    for name in SLOW:
        path, test = name.split("[")[0].split("::")
        assert f"def {test}(" in (root / path).read_text(), name


def test_long_tests_and_the_longer_cases_of_one_test_are_exhaustive() -> None:
    times = {"a.py::test_long": 2.1, "a.py::test_short": 0.9, "execution/test_tour.py::test_cells": 25.0}
    cases = {"a.py::test[1]": 0.15, "a.py::test[2]": 0.4, "a.py::test[3]": 0.1}
    many = {f"a.py::test_texts[{case}]": 0.1 for case in range(100)}
    assert long_tests(times | cases | many) == {"a.py::test_long", "a.py::test[2]"}
    assert long_tests({"a.py::test[1]": 1.1, "a.py::test[2]": 1.0}) == {"a.py::test[1]"}
    assert long_tests({"properties/test_a.py::test[1]": 1.1, "properties/test_a.py::test[2]": 3.0}) == set()
    assert long_tests({"a.py::test_long": 2.1, "a.py::test_longer": 2.2}) == {"a.py::test_longer"}
    assert long_tests({"a.py::test_long": 31.0, "a.py::test_longer": 32.0}) == {
        "a.py::test_long",
        "a.py::test_longer",
    }
