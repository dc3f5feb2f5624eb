"""Formulas for access counts equal what is counted, at sizes that they were not made for."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from properties.test_access_counts import random_nest
from sympy import Expr, Integer, Symbol

from isamap.ir import Index
from isamap.plan.access_counts import CONVENTIONS, count_accesses, count_issues
from isamap.plan.loop_nest import LoopNest
from isamap.report.closed_forms import closed_forms

NESTS = 60


@pytest.mark.parametrize("seed", range(4))
def test_formulas_give_the_counts_of_other_sizes(seed: int) -> None:
    rng = random.Random(seed)
    known = 0
    for _ in range(NESTS):
        nest = random_nest(rng)
        sizes = {axis: Index.of(f"N{axis}") for axis, _ in nest.axes}
        forms = closed_forms(0, nest, sizes, CONVENTIONS["isamap"])
        assert forms is not None
        other = replace(nest, axes=tuple((axis, rng.randint(1, 9)) for axis, _ in nest.axes))
        assert value(forms.issues, other) == count_issues(other)
        counted = count_accesses(other, CONVENTIONS["isamap"])
        for form, count in zip(forms.counts, counted, strict=True):
            assert (form.level, form.operand, form.tensor) == (count.level, count.operand, count.tensor)
            pairs = (
                (form.reads, count.reads),
                (form.fills, count.fills),
                (form.updates, count.updates),
                (form.drains, count.drains),
            )
            for formula, number in pairs:
                if formula is not None:
                    assert value(formula, other) == number, (nest, other, form)
                    known += bool(formula.free_symbols)
    assert known > 4 * NESTS


def value(formula: Expr, nest: LoopNest) -> int:
    """Return a formula at the sizes of a nest."""
    at = [(Symbol(f"N{axis}", integer=True, nonnegative=True), Integer(n)) for axis, n in nest.axes]
    return int(formula.subs(at))
