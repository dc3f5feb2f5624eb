"""Choose the tests of a run: the fast tier, the fast tier and a share of the others, or all.

The fast tier leaves out the tests marked `exhaustive`. Of the cases of one parametrised test with the mark
`exhaustive(fast=3)`, it takes three, spread evenly over them. The tier `drawn` adds some of the others,
drawn by a seed and the test's name: the same seed takes the same tests. Tests that were measured to
take long stand in `slow.txt` and are exhaustive, too (clocked.py); those behind a `!` there are never drawn.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

TIERS = ("fast", "drawn", "all")
SHARE, SHARE_OF_WHOLE = 80, 8
"""A run draws one exhaustive test in so many: of cases, and of tests in `slow.txt` that are no case of another.

All exhaustive tests together take about 6,500 s of processor time. The share that is drawn takes about 180 s.
"""

# What a marker says: how many cases of its test are fast; None where a test has no such marker.
FastCases = Mapping[str, int | None]


_LINES = (Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines()
SLOW = frozenset(line.removeprefix("! ") for line in _LINES)
SLOWEST = frozenset(line.removeprefix("! ") for line in _LINES if line.startswith("! "))


def left_out(
    tier: str,
    seed: str,
    tests: FastCases,
    slow: Iterable[str] = SLOW,
    slowest: Iterable[str] = SLOWEST,
) -> set[str]:
    """Names of the tests that a run of this tier does not take."""
    assert tier in TIERS
    if tier == "all":
        return set()
    exhaustive = _beyond_the_fast(tests) | (tests.keys() & set(slow))
    if tier == "fast":
        return exhaustive
    whole = {name for name in slow if "[" not in name}
    return {
        name
        for name in exhaustive
        if name in slowest or not is_drawn(seed, name, SHARE_OF_WHOLE if name in whole else SHARE)
    }


def is_drawn(seed: str, name: str, share: int = SHARE) -> bool:
    """Return whether this seed draws a test, of which it draws one in `share`."""
    return zlib.crc32(f"{seed} {name}".encode()) % share == 0


def _beyond_the_fast(tests: FastCases) -> set[str]:
    """Names of the marked tests, but for those cases that the fast tier takes."""
    marked = [name for name, fast in tests.items() if fast is not None]
    return {
        name
        for cases in _grouped(marked, lambda name: name.partition("[")[0]).values()
        for name in set(cases) - set(_spread(cases, tests[cases[0]] or 0))
    }


def _grouped(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    """Names by what they have in common, in their order."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[key(name)].append(name)
    return groups


def _spread(cases: Sequence[str], count: int) -> list[str]:
    """So many of the cases, evenly apart."""
    total = len(cases)
    return [case for i, case in enumerate(cases) if (i + 1) * count // total > i * count // total]
