"""What the end of a run says of the instruction sets that its tests tried."""

from __future__ import annotations

from typing import Literal

import pytest
from counted_sets import INSTRUCTION_SET, summary


def report(when: Literal["call", "teardown"], *properties: tuple[str, object]) -> pytest.TestReport:
    return pytest.TestReport("a", ("a", 1, "a"), {}, "passed", None, when, user_properties=properties)


def test_sets_of_several_tests_are_counted_once() -> None:
    first = report("call", (INSTRUCTION_SET, "b 3"), (INSTRUCTION_SET, "a 2"), ("other", "c 1"))
    again = report("call", (INSTRUCTION_SET, "b 3"))
    torn_down = report("teardown", (INSTRUCTION_SET, "d 1"))
    assert summary([first, again, torn_down, "a warning"]) == "2 instruction sets: a 2, b 3"


def test_nothing_is_said_where_none_was_tried() -> None:
    assert summary([report("call")]) == ""
