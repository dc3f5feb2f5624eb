"""Copies in the order of lines: which loops run inside which, and that every element is still copied once."""

from __future__ import annotations

from itertools import pairwise

from isamap.ir import DTYPES, Call, Cast, Const, Index, Read
from isamap.lower.program import Declare, Fill, For, If, Issue, MemoryRef, Names, Node, Value
from isamap.lower.staging import AxisLoop, along_rows, by_lines

BF16, F32 = DTYPES["bf16"], DTYPES["f32"]
K, M = Index.of("k"), Index.of("m")
PITCH = 2048


def copied(*counters: str) -> Issue:
    at = sum((Index.of(c) * (PITCH if c.startswith("m") else 2) for c in counters), Index.of(0))
    return Issue("move", (("a", MemoryRef("A", at)),))


def over_rows(rows: int = 64) -> tuple[Node, ...]:
    return (For("m", Index.of(rows), (copied("m", "k"),)),)


def along(trips: Index | int, step_bytes: int = 4, rows: int = 1) -> AxisLoop:
    """Return a loop along rows; each iteration writes pieces of so many rows."""
    return AxisLoop("k", "k", Index.of(trips), step_bytes, step_bytes * rows)


def offsets(nodes: tuple[Node, ...], env: dict[str, int]) -> list[int]:
    """Return the places that nodes copy from, in order."""
    found: list[int] = []
    for node in nodes:
        match node:
            case For(variable, trips, body):
                for iteration in range(trips.evaluate(env)):
                    found += offsets(body, {**env, variable: iteration})
            case If(conditions, body):
                if all(a.evaluate(env) < b.evaluate(env) for a, _, b in conditions):
                    found += offsets(body, env)
            case Issue(_, ((_, MemoryRef(_, offset)),)):
                found.append(offset.evaluate(env))
            case _:
                raise AssertionError(node)
    return found


