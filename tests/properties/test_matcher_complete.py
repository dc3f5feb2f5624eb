"""The matcher finds every mapping, each once, and nothing else: its set equals that of trying everything.

What it finds while sizes are open is there for each of their values.

`ISAMAP_EXAMPLES=5000` compares thousands of pairs; with `ISAMAP_PAIRS=FILE` each pair's numbers of mappings,
complete and fixed, are added to a file.
"""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

import hypothesis
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from matched import Compared, compare, found_without_sizes
from properties.random_matches import MOST_ITERATIONS, Pair, pairs

from isamap.source import TypeProblem

PAIRS = examples(400)


@hypothesis.settings(max_examples=PAIRS)
@given(pairs())
def test_the_matcher_finds_what_trying_everything_finds(pair: Pair) -> None:
    try:
        found = compare(pair.instruction, pair.kernel)
    except TypeProblem:
        hypothesis.reject()  # iterations that are not independent, or subscripts not proved inside
    _note(found)
    assert found.missing == []
    assert found.extra == []
    assert found.twice == []


@hypothesis.settings(max_examples=PAIRS // 3)
@given(pairs(), st.lists(st.integers(2, 4), min_size=5, max_size=5), st.data())
def test_what_is_found_for_open_sizes_is_there_for_all(
    pair: Pair, values: list[int], data: st.DataObject
) -> None:
    sizes = fitting(dict(zip(pair.sizes, values, strict=False)))
    known = [fact for fact in facts(sizes) if data.draw(st.integers(0, 4)) == 0]
    kernel = pair.generic.replace(") {", f") where {', '.join(known)} {{" if known else ") {", 1)
    try:
        found, there = found_without_sizes(pair.instruction, kernel, sizes)
    except TypeProblem:
        hypothesis.reject()
    assert found - there == set()


def facts(sizes: dict[str, int]) -> list[str]:
    """Return what may be said of sizes before they are known."""
    of_one = [f"{n} {said}" for n, v in sizes.items() for said in (f"<= {v}", f"== {v}", f"% {v} == 0")]
    return of_one + [f"{m} <= {n}" for m in sizes for n in sizes if m != n and sizes[m] <= sizes[n]]


def fitting(sizes: dict[str, int]) -> dict[str, int]:
    """Sizes of few iterations: large ones are made smaller from the first on."""
    found = dict(sizes)
    for name in sizes:
        if prod(found.values()) > MOST_ITERATIONS:
            found[name] = 2
    return found


def _note(found: Compared) -> None:
    if path := os.environ.get("ISAMAP_PAIRS"):
        with Path(path).open("a", encoding="utf-8") as file:
            print(*found.counts, file=file)
