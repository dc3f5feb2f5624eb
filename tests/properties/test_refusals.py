"""Of random pairs: an instruction performs a statement or is refused, and a fix makes it perform it."""

from __future__ import annotations

import hypothesis
from hypothesis import given
from hypothesis import strategies as st
from properties.random_matches import Pair, pairs
from refusing import machine

from isamap.ir import Kernel
from isamap.machine import Machine
from isamap.match import find_mappings, fixes, refusals
from isamap.match.refusals.rejection import REMARKS
from isamap.source import Source, TypeProblem, apply_edits
from isamap.syntax import parse_kernel


@hypothesis.settings(max_examples=120)
@given(pairs(), st.booleans())
def test_what_does_not_perform_a_statement_is_refused_and_what_is_fixed_performs_it(
    pair: Pair, is_open: bool
) -> None:
    text = pair.generic if is_open else pair.kernel
    try:
        routine = parse_kernel(Source("kernel.ir", text))
        on = machine(pair.instruction)
    except TypeProblem:
        hypothesis.reject()  # iterations that are not independent, or subscripts not proved inside
    name = list(on.instructions)[-1]
    found = [r for r in refusals(routine, on) if r.instruction == name]
    if performs(routine, on, name):
        assert [r.reason for r in found if r.reason not in REMARKS] == []
    else:
        assert len(found) == 1
    for fix in fixes(routine, on, found):
        assert apply_edits(text, fix.edits) == fix.text
        assert performs(parse_kernel(Source("kernel.ir", fix.text)), on, name)


def performs(routine: Kernel, on: Machine, name: str) -> bool:
    """Return whether the instruction has a mapping that leaves none of its axes empty."""
    return any(m.instruction == name and m.kind != "degenerate" for m in find_mappings(routine, on))
