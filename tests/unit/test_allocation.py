"""Buffers in memory: the packer against every placement there is, and against public instances."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isamap.plan.placement import PlacedBuffer, check_placement, print_offsets, read_buffers
from isamap.scheduler.memory.allocation import allocate
from isamap.scheduler.memory.placing import place, place_isolated
from isamap.scheduler.memory.skyline import Effort, make_instance, search
from isamap.source import Source

DATA = Path(__file__).resolve().parents[1] / "data" / "minimalloc"
NODES = 100_000


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[PlacedBuffer], int]:
    """Return a few small buffers, and a memory about as large as what lives at one time."""
    buffers: list[PlacedBuffer] = []
    for n in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, 5))
        end = draw(st.integers(start + 1, 6))
        alignment = draw(st.sampled_from([1, 1, 1, 2, 3]))
        buffers.append(PlacedBuffer(f"b{n}", start, end, draw(st.integers(1, 4)), alignment))
    load = max(sum(b.size_bytes for b in buffers if b.start <= t < b.end) for t in range(6))
    return buffers, max(1, load + draw(st.integers(-1, 2)))


def can_be_placed(buffers: list[PlacedBuffer], capacity: int) -> bool:
    """By trying every offset of every buffer."""
    ranges = [range(0, capacity - b.size_bytes + 1, b.alignment_bytes) for b in buffers]
    return any(
        all(
            x.end <= y.start or y.end <= x.start or i + x.size_bytes <= j or j + y.size_bytes <= i
            for n, (x, i) in enumerate(zip(buffers, offsets, strict=True))
            for y, j in list(zip(buffers, offsets, strict=True))[:n]
        )
        for offsets in product(*ranges)
    )


@given(instances())
def test_both_packers_place_what_can_be_placed_and_nothing_else(
    instance: tuple[list[PlacedBuffer], int],
) -> None:
    buffers, capacity = instance
    expected = can_be_placed(buffers, capacity)
    made = make_instance(buffers, capacity)
    for branching in ("fewest", "lowest"):
        effort = Effort(branching, lambda b: b, NODES)
        found = search(made, effort, [0] * made.sections)
        assert (found is not None) == expected
        if found is not None:
            offsets = {b.name: o * made.unit_bytes for b, o in zip(buffers, found, strict=True)}
            assert check_placement(buffers, offsets, capacity) == ()


@pytest.mark.parametrize("seed", range(8))
def test_the_solver_agrees_with_the_packer(seed: int) -> None:
    buffers = [
        PlacedBuffer(
            f"b{n}", (n * 7 + seed) % 9, (n * 7 + seed) % 9 + 1 + (n + seed) % 4, 1 + (n * 5 + seed) % 6
        )
        for n in range(9)
    ]
    load = max(sum(b.size_bytes for b in buffers if b.start <= t < b.end) for t in range(14))
    for capacity in (load, load + 1):
        made = make_instance(buffers, capacity)
        packed = search(made, Effort("fewest", lambda b: b, NODES), [0] * made.sections)
        solved = place(made, 10.0, 10.0)
        assert (solved == "none") == (packed is None)


@pytest.mark.exhaustive(fast=4)
@pytest.mark.parametrize("letter", "ACFK")
@pytest.mark.parametrize("mirrored", [False, True])
def test_public_instances_fit_into_their_memory(letter: str, mirrored: bool) -> None:
    path = DATA / f"{letter}.1048576.csv"
    buffers = list(read_buffers(Source(path.name, path.read_text())).buffers)
    if mirrored:
        buffers = [PlacedBuffer(b.name, -b.end, -b.start, b.size_bytes) for b in reversed(buffers)]
    found = allocate(buffers, 1048576, 120)
    assert found.status == "PLACED"
    assert check_placement(buffers, found.offsets, 1048576) == ()


def test_the_answer_does_not_depend_on_the_run() -> None:
    path = DATA / "C.1048576.csv"
    buffers = read_buffers(Source(path.name, path.read_text())).buffers
    assert allocate(buffers, 1048576).offsets == allocate(buffers, 1048576).offsets


def test_a_memory_below_the_load_is_refused_at_once() -> None:
    path = DATA / "example.12.csv"
    buffers = read_buffers(Source(path.name, path.read_text())).buffers
    found = allocate(buffers, 11)
    assert (found.status, found.method, found.load_bytes) == ("INFEASIBLE", "load", 12)


def test_gaps_that_cannot_be_avoided_are_proved() -> None:
    # a and c live beside b at different times, so that b has to lie above or below both.
    buffers = [
        PlacedBuffer("a", 0, 2, 3),
        PlacedBuffer("b", 1, 3, 2),
        PlacedBuffer("c", 2, 4, 4),
        PlacedBuffer("d", 0, 1, 3),
    ]
    buffers += [PlacedBuffer("e", 3, 4, 2)]
    assert allocate(buffers, 6).status == "PLACED"
    aligned = [PlacedBuffer("a", 0, 2, 3, 1), PlacedBuffer("b", 0, 2, 2, 4)]
    assert allocate(aligned, 5).status == "PLACED"  # b at 0, a behind it
    assert allocate([PlacedBuffer("a", 0, 2, 3, 4), PlacedBuffer("b", 0, 2, 2, 4)], 5).status == "INFEASIBLE"


def test_a_solver_that_fails_knows_nothing() -> None:
    made = make_instance([PlacedBuffer("a", 0, 1, 1)], 1)
    assert place_isolated(made, 5.0, 1.0) == (0,)
    assert place_isolated(made, 5.0, 1.0, command=("false",)) == "unknown"
    assert place_isolated(made, 5.0, 1.0, command=("true",)) == "unknown"


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ({"a": 0, "b": 4}, ()),
        ({"a": 0, "b": 2}, ("a and b overlap while both live",)),
        ({"a": 5, "b": 0}, ("a is at 5 to 9, outside of 8 bytes",)),
        ({"a": -1, "b": 4}, ("a is at -1 to 3, outside of 8 bytes",)),
        ({"a": 4, "b": 1}, ("b is at 1, not a multiple of 2", "a and b overlap while both live")),
        ({"a": 0}, ("b has no place",)),
    ],
)
def test_the_checker_says_what_is_wrong(offsets: dict[str, int], said: tuple[str, ...]) -> None:
    buffers = [PlacedBuffer("a", 0, 3, 4), PlacedBuffer("b", 2, 5, 4, 2)]
    assert tuple(f.message for f in check_placement(buffers, offsets, 8)) == said


def test_a_table_keeps_its_other_columns() -> None:
    text = "size,id,note,offset,upper,lower\n4,a,x,9,3,0\n\n4,b,y,9,5,3\n"
    table = read_buffers(Source("t.csv", text))
    assert [b.name for b in table.buffers] == ["a", "b"]
    printed = print_offsets(table, {"a": 0, "b": 4})
    assert printed == "size,id,note,upper,lower,offset\n4,a,x,3,0,0\n4,b,y,5,3,4\n"
