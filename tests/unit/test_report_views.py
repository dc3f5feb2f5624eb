"""How single facts are written in tables: times, shares, axes, counts, changed lines."""

from __future__ import annotations

import pytest

from isamap.machine import load_machine
from isamap.match import AxisGroup, Mapping
from isamap.report.columns import align, indent, shorten
from isamap.report.coverage import cell_text
from isamap.report.kernel_forms import changed_lines
from isamap.report.mapping_facts import NONE, Tally, computing_instructions, total
from isamap.report.mappings import axes_text, time_text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0.25, "0.25 ns"),
        (12.0, "12 ns"),
        (999.4, "999 ns"),
        (1234.0, "1.23 µs"),
        (80300.0, "80.3 µs"),
        (587_000.0, "587 µs"),
        (1_170_000.0, "1.17 ms"),
        (2e9, "2 s"),
        (4e12, "4000 s"),
    ],
)
def test_times_have_three_digits_and_a_unit(ns: float, text: str) -> None:
    assert time_text(ns) == text


def test_axes_stand_in_the_order_of_the_instruction() -> None:
    groups = (AxisGroup(("j",), ("q",)), AxisGroup(("k", "p"), ("c", "r")))
    mapping = Mapping("mma", 0, (), groups, ("i",), "degenerate")
    assert axes_text(mapping, ("i", "j", "k", "p")) == "i ← 1, j ← q, (k, p) ← c.r"
    assert axes_text(mapping) == "j ← q, (k, p) ← c.r, i ← 1"
    assert axes_text(Mapping("mac", 0, (), (), (), "whole")) == "-"


@pytest.mark.parametrize(
    ("tally", "text"),
    [
        (Tally(98), "98"),
        (Tally(0, 2), "0/2"),
        (Tally(0, 0, 42), "0/0/42"),
        (Tally(84, 98, 1), "84/98/1"),
        (Tally(composed=3), "·"),
        (NONE, "·"),
    ],
)
def test_cells_leave_zeros_at_their_end_out(tally: Tally, text: str) -> None:
    assert cell_text(tally) == text


def test_counts_add_up() -> None:
    parts = [Tally(1, 2, 3, 4), Tally(10, 20, 30, 40)]
    assert total(parts) == Tally(11, 22, 33, 44)
    assert total(parts) - parts[0] == parts[1]
    assert not total([])


def test_changed_lines_have_their_numbers() -> None:
    before, after = "a\nb\nc\n", "a\nB\nc\nd\n"
    assert list(changed_lines(before, after)) == ["  2 - b", "  2 + B", "  4 + d"]


def test_tables_are_flush_where_asked() -> None:
    assert align([("name", "n"), ("x", "12")], right=(1,)) == "name   n\nx     12"
    assert align([("a", ""), ("bb", "c")]) == "a\nbb  c"
    assert indent("x\n\ny") == "  x\n\n  y"
    assert (shorten("abcdef", 4), shorten("abcd", 4)) == ("abc…", "abcd")


def test_what_only_arranges_or_converts_does_not_compute() -> None:
    found = computing_instructions(load_machine("x86-amx"))
    assert {"fma_zmm_f32", "max_ymm_f32", "tdpbf16ps", "sum_f32"} <= set(found)
    moves = {
        "load_f32",
        "broadcast_zmm_f32",
        "halves_lo_ymm_f32",
        "cvt_zmm_i8_i32",
        "tilezero_f32",
        "ldtilecfg",
    }
    assert moves.isdisjoint(found)
