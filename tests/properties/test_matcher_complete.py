"""The matcher finds every mapping, each once, and nothing else: its set equals that of trying everything.

`ISAMAP_EXAMPLES=5000` compares thousands of pairs; with `ISAMAP_PAIRS=FILE` each pair's numbers of mappings,
complete and fixed, are added to a file.
"""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
from hypothesis import given
from matched import Compared, compare
from properties.random_matches import Pair, pairs

from isamap.source import TypeProblem

PAIRS = max(300, int(os.environ.get("ISAMAP_EXAMPLES", "300")))


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


def _note(found: Compared) -> None:
    if path := os.environ.get("ISAMAP_PAIRS"):
        with Path(path).open("a", encoding="utf-8") as file:
            print(*found.counts, file=file)
