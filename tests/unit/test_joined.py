"""Axes that one counter may count: next to each other in their order, gone through from end to end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from isamap.ir import Index
from isamap.match import find_joined_axes


def chains(order: str, counts: Mapping[str, int], steps: Mapping[str, int | str]) -> list[str]:
    numbers = {axis: Index.of(n) for axis, n in counts.items()}
    return ["".join(c) for c in find_joined_axes(order, numbers, {a: Index.of(s) for a, s in steps.items()})]


FILTER = {"k": 2304, "c": 9, "r": 3, "s": 1}
SIZES = {"k": 64, "c": 256, "r": 3, "s": 3}


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ("kcrs", ["kcrs"]),
        ("crsk", ["crs"]),
        ("kxcrs", ["crs"]),
        ("crxs", ["cr"]),
        ("crsxk", ["crs"]),
        ("srck", []),
        ("csr", []),
        ("s", []),
        ("", []),
    ],
)
def test_chains_follow_the_loop_order(order: str, found: list[str]) -> None:
    assert chains(order, SIZES, FILTER) == found


def test_a_part_of_an_inner_axis_ends_the_row() -> None:
    assert chains("crs", {**SIZES, "s": 2}, FILTER) == ["cr"]
    assert chains("crs", {**SIZES, "r": 2}, FILTER) == ["rs"]
    assert chains("crs", {**SIZES, "c": 5}, FILTER) == ["crs"]


def test_steps_may_be_known_to_the_run_only() -> None:
    assert chains("cr", SIZES, {"c": "F.s1", "r": 1}) == []
    named = Index.of("N")
    steps = {"m": named * 4, "n": Index.of(4)}
    assert list(find_joined_axes("mn", {"m": Index.of(8), "n": named}, steps)) == [("m", "n")]
