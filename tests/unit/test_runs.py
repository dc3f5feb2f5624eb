"""Copies of fused axes in runs: the same elements as one by one, each once."""

from __future__ import annotations

from itertools import product

import pytest

from isamap.ir import DTYPES, Index, Read
from isamap.ir.index import ONE
from isamap.machine import load_machine
from isamap.match.moves import scratch_buffers
from isamap.match.moves.scratch_buffers import find_dma, in_runs
from isamap.match.moves.transfers import Copy
from isamap.match.operand_loads.load_request import MoveSearch
from isamap.match.patterns.pattern import Pattern
from isamap.transform import reads

I8 = DTYPES["i8"]


def fused(start: Index, length: int) -> Copy:
    """Return a tile of pixels that begin at `start` of images whose rows have so many, 4 channels each."""
    pixel = start + Index.of("~m")
    value = Read("X", (pixel.floordiv(length) + 1, pixel.mod(length) * 2, Index.of("~c")), I8)
    return Copy(Read("tile", (Index.of("~m"), Index.of("~c")), I8), value, ("~m", "~c"))


def moved(copy: Copy, counts: dict[str, Index], env: dict[str, int]) -> list[tuple[tuple[int, ...], ...]]:
    """Return where each element of a copy comes from and goes to, counter by counter from the first on."""
    points: list[dict[str, int]] = [env]
    for counter in copy.counters:
        points = [{**p, counter: n} for p in points for n in range(counts[counter].evaluate(p))]
    ends = (copy.target, *reads(copy.value))
    return [tuple(tuple(i.evaluate(p) for i in end.index) for end in ends) for p in points]


@pytest.mark.parametrize(("length", "count"), list(product((1, 3, 7, 8, 56), (1, 8, 14, 21))))
@pytest.mark.parametrize("start", [Index.of(0), Index.of(13), Index.of("@m") * 8, Index.of("@m") * 7 + 3])
def test_runs_move_what_single_elements_do(start: Index, length: int, count: int) -> None:
    copy, counts = fused(start, length), {"~m": Index.of(count), "~c": Index.of(4)}
    found = in_runs(copy, counts)
    if length == 1:
        assert found is None, "nothing is divided by 1"
        return
    assert found is not None
    cut, numbers = found
    assert cut.counters == ("~m/", "~m", "~c")
    for at in range(9):
        env = {"@m": at}
        assert moved(cut, numbers, env) == moved(copy, counts, env)


def test_runs_as_long_as_a_row_have_no_bounds_to_keep() -> None:
    cut, numbers = in_runs(fused(Index.of("@m") * 56, 14), {"~m": Index.of(28), "~c": Index.of(4)}) or (
        None,
        {},
    )
    assert cut is not None
    assert (numbers["~m/"], numbers["~m"]) == (Index.of(2), Index.of(14))


@pytest.mark.parametrize(
    "index",
    [
        (Index.of("~m"), Index.of("~m"), Index.of("~c")),
        (Index.of("~m").floordiv(3), Index.of("~m").mod(4), Index.of("~c")),
        ((Index.of("~m") + Index.of("~c")).floordiv(3), Index.of(0), Index.of("~c")),
    ],
    ids=["not divided", "divided twice", "divided with another"],
)
def test_what_is_divided_otherwise_stays(index: tuple[Index, ...]) -> None:
    copy = Copy(Read("tile", (Index.of("~m"), Index.of("~c")), I8), Read("X", index, I8), ("~m", "~c"))
    assert in_runs(copy, {"~m": Index.of(8), "~c": Index.of(4)}) is None


def test_copies_are_laid_over_instructions_of_their_memories_and_types_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = load_machine("edge-npu")
    search = MoveSearch(machine, {"X": (Index.of(64), ONE), "tile": (Index.of(32), ONE)}, {"tile": "acc"})
    dtype, at = DTYPES["i32"], (Index.of("~m"), Index.of("~n"))
    copy = Copy(Read("tile", at, dtype), Read("X", at, dtype), ("~m", "~n"))
    tried: list[Pattern] = []

    def noted(*asked: object) -> None:
        tried.extend(one for one in asked if isinstance(one, Pattern))

    monkeypatch.setattr(scratch_buffers, "_most_at_once", noted)
    assert find_dma(copy, {"~m": Index.of(32), "~n": Index.of(32)}, search) is None
    assert tried, "some instruction brings sums in"
    for pattern in tried:
        assert pattern.output.memory == "acc"
        read = [o.memory for o in pattern.instruction.operands if o.role == "in"]
        assert read in ([], ["dram"]), "a copy out of main memory reads there, or writes a number"
        assert pattern.output.dtype == dtype