def lines_visited(nodes: tuple[Node, ...], env: dict[str, int]) -> int:
    """Return how often copying turns to another line of 64 bytes."""
    lines = [place * 2 // 64 for place in offsets(nodes, env)]
    return sum(a != b for a, b in pairwise(lines)) + 1


def test_a_row_is_left_when_its_line_is_done() -> None:
    before: tuple[Node, ...] = (For("k", Index.of(1024), over_rows()),)
    after = by_lines(along(1024), over_rows(), set(), 64, Names(set()))
    assert sorted(offsets(after, {})) == sorted(offsets(before, {}))
    assert lines_visited(before, {}) == 1024 * 64
    assert lines_visited(after, {}) == 1024 * 64 // 16


def test_lengths_that_lines_do_not_divide_are_copied_to_the_end() -> None:
    for trips in (5, 32, 33, 37, 48, 61):
        before: tuple[Node, ...] = (For("k", Index.of(trips), over_rows(3)),)
        after = by_lines(along(trips), over_rows(3), set(), 64, Names(set()))
        assert sorted(offsets(after, {})) == sorted(offsets(before, {})), trips


def test_lengths_that_only_the_run_knows_are_copied_to_the_end() -> None:
    after = by_lines(along(Index.of("K")), over_rows(3), set(), 64, Names(set()))
    for length in (0, 1, 16, 37):
        before: tuple[Node, ...] = (For("k", Index.of(length), over_rows(3)),)
        assert sorted(offsets(after, {"K": length})) == sorted(offsets(before, {}))


def test_a_loop_of_two_lines_at_most_is_not_cut() -> None:
    (rows,) = by_lines(along(6), over_rows(), set(), 64, Names(set()))
    assert isinstance(rows, For)
    assert (rows.variable, rows.trips.value) == ("m", 64)
    (turns,) = rows.body
    assert isinstance(turns, For)
    assert turns.trips.value == 6


def test_long_pieces_keep_the_order() -> None:
    for step_bytes, rows in ((512, 64), (2048, 64), (64, 16)):  # and few rows, which are side by side already
        (loop,) = by_lines(along(8, step_bytes=step_bytes), over_rows(rows), set(), 64, Names(set()))
        assert loop == For("k", Index.of(8), over_rows(rows))


def test_pieces_of_a_few_rows_are_copied_before_those_of_the_next() -> None:
    for trips, rows in ((8, 64), (8, 67), (Index.of("K"), Index.of("M"))):
        body: tuple[Node, ...] = (For("m", Index.of(rows), (copied("m", "k"),)),)
        after = by_lines(along(trips, step_bytes=64), body, set(), 64, Names(set()))
        before: tuple[Node, ...] = (For("k", Index.of(trips), body),)
        for env in ({"K": 8, "M": 67}, {"K": 1, "M": 3}, {"K": 5, "M": 0}):
            assert sorted(offsets(after, env)) == sorted(offsets(before, env))
        rows_of = [place // PITCH for place in offsets(after, {"K": 8, "M": 67})]
        assert rows_of[:9] == [0, 1, 2, 3, 4, 5, 6, 7, 0]
        assert rows_of == sorted(rows_of, key=lambda row: row // 8)


def test_tiles_of_several_rows_are_as_few_as_what_they_write() -> None:
    body: tuple[Node, ...] = (For("m", Index.of(66), (copied("m", "k"),)),)
    after = by_lines(along(8, step_bytes=64, rows=4), body, set(), 64, Names(set()))
    rows_of = [place // PITCH for place in offsets(after, {})]
    assert rows_of[:4] == [0, 1, 0, 1]  # 512 bytes of the buffer, as 8 tiles of one row
    assert rows_of == sorted(rows_of, key=lambda row: row // 2)


def test_rows_of_as_many_as_a_turn_says_stay_inside() -> None:
    dependent: tuple[Node, ...] = (For("m", K + 40, (copied("m", "k"),)),)
    assert by_lines(along(8, step_bytes=64), dependent, set(), 64, Names(set())) == (
        For("k", Index.of(8), dependent),
    )


def test_machines_without_stated_lines_keep_the_order() -> None:
    (loop,) = by_lines(along(8), over_rows(), set(), 0, Names(set()))
    assert loop == For("k", Index.of(8), over_rows())


def test_loops_that_depend_on_the_turn_stay_inside() -> None:
    for dependent in (For("m", K + 1, (copied("m", "k"),)), If(((K, "<", Index.of(3)),), over_rows())):
        (loop,) = by_lines(along(8), (dependent,), set(), 64, Names(set()))
        assert loop == For("k", Index.of(8), (dependent,))


def test_loops_along_the_same_rows_stay_inside() -> None:
    inner: set[str] = set()
    names = Names({"k", "m"})
    near = by_lines(AxisLoop("k", "near", Index.of(6), 2, 2), over_rows(), inner, 64, names)
    after = by_lines(AxisLoop("k", "k", Index.of(2), 12, 12), near, inner, 64, names)
    order: list[int | None] = []
    while isinstance(after[0], For):
        order.append(after[0].trips.value)
        after = after[0].body
    assert order == [64, 2, 6]


def test_values_in_registers_are_made_in_the_turn_that_uses_them() -> None:
    zero = (Declare((Value("z", "zmm", F32, (16,)),)), *over_rows(4))
    (loop,) = by_lines(along(8), zero, set(), 64, Names(set()))
    assert loop == For("k", Index.of(8), zero)


def test_what_is_cleared_is_cleared_before_it_is_filled() -> None:
    fill = Fill("buffer", K * 64, Index.of(64))
    found = by_lines(along(8), (fill, *over_rows()), set(), 64, Names(set()))
    cleared, rows = found
    assert isinstance(cleared, For)
    assert cleared.trips.value == 8
    assert isinstance(cleared.body[0], Fill)
    assert isinstance(rows, For)
    assert rows.variable == "m"


def test_rows_are_those_of_the_last_subscript_alone() -> None:
    m, k, r = (Index.of(f"@{name}") for name in "mkr")
    read = Read("A", (m, k), BF16)
    assert along_rows(Cast(read, F32), "mk") == {"k": 2}
    assert along_rows(Read("A", (k, m), BF16), "mk") == {"m": 2}
    assert along_rows(Read("A", (k, k), BF16), "mk") == {}
    assert along_rows(Read("A", (m, 2 * k + r), BF16), "mkr") == {"r": 2}
    assert along_rows(Read("A", (k,), BF16), "mk") == {}


def test_rows_are_found_through_what_is_computed_of_an_element() -> None:
    m, k = (Index.of(f"@{name}") for name in "mk")
    read = Read("A", (m, k), DTYPES["i8"])
    shifted = Cast(Call("xor", (read, Const(-128, DTYPES["i8"])), DTYPES["i8"]), DTYPES["u8"], "wrap")
    assert along_rows(shifted, "mk") == {"k": 1}
    assert along_rows(Call("add", (read, read), DTYPES["i8"]), "mk") == {}  # of two tensors: whose lines?
