"""Times of bytes in a scratchpad, compared with a list that has one for each byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isamap.simulate.machine_time import Spans

ROOM = 40
BYTES = st.tuples(st.integers(0, ROOM - 1), st.integers(1, ROOM)).map(lambda p: (p[0], min(ROOM, sum(p))))
STEPS = st.lists(st.tuples(st.booleans(), BYTES, st.integers(1, 9)), max_size=30)


@given(STEPS, BYTES)
def test_spans_are_what_a_list_of_bytes_is(
    steps: list[tuple[bool, tuple[int, int], int]], asked: tuple[int, int]
) -> None:
    spans, by_byte = Spans(), [0.0] * ROOM
    for is_set, (begin, end), time in steps:
        (spans.set if is_set else spans.lift)(begin, end, time)
        for byte in range(begin, end):
            by_byte[byte] = float(time) if is_set else max(by_byte[byte], time)
    begin, end = asked
    assert spans.latest(begin, end) == max(by_byte[begin:end])
    found = spans.between(begin, end)
    assert [time for first, last, time in found for _ in range(first, last)] == by_byte[begin:end]


def test_bytes_that_are_set_together_are_one_span_again() -> None:
    spans = Spans()
    for byte in range(64):
        spans.set(byte, byte + 1, float(byte))
    spans.set(0, 64, 70.0)
    assert spans.begins == [0, 64]
