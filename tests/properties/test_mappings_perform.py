"""Random mappings performed issue by issue: they compute what the kernel does, and corrupted ones do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import pytest
from conftest import EXAMPLES
from properties.random_mappings import Trial, trials, verdict

from isamap.match import AxisGroup
from isamap.transform import symbols

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_a_mapping_computes_what_its_statement_does(part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(part, EXAMPLES, PARTS):
        for trial in trials(seed):
            found = verdict(trial)
            assert found != "wrong", trial.story()
            counts.update((found, trial.mapping.kind, "made" if trial.pattern.name == "made" else "shipped"))
    if EXAMPLES >= 100:  # all kinds have been tried, and few were left out
        assert min(counts[kind] for kind in ("whole", "made", "shipped")) > 10
        assert counts["split"] + counts["degenerate"] > 10
        assert counts["equal"] > 20 * counts["padding"]


def test_a_corrupted_mapping_computes_something_else() -> None:
    """Unless it hides: steps along an axis of one element, or arrays of equal numbers."""
    caught = tried = 0
    for seed in range(60):  # what is drawn depends on how many kernels and machines ship
        for trial in trials(seed):
            for corrupted in corruptions(trial):
                tried += 1
                caught += verdict(corrupted) != "equal"
    assert tried > 100
    assert caught > 0.8 * tried


def corruptions(trial: Trial) -> Iterator[Trial]:
    """Yield the trial with kernel axes of two groups exchanged, none of which may run where it then does."""
    for one, other in combinations(range(len(trial.cut.groups)), 2):
        groups = list(trial.cut.groups)
        first, second = groups[one], groups[other]
        groups[one] = replace(first, kernel_axes=second.kernel_axes)
        groups[other] = replace(second, kernel_axes=first.kernel_axes)
        if not any(fits(trial, i, k) for g in (groups[one], groups[other]) for i, k in places(g)):
            yield replace(trial, cut=replace(trial.cut, groups=tuple(groups)))


def places(group: AxisGroup) -> Iterator[tuple[str, str]]:
    yield from product(group.instruction_axes, group.kernel_axes)


def fits(trial: Trial, instruction_axis: str, kernel_axis: str) -> bool:
    """Return whether the instruction's axis indexes all that the kernel's does, and the output alike."""
    mine, theirs = trial.pattern.target.index, trial.subject.statement.assign.target.index
    indexes = [any(instruction_axis in i.symbols for i in b.pattern) for b in trial.mapping.bindings]
    needs = [kernel_axis in symbols(b.subject) for b in trial.mapping.bindings]
    alike = any(instruction_axis in i.symbols for i in mine) == any(kernel_axis in i.symbols for i in theirs)
    return alike and all(i or not n for i, n in zip(indexes, needs, strict=True))
